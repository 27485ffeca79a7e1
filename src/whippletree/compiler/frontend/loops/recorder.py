"""The recorder: a :class:`~whippletree.tree.sweeps.Sweeper` that traces each step once per type of body, not once per
body.

A field holds one value per *type*. All steps of a type are traced into one graph, so what a body keeps from one sweep
to the next is simply a node of that graph; whether it is stored or computed again is decided later
(:mod:`~whippletree.compiler.program.store_or_recompute`). A graph's inputs are the constants in the table, the
arguments of the function, and what arrives through edges of the tree.

Sweeps are sorted into *stages*: even ones run outwards, odd ones inwards. A sweep joins the earliest stage of its
direction in which everything that it needs is known, so neighbouring sweeps of one direction share a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.trace import Trace, Traced
from whippletree.compiler.frontend.flatten import Structure, conform, flatten, rebuild
from whippletree.compiler.frontend.loops.body_types import (
    MOST_TYPES,
    Floats,
    Integers,
    OpenColumn,
    TableColumn,
    classify,
    exact,
)
from whippletree.compiler.frontend.loops.edge_pattern import Entry, Pattern, entries, refine_pattern
from whippletree.compiler.program import Address, Index
from whippletree.tree.sweeps import Field

Step: TypeAlias = Callable[..., tuple[Any, Any]]
"""(what crosses the edge, what is kept) = step(what arrives, fields of the body)."""

TABLE, ROW = "table", "row"
"""The buffer of the model's numbers, and the register that holds where a body's row of it begins."""

OPEN = "open"
"""The buffer of numbers that are left open, and the register that holds where those of a body begin."""


@dataclass(frozen=True)
class Arriving:
    """An input: a number that arrives through the edge, from the parent or as the sum over the children."""

    sweep: int
    leaf: int


@dataclass(frozen=True)
class Gathered:
    """An input: what the siblings before this body have already sent to their parent."""

    sweep: int
    leaf: int


@dataclass(frozen=True)
class Running:
    """An input: the running value of a sum over all bodies."""

    sum: int


@dataclass(frozen=True)
class Final:
    """An input: the last value of a sum over all bodies, for loops after it."""

    sum: int


@dataclass(frozen=True)
class Posted:
    """An input: a number of a work buffer, which is there from some stage on."""

    address: Address
    stage: int


Source: TypeAlias = Address | Arriving | Gathered | Running | Final | Posted
"""Where an input of a graph comes from; the registers of an address are named after arrays of offsets."""


class Graph:
    """Everything that is computed for a body of one type, over all sweeps."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.sources: list[Source] = []
        self._inputs: dict[Source, Traced] = {}

    def input(self, source: Source) -> Traced:
        """The scalar that comes from there."""
        if source not in self._inputs:
            self._inputs[source] = self.trace.input()
            self.sources.append(source)
        return self._inputs[source]

    def lasts(self, number: int) -> bool:
        """Whether an input can be read in every loop from the one on that it is known in."""
        return isinstance(self.sources[number], (Address, Final, Posted))

    def known_after(self, stage_of: Callable[[Source], int], known: list[int] | None = None) -> list[int]:
        """For each node, the stage that it has to wait for; −1 if it needs no sweep.

        ``known``: such a list of the first nodes, to go on with.
        """
        known = [] if known is None else known
        for node in islice(self.trace.nodes, len(known), None):
            if node[0] == "input":
                known.append(stage_of(self.sources[node[1]]))
            elif node[0] == "const":
                known.append(-1)
            else:
                known.append(max(known[i] for i in node[1:]))
        return known


@dataclass
class RecordedSweep:
    """A recorded scatter or gather."""

    outwards: bool
    pattern: Pattern
    start: list[Any]
    """Value that arrives from the world (scatter) or from no children (gather)."""
    sent: list[list[Any]]
    """For each type, the scalars that are written to the edge."""
    stage: int = -1


@dataclass
class RunningSum:
    """A value that every body changes in turn."""

    start: Any
    updates: list[Any]
    """For each type, the new running value."""
    stage: int = -1


@dataclass
class Result:
    """Numbers that every body writes to an output."""

    stores: list[list[tuple[Address, Any]]]
    """For each type, (where, what)."""
    stage: int = -1


@dataclass
class Interlude:
    """Numbers of the system as a whole that are computed between loops, and where they go."""

    stage: int
    """The first stage that may read them."""
    stores: list[tuple[Address, Any]]


