"""Elementary functions stay on the scalar type they are given, refuse what they cannot do, and differentiate."""

import cmath
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whippletree.arithmetic import scalars
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.arithmetic.trace import Trace, Traced
from whippletree.errors import ScalarError

angles = st.floats(-30, 30)
lengths = st.floats(0.01, 100)


# --- types ------------------------------------------------------------------------------------------------------------

SAMPLES = [
    (0.3, float),
    (1, float),
    (np.float64(0.3), float),
    (np.float32(0.3), float),
    (np.int64(2), float),
    (0.3 + 0.1j, complex),
    (np.complex128(0.3 + 0.1j), complex),
    (mpmath.mpf("0.3"), mpmath.mpf),
    (mpmath.mpc("0.3", "0.1"), mpmath.mpc),
    (Dual(0.3, 1), Dual),
    (Trace().input(), Traced),
]


@pytest.mark.parametrize(("x", "kind"), SAMPLES, ids=lambda value: getattr(value, "__name__", type(value).__name__))
def test_a_function_keeps_the_scalar_type(x, kind):
    for function in (scalars.sin, scalars.cos, scalars.sqrt):
        assert isinstance(function(x), kind)
    assert type(scalars.select(True, x, 2)) is type(x)


@pytest.mark.slow
def test_symbols_stay_symbols():
    sympy = pytest.importorskip("sympy")
    x, y = sympy.symbols("x y")
    assert scalars.sin(x) == sympy.sin(x)
    assert scalars.atan2(y, x) == sympy.atan2(y, x)
    chosen = scalars.select(scalars.less(x, 0), -x, x)
    assert [chosen.subs(x, value) for value in (-2, 3)] == [2, 3]


def test_casadi_symbols_stay_symbols():
    casadi = pytest.importorskip("casadi")
    x = casadi.SX.sym("x")
    f = casadi.Function("f", [x], [scalars.select(scalars.less(x, 0), -scalars.sin(x), scalars.sqrt(x))])
    assert float(f(-1)) == pytest.approx(math.sin(1))
    assert float(f(4)) == 2


def test_mpmath_keeps_its_digits():
    with mpmath.workdps(50):
        x = mpmath.mpf(1) / 3
        assert abs(scalars.sin(x) ** 2 + scalars.cos(x) ** 2 - 1) < mpmath.mpf(10) ** -48
        assert abs(scalars.sqrt(x) ** 2 - x) < mpmath.mpf(10) ** -48
        assert scalars.atan2(x, 2) == mpmath.atan(x / 2)


@pytest.mark.parametrize("x", ["0.3", None, [0.3], object()], ids=lambda x: type(x).__name__)
def test_an_unknown_type_is_refused(x):
    with pytest.raises(ScalarError, match="are not known here"):
        scalars.sin(x)


@pytest.mark.parametrize("function", [scalars.sin, scalars.cos, lambda x: scalars.atan2(x, x)])
def test_fractions_have_no_sine(function):
    with pytest.raises(ScalarError, match="of a Fraction is not a Fraction"):
        function(Fraction(1, 3))


@pytest.mark.slow
@given(st.fractions(0, 100))
def test_the_root_of_a_fraction_is_exact_or_refused(x):
    assert scalars.sqrt(x * x) == x
    with pytest.raises(ScalarError, match="is not a Fraction"):
        scalars.sqrt(2 * x * x + 2 * (x == 0))


def test_a_negative_fraction_has_no_root():
    with pytest.raises(ScalarError):
        scalars.sqrt(Fraction(-1))


def test_a_registered_type_is_known():
    class Angle(float):
        pass

    class Opaque:
        pass

    assert scalars.sin(Angle(0.5)) == math.sin(0.5)  # by its base class
    with pytest.raises(ScalarError):
        scalars.sin(Opaque())
    scalars.register(Opaque, scalars.functions_of(1.0)._replace(sin=lambda x: "sine", rank=1))
    assert scalars.sin(Opaque()) == "sine"


# --- values -----------------------------------------------------------------------------------------------------------


def test_floats_fail_quietly_where_lanes_would():
    assert math.isnan(scalars.sqrt(-1.0))
    assert math.isnan(scalars.sin(math.inf))
    assert math.isnan(scalars.cos(math.nan))


