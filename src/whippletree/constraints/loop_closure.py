"""Closing loops: coordinates near a guess that meet every position row.

Gauss–Newton on the manifold of the tree's coordinates, with least-norm steps, so that what the rows do not ask for
stays where the guess put it. Near a singular configuration, where such a step grows without bound, it is damped as
in Levenberg and Marquardt's method; the damping goes with the residual, so that convergence stays fast. Where it
stalls at a saddle of |g|² (frames that must coincide and are half a turn apart: both ways round are equally long) it
goes on along the direction in which |g|² bends down most. Numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.constraints.rows import Prepared, Rows
from whippletree.constraints.ties import find_ties
from whippletree.errors import AssemblyError, NameLookupError, ShapeError, UnsupportedError
from whippletree.model import Model
from whippletree.model.input_checks import coordinates, floats
from whippletree.tree.mechanism import Mechanism

CLOSING_ITERATIONS = 100
CLOSED_LOOP = 1e-11
"""Largest residual of a row that counts as closed, m or rad."""


ROUNDED = 1e-3
"""m or rad: loops that are open by less may be those of a rounded drawing."""

SADDLES = 4
"""How many saddles of |g|² are left one after the other: as many closures may be half a turn off at once."""

HALF_TURN = 1e-3
"""How much shorter than 2 the residual 2 sin(θ/2) of a rotation may be to speak of half a turn: θ within 4 degrees."""

FLAT_CURVATURE = 1e-8
"""Share of the largest curvature of |g|² up to which a negative one is rounding."""

BENDS = 100
"""Velocities up to which the curvature of |g|² is formed, at the price of one derivative of the Jacobian each."""


def attainable(model: Model) -> float:
    """CLOSED_LOOP, or what rounding leaves of it where positions add up to many metres: 1e-13 of the joint offsets on
    the longest way from the world."""
    ways: list[float] = []
    for joint, parent in zip(model.joints, model.parents, strict=True):
        offset = float(np.linalg.norm(joint.pose[:3, 3].astype(float)))
        ways.append(offset + (ways[parent] if parent >= 0 else 0.0))
    return max(CLOSED_LOOP, 1e-13 * max(ways, default=0.0))


class Closure:
    """The rigid position rows of a model as a system of equations in floats."""

    def __init__(self, mechanism: Mechanism, demands: Sequence[Prepared], t: float = 0.0) -> None:
        self.mechanism = mechanism
        self.demands = [
            c for c in demands if c.demand.level == "position" and not c.constraint.parameters.get("compliance")
        ]
        self.t = t
        self.names = [name for c in self.demands for name in c.row_names]
        self.units = [unit for c in self.demands for unit in c.demand.units]
        self._last: tuple[bytes, Rows] | None = None
        """The rows at the last coordinates: a step asks for the Jacobian where the residual was taken."""
        self._slope: tuple[bytes, Array] | None = None
        """The last Jacobian: steps that are refused start again from the same coordinates."""

    def residual(self, q: Array) -> Array:
        """g (p,)."""
        with np.errstate(invalid="ignore"):  # not a number where a direction is lost: the caller moves on
            return self._rows(q).residual().astype(float)

    def jacobian(self, q: Array) -> Array:
        """∂g/∂q in the tangent space, (p, nv)."""
        if self._slope is None or self._slope[0] != q.tobytes():
            self._slope = q.tobytes(), self._rows(q).jacobian().astype(float)
        return self._slope[1]

    def jacobian_rate(self, q: Array, d: Array) -> Array:
        """The rate (p, nv) at which the Jacobian changes while q moves along d (nv,)."""
        m, at = self.mechanism, q.astype(object)
        state = duals(at, m.manifold().rate(at, d.astype(object)))
        rows = Rows(m, self.demands, m.still(state), state, None, Dual(self.t, 0))
        return slopes(rows.jacobian()).astype(float)

    def move(self, q: Array, d: Array) -> Array:
        """q ⊕ d."""
        return self.mechanism.manifold().integrate(q.astype(object), d.astype(object)).astype(float)

    def normalise(self, q: Array) -> Array:
        """The coordinates with quaternions at unit length."""
        return self.mechanism.manifold().normalise(q.astype(object)).astype(float)

    @cached_property
    def parts(self) -> list[tuple[Array, Array]]:
        """Numbers of rows, and of the velocities that they feel, of loops that have no joint in common."""
        tree = self.mechanism.tree
        counts = [len(c.demand.rows) for c in self.demands]
        if any(c.demand.on == "massless" for c in self.demands):
            return [(np.arange(sum(counts)), np.arange(tree.model.nv))]
        ties = find_ties(tree, self.demands)
        own = np.repeat(ties.of_demand, counts)
        found = []
        for number in dict.fromkeys(ties.of_demand):
            nodes = ties.members[number] if number >= 0 else []
            felt = [np.arange(tree.v_slices[k].start, tree.v_slices[k].stop) for k in nodes]
            found.append((np.flatnonzero(own == number), np.concatenate([np.zeros(0, dtype=int), *felt])))
        return found

    def solve(self, q: Array, held: Array, tolerance: float) -> tuple[Array, Array]:
        """The coordinates reached from q and their residual; the velocities in ``held`` do not move.

        Loops that have no joint in common are closed each at its own pace.
        """
        g = self.residual(q)
        damping = [0.0] * len(self.parts)
        columns = [felt[~held[felt]] for _, felt in self.parts]
        for _ in range(CLOSING_ITERATIONS):
            left = [
                i
                for i, (rows, _) in enumerate(self.parts)
                if tolerance < _largest(g[rows]) < np.inf and damping[i] <= 1.0
            ]
            if not left:
                break
            A, d = self.jacobian(q), np.zeros(len(held))
            for i in left:
                rows = self.parts[i][0]
                d[columns[i]] = _step(A[np.ix_(rows, columns[i])], g[rows], damping[i])
            trial = self.move(q, d)
            after = self.residual(trial)
            closer = [i for i in left if _closer(after[self.parts[i][0]], g[self.parts[i][0]])]
            for i in left:
                if i in closer:
                    damping[i] = damping[i] / 100 if damping[i] > 1e-8 else 0.0
                    g[self.parts[i][0]] = after[self.parts[i][0]]
                else:
                    damping[i] = max(10 * damping[i], 1e-8)
                    d[columns[i]] = 0.0
            if closer:
                q = trial if len(closer) == len(left) else self.move(q, d)
        return q, g

    def _rows(self, q: Array) -> Rows:
        if self._last is None or self._last[0] != q.tobytes():
            state = q.astype(object)
            m = self.mechanism
            self._last = q.tobytes(), Rows(m, self.demands, m.still(state), state, None, self.t)
        return self._last[1]


def _largest(g: Array) -> float:
    """The largest residual; infinite if one is not a number."""
    return float(np.abs(g).max(initial=0.0)) if np.all(np.isfinite(g)) else np.inf


def _closer(after: Array, before: Array) -> bool:
    """Whether a step has made residuals smaller."""
    return bool(np.linalg.norm(after) < np.linalg.norm(before))


def _step(A: Array, g: Array, damping: float) -> Array:
    """−Aᵀ (A Aᵀ + μ |A|² 1)⁻¹ g, by singular values; without damping those below 1e-9 of the largest are left out."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    if not s.size or s[0] == 0:
        return np.zeros(A.shape[1])
    factors = s / (s * s + damping * s[0] ** 2) if damping else np.where(s > 1e-9 * s[0], 1 / np.maximum(s, 1e-300), 0)
    step = -Vt.T @ (factors * (U.T @ g))
    # no more than about a radian or a metre at a time: beyond, the linearisation means nothing
    return np.asarray(step / max(1.0, np.abs(step).max()))


