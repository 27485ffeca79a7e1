"""Simulation from event to event: smooth motion in one mode of contact, then what the event makes of it.

Touchdown, lift-off, the ends of slip and of sticking are located on the integrator's polynomial. At an impact the law
gives the velocities, and complementarity the mode (:mod:`whippletree.simulation.transitions`). Impacts that accumulate
(Zeno) end in contact at the time to which they converge. Every cap ends the run with its reason, never in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np

from whippletree.contact.laws import Law, Plastic, law_named
from whippletree.contact.modes import OPEN, Mode, open_mode
from whippletree.errors import AssemblyError, SingularSystemError
from whippletree.simulation import event_output
from whippletree.simulation.adaptive import memo_of, progress_of
from whippletree.simulation.event_log import EventLog, accumulation
from whippletree.simulation.event_output import Output
from whippletree.simulation.guards import SLIP, TOUCHDOWN, Admits, Guard, Guards
from whippletree.simulation.integrator import Crawl, IntegrationError, Integrator, Piece, Progress, Statistics
from whippletree.simulation.method import Chunk, Memo, Method, Task, Variable
from whippletree.simulation.phase import Phase
from whippletree.simulation.scene import Scene
from whippletree.simulation.sensitivity import through
from whippletree.simulation.transitions import Change, Transitions

Array = np.ndarray[Any, Any]

AT_ONCE = 50
"""Events that may follow each other at one instant."""

AT_ONCE_WITHIN = 1e-9
"""s"""

PATIENCE = 8
"""Events at one instant after each of which contact velocities ten times as large are taken as none: slips that stop
together are not told apart by rounding."""

TOWARDS_STOP = 0.25
"""Share of the time to the stop of a turning slip that a step may take."""

HALVINGS = 40
"""Of the interval in which a hyperstatic mode ends."""


LEAN = 1e-10
"""Share of the largest contact acceleration that counts as none where events repeat at one instant, to begin with."""


class Events(Method):
    """Event-driven simulation of contact."""

    options: ClassVar[tuple[str, ...]] = (
        "impact_law", "penetration", "speed_tolerance", "zeno_interval", "most_events", "admits", "saltation",
    )  # fmt: skip
    counters = ("statistics",)

    def __init__(
        self,
        task: Task,
        impact_law: str | Law | None = None,
        penetration: float = 1e-9,
        speed_tolerance: float = 1e-9,
        zeno_interval: float = 1e-6,
        most_events: int = 10_000,
        admits: Admits | None = None,
        saltation: bool = True,
    ) -> None:
        """What ``wt.simulate(..., method="events")`` takes beside the usual.

        Args:
            task: what to simulate.
            impact_law: a name or a law; default: what the contacts' restitution and friction call for.
            penetration: depth, m, up to which a start state counts as touching; candidates nearer than this touch.
            speed_tolerance: contact velocities below this, m/s, are taken as none.
            zeno_interval: impacts that accumulate end in contact when less than this, s, is between them.
            most_events: after as many the run stops and says so.
            admits: f(contact, t, q, v): whether a touchdown counts; a contact that does not count passes through.
            saltation: whether saltation matrices are computed.
        """
        super().__init__(task)
        self.scene = Scene(task.motion)
        law = None if impact_law is None else law_named(impact_law)
        self.rules = Transitions(self.scene, law, penetration, speed_tolerance)
        self.zeno_interval, self.most_events = zeno_interval, most_events
        self.admits, self.with_saltation = admits, saltation
        self.log = EventLog(self.scene.contacts.names)
        self.statistics = Statistics()
        self._impacts: list[tuple[float, tuple[int, ...]]] = []
        self._repeats = (0.0, 0)
        self._impatience = 0

    # --- output -------------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> dict[str, Variable]:
        return event_output.variables(self.scene)

    @property
    def _mode_number(self) -> int:
        return len(self.log.modes) - 1

    def _output(self, phase: Phase, piece: Piece, end: float) -> Output:
        return event_output.sampled(phase, self._mode_number, piece, end, self.task.times)

    def account(self) -> dict[str, Any]:
        largest = self._rules_after(self._impatience)
        tolerances = {"speed_tolerance": largest.speed_tolerance, "acceleration_share": largest.lean}
        return self.log.account() | asdict(self.statistics) | tolerances

    # --- the run ------------------------------------------------------------------------------------------------------

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        times = self.task.times
        end = float(times[-1])
        if memo is None:
            phase, found = self._begun(float(times[0]), self.task.start)
            progress = Progress(phase.time, phase.state)
            start = event_output.rows(phase, self._mode_number, times[:1], phase.state[None])
            yield self._chunk(phase, progress, start, found)
        else:
            phase, progress = self._recalled(memo)
        while progress.time < end:
            for chunk, then, reached in self._smooth(phase, progress, end):
                phase, progress = then, reached
                yield chunk
            if self._stopped:
                return

    def _smooth(self, phase: Phase, progress: Progress, end: float) -> Iterator[tuple[Chunk, Phase, Progress]]:
        """One phase to its end, chunk by chunk; the last one has the phase after it."""
        self._stopped = False
        loops = bool(self.task.motion.model.constraints)
        integrator = Integrator(
            phase, self.task.rtol, self.task.atol, self.task.events, dead_points=loops, statistics=self.statistics
        )
        guards = Guards(phase, self.admits, self.rules.speed_tolerance / 2)
        crawl = Crawl(progress.time, end)
        for piece in integrator.pieces(progress, end):
            crawl.watch(piece.end)
            # slip that turns comes to its stop ever faster: steps that reach beyond it would not converge
            integrator.largest_step = TOWARDS_STOP * phase.time_to_stop(piece.end, piece.state)
            hit = guards.first_zero(piece.start, piece.end, piece.interpolant)
            if hit is None and phase.hyperstatic and phase.mode.sticking:
                hit = self._rearranged(phase, piece)
            if hit is None:
                self._stopped = bool(piece.found) and self._terminal(piece)
                rows = self._output(phase, piece, piece.end)
                yield self._chunk(phase, piece.progress, rows, list(piece.found)), phase, piece.progress
                continue
            time, fired = hit
            found = [event for event in piece.found if event[1] <= time]
            state = phase.project(time, piece.interpolant(time))
            rows = self._output(phase, piece, time)
            after, events = self._passed(phase, time, state, fired)
            progress = Progress(after.time, after.state)
            yield self._chunk(after, progress, rows, [*found, *events]), after, progress
            return

    def _terminal(self, piece: Piece) -> bool:
        names = {name for name, _ in piece.found}
        return any(event.terminal and event.name in names for event in self.task.events)

    def _rearranged(self, phase: Phase, piece: Piece) -> tuple[float, list[Guard]] | None:
        """Where a hyperstatic mode, whose forces are not unique, no longer meets the laws of contact."""
        if self._still(phase, piece.end, piece.state):
            return None
        low, high = piece.start, piece.end
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self._still(phase, middle, piece.interpolant(middle)):
                low = middle
            else:
                high = middle
        return high, []

    def _still(self, phase: Phase, t: float, y: Array) -> bool:
        q, v = self.scene.motion.split(phase.project(t, y))
        mode, _ = self.rules.selected(t, q, v, phase.mode, (), phase.mode.closed)
        return mode is not None and mode.status == phase.mode.status

    # --- events -------------------------------------------------------------------------------------------------------

    def _begun(self, t: float, y: Array) -> tuple[Phase, list[tuple[str, float]]]:
        """The first phase: contacts that touch already, and an impact if they approach."""
        q, v = self.scene.motion.split(y)
        gaps = self.scene.gaps(q)
        counted = [i for i in range(self.scene.count) if self._admitted(i, t, q, v)]
        deep = {self.scene.contacts.names[i]: -gaps[i] for i in counted if gaps[i] < -self.rules.gap_tolerance}
        if deep:
            listed = ", ".join(f"{name!r} by {depth:.6g} m" for name, depth in deep.items())
            raise AssemblyError(
                f"model {self.scene.model.name!r}: the start state penetrates: {listed}. Move the bodies apart (or "
                f"start from a state that touches), or raise penetration = {self.rules.gap_tolerance:g} m.",
                q,
                {name: float(depth) for name, depth in deep.items()},
            )
        touching = [i for i in counted if gaps[i] <= self.rules.gap_tolerance]
        try:
            change = self.rules.change(t, y, open_mode(self.scene.count), [], touching)
            return self._entered(t, y, change, None, [])
        except IntegrationError as error:  # nothing has been simulated yet: the start itself is at fault
            raise SingularSystemError(f"model {self.scene.model.name!r}: {error}") from None

    def _admitted(self, i: int, t: float, q: Array, v: Array) -> bool:
        return self.admits is None or bool(self.admits(self.scene.contacts.names[i], t, q, v))

    def _passed(self, phase: Phase, t: float, y: Array, fired: list[Guard]) -> tuple[Phase, list[tuple[str, float]]]:
        """The phase after an event, and the event's names."""
        self._count(t)
        mode = self._with_onsets(phase, t, y, fired)
        touching = self._touching(phase, t, y, fired)
        change = self._relaxed_rules().change(t, y, mode, fired, touching)
        return self._entered(t, y, change, phase, fired)

    def _relaxed_rules(self) -> Transitions:
        """The rules; where events repeat at one instant, with larger tolerances; the result reports the largest."""
        impatience = self._repeats[1] // PATIENCE
        self._impatience = max(self._impatience, impatience)
        return self._rules_after(impatience)

    def _rules_after(self, impatience: int) -> Transitions:
        """The tolerances after so many rounds of patience: of speeds, and of the share of the largest acceleration up
        to which a contact counts as pressed."""
        tolerance = self.rules.speed_tolerance * 10.0**impatience
        return replace(self.rules, speed_tolerance=tolerance, lean=LEAN * 100.0**impatience if impatience else 0.0)

    def _with_onsets(self, phase: Phase, t: float, y: Array, fired: list[Guard]) -> Mode:
        """The mode with the directions in which slip is about to begin: against the friction that held."""
        directions = phase.mode.directions.copy()
        for guard in fired:
            if guard.kind == SLIP:
                friction = phase.loads(np.array([t]), y[None]).contacts[0, guard.contact, 1:]
                directions[guard.contact] = -friction / max(float(np.hypot(*friction)), 1e-300)
        return replace(phase.mode, directions=directions)

    def _touching(self, phase: Phase, t: float, y: Array, fired: list[Guard]) -> list[int]:
        """Closed contacts, those that have just closed, others that arrive at the same instant or rest at no gap."""
        q, v = self.scene.motion.split(y)
        gaps, u = self.scene.gaps(q), self.scene.contact_velocity(q, v)
        landed = {guard.contact for guard in fired if guard.kind == TOUCHDOWN}
        arriving = {
            i
            for i in range(self.scene.count)
            if phase.mode.status[i] == OPEN
            and abs(gaps[i]) <= self.rules.gap_tolerance
            and (u[i, 0] if landed else abs(u[i, 0])) < self.rules.speed_tolerance
            and self._admitted(i, t, q, v)
        }
        return sorted({*phase.mode.closed, *landed, *arriving})

    def _entered(
        self, t: float, y: Array, change: Change, before: Phase | None, fired: list[Guard]
    ) -> tuple[Phase, list[tuple[str, float]]]:
        phase = self._phase(change.mode, t, change.state)
        named = self.log.events(t, change.entries, change.energy_lost)
        if change.entries:
            self.log.instant(t, y, phase.state)
        if before is not None and self.with_saltation and change.entries:
            self._note_saltation(before, phase, t, y, change, fired)
        if change.struck:
            self._impacts = [*self._impacts[-3:], (t, change.struck)]
            limit = accumulation([time for time, _ in self._impacts], self.zeno_interval)
            if limit is None and self._hammers():
                limit = t
            if limit is not None:
                phase, more = self._settled(phase, t, limit)
                named += more
        self.log.mode(t, phase.mode)
        return phase, named

    def _phase(self, mode: Mode, t: float, state: Array) -> Phase:
        raw = Phase(self.scene, mode, t, state)
        return Phase(self.scene, mode, t, raw.project(t, state))

    def _hammers(self) -> bool:
        """Whether one contact is struck again and again at one instant: hops too short to be told apart."""
        return self._repeats[1] >= PATIENCE and bool(set.intersection(*(set(c) for _, c in self._impacts)))

    def _settled(self, phase: Phase, t: float, limit: float) -> tuple[Phase, list[tuple[str, float]]]:
        """Accumulating impacts end in contact: what is left of the approach is stopped plastically."""
        contacts = sorted({i for _, struck in self._impacts for i in struck})
        q, v = self.scene.motion.split(phase.state)
        outcome = self.rules.struck(t, q, v, contacts, Plastic())
        # at rest against each other: the plastic law may have left some separating, at the speed of the last bounce
        plain = Transitions(self.scene, Plastic(), self.rules.gap_tolerance, self._last_speed(phase, contacts))
        change = plain.change(t, np.concatenate([q, outcome.v]), phase.mode, [], contacts)
        self._impacts = []
        named = self.log.events(limit, [("zeno", i) for i in contacts], outcome.energy_lost)
        return self._phase(change.mode, t, change.state), named

    def _last_speed(self, phase: Phase, contacts: list[int]) -> float:
        u = self.scene.contact_velocity(*self.scene.motion.split(phase.state))
        return 2 * float(np.abs(u[contacts, 0]).max()) + self.rules.speed_tolerance

    def _count(self, t: float) -> None:
        """Refuse to go on where events do not end."""
        last, repeats = self._repeats
        self._repeats = (t, repeats + 1 if t - last <= AT_ONCE_WITHIN else 0)
        if self._repeats[1] > AT_ONCE:
            names = ", ".join(dict.fromkeys(self.scene.contacts.names[i] for i in self.log.contacts[-AT_ONCE:]))
            raise IntegrationError(
                f"the run stopped at t = {t:.9g} s: more than {AT_ONCE} events at one instant, of {names}: what these "
                f"contacts do next is not determined. Other friction, or a body with more mass, may cure it",
                t,
            )
        if len(self.log.times) > self.most_events:
            raise IntegrationError(
                f"the run stopped at t = {t:.9g} s after {len(self.log.times)} events (most_events = "
                f"{self.most_events}): raise it, or zeno_interval = {self.zeno_interval:g} s",
                t,
            )

    def _note_saltation(
        self, before: Phase, after: Phase, t: float, y: Array, change: Change, fired: list[Guard]
    ) -> None:
        """The saltation matrix of an instant; none where the event is grazed."""
        matrix = through(self.rules, before, after, t, y, change, fired)
        if matrix is not None:
            self.log.matrix(t, matrix)

    # --- chunks and memos ---------------------------------------------------------------------------------------------

    def _chunk(self, phase: Phase, progress: Progress, rows: Output, found: list[tuple[str, float]]) -> Chunk:
        """Output, with all that is needed to go on in a phase."""
        impacts = self._impacts
        members = np.array([[i in struck for i in range(self.scene.count)] for _, struck in impacts], dtype=int)
        memo = memo_of(progress) | self.log.memo()
        memo |= {
            "phase_time": np.array(phase.time),
            "phase_state": phase.state,
            "phase_status": np.array(phase.mode.status, dtype=int),
            "phase_directions": phase.mode.directions,
            "phase_forces": np.zeros((0, 3)) if phase.mode.forces is None else phase.mode.forces,
            "impact_times": np.array([time for time, _ in impacts]),
            "impact_members": members.reshape(len(impacts), self.scene.count),
            "repeats": np.array([*self._repeats, self._impatience]),
        }
        return Chunk(rows.times, rows.states, memo, tuple(found), rows.variables)

    def _recalled(self, memo: Memo) -> tuple[Phase, Progress]:
        self.log.recall(memo)
        forces = memo["phase_forces"] if len(memo["phase_forces"]) else None
        mode = Mode(tuple(int(s) for s in memo["phase_status"]), memo["phase_directions"], forces)
        members = [tuple(int(i) for i in np.flatnonzero(row)) for row in memo["impact_members"]]
        self._impacts = list(zip(memo["impact_times"].tolist(), members, strict=True))
        self._repeats = (float(memo["repeats"][0]), int(memo["repeats"][1]))
        self._impatience = int(memo["repeats"][2])
        return Phase(self.scene, mode, float(memo["phase_time"]), memo["phase_state"]), progress_of(memo)
