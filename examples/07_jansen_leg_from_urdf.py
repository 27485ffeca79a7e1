"""Your own closed loops: Jansen's walking leg from a URDF.

URDF can only say trees. Cut the loops, write the tree as a URDF, and put the pins that close it into a small second
file: ``wt.load("leg.urdf", loops="leg.loops.toml")``. What to learn: the two files, below as text; that
``wt.diagnose`` counts what is left (seven joints, three pins, one freedom); and that start coordinates need only be
near: the loops are closed when the model is loaded.
"""

import tempfile
from pathlib import Path

import numpy as np
from picture import BLUE, RED, save, subplots

import whippletree as wt

# Jansen's eleven "holy numbers", cm: the lengths of the bars
a, b, c, d, e, f, g, h, i, j, k, l, m = 38, 41.5, 39.3, 40.1, 55.8, 39.4, 36.7, 65.7, 49, 50, 61.9, 7.8, 15


def corner(p, q, from_p, from_q, side):
    """Where two bars from p and q meet, on the left (1) or on the right (-1) of the way from p to q."""
    way = np.subtract(q, p)
    far = np.hypot(*way)
    along = (from_p**2 - from_q**2 + far**2) / (2 * far)
    across = side * np.sqrt(from_p**2 - along**2)
    return np.asarray(p) + (along * way + across * np.array([-way[1], way[0]])) / far


# one configuration, by ruler and compass; it makes the start and the shapes of the two triangles
O, P = np.zeros(2), np.array([-a, -l])
C = np.array([m, 0.0])  # end of the crank
top, knee = corner(C, P, j, b, -1), corner(C, P, k, c, 1)
back = corner(top, P, e, d, -1)
heel = corner(back, knee, f, g, -1)
foot = corner(heel, knee, h, i, -1)


def angle(start, end):
    return np.arctan2(*np.subtract(end, start)[::-1])


# joint, parent, child, position in the parent, absolute angle of the child's x axis
BARS = {
    "crank": ("ground", "crank", O, angle(O, C)),
    "upper": ("crank", "upper bar", (m, 0), angle(C, top)),
    "lower": ("crank", "lower bar", (m, 0), angle(C, knee)),
    "rocker": ("ground", "upper triangle", P, angle(P, top)),
    "swing": ("ground", "swing bar", P, angle(P, knee)),
    "ankle": ("swing bar", "lower triangle", (c, 0), angle(knee, heel)),
    "link": ("upper triangle", "rear bar", None, angle(back, heel)),
}


def local(origin, direction, point):
    """A point in the axes of a bar, m."""
    x, y = np.subtract(point, origin) / 100
    s, t = np.sin(direction), np.cos(direction)
    return t * x + s * y, -s * x + t * y


ANGLES = {child: turned for _, child, _, turned in BARS.values()} | {"ground": 0.0}
FRAMES = {  # frame: body and place, m
    "top of bar": ("upper bar", (j / 100, 0)),
    "top": ("upper triangle", (b / 100, 0)),
    "knee of bar": ("lower bar", (k / 100, 0)),
    "knee": ("swing bar", (c / 100, 0)),
    "heel of bar": ("rear bar", (f / 100, 0)),
    "heel": ("lower triangle", (g / 100, 0)),
    "foot": ("lower triangle", local(knee, ANGLES["lower triangle"], foot)),
}
back_local = local(P, ANGLES["upper triangle"], back)

urdf = ['<robot name="leg">', '<link name="ground"/>']
start = []
for joint, (parent, child, at, turned) in BARS.items():
    x, y = back_local if at is None else np.asarray(at) / 100
    urdf.append(f'<link name="{child}"><inertial><mass value="0.1"/><inertia ixx="0" iyy="1e-3" izz="1e-3" '
                f'ixy="0" ixz="0" iyz="0"/></inertial></link>')  # fmt: skip
    urdf.append(f'<joint name="{joint}" type="continuous"><parent link="{parent}"/><child link="{child}"/>'
                f'<origin xyz="{x} {y} 0"/><axis xyz="0 0 1"/></joint>')  # fmt: skip
    start.append(f"{joint} = {turned - ANGLES[parent]:.2f}")  # two digits are near enough
loops = ["whippletree = 1"]
for frame, (body, (x, y)) in FRAMES.items():
    loops.append(f'[[frames]]\nname = "{frame}"\nbody = "{body}"\nposition = [{x}, {y}, 0.0]')
for pin in ("top", "knee", "heel"):
    loops.append(f'[[constraints]]\nname = "{pin} pin"\nkind = "pin"\non = ["{pin}", "{pin} of bar"]')
folder = Path(tempfile.mkdtemp())
(folder / "leg.urdf").write_text("\n".join([*urdf, "</robot>"]))
(folder / "leg.loops.toml").write_text("\n\n".join([*loops, "[start]\n" + "\n".join(start)]))

leg = wt.load(folder / "leg.urdf", loops=folder / "leg.loops.toml")
print(wt.diagnose(leg))

q = [wt.assemble(leg, hold={"crank": 0.0})]
for crank in np.linspace(0, -2 * np.pi, 121)[1:]:
    q.append(wt.assemble(leg, q[-1], hold={"crank": crank}))
q = np.stack(q)
ref = wt.compile(leg)
path = {name: ref.pose(name)(q)[..., :2, 3] for name in (*FRAMES, "upper bar", "rear bar")}

figure, axes = subplots(width=7, height=5.6)
for moment, shade in ((0, 1.0), (20, 0.45), (40, 0.3), (60, 0.2), (80, 0.15), (100, 0.12)):
    at = {name: points[moment] for name, points in path.items()}
    pivot, hip = np.zeros(2), P / 100
    pin_back, pin_crank = at["rear bar"], at["upper bar"]
    bars = [(pivot, pin_crank), (pin_crank, at["top"]), (pin_crank, at["knee"]), (hip, at["top"]), (hip, at["knee"]),
            (hip, pin_back), (at["top"], pin_back), (pin_back, at["heel"]), (at["knee"], at["heel"]),
            (at["heel"], at["foot"]), (at["knee"], at["foot"])]  # fmt: skip
    for one, other in bars:
        axes.plot(*np.transpose([one, other]), color=BLUE, alpha=shade, linewidth=3, solid_capstyle="round")
axes.plot(*path["foot"].T, color=RED, linewidth=2.5, label="path of the foot")
axes.plot(*np.transpose([pivot, hip]), "^", color="0.2", markersize=9)
axes.set(title="Theo Jansen's leg: a URDF and three pins", xlabel="x, m", ylabel="y, m", aspect="equal")
axes.legend(loc="upper left")
save(figure)
