"""Functions whose open parameters have been given: they are called as those of a finished model.

A design study compiles a model once with some numbers left open. Each design then is a :class:`Bound` of that code: the
same machine code with its own numbers, so nothing is compiled again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import Compiled
from whippletree.errors import NameLookupError, ShapeError, UnsupportedError
from whippletree.model import Model
from whippletree.model.input_checks import floats
from whippletree.model.parameters import find_parameter, require_physical, with_parameters

if TYPE_CHECKING:
    from whippletree.compiler.named_function import NamedFunction
    from whippletree.compiler.rollout.rollout import Plan
    from whippletree.compiler.rollout.step_space import Driven
    from whippletree.functions.registry import Function


class BoundFunction:
    """A compiled function that takes its last inputs, the open parameters, from elsewhere."""

    def __init__(self, function: NamedFunction, values: Mapping[str, Any]) -> None:
        self._function = function
        given = dict(values) | {f"d{path}": np.zeros_like(value) for path, value in values.items()}
        self.inputs = tuple(name for name in function.inputs if name not in given)
        self.name, self.outputs, self.fails = function.name, function.outputs, function.fails
        self._given = {name: given[name] for name in function.inputs if name in given}

    @property
    def status(self) -> Any:
        """Status of the last call, as :class:`~whippletree.compiler.named_function.NamedFunction` has it."""
        return self._function.status

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Evaluate; the parameters follow, or stand between, what is given here."""
        found = dict(zip(self.inputs, inputs)) | named | self._given
        if len(inputs) > len(self.inputs):
            raise TypeError(f"{self.name}: {len(inputs)} inputs were given; its inputs are {', '.join(self.inputs)}")
        return self._function(**found, out=out)

    def answer_plainly(self, *inputs: Any) -> Any | None:
        """See :meth:`whippletree.compiler.named_function.NamedFunction.answer_plainly`."""
        found = dict(zip(self.inputs, inputs, strict=True)) | self._given
        return self._function.answer_plainly(*[found[name] for name in self._function.inputs])


class Bound(Compiled):
    """The functions of one design, or of many side by side, by code that was compiled with its numbers left open."""

    def __init__(self, opened: Compiled, values: Mapping[str, Any], *, like: Model | None = None) -> None:
        """``values``: of every open parameter, of its own shape; or of many designs, with one more axis in front.

        A call of many designs takes as many states, one for each. ``like``: a model of their structure, where one is at
        hand; default: the first design's, whose structure then has to be found.

        Raises:
            ModelError: numbers that no body and no joint has.
            NameLookupError: an open parameter without a value, or a value of something else.
            ShapeError: values of other shapes.
        """
        for path in values:
            if path not in opened.parameters:
                raise NameLookupError("open parameter", path, opened.parameters)
        for path in opened.parameters:
            if path not in values:
                raise NameLookupError("value of the open parameter", path, values)
        shapes = {path: find_parameter(opened.model, path).shape for path in opened.parameters}
        self._values = {path: floats("parameters", path, values[path]) for path in opened.parameters}
        counts = {len(x) for path, x in self._values.items() if x.ndim > len(shapes[path])}
        for path, x in self._values.items():
            if x.shape[x.ndim - len(shapes[path]) :] != shapes[path] or x.ndim > len(shapes[path]) + 1:
                raise ShapeError(f"parameter {path!r} has shape {x.shape}, expected {shapes[path]} or (runs, …) of it")
        if len(counts) > 1:
            raise ShapeError(f"parameters of {' and '.join(map(str, sorted(counts)))} designs side by side")
        self.designs: int | None = next(iter(counts), None)
        if self.designs == 0:
            raise ShapeError(f"parameters of no design: {', '.join(self._values)} has no numbers")
        if like is None:
            require_physical(opened.model, self._values)
        if self.designs is not None:
            self._values = {p: np.broadcast_to(x, (self.designs, *shapes[p])) for p, x in self._values.items()}
        self._opened = opened
        super().__init__(like or self._model_of(0), opened.dtype, None, (), route=opened.route)

    def of(self, number: int) -> Bound:
        """These functions with one of many designs."""
        return self if self.designs is None else Bound(self._opened, {p: x[number] for p, x in self._values.items()})

    def at(self, numbers: Array) -> Bound:
        """Designs by number, side by side in that order, repeated as often as they are named."""
        if self.designs is None:
            return self
        return Bound(self._opened, {p: x[numbers] for p, x in self._values.items()}, like=self.model)

    def _model_of(self, number: int) -> Model:
        several = self.designs is not None
        numbers = {path: x[number] if several else x for path, x in self._values.items()}
        model = with_parameters(self._opened.model, numbers)
        return replace(model, origin=None)  # its numbers are plain: its own structure decides

    def _function(self, function: Function, names: tuple[Any, ...]) -> Any:
        return BoundFunction(self._opened._function(function, names), self._values)

    def rollout_function(self, plan: Plan) -> Any:
        """The roll-out of these designs."""
        return BoundFunction(self._opened.rollout_function(plan), self._values)

    def jvp(self, name: str, *names: Any) -> Any:
        """The derivative along a direction in which the parameters stay."""
        return BoundFunction(self._opened.jvp(name, *names), self._values)

    def vjp(self, name: str, *names: Any) -> NamedFunction:
        """Not offered: a gradient has entries for the parameters, too."""
        raise UnsupportedError(f"vjp of {name}: take it from the functions that leave the parameters open")

    @cached_property
    def contact_steps(self) -> NamedFunction:
        """Compiled for this design: the steps of a scene do not leave parameters open."""
        return self._of_this_design.contact_steps

    def driven_contact_steps(self, driven: Driven, *, world_only: bool = False) -> NamedFunction:
        """Contact steps under a traced controller, traced commands, or with dampers of a controller."""
        return self._of_this_design.driven_contact_steps(driven, world_only=world_only)

    @cached_property
    def _of_this_design(self) -> Compiled:
        return Compiled(self.model, self.dtype, None, (), route=self.route)

    def __reduce__(self) -> tuple[Any, ...]:
        return Bound, (self._opened, self._values)
