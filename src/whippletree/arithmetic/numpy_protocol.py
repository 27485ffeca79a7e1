"""NumPy's functions on the library's scalars: for code that a user writes in plain NumPy.

On arrays of objects NumPy finds ``np.sin`` by a method of that name, but compares by truth values, and a scalar
without a value yet has none: ``np.maximum(q, 0)`` would fail on a trace. Two things lead it elsewhere: scalars that
derive from :class:`NumPyScalar`, and arrays of the class :class:`ScalarArray`, which is what a user's function is
given. Both hand NumPy's universal functions to the functions that are entered in :data:`ELEMENTWISE`, and all others to
NumPy as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array

ELEMENTWISE: dict[str, Callable[..., Any]] = {}
"""By the name of a function of NumPy: what is done instead, number by number. :mod:`whippletree.arithmetic.scalars`
fills it."""


REFLECTED = {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__"}
"""Operators of a scalar on the right of a long double."""


class NumPyScalar:
    """A scalar that NumPy's universal functions ask before they compare it."""

    __slots__ = ()

    def conjugate(self) -> Any:
        """The number itself, which is real: norms and variances of NumPy ask for it."""
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        reflected = REFLECTED.get(ufunc.__name__)
        if reflected is not None and isinstance(inputs[0], np.longdouble):
            # NumPy's operator asks here, and would ask again; Python's own floats and float64 know better
            return getattr(self, reflected)(inputs[0])
        return _apply_ufunc(ufunc, method, inputs, keywords)


class ScalarArray(np.ndarray[Any, Any]):
    """An array of any scalars, for a user's function; what comes of it is one too."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if "out" in keywords:
            keywords["out"] = tuple(_plain(x) for x in keywords["out"])
        found = _apply_ufunc(ufunc, method, inputs, keywords)
        return found.view(ScalarArray) if isinstance(found, np.ndarray) else found

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        if function is np.where and len(arguments) == 3 and not keywords:
            return _each(ELEMENTWISE["where"], arguments).view(ScalarArray)
        found = super().__array_function__(function, types, arguments, keywords)
        return found.view(ScalarArray) if isinstance(found, np.ndarray) else found


def scalar_array(array: Any) -> ScalarArray:
    """An array of scalars for a user's function."""
    return np.asarray(array, dtype=object).view(ScalarArray)


def _apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if any(isinstance(x, NumPyScalar) for x in keywords.get("out", ())):
        raise TypeError(f"np.{ufunc.__name__} was given {len(inputs) + 1} arguments: a number cannot hold a result")
    own = ELEMENTWISE.get(ufunc.__name__)
    if own is not None and method == "__call__" and "out" not in keywords:
        found = _each(own, inputs)
        return found if found.ndim else found[()]
    if own is not None and method == "reduce" and _is_whole(keywords):
        return _reduce_along(
            own, np.asarray(_plain(inputs[0])), keywords.get("axis", 0), keywords.get("keepdims", False)
        )
    return getattr(ufunc, method)(*[_plain(x) for x in inputs], **keywords)


def _each(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Array:
    """A function of scalars, entry by entry."""
    arrays = np.broadcast_arrays(*[_plain(x) for x in inputs])
    found = np.empty(arrays[0].shape, dtype=object)
    for index in np.ndindex(*found.shape):
        found[index] = function(*[_number(array[index]) for array in arrays])
    return found


def _is_whole(keywords: dict[str, Any]) -> bool:
    """Whether a reduction goes over all entries, from the first one, into a new array."""
    whole = keywords.get("where", True) is True and keywords.get("dtype") is None
    return whole and not {"initial", "out"} & set(keywords)


def _reduce_along(function: Callable[..., Any], array: Array, axis: Any, keepdims: bool) -> Any:
    """A function of two scalars, over all entries along one axis, several, or all of them (None)."""
    axes = range(array.ndim) if axis is None else np.atleast_1d(axis)
    along = sorted(int(k) % array.ndim for k in axes)
    left = [k for k in range(array.ndim) if k not in along]
    rows = np.transpose(array, [*left, *along]).reshape(*[array.shape[k] for k in left], -1)
    found = np.empty(rows.shape[:-1], dtype=object)
    for index in np.ndindex(*found.shape):
        found[index] = reduce(function, [_number(x) for x in rows[index]])
    if keepdims:
        return np.expand_dims(found, tuple(along))
    return found if found.ndim else found[()]


def _number(x: Any) -> Any:
    """NumPy's floats as Python's, which fold with traced scalars."""
    return x.item() if isinstance(x, np.generic) else x


def _plain(x: Any) -> Any:
    """An array without this protocol; a scalar as an array of no dimensions."""
    if isinstance(x, ScalarArray):
        return x.view(np.ndarray)
    if isinstance(x, NumPyScalar):
        boxed = np.empty((), dtype=object)
        boxed[()] = x
        return boxed
    return x
