"""Which geometries may touch: contacts added to a model, pair by pair, by a filter, or with the ground.

These functions make models from models; where and how shapes touch is :mod:`whippletree.contact`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError, NameLookupError, did_you_mean
from whippletree.model.frozen import frozen_array, pose_matrix, vector_of
from whippletree.model.input_checks import as_names
from whippletree.model.model import WORLD, Contact, ContactGroup, Geometry, Joint, Model, Vector
from whippletree.spatial.joints import rotation_to

UNBOUNDED = ("half_space", "terrain", "height_field", "cavity")
"""Kinds without an end: always the second of a pair, and never against each other."""

FLOATING = ("free", "planar")
"""Joints that hold nothing together: the bodies beside them are no neighbours."""

MOST_LISTED_PAIRS = 10_000
"""Pairs that are alike up to which each is a contact of its own: 500 000, of 1000 balls, take 10 s and a gigabyte."""

UPWARDS = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
"""Turns z, a half-space's normal, to y; x stays: the contact's axes become (y, x, −z)."""


def with_contacts(
    model: Model,
    *,
    between: tuple[str | Iterable[str], str | Iterable[str]] | None = None,
    exclude: Iterable[tuple[str, str]] = (),
    neighbours: bool = False,
    friction: Any = None,
    restitution: Any = 0,
    torsional: Any = 0,
    rolling: Any = 0,
) -> Model:
    """The model with a contact for every admissible pair of its colliding geometries, beside those that it has.

    Of more than 10 000 pairs that are all admissible and alike, as those of a heap of balls, there is no list: they are
    a group (:class:`~whippletree.model.model.ContactGroup`).

    Left out are pairs that cannot move against each other, that are both unbounded (two planes), that have a contact
    already, that an MJCF file excludes (by bodies, or by ``contype`` and ``conaffinity``), and, unless ``neighbours``,
    pairs of bodies that joints (other than free or planar ones) connect: they mostly overlap there. Massless bodies
    without a shape between them, as a row of joints has them, count as part of the joint.

    Args:
        model: geometries that do not collide (``collides=False``) are left alone.
        between: two groups of names of bodies or geometries; only pairs with one of each. Default: all.
        exclude: pairs of names of bodies or geometries that may not touch.
        neighbours: also pairs of bodies with only a joint between them.
        friction, restitution: of all new contacts. ``None``: the larger one of the two geometries' own ``friction``
            parameters (files give them), 0 where neither has one.
        torsional, rolling: of all new contacts, m.

    Raises:
        NameLookupError: a name that is neither a body nor a geometry.
    """
    rigid = rigid_parts(model.joints) | {WORLD: WORLD}
    joined = _neighbours(model, rigid)
    groups = None if between is None else (named_geometries(model, between[0]), named_geometries(model, between[1]))
    barred = [(named_geometries(model, a), named_geometries(model, b)) for a, b in map(_two, exclude)]
    taken = {frozenset((c.first, c.second)) for c in model.contacts}
    colliding, contacts = [g for g in model.geometries if g.collides], []
    alike = friction is not None and groups is None and not barred
    if alike and math.comb(len(colliding), 2) > MOST_LISTED_PAIRS and _all_admissible(colliding, joined, rigid):
        names = tuple(g.name for g in colliding)
        own = ContactGroup("every pair", names, friction, restitution, torsional=torsional, rolling=rolling)
        return _extend_model(model, (), (), (own,))
    for pair in combinations(colliding, 2):
        first, second = sorted(pair, key=lambda g: (g.kind in UNBOUNDED, rigid[g.body] == WORLD))
        parts = frozenset((rigid[first.body], rigid[second.body]))
        if len(parts) == 1 or first.kind in UNBOUNDED or frozenset((first.name, second.name)) in taken:
            continue
        if (parts in joined and not neighbours) or any(_across(pair, *groups) for groups in barred):
            continue
        if not _file_allows(pair):
            continue
        if groups is None or _across(pair, *groups):
            mu = _own_friction(pair) if friction is None else friction
            name, moments = f"{first.name} on {second.name}", {"torsional": torsional, "rolling": rolling}
            contacts.append(Contact(name, first.name, second.name, mu, restitution, **moments))
    return _extend_model(model, (), contacts)


def _neighbours(model: Model, rigid: dict[str, str]) -> set[frozenset[str]]:
    """Pairs of rigid parts with only joints, and massless bodies without a shape, between them."""
    solid = {
        WORLD,
        *(rigid[g.body] for g in model.geometries),
        *(rigid[b.name] for b in model.bodies if not b.massless),
    }
    carrier = {joint.child: joint for joint in model.joints}
    found = set()
    for part in solid - {WORLD}:
        joint = carrier[part]
        while joint.kind not in FLOATING and rigid[joint.parent] not in solid:
            joint = carrier[rigid[joint.parent]]
        if joint.kind not in FLOATING:
            found.add(frozenset((part, rigid[joint.parent])))
    return found


def pairs_of_groups(model: Model) -> list[Contact]:
    """The contacts of a model's groups one by one, less those that it has by themselves."""
    rigid = rigid_parts(model.joints) | {WORLD: WORLD}
    taken = {frozenset((c.first, c.second)) for c in model.contacts}
    found = []
    for group in model.contact_groups:
        for pair in combinations([model.geometry(name) for name in group.geometries], 2):
            first, second = sorted(pair, key=lambda g: (g.kind in UNBOUNDED, rigid[g.body] == WORLD))
            both = frozenset((first.name, second.name))
            if rigid[first.body] == rigid[second.body] or first.kind in UNBOUNDED or both in taken:
                continue
            taken.add(both)
            name = f"{first.name} on {second.name}"
            words = ("friction", "restitution", "margin", "torsional", "rolling")
            found.append(Contact(name, first.name, second.name, **{word: getattr(group, word) for word in words}))
    return found


