"""The search for configurations in which forces balance along every motion that the rows allow.

    Zᵀ r = 0,   r = gravity(q) − τ(q)          K = Zᵀ (∂r/∂q − ∂(Aᵀ f)/∂q) Z

Newton's method with a trust region on the manifold, for many configurations at once: downhill with the size of every
curvature where the loads have a potential, else towards the nearest balance. A saddle is left along its downward
direction.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import scipy.linalg

from whippletree.analysis.balance import CLOSED_BALANCE, Balance, functions_of, held_rows
from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.exploration import generic_configurations
from whippletree.constraints.loop_closure import Closure, attainable, close_loops
from whippletree.tree.mechanism import Mechanism

NEUTRAL_STIFFNESS = 1e-9
"""Stiffness relative to the terms that meet in it below which a direction counts as neutral."""

ELSEWHERE = 1e-4
"""Weight, in NEUTRAL_STIFFNESS, of the stiffness that weights and loads could have elsewhere: 1e-13 of it is rounding.
"""

LONGEST_SEARCH_STEP = 0.5
"""Largest step, rad or m: beyond, a quadratic model of the potential means little."""

CLEAR_CHART = 0.05
"""Smallest singular value of the chosen rows of a basis at which motions may be written by these coordinates."""

LEVEL = 1e-12
"""Change of the potential, relative to it and to the forces times a metre, that may be rounding."""

STILL_CLOSED = 1e-8
"""Residual of a loop, m or rad, that a step may leave: more is another branch, or a loop that cannot close there."""

SHORTEST_RADIUS = 1e-14
"""Trust radius, rad or m, at which no step helps any more."""


class Point:
    """Everything that a step and a judgement need at the configurations of a flat batch.

    Coordinates are scaled by their own stiffness, so that a hair spring counts beside a car's, and motions are made as
    local as they can be, so that each is compared with the forces that meet in it.
    """

    def __init__(self, balance: Balance, q: Array, rank: int, *, potential: bool) -> None:
        self.q = np.array(q)
        still = np.zeros((len(q), balance.model.nv))
        tau, weight = balance.joint_forces(q, still), np.asarray(balance.evaluate("gravity", q=q))
        tree = np.asarray(balance.evaluate("gravity_derivatives", q=q))
        loads = balance.joint_force_slopes(q, still)[0]
        terms, A, r = np.abs(tree) + np.abs(loads), balance.jacobian(q), weight - tau
        possible = _possible_forces(balance, q)
        D = _own_scales(terms.sum(axis=-1) + np.abs(weight) + np.abs(tau) + possible)
        rows = held_rows(A * D[:, None, :], rank)
        self.Z = D[..., None] * _localised(rows.motions)
        self.r, self.g = r, apply(transposed(self.Z), r)
        f = apply(transposed(rows.inverse), D * r)
        bent = np.einsum("nmjk,nm->njk", balance.jacobian_slopes(q), f)
        self.K = transposed(self.Z) @ (tree - loads - bent) @ self.Z
        terms = terms + np.abs(bent)
        reach = np.abs(self.Z)
        self.sizes = (transposed(reach) @ terms @ reach).max(axis=(-2, -1), initial=0.0)
        # where nothing but rounding meets, beside what weights and loads could do elsewhere
        elsewhere = np.einsum("...ik,...i->...k", reach * reach, possible).max(axis=-1, initial=0.0)
        self.sizes = np.maximum(self.sizes, ELSEWHERE * elsewhere)
        # what meets in the balance, and what would meet elsewhere: a hanging pendulum's own forces all vanish
        carried = np.abs(apply(transposed(A), f))
        meeting = np.maximum.reduce([np.abs(weight), np.abs(tau), carried, terms.sum(axis=-1), possible])
        self.meeting = apply(transposed(reach), meeting)
        self.imbalance = _ratio(np.abs(self.g), self.meeting).max(axis=-1, initial=0.0)
        self.scale = meeting.max(axis=-1, initial=0.0)
        self.V = np.array(balance.potential(q)) if potential else np.sum(self.g * self.g, axis=-1) / 2
        self.gap = np.abs(balance.residual(q)).max(axis=-1, initial=0.0)

    def taken(self, chosen: Array) -> Point:
        """Some of the configurations, by number or by mask."""
        found = copy(self)
        vars(found).update({name: values[chosen] for name, values in vars(self).items()})
        return found

    def put(self, where: Array, other: Point) -> None:
        """Take over the other's configurations at these places."""
        for name, values in vars(self).items():
            values[where] = getattr(other, name)


