"""Limits and dry friction of the joints of a mechanism among the bodies of a scene: rows of one number each.

A row acts on one velocity of a tree, with a sign, and its impulse has bounds: 0 ≤ λ at an end of a range, |λ| ≤ h τ for
dry friction. Both are

    λ ← min(max(λ − (u + s λ + shift) / (g + s), low), high)        u = ± v_free + B · y        g = B · B

with B the column of F, or its negative (:mod:`~whippletree.compiler.rollout.scenes.scene_trees`), and no compliance s.
Those that act, or would, are swept after the contacts on the way there and before them on the way back. Behind them are
rows that act on several velocities (:mod:`~whippletree.compiler.rollout.scenes.scene_ties`).
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Buffer, Collect, Each, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.scenes.scene_contacts import ISLAND
from whippletree.compiler.rollout.scenes.scene_leaps import SceneLeaps
from whippletree.compiler.rollout.scenes.scene_ties import JOINT_ROW, SceneTies
from whippletree.compiler.rollout.scenes.scene_trees import COLUMN, GROUP, VELOCITY, SceneTrees
from whippletree.contact.kinematics.joint_contacts import limited_axes, rubbing_axes
from whippletree.contact.problem.cones import largest
from whippletree.contact.restitution_share import mixed_impulse
from whippletree.contact.time_step import RELAXATION_SPEED

ACTING_ROWS = "acting rows"
"""The list of rows that sweeps go over."""


class SceneJoints:
    """Statements about these rows; none where there are none."""

    def __init__(self, trees: SceneTrees) -> None:
        self.trees, self.space = trees, trees.space
        model = trees.model
        limited, rubbing = limited_axes(model), rubbing_axes(model)
        self.axes = [*limited, *rubbing]
        self.ties = ties = SceneTies(trees, len(self.axes))
        self.count = n = len(self.axes) + ties.count
        if not self.count:
            return
        self.space.index("velocity of row", [axis.v for axis in self.axes])
        self.space.index("coordinate of row", [axis.q for axis in self.axes])
        self.space.index("tree of row", trees.groups_of_impulses)
        self.space.table("lower", [axis.lower for axis in limited] + [-math.inf] * len(rubbing))
        self.space.table("upper", [axis.upper for axis in limited] + [math.inf] * len(rubbing))
        # a limit may push as hard as it has to
        self.space.table("most force", [math.inf] * len(limited) + [float(axis.friction) for axis in rubbing])
        # rows without a gap, and those whose work is that of contacts and friction
        self.space.table("rubs", [0] * len(limited) + [1] * len(rubbing) + ties.gapless)
        self.space.table("passive", [1] * len(self.axes) + ties.passive)
        self.space.work(
            row_B=(n, trees.width),  # F Jᵀ
            row_impulse=(n,),
            row_start=(n,),
            row_before=(n,),
            row_sign=(len(self.axes),),
            row_gap=(n,),
            row_shift=(n,),
            row_ease=(n,),  # 1 / (g + s)
            row_soft=(n,),  # s
            row_low=(n,),
            row_high=(n,),
            row_free=(n,),  # u without impulses
            row_approach=(n,),
            row_push=(n,),
            row_push_before=(n,),
            row_push_delta=(n,),
            row_acts=(n,),  # whether it has an impulse, or would have
            row_ahead=(n,),  # the gap at the end of the step
            row_allowed=(n,),
            row_given=(1,),
            newton_row=(n,),  # with restitution, and without
            plastic_row=(n,),
        )
        self.space.numbers_list(ACTING_ROWS, n)

    def arguments(self) -> tuple[list[Buffer], list[Buffer]]:
        """Inputs and outputs of the kernel, after those of the trees."""
        if not self.count:
            return [], []
        islands = Buffer("row islands", "input", (self.count,), integer=True)
        inputs = [Buffer("row impulses0", "input", (self.count,)), islands]
        return inputs, [Buffer("row impulses", "output", (self.count,))]

    def _each(self, *statements: Statement) -> list[Statement]:
        """Statements for every row, with the register of its tree."""
        group = Lookup(GROUP, Address("tree of row", (Index(JOINT_ROW),)))
        return [Loop(JOINT_ROW, self.count, (group, *statements))]

    def _each_acting(self, *statements: Statement) -> list[Statement]:
        """Statements for every row that acts."""
        group = Lookup(GROUP, Address("tree of row", (Index(JOINT_ROW),)))
        return [Each(JOINT_ROW, ACTING_ROWS, (group, *statements))]

    def gather(self) -> list[Statement]:
        """The list of rows that act, by what the last look has told."""
        if not self.count:
            return []
        return [Collect(ACTING_ROWS, JOINT_ROW, self.count, self.space.address("row acts", JOINT_ROW))]

    def _each_axis(self, *statements: Statement) -> list[Statement]:
        """Statements for every row of a single velocity, with registers of that."""
        if not self.axes:
            return []
        velocity = Lookup(VELOCITY, Address("velocity of row", (Index(JOINT_ROW),)))
        return [Loop(JOINT_ROW, len(self.axes), (velocity, *self.trees.place(), *statements))]

    def _of_row(self, *names: str) -> list[Piece]:
        return self.space.each(names, JOINT_ROW)

    def _in_tree(self, name: str) -> Piece:
        return self.space.at(name, GROUP)

    def _follow(self, name: str) -> Statement:
        """The impulse ``row given`` of the row in hand, added to a buffer (trees, width)."""
        entry, own = (
            Piece((), (Address(at, (Index(row), Index(COLUMN))),)) for at, row in ((name, GROUP), ("row B", JOINT_ROW))
        )
        add = traced_block(lambda y, p, B: [[y + p[0] * B]], [entry, self.space.at("row given"), own], [entry])
        return Loop(COLUMN, self.trees.width, (add,), side_by_side=True)

    def begin_call(self) -> list[Statement]:
        """Impulses of the last step; whatever is beyond its range may be."""
        if not self.count:
            return []
        copy = traced_block(
            lambda p: [[p], [math.inf], [0]],
            self._of_row("row impulses0"),
            self._of_row("row impulse", "row allowed", "row gap"),
        )
        return [*self._each(copy), *self.ties.begin_call()]

    def results(self) -> list[Statement]:
        """Impulses at the end of a call."""
        if not self.count:
            return []
        told = traced_block(lambda p: [[p]], self._of_row("row impulse"), self._of_row("row impulses"))
        return [*self._each(told), *self.ties.results()]

    def find(self) -> list[Statement]:
        """Distances to the nearer ends of ranges, where the joints are."""

        def nearer(q: Any, lower: Any, upper: Any, rubs: Any) -> list[Any]:
            below, above = q - lower, upper - q
            up = less(above, below)
            rubbing = less(0, rubs)
            return [[select(rubbing, 1, select(up, -1, 1))], [select(rubbing, 0, select(up, above, below))]]

        if not self.count:
            return []
        q = Piece((), (Address("tree now q", (Index("coordinate"),)),))
        place = Lookup("coordinate", Address("coordinate of row", (Index(JOINT_ROW),)))
        own = traced_block(nearer, [q, *self._of_row("lower", "upper", "rubs")], self._of_row("row sign", "row gap"))
        return [*self._each_axis(place, own), *self.ties.find()]

    # ---- impulses ------------------------------------------------------------------------------------------------

    def prepare(self) -> list[Statement]:
        """The rows of a new problem, and what the impulses of the step before do."""
        if not self.count:
            return []

        def rows(sign: Any, gap: Any, most: Any, rubs: Any, F: Array, p: Any, v: Any, before: Any, h: Any) -> list[Any]:
            own = multiply_in_strands(F, F)
            some = less(0, own)
            shift = select(less(0, rubs), 0, largest([gap, 0]) / h)
            high = select(less(0, h), h * most, math.inf)  # a look at the gaps has no length, and asks for no impulse
            low = select(less(0, rubs), -high, 0)
            inside = select(less(p, low), low, select(less(high, p), high, p))
            ease = select(some, 1 / select(some, own, 1), 0)
            numbers = (shift, ease, low, high, sign * v, sign * before, 0, inside, inside, inside)
            return [[x] for x in numbers] + [sign * F]

        speeds = [Piece((), (Address(name, (Index(VELOCITY),)),)) for name in ("tree free", "tree now v")]
        reads = [*self._of_row("row sign", "row gap", "most force", "rubs"), self.trees.column()]
        reads += [*self._of_row("row impulse"), *speeds, self.space.at("now dt")]
        names = ("row shift", "row ease", "row low", "row high", "row free", "row approach", "row soft")
        writes = self._of_row(*names, "row impulse", "row start", "row before", "row B")
        own_rows = traced_block(rows, reads, writes)
        forget = [Loop(JOINT_ROW, self.count, (self.space.put(-1, *self._of_row("row acts")),))]
        return [*forget, *self._each_axis(own_rows), *self.ties.prepare(), *self.release("y", clears=False)]

    def release(self, name: str, clears: bool = True) -> list[Statement]:
        """What the impulses of rows do, alone, in a buffer (trees, width); or beside what is there already."""
        clear = [self.trees.clear(name)] if clears else []
        if not self.count:
            return clear
        give = traced_block(lambda p: [[p]], self._of_row("row impulse"), [self.space.at("row given")])
        return [*clear, *self._each(give, self._follow(name))]

    @staticmethod
    def _answer(B: Array, y: Array, p: Any, free: Any, shift: Any, soft: Any, ease: Any, low: Any, high: Any) -> Any:
        """A better impulse."""
        u = free + multiply_in_strands(B, y) + shift + soft * p
        wanted = p - u * ease
        return select(less(wanted, low), low, select(less(high, wanted), high, wanted))

    LAW = ("row free", "row shift", "row soft", "row ease", "row low", "row high")

    def sweep_there(self) -> list[Statement]:
        """A sweep over the rows, from where the shares lead."""
        if not self.count:
            return []

        def there(B: Array, y: Array, now: Any, start: Any, before: Any, shares: Array, *law: Any) -> list[Any]:
            p = SceneLeaps.ahead(now, start, before, shares)[()]
            after = self._answer(B, y, p, *law)
            return [[after], [p], [now], [after - p]]

        own = self._of_row("row impulse", "row start", "row before")
        reads = [*self._of_row("row B"), self._in_tree("y"), *own, self.space.at("shares"), *self._of_row(*self.LAW)]
        return self._each_acting(traced_block(there, reads, [*own, self.space.at("row given")]), self._follow("y"))

    def sweep_back(self) -> list[Statement]:
        """The second sweep, and what the next start is found from."""
        if not self.count:
            return []
        at = self.space.at

        def back(
            B: Array, y: Array, p: Any, start: Any, before: Any, change: Array, rise: Array, *law: Any
        ) -> list[Any]:
            after = self._answer(B, y, p, *law)
            free, shift, soft, ease = law[:4]
            d = after - p
            some = less(0, ease)
            speed = d / select(some, ease, 1)
            ways = vector(after - start, after - before)
            slope = free + shift + soft * after
            return [[after], [largest([change[0], speed * speed])], rise + slope * ways, [d]]

        own = self._of_row("row impulse", "row start", "row before")
        reads = [*self._of_row("row B"), self._in_tree("y"), *own, at("change"), at("rise"), *self._of_row(*self.LAW)]
        block = traced_block(back, reads, [own[0], at("change"), at("rise"), at("row given")])
        return self._each_acting(block, self._follow("y"))

    def bend(self) -> list[Statement]:
        """What compliances add to the products that the next start is found from, in their first lane."""
        if not self.ties.servos:
            return []

        def add(p: Any, start: Any, before: Any, soft: Any, bend: Array) -> list[Any]:
            r, d = p - start, p - before
            return [bend + soft * vector(r * r, r * d, d * d)]

        # their slopes are in ``rise``
        bend = Piece((3,), tuple(Address("bend", (Index(None, k), Index(None, 0))) for k in range(3)))
        own = self._of_row("row impulse", "row start", "row before", "row soft")
        return self._each_acting(traced_block(add, [*own, bend], [bend]))

    def measure(self) -> list[Statement]:
        """The residuals of the rows, and their work, in those of the contacts."""
        if not self.count:
            return []

        def look(B: Array, y: Array, p: Any, approach: Any, rubs: Any, passive: Any, *rest: Any) -> list[Any]:
            *law, residual, works, acts = rest
            free, ease = law[0], law[3]
            after = self._answer(B, y, p, *law)
            u = free + multiply_in_strands(B, y)
            some = less(0, ease)
            d = after - p
            speed = d / select(some, ease, 1)
            work = passive * p * (u + approach) / 2
            return [
                [largest([residual[0], d * d]), largest([residual[1], speed * speed]), residual[2]],
                [works[0] + work, works[1] + rubs * work],
                [select(less(0, abs(p) + abs(d)), 1, acts)],
            ]

        totals = self.space.each(("residual", "works"))
        reads = [
            *self._of_row("row B"),
            self._in_tree("y"),
            *self._of_row("row impulse", "row approach", "rubs", "passive"),
        ]
        acts = self._of_row("row acts")
        return self._each(traced_block(look, [*reads, *self._of_row(*self.LAW), *totals, *acts], [*totals, *acts]))

    # ---- bounces of contacts -------------------------------------------------------------------------------------

    def _in_island(self, *statements: Statement) -> list[Statement]:
        """Statements for every row, with a register of its island."""
        return self._each(Lookup(ISLAND, Address("row islands", (Index(JOINT_ROW),)), "N"), *statements)

    def keep_bounces(self, name: str) -> list[Statement]:
        """Impulses of a solution, ``newton`` or ``plastic``."""
        if not self.count:
            return []
        return self._each(traced_block(lambda p: [[p]], self._of_row("row impulse"), self._of_row(f"{name} row")))

    def tally_bounces(self) -> list[Statement]:
        """Work of the rows, and loads of the limits, in those of their islands."""
        if not self.count:
            return []

        def add(B: Array, y: Array, p: Any, free: Any, approach: Any, rubs: Any, tally: Array) -> list[Any]:
            u = free + multiply_in_strands(B, y)
            return [tally + vector(p * (u + approach) / 2, (1 - rubs) * p, 0)]

        tally = self.space.at("tally", ISLAND)
        own = self._of_row("row impulse", "row free", "row approach", "rubs")
        reads = [*self._of_row("row B"), self._in_tree("y"), *own, tally]
        return self._in_island(traced_block(add, reads, [tally]))

    def mix_bounces(self) -> list[Statement]:
        """The share of the island of impulses with restitution, the rest of those without; ``y`` of them alone."""
        if not self.count:
            return self.release("y")
        mix = traced_block(
            lambda plastic, newton, share: [[mixed_impulse(plastic, newton, share)]],
            [*self._of_row("plastic row", "newton row"), self.space.at("bounce share", ISLAND)],
            self._of_row("row impulse"),
        )
        return [*self._in_island(mix), *self.release("y")]

    # ---- positions -----------------------------------------------------------------------------------------------

    def forecast(self) -> list[Statement]:
        """Ends of ranges at the end of the step, as positions of contacts are forecast."""
        if not self.count:
            return []

        def look(B: Array, y: Array, gap: Any, free: Any, rubs: Any, h: Any, overlap: Array) -> list[Any]:
            end = largest([gap + h * (free + multiply_in_strands(B, y)), -h * RELAXATION_SPEED])
            ahead = select(less(0, rubs), math.inf, end)
            return [[ahead], [0], [0], [largest([overlap[0], -ahead])]]

        own = self._of_row("row gap", "row free", "rubs")
        reads = [*self._of_row("row B"), self._in_tree("y"), *own, *self.space.each(("now dt", "overlap"))]
        writes = [*self._of_row("row ahead", "row push", "row push before"), self.space.at("overlap")]
        return self._each(traced_block(look, reads, writes))

    def look(self) -> list[Statement]:
        """Ends of ranges as they are, less what each row may be beyond them."""
        if not self.count:
            return []

        def look(gap: Any, allowed: Any, rubs: Any, overlap: Array) -> list[Any]:
            ahead = select(less(0, rubs), math.inf, gap + allowed)
            return [[ahead], [0], [0], [largest([overlap[0], -ahead])]]

        reads = [*self._of_row("row gap", "row allowed", "rubs"), self.space.at("overlap")]
        writes = [*self._of_row("row ahead", "row push", "row push before"), self.space.at("overlap")]
        return self._each(traced_block(look, reads, writes))

    def excess(self) -> list[Statement]:
        """How far rows are beyond what they may, in ``excess``."""
        if not self.count:
            return []
        total = self.space.at("excess")

        def deeper(gap: Any, allowed: Any, rubs: Any, excess: Array) -> list[Any]:
            return [[largest([excess[0], select(less(0, rubs), 0, -(gap + allowed))])]]

        return self._each(traced_block(deeper, [*self._of_row("row gap", "row allowed", "rubs"), total], [total]))

    def allow(self) -> list[Statement]:
        """How far rows may be beyond the ends at the end of the step that begins."""
        if not self.count:
            return []
        block = traced_block(
            lambda gap, h: [[largest([-gap - h * RELAXATION_SPEED, 0])]],
            [*self._of_row("row gap"), self.space.at("now dt")],
            self._of_row("row allowed"),
        )
        return self._each(block)

    def push(self, second: bool) -> list[Statement]:
        """Statements of one of two sweeps that move joints back into their ranges."""
        if not self.count:
            return []
        at = self.space.at

        def improve(B: Array, z: Array, ahead: Any, push: Any, ease: Any) -> tuple[Any, Any]:
            after = largest([push - (ahead + multiply_in_strands(B, z)) * ease, 0])
            return after, after - push

        def there(*given: Any) -> list[Any]:
            after, d = improve(*given)
            return [[after], [d], [d]]

        def back(delta: Any, before: Any, change: Array, uphill: Array, *given: Any) -> list[Any]:
            after, d = improve(*given)
            ease = given[4]
            whole = (delta + d) / select(less(0, ease), ease, 1)
            more = [largest([change[0], abs(whole)])], [uphill[0] - whole * (after - before)]
            return [[after], [d], *more]

        own = [*self._of_row("row B"), self._in_tree("z"), *self._of_row("row ahead", "row push", "row ease")]
        if not second:
            writes = [*self._of_row("row push", "row push delta"), at("row given")]
            return self._each(traced_block(there, own, writes), self._follow("z"))
        totals = self.space.each(("change", "uphill"))
        reads = [*self._of_row("row push delta", "row push before"), *totals, *own]
        return self._each(
            traced_block(back, reads, [*self._of_row("row push"), at("row given"), *totals]), self._follow("z")
        )

    def go_ahead(self) -> list[Statement]:
        """Pushes with momentum."""
        if not self.count:
            return []
        both = self._of_row("row push", "row push before")
        block = traced_block(
            lambda now, before, beta: [[now + beta[0] * (now - before)], [now]], [*both, self.space.at("beta")], both
        )
        return self._each(block)
