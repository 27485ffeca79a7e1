"""Toys that events are made for: a woodpecker that rattles down its pole, a tippe top, a disc that rolls on its rim."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.problem.delassus import islands
from whippletree.contact.problem.sliding_combinations import alone
from whippletree.simulation.events import phase as phases


def about_x(angle):
    return np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0


def woodpecker():
    """After Glocker: a sleeve with clearance on a pole, the bird on a spring at its side, and a beak that pecks."""
    builder = wt.Builder("woodpecker", (0, -9.81, 0))
    for side, x, rotation in (
        ("right", 2.5e-3, [[0, 0, 1.0], [0, 1.0, 0], [-1.0, 0, 0]]),
        ("left", -2.5e-3, [[0, 0, -1.0], [0, 1.0, 0], [1.0, 0, 0]]),
    ):
        builder.geometry(f"pole {side}", "world", "half_space", position=(x, 0, 0), rotation=rotation)
    builder.body("sleeve", 0.3e-3, inertia=(5e-9, 5e-9, 5e-9)).joint("base", "planar", "world", "sleeve")
    builder.body("bird", 4.5e-3, center=(20.1e-3, 0, 0), inertia=(7e-7, 7e-7, 7e-7))
    builder.joint("hinge", "revolute", "sleeve", "bird", position=(10e-3, 0, 0), stiffness=5.6e-3)
    for side, x in (("right", 3.1e-3), ("left", -3.1e-3)):
        for end, y in (("up", 5.8e-3), ("down", -5.8e-3)):
            builder.geometry(f"{side} {end}", "sleeve", "point", position=(x, y, 0))
            builder.contact(f"{side} {end} on pole", f"{side} {end}", f"pole {side}", friction=0.3)
    builder.geometry("beak", "bird", "point", position=(-5.5e-3, 20e-3, 0))
    builder.contact("peck", "beak", "pole right", friction=0.3, restitution=0.5)
    model = builder.build()
    q = model.home.q.copy()
    q[2:] = -0.1, -0.5
    return model, q, np.zeros(4), 0.12


def tippe_top():
    """A ball whose centre of mass lies below its middle, spun fast, which slides on the ground."""
    mass, radius = 0.02, 0.015
    builder = wt.Builder("tippe top", (0, 0, -9.81)).geometry("ground", "world", "half_space")
    moment = 0.4 * mass * radius**2
    builder.body("top", mass, center=(0, 0, -3e-3), inertia=(moment, moment, 1.05 * moment))
    builder.joint("base", "free", "world", "top", start=(0, 0, radius, *about_x(0.1)))
    builder.geometry("ball", "top", "sphere", radius=radius).contact("touch", "ball", "ground", friction=0.3)
    return builder.build(), None, np.array([0, 0, 180.0, 0, 0, 0]), 0.3


def disc_on_its_rim():
    mass, radius, thick, tilt = 0.4, 0.04, 0.01, 0.3
    builder = wt.Builder("disc", (0, 0, -9.81)).geometry("ground", "world", "half_space")
    across = mass * (3 * radius**2 + thick**2) / 12
    builder.body("disc", mass, inertia=(across, across, mass * radius**2 / 2))
    height = radius * np.sin(tilt) + thick / 2 * np.cos(tilt)
    builder.joint("base", "free", "world", "disc", start=(0, 0, height, *about_x(tilt)))
    builder.geometry("rim", "disc", "cylinder", radius=radius, length=thick)
    builder.contact("touch", "rim", "ground", friction=0.6)
    spin = np.sqrt(4 * 9.81 / (radius * np.sin(tilt))) * np.sin(tilt)
    return builder.build(), None, np.array([0, spin, 0, 0, 0, 0]), 0.5


@pytest.mark.slow
@pytest.mark.parametrize("toy", [woodpecker, tippe_top, disc_on_its_rim])
def test_no_energy_is_made_and_nothing_is_passed_through(toy):
    model, q, v, duration = toy()
    run = wt.simulate(model, q, v, duration=duration, method="events")
    assert run.attrs["failure"] == ""
    energy = (run.kinetic_energy + run.potential_energy).values
    size = float(run.kinetic_energy.max() + np.ptp(run.potential_energy.values))
    assert np.diff(energy).max() <= 1e-11 * size
    assert run.contact_gap.values.min() >= -1e-12
    assert run.cone_violation.values.max() <= 1e-9 * max(1.0, np.abs(run.contact_force.values).max())
    dyn, (_, before, after) = wt.compile(model), wt.event_states(run)
    for old, new in zip(before, after, strict=True):
        gaps = dyn.contact_gaps(old[: model.nq])
        rates = [dyn.contact_velocity(y[: model.nq], y[model.nq :]).reshape(-1, 3)[:, 0] for y in (old, new)]
        struck = (gaps < 1e-9) & (rates[0] < -1e-9)
        assert np.all(rates[1][struck] >= -1e-9), "what was struck does not go on through"


@pytest.mark.slow
def test_a_woodpecker_pecks_and_sticks_on_its_way_down():
    model, q, v, duration = woodpecker()
    run = wt.simulate(model, q, v, duration=duration, method="events", saltation=False)
    assert {"touchdown peck", "stick left up on pole", "slip left up on pole"} <= set(run.attrs["event_names"])
    assert float(run.q[-1, 1]) < 0 < float(run.contact_gap.sel(contact="peck").max())


@pytest.mark.parametrize("seed", range(20))
def test_a_contact_of_a_planar_model_is_the_same_along_either_tangent(seed):
    """Which of two tangents lies in the plane is a matter of how the surface was turned."""
    rng = np.random.default_rng(seed)
    L, b, friction = rng.normal(size=(2, 2)), rng.normal(size=2) - [2, 0], float(rng.uniform(0, 2))
    answers = []
    for moving in (1, 2):
        G, rates = np.zeros((3, 3)), np.zeros(3)
        G[np.ix_([0, moving], [0, moving])], rates[[0, moving]] = L @ L.T, b
        answers.append(alone(G, rates, friction)[[0, moving]])
        assert not alone(G, rates, friction)[3 - moving]
    np.testing.assert_array_equal(*answers)


def test_contacts_that_all_act_on_the_first_are_one_island():
    (whole,) = islands(np.ones((9, 9)))
    np.testing.assert_array_equal(whole, [0, 1, 2])
    apart = np.kron(np.eye(3), np.ones((3, 3)))
    assert [part.tolist() for part in islands(apart)] == [[0], [1], [2]]
    chain = np.kron(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]]), np.ones((3, 3)))
    assert [part.tolist() for part in islands(chain)] == [[0, 1, 2]]


def test_the_phase_that_a_foot_has_tried_is_the_one_that_is_followed(monkeypatch):
    """It is made once for an event, and a run that makes every phase anew has the same bits."""
    model, made, begin = wt.mechanisms.hopper(), [], phases.Phase.__init__

    def count(self, *arguments, **options):
        made.append(self)
        begin(self, *arguments, **options)

    monkeypatch.setattr(phases.Phase, "__init__", count)
    run = wt.simulate(model, duration=1.0, method="events")
    assert run.attrs["events"] == 4
    assert len(made) <= 9
    made.clear()
    monkeypatch.setattr(
        "whippletree.simulation.events.massless_feet.foot_slip.followed_phase",
        lambda scene, mode, t, y, still: phases.Phase(scene, mode, t, y, still),
    )
    again = wt.simulate(model, duration=1.0, method="events")
    assert len(made) > 9
    np.testing.assert_array_equal(run.q.values, again.q.values)
    np.testing.assert_array_equal(run.attrs["saltation_entries"], again.attrs["saltation_entries"])
