"""Pseudo-inverses by borders against those by singular values."""

import numpy as np
import pytest

from whippletree.simulation.events.load_sharing import PseudoInverse


def family(random, n, rows, extra, count, step):
    """Block matrices [M −Eᵀ; R 0] of neighbouring states, ``extra`` of whose rows depend on the others."""
    B = random.standard_normal((n, n))
    R, change = random.standard_normal((2, rows, n))
    mix = random.standard_normal((extra, rows))
    found = []
    for k in range(count):
        full = np.concatenate([R + k * step * change, mix @ (R + k * step * change)])
        r = len(full)
        found.append(np.block([[B @ B.T + np.eye(n), -full.T], [full, np.zeros((r, r))]]))
    return np.array(found)


def compare(inverse, K):
    both = np.outer(inverse.units(K), inverse.units(K))
    expected = both * np.linalg.pinv(K * both, rcond=1e-12)
    assert np.abs(inverse(K) - expected).max() <= 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize(("n", "rows", "extra"), [(6, 6, 6), (6, 3, 1), (12, 5, 4), (3, 1, 1), (4, 2, 0)])
def test_of_neighbours(n, rows, extra):
    random = np.random.default_rng(n + 10 * rows)
    inverse = PseudoInverse(n)
    K = family(random, n, rows, extra, 8, 1e-2)
    compare(inverse, K)
    compare(inverse, K[5:])


def test_of_matrices_that_have_another_rank():
    random = np.random.default_rng(5)
    K = family(random, 8, 3, 2, 4, 1e-2)
    inverse = PseudoInverse(8)
    inverse(K)
    K[2, -1] += np.append(random.standard_normal(8), np.zeros(5))  # a row that depends on none
    compare(inverse, K)
    compare(inverse, family(random, 8, 5, 0, 3, 1e-2))


def test_of_zero():
    assert np.all(PseudoInverse(2)(np.zeros((2, 3, 3))) == 0)


def test_units_do_not_decide_ranks():
    random = np.random.default_rng(7)
    (K,) = family(random, 6, 3, 4, 1, 0.0)
    mass, length = 1e12, 1e3
    units = np.array([length, length, length, 1, 1, 1, *[1.0] * 7])  # of velocities: a turn moves a point that far
    far = K * np.outer(units, units)
    far[:6, :6] *= mass
    right = K @ random.standard_normal(13)
    plain = PseudoInverse(6)(K[None])[0] @ right
    x = PseudoInverse(6)(far[None])[0] @ (right * np.array([*(mass * units[:6]), *units[6:]]))
    np.testing.assert_allclose(x[:6] * units[:6], plain[:6], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(K[:6, 6:] @ x[6:] / mass, K[:6, 6:] @ plain[6:], rtol=1e-9, atol=1e-9)


def test_what_is_no_number_has_no_inverse():
    random = np.random.default_rng(3)
    K = family(random, 6, 3, 2, 3, 1e-2)
    K[1, 2, 3] = np.nan
    inverse = PseudoInverse(6)
    inverse(K[:1])
    assert np.isnan(inverse(K)[1]).all()
    assert np.isfinite(inverse(K)[[0, 2]]).all()
