"""A scene of many free bodies as tables: bodies, geometries in classes, and which of them may touch.

What does not depend on the state of a model whose bodies move freely, read once: the rows that a compiled step
(:mod:`whippletree.compiler.rollout.scenes.scene_step`) takes, whose code depends on the classes of geometries and the
kinds of pairs alone, not on how many there are. Bodies that joints hold together
(:mod:`~whippletree.contact.kinematics.scene_mechanism`) are in the tables, too, before the free ones: their rows say
that no impulse moves them by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set, reason_against_ties
from whippletree.constraints.light_loops import weightless_motions
from whippletree.contact.geometry.bounds import bounding_radius
from whippletree.contact.geometry.closed_forms import Touching, closed_form
from whippletree.contact.geometry.coal_pairs import can_collide
from whippletree.contact.geometry.rounded_polytopes import Solid, solids_of
from whippletree.contact.geometry.shape_numbers import POSE, kind_of, numbers_of_pose, numbers_of_shape
from whippletree.contact.geometry.shapes import Cavity, HalfSpace, HeightField, Hull, Shape, Terrain, shape_of
from whippletree.contact.geometry.solid_pairs import compares_solids, form_of_solids
from whippletree.contact.geometry.step_forms import step_form
from whippletree.contact.inertia_of_motions import pivots_have_inertia
from whippletree.contact.kinematics.scene_mechanism import SceneMechanism, free_nodes, scene_mechanism
from whippletree.contact.servos import Servos
from whippletree.model import Contact, ContactGroup, Model
from whippletree.model.force_elements import FluidBox
from whippletree.model.frozen import found_once
from whippletree.spatial import Pose
from whippletree.tree.skeleton import LONG_CHAIN, longest_chain, skeleton

COEFFICIENTS = ("friction", "restitution", "margin", "torsional", "rolling")
"""Numbers of a contact, or of a group of them, in this order."""

BODY = 17
"""Numbers of a body: 1 / mass, its inverse inertia and its inertia about the centre of mass (6 each), the centre (3),
and 1 if gravity pulls it. Of a mechanism's body all are 0 but the last."""

UPPER = ((0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2))
"""Rows and columns of the six numbers of a symmetric matrix."""

UNBOUNDED = (HalfSpace, Terrain, HeightField, Cavity)


@dataclass(frozen=True, eq=False)
class GeometryClass:
    """Geometries of one type whose numbers are exactly 0, 1 or −1 in the same places; or all that are compared as
    solids, whatever their shapes, with the world as one more body."""

    shape: Shape | Solid
    """One of them."""
    moving: bool
    """Whether bodies carry them; if not, the world does."""
    numbers: tuple[float, ...]
    """Pose on the body and shape, of one of them."""
    open: tuple[int, ...]
    """Which of the numbers differ, or might."""
    column: int = 0
    """Where these begin in a row of :attr:`SceneLayout.open`."""

    @property
    def unbounded(self) -> bool:
        """Whether they have no end."""
        return isinstance(self.shape, UNBOUNDED)


@dataclass(frozen=True, eq=False)
class PairKind:
    """Pairs of geometries that one code compares."""

    first: GeometryClass
    second: GeometryClass
    slots: int
    """Candidates of each pair."""
    touching: Touching

    @property
    def of_solids(self) -> bool:
        """Whether one of them is compared as a solid."""
        return isinstance(self.first.shape, Solid) or isinstance(self.second.shape, Solid)

    @property
    def written(self) -> bool:
        """Whether they have a closed form that serves functions and events, too."""
        return not self.of_solids and closed_form(self.first.shape, self.second.shape) is not None  # type: ignore[arg-type]


class DeclaredContacts(NamedTuple):
    """Contacts that a model lists one by one, n of them."""

    first: Array
    """Numbers of geometries, (n,)."""
    second: Array
    coefficients: Array
    """:data:`COEFFICIENTS`, (n, 5)."""


class GroupedGeometries(NamedTuple):
    """Geometries of which every two may touch."""

    bounded: Array
    """Their numbers, (n,), in the order in which they are named in pairs."""
    unbounded: Array
    coefficients: Array
    """:data:`COEFFICIENTS`, (5,)."""


class BodyTraits(NamedTuple):
    """What holds for all bodies of a scene, so that code for them need not compute it."""

    in_world_axes: bool
    """Their coordinates are those of the world: no joint is placed elsewhere, or turned."""
    centred: bool
    """Their centres of mass are their origins."""
    round: bool
    """Their inertia is the same about every axis."""


