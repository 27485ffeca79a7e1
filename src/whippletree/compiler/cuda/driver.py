"""The CUDA driver through ctypes: devices, modules, launches and memory. Nothing but the driver's own library is
needed.

Everything of a device happens in its *primary* context, the one that CuPy, PyTorch and JAX use too, so their pointers
and streams are valid here.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from whippletree.errors import DeviceError, DeviceMemoryError

_OUT_OF_MEMORY = 2
_LOG_BYTES = 16 * 1024

# numbers of the driver's attributes
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76
_MEMORY_KIND, _ORDINAL = 2, 9
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
_ON_DEVICE = 2
_PARAMETERS, _PARAMETER_BYTES = 1, 2
_MOST_SHARED_BYTES = 8
FUNCTION_ATTRIBUTES = {"shared_bytes": 1, "local_bytes": 3, "registers": 4}


@cache
def driver() -> ctypes.CDLL:
    """The driver's library, initialised.

    Raises:
        DeviceError: there is no driver, or no device that it can use.
    """
    cure = "Install NVIDIA's driver and check it with nvidia-smi, or compile for the CPU: wt.compile(model)."
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise DeviceError(
            f"target 'cuda' needs NVIDIA's driver, and its library {name} is not here ({error}). {cure}"
        ) from None
    code = library.cuInit(0)
    if code:
        raise DeviceError(f"target 'cuda': the driver cannot be started ({_describe(library, code)}). {cure}")
    count = ctypes.c_int()
    library.cuDeviceGetCount(ctypes.byref(count))
    if not count.value:
        raise DeviceError(f"target 'cuda': the driver is here, but it finds no device. {cure}")
    return library


def _describe(library: ctypes.CDLL, code: int) -> str:
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    library.cuGetErrorName(code, ctypes.byref(name))
    library.cuGetErrorString(code, ctypes.byref(text))
    return f"{(name.value or b'?').decode()}, {(text.value or b'unknown error').decode()}"


def call(function: str, *arguments: Any, doing: str = "") -> None:
    """Call a function of the driver; an error code becomes an exception."""
    library = driver()
    code = getattr(library, function)(*arguments)
    if code:
        kind = DeviceMemoryError if code == _OUT_OF_MEMORY else DeviceError
        raise kind(f"{doing or function}: {_describe(library, code)}")


@cache
def device_count() -> int:
    """How many devices the driver can use."""
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


class Device:
    """One device and its primary context, which is retained for as long as the process lives."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._handle = ctypes.c_int()
        call("cuDeviceGet", ctypes.byref(self._handle), number, doing=f"device {number}")
        self.context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self._handle, doing=f"device {number}")
        self._owner = os.getpid()

    @property
    def name(self) -> str:
        """The driver's handle of it."""
        text = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", text, 256, self._handle)
        return text.value.decode()

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability, such as (9, 0)."""
        return self._attribute(_MAJOR), self._attribute(_MINOR)

    @property
    def multiprocessors(self) -> int:
        """How many multiprocessors it has."""
        return self._attribute(_MULTIPROCESSORS)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), number, self._handle)
        return value.value

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this device's context current for the calls inside."""
        if os.getpid() != self._owner:
            raise DeviceError("target 'cuda': CUDA does not survive a fork; start the worker with the method 'spawn'")
        call("cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def free_bytes(self) -> int:
        """Memory that nobody has taken yet."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self.current():
            call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def synchronize(self, stream: int = 0) -> None:
        """Wait until the work of a stream is done."""
        with self.current():
            call("cuStreamSynchronize", ctypes.c_void_p(stream), doing="a kernel or copy failed")


@cache
def device(number: int) -> Device:
    """The device of that number."""
    if not 0 <= number < device_count():
        raise DeviceError(
            f"target 'cuda': there is no device {number}; the driver has {device_count()}, numbered from 0"
        )
    return Device(number)


def device_of(pointer: int) -> int | None:
    """The number of the device whose memory an address is in; None if it is in no device's memory."""
    kind, ordinal = ctypes.c_uint(), ctypes.c_int()
    where = ctypes.c_uint64(pointer)
    library = driver()
    if library.cuPointerGetAttribute(ctypes.byref(kind), _MEMORY_KIND, where) or kind.value != _ON_DEVICE:
        return None
    if library.cuPointerGetAttribute(ctypes.byref(ordinal), _ORDINAL, where):
        return None
    return ordinal.value


class DeviceMemory:
    """A piece of a device's memory, freed when nobody refers to it any more."""

    def __init__(self, owner: Device, size: int, purpose: str) -> None:
        self.size = size
        pointer = ctypes.c_uint64()
        with owner.current():
            call(
                "cuMemAlloc_v2",
                ctypes.byref(pointer),
                ctypes.c_size_t(max(size, 1)),
                doing=f"{size} bytes of memory of {owner.name} for {purpose}",
            )
        self.pointer = pointer.value
        weakref.finalize(self, _free, owner, pointer.value)


def _free(owner: Device, pointer: int) -> None:
    # waits for kernels that may still use the memory; a process that ends, or a forked child, frees nothing
    if os.getpid() == owner._owner and not sys.is_finalizing():
        with suppress(DeviceError), owner.current():
            call("cuMemFree_v2", ctypes.c_uint64(pointer))


def copy_in(owner: Device, target: int, source: int, size: int, stream: int) -> None:
    """Copy from the host's memory; the source may be used again when this returns."""
    with owner.current():
        call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_uint64(target),
            ctypes.c_void_p(source),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )


