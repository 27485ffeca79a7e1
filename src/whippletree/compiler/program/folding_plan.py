"""Which values of straight-line code make rows, when each is computed, and with which sign it is kept.

The plan of :mod:`~whippletree.compiler.program.folding`; nothing here writes code.

Signs are unknowns over two elements. A sum of them is an integer: bit 0 is the constant, bit k the unknown number k.
Equations are solved as they come: each makes its highest unknown a sum of lower ones, or contradicts those before it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from whippletree.arithmetic.trace.signed import LEAVES, Signed, SignedCode
from whippletree.arithmetic.trace.symmetry import COMMUTATIVE
from whippletree.arithmetic.trace.traced import CONDITIONS

NOT_FOLDED = CONDITIONS | {"select", *LEAVES}
"""Operations that stay alone: truth values do not go through memory."""

EVEN, ODD = ("cos", "abs"), ("sin", "tanh")
"""Functions that ignore the sign of their operand, and those that pass it on."""


@dataclass(frozen=True)
class LimbTurning:
    """A symmetry of the inputs of a function: each part takes the place of the next one."""

    parts: int
    inputs: tuple[int, ...]
    """The image of each input."""
    part: tuple[int, ...]
    """The part that each input belongs to, −1 for none."""


class FoldedColumn(NamedTuple):
    """An operand of a row from the table of constants."""

    number: int


class Row(NamedTuple):
    """An operand of a row: another row, in which part k of this one meets part k + shift."""

    number: int
    shift: int


class GatheredLimbs(NamedTuple):
    """An operand of a row: values from anywhere, which are put side by side first."""

    number: int


class Single(NamedTuple):
    """An operand of a row that is the same value for all parts."""

    value: int


Operand: TypeAlias = FoldedColumn | Row | GatheredLimbs | Single


@dataclass
class Folded:
    """One operation for all parts: its values, one per part, and its operands in the order of the first value's."""

    members: tuple[int, ...]
    operands: list[Operand] = field(default_factory=list)
    orders: list[tuple[int, ...]] = field(default_factory=list)
    """For each member, the places of its own operands in that order."""
    turns: list[int | None] = field(default_factory=list)
    """For each operand, the column of signs that it is multiplied with, if any."""
    stage: int = 0


_PLAIN = ((), (0,), (0, 1), (0, 1, 2))
"""Operands of an operation in their order, by their number."""


