"""Bodies with modes, on any scalar: the inertia of a floating frame of reference, and how frames move on it.

A point that is at s in the undeformed body is, with modal coordinates η, at

    r = s + Σ φᵢ ηᵢ + ½ Σ gᵢⱼ ηᵢ ηⱼ          in the axes of the body's reference frame

φᵢ are the mode shapes; g, which may be absent, is what bending shortens a beam by: *geometric stiffening* is the work
that loads do along it. The body's twist has 6 + n numbers, V = (ω, v, η̇), and so has everything that belongs to it:

    M(η) = [[J, S̃, N], [S̃ᵀ, m 1, F], [Nᵀ, Fᵀ, Mₘ]]        S = ∫ r        F = ∂S/∂η        N = ∫ r × ∂r/∂η

each to the second order in η of the kinetic energy. The velocity terms follow from M alone (Boltzmann and Hamel):

    b = Ṁ V + (V ×* p, −½ Vᵀ (∂M/∂η) V)        p = (M V)₁…₆

so that energy and momentum are conserved by whatever integrals are given, also truncated ones. Towards the rest of a
tree a body with modes has six-number ports: a :class:`ModalWeight` hangs it on its parent, a :class:`PortWeight` hangs
whatever is fixed to one of its frames on it. The modes themselves are a joint (:class:`Modal`) with n freedoms.

A frame's rotation is that of the Gibbs vector θ/2 with θ = Σ ψᵢ ηᵢ (Cayley): a true rotation, rational where θ is, and
equal to the turn by |θ| up to |θ|³/12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.spatial.vectors import Pose, RigidInertia, cross, join, skew


class ModalIntegrals(NamedTuple):
    """Integrals over the mass of a body with n modes, in the axes of its reference frame."""

    mass: Any
    """m = ∫ dm, kg."""
    first: Array
    """∫ s, kg m, (3,)."""
    second: Array
    """∫ s sᵀ, kg m², (3, 3)."""
    shapes: Array
    """∫ φᵢ, kg, (n, 3)."""
    position_shapes: Array
    """∫ s φᵢᵀ, kg m, (n, 3, 3): its skew part is ∫ s × φᵢ, its symmetric part the first-order change of inertia."""
    shape_products: Array
    """∫ φᵢ φⱼᵀ, kg, (n, n, 3, 3): traces ∫ φᵢᵀ φⱼ, skew parts ∫ φᵢ × φⱼ, and the second-order change of inertia."""
    rotary: Array
    """∫ dI of cross-sections or nodes that turn with the body, kg m², (3, 3)."""
    rotary_shapes: Array
    """∫ dI ψᵢ, kg m, (n, 3)."""
    rotary_products: Array
    """∫ ψᵢᵀ dI ψⱼ, kg, (n, n)."""
    shortening: Array | None = None
    """∫ gᵢⱼ, kg/m, (n, n, 3); None without geometric stiffening."""
    position_shortening: Array | None = None
    """∫ s gᵢⱼᵀ, kg, (n, n, 3, 3)."""

    @property
    def modes(self) -> int:
        """n."""
        return len(self.shapes)

    @property
    def modal_mass(self) -> Array:
        """∫ φᵢᵀ φⱼ + ψᵢᵀ dI ψⱼ, kg, (n, n)."""
        return np.asarray(sum(self.shape_products[..., k, k] for k in range(3)) + self.rotary_products)

    @property
    def moments(self) -> Array:
        """∫ s × φᵢ + dI ψᵢ, kg m, (n, 3): the angular momentum about the frame's origin per unit of η̇ᵢ."""
        return _axials(self.position_shapes) + self.rotary_shapes

    @property
    def shape_crosses(self) -> Array:
        """∫ φᵢ × φⱼ, kg, (n, n, 3)."""
        return _axials(self.shape_products)

    @property
    def inertia_rates(self) -> Array:
        """∂J/∂ηᵢ at η = 0, kg m, (n, 3, 3)."""
        return _trace_minus(self.position_shapes + np.swapaxes(self.position_shapes, -1, -2))

    @property
    def inertia_curvatures(self) -> Array:
        """∂²J/∂ηᵢ∂ηⱼ, kg, (n, n, 3, 3), shortening included."""
        E = self.shape_products if self.position_shortening is None else self.shape_products + self.position_shortening
        return _trace_minus(E + np.swapaxes(E, -1, -2))

    def rigid(self) -> RigidInertia:
        """The inertia of the undeformed body about its reference frame."""
        return RigidInertia(self.mass, self.first, _trace_minus(self.second) + self.rotary)

    def as_objects(self) -> ModalIntegrals:
        """The integrals as arrays of single scalars, so that exact zeros fold away where they are traced."""
        arrays: list[Any] = [None if x is None else np.asarray(x).astype(object) for x in self[1:]]
        return ModalIntegrals(self.mass, *arrays)


