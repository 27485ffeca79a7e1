"""``wt.sweep``: many runs of one model or scenario, kept in a folder that can be stopped and gone on with.

A sweep may be written as a TOML file, version 1:

    whippletree_sweep = 1
    scenario = "pump.toml"                      # what to run, beside this file
    folder = "pump.sweep"                       # where results go; default: the name of this file with .sweep
    design = "sobol"                            # grid, zip, random, sobol, latin_hypercube, saltelli
    runs = 1000                                 # of designs that are drawn
    seed = 1
    keep = ["final", "events"]

    [parameters]                                # or: table = "designs.csv", whose columns are paths
    "bodies.rod.mass" = [0.5, 1.0, 2.0]
    "q0.crank" = { from = 0.0, to = 3.0, count = 7 }
    "contact.friction" = { distribution = "uniform", loc = 0.2, scale = 0.6 }

    [metrics]                                   # functions of a run, in a Python file of yours
    peak = { file = "metrics.py", function = "peak_torque" }

    [options]                                   # of wt.simulate, instead of what the scenario says
    output_dt = 0.01

Running a sweep runs the Python files that it names.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from whippletree.campaigns.cases import Case, ModelSubject, ScenarioSubject, Subject
from whippletree.campaigns.design import design_of, distribution_named
from whippletree.campaigns.engines import Dask, Engine, Here, Job, Processes
from whippletree.campaigns.opening import open_sweep
from whippletree.campaigns.run_blocks import KEEPS, Metric, Work, compute_block, rerun
from whippletree.campaigns.store import SWEEP_VERSION, Receipt, Store, block_digest, parquet
from whippletree.campaigns.sweep_report import sweep_report
from whippletree.campaigns.targets import targets_of, with_kinds
from whippletree.errors import FileError, NameLookupError, ShapeError, UnsupportedError
from whippletree.io.draft import Draft
from whippletree.io.native import native_reader
from whippletree.io.paths import read_bytes
from whippletree.model import Model
from whippletree.model.input_checks import as_names, require_arguments
from whippletree.scenario.factories import python_function
from whippletree.scenario.scenario_reader import Scenario
from whippletree.simulation.method import find_method, suitable
from whippletree.simulation.run_identity import Content

if TYPE_CHECKING:
    import xarray


RUNS_TOGETHER = 4096
"""Runs of a task where a method takes many at once: the batch is long enough to be fast, its output small."""

IN_TURN = 16
"""Runs of a task where a method takes one at a time: a task then lasts about a second."""

MOST_TASKS = 100_000
"""Files that a folder is asked to hold; more runs make larger tasks."""


@dataclass(frozen=True, eq=False)
class Campaign:
    """A sweep that is ready to run, or to go on."""

    job: Job
    store: Store
    manifest: Mapping[str, Any]

    @property
    def tasks(self) -> int:
        """How many there are."""
        return -(-self.job.work.design.runs // self.job.runs_per_task)

    def missing(self, tasks: range | None = None) -> list[int]:
        """Tasks of a range, or of all, that are not done yet."""
        done = self.store.parts()
        return [task for task in tasks or range(self.tasks) if task not in done]

    def run(self, engine: Engine, tasks: range | None = None, *, progress: bool | None = None) -> None:
        """Do what is missing, by this engine."""
        self.store.begin(self.manifest)
        missing = self.missing(tasks)
        done = self.tasks - len(self.missing())
        with progress_of(progress, self.job.work.design.runs, done * self.job.runs_per_task) as tell:
            for receipt in engine.receipts(self.job, missing):
                tell(receipt)

    def report(self, page: str | os.PathLike[str]) -> Path:
        """Write a page about what is there, with replays of the least and the largest."""
        return sweep_report(self.store.folder, page, rerun=partial(rerun, self.job.work))

    def verify(self, share: float, seed: int = 0) -> list[int]:
        """Compute a share of the tasks again, and return those whose content differs from what is kept."""
        parts = self.store.parts()
        count = max(1, round(share * len(parts))) if parts else 0
        chosen = np.random.default_rng(seed).permutation(sorted(parts))[:count]
        size, runs = self.job.runs_per_task, self.job.work.design.runs
        wrong = []
        for task in sorted(int(k) for k in chosen):
            block = compute_block(self.job.work, task * size, min((task + 1) * size, runs))
            if not parts[task].stem.endswith(block_digest(block)):
                wrong.append(task)
        return wrong


def sweep(
    subject: Model | Callable[..., Model] | Scenario | str | os.PathLike[str],
    parameters: Any,
    *,
    folder: str | os.PathLike[str],
    design: str | None = None,
    runs: int | None = None,
    seed: int = 0,
    q0: Any = None,
    v0: Any = None,
    controller: Callable[..., Any] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    keep: str | Sequence[str] = "final",
    engine: Any = None,
    workers: int | None = None,
    runs_per_task: int | None = None,
    progress: bool | None = None,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> xarray.Dataset:
    """Run a model or a scenario many times, with other parameters each time, and keep what is asked for in a folder.

    The same call again goes on with what is missing; the result has the same bits on any engine and any number of
    workers.

    Args:
        subject: a model; a function that makes one from the words of paths ``model.WORD``; a scenario or its file.
        parameters: values by path: lists, distributions of ``scipy.stats``, or one value; or a data frame. Paths are
            ``bodies.rod.mass``, ``joints.hip.position``, ``gravity``, ``q0.crank``, ``v0.crank``, ``contact.friction``,
            ``contacts.NAME.friction``, ``ctrl.NAME``, ``controller.WORD``, ``model.WORD``, ``solver.OPTION``; one entry
            of several is ``gravity[1]``.
        folder: where results are kept.
        design: ``grid``, ``zip``, ``random``, ``sobol``, ``latin_hypercube`` or ``saltelli``
            (:mod:`whippletree.campaigns.design`); default: what the values suggest.
        runs: how many, for designs that are drawn.
        seed: of the draws.
        q0, v0: where runs start, but for what paths ``q0.…`` and ``v0.…`` say; default ``model.home``. Loops are closed
            around the coordinates that a path sets.
        controller: joint forces as a function of (t, q, v); with paths ``controller.WORD``, a function of the model and
            these words that makes it.
        metrics: functions of a run (what ``wt.simulate`` returns), each giving one number; those that
            :func:`whippletree.on_batch` marks take all runs of a task at once.
        keep: of ``final`` (the last state), ``series`` (time series of all ``variables``), ``events``.
        engine: default: processes of this machine; ``"dask"``, the address of a dask scheduler, or its client.
        workers: processes of this machine; default: one for each core. One computes in this process.
        runs_per_task: default: 4096 where the method runs many at once, else 16.
        progress: whether to show how far it has come; default: on a terminal.
        report: where to write a page about the results (:func:`whippletree.sweep_report`), with replays beside it.
        options: of ``wt.simulate``: ``duration``, ``method``, ``output_dt``, ``variables``, …

    Returns:
        What :func:`whippletree.open_sweep` gives.
    """
    campaign = plan_sweep(
        subject, parameters, folder=folder, design=design, runs=runs, seed=seed, q0=q0, v0=v0, controller=controller,
        metrics=metrics, keep=keep, runs_per_task=runs_per_task, **options,
    )  # fmt: skip
    campaign.run(engine_of(engine, workers, len(campaign.missing())), progress=progress)
    if report is not None:
        campaign.report(report)
    return open_sweep(folder)


def plan_sweep(
    subject: Any,
    parameters: Any,
    *,
    folder: str | os.PathLike[str],
    design: str | None = None,
    runs: int | None = None,
    seed: int = 0,
    q0: Any = None,
    v0: Any = None,
    controller: Callable[..., Any] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    keep: str | Sequence[str] = "final",
    runs_per_task: int | None = None,
    **options: Any,
) -> Campaign:
    """The sweep that a call describes, with all that can be wrong found before anything is computed."""
    import whippletree

    parquet()
    about = _subject(subject, q0, v0, controller, options)
    chosen = design_of(parameters, design, runs, seed)
    first = {path: values[0] for path, values in chosen.values(0, 1).items()}
    base = about.case(with_kinds(first, "model", "controller", "controllers"))
    targets = targets_of(base.model, chosen.paths)
    about.case({target.path: first[target.path] for target in targets if target.makes_cases})
    kept = as_names(keep)
    for word in kept:
        if word not in KEEPS:
            raise NameLookupError("thing to keep", word, KEEPS, where="sweep")
    for name, metric in (metrics or {}).items():
        if not callable(metric):
            raise TypeError(f"sweep: metric {name!r} is {metric!r}, expected a function of a run")
        require_arguments(f"sweep: metric {name!r}", metric, "run")
    if "duration" not in base.options:
        raise TypeError("sweep: duration= is missing: how long is a run, s?")
    work = Work(about, chosen, targets, kept, dict(metrics or {}))
    size = _task_size(base, work, runs_per_task)
    place = Path(folder)
    job = Job(work, place.absolute(), size, whippletree.__version__)
    return Campaign(job, Store(place), _manifest(job, base))


def engine_of(engine: Any, workers: int | None, tasks: int) -> Engine:
    """The engine that a call asks for."""
    if workers is not None and (not isinstance(workers, (int, np.integer)) or workers < 1):
        raise ValueError(f"sweep: workers is {workers!r}, expected a whole number from 1")
    if engine is None:
        count = min(workers if workers is not None else os.cpu_count() or 1, tasks)
        return Processes(count) if count > 1 else Here()
    if hasattr(engine, "receipts"):
        found: Engine = engine
        return found
    if isinstance(engine, str) and engine != "dask" and "://" not in engine:
        raise NameLookupError("engine", engine, ["dask", "tcp://address:port"], where="sweep")
    return Dask(engine)


def on_batch(metric: Metric) -> Metric:
    """Mark a metric that takes all runs of a task at once, with a dimension ``run``, and gives a number for each."""
    metric.on_batch = True  # type: ignore[attr-defined]
    return metric


def _subject(subject: Any, q0: Any, v0: Any, controller: Any, options: Mapping[str, Any]) -> Subject:
    if isinstance(subject, Model) or (callable(subject) and not isinstance(subject, type)):
        return ModelSubject(subject, q0, v0, controller, dict(options))
    if q0 is not None or v0 is not None or controller is not None:
        raise UnsupportedError("sweep: a scenario has its own start and controllers: leave q0, v0 and controller out")
    if isinstance(subject, Scenario):
        return ScenarioSubject(subject.path.absolute(), dict(options))
    if isinstance(subject, (str, os.PathLike)):
        return ScenarioSubject(Path(subject).absolute(), dict(options))
    raise TypeError(f"sweep: {subject!r} is neither a model, a function that makes one, nor a scenario")


def _task_size(base: Case, work: Work, asked: int | None) -> int:
    """Runs of a task: it must not depend on the machine, for parts of a sweep may be computed anywhere."""
    if asked is not None:
        if not isinstance(asked, (int, np.integer)) or asked < 1:
            raise ValueError(f"sweep: runs_per_task is {asked!r}, expected a whole number from 1")
        return int(asked)
    method = base.options.get("method", "auto")
    way = find_method(suitable(base.model, base.q0) if method == "auto" else method, base.model)
    numbers = any(target.kind == "number" for target in work.targets)
    together = way.batches and (way.opens or not numbers)
    return max(RUNS_TOGETHER if together else IN_TURN, -(-work.design.runs // MOST_TASKS))


def _manifest(job: Job, base: Case) -> dict[str, Any]:
    """All that decides the content of the folder, as words."""
    work, design = job.work, job.work.design
    content = Content()
    content.add("model", base.model)
    content.add("controller", base.controller)
    content.add("start", np.concatenate([base.q0, base.v0]))
    for word, value in base.options.items():
        content.add(f"option {word}", value)
    for name, metric in work.metrics.items():
        content.add(f"metric {name}", metric)
    for axis in design.axes:
        content.add(f"values of {axis.path}", axis.values)
        if axis.distribution is not None:
            content.add(f"distribution of {axis.path}", _words_of(axis.distribution))
    grid = {axis.path: list(axis.values) for axis in design.axes} if design.kind == "grid" else {}
    return {
        "whippletree_sweep": SWEEP_VERSION, "whippletree": job.version, "model": base.model.name, "design": design.kind,
        "runs": design.runs, "seed": design.seed, "runs_per_task": job.runs_per_task, "keep": list(work.keep),
        "parameters": list(design.paths), "grid": grid, "metrics": list(work.metrics), "content": content.words,
    }  # fmt: skip


def _words_of(distribution: Any) -> Any:
    """Identity of a distribution: of scipy its name and arguments."""
    if hasattr(distribution, "dist"):
        return [
            distribution.dist.name,
            list(map(float, distribution.args)),
            {k: float(x) for k, x in distribution.kwds.items()},
        ]
    return repr(distribution)


# --- how far a sweep has come, on a terminal --------------------------------------------------------------------------


@contextmanager
def progress_of(asked: bool | None, runs: int, done: int) -> Iterator[Callable[[Receipt], None]]:
    """A function that is told of receipts, and shows them if asked or, if nothing is said, where somebody watches."""
    if not (sys.stderr.isatty() if asked is None else asked):
        yield lambda receipt: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [
        TextColumn("sweep"), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f} runs"),
        TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[failed]}"), TimeRemainingColumn(),
    ]  # fmt: skip
    begun, computed, failed = time.monotonic(), 0, 0
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task("sweep", total=runs, completed=min(done, runs), rate="", failed="")

        def tell(receipt: Receipt) -> None:
            nonlocal computed, failed
            computed, failed = computed + receipt.runs, failed + receipt.failures
            rate = computed / max(time.monotonic() - begun, 1e-9)
            failures = f"{failed:,} failed" if failed else ""
            shown.update(task, advance=receipt.runs, rate=f"{rate:,.3g} runs/s", failed=failures)

        yield tell


# --- a sweep as a TOML file, version 1 --------------------------------------------------------------------------------


SWEEP_FORMAT = 1


class SweepFile(msgspec.Struct, forbid_unknown_fields=True):
    """The tables of the file."""

    scenario: str
    whippletree_sweep: int = SWEEP_FORMAT
    folder: str = ""
    design: str | None = None
    runs: int | None = None
    seed: int = 0
    runs_per_task: int | None = None
    keep: list[str] = msgspec.field(default_factory=lambda: ["final"])
    table: str = ""
    parameters: dict[str, Any] = {}
    metrics: dict[str, dict[str, Any]] = {}
    options: dict[str, Any] = {}


def load_sweep(path: str | os.PathLike[str]) -> Campaign:
    """Read a sweep file; everything that can be wrong is found here.

    Raises:
        FileError: listing the faults, a misspelt key with the nearest that is known.
    """
    place = Path(path)
    given = _checked_file(place)
    try:
        parameters = _parameters(place, given)
        metrics = {name: _metric(place, name, table) for name, table in given.metrics.items()}
        folder = place.parent / (given.folder or f"{place.stem}.sweep")
        return plan_sweep(
            place.parent / given.scenario, parameters, folder=folder, design=given.design, runs=given.runs,
            seed=given.seed, metrics=metrics, keep=given.keep, runs_per_task=given.runs_per_task, **given.options,
        )  # fmt: skip
    except (NameLookupError, ShapeError, ValueError, TypeError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(str(place), [str(error)]) from None


def _checked_file(place: Path) -> SweepFile:
    text = native_reader.decode(place, read_bytes(place))
    lines, draft = native_reader.Lines(text), Draft(place, place.stem)
    document = native_reader.parse(place, text)
    found = native_reader.checked_table(draft, document, SweepFile, "the file", partial(lines.find, "", 0))
    if found.get("whippletree_sweep", SWEEP_FORMAT) != SWEEP_FORMAT:
        draft.fault(f"the file has format {found['whippletree_sweep']}; this version reads format {SWEEP_FORMAT}")
    if "scenario" not in document:
        draft.fault("scenario is missing: which scenario file is to be run?")
    draft.stop_if_faulty()
    return SweepFile(**found)


def _parameters(place: Path, given: SweepFile) -> Any:
    if bool(given.table) == bool(given.parameters):
        raise ValueError("give either [parameters] or table = 'designs.csv'")
    if given.table:
        import pandas

        return pandas.read_csv(place.parent / given.table)
    return {path: _values(path, value) for path, value in given.parameters.items()}


def _values(path: str, value: Any) -> Any:
    """A list, a range ``{from, to, count}``, or a distribution."""
    if not isinstance(value, dict):
        return value
    if "distribution" in value:
        return distribution_named(value, f"parameters: {path!r}")
    if set(value) - {"spacing"} != {"from", "to", "count"}:
        raise ValueError(
            f"parameters: {path!r} takes a list, {{from, to, count}} or {{distribution, …}}, got {value!r}"
        )
    between = np.geomspace if value.get("spacing") == "log" else np.linspace
    return between(value["from"], value["to"], int(value["count"]))


def _metric(place: Path, name: str, table: dict[str, Any]) -> Any:
    if unknown := set(table) - {"file", "function", "batch"}:
        raise NameLookupError("key", sorted(unknown)[0], ["file", "function", "batch"], where=f"metrics.{name}")
    function = python_function(table.get("file", ""), table.get("function", name), place.parent, f"metric {name!r}")
    return on_batch(function) if table.get("batch") else function
