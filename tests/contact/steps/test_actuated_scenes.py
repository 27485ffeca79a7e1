"""Robots with actuators and tendons among free bodies: the kernel of scenes steps them as that of any mechanism does,
and as the solver in Python."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.rollout.contact_lists import contact_list_trees
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import reason_against_lists
from whippletree.contact.kinematics.scene_layout import SceneLayout, Unsuited, scene_layout
from whippletree.contact.servos import Servos
from whippletree.model import Activation
from whippletree.simulation.time_stepping import scene_method
from whippletree.simulation.time_stepping.scene_method import SceneStepping
from whippletree.simulation.time_stepping.scene_run import SteppedScene, Warm
from whippletree.simulation.time_stepping.stepping_method import TimeStepping

H = 1e-3


def robot(seed, *, trees=2, free=4, **joint):
    """A builder of random arms that stand on the ground, of three links each, under balls that fall on them."""
    rng = np.random.default_rng(seed)
    b = wt.Builder("robot").geometry("floor", "world", "half_space")
    touching = ["floor"]
    for t in range(trees):
        parent, place = "world", np.array([0.5 * t, 0, 0.6])
        for i in range(3):
            link, kind = f"link{t}{i}", "prismatic" if rng.random() < 0.2 else "revolute"
            b.body(link, mass=rng.uniform(0.5, 2), center=0.1 * rng.normal(size=3), inertia=rng.uniform(5, 9, 3) / 400)
            axis = rng.normal(size=3)
            b.joint(f"joint{t}{i}", kind, parent, link, position=place, axis=axis / np.linalg.norm(axis), **joint)
            b.geometry(f"skin{t}{i}", link, "sphere", radius=0.09, position=(0.05, 0, 0.05))
            touching.append(f"skin{t}{i}")
            parent, place = link, np.array([0.12, 0.08, 0.14])
    for k in range(free):
        b.body(f"thing{k}", mass=0.4, inertia=(6e-4,) * 3)
        x, y = 0.5 * rng.integers(trees) + rng.uniform(-0.1, 0.3), rng.uniform(-0.1, 0.2)
        b.joint(f"fly{k}", "free", "world", f"thing{k}", position=(x, y, 1.12 + 0.13 * k))
        b.geometry(f"shell{k}", f"thing{k}", "sphere", radius=0.05)
        touching.append(f"shell{k}")
    return b, touching


def built(b, touching, friction=0.5):
    return wt.without_overlaps(b.contact_group("all", touching, friction=friction).build())


def servo(b, name, *joints, k=80.0, d=4.0, **more):
    return b.actuator(name, *joints, gain=(k, 0, 0), bias=(0, -k, -d), **more)


DRIVES = {
    "motor": lambda b: b.actuator("motor", "joint00", gear=3.0, force_range=(-2.0, 1.0)),
    "position": lambda b: servo(b, "position", "joint01", gear=1.5),
    "stiff": lambda b: servo(b, "stiff", "joint02", k=1e5, d=200.0),
    "velocity": lambda b: b.actuator("velocity", "joint11", gain=(6, 0, 0), bias=(0, 0, -6)),
    "affine": lambda b: b.actuator("affine", "joint10", gain=(3, 0.2, -0.1), bias=(1.0, -20, -1)),
    "bounded": lambda b: servo(servo(b, "weak", "joint00", force_range=(-3, 1)), "hard", "joint12", k=1e5, d=200.0,
                               force_range=(-2, 2)),
    "coupling": lambda b: servo(b, "coupling", "joint00", "joint12", gear=(1.0, -0.7), k=500.0),
    "bounded coupling": lambda b: servo(b, "both", "joint01", "joint10", gear=(0.5, -2.0), k=500.0,
                                        force_range=(-2, 3)),
    "thruster": lambda b: b.actuator("thruster", frame="link02", gear=(0, 0.3, 0, 0.1, 0, 1.0)),
    "drag": lambda b: b.actuator("drag", frame="thing0", gear=(0, 0.1, 0, 0.2, 0, 1.0), gain=(40, 0, 0),
                                 bias=(1, 0, -40)),
    "bounded drag": lambda b: b.actuator("fan", frame="link12", gear=(0, 0.3, 0, 0.1, 0, 1.0), gain=(400, 0, 0),
                                         bias=(5, 0, -400), force_range=(-3, 7)),
    "spring": lambda b: b.tendon("spring", "link02", "link12", stiffness=60.0, rest=0.3, damping=2.0),
    "string": lambda b: b.tendon("string", "link02", "thing1", limits=(0.35, np.inf), stiffness=3.0, rest=0.1),
    "differential": lambda b: b.tendon("sum", joints={"joint01": 1.0, "joint12": -0.5}, limits=(-0.1, 0.1)),
    "pulled": lambda b: b.tendon("rope", "link02", "world").actuator("winch", tendon="rope", gear=0.5, gain=(-9, 0, 0)),
    "filter": lambda b: servo(b, "slow", "joint01", activation=Activation("filter", (0.05,))),
    "lift": lambda b: b.lift("light", "link01", share=0.8).lift("balloon", "thing0", share=1.1),
}  # fmt: skip


def both_ways(model, tolerance=1e-10, steps=100, seed=3, **drive):
    """A run in the kernel of scenes, and one in that of any mechanism."""
    q, v = np.array(model.home.q, dtype=float), 0.5 * np.random.default_rng(seed).normal(size=model.nv)
    for k in range(len(scene_layout(model).free)):
        v[scene_layout(model).free_v[k, 5]] -= 3
    options = {"duration": steps * H, "output_dt": H, "method": "time_stepping", "step": H, "tolerance": tolerance}
    found = []
    for scene in (True, False):
        # an overlap that is left changes the next velocity by as much in a step
        overlap = mock.patch.object(scene_method, "SCENE_OVERLAP", 1e-12)
        with mock.patch.object(scene_method, "is_scene", return_value=scene), overlap:
            more = {"effort": 100_000} if scene else {}
            found.append(wt.simulate(model, q, v, **options, **drive, **more))
    assert "contact_lists_made" in found[0].attrs
    assert "contact_lists_made" not in found[1].attrs
    return found


def require_alike(ours, theirs, atol=1e-7):
    assert theirs.attrs["unconverged_steps"] == ours.attrs["unconverged_steps"] == 0
    assert theirs.attrs["halved_steps"] == 0
    assert ours.attrs["largest_overlap"] <= 1e-8
    for word in ("q", "v", "joint_work", "contact_work", "friction_work", "energy_balance"):
        np.testing.assert_allclose(ours[word].values, theirs[word].values, rtol=0, atol=atol, err_msg=word)


def commands_of(model, seed=0, size=0.4):
    """A table of commands that jump, so that servos reach the ends of their ranges and come back."""
    return np.random.default_rng(seed).uniform(-size, size, size=(8, len(model.actuators)))


def driven_by(*words, seed=7, **options):
    b, touching = robot(seed, lower=-1.5, upper=1.5, damping=0.2, **options)
    for word in words:
        DRIVES[word](b)
    return built(b, touching)


@pytest.mark.parametrize(
    "words",
    [
        ("bounded", "coupling"),
        *[
            pytest.param(words, marks=pytest.mark.slow)
            for words in (
                ("string", "spring", "thruster"),
                ("motor", "position", "velocity"),
                ("stiff", "affine", "lift"),
                ("bounded coupling", "drag"),
                ("bounded drag", "filter"),
                ("differential", "pulled"),
            )
        ],
    ],
)
def test_steps_are_those_of_any_mechanism(words):
    model = driven_by(*words)
    ours, theirs = both_ways(model, ctrl=commands_of(model, size=0.02 if "stiff" in words else 0.4))
    require_alike(ours, theirs)
    assert ours.contacts.max() >= 1
    for word in {"limit_force", "tendon_limit_force", "act"} & {*theirs.variables}:
        np.testing.assert_allclose(ours[word].values, theirs[word].values, atol=1e-5, err_msg=word)
    if "string" in words:
        assert ours.tendon_limit_force.max() > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_robots_with_random_drives_among_many_bodies(seed):
    """More bodies than are stepped as one mechanism with a robot."""
    rng = np.random.default_rng(seed)
    words = [str(w) for w in rng.choice([w for w in DRIVES if w not in ("affine", "stiff")], size=4, replace=False)]
    model = driven_by(*words, seed=seed, free=12)
    assert TimeStepping.form_for(model, alone=True) is SceneStepping
    ours, theirs = both_ways(model, steps=60, ctrl=commands_of(model, seed) if model.actuators else None)
    require_alike(ours, theirs, atol=1e-6)


@pytest.mark.slow
def test_servos_reach_the_ends_of_their_ranges_and_come_back():
    """Their forces in the last step are those of a step by the solver in Python, at an end and within."""
    b, touching = robot(7, trees=1, free=2, lower=-1.5, upper=1.5)
    for joint, most in (("joint00", 2.0), ("joint01", 8.0), ("joint02", 3.0)):
        servo(b, f"to {joint}", joint, k=400.0, d=8.0, force_range=(-most, most))
    model = built(b, touching)
    ours, theirs = both_ways(model, ctrl=commands_of(model, 1))
    require_alike(ours, theirs)
    scene, warm = SteppedScene(scene_layout(model), 1e-10, 1e-12, 4000), Warm.cold()
    q, v, seen = np.array(model.home.q, dtype=float), np.zeros(model.nv), set()
    caps = H * np.array([2.0, 8.0, 3.0])
    for command in np.repeat(commands_of(model, 1), 12, axis=0):
        told = scene.advance(q, v, warm, np.zeros(model.nv), np.array([H]), commands=command[None])
        q, v, warm = told.q, told.v, told.warm
        of_servos = warm.of_joints[-3:]
        assert (np.abs(of_servos) <= caps * (1 + 1e-9)).all()
        seen.add(tuple((np.abs(of_servos) > caps * (1 - 1e-9)).tolist()))
    assert len(seen) > 3


@pytest.mark.slow
def test_stiff_servos_settle_among_bodies():
    """Gains of 1e5 and 200 at steps of 2 ms, with balls on the arm."""
    b, touching = robot(7, trees=1, free=9, lower=-1.5, upper=1.5)
    for i in range(3):
        servo(b, f"hold{i}", f"joint0{i}", k=1e5, d=200.0, force_range=(-300, 300) if i == 1 else (-np.inf, np.inf))
    model = built(b, touching)
    run = wt.simulate(model, duration=1.0, output_dt=0.1, ctrl=np.zeros(3), method="time_stepping", step=2e-3)
    assert "contact_lists_made" in run.attrs
    assert run.attrs["unconverged_steps"] == 0
    joints = [model.slice(f"joint0{i}").start for i in range(3)]
    assert np.abs(run.v.values[-1, joints]).max() < 1e-3
    assert np.abs(run.q.values[-1, joints]).max() < 2e-3


@pytest.mark.slow
def test_controllers_and_commands_by_functions_beside_servos():
    model = driven_by("position", "bounded", "filter", free=9)

    def sway(t, q, v):
        return 0.3 * np.sin(20 * t) - 0.01 * v[:4]

    def push(t, q, v):
        return np.concatenate([0.5 * np.cos(9 * t) - 0.1 * v[:3], np.zeros(model.nv - 3)])

    ours, theirs = both_ways(model, steps=60, ctrl=sway, controller=push)
    require_alike(ours, theirs)
    np.testing.assert_allclose(ours.act.values, theirs.act.values, atol=1e-9)


@pytest.mark.slow
def test_rows_of_output_and_checkpoints_do_not_change_the_motion(tmp_path):
    model = driven_by("bounded", "filter", trees=2, free=9)
    options = {"method": "time_stepping", "step": 2e-3, "tolerance": 1e-10, "ctrl": commands_of(model)}
    rare = wt.simulate(model, duration=0.16, output_dt=0.16, **options)
    often = wt.simulate(model, duration=0.16, output_dt=0.02, checkpoint=tmp_path / "run", **options)
    for word in ("q", "v", "act"):
        np.testing.assert_allclose(rare[word].values[-1], often[word].values[-1], atol=1e-6)


GRIPPER = """<mujoco><option timestep="0.002"/><worldbody><geom name="table" type="plane" size="0 0 1"/>
  <body name="hand" pos="0 0 0.06"><joint name="x" type="slide" axis="1 0 0"/><joint name="lift" type="slide"
    axis="0 0 1"/><geom type="sphere" size="0.02" pos="0 0 0.2" mass="0.5" contype="0" conaffinity="0"/>{fingers}</body>
  {boxes}</worldbody><actuator><position joint="x" kp="2000" kv="100" forcerange="-50 50"/>
  <position joint="lift" kp="2000" kv="100" forcerange="-50 50"/>
  <position joint="left" kp="400" kv="20" forcerange="-8 8"/><position joint="right" kp="400" kv="20"
   forcerange="-8 8"/></actuator></mujoco>"""


def gripper_among(boxes):
    finger = (
        '<body name="{0}" pos="0 {1} 0"><joint name="{0}" type="slide" axis="0 {2} 0" range="-0.02 0.1" '
        'limited="true"/><geom name="{0}" type="box" size="0.02 0.01 0.04" mass="0.1" friction="1"/></body>'
    )
    box = (
        '<body name="box {0}" pos="{1} {2} 0.03"><freejoint/><geom name="box {0}" type="box" size="0.03 0.03 0.03" '
        'mass="0.2" friction="1"/></body>'
    )
    return GRIPPER.format(
        fingers=finger.format("left", 0.06, -1) + finger.format("right", -0.06, 1),
        boxes="".join(box.format(k, 0.12 * (k % 5), 0.2 * (k // 5)) for k in range(boxes)),
    )


@pytest.mark.slow
def test_a_gripper_picks_one_of_twenty_boxes(tmp_path):
    """It closes, lifts the box by 0.15 m and carries it 0.06 m aside; the others lie where they lay."""
    (tmp_path / "gripper.xml").write_text(gripper_among(20))
    model = wt.load(tmp_path / "gripper.xml")
    t = np.arange(500) * 2e-3
    close, lift, aside = 0.04 * (t > 0.05), 0.15 * np.clip((t - 0.2) / 0.4, 0, 1), 0.06 * np.clip((t - 0.6) / 0.2, 0, 1)
    commands = np.column_stack([aside, lift, close, close])
    run = wt.simulate(model, duration=1.0, output_dt=0.1, ctrl=commands, method="time_stepping", step=2e-3)
    assert run.attrs["unconverged_steps"] == 0
    assert run.attrs["largest_overlap"] <= 1e-8
    start, end = (row[scene_layout(model).free_q[:, :3]] for row in run.q.values[[0, -1]])
    assert end[0] - start[0] == pytest.approx([0.06, 0, 0.15], abs=5e-3)
    assert np.abs(end[1:] - start[1:]).max() < 1e-6
    assert abs(run.energy_balance.values).max() < 0.01


def test_free_bodies_that_something_drives_are_bodies_of_the_mechanism():
    b, touching = robot(1, trees=1, free=5)
    DRIVES["drag"](b)
    b.tendon("leash", "thing2", "thing3", stiffness=10.0, rest=0.1).tendon("idle", "thing1", "thing4")
    model = built(b, touching)
    layout = scene_layout(model)
    assert isinstance(layout, SceneLayout)
    joints = [joint.name for joint in layout.mechanism.model.joints]
    assert joints == ["joint00", "joint01", "joint02", "fly0", "fly2", "fly3"]
    assert layout.mechanism.groups == [0, 0, 0, 1, 2, 3]
    assert [tendon.name for tendon in layout.mechanism.model.tendons] == ["leash"]


def test_what_a_servo_or_a_stop_ties_together_is_one_tree():
    assert scene_layout(driven_by("coupling")).mechanism.groups == [0] * 6
    assert scene_layout(driven_by("differential")).mechanism.groups == [0] * 6
    assert scene_layout(driven_by("position", "spring")).mechanism.groups == [0, 0, 0, 1, 1, 1]


def test_what_keeps_a_driven_robot_from_being_a_scene_says_why():
    b, touching = robot(0)
    DRIVES["bounded"](b)
    bouncing = b.contact_group("all", touching, restitution=0.5).build()
    assert scene_layout(bouncing) == Unsuited("contacts bounce, and servos or tendons have a range")
    b, touching = robot(0)
    b.fluid_box("water", "thing0", size=(0.1, 0.1, 0.1), density=1000.0)
    assert scene_layout(built(b, touching)) == Unsuited("a fluid acts on bodies that move freely")


def with_elements(**options):
    """Robots with springs, dampers and stops of tendons, a fluid and held-up weight."""
    b, touching = robot(7, lower=-1.5, upper=1.5, damping=0.2, **options)
    for word in ("string", "spring", "differential", "lift"):
        DRIVES[word](b)
    return built(b.fluid_box("water", "link11", size=(0.1, 0.2, 0.1), density=1000.0, viscosity=0.1), touching)


def test_tendons_and_fluids_act_alike_on_trees_that_are_written_out_and_on_loops(monkeypatch):
    monkeypatch.setenv("WHIPPLETREE_CACHE", "off")
    written = both_ways(with_elements())
    monkeypatch.setattr(contact_list_trees, "MOST_WRITTEN_VELOCITIES", 3)
    model = with_elements()
    assert not contact_list_trees.is_written(scene_layout(model).mechanism.model, Servos(model))
    looped = both_ways(model)
    for theirs in (looped[1], written[1]):
        require_alike(looped[0], theirs)


def test_long_trees_with_tendons_and_fluids_are_scenes():
    model = with_elements(trees=45, free=11)
    assert scene_layout(model).mechanism.model.nv > 130
    assert TimeStepping.form_for(model, alone=True) is SceneStepping
    assert reason_against_lists(model) is None
