"""One sweep by every engine: throughput beside the bare batch, the cost of a task, workers killed on the way.

``make sweep-demo`` runs it small, on a local dask cluster of two workers; a number of runs as its argument makes it
larger: ``python -m benchmarks.sweep_engines 1000000``.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import whippletree as wt
from whippletree.campaigns.campaign import Campaign, plan_sweep
from whippletree.campaigns.engines import Dask, Engine, Here, Processes

MODEL = wt.mechanisms.double_pendulum()
PARAMETERS = {"q0.shoulder": stats.uniform(-1, 2), "bodies.lower.mass": stats.uniform(0.5, 1)}
OPTIONS: dict[str, Any] = {"duration": 1.0, "method": "rk4", "output_dt": 1.0, "step": 1e-3, "variables": ()}


def main() -> None:
    """Print a table."""
    runs = int(float(sys.argv[1])) if len(sys.argv) > 1 else 40_000
    folder = Path(tempfile.mkdtemp(prefix="sweep-"))
    try:
        bare = bare_batch(runs)
        print(f"{runs:,} double pendulums of 1 s, 1000 steps of rk4 each; {os.cpu_count()} cores")
        print(f"{'bare batch, all cores':38} {runs / bare:12,.0f} runs/s")
        here = measured(folder / "here", runs, Here(), bare, "one process")
        measured(folder / "processes", runs, Processes(2), bare, "two processes", here)
        with killer(10.0, "whippletree.campaigns.worker"):
            measured(folder / "killed", runs, Processes(2), bare, "two processes, one killed every 10 s", here)
        on_dask(folder, runs, bare, here)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def on_dask(folder: Path, runs: int, bare: float, here: str) -> None:
    """Two dask workers, calm and harried, and what the scheduler costs."""
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        measured(folder / "dask", runs, Dask(client), bare, "dask, two workers", here)
        begun = time.perf_counter()
        client.gather(client.map(abs, range(2000)))
        print(f"{'the scheduler of dask':38} {(time.perf_counter() - begun) / 2000 * 1e3:12.2f} ms/task")
        with killer(10.0, "dask"):
            measured(folder / "dask_killed", runs, Dask(client), bare, "dask, one killed every 10 s", here)


def campaign(folder: Path, runs: int) -> Campaign:
    return plan_sweep(MODEL, PARAMETERS, runs=runs, folder=folder, **OPTIONS)


def measured(folder: Path, runs: int, engine: Engine, bare: float, name: str, expected: str = "") -> str:
    """Run a sweep, print a line, and return the digest of its folder."""
    begun = time.perf_counter()
    planned = campaign(folder, runs)
    planned.run(engine, progress=False)
    seconds = time.perf_counter() - begun
    digest = planned.store.digest()
    same = "" if not expected else ", the same bits" if digest == expected else ", OTHER BITS"
    print(f"{name:38} {runs / seconds:12,.0f} runs/s {bare / seconds:6.0%} of the bare batch{same}")
    return digest


def bare_batch(runs: int) -> float:
    """Seconds of the same simulations without a folder."""
    design = campaign(Path("unused"), runs).job.work.design
    dyn = wt.compile(MODEL, parameters=["bodies.lower.mass"])
    seconds = 0.0
    for first in range(-4096, runs, 4096):  # the first is for warming up
        values = design.values(max(first, 0), min(max(first, 0) + 4096, runs))
        q = np.stack([values["q0.shoulder"], np.zeros(len(values["q0.shoulder"]))], axis=1)
        mass = {"bodies.lower.mass": np.array(values["bodies.lower.mass"])}
        begun = time.perf_counter()
        wt.simulate(MODEL, q, compiled=dyn, parameters=mass, **OPTIONS)
        seconds += time.perf_counter() - begun if first >= 0 else 0.0
    return seconds


@contextmanager
def killer(every: float, word: str) -> Iterator[None]:
    """Kill a child process of this one whose command has this word, now and then."""
    over, choose = threading.Event(), random.Random(0)

    def work() -> None:
        while not over.wait(every):
            children = [pid for pid in descendants(os.getpid()) if word in command(pid)]
            if children:
                os.kill(choose.choice(children), signal.SIGKILL)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def descendants(pid: int) -> list[int]:
    """Processes that this one has started, and those that they have."""
    own = [
        int(child) for task in Path(f"/proc/{pid}/task").glob("*") for child in (task / "children").read_text().split()
    ]
    return own + [found for child in own for found in descendants(child)]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
