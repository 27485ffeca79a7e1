"""Differentiation of a trace: each rule once, used forwards (:func:`tangent`) and backwards (:func:`gradient`).

A selection is not a product with 0 or 1: it selects slopes, so that forwards a slope which is infinite on the side not
taken does no harm. Backwards it still meets a zero there; generic code guards its denominators on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whippletree.arithmetic import scalars
from whippletree.arithmetic.scalars import Table, is_zero
from whippletree.arithmetic.trace.traced import CONDITIONS, Trace, Traced

_CONSTANT = frozenset({"input", "const", *CONDITIONS})
"""Nodes that have no slopes by their operands."""


def _partials(trace: Trace, index: int) -> list[tuple[int, Any]]:
    """(operand, ∂node/∂operand) for every operand that the node, which is no selection, depends on smoothly."""
    operation, *operands = trace.nodes[index]
    x = [trace.node_at(i) for i in operands]
    value = trace.node_at(index)
    match operation:
        case "neg":
            slopes: list[Any] = [-1]
        case "add":
            slopes = [1, 1]
        case "sub":
            slopes = [1, -1]
        case "mul":
            slopes = [x[1], x[0]]
        case "div":
            # one division for both slopes and all directions: a division costs as much as ten products
            reciprocal = 1 / x[1]
            slopes = [reciprocal, -(value * reciprocal)]
        case "sqrt":
            slopes = [1 / (2 * value)]
        case "sin":
            slopes = [x[0].cos()]
        case "cos":
            slopes = [-x[0].sin()]
        case "abs":
            slopes = [scalars.select(x[0] < 0, -1, 1)]
        case "atan2":
            reciprocal = 1 / (x[0] * x[0] + x[1] * x[1])
            slopes = [x[1] * reciprocal, -(x[0] * reciprocal)]
        case "exp":
            slopes = [value]
        case "log":
            slopes = [1 / x[0]]
        case "tanh":
            slopes = [1 - value * value]
        case "pow":
            by_exponent = 0 if trace.nodes[operands[1]][0] == "const" else scalars.power_slope(x[0], value)
            slopes = [x[1] * scalars.power(x[0], x[1] - 1), by_exponent]
        case _:
            raise AssertionError(f"no derivative rule for {operation}")
    return [(i, s) for i, s in zip(operands, slopes, strict=True) if trace.nodes[i][0] != "const"]


def tangent(outputs: Sequence[Any], inputs: Sequence[Traced], directions: Sequence[Any]) -> list[Any]:
    """ẏ = (∂y/∂x) ẋ: the derivative of the outputs along one direction, by one sweep forwards."""
    trace = inputs[0].trace
    last = max((y.index for y in outputs if isinstance(y, Traced)), default=-1)
    slope: dict[int, Any] = {x.index: d for x, d in zip(inputs, directions, strict=True) if not is_zero(d)}
    fixed = {x.index for x in inputs}
    for index in range(last + 1):
        operation, *operands = trace.nodes[index]
        if index in fixed or _is_constant(operation) or not any(i in slope for i in operands):
            continue
        if operation == "select":
            condition, a, b = operands
            total = scalars.select(trace.node_at(condition), slope.get(a, 0), slope.get(b, 0))
        else:
            total = 0
            for operand, partial in _partials(trace, index):
                total = total + partial * slope.get(operand, 0)
        if not is_zero(total):
            slope[index] = total
    return [slope.get(y.index, 0) if isinstance(y, Traced) else 0 for y in outputs]


def gradient(outputs: Sequence[Any], seeds: Sequence[Any], inputs: Sequence[Traced]) -> list[Any]:
    """x̄ = (∂y/∂x)ᵀ ȳ: the gradient of the seeded outputs, by one sweep backwards."""
    trace = inputs[0].trace
    adjoint: dict[int, Any] = {}
    for y, seed in zip(outputs, seeds, strict=True):
        if isinstance(y, Traced):
            adjoint[y.index] = adjoint.get(y.index, 0) + seed
    stop = {x.index for x in inputs}
    for index in range(max(adjoint, default=-1), -1, -1):
        bar = adjoint.get(index, 0)
        operation, *operands = trace.nodes[index]
        if index in stop or _is_constant(operation) or is_zero(bar):
            continue
        if operation == "select":
            condition, a, b = operands
            given = trace.node_at(condition)
            shares = [(a, scalars.select(given, bar, 0)), (b, scalars.select(given, 0, bar))]
        else:
            shares = [(operand, bar * partial) for operand, partial in _partials(trace, index)]
        for operand, share in shares:
            adjoint[operand] = adjoint.get(operand, 0) + share
    return [adjoint.get(x.index, 0) for x in inputs]


def _is_constant(operation: str) -> bool:
    """Whether nodes of an operation have no slopes: a table is constant from entry to entry."""
    return operation in _CONSTANT or isinstance(operation, Table)
