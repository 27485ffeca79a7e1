"""Projectors of document 001, and torques for a desired motion under constraints."""

from fractions import Fraction

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints.projectors import (
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
    pseudo = weighted_pseudo_inverse(M, A)
    inverse = np.linalg.inv(M)
    np.testing.assert_allclose(pseudo, inverse @ A.T @ np.linalg.inv(A @ inverse @ A.T), atol=1e-11)
    N, P = null_projector(M, A), schur_projector(M, A)
    np.testing.assert_allclose(N @ N, N, atol=1e-11)
    np.testing.assert_allclose(P @ P, P, atol=1e-11)
    np.testing.assert_allclose(A @ N, 0, atol=1e-11)
    np.testing.assert_allclose(P @ A.T, 0, atol=1e-11)
    # (001, slide 2): its own formula, with the Schur complement put right
    np.testing.assert_allclose(P, np.eye(6) - A.T @ np.linalg.inv(A @ inverse @ A.T) @ A @ inverse, atol=1e-11)
    Q = qr_projector(A)
    np.testing.assert_allclose(Q @ Q.T, np.eye(3), atol=1e-13)
    np.testing.assert_allclose(Q @ A.T, 0, atol=1e-13)


def test_schur_projector_of_a_massless_link_is_exact():
    """000, eq. 31: M M† = 1 − Aᵀ A† exists although M⁻¹ does not."""
    M = np.array([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(0)]])
    A = np.array([[Fraction(2), Fraction(-1)]])
    assert schur_projector(M, A).tolist() == [[1, 2], [0, 0]]


def independent(rows, rng):
    """Rows (m, n) hidden among combinations of them, of all sizes and in any order; also a row of zeros."""
    more = rng.normal(size=(3, len(rows))) @ rows * 10.0 ** rng.integers(-4, 5, (3, 1))
    return rng.permutation(np.concatenate([rows, more, np.zeros((1, rows.shape[1]))]))


