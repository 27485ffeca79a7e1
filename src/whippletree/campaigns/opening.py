"""``wt.open_sweep``: the folder of a sweep as a labelled data set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.campaigns.store import Store
from whippletree.errors import FileError, MissingExtraError

if TYPE_CHECKING:
    import xarray

NOT_RUN = "not run yet"
"""The ``failure`` of runs that are missing."""


def open_sweep(folder: str | os.PathLike[str]) -> xarray.Dataset:
    """The results of a sweep, also of one that is still running or was stopped.

    Args:
        folder: what ``wt.sweep`` has written.

    Returns:
        A data set: of a grid with a dimension for each parameter, by its path; of any other design with a dimension
        ``run`` and the parameters as coordinates. Metrics and final states are variables, ``failure`` says why a run
        has none, time series are read when they are used (with dask as chunks, so they may be larger than memory).
        ``attrs`` hold the design, which variables are ``parameters`` and ``metrics``, how many runs are ``missing``,
        and the ``digest`` of all parts.
    """
    import xarray

    store = Store(Path(folder))
    manifest = store.manifest
    runs = int(manifest["runs"])
    columns = _columns(store, runs)
    paths = manifest["parameters"]
    parameters = {path: columns.pop(path) for path in paths if path in columns}
    found = xarray.Dataset({name: ("run", values) for name, values in columns.items() if name != "run"})
    series = _series(store, runs)
    if series is not None:
        found = found.merge(series)
    missing = int(np.sum(np.asarray(columns["failure"]) == NOT_RUN))
    events = store.events() if "events" in manifest["keep"] else []
    found.attrs = {"design": manifest["design"], "model": manifest["model"], "parameters": list(paths),
                   "metrics": manifest["metrics"], "runs": runs, "missing": missing, "seed": manifest["seed"],
                   "digest": store.digest(), "folder": str(folder)}  # fmt: skip
    if events:
        found.attrs["events"] = events
    if manifest["design"] != "grid":
        return found.assign_coords(
            {path: ("run", values) for path, values in parameters.items()} | {"run": np.arange(runs)}
        )
    return _by_parameter(found, {path: manifest["grid"][path] for path in paths})  # in the order of the design


def _by_parameter(found: xarray.Dataset, grid: dict[str, list[Any]]) -> xarray.Dataset:
    """With a dimension for each parameter of a grid in place of the runs."""
    import xarray

    shape = [len(values) for values in grid.values()]
    variables = {}
    for name, variable in found.variables.items():
        if "run" not in variable.dims:
            variables[name] = variable
        elif name != "run":
            rest = [d for d in variable.dims if d != "run"]
            data = variable.transpose("run", *rest).data
            variables[name] = xarray.Variable([*grid, *rest], data.reshape(*shape, *data.shape[1:]), variable.attrs)
    plain = {path: values for path, values in grid.items() if all(isinstance(x, (int, float, str)) for x in values)}
    whole = xarray.Dataset(variables, attrs=found.attrs)
    return whole.assign_coords(
        {name: found.coords[name] for name in found.coords if "run" not in found[name].dims} | plain
    )


def _columns(store: Store, runs: int) -> dict[str, Any]:
    """Every column of the tables, in the order of the runs; NaN, and NOT_RUN, where a run is missing."""
    found: dict[str, Any] = {"failure": np.full(runs, NOT_RUN, dtype=object)}
    for table in store.tables():
        number = table.column("run").to_numpy()
        for name in table.column_names:
            values = np.asarray(
                table.column(name).to_pylist() if _is_text(table, name) else table.column(name).to_numpy()
            )
            if name not in found:
                empty: Any = "" if _is_text(table, name) else np.nan
                found[name] = np.full(runs, empty, dtype=object if _is_text(table, name) else float)
            found[name][number] = values
    return found


def _is_text(table: Any, name: str) -> bool:
    return str(table.schema.field(name).type) in ("string", "large_string", "null")


def _series(store: Store, runs: int) -> Any:
    """The time series of all tasks side by side."""
    import xarray

    paths = store.series_paths()
    if not paths:
        return None
    try:
        import dask  # noqa: F401

        chunks: Any = {}
    except ImportError:
        chunks = None
    try:
        parts = [_name_coordinates(xarray.open_zarr(path, chunks=chunks, consolidated=False)) for path in paths]
    except ImportError as error:
        raise MissingExtraError("time series of a sweep", "zarr", "sweep") from error
    except (OSError, ValueError, KeyError) as error:
        raise FileError(str(store.folder / "series"), [f"cannot be read: {error}"]) from None
    whole = parts[0] if len(parts) == 1 else xarray.concat(parts, dim="run", join="outer", combine_attrs="drop")
    return whole.reindex(run=np.arange(runs)).drop_vars("run") if whole.sizes["run"] != runs else whole.drop_vars("run")


def _name_coordinates(series: Any) -> Any:
    """With the names of coordinates, which are kept as attributes."""
    names = {word.removeprefix("names of "): x for word, x in series.attrs.items() if word.startswith("names of ")}
    series.attrs = {}
    return series.assign_coords({name: values for name, values in names.items() if name in series.dims})
