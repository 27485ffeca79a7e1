"""Straight-line code to instructions: one operation of the graph, one instruction, in an order that suits the machine.

Sines and cosines come first, as early as their arguments allow and all of a stage together: then one test guards the
rarely taken path of far arguments for all of them. Everything else keeps the order of the graph, which generic code
wrote body by body and which therefore keeps live ranges short.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from whippletree.arithmetic.trace import Node, Straight, Table
from whippletree.arithmetic.trace.traced import LEAVES
from whippletree.compiler.llvm.atan2 import angle_of_point
from whippletree.compiler.llvm.exponential import exponential, hyperbolic_tangent, logarithm, power
from whippletree.compiler.llvm.ir import MachineLanes, Operand, Writer
from whippletree.compiler.llvm.packs import WIDTH, Packs
from whippletree.compiler.llvm.sine import sines_and_cosines
from whippletree.compiler.llvm.spill_plan import SpillStep

_SINES = ("sin", "cos")
_PIECE = 256

FAR_USE = 20
"""Operations after which a value that lies in memory anyway is read from there again. LLVM does not know that memory
and register hold the same, and would put the value aside a second time: a tenth of a humanoid's folded code."""

Readers = Mapping[int, Callable[[], Operand]]
"""By node: emits the reading of its value from memory."""


class SpillPlacement(ABC):
    """How a target with few registers keeps values between their uses."""

    @abstractmethod
    def steps(self, nodes: Sequence[Node], order: Sequence[int]) -> Sequence[SpillStep]:
        """The computation in that order, with values put aside and taken back in between."""

    @abstractmethod
    def put(self, slot: int, value: Operand) -> None:
        """Emit the storing of a value."""

    @abstractmethod
    def take(self, slot: int) -> Operand:
        """Emit the reading of a value."""


class PackedRows(NamedTuple):
    """Packs of a block, and the memory that they come from and go to."""

    packs: Packs
    load: Callable[[int], Operand]
    """Emits the reading of the vector that begins with an input."""
    ready: Callable[[int, Operand], None]
    """Takes the vector of a pack as soon as it is known."""


_INSIDE = "of a pack"
"""Stands for the value of a node that only exists as a lane of its pack."""


def emit_straight(
    writer: Writer,
    code: Straight,
    load: Callable[[int], Operand],
    placement: SpillPlacement | None = None,
    ready: Callable[[int, Operand], None] = lambda node, value: None,
    awaited: Collection[int] = (),
    pause: Callable[[], None] = lambda: None,
    rows: PackedRows | None = None,
    readers: Readers | None = None,
    beside: int = 1,
) -> list[Operand]:
    """Emit the code; ``load(i)`` emits the reading of input number i where it is first needed. Returns the outputs.

    ``ready(node, value)`` is called for the awaited nodes as soon as their values are known: they can be stored.
    ``pause()`` is called now and then, where a new basic block may begin. With ``rows``, vectors compute some nodes;
    outputs that only go to memory as rows have no operand of their own. ``readers``: of inputs that may be
    read again where they are needed much later. ``beside``: sines that a vector may take together.
    """
    emission = _Emission(writer, code.nodes, load, rows, readers or {})
    stages = _stages_of_sines(code.nodes)
    for stage in stages:
        emission.angles(stage, beside)
    if placement is None:
        emission.in_pieces(ready, awaited, pause)
    else:
        emission.emit_placed(placement, ready, awaited)
    return [emission.value[w] if isinstance(w, int) else writer.constant(w) for w in code.outputs]


def _stages_of_sines(nodes: list[Node]) -> list[list[int]]:
    """The sines and cosines of stage s need those of stage s − 1 for their arguments."""
    sines = [index for index, node in enumerate(nodes) if node[0] in _SINES]
    if not sines:
        return []
    depth = [0] * len(nodes)
    stages: list[list[int]] = []
    for index in range(sines[0], sines[-1] + 1):
        node = nodes[index]
        if node[0] in LEAVES:
            continue
        below = max([depth[i] for i in node[1:]])
        if node[0] in _SINES:
            if below == len(stages):
                stages.append([])
            stages[below].append(index)
            below += 1
        depth[index] = below
    return stages


