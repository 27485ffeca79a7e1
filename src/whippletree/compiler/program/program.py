"""Kernel programs: what a back end is asked to emit, and nothing about how.

A program works on one *state*; the back end adds the lanes (SIMD on a CPU, threads on a GPU). It is a short list of
statements: straight-line blocks of arithmetic, counted loops (over bodies, time steps, solver sweeps), a switch on a
small integer, and statements that depend on numbers of the state: a condition, an iteration that ends when it has
converged, lists of what matters in this state. All storage is in named buffers; all addresses are integer registers
plus constant offsets, so that a program can be checked for bounds before any code exists.

    buffer role   one per    content                                         addressed by
    input         lane       an argument of the function                     one index per core dimension
    input         lane       ``integer``: numbers of what a call describes    :class:`Lookup` with a bound only
    output        lane       a result (``integer``: a status)                one index per core dimension
    work          lane       scratch space, uninitialised; the first of its  one index per dimension; by
                             dimensions may be some that the call decides    :class:`Lookup`, with a bound, too
    work          lane       ``integer``: a list of numbers below its size   :class:`Collect` and :class:`Each` only
    table         program    constants of the model, the same for all lanes  one index per dimension
    index         program    integers: offsets, types, parents               one index per dimension

**A lane never sees its neighbours.** Registers are the same in all lanes, so all go through the same statements. Where
those depend on numbers of a state (:class:`If`, :class:`Until`, :class:`Each`), a vector of lanes does what any of its
lanes needs, and whatever is stored there is stored only in the lanes that need it: the others keep their memory as it
is, bit for bit. So each lane ends with the bits that it would have alone. (What the others compute meanwhile is thrown
away, but the processor's floating-point flags have seen it: who calls such a program must not ask NumPy for them.)
Where lanes would mostly wait for each other, they go one after the other (:class:`PerLane`).

A program whose integers, or whose work space, come with the call (a scene of many bodies: who may touch whom, and how
many) works on one state at a time, :attr:`Program.is_scalar`: its registers are those of that state. So does one that
runs functions that are compiled already on states of its own (:class:`Call`), and can so be the same for all models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.trace import Straight, Table

Register: TypeAlias = str
"""A named integer: the counter of a loop or a number looked up in an index buffer."""

Others: TypeAlias = Literal["wait", "run along", "are none"]
"""Behaviour of states that are not in the body of a condition or an iteration, while their neighbours in a vector of
lanes are:

wait        they keep their memory as it is, which costs every store a comparison
run along   they may run the body with the others, but for what is :class:`PerLane` and for outputs: a promise that they
            store what is there already, or what is never looked at again
