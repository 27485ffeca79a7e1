"""One time step of one scene, from compiled parts and matrices: any shapes, any number of contacts.

The mathematics is that of :mod:`whippletree.contact.time_step`, whose unrolled form the batches use. Here only what is
near takes part (:mod:`~whippletree.simulation.time_stepping.near_blocks`), and the problem is solved to a tolerance.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.lanes import lanes_of_columns, plain
from whippletree.arithmetic.scalars import is_zero
from whippletree.compiler.compiled import Compiled, compile
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import left_out_of_recursion
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import (
    lists_pay,
    reason_against_lists,
    suits_lists,
    world_only_pays,
)
from whippletree.compiler.rollout.contact_lists.contact_list_trees import is_written
from whippletree.compiler.rollout.contact_sweeps import coloured_sweeps, contact_sweeps
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.implicit_springs import StepDamping, dampings, implicit_dampings, implicit_model
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.contact.problem.contact_problem import ContactProblem, Measure
from whippletree.contact.problem.delassus import Matrix, delassus, is_sparse, scale_delassus, with_diagonal
from whippletree.contact.problem.independent_parts import parts_of, responses
from whippletree.contact.problem.solver import ContactSolution, solve
from whippletree.contact.restitution_share import gains, islands_of, may_gain, restitution_share
from whippletree.contact.servos import AT_AN_END, Servo
from whippletree.contact.time_step import (
    POSITION_PROGRESS,
    POSITION_ROUNDS,
    RELAXATION_SPEED,
    SENSIBLE_DISPLACEMENT,
    ContactBlocks,
    shifts,
)
from whippletree.model import Model
from whippletree.model.frozen import found_once
from whippletree.simulation.fixed_step.free_bodies import FreeBodies
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.asking_kernel import AskingKernel
from whippletree.simulation.time_stepping.motors import Motors
from whippletree.simulation.time_stepping.near_blocks import NearBlocks, NearRows
from whippletree.tree.mechanism import Mechanism

STEPS_OF_CALL = 500
"""Steps of one call of a kernel: a Ctrl-C waits for no more, and the results of all of them are kept until its end."""

SWEEPS_TRIED = (0, 5, 15, 30)
"""Sweeps of a round that moves overlaps apart, until it is as exact as the velocities are, or to the last; what they
leave is left to the next round or step."""

STIFFENED_MODELS = 4
"""Models with dampers and servos in their inertia that are kept for later runs: one for each length of steps."""

COMPILED = "compiled"
"""Word for runs whose steps are machine code."""

SLOWNESS = "such steps take 100 to 1000 times as long as compiled ones"
"""Word for runs whose steps are not. Measured: walker 195 times, ant 123, humanoid 918."""


class Step(NamedTuple):
    """The outcome of a step."""

    state: Array
    """(nq + nv,)"""
    impulses: Array
    """N s, of all blocks, (blocks, 3)."""
    solution: ContactSolution
    contact_work: float
    """Work of the impulses, J."""
    friction_work: float
    """The tangential part of it, J."""
    joint_work: float
    """Work of motors and dampers, J."""
    correction_work: float
    """Potential energy that bringing overlaps apart and loops together has added, J."""


class CoupledServos(NamedTuple):
    """Servos without a force range that drive several joints, or a frame: M + h Gᵀ K G by Woodbury's identity."""

    G: Array
    """Rows of the servos, (servos, nv)."""
    gains: Array
    """K, (servos,)."""
    X: Array
    """(M† Gᵀ)ᵀ, (servos, nv)."""
    h: float

    def coupling_force(self, v: Array) -> Array:
        """Gᵀ K G v (nv,)."""
        return np.asarray((self.gains * (self.G @ v)) @ self.G)

    def add_coupling(self, moved: Any) -> Any:
        """M† b (..., nv) with them, from that without them."""
        if not len(self.G):
            return moved
        inner = np.diag(1 / (self.h * self.gains)) + self.G @ self.X.T
        return moved - (np.linalg.solve(inner, self.G @ moved.T).T @ self.X)


class FreeMotion(NamedTuple):
    """A step without impulses."""

    motion: Motion
    """With what resists at the end of the step in its inertia."""
    drive: Array
    """Forces of motors, (nv,), see :meth:`ImpulseStep._drive`."""
    coupled: CoupledServos
    v: Array
    """At the end, (nv,)."""