def on_ground(
    model: Model,
    *,
    friction: Any = 0.8,
    restitution: Any = 0,
    torsional: Any = 0,
    rolling: Any = 0,
    geometries: Iterable[str] | None = None,
    frames: Iterable[str] | None = None,
    radius: Any = 0,
    height: Any = 0,
    normal: Vector | None = None,
) -> Model:
    """The model on flat ground: a half-space ``ground`` of the world and contacts of the named parts with it.

    Args:
        model: any model, also one from a file.
        friction, restitution: of all these contacts.
        torsional, rolling: of all these contacts, m: see :class:`~whippletree.model.model.Contact`.
        geometries: names of geometries that touch the ground.
        frames: names of frames or bodies whose origins touch the ground, as points, or as balls of ``radius``. Default,
            if neither is given: every colliding geometry of a body that can move.
        radius: of the balls at ``frames``, m.
        height: of the ground above the world's origin, along the normal, m.
        normal: upward direction of the ground; default: against gravity, or z without gravity.

    Raises:
        ModelError: a model that already has a geometry of that name, or nothing that could touch.
        NameLookupError: a name that the model does not have.
    """
    rigid = rigid_parts(model.joints) | {WORLD: WORLD}
    feet = [_foot(model, name, radius) for name in (() if frames is None else as_names(frames))]
    named = [model.geometry(name).name for name in (() if geometries is None else as_names(geometries))]
    if geometries is None and frames is None:
        movable = (g for g in model.geometries if g.collides and rigid[g.body] != WORLD)
        named = [g.name for g in movable if g.kind not in UNBOUNDED]
    touching = [*named, *(foot.name for foot in feet)]
    if not touching:
        raise ModelError(
            f"on_ground: model {model.name!r}",
            [
                "no geometry of a moving body collides: name frames, for example those of the feet"
                if geometries is None and frames is None
                else "neither geometries nor frames name anything that could touch"
            ],
        )
    if not _is_finite(height):
        raise ModelError(f"on_ground: model {model.name!r}", [f"height is {height!r}, expected a finite number"])
    up = _unit(normal if normal is not None else _against(model.gravity))
    turn = UPWARDS if tuple(up) == (0, 1, 0) else rotation_to(up.astype(object))
    ground = Geometry("ground", WORLD, "half_space", pose_matrix(height * up, turn))
    moments = {"torsional": torsional, "rolling": rolling}
    contacts = [Contact(f"{name} on ground", name, "ground", friction, restitution, **moments) for name in touching]
    return _extend_model(model, [*feet, ground], contacts)


def _all_admissible(geometries: Sequence[Geometry], joined: set[frozenset[str]], rigid: dict[str, str]) -> bool:
    """Whether neither joints nor a file bar any pair of these geometries."""
    parts = {rigid[g.body] for g in geometries}
    barred = any(g.parameters.keys() & {"excludes", "contype", "conaffinity"} for g in geometries)
    return not barred and not any(pair <= parts for pair in joined)


def _extend_model(
    model: Model,
    geometries: Sequence[Geometry],
    contacts: Sequence[Contact],
    groups: Sequence[ContactGroup] = (),
) -> Model:
    """The model with more geometries and contacts, checked as the builder does."""
    shapes, pairs = (*model.geometries, *geometries), (*model.contacts, *contacts)
    every = (*model.contact_groups, *groups)
    faults = contact_faults(pairs, shapes, model.joints) + group_faults(groups, shapes)
    for kind, parts in (("geometry", shapes), ("contact", pairs), ("contact group", every)):
        times = Counter(part.name for part in parts)
        twice = [name for name, count in times.items() if count > 1]
        faults += [f"{kind} {name!r} is there already: rename or remove one of them" for name in twice]
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    return replace(model, geometries=shapes, contacts=pairs, contact_groups=every)


def named_geometries(model: Model, names: str | Iterable[str]) -> set[str]:
    """The geometries with these names, or of bodies with these names."""
    found: set[str] = set()
    bodies = {WORLD, *(body.name for body in model.bodies)}
    for name in as_names(names):
        own = {g.name for g in model.geometries if name in (g.name, g.body)}
        if not own and name not in bodies:
            known = [*bodies, *(g.name for g in model.geometries)]
            raise NameLookupError("body or geometry", name, known, where=f"model {model.name!r}")
        found |= own
    return found


