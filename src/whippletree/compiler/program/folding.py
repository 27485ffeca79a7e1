"""Straight-line code with a symmetry as a program of loops: limbs that do the same are compiled once.

Values that are each other's images (:mod:`whippletree.arithmetic.trace.symmetry`) make a *row*: one value per part. A
row of one operation on rows is computed by one piece of code in a loop over the parts, with the constants of each part
from a table. Everything else (the base, sums over limbs, what differs between limbs) stays straight-line code, *alone*.
The program alternates,

    stage 0: alone, then the loop over parts;  stage 1: alone, loop;  …;  outputs

and a value is computed in the first stage in which its operands are there: kinematics and the pass inwards of all
limbs, the base, the pass outwards of all limbs. Between stages values wait in work space: a line per part for rows, one
place each for the others.

Mirrored limbs differ in signs. The values of a row may be the negatives of what the code says, in all parts but the
first: which of them are, follows from the operations (equations over two elements), where constants may take either
sign. Where the equations contradict each other an operand is multiplied by ±1 from the table. All of it is exact: a
result has the bits of the straight-line code, but for the sign of a zero that is a difference of equal numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from whippletree.arithmetic.trace import Straight
from whippletree.arithmetic.trace.passes import live
from whippletree.arithmetic.trace.signed import Emitter, Term, set_signs_apart
from whippletree.arithmetic.trace.symmetry import find_images
from whippletree.arithmetic.trace.traced import CONDITIONS, LEAVES
from whippletree.compiler.program.check import PLAIN_OPERATIONS
from whippletree.compiler.program.folding_plan import (
    NO_ROW,
    Folded,
    FoldedColumn,
    FoldingPlan,
    GatheredLimbs,
    LimbTurning,
    Operand,
    Row,
    Single,
)
from whippletree.compiler.program.program import (
    Address,
    Block,
    Buffer,
    Index,
    Lookup,
    Loop,
    Program,
    Statement,
    every_address,
)
from whippletree.compiler.program.shared_outputs import straight_program

WORTH_FOLDING = 1500
"""Operations from which straight-line code is folded: less compiles in a tenth of a second."""

MOST_LEFT = 0.7
"""Code is folded if at most this share of its operations is left."""

WORTH_SIDE_BY_SIDE, MOST_LEFT_BESIDE = 150, 0.85
"""Those for parts that are computed side by side, where folding saves time and not only code."""

MOST_STAGES = 10
"""More stages than this move more numbers through memory than folding saves."""


@dataclass(frozen=True)
class Folding:
    """Straight-line code as loops over the parts of a symmetry."""

    plan: FoldingPlan
    inputs: Sequence[Buffer]
    outputs: Sequence[Buffer]
    beside: bool = False
    """Whether parts are computed side by side where one state is computed alone."""

    @property
    def operations_left(self) -> int:
        """How many operations are written: those of rows once, and everything else."""
        return self.plan.operations_left

    def program(self, name: str) -> Program:
        """Loops over the parts."""
        return Writing(name, self.plan, self.inputs, self.outputs, self.beside).program()

    def straight_program(self, name: str) -> Program:
        """These operations one after the other, in one block: the same bits, to the sign of every zero."""
        return straight_program(name, unrolled_code(self.plan), self.inputs, self.outputs)


def fold_code(
    code: Straight, inputs: Sequence[Buffer], outputs: Sequence[Buffer], turning: LimbTurning
) -> Folding | None:
    """Fold code that reads inputs and writes outputs whole, in row-major order; None if it does not pay."""
    operations = code.operations
    if operations < WORTH_FOLDING:
        return None
    apart = set_signs_apart(code)
    plan = FoldingPlan(apart, find_images(apart, turning.inputs, turning.parts), turning)
    if plan.operations_left > MOST_LEFT * operations or plan.stages > MOST_STAGES:
        return None
    return Folding(plan, inputs, outputs)


def fold_beside(
    code: Straight, inputs: Sequence[Buffer], outputs: Sequence[Buffer], turning: LimbTurning
) -> Folding | None:
    """Like :func:`fold_code`, but for code that one state computes alone: parts are the lanes of a vector, so that
    whatever is written once is done once. None if that does not pay."""
    if code.operations < WORTH_SIDE_BY_SIDE:
        return None
    apart = set_signs_apart(code)
    plan = FoldingPlan(apart, find_images(apart, turning.inputs, turning.parts), turning, PLAIN_OPERATIONS)
    if plan.operations_left > MOST_LEFT_BESIDE * code.operations or plan.stages > MOST_STAGES:
        return None
    # values that are put side by side first, and results that are read from there, cost as much as they save
    moved = plan.parts * len(plan.gathered)
    moved += sum(isinstance(term, Term) and plan.row_of[term.value] != NO_ROW for term in apart.outputs)
    if plan.operations_left + moved > code.operations:
        return None
    return Folding(plan, inputs, outputs, beside=True)


# --- the code of folded values: blocks, loops over parts, and where numbers wait between them -------------------------


MANY_RESULTS = 300
"""Results from which all of them wait in work space and are copied from there by a block of its own, which back ends
write as a list of places: the matrices of a humanoid's derivatives have thousands."""

