"""The cone of directions in which branches of motion leave a dead point, and the one that a mechanism at rest takes.

Where some combinations y of rows vanish, yᵀ A = 0, the rows leave more directions than the mechanism has. A motion that
starts from rest, q = q₀ ⊕ ½ a t² + …, meets the vanished combinations to the order t⁴, which only asks for

    A a + γ = 0        yᵀ (∂A/∂q · a) a = 0

the *second-order tangent cone*: as many quadrics as rows were lost, whose solutions are the directions of the branches
that meet here. Of all accelerations in the cone, that of least constraint is taken (Gauss): the minimum of
½ aᵀ M a − bᵀ a, with b = τ − c. Two branches may be equally good, mostly by symmetry; that is a *tie*, which is told,
and broken by a fixed rule.

The same quadrics, of velocities along the rows, tell which motions leave a singular start at all
(:mod:`whippletree.constraints.singular.exploration`).

Directions are found by Newton's method from many starts, the same ones every time; of a mechanism with very many
branches through one point (2ⁿ of n loops in line) those near the motion of the mechanism without its vanished rows are
among them, but not all. Combinations of rows that time moves are taken as they stand at this instant. Numbers only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.linalg import null_spaces
from whippletree.constraints.singular.motions import FreeDirection
from whippletree.model import Model

EMPTY_QUADRIC = 1e-9
"""Size of a quadric, relative to the rates of the rows that it is made of, below which it says nothing."""

ON_CONE = 1e-12
"""Value of a quadric of unit size at a unit direction that counts as zero."""

SAME_DIRECTION = 1e-6
"""Sine between two directions, and relative distance of two accelerations, below which they are one."""

TIE = 1e-9
"""Relative difference of what two branches gain below which they are equally good."""

STARTS, MOST_STARTS = 24, 768
"""Starts for each of the 2ᵖ lines in which p quadrics may meet, and the most of them."""

ROUNDS, SHARPENINGS, IMPROVEMENTS = 80, 30, 60
"""Corrections of a direction towards the cone, and where quadrics touch; steps along a branch of several dimensions."""

CORRECTED_SHARE = 1e-3
"""Share of what counts as zero at which corrections end."""

TOUCHING_CONE = 1e-4
"""Slope of a combination of quadrics of unit size, at a direction on the cone, below which they touch there."""


SHOWN_BRANCHES = 2
"""Branches as good as the one taken that a message describes; of a lattice in line there are scores."""


class TieWarning(RuntimeWarning):
    """A mechanism at rest where branches meet that are equally good: which one is taken follows from a rule."""


@dataclass(frozen=True)
class Choice:
    """The acceleration of least constraint in a cone."""

    a: Array
    """(n,)"""
    others: tuple[Array, ...]
    """Accelerations (n,) of branches that are equally good."""

    def words(self, model: Model) -> str:
        """The choice, and others that would have been as good; for messages."""
        texts = list(dict.fromkeys(f"the motion of {_text_of_direction(a, model)}" for a in self.others))
        more = [f"{len(texts) - SHOWN_BRANCHES} others"] if len(texts) > SHOWN_BRANCHES else []
        listed = " or ".join([*texts[:SHOWN_BRANCHES], *more])
        return (
            f"model {model.name!r} is at rest on a dead point where branches meet that are equally good by Gauss's "
            f"principle of least constraint: it takes the motion of {_text_of_direction(self.a, model)}; {listed} "
            f"would do as well. A start a little way along one of them, or a small velocity, decides"
        )


def second_order_forms(y: Array, rates: Array, directions: Array) -> Array:
    """yᵀ (∂A/∂q · p) p for all directions p that columns span, as symmetric forms (r, d, d); empty ones left out.

    Args:
        y: combinations of rows that vanish, (k, r).
        rates: of the rows A along each direction, (d, k, n).
        directions: (n, d).
    """
    H = np.einsum("kr,dkn,ne->rde", y, rates, directions)
    H = (H + np.swapaxes(H, 1, 2)) / 2
    largest = np.linalg.norm(rates, axis=(1, 2)).max(initial=0.0)
    sizes = np.linalg.norm(y, axis=0) * largest
    return np.asarray(H[np.linalg.norm(H, axis=(1, 2)) > EMPTY_QUADRIC * sizes])


def least_constraint(M: Array, b: Array, basis: Array, particular: Array, quadrics: Array) -> Choice | None:
    """The acceleration of least constraint among those that the rows and the quadrics allow; None if there is none.

    Args:
        M: inertia, (n, n).
        b: τ − c, (n,).
        basis: motions that the rows allow, (n, d).
        particular: an acceleration with A a = −γ, (n,).
        quadrics: symmetric forms of the basis and the particular acceleration, (p, d + 1, d + 1): see
            :func:`whippletree.constraints.singular.dead_points.quadrics`.
    """
    moved = bool(np.any(particular))
    P = np.concatenate([basis, particular[:, None]], axis=1) if moved else basis
    Q = quadrics if moved else quadrics[:, :-1, :-1]
    return least_on_cone(P.T @ M @ P, P.T @ b, Q, moved, lambda z: np.asarray(P @ z))


def least_on_cone(M: Array, b: Array, Q: Array, moved: bool, accelerations: Callable[[Array], Array]) -> Choice | None:
    """The acceleration of least constraint, ½ zᵀ M z − bᵀ z, with zᵀ Qᵢ z = 0; None if there is none.

    Args:
        M: (d, d).
        b: (d,).
        Q: symmetric forms, (p, d, d).
        moved: whether the last entry of z is given: 1, for a particular acceleration that the rows ask for.
        accelerations: of the whole mechanism, (n,), from z.
    """
    inertia = np.sqrt(np.maximum(np.diag(M), 0.0))
    scale = np.where(inertia > 0, inertia, 1.0)  # comparable directions: joints turn and slide
    shares = np.outer(scale, scale)
    felt, others = _felt_directions(unit_quadrics(Q / shares), moved)
    # along motions that no quadric feels, the least is a linear answer to the rest: (others) k = answer − gain y
    M, b, Q = M / shares, b / scale, np.einsum("ia,pij,jb->pab", felt, Q / shares, felt)
    eliminated = np.linalg.lstsq(
        others.T @ M @ others, others.T @ np.column_stack([b, M @ felt]), rcond=SAME_DIRECTION
    )[0]
    answer, gain = eliminated[:, 0], eliminated[:, 1:]
    inner = felt.T @ M @ felt - felt.T @ M @ others @ gain
    problem = _ConeProblem(
        unit_quadrics(Q), (inner + inner.T) / 2, felt.T @ (b - M @ others @ answer), scale[-1] if moved else None
    )
    found = problem.minima()
    if not found:
        return None
    gains = np.array([own for own, _ in found])
    best = gains.max()
    size = np.abs(gains).max()
    whole = [felt @ y + others @ (answer - gain @ y) for own, y in found if own >= best - TIE * size]
    level = [accelerations(z / scale) for z in whole]
    # the order of joints breaks ties: the largest acceleration of the first joint that tells
    level = _distinct(sorted(level, key=lambda a: tuple(-np.round(a / (np.abs(a).max() or 1.0), 6))))
    return Choice(level[0], tuple(level[1:]))


def _felt_directions(Q: Array, moved: bool) -> tuple[Array, Array]:
    """Orthonormal directions that some quadric of unit size feels, (d, k), and those that none does, (d, d − k).

    ``moved``: the last direction is given, and stays the last of those that are felt.
    """
    d = Q.shape[-1]
    free = d - moved
    last = np.eye(d)[:, free:]
    _, s, Vt = np.linalg.svd(Q[:, :, :free].reshape(-1, free))
    count = int(np.sum(s > SAME_DIRECTION))
    basis = np.zeros((d, free))
    basis[:free] = Vt.T
    return np.concatenate([basis[:, :count], last], axis=1), basis[:, count:]


def _text_of_direction(a: Array, model: Model) -> str:
    size = float(np.linalg.norm(a))
    return FreeDirection(a / size if size else a, 0.0).words(model)


def unit_quadrics(Q: Array) -> Array:
    """Quadrics (p, d, d) at unit size, without entries that rounding leaves; empty ones stay as they are."""
    sizes = np.linalg.norm(Q, axis=(1, 2))
    unit = Q / np.where(sizes > 0, sizes, 1.0)[:, None, None]
    return np.where(np.abs(unit) > np.finfo(float).eps, unit, 0.0)


def _distinct(accelerations: list[Array]) -> list[Array]:
    kept: list[Array] = []
    for a in accelerations:
        if all(np.linalg.norm(a - other) > SAME_DIRECTION * np.linalg.norm(other) for other in kept):
            kept.append(a)
    return kept


@dataclass(frozen=True)
class _ConeProblem:
    """min ½ zᵀ M z − bᵀ z where zᵀ Qᵢ z = 0."""

    Q: Array
    """(p, d, d), of unit size."""
    M: Array
    b: Array
    given: float | None
    """The last entry of z, where the rows ask for a particular acceleration."""

    def minima(self) -> list[tuple[float, Array]]:
        """Gain of each branch, −½ zᵀ M z + bᵀ z, and its z."""
        d = len(self.b)
        directions = _directions(self.Q.tobytes(), len(self.Q), d)
        free = np.linalg.lstsq(self.M, self.b, rcond=SAME_DIRECTION)[0]
        near = onto_cone(self.Q, free[None] / np.linalg.norm(free)) if np.any(free) else np.zeros((0, d))
        found = []
        for u in _lines(np.concatenate([near, directions])):
            best = self._improve(u)
            if best is not None:
                found.append(best)
        return found

    def _improve(self, u: Array) -> tuple[float, Array] | None:
        """The least along the branch of a direction, of any dimension.

        The direction itself may not meet the given entry, and others of its branch do: of a loop at rest beside others
        that move, which no quadric feels.
        """
        best = self._along(u[:, None])
        for _ in range(IMPROVEMENTS):
            T = along_cone(self.Q, u, SAME_DIRECTION)
            if T.shape[1] == 1:
                break
            aim = self._along(T)
            better = None if aim is None else self._step(u, aim[1], None if best is None else best[0])
            if better is None:
                break
            u, best = better
        return best

    def _step(self, u: Array, aim: Array, gain: float | None) -> tuple[Array, tuple[float, Array]] | None:
        """A direction nearer to an aim, and what it gains, if it gains more (than nothing: None); shorter and shorter
        steps are tried."""
        size = np.linalg.norm(aim)
        if size == 0:
            return None
        towards = aim / size if aim @ u >= 0 else -aim / size
        for share in (1.0, 0.5, 0.25, 0.1, 0.01):
            for direction in onto_cone(self.Q, (u + share * (towards - u))[None]):
                value = self._along(direction[:, None])
                if value is not None and (gain is None or value[0] > gain + TIE * abs(gain)):
                    return direction, value
        return None

    def _along(self, T: Array) -> tuple[float, Array] | None:
        """The gain and the z of least constraint in the span of columns; None where the given entry is not met."""
        K, r = T.T @ self.M @ T, T.T @ self.b
        if self.given is not None:
            last = T[-1:]
            if np.abs(last).max() <= SAME_DIRECTION:
                return None
            k = T.shape[1]
            block = np.block([[K, last.T], [last, np.zeros((1, 1))]])
            c = np.linalg.lstsq(block, np.append(r, self.given), rcond=None)[0][:k]
        else:
            c = np.linalg.lstsq(K, r, rcond=None)[0]
        z = T @ c
        return float(self.b @ z - z @ self.M @ z / 2), z


@lru_cache(maxsize=64)
def _directions(Q: bytes, p: int, d: int) -> Array:
    """Unit directions (s, d) on the cone of p quadrics, each line at least once; the same for the same quadrics."""
    starts = np.random.default_rng(1).standard_normal((min(STARTS * 2**p, MOST_STARTS), d))
    starts = np.concatenate([np.eye(d), starts])
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    return _lines(onto_cone(np.frombuffer(Q).reshape(p, d, d), starts))


def onto_cone(Q: Array, u: Array) -> Array:
    """The unit directions that Newton's method makes of s directions (s, d), nearest first; those that it does not
    bring onto the cone are left out."""
    for _ in range(ROUNDS):
        value = np.einsum("pij,si,sj->sp", Q, u, u)
        if np.abs(value).max(initial=0.0) <= ON_CONE * CORRECTED_SHARE:
            break
        slope = np.einsum("pij,sj->spi", Q, u)
        # at right angles to u, which keeps its length: u itself is no way to the cone
        slope = 2 * (slope - value[..., None] * u[:, None])
        u = u - np.einsum("sip,sp->si", np.linalg.pinv(slope, rcond=SAME_DIRECTION), value)
        u = u / np.linalg.norm(u, axis=1, keepdims=True)
    value = np.abs(np.einsum("pij,si,sj->sp", Q, u, u)).max(axis=1, initial=0.0)
    return np.array([_sharpen(Q, direction) for direction in _lines(u[value <= ON_CONE])]).reshape(-1, u.shape[1])


def _sharpen(Q: Array, u: Array) -> Array:
    """A direction in which quadrics touch each other, to all its digits: there Newton's method keeps half of them.

    A combination c of the quadrics has no slope there, cᵀ Q u = 0; that determines u as well as its values do.
    """
    for _ in range(SHARPENINGS):
        slope = 2 * Q @ u
        left, s, _ = np.linalg.svd(slope)
        touching = np.tensordot(left[:, np.append(s, np.zeros(len(Q) - len(s))) < TOUCHING_CONE].T, Q, axes=1)
        if not len(touching):
            return u
        rows = np.concatenate([slope, touching.reshape(-1, len(u))])
        values = np.concatenate([np.einsum("pij,i,j->p", Q, u, u), (touching @ u).reshape(-1)])
        step = np.linalg.lstsq(rows, values, rcond=SAME_DIRECTION)[0]
        u = (u - step) / np.linalg.norm(u - step)
        if np.abs(step).max() <= ON_CONE * CORRECTED_SHARE:
            break
    return u


def _lines(u: Array) -> Array:
    """Directions of which no two are one, up to their sign."""
    kept: list[Array] = []
    for direction in u:
        if not kept or np.max(np.abs(np.array(kept) @ direction)) < 1 - SAME_DIRECTION**2 / 2:
            kept.append(direction)
    return np.array(kept).reshape(len(kept), u.shape[1])


def along_cone(Q: Array, u: Array, tolerance: float) -> Array:
    """An orthonormal basis (d, k) of the directions along the cone of unit quadrics at u, u among them.

    Combinations of quadrics whose slope at u is at most ``tolerance`` bound nothing there.
    """
    return null_spaces(2 * Q @ u, tolerance, 1.0).right
