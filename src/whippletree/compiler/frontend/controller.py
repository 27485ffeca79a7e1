"""A user's controller, traced: plain NumPy code on the library's scalars, so that it runs inside a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.trace import Trace, evaluate, finish, tangent
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Buffer, straight_program
from whippletree.model import Model

AGREEMENT = 1e-9
"""How well, relative to its forces, a traced controller must repeat what it says in Python at sample states."""


class NotTraceable(Exception):
    """Why a controller cannot be compiled."""


def traced_controller(
    model: Model, controller: Callable[[Any, Any, Any], Any], samples: Sequence[tuple[float, Array, Array]]
) -> NamedFunction:
    """tau(t, q, v) as a compiled function.

    Args:
        model: whose forces it computes.
        controller: a function of (t, q, v) without memory, made of arithmetic, matrix products, NumPy's sin, cos, tan,
            sqrt, arctan, arctan2, exp, log, tanh, power, abs, sign, maximum, minimum, clip and where, and the functions
            of :mod:`whippletree.arithmetic.scalars`; a branch on a value cannot be traced.
        samples: states at which the compiled function is compared with the controller in Python.

    Raises:
        NotTraceable: with the reason.
    """
    return traced_function(model, controller, model.nv, samples)


class AffineForces:
    """τ = gains · (1, t, q, v), at one state or many: what constant forces, springs, dampers, regulators about a fixed
    pose and servos under fixed commands come to."""

    def __init__(self, gains: Array) -> None:
        """``gains`` (nv, 2 + nq + nv)."""
        self.gains = gains

    def __call__(self, t: Any, q: Array, v: Array) -> Array:
        """The forces (..., nv)."""
        time = np.broadcast_to(np.asarray(t, dtype=float), v.shape[:-1])[..., None]
        return np.concatenate([np.ones(time.shape), time, q, v], axis=-1) @ self.gains.T


def affine_forces(
    model: Model, controller: Callable[[Any, Any, Any], Any], samples: Sequence[tuple[float, Array, Array]]
) -> AffineForces | None:
    """A controller's forces as an affine function of (t, q, v), where its expressions show that they are one.

    ``samples``: states at which they are compared with the controller in Python.
    """
    trace = Trace()
    x = trace.inputs(1 + model.nq + model.nv)
    try:
        found = np.asarray(controller(x[0], *map(scalar_array, np.split(x[1:], [model.nq]))), dtype=object)
        if found.shape != (model.nv,):
            return None
        columns = [tangent(list(found), list(x), unit) for unit in np.eye(len(x), dtype=int).tolist()]
        slopes = finish(trace, [slope for column in columns for slope in column])
        if any(node[0] == "input" for node in slopes.nodes):
            return None  # a slope changes
        function = AffineForces(np.zeros((model.nv, 2 + model.nq + model.nv)))
        function.gains[:, 1:] = np.array(evaluate(slopes, []), dtype=float).reshape(len(x), model.nv).T
        t, q, v = samples[0]
        function.gains[:, 0] = np.asarray(controller(t, q, v), dtype=float) - function(t, q, v)
        for sample in samples:
            _compare(function, controller, *sample)
    except Exception:  # whatever it is, it is not this simple
        return None
    return function


def traced_function(
    model: Model, asked: Callable[[Any, Any, Any], Any], size: int, samples: Sequence[tuple[float, Array, Array]]
) -> NamedFunction:
    """A function of (t, q, v) with ``size`` numbers, such as commands of actuators, compiled.

    Raises:
        NotTraceable: with the reason.
    """
    trace = Trace()
    t = trace.input()
    q, v = (scalar_array(trace.inputs(count) if count else zeros(0)) for count in (model.nq, model.nv))
    try:
        found = np.asarray(asked(t, q, v), dtype=object)
    except Exception as error:  # whatever it is, plain numbers may still be fine
        raise NotTraceable(f"{type(error).__name__}: {error}") from error
    if found.shape != (size,):
        raise NotTraceable(f"it returned shape {found.shape} on traced scalars, expected ({size},)")
    inputs = [Buffer("t", "input", ()), Buffer("q", "input", (model.nq,)), Buffer("v", "input", (model.nv,))]
    try:
        code = finish(trace, list(found))
    except (TypeError, ValueError) as error:
        raise NotTraceable(f"it returned something that is no number: {error}") from error
    function = compile_function(straight_program("controller", code, inputs, [Buffer("tau", "output", (size,))]))
    for time, at, speed in samples:
        _compare(function, asked, time, at, speed)
    return function


def _compare(function: Callable[..., Any], controller: Any, t: float, q: Array, v: Array) -> None:
    expected = np.asarray(controller(t, q, v), dtype=float)
    with np.errstate(all="ignore"):
        difference = np.abs(function(t, q, v) - expected)
    if np.any(difference > AGREEMENT * (1 + np.abs(expected).max(initial=0.0))):
        raise NotTraceable(
            f"at t = {t:g} it says something else in Python: it has a memory, or depends on chance or on the clock"
        )