PART = "part"
"""Counter of the loops over parts."""

NUMBERS, SHIFTS, ROWS, GATHERED, SINGLES = "part_numbers", "part_shifts", "part_rows", "part_gathered", "part_singles"
"""Buffers: the constants of the parts, the numbers of parts shifted; values in rows, put side by side, and alone, of a
stage each."""


Result: TypeAlias = tuple[Address, Term | float]
"""A place of an output, and what goes there."""


class Writing:
    """Writes the blocks of all stages."""

    def __init__(
        self, name: str, plan: FoldingPlan, inputs: Sequence[Buffer], outputs: Sequence[Buffer], beside: bool = False
    ) -> None:
        """``beside``: what parts have in common lies side by side, and so are they computed."""
        self.name = name
        self.beside = beside
        self.plan = plan
        self.signs = plan.signs
        self.inputs, self.outputs = inputs, outputs
        self.input_places = [address for buffer in inputs for address in every_address(buffer)]
        self.table: list[list[float]] = []
        self.table_columns: dict[tuple[float, ...], int] = {}
        self.singles: dict[int, int] = {}
        """Places of values alone, among those of their stage."""
        self.single_counts = [0] * (plan.stages + 1)
        self.gathered: list[int] = []
        """Places of values put side by side, likewise."""
        self.gathered_counts = [0] * (plan.stages + 1)
        for stage in plan.gather_stage:
            self.gathered.append(self.gathered_counts[stage])
            self.gathered_counts[stage] += 1
        self.kept: dict[int, tuple[int, int]] = {}
        """Stage and column of rows that are kept."""
        self.widths = [0] * (plan.stages + 1)
        self.by_stage: list[tuple[list[int], list[int]]] = [([], []) for _ in range(plan.stages + 2)]
        size = len(plan.operations)
        for unit in plan.order:
            if unit < size:
                self.by_stage[min(plan.stage[unit], plan.stages)][0].append(unit)
            else:
                self.by_stage[plan.row_stage[unit - size]][1].append(unit - size)
        self.results = self._split_results()
        """What the code outside of loops of the last stage writes, and what is copied after it."""
        self.constants: dict[str, tuple[Address, float]] = {}
        """By their digits, numbers among those that are copied, and where they wait."""
        self._find_kept()

    def _split_results(self) -> tuple[list[Result], list[Result]]:
        """Many results are copied, but for integers."""
        integers = {buffer.name for buffer in self.outputs if buffer.integer}
        places = (address for buffer in self.outputs for address in every_address(buffer))
        results = list(zip(places, map(self._without_constants, self.plan.code.outputs), strict=True))
        if len(results) < MANY_RESULTS:
            return results, []
        return [r for r in results if r[0].buffer in integers], [r for r in results if r[0].buffer not in integers]

    def _without_constants(self, term: Term | float) -> Term | float:
        """A result: a number if it is one."""
        if not isinstance(term, Term) or self.plan.operations[term.value] != "const":
            return term
        return term.sign * float(self.plan.code.contents[term.value])

    def program(self) -> Program:
        body: list[Statement] = []
        for stage in range(self.plan.stages):
            body.append(_Alone(self, stage).block())
            body.append(_Together(self, stage).loop())
        body += [_Alone(self, stage).block() for stage in (self.plan.stages, self.plan.stages + 1)]
        body = [s for s in body if not (isinstance(s, Block) and not s.stores)]
        return Program(self.name, (*self.inputs, *self.outputs, *self._buffers()), tuple(body))

    # ---- what waits in work space --------------------------------------------------------------------------------

    def _find_kept(self) -> None:
        plan, size = self.plan, len(self.plan.operations)
        for unit in plan.order:
            if unit < size:
                for j in plan.operands[unit]:
                    self._keep(j, plan.stage[unit])
                continue
            own, stage = plan.own[unit - size], plan.row_stage[unit - size]
            if own is None:
                self._keep_operands(plan.folded[unit - size].operands, stage)
            else:
                for number in own:
                    if plan.row_stage[number] < stage:
                        self._keep_row(number)
        for values, number in plan.gathered.items():
            for value in values:
                self._keep(value, plan.gather_stage[number])
        for stage, results in enumerate(self.results, start=plan.stages):
            for _, term in results:
                if isinstance(term, Term):
                    self._keep(term.value, stage)
                elif stage > plan.stages and repr(term) not in self.constants:
                    place = Address(f"{SINGLES}_{plan.stages}", (Index(None, self.single_counts[plan.stages]),))
                    self.constants[repr(term)] = place, term
                    self.single_counts[plan.stages] += 1

    def _keep_operands(self, operands: Sequence[Operand], stage: int) -> None:
        """Remember what the loop of a stage uses."""
        for operand in operands:
            if isinstance(operand, Row):
                if operand.shift or self.plan.row_stage[operand.number] < stage:
                    self._keep_row(operand.number)
            elif isinstance(operand, Single):
                self._keep(operand.value, None)

    def _keep(self, value: int, stage: int | None) -> None:
        """Remember that a value is used outside of loops in a stage, or in a loop."""
        plan = self.plan
        if plan.row_of[value] != NO_ROW:
            self._keep_row(plan.row_of[value])
        elif plan.operations[value] in CONDITIONS:
            for j in plan.operands[value]:  # computed again where it is needed
                self._keep(j, stage)
        elif plan.operations[value] != "const" and plan.stage[value] != stage and value not in self.singles:
            self.singles[value] = self.single_counts[plan.stage[value]]
            self.single_counts[plan.stage[value]] += 1

    def _keep_row(self, number: int) -> None:
        stage = self.plan.row_stage[number]
        if number not in self.kept:
            self.kept[number] = stage, self.widths[stage]
            self.widths[stage] += 1

    def row_address(self, number: int, part: Index) -> Address:
        """Where a value of a row waits."""
        stage, column = self.kept[number]
        return self.of_part(f"{ROWS}_{stage}", part, column)

    def of_part(self, name: str, part: Index, column: int) -> Address:
        """A number of a part in a buffer of all parts."""
        own = Index(None, column)
        return Address(name, (own, part) if self.beside else (part, own))

    def single_address(self, value: int) -> Address:
        """Where a value alone waits."""
        stage = self.plan.stage[value]
        return Address(f"{SINGLES}_{stage}", (Index(None, self.singles[value]),))

    def gathered_address(self, number: int, part: Index) -> Address:
        """Where values that were put side by side wait."""
        return self.of_part(f"{GATHERED}_{self.plan.gather_stage[number]}", part, self.gathered[number])

    def column(self, numbers: tuple[float, ...]) -> int:
        """The column of the table with these numbers."""
        return self.table_columns.setdefault(numbers, len(self.table_columns))

    def _buffers(self) -> Iterator[Buffer]:
        parts = self.plan.parts

        def of_parts(count: int) -> tuple[int, int]:
            return (count, parts) if self.beside else (parts, count)

        for stage in range(self.plan.stages + 1):
            if self.widths[stage]:
                yield Buffer(f"{ROWS}_{stage}", "work", of_parts(self.widths[stage]), mixed=True)
            if self.single_counts[stage]:
                yield Buffer(f"{SINGLES}_{stage}", "work", (self.single_counts[stage],), mixed=True)
            if self.gathered_counts[stage]:
                yield Buffer(f"{GATHERED}_{stage}", "work", of_parts(self.gathered_counts[stage]), mixed=True)
        if self.table_columns:
            data = np.array(list(self.table_columns), dtype=float)
            data = data if self.beside else data.T
            yield Buffer(NUMBERS, "table", data.shape, np.ascontiguousarray(data), mixed=True)
        shifts = np.array([[(part + s) % parts for s in range(parts)] for part in range(parts)])
        yield Buffer(SHIFTS, "index", shifts.shape, shifts, integer=True)


