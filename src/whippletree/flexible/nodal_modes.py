"""Flexible bodies from modes at points: what a modal test or another program's eigenvalue analysis gives.

The integrals over a body's mass are sums over its samples:

    ∫ f dm = Σ wₖ f(sₖ)        w the masses of the samples

The samples of a beam are Gauss points (exact for its polynomial modes), those of a lumped model its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame, default_names, frozen_integrals
from whippletree.model.frozen import frozen_array, pose_matrix
from whippletree.spatial.modal import ModalIntegrals

NORMAL_TOLERANCE = 1e-3
"""How far ∫ φᵢᵀ φⱼ of modes with frequencies may be from 1 on, and 0 off, its diagonal: modes come with four digits."""


def from_modes(
    points: Any,
    masses: Any,
    shapes: Any,
    *,
    frequencies: Any = None,
    stiffness: Any = None,
    slopes: Any = None,
    inertias: Any = None,
    damping_ratio: float = 0.0,
    frames: Mapping[str, int] | None = None,
    names: Sequence[str] | None = None,
    shortening: Any = None,
) -> FlexibleBody:
    """A flexible body from masses at points and mode shapes there.

    Args:
        points: m, (p, 3).
        masses: kg, (p,).
        shapes: displacements, (n, p, 3).
        frequencies: Hz, (n,), of modes that are mass-normalised, Σ m φᵢᵀφⱼ = 1 or 0; or
        stiffness: N/m, (n, n), of any shapes.
        slopes: rotations of the points, rad/m, (n, p, 3); none if None.
        inertias: of the points about themselves, kg m², (p, 3, 3); none if None.
        damping_ratio: of every mode, 1 is critical.
        frames: name -> number of a point.
        names: of the modes.
        shortening: second-order displacements, 1/m, (n, n, p, 3); None without geometric stiffening.

    Raises:
        ModelError: with everything that is wrong.
    """
    phi = _array(shapes)
    if phi.ndim != 3:
        raise ModelError("from_modes", [f"shapes has shape {phi.shape}, expected (modes, points, 3)"])
    n, p = phi.shape[:2]
    psi = np.zeros_like(phi) if slopes is None else _array(slopes)
    I = np.zeros((p, 3, 3), dtype=int) if inertias is None else _array(inertias)
    bend = None if shortening is None else _array(shortening)
    faults = _faults(phi, points, masses, psi, I, bend, frequencies, stiffness, frames or {})
    if faults:
        raise ModelError("from_modes", faults)
    integrals = integrate_samples(Samples(_array(points), _array(masses), phi, psi, I, bend))
    M = integrals.modal_mass
    K = _stiffness_of_frequencies(frequencies, M) if stiffness is None else _array(stiffness)
    damping = modal_damping(M.astype(float), K.astype(float), damping_ratio) if damping_ratio else K * 0
    made = [
        FlexibleFrame.of(
            name, pose_matrix(_array(points)[k]), phi[:, k], psi[:, k], None if bend is None else bend[:, :, k]
        )
        for name, k in (frames or {}).items()
    ]
    drawn = np.swapaxes(phi, 0, 1)
    return FlexibleBody(
        frozen_integrals(integrals),
        frozen_array(K, (n, n)),
        frozen_array(damping, (n, n)),
        tuple(made),
        default_names(n) if names is None else tuple(names),
        frozen_array(points, (p, 3)),
        frozen_array(drawn, drawn.shape),
    )


def _stiffness_of_frequencies(frequencies: Any, M: Array) -> Array:
    """K (n, n) of mass-normalised modes, whose frequencies are in Hz; refused where M (n, n) is not 1."""
    off = np.abs(M.astype(float) - np.eye(len(M)))
    if off.max(initial=0.0) > NORMAL_TOLERANCE:
        i, j = np.unravel_index(int(off.argmax()), off.shape)
        fault = (
            f"the modes are not mass-normalised: Σ m φᵀφ of modes {i + 1} and {j + 1} is {float(M[i, j]):.6g}, "
            f"expected {int(i == j)}. Divide each mode by the root of its modal mass, or give stiffness= instead of "
            f"frequencies="
        )
        raise ModelError("from_modes", [fault])
    return np.diag((2 * np.pi * np.asarray(frequencies, dtype=float)) ** 2)


def _faults(
    phi: Array, points: Any, masses: Any, psi: Array, I: Array, bend: Array | None, frequencies: Any, stiffness: Any,
    frames: Mapping[str, int],
) -> list[str]:  # fmt: skip
    n, p = phi.shape[:2]
    expected = {
        "points": (points, (p, 3)), "masses": (masses, (p,)), "shapes": (phi, (n, p, 3)), "slopes": (psi, (n, p, 3)),
        "inertias": (I, (p, 3, 3)),
    }  # fmt: skip
    if bend is not None:
        expected["shortening"] = (bend, (n, n, p, 3))
    if stiffness is not None:
        expected["stiffness"] = (stiffness, (n, n))
    if frequencies is not None:
        expected["frequencies"] = (frequencies, (n,))
    faults = []
    for word, (value, shape) in expected.items():
        if np.shape(value) != shape:
            faults.append(f"{word} has shape {np.shape(value)}, expected {shape}")
        elif not np.all(np.isfinite(_array(value).astype(float))):
            faults.append(f"{word} holds a number that is not finite")
    if (frequencies is None) == (stiffness is None):
        faults.append("give either frequencies (of mass-normalised modes) or stiffness")
    for name, k in frames.items():
        if not isinstance(k, (int, np.integer)) or not 0 <= k < p:
            faults.append(f"frame {name!r} is at point {k!r}, which is not there: points have the numbers 0 … {p - 1}")
    if not faults and not np.all(_array(masses).astype(float) >= 0):
        faults.append(f"masses[{int(np.argmin(_array(masses).astype(float)))}] is negative")
    return faults


def _array(values: Any) -> Array:
    return np.asarray(values)


def modal_damping(M: Array, K: Array, ratio: float) -> Array:
    """D (n, n) that damps every mode of M and K with the same ratio; 1 is critical."""
    if not ratio:
        return np.zeros_like(K)
    if np.array_equal(M, np.eye(len(M))) and np.array_equal(K, np.diag(np.diag(K))):
        return np.diag(2 * ratio * np.sqrt(np.diag(K)))
    L = np.linalg.cholesky(M)
    inverse = np.linalg.inv(L)
    squares, U = np.linalg.eigh(inverse @ K @ inverse.T)
    return np.asarray(2 * ratio * L @ (U * np.sqrt(np.maximum(squares, 0.0))) @ U.T @ L.T)


# --- from sampled modes to the integrals over a body's mass -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Samples:
    """A body with n modes at p points."""

    positions: Array
    """s, m, (p, 3)."""
    masses: Array
    """kg, (p,)."""
    shapes: Array
    """φ, (n, p, 3)."""
    slopes: Array
    """ψ, rad/m, (n, p, 3)."""
    inertias: Array
    """dI of each sample about itself, kg m², (p, 3, 3)."""
    shortening: Array | None = None
    """g, 1/m, (n, n, p, 3)."""


def integrate_samples(samples: Samples) -> ModalIntegrals:
    """The integrals of a sampled body; numbers of any scalar type."""
    s, m, phi, psi, I = samples.positions, samples.masses, samples.shapes, samples.slopes, samples.inertias
    weighted = s * m[:, None]
    turned = _sum("pab,npb->npa", I, psi)
    g = samples.shortening
    return ModalIntegrals(
        mass=m.sum(),
        first=weighted.sum(axis=0),
        second=_sum("pa,pb->ab", weighted, s),
        shapes=_sum("p,npa->na", m, phi),
        position_shapes=_sum("pa,npb->nab", weighted, phi),
        shape_products=_sum("ipa,jpb->ijab", phi * m[None, :, None], phi),
        rotary=I.sum(axis=0),
        rotary_shapes=turned.sum(axis=1),
        rotary_products=_sum("ipa,jpa->ij", psi, turned),
        shortening=None if g is None else _sum("p,ijpa->ija", m, g),
        position_shortening=None if g is None else _sum("pa,ijpb->ijab", weighted, g),
    )


def _sum(spelling: str, *arrays: Any) -> Array:
    """A sum of products, also of exact numbers."""
    return np.asarray(np.einsum(spelling, *arrays, optimize=False))
