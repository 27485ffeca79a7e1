"""exp, log, tanh and power in ordinary operations: no branch, no table, no library call, the same bits for every lane
width, optimisation level and device.

*Exponential.* k = rint(x / ln 2), r = x − k ln 2 with ln 2 in two parts, the first so short that k times it is exact;
r is kept in two parts. exp r = 1 + r + r² P(r) with |r| ≤ ln 2 / 2, then times 2ᵏ in two factors, of which the first
product is exact: results below the normal range are rounded once more, and no more.

*Logarithm*, as an unevaluated sum of two numbers. x = 2ᵉ m with √½ ≤ m < √2 and s = (m − 1) / (m + 1), so that

    log m = 2 atanh s = s (2 + z (2/3 + z P(z)))        z = s² ≤ 0.0295

where everything but P is carried in two parts by exact products (fused) and exact sums; e ln 2 is added likewise.

*Power.* exp (y log |x|) with the logarithm in two parts; sign and special values as C's ``pow`` has them.

*Hyperbolic tangent.* t / (t + 2) with t = exp(2|x|) − 1 = 2ᵏ (r + r² P(r)) + (2ᵏ − 1).

Polynomials are minimax for the relative error of the function (Remez exchange in 300-bit arithmetic), coefficients
rounded afterwards. Relative errors before the last roundings:

    double: exp r − 1: 2⁻⁶⁰·⁴, log m: 2⁻⁶⁶·³        float: exp r − 1: 2⁻²⁸·⁷, log m: 2⁻³⁶·⁵

*Measured* against mpmath (tests/compiled/test_exponential.py): exp, log and power below 0.75 ulp (below the normal
range 1), tanh below 2.5 ulp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from whippletree.compiler.llvm.ir import Operand, Real, Writer


@dataclass(frozen=True)
class _ExponentialConstants:
    """The numbers of one precision."""

    mantissa: int  # bits after the leading one
    bias: int
    magic: float  # adding it leaves an integer in the low bits
    magic_bits: int
    over_ln2: float
    ln2: tuple[float, float]
    exponential: tuple[float, ...]  # P of exp
    logarithm: tuple[float, ...]  # P of log
    two_thirds: tuple[float, float]
    lowest: float  # exp of this and below is 0
    highest: float  # exp of this and above is infinite
    flat: float  # tanh of this and above is 1
    root_half_bits: int
    smallest: float  # normal number
    lift: int  # 2^lift brings subnormal numbers into the normal range
    whole: float  # numbers from here on are even


_CONSTANTS: dict[Real, _ExponentialConstants] = {
    "double": _ExponentialConstants(
        mantissa=52,
        bias=1023,
        magic=1.5 * 2.0**52,
        magic_bits=0x4338000000000000,
        over_ln2=float.fromhex("0x1.71547652b82fep+0"),
        ln2=(float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")),
        exponential=(
            0.5,
            float.fromhex("0x1.5555555555559p-3"),
            float.fromhex("0x1.555555555555ap-5"),
            float.fromhex("0x1.111111110f6c6p-7"),
            float.fromhex("0x1.6c16c16c14460p-10"),
            float.fromhex("0x1.a01a01afdc2a6p-13"),
            float.fromhex("0x1.a01a01b0b2551p-16"),
            float.fromhex("0x1.71ddf8698acfbp-19"),
            float.fromhex("0x1.27e4c5aabe4c3p-22"),
            float.fromhex("0x1.af5e999b63a55p-26"),
            float.fromhex("0x1.1f95545d0165bp-29"),
        ),
        logarithm=(
            float.fromhex("0x1.9999999999996p-2"),
            float.fromhex("0x1.2492492493033p-2"),
            float.fromhex("0x1.c71c71c58093cp-3"),
            float.fromhex("0x1.745d18323edffp-3"),
            float.fromhex("0x1.3b1362bb33727p-3"),
            float.fromhex("0x1.1120b4ddeca41p-3"),
            float.fromhex("0x1.de338f75f42fap-4"),
            float.fromhex("0x1.eb1021f1227e5p-4"),
        ),
        two_thirds=(float.fromhex("0x1.5555555555555p-1"), float.fromhex("0x1.5555555555555p-55")),
        lowest=-746.0,
        highest=710.0,
        flat=22.0,
        root_half_bits=0x3FE6A09E667F3BCD,
        smallest=2.0**-1022,
        lift=54,
        whole=2.0**53,
    ),
    "float": _ExponentialConstants(
        mantissa=23,
        bias=127,
        magic=1.5 * 2.0**23,
        magic_bits=0x4B400000,
        over_ln2=float.fromhex("0x1.715476p+0"),
        ln2=(float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cp-20")),
        exponential=(
            0.5,
            float.fromhex("0x1.555556p-3"),
            float.fromhex("0x1.5554aep-5"),
            float.fromhex("0x1.111090p-7"),
            float.fromhex("0x1.6d7430p-10"),
            float.fromhex("0x1.a1a158p-13"),
        ),
        logarithm=(
            float.fromhex("0x1.999a00p-2"),
            float.fromhex("0x1.24529ap-2"),
            float.fromhex("0x1.df9cb2p-3"),
        ),
        two_thirds=(float.fromhex("0x1.555556p-1"), float.fromhex("-0x1.555556p-26")),
        lowest=-104.0,
        highest=89.0,
        flat=10.0,
        root_half_bits=0x3F3504F3,
        smallest=2.0**-126,
        lift=25,
        whole=2.0**24,
    ),
}


class _Pair(NamedTuple):
    """An unevaluated sum: ``low`` is at most half a unit in the last place of ``high``."""

    high: Operand
    low: Operand


def exponential(w: Writer, x: Operand) -> Operand:
    """exp x."""
    return _exponential(w, x, w.constant(0.0))


def logarithm(w: Writer, x: Operand) -> Operand:
    """log x: −∞ at zero, NaN below."""
    pair = _logarithm(w, x)
    found = w.select(_is_finite(w, pair.high), w.binary("fadd", pair.high, pair.low), pair.high)
    return w.select(w.compare("olt", x, w.constant(0.0)), w.constant(float("nan")), found)


def hyperbolic_tangent(w: Writer, x: Operand) -> Operand:
    """tanh x, odd to the bit."""
    c = _CONSTANTS[w.lanes.real]
    size = w.intrinsic("fabs", x)
    size = w.select(w.compare("ogt", size, w.constant(c.flat)), w.constant(c.flat), size)
    r, k = _reduce_argument(w, w.binary("fadd", size, size), w.constant(0.0))
    power = _power_of_two(w, k)
    below_one = w.binary("fadd", r.high, _second_order(w, r))
    t = w.fma(power, below_one, w.binary("fsub", power, w.constant(1.0)))
    return w.copy_sign(w.divide(t, w.binary("fadd", t, w.constant(2.0))), x)


def power(w: Writer, x: Operand, y: Operand) -> Operand:
    """x to the power of y, with the special values of C's ``pow``: 1 at y = 0 and at x = 1, also for NaN."""
    zero, one, nan = (w.constant(value) for value in (0.0, 1.0, float("nan")))
    log = _logarithm(w, w.intrinsic("fabs", x))
    p = w.binary("fmul", y, log.high)
    rest = w.fma(y, log.low, w.fma(y, log.high, w.negate(p)))
    found = _exponential(w, p, rest)
    whole, odd = _whole_and_odd(w, y)
    negative = w.is_negative(x)
    found = w.select(_both(w, negative, odd), w.negate(found), found)
    below = w.compare("olt", x, zero)
    root_of_negative = _both(w, _both(w, below, _is_finite(w, x)), _not(w, whole))
    found = w.select(_both(w, root_of_negative, _is_finite(w, y)), nan, found)
    # the absolute value of −1 is 1, and 1 to the power of ±∞ is 1
    unit = _both(w, w.compare("oeq", w.intrinsic("fabs", x), one), _not(w, _is_finite(w, y)))
    found = w.select(_both(w, unit, w.compare("ord", y, y)), one, found)
    return w.select(_either(w, w.compare("oeq", y, zero), w.compare("oeq", x, one)), one, found)


