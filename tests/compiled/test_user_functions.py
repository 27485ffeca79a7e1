"""NumPy's functions in controllers and user functions: traced, compiled, differentiated, the same as in Python."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic import scalars
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.trace import Trace, evaluate, finish, gradient, tangent
from whippletree.arithmetic.user_functions import call_function

W1, W2 = (np.random.default_rng(0).normal(size=shape) for shape in ((8, 3), (2, 8)))

FUNCTIONS = {
    "exp": lambda x: np.exp(x / 4),
    "log": lambda x: np.log(2 + x * x),
    "tanh": np.tanh,
    "power by a number": lambda x: np.power(2 + x * x, 1.7),
    "power by an array": lambda x: (1.5 + x * x) ** x,
    "power of a number": lambda x: 2.0**x,
    "maximum": lambda x: np.maximum(x, 0.25 * x + 0.1),
    "minimum of entries": lambda x: np.minimum(x[0], x[1]) * x,
    "clip": lambda x: np.clip(x, -0.5, 0.5),
    "clip to arrays": lambda x: np.clip(x, -np.ones(3), x[::-1]),
    "method clip": lambda x: x.clip(-0.5, 0.5),
    "where": lambda x: np.where(x > 0.2, x * x, -x),
    "where not less": lambda x: np.where(x >= 0.2, x * x, -x),
    "abs and sign": lambda x: np.abs(x) + np.sign(x) * x,
    "largest": lambda x: np.max(x) * x,
    "largest of columns": lambda x: np.max(np.stack([x, x[::-1] ** 2]), axis=0),
    "least of rows": lambda x: x * np.min(np.stack([x, 2 * x]), axis=-1, keepdims=True)[0],
    "largest of all": lambda x: x / (1 + np.abs(np.stack([x, -x])).max()),
    "both and either": lambda x: np.where(np.logical_and(x > 0, x < 1) | np.logical_not(x > -0.5), x, x * x),
    "norm of columns": lambda x: x / (1 + np.linalg.norm(np.stack([x, 2 + x]), axis=0)),
    "rectified": lambda x: W2 @ np.maximum(W1 @ x, 0),
    "normalised layer": lambda x: W2 @ ((W1 @ x - (W1 @ x).mean()) / (1 + (W1 @ x).std())),
    "softmax": lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    "network": lambda x: W2 @ np.tanh(W1 @ x + 0.1),
    "softplus": lambda x: np.log(1 + np.exp(x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_traced_functions_say_what_they_say_in_python(name):
    function = FUNCTIONS[name]
    trace = Trace()
    x = trace.inputs(3)
    code = finish(trace, list(function(scalar_array(x))))
    for seed in range(5):
        at = np.random.default_rng(seed).normal(size=3)
        np.testing.assert_allclose(evaluate(code, list(at)), function(at), rtol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_all_kinds_agree(name):
    """Forwards and backwards through a trace, along dual numbers, and by differences in 50 digits."""
    function = FUNCTIONS[name]
    rng = np.random.default_rng(7)
    at, along = rng.normal(size=3), rng.normal(size=3)
    trace = Trace()
    x = trace.inputs(3)
    outputs = list(function(scalar_array(x)))
    seeds = rng.normal(size=len(outputs))
    forwards = evaluate(finish(trace, tangent(outputs, list(x), list(along))), list(at))
    backwards = evaluate(finish(trace, gradient(outputs, list(seeds), list(x))), list(at))
    by_duals = slopes(np.asarray(function(scalar_array(duals(at, along)))))
    np.testing.assert_allclose(forwards, by_duals.astype(float), rtol=1e-12)
    assert np.dot(seeds, forwards) == pytest.approx(np.dot(backwards, along), rel=1e-12)
    h = 1e-6
    differences = (function(at + h * along) - function(at - h * along)) / (2 * h)
    np.testing.assert_allclose(forwards, differences, rtol=1e-6, atol=1e-8)


def test_user_functions_on_other_scalars():
    with mpmath.workdps(40):
        x = np.array([mpmath.mpf("0.3"), mpmath.mpf("-0.4")], dtype=object)
        found = call_function(lambda x: np.maximum(np.exp(x), np.tanh(x) ** 2 + 1), x)
        assert all(isinstance(entry, mpmath.mpf) for entry in found)
        assert abs(found[0] - mpmath.exp("0.3")) < mpmath.mpf(10) ** -38
    with pytest.raises(wt.ScalarError, match="the exponential of a Fraction"):
        scalars.exp(Fraction(1, 2))
    assert scalars.power(Fraction(2, 3), 2) == Fraction(4, 9)


def test_plain_numbers_follow_the_machine_where_python_raises():
    assert scalars.exp(1e4) == np.inf
    assert scalars.log(0.0) == -np.inf
    assert np.isnan(scalars.log(-1.0))
    assert np.isnan(scalars.power(-2.0, 0.5))
    assert scalars.power(0.0, -1.0) == np.inf
    assert np.isnan(scalars.maximum(1.0, np.nan))
    assert np.isnan(scalars.minimum(np.nan, 1.0))
    assert [scalars.sign(x) for x in (-3, 0, 2)] == [-1, 0, 1]


def test_powers_of_zero_have_a_slope():
    """∂(xʸ)/∂y is 0 at x = 0, not 0 · ∞."""
    assert scalars.power(0.0, Dual(2.0, 1.0)).slope == 0
    assert scalars.power(Dual(0.0, 1.0), 3.0).slope == 0


@pytest.mark.slow
def test_a_network_is_compiled_into_the_roll_out():
    model = wt.mechanisms.double_pendulum()
    hidden = np.random.default_rng(1).normal(size=(8, 4))
    out = np.random.default_rng(2).normal(size=(2, 8))

    def network(t, q, v):
        x = np.tanh(hidden @ np.concatenate([q, v]))
        return np.clip(out @ np.maximum(x, 0.01 * x), -1.0, 1.0) + np.exp(-t) * np.where(q > 0, 0.1, -0.1)

    run = wt.simulate(model, duration=0.5, method="rk4", controller=network)
    assert run.attrs["path"] == "compiled"
    expected = [network(t, q, v) for t, q, v in zip(run.time.values, run.q.values, run.v.values, strict=True)]
    np.testing.assert_allclose(run.tau.values, expected, rtol=1e-12, atol=1e-12)


def test_a_constraint_may_use_them():
    """A point on the curve y = tanh x, as a user writes it."""
    builder = wt.Builder("bead", (0, -9.81, 0)).body("slide").body("bead", 1.0)
    builder.joint("x", "prismatic", "world", "slide", axis=(1, 0, 0), start=0.5)
    builder.joint("y", "prismatic", "slide", "bead", axis=(0, 1, 0), start=float(np.tanh(0.5)))
    builder.constraint("track", "point_on_curve", "world", "bead", curve=lambda p: p[1] - np.tanh(p[0]))
    model = builder.build()
    run = wt.simulate(model, duration=0.5)
    assert not run.attrs["failure"]
    assert np.abs(run.q.values[:, 1] - np.tanh(run.q.values[:, 0])).max() < 1e-9
