"""Results most of which are one constant, as the zeros of a regressor: written in a loop, before what is computed.

A humanoid's regressor has 20 000 numbers. With an instruction or three for each that is known beforehand, NVIDIA's
assembler took minutes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from whippletree.arithmetic.trace import Straight
from whippletree.compiler.llvm.ir import Lanes, Operand, Writer
from whippletree.compiler.program import Address, Block, Buffer, Index, Loop, Program, Statement

EQUAL_CONSTANTS = 500
"""Equal constants of one result from which on a loop is worth its second writing of what is computed."""


def filled(program: Program) -> Program:
    """The program of one block, with such results filled first; any other program as it is."""
    match program.body:
        case (Block() as block,):
            return replace(program, body=_filled(program, block))
    return program


def _filled(program: Program, block: Block) -> tuple[Statement, ...]:
    pairs = list(zip(block.stores, block.code.outputs, strict=True))
    # by their text, since there are two zeros
    counts = Counter((address.buffer, repr(w)) for address, w in pairs if isinstance(w, float))
    usual = {name: text for (name, text), count in reversed(counts.most_common()) if count >= EQUAL_CONSTANTS}
    left = [(address, w) for address, w in pairs if isinstance(w, int) or usual.get(address.buffer) != repr(w)]
    rest = Block(Straight(block.code.nodes, [w for _, w in left]), block.loads, tuple(address for address, _ in left))
    return (*[_fill(program.buffer(name), float(text)) for name, text in usual.items()], rest)


def _fill(buffer: Buffer, value: float) -> Statement:
    """Every number of a buffer := value."""
    counters = [f"index {i} of {buffer.name}" for i, _ in enumerate(buffer.shape)]
    address = Address(buffer.name, tuple(Index(counter) for counter in counters))
    statement: Statement = Block(Straight([], [value]), (), (address,))
    for counter, size in reversed(list(zip(counters, buffer.shape, strict=True))):
        statement = Loop(counter, size, (statement,))
    return statement


# --- Divisions of large kernels in float32, as calls of two functions -------------------------------------------------
# A division is a dozen instructions, for which a kernel as long as the instruction cache has no room: with calls,
# forward dynamics of a humanoid is a tenth faster on an H200. In float64, where arithmetic bounds the rate, they bring
# nothing.
#
# The functions return their results with every bit inverted, because of an error of NVIDIA's assembler (CUDA 13.0,
# level 2 and above). Short of registers, it takes the result of a call for something that it can have again at any time
# from the register in which it was returned, even where that register holds another value by then: in
# operational_inertia of a humanoid, in float64, one pivot took the place of another. What is computed from a result is
# no such copy; all kernels of the catalogue in float32 have been right with it (docs/performance.md).


_RECIPROCAL, _QUOTIENT = "whippletree_reciprocal", "whippletree_quotient"


class CallingWriter(Writer):
    """Writes divisions as calls."""

    def divide(self, a: Operand, b: Operand) -> Operand:
        kind, bits = self.lanes.number, self.lanes.integer
        one = a == self.constant(1.0)
        call = f"@{_RECIPROCAL}({kind} {b})" if one else f"@{_QUOTIENT}({kind} {a}, {kind} {b})"
        inverted = self.value(f"call {bits} {call}")
        return self.value(f"bitcast {bits} {self.value(f'xor {bits} {inverted}, -1')} to {kind}")


def division_functions(lanes: Lanes) -> str:
    """The functions that a calling writer calls."""
    kind, bits, one = lanes.number, lanes.integer, lanes.constant(1.0)

    def function(name: str, parameters: str, dividend: Operand) -> str:
        return f"""
define internal {bits} @{name}({parameters}) noinline {{
  %result = fdiv {kind} {dividend}, %b
  %bits = bitcast {kind} %result to {bits}
  %inverted = xor {bits} %bits, -1
  ret {bits} %inverted
}}
"""

    return function(_RECIPROCAL, f"{kind} %b", one) + function(_QUOTIENT, f"{kind} %a, {kind} %b", "%a")
