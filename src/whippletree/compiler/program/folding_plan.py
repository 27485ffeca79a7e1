"""Which values of straight-line code make rows, when each is computed, and with which sign it is kept.

The plan of :mod:`~whippletree.compiler.program.folding`; nothing here writes code.

Signs are unknowns over two elements. A sum of them is an integer: bit 0 is the constant, bit k the unknown number k.
Equations are solved as they come: each makes its highest unknown a sum of lower ones, or contradicts those before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.trace.signed import MOST_OPERANDS, SignedCode
from whippletree.arithmetic.trace.symmetry import COMMUTATIVE
from whippletree.arithmetic.trace.traced import CONDITIONS, LEAVES

NOT_FOLDED = CONDITIONS | {"select", *LEAVES}
"""Operations that stay alone: truth values do not go through memory."""

EVEN, ODD = ("cos", "abs"), ("sin", "tanh")
"""Functions that ignore the sign of their operand, and those that pass it on."""

PASSING_ON = ("add", *ODD)
"""Operations with coefficients whose first term decides on the sign of the result."""

_PRODUCTS = ("mul", "div")
"""Operations that have one sign for all their operands; any other but a·b + c has one for each."""


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
    """The operands of a row, in the order of the first value's."""

    operands: list[Operand]
    orders: list[tuple[int, ...]]
    """For each member, the places of its own operands in that order."""
    turns: list[int | None]
    """For each operand, the column of signs that it is multiplied with, if any."""


NO_ROW = -1
"""Stands for the row of a value alone."""

NOBODY = -1
"""Stands for the part of a value that belongs to none."""

_PLAIN: tuple[tuple[int, ...], ...] = ((), (0,), (0, 1), (0, 1, 2))
"""Operands of an operation in their order, by their number."""


