"""How the time of a step grows with the links of a belt on its pulleys, and that until the first step.

    python -m benchmarks.belts [25 50 100 200 …] [--steps 8] [--landing 30] [--settled 300]

The belt is that of :mod:`benchmarks.mixed_scenes`, built in Python: files of more than 490 bodies in each other are not
read. Three phases, at 1e-7 m/s: *falling*, the first steps of the kernel, before the belt meets the pulleys; *landing*,
steps of ``wt.simulate`` from there on, with those that are taken in parts or in Python; and, with ``--settled``, steps
of the kernel after so many of ``wt.simulate``. *left* counts landing steps beyond the tolerance, *residual* is their
worst (m/s), *overlap* the deepest at their end (m), *gained* the energy from nothing as a share of the kinetic energy.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from benchmarks.mixed_scenes import stadium
from whippletree.contact.time_step import ContactBlocks

STEP, THICK, GAP = 2e-3, 0.01, 8e-3
FALL = 18
"""Steps before the belt meets its pulleys."""
RUNS = 3
"""Runs of which the fastest counts."""
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


class Found(NamedTuple):
    """Processor time until the first step, s, and of a step in each phase, µs; and how the landing went."""

    first: float
    falling: float
    landing: float
    settled: float
    left: int
    residual: float
    overlap: float
    gained: float


def measure(links: int, steps: int, landing: int, settled: int) -> Found:
    """All of it for a belt."""
    model = belt(links)
    begun = time.process_time()
    dyn = wt.compile(model)
    kernel, blocks = dyn.contact_steps, ContactBlocks(model, alone=True).count
    given = (np.zeros((steps, model.nv)), np.full(steps, STEP), 1e-7, math.inf)
    state = (np.asarray(model.home.q, dtype=float), np.zeros(model.nv), np.zeros((blocks, 3)))
    kernel(*state, *given)
    first = time.process_time() - begun
    falling = min(_timed(kernel, *state, *given) for _ in range(5)) / steps * 1e6
    # what a first run waits for is no part of its steps, and a run costs some milliseconds beside them
    run = _fallen(model, FALL + landing)
    fall, whole = (min(_timed(_fallen, model, count) for _ in range(RUNS)) for count in (FALL, FALL + landing))
    landed = (whole - fall) / landing * 1e6
    energy = float(dyn.kinetic_energy(run.q.values, run.v.values)[-1])
    resting = _settled(model, kernel, given, settled) / steps * 1e6 if settled else math.nan
    return Found(
        first,
        falling,
        landed,
        resting,
        int(run.attrs["unconverged_steps"]) if not run.attrs["failure"] else -1,
        float(run.residual_velocity.max()),
        float(run.penetration.max()),
        float(run.energy_balance[-1]) / energy,
    )


def _fallen(model: wt.Model, steps: int) -> Any:
    # one row of output: contact forces of each would take longer than the steps
    return wt.simulate(model, duration=steps * STEP, step=STEP, output_dt=steps * STEP, method="time_stepping")


def _settled(model: wt.Model, kernel: Any, given: Any, settled: int) -> float:
    """Processor time of some steps of the kernel, after so many of ``wt.simulate``."""
    run = wt.simulate(model, duration=settled * STEP, step=STEP, output_dt=settled * STEP, method="time_stepping")
    blocks = ContactBlocks(model, alone=True).count
    q, v, impulses, *_ = kernel(run.q.values[-1], run.v.values[-1], np.zeros((blocks, 3)), *given)
    return min(_timed(kernel, q[-1], v[-1], impulses[-1], *given) for _ in range(3))


def _timed(function: Any, *given: Any) -> float:
    begun = time.process_time()
    function(*given)
    return time.process_time() - begun


def main() -> None:
    """Print a line for each length, with the exponents of growth since the one before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("links", type=int, nargs="*", default=[25, 50, 100, 200, 400, 1000])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--landing", type=int, default=30)
    parser.add_argument("--settled", type=int, default=0)
    given = parser.parse_args()
    words = ("links", "first s", "falling µs", "landing µs", "settled µs", "left", "residual", "overlap", "gained")
    print("".join(f"{word:>12}" for word in words) + "   exponents")
    before: tuple[int, Found] | None = None
    for links in given.links:
        found = measure(links, given.steps, given.landing, given.settled)
        told = ""
        if before is not None:
            ratios = np.log(np.divide(found[1:4], before[1][1:4])) / math.log(links / before[0])
            told = "".join(f"{x:9.2f}" for x in ratios)
        times = f"{found.first:12.1f}{found.falling:12.0f}{found.landing:12.0f}{found.settled:12.0f}"
        judged = f"{found.left:12}{found.residual:12.1g}{found.overlap:12.1g}{found.gained:12.2g}"
        print(f"{links:12}{times}{judged}{told}", flush=True)
        before = (links, found)


if __name__ == "__main__":
    main()
