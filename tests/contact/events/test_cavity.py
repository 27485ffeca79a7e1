"""Inside a hollow sphere: loops, bowls and strings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import whippletree as wt
from contact_scenes import PLANAR, G, ball_on, run_of, times

SHAPES = {
    "point": {},
    "sphere": {"radius": 0.1},
    "capsule": {"radius": 0.1, "length": 0.4},
    "box": {"size": (0.2, 0.3, 0.4)},
}


def inside(kind: str) -> wt.Model:
    """A shape inside a cavity of 2 m, both free."""
    builder = wt.Builder("inside").body("hollow", 2.0, inertia=(1, 2, 2)).body("core", 1.0, inertia=(0.1, 0.2, 0.2))
    builder.joint("hollow", "free", "world", "hollow").joint("core", "free", "world", "core")
    builder.geometry("cavity", "hollow", "cavity", radius=2.0, position=(0.1, 0.2, 0.3))
    builder.geometry("shape", "core", kind, position=(0.2, 0, 0.1), **SHAPES[kind])
    return builder.contact("in", "shape", "cavity", friction=0.5).build()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHAPES)
def test_rows_are_the_rates_of_the_gaps_and_bias_is_theirs(kind):
    model, rng = inside(kind), np.random.default_rng(1)
    dyn, ref = wt.compile(model), wt.reference(model)
    q = ref.integrate(model.home.q, 0.3 * rng.normal(size=12)).astype(float)
    v, h = rng.normal(size=12), 1e-4
    ahead, behind = (ref.integrate(q, s * v * h).astype(float) for s in (1, -1))
    J = dyn.contact_jacobian(q)
    assert np.allclose((dyn.contact_gaps(ahead) - dyn.contact_gaps(behind)) / (2 * h), (J @ v)[::3], atol=1e-6)
    turn = (dyn.contact_velocity(ahead, v) - dyn.contact_velocity(behind, v)) / (2 * h)
    assert np.allclose(turn[::3], dyn.contact_bias(q, v)[::3], atol=1e-6)
    assert np.allclose(dyn.contact_jacobian(q), ref.contact_jacobian(q).astype(float), atol=1e-14)


def test_the_gap_is_the_distance_to_the_wall():
    model = inside("capsule")
    points = np.array([[0.2, 0, 0.3], [0.2, 0, -0.1]]) - [0.1, 0.2, 0.3]
    assert np.allclose(wt.compile(model).contact_gaps(model.home.q), 1.9 - np.linalg.norm(points, axis=1))


@pytest.mark.slow
def test_a_bead_falls_off_a_loop_that_it_enters_too_slowly():
    """At the height R (v² − g R) / 3 g R above the middle it leaves; √(5 g R) carries it around."""
    builder = wt.Builder("loop", PLANAR).geometry("track", "world", "cavity", radius=1.0)
    builder.body("bead", 1.0).body("carriage").geometry("bead", "bead", "point")
    builder.joint("x", "prismatic", "world", "carriage", axis=(1, 0, 0))
    builder.joint("y", "prismatic", "carriage", "bead", axis=(0, 1, 0), start=-1.0)
    model = builder.contact("on track", "bead", "track").build()
    run = run_of(model, v0=[np.sqrt(3.5 * G), 0], duration=0.8)
    _, before, _ = wt.event_states(run)
    assert before[0, 1] == pytest.approx(0.5, abs=1e-9)
    fast = run_of(model, v0=[np.sqrt(5.01 * G), 0], duration=2.0)
    assert times(fast) == []
    assert fast.contact_force.values[0, 0, 0] == pytest.approx(6.01 * G, abs=1e-9)
    assert np.allclose(fast.contact_force[:, 0, 0], G * (3.01 - 3 * fast.q[:, 1]), atol=1e-8)


def test_a_ball_rolls_around_a_loop():
    """It does not leave if v² > 27/7 g (R − r) at the bottom; friction does no work."""
    model = ball_on(
        wt.Builder("loop", PLANAR).geometry("table", "world", "cavity", radius=1.0), 5.0, (0, -0.8), radius=0.2
    )
    speed = np.sqrt(27 / 7 * G * 0.8) * 1.01
    run = run_of(model, v0=[speed, 0, -speed / 0.2], duration=1.0)
    assert run.attrs["mode_names"] == ["ball sticks"]
    assert run.attrs["energy_drift"] < 1e-12
    load = (speed**2 / 0.8 + G * (10 / 7 * -1 + 17 / 7 * -run.q[:, 1] / 0.8)).values
    assert np.allclose(run.contact_force[:, 0, 0], load, atol=1e-8)


@pytest.mark.slow
def test_a_rope_between_two_bodies_is_pulled_taut():
    """A point of one body within the reach of the other: what they have along the rope they share."""
    builder = (
        wt.Builder("rope", (0, 0, 0)).body("buoy", 2.0, inertia=(0.1, 0.1, 0.1)).body("boat", 1.0, inertia=(1, 1, 1))
    )
    builder.joint("buoy", "free", "world", "buoy").geometry("reach", "buoy", "cavity", radius=0.5)
    builder.joint("boat", "free", "world", "boat", start=(0.1, 0.1, 0, 1, 0, 0, 0)).geometry("bow", "boat", "point")
    model = builder.contact("rope", "bow", "reach").build()
    v0 = np.zeros(12)
    v0[9:] = 3.0, 1.0, 0.0
    run = run_of(model, v0=v0, duration=0.3)
    taut = brentq(lambda t: np.hypot(0.1 + 3 * t, 0.1 + t) - 0.5, 0, 1, xtol=1e-15)
    along = np.array([0.1 + 3 * taut, 0.1 + taut, 0]) / 0.5
    pull = along @ v0[9:] / (1 / 2 + 1)
    _, _, after = wt.event_states(run)
    assert times(run) == pytest.approx([taut], abs=1e-9)
    assert after[0, 14 + 3 : 14 + 6] == pytest.approx(pull / 2 * along, abs=1e-9)
    assert after[0, 14 + 9 :] == pytest.approx(v0[9:] - pull * along, abs=1e-9)


def test_what_cannot_be_inside_is_refused():
    builder = wt.Builder("egg").body("egg", 1.0, inertia=(1, 1, 1)).joint("egg", "free", "world", "egg")
    builder.geometry("egg", "egg", "ellipsoid", radii=(0.1, 0.1, 0.2)).geometry("nest", "world", "cavity", radius=1.0)
    with pytest.raises(wt.ModelError, match="ellipsoid against cavity is not supported"):
        wt.contact_set(builder.contact("in", "egg", "nest").build())
