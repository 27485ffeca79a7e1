"""Assembled configurations near a model's start that have nothing special about them: where its structure is learnt.

From a regular start they are found by small random displacements along the rows, after which the loops are closed
again. At a **singular** start (all rods of a parallelogram in line) the rows allow more than the mechanism does to
first order, and a displacement that only they allow leads back to the start, or nowhere. There the directions of true
motions are found first. With the velocity v = N c along the rows, A N = 0, and a combination y of rows that has become
empty, yᵀ A = 0, a motion that stays on the constraints needs, at second order,

    cᵀ H c = 0,   H = Nᵀ (yᵀ ∂A/∂q) N        for every such y

(the acceleration drops out, since yᵀ A = 0). These quadratic equations may have several solutions, one for each branch
of motion that meets there (:mod:`whippletree.constraints.singular.tangent_cone`): they are solved from several starts,
each solution is followed for a finite way, and where it ends the mechanism must still be able to move. If no solution
leads away, the mechanism is stuck. Branches that part at third order only are not told apart. Numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.linalg import null_spaces
from whippletree.constraints.long_systems.long_structure import LongRowSystem, least_motion
from whippletree.constraints.loop_closure import Closure, attainable, close_loops
from whippletree.constraints.singular.tangent_cone import along_cone, onto_cone, second_order_forms, unit_quadrics
from whippletree.errors import AssemblyError
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

if TYPE_CHECKING:
    from whippletree.constraints.constraint_set import ConstraintSet

STRUCTURE_TOLERANCE = 1e-7
"""Sine of the angle to the rows before it below which a row counts as dependent, at a generic configuration."""

SPREADS = (0.4, 0.3, 0.2, 0.1, 0.03)
"""How far generic configurations are from the model's start, rad or m, largest first; three that close are used."""

RETURNED = 1e-3
"""Share of its way from the start that is left to a configuration which closing its loops has brought back."""

FOLLOWED = 0.15
"""Share of its way from a singular start by which closing the loops may correct a displacement along a branch: the
correction is of second order in the way."""

SLIGHT_BEND = 0.05
"""Share of its radius by which a flexible body is bent at generic configurations, for a unit of spread."""

SPREAD_OVER = 12
"""Joints up to which each moves by the whole spread."""

PROBES = 24
"""Random starts from which the equations of the branches at a singular start are solved."""

FEW_PROBES = 4
"""Random starts at special configurations of a branch, where any way on will do."""

NEARLY_SINGULAR = 1e-4
"""Singular value of rows of unit length, relative to the largest, up to which a configuration is taken for a singular
one: where rows are dependent, closing loops within 1e-11 finds coordinates within the root of that."""

NUDGE = 3e-5
"""A displacement, rad or m, whose size is above ``STRUCTURE_TOLERANCE`` and whose square is below it."""

OF_ONE_RANK = 4
"""How many solutions at which equally many of the equations are independent are followed."""

NEIGHBOURS, ASIDE = 6, 0.3
"""How many neighbours of a solution of unit length are looked at, and how far aside, to leave crossings of branches."""

CROSSING = 1e-3
"""Singular value of the equations' derivative, at unit size, up to which they count as dependent."""

SAME_BRANCH = 1e-4
"""Sine of the angle between two directions up to which they are one."""

LONG_SYSTEM = 200
"""Velocities beyond which no matrix of their number squared is formed."""


class ExploredConfigurations(NamedTuple):
    """Configurations that a mechanism reaches from its start."""

    start: Array
    """The model's own start with its loops closed (nq,)."""
    configurations: list[Array]
    """Generic assembled configurations (nq,); one beside the start, a little open, where the mechanism is stuck."""
    branching: bool
    """Whether the start is singular, and the configurations lie on branches that meet there."""
    partly_stuck: bool
    """Whether on each of these branches the rows still allow more than the mechanism does: the configurations are a
    little open, to tell the rows that hold it."""
    stuck: bool
    """Whether the rows let something move to first order, and nothing moves."""


def generic_configurations(system: ConstraintSet, count: int = 3) -> list[Array]:
    """Assembled configurations near the model's start that have nothing special about them.

    Raises:
        AssemblyError: if the loops cannot close near the start.
    """
    return explore(system, count).configurations


