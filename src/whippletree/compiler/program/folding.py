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

from collections.abc import Sequence
from dataclasses import dataclass

from whippletree.arithmetic.trace import Straight
from whippletree.arithmetic.trace.signed import signed
from whippletree.arithmetic.trace.symmetry import find_images
from whippletree.compiler.program.folded_code import Writing, unrolled_code
from whippletree.compiler.program.folding_plan import FoldingPlan
from whippletree.compiler.program.program import Buffer, Program
from whippletree.compiler.program.shared_outputs import straight_program

WORTH_FOLDING = 1500
"""Operations from which straight-line code is folded: less compiles in a tenth of a second."""

MOST_FOLDED = 25_000
"""Operations up to which folding is tried: longer code is that of matrices, whose entries belong to pairs of limbs and
whose sums run over all of them; of derivatives about three quarters would be left."""

MOST_LEFT = 0.7
"""Code is folded if at most this share of its operations is left."""

MOST_STAGES = 10
"""More stages than this move more numbers through memory than folding saves."""


@dataclass(frozen=True)
class LimbTurning:
    """A symmetry of the inputs and outputs of a function: each part takes the place of the next one."""

    parts: int
    inputs: tuple[int, ...]
    """The image of each input."""
    part: tuple[int, ...]
    """The part that each input belongs to, −1 for none."""
    outputs: tuple[int, ...]
    """The image of each output."""


@dataclass(frozen=True)
class Folding:
    """Straight-line code as loops over the parts of a symmetry."""

    plan: FoldingPlan
    inputs: Sequence[Buffer]
    outputs: Sequence[Buffer]

    @property
    def operations_left(self) -> int:
        """How many operations are written: those of rows once, and everything else."""
        return self.plan.operations_left

    def program(self, name: str) -> Program:
        """Loops over the parts."""
        return Writing(name, self.plan, self.inputs, self.outputs).program()

    def straight_program(self, name: str) -> Program:
        """These operations one after the other, in one block: the same bits, to the sign of every zero."""
        return straight_program(name, unrolled_code(self.plan), self.inputs, self.outputs)


def folded(code: Straight, inputs: Sequence[Buffer], outputs: Sequence[Buffer], turning: LimbTurning) -> Folding | None:
    """Fold code that reads inputs and writes outputs whole, in row-major order; None if it does not pay."""
    if not WORTH_FOLDING <= code.operations <= MOST_FOLDED:
        return None
    apart = signed(code)
    images, labels = find_images(apart, turning.inputs, turning.part, turning.parts, turning.outputs)
    plan = FoldingPlan(apart, images, labels, turning.parts)
    if plan.operations_left > MOST_LEFT * code.operations or plan.stages > MOST_STAGES:
        return None
    return Folding(plan, inputs, outputs)