def _two(pair: Sequence[str]) -> Sequence[str]:
    if isinstance(pair, str) or len(pair) != 2:
        raise ModelError("with_contacts", [f"exclude has {pair!r}, expected pairs of names: [(one, other), …]"])
    return pair


def _across(pair: Sequence[Geometry], one: set[str], other: set[str]) -> bool:
    """Whether one geometry of a pair is in one group and the other in the other."""
    a, b = (g.name for g in pair)
    return (a in one and b in other) or (b in one and a in other)


def _file_allows(pair: Sequence[Geometry]) -> bool:
    """MuJoCo's filters: no body excludes the other, and the ``contype`` of one geometry shares a bit with the
    ``conaffinity`` of the other; both are 1 where unsaid."""
    first, second = pair
    if second.body in first.parameters.get("excludes", ()) or first.body in second.parameters.get("excludes", ()):
        return False
    (a, b), (c, d) = ((g.parameters.get("contype", 1), g.parameters.get("conaffinity", 1)) for g in pair)
    return bool((a & d) | (c & b))


def _own_friction(pair: Sequence[Geometry]) -> Any:
    """The larger of the coefficients that two geometries carry; the first number where a file gives several."""
    return max(float(np.ravel(g.parameters.get("friction", 0))[0]) for g in pair)


def _foot(model: Model, name: str, radius: Any) -> Geometry:
    frame = model.frame(name)
    kind, parameters = ("point", {}) if radius == 0 else ("sphere", {"radius": radius})
    return Geometry(f"{name} contact", frame.body, kind, frame.pose, parameters, visible=False)


def _against(gravity: Array) -> Vector:
    return tuple(-x for x in gravity) if np.any(gravity != 0) else (0, 0, 1)


def _unit(direction: Vector) -> Array:
    given = vector_of("normal", direction).astype(float)
    length = float(np.linalg.norm(given))
    if not (length > 0 and math.isfinite(length)):
        raise ModelError("on_ground", [f"normal {tuple(direction)} has no direction: give a finite vector, not zero"])
    return frozen_array(given / length, (3,))


def contact_faults(contacts: Sequence[Contact], geometries: Sequence[Geometry], joints: Sequence[Joint]) -> list[str]:
    """Faults of contacts: unknown geometries, impossible numbers, shapes that cannot move against each
    other."""
    bodies = {geometry.name: geometry.body for geometry in geometries}
    rigid = rigid_parts(joints) if contacts else {}
    faults: list[str] = []
    for contact in contacts:
        where = f"contact {contact.name!r}"
        for word, name in (("first", contact.first), ("second", contact.second)):
            if name not in bodies:
                faults.append(f"{where}: unknown {word} geometry {name!r}{did_you_mean(str(name), bodies)}")
        faults += _number_faults(where, contact)
        if contact.first in bodies and contact.second in bodies:
            first, second = bodies[contact.first], bodies[contact.second]
            if first == second:
                faults.append(
                    f"{where}: both geometries are fixed to {first!r}; name geometries of two different bodies"
                )
            elif rigid.get(first, first) == rigid.get(second, second):
                faults.append(
                    f"{where}: {first!r} and {second!r} are welded together and cannot move against each other; "
                    f"name geometries of bodies with a joint between them"
                )
    return faults


def group_faults(groups: Sequence[ContactGroup], geometries: Sequence[Geometry]) -> list[str]:
    """Faults of groups of contacts: unknown geometries, or ones named twice, and impossible numbers."""
    known = {geometry.name for geometry in geometries}
    faults: list[str] = []
    for group in groups:
        where = f"contact group {group.name!r}"
        faults += [
            f"{where}: unknown geometry {name!r}{did_you_mean(str(name), known)}"
            for name in group.geometries
            if name not in known
        ]
        if len(set(group.geometries)) < len(group.geometries):
            twice = sorted({name for name in group.geometries if group.geometries.count(name) > 1})
            faults.append(f"{where}: names {', '.join(map(repr, twice))} more than once")
        faults += _number_faults(where, group)
    return faults


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, (str, bytes)) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _number_faults(where: str, contact: Contact | ContactGroup) -> list[str]:
    faults = []
    if not _is_finite(contact.margin):
        faults.append(f"{where}: margin is {contact.margin!r}, expected a finite number")
    limits = {"friction": math.inf, "restitution": 1, "torsional": math.inf, "rolling": math.inf}
    for word, upper in limits.items():
        value = getattr(contact, word)
        allowed = "a finite number that is not negative" if upper == math.inf else "a number from 0 to 1"
        if not (_is_finite(value) and 0 <= float(value) <= upper):
            faults.append(f"{where}: {word} is {value!r}, expected {allowed}")
    return faults


def rigid_parts(joints: Sequence[Joint]) -> dict[str, str]:
    """For each body, the one at the root of what it is welded to; the world for what cannot move."""
    welded = {joint.child: joint.parent for joint in joints if joint.kind == "weld"}
    roots = {}
    for joint in joints:
        name, seen = joint.child, {joint.child}
        # a circle of welds is a fault of the tree and is reported there
        while name in welded and welded[name] not in seen:
            name = welded[name]
            seen.add(name)
        roots[joint.child] = name
    return roots
