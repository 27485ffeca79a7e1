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

_SUMS = {"add": (1, 1), "sub": (1, -1)}
_FUSED = {"fma": (1, 1), "fms": (1, -1), "fnma": (-1, 1)}
_PRODUCTS = ("mul", "div")


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
    values: list[Signed] = []
    known: dict[Any, Term] = {}
    terms: list[Term] = []

    def value(key: Any, made: Signed, sign: int = 1) -> Term:
        """The value of a key, which is the same for a value and its negative; ``sign`` tells which of them is asked."""
        found = known.get(key)
        if found is None:
            found = known[key] = Term(len(values), sign)
            values.append(made)
        return Term(found.value, found.sign * sign)

    for operation, *operands in code.nodes:
        if operation in LEAVES:
            terms.append(value((operation, *operands), Signed(operation, (), tuple(operands[1:]), operands[0])))
            continue
        given = [terms[i] for i in operands]
        if operation == "neg":
            terms.append(Term(given[0].value, -given[0].sign))
        elif operation in _SUMS:
            terms.append(_sum(value, "add", [(g.value,) for g in given], _times(_SUMS[operation], given)))
        elif operation in _FUSED:
            parts = [tuple(sorted((given[0].value, given[1].value))), (given[2].value,)]
            product = Term(0, given[0].sign * given[1].sign)
            terms.append(_sum(value, "fma", parts, _times(_FUSED[operation], [product, given[2]])))
        elif operation in _PRODUCTS:
            factors = tuple(g.value for g in given)
            key = tuple(sorted(factors)) if operation == "mul" else factors
            found = value((operation, key), Signed(operation, factors))
            terms.append(Term(found.value, given[0].sign * given[1].sign))
        else:
            made = Signed(operation, tuple(g.value for g in given), tuple(g.sign for g in given))
            terms.append(value(made, made))
    return SignedCode(values, [terms[w] if isinstance(w, int) else w for w in code.outputs])


def _times(coefficients: tuple[int, int], given: Sequence[Term]) -> tuple[int, int]:
    first, second = given
    return coefficients[0] * first.sign, coefficients[1] * second.sign


def _sum(value: Any, operation: str, parts: list[tuple[int, ...]], signs: tuple[int, int]) -> Term:
    """A sum of two parts; one with two minus signs is the negative of the one with none."""
    first, second = signs
    turned = -1 if first == second == -1 else 1
    made = Signed(operation, (*parts[0], *parts[1]), (first * turned, second * turned))
    # the key is that of the sum in which the part that is named first has a plus sign
    lead = 0 if operation == "fma" or parts[0] <= parts[1] else 1
    key = (operation, parts[lead], parts[1 - lead], first * second)
    found: Term = value(key, made, signs[lead] * turned)
    return Term(found.value, found.sign * turned)


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
        nodes, signs = [g[0] for g in given], [g[1] for g in given]
        match made.operation:
            case "add":
                first, second = made.signs[0] * signs[0], made.signs[1] * signs[1]
                if first == second:
                    return self.with_sign(self.node("add", *nodes), first)
                return self.node("sub", *(nodes if first > 0 else reversed(nodes)))
            case "mul" | "div":
                return self.with_sign(self.node(made.operation, *nodes), signs[0] * signs[1])
            case "fma":
                product, rest = made.signs[0] * signs[0] * signs[1], made.signs[1] * signs[2]
                if product == rest:
                    return self.with_sign(self.node("fma", *nodes), product)
                return self.node("fms" if product > 0 else "fnma", *nodes)
        turned = [self.with_sign(n, s * t) for n, s, t in zip(nodes, signs, made.signs, strict=True)]
        return self.node(made.operation, *turned)
