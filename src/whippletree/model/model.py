"""The frozen description of a multibody system.

A :class:`Model` is data only: bodies, the joints that carry them, frames, constraints, geometry, contacts and
actuators, each with a name. It knows nothing of algorithms. Numbers may be of any scalar type (a mass may be a
``Fraction``); arrays of plain floats have dtype float64, others dtype object.

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
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array as Array
from whippletree.arithmetic.scalars import is_zero
from whippletree.errors import ModelError, NameLookupError
from whippletree.model.activations import Activation, Muscle
from whippletree.model.flexible_body import FlexibleBody
from whippletree.model.force_elements import Element, Tendon
from whippletree.model.frozen import Part, PartWithParameters, frozen_array, inertia_matrix, vector_of
from whippletree.model.frozen import Vector as Vector
from whippletree.model.sensors import Sensor
from whippletree.spatial import joints as joint_types

WORLD = "world"
"""The name of the immovable body that every tree grows from."""

EARTH_GRAVITY = (0.0, 0.0, -9.81)
"""m/s², for models from files; ready-made planar mechanisms use (0, −9.81, 0)."""


@dataclass(frozen=True, eq=False, repr=False)
class Body(Part):
    """A rigid body. A mass of 0 with zero inertia is a massless link, which is allowed everywhere."""

    name: str
    mass: Any = 0
    """kg"""
    center: Array = field(default_factory=lambda: frozen_array([0, 0, 0], (3,)))
    """Centre of mass in the body frame, m, (3,)."""
    inertia: Array = field(default_factory=lambda: frozen_array([0] * 9, (3, 3)))
    """Rotational inertia about the centre of mass, in body axes, kg m², (3, 3)."""

    def __post_init__(self) -> None:
        # dataclasses.replace is given numbers as Builder.body is
        for name, shape, read in (("center", (3,), partial(vector_of, "center")), ("inertia", (3, 3), inertia_matrix)):
            given = getattr(self, name)
            if not (isinstance(given, np.ndarray) and given.shape == shape):
                try:
                    object.__setattr__(self, name, read(given))
                except ValueError as error:
                    raise ModelError(f"body {self.name!r}", [str(error)]) from None

    @property
    def massless(self) -> bool:
        """Whether the body has neither mass nor rotational inertia."""
        return bool(self.mass == 0) and not np.any(self.inertia != 0)


@dataclass(frozen=True, eq=False, repr=False)
class Joint(Part):
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
    """kg m² (or kg) of the rotor about (along) each of the joint's freedoms, before the gear. Of a free joint: a mass
    and moments of inertia of that size at the body's origin, without weight."""
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
    flexible: FlexibleBody | None = field(default=None, repr=False)
    """Of kinds ``modal`` and ``port``: the data of the body with modes that the joint is part of."""
    port: str = ""
    """Of kind ``port``: the frame of that body."""

    @cached_property
    def type(self) -> joint_types.JointType:
        """The joint's mathematics: pose, subspace, bias, integrate and difference."""
        if self.flexible is not None:
            return self.flexible.frame(self.port).port if self.port else self.flexible.joint
        return joint_types.make(self.kind, self.axis, self.second_axis, self.pitch)

    @property
    def has_springs(self) -> bool:
        """Whether a spring, a damper or the elasticity of modes acts along it; open parameters may give it one."""
        return self.kind == "modal" or not (is_zero(self.stiffness) and is_zero(self.damping))

    @property
    def armature(self) -> Any:
        """Inertia that the rotor adds to each of the joint's freedoms: rotor_inertia · gear_ratio²."""
        return self.rotor_inertia * self.gear_ratio * self.gear_ratio


@dataclass(frozen=True, eq=False, repr=False)
class Frame(Part):
    """A named frame fixed to a body."""

    name: str
    body: str
    pose: Array = field(default_factory=lambda: frozen_array(np.eye(4, dtype=int), (4, 4)))
    """Pose of the frame in the body, (4, 4)."""