# --- the exponential --------------------------------------------------------------------------------------------------


def _exponential(w: Writer, x: Operand, rest: Operand) -> Operand:
    """exp(x + rest), for a rest that is small against x; where x is out of range the rest does not count."""
    c = _CONSTANTS[w.lanes.real]
    low, high, one = w.constant(c.lowest), w.constant(c.highest), w.constant(1.0)
    too_low, too_high = w.compare("olt", x, low), w.compare("ogt", x, high)
    x = w.select(too_high, high, w.select(too_low, low, x))
    rest = w.select(_either(w, too_low, too_high), w.constant(0.0), rest)
    r, k = _reduce_argument(w, x, rest)
    first = _ordered_sum(w, one, r.high)
    value = w.binary("fadd", first.high, w.binary("fadd", first.low, _second_order(w, r)))
    half = w.integer("ashr", k, 1)
    value = w.binary("fmul", value, _power_of_two(w, half))
    return w.binary("fmul", value, _power_of_two(w, w.value(f"sub {w.lanes.integer} {k}, {half}")))


def _reduce_argument(w: Writer, x: Operand, rest: Operand) -> tuple[_Pair, Operand]:
    """r in two parts with |r| ≤ ln 2 / 2, and the integer k: x + rest = k ln 2 + r."""
    c = _CONSTANTS[w.lanes.real]
    sum_ = w.fma(x, w.constant(c.over_ln2), w.constant(c.magic))
    k = w.binary("fsub", sum_, w.constant(c.magic))
    r = _ordered_sum(w, w.fma(k, w.constant(-c.ln2[0]), x), w.fma(k, w.constant(-c.ln2[1]), rest))
    return r, w.integer("sub", w.to_bits(sum_), c.magic_bits)


