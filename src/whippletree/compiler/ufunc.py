"""A kernel as a real NumPy generalised ufunc: broadcasting, ``out=``, strides and casting are NumPy's own.

NumPy's C function ``PyUFunc_FromFuncAndDataAndSignature`` is reached through the table of pointers that NumPy exports
to extension modules. It is given one small native function, the dispatcher, and a control block:

    slot 0   the loop for one state
    slot 1   the loop for W states at a time
    slot 2   the loop that shares a batch among threads
    slot 3   from how many states on slot 2 is used
    slot 4…  pointers to the tables of the program

Slots 0 and 1 begin as trampolines into Python, which compile the variant, put its address into the slot, and run it.
So nothing is compiled before it is needed, and a call costs nothing extra afterwards.

NumPy refuses a core dimension of fixed size 0. Arrays with such a dimension are left out of the ufunc; the callable
above produces and checks them.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from string import Template
from typing import Any

import numpy as np

from whippletree.compiler import jit, threads
from whippletree.compiler.cache import Cache
from whippletree.compiler.kernel import FIRST_TABLE, Kernel
from whippletree.compiler.native import address_of
from whippletree.compiler.program import Buffer
from whippletree.compiler.single import SingleCall

Loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
"""NumPy's inner loop (args, dimensions, steps, data); calling one releases the GIL."""

_ONE, _MANY, _SHARED, _THRESHOLD = range(4)
_NEVER = (1 << 63) - 1


class Engine:
    """A kernel's loops, its control block and its trampolines: everything that must live as long as the ufunc does."""

    def __init__(self, kernel: Kernel, thread_count: int) -> None:
        self.kernel = kernel
        buffers = [b for b in kernel.interface.buffers if b.role in ("input", "output") and not b.empty]
        self.inputs = [b for b in buffers if b.role == "input"]
        self.outputs = [b for b in buffers if b.role == "output"]
        self.control = (ctypes.c_uint64 * (FIRST_TABLE + len(kernel.tables)))()
        for number, table in enumerate(kernel.tables):
            self.control[FIRST_TABLE + number] = table.ctypes.data
        self._trampolines = [Loop(self._first_use(slot)) for slot in (_ONE, _MANY)] + [Loop(self._share)]
        for slot, trampoline in enumerate(self._trampolines):
            self.control[slot] = _address(trampoline)
        self.set_threads(thread_count)

    def set_threads(self, count: int) -> None:
        """Share large batches among that many threads."""
        self.threads = count
        self.control[_THRESHOLD] = (
            threads.smallest_shared_batch(self.kernel.interface.operations) if count > 1 else _NEVER
        )

    def prepare(self, states: int) -> None:
        """Compile what a call with that many states needs, here and now, so that an error has a place to go."""
        if states == 0:
            return
        slot = _ONE if states == 1 else _MANY
        self.control[slot] = self.kernel.loop(1 if slot == _ONE else self.kernel.width)

    # ---- called by machine code ----------------------------------------------------------------------------------

    def _first_use(self, slot: int) -> Callable[[int, int, int, int], None]:
        def compile_and_run(args: int, dimensions: int, steps: int, data: int) -> None:
            try:
                self.prepare(1 if slot == _ONE else 2)
            except BaseException:
                self._fill_with_nan(args, dimensions, steps)
                raise  # nobody can catch it here: ctypes hands it to sys.unraisablehook
            Loop(self.control[slot])(args, dimensions, steps, data)

        return compile_and_run

    def _share(self, args: int, dimensions: int, steps: int, data: int) -> None:
        try:
            self.prepare(2)
        except BaseException:
            self._fill_with_nan(args, dimensions, steps)
            raise
        arrays = self.inputs + self.outputs
        sizes = len({str(d) for b in arrays for d in b.shape})
        call = threads.Call(Loop(self.control[_MANY]), args, dimensions, steps, data, len(arrays), sizes)
        call.share(self.threads, self.kernel.width)

    def _fill_with_nan(self, args: int, dimensions: int, steps: int) -> None:
        """Mark every output of a call as failed."""
        arrays = self.inputs + self.outputs
        names = list(dict.fromkeys(str(d) for b in arrays for d in b.shape))
        places = (ctypes.c_int64 * len(arrays)).from_address(args)
        sizes = (ctypes.c_int64 * (1 + len(names))).from_address(dimensions)
        strides = (ctypes.c_int64 * (len(arrays) + sum(len(b.shape) for b in arrays))).from_address(steps)
        first = len(arrays)
        for number, b in enumerate(arrays):
            shape = [sizes[0], *(sizes[1 + names.index(str(d))] for d in b.shape)]
            step = [strides[number], *strides[first : first + len(b.shape)]]
            first += len(b.shape)
            if b.role == "output":
                for index in np.ndindex(*shape):
                    place = places[number] + sum(i * s for i, s in zip(index, step, strict=True))
                    self._element_type(b).from_address(place).value = -1 if b.integer else math.nan

    def _element_type(self, buffer: Buffer) -> Any:
        if buffer.integer:
            return ctypes.c_int64
        return ctypes.c_double if self.kernel.options.real == "double" else ctypes.c_float

    # ---- the ways in -------------------------------------------------------------------------------------------

    def single_call(self, general: Callable[..., Any]) -> SingleCall:
        """The shorter way in for single states; every other call goes to ``general``."""
        kernel = self.kernel
        loop, control = _dispatcher(kernel.cache), ctypes.addressof(self.control)
        return SingleCall(self.inputs, self.outputs, loop, control, general, kernel.options.dtype, kernel.cache)

    # ---- the ufunc -----------------------------------------------------------------------------------------------

    def make_ufunc(self) -> np.ufunc:
        """A ufunc that keeps this engine alive; the engine does not know it, so both can be freed."""
        name = self.kernel.interface.name.encode()
        signature = _signature(self.inputs, self.outputs).encode()
        real, whole = self.kernel.options.dtype.num, np.dtype(np.int64).num
        types = bytes(whole if b.integer else real for b in self.inputs + self.outputs)
        functions = (ctypes.c_void_p * 1)(_dispatcher(self.kernel.cache))
        data = (ctypes.c_void_p * 1)(ctypes.addressof(self.control))
        document = f"{self.kernel.interface.name}: compiled by whippletree".encode()
        ufunc: np.ufunc = _from_function_and_signature()(
            functions, data, types, 1, len(self.inputs), len(self.outputs), -1, name, document, 0, signature
        )
        _keep_alive(ufunc, (self, functions, data, types, name, document, signature))
        return ufunc


