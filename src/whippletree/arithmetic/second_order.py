"""Second-order share of errors: how operations add to them beyond their slopes, from the errors of their operands.

A sum passes errors on by its slopes alone. A product xy of operands that are wrong by ex and ey is wrong by ex ey more,
a quotient x/y by more than everything where the divisor may be zero: such a remainder rₖ, together with the rounding
δₖ of its own operation, makes a bound to first order one that holds for every size of error
(:mod:`whippletree.arithmetic.rounding_tape`).

Remainders need bounds on the errors of numbers on the way, all of them: eₖ = Σⱼ |∂xₖ/∂xⱼ| (δⱼ + rⱼ). There are two ways
to carry errors from operation to operation:

* :class:`ErrorBounds`: as bounds, times the absolute value of a slope. They hold, and take one number each, but forget
  that errors cancel: in a recursion over n bodies they grow like 3ⁿ.
* :class:`Sampled`: as random errors, drawn for every operation from Cauchy's distribution of width δⱼ + rⱼ, times
  slopes with their signs. Sums of such numbers have Cauchy's distribution too, and their widths add up in absolute
  value (Kreinovich and Ferson 2004): the width of what arrives at xₖ *is* eₖ. Of numbers from that distribution, ln |x|
  has the mean ln (width) and the deviation π/2, so that m of them give the width, and ``CERTAINTY`` deviations of their
  mean above it a bound. The samples are the same in every evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from whippletree.arithmetic.arrays import Array

SAMPLES = 64
"""Random errors of every operation: the widths of numbers on the way are known to a fifth, which is a fifth of what is
added to a bound, not of the bound."""

CERTAINTY = 3.0
"""Standard deviations by which the bound on the error of a number on the way lies above the mean of its samples."""

DRAWN = 1024
"""Operations for which random errors are drawn at a time."""

Remainder = Callable[[Sequence[float], float, Sequence[float]], float]
"""The share that an operation adds beyond its slopes, from its operands, its value, and bounds on their errors."""


class Operation(NamedTuple):
    """One operation of a tape."""

    value: float
    operands: tuple[int, ...]
    """Numbers of the operations that made them."""
    slopes: tuple[float, ...]
    """∂value/∂operand, at the values that were computed."""
    error: float
    """Bound on its own rounding."""
    rule: Remainder | None
    """Its effect on errors beyond its slopes; None for one that is linear."""


class Carrier(Protocol):
    """A way to carry errors from operation to operation."""

    def own(self, width: float) -> Any:
        """The error of one operation."""

    def pass_on(self, slope: float, error: Any) -> Any:
        """The error that an operation makes of that of an operand; those of several operands add up."""

    def bound(self, error: Any) -> float:
        """A bound on an error that was carried."""


class ErrorBounds:
    """Errors carried as their bounds."""

    def own(self, width: float) -> float:
        return width

    def pass_on(self, slope: float, error: float) -> float:
        return abs(slope) * error

    def bound(self, error: float) -> float:
        return math.inf if math.isnan(error) else error


class Sampled:
    """Errors carried as samples (SAMPLES,) of Cauchy's distribution, the same each time."""

    def __init__(self) -> None:
        self._random = _random_errors()

    def own(self, width: float) -> Array:
        return width * next(self._random)

    def pass_on(self, slope: float, error: Array) -> Array:
        return slope * error

    def bound(self, error: Array) -> float:
        mean = float(np.log(np.abs(error)).sum()) / SAMPLES
        return math.inf if math.isnan(mean) else float(np.exp(mean + CERTAINTY * math.pi / (2 * math.sqrt(SAMPLES))))


def _random_errors() -> Iterator[Array]:
    generator = np.random.default_rng(0)
    while True:
        yield from generator.standard_cauchy((DRAWN, SAMPLES))


