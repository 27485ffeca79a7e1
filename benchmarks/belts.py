"""How the time of a step grows with the links of a belt on its pulleys, and that until the first step.

    python -m benchmarks.belts [25 50 100 200 …] [--steps 8] [--settled 300]

The belt is that of :mod:`benchmarks.mixed_scenes`, built in Python: files of more than 250 bodies in each other are not
read. Two phases, of the kernel, at 1e-7 m/s: *falling*, its first steps, before it meets the pulleys; and, with
``--settled``, as many steps after so many of ``wt.simulate``, which takes those in Python that the kernel leaves.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.mixed_scenes import stadium
from whippletree.contact.time_step import ContactBlocks

STEP, THICK, GAP = 2e-3, 0.01, 8e-3
ALONG = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
"""From the axis of a capsule, z, to x."""


def belt(links: int) -> wt.Model:
    """A closed belt of capsules around two pulleys, in the plane of x and z."""
    radius = links * 0.05 / (2 * math.pi + 4)
    corners = stadium(links, radius, 2 * radius)
    sides = np.roll(corners, -1, axis=0) - corners
    length, angles = float(np.mean(np.linalg.norm(sides, axis=1))), np.arctan2(sides[:, 1], sides[:, 0])
    b = wt.Builder(f"belt of {links} links")
    across = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    for k, x in enumerate((-radius, radius)):
        place = {"position": (x, 0, 0), "rotation": across}
        b.geometry(f"pulley {k}", "world", "capsule", radius=radius - THICK - GAP, length=0.2, **place)
    b.body("carrier").joint("x", "prismatic", "world", "carrier", axis=(1, 0, 0), position=(*_spread(corners[0]),))
    b.body("lift").joint("z", "prismatic", "carrier", "lift", axis=(0, 0, 1))
    before, turned = "lift", 0.0
    for k in range(links):
        turn, turned = float(angles[k]) - turned, float(angles[k])
        turn = (turn + math.pi) % (2 * math.pi) - math.pi
        c, s = math.cos(turn), math.sin(turn)
        name = f"link {k}"
        b.body(name, 0.02, (length / 2, 0, 0), tuple(0.02 * length**2 / 12 * x for x in (0.1, 1, 1)))
        frame = {"position": (length if k else 0, 0, 0), "rotation": np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])}
        b.joint(name, "revolute", before, name, axis=(0, -1, 0), **frame)
        rod = {"position": (length / 2, 0, 0), "rotation": ALONG, "radius": THICK}
        b.geometry(name, name, "capsule", length=length - 2 * THICK, **rod)
        for pulley in (0, 1):
            b.contact(f"{name} on {pulley}", name, f"pulley {pulley}", friction=1.0)
        before = name
    b.frame("tip", before, position=(length, 0, 0)).frame("start", "link 0")
    b.constraint("closed", "custom", "tip", "start", residual=_apart, rows=("x", "z"))
    return b.build()


def _spread(corner: Any) -> tuple[float, float, float]:
    return float(corner[0]), 0.0, float(corner[1])


def _apart(X: Any, Y: Any) -> list[Any]:
    return [X[0, 3] - Y[0, 3], X[2, 3] - Y[2, 3]]


def measure(links: int, steps: int, settled: int) -> tuple[float, float, float]:
    """Processor time until the first step, s, and of a step in both phases, µs."""
    model = belt(links)
    begun = time.process_time()
    kernel, blocks = wt.compile(model).contact_steps, ContactBlocks(model, alone=True).count
    given = (np.zeros((steps, model.nv)), np.full(steps, STEP), 1e-7, math.inf)
    state = (np.asarray(model.home.q, dtype=float), np.zeros(model.nv), np.zeros((blocks, 3)))
    kernel(*state, *given)
    first = time.process_time() - begun
    falling = min(_timed(kernel, *state, *given) for _ in range(5)) / steps * 1e6
    if not settled:
        return first, falling, math.nan
    run = wt.simulate(model, duration=settled * STEP, step=STEP, output_dt=settled * STEP, method="time_stepping")
    q, v, impulses, *_ = kernel(run.q.values[-1], run.v.values[-1], state[2], *given)
    resting = min(_timed(kernel, q[-1], v[-1], impulses[-1], *given) for _ in range(3)) / steps * 1e6
    return first, falling, resting


def _timed(function: Any, *given: Any) -> float:
    begun = time.process_time()
    function(*given)
    return time.process_time() - begun


def main() -> None:
    """Print a line for each length, with the exponents of growth since the one before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("links", type=int, nargs="*", default=[25, 50, 100, 200, 400, 1000])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--settled", type=int, default=0)
    given = parser.parse_args()
    print(f"{'links':>6}{'first s':>10}{'falling µs':>12}{'settled µs':>12}{'exponents':>18}")
    before: tuple[int, Any] | None = None
    for links in given.links:
        found = measure(links, given.steps, given.settled)
        told = ""
        if before is not None:
            ratios = np.log(np.divide(found, before[1])) / math.log(links / before[0])
            told = "".join(f"{x:9.2f}" for x in ratios[1:])
        print(f"{links:6}{found[0]:10.1f}{found[1]:12.0f}{found[2]:12.0f}{told:>18}", flush=True)
        before = (links, found)


if __name__ == "__main__":
    main()
