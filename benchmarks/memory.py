"""Memory of very long runs: what a process holds after each tenth of a million steps.

    python -m benchmarks.memory [--steps 1000000]

A double pendulum by adaptive steps and by fixed ones, all of them in one row of output, a biped on its feet by time
steps, and a batch of them. Before them, what each new model leaves behind that was compiled, or simulated by events,
and let go. (:mod:`benchmarks.interrupts` tells how soon Ctrl-C is answered.)
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt

SMALL_STEP, ADAPTIVE_STEP = 1e-3, 0.034
"""Seconds of a time step, and of an adaptive one on average."""

RUNS: dict[str, Callable[[int], dict[str, Any]]] = {
    "adaptive steps": lambda steps: {
        "model": wt.mechanisms.double_pendulum(),
        "duration": steps * ADAPTIVE_STEP,
        "max_steps": 100 * steps,
    },
    "time steps": lambda steps: {
        "model": wt.mechanisms.planar_biped(),
        "duration": steps * SMALL_STEP,
        "method": "time_stepping",
        "step": SMALL_STEP,
    },
    "rk4, one row": lambda steps: {
        "model": wt.mechanisms.double_pendulum(),
        "duration": steps * SMALL_STEP,
        "method": "rk4",
        "step": SMALL_STEP,
        "output_dt": steps * SMALL_STEP,
    },
    "time steps of 20 bipeds, one row": lambda steps: {
        "model": wt.mechanisms.planar_biped(),
        "q0": np.tile(wt.mechanisms.planar_biped().home.q, (20, 1)),
        "duration": steps / 20 * SMALL_STEP,
        "method": "time_stepping",
        "step": SMALL_STEP,
        "output_dt": steps / 20 * SMALL_STEP,
    },
}


def resident() -> float:
    """What the process holds, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(name: str, steps: int) -> str:
    """Run, and look at the memory ten times on the way."""
    asked = RUNS[name](steps)
    model, duration = asked.pop("model"), asked.pop("duration")
    held: list[float] = []
    spacing = asked.pop("output_dt", duration / 100)
    wt.simulate(model, duration=duration / 1000, output_dt=duration / 1000, variables=(), **asked)
    begin = time.process_time()
    done = threading.Event()
    watch = threading.Thread(target=_sample, args=(held, done), daemon=True)
    watch.start()
    run = wt.simulate(model, duration=duration, output_dt=spacing, variables=(), **asked)
    done.set()
    watch.join()
    taken = time.process_time() - begin
    count = int(run.attrs.get("steps", round(duration / SMALL_STEP)))
    told = run.attrs["failure"] or "no failure"
    tenths = " ".join(f"{held[(len(held) - 1) * k // 10]:.0f}" for k in range(1, 11))
    return f"{name}: {count} steps, {1e6 * taken / count:.1f} µs each, {told}; MB held after each tenth: {tenths}"


def _sample(held: list[float], done: threading.Event) -> None:
    while not done.wait(0.2):
        held.append(resident())
    held.append(resident())


MODELS = 40
"""New models of each kind, of which the second half is measured."""


def kept_by_models(name: str) -> str:
    """Memory that each of many models leaves behind, every one with other numbers."""
    held = []
    for k in range(MODELS):
        USES[name](1 + 1e-3 * k)
        gc.collect()
        held.append(resident())
    half = MODELS // 2
    return f"each new model, {name}: {(held[-1] - held[half]) / (MODELS - 1 - half):.3f} MB"


USES: dict[str, Callable[[float], Any]] = {
    "compiled": lambda mass: wt.compile(wt.mechanisms.chain(4, mass=mass)).forward_dynamics(*np.zeros((3, 4))),
    "simulated": lambda mass: wt.simulate(wt.mechanisms.chain(2, mass=mass), duration=0.1),
    "simulated by events": lambda mass: wt.simulate(
        wt.mechanisms.rocking_block(mass=mass), duration=0.2, method="events"
    ),
}
"""Uses of a model of some mass, each of which is let go."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of each run")
    steps = parser.parse_args().steps
    for name in USES:
        print(kept_by_models(name), flush=True)
    for name in RUNS:
        print(measure(name, steps), flush=True)


if __name__ == "__main__":
    main()
