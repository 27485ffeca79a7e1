"""Sine and cosine in the emitted code: the same bits for every lane width, optimisation level and device.

    near   |k| < limit   k = rint(2x/π), r = x − k π/2 with π/2 in three parts and fused multiply-adds (Cody, Waite)
    far    all others    r and k from as many digits of 2/π as it takes (Payne, Hanek), in integers, lane by lane

then sin r and cos r from two polynomials, exchanged and negated by the two low bits of k.

*Near.* 1.5·2⁵² (doubles) is added to 2x/π by a fused multiply-add, which leaves k in the low bits of the sum. With
P₁ = π/2 rounded, x − k P₁ is exact: it is a multiple of 2⁻⁵³ below 1. The other two parts bring the bits that cancel.
All parts are cut off, not rounded, so that they are positive and a zero keeps its sign.
All arguments that are known together share one test and one rarely taken branch (:func:`sines_and_cosines`).

*Polynomials.* sin r = r + r z P(z) and cos r = 1 + z Q(z) with z = r², |r| ≤ π/4 and a little: minimax for the
relative error of the *function* (Remez exchange in 200-bit arithmetic), coefficients rounded one after the other,
lowest first, the others fitted again after each rounding; Q begins with −1/2 exactly. Relative errors before rounding:

    double: sin 2⁻⁵⁷·⁹, cos 2⁻⁶³·⁹        float: sin 2⁻²⁷·⁸, cos 2⁻³²·⁸

*Measured* against mpmath (tests/compiled/test_trig.py): below 1.5 ulp, far arguments included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whippletree.compiler.llvm.ir import MachineLanes, Operand, Real, Writer


@dataclass(frozen=True)
class Constants:
    """The numbers of one precision."""

    half_pi: tuple[float, float, float]
    two_over_pi: float
    magic: float  # adding it leaves an integer in the low bits
    magic_bits: int
    limit: int  # |k| below this is near
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


CONSTANTS: dict[Real, Constants] = {
    "double": Constants(
        half_pi=(
            float.fromhex("0x1.921fb54442d18p+0"),
            float.fromhex("0x1.1a62633145c06p-54"),
            float.fromhex("0x1.c1cd129024e08p-107"),
        ),
        two_over_pi=float.fromhex("0x1.45f306dc9c883p-1"),
        magic=1.5 * 2.0**52,
        magic_bits=0x4338000000000000,
        limit=2**29,
        sine=(
            float.fromhex("-0x1.5555555555548p-3"),
            float.fromhex("0x1.111111110f730p-7"),
            float.fromhex("-0x1.a01a019be9217p-13"),
            float.fromhex("0x1.71de35552b540p-19"),
            float.fromhex("-0x1.ae5e4b83e641dp-26"),
            float.fromhex("0x1.5d8b55951b3fcp-33"),
        ),
        cosine=(
            -0.5,
            float.fromhex("0x1.555555555554bp-5"),
            float.fromhex("-0x1.6c16c16c15013p-10"),
            float.fromhex("0x1.a01a019c8ed07p-16"),
            float.fromhex("-0x1.27e4f7f1410dbp-22"),
            float.fromhex("0x1.1ee9db8e2ef9dp-29"),
            float.fromhex("-0x1.8fa65e9125849p-37"),
        ),
    ),
    "float": Constants(
        half_pi=(
            float.fromhex("0x1.921fb4p+0"),
            float.fromhex("0x1.4442dp-24"),
            float.fromhex("0x1.846988p-48"),
        ),
        two_over_pi=float.fromhex("0x1.45f306p-1"),
        magic=1.5 * 2.0**23,
        magic_bits=0x4B400000,
        limit=2**16,
        sine=(
            float.fromhex("-0x1.555544p-3"),
            float.fromhex("0x1.1106c6p-7"),
            float.fromhex("-0x1.991c26p-13"),
        ),
        cosine=(
            -0.5,
            float.fromhex("0x1.55554ap-5"),
            float.fromhex("-0x1.6c0c1cp-10"),
            float.fromhex("0x1.99e24p-16"),
        ),
    ),
}

FAR_ARGUMENTS = "whippletree_far_arguments"
"""Name of the function that reduces the far arguments of one lane vector."""


def sines_and_cosines(writer: Writer, arguments: Sequence[Operand]) -> list[tuple[Operand, Operand]]:
    """(sin x, cos x) of several arguments, behind one common test for far arguments."""
    reduced = [_reduce_near(writer, x) for x in arguments]
    reduced = _replace_far(writer, arguments, reduced)
    return [_sine_and_cosine(writer, r, k) for r, k in reduced]


def _reduce_near(w: Writer, x: Operand) -> tuple[Operand, Operand]:
    """(r, bits of k + magic) of a near argument; nonsense, but harmless, for a far one."""
    c = CONSTANTS[w.lanes.real]
    sum_ = w.fma(x, w.constant(c.two_over_pi), w.constant(c.magic))
    k = w.binary("fsub", sum_, w.constant(c.magic))
    r = x
    for part in c.half_pi:
        r = w.fma(k, w.constant(-part), r)
    return r, w.to_bits(sum_)


def _replace_far(
    w: Writer, arguments: Sequence[Operand], near: list[tuple[Operand, Operand]]
) -> list[tuple[Operand, Operand]]:
    """Branch, rarely, to the slow reduction of every argument; (r, k) of both paths meet again."""
    lanes, c = w.lanes, CONSTANTS[w.lanes.real]
    # k + limit as an unsigned number is below 2·limit exactly for near arguments; a bitwise or keeps what is too large
    union: Operand | None = None
    for _, k in near:
        shifted = w.integer("sub", k, c.magic_bits - c.limit)
        union = shifted if union is None else w.integer("or", union, shifted)
    far = w.any(w.value(f"icmp ugt {lanes.integer} {union}, {lanes.integer_constant(2 * c.limit - 1)}"))
    before, slow, join = w.block, w.label("far"), w.label("near")
    w.emit(f"br i1 {far}, label %{slow}, label %{join}, !prof !0")
    w.start(slow)
    kinds = (lanes.number, lanes.number, lanes.integer)
    space = [w.stack(kind, lanes.bytes * lanes.width) for kind in kinds]
    corrected = [_call_far(w, space, x, r, k) for x, (r, k) in zip(arguments, near, strict=True)]
    w.emit(f"br label %{join}")
    w.start(join)
    merged = []
    for (r0, k0), (r1, k1) in zip(near, corrected, strict=True):
        r = w.value(f"phi {lanes.number} [ {r0}, %{before} ], [ {r1}, %{slow} ]")
        k = w.value(f"phi {lanes.integer} [ {k0}, %{before} ], [ {k1}, %{slow} ]")
        merged.append((r, k))
    return merged


def _call_far(w: Writer, space: Sequence[Operand], x: Operand, r: Operand, k: Operand) -> tuple[Operand, Operand]:
    """Hand one lane vector to the function that works lane by lane through memory."""
    number, integer = w.lanes.number, w.lanes.integer
    for kind, operand, place in zip((number, number, integer), (x, r, k), space, strict=True):
        w.emit(f"store {kind} {operand}, ptr {place}")
    w.emit(f"call void @{FAR_ARGUMENTS}(ptr {space[0]}, ptr {space[1]}, ptr {space[2]})")
    return w.value(f"load {number}, ptr {space[1]}"), w.value(f"load {integer}, ptr {space[2]}")


def _sine_and_cosine(w: Writer, r: Operand, k: Operand) -> tuple[Operand, Operand]:
    """The polynomials, exchanged and negated by the quadrant: its two bits are the low bits of k."""
    lanes, c = w.lanes, CONSTANTS[w.lanes.real]
    z = w.binary("fmul", r, r)
    sine = _with_sign_of(w, w.fma(w.binary("fmul", r, z), w.polynomial(z, c.sine), r), r)
    cosine = w.fma(z, w.polynomial(z, c.cosine), w.constant(1.0))
    odd = w.value(f"icmp ne {lanes.integer} {w.integer('and', k, 1)}, {_zero(lanes)}")
    return (
        _flip_sign(w, w.select(odd, cosine, sine), k),
        _flip_sign(w, w.select(odd, sine, cosine), w.integer("add", k, 1)),
    )


def _with_sign_of(w: Writer, sine: Operand, r: Operand) -> Operand:
    """The sine has the sign of r already, unless both are zero: sin −0 = −0."""
    sign = w.integer("and", w.to_bits(r), 1 << (8 * w.lanes.bytes - 1))
    return w.from_bits(w.integer("or", w.to_bits(sine), sign))


def _flip_sign(w: Writer, x: Operand, quadrant: Operand) -> Operand:
    """−x in the quadrants 2 and 3."""
    top = 8 * w.lanes.bytes - 1
    sign = w.integer("and", w.integer("shl", quadrant, top - 1), 1 << top)
    return w.from_bits(w.integer("xor", w.to_bits(x), sign))


def _zero(lanes: MachineLanes) -> Operand:
    return "0" if lanes.width == 1 else "zeroinitializer"
