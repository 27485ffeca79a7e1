"""NumPy's long doubles as scalars: where the machine has them, eleven bits more than a double, at a double's price.

They serve to see what rounding has done to a result: evaluated once more on them, it is wrong by about 2⁻¹¹ of that.
Not every machine has them (``AVAILABLE``): those of Windows, and of ARM under macOS, are doubles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array

AVAILABLE = bool(np.finfo(np.longdouble).nmant >= 63)
"""Whether a long double has more bits than a double."""


def extended_numbers(values: Any) -> Array:
    """An array of long doubles, one by one."""
    plain = np.asarray(values)
    found = np.empty(plain.shape, dtype=object)
    for index in np.ndindex(*plain.shape):
        found[index] = np.longdouble(plain[index])
    return found


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
