"""``wt.inverse_kinematics``: coordinates that bring frames to their goals, with loops closed and limits kept.

Many problems from many starts run at once: a few iterations (:mod:`whippletree.analysis.reaching`) are one call of a
compiled program over all of them, and those that have arrived leave the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whippletree.analysis.balance import Balance
from whippletree.analysis.reaching import POSE, POSITION, ReachingTask, reaching_program
from whippletree.arithmetic.arrays import Array
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.model import Model, require_model
from whippletree.model.input_checks import floats, refuse_zero_quaternions, shape_message

GOAL = 1e-10
"""Angle, rad, and distance, m, within which a goal counts as reached; loops are closed as well as that."""

REACHING_ITERATIONS = 100

FIRST_STARTS = 4
"""Random starts that are tried at first; later rounds have twice as many, so that easy problems stay cheap."""

STARTS_AT_ONCE = 16
"""Random starts that are tried at once at least, over all problems: fewer would not fill the lanes of the processor."""

IMPATIENCE = 0.5
"""While there are further starts, a search is left whose cost is more than this share of what it was two calls before:
close to a goal it falls much faster, and elsewhere another start is the better bet."""

REACHING_ROUNDS = 4
"""Iterations of one call; problems that have arrived or stalled leave between calls."""

STALLED_DAMPING = 1e6
"""Multiple of the cost that damping has reached when steps no longer help: a minimum that is no solution."""

STRICT_LOOPS = 1e6
"""Weight of an open loop in the second search, after which the closest configuration has its loops closed: they yield
by a millionth of the goals' errors within it, and nothing afterwards."""

UNROTATED = 1e-9
"""How far RᵀR of a goal may be from 1."""


@dataclass(frozen=True)
class Reached:
    """The result of inverse kinematics; with a batch, every field has its dimensions in front."""

    q: Array
    """(..., nq); where a goal is out of reach, the closest that was found, with loops closed."""
    reached: Any
    """Whether every goal is met within the tolerance, (...,)."""
    distance: Array
    """Distance of every frame from its goal, m, (..., frames)."""
    angle: Array
    """Angle of every frame from its goal, rad, (..., frames); 0 where only a position was asked."""
    gap: Array
    """Largest residual of a loop, m or rad, (...,)."""
    frames: tuple[str, ...]
    starts: Array
    """From how many starts each problem was tried, (...,)."""
    model: Model = field(repr=False)

    def __str__(self) -> str:
        if self.q.ndim > 1:
            count, total = int(np.sum(self.reached)), int(np.size(self.reached))
            return f"inverse kinematics of model {self.model.name!r}: {count} of {total} goals reached"
        if self.reached:
            return f"inverse kinematics of model {self.model.name!r}: reached"
        apart = [
            f"{name!r} stays {d:.6g} m" + (f" and {a:.6g} rad" if a else "") + " from its goal"
            for name, d, a in zip(self.frames, self.distance, self.angle, strict=True)
        ]
        tried = f"from {self.starts} start{'s' * (int(self.starts) != 1)}"
        loops = f"; loops stay open by {self.gap:.3g}" if self.gap > GOAL else ""
        return f"inverse kinematics of model {self.model.name!r}: out of reach {tried}: {', '.join(apart)}{loops}"

    __repr__ = __str__


