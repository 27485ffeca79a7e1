"""Ready-made mechanisms that touch: they start where they say, and their closed forms follow from M and J alone.

What simulations make of them is tested with the simulations.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import whippletree as wt

MECHANISMS = wt.mechanisms
SMALL = {"box_stack": {"n": 3}, "spheres_in_box": {"n": 5}}
TOUCHING = {
    "bouncing_ball": 0, "sliding_block": 1, "rocking_block": 1, "painleve_rod": 1, "rimless_wheel": 1,
    "simplest_walker": 2, "hopper": 0, "planar_biped": 2, "quadruped": 4, "humanoid": 8, "newtons_cradle": 1,
    "box_stack": 12, "spheres_in_box": 0,
}  # fmt: skip
"""How many candidates touch at the start."""


def rows(model: wt.Model, q: np.ndarray, names: list[str]) -> np.ndarray:
    """Normal and first tangent of some candidates, (2 n, nv)."""
    J = wt.reference(model).contact_jacobian(q).reshape(-1, 3, model.nv)
    numbers = [wt.contact_set(model).names.index(name) for name in names]
    return J[numbers, :2].reshape(-1, model.nv)


def plastic(model: wt.Model, q: np.ndarray, v: np.ndarray, names: list[str]) -> np.ndarray:
    """v⁺ with the named candidates brought to rest: v − M⁻¹ Aᵀ (A M⁻¹ Aᵀ)⁻¹ A v."""
    A, M = rows(model, q, names), wt.reference(model).mass_matrix(q)
    return v - np.linalg.solve(M, A.T @ np.linalg.solve(A @ np.linalg.solve(M, A.T), A @ v))


@pytest.mark.parametrize("name", TOUCHING)
def test_starts_without_overlap_and_does_not_move_into_its_contacts(name):
    model = getattr(MECHANISMS, name)(**SMALL.get(name, {}))
    ref, home = wt.reference(model), model.home
    gaps = ref.contact_gaps(home.q)
    assert gaps.min() > -1e-15
    touching = np.abs(gaps) < 1e-12
    assert touching.sum() == TOUCHING[name]
    assert np.all(ref.contact_velocity(home.q, home.v)[::3][touching] > -1e-12)
    assert set(MECHANISMS.__all__) >= {name}


def test_the_ball_starts_at_its_height():
    model = MECHANISMS.bouncing_ball(height=0.7, restitution=0.8)
    assert wt.reference(model).contact_gaps(model.home.q)[0] == 0.7
    assert wt.contact_set(model).restitution == pytest.approx([0.8])
    thrown = MECHANISMS.bouncing_ball(speed=-2.0)
    assert wt.reference(thrown).contact_velocity(thrown.home.q, thrown.home.v)[0] == -2.0


def test_the_block_feels_gravity_along_and_into_the_incline():
    angle = 0.4
    model = MECHANISMS.sliding_block(angle=angle)
    ref = wt.reference(model)
    a = ref.forward_dynamics(model.home.q, model.home.v, np.zeros(2))
    assert a == pytest.approx([9.81 * math.sin(angle), -9.81 * math.cos(angle)])
    assert ref.contact_jacobian(model.home.q) == pytest.approx(np.array([[0, 1], [1, 0], [0, 0]]), abs=1e-15)


@pytest.mark.parametrize(("width", "height"), [(0.2, 1.0), (1.0, 1.5)])
def test_the_rocking_block_loses_what_housner_says(width, height):
    model = MECHANISMS.rocking_block(width=width, height=height)
    flat = np.zeros(3)
    # turning about the left corner, onto its base
    rate = -1.0
    before = np.array([0.0, width / 2 * rate, rate])
    assert rows(model, flat, ["left corner"]) @ before == pytest.approx([0, 0])
    after = plastic(model, flat, before, ["right corner"])
    alpha = math.atan2(width, height)
    assert after[2] / rate == pytest.approx(1 - 1.5 * math.sin(alpha) ** 2)
    assert (rows(model, flat, ["left corner"]) @ after)[0] >= 0  # the old corner lifts off


@pytest.mark.parametrize("tilt", [0.1, -0.1])
def test_the_rocking_block_starts_on_the_corner_that_it_is_tilted_about(tilt):
    model = MECHANISMS.rocking_block(tilt=tilt)
    left, right = wt.reference(model).contact_gaps(model.home.q)
    lifted = 0.2 * math.sin(0.1)
    assert (left, right) == pytest.approx((0, lifted) if tilt > 0 else (lifted, 0), abs=1e-15)
    a = wt.reference(model).forward_dynamics(model.home.q, model.home.v, np.zeros(3))
    assert a[1] == pytest.approx(-9.81)


@pytest.mark.parametrize("spokes", [6, 8, 12])
@pytest.mark.parametrize("hub_inertia", [0.1, 0.4])
def test_the_rimless_wheel_loses_what_its_spokes_say(spokes, hub_inertia):
    model = MECHANISMS.rimless_wheel(spokes=spokes, hub_inertia=hub_inertia, length=0.8, mass=1.5)
    half = math.pi / spokes
    # two spokes on the ground; rolling about spoke 0 until spoke 1 comes down (clockwise)
    q = np.array([0.0, 0.8 * math.cos(half), -half])
    gaps = wt.reference(model).contact_gaps(q)
    assert (gaps[0], gaps[1]) == pytest.approx((0, 0), abs=1e-15)
    A = rows(model, q, ["spoke 0 on ground"])
    rate = -2.0
    before = np.array([*-np.linalg.solve(A[:, :2], A[:, 2]) * rate, rate])
    after = plastic(model, q, before, ["spoke 1 on ground"])
    m_l2 = 1.5 * 0.64
    assert after[2] / rate == pytest.approx((m_l2 * math.cos(2 * half) + hub_inertia) / (m_l2 + hub_inertia))


def test_the_walker_starts_on_its_gait():
    """The stance leg's equation θ̈ = sin(θ − γ), and the swing leg's, in the limit of small feet."""
    model = MECHANISMS.simplest_walker(foot_mass_ratio=1e-9)
    ref, (q, v) = wt.reference(model), (model.home.q, model.home.v)
    theta, rate = q[2], v[2]
    assert (theta, rate) == (0.200310900544, -0.199832473005)
    A = rows(model, q, ["stance foot on ground"])
    assert A @ v == pytest.approx([0, 0], abs=1e-15)
    M, c = ref.mass_matrix(q), ref.bias(q, v)
    gamma = ref.contact_bias(q, v)[:2]
    block = np.block([[M, -A.T], [A, np.zeros((2, 2))]])
    a = np.linalg.solve(block, np.concatenate([-c, -gamma]))[:4]
    assert a[2] == pytest.approx(math.sin(theta - 0.009), abs=1e-8)
    phi = theta - q[3]
    expected = a[2] + rate**2 * math.sin(phi) - math.cos(theta - 0.009) * math.sin(phi)
    assert a[2] - a[3] == pytest.approx(expected, abs=1e-6)


def test_painleves_rod_is_paradoxical_from_four_thirds_on():
    """The tip's upward acceleration per normal force, with friction at its limit against the slip."""
    for friction, sign in ((4 / 3 - 1e-6, 1), (4 / 3 + 1e-6, -1)):
        model = MECHANISMS.painleve_rod(friction=friction)
        q = model.home.q
        normal, tangent = rows(model, q, ["tip on ground"])
        assert tangent @ model.home.v > 0
        push = np.linalg.solve(wt.reference(model).mass_matrix(q), normal - friction * tangent)
        assert math.copysign(1, normal @ push) == sign


