"""Why constrained dynamics has no answer at a state: a joint without inertia, rows that depend on each other, or a
massless motion that nothing stops; in names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from whippletree.constraints.clusters.clustered_mechanism import UnrolledClusters, rows, still_links
from whippletree.constraints.clusters.loop_clusters import cluster_tree
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.dynamics import DEPENDENT, PRESCRIBED, UNMOVED
from whippletree.constraints.routes import PIVOT_TOLERANCE, RANK_TOLERANCE
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.constraints.singular.motions import FreeDirection, massless_motions, sparsest
from whippletree.errors import SingularSystemError
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism, singular_motion
from whippletree.tree.skeleton import Skeleton


def failure(tree: Skeleton, number: int, state: Mapping[str, Any]) -> SingularSystemError:
    """The error for a doubt that turned out to be justified: a joint without inertia, or the block matrix.

    ``state`` holds the inputs of the function that failed; where q is among them, the motion is named.
    """
    model = tree.model
    if number < len(tree.nodes):
        return _needs_inertia(tree, number) if model.constraints else singular_motion(tree, number)
    if number - len(tree.nodes) == DEPENDENT:
        if word := _unsuitable_metric(state):
            return SingularSystemError(
                f"model {model.name!r}: {word} must be positive{' definite' * (word == 'metric')}, or nothing says how "
                f"motors share a load: give newtons and newton metres a price each"
            )
        loops = dependent_loops(tree, state)
        named = f", in the loops of {', '.join(map(repr, loops))}" if loops else ""
        return SingularSystemError(
            f"model {model.name!r}: constraint rows depend on each other at this configuration (a dead point, or "
            f"constraints that are switched on together){named}: a factorisation without pivoting cannot continue. "
            f"wt.reference follows the branch that the velocity points along; wt.diagnose(model, q) names the rows."
        )
    if number - len(tree.nodes) == PRESCRIBED:
        return SingularSystemError(
            f"model {model.name!r}: the accelerations that were given contradict the constraints, or leave rows that "
            f"no other joint can meet at this configuration (more joints are prescribed than the loops have freedoms, "
            f"or a dead point of the prescribed ones). Give fewer accelerations: wt.diagnose(model, q) counts the "
            f"freedoms; wt.reference accepts accelerations that agree with the rows."
        )
    if number - len(tree.nodes) == UNMOVED:
        return SingularSystemError(
            f"model {model.name!r}: no motion leads along some combination of the task's rows at this configuration "
            f"(an arm that is stretched, for example), so the inertia is infinite there. Use "
            f"operational_inertia_inverse, which always exists, or name fewer rows."
        )
    motions = massless_motions_at(tree, state) if "q" in state else []
    named = "; ".join(motion.words(model) for motion in motions)
    subject = f"the motion of {named}" if named else "some motion that the constraints allow"
    return SingularSystemError(
        f"model {model.name!r}: {subject} has no inertia and no constraint stops it (condition (32) of "
        f"000), so its acceleration is not determined. Give it mass, add the constraint that carries it, hold the "
        f'joint (massless="hold"), or give it a damper or spring and relax it (massless="relax").'
    )


def dependent_loops(tree: Skeleton, state: Mapping[str, Any]) -> list[str]:
    """The constraints of those clusters of loops whose rows depend on each other at one state of plain numbers; none
    where loops do not fall into clusters, or where constraints are switched."""
    system = constraint_set(tree.model)
    clusters = cluster_tree(system)
    if "q" not in state or system.switches or clusters is None:
        return []
    m = Mechanism(tree)
    at = UnrolledClusters(m, system, clusters, {})
    q = np.asarray(state["q"]).astype(object)
    found: list[str] = []
    for c, own in zip(clusters.clusters, rows(at, still_links(at, q), q, None, state.get("t", 0)), strict=True):
        if c.kept:
            rigid = [i for i, soft in enumerate(own.kind.compliance) if not soft]
            A = own.jacobian().astype(float)[rigid]
            A = A / np.sqrt(np.array(own.kind.squares)[rigid])[:, None]
            if np.linalg.matrix_rank(A, tol=FAINT_ROWS) < len(A):
                found += [system.demands[i].constraint.name for i in c.demands]
    return list(dict.fromkeys(found))


FAINT_ROWS = 2.0 * PIVOT_TOLERANCE**0.5
"""Singular value of rows of usual size one up to which a message names them as dependent; pivots are squares."""


def _unsuitable_metric(state: Mapping[str, Any]) -> str:
    """The name of an input that says how forces are shared, and cannot."""
    for word in ("costs", "contact_costs"):
        if word in state and not np.all(np.asarray(state[word], dtype=float) > 0):
            return word
    if "metric" in state and not np.linalg.eigvalsh(np.asarray(state["metric"], dtype=float))[0] > 0:
        return "metric"
    return ""


def _needs_inertia(tree: Skeleton, node: int) -> SingularSystemError:
    """The error for a joint without inertia of its own, where M⁻¹ was needed and the constraints could not help."""
    joint = tree.joints[node]
    return SingularSystemError(
        f"model {tree.model.name!r}: the motion of {joint.child!r} about joint {joint.name!r} has no inertia without "
        f"the constraints, and this function applies M⁻¹ (so does every sweep over more than {LONG_SYSTEM} "
        f"velocities). Give {joint.child!r} mass, or use forward_dynamics of wt.reference, which needs condition (32) "
        f"only."
    )


def massless_motions_at(tree: Skeleton, state: Mapping[str, Any]) -> list[FreeDirection]:
    """The motions that every active row allows and that have no inertia, at one state of plain numbers."""
    m = Mechanism(tree)
    q = np.asarray(state["q"]).astype(object)
    links = m.still(q)
    M = inertia.mass_matrix(tree, m.sweep, links).astype(float)
    A = np.zeros((0, tree.model.nv))
    if tree.model.constraints:
        system = constraint_set(tree.model)
        A = system.matrix(m, links, q, state.get("t", 0))
        mask = system.mask(state.get("active"))
        on = [i for i, c in enumerate(system.compliance) if not c and (mask is None or mask[i])]
        A = A[on]
    return sparsest(massless_motions(M, A, RANK_TOLERANCE), tree.model)