@dataclass(frozen=True, eq=False, repr=False)
class Constraint(PartWithParameters):
    """A constraint as data: a kind, the frames or joints that it ties, and its numbers. See docs for the kinds."""

    name: str
    kind: str
    on: tuple[str, ...]
    """Names of the bodies, frames or joints that it acts on, in the order that its kind defines."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    joint: str = ""
    """The kind of the joint in whose place it closes a loop; empty if it was no joint."""


@dataclass(frozen=True, eq=False, repr=False)
class Geometry(PartWithParameters):
    """A shape fixed to a body, for contact or for pictures."""

    name: str
    body: str
    kind: str
    """sphere, capsule, box, cylinder, mesh, half_space, …"""
    pose: Array = field(default_factory=lambda: frozen_array(np.eye(4, dtype=int), (4, 4)))
    parameters: Mapping[str, Any] = field(default_factory=dict)
    collides: bool = True
    visible: bool = True

    @property
    def file(self) -> Path | None:
        """Where the shape's mesh file lies (``path``); None if it has none that may be opened.

        A name that only stands in a model file (``file``) is not opened: :func:`whippletree.load` gives a shape its
        ``path`` where the file lies inside the folder of its model, and whoever builds a model in Python gives it.
        """
        path = self.parameters.get("path")
        return None if path is None else Path(str(path))


@dataclass(frozen=True, eq=False, repr=False)
class Contact(Part):
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
    margin: Any = 0
    """m: how far apart the surfaces are when they touch; gaps are counted from there."""
    torsional: Any = 0
    """ρ ≥ 0, m: the moment about the normal, against spinning, is at most ρ times the normal force."""
    rolling: Any = 0
    """ρ ≥ 0, m: the moment about axes along the surface, against rolling, is at most ρ times the normal force."""

    @property
    def has_moments(self) -> bool:
        """Whether it resists spinning or rolling."""
        return bool(self.torsional != 0 or self.rolling != 0)


@dataclass(frozen=True, eq=False, repr=False)
class ContactGroup(Part):
    """Shapes of which every two may touch: a heap, without a list of all its pairs.

    Left out are pairs that cannot move against each other, that are both unbounded, or that have a contact of their
    own. As single contacts (:attr:`Model.pairs`) they are called ``"first on second"``, by their geometries.
    """

    name: str
    geometries: tuple[str, ...]
    """Names of geometries."""
    friction: Any = 0
    """Coulomb's coefficient μ ≥ 0."""
    restitution: Any = 0
    """e in [0, 1]: 0 is plastic."""
    margin: Any = 0
    """m: how far apart the surfaces are when they touch."""
    torsional: Any = 0
    """ρ ≥ 0, m: the moment about the normal, against spinning, is at most ρ times the normal force."""
    rolling: Any = 0
    """ρ ≥ 0, m: the moment about axes along the surface, against rolling, is at most ρ times the normal force."""

    @property
    def has_moments(self) -> bool:
        """Whether its contacts resist spinning or rolling."""
        return bool(self.torsional != 0 or self.rolling != 0)


