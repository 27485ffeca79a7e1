"""Rows of numbers that come one by one and are asked for as an array every now and then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.contact_modes import Mode
from whippletree.errors import ShapeError, UnsupportedError


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
        """At the instant, J; told with its first event, zero for the others."""
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
        """As named arrays."""
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
