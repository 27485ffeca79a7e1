"""Compiled elementary functions: what their tests share."""

from __future__ import annotations

import mpmath
import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, straight_program
from whippletree.files.cache import CodeCache

DTYPES = [np.float64, np.float32]
BITS = {np.float64: np.uint64, np.float32: np.uint32}


def compiled(function, inputs, dtype, width=None, level=2):
    """A function of traced scalars as machine code: x (..., inputs) to (..., outputs)."""
    trace = Trace()
    x = trace.inputs(inputs)
    outputs = function(*x)
    program = straight_program(
        "f",
        finish(trace, outputs),
        [Buffer("x", "input", (inputs,))],
        [Buffer("y", "output", (len(outputs),))],
    )
    return compile_function(program, dtype=dtype, width=width, level=level, threads=1, cache=CodeCache(None))


def errors_in_ulps(found, exact, dtype):
    """|found − exact| in units of the last place of the exact value."""
    # divided before it becomes a float, which has no number between 0 and the smallest unit in the last place
    spacing = [mpmath.mpf(float(np.spacing(abs(dtype(float(e)))))) for e in exact]
    pairs = zip(found, exact, spacing, strict=True)
    return np.array([float(abs(mpmath.mpf(float(f)) - e) / unit) for f, e, unit in pairs])


def elementary_program():
    """exp, log, tanh, power and the larger of two numbers, as a program x (2,) to y (5,)."""
    trace = Trace()
    x, y = trace.inputs(2)
    values = [scalars.exp(x), scalars.log(y), scalars.tanh(x), scalars.power(y, x), scalars.maximum(x, y)]
    return straight_program(
        "elementary", finish(trace, values), [Buffer("x", "input", (2,))], [Buffer("y", "output", (5,))]
    )
