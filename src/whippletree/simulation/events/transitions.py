"""Course of an event: an impact if something approaches, then the mode that complementarity asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.contact_modes import STICK, Mode, open_mode
from whippletree.contact.impact.impact import Impact, Outcome, holding_rows, response
from whippletree.contact.impact.laws import Energetic, Law, Plastic
from whippletree.contact.problem import active_set
from whippletree.contact.problem.active_set import OPEN, SLIDE
from whippletree.contact.problem.sliding_combinations import RANK_OF_LOADS
from whippletree.errors import IntegrationError, SingularSystemError
from whippletree.simulation.events.equations import At, EventEquations
from whippletree.simulation.events.guards import LIFT_OFF, SLIP, TOUCHDOWN, Guard
from whippletree.simulation.events.massless_feet.foot_contact import settle_feet
from whippletree.simulation.events.phase import Phase

STAYS = 1e-11
"""Share of the largest contact acceleration below which a contact does not part, or does not begin to slip."""

JAMS = 5
"""Impacts without collision that may follow each other at one instant."""

UNSTOPPED = 1e-6
"""Share of the impact's speed up to which contacts may approach after it, by rounding of the law."""

WITHOUT_COLLISION = "impact without collision"


class Change(NamedTuple):
    """The outcome of an event."""

    mode: Mode
    state: Array
    entries: tuple[tuple[str, int], ...]
    """(kind, contact) of all that happened."""
    energy_lost: float
    impulses: Array
    """On all candidates, N s, (k, 3): normal, tangents 1 and 2."""
    struck: tuple[int, ...]
    """Contacts that took part in an impact; none if there was none."""
    law: Law | None


class _FoundMode(NamedTuple):
    """A mode, and what impacts without collision made before it was found."""

    mode: Mode
    v: Array
    jams: list[int]
    energy_lost: float
    impulses: Array


