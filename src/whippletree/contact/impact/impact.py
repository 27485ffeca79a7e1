"""Impacts of a mechanism: several contacts at once on the block matrix of document 000.

    M Δv = Aᵀ s + Jᵀ p,    A Δv = 0            so   Δv = M† Jᵀ p,   s = −A† Jᵀ p

with A the rows that hold through the impact (bilateral constraints, held massless motions) and J the contacts'. The law
sees G = J M† Jᵀ. Where all of a contact's rows stop, Δv = −A†ᵀ (A v⁻) and p = Λ† (A v⁻) with the contact's rows in A:
the impact of 000 is the plastic law with every contact sticking.

A contact on a part without mass has no G: any impulse would send the part off without bound. It needs none either:
such a *weightless* contact stops at once, its rows join A, and what it transmits to parts with mass is found with
them. Massless links lose no energy of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.linalg import null_spaces
from whippletree.constraints.singular.motions import massless_motions
from whippletree.contact.impact.laws import Law
from whippletree.errors import SingularSystemError

DEPENDENT_IMPACT = 1e-10
"""Relative size of a singular value below which rows count as dependent."""

DEAD_POINT = (
    "constraint rows depend on each other at this configuration (a dead point), so what contacts and dry joints do to "
    "it is not determined: start a little way off it, or with a velocity along the branch that is meant"
)
"""Why a block matrix without massless motions has no inverse."""

LEAVES_CONE = 1e-9
"""How far, relative to the largest impulse, a weightless contact's own may leave its cone."""


class Outcome(NamedTuple):
    """The outcome of an impact."""

    v: Array
    """Velocities after, (nv,)."""
    impulses: Array
    """On the contacts, N s, (k, 3): normal, tangents 1 and 2."""
    constraint_impulses: Array
    """On the rows of A, (m,)."""
    energy_lost: float
    """J"""


@dataclass(frozen=True, eq=False)
class Impact:
    """Contacts that touch, just before an impact."""

    M: Array
    """(n, n), may be singular."""
    A: Array
    """Rows that hold, independent, (m, n)."""
    J: Array
    """Contact rows, (3k, n)."""
    v: Array
    """Before, (n,)."""
    friction: Array
    restitution: Array
    _known: list[tuple[Law, Outcome]] = field(default_factory=list, init=False, repr=False)
    """What laws have made of it: an event asks, and its derivative again."""

    def resolve(self, law: Law) -> Outcome:
        """The velocities after, by a law.

        Of several weightless contacts as many stick as can: those that would have to pull, or to hold beyond their
        friction, are released, and must then separate.

        Raises:
            SingularSystemError: if the law has no answer, or no choice of weightless contacts can.
        """
        for known, outcome in self._known:
            if known is law:
                return outcome
        light = self.weightless()
        for count in range(len(light), -1, -1):
            for stuck in combinations(light, count):
                found = self._with(law, list(stuck), [i for i in light if i not in stuck])
                if found is not None:
                    self._known.append((law, found))
                    return found
        raise SingularSystemError(
            "contacts on parts without mass would have to pull, or to hold beyond their friction: what they do is not "
            "determined. Give the parts mass, or their contacts more friction."
        )

    def _with(self, law: Law, stuck: list[int], released: list[int]) -> Outcome | None:
        """The outcome with these weightless contacts stopped and those left alone; None if they cannot do that."""
        heavy = [i for i in range(len(self.friction)) if i not in stuck and i not in released]
        # a tangent along which nothing can move (planar models) has no row
        own = [3 * i + j for i in stuck for j in range(3) if np.any(self.J[3 * i + j])]
        kept = np.concatenate([self.A, self.J[own]])
        held = np.concatenate([kept, holding_rows(self.M, kept)])
        J = self._of(heavy)
        try:
            answer = response(self.M, held, J)
        except SingularSystemError:
            if stuck:
                return None
            raise
        # weightless contacts stop first; bilateral rows move on as they are prescribed
        change = np.zeros(len(held))
        change[len(self.A) : len(kept)] = -self.J[own] @ self.v
        start = answer.correction(change)
        v, p = self.v + start.a, np.zeros((len(self.friction), 3))
        if heavy:
            p[heavy] = law.impulses(answer.G, J @ v, self.friction[heavy], self.restitution[heavy])
            v = v + answer.W @ p[heavy].reshape(-1)
        reactions = start.f + answer.reaction(p[heavy].reshape(-1))
        p.reshape(-1)[own] = reactions[len(self.A) : len(kept)]
        if not self._possible(p, v, stuck, released):
            return None
        return Outcome(v, p, reactions[: len(self.A)], self._energy(self.v) - self._energy(v))

    def weightless(self) -> list[int]:
        """Contacts on parts without mass."""
        Z = massless_basis(self.M, self.A)
        rows = range(len(self.friction)) if Z.shape[1] else []
        return [i for i in rows if float(np.abs(self._rows(i) @ Z).max()) > DEPENDENT_IMPACT]

    def _rows(self, i: int) -> Array:
        return np.asarray(self.J[3 * i : 3 * i + 3])

    def _of(self, contacts: list[int]) -> Array:
        return np.concatenate([np.zeros((0, len(self.v))), *[self._rows(i) for i in contacts]])

    def _energy(self, v: Array) -> float:
        return float(v @ self.M @ v) / 2

    def _possible(self, p: Array, v: Array, stuck: list[int], released: list[int]) -> bool:
        """Whether weightless contacts that stick push within their cones, and those that were released separate."""
        momentum = float(np.abs(self.M @ self.v).max(initial=0.0))
        small = LEAVES_CONE * max(float(np.abs(p).max(initial=0.0)), momentum)
        speed = LEAVES_CONE * float(np.abs(self.J @ self.v).max(initial=0.0))
        pushing = all(
            p[i, 0] >= -small and np.hypot(*p[i, 1:]) <= self.friction[i] * max(p[i, 0], 0.0) + small for i in stuck
        )
        return pushing and all(self.J[3 * i] @ v >= -speed for i in released)


