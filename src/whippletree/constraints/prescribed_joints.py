"""Hybrid dynamics and operational-space inertia under constraints.

*Hybrid dynamics*: some joints (p) are given their accelerations, the others (u) their forces. What is left is the block
matrix of the others, whose rows feel the given accelerations as a bias:

    M_uu a_u + c_u + M_up a_p = τ_u + A_uᵀ f        A_u a_u + (γ + A_p a_p) = −C f        τ_p = M_p a + c_p − A_pᵀ f

So condition (32) is asked of the motions of the others alone: a massless joint may be prescribed, and where rows feel
none but prescribed joints, or more accelerations are given than the mechanism has freedoms, no answer exists. Where
loops are embedded the same is said of each cluster (:mod:`whippletree.constraints.clusters.prescribed_clusters`).

*Operational-space inertia*: Λ⁻¹ = J M† Jᵀ of any rows of several frames, by right-hand sides Jᵀ of the one factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.constraints import kkt
from whippletree.constraints.clusters import prescribed_clusters
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.dynamics import (
    MASSLESS,
    PRESCRIBED,
    UNMOVED,
    bias_forces,
    closed,
    clusters_and_rows,
    row_terms,
)
from whippletree.constraints.route_choice import by_clusters
from whippletree.constraints.routes import MASSLESS_TOLERANCE, PIVOT_TOLERANCE, RowTerms, factor_block
from whippletree.constraints.singular.exploration import LONG_SYSTEM, STRUCTURE_TOLERANCE
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.tree import inertia, kinematics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field


def hybrid_dynamics(
    m: Mechanism, joints: Sequence[str], q: Array, v: Array, given: Array, t: Any, active: Array | None
) -> tuple[Array, Array]:
    """(a, tau), each (nv,), where ``given`` holds accelerations for the named joints and forces for all others."""
    if by_clusters(m):
        nodes = m.tree.nodes_of(joints)
        return prescribed_clusters.hybrid_dynamics(*clusters_and_rows(m, active), nodes, q, v, given, t, m.base)
    model = m.tree.model
    fixed = sorted(i for name in joints for i in range(model.slice(name).start, model.slice(name).stop))
    others = [i for i in range(model.nv) if i not in set(fixed)]
    system = constraint_set(model)
    links = m.moving(q, v)
    rows = system.rows(m, links, q, v, t)
    # all rows where ranks are revealed: some that are redundant elsewhere may not be where others depend on each other
    kept = list(range(len(system.row_names)) if m.route == "nullspace" else system.structure.independent)
    terms = row_terms(system, active, kept)
    A, gamma = terms.mask_rows(rows.jacobian()[kept]), terms.mask_rows(rows.bias()[kept])
    M, c = inertia.mass_matrix(m.tree, m.sweep, links), bias_forces(m, links)
    felt = gamma + A[:, fixed] @ given[fixed]
    load = given[others] - c[others] - M[np.ix_(others, fixed)] @ given[fixed]
    a_u, f = _solve_others(m, M[np.ix_(others, others)], A[:, others], terms, others, load, felt)
    a, tau = zeros(model.nv), zeros(model.nv)
    a[fixed], a[others] = given[fixed], a_u
    tau[others] = given[others]
    tau[fixed] = (M @ a + c - A.T @ f)[fixed]
    if m.route == "nullspace":
        _require_agreement(m, A, gamma, terms, a, f)
    return a, tau


def _solve_others(
    m: Mechanism, M: Array, A: Array, terms: RowTerms, others: list[int], load: Array, gamma: Array
) -> kkt.Solution:
    """The block matrix of the joints whose forces are given."""
    route = m.route if m.route in ("nullspace", "block") else "augmented"
    number = {i: k for k, i in enumerate(others)}
    order = [number[i] for i in constraint_set(m.tree.model).elimination if i in number]
    factor = factor_block(route, M, A, terms, parents=[], order=order, doubtful=True)
    tolerance = MASSLESS_TOLERANCE if route == "nullspace" else PIVOT_TOLERANCE
    ways = {kkt.ROWS: PRESCRIBED, kkt.MASS: MASSLESS}
    for kind, margin in factor.margins(tolerance):
        m.require(len(m.tree.nodes) + ways[kind], [margin])
    return factor.solve(load, gamma)


def _require_agreement(m: Mechanism, A: Array, gamma: Array, terms: RowTerms, a: Array, f: Array) -> None:
    """Rows must be met although prescribed joints leave some of them without a joint that could meet them."""
    for row, bias, compliance, force in zip(A, gamma, terms.compliance, f, strict=True):
        m.require(len(m.tree.nodes) + PRESCRIBED, [prescribed_clusters.agreement(row, a, bias, compliance * force)])


# --- operational space ------------------------------------------------------------------------------------------------

ROWS = ("rx", "ry", "rz", "x", "y", "z")
"""Rows of a frame, in its own axes: rotations first."""

PARTS = {"rotation": ROWS[:3], "position": ROWS[3:]}


def task_rows(m: Mechanism, task: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Frames and their rows: ``tool`` has all six, ``tool.position``, ``tool.rotation``, ``tool.x``, … some of them.

    Raises:
        NameLookupError: there is no such frame.
        ShapeError: no frame is named.
    """
    if not task:
        raise ShapeError("operational inertia: the task names no frame; name one, several, or rows of them: 'tool.x'")
    found = []
    for name in task:
        head, dot, tail = name.rpartition(".")
        own = PARTS.get(tail, (tail,) if tail in ROWS else ())
        if dot and own and not _is_frame(m, name):
            found.append((head, [ROWS.index(row) for row in own]))
        else:
            found.append((name, list(range(6))))
        m.tree.model.frame(found[-1][0])
    return found