are none    a promise that all states agree
"""

Dimension: TypeAlias = int | str
"""A core dimension: a number, or the name of one that the arrays of a call decide (time steps)."""


SHARES = 8
"""Shares of the rounds of a loop that may be computed side by side: numbers in a vector of AVX-512."""


@dataclass(frozen=True)
class Buffer:
    """A named piece of memory. ``data`` holds the content of a table or index buffer.

    ``pitch``: of work space, numbers from one row (first index) to the next, where that is less than a row can hold. So
    rows of different lengths lie one after the other: each begins at a multiple of the pitch, and what is beyond its
    end belongs to the next ones.

    ``zeroed``: of a result, whether it holds zeros when the program begins, which may then leave out what stays zero.
    Whoever calls makes it so; large arrays of zeros cost nothing where nobody writes.

    ``mixed``: neighbours have nothing in common. Nobody looks for vectors among them
    (:mod:`~whippletree.compiler.llvm.packs`), which for the derivatives of a humanoid would take as long as tracing.
    """

    name: str
    role: Literal["input", "output", "work", "table", "index"]
    shape: tuple[Dimension, ...]
    data: np.ndarray[Any, Any] | None = field(default=None, repr=False, compare=False)
    integer: bool = False
    pitch: int | None = None
    mixed: bool = False
    zeroed: bool = False

    @property
    def empty(self) -> bool:
        """Whether it holds no number in any call, as the coordinates of a model without freedom."""
        return 0 in self.shape

    @property
    def is_list(self) -> bool:
        """Whether it is a list, which :class:`Collect` fills."""
        return self.role == "work" and self.integer

    @property
    def size(self) -> int:
        """How many numbers it holds, if no dimension is named."""
        if self.pitch is None or self.empty:
            return math.prod(int(d) for d in self.shape)
        rows, *row = (int(d) for d in self.shape)
        return (rows - 1) * self.pitch + math.prod(row)

    @property
    def is_sized_by_call(self) -> bool:
        """Whether the arrays of a call decide how much work space it takes."""
        return self.role == "work" and any(isinstance(d, str) for d in self.shape)


class Index(NamedTuple):
    """register + offset, or the offset alone."""

    register: Register | None
    offset: int = 0


class Address(NamedTuple):
    """One number in a buffer: one index for each of its dimensions."""

    buffer: str
    indices: tuple[Index, ...]


@dataclass(frozen=True)
class Block:
    """Straight-line code: input number i of ``code`` is loaded from ``loads[i]``, its outputs go to ``stores``.

    All loads happen before all stores, so a block may overwrite what it has read.
    """

    code: Straight
    loads: tuple[Address, ...]
    stores: tuple[Address, ...]


@dataclass(frozen=True)
class Lookup:
    """register := buffer[index], an integer from an index buffer, or from an integer input.

    What a caller passes can be anything: with ``below`` it is brought into 0 … below − 1, so that every address that it
    leads to exists. A call in which that dimension is 0 ends there. So what works on one state at a time, a program or
    the body of a :class:`PerLane`, may also look up a number that it has worked out itself, in a buffer of reals: its
    whole part, 0 for NaN.
    """

    register: Register
    address: Address
    below: Dimension | None = None


@dataclass(frozen=True)
class Loop:
    """Repeat ``body`` for counter = 0 … count − 1 (or backwards).

    ``count`` is a number, a named dimension of the call, or a register with an offset; below 0 it counts as 0.

    ``side_by_side`` promises that no round reads what another one writes. Its body is blocks on work space alone, whose
    addresses have the counter as their last index, or, where they are only read, as any other or not at all. A back end
    that works on one state may then compute several rounds at once, with the bits that each has alone.

    ``on_threads`` is a hint that each round is best done by a thread of its own, where a target has threads that work
    on one state together.

    ``share`` names a register, the number of the round modulo :data:`SHARES`, and promises the same of rounds that work
    on *rows*: the body is lookups and blocks, and what it writes has the counter as its first index, or the share as
    its last. So totals over all rounds are as many sums as there are shares, whoever computes them.
    """

    counter: Register
    count: Dimension | Index
    body: tuple[Statement, ...]
    backwards: bool = False
    side_by_side: bool = False
    on_threads: bool = False
    share: Register | None = None


@dataclass(frozen=True)
class Switch:
    """Run the case whose number is in ``register``."""

    register: Register
    cases: tuple[tuple[Statement, ...], ...]


@dataclass(frozen=True)
class If:
    """Run ``body`` if the number at ``flag`` is positive; not if it is NaN."""

    flag: Address
    body: tuple[Statement, ...]
    others: Others = "wait"


@dataclass(frozen=True)
class Until:
    """Repeat ``body`` until the number at ``done`` is positive: for counter = 0 … most − 1, unless that comes first.

    The number is looked at before each round, also before the first one; NaN is not positive.
    """

    counter: Register
    most: int
    done: Address
    body: tuple[Statement, ...]
    others: Others = "wait"


@dataclass(frozen=True)
class Collect:
    """list := those of the numbers counter = 0 … count − 1, in order, for which the number at ``flag`` is positive.

    ``list`` names an integer work buffer of at least ``count`` places. As a register, it is known to the statements
    that follow and those inside them; and it is collected nowhere else.
    """

    list: str
    counter: Register
    count: Dimension
    flag: Address


@dataclass(frozen=True)
class Each:
    """Run ``body`` for every number of a list, in order (or backwards): register := that number.

    ``ahead`` names a buffer whose rows the body reads whole: a hint to fetch that of a later number in good time.
    ``share``: as that of a :class:`Loop`, by the place in the list.
    """

    register: Register
    list: str
    body: tuple[Statement, ...]
    backwards: bool = False
    ahead: str | None = None
    share: Register | None = None


@dataclass(frozen=True)
class PerLane:
    """Run ``body`` for one lane after the other, where a back end works on several: as if each were alone.

    For iterations of which every lane needs another number, over lists in which every lane has other numbers. The
    arithmetic inside is plain, and lists are collected and gone through either inside such bodies or outside of them.
    """

    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Call:
    """Run a compiled function, which the program knows by a name alone, on several states at once.

    Arguments are whole buffers: work space whose last dimension counts states, of which the first ``states`` are meant;
    or inputs of the program, which all states share. ``status``: work space that gets the function's status of each
    state, 0 where all is well. A program that calls works on one state at a time.
    """

    function: str
    states: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    status: str | None = None


Statement: TypeAlias = Block | Lookup | Loop | Switch | If | Until | Collect | Each | PerLane | Call


@dataclass(frozen=True)
class Program:
    """A function of one state. Inputs and outputs appear in ``buffers`` in the order of the call."""

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name."""
        return next(b for b in self.buffers if b.name == name)

    def of_role(self, *roles: str) -> list[Buffer]:
        """The buffers with one of these roles, in order."""
        return [b for b in self.buffers if b.role in roles]

    @property
    def is_scalar(self) -> bool:
        """Whether it works on one state at a time: its registers depend on the state, or it calls functions."""
        own = any(b.is_sized_by_call or (b.role == "input" and b.integer) for b in self.buffers)
        return own or bool(calls_of(self))

    @property
    def signature(self) -> str:
        """NumPy's generalised-ufunc signature, such as ``(7),(7)->(7)``."""
        inputs, outputs = (
            ",".join(f"({','.join(map(str, b.shape))})" for b in self.of_role(role)) for role in ("input", "output")
        )
        return f"{inputs}->{outputs}"


