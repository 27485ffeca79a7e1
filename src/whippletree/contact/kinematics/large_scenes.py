"""All contacts of a model at one state in plain numbers, pairs of the same kinds at once, and rows of J where wanted.

Compiled functions are faster for models with few candidates, and take batches. This is for scenes whose Jacobian is too
large to write down, and for pairs without a closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.lanes import Lanes, plain
from whippletree.contact.geometry.bounds import at_least_apart, bounding_radius
from whippletree.contact.geometry.closed_forms import Touch, Touching
from whippletree.contact.geometry.coal_pairs import ABSENT
from whippletree.contact.geometry.shapes import Cavity, HalfSpace, HeightField, Hull, Shape, Terrain
from whippletree.contact.kinematics.body_poses import Posture, Postures
from whippletree.contact.kinematics.contact_set import ContactSet, Points, contact_set
from whippletree.contact.kinematics.pairs import Pair
from whippletree.model import Model
from whippletree.model.frozen import found_once
from whippletree.spatial import Pose
from whippletree.tree.skeleton import Place, skeleton

RowsOfNodes: TypeAlias = Callable[[Array], tuple[Array, Array, Array]]
"""Rows of the velocities of nodes: values, which node, and columns."""


def snapshot(model: Model, q: Array) -> Snapshot:
    """The contacts of a model at the coordinates q (nq,)."""
    return Snapshot(contact_set(model), q)


class Snapshot:
    """All candidates of a model at one state, and the rows of those that are asked for; plain numbers."""

    def __init__(self, system: ContactSet, q: Array) -> None:
        self.system = system
        self.layout = _layout(system)
        self.posture = Posture(self.layout.postures, np.asarray(q, dtype=float))
        nodes, local = self.layout.nodes, self.layout.local
        R, p = self.posture.R[nodes], self.posture.p[nodes]
        self.poses = R @ local + np.pad(p[:, :, None], ((0, 0), (0, 0), (3, 0)))
        """Of all geometries, rotation and position, (geometries, 3, 4)."""

    @cached_property
    def points(self) -> Points:
        """Gaps (k,), points (k, 3) and axes (k, 3, 3) of all candidates, float64."""
        return self.within(np.inf)

    def within(self, reach: float, *, of_slow_pairs: bool = False) -> Points:
        """Candidates; pairs that are farther apart than ``reach``, m, may have infinite gaps, or only slow ones."""
        k = self.layout.first_slot[-1]
        found = Points(np.full(k, ABSENT), np.zeros((k, 3)), np.zeros((k, 3, 3)))
        for group in self._groups_within(reach, of_slow_pairs):
            for slot, touch in enumerate(self._touches(group)):
                at = self.layout.first_slot[group.numbers] + slot
                found.gap[at] = plain(touch.gap) - self.layout.margins[group.numbers]
                for i, j in np.ndindex(3, 3):
                    found.axes[at, i, j] = plain(touch.axes[i, j])
                for i in range(3):
                    found.point[at, i] = plain(touch.point[i])
        for number in self._within_reach(reach):
            if touches := self._single(number, reach):
                own = slice(self.layout.first_slot[number], self.layout.first_slot[number + 1])
                found.gap[own], found.point[own], found.axes[own] = zip(*touches, strict=True)
        return found

    def _groups_within(self, reach: float, of_slow_pairs: bool) -> Iterator[_Group]:
        """Groups of pairs with a closed form, less pairs whose bounding balls are farther apart."""
        for group in self.layout.groups:
            near = self._may_be_near(group, reach)
            if near.all() or (of_slow_pairs and not _iterates(*group.shapes)):
                yield group
            elif near.any():
                shapes = [_some_lanes(shape, near) for shape in group.shapes]
                yield _Group(group.numbers[near], group.touching, (shapes[0], shapes[1]))

    def _may_be_near(self, group: _Group, reach: float) -> Array:
        """Which pairs of a group are not certainly farther apart than ``reach``."""
        if reach == np.inf:
            return np.ones(len(group.numbers), dtype=bool)
        first, second = self.layout.sides[group.numbers].T
        arms = self.poses[first, :, 3] - self.poses[second, :, 3]
        match group.shapes:
            case (Cavity() | Terrain(), _) | (_, Cavity() | Terrain()):
                return np.ones(len(group.numbers), dtype=bool)
            case (_, HalfSpace() | HeightField() as ground):
                x, y, z = np.einsum("ni,nij->jn", arms, self.poses[second, :, :3])
                apart = z - self.layout.bounds[first]
                if isinstance(ground, HeightField):
                    sides = (
                        limit - self.layout.bounds[first] - np.abs(w)
                        for limit, w in zip(ground.grid.reach(), (x, y), strict=True)
                    )
                    apart = np.where(np.minimum(*sides) > 0, apart - ground.grid.top, -np.inf)
            case _:
                apart = np.linalg.norm(arms, axis=1) - self.layout.bounds[first] - self.layout.bounds[second]
        return np.asarray(~(apart - self.layout.margins[group.numbers] > reach))  # NaN is kept, not left out

    def _touches(self, group: _Group) -> list[Touch]:
        """The candidates of a group of pairs, slot by slot."""
        poses = (_stacked_pose(self.poses[side]) for side in self.layout.sides[group.numbers].T)
        with np.errstate(divide="ignore", invalid="ignore"):  # both sides of a select are evaluated
            return group.touching(*group.shapes, *poses)

    def _within_reach(self, reach: float) -> Array:
        """Numbers of the pairs without a closed form, less those whose bounding balls are farther apart."""
        first, second = self.layout.sides[self.layout.others].T
        apart = np.linalg.norm(self.poses[first, :, 3] - self.poses[second, :, 3], axis=1)
        apart = apart - self.layout.bounds[first] - self.layout.bounds[second] - self.layout.margins[self.layout.others]
        endless = [HalfSpace in map(type, self.system.pairs[k].shapes) for k in self.layout.others]
        near = ~(apart > reach) | np.array(endless, dtype=bool)  # NaN is kept, not left out
        return np.asarray(self.layout.others[near])

    def _single(self, number: int, reach: float) -> list[Touch]:
        """The candidates of a pair without a closed form; none if it is out of reach."""
        pair = self.system.pairs[number]
        X, Y = ((self.poses[k, :, :3], self.poses[k, :, 3]) for k in self.layout.sides[number])
        reach = reach + self.layout.margins[number]
        if HalfSpace in map(type, pair.shapes):
            reach = np.inf
        if reach < np.inf and at_least_apart(*pair.shapes, X, Y) > reach:  # type: ignore[arg-type]
            return []
        return pair.touches(*[Pose(R.astype(object), p.astype(object)) for R, p in (X, Y)])

    def jacobian(self, numbers: Array, at: Points | None = None) -> Any:
        """J (3n, nv) of some candidates, sparse; ``at`` are the points that they are taken from, if not all."""
        at = self.points if at is None else at
        return self._sparse(numbers, lambda nodes: self.posture.point_rows(nodes, at.point[numbers], at.axes[numbers]))

    def dense_jacobian(self, numbers: Array, at: Points) -> Array:
        """The Jacobian for few candidates, dense: sparse arrays take a fifth of a second to import."""
        rows = np.zeros((3 * len(numbers), self.system.model.nv))
        data, row, column = self._entries(
            numbers, lambda nodes: self.posture.point_rows(nodes, at.point[numbers], at.axes[numbers])
        )
        np.add.at(rows, (row, column), data)
        return rows

    def turning_jacobian(self, numbers: Array, at: Points) -> Any:
        """Jacobian of the angular velocities of some candidates' bodies about the axes, (3n, nv), sparse."""
        return self._sparse(numbers, lambda nodes: self.posture.turning_rows(nodes, at.axes[numbers]))

    def _sparse(self, numbers: Array, rows: RowsOfNodes) -> Any:
        """Three rows of each of some candidates, sparse."""
        from scipy.sparse import coo_array

        data, row, column = self._entries(numbers, rows)
        return coo_array((data, (row, column)), shape=(3 * len(numbers), self.system.model.nv)).tocsr()

    def _entries(self, numbers: Array, rows: RowsOfNodes) -> tuple[Array, Array, Array]:
        """Three rows of each of some candidates, of its first body less those of its second: values, rows, columns."""
        pairs = np.searchsorted(self.layout.first_slot, numbers, side="right") - 1
        parts = []
        for side, sign in ((0, 1), (1, -1)):
            entries, owner, column = rows(self.layout.nodes[self.layout.sides[pairs, side]])
            parts.append((sign * entries, 3 * owner[:, None] + np.arange(3), np.repeat(column[:, None], 3, axis=1)))
        data, row, column = (np.concatenate(words).ravel() for words in zip(*parts, strict=True))
        return data, row, column

    def fastest(self, v: Array) -> float:
        """The largest speed of a point of a shape at the velocities v (nv,), m/s; shapes without end do not turn."""
        turning, moving = self.posture.twists(v)
        nodes = self.layout.nodes
        spin, arm = turning[nodes], self.poses[:, :, 3] - self.posture.p[nodes]
        speeds = np.linalg.norm(moving[nodes] + np.cross(spin, arm), axis=1)
        return float((speeds + self.layout.bounds * np.linalg.norm(spin, axis=1)).max(initial=0.0))


