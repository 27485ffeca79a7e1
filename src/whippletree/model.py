"""The frozen description of a multibody system, and the builder that makes one.

A :class:`Model` is data only: bodies, the joints that carry them, frames, constraints, geometry and contacts, each with
a name. It knows nothing of algorithms. Numbers may be of any scalar type (a mass may be a ``Fraction``); arrays of
plain floats have dtype float64, others dtype object.

    model = (
        Builder("arm")
        .body("upper", mass=2.0, center=(0.2, 0, 0), inertia=(0.01, 0.03, 0.03))
        .body("fore", mass=1.0, center=(0.15, 0, 0), inertia=(0.004, 0.01, 0.012))
        .joint("shoulder", "revolute", "world", "upper", axis=(0, 0, 1))
        .joint("elbow", "revolute", "upper", "fore", position=(0.4, 0, 0), axis=(0, 1, 0))
        .build()
    )

Bodies may be declared in any order. The coordinates q and v are laid out depth first, children in the order in which
their joints were declared; :meth:`Model.slice` finds a joint's part of v, so nobody counts.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from whippletree import joints as joint_types
from whippletree.errors import NameLookupError

Array: TypeAlias = np.ndarray[Any, Any]
Vector: TypeAlias = Sequence[Any] | Array

WORLD = "world"
"""The name of the immovable body that every tree grows from."""

EARTH_GRAVITY = (0.0, 0.0, -9.81)
"""m/s², for models from files; ready-made planar mechanisms use (0, −9.81, 0)."""


def frozen_array(values: Any, shape: tuple[int, ...]) -> Array:
    """A read-only array: int64 where all entries are integers, which are exact and change no other scalar; float64
    where they are plain numbers; object where any entry is something else.
    """
    array = np.array(values, dtype=object).reshape(shape)
    if all(isinstance(x, (int, np.integer)) for x in array.flat):
        array = array.astype(np.int64)
    elif all(isinstance(x, (int, float, np.floating, np.integer)) for x in array.flat):
        array = array.astype(np.float64)
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body. A mass of 0 with zero inertia is a massless link, which is allowed everywhere."""

    name: str
    mass: Any = 0
    """kg"""
    center: Array = field(default_factory=lambda: frozen_array([0, 0, 0], (3,)))
    """Centre of mass in the body frame, m, (3,)."""
    inertia: Array = field(default_factory=lambda: frozen_array([0] * 9, (3, 3)))
    """Rotational inertia about the centre of mass, in body axes, kg m², (3, 3)."""

    @property
    def massless(self) -> bool:
        """Whether the body has neither mass nor rotational inertia."""
        return bool(self.mass == 0) and not np.any(self.inertia != 0)


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint between a parent and a child body, with the data of what acts along it.

    The joint frame sits at ``pose`` in the parent; at q = 0 the child's body frame coincides with it.
    Springs, dampers, friction and limits are data: see ``passive_forces`` for what acts and when.
    """

    name: str
    kind: str
    parent: str
    child: str
    pose: Array = field(default_factory=lambda: frozen_array(np.eye(4, dtype=int), (4, 4)))
    """Pose of the joint frame in the parent body, (4, 4)."""
    axis: Array = field(default_factory=lambda: frozen_array([0, 0, 1], (3,)))
    """Unit axis in the joint frame; the normal for a planar joint, the first axis for a universal joint, (3,)."""
    second_axis: Array = field(default_factory=lambda: frozen_array([0, 1, 0], (3,)))
    """Second axis of a universal joint, fixed in the child, (3,)."""
    pitch: Any = 0
    """Helical joints: m of advance per rad."""
    rotor_inertia: Any = 0
    """kg m² (or kg) of the rotor about (along) each of the joint's freedoms, before the gear."""
    gear_ratio: Any = 1
    """Rotor speed over joint speed; the joint feels rotor_inertia · gear_ratio²."""
    stiffness: Any = 0
    """Spring towards ``rest``, N m/rad or N/m."""
    rest: Any = 0
    """Spring's coordinate of zero force, rad or m."""
    damping: Any = 0
    """N m s/rad or N s/m."""
    friction: Any = 0
    """Coulomb friction, N m or N."""
    lower: float = -np.inf
    upper: float = np.inf
    velocity_limit: float = np.inf
    effort_limit: float = np.inf

    @property
    def type(self) -> joint_types.JointType:
        """The joint's mathematics: pose, subspace, bias, integrate and difference."""
        return joint_types.make(self.kind, self.axis, self.second_axis, self.pitch)

    @property
    def armature(self) -> Any:
        """Inertia that the rotor adds to each of the joint's freedoms: rotor_inertia · gear_ratio²."""
        return self.rotor_inertia * self.gear_ratio * self.gear_ratio