def balls_alone(kinds: Sequence[PairKind], traits: BodyTraits, mechanism: SceneMechanism | None, moments: bool) -> bool:
    """Whether a scene has free balls only, which touch what they touch at one point and roll freely."""
    return mechanism is None and traits.round and not moments and all(kind.slots == 1 for kind in kinds)


class Unsuited(NamedTuple):
    """Why a model is no scene of many free bodies."""

    reason: str


@dataclass(frozen=True, eq=False)
class SceneLayout:
    """See the module's description. Geometries are numbered as they first appear in contacts and groups."""

    model: Model
    names: tuple[str, ...]
    """Names of the geometries."""
    shapes: tuple[Shape, ...]
    nodes: Array
    """The row of :attr:`bodies` that carries each geometry; the last is the world."""
    local: Array
    """Rotation and position of each geometry on its body, (geometries, 3, 4)."""
    radii: Array
    """How far each reaches from its origin, m; ∞ for unbounded ones."""
    classes: tuple[GeometryClass, ...]
    class_of: Array
    """Number of each geometry's class."""
    kinds: tuple[PairKind, ...]
    kind_numbers: Array
    """Number of the kind of pairs of two classes, (classes, classes); −1 where there are none."""
    solids: tuple[Solid | None, ...]
    """The geometries as solids, as far as they are compared as such."""
    declared: DeclaredContacts
    groups: tuple[GroupedGeometries, ...]
    mechanism: SceneMechanism | None = None
    """Bodies that joints hold together, whose rows come first."""

    @cached_property
    def has_trends(self) -> bool:
        """Whether steps may begin ahead of the last one: those of :func:`balls_alone`."""
        return balls_alone(self.kinds, self.traits, self.mechanism, self.has_moments)

    @cached_property
    def has_moments(self) -> bool:
        """Whether contacts resist spinning or rolling."""
        model = self.model
        return any(c.has_moments for c in model.contacts) or any(group.has_moments for group in model.contact_groups)

    @property
    def jointed(self) -> int:
        """How many rows are those of the mechanism."""
        return 0 if self.mechanism is None else len(self.mechanism.nodes)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The free bodies, by their numbers among the moving parts of the model."""
        return tuple(free_nodes(skeleton(self.model)))

    @cached_property
    def free_q(self) -> Array:
        """Which coordinates of the model are those of the free bodies, (free bodies, 7)."""
        tree = skeleton(self.model)
        rows = [range(tree.q_slices[k].start, tree.q_slices[k].stop) for k in self.free]
        return np.array(rows, dtype=np.int64).reshape(-1, 7)

    @cached_property
    def free_v(self) -> Array:
        """Which velocities are, (free bodies, 6)."""
        tree = skeleton(self.model)
        rows = [range(tree.v_slices[k].start, tree.v_slices[k].stop) for k in self.free]
        return np.array(rows, dtype=np.int64).reshape(-1, 6)

    @cached_property
    def flat(self) -> Array:
        """Which geometries are half spaces, (geometries,)."""
        return np.array([isinstance(shape, HalfSpace) for shape in self.shapes], dtype=bool)

    @cached_property
    def walls(self) -> Array:
        """Numbers of the half spaces that do not move, (n,)."""
        return np.flatnonzero(self.flat & (self.nodes == len(self.bodies) - 1))

    @cached_property
    def ranks(self) -> Array:
        """A number for each geometry: of a pair in a group, the one with the smaller comes first, (geometries,)."""
        order = np.lexsort([np.arange(len(self.names)), _ranks(self.classes)[self.class_of]])
        return np.argsort(order)

    @cached_property
    def swing(self) -> Array:
        """How far the origins of a body's geometries are from its centre of mass, at most, (bodies + 1,)."""
        found = np.zeros(len(self.bodies))
        arms = np.linalg.norm(self.local[:, :, 3] - self.bodies[self.nodes, 13:16], axis=1)
        bounded = np.isfinite(self.radii)
        np.maximum.at(found, self.nodes[bounded], arms[bounded])
        return found

    @cached_property
    def reach(self) -> Array:
        """How far the bounded shapes of a body reach from its centre of mass, at most, (bodies + 1,)."""
        found = np.zeros(len(self.bodies))
        bounded = np.isfinite(self.radii)
        np.maximum.at(found, self.nodes[bounded], self.radii[bounded])
        return found + self.swing

    @cached_property
    def bodies(self) -> Array:
        """The bodies of the mechanism, the free ones and, last, the world, (bodies + 1, 17)."""
        tree = skeleton(self.model)
        rows = np.zeros((len(tree.nodes) + 1, BODY))
        rows[: self.jointed, 16] = 1
        for row, node in zip(rows[self.jointed :], (tree.nodes[k] for k in self.free), strict=False):
            mass, moment = float(node.inertia.mass), np.array(node.inertia.moment, dtype=float)
            c = moment / mass
            inertia = np.array(node.inertia.rotation, dtype=float) - mass * (c @ c * np.eye(3) - np.outer(c, c))
            row[0], row[1:7], row[7:13] = 1 / mass, np.linalg.inv(inertia)[UPPER], inertia[UPPER]
            row[13:16], row[16] = c, 1
        return rows

    @cached_property
    def placements(self) -> Array:
        """Poses of the joints in the world, (bodies + 1, 12); a mechanism's bodies are where they are."""
        tree = skeleton(self.model)
        rows = [numbers_of_pose(tree.nodes[k].placement) for k in self.free]
        origin = numbers_of_pose(Pose.identity())
        return np.array([*[origin] * self.jointed, *rows, origin], dtype=float)

    @cached_property
    def traits(self) -> BodyTraits:
        """Traits of all bodies, and of the world."""
        inertia = self.bodies[:, 7:13]
        straight = (self.placements == self.placements[-1]).all()
        round_ = (inertia == inertia[:, :1] * (1, 0, 0, 1, 0, 1)).all()
        return BodyTraits(bool(straight), not self.bodies[:, 13:16].any(), bool(round_))

    @cached_property
    def open(self) -> Array:
        """The numbers of each geometry that differ within its class, and those of its solid, (geometries, n), 0 where
        there are fewer."""
        rows = np.zeros((len(self.names), row_length(self.classes, self.kinds)))
        start = row_length(self.classes)
        geometries = zip(rows, self.shapes, self.local, self.class_of, self.solids, strict=True)
        for row, shape, X, number, solid in geometries:
            pose = [*X[:, :3].ravel(), *X[:, 3]]
            places = list(self.classes[number].open)
            row[: len(places)] = np.array([*pose, *numbers_of_shape(shape)])[places]
            if solid is not None:
                row[start:] = [*pose, *solid.numbers]
        return rows


