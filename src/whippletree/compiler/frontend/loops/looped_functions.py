"""A function of the catalogue as loops over bodies: the same implementation, on a mechanism that records.

Between loops, single bodies hand numbers to what is computed once, and get numbers back. What a marked body *posts* in
one loop lies in a work buffer, a slot for each such body. Between two loops the whole
(:attr:`~whippletree.compiler.frontend.loops.recorder.Looped.whole`) computes from it, and posts numbers in turn: to
single bodies, or to all. Numbers that are the same constant for everybody are not posted, so zeros of a mechanism stay
zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.trace import Traced
from whippletree.compiler.frontend.flatten import flatten, rebuild
from whippletree.compiler.frontend.loops.body_types import MOST_TYPES, Integers
from whippletree.compiler.frontend.loops.looped_program import assemble
from whippletree.compiler.frontend.loops.recorder import Graph, Interlude, Looped, Posted, Result
from whippletree.compiler.frontend.unrolled import STATUS, traced_status, traced_tree
from whippletree.compiler.program import Address, Buffer, Index, Program, every_address
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.node_rows import held_nodes
from whippletree.errors import UnsupportedError
from whippletree.functions.registry import Function, Shape, resolve, sizes
from whippletree.model.parameters import find_parameter
from whippletree.spatial import Pose
from whippletree.tree.inverse import accelerations
from whippletree.tree.links import joint_zeros, world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field


class Argument(NamedTuple):
    """Stands for an input vector; :class:`LoopedMechanism` knows how to take it apart into a field."""

    name: str


@runtime_checkable
class Stored(Protocol):
    """Stands for an output that the bodies write themselves."""

    def store(self, mechanism: Any, buffer: str, shape: Shape) -> None:
        """Write it to an output."""


class Joined(NamedTuple):
    """Stands for an output vector: the vectors of all joints, one after the other."""

    field: Field

    def store(self, mechanism: RecordedMechanism, buffer: str, shape: Shape) -> None:
        """Write it to an output, NaN where there is no answer."""
        mechanism.sweep.result(buffer, "v" if shape == ("nv",) else "q", mechanism.where_valid(self.field))


class Passive(NamedTuple):
    """A joint's spring and damper: what algorithms ask of a joint beyond its node."""

    stiffness: Any
    rest: Any
    damping: Any

    @property
    def flexible(self) -> None:
        """Models with flexible bodies are not looped over."""
        return None


class RecordedMechanism(Mechanism):
    """A mechanism whose fields hold one value per type of what is looped over."""

    sweep: Looped

    def __init__(self, tree: Skeleton, looped: Looped, route: str | None = None) -> None:
        super().__init__(tree, looped, route)
        self.status: Any = 0
        self.constants: list[tuple[Address, Any]] = []
        """Numbers of outputs that no body writes."""

    def argument(self, buffer: Buffer, shape: Shape) -> Any:
        """An input as the function sees it: vectors of the joints stay whole, other numbers belong to the whole."""
        if shape in (("nq",), ("nv",)):
            return Argument(buffer.name)
        numbers = np.array([self.sweep.whole.input(a) for a in every_address(buffer)], dtype=object)
        return numbers.reshape([int(d) for d in buffer.shape])[()]

    def everywhere(self, value: Any) -> Field:
        return everywhere(self.sweep, value)

    def where_valid(self, field: Field) -> Field:
        """A field of vectors with NaN in place of its numbers where the status tells of a failure."""
        verdict = self.verdict()
        if isinstance(verdict, int):
            return field
        known = self.everywhere(verdict) if self.margins else self.sweep.final(verdict)
        good = self.sweep.map(lambda status: scalars.less(status, 1), known)
        return self.sweep.map(lambda ok, values: [scalars.select(ok, x, math.nan) for x in values], good, field)

    def valid(self, numbers: Sequence[Any]) -> list[Any]:
        """Numbers of the whole with NaN where the status tells of a failure."""
        verdict = self.verdict()
        if isinstance(verdict, int):
            return list(numbers)
        return [scalars.select(scalars.less(verdict, 1), x, math.nan) for x in numbers]

    def verdict(self) -> Any:
        """The status as a number of the whole: of joints that may lack inertia, and of what the whole requires."""
        return traced_status(self.margins, self.status)