def _signature(inputs: list[Buffer], outputs: list[Buffer]) -> str:
    sides = [",".join(f"({','.join(map(str, b.shape))})" for b in side) for side in (inputs, outputs)]
    return "->".join(sides)


_immortal: list[Any] = []


def _keep_alive(ufunc: np.ufunc, needed: Any) -> None:
    """Tie the life of what the ufunc points to to the ufunc; older NumPy offers no place for it: then for ever."""
    try:
        ufunc._whippletree = needed  # type: ignore[attr-defined]
    except AttributeError:
        _immortal.append(needed)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _from_function_and_signature() -> Any:
    """PyUFunc_FromFuncAndDataAndSignature: entry 31 of NumPy's table of ufunc functions, the same since NumPy 1.0."""
    from importlib import import_module

    table_of_numpy = import_module("numpy._core._multiarray_umath")._UFUNC_API
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(table_of_numpy, None), ctypes.POINTER(ctypes.c_void_p))
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        *(ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p),
    )
    return kind(table[31])


# The flags that NumPy turns into warnings are left as they were found: a vector comparison with a NaN raises "invalid"
# where a scalar one does not, and what other threads raise is never seen. NaN and the status say what happened.
_KEEP_FLAGS = {
    "x86_64": (
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
        "%flags = alloca i32\n  call void @llvm.x86.sse.stmxcsr(ptr %flags)",
        "call void @llvm.x86.sse.ldmxcsr(ptr %flags)",
    ),
    "": (
        "declare i32 @fegetenv(ptr)\ndeclare i32 @fesetenv(ptr)",
        "%flags = alloca [16 x i64]\n  call i32 @fegetenv(ptr %flags)",
        "call i32 @fesetenv(ptr %flags)",
    ),
}

_DISPATCHER = Template(f"""
$declare
define void @dispatch(ptr %args, ptr %dimensions, ptr %steps, ptr %data) nounwind {{
  $save
  %states = load i64, ptr %dimensions
  %limit.p = getelementptr i64, ptr %data, i64 {_THRESHOLD}
  %limit = load i64, ptr %limit.p
  %many.p = getelementptr ptr, ptr %data, i64 {_MANY}
  %shared.p = getelementptr ptr, ptr %data, i64 {_SHARED}
  %one = icmp eq i64 %states, 1
  %large = icmp sge i64 %states, %limit
  %p0 = select i1 %large, ptr %shared.p, ptr %many.p
  %p = select i1 %one, ptr %data, ptr %p0
  %loop = load ptr, ptr %p
  call void %loop(ptr %args, ptr %dimensions, ptr %steps, ptr %data)
  $restore
  ret void
}}
""")


def _dispatcher(kept: Cache) -> int:
    """The address of the dispatcher, the same for all functions of this process."""
    declare, save, restore = _KEEP_FLAGS.get(jit.host().triple.partition("-")[0], _KEEP_FLAGS[""])
    return address_of("dispatch", _DISPATCHER.substitute(declare=declare, save=save, restore=restore), kept)
