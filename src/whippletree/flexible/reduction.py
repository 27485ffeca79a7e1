"""From finite elements to a few modes: Craig and Bampton's reduction of sparse K and M with interface frames.

With the freedoms b of the interfaces and i inside,

    u = [1; −Kᵢᵢ⁻¹ Kᵢᵦ] u_b + [0; Φ] p        Φ: the lowest modes with the interfaces held

Interfaces move rigidly (one node with rotations, or several nodes). With a *root* one of them is the reference frame
and held: clamped modes. Without, the reduced body is free, its six rigid motions are taken out and the frame is that of
its mean axes. In both cases the reduced matrices are made diagonal, M = 1 and K = diag(ω²), which spans the same
motions. Mass, its moments, ∫ φ, ∫ s × φ and ∫ φᵢᵀ φⱼ are those of the mass matrix itself, rotary terms included; what
remains (the symmetric part of ∫ s φᵀ, and ∫ φᵢ φⱼᵀ, which change the inertia as the body bends) is summed up over
masses lumped at the nodes, in proportion to the diagonal of M.

Geometric stiffening: bending makes element e shorter by −½ uᵀ Gₑ u, which stretches it unless its ends follow. Where
they may they do, to second order in η, u = Σ φᵢ ηᵢ + ½ Σ gᵢⱼ ηᵢ ηⱼ with

    K gᵢⱼ + Σₑ dₑ (EA/l)ₑ φᵢᵀ Gₑ φⱼ = 0

so that loads along the shortening do the work that a geometric stiffness matrix would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError
from whippletree.flexible.finite_elements import NodalModel
from whippletree.flexible.nodal_modes import modal_damping
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame, default_names, frozen_integrals
from whippletree.model.frozen import frozen_array, pose_matrix
from whippletree.spatial.modal import ModalIntegrals

DENSE_MODES_UP_TO = 400
"""Freedoms inside up to which their modes are found by a dense solver."""

RIGID_SQUARE = 1e-7
"""Share of the first elastic ω² below which a mode counts as rigid: rounding of a stiffness of ten digits."""


def craig_bampton(
    body: NodalModel,
    frames: Mapping[str, Any],
    *,
    root: str | None = None,
    modes: int = 6,
    damping_ratio: float = 0.0,
    stiffening: bool = False,
) -> FlexibleBody:
    """Reduce a body of finite elements to the motions of its frames and its lowest modes.

    Args:
        body: nodes and matrices.
        frames: name -> node, or several nodes that move as one; nodes by the names or numbers that ``body.names`` has.
        root: the frame that is the reference frame; None for a free body in its mean axes, whose reference frame is
            that of ``body.points``.
        modes: how many modes with held interfaces to keep.
        damping_ratio: of every mode of the reduced body, 1 is critical.
        stiffening: whether bending shortens the body (geometric stiffening); for bodies of ``frame_of_beams``.

    Raises:
        ModelError: frames that are not nodes, matrices that fit nothing, a body that its root does not hold, stiffening
            of a body that does not say how its elements shorten.
    """
    where = "craig_bampton"
    faults = [f"{where}: {fault}" for fault in body.faults()]
    if root is not None and root not in frames:
        faults.append(f"{where}: the root {root!r} is not one of the frames {', '.join(map(repr, frames))}")
    picked = {name: _nodes(body, name, given, faults) for name, given in frames.items()}
    if stiffening and not body.struts:
        faults.append(
            f"{where}: K and M alone do not say how bending shortens the body, so stiffening=True has nothing to begin "
            f"with. Make it with frame_of_beams, give the shortening to from_modes, or take a SID file with Geo_Stiff"
        )
    if faults:
        raise ModelError(where, faults)
    origin = np.zeros(3) if root is None else body.points[picked[root]].mean(axis=0)
    interfaces = {name: _interface(body, name, nodes) for name, nodes in picked.items()}
    basis = _basis(body, interfaces, root, modes)
    K, M = (basis.T @ (A @ basis) for A in (body.stiffness, body.mass))
    squares, vectors = scipy.linalg.eigh((K + K.T) / 2, (M + M.T) / 2)
    rigid = int(np.sum(squares < RIGID_SQUARE * squares[min(6, len(squares) - 1)]))
    expected = 6 if root is None else 0
    if rigid != expected:
        held = f"held at its root {root!r}" if root is not None else "free"
        raise ModelError(
            where,
            [
                f"the body, {held}, has {rigid} motions without stiffness, expected {expected}: parts that nothing "
                f"connects, a mechanism, or matrices with supports already built in"
            ],
        )
    shapes = basis @ vectors[:, rigid:]
    bends = _second_order(body, shapes, interfaces[root][0] if root is not None else None) if stiffening else None
    return nodal_body(body, shapes, squares[rigid:], picked, origin, damping_ratio, bends=bends)


def _second_order(body: NodalModel, shapes: Array, held: Array | None) -> Array:
    """g (freedoms, n, n): how nodes follow what bending shortens the elements by; without ``held`` freedoms, in mean
    axes."""
    count, n = shapes.shape
    right = np.zeros((count, n, n))
    for strut in body.struts:
        own = shapes[strut.freedoms]
        np.add.at(right, strut.freedoms, -strut.stiffness * np.multiply.outer(strut.d, own.T @ strut.G @ own))
    flat, K = right.reshape(count, n * n), sp.csc_matrix(body.stiffness)
    if held is not None:
        free = np.setdiff1d(np.arange(count), held)
        found = np.zeros_like(flat)
        found[free] = _factor(K[free][:, free].tocsc()).solve(flat[free])
        return found.reshape(count, n, n)
    rigid = _rigid_motions(body, body.points.mean(axis=0))
    momenta = sp.csc_matrix(body.mass @ rigid)
    block = sp.bmat([[K, momenta], [momenta.T, None]], format="csc")
    found = scipy.sparse.linalg.splu(block).solve(np.concatenate([flat, np.zeros((6, n * n))]))
    return np.asarray(found[:count].reshape(count, n, n))


def nodal_body(
    body: NodalModel,
    shapes: Array,
    squares: Array,
    frames: Mapping[str, Sequence[int]],
    origin: Array,
    damping_ratio: float = 0.0,
    names: Sequence[str] | None = None,
    bends: Array | None = None,
) -> FlexibleBody:
    """The flexible body of mass-normalised modes (freedoms, n) of a body of finite elements, with ω² (n,).

    ``bends``: second-order displacements (freedoms, n, n).
    """
    n = shapes.shape[1]
    pairs = None if bends is None else bends.reshape(-1, n * n)
    K = np.diag(squares)
    phi, psi = (np.stack([_components(body, shape)[half] for shape in shapes.T]) for half in (0, 1))
    made = []
    for name, nodes in frames.items():
        at = body.points[nodes].mean(axis=0)
        own_phi, own_psi = _mean_motion(body, nodes, phi, psi)
        bent = None
        if pairs is not None:
            fields = [_components(body, pair) for pair in pairs.T]
            moved, _ = _mean_motion(body, nodes, *(np.stack([f[half] for f in fields]) for half in (0, 1)))
            bent = moved.reshape(n, n, 3)
        made.append(FlexibleFrame.of(name, pose_matrix(at - origin), own_phi, own_psi, bent))
    integrals = _integrals(body, shapes, phi, origin)
    if pairs is not None:
        integrals = _with_shortening(body, integrals, pairs, origin)
    drawn = np.swapaxes(phi, 0, 1)
    return FlexibleBody(
        frozen_integrals(integrals),
        frozen_array(K, (n, n)),
        frozen_array(modal_damping(np.eye(n), K, damping_ratio), (n, n)),
        tuple(made),
        tuple(names) if names is not None else default_names(n),
        frozen_array(body.points - origin, body.points.shape),
        frozen_array(drawn, drawn.shape),
        body.edges,
    )


def _nodes(body: NodalModel, name: str, given: Any, faults: list[str]) -> list[int]:
    """Rows of ``points`` of a frame."""
    several = list(given) if isinstance(given, (list, tuple, set, np.ndarray)) else [given]
    known = body.names or {k: k for k in range(len(body.points))}
    missing = [x for x in several if x not in known]
    if missing or not several:
        shown = ", ".join(map(repr, missing[:5])) or "none"
        some = ", ".join(map(repr, list(known)[:8]))
        faults.append(f"frame {name!r} is at {shown}, which is no node of the body; nodes are {some}, …")
        return []
    return [known[x] for x in several]


def _interface(body: NodalModel, name: str, nodes: Sequence[int]) -> tuple[Array, Array]:
    """The freedoms of an interface, and how they follow its six rigid motions, (freedoms, 6)."""
    at = body.points[list(nodes)].mean(axis=0)
    own = np.flatnonzero(np.isin(body.freedoms[:, 0], list(nodes)))
    T = _rigid_motions(body, at)[own]
    if np.linalg.matrix_rank(T) < 6:
        raise ModelError(
            "craig_bampton",
            [
                f"frame {name!r} is one node, or several in a line, without rotations: its slope is not determined. "
                f"Give it three or more nodes that do not lie in a line"
            ],
        )
    return own, T


def _basis(body: NodalModel, interfaces: Mapping[str, tuple[Array, Array]], root: str | None, modes: int) -> Array:
    """Static modes of the interfaces and the lowest modes between them, (freedoms, …)."""
    held = np.concatenate([np.zeros(0, dtype=int), *[own for own, _ in interfaces.values()]]).astype(int)
    if len(set(held.tolist())) != len(held):
        pair = next((a, b) for a, b in combinations(interfaces, 2) if set(interfaces[a][0]) & set(interfaces[b][0]))
        names = " and ".join(map(repr, pair))
        raise ModelError("craig_bampton", [f"frames {names} share a node: make one frame of them"])
    inside = np.setdiff1d(np.arange(len(body.freedoms)), held)
    K, M = sp.csc_matrix(body.stiffness), sp.csc_matrix(body.mass)
    K_ii, M_ii = K[inside][:, inside].tocsc(), M[inside][:, inside].tocsc()
    factor = _factor(K_ii) if len(inside) and len(held) else None
    columns = []
    for name, (own, T) in interfaces.items():
        if name == root:
            continue
        part = np.zeros((len(body.freedoms), 6))
        part[own] = T
        if factor is not None:
            part[inside] = -factor.solve(np.asarray(K[inside][:, own] @ T))
        columns.append(part)
    count = min(modes + (0 if len(held) else 6), len(inside))
    if count:
        part = np.zeros((len(body.freedoms), count))
        part[inside] = _lowest_modes(K_ii, M_ii, count, free=not len(held))
        columns.append(part)
    if not columns:
        raise ModelError("craig_bampton", ["nothing is left to move: ask for modes, or for frames beside the root"])
    return np.concatenate(columns, axis=1)


def _factor(K: Any) -> Any:
    try:
        factor = scipy.sparse.linalg.splu(K)
    except RuntimeError:
        factor = None
    pivots = np.zeros(1) if factor is None else np.abs(factor.U.diagonal())
    if factor is None or pivots.min() <= 1e-14 * pivots.max():
        raise ModelError(
            "craig_bampton",
            [
                "the stiffness is singular with all frames held: some part is connected to nothing, or freedoms have "
                "no stiffness (rotations of solid elements). Leave them out, or hold more"
            ],
        )
    return factor


def _lowest_modes(K: Any, M: Any, count: int, free: bool) -> Array:
    size = K.shape[0]
    if size <= DENSE_MODES_UP_TO or count >= size - 1:
        return np.asarray(scipy.linalg.eigh(K.toarray(), M.toarray(), subset_by_index=(0, count - 1))[1])
    shift = -1e-3 * abs(K.diagonal()).min() / abs(M.diagonal()).max() if free else 0.0
    # a fixed start vector: the same modes in every run
    found = scipy.sparse.linalg.eigsh(K, count, M, sigma=shift, v0=np.ones(size))
    return np.asarray(found[1][:, np.argsort(found[0])])


def _components(body: NodalModel, field: Array) -> tuple[Array, Array]:
    """Displacements and rotations (nodes, 3) of a field on the freedoms."""
    full = np.zeros((len(body.points), 6))
    full[body.freedoms[:, 0], body.freedoms[:, 1]] = field
    return full[:, :3], full[:, 3:]


def _on_freedoms(body: NodalModel, displacements: Array, rotations: Array) -> Array:
    full = np.concatenate([displacements, rotations], axis=1)
    return np.asarray(full[body.freedoms[:, 0], body.freedoms[:, 1]])


def _rigid_motions(body: NodalModel, about: Array) -> Array:
    """(freedoms, 6): displacements along, and turns about, the axes through a point."""
    columns = []
    arms = body.points - about
    for e in np.eye(3):
        columns.append(_on_freedoms(body, np.tile(e, (len(arms), 1)), np.zeros_like(arms)))
    for e in np.eye(3):
        columns.append(_on_freedoms(body, np.cross(e, arms), np.tile(e, (len(arms), 1))))
    return np.stack(columns, axis=1)


def _mean_motion(body: NodalModel, nodes: Sequence[int], phi: Array, psi: Array) -> tuple[Array, Array]:
    """The rigid motion (n, 3), (n, 3) that fits the motion of some nodes best; that of a single node itself."""
    nodes = list(nodes)
    turning = set(body.freedoms[np.isin(body.freedoms[:, 0], nodes), 1].tolist()) >= {3, 4, 5}
    if len(nodes) == 1:
        return phi[:, nodes[0]], psi[:, nodes[0]]
    arms = body.points[nodes] - body.points[nodes].mean(axis=0)
    rows = [np.concatenate([np.eye(3), -_skew(arm)], axis=1) for arm in arms]
    values = [phi[:, k] for k in nodes]
    if turning:
        rows += [np.concatenate([np.zeros((3, 3)), np.eye(3)], axis=1)] * len(nodes)
        values += [psi[:, k] for k in nodes]
    found = np.linalg.lstsq(np.concatenate(rows), np.concatenate(values, axis=1).T, rcond=None)[0].T
    return found[:, :3], found[:, 3:]


def _skew(a: Array) -> Array:
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def lumped_masses(body: NodalModel) -> Array:
    """kg (nodes,): in proportion to the diagonal of M, with the mass of the body in all."""
    diagonal = body.mass.diagonal()
    moves = body.freedoms[:, 1] < 3
    found = np.zeros(len(body.points))
    np.add.at(found, body.freedoms[moves, 0], diagonal[moves] / 3)
    return np.asarray(found * (_total_mass(body) / found.sum()))


def _total_mass(body: NodalModel) -> float:
    T = _rigid_motions(body, np.zeros(3))[:, :3]
    return float(np.trace(T.T @ (body.mass @ T)) / 3)


def _with_shortening(body: NodalModel, integrals: ModalIntegrals, pairs: Array, origin: Array) -> ModalIntegrals:
    """The integrals with those of second-order displacements (freedoms, n²)."""
    n = integrals.modes
    rigid = _rigid_motions(body, origin)
    momenta = rigid.T @ (body.mass @ pairs)
    moved = np.stack([_components(body, pair)[0] for pair in pairs.T])
    return integrals._replace(
        shortening=momenta[:3].T.reshape(n, n, 3),
        position_shortening=_position_products(body, moved, momenta[3:].T, origin).reshape(n, n, 3, 3),
    )


def _position_products(body: NodalModel, fields: Array, moments: Array, origin: Array) -> Array:
    """∫ s fᵀ (k, 3, 3) of fields (k, nodes, 3): symmetric parts over lumped masses, ∫ s × f (k, 3) as it is given."""
    weighted = (body.points - origin) * lumped_masses(body)[:, None]
    lumped = np.einsum("pa,kpb->kab", weighted, fields)
    return np.asarray((lumped + np.swapaxes(lumped, 1, 2) + np.array([_skew(t) for t in -moments])) / 2)


def _integrals(body: NodalModel, shapes: Array, phi: Array, origin: Array) -> ModalIntegrals:
    """Integrals of first order by the mass matrix, of second order by lumped masses."""
    n = shapes.shape[1]
    rigid = _rigid_motions(body, origin)
    T, R = rigid[:, :3], rigid[:, 3:]
    s, masses, MS = body.points - origin, lumped_masses(body), body.mass @ shapes
    moment = R.T @ (body.mass @ T)
    turned = (R.T @ MS).T  # ∫ s × φ, rotary terms included
    products = np.einsum("ipa,jpb->ijab", phi * masses[None, :, None], phi)
    second = np.einsum("pa,pb->ab", s * masses[:, None], s)
    inertia = R.T @ (body.mass @ R)
    return ModalIntegrals(
        mass=_total_mass(body),
        first=np.array([moment[2, 1] - moment[1, 2], moment[0, 2] - moment[2, 0], moment[1, 0] - moment[0, 1]]) / 2,
        second=second,
        shapes=(T.T @ MS).T,
        position_shapes=_position_products(body, phi, turned, origin),
        shape_products=products,
        rotary=inertia - (np.trace(second) * np.eye(3) - second),
        rotary_shapes=np.zeros((n, 3)),
        rotary_products=np.eye(n) - np.einsum("ijaa->ij", products),
    )
