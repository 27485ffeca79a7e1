"""Closed-loop robots as drawing programs export them: a URDF of the tree with rounded numbers, and a YAML of loops.

    python -m benchmarks.cad_loops [MACHINE …]

Eight machines are drawn in one configuration, every link with axes of its own, and written twice: with all digits, and
with lengths and angles rounded to ROUNDING. Loops are cut through a link, and closed by six rows (``6d``). Of each:

    open         by how much loops stay open in the nearest configuration, m or rad
    moved        how far the repair moves closing frames, m and rad
    left out     rows that only rounding had told from others
    freedoms     of the repaired model, and of the exact one
    closed       largest residual in DURATION s of motion of the repaired model
    apart        distance of the tool from that of the exact model at its end, m
    s            processor time for loading, assembling and repairing
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import cos, pi, sin
from pathlib import Path

import numpy as np

import whippletree as wt
from whippletree.arithmetic.arrays import Array
from whippletree.io.rotations import about

ROUNDING = 5
"""Decimals of metres and radians in an export."""

DURATION = 0.25
"""s"""

Z = (0.0, 0.0, 1.0)


@dataclass
class Drawing:
    """A tree of links in one configuration, in world coordinates, and where it was cut."""

    name: str
    tool: str
    joints: list[tuple[str, str, str, str, Array, Array, Array]] = field(default_factory=list)
    """Name, type, parent, child, place, axis, and for universal joints what their second axis is across."""
    cuts: list[tuple[str, str, Array]] = field(default_factory=list)
    """Two links that are halves of one, and where they meet."""

    def joint(
        self,
        kind: str,
        parent: str,
        child: str,
        place: Sequence[float],
        axis: Sequence[float],
        rod: Sequence[float] = Z,
    ) -> Drawing:
        """A joint that carries a new link; a universal one turns about a second axis too, across this one and a rod."""
        number = f"{parent}_{child}" + "_mot" * (kind in ("revolute", "prismatic") and parent == "base")
        self.joints.append((number, kind, parent, child, *map(np.array, (place, axis, rod))))  # type: ignore[arg-type]
        return self

    def cut(self, first: str, second: str, place: tuple[float, ...]) -> Drawing:
        """Six rows between two links at a place."""
        self.cuts.append((first, second, np.array(place)))
        return self

    def write(self, folder: Path, decimals: int | None) -> tuple[Path, Path]:
        """The URDF of the tree and the YAML of its loops."""
        random, poses = np.random.default_rng(1), {"base": np.eye(4)}
        lines = [f'<robot name="{self.name}"><link name="base"/>']
        for name, kind, parent, child, place, axis, rod in self.joints:
            poses[child] = _pose(_across(axis, rod) if kind == "universal" else _any_rotation(random), place)
            X = np.linalg.inv(poses[parent]) @ poses[child]
            told = {"spherical": "continuous", "universal": "continuous"}.get(kind, kind)
            own = poses[child][:3, :3].T @ (axis / np.linalg.norm(axis))
            limit = '<limit lower="-9" upper="9" effort="100" velocity="100"/>' if told != "continuous" else ""
            lines.append(_link(child))
            lines.append(
                f'<joint name="{name}" type="{told}"><parent link="{parent}"/><child link="{child}"/>'
                f'{_origin(X, decimals)}<axis xyz="{_numbers(own, decimals)}"/>{limit}</joint>'
            )
        for k, (first, second, place) in enumerate(self.cuts):
            at = _pose(_any_rotation(random), place)
            for side, link in (("a", first), ("b", second)):
                X = np.linalg.inv(poses[link]) @ at
                frame = f"cut{k}{side}"
                lines.append(f'<link name="{frame}"/><joint name="{frame}_fixed" type="fixed"><parent link="{link}"/>')
                lines.append(f'<child link="{frame}"/>{_origin(X, decimals)}</joint>')
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "robot.urdf").write_text("\n".join([*lines, "</robot>"]))
        others = [(name, kind.upper()) for name, kind, *_ in self.joints if kind in ("spherical", "universal")]
        loops = "".join(f"  - [cut{k}a, cut{k}b]\n" for k in range(len(self.cuts)))
        names, kinds = (", ".join(words) for words in zip(*others, strict=True)) if others else ("", "")
        told = f"closed_loop:\n{loops}type: [{', '.join(['6d'] * len(self.cuts))}]\n"
        told += f"joint_name: [{names}]\njoint_type: [{kinds}]\n" if others else ""
        (folder / "robot.yaml").write_text(told)
        return folder / "robot.urdf", folder / "robot.yaml"


def _pose(R: Array, p: Array) -> Array:
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = R, p
    return X


def _across(axis: Array, rod: Array) -> Array:
    """Axes of which the first is along an axis and the second across it and a rod: those of a universal joint."""
    x = axis / np.linalg.norm(axis)
    y = np.cross(rod, x)
    y = y / np.linalg.norm(y)
    return np.stack([x, y, np.cross(x, y)], axis=1)


def _any_rotation(random: np.random.Generator) -> Array:
    axis = random.normal(size=3)
    return about(axis / np.linalg.norm(axis), random.uniform(0, pi))


def _numbers(x: Array, decimals: int | None) -> str:
    return " ".join(repr(float(a)) if decimals is None else f"{a:.{decimals}f}" for a in x)


def _origin(X: Array, decimals: int | None) -> str:
    R = X[:3, :3]
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    angles = (np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0]))
    return f'<origin xyz="{_numbers(X[:3, 3], decimals)}" rpy="{_numbers(np.array(angles), decimals)}"/>'


def _link(name: str) -> str:
    inertia = '<inertia ixx="0.004" iyy="0.005" izz="0.003" ixy="0" ixz="0" iyz="0"/>'
    return f'<link name="{name}"><inertial><mass value="0.5"/><origin xyz="0.02 0.03 0.01"/>{inertia}</inertial></link>'


def planar_leg() -> Drawing:
    """A knee that a crank at the hip drives through a rod: a planar loop, closed by six rows within its rod."""
    y = (0.0, 1.0, 0.0)
    drawing = Drawing("planar leg", "shank").joint("revolute", "base", "thigh", (0, 0, 0), y)
    drawing.joint("revolute", "thigh", "shank", (0.1, 0, -0.4), y)
    drawing.joint("revolute", "base", "crank", (-0.08, 0, 0.02), y).joint(
        "revolute", "crank", "upper", (-0.18, 0, 0), y
    )
    return drawing.joint("revolute", "shank", "lower", (0.02, 0, -0.45), y).cut("upper", "lower", (-0.08, 0, -0.2))


def ankle() -> Drawing:
    """A foot on a universal joint, held by two rods with a universal and a ball joint each, on cranks."""
    drawing = Drawing("ankle", "right_lower").joint("universal", "base", "foot", (0, 0, -0.4), (1, 0, 0))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        drawing.joint("revolute", "base", f"{side}_crank", (0, 0.05 * sign, -0.05), (0, 1, 0))
        drawing.joint("universal", f"{side}_crank", f"{side}_upper", (-0.08, 0.05 * sign, -0.05), (0, 1, 0))
        drawing.joint("spherical", "foot", f"{side}_lower", (-0.09, 0.06 * sign, -0.42), (0, 1, 0))
        drawing.cut(f"{side}_upper", f"{side}_lower", (-0.085, 0.055 * sign, -0.25))
    return drawing


def platform() -> Drawing:
    """A Gough and Stewart platform: six legs of a universal joint, a slide and a ball, cut through the platform."""
    drawing = Drawing("platform", "leg0_rod")
    for k in range(6):
        foot, top = 2 * pi * (k // 2) / 3 + (0.3 if k % 2 else -0.3), 2 * pi * ((k + 1) // 2) / 3 - pi / 3
        top += 0.25 if k % 2 == 0 else -0.25
        low, high = np.array([0.5 * cos(foot), 0.5 * sin(foot), 0.0]), np.array([0.3 * cos(top), 0.3 * sin(top), 0.6])
        drawing.joint("universal", "base", f"leg{k}", low, (1, 0, 0))
        drawing.joint("prismatic", f"leg{k}", f"leg{k}_rod", (low + high) / 2, high - low)
        drawing.joint("spherical", f"leg{k}_rod", f"plate{k}", high, (1, 0, 0))
        if k:
            drawing.cut("plate0", f"plate{k}", (0.0, 0.0, 0.6))
    drawing.tool = "plate0"
    return drawing


def delta() -> Drawing:
    """Three arms with a rod between two universal joints each, and a plate that keeps its direction."""
    drawing = Drawing("delta", "plate0")
    for k in range(3):
        turn = 2 * pi * k / 3
        out, side = np.array([cos(turn), sin(turn), 0.0]), np.array([-sin(turn), cos(turn), 0.0])
        elbow, wrist = 0.35 * out + (0, 0, -0.1), 0.08 * out + (0, 0, -0.5)
        drawing.joint("revolute", "base", f"arm{k}", 0.15 * out, side)
        drawing.joint("universal", f"arm{k}", f"rod{k}", elbow, side, elbow - wrist)
        drawing.joint("universal", f"rod{k}", f"plate{k}", wrist, side, elbow - wrist)
        if k:
            drawing.cut("plate0", f"plate{k}", (0.0, 0.0, -0.5))
    return drawing


def lift() -> Drawing:
    """Sarrus' linkage: two folding legs in two planes carry a plate straight up, with one row that they share."""
    drawing = Drawing("lift", "plate0")
    for k, out in enumerate(((1.0, 0.0, 0.0), (cos(2.0), sin(2.0), 0.0))):
        side, away = (-out[1], out[0], 0.0), np.array(out)
        drawing.joint("revolute", "base", f"lower{k}", 0.2 * away, side)
        drawing.joint("revolute", f"lower{k}", f"upper{k}", 0.35 * away + (0, 0, 0.2), side)
        drawing.joint("revolute", f"upper{k}", f"plate{k}", 0.2 * away + (0, 0, 0.4), side)
    return drawing.cut("plate0", "plate1", (0.0, 0.0, 0.4))


