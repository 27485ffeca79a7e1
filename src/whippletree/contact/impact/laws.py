"""Impact laws: what a collision does to the velocities at the points that touch.

A law sees the collision in the space of its contacts: G = J M† Jᵀ (what an impulse does to the contact velocities,
bilateral constraints and massless links included), the velocities u⁻ = J v⁻, and every contact's friction and
restitution. It answers with impulses p; u⁺ = u⁻ + G p. Each law states what it conserves or bounds. The kinetic energy
changes by pᵀ (u⁻ + u⁺) / 2.

    Plastic      contacts end at rest along the normal, or separate; Coulomb's law for the impulses. Energy never grows.
    Newton       uₙ⁺ = −e uₙ⁻ without friction, all contacts at once. Energy never grows; e = 1 conserves it.
    Energetic    Stronge: of the work done in compression, e² is given back; friction along the whole slip path.
                 Energy never grows, with any friction.
    Sequential   contacts one after another, the fastest first, each by the energetic law: impulses travel along a
                 chain. Energy never grows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.impact.stronge import stroke
from whippletree.contact.problem import active_set
from whippletree.contact.problem.sliding_combinations import RANK_OF_LOADS
from whippletree.errors import NameLookupError

APPROACHING = 1e-12
"""Share of the largest contact velocity below which a contact no longer counts as approaching."""

RESTING = 1e-8
"""Share for a contact that its friction may drive together although it does not approach."""

LAST_STROKES = 500
"""Of the plastic law where contacts wedge."""


class Law(ABC):
    """An impact law."""

    name: ClassVar[str]

    @abstractmethod
    def impulses(self, G: Array, u: Array, friction: Array, restitution: Array) -> Array:
        """Impulses (k, 3) of k contacts that touch.

        Args:
            G: (3k, 3k), 1/kg; symmetric, positive semi-definite.
            u: contact velocities before, (3k,), rows normal, tangent 1, tangent 2 of each contact, m/s.
            friction, restitution: (k,).
        """

    def coefficients(self, restitution: Array) -> Array:
        """The restitution (k,) with which the law treats contacts that have this one."""
        own: float | None = getattr(self, "restitution", 0.0)
        return restitution if own is None else np.full(len(restitution), own)


@dataclass(frozen=True)
class Plastic(Law):
    """0 ≤ pₙ ⟂ uₙ⁺ ≥ 0 with Coulomb's law for the impulses, all contacts at once; restitution is not asked.

    Bounds: pᵀ u⁺ ≤ 0, so the energy falls by at least pᵀ G p / 2. Without friction, or where all contacts stick, the
    loss is that of the velocities that were stopped, ½ (A v⁻)ᵀ (A M⁻¹ Aᵀ)⁻¹ (A v⁻). Where contacts wedge a body so that
    the exact solver finds no answer, they are struck one after another until none approaches, which bounds the same; if
    that does not end, friction is associated (pᵀ u⁺ = 0: what slides also separates), which always has an answer.
    """

    name: ClassVar[str] = "plastic"

    def impulses(self, G: Array, u: Array, friction: Array, restitution: Array) -> Array:
        answer = active_set.solve(active_set.problem(G, u, friction))
        if answer is not None:
            return answer.p
        p, finished = _struck(G, u, friction, np.zeros(len(friction)), LAST_STROKES)
        return (p if finished else _associated(G, u, friction)).reshape(-1, 3)


@dataclass(frozen=True)
class Newton(Law):
    """0 ≤ pₙ ⟂ uₙ⁺ + e uₙ⁻ ≥ 0 without friction, all approaching contacts at once.

    Bounds: the energy falls by (1 − e) pᵀ G p / (2 (1 + e)), so it never grows and e = 1 conserves it. That holds for
    one common e; where coefficients differ, the smallest of the approaching contacts is taken for this impact.
    Contacts that were separating take part only if the impact makes them approach, in a further round.
    """

    restitution: float | None = None
    """e of every contact; None for the contacts' own."""
    rounds: int = 100
    """After these the rest is plastic."""
    name: ClassVar[str] = "newton"

    def impulses(self, G: Array, u: Array, friction: Array, restitution: Array) -> Array:
        e = self.coefficients(restitution)
        normal = G[::3, ::3]
        p, small = np.zeros(len(e)), _small(u)
        for _ in range(self.rounds):
            now = u[::3] + normal @ p
            if not np.any(now < -small):
                return _along_normals(p)
            p = p + self._round(normal, now, float(e[now < -small].min()), np.flatnonzero(now <= small))
        return _along_normals(p + self._round(normal, u[::3] + normal @ p, 0.0, np.arange(len(e))))

    def _round(self, G: Array, u: Array, e: float, near: Array) -> Array:
        rows = np.zeros((3 * len(near), 3 * len(near)))
        rows[::3, ::3] = G[np.ix_(near, near)]
        asked = np.zeros(3 * len(near))
        asked[::3] = (1 + e) * u[near]
        answer = active_set.solve(active_set.problem(rows, asked, np.zeros(len(near))))
        p = np.zeros(len(u))
        p[near] = _pushed_apart(rows[::3, ::3], asked[::3]) if answer is None else answer.p[:, 0]
        return p


