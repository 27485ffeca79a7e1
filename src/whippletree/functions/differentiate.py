"""Derivatives of any function of the catalogue, as functions of the same kind.

``jvp``: inputs x and directions ẋ, outputs (∂y/∂x) ẋ. ``vjp``: inputs x and seeds ȳ, outputs (∂y/∂x)ᵀ ȳ for each input.
Coordinates are differentiated in the tangent space: the direction of q and its gradient have nv entries, and q ⊕ δ is
what moves (for a quaternion joint, a rotation vector in the body's frame). Open parameters are differentiated like
inputs: ``jvp`` takes their directions, ``vjp`` returns their gradients, after those of the function's own inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from whippletree.arithmetic.arrays import Array, identity
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.arithmetic.trace import Traced, gradient
from whippletree.functions.registry import Derivative, Function, Shape
from whippletree.model.parameters import find_parameter, with_parameters
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

COORDINATES = ("q", "r")
"""Inputs that live on the configuration manifold."""


def derived_function(
    kind: Literal["jvp", "vjp"], function: Function, parameters: Mapping[str, tuple[int, ...]] | None = None
) -> Function:
    """The ``jvp`` or ``vjp`` of a function, as a new entry; ``parameters``: shapes of the open ones, by path."""
    entry, function = function, _with_parameters_as_inputs(function, parameters or {})
    own = {name: shape for name, shape in function.inputs.items() if name not in (parameters or {})}
    tangents: dict[str, Shape] = {
        name: ("nv",) if name in COORDINATES else shape for name, shape in function.inputs.items()
    }
    count = len(function.names)

    def jvp(m: Mechanism, *arguments: Any) -> Any:
        names, numbers = arguments[:count], arguments[count:]
        values = [*numbers[: len(own)], *_parameter_values(m, parameters or {})]
        return _push_forward(m, function, names, values, numbers[len(own) :])

    def vjp(m: Mechanism, *arguments: Any) -> Any:
        names, numbers = arguments[:count], arguments[count:]
        values = [*numbers[: len(own)], *_parameter_values(m, parameters or {})]
        return _pull_back(m, function, names, values, numbers[len(own) :])

    if kind == "jvp":
        inputs = own | {f"d{name}": shape for name, shape in tangents.items()}
        outputs = {f"d{name}": shape for name, shape in function.outputs.items()}
    else:
        inputs = own | {f"{name}_bar": shape for name, shape in function.outputs.items()}
        outputs = {f"{name}_bar": shape for name, shape in tangents.items()}
    return Function(
        f"{function.name}_{kind}",
        function.names,
        inputs,
        outputs,
        jvp if kind == "jvp" else vjp,
        loops=False,
        summary=f"The {kind} of {function.name}. {function.summary}",
        may_fail=function.may_fail,
        constraints=function.constraints,
        derivative=Derivative(kind, entry),
    )


def _with_parameters_as_inputs(function: Function, parameters: Mapping[str, tuple[int, ...]]) -> Function:
    """A function with open parameters as inputs at its end, from which it makes its own mechanism."""
    if not parameters:
        return function
    given = len(parameters)

    def implementation(m: Mechanism, *arguments: Any) -> Any:
        opened = dict(zip(parameters, arguments[-given:], strict=True))
        inner = Mechanism(skeleton(with_parameters(m.tree.model, opened)))
        found = function.evaluate(inner, *arguments[:-given])
        for number, value in found.margins:
            m.require(number, [value])
        return found.result

    return replace(function, inputs=function.inputs | dict(parameters), implementation=implementation)


def _parameter_values(m: Mechanism, parameters: Mapping[str, tuple[int, ...]]) -> list[Any]:
    """Values of the open parameters in this evaluation: numbers or traced scalars of the mechanism's model."""
    found = [np.asarray(find_parameter(m.tree.model, path).value, dtype=object) for path in parameters]
    return [value if value.ndim else value[()] for value in found]


def _push_forward(m: Mechanism, function: Function, names: Any, values: Any, directions: Any) -> tuple[Any, ...]:
    """One direction through the function, on dual numbers."""
    moving = []
    for name, value, direction in zip(function.inputs, values, directions, strict=True):
        moving.append(duals(value, m.manifold().rate(value, direction) if name in COORDINATES else direction))
    found = function.evaluate(m.apart(), *names, *moving)
    for number, value in found.margins:
        m.require(number, [value.value if isinstance(value, Dual) else value])
    return tuple(slopes(y) for y in found.outputs)


def _pull_back(m: Mechanism, function: Function, names: Any, values: Any, seeds: Any) -> tuple[Any, ...]:
    """Seeds back through the function: by the graph for traced scalars, else direction by direction."""
    flat = [x for value in values for x in np.ravel(np.asarray(value, dtype=object))]
    if flat and all(isinstance(x, Traced) for x in flat):
        outputs = [
            y for out in function.evaluate(m, *names, *values).outputs for y in np.ravel(np.asarray(out, dtype=object))
        ]
        bars = [s for seed in seeds for s in np.ravel(np.asarray(seed, dtype=object))]
        ends = np.cumsum([np.size(np.asarray(value, dtype=object)) for value in values])
        parts = np.split(np.array(gradient(outputs, bars, flat), dtype=object), ends[:-1])
        ambient = [part.reshape(np.shape(value))[()] for part, value in zip(parts, values, strict=True)]
        return tuple(
            _to_tangent(m, value, bar) if name in COORDINATES else bar
            for name, value, bar in zip(function.inputs, values, ambient, strict=True)
        )
    gradients = []
    for number, name in enumerate(function.inputs):
        size = m.tree.model.nv if name in COORDINATES else np.size(values[number])
        entries = []
        for e in identity(size):
            directions = [
                _direction(m, n, x, e if n == name else None) for n, x in zip(function.inputs, values, strict=True)
            ]
            moved = _push_forward(Mechanism(m.tree), function, names, values, directions)
            entries.append(sum(np.sum(np.asarray(s) * np.asarray(d)) for s, d in zip(seeds, moved, strict=True)))
        shape = (size,) if name in COORDINATES else np.shape(values[number])
        gradients.append(np.array(entries, dtype=object).reshape(shape))
    return tuple(gradients)


def _direction(m: Mechanism, name: str, value: Any, e: Array | None) -> Any:
    if e is not None:
        return e.reshape(np.shape(value)) if name not in COORDINATES else e
    return identity(m.tree.model.nv)[0] * 0 if name in COORDINATES else np.asarray(value, dtype=object) * 0


def _to_tangent(m: Mechanism, q: Array, bar: Array) -> Array:
    """N(q)ᵀ q̄: a gradient in coordinates as one in the tangent space."""
    return np.array([m.manifold().rate(q, e) @ bar for e in identity(m.tree.model.nv)], dtype=object)
