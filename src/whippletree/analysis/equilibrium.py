"""``wt.equilibrium``: where a mechanism rests under gravity, springs and loads, with its loops closed.

All forces balance along every motion that the rows allow,

    Zᵀ r = 0,   r = gravity(q) − τ(q)          with Aᵀ f = r the forces of the rows

and near it the balance changes with the stiffness on the manifold, K = Zᵀ (∂r/∂q − ∂(Aᵀ f)/∂q) Z. Loads with a
potential make K symmetric: it is the potential's second derivative along the manifold, and a search downhill by
Newton's method with a trust region finds a minimum, which is stable (Lagrange and Dirichlet); it leaves saddles along
their downward direction. Statics needs no mass: massless links, and motions without inertia, are as good as any.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg

from whippletree.analysis.balance import CLOSED, Balance, functions_of, held_rows
from whippletree.analysis.linear import eigenvalues_at_rest
from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.exploration import generic_configurations
from whippletree.constraints.loop_closure import Closure, attainable, close_loops
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.errors import AssemblyError, EquilibriumError, ShapeError, SingularSystemError, UnsupportedError
from whippletree.model import Constraint, Model
from whippletree.simulation.output.labels import velocities as velocity_names
from whippletree.tree.mechanism import Mechanism

STABLE, UNSTABLE, NEUTRAL, FIXED, NOT_FOUND = "stable", "unstable", "neutral", "no freedom", "not found"

FLAT = 1e-9
"""Stiffness relative to the terms that meet in it below which a direction counts as neutral."""

LONGEST = 0.5
"""Largest step, rad or m: beyond, a quadratic model of the potential means little."""

OVERLAP = 1e-9
"""Depth, m, from which shapes count as overlapping."""

FADING = 1e-7
"""Growth relative to the largest eigenvalue that may be rounding: eigenvalues that meet, as at the onset of flutter,
move with its root."""

CLEAR = 0.05
"""Smallest singular value of the chosen rows of a basis at which motions may be written by these coordinates."""

LEVEL = 1e-12
"""Change of the potential, relative to it and to the forces times a metre, that may be rounding."""

STILL_CLOSED = 1e-8
"""Residual of a loop, m or rad, that a step may leave: more is another branch, or a loop that cannot close there."""

ROUNDING = 1e-10
"""Force left, relative to those that meet, that counts as balanced where rounding allows no less."""

SHORTEST = 1e-14
"""Trust radius, rad or m, at which no step helps any more."""


@dataclass(frozen=True)
class Equilibrium:
    """A configuration in which all forces balance. With a batch, every field has its dimensions in front."""

    q: Array
    """(..., nq)."""
    stability: Any
    """``stable``, ``unstable``, ``neutral`` (no restoring force in some direction, to second order), ``no freedom``, or
    ``not found``."""
    stiffness: Array
    """K (..., d, d) along the orthonormal ``motions``; symmetric where the loads have a potential."""
    motions: Array
    """Z (..., nv, d): the motions that the rows allow."""
    forces: Array
    """f of the rows (..., m), least-norm where some are redundant."""
    rows: tuple[str, ...]
    unbalanced: Array
    """Largest force that is left along an allowed motion, N m or N, (...,)."""
    iterations: int
    beyond_limits: tuple[str, ...]
    """Joints whose limits the configuration exceeds: there a stop would carry a part of the load."""
    model: Model = field(repr=False)

    @property
    def stable(self) -> Any:
        """Whether it is stable, or cannot move at all; (...,) of booleans."""
        found = np.isin(self.stability, (STABLE, FIXED))
        return bool(found) if found.ndim == 0 else found

    @property
    def found(self) -> Any:
        """Whether forces balance; (...,) of booleans."""
        found = np.asarray(self.stability) != NOT_FOUND
        return bool(found) if found.ndim == 0 else found

    def __str__(self) -> str:
        if self.q.ndim > 1:
            words, counts = np.unique(self.stability, return_counts=True)
            listed = ", ".join(f"{count} {word}" for word, count in zip(words, counts, strict=True))
            return f"{np.size(self.stability)} equilibria of model {self.model.name!r}: {listed}"
        lines = [f"equilibrium of model {self.model.name!r}: {self.stability}{self._direction()}"]
        lines += [f"  {name} = {x:.9g}" for name, x in zip(self.rows, self.forces, strict=True)]
        system = constraint_set(self.model)
        if self.model.constraints and not system.switches and self.motions.shape[-1] > system.structure.mobility:
            lines.append("  at a singular configuration: rows depend on each other, and more can move than usual")
        if self.beyond_limits:
            lines.append(f"  beyond the limits of {', '.join(map(repr, self.beyond_limits))}, which were not asked")
        return "\n".join(lines)

    __repr__ = __str__

    def _direction(self) -> str:
        """The direction of least stiffness, in words."""
        if self.stability not in (UNSTABLE, NEUTRAL) or not np.allclose(self.stiffness, self.stiffness.T):
            return ""  # without a potential, how it moves decides, not how stiff it is
        values, vectors = np.linalg.eigh((self.stiffness + self.stiffness.T) / 2)
        direction = self.motions @ vectors[:, 0]
        largest = velocity_names(self.model)[int(np.argmax(np.abs(direction)))]
        return f" along {largest!r} (stiffness {values[0]:.6g})"


def equilibrium(
    model: Model,
    guess: Any = None,
    *,
    tau: Any = None,
    forces: Mapping[str, Any] | None = None,
    wrenches: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    hold: Mapping[str, Any] | None = None,
    minimise: bool = True,
    t: float = 0.0,
    active: Any = None,
    tolerance: float = 1e-11,
    iterations: int = 300,
) -> Equilibrium:
    """A configuration near a guess in which gravity, springs, loads and constraint forces balance.

    Args:
        model: any model; prescribed motions are taken at time ``t``. Contacts and joint limits carry nothing.
        guess: (..., nq); default: the model's home. Loops need not be closed.
        tau: joint forces that act, (..., nv), N m or N; springs of the joints act beside them.
        forces: N in world axes at the origin of a frame, ``{"tip": (0, 200, 0)}``: they keep their direction.
        wrenches: moment and force in the axes of a frame, (6,): they turn with it and have no potential.
        parameters: numbers of the model to be replaced, by path, each with the batch in front.
        hold: joints by name that stay at a coordinate.
        minimise: look for a minimum of the potential; if False, for the nearest balance, stable or not.
        t: time, for constraints that depend on it.
        active: 1 or 0 for every switchable constraint; default: all on.
        tolerance: force left along an allowed motion, relative to the forces that meet in it or that a displacement of
            a radian or a metre would cause there.
        iterations: at most so many steps.

    Returns:
        The configuration, whether it is stable, and the forces that hold it. In a batch, elements without an answer
        are ``not found`` and keep the best configuration.

    Raises:
        EquilibriumError: if no balance was found from a single guess: the potential has no minimum that way.
        AssemblyError: if the loops do not close near a single guess.
    """
    model = _with_held(model, hold)
    words: dict[str, Any] = {"tau": tau, "forces": forces, "wrenches": wrenches, "parameters": parameters}
    balance = Balance("equilibrium", model, **words, t=t, active=active)
    q = balance.coordinates("guess", model.home.q if guess is None else guess)
    batch = np.broadcast_shapes(q.shape[:-1], balance.batch)
    flat = np.broadcast_to(q, (*batch, model.nq)).reshape(int(np.prod(batch, dtype=int)), model.nq)
    search = _Search(balance.flattened(batch), minimise and balance.conservative, tolerance)
    point, count = search.run(flat if batch else search.assembled(flat), iterations)
    stability = _judged(search, point)
    if not batch and stability[0] == NOT_FOUND and search.has_branched(point):
        point, count = search.run(point.q, iterations)
        stability = _judged(search, point)
    if not batch:
        _require_found(balance, point, str(stability[0]), count)
    _refuse_penetration(search.balance, point.q)
    K, Z, f, unbalanced = _reported(search, point)
    found, K, Z, f = (x.reshape(*batch, *x.shape[1:]) for x in (point.q, K, Z, f))
    return Equilibrium(
        found,
        stability.reshape(batch) if batch else str(stability[0]),
        K,
        Z,
        f,
        balance.row_names,
        unbalanced.reshape(batch),
        count,
        _beyond_limits(model, point.q),
        model,
    )


def _with_held(model: Model, hold: Mapping[str, Any] | None) -> Model:
    """The model with a prescribed constant coordinate for every joint that is held."""
    if not hold:
        return model
    held = []
    for name, value in hold.items():
        if model.joint_types[model.joint_index(name)].nv != 1 or np.shape(value) != ():
            raise ShapeError(f"equilibrium: hold takes one number for a joint of one freedom, and {name!r} is not so")
        held.append(Constraint(f"hold {name}", "coupling", (name,), {"coefficients": (float(value),)}))
    return replace(model, constraints=(*model.constraints, *held))


class _Point:
    """Everything that a step and a judgement need at the configurations of a flat batch.

    Coordinates are scaled by their own stiffness, so that a hair spring counts beside a car's, and motions are made as
    local as they can be, so that each is compared with the forces that meet in it.
    """

    def __init__(self, balance: Balance, q: Array, rank: int, *, potential: bool) -> None:
        self.q = np.array(q)
        still = np.zeros((len(q), balance.model.nv))
        tau, weight = balance.joint_forces(q, still), np.asarray(balance.evaluate("gravity", q=q))
        tree = np.asarray(balance.evaluate("inverse_dynamics_derivatives", q=q, v=still, a=np.zeros_like(still))[0])
        loads = balance.joint_force_slopes(q, still)[0]
        terms, A, r = np.abs(tree) + np.abs(loads), balance.jacobian(q), weight - tau
        possible = _possible_forces(balance, q)
        D = _own_scales(terms.sum(axis=-1) + np.abs(weight) + np.abs(tau) + possible)
        rows = held_rows(A * D[:, None, :], rank)
        self.Z = D[..., None] * _localised(rows.motions)
        self.r, self.g = r, _apply(_T(self.Z), r)
        f = _apply(_T(rows.inverse), D * r)
        bent = np.einsum("nmjk,nm->njk", balance.jacobian_slopes(q), f)
        self.K = _T(self.Z) @ (tree - loads - bent) @ self.Z
        terms = terms + np.abs(bent)
        reach = np.abs(self.Z)
        self.sizes = (_T(reach) @ terms @ reach).max(axis=(-2, -1), initial=0.0)
        # what meets in the balance, and what would meet elsewhere: a hanging pendulum's own forces all vanish
        carried = np.abs(_apply(_T(A), f))
        meeting = np.maximum.reduce([np.abs(weight), np.abs(tau), carried, terms.sum(axis=-1), possible])
        self.meeting = _apply(_T(reach), meeting)
        self.imbalance = _ratio(np.abs(self.g), self.meeting).max(axis=-1, initial=0.0)
        self.scale = meeting.max(axis=-1, initial=0.0)
        self.V = np.array(balance.potential(q)) if potential else np.sum(self.g * self.g, axis=-1) / 2
        self.gap = np.abs(balance.residual(q)).max(axis=-1, initial=0.0)

    def taken(self, chosen: Array) -> _Point:
        """Some of the configurations, by number or by mask."""
        found = copy(self)
        vars(found).update({name: values[chosen] for name, values in vars(self).items()})
        return found

    def put(self, where: Array, other: _Point) -> None:
        """Take over the other's configurations at these places."""
        for name, values in vars(self).items():
            values[where] = getattr(other, name)


