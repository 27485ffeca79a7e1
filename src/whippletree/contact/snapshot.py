"""All contacts of a model at one state in plain numbers, pairs of the same kinds at once, and rows of J where wanted.

Compiled functions are faster for models with few candidates, and take batches. This is for scenes whose Jacobian is too
large to write down, and for pairs without a closed form.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.contact.bounds import at_least_apart
from whippletree.contact.candidates import ContactSet, Points, contact_set
from whippletree.contact.collision import ABSENT
from whippletree.contact.lanes import Lanes, plain
from whippletree.contact.meetings import Carried
from whippletree.contact.narrow import Touch, Touching
from whippletree.contact.pairs import Pair
from whippletree.contact.shapes import HeightField, Hull, Shape, Terrain
from whippletree.model import Array, Model
from whippletree.spatial import Pose, zeros
from whippletree.tree.mechanism import Mechanism


def snapshot(model: Model, q: Array) -> Snapshot:
    """The contacts of a model at the coordinates q (nq,)."""
    return Snapshot(contact_set(model), Mechanism.of(model), q)


class Snapshot:
    """All candidates of a model at one state, and the rows of those that are asked for; plain numbers."""

    def __init__(self, system: ContactSet, m: Mechanism, q: Array) -> None:
        self.system, self.nv = system, m.tree.model.nv
        self.layout = _layout(system)
        links = m.still(np.asarray(q).astype(object))
        places = [pair.places(m.tree)[side] for pair, side in self.layout.geometries]
        self.carried = [Carried(m.tree, links, place) for place in places]
        self.poses = np.array([carried.plain_pose for carried in self.carried]).reshape(-1, 3, 4)

    @cached_property
    def points(self) -> Points:
        """Gaps (k,), points (k, 3) and axes (k, 3, 3) of all candidates, float64."""
        return self.within(np.inf)

    def within(self, reach: float) -> Points:
        """The same; pairs without a closed form that are farther apart than ``reach``, m, have infinite gaps."""
        k = self.layout.first_slot[-1]
        found = Points(np.zeros(k), np.zeros((k, 3)), np.zeros((k, 3, 3)))
        found.gap[:] = ABSENT
        for group in self.layout.groups:
            for slot, touch in enumerate(self._touches(group, reach)):
                at = self.layout.first_slot[group.numbers] + slot
                found.gap[at] = plain(touch.gap)
                for i, j in np.ndindex(3, 3):
                    found.axes[at, i, j] = plain(touch.axes[i, j])
                for i in range(3):
                    found.point[at, i] = plain(touch.point[i])
        return found

    def jacobian(self, numbers: Array, at: Points | None = None) -> Array:
        """J (n, 3, nv) of some candidates, float64; ``at`` are the points that they are taken from, if not all."""
        at = self.points if at is None else at
        J = np.zeros((len(numbers), 3, self.nv))
        pairs = np.searchsorted(self.layout.first_slot, numbers, side="right") - 1
        points, axes = at.point[numbers], at.axes[numbers]
        for side, sign in ((0, 1), (1, -1)):
            owners = self.layout.sides[pairs, side]
            X = self.poses[owners]
            R, arms = X[:, :, :3], points - X[:, :, 3]
            # an axis through the point, as a wrench in the geometry's axes
            levers = np.concatenate([np.cross(arms[:, None], axes) @ R, axes @ R], axis=2)
            for rows, lever, owner in zip(J, levers, owners, strict=True):
                carried = self.carried[owner]
                if carried.columns:
                    rows[:, carried.columns] += sign * (lever @ carried.plain_jacobian)
        return J

    def _touches(self, group: _Group, reach: float) -> list[Touch]:
        """The candidates of a group of pairs, slot by slot; none of a pair out of reach."""
        sides = self.layout.sides[group.numbers].T
        if group.touching is None:
            pair = self.system.pairs[int(group.numbers[0])]
            X, Y = ((self.poses[k, :, :3], self.poses[k, :, 3]) for k in sides[:, 0])
            if reach < np.inf and at_least_apart(*pair.shapes, X, Y) > reach:  # type: ignore[arg-type]
                return []
            return pair.touches(self.carried[sides[0, 0]].pose, self.carried[sides[1, 0]].pose)
        poses = (_stacked_pose(self.poses[side]) for side in sides)
        with np.errstate(divide="ignore", invalid="ignore"):  # both sides of a select are evaluated
            return group.touching(*group.shapes, *poses)


class _Group(NamedTuple):
    """Pairs whose candidates are found together."""

    numbers: Array
    touching: Touching | None
    shapes: tuple[Shape, Shape]
    """With lanes as their numbers."""


class _Layout(NamedTuple):
    """What of a model's pairs does not depend on the state."""

    first_slot: Array
    """Number of each pair's first candidate, and of all candidates, (pairs + 1,)."""
    geometries: list[tuple[Pair, int]]
    """Every geometry once, as the side of some pair."""
    sides: Array
    """Numbers of each pair's geometries, (pairs, 2)."""
    groups: list[_Group]


def _layout(system: ContactSet) -> _Layout:
    # kept beside the set's own cached properties
    found: _Layout | None = system.__dict__.get("_layout")
    if found is None:
        found = system.__dict__["_layout"] = _laid_out(system.pairs)
    return found


def _laid_out(pairs: tuple[Pair, ...]) -> _Layout:
    numbers: dict[str, int] = {}
    geometries: list[tuple[Pair, int]] = []
    sides = np.zeros((len(pairs), 2), dtype=int)
    members: dict[Any, list[int]] = {}
    for k, pair in enumerate(pairs):
        for side, name in enumerate((pair.contact.first, pair.contact.second)):
            if name not in numbers:
                numbers[name] = len(geometries)
                geometries.append((pair, side))
            sides[k, side] = numbers[name]
        # together: the same kinds and, where these are no few numbers (hulls, terrains), the same shapes
        kinds = tuple(id(s) if isinstance(s, Hull | Terrain | HeightField) else type(s) for s in pair.shapes)
        members.setdefault(k if pair.touching is None else kinds, []).append(k)
    groups = [_group([pairs[k] for k in own], np.array(own)) for own in members.values()]
    return _Layout(np.cumsum([0, *[pair.slots for pair in pairs]]), geometries, sides, groups)


def _group(pairs: list[Pair], numbers: Array) -> _Group:
    first, second = (_stacked_shape([pair.shapes[side] for pair in pairs]) for side in (0, 1))
    return _Group(numbers, pairs[0].touching, (first, second))


def _stacked_pose(X: Array) -> Pose:
    """One pose whose numbers are lanes, from rotations and positions (n, 3, 4)."""
    entries = zeros(3, 4)
    for i, j in np.ndindex(3, 4):
        entries[i, j] = Lanes(X[:, i, j])
    return Pose(entries[:, :3], entries[:, 3])


def _stacked_shape(shapes: list[Shape]) -> Shape:
    """One shape whose numbers are lanes."""
    if isinstance(shapes[0], Hull | Terrain | HeightField):
        return shapes[0]
    numbers: list[Any] = []
    for field in fields(shapes[0]):
        table = np.array([getattr(shape, field.name) for shape in shapes], dtype=float)
        numbers.append(Lanes(table) if table.ndim == 1 else tuple(Lanes(column) for column in table.T))
    return type(shapes[0])(*numbers)
