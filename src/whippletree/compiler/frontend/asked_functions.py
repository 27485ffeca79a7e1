"""A function of a model as part of what is being traced, such as a controller that asks for its own inverse dynamics.

Its expressions are traced once. Into other traces they are copied node by node, in half the time or less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.trace import Straight, Trace, Traced
from whippletree.arithmetic.trace.passes import live
from whippletree.compiler.named_function import as_tuple
from whippletree.compiler.program.linearise import replay

Shapes: TypeAlias = tuple[tuple[int, ...], ...]


class AskedFunction:
    """A function on traced scalars."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        """``plain``: the function on any scalars."""
        self._plain = plain
        self._traced: dict[Shapes, tuple[Straight, Shapes]] = {}
        """Its expressions, and the shapes of its results, by the shapes of its inputs."""

    def __call__(self, *inputs: Any) -> list[Any]:
        """Results at inputs of which some are scalars of a trace."""
        arrays = [np.asarray(x, dtype=object) for x in inputs]
        trace = next(x.trace for array in arrays for x in array.flat if isinstance(x, Traced))
        given = [x if isinstance(x, Traced) else trace.constant(x) for array in arrays for x in array.flat]
        shapes = tuple(array.shape for array in arrays)
        if shapes not in self._traced:
            self._traced[shapes] = self._expressions(shapes)
        code, results = self._traced[shapes]
        found = np.empty(len(code.outputs), dtype=object)
        found[:] = replay(code, trace, given)
        ends = np.cumsum([int(np.prod(shape)) for shape in results])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(found, ends), results, strict=True)]

    def _expressions(self, shapes: Shapes) -> tuple[Straight, Shapes]:
        trace = Trace()
        results: list[Array] = [np.asarray(x) for x in as_tuple(self._plain(*[trace.inputs(*s) for s in shapes]))]
        outputs = [x.index if isinstance(x, Traced) else float(x) for result in results for x in result.flat]
        return live(Straight(trace.nodes, outputs)), tuple(result.shape for result in results)
