"""Symmetries of straight-line code: which values of one limb do for it what others do for its mirror image.

A symmetry takes the inputs of one part to those of the next one, round in a circle: left to right to left, or around
the legs of a walking machine. Code that was written by one algorithm for all of them follows it: if x₁ is the image of
x₀ and y₁ that of y₀, then x₁ + y₁ is the image of x₀ + y₀, wherever the code has it, whatever the signs and constants
are (:mod:`~whippletree.arithmetic.trace.signed`).

    1. every value is told which parts it belongs to: those whose inputs it is made of; a value of all of them together
       (a sum over the legs) belongs to none, and so does what is made of it alone. A value of none that only some parts
       use (where the base carries the left hip) is theirs.
    2. images are found in the order of the code. Values of the same operation on the same operands and other constants
       are told apart by the order in which they appear, or by their constants.
    3. where the code of two parts differs (an offset of one is exactly zero), values have no image, and what uses them
       is recognised by its other operands.

Nothing depends on whether an image is the right one: those that use it check the operations themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from whippletree.arithmetic.trace.signed import LEAVES, Signed, SignedCode, Term

NO_PART = 0
"""Belongs to no part, or to all of them alike. Others have a bit for each part."""

MIXED = -1
"""Made of values of several parts."""

COMMUTATIVE = ("add", "mul", "fma")
"""Operations whose first two operands may change places."""

_ANY_CONSTANT = -1


def find_images(
    code: SignedCode, turn: Sequence[int], part: Sequence[int], parts: int, outputs: Sequence[int] = ()
) -> tuple[list[int | None], list[int]]:
    """The image of every value, itself where the symmetry leaves it as it is, None where none was found; and
    which parts it belongs to.

    Args:
        code: the values.
        turn: the image of each input.
        part: the part that each input belongs to, 0 … parts − 1, or −1 for none; images belong to the next part.
        parts: how many parts there are.
        outputs: the image of each output, for values that are not found by their operands: of a symmetric matrix, one
            side of the diagonal is computed.
    """
    search = _SymmetrySearch(code, turn, part, parts, outputs)
    return search.run(), search.labels


class _SymmetrySearch:
    def __init__(
        self, code: SignedCode, turn: Sequence[int], part: Sequence[int], parts: int, outputs: Sequence[int]
    ) -> None:
        self.values = code.values
        self.turn = turn
        self.parts = parts
        self.labels = _labels(code.values, part, parts)
        self.images: list[int | None] = [None] * len(self.values)
        self.taken: set[int] = set()
        self.wanted = _output_images(code, outputs)
        self.alike: dict[Any, list[int]] = defaultdict(list)
        self._users: dict[tuple[Any, int], list[int]] = {}
        self.keys: list[Any] = []
        for i, value in enumerate(self.values):
            key = None if value.operation in LEAVES else _key(value, self._operand_names(value))
            self.keys.append(key)
            self.alike[key].append(i)

    def run(self) -> list[int | None]:
        inputs = {v.content: i for i, v in enumerate(self.values) if v.operation == "input"}
        for i, value in enumerate(self.values):
            if value.operation == "input":
                self.images[i] = inputs.get(self.turn[value.content])
            elif value.operation != "const":
                self.value(i, value)
        return self.images

    def value(self, i: int, value: Signed) -> None:
        if self.images[i] is not None:  # the image of its image
            return
        images = [_ANY_CONSTANT if self._constant(j) else self.images[j] for j in value.operands]
        found = None
        if None not in images:
            key = _key(value, images)
            found = self.among_alike(i) if key == self.keys[i] else self.exact(i, self.alike.get(key, []))
        if found is None and self.parts == 2 and self.wanted.get(i) not in self.taken:
            found = self.wanted.get(i)
        if found is None and self.parts == 2 and self.labels[i] > 0:
            found = self.by_other_operands(i, value, images)
        if found is not None:
            self.images[i] = found
            self.taken.add(found)
            if self.parts == 2:
                self.images[found] = i
                self.taken.add(i)
        elif self.labels[i] in (NO_PART, MIXED):
            self.images[i] = i

    def exact(self, i: int, others: Sequence[int]) -> int | None:
        """The value of the same operation on the images of the operands."""
        own = self.alike[self.keys[i]]
        if len(own) == len(others):
            found = others[own.index(i)] if len(own) > 1 else others[0]
            return found if found not in self.taken else None
        return self.with_equal_constants(i, others)

    def among_alike(self, i: int) -> int | None:
        """Operands are their own images: values that differ in constants and signs only go by whom they belong to."""
        own = self.alike[self.keys[i]]
        label = _image_label(self.labels[i], self.parts)
        if len(own) == 1 or label == self.labels[i]:
            return i
        before = [m for m in own if self.labels[m] == self.labels[i]]
        after = [m for m in own if self.labels[m] == label]
        if len(before) == len(after):
            return after[before.index(i)]
        found = self.with_equal_constants(i, after)
        if found is None:
            found = self.with_equal_constants(i, [m for m in own if self.labels[m] == NO_PART])
        return i if found is None else found

    def with_equal_constants(self, i: int, others: Sequence[int]) -> int | None:
        """The one of them that has the same constants, but for signs."""
        numbers = self._constants(i)
        same = [m for m in others if m not in self.taken and self._constants(m) == numbers]
        return same[0] if len(same) == 1 else None

    def by_other_operands(self, i: int, value: Signed, images: list[int | None]) -> int | None:
        """The first free value of the other part that agrees in all operands but one, of which nothing is known."""
        label = _image_label(self.labels[i], self.parts)
        known = [(_place(value, j), x) for j, x in enumerate(images) if x is not None]
        numbers = [x for _, x in known if x != _ANY_CONSTANT]
        if len(known) < len(images) - 1 or not numbers:
            return None
        for m in self.users.get((value.operation, numbers[0]), ()):
            if m not in self.taken and self.labels[m] == label and self._agree(m, known):
                return m
        return None

    def _agree(self, m: int, known: Sequence[tuple[int, int]]) -> bool:
        """Whether a value has these operands in these places, and at most one other."""
        other = self.values[m]
        own = [(_place(other, j), x) for j, x in enumerate(self._operand_names(other))]
        shared = sum(operand in own for operand in known)
        return shared >= len(own) - 1

    @property
    def users(self) -> Mapping[tuple[Any, int], list[int]]:
        """Values of parts, by operation and operand."""
        if not self._users:
            for i, value in enumerate(self.values):
                if self.labels[i] > 0:
                    for j in value.operands:
                        self._users.setdefault((value.operation, j), []).append(i)
        return self._users

    def _operand_names(self, value: Signed) -> list[int]:
        return [_ANY_CONSTANT if self.values[j].operation == "const" else j for j in value.operands]

    def _constant(self, i: int) -> bool:
        return bool(self.values[i].operation == "const")

    def _constants(self, i: int) -> list[float]:
        return [abs(self.values[j].content) for j in self.values[i].operands if self._constant(j)]


def _output_images(code: SignedCode, outputs: Sequence[int]) -> dict[int, int]:
    """Values of outputs and of their images."""
    pairs = ((code.outputs[i], code.outputs[j]) for i, j in enumerate(outputs))
    return {a.value: b.value for a, b in pairs if isinstance(a, Term) and isinstance(b, Term)}


def _key(value: Signed, operands: Sequence[int | None]) -> Any:
    """Equal for values of the same operation on the same operands, whatever their order, constants and signs."""
    if value.operation in COMMUTATIVE:
        first, second, *rest = operands
        first, second = sorted((first, second), key=lambda operand: -1 if operand is None else operand)
        return (value.operation, first, second, *rest)
    return (value.operation, *operands)


def _place(value: Signed, number: int) -> int:
    """The place of an operand, the same for those that may change places."""
    return 0 if value.operation in COMMUTATIVE and number < 2 else number


def _image_label(label: int, parts: int) -> int:
    """The label of images."""
    if label in (NO_PART, MIXED):
        return label
    every = (1 << parts) - 1
    return (label << 1 | label >> (parts - 1)) & every


def _labels(values: Sequence[Signed], part: Sequence[int], parts: int) -> list[int]:
    """Which parts each value belongs to, a bit for each; NO_PART or MIXED."""
    made_of: list[int] = []
    for value in values:
        label = NO_PART
        if value.operation == "input":
            label = 1 << part[value.content] if part[value.content] >= 0 else NO_PART
        for j in value.operands:
            below = NO_PART if made_of[j] == MIXED else made_of[j]
            label = below if label == NO_PART else label if below in (NO_PART, label) else MIXED
        made_of.append(label)
    used_by = [0] * len(values)
    every = (1 << parts) - 1
    labels = list(made_of)
    for i in range(len(values) - 1, -1, -1):
        if made_of[i] == NO_PART and values[i].operation not in LEAVES and used_by[i] != every:
            labels[i] = used_by[i]
        own = labels[i] if labels[i] > 0 else used_by[i] if labels[i] == NO_PART else 0
        for j in values[i].operands:
            used_by[j] |= own
    return labels
