"""Runs as tables: one number per row (tidy), or one moment per row (wide), and as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray

KEYS = ("time", "run")
"""Dimensions that have a column of their own."""


def tidy_frame(run: xarray.Dataset) -> Any:
    """A run as a tidy data frame: one number per row.

    Returns:
        A ``pandas.DataFrame`` with the columns ``time``, for a batch ``run``, ``variable`` (``q``, ``kinetic_energy``,
        …), ``name`` (of the joint, row or reaction; empty for a single number), ``value`` and ``unit``.
    """
    if not hasattr(run, "data_vars"):
        raise TypeError(f"tidy_frame: expected a run, what wt.simulate returns, got {run!r}")
    import pandas

    parts = [_part(run, str(name)) for name in run.data_vars if _is_series(run[name])]
    return pandas.concat(parts, ignore_index=True)


def wide_frame(run: xarray.Dataset) -> Any:
    """A run with one moment per row (and, in a batch, one run), and a column such as ``q.crank`` per number."""
    tidy = tidy_frame(run)
    keys = [key for key in KEYS if key in tidy]
    column = tidy["variable"] + ("." + tidy["name"]).where(tidy["name"] != "", "")
    order = list(dict.fromkeys(column))
    wide = tidy.assign(column=column).pivot(index=keys, columns="column", values="value")[order]
    return wide.rename_axis(columns=None).reset_index()


def _is_series(variable: Any) -> bool:
    return "time" in variable.dims and variable.dtype.kind in "biuf"


def _part(run: xarray.Dataset, name: str) -> Any:
    """The rows of one variable."""
    variable = run[name]
    others = [str(d) for d in variable.dims if d not in KEYS]
    # a dimension is known by its labels, by the names that its variable carries, or by numbers
    names = list(variable.attrs.get("names", ()))
    if others and others[0] not in variable.coords and len(names) == variable.sizes[others[0]]:
        variable = variable.assign_coords({others[0]: names})
    table = variable.rename("value").reset_coords(drop=True).to_dataframe().reset_index()
    label = table[others[0]].astype(str) if others else ""
    for dimension in others[1:]:
        label = label + "." + table[dimension].astype(str)
    keys = [key for key in KEYS if key in table]
    found = table[keys].assign(variable=name, name=label, value=table["value"].astype(float))
    return found.assign(unit=str(variable.attrs.get("units", "")))
