"""Many start states with a method that follows one at a time: one run after the other, put side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ShapeError
from whippletree.simulation.events.event_log import SEQUENCES
from whippletree.simulation.method import PREVIEW, Chunk, Memo, Method, Task, Variable, preview
from whippletree.simulation.record import Record


class InTurn(Method):
    """A batch of runs, (times, runs, …); NaN from where a run has failed or was ended by an event."""

    def __init__(self, task: Task, way: type[Method], options: Mapping[str, Any]) -> None:
        super().__init__(task)
        self.failures: dict[int, str] = {}
        self._sequences = way.sequences
        alone = (replace(task, start=start, motion=task.motion.of_run(k)) for k, start in enumerate(task.start))
        self._runs = [way(own, **options) for own in alone]
        self._events: list[tuple[str, float]] = []
        self._account: dict[str, Any] = {}
        runs, size = task.start.shape
        states = np.full((len(task.times), runs, size), np.nan)
        states[0] = task.start
        self._found: dict[str, Array] = {"states": states}

    @property
    def variables(self) -> dict[str, Variable]:
        return self._runs[0].variables if self._runs else {}

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        """All output at the end; before, an empty chunk after each run, whose memo holds what is finished."""
        done, runs = 0, len(self._runs)
        if memo is not None:
            done, kept = int(memo["runs"]), preview(memo)
            assert kept is not None
            self._found = {"states": kept.states.copy()} | {n: np.array(x) for n, x in kept.variables.items()}
        for k in range(done, runs):
            record = Record()
            record.take(self._runs[k])
            if record.failure:
                self.failures[k] = record.failure
            self._place(record, k)
            self._events += record.events
            runs_of_events = [*self._account.get("event_runs", ()), *([k] * len(record.events))]
            self._account = _add_account(self._account, record.account, self._sequences)
            self._account["event_runs"] = runs_of_events
            yield self._nothing(k + 1)
        if done <= runs:
            yield self._everything()

    def unfinished_chunk(self) -> Chunk | None:
        return self._everything() if self._account else None

    def _everything(self) -> Chunk:
        """Results so far, at all output times."""
        variables = {name: x for name, x in self._found.items() if name != "states"}
        return Chunk(
            self.task.times, self._found["states"], self._memo(len(self._runs) + 1), tuple(self._events), variables
        )

    def _nothing(self, done: int) -> Chunk:
        """A chunk without rows: they are complete after the last run only."""
        empty = {name: x[:0] for name, x in self._found.items()}
        states = empty.pop("states")
        return Chunk(self.task.times[:0], states, self._memo(done), variables=empty)

    def _memo(self, done: int) -> Memo:
        """How many runs are done, one more when all is handed out, and their output.

        Not a copy: later runs leave the rows of earlier ones alone.
        """
        memo = {"runs": np.array(done), f"{PREVIEW}times": self.task.times}
        return memo | {f"{PREVIEW}{name}": array for name, array in self._found.items()}

    def _place(self, record: Record, run: int) -> None:
        """Put a run's rows at the output times into the common arrays."""
        wanted = np.isin(record.times, self.task.times)
        rows = np.searchsorted(self.task.times, record.times[wanted])
        for name in ("states", *self.variables):
            values = (record.states if name == "states" else record.variable(name))[wanted]
            if name not in self._found:
                self._found[name] = np.full((len(self.task.times), len(self._runs), *values.shape[1:]), np.nan)
            self._found[name][rows, run] = values

    def tally(self) -> dict[str, Any]:
        return super().tally() | {"events": self._events, "account": self._account}

    def take_over(self, tally: Mapping[str, Any]) -> None:
        super().take_over(tally)
        self._events = [(str(name), float(time)) for name, time in tally["events"]]
        self._account = dict(tally["account"])

    def account(self) -> dict[str, Any]:
        """Sums over the runs of what is counted, the largest of what is measured, lists of what each run has."""
        return self._account


def _add_account(total: Mapping[str, Any], more: Mapping[str, Any], sequences: Sequence[str]) -> dict[str, Any]:
    """The account of several runs with that of one more."""
    result = dict(total)
    for name, value in more.items():
        if name in sequences:
            result[name] = [*result.get(name, []), value]
        elif isinstance(value, int) and not isinstance(value, bool):
            result[name] = result.get(name, 0) + value
        elif isinstance(value, float):
            result[name] = max(result.get(name, value), value)
        else:
            result.setdefault(name, value)
    return result


def single_run(batch: Any, number: int) -> Any:
    """One run of a batch as a data set of its own: its rows, and of the attributes what belongs to it.

    Args:
        batch: what ``wt.simulate`` gives for many start states.
        number: of the run; from the end if negative.

    Raises:
        ShapeError: the result is of a single run.
        IndexError: there is no such run.
    """
    if "run" not in batch.sizes:
        raise ShapeError("single_run: this result is of a single run: it has no dimension 'run'")
    count = batch.sizes["run"]
    if not -count <= number < count:
        raise IndexError(f"single_run: there is no run {number} in a batch of {count}")
    number %= count
    run = batch.isel(run=number)
    run.attrs = {name: value[number] if name in SEQUENCES else value for name, value in batch.attrs.items()}
    own = [k for k, owner in enumerate(run.attrs.pop("event_runs", ())) if owner == number]
    run.attrs |= {word: [batch.attrs[word][k] for k in own] for word in ("event_names", "event_times")}
    run.attrs |= {"events": len(own), "failure": str(run["failure"].item())}
    return run.drop_vars("failure")
