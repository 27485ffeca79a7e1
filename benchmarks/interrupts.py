"""How soon Ctrl-C is answered, in each method of ``wt.simulate``, in roll-outs and while code is compiled.

    python -m benchmarks.interrupts [--only WORD] [--after SECONDS]

Each piece of work, which would take minutes, is interrupted once; printed are the milliseconds from the signal to the
answer: what was computed so far, or ``KeyboardInterrupt`` where nothing was.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.event_runs import SCENES
from benchmarks.work_precision import chain

Work = Callable[[], Any]


def works() -> dict[str, Callable[[], Work]]:
    """Makers of the work, by name; they compile what it needs."""
    pendulum = wt.mechanisms.double_pendulum()
    return {
        "adaptive": lambda: _run(pendulum, 0.1, 1e6, max_steps=10**9),
        "adaptive, a controller in Python": lambda: _run(
            pendulum, 0.1, 1e6, max_steps=10**9, controller=lambda t, q, v: -v if t >= 0 else v
        ),
        "adaptive, stiff": lambda: _run(chain(4, 1e5, 1e2), 0.1, 1e6, max_steps=10**9, solver="newton"),
        "events": lambda: _run(SCENES["double pendulum, stops far away"][0](), 1.0, 1e6, method="events"),
        "events, many": lambda: _run(wt.mechanisms.hopper(), 1.0, 1e5, method="events", most_events=10**9),
        "rk4": lambda: _run(pendulum, 0.1, 1e5, method="rk4", step=1e-4),
        "implicit midpoint": lambda: _run(pendulum, 0.1, 1e5, method="implicit_midpoint", step=1e-4),
        "rk4, a batch": lambda: _run(pendulum, 0.1, 1e5, method="rk4", step=1e-3, q0=np.full((10_000, 2), 0.3)),
        "time steps": lambda: _run(wt.mechanisms.planar_biped(), 0.1, 1e6, method="time_stepping", step=1e-3),
        "time steps, a batch": lambda: _run(
            wt.mechanisms.planar_biped(), 0.1, 1e6, method="time_stepping", step=1e-3, runs=256
        ),
        "time steps, 64 balls": lambda: _run(
            wt.mechanisms.spheres_in_box(64), 0.01, 1e4, method="time_stepping", step=1e-3
        ),
        "dyn.rollout, one call": lambda: _rollout(pendulum, 1, 10_000_000),
        "dyn.rollout, a batch": lambda: _rollout(pendulum, 4096, 3_000),
        "compiling": _compilation,
    }


def _run(model: wt.Model, first: float, duration: float, runs: int = 0, q0: Any = None, **options: Any) -> Work:
    """A run that is far too long, after a short one that compiles what it needs."""
    start = {} if q0 is None else {"q0": q0}
    if runs:
        start = {"q0": np.tile(model.home.q, (runs, 1))}

    def simulate(duration: float) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # which tells of the interrupt
            return wt.simulate(model, duration=duration, output_dt=duration / 20, variables=(), **start, **options)

    simulate(first)
    return lambda: simulate(duration)


def _rollout(model: wt.Model, runs: int, steps: int) -> Work:
    """Trajectories in one call of machine code."""
    rollout, tau = wt.compile(model).rollout, np.zeros((runs, steps, model.nv))
    q, v = np.full((runs, model.nq), 0.3), np.zeros((runs, model.nv))
    rollout(q, v, tau[:, :10], 1e-4, method="rk4")
    return lambda: [rollout(q, v, tau, 1e-4, method="rk4") for _ in range(1000)]


def _compilation() -> Work:
    """LLVM at work on derivatives of a long chain, with nothing cached."""
    os.environ["WHIPPLETREE_CACHE"] = tempfile.mkdtemp()
    q, v, tau = np.zeros((3, 24))
    return lambda: [
        wt.compile(wt.mechanisms.chain(24, mass=mass)).forward_dynamics_derivatives(q, v, tau)
        for mass in np.linspace(1, 2, 1000)
    ]


def answered(work: Work, after: float) -> str:
    """Press once, and wait for the answer."""
    sent: list[float] = []

    def press() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, press)
    timer.start()
    try:
        found = work()
        told = "what was computed so far" if found is not None else "nothing"
    except KeyboardInterrupt:
        told = "KeyboardInterrupt"
    if not sent:
        timer.cancel()
        return "was over before it could be interrupted"
    return f"{1e3 * (time.perf_counter() - sent[0]):6.0f} ms, {told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--after", type=float, default=1.0, help="s, after which Ctrl-C is pressed")
    arguments = parser.parse_args()
    for name, make in works().items():
        if arguments.only in name:
            print(f"{name:>34}: {answered(make(), arguments.after)}", flush=True)


if __name__ == "__main__":
    main()
