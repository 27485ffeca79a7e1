"""Impacts that accumulate (Zeno), and events that repeat at one instant: where a run would come to no end.

A contact whose hops have become too short to be followed stays closed.

A contact that leaves an impact with the normal velocity u while it is accelerated back at a returns after the hop 2 u /
a, and every further hop is shorter by its restitution e: after 2 u / (a (1 − e)) it rests. So one impact tells when a
contact comes to rest; where a body hops from one contact to another (a rocking block), the intervals between the last
impacts tell their ratio.

Where events repeat at one instant, with every few of them larger velocities and accelerations are taken as none. Slips
that stop together, and hops below rounding, are not told apart by smaller numbers. The largest tolerances that a run
has used are part of its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.contact_modes import OPEN, SLIDE, Mode
from whippletree.contact.impact.laws import Law
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.events.transitions import Transitions

SETTLED = 0.2
"""How much the ratio of successive intervals between impacts may vary for them to count as accumulating."""


def hops(phase: Phase, contacts: Sequence[int]) -> Array:
    """How long each of these contacts, which touch at the start of a phase, stays apart, s (c,); 0 if it is closed,
    infinite if it does not come back."""
    scene, y = phase.scene, phase.state[None]
    q, v = scene.motion.split(y)
    time = np.array([phase.time])
    rows = [3 * i for i in contacts]
    at = scene.at(time, q, v)
    speed = at.J[0, rows] @ v[0]
    change = at.J[0, rows] @ phase.start_loads.a[0] + at.beta[0, rows]
    opened = np.array([phase.mode.status[i] == OPEN for i in contacts], dtype=bool)
    back = opened & (speed > 0) & (change < 0)
    times = np.where(back, 2 * speed / np.where(back, -change, 1.0), np.inf)
    return np.where(opened, times, 0.0)


def resting(phase: Phase, struck: Sequence[int], law: Law | None, interval: float) -> dict[int, float]:
    """Contacts of an impact that part for less than ``interval``, with the time, s, after which they would rest.

    Those with restitution 1 would hop forever, and do.
    """
    restitution = phase.scene.contacts.restitution[list(struck)]
    restitution = restitution if law is None else law.coefficients(restitution)
    found = zip(struck, hops(phase, struck).tolist(), restitution.tolist(), strict=True)
    return {i: hop / (1 - e) for i, hop, e in found if 0 < hop <= interval and e < 1}


def accumulation(times: Sequence[float], shortest: float) -> float | None:
    """The time to which the last four impacts converge, if they do and are within ``shortest`` of each other."""
    if len(times) < 4:
        return None
    intervals = np.diff(times[-4:])
    if intervals[-1] > shortest or np.any(intervals <= 0):
        return None
    first, second = intervals[1] / intervals[0], intervals[2] / intervals[1]
    if second >= 1 or abs(second - first) > SETTLED * first:
        return None
    return float(times[-1] + intervals[2] * second / (1 - second))


def limit(times: Sequence[float], rest: float, interval: float) -> float:
    """When impacts at these times end that would last for another ``rest``, s: where their intervals shrink at a
    steady ratio, that ratio tells."""
    steady = accumulation(times, interval)
    return times[-1] + rest if steady is None else steady


class Rest:
    """The end of these contacts' hops, as far as friction changes velocities in what is left of them.

    In contact from now on, they press a little more than in their hops: by the impulse that takes their normal
    velocities away. Where they slide its friction must not act, or a slip would be off by μ u. So that impulse is
    taken back along the edge of the cone: R Δv = −u with forces along E, as in a phase that slides. Contacts slower
    than ``still``, m/s, have no direction of slip.
    """

    def __init__(self, phase: Phase, contacts: Sequence[int], still: float) -> None:
        scene = phase.scene
        q, v = scene.motion.split(phase.state)
        u = scene.contact_velocity(q, v)
        speed = np.linalg.norm(u[:, 1:], axis=1, keepdims=True)
        directions = np.where(speed > still, u[:, 1:] / np.maximum(speed, still), 0.0)
        status = [SLIDE if i in contacts else s for i, s in enumerate(phase.mode.status)]
        slides = np.array([s == SLIDE for s in status])[:, None]
        self._sliding = Phase(scene, Mode(tuple(status), np.where(slides, directions, 0.0)), phase.time, phase.state)
        at, slips = scene.at(np.array([phase.time]), q[None], v[None]), self._sliding.mode.directions[None]
        self._K = self._sliding.block_matrix(at, slips)[0]
        self.rows = self._sliding.acting_rows
        """Rows of the contacts that are brought to rest."""
        self.state = np.concatenate([q, v + self.stopping_change(at.J[:, self.rows] @ v)[0]])
        """(nq + nv,)"""

    def stopping_change(self, speeds: Array) -> Array:
        """Δv (m, nv) that takes away speeds (m, r) of the rows."""
        m, size = len(speeds), self._K.shape[1]
        missing = np.zeros((m, size))
        missing[:, size - len(self.rows) :] = -speeds  # only contacts are still to be stopped
        x = self._sliding.solve(np.broadcast_to(self._K, (m, size, size)), missing)
        return x[:, : self._sliding.scene.model.nv]


# --- events that repeat at one instant: larger velocities and accelerations are taken as none -------------------------


EVENTS_AT_ONCE = 50
"""Events that may follow each other at one instant."""

AT_ONCE_WITHIN = 1e-9
"""s"""

EVENT_PATIENCE = 8
"""Events at one instant after each of which contact velocities ten times as large are taken as none."""

LEAN = 1e-10
"""Share of the largest contact acceleration that counts as none where events repeat at one instant, to begin with."""


class Patience:
    """How often events have repeated at the last instant, and the rules that this asks for."""

    def __init__(self, rules: Transitions) -> None:
        self.plain = rules
        self._last, self._repeats, self._most = 0.0, 0, 0

    def count(self, t: float) -> None:
        """Take note of an event."""
        self._repeats = self._repeats + 1 if t - self._last <= AT_ONCE_WITHIN else 0
        self._last = t
        self._most = max(self._most, self._repeats // EVENT_PATIENCE)

    @property
    def exhausted(self) -> bool:
        """Whether events at this instant do not end."""
        return self._repeats > EVENTS_AT_ONCE

    @property
    def rules(self) -> Transitions:
        """The rules at this instant."""
        return self._after(self._repeats // EVENT_PATIENCE)

    @property
    def largest(self) -> Transitions:
        """The rules with the largest tolerances so far."""
        return self._after(self._most)

    def _after(self, rounds: int) -> Transitions:
        tolerance = self.plain.speed_tolerance * 10.0**rounds
        return replace(self.plain, speed_tolerance=tolerance, lean=LEAN * 100.0**rounds if rounds else 0.0)

    def memo(self) -> Array:
        """What is remembered, as numbers, from which a run can be taken up again."""
        return np.array([self._last, self._repeats, self._most])

    def recall(self, memo: Array) -> None:
        """Go on from numbers."""
        self._last, self._repeats, self._most = float(memo[0]), int(memo[1]), int(memo[2])
