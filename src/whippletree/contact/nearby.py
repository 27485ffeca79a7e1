"""Which contacts can matter in a step, in scenes with too many candidates to write down. Plain numbers.

One vectorised pass finds the gaps of all candidates (:mod:`whippletree.contact.snapshot`); rows of J are worked out
only for those that shapes can reach within the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from whippletree.contact.bounds import bound
from whippletree.contact.candidates import ContactSet
from whippletree.contact.snapshot import Snapshot
from whippletree.errors import UnsupportedError
from whippletree.spatial import Array
from whippletree.tree.mechanism import Mechanism

REACH = 2.0
"""How many times farther than the fastest shape moves in a step a contact is looked for: two shapes may approach each
other."""


MOST_NEAR = 2000
"""Contact points that may touch in one step: three rows each, in a dense matrix of 0.3 GB."""


class Near(NamedTuple):
    """Candidates that may touch within a step."""

    numbers: Array
    """Among all candidates of the model, (k,)."""
    gaps: Array
    """m, (k,)."""
    jacobian: Array
    """(k, 3, nv)."""


class Neighbourhood:
    """The contacts of a model, looked up by distance."""

    def __init__(self, contacts: ContactSet) -> None:
        self.contacts = contacts
        self._mechanism = Mechanism.of(contacts.model)

    def gaps(self, q: Array) -> Array:
        """Of all candidates at q (nq,), m."""
        return self._at(q).points.gap

    def near(self, q: Array, motions: Sequence[Array], h: float) -> Near:
        """Candidates that may touch within h seconds from q (nq,) at the velocities (nv,) of ``motions``."""
        at = self._at(q)
        reach = REACH * h * max(fastest(at, v) for v in motions)
        points = at.within(reach)
        numbers = np.flatnonzero(points.gap <= reach)
        if len(numbers) > MOST_NEAR:
            raise UnsupportedError(
                f"{len(numbers)} contact points of model {self.contacts.model.name!r} touch at once, more than "
                f"{MOST_NEAR}, and their matrix is dense: give shapes fewer points (spheres, capsules, boxes), or "
                f"split the scene"
            )
        return Near(numbers, points.gap[numbers], at.jacobian(numbers, points))

    def _at(self, q: Array) -> Snapshot:
        return Snapshot(self.contacts, self._mechanism, q)


def fastest(at: Snapshot, v: Array) -> float:
    """The largest speed of a point of a shape at the velocities v (nv,), m/s."""
    speeds = [0.0]
    for (pair, side), carried in zip(at.layout.geometries, at.carried, strict=True):
        if carried.columns:
            twist = carried.plain_jacobian @ v[carried.columns]
            radius = bound(pair.shapes[side])
            turning = np.linalg.norm(twist[:3]) * radius if np.isfinite(radius) else 0.0
            speeds.append(float(np.linalg.norm(twist[3:]) + turning))
    return max(speeds)
