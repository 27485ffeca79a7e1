"""Steps in machine code; where those of a single scene fail, Python's own step takes over, and hands back.

A kernel (:mod:`whippletree.compiler.rollout.contact_lists`) steps a scene as long as it solves its contact problem to
the tolerance. A step that they do not solve, or whose end is not finite, is taken in Python
(:mod:`whippletree.simulation.time_stepping.impulse_step`), whose solver knows more ways and whose errors tell more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.step_space import Driven
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep, Step

STEPS_OF_CALL = 500
"""Steps of one call: a Ctrl-C waits for no more, and the results of all of them are kept until its end."""


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

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.states)

    @staticmethod
    def joined(parts: list[Steps]) -> Steps:
        """Steps that follow each other."""
        return parts[0] if len(parts) == 1 else Steps(*[np.concatenate(column) for column in zip(*parts, strict=True)])

    @staticmethod
    def of(step: Step) -> Steps:
        """A step that Python has taken."""
        works = (step.contact_work, step.friction_work, step.joint_work, step.correction_work)
        numbers = [np.array([x], dtype=float) for x in (step.solution.sweeps, step.solution.newton_steps, *works)]
        measure = np.array([step.solution.measure], dtype=float)
        return Steps(step.state[None], step.impulses[None], measure, *numbers)


class Asked(NamedTuple):
    """A kernel that asks controller and commands in every step, and the times at which these begin."""

    kernel: NamedFunction
    clock: Array
    """s, (n,)."""


def kernel_steps(
    stepper: ImpulseStep,
    y: Array,
    impulses: Array,
    tau: Array,
    h: Array,
    ctrl: Array | None = None,
    asked: Asked | None = None,
) -> Steps:
    """Steps of lengths h (n,) from a state y (nq + nv,), as far as the kernel solves them: perhaps none.

    Args:
        impulses: of the step before, (blocks, 3).
        tau: forces of a controller in all of these steps, (nv,).
        ctrl: commands in each step, (n, actuators); default: none are asked for.
        asked: what finds further forces, and the commands, in each step.
    """
    held = np.broadcast_to(tau, (len(h), stepper.model.nv))
    steps, good = _steps(stepper, y, impulses, held, ctrl, h, asked)
    return Steps(*[column[: int(good)] for column in steps])


def kernel_batch(
    stepper: ImpulseStep, y: Array, impulses: Array, tau: Array, ctrl: Array, h: float
) -> tuple[Steps, Array]:
    """Steps of many scenes from states y (runs, nq + nv), each array with the runs in front; and how many are solved.

    Args:
        impulses: of the steps before, (runs, blocks, 3).
        tau: forces of a controller in each step, (runs, n, nv).
        ctrl: commands in each step, (runs, n, actuators).
    """
    return _steps(stepper, y, impulses, tau, ctrl, np.full(tau.shape[:2], h))


def _steps(
    stepper: ImpulseStep,
    y: Array,
    impulses: Array,
    tau: Array,
    ctrl: Array | None,
    h: Array,
    asked: Asked | None = None,
) -> tuple[Steps, Array]:
    """Steps (..., n) of scenes (...), and how many of them are solved before the first one that is not, (...)."""
    q, v = stepper.motion.split(y)
    act = [] if not stepper.motion.remembers else [stepper.motion.act(y)]
    if act and ctrl is not None:
        ctrl, act[0] = stepper.dyn.activation_steps(ctrl, act[0], h)
    commands = [ctrl] if stepper.actuators.acting and ctrl is not None else []
    function, times = (_kernel(stepper), []) if asked is None else (asked.kernel, [asked.clock])
    dampers = [stepper.motors.held(float(h.max()))] if stepper.motors.holds else []
    with np.errstate(all="ignore"):  # a scene that grows without bound is told of
        found = function(q, v, impulses, tau, *commands, h, stepper.tolerance, stepper.tolerance, *times, *dampers)
        qs, vs, ps, measure, work, friction_work, correction_work, sweeps, newtons, *forces = found
        states = np.concatenate([qs, vs, *act], axis=-1)
        # what is not finite, or NaN in every row behind it, is not within the tolerance
        good = (measure[..., 1] <= stepper.tolerance) & np.isfinite(states).all(axis=-1)
        if not stepper.written:  # faces that meet
            good &= ~_begins_to_press(impulses, ps, stepper.faces)
        before = np.concatenate([v[..., None, :], vs[..., :-1, :]], axis=-2)
        places = np.concatenate([q[..., None, :], qs[..., :-1, :]], axis=-2)
        joint_work = stepper.joint_work(forces[0] if forces else tau, places, before, vs, h)
    steps = Steps(states, ps, measure, sweeps, newtons, work, friction_work, joint_work, correction_work)
    return steps, np.logical_and.accumulate(good, axis=-1).sum(axis=-1)


def _kernel(stepper: ImpulseStep) -> NamedFunction:
    """The kernel for forces that come with each call."""
    return stepper.dyn.driven_contact_steps(Driven(held=True)) if stepper.motors.holds else stepper.dyn.contact_steps


def _begins_to_press(impulses: Array, found: Array, faces: Array) -> Array:
    """Steps (..., n) that begin without any impulse and end with some, (..., n, blocks, 3), at faces that meet.

    ``impulses``: before the first of them; ``faces``: which of the candidates belong to faces (candidates,).

    Where forces are not unique, what can stay at rest does: the solver in Python tries that first, a kernel does not.
    """
    pressed = np.any(found, axis=(-1, -2))
    before = np.concatenate([np.any(impulses, axis=(-1, -2))[..., None], pressed[..., :-1]], axis=-1)
    by_faces = np.any(found[..., : len(faces), :][..., faces, :], axis=(-1, -2))
    return np.asarray(by_faces & ~before)
