"""When a phase ends: functions of the state that are positive as long as its mode holds, and their first zero.

    touchdown   the gap of an open candidate
    lift-off    the normal force of a closed one
    slip        μ fₙ − |fₜ| of one that sticks
    stick       the speed of one that slides, along its direction
                (of a massless foot that trails: what it lacks to grip; and lift-off: how fast it would sink)
    jam         ∂u̇ₙ/∂fₙ of one that slides (Painlevé), in units of its value without friction

A guard that is zero at the start of a phase (a contact that has just parted) is divided by the time since then: what is
left is positive if the phase can begin at all, and its first zero is the next event, however soon that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from whippletree.contact.impact import response
from whippletree.simulation.collocation import Polynomial, basis_integrals
from whippletree.simulation.footing import Footing
from whippletree.simulation.phase import Phase

Array = np.ndarray[Any, Any]
Admits = Callable[[str, float, Array, Array], bool]

TOUCHDOWN, LIFT_OFF, SLIP, STICK, JAM = "touchdown", "lift-off", "slip", "stick", "jam"

SAMPLES = np.array([1e-6, 1e-3, 0.02, *np.linspace(0.08, 1.0, 12)])
"""Shares of a step at which guards are looked at."""

AT_ZERO = 1e-9
"""A guard below this (m, m/s, or this share of the largest force) at the start of a phase counts as zero."""

NOISE = 1e-13
"""A change of such a guard below this, in the same units, is rounding."""

JAMMED = 1e-9
"""Where the guard of Painlevé's situation is taken as zero."""

TOGETHER = 1e-12
"""Events within this time, s, are one."""

GRAZING = 0.25
"""A sampled minimum below this share of its neighbours' excess is looked at more closely."""


class Guard(NamedTuple):
    """What to watch of one candidate."""

    kind: str
    contact: int