def _second_order(w: Writer, r: _Pair) -> Operand:
    """exp r − 1 less the high part of r: r² P(r) and the low part."""
    return w.fma(w.binary("fmul", r.high, r.high), w.polynomial(r.high, _CONSTANTS[w.lanes.real].exponential), r.low)


def _power_of_two(w: Writer, k: Operand) -> Operand:
    """2ᵏ of an integer in the normal range."""
    c = _CONSTANTS[w.lanes.real]
    return w.from_bits(w.integer("shl", w.integer("add", k, c.bias), c.mantissa))


# --- the logarithm ----------------------------------------------------------------------------------------------------


def _logarithm(w: Writer, x: Operand) -> _Pair:
    """log x of a number that is not negative; the high part alone is infinite or NaN where x is zero, ∞ or NaN."""
    c = _CONSTANTS[w.lanes.real]
    m, e = _mantissa_and_exponent(w, x)
    of_m = _logarithm_of_mantissa(w, m)
    whole = w.binary("fmul", e, w.constant(c.ln2[0]))
    # where e is not 0 the product is larger than log m, so that the sum of the two is exact
    high, low = _ordered_sum(w, whole, of_m.high)
    low = w.binary("fadd", low, w.fma(e, w.constant(c.ln2[1]), of_m.low))
    pair = _Pair(*_ordered_sum(w, high, low))
    special = w.select(w.compare("oeq", x, w.constant(0.0)), w.constant(float("-inf")), x)
    ordinary = _both(w, _is_finite(w, x), w.compare("one", x, w.constant(0.0)))
    return _Pair(w.select(ordinary, pair.high, special), w.select(ordinary, pair.low, w.constant(0.0)))


def _mantissa_and_exponent(w: Writer, x: Operand) -> tuple[Operand, Operand]:
    """m in [√½, √2) and the whole number e, both as numbers: x = 2ᵉ m."""
    c, lanes = _CONSTANTS[w.lanes.real], w.lanes
    faint = w.compare("olt", x, w.constant(c.smallest))
    x = w.select(faint, w.binary("fmul", x, w.constant(2.0**c.lift)), x)
    e = w.integer("ashr", w.integer("sub", w.to_bits(x), c.root_half_bits), c.mantissa)
    shift = w.integer("shl", e, c.mantissa)
    m = w.from_bits(w.value(f"sub {lanes.integer} {w.to_bits(x)}, {shift}"))
    number = w.value(f"sitofp {lanes.integer} {e} to {lanes.number}")
    return m, w.select(faint, w.binary("fsub", number, w.constant(float(c.lift))), number)