def row_length(classes: Iterable[GeometryClass], kinds: Iterable[PairKind] = ()) -> int:
    """How many numbers a row of :attr:`SceneLayout.open` has."""
    sides = [*classes, *[side for kind in kinds for side in (kind.first, kind.second)]]
    return max([1, *[side.column + len(side.open) for side in sides]])


def _find_unsuited(model: Model) -> Unsuited | None:
    """Why a model is no scene of free bodies, as far as its bodies and forces tell."""
    if not model.touches:
        return Unsuited("it has no contacts")
    reason = reason_against_ties(model)
    if reason is not None:
        return Unsuited(reason)
    if model.constraints and constraint_set(model).timed:
        return Unsuited("a constraint depends on time")
    if model.is_flexible:
        return Unsuited("bodies of it are flexible")
    tree = skeleton(model)
    if not free_nodes(tree) and not _has_several_parts(model):
        return Unsuited("none of its bodies moves freely")
    if {tree.bodies[e.body].node for e in model.elements if isinstance(e, FluidBox)} & {*free_nodes(tree)}:
        return Unsuited("a fluid acts on bodies that move freely")
    if any(weightless_motions(tree.nodes[k].inertia) for k in free_nodes(tree)):
        return Unsuited("a body has no inertia")
    mechanism = scene_mechanism(model)
    if mechanism is not None and not pivots_have_inertia(mechanism.model):
        return Unsuited("a motion has no inertia")
    if longest_chain(tree.parents) > LONG_CHAIN:
        return Unsuited(f"more than {LONG_CHAIN} of its joints are one behind the other")
    every: list[Contact | ContactGroup] = [*model.contacts, *model.contact_groups]
    restored = any(c.restitution for c in every)
    if restored and (Servos(model).bounded or any(tendon.is_limited for tendon in model.tendons)):
        return Unsuited("contacts bounce, and servos or tendons have a range")
    return None


