"""Runs from event to event that have to end in contact: boxes, feet without mass, wheels and walkers."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.errors import IntegrationError
from whippletree.simulation.events.event_log import event_states
from whippletree.simulation.events.smooth_motion import CRAWLING_STEPS, Crawl
from whippletree.simulation.method import suitable

m = wt.mechanisms
EVENTS = {"method": "events", "saltation": False}
QUIET = 1e-9


def box(restitution, quaternion=(1, 0, 0, 0), height=0.5):
    x, y, z = 0.4, 0.3, 0.2
    q = np.array(quaternion) / np.linalg.norm(quaternion)
    return (
        wt.Builder("box")
        .geometry("ground", "world", "half_space")
        .body("box", 1.0, inertia=((y * y + z * z) / 12, (x * x + z * z) / 12, (x * x + y * y) / 12))
        .joint("free", "free", "world", "box", start=(0, 0, height, *q))
        .geometry("shape", "box", "box", size=(x, y, z))
        .contact("c", "shape", "ground", friction=0.5, restitution=restitution)
        .build()
    )


def energy(run):
    return (run["kinetic_energy"] + run["potential_energy"]).values


@pytest.mark.slow
@pytest.mark.parametrize("restitution", [0.0, 0.3])
@pytest.mark.parametrize("quaternion", [(1, 0.1, 0, 0), (1, 0.1, 0.07, 0.2)], ids=["edge", "corner"])
def test_a_falling_box_comes_to_rest_on_four_corners(restitution, quaternion):
    """Impacts of alternating corners accumulate, slips turn and stop together, and the support is hyperstatic."""
    run = wt.simulate(box(restitution, quaternion), duration=1.0, **EVENTS)
    assert run.attrs["failure"] == ""
    assert run.attrs["mode_names"][-1] == "c.1 sticks, c.3 sticks, c.5 sticks, c.7 sticks"
    assert np.abs(run["v"].values[-1]).max() < QUIET
    assert energy(run)[-1] == pytest.approx(9.81 * 0.1, abs=1e-9)
    assert np.diff(energy(run)).max() < 1e-9
    assert float(run["contact_force"].values[-1, :, 0].sum()) == pytest.approx(9.81, abs=1e-9)
    assert float(run["cone_violation"].max()) < 1e-8


@pytest.mark.parametrize("edge", [1e-5, 1e3])
def test_a_cube_of_any_size_rests_on_its_corners(edge):
    """Which rows depend on each other is no question of units: from micrograms to 10¹² kg."""
    mass = 1000 * edge**3
    builder = wt.Builder("cube").geometry("ground", "world", "half_space")
    builder.body("cube", mass, inertia=(mass * edge**2 / 6,) * 3).geometry("shape", "cube", "box", size=(edge,) * 3)
    builder.joint("free", "free", "world", "cube", start=(0, 0, edge, 1, 0, 0, 0))
    model = builder.contact("c", "shape", "ground", friction=0.3).build()
    unit = np.sqrt(edge / 9.81)
    run = wt.simulate(model, v0=[0, 0, 0, 2 * edge / unit, 0, 0], duration=10 * unit, **EVENTS)
    assert not run.attrs["failure"]
    # it falls by half an edge, lands, which takes μ times its speed, and slides on against friction until it stops
    landing, after = 1.0, 2 - 0.3 * 1.0
    expected = [2 * landing + after**2 / (2 * 0.3), 0, 0.5]
    np.testing.assert_allclose(run.q.values[-1, :3] / edge, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(run.contact_force.values[-1, :, 0].sum(), mass * 9.81, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("spin", [1e-6, 1e-5, 1e-4])
def test_edges_that_take_each_others_places_do_not_drag_the_bodies_along(spin):
    """Two cards that lean on each other slide apart; crossings of their edges come and go among the candidates, as one
    of the cards spins by so little (rad/s) that it is not seen."""
    tilt, length, thick = np.deg2rad(20), 0.2, 0.004
    builder = wt.Builder("cards").geometry("ground", "world", "half_space")
    for name, side in (("left", 1), ("right", -1)):
        x = -side * (length * np.sin(tilt) + thick * np.cos(tilt)) / 2
        z = (length * np.cos(tilt) + thick * np.sin(tilt)) / 2
        turn = np.cos(tilt / 2), 0, side * np.sin(tilt / 2), 0
        builder.body(name, 0.1, inertia=(4.1e-4, 3.4e-4, 8.4e-5))
        builder.joint(name, "free", "world", name, start=(x, 0, z, *turn))
        builder.geometry(name, name, "box", size=(thick, 0.1, length))
        builder.contact(f"{name} foot", name, "ground", friction=0.1)
    model = builder.contact("top", "left", "right", friction=0.1).build()
    v = np.zeros(12)
    v[2] = spin
    run = wt.simulate(model, None, v, duration=8.5e-3, output_dt=5e-4, **EVENTS)
    assert not run.attrs["failure"]
    assert "touchdown" in run.attrs["contact_event_kinds"]
    assert np.diff(energy(run)).max() < 1e-9 * energy(run)[0]
    left, right = run.q.values[-1].reshape(2, 7)
    np.testing.assert_allclose(left[[0, 2, 3, 5]], right[[0, 2, 3, 5]] * [-1, 1, 1, -1], rtol=0, atol=1e-9)
    assert 0 < run.q.values[0, 2] - left[2] < 9.81 * 8.5e-3**2 / 2


def test_a_box_that_slides_and_spins_stops_all_at_once():
    model = box(0.0, height=0.1)
    run = wt.simulate(model, model.home.q, np.array([0, 0, 1.0, 2.0, 0.5, 0]), duration=0.5, **EVENTS)
    assert run.attrs["failure"] == ""
    assert run.attrs["mode_names"][-1] == "c.1 sticks, c.3 sticks, c.5 sticks, c.7 sticks"
    assert float(run["cone_violation"].max()) < 1e-8
    # friction takes all of the kinetic energy, and no more
    assert energy(run)[-1] == pytest.approx(9.81 * 0.1, abs=1e-9)
    assert run.attrs["speed_tolerance"] <= 1e-4


def test_a_rocking_block_comes_to_rest():
    run = wt.simulate(m.rocking_block(width=0.6, height=1.0), duration=1.0, **EVENTS)
    assert run.attrs["mode_names"][-1] == "left corner sticks, right corner sticks"
    assert "zeno" in run.attrs["contact_event_kinds"]


def test_a_massless_foot_trails_where_nothing_presses_it():
    """The leg of a runner that is not swung forwards drags behind; whatever it does, it takes no energy."""
    run = wt.simulate(m.hopper(speed=0.5, attack=0.1), duration=5.0, rtol=1e-11, atol=1e-13, **EVENTS)
    assert run.attrs["failure"] == ""
    assert "foot on ground slides" in run.attrs["mode_names"]
    assert np.abs(energy(run) - energy(run)[0]).max() < 1e-9
    assert run["contact_gap"].values.min() > -1e-12
    trails = run["contact_state"].values[:, 0] == 2
    assert np.any(trails)
    assert np.abs(run["contact_force"].values[trails]).max() < 1e-7


def test_a_trailing_foot_grips_when_its_leg_enters_the_cone():
    """With little friction a foot in front first slides, without force, until the leg is steep enough."""
    friction = 0.05
    run = wt.simulate(m.hopper(speed=0.5, attack=0.3, friction=friction), duration=1.0, **EVENTS)
    grips = run.attrs["event_times"][run.attrs["event_names"].index("stick foot on ground")]
    index = np.searchsorted(run.time.values, grips)
    assert abs(np.tan(run["q"].values[index, 2])) < friction
    assert float(run["cone_violation"].max()) < 1e-7


def test_a_massless_foot_that_slips_under_load_is_refused_by_name():
    run = wt.simulate(m.hopper(speed=1.0, attack=0.25, friction=0.3), duration=2.0, **EVENTS)
    assert "'foot on ground' slips under a load of" in run.attrs["failure"]
    assert "Give that body mass" in run.attrs["failure"]


def test_a_rimless_wheel_reaches_its_limit_cycle():
    """ω⁺ = ω⁻ cos 2α and ω⁻² = ω⁺² + 4 (g / l) sin α sin γ between impacts: ω⁺² = c² 4 g sin α sin γ / (1 − c²)."""
    spokes, slope = 8, 0.25
    wheel = m.rimless_wheel(spokes=spokes, slope=slope, hub_inertia=0.0, rate=-1.2)
    run = wt.simulate(wheel, duration=14.0, output_dt=1.0, **EVENTS)
    _, _, after = event_states(run)
    half = np.pi / spokes
    c = np.cos(2 * half)
    rate = np.sqrt(c * c * 4 * 9.81 * np.sin(half) * np.sin(slope) / (1 - c * c))
    assert after[-1, -1] == pytest.approx(-rate, abs=1e-9)


def test_the_simplest_walker_keeps_its_gait_for_five_steps():
    model = m.simplest_walker()
    legs = [model.q_slice(name).start for name in ("stance", "swing")]

    def in_front(name, t, q, v):
        own, other = legs if name.startswith("stance") else legs[::-1]
        return q[own] > q[other]

    run = wt.simulate(model, duration=20.0, admits=in_front, rtol=1e-12, atol=1e-13, **EVENTS)
    _, _, after = event_states(run)
    assert len(after) >= 5
    for step, state in enumerate(after):
        new = legs[(step + 1) % 2]
        assert state[new] == pytest.approx(0.200310900544, abs=1e-6)
        assert state[model.nq + new] == pytest.approx(-0.199832473005, abs=1e-6)


@pytest.mark.slow
def test_a_running_gait_of_the_hopper_repeats():
    """From apex to apex with the leg set to its attack angle in flight: an attack for which the apex comes back."""
    from scipy.optimize import brentq

    model = m.hopper(stiffness=200.0)
    compiled = wt.compile(model)

    def stride(attack, height=1.0, speed=5.0):
        q, v = np.array([0, height, attack, 1.0]), np.array([speed, 0, 0, 0])
        run = wt.simulate(model, q, v, duration=0.6, output_dt=0.6, compiled=compiled, **EVENTS)
        up = run.attrs["event_names"].index("lift-off foot on ground")
        _, before, _ = event_states(run)
        y, vx, vy = before[up, 1], before[up, 4], before[up, 5]
        return y + vy**2 / (2 * 9.81), vx

    attack = brentq(lambda a: stride(a)[0] - 1.0, 0.42, 0.5, xtol=1e-12)
    height, speed = 1.0, 5.0
    for _ in range(3):
        height, speed = stride(attack, height, speed)
        assert height == pytest.approx(1.0, abs=1e-6)
        assert speed == pytest.approx(5.0, abs=1e-6)


def test_a_hundred_elastic_bounces_keep_the_energy():
    run = wt.simulate(m.bouncing_ball(height=1.0, restitution=1.0), duration=91.0, output_dt=7.0, **EVENTS)
    assert len(run.attrs["event_times"]) > 100
    assert np.abs(energy(run) - energy(run)[0]).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("angle", [1.0, 1.2])
@pytest.mark.parametrize("friction", [1.4, 5.0, 1e6])
def test_painleve_rods_jam_and_lose_energy(angle, friction):
    run = wt.simulate(m.painleve_rod(friction=friction, angle=angle), duration=0.1, **EVENTS)
    assert run.attrs["contact_event_kinds"][0] == "impact without collision"
    assert run.attrs["contact_event_energy_lost"][0] > 0
    assert run.attrs["failure"] == ""


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_start_state_that_is_not_finite_is_refused(bad):
    ball = m.bouncing_ball()
    with pytest.raises(ValueError, match="a start state must be finite"):
        wt.simulate(ball, ball.home.q, np.array([bad]), duration=0.1, **EVENTS)


@pytest.mark.slow
def test_hops_below_rounding_end_in_contact():
    """A biped pushed forwards: its front foot stubs and hops, ever shorter, until it stays."""
    biped = m.planar_biped()
    push = np.zeros(biped.nv)
    push[0] = 1.5
    run = wt.simulate(biped, biped.home.q, push, duration=0.3, **EVENTS)
    assert run.attrs["failure"] == ""
    assert run.attrs["mode_names"][-1] == "left foot on ground sticks"
    assert np.diff(energy(run)).max() < 1e-9


@pytest.mark.slow
def test_a_stiff_quadruped_lands_tilted():
    """Where a foot begins to slide, its direction of slip turns as fast as strong dampers let it."""
    dog = m.quadruped(height=0.02, damping=5.0)
    q = dog.home.q.copy()
    q[3:7] = [np.cos(0.05), np.sin(0.05), 0, 0]
    run = wt.simulate(dog, q, duration=0.3, **EVENTS)
    assert run.attrs["failure"] == ""
    assert np.diff(energy(run)).max() < QUIET
    assert float(run["cone_violation"].max()) < QUIET


def test_a_crawl_is_noticed():
    crawl = Crawl(0.0, 1.0)
    for k in range(1, CRAWLING_STEPS):
        crawl.watch(k * 1e-12)
    with pytest.raises(IntegrationError, match=r"crawls.*time_stepping"):
        crawl.watch(CRAWLING_STEPS * 1e-12)
    for k in range(1, 5 * CRAWLING_STEPS):
        crawl.watch(k * 1e-4)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (m.bouncing_ball, "events"),
        (m.planar_biped, "events"),
        (lambda: box(0.0), "events"),
        (m.quadruped, "time_stepping"),
        (m.pendulum, "adaptive"),
    ],
)
def test_what_auto_takes(model, method):
    assert suitable(model()) == method