def excavator() -> Drawing:
    """Boom, stick and bucket on three cylinders, the bucket by a four-bar: four planar loops, 24 rows for 12."""
    y = (0.0, 1.0, 0.0)
    drawing = Drawing("excavator", "bucket").joint("revolute", "base", "boom", (0.2, 0, 0.6), y)
    drawing.joint("revolute", "boom", "stick", (2.2, 0, 2.1), y).joint("revolute", "stick", "bucket", (3.1, 0, 0.9), y)
    cylinders = (
        ("lift", "base", "boom", (0.5, 0.0, 0.4), (1.3, 0.0, 1.7)),
        ("crowd", "boom", "stick", (1.4, 0.0, 2.1), (2.05, 0.0, 2.4)),
    )
    for name, carrier, moved, low, high in cylinders:
        _cylinder(drawing, name, carrier, low, high).joint("revolute", moved, f"{name}_eye", high, y)
        drawing.cut(f"{name}_rod", f"{name}_eye", high)
    # the bucket's own cylinder turns a lever on the stick, which a rod ties to the bucket
    lever, rod = (2.85, 0.0, 1.15), (3.25, 0.0, 1.3)
    drawing.joint("revolute", "stick", "lever", lever, y)
    _cylinder(drawing, "curl", "stick", (2.4, 0.0, 2.0), rod).joint("revolute", "lever", "curl_eye", rod, y)
    drawing.cut("curl_rod", "curl_eye", rod)
    drawing.joint("revolute", "lever", "link", rod, y).joint("revolute", "bucket", "link_end", (3.4, 0, 1.0), y)
    return drawing.cut("link", "link_end", (3.3, 0.0, 1.15))