def remainders(operations: Sequence[Operation], carrier: Carrier) -> list[float]:
    """rₖ of every operation of a tape; infinite where the errors of its operands leave nothing known of its result."""
    found, last = [0.0] * len(operations), _last_uses(operations)
    carried: list[Any] = [None] * len(operations)  # None for a number that is exact
    bounds: list[float | None] = [None] * len(operations)

    def bound(j: int) -> float:
        known = bounds[j]
        if known is None:
            known = bounds[j] = 0.0 if carried[j] is None else carrier.bound(carried[j])
        return known

    with np.errstate(all="ignore"):
        for k, (value, operands, slopes, width, rule) in enumerate(operations):
            error = None
            for j, slope in zip(operands, slopes, strict=True):
                if carried[j] is not None:
                    term = carrier.pass_on(slope, carried[j])
                    error = term if error is None else error + term
            if rule is not None and error is not None:
                found[k] = rule([operations[j].value for j in operands], value, [bound(j) for j in operands])
                width += found[k]
            if width:
                error = carrier.own(width) if error is None else error + carrier.own(width)
            carried[k] = error
            for j in operands:
                if last[j] == k:
                    carried[j] = None  # nothing needs it any more
    return found


def _last_uses(operations: Sequence[Operation]) -> dict[int, int]:
    """The last operation that takes each number which is an operand."""
    return {j: k for k, operation in enumerate(operations) for j in operation.operands}


# --- rules: what operations add beyond their slopes -------------------------------------------------------------------


def of_product(_: Sequence[float], __: float, errors: Sequence[float]) -> float:
    """xy − (x − ex)(y − ey) = y ex + x ey − ex ey."""
    return errors[0] * errors[1]


def of_quotient(operands: Sequence[float], value: float, errors: Sequence[float]) -> float:
    """z = x/y is wrong by (ex − z ey) / (y − ey)."""
    y = abs(operands[1])
    t = errors[1] / y
    return (errors[0] + abs(value) * errors[1]) / y * _beyond(t, lambda: t / (1 - t))


def of_root(operands: Sequence[float], value: float, errors: Sequence[float]) -> float:
    """√x − √(x − e) − e / (2√x); the error itself where nothing is known of x."""
    if not value:
        return math.sqrt(errors[0])
    t = errors[0] / operands[0]
    return value * (t * t / 4 / (1 - t / 2 + math.sqrt(1 - t)) if t < 1 else math.sqrt(t) + t / 2)


def of_wave(_: Sequence[float], __: float, errors: Sequence[float]) -> float:
    """sin x, cos x and tanh x: second derivatives of at most 1."""
    return errors[0] * errors[0] / 2


def of_angle(operands: Sequence[float], _: float, errors: Sequence[float]) -> float:
    """atan2(y, x), whose second derivatives are 1/ρ² at a distance ρ from the origin."""
    rho, error = math.hypot(*operands), math.hypot(*errors)
    return _beyond(error / rho if rho else math.inf, lambda: (error / (rho - error)) ** 2 / 2)


def of_exponential(_: Sequence[float], value: float, errors: Sequence[float]) -> float:
    """eˣ, whose second derivative is largest at the upper end."""
    return abs(value) * _beyond(errors[0], lambda: _curve(errors[0]))


def of_logarithm(operands: Sequence[float], _: float, errors: Sequence[float]) -> float:
    """ln x − ln (x − e) − e/x."""
    t = errors[0] / operands[0] if operands[0] else math.inf
    return _beyond(t, lambda: t * t / (2 * (1 - t)))


def of_power(operands: Sequence[float], value: float, errors: Sequence[float]) -> float:
    """xʸ = exp(y ln x), by what is beyond the slopes of the exponent, and of its exponential."""
    (x, y), (ex, ey) = operands, errors
    t = ex / x if x > 0 else math.inf
    if not t < 1:
        return math.inf
    bent = t * t / (2 * (1 - t))
    beyond = abs(y) * bent + ey * (t + bent)
    whole = abs(y) * t + abs(math.log(x)) * ey + beyond
    return abs(value) * _beyond(whole, lambda: _curve(whole) + beyond)


def _curve(t: float) -> float:
    """A bound on |eᵗ − 1 − t| for either sign of t."""
    return t * t / 2 * math.exp(t)


def _beyond(t: float, of: Callable[[], float]) -> float:
    """A remainder for relative errors t < 1 of what an operation depends on; infinite for larger ones."""
    return of() if t < 1 else math.inf
