"""Formulas as MathML, which browsers draw by themselves: the pages need neither a network nor a script.

The translation is that of docutils; ``html_math_renderer = "mathml"`` chooses it.
"""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import latex2mathml, pick_math_environment
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def written(latex: str, *, as_block: bool) -> str:
    """A formula in MathML."""
    environment = pick_math_environment(latex)
    if environment.startswith("align"):  # several lines
        latex = f"\\begin{{{environment}}}{latex}\\end{{{environment}}}"
    return str(latex2mathml.tex2mathml(latex, as_block=as_block))


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Within a line."""
    self.body.append(f'<span class="math">{written(node.astext(), as_block=False)}</span>')
    raise nodes.SkipNode


def displayed(self: HTML5Translator, node: nodes.math_block) -> None:
    """On a line of its own."""
    self.body.append(f'<div class="math">{written(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(displayed, None))
    return {"parallel_read_safe": True}