class FoldingPlan:
    """Rows, what their operands are, the stage of everything, and signs."""

    def __init__(self, code: SignedCode, images: Sequence[int], turning: LimbTurning) -> None:
        self.code = code
        self.values = code.values
        self.operands = [value.operands for value in code.values]
        self.operations = [value.operation for value in code.values]
        self.parts = turning.parts
        self.rows: list[Folded] = []
        self.place: dict[int, tuple[int, int]] = {}
        """Row and part of each value in a row."""
        self.gathered: dict[tuple[int, ...], int] = {}
        self.gather_stage: list[int] = []
        self.columns: list[tuple[int, ...]] = []
        """Constants of the parts, as values."""
        self._find_rows(images, turning)
        self.order = self._order_units()
        self.stage = [0] * len(self.values)
        """Of values alone."""
        for unit in self.order:
            if unit < len(self.values):
                self.stage[unit] = max((self._known_alone(j) for j in self.operands[unit]), default=0)
            else:
                self._place_row(unit - len(self.values))
        self.stages = 1 + max((row.stage for row in self.rows), default=-1)
        """How many loops there are."""
        self.signs = Signs(self)

    @property
    def operations_left(self) -> int:
        written = sum(v.operation not in LEAVES for v in self.values)
        return written - sum(len(row.members) - 1 for row in self.rows)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _find_rows(self, images: Sequence[int], turning: LimbTurning) -> None:
        part_of = [_own_part(value, turning) for value in self.values]
        for i, operation in enumerate(self.operations):
            if images[i] == i or i in self.place or operation in NOT_FOLDED:
                continue
            members = self._orbit(i, images)
            if members is not None:
                # that of part 0 first, as the last operand says that belongs to a part
                part = next((part_of[j] for j in reversed(self.operands[i]) if part_of[j] >= 0), 0)
                self._add_row(members[-part:] + members[:-part] if part else members)
                for number, member in enumerate(members):
                    part_of[member] = (part + number) % self.parts

    def _orbit(self, i: int, images: Sequence[int]) -> tuple[int, ...] | None:
        """A value, its image, the image of that, and so on, if it is a circle of all parts."""
        found = [i]
        for _ in range(self.parts - 1):
            found.append(images[found[-1]])
        # only those that are in no row yet: of two values with one image, one is left alone
        closed = images[found[-1]] == i and len(set(found)) == self.parts
        return tuple(found) if closed and self.place.keys().isdisjoint(found) else None

    def _add_row(self, members: tuple[int, ...]) -> None:
        for part, member in enumerate(members):
            self.place[member] = len(self.rows), part
        self.rows.append(Folded(members))

    def _drop_row(self, number: int) -> None:
        for member in self.rows[number].members:
            del self.place[member]
        self.rows[number] = Folded(())

    # ---- order ---------------------------------------------------------------------------------------------------

    def _order_units(self) -> list[int]:
        """Values alone, and rows (counted from the number of values on), each after what it is made of.

        As near to the order of the code as possible. Rows that would have to wait for each other (their members were
        paired wrongly) are given up.
        """
        order, waiting = self._sort_units()
        while waiting:
            for unit in _in_circles(waiting):
                if unit >= len(self.values):
                    self._drop_row(unit - len(self.values))
            order, waiting = self._sort_units()
        return order

    def _sort_units(self) -> tuple[list[int], dict[int, set[int]]]:
        """Units in order, and those that wait for each other or for such, with what they are made of."""
        size = len(self.values)
        units = [i for i in range(size) if i not in self.place]
        units += [size + r for r, row in enumerate(self.rows) if row.members]
        missing: dict[int, int] = {}
        users: dict[int, list[int]] = {}
        needs: dict[int, set[int]] = {}
        for unit in units:
            needs[unit] = {self._unit(j) for member in self._members(unit) for j in self.operands[member]}
            missing[unit] = len(needs[unit])
            for need in needs[unit]:
                users.setdefault(need, []).append(unit)
        ready = [(self._members(u)[0], u) for u in units if not missing[u]]
        heapq.heapify(ready)
        order = []
        while ready:
            _, unit = heapq.heappop(ready)
            order.append(unit)
            for user in users.get(unit, ()):
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, (self._members(user)[0], user))
        waiting = {u for u in units if missing[u]}
        return order, {u: needs[u] & waiting for u in waiting}

    def _unit(self, value: int) -> int:
        return len(self.values) + self.place[value][0] if value in self.place else value

    def _members(self, unit: int) -> tuple[int, ...]:
        return (unit,) if unit < len(self.values) else self.rows[unit - len(self.values)].members

    # ---- operands and stages -------------------------------------------------------------------------------------

    def _known_alone(self, value: int) -> int:
        """From which stage's code outside of loops on a value is known."""
        if value in self.place:
            return self.rows[self.place[value][0]].stage + 1
        return self.stage[value]

    def _place_row(self, number: int) -> None:
        row = self.rows[number]
        first = row.members[0]
        row.orders = [self._order_of(first, member, part) for part, member in enumerate(row.members)]
        own = [self.operands[m] for m in row.members]
        for j in range(len(own[0])):
            operand, stage = self._operand(tuple([o[order[j]] for o, order in zip(own, row.orders, strict=True)]))
            row.operands.append(operand)
            row.turns.append(None)
            if stage > row.stage:
                row.stage = stage

    def _order_of(self, first: int, member: int, part: int) -> tuple[int, ...]:
        """Places of the member's operands in the order of the first one's, as well as they go together."""
        count = len(self.operands[member])
        plain = _PLAIN[count]
        if member == first or self.operations[member] not in COMMUTATIVE:
            return plain
        (a, b), (own, other) = self.operands[first][:2], self.operands[member][:2]
        as_it_is = self._fit(a, own, part) + self._fit(b, other, part)
        crossed = as_it_is < 2 and self._fit(a, other, part) + self._fit(b, own, part) > as_it_is
        return (1, 0, *plain[2:]) if crossed else plain

    def _fit(self, first: int, other: int, part: int) -> bool:
        if first in self.place and other in self.place:
            (row, at), (own, there) = self.place[first], self.place[other]
            return row == own and (there - at - part) % self.parts == 0
        return first == other or self.operations[first] == self.operations[other] == "const"

    def _operand(self, values: tuple[int, ...]) -> tuple[Operand, int]:
        """Meaning of an operand of a row, and the first stage in whose loop it is known."""
        first = self.place.get(values[0])
        if first is not None:
            row, shift = first
            members = self.rows[row].members
            if values == (members[shift:] + members[:shift] if shift else members):
                return Row(row, shift), self.rows[row].stage + (shift != 0)
        if {self.operations[v] for v in values} == {"const"}:
            self.columns.append(values)
            return FoldedColumn(len(self.columns) - 1), 0
        if len(set(values)) == 1:
            return Single(values[0]), self._known_alone(values[0])
        stage = max(self._known_alone(v) for v in values)
        number = self.gathered.setdefault(values, len(self.gathered))
        if number == len(self.gather_stage):
            self.gather_stage.append(stage)
        return GatheredLimbs(number), stage


def _own_part(leaf: Signed, turning: LimbTurning) -> int:
    """The part that an input or a constant belongs to; −1 for none, and for what is computed."""
    if leaf.operation == "input":
        return turning.part[int(leaf.content)]
    return leaf.signs[1] if leaf.operation == "const" and leaf.signs else -1


def _in_circles(waiting: Mapping[int, set[int]]) -> set[int]:
    """Units that wait for each other, or for some that do and are waited for by others: without what comes after."""
    users = dict.fromkeys(waiting, 0)
    for needs in waiting.values():
        for need in needs:
            users[need] += 1
    left, last = set(waiting), [unit for unit, count in users.items() if not count]
    while last:
        unit = last.pop()
        left.remove(unit)
        for need in waiting[unit]:
            users[need] -= 1
            if not users[need]:
                last.append(need)
    return left


