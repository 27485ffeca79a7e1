"""Equilibria on contacts and at joint limits: the least potential with every gap open or closed, none negative.

What pushes against a contact or a limit is carried by it, and nothing pulls. At a configuration, those that touch carry
the forces f ≥ 0 that leave the least of r along the motions Z of the model's own rows,

    min | Zᵀ (r − Nᵀ f) |,   f ≥ 0          N: rows of the gaps

(non-negative least squares). Those with f > 0 are held for the next step of Newton's method on the manifold; what is
left of r is a direction in which no gap closes. A step that would close a gap ends where it does.

There is no friction in the search: a configuration that balances without it balances with it, and friction would make
a whole region of others, which only the way there can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize

from whippletree.analysis.balance import Balance, LimitStop, held_rows, stops_of
from whippletree.analysis.balance_search import LONGEST_SEARCH_STEP, SHORTEST_RADIUS, Point, Search
from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.errors import UnsupportedError

TOUCHES = 1e-9
"""Gap, m or rad, up to which a contact or a limit may carry; a step that ends at one comes closer than that."""

GAP_HALVINGS = 60
"""Of a step that ends at a gap: from a metre to rounding."""

ROUNDS_OUT = 10
"""Of corrections that lead a guess out of overlaps."""

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
        self.stops = stops_of(model)
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

    def held(self, balance: Balance, chosen: Sequence[int]) -> Balance:
        """The balance with some of them held."""
        contacts = [k for k in chosen if k < self.count]
        stops: list[LimitStop] = [self.stops[k - self.count] for k in chosen if k >= self.count]
        return balance.resting_on(contacts, stops)


class RestingSearch:
    """The search for one configuration."""

    def __init__(self, balance: Balance, tolerance: float) -> None:
        self.balance, self.tolerance = balance, tolerance
        self.supports = Supports(balance)

    def run(self, q: Array, iterations: int) -> Resting:
        """From one guess (1, nq) downhill, no gap negative."""
        q = self._led_out(q)
        radius, blocked = LONGEST_SEARCH_STEP, frozenset[int]()
        for count in range(iterations):
            carrying = self._carrying(q, blocked)
            search, point = self._held(q, carrying)
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
        best, stopped = self._stopped(search, point, search.step(point, np.array([radius]), fall, 1.0), carrying)
        if falling:
            step = search.step(point, np.array([radius]), fall, -1.0)
            other, others_stop = self._stopped(search, point, step, carrying)
            if other.V[0] < best.V[0]:
                best, stopped = other, others_stop
        if not search.is_better(point, best)[0]:
            # a step that a support stops at once: it is held from now on, whatever the forces say
            return point.q, radius / 4 if not stopped else radius, stopped
        return best.q, min(2 * radius, LONGEST_SEARCH_STEP), frozenset()

    def _stopped(
        self, search: Search, point: Point, step: Array, carrying: Sequence[int]
    ) -> tuple[Point, frozenset[int]]:
        """The state after a step, or where the first gap closes on the way; and which gap that is."""
        others = [k for k in range(len(self.supports.names)) if k not in carrying]

        def at(share: float) -> tuple[Array, Array]:
            moved = np.asarray(search.balance.evaluate("integrate", q=point.q, d=share * step))
            q = search.balance.closed(moved)
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
        f = self._pushed(q, touching)
        carries = f > CARRIES * f.max(initial=0.0)
        return [k for k, pushes in zip(touching, carries, strict=True) if pushes or k in blocked]

    def _pushed(self, q: Array, supports: Sequence[int]) -> Array:
        """f ≥ 0 of some supports that leave the least of r along what the model's own rows allow."""
        own = held_rows(self.balance.jacobian(q)).motions[0]
        N = self._rows(q, supports) @ own
        sizes = np.linalg.norm(N, axis=-1)
        scales = np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0)
        return np.asarray(_pushing_forces((N * scales[:, None]).T, own.T @ self.balance.pull(q)[0]) * scales)

    def _rows(self, q: Array, supports: Sequence[int]) -> Array:
        """N (supports, nv)."""
        rows = self.supports.held(self.balance, supports).jacobian(q)[0]
        return np.asarray(rows[len(self.balance.row_names) :])

    def _held(self, q: Array, carrying: Sequence[int]) -> tuple[Search, Point]:
        held = self.supports.held(self.balance, carrying)
        closed = held.closed(q)
        rank = self.balance.model.nv - held_rows(held.jacobian(closed)).motions.shape[-1]
        search = Search(held, True, self.tolerance, rank)
        return search, search.point(held, closed)

    def _forces(self, q: Array, carrying: Sequence[int]) -> Array:
        """Of all rows: the model's own carry with the least norm what the supports leave."""
        p = self._pushed(q, carrying)
        own = held_rows(self.balance.jacobian(q))
        left = self.balance.pull(q)[0] - self._rows(q, carrying).T @ p
        return np.concatenate([own.inverse[0].T @ left, p])

    def _led_out(self, q: Array) -> Array:
        """The guess without overlaps, by least-norm corrections."""
        q, held = self.balance.closed(q), set[int]()
        for _ in range(ROUNDS_OUT):
            inside = {k for k, gap in enumerate(self.supports.gaps(q)[0]) if gap < -TOUCHES / 2}
            if not inside:
                return q
            held |= inside  # what was led out once is not to come in again
            q = self.supports.held(self.balance, sorted(held)).closed(q)
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
