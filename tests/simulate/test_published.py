"""Published trajectories: IFToMM A01 and A02, Andrews' squeezer (sources in each test)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import whippletree as wt

GRAVITY = 9.81


def last(run, name):
    return np.asarray(run[name].isel(time=-1))


@pytest.mark.slow
@pytest.mark.parametrize(("rtol", "allowed"), [(1e-6, 1e-7), (1e-8, 1e-9), (1e-10, 1e-11), (1e-12, 1e-13)])
def test_simple_pendulum_at_ten_seconds(rtol, allowed):
    """IFToMM benchmark A01: released at rest from the horizontal; exact by elliptic functions."""
    model = wt.mechanisms.pendulum(length=1.0, mass=1.0)
    run = wt.simulate(model, [np.pi], [0.0], duration=10.0, rtol=rtol, atol=rtol / 10)
    tip = wt.compile(model).pose("tip")(last(run, "q"))[:2, 3]
    assert np.abs(tip - [-0.275087462576117, -0.961419205099125]).max() <= allowed


@pytest.mark.parametrize(("rtol", "allowed"), [(1e-6, 1e-6), (1e-8, 3e-8), (1e-10, 1e-9), (1e-12, 1e-9)])
def test_four_bars_pass_their_dead_points(rtol, allowed):
    """IFToMM benchmark A02 with N = 2: all rods come into line again and again, where the Jacobian loses rank."""
    model = wt.mechanisms.n_four_bar(2)
    run = wt.simulate(model, duration=10.0, rtol=rtol, atol=rtol / 10)
    dyn = wt.compile(model)
    q, v = last(run, "q"), last(run, "v")
    pose = dyn.pose("B0")(q)
    velocity = (pose[:3, :3] @ dyn.twist("B0")(q, v)[3:])[:2]
    assert np.abs(pose[:2, 3] - [0.328458111540815, 0.944518538178601]).max() <= allowed
    assert np.abs(velocity - [1.42305147020694, -0.494868845487043]).max() <= 20 * allowed
    assert float(np.abs(run["constraint_residual"]).max()) <= 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("bars", [1, 2, 3])
def test_a_start_exactly_at_a_dead_point_follows_its_velocity(bars):
    """The one-degree-of-freedom reduction of A02, started with all rods in line."""
    model = wt.mechanisms.n_four_bar(bars)
    stiffness = ((bars + 1) / 2 + bars) / ((bars + 1) / 3 + bars) * GRAVITY
    signs = np.sign(model.home.v)
    start = wt.assemble(model, np.zeros(model.nq))
    run = wt.simulate(model, start, -3.0 * signs, duration=2.0, rtol=1e-9, atol=1e-10)
    exact = solve_ivp(
        lambda t, y: [y[1], -stiffness * np.cos(y[0])], (0, 2), [0, 3.0], method="DOP853", rtol=1e-12, atol=1e-12
    )
    assert run.attrs["failure"] == ""
    assert abs(last(run, "q")[0] - exact.y[0, -1]) <= 1e-6


def test_andrews_squeezer():
    """IVP test set, problem 1: the state and a multiplier at t = 0.03 s."""
    from whippletree.mechanisms.andrews import MOTOR_TORQUE

    model = wt.mechanisms.andrews()
    tau = np.zeros(model.nv)
    tau[model.slice("beta")] = MOTOR_TORQUE
    run = wt.simulate(model, duration=0.03, rtol=1e-10, atol=1e-12, controller=lambda t, q, v: tau)
    published = {
        "beta": 15.81077119629904,
        "theta": -15.75637105984298,
        "gamma": 0.04082224013073101,
        "phi": -0.5347301163226948,
        "delta": 0.5244099658805304,
        "omega": 0.5347301163226948,
        "epsilon": 1.048080741042263,
    }
    q, v = last(run, "q"), last(run, "v")
    for joint, value in published.items():
        assert abs(q[model.q_slice(joint)][0] - value) <= 1e-7, joint
    assert abs(v[model.slice("beta")][0] / 1139.920302151208 - 1) <= 1e-7
    assert abs(v[model.slice("theta")][0] / -1424.379294994111 - 1) <= 1e-7
    # the multiplier of a converged independent run; the published one has fewer digits
    assert abs(np.abs(last(run, "constraint_forces")[0]) / 199.1753481 - 1) <= 1e-6
