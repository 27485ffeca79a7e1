"""Curves over time, and phase portraits: each function draws one figure of a run into axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.reactions import COMPONENTS, FORCES, MOMENTS
from whippletree.errors import NameLookupError, UnsupportedError
from whippletree.model import Model
from whippletree.simulation.output import labels
from whippletree.view import style

if TYPE_CHECKING:
    import xarray


LEGEND = style.DISTINCT
"""Curves up to which each has its line in the legend: those that can be told apart."""

UNITLESS = {"1": "quaternion"}
"""Coordinates without a unit, as an axis is called that has them alone."""

SIZED = {"force": FORCES, "moment": MOMENTS}
"""Components of a reaction of which the size is drawn, by the word for it."""

PORTRAITS = 8
"""Joints of a phase portrait unless they are named."""

LETTER = 0.56
"""Width of a letter, in sizes of its font."""

LARGE = 9
"""Lines of a legend up to which its letters are large."""

LINES = 13
"""Lines of a legend beside a panel; more go into further columns."""


def joints(axes: Any, run: xarray.Dataset, model: Model | None = None, *, names: Sequence[str] = ()) -> None:
    """Coordinates over time."""
    _variable(axes, run, "q", "coordinates", names, coordinate_units(model))


def velocities(axes: Any, run: xarray.Dataset, model: Model | None = None, *, names: Sequence[str] = ()) -> None:
    """Velocities over time."""
    _variable(axes, run, "v", "velocities", names, [f"{unit}/s" for unit in velocity_units(model)])


def forces(axes: Any, run: xarray.Dataset, model: Model | None = None, *, names: Sequence[str] = ()) -> None:
    """Constraint forces over time, row by row."""
    _require(run, "constraint_forces", "forces")
    units = [unit.strip() for unit in run["constraint_forces"].attrs.get("units", "").split(",")]
    _variable(axes, run, "constraint_forces", "constraint forces", names, units)


def reactions(
    axes: Any,
    run: xarray.Dataset,
    model: Model | None = None,
    *,
    names: Sequence[str] = (),
    component: str = "force",
) -> None:
    """Loads of joints and closures over time: the size of the force or moment, or one component of it.

    A name is followed by ``(shared)`` where statics leaves it open at some time and the least-norm value is drawn.
    """
    _require(run, "joint_reactions", "reactions")
    parts = _components(component)
    values = np.asarray(run["joint_reactions"].sel(component=parts), dtype=float)
    values = values[..., 0] if component in parts else np.sqrt((values * values).sum(axis=-1))
    determined = np.asarray(run["reactions_determined"].sel(component=parts), dtype=float).min(axis=(0, 2))
    known = column_names(run, "joint_reactions")
    marked = [name if fixed else f"{name} (shared)" for name, fixed in zip(known, list(determined), strict=True)]
    unit = "N m" if parts[0] in MOMENTS else "N"
    title = f"{component.replace('_', ', ')} in joints" if component in parts else f"size of the {component} in joints"
    _variable(axes, run, "joint_reactions", title, names, [unit] * values.shape[1], values, marked)


def _components(component: str) -> list[str]:
    """The components that a word stands for: one, or three."""
    if component in COMPONENTS:
        return [component]
    if component not in SIZED:
        raise NameLookupError("component", component, [*SIZED, *COMPONENTS], where="plot")
    return list(SIZED[component])


def contacts(axes: Any, run: xarray.Dataset, model: Model | None = None, *, names: Sequence[str] = ()) -> None:
    """Normal forces of contacts over time."""
    _require(run, "contact_force", "contacts")
    normal = np.asarray(run["contact_force"], dtype=float)[..., 0]
    _variable(axes, run, "contact_force", "normal forces of contacts", names, ["N"] * normal.shape[1], normal)


def energies(axes: Any, run: xarray.Dataset, model: Model | None = None) -> None:
    """Kinetic, potential and total energy; the legend tells how far the total moved."""
    _require(run, "kinetic_energy", "energies")
    _require(run, "potential_energy", "energies")
    kinetic, potential = (np.asarray(run[name], dtype=float) for name in ("kinetic_energy", "potential_energy"))
    total = kinetic + potential
    drift = float(np.abs(total - total[0]).max())
    labels = ("kinetic", "potential", f"total, drifts by {drift:.1e} J")
    for k, (values, label) in enumerate(zip((kinetic, potential, total), labels, strict=True)):
        axes.plot(run["time"], values, color=style.PALETTE[k], label=label, linestyle="--" if k == 2 else "-")
    _finish(axes, "energies", "J", 3)


def residuals(axes: Any, run: xarray.Dataset, model: Model | None = None) -> None:
    """The largest residual of the constraints, at position and at velocity level, on a logarithmic axis."""
    _require(run, "constraint_residual", "residuals")
    for k, (name, label) in enumerate((("constraint_residual", "position"), ("constraint_velocity", "velocity"))):
        if name not in run or not run[name].size:
            continue
        worst = np.abs(np.asarray(run[name], dtype=float)).max(axis=1)
        # an exact zero has no place on a logarithmic axis
        shown = np.where(worst > 0, worst, np.nan)
        unit = run[name].attrs.get("units", "")
        axes.semilogy(run["time"], shown, color=style.PALETTE[k], label=f"{label}, {unit}")
    _finish(axes, "largest constraint residual", "", 2)


def phase(axes: Any, run: xarray.Dataset, model: Model | None = None, *, names: Sequence[str] = ()) -> None:
    """Velocity against coordinate of joints with one coordinate each; a dot marks the start."""
    coordinates, rates = column_names(run, "q"), column_names(run, "v")
    simple = [name for name in coordinates if name in rates]
    if not simple:
        raise UnsupportedError("a phase portrait needs a joint with one coordinate; this run has none")
    chosen = [_require_known("joint", name, simple) for name in names] or simple[:PORTRAITS]
    units = dict(zip(coordinates, coordinate_units(model), strict=False))
    common = _common([units[name] for name in chosen if name in units])
    for k, name in enumerate(chosen):
        x = np.asarray(run["q"][:, coordinates.index(name)])
        y = np.asarray(run["v"][:, rates.index(name)])
        color = style.series_color(k, len(chosen))
        axes.plot(x, y, color=color, label=name if common else _label(name, units.get(name)))
        axes.plot(x[:1], y[:1], "o", color=color, markersize=4)
    unit = common or run["q"].attrs.get("units", "")
    _finish(axes, "phase portrait", f"velocity, {_per_second(unit)}", len(chosen))
    axes.set_xlabel(f"coordinate, {unit}")


def conditioning(axes: Any, run: xarray.Dataset, model: Model | None = None) -> None:
    """The diagonal ratio and its scaled form; with the model also κ₂ and both pivot ratios of the mass matrix."""
    found: dict[str, Any] = {"δ": run.get("diagonal_ratio"), "δ_s": run.get("scaled_diagonal_ratio")}
    if model is not None:
        from whippletree.accuracy.report import conditioning as measured

        report = measured(model, np.asarray(run["q"], dtype=float))
        found |= {
            "κ₂": report.kappa,
            "pivots, base first": report.pivot_ratio_base_first,
            "pivots, tips first": report.pivot_ratio_tips_first,
        }
    drawn = 0
    for name, values in found.items():
        array = np.full(len(run["time"]), np.nan) if values is None else np.asarray(values, dtype=float)
        if np.isfinite(array).any():
            dashes = "--" if name == "δ_s" else "-"
            axes.semilogy(run["time"], array, dashes, color=style.PALETTE[drawn], label=name)
            drawn += 1
    if not drawn:
        axes.text(0.5, 0.5, "the mass matrix is singular throughout", ha="center", transform=axes.transAxes)
    _finish(axes, "conditioning of the mass matrix", "ratio", drawn)


# --- units of joints ---


def coordinate_units(model: Model | None) -> list[str]:
    """Unit of each entry of q; empty if the model is not known."""
    return [] if model is None else labels.coordinate_units(model)


def velocity_units(model: Model | None) -> list[str]:
    """Unit of what each entry of v is per second; empty if the model is not known."""
    return [] if model is None else labels.displacement_units(model)


# --- helpers ---


def _variable(
    axes: Any,
    run: xarray.Dataset,
    name: str,
    title: str,
    names: Sequence[str],
    units: Sequence[str],
    values: Array | None = None,
    shown_names: Sequence[str] | None = None,
) -> None:
    """The columns of a variable over time, or other values (T, n) with its names; ``shown_names`` for the legend."""
    known = column_names(run, name)
    wanted = [known.index(_require_known("name", one, known)) for one in names] if names else list(range(len(known)))
    own = [units[k] for k in wanted] if len(units) == len(known) else []
    sides = _sides(axes, own)
    values = np.asarray(run[name], dtype=float) if values is None else values
    labels = known if shown_names is None else shown_names
    several = len(set(own)) > 1
    for rank, k in enumerate(wanted):
        label = _label(labels[k], own[rank]) if several else labels[k]
        shown = len(wanted) <= LEGEND or rank in (0, len(wanted) // 2, len(wanted) - 1)
        dash = style.series_dash(rank, len(wanted))
        sides[own[rank] if own else ""].plot(
            run["time"],
            values[:, k],
            color=style.series_color(rank, len(wanted)),
            label=label if shown else None,
            **({"dashes": dash} if dash else {}),
        )
    if len(sides) != 2:
        shown_units = [UNITLESS.get(unit, unit) for unit in dict.fromkeys(own)]
        _finish(axes, title, " or ".join(shown_units) or run[name].attrs.get("units", ""), len(wanted))
        return
    left, right = sides
    _finish(axes, title, left, len(wanted), sides[right])
    sides[right].set_ylabel(right)


def _sides(axes: Any, units: Sequence[str]) -> dict[str, Any]:
    """Axes by unit: two units have an axis on each side, more share one."""
    different = list(dict.fromkeys(units)) or [""]
    if len(different) != 2:
        return dict.fromkeys(different, axes)
    other = axes.twinx()
    other.spines["right"].set_visible(True)
    other.grid(False)
    return dict(zip(different, (axes, other), strict=True))


def _finish(axes: Any, title: str, unit: str, count: int, other: Any = None) -> None:
    axes.set_title(title)
    axes.set_xlabel("time, s")
    axes.set_ylabel(unit)
    for side in (axes, other):
        if side is not None:
            side.autoscale_view()  # now, while the ends of axes are rounded: matplotlib would wait until it draws
    if not count:
        return
    lines = [*axes.lines, *(other.lines if other is not None else ())]
    listed = [line for line in lines if not line.get_label().startswith("_")]
    columns = -(-len(listed) // LINES)
    # beside the numbers of a second axis, if there is one
    place = (1.0, 1.0) if other is None else (1.12, 1.0)
    axes.legend(
        handles=listed,
        loc="upper left",
        bbox_to_anchor=place,
        borderaxespad=0.2,
        ncols=max(columns, 1),
        fontsize=8 if len(listed) <= LARGE else 7,
        handlelength=2.4,
    )


def legend_width(axes: Any) -> float:
    """Inches that the legend beside a diagram takes, about; 0 without one."""
    legend = axes.get_legend()
    if legend is None:
        return 0.0
    texts = legend.get_texts()
    columns = max(-(-len(texts) // LINES), 1)
    letters = max((len(text.get_text()) for text in texts), default=0)
    size = texts[0].get_fontsize() if texts else 8.0
    second = 0.5 if any(other is not axes for other in axes.get_shared_x_axes().get_siblings(axes)) else 0.0
    return float(columns * (0.55 + letters * size * LETTER / 72) + second)


def column_names(run: xarray.Dataset, variable: str) -> list[str]:
    """The names of a variable's columns, numbered if it has none; one name may have come back from a file as a text."""
    given = run[variable].attrs.get("names")
    if given is None:
        return [f"{variable}[{k}]" for k in range(run[variable].shape[1])]
    return [given] if isinstance(given, str) else [str(name) for name in given]


def _require_known(kind: str, name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise NameLookupError(kind, name, names, where="plot")
    return name


def _require(run: xarray.Dataset, variable: str, figure: str) -> None:
    if variable not in run or not run[variable].size:
        raise UnsupportedError(f"the figure {figure!r} needs {variable!r}, which this run has not: {_REASONS[figure]}")


_REASONS = {
    "energies": "they were not asked for",
    "forces": "its model has no constraints, or they were not asked for",
    "residuals": "its model has no constraints, or they were not asked for",
    "reactions": "call simulate with reactions=True",
    "contacts": "its method knows no contacts, or its model has none",
}


def _common(units: Sequence[str]) -> str:
    """The unit that all share; empty if they do not."""
    return units[0] if units and len(set(units)) == 1 else ""


def _label(name: str, unit: str | None) -> str:
    return f"{name}, {unit}" if unit else name


def _per_second(unit: str) -> str:
    return " or ".join(f"{part}/s" for part in unit.split(" or "))
