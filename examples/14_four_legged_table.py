"""Who carries the load? A table with four legs.

Four legs on a rigid floor are one too many: statics alone cannot say how they share a load. What to learn: redundant
rows are found and named (``wt.diagnose``), left out of the solution, and never regularised away. The motion does not
depend on which row is left out; the forces do, and so sharing them is a question that you answer, with weights:
``constraint_forces_least_norm``. Softer legs are dearer to load, and get less.
(These legs are glued to the floor, which may pull; a contact could not.)
"""

import numpy as np
from picture import PALETTE, save, subplots

import whippletree as wt

half, load = 0.5, 20.0
builder = wt.Builder("table").body("top", 10.0, inertia=(1, 1, 2)).joint("top", "free", "world", "top")
builder.body("load", load).joint("along", "prismatic", "top", "load", axis=(1, 1, 0))  # slides along a diagonal
corners = {
    "front left": (half, half),
    "front right": (half, -half),
    "back left": (-half, half),
    "back right": (-half, -half),
}
for name, (x, y) in corners.items():
    builder.frame(f"{name} leg", "top", position=(x, y, 0))
    builder.constraint(name, "point_on_plane", "world", f"{name} leg", normal=(0, 0, 1))
builder.constraint("in place", "custom", "top", residual=lambda X: [X[0, 3], X[1, 3], X[1, 0]], rows=("x", "y", "turn"))
builder.constraint("load in place", "hold", "along")
table = builder.build()
print(wt.diagnose(table))

system = wt.constraint_set(table)
rows = [k for k, name in enumerate(system.row_names) if name.split(".")[0] in corners]
dyn = wt.compile(table)
places = np.linspace(-0.6, 0.6, 49)
q = np.tile(table.home.q, (len(places), 1))
q[:, -1] = places
zero = np.zeros(table.nv)

even = np.ones(len(system.row_names))
soft = even.copy()
soft[rows[0]] = 4.0  # a force on this leg counts four times
panels = {
    "one solution: a leg left out": dyn.constraint_forces(q, zero, zero),
    "least norm, equal legs": dyn.constraint_forces_least_norm(q, zero, zero, even),
    "least norm, front left is soft": dyn.constraint_forces_least_norm(q, zero, zero, soft),
}
figure, axes = subplots(1, 3, width=10, height=3.4, sharey=True)
for panel, (title, forces) in zip(axes, panels.items()):
    for k, (row, name) in enumerate(zip(rows, corners)):
        panel.plot(places, forces[:, row], color=PALETTE[k], label=name, linestyle="--" if k == 2 else "-")
    panel.set(title=title, xlabel="load along the diagonal, m")
    assert np.allclose(forces[:, rows].sum(axis=1), 9.81 * (10 + load))
axes[0].set_ylabel("force of the floor, N")
axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
save(figure)
