"""Sine, cosine and atan2 of compiled code against mpmath: accuracy, special values, the same bits at every width."""

import math

import mpmath
import numpy as np
import pytest

from elementary import BITS, DTYPES, compiled, errors_in_ulps
from whippletree.arithmetic import scalars

ULPS = 1.5
"""Promised are 2; this is what the polynomials give."""


@pytest.fixture(scope="module", params=DTYPES, ids=lambda d: d.__name__)
def dtype(request):
    return request.param


@pytest.fixture(scope="module")
def sine_and_cosine(dtype):
    return compiled(lambda x: (scalars.sin(x), scalars.cos(x)), 1, dtype)


def check_sines(f, x, dtype, ulps=ULPS):
    x = np.asarray(x, dtype=dtype)
    found = f(x[:, None])
    with mpmath.workprec(1300):
        for column, function in enumerate((mpmath.sin, mpmath.cos)):
            exact = [function(mpmath.mpf(float(v))) for v in x]
            errors = errors_in_ulps(found[:, column], exact, dtype)
            worst = errors.argmax()
            assert errors[worst] < ulps, f"{function.__name__}({x[worst]!r}) is wrong by {errors[worst]:.2f} ulp"


def extended(x):
    """Double-double sine and cosine would do; NumPy's long double has 11 bits more than double: enough for a filter."""
    return np.sin(x.astype(np.longdouble)), np.cos(x.astype(np.longdouble))


@pytest.mark.slow
def test_a_hundred_thousand_ordinary_arguments(dtype, sine_and_cosine):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1e5, 1e5, 70_000), rng.uniform(-8, 8, 30_000)]).astype(dtype)
    found = sine_and_cosine(x[:, None])
    # long double tells where the error could be largest; only these go to mpmath
    suspects: set[int] = set()
    for column, exact in enumerate(extended(x)):
        errors = np.abs(found[:, column] - exact) / np.spacing(np.abs(exact).astype(dtype))
        suspects.update(np.argsort(errors)[-100:].tolist())
    check_sines(sine_and_cosine, x[sorted(suspects)], dtype)
    check_sines(sine_and_cosine, x[:2000], dtype)


def test_near_multiples_of_a_quarter_turn(dtype, sine_and_cosine):
    with mpmath.workprec(200):
        multiples = [float(k * mpmath.pi / 2) for k in [*range(-200, 200), *range(63000, 63662), 2**20, 2**28 - 1]]
    x = np.array(multiples, dtype=dtype)
    check_sines(sine_and_cosine, np.concatenate([x, np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(0))]), dtype)


def test_halfway_between_them(dtype, sine_and_cosine):
    """Where rint decides for one side or the other."""
    x = np.array([(k + 0.5) * math.pi / 2 for k in range(-300, 300)], dtype=dtype)
    check_sines(sine_and_cosine, np.concatenate([x, np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(0))]), dtype)


def test_far_arguments(dtype, sine_and_cosine):
    rng = np.random.default_rng(1)
    largest = np.log10(np.finfo(dtype).max)
    x = 10.0 ** rng.uniform(4.5, largest, 2000) * rng.choice([-1, 1], 2000)
    powers = 2.0 ** np.arange(10, np.finfo(dtype).maxexp)
    edge = {np.float64: 2.0**29, np.float32: 2.0**16}[dtype] * math.pi / 2 * (1 + np.linspace(-1e-5, 1e-5, 40))
    check_sines(sine_and_cosine, np.concatenate([x, powers, -powers, [np.finfo(dtype).max], edge]), dtype)


@pytest.mark.parametrize(
    "x",
    [
        # the doubles nearest to a multiple of π/2 (Muller, Elementary Functions, ch. 11) and other known hard cases
        6381956970095103 * 2.0**797,
        5319372648326541 * 2.0**0,
        6411027962775774 * 2.0**-48,
        8.39071529076452222947082170022504835457755803801719612447629165523e15,
        1.2828648012642e16,
        1e22,
        2.0**1023,
    ],
)
def test_the_hardest_doubles(x):
    check_sines(compiled(lambda x: (scalars.sin(x), scalars.cos(x)), 1, np.float64), [x, -x], np.float64)


