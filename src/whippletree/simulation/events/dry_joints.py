"""Dry friction of joints as something that rubs: a contact without a normal, pressed by a given force.

A joint with one freedom and the friction c resists by up to c, N m or N, while it rests, and by c against its velocity
while it moves. That is Coulomb's law for a contact with the coefficient 1 that is always closed and that c presses
whatever the motion does: tangent 1 is along the joint, and its row of J is constant, so that it has no bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.contact_set import Candidate
from whippletree.model import Joint, Model


@dataclass(frozen=True, eq=False)
class DryJoints:
    """All joints of a model that have dry friction, in its order."""

    model: Model

    @cached_property
    def _found(self) -> list[tuple[Joint, int]]:
        """Each with the place of its velocity."""
        places = zip(self.model.joints, self.model.v_slices, strict=True)
        return [(joint, part.start) for joint, part in places if joint.type.nv == 1 and joint.friction != 0]

    @property
    def joints(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(joint.name for joint, _ in self._found)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Their part in a list of candidates."""
        names = [(f"friction of {joint.name}", joint) for joint, _ in self._found]
        return tuple(Candidate(name, name, 0, joint.child, joint.parent, 1, 0) for name, joint in names)

    @cached_property
    def pressed(self) -> Array:
        """c (d,), N m or N."""
        return np.array([float(joint.friction) for joint, _ in self._found])

    def resistance(self, slips: Array) -> Array:
        """Friction (nv,) of joints that move with these signs (d,); none of those that rest, 0."""
        return -(self.pressed * slips) @ self.rows[1::3]

    @cached_property
    def rows(self) -> Array:
        """J (3d, nv): the rows of tangents 1; the others are zero."""
        J = np.zeros((3 * len(self._found), self.model.nv))
        for i, (_, v) in enumerate(self._found):
            J[3 * i + 1, v] = 1.0
        return J