def explore(
    system: ConstraintSet, count: int, is_enough: Callable[[Array], bool] = lambda q: False
) -> ExploredConfigurations:
    """Generic configurations near the model's start, ``count`` of them, or more where several branches meet.

    ``is_enough``: whether a configuration tells everything; from a regular start no further ones are looked for then.

    Raises:
        AssemblyError: if the loops cannot close near the start.
    """
    model = system.model
    closure = Closure(Mechanism(skeleton(model)), system.demands)
    start = close_loops(closure, np.array((model.start or model.neutral).q, dtype=float), {}, attainable(model))
    regular = model.nv > LONG_SYSTEM or _is_regular(closure, start)
    samples = []
    for sample in islice(_samples(closure, start), count):
        samples.append(sample)
        if regular and not sample.returned and is_enough(sample.q):
            break
    away = [sample.q for sample in samples if not sample.returned]
    if regular:
        found = away or [sample.q for sample in samples] or [start]
        return ExploredConfigurations(
            start, found, branching=False, partly_stuck=False, stuck=bool(samples) and not away
        )
    # what a motion reaches from the start must itself be able to move: other closures of the loops may not
    reached = [q for q in _branches(closure, start) if _freedoms(closure, q)]
    others = [q for q in away if _freedoms(closure, q)]
    if not reached and not others:
        return ExploredConfigurations(
            start, [_nudge(closure, start)], branching=False, partly_stuck=False, stuck=bool(samples)
        )
    generic = _generics(closure, reached) or _generics(closure, others)
    found = generic or [_nudge(closure, q) for q in reached or others]
    return ExploredConfigurations(start, found, branching=True, partly_stuck=not generic, stuck=False)


def _is_regular(closure: Closure, q: Array) -> bool:
    """Whether the rows allow, to second order, all that they allow to first: what a random velocity shows."""
    rows = _decompose(closure.jacobian(q), STRUCTURE_TOLERANCE)
    if not (rows.Y.size and rows.N.size):
        return True
    rate = rows.scale[:, None] * closure.jacobian_rate(q, random_combination(rows.N))
    return bool(np.abs(rows.Y.T @ rate @ rows.N).max() <= STRUCTURE_TOLERANCE * np.abs(rate).max())


class _Sample(NamedTuple):
    """An assembled configuration, and whether closing the loops brought it back to where it was displaced from."""

    q: Array
    returned: bool


def _samples(closure: Closure, start: Array) -> Iterator[_Sample]:
    """Assembled configurations after random displacements along the rows at ``start``, the largest first."""
    model = closure.mechanism.tree.model
    reach = _reach(model)
    A = closure.jacobian(start) * reach
    random = np.random.default_rng(1)
    for spread in SPREADS:
        # along the constraints, and less per joint where many joints add up
        d = random.uniform(-spread, spread, model.nv) * min(1.0, SPREAD_OVER / max(model.nv, 1))
        if A.size:
            d = d - np.linalg.lstsq(A, A @ d, rcond=STRUCTURE_TOLERANCE)[0]
        moved = closure.move(start, reach * d)
        q = _close_loops(closure, moved)
        if q is not None:
            way, left = (float(np.linalg.norm(x - start)) for x in (moved, q))
            yield _Sample(q, way > STRUCTURE_TOLERANCE and left < RETURNED * way)


def _reach(model: Model) -> Array:
    """How far each velocity goes (nv,) for a unit of spread: 1, and for modes what bends a body by a share of its size.

    The kinetic energy of a flexible body is cut after second order: far bent it is no inertia at all.
    """
    found = np.ones(model.nv)
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        if joint.kind == "modal" and joint.flexible is not None:
            body = joint.flexible.integrals
            square = float(np.trace(np.asarray(body.second, dtype=float)))
            found[part] = SLIGHT_BEND * np.sqrt(square / np.diag(body.modal_mass.astype(float)))
    return found


def long_displacements(rows: LongRowSystem) -> Iterator[Array]:
    """Random displacements (nv,) along the rows of a long mechanism, as those of :func:`_samples`, largest first."""
    random = np.random.default_rng(1)
    nv = rows.unknowns.tree.model.nv
    for spread in SPREADS:
        d = random.uniform(-spread, spread, nv) * min(1.0, SPREAD_OVER / nv)
        yield d + least_motion(rows, rows.rates(d))


def try_to_close(closure: Closure, start: Array, d: Array) -> Array | None:
    """The configuration start ⊕ d with its loops closed, if they close at once."""
    return _close_loops(closure, closure.move(start, d))


def _close_loops(closure: Closure, q: Array) -> Array | None:
    """The configuration with its loops closed, without a second attempt."""
    try:
        return close_loops(closure, q, {}, attainable(closure.mechanism.tree.model), attempts=0)
    except AssemblyError:
        return None


def _branches(closure: Closure, start: Array) -> list[Array]:
    """A configuration on every branch of motion that was found to leave the singular ``start``."""
    ends = [_follow(closure, start, d) for d in _tangents(closure, start, PROBES)]
    return [q for q in ends if q is not None]


def _generics(closure: Closure, configurations: list[Array]) -> list[Array]:
    """For each configuration, a generic one of the branch that it is on; none where there is none."""
    return [at for q in configurations if (at := _generic(closure, q)) is not None]


