"""Derivatives of constrained dynamics: dual numbers against differences, and compiled against both."""

import numpy as np
import pytest

import whippletree as wt


@pytest.mark.parametrize(
    "make",
    [wt.mechanisms.crank_slider, lambda: wt.mechanisms.four_bar(masses=(1.0, 2.0, 0.5)), wt.mechanisms.rolling_disc],
)
@pytest.mark.parametrize("name", ["forward_dynamics", "constraint_forces"])
def test_jvp_of_constrained_dynamics(make, name):
    model = make()
    ref, dyn = wt.reference(model), wt.compile(model)
    rng = np.random.default_rng(8)
    q = model.home.q
    v, tau = rng.normal(size=(2, model.nv))
    dq, dv, dtau = rng.normal(size=(3, model.nv))
    h = 1e-6
    function = getattr(ref, name)

    def at(s):
        return function(ref.integrate(q, s * dq), v + s * dv, tau + s * dtau)

    expected = (at(h) - at(-h)) / (2 * h)
    found = ref.jvp(name)(q, v, tau, dq, dv, dtau)
    np.testing.assert_allclose(found, expected, atol=1e-6 * (1 + np.abs(expected).max()))
    np.testing.assert_allclose(dyn.jvp(name)(q, v, tau, dq, dv, dtau), found, atol=1e-10 * (1 + np.abs(found).max()))


def test_vjp_is_the_transpose_of_jvp():
    model = wt.mechanisms.crank_slider()
    dyn = wt.compile(model)
    rng = np.random.default_rng(9)
    q = model.home.q
    v, tau, dq, dv, dtau, seed = rng.normal(size=(6, 3))
    moved = dyn.jvp("forward_dynamics")(q, v, tau, dq, dv, dtau)
    bars = dyn.vjp("forward_dynamics")(q, v, tau, seed)
    np.testing.assert_allclose(seed @ moved, sum(b @ d for b, d in zip(bars, (dq, dv, dtau), strict=True)), rtol=1e-10)


def test_open_parameters_of_a_constrained_model():
    """A rod's mass as an input, through zero: nothing is compiled again, and the derivative at zero exists."""
    model = wt.mechanisms.crank_slider(rod_mass=0.2)
    path = "bodies.connecting rod.mass"
    dyn, ref = wt.compile(model, parameters=[path]), wt.reference(model, parameters=[path])
    q, v, tau = model.home.q, np.zeros(3), np.zeros(3)
    # the inertia about the centre is data of its own and stays that of 0.2 kg
    for mass in (0.0, 0.2, 1.0):
        np.testing.assert_allclose(
            dyn.forward_dynamics(q, v, tau, mass), ref.forward_dynamics(q, v, tau, mass), atol=1e-11
        )
    same = wt.reference(model).forward_dynamics(q, v, tau)
    np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau, 0.2), same, atol=1e-11)
