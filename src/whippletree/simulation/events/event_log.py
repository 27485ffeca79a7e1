"""Events and outputs of a run as they are written down: rows of numbers that come one by one.

They are asked for as an array every now and then. Beside q and v a run from event to event tells the mode, gaps, and
forces of contacts and constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.contact_modes import Mode
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.simulation.adaptive.collocation import states_along
from whippletree.simulation.adaptive.motion_pieces import MotionPiece
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.load_sharing import under_contacts
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.method import Variable
from whippletree.simulation.output.labels import velocities


class Column:
    """An array that grows by rows. What was asked for earlier stays as it was, and asking costs nothing: rows are never
    changed, and one more often goes where there is room already."""

    def __init__(self, *shape: int, dtype: type = float) -> None:
        """``shape`` of one row."""
        self._buffer: Array = np.zeros((8, *shape), dtype=dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Array:
        """All rows so far, (m, …)."""
        return self._buffer[: self._count]

    def append(self, row: Any) -> None:
        """One more row."""
        if self._count == len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.zeros_like(self._buffer)])
        self._buffer[self._count] = row
        self._count += 1

    def take(self, rows: Array) -> None:
        """These rows instead of all so far."""
        self._buffer, self._count = np.concatenate([rows, np.zeros_like(self._buffer[:1])]), len(rows)


# --- The account of a run from event to event: what happened when, which modes followed each other, what was lost -----


KINDS = ("touchdown", "lift-off", "slip", "stick", "zeno", "impact without collision", "reversal")

SEQUENCES = (
    "contact_event_times", "contact_event_kinds", "contact_event_contacts", "contact_event_energy_lost",
    "energy_lost_in_impacts", "mode_times", "mode_names", "instant_times", "instant_states",
    "instant_impulses", "saltation_times", "saltation_missing", "saltation_entries",
)  # fmt: skip
"""Attributes that every run of a batch has for itself."""


class EventLog:
    """Grows with the run; turns into arrays and back, so that a run can be taken up again."""

    def __init__(self, names: Sequence[str], nq: int, nv: int) -> None:
        """``names``: of the candidates."""
        self.names, k = names, len(names)
        self.times, self.kinds, self.contacts = Column(), Column(dtype=int), Column(dtype=int)
        self.energy_lost = Column()
        """At the instant, J; given with its first event, zero for the others."""
        self.mode_times, self.modes = Column(), Column(k, dtype=int)
        self.instants, self.states = Column(), Column(2, nq + nv)
        """States before and after each instant."""
        self.impulses = Column(k, 3)
        """Of the impacts at each instant, N s."""
        self.matrix_times, self.matrices, self.matrix_errors = Column(), Column(2 * nv, 2 * nv), Column()
        """Saltation matrices; NaN where there is none."""
        self._reasons, self._reason = [""], Column(dtype=int)
        """Why there is none: every reason once, and which one it is."""

    @property
    def matrix_reasons(self) -> list[str]:
        """Why there is no saltation matrix; empty where there is one."""
        return [self._reasons[i] for i in self._reason.rows]

    @property
    def _columns(self) -> dict[str, Column]:
        return {
            "event_times": self.times,
            "event_kinds": self.kinds,
            "event_contacts": self.contacts,
            "event_energy": self.energy_lost,
            "mode_times": self.mode_times,
            "modes": self.modes,
            "instants": self.instants,
            "instant_states": self.states,
            "instant_impulses": self.impulses,
            "matrix_times": self.matrix_times,
            "matrices": self.matrices,
            "matrix_errors": self.matrix_errors,
            "matrix_reason": self._reason,
        }

    def events(self, time: float, entries: Sequence[tuple[str, int]], energy_lost: float) -> list[tuple[str, float]]:
        """Note what happened at an instant; the same as (name, time)."""
        for number, (kind, contact) in enumerate(entries):
            self.times.append(time)
            self.kinds.append(KINDS.index(kind))
            self.contacts.append(contact)
            self.energy_lost.append(energy_lost if number == 0 else 0.0)
        return [(f"{kind} {self.names[contact]}", time) for kind, contact in entries]

    def instant(self, time: float, before: Array, after: Array, impulses: Array) -> None:
        """Note the state on both sides of an instant, and the impulses between."""
        self.instants.append(time)
        self.states.append(np.stack([before, after]))
        self.impulses.append(impulses)

    def mode(self, time: float, mode: Mode) -> None:
        """Note the mode from a time on, if it is another one."""
        if not len(self.modes) or tuple(self.modes.rows[-1]) != mode.status:
            self.mode_times.append(time)
            self.modes.append(mode.status)

    def matrix(self, time: float, matrix: Array, error: float, reason: str) -> None:
        """Note a saltation matrix, its relative error, and the reason if there is none."""
        self.matrix_times.append(time)
        self.matrices.append(matrix)
        self.matrix_errors.append(error)
        if reason not in self._reasons:
            self._reasons.append(reason)
        self._reason.append(self._reasons.index(reason))

    def memo(self) -> dict[str, Array]:
        """The log as named arrays, from which a run can be taken up again."""
        return {name: column.rows for name, column in self._columns.items()} | {"reasons": np.array(self._reasons)}

    def recall(self, memo: dict[str, Array]) -> None:
        """Take over what a memo holds."""
        for name, column in self._columns.items():
            column.take(memo[name])
        self._reasons = memo["reasons"].tolist()

    def account(self) -> dict[str, Any]:
        """Attributes of the result: lists of numbers and words."""
        free = np.zeros((len(self.names), 2))
        return {
            "contact_names": list(self.names),
            "contact_event_times": self.times.rows.tolist(),
            "contact_event_kinds": [KINDS[k] for k in self.kinds.rows],
            "contact_event_contacts": [self.names[i] for i in self.contacts.rows],
            "contact_event_energy_lost": self.energy_lost.rows.tolist(),
            "energy_lost_in_impacts": float(sum(self.energy_lost.rows.tolist())),
            "mode_times": self.mode_times.rows.tolist(),
            "mode_names": [Mode(tuple(status), free).words(self.names) for status in self.modes.rows.tolist()],
            "instant_times": self.instants.rows.tolist(),
            "instant_states": self.states.rows.reshape(-1).tolist(),
            "instant_impulses": self.impulses.rows.reshape(-1).tolist(),
            "saltation_times": self.matrix_times.rows.tolist(),
            "saltation_missing": self.matrix_reasons,
            "saltation_error": float(max(self.matrix_errors.rows, default=0.0)),
            "saltation_entries": self.matrices.rows.reshape(-1).tolist(),
        }


def event_states(run: Any) -> tuple[Array, Array, Array]:
    """Times (e,) of a run's contact events and the states (e, nq + nv) just before and just after each.

    Of a batch, ``wt.single_run(batch, k)`` has those of its run k.
    """
    _require_single(run, "event_states")
    times = np.array(run.attrs["instant_times"], dtype=float).reshape(-1)
    size = run["q"].shape[-1] + run["v"].shape[-1]
    pairs = np.array(run.attrs["instant_states"], dtype=float).reshape(len(times), 2, size)
    return times, pairs[:, 0], pairs[:, 1]


def event_impulses(run: Any) -> tuple[Array, Array]:
    """Times (e,) of a run's contact events and the impulses (e, k, 3) of their impacts, N s: normal, tangents 1 and 2.

    The contacts are those of ``run.attrs["contact_names"]``, stops of joints included; zero where an event has no
    impact. An impulse acts on the first body of its contact. Of a batch, ``wt.single_run(batch, k)`` has those of its
    run k.
    """
    _require_single(run, "event_impulses")
    times = np.array(run.attrs["instant_times"], dtype=float).reshape(-1)
    impulses = np.array(run.attrs["instant_impulses"], dtype=float)
    return times, impulses.reshape(len(times), np.size(run.attrs["contact_names"]), 3)


def saltation_matrices(run: Any) -> tuple[Array, Array]:
    """Times (e,) and saltation matrices (e, 2nv, 2nv) of a run with events: δ(q, v)⁺ = S δ(q, v)⁻.

    A matrix is NaN where an event has none; ``run.attrs["saltation_missing"]`` has the reasons, empty for the others.
    Of a batch, ``wt.single_run(batch, k)`` has those of its run k.
    """
    _require_single(run, "saltation_matrices")
    times, size = np.array(run.attrs["saltation_times"], dtype=float).reshape(-1), 2 * run["v"].shape[-1]
    return times, np.array(run.attrs["saltation_entries"], dtype=float).reshape(len(times), size, size)


def _require_single(run: Any, where: str) -> None:
    if "run" in run.sizes:
        raise ShapeError(f"{where}: this is a batch of {run.sizes['run']} runs: take one, wt.single_run(batch, k)")
    if "instant_times" not in run.attrs:
        method = run.attrs.get("method")
        raise UnsupportedError(f"{where}: a run with method {method!r} locates no contact events: use method='events'")


# --- outputs beside q and v: the mode, gaps, and forces of contacts and constraints -----------------------------------


OUTSIDE = 1e-9
"""Share of the largest contact force by which a force may be outside its cone."""


class PhaseOutput(NamedTuple):
    """Rows of one phase."""

    times: Array
    states: Array
    variables: dict[str, Array]

    def beside(self, **more: Array) -> PhaseOutput:
        """With further variables."""
        return self._replace(variables=self.variables | more)


def variables(scene: EventEquations, sensitivity: bool = False) -> dict[str, Variable]:
    """Names, dimensions and units."""
    names = scene.contacts.names[: scene.touching]
    own = {
        "a": Variable(("velocity",), "accelerations", "rad/s² or m/s²", tuple(velocities(scene.model))),
        "mode": Variable((), "number of the mode in attrs['mode_names']", "1"),
        "contact_state": Variable(("contact",), "0 open, 1 sticks, 2 slides", "1", names),
        "contact_gap": Variable(("contact",), "gaps", "m", names),
        "contact_force": Variable(("contact", "direction"), "contact forces: normal, tangents 1 and 2", "N", names),
        "cone_violation": Variable((), "how far contact forces are outside their friction cones", "N"),
    }
    if scene.joints.stops:
        own["limit_force"] = Variable(("limit",), "forces of joint limits", "N m or N", scene.joints.limited_names)
    if scene.joints.rubbing:
        own["friction_force"] = Variable(("rubbing",), "dry friction of joints", "N m or N", scene.joints.rubbing_names)
    if scene.model.constraints:
        rows = tuple(scene.row_names)
        own["constraint_forces"] = Variable(("row",), "constraint forces", "N or N m", rows)
        own["constraint_residual"] = Variable(("position_row",), "position residuals of the constraints", "m or 1")
        own["constraint_velocity"] = Variable(("row",), "velocity residuals of the constraints", "m/s or 1/s")
    if sensitivity:
        changes = tuple(f"{kind} {name}" for kind in ("δq", "δv") for name in velocities(scene.model))
        title = "derivative of (q, v) by (q, v) at the start, in the tangent space"
        own["sensitivity"] = Variable(("change", "start_change"), title, "of the change / of the change", changes)
    return own


def rows(phase: Phase, mode: int, times: Array, states: Array) -> PhaseOutput:
    """Output of a phase, the ``mode``-th of the run, at given times and states."""
    scene, m = phase.scene, len(times)
    # one state more, so that no output is no special case
    padded_times, padded = np.append(times, phase.time), np.concatenate([states, phase.state[None]])
    q, v = scene.motion.split(padded)
    loads, k = phase.loads(padded_times, padded) if m else phase.start_loads, scene.touching
    own = {
        "a": loads.a,
        "mode": np.full(m + 1, mode),
        "contact_state": np.tile(np.array(phase.mode.status[:k], dtype=int).reshape(1, k), (m + 1, 1)),
        "contact_gap": scene.gaps(q)[:, :k],
        **_share_out(scene, loads.contacts),
        "cone_violation": phase.cone_violation(loads.contacts),
    }
    if scene.model.constraints:
        forces = np.zeros((m + 1, len(scene.row_names)))
        forces[:, scene.rows] = loads.constraints
        own["constraint_forces"] = forces
        own["constraint_residual"] = scene.motion.evaluate("constraint_residual", q=q, t=padded_times)
        own["constraint_velocity"] = scene.motion.evaluate("constraint_velocity", q=q, v=v, t=padded_times)
    return PhaseOutput(times, states, {name: values[:m] for name, values in own.items()})


def sample_output(phase: Phase, mode: int, pieces: Sequence[MotionPiece], end: float, wanted: Array) -> PhaseOutput:
    """Output at those of the wanted times that lie in steps which follow each other, up to ``end``."""
    ends = np.array([[piece.start, min(piece.end, end)] for piece in pieces]).reshape(-1, 2)
    inside = [wanted[first:last] for first, last in np.searchsorted(wanted, ends, side="right").tolist()]
    asked = [(piece.interpolant, own) for piece, own in zip(pieces, inside, strict=True) if len(own)]
    if not asked:
        return rows(phase, mode, wanted[:0], phase.state[None][:0])
    times = np.concatenate([own for _, own in asked])
    return rows(phase, mode, times, phase.project_states(times, states_along(asked)))


def within_cones(
    output: PhaseOutput, phase: Phase, forces_of: Callable[[Phase, float, Array], Array | None]
) -> PhaseOutput:
    """Loads, with other forces where those of a hyperstatic mode that sticks have left their cones: they are not
    unique, and complementarity (``forces_of``) has some inside. Forces of constraints change with them.
    """
    scene, own = phase.scene, output.variables
    largest = np.abs(own["contact_force"]).max(axis=(1, 2), initial=0.0)
    outside = np.flatnonzero(own["cone_violation"] > OUTSIDE * largest)
    if not len(outside) or not phase.hyperstatic or phase.slips or phase.weightless:
        return output
    for n in outside.tolist():
        found = forces_of(phase, float(output.times[n]), output.states[n])
        if found is not None:
            own["cone_violation"][n] = phase.cone_violation(found[None])[0]
            for name, values in _share_out(scene, found[None]).items():
                own[name][n] = values[0]
            if scene.rows:
                q, v = scene.motion.split(output.states[n : n + 1])
                x = under_contacts(phase, scene.at(output.times[n : n + 1], q, v), found)
                rows = [scene.rows[k] for k in phase.kept]
                own["constraint_forces"][n, rows] = x[scene.model.nv :][: len(rows)]
    return output


def _share_out(scene: EventEquations, forces: Array) -> dict[str, Array]:
    """Forces (m, k, 3) of all candidates by what they belong to: contacts, stops, and the dry friction of joints."""
    stops = slice(scene.touching, scene.touching + len(scene.joints.stops))
    own = {"contact_force": forces[:, : scene.touching]}
    if scene.joints.stops:
        own["limit_force"] = scene.joints.limit_forces(forces[:, stops, 0])
    if scene.joints.rubbing:
        own["friction_force"] = forces[:, stops.stop :, 1]
    return own
