"""Running on a leg without mass.

A point mass on a spring: the simplest model of running. The leg and the foot have no mass, so touchdown and lift-off
take no energy, and swinging the leg in flight costs nothing: it is put back at each apex. What to learn: contact by
events (``method="events"``), each located to rounding; what is massless and touches nothing is held, by the rule of the
source document; and with a leg angle of 22° the runner settles into a gait by itself.
"""

import numpy as np
from picture import BLUE, ORANGE, RED, save, subplots

import whippletree as wt

attack, g = np.radians(22), 9.81
runner = wt.mechanisms.hopper(height=1.0, speed=5.0, attack=attack, stiffness=20e3, mass=80.0, friction=10.0)
up = runner.slice("y").start
apex = wt.Event("apex", lambda t, q, v: v[up], direction=-1, terminal=True)

figure, (above, below) = subplots(2, 1, width=9, height=3.6, height_ratios=[1.3, 1])
q, v, begun, heights = runner.home.q, runner.home.v, 0.0, [1.0]
for _ in range(7):
    run = wt.simulate(runner, q, v, duration=2.0, method="events", events=(apex,), output_dt=0.005)
    assert not run.attrs["failure"]
    x, y, swing, leg = run.q.values.T
    stance = run.contact_gap[:, 0].values < 1e-6
    above.plot(x, y, color=BLUE, linewidth=2)
    for k in np.flatnonzero(stance)[::6]:  # the foot is at the end of the leg
        above.plot([x[k], x[k] + leg[k] * np.sin(swing[k])], [y[k], y[k] - leg[k] * np.cos(swing[k])], color="0.7")
    below.plot(begun + run.time, run.contact_force[:, 0, 0] / 1000, color=RED)
    # from the last row to the apex the mass flies freely; there the leg is put back
    rest = run.attrs["event_times"][-1] - run.time[-1].item()
    vx, vy = run.v[-1, :2].values
    q = np.array([x[-1] + vx * rest, y[-1] + vy * rest - g / 2 * rest**2, attack, 1.0])
    v = np.array([vx, 0.0, 0.0, 0.0])
    begun += run.attrs["event_times"][-1]
    heights.append(q[1])
    above.plot(*q[:2], "o", color=ORANGE, zorder=3)
print("apex heights, m:", np.round(heights, 4), "- a gait that settles")
above.axhline(0, color="0.3", linewidth=2)
above.set(title="a massless leg, put back at each apex (dots)", xlabel="x, m", ylabel="y, m", aspect="equal")
below.set(title="force of the ground, kN", xlabel="time, s", ylim=(0, None))
save(figure)