class _Emission:
    """The values emitted so far."""

    def __init__(
        self,
        writer: Writer,
        nodes: list[Node],
        load: Callable[[int], Operand],
        rows: PackedRows | None,
        readers: Readers,
    ) -> None:
        self.writer = writer
        self.readers = readers
        self.last_use = {node: node for node in readers}
        """Where a value with a reader was used last, or became known."""
        self.rows = rows
        self.packed = rows.packs.of_node if rows is not None else {}
        self.vectors: dict[int, Operand] = {}
        self.splats: dict[int, Operand] = {}
        self.splat_read: dict[int, int] = {}
        """Of a value with a reader, where it was read last for all lanes."""
        self.nodes = nodes
        self.load = load
        self.value: list[Operand] = [""] * len(nodes)
        number, condition = writer.lanes.number, writer.lanes.condition
        self.binary = {
            **{name: f"f{name} {number} " for name in ("add", "sub", "mul")},
            "lt": f"fcmp olt {number} ",
            "and": f"and {condition} ",
            "or": f"or {condition} ",
        }
        self.fused = {"fma": -1, "fms": 2, "fnma": 0}
        """By fused operation, the operand that is taken with the other sign."""

    def angles(self, members: list[int], beside: int) -> None:
        """Emit one stage of sines and cosines, sharing the work of those with the same argument."""
        arguments = list(dict.fromkeys(self.nodes[i][1] for i in members))
        self.nodes_in_order(self._missing(arguments))
        results = sines_and_cosines(self.writer, [self.value[a] for a in arguments], beside)
        pair = dict(zip(arguments, results, strict=True))
        for i in members:
            operation, argument = self.nodes[i]
            self.value[i] = pair[argument][_SINES.index(operation)]

    def in_pieces(
        self, ready: Callable[[int, Operand], None], awaited: Collection[int], pause: Callable[[], None]
    ) -> None:
        """Emit everything else in the order of the graph."""
        size, first = len(self.nodes), 0
        for stop in sorted({*(node + 1 for node in awaited), *range(_PIECE, size, _PIECE), size}):
            self.nodes_in_order(range(first, stop))
            if stop - 1 in awaited:
                ready(stop - 1, self.value[stop - 1])
            pause()
            first = stop

    def emit_placed(
        self, placement: SpillPlacement, ready: Callable[[int, Operand], None], awaited: Collection[int]
    ) -> None:
        """Emit everything else, the way the placement wants it."""
        size = len(self.nodes)
        order = [i for i in range(size) if self.value[i]] + [i for i in range(size) if not self.value[i]]
        for step in placement.steps(self.nodes, order):
            match step.action:
                case "compute":
                    self.nodes_in_order((step.node,))
                    if step.node in awaited:
                        ready(step.node, self.value[step.node])
                case "put":
                    placement.put(step.slot, self.value[step.node])
                case "take":
                    self.value[step.node] = placement.take(step.slot)

    def _missing(self, wanted: Iterable[int]) -> list[int]:
        """The nodes that the wanted ones need and that are not emitted yet, in order."""
        found: set[int] = set()
        open_ = [i for i in wanted if not self.value[i]]
        while open_:
            i = open_.pop()
            if i not in found:
                found.add(i)
                if self.nodes[i][0] not in LEAVES:
                    open_.extend(j for j in self.nodes[i][1:] if not self.value[j])
        return sorted(found)

    def nodes_in_order(self, indices: Iterable[int]) -> None:
        """Emit those of the nodes that are not emitted yet."""
        value, nodes, packed = self.value, self.nodes, self.packed
        emit, negate, binary, readers = self.writer.value, self.writer.negate, self.binary, self.readers
        number, fused, none_in_memory = self.writer.lanes.number, self.fused, readers.keys().isdisjoint
        call = f"call {number} @llvm.fma.{self.writer.suffix}({number} "
        for index in indices:
            if value[index]:
                continue
            node = nodes[index]
            operation = node[0]
            if index in packed:
                self._pack(packed[index], index)
                continue
            if readers and operation not in LEAVES and not none_in_memory(node[1:]):
                self._read_again(index, node)
            # the common cases, written out: a humanoid has ten thousands of them
            if (turned := fused.get(operation)) is not None:
                given = [value[i] for i in node[1:]]
                if turned >= 0:
                    given[turned] = negate(given[turned])
                value[index] = emit(f"{call}{given[0]}, {number} {given[1]}, {number} {given[2]})")
            elif (start := binary.get(operation)) is not None:
                value[index] = emit(f"{start}{value[node[1]]}, {value[node[2]]}")
            else:
                value[index] = self._special(node)

    def _read_again(self, index: int, node: Node) -> None:
        """Read those operands of a node from memory whose last use is far away."""
        readers, last_use = self.readers, self.last_use
        for operand in node[1:]:
            if operand in readers:
                if index - last_use[operand] > FAR_USE:
                    self.value[operand] = readers[operand]()
                last_use[operand] = index

    def _pack(self, number: int, index: int) -> None:
        """Emit a pack, and whichever of its members are needed one by one; ``index``: of the one in hand."""
        assert self.rows is not None
        w, packs = self.writer, self.rows.packs
        members, operands = packs.packs[number]
        vectors = [self._row(x.number) if x.is_pack else self._splat(x.number, index) for x in operands]
        one = w.lanes
        w.lanes = several = MachineLanes(WIDTH, one.real)
        self.vectors[number] = vector = self._apply(str(self.nodes[members[0]][0]), vectors)
        w.lanes = one
        for lane, node in enumerate(members):
            self.value[node] = _INSIDE
            if node in packs.single:
                self.value[node] = w.value(f"extractelement {several.number} {vector}, i32 {lane}")
        self.rows.ready(number, vector)

    def _row(self, number: int) -> Operand:
        """The vector of a pack that is known, or can be read."""
        assert self.rows is not None
        if number not in self.vectors:
            self.vectors[number] = self.rows.load(self.nodes[self.rows.packs.packs[number].members[0]][1])
        return self.vectors[number]

    def _splat(self, node: int, index: int) -> Operand:
        """A node in every lane, for the node in hand: read where it is needed, if it is in memory."""
        w = self.writer
        one = w.lanes
        several = MachineLanes(WIDTH, one.real)
        if self.nodes[node][0] == "const":
            return several.constant(self.nodes[node][1])
        if node in self.readers and index - self.splat_read.get(node, -FAR_USE) >= FAR_USE:
            self.value[node] = self.readers[node]()
            self.splat_read[node] = index
            self.splats.pop(node, None)
        if node not in self.splats:
            w.lanes = several
            self.splats[node] = w.splat(self.value[node])
            w.lanes = one
        return self.splats[node]

    def _special(self, node: Node) -> Operand:
        """Everything but plain binary operations."""
        w = self.writer
        operation = node[0]
        if operation == "const":
            return w.constant(node[1])
        if operation == "input":
            return self.load(node[1])
        x = [self.value[i] for i in node[1:]]
        if isinstance(operation, Table):
            return w.look_up(operation, len(operation.values), x[0])
        if operation in w.own_operations:
            return w.own_operations[operation](x)
        return self._apply(str(operation), x)

    def _apply(self, operation: str, x: Sequence[Operand]) -> Operand:
        """An operation on operands of as many lanes as the writer has now."""
        w = self.writer
        match operation:
            case "add" | "sub" | "mul":
                return w.binary(f"f{operation}", x[0], x[1])
            case "fma":
                return w.fma(x[0], x[1], x[2])
            case "fms":
                return w.fma(x[0], x[1], w.negate(x[2]))
            case "fnma":
                return w.fma(w.negate(x[0]), x[1], x[2])
            case "div":
                return w.divide(x[0], x[1])
            case "neg":
                return w.negate(x[0])
            case "sqrt":
                return w.intrinsic("sqrt", x[0])
            case "abs":
                return w.intrinsic("fabs", x[0])
            case "select":
                return w.select(x[0], x[1], x[2])
            case "not":
                return w.value(f"xor {w.lanes.condition} {x[0]}, {'true' if w.lanes.width == 1 else 'splat (i1 true)'}")
            case "atan2":
                return angle_of_point(w, x[0], x[1])
            case "exp":
                return exponential(w, x[0])
            case "log":
                return logarithm(w, x[0])
            case "tanh":
                return hyperbolic_tangent(w, x[0])
            case "pow":
                return power(w, x[0], x[1])
        raise ValueError(f"no instruction for the operation {operation!r}")
