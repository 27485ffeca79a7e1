"""The map of the documents: every equation has a row, every function exists, every test is there."""

import importlib
import re
from pathlib import Path

import pytest

import whippletree as wt
from whippletree import functions
from whippletree.tree.operators import SpatialOperators

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theory" / "documents.md").read_text()
SECTIONS = {found[1]: found[2] for found in re.finditer(r"^## (00\d)(.*?)(?=^## |\Z)", PAGE, re.M | re.S)}
ROWS = [
    (document, *[cell.strip() for cell in line.strip("|").split("|")])
    for document, text in SECTIONS.items()
    for line in text.splitlines()
    if line.startswith("| ") and not line.startswith(("| item", "| ---"))
]


@pytest.mark.parametrize(("document", "last"), [("000", 34), ("001", 19), ("004", 15)])
def test_every_equation_has_a_row(document, last):
    seen = set()
    for row in (row for row in ROWS if row[0] == document):
        for first, end in re.findall(r"\((\d+)\)(?:–\((\d+)\))?", row[1]):
            seen |= set(range(int(first), int(end or first) + 1))
    assert seen == set(range(1, last + 1))


@pytest.mark.parametrize("name", sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[2])}))
def test_every_function_exists(name):
    owner, _, rest = name.rpartition(".")
    if owner == "dyn":
        assert rest in functions.CATALOGUE
    elif owner == "op":
        assert hasattr(SpatialOperators, rest) or rest in SpatialOperators.__annotations__
    elif owner == "whippletree":
        assert hasattr(wt, rest)
    else:
        assert hasattr(importlib.import_module(owner), rest)


@pytest.mark.parametrize("place", sorted({place for row in ROWS for place in re.findall(r"`([^`]+)`", row[3])}))
def test_every_test_is_there(place):
    path, _, name = place.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / path).read_text() if name else (ROOT / "tests" / path).exists()
