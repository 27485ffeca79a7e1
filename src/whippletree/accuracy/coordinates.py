"""One mechanism in relative and in absolute joint angles: conditioning is a matter of coordinates too (004 §3).

A joint's relative velocity v is what it adds to its parent's; its absolute one u is what an observer in the world
sees of hinges with parallel axes: v(k) = u(k) − u(parent), v = T u, and the mass matrix becomes Tᵀ M T. For hinges
whose axes are not parallel u is still a set of independent velocities, though of no simple meaning. A straight chain
of n rods has κ of order n⁴ in relative angles and n² in absolute ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.accuracy.measures import Measures, measures
from whippletree.arithmetic.arrays import Array
from whippletree.errors import ShapeError
from whippletree.model import Model
from whippletree.model.input_checks import floats, shape_message
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton


class Comparison(NamedTuple):
    """Comparison of coordinates at one configuration."""

    relative: Measures
    absolute: Measures
    T: Array
    """v = T u, (nv, nv)."""

    def __str__(self) -> str:
        return "\n".join(
            f"{name} joint angles: κ₂ {float(m.kappa):.4g}, equilibrated {float(m.kappa_equilibrated):.4g}, "
            f"δ {float(m.diagonal_ratio):.4g}"
            for name, m in (("relative", self.relative), ("absolute", self.absolute))
        )


def compare_coordinates(model: Model, q: Any = None) -> Comparison:
    """The tree's mass matrix at q (nq,), default the model's home, in relative and in absolute joint angles."""
    at = floats("compare_coordinates", "q", model.home.q if q is None else q)
    if at.shape != (model.nq,):
        raise ShapeError(shape_message("compare_coordinates", "q", at.shape, (model.nq,), model))
    m = Mechanism.of(model)
    T = from_absolute(m.tree)
    if not np.all(np.isfinite(at)):
        return Comparison(Measures.not_finite(), Measures.not_finite(), T)
    M = inertia.mass_matrix(m.tree, m.sweep, m.still(at.astype(object))).astype(float)
    return Comparison(measures(M), measures(T.T @ M @ T), T)


def from_absolute(tree: Skeleton) -> Array:
    """T (nv, nv) with v = T u: a hinge behind a hinge counts from the world, others from their parent."""
    T = np.eye(tree.model.nv)
    for k, parent in enumerate(tree.parents):
        if parent >= 0 and tree.joints[k].kind == "revolute" and tree.joints[parent].kind == "revolute":
            T[tree.v_slices[k].start, tree.v_slices[parent].start] = -1.0
    return T
