"""LLVM IR as text: the lanes that a number stands for, and a writer of one function's instructions.

Everything that this package emits goes through :class:`Writer`, so three promises can be kept in one place:

* **no fast-math flag** is ever written, so LLVM may not change a rounding;
* **only the intrinsics of** :data:`INTRINSICS` **exist**: LLVM ends the whole process when a target cannot select one;
* a value is a *lane vector* ``<W x double>`` on a CPU and a plain ``double`` for one lane or one GPU thread: the code
  that emits an operation does not know which.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

Operand: TypeAlias = str
"""The text of a value: a number or a name such as ``%7`` or ``%v7``, or a constant."""

Real: TypeAlias = Literal["double", "float"]

INTRINSICS = {"fma": 3, "sqrt": 1, "fabs": 1}
"""The only intrinsics that can be emitted, with their number of operands. Every supported target selects them."""


@dataclass(frozen=True)
class MachineLanes:
    """A number of a program on the machine: ``width`` reals side by side."""

    width: int
    real: Real

    @cached_property
    def bytes(self) -> int:
        """Size of one real."""
        return 8 if self.real == "double" else 4

    @cached_property
    def bits(self) -> str:
        """The integer type as wide as one real."""
        return f"i{8 * self.bytes}"

    @cached_property
    def number(self) -> str:
        """The type of a number."""
        return self.of(self.real)

    @cached_property
    def integer(self) -> str:
        """The type of a number's bit pattern."""
        return self.of(self.bits)

    @cached_property
    def condition(self) -> str:
        """The type of a truth value."""
        return self.of("i1")

    def of(self, scalar: str) -> str:
        """The lane vector of a scalar type."""
        return scalar if self.width == 1 else f"<{self.width} x {scalar}>"

    def constant(self, value: float) -> Operand:
        """A number, the same in every lane."""
        text = real_text(value, self.real)
        return text if self.width == 1 else f"splat ({self.real} {text})"

    def integer_constant(self, value: int) -> Operand:
        """A bit pattern, the same in every lane."""
        return str(value) if self.width == 1 else f"splat ({self.bits} {value})"


