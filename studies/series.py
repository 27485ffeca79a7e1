"""Conditioning along a motion: κ₂ and its cheap estimates over time, and how well each follows κ₂."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.models import planar_mass_matrix
from whippletree.accuracy.measures import Measures, measures
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.compiled import compile as compile_model
from whippletree.mechanisms import chain
from whippletree.model import Model
from whippletree.simulation.run import simulate

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]

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
    """Of the logarithms of two positive series; NaN where one hardly changes, so that rounding would decide."""
    a, b = np.log10(x), np.log10(y)
    if not np.all(np.isfinite(a)) or not np.all(np.isfinite(b)) or min(np.ptp(a), np.ptp(b)) < 1e-9:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def series(name: str, times: Array, matrices: Array) -> Series:
    """From mass matrices (T, nv, nv)."""
    each = [measures(M) for M in matrices]
    diagonals = np.array([np.diag(M) for M in matrices])
    return Series(name, times, np.linalg.eigvalsh(matrices), diagonals, Measures.stacked(each, (len(each),)))


def along(name: str, run: xarray.Dataset, dyn: Compiled) -> Series:
    """Along a run."""
    return series(name, run.time.values, np.asarray(dyn.mass_matrix(run["q"].values)))


def swinging(name: str, model: Model, duration: float, q0: Any = None, v0: Any = None, points: int = 200) -> Series:
    """A model let go under gravity, at rest and from zero coordinates unless told otherwise."""
    dyn = compile_model(model)
    run = _let_go(model, duration, q0, v0, points, dyn)
    return along(name, run, dyn)


def swinging_chain(n: int, duration: float, points: int = 40) -> Series:
    """A chain of n equal rods let go level, of any length: its mass matrix has a closed form."""
    run = _let_go(chain(n), duration, None, None, points, None)
    return series(f"chain of {n}", run.time.values, np.array([planar_mass_matrix(q) for q in run["q"].values]))


def _let_go(model: Model, duration: float, q0: Any, v0: Any, points: int, dyn: Compiled | None) -> xarray.Dataset:
    q, v = (np.zeros(n) if x is None else x for n, x in ((model.nq, q0), (model.nv, v0)))
    return simulate(model, q, v, duration=duration, output_dt=duration / points, compiled=dyn)


def at_states(name: str, model: Model, q: Array) -> Series:
    """At unrelated states (T, nq), numbered instead of timed."""
    return series(name, np.arange(len(q), dtype=float), np.asarray(compile_model(model).mass_matrix(q)))


def table(found: list[Series]) -> list[str]:
    """Markdown: range of κ₂, correlation of each estimate, range of δ_s / κ₂."""
    lines = [
        "| case | κ₂ from … to | corr. δ | corr. pivots, base first | corr. pivots, tips first | δ_s / κ₂ from … to |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for s in found:
        least, most = s.range_of_error()
        numbers = " | ".join(f"{c:+.2f}" if np.isfinite(c) else "constant" for c in s.correlations().values())
        kappa = s.mass.kappa
        lines.append(f"| {s.name} | {kappa.min():.2g} … {kappa.max():.2g} | {numbers} | {least:.2g} … {most:.2g} |")
    return lines
