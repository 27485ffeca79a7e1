"""Ready-made trees: their equations of motion in closed form, and the printed matrix of document 004."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

import whippletree as wt
from whippletree.spatial.joints import KINDS

g = 9.81


def test_pendulum() -> None:
    """m l² θ̈ = −m g l cos θ, with θ from the horizontal."""
    ref = wt.reference(wt.mechanisms.pendulum(length=0.7, mass=3.0))
    for angle in (0.0, 0.4, -np.pi / 2):
        a = ref.forward_dynamics(np.array([angle]), np.zeros(1), np.zeros(1))
        np.testing.assert_allclose(a, [-g * np.cos(angle) / 0.7], atol=1e-12)
        np.testing.assert_allclose(ref.pose("tip")([angle])[:2, 3], [0.7 * np.cos(angle), 0.7 * np.sin(angle)])


def test_double_pendulum() -> None:
    """The textbook mass matrix in relative angles."""
    (l1, l2), (m1, m2), (q1, q2) = (0.5, 0.8), (2.0, 3.0), (0.3, 0.4)
    M = wt.reference(wt.mechanisms.double_pendulum((l1, l2), masses=(m1, m2))).mass_matrix(np.array([q1, q2]))
    cross = m2 * (l2**2 + l1 * l2 * np.cos(q2))
    expected = [[(m1 + m2) * l1**2 + m2 * l2**2 + 2 * m2 * l1 * l2 * np.cos(q2), cross], [cross, m2 * l2**2]]
    np.testing.assert_allclose(M, expected, rtol=1e-14)


def test_cart_pole() -> None:
    """A uniform pole that stands up: (M + m) ẍ − ½ m l cos θ θ̈ …, and it falls over."""
    ref = wt.reference(wt.mechanisms.cart_pole(cart_mass=2.0, pole_mass=3.0, pole_length=0.6))
    angle = 0.2
    M = ref.mass_matrix(np.array([0.1, angle]))
    coupling = -0.5 * 3.0 * 0.6 * np.cos(angle)
    np.testing.assert_allclose(M, [[5.0, coupling], [coupling, 3.0 * 0.6**2 / 3]], rtol=1e-14)
    torque = ref.gravity(np.array([0.1, angle]))
    np.testing.assert_allclose(torque, [0, -3.0 * g * 0.3 * np.sin(angle)], atol=1e-14)


def test_chain_has_the_printed_mass_matrix() -> None:
    """Document 004, eq. 7–9: four rods of 2.207 kg and 1 m."""
    M = wt.reference(wt.mechanisms.chain(4, mass=2.207, length=1.0)).mass_matrix(np.zeros(4))
    printed = [
        [47.0822, 29.7942, 14.7132, 4.0462],
        [29.7942, 19.8629, 10.2993, 2.9427],
        [14.7132, 10.2993, 5.8854, 1.8392],
        [4.0462, 2.9427, 1.8392, 0.7357],
    ]
    np.testing.assert_allclose(M, printed, atol=7e-4)


@pytest.mark.parametrize(("n", "kappa"), [(2, 44.26312212), (4, 1074.439531), (10, 43523.35417), (20, 670341.179)])
def test_straight_chain_condition_number(n: int, kappa: float) -> None:
    M = wt.reference(wt.mechanisms.chain(n)).mass_matrix(np.zeros(n))
    assert np.linalg.cond(M) == pytest.approx(kappa, rel=1e-9)
    assert M[0, 0] / M[-1, -1] == pytest.approx(n**3)


def test_exact_numbers_stay_exact() -> None:
    chain = wt.mechanisms.chain(2, mass=Fraction(2, 3), length=Fraction(1, 2))
    assert chain.bodies[1].inertia[2, 2] == Fraction(1, 72)
    assert isinstance(wt.mechanisms.pendulum(mass=mpmath.mpf(2)).bodies[0].mass, mpmath.mpf)


def test_a_tree_is_the_same_for_the_same_seed() -> None:
    one, same, other = (wt.mechanisms.tree(40, seed=seed) for seed in (1, 1, 2))
    assert one.parents == same.parents
    assert all((a.inertia == b.inertia).all() for a, b in zip(one.bodies, same.bodies, strict=True))
    assert one.parents != other.parents


def test_a_tree_branches_and_mixes_joints() -> None:
    model = wt.mechanisms.tree(60, seed=3)
    assert {joint.kind for joint in model.joints} == set(KINDS)
    assert max(model.parents.count(k) for k in range(len(model.bodies))) > 1
    M = wt.reference(wt.mechanisms.tree(6, seed=3, kinds=("revolute", "spherical"))).mass_matrix
    q = wt.mechanisms.tree(6, seed=3, kinds=("revolute", "spherical")).neutral.q
    assert np.linalg.eigvalsh(M(q))[0] > 0


@pytest.mark.parametrize("make", [wt.mechanisms.chain, wt.mechanisms.tree])
def test_nothing_is_no_mechanism(make: object) -> None:
    with pytest.raises(wt.ModelError, match="n is 0, expected at least 1"):
        make(0)


def test_two_lengths_and_two_masses() -> None:
    with pytest.raises(wt.ModelError, match="lengths has 3 entries, expected 2"):
        wt.mechanisms.double_pendulum(lengths=(1, 2, 3))