class Touching(NamedTuple):
    """The contact problem of a step, solved: its impulses, and what they do."""

    near: NearRows
    solution: ContactSolution
    impulses: Array
    """N s, of all blocks, (blocks, 3)."""
    v: Array
    """At the end of the step, (nv,)."""
    work: float
    """J."""
    friction_work: float
    """The tangential part of it, J."""


class ImpulseStep:
    """Steps of a model that touches its world."""

    def __init__(self, motion: Motion, tolerance: float) -> None:
        """``tolerance``: of the natural map, m/s."""
        self.motion, self.model, self.dyn = motion, motion.model, motion.dyn
        self.tolerance = tolerance
        self.motors = Motors(motion)
        self.blocks = ContactBlocks(self.model, alone=True)
        self.actuators = self.blocks.actuators
        self._mechanism = Mechanism.of(self.model)
        self.contacts = len(self.blocks.contacts.candidates)
        self.free_bodies = FreeBodies(self.model)
        self.written = contact_set(self.model).closed_form
        """Whether compiled functions know all contacts."""
        self.kernel = suits_lists(self.model)
        """Whether single scenes are stepped in machine code,
        :mod:`whippletree.simulation.time_stepping.impulse_kernel`.
        """
        self.near = NearBlocks(motion, self.blocks, written=self.written, kernel=self.kernel)
        """Which blocks may matter in a step."""
        self.timed = bool(self.model.constraints) and constraint_set(self.model).timed
        """Whether a constraint depends on time."""
        self.wary = False
        """Whether the next step begins with halves."""
        self.halved = 0
        """Steps that were taken in halves, :mod:`whippletree.simulation.time_stepping.inertial_gain`."""
        self.damping = dampings(self.model).as_floats()
        """Of the joints, N m s/rad or N s/m."""
        self.has_springs = bool(self.model.elements) or any(joint.has_springs for joint in self.model.joints)
        """Whether joints have springs, or elements act on bodies."""
        self.stride = 1 if self.watched else STEPS_OF_CALL
        """Steps that the next call of the kernel is worth: few at first, and after one that was refused."""
        self._implicit: dict[float, tuple[Motion, StepDamping]] = {}
        self._last: tuple[bytes, Step] | None = None
        """The last step that was taken, and what it was asked for."""
        self._friction = self.blocks.friction.astype(float)
        self._restitution = self.blocks.restitution.astype(float)
        self._may_gain = may_gain(self.blocks)
        self._islands = islands_of(self.blocks) if self._may_gain else np.zeros(0, dtype=int)

    @cached_property
    def lists_for_batches(self) -> bool:
        """Whether many scenes are stepped by that kernel, too."""
        if not self.kernel:
            return False
        needed = self.actuators.acting or not self.written or self.motors.holds or self.timed
        return needed or not self.blocks.count or lists_pay(self.model)

    @cached_property
    def asking_kernel(self) -> AskingKernel:
        """That kernel where it asks controller and commands itself."""
        return AskingKernel(self.dyn, self.motors)

    @cached_property
    def apart(self) -> Array | None:
        """Blocks of a long tree that are no contacts with the world, bool (blocks,), if steps in which none of them
        pushes have a kernel of their own.
        """
        if not self.kernel or not world_only_pays(self.model):
            return None
        return left_out_of_recursion(self.model, self.blocks)

    @property
    def path(self) -> str:
        """How single scenes are stepped, and why not in machine code if they are not."""
        return COMPILED if self.kernel else f"python: {reason_against_lists(self.model)}; {SLOWNESS}"

    @cached_property
    def watched(self) -> bool:
        """Whether energy that steps gain from nothing is looked for: in long trees in which all other work is known
        (:mod:`~whippletree.simulation.time_stepping.inertial_gain`).
        """
        if is_written(self.model, self.actuators) or self.model.elements or self.model.is_flexible:
            return False
        return not self.timed

    @cached_property
    def stores_energy(self) -> bool:
        """Whether joints have springs, beside dampers."""
        return any(joint.has_springs and not is_zero(joint.stiffness) for joint in self.model.joints)

    def step(self, t: float, y: Array, start: Array, tau: Array, h: float, ctrl: Array | None = None) -> Step:
        """One step of length h from a state y (nq + nv,) under a controller's forces (nv,) and commands (actuators,).

        Its iteration begins with impulses (blocks, 3). A step that is asked for twice in a row, as the first one of a
        run is, is taken once.
        """
        given = [np.array([t, h]), y, start, tau, *([] if ctrl is None else [ctrl])]
        asked = b"".join(part.tobytes() for part in given)
        if self._last is None or self._last[0] != asked:
            self._last = asked, self._take_step(t, y, start, tau, h, ctrl)
        return self._last[1]

    def _take_step(self, t: float, y: Array, start: Array, tau: Array, h: float, ctrl: Array | None) -> Step:
        q, v = self.motion.split(y)
        act = self.motion.act(y)
        if self.motion.remembers:
            assert ctrl is not None
            (ctrl,), (act,) = self.dyn.activation_steps(ctrl[None], act, np.array([h]))
        free = self._move_freely(t, q, v, tau, h, ctrl)
        touching = self._solve_contacts(t, q, v, free, start, h, ctrl)
        after = touching.v
        alone = self.motion.project(t + h, self._move(q, after, h * after))
        holding = self.actuators.coupling + self._within_range(touching.impulses, h)

        def respond_at_the_end(rows: Any) -> Any:
            held = self._couple_servos(free.motion, t, q, h, holding)
            return held.add_coupling(self._responses(free.motion, t, q, rows))

        state = self._apart(respond_at_the_end, t, alone, self._targets(touching.near, h), h)
        force = free.drive - self._servo_damping(h) * after - free.coupled.coupling_force(after)
        if self.blocks.servos:
            force = force + self.near.servo_rows(q).T @ touching.impulses[self.blocks.passive :, 1] / h
        work = float(self.joint_work(force, q, v, after, h))
        corrected = self._correction_energy(q, after, h, state) if state is not alone or self.model.constraints else 0.0
        return Step(
            state=np.concatenate([state, act]),
            impulses=touching.impulses,
            solution=touching.solution,
            contact_work=touching.work,
            friction_work=touching.friction_work,
            joint_work=work,
            correction_work=corrected,
        )

    def _move_freely(self, t: float, q: Array, v: Array, tau: Array, h: float, ctrl: Array | None) -> FreeMotion:
        """The step as it would be without impulses."""
        implicit, damping = self._stiffen_model(h)
        drive = self._drive(q, v, tau, ctrl)
        springs = self.dyn.passive_forces(q, np.zeros_like(v)) if self.has_springs else 0.0
        springs = springs + self._moving_elements(q, v) if self.model.elements else springs
        coupled = self._couple_servos(implicit, t, q, h, self.actuators.coupling)
        rate = self.free_bodies.acceleration(
            implicit, t, q, v, drive + springs - damping.times(v) - coupled.coupling_force(v)
        )
        return FreeMotion(implicit, drive, coupled, v + h * coupled.add_coupling(rate))

    def _solve_contacts(
        self, t: float, q: Array, v: Array, free: FreeMotion, start: Array, h: float, ctrl: Array | None
    ) -> Touching:
        """The impulses of what is near, and the velocity with them; the iteration begins with ``start`` (blocks, 3)."""
        near = self.near.rows(t, q, v, free.v, h)
        rows, numbers = near.J, near.numbers
        response = free.coupled.add_coupling(self._responses(free.motion, t, q, rows))
        approach = (rows @ v).reshape(-1, 3)
        shift = _shifts(near.gaps, approach[:, 0], self._restitution[numbers], h)
        G = rows @ response.T if isinstance(rows, np.ndarray) else delassus(rows, response, self._parts)
        problem = self._with_servos(self._problem(numbers, G, (rows @ free.v).reshape(-1, 3), shift, h), q, h, ctrl)
        solution = solve(problem, start[numbers], sweeps, tolerance=self.tolerance)
        if self._may_gain:
            plastic = _shifts(near.gaps, approach[:, 0], np.zeros(len(near.gaps)), h)
            islands = np.where(numbers < self.blocks.passive, self._islands[numbers], -1)
            solution = without_gain(problem, solution, shift, plastic, approach, islands, self.tolerance)
        impulse = solution.impulse
        u = problem.velocity(impulse)
        u[:, 0] -= shift
        works = (impulse * (u + approach) / 2)[numbers < self.blocks.passive]
        every = np.zeros((self.blocks.count, 3))
        every[numbers] = impulse
        after = free.v + response.T @ impulse.ravel()
        return Touching(near, solution, every, after, float(works.sum()), float(works[:, 1:].sum()))

    def _move(self, q: Array, v: Array, d: Array) -> Array:
        """The state (nq + nv,) after a displacement d (nv,)."""
        return self.free_bodies.move(self.dyn.integrate(q, d), q, v, d)

    def _correction_energy(self, q: Array, v: Array, h: float, state: Array) -> float:
        """Potential energy of a state beyond that of a step by velocities alone, J."""
        ends = np.stack([self._move(q, v, h * v), state])[:, : self.model.nq]
        before, after = self.dyn.potential_energy(ends)
        return float(after - before)

    def _drive(self, q: Array, v: Array, tau: Array, ctrl: Array | None) -> Array:
        """Forces (nv,) of motors but for what servos do about the velocity at the end of the step."""
        if not self.actuators.acting:
            return tau
        assert ctrl is not None
        return np.asarray(tau + self.actuators.forces(self._mechanism, q, v, ctrl).astype(float))

    def _servo_damping(self, h: float) -> Array:
        """Damping that servos and controllers add to that of their joints (nv,)."""
        return np.asarray(self.actuators.damping(h).astype(float) + self.motors.held_dampers(h))

    def _within_range(self, impulses: Array, h: float) -> list[Servo]:
        """Servos with a force range that are within it: they hold their joints as those without one do."""
        own, servos = impulses[self.blocks.passive :, 1], self.blocks.servos
        return [
            servos[i] for i in self.actuators.releasable if abs(own[i]) < (1 - AT_AN_END) * h * float(servos[i].reach)
        ]

    def _couple_servos(self, motion: Motion, t: float, q: Array, h: float, servos: list[Servo]) -> CoupledServos:
        """Servos that join the inertia by their rows."""
        G = self.actuators.rows(self._mechanism, q, servos).astype(float)
        X = self._solve_mass(motion, t, q, G) if servos else G
        return CoupledServos(G, np.array([servo.gain(h) for servo in servos]), X, h)

    def _with_servos(self, problem: ContactProblem, q: Array, h: float, ctrl: Array | None) -> ContactProblem:
        """The problem with compliances and offsets of its last blocks, those of servos with a force range."""
        count = len(self.blocks.servos)
        if not count:
            return problem
        problem.g[-count:, 1] -= self.actuators.offsets(q, np.asarray(ctrl), h).astype(float)
        own = np.zeros((problem.blocks, 3))
        own[-count:, 1] = self.actuators.compliances(h).astype(float)
        return ContactProblem.of(with_diagonal(problem.matrix, own.ravel()), *problem[1:])

    def _moving_elements(self, q: Array, v: Array) -> Array:
        """Forces of elements other than joints because of the velocities, (nv,): their dampers and drag."""
        if not self.model.elements:
            return np.zeros(v.shape)
        return np.asarray(self.dyn.element_forces(q, v) - self.dyn.element_forces(q, np.zeros_like(v)))

    def joint_work(self, tau: Array, q: Array, v: Array, after: Array, h: Any) -> Array:
        """Work (...) of motors and dampers in a step from q and v: of the impulses h (τ − D v⁺), J."""
        tau = tau + self._moving_elements(q, v) if self.model.elements else tau
        with np.errstate(over="ignore", invalid="ignore"):  # a run on its way out of bounds
            return np.asarray(h * ((tau - self.damping.times(after)) * (v + after)).sum(axis=-1) / 2)

    def _stiffen_model(self, h: float) -> tuple[Motion, StepDamping]:
        """The model with M + h D̃, and D̃, of springs, dampers and servos; steps that differ by rounding share."""
        if not self.has_springs and not self.actuators.joints and not self.motors.holds:
            return self.motion, self.damping
        rounded = float(f"{h:.12g}")
        if rounded not in self._implicit:
            servos = self._servo_damping(rounded)
            damping = implicit_dampings(self.model, rounded, servos).as_floats()
            self._implicit[rounded] = Motion(_stiffened_functions(self.model, rounded, servos)), damping
        return self._implicit[rounded]

    def gaps(self, q: Array) -> tuple[Array, Array, Array]:
        """See :meth:`~whippletree.simulation.time_stepping.near_blocks.NearBlocks.gaps`."""
        return self.near.gaps(q)

    def immovable(self, q: Array) -> set[int]:
        """See :meth:`~whippletree.simulation.time_stepping.near_blocks.NearBlocks.immovable`."""
        return self.near.immovable(q)

    def _problem(self, numbers: Array, G: Matrix, velocity: Array, shift: Array, h: float) -> ContactProblem:
        g = velocity.copy()
        g[:, 0] += shift
        cap = self.blocks.cap(h).astype(float)[numbers]
        hosts = self.blocks.hosts
        moments = None if hosts is None else hosts._replace(share=hosts.share.astype(float)).part(numbers)
        return ContactProblem.of(G, g, self._friction[numbers], cap, moments)

    def _responses(self, motion: Motion, t: float, q: Array, rows: Any) -> Any:
        """(M† Jᵀ)ᵀ (rows, nv), sparse if J is."""
        if not rows.shape[0]:
            return np.zeros(rows.shape)
        solve = partial(self._solve_mass, motion, t, q)
        return solve(rows) if isinstance(rows, np.ndarray) else responses(rows, self._parts, solve)

    def _solve_mass(self, motion: Motion, t: float, q: Array, forces: Array) -> Array:
        """M† b (m, nv) for joint forces b (m, nv)."""
        if not self.model.constraints:
            return np.asarray(motion.dyn.mass_matrix_solve(q, forces))
        # accelerations are affine in the joint forces, with the slope M†
        count = len(forces) + 1
        every = np.concatenate([forces, np.zeros((1, self.model.nv))])
        state = {"q": np.tile(q, (count, 1)), "v": np.zeros((count, self.model.nv)), "t": np.full(count, t)}
        a = motion.evaluate("forward_dynamics", tau=every, **state)
        return np.asarray(a[:-1] - a[-1])

    @cached_property
    def _parts(self) -> Array:
        return parts_of(self.model)

    def _targets(self, near: NearRows, h: float) -> Array:
        """Gaps (blocks,) that the end of a step is to have at least: 0, or what is left of a deep overlap."""
        targets = np.zeros(self.blocks.count)
        targets[near.numbers] = np.minimum(near.gaps + h * RELAXATION_SPEED, 0.0)
        return targets

    def _apart(self, respond: Callable[[Any], Any], t: float, state: Array, targets: Array, h: float) -> Array:
        """A state (nq + nv,) in which nothing overlaps by more than the targets (blocks,), velocities as they are.

        The nearest one in the metric of the inertia at the start of the step, of which ``respond`` knows (M† Jᵀ)ᵀ:
        Newton's method with fresh normals, a problem without friction in each round. The state itself where nothing
        overlaps.
        """
        reach, before = h * RELAXATION_SPEED, np.inf
        for _ in range(POSITION_ROUNDS):
            q, v = self.motion.split(state)
            if not np.isfinite(state).all():
                break
            near = self.near.closing_rows(q, reach)
            left = near.gaps - targets[near.numbers]
            overlap = -float(left.min(initial=0.0))
            if overlap <= h * self.tolerance or overlap > POSITION_PROGRESS * before:
                break
            rows = self.near.without_held(t + h, q, _counted_rows(near.J, left))
            response, before = respond(rows), overlap
            G = rows @ response.T if isinstance(rows, np.ndarray) else delassus(rows, response, self._parts)
            d = response.T @ self._separation(G, left, h)
            if (
                not 0 < np.abs(d).max() <= SENSIBLE_DISPLACEMENT
            ):  # nothing can move it apart, or nothing that makes sense
                break
            state = self.motion.project(t + h, self._move(q, v, d))
        return state

    def _separation(self, G: Matrix, gaps: Array, h: float) -> Array:
        """π (3 k,) with 0 ≤ π ⟂ gaps + G π ≥ 0 along the normals; zeros along the tangents."""
        count = len(gaps)
        push, nothing = np.zeros((count, 3)), np.zeros(count)
        along = np.tile([1.0, 0.0, 0.0], (count, 1))
        problem = ContactProblem.of(scale_delassus(G, along), gaps[:, None] * along, nothing, nothing)
        for count in SWEEPS_TRIED:
            push, _, left = sweeps(problem, push, nothing, count)
            if left.velocity <= h * self.tolerance:  # here a length, m
                break
        return push.ravel()


