"""Recursions over the members of one cluster: joint forces at a given acceleration, and composite inertias.

A cluster is a small tree of links below its root body, in the order of ``kind.parents``. Wrenches of the clusters that
hang on its members come in at its ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints.clusters.loop_clusters import ClusterKind
from whippletree.spatial import RigidInertia
from whippletree.tree.links import Link, dense, transform_inertia


class Standing(NamedTuple):
    """The answer of a cluster whose root body does not accelerate."""

    x: Array
    """Accelerations of its joints, (n,)."""
    f: Array
    """Forces of its rows, (k,); of a cluster with one motion τ − τ_p (n,), what the motion answers to."""


def without_velocity_terms(links: tuple[Link, ...]) -> tuple[Link, ...]:
    """The members without their velocity terms."""
    return tuple(link.at_rest() for link in links)


def standing_forces(
    kind: ClusterKind,
    links: tuple[Link, ...],
    loads: Sequence[Any],
    on_ports: dict[int, Any],
    root: Array,
    qdd: Array | None = None,
) -> tuple[list[Array], Array]:
    """Joint forces of every member, and the wrench on the root body, at this acceleration of the root.

    ``qdd``: accelerations of the joints (n,), with which rotors count too; none if None.
    """
    alphas: list[Array] = []
    for k, parent in enumerate(kind.parents):
        alpha = links[k].X.motion(root if parent < 0 else alphas[parent]) + links[k].a
        alphas.append(alpha if qdd is None else alpha + links[k].H @ qdd[kind.slices[k]])
    wrenches = [loads[k] @ alphas[k] + links[k].b + on_ports.get(k, 0) for k in range(len(links))]
    total = zeros(6)
    for k in reversed(range(len(links))):
        up, parent = links[k].X.force(wrenches[k] - links[k].r), kind.parents[k]
        if parent >= 0:
            wrenches[parent] = wrenches[parent] + up
        else:
            total = total + up
    forces = [link.H.T @ f for link, f in zip(links, wrenches, strict=True)]
    if qdd is not None:
        forces = [f + link.J * qdd[part] for f, link, part in zip(forces, links, kind.slices, strict=True)]
    return forces, total


def composite(
    kind: ClusterKind, links: tuple[Link, ...], ports: tuple[Any, ...]
) -> tuple[tuple[Any, ...], Array, Array, Array]:
    """The inertia at each member, I_C (6, 6) and F (6, n) at the root body, and D (n, n), from composite inertias."""
    on_ports = dict(zip(kind.ports, ports, strict=False))
    loads = loaded_members(links, on_ports)
    R: list[Any] = list(loads)
    I_C: Any = RigidInertia.nothing()
    F, D = zeros(6, kind.nv), zeros(kind.nv, kind.nv)
    for k in reversed(range(len(links))):
        link, own = links[k], kind.slices[k]
        wrenches = [R[k] @ h for h in link.H.T]
        for i, f in enumerate(wrenches):
            for j in range(i, len(wrenches)):
                D[own.start + i, own.start + j] = D[own.start + j, own.start + i] = link.H[:, j] @ f
            D[own.start + i, own.start + i] = D[own.start + i, own.start + i] + link.J
        below = k
        while (parent := kind.parents[below]) >= 0:
            wrenches = [links[below].X.force(f) for f in wrenches]
            for i, f in enumerate(wrenches):
                column = links[parent].H.T @ f
                D[kind.slices[parent], own.start + i] = D[own.start + i, kind.slices[parent]] = column
            below = parent
        for i, f in enumerate(wrenches):
            F[:, own.start + i] = links[below].X.force(f)
        message = transform_inertia(R[k], link.X)
        if kind.parents[k] >= 0:
            R[kind.parents[k]] = sum_of_inertias(R[kind.parents[k]], message)
        else:
            I_C = sum_of_inertias(I_C, message)
    return loads, dense(I_C), F, D


def loaded_members(links: tuple[Link, ...], on_ports: dict[int, Any]) -> tuple[Any, ...]:
    """The inertia of each member with what the clusters on it add."""
    return tuple(sum_of_inertias(link.M, on_ports[k]) if k in on_ports else link.M for k, link in enumerate(links))


def sum_of_inertias(a: Any, b: Any) -> Any:
    """The sum of two inertias: a matrix if one of them is."""
    return dense(a) + dense(b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a + b
