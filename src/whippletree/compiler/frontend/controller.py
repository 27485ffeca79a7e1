"""A user's controller, traced: plain NumPy code on the library's scalars, so that it runs inside a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.trace import Trace, finish
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


def _compare(function: NamedFunction, controller: Any, t: float, q: Array, v: Array) -> None:
    expected = np.asarray(controller(t, q, v), dtype=float)
    with np.errstate(all="ignore"):
        difference = np.abs(function(t, q, v) - expected)
    if np.any(difference > AGREEMENT * (1 + np.abs(expected).max(initial=0.0))):
        raise NotTraceable(
            f"at t = {t:g} it says something else in Python: it has a memory, or depends on chance or on the clock"
        )
