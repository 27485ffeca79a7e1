"""Iterations of inverse kinematics for one configuration, on any scalar and without branches: a kernel program.

Levenberg and Marquardt's method on the manifold of the tree's coordinates, with loops as equations and joint limits as
bounds. With the error e of the frames (what is missing, in their axes), their Jacobian J, weights w, the residual g of
the loops and its Jacobian A, the step d solves

    (Jᵀ W J + λ 1) d − Aᵀ f = Jᵀ W e          A d = −g

where λ is a multiple of the cost ½ eᵀ W e + ½ κ g², so that convergence is quadratic at a target that can be reached
(Sugihara 2011). A joint at a limit that the step would push further is left out. The step is taken where it lowers the
cost, and the multiple falls; where not, the multiple grows: ``select`` decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, identity, vector, zeros
from whippletree.compiler.program import Buffer, Loop, Program
from whippletree.compiler.program.traced_blocks import flat_piece, piece, traced_block
from whippletree.constraints import kkt
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.rows import Rows
from whippletree.contact.kinematics.joint_contacts import limited_axes
from whippletree.model import Model
from whippletree.tree import kinematics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

POSE, POSITION = "pose", "position"

FALL, GROWTH = 1 / 8, 6
"""By what the damping changes after a step that helped, and after one that did not."""

FLOOR = 1e-12
"""Least damping as a share of the mean of Jᵀ W J: keeps a step finite where a target asks nothing of some motion."""

YIELD = 1e-10
"""How much rows of loops may yield within a step, relative to their size: where rows depend on each other, a step stays
finite; repeated steps close them."""

FARTHEST_STEP = 3.0
"""Length of a step, rad or m, beyond which it is shortened."""

SMALL = 2.0**-20
"""Sine of an angle below which the angle over its sine is a series."""


class ReachingTask(NamedTuple):
    """A question, apart from its numbers."""

    frames: tuple[tuple[str, str], ...]
    """Name and ``pose`` or ``position`` of every frame."""
    limits: bool
    """Whether joint limits bound the answer."""


class Errors(NamedTuple):
    """Errors that remain at one configuration."""

    e: Array
    """Weighted errors of the frames, (rows,)."""
    g: Array
    """Residuals of loops at unit size of their rows, (k,)."""
    strictness: Any
    """κ: what an open loop costs."""
    apart: Array
    """Angle (0 where it is not asked) and distance of every frame, (frames, 2)."""
    gap: Any
    """Largest square of a loop's residual."""

    @property
    def cost(self) -> Any:
        return (self.e @ self.e + self.strictness * (self.g @ self.g)) / 2


def reaching_program(task: ReachingTask, model: Model) -> Program:
    """(q, goals, weights, damping, strictness, rounds, …) → (moved, next_damping, apart, gap, cost): many iterations.

    Inputs, in this order; the last two only where the model needs them:

        q            where to start, (nq,)
        goals        poses of the frames, (frames, 4, 4)
        weights      square roots of the weights of rotation and position, (frames, 2)
        damping      multiple of the cost that damps the next step
        strictness   what an open loop costs
        rounds       (K,): its length is the number of iterations, its numbers do not matter
        t, active    time, and which switchable constraints are on, (switches,)

    ``apart`` (frames, 2) are the angle and the distance of every frame from its goal, ``gap`` the largest square of a
    loop's residual, ``cost`` what the steps make less.
    """
    system = constraint_set(model)
    count, nq = len(task.frames), model.nq
    inputs: dict[str, tuple[int | str, ...]] = {"q": (nq,), "goals": (count, 4, 4), "weights": (count, 2)}
    inputs |= {"damping": (), "strictness": (), "rounds": ("K",)}
    inputs |= {"t": ()} if system.timed else {}
    inputs |= {"active": (len(system.switches),)} if system.switches else {}
    outputs: dict[str, tuple[int, ...]] = {
        "moved": (nq,),
        "next_damping": (),
        "apart": (count, 2),
        "gap": (),
        "cost": (),
    }
    given = {name: Buffer(name, "input", shape) for name, shape in inputs.items()}
    results = [Buffer(name, "output", shape) for name, shape in outputs.items()]
    state = Buffer("state", "work", (nq + 1 + 2 * count + 2,))
    ends = np.cumsum([0, nq, 1, 2 * count, 1, 1])
    parts = [flat_piece(state, int(start), *shape) for start, shape in zip(ends[:-1], outputs.values(), strict=True)]
    tree = skeleton(model)
    words = [word for word in given if word not in ("q", "damping", "rounds")]

    def step(q: Array, damping: Any, *numbers: Any) -> tuple[Any, ...]:
        known = dict(zip(words, numbers, strict=True))
        known = {"t": 0, "active": None} | known
        return _ReachingProblem(Mechanism(tree), task, **known).step(q, damping)

    begin = traced_block(lambda q, damping: [q, damping], [piece(given["q"]), piece(given["damping"])], parts[:2])
    body = traced_block(step, [*parts[:2], *[piece(given[word]) for word in words]], parts)
    end = traced_block(lambda *values: list(values), parts, [piece(buffer) for buffer in results])
    return Program("reach", (*given.values(), *results, state), (begin, Loop("round", "K", (body,)), end))


