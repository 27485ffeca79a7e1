"""Whole trajectories as one kernel: a loop over time steps around the same dynamics that single evaluations use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree import catalogue
from whippletree.compiler.program import Address, Block, Buffer, Index, Loop, Program, Statement, every_address
from whippletree.compiler.tracing import traced_inputs, traced_tree
from whippletree.errors import NameLookupError, UnsupportedError
from whippletree.expression import Trace, finish
from whippletree.model import Model
from whippletree.parameters import find_parameter
from whippletree.spatial import Array, zeros
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.steps import RK4_REACH, RK4_WEIGHTS, Manifold, Stage, rk4_end, rk4_stage, semi_implicit_euler

METHODS = ("semi_implicit_euler", "rk4")
STEP, STAGE = "step", "stage"


def rollout_program(model: Model, method: str, parameters: Sequence[str] = ()) -> Program:
    """(q0, v0, tau (T, nv), dt, parameters …) → (q (T, nq), v (T, nv)): the states after each of T steps.

    The state lives in work memory, so nothing is handed back to Python between steps; tau is held over a step. The
    fourth-order method is a loop over its stages: the dynamics is emitted once, not four times.
    """
    if method not in METHODS:
        raise NameLookupError("integrator", method, METHODS)
    if model.constraints:
        raise UnsupportedError(
            f"rollout: model {model.name!r} has constraints, from which fixed steps drift away: use wt.simulate, or "
            f"model.tree for the tree without them"
        )
    return _Builder(model, parameters).program(method)


class _Builder:
    """Collects buffers and blocks of a roll-out."""

    def __init__(self, model: Model, parameters: Sequence[str]) -> None:
        self.model = model
        self.parameters = {path: find_parameter(model, path).shape for path in parameters}
        nq, nv = model.nq, model.nv
        self.buffers = {
            b.name: b
            for b in (
                Buffer("q0", "input", (nq,)),
                Buffer("v0", "input", (nv,)),
                Buffer("tau", "input", ("T", nv)),
                Buffer("dt", "input", ()),
                *[Buffer(path, "input", shape) for path, shape in self.parameters.items()],
                Buffer("q", "output", ("T", nq)),
                Buffer("v", "output", ("T", nv)),
                Buffer("state", "work", (nq + nv,)),
            )
        }

    def program(self, method: str) -> Program:
        begin = self._block(["q0", "v0"], lambda q0, v0: [q0, v0], ["state"])
        step = self._euler_step() if method == "semi_implicit_euler" else self._rk4_step()
        record = self._block(["state"], lambda state: [state], [("q", "v")])
        body = (begin, Loop(STEP, "T", (*step, record)))
        return Program(f"rollout_{method}", tuple(self.buffers.values()), body)

    def _euler_step(self) -> list[Statement]:
        def step(state: Array, tau: Array, dt: Any, *opened: Any) -> list[Array]:
            manifold, dynamics = self._dynamics(tau, opened)
            q, v = self._split(state)
            return list(semi_implicit_euler(manifold, dynamics, q, v, dt))

        return [self._block(["state", "tau", "dt", *self.parameters], step, ["state"])]

    def _rk4_step(self) -> list[Statement]:
        nq, nv = self.model.nq, self.model.nv
        for name, numbers in (("reach", RK4_REACH), ("weight", RK4_WEIGHTS)):
            self.buffers[name] = Buffer(name, "table", (len(numbers),), np.array(numbers))
        self.buffers["stages"] = Buffer("stages", "work", (2 * (nq + nv),))

        def begin(state: Array) -> list[Array]:
            return [state, zeros(nq + nv)]

        def stage(
            state: Array, stages: Array, reach: Any, weight: Any, tau: Array, dt: Any, *opened: Any
        ) -> list[Array]:
            manifold, dynamics = self._dynamics(tau, opened)
            q, v = self._split(state)
            now = Stage(*self._split(stages[: nq + nv]), *self._split(stages[nq + nv :]))
            return list(rk4_stage(manifold, dynamics, q, v, now, dt, reach, weight))

        def end(state: Array, stages: Array, dt: Any) -> list[Array]:
            q, v = self._split(state)
            last = Stage(*self._split(stages[: nq + nv]), *self._split(stages[nq + nv :]))
            return list(rk4_end(self._manifold(), q, v, last, dt))

        inputs = ["state", "stages", "reach", "weight", "tau", "dt", *self.parameters]
        return [
            self._block(["state"], begin, ["stages"]),
            Loop(STAGE, len(RK4_REACH), (self._block(inputs, stage, ["stages"]),)),
            self._block(["state", "stages", "dt"], end, ["state"]),
        ]

    def _dynamics(self, tau: Array, opened: Sequence[Any]) -> tuple[Manifold, Any]:
        """The acceleration as a function of the state, and the manifold, for a traced step."""
        tree = traced_tree(self.model, dict(zip(self.parameters, opened, strict=True)))
        implementation = catalogue.find("forward_dynamics").implementation
        mechanism = Mechanism(tree)
        return mechanism.manifold(), lambda q, v: implementation(Mechanism(tree), q, v, tau)

    def _manifold(self) -> Manifold:
        return Mechanism(traced_tree(self.model, {})).manifold()

    def _split(self, state: Array) -> tuple[Array, Array]:
        return state[: self.model.nq], state[self.model.nq :]

    def _block(self, reads: Sequence[str], function: Any, writes: Sequence[str | tuple[str, ...]]) -> Block:
        """Trace a function of whole buffers (or one row of those with a time dimension) into a block."""
        trace = Trace()
        loads = {name: self._addresses(name) for name in reads}
        shapes = {name: self._shape(name) for name in reads}
        values = traced_inputs(trace, shapes)
        results = [x for part in function(*values.values()) for x in np.ravel(np.asarray(part, dtype=object))]
        stores = [a for name in writes for n in ([name] if isinstance(name, str) else name) for a in self._addresses(n)]
        return Block(finish(trace, results), tuple(a for name in reads for a in loads[name]), tuple(stores))

    def _shape(self, name: str) -> tuple[int, ...]:
        if self.buffers[name].role == "table":
            return ()
        return tuple(d for d in self.buffers[name].shape if isinstance(d, int))

    def _addresses(self, name: str) -> list[Address]:
        """All numbers of a buffer; the row of the current step where it has one; a coefficient of the current stage."""
        buffer = self.buffers[name]
        if buffer.role == "table":
            return [Address(name, (Index(STAGE),))]
        if buffer.shape and buffer.shape[0] == "T":
            return [Address(name, (Index(STEP), Index(None, i))) for i in range(self._shape(name)[0])]
        return every_address(buffer)
