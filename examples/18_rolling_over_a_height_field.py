"""Rolling over a height field.

A ball, a barrel and an egg are let go on hills that are given as heights on a grid, as a survey or a depth camera gives
them. What to learn: a ``height_field`` is the smooth spline through its heights, so that normals and their rates are
continuous where a wheel passes from cell to cell; every shape may touch it; and the same model could say
``terrain`` with a function instead. Time stepping finds the impulses of all candidate points of a step at once: the
rolling point of each rim of the barrel is one of them, whichever material point that is.
"""

import numpy as np
from picture import BLUE, GREEN, RED, save, subplots

import whippletree as wt

x = np.linspace(-2, 2, 33)
heights = 0.25 * np.cos(1.6 * x)[:, None] * np.cos(1.2 * x) - 0.12 * x[:, None]
field = {"heights": heights, "cell": (x[1] - x[0],) * 2}

builder = wt.Builder("downhill").geometry("hills", "world", "height_field", **field)
things = {
    "ball": ("sphere", {"radius": 0.1}, (0.15, 0.6, 0.45), (0.004,) * 3, BLUE),
    "barrel": ("cylinder", {"radius": 0.1, "length": 0.3}, (0.1, -0.2, 0.42), (0.0085, 0.0085, 0.005), RED),
    "egg": ("ellipsoid", {"radii": (0.12, 0.12, 0.16)}, (0.2, -0.9, 0.4), (0.008, 0.008, 0.006), GREEN),
}
for name, (kind, size, place, inertia, _) in things.items():
    turn = (np.sqrt(0.5), np.sqrt(0.5), 0, 0)  # axes of barrel and egg lie along y
    builder.body(name, 1.0, inertia=inertia).joint(name, "free", "world", name, start=(*place, *turn))
    builder.geometry(name, name, kind, **size).contact(f"{name} on hills", name, "hills", friction=0.6)
model = builder.build()

run = wt.simulate(model, duration=1.2, method="time_stepping", step=2e-3, output_dt=0.02)
assert not run.attrs["failure"]
print(f"largest overlap {float(run.penetration.max()):.1e} m, residual {float(run.residual_velocity.max()):.1e} m/s")

figure, (left, right) = subplots(1, 2, width=9.5, height=4.2)
wt.plot(run, "strobe", model=model, count=5, ax=left, layers=("bodies", "ground"))
left.set_title("five instants")
right.contour(x, x, heights.T, levels=18, colors="0.75", linewidths=0.8)
for name, (*_, color) in things.items():
    place = run.q[:, model.q_slices[model.joint_index(name)]]
    right.plot(place[:, 0], place[:, 1], color=color, label=name)
    right.plot(place[0, 0], place[0, 1], "o", color=color)
right.set(title="from above, with lines of equal height", xlabel="x, m", ylabel="y, m", aspect="equal")
right.legend()
save(figure)
