"""Commands about runs: compute one from a scenario, look at it, draw it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whippletree.cli.drawing import grid
from whippletree.errors import UnsupportedError

if TYPE_CHECKING:
    import xarray
    from rich.console import Console

    from whippletree.model import Model

RUNS = (".nc", ".zarr")


@dataclass(frozen=True)
class Run:
    """Simulate a scenario and write what it asks for: the run, a replay, plots."""

    scenario: Path
    """A scenario file (TOML)."""
    output: Path | None = None
    """Where to keep the run, .nc or .zarr; instead of what the scenario says."""
    progress: bool | None = None
    """Show how far the run has come; by default on a terminal."""

    def run(self, console: Console) -> int:
        """Simulate, write, and print a summary; 1 if the run failed on its way."""
        import whippletree as wt

        scenario = wt.load_scenario(self.scenario)
        begun = time.perf_counter()
        run = scenario.run(progress=self.progress)
        seconds = time.perf_counter() - begun
        wanted = scenario.outputs
        written = []
        keep = self.output if self.output is not None else scenario.place(wanted.run) if wanted.run else None
        if keep is not None:
            written.append(wt.save_run(run, keep))
        if wanted.replay:
            written.append(wt.export_html(scenario.model, run, scenario.place(wanted.replay)))
        for what in wanted.plots:
            path = self.scenario.with_name(f"{self.scenario.stem}-{what}.png")
            wt.plot(run, what, model=scenario.model).savefig(path)
            written.append(path)
        console.print(summary(run, seconds))
        for path in written:
            console.print(f"wrote {path}", markup=False)
        if run.attrs["failure"]:
            console.print(f"the run failed: {run.attrs['failure']}", markup=False, style="red")
            return 1
        return 0


@dataclass(frozen=True)
class View:
    """Show a model, or a run, in the browser; with an output, as one HTML file that needs no network."""

    file: Path
    """A model file, a scenario (TOML), or a run (.nc, .zarr) that ``whippletree run`` has written."""
    base: Literal["fixed", "free"] = "fixed"
    """How the root of a model file stands in the world."""
    output: Path | None = None
    """Write an HTML file here instead of serving a page."""
    port: int = 8080
    """Of the page; the next free one is taken if it is in use."""

    def run(self, console: Console) -> int:
        """Serve until interrupted, or write the file."""
        import whippletree as wt

        model, run = self._shown()
        if self.output is not None:
            console.print(f"wrote {wt.export_html(model, run, self.output)}", markup=False)
            return 0
        viewer = wt.show(model, run, port=self.port)
        console.print(f"{model.name}: {viewer.url} (Ctrl-C ends it)", markup=False)
        viewer.wait()
        return 0

    def _shown(self) -> tuple[Model, xarray.Dataset | None]:
        import whippletree as wt

        if self.file.suffix in RUNS:
            return stored(self.file)
        return wt.load(self.file, base=self.base), None


@dataclass(frozen=True)
class Plot:
    """Draw a run that ``whippletree run`` has written."""

    run_file: Path
    """The run, .nc or .zarr."""
    what: str = "overview"
    """overview, joints, velocities, energies, forces, contacts, residuals, phase, conditioning, strobe or path."""
    output: Path | None = None
    """Where to write the picture (.png, .svg, .pdf); by default beside the run."""

    def run(self, console: Console) -> int:
        """Draw and write."""
        import whippletree as wt

        model, run = stored(self.run_file)
        path = self.output or self.run_file.with_name(f"{self.run_file.stem}-{self.what}.png")
        wt.plot(run, self.what, model=model).savefig(path)
        console.print(f"wrote {path}", markup=False)
        return 0


def stored(path: Path) -> tuple[Model, xarray.Dataset]:
    """A run from a file, and the model that was simulated.

    Raises:
        UnsupportedError: a run without its model.
    """
    import whippletree as wt
    from whippletree.scenario.keeping import model_of

    run = wt.load_run(path)
    model = model_of(run)
    if model is None:
        raise UnsupportedError(f"{path}: the run does not hold its model; run its scenario again")
    return model, run


def summary(run: xarray.Dataset, seconds: float) -> Any:
    """What a run was and what it cost, as a rich table."""
    a = run.attrs
    table = grid()
    rows = {
        "model": a["model"],
        "method": a["method"],
        "time": f"{float(run.time[-1]):g} s in {len(run.time)} rows, computed in {seconds:.2f} s",
        "energy": f"drift {a['energy_drift']:.1e} J",
        "steps": str(a.get("steps", "")),
        "events": f"{len(a['event_names'])}" if a["event_names"] else "",
    }
    if "constraint_residual" in run:
        rows["constraints"] = f"largest residual {float(abs(run['constraint_residual']).max()):.1e}"
    for word, value in rows.items():
        if value:
            table.add_row(word, value)
    return table
