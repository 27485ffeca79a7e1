"""The builder: reads well by hand, accepts any order, and reports everything that is wrong at once, by name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from whippletree import joints as joint_types
from whippletree import scalars
from whippletree.errors import ModelError, ScalarError, did_you_mean
from whippletree.model import (
    EARTH_GRAVITY,
    WORLD,
    Array,
    Body,
    Constraint,
    Contact,
    Frame,
    Geometry,
    Joint,
    Model,
    State,
    Vector,
    counted,
    frozen_array,
    inertia_matrix,
    pose_matrix,
    vector_of,
)
from whippletree.pairing import contact_faults

INERTIA_TOLERANCE = 1e-9
"""How far, relative to its trace, an inertia may violate the triangle inequality before it is refused."""

LIMITS = ("lower", "upper", "velocity_limit", "effort_limit")
"""Numbers of a joint that may be infinite."""

JOINT_DATA = ("pitch", "rotor_inertia", "gear_ratio", "stiffness", "rest", "damping", "friction", *LIMITS)
"""What can be told of a joint beside its place and axes."""

UNIT_ROUNDING = 1e-15
"""How far the square of an axis may be from 1 and count as unit length: more would only move last bits."""


class Builder:
    """Collects the parts of a model, in any order; :meth:`build` checks them all and freezes a Model."""

    def __init__(self, name: str, gravity: Vector = EARTH_GRAVITY) -> None:
        self.name = name
        self.gravity = gravity
        self.source = ""
        self._bodies: list[Body] = []
        self._joints: list[Joint] = []
        self._frames: list[Frame] = []
        self._constraints: list[Constraint] = []
        self._geometries: list[Geometry] = []
        self._contacts: list[Contact] = []
        self._start: dict[str, Any] = {}
        self._faults: list[str] = []

    def body(self, name: str, mass: Any = 0, center: Vector = (0, 0, 0), inertia: Any = (0, 0, 0)) -> Builder:
        """Add a body; ``inertia`` is about the centre of mass, in body axes: (3, 3), 3 or 6 numbers."""
        name = self._named("body", name)
        try:
            self._bodies.append(Body(name, mass, vector_of("center", center), inertia_matrix(inertia)))
        except (ValueError, TypeError) as error:
            self._faults.append(f"body {name!r}: {error}")
            self._bodies.append(Body(name))  # keeps the name known, so that one fault does not cause others
        return self

    def joint(
        self,
        name: str,
        kind: str,
        parent: str,
        child: str,
        *,
        position: Vector = (0, 0, 0),
        rotation: Any = None,
        axis: Vector = (0, 0, 1),
        second_axis: Vector = (0, 1, 0),
        start: Any = None,
        **data: Any,
    ) -> Builder:
        """Add a joint at ``position`` and ``rotation`` (3, 3) in the parent. Axes need not be of unit length.

        ``start`` is the joint's coordinate in the home state. ``data``: see :class:`~whippletree.model.Joint`.
        """
        name = self._named("joint", name)
        try:
            for word in data.keys() - JOINT_DATA:
                hint = did_you_mean(word, JOINT_DATA)
                raise ValueError(f"there is no {word!r}; known: {', '.join(JOINT_DATA)}{hint}")
            axes = (self._unit(axis, f"joint {name!r}: axis"), self._unit(second_axis, f"joint {name!r}: second axis"))
            self._joints.append(Joint(name, kind, parent, child, pose_matrix(position, rotation), *axes, **data))
        except (ValueError, TypeError) as error:
            self._faults.append(f"joint {name!r}: {error}")
            self._joints.append(Joint(name, "weld", parent, child))
        if start is not None:
            self._start[name] = start
        return self

    def frame(self, name: str, body: str, *, position: Vector = (0, 0, 0), rotation: Any = None) -> Builder:
        """Add a named frame fixed to a body."""
        name = self._named("frame", name)
        self._frames.append(Frame(name, body, self._pose(f"frame {name!r}", position, rotation)))
        return self

    def constraint(self, name: str, kind: str, *on: str, **parameters: Any) -> Builder:
        """Add a constraint of a kind, on bodies, frames or joints."""
        name = self._named("constraint", name)
        self._constraints.append(Constraint(name, kind, on, MappingProxyType(parameters)))
        return self

    def geometry(
        self,
        name: str,
        body: str,
        kind: str,
        *,
        position: Vector = (0, 0, 0),
        rotation: Any = None,
        collides: bool = True,
        visible: bool = True,
        **parameters: Any,
    ) -> Builder:
        """Add a shape fixed to a body."""
        name = self._named("geometry", name)
        pose = self._pose(f"geometry {name!r}", position, rotation)
        shape = Geometry(name, body, kind, pose, MappingProxyType(parameters), collides, visible)
        self._geometries.append(shape)
        return self

    def contact(
        self, name: str, first: str, second: str, *, friction: Any = 0, restitution: Any = 0, law: str | None = None
    ) -> Builder:
        """Let two geometries touch: Coulomb ``friction`` ≥ 0, ``restitution`` in [0, 1], ``law`` of impact by name.

        The normal points from the second geometry to the first.
        """
        name = self._named("contact", name)
        self._contacts.append(Contact(name, first, second, friction, restitution, law))
        return self

    def build(self) -> Model:
        """Check everything and freeze.

        Raises:
            ModelError: with every fault found, by name.
        """
        faults = [*self._faults, *self._naming_faults(), *self._tree_faults()]
        faults += inertia_faults(self._bodies)
        for joint in self._joints:
            faults += joint_faults(joint)
        for kind, parts in (("frame", self._frames), ("geometry", self._geometries)):
            for part in parts:
                faults += pose_faults(f"{kind} {part.name!r}", part.pose)
        faults += contact_faults(self._contacts, self._geometries, self._joints)
        faults += _number_faults("gravity", self.gravity)
        if np.size(self.gravity) != 3 and not isinstance(self.gravity, str):
            faults.append(f"gravity has {counted(np.size(self.gravity))}, expected 3")
        if faults:
            raise ModelError(f"model {self.name!r}", faults)
        order = self._depth_first()
        carried = {joint.child: joint for joint in self._joints}
        named = {body.name: body for body in self._bodies}
        model = Model(
            self.name,
            tuple(named[name] for name in order),
            tuple(carried[name] for name in order),
            tuple(self._frames),
            tuple(self._constraints),
            tuple(self._geometries),
            frozen_array(self.gravity, (3,)),
            source=self.source,
            contacts=tuple(self._contacts),
        )
        return self._with_start(model)

    def _with_start(self, model: Model) -> Model:
        if not self._start:
            return model
        from dataclasses import replace

        q = model.neutral.q.copy()
        faults = []
        for name, value in self._start.items():
            part = model.q_slice(name)
            found = _number_faults(f"joint {name!r}: start", value)
            if np.shape(value) not in ((), (part.stop - part.start,)):
                found.append(f"joint {name!r}: start has shape {np.shape(value)}, expected ({part.stop - part.start},)")
            if not found:
                q[part] = value
            faults += found
        if faults:
            raise ModelError(f"model {self.name!r}", faults)
        q.setflags(write=False)
        return replace(model, start=State(q, np.zeros(model.nv)))

    def _named(self, kind: str, name: Any) -> str:
        """The name, if it is one."""
        if isinstance(name, str) and name:
            return name
        self._faults.append(f"{kind} {name!r}: a name must be a text that is not empty")
        return repr(name)

    def _pose(self, where: str, position: Vector, rotation: Any) -> Array:
        try:
            return pose_matrix(position, rotation)
        except (ValueError, TypeError) as error:
            self._faults.append(f"{where}: {error}")
            return pose_matrix()

    def _unit(self, axis: Vector, where: str) -> Array:
        """The axis at unit length; one that has it already, up to rounding, keeps its exact numbers."""
        array = vector_of(where.rpartition(": ")[2], axis)
        found = _number_faults(where, array)
        if found and "finite" not in found[0]:
            self._faults += found
            return frozen_array([0, 0, 1], (3,))
        square = array.astype(object) @ array.astype(object)
        if not square > 0 or (isinstance(square, float) and not np.isfinite(square)):
            shown = ", ".join(map(str, array.tolist()))
            self._faults.append(f"{where} ({shown}) has no direction: give a finite vector that is not zero")
            return frozen_array([0, 0, 1], (3,))
        if square == 1 or (isinstance(square, float) and abs(square - 1) <= UNIT_ROUNDING):
            return array
        try:
            return frozen_array(array.astype(object) / scalars.sqrt(square), (3,))
        except ScalarError as error:
            self._faults.append(f"{where} {tuple(array)} cannot be brought to unit length exactly: {error}")
            return frozen_array([0, 0, 1], (3,))

    def _naming_faults(self) -> list[str]:
        faults = []
        frame_like = [WORLD, *(b.name for b in self._bodies), *(f.name for f in self._frames)]
        for kind, names in (
            ("body or frame", frame_like),
            ("joint", [j.name for j in self._joints]),
            ("constraint", [c.name for c in self._constraints]),
            ("geometry", [g.name for g in self._geometries]),
            ("contact", [c.name for c in self._contacts]),
        ):
            for name, count in Counter(names).items():
                if count > 1:
                    faults.append(f"{kind} {name!r} is declared {count} times: give each its own name")
        return faults

    def _tree_faults(self) -> list[str]:
        """Unknown bodies, bodies with several joints or none, and cycles."""
        faults = []
        known = {WORLD, *(b.name for b in self._bodies)}
        for joint in self._joints:
            for role, name in (("parent", joint.parent), ("child", joint.child)):
                if name not in known:
                    faults.append(f"joint {joint.name!r}: unknown {role} {name!r}{did_you_mean(str(name), known)}")
            if joint.child == WORLD:
                faults.append(f"joint {joint.name!r}: the world cannot be a child; swap parent and child")
        for owner, body in [
            *((f"frame {f.name!r}", f.body) for f in self._frames),
            *((f"geometry {g.name!r}", g.body) for g in self._geometries),
        ]:
            if body not in known:
                faults.append(f"{owner}: unknown body {body!r}{did_you_mean(str(body), known)}")
        carriers: dict[str, list[str]] = {body.name: [] for body in self._bodies}
        for joint in self._joints:
            carriers.setdefault(joint.child, []).append(joint.name)
        for name, found in carriers.items():
            if len(found) > 1:
                faults.append(
                    f"body {name!r} is carried by {len(found)} joints ({', '.join(map(repr, found))}): a tree has one "
                    f"joint per body; close the loop with a constraint instead"
                )
        if not faults:
            reached = set(self._depth_first())
            faults += self._unreached_faults(reached)
        return faults

    def _unreached_faults(self, reached: set[str]) -> list[str]:
        """Bodies that do not hang from the world: they carry each other in a circle, or nothing carries them."""
        carrier = {joint.child: joint.parent for joint in self._joints}
        faults: list[str] = []
        told: set[str] = set()
        for body in self._bodies:
            path: list[str] = []
            name = body.name
            while name not in reached and name not in path and name in carrier:
                path.append(name)
                name = carrier[name]
            if name in path and name not in told:
                circle = [*path[path.index(name) :], name]
                told |= set(circle)
                faults.append(
                    f"bodies carry each other in a circle: {' <- '.join(map(repr, circle))}; hang one from the world"
                )
            elif body.name not in reached and name not in path and body.name not in carrier:
                faults.append(
                    f"body {body.name!r} is not connected to the world: add a joint that carries it "
                    f"(kind 'free' lets it float)"
                )
        return faults

    def _depth_first(self) -> list[str]:
        """Names of the bodies that hang from the world, parents first, children in order of declaration."""
        children: dict[str, list[str]] = {}
        for joint in self._joints:
            children.setdefault(joint.parent, []).append(joint.child)
        order: list[str] = []
        stack = list(reversed(children.get(WORLD, [])))
        while stack:
            name = stack.pop()
            order.append(name)
            stack.extend(reversed(children.get(name, [])))
        return order


def inertia_faults(bodies: Sequence[Body]) -> list[str]:
    """What is physically wrong with bodies: negative mass, an inertia that no mass distribution has, NaN."""
    faults: list[str] = []
    sound: list[Body] = []
    for body in bodies:
        where = f"body {body.name!r}"
        found = [
            *_number_faults(f"{where}: mass", [body.mass]),
            *_number_faults(f"{where}: center", body.center),
            *_number_faults(f"{where}: inertia", body.inertia),
        ]
        if not found:
            sound.append(body)
            if body.mass < 0:
                found.append(f"{where}: mass {body.mass} is negative")
        faults += found
    return faults + _unphysical(sound)


def _unphysical(bodies: Sequence[Body]) -> list[str]:
    """Inertias that are not symmetric or violate the triangle inequality, all bodies at once."""
    if not bodies:
        return []
    matrices = np.array([body.inertia.astype(float) for body in bodies])
    traces = np.trace(matrices, axis1=1, axis2=2)
    allowed = INERTIA_TOLERANCE * np.abs(traces)
    skewed = np.abs(matrices - matrices.transpose(0, 2, 1)).max(axis=(1, 2)) > allowed
    # the second moments of mass ½ tr(I) 1 − I must not be negative: the triangle inequality along every axis at once
    moments = np.linalg.eigvalsh(traces[:, None, None] / 2 * np.eye(3) - matrices)[:, 0]
    faults = []
    for body, matrix, crooked, low, limit in zip(bodies, matrices, skewed, moments, allowed, strict=True):
        if crooked:
            faults.append(f"body {body.name!r}: inertia is not symmetric")
        elif low < -limit:
            principal = ", ".join(f"{x:.6g}" for x in np.linalg.eigvalsh(matrix))
            faults.append(
                f"body {body.name!r}: principal inertias ({principal}) violate the triangle inequality (each must be "
                f"at most the sum of the other two): no distribution of mass has them"
            )
    return faults


def joint_faults(joint: Joint) -> list[str]:
    """What is wrong with a joint's own data."""
    where = f"joint {joint.name!r}"
    faults: list[str] = []
    if joint.kind not in joint_types.KINDS:
        known = ", ".join(joint_types.KINDS)
        hint = did_you_mean(str(joint.kind), joint_types.KINDS)
        faults.append(f"{where}: unknown kind {joint.kind!r}; known: {known}{hint}")
    for word in ("rotor_inertia", "gear_ratio", "stiffness", "rest", "damping", "friction", "pitch"):
        faults += _number_faults(f"{where}: {word}", [getattr(joint, word)])
    for word in LIMITS:
        faults += _number_faults(f"{where}: {word}", [getattr(joint, word)], infinite=True)
    faults += pose_faults(where, joint.pose)
    if any("number" in fault for fault in faults):
        return faults
    for word in ("rotor_inertia", "damping", "friction"):
        if getattr(joint, word) < 0:
            faults.append(f"{where}: {word} {getattr(joint, word)} is negative")
    if not joint.lower <= joint.upper:
        faults.append(f"{where}: limits [{joint.lower}, {joint.upper}] are empty: lower must not exceed upper")
    if joint.kind == "universal" and abs(float(joint.axis @ joint.second_axis)) > 1 - INERTIA_TOLERANCE:
        faults.append(f"{where}: the two axes of a universal joint are parallel")
    return faults


def pose_faults(where: str, pose: Array) -> list[str]:
    """What is wrong with a (4, 4) pose."""
    faults = _number_faults(f"{where}: pose", pose)
    if faults:
        return faults
    rotation = pose[:3, :3].astype(float)
    if np.abs(rotation @ rotation.T - np.eye(3)).max() > INERTIA_TOLERANCE or np.linalg.det(rotation) < 0:
        return [f"{where}: the rotation of its pose is not a rotation matrix (orthogonal, determinant +1)"]
    return []


def _number_faults(where: str, values: Any, *, infinite: bool = False) -> list[str]:
    """NaN, infinity (unless it is allowed) and things that are no real numbers."""
    for x in values if isinstance(values, list) else np.array(values, dtype=object).flat:
        try:
            number = None if isinstance(x, (str, bytes)) else float(x)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or (infinite and math.isnan(number)):
            return [f"{where} holds {x!r}, which is not a number"]
        if not infinite and not math.isfinite(number):
            return [f"{where} holds {number}: every number must be finite"]
    return []
