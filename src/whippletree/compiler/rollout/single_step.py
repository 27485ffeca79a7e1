"""One step of one or many states under commands: what a learning loop or a controller calls.

A model with contacts, joint limits or dry friction takes the step of ``contact_rollout``, any other the
semi-implicit step of ``rollout``; both are the roll-outs themselves with a single step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.contact.time_step import Blocks
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.model import Model

if TYPE_CHECKING:
    from whippletree.compiler.compiled import Compiled


class StepResult(NamedTuple):
    """Where a step leads."""

    q: Any
    """(..., nq)"""
    v: Any
    """(..., nv)"""
    tau: Any
    """Forces of actuators, and those that were given, over the step, N m or N, (..., nv)."""
    impulses: Any
    """Of contacts, joint limits and joint friction, N s, (..., blocks, 3); the next step may begin with them."""
    measure: Any
    """Residual of the contact problem as impulse (N s), as velocity (m/s), and violation of a cone (N s), (..., 3)."""


def single_step(
    dyn: Compiled, q: Any, v: Any, ctrl: Any, dt: Any, opened: tuple[Any, ...], tau: Any, impulses: Any, sweeps: int
) -> StepResult:
    """``dyn.step``; see there."""
    model = dyn.model
    dt = _step_length(model, dt)
    forces = _forces(dyn, q, v, ctrl, tau, opened)[..., None, :]
    if not Blocks(model).count:
        end_q, end_v = dyn.rollout(q, v, forces, dt, *opened)
        batch = np.shape(end_v)[:-2]
        return StepResult(
            end_q[..., 0, :], end_v[..., 0, :], forces[..., 0, :], np.zeros((*batch, 0, 3)), np.zeros((*batch, 3))
        )
    found = dyn.contact_rollout(q, v, forces, dt, *opened, sweeps=sweeps, impulses=impulses)
    last = found.q[..., 0, :], found.v[..., 0, :], forces[..., 0, :]
    return StepResult(*last, found.impulses[..., 0, :, :], found.measure[..., 0, :])


def _step_length(model: Model, dt: Any) -> Any:
    if dt is None and model.time_step is None:
        raise ValueError(f"step: dt is missing, and model {model.name!r} has no time_step of its own")
    return model.time_step if dt is None else dt


def _forces(dyn: Compiled, q: Any, v: Any, ctrl: Any, tau: Any, opened: tuple[Any, ...]) -> Any:
    """Joint forces (..., nv) of actuators, and those that are given."""
    model, count = dyn.model, len(dyn.model.actuators)
    given = np.zeros(model.nv) if tau is None else tau
    if count:
        driven = dyn.actuator_forces(q, v, np.zeros(count) if ctrl is None else ctrl, *opened)
        return driven if tau is None else driven + given
    if ctrl is not None and np.size(ctrl):
        raise UnsupportedError(
            f"step: ctrl is given, but model {model.name!r} has no actuators: tau= takes joint forces"
        )
    if np.shape(given)[-1:] != (model.nv,):
        raise ShapeError(f"step: tau has shape {np.shape(given)}, expected (..., {model.nv}) for model {model.name!r}")
    return given + np.zeros(model.nv)
