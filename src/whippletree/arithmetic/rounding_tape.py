"""A double that remembers how it was computed: analysis of rounding errors for any generic code.

Every operation on a :class:`RecordedDouble` number rounds once, by at most half a unit in the last place of its result,
and passes on the errors of its operands. An answer is wrong by

    Δy = Σ over operations k of (∂y/∂xₖ) (δₖ + rₖ),        |δₖ| ≤ u |xₖ|

exactly, if slopes are taken at the numbers that were computed and rₖ is what operation k adds beyond its slopes: ex ey
for a product xy, and ez t / (1 − t) for a quotient z = x/y, with t = ey/y. The tape holds the slopes of every
operation, so one pass backwards gives ∂y/∂xₖ of all of them, and the sum of the absolute values is the most that
rounding can do to y (Linnainmaa 1976, for r = 0). The errors ex of numbers on the way, from which rₖ is made, are
found by :mod:`whippletree.arithmetic.second_order`. Nothing is known here of mechanisms or routes: what is recorded is
the code itself, with its cancellations, and an operation that is exact (a product with 0, a power of two, a sum with 0,
the difference of near neighbours) costs nothing.

Long doubles serve to see what rounding has done to a result: evaluated once more on them, it is wrong by about 2⁻¹¹ of
what it was. Not every machine has them (``HAS_LONG_DOUBLES``): those of Windows, and of ARM under macOS, are doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.arithmetic.numpy_protocol import NumPyScalar
from whippletree.arithmetic.second_order import (
    ErrorBounds,
    Operation,
    Remainder,
    Sampled,
    of_angle,
    of_exponential,
    of_logarithm,
    of_power,
    of_product,
    of_quotient,
    of_root,
    of_wave,
    remainders,
)

HALF_UNIT = float(np.finfo(float).eps) / 2
"""Largest relative error of one operation that is rounded correctly: + − * / √."""

LIBRARY_UNITS = 2
"""Half units in the last place by which sine and its like may be wrong, in a library and in machine code."""


FIRST_ORDER = 0.01
"""Share of a bound to first order that what is beyond it may add by the cheap way, which overestimates it, before the
better one is taken."""


class RoundingTape:
    """The operations of one evaluation, in the order in which they were done."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def __len__(self) -> int:
        return len(self.operations)

    def number(self, value: float) -> RecordedDouble:
        """A number that is exact as it stands."""
        return self.note(value, (), (), 0.0)

    def numbers(self, values: Any) -> Array:
        """An array of numbers that are exact as they stand."""
        plain = np.asarray(values, dtype=float)
        found = np.empty(plain.shape, dtype=object)
        for index in np.ndindex(*plain.shape):
            found[index] = self.number(float(plain[index]))
        return found

    def note(
        self,
        value: float,
        operands: tuple[int, ...],
        slopes: tuple[float, ...],
        error: float,
        rule: Remainder | None = None,
    ) -> RecordedDouble:
        """The result of one operation: see :class:`whippletree.arithmetic.second_order.Operation`."""
        self.operations.append(Operation(value, operands, slopes, error, rule))
        return RecordedDouble(self, len(self.operations) - 1, value)

    def errors_of(self, results: Any) -> Array:
        """Bounds |Δy| (n,) on the errors of results (n,); 0 for one that no operation touched.

        Infinite where the errors on the way leave nothing known of a number that something is divided by, and beyond a
        slope that is infinite or not a number, as that of a failed pivot.
        """
        errors = [operation.error for operation in self.operations]
        first, beyond = self._bounds(results, errors, remainders(self.operations, ErrorBounds()))
        if not np.all(beyond <= FIRST_ORDER * first):
            (beyond,) = self._bounds(results, remainders(self.operations, Sampled()))
        return np.asarray(np.nan_to_num(first + beyond, nan=np.inf, posinf=np.inf))

    def effects_of(self, results: Any, inputs: Sequence[Any], changes: Sequence[float]) -> Array:
        """Bounds |Δy| (n,), to first order, on what changes of the inputs by up to these do to results (n,)."""
        errors = [0.0] * len(self.operations)
        for x, change in zip(inputs, changes, strict=True):
            errors[x.index] = change
        (bounds,) = self._bounds(results, errors)
        return np.asarray(bounds)

    def _bounds(self, results: Any, *errors: Sequence[float]) -> Array:
        """Σ |∂y/∂xₖ| errorₖ (m, n) of results (n,), for each of m lists of errors, by one pass backwards."""
        outputs = np.ravel(np.asarray(results, dtype=object))
        adjoints: list[Any] = [None] * len(self.operations)
        for column, x in enumerate(outputs):
            if isinstance(x, RecordedDouble):
                adjoints[x.index] = _add_term(adjoints[x.index], np.eye(1, len(outputs), column)[0])
        bounds = np.zeros((len(errors), len(outputs)))
        weights = np.array(errors).T[:, :, None]  # (operations, m, 1)
        known = [any(given) for given in zip(*errors, strict=True)]
        with np.errstate(all="ignore"):
            for k in range(len(self.operations) - 1, -1, -1):
                adjoint, adjoints[k] = adjoints[k], None
                if adjoint is None:
                    continue  # nothing that was asked for depends on it
                _, operands, slopes, _, _ = self.operations[k]
                for operand, slope in zip(operands, slopes, strict=True):
                    adjoints[operand] = _add_term(adjoints[operand], slope * adjoint)
                if known[k]:
                    bounds += np.abs(adjoint) * weights[k]
        return bounds


