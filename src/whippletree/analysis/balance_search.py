"""The search for configurations in which forces balance along every motion that the rows allow.

    Zᵀ r = 0,   r = gravity(q) − τ(q)          K = Zᵀ (∂r/∂q − ∂(Aᵀ f)/∂q) Z

Newton's method with a trust region on the manifold, for many configurations at once: downhill with the size of every
curvature where the loads have a potential, else towards the nearest balance. A saddle is left along its downward
direction.

On contacts and at joint limits the least potential is sought with every gap open or closed, none negative. What pushes
against a contact or a limit is carried by it, and nothing pulls. At a configuration, those that touch carry
the forces f ≥ 0 that leave the least of r along the motions Z of the model's own rows,

    min | Zᵀ (r − Nᵀ f) |,   f ≥ 0          N: rows of the gaps

(non-negative least squares). Those with f > 0 are held for the next step of Newton's method on the manifold; what is
left of r is a direction in which no gap closes. A step that would close a gap ends where it does.

There is no friction in the search: a configuration that balances without it balances with it, and friction would make
a whole region of others, which only the way there can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize

from whippletree.analysis.balance import CLOSED_BALANCE, Balance, functions_of, held_rows
from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.loop_closure import Closure, attainable, close_loops
from whippletree.constraints.singular.exploration import generic_configurations
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.contact.kinematics.joint_contacts import Stop, joint_stops
from whippletree.errors import UnsupportedError
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
        self.Z = D[..., None] * _localise_basis(rows.motions)
        self.r, self.g = r, apply(transpose(self.Z), r)
        f = apply(transpose(rows.inverse), D * r)
        bent = np.einsum("nmjk,nm->njk", balance.jacobian_slopes(q), f)
        self.K = transpose(self.Z) @ (tree - loads - bent) @ self.Z
        terms = terms + np.abs(bent)
        reach = np.abs(self.Z)
        self.sizes = (transpose(reach) @ terms @ reach).max(axis=(-2, -1), initial=0.0)
        # where nothing but rounding meets, beside what weights and loads could do elsewhere
        elsewhere = np.einsum("...ik,...i->...k", reach * reach, possible).max(axis=-1, initial=0.0)
        self.sizes = np.maximum(self.sizes, ELSEWHERE * elsewhere)
        # what meets in the balance, and what would meet elsewhere: a hanging pendulum's own forces all vanish
        carried = np.abs(apply(transpose(A), f))
        meeting = np.maximum.reduce([np.abs(weight), np.abs(tau), carried, terms.sum(axis=-1), possible])
        self.meeting = apply(transpose(reach), meeting)
        self.imbalance = _ratio(np.abs(self.g), self.meeting).max(axis=-1, initial=0.0)
        self.scale = meeting.max(axis=-1, initial=0.0)
        self.V = np.array(balance.potential(q)) if potential else np.sum(self.g * self.g, axis=-1) / 2
        self.gap = np.abs(balance.residual(q)).max(axis=-1, initial=0.0)

    def select(self, chosen: Array) -> Point:
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

    def assemble(self, q: Array) -> Array:
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
        point, count = self._iterate(q, iterations)
        left = np.flatnonzero(self.rests(point))
        here, none = point.select(left), np.zeros(len(left), dtype=bool)
        last = self.trial(left, here, self.step(here, np.full(len(left), LONGEST_SEARCH_STEP), none, 1.0))
        closer = last.imbalance < here.imbalance
        point.put(left[closer], last.select(closer))
        return point, count

    def _iterate(self, q: Array, iterations: int) -> tuple[Point, int]:
        point = self.point(self.balance, self.balance.close_loops(q))
        radius, left = np.full(len(q), LONGEST_SEARCH_STEP), np.arange(len(q))
        for count in range(iterations):
            here = point.select(left)
            resting = self.rests(here)
            falling = resting & self.is_saddle(here) if self.downhill else np.zeros_like(resting)
            moving = (~resting | falling) & (radius[left] > SHORTEST_RADIUS)
            left, here, falling = left[moving], here.select(moving), falling[moving]
            if not len(left):
                return point, count
            best = self.trial(left, here, self.step(here, radius[left], falling, 1.0))
            if np.any(falling):
                other = self.trial(left, here, self.step(here, radius[left], falling, -1.0))
                lower = falling & (other.V < best.V)
                best.put(lower, other.select(lower))
            better = self.is_better(here, best)
            radius[left] = np.where(better, np.minimum(2 * radius[left], LONGEST_SEARCH_STEP), radius[left] / 4)
            point.put(left[better], best.select(better))
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
            along = apply(transpose(U), point.g)
            curvature = np.abs(values)
            # where the potential is flat and level there is nowhere to go; where it slopes, go as far as allowed
            steep = np.where(curvature > floor, curvature, np.inf)
            y = -along / steep
            sloping = (curvature <= floor) & (
                np.abs(along) > self.tolerance * apply(transpose(np.abs(U)), point.meeting)
            )
            y = np.where(sloping, -np.sign(along) * radius[..., None], y)
            step = apply(U, y)
            step = np.where(falling[..., None], sign * radius[..., None] * U[..., :, 0], step)
        else:
            U, s, Vt = np.linalg.svd(point.K)
            inverse = np.where(s > floor, 1 / np.where(s > floor, s, 1.0), 0.0)
            step = -apply(transpose(Vt), inverse * apply(transpose(U), point.g))
        d = apply(point.Z, step)
        longest = np.abs(d).max(axis=-1, initial=0.0)
        shrink = np.where(longest > radius, radius / np.where(longest > 0, longest, 1.0), 1.0)
        return np.asarray(d * shrink[..., None])

    def trial(self, left: Array, point: Point, step: Array) -> Point:
        """All quantities after a step of some elements of the batch."""
        balance = self.balance.select(left)
        moved = np.asarray(balance.evaluate("integrate", q=point.q, d=step))
        return self.point(balance, balance.close_loops(moved))

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


def _localise_basis(Z: Array) -> Array:
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
    """Rank of the rows at a configuration that has nothing special about it."""
    if not balance.kept_rows:
        return 0
    q = np.stack(generic_configurations(constraint_set(balance.model), 1))
    A = np.asarray(functions_of(balance.model).constraint_jacobian(**_state_arguments(balance, q)))[
        ..., balance.kept_rows, :
    ]
    return int(balance.model.nv - held_rows(A).motions.shape[-1])


def _state_arguments(balance: Balance, q: Array) -> dict[str, Any]:
    return {"q": q, "t": balance.t} if constraint_set(balance.model).timed else {"q": q}


def symmetric(K: Array) -> Array:
    """(K + Kᵀ) / 2."""
    return np.asarray((K + transpose(K)) / 2)


def transpose(matrix: Array) -> Array:
    """The last two dimensions exchanged."""
    return np.swapaxes(matrix, -1, -2)


def apply(matrix: Array, x: Array) -> Array:
    """Matrices times vectors, one each."""
    return np.asarray((matrix @ x[..., None])[..., 0])


# --- on contacts and at joint limits: the least potential with every gap open or closed -------------------------------


TOUCHES = 1e-9
"""Gap, m or rad, up to which a contact or a limit may carry; a step that ends at one comes closer than that."""

GAP_HALVINGS = 60
"""Halvings of a step that ends at a gap: from a metre to rounding."""

ROUNDS_OUT = 10
"""Rounds of corrections that lead a guess out of overlaps."""

CARRIES = 1e-12
"""Share of the largest force below which a contact carries nothing."""


class Resting(NamedTuple):
    """Where one search led."""

    search: Search
    """With what carries there held."""
    point: Point
    forces: Array
    """f of the rows of ``search.balance``, (m,): of contacts and limits, none is negative."""
    iterations: int


class Supports:
    """The contacts and joint limits of a model, as gaps that must not be negative."""

    def __init__(self, balance: Balance) -> None:
        self.balance = balance
        model = balance.model
        self.stops = joint_stops(model)
        self.count = len(contact_set(model).names) if model.contacts else 0
        names = contact_set(model).names if model.contacts else ()
        self.names = (*names, *[stop.name for stop in self.stops])

    def gaps(self, q: Array) -> Array:
        """(..., supports), m or rad."""
        parts = [np.zeros((*q.shape[:-1], 0))]
        if self.count:
            parts.append(np.asarray(self.balance.evaluate("contact_gaps", q=q)))
        parts += [stop.gap(q)[..., None] for stop in self.stops]
        return np.concatenate(parts, axis=-1)

    def balance_on(self, balance: Balance, chosen: Sequence[int]) -> Balance:
        """The balance with some of them held."""
        contacts = [k for k in chosen if k < self.count]
        stops: list[Stop] = [self.stops[k - self.count] for k in chosen if k >= self.count]
        return balance.resting_on(contacts, stops)


class RestingSearch:
    """The search for one configuration."""

    def __init__(self, balance: Balance, tolerance: float) -> None:
        self.balance, self.tolerance = balance, tolerance
        self.supports = Supports(balance)

    def run(self, q: Array, iterations: int) -> Resting:
        """From one guess (1, nq) downhill, no gap negative."""
        q = self._lead_out(q)
        radius, blocked = LONGEST_SEARCH_STEP, frozenset[int]()
        for count in range(iterations):
            carrying = self._carrying(q, blocked)
            search, point = self._search_on_supports(q, carrying)
            resting, saddle = bool(search.rests(point)[0]), bool(search.is_saddle(point)[0])
            if (resting and not saddle) or radius <= SHORTEST_RADIUS:
                return Resting(search, point, self._forces(point.q, carrying), count)
            q, radius, blocked = self._advance(search, point, radius, resting, carrying)
        return Resting(search, point, self._forces(point.q, carrying), iterations)

    def _advance(
        self, search: Search, point: Point, radius: float, falling: bool, carrying: Sequence[int]
    ) -> tuple[Array, float, frozenset[int]]:
        """One step; from a saddle to both sides. Where it ends, the next radius, and supports that stopped it."""
        fall = np.array([falling])
        best, stopped = self._stop_at_gap(search, point, search.step(point, np.array([radius]), fall, 1.0), carrying)
        if falling:
            step = search.step(point, np.array([radius]), fall, -1.0)
            other, others_stop = self._stop_at_gap(search, point, step, carrying)
            if other.V[0] < best.V[0]:
                best, stopped = other, others_stop
        if not search.is_better(point, best)[0]:
            # a step that a support stops at once: it is held from now on, whatever the forces say
            return point.q, radius / 4 if not stopped else radius, stopped
        return best.q, min(2 * radius, LONGEST_SEARCH_STEP), frozenset()

    def _stop_at_gap(
        self, search: Search, point: Point, step: Array, carrying: Sequence[int]
    ) -> tuple[Point, frozenset[int]]:
        """The state after a step, or where the first gap closes on the way; and which gap that is."""
        others = [k for k in range(len(self.supports.names)) if k not in carrying]

        def at(share: float) -> tuple[Array, Array]:
            moved = np.asarray(search.balance.evaluate("integrate", q=point.q, d=share * step))
            q = search.balance.close_loops(moved)
            return q, self.supports.gaps(q)[0][others]

        q, gaps = at(1.0)
        if not np.any(gaps < -TOUCHES / 2):
            return search.point(search.balance, q), frozenset()
        low, high = 0.0, 1.0
        for _ in range(GAP_HALVINGS):
            share = (low + high) / 2
            _, gaps = at(share)
            low, high = (share, high) if not np.any(gaps < -TOUCHES / 2) else (low, share)
        q, gaps = at(low)
        stopped = frozenset(k for k, gap in zip(others, gaps, strict=True) if gap <= TOUCHES)
        return search.point(search.balance, q), stopped

    def _carrying(self, q: Array, blocked: frozenset[int]) -> list[int]:
        """The supports that touch and carry; ``blocked`` ones are held even if they carry nothing."""
        touching = [k for k, gap in enumerate(self.supports.gaps(q)[0]) if gap <= TOUCHES]
        f = self._support_forces(q, touching)
        carries = f > CARRIES * f.max(initial=0.0)
        return [k for k, pushes in zip(touching, carries, strict=True) if pushes or k in blocked]

    def _support_forces(self, q: Array, supports: Sequence[int]) -> Array:
        """f ≥ 0 of some supports that leave the least of r along what the model's own rows allow."""
        own = held_rows(self.balance.jacobian(q)).motions[0]
        N = self._rows(q, supports) @ own
        sizes = np.linalg.norm(N, axis=-1)
        scales = np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0)
        return np.asarray(_pushing_forces((N * scales[:, None]).T, own.T @ self.balance.pull(q)[0]) * scales)

    def _rows(self, q: Array, supports: Sequence[int]) -> Array:
        """N (supports, nv)."""
        rows = self.supports.balance_on(self.balance, supports).jacobian(q)[0]
        return np.asarray(rows[len(self.balance.row_names) :])

    def _search_on_supports(self, q: Array, carrying: Sequence[int]) -> tuple[Search, Point]:
        held = self.supports.balance_on(self.balance, carrying)
        closed = held.close_loops(q)
        rank = self.balance.model.nv - held_rows(held.jacobian(closed)).motions.shape[-1]
        search = Search(held, True, self.tolerance, rank)
        return search, search.point(held, closed)

    def _forces(self, q: Array, carrying: Sequence[int]) -> Array:
        """Forces of all rows: the model's own carry with the least norm what the supports leave."""
        p = self._support_forces(q, carrying)
        own = held_rows(self.balance.jacobian(q))
        left = self.balance.pull(q)[0] - self._rows(q, carrying).T @ p
        return np.concatenate([own.inverse[0].T @ left, p])

    def _lead_out(self, q: Array) -> Array:
        """The guess without overlaps, by least-norm corrections."""
        q, held = self.balance.close_loops(q), set[int]()
        for _ in range(ROUNDS_OUT):
            inside = {k for k, gap in enumerate(self.supports.gaps(q)[0]) if gap < -TOUCHES / 2}
            if not inside:
                return q
            held |= inside  # what was led out once is not to come in again
            q = self.supports.balance_on(self.balance, sorted(held)).close_loops(q)
        gaps = self.supports.gaps(q)[0]
        listed = ", ".join(f"{self.supports.names[k]} by {-gaps[k]:.3g}" for k in np.argsort(gaps)[:4] if gaps[k] < 0)
        raise UnsupportedError(
            f"equilibrium: the guess of model {self.balance.model.name!r} overlaps ({listed}, m or rad), and no "
            f"configuration near it is free of that: move the guess, or stops=False to ignore contacts and limits"
        )


def _pushing_forces(G: Array, b: Array) -> Array:
    """f ≥ 0 with the least |G f − b|; of many, those of least norm where none of them is negative."""
    shared = np.linalg.lstsq(G, b, rcond=CARRIES)[0]
    if np.all(shared >= -CARRIES * np.abs(shared).max(initial=0.0)):
        return np.maximum(shared, 0.0)
    return np.asarray(scipy.optimize.nnls(G, b)[0])
