"""Whether every motion of a model has inertia in a time step, so that its mass matrix can be factored there."""

from __future__ import annotations

import numpy as np

from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.implicit_springs import implicit_links
from whippletree.model import Model
from whippletree.model.frozen import found_once
from whippletree.tree import inertia
from whippletree.tree.forward import articulate
from whippletree.tree.links import joint_zeros
from whippletree.tree.mechanism import Mechanism

USUAL_STEP, NO_SHARE_OF_INERTIA = 1e-3, 1e-13
"""Step (s) at which dampers and springs give inertia, and the share of the largest below which there is none."""


@found_once
def has_inertia(model: Model) -> bool:
    """Whether every motion has inertia at home, a damper or spring in its stead, or a constraint that stops it.

    Elsewhere a pivot that is not positive makes a step NaN, which is no answer.
    """
    m = Mechanism.of(model)
    if not m.tree.doubtful:
        return True
    q = np.asarray(model.home.q).astype(object)
    links = implicit_links(m, m.still(q), USUAL_STEP)
    M = inertia.mass_matrix(m.tree, m.sweep, links).astype(float)
    if model.constraints:
        A = constraint_set(model).matrix(m, links, q)
        M = M + np.trace(M) / max(np.sum(A * A), 1.0) * A.T @ A
    sizes = np.linalg.eigvalsh(M)
    return bool(sizes[0] > NO_SHARE_OF_INERTIA * sizes[-1])


@found_once
def pivots_have_inertia(model: Model) -> bool:
    """Whether every motion of a long tree has inertia at home, or a damper or spring in its stead.

    Its steps are loops, in which constraints cannot stand in for inertia. What is asked for are the inertias of the
    joints with all that they carry, the rest free to follow: M itself would take its square.
    """
    m = Mechanism.of(model)
    if not m.tree.doubtful:
        return True
    links = implicit_links(m, m.still(np.asarray(model.home.q).astype(object)), USUAL_STEP)
    freedoms = articulate(m.sweep, links, joint_zeros(m.sweep, links))
    pivots = [float(pivot) for freedom in freedoms for pivot in freedom.pivots]
    return min(pivots) > NO_SHARE_OF_INERTIA * max(pivots)
