"""``python -m benchmarks.rest heap 1000`` or ``wall 16 160``: a scene of many boxes until it is at rest, by the kernel.

One row for every so many steps: processor time of a step, contacts, sweeps, the residual (median and worst, m/s), the
overlap at the end (m), kinetic energy of the centres of mass (J), and the fastest of them (m/s). It ends where that is
below ``--slow``.
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


class Row(NamedTuple):
    """Some steps."""

    end: float
    step: float
    """ms of processor time."""
    contacts: float
    sweeps: float
    residual: float
    worst: float
    overlap: float
    energy: float
    speed: float


def run_to_rest(
    scene: scenes.Scene, tolerance: float, overlap: float, effort: int, steps: int, each: int
) -> Iterator[Row]:
    """Rows of ``each`` steps, at most ``steps`` of them."""
    model = scene.ours()
    layout = scene_layout(model)
    assert isinstance(layout, SceneLayout)
    stepped, mass = SteppedScene(layout, tolerance, overlap, effort), 1 / layout.bodies[:-1, 0]
    q, v, warm = np.array(model.home.q, dtype=float), np.array(model.home.v, dtype=float), Warm.cold()
    for done in range(each, steps + 1, each):
        start = time.process_time()
        told = stepped.advance(q, v, warm, np.zeros(model.nv), np.full(each, scene.step))
        spent = time.process_time() - start
        q, v, warm = told.q, told.v, told.warm
        squares = (v.reshape(-1, 6)[:, 3:] ** 2).sum(axis=1)
        residual = told.account[:, ROWS["residual_velocity"]]
        yield Row(
            done * scene.step,
            spent / each * 1e3,
            float(told.account[:, ROWS["contacts"]].mean()),
            float(told.account[:, ROWS["sweeps"]].mean()),
            float(np.median(residual)),
            float(residual.max()),
            max(0.0, -float(told.gaps.min(initial=0.0))),
            float(mass @ squares) / 2,
            float(np.sqrt(squares.max())),
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", choices=("balls", "wall", "heap"))
    parser.add_argument("numbers", type=int, nargs="+", help="of bodies; rows and columns of a wall")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--overlap", type=float, default=1e-8, help="m, that a step may leave")
    parser.add_argument("--effort", type=int, default=300)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--slow", type=float, default=1e-3)
    given = parser.parse_args()
    scene = getattr(scenes, given.scene)(*given.numbers)
    print(f"{scene.name}, step {scene.step} s, tolerance {given.tolerance} m/s")
    words = ("until s", "ms a step", "contacts", "sweeps", "residual", "worst", "overlap", "energy J", "speed")
    print("".join(f"{word:>10}" for word in words))
    for row in run_to_rest(scene, given.tolerance, given.overlap, given.effort, given.steps, given.each):
        figures = f"{row.end:10.2f}{row.step:10.1f}{row.contacts:10.0f}{row.sweeps:10.0f}"
        print(figures + "".join(f"{x:10.1e}" for x in row[4:]), flush=True)
        if row.speed < given.slow:
            break


if __name__ == "__main__":
    main()