class _Search:
    """The search for equilibria of a flat batch; those that have arrived leave it."""

    def __init__(self, balance: Balance, downhill: bool, tolerance: float) -> None:
        self.balance, self.downhill, self.tolerance = balance, downhill, tolerance
        self.rank = _usual_rank(balance)

    def assembled(self, q: Array) -> Array:
        """One guess with its loops closed, however far they are open; open parameters and switches count."""
        balance, model = self.balance, self.balance.model
        if not balance.kept_rows or np.abs(balance.residual(q)).max(initial=0.0) <= CLOSED:
            return q
        if balance.opened or not np.all(balance.active != 0):
            return q
        closure = Closure(Mechanism.of(model), constraint_set(model).demands, balance.t)
        return close_loops(closure, q[0], {}, attainable(model))[None]

    def run(self, q: Array, iterations: int) -> tuple[_Point, int]:
        """The configurations that were reached, and in how many steps; a last one takes what rounding leaves."""
        point, count = self._searched(q, iterations)
        left = np.flatnonzero(self.rests(point))
        here, none = point.taken(left), np.zeros(len(left), dtype=bool)
        last = self._trial(left, here, self._step(here, np.full(len(left), LONGEST), none, 1.0))
        closer = last.imbalance < here.imbalance
        point.put(left[closer], last.taken(closer))
        return point, count

    def _searched(self, q: Array, iterations: int) -> tuple[_Point, int]:
        point = self._point(self.balance, self.balance.closed(q))
        radius, left = np.full(len(q), LONGEST), np.arange(len(q))
        for count in range(iterations):
            here = point.taken(left)
            resting = self.rests(here)
            falling = resting & self._is_saddle(here) if self.downhill else np.zeros_like(resting)
            moving = (~resting | falling) & (radius[left] > SHORTEST)
            left, here, falling = left[moving], here.taken(moving), falling[moving]
            if not len(left):
                return point, count
            best = self._trial(left, here, self._step(here, radius[left], falling, 1.0))
            if np.any(falling):
                other = self._trial(left, here, self._step(here, radius[left], falling, -1.0))
                lower = falling & (other.V < best.V)
                best.put(lower, other.taken(lower))
            better = self._is_better(here, best)
            radius[left] = np.where(better, np.minimum(2 * radius[left], LONGEST), radius[left] / 4)
            point.put(left[better], best.taken(better))
        return point, iterations

    def has_branched(self, point: _Point) -> bool:
        """Whether one configuration has led to where rows depend on each other; then it is searched on with its rank.

        Where two branches of a linkage meet, the search may follow the one of more freedoms.
        """
        own = self.balance.model.nv - held_rows(self.balance.jacobian(point.q)).motions.shape[-1]
        found, self.rank = own < self.rank, own
        return bool(found)

    def _point(self, balance: Balance, q: Array) -> _Point:
        return _Point(balance, q, self.rank, potential=self.downhill)

    def rests(self, point: _Point) -> Array:
        """Where forces balance within the tolerance."""
        return np.asarray(point.imbalance <= self.tolerance)

    def _is_saddle(self, point: _Point) -> Array:
        if not point.K.shape[-1]:
            return np.zeros(point.V.shape, dtype=bool)
        lowest = np.linalg.eigvalsh(_symmetric(point.K))[..., 0]
        return np.asarray(lowest < -FLAT * point.sizes)

    def _step(self, point: _Point, radius: Array, falling: Array, sign: float) -> Array:
        """Newton's step with the size of every curvature; from a saddle, along its downward direction."""
        if not point.Z.shape[-1]:
            return np.zeros(point.Z.shape[:-1])
        floor = FLAT * point.sizes[..., None]
        if self.downhill:
            values, U = np.linalg.eigh(_symmetric(point.K))
            along = _apply(_T(U), point.g)
            curvature = np.abs(values)
            # where the potential is flat and level there is nowhere to go; where it slopes, go as far as allowed
            steep = np.where(curvature > floor, curvature, np.inf)
            y = -along / steep
            sloping = (curvature <= floor) & (np.abs(along) > self.tolerance * _apply(_T(np.abs(U)), point.meeting))
            y = np.where(sloping, -np.sign(along) * radius[..., None], y)
            step = _apply(U, y)
            step = np.where(falling[..., None], sign * radius[..., None] * U[..., :, 0], step)
        else:
            U, s, Vt = np.linalg.svd(point.K)
            inverse = np.where(s > floor, 1 / np.where(s > floor, s, 1.0), 0.0)
            step = -_apply(_T(Vt), inverse * _apply(_T(U), point.g))
        d = _apply(point.Z, step)
        longest = np.abs(d).max(axis=-1, initial=0.0)
        shrink = np.where(longest > radius, radius / np.where(longest > 0, longest, 1.0), 1.0)
        return np.asarray(d * shrink[..., None])

    def _trial(self, left: Array, point: _Point, step: Array) -> _Point:
        balance = self.balance.taken(left)
        moved = np.asarray(balance.evaluate("integrate", q=point.q, d=step))
        return self._point(balance, balance.closed(moved))

    def _is_better(self, point: _Point, trial: _Point) -> Array:
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
    clear = np.linalg.svd(part, compute_uv=False)[:, -1] > CLEAR
    result = np.array(Z)
    local = Z[clear] @ np.linalg.inv(part[clear])
    result[clear] = local / np.linalg.norm(local, axis=-2, keepdims=True)
    return result


