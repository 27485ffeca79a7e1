"""Pictures of conditioning: those of document 004, and one per run. matplotlib is imported when one is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from studies.series import Array, Series
from whippletree.errors import MissingExtraError

WIDTH, HEIGHT, DPI = 9.0, 2.9, 90


def panels(count: int, rows: int = 1) -> tuple[Any, list[Any]]:
    """A figure with panels side by side; no window, whatever the machine."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingExtraError("drawing figures", "matplotlib", "plot") from missing
    figure = Figure(figsize=(WIDTH, HEIGHT * rows), layout="constrained", dpi=DPI)
    return figure, list(np.ravel(figure.subplots(rows, count // rows, squeeze=False)))


def saved(figure: Any, path: Path) -> Path:
    """Written as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def eigenvalues_and_diagonal(s: Series, path: Path) -> Path:
    """Figure 2: eigenvalues, diagonal entries, κ₂ and δ of one chain."""
    figure, (a, b, c, d) = panels(4, rows=2)
    a.semilogy(s.times, s.eigenvalues[:, ::-1], label=[f"λ{k + 1}" for k in range(s.eigenvalues.shape[1])])
    b.semilogy(s.times, s.diagonals, label=[f"I{k + 1}{k + 1}" for k in range(s.diagonals.shape[1])])
    c.plot(s.times, s.mass.kappa)
    d.plot(s.times, s.mass.diagonal_ratio)
    titles = ("eigenvalues", "diagonal entries", "condition number κ₂", "diagonal ratio δ")
    for axes, title in zip((a, b, c, d), titles, strict=True):
        _finish(axes, f"{s.name}: {title}")
    a.legend(fontsize=7, ncols=2)
    b.legend(fontsize=7, ncols=2)
    return saved(figure, path)


def condition_and_diagonal_ratio(found: list[Series], path: Path) -> Path:
    """Figure 3: κ₂ beside δ, one row for each chain."""
    figure, axes = panels(2 * len(found), rows=len(found))
    for s, (left, right) in zip(found, zip(axes[::2], axes[1::2], strict=True), strict=True):
        left.plot(s.times, s.mass.kappa)
        right.plot(s.times, s.mass.diagonal_ratio)
        _finish(left, f"{s.name}: κ₂")
        _finish(right, f"{s.name}: δ, correlation {s.correlations()['diagonal_ratio']:.2f}")
    return saved(figure, path)


def pivot_ratios(found: list[Series], path: Path) -> Path:
    """Figure 4: pivot ratios in both orders; the paper shows the first."""
    figure, axes = panels(2 * len(found), rows=len(found))
    for s, (left, right) in zip(found, zip(axes[::2], axes[1::2], strict=True), strict=True):
        left.plot(s.times, s.mass.pivot_ratio_base_first)
        right.plot(s.times, s.mass.pivot_ratio_tips_first)
        correlations = s.correlations()
        _finish(left, f"{s.name}: pivots, base first, corr. {correlations['pivot_ratio_base_first']:.2f}")
        _finish(right, f"{s.name}: pivots, tips first, corr. {correlations['pivot_ratio_tips_first']:.2f}")
    return saved(figure, path)


def scaled_diagonal_ratio(found: list[Series], path: Path) -> Path:
    """Figure 5: κ₂ and δ_s in one picture, one panel for each chain."""
    figure, axes = panels(len(found))
    for s, own in zip(found, axes, strict=True):
        own.plot(s.times, s.mass.kappa, label="κ₂")
        own.plot(s.times, s.scaled, "--", label="δ_s")
        _finish(own, s.name)
        own.legend(fontsize=8)
    return saved(figure, path)


def growth(numbers: Array, curves: dict[str, Array], path: Path) -> Path:
    """Beyond the paper: measures of straight chains against the number of rods."""
    figure, (axes,) = panels(1)
    for name, values in curves.items():
        axes.loglog(numbers, values, "o-", markersize=3, label=name)
    _finish(axes, "straight chains of equal rods", "rods")
    axes.legend(fontsize=8)
    return saved(figure, path)


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
        _finish(axes, s.name)
        axes.legend(fontsize=7)
    return saved(figure, path)


def _finish(axes: Any, title: str, along: str = "time, s") -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(along, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
