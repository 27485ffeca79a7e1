"""``whippletree demo``: a few mechanisms that other tools refuse, what they conserve, and pictures of them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import xarray
    from rich.console import Console

    from whippletree.model import Model


class DemoPiece(NamedTuple):
    """One mechanism of the demonstration."""

    what: str
    make: Callable[[], Model]
    spin: dict[str, float]
    """Velocities of joints at the start, rad/s or m/s; what loops forbid is projected away."""
    duration: float
    options: dict[str, Any]


def pieces() -> list[DemoPiece]:
    """In the order in which they are shown."""
    from whippletree import mechanisms

    return [
        DemoPiece("a crank-slider whose rod has no mass", mechanisms.crank_slider, {"crank": 6.0}, 3.0, {}),
        DemoPiece(
            "a four-bar with a massless rocker",
            lambda: mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8), masses=(1.0, 1.0, 0.0)),
            {"crank": 4.0},
            3.0,
            {},
        ),
        DemoPiece("a hopping robot on a massless leg", mechanisms.hopper, {}, 3.0, {"massless": "hold"}),
    ]


@dataclass(frozen=True)
class Demo:
    """Simulate mechanisms with massless links, loops and contact; say what was conserved; leave pictures and data."""

    output: Path = Path("out/demo")
    """Folder for pictures (PNG), replays (HTML, no network needed) and data (NetCDF)."""

    def run(self, console: Console) -> int:
        """Print one screen and write the files."""
        from rich.table import Table

        from whippletree.view.gallery import gallery

        table = Table(title="three seconds of motion", title_justify="left")
        for title in ("mechanism", "energy drift", "loop or gap", "events", "steps", "time"):
            table.add_column(title, justify="left" if title == "mechanism" else "right")
        self.output.mkdir(parents=True, exist_ok=True)  # a folder that cannot be made stops this at once
        runs = []
        for piece in pieces():
            begun = time.perf_counter()
            model = piece.make()
            run = simulate_piece(model, piece)
            table.add_row(piece.what, *_numbers(run), f"{time.perf_counter() - begun:.1f} s")
            runs.append((model, run))
        console.print(table)
        exhibits = gallery(runs, self.output)
        if any(exhibit.picture is None for exhibit in exhibits):
            console.print("no pictures: pip install 'whippletree[plot]'", markup=False)
        console.print(
            f"pictures, replays and data: {self.output} (open {exhibits[-1].page} in a browser)", markup=False
        )
        console.print(f"next: {program()} info FILE, with a robot of your own", markup=False)
        failures = [f"{run.attrs['model']}: {run.attrs['failure']}" for _, run in runs if run.attrs["failure"]]
        for failure in failures:
            console.print(f"failed: {failure}", markup=False, style="red")
        return 1 if failures else 0


def program() -> str:
    """How this command line is called from here: by its name, or by its path if no shell would find it."""
    if shutil.which("whippletree"):
        return "whippletree"
    return os.path.relpath(Path(sys.executable).with_name("whippletree"))


def simulate_piece(model: Model, piece: DemoPiece) -> xarray.Dataset:
    """The mechanism from its home, spun up."""
    import whippletree as wt

    v = model.home.v.copy()
    for joint, speed in piece.spin.items():
        v[model.slice(joint)] = speed
    if model.constraints:
        v = wt.compile(model).project_velocity(model.home.q, v)
    return wt.simulate(
        model, model.home.q, v, duration=piece.duration, output_dt=0.01, rtol=1e-10, atol=1e-12, **piece.options
    )


def _numbers(run: xarray.Dataset) -> list[str]:
    """Energy drift, what loops or contacts leave open, events and steps."""
    residual = ""
    if "constraint_residual" in run and run["constraint_residual"].size:
        residual = f"{float(abs(run['constraint_residual']).max()):.0e} m"
    elif "contact_gap" in run:
        overlap = max(0.0, -float(run["contact_gap"].min()))
        residual = f"{overlap:.0e} m" if overlap else "0 m"
    events = len(run.attrs["event_names"])
    return [
        f"{run.attrs['energy_drift']:.0e} J",
        residual,
        str(events) if events else "",
        str(run.attrs.get("steps", "")),
    ]
