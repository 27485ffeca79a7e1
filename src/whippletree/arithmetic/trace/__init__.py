"""The traced scalar and its graph: generic NumPy code in, a list of arithmetic operations out.

    traced         the scalar that records what is done to it, and the hash-consed graph
    passes         dead code removed, multiply-adds fused, constants as inputs, a graph evaluated
    schedule       an order of operations that keeps few values alive
    signed         values that differ only in their sign stored once
    symmetry       parts of a graph that are alike, and which value of one corresponds to which of another
    derivative     forward and reverse differentiation, as more graph
    linear_parts   which results are linear in which inputs

Nothing here knows of robots, of LLVM, or of what the numbers mean. It imports ``arithmetic`` and ``errors``.
"""

from whippletree.arithmetic.scalars import Table
from whippletree.arithmetic.trace.derivative import gradient, tangent
from whippletree.arithmetic.trace.linear_parts import LinearPart, linear_parts
from whippletree.arithmetic.trace.passes import Straight, evaluate, finish, lift_constants
from whippletree.arithmetic.trace.traced import Node, Trace, Traced

__all__ = [
    "LinearPart",
    "Node",
    "Straight",
    "Table",
    "Trace",
    "Traced",
    "evaluate",
    "finish",
    "gradient",
    "lift_constants",
    "linear_parts",
    "tangent",
]
