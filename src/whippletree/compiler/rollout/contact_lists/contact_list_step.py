"""Whole trajectories with contact as one kernel that works on what matters: lists of blocks, sweeps until converged.

The mathematics is that of :mod:`whippletree.contact.time_step`. :mod:`~whippletree.compiler.rollout.contact_rollout`
writes every block of it out and computes all of them in every sweep, which suits batches in which all feet are down.
Here a step

1. finds the factor of M and the velocity without impulses;
2. lists the blocks that may matter: those that carried an impulse or would close within the step
   (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_members`);
3. works out rows for the blocks of the list alone
   (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_preparation`), as B = F Jᵀ with M⁻¹ = Fᵀ F, so that
   G = Bᵀ B is never formed: with y = Σ B λ a block's velocity is g + Bᵀ y, and an impulse changes y by B dλ.
   Constraints are projections of B
   (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_closures`), trees of any length have an F
   (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_trees`);
4. solves the problem of the list to the tolerance
   (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_solver`), with no more restitution than adds no
   energy (:mod:`~whippletree.compiler.rollout.step_bounces`);
5. looks at everything that was left out, at the velocity that came out: what would overlap joins the list, and the
   sweeps go on. So nothing is left out that matters, whatever step 2 guessed; of pairs that are too far apart to meet
   it is enough to know that they are (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_reach`);
6. moves on, finds poses and gaps there, and moves apart what overlaps by more than the velocities' own tolerance
   (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_positions`); the next step begins with these poses
   and gaps.

A scene whose step leaves more than it may stops there: its later rows are NaN, and whoever called knows better methods.

Scenes of a batch share the processor's lanes for the tree, the narrow phase and whatever else is the same work for all;
they are solved one after the other, since they touch in different places and need different numbers of sweeps. µs per
step and scene in a batch of 1024, all of it scene by scene and shared like this: hopper 1.04 and 0.67, half cheetah 1.7
and 1.1, ant 6.6 and 5.3, humanoid 13 and 8. Sweeps, too, with all lanes at once were slower than scene by scene.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.frontend.node_wrenches import TWIST
from whippletree.compiler.program import (
    Address,
    Block,
    Collect,
    Each,
    If,
    Index,
    Loop,
    PerLane,
    Program,
    Statement,
    Until,
)
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_asking import PythonDrives
from whippletree.compiler.rollout.contact_lists.contact_list_chains import is_unbranched
from whippletree.compiler.rollout.contact_lists.contact_list_closures import Closures, LongClosures
from whippletree.compiler.rollout.contact_lists.contact_list_forms import FORM, NORMAL, TANGENT, WHOLE
from whippletree.compiler.rollout.contact_lists.contact_list_looped_tree import LoopedTree
from whippletree.compiler.rollout.contact_lists.contact_list_members import ListMembers
from whippletree.compiler.rollout.contact_lists.contact_list_memory import ListSpace
from whippletree.compiler.rollout.contact_lists.contact_list_momentum import CarriedMomentum
from whippletree.compiler.rollout.contact_lists.contact_list_normals import DenseNormals, Displacement, RecursiveNormals
from whippletree.compiler.rollout.contact_lists.contact_list_parts import (
    SeparateParts,
    has_parts,
    trees_of_velocities,
)
from whippletree.compiler.rollout.contact_lists.contact_list_positions import Positions
from whippletree.compiler.rollout.contact_lists.contact_list_preparation import BlockPreparation
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import RecursiveRows, suits_recursion
from whippletree.compiler.rollout.contact_lists.contact_list_rows import DenseRows, PartedRows, rows_of_blocks
from whippletree.compiler.rollout.contact_lists.contact_list_solver import ListSolver
from whippletree.compiler.rollout.contact_lists.contact_list_trees import tree_in_step
from whippletree.compiler.rollout.step_bounces import ListBounces
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK, COLUMN_ROOM, STEP, Driven
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism

JOINING_ROUNDS = 8
"""Times that blocks which were left out may join the list of a step."""

WIDER_ON_LONG_TREES = 2
"""Times what a gap closes by within a step that it may be wide for a contact of a long tree to be in the list from the
beginning: links that land throw their neighbours at the pulley, and every round of joining solves the whole problem
again. On the same 29 steps of a landing of 400 links, 1172 rounds become 1056; on 44 of 1000 links, 4929 become 4140,
with seven steps left unsolved by both; with 4, 4085 and nine."""

ROUND, PASS = "round", "pass"


def _sweeps_first(model: Model) -> bool:
    """Whether sweeps are given their whole turn before Newton's method: where faces meet, contacts share loads in many
    ways, and forces that are not unique are found by sweeps more often than elsewhere. Hands with an egg or a pen, and
    humanoids with ellipsoids, take 0.75 to 0.9 of the time that they take with a few sweeps."""
    return bool(model.constraints) or not contact_set(model).closed_form


def contact_lists_program(
    model: Model,
    driven: Driven = Driven(),  # noqa: B008 (immutable)
    world_only: bool = False,
) -> Program:
    """(q0, v0, impulses0, tau (T, nv), [ctrl (T, actuators)], dt (T,), tolerance, patience, [clock (T,)], [held (nv,)])
    → T steps.

    The commands of the actuators are an input of models that have some, unless a function finds them; the clock, s, is
    one where functions are asked or constraints depend on time. Dampers ``held`` act beside those of the joints, at the
    end of each step, where ``driven`` says so. A function in Python takes the place of tau and ctrl. The results are q,
    v, impulses, measure, work and friction_work of
    :class:`~whippletree.compiler.rollout.contact_rollout.ContactRollout`, and of each step its correction_work (J),
    sweeps and newton_steps; and, with actuators or functions, the joint forces (T, nv) of all motors over each step. A
    scene stops after a step whose residual exceeds ``patience`` (m/s); sweeps end at ``tolerance``.

    ``world_only``: steps in which a long tree touches the world alone, by recursions over it; those that something else
    would take part in have a residual as large as what it would miss by
    (:func:`~whippletree.compiler.rollout.contact_lists.contact_list_recursion.suits_world_only`).
    """
    return _ListBuilder(model, driven, world_only=world_only).rollout()


def contact_step_program(model: Model) -> Program:
    """(q0, v0, impulses0, tau, [ctrl], dt, tolerance) → (q, v, impulses, measure, [force]): one of those steps."""
    return _ListBuilder(model, Driven(), single=True).rollout()


class _ListBuilder(ListSpace):
    """Writes the statements of a step, whose parts share its memory."""

    def __init__(self, model: Model, driven: Driven, single: bool = False, world_only: bool = False) -> None:
        super().__init__(model, driven, single, world_only)
        self.drives = PythonDrives(self) if driven.in_python else None
        self.in_tree = tree_in_step(self)
        looped = self.in_tree if isinstance(self.in_tree, LoopedTree) else None
        self.closures = Closures(self, self.in_tree) if looped is None else LongClosures(self, looped)
        self.momentum = CarriedMomentum(self, looped, self.closures) if looped and looped.carries else None
        self.parts: SeparateParts | None = None
        """Parts of the scene that are solved one by one, where there may be several."""
        self.long_rows = self._long_rows()
        """Short rows of contacts on the nodes of a long tree; else rows are over velocities."""
        rows = self.long_rows or self._dense_rows()
        self.preparation = BlockPreparation(self, self.in_tree, self.closures, rows)
        self.work(B=(self.blocks.count, 3, rows.width))
        if self.long_rows is None:
            self.work(J=(self.blocks.count, model.nv, COLUMN_ROOM), response=(model.nv,))  # y of the solution
            self.work(unasked=(max(model.nv, 2),))  # what vectors find beside it
        hyperstatic = bool(model.constraints) or self.long_rows is not None
        self.solver = ListSolver(self, self.blocks.count, rows, hyperstatic, _sweeps_first(model))
        self.bounces = ListBounces(self, self.solver)
        wider = 1 if self.long_rows is None else WIDER_ON_LONG_TREES
        self.positions = Positions(self, self.in_tree, self.closures, self._displacement(rows), wider)
        self.members = ListMembers(self, self.positions)

    def _dense_rows(self) -> DenseRows:
        """Rows over velocities."""
        supports = self._supports(self.index_paths())
        self.in_tree.tell_limbs(supports)
        blocks = self.blocks
        forms = [WHOLE] * self.contacts + [NORMAL] * (blocks.closing - self.contacts) + [TANGENT] * len(blocks.rubbing)
        forms += [WHOLE] * len(blocks.moments) + [TANGENT] * len(blocks.servos)
        if {*forms} != {WHOLE}:
            self.index(FORM, forms)
        ways = [[x for x in self.in_tree.reached([i]) if x < i] for i in range(self.model.nv)]
        trees = trees_of_velocities(self.tree)
        # two ants, which are written out, take 0.82 to 1.05 of the time so
        parted = isinstance(self.in_tree, LoopedTree) and has_parts(trees, supports)
        widest = max(map(trees.count, trees)) if parted else None
        rows = rows_of_blocks(self, self.model.nv, supports, ways, widest)
        if isinstance(rows, PartedRows):
            self.parts = SeparateParts(self, trees, supports)
        return rows

    def _long_rows(self) -> RecursiveRows | None:
        """Rows by recursion over the tree, where that suits it."""
        if isinstance(self.in_tree, LoopedTree) and (self.world_only or suits_recursion(self.model, self.blocks)):
            return RecursiveRows(self, self.in_tree, self.closures)
        return None

    def _supports(self, paths: Sequence[Sequence[int]]) -> list[list[int]]:
        """For every block, the velocities at which its rows F Jᵀ may differ from zero; ``paths``: of the contacts."""
        blocks, every = self.blocks, list(range(self.model.nv))
        if self.closures.count:
            return [every] * blocks.count
        moved = [*paths, *[[axis.v] for axis in blocks.limited], *[every] * len(blocks.taut)]
        moved += [*[[axis.v] for axis in blocks.rubbing], *[paths[moment.candidate] for moment in blocks.moments]]
        return [self.in_tree.reached(own) for own in moved] + [every] * len(blocks.servos)

    def _displacement(self, rows: DenseRows | RecursiveRows) -> Callable[[int], Displacement]:
        """How overlaps are undone."""
        if isinstance(rows, RecursiveRows):
            return lambda closing: RecursiveNormals(self, rows, closing)

        def by_normals(closing: int) -> Displacement:
            normal = self.preparation.jacobian(NORMAL)
            return DenseNormals(self, self.in_tree, self.closures, closing, normal, rows)

        return by_normals

    # ---- statements ----------------------------------------------------------------------------------------------

    def rollout(self) -> Program:
        """The whole program.

        Poses and gaps are found at the end of a step, for the next one; before the first step, a pass that moves
        nothing finds those of the start. So the narrow phase stands in the program once.
        """
        solve: tuple[Statement, ...] = (
            *([] if self._keeps_twists else self.in_tree.twists("now v")),
            *(self.momentum.dynamics() if self.momentum else [*self.in_tree.dynamics(), *self.closures.release()]),
            *(self._touch() if self.blocks.count else self._fly()),
        )
        solve = self.ranges.around(solve)
        move = [*self.momentum.remember(), *self.momentum.advance()] if self.momentum else [self._advance()]
        move += self.closures.reach_end()
        asked = self.drives.ask() if self.drives else []
        step = (*asked, self.put(0, self.at("made"), self.at("newtons")), *solve, *move, *self.positions.aim())
        note = traced_block(lambda flag: [flag, [1]], [self.at("stepping")], self.each(("through", "stepping")))
        passed = (If(self.address("stepping"), step, "are none"), *self.positions.settle(), *self._arrive(), note)
        one = (
            *self.closures.start_clock(),
            self.put(-1, self.at("through")),
            Until(PASS, 2, self.address("through"), passed, "are none"),
            *([] if self.momentum else self.closures.close_velocity()),
            *self.results.statements(),
            *(self.drives.stop_at_first_load() if self.drives else []),
        )
        if self.single:
            return self.program("contact_step", (*self._begin(), *one))
        rows = (
            If(self.address("lost"), (PerLane(tuple(self.results.nothing())),)),
            If(self.address("alive"), one, "run along"),
        )
        begin = (*self._begin(), *(self.drives.begin() if self.drives else []))
        return self.program("contact_lists", (*begin, Loop(STEP, "T", rows)))

    def _touch(self) -> list[Statement]:
        """Steps 2 to 5."""
        return [
            *(self.long_rows.prepare() if self.long_rows else []),
            *self.members.guess(),
            self.put(-1, self.at("complete")),
            # a scene that is complete finds the same again
            Until(ROUND, JOINING_ROUNDS, self.address("complete"), tuple(self._round()), "run along"),
            *self.members.end(),
        ]

    def _fly(self) -> list[Statement]:
        """The end of a step in which nothing can touch: the free velocity, and nothing left to solve."""
        end = traced_block(lambda v: [v], [self.at("free")], [self.at("end v")])
        return [end, self.put(0, *self.each(("residual", "left", "works")))]

    def _arrive(self) -> list[Statement]:
        """Where momenta are carried: the factor of M at the new pose, and the velocity there."""
        if self.momentum is None:
            return []
        return [*self.momentum.factor(), If(self.address("stepping"), tuple(self.momentum.arrive()), "are none")]

    @property
    def _keeps_twists(self) -> bool:
        """Whether twists of the last look are those of the velocity with which a step begins."""
        changed = self.closures.count or self.ranges.count or self.momentum is not None
        return self.positions.reach.used and not changed

    def _begin(self) -> list[Statement]:
        nodes = len(self.tree.nodes)
        world = [
            Piece((n,), tuple(Address(name, (Index(None, nodes), Index(None, i))) for i in range(n)))
            for name, n in (("pose", POSE), ("twist", TWIST))
        ]
        identity = [*np.eye(3, dtype=int).ravel().tolist(), 0, 0, 0]
        start = traced_block(
            lambda q, v: [q, v, [1], [-1], identity, [0] * TWIST],
            self.each(("q0", "v0")),
            [*self.each(("now q", "now v", "alive", "lost")), *world],
        )
        copy = traced_block(lambda p: [p], [self.at("impulses0", BLOCK)], [self.at("impulse", BLOCK)])
        impulses = self.each_block(copy)
        rigid: list[Statement] = []
        if self.blocks.servos:
            rigid = [Loop(BLOCK, self.blocks.count, (self.put(0, *self.each(("soft", "offset"), BLOCK)),))]
        rigid += self.momentum.begin() if self.momentum else []
        begin = [*self.positions.begin(), *self.members.begin()]
        return [PerLane((start, *impulses)), *rigid, self.put(-1, self.at("stepping")), *begin]

    def _round(self) -> list[Statement]:
        """Steps 3 to 5."""
        listed = Collect(
            ACTIVE, BLOCK, self.contacts if self.world_only else self.blocks.count, self.address("flag", BLOCK)
        )
        whole = (
            *self.solver.rows.clear("y"),
            Each(BLOCK, ACTIVE, tuple(self.preparation.statements())),
            self.preparation.own_numbers(),
            *self.solver.rows.compute_motion("y"),
            *self.bounces.around(self.solver.statements()),
            *self._impulse_velocity(),
            *self.results.of_list(),
        )
        entered = self.long_rows.enter_list() if self.long_rows else []
        parts = [listed, *entered, *whole] if self.parts is None else self.parts.around(whole)
        moments = [] if self.positions.clears_behind else self.moments.with_contacts()
        solve = (*moments, *parts)
        return [
            PerLane(solve),
            *([] if self.long_rows else self.in_tree.forward("response", "end v", "free")),
            *self.in_tree.twists("end v"),
            *self.members.look_around(),
            *self._give_up(),
        ]

    def _give_up(self) -> list[Statement]:
        """On a long chain, whose steps are as soon taken in halves, an unsolved problem is the last of a step: nothing
        joins at a velocity that is not the end's. (Of a rope of 100 links, 560 Newton steps of one in vain, 20 s.)
        """
        if not (isinstance(self.in_tree, LoopedTree) and is_unbranched(self.tree)):
            return []
        block = traced_block(
            lambda residual, tolerance, complete: [[select(less(residual[1], tolerance), complete[0], 1)]],
            self.each(("residual", "tolerance", "complete")),
            [self.at("complete")],
        )
        return [block]

    def _impulse_velocity(self) -> list[Statement]:
        """``response``: y of the solution; on a long tree, ``end v``: the velocity with all impulses."""
        if self.parts is not None:
            both = self.each(("y", "response"))
            return [traced_block(lambda y, so_far: [so_far + y[: self.model.nv]], both, [self.at("response")])]
        if self.long_rows is None:
            return [traced_block(lambda y: [y[: self.model.nv]], [self.at("y")], [self.at("response")])]
        rows = self.long_rows
        add = Each(BLOCK, ACTIVE, (*rows.enter(), rows.add_to("y", "impulse"), *rows.turn_impulse(inwards=False)))
        return [*rows.clear("y"), add, *rows.velocities("free", "end v")]

    def _advance(self) -> Block:
        """Where the velocities alone lead."""

        def move(q: Array, v: Array, h: Any) -> list[Any]:
            return list(Mechanism(self.tree).manifold().straight(q, v, h * v))

        return traced_block(move, [*self.each(("now q", "end v")), self.at("dt", STEP)], self.each(("now q", "now v")))
