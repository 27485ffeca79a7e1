"""A sweep as a TOML file, version 1.

    whippletree_sweep = 1
    scenario = "pump.toml"                      # what to run, beside this file
    folder = "pump.sweep"                       # where results go; default: the name of this file with .sweep
    design = "sobol"                            # grid, zip, random, sobol, latin_hypercube, saltelli
    runs = 1000                                 # of designs that are drawn
    seed = 1
    keep = ["final", "events"]

    [parameters]                                # or: table = "designs.csv", whose columns are paths
    "bodies.rod.mass" = [0.5, 1.0, 2.0]
    "q0.crank" = { from = 0.0, to = 3.0, count = 7 }
    "contact.friction" = { distribution = "uniform", loc = 0.2, scale = 0.6 }

    [metrics]                                   # functions of a run, in a Python file of yours
    peak = { file = "metrics.py", function = "peak_torque" }

    [options]                                   # of wt.simulate, instead of what the scenario says
    output_dt = 0.01

Running a sweep runs the Python files that it names.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from whippletree.campaigns.campaign import Campaign, on_batch, plan_sweep
from whippletree.campaigns.design import distribution_named
from whippletree.errors import FileError, NameLookupError, ShapeError
from whippletree.io.draft import Draft
from whippletree.io.native import native_reader
from whippletree.io.paths import read_bytes
from whippletree.scenario.factories import python_function

SWEEP_FORMAT = 1


class SweepFile(msgspec.Struct, forbid_unknown_fields=True):
    """The tables of the file."""

    scenario: str
    whippletree_sweep: int = SWEEP_FORMAT
    folder: str = ""
    design: str | None = None
    runs: int | None = None
    seed: int = 0
    runs_per_task: int | None = None
    keep: list[str] = msgspec.field(default_factory=lambda: ["final"])
    table: str = ""
    parameters: dict[str, Any] = {}
    metrics: dict[str, dict[str, Any]] = {}
    options: dict[str, Any] = {}


def load_sweep(path: str | os.PathLike[str]) -> Campaign:
    """Read a sweep file; everything that can be wrong is found here.

    Raises:
        FileError: listing the faults, a misspelt key with the nearest that is known.
    """
    place = Path(path)
    given = _checked(place)
    try:
        parameters = _parameters(place, given)
        metrics = {name: _metric(place, name, table) for name, table in given.metrics.items()}
        folder = place.parent / (given.folder or f"{place.stem}.sweep")
        return plan_sweep(
            place.parent / given.scenario, parameters, folder=folder, design=given.design, runs=given.runs,
            seed=given.seed, metrics=metrics, keep=given.keep, runs_per_task=given.runs_per_task, **given.options,
        )  # fmt: skip
    except (NameLookupError, ShapeError, ValueError, TypeError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(str(place), [str(error)]) from None


def _checked(place: Path) -> SweepFile:
    text = native_reader.decoded(place, read_bytes(place))
    lines, draft = native_reader.Lines(text), Draft(place, place.stem)
    document = native_reader.parse(place, text)
    found = native_reader.checked_table(draft, document, SweepFile, "the file", partial(lines.find, "", 0))
    if found.get("whippletree_sweep", SWEEP_FORMAT) != SWEEP_FORMAT:
        draft.fault(f"the file has format {found['whippletree_sweep']}; this version reads format {SWEEP_FORMAT}")
    if "scenario" not in document:
        draft.fault("scenario is missing: which scenario file is to be run?")
    draft.stop_if_faulty()
    return SweepFile(**found)


def _parameters(place: Path, given: SweepFile) -> Any:
    if bool(given.table) == bool(given.parameters):
        raise ValueError("give either [parameters] or table = 'designs.csv'")
    if given.table:
        import pandas

        return pandas.read_csv(place.parent / given.table)
    return {path: _values(path, value) for path, value in given.parameters.items()}


def _values(path: str, value: Any) -> Any:
    """A list, a range ``{from, to, count}``, or a distribution."""
    if not isinstance(value, dict):
        return value
    if "distribution" in value:
        return distribution_named(value, f"parameters: {path!r}")
    if set(value) - {"spacing"} != {"from", "to", "count"}:
        raise ValueError(
            f"parameters: {path!r} takes a list, {{from, to, count}} or {{distribution, …}}, got {value!r}"
        )
    between = np.geomspace if value.get("spacing") == "log" else np.linspace
    return between(value["from"], value["to"], int(value["count"]))


def _metric(place: Path, name: str, table: dict[str, Any]) -> Any:
    if unknown := set(table) - {"file", "function", "batch"}:
        raise NameLookupError("key", sorted(unknown)[0], ["file", "function", "batch"], where=f"metrics.{name}")
    function = python_function(table.get("file", ""), table.get("function", name), place.parent, f"metric {name!r}")
    return on_batch(function) if table.get("batch") else function
