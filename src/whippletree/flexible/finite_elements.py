"""Finite elements of straight beams in space: frames of them as sparse matrices, for :mod:`.reduction`.

An element has six freedoms at each end (displacement, rotation). Its fields are those that end loads cause, with the
shear of Timoshenko where a shear stiffness is given, and its matrices are exact integrals over them:

    K = ∫ EI θ'² + kGA (w' − θ)² + EA u'² + GJ φ'²        M = ∫ ρA (u² + w²) + ρI θ² + ρIₚ φ²

What bending shortens an element by, ½ ∫ w'², is kept beside them: from it comes geometric stiffening.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError
from whippletree.flexible.beams import require_positive

COMPONENTS = ("x", "y", "z", "turn x", "turn y", "turn z")


@dataclass(frozen=True, eq=False)
class Section:
    """Material and section of a beam; numbers for y and z in this order where there are two."""

    mass_per_length: float
    axial_stiffness: float
    bending_stiffness: tuple[float, float]
    torsional_stiffness: float
    polar_inertia: float
    shear_stiffness: tuple[float, float] | None = None
    rotary_inertia: tuple[float, float] = (0.0, 0.0)


class Strut(NamedTuple):
    """How long an element is after displacements u (12,) of its ends: d · u + ½ uᵀ G u longer, to second order."""

    freedoms: Array
    """(12,)"""
    stiffness: float
    """EA / l, N/m."""
    d: Array
    """(12,)"""
    G: Array
    """∫ w' w'ᵀ, 1/m, (12, 12)."""


@dataclass(frozen=True, eq=False)
class NodalModel:
    """A body of finite elements: K q + M q̈ = 0, with what each freedom moves."""

    points: Array
    """Places of the nodes, m, (nodes, 3)."""
    freedoms: Array
    """Node and component (0 … 5: x, y, z, turns about them) of each freedom, (freedoms, 2)."""
    stiffness: Any
    """K, sparse, (freedoms, freedoms)."""
    mass: Any
    """M, sparse, (freedoms, freedoms)."""
    names: Mapping[Any, int] = field(default_factory=dict)
    """Names or numbers of nodes in the source -> row of ``points``."""
    edges: tuple[tuple[int, int], ...] = ()
    """Lines between nodes, for pictures."""
    struts: tuple[Strut, ...] = ()
    """How bending shortens the elements, where that is known."""

    def faults(self) -> list[str]:
        """Faults of the matrices and the nodes."""
        size = len(self.freedoms)
        faults = []
        for word, A in (("stiffness", self.stiffness), ("mass", self.mass)):
            if A.shape != (size, size):
                faults.append(f"{word} has shape {A.shape}, expected ({size}, {size}), one row per freedom")
            elif not np.all(np.isfinite(A.data if sp.issparse(A) else A)):
                faults.append(f"{word} holds a number that is not finite")
            elif abs(A - A.T).max() > ELEMENT_SYMMETRY * abs(A).max():
                faults.append(f"{word} is not symmetric")
        if not np.all(np.isfinite(self.points)):
            bad = [str(k) for k in np.flatnonzero(~np.isfinite(self.points).all(axis=1))[:5]]
            faults.append(f"points {', '.join(bad)} are not finite")
        pairs = {tuple(row) for row in np.asarray(self.freedoms).tolist()}
        if len(pairs) != size:
            faults.append("two freedoms have the same node and component")
        if size and (self.freedoms[:, 0].min() < 0 or self.freedoms[:, 0].max() >= len(self.points)):
            faults.append("a freedom belongs to a node that is not there")
        if size and (self.freedoms[:, 1].min() < 0 or self.freedoms[:, 1].max() > 5):
            faults.append(f"a freedom's component is not one of 0 … 5 ({', '.join(COMPONENTS)})")
        return faults


UPRIGHT = 1e-6
"""Sine of the angle to ``up`` below which an element stands upright: ``up`` then says nothing of its section."""

ELEMENT_SYMMETRY = 1e-8
"""Share of the largest entry by which a matrix of finite elements may differ from its transpose: solvers write seven
digits or more."""


def frame_of_beams(
    points: Any, beams: Sequence[tuple[int, int, Section]], *, elements: int = 8, up: Any = (0.0, 0.0, 1.0)
) -> NodalModel:
    """A frame of straight beams, rigidly joined where they meet.

    Args:
        points: where beams meet or end, m, (points, 3); they are the first nodes.
        beams: (first point, second point, section).
        elements: of each beam.
        up: a direction in each beam's x–z plane; for a beam along it, the global y takes its place.
    """
    corners = np.asarray(points, dtype=float).reshape(-1, 3)
    nodes: list[Array] = list(corners)
    pieces: list[tuple[int, int, Section]] = []
    for number, (a, b, section) in enumerate(beams):
        if not (0 <= a < len(corners) and 0 <= b < len(corners)) or a == b:
            raise ModelError("frame of beams", [f"beam {number} joins points {a} and {b} of {len(corners)}"])
        require_positive(
            mass_per_length=section.mass_per_length, axial_stiffness=section.axial_stiffness,
            bending_stiffness=min(section.bending_stiffness), torsional_stiffness=section.torsional_stiffness,
            polar_inertia=section.polar_inertia,
        )  # fmt: skip
        before = a
        for k in range(1, elements + 1):
            if k < elements:
                nodes.append(corners[a] + (corners[b] - corners[a]) * (k / elements))
            after = b if k == elements else len(nodes) - 1
            pieces.append((before, after, section))
            before = after
    return _assemble(np.array(nodes), pieces, np.asarray(up, dtype=float))


def _assemble(points: Array, pieces: list[tuple[int, int, Section]], up: Array) -> NodalModel:
    size = 6 * len(points)
    rows, cols, stiff, heavy, struts = [], [], [], [], []
    for a, b, section in pieces:
        length = float(np.linalg.norm(points[b] - points[a]))
        if not length > 0:
            raise ModelError("frame of beams", [f"two nodes of a beam are at the same place, {points[a].tolist()}"])
        R = _axes((points[b] - points[a]) / length, up)
        T = np.kron(np.eye(4), R.T)
        K, M = element_matrices(length, section)
        at = np.concatenate([6 * a + np.arange(6), 6 * b + np.arange(6)])
        rows.append(np.repeat(at, 12))
        cols.append(np.tile(at, 12))
        stiff.append((T.T @ K @ T).ravel())
        heavy.append((T.T @ M @ T).ravel())
        d, G = shortening_of_element(length, section)
        struts.append(Strut(at, section.axial_stiffness / length, T.T @ d, T.T @ G @ T))
    where = np.concatenate(rows), np.concatenate(cols)
    K, M = (sp.csc_matrix((np.concatenate(x), where), shape=(size, size)) for x in (stiff, heavy))
    freedoms = np.stack([np.repeat(np.arange(len(points)), 6), np.tile(np.arange(6), len(points))], axis=1)
    names = {k: k for k in range(len(points))}
    return NodalModel(points, freedoms, K, M, names, tuple((a, b) for a, b, _ in pieces), tuple(struts))


def _axes(along: Array, up: Array) -> Array:
    """A rotation whose first column is ``along`` and whose third is as close to ``up`` as that allows."""
    side = np.cross(up, along)
    if np.linalg.norm(side) < UPRIGHT * np.linalg.norm(up):
        side = np.cross((0.0, 1.0, 0.0), along)
    y = side / np.linalg.norm(side)
    return np.stack([along, y, np.cross(along, y)], axis=1)


def element_matrices(length: float, section: Section) -> tuple[Array, Array]:
    """K and M (12, 12) of a beam element along its own x: displacements and rotations of one end, then of the other."""
    x, weights = np.polynomial.legendre.leggauss(4)
    xi, weights = (x + 1) / 2, weights * length / 2
    K, M = np.zeros((12, 12)), np.zeros((12, 12))
    linear, slope = np.stack([1 - xi, xi]), np.array([[-1.0], [1.0]]) / length * np.ones_like(xi)
    for at, stiffness, density in (
        ([0, 6], section.axial_stiffness, section.mass_per_length),
        ([3, 9], section.torsional_stiffness, section.polar_inertia),
    ):
        K[np.ix_(at, at)] += stiffness * (slope * weights) @ slope.T
        M[np.ix_(at, at)] += density * (linear * weights) @ linear.T
    for number, at in enumerate(PLANES):
        EI, GA = section.bending_stiffness[number], _shear(section, number)
        w, dw, turn, dturn = _fields_in_plane(xi, length, section, number)
        K[np.ix_(at, at)] += EI * (dturn * weights) @ dturn.T
        if GA is not None:
            K[np.ix_(at, at)] += GA * ((dw - turn) * weights) @ (dw - turn).T
        M[np.ix_(at, at)] += section.mass_per_length * (w * weights) @ w.T
        M[np.ix_(at, at)] += section.rotary_inertia[number] * (turn * weights) @ turn.T
    return K, M


def shortening_of_element(length: float, section: Section) -> tuple[Array, Array]:
    """d (12,) and G (12, 12) of an element along its own x, as in :class:`Strut`."""
    x, weights = np.polynomial.legendre.leggauss(4)
    d, G = np.zeros(12), np.zeros((12, 12))
    d[[0, 6]] = -1.0, 1.0
    for number, at in enumerate(PLANES):
        _, dw, _, _ = _fields_in_plane((x + 1) / 2, length, section, number)
        G[np.ix_(at, at)] += (dw * weights * length / 2) @ dw.T
    return d, G


PLANES = ([1, 5, 7, 11], [2, 4, 8, 10])
"""Displacements and turns of both ends of an element that bends along y, and along z."""


def _shear(section: Section, number: int) -> float | None:
    return None if section.shear_stiffness is None else section.shear_stiffness[number]


def _fields_in_plane(xi: Array, length: float, section: Section, number: int) -> tuple[Array, Array, Array, Array]:
    """w, w', θ, θ' (4, points) of unit displacements and turns of the ends."""
    GA = _shear(section, number)
    soft = 0.0 if GA is None else 12 * section.bending_stiffness[number] / (GA * length**2)
    # a slope dz/dx is a turn about −y
    flip = np.array([[1.0], [-1.0 if number else 1.0]] * 2)
    w, dw, turn, dturn = (own * flip for own in _bending_fields(xi, length, soft))
    return w, dw, turn, dturn


def _bending_fields(xi: Array, length: float, soft: float) -> tuple[Array, Array, Array, Array]:
    """w, w', θ, θ' (4, points) of unit end displacements and slopes; ``soft`` = 12 EI / (kGA l²)."""
    s, c = xi, 1 / (1 + soft)
    one = np.ones_like(s)
    w = c * np.stack(
        [
            1 - 3 * s**2 + 2 * s**3 + soft * (1 - s),
            length * (s - 2 * s**2 + s**3 + soft / 2 * (s - s**2)),
            3 * s**2 - 2 * s**3 + soft * s,
            length * (-(s**2) + s**3 - soft / 2 * (s - s**2)),
        ]
    )
    dw = (c / length) * np.stack(
        [
            -6 * s + 6 * s**2 - soft * one,
            length * (1 - 4 * s + 3 * s**2 + soft / 2 * (1 - 2 * s)),
            6 * s - 6 * s**2 + soft * one,
            length * (-2 * s + 3 * s**2 - soft / 2 * (1 - 2 * s)),
        ]
    )
    bow = 6 / length * (s**2 - s)
    turn = c * np.stack([bow, 1 - 4 * s + 3 * s**2 + soft * (1 - s), -bow, -2 * s + 3 * s**2 + soft * s])
    dbow = 6 / length * (2 * s - 1)
    dturn = (c / length) * np.stack([dbow, -4 + 6 * s - soft * one, -dbow, -2 + 6 * s + soft * one])
    return w, dw, turn, dturn
