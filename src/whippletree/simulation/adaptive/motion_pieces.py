"""What an integration yields, step by step, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from whippletree.arithmetic.arrays import Array
from whippletree.simulation.adaptive.collocation import Polynomial


@dataclass
class Statistics:
    """Costs of a run."""

    steps: int = 0
    iterations: int = 0
    rejections: int = 0
    projections: int = 0
    """Ends of steps that had to be brought back onto the constraints, or quaternions to unit length."""
    largest_correction: float = 0.0
    relaxed: float = 1.0
    """Largest factor by which the tolerance of a single step was relaxed, at a dead point."""
    newton_steps: int = 0
    """Accepted steps that were solved by Newton's method."""
    jacobians: int = 0
    """How often ∂ẏ/∂y was worked out."""
    largest_rtol: float = 0.0
    """Loosest relative tolerance that steps were held to, or that rounding would have allowed them."""


@dataclass(frozen=True)
class Progress:
    """How far an integration has come, and what the next step takes over from the last: all that it needs to go on."""

    time: float
    state: Array
    length: float = 0.0
    """Length of the next step, s; without a guess it is chosen anew."""
    guess: Polynomial | None = None
    """The last step's polynomial, whose continuation starts the next iteration."""
    stiff: bool = False
    """Whether the next step is solved by Newton's method."""
    error: float = 0.0
    """Error of the last step, in units of the tolerance."""
    failed: bool = False
    """Whether machine code has tried the next step in vain."""
    rtol: float | None = None
    """Relative tolerance of the next step; that of the run if None."""
    tangent: Array | None = None
    """Of a controller in Python, as steps depart with it."""


@dataclass(frozen=True)
class MotionPiece:
    """One accepted step: the interpolant holds from ``start`` to ``end``."""

    start: float
    progress: Progress
    """At the end, with the projected state."""
    interpolant: Polynomial
    found: tuple[tuple[str, float], ...] = ()
    """Events inside the step, (name, time), in order."""

    @property
    def end(self) -> float:
        """When the step ends, s."""
        return self.progress.time

    @property
    def state(self) -> Array:
        """The projected state at the end."""
        return self.progress.state
