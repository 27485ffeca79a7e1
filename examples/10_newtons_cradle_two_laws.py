"""Newton's cradle under two laws of impact.

Five balls in a row, one comes in. Rigid-body mechanics alone does not say what leaves: an impact law has to. Newton's
law at all contacts at once throws the whole row forward and the first ball back; impulses that travel from contact to
contact send off the last ball alone, as everyone has seen. What to learn: both conserve momentum and energy, both are
right for their law, and the law is a named argument (``impact_law``) rather than a property of the code.
"""

import numpy as np
from picture import PALETTE, save, subplots

import whippletree as wt

cradle = wt.mechanisms.newtons_cradle(5)
laws = {"newton": "Newton's law, all contacts at once", "sequential": "one contact after the other"}

figure, panels = subplots(1, 2, width=9.5, height=3.8, sharey=True)
for axes, (law, title) in zip(panels, laws.items()):
    run = wt.simulate(cradle, duration=0.6, method="events", impact_law=law, output_dt=0.005)
    for k in range(5):
        axes.plot(0.25 * k + run.q[:, k], run.time, color=PALETTE[k], linewidth=2.5)
        axes.plot(0.25 * k + run.q[-1, k], run.time[-1], "o", color=PALETTE[k], markersize=17, clip_on=False)
    after = run.v[-1].values
    axes.set(title=title, xlabel="place, m", ylim=(0, 1.1 * float(run.time[-1])))
    print(f"{law:10s} leaves {np.round(after, 6) + 0.0}, momentum {after.sum():.6f}, energy {after @ after / 2:.6f} J")
panels[0].set_ylabel("time, s")
save(figure)
