"""A connecting rod that bends and stretches.

The flexible slider-crank of the IVP test set, with the rod's physical axial mass: a steel rod of 30 cm on a crank that
turns at 150 rad/s. What to learn: a flexible body is a body; its far end is a frame ``rod/tip`` to which the slider is
hinged, and the guide closes the loop at the bent rod (28 to 30 build such models). The straight start has a closed
form, and the first acceleration meets it.
"""

import numpy as np
from picture import BLUE, ORANGE, save, subplots

import whippletree as wt

SPEED = 150.0
model = wt.mechanisms.flexible_slider_crank(SPEED)
print(f"joints: {', '.join(joint.name for joint in model.joints)}")

dyn, q = wt.compile(model), model.home.q
v = dyn.project_velocity(q, np.array([SPEED, -1.5 * SPEED, 0, 0, 0, 0, 0.5 * SPEED]), 0.0)
a = dyn.forward_dynamics(q, v, dyn.passive_forces(q, v), 0.0)
print(f"accelerations of the axial shapes at the start: {a[4]:.4f} and {a[5]:.4f} m/s² (4668.75 and 4837.5)")

run = wt.simulate(model, q, v, duration=0.03, rtol=1e-6, atol=1e-8, output_dt=1e-4)
modes = run.q.values[:, model.q_slice("rod/modes")]
figure, (upper, lower) = subplots(2, 1, width=8.0, height=5.0, sharex=True)
upper.plot(run.time * 1e3, modes[:, 0] * 1e3, color=BLUE, label="sin πx")
upper.plot(run.time * 1e3, modes[:, 1] * 1e3, color=ORANGE, label="sin 2πx")
upper.set(title="bending of the rod", ylabel="mm")
upper.legend()
lower.plot(run.time * 1e3, modes[:, 3] * 1e6, color=BLUE)
lower.set(title="how much longer the rod is", xlabel="time, ms", ylabel="µm")
save(figure, model, run)