@dataclass(frozen=True, eq=False)
class Transitions:
    """The rules of one run."""

    scene: EventEquations
    law: Law | None
    """None for what the contacts that take part ask for."""
    gap_tolerance: float
    """Candidates nearer than this, m, touch."""
    speed_tolerance: float
    """Contact velocities below this, m/s, are none."""
    lean: float = 0.0
    """Share of the largest contact acceleration up to which a contact does not part, where events repeat at one
    instant; otherwise STAYS."""

    def change(self, t: float, y: Array, mode: Mode, fired: Sequence[Guard], touching: Sequence[int]) -> Change:
        """From a state at an event to the mode after it; ``touching``: candidates that are at their partner."""
        q, v = self.scene.motion.split(y)
        u = self.scene.contact_velocity(q, v)
        entries = [(guard.kind, guard.contact) for guard in fired if guard.kind == TOUCHDOWN]
        lost, impulses, law = 0.0, np.zeros((self.scene.count, 3)), None
        struck: tuple[int, ...] = ()
        if any(u[i, 0] < -self.speed_tolerance for i in touching):
            struck = tuple(i for i in touching if not self.scene.pressed[i])
            law = self.law_for(struck)
            known = {contact for _, contact in entries}
            entries += [(TOUCHDOWN, i) for i in touching if mode.status[i] == OPEN and i not in known and u[i, 0] < 0]
            outcome = self.strike(t, q, v, struck, law)
            v, lost, impulses[list(struck)] = outcome.v, outcome.energy_lost, outcome.impulses
            fired = [guard for guard in fired if guard.kind != TOUCHDOWN]  # what landed has been struck
        found = self._mode(t, q, v, mode, fired, touching)
        v = self._part_contacts(t, q, found.v, found.mode, touching)
        entries += [(WITHOUT_COLLISION, i) for i in found.jams]
        entries += _differences(mode, found.mode)
        lost, impulses = lost + found.energy_lost, impulses + found.impulses
        return Change(found.mode, np.concatenate([q, v]), tuple(entries), lost, impulses, struck, law)

    def law_for(self, contacts: Sequence[int]) -> Law:
        """The run's law, or the one that these contacts ask for."""
        if self.law is not None:
            return self.law
        from whippletree.contact.impact.laws import default_law, law_named

        own = {self.scene.contacts.candidates[i].law for i in contacts}
        if own == {None}:
            return default_law(
                self.scene.contacts.friction[list(contacts)], self.scene.contacts.restitution[list(contacts)]
            )
        return law_named(own.pop() or "plastic") if len(own) == 1 else Energetic()

    def strike(self, t: float, q: Array, v: Array, contacts: Sequence[int], law: Law) -> Outcome:
        """The outcome of an impact of these contacts."""
        impact, names = self.impact(t, q, v, contacts), ", ".join(self.scene.contacts.names[i] for i in contacts)
        try:
            outcome = impact.resolve(law)
        except SingularSystemError as error:
            raise IntegrationError(f"the run stopped at t = {t:.9g} s, at an impact of {names}: {error}", t) from None
        left = max(UNSTOPPED * float(np.abs(impact.J @ v).max(initial=0.0)), self.speed_tolerance)
        if np.any(impact.J[::3] @ outcome.v < -left):
            raise IntegrationError(
                f"the run stopped at t = {t:.9g} s, at an impact of {names}: no impulse stops it. A prescribed motion "
                f"drives the bodies together, and friction wedges what is left free. Let the drive give way (a motor "
                f"with a force, a spring), or lower the friction",
                t,
            )
        return outcome

    def impact(self, t: float, q: Array, v: Array, contacts: Sequence[int]) -> Impact:
        """An impact of these contacts, just before it; the last one is kept, with what a law has made of it."""
        key = t, q.tobytes(), v.tobytes(), tuple(contacts)
        if self.scene.last_impact is None or self.scene.last_impact[0] != key:
            at = self.scene.at(np.array([t]), q[None], v[None])
            rows, own = [3 * i + j for i in contacts for j in range(3)], self.scene.contacts
            friction, restitution = own.friction[list(contacts)], own.restitution[list(contacts)]
            found = Impact(at.M[0], at.A[0, self.rigid_rows], at.J[0, rows], v, friction, restitution)
            self.scene.last_impact = key, found
        return self.scene.last_impact[1]

    @property
    def rigid_rows(self) -> list[int]:
        """The rows of the scene that hold through an impact."""
        return [n for n in self.scene.firm if not self.scene.compliance[n]]

    def _part_contacts(self, t: float, q: Array, v: Array, mode: Mode, touching: Sequence[int]) -> Array:
        """The velocity with which contacts that open do not approach: what is left of an approach, below the
        tolerance, would close them again at the same instant."""
        u = self.scene.contact_velocity(q, v)[:, 0]
        near = [i for i in touching if abs(u[i]) <= self.speed_tolerance]
        if not any(u[i] < 0 and mode.status[i] == OPEN for i in near):
            return v
        at = self.scene.at(np.array([t]), q[None], v[None])
        held = at.A[0, self.rigid_rows]
        J = at.J[0, [3 * i for i in near]]
        answer = response(at.M[0], np.concatenate([held, holding_rows(at.M[0], held)]), J)
        return np.asarray(v - answer.W @ np.linalg.lstsq(answer.G, J @ v, rcond=RANK_OF_LOADS)[0])

    def _mode(
        self, t: float, q: Array, v: Array, mode: Mode, fired: Sequence[Guard], touching: Sequence[int]
    ) -> _FoundMode:
        """The mode, and the velocity after impacts without collision that it took to find one."""
        jams: list[int] = []
        lost, impulses = 0.0, np.zeros((self.scene.count, 3))
        for _ in range(JAMS):
            after, stuck = self.select_mode(t, q, v, mode, fired, touching)
            if after is not None:
                return _FoundMode(after, v, jams, lost, impulses)
            stuck = stuck[:1]
            outcome = self.strike(t, q, self._settle(t, q, v, stuck), stuck, Energetic())
            if not np.any(outcome.impulses):
                stuck = [i for i in touching if not self.scene.pressed[i]]
                outcome = self._press(t, q, v, stuck)
            v, lost = outcome.v, lost + outcome.energy_lost
            impulses[stuck] += outcome.impulses
            jams += stuck
            fired = ()
        names = ", ".join(self.scene.contacts.names[i] for i in touching)
        raise IntegrationError(
            f"the run stopped at t = {t:.9g} s: no combination of open, sticking and sliding contacts among {names} "
            f"meets the laws of contact and friction",
            t,
        )

    def _settle(self, t: float, q: Array, v: Array, contacts: Sequence[int]) -> Array:
        """The velocity without what is left of these contacts' normal velocities, which count as none."""
        closed = open_mode(self.scene.count).trailing(contacts)
        return Phase(self.scene, closed, t, np.concatenate([q, v])).velocity_projected(t, q, v)

    def _press(self, t: float, q: Array, v: Array, contacts: Sequence[int]) -> Outcome:
        """The plastic impact of contacts that jam each other, though none would alone: that of the forces which press
        them together, over a time in which these change no contact velocity by more than is none.

        Where accelerations have an answer this is a short piece of the motion; where they have none its impulse is as
        large as the slips ask for, however short the time.
        """
        u = self.scene.contact_velocity(q, v)
        near = [i for i in contacts if abs(u[i, 0]) <= self.speed_tolerance]
        slow = [i for i in near if np.hypot(*u[i, 1:]) <= self.speed_tolerance]
        flight, time, y = open_mode(self.scene.count), np.array([t]), np.concatenate([q, v])[None]
        rested = Phase(self.scene, flight.trailing(near).with_sticking(slow), t, y[0]).velocity_projected(t, q, v)
        if np.abs(self.scene.contact_velocity(q, rested) - u).max() <= self.speed_tolerance:
            v = rested  # what is left of slow velocities would hide who stands in whose way
        free = Phase(self.scene, flight, t, y[0]).loads(time, y).a[0]
        at, rows = self.scene.at(time, q[None], v[None]), [3 * i + j for i in contacts for j in range(3)]
        fastest = float(np.abs(at.J[0, rows] @ free + at.beta[0, rows]).max())
        return self.strike(t, q, v + self.speed_tolerance / fastest * free, contacts, Plastic())

    def mode_stays(self, t: float, q: Array, v: Array, mode: Mode) -> bool:
        """Whether some forces of a mode that holds already meet the laws of contact, or complementarity asks for
        another one."""
        found, _ = self.select_mode(t, q, v, mode, (), mode.closed, stays=True)
        return found is not None and found.status == mode.status

    def select_mode(
        self,
        t: float,
        q: Array,
        v: Array,
        mode: Mode,
        fired: Sequence[Guard],
        touching: Sequence[int],
        *,
        stays: bool = False,
    ) -> tuple[Mode | None, list[int]]:
        """The mode by complementarity, with what the guards that fired say; else None and the contacts that jam.

        ``stays``: whether the mode before is the first that is tried.
        """
        u = self.scene.contact_velocity(q, v)
        near = [i for i in touching if u[i, 0] <= self.speed_tolerance]
        at = self.scene.at(np.array([t]), q[None], v[None])
        lifted = {guard.contact for guard in fired if guard.kind == LIFT_OFF}
        light = self.scene.weightless(at, near)
        heavy = [i for i in near if i not in light]
        rest = mode.with_open([i for i in range(self.scene.count) if i not in near or i in lifted])
        # a foot that trailed and rises is open; of every other one its forces tell
        standing = [i for i in light if not (i in lifted and mode.trails(i))]
        slipping = [i for i in standing if self._slips(fired, i)]
        rest = settle_feet(self.scene, rest, standing, slipping, sorted(lifted), t, np.concatenate([q, v]))
        directions = np.array([self._slip(u[i], mode, fired, i) for i in heavy]).reshape(-1, 2)
        forced = [OPEN if i in lifted else SLIDE if self._slips(fired, i) else None for i in heavy]
        G, b, terms = self._pose_problem(at, heavy, [i for i in light if rest.status[i] == STICK])
        friction = self.scene.contacts.friction[heavy]
        problem = active_set.problem(G, b, friction, directions)
        jams = [n for n in range(len(heavy)) if np.any(directions[n]) and problem.sliding_inertia(n) <= 0]
        answer = None
        if any(choice is not None for choice in forced):
            answer = active_set.solve(active_set.problem(G, b, friction, directions, forced, terms))
        if answer is None:
            answer = active_set.solve(problem, tuple(rest.status[i] for i in heavy) if stays else None)
        if answer is None:
            return None, [heavy[n] for n in jams]
        rates = (G @ answer.p.reshape(-1) + b).reshape(-1, 3)
        small = max(STAYS, self.lean) * float(np.abs(b).max(initial=0.0))
        # one that comes back without a speed is about to be pressed, and no force would balance that
        landed = {guard.contact for guard in fired if guard.kind == TOUCHDOWN}
        back = [heavy[n] for n in jams if heavy[n] in landed and answer.status[n] == OPEN]
        if back:
            return None, back
        closing = [n for n in range(len(heavy)) if forced[n] is None and n not in jams]
        return rest.with_answer(heavy, _staying(answer, problem, rates, closing, small)), []

    def _slip(self, u: Array, mode: Mode, fired: Sequence[Guard], i: int) -> Array:
        """The direction of slip (2,): of the velocity, or of the slip that is about to begin; zeros if it may stick."""
        speed = float(np.hypot(u[1], u[2]))
        if speed > self.speed_tolerance:
            return np.asarray(u[1:] / speed)
        return mode.directions[i] if self._slips(fired, i) else np.zeros(2)

    def _slips(self, fired: Sequence[Guard], i: int) -> bool:
        return any(guard.kind == SLIP and guard.contact == i for guard in fired)

    def _pose_problem(self, at: At, heavy: Sequence[int], light: Sequence[int]) -> tuple[Array, Array, float]:
        """G and b of the contacts with mass behind them, at the level of accelerations, and the size of b's terms."""
        if not heavy:  # nothing to find, which a dead point must not stand in the way of
            return np.zeros((0, 0)), np.zeros(0), 0.0
        firm = self.scene.firm
        own = [3 * i + j for i in light for j in range(3) if np.any(at.J[0, 3 * i + j])]
        held = np.concatenate([at.A[0, firm], at.J[0, own]])
        bias = np.concatenate([at.gamma[0, firm], at.beta[0, own]])
        holds = holding_rows(at.M[0], held)
        held = np.concatenate([held, holds])
        soft = np.zeros(len(held))
        soft[: len(firm)] = self.scene.compliance[firm]
        rows = [3 * i + j for i in heavy for j in range(3)]
        J = at.J[0, rows]
        answer = response(at.M[0], held, J, soft)
        loads = np.concatenate([at.b[0], -bias, np.zeros(len(holds))])
        free = answer.inverse[: answer.n] @ loads
        # |J a| ≤ √(J M† Jᵀ) √(aᵀ M a), also where the terms of J a cancel
        inertia = np.sqrt(max(float(np.diag(answer.G).max(initial=0.0)), 0.0) * max(float(free @ at.M[0] @ free), 0.0))
        G, b = answer.G, J @ free + at.beta[0, rows]
        for k, i in enumerate(heavy):
            if self.scene.pressed[i]:  # a normal of its own, on which that force lies as a weight on a block
                G[3 * k, 3 * k] = G[3 * k + 1, 3 * k + 1] or 1.0
                b[3 * k] = -G[3 * k, 3 * k] * self.scene.pressed[i]
        return G, b, inertia + float(np.abs(at.beta[0, rows]).max(initial=0.0))