def calls_of(program: Program) -> list[str]:
    """Names of the functions that a program calls, in the order in which they are handed over."""
    called = (statement.function for statement in every_statement(program.body) if isinstance(statement, Call))
    return list(dict.fromkeys(called))


def tables_of(program: Program) -> dict[str, Table]:
    """The tables that a program looks up, by name."""
    names = dict.fromkeys(node[0] for block in every_block(program.body) for node in block.code.nodes)
    return {str(name): name for name in names if isinstance(name, Table)}


def bodies(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    """The statements inside a statement: one body, the cases of a switch, or none."""
    match statement:
        case Switch():
            return statement.cases
        case Loop() | If() | Until() | Each() | PerLane():
            return (statement.body,)
    return ()


def every_statement(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements of a program's body, outer ones before those inside them."""
    for statement in body:
        yield statement
        for inner in bodies(statement):
            yield from every_statement(inner)


def every_block(body: Sequence[Statement]) -> Iterator[Block]:
    """All blocks of a program's body, however deep in other statements."""
    return (statement for statement in every_statement(body) if isinstance(statement, Block))


def buffers_of_single_lanes(program: Program) -> set[str]:
    """Work buffers and lists that only those parts of a program use which lanes run one after the other."""
    inside, outside = _names_by_place(program.body, False)
    work = {b.name for b in program.of_role("work")}
    return (inside - outside) & work


def _names_by_place(body: Sequence[Statement], alone: bool) -> tuple[set[str], set[str]]:
    """Names of the buffers that a body uses: inside of :class:`PerLane`, and outside."""
    found: tuple[set[str], set[str]] = (set(), set())
    for statement in body:
        found[0 if alone else 1].update(_own_names(statement))
        for part in bodies(statement):
            inner = _names_by_place(part, alone or isinstance(statement, PerLane))
            for names, more in zip(found, inner, strict=True):
                names.update(more)
    return found


def _own_names(statement: Statement) -> set[str]:
    """Names of the buffers that a statement itself uses, without the statements inside it."""
    match statement:
        case Block():
            return {address.buffer for address in (*statement.loads, *statement.stores)}
        case If():
            return {statement.flag.buffer}
        case Until():
            return {statement.done.buffer}
        case Collect():
            return {statement.flag.buffer, statement.list}
        case Each():
            return {statement.list} if statement.ahead is None else {statement.list, statement.ahead}
        case Call():
            return {*statement.inputs, *statement.outputs, *([statement.status] if statement.status else [])}
    return set()


def map_statements(body: Sequence[Statement], change: Callable[[Statement], Statement]) -> tuple[Statement, ...]:
    """The body with every statement changed, inner ones before those around them."""
    found: list[Statement] = []
    for statement in body:
        inner = [map_statements(part, change) for part in bodies(statement)]
        match statement:
            case Switch():
                statement = replace(statement, cases=tuple(inner))
            case Loop() | If() | Until() | Each() | PerLane():
                statement = replace(statement, body=inner[0])
        found.append(change(statement))
    return tuple(found)


def map_blocks(body: Sequence[Statement], change: Callable[[Block], Block]) -> tuple[Statement, ...]:
    """The body with every block changed, however deep."""
    return map_statements(body, lambda statement: change(statement) if isinstance(statement, Block) else statement)


def map_addresses(body: Sequence[Statement], move: Callable[[Address], Address]) -> tuple[Statement, ...]:
    """The body with every address changed, however deep; lists keep their names."""

    def move_statement(statement: Statement) -> Statement:
        match statement:
            case Block():
                return replace(
                    statement, loads=tuple(map(move, statement.loads)), stores=tuple(map(move, statement.stores))
                )
            case Lookup():
                return replace(statement, address=move(statement.address))
            case If() | Collect():
                return replace(statement, flag=move(statement.flag))
            case Until():
                return replace(statement, done=move(statement.done))
        return statement

    return map_statements(body, move_statement)


def every_address(buffer: Buffer) -> list[Address]:
    """The addresses of all numbers of a buffer of fixed size, in row-major order."""
    shape = [d for d in buffer.shape if isinstance(d, int)]
    return [Address(buffer.name, tuple(Index(None, i) for i in index)) for index in np.ndindex(*shape)]