def _has_several_parts(model: Model) -> bool:
    """Whether a model without free bodies has mechanisms that nothing but contacts holds together."""
    mechanism = scene_mechanism(model)
    return mechanism is not None and max(mechanism.groups) > 0


@found_once
def scene_layout(model: Model) -> SceneLayout | Unsuited:
    """The tables of a model; or what keeps it from being a scene of free bodies."""
    unsuited = _find_unsuited(model)
    if unsuited is not None:
        return unsuited
    tree = skeleton(model)
    mechanism = scene_mechanism(model)
    order = [*(mechanism.nodes if mechanism else ()), *free_nodes(tree)]
    row = {node: k for k, node in enumerate(order)}
    names = dict.fromkeys(name for contact in model.contacts for name in (contact.first, contact.second))
    names |= dict.fromkeys(name for group in model.contact_groups for name in group.geometries)
    numbers = {name: k for k, name in enumerate(names)}
    geometries = {g.name: g for g in model.geometries}
    shapes, nodes, local, keys = [], [], [], []
    for name in names:
        shape = shape_of(geometries[name])
        node, at = tree.bodies[geometries[name].body]
        pose = at @ Pose.from_matrix(geometries[name].pose)
        own = (*numbers_of_pose(pose), *numbers_of_shape(shape))
        shapes.append(shape)
        nodes.append(row.get(node, len(tree.nodes)))
        local.append(np.column_stack([np.array(pose.R, dtype=float), np.array(pose.p, dtype=float)]))
        # the corners of a hull are as they are: not one code for each pattern of zeros among them
        plain = POSE if isinstance(shape, Hull) else len(own)
        pattern = tuple(x if x in (0, 1, -1) and i < plain else None for i, x in enumerate(own))
        keys.append((kind_of(shape), node >= 0, pattern, own))
    classes, class_of = _classes(shapes, keys)
    radii = np.array([bounding_radius(shape) for shape in shapes])
    declared = _declared_contacts(model, numbers)
    groups = _contact_groups(model, numbers, radii, _ranks(classes)[class_of])
    found = _SceneKinds(classes, class_of, shapes).find(_classes_that_meet(classes, class_of, declared, groups))
    if isinstance(found, Unsuited):
        return found
    return SceneLayout(
        model, tuple(names), tuple(shapes), np.array(nodes), np.array(local).reshape(-1, 3, 4), radii, classes,
        class_of, *found, declared, tuple(groups), mechanism,
    )  # fmt: skip


def _declared_contacts(model: Model, numbers: dict[str, int]) -> DeclaredContacts:
    """The listed contacts; ``numbers``: of the geometries."""
    return DeclaredContacts(
        np.array([numbers[c.first] for c in model.contacts], dtype=np.int64),
        np.array([numbers[c.second] for c in model.contacts], dtype=np.int64),
        np.array([_coefficients(c) for c in model.contacts], dtype=float).reshape(-1, len(COEFFICIENTS)),
    )


def _ranks(classes: tuple[GeometryClass, ...]) -> Array:
    """The rank of each class: of a pair in a group, the geometry with the smaller rank comes first."""
    order = sorted(range(len(classes)), key=lambda c: (classes[c].unbounded, not classes[c].moving, c))
    return np.argsort(order)


def _contact_groups(model: Model, numbers: dict[str, int], radii: Array, ranks: Array) -> list[GroupedGeometries]:
    """The groups, bounded geometries apart from those that have no end; ``ranks``: of the geometries."""
    groups = []
    for group in model.contact_groups:
        members = np.array([numbers[name] for name in group.geometries], dtype=np.int64)
        members = members[np.lexsort([members, ranks[members]])]
        ends = np.isfinite(radii[members])
        groups.append(GroupedGeometries(members[ends], members[~ends], np.array(_coefficients(group), dtype=float)))
    return groups


def _coefficients(contact: Contact | ContactGroup) -> list[Any]:
    return [getattr(contact, word) for word in COEFFICIENTS]


def _classes(shapes: list[Shape], keys: list[Any]) -> tuple[tuple[GeometryClass, ...], Array]:
    found: dict[Any, int] = {}
    classes: list[GeometryClass] = []
    class_of = []
    for shape, (kind, moving, pattern, own) in zip(shapes, keys, strict=True):
        key = (kind, moving, pattern)
        if key not in found:
            found[key] = len(classes)
            open_ = tuple(i for i, x in enumerate(pattern) if x is None)
            classes.append(GeometryClass(shape, moving, own, open_))
        class_of.append(found[key])
    return tuple(classes), np.array(class_of, dtype=np.int64)


