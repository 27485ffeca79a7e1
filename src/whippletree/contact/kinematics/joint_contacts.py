"""Joints of one freedom as contacts of one row: the ends of their ranges, and their dry friction.

A range lower ≤ q ≤ upper has the gaps q − lower and upper − q, each with a row of J that is plus or minus one for this
joint: constant, so that it has no bias. Its *stops* are plastic contacts without friction or tangents.

A joint with the friction c resists by up to c, N m or N, while it rests, and by c against its velocity while it moves.
That is Coulomb's law for a contact with the coefficient 1 that is always closed and that c presses whatever the motion
does: tangent 1 is along the joint, and its row of J is constant, so that it has no bias.

Events and searches for balance follow every stop; a time step follows the nearer one of each joint, since it cannot
meet both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.contact.kinematics.contact_set import Candidate
from whippletree.model import Joint, Model
from whippletree.model.frozen import found_once


class JointAxis(NamedTuple):
    """A joint with one freedom and one coordinate, and where they stand in q and v."""

    joint: Joint
    q: int
    v: int

    @property
    def name(self) -> str:
        """Name of the axis's joint."""
        return self.joint.name

    @property
    def lower(self) -> Any:
        """End of its range, rad or m; −∞ for none."""
        return self.joint.lower

    @property
    def upper(self) -> Any:
        """End of its range, rad or m; ∞ for none."""
        return self.joint.upper

    @property
    def friction(self) -> Any:
        """c, N m or N."""
        return self.joint.friction

    @property
    def stops(self) -> tuple[Stop, ...]:
        """The finite ends of the axis, the lower one first."""
        return tuple(stop for stop in (Stop(self, 1), Stop(self, -1)) if np.isfinite(stop.end))

    def distances(self, q: Array) -> tuple[Any, Any]:
        """q − lower and upper − q at coordinates (..., nq) of any scalars, rad or m, (...,) each."""
        own = q[..., self.q]
        return own - self.lower, self.upper - own

    def excess(self, q: Array) -> Array:
        """How far coordinates q (..., nq) are beyond the range, rad or m, (...,); negative within it."""
        return np.asarray(-np.minimum(*self.distances(q)))


class Stop(NamedTuple):
    """One end of a joint's range."""

    axis: JointAxis
    sign: int
    """Sign of the velocity that leads away from it."""

    @property
    def word(self) -> str:
        """Which end it is."""
        return "lower" if self.sign > 0 else "upper"

    @property
    def name(self) -> str:
        """``elbow.lower`` or ``elbow.upper``."""
        return f"{self.axis.name}.{self.word}"

    @property
    def end(self) -> float:
        """rad or m."""
        return float(self.axis.lower if self.sign > 0 else self.axis.upper)

    @property
    def unit(self) -> str:
        """Unit of the gap."""
        return "m" if self.axis.joint.kind == "prismatic" else "rad"

    def gap(self, q: Array) -> Any:
        """How far coordinates q (..., nq) of any scalars are from it, rad or m, (...,)."""
        below, above = self.axis.distances(q)
        return below if self.sign > 0 else above


@found_once
def joint_axes(model: Model) -> tuple[JointAxis, ...]:
    """Every joint with one freedom and one coordinate, in the model's order."""
    places = zip(model.joints, model.joint_types, model.q_slices, model.v_slices, strict=True)
    return tuple(JointAxis(joint, q.start, v.start) for joint, kind, q, v in places if kind.nv == kind.nq == 1)


def limited_axes(model: Model) -> tuple[JointAxis, ...]:
    """Joints whose range has an end."""
    return tuple(axis for axis in joint_axes(model) if axis.lower > -np.inf or axis.upper < np.inf)


def rubbing_axes(model: Model) -> tuple[JointAxis, ...]:
    """Joints with dry friction."""
    return tuple(axis for axis in joint_axes(model) if axis.friction != 0)


def joint_stops(model: Model) -> tuple[Stop, ...]:
    """Every end of a range, in the order of the joints, lower ends first."""
    return tuple(stop for axis in limited_axes(model) for stop in axis.stops)


def nearer_ends(axes: Sequence[JointAxis], q: Array) -> tuple[Array, Array]:
    """Distance (axes,) to the nearer end of each joint's range, and the sign of the velocity that leads away from it.

    Args:
        q: of any scalars, (nq,).
    """
    return nearest_of_ranges([q[axis.q] for axis in axes], [(axis.lower, axis.upper) for axis in axes])


