"""Programs run in Python, one number at a time: what machine code is compared with.

The arithmetic is the machine's: every operation is rounded to the chosen dtype once, a fused multiply-add through
exact rational numbers. Only sine, cosine, atan2, exp, log, tanh and power are NumPy's and
may differ from compiled code in the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.trace import Straight, Table
from whippletree.compiler.program.program import (
    SHARES,
    Address,
    Block,
    Call,
    Collect,
    Dimension,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    PerLane,
    Program,
    Register,
    Statement,
    Switch,
    Until,
)


def interpret(
    program: Program,
    inputs: Mapping[str, Any],
    dtype: Any = np.float64,
    along: bool = False,
    functions: Mapping[str, Callable[..., Sequence[Any]]] | None = None,
) -> dict[str, Array]:
    """The outputs of a program for one state.

    ``along``: the state also runs along with others wherever it may
    (:data:`~whippletree.compiler.program.program.Others`), as if it had neighbours that need another round, or the body
    of a condition. A program that keeps its promises has the same outputs then.

    ``functions``: those that the program calls, of one state: from its inputs to its outputs, and its status where the
    program asks for that.
    """
    sizes: dict[str, int] = {}
    memory: dict[str, Array] = {}
    for b in program.of_role("input"):
        memory[b.name] = np.asarray(inputs[b.name], dtype=np.int64 if b.integer else dtype)
        sizes.update({d: n for d, n in zip(b.shape, memory[b.name].shape, strict=True) if isinstance(d, str)})
    for b in program.of_role("table", "index"):
        memory[b.name] = np.asarray(b.data, dtype=np.int64 if b.role == "index" else dtype)
    for b in program.of_role("work", "output"):
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in b.shape)
        own = np.int64 if b.integer else dtype
        if b.zeroed:
            memory[b.name] = np.zeros(shape, own)
        elif b.pitch is None:
            memory[b.name] = np.full(shape, -1 if b.integer else np.nan).astype(own)
        else:
            flat = np.full(b.size, np.nan).astype(own)
            inner = np.empty(shape[1:], own).strides
            memory[b.name] = np.lib.stride_tricks.as_strided(flat, shape, (b.pitch * flat.itemsize, *inner))
    with np.errstate(all="ignore"), suppress(_CallEnds):
        results = {b.name for b in program.of_role("output")}
        run = _Run(memory, sizes, np.dtype(dtype).type, results if along else None)
        run.functions, run.shared = functions or {}, {b.name for b in program.of_role("input")}
        run.statements(program.body, {})
    return {b.name: memory[b.name] for b in program.of_role("output")}


class _CallEnds(Exception):
    """A number below a bound was looked up where there is none."""


class _Run:
    def __init__(
        self, memory: dict[str, Array], sizes: Mapping[str, int], real: Any, results: Collection[str] | None = None
    ) -> None:
        """``results``: names of the outputs, if the state runs along with others wherever it may."""
        self.results = results
        self.accompanies = False
        """Whether it is not in the body that is run."""
        self.memory = memory
        self.sizes = sizes
        self.real = real
        self.meaning = machine_arithmetic(real)
        self.lists: dict[str, list[int]] = {}
        self.functions: Mapping[str, Callable[..., Sequence[Any]]] = {}
        """Those that the program calls."""
        self.shared: Collection[str] = ()
        """Names of the inputs, which all states of a call share."""

    def statements(self, body: Sequence[Statement], registers: Mapping[Register, int]) -> None:
        known = dict(registers)
        for statement in body:
            match statement:
                case Block():
                    self.block(statement, known)
                case Lookup():
                    known[statement.register] = self.look_up(statement, known)
                case Loop():
                    rounds = range(self.count(statement.count, known))
                    for i in reversed(rounds) if statement.backwards else rounds:
                        self.statements(statement.body, {**known, **_share(statement, i), statement.counter: i})
                case Switch():
                    self.statements(statement.cases[known[statement.register]], known)
                case If():
                    if self.positive(statement.flag, known):
                        self.statements(statement.body, known)
                    elif statement.others == "run along":
                        self.run_along(statement.body, known)
                case Until():
                    self.until(statement, known)
                case Collect():
                    self.lists[statement.list] = [
                        i
                        for i in range(self.count(statement.count, known))
                        if self.positive(statement.flag, {**known, statement.counter: i})
                    ]
                case Each():
                    numbers = self.lists[statement.list]
                    for place, i in enumerate(reversed(numbers) if statement.backwards else numbers):
                        self.statements(statement.body, {**known, **_share(statement, place), statement.register: i})
                case PerLane():
                    if not self.accompanies:
                        self.statements(statement.body, known)
                case Call():
                    self.call(statement)

    def block(self, block: Block, registers: Mapping[Register, int]) -> None:
        """Loads, straight code, stores; results are not written where a state only accompanies others."""
        values = [self.memory[a.buffer][self.place(a, registers)] for a in block.loads]
        results = self.straight(block.code, values)
        for address, value in zip(block.stores, results, strict=True):
            if self.accompanies and self.results is not None and address.buffer in self.results:
                continue
            self.memory[address.buffer][self.place(address, registers)] = value

    def call(self, call: Call) -> None:
        """A function of one state, for one state of the work space after the other."""
        written = [*call.outputs, *([] if call.status is None else [call.status])]
        for state in range(call.states):
            given = [
                self.memory[name] if name in self.shared else self.memory[name][..., state] for name in call.inputs
            ]
            for name, value in zip(written, self.functions[call.function](*given), strict=True):
                self.memory[name][..., state] = value

    def look_up(self, lookup: Lookup, registers: Mapping[Register, int]) -> int:
        """The integer at an address, kept within its bound; without any number below that, the call ends."""
        number = self.memory[lookup.address.buffer][self.place(lookup.address, registers)]
        if lookup.below is None:
            return int(number)
        most = self.count(lookup.below, registers)
        if most < 1:
            raise _CallEnds
        return int(min(number, most - 1)) if number > 0 else 0  # not of NaN

    def until(self, until: Until, registers: Mapping[Register, int]) -> None:
        """Rounds until a number is positive, and one beyond that for states that run along."""
        for i in range(until.most):
            inside = {**registers, until.counter: i}
            if self.positive(until.done, registers):
                if until.others == "run along":
                    self.run_along(until.body, inside)
                break
            self.statements(until.body, inside)

    def run_along(self, body: Sequence[Statement], registers: Mapping[Register, int]) -> None:
        """Behaviour of a state in a body that only its neighbours are in."""
        if self.results is None:
            return
        before, self.accompanies = self.accompanies, True
        self.statements(body, registers)
        self.accompanies = before

    def count(self, count: Dimension | Index, registers: Mapping[Register, int]) -> int:
        if isinstance(count, Index):
            return self.index(count, registers)
        return self.sizes[count] if isinstance(count, str) else count

    def positive(self, address: Address, registers: Mapping[Register, int]) -> bool:
        return bool(self.memory[address.buffer][self.place(address, registers)] > 0)

    def index(self, index: Index, registers: Mapping[Register, int]) -> int:
        return (registers[index.register] if index.register is not None else 0) + index.offset

    def place(self, address: Address, registers: Mapping[Register, int]) -> tuple[int, ...]:
        place = tuple(self.index(i, registers) for i in address.indices)
        if any(i < 0 for i in place):
            raise IndexError(f"{address} is before the start of its buffer")
        return place

    def straight(self, code: Straight, inputs: Sequence[Any]) -> list[Any]:
        values: list[Any] = []
        for operation, *operands in code.nodes:
            if operation == "input":
                values.append(inputs[operands[0]])
            elif operation == "const":
                values.append(self.real(operands[0]))
            else:
                given = [values[i] for i in operands]
                known = isinstance(operation, Table)
                values.append(self.real(operation.at(*given)) if known else self.meaning[operation](*given))
        return [values[w] if isinstance(w, int) else self.real(w) for w in code.outputs]


def _share(statement: Loop | Each, place: int) -> dict[Register, int]:
    """The share of a round, by its place among all."""
    return {} if statement.share is None else {statement.share: place % SHARES}


def machine_arithmetic(real: Any) -> dict[str, Callable[..., Any]]:
    """Effect of each operation on numbers of a NumPy type, rounded once."""

    def fma(a: Any, b: Any, c: Any) -> Any:
        exact = all(math.isfinite(x) for x in (a, b, c))
        total = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) if exact else Fraction(0)
        # the sign of a zero, infinities and NaN are those of the unfused operations
        return round_fraction(total, real) if total else a * b + c

    return {
        "neg": lambda a: -a,
        "abs": abs,
        "sqrt": np.sqrt,
        "sin": np.sin,
        "cos": np.cos,
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "atan2": np.arctan2,
        "exp": np.exp,
        "log": np.log,
        "tanh": np.tanh,
        "pow": np.power,
        "lt": lambda a, b: bool(a < b),
        "and": lambda a, b: a and b,
        "or": lambda a, b: a or b,
        "not": lambda a: not a,
        "select": lambda c, a, b: a if c else b,
        "fma": fma,
        "fms": lambda a, b, c: fma(a, b, -c),
        "fnma": lambda a, b, c: fma(-a, b, c),
    }


def round_fraction(x: Fraction, real: Any) -> Any:
    """The number of a NumPy type nearest to a Fraction, ties to even."""
    try:
        start = real(float(x))
    except OverflowError:
        return real(math.inf if x > 0 else -math.inf)
    if not np.isfinite(start):
        return start
    # float32: rounding twice can be wrong by one place, so the neighbours are asked too
    near = [start, np.nextafter(start, real(np.inf)), np.nextafter(start, real(-np.inf))]
    near = [y for y in near if np.isfinite(y)]
    return min(near, key=lambda y: (abs(Fraction(float(y)) - x), _last_bit(y)))


def _last_bit(x: Any) -> int:
    return int(np.asarray(x).view(np.uint64 if x.dtype.itemsize == 8 else np.uint32)) & 1