class Looped:
    """Records an algorithm as loops over bodies; :mod:`~whippletree.compiler.frontend.loops.looped_program` makes the
    program.
    """

    def __init__(
        self,
        parents: Sequence[int],
        constants: Sequence[Sequence[Any]],
        most_types: int = MOST_TYPES,
        whole: Graph | None = None,
    ) -> None:
        """Sort the bodies into types.

        Args:
            parents: index of each body's parent, −1 for the world; parents come first.
            constants: fields with one value per body: the model's numbers, traced ones where they are left open.
            most_types: how many pieces of code there may be.
            whole: the graph of those traced numbers.
        """
        self.parent: Integers = np.asarray(parents, dtype=np.int64)
        self.bodies = classify(constants, len(self.parent), most_types)
        self.graphs = [Graph() for _ in self.bodies.types]
        self.whole = Graph() if whole is None else whole
        """Code that runs once, between or after the loops, from sums over bodies and from single bodies."""
        self.offsets: dict[str, Integers] = {ROW: self.bodies.rows}
        """For each register that addresses may use, its value at each body."""
        self.tables: dict[str, Floats] = {TABLE: self.bodies.table}
        self.sweeps: list[RecordedSweep] = []
        self.sums: list[RunningSum] = []
        self.results: list[Result] = []
        self.interludes: list[Interlude] = []
        self.work: dict[str, int] = {}
        """Sizes of buffers by which single bodies and the whole speak to each other."""
        if self.bodies.opened and self.bodies.open_rows is not None:
            self.offsets[OPEN], self.work[OPEN] = self.bodies.open_rows, len(self.bodies.opened)
            stores = [(Address(OPEN, (Index(None, i),)), x) for i, x in enumerate(self.bodies.opened)]
            self.interludes.append(Interlude(0, stores))
        self._known: list[list[int]] = [[] for _ in self.graphs]
        """Of each type's nodes, the stage that they wait for, as far as anybody has asked since a sweep was placed."""
        self._find_ends()

    def _find_ends(self) -> None:
        """Which types have bodies with a moving parent, with children, and with siblings that come after them."""
        parent, numbers = self.parent, np.arange(len(self.parent))
        last_child = np.full(len(parent) + 1, -1)
        last_child[parent + 1] = numbers
        marks = {"carried": parent >= 0, "parents": last_child[1:] >= 0, "earlier": last_child[parent + 1] != numbers}
        types = [self.bodies.of == t for t in range(len(self.graphs))]
        self.has = {word: [bool(mark[own].any()) for own in types] for word, mark in marks.items()}

    # --- fields -------------------------------------------------------------------------------------------------------

    def constant_fields(self) -> tuple[Field, ...]:
        """The constants that the recorder was given, as fields."""
        values = []
        for graph, kind in zip(self.graphs, self.bodies.types, strict=True):
            values.append(rebuild(kind.structure, [_constant(graph, x) for x in kind.leaves]))
        return tuple(zip(*values, strict=True))

    def number_field(self, name: str, numbers: Floats) -> Field:
        """A field of vectors from a matrix (N, w) of numbers that are no reason to tell types apart: springs, …"""
        same = (numbers == numbers[:1]).all(axis=0)
        kept = np.flatnonzero(~same)
        self.tables[name], self.offsets[name] = numbers[:, kept].ravel(), len(kept) * np.arange(len(numbers))
        place = {int(j): i for i, j in enumerate(kept)}
        fields = []
        for graph in self.graphs:
            vector = np.empty(numbers.shape[1], dtype=object)
            for j in range(len(vector)):
                loaded = j in place
                vector[j] = graph.input(Address(name, (Index(name, place[j]),))) if loaded else exact(numbers[0, j])
            fields.append(vector)
        return fields

    def argument(self, buffer: str, register: str, sizes: Sequence[int]) -> Field:
        """A field of vectors: numbers ``buffer[register + i]``, for each type i = 0 … size − 1."""
        fields = []
        for graph, size in zip(self.graphs, sizes, strict=True):
            vector = np.empty(size, dtype=object)
            vector[:] = [graph.input(Address(buffer, (Index(register, i),))) for i in range(size)]
            fields.append(vector)
        return fields

    def result(self, buffer: str, register: str, vectors: Field) -> None:
        """Write a field of vectors to ``buffer[register + i]``."""
        stores = [[(Address(buffer, (Index(register, i),)), x) for i, x in enumerate(vector)] for vector in vectors]
        self.results.append(Result(stores, self.latest([[x for _, x in pairs] for pairs in stores])))

    # --- the sweeper's protocol ---------------------------------------------------------------------------------------

    def map(self, function: Callable[..., Any], *fields: Field) -> Field:
        return [function(*values) for values in zip(*fields, strict=True)]

    def scatter(self, step: Step, root: Any, *fields: Field) -> Field:
        return self._sweep(step, root, fields, outwards=True)

    def gather(self, step: Step, zero: Any, *fields: Field) -> Field:
        return self._sweep(step, zero, fields, outwards=False)

    def total(self, function: Callable[..., Any], zero: Any, *fields: Field) -> Any:
        values = self.map(function, *fields)
        structure, terms = self.alike(values)
        start = conform(zero, values[0])
        return rebuild(structure, [self._sum(first, parts) for first, *parts in zip(start, *terms, strict=True)])

    def _sum(self, start: Any, parts: Sequence[Any]) -> Any:
        if all(not isinstance(x, Traced) and x == 0 for x in parts):
            return start
        return self.running(start, lambda now, t: now + parts[t])

    def running(self, start: Any, update: Callable[[Any, int], Any]) -> Traced:
        """A number that starts so and becomes update(number, type) at every body in turn; its last value."""
        source = Running(len(self.sums))
        updates = [update(graph.input(source), t) for t, graph in enumerate(self.graphs)]
        record = RunningSum(start, updates)
        self.sums.append(record)
        record.stage = max(self.latest([[x] for x in updates]), 0)
        return self.whole.input(Final(source.sum))

    def final(self, number: Traced) -> Field:
        """The last value of a running number as a field, for what comes after it."""
        source = self.whole.sources[self.whole.trace.nodes[number.index][1]]
        return [graph.input(source) for graph in self.graphs]

    # --- recording ----------------------------------------------------------------------------------------------------

    def _sweep(self, step: Step, first: Any, fields: Sequence[Field], *, outwards: bool) -> Field:
        """Trace a step for all types, assuming of what arrives only what turns out to hold for all that is sent."""
        number = len(self.sweeps)
        own = list(zip(*fields, strict=True))
        # the first rounds may divide by zeros that later rounds know to be none: a massless link without children
        with np.errstate(all="ignore"):
            shape, _ = step(first, *own[0])
            structure = flatten(shape)[0]
            start = conform(first, shape)
            pattern: Pattern = tuple(start)
            while True:
                arriving = [self._arriving(t, number, pattern, start, outwards) for t in range(len(own))]
                outcomes = [step(rebuild(structure, a), *values) for a, values in zip(arriving, own, strict=True)]
                _, sent = self.alike([value for value, _ in outcomes])
                finer = refine_pattern(pattern, start, sent, summed=not outwards)
                if finer == pattern:
                    break
                pattern = finer
        sweep = RecordedSweep(outwards, pattern, start, sent)
        self.sweeps.append(sweep)
        self._place(number, sweep)
        if not outwards:
            self._add_to_siblings(number, sweep)
        return [kept for _, kept in outcomes]

    def _arriving(self, t: int, sweep: int, pattern: Pattern, start: list[Any], outwards: bool) -> list[Any]:
        """Inputs of a body of type t: constants where the pattern or the body's place in the tree makes them so."""
        if not self.has["carried" if outwards else "parents"][t]:
            return start
        graph = self.graphs[t]
        return [graph.input(Arriving(sweep, x.leaf)) if isinstance(x, Entry) else x for x in pattern]

    def _place(self, number: int, sweep: RecordedSweep) -> None:
        """Find the stage: the first one of this direction in which all that the step needs is known."""
        crossing = entries(sweep.pattern)
        needed = self.latest([[values[leaf] for leaf in crossing] for values in sweep.sent])
        stage = max(needed, 0)
        sweep.stage = stage if (stage % 2 == 0) == sweep.outwards else stage + 1
        self._known = [[] for _ in self.graphs]  # whatever uses what arrives waits for this stage now

    def _add_to_siblings(self, number: int, sweep: RecordedSweep) -> None:
        """Messages of siblings are summed on the way: each body adds its own to what came before."""
        for t, (graph, values) in enumerate(zip(self.graphs, sweep.sent, strict=True)):
            for leaf in entries(sweep.pattern):
                before = graph.input(Gathered(number, leaf)) if self.has["earlier"][t] else sweep.start[leaf]
                values[leaf] = before + values[leaf]

    def alike(self, values: Sequence[Any]) -> tuple[Structure, list[list[Any]]]:
        """The common structure of one value per type, and the scalars of each."""
        flat = [flatten(value) for value in values]
        for structure, _ in flat:
            if structure != flat[0][0]:
                raise TypeError(
                    f"what crosses an edge of the tree must have one shape for all joint types, but a step sends "
                    f"{flat[0][0]} for one type and {structure} for another"
                )
        return flat[0][0], [leaves for _, leaves in flat]

    def stage_of(self, source: Source) -> int:
        """The stage in which an input is there; −1 for what is always there."""
        match source:
            case Arriving(sweep, _) | Gathered(sweep, _):
                # a sweep that is being placed does not wait for itself
                return self.sweeps[sweep].stage
            case Running(number):
                return self.sums[number].stage
            case Final(number):
                return self.sums[number].stage + 1
            case Posted(_, stage):
                return stage
        return -1

    def latest(self, scalars_of_types: Sequence[Sequence[Any]]) -> int:
        """The stage after which all these scalars are known."""
        latest = -1
        for graph, so_far, values in zip(self.graphs, self._known, scalars_of_types, strict=True):
            known = graph.known_after(self.stage_of, so_far)
            latest = max([latest, *[known[x.index] for x in values if isinstance(x, Traced)]])
        return latest


def _constant(graph: Graph, x: Any) -> Any:
    """A number of the model as the code of a type sees it."""
    match x:
        case TableColumn(place):
            return graph.input(Address(TABLE, (Index(ROW, place),)))
        case OpenColumn(place):
            return graph.input(Posted(Address(OPEN, (Index(OPEN, place),)), 0))
    return x
