"""Closed forms: projected inverse dynamics, wanted forces, gravity with contacts, and regulators on the manifold."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints.projectors import inverse_dynamics_under_constraints
from whippletree.control import contact_gravity_compensation, lqr, projected

DOG = wt.mechanisms.quadruped(stiffness=0.0, damping=0.0)
STILL = np.zeros(DOG.nv)


def test_it_is_the_inverse_dynamics_of_document_001():
    bars = wt.mechanisms.four_bar(lengths=(2.0, 0.7, 1.9, 1.5))
    v = wt.compile(bars).project_velocity(bars.home.q, np.array([1.0, 0.0, 0.0]))
    for motors in (("crank",), ("crank", "rocker")):
        found = projected(bars, motors=motors).inverse_dynamics(bars.home.q, v, np.array([2.0, 0.0, 0.0]))
        other = inverse_dynamics_under_constraints(bars, bars.home.q, v, found.a, actuated=list(motors))
        assert np.allclose(found.tau, other.tau, atol=1e-10)
        assert np.abs(found.residual).max() < 1e-10
        assert np.allclose(wt.compile(bars).forward_dynamics(bars.home.q, v, found.tau), found.a)


def test_motion_and_force_do_not_disturb_each_other():
    closed = projected(DOG)
    a = np.zeros(DOG.nv)
    a[5] = 1.0  # upwards
    free = closed.inverse_dynamics(DOG.home.q, STILL, a)
    squeeze = np.zeros(12)
    squeeze[2::3] = 5.0, -5.0, 5.0, -5.0  # feet push outwards against each other
    pressed = closed.inverse_dynamics(DOG.home.q, STILL, a, force=free.f + squeeze)
    assert np.allclose(pressed.f, free.f + squeeze, atol=1e-9)
    assert np.allclose(pressed.a, free.a)
    assert np.abs(pressed.residual).max() < 1e-9
    assert not np.allclose(pressed.tau, free.tau)
    J = wt.compile(DOG).contact_jacobian(DOG.home.q)
    for found in (free, pressed):
        assert np.allclose(wt.compile(DOG).forward_dynamics(DOG.home.q, STILL, found.tau + J.T @ found.f), found.a)


def test_an_arm_presses_on_a_wall_while_it_moves_along_it():
    builder = wt.Builder("arm on a wall", gravity=(0, -9.81, 0))
    builder.body("upper", 1.0, (0.25, 0, 0), (0.01, 0.02, 0.02)).joint(
        "shoulder", "revolute", "world", "upper", start=0.6
    )
    builder.body("fore", 0.8, (0.2, 0, 0), (0.01, 0.02, 0.02))
    builder.joint("elbow", "revolute", "upper", "fore", position=(0.5, 0, 0), start=-1.1)
    builder.frame("tip", "fore", position=(0.4, 0, 0))
    free = builder.build()
    at = wt.compile(free).pose("tip")(free.home.q)[:3, 3]
    builder.frame("wall", "world", position=tuple(at))
    builder.constraint("on the wall", "point_on_plane", "wall", "tip", normal=(1, 0, 0))
    arm = builder.build()
    closed = projected(arm)
    found = closed.inverse_dynamics(arm.home.q, np.zeros(2), np.array([0.5, 0.0]), force=[-20.0])
    assert found.f == pytest.approx([-20.0])
    assert np.abs(found.residual).max() < 1e-12
    f = wt.compile(arm).constraint_forces(arm.home.q, np.zeros(2), found.tau)
    assert f == pytest.approx([-20.0], rel=1e-9)


@pytest.mark.slow
def test_gravity_is_carried_by_the_feet_that_stand():
    hold = contact_gravity_compensation(DOG, touching=np.array([1.0, 0.0, 0.0, 1.0]))
    tau = hold(0.0, DOG.home.q, STILL)
    assert np.all(tau[:6] == 0)
    run = wt.simulate(
        DOG, duration=0.1, method="time_stepping", step=1e-3, controller=contact_gravity_compensation(DOG)
    )
    assert abs(run.q.values[-1] - DOG.home.q).max() < 1e-3


def test_a_regulator_balances_a_pole_and_a_closed_chain():
    cart = wt.mechanisms.cart_pole()
    upright = np.zeros(2)
    hold = lqr(cart, upright, motors=[cart.joints[0].name], state_cost=(10, 10, 1, 1))
    assert np.all(hold.poles.real < 0)
    run = wt.simulate(cart, [0.1, 0.15], duration=8.0, method="rk4", step=5e-3, controller=hold)
    assert run.attrs["path"] == "compiled"
    assert np.abs(run.q.values[-1]).max() < 0.01
    bars = wt.mechanisms.four_bar(lengths=(2.0, 0.7, 1.9, 1.5))
    hold = lqr(bars, bars.home.q, motors=["crank"], state_cost=(100.0, 1.0))
    turned = wt.assemble(bars, bars.home.q, hold={"crank": bars.home.q[0] + 0.2})
    run = wt.simulate(bars, turned, duration=3.0, method="rk4", step=5e-3, controller=hold)
    assert np.abs(run.q.values[-1] - bars.home.q).max() < 1e-3
    # the cost of a deviation is xᵀ S x: at the optimum the Riccati equation holds
    A, B, S = hold.system.A, hold.system.B, hold.S
    residual = A.T @ S + S @ A - S @ B @ hold.K + np.diag([100.0, 1.0])
    assert np.abs(residual).max() < 1e-8 * np.abs(S).max()


def test_bad_input():
    cart = wt.mechanisms.cart_pole()
    with pytest.raises(wt.EquilibriumError, match="does not rest at q"):
        lqr(cart, [0.0, 0.5], motors=[cart.joints[0].name])
    with pytest.raises(wt.UnsupportedError, match="cannot stabilise"):
        lqr(cart, np.zeros(2), motors=[])
    with pytest.raises(wt.ShapeError, match="state_cost has shape"):
        lqr(cart, np.zeros(2), state_cost=(1.0, 2.0, 3.0))
    with pytest.raises(wt.ShapeError, match="force has shape"):
        projected(DOG).inverse_dynamics(DOG.home.q, STILL, STILL, force=np.zeros(3))
    with pytest.raises(wt.ShapeError, match="touching"):
        projected(DOG).inverse_dynamics(DOG.home.q, STILL, STILL, touching=np.ones(3))
    with pytest.raises(wt.NameLookupError, match="crnk"):
        projected(wt.mechanisms.four_bar(), motors=["crnk"])
