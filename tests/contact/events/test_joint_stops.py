"""Ends of joint ranges by events: stops, strings, knees, and slips that reverse, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import whippletree as wt
from contact_scenes import PLANAR, G, kneed_leg, run_of, slider, sling, times
from whippletree.contact.kinematics.joint_contacts import JointContacts, nearer_ends_of_many
from whippletree.contact.time_step import ContactBlocks
from whippletree.tree.mechanism import Mechanism


@pytest.fixture(scope="module")
def trapdoor():
    """A uniform rod of 2 kg and 1 m that falls from 0.5 rad onto its stop at −0.3 rad."""
    builder = wt.Builder("trapdoor", PLANAR).body("door", 2.0, (0.5, 0, 0), (0, 1 / 6, 1 / 6))
    return builder.joint("hinge", "revolute", "world", "door", start=0.5, lower=-0.3, upper=1.0).build()


@pytest.mark.slow
def test_a_trapdoor_falls_on_its_stop_and_rests(trapdoor):
    run = run_of(trapdoor)
    fall = quad(lambda s: 2 * s / np.sqrt(3 * G * (np.sin(0.5) - np.sin(0.5 - s * s))), 0, np.sqrt(0.8), epsabs=1e-13)[
        0
    ]
    assert times(run, "touchdown lower limit of hinge") == pytest.approx([fall], abs=1e-9)
    assert run.attrs["energy_lost_in_impacts"] == pytest.approx(G * (np.sin(0.5) + np.sin(0.3)), abs=1e-9)
    assert run.q.values[-1] == pytest.approx([-0.3], abs=1e-12)
    assert run.limit_force.values[-1] == pytest.approx([G * np.cos(0.3)], abs=1e-9)
    stepped = wt.simulate(trapdoor, duration=1.0, method="time_stepping")
    assert stepped.limit_force.dims == run.limit_force.dims
    assert np.allclose(stepped.limit_force.values[-1], run.limit_force.values[-1], atol=1e-6)


def test_a_slack_string_is_pulled_taut():
    """At 3.5 g L its bob leaves the circle at 30°, flies along a parabola, and keeps what it has across the string."""
    run = run_of(sling(), v0=[np.sqrt(3.5 * G), 0], duration=1.4)
    _, before, after = wt.event_states(run)
    assert before[0, 0] == pytest.approx(np.pi / 6, abs=1e-9)
    place, speed = np.array([np.sqrt(0.75), 0.5]), np.sqrt(G / 2) * np.array([-0.5, np.sqrt(0.75)])

    def flight(t):
        return place + speed * t - [0, G / 2 * t * t]

    taut = brentq(lambda t: np.hypot(*flight(t)) - 1, 0.1, 1.2, xtol=1e-15)
    assert np.diff(times(run)) == pytest.approx([taut], abs=1e-9)
    x, y = flight(taut)
    assert after[1, 2:] == pytest.approx([x * (speed[1] - G * taut) - y * speed[0], 0], abs=1e-9)
    lowest = run_of(sling(), v0=[1.0, 0], duration=0.1)
    assert lowest.limit_force.values[0] == pytest.approx([-(G + 1)], abs=1e-9)


def test_a_knee_strike_keeps_the_momentum_about_the_hip():
    model = kneed_leg()
    run = run_of(model, v0=[1.0, 2.0], duration=0.3)
    _, before, after = wt.event_states(run)
    M = wt.reference(model).mass_matrix(before[0, :2]).astype(float)
    v = before[0, 2:]
    assert after[0, 2:] == pytest.approx([(M @ v)[0] / M[0, 0], 0], abs=1e-9)
    lost = v[1] ** 2 / np.linalg.inv(M)[1, 1] / 2
    assert run.attrs["contact_event_energy_lost"] == pytest.approx([lost], abs=1e-9)


@pytest.mark.parametrize("rod_mass", [0.0, 0.5])
def test_a_crank_stops_with_its_slider(rod_mass):
    """One freedom: the stop takes all energy; the crank's weight is then held through the rod, massless or not."""
    plain = wt.mechanisms.crank_slider(rod_mass=rod_mass)
    far = float(plain.home.q[plain.q_slice("slider").start]) + 0.1
    joints = tuple(replace(j, upper=far) if j.name == "slider" else j for j in plain.joints)
    model = replace(plain, joints=joints)
    run = run_of(model, duration=1.5)
    assert times(run, "touchdown upper limit of slider")
    assert np.abs(run.v.values[-1]).max() < 1e-12
    moment = wt.reference(model.tree).gravity(run.q.values[-1])
    rows = wt.reference(model).constraint_jacobian(run.q.values[-1]).astype(float)
    held = rows.T @ run.constraint_forces.values[-1]
    held[model.slice("slider")] += run.limit_force.values[-1]
    assert np.allclose(held, moment.astype(float), atol=1e-9)


