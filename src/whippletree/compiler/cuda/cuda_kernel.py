"""A program on its way to a GPU: PTX from the cache or the emitter, one module per device, tables in its memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from whippletree.compiler.cuda import driver, ptx_target
from whippletree.compiler.cuda.tuning import Form
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.cache import CodeCache
from whippletree.compiler.llvm.compile_progress import telling
from whippletree.compiler.llvm.kernel import Kernel, Options, Recipe

WORK_SHARE = 0.5
"""Share of a device's free memory that the work space of one call may take."""


class CudaKernel(Kernel):
    """The kernel of one program on every device that it was called on."""

    def __init__(self, recipe: Recipe, options: Options, cache: CodeCache, form: Form | None = None) -> None:
        super().__init__(recipe, options, cache)
        self.form = form
        self._on: dict[tuple[int, bool], _Loaded] = {}
        self._lock = threading.Lock()
        self.dimensions = ptx_target.named_dimensions(self.interface.shell)

    def image(self, arch: str, rows: bool = False) -> bytes:
        """The kernel's PTX for an architecture such as ``sm_90``, for arrays by rows or by columns."""
        layout = "rows" if rows else "columns"
        key = self._code_key(f"ptx {arch} {self.options.real} {layout} {self.form} {jit.llvm_version()}")
        stored = self.cache.load(key)
        if stored is not None:
            return stored
        copies = ptx_target.copies_by_itself(arch)
        with telling(f"{self._recipe.what or self.interface.name}: code for {arch}"):
            ir = ptx_target.kernel_ir(self._build(), self.options.real, self.form, rows, copies)
            text = ptx_target.ptx_text(ir, arch)
        self.cache.store(key, text.encode())
        return text.encode()

    def loaded(self, device: driver.Device, rows: bool = False) -> _Loaded:
        """The module on a device."""
        with self._lock:
            if (device.number, rows) not in self._on:
                self._on[device.number, rows] = _Loaded(self, device, rows)
            return self._on[device.number, rows]

    def launch(
        self, device: driver.Device, states: int, arrays: Sequence[Sequence[int]], sizes: Mapping[str, int], stream: int
    ) -> None:
        """Start the kernel. Each array is its address, the step from state to state and its strides, in bytes."""
        self.loaded(device, _by_rows(arrays)).launch(states, arrays, sizes, stream)


def _by_rows(arrays: Sequence[Sequence[int]]) -> bool:
    """Whether some vector lies state after state: its states are farther apart than its numbers."""
    return any(len(strides) == 1 and abs(step) > abs(strides[0]) for _, step, *strides in arrays)


class _Loaded:
    """A kernel on one device."""

    def __init__(self, kernel: CudaKernel, device: driver.Device, rows: bool) -> None:
        self.device = device
        self._names = kernel.dimensions
        self._memory = [driver.DeviceMemory(device, table.nbytes, "tables of the model") for table in kernel.tables]
        for memory, table in zip(self._memory, kernel.tables, strict=True):
            driver.copy_in(device, memory.pointer, table.ctypes.data, table.nbytes, 0)
        device.synchronize()
        image = kernel.image(ptx_target.architecture(device.capability), rows)
        start = ptx_target.how_to_start(image)
        self.work = start.work
        self.module = driver.Module(device, image, ptx_target.SYMBOL, start.threads, start.shared)

    def launch(self, states: int, arrays: Sequence[Sequence[int]], sizes: Mapping[str, int], stream: int) -> None:
        """As :meth:`CudaKernel.launch`."""
        described, tables = [x for array in arrays for x in array], [memory.pointer for memory in self._memory]
        parameters = [states, *described, *[sizes[d] for d in self._names], *tables]
        blocks = -(-states // self.module.threads)
        if not self.work:
            self.module.launch(blocks, parameters, stream)
            return
        blocks = min(blocks, self._most_blocks())
        slots = blocks * self.module.threads
        with _work_space(self.device, slots * self.work, stream) as pointer:
            self.module.launch(blocks, [*parameters, pointer, slots], stream)

    def _most_blocks(self) -> int:
        """Blocks that run at once, or fewer if their work space would not fit."""
        resident = self.module.resident_blocks() * self.device.multiprocessors
        fitting = int(WORK_SHARE * self.device.free_bytes()) // (self.work * self.module.threads)
        return max(1, min(resident, fitting))


class _work_space:
    """Memory of a device for the time of one call, in the order of the stream: other streams have their own."""

    def __init__(self, device: driver.Device, size: int, stream: int) -> None:
        self.device, self.size, self.stream = device, size, ctypes.c_void_p(stream)
        self.pointer = ctypes.c_uint64()

    def __enter__(self) -> int:
        with self.device.current():
            driver.call(
                "cuMemAllocAsync",
                *(ctypes.byref(self.pointer), ctypes.c_size_t(self.size), self.stream),
                doing=f"{self.size} bytes of work space on {self.device.name}",
            )
        return self.pointer.value

    def __exit__(self, *_: Any) -> None:
        with self.device.current():
            driver.call("cuMemFreeAsync", self.pointer, self.stream)