def _stiffened_functions(model: Model, h: float, servos: Array) -> Compiled:
    """The functions of a model with M + h D̃; ``servos``: their dampers (nv,). Later runs share them."""
    kept, key = _stiffened_models(model), (h, servos.tobytes())
    if key not in kept:
        kept[key] = compile(implicit_model(model, h, servos), watch="never")
        while len(kept) > STIFFENED_MODELS:
            kept.popitem(last=False)
    return kept[key]


@found_once
def _stiffened_models(model: Model) -> OrderedDict[tuple[float, bytes], Compiled]:
    """The last of them, by the length of a step and the servos' dampers."""
    return OrderedDict()


def _counted_rows(rows: Any, left: Array) -> Any:
    """:func:`whippletree.contact.time_step.counted` of all entries of rows (3 k, nv), dense or sparse."""
    missing = np.repeat(-left, 3)
    if isinstance(rows, np.ndarray):
        return np.where(SENSIBLE_DISPLACEMENT * np.abs(rows) < missing[:, None], 0.0, rows)
    found = rows.tocoo(copy=True)
    found.data[SENSIBLE_DISPLACEMENT * np.abs(found.data) < missing[found.coords[0]]] = 0.0
    return found.tocsr()


def _shifts(gaps: Array, speeds: Array, restitution: Array, h: float) -> Array:
    """:func:`whippletree.contact.time_step.shifts` of all blocks at once."""
    gaps, speeds, restitution = (lanes_of_columns(x[:, None]) for x in (gaps, speeds, restitution))
    return np.asarray(plain(shifts(gaps, speeds, restitution, h)[0]))


