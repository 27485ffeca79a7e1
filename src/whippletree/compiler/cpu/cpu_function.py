"""Compiled functions as a user sees them: a thin callable over a NumPy generalised ufunc.

    a = forward_dynamics(q, v, tau)            # positional or by name, any batch shape, broadcast like NumPy
    a = forward_dynamics(q, v, tau, out=a)
    forward_dynamics.ufunc                     # the ufunc itself

The common path is one ``try`` around the ufunc (or, for a single state, around a native function that does without it,
:mod:`~whippletree.compiler.cpu.fast_call`). Everything else (names, wrong shapes, other dtypes, a failed status)
is found out after NumPy has refused or the status is not zero, so that a good call does not pay for it. Inputs of other
libraries (xarray, pandas) become plain arrays first: some of them do not take such ufuncs, others take them wrongly.
Whatever a call needs is compiled before it enters machine code, and large calls are run in pieces
(:mod:`~whippletree.compiler.cpu.threads`): errors and Ctrl-C are raised in Python, where they can be.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.trace import Traced
from whippletree.compiler.call_shapes import check_out, check_shapes, convert, overlap, refuse_common_memory
from whippletree.compiler.cpu.fast_call import SingleCall, suits
from whippletree.compiler.cpu.python_call import PythonCall
from whippletree.compiler.cpu.threads import LargeCalls, run_all, thread_count
from whippletree.compiler.cpu.ufunc import Stoppable, UfuncEngine
from whippletree.compiler.llvm.kernel import Interface, Kernel, Options, Recipe
from whippletree.compiler.named_function import NamedFunction, ToldSignature, Wording, as_tuple
from whippletree.compiler.program import Buffer, Program
from whippletree.errors import ScalarError, WhippletreeError
from whippletree.files.cache import CodeCache, default_cache
from whippletree.model.input_checks import plain_input


def compile_function(
    source: Program | Recipe,
    *,
    dtype: Any = np.float64,
    threads: int | None = None,
    wording: Wording | None = None,
    width: int | None = None,
    level: int = 2,
    quick_above: float = float("inf"),
    cache: CodeCache | None = None,
) -> CompiledFunction:
    """Compile a program for this machine; the work is done on the first call.

    Args:
        source: the program, or a recipe whose key spares building it when the cache knows it.
        dtype: float64 or float32, of all inputs and outputs.
        threads: how many threads share a large batch (default: WHIPPLETREE_THREADS, else every core).
        wording: what errors say.
        width: lanes of the vector variant (default: what the CPU has).
        level: effort of code generation, 0 to 3.
        quick_above: operations beyond which that effort is 0: an answer sooner, at a third of the speed.
        cache: where object code is kept (default: see :mod:`whippletree.files.cache`).
    """
    kind = real_type(dtype)
    options = Options("double" if kind == np.float64 else "float", width, level, quick_above)
    recipe = source if isinstance(source, Recipe) else Recipe.of(source)
    kernel = Kernel(recipe, options, cache if cache is not None else default_cache())
    wording = wording or Wording()
    # one result is returned without a further call: that is most of what is asked for, in loops
    made = CompiledFunctionOfSeveral if len(wording.results) > 1 else CompiledFunction
    return made(kernel, thread_count(threads), wording)


def real_type(dtype: Any) -> np.dtype[Any]:
    """float64 or float32; anything else is refused."""
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise ScalarError(f"dtype {kind} cannot be compiled: use float64 or float32")
    return kind


def sparse_zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """An array of zeros in which little will be written: memory of its own that comes page by page.

    NumPy asks for pages of 2 MB, and the first number that is written in one clears all of it: 57 µs for a row of
    1.3 MB, where the pages of 4 kB that a step of a kitchen writes on take some 15.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < OWN_PAGES or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype)
    return np.ndarray(shape, dtype, mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


OWN_PAGES = 1 << 22
"""Bytes from which on NumPy asks for large pages."""


def _are_few(inputs: Sequence[Any], ranks: Sequence[tuple[int, bool]], few: int) -> bool:
    """Whether the inputs are plain arrays or floats of so few states that nobody waits for them.

    ``ranks``: dimensions of each input in a call with one state, and whether one of them comes with the call, as the
    number of time steps does: then all its numbers are counted, of which there are more. With one batch dimension at
    most, there are as many states as the largest batch has.
    """
    for x, (rank, sized) in zip(inputs, ranks):  # of equal length, which is not checked, for speed
        if type(x) is np.ndarray:
            if x.ndim > rank and (x.ndim > rank + 1 or x.shape[0] >= few):
                return False
            if sized and x.size >= few:
                return False
        elif type(x) is not float:
            return False
    return True


def _are_apart(inputs: Sequence[Any], out: Any) -> bool:
    """Whether it is plain that a single result shares no memory with an input: both own theirs, and are not one."""
    if type(out) is not np.ndarray or not out.flags.owndata:
        return False
    return not any(x is out or (type(x) is np.ndarray and not x.flags.owndata) for x in inputs)


def _have_batch(inputs: Sequence[Any], buffers: Sequence[Buffer]) -> bool:
    """Whether an input has dimensions beyond those of one state, and other than one state along them."""
    for x, buffer in zip(inputs, buffers):  # of equal length
        shape = x.shape if type(x) is np.ndarray else np.shape(x)
        if any(size != 1 for size in shape[: max(0, len(shape) - len(buffer.shape))]):
            return True
    return False


TRACED_OPERATIONS = 1500
"""Operations of a function up to which it becomes part of a controller that asks it and is traced. Every run traces its
controller: 0.8 ms for an arm's inverse dynamics (517 operations), which LLVM compiles once, in 0.1 s."""


class CompiledFunction(NamedFunction):
    __doc__ = ToldSignature(
        "A function of arrays, compiled for this machine on its first call; see :mod:`whippletree.compiler.cpu`.",
        lambda function: function._wording.explanation,
    )
    __slots__ = (
        "_engine",
        "_few",
        "_general",
        "_has_empty",
        "_large",
        "_last_status",
        "_ranks",
        "_run",
        "_single",
        "_ufunc",
        "_zeroed",
    )

    def __init__(self, kernel: Kernel, threads: int, wording: Wording) -> None:
        self._single: SingleCall | None = None
        super().__init__(kernel.interface, wording)
        self._engine = UfuncEngine(kernel)
        self._ufunc: np.ufunc | None = self._engine.make_ufunc() if self._engine.outputs else None
        if self._ufunc is not None:
            self._large = LargeCalls(self._engine, self._ufunc, threads)
            self._few = self._large.fewest
        self._ranks = [(len(b.shape), any(isinstance(d, str) for d in b.shape)) for b in self._engine.inputs]
        self._has_empty = any(b.empty for b in self._inputs + self._outputs)
        self._zeroed = any(b.zeroed for b in self._engine.outputs)
        """Whether some results hold zeros when machine code begins."""
        self._general: Callable[..., Any] = self._run_unprepared
        self._run = self._general

    @property
    def ufunc(self) -> np.ufunc | None:
        """The ufunc itself, on the calling thread; None if there are no results with numbers in them.

        Both of its variants are compiled when it is asked for: in the middle of NumPy's loop no error could be raised.
        An array given as ``out=`` must not be an input: NumPy makes no copy of one that is exactly the same.
        Results of which only what differs from zero is written must be given, too: :meth:`zeros_to_write_on`.
        """
        if self._ufunc is not None and not self._engine.complete:
            for states in (1, 2):
                self._engine.prepare(states)
            self._choose_ways()
        return self._ufunc

    @property
    def ufunc_of_one_state(self) -> np.ufunc | None:
        """The ufunc itself, for calls without a batch alone: its other variant may not have been compiled."""
        if self._ufunc is not None and not self._engine.is_prepared(1):
            self._engine.prepare(1)
            self._choose_ways()
        return self._ufunc

    def hand_over(self, name: str, callee: CompiledFunction) -> None:
        """Make a function the one that the program calls by a name; its code for many states is compiled if need be."""
        sized = [b.name for b in callee.interface.buffers if any(isinstance(d, str) for d in b.shape)]
        if callee.dtype != self.dtype or sized:
            raise ValueError(f"{self.name}: {callee.name} has another dtype, or arrays of no fixed size: {sized}")
        if not callee._engine.is_prepared(2):
            callee._engine.prepare(2)
            callee._choose_ways()
        self._engine.hand_over(name, callee._engine)

    def another(self) -> CompiledFunction:
        """A function with the same code, to which other functions can be handed over."""
        return CompiledFunction(self._engine.kernel, 1, self._wording)

    def hand_over_python(self, name: str, callee: PythonCall) -> None:
        """Make a function in Python the one that the program calls by a name."""
        self._engine.hand_over_python(name, callee)

    def call_interruptibly(self, *inputs: Any) -> Any:
        """The results for one state, from another thread: Ctrl-C ends a call at the next round of its loops."""
        self._engine.prepare(1)
        own, results = Stoppable(self._engine), []
        run_all([lambda: results.append(own.ufunc(*inputs))], 1, own.stop)
        return results[0]

    def zeros_to_write_on(self, batch: Sequence[int], sizes: Mapping[str, int]) -> list[Any]:
        """Results of the ufunc before it is called, for ``out=``: zeros where these must be there, None for the others.

        Args:
            batch: dimensions of the batch.
            sizes: of named dimensions.
        """
        shapes = [(*batch, *(sizes[d] if isinstance(d, str) else d for d in b.shape)) for b in self._engine.outputs]
        return [
            sparse_zeros(shape, self.dtype) if b.zeroed else None
            for b, shape in zip(self._engine.outputs, shapes, strict=True)
        ]

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64 or float32."""
        return self._engine.kernel.options.dtype

    @property
    def interface(self) -> Interface:
        """Facts of its program."""
        return self._engine.kernel.interface

    @property
    def content(self) -> bytes:
        """Content of the function, as a key that is equal for equal functions; not how it was compiled."""
        kernel = self._engine.kernel
        return kernel.content + str(kernel.options.dtype).encode()

    @property
    def status(self) -> Any:
        """The status of each state of the last call: 0 where all is well, −2 where Python had the answer to a singular
        state, more than 0 where there is none. None for functions that always have one."""
        if self._single is not None and self._status and self._single.was_used():
            self._last_status = np.int64(0)
        return self._last_status

    @status.setter
    def status(self, value: Any) -> None:
        self._last_status = value
        if self._single is not None:
            self._single.was_used()

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        if named or len(inputs) != self._arity:
            inputs = self._in_order(inputs, named)
        try:
            if out is None:
                return self._run(*inputs)
            return self._general(*inputs, out=out)
        except (TypeError, ValueError) as error:
            return self._recover(inputs, out, error)

    def answer_plainly(self, *inputs: Any) -> Any | None:
        if self._ufunc is None or self._has_empty or self._zeroed or self._wording.watch_every:
            return None
        if not _are_few(inputs, self._ranks, self._few):
            return None
        if not self._engine.is_prepared(2 if _have_batch(inputs, self._inputs) else 1):
            return None
        results = self._ufunc(*inputs)
        if not self._status:
            return results
        *found, status = results
        if status.any():
            return None
        return found[0] if len(found) == 1 else tuple(found)

    # ---- the ways to run -----------------------------------------------------------------------------------------

    def _run_unprepared(self, *inputs: Any, out: Any = None) -> Any:
        """The way in while a variant of the code is missing: if this call needs it, it is compiled here and now."""
        # arrays without numbers are not known to the code, nor are dimensions that only they have
        known: Sequence[Buffer] = self._inputs
        given: Sequence[Any] = inputs
        if self._has_empty:
            known = [b for b in self._inputs if not b.empty]
            given = [x for x, b in zip(inputs, self._inputs) if not b.empty]
        states = 2 if _have_batch(given, known) else 1
        first = not self._engine.is_prepared(states)
        if first:
            batch, sizes = check_shapes(self.name, self._inputs, inputs, self._wording.hints)
            if out is not None:
                check_out(self.name, self._results, out, batch, sizes, self.dtype)
            batch, _ = check_shapes(self.name, known, given, self._wording.hints)
            self._engine.prepare(math.prod(batch))
            self._choose_ways()
        results = self._prepared_way()(*inputs, out=out)
        if first or self._wording.watch_every:
            self._look_for_lost_digits(inputs, results)
        return results

    def _prepared_way(self) -> Callable[..., Any]:
        """The general way of calls whose code exists."""
        if self._has_empty:
            return self._run_with_empty_arrays
        return self._run_with_status if self._status else self._evaluate

    def _choose_ways(self) -> None:
        """The ways that calls take from now on."""
        if self._wording.watch_every:
            return  # all of them by the way in, which looks at results
        self._general = self._prepared_way() if self._engine.complete else self._run_unprepared
        self._run = self._general
        if self._engine.is_prepared(1) and suits(self._inputs, self._outputs):
            self._single = self._engine.single_call(self._general, self._large.longest)
            self._run = self._single.function

    def _run_with_status(self, *inputs: Any, out: Any = None) -> Any:
        """The last output is the status; it is not handed on."""
        if out is None and not self._zeroed and _are_few(inputs, self._ranks, self._few):
            assert self._ufunc is not None
            results = self._ufunc(*inputs)
        elif out is None:
            results = self._evaluate(*inputs)
        else:
            given = as_tuple(out)
            # a state without an answer is asked for again: its inputs must not have been overwritten
            if not _are_apart(inputs, out):
                written = [y for y in given if isinstance(y, np.ndarray)]
                inputs = tuple(
                    x.copy() if isinstance(x, np.ndarray) and any(overlap(x, y) for y in written) else x for x in inputs
                )
            results = self._evaluate(*inputs, out=(*given, None))
        return self._act_on_status(results, inputs)

    def _run_with_empty_arrays(self, *inputs: Any, out: Any = None) -> Any:
        """Some arrays have a dimension of size 0 and are not known to the ufunc: they are checked and made here."""
        batch, sizes = check_shapes(self.name, self._inputs, inputs, self._wording.hints)
        if out is not None:
            check_out(self.name, self._results, out, batch, sizes, self.dtype)
        made: Iterator[Any] = iter(())
        if self._ufunc is not None:
            results = self._evaluate(*[x for x, b in zip(inputs, self._inputs, strict=True) if not b.empty])
            made = iter(as_tuple(results))
        every = []
        for b in self._outputs:
            shape = batch + tuple(sizes[d] if isinstance(d, str) else d for d in b.shape)
            value = np.empty(shape, self.dtype) if b.empty else np.broadcast_to(next(made), shape).copy()
            every.append(value[()])
        kept = (
            self._act_on_status(tuple(every), inputs) if self._status else every[0] if len(every) == 1 else tuple(every)
        )
        if out is None:
            return kept
        for target, value in zip(as_tuple(out), as_tuple(kept), strict=True):
            if target is not None:
                np.copyto(target, value)
        return out

    def _evaluate(self, *inputs: Any, out: Any = None) -> Any:
        """All results, a status included, of the inputs that have numbers."""
        assert self._ufunc is not None
        if self._zeroed:
            inputs, out = self._on_zeros(inputs, out)
        if _are_few(inputs, self._ranks, self._few):
            if out is None:
                return self._ufunc(*inputs)
            given = as_tuple(out)
            if len(self._results) == 1 and len(given) == len(self._outputs) and _are_apart(inputs, given[0]):
                return self._ufunc(*inputs, out=given)
        return self._evaluate_with_care(inputs, out)

    def _on_zeros(self, inputs: Sequence[Any], out: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The inputs, and results that hold zeros where machine code begins with zeros: new ones, or those given."""
        batch, sizes = check_shapes(self.name, self._engine.inputs, inputs, self._wording.hints)
        if out is None:
            return tuple(inputs), tuple(self.zeros_to_write_on(batch, sizes))
        given = list(as_tuple(out))
        if all(y is None or isinstance(y, np.ndarray) for y in given):  # NumPy refuses anything else
            arrays = [plain_input(self.name, b.name, x) for b, x in zip(self._engine.inputs, inputs, strict=True)]
            inputs = self._apart(arrays, given)
            for i, (b, y) in enumerate(zip(self._engine.outputs, given, strict=False)):
                if b.zeroed and y is None:
                    given[i] = self.zeros_to_write_on(batch, sizes)[i]
                elif b.zeroed:
                    y.fill(0)
        return tuple(inputs), tuple(given)

    def _evaluate_with_care(self, inputs: Sequence[Any], out: Any) -> Any:
        """Large calls, inputs that are no plain arrays, and results that may lie where inputs do."""
        assert self._ufunc is not None
        known = self._engine.inputs
        arrays = [plain_input(self.name, b.name, x) for b, x in zip(known, inputs, strict=True)]
        written = None if out is None else as_tuple(out)
        if written is not None:
            arrays = self._apart(arrays, written)
        fits = written is None or len(written) == len(self._engine.outputs)
        if fits and _are_few(arrays, self._ranks, self._few):
            return self._ufunc(*arrays) if written is None else self._ufunc(*arrays, out=written)
        batch, sizes = check_shapes(self.name, known, arrays, self._wording.hints)
        if written is not None and not fits:
            check_out(self.name, self._results, written[: len(written) - self._status], batch, sizes, self.dtype)
        return self._large.run(arrays, written, batch, sizes)

    def _apart(self, arrays: Sequence[Any], written: Sequence[Any]) -> list[Any]:
        """The inputs, copied where a result is to be written to their memory.

        NumPy makes such copies, but not where an input and a result are exactly the same: that would be good enough for
        a function that works number by number.
        """
        targets = [y for y in written if isinstance(y, np.ndarray)]
        if len(targets) > 1:
            refuse_common_memory(self.name, self._engine.outputs, written)
        return [x.copy() if any(overlap(x, y) for y in targets) else x for x in arrays]

    # ---- what a good call never needs ----------------------------------------------------------------------------

    def _is_traced_with(self, inputs: tuple[Any, ...]) -> bool:
        """Whether these are traced scalars, and the function is short enough to become part of what is traced."""
        return self.interface.operations <= TRACED_OPERATIONS and any(_holds_traced(x) for x in inputs)

    def _recover(self, inputs: tuple[Any, ...], out: Any, error: TypeError | ValueError) -> Any:
        """NumPy refused the call: answer on traced scalars, convert inputs of other dtypes and try again, or say in our
        words what is wrong."""
        if out is None and self._wording.on_traced is not None and self._is_traced_with(inputs):
            found = [scalar_array(x) if np.ndim(x) else np.asarray(x)[()] for x in self._wording.on_traced(*inputs)]
            return found[0] if len(found) == 1 else tuple(found)
        if isinstance(error, WhippletreeError):
            raise error
        batch, sizes = check_shapes(self.name, self._inputs, inputs, self._wording.hints)
        converted = convert(self.name, self._inputs, inputs, self.dtype)
        if out is not None:
            check_out(self.name, self._results, out, batch, sizes, self.dtype)
        if isinstance(error, TypeError) and any(x is not y for x, y in zip(converted, inputs, strict=True)):
            return self._run(*converted) if out is None else self._general(*converted, out=out)
        raise error


def _holds_traced(value: Any) -> bool:
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return False
    return array.dtype == object and any(isinstance(x, Traced) for x in array.flat)


class CompiledFunctionOfSeveral(CompiledFunction):
    __doc__ = ToldSignature(
        "A compiled function with several results, which it returns as a named tuple.",
        lambda function: function._wording.explanation,
    )
    __slots__ = ()

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        if out is not None or named or len(inputs) != self._arity:
            return self._name_results(super().__call__(*inputs, out=out, **named))
        # plain calls once more, without a call in between: that would cost a quarter of a microsecond
        try:
            return self._name_results(self._run(*inputs))
        except (TypeError, ValueError) as error:
            return self._name_results(self._recover(inputs, out, error))
