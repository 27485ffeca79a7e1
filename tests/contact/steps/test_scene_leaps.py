"""Where the next sweeps of a scene begin: shares of two directions with the least energy, within bounds."""

import numpy as np
import pytest

from whippletree.compiler.rollout.scenes.scene_leaps import (
    FARTHEST,
    MOST_OF_MOMENTUM,
    WITH_LEAPS,
    WITHOUT_LEAPS,
    least_energy_shares,
    shares_that_pay,
)


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


def watched(changes: np.ndarray) -> list[bool]:
    """Whether each pair of sweeps is followed by a leap, where pairs change impulses so much."""
    leaping, left, least = [1.0], [float(WITH_LEAPS)], [np.inf, np.inf]
    found = []
    for change in changes:
        shares, leaping, left, least = shares_that_pay([change], [0.5, 0.25], leaping, left, least)
        assert list(shares) in ([0.5, 0.25], [0, 0])
        found.append(bool(shares[0]))
    return found


def test_leaps_go_on_while_changes_fall() -> None:
    assert all(watched(0.99 ** np.arange(10 * WITH_LEAPS)))


def test_leaps_that_lead_nowhere_and_sweeps_that_creep_take_turns() -> None:
    """A stretch is compared with the one before of its sort, so each sort has two of them."""
    turn = 2 * (WITH_LEAPS + WITHOUT_LEAPS)
    leaps = watched(np.ones(2 * turn))
    assert leaps.index(False) == 2 * WITH_LEAPS - 1  # the pair that ends the second stretch is the first without
    assert sum(leaps) == 2 * 2 * WITH_LEAPS
    assert leaps[:turn] == leaps[turn:]


def test_sweeps_without_leaps_go_on_while_changes_fall() -> None:
    flat, falls = np.ones(2 * WITH_LEAPS), 0.99 ** np.arange(6 * WITHOUT_LEAPS)
    leaps = watched(np.concatenate([flat, falls]))
    assert not any(leaps[len(flat) :])


def test_a_leap_needs_no_change_that_is_finite() -> None:
    """Changes that are not numbers end no stretch early, and are no smallest one."""
    assert all(watched(np.full(WITH_LEAPS - 1, np.nan)))
