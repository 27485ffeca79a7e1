"""Running bounds on the rounding errors of the recursions that form M and c, body by body. Plain floats.

Every 3-vector of a recursion carries one number: a bound on the length of its error. A rotation keeps it, a shift by
p adds p times that of the angular part, and each step adds ``STEP_ROUNDING`` units of rounding of the largest terms
that it sums. Bounds on vectors instead of on scalars are what keeps this useful: entry by entry, a rotation may grow a
bound by √2 at each joint, which means nothing any more after sixty of them.

The constant is of the probabilistic kind (Higham & Mary 2019): rounding errors of a step hardly ever add up in the
worst way. It was chosen on the ensemble of docs/conditioning.md, and every measured error there is below the bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.accuracy.measures import EPS
from whippletree.arithmetic.arrays import Array
from whippletree.tree import inertia, inverse
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field

UNIT = EPS / 2
"""Largest relative error of one operation."""

STEP_ROUNDING = 1.5
"""Units of rounding of its largest terms that one step of a recursion commits."""


class VectorSizes(NamedTuple):
    """Lengths of the angular and linear part of a vector of motions or forces."""

    angular: float
    linear: float

    @staticmethod
    def of(x: Any) -> VectorSizes:
        """Of a six-vector; 0 stands for a vector of zeros."""
        flat = np.zeros(6) if np.ndim(x) == 0 else np.asarray(x, dtype=float)
        return VectorSizes(float(np.linalg.norm(flat[:3])), float(np.linalg.norm(flat[3:])))

    def __add__(self, other: Any) -> VectorSizes:
        return VectorSizes(self.angular + other.angular, self.linear + other.linear)

    def times(self, factor: float) -> VectorSizes:
        """All of it, scaled."""
        return VectorSizes(self.angular * factor, self.linear * factor)

    def as_motion(self, p: float) -> VectorSizes:
        """Seen from a frame at distance p: the linear part gains."""
        return VectorSizes(self.angular, self.linear + p * self.angular)

    def as_force(self, p: float) -> VectorSizes:
        """About a point at distance p: the moment gains."""
        return VectorSizes(self.angular + p * self.linear, self.linear)

    def along(self, H: VectorSizes) -> float:
        """What it can be along a direction of those lengths."""
        return H.angular * self.angular + H.linear * self.linear


NONE = VectorSizes(0.0, 0.0)


class Weights(NamedTuple):
    """Sizes of an inertia: mass, first moment, rotational inertia."""

    mass: float
    moment: float
    rotation: float

    @staticmethod
    def of(R: Any) -> Weights:
        return Weights(
            abs(float(R.mass)),
            float(np.linalg.norm(np.asarray(R.moment, dtype=float))),
            float(np.linalg.norm(np.asarray(R.rotation, dtype=float))),
        )

    def __add__(self, other: Any) -> Weights:
        return Weights(self.mass + other.mass, self.moment + other.moment, self.rotation + other.rotation)

    def times(self, factor: float) -> Weights:
        return Weights(self.mass * factor, self.moment * factor, self.rotation * factor)

    def carried(self, p: float) -> Weights:
        """About a point at distance p."""
        return Weights(self.mass, self.moment + p * self.mass, self.rotation + 2 * p * self.moment + p * p * self.mass)

    def on(self, V: VectorSizes) -> VectorSizes:
        """The wrench of an acceleration of those sizes."""
        return VectorSizes(
            self.rotation * V.angular + self.moment * V.linear, self.moment * V.angular + self.mass * V.linear
        )


def offsets(links: Field) -> list[float]:
    """|p| of every edge."""
    return [float(np.linalg.norm(np.asarray(link.X.p, dtype=float))) for link in links]


def directions(links: Field) -> list[list[VectorSizes]]:
    """Sizes of the columns of H*, joint by joint."""
    return [[VectorSizes.of(column) for column in link.H.T] for link in links]


def mass_matrix_rounding(m: Mechanism, links: Field) -> Array:
    """|ΔM| (nv, nv): what composite inertias and their projections may be wrong by."""
    tree = m.tree
    if tree.model.is_flexible:
        return _entry_rounding(m, inertia.mass_matrix(tree, m.sweep, links).astype(float))
    p, H = offsets(links), directions(links)
    R = [Weights.of(x) for x in inertia.composite_inertias(m.sweep, links)]
    errors = [Weights(0.0, 0.0, 0.0)] * len(links)
    result = np.zeros((tree.model.nv, tree.model.nv))
    for k in reversed(range(len(links))):
        errors[k] = errors[k] + R[k].times(UNIT)
        parent = tree.parents[k]
        if parent >= 0:
            errors[parent] = errors[parent] + errors[k].carried(p[k]) + R[k].carried(p[k]).times(STEP_ROUNDING * UNIT)
    for k in range(len(links)):
        for i, h in enumerate(H[k]):
            force, error = R[k].on(h), errors[k].on(h) + R[k].on(h).times(STEP_ROUNDING * UNIT)
            column = tree.v_slices[k].start + i
            below = k
            for j in tree.path(k):
                if j != k:
                    error = error.as_force(p[below]) + force.as_force(p[below]).times(STEP_ROUNDING * UNIT)
                    force = force.as_force(p[below])
                    below = j
                rows = [error.along(other) for other in H[j]]
                result[tree.v_slices[j], column] = result[column, tree.v_slices[j]] = rows
    return result


class ForceRounding(NamedTuple):
    """Of the Newton–Euler recursion."""

    efforts: Array
    """|ΔT| (nv,)."""
    twists: list[VectorSizes]
    """Bounds on the error of V, body by body."""
    biases: list[tuple[VectorSizes, VectorSizes]]
    """Bounds on the errors of a and b, body by body."""
    accelerations: list[VectorSizes]
    """Bounds on the error of α, body by body."""


def inverse_dynamics_rounding(m: Mechanism, links: Field, v: Array, qdd: Array) -> ForceRounding:
    """What inverse dynamics of accelerations qdd (nv,) may be wrong by; qdd = 0 for the bias c."""
    if m.tree.model.is_flexible:
        return _flexible_forces(m, links, qdd)
    parents, p, H = m.tree.parents, offsets(links), directions(links)
    alphas = inverse.accelerations(m.sweep, links, m.velocities(qdd.astype(object)), m.base)
    loads = inverse.loads(m.sweep, links, m.velocities(qdd.astype(object)), m.base)
    twists, biases, moved = _outwards(m, links, p, v, qdd, alphas)
    forces: list[VectorSizes] = [NONE] * len(links)
    efforts = np.zeros(m.tree.model.nv)
    for k in reversed(range(len(links))):
        own = Weights.of(links[k].M)
        size = VectorSizes.of(alphas[k])
        local = own.on(size) + VectorSizes.of(links[k].b) + VectorSizes.of(loads[k].force)
        forces[k] = forces[k] + own.on(moved[k]) + biases[k][1] + local.times(STEP_ROUNDING * UNIT)
        if parents[k] >= 0:
            passed = VectorSizes.of(loads[k].force).as_force(p[k]).times(STEP_ROUNDING * UNIT)
            forces[parents[k]] = forces[parents[k]] + forces[k].as_force(p[k]) + passed
        rotor = abs(float(links[k].J)) * np.abs(qdd[m.tree.v_slices[k]]) * UNIT
        efforts[m.tree.v_slices[k]] = [forces[k].along(h) for h in H[k]] + rotor
    return ForceRounding(efforts, twists, biases, moved)


def _entry_rounding(m: Mechanism, M: Array) -> Array:
    """|ΔM| of a model with flexible bodies: every entry is a sum along a path of terms of the size √(Mᵢᵢ Mⱼⱼ)."""
    root = np.sqrt(np.abs(np.diag(M)))
    return np.asarray(_path_length(m) * STEP_ROUNDING * UNIT * np.outer(root, root))


def _flexible_forces(m: Mechanism, links: Field, qdd: Array) -> ForceRounding:
    """Bounds from the sizes of what is summed up along a path, body by body: wrenches through their joints."""
    given = m.velocities(qdd.astype(object))
    unit = _path_length(m) * STEP_ROUNDING * UNIT
    alphas = inverse.accelerations(m.sweep, links, given, m.base)
    loads = inverse.loads(m.sweep, links, given, m.base)
    efforts = np.zeros(m.tree.model.nv)
    for k, (link, load) in enumerate(zip(links, loads, strict=True)):
        own = np.abs(np.asarray(load.force, dtype=float)) + np.abs(np.asarray(link.b, dtype=float))
        efforts[m.tree.v_slices[k]] = unit * (np.abs(np.asarray(link.H, dtype=float)).T @ own)
    moved = [VectorSizes.of(alpha[:6]).times(unit) for alpha in alphas]
    twists = [VectorSizes.of(link.V[:6]).times(unit) for link in links]
    return ForceRounding(efforts, twists, [(NONE, NONE)] * len(links), moved)


def _path_length(m: Mechanism) -> int:
    return max((len(m.tree.path(k)) for k in range(len(m.tree.nodes))), default=1)


def _outwards(
    m: Mechanism, links: Field, p: list[float], v: Array, qdd: Array, alphas: Field
) -> tuple[list[VectorSizes], list[tuple[VectorSizes, VectorSizes]], list[VectorSizes]]:
    """Bounds on twists, on the terms a and b that they cause, and on accelerations."""
    twists: list[VectorSizes] = []
    biases: list[tuple[VectorSizes, VectorSizes]] = []
    moved: list[VectorSizes] = []
    for k, (parent, link) in enumerate(zip(m.tree.parents, links, strict=True)):
        part = m.tree.v_slices[k]
        relative = VectorSizes.of(np.asarray(link.H, dtype=float) @ v[part])
        above = VectorSizes.of(links[parent].V) if parent >= 0 else NONE
        error = twists[parent].as_motion(p[k]) if parent >= 0 else NONE
        error = error + (above.as_motion(p[k]) + relative).times(STEP_ROUNDING * UNIT)
        twists.append(error)
        V = VectorSizes.of(link.V)
        momentum, shaken = Weights.of(link.M).on(V), Weights.of(link.M).on(error)
        a = _crossed(error, relative) + _crossed(V, relative).times(STEP_ROUNDING * UNIT)
        b = _forced(error, momentum) + _forced(V, shaken) + _forced(V, momentum).times(STEP_ROUNDING * UNIT)
        biases.append((a, b))
        carried = (VectorSizes.of(alphas[parent]) if parent >= 0 else VectorSizes.of(m.base)).as_motion(p[k])
        step = VectorSizes.of(np.asarray(link.H, dtype=float) @ qdd[part])
        before = moved[parent].as_motion(p[k]) if parent >= 0 else NONE
        moved.append(before + a + (carried + VectorSizes.of(link.a) + step).times(STEP_ROUNDING * UNIT))
    return twists, biases, moved


def _crossed(V: VectorSizes, U: VectorSizes) -> VectorSizes:
    """Sizes of V × U of motions."""
    return VectorSizes(V.angular * U.angular, V.angular * U.linear + V.linear * U.angular)


def _forced(V: VectorSizes, f: VectorSizes) -> VectorSizes:
    """Sizes of V ×* f of a motion and a force."""
    return VectorSizes(V.angular * f.angular + V.linear * f.linear, V.angular * f.linear)
