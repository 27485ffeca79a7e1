"""Functions that a user writes in plain NumPy, called with whatever scalars the library works on.

NumPy's functions accept arrays of floats, and arrays of objects whose entries have methods of the same names. Dual
numbers have them; other scalars (mpmath, Fractions, traced ones) are wrapped as dual numbers of slope zero, and the
results are unwrapped again. So ``np.sin``, ``cos``, ``sqrt``, ``arctan2``, ``exp``, ``log``, ``tanh``, ``power``,
``maximum``, ``minimum``, ``clip``, ``where`` and ``+ - * / @`` work (:mod:`whippletree.arithmetic.numpy_protocol`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.arithmetic.numpy_protocol import scalar_array


def call_function(function: Callable[..., Any], *arguments: Any) -> Array:
    """The function's result as a vector of scalars."""
    arrays = [np.asarray(x) for x in arguments]
    if all(_is_plain(x) for array in arrays for x in array.flat):
        ready = [array.astype(float) for array in arrays]
        return vector(*[_exact(x) for x in np.atleast_1d(function(*[_unbox(a) for a in ready])).flat])
    wrapped = [_unbox(_wrap_in_duals(array)) for array in arrays]
    result = np.atleast_1d(np.asarray(function(*wrapped), dtype=object))
    return vector(*[x.value if isinstance(x, Dual) else _exact(x) for x in result.flat])


def _wrap_in_duals(array: Array) -> Array:
    """Every entry as the value of a dual number, also of those that are dual numbers already."""
    result = np.empty(array.shape, dtype=object)
    for index in np.ndindex(*array.shape):
        result[index] = Dual(array[index], 0)
    return result


def _unbox(array: Array) -> Any:
    return array[()] if array.ndim == 0 else scalar_array(array) if array.dtype == object else array


def _is_plain(x: Any) -> bool:
    return isinstance(x, (float, int, np.floating, np.integer))


def _exact(x: Any) -> Any:
    """NumPy's floats as Python's, which fold with traced scalars."""
    return x.item() if isinstance(x, np.generic) else x
