"""Energy never grows: ten thousand random impacts under each law that claims it, one to four contacts."""

import numpy as np
import pytest

from whippletree.contact.impact.impact import Impact
from whippletree.contact.impact.laws import LAWS, Energetic, Newton, Plastic, Sequential

BY_LAW = pytest.mark.parametrize("law", [Plastic(), Newton(), Energetic()], ids=lambda law: law.name)

PLANE = ((1, 4450), (2, 2000), (3, 600), (4, 400))
"""Contacts, and how many impacts of as many."""
SPACE = ((1, 2000), (2, 400), (3, 100), (4, 50))


def many_impacts(count, seed, planar, contacts):
    """G (count, 3k, 3k), u, friction and restitution of random mechanisms with k contacts, all at once.

    They have three to six freedoms: three contacts or more wedge them, and their impulses are not unique.
    """
    random = np.random.default_rng(seed)
    n, rows = int(random.integers(3, 7)), 3 * contacts
    B = random.standard_normal((count, n, n))
    M, J = B @ np.swapaxes(B, 1, 2) + 0.1 * np.eye(n), random.standard_normal((count, rows, n))
    if planar:
        J[:, 2::3] = 0
    G = J @ np.linalg.solve(M, np.swapaxes(J, 1, 2))
    u = np.einsum("crn,cn->cr", J, random.standard_normal((count, n)))
    shape = (count, contacts)
    return (G + np.swapaxes(G, 1, 2)) / 2, u, random.uniform(0, 2, shape), random.choice([0.0, 0.4, 0.9, 1.0], shape)


def check_many(law, G, u, friction, restitution):
    """The energy pᵀ (u⁻ + u⁺) / 2 is not positive, impulses push, and nothing approaches any more."""
    p = np.array([law.impulses(*each) for each in zip(G, u, friction, restitution, strict=True)]).reshape(u.shape)
    after = u + np.einsum("crs,cs->cr", G, p)
    gained = np.einsum("cr,cr->c", p, u + after) / 2
    scale = np.abs(p * u).sum(axis=1)
    assert np.all(gained <= 1e-11 * scale)
    assert np.all(p[:, ::3] >= -1e-9 * np.abs(p).max(axis=1, keepdims=True))
    assert np.all(after[:, ::3] >= -1e-8 * np.abs(u).max(axis=1, keepdims=True))


def test_that_is_ten_thousand():
    assert sum(count for _, count in PLANE + SPACE) == 10_000
    # the fourth law differs from the energetic one in what it is for, not in what it does
    assert set(LAWS) == {"plastic", "newton", "energetic", "sequential"}
    assert Sequential.impulses is Energetic.impulses


@pytest.mark.slow
@BY_LAW
@pytest.mark.parametrize(("contacts", "count"), PLANE)
def test_in_the_plane(law, contacts, count):
    """With friction up to 2 and restitution up to 1."""
    check_many(law, *many_impacts(count, contacts, True, contacts))


@pytest.mark.slow
@BY_LAW
@pytest.mark.parametrize(("contacts", "count"), SPACE)
def test_in_space(law, contacts, count):
    check_many(law, *many_impacts(count, 10 + contacts, False, contacts))


# ---- impacts of mechanisms -------------------------------------------------------------------------------------------


def check(impact, law):
    outcome = impact.resolve(law)
    energy = impact.v @ impact.M @ impact.v / 2
    speed = np.abs(impact.J @ impact.v).max()
    assert outcome.energy_lost >= -1e-11 * energy
    assert np.all((impact.J @ outcome.v)[::3] >= -1e-8 * speed)
    assert np.abs(impact.A @ (outcome.v - impact.v)).max(initial=0.0) <= 1e-9 * max(1.0, np.abs(outcome.v).max())
    momentum = impact.J.T @ outcome.impulses.reshape(-1) + impact.A.T @ outcome.constraint_impulses
    scale = np.abs(impact.M @ impact.v).max() + np.abs(outcome.impulses).max(initial=0.0)
    assert np.abs(impact.M @ (outcome.v - impact.v) - momentum).max() <= 1e-9 * scale
    return outcome


def landing_box(random):
    """A box that lands flat, or nearly, on four corners: more contacts than it needs."""
    x, y, z = random.uniform(0.1, 1, 3)
    J = []
    for sx, sy in ((1, 1), (-1, 1), (-1, -1), (1, -1)):
        r = np.array([sx * x, sy * y, -z]) / 2
        turn = np.array([[0, r[2], -r[1]], [-r[2], 0, r[0]], [r[1], -r[0], 0]])
        J.append(np.hstack([turn, np.eye(3)])[[2, 0, 1]])
    M = np.diag([(y * y + z * z) / 12, (x * x + z * z) / 12, (x * x + y * y) / 12, 1, 1, 1])
    v = np.concatenate([random.choice([0.0, 1.0]) * random.standard_normal(3), random.standard_normal(2), [-1.0]])
    e = np.full(4, random.choice([0.0, 0.4, 1.0]))
    return Impact(M, np.zeros((0, 6)), np.concatenate(J), v, np.full(4, random.uniform(0, 1.5)), e)


def linkage(random, massless):
    """Closed loops: bilateral rows, with some of the velocities those of links without mass that the rows carry."""
    heavy, light, loops, k = int(random.integers(3, 6)), massless * int(random.integers(1, 3)), 2, 2
    n = heavy + light
    B = random.standard_normal((heavy, heavy))
    M = np.zeros((n, n))
    M[:heavy, :heavy] = B @ B.T + 0.1 * np.eye(heavy)
    A, J = random.standard_normal((light + loops - 1, n)), random.standard_normal((3 * k, n))
    J[2::3] = 0
    v = random.standard_normal(n)
    v = v - np.linalg.pinv(A) @ (A @ v)
    return Impact(M, A, J, v, random.uniform(0, 2, k), random.choice([0.0, 0.4, 1.0], k))


@pytest.mark.slow
@BY_LAW
def test_of_boxes_that_land_flat(law):
    random = np.random.default_rng(20)
    for _ in range(100):
        check(landing_box(random), law)


@BY_LAW
@pytest.mark.parametrize("massless", [0, 1], ids=["loops", "massless links"])
def test_of_linkages(law, massless):
    random = np.random.default_rng(21 + massless)
    for _ in range(150):
        check(linkage(random, massless), law)


def test_a_box_that_lands_flat_stops_flat():
    """Plastic and straight down: all energy goes, whatever the sharing among four corners."""
    random = np.random.default_rng(23)
    box = landing_box(random)
    straight = Impact(box.M, box.A, box.J, np.array([0, 0, 0, 0, 0, -2.0]), box.friction, box.restitution)
    outcome = check(straight, Plastic())
    assert np.allclose(outcome.v, 0, atol=1e-12)
    assert outcome.energy_lost == pytest.approx(2.0, rel=1e-12)
