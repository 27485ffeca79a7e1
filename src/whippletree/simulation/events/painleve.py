"""Dynamic jam: a slip that turns into Painlevé's situation, where no force balances the contact any more.

As ∂u̇ₙ/∂fₙ of a sliding contact falls to zero its force grows without bound, and so does the rate at which it turns its
slip: the last of it happens in less time than can be told apart. But it takes a finite impulse. So where steps have
become too short the motion goes on in the normal impulse p instead of time, dv/dp from the block matrix, up to the jam;
the impact without collision begins there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.impact.impact import responses
from whippletree.simulation.events.phase import Phase

JAM_SHARE = 0.1
"""∂u̇ₙ/∂fₙ in units of its value without friction, below which short steps are taken as those before a jam."""

STRIDES = 1e-7 * 2.0 ** np.arange(23)
"""Impulses on the way to a jam, as shares of the slip that they change."""


class Jam(NamedTuple):
    """The contact, and the state just beyond the jam."""

    contact: int
    state: Array


def room_to_slide(phase: Phase, t: Array, y: Array) -> Array:
    """The determinant of the block matrix of a mode that slides, in units of its value without friction, (m,): positive
    while loads push contacts apart, zero where they jam.

    Of a single contact it is ∂u̇ₙ/∂fₙ; contacts that would jam by themselves may be held apart by others.
    """
    q, v = phase.scene.motion.split(y)
    at = phase.scene.at(t, q, v)
    rubbing = np.linalg.slogdet(phase.block_matrix(at, phase.slip_directions(q, v))[0])
    smooth = np.linalg.slogdet(phase.block_matrix(at, np.zeros((len(t), phase.scene.count, 2)))[0])
    return np.asarray(rubbing.sign * smooth.sign * np.exp(rubbing.logabsdet - smooth.logabsdet))


def sliding_inertia(phase: Phase, t: Array, y: Array, contacts: list[int]) -> Array:
    """∂u̇ₙ/∂fₙ (m, contacts) of sliding contacts in units of its value without friction: of each by itself, with the
    constraints of the mode but without its other contacts."""
    q, v = phase.scene.motion.split(y)
    at = phase.scene.at(t, q, v)
    J = at.J.reshape(len(t), -1, 3, phase.scene.model.nv)[:, contacts]
    held = np.broadcast_to(phase.holds, (len(t), *phase.holds.shape))
    W = responses(at.M, np.concatenate([at.A[:, phase.kept], held], axis=1), J[:, :, 0])
    G = np.einsum("mkjn,mnk->mkj", J, W)
    friction, d = phase.friction[contacts], phase.slip_directions(q, v)[:, contacts]
    return np.asarray(1 - friction * np.einsum("mkj,mkj->mk", G[..., 1:], d) / G[..., 0])


def jam(phase: Phase, t: float, y: Array) -> Jam | None:
    """The jam that a state without a further step is about to run into, if there is one.

    What runs into zero is ∂u̇ₙ/∂fₙ of a contact among the others: contacts may jam each other though none would alone.
    """
    shares = {i: _coupled_inertia(phase, t, y, i)[0] for i in phase.turning}
    contact = min(shares, key=lambda i: abs(shares[i]), default=None)
    if contact is None or abs(shares[contact]) >= JAM_SHARE:
        return None
    for stride in STRIDES.tolist():
        pushed = _push_contact(phase, t, y, contact, stride)
        if _coupled_inertia(phase, t, pushed, contact)[0] * shares[contact] <= 0:
            return Jam(contact, pushed)
    return None


def _coupled_inertia(phase: Phase, t: float, y: Array, contact: int) -> tuple[float, Array]:
    """∂u̇ₙ/∂fₙ of a contact in units of its value without friction, and dv/dp (n,), with what the others answer."""
    q, v = phase.scene.motion.split(y[None])
    at = phase.scene.at(np.array([t]), q, v)
    K, _ = phase.block_matrix(at, phase.slip_directions(q, v))
    n, row = phase.scene.model.nv, phase.force_row(contact)
    unit = np.zeros((1, K.shape[1]))
    unit[0, row] = 1.0
    x = phase.solve(K, unit)[0]
    normal = at.J[:, 3 * contact : 3 * contact + 1]
    held = np.broadcast_to(phase.holds, (1, *phase.holds.shape))
    alone = normal[0] @ responses(at.M, np.concatenate([at.A[:, phase.kept], held], axis=1), normal)[0]
    return float(1 / (x[row] * alone[0, 0])), np.asarray(x[:n] / x[row])


def _push_contact(phase: Phase, t: float, y: Array, contact: int, stride: float) -> Array:
    """The state after an impulse on a contact that changes its slip by that share."""
    q, v = phase.scene.motion.split(y)
    _, change = _coupled_inertia(phase, t, y, contact)
    at = phase.scene.at(np.array([t]), q[None], v[None])
    tangents = at.J[0, 3 * contact + 1 : 3 * contact + 3]
    size = float(np.linalg.norm(tangents @ v) / np.linalg.norm(tangents @ change))
    return np.concatenate([q, phase.velocity_projected(t, q, v + stride * size * change)])
