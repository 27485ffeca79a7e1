"""The traced scalar and its graph: generic NumPy code in, a list of arithmetic operations out.

* :mod:`~whippletree.expression.traced`: the scalar that records what is done to it, and the hash-consed graph;
* :mod:`~whippletree.expression.passes`: dead-code elimination, fused multiply-adds, evaluation of a graph;
* :mod:`~whippletree.expression.derivative`: forward and reverse differentiation, as more graph.

Nothing here knows of robots, of LLVM, or of what the numbers mean.
"""

from whippletree.expression.derivative import gradient, tangent
from whippletree.expression.passes import Straight, evaluate, finish
from whippletree.expression.traced import Node, Trace, Traced
from whippletree.scalars import Table

__all__ = ["Node", "Straight", "Table", "Trace", "Traced", "evaluate", "finish", "gradient", "tangent"]
