"""A stretch of runs, computed: from their values to rows of a table, time series and events.

Runs of one case go through ``wt.simulate`` together. One that fails, whatever the reason, is a row with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.campaigns.cases import Case, Subject
from whippletree.campaigns.design import Design
from whippletree.campaigns.targets import Target, numbers, place_values
from whippletree.compiler.bound import Bound
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.compiled import compile as compile_model
from whippletree.constraints.assembly import assemble
from whippletree.constraints.constraint_set import constraint_set
from whippletree.model import Model
from whippletree.simulation.motion import Motion
from whippletree.simulation.one_by_one import single_run
from whippletree.simulation.run import simulate

if TYPE_CHECKING:
    import xarray


KEEPS = ("final", "series", "events")
"""Parts of a run that can be kept beside its parameters and metrics."""

Metric = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Work:
    """All that decides what runs are and what is kept of them."""

    subject: Subject
    design: Design
    targets: tuple[Target, ...]
    keep: tuple[str, ...]
    metrics: Mapping[str, Metric]
    _functions: dict[str, Compiled] = field(default_factory=dict, repr=False)
    """By case: compiled once in a process."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_functions": {}}


@dataclass(eq=False)
class RunBlock:
    """Results of a stretch of runs."""

    columns: dict[str, Any]
    """One entry for each run."""
    series: xarray.Dataset | None
    """Over run and time; None where none is kept."""
    events: dict[str, list[Any]]
    """``run``, ``time`` and ``event``, one entry for each event."""


@dataclass(eq=False)
class _CaseResults:
    """Results of the runs of one case."""

    rows: Array
    """Which runs of the block they are."""
    columns: dict[str, Any]
    failures: list[str]
    series: Any = None
    events: list[tuple[int, str, float]] = field(default_factory=list)


def compute_block(work: Work, first: int, last: int) -> RunBlock:
    """Run the runs from ``first`` up to ``last``."""
    values = work.design.values(first, last)
    count = last - first
    found: list[_CaseResults] = []
    for chosen, rows in _cases(work.targets, values, count):
        own = {path: [x[k] for k in rows] for path, x in values.items()}
        found += _run_case(work, chosen, own, rows)
    columns: dict[str, Any] = {"run": np.arange(first, last)}
    columns |= {path: _column(x) for path, x in values.items()}
    columns["failure"] = _gather_parts([(f.rows, f.failures) for f in found], count, "")
    names = dict.fromkeys(name for f in found for name in f.columns)
    for name in [*names, *(name for name in work.metrics if name not in names)]:
        columns[name] = _gather_parts([(f.rows, f.columns[name]) for f in found if name in f.columns], count, np.nan)
    events = sorted((first + int(f.rows[k]), time, name) for f in found for k, name, time in f.events)
    event_columns = {word: [event[i] for event in events] for i, word in enumerate(("run", "time", "event"))}
    return RunBlock(columns, _join_series(found, first, count) if "series" in work.keep else None, event_columns)


def _cases(
    targets: Sequence[Target], values: Mapping[str, Sequence[Any]], count: int
) -> list[tuple[dict[str, Any], Array]]:
    """Values that make a case, and the runs that have them."""
    paths = [target.path for target in targets if target.makes_cases]
    groups: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for k in range(count if paths else min(count, 1)):
        chosen = {path: values[path][k] for path in paths}
        groups.setdefault(repr(chosen), (chosen, []))[1].append(k)
    if not paths:
        return [({}, np.arange(count))]
    return [(chosen, np.array(rows)) for chosen, rows in groups.values()]


def _run_case(
    work: Work, chosen: Mapping[str, Any], values: Mapping[str, Sequence[Any]], rows: Array
) -> list[_CaseResults]:
    """All runs of a case together; where that raises, each by itself, so that one does not take the others along."""
    try:
        return [_simulate_case(work, work.subject.case(chosen), repr(chosen), values, rows)]
    except MemoryError:
        raise
    except Exception as error:
        if len(rows) == 1:
            return [_CaseResults(rows, {}, [f"{type(error).__name__}: {error}"])]
    alone = ({path: x[k : k + 1] for path, x in values.items()} for k in range(len(rows)))
    return [part for k, own in enumerate(alone) for part in _run_case(work, chosen, own, rows[k : k + 1])]


