"""Commands about runs: compute one from a scenario, look at it, draw it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from whippletree.cli.arguments import ModelFile, OptionalPath, RunPath, ScenarioPath
from whippletree.cli.drawing import grid
from whippletree.errors import MissingExtraError, UnsupportedError
from whippletree.simulation.record import INTERRUPTED

if TYPE_CHECKING:
    import xarray
    from rich.console import Console

    from whippletree.model import Model

RUNS = (".nc", ".zarr")


@dataclass(frozen=True)
class Run:
    """Simulate a scenario and write what it asks for: the run, a replay, plots."""

    scenario: ScenarioPath
    """A scenario file (TOML)."""
    output: OptionalPath = None
    """Where to keep the run, .nc or .zarr; instead of what the scenario says."""
    quiet: bool = False
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
    """A model file, a scenario (TOML) as it starts, or a run (.nc, .zarr) that ``whippletree run`` has written."""
    output: OptionalPath = None
    """Write an HTML file here instead of serving a page."""
    port: int = 8080
    """Of the page; the next free one is taken if it is in use."""
    live: bool = False
    """Let a model move while one looks, with a slider for the command of each actuator."""

    def run(self, console: Console) -> int:
        """Serve until interrupted, or write the file."""
        import whippletree as wt

        model, run, q = self._shown()
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

    def _shown(self) -> tuple[Model, xarray.Dataset | None, Any]:
        import whippletree as wt
        from whippletree.scenario.scenario_reader import is_scenario

        if self.file.suffix in RUNS:
            return *stored(self.file), None
        if is_scenario(self.file):
            scenario = wt.load_scenario(self.file)
            return scenario.model, None, scenario.q0
        return self.load(), None, None


@dataclass(frozen=True)
class Plot:
    """Draw a run that ``whippletree run`` has written."""

    run_file: RunPath
    """The run, .nc or .zarr."""
    what: Annotated[str, arg(metavar="FIGURE")] = "overview"
    """overview, joints, velocities, energies, forces, contacts, residuals, phase, conditioning, strobe or path."""
    output: OptionalPath = None
    """Where to write the picture (.png, .svg, .pdf); by default beside the run."""

    def run(self, console: Console) -> int:
        """Draw and write."""
        import whippletree as wt
        from whippletree.view.plots import save_figure

        model, run = stored(self.run_file)
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


def stored(path: Path) -> tuple[Model, xarray.Dataset]:
    """A run from a file, and the model that was simulated.

    Raises:
        UnsupportedError: a run without its model.
    """
    import whippletree as wt
    from whippletree.scenario.model_in_run import model_of

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