def _cylinder(drawing: Drawing, name: str, carrier: str, low: tuple[float, ...], high: tuple[float, ...]) -> Drawing:
    """A barrel that turns on a carrier, and the rod in it."""
    drawing.joint("revolute", carrier, f"{name}_barrel", low, (0, 1, 0))
    middle, along = (np.array(low) + high) / 2, np.array(high) - low
    return drawing.joint("prismatic", f"{name}_barrel", f"{name}_rod", middle, along)


def gripper() -> Drawing:
    """Two fingers on parallelograms, driven by one slide through a rod each: four planar loops."""
    y = (0.0, 1.0, 0.0)
    drawing = Drawing("gripper", "left_finger").joint("prismatic", "base", "screw", (0, 0, 0.02), Z)
    for side, s in (("left", 1.0), ("right", -1.0)):
        drawing.joint("revolute", "base", f"{side}_inner", (0.01 * s, 0, 0.05), y)
        drawing.joint("revolute", "base", f"{side}_outer", (0.03 * s, 0, 0.05), y)
        drawing.joint("revolute", f"{side}_inner", f"{side}_finger", (0.04 * s, 0, 0.1), y)
        drawing.joint("revolute", f"{side}_outer", f"{side}_pad", (0.06 * s, 0, 0.1), y)
        drawing.cut(f"{side}_finger", f"{side}_pad", (0.05 * s, 0.0, 0.12))
        drawing.joint("revolute", "screw", f"{side}_rod", (0.012 * s, 0, 0.02), y)
        drawing.joint("revolute", f"{side}_outer", f"{side}_rod_end", (0.052 * s, 0, 0.07), y)
        drawing.cut(f"{side}_rod", f"{side}_rod_end", (0.03 * s, 0.0, 0.05))
    return drawing


