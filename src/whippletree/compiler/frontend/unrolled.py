"""From a function of the catalogue to a kernel program for one model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from whippletree import functions
from whippletree.arithmetic import scalars
from whippletree.arithmetic.garbage import garbage_left_alone
from whippletree.arithmetic.trace import Straight, Trace, Traced, finish
from whippletree.compiler.frontend.limbs import MOST_ROTATIONS, Rotation, rotations, turning, with_twin_constants
from whippletree.compiler.program import Buffer, Loop, Program, straight_program
from whippletree.compiler.program.folding import Folding, fold_code
from whippletree.functions import Function
from whippletree.model import Model
from whippletree.model.parameters import find_parameter, with_parameters
from whippletree.tree.mechanism import Margin, Mechanism
from whippletree.tree.skeleton import Skeleton, skeleton

STATUS = "status"
"""Name of the output that tells which joint lacked inertia: 0 for none, else the joint's node plus one."""


Folds: TypeAlias = Literal["loops", "copies", "pairs"]


def traced_inputs(trace: Trace, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Independent variables for every input; a shape of () gives a scalar."""
    return {name: trace.inputs(*shape)[()] for name, shape in shapes.items()}


def traced_tree(model: Model, opened: Mapping[str, Any]) -> Skeleton:
    """The skeleton of a model with traced scalars in place of its open parameters."""
    return skeleton(with_parameters(model, opened) if opened else model)


def unrolled_program(
    model: Model,
    function: Function,
    names: Sequence[Any] = (),
    parameters: Sequence[str] = (),
    *,
    checked: bool = True,
    route: str | None = None,
    fold: Folds | None = None,
) -> Program:
    """Trace a function over the concrete bodies of a model: one block of straight-line code.

    ``checked`` adds a status output where only the state decides whether there is an answer. ``route``: how the block
    matrix of constraints is solved; None for the one that the model calls for. ``fold``: write limbs that are alike
    in the same way where that pays; ``"loops"`` does so once, in a loop, ``"copies"`` for each, with the same bits;
    ``"pairs"`` in a loop whose rounds are for two threads where limbs are two, else for each.
    """
    with garbage_left_alone():
        return _unrolled_program(model, _How(function, tuple(names), tuple(parameters), checked, route), fold)


def _unrolled_program(model: Model, how: _How, fold: Folds | None) -> Program:
    function = how.function
    if fold is not None and not how.parameters:
        tried = (_folding(model, how, rotation) for rotation in rotations(skeleton(model))[:MOST_ROTATIONS])
        folding = next((f for f in tried if f is not None), None)
        if folding is not None:
            return _folded(folding, function.name, fold)
    code = _straight(model, how, None)
    return straight_program(function.name, code.code, code.inputs, code.outputs)


def _folded(folding: Folding, name: str, fold: Folds) -> Program:
    if fold == "copies" or (fold == "pairs" and folding.plan.parts != PAIRED_LIMBS):
        return folding.straight_program(name)
    program = folding.program(name)
    if fold == "loops":
        return program
    loops = [statement for statement in program.body if isinstance(statement, Loop)]
    if any(len(loop.body) > 1 for loop in loops):  # a limb looks up what the other has
        return folding.straight_program(name)
    body = (replace(s, on_threads=True) if isinstance(s, Loop) else s for s in program.body)
    return replace(program, body=tuple(body))


PAIRED_LIMBS = 2
"""So many limbs are for pairs of threads."""


class _How(NamedTuple):
    """A function to trace, and how."""

    function: Function
    names: tuple[Any, ...]
    parameters: tuple[str, ...]
    checked: bool
    route: str | None


class _Traced(NamedTuple):
    """Straight-line code with the arrays that it reads and writes."""

    code: Straight
    inputs: list[Buffer]
    outputs: list[Buffer]


def _folding(model: Model, how: _How, rotation: Rotation) -> Folding | None:
    """The code of a function with its limbs folded; None if that does not pay."""
    traced = _straight(model, how, rotation)
    known = functions.sizes(model)
    inputs = [(shape, functions.resolve(shape, known)) for shape in how.function.inputs.values()]
    return fold_code(traced.code, traced.inputs, traced.outputs, turning(skeleton(model), rotation, inputs))


def _straight(model: Model, how: _How, rotation: Rotation | None) -> _Traced:
    """Trace a function; with a rotation, all limbs that take each other's places are written alike."""
    trace = Trace()
    function = how.function
    shapes = input_shapes(model, function, how.parameters)
    values = traced_inputs(trace, shapes)
    opened = {path: values.pop(path) for path in how.parameters}
    tree = traced_tree(model, opened)
    mechanism = Mechanism(tree if rotation is None else with_twin_constants(tree, rotation, trace), route=how.route)
    with np.errstate(all="ignore"):  # constants of a singular model divide by zero; the status below tells
        found = function.evaluate(mechanism, *how.names, *values.values())
    flat = [x for y in found.outputs for x in np.ravel(np.asarray(y, dtype=object))]
    buffers = [Buffer(name, "output", shape) for name, shape in output_shapes(model, function).items()]
    if how.checked and found.margins:
        status = traced_status(found.margins)
        flat = _nan_where_failed(flat, scalars.less(0, status))
        flat.append(status)
        buffers.append(Buffer(STATUS, "output", (), integer=True))
    inputs = [Buffer(name, "input", shape) for name, shape in shapes.items()]
    code = finish(trace, flat)
    trace.close()
    return _Traced(code, inputs, buffers)


def _nan_where_failed(outputs: Sequence[Any], failed: Any) -> list[Any]:
    """The outputs, NaN where the condition holds.

    By subtracting NaN or 0, which leaves every number as it is, bit for bit: LLVM needs minutes for hundreds of choices
    by one condition. The difference is a node as it stands, since −x − 0 as −(x + 0) would lose the sign of a zero.
    """
    nothing = scalars.select(failed, math.nan, 0)
    if not isinstance(nothing, Traced):  # the model itself is singular, or never is
        return [scalars.select(failed, math.nan, x) for x in outputs]
    return [
        x.trace.node(("sub", x.index, nothing.index)) if isinstance(x, Traced) else scalars.select(failed, math.nan, x)
        for x in outputs
    ]


def input_shapes(model: Model, function: Function, parameters: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Every input of a function for a model, open parameters last."""
    known = functions.sizes(model)
    shapes = {name: functions.resolve(shape, known) for name, shape in function.inputs.items()}
    return shapes | {path: find_parameter(model, path).shape for path in parameters}


def output_shapes(model: Model, function: Function) -> dict[str, tuple[int, ...]]:
    """Every output of a function for a model; one that shares its name with an input gets a suffix."""
    known = functions.sizes(model)
    names = [f"{name}_out" if name in function.inputs else name for name in function.outputs]
    return {n: functions.resolve(shape, known) for n, shape in zip(names, function.outputs.values(), strict=True)}


def traced_status(
    margins: Iterable[Margin], status: Any = 0, number: Callable[[int], Any] = lambda node: node + 1
) -> Any:
    """0 where every doubtful pivot is positive (or NaN, which speaks for itself), else a failing node plus one.

    ``status``: what is known of other pivots already. ``number``: what is said for a node. All pivots of a node are one
    question: whether the least of them is positive.
    """
    least: dict[int, Any] = {}
    for node, pivot in margins:
        low = least.setdefault(node, 1)
        if isinstance(pivot, Traced):
            least[node] = scalars.select(scalars.less(pivot, low), pivot, low)  # a NaN is not less than anything
        elif pivot <= 0:  # a pivot that no state changes: the model itself is singular
            least[node] = 0
    for node, low in least.items():
        status = scalars.select(scalars.less(0, low), status, number(node))
    return status
