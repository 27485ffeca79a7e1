"""The text of a report on conditioning: numbers, names and cures, for one state or for a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.monitor.measures import Measures

if TYPE_CHECKING:
    from whippletree.monitor.report import Conditioning

ILL = 1e8
"""κ from which a report names cures: half of the digits of a force are lost in an acceleration."""

PREDICTED_UP_TO = 64
"""Velocities up to which a printed report includes predicted errors."""


def report(found: Conditioning) -> str:
    """The report in lines."""
    return "\n".join([*_head(found), *_mass(found), *_constraints(found), *_routes(found), *cures(found)])


def _head(found: Conditioning) -> list[str]:
    model = found.model
    count = np.asarray(found.kappa).size
    where = "" if found.q.ndim == 1 else f", {count} states; names are about the worst one, {found.worst}"
    lines = [f"{model.name}: conditioning, nv = {model.nv}{where}"]
    broken = int(np.sum(np.isnan(found.kappa)))
    if not model.nv:
        lines.append("  nothing can move: there is no acceleration to be sensitive")
    elif broken:
        lines.append(f"  {broken} of {count} states are not finite: their numbers are NaN")
    return lines


def _mass(found: Conditioning) -> list[str]:
    model = found.model
    if not model.nv:
        return []
    mixed = "" if _one_unit(found) else " (depends on units: angles and lengths mix)"
    lines = [
        *_numbers("mass matrix", found.mass, mixed),
        f"  digits of an acceleration, forces known to 16: {_shown(found.digits, '.1f')}",
    ]
    if found.scale is not None:
        lines.insert(1, f"  scaled diagonal ratio δ_s: {_shown(found.scaled_diagonal_ratio())}")
    if found.heaviest is not None and found.lightest is not None and model.nv > 1:
        lines.append(f"  largest inertia at {found.heaviest}; smallest at {found.lightest}")
    lines += [f"  massless motion, κ is infinite: {motion.words(model)}" for motion in found.massless]
    return lines


def _numbers(name: str, m: Measures, remark: str = "") -> list[str]:
    return [
        f"  {name}: κ₂ {_shown(m.kappa)}{remark}, equilibrated κ₂ {_shown(m.kappa_equilibrated)}, "
        f"diagonal ratio δ {_shown(m.diagonal_ratio)}",
        f"    pivot ratio {_shown(m.pivot_ratio_base_first)} base first, {_shown(m.pivot_ratio_tips_first)} tips first",
    ]


def _constraints(found: Conditioning) -> list[str]:
    if found.block is None or found.schur is None:
        return []
    return [
        f"  block matrix: κ₂ {_shown(found.block.kappa)}, equilibrated κ₂ {_shown(found.block.kappa_equilibrated)}",
        *_numbers("Schur complement", found.schur),
    ]


def _routes(found: Conditioning) -> list[str]:
    if not 0 < found.model.nv <= PREDICTED_UP_TO or not np.all(np.isfinite(found.q[found.worst])):
        return []
    errors = ", ".join(f"{route} {error:.0e}" for route, error in found.predicted.items())
    return [f"  predicted rounding error of accelerations, at rest under gravity: {errors}"]


def cures(found: Conditioning) -> list[str]:
    """What can be done, for models that need it."""
    kappa = np.asarray(found.kappa, dtype=float)
    if not kappa.size or not np.any(kappa >= ILL):
        return []
    if found.massless:
        # constraints may carry a massless motion: then the block matrix is well, and nothing needs a cure
        if found.block is not None and np.all(np.isfinite(found.block.kappa)):
            return ["  the constraints carry the massless motion: the block matrix has an inverse"]
        return ['  cure: give the massless body mass, hold its joint (massless="hold"), or constrain the motion']
    words = []
    if np.max(kappa) > 1e3 * np.max(found.kappa_equilibrated):
        words.append("most of κ is a matter of scale: other units, or rotor inertias where the model has gears")
    if found.heaviest is not None and found.lightest is not None and np.max(found.diagonal_ratio) > ILL:
        words.append(f"merge {found.lightest.body!r} with its neighbour if it is too light to matter")
    words.append("take the recursive route, which forms no matrix; use absolute joint angles for long chains")
    return [f"  cure: {'; '.join(words)}"]


def _one_unit(found: Conditioning) -> bool:
    rotates = {"revolute", "spherical", "universal", "weld"}
    kinds = {joint.kind for joint in found.model.joints}
    return kinds <= rotates or kinds <= {"prismatic", "weld"}


def _shown(value: Any, style: str = ".4g") -> str:
    """A number, or the range of a batch."""
    known = np.asarray(value, dtype=float)
    known = known[~np.isnan(known)]
    if not known.size:
        return "unknown"
    least, most = (_number(float(x), style) for x in (known.min(), known.max()))
    return least if least == most else f"{least} … {most}"


def _number(x: float, style: str) -> str:
    return "∞" if np.isinf(x) else format(x, style)
