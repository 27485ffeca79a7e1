"""What the CPU can do at most: independent fused multiply-adds and additions, as many as it can issue."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import alternating
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, straight_program

CHAINS, LENGTH = 12, 100
"""Independent chains hide the latency of an operation; their length hides loads and stores."""


def operations_per_second(batch: int = 4096) -> float:
    """Measured peak of additions and fused multiply-adds together, one thread, float64."""
    trace = Trace()
    x = trace.inputs(CHAINS)
    values = list(x)
    for step in range(LENGTH):
        for i in range(CHAINS):
            # half of the chains only add, half only multiply and add: Zen cores do both at once
            values[i] = values[i] * x[(i + 1) % CHAINS] + x[i] if i % 2 else values[i] + x[(i + step) % CHAINS]
    code = finish(trace, values)
    program = straight_program("peak", code, [Buffer("x", "input", (CHAINS,))], [Buffer("y", "output", (CHAINS,))])
    function = compile_function(program, threads=1)
    x0 = np.random.default_rng(0).uniform(0.1, 0.2, (batch, CHAINS))
    seconds = alternating({"peak": lambda: function(x0)})["peak"]
    return code.operations * batch / seconds