@dataclass(frozen=True)
class Energetic(Law):
    """Stronge's law: the normal impulse grows from zero; slip may stop, stick or turn back on the way.

    The impact ends when the work of the normal force in restitution is e² of that absorbed in compression. Bounds: the
    normal work is −(1 − e²) of compression's and friction only takes, so the energy never grows. A contact at rest
    along the normal that friction drives together (Painlevé) is struck too: an impact without collision. Several
    contacts are struck one after another as by :class:`Sequential`.
    """

    restitution: float | None = None
    """e of every contact; None for the contacts' own."""
    strokes: int = 60
    """After these the rest is plastic."""
    name: ClassVar[str] = "energetic"

    def impulses(self, G: Array, u: Array, friction: Array, restitution: Array) -> Array:
        e = self.coefficients(restitution)
        if not np.any(u[::3] < -_small(u)):
            return self._driven(G, u, friction, e)
        p, finished = _struck(G, u, friction, e, self.strokes)
        rest = np.zeros((len(friction), 3)) if finished else Plastic().impulses(G, u + G @ p, friction, restitution)
        return p.reshape(-1, 3) + rest

    def _driven(self, G: Array, u: Array, friction: Array, e: Array) -> Array:
        """Nothing approaches: the first contact that its own friction drives together, if there is one."""
        p = np.zeros((len(friction), 3))
        for i in range(len(friction)):
            rows = slice(3 * i, 3 * i + 3)
            if u[3 * i] > RESTING * np.abs(u).max(initial=0.0):
                continue
            resting = np.array([0.0, *u[rows][1:]])
            p[i] = stroke(G[rows, rows], resting, float(friction[i]), float(e[i]))
            if np.any(p[i]):
                break
        return p


@dataclass(frozen=True)
class Sequential(Energetic):
    """One contact after another, the fastest first, each by the energetic law: impulses travel along a chain.

    A Newton's cradle passes the motion to its last ball. Bounds: the energy never grows.
    """

    name: ClassVar[str] = "sequential"


LAWS: dict[str, type[Law]] = {law.name: law for law in (Plastic, Newton, Energetic, Sequential)}


def law_named(law: str | Law) -> Law:
    """A law by name, or as it is.

    Raises:
        NameLookupError: if there is no such law.
    """
    if isinstance(law, Law):
        return law
    if law not in LAWS:
        raise NameLookupError("impact law", law, LAWS, where="simulate")
    return LAWS[law]()


def default_law(friction: Array, restitution: Array) -> Law:
    """Plastic without restitution; with it, Newton's law where no contact has friction, else the energetic one."""
    if not np.any(restitution):
        return Plastic()
    return Energetic() if np.any(friction) else Newton()


def _pushed_apart(G: Array, b: Array) -> Array:
    """Impulses p ≥ 0 (k,) of least pᵀ G p / 2 + bᵀ p, where more contacts touch than the bodies have freedoms.

    With G = Fᵀ F and b = Fᵀ c, which velocities always are, it is the p ≥ 0 of least |F p + c|.
    """
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(G)
    roots = np.sqrt(np.maximum(values, 0.0))
    kept = roots > np.sqrt(RANK_OF_LOADS) * roots.max(initial=0.0)
    F = roots[kept, None] * vectors[:, kept].T
    return np.asarray(nnls(F, -(vectors[:, kept].T @ b) / roots[kept])[0])


def _associated(G: Array, u: Array, friction: Array) -> Array:
    """Impulses (3k,) in the cones (by their EDGES edges) of least pᵀ G p / 2 + uᵀ p."""
    turns = 2 * np.pi * np.arange(active_set.EDGES) / active_set.EDGES
    edges = np.zeros((len(u), len(friction) * len(turns)))
    for i, mu in enumerate(friction):
        own = slice(i * len(turns), (i + 1) * len(turns))
        edges[3 * i : 3 * i + 3, own] = [np.ones(len(turns)), mu * np.cos(turns), mu * np.sin(turns)]
    return np.asarray(edges @ _pushed_apart(edges.T @ G @ edges, edges.T @ u))


def _struck(G: Array, u: Array, friction: Array, e: Array, strokes: int) -> tuple[Array, bool]:
    """Impulses (3k,) of contacts struck one after another, the fastest first, and whether none approaches any more."""
    p, small, fastest = np.zeros(len(u)), _small(u), float(np.abs(u).max(initial=0.0))
    for _ in range(strokes):
        now = u + G @ p
        i = int(np.argmin(now[::3]))
        if now[3 * i] >= -small:
            return p, True
        rows = slice(3 * i, 3 * i + 3)
        p[rows] += stroke(G[rows, rows], now[rows], float(friction[i]), float(e[i]), fastest)
    return p, False


def _small(u: Array) -> float:
    return APPROACHING * float(np.abs(u).max(initial=0.0))


def _along_normals(p: Array) -> Array:
    result = np.zeros((len(p), 3))
    result[:, 0] = p
    return result