def _generic(closure: Closure, q: Array) -> Array | None:
    """A configuration of the branch that q is on, away from special ones where other branches cross it, if there is
    one."""
    freedoms = _freedoms(closure, q)
    further = _follow(closure, q, _random_tangent(closure, q))
    if further is not None and _freedoms(closure, further) == freedoms:
        return q
    ways = [further, *[_follow(closure, q, d) for d in _tangents(closure, q, FEW_PROBES)]]
    counts = {_freedoms(closure, at): at for at in ways if at is not None}
    fewest = min(counts, default=0)
    # fewer at every level, so that this ends
    return _generic(closure, counts[fewest]) if 0 < fewest < freedoms else None


def _nudge(closure: Closure, q: Array) -> Array:
    """The configuration after a displacement by ``NUDGE`` along its rows; its loops are not closed.

    Where the rows allow more than the mechanism does, this breaks them at second order, and shows at first order which
    of them hold it.
    """
    return closure.move(q, NUDGE * _random_tangent(closure, q))


def _random_tangent(closure: Closure, q: Array) -> Array:
    """A random direction (nv,) that the rows allow at q, its largest entry ±1."""
    return random_combination(_decompose(closure.jacobian(q), NEARLY_SINGULAR).N)


def random_combination(N: Array) -> Array:
    """A random combination of the columns of N, its largest entry ±1."""
    d = N @ np.random.default_rng(3).normal(size=N.shape[1])
    return np.asarray(d / np.abs(d).max())


def _follow(closure: Closure, q: Array, d: Array) -> Array | None:
    """Where the mechanism is after a finite way along the direction d (nv,) from q; None if it does not go there."""
    for spread in SPREADS[::2]:
        moved = closure.move(q, spread / np.abs(d).max() * d)
        found = _close_loops(closure, moved)
        if found is not None and np.linalg.norm(found - moved) <= FOLLOWED * np.linalg.norm(moved - q):
            # to the last digit: near a singular configuration an open loop of 1e-11 looks like an independent row
            return closure.solve(found, np.zeros(len(d), dtype=bool), 0.0)[0]
    return None


def _tangents(closure: Closure, q: Array, probes: int) -> list[Array]:
    """Directions (nv,) of unit length along which the rows at q hold to second order, each found once."""
    rows = _decompose(closure.jacobian(q), NEARLY_SINGULAR)
    rates = np.stack([rows.scale[:, None] * closure.jacobian_rate(q, d) for d in rows.N.T])
    H = unit_quadrics(second_order_forms(rows.Y, rates, rows.N))
    random = np.random.default_rng(2)
    found: dict[int, list[Array]] = {}
    for _ in range(probes):
        c = _solution(H, random.normal(size=rows.N.shape[1]))
        if c is None:
            continue
        c = _between_crossings(H, c, random)
        alike = found.setdefault(along_cone(H, c, CROSSING).shape[1], [])
        if len(alike) < OF_ONE_RANK and all(1 - (c @ other) ** 2 > SAME_BRANCH**2 for other in alike):
            alike.append(c)
    return [rows.N @ c for alike in found.values() for c in alike]


def _between_crossings(H: Array, c: Array, random: np.random.Generator) -> Array:
    """A solution of cᵀ H c = 0 near c at which the equations are as independent as they can be.

    Where branches cross, the equations depend on each other: a solution at which one of two parallelograms does not
    move belongs to every branch of that one.
    """
    for _ in range(NEIGHBOURS):
        free = along_cone(H, c, CROSSING)
        d = random.normal(size=free.shape[1]) @ free.T
        near = _solution(H, c + ASIDE * d / np.linalg.norm(d))
        if near is not None and along_cone(H, near, CROSSING).shape[1] < free.shape[1]:
            c = near
    return c


def _solution(H: Array, c: Array) -> Array | None:
    """A solution of cᵀ H c = 0, |c| = 1 near a guess; None where none is found from there."""
    found = onto_cone(H, c[None] / np.linalg.norm(c))
    return found[0] if len(found) else None


def _freedoms(closure: Closure, q: Array) -> int:
    """How many velocities the position rows allow at q, or all but allow."""
    return int(_decompose(closure.jacobian(q), NEARLY_SINGULAR).N.shape[1])


class _Decomposed(NamedTuple):
    """The rows of A (p, nv) at unit length, and what they leave."""

    N: Array
    """An orthonormal basis (nv, k) of the velocities that they allow."""
    Y: Array
    """An orthonormal basis (p, l) of their combinations that vanish."""
    scale: Array
    """Factor of each row (p,); 1 for empty ones."""


def _decompose(A: Array, tolerance: float) -> _Decomposed:
    """The null spaces of A on both sides, by singular values relative to the largest."""
    norms = np.linalg.norm(A, axis=1)
    empty = norms <= tolerance * norms.max(initial=0.0)
    scale = np.where(empty, 1.0, 1 / np.where(empty, 1.0, norms))
    return _Decomposed(*null_spaces(np.where(empty[:, None], 0.0, scale[:, None] * A), tolerance), scale)
