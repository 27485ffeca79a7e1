"""One state at a time, past NumPy's machinery: a call of a gufunc on a single state costs a microsecond, this a third.

NumPy spends that time on broadcasting, casting and iterators that one state does not need. So the callable first tries
a small native function. It looks at its arguments: plain float64 (or float32) arrays, of exactly the core shape, of
which one size may come with the call. If all fit, it makes the results, runs the same loop as the ufunc would, and
returns; the bits are the same. Anything else (a batch, a list, another dtype, a subclass, a status that is not zero) is
handed to the general way, untouched.

A size that comes with the call is the number of steps of a roll-out. One of a humanoid in contact waits 7 µs for its
first step, the general way 40, and where other code ran before and the processor has forgotten both, 80 and 210.

Native code reads the public fields of NumPy's arrays and Python's floats. :func:`is_supported` compares them with what
Python says of an array before they are ever relied upon.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from enum import IntEnum, auto
from functools import cache
from importlib import import_module
from string import Template
from typing import Any

import numpy as np

from whippletree.compiler.llvm.kernel import address_of
from whippletree.compiler.program import Buffer
from whippletree.files.cache import CodeCache


class SingleCall:
    """The native function of one compiled function; ``function`` is what to call.

    Args:
        inputs, outputs: the arrays of the call; a status, if there is one, is the last output.
        loop: address of the loop, with NumPy's signature; ``control`` its last argument.
        general: called with the same arguments whenever they are not plain single states.
        longest: the largest size of a dimension that comes with the call; what is longer is ``general``, too.
    """

    def __init__(
        self,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        loop: int,
        control: int,
        general: Callable[..., Any],
        dtype: np.dtype[Any],
        kept: CodeCache,
        longest: int,
    ) -> None:
        status = outputs[-1].integer
        results = outputs[:-1] if status else outputs
        arrays = [*inputs, *results]
        sizes = list(dict.fromkeys(d for b in [*inputs, *outputs] for d in b.shape))
        codes = {d: -place if isinstance(d, str) else d for place, d in enumerate(sizes, 1)}
        dimensions = np.array([1, *[UNKNOWN if isinstance(d, str) else d for d in sizes]], dtype=np.int64)
        layout = np.zeros(TableSlot.ARRAYS + PER_ARRAY * len(arrays), dtype=np.int64)
        layout[: TableSlot.ARRAYS] = [
            len(inputs), len(results), int(status), loop, control, id(general), id(dtype), dtype.num,
            dimensions.ctypes.data, len(dimensions), longest, 0,
        ]  # fmt: skip
        for number, b in enumerate(arrays):
            first = TableSlot.ARRAYS + PER_ARRAY * number
            layout[first : first + 2 + len(b.shape)] = [len(b.shape), int(b.zeroed), *[codes[d] for d in b.shape]]
        self._layout = layout
        method = _Method(b"single", native(kept), _FASTCALL, None)
        # the function owns all that it points to: it may still be running when nobody else knows it any more
        owned = layout, dimensions, general, dtype, method
        self.function: Callable[..., Any] = _new_function(ctypes.byref(method), owned, None)

    def was_used(self) -> bool:
        """Whether the native way was taken since this was asked last."""
        used, self._layout[TableSlot.USED] = bool(self._layout[TableSlot.USED]), 0
        return used


def suits(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> bool:
    """Whether single calls of a function with these arrays can take the native way."""
    arrays = [*inputs, *outputs]
    given, made = ({d for b in side for d in b.shape if isinstance(d, str)} for side in (inputs, outputs))
    return (
        bool(inputs)
        and bool(outputs)
        and not (outputs[-1].integer and len(outputs) == 1)
        and len(arrays) < MOST_ARRAYS
        and not any(b.integer for b in inputs)
        and all(_is_soon_cleared(b) for b in outputs if b.zeroed)
        and len(given) <= 1
        and made <= given
        and all(len(b.shape) <= MOST_DIMENSIONS and not b.empty for b in arrays)
        and is_supported()
    )


MOST_CLEARED = 1 << 18
"""Numbers of a result up to which all are cleared where machine code begins with zeros: 1.3 MB of a kitchen take 10 µs,
and the general way, which looks for pages that are clear, 35."""


def _is_soon_cleared(buffer: Buffer) -> bool:
    """Whether it takes longer to make zeros in another way than to write them."""
    return not any(isinstance(d, str) for d in buffer.shape) and len(buffer.shape) > 0 and buffer.size <= MOST_CLEARED


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


# --- The native function that runs one state past NumPy's machinery, as text ------------------------------------------
# It is written once, in LLVM IR, for all functions of the library: what differs is in a table of numbers, see
# :class:`TableSlot`. What it expects of Python and NumPy is in :mod:`~whippletree.compiler.cpu.fast_call`.


MOST_ARRAYS = 32
MOST_DIMENSIONS = 4

PER_ARRAY = 2 + MOST_DIMENSIONS
"""Entries of the table for an array: rank, whether it begins with zeros, and sizes. A size that comes with the call is
told by −i, its place i among the loop's dimensions."""