def _logarithm_of_mantissa(w: Writer, m: Operand) -> _Pair:
    """s (2 + z (2/3 + z P(z))) in two parts."""
    c = _CONSTANTS[w.lanes.real]
    s = _quotient(w, w.binary("fsub", m, w.constant(1.0)), _sum(w, m, w.constant(1.0)))
    z = _product(w, s, s)
    tail = w.binary("fmul", z.high, w.polynomial(z.high, c.logarithm))
    inner = _plus(w, w.constant(c.two_thirds[0]), _Pair(tail, w.constant(c.two_thirds[1])))
    outer = _plus(w, w.constant(2.0), _product(w, z, inner))
    return _product(w, s, outer)


# --- numbers in two parts ---------------------------------------------------------------------------------------------


def _ordered_sum(w: Writer, a: Operand, b: Operand) -> _Pair:
    """a + b exactly, where |a| ≥ |b| or a is zero."""
    high = w.binary("fadd", a, b)
    return _Pair(high, w.binary("fsub", b, w.binary("fsub", high, a)))


def _sum(w: Writer, a: Operand, b: Operand) -> _Pair:
    """a + b exactly, whichever is larger."""
    high = w.binary("fadd", a, b)
    other = w.binary("fsub", high, a)
    left = w.binary("fsub", a, w.binary("fsub", high, other))
    return _Pair(high, w.binary("fadd", left, w.binary("fsub", b, other)))


def _plus(w: Writer, a: Operand, b: _Pair) -> _Pair:
    """a + b, where |a| ≥ |b|."""
    high, low = _ordered_sum(w, a, b.high)
    return _Pair(high, w.binary("fadd", low, b.low))


def _product(w: Writer, a: _Pair, b: _Pair) -> _Pair:
    """a · b, without the product of the low parts."""
    high = w.binary("fmul", a.high, b.high)
    low = w.fma(a.high, b.high, w.negate(high))
    return _Pair(high, w.fma(a.low, b.high, w.fma(a.high, b.low, low)))


def _quotient(w: Writer, a: Operand, b: _Pair) -> _Pair:
    """a / b, by one division and a correction."""
    high = w.divide(a, b.high)
    rest = w.fma(w.negate(high), b.low, w.fma(w.negate(high), b.high, a))
    return _Pair(high, w.divide(rest, b.high))


# --- conditions -------------------------------------------------------------------------------------------------------


def _whole_and_odd(w: Writer, y: Operand) -> tuple[Operand, Operand]:
    """Whether y is a whole number, and whether it is an odd one; numbers without room for a half are even."""
    lanes, limit = w.lanes, w.constant(_CONSTANTS[w.lanes.real].whole)
    small = w.compare("olt", w.intrinsic("fabs", y), limit)  # not NaN, whose conversion is undefined
    kind = lanes.of("i64")
    integer = w.value(f"fptosi {lanes.number} {w.select(small, y, limit)} to {kind}")
    back = w.value(f"sitofp {kind} {integer} to {lanes.number}")
    whole = _either(w, _not(w, small), w.compare("oeq", back, y))
    one, zero = ("1", "0") if lanes.width == 1 else ("splat (i64 1)", "zeroinitializer")
    last = w.value(f"and {kind} {integer}, {one}")
    return whole, _both(w, w.compare("oeq", back, y), w.value(f"icmp ne {kind} {last}, {zero}"))


def _is_finite(w: Writer, x: Operand) -> Operand:
    return w.compare("olt", w.intrinsic("fabs", x), w.constant(float("inf")))


def _both(w: Writer, a: Operand, b: Operand) -> Operand:
    return w.value(f"and {w.lanes.condition} {a}, {b}")


def _either(w: Writer, a: Operand, b: Operand) -> Operand:
    return w.value(f"or {w.lanes.condition} {a}, {b}")


def _not(w: Writer, a: Operand) -> Operand:
    return w.value(f"xor {w.lanes.condition} {a}, {'true' if w.lanes.width == 1 else 'splat (i1 true)'}")