def suspension() -> Drawing:
    """A wheel carrier on two wishbones with ball joints, and a steered rod with a ball and a universal joint."""
    x = (1.0, 0.05, 0.02)
    drawing = Drawing("suspension", "carrier").joint("revolute", "base", "lower_arm", (0, 0.3, 0.2), x)
    drawing.joint("spherical", "lower_arm", "carrier", (0.01, 0.7, 0.18), Z)
    drawing.joint("revolute", "base", "upper_arm", (-0.02, 0.35, 0.45), (1.0, -0.03, 0.04))
    drawing.joint("spherical", "upper_arm", "top", (-0.01, 0.65, 0.43), Z).cut("carrier", "top", (0.0, 0.68, 0.3))
    drawing.joint("prismatic", "base", "rack", (0.12, 0.0, 0.25), (0, 1, 0))
    drawing.joint("universal", "rack", "rod", (0.12, 0.3, 0.25), (1, 0, 0), (0.0, 1.0, 0.05))
    return drawing.joint("spherical", "carrier", "rod_end", (0.13, 0.68, 0.27), Z).cut(
        "rod", "rod_end", (0.125, 0.5, 0.26)
    )


MACHINES = {make.__name__: make for make in (planar_leg, lift, ankle, delta, platform, excavator, gripper, suspension)}


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", default=[*MACHINES], help=", ".join(MACHINES))
    chosen = parser.parse_args().machines
    print(f"{'':12}{'open':>9}{'moved':>18}{'left out':>10}{'freedoms':>10}{'closed':>9}{'apart':>9}{'s':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            print(f"{name:12}" + _row(MACHINES[name](), Path(folder) / name), flush=True)


def _row(drawing: Drawing, folder: Path) -> str:
    start = time.process_time()
    urdf, loops = drawing.write(folder / "rounded", ROUNDING)
    drawn = wt.load(urdf, loops=loops)
    try:
        wt.assemble(drawn)
        gap = 0.0
    except wt.AssemblyError as error:
        gap = max(map(abs, error.residuals.values()))
    found = wt.assemble(drawn, repair="frames")
    seconds = time.process_time() - start
    urdf, loops = drawing.write(folder / "exact", None)
    exact = wt.load(urdf, loops=loops)
    meant = wt.assemble(exact, repair="frames").model
    freedoms = [wt.diagnose(model).freedoms for model in (found.model, meant)]
    runs = [wt.simulate(m, duration=DURATION, points=[drawing.tool], progress=False) for m in (found.model, meant)]
    ends = [run["points"].values[-1].ravel() for run in runs]
    way, turn = np.max([(0.0, 0.0), *found.moved.values()], axis=0)
    return (
        f"{gap:9.1e}{way:9.1e}{turn:9.1e}{len(found.left_out):10}{freedoms[0]:6} {freedoms[1]:3}"
        f"{runs[0].attrs['max_residual']:9.0e}{np.linalg.norm(ends[0] - ends[1]):9.1e}{seconds:7.1f}"
    )


if __name__ == "__main__":
    main()
