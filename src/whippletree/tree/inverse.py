"""Inverse dynamics: the joint forces of a motion, by one scatter and one gather (002: α, f, T)."""

from __future__ import annotations

from typing import Any, NamedTuple

from whippletree.arithmetic.arrays import Array
from whippletree.tree.links import Link, dense, joint_zeros
from whippletree.tree.sweeps import Field, Sweeper


class Load(NamedTuple):
    """Wrench that a body passes through its joint."""

    force: Array
    """Inter-body wrench f(k), from the parent on the body, in the body's frame, without the rotor's share, (m,)."""
    effort: Array
    """Joint force T = H f + J θ̈, (n,)."""


def accelerations(sweep: Sweeper, links: Field, qdd: Field, base: Any) -> Field:
    """α = φ* (H* θ̈ + a): the acceleration of every body; ``base`` is the acceleration of the world, −g."""

    def carry(parent: Array, link: Link, qdd: Array) -> tuple[Array, Array]:
        alpha = link.X.motion(parent) + link.a + link.H @ qdd
        return alpha, alpha

    return sweep.scatter(carry, base, links, qdd)


def loads(sweep: Sweeper, links: Field, qdd: Field, base: Any) -> Field:
    """f = φ (M α + b) and T = H f: the wrench through every joint and its component along the freedoms."""

    def collect(children: Any, link: Link, alpha: Array, qdd: Array) -> tuple[Array, Load]:
        f = link.M @ alpha + link.b + children
        felt = f - link.r
        return link.X.force(felt), Load(felt, link.H.T @ f + link.J * qdd)

    return sweep.gather(collect, 0, links, accelerations(sweep, links, qdd, base), qdd)


def inverse_dynamics(sweep: Sweeper, links: Field, qdd: Field, base: Any) -> Field:
    """T = M θ̈ + C by the O(N) Newton–Euler recursion."""
    return sweep.map(lambda load: load.effort, loads(sweep, links, qdd, base))


def bias_forces(sweep: Sweeper, links: Field, base: Any) -> Field:
    """C: the joint forces that keep θ̈ = 0."""
    return inverse_dynamics(sweep, links, joint_zeros(sweep, links), base)


class Composite(NamedTuple):
    """Quantities that travel inwards in the composite-body form: composite inertia and the rest of the wrench."""

    R: Any
    y: Any


def inverse_dynamics_by_composites(sweep: Sweeper, links: Field, qdd: Field, base: Any) -> Field:
    """Joint forces from composite inertias R: f = R α + y, so that the wrench needs no recursion of its own.

    y = b + Σ φ [R (H* θ̈ + a) + y](child)
    """

    def lump(children: Composite, link: Link, qdd: Array) -> tuple[Composite, Composite]:
        R, y = dense(link.M) + children.R, link.b + children.y
        message = Composite(link.X.inertia(R), link.X.force(R @ (link.H @ qdd + link.a) + y - link.r))
        return message, Composite(R, y)

    def effort(link: Link, own: Composite, alpha: Array, qdd: Array) -> Array:
        return link.H.T @ (own.R @ alpha + own.y) + link.J * qdd  # type: ignore[no-any-return]

    composites = sweep.gather(lump, Composite(0, 0), links, qdd)
    return sweep.map(effort, links, composites, accelerations(sweep, links, qdd, base), qdd)
