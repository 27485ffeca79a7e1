"""The statements of one time step, for each method: the generic steps, traced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.compiler.program import Loop, Statement
from whippletree.compiler.rollout.rollout_blocks import NOT_CLOSED, NOT_CONVERGED, STAGE, Moment, RolloutBlocks, any_of
from whippletree.constraints import midpoint_step as midpoint
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.tree.steps import (
    RK4_REACH,
    RK4_TIMES,
    RK4_WEIGHTS,
    Stage,
    rk4_end,
    rk4_stage,
    runge_kutta_4,
    semi_implicit_euler,
)

STEP_CORRECTIONS = 3
"""Newton corrections of the positions after each step; each squares what a step leaves open."""

CLOSED_STEP = 1e-9
"""Residual of a position row, m or rad, from which a step that was closed counts as too long."""

CONVERGED_STEP = 1e-12
"""Last change of an iteration, by what it moves the coordinates, relative to 1 + their size: up to this it counts as
converged. (The change before that was larger by the factor that each round gains.)"""

INLINE_UP_TO = 6
"""Velocities up to which the stages of a step are written one after the other: a loop would cost more than it saves."""


def euler_step(blocks: RolloutBlocks, iterations: int) -> list[Statement]:
    """Semi-implicit Euler."""

    def step(now: Moment, state: Array) -> list[Array]:
        q, v = blocks.split(state)
        return list(semi_implicit_euler(now.manifold, partial(now.acceleration, now.t), q, v, now.h))

    return [blocks.moving_block(["state"], step)]


def rk4_step(blocks: RolloutBlocks, iterations: int) -> list[Statement]:
    """The classical fourth-order method; but for small models as a loop, so that the dynamics is emitted once."""
    small = blocks.model.nv <= INLINE_UP_TO and not blocks.model.constraints
    return _rk4_inline(blocks) if small else _rk4_loop(blocks)


def _rk4_inline(blocks: RolloutBlocks) -> list[Statement]:
    def step(now: Moment, state: Array) -> list[Array]:
        return list(runge_kutta_4(now.manifold, now.acceleration, *blocks.split(state), now.t, now.h))

    return [blocks.moving_block(["state"], step)]


def _rk4_loop(blocks: RolloutBlocks) -> list[Statement]:
    size = blocks.model.nq + blocks.model.nv
    for name, numbers in (("reach", RK4_REACH), ("weight", RK4_WEIGHTS), ("part", RK4_TIMES)):
        blocks.table(name, numbers)
    blocks.work("stages", 2 * size)

    def stages_of(stages: Array) -> Stage:
        return Stage(*blocks.split(stages[:size]), *blocks.split(stages[size:]))

    def stage(now: Moment, state: Array, stages: Array, reach: Any, weight: Any, part: Any) -> list[Array]:
        q, v = blocks.split(state)
        a = partial(now.acceleration, now.t + part * now.h)
        return list(rk4_stage(now.manifold, a, q, v, stages_of(stages), now.h, reach, weight))

    def end(now: Moment, state: Array, stages: Array) -> list[Array]:
        return list(rk4_end(now.manifold, *blocks.split(state), stages_of(stages), now.h))

    return [
        blocks.plain(["state"], lambda state: [state, zeros(size)], ["stages"]),
        Loop(
            STAGE,
            len(RK4_REACH),
            (blocks.timed_block(["state", "stages", "reach", "weight", "part"], stage, ["stages"]),),
        ),
        blocks.moving_block(["state", "stages"], end),
    ]


def midpoint_step(blocks: RolloutBlocks, iterations: int) -> list[Statement]:
    """The implicit midpoint rule: a bounded iteration for the middle of the step, then its end."""
    nv = blocks.model.nv
    rows = len(constraint_set(blocks.model).structure.independent) if blocks.model.constraints else 0
    blocks.work("start", nv + rows * nv)
    blocks.work("middle", nv + rows)
    blocks.work("change", 2)

    def begin(now: Moment, state: Array) -> list[Array]:
        q, v = blocks.split(state)
        start = midpoint.begin(now.mechanism, q, v, now.t, now.active)
        return [start.p, start.A, v, zeros(rows)]

    def parts(state: Array, start: Array, middle: Array) -> tuple[midpoint.MidpointStart, midpoint.Middle]:
        at = midpoint.MidpointStart(blocks.split(state)[0], start[:nv], start[nv:].reshape(rows, nv))
        return at, midpoint.Middle(middle[:nv], middle[nv:])

    def improve(now: Moment, state: Array, start: Array, middle: Array) -> list[Any]:
        at, guess = parts(state, start, middle)
        found = midpoint.improve_middle(now.mechanism, now.forces, at, guess, now.t, now.h, now.active)
        change, q = now.h * (found.v - guess.v), at.q
        return [found.v, found.impulses, change @ change, 1 + q @ q]

    def end(now: Moment, state: Array, start: Array, middle: Array, change: Array) -> list[Array]:
        at, found = parts(state, start, middle)
        now.faults.append((scalars.less(CONVERGED_STEP**2 * change[1], change[0]), blocks.nodes + NOT_CONVERGED))
        return list(midpoint.end(now.mechanism, now.forces, at, found, now.t, now.h, now.active))

    reads = ["state", "start", "middle"]
    return [
        blocks.timed_block(["state"], begin, ["start", "middle"]),
        Loop("iteration", iterations, (blocks.timed_block(reads, improve, ["middle", "change"]),)),
        blocks.moving_block([*reads, "change"], end),
    ]


STEPS: dict[str, Callable[[RolloutBlocks, int], list[Statement]]] = {
    "semi_implicit_euler": euler_step,
    "rk4": rk4_step,
    "implicit_midpoint": midpoint_step,
}


def settle_on_constraints(blocks: RolloutBlocks, closing: bool) -> list[Statement]:
    """Back to the constraints after a step: positions by corrections of least energy, then velocities.

    Without ``closing`` the step has met the constraints itself, and that is only checked.
    """
    system = constraint_set(blocks.model)

    def close(now: Moment, state: Array) -> list[Array]:
        q, v = blocks.split(state)
        return [now.manifold.integrate(q, now.call("closing_step", q=q, t=now.t + now.h)), v]

    def settle(now: Moment, state: Array) -> list[Array]:
        q, v = blocks.split(state)
        if system.position_rows:
            residual = now.call("constraint_residual", q=q, t=now.t + now.h)
            now.faults.append((_open(system, residual, now), blocks.nodes + NOT_CLOSED))
        return [q, now.call("project_velocity", q=q, v=v, t=now.t + now.h) if closing else v]

    statements: list[Statement] = []
    if closing and system.position_rows:
        statements.append(Loop("round", STEP_CORRECTIONS, (blocks.timed_block(["state"], close, ["state"]),)))
    return [*statements, blocks.judging_block(["state"], settle)]


def _open(system: ConstraintSet, residual: Array, now: Moment) -> Any:
    """Whether any rigid row that is on is open."""
    mask = system.mask(now.active)
    rigid = [(i, g) for i, g in zip(system.position_rows, residual, strict=True) if not system.compliance[i]]
    gaps = [scalars.less(CLOSED_STEP, abs(g if mask is None else g * mask[i])) for i, g in rigid]
    return any_of(gaps)