def _ratio(x: Array, y: Array) -> Array:
    """x / y, 0 where both are 0."""
    return np.asarray(x / np.where(y > 0, y, 1.0))


def _reported(search: _Search, point: _Point) -> tuple[Array, Array, Array, Array]:
    """Stiffness along orthonormal motions, these motions, the rows' least-norm forces, and the force that is left."""
    rows = held_rows(search.balance.jacobian(point.q), search.rank)
    Z, R = np.linalg.qr(point.Z)
    back = np.linalg.inv(R)
    left = np.abs(_apply(_T(back), point.g)).max(axis=-1, initial=0.0)
    return _T(back) @ point.K @ back, Z, _apply(_T(rows.inverse), point.r), left


def _usual_rank(balance: Balance) -> int:
    """Of the rows at a configuration that has nothing special about it."""
    if not balance.kept_rows:
        return 0
    q = np.stack(generic_configurations(constraint_set(balance.model), 1))
    A = np.asarray(functions_of(balance.model).constraint_jacobian(**_timed(balance, q)))[..., balance.kept_rows, :]
    return int(balance.model.nv - held_rows(A).motions.shape[-1])


def _timed(balance: Balance, q: Array) -> dict[str, Any]:
    return {"q": q, "t": balance.t} if constraint_set(balance.model).timed else {"q": q}


