"""Event-driven simulation against closed forms and conservation."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.model import Contact, Geometry
from whippletree.model.frozen import pose_matrix
from whippletree.simulation.events.event_log import event_states

m = wt.mechanisms
TIGHT = {"method": "events", "rtol": 1e-11, "atol": 1e-13}


def times_of(run, word):
    return [
        t for name, t in zip(run.attrs["event_names"], run.attrs["event_times"], strict=True) if name.startswith(word)
    ]


@pytest.fixture(scope="module")
def ball():
    return m.bouncing_ball(height=1.0, restitution=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("e", [0.5, 0.8])
def test_bounces_end_at_the_zeno_time(e):
    run = wt.simulate(m.bouncing_ball(height=1.0, restitution=e), duration=6.0, saltation=False, **TIGHT)
    fall = np.sqrt(2 / 9.81)
    bounces = times_of(run, "touchdown")
    expected = fall + 2 * fall * np.cumsum([0, *e ** np.arange(1, len(bounces))])
    assert np.allclose(bounces, expected, atol=1e-9, rtol=0)
    assert times_of(run, "zeno") == pytest.approx([fall * (1 + e) / (1 - e)], abs=1e-9)
    assert run.attrs["failure"] == ""
    assert run.attrs["mode_names"] == ["free", "bounce slides"]
    assert float(run["contact_force"][-1, 0, 0]) == pytest.approx(9.81, rel=1e-12)
    assert abs(float(run["contact_gap"][-1, 0])) < 1e-15


def test_energy_of_each_bounce(ball):
    run = wt.simulate(ball, duration=1.0, saltation=False, **TIGHT)
    lost = run.attrs["contact_event_energy_lost"]
    assert lost[:2] == pytest.approx([9.81 * 0.75, 9.81 * 0.75 / 4], abs=1e-9)
    assert run.attrs["contact_event_kinds"][:2] == ["touchdown", "touchdown"]


def test_block_sticks_exactly_below_the_friction_angle():
    steep = 0.5
    run = wt.simulate(m.sliding_block(angle=steep, friction=np.tan(steep) + 1e-6), duration=0.5, **TIGHT)
    assert np.all(run["v"].values == 0)
    assert run.attrs["mode_names"] == ["base on ground sticks"]


def test_block_slides_above_the_friction_angle():
    run = wt.simulate(m.sliding_block(angle=0.5, friction=0.3), duration=0.5, **TIGHT)
    a = 9.81 * (np.sin(0.5) - 0.3 * np.cos(0.5))
    assert np.allclose(run["v"].values[:, 0], a * run.time.values, atol=1e-12)


def test_block_that_was_pushed_uphill_slides_back_or_stays():
    run = wt.simulate(m.sliding_block(angle=0.5, friction=0.6, speed=-1.0), duration=0.5, **TIGHT)
    stop = 1 / (9.81 * (np.sin(0.5) + 0.6 * np.cos(0.5)))
    assert times_of(run, "stick") == pytest.approx([stop], abs=1e-9)
    assert run.attrs["mode_names"] == ["base on ground slides", "base on ground sticks"]


def test_housners_rocking_block():
    run = wt.simulate(m.rocking_block(width=0.2, height=1.0), duration=0.7, **TIGHT)
    times, before, after = event_states(run)
    assert len(times) == 2
    ratio = 1 - 1.5 * np.sin(np.arctan(0.2)) ** 2
    assert np.allclose(after[:, -1] / before[:, -1], ratio, atol=1e-9)
    assert run.attrs["event_names"][:2] == ["touchdown right corner", "lift-off left corner"]


@pytest.mark.parametrize("inertia", [0.1, 0.0])
def test_rimless_wheel(inertia):
    """With hub inertia, and without: the turn of a point mass on massless spokes is carried by the contact alone."""
    run = wt.simulate(m.rimless_wheel(spokes=8, hub_inertia=inertia), duration=0.5, saltation=False, **TIGHT)
    _, before, after = event_states(run)
    ratio = (np.cos(np.pi / 4) + inertia) / (1 + inertia)
    assert np.allclose(after[0, -1] / before[0, -1], ratio, atol=1e-9)


def test_simplest_walker_repeats_its_gait():
    model = m.simplest_walker()
    legs = [model.q_slice(name).start for name in ("stance", "swing")]

    def in_front(name, t, q, v):
        own, other = legs if name.startswith("stance") else legs[::-1]
        return q[own] > q[other]

    run = wt.simulate(model, duration=4.0, admits=in_front, saltation=False, method="events", rtol=1e-12, atol=1e-13)
    _, _, after = event_states(run)
    q, v = after[0][: model.nq], after[0][model.nq :]
    assert q[legs[1]] == pytest.approx(0.200310900544, abs=1e-6)
    assert v[model.slice("swing").start] == pytest.approx(-0.199832473005, abs=1e-6)
    assert run.attrs["event_names"] == ["touchdown swing foot on ground", "lift-off stance foot on ground"]


@pytest.mark.parametrize("massless", ["hold", "refuse"])
def test_hopper_keeps_its_energy_through_touchdown_and_lift_off(massless):
    run = wt.simulate(m.hopper(), duration=2.0, massless=massless, saltation=False, **TIGHT)
    energy = (run["kinetic_energy"] + run["potential_energy"]).values
    assert np.abs(energy - energy[0]).max() < 1e-9
    speed, omega = np.sqrt(2 * 9.81 * 0.2), np.sqrt(1000.0)
    stance = (2 * np.pi - 2 * np.arctan(speed * omega / 9.81)) / omega
    down, up = times_of(run, "touchdown"), times_of(run, "lift-off")
    assert len(down) >= 3
    assert down[0] == pytest.approx(np.sqrt(0.4 / 9.81), abs=1e-9)
    assert np.allclose(np.array(up[:3]) - down[:3], stance, atol=1e-9)
    assert max(run.attrs["contact_event_energy_lost"]) < 1e-12


def test_painleve_rod_jams_and_says_so():
    run = wt.simulate(m.painleve_rod(), duration=0.1, saltation=False, **TIGHT)
    assert run.attrs["event_names"] == ["impact without collision tip on ground"]
    assert run.attrs["contact_event_energy_lost"][0] > 0
    assert run.attrs["failure"] == ""


@pytest.mark.parametrize(("law", "after"), [("newton", [-0.6, 0.4, 0.4, 0.4, 0.4]), ("sequential", [0, 0, 0, 0, 1])])
def test_cradle_of_five(law, after):
    run = wt.simulate(m.newtons_cradle(5), duration=0.3, impact_law=law, saltation=False, **TIGHT)
    assert np.allclose(run["v"].values[-1], after, atol=1e-12)


def rolling_ball(slope=0.3, radius=0.1, friction=0.5):
    c, s = np.cos(slope), np.sin(slope)
    R = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    return (
        wt.Builder("rolling ball")
        .geometry("ground", "world", "half_space", rotation=R)
        .body("ball", 2.0, inertia=(0.4 * 2 * radius**2,) * 3)
        .joint("free", "free", "world", "ball", start=(*(R @ [0, 0, radius]), 1, 0, 0, 0))
        .geometry("sphere", "ball", "sphere", radius=radius)
        .contact("rolls", "sphere", "ground", friction=friction)
        .build()
    )


@pytest.mark.slow
def test_a_sphere_rolls_down_an_incline():
    run = wt.simulate(rolling_ball(), duration=0.5, **TIGHT)
    moved = np.linalg.norm(run["q"].values[:, :3] - run["q"].values[0, :3], axis=1)
    assert np.allclose(moved, 9.81 * np.sin(0.3) * 5 / 14 * run.time.values**2, atol=1e-9)
    assert run.attrs["mode_names"] == ["rolls sticks"]
    assert np.allclose(np.linalg.norm(run["contact_force"].values[:, 0, 1:], axis=1), 2 * 9.81 * np.sin(0.3) * 2 / 7)


def test_initial_penetration_is_refused_by_name(ball):
    q = np.array(ball.home.q)
    q[0] = -0.2
    with pytest.raises(wt.AssemblyError, match=r"'bounce' by .* m\. Move the bodies apart"):
        wt.simulate(ball, q, duration=0.1, method="events")


def test_a_cap_ends_the_run_with_its_reason(ball):
    run = wt.simulate(ball, duration=2.0, most_events=3, saltation=False, **TIGHT)
    assert "most_events = 3" in run.attrs["failure"]
    assert len(run.time) > 1


def test_unknown_law_and_option(ball):
    with pytest.raises(wt.NameLookupError, match="there is no impact law 'elastic'"):
        wt.simulate(ball, duration=0.1, method="events", impact_law="elastic")
    with pytest.raises(wt.NameLookupError, match="there is no option 'bounciness'"):
        wt.simulate(ball, duration=0.1, method="events", bounciness=1)


def test_a_run_taken_up_again_gives_the_same_bits(ball):
    from whippletree.simulation.events.event_method import Events
    from whippletree.simulation.method import Task
    from whippletree.simulation.motion import Motion

    start = np.concatenate([ball.home.q, ball.home.v])
    task = Task(Motion(wt.compile(ball)), start, np.linspace(0, 1.2, 61), 1e-9, 1e-12)
    whole = list(Events(task).chunks())
    for stop in (1, len(whole) // 2, len(whole) - 2):
        rest = list(Events(task).chunks(dict(whole[stop].memo)))
        for one, other in zip(whole[stop + 1 :], rest, strict=True):
            assert np.array_equal(one.times, other.times)
            assert np.array_equal(one.states, other.states)
            assert one.events == other.events
            assert all(np.array_equal(one.memo[key], other.memo[key]) for key in one.memo)


@pytest.mark.slow
def test_a_four_bar_linkage_hits_a_stop():
    """A parallelogram of three equal rods falls from 60°; its coupler's pin hits a wall at cos θ = 0.8."""
    plain = m.four_bar(lengths=(1.0, 1.0, 1.0, 1.0), masses=(1.0, 1.0, 1.0))
    facing = np.array([[0, 0, -1.0], [0, 1, 0], [1.0, 0, 0]])
    model = replace(
        plain,
        geometries=(
            Geometry("wall", "world", "half_space", pose=pose_matrix((0.8, 0, 0), facing)),
            Geometry("pin", "coupler rod", "point"),
        ),
        contacts=(Contact("stop", "pin", "wall", restitution=0.5),),
    )
    q = wt.assemble(model, model.home.q, hold={"crank": np.pi / 3})
    run = wt.simulate(model, q, np.zeros(model.nv), duration=0.6, saltation=False, **TIGHT)
    _, before, after = event_states(run)
    crank = model.nq + model.slice("crank").start
    omega = -np.sqrt(4 * 9.81 * (np.sin(np.pi / 3) - 0.6) / (5 / 3))
    assert before[0, crank] == pytest.approx(omega, abs=1e-9)
    assert after[0, crank] == pytest.approx(-omega / 2, abs=1e-9)
    assert np.abs(run["constraint_residual"].values).max() < 1e-12
    assert run["contact_gap"].values.min() > -1e-12


@pytest.mark.slow
def test_a_quadruped_lands_on_four_feet():
    run = wt.simulate(m.quadruped(height=0.02), duration=0.1, saltation=False, method="events")
    assert len(times_of(run, "touchdown")) == 4
    assert times_of(run, "touchdown") == pytest.approx([np.sqrt(0.04 / 9.81)] * 4, abs=1e-9)
    energy = (run["kinetic_energy"] + run["potential_energy"]).values
    assert np.all(np.diff(energy) < 1e-9)
    assert np.all(run["contact_force"].values[-1, :, 0] > 0)