def real_text(value: float, real: Real) -> str:
    """A real constant as LLVM writes it: the bits of a double, also for a float."""
    if real == "float":
        value = round_to_float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def round_to_float(value: float) -> float:
    """The nearest single-precision number; what is too large becomes infinite, as IEEE rounding has it."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        rounded = float("inf") if value > 0 else float("-inf")
    return rounded


def table_text(name: str, values: Sequence[float], real: Real, space: int = 0) -> str:
    """A global table of reals, in an address space of the target."""
    where = f" addrspace({space})" if space else ""
    entries = ", ".join(f"{real} {real_text(x, real)}" for x in values)
    return f"@{name} = internal{where} constant [{len(values)} x {real}] [{entries}], align 8\n"


class Writer:
    """Writes the instructions of one function; every method that computes returns the operand of the result."""

    def __init__(self, lanes: MachineLanes) -> None:
        self.lanes = lanes
        self.table_space = 0
        """Where tables live: the address space of a target."""
        self.lines: list[str] = []
        self.entry: list[str] = []  # stack allocations, which belong in front of everything else
        self.called: set[str] = set()
        """Functions of the module that are called."""
        self.own_operations: dict[str, Callable[[Sequence[Operand]], Operand]] = {}
        """Operations that only this target has: what emits them."""
        self.block = "entry"
        self.block_start = 0
        """Line with which the present basic block begins."""
        self._names = 0
        # a constant is one text in vectors of any width
        self._canonical: dict[tuple[int, Operand], Operand] = {}
        self._negatives: dict[tuple[int, Operand], Operand] = {}

    def fresh(self) -> str:
        """A name not used before in this function, for a value that is used before the line that computes it."""
        self._names += 1
        return f"%v{self._names}"

    def label(self, hint: str) -> str:
        """A block label not used before in this function."""
        self._names += 1
        return f"{hint}{self._names}"

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.block, self.block_start = label, len(self.lines)
        self._canonical.clear()
        self._negatives.clear()

    def emit(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append("  " + text)

    def value(self, text: str) -> Operand:
        """An instruction with a result, which has a number: LLVM reads names in twice the time."""
        self._names += 1
        name = f"%{self._names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def call(self, function: str, arguments: str) -> None:
        """A call of a function of the module that returns nothing; which ones are called is remembered."""
        self.called.add(function)
        self.emit(f"call void @{function}({arguments})")

    def stack(self, kind: str, alignment: int) -> Operand:
        """Stack space, allocated once on entry."""
        name = self.fresh()
        self.entry.append(f"  {name} = alloca {kind}, align {alignment}")
        return name

    # ---- numbers -------------------------------------------------------------------------------------------------

    def binary(self, instruction: str, a: Operand, b: Operand) -> Operand:
        """fadd, fsub, fmul or fdiv."""
        return self.value(f"{instruction} {self.lanes.number} {a}, {b}")

    def divide(self, a: Operand, b: Operand) -> Operand:
        """a / b."""
        return self.binary("fdiv", a, b)

    def intrinsic(self, name: str, *operands: Operand) -> Operand:
        """A call of a whitelisted intrinsic; anything else is a KeyError here and never reaches LLVM."""
        if INTRINSICS[name] != len(operands):
            raise ValueError(f"{name} takes {INTRINSICS[name]} operands")
        kind = self.lanes.number
        arguments = ", ".join(f"{kind} {x}" for x in operands)
        return self.value(f"call {kind} @llvm.{name}.{self.suffix}({arguments})")

    @property
    def suffix(self) -> str:
        """How LLVM mangles the number type in an intrinsic's name."""
        scalar = "f64" if self.lanes.real == "double" else "f32"
        return scalar if self.lanes.width == 1 else f"v{self.lanes.width}{scalar}"

    def fma(self, a: Operand, b: Operand, c: Operand) -> Operand:
        """a·b + c, rounded once."""
        return self.intrinsic("fma", a, b, c)

    def negate(self, a: Operand) -> Operand:
        """−a, by its sign bit; once for each number of a basic block."""
        key = self.lanes.width, a
        found = self._negatives.get(key)
        if found is None:
            found = self._negatives[key] = self.value(f"fneg {self.lanes.number} {a}")
        return found

    def constant(self, value: float) -> Operand:
        """A number, the same in every lane."""
        return self.lanes.constant(value)

    def polynomial(self, x: Operand, coefficients: Sequence[float]) -> Operand:
        """c₀ + x (c₁ + x (c₂ + …)), each step one fused multiply-add."""
        total = self.constant(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.constant(c))
        return total

    # ---- conditions and bits -------------------------------------------------------------------------------------

    def compare(self, predicate: str, a: Operand, b: Operand) -> Operand:
        """A comparison of numbers."""
        return self.value(f"fcmp {predicate} {self.lanes.number} {a}, {b}")

    def select(self, condition: Operand, a: Operand, b: Operand, kind: str | None = None) -> Operand:
        """a where the condition holds, else b."""
        kind = kind or self.lanes.number
        return self.value(f"select {self.lanes.condition} {condition}, {kind} {a}, {kind} {b}")

    def look_up(self, table: str, size: int, a: Operand) -> Operand:
        """The entry ⌊a⌋ of a global table of reals; the first below 0 and for NaN, the last beyond the end."""
        lanes = self.lanes
        a = self.select(self.compare("olt", lanes.constant(0.0), a), a, lanes.constant(0.0))
        last = lanes.constant(float(size - 1))
        whole = self.value(
            f"fptosi {lanes.number} {self.select(self.compare('olt', a, last), a, last)} to {lanes.of('i64')}"
        )
        if lanes.width == 1:
            return self._table_entry(table, whole)
        result = "poison"
        for k in range(lanes.width):
            one = self._table_entry(table, self.value(f"extractelement {lanes.of('i64')} {whole}, i64 {k}"))
            result = self.value(f"insertelement {lanes.number} {result}, {lanes.real} {one}, i64 {k}")
        return result

    def _table_entry(self, table: str, index: Operand) -> Operand:
        space = f" addrspace({self.table_space})" if self.table_space else ""
        place = self.value(f"getelementptr {self.lanes.real}, ptr{space} @{table}, i64 {index}")
        return self.value(f"load {self.lanes.real}, ptr{space} {place}")

    def to_bits(self, a: Operand) -> Operand:
        """The bit pattern of a number."""
        return self.value(f"bitcast {self.lanes.number} {a} to {self.lanes.integer}")

    def from_bits(self, a: Operand) -> Operand:
        """The number with that bit pattern."""
        return self.value(f"bitcast {self.lanes.integer} {a} to {self.lanes.number}")

    def is_negative(self, a: Operand) -> Operand:
        """The sign bit of a number: −0 counts."""
        zero = "0" if self.lanes.width == 1 else "zeroinitializer"
        return self.value(f"icmp slt {self.lanes.integer} {self.to_bits(a)}, {zero}")

    def copy_sign(self, magnitude: Operand, sign: Operand) -> Operand:
        """A number with the sign of another."""
        top = 1 << (8 * self.lanes.bytes - 1)
        size = self.integer("and", self.to_bits(magnitude), top - 1)
        return self.from_bits(self.integer("or", size, self.integer("and", self.to_bits(sign), top)))

    def integer(self, instruction: str, a: Operand, b: Operand | int) -> Operand:
        """An operation on bit patterns; a plain int is the same in every lane."""
        if isinstance(b, int):
            b = self.lanes.integer_constant(b)
        return self.value(f"{instruction} {self.lanes.integer} {a}, {b}")

    def splat(self, scalar: Operand, kind: str | None = None) -> Operand:
        """A scalar in every lane."""
        width, kind = self.lanes.width, kind or self.lanes.real
        if width == 1:
            return scalar
        one = self.value(f"insertelement <{width} x {kind}> poison, {kind} {scalar}, i32 0")
        return self.value(
            f"shufflevector <{width} x {kind}> {one}, <{width} x {kind}> poison, <{width} x i32> zeroinitializer"
        )

    def every_lane(self) -> Operand:
        """The number of each lane, i64."""
        return f"<{', '.join(f'i64 {k}' for k in range(self.lanes.width))}>"

    def constant_vector(self, constant: Operand) -> Operand:
        """A number that is known beforehand in every lane of a vector, from what it is in one."""
        return f"splat ({self.lanes.real} {constant})"

    def to_integer(self, a: Operand) -> Operand:
        """i64 of a whole number; −1 for what no i64 can hold, since LLVM leaves that conversion undefined."""
        fits = self.compare("olt", self.intrinsic("fabs", a), self.constant(2.0**62))
        safe = self.select(fits, a, self.constant(-1.0))
        return self.value(f"fptosi {self.lanes.number} {safe} to {self.lanes.of('i64')}")

    def canonical(self, a: Operand) -> Operand:
        """A number with one bit pattern for every NaN: the sign and payload of a NaN depend on the machine.

        Once for each number of a basic block: one that goes to a thousand places would otherwise be compared a thousand
        times, for which LLVM needs time that grows with the square.
        """
        key = self.lanes.width, a
        if key not in self._canonical:
            lanes = self.lanes
            quiet = lanes.integer_constant(0x7FF8000000000000 if lanes.real == "double" else 0x7FC00000)
            bits = self.select(self.compare("uno", a, a), quiet, self.to_bits(a), lanes.integer)
            self._canonical[key] = self.from_bits(bits)
        return self._canonical[key]

    def any(self, condition: Operand) -> Operand:
        """One i1: whether the condition holds in some lane."""
        if self.lanes.width == 1:
            return condition
        mask = self.value(f"bitcast {self.lanes.condition} {condition} to i{self.lanes.width}")
        return self.value(f"icmp ne i{self.lanes.width} {mask}, 0")