UNKNOWN = -1
"""Stands for such a size among the loop's dimensions until an array has told it."""


class TableSlot(IntEnum):
    """Where the table of a function holds what."""

    INPUTS = 0
    """How many, as for the outputs."""
    OUTPUTS = auto()
    STATUS = auto()
    """Whether a status follows the outputs."""
    LOOP = auto()
    """Address of NumPy's inner loop."""
    CONTROL = auto()
    """Its last argument."""
    GENERAL = auto()
    """The callable for everything else."""
    DESCRIPTOR = auto()
    """NumPy's dtype of all arrays."""
    TYPE_NUMBER = auto()
    DIMENSIONS = auto()
    """Address of the loop's dimensions."""
    SIZES = auto()
    """How many these are."""
    LONGEST = auto()
    """The largest size of one that comes with the call; 0 if there is none."""
    USED = auto()
    """Set by every call that takes the native way."""
    ARRAYS = auto()
    """The first of the numbers of the arrays."""


def native(kept: CodeCache) -> int:
    """The address of the native function, the same for all functions of this process."""
    return address_of("single", _text(), kept, interpreter())


def _text() -> str:
    return _FUNCTION.substitute(
        {slot.name.lower(): slot.value for slot in TableSlot},
        per_array=PER_ARRAY, most=MOST_ARRAYS, most_strides=MOST_ARRAYS * (1 + MOST_DIMENSIONS),
        most_sizes=1 + MOST_ARRAYS * MOST_DIMENSIONS, rank=MOST_DIMENSIONS,
        double_number=np.dtype(np.float64).num, aligned=ALIGNED,
        **{f"at_{field}": getattr(ArrayFields, field).offset for field, _ in ArrayFields._fields_},
    )  # fmt: skip


