"""Whole trajectories in one kernel: against the same steps in plain NumPy, and against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from strategies import make_model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton
from whippletree.tree.steps import runge_kutta_4, semi_implicit_euler

STEPS = {"semi_implicit_euler": semi_implicit_euler, "rk4": runge_kutta_4}


def random_start(model, batch, seed=0):
    rng = np.random.default_rng(seed)
    ref = wt.reference(model)
    q = ref.integrate(model.home.q, rng.uniform(-1, 1, (*batch, model.nv)))
    return q, rng.uniform(-1, 1, (*batch, model.nv)), rng


def stepped(model, method, q, v, tau, dt):
    """The trajectory step by step, each step in plain NumPy on Python floats."""
    ref, manifold = wt.reference(model), Mechanism(skeleton(model)).manifold()
    states = []
    for force in tau:
        q, v = STEPS[method](manifold, lambda q, v, f=force: ref.forward_dynamics(q, v, f), q, v, dt)
        states.append((q, v))
    return [np.array([s[i] for s in states], dtype=float) for i in (0, 1)]


@pytest.mark.parametrize("method", STEPS)
def test_a_rollout_is_its_steps(method):
    model = make_model((-1, 0, 1, 1), ("free", "revolute", "spherical", "universal"), seed=3)
    q, v, rng = random_start(model, ())
    tau = rng.uniform(-1, 1, (6, model.nv))
    found = wt.compile(model).rollout(q, v, tau, 0.01, method=method)
    for a, b in zip(found, stepped(model, method, q, v, tau, 0.01), strict=True):
        assert np.abs(a - b).max() <= 1e-12 * np.abs(b).max()


@pytest.mark.parametrize("method", STEPS)
def test_batches_and_single_trajectories_have_the_same_bits(method):
    model = wt.mechanisms.double_pendulum()
    q, v, rng = random_start(model, (11,))
    tau, dt = rng.uniform(-1, 1, (11, 20, 2)), rng.uniform(1e-3, 1e-2, 11)
    dyn = wt.compile(model)
    many = dyn.rollout(q, v, tau, dt, method=method)
    assert many[0].shape == many[1].shape == (11, 20, 2)
    for k in range(11):
        one = dyn.rollout(q[k], v[k], tau[k], dt[k], method=method)
        assert all((a[k] == b).all() for a, b in zip(many, one, strict=True))


@pytest.mark.parametrize(("method", "order"), [("semi_implicit_euler", 1), ("rk4", 4)])
def test_the_order_of_convergence(method, order):
    """Against the exact simulation of a tumbling body, quaternions included."""
    model = make_model((-1, 0), ("free", "revolute"), seed=5)
    q, v, _ = random_start(model, (), seed=1)
    exact = wt.simulate(model, q, v, duration=0.4, rtol=1e-12, atol=1e-13)
    end = np.concatenate([np.asarray(exact[name].isel(time=-1)) for name in ("q", "v")])
    errors = []
    for count in (40, 80):
        found = wt.compile(model).rollout(q, v, np.zeros((count, model.nv)), 0.4 / count, method=method)
        errors.append(np.abs(np.concatenate([x[-1] for x in found]) - end).max())
        assert abs(np.linalg.norm(found[0][-1, 3:7]) - 1) < 1e-14
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.25


def test_no_steps_and_an_unknown_method():
    dyn = wt.compile(wt.mechanisms.pendulum())
    q, v = dyn.rollout([0.1], [0.0], np.zeros((0, 1)), 0.01)
    assert q.shape == v.shape == (0, 1)
    with pytest.raises(wt.NameLookupError, match="there is no integrator 'euler'"):
        dyn.rollout([0.1], [0.0], np.zeros((1, 1)), 0.01, method="euler")
