"""Docstrings say what they are about by themselves: none begins with a word that stands for its neighbour."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "whippletree"
LEANING = re.compile(r"(Those|The same|That of|Theirs|Their |Its |Of |As |And |One of|They |It )")
"""Words that say something only to whoever has just read the name, or the docstring before."""


def leaning(text: str) -> list[str]:
    """Docstrings of a module that begin with such a word, by name."""
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
    found = [(node, ast.get_docstring(node) or "") for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return [f"{getattr(node, 'name', 'module')}: {words[:60]}" for node, words in found if LEANING.match(words)]


@pytest.mark.parametrize("chapter", sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}))
def test_docstrings_stand_alone(chapter):
    top = PACKAGE / chapter
    lost = {}
    for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
        if words := leaning(path.read_text(encoding="utf-8")):
            lost[path.relative_to(PACKAGE).as_posix()] = words
    assert not lost, "name what it is: 'Gaps of all candidates', not 'Of all candidates'"


def test_a_docstring_that_leans_on_its_name_is_noticed():
    assert leaning('def gaps():\n    """Of all candidates."""\n') == ["gaps: Of all candidates."]
    assert not leaning('def gaps():\n    """Gaps of all candidates."""\n')
