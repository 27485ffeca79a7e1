"""Which values of straight-line code make rows, when each is computed, and with which sign it is kept.

The plan of :mod:`~whippletree.compiler.program.folding`; nothing here writes code.

Signs are unknowns over two elements. A sum of them is an integer: bit 0 is the constant, bit k the unknown number k.
Equations are solved as they come: each makes its highest unknown a sum of lower ones, or contradicts those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.trace.signed import LEAVES, Signed, SignedCode
from whippletree.arithmetic.trace.symmetry import COMMUTATIVE
from whippletree.arithmetic.trace.traced import CONDITIONS

NOT_FOLDED = CONDITIONS | {"select", *LEAVES}
"""Operations that stay alone: truth values do not go through memory."""

EVEN, ODD = ("cos", "abs"), ("sin", "tanh")
"""Functions that ignore the sign of their operand, and those that pass it on."""

PASSING_ON = ("add", "fma", *ODD)
"""Operations with coefficients whose first term decides on the sign of the result."""

_TERMS: dict[Any, list[tuple[int, ...]]] = {"fma": [(0, 1), (2,)], "mul": [(0, 1)], "div": [(0, 1)]}
"""Operands whose product has a sign of its own in an operation; of any other, each operand."""


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


NO_ROW = -1
"""Stands for the row of a value alone."""

_PLAIN: tuple[tuple[int, ...], ...] = ((), (0,), (0, 1), (0, 1, 2))
"""Operands of an operation in their order, by their number."""

MOST_OPERANDS = 3
"""Operands that an operation has at most."""


class FoldingPlan:
    """Rows, what their operands are, the stage of everything, and signs."""

    def __init__(self, code: SignedCode, images: Sequence[int], turning: LimbTurning) -> None:
        self.code = code
        self.values = code.values
        self.operands = [value.operands for value in code.values]
        self.operations = [value.operation for value in code.values]
        self.parts = turning.parts
        self.rows: list[Folded] = []
        self.row_of = [NO_ROW] * len(self.values)
        """The row of each value, if it is in one,"""
        self.part_of = [_own_part(value, turning) for value in self.values]
        """and its part; of a value alone, the part that it belongs to, −1 for none."""
        self.gathered: dict[tuple[int, ...], int] = {}
        self.gather_stage: list[int] = []
        self.columns: list[tuple[int, ...]] = []
        """Constants of the parts, as values."""
        self._find_rows(images)
        self.order = self._order_units()
        self.stage = [0] * len(self.values)
        """From which stage's code outside of loops on a value is known; values alone are computed there."""
        self._plain_orders = [[plain] * self.parts for plain in _PLAIN]
        found, size = self._find_operand_rows(), len(self.values)
        for unit in self.order:
            if unit < size:
                self.stage[unit] = max([self.stage[j] for j in self.operands[unit]], default=0)
            else:
                number = unit - size
                count = len(self.operands[self.rows[number].members[0]])
                self._place_row(number, [known[number] for known in found[:count]])
        self.stages = 1 + max((row.stage for row in self.rows), default=-1)
        """How many loops there are."""
        self.signs = Signs(self)

    @property
    def operations_left(self) -> int:
        written = sum(v.operation not in LEAVES for v in self.values)
        return written - sum(len(row.members) - 1 for row in self.rows if row.members)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _find_rows(self, images: Sequence[int]) -> None:
        part_of, row_of = self.part_of, self.row_of
        for i, operation in enumerate(self.operations):
            if images[i] == i or row_of[i] != NO_ROW or operation in NOT_FOLDED:
                continue
            members = self._orbit(i, images)
            if members is not None:
                part = 0
                for j in self.operands[i]:
                    if part_of[j] >= 0:
                        part = part_of[j]
                # that of part 0 first, as the last operand says that belongs to a part
                members = members[-part:] + members[:-part] if part else members
                for number, member in enumerate(members):
                    row_of[member] = len(self.rows)
                    part_of[member] = number
                self.rows.append(Folded(members))

    def _orbit(self, i: int, images: Sequence[int]) -> tuple[int, ...] | None:
        """A value, its image, the image of that, and so on, if it is a circle of all parts."""
        found, following = [i], images[i]
        # only those that are in no row yet: of two values with one image, one is left alone
        while following != i and len(found) < self.parts and self.row_of[following] == NO_ROW:
            found.append(following)
            following = images[following]
        return tuple(found) if following == i and len(found) == self.parts else None

    def _drop_row(self, number: int) -> None:
        for member in self.rows[number].members:
            self.row_of[member] = NO_ROW
        self.rows[number] = Folded(())

    # ---- order ---------------------------------------------------------------------------------------------------

    def _order_units(self) -> list[int]:
        """Values alone, and rows (counted from the number of values on), each after what it is made of.

        As near to the order of the code as possible. Rows that would have to wait for each other (their members were
        paired wrongly) are given up.
        """
        while True:
            order, circle = self._sort_units()
            if not circle:
                return order
            for unit in circle:
                if unit >= len(self.values):
                    self._drop_row(unit - len(self.values))

    def _sort_units(self) -> tuple[list[int], list[int]]:
        """Units in order; or some that wait for each other, if there are any."""
        units = [len(self.values) + r if r != NO_ROW else i for i, r in enumerate(self.row_of)]
        begun, done = 1, 2
        state = bytearray(len(self.values) + len(self.rows))
        order: list[int] = []
        for first in units:
            path = [first] if not state[first] else []
            while path:
                unit = path[-1]
                if state[unit] == done:
                    path.pop()
                    continue
                missing = [
                    need for m in self._members(unit) for j in self.operands[m] if state[need := units[j]] != done
                ]
                if not missing:
                    state[unit] = done
                    order.append(unit)
                    path.pop()
                    continue
                # only units that the one in hand is needed for have begun and are not done
                state[unit] = begun
                for need in missing:
                    if state[need] == begun:
                        return [], [u for u in path[path.index(need) :] if state[u] == begun]
                path += reversed(missing)
        return order, []

    def _members(self, unit: int) -> tuple[int, ...]:
        return (unit,) if unit < len(self.values) else self.rows[unit - len(self.values)].members

    # ---- operands and stages -------------------------------------------------------------------------------------

    def _find_operand_rows(self) -> list[list[Row | None]]:
        """For the first, second and third operand: of every row, the row that its members' operands are, if any.

        For all rows at once: they are tens of thousands.
        """
        members = np.array([row.members or (0,) * self.parts for row in self.rows], dtype=np.int64)
        members = members.reshape(-1, self.parts)
        counts = np.fromiter(map(len, self.operands), dtype=np.int64, count=len(self.operands))
        starts = np.cumsum(counts) - counts
        flat = np.fromiter(chain.from_iterable(self.operands), dtype=np.int64)
        row_of, part_of = np.array(self.row_of), np.array(self.part_of)
        as_it_is = [Row(number, 0) for number in range(len(self.rows))]
        found: list[list[Row | None]] = []
        for place in range(MOST_OPERANDS):
            has = counts[members[:, 0]] > place
            values = flat[np.where(has[:, None], starts[members] + place, 0)]
            numbers, shifts = row_of[values[:, 0]], part_of[values[:, 0]]
            turned = (part_of[values] - np.arange(self.parts)) % self.parts == shifts[:, None]
            is_row = has & (numbers != NO_ROW) & np.all((row_of[values] == numbers[:, None]) & turned, axis=1)
            columns = zip(is_row.tolist(), numbers.tolist(), shifts.tolist(), strict=True)
            found.append([(Row(n, shift) if shift else as_it_is[n]) if fits else None for fits, n, shift in columns])
        return found

    def _place_row(self, number: int, found: Sequence[Row | None]) -> None:
        """Say what the operands of a row are, of which some are known to be rows, and in which stage it is."""
        row, rows = self.rows[number], self.rows
        row.orders = self._plain_orders[len(found)]
        if None in found:
            found = self._place_others(row, found)
        else:
            row.operands = list(found)  # type: ignore[arg-type]
        for other in found:
            if other is not None:
                row.stage = max(row.stage, rows[other.number].stage + (other.shift != 0))
        row.turns = [None] * len(found)
        for member in row.members:
            self.stage[member] = row.stage + 1

    def _place_others(self, row: Folded, found: Sequence[Row | None]) -> Sequence[Row | None]:
        """Operands of a row with those that are no rows, in another order where that makes more of them rows."""
        own = [self.operands[m] for m in row.members]
        across = list(zip(*own, strict=True))
        first = row.members[0]
        if self.operations[first] in COMMUTATIVE and not all(map(self._goes_together, across[:2], found)):
            row.orders = [self._order_of(first, member, part) for part, member in enumerate(row.members)]
            across = [tuple([o[p[j]] for o, p in zip(own, row.orders, strict=True)]) for j in range(len(across))]
            found = [self._as_row(values) for values in across]
        for values, other in zip(across, found, strict=True):
            operand, known = self._operand(values) if other is None else (other, 0)
            row.operands.append(operand)
            row.stage = max(row.stage, known)
        return found

    def _as_row(self, values: tuple[int, ...]) -> Row | None:
        """These operands of the members of a row, if they are a row."""
        number = self.row_of[values[0]]
        if number == NO_ROW:
            return None
        shift, members = self.part_of[values[0]], self.rows[number].members
        return Row(number, shift) if values == (members[shift:] + members[:shift] if shift else members) else None

    def _goes_together(self, values: tuple[int, ...], row: Row | None) -> bool:
        """Whether these operands of the members of a row are a row, or constants, or one value."""
        return row is not None or len(set(values)) == 1 or {self.operations[v] for v in values} == {"const"}

    def _order_of(self, first: int, member: int, part: int) -> tuple[int, ...]:
        """Places of the member's operands in the order of the first one's, as well as they go together."""
        plain = _PLAIN[len(self.operands[member])]
        (a, b), (own, other) = self.operands[first][:2], self.operands[member][:2]
        as_it_is = self._fit(a, own, part) + self._fit(b, other, part)
        crossed = as_it_is < 2 and self._fit(a, other, part) + self._fit(b, own, part) > as_it_is
        return (1, 0, *plain[2:]) if crossed else plain

    def _fit(self, first: int, other: int, part: int) -> bool:
        if self.row_of[first] != NO_ROW and self.row_of[other] != NO_ROW:
            turned = (self.part_of[other] - self.part_of[first] - part) % self.parts
            return self.row_of[first] == self.row_of[other] and turned == 0
        return first == other or self.operations[first] == self.operations[other] == "const"

    def _operand(self, values: tuple[int, ...]) -> tuple[Operand, int]:
        """Meaning of an operand of a row that is no row, and the first stage in whose loop it is known."""
        if {self.operations[v] for v in values} == {"const"}:
            self.columns.append(values)
            return FoldedColumn(len(self.columns) - 1), 0
        if len(set(values)) == 1:
            return Single(values[0]), self.stage[values[0]]
        stage = max(self.stage[v] for v in values)
        number = self.gathered.setdefault(values, len(self.gathered))
        if number == len(self.gather_stage):
            self.gather_stage.append(stage)
        return GatheredLimbs(number), stage


