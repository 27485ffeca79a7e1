"""Forces of tendons, fluids and held-up weight, on any scalar: wrenches on bodies, gathered into joint forces.

    tau = Σ Hᵀ φ f        f the wrench of all elements on a node

A tendon's tension pulls its frames together along the pieces between them, so that tau = −(∂l/∂q)ᵀ tension; its rate
is l̇ = (∂l/∂q) v. Where it goes round an obstacle (:mod:`whippletree.tree.wrapping`), two pieces end on that. Nodes are
indexed, and these functions are always unrolled.

Joint forces tell how elements move a mechanism. What they load, bearings and welds, is asked of the wrenches on the
bodies themselves (:class:`ElementsOnBodies`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, negated, select, sqrt
from whippletree.model import WORLD
from whippletree.model.force_elements import FluidBox, Lift, Tendon, Wrap
from whippletree.spatial import Pose, cross, join
from whippletree.tree import wrapping
from whippletree.tree.links import world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.momentum import spring_energy
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field


class Stretch(NamedTuple):
    """A tendon at one state."""

    length: Any
    velocity: Any


class BodyPlace(NamedTuple):
    """Where a point or a frame of a body is: the body's node (−1 for the world), the pose there, and the body."""

    node: int
    pose: Pose
    body: str


class TendonPiece(NamedTuple):
    """A part of a tendon between two places: straight, or on the surface of an obstacle."""

    first: BodyPlace
    second: BodyPlace
    length: Any
    direction: Array
    """From the first to the second, (3,), in the world; zeros where the piece has no length, or there is none."""
    divisor: Any

    @property
    def moves(self) -> bool:
        """Whether its ends can come nearer to each other. Forces on both ends of one rigid part leave nothing."""
        return self.first.node != self.second.node


