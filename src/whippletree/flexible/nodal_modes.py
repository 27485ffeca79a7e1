"""Flexible bodies from modes at points: what a modal test or another program's eigenvalue analysis gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError
from whippletree.flexible.beams import modal_damping
from whippletree.flexible.integrals import Samples, integrate_samples
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame, default_names, frozen_integrals
from whippletree.model.frozen import frozen_array, pose_matrix

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
    if stiffness is None:
        off = np.abs(M.astype(float) - np.eye(n))
        if off.max(initial=0.0) > NORMAL_TOLERANCE:
            i, j = np.unravel_index(int(off.argmax()), off.shape)
            raise ModelError(
                "from_modes",
                [
                    f"the modes are not mass-normalised: Σ m φᵀφ of modes {i + 1} and {j + 1} is {float(M[i, j]):.6g}, "
                    f"expected {int(i == j)}. Divide each mode by the root of its modal mass, or give stiffness= "
                    f"instead of frequencies="
                ],
            )
        stiffness = np.diag((2 * np.pi * np.asarray(frequencies, dtype=float)) ** 2)
    K = _array(stiffness)
    damping = modal_damping(M.astype(float), K.astype(float), damping_ratio) if damping_ratio else K * 0
    made = [
        FlexibleFrame(
            name, pose_matrix(_array(points)[k]), frozen_array(phi[:, k], (n, 3)), frozen_array(psi[:, k], (n, 3)),
            None if bend is None else frozen_array(bend[:, :, k], (n, n, 3)),
        )
        for name, k in (frames or {}).items()
    ]  # fmt: skip
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
