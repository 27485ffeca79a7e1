"""The commands: about models, runs, sweeps and the machine. Each is a frozen dataclass; tyro reads its fields.

``info``, ``condition`` and ``convert`` take a model's file; ``run``, ``view`` and ``plot`` compute a run from a
scenario, show it and draw it; ``sweep`` does so many times; ``bench`` and ``cache`` are about this machine.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from tyro.conf import arg

from whippletree.cli.drawing import draw, facts, grid
from whippletree.errors import MissingExtraError, UnsupportedError
from whippletree.simulation.record import INTERRUPTED

if TYPE_CHECKING:
    import xarray
    from rich.console import Console

    from whippletree.campaigns.campaign import Campaign
    from whippletree.model import Model


# --- arguments that several commands share ----------------------------------------------------------------------------


ModelPath = Annotated[Path, arg(metavar="MODEL")]
ScenarioPath = Annotated[Path, arg(metavar="SCENARIO")]
RunPath = Annotated[Path, arg(metavar="RUN")]
OptionalPath = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
Switch = Annotated[bool, arg(help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """Arguments that say which model is meant."""

    file: ModelPath
    """URDF, SDF, MJCF or native model file; or a scenario, for its model."""
    base: Literal["fixed", "free"] = "fixed"
    """How the root body stands in the world."""
    loops: OptionalPath = None
    """A file with the closed loops of a URDF, which has no words for them."""
    root: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """The folder that meshes and included files of the model must be in."""

    def load(self) -> Model:
        """The model."""
        import whippletree as wt
        from whippletree.scenario.scenario_reader import is_scenario

        if is_scenario(self.file):
            return wt.load_scenario(self.file).model
        return wt.load(self.file, base=self.base, loops=self.loops, root=self.root)


# --- about models: what is in a file, how well conditioned it is, the same in another format --------------------------


DIAGNOSED_UP_TO = 200
"""Velocities up to which ``info`` looks for redundant rows and massless motions by itself."""


@dataclass(frozen=True, kw_only=True)
class Info(ModelFile):
    """Show what a model file contains: tree, freedoms, masses, loops, redundant rows, massless motions."""

    depth: int = 24
    """Draw the tree down to this depth; what lies deeper is counted."""

    def run(self, console: Console) -> int:
        """Print it."""
        import whippletree as wt

        model = self.load()
        console.print(draw(model, depth=self.depth))
        console.print(facts(model))
        if 0 < model.nv <= DIAGNOSED_UP_TO:
            console.print(f"\n{wt.diagnose(model)}", markup=False)
        return 0


@dataclass(frozen=True, kw_only=True)
class Condition(ModelFile):
    """Say how well conditioned a model is: condition numbers, cheap estimates, predicted errors, cures."""

    q: Annotated[tuple[float, ...], arg(metavar="NUMBER …", help_behavior_hint="")] = ()
    """Coordinates; without them the model's home."""
    figure: OptionalPath = None
    """Release the model from rest, and draw its conditioning over time to this PNG file."""
    duration: float = 2.0
    """Length of that run, s."""

    def run(self, console: Console) -> int:
        """Print the report."""
        import whippletree as wt

        model = self.load()
        q = np.array(self.q) if self.q else model.home.q
        console.print(str(wt.conditioning(model, q)), markup=False)
        if self.figure is not None:
            from whippletree.view.conditioning_figure import run_figure, swinging

            path = run_figure(swinging(model.name, model, self.duration, q), self.figure)
            console.print(f"figure: {path}", markup=False)
        return 0


@dataclass(frozen=True, kw_only=True)
class Convert(ModelFile):
    """Write a model in this library's own format (TOML or JSON), which keeps loops, contacts and massless links."""

    target: Annotated[Path, arg(metavar="NEW")]
    """The new file: .toml or .json."""

    def run(self, console: Console) -> int:
        """Write it, and tell what was cleaned or left out on the way."""
        import whippletree as wt

        model = self.load()
        wt.save(model, self.target)
        console.print(f"{self.target}: {model!r}", markup=False)
        if model.source:
            console.print(model.source, markup=False, style="dim")
        return 0


# --- about runs: compute one from a scenario, look at it, draw it -----------------------------------------------------


RUNS = (".nc", ".zarr")