def close_loops(
    closure: Closure, guess: Array, hold: Mapping[str, Any], tolerance: float, attempts: int = 4, spread: float = 0.4
) -> Array:
    """Coordinates that close every loop near a guess; see :func:`whippletree.constraints.assembly.assemble`.

    A guess from which Newton's method stalls is left where |g|² bends down, if it does, and else (a singular
    configuration, a loop that is far open) moved a little, at most ``attempts`` times, by fixed pseudo-random amounts
    up to ``spread``. Flexible bodies keep their shape as long as loops close without; only then they bend.
    """
    model = closure.mechanism.tree.model
    q, held = with_held(model, np.array(guess, dtype=float), hold)
    q = closure.normalise(coordinates("assemble", "guess", q, model))
    stiff = held.copy()
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        stiff[part] |= joint.kind == "modal"
    best, g = _search(closure, q, stiff, tolerance, attempts, spread)
    if _largest(g) > tolerance and np.any(stiff & ~held):
        best, g = _search(closure, best, held, tolerance, attempts, spread)
    if _largest(g) <= tolerance:
        return best
    _require_numbers(closure, best)
    gaps = {name: float(x) for name, x in zip(closure.names, g, strict=True) if abs(x) > tolerance}
    raise AssemblyError(open_loops(model, closure, g, hold, tolerance), best, gaps)