def inverse_kinematics(
    model: Model,
    goals: Mapping[str, Any],
    guess: Any = None,
    *,
    weights: Mapping[str, Any] | None = None,
    limits: bool = True,
    starts: int = 0,
    seed: int = 0,
    tolerance: float = GOAL,
    iterations: int = REACHING_ITERATIONS,
    t: float = 0.0,
    active: Any = None,
) -> Reached:
    """Coordinates that bring frames to poses or positions, near a guess or from many starts.

    Args:
        model: any model; loops are closed, switchable constraints as ``active`` says, velocity rows are not asked.
        goals: for frames or bodies by name, poses in the world (..., 4, 4) or positions (..., 3), m.
        guess: where to start, (..., nq); default: the model's home.
        weights: for frames by name, (rotation, position) or one number for both: what a radian and a metre count
            where not all goals can be met; default 1.
        limits: whether joint limits bound the answer.
        starts: further random starts for problems that the guess does not solve: within joint limits, or half a turn
            and a metre around the guess. Of several answers, the one closest to the guess is taken.
        seed: of the random starts.
        tolerance: rad and m.
        iterations: at most so many from each start.
        t: time, for constraints that depend on it.
        active: 1 or 0 for every switchable constraint; default: all on.

    Returns:
        The coordinates, and how far each frame stays away; ``reached`` tells, nothing is raised.

    Raises:
        NameLookupError: if there is no such frame.
        ShapeError, ValueError: a goal that is neither a pose nor a position.
        UnsupportedError: a frame that cannot move, or no goal at all.
    """
    require_model(model, "inverse_kinematics")
    task, arrays = _task(model, goals, limits)
    start = _guess(model, guess)
    _require_counts(starts, iterations, tolerance)
    batch = _common_batch(start, task, arrays)
    goal = np.stack([np.broadcast_to(g, (*batch, 4, 4)) for g in arrays], axis=-3).reshape(-1, len(arrays), 4, 4)
    q = np.broadcast_to(start, (*batch, model.nq)).reshape(-1, model.nq).copy()
    solver = _Solver(model, task, _weights(task, weights), tolerance, iterations, t, active)
    found = solver.run(q.copy(), goal, patient=starts == 0)
    tried = solver.try_again(found, q, goal, starts, seed, limits)
    shaped = [x.reshape((*batch, *x.shape[1:])) for x in (found.q, found.reached, found.apart, found.gap, tried)]
    moved, reached, apart, gap, tried = shaped
    names = tuple(name for name, _ in task.frames)
    return Reached(
        moved, bool(reached) if reached.ndim == 0 else reached, apart[..., 1], apart[..., 0], gap, names, tried, model
    )


def _require_counts(starts: Any, iterations: Any, tolerance: Any) -> None:
    for word, value, least in (("starts", starts, 0), ("iterations", iterations, 1)):
        if not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"inverse_kinematics: {word} is {value!r}, expected a whole number from {least} on")
    if not tolerance > 0:
        raise ValueError(f"inverse_kinematics: tolerance is {tolerance!r}, expected a positive number of rad and m")


def _common_batch(start: Array, task: ReachingTask, goals: list[Array]) -> tuple[int, ...]:
    shapes = {"guess": start.shape[:-1]}
    shapes |= {f"the goal of {name!r}": g.shape[:-2] for (name, _), g in zip(task.frames, goals, strict=True)}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{word} {shape}" for word, shape in shapes.items())
        raise ShapeError(f"inverse_kinematics: these batches do not fit together: {listed}") from None


def _task(model: Model, goals: Mapping[str, Any], limits: bool) -> tuple[ReachingTask, list[Array]]:
    if not isinstance(goals, Mapping) or not goals:
        raise UnsupportedError('inverse_kinematics: no goal: give frames by name, such as {"tool": pose}')
    frames, arrays = [], []
    for name, value in goals.items():
        frame = model.frame(name)
        if not _moves(model, frame.body):
            raise UnsupportedError(
                f"inverse_kinematics: frame {name!r} of model {model.name!r} is fixed to the world, so that no joint "
                f"moves it: name a frame of a moving body"
            )
        array = floats("inverse_kinematics", f"the goal of {name!r}", value)
        kind = POSE if array.shape[-2:] == (4, 4) else POSITION
        if kind == POSITION and array.shape[-1:] != (3,):
            raise ShapeError(
                f"inverse_kinematics: the goal of {name!r} has shape {array.shape}, expected a pose (..., 4, 4) or a "
                f"position (..., 3)"
            )
        if not np.all(np.isfinite(array)):
            raise ValueError(f"inverse_kinematics: the goal of {name!r} is not finite")
        frames.append((name, kind))
        arrays.append(_as_pose(name, array, kind))
    return ReachingTask(tuple(frames), limits), arrays


def _moves(model: Model, body: str) -> bool:
    """Whether any joint between a body and the world can move."""
    k = model.body_index(body)
    while k >= 0:
        if model.joint_types[k].nv:
            return True
        k = model.parents[k]
    return False


