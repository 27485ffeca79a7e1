"""Document 004: S. V. Shah and S. K. Saha, "Correlation between diagonal ratio and condition number of the generalized
inertia matrix of a serial-chain", Archive of Mechanical Engineering LX (2013), eq. 7–9 and section 4.

The printed matrix belongs to m = 2.207 kg (the text says 2.2), and φ to gravity at 30° to the chain.
"""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic import linalg

PRINTED_M = np.array(
    [
        [47.0822, 29.7942, 14.7132, 4.0462],
        [29.7942, 19.8629, 10.2993, 2.9427],
        [14.7132, 10.2993, 5.8854, 1.8392],
        [4.0462, 2.9427, 1.8392, 0.7357],
    ]
)
ROUNDED_PHI = [-86.0, -48.7, -21.6, -5.4]
PRINTED_PHI = [-86.6015, -48.7133, -21.6504, -5.4126]
EXACT_MODEL = [-6.21974, 7.88845, -2.12381, 0.60680]
"""Accelerations of the model that the printed matrix belongs to, from the project's list of reference problems."""


def chain_across_gravity(mass=2.207, gravity=9.81):
    """Four rods along x, with sin 30° of gravity across them."""
    return replace(wt.mechanisms.chain(4, mass=mass), gravity=np.array([0, -gravity / 2, 0]))


def straight_chain(n):
    """M / (m l²) and c / (m l g) of the straight chain, exactly: sums over the rods beyond both joints."""
    M, c = np.empty((n, n), dtype=object), np.empty(n, dtype=object)
    center = [Fraction(2 * k + 1, 2) for k in range(n)]
    for i in range(n):
        c[i] = sum((x - i for x in center[i:]), Fraction(0))
        for j in range(n):
            M[i, j] = sum((Fraction(1, 12) + (x - i) * (x - j) for x in center[max(i, j) :]), Fraction(0))
    return M, c


def test_printed_inertia_matrix():
    # m is known to three decimals, so entries of up to 47 are known to about 5e-4
    M = wt.reference(chain_across_gravity()).mass_matrix(np.zeros(4))
    assert np.abs(M - PRINTED_M).max() < 5e-4


def test_inertia_matrix_is_the_exact_one():
    M = wt.reference(chain_across_gravity()).mass_matrix(np.zeros(4))
    assert pytest.approx(2.207 * straight_chain(4)[0].astype(float), rel=4e-16) == M


def test_printed_forces():
    # φ = −c: 8 m l · 9.81/2 = 86.6027 for the first joint, printed as 86.6015
    c = wt.reference(chain_across_gravity()).bias(np.zeros(4), np.zeros(4))
    assert -c == pytest.approx(PRINTED_PHI, rel=2e-5)


@pytest.mark.parametrize(
    ("phi", "expected"),
    [
        (
            PRINTED_PHI,
            [-6.2190, 7.8867, -2.1229, 0.6072],
        ),  # the paper had more digits: −6.2189, 7.8864, −2.1226, 0.6071
        (ROUNDED_PHI, [-5.7477, 6.7586, -1.2128, 0.2696]),
    ],
)
def test_accelerations_of_the_printed_data(phi, expected):
    qdd = linalg.ldlt(PRINTED_M.astype(object)).solve(np.array(phi)).astype(float)
    assert np.abs(qdd - expected).max() < 5e-5
    assert qdd == pytest.approx(np.linalg.solve(PRINTED_M, phi), rel=1e-11)


def test_accelerations_of_the_exact_model():
    M, c = straight_chain(4)
    exact = -linalg.ldlt(M).solve(c) * Fraction("4.905")
    assert (M @ exact == -c * Fraction("4.905")).all()
    assert np.abs(exact.astype(float) - EXACT_MODEL).max() < 5e-6
    qdd = wt.reference(chain_across_gravity()).forward_dynamics(np.zeros(4), np.zeros(4), np.zeros(4))
    assert np.abs(qdd - exact.astype(float)).max() < 1e-10
    with mpmath.workdps(50):
        model = chain_across_gravity(mpmath.mpf("2.207"), mpmath.mpf("9.81"))
        zero = np.array([mpmath.mpf(0)] * 4)
        digits = wt.reference(model).forward_dynamics(zero, zero, zero)
        assert max(abs(x - mpmath.mpf(e.numerator) / e.denominator) for x, e in zip(digits, exact)) < 1e-45


@pytest.mark.parametrize(
    ("n", "kappa"), [(2, 44.26312212), (4, 1074.439531), (10, 43523.35417), (20, 670341.179), (50, 25153772.19)]
)
def test_condition_number_of_the_straight_chain(n, kappa):
    # the largest eigenvalue of the inverse is accurate where the smallest one of M has lost seven digits
    ref, q = wt.reference(wt.mechanisms.chain(n)), np.zeros(n)
    largest = np.linalg.eigvalsh(ref.mass_matrix(q))[-1]
    smallest = 1 / np.linalg.eigvalsh(ref.mass_matrix_inverse(q))[-1]
    assert largest / smallest == pytest.approx(kappa, rel=6e-10)


@pytest.mark.parametrize("n", [2, 4, 10, 20, 50])
def test_diagonal_ratio_is_the_cube_of_the_number_of_rods(n):
    M = wt.reference(wt.mechanisms.chain(n, mass=2.2)).mass_matrix(np.zeros(n))
    assert M[0, 0] / M[-1, -1] == pytest.approx(n**3, rel=1e-14)


def test_condition_number_of_the_printed_matrix():
    assert round(np.linalg.cond(PRINTED_M)) == 1074
    pivots = linalg.ldlt(PRINTED_M.astype(object)).pivots
    assert np.prod(pivots.astype(float)) == pytest.approx(np.linalg.det(PRINTED_M), rel=1e-10)
