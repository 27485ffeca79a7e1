"""Several steps in a row, of one scene or of many side by side, with what a run reports of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.contact_rollout import refuse_large
from whippletree.contact.problem.solver import ContactSolution
from whippletree.errors import IntegrationError, UnsupportedError
from whippletree.simulation.time_stepping.impulse_kernel import (
    AskedSteps,
    StepPlan,
    Steps,
    asked_steps,
    can_ask,
    kernel_batch,
)
from whippletree.simulation.time_stepping.impulse_step import STEPS_OF_CALL, ImpulseStep
from whippletree.simulation.time_stepping.inertial_gain import Refused, Watched, careful_step, watched_steps


class Advance(NamedTuple):
    """The outcome of some steps; every number is one per scene, (...,)."""

    state: Array
    """(..., nq + nv)"""
    impulses: Array
    """Impulses of the last step, N s, (..., blocks, 3)."""
    a: Array
    """Mean accelerations of the last step, (..., nv)."""
    last: Array
    """The last coordinates that were finite, (..., nq): where a scene that is lost was."""
    residual_impulse: Any
    residual_velocity: Any
    cone_violation: Any
    sweeps: Any
    newton_steps: Any
    interior_steps: Any
    unconverged: Any
    """Steps whose residual exceeds the tolerance."""
    at_rounding: Any
    """Of these, steps whose residual is what rounding leaves; 0 in batches, which do not ask."""
    halved: Any
    """Steps that were taken in halves."""
    contact_work: Any
    friction_work: Any
    joint_work: Any
    correction_work: Any
    """0 in batches, which do not ask."""
    refusals: Mapping[int, str] = MappingProxyType({})
    """Scenes of a batch that could not be stepped, and why, if it was said."""
    pressing: Array | slice = slice(None)
    """Numbers of the blocks among which those are that carry an impulse, or all of them."""

    @property
    def columns(self) -> tuple[Any, ...]:
        """All that is one per scene."""
        return self[:-2]

    @staticmethod
    def of(
        stepper: ImpulseStep,
        t: float,
        y: Array,
        impulses: Array,
        h: float,
        count: int,
        given: tuple[Array, Array] | None = None,
        first: int = 0,
        begun: AskedSteps | None = None,
    ) -> Advance:
        """Steps of one scene, each solved to the tolerance; they end where the state is no longer finite.

        ``given``: forces (nv,) and commands (actuators,) of a single step; None asks for them before each. ``first``:
        how many steps of this length lie between t and the first of these. ``begun``: those that are there already.
        """
        if not np.isfinite(y).all():
            return Advance.none(stepper, y, impulses, stepper.motion.split(y)[1])
        scene, halved = _SceneSteps(stepper, t, y, impulses, h, first), stepper.halved
        if given is None and can_ask(stepper):
            scene.ask_before_each(count, begun)
        else:
            scene.advance(count, given)
        steps = Steps.join(scene.parts)
        row = Advance.of_rows(stepper, y, steps, np.array([steps.number]), np.array([h]))
        return row.only_row()._replace(
            interior_steps=sum(solution.interior_steps for solution in scene.solutions),
            unconverged=sum(not solution.converged for solution in scene.solutions),
            at_rounding=sum(solution.at_rounding for solution in scene.solutions),
            halved=stepper.halved - halved,
        )

    @staticmethod
    def of_rows(stepper: ImpulseStep, start: Array, steps: Steps, counts: Array, h: Array) -> Advance:
        """Steps of one scene from a start (nq + nv,), row by row: ``counts`` (rows,) of them, of length h (rows,).

        All of them are taken for solved, by sweeps and Newton's method. Steps beyond the last row are left out.
        """
        ends = np.cumsum(counts) - 1
        steps = steps.part(slice(ends[-1] + 1))
        firsts, nothing = ends - counts + 1, np.zeros(len(counts))
        every = np.concatenate([start[None], steps.states])
        state, before = every[ends + 1], every[ends]
        finite = np.isfinite(state).all(axis=1)
        impulse, velocity, cone = np.maximum.reduceat(steps.measure, firsts).T
        with np.errstate(over="ignore", invalid="ignore"):  # a run on its way out of bounds, of which its failure tells
            work, of_friction, of_joints, corrections = (
                np.add.reduceat(works, firsts)
                for works in (steps.contact_work, steps.friction_work, steps.joint_work, steps.correction_work)
            )
        return Advance(
            state=state,
            impulses=_some_of(steps.impulses, ends),
            a=stepper.motion.split(state - before)[1] / h[:, None],
            last=np.where(finite[:, None], state, before)[:, : stepper.model.nq],
            residual_impulse=impulse,
            residual_velocity=velocity,
            cone_violation=cone,
            sweeps=np.add.reduceat(steps.sweeps, firsts),
            newton_steps=np.add.reduceat(steps.newton_steps, firsts),
            interior_steps=nothing,
            unconverged=nothing,
            at_rounding=nothing,
            halved=nothing,
            contact_work=work,
            friction_work=of_friction,
            joint_work=of_joints,
            correction_work=corrections,
            pressing=steps.pressing,
        )

    def without(self, runs: Sequence[int]) -> Advance:
        """This batch, its runs of these numbers lost: NaN, which stays NaN."""
        lost = list(runs)
        if not lost:
            return self
        state, impulses, a = (np.array(values) for values in (self.state, self.impulses, self.a))
        state[lost], impulses[lost], a[lost] = np.nan, np.nan, np.nan
        return self._replace(state=state, impulses=impulses, a=a)

    def as_rows(self) -> Advance:
        """This batch as one row of output: every array with a dimension of one in front."""
        return Advance._make([*[np.asarray(x)[None] for x in self.columns], self.refusals, self.pressing])

    def only_row(self) -> Advance:
        """The inverse of :meth:`as_rows`."""
        return Advance._make([*[x[0] for x in self.columns], self.refusals, self.pressing])

    @staticmethod
    def none(stepper: ImpulseStep, y: Array, impulses: Array, a: Array) -> Advance:
        """The start y: nothing done yet, with forces and accelerations of the first step."""
        zero = np.zeros(y.shape[:-1])
        nothing = [zero] * len(Advance._fields[4:-2])
        return Advance._make([y, impulses, a, y[..., : stepper.model.nq], *nothing, {}, slice(None)])


def _some_of(steps: Array, numbers: Array) -> Array:
    """Steps of some numbers: without a copy where these are evenly spaced, as those of rows are, since impulses of a
    large model are a megabyte a step."""
    spacing = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    even = spacing > 0 and np.array_equal(numbers, numbers[0] + spacing * np.arange(len(numbers)))
    return steps[numbers[0] : numbers[-1] + 1 : spacing] if even else steps[numbers]


def step_clock(t: float, h: float, first: int, count: int) -> Array:
    """When steps of length h begin, s, (count,), from number ``first`` on of those that follow t."""
    return t + h * np.arange(first, first + count)


class _SceneSteps:
    """Steps of one scene that follow each other: many in a call of the kernel, and careful ones where it refuses."""

    def __init__(self, stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, first: int) -> None:
        self.stepper, self.t, self.h, self.first = stepper, t, h, first
        self.y, self.impulses = y, impulses
        self.done = 0
        self.parts: list[Steps] = []
        self.solutions: list[ContactSolution] = []
        """Solutions of the problems that Python has solved."""

    @property
    def now(self) -> float:
        return float(self._clock(1)[0])

    def _clock(self, some: int) -> Array:
        """When the next steps begin, s: the same bits whoever took those before them."""
        return step_clock(self.t, self.h, self.first + self.done, some)

    def ask_before_each(self, count: int, begun: AskedSteps | None = None) -> None:
        """Steps whose controller is asked by the kernel before each of them, but for those that were ``begun``."""
        while self.done < count:
            clock = self._clock(min(STEPS_OF_CALL, count - self.done))
            asked = begun or asked_steps(self.stepper, self.y, self.impulses, np.full(len(clock), self.h), clock)
            begun = None
            if asked.steps.number:
                self._add(asked.steps)
            if asked.error is not None:
                raise asked.error
            if asked.left is not None and not self._step_carefully(asked.left):
                return

    def advance(self, count: int, given: tuple[Array, Array] | None) -> None:
        """Steps in calls of the kernel, if there is one; a step that it refuses is taken carefully, and the next goes
        to it again. Forces and commands are ``given``, or asked for before each call."""
        # a controller changes the forces after every step
        together = STEPS_OF_CALL if self.stepper.motors.steady else 1
        while self.done < count:
            some = min(together, self.stepper.stride, count - self.done)
            forces = given or self._forces()
            refused: Refused | None = None
            if self.stepper.kernel and not self.stepper.wary:
                made, refused = self._call_kernel(forces, some)
                if made.number and not self._go_on_after(made):
                    return
                if made.number == some:
                    continue
                if made.number:
                    forces = given or self._forces()
            if not self._step_carefully(forces, refused):
                return

    def _forces(self) -> tuple[Array, Array]:
        """Joint forces and commands of the next step."""
        return self.stepper.motors.at(self.now, *self.stepper.motion.split(self.y))

    def _call_kernel(self, forces: tuple[Array, Array], some: int) -> Watched:
        """So many steps at most, up to the first that it does not solve, or that gains energy: perhaps none."""
        tau, ctrl = forces
        clock = self._clock(some)
        commands = ctrl[None] if some == 1 else self.stepper.motors.ctrl_over(clock)
        return watched_steps(self.stepper, self.y, self.impulses, StepPlan(np.full(some, self.h), tau, commands, clock))

    def _step_carefully(self, forces: tuple[Array, Array], refused: Refused | None = None) -> bool:
        plan = StepPlan.of_one(self.now, self.h, *forces)
        return self._go_on_after(careful_step(self.stepper, self.y, self.impulses, plan, self.solutions, refused))

    def _go_on_after(self, made: Steps) -> bool:
        """Add these steps; whether the state is still finite."""
        self._add(made)
        finite = bool(np.isfinite(self.y).all())
        if not finite:
            made.states[-1] = np.nan
        return finite

    def _add(self, made: Steps) -> None:
        self.parts.append(made)
        self.y, self.impulses, self.done = made.states[-1], made.impulses[-1], self.done + made.number


SCENE_STEPS_PER_CALL, PARTS_HELD = 50_000, 64
"""Steps, of all scenes, that one call takes, and calls whose accounts are held until they are added up: what all steps
report must not grow with the length of a row."""


def advance_batch(
    stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int, sweeps: int
) -> Advance:
    """Steps of many scenes y (runs, nq + nv): in one kernel, or one after the other where they cannot be compiled."""
    step = _roll_steps if _can_be_compiled(stepper) else _in_turn_asked_once
    if step is not _roll_steps and not stepper.motors.answers_for_all:
        return _in_turn(stepper, t, y, impulses, h, count)
    # without a controller the steps need not come back to Python in between
    together = max(1, SCENE_STEPS_PER_CALL // len(y)) if stepper.motors.steady and len(y) else 1
    parts: list[Advance] = []
    for i in range(0, count, together):
        parts.append(step(stepper, t, y, impulses, h, min(together, count - i), sweeps, i))
        y, impulses = parts[-1].state, parts[-1].impulses
        if len(parts) >= PARTS_HELD:
            parts = [_join_advances(parts)]
    return _join_advances(parts)


def _join_advances(parts: Sequence[Advance]) -> Advance:
    """Advances one after the other as one."""
    sums = {word: sum(getattr(part, word) for part in parts) for word in SUMMED}
    last = parts[0].last
    for part in parts[1:]:
        last = np.where(np.isfinite(part.last), part.last, last)
    worst = {word: np.max([getattr(part, word) for part in parts], axis=0) for word in LARGEST}
    refusals = {run: why for part in reversed(parts) for run, why in part.refusals.items()}
    return parts[-1]._replace(last=last, refusals=refusals, **sums, **worst)


def _can_be_compiled(stepper: ImpulseStep) -> bool:
    """Whether one kernel steps many scenes of the model."""
    if stepper.lists_for_batches:
        return True
    try:
        refuse_large(stepper.model, len(stepper.model.bodies), len(stepper.model.bodies))
    except UnsupportedError:
        return False
    return stepper.written and not (stepper.actuators.acting or stepper.motors.holds or stepper.timed)


def _in_turn(
    stepper: ImpulseStep,
    t: float,
    y: Array,
    impulses: Array,
    h: float,
    count: int,
    given: Sequence[tuple[Array, Array]] | None = None,
    first: int = 0,
) -> Advance:
    """Steps of scenes one after the other; one that cannot be stepped is lost, and the others go on.

    ``given``: forces and commands of each scene in a single step; a scene without forces (NaN) is lost.
    """
    runs, refusals = [], {}
    for number, run in enumerate(zip(y, impulses, strict=True)):
        lost = Advance.none(stepper, *run, stepper.motion.split(run[0])[1])._replace(state=run[0] * np.nan)
        own = None if given is None else given[number]
        if own is not None and np.isnan(own[0]).any():
            runs.append(lost)
            continue
        try:
            runs.append(Advance.of(stepper, t, *run, h, count, own, first))
        except IntegrationError as error:
            refusals[number] = str(error)
            runs.append(lost)
    columns = zip(*[run.columns for run in runs], strict=True)
    return Advance._make([*[np.array(column) for column in columns], refusals, slice(None)])


def _in_turn_asked_once(
    stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int, sweeps: int, first: int
) -> Advance:
    """One step of scenes one after the other, their forces and commands asked for in one call."""
    q, v = stepper.motion.split(y)
    now = t + first * h
    tau, ctrl = _motors(stepper, now, q, v), _commands(stepper, step_clock(t, h, first, 1), q, v)[:, 0]
    made = _in_turn(stepper, t, y, impulses, h, count, list(zip(tau, ctrl, strict=True)), first)
    silent = np.flatnonzero(np.isfinite(y).all(axis=1) > np.isfinite(tau).all(axis=1))
    return made._replace(refusals={**made.refusals, **_refusals(stepper, now, q, v, silent)})


WORKS = ("contact_work", "friction_work", "joint_work", "correction_work")
SUMMED = ("sweeps", "newton_steps", "interior_steps", "unconverged", "at_rounding", "halved", *WORKS)
LARGEST = ("residual_impulse", "residual_velocity", "cone_violation")


def _motors(stepper: ImpulseStep, t: float, q: Array, v: Array) -> Array:
    """The controller's forces (runs, nv); NaN where a scene is lost, or where the controller has no answer."""
    tau, found = np.full(v.shape, np.nan), np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
    if found.any():
        tau[found] = stepper.motors.tau_if_told(np.full(found.sum(), t), q[found], v[found])
    return tau


