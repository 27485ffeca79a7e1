"""The builder: reads well by hand, accepts any order, and reports everything that is wrong at once, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.garbage import garbage_left_alone
from whippletree.errors import ModelError, did_you_mean
from whippletree.model.activations import Activation, Muscle, activation_faults
from whippletree.model.closing_joints import (
    Cut,
    choose_cut,
    coordinates_in_use,
    name_clashes,
    open_loops,
    turning_faults,
    with_closing_joints,
)
from whippletree.model.constraint_syntax import JOINT_DATA
from whippletree.model.contact_pairs import contact_faults, group_faults
from whippletree.model.faults import (
    actuator_faults,
    depth_first,
    held_mode_faults,
    inertia_faults,
    joint_faults,
    naming_faults,
    number_faults,
    place_faults,
    pose_faults,
    unreached_faults,
)
from whippletree.model.flexible_body import MODES, FlexibleBody, flexible_faults
from whippletree.model.force_elements import Element, FluidBox, Lift, Tendon, Wrap, element_faults
from whippletree.model.frozen import (
    NO_POSE,
    ORIGIN,
    count_in_words,
    frozen_array,
    inertia_matrix,
    pose_matrix,
    vector_of,
)
from whippletree.model.input_checks import as_names
from whippletree.model.model import (
    EARTH_GRAVITY,
    WORLD,
    Actuator,
    Body,
    Constraint,
    Contact,
    ContactGroup,
    Frame,
    Geometry,
    Joint,
    Model,
    Vector,
)
from whippletree.model.named_states import with_key_frames, with_start
from whippletree.model.sensors import Sensor, sensor_faults
from whippletree.model.unit_axes import unit_axis

JOINT_WORDS = ("pitch", *JOINT_DATA)
"""Properties of a joint beside its place and axes."""

PLACE_WORDS = ("position", "rotation", "axis", "second_axis", "child_position", "child_rotation", "start")
"""Where a joint is, how it turns and starts: what a misspelt property may have meant as well."""


class Builder:
    """Collects the parts of a model, in any order; :meth:`build` checks them all and freezes a Model."""

    def __init__(self, name: str, gravity: Vector = EARTH_GRAVITY) -> None:
        self._faults: list[str] = []
        self.name = name if name == "" else self._check_name("model", name)  # robots in files may have no name
        self.gravity = gravity
        self.source = ""
        self._bodies: list[Body] = []
        self._joints: list[Joint] = []
        self._child_poses: dict[int, Array] = {}
        self._frames: list[Frame] = []
        self._constraints: list[Constraint] = []
        self._geometries: list[Geometry] = []
        self._contacts: list[Contact] = []
        self._contact_groups: list[ContactGroup] = []
        self._actuators: list[Actuator] = []
        self._elements: list[Element] = []
        self._sensors: list[Sensor] = []
        self._key_frames: list[tuple[str, Any, Any, Any, Any]] = []
        self.time_step: float | None = None
        """s: the step that the model asks for."""
        self._start: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<Builder {self.name!r}: {len(self._bodies)} bodies, {len(self._joints)} joints, not yet built>"

    def body(self, name: str, mass: Any = 0, center: Vector = (0, 0, 0), inertia: Any = (0, 0, 0)) -> Builder:
        """Add a body: mass (kg), centre of mass (m), inertia about it in body axes (kg m²; 3 × 3, or 3 or 6 numbers).

        Without mass and inertia it is a massless link.
        """
        name = self._check_name("body", name)
        try:
            self._bodies.append(Body(name, mass, vector_of("center", center), inertia_matrix(inertia)))
        except (ValueError, TypeError) as error:
            self._faults.append(f"body {name!r}: {error}")
            self._bodies.append(Body(name))  # keeps the name known, so that one fault does not cause others
        return self

    def flexible_body(self, name: str, body: FlexibleBody, *, start: Any = None) -> Builder:
        """Add a body with modes (:mod:`whippletree.flexible` makes them), ``start`` its modal coordinates at home.

        A joint carries its reference frame ``NAME``; its frames are bodies ``NAME/FRAME``, to which joints, constraints
        and shapes hold on; ``model.slice("NAME/modes")`` finds its modal coordinates.
        """
        name = self._check_name("flexible body", name)
        if not isinstance(body, FlexibleBody):
            self._faults.append(f"flexible body {name!r}: expected a FlexibleBody, got {body!r}; wt.flexible makes one")
            self._bodies.append(Body(name))
            return self
        found = flexible_faults(f"flexible body {name!r}", body)
        self._faults += found
        modes = f"{name}/{MODES}"
        self._bodies.append(Body(name))
        if found:
            return self
        self._bodies.append(Body(modes, *body.rigid_data))
        self._joints.append(Joint(modes, "modal", name, modes, flexible=body))
        for frame in body.frames:
            port = f"{name}/{frame.name}"
            self._bodies.append(Body(port))
            self._joints.append(Joint(port, "port", modes, port, flexible=body, port=frame.name))
        if start is not None:
            self._start[modes] = start
        return self

    def joint(
        self,
        name: str,
        kind: str,
        parent: str,
        child: str,
        *,
        position: Vector = ORIGIN,
        rotation: Any = None,
        axis: Vector = (0, 0, 1),
        second_axis: Vector = (0, 1, 0),
        child_position: Vector = ORIGIN,
        child_rotation: Any = None,
        start: Any = None,
        **data: Any,
    ) -> Builder:
        """Add a joint at ``position`` (m) and ``rotation`` (3, 3) in the parent. Axes need not be of unit length.

        Kinds: revolute, prismatic, helical, cylindrical, universal, planar, spherical, free, weld.

        A joint between two bodies that others connect already closes a loop: :meth:`build` cuts one joint of it.
        ``child_position`` and ``child_rotation`` say where the joint is in the child, if not at its frame. ``start`` is
        the joint's coordinate in the home state. ``data``: see :class:`~whippletree.model.Joint`.
        """
        name = self._check_name("joint", name)
        words = {"kind": kind, "parent": parent, "child": child}
        kind, parent, child = (self._refer(f"joint {name!r}", role, word) for role, word in words.items())
        try:
            for word in data.keys() - JOINT_WORDS:
                hint = did_you_mean(word, (*PLACE_WORDS, *JOINT_WORDS))
                raise ValueError(f"there is no {word!r}; known: {', '.join(JOINT_WORDS)}{hint}")
            given = {"axis": axis, "second axis": second_axis}
            first, second = (unit_axis(x, f"joint {name!r}: {word}", self._faults) for word, x in given.items())
            inner = pose_matrix(child_position, child_rotation)
            self._joints.append(
                Joint(name, kind, parent, child, pose_matrix(position, rotation), first, second, **data)
            )
            if inner is not NO_POSE and not np.array_equal(inner, np.eye(4)):
                self._child_poses[len(self._joints) - 1] = inner
        except (ValueError, TypeError) as error:
            self._faults.append(f"joint {name!r}: {error}")
            self._joints.append(Joint(name, "weld", parent, child))
        if start is not None:
            self._start[name] = start
        return self

    def frame(self, name: str, body: str, *, position: Vector = ORIGIN, rotation: Any = None) -> Builder:
        """Add a named frame fixed to a body."""
        name = self._check_name("frame", name)
        body = self._refer(f"frame {name!r}", "body", body)
        self._frames.append(Frame(name, body, self._pose(f"frame {name!r}", position, rotation)))
        return self

    def constraint(self, name: str, kind: str, /, *on: str, **parameters: Any) -> Builder:
        """Add a constraint of a kind, on bodies, frames or joints, with the numbers of its kind (docs/constraints.md).

        ``.constraint("pin", "pin", "rod end", "rocker end")`` closes a loop at two frames.
        """
        name = self._check_name("constraint", name)
        kind = self._refer(f"constraint {name!r}", "kind", kind)
        ends = tuple(self._refer(f"constraint {name!r}", "end", end) for end in on)
        self._constraints.append(Constraint(name, kind, ends, parameters))
        return self

    def closing_constraint(
        self, name: str, kind: str, on: Iterable[str], joint: str, parameters: Mapping[str, Any]
    ) -> Builder:
        """Add a constraint that closes a loop in the place of a joint of kind ``joint``, for readers of files."""
        self._constraints.append(Constraint(self._check_name("constraint", name), kind, tuple(on), parameters, joint))
        return self

    def geometry(
        self,
        name: str,
        body: str,
        kind: str,
        *,
        position: Vector = ORIGIN,
        rotation: Any = None,
        collides: bool = True,
        visible: bool = True,
        **parameters: Any,
    ) -> Builder:
        """Add a shape fixed to a body, with the numbers of its kind, m (docs/contact.md).

        ``.geometry("foot", "shin", "sphere", position=(0, 0, -0.3), radius=0.02)``
        """
        name = self._check_name("geometry", name)
        body, kind = (self._refer(f"geometry {name!r}", *word) for word in (("body", body), ("kind", kind)))
        pose = self._pose(f"geometry {name!r}", position, rotation)
        shape = Geometry(name, body, kind, pose, parameters, collides, visible)
        self._geometries.append(shape)
        return self

    def contact(
        self,
        name: str,
        first: str,
        second: str,
        *,
        friction: Any = 0,
        restitution: Any = 0,
        law: str | None = None,
        margin: Any = 0,
        torsional: Any = 0,
        rolling: Any = 0,
    ) -> Builder:
        """Let two geometries touch: Coulomb ``friction`` ≥ 0, ``restitution`` in [0, 1], ``law`` of impact by name.

        The normal points from the second geometry to the first. ``margin``: distance at which they touch, m.
        ``torsional`` and ``rolling``: largest moments against spinning about the normal and against rolling, for each
        newton of normal force, m; time stepping knows them.
        """
        name = self._check_name("contact", name)
        first, second = (self._refer(f"contact {name!r}", "geometry", shape) for shape in (first, second))
        law = None if law is None else self._refer(f"contact {name!r}", "law", law)
        self._contacts.append(Contact(name, first, second, friction, restitution, law, margin, torsional, rolling))
        return self

    def contact_group(
        self,
        name: str,
        geometries: Iterable[str],
        *,
        friction: Any = 0,
        restitution: Any = 0,
        margin: Any = 0,
        torsional: Any = 0,
        rolling: Any = 0,
    ) -> Builder:
        """Let every two of some geometries touch, as :meth:`contact` does, without a list of all pairs.

        Pairs that cannot move against each other, two unbounded shapes, and pairs with a contact of their own are left
        out.
        """
        name = self._check_name("contact group", name)
        numbers = (friction, restitution, margin, torsional, rolling)
        shapes = tuple(self._refer(f"contact group {name!r}", "geometry", shape) for shape in as_names(geometries))
        self._contact_groups.append(ContactGroup(name, shapes, *numbers))
        return self

    def actuator(
        self,
        name: str,
        *joints: str,
        frame: str | None = None,
        gear: Any = 1,
        gain: Vector = (1, 0, 0),
        bias: Vector = (0, 0, 0),
        command_range: tuple[float, float] = (-np.inf, np.inf),
        force_range: tuple[float, float] = (-np.inf, np.inf),
        tendon: str | None = None,
        activation: Activation | None = None,
        muscle: Muscle | None = None,
    ) -> Builder:
        """Let a command drive joints of one freedom, a frame, or a tendon: see :class:`~whippletree.model.Actuator`.

        ``.actuator("lift", "elbow", gear=50)`` is a motor; ``gain=(k, 0, 0), bias=(0, -k, -d)`` makes it a servo, and
        ``activation=Activation("filter", (0.02,))`` lets it follow its command with a delay.
        """
        name = self._check_name("actuator", name)
        joints = tuple(self._refer(f"actuator {name!r}", "joint", joint) for joint in joints)
        frame = None if frame is None else self._refer(f"actuator {name!r}", "frame", frame)
        tendon = None if tendon is None else self._refer(f"actuator {name!r}", "tendon", tendon)
        try:
            gears = frozen_array(gear, (np.size(gear),))
            numbers = (gears, vector_of("gain", gain), vector_of("bias", bias))
            ends = tuple(command_range), tuple(force_range)
            memory = tendon, activation, muscle
            self._actuators.append(Actuator(name, joints, frame, *numbers, *ends, *memory))  # type: ignore[arg-type]
        except (ValueError, TypeError) as error:
            self._faults.append(f"actuator {name!r}: {error}")
        return self

    def tendon(
        self,
        name: str,
        /,
        *frames: str,
        joints: dict[str, Any] | None = None,
        branches: Any = (),
        divisors: Any = (),
        stiffness: Any = 0,
        rest: Any = 0,
        damping: Any = 0,
        around: Any = (),
        limits: tuple[Any, Any] = (-np.inf, np.inf),
    ) -> Builder:
        """Add a tendon with a spring and a damper along it: see :class:`~whippletree.model.force_elements.Tendon`.

        ``.tendon("spring", "hook", "rod end", stiffness=200, rest=0.1, damping=3)`` ties two points of bodies.

        Args:
            name: of the tendon.
            frames: that it passes, in one branch; or ``branches`` of them with ``divisors``; or ``joints``, whose
                coordinates it sums up with these weights.
            joints, branches, divisors: as above.
            stiffness: N/m.
            rest: length of no force, m, or two between which the spring is slack.
            damping: N s/m.
            around: obstacles that it goes round, :class:`~whippletree.model.force_elements.Wrap`, or their fields:
                ``around=[{"frame": "drum", "kind": "cylinder", "radius": 0.02, "side": "groove"}]``.
            limits: lengths between which it stays, m: ``limits=(-np.inf, 0.3)`` is a string.
        """
        name = self._check_name("tendon", name)
        frames = tuple(self._refer(f"tendon {name!r}", "frame", frame) for frame in frames)
        route = (tuple(frames),) if frames else tuple(tuple(branch) for branch in branches)
        weights = list((joints or {}).values())
        try:
            numbers = (
                frozen_array(weights, (len(weights),)),
                frozen_array(list(divisors) or [1] * len(route), (len(divisors) or len(route),)),
            )
            ends = (rest, rest) if np.ndim(rest) == 0 else tuple(rest)
            wraps = tuple(wrap if isinstance(wrap, Wrap) else Wrap(**wrap) for wrap in around)
            lower, upper = limits
            path = tuple(joints or ()), numbers[0], route, numbers[1]
            self._elements.append(Tendon(name, *path, stiffness, ends, damping, wraps, (lower, upper)))
        except (ValueError, TypeError) as error:
            self._faults.append(f"tendon {name!r}: {error}")
        return self

    def fluid_box(
        self,
        name: str,
        body: str,
        *,
        size: Vector,
        position: Vector = ORIGIN,
        rotation: Any = None,
        density: Any = 0,
        viscosity: Any = 0,
        wind: Vector = (0, 0, 0),
    ) -> Builder:
        """Let a fluid drag on a body as on a box: see :class:`~whippletree.model.force_elements.FluidBox`."""
        name = self._check_name("fluid box", name)
        body = self._refer(f"fluid box {name!r}", "body", body)
        try:
            pose, edges, flow = pose_matrix(position, rotation), vector_of("size", size), vector_of("wind", wind)
            self._elements.append(FluidBox(name, body, pose, edges, density, viscosity, flow))
        except (ValueError, TypeError) as error:
            self._faults.append(f"fluid box {name!r}: {error}")
        return self

    def lift(self, name: str, body: str, *, share: Any = 1) -> Builder:
        """Hold up a share of a body's weight."""
        name = self._check_name("lift", name)
        self._elements.append(Lift(name, self._refer(f"lift {name!r}", "body", body), share))
        return self

    def sensor(self, name: str, kind: str, on: str, *, reference: str | None = None, cutoff: float = np.inf) -> Builder:
        """Measure something of the state: see :class:`~whippletree.model.sensors.Sensor` for the kinds."""
        name = self._check_name("sensor", name)
        kind, on = (self._refer(f"sensor {name!r}", *word) for word in (("kind", kind), ("place", on)))
        reference = None if reference is None else self._refer(f"sensor {name!r}", "reference", reference)
        self._sensors.append(Sensor(name, kind, on, reference, cutoff))
        return self

    def key_frame(self, name: str, *, q: Any = None, v: Any = None, commands: Any = None, act: Any = None) -> Builder:
        """Give a state a name: q (nq,), v (nv,), commands (actuators,) and activations act (activations,); home, rest
        and 0 where nothing is said."""
        self._key_frames.append((self._check_name("key frame", name), q, v, commands, act))
        return self

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames so far."""
        return tuple(self._frames)

    @property
    def tendons(self) -> tuple[Tendon, ...]:
        """The tendons so far."""
        return tuple(element for element in self._elements if isinstance(element, Tendon))

    @property
    def joints(self) -> tuple[Joint, ...]:
        """The joints so far."""
        return tuple(self._joints)

    @property
    def shapes(self) -> dict[str, Geometry]:
        """The geometries so far, by name."""
        return {geometry.name: geometry for geometry in self._geometries}

    @garbage_left_alone()
    def build(self, *, cut: Iterable[str] = ()) -> Model:
        """Check everything and freeze.

        Args:
            cut: names of joints at which loops are opened; of a loop that has none of them, the joint declared last.
                ``model.source`` and ``wt.diagnose`` tell what was cut (:mod:`whippletree.model.closing_joints`).

        Raises:
            ModelError: with every fault found, by name.
        """
        chosen = choose_cut(self._bodies, self._joints, cut)
        if faults := [*self._faults, *self._find_faults(chosen)]:
            raise ModelError(f"model {self.name!r}", faults)
        needed = coordinates_in_use(self._actuators, self._constraints)
        opened = open_loops(self._bodies, self._joints, self._child_poses, chosen.tree, needed)
        if (chosen.tree or self._child_poses) and (faults := name_clashes(opened, self._frames, self._constraints)):
            raise ModelError(f"model {self.name!r}", faults)
        model = Model(
            self.name,
            **opened.in_tree_order(),
            frames=(*self._frames, *opened.frames),
            constraints=(*self._constraints, *opened.constraints),
            geometries=tuple(self._geometries),
            gravity=frozen_array(self.gravity, (3,)),
            source="\n".join([*([self.source] if self.source else []), *(f"- {note}" for note in opened.notes)]),
            contacts=tuple(self._contacts),
            actuators=tuple(self._actuators),
            time_step=self.time_step,
            elements=tuple(self._elements),
            sensors=tuple(self._sensors),
            contact_groups=tuple(self._contact_groups),
        )
        model = with_start(model, self._start, [joint.name for joint in self._joints], opened)
        return with_key_frames(model, self._key_frames)

    def add_to(self, model: Model, *, cut: Iterable[str] = ()) -> Model:
        """A finished model with the joints of this builder, which has nothing else: each closes a loop.

        Args:
            model: whose bodies they connect.
            cut: as in :meth:`build`; of each other loop the joint of this builder that was declared last.

        Raises:
            ModelError: with every fault found, by name.
        """
        faults = [*self._faults, *(fault for joint in self._joints for fault in joint_faults(joint))]
        faults += self._child_pose_faults()
        if faults:
            raise ModelError(f"model {model.name!r}", faults)
        return with_closing_joints(model, self._joints, self._child_poses, cut)

    def _find_faults(self, chosen: Cut) -> list[str]:
        """Faults of the parts, each by itself and all together."""
        faults = naming_faults(
            "body or frame", [WORLD, *(x.name for x in self._bodies), *(x.name for x in self._frames)]
        )
        faults += naming_faults("joint", [joint.name for joint in self._joints])
        faults += naming_faults("constraint", [constraint.name for constraint in self._constraints])
        faults += naming_faults("geometry", [geometry.name for geometry in self._geometries])
        faults += naming_faults("contact", [contact.name for contact in self._contacts])
        faults += self._tree_faults(chosen)
        faults += held_mode_faults(self._joints, [*self._frames, *self._geometries])
        faults += inertia_faults(self._bodies)
        for joint in self._joints:
            faults += joint_faults(joint)
        faults += self._child_pose_faults()
        faults += place_faults("frame", self._frames, self._bodies)
        faults += place_faults("geometry", self._geometries, self._bodies)
        faults += contact_faults(self._contacts, self._geometries, self._joints)
        faults += naming_faults("contact group", [group.name for group in self._contact_groups])
        faults += group_faults(self._contact_groups, self._geometries)
        faults += naming_faults("actuator", [actuator.name for actuator in self._actuators])
        faults += naming_faults("key frame", [name for name, *_ in self._key_frames])
        places: list[Body | Frame] = [*self._bodies, *self._frames]
        faults += naming_faults("tendon, fluid box or lift", [element.name for element in self._elements])
        faults += element_faults(self._elements, self._joints, places)
        tendons = [element.name for element in self._elements if isinstance(element, Tendon)]
        faults += actuator_faults(self._actuators, self._joints, places, tendons)
        faults += activation_faults(self._actuators)
        faults += naming_faults("sensor", [sensor.name for sensor in self._sensors])
        known = {"joint": [joint.name for joint in self._joints], "tendon": tendons}
        known |= {"actuator": [a.name for a in self._actuators], "frame": [WORLD, *(place.name for place in places)]}
        known |= {"geometry": [geometry.name for geometry in self._geometries]}
        faults += sensor_faults(self._sensors, known)
        if self.time_step is not None and not self.time_step > 0:
            faults.append(f"time_step is {self.time_step!r}, expected a positive number of seconds")
        faults += number_faults("gravity", self.gravity)
        if np.size(self.gravity) != 3 and not isinstance(self.gravity, str):
            faults.append(f"gravity has {count_in_words(np.size(self.gravity))}, expected 3")
        return faults

    def _child_pose_faults(self) -> list[str]:
        poses = self._child_poses.items()
        return [f for k, pose in poses for f in pose_faults(f"joint {self._joints[k].name!r}: in the child", pose)]

    def _tree_faults(self, chosen: Cut) -> list[str]:
        """Unknown bodies, a cut that cannot be made, bodies that nothing connects to the world."""
        if chosen.faults:
            return list(chosen.faults)
        tree = chosen.tree
        needed = coordinates_in_use(self._actuators, self._constraints)
        reached = depth_first(self._joints) if tree is None else map(str, tree.graph.descendants(WORLD))
        return [
            *unreached_faults(self._bodies, self._joints, reached),
            *turning_faults(self._joints, tree, needed | self._start.keys()),
        ]

    def _check_name(self, kind: str, name: Any) -> str:
        """The name, if it is one."""
        if isinstance(name, str) and name:
            return name
        self._faults.append(f"{kind} {name!r}: a name must be a text that is not empty")
        return repr(name)

    def _refer(self, where: str, role: str, name: Any) -> str:
        """The name of another part, or of a kind, if it is one."""
        if isinstance(name, str):
            return name
        self._faults.append(f"{where}: {role} {name!r} is no name: write one text")
        return repr(name)

    def _pose(self, where: str, position: Vector, rotation: Any) -> Array:
        try:
            return pose_matrix(position, rotation)
        except (ValueError, TypeError) as error:
            self._faults.append(f"{where}: {error}")
            return pose_matrix()
