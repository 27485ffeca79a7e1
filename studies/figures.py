"""The pictures of document 004, extended. matplotlib is imported when one is drawn."""

from __future__ import annotations

from pathlib import Path

from whippletree.accuracy.report import Series
from whippletree.arithmetic.arrays import Array
from whippletree.view.conditioning_figure import label_axes, panels, save_figure


def eigenvalues_and_diagonal(s: Series, path: Path) -> Path:
    """Figure 2: eigenvalues, diagonal entries, κ₂ and δ of one chain."""
    figure, (a, b, c, d) = panels(4, rows=2)
    a.semilogy(s.times, s.eigenvalues[:, ::-1], label=[f"λ{k + 1}" for k in range(s.eigenvalues.shape[1])])
    b.semilogy(s.times, s.diagonals, label=[f"I{k + 1}{k + 1}" for k in range(s.diagonals.shape[1])])
    c.plot(s.times, s.mass.kappa)
    d.plot(s.times, s.mass.diagonal_ratio)
    titles = ("eigenvalues", "diagonal entries", "condition number κ₂", "diagonal ratio δ")
    for axes, title in zip((a, b, c, d), titles, strict=True):
        label_axes(axes, f"{s.name}: {title}")
    a.legend(fontsize=7, ncols=2)
    b.legend(fontsize=7, ncols=2)
    return save_figure(figure, path)


def condition_and_diagonal_ratio(found: list[Series], path: Path) -> Path:
    """Figure 3: κ₂ beside δ, one row for each chain."""
    figure, axes = panels(2 * len(found), rows=len(found))
    for s, (left, right) in zip(found, zip(axes[::2], axes[1::2], strict=True), strict=True):
        left.plot(s.times, s.mass.kappa)
        right.plot(s.times, s.mass.diagonal_ratio)
        label_axes(left, f"{s.name}: κ₂")
        label_axes(right, f"{s.name}: δ, correlation {s.correlations()['diagonal_ratio']:.2f}")
    return save_figure(figure, path)


def pivot_ratios(found: list[Series], path: Path) -> Path:
    """Figure 4: pivot ratios in both orders; the paper shows the first."""
    figure, axes = panels(2 * len(found), rows=len(found))
    for s, (left, right) in zip(found, zip(axes[::2], axes[1::2], strict=True), strict=True):
        left.plot(s.times, s.mass.pivot_ratio_base_first)
        right.plot(s.times, s.mass.pivot_ratio_tips_first)
        correlations = s.correlations()
        label_axes(left, f"{s.name}: pivots, base first, corr. {correlations['pivot_ratio_base_first']:.2f}")
        label_axes(right, f"{s.name}: pivots, tips first, corr. {correlations['pivot_ratio_tips_first']:.2f}")
    return save_figure(figure, path)


def scaled_diagonal_ratio(found: list[Series], path: Path) -> Path:
    """Figure 5: κ₂ and δ_s in one picture, one panel for each chain."""
    figure, axes = panels(len(found))
    for s, own in zip(found, axes, strict=True):
        own.plot(s.times, s.mass.kappa, label="κ₂")
        own.plot(s.times, s.scaled, "--", label="δ_s")
        label_axes(own, s.name)
        own.legend(fontsize=8)
    return save_figure(figure, path)


def growth(numbers: Array, curves: dict[str, Array], path: Path) -> Path:
    """Beyond the paper: measures of straight chains against the number of rods."""
    figure, (axes,) = panels(1)
    for name, values in curves.items():
        axes.loglog(numbers, values, "o-", markersize=3, label=name)
    label_axes(axes, "straight chains of equal rods", "rods")
    axes.legend(fontsize=8)
    return save_figure(figure, path)