def _judged(search: _Search, point: _Point) -> Array:
    """In words, for every configuration."""
    words = np.full(len(point.q), STABLE, dtype=object)
    balanced = (point.imbalance <= max(search.tolerance, ROUNDING)) & (point.gap <= STILL_CLOSED)
    if not point.K.shape[-1]:
        words[:] = FIXED
    elif search.balance.conservative:
        lowest = np.linalg.eigvalsh(_symmetric(point.K))[..., 0]
        edge = FLAT * point.sizes
        words[:] = np.where(lowest > edge, STABLE, np.where(lowest < -edge, UNSTABLE, NEUTRAL))
    else:
        words[balanced] = _judged_by_motion(search.balance.taken(balanced), point.taken(balanced))
    return np.where(balanced, words, NOT_FOUND)


def _judged_by_motion(balance: Balance, point: _Point) -> Array:
    """Without a potential, by the eigenvalues of the motion near the configuration."""
    try:
        values = eigenvalues_at_rest(balance, point.q)
    except SingularSystemError as error:
        raise UnsupportedError(
            f"equilibrium: loads that follow their frames have no potential, so that stability follows from the motion "
            f"near the equilibrium, which is not determined here: {error}"
        ) from None
    pace = np.abs(values).max(axis=-1, initial=0.0)
    growth = values.real.max(axis=-1, initial=-np.inf)
    edge = FADING * pace
    return np.where(growth > edge, UNSTABLE, np.where(growth < -edge, STABLE, NEUTRAL))


