"""A quadruped drops onto its feet.

Twelve joints with springs, a free trunk, four feet on a floor with friction, dropped with a tilt and a push to the
side. What to learn: time stepping (``method="time_stepping"``) finds all impulses of a step at once, sticking and
sliding alike, without looking for events. The four feet are hyperstatic; velocities are unique all the same. And the
result says how well it is solved: the residual of the contact problem, the overlap, the energy balance.
"""

import numpy as np
from picture import PALETTE, save, subplots

import whippletree as wt

dog = wt.mechanisms.quadruped(height=0.12, stiffness=60.0, damping=1.2, friction=0.6)
q0, v0 = dog.home.q.copy(), np.zeros(dog.nv)
q0[3:7] = np.cos(0.1), np.sin(0.1), 0, 0  # rolled by 0.2 rad
v0[3:6] = 0.6, 0.5, 0.0
run = wt.simulate(dog, q0, v0, duration=0.9, method="time_stepping", step=1e-3, output_dt=5e-3)
assert not run.attrs["failure"]
print(f"largest overlap {float(run.penetration.max()):.1e} m, residual {float(run.residual_velocity.max()):.1e} m/s")

figure, (left, right) = subplots(1, 2, width=9.5, height=3.9)
wt.plot(run.isel(time=slice(0, 121)), "strobe", model=dog, count=4, ax=left, layers=("bodies", "massless links"))
left.set_title("0.6 s: from the air, tilted, onto four feet")
feet = [name.removesuffix(" foot on ground").replace("_", " ") for name in wt.contact_set(dog).names]
for k, foot in enumerate(feet):
    right.plot(run.time, run.contact_force[:, k, 0], color=PALETTE[k], label=foot)
weight = 9.81 * sum(body.mass for body in dog.bodies)
right.axhline(weight / 4, color="0.4", linestyle=":", label="a quarter of the weight")
right.set(title="normal force of each foot", xlabel="time, s", ylabel="N")
right.legend()
save(figure)