def _is_frame(m: Mechanism, name: str) -> bool:
    model = m.tree.model
    return name in {frame.name for frame in model.frames} | {body.name for body in model.bodies}


def operational_inverse(m: Mechanism, task: Sequence[str], q: Array, t: Any, active: Array | None) -> Array:
    """J M† Jᵀ (r, r) of the rows of a task; without constraints J M⁻¹ Jᵀ."""
    chosen = task_rows(m, task)
    links = m.still(q)
    if not m.tree.model.constraints:
        m.require_invertible(links)
        rows = [6 * k + i for k, (_, own) in enumerate(chosen) for i in own]
        places = [m.place(frame) for frame, _ in chosen]
        return inertia.operational_inverse(m.tree, m.sweep, links, places)[np.ix_(rows, rows)]
    J = np.concatenate([kinematics.jacobian(m.tree, links, m.place(frame))[own] for frame, own in chosen])
    at = closed(m, links, q, None, t, active)
    return np.asarray(J @ at.factor.solve(J.T, zeros(len(at.kept), len(J))).a)


def operational_inertia(m: Mechanism, task: Sequence[str], q: Array, t: Any, active: Array | None) -> Array:
    """(J M† Jᵀ)⁻¹ (r, r): the inertia that is felt along the rows of a task.

    Raises:
        UnsupportedError: if fewer freedoms than rows move the frames.
    """
    require_movable_task(m, task_rows(m, task))
    inverse = operational_inverse(m, task, q, t, active)
    factor = linalg.ldlt(inverse, lenient=True)
    m.require(len(m.tree.nodes) + UNMOVED, factor.pivots - PIVOT_TOLERANCE * inverse.diagonal())
    return factor.solve(identity(len(inverse)))


def require_movable_task(m: Mechanism, chosen: Sequence[tuple[str, list[int]]]) -> None:
    """Refuse the inertia of a task that fewer freedoms than rows move: it is infinite in some direction.

    Raises:
        UnsupportedError: with the number of freedoms.
    """
    count, freedoms = sum(len(own) for _, own in chosen), _task_freedoms(m, chosen)
    if freedoms < count:
        subject = "this frame" if len(chosen) == 1 else "these frames"
        raise UnsupportedError(
            f"operational_inertia: only {freedoms} of {count} freedoms move {subject} of model "
            f"{m.tree.model.name!r}, so its inertia is infinite in some direction. Use operational_inertia_inverse, "
            f"which always exists, or name fewer rows."
        )


def _task_freedoms(m: Mechanism, chosen: Sequence[tuple[str, list[int]]]) -> int:
    """How many rows of a task can move independently of each other, at a configuration with nothing special about it.

    Of long mechanisms, and where constraints are switched or compliant, only the freedoms of the joints are counted.
    """
    model = m.tree.model
    moving = {k for frame, _ in chosen for k in m.tree.path(m.place(frame).node)}
    freedoms = sum(m.tree.nodes[k].joint.nv for k in moving)
    system = constraint_set(model)
    if system.switches or any(system.compliance):
        return freedoms
    if model.constraints:
        freedoms = min(freedoms, system.structure.mobility)
    if model.nv > LONG_SYSTEM or not freedoms:
        return freedoms
    plain = Mechanism.of(model)
    q = system.structure.configuration.astype(object)
    links = plain.still(q)
    found = []
    for part in PARTS.values():
        # turns and shifts have sizes of their own
        J = np.concatenate([_rows_of(plain, links, frame, own, part) for frame, own in chosen]).astype(float)
        found.append(J / max(np.abs(J).max(initial=0.0), np.finfo(float).tiny))
    A = system.matrix(plain, links, q)[list(system.structure.independent)]
    _, _, Vt = np.linalg.svd(A, full_matrices=True)
    return int(np.linalg.matrix_rank(np.concatenate(found) @ Vt[len(A) :].T, tol=STRUCTURE_TOLERANCE))


def _rows_of(m: Mechanism, links: Field, frame: str, own: Sequence[int], part: Sequence[str]) -> Array:
    """The rows of a frame's Jacobian that belong to a task and to a part of the frame."""
    rows = [i for i in own if ROWS[i] in part]
    return kinematics.jacobian(m.tree, links, m.place(frame))[rows]
