"""``wt.plot``: figures of runs with matplotlib. One function per figure, each drawing into axes that it is given."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from whippletree.errors import MissingExtraError, NameLookupError, UnsupportedError
from whippletree.files.whole_files import write_whole
from whippletree.model import Model
from whippletree.view import curves, strobe, style
from whippletree.view.pose_series import require_single

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

PLOT_WIDTH, PLOT_HEIGHT = 7.0, 3.4
"""Inches, of one panel."""

PANEL, DIAGRAM, MOST_ABOVE = 2.2, 5.4, 5.0
"""Inches: height and width of a diagram of a page, and the most that the mechanism takes above them."""


FORCE_ROUNDING = 1e-9
"""Share of the largest force of a run below which the forces of a whole figure are rounding."""


class PlotKind(NamedTuple):
    """How a figure is drawn: ``draw(axes, run, model, **options)``."""

    draw: Callable[..., None]
    needs_model: bool = False
    height: float = PLOT_HEIGHT


PLOTS = {
    "joints": PlotKind(curves.joints),
    "velocities": PlotKind(curves.velocities),
    "energies": PlotKind(curves.energies),
    "forces": PlotKind(curves.forces),
    "reactions": PlotKind(curves.reactions),
    "contacts": PlotKind(curves.contacts),
    "residuals": PlotKind(curves.residuals),
    "phase": PlotKind(curves.phase, height=4.2),
    "conditioning": PlotKind(curves.conditioning),
    "strobe": PlotKind(strobe.strobe, needs_model=True, height=4.8),
    "path": PlotKind(strobe.path, needs_model=True, height=4.8),
}
"""Every figure by its name."""

FIGURES_OF = {
    "q": "joints",
    "v": "velocities",
    "tau": "forces",
    "torques": "forces",
    "constraint_forces": "forces",
    "joint_reactions": "reactions",
    "contact_force": "contacts",
    "contact_forces": "contacts",
    "kinetic_energy": "energies",
    "potential_energy": "energies",
    "animation": "strobe",
}
"""Names of variables and words that people try, and the figure that draws them."""


def plot(
    run: xarray.Dataset, what: str = "overview", *, model: Model | None = None, ax: Any = None, **options: Any
) -> Figure:
    """Draw a run.

    ============  ================================================  ==================================
    what          shows                                             options
    ============  ================================================  ==================================
    overview      the mechanism, joints, energies, forces
    joints        coordinates over time                             ``names``
    velocities    velocities over time                              ``names``
    energies      kinetic, potential and total energy
    forces        constraint forces, row by row                     ``names``
    reactions     what joints and closures carry                    ``names``, ``component``
    contacts      normal forces of contacts                         ``names``
    residuals     how well constraints are met, on a log scale
    phase         phase portrait: velocity against coordinate       ``names``
    conditioning  δ and δ_s; with the model also κ₂ and pivots
    strobe        the mechanism at some moments; needs ``model``    ``count``, ``layers``
    path          the curve of a point; needs ``model``             ``frame``, ``layers``
    ============  ================================================  ==================================

    Args:
        run: what ``wt.simulate`` returned.
        what: one of the names above.
        model: the model that was simulated; gives curves their units.
        ax: axes to draw into; a new figure if None.
        options: see the table; ``names`` chooses joints or rows; ``component`` is ``"force"`` or ``"moment"`` for its
            size, or one such as ``"force_x"``.

    Returns:
        matplotlib's Figure: ``plot(run, "energies").savefig("energies.png")``; in a notebook it shows itself.

    Raises:
        NameLookupError: there is no such figure, joint, row or frame.
        UnsupportedError: the figure needs the model, or something that this run does not have.
    """
    for given, belongs in ((run, "run"), (what, "name of a figure")):
        if isinstance(given, Model):
            call = 'plot(run, "overview", model=model)'
            raise TypeError(f"plot: the model comes where the {belongs} belongs: call {call}")
    check_figures([what])
    import matplotlib

    from whippletree.view.picture_figure import PictureFigure

    require_single(run)
    settings: Any = style.FIGURE
    with matplotlib.rc_context(settings):
        if what == "overview":
            return _overview(run, model)
        if ax is None and not options.get("names") and len(panels := _panels(run, model, what)) > 1:
            return _page(run, model, panels, picture=False)
        chosen = PLOTS[what]
        if chosen.needs_model and model is None:
            raise UnsupportedError(f"the figure {what!r} draws bodies: call plot(run, {what!r}, model=model)")
        if ax is None:
            figure = PictureFigure(figsize=(PLOT_WIDTH, chosen.height), layout="constrained")
            ax = figure.add_subplot()
            chosen.draw(ax, run, model, **options)
            figure.set_figwidth(max(PLOT_WIDTH, DIAGRAM + curves.legend_width(ax)))
            return figure
        chosen.draw(ax, run, model, **options)
        return ax.figure  # type: ignore[no-any-return]


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as a whole or not at all, in the format of the file's suffix; the folder around it is made.

    Raises:
        UnsupportedError: matplotlib has no such format.
    """
    suffix, formats = Path(path).suffix[1:].lower(), figure.canvas.get_supported_filetypes()
    if suffix not in formats:
        raise UnsupportedError(
            f"{path}: figures are written as {', '.join(sorted(formats))}: give the file such a suffix"
        )
    file = io.BytesIO()
    figure.savefig(file, format=suffix)
    return write_whole(path, file.getbuffer())


