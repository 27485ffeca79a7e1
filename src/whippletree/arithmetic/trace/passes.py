"""From a trace to straight-line code: dead-code elimination and fused multiply-adds; and its evaluation in Python.

The fused multiply-adds are chosen here, in the graph, and nowhere else: a back end emits exactly the operations that it
finds, so that every lane width, optimisation level and device rounds alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.scalars import Table
from whippletree.arithmetic.trace.traced import LEAVES, Node, Trace, Traced


@dataclass(frozen=True)
class Straight:
    """Straight-line code: nodes in order, and for each output either the index of a node or a number."""

    nodes: list[Node]
    outputs: list[int | float]

    @property
    def operations(self) -> int:
        """How many arithmetic operations one evaluation costs."""
        names = [node[0] for node in self.nodes]
        return len(names) - sum(map(names.count, LEAVES))


def finish(trace: Trace, outputs: Sequence[Any]) -> Straight:
    """Keep what the outputs need, fuse multiply-adds, and number the nodes anew."""
    wanted = [x.index if isinstance(x, Traced) else float(x) for x in outputs]
    uses = _uses(trace.nodes, [w for w in wanted if isinstance(w, int)])
    fused = _fuse(trace.nodes, uses)
    return _number_anew(Straight(fused, wanted), uses)


def live(code: Straight) -> Straight:
    """Keep what the outputs need, and number the nodes anew."""
    return _number_anew(code, _uses(code.nodes, [w for w in code.outputs if isinstance(w, int)]))


def _number_anew(code: Straight, uses: list[int]) -> Straight:
    """The nodes that are used, numbered in their order."""
    number = [-1] * len(code.nodes)
    straight: list[Node] = []
    for index, node in enumerate(code.nodes):
        if uses[index]:
            number[index] = len(straight)
            if node[0] in LEAVES:
                straight.append(node)
            elif len(node) == 4:  # two operands and three, written out: nearly all of a hundred thousand
                straight.append((node[0], number[node[1]], number[node[2]], number[node[3]]))
            elif len(node) == 3:
                straight.append((node[0], number[node[1]], number[node[2]]))
            else:
                straight.append((node[0], *[number[i] for i in node[1:]]))
    return Straight(straight, [number[w] if isinstance(w, int) else w for w in code.outputs])


def _uses(nodes: list[Node], outputs: Sequence[int]) -> list[int]:
    """How often each node is used, by outputs and by nodes that are used themselves."""
    uses = [0] * len(nodes)
    for index in outputs:
        uses[index] += 1
    for index in range(len(nodes) - 1, -1, -1):
        if uses[index]:
            node = nodes[index]
            if node[0] not in LEAVES:
                for operand in node[1:]:
                    uses[operand] += 1
    return uses


def _fuse(nodes: list[Node], uses: list[int]) -> list[Node]:
    """Turn a·b + c into one operation wherever that makes the product disappear, which is not used any more then.

    A product is absorbed only if *every* use of it is an addition or subtraction that can absorb it: then the product
    costs nothing any more. An addition of two such products absorbs the one that was computed last.
    """
    wish: dict[int, int] = {}  # addition or subtraction -> the product that it would absorb
    absorbed = [0] * len(nodes)
    for index, node in enumerate(nodes):
        if not uses[index] or (node[0] != "add" and node[0] != "sub"):
            continue
        _, first, second = node
        best = first
        if nodes[first][0] != "mul":
            best = second
        elif nodes[second][0] == "mul" and (uses[second], -second) < (uses[first], -first):
            # the product with fewer uses vanishes more surely; the later one is on the critical path
            best = second
        if nodes[best][0] == "mul":
            wish[index] = best
            absorbed[best] += 1
    fused, gone = list(nodes), []
    for index, product in wish.items():
        if absorbed[product] == uses[product]:
            gone.append(product)
            operation, i, j = nodes[index]
            a, b = nodes[product][1:]
            if operation == "add":
                fused[index] = ("fma", a, b, j if product == i else i)
            elif product == i:
                fused[index] = ("fms", a, b, j)
            else:
                fused[index] = ("fnma", a, b, i)
    for product in gone:
        uses[product] = 0
    return fused


def lift_constants(code: Straight, inputs: int) -> tuple[Straight, list[float]]:
    """This code with its constants as further inputs, after the ``inputs`` that it has, and their values.

    So functions that differ in their numbers only are one code. Outputs that are 0 stay: nothing is computed for them.
    """
    constants: list[float] = []

    def lift(value: float) -> Node:
        constants.append(float(value))
        return ("input", inputs + len(constants) - 1)

    nodes = [lift(node[1]) if node[0] == "const" else node for node in code.nodes]
    outputs: list[int | float] = []
    for wanted in code.outputs:
        if isinstance(wanted, int) or wanted == 0:
            outputs.append(wanted)
        else:
            outputs.append(len(nodes))
            nodes.append(lift(wanted))
    return Straight(nodes, outputs), constants


def evaluate(code: Straight, inputs: Sequence[Any]) -> list[Any]:
    """Evaluate straight-line code on numbers, one operation at a time: the slow oracle of the compiler.

    On floats a fused operation is rounded once (through exact rational arithmetic), as the machine does it.
    """
    values: list[Any] = []
    for node in code.nodes:
        if node[0] == "input":
            values.append(inputs[node[1]])
        elif node[0] == "const":
            values.append(node[1])
        else:
            meaning = node[0].at if isinstance(node[0], Table) else _MEANING[node[0]]
            values.append(meaning(*[values[i] for i in node[1:]]))
    return [values[w] if isinstance(w, int) else w for w in code.outputs]


def _fma(a: Any, b: Any, c: Any) -> Any:
    if all(isinstance(x, float) and math.isfinite(x) for x in (a, b, c)):
        from fractions import Fraction

        return float(Fraction(a) * Fraction(b) + Fraction(c))
    return a * b + c


def _is_decided(condition: Any) -> bool:
    """Whether a condition is true or false; one of symbols is a symbol itself, and selects between 1 and 0."""
    return isinstance(condition, (bool, int, float, np.bool_))


_MEANING: dict[str, Callable[..., Any]] = {
    "neg": lambda a: -a,
    "abs": abs,
    "sqrt": scalars.sqrt,
    "sin": scalars.sin,
    "cos": scalars.cos,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "atan2": scalars.atan2,
    "exp": scalars.exp,
    "log": scalars.log,
    "tanh": scalars.tanh,
    "pow": scalars.power,
    "lt": scalars.less,
    "and": lambda a, b: (a and b) if _is_decided(a) else scalars.select(a, b, 0),
    "or": lambda a, b: (a or b) if _is_decided(a) else scalars.select(a, 1, b),
    "not": lambda a: (not a) if _is_decided(a) else scalars.select(a, 0, 1),
    "select": scalars.select,
    "fma": _fma,
    "fms": lambda a, b, c: _fma(a, b, -c),
    "fnma": lambda a, b, c: _fma(-a, b, c),
}
