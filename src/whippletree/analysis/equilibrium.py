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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from whippletree.analysis.balance import Balance, held_rows
from whippletree.analysis.balance_search import (
    NEUTRAL_STIFFNESS,
    STILL_CLOSED,
    Point,
    Resting,
    RestingSearch,
    Search,
    apply,
    symmetric,
    transpose,
)
from whippletree.analysis.linear import eigenvalues_at_rest
from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.contact.kinematics.joint_contacts import joint_stops, limited_axes
from whippletree.errors import AssemblyError, EquilibriumError, ShapeError, SingularSystemError, UnsupportedError
from whippletree.model import Constraint, Model, require_model
from whippletree.simulation.output.labels import velocities as velocity_names

STABLE, UNSTABLE, NEUTRAL, FIXED, NOT_FOUND = "stable", "unstable", "neutral", "no freedom", "not found"

OVERLAP_AT_REST = 1e-9
"""Depth, m, from which shapes count as overlapping."""

FADING = 1e-7
"""Growth relative to the largest eigenvalue that may be rounding: eigenvalues that meet, as at the onset of flutter,
move with its root."""

BALANCED_BY_ROUNDING = 1e-10
"""Force left, relative to those that meet, that counts as balanced where rounding allows no less."""


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
    """Joints whose limits the configuration exceeds, with ``stops=False``: a stop would carry a part of the load."""
    resting_on: tuple[str, ...]
    """Contacts and joint limits that carry, ``floor.normal`` or ``elbow.lower`` as in ``rows``; in a batch, those that
    carry in any element."""
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
        if self.resting_on:
            lines.append(f"  resting on {', '.join(map(repr, self.resting_on))}")
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
    stops: bool = True,
    t: float = 0.0,
    active: Any = None,
    tolerance: float = 1e-11,
    iterations: int = 300,
) -> Equilibrium:
    """A configuration near a guess in which gravity, springs, loads and constraint forces balance.

    Args:
        model: any model; prescribed motions are taken at time ``t``.
        guess: (..., nq); default: the model's home. Loops need not be closed.
        tau: joint forces that act, (..., nv), N m or N; springs of the joints act beside them.
        forces: N in world axes at the origin of a frame, ``{"tip": (0, 200, 0)}``: they keep their direction.
        wrenches: moment and force in the axes of a frame, (6,): they turn with it and have no potential.
        parameters: numbers of the model to be replaced, by path, each with the batch in front.
        hold: joints by name that stay at a coordinate.
        minimise: look for a minimum of the potential; if False, for the nearest balance, stable or not.
        stops: whether contacts and joint limits carry what pushes against them, without friction (a balance without
            it is one with it). They are part of a search downhill only: for loads without a potential, or without
            ``minimise``, they carry nothing, and with ``stops=False`` neither: limits that are exceeded are named
            (``beyond_limits``), shapes that overlap are refused.
        t: time, for constraints that depend on it.
        active: 1 or 0 for every switchable constraint; default: all on.
        tolerance: force left along an allowed motion, relative to the forces that meet in it or that a displacement of
            a radian or a metre would cause there.
        iterations: at most so many steps.

    Returns:
        The configuration, whether it is stable, and the forces that hold it. In a batch, elements without an answer
        are ``not found`` and keep the best configuration; those that contacts and limits hold have columns of zeros
        in ``motions`` for what these take away.

    Raises:
        EquilibriumError: if no balance was found from a single guess: the potential has no minimum that way.
        AssemblyError: if the loops do not close near a single guess.
    """
    if not tolerance >= 0:
        raise ValueError(f"equilibrium: tolerance is {tolerance}, expected a number from 0 on")
    if iterations < 1:
        raise ValueError(f"equilibrium: iterations is {iterations}, expected a whole number from 1 on")
    require_model(model, "equilibrium")
    model = _with_held(model, hold)
    words: dict[str, Any] = {"tau": tau, "forces": forces, "wrenches": wrenches, "parameters": parameters}
    balance = Balance("equilibrium", model, **words, t=t, active=active)
    q = balance.coordinates("guess", model.home.q if guess is None else guess)
    batch = np.broadcast_shapes(q.shape[:-1], balance.batch)
    flat = np.broadcast_to(q, (*batch, model.nq)).reshape(int(np.prod(batch, dtype=int)), model.nq)
    downhill = minimise and balance.conservative
    search = Search(balance.flatten_batch(batch), downhill, tolerance)
    start = flat if batch else search.assemble(flat)
    supported = stops and downhill
    if supported and model.touches:
        answers = _Answers.empty(search, len(start))
        lost = np.arange(len(start))
    else:
        answers = _search_without_supports(search, start, iterations, again=not batch)
        lost = np.zeros(0, int)
        if supported:
            lost = np.flatnonzero(_exceeds_limits(balance, answers.q) | (answers.stability == NOT_FOUND))
    if len(lost) and (model.touches or joint_stops(model)):
        _rest_on_supports(answers, search.balance, start, lost, tolerance, iterations)
    if not batch:
        _require_found(balance, answers)
    if not supported:
        _refuse_penetration(search.balance, answers.q)
    return answers.report(batch, model)


