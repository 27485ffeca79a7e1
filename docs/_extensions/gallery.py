"""The gallery: runs the examples when their pictures are older than they are, and writes one page for each.

A page has the picture, the script's docstring, its replay if it leaves one, and the script itself; ``docs/gallery``
holds them and is made anew by every build. The directive ``gallery`` shows all pictures with their titles.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).resolve().parents[1]
EXAMPLES = DOCS.parent / "examples"
PAGES = DOCS / "gallery"
REPLAYS = DOCS / "_static" / "replays"

SKIPPED = 77
"""Exit status of an example that needs a package which is not installed."""

NO_PICTURE = "No picture: a package that the script needs was not installed where these pages were made."


@dataclass(frozen=True)
class Example:
    """One script: its first line is the title, the rest of its docstring says what to learn from it."""

    script: Path
    title: str
    text: str
    code_begins: int
    """The line after the docstring."""

    @classmethod
    def read(cls, script: Path) -> Example:
        """Title and text from the docstring."""
        module = ast.parse(script.read_text(encoding="utf-8"))
        title, _, text = (ast.get_docstring(module) or "").partition("\n")
        if not text:
            raise ExtensionError(f"{script.name}: an example begins with a docstring of a title and a paragraph")
        # reStructuredText's literals in a docstring become Markdown's
        return cls(script, title.rstrip("."), text.strip().replace("``", "`"), (module.body[0].end_lineno or 0) + 2)

    @property
    def picture(self) -> Path:
        return PAGES / f"{self.script.stem}.png"

    @property
    def replay(self) -> Path:
        """Where a script's replay is served from; not all scripts have one."""
        return REPLAYS / f"{self.script.stem}.html"

    @property
    def page(self) -> str:
        """In MyST's Markdown."""
        name = self.script.stem
        picture = f"![{self.title}]({name}.png)\n\n" if self.picture.exists() else f"*{NO_PICTURE}*\n\n"
        plays = f'<iframe class="replay" src="../_static/replays/{name}.html" loading="lazy"></iframe>\n\n'
        return (
            f"# {name[:2]}. {self.title}\n\n{picture}{self.text}\n\n{plays if self.replay.exists() else ''}"
            f"```{{literalinclude}} ../../examples/{self.script.name}\n:language: python\n"
            f":lines: {self.code_begins}-\n```\n"
        )

    def draw(self) -> None:
        """Run the script, if its picture is older."""
        if self.picture.exists() and self.picture.stat().st_mtime > self.script.stat().st_mtime:
            return
        logging.getLogger(__name__).info("running %s", self.script.name)
        done = subprocess.run(
            [sys.executable, str(self.script), str(self.picture)],
            capture_output=True, text=True, check=False, env=os.environ | {"MPLBACKEND": "agg"},
        )  # fmt: skip
        if done.returncode not in (0, SKIPPED):
            raise ExtensionError(f"{self.script.name} failed:\n{done.stderr[-3000:]}")
        if self.picture.with_suffix(".html").exists():
            self.picture.with_suffix(".html").replace(self.replay)


def examples() -> list[Example]:
    """All numbered scripts, in order."""
    return [Example.read(script) for script in sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))]


def make_pages(app: Sphinx) -> None:
    """Before anything is read: pictures and pages."""
    PAGES.mkdir(exist_ok=True)
    REPLAYS.mkdir(parents=True, exist_ok=True)
    for example in examples():
        example.draw()
        page = PAGES / f"{example.script.stem}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != example.page:
            page.write_text(example.page, encoding="utf-8")


class Gallery(SphinxDirective):
    """All pictures, each a link to its page."""

    def run(self) -> list[nodes.Node]:
        return [nodes.container("", *(self._card(example) for example in examples()), classes=["gallery"])]

    def _card(self, example: Example) -> nodes.Node:
        self.env.note_dependency(str(example.script))
        name, card = example.script.stem, nodes.container(classes=["card"])
        picture = f"![{example.title}](gallery/{name}.png)" if example.picture.exists() else f"*{NO_PICTURE}*"
        lines = [f"[{picture}](gallery/{name}.md)", "", f"[{name[:2]}. {example.title}](gallery/{name}.md)"]
        self.state.nested_parse(StringList(lines, source="gallery"), self.content_offset, card)
        return card


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", make_pages)
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": True}