@pytest.mark.parametrize("seed", range(12))
def test_redundant_rows_change_no_projector(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    A = rng.normal(size=(int(rng.integers(0, n + 1)), n))
    G = rng.normal(size=(n, n))
    M = G @ G.T + np.eye(n)
    given = independent(A, rng) if len(A) else np.zeros((2, n))
    tolerance = 1e-13 * np.linalg.cond(M) * (np.linalg.cond(A) if len(A) else 1) ** 2
    for projector in (schur_projector, null_projector):
        np.testing.assert_allclose(projector(M, given), projector(M, A), atol=tolerance)
    pseudo = weighted_pseudo_inverse(M, given)
    size = max(np.abs(given).max(), 1)
    np.testing.assert_allclose(given @ pseudo @ given, given, atol=tolerance * size)
    np.testing.assert_allclose(np.eye(n) - pseudo @ given, null_projector(M, A), atol=tolerance * size)
    assert np.count_nonzero(np.abs(pseudo).max(axis=0, initial=0)) == len(A)
    Q, own = qr_projector(given), qr_projector(A)
    assert Q.shape == (n - len(A), n)
    np.testing.assert_allclose(Q @ Q.T, np.eye(len(Q)), atol=1e-14)
    np.testing.assert_allclose(Q.T @ Q, own.T @ own, atol=tolerance)


def test_the_first_independent_rows_count():
    M = np.diag([1.0, 2.0, 3.0])
    assert schur_projector(M, [[1, 1, 0], [2, 2, 0]]).tolist() == schur_projector(M, [[1, 1, 0]]).tolist()
    np.testing.assert_allclose(
        weighted_pseudo_inverse(M, [[1, 1, 0], [2, 2, 0]]), [[2 / 3, 0], [1 / 3, 0], [0, 0]], atol=1e-15
    )
    # a row counts by its direction, not by its size
    assert qr_projector([[1.0, 0.0], [0.0, 1e-9]]).shape == (0, 2)
    assert qr_projector([[1.0, 0.0], [1.0, 1e-9]]).shape == (1, 2)
    assert qr_projector([[1.0, 0.0], [1.0, 1e-9]], rank_tolerance=1e-12).shape == (0, 2)


def test_planar_four_bar_closed_by_a_spatial_hinge():
    """Three of five rows are redundant, up to rounding."""
    model = hinged_four_bar()
    ref = wt.reference(model)
    q = wt.assemble(model, [1.0, 0.0, 1.5])
    M, A = ref.mass_matrix(q), ref.constraint_jacobian(q)
    assert A.shape == (5, 3)
    for projector in (schur_projector, null_projector, weighted_pseudo_inverse):
        np.testing.assert_allclose(projector(M, A), getattr(ref, projector.__name__)(q), atol=1e-14)
    assert qr_projector(A).shape == (1, 3)


def hinged_four_bar():
    rod = ((0.4, 0, 0), (0, 0.1, 0.1))
    return (
        wt.Builder("hinged", (0, -9.81, 0))
        .body("crank", 1.0, *rod).joint("a", "revolute", "world", "crank")
        .body("coupler", 1.0, *rod).joint("b", "revolute", "crank", "coupler", position=(0.8, 0, 0))
        .body("rocker", 1.0, *rod).joint("c", "revolute", "world", "rocker", position=(2.0, 0, 0))
        .frame("end", "coupler", position=(2.2, 0, 0)).frame("top", "rocker", position=(1.7, 0, 0))
        .constraint("pin", "hinge", "end", "top").build()
    )  # fmt: skip


PROJECTORS = [schur_projector, null_projector, weighted_pseudo_inverse]


@pytest.mark.parametrize("projector", PROJECTORS)
def test_a_violated_rank_condition_names_the_motion(projector):
    """000, condition (32): exactly singular, singular up to rounding, and no mass matrix at all."""
    tilted = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    for M, A, motion in (
        (np.diag([1.0, 0.0, 0.0]), [[1.0, 1.0, 0.0]], "v[2] = 1"),
        (np.ones((2, 2)), [[1.0, 1.0]], "v[0] = 1, v[1] = -1"),
        (tilted @ np.diag([1.0, 2.0, 0.0]) @ tilted.T, np.zeros((0, 3)), "v[0] = "),
    ):
        with pytest.raises(wt.SingularSystemError, match=r"has no inertia \(condition \(32\) of 000\)") as raised:
            projector(M, A)
        assert motion in str(raised.value)
    with pytest.raises(wt.SingularSystemError, match=r"v\[1\] = 1 is .* negative inertia"):
        projector(np.diag([1.0, -1.0]), np.zeros((0, 2)))
    # rows that stop every motion ask nothing of the masses
    assert np.isfinite(projector(np.zeros((2, 2)), np.eye(2))).all()


def test_light_bodies_beside_heavy_ones_are_no_massless_ones():
    M, A = np.diag([1e6, 1e-10, 1e-10]), np.array([[0.0, 1.0, 1.0]])
    expected = [[1, 0, 0], [0, 0.5, -0.5], [0, -0.5, 0.5]]
    np.testing.assert_allclose(null_projector(M, A), expected, atol=1e-15)


def test_every_kind_of_number_is_kept():
    mp = pytest.importorskip("mpmath")
    A = [[1, 2, 0], [2, 4, 0]]
    expected = null_projector(np.diag([1, 2, 3]), A)
    assert expected.dtype == np.float64
    for number, kind in ((Fraction, Fraction), (mp.mpf, mp.mpf), (mp.mpc, mp.mpc)):
        M = np.diag([number(1), number(2), number(3)])
        for projector in PROJECTORS:
            found = projector(M, A)
            assert {type(x) for x in found.flat} == {kind}
            np.testing.assert_allclose(found.astype(complex), projector(np.diag([1, 2, 3]), A), atol=1e-15)
    assert {type(x) for x in qr_projector([[mp.mpf(1), mp.mpf(2)]]).flat} == {mp.mpf}
    assert null_projector(np.diag([1, 2, 3 + 0j]), A).dtype == np.complex128
    assert null_projector(np.diag([1, 2, 3]).astype(np.float32), A).dtype == np.float64
    assert qr_projector([[Fraction(3), Fraction(4)]]).tolist() == [[Fraction(4, 5), Fraction(-3, 5)]]
    with pytest.raises(wt.ScalarError, match="square root of the Fraction"):
        qr_projector([[Fraction(1), Fraction(1)]])


def test_more_digits_tell_finer_ranks():
    mp = pytest.importorskip("mpmath")
    with mp.workdps(60):
        near = [[mp.mpf(1), mp.mpf(0)], [mp.mpf(1), mp.mpf("1e-15")]]
        assert qr_projector(near).shape == (0, 2)
    exact = [[Fraction(1), Fraction(0)], [Fraction(1), Fraction(1, 10**40)]]
    assert weighted_pseudo_inverse(np.diag([Fraction(1), Fraction(1)]), exact).tolist() == [[1, 0], [-(10**40), 10**40]]


def test_complex_step_differentiates():
    def projected(x):
        return null_projector(np.array([[2 + x, 0.3], [0.3, 1]]), np.array([[1, x], [2, 2 * x]]))

    slope = projected(0.7 + 1e-30j).imag / 1e-30
    np.testing.assert_allclose(slope, (projected(0.7 + 1e-6) - projected(0.7 - 1e-6)) / 2e-6, atol=1e-9)
    with pytest.raises(wt.SingularSystemError, match="rank of the rows changes along the imaginary direction"):
        qr_projector([[1, 0], [2, 1e-30j]])
    with pytest.raises(wt.ScalarError, match="orthogonal to itself"):
        qr_projector([[1, 1j]])


@pytest.mark.slow
def test_what_has_no_value_or_no_sense_is_refused_by_name():
    sympy = pytest.importorskip("sympy")
    symbol = sympy.Symbol("x")
    for projector in PROJECTORS:
        with pytest.raises(wt.ScalarError, match=f"{projector.__name__}: A holds scalars of type Symbol, .* no value"):
            projector(np.eye(2), [[symbol, 1]])
        with pytest.raises(wt.ShapeError, match=r"M has shape \(2, 2\) and A \(1, 3\)"):
            projector(np.eye(2), [[1, 1, 1]])
        with pytest.raises(wt.UnsupportedError, match="M holds nan"):
            projector(np.diag([1, np.nan]), [[1, 1]])
        with pytest.raises(wt.UnsupportedError, match="M differs from its transpose by 1"):
            projector([[1, 2], [1, 3]], [[1, 1]])
    with pytest.raises(wt.ScalarError, match="A holds <U1, expected numbers"):
        qr_projector([["a", "b"]])
    with pytest.raises(wt.UnsupportedError, match="too large to convert"):
        qr_projector([[10**400, 1]])
    with pytest.raises(wt.UnsupportedError, match="rank_tolerance is 2, expected the sine"):
        qr_projector([[1, 1]], rank_tolerance=2)
    with pytest.raises(wt.ShapeError, match="one state at a time"):
        qr_projector(np.zeros((4, 1, 2)))


def mechanisms():
    return [
        wt.mechanisms.four_bar(lengths=(2.0, 0.8, 2.2, 1.7)),
        wt.mechanisms.four_bar(lengths=(2.0, 0.8, 2.2, 1.7), masses=(1.0, 1.0, 0.0)),
        wt.mechanisms.crank_slider(rod_mass=0.0),
        wt.mechanisms.stewart_platform(),
        hinged_four_bar(),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", mechanisms(), ids=lambda model: model.name)
def test_functions_of_a_model_are_those_of_its_matrices(model):
    ref, dyn = wt.reference(model), wt.compile(model)
    states = np.stack([wt.assemble(model, model.home.q), wt.assemble(model, model.home.q + 0.01)])
    for projector in PROJECTORS:
        name = projector.__name__
        many = getattr(dyn, name)(states)
        for q, found in zip(states, many, strict=True):
            np.testing.assert_allclose(found, getattr(ref, name)(q), atol=1e-13)
            np.testing.assert_allclose(found, projector(ref.mass_matrix(q), ref.constraint_jacobian(q)), atol=1e-12)
    for q, Q in zip(states, dyn.qr_projector(states), strict=True):
        # at home six legs are alike, and rounding chooses among bases of the same motions
        for own in (ref.qr_projector(q), qr_projector(ref.constraint_jacobian(q))):
            np.testing.assert_allclose(Q.T @ Q, own.T @ own, atol=1e-13)
        np.testing.assert_allclose(Q @ Q.T, np.eye(len(Q)), atol=1e-14)
    apart = states[1]
    np.testing.assert_allclose(dyn.qr_projector(apart), ref.qr_projector(apart), atol=1e-13)


def test_derivative_of_a_compiled_projector():
    model = wt.mechanisms.four_bar(lengths=(2.0, 0.8, 2.2, 1.7))
    dyn, q, d = wt.compile(model), model.home.q, np.array([0.3, -0.2, 0.1])
    ahead, behind = dyn.null_projector(q + 1e-6 * d), dyn.null_projector(q - 1e-6 * d)
    np.testing.assert_allclose(dyn.jvp("null_projector")(q, d), (ahead - behind) / 2e-6, atol=1e-8)


def test_functions_of_a_model_at_a_dead_point():
    """Where rows become dependent an independent set is taken, by machine code too; a basis says so."""
    model = wt.mechanisms.four_bar()
    ref, dyn, q = wt.reference(model), wt.compile(model), np.zeros(3)
    M, A = ref.mass_matrix(q), ref.constraint_jacobian(q)
    for projector in (schur_projector, null_projector):
        np.testing.assert_allclose(getattr(ref, projector.__name__)(q), projector(M, A), atol=1e-14)
        np.testing.assert_array_equal(getattr(dyn, projector.__name__)(q), getattr(ref, projector.__name__)(q))
    for side in (ref, dyn):
        with pytest.raises(wt.SingularSystemError, match="rows depend on each other at this configuration"):
            side.qr_projector(q)


def test_rows_that_are_off_or_yield():
    def switchable(**options):
        return (
            wt.Builder("held", (0, -9.81, 0)).body("b", 1.0, (0.5, 0, 0), (0, 0.1, 0.1))
            .joint("x", "prismatic", "world", "b", axis=(1, 0, 0))
            .frame("nail", "world")
            .constraint("pin", "point_on_plane", "nail", "b", normal=(1, 0, 0), **options).build()
        )  # fmt: skip

    dyn = wt.compile(switchable(switchable=True))
    assert dyn.null_projector([0.0], [1.0]).tolist() == [[0]]
    assert dyn.null_projector([0.0], [0.0]).tolist() == [[1]]
    assert dyn.weighted_pseudo_inverse([0.0], [0.0]).tolist() == [[0]]
    with pytest.raises(wt.UnsupportedError, match="changes when 'pin' are switched"):
        dyn.qr_projector([0.0], [1.0])
    for name in ("qr_projector", "null_projector", "schur_projector", "weighted_pseudo_inverse"):
        with pytest.raises(wt.UnsupportedError, match=f"{name}: 'pin' of model 'held' yield"):
            getattr(wt.compile(switchable(compliance=1e-3)), name)([0.0])


def test_both_projections_of_the_dynamics_vanish_on_the_true_motion():
    model = wt.mechanisms.stewart_platform()
    ref, q = wt.reference(model), model.home.q
    rng = np.random.default_rng(4)
    v, tau = ref.project_velocity(q, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    M, A = ref.mass_matrix(q), ref.constraint_jacobian(q)
    left = M @ ref.forward_dynamics(q, v, tau) + ref.bias(q, v) - tau
    assert np.abs(schur_projector(M, A) @ left).max() < 1e-9
    assert np.abs(qr_projector(A) @ left).max() < 1e-9


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
