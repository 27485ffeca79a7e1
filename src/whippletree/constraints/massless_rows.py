"""Massless motions that springs and dampers decide: first-order equations as rows of the constraints.

Let Z (nv, z) span the motions that every constraint allows and that move no mass: A Z = 0 and M Z = 0. They feel
neither inertia nor gravity nor the constraints' forces, so of M a + c = τ + Aᵀ f nothing is left along them but

    Zᵀ (D v + K (q − rest)) = Zᵀ τ                                            D dampers, K springs, τ the rest

With dampers this determines the velocity: with Γ = Zᵀ D Z and ``s`` = Γ⁻¹ Zᵀ (D v + K (q − rest)) it is a row at
velocity level, s = 0, and A = Γ⁻¹ Zᵀ D has A Z = 1. Without dampers it determines the position, an equilibrium: a
row at position level, (Zᵀ K Z)⁻¹ Zᵀ K (q − rest) = 0. The rows' forces are −Zᵀ τ_whole: zero on the true motion, for
the springs and dampers are balanced there; so the rows constrain without pushing.

Z is scaled to the identity at one *pivot* velocity per motion. With these velocities held the block matrix is regular,
and Z is what the mechanism does when they move and nothing pushes: [M Bᵀ; B 0] [Z; ·] = [0; (0, 1)], B = (A, pivots).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, vector, zeros
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.constraints import kkt
from whippletree.tree import inertia
from whippletree.tree.element_forces import element_forces
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.momentum import passive_forces
from whippletree.tree.sweeps import Field

if TYPE_CHECKING:
    from whippletree.constraints.kinds.demand import Demand
    from whippletree.constraints.rows import Prepared


OthersJacobian: TypeAlias = Callable[[Mechanism, Field, Array, Any], Array]
"""A of all rows of the other constraints, from (mechanism, links, q, t)."""


class Support(NamedTuple):
    """A model's massless motions, before any state is known."""

    pivots: tuple[int, ...]
    """One velocity per motion, whose unit motion it is."""
    rows: tuple[int, ...]
    """Independent rows of the other constraints, among all of theirs."""
    scales: tuple[float, ...]
    """ρ of these rows and of the pivots; what Z is does not depend on them
    (:func:`whippletree.constraints.kkt.augmented`).
    """


def directions(m: Mechanism, links: Field, A: Array, support: Support) -> Array:
    """Z (nv, z), for the Jacobian A of the other constraints' rows."""
    n, z = m.tree.model.nv, len(support.pivots)
    M = inertia.mass_matrix(m.tree, m.sweep, links)
    B = np.concatenate([A[list(support.rows)], identity(n)[list(support.pivots)]])
    factor = kkt.augmented(M, B, np.array(support.scales, dtype=object))
    asked = np.concatenate([zeros(len(support.rows), z), -identity(z)])
    return factor.solve(zeros(n, z), asked).a


def dampers(m: Mechanism) -> Array:
    """Damping of every velocity (nv,)."""
    return m.join(m.sweep.map(lambda node, joint: joint.damping + zeros(node.joint.nv), m.nodes, m.joints))


def springs(m: Mechanism) -> Array:
    """Stiffness of every velocity (nv,); zero for joints that store a quaternion."""

    def stiffness(node: Any, joint: Any) -> Array:
        nv = node.joint.nv
        return joint.stiffness + zeros(nv) if node.joint.nq == nv else zeros(nv)

    return m.join(m.sweep.map(stiffness, m.nodes, m.joints))