def test_a_start_beyond_a_limit_is_refused_with_its_unit(trapdoor):
    with pytest.raises(wt.AssemblyError, match=r"'upper limit of hinge' by 0\.5 rad"):
        wt.simulate(trapdoor, [1.5], duration=0.1, method="events")


def test_many_slings_are_single_slings():
    speeds = np.array([[6.0, 0], [5.0, 0], [1.0, 0]])
    many = wt.simulate(sling(), None, speeds, duration=0.8, method="events", saltation=False)
    for k, speed in enumerate(speeds):
        one = wt.simulate(sling(), v0=speed, duration=0.8, method="events", saltation=False)
        assert np.array_equal(many.q.values[:, k], one.q.values)


def test_the_saltation_of_a_reversal_is_the_jump_of_its_acceleration():
    """Friction jumps from one side to the other: a speed that is off by δ stays off by a⁺ / a⁻ δ."""
    run = wt.simulate(slider(0.15, start=0.6, stiffness=50.0), duration=1.0, method="events", rtol=1e-11, atol=1e-13)
    _, S = wt.saltation_matrices(run)
    _, before, _ = wt.event_states(run)
    assert run.attrs["event_names"] == ["reversal base"]
    pull = -25 * before[0, 0]
    expected = np.eye(4)
    expected[2, 2] = (pull - 0.15 * G) / (pull + 0.15 * G)
    assert np.allclose(S[0][np.ix_([0, 2], [0, 2])], expected[np.ix_([0, 2], [0, 2])], atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "v0", "duration", "columns"),
    [
        (kneed_leg, [1.0, 2.0], 0.35, [0, 1, 2, 3]),
        (sling, [5.5, 0.0], 0.7, [0, 2]),
        (lambda: slider(0.15, start=0.6, stiffness=50.0), [-0.1, 0.0], 1.0, [0, 2]),
    ],
    ids=["knee strike", "string goes slack", "reversal"],
)
def test_sensitivities_go_through_stops_and_reversals(make, v0, duration, columns):
    """Against differences along the changes that keep closed contacts closed."""
    model = make()
    start = np.concatenate([model.home.q, v0]).astype(float)
    known = {"duration": duration, "output_dt": duration, "method": "events", "rtol": 1e-11, "atol": 1e-13}

    def last(y):
        run = wt.simulate(model, y[:2], y[2:], saltation=False, **known)
        return np.concatenate([run.q.values[-1], run.v.values[-1]])

    run = wt.simulate(model, start[:2], start[2:], sensitivity=True, **known)
    assert len(run.attrs["event_names"]) == 1
    changes = 1e-5 * np.eye(4)[columns]
    found = np.array([last(start + d) - last(start - d) for d in changes]).T / 2e-5
    assert np.allclose(run.sensitivity.values[-1][:, columns], found, atol=1e-7)


@pytest.mark.parametrize("option", ["penetration", "speed_tolerance", "zeno_interval"])
@pytest.mark.parametrize("value", [0, -1, np.nan, "much"])
def test_tolerances_are_positive_numbers(trapdoor, option, value):
    with pytest.raises(ValueError, match=f"{option} is .* expected a positive, finite number"):
        wt.simulate(trapdoor, duration=0.1, method="events", **{option: value})