@dataclass(frozen=True, eq=False)
class Frame:
    """A named frame fixed to a body."""

    name: str
    body: str
    pose: Array = field(default_factory=lambda: frozen_array(np.eye(4, dtype=int), (4, 4)))
    """Pose of the frame in the body, (4, 4)."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """A constraint as data: a kind, the frames or joints that it ties, and its numbers. See docs for the kinds."""

    name: str
    kind: str
    on: tuple[str, ...]
    """Names of the bodies, frames or joints that it acts on, in the order that its kind defines."""
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, eq=False)
class Geometry:
    """A shape fixed to a body, for contact or for pictures."""

    name: str
    body: str
    kind: str
    """sphere, capsule, box, cylinder, mesh, half_space, …"""
    pose: Array = field(default_factory=lambda: frozen_array(np.eye(4, dtype=int), (4, 4)))
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    collides: bool = True
    visible: bool = True

    @property
    def file(self) -> Path | None:
        """The mesh file that the shape names: where it was found, or else as it was written; None if it names none."""
        named = self.parameters.get("path", self.parameters.get("file"))
        return None if named is None else Path(str(named))


@dataclass(frozen=True, eq=False)
class Contact:
    """Two shapes that may touch: they push each other apart and never pull. Acts in simulations with contact."""

    name: str
    first: str
    """Name of a geometry; the normal points towards it."""
    second: str
    """Name of a geometry on another body."""
    friction: Any = 0
    """Coulomb's coefficient μ ≥ 0."""
    restitution: Any = 0
    """e in [0, 1]: 0 is plastic."""
    law: str | None = None
    """Name of the impact law; None for the simulation's."""


@dataclass(frozen=True)
class State:
    """Coordinates and velocities of a model."""

    q: Array
    v: Array


