"""A function of the catalogue as loops over bodies: the same implementation, on a mechanism that records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree import scalars
from whippletree.compiler.loops.assembly import assemble
from whippletree.compiler.loops.bodytypes import MOST_TYPES
from whippletree.compiler.loops.recorder import Looped
from whippletree.compiler.loops.values import flatten
from whippletree.compiler.program import Address, Buffer, Program, every_address
from whippletree.compiler.tracing import STATUS
from whippletree.errors import UnsupportedError
from whippletree.registry import Function, resolve, sizes
from whippletree.spatial import Array
from whippletree.sweeps import Field
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton


class Argument(NamedTuple):
    """Stands for an input vector; :class:`LoopedMechanism` knows how to take it apart into a field."""

    name: str


class Joined(NamedTuple):
    """Stands for an output vector: the vectors of all joints, one after the other."""

    field: Field


class Passive(NamedTuple):
    """A joint's spring and damper: what algorithms ask of a joint beyond its node."""

    stiffness: Any
    rest: Any
    damping: Any


class LoopedMechanism(Mechanism):
    """A mechanism whose fields hold one value per type of body."""

    sweep: Looped

    def __init__(self, tree: Skeleton, most_types: int = MOST_TYPES) -> None:
        looped = Looped(tree.parents, [tree.nodes], most_types)
        super().__init__(tree, looped)
        (self.nodes,) = looped.constant_fields()
        looped.offsets["q"] = np.fromiter((s.start for s in tree.q_slices), np.int64, len(tree.parents))
        looped.offsets["v"] = np.fromiter((s.start for s in tree.v_slices), np.int64, len(tree.parents))
        self.status: Any = 0

    @property
    def joints(self) -> Field:
        """Springs and dampers only: nothing else of a joint's data is used by algorithms that fit a loop."""
        numbers = [(j.stiffness, j.rest, j.damping) for j in self.tree.joints]
        return [Passive(*v) for v in self.sweep.number_field("springs", np.array(numbers, dtype=np.float64))]

    @joints.setter
    def joints(self, field: Field) -> None:
        """What the base class would keep is not needed here."""

    def coordinates(self, q: Array | Argument) -> Field:
        return self._vectors(q, "q", [node.joint.nq for node in self.nodes])

    def velocities(self, v: Array | Argument) -> Field:
        return self._vectors(v, "v", [node.joint.nv for node in self.nodes])

    def _vectors(self, flat: Any, register: str, lengths: Sequence[int]) -> Field:
        if not isinstance(flat, Argument):
            raise UnsupportedError("in a loop over bodies only the inputs of a function can be taken apart by joints")
        return self.sweep.argument(flat.name, register, lengths)

    def join(self, field: Field) -> Any:
        return Joined(field)

    def require_inertia(self, freedoms: Field) -> None:
        """Let the status name a node whose joint has no inertia, of those that could lack it."""
        if not self.tree.doubtful:
            return
        numbers = np.zeros((len(self.tree.nodes), 1))
        numbers[list(self.tree.doubtful), 0] = 1 + np.array(self.tree.doubtful)
        suspects = self.sweep.number_field("suspects", numbers)

        def update(status: Any, t: int) -> Any:
            for pivot in freedoms[t].pivots:
                # a NaN is neither below 1 nor above 0: the answer is NaN then, and nothing is singular
                fails = scalars.select(scalars.less(0, pivot), status, suspects[t][0])
                suspect = scalars.less(0, suspects[t][0])
                status = scalars.select(suspect, scalars.select(scalars.less(pivot, 1), fails, status), status)
            return status

        self.status = self.sweep.running(0, update)

    def where_valid(self, field: Field) -> Field:
        """A field of vectors with NaN in place of its numbers where the status tells of a failure."""
        if isinstance(self.status, int):
            return field
        good = self.sweep.map(lambda status: scalars.less(status, 1), self.sweep.final(self.status))
        return self.sweep.map(lambda ok, values: [scalars.select(ok, x, math.nan) for x in values], good, field)


def loop_program(function: Function, tree: Skeleton, most_types: int = MOST_TYPES) -> Program:
    """The kernel program of a function that maps, scatters, gathers and sums only (``function.loops``).

    Its outputs are those of the function, and a ``status`` where some joint of the tree may lack inertia.
    """
    if not function.loops or function.names:
        raise UnsupportedError(f"{function.name} indexes single bodies and cannot run as a loop over bodies: unroll it")
    known = sizes(tree.model)
    inputs = [Buffer(name, "input", resolve(shape, known)) for name, shape in function.inputs.items()]
    mechanism = LoopedMechanism(tree, most_types)
    result = function.implementation(mechanism, *[Argument(b.name) for b in inputs])
    outputs: list[Buffer] = []
    whole: list[tuple[Address, Any]] = []
    for (name, shape), value in zip(
        function.outputs.items(), result if _is_plain_tuple(result) else (result,), strict=True
    ):
        buffer = Buffer(name if name not in function.inputs else f"{name}_out", "output", resolve(shape, known))
        outputs.append(buffer)
        if isinstance(value, Joined):
            mechanism.sweep.result(buffer.name, "v" if shape == ("nv",) else "q", mechanism.where_valid(value.field))
        else:
            whole += zip(every_address(buffer), flatten(value)[1], strict=True)
    if not isinstance(mechanism.status, int):
        outputs.append(Buffer(STATUS, "output", (), integer=True))
        whole.append((Address(STATUS, ()), mechanism.status))
    return assemble(function.name, mechanism.sweep, (*inputs, *outputs), whole)


def work_size(program: Program) -> int:
    """How many numbers of scratch space one lane needs."""
    return sum(int(np.prod([int(d) for d in b.shape])) for b in program.of_role("work"))


def _is_plain_tuple(value: Any) -> bool:
    return type(value) is tuple
