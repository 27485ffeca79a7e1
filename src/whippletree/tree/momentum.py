"""Energies, momentum, the centre of mass, and the regressor: sums over bodies of what each one carries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.spatial import Array, Pose, RigidInertia, cross, skew, vector, zeros
from whippletree.sweeps import Field, Sweeper
from whippletree.tree.inertia import composite_inertias
from whippletree.tree.links import world_poses
from whippletree.tree.skeleton import Skeleton


def kinetic_energy(links: Field, v: Field) -> Any:
    """½ vᵀ M v, body by body, rotors included, J."""
    total: Any = 0
    for link, own in zip(links, v, strict=True):
        total = total + link.V @ (link.M @ link.V) + link.J * (own @ own)
    return total / 2


def gravitational_energy(sweep: Sweeper, links: Field, gravity: Array) -> Any:
    """−Σ m g · c, zero for bodies at the world's origin, J."""
    moment = world_inertia(sweep, links).moment
    return -(gravity @ moment)


def spring_energy(tree: Skeleton, q: Field) -> Any:
    """½ k (q − rest)² summed over the joints that have springs, J."""
    total: Any = 0
    for joint, own in zip(tree.joints, q, strict=True):
        if not (isinstance(joint.stiffness, (int, float)) and joint.stiffness == 0):
            stretch = own - joint.rest
            total = total + joint.stiffness * (stretch @ stretch)
    return total / 2


def passive_forces(tree: Skeleton, q: Field, v: Field) -> Field:
    """−k (q − rest) − d v of every joint: what its spring and damper apply, (n,) each.

    Coulomb friction is not a function of the state and is left to the contact solver.
    """
    return [
        -(joint.stiffness * (own - joint.rest) if len(own) == len(speed) else zeros(len(speed)))
        - joint.damping * speed
        for joint, own, speed in zip(tree.joints, q, v, strict=True)
    ]


def world_inertia(sweep: Sweeper, links: Field) -> RigidInertia:
    """The inertia of the whole system about the world's origin, if its joints were frozen."""
    total = RigidInertia.nothing()
    for link, pose in zip(links, world_poses(sweep, links), strict=True):
        total = total + link.M.carried(pose)
    return total


def momentum(sweep: Sweeper, links: Field) -> Array:
    """Angular and linear momentum (6,) about the world's origin, in world axes."""
    total = zeros(6)
    for link, pose in zip(links, world_poses(sweep, links), strict=True):
        total = total + pose.force(link.M @ link.V)
    return total


class Centroidal(NamedTuple):
    """The system seen from its centre of mass, world axes."""

    mass: Any
    center: Array
    """(3,), m"""
    matrix: Array
    """A_G (6, nv): momentum about the centre of mass is A_G v."""


def centroidal(tree: Skeleton, sweep: Sweeper, links: Field) -> Centroidal:
    """Centre of mass and centroidal momentum matrix, by composite inertias: each joint moves what it carries."""
    poses = world_poses(sweep, links)
    whole = world_inertia(sweep, links)
    center = whole.moment / whole.mass
    matrix = zeros(6, tree.model.nv)
    for k, R in enumerate(composite_inertias(sweep, links)):
        to_center = Pose(poses[k].R, poses[k].p - center)
        for i in range(links[k].H.shape[1]):
            matrix[:, tree.v_slices[k].start + i] = to_center.force(R @ links[k].H[:, i])
    return Centroidal(whole.mass, center, matrix)


def regressor(tree: Skeleton, links: Field, accelerations: Field) -> Array:
    """Y (nv, 10 · nodes) with T = Y π, linear in the nodes' inertial parameters (rotors excluded).

    π holds, per node and about the node's frame: mass, first moment (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz.
    """
    Y = zeros(tree.model.nv, 10 * len(links))
    for k, (link, alpha) in enumerate(zip(links, accelerations, strict=True)):
        wrench = body_regressor(link.V, alpha)
        below = k
        for j in tree.path(k):
            if j != k:
                wrench = np.stack([links[below].X.force(c) for c in wrench.T], axis=1)
            Y[tree.v_slices[j], 10 * k : 10 * k + 10] = links[j].H.T @ wrench
            below = j
    return Y


def body_regressor(V: Array, alpha: Array) -> Array:
    """The (6, 10) matrix that maps a body's inertial parameters to the wrench M α + V ×* M V."""
    w, v, dw, dv = V[:3], V[3:], alpha[:3], alpha[3:]
    classical = dv + cross(w, v)
    W = zeros(6, 10)
    W[3:, 0] = classical
    W[:3, 1:4] = -skew(classical)
    W[3:, 1:4] = skew(dw) + skew(w) @ skew(w)
    W[:3, 4:] = _inertia_columns(dw) + skew(w) @ _inertia_columns(w)
    return W


def _inertia_columns(w: Array) -> Array:
    """The (3, 6) matrix that maps (Ixx, Ixy, Iyy, Ixz, Iyz, Izz) to I ω."""
    x, y, z = w
    rows = [vector(x, y, 0, z, 0, 0), vector(0, x, y, 0, z, 0), vector(0, 0, 0, x, y, z)]
    return np.stack(rows)

