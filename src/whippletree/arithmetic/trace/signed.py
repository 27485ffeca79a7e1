"""Straight-line code in which signs are set apart: values that differ only in their sign are one value.

Mirrored limbs do the same arithmetic with other signs: a·x + y on the left is y − a·x on the right. To see that, an
operation is written as a sum of terms with coefficients ±1, and a value that is the negative of another one is that
one, used with a minus sign:

    add, sub         c₀ x₀ + c₁ x₁
    fma, fms, fnma   c₀ x₀ x₁ + c₁ x₂
    mul, div         x₀ x₁, x₀ / x₁: the signs of the factors are that of the result

Negation is exact in floating point, so every number keeps its bits, but for the sign of a zero that is a difference of
equal numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.trace.passes import Straight
from whippletree.arithmetic.trace.traced import LEAVES, Node

_SUMS, _FUSED, _PRODUCTS = ("add", "sub"), ("fma", "fms", "fnma"), ("mul", "div")


class Term(NamedTuple):
    """A value with a sign."""

    value: int
    sign: int


MOST_OPERANDS = 3
"""Operands that an operation has at most."""


@dataclass(frozen=True)
class SignedCode:
    """Values in order, of which each thing has a list of its own: there are tens of thousands; and the outputs."""

    operations: list[Any]
    """``add``, ``mul``, ``div`` and ``fma`` as the module's table says; any other with signed operands."""
    operands: list[tuple[int, ...]]
    signs: list[tuple[int, ...]]
    """The coefficients of a sum, or the signs of operands; of a constant with twins, their number and its part."""
    contents: dict[int, Any]
    """The numbers of inputs, and constants."""
    outputs: list[Term | float]
    """For each output a term or a number."""

    @cached_property
    def table(self) -> np.ndarray[Any, Any]:
        """The operands as an array (values, ``MOST_OPERANDS``); −1 where there is none."""
        counts = np.fromiter(map(len, self.operands), dtype=np.int64, count=len(self.operands))
        found = np.full((len(self.operands), MOST_OPERANDS), -1)
        found[np.arange(MOST_OPERANDS) < counts[:, None]] = np.fromiter(chain.from_iterable(self.operands), np.int64)
        return found


def set_signs_apart(code: Straight) -> SignedCode:
    """Set the signs of straight-line code apart."""
    apart = _SettingApart()
    terms, sum_of, fused, product = apart.terms, apart.sum_of, apart.fused, apart.product
    # a hundred thousand times: terms are numbers here, ~i for the negative of value i
    for node in code.nodes:
        operation = node[0]
        if operation in _FUSED:
            terms.append(fused(operation, terms[node[1]], terms[node[2]], terms[node[3]]))
        elif operation in _PRODUCTS:
            terms.append(product(operation, terms[node[1]], terms[node[2]]))
        elif operation in _SUMS:
            first, second = terms[node[1]], terms[node[2]]
            terms.append(sum_of(first, second if operation == "add" else ~second))
        elif operation == "neg":
            terms.append(~terms[node[1]])
        elif operation in LEAVES:
            terms.append(apart.leaf(node))
        else:
            given = [terms[i] for i in node[1:]]
            operands, signs = tuple([abs_term(g) for g in given]), tuple([1 if g >= 0 else -1 for g in given])
            terms.append(apart.value((operation, operands, signs), operation, operands, signs))
    outputs = [terms[w] if isinstance(w, int) else None for w in code.outputs]
    return SignedCode(
        apart.operations,
        apart.operands,
        apart.signs,
        apart.contents,
        [
            w if t is None else Term(abs_term(t), 1 if t >= 0 else -1)
            for t, w in zip(outputs, code.outputs, strict=True)
        ],
    )


def abs_term(term: int) -> int:
    """The value of a term, whatever its sign: i of i and of ~i."""
    return term if term >= 0 else ~term


_COEFFICIENTS = ((1, 1), (1, -1), (-1, 1))