class RelaxedRows:
    """Rows of massless motions at one state: ``relax`` at velocity level, ``rest`` at position level."""

    def __init__(
        self, m: Mechanism, c: Prepared, others: OthersJacobian, links: Field, q: Array, v: Array | None, t: Any
    ) -> None:
        self.demand, self.others = c.demand, others
        self.m, self.links, self.q, self.v, self.t = m, links, q, v, t
        self.support: Support = c.constraint.parameters["support"]
        self.motions: Array = c.constraint.parameters["motions"]
        self.damped = c.demand.level == "velocity"

    def residual(self) -> Array:
        return self._imbalance(self.q, None, self.t)

    def jacobian(self) -> Array:
        if self.damped:
            Z = self._directions(self.links, self.q, self.t)
            return self._scale_motions(Z, Z.T * self.resistance)
        manifold = self.m.manifold()
        columns = [self._slope(manifold.rate(self.q, e), None, 0) for e in identity(self.m.tree.model.nv)]
        return np.stack(columns, axis=1)

    def sizes(self) -> Array:
        return np.asarray(np.abs(self.jacobian()).max(axis=1, initial=0))

    def velocity(self) -> Array:
        assert self.v is not None
        if self.damped:
            return self._imbalance(self.q, self.v, self.t)
        return self._slope(self.m.manifold().rate(self.q, self.v), None, 1)

    def bias(self) -> Array:
        assert self.v is not None
        rate = self.m.manifold().rate
        first = rate(self.q, self.v)
        if self.damped:
            return self._slope(first, self.v, 1)
        # the second derivative along the motion that keeps v
        second = slopes(rate(duals(self.q, first), duals(self.v, zeros(len(self.v)))))
        path = duals(duals(self.q, first), duals(first, second))
        return slopes(slopes(self._imbalance(path, None, Dual(Dual(self.t, 1), Dual(1, 0)))))

    def relaxation(self, tau: Array) -> Array:
        """Z Γ⁻¹ Zᵀ τ (nv,): how much faster the motions must be for their dampers to balance τ too."""
        Z = self._directions(self.links, self.q, self.t)
        return np.asarray(Z @ self._scale_motions(Z, Z.T @ tau))

    @property
    def resistance(self) -> Array:
        """Measure of these rows: dampers, or springs."""
        return dampers(self.m) if self.damped else springs(self.m)

    def _slope(self, rate: Array, v: Array | None, dt: int) -> Array:
        """The rate of the residual while q changes at this rate and v stays."""
        still = None if v is None else duals(v, zeros(len(v)))
        return slopes(self._imbalance(duals(self.q, rate), still, Dual(self.t, dt)))

    def _imbalance(self, q: Array, v: Array | None, t: Any) -> Array:
        """(Zᵀ D Z)⁻¹ Zᵀ (D v + K (q − rest)), or the same with K in place of D and without v."""
        m = self.m
        Z = self._directions(m.still(q), q, t)
        rates = v if v is not None else zeros(m.tree.model.nv)
        load = -m.join(passive_forces(m.sweep, m.joints, m.coordinates(q), m.velocities(rates)))
        load = load - element_forces(m, q, rates) if m.tree.model.elements else load
        return self._scale_motions(Z, Z.T @ load)

    def _scale_motions(self, Z: Array, values: Array) -> Array:
        return linalg.ldlt((Z.T * self.resistance) @ Z, lenient=True).solve(values)

    def _directions(self, links: Field, q: Array, t: Any) -> Array:
        A = self.others(self.m, links, q, t)
        return np.asarray(directions(self.m, links, A, self.support) @ self.motions)


class HeldRows:
    """One freedom of a joint that has several, held: its velocity vanishes."""

    def __init__(self, demand: Demand, node: int, freedoms: int, component: int, rate: Any) -> None:
        """``rate``: of this freedom; None where nothing moves."""
        self.demand, self.node, self.freedoms, self.component, self.rate = demand, node, freedoms, component, rate

    def residual(self) -> Array:
        return zeros(0)

    def blocks(self) -> dict[int, Array]:
        """The only block (1, n) of A that differs from zero, by node."""
        return {self.node: identity(self.freedoms)[[self.component]]}

    def sizes(self) -> Array:
        return zeros(1) + 1

    def velocity(self) -> Array:
        return vector(self.rate)

    def bias(self) -> Array:
        return zeros(1)