def test_the_hopper_is_massless_below_its_hip():
    model = MECHANISMS.hopper(height=1.3, attack=0.1)
    M = wt.reference(model).mass_matrix(model.home.q)
    assert np.array_equal(M, np.diag([1, 1, 0, 0]))
    assert wt.reference(model).contact_gaps(model.home.q)[0] == pytest.approx(1.3 - math.cos(0.1))
    assert wt.reference(model).passive_forces(model.home.q, model.home.v) == pytest.approx(np.zeros(4))


def test_the_cradle_by_newtons_law_at_all_contacts():
    model = MECHANISMS.newtons_cradle(3)
    q, v = np.zeros(3), model.home.v
    A = wt.reference(model).contact_jacobian(q)[::3]
    M = wt.reference(model).mass_matrix(q)
    after = v - 2 * np.linalg.solve(M, A.T @ np.linalg.solve(A @ np.linalg.solve(M, A.T), A @ v))
    assert after == pytest.approx([-1 / 3, 2 / 3, 2 / 3])


def test_a_stack_carries_its_weight():
    """Some vertical forces of the corners balance gravity; how they share it is not determined."""
    model = MECHANISMS.box_stack(4)
    ref, q = wt.reference(model), model.home.q
    N = ref.contact_jacobian(q)[::3]
    forces, _, rank, _ = np.linalg.lstsq(N.T, ref.gravity(q), rcond=1e-10)
    assert N.T @ forces == pytest.approx(ref.gravity(q), abs=1e-10)
    assert forces.reshape(4, 4).sum(axis=1) == pytest.approx(9.81 * np.array([4, 3, 2, 1]))
    assert rank < len(forces)


def test_balls_start_inside_their_box():
    model = MECHANISMS.spheres_in_box(30, seed=3)
    ref = wt.reference(model)
    gaps = dict(zip(wt.contact_set(model).names, ref.contact_gaps(model.home.q), strict=True))
    assert len(gaps) == 30 * 29 // 2 + 30 * 5
    assert min(gaps.values()) > 0
    again = MECHANISMS.spheres_in_box(30, seed=3)
    assert np.array_equal(again.home.q, model.home.q)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: MECHANISMS.bouncing_ball(radius=0), "radius is 0, expected a number above 0"),
        (lambda: MECHANISMS.rocking_block(width=-1.0), "width is -1.0, expected a number above 0"),
        (lambda: MECHANISMS.rimless_wheel(spokes=2), "needs 3 spokes or more of a length above 0, got 2 of 1.0"),
        (lambda: MECHANISMS.newtons_cradle(1), "n is 1, expected at least 2"),
        (lambda: MECHANISMS.box_stack(0), "n is 0, expected at least 1"),
        (lambda: MECHANISMS.spheres_in_box(3, radius=1.0), "balls of radius 1.0 do not fit a box of width 0.6"),
        (
            lambda: MECHANISMS.bouncing_ball(restitution=1.5),
            "contact 'bounce': restitution is 1.5, expected a number from 0 to 1",
        ),
        (
            lambda: MECHANISMS.sliding_block(friction=-0.3),
            "contact 'base on ground': friction is -0.3, expected a finite number that is not negative",
        ),
    ],
)
def test_impossible_mechanisms_say_so(make, fault):
    with pytest.raises(wt.ModelError) as raised:
        make()
    assert raised.value.faults == (fault,)
