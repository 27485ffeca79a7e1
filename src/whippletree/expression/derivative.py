"""Differentiation of a trace: each rule once, used forwards (:func:`tangent`) and backwards (:func:`gradient`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whippletree import scalars
from whippletree.expression.traced import CONDITIONS, Trace, Traced


def _partials(trace: Trace, index: int) -> list[tuple[int, Any]]:
    """(operand, ∂node/∂operand) for every operand that the node depends on smoothly."""
    operation, *operands = trace.nodes[index]
    if operation in CONDITIONS or operation in ("input", "const"):
        return []
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
            slopes = [1 / x[1], -value / x[1]]
        case "sqrt":
            slopes = [1 / (2 * value)]
        case "sin":
            slopes = [x[0].cos()]
        case "cos":
            slopes = [-x[0].sin()]
        case "abs":
            slopes = [scalars.select(x[0] < 0, -1, 1)]
        case "atan2":
            square = x[0] * x[0] + x[1] * x[1]
            slopes = [x[1] / square, -x[0] / square]
        case "select":
            return [(operands[1], scalars.select(x[0], 1, 0)), (operands[2], scalars.select(x[0], 0, 1))]
        case _:
            raise AssertionError(f"no derivative rule for {operation}")
    return [(i, s) for i, s in zip(operands, slopes, strict=True) if trace.nodes[i][0] != "const"]


def tangent(outputs: Sequence[Any], inputs: Sequence[Traced], directions: Sequence[Any]) -> list[Any]:
    """ẏ = (∂y/∂x) ẋ: the derivative of the outputs along one direction, by one sweep forwards."""
    trace = inputs[0].trace
    last = max((y.index for y in outputs if isinstance(y, Traced)), default=-1)
    slope: dict[int, Any] = {x.index: d for x, d in zip(inputs, directions, strict=True)}
    for index in range(last + 1):
        if index not in slope:
            total: Any = 0
            for operand, partial in _partials(trace, index):
                moved = slope.get(operand, 0)
                if not (isinstance(moved, int) and moved == 0):
                    total = total + partial * moved
            slope[index] = total
    return [slope[y.index] if isinstance(y, Traced) else 0 for y in outputs]


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
        if index in stop or (isinstance(bar, int) and bar == 0):
            continue
        for operand, partial in _partials(trace, index):
            adjoint[operand] = adjoint.get(operand, 0) + bar * partial
    return [adjoint.get(x.index, 0) for x in inputs]