class ModalInertia:
    """The inertia of a body with modes as a function of its modal coordinates."""

    def __init__(self, integrals: ModalIntegrals) -> None:
        given = integrals.as_objects()
        self.n = given.modes
        self.mass, self.first, self.shapes = given.mass, given.first, given.shapes
        self.rotation = given.rigid().rotation
        self.rates, self.curvatures = given.inertia_rates, given.inertia_curvatures
        self.moments, self.crosses = given.moments, given.shape_crosses
        self.modal_mass = given.modal_mass
        self.bends = given.shortening
        self.turned_bends = None if given.position_shortening is None else _axials(given.position_shortening)

    def at(self, eta: Array) -> DeformedInertia:
        """M(η)."""
        moment, rotation = self.first, self.rotation
        F, N = self._linear(eta)
        for i in range(self.n):
            # S = S₀ + ∫φ η + ½ η ∫g η; F at η/2 is its mean slope, and so for J
            moment = moment + self._mean_shape(i, eta) * eta[i]
            rotation = rotation + (self.rates[i] + _combine(self.curvatures[i], eta) / 2) * eta[i]
        return DeformedInertia(RigidInertia(self.mass, moment, rotation), F, N, self.modal_mass)

    def _mean_shape(self, i: int, eta: Array) -> Array:
        own: Array = self.shapes[i]
        return own if self.bends is None else own + _combine(self.bends[i], eta) / 2

    def _linear(self, eta: Array) -> tuple[Array, Array]:
        """F and N, as rows (n, 3)."""
        F, N = self.shapes.copy(), self.moments.copy()
        for i in range(self.n):
            N[i] = N[i] + _combine(self.crosses[:, i], eta)
            if self.bends is not None:
                F[i] = F[i] + _combine(self.bends[i], eta)
                N[i] = N[i] + _combine(self.turned_bends[i], eta)  # type: ignore[index]
        return F, N

    def bias(self, eta: Array, here: DeformedInertia, V: Array) -> Array:
        """b (6 + n,): what M(η) α lacks of the wrench and the modal forces of a motion."""
        w, v, rates = V[:3], V[3:6], V[6:]
        momentum = here @ V
        h, p = momentum[:3], momentum[3:6]
        growth = zeros(3)  # Ṡ
        turning = zeros(3)  # J̇ ω
        along = zeros(self.n)
        for i in range(self.n):
            growth = growth + here.F[i] * rates[i]
            dJ = self.rates[i] + _combine(self.curvatures[i], eta)
            spin = dJ @ w
            turning = turning + spin * rates[i]
            along[i] = here.F[i] @ cross(w, v) - (w @ spin) / 2 + 2 * (w @ _combine(self.crosses[:, i], rates))
        angular = turning + cross(growth, v) + cross(w, h) + cross(v, p)
        linear = cross(w, p + growth)
        if self.bends is not None:
            for i in range(self.n):
                angular = angular + _combine(self.turned_bends[i], rates) * rates[i]  # type: ignore[index]
                linear = linear + _combine(self.bends[i], rates) * rates[i]
        return join(join(angular, linear), along)


@dataclass(frozen=True, eq=False)
class DeformedInertia:
    """M(η) of a body with modes at one deformation, in blocks; also with what is fixed to its frames."""

    rigid: RigidInertia
    """Inertia of the body as it is bent, with frozen modes."""
    F: Array
    """∫ ∂r/∂η, (n, 3)."""
    N: Array
    """∫ r × ∂r/∂η, (n, 3)."""
    modal: Array
    """(n, n)"""

    def __matmul__(self, V: Array) -> Array:
        """The momentum (or wrench and modal forces) of a twist (or acceleration), (6 + n,)."""
        rates = V[6:]
        whole = self.rigid @ V[:6] + join(self.N.T @ rates, self.F.T @ rates)
        return join(whole, self.N @ V[:3] + self.F @ V[3:6] + self.modal @ rates)

    def __add__(self, other: DeformedInertia | RigidInertia) -> DeformedInertia:
        if isinstance(other, RigidInertia):
            return DeformedInertia(self.rigid + other, self.F, self.N, self.modal)
        return DeformedInertia(self.rigid + other.rigid, self.F + other.F, self.N + other.N, self.modal + other.modal)

    __radd__ = __add__

    def dense(self) -> Array:
        """M(η) as a matrix (6 + n, 6 + n)."""
        n = len(self.modal)
        M = zeros(6 + n, 6 + n)
        M[:6, :6] = self.rigid.dense()
        M[6:, :3], M[6:, 3:6] = self.N, self.F
        M[:3, 6:], M[3:6, 6:] = self.N.T, self.F.T
        M[6:, 6:] = self.modal
        return M

    def transform(self, X: Any) -> RigidInertia:
        """The inertia with frozen modes, about another frame."""
        return self.rigid.transform(X.pose if isinstance(X, ModalWeight) else X)


