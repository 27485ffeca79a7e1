"""Links: what the dynamics needs to know of each body at one state, and how a rigid model makes them.

A link holds the block weight φ of its edge, its subspace H*, its inertia M, and the velocity-dependent terms a and b of
document 002:

    V = φ* V(parent) + H* θ̇        α = φ* α(parent) + H* θ̈ + a        f = Σ φ f(child) + M α + b

Rigid bodies make links with poses as weights; a user-defined system may use any weights, subspaces and inertias, square
or not, and goes through the same dynamics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.spatial import Hinge, Pose, RigidInertia, cross, cross_force, cross_motion, join
from whippletree.spatial.joints import Screw
from whippletree.spatial.modal import DeformedInertia, Modal, ModalInertia, ModalWeight, Port, PortWeight
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
    """Wrench at α = 0: gyroscopic, less external forces, (m,); with the rotor's share r."""
    slip: Any = 0
    """H* θ̇: the twist against the parent, (m,)."""
    drift: Any = 0
    """The joint's own part of a: the rate of its subspace times θ̇, (m,)."""
    sway: Any = 0
    """A frame of a flexible body: its twist against the body, which φ* hands down with the body's own, (6,)."""
    r: Any = 0
    """The rotor's share of b, which goes with J θ̈: a force of the joint alone, that its parent does not feel, (m,)."""

    def at_rest(self) -> Link:
        """The link without its velocity terms a and b."""
        still = zeros(len(self.H))
        return self._replace(a=still, b=still, r=0)

    def turning(self, V: Array) -> Array:
        """a (m,) of a body whose twist, seen from wherever that is, is V (m,)."""
        if len(self.H) != 6:
            return zeros(len(self.H))  # a body with modes moves with its reference frame
        return np.asarray(cross_motion(V, self.slip + self.sway) + self.drift)


def edge(node: Node, q: Array) -> Pose | Hinge | ModalWeight | PortWeight:
    """φ(parent, body). Hinges whose placement is mostly zeros and ones are kept in two stages."""
    joint = node.joint
    if isinstance(joint, Modal):
        return ModalWeight(node.placement, joint.nq)
    if isinstance(joint, Port):
        return PortWeight(joint.pose(q), joint.twists(q))
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
    return Link(edge(node, q), node.joint.subspace(q), _inertia_at(node, q), node.armature)


def _inertia_at(node: Node, q: Array) -> RigidInertia | DeformedInertia:
    own: RigidInertia | ModalInertia = node.inertia
    return own.at(q) if isinstance(own, ModalInertia) else own


def joint_zeros(sweep: Sweeper, links: Field) -> Field:
    """Zero for every freedom, joint by joint: no accelerations, or no joint forces."""
    return sweep.map(lambda link: zeros(link.H.shape[1]), links)


def moving_links(sweep: Sweeper, nodes: Field, q: Field, v: Field) -> Field:
    """Links of a rigid model in motion: with the twist V = φ* H* θ̇ and the terms a and b that it causes."""

    def move(parent: Array, node: Node, q: Array, v: Array) -> tuple[Array, Link]:
        link = moving_link(parent, node, q, v)
        return link.V, link

    return sweep.scatter(move, zeros(6), nodes, q, v)


def moving_link(parent: Array, node: Node, q: Array, v: Array) -> Link:
    """The link of one node in motion, on a parent with the twist ``parent`` (m,)."""
    if isinstance(node.joint, Modal):
        return _modal_link(parent, node, q, v)
    if isinstance(node.joint, Port):
        return _port_link(parent, node, q)
    X, H = edge(node, q), node.joint.subspace(q)
    slip, drift = H @ v, node.joint.bias(q, v)
    V = X.motion(parent) + slip
    a = cross_motion(V, slip) + drift
    b = cross_force(V, node.inertia @ V)
    if not node.turns:
        return Link(X, H, node.inertia, node.armature, V, a, b, slip, drift)
    # ½ J |v|² of velocities in axes that turn with the body: Lagrange's equations ask for J (v̇ + ω × v)
    r = node.armature * join(zeros(3), cross(slip[:3], slip[3:]))
    return Link(X, H, node.inertia, node.armature, V, a, b + r, slip, drift, r=r)


def confine_rotors(sweep: Sweeper, links: Field) -> Field:
    """Links whose parents do not feel the rotors of the joints that they carry: b − Σ φ r(child).

    A rotor acts between the two sides of its joint. Within b, its share r would be handed on to the parent.
    """

    def take_back(children: Any, link: Link) -> tuple[Array, Link]:
        return link.X.force(zeros(len(link.H)) + link.r), link._replace(b=link.b - children)

    return sweep.gather(take_back, 0, links)


def _modal_link(parent: Array, node: Node, eta: Array, rates: Array) -> Link:
    """A body with modes: V = (V of its reference frame, η̇)."""
    X, H = edge(node, eta), node.joint.subspace(eta)
    slip = H @ rates
    V = X.motion(parent) + slip
    M = node.inertia.at(eta)
    still = zeros(len(V))
    return Link(X, H, M, 0, V, still, node.inertia.bias(eta, M, V), slip, still)


def _port_link(parent: Array, node: Node, eta: Array) -> Link:
    """A frame of a flexible body, with what is welded to it; ``parent`` is the body's V (6 + n,)."""
    joint: Any = node.joint
    X: Any = edge(node, eta)
    rates = parent[6:]
    sway, drift = X.S @ rates, joint.drift(eta, rates)
    V = X.motion(parent)
    still = zeros(6)
    a = cross_motion(V, sway) + drift
    b = cross_force(V, node.inertia @ V)
    return Link(X, zeros(6, 0), node.inertia, 0, V, a, b, still, drift, sway)


def add_wrenches(sweep: Sweeper, links: Field, wrenches: Field) -> Field:
    """These links with external wrenches, each on its body and in its frame, (m,) or (6,)."""
    return sweep.map(lambda link, wrench: link._replace(b=link.b - _with_unloaded_modes(wrench, link)), links, wrenches)


def _with_unloaded_modes(wrench: Array, link: Link) -> Array:
    """A wrench (6,) on the reference frame of a body with modes pushes no mode."""
    return join(wrench, zeros(len(link.H) - 6)) if len(link.H) > len(wrench) else wrench


def falling(gravity: Array) -> Array:
    """The acceleration of the world's frame that has the effect of gravity: −g."""
    return join(zeros(3), -gravity)


def world_poses(sweep: Sweeper, links: Field) -> Field:
    """The pose of every body in the world."""

    def place(parent: Pose, link: Link) -> tuple[Pose, Pose]:
        X: Any = link.X
        pose = parent @ (X.pose if isinstance(X, (ModalWeight, PortWeight)) else X)
        return pose, pose

    return sweep.scatter(place, Pose.identity(), links)


def transform_inertia(R: Any, X: Any) -> Any:
    """φ R φ*: an inertia of any form, seen from the parent."""
    if isinstance(R, RigidInertia) and isinstance(X, PortWeight):
        return X.carry(R)
    return R.transform(X) if isinstance(R, (RigidInertia, DeformedInertia)) else X.inertia(R)


def dense(M: Any) -> Array:
    """An inertia as a matrix, whatever form it has."""
    return M.dense() if isinstance(M, (RigidInertia, DeformedInertia)) else M
