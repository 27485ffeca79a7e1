"""Which decisions the tests hold: small changes of the deciding files, and whether a test notices.

    python -m studies.mutation                        the changes that have a name
    python -m studies.mutation events --count 40      and so many generated ones of a group, with a seed

A mutant is a copy of the sources with one change. It runs against the tests of its group, and the first failure ends
it: it is killed. What survives is printed with its line; ``--all`` runs survivors once more against every test.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/whippletree")
SECONDS = 900
"""A mutant that runs longer counts as killed: it hangs."""


class Group(NamedTuple):
    """Files that decide things of one kind, and the tests that cover them."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "steps": Group(
        ("contact/time_step.py", "simulation/time_stepping/impulse_step.py"),
        ("tests/contact/steps", "tests/simulate"),
    ),
    "events": Group(
        (
            "simulation/events/guards.py", "simulation/events/transitions.py", "simulation/events/repeated_events.py",
            "simulation/events/zeno.py", "contact/contact_modes.py",
        ),
        ("tests/contact/events", "tests/contact/sensitivity"),
    ),
    "impacts": Group(("contact/impact/impact.py", "contact/impact/laws.py"), ("tests/contact/impacts",)),
    "ranks": Group(
        ("constraints/redundancy.py", "constraints/routes.py", "constraints/kkt.py"),
        ("tests/methods", "tests/mechanisms", "tests/identities"),
    ),
    "long": Group(
        ("constraints/node_rows.py", "constraints/front_elimination.py"), ("tests/methods", "tests/compiled")
    ),
}  # fmt: skip


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
    """A change that once survived, and the tests that have to notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


NAMED = (
    Named(
        "a bounce at any distance", "contact/time_step.py",
        "both(less(0, e), both(less(gap + h * speed, 0), less(speed, 0)))", "both(less(0, e), less(speed, 0))",
        ("tests/contact/steps",),
    ),
    Named(
        "patience for repeated events off", "simulation/events/repeated_events.py",
        "self._after(self._repeats // EVENT_PATIENCE)", "self._after(0)", ("tests/contact/events",),
    ),
    Named(
        "doubt about sizes off", "constraints/dynamics.py",
        "found = zip(kept, sizes, usual, strict=True)", "found = zip((), (), (), strict=True)",
        ("tests/methods", "tests/mechanisms"),
    ),
    Named(
        "pivot tolerance times 512", "constraints/routes.py",
        "PIVOT_TOLERANCE = 2.0**-33", "PIVOT_TOLERANCE = 2.0**-24", ("tests/methods", "tests/mechanisms"),
    ),
    Named(
        "hyperstatic tolerance times 10⁴", "simulation/events/phase.py",
        "s[-1] < HYPERSTATIC * s[0]", "s[-1] < 1e4 * HYPERSTATIC * s[0]", ("tests/contact/events",),
    ),
    Named(
        "lifted contacts off", "simulation/events/event_method.py",
        "fired = self._with_lifted(phase, t, fired)", "fired = list(fired)", ("tests/contact/events",),
    ),
    Named(
        "long sweeps off", "constraints/node_rows.py",
        "return _costs(model, LOOPED) and _has_inertia(model)", "return False", ("tests/methods", "tests/compiled"),
    ),
)  # fmt: skip

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


def survives(mutant: Mutant, tests: tuple[str, ...]) -> bool:
    """Whether all these tests pass with the change."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / PACKAGE / mutant.file).write_text(mutant.text)
        environment = os.environ | {"PYTHONPATH": str(Path(folder) / "src")}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
    if done.returncode > 1:
        raise RuntimeError(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
    return done.returncode == 0


def named(change: Named) -> Mutant:
    """The change as a mutant; its text must be in the file exactly once."""
    source = (ROOT / PACKAGE / change.file).read_text()
    if source.count(change.old) != 1:
        raise ValueError(f"{change.name}: {change.old!r} occurs {source.count(change.old)} times in {change.file}")
    line = source[: source.index(change.old)].count("\n") + 1
    return Mutant(change.file, line, change.old, change.new, source.replace(change.old, change.new))


def main() -> None:
    """Print a line for each mutant, then the share that was killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], help="groups to change at random")
    parser.add_argument("--count", type=int, default=40, help="mutants of each group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="survivors once more against every test")
    asked = parser.parse_args()
    wanted = [(named(change), change.tests) for change in NAMED] if not asked.groups else []
    for word in asked.groups:
        group = GROUPS[word]
        every = [mutant for file in group.files for mutant in mutants(file)]
        chosen = random.Random(asked.seed).sample(every, min(asked.count, len(every)))
        wanted += [(mutant, group.tests) for mutant in chosen]
    killed = 0
    for mutant, tests in wanted:
        lives = survives(mutant, tests) and (not asked.all or survives(mutant, ("tests",)))
        killed += not lives
        print("SURVIVES" if lives else "killed  ", mutant, flush=True)
    print(f"{killed} of {len(wanted)} killed")


if __name__ == "__main__":
    main()
