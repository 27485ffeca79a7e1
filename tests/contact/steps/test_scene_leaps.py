"""Where the next sweeps of a scene begin: shares of two directions with the least energy, within bounds."""

import numpy as np
import pytest

from whippletree.compiler.rollout.scene_leaps import FARTHEST, MOST_OF_MOMENTUM, least_energy_shares


def shares(gram: np.ndarray, slopes: np.ndarray, rise: np.ndarray) -> np.ndarray:
    """By products that are spread over three lanes; the fourth is not used, whatever it is."""
    products = np.array([gram[0, 0], gram[0, 1], gram[1, 1], *slopes])
    bend = np.column_stack([0.5 * products, 0.3 * products, 0.2 * products, np.full(5, np.nan)])
    return np.array(least_energy_shares(bend, rise)[0], dtype=float)


def test_shares_are_those_of_the_least_energy() -> None:
    gram, wanted, rise = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([1.7, 0.4]), np.array([0.2, -0.1])
    np.testing.assert_allclose(shares(gram, -gram @ wanted - rise, rise), wanted, rtol=1e-13)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [((20.0, 3.0), (FARTHEST, MOST_OF_MOMENTUM)), ((-1.0, 0.5), (0.0, 0.5)), ((-1.0, -1.0), (0.0, 0.0))],
)
def test_shares_stay_within_their_bounds(wanted: tuple[float, float], found: tuple[float, float]) -> None:
    gram = np.diag([2.0, 1.0])
    np.testing.assert_allclose(shares(gram, -gram @ wanted, np.zeros(2)), found, rtol=1e-13)


def test_two_directions_that_are_one_share_it_once_and_none_none() -> None:
    gram = np.full((2, 2), 2.0)
    np.testing.assert_allclose(shares(gram, np.full(2, -1.0), np.zeros(2)), [0.0, 0.5])
    np.testing.assert_array_equal(shares(np.zeros((2, 2)), np.zeros(2), np.zeros(2)), 0.0)
