"""Forces on bodies beside those of joints, contacts and actuators: tendons, the drag of a fluid, and held-up weight.

All of these are functions of the state, so they are part of ``passive_forces``
(:mod:`whippletree.tree.element_forces`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import is_zero
from whippletree.errors import did_you_mean
from whippletree.model.frozen import Part, frozen_array
from whippletree.spatial import joints as joint_types

if TYPE_CHECKING:
    from whippletree.model.model import Body, Frame, Joint


OBSTACLES = ("sphere", "cylinder")
"""Shapes that a tendon may wrap around. A cylinder is about the z axis of its frame, and has no ends."""


@dataclass(frozen=True, eq=False, repr=False)
class Wrap(Part):
    """An obstacle between two frames of a tendon's route, which goes round it: :mod:`whippletree.tree.wrapping`."""

    frame: str
    """Body or frame whose origin is the middle of the obstacle."""
    kind: str
    """``sphere`` or ``cylinder``."""
    radius: Any
    """m"""
    side: str = ""
    """Frame on whose side of the obstacle the tendon passes; where it is inside the obstacle, the tendon passes through
    that. Empty: the shorter way."""
    after: int = 0
    """Number of the frame of the branch after which the obstacle comes."""
    branch: int = 0
    """Number of the branch."""


@dataclass(frozen=True, eq=False, repr=False)
class Tendon(Part):
    """A length of the model, with a spring and a damper along it; actuators may pull it.

    Either a weighted sum of joint coordinates, l = Σ weight · q, or the length of pieces from frame to frame, straight
    or round obstacles: a spring between two points of moving bodies is a tendon with two frames.

        tension = stiffness · (l − rest) + damping · l̇
    """

    name: str
    joints: tuple[str, ...] = ()
    """Joints of one freedom whose coordinates it sums up."""
    weights: Array = field(default_factory=lambda: frozen_array([], (0,)))
    """(joints,)"""
    route: tuple[tuple[str, ...], ...] = ()
    """Frames that it passes, branch by branch: pulleys divide a tendon into branches."""
    divisors: Array = field(default_factory=lambda: frozen_array([], (0,)))
    """Divisor of the length of each branch, (branches,)."""
    stiffness: Any = 0
    """N/m, or N m/rad for a sum of angles."""
    rest: tuple[Any, Any] = (0, 0)
    """Lengths between which the spring is slack, m."""
    damping: Any = 0
    """N s/m."""
    around: tuple[Wrap, ...] = ()
    """Obstacles that it goes round, at most one between two frames."""
    limits: tuple[Any, Any] = (-np.inf, np.inf)
    """Lengths between which it stays: at an end it pushes or pulls as hard as it takes, like the stop of a joint, m."""

    @property
    def acts(self) -> bool:
        """Whether it has a spring or a damper of its own."""
        return not (is_zero(self.stiffness) and is_zero(self.damping))

    @property
    def is_limited(self) -> bool:
        """Whether its length has an end."""
        lower, upper = self.limits
        return bool(lower > -np.inf or upper < np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class FluidBox(Part):
    """The drag of a fluid on a body, as if this was a box: MuJoCo's model of the *equivalent inertia box*.

    With the velocity v and the spin ω of the box against the fluid, in its own axes, and its edges a, b, c:

        force = −3π d η v − ½ ρ b c |v| v (along each edge)        d = (a + b + c) / 3
        moment = −π d³ η ω − ρ a (b⁴ + c⁴) |ω| ω / 64 (about each edge)
    """

    name: str
    body: str
    pose: Array
    """Pose of the box in the body: its centre and its axes, (4, 4)."""
    size: Array
    """Edges, m, (3,)."""
    density: Any = 0
    """ρ of the fluid, kg/m³."""
    viscosity: Any = 0
    """η of the fluid, Pa s."""
    wind: Array = field(default_factory=lambda: frozen_array([0, 0, 0], (3,)))
    """Velocity of the fluid, m/s, in the world, (3,)."""


@dataclass(frozen=True, eq=False, repr=False)
class Lift(Part):
    """A share of a body's weight that is held up: −share · m g at its centre of mass."""

    name: str
    body: str
    share: Any = 1


Element = Tendon | FluidBox | Lift


def element_faults(elements: Sequence[Element], joints: Sequence[Joint], places: Sequence[Body | Frame]) -> list[str]:
    """Faults of force elements: in their targets and in their numbers."""
    from whippletree.model.faults import number_faults

    freedoms = {joint.name: joint.type.nv for joint in joints if joint.flexible or joint.kind in joint_types.KINDS}
    known = {"world", *(place.name for place in places)}
    faults: list[str] = []
    for element in elements:
        word = {Tendon: "tendon", FluidBox: "fluid box", Lift: "lift"}[type(element)]
        where = f"{word} {element.name!r}"
        if isinstance(element, Tendon):
            faults += _tendon_faults(where, element, freedoms)
            used: Sequence[str] = [frame for branch in element.route for frame in branch]
            used = [*used, *(name for wrap in element.around for name in (wrap.frame, wrap.side) if name)]
            numbers: dict[str, Any] = {"stiffness": element.stiffness, "damping": element.damping}
            numbers |= {"rest": list(element.rest), "weights": element.weights, "divisors": element.divisors}
        elif isinstance(element, FluidBox):
            used, numbers = [element.body], {w: getattr(element, w) for w in ("size", "density", "viscosity", "wind")}
        else:
            used, numbers = [element.body], {"share": element.share}
        for name in used:
            if name not in known:
                faults.append(f"{where}: unknown frame or body {name!r}{did_you_mean(str(name), known)}")
        for key, value in numbers.items():
            faults += number_faults(f"{where}: {key}", value) if np.size(value) else []
    return faults


def _tendon_faults(where: str, tendon: Tendon, freedoms: dict[str, int]) -> list[str]:
    faults = []
    if bool(tendon.joints) == bool(tendon.route):
        faults.append(f"{where} needs joints or frames, and not both")
    if len(tendon.weights) != len(tendon.joints):
        faults.append(f"{where} has {len(tendon.weights)} weights, expected {len(tendon.joints)}")
    if len(tendon.divisors) != len(tendon.route):
        faults.append(f"{where} has {len(tendon.divisors)} divisors, expected {len(tendon.route)}")
    for joint in tendon.joints:
        if freedoms.get(joint) != 1:
            hint = "" if joint in freedoms else did_you_mean(str(joint), freedoms)
            faults.append(f"{where}: {joint!r} is no joint of one freedom{hint}")
    if any(len(branch) < 2 for branch in tendon.route):
        faults.append(f"{where} has a branch with fewer than two frames")
    if not tendon.limits[0] <= tendon.limits[1]:
        faults.append(f"{where}: limits {list(tendon.limits)} are empty: the first must not exceed the second")
    return faults + _wrap_faults(where, tendon)


def _wrap_faults(where: str, tendon: Tendon) -> list[str]:
    faults = []
    places = [(wrap.branch, wrap.after) for wrap in tendon.around]
    for wrap, (branch, after) in zip(tendon.around, places, strict=True):
        own = f"{where}: the obstacle {wrap.frame!r}"
        if wrap.kind not in OBSTACLES:
            faults.append(f"{own} is a {wrap.kind!r}, expected one of {', '.join(OBSTACLES)}")
        if not (isinstance(wrap.radius, (int, float)) and 0 < wrap.radius < np.inf):
            faults.append(f"{own} has the radius {wrap.radius!r}, expected a positive number")
        if not (0 <= branch < len(tendon.route) and 0 <= after < len(tendon.route[branch]) - 1):
            faults.append(f"{own} comes after frame {after} of branch {branch}, where no piece begins")
        if places.count((branch, after)) > 1:
            faults.append(f"{own} is not alone between its two frames: put a frame between obstacles")
    return faults
