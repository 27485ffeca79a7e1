"""The directive ``catalogue``: every function of the library's table, with its inputs, outputs and summary."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from whippletree.functions import CATALOGUE, Function
from whippletree.functions.registry import shape_text

ATTITUDES = {
    "tree": "of the tree alone",
    "honours": "honours all constraints",
    "needs": "needs constraints",
    "refuses": "trees only",
}


def described(function: Function) -> list[str]:
    """One entry of a definition list: the call, then what it gives."""
    names = "".join(f'("{kind}")' for kind in function.names)
    call = f"{function.name}{names}({', '.join(function.inputs)})"
    results = ", ".join(f"{name} {shape_text(shape)}".strip() for name, shape in function.outputs.items())
    summary = function.summary.split("\n\n")[0].replace("\n", " ")
    return [f"`{call}`", f": {summary} *Returns* {results}; {ATTITUDES[function.constraints]}.", ""]


class Catalogue(SphinxDirective):
    """Writes the list where it stands."""

    def run(self) -> list[nodes.Node]:
        lines = [line for name in sorted(CATALOGUE) for line in described(CATALOGUE[name])]
        holder = nodes.container()
        self.state.nested_parse(StringList(lines, source="catalogue"), self.content_offset, holder)
        return [holder]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("catalogue", Catalogue)
    return {"parallel_read_safe": True}
