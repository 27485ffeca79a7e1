"""Counts that tell how the house is built: ``python -m studies.layout``.

Modules, loose ones, small and long ones, those with a single importer, lines of the layer contract, names that stand
for two things, lines of source. A folder of another checkout may be given: ``python -m studies.layout ../before``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

SMALL, LONG = 60, 600
"""Lines below which a file is hardly an idea, and beyond which it may be two."""


def modules(sources: Path) -> dict[str, Path]:
    """Dotted name -> file, packages included."""
    found = {}
    for path in sorted((sources / "whippletree").rglob("*.py")):
        parts = path.relative_to(sources).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that one imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {module if module in known else node.module for module in whole}
    return (found & set(known)) - {name}


def repeated(names: list[str]) -> int:
    """Names that stand for two things or more."""
    return sum(count > 1 for count in Counter(names).values())


def counts(root: Path) -> dict[str, int]:
    """The counts of one checkout."""
    known = modules(root / "src")
    importers = Counter(module for name, path in known.items() for module in imported(name, path, known))
    plain = {name: path for name, path in known.items() if path.name != "__init__.py"}
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()}
    trees = [ast.parse(path.read_text(encoding="utf-8")).body for path in known.values()]
    constants = [
        target.id
        for body in trees
        for statement in body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    ]
    layers = re.search(r"layers = \[\n(.*?)\n\]", (root / "pyproject.toml").read_text(encoding="utf-8"), re.S)
    return {
        "modules": len(known),
        "modules that are no folder": len(plain),
        "of these, with one importer": sum(importers[name] == 1 for name in plain),
        "loose at the top": sum(name.count(".") == 1 for name in plain),
        f"under {SMALL} lines": sum(lines[name] < SMALL for name in plain),
        f"over {LONG} lines": sum(lines[name] > LONG for name in plain),
        "lines of the layer contract": layers[1].count("\n") + 1 if layers else 0,
        "file names used twice": repeated([path.name for path in plain.values()]),
        "class names used twice": repeated([n.name for body in trees for n in body if isinstance(n, ast.ClassDef)]),
        "names of constant numbers or texts used twice": repeated(constants),
        "lines": sum(lines.values()),
    }


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    for what, count in counts(root).items():
        print(f"{count:7d}  {what}")


if __name__ == "__main__":
    main()