@dataclass(frozen=True, eq=False)
class _PosedWeight:
    """An edge at a body with modes, beside the pose of its frame."""

    pose: Pose

    @property
    def R(self) -> Array:
        return self.pose.R

    @property
    def p(self) -> Array:
        return self.pose.p


@dataclass(frozen=True, eq=False)
class ModalWeight(_PosedWeight):
    """The edge from a parent to a body with n modes: φ* V = (X* V, 0)."""

    n: int

    def __matmul__(self, other: Any) -> Pose:
        """The pose, seen from the parent, of a frame of the body."""
        return self.pose @ (other.pose if isinstance(other, PortWeight) else other)

    def motion(self, V: Array) -> Array:
        return join(self.pose.motion(V), zeros(self.n))

    def force(self, f: Array) -> Array:
        return self.pose.force(f[:6])

    def inertia(self, P: Array) -> Array:
        return self.pose.inertia(P[:6, :6])

    def weight(self) -> Array:
        """φ as a dense (6, 6 + n) matrix."""
        return np.concatenate([self.pose.weight(), zeros(6, self.n)], axis=1)


@dataclass(frozen=True, eq=False)
class PortWeight(_PosedWeight):
    """The edge from a body with modes to a frame on it: φ* (V, η̇) = X* V + S η̇."""

    S: Array
    """(6, n): twists of the frame, in its axes, for unit modal velocities."""

    def __matmul__(self, other: Pose) -> PortWeight:
        """These modes for a frame that is fixed to this one."""
        S = zeros(*self.S.shape)
        for i, twist in enumerate(self.S.T):
            S[:, i] = other.motion(twist)
        return PortWeight(self.pose @ other, S)

    def motion(self, V: Array) -> Array:
        return np.asarray(self.pose.motion(V[:6]) + self.S @ V[6:])

    def force(self, f: Array) -> Array:
        return join(self.pose.force(f), self.S.T @ f)

    def inertia(self, P: Array) -> Array:
        n = self.S.shape[1]
        pushed = P @ self.S
        result = zeros(6 + n, 6 + n)
        result[:6, :6] = self.pose.inertia(P)
        for i in range(n):
            result[:6, 6 + i] = result[6 + i, :6] = self.pose.force(pushed[:, i])
            for j in range(i, n):
                result[6 + i, 6 + j] = result[6 + j, 6 + i] = self.S[:, j] @ pushed[:, i]
        return result

    def weight(self) -> Array:
        """φ as a dense (6 + n, 6) matrix."""
        return np.concatenate([self.pose.weight(), self.S.T])

    def carry(self, R: RigidInertia) -> DeformedInertia:
        """φ R φ* of a rigid inertia, in blocks."""
        n = self.S.shape[1]
        pushed = [R @ twist for twist in self.S.T]
        at_root = np.array([self.pose.force(f) for f in pushed], dtype=object).reshape(n, 6)
        modal = np.array([[twist @ f for twist in self.S.T] for f in pushed], dtype=object).reshape(n, n)
        return DeformedInertia(R.transform(self.pose), at_root[:, 3:], at_root[:, :3], modal)


@dataclass(frozen=True, eq=False)
class Modal:
    """The joint of a body with modes: its freedoms are the modal coordinates, and its frame is the parent's."""

    inertia: ModalInertia

    @property
    def nq(self) -> int:
        return self.inertia.n

    nv = nq

    @property
    def neutral(self) -> tuple[Any, ...]:
        return (0,) * self.nq

    def pose(self, q: Array) -> Pose:
        return Pose.identity()

    def subspace(self, q: Array) -> Array:
        return np.concatenate([zeros(6, self.nq), identity(self.nq)])

    def bias(self, q: Array, v: Array) -> Array:
        return zeros(6 + self.nq)

    def rate(self, q: Array, v: Array) -> Array:
        return v

    def integrate(self, q: Array, d: Array) -> Array:
        return q + d

    def difference(self, q: Array, r: Array) -> Array:
        return r - q


