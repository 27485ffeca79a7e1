"""Which blocks are in the list of a step: those that may matter, and in the end all that do.

Before the solution, a guess: blocks that carried an impulse in the step before, or would close within the step. After
it, a check of all that was left out, at the velocity that came out: what would overlap joins the list, and the solution
goes on. So the guess decides how long a step takes, never what comes out.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Collect, Each, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_memory import ListSpace
from whippletree.compiler.rollout.contact_lists.contact_list_positions import Positions, target_of
from whippletree.compiler.rollout.contact_lists.contact_list_reach import CLOSE, LATE
from whippletree.compiler.rollout.step_space import BLOCK, STEP
from whippletree.contact.problem.cones import both, largest
from whippletree.spatial import add_cross

LIMITS_MISSED = "limits missed"
"""The list of those that were left out of a solution, and are beyond their ends after it."""

LISTED_CONTACTS = "listed contacts"
"""Contacts that were in the list of a step, where flags are cleared after it."""


class ListMembers:
    """Statements that set ``flag`` of every block: 1 for those in the list, −1 for the others."""

    def __init__(self, space: ListSpace, positions: Positions) -> None:
        self.space, self.positions = space, positions
        self.blocks, self.contacts = space.blocks, space.contacts
        if self.positions.limits_beside:
            space.numbers_list(LIMITS_MISSED, len(self.blocks.limited))
        if self.positions.clears_behind:
            space.work(stale=(1,))  # whether flags and targets of all candidates are to be cleared
            space.numbers_list(LISTED_CONTACTS, self.contacts)

    def guess(self) -> list[Statement]:
        """Step 2: blocks that carried an impulse, or would close within the step at their present velocity.

        What gravity alone does within the step is added, so that whatever begins to rest is there at once; on a long
        tree, twice as much counts. It is a guess: step 5 decides.
        """
        found: list[Statement] = []
        if self.contacts:
            found += self._guess_contacts()
        if self.blocks.limited:
            found += self._guess_limits()
        if self.blocks.taut:
            found.append(self._guess_tendons())
        return [*found, *self._flags_without_gaps()]

    def _guess_contacts(self) -> list[Statement]:
        at, each, wider, fall = self.space.at, self.space.each, self.positions.reach.wider, self.positions.reach.fall

        def near(
            touch: Array, first: Array, second: Array, X: Array, Y: Array, p: Array, h: Any, *out: Any
        ) -> list[Any]:
            closing = touch[0] + wider * h * (_normal_velocity(touch, first, second, X, Y) - fall * h)
            return [_flag(p, closing, sum(out)), target_of(touch[0], h)]

        reads = [at("touch", BLOCK), *self._sides(), at("impulse", BLOCK), at("dt", STEP), *self._left_out()]
        block = traced_block(near, reads, each(("flag", "target"), BLOCK))
        close = Collect(CLOSE, BLOCK, self.contacts, self.space.address("within", BLOCK))
        forget = [*self.positions.reach.forget("flag"), *self.positions.no_targets()]
        nodes = self.space.look_up("node 0", "node 1")
        if not self.positions.clears_behind:
            return [*forget, close, Each(BLOCK, CLOSE, (*nodes, block))]
        # targets are those of deep overlaps, which most scenes never have
        aimed = traced_block(
            lambda target, stale: [[select(less(target, 0), 1, stale[0])]],
            [at("target", BLOCK), at("stale")],
            [at("stale")],
        )
        clear = If(self.space.address("stale"), (*forget, *self._clear_moments()))
        guess = Each(BLOCK, CLOSE, (*nodes, block, aimed, *self.space.moments.with_contact()))
        return [clear, self.space.put(-1, at("stale")), close, guess]

    def _guess_limits(self) -> list[Statement]:
        at, of, limits = self.space.at, self.positions.of_limit, self.blocks.limited

        def limited(gap: Any, sign: Any, v: Any, normal: Any, h: Any) -> list[Any]:
            return self._flag_of_gap(gap, h * sign * v, vector(normal), h)

        normal = Piece((), (Address("impulse", (Index(BLOCK, self.contacts), Index(None, 0))),))
        reads, writes = [of("gap"), at("sign", BLOCK)], [of("flag"), of("target")]
        if self.positions.limits_beside:
            reads += [self.space.of_neighbour("now v", limits[0].v), normal, self.positions.now_dt]
            block = traced_block(limited, reads, writes)
            return [self.positions.note_step(), Loop(BLOCK, len(limits), (block,), side_by_side=True)]
        reads += [at("now v", "axis"), normal, at("dt", STEP)]
        return [Loop(BLOCK, len(limits), (*self._look_up_limit(), traced_block(limited, reads, writes)))]

    def _guess_tendons(self) -> Statement:
        at, of = self.space.at, self.positions.of_tendon

        def stretched(gap: Any, row: Array, v: Array, p: Array, h: Any) -> list[Any]:
            return self._flag_of_gap(gap, h * (row @ v), p, h)

        reads = [of("gap"), at("tendon row", BLOCK), at("now v"), of("impulse"), at("dt", STEP)]
        block = traced_block(stretched, reads, [of("flag"), of("target")])
        return Loop(BLOCK, len(self.blocks.taut), (block,))

    def _flag_of_gap(self, gap: Any, change: Any, p: Array, h: Any) -> list[Any]:
        """Flag and target of a limit with this gap and what it changes by within the step."""
        return [_flag(p, gap + change, int(self.space.world_only)), target_of(gap, h)]

    def _flags_without_gaps(self) -> list[Statement]:
        """Flags of blocks that nothing has to close for: dry friction and moments, and servos at an end of a range."""
        space, blocks, found = self.space, self.blocks, list[Statement]()
        servos = range(blocks.passive, blocks.count)
        found += self._flag_all(blocks.closing, len(blocks.rubbing), 1)
        found += [] if self.positions.clears_behind else self._clear_moments()
        if servos:
            reads = [space.at("saturated")] if space.ranges.count else []
            writes = [space.some("flag", servos), space.some("gap", servos)]
            none = [0] * len(servos)
            found.append(traced_block(lambda *at_end: [*(at_end or [[1] * len(servos)]), none], reads, writes))
        return found

    def _clear_moments(self) -> list[Statement]:
        """Moments are taken in with their contacts; there may be thousands."""
        return self._flag_all(self.blocks.first_moment, len(self.blocks.moments), -1)

    def _flag_all(self, begin: int, count: int, flag: int) -> list[Statement]:
        """The flag of so many blocks without a gap, from one on."""
        if not count:
            return []
        places = [Piece((), (Address(name, (Index(BLOCK, begin),)),)) for name in ("flag", "gap")]
        block = traced_block(lambda: [flag, 0], [], places)
        return [Loop(BLOCK, count, (block,), side_by_side=True)]

    def begin(self) -> list[Statement]:
        """Before the first step: no flag is known."""
        return [self.space.put(1, self.space.at("stale"))] if self.positions.clears_behind else []

    def end(self) -> list[Statement]:
        """After the last round: flags of contacts, and of their moments, as they were before the guess."""
        if not (self.contacts and self.positions.clears_behind):
            return []
        listed = Collect(LISTED_CONTACTS, BLOCK, self.contacts, self.space.address("flag", BLOCK))
        clear = (self.space.put(-1, self.space.at("flag", BLOCK)), *self.space.moments.with_contact())
        return [listed, Each(BLOCK, LISTED_CONTACTS, clear)]

    def look_around(self) -> list[Statement]:
        """Step 5: whatever was left out and would overlap is taken in."""
        at = self.space.at
        found: list[Statement] = [self.space.put(0, at("left")), self.space.put(1, at("complete"))]
        if self.contacts:
            found += self._look_at_contacts()
        if self.blocks.limited:
            found += self._look_at_limits()
        if self.blocks.taut:
            found.append(self._look_at_tendons())
        return found

    def _look_at_contacts(self) -> list[Statement]:
        at, totals = self.space.at, self._totals()

        def contact(touch: Array, first: Array, second: Array, X: Array, Y: Array, h: Any, *rest: Any) -> list[Any]:
            return self._outside(rest[0], -(touch[0] / h + _normal_velocity(touch, first, second, X, Y)), *rest[1:])

        reads = [at("touch", BLOCK), *self._sides(), at("dt", STEP), at("flag", BLOCK), at("tolerance")]
        block = traced_block(contact, [*reads, *totals, *self._left_out()], [at("flag", BLOCK), *totals])
        late = self.positions.reach.look_back(self.positions.narrow.late)
        followers = self.space.moments.with_contact() if self.positions.clears_behind else []
        return [*late, Each(BLOCK, LATE, (*self.space.look_up("node 0", "node 1"), block, *followers))]

    def _look_at_limits(self) -> list[Statement]:
        at, flag, limits = self.space.at, self.positions.of_limit("flag"), self.blocks.limited

        def speed(lower: Any, upper: Any, q: Any, v: Any, h: Any) -> Any:
            ahead = q + h * v
            return largest([lower - ahead, ahead - upper]) / h

        def limit(lower: Any, upper: Any, q: Any, v: Any, h: Any, *rest: Any) -> list[Any]:
            return self._outside(rest[0], speed(lower, upper, q, v, h), *rest[1:])

        def look_beside(flag: Any, *given: Any) -> list[Any]:
            return [select(less(0, flag), 0, speed(*given))]

        def join(missed: Any, flag: Any, *rest: Any) -> list[Any]:
            return self._outside(flag, missed, *rest)

        ends, missed, totals = [at("lower", BLOCK), at("upper", BLOCK)], at("missed", BLOCK), self._totals()
        judged = [flag, at("tolerance"), *totals]
        if not self.positions.limits_beside:
            reads = [*ends, at("now q", "place"), at("end v", "axis"), at("dt", STEP), *judged]
            block = traced_block(limit, reads, [flag, *totals])
            return [Loop(BLOCK, len(limits), (*self._look_up_limit(), block))]
        # hardly ever is one missed: all are looked at side by side, and only those that are missed one by one
        places = [self.space.of_neighbour("now q", limits[0].q), self.space.of_neighbour("end v", limits[0].v)]
        look = traced_block(look_beside, [flag, *ends, *places, self.positions.now_dt], [missed])
        return [
            Loop(BLOCK, len(limits), (look,), side_by_side=True),
            Collect(LIMITS_MISSED, BLOCK, len(limits), self.space.address("missed", BLOCK)),
            Each(BLOCK, LIMITS_MISSED, (traced_block(join, [missed, *judged], [flag, *totals]),)),
        ]

    def _look_at_tendons(self) -> Statement:
        at, of, totals = self.space.at, self.positions.of_tendon, self._totals()

        def tendon(gap: Any, row: Array, v: Array, h: Any, *rest: Any) -> list[Any]:
            return self._outside(rest[0], -(gap / h + row @ v), *rest[1:])

        reads = [of("gap"), at("tendon row", BLOCK), at("end v"), at("dt", STEP), of("flag"), at("tolerance")]
        block = traced_block(tendon, [*reads, *totals], [of("flag"), *totals])
        return Loop(BLOCK, len(self.blocks.taut), (block,))

    def _outside(
        self, flag: Any, speed: Any, tolerance: Any, left: Array, complete: Array, left_out: Any = None
    ) -> list[Any]:
        """The flag of a block whose gap is missed at a speed (m/s), the worst of what was left out, and whether the
        list is complete; ``left_out``: whether a miss is noted, and the block stays outside."""
        stays = int(self.space.world_only) if left_out is None else left_out
        missed = select(less(0, flag), 0, largest([speed, 0]))
        joins = both(less(stays, 1), less(tolerance, missed))
        return [[select(joins, 1, flag)], [largest([left[0], missed])], [select(joins, -1, complete[0])]]

    # ---- the block in hand ---------------------------------------------------------------------------------------

    def _totals(self) -> list[Piece]:
        return self.space.each(("left", "complete"))

    def _left_out(self) -> list[Piece]:
        """Whether the contact in hand is left out, where some are."""
        return [self.space.at("left out", BLOCK)] if self.space.world_only else []

    def _sides(self) -> list[Piece]:
        """Twists of both bodies of a contact, and where their origins are."""
        nodes = [f"node {side}" for side in (0, 1)]
        places = [
            Piece((3,), tuple(Address("pose", (Index(node), Index(None, 9 + i))) for i in range(3))) for node in nodes
        ]
        return [*(self.space.at("twist", node) for node in nodes), *places]

    def _look_up_limit(self) -> list[Lookup]:
        return [Lookup(name, Address(name, (Index(BLOCK, self.contacts),))) for name in ("place", "axis")]


def _flag(p: Array, closing: Any, left_out: Any) -> Any:
    """1 for a block that carried an impulse p, or whose gap ``closing`` at the end of the step is negative; else −1."""
    return select(less(0, left_out), -1, select(less(0, p[0]), 1, select(less(closing, 0), 1, -1)))


def _normal_velocity(touch: Array, first: Array, second: Array, X: Array, Y: Array) -> Any:
    """Rate of a gap: the material points of two bodies with these twists, whose origins are at X and Y (3,)."""
    point, normal = touch[1:4], touch[4:7]
    ours, theirs = (add_cross(twist[3:], twist[:3], point - origin) for twist, origin in ((first, X), (second, Y)))
    return normal @ (ours - theirs)