@pytest.mark.parametrize("method", ["events", "time_stepping"])
def test_a_terrain_that_ends_ends_the_run(method):
    """Beyond x = 1 its height is not a number: nobody can say whether the ball touches it."""
    builder = wt.Builder("cliff").geometry("ground", "world", "terrain", height=lambda x, y: np.sqrt(1 - x) - 1)
    builder.body("ball", 1.0, inertia=(1, 1, 1)).geometry("ball", "ball", "sphere", radius=0.1)
    builder.joint("ball", "free", "world", "ball", start=(0, 0, 1, 1, 0, 0, 0))
    run = wt.simulate(
        builder.contact("lands", "ball", "ground").build(), v0=[0, 0, 0, 3.0, 0, 0], duration=1.0, method=method
    )
    assert "the gap of contact 'lands' is not a number there" in run.attrs["failure"]
    assert 0 < float(run.time[-1]) < 0.35


def test_events_of_a_run_that_has_none():
    run = wt.simulate(wt.mechanisms.pendulum(), duration=0.1)
    for function in (wt.event_states, wt.saltation_matrices):
        with pytest.raises(
            wt.UnsupportedError, match="method 'adaptive' locates no contact events: use method='events'"
        ):
            function(run)


def test_an_unknown_law_of_a_contact_is_named_before_anything_moves():
    builder = wt.Builder("ball").geometry("ground", "world", "half_space").body("ball", 1.0)
    builder.joint("z", "prismatic", "world", "ball", start=1.0).geometry("ball", "ball", "sphere", radius=0.1)
    model = builder.contact("bounce", "ball", "ground", law="hertz").build()
    with pytest.raises(wt.ModelError, match="contact 'bounce': law: there is no impact law 'hertz'"):
        wt.contact_set(model)


def test_events_and_steps_read_one_description_of_joints():
    builder = wt.Builder("arm")
    for body in ("upper", "fore", "slide"):
        builder.body(body, 1.0, (0, 0, 0), (0.1, 0.1, 0.1))
    builder.joint("shoulder", "revolute", "world", "upper", lower=-1.0, upper=0.5)
    builder.joint("elbow", "revolute", "upper", "fore", friction=0.3)
    model = builder.joint("rail", "prismatic", "fore", "slide", upper=0.2, friction=2.0).build()
    joints, blocks = JointContacts(model), ContactBlocks(model)
    ends = ["lower limit of shoulder", "upper limit of shoulder", "upper limit of rail"]
    assert [c.name for c in joints.candidates] == [*ends, "friction of elbow", "friction of rail"]
    assert joints.units == ("rad", "rad", "m", "", "")
    q = np.random.default_rng(0).uniform(-1.5, 1.5, (20, 3))
    every = joints.gaps(q)
    nearer = np.stack([every[:, :2].min(axis=1), every[:, 2]], axis=1)
    distances, signs = nearer_ends_of_many(blocks.limited, q)
    assert np.array_equal(distances, nearer)
    for k, state in enumerate(q):
        gaps, J = blocks.rows(Mechanism.of(model), state.astype(object))
        assert np.array_equal(gaps.astype(float), [*nearer[k], 0, 0])
        assert np.array_equal(np.stack([axis.excess(state) for axis in blocks.limited]), -nearer[k])
        stops = joints.rows.reshape(-1, 3, 3)[[int(np.argmin(every[k, :2])), 2, 3, 4]]
        assert np.array_equal(J.astype(float), stops)
        assert np.array_equal(signs[k], [stops[0, 0, 0], -1])
    assert np.array_equal(blocks.cap(0.1).astype(float), [0, 0, 0.1 * 0.3, 0.1 * 2.0])
    assert np.array_equal(joints.resistance(np.array([1.0, -1.0])), [0, -0.3, 2.0])
