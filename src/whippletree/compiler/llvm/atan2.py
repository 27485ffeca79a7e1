"""The angle of a point, atan2(y, x), in ordinary operations: no branch, no table, the same bits everywhere.

With the smaller and the larger of |x| and |y| the angle within its octant is atan(small / large), and if that ratio is
above tan(π/8), π/4 + atan((small − large) / (small + large)). One division gives a t with |t| ≤ tan(π/8). Then atan t
= t + t z P(z), z = t²: minimax for the relative error, fitted as in :mod:`~whippletree.compiler.llvm.sine`,
relative error 2⁻⁵⁹·⁴ for doubles and 2⁻³⁰·⁴ for floats. Reflections add a multiple of π/4, given in two parts. Signed
zeros and infinities follow C's atan2.
"""

from __future__ import annotations

from dataclasses import dataclass

from whippletree.compiler.llvm.ir import Operand, Real, Writer

_TAN_EIGHTH = float.fromhex("0x1.a827999fcef32p-2")


@dataclass(frozen=True)
class _Constants:
    polynomial: tuple[float, ...]
    eighths: tuple[tuple[float, float], ...]  # k π/4 in two parts, k = 0 … 4
    large: float  # above this, numbers are scaled down so that sums stay finite
    small: float  # below this, they are scaled up out of the denormal range
    scale: float
    largest: float


_CONSTANTS: dict[Real, _Constants] = {
    "double": _Constants(
        polynomial=(
            float.fromhex("-0x1.555555555553dp-2"),
            float.fromhex("0x1.9999999995869p-3"),
            float.fromhex("-0x1.24924922ad513p-3"),
            float.fromhex("0x1.c71c70e608460p-4"),
            float.fromhex("-0x1.745cf8db96f25p-4"),
            float.fromhex("0x1.3b11190f26cc8p-4"),
            float.fromhex("-0x1.10ebb7d2e2b45p-4"),
            float.fromhex("0x1.df0f46f822177p-5"),
            float.fromhex("-0x1.9cd2b52bbc704p-5"),
            float.fromhex("0x1.37d5adece7882p-5"),
            float.fromhex("-0x1.256aabdab9a0ap-6"),
        ),
        eighths=(
            (0.0, 0.0),
            (float.fromhex("0x1.921fb54442d18p-1"), float.fromhex("0x1.1a62633145c07p-55")),
            (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54")),
            (float.fromhex("0x1.2d97c7f3321d2p+1"), float.fromhex("0x1.a79394c9e8a0ap-54")),
            (float.fromhex("0x1.921fb54442d18p+1"), float.fromhex("0x1.1a62633145c07p-53")),
        ),
        large=2.0**1000,
        small=2.0**-900,
        scale=2.0**600,
        largest=float.fromhex("0x1.fffffffffffffp+1023"),
    ),
    "float": _Constants(
        polynomial=(
            float.fromhex("-0x1.55554ap-2"),
            float.fromhex("0x1.9991e2p-3"),
            float.fromhex("-0x1.23b9a2p-3"),
            float.fromhex("0x1.b22456p-4"),
            float.fromhex("-0x1.f2e5a8p-5"),
        ),
        eighths=(
            (0.0, 0.0),
            (float.fromhex("0x1.921fb6p-1"), float.fromhex("-0x1.777a5cp-26")),
            (float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cp-25")),
            (float.fromhex("0x1.2d97c8p+1"), float.fromhex("-0x1.99bc5cp-28")),
            (float.fromhex("0x1.921fb6p+1"), float.fromhex("-0x1.777a5cp-24")),
        ),
        large=2.0**120,
        small=2.0**-100,
        scale=2.0**60,
        largest=float.fromhex("0x1.fffffep+127"),
    ),
}


def angle_of_point(w: Writer, y: Operand, x: Operand) -> Operand:
    """atan2(y, x)."""
    a, b = w.intrinsic("fabs", y), w.intrinsic("fabs", x)
    steep = w.compare("olt", b, a)
    small, large = _well_scaled(w, w.select(steep, b, a), w.select(steep, a, b))
    middle = w.compare("ogt", small, w.binary("fmul", large, w.constant(_TAN_EIGHTH)))
    t = w.binary(
        "fdiv",
        w.select(middle, w.binary("fsub", small, large), small),
        w.select(middle, w.binary("fadd", small, large), large),
    )
    z = w.binary("fmul", t, t)
    within = w.fma(w.binary("fmul", t, z), w.polynomial(z, _CONSTANTS[w.lanes.real].polynomial), t)
    left = w.is_negative(x)
    turned = w.value(f"xor {w.lanes.condition} {steep}, {left}")
    within = w.select(turned, w.negate(within), within)
    high, low = (_eighths(w, part, middle, steep, left) for part in (0, 1))
    angle = w.binary("fadd", high, w.binary("fadd", low, within))
    return w.copy_sign(angle, y)


def _well_scaled(w: Writer, small: Operand, large: Operand) -> tuple[Operand, Operand]:
    """Both times a power of two: their sum is finite, no denormal loses bits; (∞, ∞) → (1, 1), (0, 0) → (0, 1)."""
    c = _CONSTANTS[w.lanes.real]
    huge = w.compare("ogt", large, w.constant(c.large))
    tiny = w.compare("olt", large, w.constant(c.small))
    factor = w.select(tiny, w.constant(c.scale), w.constant(1.0))
    factor = w.select(huge, w.constant(1 / c.scale), factor)
    infinite = w.value(
        f"and {w.lanes.condition} {w.compare('ogt', small, w.constant(c.largest))}, "
        f"{w.compare('ogt', large, w.constant(c.largest))}"
    )
    zero = w.compare("oeq", large, w.constant(0.0))
    one = w.constant(1.0)
    small = w.select(infinite, one, w.binary("fmul", small, factor))
    large = w.select(infinite, one, w.binary("fmul", large, factor))
    return small, w.select(zero, one, large)


def _eighths(w: Writer, part: int, middle: Operand, steep: Operand, left: Operand) -> Operand:
    """The multiple of π/4 that the reflections add."""
    zero, one, two, three, four = (w.constant(e[part]) for e in _CONSTANTS[w.lanes.real].eighths)
    outer = w.select(steep, two, w.select(left, four, zero))
    return w.select(middle, w.select(left, three, one), outer)
