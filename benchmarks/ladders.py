"""Loops that are not local: time to the first answer and per call, by length, for ladders and grids.

    python -m benchmarks.ladders [--most 2000] [--simulate]

Processor time of one thread; ``home`` is assembly and structure, ``first`` the first call of forward_dynamics. With
``--simulate`` N-four-bars are followed for 0.7 s, almost to their dead point, by our adaptive integrator at relative
tolerances of 1e-3 and 1e-6 and by Exudyn's generalised alpha with steps of 10 and 1 ms, where that is installed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import whippletree as wt
from benchmarks.exact_motions import n_four_bar_state
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
    """Print what an N-four-bar takes to be followed almost to its dead point; seconds of a run of ours.

    A step of ours is of order 16, one of Exudyn's of order 2: what counts is the whole, beside the error at its end,
    against the exact motion.
    """
    begin, duration = time.process_time(), 0.7
    model = wt.mechanisms.n_four_bar(n)
    model.home  # noqa: B018
    home = time.process_time()
    dyn, exact = wt.compile(model), n_four_bar_state(n, duration)

    def follow(rtol: float) -> tuple[float, str]:
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
        taken, steps = time.process_time() - began, int(run.attrs["steps"])
        error = np.abs(np.concatenate([run.q.values[-1], run.v.values[-1]]) - exact).max()
        return taken, f"{steps} steps, {1e3 * taken:.1f} ms ({1e3 * taken / steps:.1f} a step), error {error:.0e}"

    began = time.process_time()
    follow(1e-6)
    print(f"{n:5d}: home {home - begin:.1f} s, first {time.process_time() - began:.1f} s", flush=True)
    best = np.inf
    for rtol in (1e-3, 1e-6):
        best, told = min(follow(rtol) for _ in range(3))
        print(f"       ours, {rtol:.0e}: {told}", flush=True)
    try:
        system = planar_system(model, model.home.q, model.home.v)
    except ImportError:
        return best
    for steps in (70, 700):
        began = time.process_time()
        away = np.abs(system.solve(duration, steps) - exact).max()
        taken = time.process_time() - began
        told = f"{steps} steps, {1e3 * taken:.1f} ms ({1e3 * taken / steps:.1f} a step), error {away:.0e}"
        print(f"       Exudyn: {told}", flush=True)
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
