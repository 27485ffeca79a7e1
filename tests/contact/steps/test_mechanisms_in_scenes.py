"""Robots, doors and pendulums among many free bodies are stepped in the kernel of scenes, as the kernel of any
mechanism and the solver in Python step them."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import whippletree as wt
from scene_steps import STEP_OF_SCENES as H
from scene_steps import by_other_ways, compare, stepped, steps_without_loss, sticks, thrown_sticks
from whippletree.simulation.time_stepping import scene_method
from whippletree.simulation.time_stepping.scene_method import SceneStepping
from whippletree.simulation.time_stepping.scene_run import ROWS
from whippletree.simulation.time_stepping.stepping_method import TimeStepping


def arms(count, *, trees=1, floating=False, friction=0.5, restitution=0.0, **joint):
    """Balls that fall on arms of two links and on the ground; ``joint``: springs, limits and friction of theirs."""
    random = np.random.default_rng(0)
    b = wt.Builder("arms").geometry("floor", "world", "half_space")
    touching = ["floor"]
    for k in range(trees):
        b.body(f"upper{k}", mass=1.2, center=(0.02, 0, -0.2), inertia=(0.02, 0.02, 0.004))
        b.body(f"lower{k}", mass=0.7, center=(0, 0.01, -0.15), inertia=(0.01, 0.01, 0.002))
        if floating:
            b.joint(f"base{k}", "free", "world", f"upper{k}", position=(0.6 * k, 0, 0.85))
        else:
            b.joint(f"base{k}", "revolute", "world", f"upper{k}", position=(0.6 * k, 0, 0.85), axis=(1, 0, 0), **joint)
        b.joint(f"elbow{k}", "revolute", f"upper{k}", f"lower{k}", position=(0, 0, -0.4), axis=(0, 1, 0), **joint)
        b.geometry(f"hand{k}", f"lower{k}", "sphere", radius=0.1, position=(0, 0, -0.3))
        b.geometry(f"arm{k}", f"upper{k}", "capsule", radius=0.04, length=0.3, position=(0, 0, -0.2))
        touching += [f"hand{k}", f"arm{k}"]
    for k in range(count):
        x, y = random.uniform(-0.25, 0.25 + 0.5 * (trees - 1)), random.uniform(-0.25, 0.25)
        b.body(f"ball{k}", mass=0.3, inertia=(3e-4,) * 3)
        b.joint(f"fly{k}", "free", "world", f"ball{k}", position=(x, y, 1.0 + 0.11 * k))
        b.geometry(f"skin{k}", f"ball{k}", "sphere", radius=0.05)
        touching.append(f"skin{k}")
    b.contact_group("all", touching, friction=friction, restitution=restitution)
    return wt.without_overlaps(b.build())


@pytest.mark.parametrize(
    "options",
    [
        {"floating": True, "trees": 2},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"lower": -0.3, "upper": 0.2, "friction": 0.3}, marks=pytest.mark.slow),
        pytest.param({"stiffness": 20.0, "damping": 0.5, "rotor_inertia": 0.01}, marks=pytest.mark.slow),
    ],
)
def test_steps_are_those_of_any_mechanism(options):
    contact = {"friction": options.pop("friction")} if "friction" in options else {}
    ours, _ = compare(arms(6, **options, **contact), 60)
    assert max(told.account[0, ROWS["contacts"]] for told in ours) >= 1


def test_limits_and_dry_friction_hold_a_tree_as_they_do_elsewhere():
    model = arms(3, trees=2, lower=-0.02, upper=0.03)
    rubbing = [replace(joint, friction=0.02) if joint.kind == "revolute" else joint for joint in model.joints]
    model = replace(model, joints=tuple(rubbing))
    # contact_work has all of it; how a stop and the dry friction of a joint that runs against it share it is not unique
    ours, theirs = compare(model, 60, works=("contact_work", "joint_work"))
    assert max(np.abs(told.warm.of_joints[:4]).max() for told in ours) > 0
    q = np.array([told.q for told in ours])
    for name in ("base0", "elbow0", "base1", "elbow1"):
        own = q[:, model.q_slice(name)]
        assert own.min() >= -0.02 - 1e-9
        assert own.max() <= 0.03 + 1e-9
    last = ours[-1].warm.of_joints / H
    assert np.allclose(last[4:], theirs.friction_force.values[-1], atol=1e-6)


@pytest.mark.slow
def test_bounces_off_a_tree_add_no_energy():
    model = arms(6, floating=True, restitution=0.8)
    ours, _ = compare(model, 80, atol=1e-6)
    assert all(told.account[0, ROWS["contact_work"]] <= 1e-9 for told in ours)


def test_a_tree_and_bodies_conserve_momentum_where_nothing_holds_them():
    """Two floating arms and balls that meet without gravity: contacts give what they take."""
    model = arms(6, trees=2, floating=True)
    (group,) = model.contact_groups
    model = replace(model, gravity=np.zeros(3), contact_groups=(replace(group, geometries=group.geometries[1:]),))
    q, v = np.array(model.home.q, dtype=float), np.zeros(model.nv)
    places = {joint.name: np.asarray(joint.pose[:3, 3], dtype=float) for joint in model.joints}
    for k in range(6):  # each at one of the arms, which it meets after 0.1 s
        v[model.slice(f"fly{k}")][3:] = 10 * (np.array([0.6 * (k % 2), 0.01 * k, 0.6]) - places[f"fly{k}"])
    dyn = wt.compile(model)
    rows = stepped(model, q, v, 40)
    assert min(told.account[0, ROWS["contact_work"]] for told in rows) < -1e-2
    assert max(told.account[0, ROWS["contact_work"]] for told in rows) < 1e-9
    first = next(k for k, told in enumerate(rows) if told.account[0, ROWS["contact_work"]] < -1e-2)
    # until the first of them arrives the arms are at rest, and no step leaves its own error
    q, v, a = rows[first - 1].q, rows[first - 1].v, rows[first].a
    before, after = (np.asarray(dyn.momentum(q, u)) for u in (v, v + H * a))
    assert np.abs(H * a).max() > 0.1
    assert np.allclose(after, before, atol=1e-10)


def test_many_trees_are_loops_over_their_nodes_and_may_touch_each_other():
    """Fifteen chains of three links stand side by side, more velocities than are written out, and swing together."""
    b = wt.Builder("chains").geometry("floor", "world", "half_space")
    touching = ["floor"]
    for k in range(15):
        parent = "world"
        for i in range(3):
            b.body(f"link{k}.{i}", mass=0.3, center=(0, 0, -0.1), inertia=(2e-3, 2e-3, 5e-4))
            place = (0.22 * k, 0, 1.0) if i == 0 else (0, 0, -0.2)
            b.joint(f"pin{k}.{i}", "revolute", parent, f"link{k}.{i}", position=place, axis=(i == 2, i != 2, 0))
            parent = f"link{k}.{i}"
        b.geometry(f"tip{k}", parent, "sphere", radius=0.1, position=(0, 0, -0.2))
        touching.append(f"tip{k}")
    for k in range(3):
        b.body(f"ball{k}", mass=0.3, inertia=(3e-4,) * 3)
        b.joint(f"fly{k}", "free", "world", f"ball{k}", position=(0.22 * k + 0.05, 0.02 * k, 0.6))
        b.geometry(f"skin{k}", f"ball{k}", "sphere", radius=0.05)
        touching.append(f"skin{k}")
    b.contact_group("all", touching, friction=0.4)
    model = b.build()
    q, v = np.array(model.home.q, dtype=float), np.zeros(model.nv)
    for k in range(15):
        v[model.slice(f"pin{k}.0")] = 0.5 * (-1) ** k
    ours, theirs = stepped(model, q, v, 40), by_other_ways(model, q, v, 40)
    assert max(told.account[0, ROWS["contacts"]] for told in ours) >= 8
    for told, v_there in zip(ours, theirs.v.values[1:], strict=True):
        assert np.allclose(told.v, v_there, atol=1e-7)


def test_runs_of_many_bodies_and_a_mechanism_are_scenes_and_tell_of_their_joints():
    model = arms(12, lower=-0.2, upper=0.2)
    assert TimeStepping.form_for(model, alone=True) is SceneStepping
    assert TimeStepping.form_for(arms(3), alone=True) is TimeStepping
    run = wt.simulate(model, duration=0.2, output_dt=0.02, method="time_stepping", step=2e-3)
    assert run.attrs["path"] == "compiled"
    assert run.attrs["unconverged_steps"] == 0
    assert run.attrs["largest_overlap"] <= 1e-8
    assert run.limit_force.shape == (11, 2)
    assert run.limit_overshoot.max() <= 1e-8
    assert run.contact_wrench.shape == (11, 12, 6)
    assert abs(run.energy_balance.values[-1]) < 0.1
    with pytest.raises(wt.UnsupportedError, match=r"the option sleep is for .*: joints hold some of them"):
        wt.simulate(model, duration=0.2, method="time_stepping", sleep=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("gain", [5e4, 5.0])
def test_controllers_drive_joints_as_they_do_elsewhere(gain):
    """Gains that steps do not resolve act at their ends."""
    model = arms(9, lower=-1.0, upper=1.0)
    joints = np.concatenate([np.arange(model.nv)[model.slice(name)] for name in ("base0", "elbow0")])
    places = np.concatenate([np.arange(model.nq)[model.q_slice(name)] for name in ("base0", "elbow0")])
    pick = np.eye(model.nv)[:, joints]

    def hold(t, q, v):
        return pick @ (gain * (0.3 - q[places]) - gain / 50 * v[joints])

    q = np.array(model.home.q, dtype=float)
    options = {"duration": 0.2, "output_dt": 0.02, "method": "time_stepping", "step": H, "tolerance": 1e-10}
    ours = wt.simulate(model, q, controller=hold, **options)
    with mock.patch.object(scene_method, "is_scene", return_value=False):
        theirs = wt.simulate(model, q, controller=hold, **options)
    assert "contact_lists_made" in ours.attrs
    assert "contact_lists_made" not in theirs.attrs
    assert np.allclose(ours.v.values, theirs.v.values, atol=1e-6)
    assert np.allclose(ours.joint_work.values, theirs.joint_work.values, rtol=1e-7, atol=1e-7)


def test_checkpoints_and_rows_of_output_do_not_change_the_motion():
    model = arms(10, lower=-0.2, upper=0.2)
    options = {"duration": 0.2, "method": "time_stepping", "step": 2e-3, "tolerance": 1e-10}
    rare = wt.simulate(model, output_dt=0.1, **options)
    often = wt.simulate(model, output_dt=0.01, **options)
    assert np.allclose(rare.q.values[-1], often.q.values[-1], atol=1e-8)
    assert np.allclose(rare.v.values[-1], often.v.values[-1], atol=1e-6)


@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("moments", [{}, pytest.param({"torsional": 0.002, "rolling": 0.004}, marks=pytest.mark.slow)])
def test_bounces_beside_limits_dry_friction_and_moments_take_the_share_that_adds_no_energy(moments, seed):
    """Jointed sticks have nobody free beside them: mechanisms are a scene of their own."""
    model = sticks(2, 0, friction=0.9, restitution=0.95, **moments)
    q, v = thrown_sticks(model, seed)
    ours, theirs = stepped(model, q, v, 40), by_other_ways(model, q, v, 40)
    assert steps_without_loss(ours)
    assert max(told.account[0, ROWS["contact_work"]] for told in ours) < 1e-11
    assert max(np.abs(told.warm.of_joints[:2]).max() for told in ours) > 0  # a stop
    for row, told in enumerate(ours, start=1):
        assert np.allclose(told.v, theirs.v.values[row], atol=1e-7, rtol=0), row


def test_mechanisms_without_free_bodies_are_a_scene_where_they_are_many_or_it_is_asked_for():
    model = sticks(2, 0, friction=0.5)
    assert TimeStepping.form_for(model, alone=True) is TimeStepping
    assert TimeStepping.form_for(sticks(60, 0, friction=0.5), alone=True) is SceneStepping
    q, v = thrown_sticks(model, 0)
    run = wt.simulate(model, q, v, duration=0.1, output_dt=0.02, method="time_stepping", step=2e-3, effort=2000)
    assert run.contact_wrench.shape == (6, 0, 6)
    assert run.attrs["unconverged_steps"] == 0
    with pytest.warns(RuntimeWarning, match="above the tolerance"):
        wt.simulate(model, q, v, duration=0.1, output_dt=0.02, method="time_stepping", step=2e-3, effort=1)