def _classes_that_meet(
    classes: tuple[GeometryClass, ...], class_of: Array, declared: DeclaredContacts, groups: list[GroupedGeometries]
) -> list[tuple[int, int]]:
    """Which classes can meet, by their numbers."""
    wanted = dict.fromkeys(zip(class_of[declared.first].tolist(), class_of[declared.second].tolist(), strict=True))
    for group in groups:
        own = sorted({*class_of[group.bounded].tolist(), *class_of[group.unbounded].tolist()})
        own.sort(key=lambda c: (classes[c].unbounded, not classes[c].moving, c))
        for i, a in enumerate(own):
            wanted |= {(a, b): None for b in own[i:] if not classes[a].unbounded and _move(classes[a], classes[b])}
    return list(wanted)


class _KindsFound(NamedTuple):
    kinds: tuple[PairKind, ...]
    numbers: Array
    solids: tuple[Solid | None, ...]


class _SceneKinds:
    """The kinds of pairs that can occur: one for each two classes that have a form of their own, and one or two for
    all that are compared as solids."""

    def __init__(self, classes: tuple[GeometryClass, ...], class_of: Array, shapes: list[Shape]) -> None:
        self.classes, self.class_of, self.shapes = classes, class_of, shapes

    def find(self, wanted: list[tuple[int, int]]) -> _KindsFound | Unsuited:
        """``wanted``: pairs of numbers of classes."""
        forms: dict[tuple[int, int], Touching | None] = {}
        solid_ones: set[int] = set()
        for a, b in wanted:
            first, second = self._shape(a), self._shape(b)
            form = step_form(first, second)
            if form is None and not can_collide(first, second):
                words = " against ".join(type(shape).__name__.lower() for shape in (first, second))
                return Unsuited(f"{words} has no closed form")
            forms[a, b] = None if compares_solids(form, first, second) else form
            if forms[a, b] is None:
                solid_ones |= {c for c in (a, b) if not self.classes[c].unbounded}
        solids = self._solids(solid_ones)
        members = {c: self._class_of_solids(solids, c) for c in solid_ones}
        kinds: dict[Any, PairKind] = {}
        numbers = np.full((len(self.classes),) * 2, -1)
        for (a, b), form in forms.items():
            sides = [self.classes[c] if form else members.get(c, self.classes[c]) for c in (a, b)]
            kind = _kind(form, *sides)
            # the numbers of solids are all read: one code for those whose candidates are as many
            key = (a, b) if form else (kind.slots, *[c for c in (a, b) if c not in members])
            kinds.setdefault(key, kind)
            numbers[a, b] = list(kinds).index(key)
        return _KindsFound(tuple(kinds.values()), numbers, tuple(solids))

    def _shape(self, number: int) -> Shape:
        shape = self.classes[number].shape
        assert not isinstance(shape, Solid)
        return shape

    def _solids(self, members: set[int]) -> list[Solid | None]:
        """The geometries of these classes as solids."""
        taken = np.flatnonzero(np.isin(self.class_of, list(members)))
        found: list[Solid | None] = [None] * len(self.shapes)
        for number, solid in zip(taken, solids_of([self.shapes[k] for k in taken]), strict=True):
            found[number] = solid
        return found

    def _class_of_solids(self, solids: list[Solid | None], number: int) -> GeometryClass:
        """All solids, with one of a class in their stead."""
        solid = next(s for s, c in zip(solids, self.class_of.tolist(), strict=True) if c == number)
        assert solid is not None
        count = POSE + len(solid.numbers)
        return GeometryClass(solid, True, (0.0,) * count, tuple(range(count)), row_length(self.classes))


def _kind(form: Touching | None, first: GeometryClass, second: GeometryClass) -> PairKind:
    """``form``: None of solids."""
    if form is None:
        of_solids = form_of_solids(first.shape, second.shape)
        return PairKind(first, second, of_solids.slots, of_solids)
    poses = [Pose(np.eye(3, dtype=object), np.zeros(3, dtype=object))] * 2
    with np.errstate(all="ignore"):
        return PairKind(first, second, len(form(first.shape, second.shape, *poses)), form)


def _move(first: GeometryClass, second: GeometryClass) -> bool:
    return first.moving or second.moving
