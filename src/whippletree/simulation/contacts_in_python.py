"""Contacts of models that have pairs without a closed form, in motion: plain numbers, one state after another.

Poses, twists and their Jacobians come from compiled functions of the bodies; what touches where is looked up in Python
(:mod:`whippletree.contact.geometry.coal_pairs`) with poses that move, so that points and axes have rates. The answers
have the shapes of the catalogue's functions about contacts. The rate of a material point's velocity in the world is

    v̇ = R (v̇_o + ω × v_o) + R ω̇ × (p − o) + R ω × (ṗ − ȯ)        o, ω, v_o of the geometry's own axes

with ṗ the rate of the contact point, which travels over both bodies.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.dual_numbers import duals, real_value, slopes
from whippletree.contact.geometry.closed_forms import Touch
from whippletree.contact.kinematics.contact_set import ContactSet
from whippletree.contact.kinematics.pairs import Pair
from whippletree.model import WORLD
from whippletree.spatial import Pose

KEPT = 512
"""States whose answers are remembered: an integrator asks for several things at one state."""

UNUSED_GAP = 1e6
"""m: the gap of a candidate that is not in use; guards need a number."""


class ContactAnswers(NamedTuple):
    """All that is asked of contacts at one state, with k candidates."""

    gaps: Array
    """(k,)"""
    jacobian: Array
    """(3k, nv)"""
    velocity: Array
    """J v (3k,)."""
    bias: Array
    """J̇ v (3k,)."""
    points: Array
    """(k, 3)"""
    axes: Array
    """(k, 3, 3)"""


ANSWERED = {f"contact_{field}": field for field in ContactAnswers._fields}
"""Functions of the catalogue that are answered here, and where their answer is."""


class PlainContacts:
    """Functions of the catalogue about contacts, for a compiled model ``dyn`` with these contacts."""

    def __init__(self, dyn: Any, contacts: ContactSet) -> None:
        self.dyn, self.contacts, self.nv = dyn, contacts, dyn.model.nv
        self._known: OrderedDict[bytes, ContactAnswers] = OrderedDict()
        self._bodies = dict.fromkeys(name for pair in contacts.pairs for name in pair.bodies)

    def answers(self, name: str) -> bool:
        """Whether a function of the catalogue is answered here."""
        return name in ANSWERED

    def evaluate(self, name: str, q: Array, v: Array | None = None) -> Array:
        """A function of the catalogue, ``contact_gaps`` and so on, at states q (..., nq), v (..., nv)."""
        if q.ndim > 1:
            speeds = [None] * len(q) if v is None else v
            return np.stack([self.evaluate(name, *state) for state in zip(q, speeds, strict=True)])
        return np.asarray(getattr(self._at(q, v), ANSWERED[name]))

    def _at(self, q: Array, v: Array | None) -> ContactAnswers:
        """The answers at one state; at rest where no velocity matters."""
        key = q.tobytes() if v is None else q.tobytes() + v.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._answer(q, v)
            # gaps and rows are the same at any velocity
            self._known[q.tobytes()] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found

    def _answer(self, q: Array, v: Array | None) -> ContactAnswers:
        bodies = {name: _body(self.dyn, name, q, v) for name in self._bodies}
        parts = [self._pair(pair, bodies) for pair in self.contacts.pairs]
        return ContactAnswers(*[np.concatenate(column) for column in zip(*parts, strict=True)])

    def _pair(self, pair: Pair, bodies: dict[str, _Moving]) -> ContactAnswers:
        sides = [bodies[name].attach(at) for name, at in zip(pair.bodies, pair.poses, strict=True)]
        return _answer(pair.touches(*[side.pose() for side in sides]), *sides)


class _Moving(NamedTuple):
    """A body, or a geometry fixed to one, at one state; vectors along its own axes."""

    R: Array
    p: Array
    twist: Array
    """(6,), angular first."""
    rate: Array
    """Rate of the twist at a = 0, (6,)."""
    jacobian: Array
    """Jacobian of the twist, (6, nv)."""
    moves: bool
    """Whether velocities were given."""

    def attach(self, at: Pose) -> _Moving:
        """Shapes fixed to it, at a pose."""
        R, (x, y, z) = at.R.astype(float), at.p.astype(float)
        arm = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        T = np.block([[R.T, np.zeros((3, 3))], [-R.T @ arm, R.T]])
        p = self.p + self.R @ (x, y, z)
        return _Moving(self.R @ R, p, T @ self.twist, T @ self.rate, T @ self.jacobian, self.moves)

    def pose(self) -> Pose:
        """The pose, as dual numbers where it moves."""
        w, v = self.R @ self.twist[:3], self.R @ self.twist[3:]
        R, p = self.R.astype(object), self.p.astype(object)
        if not self.moves:
            return Pose(R, p)
        return Pose(duals(R, np.cross(w, self.R.T).T.astype(object)), duals(p, v.astype(object)))


def _body(dyn: Any, name: str, q: Array, v: Array | None) -> _Moving:
    rest, moves = np.zeros(6), v is not None
    if name == WORLD:
        return _Moving(np.eye(3), np.zeros(3), rest, rest, np.zeros((6, dyn.model.nv)), moves)
    X, J = np.asarray(dyn.pose(name)(q)), np.asarray(dyn.jacobian(name)(q))
    if not moves:
        return _Moving(X[:3, :3], X[:3, 3], rest, rest, J, moves)
    return _Moving(X[:3, :3], X[:3, 3], J @ v, np.asarray(dyn.jacobian_bias(name)(q, v)), J, moves)


_values = np.vectorize(real_value, otypes=[float])


def _answer(touches: list[Touch], first: _Moving, second: _Moving) -> ContactAnswers:
    """Gaps, rows, velocities and biases of a pair's candidates."""
    k, nv = len(touches), first.jacobian.shape[1]
    gaps = _values([touch.gap for touch in touches])
    table = np.array([[*touch.point, *touch.axes.flat] for touch in touches], dtype=object)
    numbers, rates = _values(table), slopes(table).astype(float)
    point, point_rate = numbers[:, :3], rates[:, :3]
    axes, axes_rate = numbers[:, 3:].reshape(k, 3, 3), rates[:, 3:].reshape(k, 3, 3)
    u, u_rate, J = np.zeros((k, 3)), np.zeros((k, 3)), np.zeros((k, 3, nv))
    for sign, side in ((1, first), (-1, second)):
        w, v = side.R @ side.twist[:3], side.R @ side.twist[3:]
        arms = point - side.p
        u += sign * (v + np.cross(w, arms))
        own = side.R @ (side.rate[3:] + np.cross(side.twist[:3], side.twist[3:]))
        u_rate += sign * (own + np.cross(side.R @ side.rate[:3], arms) + np.cross(w, point_rate - v))
        levers = np.concatenate([np.cross(arms[:, None], axes) @ side.R, axes @ side.R], axis=2)
        J += sign * (levers @ side.jacobian)
    velocity = np.einsum("kij,kj->ki", axes, u)
    bias = np.einsum("kij,kj->ki", axes, u_rate) + np.einsum("kij,kj->ki", axes_rate, u)
    return ContactAnswers(
        np.minimum(gaps, UNUSED_GAP), J.reshape(3 * k, nv), velocity.ravel(), bias.ravel(), point, axes
    )