class FoldingPlan:
    """Rows, what their operands are, the stage of everything, and signs.

    There are tens of thousands of values and of rows: each thing about them has a list of its own.
    """

    def __init__(
        self, code: SignedCode, images: Sequence[int], turning: LimbTurning, foldable: Collection[str] | None = None
    ) -> None:
        """``foldable``: the operations that may make rows; None for all but :data:`NOT_FOLDED`."""
        self.code = code
        self.foldable = foldable
        self.operations, self.operands = code.operations, code.operands
        self.parts = turning.parts
        self.members: list[tuple[int, ...]] = []
        """The values of each row, one per part; none of a row that was given up."""
        self.row_of: list[int] = []
        """The row of each value, if it is in one,"""
        self.part_of = _parts_of_leaves(code, turning)
        """and its part; of a value alone, the part that it belongs to, NOBODY for none."""
        self.gathered: dict[tuple[int, ...], int] = {}
        self.gather_stage: list[int] = []
        self.columns: list[tuple[int, ...]] = []
        """Constants of the parts, as values."""
        self._find_rows(images)
        self.own: list[tuple[int, ...] | None] = []
        """Of each row the rows that its operands are, part by part; None if they are anything else,"""
        self.folded: dict[int, Folded] = {}
        """which is here then."""
        self.order = self._order_units()
        self.stage = [0] * len(self.operations)
        """From which stage's code outside of loops on a value is known; values alone are computed there."""
        self.row_stage = [0] * len(self.members)
        """The stage in whose loop a row is computed."""
        self._place_units()
        self.stages = 1 + max(self.row_stage, default=-1)
        """How many loops there are."""
        self.signs = Signs(self)

    @property
    def operations_left(self) -> int:
        written = len(self.operations) - len(self.code.contents)
        return written - sum(len(members) - 1 for members in self.members if members)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _find_rows(self, images: Sequence[int]) -> None:
        circles = self._circles(np.array(images))
        part_of, operands, parts = self.part_of, self.operands, self.parts
        firsts: list[int] = []
        for circle in circles.tolist():
            # that of part 0 first, as the last operand says that belongs to a part
            part = 0
            for j in operands[circle[0]]:
                if part_of[j] >= 0:
                    part = part_of[j]
            firsts.append(-part % parts)
            for number, member in enumerate(circle, start=part):
                part_of[member] = number % parts
        places = (np.array(firsts, dtype=np.int64)[:, None] + np.arange(parts)) % parts
        members = np.take_along_axis(circles, places, axis=1)
        row_of = np.full(len(self.operations), NO_ROW)
        row_of[members] = np.arange(len(members))[:, None]
        self.row_of, self.members = row_of.tolist(), list(map(tuple, members.tolist()))

    def _circles(self, images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Values, their images, the images of those, and so on (rows, parts), where that is a circle of all parts."""
        folds = {operation: self._folds(operation) for operation in dict.fromkeys(self.operations)}
        first = np.flatnonzero(list(map(folds.__getitem__, self.operations)))
        found = [first]
        for _ in range(self.parts - 1):
            found.append(images[found[-1]])
        circles: np.ndarray[Any, Any] = np.stack(found, axis=1)
        closed = (images[found[-1]] == first) & np.all(circles[:, 1:] > first[:, None], axis=1)
        return circles[np.flatnonzero(closed)]

    def _folds(self, operation: Any) -> bool:
        """Whether values of an operation may make rows."""
        return operation not in NOT_FOLDED and (self.foldable is None or operation in self.foldable)

    def _drop_row(self, number: int) -> None:
        for member in self.members[number]:
            self.row_of[member] = NO_ROW
        self.members[number] = ()

    # ---- order ---------------------------------------------------------------------------------------------------

    def _order_units(self) -> list[int]:
        """Values alone, and rows (counted from the number of values on), each after what it is made of.

        As near to the order of the code as possible. Rows that would have to wait for each other (their members were
        paired wrongly) are given up.
        """
        while True:
            self._find_operand_rows()
            order, circle = self._sort_units()
            if not circle:
                return order
            for unit in circle:
                if unit >= len(self.operations):
                    self._drop_row(unit - len(self.operations))

    def _sort_units(self) -> tuple[list[int], list[int]]:
        """Units in order; or some that wait for each other, if there are any."""
        size = len(self.operations)
        units = [size + r if r != NO_ROW else i for i, r in enumerate(self.row_of)]
        begun, done = 1, 2
        state = bytearray(size + len(self.members))
        order: list[int] = []
        for first, waits in self._first_values():
            unit = units[first]
            if state[unit]:
                continue
            if not waits:
                state[unit] = done
                order.append(unit)
                continue
            path = [unit]
            while path:
                unit = path[-1]
                if state[unit] == done:
                    path.pop()
                    continue
                missing = [need for need in self._needs(unit, units) if state[need] != done]
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

    def _first_values(self) -> Iterator[tuple[int, bool]]:
        """The first value of each unit, in order, and whether the unit needs one that begins after it."""
        begins = np.arange(len(self.operations))
        rows = np.array([members for members in self.members if members], dtype=np.int64).reshape(-1, self.parts)
        begins[rows] = rows.min(axis=1, keepdims=True)
        needed = np.where(self.code.table < 0, -1, begins[self.code.table])
        waiting = np.zeros(len(begins), dtype=bool)
        waiting[begins[np.any(needed >= begins[:, None], axis=1)]] = True
        first = np.flatnonzero(begins == np.arange(len(begins)))
        return zip(first.tolist(), waiting[first].tolist(), strict=True)

    def _needs(self, unit: int, units: Sequence[int]) -> list[int]:
        """What a unit is made of."""
        size = len(self.operations)
        if unit < size:
            return [units[j] for j in self.operands[unit]]
        own = self.own[unit - size]
        if own is not None:
            return [size + number for number in own]
        return [units[j] for m in self.members[unit - size] for j in self.operands[m]]

    # ---- operands and stages -------------------------------------------------------------------------------------

    def _find_operand_rows(self) -> None:
        """Find the rows whose operands are rows, part by part. For all at once."""
        members = np.array([m or (0,) * self.parts for m in self.members], dtype=np.int64).reshape(-1, self.parts)
        row_of, part_of = np.array(self.row_of), np.array(self.part_of)
        operands = self.code.table[members]
        absent = operands[:, 0] < 0
        numbers = row_of[operands[:, 0]]
        own = (row_of[operands] == numbers[:, None]) & (part_of[operands] == np.arange(self.parts)[:, None])
        is_own = np.all(absent | ((numbers != NO_ROW) & np.all(own, axis=1)), axis=1)
        counts = MOST_OPERANDS - np.count_nonzero(absent, axis=1)
        columns = zip(is_own.tolist(), counts.tolist(), map(tuple, numbers.tolist()), strict=True)
        self.own = [(own if count == MOST_OPERANDS else own[:count]) if fits else None for fits, count, own in columns]

    def _place_units(self) -> None:
        """Say in which stage everything is, and what the operands of rows are."""
        size, operands, own = len(self.operations), self.operands, self.own
        stage, row_stage = self.stage, self.row_stage
        for unit in self.order:
            if unit < size:
                stage[unit] = max([stage[j] for j in operands[unit]], default=0)
                continue
            number = unit - size
            rows = own[number]
            first = max([row_stage[r] for r in rows]) if rows is not None else self._fold(number)
            row_stage[number] = first
            for member in self.members[number]:
                stage[member] = first + 1

    def _fold(self, number: int) -> int:
        """Say what the operands of a row are that are not all rows part by part, in another order where that leaves
        fewer of them to be put side by side; the first stage in whose loop all of them are known."""
        members = self.members[number]
        given = [self.operands[m] for m in members]
        across = list(zip(*given, strict=True))
        orders = [_PLAIN[len(across)]] * self.parts
        found = list(map(self._operand, across))
        if self.operations[members[0]] in COMMUTATIVE and (found[0] is None or found[1] is None):
            orders = [self._order_of(members[0], member, part) for part, member in enumerate(members)]
            across = [tuple([o[p[j]] for o, p in zip(given, orders, strict=True)]) for j in range(len(across))]
            found = list(map(self._operand, across))
        operands: list[Operand] = []
        first = 0
        for values, known in zip(across, found, strict=True):
            operand, stage = self._gather(values) if known is None else known
            if isinstance(operand, FoldedColumn):
                operand = FoldedColumn(len(self.columns))
                self.columns.append(values)
            operands.append(operand)
            first = max(first, stage)
        self.folded[number] = Folded(operands, orders, [None] * len(operands))
        return first

    def _operand(self, values: tuple[int, ...]) -> tuple[Operand, int] | None:
        """Meaning of operands of the members of a row, and the first stage in whose loop they are known.

        None if they are no row, no constants (whose column has no number yet) and not one value.
        """
        value = values[0]
        number = self.row_of[value]
        if number != NO_ROW:
            shift, members = self.part_of[value], self.members[number]
            if values == (members[shift:] + members[:shift] if shift else members):
                return Row(number, shift), self.row_stage[number] + (shift != 0)
        elif self.operations[value] == "const" and all(self.operations[v] == "const" for v in values):
            return FoldedColumn(NO_ROW), 0
        return (Single(value), self.stage[value]) if values.count(value) == len(values) else None

    def _gather(self, values: tuple[int, ...]) -> tuple[Operand, int]:
        """Values of anywhere that are put side by side, and the first stage in whose loop they are."""
        stage = max(self.stage[v] for v in values)
        number = self.gathered.setdefault(values, len(self.gathered))
        if number == len(self.gather_stage):
            self.gather_stage.append(stage)
        return GatheredLimbs(number), stage

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


def _parts_of_leaves(code: SignedCode, turning: LimbTurning) -> list[int]:
    """The part that each input or constant belongs to; NOBODY for none, and for what is computed."""
    parts = [NOBODY] * len(code.operations)
    for i, content in code.contents.items():
        if code.operations[i] == "input":
            parts[i] = turning.part[content]
        elif code.signs[i]:
            parts[i] = code.signs[i][1]
    return parts


# ---- signs -----------------------------------------------------------------------------------------------------------


class Signs:
    """Which values of the parts are kept as their negatives. Those of part 0 never are."""

    def __init__(self, plan: FoldingPlan) -> None:
        # not the plan itself, which knows its signs: of such circles memory is freed late, by looking for them
        self.parts, self.members, self.own, self.folded = plan.parts, plan.members, plan.own, plan.folded
        self.operations, self.coefficients = plan.operations, plan.code.signs
        self.row_of, self.part_of = plan.row_of, plan.part_of
        self.parities = Parities()
        self._all_plus = [PLUS] * self.parts
        self.of_rows = [self._all_plus] * len(self.members)
        self.of_columns = [self._unknowns() for _ in plan.columns]
        self.of_gathered = [self._unknowns() for _ in plan.gathered]
        self.turns: list[tuple[int, ...]] = []
        """Columns of ±1."""
        # where all rows are alike all parts keep all values as they are, which is what the equations would say
        if not all(map(self._is_alike, range(len(self.members)))):
            size = len(plan.operations)
            for unit in plan.order:
                if unit >= size:
                    self._place(unit - size)

    def _is_alike(self, number: int) -> bool:
        """Whether the members of a row have the same coefficients."""
        members = self.members[number]
        if not members or not (first := self.coefficients[members[0]]):
            return True
        folded = self.folded.get(number)
        if folded is None or self.operations[members[0]] == "fma" or folded.orders[0] is folded.orders[-1]:
            return [self.coefficients[m] for m in members].count(first) == len(members)
        signs = [[self.coefficients[m][j] for j in o] for m, o in zip(members, folded.orders, strict=True)]
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

    def _place(self, number: int) -> None:
        """Say with which signs a row is kept."""
        own = self.own[number]
        if own is None:
            folded = self.folded[number]
            self._solve(number, [self.of_operand(operand) for operand in folded.operands], folded.orders)
            return
        given = [self.of_rows[r] for r in own]
        # of most rows nothing is turned
        if given.count(self._all_plus) < len(given) or not self._is_alike(number):
            self._solve(number, given, [_PLAIN[len(given)]] * self.parts)

    def _solve(self, number: int, given: Sequence[list[int]], orders: Sequence[tuple[int, ...]]) -> None:
        """Solve the equations of a row whose operands have these sums."""
        members = self.members[number]
        operation = self.operations[members[0]]
        if operation in EVEN:
            return
        if operation == "fma":
            self._solve_fused(number, given)
            return
        own = [PLUS] * self.parts
        if operation in _PRODUCTS:
            a, b = given
            reduce = self.parities.reduce_form
            own = [reduce(x ^ a[0] ^ y ^ b[0]) for x, y in zip(a, b, strict=True)]
            self.of_rows[number] = own
            return
        for j, sums in enumerate(given):
            for part in range(1, self.parts):
                form = sums[part] ^ sums[0] ^ self._coefficient(members, j, orders, part)
                if j == 0 and operation in PASSING_ON:
                    own[part] = self.parities.reduce_form(form)
                elif form != own[part] and not self.parities.equate(form, own[part]):
                    self._turn(number, j, part)
        if any(own):
            self.of_rows[number] = own

    def _coefficient(self, members: Sequence[int], j: int, orders: Sequence[tuple[int, ...]], part: int) -> int:
        """How the coefficient of an operand, which it follows, in one part differs from that in the first."""
        first, member = self.coefficients[members[0]], self.coefficients[members[part]]
        return MINUS if first and first[orders[0][j]] != member[orders[part][j]] else PLUS

    def _solve_fused(self, number: int, given: Sequence[list[int]]) -> None:
        """Signs of a·b + c, which most rows are: one coefficient for both factors, whose order is all one."""
        members, coefficients = self.members[number], self.coefficients
        a, b, c = given
        first = coefficients[members[0]]
        own = [PLUS] * self.parts
        for part in range(1, self.parts):
            member = coefficients[members[part]]
            product = a[part] ^ a[0] ^ b[part] ^ b[0] ^ (PLUS if member[0] == first[0] else MINUS)
            rest = c[part] ^ c[0] ^ (PLUS if member[1] == first[1] else MINUS)
            own[part] = product if product <= MINUS else self.parities.reduce_form(product)
            if rest != own[part] and not self.parities.equate(rest, own[part]):
                self._turn(number, 2, part)
        if any(own):
            self.of_rows[number] = own

    def _turn(self, number: int, j: int, part: int) -> None:
        """Multiply an operand of one part of a row by −1."""
        folded = self.folded.get(number)
        if folded is None:
            own = self.own[number]
            assert own is not None
            plain = [_PLAIN[len(own)]] * self.parts
            folded = self.folded[number] = Folded([Row(r, 0) for r in own], plain, [None] * len(own))
            self.own[number] = None
        turn = folded.turns[j]
        if turn is None:
            turn = folded.turns[j] = len(self.turns)
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