def copy_out(owner: Device, target: int, source: int, size: int, stream: int) -> None:
    """Copy to the host's memory and wait for it."""
    with owner.current():
        call(
            "cuMemcpyDtoHAsync_v2",
            ctypes.c_void_p(target),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )
        call("cuStreamSynchronize", ctypes.c_void_p(stream), doing="a kernel or copy failed")


class Module:
    """A module on a device, from PTX or machine code, with one kernel."""

    def __init__(self, owner: Device, image: bytes, symbol: str, threads: int, shared: int) -> None:
        self.owner = owner
        self.threads = threads  # of a block
        self.shared = shared  # bytes of a block
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        with owner.current():
            try:
                call("cuModuleLoadDataEx", ctypes.byref(self._module), ctypes.c_char_p(image), 2, options, values)
            except DeviceError as error:
                raise type(error)(
                    f"{owner.name} refuses a kernel: {error}\n{log.value.decode(errors='replace')}"
                ) from None
            call("cuModuleGetFunction", ctypes.byref(self._function), self._module, symbol.encode())
            if shared:
                call("cuFuncSetAttribute", self._function, _MOST_SHARED_BYTES, shared)
        weakref.finalize(self, _unload, owner, self._module)

    def attribute(self, name: str) -> int:
        """Value of one of :data:`FUNCTION_ATTRIBUTES`."""
        value = ctypes.c_int()
        call("cuFuncGetAttribute", ctypes.byref(value), FUNCTION_ATTRIBUTES[name], self._function)
        return value.value

    def resident_blocks(self) -> int:
        """How many blocks one multiprocessor holds at once."""
        count = ctypes.c_int()
        with self.owner.current():
            call(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                *(ctypes.byref(count), self._function, self.threads, ctypes.c_size_t(self.shared)),
            )
        return max(1, count.value)

    def launch(self, blocks: int, parameters: Sequence[int], stream: int) -> None:
        """Start the kernel; every parameter is eight bytes."""
        packed = (ctypes.c_uint64 * len(parameters))(*[p & 0xFFFFFFFFFFFFFFFF for p in parameters])
        size = ctypes.c_size_t(ctypes.sizeof(packed))
        extra = (ctypes.c_void_p * 5)(
            _PARAMETERS, ctypes.addressof(packed), _PARAMETER_BYTES, ctypes.addressof(size), None
        )
        with self.owner.current():
            call(
                "cuLaunchKernel",
                *(self._function, blocks, 1, 1, self.threads, 1, 1, self.shared, ctypes.c_void_p(stream), None, extra),
                doing="a kernel could not be started",
            )


def _unload(owner: Device, module: ctypes.c_void_p) -> None:
    if os.getpid() == owner._owner and not sys.is_finalizing():
        with suppress(DeviceError), owner.current():
            call("cuModuleUnload", module)
