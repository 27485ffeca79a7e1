"""Condition numbers by reflections and bisection, on any scalar and compiled, against LAPACK and exact arithmetic."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from strategies import make_model
from whippletree.arithmetic.condition import condition_number, equilibrate, tridiagonal

STRAIGHT = {2: 44.26312212, 4: 1074.439531, 10: 43523.35417}
"""κ₂ of straight chains of uniform rods (004), from exact arithmetic."""


def symmetric(n, seed, definite):
    B = np.random.default_rng(seed).normal(size=(n, n))
    return B @ B.T if definite else B + B.T


@given(n=st.integers(1, 12), seed=st.integers(0, 10**6), definite=st.booleans())
def test_against_singular_values(n, seed, definite):
    A = symmetric(n, seed, definite)
    expected = np.linalg.cond(A)
    found = condition_number(A.astype(object), definite=definite)
    # the smallest eigenvalue is known to n ε of the largest
    assert abs(found / expected - 1) < 3e-9 + 10 * n * 2.3e-16 * expected


@given(n=st.integers(2, 8), seed=st.integers(0, 10**6))
def test_reflections_keep_the_eigenvalues(n, seed):
    A = symmetric(n, seed, definite=False)
    T = tridiagonal(A.astype(object))
    beside = np.sqrt(np.array(T.squares, dtype=float))
    again = np.diag(np.array(T.diagonal, dtype=float)) + np.diag(beside, 1) + np.diag(beside, -1)
    np.testing.assert_allclose(np.linalg.eigvalsh(again), np.linalg.eigvalsh(A), atol=1e-12 * np.abs(A).max() * n)


def test_fifty_digits():
    with mp.workdps(50):
        A = np.array([[mp.mpf(1) / (i + j + 1) for j in range(6)] for i in range(6)], dtype=object)
        values = mp.eigsy(mp.matrix(A.tolist()), eigvals_only=True)
        found = condition_number(A, definite=True)
        assert isinstance(found, mp.mpf)
        assert abs(found / (max(values) / min(values)) - 1) < 3e-9


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [(np.zeros((3, 3)), np.inf), (np.diag([1.0, 0.0, 2.0]), np.inf), (np.eye(4), 1.0), (np.zeros((1, 1)), np.inf),
     (np.zeros((0, 0)), 1.0), (np.array([[0.0, 1.0], [1.0, 0.0]]), 1.0), (np.full((2, 2), np.nan), np.nan)],
)  # fmt: skip
def test_special_matrices(matrix, expected):
    np.testing.assert_allclose(float(condition_number(matrix.astype(object), definite=False)), expected, rtol=3e-9)


def test_a_diagonal_of_ones():
    A = symmetric(5, 3, definite=True)
    scaled = equilibrate(A.astype(object)).astype(float)
    assert (np.diag(scaled) == 1).all()
    root = np.sqrt(np.diag(A))
    np.testing.assert_allclose(scaled, A / np.outer(root, root), rtol=1e-14)


@pytest.mark.parametrize(("rods", "kappa"), STRAIGHT.items())
def test_straight_chains_compiled(rods, kappa):
    found = wt.compile(wt.mechanisms.chain(rods)).condition_number(np.zeros(rods))
    assert abs(found / kappa - 1) < 3e-9


def test_compiled_batches_against_the_report():
    model = make_model((-1, 0, 0, 2, 1), ["revolute", "prismatic", "spherical", "revolute", "helical"], seed=3)
    rng = np.random.default_rng(0)
    q = wt.reference(model).integrate(model.home.q, rng.normal(size=(7, model.nv)))
    dyn = wt.compile(model)
    report = wt.conditioning(model, q)
    np.testing.assert_allclose(dyn.condition_number(q), report.kappa, rtol=3e-9)
    np.testing.assert_allclose(dyn.equilibrated_condition_number(q), report.kappa_equilibrated, rtol=3e-9)


@pytest.mark.parametrize("rocker", [1.0, 0.0])
def test_closed_loops_against_the_report(rocker):
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8), masses=(1.0, 1.0, rocker))
    block, schur = wt.compile(model).block_condition_numbers(model.home.q)
    report = wt.conditioning(model)
    np.testing.assert_allclose(block, report.block.kappa, rtol=3e-9)
    np.testing.assert_allclose(schur, report.schur.kappa, rtol=3e-9)
    assert np.isinf(schur) == (rocker == 0.0)


def test_nan_in_one_lane_stays_there():
    dyn = wt.compile(wt.mechanisms.chain(3))
    q = np.zeros((5, 3))
    q[2, 1] = np.nan
    for kappa in (dyn.condition_number(q), dyn.equilibrated_condition_number(q)):
        assert np.isnan(kappa).tolist() == [False, False, True, False, False]


def test_sensitivity_to_forces_against_the_report():
    model = wt.mechanisms.chain(4)
    q = np.array([0.2, -0.4, 0.3, 0.1])
    phi = np.array([-86.6015, -48.7133, -21.6504, -5.4126])
    a, amplification = wt.compile(model).force_sensitivity(q, phi)
    expected = wt.conditioning(model, q).sensitivity(phi)
    np.testing.assert_allclose(a, expected.a, rtol=1e-10)
    np.testing.assert_allclose(amplification, expected.amplification, rtol=1e-9)


def test_sensitivity_bounds_what_changed_forces_do():
    model = wt.mechanisms.four_bar(masses=(1.0, 1.0, 0.0))
    dyn, q = wt.compile(model), model.home.q
    rng = np.random.default_rng(1)
    b = rng.normal(size=(200, 3))
    a, amplification = dyn.force_sensitivity(q, b)
    changed, _ = dyn.force_sensitivity(q, b * (1 + 1e-6 * rng.uniform(-1, 1, b.shape)))
    growth = np.abs(changed - a) / np.abs(a) / 1e-6
    assert (growth <= amplification * (1 + 1e-6)).all()
    assert growth.max() > 0.3 * amplification[np.unravel_index(growth.argmax(), growth.shape)]


def test_no_force_no_acceleration_no_digits():
    a, amplification = wt.reference(wt.mechanisms.chain(2)).force_sensitivity(np.zeros(2), np.zeros(2))
    assert (a == 0).all()
    assert np.isposinf(np.asarray(amplification, dtype=float)).all()