def test_small_and_special_arguments(dtype, sine_and_cosine):
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, -0.0, tiny, -tiny, 1e-20, -1e-20, np.finfo(dtype).smallest_normal], dtype=dtype)
    found = sine_and_cosine(x[:, None])
    np.testing.assert_array_equal(found[:, 0], x)
    np.testing.assert_array_equal(np.signbit(found[:, 0]), np.signbit(x))
    np.testing.assert_array_equal(found[:, 1], 1)
    bad = np.array([np.inf, -np.inf, np.nan], dtype=dtype)
    assert np.isnan(sine_and_cosine(bad[:, None])).all()
    # a far or bad lane does not disturb its neighbours
    mixed = np.array([0.5, np.inf, 1e30, 0.5, np.nan, 0.5], dtype=dtype)
    alone = sine_and_cosine(np.array([0.5], dtype=dtype))
    for lane in (0, 3, 5):
        np.testing.assert_array_equal(sine_and_cosine(mixed[:, None])[lane], alone)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("level", [0, 3])
def test_every_width_gives_the_same_bits(dtype, sine_and_cosine, width, level):
    rng = np.random.default_rng(2)
    largest = 300 if dtype is np.float64 else 37
    x = np.concatenate([rng.uniform(-1e5, 1e5, 501), 10.0 ** rng.uniform(-30, largest, 300), [np.inf, np.nan, -0.0]])
    x = x.astype(dtype)[:, None]
    other = compiled(lambda x: (scalars.sin(x), scalars.cos(x)), 1, dtype, width, level)
    np.testing.assert_array_equal(other(x).view(BITS[dtype]), sine_and_cosine(x).view(BITS[dtype]))
    for one in x[::97]:
        np.testing.assert_array_equal(other(one).view(BITS[dtype]), sine_and_cosine(one).view(BITS[dtype]))


@pytest.mark.parametrize("count", [2, 3, 8, 17])
def test_angles_of_one_state_are_lanes_with_the_bits_of_each_alone(dtype, sine_and_cosine, count):
    """Also where only some of them are far, or no numbers."""
    rng = np.random.default_rng(count)
    together = compiled(lambda *x: [f(own) for own in x for f in (scalars.sin, scalars.cos)], count, dtype)
    for largest in (8, 1e30):
        x = rng.uniform(-8, 8, count) * np.where(rng.uniform(size=count) < 0.3, largest, 1)
        x[-1] = np.inf if largest > 8 else x[-1]
        x = x.astype(dtype)
        np.testing.assert_array_equal(
            together(x).view(BITS[dtype]).reshape(count, 2), sine_and_cosine(x[:, None]).view(BITS[dtype])
        )


def test_a_sine_alone_has_the_bits_of_the_pair(dtype, sine_and_cosine):
    x = np.random.default_rng(3).uniform(-100, 100, (200, 1)).astype(dtype)
    for column, function in enumerate((scalars.sin, scalars.cos)):
        alone = compiled(lambda x, function=function: (function(x),), 1, dtype)
        np.testing.assert_array_equal(alone(x)[:, 0], sine_and_cosine(x)[:, column])


# ---- atan2 -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def angle(dtype):
    return compiled(lambda y, x: (scalars.atan2(y, x),), 2, dtype)


def test_angles(dtype, angle):
    rng = np.random.default_rng(4)
    x = (rng.normal(size=(4000, 2)) * 10.0 ** rng.uniform(-4, 4, (4000, 2))).astype(dtype)
    found = angle(x)[:, 0]
    with mpmath.workprec(200):
        exact = [mpmath.atan2(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in x]
        assert errors_in_ulps(found, exact, dtype).max() < 2.5


def test_angles_of_special_points(dtype, angle):
    info = np.finfo(dtype)
    tiny = float(info.smallest_subnormal)
    values = [0.0, 1.0, np.inf, np.nan, info.max, tiny, 3 * tiny, 1e-30, 1e30]
    values = np.array([s * v for v in values for s in (1, -1)], dtype=dtype)
    points = np.stack(np.meshgrid(values, values), -1).reshape(-1, 2)
    found, expected = angle(points)[:, 0], np.arctan2(points[:, 0], points[:, 1])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    good = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[good]), np.signbit(expected[good]))
    np.testing.assert_allclose(found[good], expected[good], rtol=3 * info.eps, atol=0)


@pytest.mark.parametrize("width", [1, 4, 8])
def test_every_width_gives_the_same_angles(dtype, angle, width):
    x = np.random.default_rng(5).normal(size=(301, 2)).astype(dtype)
    other = compiled(lambda y, x: (scalars.atan2(y, x),), 2, dtype, width)
    np.testing.assert_array_equal(other(x).view(BITS[dtype]), angle(x).view(BITS[dtype]))
