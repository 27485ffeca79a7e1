"""How long a first answer takes: forward dynamics in fresh processes, with nothing cached and cached on disk."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.robots import ROBOTS, Robot
from benchmarks.row import Row

PROCESS = """
import sys, time
import numpy as np
from benchmarks.robots import ROBOTS, model_of
model = model_of(next(robot for robot in ROBOTS if robot.name == sys.argv[1]))
still = np.zeros(model.nv)
start = time.perf_counter()
import whippletree as wt
wt.compile(model).forward_dynamics(model.home.q, still, still)
print(time.perf_counter() - start)
"""
"""The model is loaded before the clock starts; importing the compiler belongs to the first use."""


def first_use_rows(rounds: int = 5) -> Iterator[Row]:
    """Of a humanoid."""
    robot = next(robot for robot in ROBOTS if robot.kind == "humanoid")
    cold, warm = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_seconds(robot, folder))
            warm.append(_seconds(robot, folder))
    for measure, seconds in (("nothing cached", cold), ("cached on disk", warm)):
        yield Row(robot.name, f"first use, {measure}", statistics.median(seconds) * 1e6, None, "", "a fresh process")


def _seconds(robot: Robot, cache: str) -> float:
    # Python's own cache of bytecode is left as users have it, whatever this shell says
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["WHIPPLETREE_CACHE"] = cache
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, robot.name], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)
