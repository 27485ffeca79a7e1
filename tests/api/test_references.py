"""What pages, docstrings and comments name is there: modules, what is in them, files."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "whippletree"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [
    path
    for folder in ("src", "tests", "studies", "benchmarks", "examples", "fuzz")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != Path(__file__)  # which names what is nowhere
]
CHAPTERS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
DOTTED = re.compile(r"\bwhippletree(?:\.\w+)+")
FILE = re.compile(r"(?<![\w/.:])(?:\w+/)+\w+\.(?:py|md)\b")
"""A file in a folder, as ``tests/strategies.py``; not the end of an address."""


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or what one, a class of it, or an instance of that has."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        break
    else:
        return False
    for part in parts[count:]:
        if not hasattr(found, part):
            is_set = inspect.isclass(found) and f" self.{part}" in inspect.getsource(found)
            return is_set or part in getattr(found, "__annotations__", {})
        found = getattr(found, part)
    return True


def missing(text: str) -> list[str]:
    """Names in a text that are nowhere."""
    return [name for name in sorted(set(DOTTED.findall(text))) if not is_there(name)]


def missing_files(path: Path, text: str) -> list[str]:
    """Files that a text names by a path from the root, the package, the tests or the text's own folder."""
    places = (ROOT, PACKAGE, ROOT / "src", ROOT / "tests", ROOT / "docs", path.parent)
    return [name for name in sorted(set(FILE.findall(text))) if not any((place / name).exists() for place in places)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_names_what_is_there(path):
    text = path.read_text(encoding="utf-8")
    assert not missing(text)
    assert not missing_files(path, text)


def test_sources_name_what_is_there():
    lost = {path.relative_to(ROOT).as_posix(): missing(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert not {path: names for path, names in lost.items() if names}


def test_docstrings_name_files_that_are_there():
    lost = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if names := missing_files(path, path.read_text(encoding="utf-8")):
            lost[path.relative_to(ROOT).as_posix()] = names
    assert not lost


def test_the_page_of_the_house_names_modules_that_are_there():
    """It leaves out the name of the package: ``constraints.kkt``."""
    text = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    names = re.findall(rf"`((?:{'|'.join(CHAPTERS)})(?:\.\w+)+)`", text)
    assert names
    assert not [name for name in names if not is_there(f"whippletree.{name}")]


def test_a_name_that_is_nowhere_is_noticed():
    text = "See :mod:`whippletree.model.builder`, :func:`whippletree.model.builder.no_such_function`."
    assert missing(text) == ["whippletree.model.builder.no_such_function"]
    assert missing("whippletree.no_such_module.function") == ["whippletree.no_such_module.function"]
    assert missing_files(ROOT / "README.md", "see compiler/no_such_file.py") == ["compiler/no_such_file.py"]
