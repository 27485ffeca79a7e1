"""Long chains in contact with the world beside ``mj_step``: tracks, ropes, chains on a wall, snakes, bicycle chains.

    python -m benchmarks.long_chains [--steps 300] [--touching] [NAME …]

Every scene is one MJCF text that both read, as those of :mod:`benchmarks.mixed_scenes`, from the same start. Links
touch the world alone; with ``--touching`` they may touch each other, too, as MJCF has it where nothing else is said.
Ours is ``wt.simulate`` whole, as a user waits for it once functions are compiled.

    ours       ms of processor time per step
    mj_step    ms per step, the faster of Newton's method and CG, with those that end at a state that MuJoCo refuses
    newtons    steps of all methods per step of ours
    halved     steps that were taken in halves; python: problems that Python was asked for
    residual   largest natural map of our steps, m/s; ``left``: steps beyond the tolerance
    overlap    largest at the end of any step, m
    gained     the largest energy balance, as a share of the largest kinetic energy
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import whippletree as wt
from benchmarks.mixed_scenes import MixedScene, stadium
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep

ALONE = {"link": 'contype="1" conaffinity="2"', "world": 'contype="2" conaffinity="1"'}
TOUCHING = {"link": "", "world": ""}
"""What MJCF says of shapes that touch the world alone, and of those that touch each other, too."""

STEP = 0.002
PLANAR = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint type="hinge" axis="0 -1 0"/>'


def round_two_wheels(links: int, radius: float) -> tuple[float, str, list[float]]:
    """Length of the links of a closed chain, place of the first, and how far each is turned against the one before."""
    corners = stadium(links, radius, 2 * radius)
    sides = np.roll(corners, -1, axis=0) - corners
    turns = np.diff(np.arctan2(sides[:, 1], sides[:, 0]), prepend=0.0)
    wrapped = (turns + math.pi) % (2 * math.pi) - math.pi
    return float(np.mean(np.linalg.norm(sides, axis=1))), f"{corners[0][0]} 0 {corners[0][1]}", wrapped.tolist()


def track(links: int, touch: dict[str, str], free: bool = False, friction: float = 0.8) -> MixedScene:
    """A closed track of capsules round two drums; in a plane, or on hinges behind a free first link.

    Links end before their hinges: where first and last overlap, nothing can move them apart.
    """
    length, thick, gap = 0.05, 0.01, 0.004
    radius = links * length / (2 * math.pi + 4)
    length, first, turns = round_two_wheels(links, radius)
    parts = ""
    for k, turn in enumerate(turns):
        place = first if k == 0 else f"{length} 0 0"
        joint = ("<freejoint/>" if free else PLANAR) if k == 0 else '<joint type="hinge" axis="0 -1 0" damping="1e-4"/>'
        parts += (
            f'<body name="link {k}" pos="{place}" euler="0 {-turn} 0">{joint}<geom type="capsule" size="{thick}" '
            f'fromto="{1.2 * thick} 0 0 {length - 1.2 * thick} 0 0" mass="0.03" friction="{friction}" {touch["link"]}/>'
        )
    drums = "".join(
        f'<geom type="cylinder" size="{radius - thick - gap}" fromto="{x} -0.1 0 {x} 0.1 0" {touch["world"]}/>'
        for x in (-radius, radius)
    )
    tie = f'<equality><connect body1="link {links - 1}" body2="link 0" anchor="{length} 0 0"/></equality>'
    body = f"<worldbody>{drums}{parts}{'</body>' * links}</worldbody>{tie}"
    return MixedScene(f"{'free ' if free else ''}track of {links} links", STEP, body)


def rope(links: int, touch: dict[str, str]) -> MixedScene:
    """A rope of ball joints that falls across a box."""
    length, thick = 0.04, 0.01
    parts = ""
    for k in range(links):
        place = f"{-links * length / 2} 0 0.3" if k == 0 else f"{length} 0 0"
        joint = "<freejoint/>" if k == 0 else '<joint type="ball" damping="1e-4"/>'
        geom = f'<geom type="capsule" size="{thick}" fromto="0 0 0 {length} 0 0" mass="0.02" {touch["link"]}/>'
        parts += f'<body pos="{place}">{joint}{geom}'
    box = f'<geom type="box" size="{links * length / 4} 0.2 0.1" pos="0.03 0 0.18" {touch["world"]}/>'
    return MixedScene(f"rope of {links}", STEP, f"<worldbody>{box}{parts}{'</body>' * links}</worldbody>")


def against_a_wall(links: int, touch: dict[str, str]) -> MixedScene:
    """A chain that hangs, swings, and strikes a wall beside it."""
    length, thick = 0.04, 0.01
    parts = ""
    for k in range(links):
        place = f'pos="0 0 {links * length}" euler="0 -0.15 0"' if k == 0 else f'pos="0 0 {-length}"'
        joint = '<joint type="hinge" axis="0 1 0" damping="1e-4"/>'
        geom = f'<geom type="capsule" size="{thick}" fromto="0 0 0 0 0 {-length}" mass="0.02" {touch["link"]}/>'
        parts += f"<body {place}>{joint}{geom}"
    wall = f'<geom type="plane" size="0 0 1" pos="-0.03 0 0" zaxis="1 0 0" {touch["world"]}/>'
    return MixedScene(
        f"chain of {links} against a wall", STEP, f"<worldbody>{wall}{parts}{'</body>' * links}</worldbody>"
    )


def snake(links: int, touch: dict[str, str]) -> MixedScene:
    """Links on hinges in two directions, with servos, in a row on a floor."""
    length, thick = 0.08, 0.02
    parts = servos = ""
    for k in range(links):
        axis = "0 1 0" if k % 4 == 0 else "0 0 1"
        joint = f'<joint name="j{k}" type="hinge" axis="{axis}" damping="0.05" armature="1e-3"/>'
        place = f"0 0 {thick + 1e-3}" if k == 0 else f"{length} 0 0"
        parts += (
            f'<body pos="{place}">{"<freejoint/>" if k == 0 else joint}<geom type="capsule" size="{thick}" '
            f'fromto="{thick} 0 0 {length - thick} 0 0" mass="0.1" friction="1" {touch["link"]}/>'
        )
        if k:
            target = 0.4 * math.sin(0.5 * k) if k % 4 else 0.0
            servos += f'<general joint="j{k}" gainprm="2" biastype="affine" biasprm="{2 * target} -2 -0.02"/>'
    floor = f'<geom type="plane" size="0 0 1" {touch["world"]}/>'
    text = f"<worldbody>{floor}{parts}{'</body>' * links}</worldbody><actuator>{servos}</actuator>"
    return MixedScene(f"snake of {links}", STEP, text)


def bicycle_chain(links: int, touch: dict[str, str]) -> MixedScene:
    """A closed chain of pins (balls, heavier than plates) round two sprockets of unequal size, one hanging above."""
    length, thick, gap = 0.0127, 0.004, 0.001
    radius = links * length / (2 * math.pi + 4)
    length, first, turns = round_two_wheels(links, radius)
    parts = ""
    for k, turn in enumerate(turns):
        place = first if k == 0 else f"{length} 0 0"
        joint = PLANAR if k == 0 else '<joint type="hinge" axis="0 -1 0" frictionloss="0" damping="1e-6"/>'
        parts += (
            f'<body name="link {k}" pos="{place}" euler="0 {-turn} 0">{joint}<geom type="sphere" size="{thick}" '
            f'mass="0.002" friction="0.3" {touch["link"]}/><geom type="capsule" size="{thick / 2}" '
            f'fromto="0 0 0 {length} 0 0" mass="0.001" contype="0" conaffinity="0"/>'
        )
    sprockets = "".join(
        f'<geom type="cylinder" size="{share * radius - thick - gap}" fromto="{x} -0.1 0 {x} 0.1 0" {touch["world"]}/>'
        for share, x in ((1, -radius), (0.6, radius))
    )
    tie = f'<equality><connect body1="link {links - 1}" body2="link 0" anchor="{length} 0 0"/></equality>'
    body = f"<worldbody>{sprockets}{parts}{'</body>' * links}</worldbody>{tie}"
    return MixedScene(f"bicycle chain of {links} links", STEP, body)


SCENES: dict[str, Callable[[dict[str, str]], MixedScene]] = {
    **{f"track {n}": lambda touch, n=n: track(n, touch) for n in (20, 30, 60, 120)},  # type: ignore[misc]
    **{f"free track {n}": lambda touch, n=n: track(n, touch, free=True) for n in (20, 30, 60)},  # type: ignore[misc]
    **{f"rope {n}": lambda touch, n=n: rope(n, touch) for n in (12, 25, 50, 100)},  # type: ignore[misc]
    **{f"wall {n}": lambda touch, n=n: against_a_wall(n, touch) for n in (15, 30, 50, 100)},  # type: ignore[misc]
    **{f"snake {n}": lambda touch, n=n: snake(n, touch) for n in (24, 40)},  # type: ignore[misc]
    **{f"bicycle {n}": lambda touch, n=n: bicycle_chain(n, touch) for n in (50, 110)},  # type: ignore[misc]
}


def contest(name: str, path: Path, steps: int) -> None:
    """Print the line of a scene."""
    import mujoco

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = wt.load(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    step = float(peer.opt.timestep)
    _simulated(model, step, 2)
    mine = math.inf
    for _ in range(2):
        begun = time.process_time()
        run = _simulated(model, step, steps)
        mine = min(mine, (time.process_time() - begun) / steps * 1e3)
    asked, by_python = [0], ImpulseStep._take_step

    def counted(self: ImpulseStep, *given: Any) -> Any:
        asked[0] += 1
        return by_python(self, *given)

    with mock.patch.object(ImpulseStep, "_take_step", counted):
        told = _simulated(model, step, steps, rows=steps)
    other, refused = math.inf, ""
    for solver in (mujoco.mjtSolver.mjSOL_NEWTON, mujoco.mjtSolver.mjSOL_CG):
        peer.opt.solver = solver
        data = mujoco.MjData(peer)
        begun = time.process_time()
        for _ in range(steps):
            mujoco.mj_step(peer, data)
        other = min(other, (time.process_time() - begun) / steps * 1e3)
        refused += "*" if data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number else ""
    with np.errstate(all="ignore"):
        kinetic = wt.compile(model).kinetic_energy(told.q.values, told.v.values).max()
    gained = float(np.nanmax(told.energy_balance)) / kinetic
    newtons, halved = float(told.newton_steps.sum()) / steps, told.attrs.get("halved_steps", 0)
    print(
        f"{name:16}{model.nv:5}{mine:9.3f}{other:9.3f}{mine / other:7.2f}{newtons:9.1f}{halved:7}"
        f"{asked[0]:7}{float(told.residual_velocity.max()):10.1e}{told.attrs['unconverged_steps']:6}"
        f"{float(told.penetration.max()):10.1e}{gained:10.1e}  {run.attrs['path']} {told.attrs['failure']} {refused}",
        flush=True,
    )


def _simulated(model: wt.Model, step: float, steps: int, rows: int = 1) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wt.simulate(
            model, method="time_stepping", duration=step * steps, step=step, output_dt=step * steps / rows
        )


def main() -> None:
    """The whole table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--touching", action="store_true")
    given = parser.parse_args()
    print(
        f"{'scene':16}{'nv':>5}{'ours':>9}{'mj_step':>9}{'ratio':>7}{'newtons':>9}{'halved':>7}{'python':>7}"
        f"{'residual':>10}{'left':>6}{'overlap':>10}{'gained':>10}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, make in SCENES.items():
            if name in given.names or not given.names:
                path = Path(folder) / "scene.xml"
                path.write_text(make(TOUCHING if given.touching else ALONE).text)
                contest(name, path, given.steps)


if __name__ == "__main__":
    main()
