"""The account of a run from event to event: what happened when, which modes followed each other, what was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whippletree.contact.modes import Mode
from whippletree.errors import ShapeError, UnsupportedError

Array = np.ndarray[Any, Any]

KINDS = ("touchdown", "lift-off", "slip", "stick", "zeno", "impact without collision", "reversal")

SEQUENCES = (
    "contact_event_times", "contact_event_kinds", "contact_event_contacts", "contact_event_energy_lost",
    "energy_lost_in_impacts", "mode_times", "mode_names", "instant_times", "instant_states",
    "instant_impulses", "saltation_times", "saltation_missing", "saltation_entries",
)  # fmt: skip
"""What every run of a batch has for itself."""


@dataclass
class EventLog:
    """Grows with the run; turns into arrays and back, so that a run can be taken up again."""

    names: Sequence[str]
    """Of the candidates."""
    times: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    contacts: list[int] = field(default_factory=list)
    energy_lost: list[float] = field(default_factory=list)
    """At the instant, J; told with its first event, zero for the others."""
    mode_times: list[float] = field(default_factory=list)
    modes: list[tuple[int, ...]] = field(default_factory=list)
    instants: list[float] = field(default_factory=list)
    states: list[Array] = field(default_factory=list)
    """Before and after each instant, (2, nq + nv)."""
    impulses: list[Array] = field(default_factory=list)
    """Of the impacts at each instant, N s, (k, 3)."""
    matrix_times: list[float] = field(default_factory=list)
    matrices: list[Array] = field(default_factory=list)
    """Saltation matrices; NaN where there is none."""
    matrix_errors: list[float] = field(default_factory=list)
    matrix_reasons: list[str] = field(default_factory=list)
    """Why there is none; empty where there is one."""

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
        if not self.modes or self.modes[-1] != mode.status:
            self.mode_times.append(time)
            self.modes.append(mode.status)

    def matrix(self, time: float, matrix: Array, error: float, reason: str) -> None:
        """Note a saltation matrix, its relative error, and the reason if there is none."""
        self.matrix_times.append(time)
        self.matrices.append(matrix)
        self.matrix_errors.append(error)
        self.matrix_reasons.append(reason)

    def memo(self) -> dict[str, Array]:
        """As named arrays."""
        return {
            "event_times": np.array(self.times),
            "event_kinds": np.array(self.kinds, dtype=int),
            "event_contacts": np.array(self.contacts, dtype=int),
            "event_energy": np.array(self.energy_lost),
            "mode_times": np.array(self.mode_times),
            "modes": np.array(self.modes, dtype=int).reshape(len(self.modes), len(self.names)),
            "instants": np.array(self.instants),
            "instant_states": np.array(self.states),
            "instant_impulses": np.array(self.impulses),
            "matrix_times": np.array(self.matrix_times),
            "matrices": np.array(self.matrices),
            "matrix_errors": np.array(self.matrix_errors),
            "matrix_reasons": np.array(self.matrix_reasons, dtype=str),
        }

    def recall(self, memo: dict[str, Array]) -> None:
        """Take over what a memo holds."""
        self.times, self.energy_lost = memo["event_times"].tolist(), memo["event_energy"].tolist()
        self.kinds, self.contacts = memo["event_kinds"].tolist(), memo["event_contacts"].tolist()
        self.mode_times, self.modes = memo["mode_times"].tolist(), [tuple(m) for m in memo["modes"].tolist()]
        self.instants, self.states = memo["instants"].tolist(), list(memo["instant_states"])
        self.impulses = list(memo["instant_impulses"])
        self.matrix_times, self.matrices = memo["matrix_times"].tolist(), list(memo["matrices"])
        self.matrix_errors, self.matrix_reasons = memo["matrix_errors"].tolist(), memo["matrix_reasons"].tolist()

    def account(self) -> dict[str, Any]:
        """Attributes of the result: lists of numbers and words."""
        free = np.zeros((len(self.names), 2))
        return {
            "contact_names": list(self.names),
            "contact_event_times": list(self.times),
            "contact_event_kinds": [KINDS[k] for k in self.kinds],
            "contact_event_contacts": [self.names[i] for i in self.contacts],
            "contact_event_energy_lost": list(self.energy_lost),
            "energy_lost_in_impacts": float(sum(self.energy_lost)),
            "mode_times": list(self.mode_times),
            "mode_names": [Mode(status, free).words(self.names) for status in self.modes],
            "instant_times": list(self.instants),
            "instant_states": [float(x) for pair in self.states for x in pair.flat],
            "instant_impulses": [float(x) for impulse in self.impulses for x in impulse.flat],
            "saltation_times": list(self.matrix_times),
            "saltation_missing": list(self.matrix_reasons),
            "saltation_error": float(max(self.matrix_errors, default=0.0)),
            "saltation_entries": [float(x) for matrix in self.matrices for x in matrix.flat],
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
