"""Which decisions the tests hold: small changes of the deciding files, and whether a test notices.

    python -m studies.mutation cover                  which test runs which lines (once; Python from 3.12 on)
    python -m studies.mutation named                  the changes that have a name
    python -m studies.mutation steps events --count 40    so many generated ones of each group, with a seed

A mutant is a copy of the sources with one change. It runs against the tests that cover its line, the quick ones first,
and the first failure ends it: it is killed. What survives is printed with its line; ``--all`` runs survivors once more
against every test of the deciding files.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from studies import covering_tests

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/whippletree")
TESTS = ("tests/contact", "tests/identities", "tests/mechanisms", "tests/methods", "tests/simulate", "tests/books")
"""Where tests of the deciding files live."""
COVERING = ROOT / "out" / "covering.json"
"""Which test runs which lines."""
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
SECONDS = 300
"""A mutant that runs longer counts as killed: it hangs."""
ENOUGH = 60.0
"""Seconds that the covering tests of a mutant may take without it; slower ones are left out unless ``--all``."""

GROUPS = {
    "steps": (
        "contact/time_step.py", "simulation/time_stepping/impulse_step.py", "simulation/time_stepping/near_blocks.py",
    ),
    "events": (
        "simulation/events/guards.py", "simulation/events/transitions.py", "simulation/events/zeno.py",
        "contact/contact_modes.py",
    ),
    "impacts": ("contact/impact/impact.py", "contact/impact/laws.py"),
    "ranks": (
        "constraints/redundancy.py", "constraints/routes.py", "constraints/route_choice.py", "constraints/kkt.py",
    ),
    "long": ("constraints/long_systems/node_rows.py", "constraints/long_systems/front_elimination.py"),
}  # fmt: skip
"""Files that decide things of one kind."""


class Mutant(NamedTuple):
    """One change of one file."""

    file: str
    line: int
    old: str
    new: str
    text: str
    """The whole file after it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old} → {self.new}"


class Named(NamedTuple):
    """A change that once survived."""

    name: str
    file: str
    old: str
    new: str


NAMED = (
    Named(
        "a bounce at any distance", "contact/time_step.py",
        "both(less(0, e), both(less(gap + h * speed, 0), less(speed, 0)))", "both(less(0, e), less(speed, 0))",
    ),
    Named(
        "patience for repeated events off", "simulation/events/zeno.py",
        "self._after(self._repeats // EVENT_PATIENCE)", "self._after(0)",
    ),
    Named(
        "doubt about sizes off", "constraints/dynamics.py",
        "found = zip(kept, sizes, usual, strict=True)", "found = zip((), (), (), strict=True)",
    ),
    Named(
        "pivot tolerance times 512", "constraints/routes.py",
        "PIVOT_TOLERANCE = 2.0**-33", "PIVOT_TOLERANCE = 2.0**-24",
    ),
    Named(
        "hyperstatic tolerance times 10⁴", "simulation/events/phase.py",
        "s[-1] < HYPERSTATIC * s[0]", "s[-1] < 1e4 * HYPERSTATIC * s[0]",
    ),
    Named(
        "lifted contacts off", "simulation/events/event_method.py",
        "fired = self._with_lifted(phase, t, fired)", "fired = list(fired)",
    ),
    Named(
        "long sweeps off", "constraints/long_systems/node_rows.py",
        "return _costs(model, LOOPED) and _has_inertia(model)", "return False",
    ),
)  # fmt: skip

WATCHED = tuple(dict.fromkeys([file for group in GROUPS.values() for file in group] + [n.file for n in NAMED]))
"""Files of which the covering tests are known."""

COMPARED = {
    ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
COMBINED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}


def mutants(file: str) -> Iterator[Mutant]:
    """Comparisons turned round, conditions and signs exchanged, constants at the top a hundred times as large."""
    source = (ROOT / PACKAGE / file).read_text()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield _changed(file, source, node, f"{left} {COMPARED[type(node.ops[0])]} {right}")
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield _changed(file, source, node, word.join(f"({ast.unparse(value)})" for value in node.values))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield _changed(file, source, node, f"({ast.unparse(node.operand)})")
        elif isinstance(node, ast.BinOp) and type(node.op) in COMBINED:
            changed = f"({ast.unparse(node.left)}) {COMBINED[type(node.op)]} ({ast.unparse(node.right)})"
            yield _changed(file, source, node, changed)
    for statement in tree.body:
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.BinOp) or (isinstance(value, ast.Constant) and isinstance(value.value, float)):
            yield _changed(file, source, value, f"100 * ({ast.unparse(value)})")


def _changed(file: str, source: str, node: ast.expr, new: str) -> Mutant:
    lines = source.encode().split(b"\n")
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    head, tail = lines[node.lineno - 1][: node.col_offset], lines[node.end_lineno - 1][node.end_col_offset :]
    changed = [*lines[: node.lineno - 1], head + f"({new})".encode() + tail, *lines[node.end_lineno :]]
    return Mutant(file, node.lineno, ast.unparse(node), new, b"\n".join(changed).decode())


