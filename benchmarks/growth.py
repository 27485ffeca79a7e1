"""``python -m benchmarks.growth``: how the reference grows with the number of bodies, on chains of 10² to 10⁵ rods.

Time and memory per body must not grow: the recursions are linear, and no Python recursion is behind them.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from whippletree.plain import Reference


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
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
