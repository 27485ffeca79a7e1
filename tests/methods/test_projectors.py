"""Projectors of document 001, and torques for a desired motion under constraints."""

from fractions import Fraction

import numpy as np
import pytest

import whippletree as wt
from whippletree.projectors import (
    inverse_dynamics_under_constraints,
    null_projector,
    qr_projector,
    schur_projector,
    weighted_pseudo_inverse,
)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(2)
    G = rng.normal(size=(6, 6))
    return G @ G.T + np.eye(6), rng.normal(size=(3, 6))


def test_projectors_are_projectors(case):
    M, A = case
    pseudo = weighted_pseudo_inverse(M, A).astype(float)
    inverse = np.linalg.inv(M)
    np.testing.assert_allclose(pseudo, inverse @ A.T @ np.linalg.inv(A @ inverse @ A.T), atol=1e-11)
    N, P = null_projector(M, A).astype(float), schur_projector(M, A).astype(float)
    np.testing.assert_allclose(N @ N, N, atol=1e-11)
    np.testing.assert_allclose(P @ P, P, atol=1e-11)
    np.testing.assert_allclose(A @ N, 0, atol=1e-11)
    np.testing.assert_allclose(P @ A.T, 0, atol=1e-11)
    # (001, slide 2): its own formula, with the Schur complement put right
    np.testing.assert_allclose(P, np.eye(6) - A.T @ np.linalg.inv(A @ inverse @ A.T) @ A @ inverse, atol=1e-11)
    Q = qr_projector(A).astype(float)
    np.testing.assert_allclose(Q @ Q.T, np.eye(3), atol=1e-13)
    np.testing.assert_allclose(Q @ A.T, 0, atol=1e-13)


def test_schur_projector_of_a_massless_link_is_exact():
    """000, eq. 31: M M† = 1 − Aᵀ A† exists although M⁻¹ does not."""
    M = np.array([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(0)]])
    A = np.array([[Fraction(2), Fraction(-1)]])
    assert schur_projector(M, A).tolist() == [[1, 2], [0, 0]]


def test_both_projections_of_the_dynamics_vanish_on_the_true_motion():
    model = wt.mechanisms.stewart_platform()
    ref, q = wt.reference(model), model.home.q
    rng = np.random.default_rng(4)
    v, tau = ref.project_velocity(q, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    M, A = ref.mass_matrix(q), ref.constraint_jacobian(q)
    left = M @ ref.forward_dynamics(q, v, tau) + ref.bias(q, v) - tau
    assert np.abs(schur_projector(M, A).astype(float) @ left).max() < 1e-9
    assert np.abs(qr_projector(A).astype(float) @ left).max() < 1e-9


def motion_of(model, seed):
    ref = wt.reference(model)
    rng = np.random.default_rng(seed)
    q = model.home.q
    v = ref.project_velocity(q, rng.normal(size=model.nv))
    return ref, q, v, ref.forward_dynamics(q, v, rng.normal(size=model.nv))


def test_fully_actuated():
    """A crank with one motor: one torque, and it is the right one."""
    model = wt.mechanisms.crank_slider()
    ref, q, v, a = motion_of(model, 1)
    found = inverse_dynamics_under_constraints(model, q, v, a, actuated=["crank"])
    np.testing.assert_allclose(ref.forward_dynamics(q, v, found.tau), a, atol=1e-10)
    np.testing.assert_allclose(ref.constraint_forces(q, v, found.tau), found.forces, atol=1e-10)
    assert (found.tau[1:] == 0).all()
    assert found.spare == 0
    assert found.free.shape == (3, 0)
    assert found.shortfall < 1e-10


def test_over_actuated_is_least_norm_with_weights():
    model = wt.mechanisms.four_bar(lengths=(2.0, 1.0, 2.2, 1.7))
    ref, q, v, a = motion_of(model, 2)
    found = inverse_dynamics_under_constraints(model, q, v, a, actuated=["crank", "rocker"], weights=[1.0, 4.0])
    np.testing.assert_allclose(ref.forward_dynamics(q, v, found.tau), a, atol=1e-10)
    assert found.spare == 1
    # along the direction of torques that move nothing, the weighted norm is stationary
    B = ref.allowed_motions(q)
    idle = np.array([B[model.slice("rocker")].item(), 0, -B[model.slice("crank")].item()])[[0, 1, 2]]
    assert abs(found.tau @ (np.array([1, 0, 4]) * idle)) < 1e-10


def test_under_actuated_says_which_accelerations_are_free():
    """A cart-pole driven at the cart, and a floating base that nothing can push."""
    model = wt.mechanisms.cart_pole()
    ref = wt.reference(model)
    q, v, wish = np.array([0.1, 0.3]), np.array([0.2, -0.4]), np.array([1.0, -2.0])
    found = inverse_dynamics_under_constraints(model, q, v, wish, actuated=["slide"])
    np.testing.assert_allclose(ref.forward_dynamics(q, v, found.tau), found.a, atol=1e-12)
    assert found.free.shape == (2, 1)
    assert found.shortfall > 0.1
    # the motor does no work along it, and the momentum along it changes as it does without a motor
    assert abs(found.free[0, 0]) < 1e-12
    left = ref.mass_matrix(q) @ (found.a - ref.forward_dynamics(q, v, np.zeros(2)))
    assert abs(found.free[:, 0] @ left) < 1e-12
    free = wt.mechanisms.rolling_disc()
    home = free.home
    nothing = inverse_dynamics_under_constraints(free, home.q, home.v, np.zeros(6))
    assert (nothing.tau == 0).all()
    assert nothing.free.shape == (6, 3)


def test_redundant_rows_carry_no_force():
    builder = wt.Builder("hung", (0, -9.81, 0)).body("b", 1.0, (0.5, 0, 0), (0, 0.1, 0.1))
    model = (
        builder.joint("j", "revolute", "world", "b")
        .frame("tip", "b", position=(1, 0, 0))
        .frame("nail", "world", position=(1, 0, 0))
        .constraint("pin", "hinge", "nail", "tip")
        .build()
    )
    found = inverse_dynamics_under_constraints(model, [0.0], [0.0], [0.0], actuated=[])
    np.testing.assert_allclose(found.forces, [0, 0, 0, 9.81 / 2, 0], atol=1e-12)