class LoopedMechanism(RecordedMechanism):
    """A mechanism whose fields hold one value per type of body."""

    def __init__(
        self, tree: Skeleton, most_types: int = MOST_TYPES, single: Sequence[int] = (), whole: Graph | None = None
    ) -> None:
        """``single``: the nodes that the function looks at by themselves; they share code with each other only.
        ``whole``: the graph of numbers of the tree that are left open."""
        marks = np.zeros(len(tree.parents), dtype=bool)
        marks[list(single)] = True
        springs = [(j.stiffness, j.rest, j.damping) for j in tree.joints]
        self._open_springs = any(isinstance(x, Traced) for own in springs for x in own)
        constants: list[Field] = [tree.nodes, marks.tolist()]
        looped = Looped(tree.parents, [*constants, springs] if self._open_springs else constants, most_types, whole)
        super().__init__(tree, looped)
        self.nodes, self.marked, *self._springs = looped.constant_fields()
        self.single = tuple(single)
        self.slots = np.zeros(len(tree.parents), dtype=np.int64)
        self.slots[list(single)] = np.arange(len(single))
        looped.offsets["q"] = np.fromiter((s.start for s in tree.q_slices), np.int64, len(tree.parents))
        looped.offsets["v"] = np.fromiter((s.start for s in tree.v_slices), np.int64, len(tree.parents))

    @property
    def joints(self) -> Field:
        """Springs and dampers only: nothing else of a joint's data is used by algorithms that fit a loop."""
        if self._open_springs:
            return [Passive(*own) for own in self._springs[0]]
        numbers = [(j.stiffness, j.rest, j.damping) for j in self.tree.joints]
        return [Passive(*v) for v in self.sweep.number_field("springs", np.array(numbers, dtype=np.float64))]

    @joints.setter
    def joints(self, field: Field) -> None:
        """Nothing: the memory of the base class is not needed here."""

    def among(self, nodes: Sequence[int]) -> Field:
        self._require_single(nodes)
        return self.marked

    def coordinates(self, q: Array | Argument) -> Field:
        return self._vectors(q, "q", [node.joint.nq for node in self.nodes])

    def velocities(self, v: Array | Argument) -> Field:
        return self._vectors(v, "v", [node.joint.nv for node in self.nodes])

    def _vectors(self, flat: Any, register: str, lengths: Sequence[int]) -> Field:
        if not isinstance(flat, Argument):
            raise UnsupportedError("in a loop over bodies only the inputs of a function can be taken apart by joints")
        return self.sweep.argument(flat.name, register, lengths)

    def entries(self, flat: Array | Argument, numbers: Sequence[int]) -> list[Any]:
        assert isinstance(flat, Argument)
        return [self.sweep.whole.input(Address(flat.name, (Index(None, i),))) for i in numbers]

    def pick(self, field: Field, nodes: Sequence[int]) -> list[Any]:
        self._require_single(nodes)
        if not nodes:
            return []
        return pick(self.sweep, field, self.marked, self.slots)

    def spread(self, values: Sequence[Any], nodes: Sequence[int]) -> Field:
        self._require_single(nodes)
        if not nodes:
            return [None] * len(self.sweep.graphs)
        return spread(self.sweep, values, self.marked, self.slots)

    # frames: of their bodies alone, at the end of sweeps over all, where the path from the base would be written out

    def frame_pose(self, links: Field, place: Place) -> Pose:
        body: Pose = self._pick_one(world_poses(self.sweep, links), place, Pose.identity())
        return body @ place.pose

    def frame_twist(self, links: Field, place: Place) -> Array:
        V = self._pick_one(self.sweep.map(lambda link: link.V, links), place, zeros(6))
        return place.pose.motion(V)

    def frame_bias(self, links: Field, place: Place) -> Array:
        still = joint_zeros(self.sweep, links)
        return place.pose.motion(self._pick_one(accelerations(self.sweep, links, still, zeros(6)), place, zeros(6)))

    def _pick_one(self, field: Field, place: Place, world: Any) -> Any:
        """The value at the node of a frame, or that of the world."""
        return self.pick(field, [place.node])[0] if place.node >= 0 else world

    def _require_single(self, nodes: Sequence[int]) -> None:
        if tuple(nodes) != self.single:
            raise UnsupportedError("in a loop over bodies only the nodes that were announced can be looked at singly")

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


