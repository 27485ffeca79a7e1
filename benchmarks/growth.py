"""``python -m benchmarks.growth``: how costs grow with the number of bodies, on chains of 10² to 10⁵ rods.

Time and memory per body must not grow: the recursions are linear, and no Python recursion is behind them. The second
table is that of a chain pinned to the world at five of its bodies (ten rows), compiled: structure analysis once per
model, compilation once per function, then so much per call.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from whippletree.compiler.frontend.loops import loop_program, work_size
from whippletree.functions import find
from whippletree.functions.reference import Reference
from whippletree.model import Constraint, Frame, State
from whippletree.tree.skeleton import skeleton


class Growth(NamedTuple):
    """What one forward dynamics of a chain costs."""

    bodies: int
    build: float
    """µs of CPU time per body, for the model and its skeleton."""
    evaluation: float
    """µs of CPU time per body."""
    memory: float
    """Bytes per body at the peak of an evaluation, beyond the model itself."""


def forward_dynamics(n: int) -> tuple[Reference, Callable[[], Any]]:
    """The reference of a chain of n rods, and its forward dynamics at some state."""
    ref = wt.reference(wt.mechanisms.chain(n, length=1 / n))
    q, v, tau = np.random.default_rng(n).uniform(-0.1, 0.1, (3, n))
    return ref, lambda: ref.forward_dynamics(q, v, tau)


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """Median CPU time of a call: what other processes do does not count."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return median(times)


def peak_bytes(run: Callable[[], Any]) -> int:
    """The most memory that a call holds at once."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def measure(n: int, repeats: int) -> Growth:
    """Build and evaluate a chain of n bodies."""
    start = time.process_time()
    _, run = forward_dynamics(n)
    build = time.process_time() - start
    evaluation = seconds(run, repeats)
    return Growth(n, build / n * 1e6, evaluation / n * 1e6, peak_bytes(run) / n)


class PinnedGrowth(NamedTuple):
    """What one constrained forward dynamics of a pinned chain costs."""

    bodies: int
    structure: float
    """s of CPU time, once per model."""
    compilation: float
    """s of CPU time, once per function."""
    evaluation: float
    """µs of CPU time per body."""
    memory: float
    """Bytes per body of the work space of one state."""


def pinned_chain(n: int, pins: int = 5) -> tuple[wt.Model, np.ndarray]:
    """A chain of one metre in all, pinned to the world at some of its bodies where they are, and its coordinates."""
    chain = wt.mechanisms.chain(n, length=1 / n)
    q = np.random.default_rng(n).uniform(-0.5, 0.5, n) / np.sqrt(n)
    names = [chain.bodies[k].name for k in range(n // pins - 1, n, n // pins)]
    pose = wt.reference(chain).pose
    frames = [Frame(f"nail {name}", "world", pose(name)(q)) for name in names]
    ties = [Constraint(f"pin {name}", "pin", (f"nail {name}", name)) for name in names]
    tied = replace(chain, frames=(*chain.frames, *frames), constraints=tuple(ties), start=State(q, np.zeros(n)))
    return tied, q


def measure_pinned(n: int, repeats: int) -> PinnedGrowth:
    """Analyse, compile and evaluate a pinned chain of n bodies."""
    model, q = pinned_chain(n)
    v, tau = np.random.default_rng(n).uniform(-0.1, 0.1, (2, n))
    structure = seconds(lambda: wt.constraint_set(model).structure, 1)
    dyn = wt.compile(model, threads=1)
    compilation = seconds(lambda: dyn.forward_dynamics(q, v, tau), 1)
    evaluation = seconds(lambda: dyn.forward_dynamics(q, v, tau), repeats)
    memory = 8 * work_size(loop_program(find("forward_dynamics", model), skeleton(model)))
    return PinnedGrowth(n, structure, compilation, evaluation / n * 1e6, memory / n)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000, help="number of bodies of the longest chain")
    arguments = parser.parse_args()
    print(f"{'bodies':>8} {'build µs/body':>15} {'forward dynamics µs/body':>26} {'peak bytes/body':>17}")
    n = 100
    while n <= arguments.largest:
        row = measure(n, repeats=max(3, min(9, 10_000 // n)))
        print(f"{row.bodies:8d} {row.build:15.1f} {row.evaluation:26.1f} {row.memory:17.0f}", flush=True)
        n *= 10
    print(f"\n{'bodies':>8} {'structure s':>13} {'compilation s':>15} {'constrained µs/body':>21} {'bytes/body':>12}")
    n = 1000
    while n <= arguments.largest:
        pinned = measure_pinned(n, repeats=9)
        figures = f"{pinned.structure:13.1f} {pinned.compilation:15.1f} {pinned.evaluation:21.3f} {pinned.memory:12.0f}"
        print(f"{pinned.bodies:8d} {figures}", flush=True)
        n *= 10
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