class Search:
    """The search for equilibria of a flat batch; those that have arrived leave it."""

    def __init__(self, balance: Balance, downhill: bool, tolerance: float, rank: int | None = None) -> None:
        self.balance, self.downhill, self.tolerance = balance, downhill, tolerance
        self.rank = _usual_rank(balance) if rank is None else rank

    def assembled(self, q: Array) -> Array:
        """One guess with its loops closed, however far they are open; open parameters and switches count."""
        balance, model = self.balance, self.balance.model
        if not balance.kept_rows or np.abs(balance.residual(q)).max(initial=0.0) <= CLOSED_BALANCE:
            return q
        if balance.opened or not np.all(balance.active != 0):
            return q
        closure = Closure(Mechanism.of(model), constraint_set(model).demands, balance.t)
        return close_loops(closure, q[0], {}, attainable(model))[None]

    def run(self, q: Array, iterations: int) -> tuple[Point, int]:
        """The configurations that were reached, and in how many steps; a last one takes what rounding leaves."""
        point, count = self._searched(q, iterations)
        left = np.flatnonzero(self.rests(point))
        here, none = point.taken(left), np.zeros(len(left), dtype=bool)
        last = self.trial(left, here, self.step(here, np.full(len(left), LONGEST_SEARCH_STEP), none, 1.0))
        closer = last.imbalance < here.imbalance
        point.put(left[closer], last.taken(closer))
        return point, count

    def _searched(self, q: Array, iterations: int) -> tuple[Point, int]:
        point = self.point(self.balance, self.balance.closed(q))
        radius, left = np.full(len(q), LONGEST_SEARCH_STEP), np.arange(len(q))
        for count in range(iterations):
            here = point.taken(left)
            resting = self.rests(here)
            falling = resting & self.is_saddle(here) if self.downhill else np.zeros_like(resting)
            moving = (~resting | falling) & (radius[left] > SHORTEST_RADIUS)
            left, here, falling = left[moving], here.taken(moving), falling[moving]
            if not len(left):
                return point, count
            best = self.trial(left, here, self.step(here, radius[left], falling, 1.0))
            if np.any(falling):
                other = self.trial(left, here, self.step(here, radius[left], falling, -1.0))
                lower = falling & (other.V < best.V)
                best.put(lower, other.taken(lower))
            better = self.is_better(here, best)
            radius[left] = np.where(better, np.minimum(2 * radius[left], LONGEST_SEARCH_STEP), radius[left] / 4)
            point.put(left[better], best.taken(better))
        return point, iterations

    def has_branched(self, point: Point) -> bool:
        """Whether one configuration has led to where rows depend on each other; then it is searched on with its rank.

        Where two branches of a linkage meet, the search may follow the one of more freedoms.
        """
        own = self.balance.model.nv - held_rows(self.balance.jacobian(point.q)).motions.shape[-1]
        found, self.rank = own < self.rank, own
        return bool(found)

    def point(self, balance: Balance, q: Array) -> Point:
        """All quantities of configurations whose loops are closed."""
        return Point(balance, q, self.rank, potential=self.downhill)

    def rests(self, point: Point) -> Array:
        """Where forces balance within the tolerance."""
        return np.asarray(point.imbalance <= self.tolerance)

    def is_saddle(self, point: Point) -> Array:
        """Where the potential falls along some motion to second order."""
        if not point.K.shape[-1]:
            return np.zeros(point.V.shape, dtype=bool)
        lowest = np.linalg.eigvalsh(symmetric(point.K))[..., 0]
        return np.asarray(lowest < -NEUTRAL_STIFFNESS * point.sizes)

    def step(self, point: Point, radius: Array, falling: Array, sign: float) -> Array:
        """Newton's step with the size of every curvature; from a saddle, along its downward direction."""
        if not point.Z.shape[-1]:
            return np.zeros(point.Z.shape[:-1])
        floor = NEUTRAL_STIFFNESS * point.sizes[..., None]
        if self.downhill:
            values, U = np.linalg.eigh(symmetric(point.K))
            along = apply(transposed(U), point.g)
            curvature = np.abs(values)
            # where the potential is flat and level there is nowhere to go; where it slopes, go as far as allowed
            steep = np.where(curvature > floor, curvature, np.inf)
            y = -along / steep
            sloping = (curvature <= floor) & (
                np.abs(along) > self.tolerance * apply(transposed(np.abs(U)), point.meeting)
            )
            y = np.where(sloping, -np.sign(along) * radius[..., None], y)
            step = apply(U, y)
            step = np.where(falling[..., None], sign * radius[..., None] * U[..., :, 0], step)
        else:
            U, s, Vt = np.linalg.svd(point.K)
            inverse = np.where(s > floor, 1 / np.where(s > floor, s, 1.0), 0.0)
            step = -apply(transposed(Vt), inverse * apply(transposed(U), point.g))
        d = apply(point.Z, step)
        longest = np.abs(d).max(axis=-1, initial=0.0)
        shrink = np.where(longest > radius, radius / np.where(longest > 0, longest, 1.0), 1.0)
        return np.asarray(d * shrink[..., None])

    def trial(self, left: Array, point: Point, step: Array) -> Point:
        """All quantities after a step of some elements of the batch."""
        balance = self.balance.taken(left)
        moved = np.asarray(balance.evaluate("integrate", q=point.q, d=step))
        return self.point(balance, balance.closed(moved))

    def is_better(self, point: Point, trial: Point) -> Array:
        """Lower; or level, as far as rounding tells, and closer to a balance."""
        noise = LEVEL * (np.abs(point.V) + point.scale)
        fall = point.V - trial.V
        closed = trial.gap <= STILL_CLOSED
        lower = fall > (noise if self.downhill else 0.0)
        closer = (fall >= -noise) & (trial.imbalance < point.imbalance)
        return np.asarray(closed & (lower | closer) & np.isfinite(trial.imbalance))


