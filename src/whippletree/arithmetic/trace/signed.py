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
from typing import Any, NamedTuple

from whippletree.arithmetic.trace.passes import Straight

LEAVES = ("input", "const")

_SUMS, _FUSED, _PRODUCTS = ("add", "sub"), ("fma", "fms", "fnma"), ("mul", "div")


class Signed(NamedTuple):
    """One operation: ``add``, ``mul``, ``div`` and ``fma`` as the module's table says; any other with signed operands.

    ``content`` is the number of an input, or a constant; ``signs`` the coefficients of a sum, or the signs of operands;
    of a constant with twins, their number and its part.
    """

    operation: Any
    operands: tuple[int, ...] = ()
    signs: tuple[int, ...] = ()
    content: Any = None


class Term(NamedTuple):
    """A value with a sign."""

    value: int
    sign: int


@dataclass(frozen=True)
class SignedCode:
    """Operations in order, and for each output a term or a number."""

    values: list[Signed]
    outputs: list[Term | float]


def set_signs_apart(code: Straight) -> SignedCode:
    """Set the signs of straight-line code apart."""
    apart = _SettingApart()
    terms = apart.terms
    # a hundred thousand times: terms are numbers here, ~i for the negative of value i
    for node in code.nodes:
        operation = node[0]
        if operation in _SUMS:
            first, second = terms[node[1]], terms[node[2]]
            terms.append(apart.sum_of(first, second if operation == "add" else ~second))
        elif operation in _FUSED:
            terms.append(apart.fused(operation, terms[node[1]], terms[node[2]], terms[node[3]]))
        elif operation in _PRODUCTS:
            terms.append(apart.product(operation, terms[node[1]], terms[node[2]]))
        elif operation == "neg":
            terms.append(~terms[node[1]])
        elif operation in LEAVES:
            terms.append(apart.value(node, Signed(operation, (), node[2:], node[1])))
        else:
            given = [terms[i] for i in node[1:]]
            made = Signed(operation, tuple([abs_term(g) for g in given]), tuple([1 if g >= 0 else -1 for g in given]))
            terms.append(apart.value(made, made))
    outputs = [terms[w] if isinstance(w, int) else None for w in code.outputs]
    return SignedCode(
        apart.values,
        [
            w if t is None else Term(abs_term(t), 1 if t >= 0 else -1)
            for t, w in zip(outputs, code.outputs, strict=True)
        ],
    )


def abs_term(term: int) -> int:
    """The value of a term, whatever its sign: i of i and of ~i."""
    return term if term >= 0 else ~term


class _SettingApart:
    """Values met so far. A key is the same for a value and its negative."""

    def __init__(self) -> None:
        self.values: list[Signed] = []
        self.terms: list[int] = []
        """Of every node of the code."""
        self._known: dict[Any, int] = {}
        """By the key of a sum, the sum in which the part that is named first has a plus sign; else the value."""

    def value(self, key: Any, made: Signed) -> int:
        """The value of a key, new or met before."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.values)
            self.values.append(made)
        return found

    def product(self, operation: str, first: int, second: int) -> int:
        """x₀ x₁ or x₀ / x₁."""
        a, b = abs_term(first), abs_term(second)
        key = (operation, b, a) if operation == "mul" and b < a else (operation, a, b)
        found = self.value(key, Signed(operation, (a, b)))
        return found if (first >= 0) == (second >= 0) else ~found

    def sum_of(self, first: int, second: int) -> int:
        """c₀ x₀ + c₁ x₁."""
        a, b = abs_term(first), abs_term(second)
        lead, key = (first, (a, b, first ^ second < 0)) if a <= b else (second, (b, a, first ^ second < 0))
        found = self._known.get(key)
        return self._new_sum("add", key, (a, b), first, second, lead) if found is None else _turned(found, lead)

    def fused(self, operation: str, first: int, second: int, rest: int) -> int:
        """c₀ x₀ x₁ + c₁ x₂."""
        a, b, c = abs_term(first), abs_term(second), abs_term(rest)
        if b < a:
            a, b = b, a
        product = 0 if ((first >= 0) == (second >= 0)) == (operation != "fnma") else -1
        if operation == "fms":
            rest = ~rest
        key = ("fma", a, b, c, product ^ rest < 0)
        found = self._known.get(key)
        if found is None:
            return self._new_sum("fma", key, (a, b, c), product, rest, product)
        return _turned(found, product)

    def _new_sum(self, operation: str, key: Any, operands: tuple[int, ...], first: int, second: int, lead: int) -> int:
        """A sum of two parts, whose signs (and that of the leading part) are those of numbers.

        One with two minus signs is kept as its negative, with none.
        """
        number = len(self.values)
        both = first < 0 and second < 0
        signs = (1, 1) if both else (1 if first >= 0 else -1, 1 if second >= 0 else -1)
        self.values.append(Signed(operation, operands, signs))
        self._known[key] = number if both or lead >= 0 else ~number
        return ~number if both else number


def _turned(term: int, sign: int) -> int:
    """A term, or its negative where a number is negative."""
    return term if sign >= 0 else ~term


class Emitter:
    """Straight-line code written from signed operations, one by one: the inverse of :func:`set_signs_apart`."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self._known: dict[Any, int] = {}

    def node(self, *key: Any) -> int:
        """The index of a node, new or met before."""
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

    def operation(self, made: Signed, given: Sequence[tuple[int, int]]) -> int:
        """The node of an operation on operands that are there: (node, sign) each."""
        operation = made.operation
        if operation == "fma":  # most are: a match statement would take longer
            (a, a_sign), (b, b_sign), (c, c_sign) = given
            product, rest = made.signs[0] * a_sign * b_sign, made.signs[1] * c_sign
            if product == rest:
                return self.with_sign(self.node("fma", a, b, c), product)
            return self.node("fms" if product > 0 else "fnma", a, b, c)
        nodes, signs = [g[0] for g in given], [g[1] for g in given]
        if operation == "mul" or operation == "div":
            return self.with_sign(self.node(operation, *nodes), signs[0] * signs[1])
        if operation == "add":
            first, second = made.signs[0] * signs[0], made.signs[1] * signs[1]
            if first == second:
                return self.with_sign(self.node("add", *nodes), first)
            return self.node("sub", *(nodes if first > 0 else reversed(nodes)))
        turned = [self.with_sign(n, s * t) for n, s, t in zip(nodes, signs, made.signs, strict=True)]
        return self.node(made.operation, *turned)
