"""Andrews' squeezer: a stiff benchmark with three loops.

Seven small bodies, one motor and one stiff spring: the crank turns twice in 30 ms and passes 1000 rad/s. It is a test
problem for integrators of mechanisms, with published digits at the end. What to learn: motors are controllers, springs
belong to joints (here a leg without mass), and the adaptive method keeps the loops closed to rounding while it finds
eight digits of the published answer.
"""

import numpy as np
from picture import BLUE, GREEN, RED, save, subplots

import whippletree as wt

model = wt.mechanisms.andrews()
motor = wt.controllers.motor(model, "beta", 0.033)  # N m
run = wt.simulate(model, duration=0.03, controller=motor, output_dt=1e-4, rtol=1e-10)

published = {"beta": 15.81077119629904, "theta": -15.75637105984298, "gamma": 0.04082224013073101}
for joint, angle in published.items():
    found = float(run.q[-1, model.q_slice(joint)].item())
    print(f"{joint:6s} {found:.12f}   published {angle:.12f}   difference {found - angle:+.0e}")
print(f"loops closed to {np.abs(run.constraint_residual).max().item():.0e} m")

figure, (left, right) = subplots(1, 2, width=10, height=3.8)
wt.plot(run, "strobe", model=model, count=7, ax=left, layers=("bodies", "massless links", "closures"))
left.set_title("seven instants of 30 ms")
milliseconds = 1e3 * run.time
for joint, name, color in (("gamma", "γ", BLUE), ("delta", "δ", RED), ("epsilon", "ε", GREEN)):
    right.plot(milliseconds, run.q[:, model.q_slice(joint)], color=color, label=f"{name}, rad")
right.plot(milliseconds, run.v[:, model.slice("beta")] / 1000, color="0.4", linestyle="--", label="β̇, 1000 rad/s")
right.set(title="the arms squeeze while the crank runs away", xlabel="time, ms")
right.legend(loc="upper left", bbox_to_anchor=(1, 1))
save(figure)
