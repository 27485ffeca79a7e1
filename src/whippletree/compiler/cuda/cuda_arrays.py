"""Arrays of other libraries on a GPU: where their numbers are, and new ones like them. Nothing is copied.

    PyTorch, CuPy   on the library's current stream
    JAX             which has no stream that a caller could join: waits for the inputs, and for the result
    others          anything with ``__cuda_array_interface__``, on the stream that it names, or with DLPack

The libraries are never imported here: an array of one proves that it is loaded.

DLPack hands over a capsule with a C structure that describes the array. The capsule owns that structure: it is kept for
as long as the array is used, and frees everything when it goes. Nothing here takes it over.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from whippletree.compiler.cuda import driver
from whippletree.errors import DeviceError, ScalarError

Shape = tuple[int, ...]

_DEFAULT_STREAM = 1
"""How DLPack calls the stream that the driver calls 0."""


class DeviceView(NamedTuple):
    """An array in a device's memory; strides are in bytes."""

    pointer: int
    shape: Shape
    strides: Shape
    dtype: np.dtype[Any]
    device: int
    owner: Any  # keeps the memory alive

    @property
    def extent(self) -> tuple[int, int]:
        """The first address and the one behind the last."""
        if 0 in self.shape:
            return self.pointer, self.pointer
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        return self.pointer + low, self.pointer + high + self.dtype.itemsize


def overlap(a: DeviceView, b: DeviceView) -> bool:
    """Whether two arrays may share memory."""
    (a0, a1), (b0, b1) = a.extent, b.extent
    return a0 < b1 and b0 < a1


def plain_strides(shape: Sequence[int], itemsize: int) -> Shape:
    """Strides of a C-contiguous array."""
    return tuple(itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))


def library_of(array: Any) -> str:
    """An array's library: torch, cupy, jax, own, other (``__cuda_array_interface__``), dlpack (only that) or host."""
    kind: Any = type(array)
    return _library(kind)


@cache
def _library(kind: Any) -> str:
    package: str = kind.__module__.partition(".")[0]
    if package in ("torch", "cupy"):
        return package
    if package in ("jax", "jaxlib"):
        return "jax"
    if kind is DeviceArray:
        return "own"
    if package == "numpy":
        return "host"
    if hasattr(kind, "__cuda_array_interface__"):
        return "other"
    return "dlpack" if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__") else "host"


def view_of(label: str, array: Any, dtype: np.dtype[Any], stream: int = 0) -> DeviceView:
    """Where an array of a GPU library is; ``label`` names it in errors. The stream is where it will be used.

    Raises:
        DeviceError: it is not in a device's memory, or not there any more.
        ScalarError: it holds other numbers than the function takes.
    """
    library = library_of(array)
    try:
        view = _read_dlpack(label, array, stream) if library == "dlpack" else _READERS[library](label, array)
    except (DeviceError, ScalarError):
        raise
    except Exception as error:  # deleted, sharded, ...: each library has its own words for it
        raise DeviceError(f"{label} cannot be read on a GPU: {error}") from error
    if view.dtype != dtype:
        raise ScalarError(
            f"{label} holds {view.dtype} values, this function takes {dtype}. On a GPU nothing is converted: "
            f"convert the array, or compile with dtype={view.dtype}."
        )
    return view


def _read_torch(label: str, array: Any) -> DeviceView:
    torch = sys.modules["torch"]
    if not array.is_cuda:
        raise DeviceError(
            f"{label} is a PyTorch tensor on {array.device}: move it with .cuda(), or pass it as .numpy()"
        )
    if array.requires_grad and torch.is_grad_enabled():
        raise DeviceError(
            f"{label} asks for gradients, which do not pass through compiled code: use .detach() or no_grad()"
        )
    names = {torch.float64: "f8", torch.float32: "f4", torch.int64: "i8"}
    if array.dtype not in names:
        raise ScalarError(f"{label} holds {array.dtype} values; compiled functions take float64 or float32")
    dtype = np.dtype(names[array.dtype])
    strides = tuple(s * dtype.itemsize for s in array.stride())
    return DeviceView(array.data_ptr(), tuple(array.shape), strides, dtype, array.device.index, array)


def _read_cupy(label: str, array: Any) -> DeviceView:
    return DeviceView(array.data.ptr, array.shape, array.strides, array.dtype, array.device.id, array)


def _read_own(label: str, array: Any) -> DeviceView:
    return DeviceView(array.memory.pointer, array.shape, array.strides, array.dtype, array.device, array)


def _read_interface(label: str, array: Any) -> DeviceView:
    if library_of(array) == "jax":
        array.block_until_ready()
    try:
        found = array.__cuda_array_interface__
    except AttributeError:
        raise DeviceError(f"{label} is not in the memory of a CUDA device: move it there first") from None
    dtype, shape = np.dtype(found["typestr"]), tuple(found["shape"])
    strides = found.get("strides")
    strides = tuple(strides) if strides is not None else plain_strides(shape, dtype.itemsize)
    return _check_device(label, DeviceView(found["data"][0], shape, strides, dtype, -1, array))


