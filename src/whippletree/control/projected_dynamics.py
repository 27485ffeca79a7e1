"""Projected inverse dynamics in closed form, with wanted forces along what constraints and contacts hold.

With all rows that hold (loops, and three of each contact that carries) in one matrix A and the orthogonal projector
P = 1 − A⁺ A onto what they allow, document 001's equation (10) reads P (M a + c) = P Sᵀ u: reaction forces are gone
(Aghili 2005; Mistry, Buchli and Schaal 2010). Of all motor forces u that cause a motion, those with the least uᵀ W u
are (Righetti, Buchli, Mistry and Schaal 2011)

    u = W^-½ (P Sᵀ W^-½)⁺ P (M a + c)

What is left open, forces along the rows that do not move anything, can be asked for instead. Motors push joints with a
motor, whatever the rows do, so that of a wanted force f* only that part has to change which joints without a motor
notice: with columns A_p of these,

    f = f* + A_p (A_pᵀ A_p)⁺ (h_p − A_pᵀ f*)          u = h_m − A_mᵀ f          h = M a + c

This is hybrid control of motion and force: accelerations along allowed directions, forces along all others.

Limits and cones are not looked at: where they matter, :mod:`whippletree.control.whole_body_program` is the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import compile as compile_model
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.routes import RANK_TOLERANCE
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.control.whole_body_layout import chosen_motors
from whippletree.errors import ShapeError
from whippletree.model import Model, require_model
from whippletree.model.input_checks import require_arguments


class Projected(NamedTuple):
    """Forces of a motion: M a + c = tau + Aᵀ f + residual, with every row that holds in A."""

    tau: Array
    """Forces of motors (nv,), 0 for joints without one."""
    f: Array
    """Forces of the rows of constraints, then three of each contact candidate, (rows + 3 contacts,); 0 for contacts
    that do not carry."""
    residual: Array
    """Forces that neither motors nor rows can provide, (nv,): zero exactly when the motion can be had."""
    a: Array
    """The accelerations (nv,), corrected to what the rows allow."""


class ProjectedDynamics:
    """Closed forms for one model. Made by :func:`projected`."""

    def __init__(self, model: Model, motors: Sequence[str] | None) -> None:
        self.model, self.dyn = model, compile_model(model, watch="never")
        names = chosen_motors(model, motors)
        self.motors = [i for name in names for i in range(model.nv)[model.slice(name)]]
        self.passive = [i for i in range(model.nv) if i not in set(self.motors)]
        self.rows = len(constraint_set(model).row_names) if model.constraints else 0
        self.contacts = len(contact_set(model).candidates) if model.touches else 0

    def __repr__(self) -> str:
        return f"<projected inverse dynamics of model {self.model.name!r}>"

    def rows_of_motion(self, q: Array, v: Array, touching: Any = None) -> tuple[Array, Array]:
        """A (rows + 3 contacts, nv) and its bias: rows of constraints and of contacts, zero where none carries."""
        A, gamma = [np.zeros((0, self.model.nv))], [np.zeros(0)]
        if self.rows:
            A.append(np.asarray(self.dyn.constraint_jacobian(q)))
            gamma.append(np.asarray(self.dyn.constraint_bias(q, v)))
        if self.contacts:
            on = np.repeat(np.ones(self.contacts) if touching is None else np.asarray(touching, dtype=float), 3)
            if on.shape != (3 * self.contacts,):
                raise ShapeError(f"projected: touching has {len(on) // 3} entries, expected {self.contacts}")
            A.append(on[:, None] * self.dyn.contact_jacobian(q))
            gamma.append(on * self.dyn.contact_bias(q, v))
        return np.concatenate(A), np.concatenate(gamma)

    def inverse_dynamics(
        self, q: Any, v: Any, a: Any, *, touching: Any = None, costs: Any = None, force: Any = None
    ) -> Projected:
        """Motor forces of a motion, by document 001's projector; with ``force``, hybrid control of motion and force.

        Args:
            q, v, a: one state and the wanted accelerations, which the rows correct at least change.
            touching: 1 for contacts that carry, (contacts,); default: all.
            costs: of the squares of motor forces, (nv,); default 1.
            force: wanted forces of the rows, as in the result; None: those that the cheapest motors leave.
        """
        q, v, a = (np.asarray(x, dtype=float) for x in (q, v, a))
        A, gamma = self.rows_of_motion(q, v, touching)
        inverse = np.linalg.pinv(A, rcond=RANK_TOLERANCE) if len(A) else np.zeros((self.model.nv, 0))
        a = a - inverse @ (A @ a + gamma)
        h = np.asarray(self.dyn.inverse_dynamics(q, v, a) - self.dyn.passive_forces(q, v))
        tau = np.zeros(self.model.nv)
        if force is None:
            P = np.eye(self.model.nv) - inverse @ A
            root = 1 / np.sqrt(np.ones(len(self.motors)) if costs is None else np.asarray(costs)[self.motors])
            seen = P[:, self.motors] * root
            tau[self.motors] = root * (np.linalg.pinv(seen, rcond=RANK_TOLERANCE) @ (P @ h))
            f = inverse.T @ (h - tau)
        else:
            wanted, A_p = np.asarray(force, dtype=float), A[:, self.passive]
            if wanted.shape != (len(A),):
                raise ShapeError(f"projected: force has shape {wanted.shape}, expected ({len(A)},): one for each row")
            change = np.linalg.pinv(A_p.T, rcond=RANK_TOLERANCE) @ (h[self.passive] - A_p.T @ wanted)
            f = wanted + change
            tau[self.motors] = (h - A.T @ f)[self.motors]
        return Projected(tau, f, h - tau - A.T @ f, a)


def projected(model: Model, *, motors: Sequence[str] | None = None) -> ProjectedDynamics:
    """Projected inverse dynamics of a model, in closed form.

    Args:
        model: with constraints, contacts, or neither.
        motors: joints that have one; default as for :func:`~whippletree.control.whole_body`.
    """
    require_model(model, "projected")
    return ProjectedDynamics(model, motors)


def contact_gravity_compensation(
    model: Model, *, motors: Sequence[str] | None = None, touching: Any = None
) -> Callable[[Any, Any, Any], Any]:
    """A controller (t, q, v) → tau: the cheapest motor forces that hold the model still while its contacts carry it.

    ``touching``: 1 for contacts that carry, (contacts,), or a function of (t, q, v); default: all.
    """
    if callable(touching):
        require_arguments("contact_gravity_compensation: touching", touching, "t", "q", "v")
    held = projected(model, motors=motors)
    still = np.zeros(model.nv)

    def act(t: Any, q: Any, v: Any) -> Array:
        on = touching(t, q, v) if callable(touching) else touching
        return held.inverse_dynamics(q, still, still, touching=on).tau

    return act
