"""Steps in machine code; where those of a single scene fail, Python's own step takes over, and hands back.

A kernel (:mod:`whippletree.compiler.rollout.contact_lists`) steps a scene as long as sweeps solve its contact problem
to the tolerance. A step that they do not solve, or whose end is not finite, is taken in Python
(:mod:`whippletree.simulation.time_stepping.impulse_step`), whose solver knows more ways and whose errors tell more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep, Step

TOGETHER = 500
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


def kernel_steps(stepper: ImpulseStep, y: Array, impulses: Array, tau: Array, h: Array) -> Steps:
    """Steps of lengths h (n,) from a state y (nq + nv,), as far as the kernel solves them: perhaps none.

    Args:
        impulses: of the step before, (blocks, 3).
        tau: forces of the motors in all of these steps, (nv,).
    """
    held = np.broadcast_to(tau, (len(h), stepper.model.nv))
    steps, good = _steps(stepper, y, impulses, held, h)
    return Steps(*[column[: int(good)] for column in steps])


def kernel_batch(stepper: ImpulseStep, y: Array, impulses: Array, tau: Array, h: float) -> tuple[Steps, Array]:
    """Steps of many scenes from states y (runs, nq + nv), each array with the runs in front; and how many are solved.

    Args:
        impulses: of the steps before, (runs, blocks, 3).
        tau: forces of the motors in each step, (runs, n, nv).
    """
    return _steps(stepper, y, impulses, tau, np.full(tau.shape[:2], h))


def _steps(stepper: ImpulseStep, y: Array, impulses: Array, tau: Array, h: Array) -> tuple[Steps, Array]:
    """Steps (..., n) of scenes (...), and how many of them are solved before the first one that is not, (...)."""
    q, v = stepper.motion.split(y)
    with np.errstate(all="ignore"):  # a scene that grows without bound is told of
        found = stepper.dyn.contact_steps(q, v, impulses, tau, h, stepper.tolerance, stepper.tolerance)
        qs, vs, ps, measure, work, friction_work, correction_work, sweeps, newtons = found
        states = np.concatenate([qs, vs], axis=-1)
        # what is not finite, or NaN in every row behind it, is not within the tolerance
        good = (measure[..., 1] <= stepper.tolerance) & np.isfinite(states).all(axis=-1)
        before = np.concatenate([v[..., None, :], vs[..., :-1, :]], axis=-2)
        places = np.concatenate([q[..., None, :], qs[..., :-1, :]], axis=-2)
        joint_work = stepper.joint_work(tau, places, before, vs, h)
    steps = Steps(states, ps, measure, sweeps, newtons, work, friction_work, joint_work, correction_work)
    return steps, np.logical_and.accumulate(good, axis=-1).sum(axis=-1)
