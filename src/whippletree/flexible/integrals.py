"""From sampled modes to the integrals of a flexible body: a quadrature, a cloud of point masses, or finite elements.

    ∫ f dm = Σ wₖ f(sₖ)        w the masses of the samples

The samples of a beam are Gauss points (exact for its polynomial modes), those of a lumped model its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.spatial.modal import ModalIntegrals


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
