"""An array of floats as one scalar: generic code runs on many cases at once, in plain NumPy.

The closed forms of contact are written for one pair. On lanes, one entry per pair, a scene of five thousand pairs costs
as many operations in Python as one pair does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.dual_numbers import Dual


class Lanes:
    """An array of floats (n,) that behaves as one scalar; or one of booleans, as a condition."""

    __slots__ = ("values",)

    def __init__(self, values: Array) -> None:
        self.values = values

    def __neg__(self) -> Lanes:
        return Lanes(-self.values)

    def __abs__(self) -> Lanes:
        return Lanes(np.abs(self.values))

    def __add__(self, other: Any) -> Any:
        return _combine(np.add, self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _combine(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _combine(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return _combine(np.multiply, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _combine(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _combine(np.divide, other, self)

    def __and__(self, other: Any) -> Any:
        return _combine(np.logical_and, self, other)

    def __invert__(self) -> Lanes:
        return Lanes(np.logical_not(self.values))


def _combine(operation: Callable[..., Array], a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray | Dual) or isinstance(b, np.ndarray | Dual):
        return NotImplemented
    return Lanes(operation(plain(a), plain(b)))


def plain(x: Any) -> Any:
    """The array of a scalar; other numbers as they are."""
    return x.values if isinstance(x, Lanes) else x


def lanes_of_columns(columns: Array) -> Array:
    """A vector (n,) of lanes from an array (lanes, n) of floats."""
    result = np.empty(columns.shape[1], dtype=object)
    for k, column in enumerate(columns.T):
        result[k] = Lanes(np.ascontiguousarray(column))
    return result


def lane(x: Any, k: int) -> Any:
    """Lane k of a scalar, which may be a dual number of lanes; other numbers as they are."""
    if isinstance(x, Dual):
        return Dual(lane(x.value, k), lane(x.slope, k))
    return float(x.values[k]) if isinstance(x, Lanes) and np.ndim(x.values) else plain(x)


def _lift_to_lanes(function: Callable[..., Any]) -> Callable[..., Lanes]:
    return lambda *arguments: Lanes(function(*map(plain, arguments)))


def _entries(table: scalars.Table, places: Array) -> Array:
    """Entries of a table at many places at once."""
    numbers = np.nan_to_num(places, nan=0.0).clip(0, len(table.values) - 1).astype(int)
    return np.asarray(table.array[numbers])


def _rounds(step: Callable[..., list[Any]], state: list[Any], given: list[Any], most: int) -> list[Any]:
    """Rounds of an iteration, until the first of the state is positive in all lanes; those that are done stay."""
    for _ in range(most):
        open_ = ~(np.asarray(plain(state[0])) > 0)
        if not np.any(open_):
            break
        after = step(state, given)
        state = [Lanes(np.where(open_, plain(x), plain(y))) for x, y in zip(after, state, strict=True)]
    return state


scalars.register(
    Lanes,
    scalars.Functions(
        _lift_to_lanes(np.sin),
        _lift_to_lanes(np.cos),
        _lift_to_lanes(np.sqrt),
        _lift_to_lanes(np.arctan2),
        _lift_to_lanes(np.less),
        _lift_to_lanes(np.where),
        rank=2,
        entry=lambda table, x: Lanes(_entries(table, x.values)),
        exp=_lift_to_lanes(np.exp),
        log=_lift_to_lanes(np.log),
        tanh=_lift_to_lanes(np.tanh),
        power=_lift_to_lanes(np.power),
        iterate=_rounds,
    ),
)