@dataclass(frozen=True, eq=False, repr=False)
class Actuator(Part):
    """A motor with its own law: the force that a command makes it push with, and what it pushes on.

        force = (gain · x) u + bias · x        x = (1, length, velocity)        u the command, within its range

    Its length is Σ gear · q of the joints that it drives, each of one freedom, and each of these gets the force
    gear · force. One that drives a ``frame`` instead has no length, and pushes with the wrench gear · force in the axes
    of the frame. A motor has the gain (1, 0, 0) and no bias; a servo of stiffness k towards the commanded position
    has the gain (k, 0, 0) and the bias (0, −k, −damping).
    """

    name: str
    joints: tuple[str, ...] = ()
    """Joints that it drives of one freedom (several for a tendon that is a weighted sum of coordinates)."""
    frame: str | None = None
    """Frame or body that it drives instead."""
    gear: Array = field(default_factory=lambda: frozen_array([1], (1,)))
    """Force on each joint per unit of its force, (joints,); for a frame the moment and the force, (6,)."""
    gain: Array = field(default_factory=lambda: frozen_array([1, 0, 0], (3,)))
    """Factor of the command: constant, times length, times velocity, (3,)."""
    bias: Array = field(default_factory=lambda: frozen_array([0, 0, 0], (3,)))
    """Term beside the command: constant, times length, times velocity, (3,)."""
    command_range: tuple[float, float] = (-np.inf, np.inf)
    """Commands beyond it act as its nearer end."""
    force_range: tuple[float, float] = (-np.inf, np.inf)
    """Forces beyond it are cut to its nearer end."""
    tendon: str | None = None
    """Tendon that it pulls instead, whose length times gear, (1,), is its own."""
    activation: Activation | None = None
    """Its memory, which takes the place of the command u; None if it has none."""
    muscle: Muscle | None = None
    """Its law, in place of gain and bias, if it is a muscle."""

    @property
    def drive_range(self) -> tuple[float, float]:
        """Ends to which u is cut in its law; an activation keeps its own."""
        return self.command_range if self.activation is None else (-np.inf, np.inf)

    @property
    def kind(self) -> str:
        """``motor``, ``position`` or ``velocity`` (servos), ``muscle``, else ``general``."""
        if self.muscle is not None:
            return "muscle"
        (k, *varying), (offset, position, velocity) = self.gain.tolist(), self.bias.tolist()
        if any(varying) or offset:
            return "general"
        if not position and not velocity:
            return "motor"
        if position == -k:
            return "position"
        return "velocity" if velocity == -k and not position else "general"

    @property
    def acts_uncommanded(self) -> bool:
        """Whether it may push while its command is 0."""
        low, high = self.command_range
        return (
            self.muscle is not None
            or bool(np.any(self.bias != 0))
            or not low <= 0 <= high
            or not self.force_range[0] <= 0 <= self.force_range[1]
        )


@dataclass(frozen=True, eq=False, repr=False)
class KeyFrame(Part):
    """A state that the model's author gave a name, with the commands that belong to it."""

    name: str
    q: Array
    v: Array
    commands: Array
    """One for each actuator of the model, (actuators,)."""
    act: Array = field(default_factory=lambda: frozen_array([], (0,)))
    """One for each actuator with an activation, (activations,)."""


@dataclass(frozen=True, repr=False)
class State(Part):
    """Coordinates and velocities of a model."""

    q: Array
    v: Array


