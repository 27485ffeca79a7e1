"""Steps that were tried, accepted, and taken many at a time: what an integrator and machine code tell each other.

A *stride* is as many accepted steps as machine code takes without asking anybody. It is told where they depart from,
and tells what it kept and why it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.collocation import step_control
from whippletree.simulation.adaptive.collocation import Polynomial


class TriedStep(NamedTuple):
    """A step that was tried: its polynomial, and its error in units of the tolerance, infinite without convergence."""

    polynomial: Polynomial
    error: float
    iterations: int
    contraction: float = 0.0
    """By how much each iteration was nearer than the one before, on average; grows with the length of a stiff step."""
    stiff: bool = False
    """Whether it was solved by Newton's method."""
    before: float = 0.0
    """Error of the step before, had it been as long as this one."""
    rejected: float = 0.0
    """Length, s, of a longer one that was tried in vain just before; 0 if none was."""

    @property
    def order(self) -> int:
        """The power of its length with which the error of a step grows."""
        return len(self.polynomial.coefficients) + 1

    @property
    def growth_by_error(self) -> float:
        """How much longer the next step may be for its error.

        In an oscillation errors of neighbouring steps differ by orders of magnitude: the larger one counts.
        """
        return float(step_control.growth_by_error(max(self.error, self.before), self.order))

    @property
    def growth_by_contraction(self) -> float:
        """How much longer the next step may be for its iteration."""
        return float(step_control.growth_by_contraction(self.contraction, self.stiff))


@dataclass(frozen=True)
class Departure:
    """Where steps by machine code begin, and how far they may go."""

    time: float
    state: Array
    length: float
    """Length of the first step, s."""
    guess: Polynomial
    """The last step's polynomial."""
    error: float
    """Error of the last step, in units of the tolerance."""
    end: float
    most: int
    """Steps."""
    rtol: float
    atol: float
    stiff: bool
    solver: str = "auto"
    tangent: Array | None = None
    """∂τ/∂(q, v) (nv, nq + nv) of a controller in Python, as it was last found; empty where it did not help; None where
    it is to be found."""


class AcceptedStep(NamedTuple):
    """An accepted step."""

    solution: TriedStep
    end: float
    state: Array
    """Projected."""
    next_length: float
    """Length of the step after it, s."""
    correction: float
    """The furthest way of a component to the projected state."""
    rejections: int = 0
    """Longer steps that were tried before."""


class Stride(NamedTuple):
    """Steps that were taken one after the other by machine code, and why they ended."""

    kept: list[AcceptedStep]
    slow: bool = False
    """Picard iteration seems to limit the steps."""
    eased: bool = False
    """Newton's method is no longer needed."""
    failed: bool = False
    """The next step was tried, and is not good enough."""
    watched: bool = False
    """Guards were looked at on the way."""
    crossing: bool = False
    """One of them may have vanished in the last of these steps, and in no other."""
    tangent: Array | None = None
    """Tangent of a controller in Python that these steps were taken with."""
    tangent_after: Array | None = None
    """Tangent for the steps after them."""

    @property
    def unsolved(self) -> bool:
        """Whether not even the first step could be solved."""
        return self.failed and not self.kept


class StepSolver(Protocol):
    """Steps by machine code, where there are any."""

    def prepare(self, tried: int) -> bool:
        """Whether it can, after so many steps that the run has tried."""

    def solve(
        self, t: float, y: Array, length: float, guess: Polynomial, rtol: float, atol: float, stiff: bool
    ) -> TriedStep | None:
        """A step from (t, y), iterated from a guess, by Newton's method where it is stiff; None where it could not be
        solved this way."""

    def stride(self, departure: Departure) -> Stride:
        """Take as many steps as possible before somebody else has to be asked."""
