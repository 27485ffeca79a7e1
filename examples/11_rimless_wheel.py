"""A rimless wheel finds its gait.

Spokes instead of a rim: it falls from spoke to spoke down a slope, loses energy at each touchdown, and ends up at the
same speed wherever it started. What to learn: hybrid motion with contacts that change at events, plastic impacts that
release the old spoke, and a check that everyone should make: the speed after each impact against the closed form
ω⁺ = ω⁻ (m l² cos 2α + I) / (m l² + I), and the limit cycle against the fixed point of the step-to-step map.
"""

import numpy as np
from picture import PALETTE, save, subplots

import whippletree as wt

spokes, slope, inertia, g = 8, 0.08, 0.1, 9.81
alpha = np.pi / spokes
keep = (np.cos(2 * alpha) + inertia) / (1 + inertia)  # share of the rate that survives an impact

# the fixed point of the map from impact to impact: what gravity gives in a step is what the impact takes
gain = 4 * g * np.sin(alpha) * np.sin(slope) / (1 + inertia)  # growth of ω² per step
limit = -keep * np.sqrt(gain / (1 - keep**2))

figure, (left, right) = subplots(1, 2, width=9.5, height=3.8, width_ratios=[1.5, 1])
wheel = wt.mechanisms.rimless_wheel(spokes, slope=slope, hub_inertia=inertia, rate=-1.0)
dyn = wt.compile(wheel)  # shared by all runs
for color, rate in zip(PALETTE, (-1.2, -1.8, -2.5)):
    v0 = -rate * wheel.home.v
    run = wt.simulate(wheel, v0=v0, duration=7.0, method="events", output_dt=0.01, compiled=dyn)
    assert not run.attrs["failure"]
    turn, spin = run.q[:, 2].values, run.v[:, 2].values
    left.plot(run.time, spin, color=color, label=f"starts at {rate:g} rad/s")
    within = (turn + alpha) % (2 * alpha) - alpha  # from one touchdown to the next
    steps = np.split(np.arange(len(turn)), np.flatnonzero(np.abs(np.diff(within)) > alpha) + 1)
    for part in steps:
        right.plot(within[part], spin[part], color=color, linewidth=1)
    _, *sides = wt.event_states(run)  # just before and just after each event
    before, after = (states[:, -1] for states in sides)
    error = np.abs(after - keep * before).max()
    print(f"from {rate:g} rad/s: {len(after)} impacts by the closed form to {error:.0e}, the last to {after[-1]:.4f}")
print(f"fixed point: {limit:.4f} rad/s")
left.axhline(limit, color="0.3", linestyle=":", label=f"closed form, after an impact: {limit:.3f}")
left.set(title="angular rate", xlabel="time, s", ylabel="rad/s")
left.legend(loc="lower right", ncols=2)
right.set(title="all steps on top of each other", xlabel="angle of the standing spoke, rad", ylabel="rad/s")
save(figure)
