"""``make bench``: the whole table, on one thread, printed and written as JSON."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks.analysis import analysis_rows
from benchmarks.ceiling import operations_per_second
from benchmarks.conditioning import conditioning_rows
from benchmarks.contacts import contact_rows
from benchmarks.contests import chain_rows, robot_rows, rollout_rows, thread_rows
from benchmarks.first_use import first_use_rows
from benchmarks.reaching import reaching_rows
from benchmarks.robots import ROBOTS, model_of
from benchmarks.row import BATCH, Row
from benchmarks.stepping import stepping_rows
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.functions import find

PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "chains": chain_rows,
    "rollout": rollout_rows,
    "threads": thread_rows,
    "first use": first_use_rows,
    "contacts": contact_rows,
    "stepping": stepping_rows,
    "conditioning": conditioning_rows,
    "analysis": analysis_rows,
    "reaching": reaching_rows,
}
"""Contests beside those of the robots."""


def machine() -> dict[str, str]:
    """Where and with what this was measured."""
    names = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next(
        (line.partition(":")[2].strip() for line in names if line.startswith("model name")), platform.processor()
    )
    packages = ("numpy", "llvmlite", "pin", "mujoco")
    return {"cpu": cpu, "python": platform.python_version()} | {name: version(name) for name in packages}


def rows(names: list[str]) -> Iterator[Row]:
    """Every contest, robots first."""
    for robot in ROBOTS:
        if not names or robot.name in names:
            yield from robot_rows(robot)
    for part, rows_of in PARTS.items():
        if not names or part in names:
            yield from rows_of()


def ceiling_rows(measured: list[Row]) -> Iterator[str]:
    """Share of the CPU's arithmetic ceiling that forward dynamics reaches."""
    peak = operations_per_second()
    yield f"peak: {peak / 1e9:.1f} thousand million operations per second (additions and fused multiply-adds)"
    for robot in ROBOTS:
        found = [r for r in measured if r.subject == robot.name and r.measure == "forward dynamics, batch"]
        if found:
            model = model_of(robot)
            block = unrolled_program(model, find("forward_dynamics", model)).body[0]
            operations = block.code.operations  # type: ignore[union-attr]
            share = operations / (found[0].ours * 1e-6) / peak
            yield f"{robot.name}: {operations} operations per state, {share:.0%} of the peak"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"robots, or {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    arguments = parser.parse_args()
    where = machine()
    print(", ".join(f"{key} {value}" for key, value in where.items()), f"; batch {BATCH}, one thread, medians")
    print(f"{'subject':16}{'measure':40}{'ours µs':>11}{'peer µs':>11}{'ratio':>8}  peer")
    measured = []
    for row in rows(arguments.names):
        measured.append(row)
        peer = f"{row.peer:11.3f}{row.ratio:7.1f}×" if row.peer is not None else " " * 19
        print(f"{row.subject:16}{row.measure:40}{row.ours:11.4f}{peer}  {row.peer_name} {row.note}", flush=True)
    for line in ceiling_rows(measured):
        print(line)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": where, "rows": [r.record() for r in measured]}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