class _Code:
    """A block on its way: code, loads and stores."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self.plan = writing.plan
        self.signs = writing.signs
        self.emitter = Emitter()
        self.loads: dict[Address, int] = {}
        self.stores: list[tuple[Address, int | float]] = []

    def load(self, address: Address) -> int:
        """The node that reads a number."""
        return self.emitter.node("input", self.loads.setdefault(address, len(self.loads)))

    def sign(self, form: int) -> int:
        return self.signs.parities.sign(form)

    def finish(self) -> Block:
        # every value of a plan is needed, here or later: there is nothing to leave out
        code = Straight(self.emitter.nodes, [value for _, value in self.stores])
        return Block(code, tuple(self.loads), tuple([address for address, _ in self.stores]))


_NOT_COMPUTED = {"const", *CONDITIONS}
"""Operations that are written only where something needs them."""


class _Alone(_Code):
    """The code of one stage outside of its loop."""

    def __init__(self, writing: Writing, stage: int) -> None:
        super().__init__(writing)
        self.stage = stage
        self.known: dict[int, int] = {}

    def block(self) -> Block:
        writing, plan = self.writing, self.plan
        for value in writing.by_stage[self.stage][0]:
            if plan.operations[value] not in _NOT_COMPUTED:
                self.node(value)
            if value in writing.singles:
                self.stores.append((writing.single_address(value), self.node(value)))
        for values, number in plan.gathered.items():
            if plan.gather_stage[number] == self.stage:
                for part, value in enumerate(values):
                    node, sign = self.term(value)
                    turned = self.emitter.with_sign(node, sign * self.sign(self.signs.of_gathered[number][part]))
                    self.stores.append((writing.gathered_address(number, Index(None, part)), turned))
        if self.stage == plan.stages:
            self.stores += writing.constants.values()
        if self.stage >= plan.stages:
            self.write_results(writing.results[self.stage - plan.stages])
        return self.finish()

    def write_results(self, results: Sequence[Result]) -> None:
        copied = self.stage > self.plan.stages
        for address, term in results:
            if isinstance(term, Term):
                node, sign = self.term(term.value)
                self.stores.append((address, self.emitter.with_sign(node, sign * term.sign)))
            else:
                self.stores.append((address, self.load(self.writing.constants[repr(term)][0]) if copied else term))

    def term(self, value: int) -> tuple[int, int]:
        """A value as a node and a sign."""
        row = self.plan.row_of[value]
        if row != NO_ROW:
            there = self.writing.row_address(row, Index(None, self.plan.part_of[value]))
            return self.load(there), self.sign(self.signs.of_value(value))
        return self.node(value), 1

    def node(self, value: int) -> int:
        """The node of a value alone: read, or computed here."""
        if value not in self.known:
            plan, operation = self.plan, self.plan.operations[value]
            if operation == "const":
                node = self.emitter.constant(plan.code.contents[value])
            elif plan.stage[value] != self.stage and operation not in CONDITIONS:
                node = self.load(self.writing.single_address(value))
            elif operation == "input":
                node = self.load(self.writing.input_places[plan.code.contents[value]])
            else:
                nodes, signs = zip(*[self.term(j) for j in plan.operands[value]], strict=True)
                node = self.emitter.operation(operation, plan.code.signs[value], nodes, signs)
            self.known[value] = node
        return self.known[value]


class _Together(_Code):
    """The code of one stage's loop over the parts."""

    def __init__(self, writing: Writing, stage: int) -> None:
        super().__init__(writing)
        self.stage = stage
        self.known: dict[int, int] = {}
        self.read: dict[Row, int] = {}
        """Nodes that read rows."""
        self.shifts: set[int] = set()

    def loop(self) -> Loop:
        kept, plan, known, operation = self.writing.kept, self.plan, self.known, self.emitter.operation
        operations, signs, members = plan.operations, plan.code.signs, plan.members
        for number in self.writing.by_stage[self.stage][1]:
            own, first = plan.own[number], members[number][0]
            if own is None:
                node = self.folded(first, plan.folded[number])
            else:
                nodes = [known[r] if r in known else self.source(Row(r, 0)) for r in own]
                node = operation(operations[first], signs[first], nodes)
            known[number] = node
            if number in kept:
                self.stores.append((self.writing.row_address(number, _OWN), node))
        lookups = [Lookup(_shift_name(s), Address(SHIFTS, (Index(PART), Index(None, s)))) for s in sorted(self.shifts)]
        return Loop(PART, plan.parts, (*lookups, self.finish()), side_by_side=self.writing.beside and not lookups)

    def folded(self, first: int, row: Folded) -> int:
        """The node of a row whose operands are anything."""
        given = [self.operand(operand, turn) for operand, turn in zip(row.operands, row.turns, strict=True)]
        nodes, signs = zip(*given, strict=True)
        return self.emitter.operation(self.plan.operations[first], self.plan.code.signs[first], nodes, signs)

    def operand(self, operand: Operand, turn: int | None) -> tuple[int, int]:
        """An operand as a node and a sign, that of part 0: only other parts and single values can have one."""
        node = self.source(operand)
        turned = isinstance(operand, Single) or (isinstance(operand, Row) and operand.shift)
        sign = self.sign(self.signs.of_operand(operand)[0]) if turned else 1
        if turn is not None:
            node = self.emitter.node("mul", node, self.numbers(tuple(map(float, self.signs.turns[turn]))))
        return node, sign

    def source(self, operand: Operand) -> int:
        writing, plan = self.writing, self.plan
        if isinstance(operand, Row):  # most are: a match statement would take longer
            number, shift = operand
            if not shift and number in self.known:
                return self.known[number]
            if operand not in self.read:
                if shift:
                    self.shifts.add(shift)
                there = writing.row_address(number, Index(_shift_name(shift) if shift else PART))
                self.read[operand] = self.load(there)
            return self.read[operand]
        if isinstance(operand, FoldedColumn):
            forms, contents = self.signs.of_columns[operand.number], plan.code.contents
            values = zip(plan.columns[operand.number], forms, strict=True)
            return self.numbers(tuple([contents[v] * self.sign(form) if form else contents[v] for v, form in values]))
        if isinstance(operand, GatheredLimbs):
            return self.load(writing.gathered_address(operand.number, Index(PART)))
        row = plan.row_of[operand.value]
        if row != NO_ROW:
            return self.load(writing.row_address(row, Index(None, plan.part_of[operand.value])))
        return self.load(writing.single_address(operand.value))

    def numbers(self, column: tuple[float, ...]) -> int:
        """A constant of the parts: from the table, unless it is the same for all."""
        if column.count(column[0]) == len(column):
            return self.emitter.constant(column[0])
        return self.load(self.writing.of_part(NUMBERS, _OWN, self.writing.column(column)))