def _simulate_case(work: Work, case: Case, name: str, values: Mapping[str, Sequence[Any]], rows: Array) -> _CaseResults:
    kept = None if "series" in work.keep or work.metrics else ()
    _, batch = _batch(work, case, name, values, len(rows), kept)
    failures = [str(text) for text in batch["failure"].values]
    columns = _final(batch) if "final" in work.keep else {}
    for metric, function in work.metrics.items():
        columns[metric] = _measure_runs(metric, function, batch, failures)
    series = batch.drop_vars("failure") if "series" in work.keep else None
    return _CaseResults(rows, columns, failures, series, _events(batch) if "events" in work.keep else [])


def _batch(
    work: Work, case: Case, name: str, values: Mapping[str, Sequence[Any]], runs: int, variables: Any
) -> tuple[Model, xarray.Dataset]:
    """Runs of one case side by side, and the model of the first; ``variables`` where the case does not say them."""
    options = dict(case.options)
    opened = numbers(case.model, work.targets, values, runs)
    q = place_values(case.model, "q0", case.q0, work.targets, values, runs)
    v = place_values(case.model, "v0", case.v0, work.targets, values, runs)
    dyn = _functions(work, case, name, tuple(opened))
    if case.model.constraints:
        held = [target for target in work.targets if target.kind == "q0"]
        q = close_starts(dyn, opened, q, case.q0, held)
        options["project"] = True
    asked = options.pop("variables", None)
    options.pop("massless", None)  # decided when the functions were compiled
    batch = simulate(
        case.model, q, v, controller=case.controller, compiled=dyn, parameters=opened or None, progress=False,
        variables=variables if asked is None else asked, **options,
    )  # fmt: skip
    return Bound(dyn, opened).model if opened else dyn.model, batch


def rerun(work: Work, number: int) -> tuple[Model, xarray.Dataset]:
    """One run once more, with everything that a simulation tells, and its model."""
    values = work.design.values(number, number + 1)
    chosen = {target.path: values[target.path][0] for target in work.targets if target.makes_cases}
    model, batch = _batch(work, work.subject.case(chosen), repr(chosen), values, 1, None)
    return model, single_run(batch, 0)


def _functions(work: Work, case: Case, name: str, paths: tuple[str, ...]) -> Compiled:
    """Functions of the model of a case, compiled once."""
    if name not in work._functions:
        massless = case.options.get("massless", "refuse")
        work._functions[name] = compile_model(case.model, massless=massless, parameters=paths, watch="never")
    return work._functions[name]


def _final(batch: xarray.Dataset) -> dict[str, Array]:
    """The last state of every run that exists, and its time."""
    q, v = batch["q"].values, batch["v"].values
    good = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
    last = len(good) - 1 - np.argmax(good[::-1], axis=0)
    run = np.arange(q.shape[1])
    found = {"end_time": np.where(good.any(axis=0), batch["time"].values[last], np.nan)}
    for word, states in (("q", q), ("v", v)):
        names = batch[word].attrs.get("names") or [str(k) for k in range(states.shape[-1])]
        found |= {f"{word}.{name}": states[last, run, k] for k, name in enumerate(names)}
    return found


def _measure_runs(name: str, function: Metric, batch: xarray.Dataset, failures: list[str]) -> Array:
    """One number for every run; where a metric has none, the run's failure says why."""
    runs = batch.sizes["run"]
    if getattr(function, "on_batch", False):
        found = np.asarray(function(batch), dtype=float)
        if found.shape != (runs,):
            raise ValueError(f"metric {name!r} returned shape {found.shape} for {runs} runs, expected ({runs},)")
        return found
    found = np.full(runs, np.nan)
    for k in range(runs):
        if failures[k]:
            continue
        try:
            answer = np.asarray(function(single_run(batch, k)), dtype=float)
            if answer.shape != ():
                raise ValueError(f"returned an array of shape {answer.shape}, expected one number")
            found[k] = float(answer)
        except Exception as error:
            failures[k] = f"metric {name!r}: {type(error).__name__}: {error}"
    return found


def _events(batch: xarray.Dataset) -> list[tuple[int, str, float]]:
    """Run, name and time of every event; methods that take all runs together look for none."""
    columns = (batch.attrs.get(word, ()) for word in ("event_runs", "event_names", "event_times"))
    return [(int(run), str(name), float(time)) for run, name, time in zip(*columns)]


def _column(values: Sequence[Any]) -> Any:
    """Numbers as an array; anything else as text."""
    array = np.asarray(values) if all(isinstance(x, (int, float)) for x in values) else None
    return array if array is not None else [x if isinstance(x, str) else repr(x) for x in values]