def _search_without_supports(search: Search, start: Array, iterations: int, *, again: bool) -> _Answers:
    """Balances that neither contacts nor limits carry; one that ended on another branch is searched ``again``."""
    point, count = search.run(start, iterations)
    stability = _judge_stability(search, point)
    if again and stability[0] == NOT_FOUND and search.has_branched(point):
        point, count = search.run(point.q, iterations)
        stability = _judge_stability(search, point)
    return _Answers.of(search, point, stability, count)


class _Answers:
    """All quantities of every configuration of a flat batch; each has as many rows and motions as any."""

    def __init__(self, search: Search, q: Array, stability: Array, count: int) -> None:
        self.search, self.q, self.stability, self.iterations = search, q, stability, count
        self.rows = search.balance.row_names
        self.points: dict[int, Point] = {}
        n, m, d = search.balance.model.nv, len(self.rows), search.balance.model.nv - search.rank
        self.K, self.Z = np.zeros((len(q), d, d)), np.zeros((len(q), n, d))
        self.forces, self.unbalanced = np.zeros((len(q), m)), np.zeros(len(q))
        self.resting_on: tuple[str, ...] = ()
        self.width = 0  # the most motions that supports leave

    @staticmethod
    def empty(search: Search, count: int) -> _Answers:
        """Nothing found yet."""
        words = np.full(count, NOT_FOUND, dtype=object)
        return _Answers(search, np.zeros((count, search.balance.model.nq)), words, 0)

    @staticmethod
    def of(search: Search, point: Point, stability: Array, count: int) -> _Answers:
        """The result of a search."""
        answers = _Answers(search, point.q, stability, count)
        answers.K, answers.Z, answers.forces, answers.unbalanced = _stiffness_and_forces(search, point)
        answers.points = {0: point.select(np.arange(1))} if len(point.q) else {}
        return answers

    def put(self, k: int, found: Resting, word: str, names: tuple[str, ...]) -> None:
        """Take over one configuration that rests on supports, whose rows are the last of its forces."""
        K, Z, _, unbalanced = (x[0] for x in _stiffness_and_forces(found.search, found.point))
        d, own = K.shape[-1], len(self.search.balance.row_names)
        if d > self.K.shape[-1]:  # at a dead point more moves than usually
            more = d - self.K.shape[-1]
            self.K = np.pad(self.K, ((0, 0), (0, more), (0, more)))
            self.Z = np.pad(self.Z, ((0, 0), (0, 0), (0, more)))
        self.K[k], self.Z[k] = 0.0, 0.0
        self.K[k, :d, :d], self.Z[k, :, :d] = K, Z
        for name in names:
            if name not in self.rows:
                self.rows = (*self.rows, name)
                self.forces = np.pad(self.forces, ((0, 0), (0, 1)))
        self.forces[k] = 0.0
        self.forces[k, :own] = found.forces[:own]
        self.forces[k, [self.rows.index(name) for name in names]] = found.forces[own:]
        self.q[k], self.stability[k], self.unbalanced[k] = found.point.q[0], word, unbalanced
        self.points[k], self.iterations = found.point, max(self.iterations, found.iterations)
        self.resting_on = tuple(dict.fromkeys((*self.resting_on, *names)))
        self.width = max(self.width, d)

    def report(self, batch: tuple[int, ...], model: Model) -> Equilibrium:
        """The result; one that rests on supports has no more motions than they leave it."""
        K, Z = self.K, self.Z
        if not batch and self.resting_on:
            K, Z = K[..., : self.width, : self.width], Z[..., : self.width]
        found, K, Z, f = (x.reshape(*batch, *x.shape[1:]) for x in (self.q, K, Z, self.forces))
        return Equilibrium(
            found,
            self.stability.reshape(batch) if batch else str(self.stability[0]),
            K,
            Z,
            f,
            self.rows,
            self.unbalanced.reshape(batch),
            self.iterations,
            _beyond_limits(model, self.q),
            self.resting_on,
            model,
        )


