"""Several steps in a row, of one scene or of many side by side, with what has to be told of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.contact_rollout import refuse_large
from whippletree.errors import UnsupportedError
from whippletree.simulation.adaptive.integrator import IntegrationError
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep


class Advance(NamedTuple):
    """What some steps have led to; every number is one per scene, (...,)."""

    state: Array
    """(..., nq + nv)"""
    impulses: Array
    """Of the last step, N s, (..., blocks, 3)."""
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
    contact_work: Any
    friction_work: Any
    joint_work: Any
    correction_work: Any
    """0 in batches, which do not ask."""
    refusals: Mapping[int, str] = MappingProxyType({})
    """Scenes of a batch that could not be stepped, and why, if it was said."""

    @staticmethod
    def of(stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int) -> Advance:
        """Steps of one scene, each solved to the tolerance; they end where the state is no longer finite."""
        steps, before = [], y
        if not np.isfinite(y).all():
            return Advance.none(stepper, y, impulses, y[stepper.model.nq :])
        for i in range(count):
            before = y
            steps.append(stepper.step(t + i * h, y, impulses, h))
            y, impulses = steps[-1].state, steps[-1].impulses
            if not np.isfinite(y).all():
                y = np.full_like(y, np.nan)
                break
        impulse, velocity, cone = np.array([step.solution.measure for step in steps], dtype=float).max(axis=0)
        return Advance(
            state=y,
            impulses=impulses,
            a=(y - before)[stepper.model.nq :] / h,
            last=(y if np.isfinite(y).all() else before)[: stepper.model.nq],
            residual_impulse=impulse,
            residual_velocity=velocity,
            cone_violation=cone,
            sweeps=sum(step.solution.sweeps for step in steps),
            newton_steps=sum(step.solution.newton_steps for step in steps),
            interior_steps=sum(step.solution.interior_steps for step in steps),
            unconverged=sum(not step.solution.converged for step in steps),
            at_rounding=sum(step.solution.at_rounding for step in steps),
            contact_work=sum(step.contact_work for step in steps),
            friction_work=sum(step.friction_work for step in steps),
            joint_work=sum(step.joint_work for step in steps),
            correction_work=sum(step.correction_work for step in steps),
        )

    def without(self, runs: Sequence[int]) -> Advance:
        """The same batch, its runs of these numbers lost: NaN, which stays NaN."""
        lost = list(runs)
        if not lost:
            return self
        state, impulses, a = (np.array(values) for values in (self.state, self.impulses, self.a))
        state[lost], impulses[lost], a[lost] = np.nan, np.nan, np.nan
        return self._replace(state=state, impulses=impulses, a=a)

    @staticmethod
    def none(stepper: ImpulseStep, y: Array, impulses: Array, a: Array) -> Advance:
        """The start y: nothing done yet, with forces and accelerations of the first step."""
        zero = np.zeros(y.shape[:-1])
        return Advance._make([y, impulses, a, y[..., : stepper.model.nq], *[zero] * len(Advance._fields[4:-1]), {}])


def advance_batch(
    stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int, sweeps: int
) -> Advance:
    """Steps of many scenes y (runs, nq + nv): in one kernel, or one after the other where they cannot be compiled."""
    try:
        refuse_large(stepper.model, len(stepper.model.bodies), len(stepper.model.bodies))
        if not stepper.blocks.contacts.closed_form:
            raise UnsupportedError("shapes without a closed form")
    except UnsupportedError:
        return _in_turn(stepper, t, y, impulses, h, count)
    # without a controller the steps need not come back to Python in between
    together = count if stepper.motion.controller is None else 1
    parts = []
    for i in range(0, count, together):
        parts.append(_rolled(stepper, t + i * h, y, impulses, h, together, sweeps))
        y, impulses = parts[-1].state, parts[-1].impulses
    sums = {word: sum(getattr(part, word) for part in parts) for word in SUMMED}
    last = parts[0].last
    for part in parts[1:]:
        last = np.where(np.isfinite(part.last), part.last, last)
    worst = {word: np.max([getattr(part, word) for part in parts], axis=0) for word in LARGEST}
    refusals = {run: why for part in reversed(parts) for run, why in part.refusals.items()}
    return parts[-1]._replace(last=last, refusals=refusals, **sums, **worst)


def _in_turn(stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int) -> Advance:
    """Steps of scenes one after the other; one that cannot be stepped is lost, and the others go on."""
    runs, refusals = [], {}
    for number, run in enumerate(zip(y, impulses, strict=True)):
        try:
            runs.append(Advance.of(stepper, t, *run, h, count))
        except IntegrationError as error:
            refusals[number] = str(error)
            runs.append(Advance.none(stepper, *run, run[0][stepper.model.nq :])._replace(state=run[0] * np.nan))
    columns = zip(*[run[:-1] for run in runs], strict=True)
    return Advance._make([*[np.array(column) for column in columns], refusals])


WORKS = ("contact_work", "friction_work", "joint_work", "correction_work")
SUMMED = ("sweeps", "newton_steps", "interior_steps", "unconverged", "at_rounding", *WORKS)
LARGEST = ("residual_impulse", "residual_velocity", "cone_violation")


def _motors(stepper: ImpulseStep, t: float, q: Array, v: Array) -> Array:
    """The controller's forces (runs, nv); NaN where a scene is lost, or where the controller has no answer."""
    tau, found = np.full(v.shape, np.nan), np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
    if found.any():
        tau[found] = stepper.motors_if_told(np.full(found.sum(), t), q[found], v[found])
    return tau


def _refusals(stepper: ImpulseStep, t: float, q: Array, v: Array, silent: Array) -> dict[int, str]:
    """What the controller's failure is called in the scenes, by number, in which it is silent."""
    found = {}
    for run in silent:
        try:
            stepper.motors(np.array([t]), q[run : run + 1], v[run : run + 1])
        except IntegrationError as error:
            found[int(run)] = str(error)
    return found


def _rolled(stepper: ImpulseStep, t: float, y: Array, impulses: Array, h: float, count: int, sweeps: int) -> Advance:
    """Steps under forces of motors that do not change."""
    q, v = stepper.motion.split(y)
    tau = _motors(stepper, t, q, v)
    held = np.repeat(tau[:, None], count, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scenes that are lost are told of as failures of their runs
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
        contact_work=made.work.sum(axis=1),
        friction_work=made.friction_work.sum(axis=1),
        joint_work=stepper.joint_work(held, before, made.v, h).sum(axis=1),
        correction_work=np.zeros(len(y)),
        refusals=_refusals(stepper, t, q, v, np.flatnonzero(np.isfinite(y).all(axis=1) > np.isfinite(tau).all(axis=1))),
    )