def loop_program(
    function: Function,
    tree: Skeleton,
    most_types: int = MOST_TYPES,
    names: Sequence[Any] = (),
    parameters: Sequence[str] = (),
) -> Program:
    """The kernel program of a function that maps, scatters, gathers and sums only (``function.loops``).

    Its outputs are those of the function, and a ``status`` where some joint of the tree may lack inertia. ``names``: of
    the frame or the joints that it is made for. ``parameters``: numbers of the model that are further inputs.
    """
    if not function.loops:
        raise UnsupportedError(f"{function.name} indexes single bodies and cannot run as a loop over bodies: unroll it")
    tree, whole = open_tree(tree, parameters)
    single = named_nodes(function, tree, names) or _held_nodes(function, tree)
    return recorded_program(function, LoopedMechanism(tree, most_types, single, whole), names, parameters)


def open_tree(tree: Skeleton, parameters: Sequence[str]) -> tuple[Skeleton, Graph]:
    """The tree with traced numbers in place of open parameters, and the graph that they belong to."""
    whole = Graph()
    opened: dict[str, Any] = {}
    for path in parameters:
        shape = find_parameter(tree.model, path).shape
        places = every_address(Buffer(path, "input", shape))
        opened[path] = np.array([whole.input(place) for place in places], dtype=object).reshape(shape)[()]
    return traced_tree(tree.model, opened), whole


def recorded_program(
    function: Function, mechanism: RecordedMechanism, names: Sequence[Any] = (), parameters: Sequence[str] = ()
) -> Program:
    """The program of a function that has been recorded on a mechanism that does so."""
    tree = mechanism.tree
    known = sizes(tree.model)
    inputs = [Buffer(name, "input", resolve(shape, known)) for name, shape in function.inputs.items()]
    opened = [Buffer(path, "input", find_parameter(tree.model, path).shape) for path in parameters]
    result = function.implementation(mechanism, *names, *map(mechanism.argument, inputs, function.inputs.values()))
    outputs: list[Buffer] = []
    whole: list[tuple[Address, Any]] = []
    for (name, shape), value in zip(
        function.outputs.items(), result if _is_plain_tuple(result) else (result,), strict=True
    ):
        buffer = Buffer(name if name not in function.inputs else f"{name}_out", "output", resolve(shape, known))
        outputs.append(buffer)
        if isinstance(value, Stored):
            value.store(mechanism, buffer.name, shape)
        else:
            whole += zip(every_address(buffer), mechanism.valid(flatten(value)[1]), strict=True)
    whole += mechanism.constants
    if not isinstance(mechanism.verdict(), int):
        outputs.append(Buffer(STATUS, "output", (), integer=True))
        whole.append((Address(STATUS, ()), mechanism.verdict()))
    return assemble(function.name, mechanism.sweep, (*inputs, *opened, *outputs), whole)


def named_nodes(function: Function, tree: Skeleton, names: Sequence[Any]) -> tuple[int, ...]:
    """The nodes that a function looks at by themselves because it is made for their joints, or for a frame on one."""
    found: list[int] = []
    for word, name in zip(function.names, names, strict=True):
        found += tree.nodes_of(name) if word == "joints" else [tree.place(name).node]
    return tuple(k for k in found if k >= 0)


def _held_nodes(function: Function, tree: Skeleton) -> tuple[int, ...]:
    """The nodes that a function looks at by themselves because constraints hold on to them."""
    if function.constraints == "tree" or not tree.model.constraints:
        return ()
    return held_nodes(tree, constraint_set(tree.model))


