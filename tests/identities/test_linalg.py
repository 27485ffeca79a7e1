"""Factorisations: exact on Fractions, to 45 of 50 digits on mpmath, and backward stable on floats."""

from fractions import Fraction
from itertools import pairwise
from random import Random

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strategies import convert, digits, full_rank, positive_definite, rational, rationals, seeds, trees
from whippletree.arithmetic import linalg
from whippletree.arithmetic.trace import Trace, evaluate, finish

sizes = st.integers(0, 6)


def eye(n):
    return np.eye(n, dtype=int).astype(object)


def is_lower(L):
    return not np.any(np.triu(L, 1) != 0)


def tree_matrix(parents, seed):
    """A positive definite matrix with zeros for unrelated pairs: W Wᵀ; column k of W is on k and its ancestors."""
    rng, n = Random(seed), len(parents)
    W = np.zeros((n, n), dtype=object)
    for k in range(n):
        W[k, k] = 1 + abs(rationals(rng, 1)[0])
        for j in linalg.ancestors(parents, k):
            W[j, k] = rationals(rng, 1)[0]
    return W @ W.T


# --- L D Lᵀ and Cholesky ----------------------------------------------------------------------------------------------


@given(sizes, seeds)
def test_ldlt_is_exact(n, seed):
    A = positive_definite(Random(seed), n)
    L, D, reciprocals = linalg.ldlt(A)
    assert is_lower(L)
    assert (np.diag(L) == 1).all()
    assert (L @ np.diag(D).reshape(n, n) @ L.T == A).all()
    assert all(d > 0 and d * r == 1 for d, r in zip(D, reciprocals))


@given(sizes, st.integers(1, 3), seeds)
def test_ldlt_solves_vectors_and_columns_exactly(n, m, seed):
    rng = Random(seed)
    A, B = positive_definite(rng, n), rationals(rng, n, m)
    factor = linalg.ldlt(A)
    X = factor.solve(B)
    assert (A @ X == B).all()
    assert (factor.solve(B[:, 0]) == X[:, 0]).all()
    assert (factor.L @ factor.forward(B) == B).all()
    assert (factor.L.T @ factor.backward(B) == B).all()


@given(st.integers(2, 5), seeds)
def test_ldlt_counts_the_signs_of_an_indefinite_matrix(n, seed):
    """Sylvester's law: as many negative pivots as the diagonal matrix in the middle has."""
    rng = Random(seed)
    W = eye(n) + np.tril(rationals(rng, n, n), -1)
    signs = [rng.choice([-1, 1]) for _ in range(n)]
    pivots = linalg.ldlt(W @ np.diag(signs) @ W.T).pivots
    assert [int(np.sign(float(d))) for d in pivots] == signs


@pytest.mark.parametrize("number", [Fraction, float, mpmath.mpf])
@pytest.mark.parametrize("factor", [linalg.ldlt, lambda A, **options: linalg.tree_ltdl(A, (-1, 0), **options)])
def test_a_zero_pivot_is_an_error_unless_the_caller_looks(factor, number):
    A = np.array([[number(1), number(1)], [number(1), number(1)]], dtype=object)
    with pytest.raises(ZeroDivisionError):
        factor(A)
    found = factor(A, lenient=True)
    assert sorted(found.pivots) == [0, 1]
    assert [bool(r != r) for r in found.reciprocals] == [bool(d == 0) for d in found.pivots]


@given(st.integers(1, 6), seeds)
def test_cholesky_has_the_digits_of_its_scalars(n, seed):
    A = positive_definite(Random(seed), n)
    with mpmath.workdps(50):
        exact = convert(A, digits)
        L = linalg.cholesky(exact)
        assert is_lower(L)
        assert all(x > 0 for x in np.diag(L))
        assert max(abs(x) for x in (L @ L.T - exact).flat) < mpmath.mpf(10) ** -45 * max(abs(x) for x in exact.flat)
    floats = linalg.cholesky(convert(A, float)).astype(float)
    assert abs(floats @ floats.T - A.astype(float)).max() <= 8 * n * np.finfo(float).eps * float(abs(A).max())


