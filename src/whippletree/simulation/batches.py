"""Many start states with a method that follows one at a time: one run after the other, put side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.simulation.method import Chunk, Memo, Method, Task, Variable
from whippletree.simulation.record import Record

Array = np.ndarray[Any, Any]


class InTurn(Method):
    """A batch of runs, (times, runs, …); NaN from where a run has failed or was ended by an event."""

    def __init__(self, task: Task, way: type[Method], options: Mapping[str, Any]) -> None:
        super().__init__(task)
        self.failures: dict[int, str] = {}
        self._runs = [way(replace(task, start=start), **options) for start in task.start]

    @property
    def variables(self) -> dict[str, Variable]:
        return self._runs[0].variables if self._runs else {}

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        """All output at the end; before, an empty chunk after each run, whose memo holds what is finished."""
        times, (runs, size) = self.task.times, self.task.start.shape
        found = {"states": np.full((len(times), runs, size), np.nan), "failed": np.zeros(runs)}
        done = 0
        if memo is not None:
            done, found = int(memo["run"]), {name: array.copy() for name, array in memo.items() if name != "run"}
            for k in np.flatnonzero(found["failed"]).tolist():
                self.failures[k] = "failed before this run was resumed"
        events: list[tuple[str, float]] = []
        for k in range(done, runs):
            record = Record()
            record.follow(self._runs[k])
            if record.failure:
                self.failures[k] = record.failure
                found["failed"][k] = 1
            self._place(record, k, found)
            events += [(f"run {k}: {name}", time) for name, time in record.events]
            yield self._chunk(k + 1, found, slice(0, 0))
        if done <= runs:
            yield replace(self._chunk(runs + 1, found, slice(None)), events=tuple(events))

    def _chunk(self, done: int, found: Mapping[str, Array], rows: slice) -> Chunk:
        memo = {"run": np.array(done)} | {name: array.copy() for name, array in found.items()}
        variables = {name: found[name][rows] for name in self.variables}
        return Chunk(self.task.times[rows], found["states"][rows], memo, variables=variables)

    def _place(self, record: Record, run: int, found: dict[str, Array]) -> None:
        """Put a run's rows at the output times into the common arrays."""
        wanted = np.isin(record.times, self.task.times)
        rows = np.searchsorted(self.task.times, record.times[wanted])
        for name in ("states", *self.variables):
            values = (record.states if name == "states" else record.variable(name))[wanted]
            if name not in found:
                found[name] = np.full((len(self.task.times), len(self._runs), *values.shape[1:]), np.nan)
            found[name][rows, run] = values

    def account(self) -> dict[str, Any]:
        """Sums over the runs of what is counted; the largest of what is measured."""
        total: dict[str, Any] = {}
        for run in self._runs:
            for name, value in run.account().items():
                if isinstance(value, int) and not isinstance(value, bool):
                    total[name] = total.get(name, 0) + value
                elif isinstance(value, float):
                    total[name] = max(total.get(name, value), value)
                else:
                    total.setdefault(name, value)
        return total
