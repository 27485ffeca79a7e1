"""Reactions while something touches: every body by itself in balance with its joints, contacts and weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.model import Frame
from whippletree.model.contact_pairs import on_ground


def leg(friction=0.7, rubbing=2.0):
    """A hip on a rail, a thigh with a stop, a shank with a rubbing knee, a foot welded to it."""
    builder = wt.Builder("leg", gravity=(0, -9.81, 0))
    builder.body("hip", mass=2.0, inertia=(0.02,) * 3)
    builder.body("thigh", mass=1.0, center=(0.01, -0.25, 0.02), inertia=(0.02, 0.001, 0.02))
    builder.body("shank", mass=0.5, center=(0, -0.25, -0.01), inertia=(0.01, 0.001, 0.01))
    builder.body("foot", mass=0.1, center=(0.02, 0, 0), inertia=(1e-4,) * 3)
    builder.joint("rail", "prismatic", "world", "hip", axis=(0, 1, 0), start=0.95)
    builder.joint("hip", "revolute", "hip", "thigh", lower=-1.0, upper=0.55, start=0.5, damping=0.3)
    builder.joint(
        "knee", "revolute", "thigh", "shank", position=(0, -0.5, 0), start=-0.9, friction=rubbing, damping=0.2
    )
    builder.joint("ankle", "weld", "shank", "foot", position=(0, -0.5, 0))
    builder.geometry("ball", "foot", "sphere", radius=0.04, position=(0, 0.01, 0.03))
    return on_ground(builder.build(), geometries=["ball"], friction=friction)


def standing_linkage(friction=0.5):
    """A four-bar in the vertical plane whose coupler comes down on the ground: a loop that carries a contact."""
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8), masses=(1.0, 2.0, 0.5), angle=-0.4)
    frame = Frame("toe", "coupler rod", np.array([[1, 0, 0, 0.6], [0, 1, 0, -0.3], [0, 0, 1, 0], [0, 0, 0, 1.0]]))
    model = replace(model, frames=(*model.frames, frame))
    height = wt.reference(model).pose("toe")(model.home.q)[1, 3] - 0.02
    return on_ground(model, frames=["toe"], friction=friction, height=height)


def in_world(wrench, pose):
    """A wrench in a frame at this pose, about the world's origin in world axes."""
    force = pose[:3, :3] @ wrench[3:]
    return np.concatenate([pose[:3, :3] @ wrench[:3] + np.cross(pose[:3, 3], force), force])


def rest_of_balance(model, run, row):
    """What is left of each body's six equations in one row of output, and the largest term, (bodies, 6) and a number.

    Written with poses, twists and accelerations alone: no recursion, no rows, no contact Jacobian.
    """
    ref = wt.reference(replace(model, contacts=()))
    q, v = run.q.values[row], run.v.values[row]
    a = run.a.values[row]
    left = {"world": np.zeros(6)}
    for body in model.bodies:
        pose, V = ref.pose(body.name)(q), ref.twist(body.name)(q, v)
        A = ref.jacobian(body.name)(q) @ a + ref.jacobian_bias(body.name)(q, v)
        w, dw, c = V[:3], A[:3], np.asarray(body.center, float)
        acceleration = A[3:] + np.cross(w, V[3:]) + np.cross(dw, c) + np.cross(w, np.cross(w, c))
        force = body.mass * (acceleration - pose[:3, :3].T @ np.asarray(model.gravity, float))
        inertia = np.asarray(body.inertia, float)
        moment = inertia @ dw + np.cross(w, inertia @ w) + np.cross(c, force)
        left[body.name] = -in_world(np.concatenate([moment, force]), pose)
    largest = max(1.0, *[np.abs(x).max() for x in left.values()])
    ends = [(joint.parent, joint.child, joint.child) for joint in model.joints]
    ends += [(model.frame(c.on[0]).body, model.frame(c.on[1]).body, c.on[1]) for c in model.constraints]
    for (first, second, frame), reaction in zip(ends, run.joint_reactions.values[row], strict=True):
        wrench = in_world(reaction, ref.pose(frame)(q))
        left[first], left[second] = left[first] - wrench, left[second] + wrench
        largest = max(largest, np.abs(wrench).max())
    touching = wt.reference(model)
    points, axes = touching.contact_points(q), touching.contact_axes(q)
    for k, candidate in enumerate(wt.contact_set(model).candidates):
        force = run.contact_force.values[row, k] @ axes[k]
        push = np.concatenate([np.cross(points[k], force), force])
        left[candidate.first_body] = left[candidate.first_body] + push
        left[candidate.second_body] = left[candidate.second_body] - push
    return np.array([left[body.name] for body in model.bodies]), largest


