"""Limits and dry friction of the joints of a mechanism among the bodies of a scene: rows of one number each.

A row acts on one velocity of a tree, with a sign, and its impulse has bounds: 0 ≤ λ at an end of a range, |λ| ≤ h τ for
dry friction. Both are

    λ ← min(max(λ − (u + shift) / g, low), high)        u = ± v_free + B · y        g = B · B

with B the column of F (:mod:`~whippletree.compiler.rollout.scenes.scene_trees`). There are as many as joints, so that
all of them are swept, after the contacts on the way there and before them on the way back.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Buffer, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.scenes.scene_contacts import ISLAND
from whippletree.compiler.rollout.scenes.scene_leaps import SceneLeaps
from whippletree.compiler.rollout.scenes.scene_trees import COLUMN, GROUP, VELOCITY, SceneTrees
from whippletree.contact.kinematics.joint_contacts import limited_axes, rubbing_axes
from whippletree.contact.problem.cones import largest
from whippletree.contact.restitution_share import mixed_impulse
from whippletree.contact.time_step import RELAXATION_SPEED

JOINT_ROW = "joint row"


class SceneJoints:
    """Statements about these rows; none where there are none."""

    def __init__(self, trees: SceneTrees) -> None:
        self.trees, self.space = trees, trees.space
        model = trees.model
        limited, rubbing = limited_axes(model), rubbing_axes(model)
        self.count = len(limited) + len(rubbing)
        if not self.count:
            return
        axes, n = [*limited, *rubbing], self.count
        self.space.index("velocity of row", [axis.v for axis in axes])
        self.space.index("coordinate of row", [axis.q for axis in axes])
        self.space.table("lower", [axis.lower for axis in limited] + [-math.inf] * len(rubbing))
        self.space.table("upper", [axis.upper for axis in limited] + [math.inf] * len(rubbing))
        # a limit may push as hard as it has to
        self.space.table("most force", [math.inf] * len(limited) + [float(axis.friction) for axis in rubbing])
        self.space.table("rubs", [0] * len(limited) + [1] * len(rubbing))
        self.space.work(
            row_impulse=(n,),
            row_start=(n,),
            row_before=(n,),
            row_sign=(n,),
            row_gap=(n,),
            row_shift=(n,),
            row_ease=(n,),  # 1 / g
            row_low=(n,),
            row_high=(n,),
            row_free=(n,),  # u without impulses
            row_approach=(n,),
            row_push=(n,),
            row_push_before=(n,),
            row_push_delta=(n,),
            row_ahead=(n,),  # the gap at the end of the step
            row_allowed=(n,),
            row_given=(1,),
            newton_row=(n,),  # with restitution, and without
            plastic_row=(n,),
        )

    def arguments(self) -> tuple[list[Buffer], list[Buffer]]:
        """Inputs and outputs of the kernel, after those of the trees."""
        if not self.count:
            return [], []
        islands = Buffer("row islands", "input", (self.count,), integer=True)
        inputs = [Buffer("row impulses0", "input", (self.count,)), islands]
        return inputs, [Buffer("row impulses", "output", (self.count,))]

    def _each(self, *statements: Statement) -> list[Statement]:
        """Statements for every row, with registers of its velocity."""
        velocity = Lookup(VELOCITY, Address("velocity of row", (Index(JOINT_ROW),)))
        return [Loop(JOINT_ROW, self.count, (velocity, *self.trees.place(), *statements))]

    def _of_row(self, *names: str) -> list[Piece]:
        return self.space.each(names, JOINT_ROW)

    def _in_tree(self, name: str) -> Piece:
        return self.space.at(name, GROUP)

    def _follow(self, name: str) -> Statement:
        """The impulse ``row given``, with its sign, added to a buffer (trees, width)."""
        entry, own = (
            Piece((), (Address(at, indices),))
            for at, indices in (
                (name, (Index(GROUP), Index(COLUMN))),
                (self.trees.columns, (Index(GROUP), Index("place in tree"), Index(COLUMN))),
            )
        )
        add = traced_block(lambda y, p, F: [[y + p[0] * F]], [entry, self.space.at("row given"), own], [entry])
        return Loop(COLUMN, self.trees.width, (add,), side_by_side=True)

    def begin_call(self) -> list[Statement]:
        """Impulses of the last step; whatever is beyond its range may be."""
        if not self.count:
            return []
        copy = traced_block(
            lambda p: [[p], [math.inf]], self._of_row("row impulses0"), self._of_row("row impulse", "row allowed")
        )
        return self._each(copy)

    def results(self) -> list[Statement]:
        """Impulses at the end of a call."""
        if not self.count:
            return []
        return self._each(traced_block(lambda p: [[p]], self._of_row("row impulse"), self._of_row("row impulses")))

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
        return self._each(
            place,
            traced_block(nearer, [q, *self._of_row("lower", "upper", "rubs")], self._of_row("row sign", "row gap")),
        )

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
            return [
                [shift],
                [ease],
                [low],
                [high],
                [sign * v],
                [sign * before],
                [inside],
                [inside],
                [inside],
                [sign * inside],
            ]

        speeds = [Piece((), (Address(name, (Index(VELOCITY),)),)) for name in ("tree free", "tree now v")]
        reads = [*self._of_row("row sign", "row gap", "most force", "rubs"), self.trees.column()]
        reads += [*self._of_row("row impulse"), *speeds, self.space.at("now dt")]
        names = ("row shift", "row ease", "row low", "row high", "row free", "row approach")
        writes = self._of_row(*names, "row impulse", "row start", "row before")
        return self._each(traced_block(rows, reads, [*writes, self.space.at("row given")]), self._follow("y"))

    def release(self, name: str) -> list[Statement]:
        """What the impulses of rows do, alone, in a buffer (trees, width)."""
        clear = [self.trees.clear(name)]
        if not self.count:
            return clear
        give = traced_block(
            lambda sign, p: [[sign * p]], self._of_row("row sign", "row impulse"), [self.space.at("row given")]
        )
        return [*clear, *self._each(give, self._follow(name))]

    @staticmethod
    def _answer(F: Array, y: Array, p: Any, sign: Any, free: Any, shift: Any, ease: Any, low: Any, high: Any) -> Any:
        """A better impulse."""
        u = free + sign * multiply_in_strands(F, y) + shift
        wanted = p - u * ease
        return select(less(wanted, low), low, select(less(high, wanted), high, wanted))

    LAW = ("row sign", "row free", "row shift", "row ease", "row low", "row high")

    def sweep_there(self) -> list[Statement]:
        """A sweep over the rows, from where the shares lead."""
        if not self.count:
            return []

        def there(F: Array, y: Array, now: Any, start: Any, before: Any, shares: Array, *law: Any) -> list[Any]:
            p = SceneLeaps.ahead(now, start, before, shares)[()]
            after = self._answer(F, y, p, *law)
            return [[after], [p], [now], [law[0] * (after - p)]]

        own = self._of_row("row impulse", "row start", "row before")
        reads = [self.trees.column(), self._in_tree("y"), *own, self.space.at("shares"), *self._of_row(*self.LAW)]
        return self._each(traced_block(there, reads, [*own, self.space.at("row given")]), self._follow("y"))

    def sweep_back(self) -> list[Statement]:
        """The second sweep, and what the next start is found from."""
        if not self.count:
            return []
        at = self.space.at

        def back(
            F: Array, y: Array, p: Any, start: Any, before: Any, change: Array, rise: Array, *law: Any
        ) -> list[Any]:
            after = self._answer(F, y, p, *law)
            sign, free, shift, ease = law[:4]
            d = after - p
            some = less(0, ease)
            speed = d / select(some, ease, 1)
            ways = vector(after - start, after - before)
            return [[after], [largest([change[0], speed * speed])], rise + (free + shift) * ways, [sign * d]]

        own = self._of_row("row impulse", "row start", "row before")
        reads = [self.trees.column(), self._in_tree("y"), *own, at("change"), at("rise"), *self._of_row(*self.LAW)]
        block = traced_block(back, reads, [own[0], at("change"), at("rise"), at("row given")])
        return self._each(block, self._follow("y"))

    def measure(self) -> list[Statement]:
        """The residuals of the rows, and their work, in those of the contacts."""
        if not self.count:
            return []

        def look(F: Array, y: Array, p: Any, approach: Any, rubs: Any, *rest: Any) -> list[Any]:
            *law, residual, works = rest
            sign, free, _, ease = law[:4]
            after = self._answer(F, y, p, *law)
            u = free + sign * multiply_in_strands(F, y)
            some = less(0, ease)
            d = after - p
            speed = d / select(some, ease, 1)
            work = p * (u + approach) / 2
            return [
                [largest([residual[0], d * d]), largest([residual[1], speed * speed]), residual[2]],
                [works[0] + work, works[1] + rubs * work],
            ]

        totals = self.space.each(("residual", "works"))
        reads = [self.trees.column(), self._in_tree("y"), *self._of_row("row impulse", "row approach", "rubs")]
        return self._each(traced_block(look, [*reads, *self._of_row(*self.LAW), *totals], totals))

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

        def add(F: Array, y: Array, p: Any, sign: Any, free: Any, approach: Any, rubs: Any, tally: Array) -> list[Any]:
            u = free + sign * multiply_in_strands(F, y)
            return [tally + vector(p * (u + approach) / 2, (1 - rubs) * p, 0)]

        tally = self.space.at("tally", ISLAND)
        own = self._of_row("row impulse", "row sign", "row free", "row approach", "rubs")
        reads = [self.trees.column(), self._in_tree("y"), *own, tally]
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

        def look(F: Array, y: Array, gap: Any, sign: Any, free: Any, rubs: Any, h: Any, overlap: Array) -> list[Any]:
            end = largest([gap + h * (free + sign * multiply_in_strands(F, y)), -h * RELAXATION_SPEED])
            ahead = select(less(0, rubs), math.inf, end)
            return [[ahead], [0], [0], [largest([overlap[0], -ahead])]]

        own = self._of_row("row gap", "row sign", "row free", "rubs")
        reads = [self.trees.column(), self._in_tree("y"), *own, *self.space.each(("now dt", "overlap"))]
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
        """One of two sweeps that move joints back into their ranges."""
        if not self.count:
            return []
        at = self.space.at

        def improve(F: Array, z: Array, ahead: Any, push: Any, sign: Any, ease: Any) -> tuple[Any, Any]:
            after = largest([push - (ahead + sign * multiply_in_strands(F, z)) * ease, 0])
            return after, after - push

        def there(*given: Any) -> list[Any]:
            after, d = improve(*given)
            return [[after], [d], [given[4] * d]]

        def back(delta: Any, before: Any, change: Array, uphill: Array, *given: Any) -> list[Any]:
            after, d = improve(*given)
            ease = given[5]
            whole = (delta + d) / select(less(0, ease), ease, 1)
            more = [largest([change[0], abs(whole)])], [uphill[0] - whole * (after - before)]
            return [[after], [given[4] * d], *more]

        own = [self.trees.column(), self._in_tree("z"), *self._of_row("row ahead", "row push", "row sign", "row ease")]
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