_OWN = Index(PART)
"""The line of the part in hand."""


def _shift_name(shift: int) -> str:
    return f"{PART}_{shift}"


def unrolled_code(plan: FoldingPlan) -> Straight:
    """The operations of a plan one after the other, those of rows for every part."""
    return _Unrolled(plan).code()


class _Unrolled:
    def __init__(self, plan: FoldingPlan) -> None:
        self.plan = plan
        self.signs = plan.signs
        self.emitter = Emitter()
        self.known: dict[int, int] = {}

    def code(self) -> Straight:
        plan = self.plan
        # limb after limb, in the order of the code: with all limbs at once twice as many numbers would wait
        for value, row in enumerate(plan.row_of):
            if row == NO_ROW:
                self.alone(value)
            else:
                self.of_part(value, row)
        outputs = [
            self.value_with_sign(term.value, term.sign) if isinstance(term, Term) else term
            for term in plan.code.outputs
        ]
        return live(Straight(self.emitter.nodes, outputs))

    def alone(self, value: int) -> None:
        plan = self.plan
        operation, operands = plan.operations[value], plan.operands[value]
        if operation in LEAVES:
            self.known[value] = self.emitter.node(operation, plan.code.contents[value])
        else:
            signs = [self.sign(self.signs.of_value(j)) for j in operands]
            nodes = [self.known[j] for j in operands]
            self.known[value] = self.emitter.operation(operation, plan.code.signs[value], nodes, signs)

    def of_part(self, member: int, number: int) -> None:
        plan, first = self.plan, self.plan.members[number][0]
        row, part = plan.folded.get(number), plan.members[number].index(member)
        given = [(self.known[j], 1) for j in plan.operands[member]] if row is None else self.given(row, member, part)
        nodes, turned = zip(*given, strict=True)
        self.known[member] = self.emitter.operation(plan.operations[first], plan.code.signs[first], nodes, turned)

    def given(self, row: Folded, member: int, part: int) -> Iterator[tuple[int, int]]:
        """The operands of one part of a row whose operands are anything: nodes and signs."""
        for j, (operand, turn) in enumerate(zip(row.operands, row.turns, strict=True)):
            value = self.plan.operands[member][row.orders[part][j]]
            node = self.known[value]
            if isinstance(operand, FoldedColumn | GatheredLimbs):
                node = self.emitter.with_sign(
                    node, self.sign(self.signs.of_operand(operand)[part]) * self.sign(self.signs.of_value(value))
                )
            if turn is not None:
                node = self.emitter.with_sign(node, self.signs.turns[turn][part])
            yield node, self.sign(self.signs.of_operand(operand)[0])

    def value_with_sign(self, value: int, sign: int) -> int:
        return self.emitter.with_sign(self.known[value], sign * self.sign(self.signs.of_value(value)))

    def sign(self, form: int) -> int:
        return self.signs.parities.sign(form)
