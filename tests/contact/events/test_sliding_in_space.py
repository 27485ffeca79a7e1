"""Several contacts that slide in space: landing, jamming, tipping, coming to rest."""

import numpy as np
import pytest

import whippletree as wt
from sliding_scenes import EVENTS, TABLE, G, assert_lawful, sled, tilted


@pytest.mark.slow
def test_a_quadruped_lands_tilted():
    """Feet strike, slide, stick and lift one after the other; slips are slow against what friction can turn."""
    dog = wt.mechanisms.quadruped()
    run = wt.simulate(dog, tilted(dog, (0.1, 0, 0), 0.1), duration=0.25, **EVENTS)
    assert_lawful(run)
    assert {"slip", "stick", "lift-off"} <= set(run.attrs["contact_event_kinds"])
    assert run.attrs["steps"] < 800


@pytest.mark.slow
def test_time_stepping_converges_to_the_landing_of_a_quadruped():
    """Seventy events of four feet in 0.3 s."""
    dog = wt.mechanisms.quadruped(friction=0.5)
    q, v = tilted(dog, (0.06, -0.04, 0.02), 0.05), np.zeros(dog.nv)
    v[3:6] = [0.3, 0.1, 0.0]
    exact = wt.simulate(dog, q, v, duration=0.3, **EVENTS)
    assert_lawful(exact)
    assert len(exact.attrs["event_times"]) > 50
    errors = []
    for step in (1e-3, 2.5e-4):
        run = wt.simulate(dog, q, v, duration=0.3, method="time_stepping", step=step, output_dt=0.3)
        errors.append(np.abs(run["q"].values[-1] - exact["q"].values[-1]).max())
    assert errors[0] < 2e-3
    assert 2.5 < errors[0] / errors[1] < 6.5


@pytest.mark.slow
def test_a_foot_whose_slip_turns_into_a_jam_is_struck_without_collision():
    dog = wt.mechanisms.quadruped(friction=1.2)
    v = np.zeros(dog.nv)
    v[:6] = [-0.03, -0.13, 0.23, 0.06, -0.49, -0.36]
    run = wt.simulate(dog, tilted(dog, (0.09, -0.035, -0.148), 0.052), v, duration=0.07, **EVENTS)
    assert_lawful(run)
    assert "impact without collision" in run.attrs["contact_event_kinds"]


@pytest.mark.slow
@pytest.mark.parametrize("spin", [0.0, 1.0, 8.0])
def test_a_table_thrown_with_spin_comes_to_rest(spin):
    run = wt.simulate(sled(TABLE, height=0.3), v0=np.array([0, 0, spin, 1.0, 0.1, 0]), duration=1.0, **EVENTS)
    assert_lawful(run)
    assert run.attrs["mode_names"][-1].count("sticks") == 4
    assert run.attrs["event_times"][-3:] == pytest.approx([run.attrs["event_times"][-1]] * 3, abs=1e-9)
    assert np.abs(run["v"].values[-1]).max() < 1e-9


def train():
    """Two plates on three feet each, hinged to each other about the vertical: six loads for three equations."""
    builder = wt.Builder("train").geometry("ground", "world", "half_space")
    builder.body("engine", 1.0, inertia=(0.05, 0.05, 0.06)).body("wagon", 2.0, inertia=(0.05, 0.05, 0.06))
    builder.joint("free", "free", "world", "engine", start=(0, 0, 0.1, 1, 0, 0, 0))
    builder.joint("hinge", "revolute", "engine", "wagon", position=(0.5, 0, 0), axis=(0, 0, 1), damping=0.01)
    for body, shift, friction in (("engine", 0.0, 0.3), ("wagon", 0.2, 0.4)):
        for n, (x, y) in enumerate([(0.1, 0.1), (-0.1, 0.1), (0.0, -0.1)]):
            builder.geometry(f"{body} foot {n}", body, "point", position=(x + shift, y, -0.1))
            builder.contact(f"{body} {n}", f"{body} foot {n}", "ground", friction=friction)
    return builder.build()


@pytest.mark.slow
def test_two_hinged_plates_slide_and_tip_over_an_edge():
    """Four feet lose their load at one instant and none takes over: the train tips on the other two."""
    run = wt.simulate(train(), v0=np.array([0, 0, 2.0, 1.0, 0.3, 0, -3.0]), duration=0.5, **EVENTS)
    assert_lawful(run)
    times = np.array(run.attrs["contact_event_times"])
    assert np.sum(np.abs(times - times[-1]) < 1e-9) == 4
    assert run.attrs["mode_names"][-1].count("slides") == 2
    assert float(run["contact_gap"].values[-1].max()) > 1e-3


@pytest.mark.slow
def test_two_balls_that_both_slide():
    builder = wt.Builder("balls").geometry("ground", "world", "half_space")
    for k in range(2):
        builder.body(f"ball {k}", 1.0 + k, inertia=(0.004 * (1 + k),) * 3)
        builder.joint(f"free {k}", "free", "world", f"ball {k}", start=(k, 0, 0.1, 1, 0, 0, 0))
        builder.geometry(f"skin {k}", f"ball {k}", "sphere", radius=0.1)
        builder.contact(f"touch {k}", f"skin {k}", "ground", friction=0.3)
    model = builder.build()
    v = np.array([3.0, -2.0, 5.0, 1.5, 0.02, 0, -1.0, 2.0, 0, 0, 0.3, 0])
    run = wt.simulate(model, v0=v, duration=0.5, **EVENTS)
    slips = [np.linalg.norm(w[3:] + np.cross(w[:3], [0, 0, -0.1])) for w in (v[:6], v[6:])]
    times = dict(zip(run.attrs["event_names"], run.attrs["event_times"], strict=True))
    for k, slip in enumerate(slips):
        assert times[f"stick touch {k}"] == pytest.approx(2 * slip / (7 * 0.3 * G), abs=1e-9)
    assert_lawful(run)


def test_a_box_on_an_edge_slips_before_it_lands_on_its_face():
    """Forces on an edge are not unique: where they leave their cones is seen before the landing that ends a step."""
    size = np.array([0.4, 0.3, 0.2])
    inertia = 0.25 * (np.sum(size**2) - size**2)
    model = (
        wt.Builder("box")
        .geometry("ground", "world", "half_space")
        .body("box", 3.0, inertia=tuple(inertia))
        .joint("free", "free", "world", "box", start=(0, 0, 0.5, 1, 0, 0, 0))
        .geometry("shape", "box", "box", size=tuple(size))
        .contact("c", "shape", "ground", friction=0.8)
        .build()
    )
    q = tilted(model, (-0.927, -0.174, 0.294), 0.0)
    run = wt.simulate(model, q, np.array([1.136, 0.110, -0.553, -0.785, 0.749, 1.635]), duration=1.0, **EVENTS)
    assert_lawful(run)
    assert "slip" in run.attrs["contact_event_kinds"]