def without_gain(
    problem: ContactProblem,
    solution: ContactSolution,
    shift: Array,
    plastic: Array,
    approach: Array,
    islands: Array,
    tolerance: float,
) -> ContactSolution:
    """The solution, or as much of its bounces as adds no energy (:mod:`whippletree.contact.restitution_share`).

    Args:
        shift: of the normal velocities in the problem, and ``plastic`` those without restitution, m/s, (k,).
        approach: velocities before, m/s, (k, 3).
        islands: number of the island of each block, (k,); −1 for servos, whose work is not that of contacts.
    """
    newton, load = solution.impulse, solution.impulse[:, 0]
    count = int(islands.max(initial=-1)) + 1

    def sums(amounts: Array) -> Array:
        return np.bincount(islands[islands >= 0], amounts[islands >= 0], count)

    def work(impulse: Array) -> Array:
        u = problem.velocity(impulse)
        u[:, 0] -= shift
        return sums((impulse * (u + approach) / 2).sum(axis=1))

    balances = zip(work(newton), sums(load * np.maximum(-shift, 0.0)), sums(load), strict=True)
    gained = np.array([bool(gains(*numbers, tolerance)) for numbers in balances], dtype=bool)
    if not gained.any():
        return solution
    g = problem.g.copy()
    g[:, 0] += plastic - shift
    other = solve(problem._replace(g=g), newton, sweeps, tolerance=tolerance)
    works = zip(work(other.impulse), work(newton), work((other.impulse + newton) / 2), strict=True)
    shares = np.where(gained, [float(restitution_share(*numbers)) for numbers in works], 1.0)
    share = shares[islands][:, None]
    return ContactSolution(
        np.where(share < 1, other.impulse + share * (newton - other.impulse), newton),
        Measure(*[max(a, b) for a, b in zip(solution.measure, other.measure, strict=True)]),
        solution.sweeps + other.sweeps,
        solution.newton_steps + other.newton_steps,
        solution.interior_steps + other.interior_steps,
        solution.converged and other.converged,
        max(solution.rounding, other.rounding),
    )


def sweeps(problem: ContactProblem, impulse: Array, kappa: Array, count: int) -> tuple[Array, Array, Measure]:
    """Compiled sweeps over the blocks of a problem."""
    if not problem.blocks:
        return impulse, kappa, Measure(0.0, 0.0, 0.0)
    if is_sparse(problem.G):
        return coloured_sweeps(problem, impulse, kappa, count)
    *arrays, moments = problem
    loads = [] if moments is None else [moments.loads()]
    sweep = contact_sweeps(loaded=bool(loads))
    impulse, kappa, measure, _ = sweep(*arrays, *loads, impulse, kappa, np.zeros(count))
    return impulse, kappa, Measure(*measure.tolist())