class Elements:
    """The force elements of a mechanism at one state; wrenches and joint forces add up, :meth:`forces` collects them.

    Args:
        m: the mechanism.
        q, v: (nq,), (nv,).
    """

    def __init__(self, m: Mechanism, q: Array, v: Array) -> None:
        self.m, self.q, self.v = m, q, v
        self.links: Field = m.moving(q, v)
        self.poses: Field = world_poses(m.sweep, self.links)
        self.tau = zeros(m.tree.model.nv)
        self._wrenches: dict[int, Array] = {}
        self._known: dict[str, list[TendonPiece]] = {}

    def add_all(self) -> Elements:
        """Forces that all elements apply by themselves."""
        for element in self.m.tree.model.elements:
            if isinstance(element, Tendon):
                if element.acts:
                    self.pull(element, -tension(element, *self.stretch(element)))
            elif isinstance(element, FluidBox):
                place = self._place_on_body(element.body, element.pose)
                if self._is_felt(place):
                    self._push(place, self._drag(element, place))
            else:
                self._lift(element)
        return self

    def push(self, frame: str, wrench: Array) -> None:
        """Let a wrench (6,) act on a frame, in its axes and about its origin."""
        place = self._place_of_frame(frame)
        if self._is_felt(place):
            self._push(place, wrench)

    def forces(self, balanced: int = -1) -> Array:
        """Joint forces (nv,) of what was added; ``balanced``: a node on which, with what it carries, all cancels."""
        tree, tau, carried = self.m.tree, self.tau.copy(), dict(self._wrenches)
        for k in reversed(range(balanced + 1, len(tree.nodes))):
            if k in carried:
                tau[tree.v_slices[k]] = tau[tree.v_slices[k]] + self.links[k].H.T @ carried[k]
                _add(carried, tree.parents[k], self.links[k].X.force(carried[k]))
        return tau

    # --- tendons ---

    def stretch(self, tendon: Tendon) -> Stretch:
        """Length and its rate."""
        length: Any = 0
        velocity: Any = 0
        for at, along, weight in self._sum(tendon):
            length, velocity = length + weight * self.q[at], velocity + weight * self.v[along]
        for piece in self._pieces(tendon):
            length = length + piece.length / piece.divisor
            if piece.moves:
                along = piece.direction @ (self._velocity(piece.second) - self._velocity(piece.first))
                velocity = velocity + along / piece.divisor
        return Stretch(length, velocity)

    def pull(self, tendon: Tendon, force: Any) -> None:
        """Let a force act along a tendon, positive where it makes the tendon longer."""
        for _, along, weight in self._sum(tendon):
            self.tau[along] = self.tau[along] + weight * force
        for piece in self._pieces(tendon):
            if self._loads(piece):
                push = piece.direction * (force / piece.divisor)
                self._push_at(piece.first, -push)
                self._push_at(piece.second, push)

    def row(self, tendon: Tendon) -> Array:
        """∂l/∂q of a tendon along the velocities, (nv,): the joint forces of a unit of its tension, backwards."""
        alone = copy(self)
        alone.tau, alone._wrenches = zeros(len(self.tau)), {}
        alone.pull(tendon, 1)
        return alone.forces(self.m.tree.meeting([place.node for place in self._ends(tendon)]) if tendon.route else -1)

    def _ends(self, tendon: Tendon) -> list[BodyPlace]:
        return [place for piece in self._pieces(tendon) for place in (piece.first, piece.second)]

    def _sum(self, tendon: Tendon) -> list[tuple[int, int, Any]]:
        model = self.m.tree.model
        return [
            (model.q_slice(joint).start, model.slice(joint).start, weight)
            for joint, weight in zip(tendon.joints, tendon.weights.tolist(), strict=True)
        ]

    def _pieces(self, tendon: Tendon) -> list[TendonPiece]:
        """All pieces of a tendon, branch by branch."""
        if tendon.name not in self._known:
            wraps = {(wrap.branch, wrap.after): wrap for wrap in tendon.around}
            found: list[TendonPiece] = []
            for k, (branch, divisor) in enumerate(zip(tendon.route, tendon.divisors.tolist(), strict=True)):
                places = [self._place_of_frame(frame) for frame in branch]
                for i, (first, second) in enumerate(pairwise(places)):
                    wrap = wraps.get((k, i))
                    if wrap is None:
                        found.append(TendonPiece(first, second, *self._straight(first, second), divisor))
                    else:
                        found += self._around(wrap, first, second, divisor)
            self._known[tendon.name] = found
        return self._known[tendon.name]

    def _around(self, wrap: Wrap, first: BodyPlace, second: BodyPlace, divisor: Any) -> list[TendonPiece]:
        """A straight piece if the path misses an obstacle, two of them and one on its surface if not."""
        middle = self._place_of_frame(wrap.frame)
        at = self._pose(middle)
        ends = [at.R.T @ (self._pose(place).p - at.p) for place in (first, second)]
        side = self._seen_from(middle, self._place_of_frame(wrap.side)) if wrap.side else None
        path = wrapping.around_obstacle(wrap.kind, ends[0], ends[1], wrap.radius, side)
        on, off = (middle._replace(pose=middle.pose @ Pose(_eye(), point)) for point in (path.first, path.second))
        found = [TendonPiece(first, second, *_where(negated(path.touches), *self._straight(first, second)), divisor)]
        for one, other in ((first, on), (off, second)):
            found.append(TendonPiece(one, other, *_where(path.touches, *self._straight(one, other)), divisor))
        return [*found, TendonPiece(on, off, *_where(path.touches, path.length, zeros(3)), divisor)]

    def _seen_from(self, middle: BodyPlace, place: BodyPlace) -> Array:
        """Origin of a place in the frame of another one, (3,); the same in all states where both are on one body."""
        if middle.node == place.node:
            return np.asarray(middle.pose.R.T @ (place.pose.p - middle.pose.p))
        at = self._pose(middle)
        return np.asarray(at.R.T @ (self._pose(place).p - at.p))

    def _straight(self, first: BodyPlace, second: BodyPlace) -> tuple[Any, Array]:
        return straight_piece(self._pose(first).p, self._pose(second).p)

    # --- bodies ---

    def _drag(self, box: FluidBox, place: BodyPlace) -> Array:
        """Wrench (6,) of a fluid on a box, in the axes and at the centre of the box."""
        V = place.pose.motion(self.links[place.node].V) if place.node >= 0 else zeros(6)
        spin, speed = V[:3], V[3:] - self._pose(place).R.T @ box.wind.astype(object)
        a, b, c = edges = box.size.tolist()
        d = sum(edges) / 3
        moment, force = -math.pi * d**3 * box.viscosity * spin, -3 * math.pi * d * box.viscosity * speed
        rolling = [a * (b**4 + c**4), b * (a**4 + c**4), c * (a**4 + b**4)]
        facing = [b * c, a * c, a * b]
        moment = [m - box.density * r * _magnitude(w) * w / 64 for m, r, w in zip(moment, rolling, spin, strict=True)]
        force = [f - box.density * s * _magnitude(x) * x / 2 for f, s, x in zip(force, facing, speed, strict=True)]
        return np.array([*moment, *force], dtype=object)

    def _lift(self, lift: Lift) -> None:
        tree = self.m.tree
        body = tree.model.bodies[tree.model.body_index(lift.body)]
        node, at = tree.bodies[body.name]
        center = BodyPlace(node, at @ Pose(_eye(), body.center.astype(object)), body.name)
        self._push_at(center, -lift.share * body.mass * self.m.gravity)

    # --- points ---

    def _place_of_frame(self, frame: str) -> BodyPlace:
        """Where a frame is, and on which body."""
        return BodyPlace(*self.m.place(frame), self.m.tree.model.frame(frame).body)

    def _place_on_body(self, body: str, pose: Array) -> BodyPlace:
        """A place with that pose (4, 4) in a body's axes."""
        node, at = self.m.tree.bodies[body]
        return BodyPlace(node, at @ Pose.from_matrix(pose), body)

    def _pose(self, place: Place | BodyPlace) -> Pose:
        found: Pose = place.pose if place.node < 0 else self.poses[place.node] @ place.pose
        return found

    def _velocity(self, place: BodyPlace) -> Array:
        """Velocity of a point, in the world, (3,)."""
        if place.node < 0:
            return zeros(3)
        V = self.links[place.node].V
        return np.asarray(self.poses[place.node].R @ (V[3:] + cross(V[:3], place.pose.p)))

    def _push_at(self, place: BodyPlace, force: Array) -> None:
        """Let a force (3,) in world axes act on a point."""
        if self._is_felt(place):
            own = self.poses[place.node].R.T @ force if place.node >= 0 else force
            self._apply(place, join(cross(place.pose.p, own), own))

    def _push(self, place: BodyPlace, wrench: Array) -> None:
        """Let a wrench (6,) act in the axes and at the origin of a place."""
        self._apply(place, place.pose.force(wrench))

    # --- who feels a force ---

    def _loads(self, piece: TendonPiece) -> bool:
        """Whether the tension of a piece does anything."""
        return piece.moves

    def _is_felt(self, place: BodyPlace) -> bool:
        """Whether a force there does anything."""
        return place.node >= 0

    def _apply(self, place: BodyPlace, wrench: Array) -> None:
        """Let a wrench (6,) act in the axes and at the origin of a place's node."""
        _add(self._wrenches, place.node, wrench)