def _add_term(sum_so_far: Array | None, term: Array) -> Array:
    return term if sum_so_far is None else sum_so_far + term


class RecordedDouble(NumPyScalar):
    """A double on a :class:`RoundingTape`: it compares, branches and computes as the double does."""

    __slots__ = ("index", "tape", "value")

    def __init__(self, tape: RoundingTape, index: int, value: float) -> None:
        self.tape, self.index, self.value = tape, index, value

    def __repr__(self) -> str:
        return f"Recorded({self.value!r})"

    def __float__(self) -> float:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    @property
    def real(self) -> RecordedDouble:
        """The number itself."""
        return self

    def __neg__(self) -> RecordedDouble:
        return self.tape.note(-self.value, (self.index,), (-1.0,), 0.0)

    def __pos__(self) -> RecordedDouble:
        return self

    def __abs__(self) -> RecordedDouble:
        return -self if self.value < 0 else self

    def __add__(self, other: Any) -> Any:
        return _sum(self, other, 1.0, 1.0)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _sum(self, other, 1.0, -1.0)

    def __rsub__(self, other: Any) -> Any:
        return _sum(self, other, -1.0, 1.0)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, OTHERS):
            return NotImplemented
        if not isinstance(other, RecordedDouble):
            if other == 0:
                return 0  # as in a trace: zeros and ones of the structure are no operations
            if other in (1, -1):
                return self if other == 1 else -self
        y = float(other)
        value = self.value * y
        exact = _is_power_of_two(self.value) or _is_power_of_two(y)
        return _note(self, other, value, y, self.value, 0.0 if exact else HALF_UNIT * abs(value), of_product)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, OTHERS):
            return NotImplemented
        return _quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _quotient(self.tape.number(float(other)), self)

    def __pow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, int):
            return scalars.power(self, exponent)
        return scalars.power_by_products(self, exponent)

    def __lt__(self, other: Any) -> bool:
        return self.value < float(other)

    def __le__(self, other: Any) -> bool:
        return self.value <= float(other)

    def __gt__(self, other: Any) -> bool:
        return self.value > float(other)

    def __ge__(self, other: Any) -> bool:
        return self.value >= float(other)

    def __eq__(self, other: Any) -> bool:
        return self.value == (other.value if isinstance(other, RecordedDouble) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    # the name under which NumPy looks for a method on arrays of objects

    def sqrt(self) -> Any:
        return scalars.sqrt(self)


OTHERS = (np.ndarray, Dual)
"""Types that know better how to combine with a recorded number."""


def _note(
    a: RecordedDouble, b: Any, value: float, da: float, db: float, error: float, rule: Remainder | None = None
) -> RecordedDouble:
    """The result of an operation on a recorded number and another one, which may be plain: linear in the first."""
    if isinstance(b, RecordedDouble):
        return a.tape.note(value, (a.index, b.index), (da, db), error, rule)
    return a.tape.note(value, (a.index,), (da,), error)


def _sum(a: RecordedDouble, b: Any, sign_a: float, sign_b: float) -> Any:
    if isinstance(b, OTHERS):
        return NotImplemented
    if not isinstance(b, RecordedDouble) and b == 0:
        return a if sign_a == 1 else -a
    x, y = sign_a * a.value, sign_b * float(b)
    value = x + y
    # Knuth's two-sum: what the sum lost, exactly
    back = value - x
    lost = (x - (value - back)) + (y - back)
    return _note(a, b, value, sign_a, sign_b, HALF_UNIT * abs(value) if lost else 0.0)


def _quotient(a: RecordedDouble, b: Any) -> Any:
    y = float(b)
    if y == 0:
        raise ZeroDivisionError("division by zero")
    value = a.value / y
    exact = value == 0 or _is_power_of_two(y)
    return _note(a, b, value, 1 / y, -value / y, 0.0 if exact else HALF_UNIT * abs(value), of_quotient)


def _is_power_of_two(x: float) -> bool:
    """Whether a product with x is exact: 0, and powers of two (but for underflow)."""
    return x == 0 or math.frexp(x)[0] in (0.5, -0.5)


def _function(
    of: Callable[[float], float], slope: Callable[[float, float], float], rule: Remainder, units: float
) -> Any:
    """A function of one number: its value, its slope from argument and value, what is beyond that, and its error."""

    def on_tape(x: RecordedDouble) -> RecordedDouble:
        value = of(x.value)
        error = 0.0 if x.value == 0 else units * HALF_UNIT * abs(value)
        return x.tape.note(value, (x.index,), (slope(x.value, value),), error, rule)

    return on_tape


def _root_slope(_: float, root: float) -> float:
    return 1 / (2 * root) if root else math.inf


def _atan2(y: Any, x: Any) -> Any:
    tape = y.tape if isinstance(y, RecordedDouble) else x.tape
    a, b = (z if isinstance(z, RecordedDouble) else tape.number(float(z)) for z in (y, x))
    value, square = math.atan2(a.value, b.value), a.value**2 + b.value**2
    slopes = (b.value / square, -a.value / square) if square else (math.inf, math.inf)
    return tape.note(value, (a.index, b.index), slopes, LIBRARY_UNITS * HALF_UNIT * abs(value), of_angle)


def _power(x: Any, y: Any) -> Any:
    tape = x.tape if isinstance(x, RecordedDouble) else y.tape
    a, b = (z if isinstance(z, RecordedDouble) else tape.number(float(z)) for z in (x, y))
    value = scalars.power(a.value, b.value)
    slopes = b.value * scalars.power(a.value, b.value - 1), scalars.power_slope(a.value, value)
    return tape.note(value, (a.index, b.index), slopes, LIBRARY_UNITS * HALF_UNIT * abs(value), of_power)


scalars.register(
    RecordedDouble,
    scalars.Functions(
        sin=_function(scalars.sin, lambda x, _: scalars.cos(x), of_wave, LIBRARY_UNITS),
        cos=_function(scalars.cos, lambda x, _: -scalars.sin(x), of_wave, LIBRARY_UNITS),
        sqrt=_function(scalars.sqrt, _root_slope, of_root, 1),
        atan2=_atan2,
        less=lambda a, b: float(a) < float(b),
        select=lambda condition, a, b: a if condition else b,
        exp=_function(scalars.exp, lambda _, value: value, of_exponential, LIBRARY_UNITS),
        log=_function(scalars.log, lambda x, _: 1 / x if x else math.inf, of_logarithm, LIBRARY_UNITS),
        tanh=_function(scalars.tanh, lambda _, value: 1 - value * value, of_wave, 2 * LIBRARY_UNITS),
        power=_power,
    ),
)


# --- NumPy's long doubles as scalars: where the machine has them, eleven bits more than a double ----------------------


HAS_LONG_DOUBLES = bool(np.finfo(np.longdouble).nmant >= 63)
"""Whether a long double has more bits than a double."""


def _select(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


scalars.register(
    np.longdouble,
    scalars.Functions(
        sin=np.sin,
        cos=np.cos,
        sqrt=np.sqrt,
        atan2=np.arctan2,
        less=lambda a, b: bool(a < b),
        select=_select,
        exp=np.exp,
        log=np.log,
        tanh=np.tanh,
        power=lambda x, y: np.power(np.longdouble(x), np.longdouble(y)),
    ),
)
