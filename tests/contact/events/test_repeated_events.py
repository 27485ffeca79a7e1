"""Events that follow each other fast: impacts that accumulate, and contacts that neither part nor close."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.events import zeno
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.motion import Motion

m = wt.mechanisms
G = 9.81
EVENTS = {"method": "events", "saltation": False, "rtol": 1e-11, "atol": 1e-13}


def times_of(run, name):
    return [t for n, t in zip(run.attrs["event_names"], run.attrs["event_times"], strict=True) if n == name]


def strict(run):
    """The run took no tolerance beyond those it was given."""
    return run.attrs["speed_tolerance"] == 1e-9 and run.attrs["acceleration_share"] == 0.0


def ball(builder, name, place, height, restitution, floor="floor"):
    builder.body(name, 0.5, inertia=(0.01, 0.01, 0.01))
    builder.joint(name, "prismatic", "world", name, position=(place, 0, 0), axis=(0, 0, 1), start=height)
    builder.geometry(name, name, "point")
    return builder.contact(f"{name} on floor", name, floor, restitution=restitution)


@pytest.mark.slow
@pytest.mark.parametrize("interval", [1e-6, 1e-4, 1e-2])
def test_one_impact_tells_when_a_ball_rests(interval):
    """Hops end where the next is shorter than the interval; the time to which they converge is the same."""
    e, fall = 0.5, np.sqrt(2 / G)
    run = wt.simulate(m.bouncing_ball(height=1.0, restitution=e), duration=2.0, zeno_interval=interval, **EVENTS)
    bounces = 1 + int(np.ceil(np.log(interval / (2 * fall * e)) / np.log(e)))
    assert len(times_of(run, "touchdown bounce")) == bounces
    assert times_of(run, "zeno bounce") == pytest.approx([fall * (1 + e) / (1 - e)], abs=1e-9)
    assert strict(run)


def test_balls_that_bounce_at_the_same_time_rest_each_at_its_own():
    """Their impacts interleave; neither keeps the other from coming to rest."""
    builder = wt.Builder("two balls").geometry("floor", "world", "half_space")
    for name, height, e in (("low", 0.3, 0.7), ("high", 0.5, 0.6)):
        ball(builder, name, 0 if name == "low" else 1, height, e)
    run = wt.simulate(builder.build(), duration=2.5, **EVENTS)
    for name, height, e in (("low", 0.3, 0.7), ("high", 0.5, 0.6)):
        rest = np.sqrt(2 * height / G) * (1 + e) / (1 - e)
        assert times_of(run, f"zeno {name} on floor") == pytest.approx([rest], abs=1e-9)
    assert run.attrs["failure"] == ""


def test_an_elastic_ball_hops_on_however_low():
    model = m.bouncing_ball(height=1.0, restitution=1.0)
    low = model.home.q.copy()
    low += 1e-13 - float(wt.reference(model).contact_gaps(low)[0])
    run = wt.simulate(model, low, duration=1e-5, most_events=20, **EVENTS)
    assert "zeno bounce" not in run.attrs["event_names"]


def test_hops_of_contacts_that_part_stay_or_leave():
    builder = wt.Builder("three").geometry("floor", "world", "half_space")
    for number, name in enumerate(("hops", "lies", "leaves")):
        ball(builder, name, number, 0.0, 0.5)
    model = builder.build()
    scene = EventEquations(Motion(wt.compile(model), lambda t, q, v: np.array([0, 0, 20.0])))
    from whippletree.contact.contact_modes import OPEN, SLIDE, Mode

    mode = Mode((OPEN, SLIDE, OPEN), np.zeros((3, 2)))
    phase = Phase(scene, mode, 0.0, np.array([0, 0, 0, 1e-6, 0, 1e-6]))
    assert zeno.hops(phase, [0, 1, 2]) == pytest.approx([2e-6 / G, 0.0, np.inf], rel=1e-12)
    assert zeno.resting(phase, [0, 1, 2], None, 1e-6) == pytest.approx({0: 4e-6 / G})


def test_an_approach_below_the_tolerance_is_no_series_of_touchdowns():
    """Lifted off the floor, but still moving down at 1e-10 m/s: one lift, not one touchdown after another."""
    model = ball(wt.Builder("lifted").geometry("floor", "world", "half_space"), "ball", 0, 0.0, 0.3).build()
    up = wt.simulate(model, v0=np.array([-1e-10]), duration=0.1, controller=lambda t, q, v: np.array([10.0]), **EVENTS)
    assert len(up.attrs["event_names"]) <= 1
    assert strict(up)
    assert float(up["q"][-1, 0]) == pytest.approx((10 / 0.5 - G) * 0.1**2 / 2, abs=1e-9)


def test_rounding_of_a_high_floor_is_no_touchdown():
    """A ball leaves a floor 1000 m up at 0.1 mm/s: the first moments of its gap are rounding."""
    builder = wt.Builder("high").geometry("floor", "world", "half_space", position=(0, 0, 1000))
    model = ball(builder, "ball", 0, 1000.0, 0.5).build()
    run = wt.simulate(model, v0=np.array([1e-4]), duration=1e-4, **EVENTS)
    assert times_of(run, "touchdown ball on floor")[0] == pytest.approx(2e-4 / G, abs=1e-9)
    assert strict(run)


@pytest.mark.slow
def test_balls_that_clatter_between_floor_and_walls():
    """Three balls land on the floor of a box and on each other: strict tolerances suffice, and energy falls."""
    model = m.spheres_in_box(3, restitution=0.4, width=0.15)
    run = wt.simulate(model, duration=0.3, output_dt=0.01, method="events", saltation=False)
    assert run.attrs["failure"] == ""
    assert strict(run)
    assert len(run.attrs["instant_times"]) < 200
    assert np.diff((run["kinetic_energy"] + run["potential_energy"]).values).max() < 1e-12
    assert float(run["contact_gap"].min()) > -1e-12