def _as_pose(name: str, array: Array, kind: str) -> Array:
    if kind == POSITION:
        pose = np.broadcast_to(np.eye(4), (*array.shape[:-1], 4, 4)).copy()
        pose[..., :3, 3] = array
        return pose
    R = array[..., :3, :3]
    error = np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)).max(initial=0.0)
    if np.any(array[..., 3, :] != (0, 0, 0, 1)):
        raise ValueError(f"inverse_kinematics: the goal of {name!r} is no pose: its last row must be 0, 0, 0, 1")
    if not error <= UNROTATED or np.any(np.linalg.det(R) < 0):
        raise ValueError(
            f"inverse_kinematics: the goal of {name!r} has no rotation in its upper left corner (RᵀR differs from 1 by "
            f"{error:.3g}, or it mirrors)"
        )
    return array


def _guess(model: Model, guess: Any) -> Array:
    q = floats("inverse_kinematics", "guess", model.home.q if guess is None else guess)
    if q.ndim < 1 or q.shape[-1] != model.nq:
        raise ShapeError(shape_message("inverse_kinematics", "guess", q.shape, (model.nq,), model))
    if not np.all(np.isfinite(q)):
        raise ValueError("inverse_kinematics: guess must be finite")
    refuse_zero_quaternions("inverse_kinematics", "guess", q, model)
    return q


def _weights(task: ReachingTask, weights: Mapping[str, Any] | None) -> Array:
    """Square roots of (rotation, position) weights, (frames, 2)."""
    names = [name for name, _ in task.frames]
    result = np.ones((len(names), 2))
    for name, value in (weights or {}).items():
        if name not in names:
            raise ShapeError(f"inverse_kinematics: weights names {name!r}, which has no goal ({', '.join(names)})")
        if np.shape(value) not in ((), (2,)):
            raise ShapeError(
                f"inverse_kinematics: weights[{name!r}] has shape {np.shape(value)}, expected one number or (rotation, "
                f"position)"
            )
        result[names.index(name)] = value
    if not np.all(result > 0) or not np.all(np.isfinite(result)):
        raise ValueError("inverse_kinematics: weights must be positive")
    return np.sqrt(result)


class _Attempts:
    """The state of many problems."""

    def __init__(self, q: Array, apart: Array, gap: Array, cost: Array, reached: Array) -> None:
        self.q, self.apart, self.gap, self.cost, self.reached = q, apart, gap, cost, reached

    def improve(self, where: Array, other: _Attempts, starts: int, distance: Any) -> None:
        """Take over the best of ``starts`` answers each: one that arrives, closest to the guess; else the cheapest."""
        apart = distance(other.q.reshape(len(where), starts, -1))
        arrived = other.reached.reshape(len(where), starts)
        rank = np.where(arrived, apart, np.inf)
        best = np.where(arrived.any(axis=1), rank.argmin(axis=1), other.cost.reshape(len(where), starts).argmin(axis=1))
        chosen = np.arange(len(where)) * starts + best
        better = other.reached[chosen] | (other.cost[chosen] < self.cost[where])
        self.put(where[better], other, chosen[better])

    def put(self, where: Array, other: _Attempts, chosen: Any) -> None:
        """Take over some of the other's problems."""
        for name in ("q", "apart", "gap", "cost", "reached"):
            getattr(self, name)[where] = getattr(other, name)[chosen]