class _SettingApart:
    """Values met so far. A key is the same for a value and its negative."""

    def __init__(self) -> None:
        self.operations: list[Any] = []
        self.operands: list[tuple[int, ...]] = []
        self.signs: list[tuple[int, ...]] = []
        self.contents: dict[int, Any] = {}
        self.terms: list[int] = []
        """Of every node of the code."""
        self._known: dict[Any, int] = {}
        """By the key of a sum, the sum in which the part that is named first has a plus sign; else the value."""

    def value(self, key: Any, operation: Any, operands: tuple[int, ...], signs: tuple[int, ...] = ()) -> int:
        """The value of a key, new or met before."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.operations)
            self.operations.append(operation)
            self.operands.append(operands)
            self.signs.append(signs)
        return found

    def leaf(self, node: Node) -> int:
        """An input or a constant."""
        found = self.value(node, node[0], (), node[2:])
        self.contents[found] = node[1]
        return found

    # a term that is not negative is its value: asked here without a call, and below

    def product(self, operation: str, first: int, second: int) -> int:
        """x₀ x₁ or x₀ / x₁."""
        a, b = first if first >= 0 else ~first, second if second >= 0 else ~second
        key = (operation, b, a) if b < a and operation == "mul" else (operation, a, b)
        found = self.value(key, operation, (a, b))
        return found if first ^ second >= 0 else ~found

    def sum_of(self, first: int, second: int) -> int:
        """c₀ x₀ + c₁ x₁."""
        a, b = first if first >= 0 else ~first, second if second >= 0 else ~second
        lead, key = (first, (a, b, first ^ second < 0)) if a <= b else (second, (b, a, first ^ second < 0))
        found = self._known.get(key)
        if found is None:
            return self._new_sum("add", key, (a, b), first, second, lead)
        return found if lead >= 0 else ~found

    def fused(self, operation: str, first: int, second: int, rest: int) -> int:
        """c₀ x₀ x₁ + c₁ x₂."""
        a, b, c = first if first >= 0 else ~first, second if second >= 0 else ~second, rest if rest >= 0 else ~rest
        if b < a:
            a, b = b, a
        product = first ^ second if operation != "fnma" else ~(first ^ second)
        if operation == "fms":
            rest = ~rest
        key = ("fma", a, b, c, product ^ rest < 0)
        found = self._known.get(key)
        if found is None:
            return self._new_sum("fma", key, (a, b, c), product, rest, product)
        return found if product >= 0 else ~found

    def _new_sum(self, operation: str, key: Any, operands: tuple[int, ...], first: int, second: int, lead: int) -> int:
        """A sum of two parts, whose signs (and that of the leading part) are those of numbers.

        One with two minus signs is kept as its negative, with none.
        """
        number = len(self.operations)
        both = first < 0 and second < 0
        self.operations.append(operation)
        self.operands.append(operands)
        self.signs.append(_COEFFICIENTS[0 if both or first ^ second >= 0 else 1 if second < 0 else 2])
        self._known[key] = number if both or lead >= 0 else ~number
        return ~number if both else number


class Emitter:
    """Straight-line code written from signed operations, one by one: the inverse of :func:`set_signs_apart`."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self._known: dict[Any, int] = {}

    def node(self, *key: Any) -> int:
        """The index of a node, new or met before."""
        return self._node(key)

    def _node(self, key: Node) -> int:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.nodes)
            self.nodes.append(key)
        return found

    def constant(self, number: float) -> int:
        """The index of a constant."""
        return self.node("const", float(number))

    def with_sign(self, index: int, sign: int) -> int:
        """A value, or its negative."""
        if sign > 0:
            return index
        node = self.nodes[index]
        return self.constant(-node[1]) if node[0] == "const" else self.node("neg", index)

    def operation(
        self, operation: Any, own: Sequence[int], nodes: Sequence[int], signs: Sequence[int] | None = None
    ) -> int:
        """The node of an operation with signs of its own on operands that are there, with their signs if not all +."""
        if operation == "fma":  # most are: a match statement would take longer
            product, rest = own if signs is None else (own[0] * signs[0] * signs[1], own[1] * signs[2])
            if product != rest:
                return self._node(("fms" if product > 0 else "fnma", *nodes))
            node = self._node(("fma", *nodes))
            return node if product > 0 else self.with_sign(node, -1)
        given = signs or (1,) * len(nodes)
        if operation == "mul" or operation == "div":
            return self.with_sign(self.node(operation, *nodes), given[0] * given[1])
        if operation == "add":
            first, second = own[0] * given[0], own[1] * given[1]
            if first == second:
                return self.with_sign(self.node("add", *nodes), first)
            return self.node("sub", *(nodes if first > 0 else reversed(nodes)))
        turned = [self.with_sign(n, s * t) for n, s, t in zip(nodes, given, own, strict=True)]
        return self.node(operation, *turned)