@given(st.fractions(-50, 50, max_denominator=50))
def test_half_angles_give_rational_rotations(t):
    sine, cosine = scalars.half_angle(t)
    assert isinstance(sine, Fraction)
    assert sine * sine + cosine * cosine == 1
    assert math.isclose(math.atan2(sine, cosine), 2 * math.atan(t), abs_tol=1e-12)


def test_select_takes_one_side_whatever_the_other_is():
    assert scalars.select(scalars.less(1, 2), 3.0, math.nan) == 3.0
    assert scalars.select(scalars.less(2, 1), math.nan, Fraction(4)) == 4
    assert scalars.less(1 + 5j, 2 - 5j)
    assert not scalars.less(mpmath.mpf(2), 1)


@pytest.mark.parametrize("other", [mpmath.mpf(2), Fraction(2), 2 + 0j, Dual(2.0, 1), Trace().input()])
def test_plain_numbers_yield_to_every_other_type(other):
    richer = scalars.functions_of(other)
    assert scalars.functions_of(1.0, other) is scalars.functions_of(other, 1) is richer
    assert richer is not scalars.functions_of(1.0)


def test_duals_of_traces_win_over_traces():
    x = Trace().input()
    assert (
        scalars.functions_of(x, Dual(1.0, 0)) is scalars.functions_of(Dual(x, 1), x) is scalars.functions_of(Dual(1, 0))
    )


# --- derivatives ------------------------------------------------------------------------------------------------------


def journey(x, y):
    """A bit of everything, smooth for y > 0 away from x = y."""
    s = scalars.sqrt(y + x * x)
    angle = scalars.atan2(scalars.sin(x) * y, 2 + scalars.cos(y))
    inner = scalars.select(scalars.less(x, y), s / (1 + y), (3 - s) * angle)
    return -(inner - x / 3) * (1 + angle) + 2 / (1 + s * s) - (+y)


def mp_slope(x, y, dx, dy):
    with mpmath.workdps(40):
        x, y, dx, dy = map(mpmath.mpf, (x, y, dx, dy))
        return mpmath.diff(lambda t: journey(x + t * dx, y + t * dy), 0)


@given(angles, lengths, st.floats(-2, 2), st.floats(-2, 2))
def test_duals_carry_the_derivative(x, y, dx, dy):
    assume(abs(x - y) > 1e-3)
    found = journey(Dual(x, dx), Dual(y, dy))
    assert found.value == journey(x, y)
    assert float(found.slope) == pytest.approx(float(mp_slope(x, y, dx, dy)), rel=1e-8, abs=1e-8)


@given(angles, lengths)
def test_the_complex_step_is_the_same_derivative(x, y):
    h = 1e-30
    dual = journey(Dual(x, 1.0), y).slope
    assert journey(complex(x, h), y).imag / h == pytest.approx(dual, rel=1e-10, abs=1e-10)


def test_duals_nest():
    """d²/dx² of sin(x²) = 2 cos x² − 4 x² sin x²."""
    x = 0.7
    second = scalars.sin(Dual(Dual(x, 1), 1) * Dual(Dual(x, 1), 1)).slope.slope
    assert second == pytest.approx(2 * math.cos(x * x) - 4 * x * x * math.sin(x * x), rel=1e-14)


def test_duals_work_in_arrays():
    A = np.array([[1.0, 2.0], [3.0, 4.0]])
    y = A @ np.array([Dual(1.0, 1.0), Dual(2.0, 0.0)], dtype=object)
    assert [(d.value, d.slope) for d in y] == [(5.0, 1.0), (11.0, 3.0)]
    left = Dual(2, 1) * np.array([1, 2])
    assert [(d.value, d.slope) for d in left] == [(2, 1), (4, 2)]
    for combine in (np.add, np.subtract, np.divide):
        assert len(combine(np.array([Dual(2, 1), Dual(3, 1)]), np.array([1, 2]))) == 2


def test_duals_of_fractions_are_exact():
    x = Dual(Fraction(1, 3), Fraction(1))
    y = (1 - x) / (1 + x * x)
    assert (y.value, y.slope) == (Fraction(3, 5), Fraction(-63, 50))
    assert scalars.sqrt(Dual(Fraction(4, 9), Fraction(1))).slope == Fraction(3, 4)


def test_complex_functions_are_the_analytic_ones():
    z = 0.3 + 0.4j
    assert scalars.sin(z) == cmath.sin(z)
    assert scalars.sqrt(z) == cmath.sqrt(z)
