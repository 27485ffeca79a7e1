"""Every block of Python in the pages of docs and in README.md runs, page by page, with warnings as errors.

The blocks of one page share their names, in order, as a reader would type them. A block that cannot run here is marked
with its reason in the fence: ``python no-run: needs a GPU``.

That a block runs proves little, so it must also assert what it claims: a comment with a number or an equation behind
code is backed by an assert in the same block, an error that a page provokes is looked at, and no value is left lying
about for a reader to believe.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import whippletree

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("theory/*.md"))]
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REASON = re.compile(r" no-run: \S.*")
FENCES = {"python", "sh", "text", "toml", "c", "{toctree}", "{gallery}", "{catalogue}", "{eval-rst}", ""}


def blocks(page):
    """(mark, line, source) of every block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(m[1], text.count("\n", 0, m.start()) + 2, m[2]) for m in BLOCK.finditer(text)]


def script(page):
    """The blocks of a page as one module whose line numbers are those of the page."""
    lines = [""] * (page.read_text(encoding="utf-8").count("\n") + 1)
    for mark, line, source in blocks(page):
        if not mark:
            own = source.splitlines()
            lines[line - 1 : line - 1 + len(own)] = own
    return "\n".join(lines)


WITH_CODE = [page for page in PAGES if any(not mark for mark, _, _ in blocks(page))]


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_page_runs(page, tmp_path):
    # the page is compiled under its own name, so that a traceback points to its lines
    runner = "import sys; name = sys.argv[1]; exec(compile(sys.stdin.read(), name, 'exec'), {'__name__': '__main__'})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", runner, str(page)],
        input=script(page),
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "utf-8", "MPLBACKEND": "agg"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_block_that_does_not_run_says_why(page):
    marks = [mark for mark, _, _ in blocks(page) if mark]
    assert all(REASON.fullmatch(mark) for mark in marks), marks


CITATION = re.compile(r"\(\d+\)(–\(\d+\))?|eq\\. \d+(–\d+)?|\b00\d\b|\b(step|problem)s? \d( and \d)?|§ ?\d+")
"""Numbers of equations, documents and steps, which claim nothing."""
CLAIM = re.compile(r"(?<![\w.])\d|[=≈<>≤≥]")
"""A number that is no part of a name (κ₂, float32), or an equation."""
MODULES = {"np", "wt", "print"}


def names_of(node, kind=(ast.Load, ast.Store)):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, kind)} - MODULES


def unbacked_claims(source):
    """Lines of a block whose comment states a number or an equation that no assert of the block is about."""
    tree = ast.parse(source)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    asserted = set().union(*(names_of(node) for node in statements if isinstance(node, ast.Assert)))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        behind_code = token.type == tokenize.COMMENT and token.line[: token.start[1]].strip()
        if not behind_code or not CLAIM.search(CITATION.sub("", token.string)):
            continue
        around = [node for node in statements if node.lineno <= token.start[0] <= node.end_lineno]
        own = min(around, key=lambda node: node.end_lineno - node.lineno)
        said_of = names_of(own, ast.Store) or names_of(own)
        if not isinstance(own, ast.Assert) and not said_of & asserted:
            yield token.start[0], token.line.strip()


def unseen_values(source):
    """Lines of a block with an expression whose value nobody sees."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call | ast.Constant):
            yield node.lineno, ast.unparse(node)


def unseen_errors(source):
    """Lines of a block that provokes an error of which nothing is asserted; one that does not come must be missed."""
    body = ast.parse(source).body
    for number, node in enumerate(body):
        if isinstance(node, ast.Try) and not any(
            isinstance(n, ast.Assert) for part in node.body for n in ast.walk(part)
        ):
            kept = set().union(*(names_of(handler, ast.Store) for handler in node.handlers))
            after = [later for later in body[number + 1 :] if isinstance(later, ast.Assert)]
            if not any(kept & names_of(later) for later in after):
                yield node.lineno, ast.unparse(node.body[-1])


@pytest.mark.parametrize("fault", [unbacked_claims, unseen_values, unseen_errors], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_a_page_proves_what_it_says(page, fault):
    found = [
        f"{page.name}:{line + number - 1}: {text}"
        for mark, line, source in blocks(page)
        if not mark
        for number, text in fault(source)
    ]
    assert not found, f"{fault.__name__}\n" + "\n".join(found)


def test_claims_without_proof_are_found():
    assert list(unbacked_claims("x = f()  # (2, 3)\nprint(x)")) == [(1, "x = f()  # (2, 3)")]
    assert list(unbacked_claims("print(f())  # 0.45 s")) == [(1, "print(f())  # 0.45 s")]
    assert not list(unbacked_claims("x = f()  # (2, 3)\nassert x.shape == (2, 3)"))
    assert not list(unbacked_claims("x = f()  # (10) of 000, κ₂ in float32"))
    assert [line for line, _ in unseen_values("run.attrs\nx[0]\nf()")] == [1, 2]
    provoked = "try:\n    f()\nexcept E as error:\n    {}\n{}"
    assert list(unseen_errors(provoked.format("print(error)", "")))
    assert list(unseen_errors(provoked.format("assert 'no' in str(error)", "")))
    assert not list(unseen_errors(provoked.format("text = str(error)", "assert 'no' in text")))


def test_every_fence_is_known():
    """A block marked ``py`` or ``Python`` would silently not be run."""
    for page in PAGES:
        opened = re.findall(r"^```(\S*)[^\n]*\n.*?^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert set(opened) <= FENCES, page.name


def test_every_page_is_listed():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.stem == "index" or f"({page.relative_to(DOCS).as_posix()})" in index, page.name


def test_every_public_name_is_in_the_reference():
    reference = (DOCS / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r":: whippletree\.(\w+)", reference))
    # errors and warnings come with their module
    assert {name for name in whippletree.__all__ if not name.endswith(("Error", "Warning"))} - {"__version__"} <= named