class _ReachingProblem:
    def __init__(
        self,
        m: Mechanism,
        task: ReachingTask,
        goals: Array,
        weights: Array,
        strictness: Any,
        t: Any,
        active: Array | None,
    ) -> None:
        self.m, self.task, self.goals, self.weights, self.t = m, task, goals, weights, t
        self.strictness = strictness
        model = m.tree.model
        self.system = constraint_set(model)
        position = set(self.system.position_rows)
        independent = self.system.structure.independent if self.system.row_names else ()
        self.kept = [i for i in independent if i in position and not self.system.compliance[i]]
        squares = dict(zip(independent, self.system.structure.squares, strict=True)) if independent else {}
        self.sizes = np.array([float(np.sqrt(float(squares[i]))) for i in self.kept], dtype=object)
        mask = self.system.mask(active)
        self.mask = None if mask is None else mask[self.kept]
        self.bounds = _bounds(model) if task.limits else {}

    def step(self, q: Array, damping: Any) -> tuple[Any, ...]:
        m = self.m
        links = m.still(q)
        here = self.errors(q, links)
        J, A = self.slopes(q, links)
        b = J.T @ here.e
        free = self._free(q, b)
        H = (J.T @ J * free).T * free
        mean: Any = 0
        for i in range(len(H)):
            mean = mean + H[i, i]
        mean = mean / len(H)
        level = damping * here.cost + FLOOR * mean
        H = H + np.diag(1 - free) + identity(len(H)) * level
        A = A * free
        yielding = np.array([YIELD] * len(A), dtype=object) / (mean + level)
        if self.mask is not None:
            yielding = yielding + (1 - self.mask)
        parents = range(-1, len(H) - 1)
        d = kkt.schur(H, A, parents, yielding).solve(b * free, here.g).a
        trial = self._clip_to_bounds(m.manifold().integrate(q, self._shorten_step(d)))
        there = self.errors(trial, m.still(trial))
        better = scalars.less(there.cost, here.cost)
        moved = _select(better, trial, q)
        damping = scalars.select(better, damping * FALL, damping * GROWTH)
        gap = scalars.select(better, there.gap, here.gap)
        cost = scalars.select(better, there.cost, here.cost)
        return moved, damping, _select(better, there.apart, here.apart), gap, cost

    def errors(self, q: Array, links: Any) -> Errors:
        rows, apart = [zeros(0)], []
        for k, (frame, kind) in enumerate(self.task.frames):
            X = kinematics.pose(self.m.tree, links, self.m.place(frame))
            slide = X.R.T @ (self.goals[k, :3, 3] - X.p)
            turn = rotation_vector(X.R.T @ self.goals[k, :3, :3]) if kind == POSE else zeros(3)
            apart.append(vector(scalars.sqrt(turn @ turn) if kind == POSE else 0, scalars.sqrt(slide @ slide)))
            rows += [turn * self.weights[k, 0]] if kind == POSE else []
            rows.append(slide * self.weights[k, 1])
        g = self._loops(q, links).residual()[self._positions] if self.kept else zeros(0)
        g = g if self.mask is None else g * self.mask
        gap: Any = 0
        for x in g:
            gap = scalars.select(scalars.less(gap, x * x), x * x, gap)
        size = g / self.sizes if self.kept else g
        return Errors(np.concatenate(rows), size, self.strictness, np.stack(apart), gap)

    def slopes(self, q: Array, links: Any) -> tuple[Array, Array]:
        """J of the weighted errors (what moves a frame towards its goal) and A of the loops, at unit size."""
        nv = self.m.tree.model.nv
        rows = [zeros(0, nv)]
        for k, (frame, kind) in enumerate(self.task.frames):
            J = kinematics.jacobian(self.m.tree, links, self.m.place(frame))
            rows += [J[:3] * self.weights[k, 0]] if kind == POSE else []
            rows.append(J[3:] * self.weights[k, 1])
        A = self._loops(q, links).jacobian()[self.kept] if self.kept else zeros(0, nv)
        A = A if self.mask is None else (A.T * self.mask).T
        return np.concatenate(rows), (A.T / self.sizes).T if self.kept else A

    def _loops(self, q: Array, links: Any) -> Rows:
        return self.system.rows(self.m, links, q, None, self.t)

    @property
    def _positions(self) -> list[int]:
        number = {row: k for k, row in enumerate(self.system.position_rows)}
        return [number[row] for row in self.kept]

    def _free(self, q: Array, push: Array) -> Array:
        """0 for joints at a limit towards which they are pushed, else 1, (nv,)."""
        free = np.ones(len(push), dtype=int).astype(object)
        for i, (j, lower, upper) in self.bounds.items():
            # free unless pushed down at the lower limit, or up at the upper one
            down = scalars.select(scalars.less(push[i], 0), scalars.select(scalars.less(lower, q[j]), 1, 0), 1)
            up = scalars.select(scalars.less(0, push[i]), scalars.select(scalars.less(q[j], upper), 1, 0), 1)
            free[i] = down * up
        return free

    def _clip_to_bounds(self, q: Array) -> Array:
        result = np.array(q, dtype=object)
        for j, lower, upper in self.bounds.values():
            above = scalars.select(scalars.less(q[j], lower), lower, q[j])
            result[j] = scalars.select(scalars.less(upper, above), upper, above)
        return result

    def _shorten_step(self, d: Array) -> Array:
        square = d @ d
        far = scalars.less(FARTHEST_STEP * FARTHEST_STEP, square)
        return np.asarray(d * scalars.select(far, FARTHEST_STEP / scalars.sqrt(scalars.select(far, square, 1)), 1))


