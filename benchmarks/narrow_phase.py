"""Nearest points of every pair of bounded convex shapes: the compiled search beside the reference path and ``coal``.

    python -m benchmarks.narrow_phase [--poses 1000] [SHAPE …]

Two shapes at random turns are put along a random direction so that they are apart, touch or overlap a little along it.
The compiled search (:mod:`whippletree.contact.geometry.solid_distance`, one kernel for all pairs) and the reference
(``coal``, polished to rounding by :mod:`whippletree.contact.geometry.nearest_points`) answer for the same poses.

    apart      poses at which the reference says that they are more than 1e-7 m apart, whose answer is unique
    gap        largest difference of the gap there, m
    normal     largest angle between the normals there, rad
    overlap    the other poses
    less       how much deeper than by the reference the compiled way out is at most, m, and in how many of these poses
               by more than 1e-9 m: an overlap has several ways out, of which each search finds one
    ours, ref  µs per pair and pose, one at a time: ours with all candidates, the reference without
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, Program
from whippletree.compiler.program.traced_blocks import looped_block, piece
from whippletree.contact.geometry.closed_forms import Touch
from whippletree.contact.geometry.coal_pairs import nearest_touch
from whippletree.contact.geometry.rounded_polytopes import Solid, solids_of
from whippletree.contact.geometry.separation import reach_along
from whippletree.contact.geometry.shape_numbers import POSE, pose_of
from whippletree.contact.geometry.shapes import Ball, Box, Capsule, Cylinder, Ellipsoid, Hull, Shape
from whippletree.contact.geometry.solid_pairs import SolidForm
from whippletree.spatial import Pose

GAPS = (0.2, 1e-2, 1e-4, 1e-6, 1e-8, -1e-8, -1e-5, -1e-3)
"""m, of random poses."""

UNIQUE = 1e-7
"""m: shapes that are this far apart have one pair of nearest points, or one normal at least."""


def shapes() -> dict[str, Shape]:
    """One shape of each kind, and some that are thin, long or have many corners."""
    from scipy.spatial import ConvexHull

    points = np.random.default_rng(1).normal(size=(300, 3))
    points *= np.array([0.1, 0.07, 0.15]) / np.linalg.norm(points, axis=1, keepdims=True)
    tetrahedron = np.array([[0, 0, 0.15], [0.1, 0, -0.1], [-0.1, 0.1, -0.1], [-0.1, -0.1, -0.1]])
    return {
        "sphere": Ball(0.1),
        "capsule": Capsule(0.05, 0.12),
        "cylinder": Cylinder(0.1, 0.15),
        "disc": Cylinder(0.2, 0.02),
        "box": Box((0.1, 0.15, 0.2)),
        "plate": Box((0.5, 0.4, 0.02)),
        "ellipsoid": Ellipsoid((0.1, 0.05, 0.2)),
        "mesh of 4": Hull(tetrahedron),
        "mesh of 300": Hull(points[np.sort(ConvexHull(points).vertices)]),
    }


def touches_program(form: SolidForm, of: Solid) -> Program:
    """(numbers, pose) of two solids → candidates (slots, 13): gap, point and axes; ``of``: for its tables."""
    size = len(of.numbers)
    inputs = [Buffer(name, "input", (n,)) for name, n in (("a", size), ("x", POSE), ("b", size), ("y", POSE))]
    output = Buffer("touches", "output", (form.slots, 13))

    def find(a: Array, x: Array, b: Array, y: Array) -> list[Any]:
        found = form(of.with_numbers(a), of.with_numbers(b), pose_of(x), pose_of(y))
        return [np.concatenate([[touch.gap], touch.point, touch.axes.ravel()]) for touch in found]

    statements, work = looped_block(find, [piece(b) for b in inputs], [piece(output)], "solids")
    return Program("touches_of_solids", (*inputs, output, *work), tuple(statements))


def random_poses(
    first: Solid, second: Solid, count: int, rng: np.random.Generator, kernel: Any = None
) -> list[tuple[Pose, Pose]]:
    """Poses at which the solids are apart by a chosen length along a random direction; with a kernel, they are moved
    along the normal of their nearest points until these are that far apart, or overlap by as much."""
    from scipy.spatial.transform import Rotation

    found = []
    for _ in range(count):
        R, S = (Rotation.random(random_state=int(rng.integers(1 << 30))).as_matrix() for _ in range(2))
        u = rng.normal(size=3)
        u /= np.linalg.norm(u)
        reach = _reach(first, -u @ R) + _reach(second, u @ S)
        apart, place = rng.choice(GAPS), rng.normal(size=3)
        p = place + (reach + max(apart, 1e-3)) * u
        if kernel is not None:
            row = _nearest_rows(kernel, (first, second), [[*R.flat, *p]], [[*S.flat, *place]])[0]
            p = p + (apart - row[0]) * row[4:7]
        found.append((Pose(R.astype(object), p.astype(object)), Pose(S.astype(object), place.astype(object))))
    return found


def _reach(solid: Solid, along: Array) -> float:
    return float(reach_along(solid.shape, along[None])[0])  # type: ignore[arg-type]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=1000)
    parser.add_argument("shapes", nargs="*")
    given = parser.parse_args(arguments)
    chosen = {name: shape for name, shape in shapes().items() if not given.shapes or name in given.shapes}
    solids = dict(zip(chosen, solids_of(list(chosen.values())), strict=True))
    some = next(iter(solids.values()))
    kernels = {flat: compile_function(touches_program(form_of(flat), some), threads=1) for flat in (False, True)}
    rng = np.random.default_rng(0)
    print(f"{'pair':28s} apart   gap     normal   overlap  less     of     ours     ref")
    for a, b in combinations_with_replacement(chosen, 2):
        pair = (solids[a], solids[b])
        poses = random_poses(*pair, given.poses, rng, kernels[False])
        found = compare_with_reference(kernels[False], pair, poses)
        ours = time_of_one(kernels[bool(pair[0].flat and pair[1].flat)], pair, poses[:20])
        print(f"{a + ' on ' + b:28s} {found.line()}  {1e6 * ours:6.1f}  {1e6 * found.seconds:6.0f}", flush=True)


def form_of(flat: bool) -> SolidForm:
    """The form of solids that have flats, or of such that have none."""
    ball, box = solids_of([Ball(1), Box((1, 1, 1))])
    return SolidForm(box, box) if flat else SolidForm(ball, ball)


class Compared(NamedTuple):
    """Nearest points beside those of the reference, of many poses."""

    off: Array
    """Our gap less the reference's, m."""
    turned: Array
    """Sine of the angle between the normals."""
    right: Array
    """The reference's gap, m."""
    seconds: float
    """That the reference took for each."""

    @property
    def apart(self) -> Array:
        """Where the answer is unique."""
        return np.asarray(self.right > UNIQUE)

    def line(self) -> str:
        """Columns of the table."""
        off, turned, apart = self.off, self.turned, self.apart
        less = -off[~apart]
        return (
            f"{apart.sum():5d}  {np.abs(off[apart]).max(initial=0):.1e}  {turned[apart].max(initial=0):.1e}  "
            f"{(~apart).sum():5d}  {less.max(initial=0):8.1e}  {(less > 1e-9).sum():4d}"
        )