class ElementsOnBodies(Elements):
    """The force elements as loads of each body by itself, also of those that are welded together or to the world.

    A tendon between two bodies of one rigid part moves nothing, and loads the weld between them. What tendons pull at
    joints, as sums of their coordinates, is a joint force and no part of this.
    """

    def __init__(self, m: Mechanism, q: Array, v: Array) -> None:
        super().__init__(m, q, v)
        self._loaded: dict[str, Array] = {}

    def wrenches(self) -> Array:
        """Wrenches that were added, (bodies, 6), about the origin and in the axes of each body's frame."""
        places = self.m.tree.bodies
        bodies = [body.name for body in self.m.tree.model.bodies]
        found = [
            places[name].pose.inverse().force(self._loaded[name]) if name in self._loaded else zeros(6)
            for name in bodies
        ]
        return np.array(found, dtype=object).reshape(-1, 6)

    def _loads(self, piece: TendonPiece) -> bool:
        return piece.first.body != piece.second.body

    def _is_felt(self, place: BodyPlace) -> bool:
        return place.body != WORLD

    def _apply(self, place: BodyPlace, wrench: Array) -> None:
        before = self._loaded.get(place.body)
        self._loaded[place.body] = wrench if before is None else before + wrench


def element_wrenches(m: Mechanism, q: Array, v: Array) -> Array:
    """Wrenches (bodies, 6) of tendons, fluids and held-up weight, in the axes and about the origin of each body."""
    elements = ElementsOnBodies(m, q, v)
    elements.add_all()
    return elements.wrenches()


def tendon_wrenches(m: Mechanism, q: Array, tendons: Sequence[Tendon], forces: Array) -> Array:
    """Wrenches (bodies, 6) of forces (n,) along some tendons, positive where they make these longer."""
    elements = ElementsOnBodies(m, q, zeros(m.tree.model.nv))
    for tendon, force in zip(tendons, forces, strict=True):
        elements.pull(tendon, force)
    return elements.wrenches()