def rotation_vector(R: Array) -> Array:
    """The rotation vector (3,) of a rotation matrix, the shorter way round; near half a turn its axis is rounding."""
    axis = vector(R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]) / 2
    square, cosine = axis @ axis, (R[0, 0] + R[1, 1] + R[2, 2] - 1) / 2
    tiny = scalars.less(square, SMALL * SMALL)
    sine = scalars.sqrt(scalars.select(tiny, 1, square))
    # angle / sine = 1 + s²/6 + …: the next term is below 1e-25 here; half a turn away, any large factor will do
    near = scalars.select(scalars.less(0, cosine), 1 + square / 6, 1 / SMALL)
    return np.asarray(axis * scalars.select(tiny, near, scalars.atan2(sine, cosine) / sine))


def _bounds(model: Model) -> dict[int, tuple[int, float, float]]:
    """(coordinate, lower, upper) of every velocity whose joint has a finite limit."""
    return {axis.v: (axis.q, float(axis.lower), float(axis.upper)) for axis in limited_axes(model)}


def _select(condition: Any, a: Array, b: Array) -> Array:
    """Entry by entry."""
    result = np.empty(np.shape(a), dtype=object)
    for index in np.ndindex(*np.shape(a)):
        result[index] = scalars.select(condition, a[index], b[index])
    return result