@dataclass(frozen=True, eq=False)
class Model:
    """A multibody system: a tree of bodies and what constrains it. Made by :class:`Builder` or :func:`load`."""

    name: str
    bodies: tuple[Body, ...]
    """In the order of the tree: parents first, depth first."""
    joints: tuple[Joint, ...]
    """joints[k] carries bodies[k]."""
    frames: tuple[Frame, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    geometries: tuple[Geometry, ...] = ()
    gravity: Array = field(default_factory=lambda: frozen_array(EARTH_GRAVITY, (3,)))
    """m/s², in the world frame, (3,)."""
    start: State | None = None
    """The configuration that the model's author calls home; None for all joints at zero."""
    source: str = ""
    """Where the model came from, and what was cleaned on the way; for people."""
    origin: Model | None = field(default=None, repr=False)
    """The model with plain numbers from which this one came by opening parameters; its structure decides."""
    contacts: tuple[Contact, ...] = ()
    """Pairs of geometries that may touch. Only simulations with contact and the functions ``contact_…`` use them."""

    def __repr__(self) -> str:
        touching = f", {len(self.contacts)} contacts" if self.contacts else ""
        return (
            f"<Model {self.name!r}: {len(self.bodies)} bodies, nq = {self.nq}, nv = {self.nv}, "
            f"{len(self.constraints)} constraints{touching}>"
        )

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Index of each body's parent; −1 for the world."""
        number = {WORLD: -1} | {body.name: k for k, body in enumerate(self.bodies)}
        return tuple(number[joint.parent] for joint in self.joints)

    @cached_property
    def joint_types(self) -> tuple[joint_types.JointType, ...]:
        """The mathematics of each joint."""
        return tuple(joint.type for joint in self.joints)

    @cached_property
    def q_slices(self) -> tuple[builtins.slice, ...]:
        """Each joint's part of q."""
        return _slices(t.nq for t in self.joint_types)

    @cached_property
    def v_slices(self) -> tuple[builtins.slice, ...]:
        """Each joint's part of v."""
        return _slices(t.nv for t in self.joint_types)

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return self.q_slices[-1].stop if self.joints else 0

    @property
    def nv(self) -> int:
        """Number of velocities: the degrees of freedom of the tree."""
        return self.v_slices[-1].stop if self.joints else 0

    def slice(self, joint: str) -> builtins.slice:
        """Where a joint's velocities (and accelerations and forces) are in v."""
        return self.v_slices[self.joint_index(joint)]

    def q_slice(self, joint: str) -> builtins.slice:
        """Where a joint's coordinates are in q; longer than :meth:`slice` where it stores a quaternion."""
        return self.q_slices[self.joint_index(joint)]

    def joint_index(self, name: str) -> int:
        """The position of a joint in ``joints``."""
        return self._find("joint", self._joint_numbers, name)

    def body_index(self, name: str) -> int:
        """The position of a body in ``bodies``; −1 for the world."""
        return -1 if name == WORLD else self._find("body", self._body_numbers, name)

    def geometry(self, name: str) -> Geometry:
        """A geometry by name."""
        return self.geometries[self._find("geometry", self._geometry_numbers, name)]

    def frame(self, name: str) -> Frame:
        """A frame by name; every body, and the world, is also a frame."""
        if name == WORLD or name in self._body_numbers:
            return Frame(name, name)
        return self.frames[self._find("frame or body", self._frame_numbers, name)]

    @property
    def tree(self) -> Model:
        """The same tree of bodies without its constraints; contacts, which bind nothing until they touch, stay."""
        return replace(self, constraints=())

    @property
    def neutral(self) -> State:
        """All joints at zero, at rest; quaternions at identity."""
        parts = [np.asarray(t.neutral, dtype=float) for t in self.joint_types]
        return State(np.concatenate(parts) if parts else np.zeros(0), np.zeros(self.nv))

    @cached_property
    def home(self) -> State:
        """A consistent start state: the author's, or all joints at zero, with every loop closed.

        Raises:
            AssemblyError: if the loops cannot close near it.
        """
        start = self.start if self.start is not None else self.neutral
        if not self.constraints:
            return start
        # the one place where data asks an algorithm: a start state that is not assembled would be of no use
        from whippletree.constraints.closing import home_state

        return home_state(self, start)

    @cached_property
    def _joint_numbers(self) -> dict[str, int]:
        return {joint.name: k for k, joint in enumerate(self.joints)}

    @cached_property
    def _body_numbers(self) -> dict[str, int]:
        return {body.name: k for k, body in enumerate(self.bodies)}

    @cached_property
    def _frame_numbers(self) -> dict[str, int]:
        return {frame.name: k for k, frame in enumerate(self.frames)}

    @cached_property
    def _geometry_numbers(self) -> dict[str, int]:
        return {geometry.name: k for k, geometry in enumerate(self.geometries)}

    def _find(self, kind: str, numbers: Mapping[str, int], name: str) -> int:
        if name not in numbers:
            known = [*numbers, *self._body_numbers] if kind == "frame or body" else numbers
            raise NameLookupError(kind, name, known, where=f"model {self.name!r}")
        return numbers[name]


def _slices(sizes: Iterable[int]) -> tuple[slice, ...]:
    slices, start = [], 0
    for size in sizes:
        slices.append(slice(start, start + size))
        start += size
    return tuple(slices)


def pose_matrix(position: Vector = (0, 0, 0), rotation: Any = None) -> Array:
    """A (4, 4) pose from a position (3,) and a rotation matrix (3, 3), identity if None."""
    pose = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=object)
    pose[:3, 3] = vector_of("position", position)
    if rotation is not None:
        if np.shape(rotation) != (3, 3):
            raise ValueError(f"rotation has shape {np.shape(rotation)}, expected (3, 3)")
        pose[:3, :3] = rotation
    return frozen_array(pose, (4, 4))


def vector_of(what: str, values: Any) -> Array:
    """A read-only vector (3,); an error that says what it is if there are not three numbers."""
    if np.size(values) != 3:
        raise ValueError(f"{what} has {counted(np.size(values))}, expected 3")
    return frozen_array(values, (3,))


def counted(n: int) -> str:
    """How many numbers, in words."""
    return f"{n} number{'s' * (n != 1)}"


def inertia_matrix(values: Any) -> Array:
    """A (3, 3) rotational inertia from a matrix, from (Ixx, Iyy, Izz), or from (Ixx, Iyy, Izz, Ixy, Ixz, Iyz)."""
    flat = np.array(values, dtype=object).reshape(-1)
    if flat.size == 9:
        return frozen_array(flat, (3, 3))
    if flat.size not in (3, 6):
        raise ValueError(
            f"inertia has {counted(flat.size)}; give a 3×3 matrix, (xx, yy, zz) or (xx, yy, zz, xy, xz, yz)"
        )
    xx, yy, zz, xy, xz, yz = [*flat, 0, 0, 0][:6]
    return frozen_array([xx, xy, xz, xy, yy, yz, xz, yz, zz], (3, 3))