@dataclass(frozen=True)
class Run:
    """Simulate a scenario and write what it asks for: the run, a replay, plots."""

    scenario: ScenarioPath
    """A scenario file (TOML)."""
    output: OptionalPath = None
    """Where to keep the run, .nc or .zarr; instead of what the scenario says."""
    quiet: Switch = False
    """Show no progress; otherwise a long run shows it on a terminal."""

    def run(self, console: Console) -> int:
        """Simulate, write, and print a summary; 1 if the run failed on its way."""
        import whippletree as wt
        from whippletree.view.plots import save_figure

        scenario = wt.load_scenario(self.scenario)
        wanted = scenario.outputs
        keep = self.output if self.output is not None else scenario.place(wanted.run) if wanted.run else None
        check_outputs(keep, wanted.plots)
        begun = time.perf_counter()
        run = scenario.run(progress=False if self.quiet else None)
        seconds = time.perf_counter() - begun
        written = []
        if keep is not None:
            written.append(wt.save_run(run, keep))
        if wanted.replay:
            written.append(wt.export_html(scenario.model, run, scenario.place(wanted.replay)))
        for what in wanted.plots:
            path = self.scenario.with_name(f"{self.scenario.stem}-{what}.png")
            written.append(save_figure(wt.plot(run, what, model=scenario.model), path))
        console.print(summary(run, seconds))
        for path in written:
            console.print(f"wrote {path}", markup=False)
        failure = run.attrs["failure"]
        if failure == INTERRUPTED:
            raise KeyboardInterrupt  # what was computed is written
        if failure:
            console.print(f"the run failed: {failure}", markup=False, style="red")
        return 1 if failure else 0


@dataclass(frozen=True, kw_only=True)
class View(ModelFile):
    """Show a model, or a run, in the browser; with an output, as one HTML file that needs no network."""

    file: Annotated[Path, arg(metavar="MODEL|RUN")]
    """A model file, a scenario (TOML) as it starts, or a run (.nc, .zarr) that 'whippletree run' has written."""
    output: OptionalPath = None
    """Write an HTML file here instead of serving a page."""
    port: int = 8080
    """Port of the page; the next free one is taken if it is in use."""
    live: Switch = False
    """Let the model move while you look, with a slider for the command of each actuator."""

    def run(self, console: Console) -> int:
        """Serve until interrupted, or write the file."""
        import whippletree as wt

        model, run, q = self._model_and_run()
        if self.live and (run is not None or self.output is not None):
            raise UnsupportedError("--live is for models on a served page: leave out --output, and give a model")
        if self.output is not None:
            console.print(f"wrote {wt.export_html(model, run, self.output, q=q)}", markup=False)
            return 0
        try:
            viewer = wt.show(model, run, q=q, port=self.port, live=self.live)
        except MissingExtraError as missing:
            raise UnsupportedError(f"{missing}; or write a page that needs nothing: --output page.html") from None
        console.print(f"{model.name}: {viewer.url} (Ctrl-C ends it)", markup=False)
        viewer.wait()
        return 0

    def _model_and_run(self) -> tuple[Model, xarray.Dataset | None, Any]:
        import whippletree as wt
        from whippletree.scenario.scenario_reader import is_scenario

        if self.file.suffix in RUNS:
            return *open_stored_run(self.file), None
        if is_scenario(self.file):
            scenario = wt.load_scenario(self.file)
            return scenario.model, None, scenario.q0
        return self.load(), None, None


@dataclass(frozen=True)
class Plot:
    """Draw a run that 'whippletree run' has written."""

    run_file: RunPath
    """The run, .nc or .zarr."""
    what: Annotated[str, arg(metavar="FIGURE")] = "overview"
    """overview, joints, velocities, energies, forces, reactions, contacts, residuals, phase, conditioning, strobe or
    path."""
    output: OptionalPath = None
    """Where to write the picture (.png, .svg, .pdf); by default beside the run."""

    def run(self, console: Console) -> int:
        """Draw and write."""
        import whippletree as wt
        from whippletree.view.plots import save_figure

        model, run = open_stored_run(self.run_file)
        path = self.output or self.run_file.with_name(f"{self.run_file.stem}-{self.what}.png")
        console.print(f"wrote {save_figure(wt.plot(run, self.what, model=model), path)}", markup=False)
        return 0


