"""A kernel as a real NumPy generalised ufunc: broadcasting, ``out=``, strides and casting are NumPy's own.

NumPy's C function ``PyUFunc_FromFuncAndDataAndSignature`` is reached through the table of pointers that NumPy exports
to extension modules. It is given one small native function, the dispatcher, and a control block:

    slot 0   the loop for one state
    slot 1   the loop for W states at a time
    slot 2   a flag that makes loops over time end
    slot 3   the address of the cell of the memory that is kept between calls
    slot 4…  pointers to the tables of the program
    behind   the dispatcher and the control block of each function that the program calls

Both loops take any number of states and give the same bits; they differ in speed. So each is compiled when a call asks
for it, before the call enters machine code, and until then its slot holds the other one. Machine code calls back into
Python only where a program was handed a function in Python (:mod:`whippletree.compiler.cpu.python_call`).

NumPy refuses a core dimension of fixed size 0. Arrays with such a dimension are left out of the ufunc; the callable
above produces and checks them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from string import Template
from typing import Any, TypeAlias

import numpy as np

from whippletree.compiler.cpu.fast_call import SingleCall
from whippletree.compiler.cpu.kept_memory import keep_what_is_freed, kept_block
from whippletree.compiler.cpu.python_call import PythonCall
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.kernel import FIRST_TABLE, KEPT_CELL, STOP, Kernel, address_of
from whippletree.compiler.program import Buffer
from whippletree.errors import UnsupportedError
from whippletree.files.cache import CodeCache

_ONE, _MANY = range(2)

Control: TypeAlias = "ctypes.Array[ctypes.c_uint64]"


class UfuncEngine:
    """A kernel's loops and its control block, and the ufunc that runs them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        buffers = [b for b in kernel.interface.buffers if b.role in ("input", "output") and not b.empty]
        self.inputs = [b for b in buffers if b.role == "input"]
        self.outputs = [b for b in buffers if b.role == "output"]
        self._first_call = FIRST_TABLE + len(kernel.tables)
        self.control: Control = (ctypes.c_uint64 * (self._first_call + 2 * len(kernel.interface.calls)))()
        keep_what_is_freed()
        self._kept = kept_block(kernel.work_bytes)
        self.control[KEPT_CELL] = 0 if self._kept is None else self._kept.cell
        for number, table in enumerate(kernel.tables):
            self.control[FIRST_TABLE + number] = table.ctypes.data
        self._prepared: set[int] = set()
        self._called: dict[str, Any] = {}
        """What the functions that it calls need while they may run."""

    def hand_over(self, name: str, callee: UfuncEngine) -> None:
        """Make a function whose code exists the one that the program calls by a name."""
        slot = self._first_call + 2 * self.kernel.interface.calls.index(name)
        self.control[slot], self.control[slot + 1] = _dispatcher(callee.kernel.cache), ctypes.addressof(callee.control)
        self._called[name] = callee.memory

    def hand_over_python(self, name: str, callee: PythonCall) -> None:
        """Make a function in Python the one that the program calls by a name."""
        slot = self._first_call + 2 * self.kernel.interface.calls.index(name)
        self.control[slot], self.control[slot + 1] = callee.address, 0
        self._called[name] = callee

    @property
    def memory(self) -> tuple[Any, ...]:
        """Objects that its loops need while they may run."""
        return self.kernel.memory, self.control, self._called, self._kept

    def prepare(self, states: int) -> None:
        """Compile what a call with that many states needs, here and now, so that an error has a place to go."""
        if states == 0:
            return
        slot = _ONE if states == 1 else _MANY
        with jit.compiling():
            self.control[slot] = self.kernel.loop(1 if slot == _ONE else self.kernel.width)
            self._prepared.add(slot)
            for other in {_ONE, _MANY} - self._prepared:
                self.control[other] = self.control[slot]

    def is_prepared(self, states: int) -> bool:
        """Whether a call with that many states finds the code that is made for it."""
        return (_ONE if states == 1 else _MANY) in self._prepared

    @property
    def complete(self) -> bool:
        """Whether calls with any number of states do."""
        return len(self._prepared) == 2

    # ---- the ways in -------------------------------------------------------------------------------------------

    def single_call(self, general: Callable[..., Any], longest: int = 0) -> SingleCall:
        """The shorter way in for single states; every other call, or one with more rounds than the longest, goes to
        ``general``."""
        kernel = self.kernel
        loop, control = _dispatcher(kernel.cache), ctypes.addressof(self.control)
        return SingleCall(
            self.inputs, self.outputs, loop, control, general, kernel.options.dtype, kernel.cache, longest
        )

    # ---- the ufunc -----------------------------------------------------------------------------------------------

    def make_ufunc(self, control: Control | None = None) -> np.ufunc:
        """A ufunc that keeps alive what its loops read, and nothing that leads back to it.

        NumPy's ufuncs hide from the garbage collector what is tied to them: in a circle (the kernel can be built again,
        from a model's functions, which know the ufunc) nothing would ever be freed.
        """
        control = self.control if control is None else control
        name = self.kernel.interface.name.encode()
        signature = _signature(self.inputs, self.outputs).encode()
        real, whole = self.kernel.options.dtype.num, np.dtype(np.int64).num
        types = bytes(whole if b.integer else real for b in self.inputs + self.outputs)
        functions = (ctypes.c_void_p * 1)(_dispatcher(self.kernel.cache))
        data = (ctypes.c_void_p * 1)(ctypes.addressof(control))
        document = f"{self.kernel.interface.name}: compiled by whippletree".encode()
        counts = len(self.inputs), len(self.outputs)
        try:
            ufunc: np.ufunc = _from_function_and_signature()(
                functions, data, types, 1, *counts, -1, name, document, 0, signature
            )
        except ValueError as error:
            raise UnsupportedError(
                f"{self.kernel.interface.name}: {counts[0]} inputs and {counts[1]} outputs are more than a ufunc of "
                f"NumPy can have ({error}): leave fewer parameters open"
            ) from error
        _keep_alive(ufunc, (self.memory, control, functions, data, types, name, document, signature))
        return ufunc


class Stoppable:
    """A ufunc of its own, for one call at a time, whose loops over time can be ended from another thread."""

    def __init__(self, engine: UfuncEngine) -> None:
        self._engine = engine
        self._control: Control = type(engine.control)(*engine.control)
        self.ufunc = engine.make_ufunc(self._control)

    def renew(self) -> Stoppable:
        """Take the loops that have been compiled since."""
        for slot in (_ONE, _MANY):
            self._control[slot] = self._engine.control[slot]
        return self

    def stop(self) -> None:
        """Make a call that is under way return soon, with results that mean nothing; for good."""
        self._control[STOP] = 1


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
  %many.p = getelementptr ptr, ptr %data, i64 {_MANY}
  %one = icmp eq i64 %states, 1
  %p = select i1 %one, ptr %data, ptr %many.p
  %loop = load ptr, ptr %p
  call void %loop(ptr %args, ptr %dimensions, ptr %steps, ptr %data)
  $restore
  ret void
}}
""")


def _dispatcher(kept: CodeCache) -> int:
    """The address of the dispatcher, the same for all functions of this process."""
    declare, save, restore = _KEEP_FLAGS.get(jit.host().triple.partition("-")[0], _KEEP_FLAGS[""])
    return address_of("dispatch", _DISPATCHER.substitute(declare=declare, save=save, restore=restore), kept)