def _rest_on_supports(
    answers: _Answers, balance: Balance, start: Array, lost: Array, tolerance: float, iterations: int
) -> None:
    """Search elements of the batch one by one with contacts and joint limits that carry."""
    for k in lost:
        one = RestingSearch(balance.select(np.array([k])), tolerance)
        found = one.run(start[[k]], iterations)
        word = str(_judge_stability(found.search, found.point)[0])
        names = found.search.balance.row_names[len(balance.row_names) :]
        answers.put(int(k), found, STABLE if word == FIXED and names else word, names)


def _exceeds_limits(balance: Balance, q: Array) -> Array:
    """Whether a joint limit is exceeded, (n,)."""
    gaps = [stop.gap(q) for stop in joint_stops(balance.model)]
    return np.any([gap < -OVERLAP_AT_REST for gap in gaps], axis=0) if gaps else np.zeros(len(q), dtype=bool)


def _with_held(model: Model, hold: Mapping[str, Any] | None) -> Model:
    """The model with a prescribed constant coordinate for every joint that is held, whose limits are not asked."""
    if not hold:
        return model
    held = []
    for name, value in hold.items():
        freedoms = model.joint_types[model.joint_index(name)].nv
        if freedoms != 1:
            raise ShapeError(
                f"equilibrium: hold names joint {name!r}, which has {freedoms} freedoms: only a joint of one can be "
                f"held at a number"
            )
        if np.shape(value) != ():
            raise ShapeError(f"equilibrium: hold gives joint {name!r} {value!r}, expected one number (rad or m)")
        held.append(Constraint(f"hold {name}", "coupling", (name,), {"coefficients": (float(value),)}))
    joints = tuple(replace(j, lower=-np.inf, upper=np.inf) if j.name in hold else j for j in model.joints)
    return replace(model, joints=joints, constraints=(*model.constraints, *held))


def _stiffness_and_forces(search: Search, point: Point) -> tuple[Array, Array, Array, Array]:
    """Stiffness along orthonormal motions, these motions, the rows' least-norm forces, and the force that is left."""
    rows = held_rows(search.balance.jacobian(point.q), search.rank)
    Z, R = np.linalg.qr(point.Z)
    back = np.linalg.inv(R)
    left = np.abs(apply(transpose(back), point.g)).max(axis=-1, initial=0.0)
    return transpose(back) @ point.K @ back, Z, apply(transpose(rows.inverse), point.r), left


def _judge_stability(search: Search, point: Point) -> Array:
    """In words, for every configuration."""
    words = np.full(len(point.q), STABLE, dtype=object)
    balanced = (point.imbalance <= max(search.tolerance, BALANCED_BY_ROUNDING)) & (point.gap <= STILL_CLOSED)
    if not point.K.shape[-1]:
        words[:] = FIXED
    elif search.balance.conservative:
        lowest = np.linalg.eigvalsh(symmetric(point.K))[..., 0]
        edge = NEUTRAL_STIFFNESS * point.sizes
        words[:] = np.where(lowest > edge, STABLE, np.where(lowest < -edge, UNSTABLE, NEUTRAL))
    else:
        words[balanced] = _judge_by_motion(search.balance.select(balanced), point.select(balanced))
    return np.where(balanced, words, NOT_FOUND)


def _judge_by_motion(balance: Balance, point: Point) -> Array:
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


def _require_found(balance: Balance, answers: _Answers) -> None:
    if answers.stability[0] != NOT_FOUND:
        return
    point, count = answers.points[0], answers.iterations
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
        f"hold a joint (hold=), give it a spring or a stop, or move the guess.{_about_friction(balance)}",
        point.q[0],
        left,
    )


def _about_friction(balance: Balance) -> str:
    if not balance.model.contacts or not np.any(contact_set(balance.model).friction):
        return ""
    return " Friction of contacts is no part of the search: what only friction holds, let settle with wt.simulate."


def _refuse_penetration(balance: Balance, q: Array) -> None:
    """Contacts carry nothing in such a search, so a configuration in which shapes overlap is no answer."""
    if not balance.model.touches:
        return
    gaps = np.asarray(balance.evaluate("contact_gaps", q=q)).reshape(-1, len(contact_set(balance.model).names))
    worst = gaps.min(axis=0)
    deep = [
        f"{name} by {-gap:.3g} m"
        for name, gap in zip(contact_set(balance.model).names, worst, strict=True)
        if gap < -OVERLAP_AT_REST
    ]
    if deep:
        raise UnsupportedError(
            f"equilibrium: contacts carry nothing here, and at the balance that was found shapes overlap "
            f"({', '.join(deep[:4])}): let the model settle with wt.simulate, or hold the contacts as constraints"
        )


def _beyond_limits(model: Model, q: Array) -> tuple[str, ...]:
    return tuple(axis.name for axis in limited_axes(model) if np.any(axis.excess(q) > 0))
