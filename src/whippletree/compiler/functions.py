"""Compiled functions as a user sees them: a thin callable over a NumPy generalised ufunc.

    a = forward_dynamics(q, v, tau)            # positional or by name, any batch shape, broadcast like NumPy
    a = forward_dynamics(q, v, tau, out=a)
    forward_dynamics.ufunc                     # the ufunc itself

The common path is one ``try`` around the ufunc. Everything else (names, wrong shapes, other dtypes, a failed status) is found out
after NumPy has refused or the status is not zero, so that a good call does not pay for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whippletree.compiler.cache import Cache, default_cache
from whippletree.compiler.kernel import Kernel, Options, Recipe
from whippletree.compiler.program import Buffer, Program
from whippletree.compiler.shapes import batch_shape, explain_shapes
from whippletree.compiler.threads import thread_count
from whippletree.compiler.ufunc import Engine, takes_part
from whippletree.errors import ScalarError, SingularSystemError

Array = np.ndarray[Any, Any]


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
    status: str | None = None,
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
        status: name of the integer output that tells failure per state; it is not returned but acted upon.
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
    return CompiledFunction(kernel, thread_count(threads), wording or Wording(), status)


class CompiledFunction:
    """A function of arrays compiled for this machine. Call it; see :mod:`whippletree.compiler.functions`."""

    __slots__ = (
        "__doc__", "_all_inputs", "_all_outputs", "_call", "_engine", "_ready", "_status_name", "_warned", "_wording",
        "name", "status", "ufunc",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, threads: int, wording: Wording, status: str | None) -> None:
        buffers = kernel.interface.buffers
        self.name = kernel.interface.name
        self._all_inputs = [b for b in buffers if b.role == "input"]
        self._all_outputs = [b for b in buffers if b.role == "output"]
        self._wording = wording
        self._status_name = status
        self._warned = False
        self._ready = False
        self.status: Any = None
        self._engine = Engine(kernel, threads)
        self.ufunc: np.ufunc | None = self._engine.make_ufunc() if self._engine.outputs else None
        whole = all(map(takes_part, self._all_inputs + self._all_outputs))
        plain = whole and status is None
        self._call: Callable[..., Any] = self.ufunc if plain and self.ufunc else self._general
        self.__doc__ = f"{self.name}{tuple(self.inputs)} -> {tuple(self.outputs)}"
