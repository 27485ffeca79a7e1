"""Energies, momentum, the centre of mass, and the regressor: sums over bodies of what each one carries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.errors import UnsupportedError
from whippletree.model import Joint
from whippletree.spatial import Pose, RigidInertia, cross, skew
from whippletree.tree.inertia import composite_inertias
from whippletree.tree.links import Link, world_poses
from whippletree.tree.skeleton import Skeleton
from whippletree.tree.sweeps import Field, Sweeper


def kinetic_energy(sweep: Sweeper, links: Field, v: Field) -> Any:
    """½ vᵀ M v, body by body, rotors included, J."""
    return sweep.total(lambda link, v: link.V @ (link.M @ link.V) + link.J * (v @ v), 0, links, v) / 2


def gravitational_energy(sweep: Sweeper, links: Field, gravity: Array, poses: Field | None = None) -> Any:
    """−Σ m g · c, zero for bodies at the world's origin, J; ``poses``: of the links in the world, if they are known."""
    return -(gravity @ world_inertia(sweep, links, poses).moment)


def spring_energy(sweep: Sweeper, joints: Field, q: Field) -> Any:
    """½ k (q − rest)² summed over the joints, J; those that store a quaternion have no springs."""

    def energy(joint: Joint, q: Array) -> Any:
        if joint.flexible is not None:
            return 0 if joint.port else 2 * joint.flexible.elastic_energy(q)
        stretch = q - joint.rest if len(q) < 4 else zeros(0)
        return joint.stiffness * (stretch @ stretch)

    return sweep.total(energy, 0, joints, q) / 2


def passive_forces(sweep: Sweeper, joints: Field, q: Field, v: Field) -> Field:
    """−k (q − rest) − d v of every joint: what its spring and damper apply, (n,) each.

    Coulomb friction is not a function of the state and is left to the contact solver. Joints that store a quaternion
    have no springs.
    """

    def force(joint: Joint, q: Array, v: Array) -> Array:
        if joint.flexible is not None:
            return zeros(0) if joint.port else joint.flexible.elastic_force(q, v)
        stretch = q - joint.rest if len(q) == len(v) else zeros(len(v))
        return np.asarray(-(joint.stiffness * stretch + joint.damping * v))

    return sweep.map(force, joints, q, v)


def world_inertia(sweep: Sweeper, links: Field, poses: Field | None = None) -> RigidInertia:
    """The inertia of the whole system about the world's origin, if its joints were frozen; ``poses``: of the links in
    the world, if they are known."""

    def inertia_in_world(link: Link, pose: Pose) -> RigidInertia:
        return link.M.transform(pose)  # type: ignore[no-any-return]

    poses = world_poses(sweep, links) if poses is None else poses
    return sweep.total(inertia_in_world, RigidInertia.nothing(), links, poses)  # type: ignore[no-any-return]


def momentum(sweep: Sweeper, links: Field) -> Array:
    """Angular and linear momentum (6,) about the world's origin, in world axes."""

    def momentum_in_world(link: Link, pose: Pose) -> Array:
        return pose.force((link.M @ link.V)[:6])

    return sweep.total(momentum_in_world, zeros(6), links, world_poses(sweep, links))  # type: ignore[no-any-return]


def center_of_mass(tree: Skeleton, whole: RigidInertia) -> Array:
    """The centre of mass (3,) of everything that can move, from its inertia about the world's origin.

    Raises:
        UnsupportedError: if nothing that moves has mass.
    """
    if isinstance(whole.mass, (int, float)) and whole.mass == 0:
        raise UnsupportedError(f"center_of_mass: nothing that moves in model {tree.model.name!r} has mass")
    return np.asarray(whole.moment / whole.mass)


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
    center = center_of_mass(tree, whole)
    matrix = zeros(6, tree.model.nv)
    for k, R in enumerate(composite_inertias(sweep, links)):
        to_center = Pose(poses[k].R, poses[k].p - center)
        for i in range(links[k].H.shape[1]):
            matrix[:, tree.v_slices[k].start + i] = to_center.force((R @ links[k].H[:, i])[:6])
    return Centroidal(whole.mass, center, matrix)


def regressor(tree: Skeleton, links: Field, accelerations: Field) -> Array:
    """Y (nv, 10 · bodies) with T = Y π, linear in the bodies' inertial parameters (rotors excluded).

    π holds per body, about and in the body's frame: mass, mass · centre (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz.
    """
    bodies = tree.model.bodies
    require_rigid(tree)
    Y = zeros(tree.model.nv, 10 * len(bodies))
    for number, body in enumerate(bodies):
        node, at = tree.bodies[body.name]
        if node < 0:
            continue  # welded to the world: no joint feels it
        columns = body_regressor(at.motion(links[node].V), at.motion(accelerations[node]))
        wrench = [at.force(column) for column in columns.T]
        for k in tree.path(node):
            Y[tree.v_slices[k], 10 * number : 10 * number + 10] = links[k].H.T @ np.stack(wrench, axis=1)
            wrench = [links[k].X.force(f) for f in wrench]
    return Y


def require_rigid(tree: Skeleton) -> None:
    """Refuse the regressor of a model with flexible bodies.

    Raises:
        UnsupportedError: saying why.
    """
    if tree.model.is_flexible:
        raise UnsupportedError(
            f"regressor: model {tree.model.name!r} has flexible bodies, whose forces are not linear in ten numbers per "
            f"body: identify their integrals by wt.compile(...).vjp, or replace them by rigid bodies"
        )


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
