"""Arrays that offer nothing but DLPack, read where they are.

DLPack hands over a capsule with a C structure that describes the array. The capsule owns that structure: it is kept for
as long as the array is used, and frees everything when it goes. Nothing here takes it over.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from whippletree.errors import DeviceError, ScalarError

CUDA, MANAGED = 2, 13
"""Numbers of the kinds of memory that a CUDA device reaches."""

_KINDS = {0: "i", 1: "u", 2: "f"}
_NAME = b"dltensor"


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("dimensions", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class Described:
    """Contents of a capsule: address, shape, strides in bytes (None: C-contiguous), type and device."""

    def __init__(self, label: str, array: Any, stream: int) -> None:
        kind, number = array.__dlpack_device__()
        if kind not in (CUDA, MANAGED):
            raise DeviceError(
                f"{label} ({type(array).__name__}) is in memory of DLPack's kind {int(kind)}, which no CUDA device "
                f"reaches: move it there, or pass a NumPy array"
            )
        self.capsule = array.__dlpack__(stream=stream)
        tensor = _Tensor.from_address(_pointer(self.capsule))
        if tensor.kind not in _KINDS or tensor.lanes != 1:
            raise ScalarError(
                f"{label} holds numbers of DLPack's kind {tensor.kind}; functions take float64 or float32"
            )
        self.dtype = np.dtype(f"{_KINDS[tensor.kind]}{tensor.bits // 8}")
        self.device = int(number)
        self.pointer = (tensor.data or 0) + tensor.offset
        self.shape = tuple(tensor.shape[i] for i in range(tensor.dimensions))
        steps = [tensor.strides[i] for i in range(tensor.dimensions)] if tensor.strides else None
        self.strides = None if steps is None else tuple(s * self.dtype.itemsize for s in steps)


def _pointer(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, _NAME))
