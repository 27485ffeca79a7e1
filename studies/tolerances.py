"""The table of all numbers that decide something, from the sources: ``python -m studies.tolerances`` writes the page.

A tolerance lives beside the code that it decides, with its unit and its reason in the docstring below it. The page
``docs/tolerances.md`` lists them all; a test holds it to the sources and lets no two have the same name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "whippletree"
PAGE = ROOT / "docs" / "tolerances.md"

CHAPTERS = (
    "model", "spatial", "tree", "constraints", "contact", "accuracy", "functions", "compiler", "simulation", "analysis",
    "campaigns", "io",
)  # fmt: skip
"""Chapters whose numbers decide answers; how things look (``view``, ``cli``) is left out."""

HEAD = """# Numbers that decide

Every tolerance, limit and threshold of the library that is not a whole number: where it lives, its value, and what its
docstring says of unit and reason. The tables are made from the sources by `python -m studies.tolerances`; a test
compares them. No two constants of the library share a name. Arguments of functions (`rtol`, `tolerance`,
`penetration`, …) are documented with the functions.
"""


class Constant(NamedTuple):
    """A number with a name, at the top of a module."""

    module: str
    name: str
    value: float
    reason: str
    """Its docstring, in one line; empty if it has none."""


def constants() -> Iterator[Constant]:
    """Every number that a module of the library gives a name in capitals."""
    for path in sorted(SOURCES.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, after in zip(body, [*body[1:], None], strict=True):
            for target, expression in _assignments(statement):
                value = _number(expression)
                if isinstance(target, ast.Name) and target.id.isupper() and value is not None:
                    yield Constant(module, target.id, value, _docstring(after))


def page(every: Iterable[Constant]) -> str:
    """The whole page, of these constants."""
    found = [constant for constant in every if isinstance(constant.value, float)]
    parts = [HEAD]
    for chapter in CHAPTERS:
        rows = [c for c in found if c.module.partition(".")[0] == chapter]
        if rows:
            parts.append(
                f"## `{chapter}`\n\n| name | value | what it decides, and why | where |\n| --- | --- | --- | --- |"
            )
            parts[-1] += "".join(f"\n| `{c.name}` | {c.value:g} | {c.reason} | `{c.module}` |" for c in rows) + "\n"
    return "\n".join(parts)


def _assignments(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and values of an assignment, also of several values (A, B = 1, 2) or of one to several (A = B = 1)."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value
    for target in statement.targets if isinstance(statement, ast.Assign) else []:
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from zip(target.elts, statement.value.elts, strict=True)
        else:
            yield target, statement.value


ARITHMETIC = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant)
"""Parts of an expression that is a number, such as ``2.0**-40``."""


def _number(node: ast.expr) -> float | None:
    if not all(isinstance(part, ARITHMETIC) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "<constant>", "eval"))  # numbers and operators alone
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _docstring(node: ast.stmt | None) -> str:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
        return ""
    text = " ".join(node.value.value.split()).replace("|", "\\|")
    return text.replace(":func:", "").replace(":mod:", "").replace(":data:", "").replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page(constants()), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
