"""Feet without mass that stick, slip under load, trail and lift off, against closed forms and independent equations."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import simpson, solve_ivp
from scipy.optimize import brentq

import whippletree as wt
from whippletree.model import Constraint
from whole_runs import compared

UPWARDS = [[1, 0, 0], [0, 0, 1], [0, -1, 0]]
EVENTS = {"method": "events", "saltation": False, "rtol": 1e-11, "atol": 1e-13}
G, LENGTH = 9.81, 1.0


def energy(run):
    return (run.kinetic_energy + run.potential_energy).values


def runner(friction, attack, leg=(1000.0, 0.0), hip=(0.0, 0.0), height=1.2):
    """A point mass of 1 kg on a massless leg; ``leg`` and ``hip``: stiffness and damping."""
    return (
        wt.Builder("runner", (0, -G, 0))
        .geometry("ground", "world", "half_space", rotation=UPWARDS)
        .body("carriage")
        .body("mass", 1.0)
        .body("leg")
        .body("foot")
        .joint("x", "prismatic", "world", "carriage", axis=(1, 0, 0))
        .joint("y", "prismatic", "carriage", "mass", axis=(0, 1, 0), start=height)
        .joint("swing", "revolute", "mass", "leg", start=attack, rest=attack, stiffness=hip[0], damping=hip[1])
        .joint("leg", "prismatic", "leg", "foot", axis=(0, -1, 0), start=LENGTH, rest=LENGTH, stiffness=leg[0],
               damping=leg[1])
        .geometry("tip", "foot", "point")
        .contact("foot on ground", "tip", "ground", friction=friction)
        .build()
    )  # fmt: skip


def foot_force(state, foot, rate, attack, leg, hip):
    """Force (tangential, normal) that the ground applies to the foot at x = foot, moving at a rate, by the balance of
    the massless leg: what springs and dampers ask for, along the leg and across it."""
    x, y, vx, vy = state
    dx, length = foot - x, np.hypot(foot - x, y)
    angle = np.arctan2(dx, y)
    along, across = np.array([dx, -y]) / length, np.array([y, dx]) / length
    moving = np.array([rate - vx, -vy])
    push = leg[0] * (LENGTH - length) - leg[1] * (along @ moving)
    turn = hip[0] * (attack - angle) - hip[1] * (across @ moving) / length
    return -push * along - turn / length * across


@pytest.mark.slow
def test_a_slip_on_springs_follows_the_balance_of_forces():
    """Springs alone: where the foot is follows from where the mass is. The slip before lift-off, in other variables."""
    friction, attack, leg, hip = 0.3, 0.1, (1000.0, 0.0), (500.0, 0.0)
    run = wt.simulate(runner(friction, attack, leg, hip), v0=[-0.5, 0, 0, 0], duration=0.32, output_dt=1e-3, **EVENTS)
    assert run.attrs["failure"] == ""
    names, times = run.attrs["event_names"], run.attrs["event_times"]
    assert names == ["touchdown foot on ground", "slip foot on ground", "lift-off foot on ground"]
    rows = np.flatnonzero((run.time.values > times[1]) & (run.time.values < times[2]))
    q, v, f = run.q.values[rows], run.v.values[rows], run["contact_force"].values[rows, 0]
    assert np.allclose(np.abs(f[:, 1]), friction * f[:, 0], atol=1e-9)
    start = q[0, 0] + q[0, 3] * np.sin(q[0, 2])
    sign = np.sign(f[0, 1])

    def foot(state):
        def excess(s):
            tangential, normal = foot_force(state, s, 0.0, attack, leg, hip)
            return tangential - sign * friction * normal

        return brentq(excess, start - 0.1, start + 0.1, xtol=1e-15, rtol=1e-15)

    def rates(t, state):
        tangential, normal = foot_force(state, foot(state), 0.0, attack, leg, hip)
        return [state[2], state[3], tangential, normal - G]

    span = run.time.values[rows[[0, -1]]]
    found = solve_ivp(rates, span, [*q[0, :2], *v[0, :2]], rtol=1e-11, atol=1e-12, method="DOP853").y[:, -1]
    assert np.allclose(found, [*q[-1, :2], *v[-1, :2]], atol=1e-9)
    assert foot(found) == pytest.approx(q[-1, 0] + q[-1, 3] * np.sin(q[-1, 2]), abs=1e-9)
    # nothing but friction takes energy, and only while it slips
    assert np.abs(energy(run)[: rows[0]] - energy(run)[0]).max() < 1e-9
    slip = v[:, 0] + v[:, 3] * np.sin(q[:, 2]) + q[:, 3] * np.cos(q[:, 2]) * v[:, 2]
    assert np.all(slip * f[:, 1] < 0)
    work = simpson(slip * f[:, 1], dx=1e-3)
    assert energy(run)[rows[-1]] - energy(run)[rows[0]] == pytest.approx(work, rel=1e-4)


def test_a_slip_on_dampers_is_a_first_order_law():
    """With dampers the slip's speed follows from the balance: the foot's place is a state of its own."""
    friction, attack, leg, hip = 0.4, 0.25, (1000.0, 5.0), (0.0, 0.5)
    run = wt.simulate(runner(friction, attack, leg, hip), v0=[-2.0, 0, 0, 0], duration=0.3, output_dt=1e-3, **EVENTS)
    assert run.attrs["event_names"] == ["touchdown foot on ground", "slip foot on ground"]
    rows = np.flatnonzero(run.time.values > run.attrs["event_times"][1])
    q, v, f = run.q.values[rows], run.v.values[rows], run["contact_force"].values[rows, 0]
    sign = np.sign(f[0, 1])

    def rates(t, state):
        def excess(rate):
            tangential, normal = foot_force(state[:4], state[4], rate, attack, leg, hip)
            return tangential - sign * friction * normal

        rate = brentq(excess, -50, 50, xtol=1e-14, rtol=1e-15)
        tangential, normal = foot_force(state[:4], state[4], rate, attack, leg, hip)
        return [state[2], state[3], tangential, normal - G, rate]

    feet = q[:, 0] + q[:, 3] * np.sin(q[:, 2])
    start = [*q[0, :2], *v[0, :2], feet[0]]
    found = solve_ivp(rates, run.time.values[rows[[0, -1]]], start, rtol=1e-11, atol=1e-12, method="DOP853").y[:, -1]
    assert np.allclose(found, [*q[-1, :2], *v[-1, :2], feet[-1]], atol=1e-8)


def test_a_damped_leg_beyond_its_cone_lets_its_spring_go():
    """No force holds a leg outside the cone: it carries none, the mass falls, and the spring relaxes in its damper."""
    stiffness, damping = 1000.0, 5.0
    run = wt.simulate(
        runner(0.4, 0.25, (stiffness, damping)), v0=[-2.0, 0, 0, 0], duration=0.3, output_dt=1e-3, **EVENTS
    )
    assert run.attrs["event_names"] == ["touchdown foot on ground", "slip foot on ground"]
    t, q, v = run.time.values, run.q.values, run.v.values
    rows = np.flatnonzero(t > run.attrs["event_times"][1])
    since, first = t[rows] - t[rows[0]], rows[0]
    assert np.abs(run["contact_force"].values[rows]).max() < 1e-9
    expected = LENGTH - (LENGTH - q[first, 3]) * np.exp(-stiffness / damping * since)
    assert np.allclose(q[rows, 3], expected, atol=1e-9)
    assert np.allclose(q[rows, 1], q[first, 1] + v[first, 1] * since - G * since**2 / 2, atol=1e-9)
    assert np.abs(run["contact_gap"].values[rows]).max() < 1e-12


def test_a_leg_without_damper_is_refused_with_cause_and_cure():
    run = wt.simulate(runner(0.4, 0.25), v0=[-2.0, 0, 0, 0], duration=0.3, **EVENTS)
    for words in ("'foot on ground' slips under a load of", "part of a massless body", "Give that body mass, the "
                  "joints behind it dampers, or the contact more friction"):  # fmt: skip
        assert words in run.attrs["failure"]


def slider(stiffness=200.0, press=500.0, friction=0.3):
    """A mass on rails that drags a massless foot behind it, by a spring, under the constant load of another spring."""
    return (
        wt.Builder("slider", (0, -G, 0))
        .geometry("ground", "world", "half_space", rotation=UPWARDS)
        .body("mass", 2.0)
        .body("arm")
        .body("foot")
        .joint("rail", "prismatic", "world", "mass", position=(0, 1.0, 0), axis=(1, 0, 0))
        .joint("pull", "prismatic", "mass", "arm", axis=(1, 0, 0), stiffness=stiffness)
        .joint("press", "prismatic", "arm", "foot", axis=(0, -1, 0), start=1.0, rest=1.1, stiffness=press)
        .geometry("tip", "foot", "point")
        .contact("foot on ground", "tip", "ground", friction=friction)
        .build()
    )


@pytest.mark.slow
def test_a_slider_on_a_spring_in_closed_form():
    """Sticks as a spring until it carries μN, then drags with that force, stops, and swings back as a spring."""
    stiffness, load, mass, speed = 200.0, 0.3 * 500.0 * 0.1, 2.0, 2.0
    omega, stretch = np.sqrt(stiffness / mass), load / stiffness
    run = wt.simulate(slider(stiffness), v0=[speed, 0, 0], duration=0.5, **EVENTS)
    assert run.attrs["failure"] == ""
    assert run.attrs["event_names"] == ["slip foot on ground", "stick foot on ground"]
    slips, stops = run.attrs["event_times"]
    left = np.sqrt(speed**2 - (omega * stretch) ** 2)
    assert slips == pytest.approx(np.arcsin(omega * stretch / speed) / omega, abs=1e-10)
    assert stops == pytest.approx(slips + mass * left / load, abs=1e-9)
    # the foot stops with the mass; then the mass swings about the foot, from its turning point
    last = run.q.values[-1]
    foot = stretch + mass * left**2 / (2 * load) - stretch
    assert last[0] + last[1] == pytest.approx(foot, abs=1e-9)
    assert last[0] - foot == pytest.approx(stretch * np.cos(omega * (0.5 - stops)), abs=1e-9)


def two_links(hip):
    """A mass on a thigh and a shank without mass, with a spring in the knee, and one in the hip."""
    return (
        wt.Builder("two links", (0, -G, 0))
        .geometry("ground", "world", "half_space", rotation=UPWARDS)
        .body("carriage")
        .body("trunk", 1.0)
        .body("thigh")
        .body("shank")
        .joint("x", "prismatic", "world", "carriage", axis=(1, 0, 0))
        .joint("y", "prismatic", "carriage", "trunk", axis=(0, 1, 0), start=1.1)
        .joint("hip", "revolute", "trunk", "thigh", start=0.4, rest=0.4, stiffness=hip)
        .joint("knee", "revolute", "thigh", "shank", position=(0, -0.5, 0), start=-0.8, rest=-0.8, stiffness=120.0)
        .geometry("tip", "shank", "point", position=(0, -0.5, 0))
        .contact("foot", "tip", "ground", friction=5.0)
        .build()
    )


def test_a_massless_leg_of_two_links_keeps_the_energy():
    """With a free hip the force points to it: landing with a forward speed, stance and lift-off take none."""
    run = wt.simulate(two_links(0.0), v0=[0.3, 0, 0, 0], duration=0.8, **EVENTS)
    assert run.attrs["failure"] == ""
    assert run.attrs["contact_event_kinds"][:2] == ["touchdown", "lift-off"]
    assert np.abs(energy(run) - energy(run)[0]).max() < 1e-9


@pytest.mark.slow
def test_a_massless_leg_of_two_links_slips_before_it_lifts_off():
    """The hip's spring still pushes forwards where both they no longer press: a short slip, which takes a little."""
    run = wt.simulate(two_links(80.0), v0=[0.3, 0, 0, 0], duration=0.8, output_dt=1e-3, **EVENTS)
    assert run.attrs["failure"] == ""
    assert run.attrs["contact_event_kinds"][:3] == ["touchdown", "slip", "lift-off"]
    before = run.time.values < run.attrs["contact_event_times"][1]
    assert np.abs(energy(run)[before] - energy(run)[0]).max() < 1e-9
    assert np.all(np.diff(energy(run)) < 1e-11)
    assert energy(run)[-1] < energy(run)[0] - 1e-6
    assert float(run["cone_violation"].max()) < 1e-9


