"""How long the next step of an adaptive integration is: written once, for numbers and for kernels.

Three things limit it: the error of the last steps, the contraction of their iteration where that is what limits them,
and caution after a step that was not easy.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.scalars import less, maximum, minimum, power, select, sqrt

COLLOCATION_ITERATIONS = 30
"""Iterations before a step is tried again at half its length."""

EASY, LEAP = 3, 8.0
"""Iterations up to which a step was easy (free flight), and by how much the next one may then be longer."""

SLOWEST, SLOWEST_NEWTON = 0.5, 0.25
"""Contraction of the iteration that the length of the next step aims at, where that and not the error limits it: of
Picard's, which grows with the length, and of Newton's, which grows faster as the matrix of the start of the step fits
its end less and less."""

HALVINGS = 4
"""How often a call of machine code halves a step that Newton's method does not solve."""

RESERVE, LARGEST_CUT = 0.9, 0.2
"""Share of the length that the error would allow which is taken; and the least of it."""

LARGEST_ERROR_RATIO = 2.0
"""Ratio of the lengths of two steps up to which the error of the earlier one is carried over to the later."""

ANY_LENGTH = 1e300
"""Growth of a step that nothing limits."""


def growth_by_error(error: Any, order: Any) -> Any:
    """How much longer the next step may be for an error in units of the tolerance, with some reserve.

    ``order``: the power of its length with which the error of a step grows.
    """
    some = less(0, error)
    allowed = RESERVE * power(select(some, error, 1), -1 / order)
    return select(some, maximum(allowed, LARGEST_CUT), ANY_LENGTH)


def growth_by_contraction(contraction: Any, stiff: bool) -> Any:
    """How much longer the next step may be for its iteration, Newton's if ``stiff``, which contracted by so much."""
    some = less(0, contraction)
    return select(some, (SLOWEST_NEWTON if stiff else SLOWEST) / select(some, contraction, 1), ANY_LENGTH)


def growth(iterations: Any, by_error: Any, by_contraction: Any, minds_contraction: bool) -> Any:
    """How much longer the next step is: as the error allows, and no longer where the iteration was slow."""
    after_work = select(less(COLLOCATION_ITERATIONS // 2, iterations), 1.0, 2.0)
    most = select(less(iterations, EASY + 1), LEAP, after_work)
    careful = minimum(most, maximum(by_contraction, 0.5))
    return minimum(careful if minds_contraction else most, by_error)


def growth_after_rejection(rejected: Any, length: Any) -> Any:
    """How much longer than an accepted step the next may be, where a longer one was tried in vain: halfway back.

    Errors of steps that are long against an oscillation grow faster than their order says: what that allows would be
    rejected time and again.
    """
    return sqrt(maximum(rejected / length, 1))


def error_before(error: Any, ratio: Any, order: Any) -> Any:
    """Error of a step, had it been longer by a ratio; after a leap its error says little, for
    it may have been rounding."""
    return error * power(minimum(ratio, LARGEST_ERROR_RATIO), order)


def mean_contraction(last: Any, first: Any, iterations: Any) -> Any:
    """By how much each of some iterations was nearer than the one before, from their first and last change.

    The last two alone may differ by rounding only.
    """
    some = less(1, iterations) & less(0, first) & less(0, last)
    ratio = select(some, last, 1) / select(some, first, 1)
    return select(some, power(ratio, 1 / select(some, iterations - 1, 1)), 0)
