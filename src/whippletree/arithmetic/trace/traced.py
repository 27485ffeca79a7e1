"""The traced scalar: a number that records what is done to it.

Every operation on a :class:`Traced` looks up or appends one node of its :class:`Trace`; equal operations on equal
operands are the same node (hash-consing). Constants stay plain Python numbers for as long as they meet no traced
scalar, so Python itself folds them, and an exact 0 or ±1 is absorbed before a node exists:

    x * 0 → 0      x + 0 → x      x * 1 → x      x * −1 → −x      x − x → 0      x / 1 → x

The zero is a *structural* zero: it also absorbs a NaN or an infinity in x. Nothing else is rewritten in a way that
changes rounding; signs are moved (x * −c = −(x * c)) because that is exact and lets more nodes coincide.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.arithmetic.numpy_protocol import NumPyScalar
from whippletree.arithmetic.scalars import Table
from whippletree.errors import ScalarError

Node: TypeAlias = tuple[Any, ...]
"""One operation: ("input", number), ("const", value), ("const", value, number, part) for a constant with twins
(:meth:`Trace.twin_constant`), or (operation, operand index, …)."""

ARITY = {
    "neg": 1, "sqrt": 1, "sin": 1, "cos": 1, "abs": 1, "exp": 1, "log": 1, "tanh": 1,
    "add": 2, "sub": 2, "mul": 2, "div": 2, "atan2": 2, "pow": 2,
    "lt": 2, "and": 2, "or": 2, "not": 1, "select": 3,
    "fma": 3, "fms": 3, "fnma": 3,
}  # fmt: skip
"""Operands of each operation. fma a b c = a·b + c, fms = a·b − c, fnma = c − a·b, each rounded once."""

CONDITIONS = frozenset({"lt", "and", "or", "not"})
"""Operations whose value is a truth value, not a number."""

JUMPS = frozenset({"select", "atan2"})
"""Operations, beside tables, whose value may jump where their operands do not."""

LEAVES = ("input", "const")
"""Nodes without operands, which nothing computes."""


def arity(operation: str) -> int | None:
    """How many operands an operation has; None if there is no such operation."""
    return 1 if isinstance(operation, Table) else ARITY.get(operation)


RECIPROCAL_RANGE = 1e30
"""Up to it, and down to its inverse, a power of two is divided by as a product: its reciprocal is exact in float32."""

PRODUCTS = 64
"""Integer exponents up to which a power is a chain of products."""

_OF_CONSTANTS: dict[Any, Callable[..., float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: a / b if b else a * math.inf,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "sin": math.sin,
    "cos": math.cos,
}
"""Operations that are done while tracing where all operands are constants; a sign stays an operation, to be moved."""

_OTHERS = (np.ndarray, Dual)
"""Types that know better than a traced scalar how to combine with one."""


class Trace:
    """A growing graph of operations; ``nodes`` is in topological order because operands exist before their use."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._scalars: list[Traced] = []
        self._known: dict[Node, Traced] = {}
        self._inputs = 0
        self.twins = 0
        """How many numbers have twins. Where there are some, code is written alike for mirror images: x − y and y − x,
        as x + y and −y − x, are one value, so that both have as many uses and products are fused alike."""
        self._constants: set[int] = set()
        """Nodes that are constants."""
        self._twin_numbers: dict[Any, int] = {}
        self._met: dict[Any, int] = {}

    def input(self) -> Traced:
        """A new independent variable."""
        self._inputs += 1
        return self.node(("input", self._inputs - 1))

    def inputs(self, *shape: int) -> np.ndarray[Any, Any]:
        """An array of new independent variables."""
        array = np.empty(shape, dtype=object)
        for index in np.ndindex(*shape):
            array[index] = self.input()
        return array

    def constant(self, value: Any) -> Traced:
        """The node of a number; −0.0 and 0.0 are one constant, and Fractions are rounded here."""
        return self.node(("const", float(value)))

    def twin_number(self) -> int:
        """A number for constants that are each other's twins: the same quantity of parts that are alike."""
        self.twins += 1
        return self.twins

    def twin_constant(self, value: Any, number: int, part: int) -> Traced:
        """The constant of one part among its twins, apart from other constants of the same value.

        What is computed from such constants alone is a constant too, and has twins if it is made of one part's.
        """
        return self.node(("const", float(value), number, part))

    def node(self, key: Node) -> Traced:
        """The traced scalar of a node, new or met before."""
        found = self._known.get(key)
        if found is None:
            # few have a constant first: the quickest question comes before the others
            if self.twins and key[1] in self._constants and self._is_known(key):
                found = self._known[key] = self.node(self._fold(key))
                return found
            number = len(self.nodes)
            found = self._known[key] = Traced(self, number)
            self.nodes.append(key)
            self._scalars.append(found)
            if key[0] == "const":
                self._constants.add(number)
        return found

    def _is_known(self, key: Node) -> bool:
        """Whether a node is an operation on constants that is done here."""
        return key[0] in _OF_CONSTANTS and self._constants.issuperset(key[1:])

    def _fold(self, key: Node) -> Node:
        """The constant that an operation on constants gives."""
        operation, *operands = key
        given = [self.nodes[i] for i in operands]
        value = _OF_CONSTANTS[operation](*[node[1] for node in given])
        parts = {node[3] for node in given if len(node) > 2}
        if len(parts) != 1:
            return ("const", value)
        # a + b here may be a − b there: what has the same operands is told apart by the order in which it appears
        made: Any = [(0, node[2]) if len(node) > 2 else (1, abs(node[1])) for node in given]
        made = ("add" if operation == "sub" else operation, *(made if operation == "div" else sorted(made)))
        met = self._met[made, *parts] = self._met.get((made, *parts), -1) + 1
        number = self._twin_numbers.get((made, met))
        if number is None:
            number = self._twin_numbers[made, met] = self.twin_number()
        return ("const", value, number, *parts)

    def known(self, key: Node) -> Traced | None:
        """The traced scalar of a node, if there is one."""
        return self._known.get(key)

    def iterate(self, step: Any, state: list[Any], given: list[Any], most: int) -> list[Any]:
        """Rounds of an iteration; straight-line code has none."""
        raise ScalarError("this code iterates until it is done, and straight-line code cannot: write it as a program")

    def close(self) -> None:
        """Let go of all scalars: they and their trace hold each other, and looking for such circles takes long."""
        self._scalars.clear()
        self._known.clear()

    def node_at(self, index: int) -> Traced:
        """The traced scalar of an existing node."""
        return self._scalars[index]