def test_legs_that_relax_in_flight_land_and_lift_off():
    """massless="relax": in flight the leg creeps to its length; it lifts off where the ground no longer presses."""
    stiffness, damping = 1000.0, 20.0
    model = runner(1.0, 0.0, (stiffness, damping), (0.0, 0.5))
    run = wt.simulate(model, duration=1.2, massless="relax", output_dt=1e-3, **EVENTS)
    assert run.attrs["failure"] == ""
    kinds = run.attrs["contact_event_kinds"]
    assert kinds[:3] == ["touchdown", "lift-off", "touchdown"]
    lifts, lands = run.attrs["contact_event_times"][1:3]
    t, leg = run.time.values, run.q.values[:, 3]
    flying = np.flatnonzero((t > lifts) & (t < lands))
    first = flying[0]
    assert leg[first] < LENGTH - 1e-4
    expected = LENGTH - (LENGTH - leg[first]) * np.exp(-stiffness / damping * (t[flying] - t[first]))
    assert np.allclose(leg[flying], expected, atol=1e-9)


def test_relaxing_names_the_motion_that_nothing_decides():
    with pytest.raises(wt.UnsupportedError, match=r"'leg' about joint 'swing' .* has neither damper nor spring"):
        wt.simulate(runner(1.0, 0.0, (1000.0, 5.0)), duration=0.1, massless="relax", **EVENTS)


