"""Runs as files to keep: a picture, a replay and the data of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whippletree.errors import MissingExtraError
from whippletree.model import Model
from whippletree.scenario.scenario_reader import with_model
from whippletree.simulation.output.run_files import save_run
from whippletree.view.plots import plot, save_figure
from whippletree.view.replay import export_html

if TYPE_CHECKING:
    import xarray


class Exhibit(NamedTuple):
    """The files of one run."""

    name: str
    page: Path
    """The replay, HTML."""
    data: Path
    """NetCDF."""
    picture: Path | None
    """PNG; None where matplotlib is not installed."""


def gallery(runs: Iterable[tuple[Model, xarray.Dataset]], folder: str | Path) -> list[Exhibit]:
    """Write ``NAME.html``, ``NAME.nc`` and, with matplotlib, ``NAME.png`` for every run into a folder.

    Args:
        runs: models with what ``wt.simulate`` returned for them.
        folder: made if it is not there; files of the same names are replaced.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    exhibits: list[Exhibit] = []
    for model, run in runs:
        name = _file_name(model.name, [exhibit.name for exhibit in exhibits])
        data = save_run(with_model(run, model), target / f"{name}.nc")
        page = export_html(model, run, target / f"{name}.html")
        exhibits.append(Exhibit(name, page, data, _picture(model, run, target / f"{name}.png")))
    return exhibits


def _picture(model: Model, run: xarray.Dataset, path: Path) -> Path | None:
    try:
        return save_figure(plot(run, "overview", model=model), path)
    except MissingExtraError:
        return None


def _file_name(name: str, taken: list[str]) -> str:
    """A model's name as that of a file: letters, digits and hyphens, each name once."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
    same = [k for k in taken if k == plain or re.fullmatch(rf"{re.escape(plain)}-\d+", k)]
    return f"{plain}-{len(same) + 1}" if same else plain