@given(st.integers(1, 6), seeds)
def test_a_float_solution_has_a_small_residual(n, seed):
    rng = Random(seed)
    A, b = convert(positive_definite(rng, n), float), convert(rationals(rng, n), float)
    x = linalg.ldlt(A).solve(b).astype(float)
    assert abs(A @ x - b).max() <= 8 * n * n * np.finfo(float).eps * (abs(A).max() * abs(x).max() + abs(b).max())


def test_factorisations_can_be_traced():
    trace = Trace()
    a, b, c = trace.inputs(3)
    x = linalg.ldlt(np.array([[a, b], [b, c]], dtype=object)).solve(np.array([1, 0]))
    values = evaluate(finish(trace, list(x)), [4.0, 1.0, 2.0])
    assert values == pytest.approx([2 / 7, -1 / 7], rel=1e-15)


# --- Lᵀ D L along a tree ----------------------------------------------------------------------------------------------


@given(trees(max_size=8), seeds)
def test_the_tree_factor_is_exact_and_has_no_fill_in(parents, seed):
    A = tree_matrix(parents, seed)
    factor = linalg.tree_ltdl(A, parents)
    L, D = factor.L, np.diag(factor.pivots)
    assert (L.T @ D @ L == A).all()
    assert is_lower(L)
    for i in range(len(parents)):
        related = {i, *linalg.ancestors(parents, i)}
        assert all(L[i, j] == 0 for j in range(len(parents)) if j not in related)


@given(trees(max_size=8), st.integers(1, 3), seeds)
def test_the_tree_factor_solves_exactly(parents, m, seed):
    A, B = tree_matrix(parents, seed), rationals(Random(seed + 1), len(parents), m)
    factor = linalg.tree_ltdl(A, parents)
    assert (A @ factor.solve(B) == B).all()
    assert (factor.solve(B[:, 0]) == factor.solve(B)[:, 0]).all()
    assert (factor.L @ factor.forward(B) == B).all()
    assert (factor.L.T @ factor.backward(B) == B).all()


@given(trees(max_size=8), seeds)
def test_eliminating_entry_by_entry_does_the_same_to_the_same_bits(parents, seed):
    A = convert(tree_matrix(parents, seed), float)
    columns, rows = (linalg.tree_ltdl(A, parents, by_rows=by_rows) for by_rows in (False, True))
    assert (columns.L == rows.L).all()
    assert (columns.pivots == rows.pivots).all()


@given(trees(max_size=8), seeds)
def test_both_factorisations_have_the_same_determinant(parents, seed):
    A = tree_matrix(parents, seed)
    assert np.prod(linalg.tree_ltdl(A, parents).pivots) == np.prod(linalg.ldlt(A).pivots)


@given(trees(), seeds)
def test_a_shuffled_tree_is_eliminated_without_fill_in(parents, seed):
    """Of links about common joints, not of a mass matrix: neighbours only."""
    n = len(parents)
    names = Random(seed).sample(range(n), n)
    A = 2 * n * eye(n)
    for k, parent in enumerate(parents):
        if parent >= 0:
            A[names[k], names[parent]] = A[names[parent], names[k]] = 1
    order = linalg.sparse_order(A != 0)
    assert sorted(order) == list(range(n))
    L = linalg.tree_ltdl(A[np.ix_(order, order)], range(-1, n - 1)).L
    assert np.count_nonzero(L) == n + sum(parent >= 0 for parent in parents)


def test_the_input_is_left_alone():
    A = positive_definite(Random(0), 3)
    before = A.copy()
    linalg.tree_ltdl(A, (-1, 0, 1))
    linalg.ldlt(A)
    linalg.pivoted_qr(convert(A, float))
    assert (before == A).all()


# --- Q R with column pivoting -----------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 5), seeds)
def test_pivoted_qr_has_the_digits_of_its_scalars(m, n, seed):
    with mpmath.workdps(50):
        A = convert(rationals(Random(seed), m, n), digits)
        Q, R, order = linalg.pivoted_qr(A)
        tiny = mpmath.mpf(10) ** -45
        assert max(abs(x) for x in (Q.T @ Q - eye(m)).flat) < tiny
        assert max(abs(x) for x in (Q @ R - A[:, list(order)]).flat) < tiny * 10
        assert max([0, *(abs(R[i, j]) for i in range(m) for j in range(min(i, n)))]) < tiny * 10
        diagonal = [abs(R[k, k]) for k in range(min(m, n))]
        assert all(a >= b - tiny for a, b in pairwise(diagonal))
        assert sorted(order) == list(range(n))