def _read_dlpack(label: str, array: Any, stream: int) -> DeviceView:
    found = Described(label, array, stream or _DEFAULT_STREAM)
    strides = found.strides if found.strides is not None else plain_strides(found.shape, found.dtype.itemsize)
    return _check_device(label, DeviceView(found.pointer, found.shape, strides, found.dtype, found.device, found))


def _check_device(label: str, view: DeviceView) -> DeviceView:
    """The view with the device that its memory belongs to."""
    if 0 in view.shape:
        return DeviceView(view.pointer, view.shape, view.strides, view.dtype, max(view.device, 0), view.owner)
    number = driver.device_of(view.pointer)
    if number is None:
        raise DeviceError(f"{label}: its address {view.pointer:#x} is in no device's memory; was the array freed?")
    return DeviceView(view.pointer, view.shape, view.strides, view.dtype, number, view.owner)


def _read_host(label: str, array: Any) -> DeviceView:
    raise DeviceError(
        f"{label} is in the host's memory ({type(array).__name__}); it must be on the GPU like the inputs"
    )


_READERS = {
    "torch": _read_torch,
    "cupy": _read_cupy,
    "jax": _read_interface,
    "own": _read_own,
    "other": _read_interface,
    "host": _read_host,
}


def current_stream(array: Any, device: int) -> int:
    """The stream that work on an array belongs to now."""
    library = library_of(array)
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    if library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    if library == "other":
        return int(array.__cuda_array_interface__.get("stream") or 0)
    return 0


def stream_number(stream: Any) -> int:
    """A stream given by a caller: a number, or an object of CuPy, PyTorch or Numba."""
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, name):
            value = getattr(stream, name)
            return int(getattr(value, "value", value) or 0)
    return int(stream)


def empty_like(array: Any, shape: Shape, core: int, dtype: np.dtype[Any], device: int, columns: bool) -> Any:
    """A new array of the same library. ``columns``: the last ``core`` dimensions lie outermost in memory."""
    library = library_of(array)
    split = len(shape) - core
    inner = (*range(core, len(shape)), *range(core))
    first = shape[split:] + shape[:split] if columns else shape
    if library == "torch":
        torch = sys.modules["torch"]
        made = torch.empty(first, dtype=getattr(torch, dtype.name), device=f"cuda:{device}")
        return made.permute(inner) if columns else made
    if library == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device):
            made = cupy.empty(first, dtype)
        return made.transpose(inner) if columns else made
    if library == "jax" and dtype.kind == "f":
        # nobody else has seen this array yet, so it may be written although JAX calls it immutable
        made = sys.modules["jax"].numpy.empty(shape, dtype, device=array.device)
        return made.block_until_ready()
    return DeviceArray(device, shape, dtype, column_strides(shape, core, dtype.itemsize) if columns else None)


def copy_of(array: Any) -> Any:
    """A copy, on the library's current stream; None if the library is not known."""
    library = library_of(array)
    if library == "torch":
        return array.clone()
    return array.copy() if library == "cupy" else None


class DeviceArray:
    """An array in memory of our own, for callers whose library is not known: has ``__cuda_array_interface__``."""

    def __init__(self, device: int, shape: Shape, dtype: np.dtype[Any], strides: Shape | None = None) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self.strides = strides or plain_strides(shape, dtype.itemsize)
        self.memory = driver.DeviceMemory(driver.device(device), math.prod(shape) * dtype.itemsize, "an array")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        pointer = (self.memory.pointer, False)
        described = {"shape": self.shape, "strides": self.strides, "typestr": self.dtype.str}
        return {**described, "data": pointer, "version": 3, "stream": 1}  # 1: the default stream

    def fill(self, values: np.ndarray[Any, Any]) -> None:
        """Copy numbers of the same shape from the host."""
        inside = np.empty(self.shape, self.dtype) if self.is_plain else self._by_memory()
        inside[...] = values
        base = inside if self.is_plain else inside.base
        assert base is not None
        driver.copy_in(driver.device(self.device), self.memory.pointer, base.ctypes.data, base.nbytes, 0)
        driver.device(self.device).synchronize()

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in the host's memory, after the work of the default stream."""
        result = np.empty(self.shape, self.dtype) if self.is_plain else self._by_memory()
        base = result if self.is_plain else result.base
        assert base is not None
        driver.copy_out(driver.device(self.device), base.ctypes.data, self.memory.pointer, base.nbytes, 0)
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise DeviceError("an array in a GPU's memory does not become a NumPy array by itself: use its .numpy()")

    @property
    def is_plain(self) -> bool:
        """Whether it is C-contiguous."""
        return self.strides == plain_strides(self.shape, self.dtype.itemsize)

    def _by_memory(self) -> np.ndarray[Any, Any]:
        """A host array with the same strides, a view of a contiguous one."""
        order = sorted(range(len(self.shape)), key=lambda i: -self.strides[i])
        return np.empty([self.shape[i] for i in order], self.dtype).transpose(np.argsort(order))


def column_strides(shape: Shape, core: int, itemsize: int) -> Shape:
    """Strides of an array whose last ``core`` dimensions lie outermost in memory."""
    split = len(shape) - core
    plain = plain_strides(shape[split:] + shape[:split], itemsize)
    return plain[core:] + plain[:core]


# --- arrays that offer nothing but DLPack, read where they are --------------------------------------------------------


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