# ---- signs -----------------------------------------------------------------------------------------------------------


class Signs:
    """Which values of the parts are kept as their negatives. Those of part 0 never are."""

    def __init__(self, plan: FoldingPlan) -> None:
        self.plan = plan
        self.parities = Parities()
        self.of_rows: dict[int, list[int]] = {}
        self.of_columns = [self._unknowns() for _ in plan.columns]
        self.of_gathered = [self._unknowns() for _ in plan.gathered]
        self.turns: list[tuple[int, ...]] = []
        """Columns of ±1."""
        size = len(plan.values)
        for unit in plan.order:
            if unit >= size:
                self._row(unit - size)

    def _unknowns(self) -> list[int]:
        return [PLUS, *[self.parities.unknown() for _ in range(self.plan.parts - 1)]]

    def of_value(self, value: int) -> int:
        """The sum of a value in or out of a row."""
        if value in self.plan.place:
            row, part = self.plan.place[value]
            return self.of_rows[row][part]
        return PLUS

    def of_operand(self, operand: Operand, part: int) -> int:
        """The sum of an operand of a row, for a part."""
        # tens of thousands of times: a match statement would take a tenth of the time of folding
        if isinstance(operand, Row):
            return self.of_rows[operand.number][(part + operand.shift) % self.plan.parts]
        if isinstance(operand, FoldedColumn):
            return self.of_columns[operand.number][part]
        return self.of_value(operand.value) if isinstance(operand, Single) else self.of_gathered[operand.number][part]

    def _row(self, number: int) -> None:
        row = self.plan.rows[number]
        first = self.plan.values[row.members[0]]
        terms = _terms(first)
        own = [PLUS] * self.plan.parts
        if first.operation not in EVEN:
            for count, term in enumerate(terms):
                passed_on = count == 0 and (first.signs == () or first.operation in ("add", "fma", *ODD))
                as_it_is = self._term(row, count, term, 0)
                for part in range(1, self.plan.parts):
                    form = self._term(row, count, term, part) ^ as_it_is
                    if passed_on:
                        own[part] = self.parities.reduce_form(form)
                    elif not self.parities.equate(form, own[part]):
                        self._turn(row, term[0], part)
        self.of_rows[number] = own

    def _term(self, row: Folded, count: int, term: tuple[int, ...], part: int) -> int:
        """The sum of a term of a part's value: that of its coefficient and its factors."""
        value, order = self.plan.values[row.members[part]], row.orders[part]
        form = PLUS
        if value.signs:
            # coefficients of a sum follow its operands; a fused product has one for both of its factors
            at = count if value.operation == "fma" else order[term[0]]
            form = MINUS if value.signs[at] < 0 else PLUS
        for j in term:
            form ^= self.of_operand(row.operands[j], part)
        return form

    def _turn(self, row: Folded, j: int, part: int) -> None:
        """Multiply an operand of one part by −1."""
        turn = row.turns[j]
        if turn is None:
            turn = row.turns[j] = len(self.turns)
            self.turns.append((1,) * self.plan.parts)
        self.turns[turn] = tuple(-s if k == part else s for k, s in enumerate(self.turns[turn]))


def _terms(value: Signed) -> list[tuple[int, ...]]:
    """Operands whose product has a sign of its own in an operation."""
    match value.operation:
        case "fma":
            return [(0, 1), (2,)]
        case "mul" | "div":
            return [(0, 1)]
    return [(j,) for j in range(len(value.operands))]


# --- unknown signs that must agree ------------------------------------------------------------------------------------


PLUS, MINUS = 0, 1
"""Sums without unknowns: a value as it is, and its negative."""


class Parities:
    """Unknown signs, and what is known of them."""

    def __init__(self) -> None:
        self._unknowns = 0
        self._solved: dict[int, int] = {}
        """Highest unknown of an equation to all of the equation."""
        self._values: dict[int, int] = {}

    def unknown(self) -> int:
        """A new unknown, as a sum."""
        self._unknowns += 1
        return 1 << self._unknowns

    def reduce_form(self, form: int) -> int:
        """This sum without the unknowns that are known from others."""
        if form <= MINUS:  # most are plain
            return form
        left, kept = form, 0
        while left > 1:
            top = left.bit_length() - 1
            equation = self._solved.get(top)
            if equation is None:
                kept |= 1 << top
                left ^= 1 << top
            else:
                left ^= equation
        return kept | left

    def equate(self, first: int, second: int) -> bool:
        """Demand that two sums are equal; False, and nothing demanded, if that contradicts what is known."""
        form = self.reduce_form(first ^ second)
        if form == MINUS:
            return False
        if form:
            self._solved[form.bit_length() - 1] = form
        return True

    def sign(self, form: int) -> int:
        """+1 or −1: the value of a sum, with every unknown that is left taken as 0."""
        return -1 if self.reduce_form(form) & 1 else 1
