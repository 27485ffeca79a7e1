"""A connecting rod that bends and stretches.

The flexible slider-crank of the IVP test set, with the rod's physical axial mass: a steel rod of 30 cm on a crank that
turns at 150 rad/s. What to learn: a flexible body is a body; its far end is a frame ``rod/tip`` to which the slider is
hinged, and the guide closes the loop at the bent rod. Shapes may be given as functions. The straight start has a
closed form, and the first acceleration meets it.
"""

import numpy as np
from picture import BLUE, ORANGE, save, subplots

import whippletree as wt

LENGTH, SIDE, E, RHO, SPEED = 0.3, 0.008, 2e11, 7870.0, 150.0
rod = wt.flexible.beam(
    length=LENGTH,
    mass_per_length=RHO * SIDE**2,
    bending_stiffness=E * SIDE**4 / 12,
    axial_stiffness=E * SIDE**2,
    rotary_inertia=RHO * SIDE**4 / 12,
    shapes={
        "y": [lambda x: np.sin(np.pi * x / LENGTH), lambda x: np.sin(2 * np.pi * x / LENGTH)],
        "x": [lambda x: 4 * x / LENGTH * (1 - x / LENGTH), lambda x: x / LENGTH * (2 * x / LENGTH - 1)],
    },
)
builder = wt.Builder("flexible slider-crank", (0, 0, 0)).body("crank", 1.0, inertia=(0.1, 0.1, 0.1))
builder.flexible_body("rod", rod).body("slider", 0.075552, inertia=(1e-5, 1e-5, 1e-5))
builder.joint("drive", "revolute", "world", "crank").joint("knee", "revolute", "crank", "rod", position=(0.15, 0, 0))
builder.joint("wrist", "revolute", "rod/tip", "slider").constraint("guide", "slider", "world", "slider", axis=(1, 0, 0))
builder.constraint("turn", "prescribed", "drive", motion=lambda t: SPEED * t)
model = builder.build()

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