def compare_with_reference(kernel: Any, pair: tuple[Solid, Solid], poses: list[tuple[Pose, Pose]]) -> Compared:
    """Nearest points by a kernel of the touches and by the reference."""
    X, Y = (np.array([[*pose.R.flat, *pose.p] for pose in side], dtype=float) for side in zip(*poses, strict=True))
    rows = _nearest_rows(kernel, pair, X, Y)
    begin = time.process_time()
    expected = [nearest_touch(pair[0].shape, pair[1].shape, *two) for two in poses]  # type: ignore[arg-type]
    seconds = (time.process_time() - begin) / len(poses)
    right, normals = (np.array([part(t) for t in expected], dtype=float) for part in (_gap, _normal))
    turned = np.linalg.norm(np.cross(rows[:, 4:7], normals), axis=1)
    return Compared(rows[:, 0] - right, turned, right, seconds)


def _gap(touch: Touch) -> Any:
    return touch.gap


def _normal(touch: Touch) -> Any:
    return touch.axes[0]


def _nearest_rows(kernel: Any, pair: tuple[Solid, Solid], X: Any, Y: Any) -> Array:
    """The touches (n, 13) of nearest points: solids without flats have no others."""
    a, b = (np.array(solid.numbers, dtype=float) for solid in pair)
    rows: Array = kernel(a, np.array(X, dtype=float), b, np.array(Y, dtype=float))
    return rows[:, 0]


def time_of_one(kernel: Any, pair: tuple[Solid, Solid], poses: list[tuple[Pose, Pose]]) -> float:
    """Seconds for one pair at one pose at a time, with all candidates."""
    a, b = (np.array(solid.numbers, dtype=float) for solid in pair)
    states = [[np.array([*pose.R.flat, *pose.p], dtype=float) for pose in two] for two in poses]
    kernel(a, states[0][0], b, states[0][1])
    begin = time.process_time()
    for x, y in states:
        for _ in range(10):
            kernel(a, x, b, y)
    return (time.process_time() - begin) / (10 * len(states))


if __name__ == "__main__":
    main()