def nearest_of_ranges(places: Iterable[Any], ranges: Iterable[tuple[Any, Any]]) -> tuple[Array, Array]:
    """Distance of each place to the nearer end of its range, and the sign of the velocity that leads away from it."""
    gaps, signs = [], []
    for place, (lower, upper) in zip(places, ranges, strict=True):
        below, above = place - lower, upper - place
        nearer = less(above, below)
        gaps.append(select(nearer, above, below))
        signs.append(select(nearer, -1, 1))
    return np.array(gaps, dtype=object), np.array(signs, dtype=object)


def nearer_ends_of_many(axes: Sequence[JointAxis], q: Array) -> tuple[Array, Array]:
    """Distances (..., axes) to the nearer ends of ranges and their signs, at many states q (..., nq) of floats."""
    own = q[..., [axis.q for axis in axes]]
    below, above = own - [float(axis.lower) for axis in axes], [float(axis.upper) for axis in axes] - own
    return np.minimum(below, above), np.where(above < below, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class JointContacts:
    """The stops of a model's joints, then their dry friction, as one list of contacts with three rows each."""

    model: Model

    @cached_property
    def stops(self) -> tuple[Stop, ...]:
        """Ends of ranges."""
        return joint_stops(self.model)

    @cached_property
    def rubbing(self) -> tuple[JointAxis, ...]:
        """Joints with dry friction."""
        return rubbing_axes(self.model)

    @cached_property
    def limited_names(self) -> tuple[str, ...]:
        """Names of the joints that have stops."""
        return tuple(dict.fromkeys(stop.axis.name for stop in self.stops))

    @property
    def rubbing_names(self) -> tuple[str, ...]:
        """Names of the joints that have dry friction."""
        return tuple(axis.name for axis in self.rubbing)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The part of joints in a list of candidates, (k,)."""
        named = [(f"{stop.word} limit of {stop.axis.name}", stop.axis, 0) for stop in self.stops]
        named += [(f"friction of {axis.name}", axis, 1) for axis in self.rubbing]
        return tuple(
            Candidate(name, name, 0, axis.joint.child, axis.joint.parent, friction, 0) for name, axis, friction in named
        )

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Units of the gaps, (k,); dry friction has none."""
        return (*[stop.unit for stop in self.stops], *[""] * len(self.rubbing))

    @cached_property
    def pressed(self) -> Array:
        """Force that presses each, whatever the motion does (k,), N m or N: c of dry friction, 0 for stops."""
        return np.array([0.0] * len(self.stops) + [float(axis.friction) for axis in self.rubbing])

    @cached_property
    def rows(self) -> Array:
        """J (3k, nv): the normals of stops, tangents 1 of dry friction; the others are zero."""
        J = np.zeros((len(self.candidates), 3, self.model.nv))
        for i, stop in enumerate(self.stops):
            J[i, 0, stop.axis.v] = stop.sign
        for i, axis in enumerate(self.rubbing, start=len(self.stops)):
            J[i, 1, axis.v] = 1.0
        return J.reshape(3 * len(self.candidates), self.model.nv)

    def gaps(self, q: Array) -> Array:
        """(..., k) at coordinates of any scalars, rad or m; 0 for dry friction, which is always closed."""
        if q.dtype == np.float64:
            places, ends, signs = self._ends
            return np.asarray(signs * (q[..., places] - ends))
        own = [stop.gap(q) for stop in self.stops]
        still = np.zeros(q.shape[:-1], dtype=q.dtype)
        return np.stack([*own, *[still] * len(self.rubbing)], axis=-1)

    @cached_property
    def _ends(self) -> tuple[Array, Array, Array]:
        """The ends of all gaps, (k,) each: the coordinate, where it ends, and the sign of the way from there, 0 for dry
        friction."""
        places = [stop.axis.q for stop in self.stops] + [axis.q for axis in self.rubbing]
        still = [0.0] * len(self.rubbing)
        signs = [float(stop.sign) for stop in self.stops]
        return np.array(places, dtype=int), np.array([stop.end for stop in self.stops] + still), np.array(signs + still)

    def limit_forces(self, pushes: Array) -> Array:
        """Forces along the joints that have stops, (..., joints), from what the stops push, (..., stops)."""
        total = np.zeros((*pushes.shape[:-1], len(self.limited_names)))
        for i, stop in enumerate(self.stops):
            total[..., self.limited_names.index(stop.axis.name)] += stop.sign * pushes[..., i]
        return total

    def resistance(self, slips: Array) -> Array:
        """Friction (nv,) of joints that move with these signs (rubbing,); none of those that rest, 0."""
        first = len(self.stops)
        return -(self.pressed[first:] * slips) @ self.rows.reshape(len(self.candidates), 3, self.model.nv)[first:, 1]
