"""wt.inverse_kinematics: poses and positions, loops, limits, weights, many starts; how far what is out of reach is."""

from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from strategies import make_model, make_motion
from whippletree.analysis.reaching import rotation_vector
from whippletree.spatial import quaternion_rotation

ROBOTS = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))


def panda():
    return wt.load(ROBOTS / "panda_description/urdf/panda.urdf")


def limits_of(model):
    joints = [j for j, kind in zip(model.joints, model.joint_types, strict=True) if kind.nv]
    return np.array([j.lower for j in joints]), np.array([j.upper for j in joints])


def test_rotation_vectors():
    rng = np.random.default_rng(0)
    for angle in (0.0, 1e-9, 1e-7, 1e-5, 0.3, 2.0, 3.1, np.pi - 1e-4):
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        R = quaternion_rotation(np.cos(angle / 2), *(np.sin(angle / 2) * axis))
        assert rotation_vector(R).astype(float) == pytest.approx(angle * axis, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize(
    "kinds", [("revolute",) * 6, ("free", "revolute", "spherical"), ("planar", "universal", "helical")]
)
def test_reachable_poses_of_random_trees_are_reached(kinds):
    model = make_model(range(-1, len(kinds) - 1), kinds, 5)
    dyn = wt.compile(model)
    q = np.stack([make_motion(model, seed).q for seed in range(20)])
    goals = dyn.pose("tool")(q)
    if sum(kind.nv for kind in model.joint_types) < 6:
        goals = goals[..., :3, 3]
    guess = dyn.integrate(q, np.random.default_rng(1).normal(scale=0.3, size=(20, model.nv)))
    found = wt.inverse_kinematics(model, {"tool": goals}, guess, starts=16)
    assert np.all(found.reached)
    reached = dyn.pose("tool")(found.q)
    assert np.abs((reached if goals.ndim == 3 else reached[..., :3, 3]) - goals).max() < 1e-9


def test_panda_from_mid_range_as_trac_ik_counts():
    """The protocol of TRAC-IK's table: reachable random poses, all from mid-range, 1e-5 in all six."""
    model = panda()
    lower, upper = limits_of(model)
    dyn = wt.compile(model)
    goals = dyn.pose("panda_link8")(np.random.default_rng(0).uniform(lower, upper, (2000, model.nq)))
    start = (lower + upper) / 2
    once = wt.inverse_kinematics(model, {"panda_link8": goals}, start, tolerance=1e-5)
    assert np.mean(once.reached) > 0.8  # KDL: 0.6177
    often = wt.inverse_kinematics(model, {"panda_link8": goals}, start, starts=60, tolerance=1e-8)
    assert np.mean(often.reached) > 0.997  # TRAC-IK: 0.9970
    assert np.all((often.q >= lower) & (often.q <= upper))
    ended = dyn.pose("panda_link8")(often.q[often.reached])
    assert np.abs(ended - goals[often.reached]).max() < 2e-8


def test_the_delta_robot_follows_its_platform():
    model = wt.mechanisms.delta_robot()
    home = wt.compile(model).pose("platform")(model.home.q)[:3, 3]
    goals = home + np.random.default_rng(0).uniform(-0.08, 0.08, (50, 3))
    found = wt.inverse_kinematics(model, {"platform": goals})
    assert np.all(found.reached)
    dyn = wt.compile(model)
    assert np.abs(dyn.constraint_residual(found.q)).max() < 1e-9
    assert np.abs(dyn.pose("platform")(found.q)[:, :3, 3] - goals).max() < 1e-9


def test_the_stewart_platform_takes_a_pose():
    model = wt.mechanisms.stewart_platform()
    dyn = wt.compile(model)
    goal = dyn.pose("platform")(model.home.q)
    goal[:3, :3] = goal[:3, :3] @ quaternion_rotation(1.0, 0.05, -0.08, 0.1).astype(float)
    goal[:3, 3] += (0.03, -0.02, 0.05)
    found = wt.inverse_kinematics(model, {"platform": goal})
    assert found.reached
    assert dyn.pose("platform")(found.q) == pytest.approx(goal, abs=1e-9)
    assert np.abs(dyn.constraint_residual(found.q)).max() < 1e-9


def test_out_of_reach_says_how_far():
    arm = wt.mechanisms.chain(3)
    found = wt.inverse_kinematics(arm, {"tip": (5.0, 0.0, 0.0)}, [0.1, 0.1, 0.1])
    assert found.reached is False
    assert found.distance == pytest.approx([2.0], abs=1e-9)
    assert str(found) == (
        "inverse kinematics of model 'chain of 3 rods': out of reach from 1 start: 'tip' stays 2 m from its goal"
    )


def test_out_of_reach_of_a_loop_leaves_it_closed():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    goal = np.array([1.0, 3.0, 0.0])  # the rocker's end stays on a circle about (1, 0), and turns only so far
    found = wt.inverse_kinematics(model, {"rocker end": goal}, starts=8)
    assert not found.reached
    assert found.gap < 1e-12
    # a circle of 0.8 m: nothing comes closer than 2.2 m
    assert found.distance[0] == pytest.approx(2.2, abs=1e-6)


def test_limits_bound_the_answer():
    b = wt.Builder("arm", (0, -9.81, 0)).body("a", 1.0, (0.5, 0, 0)).body("b", 1.0, (0.5, 0, 0))
    b.joint("one", "revolute", "world", "a", lower=-0.5, upper=0.5)
    b.joint("two", "revolute", "a", "b", position=(1, 0, 0), lower=0.0, upper=2.0)
    model = b.frame("tip", "b", position=(1, 0, 0)).build()
    goal = (0.0, 1.2, 0.0)
    free = wt.inverse_kinematics(model, {"tip": goal}, [0.1, 0.1], limits=False)
    assert free.reached
    assert not -0.5 <= free.q[0] <= 0.5
    held = wt.inverse_kinematics(model, {"tip": goal}, [0.1, 0.1], starts=20)
    assert not held.reached
    assert held.q[0] == 0.5
    # with the first joint at its limit, the second alone is as close as it can be
    angles = np.linspace(0, 2, 20001)
    tips = np.exp(0.5j) + np.exp(1j * (0.5 + angles))
    assert held.distance[0] == pytest.approx(np.abs(tips - 1.2j).min(), abs=1e-6)


def test_weights_decide_between_goals_that_exclude_each_other():
    arm = wt.mechanisms.chain(2)
    goals = {"rod_2": (0.0, 1.0, 0.0), "tip": (1.5, 0.0, 0.0)}  # with the elbow up, the tip cannot be there
    first = wt.inverse_kinematics(arm, goals, [0.5, -0.2], weights={"rod_2": 1e4})
    second = wt.inverse_kinematics(arm, goals, [0.5, -0.2], weights={"tip": 1e4})
    assert first.distance[0] < 1e-3 < first.distance[1]
    assert second.distance[1] < 1e-3 < second.distance[0]


def test_switches_open_loops():
    b = wt.Builder("tied", (0, 0, 0)).body("a", 1.0, (1, 0, 0)).joint("a", "revolute", "world", "a")
    b.body("b", 1.0, (1, 0, 0)).joint("b", "revolute", "a", "b", position=(1, 0, 0)).frame(
        "tip", "b", position=(1, 0, 0)
    )
    model = b.constraint("lock", "coupling", "b", coefficients=(0.0,), switchable=True).build()
    goal = {"tip": (1.0, 1.0, 0.0)}
    assert not wt.inverse_kinematics(model, goal, [0.3, 0.2]).reached
    assert wt.inverse_kinematics(model, goal, [0.3, 0.2], active=[0.0]).reached


def test_a_batch_is_its_elements_and_the_same_every_time():
    arm = wt.mechanisms.chain(3)
    goals = np.random.default_rng(0).uniform(-1.5, 1.5, (5, 4, 3)) * (1, 1, 0)
    found = wt.inverse_kinematics(arm, {"tip": goals}, [0.1, 0.2, 0.3], starts=5)
    again = wt.inverse_kinematics(arm, {"tip": goals}, [0.1, 0.2, 0.3], starts=5)
    assert found.q.shape == (5, 4, 3)
    assert np.array_equal(found.q, again.q)
    one = wt.inverse_kinematics(arm, {"tip": goals[2, 3]}, [0.1, 0.2, 0.3])
    assert np.array_equal(one.q, found.q[2, 3])
