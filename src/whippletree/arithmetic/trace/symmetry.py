"""Symmetries of straight-line code: which values of one limb do for it what others do for its mirror image.

A symmetry takes the inputs of one part to those of the next one, round in a circle: left to right to left, or around
the legs of a walking machine; and so it takes the constants of one part to their twins (:meth:`~whippletree.arithmetic.
trace.Trace.twin_constant`). Code that was written by one algorithm for all of them follows it: if x₁ is the image of x₀
and y₁ that of y₀, then x₁ + y₁ is the image of x₀ + y₀, wherever the code has it, whatever the signs are
(:mod:`~whippletree.arithmetic.trace.signed`). A constant without twins may be any other; values of the same operation
on the same operands, which differ in such constants or in signs, are told apart by the order in which they appear.

A value that has no image by this rule counts as its own. Sums over all parts are such: the image of (base + left) +
right is (base + right) + left, which no code has, but whatever is done to this sum for one part is done to it for all.

Nothing depends on whether an image is the right one: those that use it check the operations themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whippletree.arithmetic.trace.signed import Signed, SignedCode

COMMUTATIVE = ("add", "mul", "fma")
"""Operations whose first two operands may change places."""

_ANY_CONSTANT = -1


def find_images(code: SignedCode, turn: Sequence[int], parts: int) -> list[int]:
    """The image of every value.

    Args:
        code: the values.
        turn: the image of each input.
        parts: how many parts there are: after so many turns everything is where it was.
    """
    values = code.values
    leaves = {_leaf(value): i for i, value in enumerate(values) if value.operation in ("input", "const")}
    names = [_ANY_CONSTANT if v.operation == "const" and not v.signs else i for i, v in enumerate(values)]
    keys = [_key(value, names) for value in values]
    first, alike = _by_key(keys)
    images = list(names)
    for i, value in enumerate(values):
        if value.operation == "input":
            images[i] = leaves.get(("input", turn[value.content]), i)
        elif value.operation == "const":
            if value.signs:
                number, part = value.signs
                images[i] = leaves.get(("const", number, (part + 1) % parts), i)
        else:
            key = _key(value, images)
            own, others = alike.get(keys[i]), alike.get(key)
            if own is None and others is None:
                images[i] = first.get(key, i)
            elif own is not None and others is not None and len(own) == len(others):
                images[i] = others[own.index(i)]
    return images


def _by_key(keys: Sequence[Any]) -> tuple[dict[Any, int], dict[Any, list[int]]]:
    """The first value of each key; and of those keys that several values have, all of them."""
    first: dict[Any, int] = {}
    alike: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        before = first.setdefault(key, i)
        if before != i:
            alike.setdefault(key, [before]).append(i)
    return first, alike


def _leaf(value: Signed) -> tuple[Any, ...]:
    return (value.operation, *(value.signs or (value.content,)))


def _key(value: Signed, names: Sequence[int]) -> Any:
    """Equal for values of the same operation on operands of the same names, whatever their order and signs."""
    operation, operands, signs, content = value
    if operation not in COMMUTATIVE:
        return (operation, *[names[j] for j in operands], *(() if operands else signs), content)
    first, second = names[operands[0]], names[operands[1]]
    if first > second:
        first, second = second, first
    return (operation, first, second, names[operands[2]]) if operation == "fma" else (operation, first, second)
