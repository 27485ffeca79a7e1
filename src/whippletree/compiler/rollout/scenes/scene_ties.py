"""Rows over several velocities of a mechanism among the bodies of a scene: stops of tendons, and servos with a range.

They are rows of one number as those of joints are (:mod:`~whippletree.compiler.rollout.scenes.scene_joints`), behind
them in the same buffers, with B = F Jᵀ of the whole row J:

    stop of a tendon        0 ≤ λ        J = ± ∂l/∂q, shift = gap / h
    servo with a range      |λ| ≤ h r    J = G, shift = −(a − c) / K, and the compliance 1 / (h K)

as :mod:`whippletree.contact.servos` has it. A servo that is released, for it is within its range, belongs to the
inertia, and its row does nothing (:mod:`~whippletree.compiler.rollout.scenes.scene_motors`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_ranges import within_reach
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.scenes.scene_trees import GROUP, VELOCITY, SceneTrees
from whippletree.compiler.rollout.step_space import RowPlace
from whippletree.contact.problem.cones import both, largest
from whippletree.tree.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

JOINT_ROW, TIED_ROW = "joint row", "tied row"
"""Registers: of a row of the mechanism, and of one of several velocities among those of its sort."""

RowNumbers = ("row shift", "row soft", "row ease", "row low", "row high", "row free", "row approach", "row impulse",
              "row start", "row before")  # fmt: skip
"""Buffers of a row that a new problem fills, beside ``row B``."""


class SceneTies:
    """Statements about these rows; none where there are none."""

    def __init__(self, trees: SceneTrees, first: int) -> None:
        """``first``: the number of rows before these."""
        self.trees, self.space, self.first = trees, trees.space, first
        blocks = trees.own.blocks
        self.taut, self.servos = blocks.taut, blocks.servos
        self.count = len(self.taut) + len(self.servos)
        if self.taut:
            trees.own.work(taut_row=(len(self.taut), trees.model.nv))

    @property
    def gapless(self) -> list[int]:
        """1 for each that has no gap to close, else 0."""
        return [0] * len(self.taut) + [1] * len(self.servos)

    @property
    def passive(self) -> list[int]:
        """1 for each whose work is that of contacts and stops, 0 for motors."""
        return [1] * len(self.taut) + [0] * len(self.servos)

    def _of_row(self, names: Sequence[str], first: int) -> list[Piece]:
        """Numbers of the row in hand; ``first``: of its sort."""
        return self.space.each(names, Index(TIED_ROW, first))

    def find(self) -> list[Statement]:
        """Rows of tendons, and distances to the nearer ends of their ranges, where the joints are."""
        if not self.taut:
            return []
        blocks, tree = self.trees.own.blocks, self.trees.tree

        def look(q: Array) -> list[Any]:
            gaps, _, rows = blocks.tendon_limits(Mechanism(tree), q)
            return [gaps, rows]

        gaps = [Address("row gap", (Index(None, self.first + i),)) for i in range(len(self.taut))]
        writes = [Piece((len(gaps),), tuple(gaps)), self.trees.at("taut row")]
        return [traced_block(look, [self.trees.at("now q")], writes)]

    def prepare(self) -> list[Statement]:
        """The rows of a new problem; what their impulses do is left to those of joints."""
        found: list[Statement] = []
        if self.taut:
            found.append(Loop(TIED_ROW, len(self.taut), (*self._respond("taut row", self.first), self._stop())))
        if self.servos:
            first = self.first + len(self.taut)
            own = (*self._respond("servo row", first), self._servo(first))
            idle = self.space.put(0, *self._of_row(["row B", *RowNumbers], first))
            ease = self.space.put(1, *self._of_row(["row ease"], first))
            flag = self.trees.motors.saturated
            body = (idle, ease, *(own if flag is None else (If(flag(TIED_ROW), own),)))
            found.append(Loop(TIED_ROW, len(self.servos), body))
        return found

    def _respond(self, row: str, first: int) -> list[Statement]:
        """``row B`` of the row in hand, F Jᵀ, whose entries are those of one tree."""
        trees = self.trees
        (B,) = self._of_row(["row B"], first)
        entry = Piece((), (Address("row B", (Index(TIED_ROW, first), Index("place in tree"))),))
        add = traced_block(lambda B, x: [[B + x]], [entry, trees.flat()], [entry])
        group = Lookup(GROUP, Address("tree of row", (Index(TIED_ROW, first),)))
        return [
            *trees.in_scene(trees.in_tree.backward(RowPlace(row, (TIED_ROW,)), RowPlace("flat"))),
            self.space.put(0, B),
            Loop(VELOCITY, trees.model.nv, (*trees.place(), add)),
            *([group, *trees.loops.project(B, 1)] if trees.loops else []),
        ]

    def _speeds(self) -> list[Piece]:
        return [self.trees.at("free"), self.trees.at("now v")]

    def _stop(self) -> Statement:
        """The numbers of a tendon's stop."""

        def numbers(gap: Any, B: Array, J: Array, free: Array, v: Array, p: Any, h: Any) -> list[Any]:
            own = multiply_in_strands(B, B)
            some = less(0, own)
            ease = select(some, 1 / select(some, own, 1), 0)
            inside = largest([p, 0])
            found = (largest([gap, 0]) / h, 0, ease, 0, float("inf"), J @ free, J @ v, inside, inside, inside)
            return [[x] for x in found]

        reads = [*self._of_row(["row gap", "row B"], self.first), self.trees.at("taut row", TIED_ROW), *self._speeds()]
        reads += [*self._of_row(["row impulse"], self.first), self.space.at("now dt")]
        return traced_block(numbers, reads, self._of_row(RowNumbers, self.first))

    def _servo(self, first: int) -> Statement:
        """The numbers of a servo with a range."""
        passive = self.trees.own.blocks.passive

        def numbers(B: Array, G: Array, free: Array, v: Array, *rest: Any) -> list[Any]:
            p, soft, offset, most, h, *pinned = rest
            inside, low, high = within_reach(p, h * most), -h * most, h * most
            if pinned:
                held = both(*[less(0, flag) for flag in pinned])
                inside = select(held, select(less(p, 0), low, high), inside)
                low, high = (select(held, inside, end) for end in (low, high))
            ease = 1 / (multiply_in_strands(B, B) + soft)
            return [[x] for x in (-offset, soft, ease, low, high, G @ free, G @ v, inside, inside, inside)]

        own = [self.trees.at(name, Index(TIED_ROW, passive)) for name in ("soft", "offset", "cap")]
        reads = [*self._of_row(["row B"], first), self.trees.at("servo row", TIED_ROW), *self._speeds()]
        reads += [self.trees.motors.impulse(TIED_ROW), *own, self.trees.at("dt"), *self.trees.motors.pinned(TIED_ROW)]
        return traced_block(numbers, reads, self._of_row(RowNumbers, first))

    # ---- impulses of servos, which outlast their rows --------------------------------------------------------------

    def _each_servo(self, reads: Piece, writes: Piece, flag: Address | None = None) -> list[Statement]:
        """A number of each servo copied; where a flag is positive, if there is one."""
        copy: Statement = traced_block(lambda p: [[p]], [reads], [writes])
        return [Loop(TIED_ROW, len(self.servos), (copy if flag is None else If(flag, (copy,)),))]

    def _impulses(self, name: str) -> Piece:
        """The impulse of a servo in a buffer of all rows."""
        return self._of_row([name], self.first + len(self.taut))[0]

    def begin_call(self) -> list[Statement]:
        """Impulses of servos in the last step."""
        if not self.servos:
            return []
        return self._each_servo(self._impulses("row impulses0"), self.trees.motors.impulse(TIED_ROW))

    def results(self) -> list[Statement]:
        """Impulses of servos at the end of a call, released ones included."""
        if not self.servos:
            return []
        return self._each_servo(self.trees.motors.impulse(TIED_ROW), self._impulses("row impulses"))

    def keep_impulses(self) -> list[Statement]:
        """Impulses of the rows of servos, as a solution has left them."""
        if not self.servos:
            return []
        flag = self.trees.motors.saturated
        own = self._impulses("row impulse"), self.trees.motors.impulse(TIED_ROW)
        return self._each_servo(*own, None if flag is None else flag(TIED_ROW))
