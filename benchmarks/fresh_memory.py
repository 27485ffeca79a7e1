"""What calls take of memory that no call has used yet: µs of processor time, and page faults, of calls alike.

    python -m benchmarks.fresh_memory [CASE ...] [--file MODEL.xml]

Matrices of long systems, batches whose results are large, and a step of a file. Each case runs in a process of its own,
since what one gives back is not new for the next.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.loops import scene

DERIVATIVES = "forward_dynamics_derivatives"
CASES: dict[str, tuple[Callable[[], wt.Model], str, int]] = {
    "derivatives, 100 four-bars": (partial(scene, 100), DERIVATIVES, 0),
    "derivatives, 200 four-bars": (partial(scene, 200), DERIVATIVES, 0),
    "derivatives, chain of 300": (partial(wt.mechanisms.chain, 300), DERIVATIVES, 0),
    "derivatives, random tree of 300": (partial(wt.mechanisms.tree, 300, seed=1), DERIVATIVES, 0),
    "derivatives, chain of 7, 10 000 states": (partial(wt.mechanisms.chain, 7), DERIVATIVES, 10_000),
    "N-four-bar of 2000": (partial(wt.mechanisms.n_four_bar, 2000), "forward_dynamics", 0),
    "chain of 3": (partial(wt.mechanisms.chain, 3), "forward_dynamics", 0),
}


def faults() -> int:
    """Pages that this process has had to ask for."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def line(word: str, call: Callable[[], Any], rounds: int = 7) -> str:
    """The least of some repetitions, per call."""
    for _ in range(3):
        call()
    start = time.process_time()
    call()
    count = max(2, int(0.05 / max(time.process_time() - start, 1e-7)))
    best, new = np.inf, 0.0
    for _ in range(rounds):
        before, start = faults(), time.process_time()
        for _ in range(count):
            call()
        best, new = min(best, (time.process_time() - start) / count), (faults() - before) / count
    return f"{word:40} {1e6 * best:10.2f} µs {new:8.1f} pages"


def case_line(word: str) -> str:
    """A case, at home and at rest."""
    make, name, states = CASES[word]
    model = make()
    batch = (states,) if states else ()
    q, still = np.broadcast_to(model.home.q, (*batch, model.nq)).copy(), np.zeros((*batch, model.nv))
    return line(word, partial(getattr(wt.compile(model, threads=1), name), q, still, still))


def step_line(path: str) -> str:
    """Steps of a file, one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = wt.load(path)
        return line(model.name, partial(wt.compile(model, threads=1).step, model.home.q, np.zeros(model.nv)))


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--file", action="append", default=[])
    asked = parser.parse_args()
    work = [(case_line, word) for word in asked.cases] + [(step_line, path) for path in asked.file]
    for function, what in work:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.apply(function, (what,)), flush=True)


if __name__ == "__main__":
    main()
