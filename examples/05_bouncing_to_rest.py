"""Infinitely many bounces in finite time.

A ball that keeps seven tenths of its speed at each bounce bounces infinitely often before it lies still, all within
√(2h/g) (1 + e)/(1 − e) seconds. What to learn: events are located, not stepped over, so bounce after bounce matches its
closed form to rounding; and the end of such a sequence is recognised and ends in contact, by a rule that is an
argument, not a trick.
"""

import numpy as np
from picture import BLUE, RED, save, subplots

import whippletree as wt

h, e, g = 1.0, 0.7, 9.81
ball = wt.mechanisms.bouncing_ball(height=h, restitution=e)
run = wt.simulate(ball, duration=3.0, method="events", output_dt=0.002)
assert not run.attrs["failure"]

found = np.array([t for name, t in zip(run.attrs["event_names"], run.attrs["event_times"]) if "touchdown" in name])
n = np.arange(len(found))
exact = np.sqrt(2 * h / g) * (1 + 2 * e * (1 - e**n) / (1 - e))  # touchdown n
zeno = np.sqrt(2 * h / g) * (1 + e) / (1 - e)
print(f"{len(found)} bounces until {found[-1]:.6f} s; all infinitely many end at {zeno:.6f} s")

figure, (left, right) = subplots(1, 2, width=9.5, height=3.6)
left.plot(run.time, run.q[:, 0], color=BLUE)
left.axvline(zeno, color=RED, linestyle=":", label="the Zeno time")
left.set(title="height of the ball", xlabel="time, s", ylabel="m")
left.legend()
right.semilogy(n, zeno - exact, "o-", color=BLUE, label="time left until the Zeno time, s")
right.semilogy(n, np.maximum(np.abs(found - exact), 1e-17), "s", color=RED, label="error of the event's time, s")
right.set(title="bounce after bounce, against the closed form", xlabel="bounce")
right.legend()
save(figure)
