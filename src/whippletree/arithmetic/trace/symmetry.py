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

import numpy as np

from whippletree.arithmetic.trace.signed import SignedCode
from whippletree.arithmetic.trace.traced import LEAVES

COMMUTATIVE = ("add", "mul", "fma")
"""Operations whose first two operands may change places."""

_NONE, _ANY_CONSTANT, _FIRST = 0, 1, 2
"""Names of operands: of one that is not there, of a constant without twins, and of the first value."""


def find_images(code: SignedCode, turn: Sequence[int], parts: int) -> list[int]:
    """The image of every value; its own number for a value that has none.

    Args:
        code: the values.
        turn: the image of each input.
        parts: how many parts there are: after so many turns everything is where it was.
    """
    names = _names_of_leaves(code, turn, parts)
    keys = _Keys(code)
    first, alike = keys.by_key()
    settled = bytearray(len(code.operations))
    for i, kind, swaps, a, b, c, own in keys.rows():
        if settled[i]:
            continue
        x, y = names[a], names[b]
        if swaps and x > y:
            x, y = y, x
        key = kind + keys.first * x + keys.second * y + keys.third * names[c]
        if own in alike or key in alike:
            group, others = alike.get(own), alike.get(key)
            if group is not None and others is not None and len(group) == len(others):
                names[i + _FIRST] = others[group.index(i)] + _FIRST
            continue
        image = first.get(key, i)
        names[i + _FIRST] = image + _FIRST
        if parts == 2 and image > i:  # whose own image is this one
            names[image + _FIRST] = i + _FIRST
            settled[image] = 1
    return [i if name == _ANY_CONSTANT else name - _FIRST for i, name in enumerate(names[_FIRST:])]


def _names_of_leaves(code: SignedCode, turn: Sequence[int], parts: int) -> list[int]:
    """By name of a value, the name of its image: for inputs and constants; any other value counts as its own."""
    leaves = {_leaf(code, i): i for i in code.contents}
    names = list(range(len(code.operations) + _FIRST))
    for i, content in code.contents.items():
        if code.operations[i] == "input":
            names[i + _FIRST] = leaves.get(("input", turn[content]), i) + _FIRST
        elif code.signs[i]:
            number, part = code.signs[i]
            names[i + _FIRST] = leaves.get(("const", number, (part + 1) % parts), i) + _FIRST
        else:
            names[i + _FIRST] = _ANY_CONSTANT
    return names


def _leaf(code: SignedCode, i: int) -> tuple[Any, ...]:
    return (code.operations[i], *(code.signs[i] or (code.contents[i],)))


class _Keys:
    """Integers, equal for values of the same operation on operands of the same names, whatever their order and signs.

    A key is the number of the operation and the names of the operands, digit by digit.
    """

    def __init__(self, code: SignedCode) -> None:
        size = len(code.operations)
        kinds = {operation: number for number, operation in enumerate(dict.fromkeys(code.operations))}
        self.first, self.second, self.third = (len(kinds) * (size + _FIRST) ** place for place in range(3))
        whole = np.int64 if len(kinds) * (size + _FIRST) ** 3 < 2**63 else object
        numbers = np.fromiter(map(kinds.__getitem__, code.operations), dtype=np.int64, count=size)
        inner = np.flatnonzero(~np.isin(numbers, [kinds[leaf] for leaf in LEAVES if leaf in kinds]))
        swaps = np.isin(numbers, [kinds[operation] for operation in COMMUTATIVE if operation in kinds])[inner]
        operands = np.where(code.table < 0, _NONE, code.table + _FIRST)[inner]
        unnamed = [i + _FIRST for i in code.contents if code.operations[i] == "const" and not code.signs[i]]
        named = np.arange(size + _FIRST)
        named[unnamed] = _ANY_CONSTANT
        x, y, z = named[operands].T
        x, y = np.where(swaps & (x > y), [y, x], [x, y])
        self._inner, self._swaps, self._operands, self._kinds = inner, swaps, operands, numbers[inner]
        self._own = numbers[inner].astype(whole) + self.first * x.astype(whole) + self.second * y + self.third * z

    def by_key(self) -> tuple[dict[int, int], dict[int, list[int]]]:
        """The value of each key that one value has alone; and the values of every other key."""
        found, places, counts = np.unique(self._own, return_index=True, return_counts=True)
        once = counts == 1
        first = dict(zip(found[once].tolist(), self._inner[places[once]].tolist(), strict=True))
        alike: dict[int, list[int]] = {key: [] for key in found[~once].tolist()}
        if alike:
            crowded = np.flatnonzero(np.isin(self._own, found[~once]))
            for i, key in zip(self._inner[crowded].tolist(), self._own[crowded].tolist(), strict=True):
                alike[key].append(i)
        return first, alike

    def rows(self) -> Any:
        """Every value that is computed, in order: its number, its operation's, whether its operands may change places,
        their names, and its key."""
        columns = (self._inner, self._kinds, self._swaps, *self._operands.T, self._own)
        return zip(*[column.tolist() for column in columns], strict=True)
