"""Conditioning by every road: reference, compiled code, closed form; and measured errors below the predicted ones."""

import numpy as np
import pytest
from hypothesis import given
from studies import routes
from studies.models import graded_chain, planar_mass_matrix, random_state
from studies.series import series

import whippletree as wt
from strategies import motions
from whippletree.accuracy.measures import measures
from whippletree.accuracy.predicted_error import CLOSED_ROUTES, TREE_ROUTES, predicted_errors, residual_bound
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.functions import find

FACTORISATIONS = ("cholesky", "block", "augmented")


@pytest.fixture(scope="module")
def trees():
    """The ensemble of docs/conditioning.md."""
    return [routes.measured_and_predicted(case) for case in routes.tree_cases()]


@pytest.mark.slow
def test_prediction_bounds_every_error_of_trees(trees):
    assert [o.case.name for o in trees if not o.bounded] == []
    assert any("chain 64" in o.case.name for o in trees)


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("route", FACTORISATIONS)
def test_prediction_is_within_a_hundred_for_factorisations(trees, route, record_property):
    least, middle, most = routes.overestimation(trees, (route,))[route]
    record_property("note", f"predicted / measured error, {route}: {least:.0f} … {middle:.0f} … {most:.0f}")
    assert least >= 1
    assert middle <= 100


@pytest.mark.slow
def test_the_recursion_is_the_default_for_a_reason(trees):
    for o in trees:
        assert o.measured["recursive"] < 2e-14
        assert o.predicted["recursive"] < 1e-10


@pytest.mark.slow
def test_cholesky_follows_the_equilibrated_kappa(trees):
    by_name = {o.case.name: o for o in trees}
    light, heavy = by_name["light tip 32, straight"], by_name["heavy tip 32, straight"]
    # κ 5e11 with light tips, and Cholesky keeps twelve digits; with heavy tips δ is harmless and it keeps two
    assert light.mass.kappa > 1e11
    assert light.mass.kappa_equilibrated < 1e4
    assert light.measured["cholesky"] < 1e-11
    assert heavy.measured["cholesky"] > 1e-4
    assert heavy.mass.diagonal_ratio < 1e4 < 1e14 < heavy.mass.kappa


def test_prediction_bounds_every_error_of_closed_loops():
    outcomes = [routes.measured_and_predicted(case) for case in routes.closed_cases()]
    assert [o.case.name for o in outcomes if not o.bounded] == []
    for least, middle, _ in routes.overestimation(outcomes, CLOSED_ROUTES).values():
        assert least >= 1
        assert middle <= 100
    massless = next(o for o in outcomes if "massless" in o.case.name)
    assert massless.predicted["schur"] == np.inf
    assert massless.predicted["augmented"] < 1e-12


@given(motions())
def test_residual_bounds_the_difference_of_routes(case):
    """Two accelerations of the same state differ by no more than the sum of their bounds."""
    model, (q, v, _, tau) = case
    ref = wt.reference(model)
    M, c = ref.mass_matrix(q), ref.bias(q, v)
    a = ref.forward_dynamics(q, v, tau)
    other = np.linalg.solve(M, tau - c) if model.nv else a
    bounds = [residual_bound(model, q, v, tau, x).error for x in (a, other)]
    assert np.all(np.abs(a - other) <= sum(bounds) * (1 + 1e-9))


def test_residual_bound_knows_a_wrong_answer():
    model = wt.mechanisms.chain(6)
    q, v, tau = random_state(model, np.random.default_rng(0))
    a = wt.reference(model).forward_dynamics(q, v, tau)
    assert residual_bound(model, q, v, tau, a).relative < 1e-10
    wrong = residual_bound(model, q, v, tau, a + 1e-3)
    assert np.all(wrong.error >= 1e-3 * (1 - 1e-6))


def test_residual_of_an_undetermined_acceleration():
    model = wt.mechanisms.double_pendulum(masses=(1.0, 0.0))
    nothing = np.zeros(2)
    assert residual_bound(model, nothing, nothing, nothing, nothing).relative == np.inf


# --- the estimates ----------------------------------------------------------------------------------------------------


@given(motions())
def test_diagonal_and_pivots_by_every_road(case):
    model, (q, v, _, tau) = case
    ref = wt.reference(model)
    M = ref.mass_matrix(q)
    diagonal = ref.diagonal_of_mass_matrix(q)
    assert diagonal == pytest.approx(np.diag(M), rel=1e-12)
    a, ratio = ref.forward_dynamics_with_diagonal_ratio(q, v, tau)
    assert a == pytest.approx(ref.forward_dynamics(q, v, tau), rel=0, abs=0)
    assert ratio == ref.diagonal_ratio(q)
    assert ratio == pytest.approx(diagonal.max() / diagonal.min() if len(diagonal) else 1)
    found = measures(M)
    if found.kappa_equilibrated < 1e8:
        base, tips = ref.pivot_ratios(q)
        assert base == pytest.approx(float(found.pivot_ratio_base_first), rel=1e-5)
        assert tips == pytest.approx(float(found.pivot_ratio_tips_first), rel=1e-5)
        assert found.kappa == pytest.approx(np.linalg.cond(M) if len(M) else 1, rel=1e-5)