def work_size(program: Program) -> int:
    """How many numbers of scratch space one lane needs."""
    return sum(int(np.prod([int(d) for d in b.shape])) for b in program.of_role("work"))


def _is_plain_tuple(value: Any) -> bool:
    return type(value) is tuple


# --- single bodies and the whole: numbers handed to what is computed once, and got back -------------------------------


def pick(looped: Looped, values: Field, marked: Sequence[bool], slots: Integers) -> list[Any]:
    """Values at single bodies, for the whole: those of the marked types, body k in slot ``slots[k]``."""
    structure, leaves = looped.alike([value for value, mark in zip(values, marked, strict=True) if mark])
    shared, moving = _shared_constants(leaves)
    name = _new_buffer(looped, len(moving), slots)
    stores: list[list[tuple[Address, Any]]] = []
    for value, mark in zip(values, marked, strict=True):
        own = flatten(value)[1]
        stores.append([(Address(name, (Index(name, i),)), own[j]) for i, j in enumerate(moving)] if mark else [])
    result = Result(stores, max(looped.latest([[x for _, x in pairs] for pairs in stores]), 0))
    looped.results.append(result)
    width = len(moving)
    return [
        rebuild(structure, _posted_scalars(looped.whole, shared, moving, name, None, result.stage + 1, slot * width))
        for slot in range(int(slots.max()) + 1)
    ]


def spread(looped: Looped, values: Sequence[Any], marked: Sequence[bool], slots: Integers) -> Field:
    """Values of the whole at single bodies: a field with None for types that are not marked."""
    structure, leaves = looped.alike(values)
    shared, moving = _shared_constants(leaves)
    name, width = _new_buffer(looped, len(moving), slots), len(moving)
    stores: list[tuple[Address, Any]] = []
    for k, own in enumerate(leaves):
        stores += [(Address(name, (Index(None, k * width + i),)), own[j]) for i, j in enumerate(moving)]
    stage = _interlude(looped, stores)
    return [
        rebuild(structure, _posted_scalars(graph, shared, moving, name, name, stage)) if mark else None
        for graph, mark in zip(looped.graphs, marked, strict=True)
    ]


def everywhere(looped: Looped, value: Any) -> Field:
    """A value of the whole as a field."""
    structure, leaves = flatten(value)
    shared, moving = _shared_constants([leaves])
    name = _new_buffer(looped, len(moving), np.zeros(len(looped.parent), dtype=np.int64))
    stage = _interlude(looped, [(Address(name, (Index(None, i),)), leaves[j]) for i, j in enumerate(moving)])
    return [rebuild(structure, _posted_scalars(graph, shared, moving, name, None, stage)) for graph in looped.graphs]


def _new_buffer(looped: Looped, width: int, slots: Integers) -> str:
    """A work buffer with so many numbers per slot, and the register of each body's slot, under one name."""
    name = f"post{len(looped.work)}"
    looped.work[name] = width * (int(slots.max(initial=0)) + 1)
    looped.offsets[name] = width * slots
    return name


def _interlude(looped: Looped, stores: list[tuple[Address, Any]]) -> int:
    """Have numbers of the whole stored as soon as they are known; the first stage that may read them."""
    known = looped.whole.known_after(looped.stage_of)
    stage = max([0, *[known[x.index] for _, x in stores if isinstance(x, Traced)]])
    looped.interludes.append(Interlude(stage, stores))
    return stage


def _posted_scalars(
    graph: Graph, shared: list[Any], moving: list[int], name: str, register: str | None, stage: int, start: int = 0
) -> list[Any]:
    """The scalars of a value: constants, and inputs of a graph where they were posted."""
    numbers = list(shared)
    for i, j in enumerate(moving):
        numbers[j] = graph.input(Posted(Address(name, (Index(register, start + i),)), stage))
    return numbers


def _shared_constants(leaves: Sequence[Sequence[Any]]) -> tuple[list[Any], list[int]]:
    """Constants that all these lists of scalars share, and the places where they differ."""
    first = list(leaves[0])
    moving = [j for j, x in enumerate(first) if any(isinstance(own[j], Traced) or own[j] != x for own in leaves)]
    return first, moving
