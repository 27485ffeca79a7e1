"""Several steps in a row, of one scene or of many side by side, with what has to be told of them."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from whippletree.compiler.contact_rollout import refuse_large
from whippletree.errors import UnsupportedError
from whippletree.simulation.impulse_step import ImpulseStep

Array = np.ndarray[Any, Any]


class Advance(NamedTuple):
    """What some steps have led to; every number is one per scene, (...,)."""

    state: Array
    """(..., nq + nv)"""
    impulses: Array
    """Of the last step, N s, (..., blocks, 3)."""
    a: Array
    """Mean accelerations of the last step, (..., nv)."""
    residual_impulse: Any
    residual_velocity: Any
    cone_violation: Any
    sweeps: Any
    newton_steps: Any
    interior_steps: Any
    unconverged: Any
    """Steps whose residual exceeds the tolerance."""
    contact_work: Any
    joint_work: Any

    @staticmethod
    def of(stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int) -> Advance:
        """Steps of one scene, each solved to the tolerance."""
        steps, before = [], y
        for i in range(count):
            before = y
            steps.append(stepper.step(t + i * h, y, impulses, h))
            y, impulses = steps[-1].state, steps[-1].impulses
        impulse, velocity, cone = np.array([step.solution.measure for step in steps], dtype=float).max(axis=0)
        return Advance(
            state=y,
            impulses=impulses,
            a=(y - before)[stepper.model.nq :] / h,
            residual_impulse=impulse,
            residual_velocity=velocity,
            cone_violation=cone,
            sweeps=sum(step.solution.sweeps for step in steps),
            newton_steps=sum(step.solution.newton_steps for step in steps),
            interior_steps=sum(step.solution.interior_steps for step in steps),
            unconverged=sum(not step.solution.converged for step in steps),
            contact_work=sum(step.contact_work for step in steps),
            joint_work=sum(step.joint_work for step in steps),
        )

    @staticmethod
    def none(y: Array, impulses: Array, a: Array) -> Advance:
        """The start y: nothing done yet, with forces and accelerations of the first step."""
        zero = np.zeros(y.shape[:-1])
        return Advance(y, impulses, a, *[zero] * (len(Advance._fields) - 3))


def advance_batch(
    stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int, sweeps: int
) -> Advance:
    """Steps of many scenes y (runs, nq + nv): in one kernel, or one after the other where they cannot be compiled."""
    try:
        refuse_large(stepper.model, len(stepper.model.bodies), len(stepper.model.bodies))
        if not stepper.blocks.contacts.closed_form:
            raise UnsupportedError("shapes without a closed form")
    except UnsupportedError:
        runs = [Advance.of(stepper, t, *run, h, count) for run in zip(y, impulses, strict=True)]
        return Advance(*[np.array(column) for column in zip(*runs, strict=True)])
    # without joint forces the steps need not come back to Python in between
    together = count if not stepper.forced else 1
    parts = []
    for i in range(0, count, together):
        parts.append(_rolled(stepper, t + i * h, y, impulses, h, together, sweeps))
        y, impulses = parts[-1].state, parts[-1].impulses
    sums = {word: sum(getattr(part, word) for part in parts) for word in SUMMED}
    worst = {word: np.max([getattr(part, word) for part in parts], axis=0) for word in LARGEST}
    return parts[-1]._replace(**sums, **worst)


SUMMED = ("sweeps", "newton_steps", "interior_steps", "unconverged", "contact_work", "joint_work")
LARGEST = ("residual_impulse", "residual_velocity", "cone_violation")


def _rolled(stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int, sweeps: int) -> Advance:
    """Steps under joint forces that do not change."""
    q, v = stepper.motion.split(y)
    tau = stepper.motion.forces(np.full(len(y), t), q, v)
    held = np.repeat(tau[:, None], count, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scenes that are lost are told of as failures of their runs
        made = stepper.dyn.contact_rollout(q, v, held, h, sweeps=sweeps, impulses=impulses)
    before = v if count == 1 else made.v[:, -2]
    springs = np.asarray(stepper.dyn.passive_forces(q, np.zeros_like(v)))
    impulse, velocity, cone = np.moveaxis(made.measure.max(axis=1), 1, 0)
    # with several steps in one call there are no joint forces
    work = h * np.einsum("ki,ki->k", tau - springs, v + made.v[:, -1]) / 2 if count == 1 else np.zeros(len(y))
    return Advance(
        state=np.concatenate([made.q[:, -1], made.v[:, -1]], axis=1),
        impulses=made.impulses[:, -1],
        a=(made.v[:, -1] - before) / h,
        residual_impulse=impulse,
        residual_velocity=velocity,
        cone_violation=cone,
        sweeps=np.full(len(y), sweeps * count),
        newton_steps=np.zeros(len(y)),
        interior_steps=np.zeros(len(y)),
        unconverged=(made.measure[:, :, 1] > stepper.tolerance).sum(axis=1),
        contact_work=made.work.sum(axis=1),
        joint_work=work,
    )
