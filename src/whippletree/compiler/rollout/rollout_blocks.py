"""Blocks of a roll-out: functions of whole buffers, traced with everything that a time step may ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from whippletree import functions
from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.trace import Straight, Trace, finish
from whippletree.compiler.frontend.unrolled import traced_inputs, traced_status, traced_tree
from whippletree.compiler.program import Address, Block, Buffer, Index, every_address
from whippletree.model import Model
from whippletree.model.parameters import opens_joints
from whippletree.tree import actuation
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

NOT_FINITE, NOT_CLOSED, NOT_CONVERGED = 3, 4, 5
"""Failures of a step; numbers after the nodes of the tree and the two failures of the block matrix."""

ROW, STEP, STAGE = "row", "step", "stage"
"""Counters of the loops over output rows, over the steps of a row, over the stages of a step."""

SURROUNDINGS = ("q0", "v0", "tau", "ctrl", "dt", "clock", "offsets", "active", "q", "v", "status", "steps")
"""Names of arguments that are no open parameters."""


class Moment:
    """One time step as a traced function sees it."""

    def __init__(self, blocks: RolloutBlocks, values: dict[str, Any]) -> None:
        self._blocks = blocks
        self._values = values
        opened = {path: values[path] for path in blocks.parameters}
        self.mechanism = Mechanism(traced_tree(blocks.model, opened))
        self.manifold = self.mechanism.manifold()
        self.h = values["dt"]
        self.t = values.get("clock", 0) + values.get("offsets", 0)
        """When the step starts, s."""
        self.active = values.get("active")
        self.faults: list[tuple[Any, int]] = []
        """(condition, number) of what else may be wrong with this step."""

    def status(self) -> Any:
        """0, or the number of what is wrong: a pivot of the mechanism, else one of the faults."""
        found: Any = 0
        for condition, number in self.faults:
            found = scalars.select(condition, number, found)
        pivots = traced_status(self.mechanism.margins)
        return scalars.select(scalars.less(0, pivots), pivots, found)

    def forces(self, t: Any, q: Array, v: Array) -> Array:
        """All joint forces (nv,): given or the controller's, and those of actuators, springs and dampers."""
        tau = self._values.get("tau", zeros(self._blocks.model.nv))
        if self._blocks.controller is not None:
            tau = tau + controller_forces(self._blocks.controller, t, q, v)
        if "ctrl" in self._values:
            tau = tau + actuation.actuator_forces(self.mechanism, q, v, self._values["ctrl"])
        return np.asarray(tau + self.call("passive_forces", q=q, v=v) if self._blocks.passive else tau)

    def acceleration(self, t: Any, q: Array, v: Array) -> Array:
        """a (nv,) under all forces and constraints."""
        return np.asarray(self.call("forward_dynamics", q=q, v=v, tau=self.forces(t, q, v), t=t))

    def call(self, name: str, **state: Any) -> Any:
        """A function of the catalogue, with the inputs that the model needs."""
        function = functions.find(name, self._blocks.model)
        given = state | {"active": self.active}
        return function.implementation(self.mechanism, *[given[word] for word in function.inputs])


