"""Compiled functions on a GPU: the look of :class:`~whippletree.compiler.cpu.cpu_function.CompiledFunction`, one thread
per state.

    dyn = wt.compile(model, target="cuda", dtype="float32")
    a = dyn.forward_dynamics(q, v, tau)           # arrays of PyTorch, CuPy or JAX in, the same library's out
    dyn.forward_dynamics(q, v, tau, out=a)        # no allocation

* Arrays on the device are used where they are, whatever their strides: ``(batch, n)`` and the transpose of ``(n,
  batch)``, which is the faster layout. A call only *starts* the work, on the library's current stream (or
  ``stream=``), and returns.
* NumPy arrays, lists and numbers are copied to the device, results back, and the call waits: for tests, not for speed.
  If all inputs are such, the results are NumPy arrays.
* A status per state is left in ``.status`` on the device; failed states are NaN. Only a call on NumPy arrays looks at
  it, and raises or warns as the CPU does.
* Where ``out`` overlaps an input, that input is copied first.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from whippletree.compiler.call_shapes import check_out, check_shapes, convert, expected_shape
from whippletree.compiler.cuda import cuda_arrays as arrays
from whippletree.compiler.cuda import driver, ptx_target
from whippletree.compiler.cuda.cuda_arrays import DeviceView
from whippletree.compiler.cuda.tuning import Form
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.compile_progress import telling
from whippletree.compiler.llvm.kernel import Kernel, Options, Recipe
from whippletree.compiler.named_function import NamedFunction, Wording, as_tuple
from whippletree.compiler.program import Buffer, Program
from whippletree.errors import DeviceError, ScalarError, ShapeError
from whippletree.files.cache import CodeCache, default_cache

Shape = tuple[int, ...]

_MOST_KNOWN = 256


def compile_for_cuda(
    source: Program | Recipe,
    *,
    dtype: Any = np.float64,
    wording: Wording | None = None,
    form: Form | None = None,
    cache: CodeCache | None = None,
) -> CudaFunction:
    """Compile a program for NVIDIA GPUs; the work is done on the first call on a device.

    Args:
        source: the program, or a recipe whose key spares building it when the cache knows it.
        dtype: float64 or float32, of all inputs and outputs.
        wording: what errors say.
        form: how the kernel is written (default: chosen by its size).
        cache: where PTX is kept (default: see :mod:`whippletree.files.cache`).
    """
    kind = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise ScalarError(f"dtype {kind} cannot be compiled: use float64 or float32")
    recipe = source if isinstance(source, Recipe) else Recipe.of(source)
    options = Options("double" if kind == np.float64 else "float")
    return CudaFunction(
        CudaKernel(recipe, options, cache if cache is not None else default_cache(), form), wording or Wording()
    )


class CudaFunction(NamedFunction):
    """A function of arrays on a GPU; see :mod:`whippletree.compiler.cuda.cuda_function`."""

    __slots__ = ("_kernel", "_known")

    def __init__(self, kernel: CudaKernel, wording: Wording) -> None:
        super().__init__(kernel.interface, wording)
        self._kernel = kernel
        self._known: dict[Any, tuple[Shape, dict[str, int]]] = {}  # batches of shapes met before

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64 or float32."""
        return self._kernel.options.dtype

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        if named or len(inputs) != self._arity:
            inputs = self._in_order(inputs, named)
        batch, sizes = self._batch(inputs)
        first = next((i for i, x in enumerate(inputs) if arrays.library_of(x) != "host"), None)
        if first is None:
            return self._on_host_arrays(inputs, out, batch, sizes)
        call = _Call(self, self.inputs[first], inputs[first], stream)
        views = [call.input(b, x) for b, x in zip(self._inputs, inputs, strict=True)]
        results, targets = call.outputs(out, batch, sizes, views)
        if math.prod(batch):
            self._launch(call, views, targets, batch, sizes)
        call.finish()
        if self._status:
            self.status = results.pop()
        return out if out is not None else results[0] if len(results) == 1 else self._name_results(tuple(results))

    def _batch(self, inputs: Sequence[Any]) -> tuple[Shape, dict[str, int]]:
        """The batch shape of a call and the sizes of its named dimensions."""
        shapes = tuple(tuple(getattr(x, "shape", ())) for x in inputs)
        key = shapes if all(hasattr(x, "shape") for x in inputs) else None
        found = self._known.get(key)
        if found is None:
            found = check_shapes(self.name, self._inputs, inputs, self._wording.hints)
            if key is not None and len(self._known) < _MOST_KNOWN:
                self._known[key] = found
        return found

    def _on_host_arrays(self, inputs: Sequence[Any], out: Any, batch: Shape, sizes: dict[str, int]) -> Any:
        """NumPy in, NumPy out: copy, run, copy back."""
        if out is not None:
            check_out(self.name, self._results, out, batch, sizes, self.dtype)
        call = _Call(self, "", None, 0)
        views = [call.input(b, x) for b, x in zip(self._inputs, inputs, strict=True)]
        devices = [
            arrays.DeviceArray(call.device.number, call.shape(b, batch, sizes), call.dtype(b)) for b in self._outputs
        ]
        targets = [arrays.view_of(b.name, d, call.dtype(b)) for b, d in zip(self._outputs, devices, strict=True)]
        if math.prod(batch):
            self._launch(call, views, targets, batch, sizes)
        results = tuple(d.numpy()[()] for d in devices)
        kept: Any = results[0] if len(results) == 1 else results
        if self._status:
            kept = self._act_on_status(results, inputs)
        if out is None:
            return self._name_results(kept)
        for target, value in zip(as_tuple(out), as_tuple(kept), strict=True):
            if target is not None:
                np.copyto(target, value, casting="same_kind")
        return out

    def _launch(
        self,
        call: _Call,
        views: Sequence[DeviceView],
        targets: Sequence[DeviceView],
        batch: Shape,
        sizes: dict[str, int],
    ) -> None:
        """One kernel for all states; several if the batch dimensions of some array do not fit together in memory."""
        every = [*zip(self._inputs, views, strict=True), *zip(self._outputs, targets, strict=True)]
        cores = [view.strides[len(view.shape) - len(b.shape) :] for b, view in every]
        counts, steps = merge_dimensions(tuple(_batch_strides(b, view, batch) for b, view in every), batch)
        inner = max(range(len(counts)), key=lambda i: counts[i])
        outer = [range(n) if i != inner else range(1) for i, n in enumerate(counts)]
        for index in itertools.product(*outer):
            places = [
                view.pointer + sum(i * s for i, s in zip(index, steps_of, strict=True))
                for (_, view), steps_of in zip(every, steps, strict=True)
            ]
            described = [[p, s[inner], *core] for p, s, core in zip(places, steps, cores, strict=True)]
            self._kernel.launch(call.device, counts[inner], described, sizes, call.stream)


