"""Constraint types: what each kind of constraint demands, as a plain function of poses, coordinates and time.

A *position* demand is a residual g = 0 of the poses of its frames (or of joint coordinates) and of time. A *velocity*
demand (rolling, a knife edge) is a residual h = 0 of poses and twists, linear in the twists, with no position rows of
its own. A kind may make both: a rolling wheel has two slip rows and one height row. Nothing else is written here: the
Jacobian A and the bias Ȧ v come from differentiating these functions (:mod:`whippletree.constraints.rows`), also for
residuals that a user writes.

Frames: ``on`` names two frames (or bodies, or the world), in this order. Rows are expressed in the axes of the first,
so a constraint on ("world", "foot") has rows in world axes. Residuals are in metres where they are lengths and in
radians, to first order, where they are rotations: 2 sin(θ/2) times the axis. It vanishes for the identity only (the
sine would also vanish after half a turn), and is longest at half a turn, where its direction jumps.

    kind                 rows  parameters                    the second frame, against the first
    point                3                                   its origin stays at the first origin
    pin                  2     axis                          the same in a plane of the world: rows in world axes
    weld                 6                                   stays where the first frame is
    hinge                5     axis                          turns about the axis
    universal            4     axis, second_axis             turns about the axis, and about its own second axis
    slider               5     axis                          slides along the axis
    cylindrical          4     axis                          turns about and slides along the axis
    plane                3     normal                        slides and turns on the plane through the first origin
    point_on_line        2     direction                     its origin stays on a line
    point_on_plane       1     normal                        its origin stays in a plane
    point_on_curve       any   curve                         its origin p stays where curve(p) = 0
    distance             1     length                        its origin keeps its distance: a massless rod
    cable                1     length, branches, factors     any frames: the sum of the ways between them is kept
    prescribed_frame     3, 6  motion                        follows motion(t), a point or a pose
    custom               any   residual, rows, time          whatever residual(*poses) says, of any number of frames
    rolling              2+1   radius, normal, axis          rolls on the plane: slip rows and a height row
    knife_edge           1     direction                     does not move along its own direction

    coupling             1     coefficients                  joints (y, x): y = Σ cₖ xᵏ
    gear                 1     ratios, offset                any joints: Σ ratioₖ qₖ = offset
    prescribed           1     motion                        joint: q = motion(t)
    hold                 1     component                     joint: does not move, wherever it is (a velocity row)
    relax, rest          any                                 massless motions: made by massless="relax", not by hand

Every kind also takes ``compliance`` (the constraint yields with the acceleration compliance · force), ``switchable``
(it becomes an entry of the input ``active``), ``active`` (False: it is off, unless it is switchable) and ``without``
(names of rows that are left out).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.user_functions import call_function
from whippletree.constraints.kinds.demand import Demand, Demands, function_of
from whippletree.errors import ModelError
from whippletree.model import Constraint
from whippletree.spatial import Pose, cross, rotation_quaternion
from whippletree.spatial.joints import plane_directions

# --- between the coordinates of joints --------------------------------------------------------------------------------


def coupling(c: Constraint) -> Demands:
    """One joint coordinate is a polynomial of another: 1 row, y − Σ cₖ xᵏ for joints (y, x); y − c₀ for one joint."""
    coefficients = [*np.atleast_1d(np.asarray(c.parameters.get("coefficients", (0, 1)), dtype=object))]
    if len(c.on) not in (1, 2):
        raise ModelError(
            f"constraint {c.name!r}", [f"a coupling ties one or two joints (y, x), got {len(c.on)}: {c.on}"]
        )

    def residual(coordinates: Sequence[Any], t: Any) -> Array:
        value: Any = 0
        for k in reversed(coefficients):
            value = value * (coordinates[1] if len(coordinates) > 1 else 0) + k
        return vector(coordinates[0] - value)

    return (Demand("position", "joints", ("coupling",), ("rad or m",), residual),)


def gear(c: Constraint) -> Demands:
    """A weighted sum of joint coordinates is fixed, as by gears or a differential: 1 row, Σ ratioₖ qₖ − offset."""
    given = c.parameters.get("ratios")
    ratios = () if given is None else tuple(np.atleast_1d(np.asarray(given, dtype=object)))
    offset = c.parameters.get("offset", 0)
    if len(ratios) != len(c.on) or not any(r != 0 for r in ratios):
        raise ModelError(
            f"constraint {c.name!r}",
            [f"a gear needs one ratio per joint, not all zero: got ratios {given} for joints {c.on}"],
        )

    def residual(coordinates: Sequence[Any], t: Any) -> Array:
        total: Any = -offset
        for ratio, x in zip(ratios, coordinates, strict=True):
            total = total + ratio * x
        return vector(total)

    return (Demand("position", "joints", ("mesh",), ("rad or m",), residual),)


def prescribed(c: Constraint) -> Demands:
    """A joint coordinate follows ``motion(t)``: 1 row."""
    motion = function_of(c, "motion")

    def residual(coordinates: Sequence[Any], t: Any) -> Array:
        goal = call_function(motion, t)
        if len(goal) != 1:
            raise ModelError(f"constraint {c.name!r}", [f"motion(t) must be one number, got {len(goal)}"])
        return vector(coordinates[0] - goal[0])

    return (Demand("position", "joints", ("motion",), ("rad or m",), residual, timed=True),)


def hold(c: Constraint) -> Demands:
    """A joint, or one freedom (``component``) of a joint that has several, does not move: 1 velocity row.

    ``massless`` says that the row only holds a massless motion which nothing else carries: a contact may replace it.
    """
    on: Literal["joints", "massless"] = "massless" if "component" in c.parameters else "joints"
    return (Demand("velocity", on, ("rate",), ("rad/s or m/s",), lambda rates, t: vector(rates[0])),)


def relax(c: Constraint) -> Demands:
    """Dampers and springs decide the velocity of massless motions: 1 velocity row for each (relaxation.py)."""
    return _massless(c, "velocity", ("rad/s or m/s",))


def rest(c: Constraint) -> Demands:
    """Springs alone decide where massless motions stand: 1 position row for each (relaxation.py)."""
    return _massless(c, "position", ("rad or m",))


def _massless(c: Constraint, level: Literal["position", "velocity"], units: tuple[str, ...]) -> Demands:
    if "support" not in c.parameters:
        raise ModelError(f"constraint {c.name!r}", [f'kind {c.kind!r} is made by massless="relax", not by hand'])

    def residual(*state: Any) -> Array:
        raise NotImplementedError("rows of massless motions come from whippletree.constraints.massless_rows")

    rows = tuple(c.parameters["rows"])
    return (Demand(level, "massless", rows, units * len(rows), residual),)


X, Y, Z = (vector(1, 0, 0), vector(0, 1, 0), vector(0, 0, 1))
_METRE, _RAD, _USER = ("m",), ("rad",), ("user's",)

OPPOSITE = 100
"""Two axes are opposite where their angle φ > π/2 has sin² φ < 2⁻¹⁰⁰: what is left of sin φ there is rounding of unit
vectors, and its direction says nothing."""


HERE = Pose.identity()
"""The pose of a first frame that others are seen from: nothing has to be multiplied by it."""


def relative(poses: Sequence[Pose]) -> Pose:
    """The pose of the second frame in the first."""
    if poses[0] is HERE:
        return poses[1]
    return poses[0].inverse() @ poses[1]


def turn(R: Array) -> Array:
    """2 sin(θ/2) times the axis (3,): zero for the identity only, slope one there, of length 2 at half a turn.

    No continuous residual of three rows vanishes at the identity alone. The direction of this one jumps at half a turn,
    from the axis to its opposite; there the residual is longest and its rows say nothing of a turn about that axis.
    """
    return np.asarray(2 * rotation_quaternion(R)[1:])


def tilt(along: Array, axis: Array, directions: Sequence[Array]) -> list[Any]:
    """2 sin(φ/2) towards two directions normal to the axis, φ the angle between the unit vectors ``along`` and
    ``axis``: zero where they agree only, slope one there, of length 2 where they are opposite.

    With the components s (2,) of ``along`` across the axis, |s| = sin φ, and c = cos φ along it:

        s √(2 / (1 + c)) = s √(2 (1 − c)) / |s|

    Each form is used where it does not divide by zero: in front of the plane normal to the axis, and behind it. Every
    direction leads away from the opposite of the axis, so within ``OPPOSITE`` of it the first is taken.
    """
    c, s = axis @ along, vector(*[d @ along for d in directions])
    square = s @ s
    behind = scalars.less(c, 0)
    lost = scalars.less(square * 2**OPPOSITE, scalars.select(behind, 1, 0))
    towards = [scalars.select(lost, instead, x) for instead, x in zip((1, 0), s, strict=True)]
    divisor = scalars.select(lost, 1, scalars.select(behind, square, 1 + c))
    scale = scalars.sqrt(scalars.select(behind, 2 * (1 - c), 2) / divisor)
    return [scale * x for x in towards]


def point(c: Constraint) -> Demands:
    """The origins of two frames coincide: 3 rows."""
    return _frames(("x", "y", "z"), _METRE * 3, lambda poses, t: relative(poses).p, of_point=True)


def pin(c: Constraint) -> Demands:
    """Two origins coincide in the plane normal to ``axis``, as in planar linkages: 2 rows.

    The axis and the rows' directions are given in world axes at zero coordinates, and go with the body that carries
    both frames: a linkage on the ground has them in the world, one on a moving hand in the hand.
    """
    _, (u, w) = _axis(c, "axis")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        carrier, first, second = poses
        gap = carrier.R.T @ (second.p - first.p)
        return vector(u @ gap, w @ gap)

    return (Demand("position", "frames", ("x", "y"), _METRE * 2, residual, carried=True),)


def weld(c: Constraint) -> Demands:
    """Two frames coincide: 6 rows, rotation first."""

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return np.concatenate([turn(rel.R), rel.p])

    return _frames(("rx", "ry", "rz", "x", "y", "z"), _RAD * 3 + _METRE * 3, residual, of_pose=True)


def hinge(c: Constraint) -> Demands:
    """Origins and axes of two frames coincide, a turn about the axis is free: 5 rows."""
    axis, (u, w) = _axis(c, "axis")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return vector(*tilt(rel.R @ axis, axis, (u, w)), *rel.p)

    return _frames(("tilt_u", "tilt_v", "x", "y", "z"), _RAD * 2 + _METRE * 3, residual, of_pose=True)


def universal(c: Constraint) -> Demands:
    """Origins coincide; an axis of the first frame stays normal to one of the second: 4 rows."""
    axis, _ = _axis(c, "axis")
    second, _ = _axis(c, "second_axis", default=X)

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return vector(axis @ (rel.R @ second), *rel.p)

    return _frames(("square", "x", "y", "z"), _RAD + _METRE * 3, residual, of_pose=True)


def slider(c: Constraint) -> Demands:
    """No rotation, the second origin stays on the axis through the first: 5 rows."""
    _, (u, w) = _axis(c, "axis")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return vector(*turn(rel.R), u @ rel.p, w @ rel.p)

    return _frames(("rx", "ry", "rz", "off_u", "off_v"), _RAD * 3 + _METRE * 2, residual, of_pose=True)


def cylindrical(c: Constraint) -> Demands:
    """Axes coincide; turning about and sliding along them is free: 4 rows."""
    axis, (u, w) = _axis(c, "axis")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return vector(*tilt(rel.R @ axis, axis, (u, w)), u @ rel.p, w @ rel.p)

    return _frames(("tilt_u", "tilt_v", "off_u", "off_v"), _RAD * 2 + _METRE * 2, residual, of_pose=True)


def plane(c: Constraint) -> Demands:
    """Planes through both origins coincide; sliding in them and turning about their normal is free: 3 rows."""
    normal, (u, w) = _axis(c, "normal")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return vector(*tilt(rel.R @ normal, normal, (u, w)), normal @ rel.p)

    return _frames(("tilt_u", "tilt_v", "height"), _RAD * 2 + _METRE, residual, of_pose=True)


def point_on_line(c: Constraint) -> Demands:
    """The second origin stays on a line of the first frame through its origin: 2 rows."""
    _, (u, w) = _axis(c, "direction")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        return vector(*[d @ relative(poses).p for d in (u, w)])

    return _frames(("off_u", "off_v"), _METRE * 2, residual, of_point=True)


def point_on_plane(c: Constraint) -> Demands:
    """The second origin stays in a plane of the first frame through its origin: 1 row."""
    normal, _ = _axis(c, "normal")
    return _frames(("height",), _METRE, lambda poses, t: vector(normal @ relative(poses).p), of_point=True)


def point_on_curve(c: Constraint) -> Demands:
    """The second origin stays where the user's ``curve(p)`` vanishes, p (3,) its position in the first frame.

    One row per number that ``curve`` returns: one for a surface, two for a curve in space.
    """
    curve = function_of(c, "curve")
    names = _row_names(c, "curve", lambda: call_function(curve, np.array([0.31, 0.23, 0.17])))

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        return _one_per_row(c, names, call_function(curve, relative(poses).p))

    return _frames(names, _USER * len(names), residual, of_point=True)


def distance(c: Constraint) -> Demands:
    """Two origins stay at a fixed distance, as by a massless rod: 1 row, (|d|² − L²) / 2L."""
    length = c.parameters.get("length")
    if length is None or not length > 0:
        raise ModelError(
            f"constraint {c.name!r}",
            [f"a distance needs length > 0, got {length!r}; at zero its direction is lost: use kind 'point'"],
        )

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        d = poses[1].p - poses[0].p
        return vector((d @ d - length * length) / (2 * length))

    return _frames(("length",), _METRE, residual)


def cable(c: Constraint) -> Demands:
    """The way from frame to frame keeps its length, as by a rope over small pulleys: 1 row, Σ factor Σ |d| − L.

    ``branches`` says how many of the frames each branch of it passes (default: all in one), ``factors`` what the length
    of each counts (default 1 each): 1/n where a pulley shares it among n, negative where two ropes balance each other.
    """
    length: Any = c.parameters.get("length")
    sizes = tuple(c.parameters.get("branches", ())) or (len(c.on),)
    factors = tuple(c.parameters.get("factors", ())) or (1,) * len(sizes)
    faults = ["a cable needs its length, m"] * (length is None)
    if sum(sizes) != len(c.on) or any(size < 2 for size in sizes):
        faults.append(f"branches {sizes} must be of two frames or more each, and of all {len(c.on)} together")
    if len(factors) != len(sizes):
        faults.append(f"it has {len(factors)} factors for {len(sizes)} branches")
    if faults:
        raise ModelError(f"constraint {c.name!r}", faults)
    ends = np.cumsum([0, *sizes]).tolist()
    branches = [range(first, last) for first, last in pairwise(ends)]

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        total: Any = -length
        for branch, factor in zip(branches, factors, strict=True):
            for i, j in pairwise(branch):
                d = poses[j].p - poses[i].p
                total = total + factor * scalars.sqrt(d @ d)
        return vector(total)

    return _frames(("length",), _METRE, residual)


def prescribed_frame(c: Constraint) -> Demands:
    """The second frame follows ``motion(t)`` in the first: a point (3 rows) or a pose (4, 4) (6 rows)."""
    motion = function_of(c, "motion")
    size = np.size(motion(0.0))
    if size not in (3, 16):
        raise ModelError(
            f"constraint {c.name!r}", [f"motion(t) must be a point (3,) or a pose (4, 4), got {size} numbers"]
        )
    whole = size == 16

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        goal, rel = call_function(motion, t), relative(poses)
        if not whole:
            return rel.p - goal
        wanted = Pose.from_matrix(goal.reshape(4, 4))
        return np.concatenate([turn(wanted.R.T @ rel.R), rel.p - wanted.p])

    turns = ("rx", "ry", "rz") if whole else ()
    units = _RAD * len(turns) + _METRE * 3
    return _frames((*turns, "x", "y", "z"), units, residual, timed=True, of_point=not whole, of_pose=whole)


def custom(c: Constraint) -> Demands:
    """Rows of the user's ``residual(*poses)``, poses as (4, 4) matrices of the frames, in the world.

    With ``time=True`` the function takes the time as its last argument.
    """
    function = function_of(c, "residual")
    timed = bool(c.parameters.get("time", False))
    clock = (0.0,) if timed else ()
    names = _row_names(c, "row", lambda: call_function(function, *[np.eye(4) for _ in c.on], *clock))

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        return _one_per_row(
            c, names, call_function(function, *[pose.matrix() for pose in poses], *((t,) if timed else ()))
        )

    return (Demand("position", "frames", names, _USER * len(names), residual, timed, in_world=True),)


def rolling(c: Constraint) -> Demands:
    """A ball, or a thin disc, of ``radius`` rolls without slip on the plane of the first frame: 2 velocity rows, 1
    height.

    The contact is ``radius`` below the second origin for a ball; for a disc, whose axis is ``axis`` of the second
    frame, it is the rim's lowest point. The body's point there does not slip, and stays in the plane.
    """
    normal, directions = _axis(c, "normal")
    radius = c.parameters.get("radius")
    if radius is None or not radius > 0:
        raise ModelError(f"constraint {c.name!r}", [f"rolling needs radius > 0, got {radius!r}"])
    spin = None if c.parameters.get("axis") is None else _axis(c, "axis")[0]

    def arm(rel: Pose) -> Array:
        """From the second origin to the contact, in the first frame's axes."""
        if spin is None:
            return np.asarray(-radius * normal)
        # the part of −n in the plane of the disc, at length radius
        along = rel.R @ spin
        flat = along * (along @ normal) - normal
        return np.asarray(flat * scalars.quotient(radius, scalars.sqrt(flat @ flat)))

    def slip(poses: Sequence[Pose], twists: Sequence[Array], t: Any) -> Array:
        w, v = _relative_twist(poses, twists)
        at_contact = v + cross(w, arm(relative(poses)))
        return vector(*[d @ at_contact for d in directions])

    def height(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return vector(normal @ (rel.p + arm(rel)))

    return (
        Demand("velocity", "frames", ("slip_u", "slip_v"), ("m/s",) * 2, slip),
        Demand("position", "frames", ("height",), _METRE, height),
    )


def knife_edge(c: Constraint) -> Demands:
    """The second origin does not move along ``direction`` of the second frame: 1 velocity row."""
    direction, _ = _axis(c, "direction", default=Y)

    def residual(poses: Sequence[Pose], twists: Sequence[Array], t: Any) -> Array:
        _, v = _relative_twist(poses, twists)
        return vector((relative(poses).R @ direction) @ v)

    return (Demand("velocity", "frames", ("skid",), ("m/s",), residual),)


KINDS: dict[str, Callable[[Constraint], Demands]] = {
    f.__name__: f
    for f in (
        point, pin, weld, hinge, universal, slider, cylindrical, plane, point_on_line, point_on_plane, point_on_curve,
        distance, cable, prescribed_frame, custom, rolling, knife_edge, coupling, gear, prescribed, hold,
        relax, rest,
    )
}  # fmt: skip
"""Every kind of constraint by its name."""


def _relative_twist(poses: Sequence[Pose], twists: Sequence[Array]) -> tuple[Array, Array]:
    """Angular velocity and velocity of the second origin against the first frame, in the first frame's axes."""
    rel = relative(poses)
    w = rel.R @ twists[1][:3] - twists[0][:3]
    v = rel.R @ twists[1][3:] - twists[0][3:] - cross(twists[0][:3], rel.p)
    return w, v


def _frames(
    rows: tuple[str, ...],
    units: tuple[str, ...],
    residual: Callable[..., Array],
    *,
    timed: bool = False,
    of_point: bool = False,
    of_pose: bool = False,
) -> Demands:
    return (Demand("position", "frames", rows, units, residual, timed, of_point=of_point, of_pose=of_pose),)


def _row_names(c: Constraint, word: str, trial: Callable[[], Array]) -> tuple[str, ...]:
    """The names that the user gave as ``rows``, or numbered ones, as many as a trial call returns."""
    names = tuple(c.parameters.get("rows", ())) or tuple(f"{word}_{i}" for i in range(len(trial())))
    if not names:
        raise ModelError(f"constraint {c.name!r}", ["its function returns no numbers: one is expected for each row"])
    return names


def _one_per_row(c: Constraint, names: tuple[str, ...], values: Array) -> Array:
    if len(values) != len(names):
        raise ModelError(
            f"constraint {c.name!r}", [f"its function returns {len(values)} numbers for the rows {', '.join(names)}"]
        )
    return values


def _axis(c: Constraint, word: str, default: Array = Z) -> tuple[Array, tuple[Array, Array]]:
    """A unit direction from the parameters, and two directions normal to it."""
    given = vector(*c.parameters.get(word, default))
    square = given @ given
    if not square > 0:
        raise ModelError(f"constraint {c.name!r}", [f"{word} {tuple(given)} has no direction: it must not be zero"])
    unit = given if square == 1 else given / scalars.sqrt(square)
    return unit, plane_directions(unit)
