"""Simulation from event to event: smooth motion in one mode of contact, then what the event makes of it.

Touchdown, lift-off, the ends of slip and of sticking are located on the integrator's polynomial. At an impact the law
gives the velocities, and complementarity the mode (:mod:`whippletree.simulation.events.transitions`). Impacts that
accumulate (Zeno) end in contact at the time to which they converge. Every cap ends the run with its reason, never in
silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.contact_modes import OPEN, Mode, open_mode
from whippletree.contact.impact.laws import Law, law_named
from whippletree.errors import AssemblyError, IntegrationError, UnsupportedError, list_items
from whippletree.model import Model
from whippletree.simulation.adaptive.adaptive_method import memo_of, progress_of
from whippletree.simulation.adaptive.motion_pieces import Progress, Statistics
from whippletree.simulation.events import event_log, zeno
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.event_log import KINDS, SEQUENCES, EventLog, PhaseOutput
from whippletree.simulation.events.guards import LIFT_OFF, SLIP, TOUCHDOWN, Admits, Guard
from whippletree.simulation.events.massless_feet.foot_slip import phase_of
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.events.sensitivity.run_sensitivity import (
    Variation,
    rest_derivative,
    start_derivative,
    through,
)
from whippletree.simulation.events.smooth_motion import BEFORE_COMPILING, PhaseSteps, PhaseStretch, SmoothMotion
from whippletree.simulation.events.transitions import Change, Transitions
from whippletree.simulation.events.zeno import AT_ONCE_WITHIN, EVENTS_AT_ONCE, Patience
from whippletree.simulation.method import (
    PENETRATION,
    Chunk,
    Memo,
    Method,
    Task,
    Variable,
    limited_tendons,
    positive,
    whole,
)


class Events(Method):
    """Event-driven simulation of contact."""

    options: ClassVar[tuple[str, ...]] = (
        "impact_law", "penetration", "speed_tolerance", "zeno_interval", "most_events", "admits", "saltation",
        "sensitivity",
    )  # fmt: skip
    touches = obeys_laws = looks_for_events = True
    counters = ("statistics",)
    sequences = SEQUENCES

    def __init__(
        self,
        task: Task,
        impact_law: str | Law | None = None,
        penetration: float = PENETRATION,
        speed_tolerance: float = 1e-9,
        zeno_interval: float = 1e-6,
        most_events: int = 10_000,
        admits: Admits | None = None,
        saltation: bool = True,
        sensitivity: bool = False,
    ) -> None:
        """Options of ``wt.simulate(..., method="events")`` beside the usual.

        Args:
            task: what to simulate.
            impact_law: a name or a law; default: what the contacts' restitution and friction call for.
            penetration: depth, m, up to which a start state counts as touching; candidates nearer than this touch.
            speed_tolerance: contact velocities below this, m/s, are taken as none.
            zeno_interval: a contact that would be back sooner than this, s, after an impact stays closed.
            most_events: after as many the run stops and says so.
            admits: f(contact, t, q, v): whether a touchdown counts; a contact that does not count passes through.
            saltation: whether saltation matrices are computed.
            sensitivity: whether the derivative of the state by the start state goes with every row; asks for saltation.
        """
        super().__init__(task)
        _refuse_what_has_no_guard(task.motion.model)
        self.scene = EventEquations(task.motion)
        law = None if impact_law is None else law_named(impact_law)
        depth, speed = positive("penetration", penetration), positive("speed_tolerance", speed_tolerance)
        self.rules = Transitions(self.scene, law, depth, speed)
        self.zeno_interval, self.most_events = (
            positive("zeno_interval", zeno_interval),
            whole("most_events", most_events),
        )
        self.admits, self.with_saltation = admits, saltation or sensitivity
        self.variation = Variation(self.scene, task.rtol) if sensitivity else None
        self.log = EventLog(self.scene.contacts.names, self.scene.model.nq, self.scene.model.nv)
        self.statistics = Statistics()
        self.compiled = PhaseSteps(task, self.scene)
        self._impacts: list[float] = []
        self.patience = Patience(self.rules)

    # --- output -------------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> dict[str, Variable]:
        return event_log.variables(self.scene, self.variation is not None)

    def _forces(self, phase: Phase, t: float, y: Array) -> Array | None:
        """Forces (k, 3) of the phase's mode that meet the laws of contact; None if none were found."""
        q, v = self.scene.motion.split(y)
        mode, _ = self.rules.select_mode(t, q, v, phase.mode, (), phase.mode.closed)
        return mode.forces if mode is not None and mode.status == phase.mode.status else None

    @property
    def _mode_number(self) -> int:
        return len(self.log.modes) - 1

    def _output(self, phase: Phase, stretch: PhaseStretch) -> PhaseOutput:
        """Output of some steps."""
        rows = event_log.sample_output(phase, self._mode_number, stretch.pieces, stretch.end, self.task.times)
        rows = event_log.within_cones(rows, phase, self._forces)
        if self.variation is None:
            return rows
        found = [self.variation.matrix[None][:0]]
        for piece in stretch.pieces:
            found.append(self.variation.along(phase, piece, min(piece.end, stretch.end), rows.times))
        return rows.beside(sensitivity=np.concatenate(found))

    def account(self) -> dict[str, Any]:
        largest = self.patience.largest
        tolerances = {"speed_tolerance": largest.speed_tolerance, "acceleration_share": largest.lean}
        return self.log.account() | asdict(self.statistics) | tolerances

    # --- the run ------------------------------------------------------------------------------------------------------

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        times = self.task.times
        end = float(times[-1])
        if memo is None:
            phase, found = self._begin(float(times[0]), self.task.start)
            progress = Progress(phase.time, phase.state)
            start = event_log.rows(phase, self._mode_number, times[:1], phase.state[None])
            if self.variation is not None:
                start = start.beside(sensitivity=self.variation.matrix[None])
            yield self._chunk(phase, progress, start, found)
        else:
            phase, progress = self._recall(memo)
        while progress.time < end:
            for chunk, then, reached in self._smooth(phase, progress, end):
                phase, progress = then, reached
                yield chunk
            if self._stopped:
                return

    def _smooth(self, phase: Phase, progress: Progress, end: float) -> Iterator[tuple[Chunk, Phase, Progress]]:
        """One phase to its end, chunk by chunk; the last one has the phase after it."""
        self._stopped = False
        motion = SmoothMotion(phase, self.task, self.statistics, self.admits, self._still, self.compiled)
        for stretch in motion.stretches(progress, end):
            rows, ending = self._output(phase, stretch), stretch.ending
            if ending is None:
                self._stopped = self._terminal(stretch)
                changes_over = not self.scene.compiled.ready and self._may_compile
                if changes_over:
                    self.scene.compiled.ready = True
                    self._ask_controller_itself()
                    phase = phase_of(self.scene, phase.mode, phase.time, phase.state, phase.still)
                progress = stretch.pieces[-1].progress
                yield self._chunk(phase, progress, rows, stretch.found), phase, progress
                if changes_over:
                    return
                continue
            self._ask_controller_itself()
            after, events = self._pass_event(phase, ending.time, ending.state, ending.fired)
            progress = Progress(after.time, after.state)
            yield self._chunk(after, progress, rows, [*stretch.found, *events]), after, progress

    def _ask_controller_itself(self) -> None:
        """Between phases, so that one that is taken up again begins with the same bits; steps by machine code change
        over to a compiled controller."""
        self.scene.motion.use_compiled(None)

    @property
    def _may_compile(self) -> bool:
        """Whether the run is long enough for machine code of its own."""
        return self.statistics.steps >= BEFORE_COMPILING

    def _terminal(self, stretch: PhaseStretch) -> bool:
        names = {name for name, _ in stretch.found}
        return any(event.terminal and event.name in names for event in self.task.events)

    def _still(self, phase: Phase, t: float, y: Array) -> bool:
        """Whether complementarity asks for the mode of a phase at a state near it."""
        return self.rules.mode_stays(t, *self.scene.motion.split(phase.project(t, y)), phase.mode)

    # --- events -------------------------------------------------------------------------------------------------------

    def _begin(self, t: float, y: Array) -> tuple[Phase, list[tuple[str, float]]]:
        """The first phase: contacts that touch already, and an impact if they approach."""
        q, v = self.scene.motion.split(y)
        gaps = self.scene.gaps(q)
        counted = [i for i in range(self.scene.count) if self._admits(i, t, q, v)]
        deep = {self.scene.contacts.names[i]: -gaps[i] for i in counted if gaps[i] < -self.rules.gap_tolerance}
        if deep:
            units = dict(zip(self.scene.contacts.names, self.scene.units, strict=True))
            listed = ", ".join(f"{name!r} by {depth:.6g} {units[name]}" for name, depth in deep.items())
            raise AssemblyError(
                f"model {self.scene.model.name!r}: the start state penetrates: {listed}. Move the bodies apart (or "
                f"start from a state that touches), or raise penetration = {self.rules.gap_tolerance:g} m.",
                q,
                {name: float(depth) for name, depth in deep.items()},
            )
        touching = [i for i in counted if gaps[i] <= self.rules.gap_tolerance]
        return self._enter_phase(t, y, self.rules.change(t, y, open_mode(self.scene.count), [], touching), None, [])

    def _admits(self, i: int, t: float, q: Array, v: Array) -> bool:
        if self.admits is None or self.scene.pressed[i]:
            return True
        return bool(self.admits(self.scene.contacts.names[i], t, q, v))

    def _pass_event(
        self, phase: Phase, t: float, y: Array, fired: list[Guard]
    ) -> tuple[Phase, list[tuple[str, float]]]:
        """The phase after an event, and the event's names."""
        self._count(t)
        fired = self._with_lifted(phase, t, fired)
        mode = self._with_onsets(phase, t, y, fired)
        touching = self._touching(phase, t, y, fired)
        change = self.patience.rules.change(t, y, mode, fired, touching)
        return self._enter_phase(t, y, change, phase, fired)

    def _with_lifted(self, phase: Phase, t: float, fired: list[Guard]) -> list[Guard]:
        """Guards that fired; where one contact after the other runs out of load at one instant (a body that begins to
        tip over an edge), with those of the earlier ones, which do not take over again."""
        if any(guard.kind != LIFT_OFF for guard in fired):
            return fired
        columns = (self.log.times, self.log.kinds, self.log.contacts)
        last = zip(*(column.rows[-EVENTS_AT_ONCE:].tolist() for column in columns), strict=True)
        lifted = {i for time, kind, i in last if t - time <= AT_ONCE_WITHIN and KINDS[kind] == LIFT_OFF}
        return fired + [Guard(LIFT_OFF, i) for i in sorted(lifted) if phase.mode.status[i] == OPEN]

    def _with_onsets(self, phase: Phase, t: float, y: Array, fired: list[Guard]) -> Mode:
        """The mode with slips as they are headed now; those about to begin go against the friction that held."""
        directions = phase.heading.copy()
        for guard in fired:
            if guard.kind == SLIP:
                friction = phase.loads(np.array([t]), y[None]).contacts[0, guard.contact, 1:]
                directions[guard.contact] = -friction / max(float(np.hypot(*friction)), 1e-300)
        return replace(phase.mode, directions=directions)

    def _touching(self, phase: Phase, t: float, y: Array, fired: list[Guard]) -> list[int]:
        """Closed contacts, those that have just closed, and others at no gap: all of them where something lands, for an
        impact may drive them together, else those that rest. A closed contact of edges that have become others at this
        very event is no longer there."""
        q, v = self.scene.motion.split(y)
        gaps, u = self.scene.gaps(q), self.scene.contact_velocity(q, v)
        landed = {guard.contact for guard in fired if guard.kind == TOUCHDOWN}
        arriving = {
            i
            for i in range(self.scene.count)
            if phase.mode.status[i] == OPEN
            and abs(gaps[i]) <= self.rules.gap_tolerance
            and (landed or abs(u[i, 0]) < self.rules.speed_tolerance)
            and self._admits(i, t, q, v)
        }
        closed = set(phase.mode.closed).difference(phase.far_apart(y))
        return sorted({*closed, *landed, *arriving})

    def _enter_phase(
        self, t: float, y: Array, change: Change, before: Phase | None, fired: list[Guard]
    ) -> tuple[Phase, list[tuple[str, float]]]:
        phase = self._phase(change.mode, t, change.state)
        named = self.log.events(t, change.entries, change.energy_lost)
        if change.entries:
            self.log.instant(t, y, phase.state, change.impulses)
        if before is None and self.variation is not None:
            self.variation.begin(start_derivative(self.rules, phase, t, y, change))
        elif before is not None and self.with_saltation and change.entries:
            self._note_saltation(before, phase, t, y, change, fired)
        if change.struck:
            self._impacts = [*self._impacts[-3:], t]
            phase, more = self._bring_to_rest(phase, t, change)
            named += more
        self.log.mode(t, phase.mode)
        return phase, named

    def _phase(self, mode: Mode, t: float, state: Array) -> Phase:
        none = self.patience.rules.speed_tolerance
        self.scene.compiled.ready = self._may_compile
        raw = phase_of(self.scene, mode, t, state)
        state = self._without_slow_slips(raw, t, raw.project(t, state), none)
        if type(raw) is Phase and not raw.turning and not raw.hyperstatic:
            return raw.begun_at(state, none / 2)
        return phase_of(self.scene, mode, t, state, none / 2)

    def _without_slow_slips(self, phase: Phase, t: float, y: Array, none: float) -> Array:
        """The state without what is left of slips that complementarity has taken as none, to find other directions for
        them; unless that would change some contact velocity by more."""
        slow = phase.slower(y, none)
        if not slow:
            return y
        q, v = self.scene.motion.split(y)
        stopped = Phase(self.scene, phase.mode.with_sticking(slow), t, y).velocity_projected(t, q, v)
        change = self.scene.contact_velocity(q, stopped) - self.scene.contact_velocity(q, v)
        return np.concatenate([q, stopped]) if np.abs(change).max() <= none else y

    def _bring_to_rest(self, phase: Phase, t: float, change: Change) -> tuple[Phase, list[tuple[str, float]]]:
        """The phase with contacts closed whose hops have become too short to be followed, and what that made."""
        hopping, named = set(change.struck), list[tuple[str, float]]()
        while times := zeno.resting(phase, sorted(hopping), change.law, self.zeno_interval):
            hopping -= set(times)  # that these stay may let others come back sooner
            closed = Phase(self.scene, phase.mode.trailing(list(times)), t, phase.state)
            rest = zeno.Rest(phase, list(times), self.rules.speed_tolerance)
            after = self.rules.change(t, closed.project(t, rest.state), phase.mode, [], closed.mode.closed)
            rested = self._phase(after.mode, t, after.state)
            if self.variation is not None:
                self.variation.jump(rest_derivative(self.rules, rested, t, phase.state, after, rest))
            lost = self._energy(phase) - self._energy(rested)
            end = zeno.limit(self._impacts, max(times.values()), self.zeno_interval) if self._impacts else t
            named += self.log.events(end, [("zeno", i) for i in times], lost) + self.log.events(t, after.entries, 0.0)
            self._impacts, phase = [], rested
        return phase, named

    def _energy(self, phase: Phase) -> float:
        return self.scene.energy(*self.scene.motion.split(phase.state))

    def _count(self, t: float) -> None:
        """Refuse to go on where events do not end."""
        self.patience.count(t)
        if self.patience.exhausted:
            names = ", ".join(
                dict.fromkeys(self.scene.contacts.names[i] for i in self.log.contacts.rows[-EVENTS_AT_ONCE:])
            )
            raise IntegrationError(
                f"the run stopped at t = {t:.9g} s: more than {EVENTS_AT_ONCE} events at one instant, of {names}: what "
                f"these contacts do next is not determined. Other friction, or a body with more mass, may cure it",
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
        """The saltation matrix of an instant, or why there is none."""
        passage = through(self.rules, before, after, t, y, change, fired)
        self.log.matrix(t, passage.matrix, passage.error, passage.reason)
        if self.variation is not None:
            self.variation.jump(passage.matrix)

    # --- chunks and memos ---------------------------------------------------------------------------------------------

    def _chunk(self, phase: Phase, progress: Progress, rows: PhaseOutput, found: list[tuple[str, float]]) -> Chunk:
        """Output, with all that is needed to go on in a phase."""
        memo = memo_of(progress) | self.log.memo()
        memo |= {
            "phase_time": np.array(phase.time),
            "phase_still": np.array(phase.still),
            "phase_compiled": np.array(int(self.scene.compiled.ready)),
            "phase_state": phase.state,
            "phase_status": np.array(phase.mode.status, dtype=int),
            "phase_directions": phase.mode.directions,
            "phase_forces": np.zeros((0, 3)) if phase.mode.forces is None else phase.mode.forces,
            "impact_times": np.array(self._impacts),
            "repeats": self.patience.memo(),
            # which decide when machine code begins, and when stiffness is looked for
            "steps": np.array([self.statistics.steps, self.statistics.rejections]),
        }
        if self.variation is not None:
            memo["sensitivity"] = self.variation.matrix
        return Chunk(rows.times, rows.states, memo, tuple(found), rows.variables)

    def _recall(self, memo: Memo) -> tuple[Phase, Progress]:
        self.log.recall(memo)
        if self.variation is not None:
            self.variation.begin(memo["sensitivity"])
        forces = memo["phase_forces"] if len(memo["phase_forces"]) else None
        mode = Mode(tuple(int(s) for s in memo["phase_status"]), memo["phase_directions"], forces)
        self._impacts = memo["impact_times"].tolist()
        self.patience.recall(memo["repeats"])
        self.statistics.steps, self.statistics.rejections = (int(number) for number in memo["steps"])
        time, still = float(memo["phase_time"]), float(memo["phase_still"])
        self.scene.compiled.ready = bool(memo["phase_compiled"])
        return phase_of(self.scene, mode, time, memo["phase_state"], still), progress_of(memo)


def _refuse_what_has_no_guard(model: Model) -> None:
    """Refuse torsional and rolling friction, and limits of tendons, whose beginnings and ends no guard looks for.

    Raises:
        UnsupportedError: with the names of the contacts or tendons.
    """
    if tendons := [repr(name) for name in limited_tendons(model)]:
        raise UnsupportedError(
            f"simulate: model {model.name!r} has limits of tendon {list_items(tendons)}, which are not located as "
            f"events: method='time_stepping' keeps them; wt.load(..., limits=False) has none"
        )
    names = [repr(contact.name) for contact in model.contacts if contact.has_moments]
    names += [repr(group.name) for group in model.contact_groups if group.has_moments]
    if names:
        raise UnsupportedError(
            f"simulate: model {model.name!r} has torsional or rolling friction at {list_items(names)}, whose sticking "
            f"and slipping are not located as events: method='time_stepping' takes it, or declare these contacts "
            f"without it"
        )