class Correction(NamedTuple):
    """Δv (n,) and the impulses of the rows (m,) that cause it."""

    a: Array
    f: Array


class Response(NamedTuple):
    """Effect of rows that hold on impulses."""

    W: Array
    """M† Jᵀ (n, 3k)."""
    G: Array
    """J M† Jᵀ (3k, 3k)."""
    F: Array
    """−A† Jᵀ (m, 3k): the rows' own impulses."""
    inverse: Array
    """Inverse of the block matrix [M −Aᵀ; A 0]."""
    n: int

    def correction(self, change: Array) -> Correction:
        """The least-energy Δv with A Δv = change: A†ᵀ change, and the impulses of the rows."""
        x = self.inverse[:, self.n :] @ change
        return Correction(x[: self.n], x[self.n :])

    def reaction(self, p: Array) -> Array:
        """Impulses of the rows under impulses p (3k,) of the contacts."""
        return np.asarray(self.F @ p)


def response(M: Array, A: Array, J: Array | None, compliance: Array | None = None) -> Response:
    """M† Jᵀ and J M† Jᵀ with the rows A holding, rigidly or with a compliance (m,).

    Raises:
        SingularSystemError: if the block matrix has no inverse: a massless motion that no row carries, or a dead point.
    """
    n = len(M)
    inverse = block_inverse(block_matrix(M, A, compliance=compliance), n)
    rows = np.zeros((0, n)) if J is None else J
    X = inverse[:, :n] @ rows.T
    G = rows @ X[:n]
    return Response(X[:n], (G + G.T) / 2, X[n:], inverse, n)


def responses(M: Array, A: Array, J: Array) -> Array:
    """M† Jᵀ (m, n, r) at m states at once: M (m, n, n), rows A that hold (m, a, n), rows J (m, r, n)."""
    m, r, n = J.shape
    right = np.zeros((m, n + A.shape[1], r))
    right[:, :n] = np.swapaxes(J, 1, 2)
    return np.linalg.solve(block_matrix(M, A), right)[:, :n]


def block_matrix(M: Array, A: Array, acting: Array | None = None, compliance: Array | None = None) -> Array:
    """K = [M −Eᵀ; A C] (..., n + r, n + r), of one state or many.

    Args:
        M: inertia, (..., n, n).
        A: rows that hold, (..., r, n).
        acting: E (..., r, n), along which the forces of the rows act; default: A itself.
        compliance: the diagonal of C for the first rows, (≤ r,); default: all are rigid.
    """
    *batch, r, n = A.shape
    K = np.zeros((*batch, n + r, n + r))
    K[..., :n, :n], K[..., :n, n:], K[..., n:, :n] = M, -np.swapaxes(A if acting is None else acting, -1, -2), A
    if compliance is not None:
        soft = range(n, n + len(compliance))
        K[..., soft, soft] = compliance
    return K


def block_inverse(K: Array, n: int) -> Array:
    """The inverse of a block matrix with its rows and columns brought to one size; the first ``n`` are the masses'.

    Raises:
        SingularSystemError: where there is none, with the reason.
    """
    scale = np.sqrt(np.abs(K).max(axis=1, initial=0.0))
    if np.any(scale[:n] == 0):
        raise SingularSystemError("a massless motion is carried by no row: its part of the block matrix is zero")
    if np.any(scale[n:] == 0):
        raise SingularSystemError(DEAD_POINT)
    try:
        scaled = np.linalg.inv(K / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        free = massless_basis(K[:n, :n], K[n:, :n]).shape[1]
        reason = "the block matrix has no inverse: a massless motion that no row carries" if free else DEAD_POINT
        raise SingularSystemError(reason) from None
    return np.asarray(scaled / np.outer(scale, scale))


def massless_basis(M: Array, A: Array) -> Array:
    """Z (n, z): orthonormal motions that every row allows and that have no inertia."""
    n = len(M)
    return _massless_basis(M.tobytes(), A.tobytes(), n) if n else np.zeros((0, 0))


@lru_cache(maxsize=64)  # modes that are tried at one state ask for the same ones
def _massless_basis(masses: bytes, rows: bytes, n: int) -> Array:
    M, A = np.frombuffer(masses).reshape(n, n), np.frombuffer(rows).reshape(-1, n)
    motions = [motion.direction for motion in massless_motions(M, A, DEPENDENT_IMPACT)]
    found = np.asarray(np.linalg.qr(np.array(motions).reshape(-1, n).T)[0])
    found.flags.writeable = False
    return found


def holding_rows(M: Array, A: Array, first: Array | None = None) -> Array:
    """Unit rows (z, n) that hold the massless motions which A leaves free: for each, the velocity that moves most.

    Velocities of a larger ``first`` (n,) are held before others that move, too.
    """
    Z = massless_basis(M, A)
    rows = []
    while Z.shape[1]:
        moves = np.linalg.norm(Z, axis=1)
        if first is not None:
            moving = moves > DEPENDENT_IMPACT
            moves = np.where(moving & (first == first[moving].max()), moves, 0.0)
        j = int(np.argmax(moves))
        rows.append(np.eye(len(M))[j])
        # what is left of the motions once velocity j is held
        Z = Z @ null_spaces(Z[j : j + 1], DEPENDENT_IMPACT).right
    return np.array(rows).reshape(len(rows), len(M))