def _search(
    closure: Closure, q: Array, held: Array, tolerance: float, attempts: int, spread: float
) -> tuple[Array, Array]:
    """The best coordinates found from q, with ``held`` velocities at rest, and their residual."""
    best, g = closure.solve(q, held, tolerance)
    if attempts and tolerance < _largest(g) < np.inf:
        best, g = _leave_saddles(closure, best, g, held, tolerance, spread)
    # what is open by rounding only is so from everywhere else, too: one other start is enough to see it
    attempts = min(attempts, 1) if _largest(g) <= ROUNDED else attempts
    random = np.random.default_rng(0)
    for attempt in range(attempts):
        if _largest(g) <= tolerance:
            break
        d = np.where(held, 0.0, random.uniform(-spread, spread, len(held)) * (attempt + 1) / attempts)
        found, after = closure.solve(closure.move(q, d), held, tolerance)
        if _largest(after) < _largest(g):
            best, g = found, after
    return best, g


def _leave_saddles(
    closure: Closure, q: Array, g: Array, held: Array, tolerance: float, spread: float
) -> tuple[Array, Array]:
    """The coordinates reached, and their residual, after going on from saddles of |g|² at q; q where there is none.

    A direction of negative curvature keeps everything else where it is: a body turns about one axis, and does not
    slide along it.
    """
    for _ in range(SADDLES):
        d = np.zeros(len(held))
        d[~held] = spread * _steepest_bend(closure, q, g, ~held)
        if not np.any(d) or _largest(g) <= tolerance:
            break
        trials = [closure.solve(closure.move(q, way), held, tolerance) for way in (d, -d)]
        found, after = min(trials, key=lambda trial: _size(trial[1]))
        if not _size(after) < _size(g):
            break
        q, g = found, after
    return q, g


def _steepest_bend(closure: Closure, q: Array, g: Array, free: Array) -> Array:
    """The unit direction in which ½ |g|² bends down most, among the free velocities; zeros where it nowhere does, or
    where there are more than ``BENDS`` of them."""
    count = int(np.sum(free))
    if not 0 < count <= BENDS:
        return np.zeros(count)
    A = closure.jacobian(q)[:, free]
    moves = np.eye(len(free))[free]
    curvature = A.T @ A + np.stack([closure.jacobian_rate(q, d)[:, free].T @ g for d in moves], axis=1)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    if not values[0] < -FLAT_CURVATURE * np.abs(values).max():
        return np.zeros(count)
    return np.asarray(vectors[:, 0])


def _size(g: Array) -> float:
    """The length of a residual; infinite if an entry is not a number."""
    return float(np.linalg.norm(g)) if np.all(np.isfinite(g)) else np.inf


def _require_numbers(closure: Closure, q: Array) -> None:
    """A residual that is not a number at the guess and around it is a fault of the constraint, not of the guess."""
    bad = [name for name, x in zip(closure.names, closure.residual(q), strict=True) if not np.isfinite(x)]
    if bad:
        raise AssemblyError(
            f"model {closure.mechanism.tree.model.name!r}: the residual of {', '.join(bad)} is not a number at the "
            f"guess: move the guess, or correct the function of the constraint",
            q,
            dict.fromkeys(bad, float("nan")),
        )