class Coverage:
    """Which tests run a line, the quick ones first."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise SystemExit(f"there is no {path}: run 'python -m studies.mutation cover' first")
        found: dict[str, Any] = json.loads(path.read_text())
        self._tests = sorted(found.items(), key=lambda test: test[1]["seconds"])

    def tests(self, mutant: Mutant, seconds: float) -> list[str]:
        """Tests that run the lines a mutant changes, for so many seconds; of its file if there are none."""
        felt = felt_lines(mutant)
        of_lines = [
            (name, found)
            for name, found in self._tests
            if any(not lines.isdisjoint(found["lines"].get(file, ())) for file, lines in felt.items())
        ]
        chosen, total = [], 0.0
        for name, found in of_lines or [test for test in self._tests if mutant.file in test[1]["lines"]]:
            total += found["seconds"]
            if chosen and total > seconds:
                break
            chosen.append(name)
        return chosen


def felt_lines(mutant: Mutant) -> dict[str, set[int]]:
    """The line of a mutant, by its file; of a constant, which itself runs on import alone, the lines that use it."""
    trees = {file: ast.parse((ROOT / PACKAGE / file).read_text()) for file in WATCHED}
    own = trees[mutant.file].body
    changed = [node for node in own if isinstance(node, ast.Assign) and node.lineno == mutant.line]
    names = {target.id for node in changed for target in node.targets if isinstance(target, ast.Name)}
    if not names:
        return {mutant.file: {mutant.line}}
    return {
        file: {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names}
        - ({mutant.line} if file == mutant.file else set())
        for file, tree in trees.items()
    }


def cover(jobs: int) -> None:
    """Find the covering tests, each file of tests in a process of its own."""
    files = ":".join(WATCHED)
    found: dict[str, Any] = {}

    def run(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            noted = Path(folder) / "lines.json"
            asked = {covering_tests.FILES: files, covering_tests.ANSWER: str(noted), "WHIPPLETREE_CACHE": "off"}
            command = [*PYTEST, "-p", covering_tests.__name__, str(path)]
            done = subprocess.run(command, cwd=ROOT, env=os.environ | asked, capture_output=True, check=False)
            if noted.exists():
                found.update(json.loads(noted.read_text()))
        print(path.relative_to(ROOT), done.stdout.decode().strip().rpartition("\n")[2], flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, [path for folder in TESTS for path in sorted((ROOT / folder).rglob("test_*.py"))]))
    COVERING.parent.mkdir(exist_ok=True)
    COVERING.write_text(json.dumps(found))


def survives(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether all these tests pass with the change."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / PACKAGE / mutant.file).write_text(mutant.text)
        path = os.pathsep.join([str(Path(folder) / "src"), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path}
        try:
            done = subprocess.run(
                [*PYTEST, "-x", *tests], cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False
    if done.returncode == pytest.ExitCode.USAGE_ERROR:
        raise RuntimeError(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
    return done.returncode == pytest.ExitCode.OK


def named(change: Named) -> Mutant:
    """The change as a mutant; its text must be in the file exactly once."""
    source = (ROOT / PACKAGE / change.file).read_text()
    if source.count(change.old) != 1:
        raise ValueError(f"{change.name}: {change.old!r} occurs {source.count(change.old)} times in {change.file}")
    line = source[: source.index(change.old)].count("\n") + 1
    return Mutant(change.file, line, change.old, change.new, source.replace(change.old, change.new))


def main() -> None:
    """Print a line for each mutant, then the share that was killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", choices=["cover", "named", *GROUPS])
    parser.add_argument("--count", type=int, default=40, help="mutants of each group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--all", action="store_true", help="survivors once more against every test")
    asked = parser.parse_args()
    if "cover" in asked.groups:
        cover(asked.jobs)
    wanted = [named(change) for change in NAMED] if "named" in asked.groups else []
    for word in (word for word in asked.groups if word in GROUPS):
        every = [mutant for file in GROUPS[word] for mutant in mutants(file)]
        wanted += random.Random(asked.seed).sample(every, min(asked.count, len(every)))
    coverage = Coverage(COVERING)

    def verdict(mutant: Mutant) -> bool:
        tests = coverage.tests(mutant, ENOUGH)
        lives = not tests or survives(mutant, tests)
        if lives and asked.all:
            lives = survives(mutant, TESTS)
        print("SURVIVES" if lives else "killed  ", f"{len(tests):3} tests", mutant, flush=True)
        return not lives

    with ThreadPoolExecutor(asked.jobs) as pool:
        killed = sum(pool.map(verdict, wanted))
    print(f"{killed} of {len(wanted)} killed")


if __name__ == "__main__":
    main()
