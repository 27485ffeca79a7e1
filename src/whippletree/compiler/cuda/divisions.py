"""Divisions of large kernels in float32, as calls of two functions.

A division is a dozen instructions, for which a kernel as long as the instruction cache has no room: with calls,
forward dynamics of a humanoid is a tenth faster on an H200. In float64, where arithmetic bounds the rate, they bring
nothing.

The functions return their results with every bit inverted, because of an error of NVIDIA's assembler (CUDA 13.0,
level 2 and above). Short of registers, it takes the result of a call for something that it can have again at any time
from the register in which it was returned, even where that register holds another value by then: in
operational_inertia of a humanoid, in float64, one pivot took the place of another. What is computed from a result is
no such copy; all kernels of the catalogue in float32 have been right with it (docs/performance.md).
"""

from __future__ import annotations

from whippletree.compiler.llvm.ir import MachineLanes, Operand, Writer

_RECIPROCAL, _QUOTIENT = "whippletree_reciprocal", "whippletree_quotient"


class CallingWriter(Writer):
    """Writes divisions as calls."""

    def divide(self, a: Operand, b: Operand) -> Operand:
        kind, bits = self.lanes.number, self.lanes.integer
        one = a == self.constant(1.0)
        call = f"@{_RECIPROCAL}({kind} {b})" if one else f"@{_QUOTIENT}({kind} {a}, {kind} {b})"
        inverted = self.value(f"call {bits} {call}")
        return self.value(f"bitcast {bits} {self.value(f'xor {bits} {inverted}, -1')} to {kind}")


def division_functions(lanes: MachineLanes) -> str:
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