class _Group(NamedTuple):
    """Pairs with a closed form whose candidates are found together."""

    numbers: Array
    touching: Touching
    shapes: tuple[Shape, Shape]
    """With lanes as their numbers."""


class _Layout(NamedTuple):
    """Numbers of a model's pairs that do not depend on the state."""

    first_slot: Array
    """Number of each pair's first candidate, and of all candidates, (pairs + 1,)."""
    postures: Postures
    nodes: Array
    """The node that carries each geometry, −1 for the world, (geometries,)."""
    local: Array
    """Pose of each geometry in its node, (geometries, 3, 4)."""
    bounds: Array
    """How far each shape reaches from its origin, m, (geometries,); 0 for those without end."""
    sides: Array
    """Numbers of each pair's geometries, (pairs, 2)."""
    margins: Array
    """How far apart each pair touches, m, (pairs,)."""
    groups: list[_Group]
    others: Array
    """Numbers of the pairs without a closed form, and of solids: they are compared one by one."""


@found_once
def _layout(system: ContactSet) -> _Layout:
    pairs, tree = system.pairs, skeleton(system.model)
    numbers: dict[str, int] = {}
    places: list[Place] = []
    bounds: list[float] = []
    sides = np.zeros((len(pairs), 2), dtype=int)
    members: dict[Any, list[int]] = {}
    others: list[int] = []
    for k, pair in enumerate(pairs):
        for side, name in enumerate((pair.contact.first, pair.contact.second)):
            if name not in numbers:
                numbers[name] = len(places)
                places.append(pair.places(tree)[side])
                bounds.append(bounding_radius(pair.shapes[side]))
            sides[k, side] = numbers[name]
        # together: the same kinds and, where these are no few numbers (hulls, terrains), the same shapes
        kinds = tuple(id(s) if isinstance(s, Hull | Terrain | HeightField) else type(s) for s in pair.shapes)
        if pair.touching is None or pair.solids:
            others.append(k)
        else:
            members.setdefault(kinds, []).append(k)
    return _Layout(
        first_slot=np.cumsum([0, *[pair.slots for pair in pairs]]),
        postures=Postures(tree),
        nodes=np.array([place.node for place in places], dtype=int),
        local=np.array([np.column_stack([*place.pose]) for place in places], dtype=float).reshape(-1, 3, 4),
        bounds=np.where(np.isfinite(bounds), bounds, 0.0),
        sides=sides,
        margins=np.array([pair.contact.margin for pair in pairs], dtype=float),
        groups=[_group([pairs[k] for k in own], np.array(own)) for own in members.values()],
        others=np.array(others, dtype=int),
    )


def _group(pairs: list[Pair], numbers: Array) -> _Group:
    first, second = (_stacked_shape([pair.shapes[side] for pair in pairs]) for side in (0, 1))
    assert pairs[0].touching is not None
    return _Group(numbers, pairs[0].touching, (first, second))


def is_slow(pair: Pair) -> bool:
    """Whether comparing a pair takes Python milliseconds: it has no closed form, or one that iterates."""
    return pair.touching is None or pair.solids is not None or _iterates(*pair.shapes)


def _iterates(first: Shape, second: Shape) -> bool:
    """Whether the closed form of two shapes looks for the foot of a point on a curved ground."""
    return isinstance(second, Terrain | HeightField)


def _some_lanes(shape: Shape, which: Array) -> Shape:
    """Some of the shapes that lie side by side in one, by truth values (n,)."""
    if isinstance(shape, Hull | Terrain | HeightField):
        return shape
    some: list[Any] = []
    for field in fields(shape):
        numbers = getattr(shape, field.name)
        one = isinstance(numbers, Lanes)
        some.append(Lanes(numbers.values[which]) if one else tuple(Lanes(x.values[which]) for x in numbers))
    return type(shape)(*some)


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
