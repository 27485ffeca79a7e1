"""Which contacts can matter in a step: bounding balls first, shapes only where these come near. Plain numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.contact.candidates import ContactSet
from whippletree.contact.shapes import Ball, Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Hull, Shape, Terrain
from whippletree.model import WORLD, Model
from whippletree.spatial import Array
from whippletree.tree import kinematics
from whippletree.tree.mechanism import Mechanism

REACH = 2.0
"""How many times farther than the fastest shape moves in a step a contact is looked for: impulses of the same step may
pass that speed on."""


class Near(NamedTuple):
    """Candidates that may touch within a step."""

    numbers: Array
    """Among all candidates of the model, (k,)."""
    gaps: Array
    """m, (k,)."""
    jacobian: Array
    """(k, 3, nv)."""


class Neighbourhood:
    """The contacts of a model, looked up by distance."""

    def __init__(self, contacts: ContactSet) -> None:
        self.contacts = contacts
        self.model: Model = contacts.model
        self.first_slot = np.cumsum([0, *[pair.slots for pair in contacts.pairs]])
        self._shapes = {
            name: (pair.bodies[side], pair.poses[side], pair.shapes[side])
            for pair in contacts.pairs
            for side, name in enumerate((pair.contact.first, pair.contact.second))
        }
        number = {name: k for k, name in enumerate(self._shapes)}
        sides = [(number[pair.contact.first], number[pair.contact.second]) for pair in contacts.pairs]
        self._sides = np.array(sides, dtype=int).reshape(-1, 2)
        self._radii = np.array([_bound(shape) for _, _, shape in self._shapes.values()])
        self._flat = np.array([isinstance(shape, HalfSpace) for _, _, shape in self._shapes.values()], dtype=bool)

    def travel(self, before: Array, after: Array) -> float:
        """The largest way that a point of a shape goes between two configurations, m."""
        (p, R), (p_new, R_new) = self._places(before), self._places(after)
        moved = np.linalg.norm(p_new - p, axis=-1)
        turned = np.linalg.norm(R_new - R, axis=(-2, -1)) * np.where(np.isfinite(self._radii), self._radii, 0.0)
        return float((moved + turned).max(initial=0.0))

    def near(self, q: Array, reach: float) -> Near:
        """Candidates whose gap at q (nq,) is at most ``reach``, m."""
        pairs = np.flatnonzero(self._least_gaps(q) <= reach)
        chosen = ContactSet(self.model, tuple(self.contacts.pairs[i] for i in pairs))
        numbers = np.concatenate([np.arange(0), *[np.arange(*self.first_slot[i : i + 2]) for i in pairs]])
        m, state = Mechanism.of(self.model), q.astype(object)
        gaps = chosen.points(m, state).gap.astype(float)
        kept = np.flatnonzero(gaps <= reach)
        if not len(kept):
            return Near(numbers[kept], gaps[kept], np.zeros((0, 3, self.model.nv)))
        J = chosen.jacobian(m, state).astype(float).reshape(len(gaps), 3, self.model.nv)
        return Near(numbers[kept], gaps[kept], J[kept])

    def _least_gaps(self, q: Array) -> Array:
        """A lower bound of every pair's gap, (pairs,)."""
        p, R = self._places(q)
        first, second = self._sides.T
        apart = np.linalg.norm(p[first] - p[second], axis=1) - self._radii[first] - self._radii[second]
        for own, other in ((first, second), (second, first)):
            # distance of the ball from a plane that is the z = 0 of the other geometry
            above = np.einsum("ki,ki->k", p[own] - p[other], R[other, :, 2]) - self._radii[own]
            apart = np.where(self._flat[other] & np.isfinite(self._radii[own]), above, apart)
        return np.asarray(apart)

    def _places(self, q: Array) -> tuple[Array, Array]:
        """Positions (shapes, 3) and rotations (shapes, 3, 3) of all geometries in the world."""
        m = Mechanism.of(self.model)
        links = m.still(q.astype(object))
        p, R = np.zeros((len(self._shapes), 3)), np.zeros((len(self._shapes), 3, 3))
        for k, (body, at, _) in enumerate(self._shapes.values()):
            pose = at if body == WORLD else kinematics.pose(m.tree, links, m.place(body)) @ at
            p[k], R[k] = pose.p, pose.R
        return p, R


def _bound(shape: Shape) -> float:
    """Radius of a ball about the shape's origin that holds it, m."""
    match shape:
        case Ball(radius):
            return float(radius)
        case Capsule(radius, half):
            return float(radius) + float(half)
        case Cylinder(radius, half):
            return float(np.hypot(float(radius), float(half)))
        case Box(sides) | Ellipsoid(sides):
            return float(np.linalg.norm(np.array(sides, dtype=float)))
        case Hull():
            return float(np.linalg.norm(np.asarray(shape.vertices, dtype=float), axis=1).max())
        case HalfSpace() | Terrain():
            return np.inf
