"""Cassie's loops.

Cassie's legs are loops: push rods, springs and gears, sixteen closures in the robot's own SDF file. What to learn:
such a file loads as it is. A second joint on a link closes a loop, a gearbox is a coupling; ``wt.assemble`` closes
them all, and ``wt.diagnose`` tells which rows are redundant and how many freedoms are left. The matrix on the right is
the constraint Jacobian A: which joint each loop touches. (Needs the package example-robot-data, for the file.)
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
from picture import BLUE, RED, save, subplots

import whippletree as wt
from whippletree.view.painter import draw
from whippletree.view.scene import scene

try:
    package = distribution("example-robot-data")
except PackageNotFoundError:
    print("pip install example-robot-data brings the file of Cassie", file=sys.stderr)
    sys.exit(77)
robots = "cmeel.prefix/share/example-robot-data/robots/cassie_description/robots"
cassie = wt.load(str(package.locate_file(f"{robots}/cassie.sdf")))

q = wt.assemble(cassie)
report = wt.diagnose(cassie, q)
print(report)
system = wt.constraint_set(cassie)
A = wt.reference(cassie).constraint_jacobian(q)
residual = np.abs(wt.reference(cassie).constraint_residual(q)).max()
print(f"{len(cassie.constraints)} closures, {len(A)} rows; loops closed to {residual:.0e}")

figure, (left, right) = subplots(1, 2, width=10, height=5, width_ratios=[1, 1.25])
draw(left, scene(cassie, None, q=q), layers=("bodies", "massless links", "closures"))
left.set_axis_off()
left.set_title("Cassie, assembled; dots are closures")
redundant = np.array([name in report.redundant for name in system.row_names])
rows, columns = np.nonzero(np.abs(A) > 1e-12)
right.scatter(columns, rows, s=9, marker="s", color=[RED if redundant[r] else BLUE for r in rows])
right.set(
    title=f"A: {len(A)} rows ({redundant.sum()} redundant, red) on {cassie.nv} velocities",
    xlabel="velocity", ylabel="row", ylim=(len(A), -1),
)  # fmt: skip
save(figure)