@given(st.integers(1, 5), st.integers(1, 5), seeds)
def test_pivoted_qr_reveals_the_rank(m, n, seed):
    rng = Random(seed)
    r = rng.randint(0, min(m, n))
    A = convert(full_rank(rng, m, r) @ full_rank(rng, n, r).T, float)
    factor = linalg.pivoted_qr(A)
    assert factor.rank(1e-10) == r
    Q, R = factor.Q.astype(float), factor.R.astype(float)
    assert abs(Q @ R - A[:, list(factor.order)]).max() < 1e-13 * (1 + abs(A).max())


def test_pivoted_qr_of_nothing():
    assert linalg.pivoted_qr(np.zeros((3, 2))).rank(1e-12) == 0
    assert linalg.pivoted_qr(np.zeros((3, 0))).rank(1e-12) == 0
    assert linalg.pivoted_qr(np.zeros((0, 2))).rank(1e-12) == 0


# --- null spaces and products of floats -------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n", "rank"), [(3, 5, 2), (5, 3, 3), (4, 4, 0), (0, 3, 0), (2, 0, 0)])
def test_null_spaces_are_orthonormal_and_vanish_on_both_sides(m, n, rank):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n))
    N, L = linalg.null_spaces(A, 1e-12)
    assert (N.shape, L.shape) == ((n, n - rank), (m, m - rank))
    for basis, zero in ((N, A @ N), (L, L.T @ A)):
        np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-14)
        np.testing.assert_allclose(zero, 0, atol=1e-14)


@pytest.mark.parametrize(("size", "rank"), [(None, 2), (1.0, 2), (1e4, 1)])
def test_null_spaces_count_singular_values_above_the_tolerance(size, rank):
    """Relative to the largest one, 2, or to a size that is given."""
    N, _ = linalg.null_spaces(np.diag([2.0, 1e-7]), 1e-9, size)
    assert N.shape[1] == 2 - rank
    assert linalg.null_spaces(np.diag([2.0, 1e-9]), 1e-9).right.shape[1] == 1


def test_a_symmetric_product_sums_its_pairs():
    F, H = np.arange(6).reshape(3, 2).astype(object), np.arange(9).reshape(3, 3).astype(object)
    np.testing.assert_array_equal(linalg.symmetric_product(F, 2 * F), 2 * F @ F.T)
    np.testing.assert_array_equal(linalg.symmetric_product(F, F, H, 3 * H), F @ F.T + 3 * H @ H.T)


@given(seeds, st.integers(1, 5), st.integers(0, 3))
def test_rows_that_are_eliminated_leave_every_motion(seed, k, free):
    """A X = 0 with as many columns as A leaves, A p = b, and Aᵀ f = Aᵀ g gives f = g: exactly, with zeros anywhere."""
    rng = Random(seed)
    n = k + free
    A = np.array([[Fraction(rng.randint(-3, 3), 7) for _ in range(n)] for _ in range(k)], dtype=object)
    rank = np.linalg.matrix_rank(A.astype(float))
    assume(rank == k)
    rows = linalg.eliminate_rows(A, [rng.choice((0.01, 1.0, 300.0)) for _ in range(k)])
    X = rows.motions()
    assert X.shape == (n, free)
    assert (A @ X == 0).all()
    assert np.linalg.matrix_rank(X.astype(float)) == free
    b = np.array([rational(rng) for _ in range(k)], dtype=object)
    assert (A @ rows.solve(b) == b).all()
    assert (rows.multipliers(A.T @ b) == b).all()


@given(seeds)
def test_an_eliminated_row_that_repeats_others_is_nothing(seed):
    rng = Random(seed)
    A = np.array([[Fraction(rng.randint(1, 9), 7) for _ in range(4)] for _ in range(3)], dtype=object)
    A[2] = A[0] - 2 * A[1]
    assert linalg.eliminate_rows(A, [1.0] * 3).squares[2] == 0
