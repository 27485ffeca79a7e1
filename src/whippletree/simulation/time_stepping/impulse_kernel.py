"""Steps in machine code; where those of a single scene fail, Python's own step takes over, and hands back.

A kernel (:mod:`whippletree.compiler.rollout.contact_lists.contact_list_step`) steps a scene as long as it solves its
contact problem to the tolerance. A step that they do not solve, or whose end is not finite, is taken in Python
(:mod:`whippletree.simulation.time_stepping.impulse_step`), whose solver knows more ways and whose errors tell more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.cpu.cpu_function import CompiledFunction
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.contact_lists.contact_list_results import is_sparse
from whippletree.compiler.rollout.step_space import Driven
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep, Step


class Steps(NamedTuple):
    """Some steps in a row, n of them."""

    states: Array
    """At the end of each, (n, nq + nv)."""
    impulses: Array
    """N s, (n, blocks, 3)."""
    measure: Array
    """Residual as impulse (N s), as velocity (m/s), and largest violation of a cone (N s), (n, 3)."""
    sweeps: Array
    newton_steps: Array
    contact_work: Array
    """J, (n,), as the following."""
    friction_work: Array
    joint_work: Array
    correction_work: Array
    pressing: Array | slice = slice(None)
    """Numbers of the blocks among which those are that carry an impulse in any of these steps, or all of them: beside a
    few that press, a large model has tens of thousands whose zeros nobody should have to read."""

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.states)

    def part(self, some: Any) -> Steps:
        """Some of these steps, by an index."""
        return Steps._make([*[column[some] for column in self[:-1]], self.pressing])

    @staticmethod
    def join(parts: list[Steps]) -> Steps:
        """Steps that follow each other."""
        if len(parts) == 1:
            return parts[0]
        return Steps(*[np.concatenate(column) for column in zip(*[part[:-1] for part in parts], strict=True)])

    @staticmethod
    def of(step: Step) -> Steps:
        """A step that Python has taken."""
        works = (step.contact_work, step.friction_work, step.joint_work, step.correction_work)
        numbers = [np.array([x], dtype=float) for x in (step.solution.sweeps, step.solution.newton_steps, *works)]
        measure = np.array([step.solution.measure], dtype=float)
        return Steps(step.state[None].copy(), step.impulses[None], measure, *numbers)


class StepPlan(NamedTuple):
    """Some steps in a row, n of them, that are yet to be taken; in a batch with the runs in front."""

    h: Array
    """Their lengths, s, (n,)."""
    tau: Array
    """Forces of a controller, (n, nv), or (nv,) in all of them."""
    ctrl: Array | None = None
    """Commands, (n, actuators); None where none are asked for."""
    clock: Array | None = None
    """When they begin, s, (n,): for controllers, and for constraints that depend on time."""

    @staticmethod
    def of_one(t: float, h: float, tau: Array, ctrl: Array | None) -> StepPlan:
        """A single step at time t of length h under forces (nv,) and commands (actuators,)."""
        return StepPlan(np.array([h]), tau, None if ctrl is None else ctrl[None], np.array([t]))

    def part(self, some: slice) -> StepPlan:
        """Some of these steps, of one scene."""
        tau = self.tau if self.tau.ndim == 1 else self.tau[some]
        ctrl, clock = (None if given is None else given[some] for given in (self.ctrl, self.clock))
        return StepPlan(self.h[some], tau, ctrl, clock)

    def halves(self) -> tuple[StepPlan, StepPlan]:
        """A single step as two of half the length."""
        assert self.clock is not None
        half = self._replace(h=self.h / 2)
        return half, half._replace(clock=self.clock + half.h)


def kernel_steps(
    stepper: ImpulseStep, y: Array, impulses: Array, plan: StepPlan, asking: NamedFunction | None = None
) -> Steps:
    """The planned steps from a state y (nq + nv,), as far as the kernel solves them: perhaps none.

    Args:
        impulses: of the step before, (blocks, 3).
        asking: a kernel that asks controller and commands itself, in every step.
    """
    if stepper.apart is not None and asking is None:
        return _steps_of_two_kernels(stepper, stepper.apart, y, impulses, plan)
    return _solved_part(_steps(stepper, y, impulses, plan, asking))


def _solved_part(made: tuple[Steps, Array]) -> Steps:
    """Steps of one scene, as far as they are solved."""
    steps, good = made
    return steps.part(slice(int(good)))


def _steps_of_two_kernels(stepper: ImpulseStep, apart: Array, y: Array, impulses: Array, plan: StepPlan) -> Steps:
    """Steps of a long tree, by recursions over it while it touches the world alone, and else with rows over velocities.

    The first tell when links touch each other, or reach a limit: that step is taken by the second, and more and more
    after it as long as links (``apart``, bool (blocks,)) push each other.
    """
    parts: list[Steps] = []
    done, stride, world_only, count = 0, 1, True, len(plan.h)
    while done < count:
        world_only = world_only and not impulses[apart].any()
        some = slice(done, count if world_only else min(done + stride, count))
        made = _solved_part(_steps(stepper, y, impulses, plan.part(some), world_only=world_only))
        parts.append(made)
        if made.number:
            y, impulses, done = made.states[-1], made.impulses[-1], done + made.number
        if not world_only and made.number < some.stop - some.start:
            break
        world_only, stride = not world_only, 1 if world_only else 2 * stride
    return Steps.join(parts)


class AskedSteps(NamedTuple):
    """Steps whose controller was asked before each. What it was asked it is not asked again: it may remember."""

    steps: Steps
    """As far as the kernel has solved them: perhaps none."""
    left: tuple[Array, Array] | None = None
    """Forces and commands of the step that it has not solved."""
    error: BaseException | None = None
    """What the controller raised in that step."""

    def from_step(self, number: int, count: int) -> AskedSteps:
        """The part that there is of ``count`` steps after the first ones."""
        steps = self.steps.part(slice(number, number + count))
        return AskedSteps(steps) if steps.number == count else self._replace(steps=steps)


def asked_steps(stepper: ImpulseStep, y: Array, impulses: Array, h: Array, clock: Array) -> AskedSteps:
    """Steps of lengths h (n,) of one scene whose controller or commands are Python functions, asked before each.

    The kernel asks them itself, and all else is done once at the end: a step costs some 3 µs beside itself and its
    controller, where a call for each would cost 200. Only where :func:`can_ask` says so.

    Args:
        impulses: of the step before, (blocks, 3).
        clock: when they begin, s, (n,).
    """
    kernel, motion = stepper.asking_kernel, stepper.motion
    with np.errstate(all="ignore"):  # a scene that grows without bound is reported
        found = kernel(*motion.split(y), motion.act(y), impulses, h, stepper.tolerance, clock)
        steps, good = _steps_of_results(stepper, y, kernel.tau, found, h, kernel.activations)
        if not stepper.written:  # faces that meet; the kernel stops there by itself
            good &= ~_begins_to_press(impulses, steps, stepper.blocks.faces)
    solved = int(np.logical_and.accumulate(good).sum())
    # the kernel stops at a step that it does not solve, and asks no more
    left = None if solved == len(clock) or kernel.error else (kernel.tau.copy(), kernel.ctrl.copy())
    return AskedSteps(steps.part(slice(solved)), left, kernel.error)


def can_ask(stepper: ImpulseStep) -> bool:
    """Whether :func:`asked_steps` may be called: the scene has a kernel, and no tree whose steps are looked at one by
    one."""
    if not stepper.kernel or stepper.motors.steady or stepper.watched:
        return False
    return isinstance(stepper.dyn.driven_contact_steps(Driven(in_python=True)), CompiledFunction)


def kernel_batch(stepper: ImpulseStep, y: Array, impulses: Array, plan: StepPlan) -> tuple[Steps, Array]:
    """The planned steps of many scenes from states y (runs, nq + nv), each array with the runs in front; and how many
    of them are solved, (runs,). ``impulses``: of the steps before, (runs, blocks, 3)."""
    return _steps(stepper, y, impulses, plan)


def _steps(
    stepper: ImpulseStep,
    y: Array,
    impulses: Array,
    plan: StepPlan,
    asking: NamedFunction | None = None,
    world_only: bool = False,
) -> tuple[Steps, Array]:
    """Steps (..., n) of scenes (...), and how many of them are solved before the first one that is not, (...)."""
    q, v = stepper.motion.split(y)
    h, ctrl, clock = plan.h, plan.ctrl, plan.clock
    tau = np.broadcast_to(plan.tau, (*h.shape, stepper.model.nv))
    act = [] if not stepper.motion.remembers else [stepper.motion.act(y)]
    if act and ctrl is not None:
        ctrl, act[0] = stepper.dyn.activation_steps(ctrl, act[0], h)
    commands = [ctrl] if stepper.actuators.acting and ctrl is not None else []
    function = _kernel(stepper, world_only) if asking is None else asking
    times = [clock] if asking is not None or stepper.timed else []
    dampers = [stepper.motors.held_dampers(float(h.max()))] if stepper.motors.holds else []
    with np.errstate(all="ignore"):  # a scene that grows without bound is reported
        found = function(q, v, impulses, tau, *commands, h, stepper.tolerance, stepper.tolerance, *times, *dampers)
        steps, good = _steps_of_results(stepper, y, tau, found, h, act)
        if not stepper.written and not stepper.watched:  # faces that meet
            good &= ~_begins_to_press(impulses, steps, stepper.blocks.faces)
    return steps, np.logical_and.accumulate(good, axis=-1).sum(axis=-1)


def _steps_of_results(
    stepper: ImpulseStep, y: Array, tau: Array, found: Sequence[Array], h: Array, act: Sequence[Array]
) -> tuple[Steps, Array]:
    """Steps (..., n) from the results of a kernel, and which of them are solved (..., n)."""
    q, v = stepper.motion.split(y)
    qs, vs, ps, measure, work, friction_work, correction_work, sweeps, newtons, *forces = found
    pressing: Array | slice = slice(None)
    if is_sparse(stepper.blocks):
        noted = forces.pop()
        pressing = np.flatnonzero(noted.reshape(-1, noted.shape[-1]).any(axis=0))
    states = np.concatenate([qs, vs, *act], axis=-1)
    # what is not finite, or NaN in every row behind it, is not within the tolerance
    good = (measure[..., 1] <= stepper.tolerance) & np.isfinite(states).all(axis=-1)
    before = np.concatenate([v[..., None, :], vs[..., :-1, :]], axis=-2)
    places = np.concatenate([q[..., None, :], qs[..., :-1, :]], axis=-2)
    force = forces[0] if forces else tau
    # a force on a free body does its work along velocities in one set of axes, those in which it is given
    after = stepper.free_bodies.in_earlier_axes(places, qs, vs) if stepper.free_bodies.are_pushed(force) else vs
    joint_work = stepper.joint_work(force, places, before, after, h)
    works = work, friction_work, joint_work, correction_work
    return Steps(states, ps, measure, sweeps, newtons, *works, pressing), good


def _kernel(stepper: ImpulseStep, world_only: bool = False) -> NamedFunction:
    """The kernel for forces that come with each call; ``world_only``: that of long trees which touch nothing else."""
    if stepper.motors.holds or world_only:
        return stepper.dyn.driven_contact_steps(Driven(held=stepper.motors.holds), world_only=world_only)
    return stepper.dyn.contact_steps


def _begins_to_press(impulses: Array, steps: Steps, faces: Array) -> Array:
    """Steps (..., n) that begin without any impulse and end with some at faces that meet.

    ``impulses``: before the first of them, (..., blocks, 3); ``faces``: which of the candidates belong to faces
    (candidates,).

    Where forces are not unique, what can stay at rest does: the solver in Python tries that first, a kernel does not.
    Steps of long trees are not asked: a chain that lands would be halved as often as allowed, in vain, and a step in
    Python takes as long as all others together (0.12 s for a rope of 25 links).
    """
    found = steps.impulses[..., steps.pressing, :]
    pressed = np.any(found, axis=(-1, -2))
    before = np.concatenate([np.any(impulses, axis=(-1, -2))[..., None], pressed[..., :-1]], axis=-1)
    begins = np.asarray(pressed & ~before)
    at_faces = np.append(faces, np.zeros(impulses.shape[-2] - len(faces), dtype=bool))[steps.pressing]
    begins[begins] = np.any(found[begins][:, at_faces], axis=(-1, -2))
    return begins
