"""Loops that are not local: time to the first answer and per call, by length, for ladders and grids.

    python -m benchmarks.ladders [--most 2000] [--simulate]

Processor time of one thread; ``home`` is assembly and structure, ``first`` the first call of forward_dynamics. With
``--simulate`` N-four-bars are followed for 0.05 s, by our adaptive integrator at a relative tolerance of 1e-6 and by
Exudyn's generalised alpha with steps of 1 ms, where that is installed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import whippletree as wt
from benchmarks.exudyn_planar import planar_system
from whippletree.model import Model

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from long_mechanisms import floating_ladder, grid

SIZES: dict[str, tuple[Callable[[int], Model], tuple[int, ...]]] = {
    "N-four-bar": (wt.mechanisms.n_four_bar, (10, 100, 200, 500, 1000, 2000)),
    "floating ladder": (floating_ladder, (50, 100, 200, 400)),
    "grid": (lambda n: grid(n, n), (6, 9, 12, 18, 24, 34)),
}


def measure(model: Model) -> tuple[float, float, float]:
    """Seconds for the home state, for the first call and for a later one, by elimination."""
    start = time.process_time()
    dyn = wt.compile(model, route="elimination")
    q, v, tau = np.array(model.home.q), np.array(model.home.v), np.zeros(model.nv)
    home = time.process_time()
    dyn.forward_dynamics(q, v, tau)
    first = time.process_time()
    rounds = max(3, 10_000 // model.nv)
    best = np.inf
    for _ in range(5):
        begin = time.process_time()
        for _ in range(rounds):
            dyn.forward_dynamics(q, v, tau)
        best = min(best, (time.process_time() - begin) / rounds)
    return home - start, first - home, best


def simulate(n: int) -> float:
    """Print what an N-four-bar takes to be followed for a while; seconds of a run of ours.

    A run of ours has three steps or so of order 16, one of Exudyn's fifty of order 2: what counts is the whole, beside
    the error at its end, for which a run with a tolerance of 1e-10 stands.
    """
    begin, duration = time.process_time(), 0.05
    model = wt.mechanisms.n_four_bar(n)
    model.home  # noqa: B018
    home = time.process_time()
    dyn = wt.compile(model)

    def follow(rtol: float) -> tuple[np.ndarray, int, float]:
        began = time.process_time()
        run = wt.simulate(
            model,
            duration=duration,
            rtol=rtol,
            atol=rtol / 100,
            output_dt=duration,
            variables=("constraint_residual",),
            compiled=dyn,
        )
        last = np.concatenate([run.q.values[-1], run.v.values[-1]])
        return last, int(run.attrs["steps"]), time.process_time() - began

    first = follow(1e-6)[2]
    runs = [follow(1e-6) for _ in range(3)]
    exact = follow(1e-10)[0]
    best = min(taken for *_, taken in runs)
    error = np.abs(runs[0][0] - exact).max()
    told = f"{runs[0][1]} steps, {1e3 * best:.1f} ms, error {error:.0e}; home {home - begin:.1f} s, first {first:.1f} s"
    try:
        system = planar_system(model, model.home.q, model.home.v)
    except ImportError:
        print(f"{n:5d}: {told}; Exudyn is not installed")
        return best
    began = time.process_time()
    away = np.abs(system.solve(duration, 50) - exact).max()
    print(
        f"{n:5d}: {told}; Exudyn 50 steps, {1e3 * (time.process_time() - began):.1f} ms, error {away:.0e}", flush=True
    )
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=2000, help="largest size")
    parser.add_argument("--least", type=int, default=0, help="smallest size that is simulated")
    parser.add_argument("--simulate", action="store_true", help="follow N-four-bars instead")
    arguments = parser.parse_args()
    most = arguments.most
    if arguments.simulate:
        sizes = [n for n in (20, 80, 200, 1000) if arguments.least <= n <= most]
        taken = [simulate(n) for n in sizes]
        if len(sizes) > 1:
            print(f"exponent of a run of ours {np.polyfit(np.log(sizes), np.log(taken), 1)[0]:.2f}")
        return
    for name, (make, sizes) in SIZES.items():
        calls = []
        print(f"{name:>16}  size  bodies   home s  first s    call µs")
        for n in [n for n in sizes if n <= most]:
            model = make(n)
            home, first, call = measure(model)
            calls.append((len(model.bodies), call))
            print(f"{'':>16} {n:5d} {len(model.bodies):7d} {home:8.2f} {first:8.2f} {1e6 * call:10.1f}", flush=True)
        if len(calls) > 1:
            bodies, times = np.log(np.array(calls)).T
            print(f"{'':>16} exponent {np.polyfit(bodies, times, 1)[0]:.2f}")


if __name__ == "__main__":
    main()