class RolloutBlocks:
    """The buffers of a roll-out, and blocks that are traced over them."""

    def __init__(self, model: Model, passive: bool, controller: Any, arguments: Sequence[Buffer]) -> None:
        self.model = model
        self.nodes = len(skeleton(model).nodes)
        self.controller = controller
        self.buffers = {b.name: b for b in arguments}
        self.parameters = [b.name for b in arguments if b.name not in SURROUNDINGS]
        self.passive = passive and (has_passive_forces(model) or opens_joints(self.parameters))

    def work(self, name: str, size: int) -> None:
        """Add a piece of work memory."""
        self.buffers[name] = Buffer(name, "work", (size,))

    def table(self, name: str, numbers: Sequence[Any]) -> None:
        """Add numbers of which each stage has one."""
        self.buffers[name] = Buffer(name, "table", (len(numbers),), np.array(numbers, dtype=float))

    def split(self, state: Array) -> tuple[Array, Array]:
        """q and v of a state."""
        return state[: self.model.nq], state[self.model.nq :]

    def plain(self, reads: Sequence[str], function: Callable[..., Sequence[Any]], writes: Sequence[str]) -> Block:
        """A block that needs nothing but what it reads."""
        trace = Trace()
        values = self._inputs(trace, reads)
        return self._block(trace, reads, function(*values.values()), writes)

    def timed_block(self, reads: Sequence[str], function: Callable[..., Sequence[Any]], writes: Sequence[str]) -> Block:
        """A block of a step: a function of a :class:`Moment` and what it reads.

        What is found to be wrong is noted in ``progress``, unless something was wrong before.
        """
        trace, every, values, now = self._moment(reads)
        with np.errstate(all="ignore"):  # constants of a singular model divide by zero; the status tells
            results = list(function(now, *[values[name] for name in reads]))
        if not now.mechanism.margins and not now.faults:
            return self._block(trace, every, results, writes)
        progress = note_status(values["progress"], now.status())
        return self._block(trace, every, [*results, progress], [*writes, "progress"])

    def moving_block(self, reads: Sequence[str], function: Callable[..., Sequence[Any]]) -> Block:
        """The block of a step that writes its state; without constraints it is the last one."""
        return (
            self.timed_block(reads, function, ["state"])
            if self.model.constraints
            else self.judging_block(reads, function)
        )

    def judging_block(self, reads: Sequence[str], function: Callable[..., Sequence[Any]]) -> Block:
        """The last block of a step: counts it if its state is good; else notes why, and makes the state NaN."""
        trace, every, values, now = self._moment(reads)
        with np.errstate(all="ignore"):
            state = np.concatenate(list(function(now, *[values[name] for name in reads])))
        finite = [scalars.less(abs(x), math.inf) for x in state]
        now.faults.append((any_of([~here for here in finite if here is not True]), self.nodes + NOT_FINITE))
        status, steps = note_status(values["progress"], now.status())
        good = scalars.less(status, 1)
        kept = [scalars.select(good, x, math.nan) for x in state]
        progress = [status, scalars.select(good, steps + 1, steps)]
        return self._block(trace, every, [kept, progress], ["state", "progress"])

    def _moment(self, reads: Sequence[str]) -> tuple[Trace, list[str], dict[str, Any], Moment]:
        trace = Trace()
        around = [n for n in (*SURROUNDINGS[2:8], *self.parameters) if n in self.buffers and n not in reads]
        every = [*reads, "progress", *around]
        values = self._inputs(trace, every)
        return trace, every, values, Moment(self, values)

    def _inputs(self, trace: Trace, names: Sequence[str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in names:
            if self.buffers[name].empty:
                values[name] = zeros(*self._shape(name))
            else:
                values |= traced_inputs(trace, {name: self._shape(name)})
        return values

    def _block(self, trace: Trace, reads: Sequence[str], results: Sequence[Any], writes: Sequence[str]) -> Block:
        flat = [x for part in results for x in np.ravel(np.asarray(part, dtype=object))]
        stores = [address for name in writes for address in self._addresses(name)]
        return _without_idle_loads(finish(trace, flat), [a for name in reads for a in self._addresses(name)], stores)

    def _shape(self, name: str) -> tuple[int, ...]:
        if self.buffers[name].role == "table":
            return ()
        return tuple(d for d in self.buffers[name].shape if isinstance(d, int))

    def _addresses(self, name: str) -> list[Address]:
        """All numbers of a buffer; of one with a time dimension, those of this row or step; of a table, one."""
        buffer = self.buffers[name]
        if buffer.role == "table":
            return [Address(name, (Index(STAGE),))]
        if buffer.shape and isinstance(buffer.shape[0], str):
            counter = Index(ROW if buffer.shape[0] == "T" else STEP)
            if len(buffer.shape) == 1:
                return [Address(name, (counter,))]
            return [Address(name, (counter, Index(None, i))) for i in range(self._shape(name)[0])]
        return every_address(buffer)


def controller_forces(controller: Callable[[Any, Any, Any], Any], t: Any, q: Array, v: Array) -> Array:
    """Joint forces (nv,) of a user's controller, on traced numbers that behave as arrays of NumPy do: copies, since it
    may write on them."""
    return np.asarray(controller(t, scalar_array(q.copy()), scalar_array(v.copy())), dtype=object)


def has_passive_forces(model: Model) -> bool:
    """Whether any joint has a spring or a damper, or the model has other elements of force."""
    return bool(model.elements) or any(joint.has_springs for joint in model.joints)


def any_of(conditions: Sequence[Any]) -> Any:
    """Whether one of some conditions holds; those that no state changes are settled here."""
    if any(c is True for c in conditions):
        return True
    unsettled = [c for c in conditions if c is not False]
    return reduce(or_, unsettled) if unsettled else False


def note_status(progress: Array, status: Any) -> Array:
    """(status, steps) with a new status, if there was none before."""
    return np.array([scalars.select(scalars.less(0, progress[0]), progress[0], status), progress[1]], dtype=object)


def _without_idle_loads(code: Straight, loads: Sequence[Address], stores: Sequence[Address]) -> Block:
    """A block that loads only what its code uses."""
    used = [node[1] for node in code.nodes if node[0] == "input"]
    number = {old: new for new, old in enumerate(sorted(used))}
    nodes = [("input", number[node[1]]) if node[0] == "input" else node for node in code.nodes]
    return Block(Straight(nodes, code.outputs), tuple(loads[i] for i in sorted(used)), tuple(stores))
