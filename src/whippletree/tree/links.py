"""Links: what the dynamics needs to know of each body at one state, and how a rigid model makes them.

A link holds the block weight φ of its edge, its subspace H*, its inertia M, and the velocity-dependent terms a and b of
document 002:

    V = φ* V(parent) + H* θ̇        α = φ* α(parent) + H* θ̈ + a        f = Σ φ f(child) + M α + b

Rigid bodies make links with poses as weights; a user-defined system may use any weights, subspaces and inertias, square
or not, and goes through the same dynamics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.spatial import Hinge, Pose, RigidInertia, cross, cross_force, cross_motion, join
from whippletree.spatial.joints import Screw
from whippletree.tree.skeleton import Node
from whippletree.tree.sweeps import BlockWeight, Field, Sweeper

SPARSE_PLACEMENT = 2
"""Exact zeros in a hinge's placement from which two stages are cheaper than one (counted on the test robots)."""


class Link(NamedTuple):
    """One body at one state; sizes m (of the body's vectors, 6 for rigid bodies) and n (of its joint)."""

    X: BlockWeight
    """φ(parent, body), a pose for rigid bodies."""
    H: Array
    """H*, the columns are motions, (m, n)."""
    M: Any
    """Inertia: a (m, m) matrix or a RigidInertia; M @ V is all that is asked of it, and ``dense``."""
    J: Any = 0
    """Rotor inertia on each of the joint's freedoms."""
    V: Any = 0
    """Twist, (m,)."""
    a: Any = 0
    """Acceleration at θ̈ = 0 beyond what the parent hands down, (m,)."""
    b: Any = 0
    """Wrench at α = 0: gyroscopic, less external forces, (m,)."""
    slip: Any = 0
    """H* θ̇: the twist against the parent, (m,)."""
    drift: Any = 0
    """What the joint alone adds to a: the rate of its subspace times θ̇, (m,)."""


def edge(node: Node, q: Array) -> Pose | Hinge:
    """φ(parent, body) of a rigid model. Hinges whose placement is mostly zeros and ones are kept in two stages."""
    joint = node.joint
    if isinstance(joint, Screw) and _exactly(joint.pitch, 0) and _exactly(joint.axis[2], 1):
        zeros_there = sum(_exactly(x, 0) for x in node.placement.R.flat)
        if zeros_there >= SPARSE_PLACEMENT:
            return Hinge.at(node.placement, scalars.sin(q[0]), scalars.cos(q[0]))
    return node.placement @ joint.pose(q)


def _exactly(x: Any, number: int) -> bool:
    return isinstance(x, (int, float)) and x == number


def still_links(sweep: Sweeper, nodes: Field, q: Field) -> Field:
    """Links of a rigid model at rest: poses, subspaces and inertias."""

    return sweep.map(still_link, nodes, q)


def still_link(node: Node, q: Array) -> Link:
    """The link of one node at rest."""
    return Link(edge(node, q), node.joint.subspace(q), node.inertia, node.armature)


def moving_links(sweep: Sweeper, nodes: Field, q: Field, v: Field) -> Field:
    """Links of a rigid model in motion: with the twist V = φ* H* θ̇ and the terms a and b that it causes."""

    def move(parent: Array, node: Node, q: Array, v: Array) -> tuple[Array, Link]:
        link = moving_link(parent, node, q, v)
        return link.V, link

    return sweep.scatter(move, zeros(6), nodes, q, v)


def moving_link(parent: Array, node: Node, q: Array, v: Array) -> Link:
    """The link of one node in motion, on a parent with the twist ``parent`` (6,)."""
    X, H = edge(node, q), node.joint.subspace(q)
    slip, drift = H @ v, node.joint.bias(q, v)
    V = X.motion(parent) + slip
    a = cross_motion(V, slip) + drift
    b = cross_force(V, node.inertia @ V)
    if node.turns:  # a mass against the world has the acceleration v̇ + ω × v
        b = b + node.armature * join(zeros(3), cross(slip[:3], slip[3:]))
    return Link(X, H, node.inertia, node.armature, V, a, b, slip, drift)


def pushed(sweep: Sweeper, links: Field, wrenches: Field) -> Field:
    """The same links with external wrenches, each on its body and in its frame, (m,)."""
    return sweep.map(lambda link, wrench: link._replace(b=link.b - wrench), links, wrenches)


def falling(gravity: Array) -> Array:
    """The acceleration of the world's frame that has the effect of gravity: −g."""
    return join(zeros(3), -gravity)


def world_poses(sweep: Sweeper, links: Field) -> Field:
    """The pose of every body in the world."""

    def place(parent: Pose, link: Link) -> tuple[Pose, Pose]:
        pose = parent @ link.X  # type: ignore[operator]
        return pose, pose

    return sweep.scatter(place, Pose.identity(), links)


def dense(M: Any) -> Array:
    """An inertia as a matrix, whatever form it has."""
    return M.dense() if isinstance(M, RigidInertia) else M