def _commands(stepper: ImpulseStep, clock: Array, q: Array, v: Array) -> Array:
    """Commands of the actuators in steps that begin at these times (count,), (runs, count, actuators)."""
    motors, count, t = stepper.motors, len(clock), float(clock[0])
    if not motors.asks_commands:
        return np.broadcast_to(motors.ctrl_over(clock), (len(q), count, motors.count))
    ctrl, found = np.full((len(q), motors.count), np.nan), np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
    if found.any():
        ctrl[found] = motors.ctrl(np.full(found.sum(), t), q[found], v[found])
    return np.repeat(ctrl[:, None], count, axis=1)


def _refusals(stepper: ImpulseStep, t: float, q: Array, v: Array, silent: Array) -> dict[int, str]:
    """Names of the controller's failure in the scenes, by number, in which it is silent."""
    found = {}
    for run in silent:
        try:
            stepper.motors.tau(np.array([t]), q[run : run + 1], v[run : run + 1])
        except IntegrationError as error:
            found[int(run)] = str(error)
    return found


def _roll_steps(
    stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int, sweeps: int, first: int
) -> Advance:
    """Steps under forces of motors that do not change."""
    q, v = stepper.motion.split(y)
    now = t + first * h
    tau = _motors(stepper, now, q, v)
    held = np.repeat(tau[:, None], count, axis=1)
    silent = np.flatnonzero(np.isfinite(y).all(axis=1) > np.isfinite(tau).all(axis=1))
    if stepper.lists_for_batches:
        ctrl = _commands(stepper, step_clock(t, h, first, count), q, v)
        made_by_lists = _by_lists(stepper, t, y, impulses, held, ctrl, h, first)
        return made_by_lists._replace(refusals=_refusals(stepper, now, q, v, silent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scenes that are lost are reported as failures of their runs
        made = stepper.dyn.contact_rollout(q, v, held, h, sweeps=sweeps, impulses=impulses)
    before = np.concatenate([v[:, None], made.v[:, :-1]], axis=1)
    impulse, velocity, cone = np.moveaxis(made.measure.max(axis=1), 1, 0)
    places = np.concatenate([q[:, None], made.q], axis=1)
    return Advance(
        state=np.concatenate([made.q[:, -1], made.v[:, -1]], axis=1),
        impulses=made.impulses[:, -1],
        a=(made.v[:, -1] - before[:, -1]) / h,
        last=places[np.arange(len(q)), made.good_steps],
        residual_impulse=impulse,
        residual_velocity=velocity,
        cone_violation=cone,
        sweeps=np.full(len(y), sweeps * count),
        newton_steps=np.zeros(len(y)),
        interior_steps=np.zeros(len(y)),
        unconverged=(made.measure[:, :, 1] > stepper.tolerance).sum(axis=1),
        at_rounding=np.zeros(len(y)),
        halved=np.zeros(len(y)),
        contact_work=made.work.sum(axis=1),
        friction_work=made.friction_work.sum(axis=1),
        joint_work=stepper.joint_work(held, places[:, :-1], before, made.v, h).sum(axis=1),
        correction_work=np.zeros(len(y)),
        refusals=_refusals(stepper, now, q, v, silent),
    )


def _by_lists(
    stepper: ImpulseStep, t: float, y: Array, impulses: Array, tau: Array, ctrl: Array, h: float, first: int
) -> Advance:
    """Steps under a controller's forces (runs, n, nv) and commands (runs, n, actuators), each solved to the tolerance.

    A scene that its kernel does not solve goes on alone from there; one that is lost, or has no forces, is NaN.
    """
    count = tau.shape[1]
    plan = StepPlan(np.full(tau.shape[:2], h), tau, ctrl, step_clock(t, h, first, count))
    steps, good = kernel_batch(stepper, y, impulses, plan)
    state, before = steps.states[:, -1], steps.states[:, -2] if count > 1 else y
    impulse, velocity, cone = np.moveaxis(steps.measure.max(axis=1), 1, 0)
    nothing = np.zeros(len(y))
    with np.errstate(invalid="ignore"):
        a = stepper.motion.split(state - before)[1] / h
    sums = [getattr(steps, word).sum(axis=1) for word in ("sweeps", "newton_steps")]
    works = [getattr(steps, word).sum(axis=1) for word in WORKS]
    columns = [state, steps.impulses[:, -1], a, stepper.motion.split(state)[0], impulse, velocity, cone, *sums]
    columns = [np.array(column) for column in (*columns, *[nothing] * 4, *works)]
    for run in np.flatnonzero(good < count):
        solved = steps.part((run, slice(good[run])))
        own = _one_of_many(stepper, t, y[run], impulses[run], solved, count, h, first)
        for column, value in zip(columns, own.columns, strict=True):
            column[run] = value
    return Advance(*columns)


def _one_of_many(
    stepper: ImpulseStep, t: float, y: Array, impulses: Array, steps: Steps, count: int, h: float, first: int
) -> Advance:
    """A scene of a batch: its solved steps, and what is left of ``count``."""
    n, parts = steps.number, []
    if n:
        parts.append(Advance.of_rows(stepper, y, steps, np.array([n]), np.array([h])).only_row())
        y, impulses = parts[0].state, parts[0].impulses
    if n < count:
        try:
            parts.append(Advance.of(stepper, t, y, impulses, h, count - n, first=first + n))
        except IntegrationError:
            parts.append(Advance.none(stepper, y * np.nan, impulses, stepper.motion.split(y)[1]))
    if len(parts) == 1:
        return parts[0]
    sums = {word: sum(getattr(part, word) for part in parts) for word in SUMMED}
    worst = {word: max(getattr(part, word) for part in parts) for word in LARGEST}
    return parts[-1]._replace(**sums, **worst)