def _own_part(leaf: Signed, turning: LimbTurning) -> int:
    """The part that an input or a constant belongs to; −1 for none, and for what is computed."""
    if leaf.operation == "input":
        return turning.part[int(leaf.content)]
    return leaf.signs[1] if leaf.operation == "const" and leaf.signs else -1


# ---- signs -----------------------------------------------------------------------------------------------------------


class Signs:
    """Which values of the parts are kept as their negatives. Those of part 0 never are."""

    def __init__(self, plan: FoldingPlan) -> None:
        # not the plan itself, which knows its signs: of such circles memory is freed late, by looking for them
        self.parts, self.values, self.rows = plan.parts, plan.values, plan.rows
        self.row_of, self.part_of = plan.row_of, plan.part_of
        self.parities = Parities()
        self.of_rows: dict[int, list[int]] = {}
        self.of_columns = [self._unknowns() for _ in plan.columns]
        self.of_gathered = [self._unknowns() for _ in plan.gathered]
        self.turns: list[tuple[int, ...]] = []
        """Columns of ±1."""
        if all(map(self._is_alike, self.rows)):
            # then all parts keep all values as they are, which is what the equations would say
            self.of_rows = dict.fromkeys(range(len(self.rows)), [PLUS] * self.parts)
            return
        size = len(plan.values)
        for unit in plan.order:
            if unit >= size:
                self._row(unit - size)

    def _is_alike(self, row: Folded) -> bool:
        """Whether the members of a row have the same coefficients."""
        if not row.members or not (first := self.values[row.members[0]]).signs:
            return True
        if first.operation == "fma" or row.orders[0] is row.orders[-1]:
            return all(self.values[m].signs == first.signs for m in row.members)
        signs = [[self.values[m].signs[j] for j in o] for m, o in zip(row.members, row.orders, strict=True)]
        return all(own == signs[0] for own in signs)

    def _unknowns(self) -> list[int]:
        return [PLUS, *[self.parities.unknown() for _ in range(self.parts - 1)]]

    def of_value(self, value: int) -> int:
        """The sum of a value in or out of a row."""
        row = self.row_of[value]
        return PLUS if row == NO_ROW else self.of_rows[row][self.part_of[value]]

    def of_operand(self, operand: Operand) -> list[int]:
        """The sums of an operand of a row, for every part."""
        # tens of thousands of times: a match statement would take a tenth of the time of folding
        if isinstance(operand, Row):
            sums, shift = self.of_rows[operand.number], operand.shift
            return sums[shift:] + sums[:shift] if shift else sums
        if isinstance(operand, FoldedColumn):
            return self.of_columns[operand.number]
        if isinstance(operand, Single):
            return [self.of_value(operand.value)] * self.parts
        return self.of_gathered[operand.number]

    def _row(self, number: int) -> None:
        row = self.rows[number]
        first = self.values[row.members[0]]
        own = [PLUS] * self.parts
        if first.operation not in EVEN:
            given = [self.of_operand(operand) for operand in row.operands]
            passes_on = first.signs == () or first.operation in PASSING_ON
            for count, term in enumerate(_TERMS.get(first.operation) or [(j,) for j in range(len(given))]):
                for part in range(1, self.parts):
                    form = self._form(row, count, term, given, part)
                    if passes_on and count == 0:
                        own[part] = self.parities.reduce_form(form)
                    elif form != own[part] and not self.parities.equate(form, own[part]):
                        self._turn(row, term[0], part)
        self.of_rows[number] = own

    def _form(self, row: Folded, count: int, term: tuple[int, ...], given: Sequence[list[int]], part: int) -> int:
        """The sum by which a term of a row differs in one part from the first: of its coefficient and its factors."""
        form = PLUS
        for j in term:
            form ^= given[j][part] ^ given[j][0]
        first, member = self.values[row.members[0]], self.values[row.members[part]]
        if not first.signs:
            return form
        if first.operation == "fma":  # one coefficient for both factors of its product
            return form if first.signs[count] == member.signs[count] else MINUS ^ form
        # coefficients of a sum follow its operands
        own, others = first.signs[row.orders[0][term[0]]], member.signs[row.orders[part][term[0]]]
        return form if own == others else MINUS ^ form

    def _turn(self, row: Folded, j: int, part: int) -> None:
        """Multiply an operand of one part by −1."""
        turn = row.turns[j]
        if turn is None:
            turn = row.turns[j] = len(self.turns)
            self.turns.append((1,) * self.parts)
        self.turns[turn] = tuple(-s if k == part else s for k, s in enumerate(self.turns[turn]))


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
        return 1 - 2 * (form if form <= MINUS else self.reduce_form(form) & 1)