def spatial_runner(friction, damping=0.0, hip="two revolutes"):
    builder = (
        wt.Builder("spatial runner")
        .geometry("ground", "world", "half_space")
        .body("along")
        .body("across")
        .body("mass", 1.0)
        .body("leg")
        .body("foot")
        .joint("x", "prismatic", "world", "along", axis=(1, 0, 0))
        .joint("y", "prismatic", "along", "across", axis=(0, 1, 0))
        .joint("z", "prismatic", "across", "mass", axis=(0, 0, 1), start=1.2)
    )
    if hip == "universal":
        axes = {"axis": (1, 0, 0), "second_axis": (0, 1, 0)}
        builder.joint("hip", "universal", "mass", "leg", **axes, start=(0.1, 0.1), damping=damping)
    else:
        builder.body("hip")
        builder.joint("roll", "revolute", "mass", "hip", axis=(1, 0, 0), start=0.1, damping=damping)
        builder.joint("pitch", "revolute", "hip", "leg", axis=(0, 1, 0), start=0.1, damping=damping)
    return (
        builder.joint("leg", "prismatic", "leg", "foot", axis=(0, 0, -1), start=LENGTH, rest=LENGTH, stiffness=1000.0)
        .geometry("tip", "foot", "point")
        .contact("foot on ground", "tip", "ground", friction=friction)
        .build()
    )