def element_forces(m: Mechanism, q: Array, v: Array) -> Array:
    """Joint forces (nv,) of tendons, fluids and held-up weight."""
    return Elements(m, q, v).add_all().forces()


def tendon_lengths(m: Mechanism, q: Array, tendons: Sequence[Tendon]) -> tuple[Array, Array]:
    """Lengths (n,) of some tendons, m, and their derivatives along the velocities, (n, nv)."""
    elements = Elements(m, q, zeros(m.tree.model.nv))
    lengths = [elements.stretch(tendon).length for tendon in tendons]
    rows = [elements.row(tendon) for tendon in tendons]
    return np.array(lengths, dtype=object), np.array(rows, dtype=object).reshape(len(lengths), m.tree.model.nv)


def joints_of_tendon(tree: Skeleton, tendon: Tendon) -> set[str]:
    """Names of the joints that change a tendon's length: those that it sums up, and those that it spans."""
    found = set(tendon.joints)
    obstacles = {(wrap.branch, wrap.after): wrap.frame for wrap in tendon.around}
    for k, branch in enumerate(tendon.route):
        for i, ends in enumerate(pairwise(branch)):
            frames = [*ends, *[obstacles[k, i] for _ in range((k, i) in obstacles)]]
            first, *others = (set(tree.path(tree.place(frame).node)) for frame in frames)
            found |= {tree.joints[node].name for node in first.union(*others) - first.intersection(*others)}
    return found


def elastic_energy(m: Mechanism, q: Array) -> Any:
    """Potential energy of everything but gravity: springs of joints, and elements, J."""
    springs = spring_energy(m.sweep, m.joints, m.coordinates(q))
    return springs + element_energy(m, q) if m.tree.model.elements else springs


def element_energy(m: Mechanism, q: Array) -> Any:
    """Energy of tendons' springs, and that of held-up weight less: what these forces are the gradient of, J."""
    energy: Any = 0
    acting = [e for e in m.tree.model.elements if isinstance(e, Lift) or (isinstance(e, Tendon) and e.acts)]
    if not acting:
        return energy  # in a loop over bodies, too
    elements = Elements(m, q, zeros(m.tree.model.nv))
    for element in acting:
        if isinstance(element, Tendon):
            beyond = _beyond(element, elements.stretch(element).length)
            energy = energy + element.stiffness * beyond * beyond / 2
        else:
            body = m.tree.model.bodies[m.tree.model.body_index(element.body)]
            place = m.tree.bodies[body.name]
            at = elements._pose(Place(place.node, place.pose @ Pose(_eye(), body.center.astype(object))))
            energy = energy + element.share * body.mass * (m.gravity @ at.p)
    return energy


def tension(tendon: Tendon, length: Any, velocity: Any) -> Any:
    """Pull of a tendon's own spring and damper, N."""
    return tendon.stiffness * _beyond(tendon, length) + tendon.damping * velocity


def straight_piece(first: Array, second: Array) -> tuple[Any, Array]:
    """Length of a straight piece between two points (3,), and its direction (3,); none where it has no length."""
    d = second - first
    square = d @ d
    some = less(0, square)
    distance = select(some, sqrt(select(some, square, 1)), 0)
    return distance, np.array([select(some, x, 0) for x in d], dtype=object) / select(some, distance, 1)


def _beyond(tendon: Tendon, length: Any) -> Any:
    """How far a length is beyond the range in which the spring is slack, m; negative below it."""
    low, high = tendon.rest
    if low == high:
        return length - low
    return select(less(high, length), length - high, select(less(length, low), length - low, 0))


def _where(condition: Any, length: Any, direction: Array) -> tuple[Any, Array]:
    """A piece that is there under a condition."""
    return select(condition, length, 0), np.array([select(condition, x, 0) for x in direction], dtype=object)


def _magnitude(x: Any) -> Any:
    return select(less(x, 0), -x, x)


def _eye() -> Array:
    return np.eye(3, dtype=int).astype(object)


def _add(wrenches: dict[int, Array], node: int, wrench: Array) -> None:
    if node >= 0:
        wrenches[node] = wrenches[node] + wrench if node in wrenches else wrench
