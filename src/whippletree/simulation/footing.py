"""Feet without mass: what a contact on a massless part does, for which no inertia decides.

The force on such a *weightless* contact is that of the springs and dampers behind it, whatever the masses do. So

    sticks   the force that holds it is inside its friction cone, now and a moment later
    trails   no force holds it (it would have to pull, or its leg lies outside the cone), and held in flight it would
             sink: it slides along without force, and the joints behind it that nothing drives follow
    open     no force holds it, and held in flight it rises

A trailing foot takes no energy. A foot that loses its hold *under load* would release its springs in no time at all;
that is not determined without mass, and is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.contact.coulomb import OPEN, SLIDE, STICK
from whippletree.contact.modes import Mode
from whippletree.simulation.integrator import IntegrationError
from whippletree.simulation.phase import Phase
from whippletree.simulation.scene import Scene

Array = np.ndarray[Any, Any]

AHEAD = 1e-6
"""How far ahead, s, the force on a foot is looked at: springs at rest carry nothing at the touchdown itself."""

UNLOADED = 1e-7
"""Force, as a share of the largest in the system, below which a foot carries nothing."""


class Footing:
    """One weightless contact beside the others of a mode."""

    def __init__(self, scene: Scene, mode: Mode, contact: int, t: float, y: Array) -> None:
        self.scene, self.contact = scene, contact
        self.friction = float(scene.contacts.friction[contact])
        self.stuck = Phase(scene, mode.stuck([contact]), t, y)
        self.flying = Phase(scene, mode.opened([contact]), t, y)

    def forces(self, t: Array, y: Array, ahead: float = 0.0) -> Array:
        """The forces (m, 3) that would hold the contact at m states, now or a moment later."""
        q, v = self.scene.motion.split(y)
        v = self.stuck.velocities_projected(t, q, v)
        later = np.concatenate([self.scene.moved(q, ahead * v), v], axis=1)
        return np.asarray(self.stuck.loads(t + ahead, later).contacts[:, self.contact])

    def grip(self, t: Array, y: Array) -> Array:
        """(μ fₙ − |fₜ|) / |f| a moment later (m,): positive if the contact can stick; −1 without a force."""
        f = self.forces(t, y, AHEAD)
        size = np.linalg.norm(f, axis=1)
        inside = self.friction * f[:, 0] - np.hypot(f[:, 1], f[:, 2])
        return np.where(size > 0, inside / np.where(size > 0, size, 1.0), -1.0)

    def rise(self, t: Array, y: Array) -> Array:
        """Normal velocity of the contact with its massless part held in flight, m/s, (m,)."""
        q, v = self.scene.motion.split(y)
        v = self.flying.velocities_projected(t, q, v)
        return np.asarray(self.scene.contact_velocity(q, v)[:, self.contact, 0])

    def loading(self, t: float, y: Array) -> float:
        """How fast the force that holds the contact changes, N/s."""
        now, later = (self.forces(np.array([t]), y[None], ahead)[0] for ahead in (0.0, AHEAD))
        return float(np.abs(later - now).max()) / AHEAD

    def status(self, t: float, y: Array, slips: bool) -> int:
        """What the contact does next; ``slips``: its force has just left the cone.

        Raises:
            IntegrationError: if it loses its hold under load.
        """
        here = np.array([t]), y[None]
        f, later = self.forces(*here)[0], self.forces(*here, AHEAD)[0]
        if not slips and later[0] > 0 and float(self.grip(*here)[0]) >= -UNLOADED:
            return STICK
        if f[0] > UNLOADED * self._largest_force(t, y):
            raise self._slipped(t, f)
        return OPEN if float(self.rise(*here)[0]) > 0 else SLIDE

    def _largest_force(self, t: float, y: Array) -> float:
        q, v = self.scene.motion.split(y)
        return float(np.abs(self.scene.at(np.array([t]), q[None], v[None]).b).max())

    def _slipped(self, t: float, f: Array) -> IntegrationError:
        name = self.scene.contacts.names[self.contact]
        return IntegrationError(
            f"the run stopped at t = {t:.9g} s: {name!r} slips under a load of {f[0]:.6g} N with friction "
            f"{np.hypot(f[1], f[2]):.6g} N, beyond its μ = {self.friction:g}, and is part of a massless body: how fast "
            f"it slips is not determined. Give that body mass, or the contact more friction",
            t,
        )


def settled(scene: Scene, mode: Mode, light: Sequence[int], slipping: Sequence[int], t: float, y: Array) -> Mode:
    """The mode with each of these weightless contacts as it must be, the others as they are."""
    stuck = mode.stuck(light)
    result = stuck
    for i in light:
        status = Footing(scene, stuck, i, t, y).status(t, y, i in slipping)
        result = {OPEN: result.opened, STICK: result.stuck, SLIDE: result.trailing}[status]([i])
    return result
