"""The ends of the joints' ranges as something that can touch: plastic contacts without friction or tangents.

A joint with one freedom and the range lower ≤ q ≤ upper has the gaps q − lower and upper − q, each with a row of J that
is plus or minus one for this joint: constant, so that it has no bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.contact_set import Candidate, Listed
from whippletree.model import Joint, Model


class Stop(NamedTuple):
    """One end of a joint's range."""

    joint: Joint
    end: float
    sign: int
    """Of the velocity that leads away from it."""
    q: int
    v: int

    @property
    def unit(self) -> str:
        """Of its gap."""
        return "m" if self.joint.kind == "prismatic" else "rad"

    @property
    def candidate(self) -> Candidate:
        """Its part in a list of candidates."""
        name = f"{'lower' if self.sign > 0 else 'upper'} limit of {self.joint.name}"
        return Candidate(name, name, 0, self.joint.child, self.joint.parent, 0, 0)


@dataclass(frozen=True, eq=False)
class Stops:
    """All stops of a model, in the order of its joints, lower ends first."""

    model: Model

    @cached_property
    def all(self) -> tuple[Stop, ...]:
        """Of joints with one freedom; infinite ends are none."""
        found = []
        for k, joint in enumerate(self.model.joints):
            if joint.type.nv == 1 and joint.type.nq == 1:
                places = self.model.q_slices[k].start, self.model.v_slices[k].start
                ends = ((float(joint.lower), 1), (float(joint.upper), -1))
                found += [Stop(joint, end, sign, *places) for end, sign in ends if np.isfinite(end)]
        return tuple(found)

    @cached_property
    def rows(self) -> Array:
        """J (3s, nv): the normal rows; those of the tangents are zero."""
        J = np.zeros((3 * len(self.all), self.model.nv))
        for i, stop in enumerate(self.all):
            J[3 * i, stop.v] = stop.sign
        return J

    @cached_property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints that have stops."""
        return tuple(dict.fromkeys(stop.joint.name for stop in self.all))

    def gaps(self, q: Array) -> Array:
        """(..., s), rad or m."""
        own = q[..., [stop.q for stop in self.all]]
        return np.asarray((own - [stop.end for stop in self.all]) * [stop.sign for stop in self.all])

    def forces(self, pushes: Array) -> Array:
        """Forces along the joints (..., joints) from what the stops push, (..., s)."""
        total = np.zeros((*pushes.shape[:-1], len(self.joints)))
        for i, stop in enumerate(self.all):
            total[..., self.joints.index(stop.joint.name)] += stop.sign * pushes[..., i]
        return total


@dataclass(frozen=True, eq=False)
class Touchables(Listed):
    """Candidates of a scene: the contacts' candidates, then what joints have."""

    candidates: tuple[Candidate, ...]
