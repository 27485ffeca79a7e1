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

*Far.* For x = ± m 2ᵉ with a 53-bit integer m, only x·2/π modulo 4 matters, so the digits of 2/π that would contribute a
multiple of 4 are skipped. The next 192 digits F, taken at bit e of the table, give m F modulo 2¹⁹²: two bits of
quadrant and 190 bits of fraction. No double comes closer than 2⁻⁶² to a multiple of π/2 in these units, so at least 64
good bits remain.

The function that does so is scalar, never inlined, and calls nothing: each lane of each width on each device takes the
same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template

from whippletree.compiler.llvm.ir import MachineLanes, Operand, Real, Writer, real_text


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


def far_arguments(lanes: MachineLanes) -> str:
    """Name of the function that reduces the far arguments of one lane vector."""
    return "whippletree_far_arguments" + (f"_{lanes.width}" if lanes.width > 1 else "")


def sines_and_cosines(writer: Writer, arguments: Sequence[Operand], beside: int = 1) -> list[tuple[Operand, Operand]]:
    """(sin x, cos x) of several arguments, behind one common test for far arguments.

    ``beside``: so many of them may be lanes of a vector, where a number has one lane: a humanoid's 17 then take a
    quarter of the instructions.
    """
    if min(beside, len(arguments)) > 1:
        return _side_by_side(writer, arguments, beside)
    reduced = [_reduce_near(writer, x) for x in arguments]
    reduced = _replace_far(writer, arguments, reduced)
    return [_sine_and_cosine(writer, r, k) for r, k in reduced]


