"""Dual numbers: derivatives along a direction, by pushing x + ẋ ε through code that never asks what its scalars are.

Their functions are registered with :mod:`whippletree.arithmetic.scalars`, as those of any other scalar type.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whippletree.arithmetic.numpy_protocol import NumPyScalar
from whippletree.arithmetic.scalars import (
    Functions,
    Scalar,
    atan2,
    cos,
    entry,
    exp,
    is_zero,
    less,
    log,
    power,
    power_by_products,
    power_slope,
    register,
    rounds_on_numbers,
    select,
    sin,
    sqrt,
    tanh,
)


class Dual(NumPyScalar):
    """A number x + ẋ ε with ε² = 0: pushing it through generic code gives the derivative along ẋ.

    ``value`` and ``slope`` may be of any scalar type, so duals nest (second derivatives) and can be traced.
    """

    __slots__ = ("slope", "value")

    def __init__(self, value: Scalar, slope: Scalar = 0) -> None:
        self.value = value
        self.slope = slope

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, {self.slope!r})"

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)

    def __pos__(self) -> Dual:
        return self

    def __add__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        y, dy = _parts(other)
        return Dual(self.value + y, self.slope + dy)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        y, dy = _parts(other)
        return Dual(self.value - y, self.slope - dy)

    def __rsub__(self, other: Any) -> Any:
        y, dy = _parts(other)
        return Dual(y - self.value, dy - self.slope)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        y, dy = _parts(other)
        return Dual(self.value * y, self.slope * y + self.value * dy)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        y, dy = _parts(other)
        ratio = self.value / y
        return Dual(ratio, (self.slope - ratio * dy) / y)

    def __rtruediv__(self, other: Any) -> Any:
        return Dual(*_parts(other)) / self

    def __pow__(self, exponent: Any) -> Any:
        """Integer powers by products, all others by :func:`power`."""
        if isinstance(exponent, np.ndarray):
            return NotImplemented
        if isinstance(exponent, float) and exponent.is_integer() and abs(exponent) <= 64:
            exponent = int(exponent)
        if not isinstance(exponent, int):
            return power(self, exponent)
        return power_by_products(self, exponent)

    def __rpow__(self, base: Any) -> Any:
        return power(base, self)

    def __abs__(self) -> Any:
        return select(less(self, 0), -self, self)

    # the names under which NumPy's functions look for a method on arrays of objects

    def sin(self) -> Any:
        return sin(self)

    def exp(self) -> Any:
        return exp(self)

    def log(self) -> Any:
        return log(self)

    def tanh(self) -> Any:
        return tanh(self)

    def cos(self) -> Any:
        return cos(self)

    def sqrt(self) -> Any:
        return sqrt(self)

    def arctan2(self, x: Any) -> Any:
        return atan2(self, x)


def duals(value: Any, slope: Any) -> np.ndarray[Any, Any]:
    """An array of dual numbers from arrays of values and slopes; one dual number from two scalars."""
    values, rates = np.asarray(value, dtype=object), np.asarray(slope, dtype=object)
    result = np.empty(values.size, dtype=object)
    result[:] = [Dual(x, rate) for x, rate in zip(values.ravel().tolist(), rates.ravel().tolist(), strict=True)]
    found: np.ndarray[Any, Any] = result.reshape(values.shape) if values.ndim else result[0]
    return found


def duals_along(value: Any, slope: Any) -> np.ndarray[Any, Any]:
    """An array of dual numbers along several directions at once: their slopes are arrays, the last axis of ``slope``.

    Floats only, and functions that choose by conditions that are known.
    """
    values = np.asarray(value, dtype=object)
    result = np.empty(values.size, dtype=object)
    result[:] = [Dual(x, rate) for x, rate in zip(values.flat, slope.reshape(values.size, -1), strict=True)]
    return result.reshape(values.shape)


def slopes(value: Any) -> np.ndarray[Any, Any]:
    """The slopes of an array of dual numbers (or of one); 0 of what is no dual number, since it did not move."""
    array = np.asarray(value, dtype=object)
    result = np.empty(array.size, dtype=object)
    result[:] = [x.slope if isinstance(x, Dual) else 0 for x in array.ravel().tolist()]
    found: np.ndarray[Any, Any] = result.reshape(array.shape) if array.ndim else result[0]
    return found


def real_value(x: Any) -> float:
    """The number of a scalar that may move: of a dual number, its value.

    Raises:
        TypeError, ValueError, ScalarError: symbols and traced scalars, which have none.
    """
    while isinstance(x, Dual):
        x = x.value
    return float(x)


def _parts(x: Any) -> tuple[Any, Any]:
    return (x.value, x.slope) if isinstance(x, Dual) else (x, 0)


def _dual_sqrt(x: Dual) -> Dual:
    root = sqrt(x.value)
    return Dual(root, x.slope / (2 * root))


def _dual_atan2(y: Any, x: Any) -> Dual:
    (b, db), (a, da) = _parts(y), _parts(x)
    return Dual(atan2(b, a), (a * db - b * da) / (a * a + b * b))


def _dual_exp(x: Dual) -> Dual:
    value = exp(x.value)
    return Dual(value, x.slope * value)


def _dual_tanh(x: Dual) -> Dual:
    value = tanh(x.value)
    return Dual(value, x.slope * (1 - value * value))


def _dual_power(x: Any, y: Any) -> Dual:
    (a, da), (b, db) = _parts(x), _parts(y)
    value = power(a, b)
    along_base = b * power(a, b - 1) * da if isinstance(x, Dual) else 0
    along_exponent = power_slope(a, value) * db if isinstance(y, Dual) and not is_zero(db) else 0
    return Dual(value, along_base + along_exponent)


def _dual_select(condition: Any, a: Any, b: Any) -> Dual:
    if isinstance(condition, (bool, np.bool_)):
        return Dual(*_parts(a if condition else b))
    (x, dx), (y, dy) = _parts(a), _parts(b)
    return Dual(select(condition, x, y), select(condition, dx, dy))


register(
    Dual,
    Functions(
        lambda x: Dual(sin(x.value), x.slope * cos(x.value)),
        lambda x: Dual(cos(x.value), -x.slope * sin(x.value)),
        _dual_sqrt,
        _dual_atan2,
        lambda a, b: less(_parts(a)[0], _parts(b)[0]),
        _dual_select,
        rank=3,
        entry=lambda table, x: entry(table, x.value),
        exp=_dual_exp,
        log=lambda x: Dual(log(x.value), x.slope / x.value),
        tanh=_dual_tanh,
        power=_dual_power,
        iterate=partial(rounds_on_numbers, value=real_value),
    ),
)
