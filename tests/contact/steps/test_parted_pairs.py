"""Pairs whose shapes never meet, whatever the coordinates, are no business of a step."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.rollout.contact_lists.contact_list_parted import HeightsKept
from whippletree.contact.kinematics.contact_set import contact_set_of_steps
from whippletree.contact.kinematics.large_scenes import Snapshot
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep
from whippletree.tree.skeleton import skeleton

RNG = np.random.default_rng(7)


def cloud(low, high, count=12):
    """Corners of a hull between two heights, of which some are at these heights."""
    points = RNG.uniform(-0.1, 0.1, size=(count, 3))
    points[:, 2] = RNG.uniform(low, high, size=count)
    points[:3, 2], points[3:6, 2] = low, high
    return points


def two_links(gap=0.0, axis=(0, 0, 1), kind="revolute", base="mesh", margin=0.0, pitch=None, **link):
    """A link on a base, which may touch it, and an arm that swings on the link."""
    builder = wt.Builder("arm")
    shape = {"vertices": cloud(-0.2, -gap)} if base == "mesh" else {"radius": 0.06, "length": 0.2}
    place = (0, 0, 0) if base == "mesh" else (0, 0, -0.1 - gap)
    builder.geometry("base", "world", base, position=place, **shape)
    builder.body("link", 1.0, inertia=(1e-2, 2e-2, 3e-2)).joint(
        "turn", kind, "world", "link", axis=axis, **({} if pitch is None else {"pitch": pitch})
    )
    builder.geometry("link", "link", "mesh", **({"vertices": cloud(0.0, 0.2)} | link))
    builder.body("tip", 0.5, center=(0.2, 0, 0), inertia=(1e-2, 2e-2, 3e-2))
    builder.joint("swing", "revolute", "link", "tip", position=(0, 0, 0.1), axis=(0, 1, 0))
    builder.geometry("tip", "tip", "sphere", position=(0.3, 0, 0), radius=0.05)
    builder.contact("link on base", "link", "base", friction=0.8, margin=margin)
    builder.contact("tip on base", "tip", "base", friction=0.8)
    return builder.build()


def parted(model):
    """Names of the contacts whose shapes are said never to meet."""
    heights, tree = HeightsKept(model, skeleton(model)), skeleton(model)
    pairs = contact_set_of_steps(model).pairs
    return [pair.contact.name for pair in pairs if heights.are_parted(pair, pair.places(tree))]


@pytest.mark.parametrize("gap", [0.0, 1e-9, 0.01])
def test_shapes_that_turn_past_each_other_never_meet(gap):
    model = two_links(gap)
    assert parted(model) == ["link on base"]
    gaps = [Snapshot(contact_set_of_steps(model), q).points.gap for q in RNG.uniform(-3, 3, size=(5, 2))]
    first = contact_set_of_steps(model).pairs[0].slots
    assert np.min(np.array(gaps)[:, :first]) > gap - 1e-12


@pytest.mark.parametrize("case", ["overlapping", "tilted", "helical", "margin"])
def test_others_are_compared(case):
    told = {
        "overlapping": {"gap": -1e-6},
        "tilted": {"axis": (0, 1e-6, 1)},
        "helical": {"gap": 0.01, "kind": "helical", "pitch": 0.1},
        "margin": {"gap": 0.01, "margin": 0.011},
    }[case]
    assert parted(two_links(**told)) == []


def test_a_cylinder_that_turns_in_its_own_place_never_meets():
    beside = {"vertices": np.array([[0.1, 0, -0.1], [0.15, 0, -0.1], [0.1, 0.05, -0.15], [0.12, 0.02, 0.0]])}
    assert parted(two_links(0.0, base="cylinder", **beside)) == ["link on base"]
    nearer = {"vertices": beside["vertices"] - [0.05, 0, 0]}  # within the radius
    assert parted(two_links(0.0, base="cylinder", **nearer)) == []


@pytest.mark.slow
def test_a_step_is_the_same_without_such_a_pair():
    whole = two_links(0.0)
    alone = wt.without_overlaps(whole, whole.home.q, tolerance=-1e-6)  # what touches is left out, too
    assert [contact.name for contact in alone.contacts] == ["tip on base"]
    q, v = np.array([0.3, 0.0]), np.array([1.0, 0.0])
    runs = [
        wt.simulate(model, q, v, duration=0.6, step=2e-3, method="time_stepping", progress=False)
        for model in (whole, alone)
    ]
    assert runs[0].contact_force.values[:, -1].any()  # the tip lands
    assert not runs[0].contact_force.values[:, :-1].any()
    np.testing.assert_array_equal(runs[0].q.values, runs[1].q.values)
    np.testing.assert_array_equal(runs[0].contact_gap.values[:, -1], runs[1].contact_gap.values[:, -1])


def test_what_no_velocity_moves_apart_does_not_press_in_python_either():
    model = two_links(1e-9)
    stepper = ImpulseStep(Motion(wt.compile(model)), 1e-7)
    start = np.zeros((stepper.blocks.count, 3))
    step = stepper.step(0.0, np.array([0.3, 0.0, 1.0, 0.0]), start, np.zeros(2), 2e-3)
    assert not step.impulses.any()
    assert step.state[2] == pytest.approx(1.0)
    # asked for again, it is not taken again
    assert stepper.step(0.0, np.array([0.3, 0.0, 1.0, 0.0]), start, np.zeros(2), 2e-3) is step