class Guards:
    """The guards of a phase."""

    def __init__(self, phase: Phase, admits: Admits | None = None, stopped: float = 0.0) -> None:
        """``stopped``: speed, m/s, below which a slip that turns has stopped."""
        self.phase, self.admits, self.stopped = phase, admits, stopped
        mode, friction = phase.mode, phase.friction
        opened = [i for i in range(len(mode.status)) if i not in mode.closed]
        self.guards = [Guard(TOUCHDOWN, i) for i in opened]
        feet = {i: Footing(phase.scene, mode, i, phase.time, phase.state) for i in phase.weightless}
        self.loading = {i: foot.loading(phase.time, phase.state) for i, foot in feet.items()}
        self.footings = {i: feet[i] for i in phase.trailing}
        self.guards += [Guard(STICK, i) for i in mode.sliding if friction[i] or i in self.footings]
        self.guards += [Guard(LIFT_OFF, i) for i in self.footings]
        self.guards += [Guard(JAM, i) for i in mode.sliding if friction[i]]
        if phase.reference is not None and phase.slips:
            self.guards += [Guard(LIFT_OFF, i) for i in mode.closed if 3 * i in phase.acting_rows]
        if not phase.hyperstatic:
            self.guards += [Guard(LIFT_OFF, i) for i in mode.closed if i not in self.footings]
            self.guards += [Guard(SLIP, i) for i in mode.sticking if np.isfinite(friction[i])]
        first = self.values(np.array([phase.time]), phase.state[None])[0] if self.guards else np.zeros(0)
        units = np.array([self._unit(guard) for guard in self.guards])
        self.zero = np.abs(first) <= AT_ZERO * units
        self.first = first
        # a contact that parts with a speed is known to: nothing of it is noise
        self.noise = NOISE * units * ~np.array([self._parts(guard) for guard in self.guards], dtype=bool)

    def values(self, t: Array, y: Array) -> Array:
        """(m, guards)"""
        scene, mode = self.phase.scene, self.phase.mode
        q, v = scene.motion.split(y)
        gaps, u = scene.gaps(q), scene.contact_velocity(q, v)
        needs_forces = any(guard.kind in (LIFT_OFF, SLIP) for guard in self.guards)
        forces = self.phase.loads(t, y).contacts if needs_forces else np.zeros((len(t), scene.count, 3))
        columns = []
        for kind, i in self.guards:
            if kind == TOUCHDOWN:
                columns.append(gaps[:, i])
            elif i in self.footings:
                columns.append(self._trails(kind, i, t, y))
            elif kind == STICK:
                along = u[:, i, 1:] @ mode.directions[i]
                turns = 3 * i + 2 in self.phase.moving_rows
                columns.append(np.minimum(along, np.hypot(u[:, i, 1], u[:, i, 2]) - self.stopped) if turns else along)
            elif kind == LIFT_OFF:
                columns.append(forces[:, i, 0])
            elif kind == SLIP:
                columns.append(self.phase.friction[i] * forces[:, i, 0] - np.hypot(forces[:, i, 1], forces[:, i, 2]))
            else:
                columns.append(self._sliding_inertia(t, q, v, i))
        return np.array(columns).T.reshape(len(t), len(self.guards))

    def _trails(self, kind: str, i: int, t: Array, y: Array) -> Array:
        """Of a trailing foot: positive while nothing grips it (stick), or while it does not rise (lift-off)."""
        return -self.footings[i].grip(t, y) if kind == STICK else -self.footings[i].rise(t, y)

    def first_zero(self, start: float, end: float, interpolant: Polynomial) -> tuple[float, list[Guard]] | None:
        """The earliest end of the phase in a step, with all guards that end it then."""
        if not self.guards:
            return None
        times = start + (end - start) * SAMPLES
        if start > self.phase.time:
            times = np.concatenate([[start], times])
        values = self._told(times, interpolant)
        found = [self._root(g, times, values[:, g], interpolant) for g in range(len(self.guards))]
        hits = [time for time in found if time is not None]
        if not hits:
            return None
        earliest = min(hits)
        fired = [
            g for g, time in zip(self.guards, found, strict=True) if time is not None and time <= earliest + TOGETHER
        ]
        return earliest, fired

    def _root(self, g: int, times: Array, values: Array, interpolant: Polynomial) -> float | None:
        from scipy.optimize import brentq

        def value(t: float) -> float:
            return float(self._deflated(np.array([t]), interpolant)[0, g])

        before: tuple[float, float] | None = None
        start = self.phase.time
        for n, (t, x) in enumerate(zip(times.tolist(), values.tolist(), strict=True)):
            if np.isnan(x):
                continue  # too early to tell
            if x <= 0 and self.zero[g] and before is None and times[0] > start:
                before = self._just_after(t, value)
                if before is None and self._counts(g, start, interpolant):
                    return start
            low = self._dip(g, n, times, values, value) if x > 0 else t
            if low is not None and before is not None and before[1] > 0:
                at = float(brentq(value, before[0], low, xtol=1e-300, rtol=1e-15)) if low > before[0] else low
                if self._counts(g, at, interpolant):
                    return at
            before = (t, x)
        return None

    def _just_after(self, t: float, value: Callable[[float], float]) -> tuple[float, float] | None:
        """A time between the start of the phase and t at which the guard is positive."""
        start = self.phase.time
        for share in (1e-2, 1e-4, 1e-6):
            early = start + share * (t - start)
            if early > start and value(early) > 0:
                return early, value(early)
        return None

    def _dip(self, g: int, n: int, times: Array, values: Array, value: Callable[[float], float]) -> float | None:
        """A time at which a gap that grazes between samples n − 1 and n + 1 is below zero."""
        if self.guards[g].kind != TOUCHDOWN or not 0 < n < len(times) - 1 or self.zero[g]:
            return None
        excess = min(values[n - 1], values[n + 1]) - values[n]
        if not (excess > 0 and values[n - 1] > 0 and values[n] < GRAZING * excess + excess):
            return None
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(value, bounds=(times[n - 1], times[n + 1]), method="bounded", options={"xatol": 1e-10})
        return float(found.x) if found.fun <= 0 else None

    def _counts(self, g: int, t: float, interpolant: Polynomial) -> bool:
        """Whether a touchdown is admitted; other guards always count."""
        kind, i = self.guards[g]
        if kind != TOUCHDOWN or self.admits is None:
            return True
        q, v = self.phase.scene.motion.split(interpolant(t))
        return bool(self.admits(self.phase.scene.contacts.names[i], t, q, v))

    def _deflated(self, times: Array, interpolant: Polynomial) -> Array:
        """The guards; those that are zero at the start as their mean rate since then."""
        values = self.values(times, states(interpolant, times))
        since = times - self.phase.time
        for g in np.flatnonzero(self.zero):
            values[:, g] = (values[:, g] - self.first[g]) / np.where(since > 0, since, np.inf)
        return values

    def _told(self, times: Array, interpolant: Polynomial) -> Array:
        """The same, NaN where it is too early to tell."""
        values = self._deflated(times, interpolant)
        since = (times - self.phase.time)[:, None]
        return np.where(self.zero & (np.abs(values) * since < self.noise), np.nan, values)

    def _parts(self, guard: Guard) -> bool:
        if guard.kind != TOUCHDOWN:
            return False
        u = self.phase.scene.contact_velocity(*self.phase.scene.motion.split(self.phase.state))
        return float(u[guard.contact, 0]) > AT_ZERO

    def _unit(self, guard: Guard) -> float:
        if guard.kind in (LIFT_OFF, SLIP):
            forces = self.phase.loads(np.array([self.phase.time]), self.phase.state[None]).contacts
            # the rounding of a spring's force is that of its length
            return max(1.0, float(np.abs(forces).max(initial=0.0)), self.loading.get(guard.contact, 0.0))
        return 0.0 if guard.kind == JAM else 1.0

    def _sliding_inertia(self, t: Array, q: Array, v: Array, i: int) -> Array:
        """By itself, with the constraints of the mode but without its other contacts."""
        at = self.phase.scene.at(t, q, v)
        directions = self.phase.slip_directions(q, v)
        shares = []
        for m in range(len(t)):
            rows = np.concatenate([at.A[m, self.phase.kept], self.phase.holds])
            G = response(at.M[m], rows, at.J[m, 3 * i : 3 * i + 3]).G
            shares.append((G[0, 0] - self.phase.friction[i] * G[0, 1:] @ directions[m, i]) / G[0, 0] - JAMMED)
        return np.array(shares)


def states(interpolant: Polynomial, times: Array) -> Array:
    """The interpolant at many times (m, n)."""
    tau = (times - interpolant.start) / interpolant.length
    moved = basis_integrals(tau, len(interpolant.coefficients)) @ interpolant.coefficients
    return np.asarray(interpolant.origin + interpolant.length * moved)
