"""exp, log, tanh and power of compiled code against mpmath: accuracy, special values, the same bits at every width."""

import math

import mpmath
import numpy as np
import pytest

from elementary import BITS, DTYPES, compiled, elementary_program, errors_in_ulps
from emulated_cuda import install
from whippletree.arithmetic import scalars
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda.cuda_function import compile_for_cuda

UNARY = {"exp": mpmath.exp, "log": mpmath.log, "tanh": mpmath.tanh}
ULPS = {"exp": 0.75, "log": 0.75, "tanh": 2.5, "power": 0.75}
"""What docs/compiler.md promises."""


@pytest.fixture(scope="module", params=DTYPES, ids=lambda d: d.__name__)
def dtype(request):
    return request.param


@pytest.fixture(scope="module", params=UNARY)
def unary(request, dtype):
    """(name, compiled function, dtype)."""
    name = request.param
    return name, compiled(lambda x: (getattr(scalars, name)(x),), 1, dtype), dtype


def arguments(name, dtype, rng, count):
    info = np.finfo(dtype)
    match name:
        case "exp":
            low, high = math.log(info.smallest_subnormal), math.log(info.max)
            x = [rng.uniform(low, high, count), rng.uniform(-1, 1, count), 10.0 ** rng.uniform(-30, 0, count // 10)]
            x.append((np.arange(-60, 60) + 0.5) * math.log(2))
        case "log":
            x = [2.0 ** rng.uniform(info.minexp, info.maxexp, count), rng.uniform(0.5, 2, count)]
            x += [1 + 10.0 ** rng.uniform(-15, -1, count) * rng.choice([-1, 1], count), 2.0 ** np.arange(-100, 100)]
            x += [
                math.sqrt(0.5) * (1 + np.linspace(-1e-6, 1e-6, 41)),
                np.arange(1, 50) * float(info.smallest_subnormal),
            ]
        case _:
            x = [rng.uniform(-25, 25, count), rng.uniform(-1, 1, count), 10.0 ** rng.uniform(-30, 0, count // 10)]
    return np.concatenate(x).astype(dtype)


def worst(found, exact, x, dtype):
    errors = errors_in_ulps(found, exact, dtype)
    return errors.max(), x[errors.argmax()]


@pytest.mark.slow
def test_accuracy(unary):
    name, f, dtype = unary
    x = arguments(name, dtype, np.random.default_rng(0), 4000)
    with mpmath.workprec(300):
        exact = [UNARY[name](mpmath.mpf(float(v))) for v in x]
    with np.errstate(all="ignore"):
        keep = np.array([abs(e) <= float(np.finfo(dtype).max) for e in exact])
    found = f(x[:, None])[:, 0]
    error, where = worst(found[keep], [e for e, k in zip(exact, keep, strict=True) if k], x[keep], dtype)
    assert error < ULPS[name], f"{name}({where!r}) is wrong by {error:.3f} ulp"


def test_accuracy_of_powers(dtype):
    f = compiled(lambda x, y: (scalars.power(x, y),), 2, dtype)
    rng = np.random.default_rng(1)
    reach = math.log(np.finfo(dtype).max)
    near_one = [rng.uniform(0.5, 2, 3000), 1 + rng.uniform(-1e-4, 1e-4, 3000)]
    x = np.concatenate([2.0 ** rng.uniform(-20, 20, 6000), *near_one]).astype(dtype)
    x = x[x != 1]
    # results over the whole range, the extremes included, where the logarithm's error counts most
    y = (rng.uniform(-reach, reach, len(x)) / np.log(x.astype(float))).astype(dtype)
    y[: len(y) // 4] = rng.uniform(-4, 4, len(y) // 4)
    with mpmath.workprec(300):
        exact = [mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    info = np.finfo(dtype)
    keep = np.array([float(info.smallest_subnormal) <= abs(e) <= float(info.max) for e in exact])
    assert keep.sum() > 10_000
    found = f(np.stack([x, y], axis=1))[:, 0]
    error, where = worst(found[keep], [e for e, k in zip(exact, keep, strict=True) if k], x[keep], dtype)
    assert error < ULPS["power"], f"power({where!r}, …) is wrong by {error:.3f} ulp"


def test_special_values(dtype):
    tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, huge, -huge, 1.0, -1.0], dtype=dtype)
    for name, reference in (("exp", np.exp), ("log", np.log), ("tanh", np.tanh)):
        f = compiled(lambda x, name=name: (getattr(scalars, name)(x),), 1, dtype)
        with np.errstate(all="ignore"):
            expected = reference(x)
        found = f(x[:, None])[:, 0]
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, atol=0, err_msg=name)
        assert np.array_equal(np.signbit(found), np.signbit(expected)) or name != "tanh"


def test_special_powers_are_those_of_c(dtype):
    f = compiled(lambda x, y: (scalars.power(x, y),), 2, dtype)
    numbers = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.75, -0.75, 3.0, -3.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e30]
    numbers += [
        float(np.finfo(dtype).max),
        float(np.finfo(dtype).smallest_subnormal),
        2.0**24 - 1,
        2.0**24,
        2.0**53 - 1,
    ]
    for a in np.array(numbers, dtype=dtype):
        for b in np.array(numbers, dtype=dtype):
            with np.errstate(all="ignore"):
                expected = np.power(a, b)
            found = dtype(f(np.array([a, b]))[0])
            np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, atol=0, err_msg=f"{a!r} ** {b!r}")
            if not np.isnan(expected):
                assert np.signbit(found) == np.signbit(expected), f"{a!r} ** {b!r}"


@pytest.mark.parametrize("level", [0, 2])
def test_the_same_bits_at_every_width_and_level(dtype, level):
    def all_of_them(x, y):
        return (
            scalars.exp(x), scalars.log(y), scalars.tanh(x), scalars.power(y, x),
            scalars.maximum(x, y), scalars.minimum(x, y), scalars.clip(x, -1, y),
        )  # fmt: skip

    rng = np.random.default_rng(3)
    x = np.stack([rng.normal(scale=9, size=999), np.exp(rng.normal(scale=5, size=999))], axis=1).astype(dtype)
    x[:4] = [[np.nan, 1], [np.inf, 0], [-np.inf, np.inf], [0, np.nan]]
    one = compiled(all_of_them, 2, dtype, width=1)(x).view(BITS[dtype])
    for width in (2, 4, 8):
        assert np.array_equal(compiled(all_of_them, 2, dtype, width=width, level=level)(x).view(BITS[dtype]), one)


def test_maximum_minimum_and_clip_are_numpys(dtype):
    f = compiled(lambda x, y: (scalars.maximum(x, y), scalars.minimum(x, y), scalars.clip(x, -1, 2)), 2, dtype)
    x = np.array([[a, b] for a in (1.0, -3.0, np.nan, np.inf, 0.0) for b in (2.0, -5.0, np.nan, -np.inf, 0.0)], dtype)
    expected = np.stack([np.maximum(*x.T), np.minimum(*x.T), np.clip(x[:, 0], -1, 2)], axis=1)
    np.testing.assert_array_equal(f(x), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gpu_code_has_the_same_bits(monkeypatch, dtype):
    install(monkeypatch)
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(scale=30, size=300), np.exp(rng.normal(scale=20, size=300))], axis=1).astype(dtype)
    x[:6] = [[np.nan, 1], [np.inf, 0], [-np.inf, np.inf], [0, np.nan], [0.5, -2], [3, -2]]
    program = elementary_program()
    found = np.asarray(compile_for_cuda(program, dtype=dtype)(x))
    assert found.tobytes() == np.asarray(compile_function(program, dtype=dtype)(x)).tobytes()
