"""A page about a sweep: distributions, main effects, Sobol' indices, failures, best and worst runs, trade-offs."""

from __future__ import annotations

import base64
import html
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.campaigns.opening import NOT_RUN, open_sweep
from whippletree.errors import MissingExtraError, NameLookupError
from whippletree.files.whole_files import write_whole
from whippletree.model import Model
from whippletree.view.replay import export_html

if TYPE_CHECKING:
    import xarray

BINS = 12
"""Stretches into which a parameter is divided to tell its effect."""

MOST_POINTS = 20_000
"""Points of a cloud: more would hide each other."""

SHOWN_REASONS = 10

STATES_SHOWN = 4
"""Columns of the final state, where a sweep has no metrics."""

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1c2733}
h1{font-size:1.7rem;margin-bottom:.2rem} h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid #d8dee6}
table{border-collapse:collapse;font-variant-numeric:tabular-nums} td,th{padding:.25rem .8rem .25rem 0;text-align:left}
td.n,th.n{text-align:right} img{max-width:100%;height:auto} .quiet{color:#5a6b7b}
"""


def sweep_report(
    folder: str | os.PathLike[str],
    page: str | os.PathLike[str],
    *,
    metrics: Sequence[str] | None = None,
    rerun: Callable[[int], tuple[Model, xarray.Dataset]] | None = None,
) -> Path:
    """Write a page about the results of a sweep: one HTML file that needs no network.

    Args:
        folder: of the sweep.
        page: where to write it.
        metrics: columns to tell of; default: the metrics of the sweep, else the first coordinates and velocities of its
            final states.
        rerun: gives the model and the run of a number; then the runs with the least and the largest metrics are
            replayed in pages beside this one. ``wt.sweep(..., report=…)`` and ``whippletree sweep --report`` give it.

    Returns:
        The path of the page.
    """
    found = open_sweep(folder)
    runs = _flat(found)
    chosen = _choose_columns(found, runs, metrics)
    parameters = [path for path in found.attrs["parameters"] if path in runs]
    numeric = [path for path in parameters if runs[path].dtype.kind in "fiu" and len(np.unique(runs[path])) > 1]
    good = np.array([not text for text in runs["failure"]], dtype=bool)
    parts = [_heading(found), _failures(runs["failure"])]
    if not good.any():
        parts.append("<p>No run has succeeded.</p>")
    else:
        parts.append(_distributions(runs, chosen, good))
        if numeric:
            parts += [_effects(runs, chosen, numeric, good), _indices(found, runs, chosen, numeric, good)]
        parts.append(_extremes(runs, chosen, parameters, good, _Replays(Path(page), rerun)))
        parts.append(_trade_off(runs, chosen, good))
    body = "\n".join(part for part in parts if part)
    title = html.escape(f"Sweep of {found.attrs['model']}")
    text = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    text += f"<title>{title}</title><style>{STYLE}</style><body>{body}</body></html>"
    return write_whole(Path(page), text.encode())


def _flat(found: xarray.Dataset) -> dict[str, Array]:
    """Scalars of every run, (runs,), parameters included, whatever the dimensions of the design."""
    grid = [d for d in found.dims if d in found["failure"].dims]
    flat = {}
    for name in [*found.data_vars, *found.coords]:
        variable = found[name]
        if set(variable.dims) <= set(grid) and variable.dims:
            flat[str(name)] = np.asarray(
                variable.broadcast_like(found["failure"]).transpose(*found["failure"].dims)
            ).ravel()
    return flat


def _choose_columns(found: xarray.Dataset, runs: dict[str, Array], asked: Sequence[str] | None) -> list[str]:
    known = [name for name in runs if name not in found.coords and name not in ("failure", "end_time")]
    for name in asked or ():
        if name not in known:
            raise NameLookupError("metric", name, known, where="sweep_report")
    return list(asked or [name for name in found.attrs["metrics"] if name in known] or known[:STATES_SHOWN])


def _heading(found: xarray.Dataset) -> str:
    a = found.attrs
    there = a["runs"] - a["missing"]
    return (
        f"<h1>Sweep of {html.escape(a['model'])}</h1><p class=quiet>{there:,} of {a['runs']:,} runs, design "
        f"{a['design']}, seed {a['seed']}, digest {a['digest'][:16]}</p>"
    )


def _failures(reasons: Array) -> str:
    counted = Counter(
        re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "…", text) for text in reasons if text and text != NOT_RUN
    )
    if not counted:
        return "<h2>Failures</h2><p>None.</p>"
    rows = "".join(
        f"<tr><td class=n>{n:,}</td><td>{html.escape(t)}</td></tr>" for t, n in counted.most_common(SHOWN_REASONS)
    )
    return f"<h2>Failures</h2><table><tr><th class=n>runs</th><th>reason</th></tr>{rows}</table>"


def _distributions(runs: dict[str, Array], metrics: Sequence[str], good: Array) -> str:
    figure, axes = _panels(len(metrics))
    rows = []
    for ax, name in zip(axes, metrics):
        values = runs[name][good & np.isfinite(runs[name])]
        ax.hist(values, bins=40, color="#2a6f97")
        ax.set_title(name)
        ax.set_ylabel("runs")
        numbers = [values.mean(), values.std(), values.min(), *np.quantile(values, [0.05, 0.5, 0.95]), values.max()]
        rows.append(f"<tr><td>{html.escape(name)}</td>{''.join(f'<td class=n>{x:.4g}</td>' for x in numbers)}</tr>")
    head = "".join(f"<th class=n>{t}</th>" for t in ("mean", "deviation", "least", "5 %", "median", "95 %", "largest"))
    table = f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"
    return f"<h2>Distributions</h2>{_image(figure)}{table}"


def _effects(runs: dict[str, Array], metrics: Sequence[str], parameters: Sequence[str], good: Array) -> str:
    """Means of each metric over stretches of each parameter."""
    figure, axes = _panels(len(metrics) * len(parameters), across=min(4, len(parameters)))
    pairs = [(name, path) for name in metrics for path in parameters]
    for ax, (name, path) in zip(axes, pairs):
        middle, mean, spread = _bin_means(runs[path][good], runs[name][good])
        ax.plot(middle, mean, color="#2a6f97", marker="o", markersize=3)
        ax.fill_between(middle, mean - spread, mean + spread, color="#2a6f97", alpha=0.15)
        ax.set_xlabel(path)
        ax.set_ylabel(name)
    note = "<p class=quiet>Mean over all other parameters, and one standard deviation.</p>"
    return f"<h2>Main effects</h2>{_image(figure)}{note}"


def _bin_means(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Middle, mean and deviation of y in stretches of x with equally many runs; each value, where there are few."""
    levels = np.unique(x)
    if len(levels) > BINS:
        levels = np.quantile(x, np.linspace(0, 1, BINS + 1))
        bins = np.clip(np.searchsorted(levels, x, side="right") - 1, 0, BINS - 1)
    else:
        bins = np.searchsorted(levels, x)
    there = np.unique(bins)
    groups = [bins == k for k in there]
    middle = np.array([x[g].mean() for g in groups])
    return middle, np.array([np.nanmean(y[g]) for g in groups]), np.array([np.nanstd(y[g]) for g in groups])


def _indices(
    found: xarray.Dataset, runs: dict[str, Array], metrics: Sequence[str], parameters: Sequence[str], good: Array
) -> str:
    """Shares of the variance: by pairs of draws where the design has them, else what one parameter alone explains."""
    paired = found.attrs["design"] == "saltelli" and good.all()
    rows = []
    for name in metrics:
        if paired:
            first, total = sobol_indices(runs[name], len(parameters))
            cells = "".join(f"<td class=n>{a:.3f} / {b:.3f}</td>" for a, b in zip(first, total))
        else:
            cells = "".join(f"<td class=n>{_share(runs[path][good], runs[name][good]):.3f}</td>" for path in parameters)
        rows.append(f"<tr><td>{html.escape(name)}</td>{cells}</tr>")
    head = "".join(f"<th class=n>{html.escape(path)}</th>" for path in parameters)
    what = "First-order / total Sobol' index" if paired else "Share of the variance that one parameter alone explains"
    return f"<h2>Sensitivity</h2><p class=quiet>{what}.</p><table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def sobol_indices(values: Array, width: int) -> tuple[Array, Array]:
    """First-order and total indices (width,) from runs of a ``saltelli`` design in their order.

    First order after Saltelli et al. (2010), total after Jansen: Sⱼ = mean(B (ABⱼ − A)) / V and
    Tⱼ = mean((A − ABⱼ)²) / 2V, with V the variance of A and B together.
    """
    rows = values.reshape(-1, width + 2)
    A, B, mixed = rows[:, 0], rows[:, 1], rows[:, 2:]
    variance = np.concatenate([A, B]).var()
    if not variance > 0:
        return np.zeros(width), np.zeros(width)
    centre = np.concatenate([A, B]).mean()
    first = np.mean((B - centre)[:, None] * (mixed - A[:, None]), axis=0) / variance
    return first, 0.5 * np.mean((A[:, None] - mixed) ** 2, axis=0) / variance


def _share(x: Array, y: Array) -> float:
    """Share of the variance of y that the means over stretches of x have."""
    whole = np.nanvar(y)
    if not whole > 0:
        return 0.0
    levels = np.unique(x)
    bins = np.searchsorted(levels if len(levels) <= BINS else np.quantile(x, np.linspace(0, 1, BINS + 1))[1:-1], x)
    groups = [y[bins == k] for k in np.unique(bins)]
    mean = np.nanmean(y)
    return float(sum(len(g) * (np.nanmean(g) - mean) ** 2 for g in groups) / (len(y) * whole))


class _Replays:
    """Pages of single runs beside the report, each written once."""

    def __init__(self, page: Path, rerun: Callable[[int], tuple[Model, xarray.Dataset]] | None) -> None:
        self.page, self.rerun = page, rerun
        self.links: dict[int, str] = {}

    def link(self, number: int) -> str:
        """The number of a run, linked to its replay where there is one."""
        if self.rerun is None:
            return f"{number:,}"
        if number not in self.links:
            place = self.page.with_name(f"{self.page.stem}-run-{number}.html")
            model, run = self.rerun(number)
            self.links[number] = export_html(model, run, place).name
        return f"<a href='{html.escape(self.links[number])}'>{number:,}</a>"


def _extremes(
    runs: dict[str, Array], metrics: Sequence[str], parameters: Sequence[str], good: Array, replays: _Replays
) -> str:
    rows = []
    for name in metrics:
        values = np.where(good, runs[name], np.nan)
        for word, k in (("least", int(np.nanargmin(values))), ("largest", int(np.nanargmax(values)))):
            cells = "".join(f"<td class=n>{_text(runs[path][k])}</td>" for path in parameters)
            who = f"<td>{html.escape(name)}</td><td>{word}</td><td class=n>{values[k]:.6g}</td>"
            rows.append(f"<tr>{who}<td class=n>{replays.link(k)}</td>{cells}</tr>")
    head = "".join(f"<th class=n>{html.escape(path)}</th>" for path in parameters)
    table = f"<tr><th></th><th></th><th class=n>value</th><th class=n>run</th>{head}</tr>{''.join(rows)}"
    return f"<h2>Least and largest</h2><table>{table}</table>"


def _trade_off(runs: dict[str, Array], metrics: Sequence[str], good: Array) -> str:
    """The first two metrics against each other, with the runs that no other beats in both."""
    if len(metrics) < 2:
        return ""
    x, y = (runs[name][good] for name in metrics[:2])
    front = pareto_front(x, y)
    figure, (ax,) = _panels(1)
    some = slice(None) if len(x) <= MOST_POINTS else np.random.default_rng(0).choice(len(x), MOST_POINTS, replace=False)
    ax.scatter(x[some], y[some], s=4, color="#9fb3c2", linewidths=0)
    ax.plot(x[front], y[front], color="#c44536", marker="o", markersize=4)
    ax.set_xlabel(metrics[0])
    ax.set_ylabel(metrics[1])
    names = " and ".join(html.escape(name) for name in metrics[:2])
    note = f"<p class=quiet>In red: runs for which no other has less of both {names}.</p>"
    return f"<h2>Trade-off</h2>{_image(figure)}{note}"


def pareto_front(x: Array, y: Array) -> Array:
    """Numbers of the points below and left of which there is no other, from left to right."""
    order = np.lexsort((y, x))
    lowest = np.minimum.accumulate(np.concatenate([[np.inf], y[order][:-1]]))
    return np.asarray(order[y[order] < lowest])


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float, np.number)) else html.escape(str(value))


def _panels(count: int, across: int = 3) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingExtraError("a report", "matplotlib", "plot") from missing
    columns = min(max(across, 1), count)
    rows = -(-count // columns)
    figure = Figure(figsize=(3.6 * columns, 2.7 * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(count)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.locator_params(nbins=5)
    return figure, axes


def _image(figure: Any) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=130)
    return f"<img alt='' src='data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}'>"