def _staying(
    answer: active_set.SlidingAnswer,
    problem: active_set.SlidingProblem,
    rates: Array,
    closing: Sequence[int],
    small: float,
) -> active_set.SlidingAnswer:
    """The answer with contacts that carry nothing but do not part either, by more than a small acceleration, as closed:
    where forces are not unique, one contact may do without any, and the motion is the same.

    Args:
        answer, problem: what was found, and of what.
        rates: accelerations of the contacts, (k, 3).
        closing: those for which no guard has told what they do, and which would not jam.
        small: m/s².
    """
    status, directions = list(answer.status), answer.directions.copy()
    for i in closing:
        if status[i] == OPEN and rates[i, 0] <= small:
            status[i], directions[i] = SLIDE, problem.directions[i]
        if status[i] == SLIDE and not problem.slides_already(i):
            slip = float(np.hypot(*rates[i, 1:]))
            status[i], directions[i] = (STICK, np.zeros(2)) if slip <= small else (SLIDE, rates[i, 1:] / slip)
    return active_set.SlidingAnswer(answer.p, tuple(status), directions)


def _differences(before: Mode, after: Mode) -> list[tuple[str, int]]:
    """Changes of the contacts that were closed; touchdowns are reported by their guards."""
    entries = []
    for i, (old, new) in enumerate(zip(before.status, after.status, strict=True)):
        if old != OPEN and new == OPEN:
            entries.append(("lift-off", i))
        elif old == STICK and new == SLIDE:
            entries.append(("slip", i))
        elif old == SLIDE and new == STICK:
            entries.append(("stick", i))
        elif old == SLIDE and new == SLIDE and before.directions[i] @ after.directions[i] < 0:
            entries.append(("reversal", i))
    return entries