def check_outputs(keep: Path | None, plots: Sequence[str]) -> None:
    """Refuse outputs that could not be written, before anything is computed."""
    from whippletree.simulation.output.run_files import check_place
    from whippletree.view.plots import check_figures

    if keep is not None:
        check_place(keep)
    if plots:
        check_figures(plots)


def open_stored_run(path: Path) -> tuple[Model, xarray.Dataset]:
    """A run from a file, and the model that was simulated.

    Raises:
        UnsupportedError: a run without its model.
    """
    import whippletree as wt
    from whippletree.scenario.scenario_reader import model_of

    run = wt.load_run(path)
    model = model_of(run)
    if model is None:
        raise UnsupportedError(f"{path}: the run does not hold its model; run its scenario again")
    return model, run


def _steps(account: Mapping[Any, Any]) -> str:
    """``120, 3 rejected, 120 projected``."""
    words = {"steps": "", "rejections": " rejected", "projections": " projected", "python_steps": " in Python"}
    found = [f"{account[name]}{word}" for name, word in words.items() if account.get(name)]
    return ", ".join(found)


def summary(run: xarray.Dataset, seconds: float) -> Any:
    """Facts and cost of a run as a rich table."""
    a = run.attrs
    table = grid()
    rows = {
        "model": a["model"],
        "method": a["method"],
        "time": f"{float(run.time[-1]):g} s in {len(run.time)} rows, computed in {seconds:.2f} s",
        "runs": f"{run.sizes['run']}" if "run" in run.sizes else "",
        "energy": f"changed by at most {a['energy_drift']:.1e} J",
        "steps": _steps(a),
        "events": f"{a['events']}" if a["events"] else "",
    }
    if "constraint_residual" in run:
        rows["constraints"] = f"largest residual {a['max_residual']:.1e}"
    for word, value in rows.items():
        if value:
            table.add_row(word, value)
    return table


# --- about sweeps: run one, a part of one, see whether all is there, compute some again, report -----------------------


@dataclass(frozen=True)
class Sweep:
    """Run a scenario many times with other parameters; the same command again goes on with what is missing."""

    file: Annotated[Path, arg(metavar="SWEEP")]
    """A sweep file (TOML)."""
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Processes of this machine; one for each core by default."""
    engine: Annotated[str | None, arg(metavar="ENGINE", help_behavior_hint="")] = None
    """"dask", or the address of a dask scheduler, such as tcp://node1:8786."""
    part: Annotated[str | None, arg(metavar="K/N", help_behavior_hint="")] = None
    """Compute only the K-th of N parts, for job arrays; then --gather."""
    gather: Switch = False
    """Compute nothing: check that all parts are there, and summarise them."""
    verify: Annotated[str | None, arg(metavar="SHARE", help_behavior_hint="")] = None
    """Compute a share of what is there again, such as 1%, and compare it."""
    report: OptionalPath = None
    """Write a page about the results here (.html)."""
    quiet: Switch = False
    """Show no progress."""

    def run(self, console: Console) -> int:
        """Do what is asked; 1 if runs are missing or differ."""
        from whippletree.campaigns.campaign import engine_of, load_sweep

        campaign = load_sweep(self.file)
        tasks = None if self.part is None else _part(self.part, campaign.tasks)
        if not (self.gather or self.verify):
            missing = len(campaign.missing(tasks))
            campaign.run(engine_of(self.engine, self.workers, missing), tasks, progress=False if self.quiet else None)
        code = self._verify(campaign, console) if self.verify else 0
        if self.part is None:
            code = max(code, self._summary(campaign, console))
        if self.report is not None:
            console.print(f"wrote {campaign.report(self.report)}", markup=False)
        return code

    def _summary(self, campaign: Campaign, console: Console) -> int:
        import whippletree as wt

        found = wt.open_sweep(campaign.store.folder)
        reasons = [text for text in found["failure"].values.ravel().tolist() if text]
        missing = found.attrs["missing"]
        runs, failed = found.attrs["runs"], len(reasons) - missing
        console.print(f"{runs - missing:,} of {runs:,} runs are there, {failed:,} of them failed", markup=False)
        console.print(f"digest {found.attrs['digest']}", markup=False)
        if missing:
            tasks = campaign.missing()
            console.print(f"{missing:,} runs are missing: {len(tasks):,} tasks, the first is {tasks[0]}", markup=False)
        return 1 if missing else 0

    def _verify(self, campaign: Campaign, console: Console) -> int:
        wrong = campaign.verify(_share(str(self.verify)))
        verdict = f"differ: tasks {', '.join(map(str, wrong))}" if wrong else "the tasks computed again are the same"
        console.print(verdict, markup=False)
        return 1 if wrong else 0


