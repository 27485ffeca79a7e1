"""Feet without mass: what a contact on a massless part does, for which no inertia decides.

The force on such a *weightless* contact is that of the springs and dampers behind it, whatever the masses do. So

    sticks   the force that holds it is inside its friction cone, now and a moment later
    trails   no force holds it (it would have to pull, or its leg lies outside the cone), and held in flight it would
             sink: it slides along without force, and the joints behind it that nothing drives follow
    slips    the force that would hold it is outside the cone, and the balance of forces at its edge leads it on
             (:mod:`whippletree.simulation.events.massless_feet.foot_slip`)
    open     no force holds it, and held in flight it rises

A trailing foot takes no energy. A foot that loses its hold under load, and that nothing brings to a halt, would release
its springs in no time at all; that is not determined without mass, and is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.contact_modes import Mode
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.massless_feet.foot_slip import law_of_slip, relaxes, released_error
from whippletree.simulation.events.phase import Phase, tried_phase

FORCE_AHEAD = 1e-6
"""How far ahead, s, the force on a foot is looked at: springs at rest carry nothing at the touchdown itself."""

RISING = 1e-9
"""Normal velocity, m/s, below which a foot neither rises nor sinks yet."""

UNLOADED = 1e-7
"""Force, as a share of the largest in the system, below which a foot carries nothing."""

RELEASED = 1e-4
"""Share up to which a foot that loses its hold trails, although springs behind it would still push."""


class Footing:
    """One weightless contact beside the others of a mode."""

    def __init__(self, scene: EventEquations, mode: Mode, contact: int, t: float, y: Array) -> None:
        self.scene, self.contact = scene, contact
        self.friction = float(scene.contacts.friction[contact])
        self.stuck = tried_phase(scene, mode.with_sticking([contact]), t, y)
        self._mode, self._start = mode, (t, y)

    @cached_property
    def flying(self) -> Phase:
        """The phase in which the contact is open."""
        return tried_phase(self.scene, self._mode.with_open([self.contact]), *self._start)

    def forces(self, t: Array, y: Array, ahead: float = 0.0) -> Array:
        """The forces (m, 3) that would hold the contact at m states, now or a moment later."""
        if len(y) != 1:
            return self._forces(t, y, ahead)
        key = "foot", self.contact, ahead, t.tobytes(), y.tobytes()
        return self.stuck.kept_answer(key, lambda: (self._forces(t, y, ahead),))[0]

    def _forces(self, t: Array, y: Array, ahead: float) -> Array:
        q, v = self.scene.motion.split(y)
        v = self.stuck.velocities_projected(t, q, v)
        now = self.stuck.loads(t, np.concatenate([q, v], axis=1))
        if not ahead:
            return np.asarray(now.contacts[:, self.contact])
        later = np.concatenate([self.scene.move(q, ahead * v), v + ahead * now.a], axis=1)
        return np.asarray(self.stuck.loads(t + ahead, later).contacts[:, self.contact])

    def grip(self, t: Array, y: Array) -> Array:
        """(μ fₙ − |fₜ|) / |f| a moment later (m,): positive if the contact can stick; −1 without a force."""
        f = self.forces(t, y, FORCE_AHEAD)
        size = np.linalg.norm(f, axis=1)
        inside = self.friction * f[:, 0] - np.hypot(f[:, 1], f[:, 2])
        return np.where(size > 0, inside / np.where(size > 0, size, 1.0), -1.0)

    def rise(self, t: Array, y: Array, ahead: float = 0.0) -> Array:
        """Normal velocity of the contact with its massless part in flight, m/s, (m,), now or a moment later."""
        q, v = self.scene.motion.split(y)
        v = self.flying.velocities_projected(t, q, v)
        if ahead:
            a = self.flying.loads(t, np.concatenate([q, v], axis=1)).a
            q, v = self.scene.move(q, ahead * v), v + ahead * a
        return np.asarray(self.scene.contact_velocity(q, v)[:, self.contact, 0])

    def rises(self, t: float, y: Array) -> bool:
        """Whether it leaves the ground in flight; a leg that relaxes in flight does so without a jump."""
        here = np.array([t]), y[None]
        now = float(self.rise(*here)[0])
        return float(self.rise(*here, FORCE_AHEAD)[0]) > 0 if abs(now) <= RISING else now > 0

    def trailing(self, t: Array, y: Array) -> Array:
        """(m, 2): positive while nothing grips a foot that trails, and while it does not rise."""
        return -np.stack([self.grip(t, y), self.rise(t, y)], axis=1)

    def loading(self, t: float, y: Array) -> float:
        """How fast the force that holds the contact changes, N/s."""
        now, later = (self.forces(np.array([t]), y[None], ahead)[0] for ahead in (0.0, FORCE_AHEAD))
        return float(np.abs(later - now).max()) / FORCE_AHEAD

    def next(self, mode: Mode, t: float, y: Array, slips: bool, unloaded: bool) -> Mode:
        """A mode with this contact as it must be; ``slips``: its force has just left the cone; ``unloaded``: or has
        just vanished.

        Raises:
            IntegrationError: if it loses its hold under load, and nothing brings it to a halt.
        """
        here, own = (np.array([t]), y[None]), [self.contact]
        f, later = self.forces(*here)[0], self.forces(*here, FORCE_AHEAD)[0]
        if not slips and later[0] > 0 and float(self.grip(*here)[0]) >= -UNLOADED:
            return mode.with_sticking(own)
        largest = self._largest_force(t, y)
        least = UNLOADED * largest
        dragged = self._dragging_mode(mode, later, t, y, least)
        if dragged is not None:
            return dragged
        trailing = mode.trailing(own)
        loaded = not unloaded and f[0] > RELEASED * largest
        if loaded and not relaxes(self.scene, trailing, self.contact, t, y, least):
            rows = [row for row in self.stuck.sticking_rows if row // 3 == self.contact]
            raise released_error(self.scene, self.contact, t, f, in_space=len(rows) > 1)
        return mode.with_open(own) if self.rises(t, y) else trailing

    def _dragging_mode(self, mode: Mode, force: Array, t: float, y: Array, least: float) -> Mode | None:
        """A mode in which it slips under load, against the friction that would hold it, if there is one."""
        size = float(np.hypot(*force[1:]))
        if size <= self.friction * least:
            return None
        return law_of_slip(self.scene, mode, self.contact, -force[1:] / size, (t, y, FORCE_AHEAD), least)

    def _largest_force(self, t: float, y: Array) -> float:
        q, v = self.scene.motion.split(y)
        return float(np.abs(self.scene.at(np.array([t]), q[None], v[None]).b).max())


def settle_feet(
    scene: EventEquations,
    mode: Mode,
    light: Sequence[int],
    slipping: Sequence[int],
    unloaded: Sequence[int],
    t: float,
    y: Array,
) -> Mode:
    """The mode with each of these weightless contacts as it must be, the others as they are.

    Args:
        scene, mode: what there is.
        light: the contacts; slipping, unloaded: those whose force has just left its cone, or vanished.
        t, y: time and state.
    """
    stuck = mode.with_sticking(light)
    result = stuck
    for i in light:
        result = Footing(scene, stuck, i, t, y).next(result, t, y, i in slipping, i in unloaded)
    return result
