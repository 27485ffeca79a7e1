"""The few curves that a page shows beside the scene, at the scene's own moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.model import Model
from whippletree.view import style
from whippletree.view.curves import UNITLESS, column_names, coordinate_units, velocity_units

if TYPE_CHECKING:
    import xarray


MOST = style.DISTINCT
"""Curves of one diagram; of more, the first are shown, and the title says so."""


class Curves(NamedTuple):
    """One diagram over time."""

    title: str
    unit: str
    names: list[str]
    colors: list[style.Color]
    values: Array
    """(T, curves)"""
    dashes: list[tuple[float, ...]]
    """Strokes and gaps of each curve, in line widths."""


def curves(run: xarray.Dataset, model: Model, times: Array) -> list[Curves]:
    """Joints, energies, velocities, and forces where there are any; nothing for a single moment."""
    if len(times) < 2:
        return []
    at = np.searchsorted(np.asarray(run["time"], dtype=float), times)
    found = [
        *_columns(run, "q", "joints", at, coordinate_units(model)),
        *_energies(run, at),
    ]
    if "constraint_forces" in run:
        units = [unit.strip() for unit in str(run["constraint_forces"].attrs.get("units", "")).split(",")]
        found += _columns(run, "constraint_forces", "constraint forces", at, units)
    if "contact_force" in run:
        normal = np.asarray(run["contact_force"], dtype=float)[at, :, 0]
        found.append(_diagram("normal forces of contacts", "N", column_names(run, "contact_force"), normal))
    found += _columns(run, "v", "velocities", at, [f"{unit}/s" for unit in velocity_units(model)])
    return [c for c in found if c.values.size]


def _energies(run: xarray.Dataset, at: Array) -> list[Curves]:
    names = ("kinetic_energy", "potential_energy")
    if not all(name in run for name in names):
        return []
    values = [np.asarray(run[name], dtype=float)[at] for name in names]
    return [_diagram("energies", "J", ["kinetic", "potential", "total"], np.stack([*values, sum(values)], axis=1))]


def _columns(run: xarray.Dataset, variable: str, title: str, at: Array, units: Sequence[str]) -> list[Curves]:
    """A diagram for each unit."""
    values = np.asarray(run[variable], dtype=float)[at]
    names = column_names(run, variable)
    if len(units) != len(names):
        return [_diagram(title, " or ".join(dict.fromkeys(units)), names, values)]
    different = list(dict.fromkeys(units))
    found = []
    for unit in different:
        chosen = [k for k, own in enumerate(units) if own == unit]
        found.append(_diagram(title, UNITLESS.get(unit, unit), [names[k] for k in chosen], values[:, chosen]))
    return found


def _diagram(title: str, unit: str, names: list[str], values: Array) -> Curves:
    count = min(len(names), MOST)
    heading = title if count == len(names) else f"{title}, the first {count} of {len(names)}"
    colors = [style.series_color(k, count) for k in range(count)]
    dashes = [style.series_dash(k, count) for k in range(count)]
    return Curves(heading, unit, names[:count], colors, np.nan_to_num(values[:, :count]), dashes)