def _require_found(balance: Balance, point: _Point, stability: str, count: int) -> None:
    if stability != NOT_FOUND:
        return
    if point.gap[0] > STILL_CLOSED:
        raise AssemblyError(
            f"equilibrium: the loops of model {balance.model.name!r} stay open by {point.gap[0]:.6g} near the guess: "
            f"move the guess, or check the lengths",
            point.q[0],
        )
    Z = np.linalg.qr(point.Z[0])[0]
    direction = -Z @ (Z.T @ point.r[0])
    names = velocity_names(balance.model)
    largest = sorted(range(len(names)), key=lambda i: -abs(direction[i]))[:3]
    left = {names[i]: float(direction[i]) for i in largest if abs(direction[i]) > 1e-3 * np.abs(direction).max()}
    listed = ", ".join(f"{name} ({x:.6g})" for name, x in left.items())
    raise EquilibriumError(
        f"equilibrium: model {balance.model.name!r} has no balance of forces near the guess ({count} steps): what is "
        f"left pushes along {listed}, N m or N. The potential falls without end that way, or the guess is too far: "
        f"hold a joint (hold=), give it a spring or a stop, or move the guess.",
        point.q[0],
        left,
    )


def _refuse_penetration(balance: Balance, q: Array) -> None:
    """Contacts carry nothing in this search, so a configuration in which shapes overlap is no answer."""
    if not balance.model.touches:
        return
    gaps = np.asarray(balance.evaluate("contact_gaps", q=q)).reshape(-1, len(contact_set(balance.model).names))
    worst = gaps.min(axis=0)
    deep = [
        f"{name} by {-gap:.3g} m"
        for name, gap in zip(contact_set(balance.model).names, worst, strict=True)
        if gap < -OVERLAP
    ]
    if deep:
        raise UnsupportedError(
            f"equilibrium: contacts carry nothing here, and at the balance that was found shapes overlap "
            f"({', '.join(deep[:4])}): let the model settle with wt.simulate, or hold the contacts as constraints"
        )


def _beyond_limits(model: Model, q: Array) -> tuple[str, ...]:
    found = []
    for joint, part, kind in zip(model.joints, model.q_slices, model.joint_types, strict=True):
        if kind.nq == kind.nv == 1 and np.any((q[..., part] < joint.lower) | (q[..., part] > joint.upper)):
            found.append(joint.name)
    return tuple(found)


def _symmetric(K: Array) -> Array:
    return np.asarray((K + _T(K)) / 2)


def _T(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


def _apply(matrix: Array, x: Array) -> Array:
    return np.asarray((matrix @ x[..., None])[..., 0])