def test_compiled_is_the_reference():
    model = wt.mechanisms.tree(6, seed=2)
    rng = np.random.default_rng(0)
    states = [random_state(model, rng) for _ in range(5)]
    q, v, tau = (np.array([s[i] for s in states]) for i in range(3))
    dyn, ref = wt.compile(model), wt.reference(model)
    for name in ("diagonal_of_mass_matrix", "diagonal_ratio", "pivot_ratios"):
        for ours, theirs in zip(
            np.atleast_1d(getattr(dyn, name)(q)), np.atleast_1d(getattr(ref, name)(q)), strict=True
        ):
            assert ours == pytest.approx(theirs, rel=1e-11)
    a, diagonal = dyn.forward_dynamics_with_diagonal(q, v, tau)
    assert np.array_equal(a, dyn.forward_dynamics(q, v, tau))
    assert diagonal == pytest.approx(ref.diagonal_of_mass_matrix(q), rel=1e-12)
    assert np.isnan(dyn.diagonal_ratio(np.full(model.nq, np.nan)))


def test_loops_over_bodies():
    n = 100  # beyond the bodies that are unrolled
    rng = np.random.default_rng(0)
    q = rng.uniform(-1, 1, n)
    dyn = wt.compile(wt.mechanisms.chain(n))
    a, diagonal = dyn.forward_dynamics_with_diagonal(q, 0 * q, 0 * q)
    assert diagonal == pytest.approx(np.diag(planar_mass_matrix(q)), rel=1e-12)
    assert a == pytest.approx(dyn.forward_dynamics(q, 0 * q, 0 * q), rel=1e-12)


@pytest.mark.parametrize("model", [wt.mechanisms.chain(20), wt.mechanisms.tree(20, seed=1)], ids=lambda m: m.name)
def test_the_ratio_costs_at_most_a_quarter(model):
    def operations(name):
        return len(unrolled_program(model, find(name, model)).body[0].code.nodes)

    assert operations("forward_dynamics_with_diagonal_ratio") <= 1.25 * operations("forward_dynamics")


def test_the_ratio_is_nearly_free_where_m_is_formed():
    model = wt.mechanisms.n_four_bar(3)

    def operations(name):
        return len(unrolled_program(model, find(name, model)).body[0].code.nodes)

    assert operations("forward_dynamics_with_diagonal_ratio") <= 1.10 * operations("forward_dynamics")


def test_closed_form_of_long_chains():
    q = np.random.default_rng(0).uniform(-1, 1, 9)
    assert planar_mass_matrix(q) == pytest.approx(wt.reference(wt.mechanisms.chain(9)).mass_matrix(q), rel=1e-12)


def test_batches_have_the_shape_of_their_states():
    q = np.random.default_rng(0).uniform(-1, 1, (2, 3, 4))
    found = wt.conditioning(wt.mechanisms.chain(4), q, scale=2.0)
    assert found.kappa.shape == found.scaled_diagonal_ratio().shape == (2, 3)
    assert found.kappa[1, 2] == wt.conditioning(wt.mechanisms.chain(4), q[1, 2]).kappa
    assert found.kappa[found.worst] == found.kappa.max()
    assert "6 states" in str(found)


def test_units_change_kappa_and_not_the_equilibrated_one():
    # the same cart-pole in metres and in millimetres: forces along the slide scale, nothing else changes
    M = wt.reference(wt.mechanisms.cart_pole()).mass_matrix(np.array([0.0, 0.3]))
    scale = np.diag([1e-3, 1.0])
    raw, scaled = measures(M), measures(scale @ M @ scale)
    assert raw.kappa != pytest.approx(float(scaled.kappa), rel=0.5)
    assert raw.kappa_equilibrated == pytest.approx(float(scaled.kappa_equilibrated))


def test_kappa_of_a_badly_scaled_matrix_keeps_its_digits():
    import mpmath

    model = graded_chain(12, 0.03)  # κ = 1e17: the eigenvalues of M alone would be noise
    M = wt.reference(model).mass_matrix(np.zeros(12))
    with mpmath.workdps(60):
        values = mpmath.eigsy(mpmath.matrix(M.tolist()), eigvals_only=True)
        kappa = float(max(values) / min(values))
    assert kappa > 1e15
    assert wt.conditioning(model, np.zeros(12)).kappa == pytest.approx(kappa, rel=1e-9)


def test_constrained_models_have_three_matrices():
    model = wt.mechanisms.four_bar()
    found = wt.conditioning(model)
    q = model.home.q
    M, A = wt.reference(model).mass_matrix(q), wt.reference(model).constraint_jacobian(q)
    A = A[list(wt.constraint_set(model).structure.independent)]
    K = np.block([[M, A.T], [A, np.zeros((len(A), len(A)))]])
    assert found.block.kappa == pytest.approx(np.linalg.cond(K), rel=1e-9)
    assert found.block.kappa_equilibrated < found.block.kappa
    S = A @ np.linalg.solve(M, A.T)
    assert found.schur.kappa == pytest.approx(np.linalg.cond(S), rel=1e-9)
    massless = wt.conditioning(wt.mechanisms.crank_slider(rod_mass=0.0))
    assert massless.kappa == massless.schur.kappa == np.inf
    assert massless.block.kappa < 100


def test_series_of_a_bending_chain():
    bends = np.linspace(0, 1, 5)
    found = series("bending", bends, np.array([planar_mass_matrix(np.full(12, b)) for b in bends]))
    assert found.scaled[0] == pytest.approx(found.mass.kappa[0])
    assert found.correlations()["diagonal_ratio"] > 0.9


def test_predictions_of_models_that_cannot_fail():
    stone = wt.Builder("stone").body("block", mass=1.0).joint("base", "weld", "world", "block").build()
    assert set(predicted_errors(stone, np.zeros(0))) == set(TREE_ROUTES)
    assert max(predicted_errors(wt.mechanisms.pendulum(), [0.3]).values()) < 1e-14
    assert all(np.isnan(x) for x in predicted_errors(wt.mechanisms.pendulum(), [np.nan]).values())
