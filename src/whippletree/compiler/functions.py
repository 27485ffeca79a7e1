"""Compiled functions as a user sees them: a thin callable over a NumPy generalised ufunc.

    a = forward_dynamics(q, v, tau)            # positional or by name, any batch shape, broadcast like NumPy
    a = forward_dynamics(q, v, tau, out=a)
    forward_dynamics.ufunc                     # the ufunc itself

The common path is one ``try`` around the ufunc. Everything else (names, wrong shapes, other dtypes, a failed status) is found out
after NumPy has refused or the status is not zero, so that a good call does not pay for it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whippletree.compiler.cache import Cache, default_cache
from whippletree.compiler.kernel import Kernel, Options, Recipe
from whippletree.compiler.program import Buffer, Program
from whippletree.compiler.shapes import check_shapes, convert
from whippletree.compiler.threads import thread_count
from whippletree.compiler.ufunc import Engine, takes_part
from whippletree.errors import ScalarError, ShapeError, SingularSystemError, WhippletreeError, did_you_mean

NO_MEMORY = -1
"""The status of a call that could not get its work space."""


@dataclass(frozen=True)
class Wording:
    """What errors say about a function: ``hints`` for inputs whose shape is wrong, ``failure`` for a status that is not zero."""

    hints: Mapping[str, str] = field(default_factory=dict)
    failure: Callable[[int, Mapping[str, Any]], str] | None = None


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
    kind = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise ScalarError(f"dtype {kind} cannot be compiled: use float64 or float32")
    options = Options("double" if kind == np.float64 else "float", width, level)
    recipe = source if isinstance(source, Recipe) else Recipe.of(source)
    kernel = Kernel(recipe, options, cache if cache is not None else default_cache())
    return CompiledFunction(kernel, thread_count(threads), wording or Wording())


class CompiledFunction:
    """A function of arrays, compiled for this machine on its first call; see :mod:`whippletree.compiler.functions`."""

    __slots__ = (
        "_arity", "_engine", "_inputs", "_outputs", "_run", "_status", "_warned", "_wording",
        "name", "status", "ufunc",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, threads: int, wording: Wording) -> None:
        buffers = kernel.interface.buffers
        self.name = kernel.interface.name
        self.status: Any = None
        self._inputs = [b for b in buffers if b.role == "input"]
        self._outputs = [b for b in buffers if b.role == "output"]
        self._arity = len(self._inputs)
        self._wording = wording
        # an integer at the end is a status per state: it is not returned but acted upon
        self._status = bool(self._outputs) and self._outputs[-1].integer
        self._warned = False
        self._engine = Engine(kernel, threads)
        self.ufunc: np.ufunc | None = self._engine.make_ufunc() if self._engine.outputs else None
        self._run: Callable[..., Any] = self._first_call

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in the order of a positional call."""
        return tuple(b.name for b in self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results, in order."""
        return tuple(b.name for b in (self._outputs[:-1] if self._status else self._outputs))

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64 or float32."""
        return self._engine.kernel.options.dtype

    def __repr__(self) -> str:
        return f"<compiled function {self.name}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}>"

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        if named or len(inputs) != self._arity:
            inputs = self._in_order(inputs, named)
        try:
            if out is None:
                return self._run(*inputs)
            return self._run(*inputs, out=out)
        except (TypeError, ValueError) as error:
            return self._recover(inputs, out, error)

    # ---- the ways to run -----------------------------------------------------------------------------------------

    def _first_call(self, *inputs: Any, out: Any = None) -> Any:
        """Compile what this call needs, so that an error is raised here; later calls skip this."""
        batch, _ = check_shapes(self.name, self._inputs, inputs, self._wording.hints)
        self._engine.prepare(math.prod(batch))
        if not all(map(takes_part, self._inputs + self._outputs)):
            self._run = self._run_with_empty_arrays
        elif self._status:
            self._run = self._run_with_status
        else:
            assert self.ufunc is not None
            self._run = self.ufunc
        return self._run(*inputs) if out is None else self._run(*inputs, out=out)

    def _run_with_status(self, *inputs: Any, out: Any = None) -> Any:
        """The last output is the status; it is not handed on."""
        assert self.ufunc is not None
        if out is None:
            results = self.ufunc(*inputs)
        else:
            results = self.ufunc(*inputs, out=(*_as_tuple(out), None))
        return self._act_on_status(results, inputs)

    def _act_on_status(self, results: Sequence[Any], inputs: Sequence[Any]) -> Any:
        status = self.status = results[-1]
        if type(status) is np.int64:
            if status:
                raise SingularSystemError(self._explain_failure(int(status), inputs))
        elif status.any():
            self._mark_failures(results, inputs)
        return results[0] if len(results) == 2 else results[:-1]

    def _mark_failures(self, results: Sequence[Any], inputs: Sequence[Any]) -> None:
        failed = results[-1] != 0
        for result in results[:-1]:
            result[failed] = np.nan
        if not self._warned:
            self._warned = True
            first = np.argwhere(failed)[0]
            place = tuple(int(i) for i in first)
            reason = self._explain_failure(int(results[-1][place]), inputs)
            warnings.warn(
                f"{int(failed.sum())} of {failed.size} states failed and are NaN in the result (status: {self.name}.status); "
                f"the first is {place}: {reason}",
                RuntimeWarning,
                stacklevel=5,
            )

    def _explain_failure(self, code: int, inputs: Sequence[Any]) -> str:
        if code == NO_MEMORY:
            return f"{self.name}: there is not enough memory for the work space of this call"
        explain = self._wording.failure
        return explain(code, dict(zip(self.inputs, inputs, strict=True))) if explain else f"{self.name}: status {code}"

    def _run_with_empty_arrays(self, *inputs: Any, out: Any = None) -> Any:
        """Some arrays have a dimension of size 0 and are not known to the ufunc: they are checked and made here."""
        batch, sizes = check_shapes(self.name, self._inputs, inputs, self._wording.hints)
        made: Iterator[Any] = iter(())
        if self.ufunc is not None:
            used = [x for x, b in zip(inputs, self._inputs, strict=True) if takes_part(b)]
            results = self.ufunc(*used)
            made = iter(results if isinstance(results, tuple) else (results,))
        every = []
        for b in self._outputs:
            shape = batch + tuple(sizes[d] if isinstance(d, str) else d for d in b.shape)
            value = np.broadcast_to(next(made), shape).copy() if takes_part(b) else np.empty(shape, self.dtype)
            every.append(value[()])
        kept = self._act_on_status(every, inputs) if self._status else every[0] if len(every) == 1 else tuple(every)
        if out is None:
            return kept
        for target, value in zip(_as_tuple(out), _as_tuple(kept), strict=True):
            np.copyto(target, value)
        return out

    # ---- what a good call never needs ----------------------------------------------------------------------------

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Positional and named inputs as one tuple."""
        names = self.inputs
        listed = f"its inputs are {', '.join(names)}"
        if len(inputs) > self._arity:
            raise TypeError(f"{self.name}: {len(inputs)} inputs were given; {listed}. An output array is given by out=.")
        found = dict(zip(names, inputs))
        for name, value in named.items():
            if name not in names:
                raise TypeError(f"{self.name}: there is no input {name!r}; {listed}{did_you_mean(name, names)}")
            if name in found:
                raise TypeError(f"{self.name}: {name} was given twice, by position and by name")
            found[name] = value
        missing = [name for name in names if name not in found]
        if missing:
            raise TypeError(f"{self.name}: {', '.join(missing)} not given; {listed}")
        return tuple(found[name] for name in names)

    def _recover(self, inputs: tuple[Any, ...], out: Any, error: TypeError | ValueError) -> Any:
        """NumPy refused the call: convert inputs of other dtypes and try again, or say what is wrong in our words."""
        if isinstance(error, WhippletreeError):
            raise error
        check_shapes(self.name, self._inputs, inputs, self._wording.hints)
        converted = convert(self.name, self._inputs, inputs, self.dtype)
        if isinstance(error, TypeError) and any(x is not y for x, y in zip(converted, inputs, strict=True)):
            return self._run(*converted) if out is None else self._run(*converted, out=out)
        if out is not None:
            shapes = ", ".join(str(np.shape(x)) for x in _as_tuple(out))
            raise ShapeError(f"{self.name}: out has shape {shapes}, which does not fit the result ({error})") from error
        raise error


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
