"""How Python and NumPy lay out their objects, as far as native code reads them, and where their functions are.

Native code reads the public fields of NumPy's arrays and Python's floats. :func:`supported` compares them with what
Python says of an array before they are ever relied upon.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from functools import cache
from importlib import import_module

import numpy as np

ALIGNED = 0x100
"""NumPy's flag of an array whose numbers lie where the machine likes them."""


class ArrayFields(ctypes.Structure):
    """The beginning of NumPy's PyArrayObject_fields, part of its stable ABI."""

    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("kind", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("dimensions", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("base", ctypes.c_void_p),
        ("descriptor", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


@cache
def supported() -> bool:
    """Whether this Python and this NumPy lay out their objects as native code expects."""
    if (
        sys.implementation.name != "cpython"
        or sysconfig.get_config_var("Py_GIL_DISABLED")
        or object.__basicsize__ != 16
    ):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return False
    array = np.zeros((3, 5), dtype=np.float64)[:, ::2]
    fields = ArrayFields.from_address(id(array))
    value, scalar = 1.25, np.float64(2.5)
    return (
        fields.kind == id(np.ndarray)
        and fields.data == array.ctypes.data
        and fields.rank == 2
        and fields.dimensions[:2] == [3, 3]
        and fields.strides[:2] == list(array.strides)
        and fields.descriptor == id(array.dtype) == id(np.dtype(np.float64))
        and bool(fields.flags & ALIGNED)
        and ctypes.c_double.from_address(id(value) + 16).value == value
        and ctypes.c_double.from_address(id(scalar) + 16).value == scalar
    )


def interpreter() -> dict[str, int]:
    """Addresses of the functions and types of Python and NumPy that native code uses."""
    names = ("PyTuple_GetItem", "PyObject_Vectorcall", "PyTuple_New", "PyTuple_SetItem", "Py_DecRef")
    found = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names}
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = import_module("numpy._core._multiarray_umath")._ARRAY_API
    table = ctypes.cast(pointer(api, None), ctypes.POINTER(ctypes.c_void_p))
    # entries of NumPy's table of array functions, the same since NumPy 1.0
    found |= {"PyArray_Return": table[76] or 0, "PyArray_New": table[93] or 0}
    return found | {"ndarray_type": id(np.ndarray), "float_type": id(float), "float64_type": id(np.float64)}