@pytest.mark.slow
@pytest.mark.parametrize("make", [leg, standing_linkage])
def test_every_body_is_in_balance_from_event_to_event(make):
    model = make()
    run = wt.simulate(model, duration=0.4, method="events", output_dt=0.02, reactions=True)
    assert np.abs(run.contact_force).max() > 1.0
    if "limit_force" in run:
        assert np.abs(run.limit_force).max() > 0.1
        assert np.abs(run.friction_force).max() > 0.1
    for row in range(len(run.time)):
        left, size = rest_of_balance(model, run, row)
        assert np.abs(left).max() < 1e-9 * size, row


@pytest.mark.slow
def test_time_stepping_tends_to_the_same_where_forces_are_unique():
    model = standing_linkage(friction=0.0)
    run, exact = (
        wt.simulate(model, duration=3.0, method=method, output_dt=0.5, reactions=True, **options)
        for method, options in (("time_stepping", {"step": 1e-3}), ("events", {}))
    )
    assert np.abs(run.v[-1]).max() < 1e-6
    scale = np.abs(exact.joint_reactions[-1]).max()
    for name in ("joint_reactions", "constraint_forces"):
        assert np.abs(run[name][-1] - exact[name][-1]).max() < 1e-3 * scale


def test_at_rest_steps_leave_every_body_in_balance():
    """Knee, stop and foot share what friction leaves open: the shares differ, the balance does not."""
    model = leg()
    run = wt.simulate(model, duration=3.0, method="time_stepping", output_dt=0.5, reactions=True)
    assert np.abs(run.v[-1]).max() < 1e-9
    left, size = rest_of_balance(model, run.assign(a=0 * run.a), -1)
    assert np.abs(left).max() < 1e-6 * size


def test_a_weld_carries_what_its_foot_stands_on():
    model = leg()
    run = wt.simulate(model, duration=3.0, method="time_stepping", output_dt=0.5, reactions=True)
    foot = wt.compile(model).pose("foot")(run.q.values[-1])
    force = foot[:3, :3] @ run.joint_reactions.sel(reaction="ankle").values[-1, 3:]
    assert np.allclose(run.contact_force.values[-1, 0, 0], 3.6 * 9.81, rtol=1e-6)  # all of it
    assert np.allclose(force[1], -(3.6 - 0.1) * 9.81, rtol=1e-6)  # all but the foot's own weight


def test_a_batch_has_the_reactions_of_its_runs():
    model = leg(friction=0.0, rubbing=0.0)
    starts = np.stack([model.home.q, model.home.q + np.array([0.05, 0, 0])])
    many = wt.simulate(model, starts, duration=0.2, method="time_stepping", output_dt=0.1, reactions=True)
    one = wt.simulate(model, starts[1], duration=0.2, method="time_stepping", output_dt=0.1, reactions=True)
    assert many.joint_reactions.dims == ("time", "run", "reaction", "component")
    assert np.allclose(many.joint_reactions[:, 1], one.joint_reactions, atol=1e-3)


def test_known_motions_and_loads_outside_a_run():
    """A payload on the tip of a rod at rest: the moment in the bearing by the lever."""
    builder = wt.Builder("rod", (0, -9.81, 0)).body("rod", mass=2.0, center=(0.5, 0, 0), inertia=(0.01, 0.2, 0.2))
    model = builder.joint("pin", "revolute", "world", "rod").build()
    load = np.array([[0, 0, -30.0 * 1.0, 0, -30.0, 0]])  # 30 N downwards at x = 1
    for functions in (wt.reference(model), wt.compile(model)):
        found, determined = functions.joint_reactions_of_motion(
            np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(0), load
        )
        assert np.allclose(found, [[0, 0, 2 * 9.81 * 0.5 + 30, 0, 2 * 9.81 + 30, 0]])
        assert np.all(determined == 1)


@pytest.mark.slow
def test_contacts_without_a_closed_form_push_too():
    """A cylinder that lies on a cylinder: its contact is found in Python, and passes the joint that carries it."""
    builder = wt.Builder("press", gravity=(0, 0, -9.81)).body("ram", mass=3.0, inertia=(0.01,) * 3)
    builder.body("anvil", mass=1.0, inertia=(0.01,) * 3).joint("bed", "weld", "world", "anvil")
    builder.joint("slide", "prismatic", "world", "ram", axis=(0, 0, 1), start=0.201)
    builder.geometry("roller", "ram", "cylinder", radius=0.1, length=0.5, rotation=[[0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    builder.geometry("log", "anvil", "cylinder", radius=0.1, length=0.5, rotation=[[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    model = builder.contact("press", "roller", "log").build()
    assert not wt.contact_set(model).closed_form
    run = wt.simulate(model, duration=0.5, method="time_stepping", output_dt=0.1, reactions=True)
    bed = run.joint_reactions.sel(reaction="bed").values[-1]
    assert np.allclose(bed, [0, 0, 0, 0, 0, 4.0 * 9.81], atol=1e-5)