class _Call:
    """Needs of one call: the device, the stream, and the copies that must live until it is done."""

    def __init__(self, function: CudaFunction, name: str, leader: Any, stream: Any) -> None:
        self.function = function
        self.leader = leader
        self.kept: list[Any] = []
        self.stream = 0 if stream is None else arrays.stream_number(stream)
        if leader is None:
            self.device = driver.device(0)
            return
        first = self._view(name, leader, None)
        self.device = driver.device(first.device)
        if stream is None:
            self.stream = arrays.current_stream(leader, first.device)

    def dtype(self, buffer: Buffer) -> np.dtype[Any]:
        """Type of the numbers of an output."""
        return np.dtype(np.int64) if buffer.integer else self.function.dtype

    def shape(self, buffer: Buffer, batch: Shape, sizes: dict[str, int]) -> Shape:
        """Shape of an output."""
        return batch + tuple(sizes[d] if isinstance(d, str) else d for d in buffer.shape)

    def _view(self, name: str, array: Any, buffer: Buffer | None) -> DeviceView:
        dtype = self.function.dtype if buffer is None else self.dtype(buffer)
        view = arrays.view_of(f"{self.function.name}: {name}", array, dtype, self.stream)
        self.kept.append(array)
        return view

    def input(self, buffer: Buffer, array: Any) -> DeviceView:
        """Where an input is; one in the host's memory is copied."""
        if arrays.library_of(array) != "host":
            return self._same_device(buffer.name, self._view(buffer.name, array, buffer))
        (values,) = convert(self.function.name, [buffer], [array], self.function.dtype)
        values = np.ascontiguousarray(values).reshape(np.shape(values))
        memory = driver.DeviceMemory(self.device, values.nbytes, f"the input {buffer.name}")
        driver.copy_in(self.device, memory.pointer, values.ctypes.data, values.nbytes, self.stream)
        self.kept += [values, memory]
        return DeviceView(memory.pointer, values.shape, values.strides, values.dtype, self.device.number, memory)

    def _same_device(self, name: str, view: DeviceView) -> DeviceView:
        if view.device != self.device.number:
            raise DeviceError(
                f"{self.function.name}: {name} is on device {view.device}, the first array on device "
                f"{self.device.number}; all arrays of a call must be on one device"
            )
        return view

    def outputs(
        self, out: Any, batch: Shape, sizes: dict[str, int], views: list[DeviceView]
    ) -> tuple[list[Any], list[DeviceView]]:
        """The arrays of the results and where they are; inputs that they overlap are replaced by copies."""
        buffers = self.function._outputs
        given = list(as_tuple(out)) if out is not None else []
        wanted = len(self.function.outputs)
        if given and len(given) != wanted:
            raise ShapeError(f"{self.function.name}: out has {len(given)} arrays, the function {wanted} results")
        columns = _in_columns(views, batch, self.function._inputs)
        for b in buffers[len(given) :]:
            shape = self.shape(b, batch, sizes)
            number = self.device.number
            given.append(arrays.empty_like(self.leader, shape, len(b.shape), self.dtype(b), number, columns))
        targets = []
        for b, array in zip(buffers, given, strict=True):
            view = self._same_device(f"out {b.name}", self._view(f"out {b.name}", array, b))
            if view.shape != self.shape(b, batch, sizes):
                raise ShapeError(
                    f"{self.function.name}: out has shape {view.shape}, expected {self.shape(b, batch, sizes)} "
                    f"({b.name} is {expected_shape(b)})"
                )
            targets.append(view)
        if out is not None:
            self._avoid_overlap(views, targets)
        return given, targets

    def _avoid_overlap(self, views: list[DeviceView], targets: Sequence[DeviceView]) -> None:
        for i, view in enumerate(views):
            if any(arrays.overlap(view, target) for target in targets):
                name = self.function.inputs[i]
                copy = arrays.copy_of(view.owner)
                if copy is None:
                    raise DeviceError(f"{self.function.name}: out overlaps the input {name}; give it memory of its own")
                views[i] = self._view(name, copy, None)

    def finish(self) -> None:
        """Wait where an array's owner cannot: JAX, and memory that may be freed as soon as this call is over."""
        if any(isinstance(x, driver.DeviceMemory) or arrays.library_of(x) in ("jax", "dlpack") for x in self.kept):
            self.device.synchronize(self.stream)


