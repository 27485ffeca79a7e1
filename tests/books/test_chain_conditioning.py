"""Document 004 through ``wt.conditioning``: κ₂, δ, pivot ratios and the sensitivity of the printed accelerations."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.accuracy.coordinates import compare_coordinates
from whippletree.accuracy.measures import measures, sensitivity

PRINTED_M = np.array(
    [
        [47.0822, 29.7942, 14.7132, 4.0462],
        [29.7942, 19.8629, 10.2993, 2.9427],
        [14.7132, 10.2993, 5.8854, 1.8392],
        [4.0462, 2.9427, 1.8392, 0.7357],
    ]
)
PRINTED_PHI = np.array([-86.6015, -48.7133, -21.6504, -5.4126])
ROUNDED_PHI = np.array([-86.0, -48.7, -21.6, -5.4])


@pytest.mark.parametrize(
    ("n", "kappa"), [(2, 44.26312212), (4, 1074.439531), (10, 43523.35417), (20, 670341.179), (50, 25153772.19)]
)
def test_straight_chains(n, kappa):
    found = wt.conditioning(wt.mechanisms.chain(n, mass=2.2), np.zeros(n))
    assert found.kappa == pytest.approx(kappa, rel=1e-9)
    assert found.diagonal_ratio == pytest.approx(n**3, rel=1e-14)
    assert found.scaled_diagonal_ratio(found.reference_scale) == pytest.approx(found.kappa)
    assert (found.heaviest.joint, found.lightest.joint) == ("joint_1", f"joint_{n}")


def test_printed_matrix_and_accelerations():
    assert round(float(measures(PRINTED_M).kappa)) == 1074  # below (8)
    printed, rounded = sensitivity(PRINTED_M, PRINTED_PHI), sensitivity(PRINTED_M, ROUNDED_PHI)
    assert np.abs(printed.a - [-6.2190, 7.8867, -2.1229, 0.6072]).max() < 5e-5  # (8), of the printed data
    assert np.abs(rounded.a - [-5.7477, 6.7586, -1.2128, 0.2696]).max() < 5e-5  # (9)


def test_small_changes_of_forces_are_large_changes_of_accelerations():
    # 0.69 %, 0.02 %, 0.23 % and 0.23 % of φ become about 7, 14, 42 and 55 % of q̈ (page 35)
    found, change = sensitivity(PRINTED_M, PRINTED_PHI), ROUNDED_PHI - PRINTED_PHI
    percent = 100 * np.abs(found.change(change) / found.a)
    assert percent == pytest.approx([7, 14, 42, 55], abs=1)
    # eq. 4, entry by entry: amplification bounds each of them, κ all together
    assert np.all(np.abs(found.change(change)) <= found.bound(change) * (1 + 1e-12))
    assert np.all(percent / 100 <= found.amplification * np.abs(change / PRINTED_PHI).max())
    together = np.linalg.norm(found.change(change)) / np.linalg.norm(found.a)
    assert together <= found.kappa * np.linalg.norm(change) / np.linalg.norm(PRINTED_PHI)
    assert np.all(found.amplification > 10)


def test_the_report_does_the_same_for_a_model():
    model = replace(wt.mechanisms.chain(4, mass=2.207), gravity=np.array([0, -9.81 / 2, 0]))
    phi = -wt.reference(model).bias(np.zeros(4), np.zeros(4))
    found = wt.conditioning(model, np.zeros(4)).sensitivity(phi)
    assert np.abs(found.a - [-6.21974, 7.88845, -2.12381, 0.60680]).max() < 5e-6


def test_pivot_ratios_differ_by_orders_of_magnitude():
    found = wt.conditioning(wt.mechanisms.chain(20), np.zeros(20))
    assert found.pivot_ratio_base_first > 1e4
    assert found.pivot_ratio_tips_first < 2


def test_absolute_angles_are_better_conditioned():
    # §3 leaves other coordinates open: in absolute angles κ grows with n² instead of n⁴
    ten, forty = (compare_coordinates(wt.mechanisms.chain(n)) for n in (10, 40))
    assert forty.relative.kappa / ten.relative.kappa > 0.9 * 4**4
    assert forty.absolute.kappa / ten.absolute.kappa < 1.1 * 4**2
    assert np.linalg.det(ten.T) == pytest.approx(1)
    assert "absolute joint angles: κ₂ 476.5" in str(ten)