def _part(text: str, tasks: int) -> range:
    """The tasks of part K of N, as equal as can be."""
    matched = re.fullmatch(r"(\d+)/(\d+)", text)
    if matched is None or not 1 <= int(matched[1]) <= int(matched[2]):
        raise ValueError(f"--part {text}: expected K/N with K from 1 to N, such as 17/400")
    k, n = int(matched[1]), int(matched[2])
    return range((k - 1) * tasks // n, k * tasks // n)


def _share(text: str) -> float:
    matched = re.fullmatch(r"([\d.]+)(%?)", text)
    share = float(matched[1]) / (100 if matched[2] else 1) if matched else -1.0
    if not 0 < share <= 1:
        raise ValueError(f"--verify {text}: expected a share such as 1% or 0.01")
    return share


# --- about the machine: how fast functions are here, and what the compiler keeps on disk ------------------------------


FUNCTIONS = ("forward_dynamics", "inverse_dynamics", "mass_matrix")


@dataclass(frozen=True, kw_only=True)
class Bench(ModelFile):
    """Measure a model's compiled functions on this machine: one state at a time, and in a batch."""

    batch: int = 4096
    """States at once."""
    threads: int = 1
    """Threads that share them."""

    def run(self, console: Console) -> int:
        """Print a table of times; the same seeds and states every time."""
        from rich.table import Table

        import whippletree as wt

        if self.batch < 1:
            raise ValueError(f"--batch {self.batch}: expected at least one state")
        model = self.load()
        dyn = wt.compile(model, threads=self.threads)
        rng = np.random.default_rng(0)
        q = np.asarray(dyn.integrate(model.home.q, rng.normal(scale=0.3, size=(self.batch, model.nv))))
        states = {"q": q, **{name: rng.normal(size=(self.batch, model.nv)) for name in ("v", "a", "tau")}}
        table = Table(title=f"{model.name}: nv = {model.nv}, batch {self.batch}, threads {self.threads}")
        for title in ("function", "first use", "one state", "per state in a batch"):
            table.add_column(title, justify="left" if title == "function" else "right")
        for name in FUNCTIONS:
            function = getattr(dyn, name)
            many = [states[word] for word in function.inputs if word in states]
            if len(many) < len(function.inputs):
                continue  # switches and time have no generic value
            one = [x[0] for x in many]
            begun = time.perf_counter()
            function(*many)
            cold = time.perf_counter() - begun
            batch = _median(lambda function=function, many=many: function(*many)) / self.batch  # type: ignore[misc]
            single = _median(lambda function=function, one=one: function(*one))  # type: ignore[misc]
            table.add_row(name, f"{cold:.2f} s", f"{single * 1e6:.2f} µs", f"{batch * 1e6:.4f} µs")
        console.print(table)
        return 0


def _median(call: Callable[[], object], rounds: int = 15, seconds: float = 0.02) -> float:
    call()
    begun = time.perf_counter()
    call()
    count = max(1, int(seconds / max(time.perf_counter() - begun, 1e-7)))
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        for _ in range(count):
            call()
        found.append((time.perf_counter() - begun) / count)
    return statistics.median(found)


@dataclass(frozen=True)
class Cache:
    """Show where compiled functions are kept on disk and how much room they take; or remove them all."""

    clear: Switch = False
    """Remove every entry; the next use compiles again."""

    def run(self, console: Console) -> int:
        """Print it."""
        from whippletree.files.cache import default_cache

        cache = default_cache()
        if self.clear:
            cache.clear()
        found = cache.info()
        table = grid()
        for word, value in (
            ("folder", str(found.folder) if found.folder is not None else "off (WHIPPLETREE_CACHE)"),
            ("entries", str(found.entries)),
            ("size", f"{found.bytes / 1e6:.1f} MB of at most {found.limit / 1e6:.0f} MB"),
        ):
            table.add_row(word, value)
        console.print(table)
        return 0