def _batch_strides(buffer: Buffer, view: DeviceView, batch: Shape) -> Shape:
    """Bytes from state to state along every batch dimension; 0 where the array is broadcast."""
    own = len(view.shape) - len(buffer.shape)
    pairs = zip(view.shape[:own], view.strides[:own], strict=True)
    return (0,) * (len(batch) - own) + tuple(0 if n == 1 else s for n, s in pairs)


@lru_cache(maxsize=256)
def merge_dimensions(steps: tuple[Shape, ...], batch: Shape) -> tuple[list[int], list[list[int]]]:
    """The batch as few dimensions as all arrays allow: their sizes, and the steps of every array along them."""
    counts: list[int] = [1]
    found: list[list[int]] = [[0] for _ in steps]
    for axis, size in reversed(list(enumerate(batch))):
        if size == 1:
            continue
        here = [s[axis] for s in steps]
        if counts[0] == 1:
            counts[0] = size
            for array, step in zip(found, here, strict=True):
                array[0] = step
        elif all(step == array[0] * counts[0] for array, step in zip(found, here, strict=True)):
            counts[0] *= size
        else:
            counts.insert(0, size)
            for array, step in zip(found, here, strict=True):
                array.insert(0, step)
    return counts, found


def _in_columns(views: Sequence[DeviceView], batch: Shape, buffers: Sequence[Buffer]) -> bool:
    """Whether neighbouring states are neighbours in memory in the first input that has a whole batch of vectors."""
    for view, b in zip(views, buffers, strict=True):
        own = len(view.shape) - len(b.shape)
        if b.shape and own and view.shape[:own] == batch and view.shape[own - 1] > 1:
            return view.strides[own - 1] == view.dtype.itemsize and view.shape[-1] > 1
    return False


# --- a program on its way to a GPU: PTX from the cache or the emitter, one module per device --------------------------


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

    def load(self, device: driver.Device, rows: bool = False) -> _Loaded:
        """The module on a device."""
        with self._lock:
            if (device.number, rows) not in self._on:
                self._on[device.number, rows] = _Loaded(self, device, rows)
            return self._on[device.number, rows]

    def launch(
        self, device: driver.Device, states: int, arrays: Sequence[Sequence[int]], sizes: Mapping[str, int], stream: int
    ) -> None:
        """Start the kernel. Each array is its address, the step from state to state and its strides, in bytes."""
        self.load(device, _by_rows(arrays)).launch(states, arrays, sizes, stream)


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
        self.work, self.states = start.work, start.states
        self.module = driver.Module(device, image, ptx_target.KERNEL_SYMBOL, start.threads, start.shared)

    def launch(self, states: int, arrays: Sequence[Sequence[int]], sizes: Mapping[str, int], stream: int) -> None:
        """Start the kernel on the device; see :meth:`CudaKernel.launch`."""
        described, tables = [x for array in arrays for x in array], [memory.pointer for memory in self._memory]
        parameters = [states, *described, *[sizes[d] for d in self._names], *tables]
        blocks = -(-states // self.states)
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