def check_figures(names: Sequence[str]) -> None:
    """Refuse names of figures that there are not, and figures where nothing draws them."""
    for name in names:
        if not isinstance(name, str) or (name not in PLOTS and name != "overview"):
            here = FIGURES_OF.get(str(name).lower())
            hint = f". {name!r} is drawn by {here!r}" if here else ""
            raise NameLookupError("figure", name, ["overview", *PLOTS], hint=hint)
    try:
        import matplotlib  # noqa: F401
    except ImportError as missing:
        raise MissingExtraError("drawing figures", "matplotlib", "plot") from missing


class Panel(NamedTuple):
    """One diagram of a page: the name of its figure, and options."""

    what: str
    options: dict[str, Any]


def _panels(run: xarray.Dataset, model: Model | None, what: str) -> list[Panel]:
    """A figure as diagrams of at most two units each, which have an axis each: beyond that, one for every unit."""
    if model is None or what not in UNITS:
        return [Panel(what, {})]
    variable, units = UNITS[what]
    names = curves.column_names(run, variable)
    by_unit: dict[str, list[str]] = {}
    for name, unit in zip(names, units(model), strict=True):
        by_unit.setdefault(unit, []).append(name)
    if len(by_unit) <= 2:
        return [Panel(what, {})]
    return [Panel(what, {"names": own}) for own in by_unit.values()]


UNITS: dict[str, tuple[str, Callable[[Model], list[str]]]] = {
    "joints": ("q", curves.coordinate_units),
    "velocities": ("v", curves.velocity_units),
}
"""Figures whose curves may have many units: the variable, and what tells the units."""


def _page(run: xarray.Dataset, model: Model | None, panels: Sequence[Panel], picture: bool) -> Figure:
    """Diagrams over one axis of time with their legends beside them; above, if wanted, the mechanism in full width."""
    from whippletree.view.picture_figure import PictureFigure

    share = strobe.proportions(run, model) if picture and model is not None else 0.0
    figure = PictureFigure(figsize=(PLOT_WIDTH, PANEL * len(panels)), layout="constrained")
    grid = figure.add_gridspec(len(panels) + picture, 2)
    beside = _draw_stacked(figure, grid, panels, run, model)
    width = DIAGRAM + beside
    above = min(max(share * width, PANEL), MOST_ABOVE) if picture else 0.0
    figure.set_size_inches(width, PANEL * len(panels) + above + 0.6 * picture)
    grid.set_width_ratios([DIAGRAM, beside])
    grid.set_height_ratios([*[above] * picture, *[PANEL] * len(panels)])
    if picture and model is not None:
        strobe.strobe(figure.add_subplot(grid[0, :]), run, model)
        figure.suptitle(str(run.attrs.get("model", "")), x=0.01, ha="left", weight="bold")
    return figure


def _overview(run: xarray.Dataset, model: Model | None) -> Figure:
    """A page of what is worth a look, under the mechanism if the model is there."""
    energies = ["energies"] if "kinetic_energy" in run else []
    names = ["joints", *energies, *(_telling_forces(run) or ["velocities"])]
    return _page(run, model, [panel for name in names for panel in _panels(run, model, name)], model is not None)


def _draw_stacked(
    figure: Figure, grid: Any, panels: Sequence[Panel], run: xarray.Dataset, model: Model | None
) -> float:
    """Draw diagrams over one axis of time in the last rows of a grid's first column; the inches that legends need."""
    first: Any = None
    beside = 0.0
    start = grid.nrows - len(panels)
    for row, panel in enumerate(panels):
        axes = figure.add_subplot(grid[start + row, 0], sharex=first)
        PLOTS[panel.what].draw(axes, run, model, **panel.options)
        first = first or axes
        if row < len(panels) - 1:
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
        beside = max(beside, curves.legend_width(axes))
        legend = axes.get_legend()
        if legend is not None:
            legend.set_in_layout(False)  # the second column is kept free for it
    return beside


def _telling_forces(run: xarray.Dataset) -> list[str]:
    """Figures of forces, without one that would only show the rounding of another."""
    variables = {"forces": "constraint_forces", "contacts": "contact_force"}
    largest = {name: float(abs(run[v]).max()) for name, v in variables.items() if v in run and run[v].size}
    return [name for name, force in largest.items() if force > FORCE_ROUNDING * max(largest.values())]
