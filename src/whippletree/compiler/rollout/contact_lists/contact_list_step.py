"""Whole trajectories with contact as one kernel that works on what matters: lists of blocks, sweeps until converged.

The mathematics is that of :mod:`whippletree.contact.time_step`. :mod:`~whippletree.compiler.rollout.contact_rollout`
writes every block of it out and computes all of them in every sweep, which suits batches in which all feet are down.
Here a step

1. finds the factor of M and the velocity without impulses;
2. lists the blocks that may matter: those that carried an impulse or would close within the step;
3. works out rows for the blocks of the list alone, as B = F Jᵀ with M⁻¹ = Fᵀ F, so that G = Bᵀ B is never formed: with
   y = Σ B λ a block's velocity is g + Bᵀ y, and an impulse changes y by B dλ. Constraints are projections of B
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

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.frontend.node_wrenches import SCREW, TWIST
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Collect,
    Dimension,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    PerLane,
    Program,
    Statement,
    Switch,
    Until,
)
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_kinds import TOUCH
from whippletree.compiler.rollout.contact_lists.contact_list_asking import PythonDrives
from whippletree.compiler.rollout.contact_lists.contact_list_chains import is_unbranched
from whippletree.compiler.rollout.contact_lists.contact_list_closures import Closures, LongClosures
from whippletree.compiler.rollout.contact_lists.contact_list_forms import (
    FORM,
    NORMAL,
    TANGENT,
    WHOLE,
    block_of_form,
    row_of,
)
from whippletree.compiler.rollout.contact_lists.contact_list_moments import MomentRows
from whippletree.compiler.rollout.contact_lists.contact_list_momentum import CarriedMomentum
from whippletree.compiler.rollout.contact_lists.contact_list_normals import DenseNormals, Displacement, RecursiveNormals
from whippletree.compiler.rollout.contact_lists.contact_list_positions import Positions, target_of
from whippletree.compiler.rollout.contact_lists.contact_list_ranges import ServoRanges
from whippletree.compiler.rollout.contact_lists.contact_list_reach import CLOSE, LATE
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import (
    RecursiveRows,
    left_out_of_recursion,
    own_block,
    suits_recursion,
)
from whippletree.compiler.rollout.contact_lists.contact_list_results import StepResults
from whippletree.compiler.rollout.contact_lists.contact_list_rows import DenseRows, rows_of_blocks
from whippletree.compiler.rollout.contact_lists.contact_list_solver import ListSolver
from whippletree.compiler.rollout.contact_lists.contact_list_trees import LoopedTree, tree_in_step
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.motion_space import screw_count, screw_rows
from whippletree.compiler.rollout.step_bounces import ListBounces
from whippletree.compiler.rollout.step_space import (
    ACTIVE,
    BLOCK,
    COLUMN_ROOM,
    STEP,
    Driven,
    RowPlace,
    StepSpace,
    jacobian_rows,
    symmetric_block,
)
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.contact.problem.cones import both, largest
from whippletree.contact.problem.contact_problem import Local, local
from whippletree.contact.time_step import shifts
from whippletree.model import Model
from whippletree.spatial import add_cross
from whippletree.tree.mechanism import Mechanism

JOINING_ROUNDS = 8
"""Times that blocks which were left out may join the list of a step."""

WIDER_ON_LONG_TREES = 2
"""Times what a gap closes by within a step that it may be wide for a contact of a long tree to be in the list from the
beginning: links that land throw their neighbours at the pulley, and every round of joining solves the whole problem
again. On the same 29 steps of a landing of 400 links, 1172 rounds become 1056; on 44 of 1000 links, 4929 become 4140,
with seven steps left unsolved by both; with 4, 4085 and nine."""

ROW, ROUND, PASS = "row", "round", "pass"
CONTACT, LIMIT, TAUT, FRICTION, SERVO = range(5)
"""Kinds of blocks, before those of moments."""


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


class _ListBuilder(StepSpace):
    """Writes the statements of a step."""

    def __init__(self, model: Model, driven: Driven, single: bool = False, world_only: bool = False) -> None:
        """``single``: one step, whose arguments and results have no dimension for steps; ``world_only``: as in
        :func:`contact_lists_program`."""
        super().__init__(model, driven, single)
        self.world_only = world_only
        self.ranges = ServoRanges(self)
        self.moments = MomentRows(self)
        self._arguments()
        self.drives = PythonDrives(self) if driven.in_python else None
        self._memory()
        self._tables()
        self.in_tree = tree_in_step(self)
        looped = self.in_tree if isinstance(self.in_tree, LoopedTree) else None
        self.closures = Closures(self, self.in_tree) if looped is None else LongClosures(self, looped)
        self.momentum = CarriedMomentum(self, looped, self.closures) if looped and looped.carries else None
        self.long_rows = self._long_rows()
        rows = self.long_rows or self._dense_rows()
        self.work(B=(self.blocks.count, 3, rows.width))
        if self.long_rows is None:
            self.work(J=(self.blocks.count, model.nv, COLUMN_ROOM), response=(model.nv,))  # y of the solution
            self.work(unasked=(max(model.nv, 2),))  # what vectors find beside it
        hyperstatic = bool(model.constraints) or self.long_rows is not None
        self.solver = ListSolver(self, self.blocks.count, rows, hyperstatic, _sweeps_first(model))
        self.bounces = ListBounces(self, self.solver)
        self.positions = Positions(self, self.in_tree, self.closures, self._displacement())

    def _dense_rows(self) -> DenseRows:
        """Rows over velocities."""
        supports = self._supports(self._paths())
        self.in_tree.tell_limbs(supports)
        blocks = self.blocks
        forms = [WHOLE] * self.contacts + [NORMAL] * (blocks.closing - self.contacts) + [TANGENT] * len(blocks.rubbing)
        forms += [WHOLE] * len(blocks.moments) + [TANGENT] * len(blocks.servos)
        if {*forms} != {WHOLE}:
            self.index(FORM, forms)
        self.dense_rows = rows_of_blocks(self, self.model.nv, supports)
        return self.dense_rows

    def _long_rows(self) -> RecursiveRows | None:
        """Rows by recursion over the tree, where that suits it."""
        if isinstance(self.in_tree, LoopedTree) and (self.world_only or suits_recursion(self.model, self.blocks)):
            return RecursiveRows(self, self.in_tree, self.closures)
        return None

    def _arguments(self) -> None:
        nq, nv, k = self.model.nq, self.model.nv, self.blocks.count
        steps: tuple[Dimension, ...] = () if self.single else ("T",)
        shapes: dict[str, tuple[Dimension, ...]] = {
            "q0": (nq,),
            "v0": (nv,),
            "impulses0": (k, 3),
            **self._drives(steps),
            "dt": steps,
            "tolerance": (),
        }
        if not self.single:
            shapes["patience"] = ()
        if self.asks_clock:
            shapes["clock"] = steps
        if self.driven.held:
            shapes["held"] = (nv,)
        self.add(*[Buffer(name, "input", shape) for name, shape in shapes.items()])
        self.results = StepResults(self, steps)

    def _drives(self, steps: tuple[Dimension, ...]) -> dict[str, tuple[Dimension, ...]]:
        """Inputs of forces and commands, if they are given."""
        if self.driven.in_python:
            return {}
        given = self.actuators.acting and self.driven.commands is None
        commands = {"ctrl": (*steps, len(self.model.actuators))} if given else {}
        return {"tau": (*steps, self.model.nv), **commands}

    def _memory(self) -> None:
        """Memory of a step for its later parts and for the next step."""
        nq, nv, k, nodes = self.model.nq, self.model.nv, self.blocks.count, len(self.tree.nodes)
        self.work(
            now_q=(nq,),
            now_v=(nv,),
            impulse=(k, 3),
            alive=(1,),
            lost=(1,),
            stepping=(1,),  # whether a pass takes a step, or only looks
            through=(1,),
            pose=(nodes + 1, POSE),  # the last row is the world
            twist=(nodes + 1, TWIST),
            screw=(screw_count(self.tree), SCREW),
            free=(nv,),
            end_v=(nv,),
            touch=(self.contacts, TOUCH),
            gap=(k,),
            sign=(len(self.blocks.limited),),
            tendon_row=(len(self.blocks.taut), nv),
            flag=(k,),
            own=(k, 6),  # the block's own part of G, its upper triangle
            local=(k, len(Local._fields)),
            g=(k, 3),
            shift=(k,),
            approach=(k, 3),
            left=(1,),  # the worst of what was left out, m/s
            complete=(1,),
        )
        self.numbers_list(ACTIVE, k)
        if self.tells_forces:
            self.work(drive=(nv,))  # forces that do not depend on the velocity at the end of the step
        if self.actuators.coupling:
            self.work(coupling=(len(self.actuators.coupling), nv))  # their rows G
        if self.blocks.servos:
            self.work(servo_row=(len(self.blocks.servos), nv), soft=(k,), offset=(k,))
            self.ranges.reserve()

    def _tables(self) -> None:
        """Numbers of every block that are known beforehand."""
        blocks = self.blocks
        servos, moments, taut = len(blocks.servos), len(blocks.moments), len(blocks.taut)
        kinds = [CONTACT] * self.contacts + [LIMIT] * len(blocks.limited)
        kinds += [TAUT] * taut + [FRICTION] * len(blocks.rubbing)
        kinds += [1 + SERVO + kind for kind in self.moments.kinds]
        self.index("kind", kinds + [SERVO] * servos)
        axes = [*[None] * self.contacts, *blocks.limited, *[None] * taut, *blocks.rubbing, *[None] * (moments + servos)]
        self.index("axis", [0 if axis is None else axis.v for axis in axes])
        self.index("place", [0 if axis is None else axis.q for axis in axes])
        self.index("tendon", [max(i - blocks.first_tendon, 0) for i in range(blocks.closing)])
        self.index("servo", [0] * blocks.passive + list(range(servos)))
        self.table("passive", [1] * blocks.passive + [0] * servos)
        self.index("limit", [max(i - self.contacts, 0) for i in range(self.contacts + len(blocks.limited))])
        if self.world_only:
            self.table("left out", left_out_of_recursion(self.model, blocks).astype(int).tolist())
        self.table("friction", blocks.friction)
        self.table("restitution", blocks.restitution)
        self.table("cap", blocks.cap(1))
        self.table("lower", [axis.lower for axis in blocks.limited])
        self.table("upper", [axis.upper for axis in blocks.limited])
        world = len(self.tree.nodes)
        nodes = [
            [self.tree.bodies[body].node for body in (c.first_body, c.second_body)] for c in blocks.contacts.candidates
        ]
        for side in (0, 1):
            self.index(f"node {side}", [world if pair[side] < 0 else pair[side] for pair in nodes])

    def _paths(self) -> list[list[int]]:
        """Velocities that move the bodies of each contact; those that move both move neither against the other."""
        nodes = [
            [self.tree.bodies[body].node for body in (c.first_body, c.second_body)]
            for c in self.blocks.contacts.candidates
        ]
        own = screw_rows(self.tree)
        moved = [[{x for k in self.tree.path(node) for x in own[k]} for node in pair] for pair in nodes]
        paths = [[(i, 1) for i in sorted(a - b)] + [(i, -1) for i in sorted(b - a)] for a, b in moved]
        longest = max(map(len, paths), default=0) or 1
        filled = [path + [((0, 0), 0)] * (longest - len(path)) for path in paths]
        self.index("moving", [len(path) for path in paths])
        self.index("path", [[i for (i, _), _ in path] for path in filled])
        if self.model.is_flexible:
            self.index("screw row", [[row for (_, row), _ in path] for path in filled])
        self.table("side", [[s for _, s in path] for path in filled])
        return [[i for (i, _), _ in path] for path in paths]

    def _supports(self, paths: Sequence[Sequence[int]]) -> list[list[int]]:
        """For every block, the velocities at which its rows F Jᵀ may differ from zero; ``paths``: of the contacts."""
        blocks, every = self.blocks, list(range(self.model.nv))
        if self.closures.count:
            return [every] * blocks.count
        moved = [*paths, *[[axis.v] for axis in blocks.limited], *[every] * len(blocks.taut)]
        moved += [*[[axis.v] for axis in blocks.rubbing], *[paths[moment.candidate] for moment in blocks.moments]]
        return [self.in_tree.reached(own) for own in moved] + [every] * len(blocks.servos)

    def _displacement(self) -> Callable[[int], Displacement]:
        """How overlaps are undone."""
        if self.long_rows is not None:
            rows = self.long_rows
            return lambda closing: RecursiveNormals(self, rows, closing)
        return lambda closing: DenseNormals(
            self, self.in_tree, self.closures, closing, self._jacobian(NORMAL), self.dense_rows
        )

    # ---- statements ----------------------------------------------------------------------------------------------

    def look_up(self, *names: str) -> list[Lookup]:
        """Registers with the names of tables: what these say of the block in hand."""
        return [Lookup(name, self.address(name, BLOCK)) for name in names]

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
            *self._flags(),
            self.put(-1, self.at("complete")),
            # a scene that is complete finds the same again
            Until(ROUND, JOINING_ROUNDS, self.address("complete"), tuple(self._round()), "run along"),
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
        return [PerLane((start, *impulses)), *rigid, self.put(-1, self.at("stepping")), *self.positions.begin()]

    def _flags(self) -> list[Statement]:
        """Step 2: blocks that carried an impulse, or would close within the step at their present velocity.

        What gravity alone does within the step is added, so that whatever begins to rest is there at once; on a long
        tree, twice as much counts. It is a guess: step 5 decides.
        """
        fall = sqrt(sum(float(x) ** 2 for x in self.model.gravity))
        wider = 1 if self.long_rows is None else WIDER_ON_LONG_TREES

        def flagged(p: Array, closing: Any, left_out: Any) -> Any:
            return select(less(0, left_out), -1, select(less(0, p[0]), 1, select(less(closing, 0), 1, -1)))

        def near(
            touch: Array, first: Array, second: Array, X: Array, Y: Array, p: Array, h: Any, *out: Any
        ) -> list[Any]:
            closing = touch[0] + wider * h * (_normal_velocity(touch, first, second, X, Y) - fall * h)
            return [flagged(p, closing, sum(out)), target_of(touch[0], h)]

        def limited(gap: Any, sign: Any, v: Any, p: Array, h: Any) -> list[Any]:
            return [flagged(p, gap + h * sign * v, int(self.world_only)), target_of(gap, h)]

        def stretched(gap: Any, row: Array, v: Array, p: Array, h: Any) -> list[Any]:
            return limited(gap, 1, row @ v, p, h)

        found: list[Statement] = []
        if self.contacts:
            reads = [self.at("touch", BLOCK), *self._sides(), self.at("impulse", BLOCK), self.at("dt", STEP)]
            reads += self._left_out()
            block = traced_block(near, reads, self.each(("flag", "target"), BLOCK))
            close = Collect(CLOSE, BLOCK, self.contacts, self.address("within", BLOCK))
            forget = [*self.positions.reach.forget("flag"), *self.positions.no_targets()]
            found += [*forget, close, Each(BLOCK, CLOSE, (*self.look_up("node 0", "node 1"), block))]
        if self.blocks.limited:
            own = self.positions.of_limit
            reads = [own("gap"), self.at("sign", BLOCK), self.at("now v", "axis"), own("impulse"), self.at("dt", STEP)]
            block = traced_block(limited, reads, [own("flag"), own("target")])
            found.append(Loop(BLOCK, len(self.blocks.limited), (*self._look_up_limit(), block)))
        if self.blocks.taut:
            of = self.positions.of_tendon
            reads = [of("gap"), self.at("tendon row", BLOCK), self.at("now v"), of("impulse"), self.at("dt", STEP)]
            block = traced_block(stretched, reads, [of("flag"), of("target")])
            found.append(Loop(BLOCK, len(self.blocks.taut), (block,)))
        return [*found, *self._flags_without_gaps()]

    def _left_out(self) -> list[Piece]:
        """Whether the contact in hand is left out, where some are."""
        return [self.at("left out", BLOCK)] if self.world_only else []

    def _flags_without_gaps(self) -> list[Statement]:
        """Flags of blocks that nothing has to close for: dry friction and moments, and servos at an end of a range."""
        found: list[Statement] = []
        first, servos = self.blocks.closing, range(self.blocks.passive, self.blocks.count)
        if self.blocks.passive > first:  # moments are taken in with their contacts, later; there may be thousands
            flag, gap = (Piece((), (Address(name, (Index(BLOCK, first),)),)) for name in ("flag", "gap"))
            block = traced_block(lambda: [1, 0], [], [flag, gap])
            found.append(Loop(BLOCK, self.blocks.passive - first, (block,), side_by_side=True))
        if servos:
            reads = [self.at("saturated")] if self.ranges.count else []
            writes = [self.some("flag", servos), self.some("gap", servos)]
            none = [0] * len(servos)
            found.append(traced_block(lambda *at_end: [*(at_end or [[1] * len(servos)]), none], reads, writes))
        return found

    def _sides(self) -> list[Piece]:
        """Twists of both bodies of a contact, and where their origins are."""
        twists = [self.at("twist", f"node {side}") for side in (0, 1)]
        places = [
            Piece((3,), tuple(Address("pose", (Index(f"node {side}"), Index(None, 9 + i))) for i in range(3)))
            for side in (0, 1)
        ]
        return [*twists, *places]

    def _ends(self) -> list[Piece]:
        return [self.at("lower", BLOCK), self.at("upper", BLOCK)]

    def _look_up_limit(self) -> list[Lookup]:
        return [Lookup(name, Address(name, (Index(BLOCK, self.contacts),))) for name in ("place", "axis")]

    def _round(self) -> list[Statement]:
        """Steps 3 to 5."""
        solve = (
            *self.moments.with_contacts(),
            Collect(
                ACTIVE, BLOCK, self.contacts if self.world_only else self.blocks.count, self.address("flag", BLOCK)
            ),
            *self.solver.rows.clear("y"),
            Each(BLOCK, ACTIVE, tuple(self._rows_by_form())),
            *self.solver.rows.compute_motion("y"),
            *self.bounces.around(self.solver.statements()),
            *self._impulse_velocity(),
        )
        return [
            PerLane(solve),
            *([] if self.long_rows else self.in_tree.forward("response", "end v", "free")),
            *self.in_tree.twists("end v"),
            *self._look_around(),
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

    def _rows_by_form(self) -> list[Statement]:
        """Step 3 for one block, whatever its form."""
        if self.long_rows is not None:
            return self._short_rows(self.long_rows)
        return [*self.dense_rows.enter(), *self.dense_rows.by_form(self._rows)]

    def _jacobian(self, form: int = WHOLE) -> list[Statement]:
        """J (3, nv) of one block, or the one row that it has, from the screws and touches of the present poses."""

        def entry(row: int) -> Piece:
            return jacobian_rows(None, row).entry("axis")

        def whole(row: int) -> Piece:
            return jacobian_rows(None, row).whole(self.model.nv)

        cases: list[tuple[Statement, ...]] = [()] * (1 + SERVO)
        if self.contacts:
            cases[CONTACT] = self._contact_rows(form)
        cases += self.moments.rows()
        if self.blocks.limited:
            copy = traced_block(lambda s: [s], [self.at("sign", "limit")], [entry(0)])
            cases[LIMIT] = (*self.look_up("limit"), copy)
        if self.blocks.taut:
            copy = traced_block(lambda row: [row], [self.at("tendon row", "tendon")], [whole(0)])
            cases[TAUT] = (*self.look_up("tendon"), copy)
        if self.blocks.rubbing:
            cases[FRICTION] = (traced_block(lambda: [1], [], [entry(1)]),)
        if self.blocks.servos:
            copy = traced_block(lambda G: [G], [self.at("servo row", "servo")], [whole(1)])
            cases[SERVO] = (*self.look_up("servo"), copy)
        nothing = self.put(0, self.at("J", BLOCK) if form == WHOLE else whole(row_of(form)))
        return [nothing, *self.look_up("kind", "axis"), Switch("kind", tuple(cases))]

    def _rows(self, form: int) -> list[Statement]:
        """Step 3 for one block of a form."""

        def prepare(J: Array, B: Array, free: Array, v: Array, y: Array, *rest: Any) -> list[Any]:
            gap, e, h, impulse, *servo = rest
            a, b, c = B
            own = vector(*[multiply_in_strands(x, y) for x, y in ((a, a), (a, b), (a, c), (b, b), (b, c), (c, c))])
            if servo:
                own[3] = own[3] + servo[0]
            # roots and quotients first: they wait for each other, and what follows does not
            prepared = list(local(symmetric_block(own)))
            both = multiply_in_strands(J, v), multiply_in_strands(J, free)
            approach, g = (found[:3].copy() for found in both)
            shift = shifts(vector(gap), vector(approach[0]), vector(e), h)[0]
            g[0] = g[0] + shift
            if servo:
                g[1] = g[1] - servo[1]
            found = [own, prepared, g, [shift], approach, [0] * 3, y + B.T @ impulse]
            return [*found, [found[3] for found in both]] if form == WHOLE else found

        rows = self.dense_rows
        reads = [
            rows.columns(jacobian_rows(COLUMN_ROOM if form == WHOLE else 3)),
            self.at("B", BLOCK),
            *map(rows.at, ("free", "now v", "y")),
        ]
        reads += [*self.each(("gap", "restitution"), BLOCK), self.at("dt", STEP), self.at("impulse", BLOCK)]
        reads += self.each(("soft", "offset"), BLOCK) if self.blocks.servos else []
        writes = [self.at(n, BLOCK) for n in ("own", "local", "g", "shift", "approach", "delta")]
        count, row = (3, None) if form == WHOLE else (None, row_of(form))
        J, own = jacobian_rows(count, row), RowPlace("B", (BLOCK,), count, row)
        more = [self.some("unasked", range(2))] if form == WHOLE else []
        none = [] if form == WHOLE else [RowPlace("B", (BLOCK,), row=i).whole(rows.width) for i in range(3) if i != row]
        return [
            *self._jacobian(form),
            *self.in_tree.backward(J, rows.raw(own), of_block=True),
            *self.closures.project(rows.raw(own)),
            *rows.keep(own),
            *([self.put(0, *none)] if none else []),
            block_of_form(form, prepare, reads, [*writes, rows.at("y"), *more]),
        ]

    def _short_rows(self, rows: RecursiveRows) -> list[Statement]:
        """Step 3 for one contact with the world, whose rows are on the twist of its node."""

        def prepare(B: Array, now: Array, free: Array, gap: Any, e: Any, h: Any, *yielding: Array) -> list[Any]:
            G = own_block(B, *yielding)
            approach, g = B @ now, B @ free
            shift = shifts(vector(gap), vector(approach[0]), vector(e), h)[0]
            g[0] = g[0] + shift
            own = [G[0, 0], G[0, 1], G[0, 2], G[1, 1], G[1, 2], G[2, 2]]
            return [own, list(local(G)), g, [shift], approach, [0] * 3]

        reads = [self.at("B", BLOCK), rows.at("now"), rows.at("free"), *self.each(("gap", "restitution"), BLOCK)]
        reads += [self.at("dt", STEP), *rows.own_yielding()]
        writes = [self.at(n, BLOCK) for n in ("own", "local", "g", "shift", "approach", "delta")]
        return [*rows.own_rows(), traced_block(prepare, reads, writes), rows.add_to("y", "impulse")]

    def _impulse_velocity(self) -> list[Statement]:
        """``response``: y of the solution; on a long tree, ``end v``: the velocity with all impulses."""
        if self.long_rows is None:
            return [traced_block(lambda y: [y[: self.model.nv]], [self.at("y")], [self.at("response")])]
        rows = self.long_rows
        add = Each(BLOCK, ACTIVE, (*rows.enter(), rows.add_to("y", "impulse")))
        return [*rows.clear("y"), add, *rows.velocities("free", "end v")]

    def _contact_rows(self, form: int) -> tuple[Statement, ...]:
        """Rows of J, or that of the normal: a velocity that moves one of the bodies moves the material points at the
        contact."""
        count = 3 if form == WHOLE else 1

        def along(touch: Array, screw: Array, side: Any) -> list[Any]:
            velocity = add_cross(screw[3:6], screw[:3], touch[1:4] - screw[6:])
            return [side * (touch[4:].reshape(3, 3)[:count] @ velocity)]

        # rows of screws have the numbers of their velocities, but for those of modes
        names = ("path", "screw row") if self.model.is_flexible else ("path",)
        reads = [self.at("touch", BLOCK), self.at("screw", names[-1]), self.at("side", BLOCK, ROW)]
        found = [Lookup(name, self.address(name, BLOCK, ROW)) for name in names]
        body: tuple[Statement, ...] = (*found, traced_block(along, reads, [jacobian_rows(count).column("path")]))
        return (*self.look_up("moving"), Loop(ROW, Index("moving"), body))

    def _look_around(self) -> list[Statement]:
        """Step 5: whatever was left out and would overlap is taken in."""

        def outside(
            flag: Any, speed: Any, tolerance: Any, left: Array, complete: Array, left_out: Any = int(self.world_only)
        ) -> list[Any]:
            """``speed``: at which the gap is missed, m/s; ``left_out``: it is missed, and told."""
            missed = select(less(0, flag), 0, largest([speed, 0]))
            joins = both(less(left_out, 1), less(tolerance, missed))
            return [
                [select(joins, 1, flag)],
                [largest([left[0], missed])],
                [select(joins, -1, complete[0])],
            ]

        def contact(touch: Array, first: Array, second: Array, X: Array, Y: Array, h: Any, *rest: Any) -> list[Any]:
            return outside(rest[0], -(touch[0] / h + _normal_velocity(touch, first, second, X, Y)), *rest[1:])

        def limit(lower: Any, upper: Any, q: Any, v: Any, h: Any, *rest: Any) -> list[Any]:
            ahead = q + h * v
            return outside(rest[0], largest([lower - ahead, ahead - upper]) / h, *rest[1:])

        def tendon(gap: Any, row: Array, v: Array, h: Any, *rest: Any) -> list[Any]:
            return outside(rest[0], -(gap / h + row @ v), *rest[1:])

        totals = [self.at("left"), self.at("complete")]
        found: list[Statement] = [self.put(0, self.at("left")), self.put(1, self.at("complete"))]
        if self.contacts:
            reads = [
                self.at("touch", BLOCK),
                *self._sides(),
                self.at("dt", STEP),
                self.at("flag", BLOCK),
                self.at("tolerance"),
            ]
            block = traced_block(contact, [*reads, *totals, *self._left_out()], [self.at("flag", BLOCK), *totals])
            found += self.positions.reach.look_back(self.positions.narrow.late)
            found.append(Each(BLOCK, LATE, (*self.look_up("node 0", "node 1"), block)))
        if self.blocks.limited:
            reads = [*self._ends(), self.at("now q", "place"), self.at("end v", "axis"), self.at("dt", STEP)]
            reads += [self.positions.of_limit("flag"), self.at("tolerance")]
            block = traced_block(limit, [*reads, *totals], [self.positions.of_limit("flag"), *totals])
            found.append(Loop(BLOCK, len(self.blocks.limited), (*self._look_up_limit(), block)))
        if self.blocks.taut:
            of = self.positions.of_tendon
            reads = [of("gap"), self.at("tendon row", BLOCK), self.at("end v"), self.at("dt", STEP)]
            block = traced_block(tendon, [*reads, of("flag"), self.at("tolerance"), *totals], [of("flag"), *totals])
            found.append(Loop(BLOCK, len(self.blocks.taut), (block,)))
        return found

    def _advance(self) -> Block:
        """Where the velocities alone lead."""

        def move(q: Array, v: Array, h: Any) -> list[Any]:
            return list(Mechanism(self.tree).manifold().straight(q, v, h * v))

        return traced_block(move, [*self.each(("now q", "end v")), self.at("dt", STEP)], self.each(("now q", "now v")))


def _normal_velocity(touch: Array, first: Array, second: Array, X: Array, Y: Array) -> Any:
    """Rate of a gap: the material points of two bodies with these twists, whose origins are at X and Y (3,)."""
    point, normal = touch[1:4], touch[4:7]
    ours, theirs = (add_cross(twist[3:], twist[:3], point - origin) for twist, origin in ((first, X), (second, Y)))
    return normal @ (ours - theirs)