@dataclass(frozen=True, eq=False)
class Port:
    """A frame of a body with modes, as a joint without freedoms whose pose depends on the modal coordinates η.

    ``pose``, ``twists`` and ``drift`` take η in place of coordinates of its own.
    """

    place: Pose
    """Pose of the frame in the undeformed body."""
    shapes: Array
    """φᵢ there, (n, 3)."""
    slopes: Array
    """ψᵢ there, rad/m, (n, 3)."""
    shortening: Array | None = None
    """gᵢⱼ there, 1/m, (n, n, 3)."""
    nq = nv = 0
    neutral: tuple[Any, ...] = ()

    def pose(self, eta: Array) -> Pose:
        """The pose of the frame in the body's reference frame."""
        p = self.place.p
        for i in range(len(self.shapes)):
            p = p + self._mean(i, eta) * eta[i]
        return Pose(_cayley(_combine(self.slopes, eta)) @ self.place.R, p)

    def twists(self, eta: Array) -> Array:
        """S (6, n): the frame's twists against the body, in the frame's axes, for unit modal velocities."""
        theta = _combine(self.slopes, eta)
        R = _cayley(theta) @ self.place.R
        S = zeros(6, len(self.shapes))
        for i in range(len(self.shapes)):
            S[:3, i] = self.place.R.T @ _gibbs_rate(theta, self.slopes[i])
            S[3:, i] = R.T @ self._shape(i, eta)
        return S

    def drift(self, eta: Array, rates: Array) -> Array:
        """Ṡ η̇ (6,)."""
        theta, speed = _combine(self.slopes, eta), _combine(self.slopes, rates)
        R = _cayley(theta) @ self.place.R
        g = theta / 2
        turn = _gibbs_rate(theta, speed)
        size = 1 + g @ g
        # θ̇ − g × θ̇ over 1 + g²: the cross product with ġ = θ̇/2 vanishes, and only the divisor changes
        angular = self.place.R.T @ (turn * (-(g @ speed) / size))
        velocity, swing = zeros(3), zeros(3)
        for i in range(len(self.shapes)):
            velocity = velocity + self._shape(i, eta) * rates[i]
            if self.shortening is not None:
                swing = swing + _combine(self.shortening[i], rates) * rates[i]
        return join(angular, R.T @ swing - cross(self.place.R.T @ turn, R.T @ velocity))

    def subspace(self, q: Array) -> Array:
        return zeros(6, 0)

    def bias(self, q: Array, v: Array) -> Array:
        return zeros(6)

    def rate(self, q: Array, v: Array) -> Array:
        return zeros(0)

    def integrate(self, q: Array, d: Array) -> Array:
        return zeros(0)

    def difference(self, q: Array, r: Array) -> Array:
        return zeros(0)

    def _shape(self, i: int, eta: Array) -> Array:
        """∂r/∂ηᵢ."""
        own: Array = self.shapes[i]
        return own if self.shortening is None else own + _combine(self.shortening[i], eta)

    def _mean(self, i: int, eta: Array) -> Array:
        own: Array = self.shapes[i]
        return own if self.shortening is None else own + _combine(self.shortening[i], eta) / 2


def _cayley(theta: Array) -> Array:
    """The rotation of the Gibbs vector θ/2."""
    K = skew(theta)
    return np.asarray(identity(3) + (K + K @ K / 2) / (1 + theta @ theta / 4))


def _gibbs_rate(theta: Array, rate: Array) -> Array:
    """The angular velocity of a frame with the Gibbs vector θ/2 and its rate θ̇/2, in the frame's own axes."""
    return np.asarray((rate - cross(theta, rate) / 2) / (1 + theta @ theta / 4))


def _combine(parts: Array, factors: Array) -> Array:
    """Σ factorᵢ partᵢ over the first index."""
    total = parts[0] * 0 if len(parts) else parts.sum(axis=0)
    for part, factor in zip(parts, factors, strict=True):
        total = total + part * factor
    return np.asarray(total)


def _axials(products: Array) -> Array:
    """∫ a × b (…, 3) from ∫ a bᵀ (…, 3, 3)."""
    A = products
    return np.stack([A[..., 1, 2] - A[..., 2, 1], A[..., 2, 0] - A[..., 0, 2], A[..., 0, 1] - A[..., 1, 0]], axis=-1)


def _trace_minus(E: Array) -> Array:
    """tr(E) 1 − E of matrices (…, 3, 3)."""
    traces = E[..., 0, 0] + E[..., 1, 1] + E[..., 2, 2]
    return np.asarray(np.multiply.outer(traces, identity(3)) - E)
