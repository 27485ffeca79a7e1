"""Scenes of many bodies beside MuJoCo, alternating in one process: time per step, overlap, cones, residual and energy.

    python -m benchmarks.large_scenes balls 100 1000          falling, settling and at rest, and how they grow
    python -m benchmarks.large_scenes tower 10
    python -m benchmarks.large_scenes wall 16 160             rows and columns
    python -m benchmarks.large_scenes heap 1000

MuJoCo runs with elliptic cones and Euler's method at the same step; of its Newton and CG solvers the one that is asked
for with ``--solver``. Times are processor time, µs per step, of a part of the run in which both do the same steps.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks import scenes
from whippletree.contact.kinematics.scene_layout import SceneLayout, scene_layout
from whippletree.simulation.time_stepping.scene_run import ROWS, SteppedScene, Warm


class Part(NamedTuple):
    """Some steps of both."""

    end: float
    ours: float
    peer: float
    contacts: float
    sweeps: float
    residual: float
    worst: float
    overlap: float
    peer_overlap: float
    cone: float
    speed: float


def compare(scene: scenes.Scene, tolerance: float, effort: int, steps: int, parts: int, solver: str) -> Iterator[Part]:
    """Both from the start, ``steps`` in so many parts."""
    import mujoco

    model = scene.ours()
    layout = scene_layout(model)
    assert isinstance(layout, SceneLayout)
    ours = SteppedScene(layout, tolerance, 1e-9, effort)
    peer = scene.mujoco(solver)
    data = mujoco.MjData(peer)
    q, v = np.array(model.home.q, dtype=float), np.array(model.home.v, dtype=float)
    warm, tau = Warm.cold(), np.zeros(model.nv)
    ours.advance(q, v, warm, tau, np.full(1, scene.step))  # what is imported and compiled on first use
    each = steps // parts
    for part in range(parts):
        start = time.process_time()
        told = ours.advance(q, v, warm, tau, np.full(each, scene.step))
        middle = time.process_time()
        for _ in range(each):
            mujoco.mj_step(peer, data)
        end = time.process_time()
        q, v, warm = told.q, told.v, told.warm
        residual = told.account[:, ROWS["residual_velocity"]]
        yield Part(
            (part + 1) * each * scene.step,
            (middle - start) / each * 1e6,
            (end - middle) / each * 1e6,
            float(told.account[:, ROWS["contacts"]].mean()),
            float(told.account[:, ROWS["sweeps"]].mean()),
            float(np.median(residual)),
            float(residual.max()),
            max(0.0, -float(told.gaps.min(initial=0.0))),
            max([0.0, *[-float(contact.dist) for contact in data.contact]]),
            float(told.account[:, ROWS["cone_violation"]].max()),
            float(np.abs(v.reshape(-1, 6)[:, 3:]).max()),
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", choices=("balls", "tower", "wall", "heap"))
    parser.add_argument("numbers", type=int, nargs="+", help="of bodies; rows and columns of a wall")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--effort", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--solver", choices=("CG", "Newton"), default="CG")
    given = parser.parse_args()
    sizes = [given.numbers] if given.scene == "wall" else [[number] for number in given.numbers]
    for size in sizes:
        scene = getattr(scenes, given.scene)(*size)
        print(f"{scene.name}, step {scene.step} s, tolerance {given.tolerance} m/s, MuJoCo {given.solver}")
        words = ("until s", "ours µs", "MuJoCo µs", "ratio", "contacts", "sweeps")
        words += ("residual", "worst", "overlap", "theirs", "speed m/s")
        print("".join(f"{word:>{n}}" for word, n in zip(words, (9, 11, 11, 8, 9, 8, 10, 10, 10, 10, 11), strict=True)))
        for p in compare(scene, given.tolerance, given.effort, given.steps, given.parts, given.solver):
            print(
                f"{p.end:9.2f}{p.ours:11.0f}{p.peer:11.0f}{p.ours / p.peer:8.2f}{p.contacts:9.0f}{p.sweeps:8.1f}"
                f"{p.residual:10.1e}{p.worst:10.1e}{p.overlap:10.1e}{p.peer_overlap:10.1e}{p.speed:11.2e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
