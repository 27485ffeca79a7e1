"""Compiled functions as a user sees them: a thin callable over a NumPy generalised ufunc.

    a = forward_dynamics(q, v, tau)            # positional or by name, any batch shape, broadcast like NumPy
    a = forward_dynamics(q, v, tau, out=a)
    forward_dynamics.ufunc                     # the ufunc itself

The common path is one ``try`` around the ufunc (or, for a single state, around a native function that does without it,
:mod:`~whippletree.compiler.single`). Everything else (names, wrong shapes, other dtypes, a failed status)
is found out after NumPy has refused or the status is not zero, so that a good call does not pay for it. Inputs of other
libraries (xarray, pandas) become plain arrays first: some of them do not take such ufuncs, others take them wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from whippletree.compiler.cache import Cache, default_cache
from whippletree.compiler.kernel import Kernel, Options, Recipe
from whippletree.compiler.named import NamedFunction, Told, Wording, as_tuple
from whippletree.compiler.program import Program
from whippletree.compiler.shapes import check_shapes, convert
from whippletree.compiler.single import SingleCall, suits
from whippletree.compiler.threads import let_through, thread_count
from whippletree.compiler.ufunc import Engine
from whippletree.errors import ScalarError, ShapeError, WhippletreeError


def compile_function(
    source: Program | Recipe,
    *,
    dtype: Any = np.float64,
    threads: int | None = None,
    wording: Wording | None = None,
    width: int | None = None,
    level: int = 2,
    cache: Cache | None = None,
) -> CompiledFunction:
    """Compile a program for this machine; the work is done on the first call.

    Args:
        source: the program, or a recipe whose key spares building it when the cache knows it.
        dtype: float64 or float32, of all inputs and outputs.
        threads: how many threads share a large batch (default: WHIPPLETREE_THREADS, else every core).
        wording: what errors say.
        width: lanes of the vector variant (default: what the CPU has).
        level: effort of code generation, 0 to 3.
        cache: where object code is kept (default: see :mod:`whippletree.compiler.cache`).
    """
    kind = real_type(dtype)
    options = Options("double" if kind == np.float64 else "float", width, level)
    recipe = source if isinstance(source, Recipe) else Recipe.of(source)
    kernel = Kernel(recipe, options, cache if cache is not None else default_cache())
    return CompiledFunction(kernel, thread_count(threads), wording or Wording())


def real_type(dtype: Any) -> np.dtype[Any]:
    """float64 or float32; anything else is refused."""
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise ScalarError(f"dtype {kind} cannot be compiled: use float64 or float32")
    return kind


def _plain(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs that NumPy knows as they are, those of other libraries as arrays."""
    for x in inputs:
        if type(x) is not np.ndarray:  # rare: only then look closer
            return tuple(np.asarray(x) if hasattr(x, "__array__") and not isinstance(x, _NUMPY) else x for x in inputs)
    return inputs


_NUMPY = (np.ndarray, np.generic)


def _answering(ufunc: np.ufunc) -> Callable[..., Any]:
    """The same function, which answers a Ctrl-C afterwards; it does not know its owner, so that both can be freed."""

    def run(*inputs: Any, **named: Any) -> Any:
        results = ufunc(*_plain(inputs), **named)
        let_through()
        return results

    return run


class CompiledFunction(NamedFunction):
    __doc__ = Told(
        "A function of arrays, compiled for this machine on its first call; see :mod:`whippletree.compiler.functions`.",
        lambda function: function._wording.explanation,
    )
    __slots__ = ("_engine", "_general", "_last_status", "_run", "_single", "ufunc")

    def __init__(self, kernel: Kernel, threads: int, wording: Wording) -> None:
        self._single: SingleCall | None = None
        super().__init__(kernel.interface, wording)
        self._engine = Engine(kernel, threads)
        self.ufunc: np.ufunc | None = self._engine.make_ufunc() if self._engine.outputs else None
        self._general: Callable[..., Any] = self._first_call
        self._run = self._general

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64 or float32."""
        return self._engine.kernel.options.dtype

    @property
    def content(self) -> bytes:
        """What it computes, as a key that is equal for equal functions; not how it was compiled."""
        kernel = self._engine.kernel
        return kernel.content + str(kernel.options.dtype).encode()

    @property
    def status(self) -> Any:
        """The status of each state of the last call, 0 where all is well; None if there is none."""
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

    # ---- the ways to run -----------------------------------------------------------------------------------------

    def _first_call(self, *inputs: Any, out: Any = None) -> Any:
        """Compile what this call needs, so that an error is raised here; later calls skip this."""
        batch, _ = check_shapes(self.name, self._inputs, inputs, self._wording.hints)
        self._engine.prepare(math.prod(batch))
        if any(b.empty for b in self._inputs + self._outputs):
            self._general = self._run_with_empty_arrays
        elif self._status:
            self._general = self._run_with_status
        else:
            assert self.ufunc is not None
            self._general = _answering(self.ufunc)
        self._run = self._general
        if suits(self._inputs, self._outputs):
            self._single = self._engine.single_call(self._general)
            self._run = self._single.function
        return self._run(*inputs) if out is None else self._general(*inputs, out=out)

    def _run_with_status(self, *inputs: Any, out: Any = None) -> Any:
        """The last output is the status; it is not handed on."""
        assert self.ufunc is not None
        if out is None:
            results = self.ufunc(*_plain(inputs))
        else:
            results = self.ufunc(*_plain(inputs), out=(*as_tuple(out), None))
        let_through()
        return self._act_on_status(results, inputs)

    def _run_with_empty_arrays(self, *inputs: Any, out: Any = None) -> Any:
        """Some arrays have a dimension of size 0 and are not known to the ufunc: they are checked and made here."""
        batch, sizes = check_shapes(self.name, self._inputs, inputs, self._wording.hints)
        made: Iterator[Any] = iter(())
        if self.ufunc is not None:
            used = [x for x, b in zip(_plain(inputs), self._inputs, strict=True) if not b.empty]
            results = self.ufunc(*used)
            let_through()
            made = iter(results if isinstance(results, tuple) else (results,))
        every = []
        for b in self._outputs:
            shape = batch + tuple(sizes[d] if isinstance(d, str) else d for d in b.shape)
            value = np.empty(shape, self.dtype) if b.empty else np.broadcast_to(next(made), shape).copy()
            every.append(value[()])
        kept = self._act_on_status(every, inputs) if self._status else every[0] if len(every) == 1 else tuple(every)
        if out is None:
            return kept
        for target, value in zip(as_tuple(out), as_tuple(kept), strict=True):
            np.copyto(target, value)
        return out

    # ---- what a good call never needs ----------------------------------------------------------------------------

    def _recover(self, inputs: tuple[Any, ...], out: Any, error: TypeError | ValueError) -> Any:
        """NumPy refused the call: convert inputs of other dtypes and try again, or say what is wrong in our words."""
        if isinstance(error, WhippletreeError):
            raise error
        check_shapes(self.name, self._inputs, inputs, self._wording.hints)
        converted = convert(self.name, self._inputs, inputs, self.dtype)
        if isinstance(error, TypeError) and any(x is not y for x, y in zip(converted, inputs, strict=True)):
            return self._run(*converted) if out is None else self._general(*converted, out=out)
        if out is not None:
            shapes = ", ".join(str(np.shape(x)) for x in as_tuple(out))
            raise ShapeError(f"{self.name}: out has shape {shapes}, which does not fit the result ({error})") from error
        raise error
