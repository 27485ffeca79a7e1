"""Conditioning of a model over time as a picture. matplotlib is imported when one is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.accuracy.report import Series, series
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.compiled import compile as compile_model
from whippletree.errors import MissingExtraError
from whippletree.model import Model
from whippletree.simulation.run import simulate

if TYPE_CHECKING:
    import xarray

FIGURE_WIDTH, ROW_HEIGHT, DPI = 9.0, 2.9, 90


def panels(count: int, rows: int = 1) -> tuple[Any, list[Any]]:
    """A figure with panels side by side; no window, whatever the machine."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingExtraError("drawing figures", "matplotlib", "plot") from missing
    figure = Figure(figsize=(FIGURE_WIDTH, ROW_HEIGHT * rows), layout="constrained", dpi=DPI)
    return figure, list(np.ravel(figure.subplots(rows, count // rows, squeeze=False)))


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure as PNG; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def run_figure(s: Series, path: Path) -> Path:
    """One run: κ₂ against δ, δ_s and both pivot ratios over time."""
    figure, (left, right) = panels(2)
    left.semilogy(s.times, s.mass.kappa, label="κ₂")
    left.semilogy(s.times, s.mass.kappa_equilibrated, label="κ₂ equilibrated")
    left.semilogy(s.times, s.scaled, "--", label="δ_s")
    left.semilogy(s.times, s.mass.diagonal_ratio, label="δ")
    right.semilogy(s.times, s.mass.pivot_ratio_base_first, label="pivot ratio, base first")
    right.semilogy(s.times, s.mass.pivot_ratio_tips_first, label="pivot ratio, tips first")
    for axes in (left, right):
        label_axes(axes, s.name)
        axes.legend(fontsize=7)
    return save_figure(figure, path)


def label_axes(axes: Any, title: str, along: str = "time, s") -> None:
    """Title, name of the abscissa, small ticks and a light grid."""
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(along, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)


def along(name: str, run: xarray.Dataset, dyn: Compiled) -> Series:
    """Conditioning along a run."""
    return series(name, run.time.values, np.asarray(dyn.mass_matrix(run["q"].values)))


def swinging(name: str, model: Model, duration: float, q0: Any = None, v0: Any = None, points: int = 200) -> Series:
    """A model let go under gravity, at rest and from zero coordinates unless told otherwise."""
    dyn = compile_model(model, watch="never")
    run = release(model, duration, q0, v0, points, dyn)
    return along(name, run, dyn)


def release(model: Model, duration: float, q0: Any, v0: Any, points: int, dyn: Compiled | None) -> xarray.Dataset:
    """The run of a model let go under gravity; coordinates and velocities that are not given are zero."""
    q, v = (np.zeros(n) if x is None else x for n, x in ((model.nq, q0), (model.nv, v0)))
    return simulate(model, q, v, duration=duration, output_dt=duration / points, compiled=dyn)