def _gather_parts(parts: Sequence[tuple[Array, Any]], count: int, empty: Any) -> Any:
    """Values of parts of the runs, in the order of the runs."""
    if isinstance(empty, str):
        texts = [empty] * count
        for rows, values in parts:
            for k, text in zip(rows.tolist(), values):
                texts[k] = text
        return texts
    found = np.full(count, empty)
    for rows, values in parts:
        found[rows] = values
    return found


def _join_series(found: Sequence[_CaseResults], first: int, count: int) -> Any:
    """Series of all runs in their order, (run, time, …); of a run that has none, NaN."""
    import xarray

    parts = [f.series.assign_coords(run=first + f.rows).transpose("run", ...) for f in found if f.series is not None]
    if not parts:
        return None
    whole = parts[0] if len(parts) == 1 else xarray.concat(parts, dim="run", join="outer", combine_attrs="override")
    whole.attrs = {}
    return whole.reindex(run=np.arange(first, first + count))


# --- start states that close their loops, with the coordinates that a sweep sets left where they are ------------------


WAYPOINTS = 8
"""Steps in which coordinates that a sweep sets go from where the model closes to their values, so that the other joints
follow the branch on which it does."""

CLOSING_STEPS = 6
"""At each of them, and at the end as often again before a run is assembled by itself, with more patience."""

LARGEST_CORRECTION = 0.5
"""rad or m by which one step may move a joint: farther away the tangent says little."""

CLOSED_START = 1e-11
"""Residual, m or rad, at which a start counts as closed: that of ``wt.assemble``."""


def close_starts(dyn: Compiled, opened: Mapping[str, Array], q: Array, home: Array, held: Sequence[Target]) -> Array:
    """Coordinates (runs, nq) that close every loop, with those that ``held`` names as they are in ``q``.

    All runs go together from the start that they share, ``home`` (nq,), by Newton's method. Runs that do not close this
    way are assembled one by one.

    Raises:
        AssemblyError: a run whose loops cannot close.
    """
    closing = _Closing(Motion(Bound(dyn, opened) if opened else dyn), held)
    now = np.tile(home, (len(q), 1))
    goal = np.asarray(closing.motion.dyn.difference(now, q))
    for _ in range(WAYPOINTS if held else 0):
        now, _ = closing.close_loops(np.asarray(closing.motion.dyn.integrate(now, goal / WAYPOINTS)))
    now[:, closing.places] = q[:, closing.places]
    now, left = closing.close_loops(now)
    if len(left):
        now, left = closing.close_loops(now)
    for k in left.tolist():
        alone = closing.motion.of_run(k).model
        hold = {target.name: q[k, alone.q_slice(target.name)] for target in held}
        now[k] = assemble(alone, home, hold=hold)
    return now


class _Closing:
    """Newton's method on the position rows of many runs, with some joints held."""

    def __init__(self, motion: Motion, held: Sequence[Target]) -> None:
        self.motion = motion
        model, system = motion.model, constraint_set(motion.model)
        self.moving = np.ones(model.nv, dtype=bool)
        self.places: list[int] = []
        for target in held:
            self.moving[model.slice(target.name)] = False
            part = model.q_slice(target.name)
            self.places += range(part.start, part.stop)
        rigid = [(k, i) for k, i in enumerate(system.position_rows) if not system.compliance[i]]
        self.residuals, self.rows = [k for k, _ in rigid], [i for _, i in rigid]

    def close_loops(self, q: Array) -> tuple[Array, Array]:
        """Coordinates after a few steps, and which runs are open still."""
        q, left = np.array(self.motion.normalise(q)), np.arange(len(q))
        for _ in range(CLOSING_STEPS):
            own = self.motion.of_runs(left)
            g = own.evaluate("constraint_residual", q=q[left], t=np.zeros(len(left)))[:, self.residuals]
            still = ~(np.abs(g).max(axis=1, initial=0.0) <= CLOSED_START)
            left, g = left[still], g[still]
            if not len(left):
                break
            own = self.motion.of_runs(left)
            A = own.evaluate("constraint_jacobian", q=q[left], t=np.zeros(len(left)))[:, self.rows]
            step = np.zeros((len(left), len(self.moving)))
            step[:, self.moving] = -np.einsum("rnm,rm->rn", np.linalg.pinv(A[:, :, self.moving]), g)
            far = np.abs(step).max(axis=1, keepdims=True, initial=0.0)
            step *= np.minimum(1.0, LARGEST_CORRECTION / np.maximum(far, LARGEST_CORRECTION))
            q[left] = np.asarray(own.dyn.integrate(q[left], step))
        return q, left