def _side_by_side(w: Writer, arguments: Sequence[Operand], most: int) -> list[tuple[Operand, Operand]]:
    """Arguments as lanes of vectors of one size; lanes to spare repeat the last one."""
    one = w.lanes
    width = min(most, 1 << (len(arguments) - 1).bit_length())
    w.lanes = MachineLanes(width, one.real)
    vectors = []
    for first in range(0, len(arguments), width):
        own = arguments[first : first + width]
        vector = "poison"
        for lane in range(width):
            x = own[min(lane, len(own) - 1)]
            vector = w.value(f"insertelement {w.lanes.number} {vector}, {one.real} {x}, i32 {lane}")
        vectors.append(vector)
    found = sines_and_cosines(w, vectors)

    def lane_of(vector: Operand, lane: int) -> Operand:
        return w.value(f"extractelement {w.lanes.number} {vector}, i32 {lane}")

    results = []
    for number in range(len(arguments)):
        sine, cosine = found[number // width]
        results.append((lane_of(sine, number % width), lane_of(cosine, number % width)))
    w.lanes = one
    return results


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
    w.call(far_arguments(w.lanes), f"ptr {space[0]}, ptr {space[1]}, ptr {space[2]}")
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


# --- far arguments, by one function of LLVM IR (Payne and Hanek, in integers) -----------------------------------------


# 2/π = 0.A2F9836E… in base 2⁶⁴ (mpmath: floor(2/π · 2¹²⁸⁰)), behind one word of zeros for the smallest exponents
_DIGITS = """
0000000000000000 a2f9836e4e441529 fc2757d1f534ddc0 db6295993c439041 fe5163abdebbc561 b7246e3a424dd2e0 06492eea09d1921c
fe1deb1cb129a73e e88235f52ebb4484 e99c7026b45f7e41 3991d639835339f4 9c845f8bbdf9283b 1ff897ffde05980f ef2f118b5a0a6d1f
6d367ecf27cb09b7 4f463f669e5fea2d 7527bac7ebe5f17b 3d0739f78a5292ea 6bfb5fb11f8d5d08 56033046fc7b6bab f0cfbc209af4361d
"""


def far_arguments_function(lanes: MachineLanes) -> str:
    """The text of the function: (x, r, k) point to one lane vector each; r and k are replaced in the far lanes."""
    c, double = CONSTANTS[lanes.real], CONSTANTS["double"]
    words = _DIGITS.split()
    wide = lanes.real == "double"
    return _FUNCTION.substitute(
        name=far_arguments(lanes),
        real=lanes.real,
        bits=lanes.bits,
        width=lanes.width,
        size=len(words),
        digits=", ".join(f"i64 u0x{word.upper()}" for word in words),
        lowest=c.magic_bits - c.limit,
        span=2 * c.limit - 1,
        widen="bitcast double %argument to double" if wide else "fpext float %argument to double",
        narrow="bitcast double %signed to double" if wide else "fptrunc double %signed to float",
        shorten="add i64 %turns, 0" if wide else "trunc i64 %turns to i32",
        first=real_text(double.half_pi[0], "double"),
        second=real_text(double.half_pi[1], "double"),
        unit=real_text(2.0**-64, "double"),
        unit2=real_text(2.0**-128, "double"),
    )


_FUNCTION = Template("""
@${name}.digits = private unnamed_addr constant [$size x i64] [$digits]

define internal void @$name(ptr %x, ptr %r, ptr %k) noinline cold nounwind {
entry:
  br label %lane
lane:
  %number = phi i64 [ 0, %entry ], [ %next, %done ]
  %xp = getelementptr $real, ptr %x, i64 %number
  %rp = getelementptr $real, ptr %r, i64 %number
  %kp = getelementptr $bits, ptr %k, i64 %number
  %old = load $bits, ptr %kp
  %above = sub $bits %old, $lowest
  %far = icmp ugt $bits %above, $span
  br i1 %far, label %check, label %done
check:
  %argument = load $real, ptr %xp
  %wide = $widen
  %pattern = bitcast double %wide to i64
  %shifted = lshr i64 %pattern, 52
  %exponent = and i64 %shifted, 2047
  %finite = icmp ult i64 %exponent, 2047
  br i1 %finite, label %reduce, label %invalid
invalid:
  %nan = fsub $real %argument, %argument
  store $real %nan, ptr %rp
  store $bits 0, ptr %kp
  br label %done
reduce:
  ; m, and where in the digits of 2/pi to begin
  %fraction = and i64 %pattern, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %position = sub i64 %exponent, 1013
  %word = lshr i64 %position, 6
  %shift = and i64 %position, 63
  %back = sub i64 63, %shift
  %p0 = getelementptr i64, ptr @${name}.digits, i64 %word
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %d0 = load i64, ptr %p0
  %d1 = load i64, ptr %p1
  %d2 = load i64, ptr %p2
  %d3 = load i64, ptr %p3
  ; 192 digits from there on: F = (f0, f1, f2)
  %h0 = shl i64 %d0, %shift
  %h1 = shl i64 %d1, %shift
  %h2 = shl i64 %d2, %shift
  %s1 = lshr i64 %d1, 1
  %s2 = lshr i64 %d2, 1
  %s3 = lshr i64 %d3, 1
  %l0 = lshr i64 %s1, %back
  %l1 = lshr i64 %s2, %back
  %l2 = lshr i64 %s3, %back
  %f0 = or i64 %h0, %l0
  %f1 = or i64 %h1, %l1
  %f2 = or i64 %h2, %l2
  ; m F modulo 2^192 = (high, middle, low)
  %mw = zext i64 %m to i128
  %f1w = zext i64 %f1 to i128
  %f2w = zext i64 %f2 to i128
  %m0 = mul i64 %m, %f0
  %m1 = mul i128 %mw, %f1w
  %m2 = mul i128 %mw, %f2w
  %low = trunc i128 %m2 to i64
  %carry = lshr i128 %m2, 64
  %sum = add i128 %m1, %carry
  %middle = trunc i128 %sum to i64
  %sumh = lshr i128 %sum, 64
  %high0 = trunc i128 %sumh to i64
  %high = add i64 %high0, %m0
  ; the quadrant above the point, 128 bits of signed fraction below it
  %quadrant0 = lshr i64 %high, 62
  %a0 = shl i64 %high, 2
  %a1 = lshr i64 %middle, 62
  %a = or i64 %a0, %a1
  %b0 = shl i64 %middle, 2
  %b1 = lshr i64 %low, 62
  %b = or i64 %b0, %b1
  %up = lshr i64 %a, 63
  %quadrant = add i64 %quadrant0, %up
  %aw = zext i64 %a to i128
  %bw = zext i64 %b to i128
  %as = shl i128 %aw, 64
  %signedfraction = or i128 %as, %bw
  %negated = sub i128 0, %signedfraction
  %minus = icmp slt i64 %a, 0
  %magnitude = select i1 %minus, i128 %negated, i128 %signedfraction
  %ch = lshr i128 %magnitude, 64
  %c = trunc i128 %ch to i64
  %d = trunc i128 %magnitude to i64
  ; to two doubles without loss, times pi/2
  %ctop = and i64 %c, -2048
  %crest = and i64 %c, 2047
  %ctopf = uitofp i64 %ctop to double
  %crestf = uitofp i64 %crest to double
  %df = uitofp i64 %d to double
  %first = fmul double %ctopf, $unit
  %rest0 = fmul double %crestf, $unit
  %rest = call double @llvm.fma.f64(double %df, double $unit2, double %rest0)
  %whole = fadd double %first, %rest
  %kept = fsub double %whole, %first
  %lost = fsub double %rest, %kept
  %t0 = fmul double %lost, $first
  %t1 = call double @llvm.fma.f64(double %whole, double $second, double %t0)
  %angle = call double @llvm.fma.f64(double %whole, double $first, double %t1)
  ; the sign of x turns both around
  %negative = icmp slt i64 %pattern, 0
  %flip = xor i1 %minus, %negative
  %opposite = fneg double %angle
  %signed = select i1 %flip, double %opposite, double %angle
  %reverse = sub i64 0, %quadrant
  %turns = select i1 %negative, i64 %reverse, i64 %quadrant
  %result = $narrow
  %count = $shorten
  store $real %result, ptr %rp
  store $bits %count, ptr %kp
  br label %done
done:
  %next = add i64 %number, 1
  %more = icmp ult i64 %next, $width
  br i1 %more, label %lane, label %end
end:
  ret void
}
""")