@pytest.mark.slow
def test_a_massless_leg_on_a_universal_joint_moves_as_one_on_two_revolutes():
    """In stance the contact takes the place of the held motions, whichever kind of joint they belong to."""
    states = []
    for hip in ("two revolutes", "universal"):
        run = wt.simulate(
            spatial_runner(1.0, hip=hip), v0=[0.5, 0.2, 0, 0, 0, 0], duration=0.4, massless="hold", **EVENTS
        )
        states.append(np.concatenate([run.q.values[-1], run.v.values[-1]]))
    assert np.abs(states[0][6:8] - (0.5, 0.2)).min() > 0.1  # the leg pushed it
    np.testing.assert_allclose(states[1], states[0], atol=1e-9)


def test_a_joint_that_the_user_holds_stays_held_in_contact():
    """Also under the name that a held massless motion would have."""
    model = spatial_runner(1.0)
    held = [Constraint(f"hold {joint}", "hold", (joint,)) for joint in ("roll", "pitch", "leg")]
    run = wt.simulate(replace(model, constraints=tuple(held)), duration=0.3, **EVENTS)
    assert np.abs(run.v.values[-1][3:]).max() < 1e-12


@pytest.mark.slow
def test_a_spatial_runner_keeps_its_energy():
    run = wt.simulate(spatial_runner(1.0), v0=[0.5, 0.2, 0, 0, 0, 0], duration=0.8, **EVENTS)
    assert run.attrs["contact_event_kinds"] == ["touchdown", "lift-off", "touchdown", "lift-off"]
    assert np.abs(energy(run) - energy(run)[0]).max() < 1e-9


def test_a_slip_in_space_under_load_is_refused_by_name():
    run = wt.simulate(spatial_runner(0.3, damping=5.0), v0=[-2.0, 1.0, 0, 0, 0, 0], duration=0.6, **EVENTS)
    assert "'foot on ground' slips under a load of" in run.attrs["failure"]
    assert "this one may turn its slip" in run.attrs["failure"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("friction", "attack", "damping", "hip", "speed", "duration"),
    [(0.4, 0.25, 5.0, (0.0, 0.5), -2.0, 0.29), (0.3, 0.1, 0.0, (500.0, 0.0), -0.5, 0.31)],
    ids=["dampers", "springs"],
)
def test_derivatives_go_through_a_slip_under_load(friction, attack, damping, hip, speed, duration):
    """Of the mass's motion; in flight the leg is at the rest length of its spring, a kink."""
    model = runner(friction, attack, (1000.0, damping), hip)
    compared(model, duration, ["touchdown", "slip"], v0=[speed, 0, 0, 0], only=[0, 1])
