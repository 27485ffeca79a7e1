"""``wt.conditioning(model, q)``: how a model's equations are conditioned at states, in names, numbers and cures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.accuracy.measures import (
    EPS,
    BlockMeasures,
    Measures,
    Sensitivity,
    block_measures,
    factor,
    inverse,
    measures,
    sensitivity,
)
from whippletree.accuracy.predicted_error import predicted_errors
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.routes import RANK_TOLERANCE
from whippletree.constraints.singular.motions import FreeDirection, lightest_by_share, massless_motions, sparsest
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.model import Model, require_model
from whippletree.model.input_checks import floats, shape_message
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism

MOST_REPORTED_VELOCITIES = 4000
"""Beyond, the mass matrix and its eigenvalues take many minutes and gigabytes."""


@dataclass(frozen=True)
class End:
    """One end of the scale of diag M: the joint, the body that it carries, and the inertia felt at the joint."""

    joint: str
    body: str
    inertia: float

    def __str__(self) -> str:
        return f"joint {self.joint!r} (body {self.body!r}), {self.inertia:.3g}"


@dataclass(frozen=True)
class Conditioning:
    """Findings; ``str()`` of them is the report. Numbers have the shape of the batch: () for one state."""

    model: Model = field(repr=False)
    q: Array = field(repr=False)
    """(..., nq)."""
    scale: float | None
    """Factor that turns δ into δ_s; None if none was given."""
    mass: Measures
    """Measures of the mass matrix of the tree."""
    block: BlockMeasures | None
    """Measures of [M Aᵀ; A −C]; None without constraints."""
    schur: Measures | None
    """Measures of A M⁻¹ Aᵀ + C; None without constraints, infinite where M is singular."""
    worst: tuple[int, ...]
    """Index of the state that the names are about: the one with the largest κ."""
    heaviest: End | None
    lightest: End | None
    """The joints with the largest and the smallest entry of diag M; None where nothing can move."""
    massless: tuple[FreeDirection, ...]
    """Motions of the tree without inertia at the worst state."""

    @property
    def kappa(self) -> Any:
        """κ₂ of the mass matrix. Depends on units where angles and lengths mix."""
        return self.mass.kappa

    @property
    def kappa_equilibrated(self) -> Any:
        """κ₂ of the mass matrix at unit diagonal: free of units."""
        return self.mass.kappa_equilibrated

    @property
    def diagonal_ratio(self) -> Any:
        """δ (004 §4)."""
        return self.mass.diagonal_ratio

    def scaled_diagonal_ratio(self, scale: float | None = None) -> Any:
        """δ_s = scale · δ (004 eq. 15); ``scale`` is κ / δ at a reference state: :attr:`reference_scale` there."""
        chosen = self.scale if scale is None else scale
        if chosen is None:
            raise ValueError(
                "scaled_diagonal_ratio needs a scale: take wt.conditioning(model, q0).reference_scale at a reference "
                "state and pass it here or as wt.conditioning(model, q, scale=...)"
            )
        return chosen * self.diagonal_ratio

    @property
    def reference_scale(self) -> Any:
        """κ / δ here: the scale to use elsewhere; NaN where both are infinite."""
        with np.errstate(invalid="ignore"):
            return self.kappa / self.diagonal_ratio

    @property
    def pivot_ratio_base_first(self) -> Any:
        """Pivots of elimination that starts at the base, as in 004."""
        return self.mass.pivot_ratio_base_first

    @property
    def pivot_ratio_tips_first(self) -> Any:
        """Pivots of elimination that starts at the tips: D of the articulated recursion."""
        return self.mass.pivot_ratio_tips_first

    @property
    def digits(self) -> Any:
        """Digits of an acceleration that survive when forces are known to all sixteen: log₁₀ 1/(ε κ), never below 0."""
        with np.errstate(divide="ignore"):
            return np.clip(-np.log10(EPS * self.kappa), 0.0, None)

    @cached_property
    def predicted(self) -> Mapping[str, float]:
        """Predicted relative error of the accelerations per route, at the worst state, at rest under gravity.

        Accelerations of less than 1 rad/s² or m/s², as at an equilibrium, count as this large.
        """
        return predicted_errors(self.model, self.q[self.worst], smallest=1.0)

    def sensitivity(self, phi: Any) -> Sensitivity:
        """How accelerations M⁻¹ φ of the worst state answer to changes of φ (nv,), entry by entry (004 eq. 3–4)."""
        forces = np.asarray(phi, dtype=float)
        if forces.shape != (self.model.nv,):
            raise ShapeError(shape_message("sensitivity", "phi", forces.shape, (self.model.nv,), self.model))
        return sensitivity(matrices(self.model, self.q[self.worst], 0.0)[0], forces)

    def __str__(self) -> str:
        return report(self)

    __repr__ = __str__  # a terminal and a notebook show the report


def conditioning(model: Model, q: Any = None, *, scale: float | None = None, t: float = 0.0) -> Conditioning:
    """How the equations of motion of a model are conditioned.

    Args:
        model: with or without constraints.
        q: one state (nq,) or a batch (..., nq); default: the model's home.
        scale: κ / δ at a reference state, for δ_s.
        t: time, for constraints that depend on it.

    Returns:
        A report. A state with NaN gives NaN; a massless motion gives κ = ∞ and is named; a model that cannot move
        gives 1.

    Raises:
        ShapeError: if q does not end in nq numbers.
        UnsupportedError: if the model has more than 4000 velocities.
    """
    require_model(model, "conditioning")
    if model.nv > MOST_REPORTED_VELOCITIES:
        raise UnsupportedError(
            f"conditioning: model {model.name!r} has {model.nv} velocities, and the eigenvalues of its mass matrix are "
            f"looked at for up to {MOST_REPORTED_VELOCITIES}. forward_dynamics_with_diagonal of wt.compile(model) has "
            f"the inertias of the joints for any number."
        )
    t = float(floats("conditioning", "t", t))
    scale = None if scale is None else float(floats("conditioning", "scale", scale))
    at = floats("conditioning", "q", model.home.q if q is None else q)
    if at.ndim < 1 or at.shape[-1] != model.nq:
        raise ShapeError(shape_message("conditioning", "q", at.shape, (model.nq,), model))
    batch = at.shape[:-1]
    masses, blocks, complements = [], [], []
    for index in np.ndindex(*batch):
        M, A, C = matrices(model, at[index], t)
        masses.append(measures(M))
        if A is not None:
            blocks.append(block_measures(np.block([[M, A.T], [A, -C]])))
            complements.append(_schur(M, A, C))
    mass = Measures.stack(masses, batch)
    worst = _worst(np.asarray(mass.kappa))
    return Conditioning(
        model,
        at,
        scale,
        mass,
        BlockMeasures.stack(blocks, batch) if model.constraints else None,
        Measures.stack(complements, batch) if model.constraints else None,
        worst,
        *_name_extremes(model, at, worst),
    )


def _worst(kappa: Array) -> tuple[int, ...]:
    if not kappa.size:
        return (0,) * kappa.ndim
    index = int(np.argmax(np.where(np.isnan(kappa), -1.0, kappa)))
    return tuple(int(i) for i in np.unravel_index(index, kappa.shape))


def matrices(model: Model, q: Array, t: float) -> tuple[Array, Array | None, Array]:
    """M, and for models with constraints A and C of the independent rows, all switches on."""
    if not np.all(np.isfinite(q)):
        k = len(constraint_set(model).structure.independent) if model.constraints else 0
        blank = np.full((model.nv, model.nv), np.nan)
        return blank, np.full((k, model.nv), np.nan) if model.constraints else None, np.full((k, k), np.nan)
    m = Mechanism.of(model)
    state = q.astype(object)
    links = m.still(state)
    M = inertia.mass_matrix(m.tree, m.sweep, links).astype(float)
    if not model.constraints:
        return M, None, zeros(0, 0).astype(float)
    system = constraint_set(model)
    kept = list(system.structure.independent)
    A = system.rows(m, links, state, None, t).jacobian()[kept].astype(float)
    return M, A, np.diag([float(system.compliance[i]) for i in kept]).reshape(len(kept), len(kept))


def _schur(M: Array, A: Array, C: Array) -> Measures:
    inverted = inverse(M)
    if np.any(np.isposinf(inverted)):
        return Measures(*[np.asarray(np.inf)] * 5)
    S = A @ inverted @ A.T + C
    return measures((S + S.T) / 2)


def _name_extremes(
    model: Model, q: Array, worst: tuple[int, ...]
) -> tuple[End | None, End | None, tuple[FreeDirection, ...]]:
    """Who is at the ends of the scale, and which motions have no inertia, at one state."""
    if not q.size or not model.nv or not np.all(np.isfinite(q[worst])):
        return None, None, ()
    M = matrices(model.tree, q[worst], 0.0)[0]
    joints = zip(model.joints, model.v_slices, strict=True)
    owners = [joint for joint, part in joints for _ in range(part.start, part.stop)]
    diagonal = np.diag(M)
    heavy, light = (
        End(owners[i].name, owners[i].child, float(diagonal[i])) for i in (diagonal.argmax(), diagonal.argmin())
    )
    return heavy, light, tuple(_massless(model, M))


def _massless(model: Model, M: Array) -> list[FreeDirection]:
    """Motions without inertia: joints that carry nothing, and what rounding cannot tell from a singular rest."""
    if np.all(np.diag(M) > 0) and factor(M) is not None:
        return []
    rows = np.zeros((0, len(M)))
    found = massless_motions(M, rows, RANK_TOLERANCE) or lightest_by_share(M, rows, RANK_TOLERANCE)[:1]
    return sparsest(found, model)


# --- The text of a report on conditioning: numbers, names and cures, for one state or for a batch ---------------------


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
        f"  digits of an acceleration, forces known to 16: {_text(found.digits, '.1f')}",
    ]
    if found.scale is not None:
        lines.insert(1, f"  scaled diagonal ratio δ_s: {_text(found.scaled_diagonal_ratio())}")
    if found.heaviest is not None and found.lightest is not None and model.nv > 1:
        lines.append(f"  largest inertia at {found.heaviest}; smallest at {found.lightest}")
    lines += [f"  massless motion, κ is infinite: {motion.words(model)}" for motion in found.massless]
    return lines


def _numbers(name: str, m: Measures, remark: str = "") -> list[str]:
    return [
        f"  {name}: κ₂ {_text(m.kappa)}{remark}, equilibrated κ₂ {_text(m.kappa_equilibrated)}, "
        f"diagonal ratio δ {_text(m.diagonal_ratio)}",
        f"    pivot ratio {_text(m.pivot_ratio_base_first)} base first, {_text(m.pivot_ratio_tips_first)} tips first",
    ]


def _constraints(found: Conditioning) -> list[str]:
    if found.block is None or found.schur is None:
        return []
    return [
        f"  block matrix: κ₂ {_text(found.block.kappa)}, equilibrated κ₂ {_text(found.block.kappa_equilibrated)}",
        *_numbers("Schur complement", found.schur),
    ]


def _routes(found: Conditioning) -> list[str]:
    if not 0 < found.model.nv <= PREDICTED_UP_TO or not np.all(np.isfinite(found.q[found.worst])):
        return []
    errors = ", ".join(f"{route} {error:.0e}" for route, error in found.predicted.items())
    return [f"  predicted rounding error of accelerations, at rest under gravity: {errors}"]


def cures(found: Conditioning) -> list[str]:
    """Cures, for models that need them."""
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


def _text(value: Any, style: str = ".4g") -> str:
    """A number, or the range of a batch."""
    known = np.asarray(value, dtype=float)
    known = known[~np.isnan(known)]
    if not known.size:
        return "unknown"
    least, most = (_number(float(x), style) for x in (known.min(), known.max()))
    return least if least == most else f"{least} … {most}"


def _number(x: float, style: str) -> str:
    return "∞" if np.isinf(x) else format(x, style)


# --- conditioning along a motion: κ₂ and its cheap estimates over time ------------------------------------------------


ESTIMATES = ("diagonal_ratio", "pivot_ratio_base_first", "pivot_ratio_tips_first")


@dataclass(frozen=True)
class Series:
    """The mass matrix of a model along a motion, or at a set of states."""

    name: str
    times: Array
    eigenvalues: Array
    """(T, nv), ascending."""
    diagonals: Array
    """(T, nv)."""
    mass: Measures

    @property
    def scale(self) -> float:
        """κ / δ at the first state (004 eq. 15)."""
        return float(self.mass.kappa[0] / self.mass.diagonal_ratio[0])

    @property
    def scaled(self) -> Array:
        """δ_s over time."""
        return np.asarray(self.scale * self.mass.diagonal_ratio)

    def correlations(self) -> dict[str, float]:
        """Pearson's correlation of the logarithm of each estimate with that of κ₂; NaN where one is constant."""
        return {name: correlation(getattr(self.mass, name), self.mass.kappa) for name in ESTIMATES}

    def range_of_error(self) -> tuple[float, float]:
        """Least and largest δ_s / κ₂."""
        quotient = self.scaled / self.mass.kappa
        return float(np.min(quotient)), float(np.max(quotient))


def correlation(x: Array, y: Array) -> float:
    """Correlation of the logarithms of two positive series; NaN where one hardly changes, so that rounding would
    decide."""
    a, b = np.log10(x), np.log10(y)
    if not np.all(np.isfinite(a)) or not np.all(np.isfinite(b)) or min(np.ptp(a), np.ptp(b)) < 1e-9:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def series(name: str, times: Array, matrices: Array) -> Series:
    """From mass matrices (T, nv, nv)."""
    each = [measures(M) for M in matrices]
    diagonals = np.array([np.diag(M) for M in matrices])
    return Series(name, times, np.linalg.eigvalsh(matrices), diagonals, Measures.stack(each, (len(each),)))