def with_held(model: Model, q: Array, hold: Mapping[str, Any]) -> tuple[Array, Array]:
    """Coordinates (nq,) with some of them set, by the names of joints or of single coordinates, ``joint[i]``, and which
    velocities (nv,) do not move."""
    held = np.zeros(model.nv, dtype=bool)
    for name, value in hold.items():
        place, rates = held_part(model, name)
        own = q[place]
        if np.shape(value) not in ((), own.shape):
            raise ShapeError(f"assemble: joint {name!r} has {len(own)} coordinates, hold gives {np.shape(value)}")
        own[:] = floats("assemble", f"hold[{name!r}]", value)
        if not np.all(np.isfinite(own)):
            raise ValueError(f"assemble: hold[{name!r}] is {value}: coordinates must be finite")
        held[rates] = True
    return q, held


def held_part(model: Model, name: str) -> tuple[slice, slice]:
    """The places in q and in v of a joint, or of ``joint[i]``, one of several coordinates that are plain numbers.

    Raises:
        NameLookupError: there is no such joint.
        UnsupportedError: a single number of a quaternion.
    """
    joint, _, number = name.removesuffix("]").rpartition("[")
    known = {own.name: k for k, own in enumerate(model.joints)}
    if name in known or joint not in known or not number.isdecimal():
        return model.q_slice(name), model.slice(name)
    kind, i = model.joint_types[known[joint]], int(number)
    if kind.nq != kind.nv:
        raise UnsupportedError(
            f"{name!r}: joint {joint!r} stores a quaternion, of which no number can be held alone: hold {joint!r}"
        )
    if i >= kind.nq:
        raise NameLookupError("coordinate", name, [f"{joint}[{k}]" for k in range(kind.nq)])
    place, rates = model.q_slice(joint).start + i, model.slice(joint).start + i
    return slice(place, place + 1), slice(rates, rates + 1)


def open_loops(model: Model, closure: Closure, g: Array, hold: Mapping[str, Any], tolerance: float) -> str:
    """Which constraints stay open, and by how much."""
    lines = []
    switched = []
    start = 0
    for c in closure.demands:
        part = g[start : start + len(c.demand.rows)]
        start += len(part)
        if np.abs(part).max() > tolerance:
            rows = ", ".join(
                f"{row} = {value:.6g} {unit}"
                for row, value, unit in zip(c.demand.rows, part, c.demand.units, strict=True)
            )
            lines.append(
                f"  - {c.constraint.name!r} ({' to '.join(map(repr, c.constraint.on))}) stays open: {rows}"
                f"{_half_a_turn(c, part)}"
            )
            switched += [c.constraint.name] if c.constraint.parameters.get("switchable") else []
    kept = f" with {', '.join(f'{n} = {v}' for n, v in hold.items())} held" if hold else ""
    return (
        f"model {model.name!r}: no configuration near the guess{kept} meets these constraints within {tolerance:g}:\n"
        + "\n".join(lines)
        + f"\nMove the guess, hold fewer joints, or check the lengths.{_rounding(g)}"
        + (f" {switches_that_clash(switched)}." if switched else "")
    )


def switches_that_clash(names: Sequence[str]) -> str:
    """Why switchable constraints stay open, and the cure."""
    return (
        f"Switchable constraints are all on where loops are closed and rows are counted, whatever active says later: "
        f"of {', '.join(map(repr, names))}, those that cannot hold at once need models of their own"
    )


def _rounding(g: Array) -> str:
    """The cure for loops that only rounding keeps open."""
    if not _largest(g) <= ROUNDED:
        return ""
    return " That little is rounding of a drawing: wt.assemble(model, repair='frames') moves the closing frames by it."


def _half_a_turn(c: Prepared, g: Array) -> str:
    """The reason in words where frames, or axes, that must agree are opposite: their residual has its full length 2."""
    turns = np.array([x for x, unit in zip(g, c.demand.units, strict=True) if unit == "rad"])
    if c.demand.on != "frames" or len(turns) < 2 or not np.linalg.norm(turns) > 2 - HALF_TURN:
        return ""
    return ". They are half a turn apart and nothing can turn them: turn one of the two frames, or free a joint"
