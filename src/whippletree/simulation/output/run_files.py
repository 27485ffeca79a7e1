"""Runs on disk: NetCDF (through h5netcdf) and zarr, out and back without loss."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.errors import FileError, MissingExtraError, UnsupportedError, did_you_mean
from whippletree.files.whole_files import write_whole

if TYPE_CHECKING:
    import xarray


SUFFIXES = {".nc": "NetCDF", ".zarr": "zarr"}

_TEXTS = "texts"
"""The attribute that holds variables of texts in zarr."""

_AS_TEXT = "json:"
"""Beginning of an attribute that files cannot keep as it is: a list of texts, a truth value, nothing."""


def save_run(run: xarray.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a run to a file ``.nc`` (NetCDF 4) or a folder ``.zarr``, as a whole or not at all.

    ``.csv`` writes a table, one moment per row and a column such as ``q.crank`` per number: for other programs, since
    it keeps neither units nor attributes and :func:`load_run` does not read it. The folder around it is made.

    Raises:
        UnsupportedError: another suffix.
        MissingExtraError: zarr is not installed.
        OSError: the disk is full, or the place cannot be written.
    """
    if not hasattr(run, "variables"):
        raise TypeError(f"save_run: expected a run, what wt.simulate returns, got {run!r}; wt.save keeps models")
    place = Path(path)
    if place.suffix == ".csv":
        return write_whole(place, wide_frame(run).to_csv(index=False).encode())
    kind = _kind(place)
    stored = run.copy()
    stored.attrs = {name: _stored_attribute(value) for name, value in run.attrs.items()}
    for name in stored.variables:
        variable = stored[name]
        variable.attrs = {key: _stored_attribute(value) for key, value in variable.attrs.items()}
    if kind == "zarr":
        _need_zarr()
        _write_zarr(_texts_aside(stored), place)
        return place
    # in memory first: the HDF5 library does not survive a disk that fills up under it
    return write_whole(place, stored.to_netcdf(engine="h5netcdf"))


def _write_zarr(stored: xarray.Dataset, place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as folder:
            draft = Path(folder) / place.name
            stored.to_zarr(draft, zarr_format=3, consolidated=False)
            if (place / "zarr.json").is_file():  # an earlier run; any other folder is not ours to remove
                shutil.rmtree(place)
            draft.replace(place)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(place)) from error


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a place that :func:`save_run` could not write to; its folder is made.

    Raises:
        UnsupportedError, MissingExtraError, OSError: as :func:`save_run`.
    """
    place = Path(path)
    if place.suffix != ".csv" and _kind(place) == "zarr":
        _need_zarr()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}."):
        pass


def load_run(path: str | os.PathLike[str]) -> xarray.Dataset:
    """A run that :func:`save_run` has written, complete in memory.

    Raises:
        FileError: not such a file.
        FileNotFoundError: there is none.
    """
    import xarray

    place = Path(path)
    kind = _kind(place)
    if not place.exists():
        raise FileNotFoundError(2, "there is no such run", str(place))
    try:
        if kind == "NetCDF":
            run = xarray.load_dataset(place, engine="h5netcdf")
        else:
            _need_zarr()
            run = _texts_back(xarray.open_zarr(place, consolidated=False).load())
    except (ValueError, KeyError, OSError) as error:
        raise FileError(str(place), [f"not a run in {kind}: {error}"]) from None
    run.attrs = {name: _restore_attribute(value) for name, value in run.attrs.items()}
    for name in run.variables:
        run[name].attrs = {key: _restore_attribute(value) for key, value in run[name].attrs.items()}
    return run


def _kind(place: Path) -> str:
    if place.suffix == ".csv":
        raise UnsupportedError(f"{place}: a table holds numbers only, not the run: read it with pandas.read_csv")
    if place.suffix not in SUFFIXES:
        raise UnsupportedError(
            f"{place}: runs are kept as .nc or .zarr (and written as a table .csv), not as "
            f"{place.suffix or 'a file without suffix'}"
            f"{did_you_mean(place.suffix, SUFFIXES)}"
        )
    return SUFFIXES[place.suffix]


def _need_zarr() -> None:
    try:
        import zarr  # noqa: F401
    except ImportError:
        raise MissingExtraError("a run in zarr", "zarr", "zarr") from None


def _texts_aside(run: xarray.Dataset) -> xarray.Dataset:
    """Zarr has no settled way to keep texts: those of names and reasons go to an attribute."""
    names = [str(name) for name in run.variables if run[name].dtype.kind in "UO"]
    texts = {name: [list(run[name].dims), run[name].values.tolist(), run[name].attrs] for name in names}
    return run.drop_vars(names).assign_attrs({_TEXTS: json.dumps(texts)})


def _texts_back(run: xarray.Dataset) -> xarray.Dataset:
    texts = json.loads(run.attrs.pop(_TEXTS))
    for name, (dimensions, values, attributes) in texts.items():
        there = (dimensions, np.array(values), attributes)
        run = run.assign_coords({name: there}) if dimensions == [name] else run.assign({name: there})
    return run


def _stored_attribute(value: Any) -> Any:
    """An attribute as a number or a text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return value
    return _AS_TEXT + json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)


def _restore_attribute(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_AS_TEXT):
        return json.loads(value[len(_AS_TEXT) :])
    return value.item() if isinstance(value, np.generic) else value


# --- as tables: one number per row (tidy), or one moment per row (wide), and as CSV -----------------------------------


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
