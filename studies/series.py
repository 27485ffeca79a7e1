"""Motions and sets of states whose conditioning the study compares, and their table."""

from __future__ import annotations

import numpy as np

from studies.models import planar_mass_matrix
from whippletree.accuracy.report import Series, series
from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import compile as compile_model
from whippletree.mechanisms import chain
from whippletree.model import Model
from whippletree.view.conditioning_figure import release


def swinging_chain(n: int, duration: float, points: int = 40) -> Series:
    """A chain of n equal rods let go level, of any length: its mass matrix has a closed form."""
    run = release(chain(n), duration, None, None, points, None)
    return series(f"chain of {n}", run.time.values, np.array([planar_mass_matrix(q) for q in run["q"].values]))


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
