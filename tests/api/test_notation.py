"""docs/notation.md names things that exist, and all inputs of the catalogue."""

import importlib
import re
from pathlib import Path

import pytest

from whippletree.functions import CATALOGUE, SHAPES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
NAMES = [row[1].strip("`") for row in ROWS if row[1].startswith("`")]
CODE_NAMES = [name for name in NAMES if "." in name]
INPUTS = {row[1].strip("`"): row[3] for row in ROWS if row[1].startswith("`") and "." not in row[1]}


def looked_up(name):
    """The object behind a dotted name inside whippletree; annotations count, for fields without a default."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["whippletree", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for word in parts[count:]:
            annotations = getattr(found, "__annotations__", {})
            found = annotations[word] if word in annotations else getattr(found, word)
        return found
    raise ModuleNotFoundError(name)


def test_the_page_has_tables():
    assert len(CODE_NAMES) > 40
    assert all(len(row) == 5 for row in ROWS)


@pytest.mark.parametrize("name", CODE_NAMES)
def test_code_name_exists(name):
    assert looked_up(name) is not None


def test_a_name_that_is_gone_would_be_noticed():
    with pytest.raises(AttributeError):
        looked_up("tree.links.Link.gone")


def test_inputs_are_those_of_the_catalogue():
    asked_for = {name for function in CATALOGUE.values() for name in function.inputs}
    assert set(INPUTS) == set(SHAPES) | asked_for


@pytest.mark.parametrize("name", SHAPES)
def test_shape_of_an_input(name):
    shape = SHAPES[name]
    assert INPUTS[name] == "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def test_backticked_functions_in_the_text_exist():
    """Names such as `arithmetic.scalars.select` in the rules and conventions."""
    text = "\n".join(line for line in PAGE.splitlines() if not line.startswith("| "))
    names = set(re.findall(r"`((?:arithmetic|spatial|tree|graph)\.[\w.]+)`", text))
    assert names
    for name in names:
        looked_up(name)
