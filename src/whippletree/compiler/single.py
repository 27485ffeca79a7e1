"""One state at a time, past NumPy's machinery: a call of a gufunc on a single state costs a microsecond, this a third.

NumPy spends that time on broadcasting, casting and iterators that one state does not need. So the callable first tries
a small native function (:mod:`~whippletree.compiler.single_native`). It looks at its arguments: plain float64 (or
float32) arrays, of exactly the core shape. If all fit, it makes the results, runs the same loop as the ufunc would, and
returns; the bits are the same. Anything else (a batch, a list, another dtype, a subclass, a status that is not zero) is
handed to the general way, untouched.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.compiler.cache import Cache
from whippletree.compiler.program import Buffer
from whippletree.compiler.python_objects import supported
from whippletree.compiler.single_native import MOST_ARRAYS, MOST_DIMENSIONS, PER_ARRAY, Slot, native


class SingleCall:
    """The native function of one compiled function; ``function`` is what to call.

    Args:
        inputs, outputs: the arrays of the call; a status, if there is one, is the last output.
        loop: address of the loop, with NumPy's signature; ``control`` its last argument.
        general: called with the same arguments whenever they are not plain single states.
    """

    def __init__(
        self,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        loop: int,
        control: int,
        general: Callable[..., Any],
        dtype: np.dtype[Any],
        kept: Cache,
    ) -> None:
        status = outputs[-1].integer
        results = outputs[:-1] if status else outputs
        arrays = [*inputs, *results]
        sizes = list(dict.fromkeys(d for b in [*inputs, *outputs] for d in b.shape))
        dimensions = np.array([1, *sizes], dtype=np.int64)
        layout = np.zeros(Slot.ARRAYS + PER_ARRAY * len(arrays), dtype=np.int64)
        layout[: Slot.ARRAYS] = [
            len(inputs), len(results), int(status), loop, control, id(general), id(dtype), dtype.num,
            dimensions.ctypes.data, 0,
        ]  # fmt: skip
        for number, b in enumerate(arrays):
            first = Slot.ARRAYS + PER_ARRAY * number
            layout[first : first + 1 + len(b.shape)] = [len(b.shape), *b.shape]
        self._layout = layout
        method = _Method(b"single", native(kept), _FASTCALL, None)
        # the function owns all that it points to: it may still be running when nobody else knows it any more
        owned = layout, dimensions, general, dtype, method
        self.function: Callable[..., Any] = _new_function(ctypes.byref(method), owned, None)

    def was_used(self) -> bool:
        """Whether the native way was taken since this was asked last."""
        used, self._layout[Slot.USED] = bool(self._layout[Slot.USED]), 0
        return used


def suits(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> bool:
    """Whether single calls of a function with these arrays can take the native way."""
    arrays = [*inputs, *outputs]
    return (
        bool(inputs)
        and bool(outputs)
        and not (outputs[-1].integer and len(outputs) == 1)
        and len(arrays) < MOST_ARRAYS
        and all(
            len(b.shape) <= MOST_DIMENSIONS and all(isinstance(d, int) for d in b.shape) and not b.empty for b in arrays
        )
        and supported()
    )


_FASTCALL = 0x80


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p]
