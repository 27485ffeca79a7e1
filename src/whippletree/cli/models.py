"""Commands about models: what is in a file, how well conditioned it is, the same in another format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from whippletree.cli.drawing import draw, facts

if TYPE_CHECKING:
    from rich.console import Console

DIAGNOSED_UP_TO = 200
"""Velocities up to which ``info`` looks for redundant rows and massless motions by itself."""


@dataclass(frozen=True)
class Info:
    """Show what a model file contains: tree, freedoms, masses, loops, redundant rows, massless motions."""

    file: Path
    """URDF, SDF, MJCF or native model file."""
    base: Literal["fixed", "free"] = "fixed"
    """How the root body stands in the world."""
    loops: Path | None = None
    """A file with the loops that a URDF cannot say."""
    depth: int = 24
    """Draw the tree down to this depth; what lies deeper is counted."""

    def run(self, console: Console) -> int:
        """Print it."""
        import whippletree as wt

        model = wt.load(self.file, base=self.base, loops=self.loops)
        console.print(draw(model, depth=self.depth))
        console.print(facts(model))
        if 0 < model.nv <= DIAGNOSED_UP_TO:
            console.print(f"\n{wt.diagnose(model)}", markup=False)
        return 0


@dataclass(frozen=True)
class Condition:
    """Say how well conditioned a model is: condition numbers, cheap estimates, predicted errors, cures."""

    file: Path
    """URDF, SDF, MJCF or native model file."""
    base: Literal["fixed", "free"] = "fixed"
    """How the root body stands in the world."""
    q: tuple[float, ...] = ()
    """Coordinates; without them the model's home."""
    figure: Path | None = None
    """Let the model go at rest, and draw its conditioning over time to this PNG file."""
    duration: float = 2.0
    """Length of that run, s."""

    def run(self, console: Console) -> int:
        """Print the report."""
        import whippletree as wt

        model = wt.load(self.file, base=self.base)
        q = np.array(self.q) if self.q else model.home.q
        console.print(str(wt.conditioning(model, q)), markup=False)
        if self.figure is not None:
            from whippletree.studies.figures import run_figure
            from whippletree.studies.series import swinging

            path = run_figure(swinging(model.name, model, self.duration, q), self.figure)
            console.print(f"figure: {path}", markup=False)
        return 0


@dataclass(frozen=True)
class Convert:
    """Write a model in this library's own format (TOML or JSON), which keeps loops, contacts and massless links."""

    source: Path
    """URDF, SDF, MJCF or native model file."""
    target: Path
    """The new file: .toml or .json."""
    base: Literal["fixed", "free"] = "fixed"
    """How the root body stands in the world."""
    loops: Path | None = None
    """A file with the loops that a URDF cannot say."""

    def run(self, console: Console) -> int:
        """Write it, and tell what was cleaned or left out on the way."""
        import whippletree as wt

        model = wt.load(self.source, base=self.base, loops=self.loops)
        wt.save(model, self.target)
        console.print(f"{self.target}: {model!r}", markup=False)
        if model.source:
            console.print(model.source, markup=False, style="dim")
        return 0