def _possible_forces(balance: Balance, q: Array) -> Array:
    """About what weights and loads could exert on every joint (n, nv), wherever they point now: rounding is beside it.

    A mass m on a joint that feels its inertia m l² exerts m g l at most, which is g √(m · m l²).
    """
    model = balance.model
    masses = np.array([float(body.mass) for body in model.bodies])
    for k in reversed(range(len(masses))):
        if model.parents[k] >= 0:
            masses[model.parents[k]] += masses[k]
    freedoms = [kind.nv for kind in model.joint_types]
    inertia = np.abs(np.asarray(balance.evaluate("diagonal_of_mass_matrix", q=q)))
    pull = float(np.linalg.norm(np.asarray(model.gravity, dtype=float)))
    total = pull * np.sqrt(np.repeat(masses, freedoms) * inertia)
    for loads in (balance.forces, balance.wrenches):
        for frame, load in loads.items():
            J = np.asarray(balance.evaluate("jacobian", frame, q=q))
            total = total + np.linalg.norm(J, axis=-2) * np.linalg.norm(load, axis=-1)[..., None]
    return np.asarray(total)


def _own_scales(stiffness: Array) -> Array:
    """1 / √stiffness of every coordinate (n, nv); those without any are given the others' mean."""
    some = stiffness > 0
    mean = stiffness.sum(axis=-1, keepdims=True) / np.maximum(some.sum(axis=-1, keepdims=True), 1)
    return np.asarray(1 / np.sqrt(np.where(some, stiffness, np.where(mean > 0, mean, 1.0))))


def _localised(Z: Array) -> Array:
    """Bases (n, nv, d) of the same motions with ones at some coordinates: parts that do not touch stay apart."""
    nv, d = Z.shape[-2:]
    if not len(Z) or not 0 < d < nv:
        return Z
    chosen = scipy.linalg.qr(Z[0].T, pivoting=True, mode="r")[1][:d]
    part = Z[:, chosen, :]
    smallest = np.abs(part[:, 0, 0]) if d == 1 else np.linalg.svd(part, compute_uv=False)[:, -1]
    clear = smallest > CLEAR_CHART
    result = np.array(Z)
    local = Z[clear] @ np.linalg.inv(part[clear])
    result[clear] = local / np.linalg.norm(local, axis=-2, keepdims=True)
    return result


def _ratio(x: Array, y: Array) -> Array:
    """x / y, 0 where both are 0."""
    return np.asarray(x / np.where(y > 0, y, 1.0))


def _usual_rank(balance: Balance) -> int:
    """Of the rows at a configuration that has nothing special about it."""
    if not balance.kept_rows:
        return 0
    q = np.stack(generic_configurations(constraint_set(balance.model), 1))
    A = np.asarray(functions_of(balance.model).constraint_jacobian(**_timed(balance, q)))[..., balance.kept_rows, :]
    return int(balance.model.nv - held_rows(A).motions.shape[-1])


def _timed(balance: Balance, q: Array) -> dict[str, Any]:
    return {"q": q, "t": balance.t} if constraint_set(balance.model).timed else {"q": q}


def symmetric(K: Array) -> Array:
    """(K + Kᵀ) / 2."""
    return np.asarray((K + transposed(K)) / 2)


def transposed(matrix: Array) -> Array:
    """The last two dimensions exchanged."""
    return np.swapaxes(matrix, -1, -2)


def apply(matrix: Array, x: Array) -> Array:
    """Matrices times vectors, one each."""
    return np.asarray((matrix @ x[..., None])[..., 0])