class _Solver:
    def __init__(
        self, model: Model, task: ReachingTask, weights: Array, tolerance: float, iterations: int, t: float, active: Any
    ) -> None:
        self.model, self.weights, self.tolerance, self.iterations = model, weights, tolerance, iterations
        self.balance = Balance("inverse_kinematics", model, t=t, active=active)
        self.iterate = self.balance.dyn.program(("reach", task), lambda: reaching_program(task, model))
        self.fixed = {"t": t, "active": self.balance.active}
        self.fixed = {word: value for word, value in self.fixed.items() if word in self.iterate.inputs}

    def run(self, q: Array, goals: Array, *, patient: bool) -> _Attempts:
        """Every problem until it has arrived, or stalls; if ``patient``, where it stalls is as close as it can be."""
        count, frames = len(q), goals.shape[1]
        found = _Attempts(
            q, np.zeros((count, frames, 2)), np.zeros(count), np.zeros(count), np.zeros(count, dtype=bool)
        )
        self._iterate(found, np.arange(count), goals, 1.0, patient)
        if patient:
            self._come_closest(found, np.flatnonzero(~found.reached), goals)
        return found

    def _come_closest(self, found: _Attempts, lost: Array, goals: Array) -> None:
        """The closest configurations with all loops closed."""
        if np.any(self.balance.at_position_level) and len(lost):
            found.q[lost] = self.balance.close_loops(found.q[lost])
            self._iterate(found, lost, goals, STRICT_LOOPS, True)
            found.q[lost] = self.balance.close_loops(found.q[lost])
            found.gap[lost] = np.abs(self.balance.residual(found.q[lost])).max(axis=-1, initial=0.0)

    def _iterate(self, found: _Attempts, left: Array, goals: Array, strictness: float, patient: bool) -> None:
        damping = np.ones(len(left))
        before = np.full((2, len(left)), np.inf)
        for done in range(0, self.iterations, REACHING_ROUNDS):
            if not len(left):
                return
            numbers = {"goals": goals[left], "weights": self.weights, "damping": damping, "strictness": strictness}
            rounds = np.zeros(min(REACHING_ROUNDS, self.iterations - done))
            moved, damping, apart, gap, cost = self.iterate(q=found.q[left], **numbers, rounds=rounds, **self.fixed)
            found.q[left], found.apart[left], found.gap[left], found.cost[left] = moved, apart, np.sqrt(gap), cost
            met = np.all(apart <= self.tolerance, axis=(-2, -1)) & (gap <= self.tolerance**2)
            found.reached[left[met]] = True
            going = ~met & (damping < STALLED_DAMPING)
            if not patient:
                going &= cost <= IMPATIENCE * before[0]
            left, damping, before = left[going], damping[going], np.stack([before[1], cost])[:, going]

    def try_again(self, found: _Attempts, guess: Array, goals: Array, starts: int, seed: int, limits: bool) -> Array:
        """Random starts for problems that are not solved, twice as many at once every time; how many were used.

        What is still not solved then is led as close as it comes, from the best that was found.
        """
        tried, random, count = np.ones(len(guess), dtype=int), np.random.default_rng(seed), FIRST_STARTS
        asked = starts > 0
        while starts > 0:
            lost = np.flatnonzero(~found.reached)
            if not len(lost):
                return tried
            count = min(max(count, -(-STARTS_AT_ONCE // len(lost))), starts)
            many = _random_starts(self.model, guess[lost], count, random, limits)
            further = self.run(many.reshape(-1, self.model.nq), np.repeat(goals[lost], count, axis=0), patient=False)
            found.improve(lost, further, count, self.distance(guess[lost]))
            tried[lost] += count
            starts, count = starts - count, 2 * count
        lost = np.flatnonzero(~found.reached)
        if asked and len(lost):
            closest = self.run(found.q[lost].copy(), goals[lost], patient=True)
            found.put(lost, closest, slice(None))
        return tried

    def distance(self, guess: Array) -> Any:
        """How far answers (problems, starts, nq) are from the guesses, rad and m."""

        def distance_from_guess(q: Array) -> Array:
            apart = self.balance.dyn.difference(guess[:, None, :], q)
            return np.asarray(np.linalg.norm(apart, axis=-1))

        return distance_from_guess


def _random_starts(model: Model, guess: Array, starts: int, random: np.random.Generator, limits: bool) -> Array:
    """(problems, starts, nq): within limits where joints have them, else around the guess; quaternions of any turn."""
    result = np.repeat(guess[:, None, :], starts, axis=1)
    for joint, part, kind in zip(model.joints, model.q_slices, model.joint_types, strict=True):
        for i in range(part.start, part.stop):
            spread = np.pi if joint.kind in ("revolute", "helical", "universal", "cylindrical") else 1.0
            lower, upper = result[..., i] - spread, result[..., i] + spread
            if limits and kind.nq == 1:
                lower, upper = np.maximum(lower, joint.lower), np.minimum(upper, joint.upper)
                if np.isfinite(joint.lower) and np.isfinite(joint.upper):
                    lower, upper = np.full_like(lower, joint.lower), np.full_like(upper, joint.upper)
            result[..., i] = random.uniform(np.minimum(lower, upper), upper)
        if kind.nq > kind.nv:
            turn = random.normal(size=(*result.shape[:2], 4))
            result[..., part.stop - 4 : part.stop] = turn / np.linalg.norm(turn, axis=-1, keepdims=True)
    return np.asarray(result)
