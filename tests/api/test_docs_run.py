"""Every block of Python in the pages of docs and in README.md runs, page by page, with warnings as errors.

The blocks of one page share their names, in order, as a reader would type them. A block that cannot run here is marked
with its reason in the fence: ``python no-run: needs a GPU``.
"""

import os
import re
import subprocess
import sys
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
    # the errors come with their module
    assert {name for name in whippletree.__all__ if not name.endswith("Error")} - {"__version__"} <= named
