"""When a controller in plain Python is asked, which takes longer than all else that a kernel does at a point.

Its tangent, found by differences now and then, stands for it in most iterations: τ = (by q) q + (by v) v + what its
last answer at this point had beside that. So a step whose controller is affine in q and v asks it twice at each point,
however many iterations it takes, and what is solved are the equations with the controller itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, maximum, select
from whippletree.compiler.rollout.collocation import step_control
from whippletree.compiler.rollout.collocation.collocation_rates import HUGE

QUESTIONS = 2
"""How often a controller in Python is asked in a step whose tangent is that of the controller: where the step is
expected to lead, and where it has led."""

QUESTIONS_OF_A_CALL = 20
"""Questions that take as long as what is done in Python between two calls (80 µs)."""


class AskingIteration:
    """An iteration of a step in which a controller in Python is asked, or its tangent stands for it.

    It is asked first where the step is expected to lead, then where the iteration with its tangent has led, and so on,
    until an answer changes nothing. Where that takes longer than an iteration without a tangent would have, it is asked
    in each iteration from there on.
    """

    def __init__(self, asking: Array, questions: Array, pace: Array, trust: Array) -> None:
        self.asked, self.pace = less(0, asking[0]), pace
        self.questions = questions[0] + select(self.asked, 1, 0)
        self.trusted = less(0, trust[0])
        self.known = self.trusted & ~is_in_vain(questions[0], pace)
        """Whether the tangent is still relied on."""
        self.is_given = self.known & self.asked
        self.last_change = pace[3]

    def to_be_asked(self, solved: Any) -> Any:
        """Whether the tangent has solved the step, so that the controller is asked whether it has."""
        return solved & ~self.asked

    def begin_afresh(self, tally: list[Any], done: Any) -> list[Any]:
        """An answer begins other changes, which those before it say nothing about."""
        change, first, rounds, outcome, before = tally
        afresh = self.is_given & ~done
        return [select(afresh, HUGE, change), first, rounds, outcome, select(afresh, HUGE, before)]

    def after(self, tally: list[Any], solved: Any) -> list[Any]:
        """Whether the next iteration asks, how often it was asked, and the pace."""
        later = self.trusted & ~less(self.questions, QUESTIONS)
        pace = [select(later, old, new) for old, new in zip(self.pace[:3], tally[:3], strict=True)]
        last = select(later & self.asked, tally[0], self.pace[3])
        asks = self.to_be_asked(solved) | ~self.known | is_in_vain(self.questions, pace)
        return [[select(asks, 1, -1)], [self.questions], [*pace, last]]


def is_in_vain(questions: Any, pace: Any) -> Any:
    """Whether a tangent has led to more questions than there would have been iterations without it."""
    return less(maximum(pace[2], step_control.EASY), questions)


def is_old(asked: Sequence[Array], points: int, size: Any) -> Any:
    """Whether a new tangent would cost less than another step such as this one.

    ``asked``: how often in the step, its pace and the trust. To find one takes a question for each component of a
    state, ``size`` of them.
    """
    questions, pace, trust = asked
    costly = less(size + QUESTIONS_OF_A_CALL, points * (questions[0] - QUESTIONS))
    return less(0, trust[0]) & (costly | is_in_vain(questions[0], pace))