class Traced(NumPyScalar):
    """A scalar of a :class:`Trace`. Supports + − * / and the functions of :mod:`whippletree.arithmetic.scalars`."""

    __slots__ = ("index", "trace")

    def __init__(self, trace: Trace, index: int) -> None:
        self.trace = trace
        self.index = index

    def __repr__(self) -> str:
        return f"Traced({self.index}: {' '.join(map(str, self.trace.nodes[self.index]))})"

    def __bool__(self) -> bool:
        raise ScalarError(
            "a traced scalar has no truth value: generic code must not branch on a value. "
            "Use scalars.select(condition, a, b); shapes and topology may be branched on freely."
        )

    def __float__(self) -> float:
        raise ScalarError("a traced scalar has no number yet: this code converts to float and cannot be compiled")

    def __neg__(self) -> Traced:
        node = self.trace.nodes[self.index]
        if node[0] == "neg":
            return self.trace.node_at(node[1])
        if node[0] == "sub" and not self.trace.twins:
            return self.trace.node(("sub", node[2], node[1]))
        return self.trace.node(("neg", self.index))

    def __pos__(self) -> Traced:
        return self

    def __add__(self, other: Any) -> Any:
        if type(other) is not Traced:
            if isinstance(other, _OTHERS):
                return NotImplemented
            if other == 0:
                return self
            other = self.trace.constant(other)
        trace, i, j = self.trace, self.index, other.index
        nodes = trace.nodes
        if nodes[j][0] == "neg":
            return self - trace.node_at(nodes[j][1])
        if nodes[i][0] == "neg":
            return other - trace.node_at(nodes[i][1])
        return trace.node(("add", i, j) if i < j else ("add", j, i))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if type(other) is not Traced:
            if isinstance(other, _OTHERS):
                return NotImplemented
            if other == 0:
                return self
            other = self.trace.constant(other)
        trace, i, j = self.trace, self.index, other.index
        if i == j:
            return 0
        nodes = trace.nodes
        if nodes[j][0] == "neg":
            return self + trace.node_at(nodes[j][1])
        if nodes[i][0] == "neg":
            return -(trace.node_at(nodes[i][1]) + other)
        if trace.twins and (found := trace.known(("sub", j, i))) is not None:
            return -found
        return trace.node(("sub", i, j))

    def __rsub__(self, other: Any) -> Any:
        return -self if other == 0 else self.trace.constant(other) - self

    def __mul__(self, other: Any) -> Any:
        trace = self.trace
        nodes = trace.nodes
        i = self.index
        if type(other) is not Traced:
            if isinstance(other, _OTHERS):
                return NotImplemented
            if other == 0:
                return 0
            if other == 1:
                return self
            if other == -1:
                return -self
            if other < 0:
                return -(self * -other)
            if nodes[i][0] == "neg":
                return -(trace.node_at(nodes[i][1]) * other)
            j = trace.constant(other).index
            return trace.node(("mul", i, j) if i < j else ("mul", j, i))
        j = other.index
        if nodes[i][0] == "neg":
            return -(trace.node_at(nodes[i][1]) * other)
        if nodes[j][0] == "neg":
            return -(self * trace.node_at(nodes[j][1]))
        return trace.node(("mul", i, j) if i < j else ("mul", j, i))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        trace = self.trace
        nodes = trace.nodes
        if type(other) is not Traced:
            if isinstance(other, _OTHERS):
                return NotImplemented
            if other == 1:
                return self
            if other == -1:
                return -self
            if other < 0:
                return -(self / -other)
            if math.frexp(other)[0] == 0.5 and 1 / RECIPROCAL_RANGE < other < RECIPROCAL_RANGE:
                return self * (1 / other)  # a power of two: the same number, without a division
            other = trace.constant(other)
        i, j = self.index, other.index
        if nodes[i][0] == "neg":
            return -(trace.node_at(nodes[i][1]) / other)
        if nodes[j][0] == "neg":
            return -(self / trace.node_at(nodes[j][1]))
        return trace.node(("div", i, j))

    def __rtruediv__(self, other: Any) -> Any:
        return 0 if other == 0 else self.trace.constant(other) / self

    def __pow__(self, exponent: Any) -> Any:
        """Integer powers up to the 64th by products, the square root, and all others by the function of two numbers."""
        if isinstance(exponent, _OTHERS):
            return NotImplemented
        if isinstance(exponent, Traced) or not (math.isfinite(exponent) and abs(exponent) <= PRODUCTS):
            return _operation("pow", self, exponent)
        if exponent == 0.5:
            return self.sqrt()
        if exponent != int(exponent):
            return _operation("pow", self, exponent)
        if exponent < 0:
            return 1 / self**-exponent
        result: Any = 1
        for _ in range(int(exponent)):
            result = self * result
        return result

    def __rpow__(self, base: Any) -> Any:
        return _operation("pow", base, self)

    def __abs__(self) -> Traced:
        return self.trace.node(("abs", self.index))

    def __lt__(self, other: Any) -> Traced:
        return _operation("lt", self, other)

    def __gt__(self, other: Any) -> Traced:
        return _operation("lt", other, self)

    def __le__(self, other: Any) -> Traced:
        return ~_operation("lt", other, self)  # true also where one is NaN

    def __ge__(self, other: Any) -> Traced:
        return ~_operation("lt", self, other)

    def __and__(self, other: Any) -> Any:
        if isinstance(other, (bool, np.bool_)):  # of numbers that are known beforehand
            return self if other else False
        return _operation("and", self, other)

    def __or__(self, other: Any) -> Any:
        if isinstance(other, (bool, np.bool_)):
            return True if other else self
        return _operation("or", self, other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Traced:
        return self.trace.node(("not", self.index))

    def sin(self) -> Traced:
        """sin x; odd, so a sign moves outside."""
        node = self.trace.nodes[self.index]
        if node[0] == "neg":
            return -self.trace.node(("sin", node[1]))
        return self.trace.node(("sin", self.index))

    def cos(self) -> Traced:
        """cos x; even, so a sign vanishes."""
        node = self.trace.nodes[self.index]
        return self.trace.node(("cos", node[1] if node[0] == "neg" else self.index))

    def sqrt(self) -> Traced:
        """√x."""
        return self.trace.node(("sqrt", self.index))

    def exp(self) -> Traced:
        """exp x."""
        return self.trace.node(("exp", self.index))

    def log(self) -> Traced:
        """The natural logarithm."""
        return self.trace.node(("log", self.index))

    def tanh(self) -> Traced:
        """tanh x; odd, so a sign moves outside."""
        node = self.trace.nodes[self.index]
        if node[0] == "neg":
            return -self.trace.node(("tanh", node[1]))
        return self.trace.node(("tanh", self.index))

    # further names under which NumPy's functions look for a method on arrays of objects

    def tan(self) -> Any:
        """sin x / cos x."""
        return self.sin() / self.cos()

    def arctan(self) -> Traced:
        """The angle in (−π/2, π/2) whose tangent is x."""
        return _operation("atan2", self, 1)

    def arctan2(self, x: Any) -> Traced:
        """The angle of the point (x, self)."""
        return _operation("atan2", self, x)

    def hypot(self, x: Any) -> Any:
        """√(self² + x²)."""
        return (self * self + x * x).sqrt()


def _operation(name: str, *operands: Any) -> Traced:
    """A node of traced and plain operands; at least one is traced."""
    trace = next(x.trace for x in operands if isinstance(x, Traced))
    indices = (x.index if isinstance(x, Traced) else trace.constant(x).index for x in operands)
    return trace.node((name, *indices))


def _power(x: Any, y: Any) -> Any:
    return x**y


def _entry(table: Table, x: Any) -> Any:
    return _operation(table, x)


def _iterate(step: Any, state: list[Any], given: list[Any], most: int) -> list[Any]:
    trace = next(x.trace for x in (*state, *given) if isinstance(x, Traced))
    return trace.iterate(step, state, given, most)


def _select(condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, Traced):
        return a if condition else b
    if a is b:
        return a
    return _operation("select", condition, a, b)


scalars.register(
    Traced,
    scalars.Functions(
        Traced.sin,
        Traced.cos,
        Traced.sqrt,
        lambda y, x: _operation("atan2", y, x),
        lambda a, b: _operation("lt", a, b),
        _select,
        rank=2,
        entry=_entry,
        exp=Traced.exp,
        log=Traced.log,
        tanh=Traced.tanh,
        power=_power,
        iterate=_iterate,
    ),
)
