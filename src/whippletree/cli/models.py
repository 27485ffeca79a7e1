"""Commands about models: what is in a file, how well conditioned it is, the same in another format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from tyro.conf import arg

from whippletree.cli.arguments import ModelFile, OptionalPath
from whippletree.cli.drawing import draw, facts

if TYPE_CHECKING:
    from rich.console import Console

DIAGNOSED_UP_TO = 200
"""Velocities up to which ``info`` looks for redundant rows and massless motions by itself."""


@dataclass(frozen=True, kw_only=True)
class Info(ModelFile):
    """Show what a model file contains: tree, freedoms, masses, loops, redundant rows, massless motions."""

    depth: int = 24
    """Draw the tree down to this depth; what lies deeper is counted."""

    def run(self, console: Console) -> int:
        """Print it."""
        import whippletree as wt

        model = self.load()
        console.print(draw(model, depth=self.depth))
        console.print(facts(model))
        if 0 < model.nv <= DIAGNOSED_UP_TO:
            console.print(f"\n{wt.diagnose(model)}", markup=False)
        return 0


@dataclass(frozen=True, kw_only=True)
class Condition(ModelFile):
    """Say how well conditioned a model is: condition numbers, cheap estimates, predicted errors, cures."""

    q: Annotated[tuple[float, ...], arg(metavar="NUMBER …", help_behavior_hint="")] = ()
    """Coordinates; without them the model's home."""
    figure: OptionalPath = None
    """Let the model go at rest, and draw its conditioning over time to this PNG file."""
    duration: float = 2.0
    """Length of that run, s."""

    def run(self, console: Console) -> int:
        """Print the report."""
        import whippletree as wt

        model = self.load()
        q = np.array(self.q) if self.q else model.home.q
        console.print(str(wt.conditioning(model, q)), markup=False)
        if self.figure is not None:
            from whippletree.view.conditioning_figure import run_figure, swinging

            path = run_figure(swinging(model.name, model, self.duration, q), self.figure)
            console.print(f"figure: {path}", markup=False)
        return 0


@dataclass(frozen=True, kw_only=True)
class Convert(ModelFile):
    """Write a model in this library's own format (TOML or JSON), which keeps loops, contacts and massless links."""

    target: Annotated[Path, arg(metavar="NEW")]
    """The new file: .toml or .json."""

    def run(self, console: Console) -> int:
        """Write it, and tell what was cleaned or left out on the way."""
        import whippletree as wt

        model = self.load()
        wt.save(model, self.target)
        console.print(f"{self.target}: {model!r}", markup=False)
        if model.source:
            console.print(model.source, markup=False, style="dim")
        return 0