@dataclass(frozen=True, eq=False, repr=False)
class Model(Part):
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
    actuators: tuple[Actuator, ...] = ()
    """Drives of joints and frames by command; their order is that of the commands ``ctrl``."""
    key_frames: tuple[KeyFrame, ...] = ()
    """States with names, by the model's author."""
    time_step: float | None = None
    """s: the step that the model's file asks for; None where it does not say."""
    sensors: tuple[Sensor, ...] = ()
    """Measurements of the model: ``wt.read_sensors``."""
    elements: tuple[Element, ...] = ()
    """Tendons, drag of a fluid, held-up weight: what acts on bodies beside joints and actuators."""
    contact_groups: tuple[ContactGroup, ...] = ()
    """Groups of geometries of which every two may touch, beside ``contacts``."""

    def __repr__(self) -> str:
        touching = f", {len(self.contacts)} contacts" if self.contacts else ""
        touching += f", {len(self.contact_groups)} contact groups" if self.contact_groups else ""
        driven = f", {len(self.actuators)} actuators" if self.actuators else ""
        return (
            f"<Model {self.name!r}: {len(self.bodies)} bodies, nq = {self.nq}, nv = {self.nv}, "
            f"{len(self.constraints)} constraints{touching}{driven}>"
        )

    def _repr_html_(self) -> str:
        """View in a notebook: sizes, joints and a picture that can be turned."""
        # by its name: data imports no pictures, a notebook asks for them
        return str(import_module("whippletree.view.notebook").model_html(self))

    @cached_property
    def is_flexible(self) -> bool:
        """Whether any of its bodies has modes."""
        return any(joint.flexible is not None for joint in self.joints)

    @property
    def touches(self) -> bool:
        """Whether any of its shapes may touch another."""
        return bool(self.contacts or self.contact_groups)

    @cached_property
    def pairs(self) -> tuple[Contact, ...]:
        """Every contact, those of groups one by one: as many as pairs of their geometries."""
        if not self.contact_groups:
            return self.contacts
        from whippletree.model.contact_pairs import pairs_of_groups

        return (*self.contacts, *pairs_of_groups(self))

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
        """Number of velocities, the degrees of freedom of the tree."""
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

    @cached_property
    def activations(self) -> tuple[int, ...]:
        """Numbers of the actuators that have an activation: their order is that of ``act``."""
        return tuple(k for k, actuator in enumerate(self.actuators) if actuator.activation is not None)

    def key_frame(self, name: str) -> KeyFrame:
        """A state of the author's by name."""
        return self.key_frames[self._find("key frame", {key.name: k for k, key in enumerate(self.key_frames)}, name)]

    @property
    def tendons(self) -> tuple[Tendon, ...]:
        """The tendons among the elements."""
        return tuple(element for element in self.elements if isinstance(element, Tendon))

    def tendon(self, name: str) -> Tendon:
        """A tendon by name."""
        tendons = self.tendons
        return tendons[self._find("tendon", {tendon.name: k for k, tendon in enumerate(tendons)}, name)]

    def frame(self, name: str) -> Frame:
        """A frame by name; every body, and the world, is also a frame."""
        if isinstance(name, str) and (name == WORLD or name in self._body_numbers):
            return Frame(name, name)
        return self.frames[self._find("frame or body", self._frame_numbers, name)]

    @property
    def tree(self) -> Model:
        """This tree of bodies without its constraints; contacts, which bind nothing until they touch, stay."""
        return self._unconstrained if self.constraints else self

    @cached_property
    def _unconstrained(self) -> Model:
        return replace(self, constraints=())

    @property
    def neutral(self) -> State:
        """All joints at zero, at rest; quaternions at identity."""
        parts = [np.asarray(t.neutral, dtype=float) for t in self.joint_types]
        return State(np.concatenate(parts) if parts else np.zeros(0), np.zeros(self.nv))

    @property
    def home(self) -> State:
        """A consistent start state, the author's or all joints at zero, with every loop closed.

        Its arrays are the caller's own: ``q = model.home.q; q[0] += 0.1`` begins elsewhere and changes no model.

        Raises:
            AssemblyError: if the loops cannot close near it.
        """
        return State(np.array(self._home.q), np.array(self._home.v))

    @cached_property
    def _home(self) -> State:
        start = self.start if self.start is not None else self.neutral
        if not self.constraints:
            return start
        # the one place where data asks an algorithm: a start state that is not assembled would be of no use
        from whippletree.constraints.assembly import home_state

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
        if not isinstance(name, str) or name not in numbers:
            known = [*numbers, *self._body_numbers] if kind == "frame or body" else numbers
            raise NameLookupError(kind, name, known, where=f"model {self.name!r}", hint=self._about_cut(kind, name))
        return numbers[name]

    def _about_cut(self, kind: str, name: object) -> str:
        """Where a joint went that closed a loop."""
        cut = next((c for c in self.constraints if c.joint and c.name == name), None) if kind == "joint" else None
        if cut is None:
            return ""
        return (
            f". Joint {name!r} closed a loop, which was cut there, and is the constraint {name!r} ({cut.kind}): "
            "to keep its coordinate, cut another one (cut=[...])"
        )


def require_model(given: object, function: str) -> None:
    """Refuse what is not a model, and say how to get one.

    Raises:
        TypeError: naming the function that was called.
    """
    if isinstance(given, Model):
        return
    cure = "wt.load, wt.Builder and wt.mechanisms make one"
    if isinstance(given, (str, os.PathLike)):
        cure = "wt.load reads a file"
    elif isinstance(getattr(given, "model", None), Model):
        cure = "pass its .model"
    elif hasattr(given, "build"):
        cure = "call its build()"
    raise TypeError(f"{function}: expected a Model, got {given!r}: {cure}")


def _slices(sizes: Iterable[int]) -> tuple[slice, ...]:
    slices, start = [], 0
    for size in sizes:
        slices.append(slice(start, start + size))
        start += size
    return tuple(slices)
