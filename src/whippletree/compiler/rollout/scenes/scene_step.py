"""Steps of a scene of many free bodies as one kernel: its size, its lists and its coefficients come with the call.

The mathematics is that of :mod:`whippletree.contact.time_step`, for bodies that move freely, in the axes of the world
and with the velocities of their centres of mass: M is then a number and a 3 × 3 matrix for each body. A step

1. finds poses, and velocities without impulses, body by body;
2. finds gaps, points and axes of the pairs that are near, kind by kind
   (:mod:`~whippletree.compiler.rollout.scenes.scene_kinds`), and lists the contacts that carried an impulse or would
   close;
3. solves their problem (:mod:`~whippletree.compiler.rollout.scenes.scene_solver`), with no more restitution than adds
   no energy (:mod:`~whippletree.compiler.rollout.step_bounces`);
4. looks at the contacts that were left out, at the velocity that came out: what would overlap joins the list, and the
   solution goes on. So nothing is left out that matters, whatever step 2 guessed;
5. moves apart what would overlap by the forecast of the gaps, and moves on; unless a body would by then have
   travelled so far that a pair which is not in the lists could touch. Then the step is not taken, and the call ends:
   whoever called makes new lists and begins that step again;
6. finds poses and candidates where the bodies are now, and moves apart what overlaps there
   (:mod:`~whippletree.compiler.rollout.scenes.scene_overlaps`). In a kernel this is the beginning of the next step,
   whose candidates they are; the last step of a call has no length.

How far bodies travel is measured against their mean motion, or against the world (``together`` 1 or 0). In the former
case so does the world: of balls that fall together only the world goes far. Its way d counts as √(|d|² − (grain · d)²):
less along its ``grain`` than across, for its skin is an ellipsoid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Buffer, Collect, If, Index, Loop, Program, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_kinds import TOUCH
from whippletree.compiler.rollout.scenes.scene_bodies import NODE, SceneBodies, way_of_body
from whippletree.compiler.rollout.scenes.scene_contacts import ACTIVE, TOUCHED, SceneContacts, relative_velocity
from whippletree.compiler.rollout.scenes.scene_joints import SceneJoints
from whippletree.compiler.rollout.scenes.scene_kinds import scene_narrow_phase
from whippletree.compiler.rollout.scenes.scene_moments import SceneMoments
from whippletree.compiler.rollout.scenes.scene_overlaps import SceneOverlaps
from whippletree.compiler.rollout.scenes.scene_positions import ScenePositions
from whippletree.compiler.rollout.scenes.scene_solver import SceneSolver
from whippletree.compiler.rollout.scenes.scene_totals import ANY, SHARE, SharedTotals
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT, TREE_ROW, SceneTrees
from whippletree.compiler.rollout.scenes.scene_trends import SceneTrends
from whippletree.compiler.rollout.step_bounces import SceneBounces
from whippletree.contact.geometry.box_pairs import NOWHERE
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.contact.kinematics.scene_layout import BODY, BodyTraits, GeometryClass, PairKind, balls_alone
from whippletree.contact.kinematics.scene_mechanism import SceneMechanism
from whippletree.contact.problem.cones import largest

SOLVER_ROUNDS, GLANCE = 60, 12
"""Times that contacts which were left out may join the list of a step, and sweeps until they are looked for; twice as
many each time that none has joined. An impact travels through a pile: there is no use in solving the problem of half of
it."""

STEP, ASKED = "step", "asked contacts"

ACCOUNT = (
    "residual_impulse",
    "residual_velocity",
    "cone_violation",
    "contact_work",
    "friction_work",
    "joint_work",
    "correction_work",
    "sweeps",
    "contacts",
)
"""Reports on every step."""


INPUTS: dict[str, tuple[Any, ...]] = {
    "q0": ("N", 7),
    "v0": ("N", 6),
    "tau": ("N", 6),
    "bodies": ("N", BODY),
    "placements": ("N", POSE),
    "swing": ("N",),
    "travel0": ("N",),
    "impulses0": ("C", 3),
    "friction": ("C",),
    "restitution": ("C",),
    "gravity": (3,),
    "dt": ("T",),
    "tolerance": (),
    "overlap tolerance": (),
    "effort": (),
    "effort at once": (),
    "budget": ("N",),
    "grain": (3,),
    "together": (),
    "calm0": (),
    "allowance0": ("N",),
    "edge room": ("E",),
}
"""Inputs of reals, and their shapes."""

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "q": ("N", 7),
    "v": ("N", 6),
    "travel": ("N",),
    "impulses": ("C", 3),
    "gaps": ("C",),
    "account": ("T", len(ACCOUNT)),
    "a": ("N", 6),
    "kick": ("N", 6),
    "calm at end": (),
    "steps": (),
    "ended": (),
    "allowance": ("N",),
    "ends": ("T", 2),
}
"""Outputs, and their shapes."""


def scene_program(
    classes: Sequence[GeometryClass],
    kinds: Sequence[PairKind],
    traits: BodyTraits,
    mechanism: SceneMechanism | None = None,
    moments: bool = False,
) -> Program:
    """The program of steps of scenes with these classes of geometries, kinds of pairs and traits of bodies.

    Inputs, with N bodies (the last is the world), C contacts and T steps: q0 (N, 7), v0 (N, 6), tau (N, 6), bodies
    (N, 17), placements (N, 12), swing and travel0 (N,), impulses0 (C, 3), node (C, 3), friction and restitution (C,),
    gravity (3,), dt (T,), tolerance (m/s), overlap tolerance (m), effort (sweeps of a step), effort at once (sweeps
    after which a call begins no further step), budget (N,) (m), grain (3,), together, calm0 (m/s, the residual
    at which there is nothing to do), allowance0 (N,) (m), edge room (E,) (anything: how many edges the graph of the
    bodies may have, of :mod:`~whippletree.compiler.rollout.scenes.scene_elimination`); then the lists of
    :func:`~whippletree.compiler.rollout.scenes.scene_kinds.scene_narrow_phase`.

    ``node`` holds both bodies of a contact, and the number (below N) of the island that it is in.

    A step of length 0 does nothing but look at the gaps; it is the last one.

    Outputs: q, v, travel, impulses, gaps (C,) at the beginning of the last step, account (T, 9), of the last step the
    mean acceleration ``a`` (N, 6) and the change of (ω, velocity of the centre of mass) by contacts ``kick`` (N, 6),
    calm0 for the next call, the number of steps that were made, whose rows of the account are filled, and why no more
    were, ``ended``: 1 if all were, 0 where the effort at once was spent, −1 where a body went too far for the lists,
    −2 where a state is no longer finite.
    Then allowance0 for the next call, and ``ends`` (T, 2): overlap (m) and work of moving it apart (J) at the beginning
    of each step, also of the one that was not made.

    With a mechanism, whose bodies have the first rows: its coordinates, velocities and forces, which contacts are on
    trees ``on tree`` (C,) (1 or −1) and their ``slot`` (C,) among K such contacts, ``sides`` (K, 7)
    (:data:`~whippletree.compiler.rollout.scenes.scene_trees.SIDES`), and the impulses of its limits and of its dry
    friction, with the number (below N) of the island of each; and as outputs its state, accelerations, poses and those
    impulses. Its actuators take ``commands`` (T, actuators), before those impulses; stops of tendons and servos with a
    force range have impulses, too.

    Scenes of :func:`~whippletree.contact.kinematics.scene_layout.balls_alone` have trends (C, 4) as input and output,
    and numbers that tell how far to trust them (:mod:`~whippletree.compiler.rollout.scenes.scene_trends`).

    With ``moments``, which resist spinning and rolling: their shares (C, 2) of the normal impulse, m, and as input and
    output the moments (C, 3) about the axes of each contact, N m s.
    """
    return _StepBuilder(classes, kinds, traits, mechanism, moments).program_of_steps()


class _StepBuilder(WorkSpace):
    """Writes the statements of such steps, whose parts share its memory."""

    def __init__(
        self,
        classes: Sequence[GeometryClass],
        kinds: Sequence[PairKind],
        traits: BodyTraits,
        mechanism: SceneMechanism | None,
        moments: bool,
    ) -> None:
        super().__init__()
        self.inputs = [Buffer(name, "input", shape) for name, shape in INPUTS.items()]
        self.inputs.append(Buffer("node", "input", ("C", 3), integer=True))
        self.outputs = [Buffer(name, "output", shape) for name, shape in OUTPUTS.items()]
        self.add(*self.inputs)
        self.work(
            now_q=("N", 7),
            now_v=("N", 6),
            next_q=("N", 7),
            next_v=("N", 6),
            far=("N",),  # how far each body has travelled since the lists were made
            next_far=("N",),
            turned=("N", 4),
            pose=("N", POSE),
            centre=("N", 3),
            mobility=("N", 7),  # 1 / mass, and the inverse inertia in the axes of the world
            start=("N", 6),
            free=("N", 6),
            rate=("N", 6),
            kicked=("N", 6),
            touch=("C", TOUCH),
            impulse=("C", 3),
            flag=("C",),
            now_dt=(),
            lasts=(1,),
            alive=(1,),
            within=(1,),
            complete=(1,),
            solved=(1,),
            busy=(1,),  # whether anything touches
            idle=(1,),  # whether nothing does
            asked=(1,),  # whether the contact in hand is to be looked at
            asked_of=("C",),  # whether a contact that carried nothing may close
            remaining=(1,),  # sweeps
            glance=(1,),
            left=(1,),
            joint_work=(1,),
            corrected=(1,),
            made_steps=(1,),
            spent=(1,),  # sweeps of this call
            drift=(3,),  # mean velocity of the bodies
            crowd=(1,),  # how many they are
        )
        self.numbers_list(ACTIVE, "C")
        self.numbers_list(TOUCHED, "N")
        self.numbers_list(ASKED, "C")
        self.pressing = SharedTotals(self, busy=ANY)
        self.trees = None if mechanism is None else SceneTrees(self, mechanism, moments)
        self.joints = None if self.trees is None else SceneJoints(self.trees)
        self.contacts = SceneContacts(self, self.trees, self.joints, traits.round and mechanism is None)
        self.bodies = SceneBodies(self, traits, self.contacts)
        self.contacts.moments = SceneMoments(self.contacts) if moments else None
        balls = traits.round and all(kind.slots == 1 for kind in kinds)
        self.trends = SceneTrends(self) if balls_alone(kinds, traits, mechanism, moments) else None
        self.solver = SceneSolver(self.contacts, not (balls or moments), self.trends)
        self.positions = ScenePositions(self.contacts, repeats=self.trends is not None)
        self.overlaps = SceneOverlaps(self.contacts, self.positions)
        self.bounces = SceneBounces(self, self.contacts, self.solver)
        self.narrow, lists = scene_narrow_phase(classes, kinds, self)
        of_trees = [part.arguments() for part in (self.trees, self.joints, self.contacts.moments, self.trends) if part]
        self.add(*lists, *[b for inputs, _ in of_trees for b in inputs])
        self.add(*self.outputs, *[b for _, outputs in of_trees for b in outputs])

    def program_of_steps(self) -> Program:
        """The whole program: bodies and gaps, the contact problem, the end of the step."""
        impulses = (
            self.put(1, self.at("restores")),
            *([self.trends.foresee()] if self.trends else []),
            self.bounces.begin(),
            *self._begin_solution(),
            Until("round", SOLVER_ROUNDS, self.address("solved"), tuple(self._round())),
        )
        if self.trees and self.joints:
            still = (Loop(NODE, "N", (self.put(0, self.at("moved", NODE)),)), *self.contacts.still_trees("moved"))
            impulses = self.trees.motors.around(impulses, self.joints, still)
        solve = (
            # joints may have reached an end of their range, whether anything touches or not
            self.put(1 if self.joints and self.joints.count else -1, self.at("busy")),
            *(self.joints.allow() if self.joints else []),
            *self._flag(),
            self.put(0, self.at("made")),
            If(self.address("busy"), impulses),
            *self._go_free(),
            *self._finish(),
        )
        find = (
            self.put(0, self.at("drift"), self.at("crowd")),
            *self._find_bodies(),
            *self.narrow,
            self.put(1, self.at("known")),
        )
        step = (
            traced_block(lambda h: [[h], [h]], [self.at("dt", STEP)], [self.at("now dt"), self.at("lasts")]),
            *(self.trees.motors.begin_step() if self.trees else []),
            *self.overlaps.move_apart(find, way_of_body),
            self.bodies.mean(),
            # a step that would go too far without impulses is not even begun; one of no length is a look at the gaps
            self._pause(),
            *self.bodies.expect(),
            *self.contacts.still_trees("moved"),
            If(self.address("alive"), (If(self.address("lasts"), solve),)),
        )
        body = (*self._begin(), Loop(STEP, "T", (If(self.address("alive"), step),)), *self._results())
        self.add(*(self.trees.buffers() if self.trees else []))
        return self.program("scene_steps", body)

    def _find_bodies(self) -> list[Statement]:
        """Where all bodies are, and their velocities at the end of a step without impulses."""
        of_trees = (*self.trees.find(), *self.joints.find()) if self.trees and self.joints else ()
        return [self.bodies.each(self.bodies.pose()), *of_trees, *self.bodies.add_up(self.at("free", NODE))]

    def _begin(self) -> list[Statement]:
        copy = traced_block(
            lambda q, v, far: [q, v, [far], [0] * 6, [0] * 6],
            self.each(("q0", "v0", "travel0"), NODE),
            self.each(("now q", "now v", "far", "rate", "kicked"), NODE),
        )
        impulse = traced_block(lambda p: [p], [self.at("impulses0", CONTACT)], [self.at("impulse", CONTACT)])
        return [
            Loop(NODE, "N", (copy,)),
            Loop(CONTACT, "C", (impulse, *self.contacts.of_moments("begin"))),
            self.solver.begin_calm(self.at("calm0")),
            *self.solver.newton.graph.begin_call(),
            self.overlaps.begin(),
            *(self.trends.begin_call() if self.trends else []),
            *([*self.trees.begin(), *self.joints.begin_call()] if self.trees and self.joints else []),
            self.put(1, self.at("alive")),
            self.put(0, self.at("made steps"), self.at("spent")),
            self.put(-1, self.at("known")),
        ]

    def _pause(self) -> Statement:
        """Whether the call has taken so long that whoever called should see to other things, such as Ctrl-C."""

        def pause(spent: Array, most: Any, alive: Array) -> list[Any]:
            return [[select(less(most, spent[0]), 0, alive[0])]]

        return traced_block(pause, self.each(("spent", "effort at once", "alive")), [self.at("alive")])

    # ---- 2 to 4: contacts ----------------------------------------------------------------------------------------

    def _sides(self, *names: str) -> list[Piece]:
        return [part for name in names for part in self.contacts.both(name)]

    def _flag(self) -> list[Statement]:
        """Which contacts carried an impulse, or would close within the step at one of two velocities."""

        def pressed(touch: Any, p: Array, busy: Array) -> list[Any]:
            # a slot that has gone out of use is left out, whatever it carried: its point may be anywhere
            used, loaded = less(touch[0], NOWHERE / 2), less(0, p[0])
            flag = select(used, select(loaded, 1, -1), -1)
            return [[flag], [select(used, -flag, -1)], [select(less(0, flag), 1, busy[0])]]

        def near(touch: Any, h: Any, busy: Array, *of_bodies: Array) -> list[Any]:
            centres, start, free = (of_bodies[i : i + 2] for i in (0, 2, 4))
            row = _row(touch, *centres)
            speeds = [relative_velocity(row, *V)[0] for V in (start, free)]
            slowest = select(less(speeds[0], speeds[1]), speeds[0], speeds[1])
            # what rests on something that will be stopped feels it in the same step: both fall alike without impulses
            spare = sum(sqrt((b[3:] - a[3:]) @ (b[3:] - a[3:])) for a, b in zip(start, free, strict=True))
            listed = less(touch[0] + h * (slowest - spare), 0)
            return [[select(listed, 1, -1)], [select(listed, 1, busy[0])]]

        (busy,), flag = self.pressing.each(), self.at("flag", CONTACT)
        touch, impulse = self.each(("touch", "impulse"), CONTACT)
        known = traced_block(pressed, [touch, impulse, busy], [flag, self.at("asked of", CONTACT), busy])
        reads = [touch, self.at("now dt"), busy, *self._sides("centre", "start", "free")]
        return [
            *self.pressing.begin(),
            Loop(CONTACT, "C", (known,), share=SHARE),
            Collect(ASKED, CONTACT, "C", self.address("asked of", CONTACT)),
            self.contacts.each_on_rows(traced_block(near, reads, [flag, busy]), of=ASKED),
            *self.pressing.end(),
        ]

    def _go_free(self) -> list[Statement]:
        """A step in which nothing touches: there is nothing to solve, and none that was left out could overlap."""
        free = traced_block(lambda V: [V], [self.at("free", NODE)], [self.contacts.of_body("vel", NODE)])
        told = self.each(("residual", "works", "left", "listed"))
        negate = traced_block(lambda busy: [-busy], [self.at("busy")], [self.at("idle")])
        still = self.contacts.still_trees("vel")
        return [negate, If(self.address("idle"), (Loop(NODE, "N", (free,)), *still, self.put(0, *told)))]

    def _begin_solution(self) -> list[Statement]:
        """Before the rounds of a solution."""
        return [
            *self.contacts.begin(),
            self.put(-1, self.at("complete"), self.at("solved")),
            traced_block(lambda effort: [[effort], [GLANCE]], [self.at("effort")], self.each(("remaining", "glance"))),
        ]

    def _round(self) -> list[Statement]:
        """The solution of the list as it is, and what joins it."""

        def allow(remaining: Array, glance: Array) -> list[Any]:
            short = select(less(glance[0], remaining[0]), glance[0], remaining[0])
            return [[short], [remaining[0] - short]]

        def judge(remaining: Array, unused: Array, complete: Array, done: Array, glance: Array) -> list[Any]:
            left = remaining[0] + unused[0]
            joined = less(complete[0], 0)
            solved = select(joined, -1, select(less(0, done[0]), 1, -1))
            return [[left], [select(less(left, 1), 1, solved)], [select(joined, GLANCE, 8 * glance[0])]]

        counts = [self.at("remaining"), self.at("left sweeps"), self.at("complete"), self.at("reached")]
        counts.append(self.at("glance"))
        end = (
            *self.bounces.judge(),
            If(self.address("gained"), tuple(self._begin_solution())),
            If(self.address("judged"), (self.bounces.mix(), *self.positions.move_apart())),
        )
        return [
            Collect(ACTIVE, CONTACT, "C", self.address("flag", CONTACT)),
            *self.contacts.prepare(),
            traced_block(
                allow,
                [self.at("remaining"), self.at("glance")],
                [self.at("left sweeps"), self.at("remaining")],
            ),
            *self.solver.solve(),
            *self._look_around(),
            traced_block(judge, counts, [self.at("remaining"), self.at("solved"), self.at("glance")]),
            If(self.address("solved"), end),
        ]

    def _look_around(self) -> list[Statement]:
        """Whatever was left out and would overlap is taken in; contacts outside the list carry nothing."""

        def outside(touch: Any, h: Any, tolerance: Any, left: Array, complete: Array, *of_bodies: Array) -> list[Any]:
            centres, velocities = of_bodies[:2], of_bodies[2:]
            rate = relative_velocity(_row(touch, *centres), *velocities)[0]
            missed = select(less(touch[0], NOWHERE / 2), largest([-(touch[0] / h + rate), 0]), 0)
            joins = less(tolerance, missed)
            none = [0, 0, 0]
            return [[select(joins, 1, -1)], none, [largest([left[0], missed])], [select(joins, -1, complete[0])]]

        totals, asked = [self.at("left"), self.at("complete")], self.at("asked")
        reads = [self.at("touch", CONTACT), self.at("now dt"), self.at("tolerance"), *totals]
        reads += self._sides("centre", "vel")
        block = traced_block(outside, reads, [*self.each(("flag", "impulse"), CONTACT), *totals])
        unlisted = traced_block(lambda flag: [[-flag]], [self.at("flag", CONTACT)], [asked])
        return [
            self.put(0, self.at("left")),
            self.put(1, self.at("complete")),
            *self._spread_trees(),
            Loop(CONTACT, "C", (unlisted, If(self.address("asked"), (*self.contacts.bodies(), block)))),
            *([self.trees.withdraw(self._of_tree())] if self.trees else []),
        ]

    def _of_tree(self) -> Piece:
        """The velocity of a body of the mechanism."""
        return self.contacts.of_body("vel", TREE_ROW)

    def _spread_trees(self) -> list[Statement]:
        """Velocities of the bodies of the mechanism with all impulses."""
        return self.trees.spread(self._of_tree()) if self.trees else []

    # ---- 5: the end of a step ------------------------------------------------------------------------------------

    def _finish(self) -> list[Statement]:
        at = self.at
        return [
            self.put(1, self.at("within")),
            self.put(0, *self.each(("joint work", "corrected", "drift", "crowd"))),
            *self._spread_trees(),
            *(self.trees.displace(at("moved", TREE_ROW), "end v", [at("now dt")], "corrected") if self.trees else []),
            self.bodies.each(self.bodies.turn()),
            *self.bodies.add_up(self.contacts.of_body("vel", NODE)),
            self.bodies.mean(),
            *self.bodies.move(),
            *(self.trees.finish() if self.trees else []),
            If(self.address("within"), tuple(self._accept())),
            traced_block(lambda within: [within], [self.at("within")], [self.at("alive")]),
        ]

    def _accept(self) -> list[Statement]:
        copy = traced_block(
            lambda q, v, far, V, free: [q, v, [far], V - free],
            [
                *self.each(("next q", "next v", "next far"), NODE),
                self.contacts.of_body("vel", NODE),
                self.at("free", NODE),
            ],
            self.each(("now q", "now v", "far", "kicked"), NODE),
        )

        def tell(residual: Array, left: Array, works: Array, *rest: Array) -> list[Any]:
            joint_work, corrected, made, listed, steps, spent = rest
            worst = largest([residual[1], left[0]])
            row = [residual[0], worst, residual[2], *works, joint_work[0], corrected[0], made[0], listed[0]]
            return [row, [steps[0] + 1], [spent[0] + made[0]]]

        names = ("residual", "left", "works", "joint work", "corrected", "made", "listed", "made steps", "spent")
        told = traced_block(tell, self.each(names), [self.at("account", STEP), *self.each(("made steps", "spent"))])
        # where nothing touches there is nothing to learn
        learn = (If(self.address("busy"), tuple(self.trends.learn())),) if self.trends else ()
        return [self.bodies.each(copy, self.overlaps.allow()), *learn, self.solver.calm_down(), told]

    def _results(self) -> list[Statement]:
        bodies = traced_block(
            lambda q, v, far, a, kick: [q, v, [far], a, kick],
            self.each(("now q", "now v", "far", "rate", "kicked"), NODE),
            self.each(("q", "v", "travel", "a", "kick"), NODE),
        )
        contacts = traced_block(lambda p: [p], [self.at("impulse", CONTACT)], [self.at("impulses", CONTACT)])
        told = traced_block(
            lambda calm, made, alive: [calm[0], made[0], alive[0]],
            self.each(("calm", "made steps", "alive")),
            self.each(("calm at end", "steps", "ended")),
        )
        trees = [*self.trees.results(), *self.joints.results()] if self.trees and self.joints else []
        every = Loop(CONTACT, "C", (contacts, *self.contacts.of_moments("results")))
        trends = self.trends.results() if self.trends else []
        return [Loop(NODE, "N", (bodies,)), every, self._gaps(), *trends, *trees, self.overlaps.keep(), told]

    def _gaps(self) -> Statement:
        gap = Piece((), (Address("touch", (Index(CONTACT), Index(None, 0))),))
        return Loop(CONTACT, "C", (traced_block(lambda gap: [[gap]], [gap], [self.at("gaps", CONTACT)]),))


def _row(touch: Any, first: Array, second: Array) -> Array:
    """Axes and arms of a contact, from its place and the bodies' centres of mass."""
    return np.concatenate([touch[4:], touch[1:4] - first, touch[1:4] - second])