_FUNCTION = Template("""
@ndarray_type = external global i8
@float_type = external global i8
@float64_type = external global i8
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @memset(ptr, i32, i64)
declare ptr @PyArray_Return(ptr)
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)

define ptr @single(ptr %self, ptr %arguments, i64 %given) nounwind {
entry:
  %data = alloca [$most x ptr]
  %steps = alloca [$most_strides x i64]
  %results = alloca [$most x ptr]
  %sizes = alloca [$most_sizes x i64]
  %made.sizes = alloca [$rank x i64]
  %code = alloca i64
  ; an array, the first of what the function owns
  %owned = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %layout.p = getelementptr i8, ptr %owned, i64 $at_data
  %layout = load ptr, ptr %layout.p
  %inputs.p = getelementptr i64, ptr %layout, i64 $inputs
  %inputs = load i64, ptr %inputs.p
  %outputs.p = getelementptr i64, ptr %layout, i64 $outputs
  %outputs = load i64, ptr %outputs.p
  %status.p = getelementptr i64, ptr %layout, i64 $status
  %status = load i64, ptr %status.p
  %descriptor.p = getelementptr ptr, ptr %layout, i64 $descriptor
  %descriptor = load ptr, ptr %descriptor.p
  %number.p = getelementptr i64, ptr %layout, i64 $type_number
  %number = load i64, ptr %number.p
  %number32 = trunc i64 %number to i32
  %double = icmp eq i64 %number, $double_number
  %shapes = getelementptr i64, ptr %layout, i64 $arrays
  ; strides of core dimensions follow one step for each array, the status included
  %some = add i64 %inputs, %outputs
  %all = add i64 %some, %status
  %longest.p = getelementptr i64, ptr %layout, i64 $longest
  %longest = load i64, ptr %longest.p
  %dimensions.p = getelementptr ptr, ptr %layout, i64 $dimensions
  %dimensions = load ptr, ptr %dimensions.p
  %sizes.count.p = getelementptr i64, ptr %layout, i64 $sizes
  %sizes.count = load i64, ptr %sizes.count.p
  %complete = icmp eq i64 %given, %inputs
  br i1 %complete, label %dimension, label %general

dimension:
  ; those of this call: some sizes come with it
  %d = phi i64 [ 0, %entry ], [ %d.next, %dimension ]
  %d.from = getelementptr i64, ptr %dimensions, i64 %d
  %d.value = load i64, ptr %d.from
  %d.into = getelementptr i64, ptr %sizes, i64 %d
  store i64 %d.value, ptr %d.into
  %d.next = add i64 %d, 1
  %d.more = icmp slt i64 %d.next, %sizes.count
  br i1 %d.more, label %dimension, label %input

input:
  %i = phi i64 [ 0, %dimension ], [ %i.next, %input.end ]
  %place = phi i64 [ %all, %dimension ], [ %place.next, %input.end ]
  %shape.at = mul i64 %i, $per_array
  %shape = getelementptr i64, ptr %shapes, i64 %shape.at
  %rank = load i64, ptr %shape
  %slot = getelementptr ptr, ptr %data, i64 %i
  %argument.p = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument.p
  %kind.p = getelementptr i8, ptr %argument, i64 $at_kind
  %kind = load ptr, ptr %kind.p
  %is.array = icmp eq ptr %kind, @ndarray_type
  br i1 %is.array, label %array, label %maybe.float

maybe.float:
  %is.float = icmp eq ptr %kind, @float_type
  %is.float64 = icmp eq ptr %kind, @float64_type
  %any.float = or i1 %is.float, %is.float64
  %scalar = icmp eq i64 %rank, 0
  %float.fits = and i1 %any.float, %scalar
  %float.good = and i1 %float.fits, %double
  %value = getelementptr i8, ptr %argument, i64 16
  store ptr %value, ptr %slot
  br i1 %float.good, label %input.end, label %general

array:
  %descr.p = getelementptr i8, ptr %argument, i64 $at_descriptor
  %descr = load ptr, ptr %descr.p
  %descr.good = icmp eq ptr %descr, %descriptor
  %flags.p = getelementptr i8, ptr %argument, i64 $at_flags
  %flags = load i32, ptr %flags.p
  %aligned = and i32 %flags, $aligned
  %flags.good = icmp ne i32 %aligned, 0
  %nd.p = getelementptr i8, ptr %argument, i64 $at_rank
  %nd32 = load i32, ptr %nd.p
  %nd = sext i32 %nd32 to i64
  %nd.good = icmp eq i64 %nd, %rank
  %good.0 = and i1 %descr.good, %flags.good
  %good = and i1 %good.0, %nd.good
  br i1 %good, label %array.sizes, label %general

array.sizes:
  %dims.p = getelementptr i8, ptr %argument, i64 $at_dimensions
  %dims = load ptr, ptr %dims.p
  %strides.p = getelementptr i8, ptr %argument, i64 $at_strides
  %strides = load ptr, ptr %strides.p
  %bytes.p = getelementptr i8, ptr %argument, i64 $at_data
  %bytes = load ptr, ptr %bytes.p
  store ptr %bytes, ptr %slot
  br label %size

size:
  %j = phi i64 [ 0, %array.sizes ], [ %j.next, %size.good ]
  %j.more = icmp slt i64 %j, %rank
  br i1 %j.more, label %size.test, label %input.end

size.test:
  %j.next = add i64 %j, 1
  %wanted.at = add i64 %j, 2
  %wanted.p = getelementptr i64, ptr %shape, i64 %wanted.at
  %wanted = load i64, ptr %wanted.p
  %found.p = getelementptr i64, ptr %dims, i64 %j
  %found = load i64, ptr %found.p
  %named = icmp slt i64 %wanted, 0
  br i1 %named, label %size.named, label %size.fixed

size.fixed:
  %same = icmp eq i64 %wanted, %found
  br i1 %same, label %size.good, label %general

size.named:
  ; the first array that has it tells how large it is
  %known.at = sub i64 0, %wanted
  %known.p = getelementptr i64, ptr %sizes, i64 %known.at
  %known = load i64, ptr %known.p
  %is.new = icmp slt i64 %known, 0
  %expected = select i1 %is.new, i64 %found, i64 %known
  store i64 %expected, ptr %known.p
  %equal = icmp eq i64 %found, %expected
  %some.rounds = icmp sgt i64 %found, 0
  %short = icmp sle i64 %found, %longest
  %named.good.0 = and i1 %equal, %some.rounds
  %named.good = and i1 %named.good.0, %short
  br i1 %named.good, label %size.good, label %general

size.good:
  %stride.p = getelementptr i64, ptr %strides, i64 %j
  %stride = load i64, ptr %stride.p
  %step.at = add i64 %place, %j
  %step.p = getelementptr i64, ptr %steps, i64 %step.at
  store i64 %stride, ptr %step.p
  br label %size

input.end:
  %place.next = add i64 %place, %rank
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %inputs
  br i1 %i.more, label %input, label %output

output:
  %o = phi i64 [ 0, %input.end ], [ %o.next, %output.end ]
  %o.place = phi i64 [ %place.next, %input.end ], [ %o.place.next, %output.end ]
  %o.index = add i64 %inputs, %o
  %o.shape.at = mul i64 %o.index, $per_array
  %o.shape = getelementptr i64, ptr %shapes, i64 %o.shape.at
  %o.rank = load i64, ptr %o.shape
  %o.rank32 = trunc i64 %o.rank to i32
  br label %o.size

o.size:
  %m = phi i64 [ 0, %output ], [ %m.next, %o.size.test ]
  %m.more = icmp slt i64 %m, %o.rank
  br i1 %m.more, label %o.size.test, label %make

o.size.test:
  %m.next = add i64 %m, 1
  %m.told.at = add i64 %m, 2
  %m.p = getelementptr i64, ptr %o.shape, i64 %m.told.at
  %m.told = load i64, ptr %m.p
  %m.named = icmp slt i64 %m.told, 0
  %m.back = sub i64 0, %m.told
  %m.at = select i1 %m.named, i64 %m.back, i64 0
  %m.size.p = getelementptr i64, ptr %sizes, i64 %m.at
  %m.size = load i64, ptr %m.size.p
  %m.own = select i1 %m.named, i64 %m.size, i64 %m.told
  %m.into = getelementptr i64, ptr %made.sizes, i64 %m
  store i64 %m.own, ptr %m.into
  br label %o.size

make:
  %new = call ptr @PyArray_New(
    ptr @ndarray_type, i32 %o.rank32, ptr %made.sizes, i32 %number32, ptr null, ptr null, i32 0, i32 0, ptr null)
  %result.p = getelementptr ptr, ptr %results, i64 %o
  store ptr %new, ptr %result.p
  %missing = icmp eq ptr %new, null
  br i1 %missing, label %no.memory, label %made

no.memory:
  call void @release(ptr %results, i64 %o)
  ret ptr null

made:
  %o.bytes.p = getelementptr i8, ptr %new, i64 $at_data
  %o.bytes = load ptr, ptr %o.bytes.p
  %o.slot = getelementptr ptr, ptr %data, i64 %o.index
  store ptr %o.bytes, ptr %o.slot
  %o.strides.p = getelementptr i8, ptr %new, i64 $at_strides
  %o.strides = load ptr, ptr %o.strides.p
  %o.zeroed.p = getelementptr i64, ptr %o.shape, i64 1
  %o.zeroed = load i64, ptr %o.zeroed.p
  %o.clear = icmp ne i64 %o.zeroed, 0
  br i1 %o.clear, label %clear, label %o.strides.all

clear:
  ; rows of the first dimension fill the array
  %row.bytes = load i64, ptr %o.strides
  %rows = load i64, ptr %made.sizes
  %all.bytes = mul i64 %row.bytes, %rows
  call ptr @memset(ptr %o.bytes, i32 0, i64 %all.bytes)
  br label %o.strides.all

o.strides.all:
  br label %o.stride

o.stride:
  %n = phi i64 [ 0, %o.strides.all ], [ %n.next, %o.stride.copy ]
  %n.more = icmp slt i64 %n, %o.rank
  br i1 %n.more, label %o.stride.copy, label %output.end

o.stride.copy:
  %n.p = getelementptr i64, ptr %o.strides, i64 %n
  %n.stride = load i64, ptr %n.p
  %n.at = add i64 %o.place, %n
  %n.step = getelementptr i64, ptr %steps, i64 %n.at
  store i64 %n.stride, ptr %n.step
  %n.next = add i64 %n, 1
  br label %o.stride

output.end:
  %o.place.next = add i64 %o.place, %o.rank
  %o.next = add i64 %o, 1
  %o.more = icmp slt i64 %o.next, %outputs
  br i1 %o.more, label %output, label %steps.head

steps.head:
  ; from state to state: there is one only
  %s = phi i64 [ 0, %output.end ], [ %s.next, %steps.head ]
  %s.p = getelementptr i64, ptr %steps, i64 %s
  store i64 0, ptr %s.p
  %s.next = add i64 %s, 1
  %s.more = icmp slt i64 %s.next, %all
  br i1 %s.more, label %steps.head, label %run

run:
  store i64 0, ptr %code
  %code.slot = getelementptr ptr, ptr %data, i64 %some
  store ptr %code, ptr %code.slot
  %loop.p = getelementptr ptr, ptr %layout, i64 $loop
  %loop = load ptr, ptr %loop.p
  %control.p = getelementptr ptr, ptr %layout, i64 $control
  %control = load ptr, ptr %control.p
  ; rounds take their time, in which other threads may run
  %lasts = icmp sgt i64 %longest, 0
  br i1 %lasts, label %run.alone, label %run.here

run.alone:
  %thread = call ptr @PyEval_SaveThread()
  call void %loop(ptr %data, ptr %sizes, ptr %steps, ptr %control)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %ran

run.here:
  call void %loop(ptr %data, ptr %sizes, ptr %steps, ptr %control)
  br label %ran

ran:
  %failed.code = load i64, ptr %code
  %failed = icmp ne i64 %failed.code, 0
  br i1 %failed, label %again, label %hand.over

again:
  ; the general way finds the same status and knows what to do with it
  call void @release(ptr %results, i64 %outputs)
  br label %general

hand.over:
  %used.p = getelementptr i64, ptr %layout, i64 $used
  store i64 1, ptr %used.p
  %only = icmp eq i64 %outputs, 1
  br i1 %only, label %one, label %several

one:
  %first = load ptr, ptr %results
  %plain = call ptr @PyArray_Return(ptr %first)
  ret ptr %plain

several:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %tuple.missing = icmp eq ptr %tuple, null
  br i1 %tuple.missing, label %no.tuple, label %fill

no.tuple:
  call void @release(ptr %results, i64 %outputs)
  ret ptr null

fill:
  %t = phi i64 [ 0, %several ], [ %t.next, %fill ]
  %t.p = getelementptr ptr, ptr %results, i64 %t
  %t.array = load ptr, ptr %t.p
  %t.value = call ptr @PyArray_Return(ptr %t.array)
  call i32 @PyTuple_SetItem(ptr %tuple, i64 %t, ptr %t.value)
  %t.next = add i64 %t, 1
  %t.more = icmp slt i64 %t.next, %outputs
  br i1 %t.more, label %fill, label %filled

filled:
  ret ptr %tuple

general:
  %general.p = getelementptr ptr, ptr %layout, i64 $general
  %callable = load ptr, ptr %general.p
  %answer = call ptr @PyObject_Vectorcall(ptr %callable, ptr %arguments, i64 %given, ptr null)
  ret ptr %answer
}

define internal void @release(ptr %objects, i64 %count) nounwind {
entry:
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %p = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %p
  call void @Py_DecRef(ptr %object)
  %next = add i64 %i, 1
  br label %test
end:
  ret void
}
""")


# --- how Python and NumPy lay out their objects, as far as native code reads them -------------------------------------


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
def is_supported() -> bool:
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
    names = ["PyTuple_GetItem", "PyObject_Vectorcall", "PyTuple_New", "PyTuple_SetItem", "Py_DecRef"]
    names += ["PyEval_SaveThread", "PyEval_RestoreThread"]
    found = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names}
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = import_module("numpy._core._multiarray_umath")._ARRAY_API
    table = ctypes.cast(pointer(api, None), ctypes.POINTER(ctypes.c_void_p))
    # entries of NumPy's table of array functions, the same since NumPy 1.0
    found |= {"PyArray_Return": table[76] or 0, "PyArray_New": table[93] or 0}
    return found | {"ndarray_type": id(np.ndarray), "float_type": id(float), "float64_type": id(np.float64)}
