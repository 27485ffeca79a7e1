"""Scenes of many free bodies: lists of what is near, pairs of boxes, steps in one kernel, and groups of contacts."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import whippletree as wt
from scene_poses import poses_of_geometries
from whippletree.compiler.rollout.scenes.scene_solver import INVESTED_ALONE
from whippletree.contact.geometry.box_pairs import NOWHERE, box_on_box
from whippletree.contact.geometry.shapes import Box
from whippletree.contact.kinematics.scene_layout import SceneLayout, Unsuited, scene_layout
from whippletree.errors import ModelError
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping import near_lists, scene_method, scene_run
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep
from whippletree.simulation.time_stepping.pair_lists import MOST_SLOTS, NEARLY_TOUCHING
from whippletree.simulation.time_stepping.scene_method import SceneStepping
from whippletree.simulation.time_stepping.scene_run import ROWS, STEPS_OF_THICK, SteppedScene, Warm
from whippletree.simulation.time_stepping.scene_skins import STEPS_AHEAD, Skins
from whippletree.simulation.time_stepping.stepping_method import TimeStepping
from whippletree.spatial import Pose
from whippletree.spatial.vectors import quaternion_rotation

H = 2e-3
COLD = Warm.cold()


def bodies_on_floor(parts, *, friction=0.5, group=True, gravity=(0, 0, -9.81)):
    """Free bodies over a floor; parts are (kind, numbers of the shape, start, centre of mass, offset of the shape)."""
    builder = wt.Builder("scene", gravity).geometry("floor", "world", "half_space")
    names = ["floor"]
    for k, (kind, numbers, start, centre, offset) in enumerate(parts):
        builder.body(f"part {k}", 1.0 + 0.2 * k, center=centre, inertia=(0.01, 0.012, 0.014))
        builder.joint(f"part {k}", "free", "world", f"part {k}", position=(0.1, 0, 0), start=start)
        builder.geometry(f"part {k}", f"part {k}", kind, position=offset, **numbers)
        names.append(f"part {k}")
    if group:
        return builder.contact_group("all", names, friction=friction).build()
    for i, first in enumerate(names[1:]):
        builder.contact(f"{first} on floor", first, "floor", friction=friction)
        for second in names[1 : 1 + i]:
            builder.contact(f"{second} on {first}", second, first, friction=friction)
    return builder.build()


def balls(count, **options):
    random = np.random.default_rng(4)
    parts = []
    for k in range(count):
        turn = random.normal(size=4)
        grid = np.array([0.115 * (k % 2), 0.115 * (k // 2 % 2), 0.056 + 0.112 * (k // 4)])
        place = grid + random.uniform(-0.004, 0.004, 3)
        start = (*place, *(turn / np.linalg.norm(turn)))
        parts.append(("sphere", {"radius": 0.05}, start, (0.004, -0.003, 0.002), (0.001, 0.002, 0)))
    return bodies_on_floor(parts, **options)


def tower(count, **options):
    parts = [
        ("box", {"size": (0.4, 0.4, 0.2)}, (0, 0, 0.1 + 0.2 * k, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0))
        for k in range(count)
    ]
    return bodies_on_floor(parts, **options)


# ---- boxes ----------------------------------------------------------------------------------------------------------


def placed(random, distance):
    turn = random.normal(size=4)
    R = quaternion_rotation(*(turn / np.linalg.norm(turn))).astype(float)
    way = random.normal(size=3)
    return R, distance * way / np.linalg.norm(way)


def test_boxes_overlap_exactly_where_coal_says_so():
    coal = pytest.importorskip("coal")
    random = np.random.default_rng(2)
    one, other = Box((0.25, 0.2, 0.125)), Box((0.3, 0.2, 0.1))
    shapes = [coal.Box(*[2 * h for h in box.half]) for box in (one, other)]
    overlaps = 0
    for _ in range(400):
        (R, p), (S, _) = placed(random, random.uniform(0.1, 0.6)), placed(random, 1.0)
        X, Y = Pose(R.astype(object), p.astype(object)), Pose(S.astype(object), np.zeros(3, dtype=object))
        gap = min(float(touch.gap) for touch in box_on_box(one, other, X, Y))
        at = [coal.Transform3s(R, p), coal.Transform3s(S, np.zeros(3))]
        depth = coal.distance(shapes[0], at[0], shapes[1], at[1], coal.DistanceRequest(), coal.DistanceResult())
        if depth < -1e-6:
            overlaps += 1
            assert gap < 0
            assert gap == pytest.approx(depth, abs=2e-3)  # faces are preferred to edges by a share of a half side
        elif depth > 1e-6:
            assert gap > 0
    assert overlaps > 50


@pytest.mark.parametrize(("angle", "count"), [(0.0, 4), (np.pi / 4, 8), (np.pi / 2, 4)])
def test_the_corners_of_the_overlap_of_two_faces_carry(angle, count):
    c, s = np.cos(angle), np.sin(angle)
    X = Pose(np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=object), np.array([0, 0, 0.2251], dtype=object))
    Y = Pose(np.eye(3, dtype=int).astype(object), np.zeros(3, dtype=object))
    touches = [t for t in box_on_box(Box((0.25, 0.25, 0.125)), Box((0.3, 0.2, 0.1)), X, Y) if t.gap < NOWHERE]
    assert len(touches) == count
    for touch in touches:
        assert float(touch.gap) == pytest.approx(1e-4, abs=1e-12)
        np.testing.assert_allclose(touch.axes[0].astype(float), [0, 0, 1], atol=1e-15)
    points = np.array([touch.point for touch in touches], dtype=float)
    np.testing.assert_allclose(points.mean(axis=0), [0, 0, 0.1001], atol=1e-9)


# ---- steps ----------------------------------------------------------------------------------------------------------


def in_space(q, v):
    """Velocities (bodies, 6), the linear ones in the axes of the world: where a projection turns a body, they stay."""
    turns = [quaternion_rotation(*row[3:]).astype(float) for row in q.reshape(-1, 7)]
    return np.array([[*row[:3], *(R @ row[3:])] for R, row in zip(turns, v.reshape(-1, 6), strict=True)])


@pytest.mark.slow
def test_steps_are_those_of_the_reference():
    """Velocities and positions, with centres of mass away from origins and joints away from the world's."""
    model = balls(5)
    layout = scene_layout(model)
    scene = SteppedScene(layout, 1e-12, 1e-13, 20_000)
    reference = ImpulseStep(Motion(wt.compile(model), None), 1e-12)
    q, v = np.asarray(model.home.q, dtype=float), np.random.default_rng(3).normal(size=model.nv)
    warm, impulses = COLD, np.zeros((reference.blocks.count, 3))
    met = set()
    for _ in range(40):
        told = scene.advance(q, v, warm, np.zeros(model.nv), np.array([H]))
        step = reference.step(0.0, np.concatenate([q, v]), impulses, np.zeros(model.nv), H)
        np.testing.assert_allclose(in_space(told.q, told.v), in_space(*np.split(step.state, [model.nq])), atol=1e-9)
        # the reference projects the gaps at the end of the step, we their linear forecast: (h ω)² r / 2 apart at most
        turned = H * np.abs(told.v.reshape(-1, 6)[:, :3]).max()
        np.testing.assert_allclose(told.q, step.state[: model.nq], atol=1e-9 + turned**2 * 0.05, rtol=0)
        assert told.account[0, 3] == pytest.approx(step.contact_work, abs=1e-9)
        q, v, warm, impulses = told.q, told.v, told.warm, step.impulses
        met |= set(warm.keys.tolist())
    assert len(met) > 5  # the floor is met by five balls at most


def test_what_all_bodies_have_in_common_does_not_decide_the_motion():
    """Round bodies about their centres, in the axes of the world, have shorter code than others, for the same steps."""

    def spinning_balls(stranger):
        builder = wt.Builder("balls", (0, 0.3, -9.81)).geometry("floor", "world", "half_space")
        for k in range(5):
            name, start = f"ball {k}", (0.05 * k, 0.01 * k, 0.06 + 0.09 * k, 0.5, 0.5, -0.5, 0.5)
            builder.body(name, 1.0 + k, inertia=(0.002,) * 3).joint(name, "free", "world", name, start=start)
            builder.geometry(name, name, "sphere", radius=0.05)
        if stranger:
            builder.body("stranger", 1.0, center=(0.01, 0.02, 0), inertia=(0.01, 0.012, 0.014))
            turned = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
            builder.joint("stranger", "free", "world", "stranger", position=(9, 0, 1), rotation=turned)
            builder.geometry("stranger", "stranger", "sphere", radius=0.05)
        names = ["floor", *[f"ball {k}" for k in range(5)], *["stranger"] * stranger]
        return builder.contact_group("all", names, friction=0.4).build()

    ways = []
    for stranger in (False, True):
        model = spinning_balls(stranger)
        layout = scene_layout(model)
        assert isinstance(layout, SceneLayout)
        assert layout.traits == (not stranger,) * 3
        v = np.array(model.home.v, dtype=float)
        v[:30] = np.random.default_rng(3).uniform(-0.3, 0.3, 30)
        scene = SteppedScene(layout, 1e-10, 1e-10, 100_000)
        told = scene.advance(np.array(model.home.q, dtype=float), v, COLD, np.zeros(model.nv), np.full(80, H))
        assert told.account[:, ROWS["contacts"]].max() >= 4
        ways.append((told.q[:35], told.v[:30], told.kick[:5]))
    for plain, general in zip(*ways, strict=True):
        assert np.allclose(plain, general, atol=1e-8, rtol=0)


@pytest.mark.slow
def test_lists_do_not_decide_the_motion():
    """Thick or thin skins, many steps in a call or one."""
    model = balls(9)
    layout = scene_layout(model)
    q, v = np.asarray(model.home.q, dtype=float), np.random.default_rng(5).normal(size=model.nv)
    scene = SteppedScene(layout, 1e-11, 1e-12, 20_000)
    together = scene.advance(q, v, COLD, np.zeros(model.nv), np.full(20, H))
    scene.rule = scene.rule._replace(size=10 * scene.rule.size)
    thick = scene.advance(q, v, COLD, np.zeros(model.nv), np.full(20, H))
    np.testing.assert_allclose(thick.v, together.v, atol=1e-7)
    np.testing.assert_allclose(thick.q, together.q, atol=1e-8)


@pytest.mark.parametrize("lower", [0.0, 0.01])
def test_the_number_of_worlds_does_not_matter(monkeypatch, lower):
    """Not to a bit; also where bodies overlap the floor at the start and are let do so."""
    model = balls(9)
    q = np.array(model.home.q, dtype=float)
    q.reshape(-1, 7)[:, 2] -= lower
    told = {}
    for worlds in (1, 4):
        monkeypatch.setattr(near_lists, "WORLDS", worlds)
        scene = SteppedScene(scene_layout(model), 1e-7, 1e-9, 10_000)
        half = scene.advance(q, np.zeros(model.nv), COLD, np.zeros(model.nv), np.full(20, H))
        told[worlds] = scene.advance(half.q, half.v, half.warm, np.zeros(model.nv), np.full(20, H))
        assert scene._held.lists.worlds == worlds
    for name in ("q", "v", "a", "kick", "gaps", "account"):
        assert np.array_equal(getattr(told[1], name), getattr(told[4], name)), name
    for one, four in zip(told[1].warm, told[4].warm, strict=True):
        assert np.array_equal(one, four)


def test_pairs_that_nearly_touch_come_first_and_each_from_the_top():
    """Those that nearly touch in turns: of two that share a body the higher one comes first."""
    scene = balls(24)
    stepped = SteppedScene(scene_layout(scene), 1e-6, 1e-9, 100)
    q = np.array([*scene.home.q.reshape(-1, 7), [0, 0, 0, 1, 0, 0, 0]])
    q[:, :3] *= 0.92
    lists = stepped.lists(q, Skins(np.full(len(q), 0.05), np.zeros(3)))
    poses, (first, second) = poses_of_geometries(stepped.layout, q), lists.pairs[:, 1:3].T
    centres = np.where(second[:, None] == 0, poses[first, :, 3] * [1, 1, 0], poses[second, :, 3])
    gaps = np.linalg.norm(poses[first, :, 3] - centres, axis=1) - np.where(second == 0, 0.05, 0.1)
    heights = poses[first, 2, 3] + centres[:, 2]
    near = gaps < NEARLY_TOUCHING * 0.05
    start = int(near.sum())
    assert 5 < start < len(gaps) - 5
    assert near[:start].all()
    assert (np.diff(heights[start:]) <= np.ptp(heights) / len(heights) ** 2).all()  # as far as two digits tell
    assert (np.diff(heights[:start]) > 0).any()
    for late in range(start):
        for early in range(late):
            shared = {first[early], second[early]} & {first[late], second[late]} - {0}
            assert heights[late] <= heights[early] + 1e-4 or not shared


def test_an_impact_travels_through_a_row_of_balls_in_one_step():
    """Each contact joins the problem when the one before it has passed an impulse on."""
    count = 14
    row = [("sphere", {"radius": 0.05}, (0.1 * k, 0, 5, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0)) for k in range(count)]
    scene = bodies_on_floor(row, gravity=(0, 0, 0))
    v = np.zeros((count, 6))
    v[0, 3] = 2.0
    stepped = SteppedScene(scene_layout(scene), 1e-10, 1e-9, 4000)
    told = stepped.advance(scene.home.q, v.ravel(), COLD, np.zeros(scene.nv), np.full(1, H))
    masses = 1.0 + 0.2 * np.arange(count)
    assert told.account[0, ROWS["contacts"]] == count - 1
    assert told.account[0, ROWS["residual_velocity"]] <= 1e-10
    np.testing.assert_allclose(told.v.reshape(-1, 6)[:, 3], 2.0 / masses.sum(), atol=1e-8)


@pytest.mark.slow
def test_a_body_that_outruns_its_lists_is_met_all_the_same():
    """50 m/s towards a ball at rest: farther in a step than the lists reach at first."""
    start = [(x, 0.0, 5.0, 1, 0, 0, 0) for x in (0.0, 0.6)]
    parts = [("sphere", {"radius": 0.05}, at, (0, 0, 0), (0, 0, 0)) for at in start]
    model = bodies_on_floor(parts, gravity=(0, 0, 0))
    v0 = np.zeros(12)
    v0[3] = 50.0
    run = wt.simulate(model, v0=v0, duration=0.02, step=H, output_dt=H, method="time_stepping")
    assert run.penetration.values.max() < 1e-9
    v = run.v.values[-1].reshape(2, 6)
    assert v[1, 3] == pytest.approx(v[0, 3], abs=1e-9)
    assert v[0, 3] * 1.0 + v[1, 3] * 1.2 == pytest.approx(50.0)


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("group", [True, False])
def test_a_tower_of_boxes_stands(group):
    run = wt.simulate(tower(4, group=group), duration=0.2, step=H, output_dt=0.02, method="time_stepping")
    assert run.attrs["unconverged_steps"] == 0
    assert run.penetration.values.max() < 2e-9
    assert np.abs(run.v.values).max() < 1e-5
    weights = 9.81 * (1.0 + 0.2 * np.arange(4))
    # what all contacts together do to a body holds it
    np.testing.assert_allclose(run.contact_wrench.values[-1][:, 5], weights, atol=1e-3)
    below = run.contact_force.sel(contact=[name for name in run.contact.values if "on floor" in str(name)])
    assert float(below.values[-1, :, 0].sum()) == pytest.approx(weights.sum(), rel=1e-4)


@pytest.mark.slow
def test_a_box_slides_down_no_slope_steeper_than_its_friction():
    tilt = np.arctan(0.5)
    for mu, moves in ((0.55, False), (0.45, True)):
        parts = [("box", {"size": (0.2, 0.2, 0.1)}, (0, 0, 0.05, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0))]
        pull = (9.81 * np.sin(tilt), 0, -9.81 * np.cos(tilt))
        model = bodies_on_floor(parts, friction=mu, gravity=pull)
        run = wt.simulate(model, duration=0.2, step=H, method="time_stepping")
        speed = float(run.v.values[-1, 3])
        expected = 0.2 * 9.81 * (np.sin(tilt) - mu * np.cos(tilt)) if moves else 0.0
        assert speed == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_energy_and_work_are_told():
    model = balls(12)
    run = wt.simulate(model, duration=0.1, step=H, output_dt=0.02, method="time_stepping", tolerance=1e-9)
    energy = (run.kinetic_energy + run.potential_energy).values
    told = run.contact_work.values + run.joint_work.values + run.energy_balance.values
    np.testing.assert_allclose(energy - energy[0], told, atol=1e-9)
    assert np.all(np.diff(run.friction_work.values) <= 1e-9)
    assert run.cone_violation.values.max() < 1e-12


@pytest.mark.slow(every=True)
def test_a_run_that_was_resumed_is_the_same(monkeypatch):
    monkeypatch.setattr(scene_method, "NUMBERS_AT_ONCE", 1)  # a chunk for each row
    model = balls(12)
    method = SceneStepping(_task(model, 0.08, 0.01), step=H)
    chunks = list(method.chunks())
    again = SceneStepping(_task(model, 0.08, 0.01), step=H)
    rest = list(again.chunks(chunks[3].memo))
    np.testing.assert_array_equal(rest[-1].states, chunks[-1].states)


def _task(model, duration, spacing):
    from whippletree.simulation.method import Task

    motion = Motion(wt.compile(model), None)
    start = np.concatenate([model.home.q, model.home.v]).astype(float)
    return Task(motion, start, np.arange(0, duration + spacing / 2, spacing), 1e-8, 1e-10)


@pytest.mark.slow
def test_effort_bounds_the_time_of_a_step_and_the_residual_is_told():
    model = wt.mechanisms.spheres_in_box(30, width=0.3)
    with pytest.warns(RuntimeWarning, match=r"of 60 steps were left above the tolerance of 1e-09 m/s.*effort=20\)$"):
        run = wt.simulate(model, duration=0.3, step=5e-3, method="time_stepping", tolerance=1e-9, effort=20)
    assert run.attrs["unconverged_steps"] > 0
    assert run.attrs["largest_residual_velocity"] > 1e-9
    assert run.sweeps.values.max() <= 20 * 5e-3 / 5e-3 * 2
    with pytest.raises(ValueError, match="effort is 0, expected a whole number of sweeps"):
        wt.simulate(model, duration=0.1, method="time_stepping", effort=0)


@pytest.mark.slow
def test_a_scene_whose_masses_few_sweeps_do_not_get_along_with_is_told_of_once():
    """A box of 1000 t on one of 1 kg, with little effort: what is left is counted and told, with cause and cure."""
    builder = wt.Builder("stack").geometry("floor", "world", "half_space")
    for name, mass, z in (("light", 1.0, 0.1), ("heavy", 1e6, 0.3)):
        builder.body(name, mass, inertia=(mass * 0.04 / 6,) * 3)
        builder.joint(name, "free", "world", name, start=(0, 0, z, 1, 0, 0, 0))
        builder.geometry(f"{name} box", name, "box", size=(0.2, 0.2, 0.2))
    builder.contact("below", "light box", "floor", friction=0.5).contact(
        "on top", "heavy box", "light box", friction=0.5
    )
    with pytest.warns(RuntimeWarning, match="were left above the tolerance") as told:
        run = wt.simulate(builder.build(), duration=1.0, step=H, method="time_stepping", effort=30)
    assert len(told) == 1
    unsolved, worst = run.attrs["unconverged_steps"], run.attrs["largest_residual_velocity"]
    assert str(told[0].message) == (
        f"simulate: {unsolved} of 500 steps were left above the tolerance of 1e-07 m/s, at a residual of {worst:.3g} "
        f"m/s at worst: their sweeps ended before bodies obeyed the laws of friction and contact (residual_velocity, "
        f"unconverged). Masses differ by a factor of 1e+06: sweeps creep where much rests on little. Take shorter "
        f"steps (step=0.002), more sweeps (effort=30), or masses that differ less"
    )


@pytest.mark.slow(every=True)
def test_a_scene_at_rest_needs_hardly_a_sweep():
    """Impulses of the step before are looked at first; some sweeps beyond the tolerance are invested once."""
    sizes = [(0.4 - 0.05 * k, 0.3 - 0.03 * k, 0.2) for k in range(4)]
    parts = [
        ("box", {"size": size}, (0.01 * k, 0, 0.1 + 0.2 * k, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0))
        for k, size in enumerate(sizes)
    ]
    model = bodies_on_floor(parts)
    run = wt.simulate(model, duration=0.3, step=H, output_dt=0.02, method="time_stepping", tolerance=1e-4)
    assert run.sweeps.values[1] > 0
    assert run.sweeps.values[-8:].mean() <= 6 * 10, "of ten steps"
    assert run.residual_velocity.values[-8:].max() <= 1e-6
    assert run.residual_velocity.values[-1] <= 1e-7, "what is at rest becomes calmer"


def test_balls_that_settle_spend_few_sweeps_beyond_the_tolerance():
    """What one step leaves, the next one goes on with: of balls that still roll a step needs no more than the tolerance
    asks for, and some. (300 sweeps were spent on them once.)"""
    model = wt.mechanisms.spheres_in_box(12, width=0.3, seed=3)
    run = wt.simulate(model, duration=1.0, step=5e-3, output_dt=5e-3, method="time_stepping", tolerance=0.1)
    assert run.attrs["path"] == "compiled"
    assert run.attrs["unconverged_steps"] == 0
    assert run.sweeps.values.max() <= 4 * INVESTED_ALONE
    assert run.sweeps.values.mean() <= 2 * INVESTED_ALONE
    assert run.attrs["largest_overlap"] < 1.1e-9


def test_a_tower_begins_where_it_stands():
    """Conjugate gradients find the impulses with which all boxes stick; then there is nothing to do for long."""
    sizes = [(0.4 - 0.03 * k, 0.3 - 0.02 * k, 0.2) for k in range(6)]
    parts = [
        ("box", {"size": size}, (0.01 * k, 0, 0.1 + 0.2 * k, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0))
        for k, size in enumerate(sizes)
    ]
    run = wt.simulate(bodies_on_floor(parts), duration=0.16, step=H, output_dt=0.02, method="time_stepping")
    assert 0 < run.sweeps.values.sum() <= 2 * 6 * len(sizes)
    assert np.abs(run.v.values).max() < 1e-9
    assert run.attrs["unconverged_steps"] == 0


def bricks(rows, columns, apart=0.0):
    """A wall in running bond, whose courses begin a little apart."""
    parts = []
    for row in range(rows):
        for k in range(columns - row % 2):
            x = 0.201 * (k - (columns - 1 - row % 2) / 2)
            start = (x, 0, 0.04 * (2 * row + 1) + apart * (row + 1), 1, 0, 0, 0)
            parts.append(("box", {"size": (0.2, 0.1, 0.08)}, start, (0, 0, 0), (0, 0, 0)))
    return bodies_on_floor(parts, friction=0.6)


@pytest.mark.parametrize(("apart", "fastest", "sweeps"), [(0.0, 1e-8, 0), (1e-4, 2e-6, 40)])
def test_a_wall_stands(apart, fastest, sweeps):
    """Courses on each other have nothing to do from the second step on; those that fell by a tenth of a millimetre lie
    still as soon. Impulses that stayed in slots which had changed let such walls creep at 1e-3 and 5e-6 m/s."""
    model = bricks(6, 4, apart)
    layout = scene_layout(model)
    scene = SteppedScene(layout, 1e-4, 1e-9, 2000)
    q, v = (np.array(x, dtype=float) for x in (model.home.q, model.home.v))
    told = scene.advance(q, v, COLD, np.zeros(model.nv), np.full(60, H))
    assert np.abs(told.v).max() < fastest
    assert told.account[30:, ROWS["sweeps"]].mean() <= sweeps
    assert told.account[:, ROWS["residual_velocity"]].max() <= 1e-4
    if apart:
        weight = 9.81 * H * (1 / layout.bodies[:-1, 0]).sum()
        assert told.warm.impulses[told.warm.impulses[:, 0] > 0, 0].sum() > weight  # the lowest course carries it all


def test_calls_of_the_kernel_that_take_long_are_several(monkeypatch):
    """So that Ctrl-C is answered between them; the steps are the same, and so is what they tell."""
    model = balls(24)
    q, v = (np.array(x, dtype=float) for x in (model.home.q, model.home.v))
    runs, calls = [], []
    for at_once in (1e9, 2e3):
        monkeypatch.setattr(scene_run, "UPDATES_AT_ONCE", at_once)
        scene, made = SteppedScene(scene_layout(model), 1e-6, 1e-9, 20), []
        kernel = scene.kernel
        scene.kernel = lambda *inputs, kernel=kernel, made=made: made.append(1) or kernel(*inputs)
        runs.append(scene.advance(q, v, COLD, np.zeros(model.nv), np.full(60, H)))
        calls.append(len(made))
    assert calls[1] > calls[0]
    np.testing.assert_array_equal(runs[1].q, runs[0].q)
    np.testing.assert_array_equal(runs[1].v, runs[0].v)
    np.testing.assert_array_equal(runs[1].account, runs[0].account)


def test_a_step_that_takes_long_can_be_interrupted():
    """A tolerance that no sweep reaches, and a million of them: some ten seconds for each step."""
    model = bricks(6, 4)
    scene = SteppedScene(scene_layout(model), 1e-30, 1e-9, 10**6)
    q, v = (np.array(x, dtype=float) for x in (model.home.q, model.home.v))
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        start = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            scene.advance(q, v, COLD, np.zeros(model.nv), np.full(100, H))
        assert time.process_time() - start < 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_bodies_that_have_come_to_rest_have_thin_skins():
    """Lists that were made while they fell hold many pairs that do not touch: they are not kept for ever."""
    parts = [
        ("sphere", {"radius": 0.05}, (0.11 * k, 0, 0.3 + 0.02 * k, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0)) for k in (0, 1)
    ]
    model = bodies_on_floor(parts)
    scene = SteppedScene(scene_layout(model), 1e-6, 1e-9, 10_000)
    told = scene.advance(np.array(model.home.q, float), np.zeros(12), COLD, np.zeros(12), np.full(150, H))
    assert np.abs(told.v).max() < 1e-6
    assert scene.rule.is_thick(Skins(told.warm.budget, told.warm.grain))
    assert len(told.keys) == 3
    few = scene.advance(told.q, told.v, told.warm, np.zeros(12), np.full(STEPS_OF_THICK - 1, H))
    assert len(few.keys) == 3  # new lists would not pay
    many = scene.advance(told.q, told.v, told.warm, np.zeros(12), np.full(STEPS_OF_THICK, H))
    assert len(many.keys) == 2
    assert not scene.rule.is_thick(Skins(many.warm.budget, many.warm.grain))
    np.testing.assert_allclose(many.q, few.q, atol=1e-6)
    once = scene.advance(np.array(model.home.q, float), np.zeros(12), COLD, np.zeros(12), np.full(500, H))
    assert len(once.keys) == 2


def test_a_body_that_moves_does_not_thicken_the_skins_of_those_at_rest():
    """Ways are measured against the world where most bodies rest in it, and each skin is made for its own body."""
    scene = SteppedScene(scene_layout(balls(60)), 1e-5, 1e-9, 100)
    velocities = np.zeros((60, 3))
    velocities[7] = 0, 5.0, 0
    skins = scene.rule.skins(velocities, np.zeros((60, 3)), H, falls=False, stopped=False)
    others = np.delete(skins.budget[:-1], 7)
    assert skins.together == 0
    assert skins.budget[7] > STEPS_AHEAD * H * 5.0 > 3 * others.max()
    assert others.min() > H * 5.0  # what it hits may be as fast as it is
    # all but a few fall together: the world goes past them
    together = scene.rule.skins(velocities - [0, 0, 3.0], np.zeros((60, 3)), H, falls=False, stopped=False)
    assert together.together == 1
    assert np.delete(together.budget[:-1], 7).max() < H * STEPS_AHEAD * 3.0


def test_few_lists_are_made_while_one_body_flies_past_many_at_rest():
    count = 40
    parts = [("sphere", {"radius": 0.05}, (0.2 * k, 0, 0.05, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0)) for k in range(count)]
    parts.append(("sphere", {"radius": 0.05}, (0, 0.5, 2.0, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0)))
    model = bodies_on_floor(parts)
    scene = SteppedScene(scene_layout(model), 1e-6, 1e-9, 1000)
    q, v = (np.array(x, dtype=float) for x in (model.home.q, model.home.v))
    v[-3:] = 6.0, 0, 0
    told = scene.advance(q, v, COLD, np.zeros(model.nv), np.full(200, 1e-3))
    assert scene.rebuilds <= 25  # 44 by one skin for all
    np.testing.assert_allclose(told.q.reshape(-1, 7)[:count, :3], q.reshape(-1, 7)[:count, :3], atol=1e-8)


def test_balls_that_fall_together_need_few_lists():
    """What counts is how far they go against each other, and the world against them."""
    model = balls(8)
    high = model.home.q.reshape(-1, 7).copy()
    high[:, 2] += 3.0
    run = wt.simulate(model, high.ravel(), duration=0.3, step=5e-3, method="time_stepping", tolerance=1e-5)
    # one for a look at the start, two for the step that is tried and the first one, and one every forty steps or so
    assert run.attrs["contact_lists_made"] <= 8
    assert np.allclose(run.q.values[-1].reshape(-1, 7)[:, 2], high[:, 2] - 9.81 * 0.005**2 * 60 * 61 / 2, atol=1e-9)


def test_the_skin_of_the_world_holds_every_way_that_counts_as_within():
    """Of ways d with √(|d|² − (grain · d)²) up to the budget, none goes farther along a normal than the skin there."""
    model = balls(8)
    layout = scene_layout(model)
    scene = SteppedScene(layout, 1e-5, 1e-9, 100)
    random = np.random.default_rng(8)
    velocities = np.array([0.3, -0.1, -2.0]) + random.normal(scale=0.05, size=(8, 3))
    skins = scene.rule.skins(velocities, np.zeros((8, 3)), 5e-3, falls=True, stopped=False)
    # √(1 − grain grainᵀ) turns such ways into a ball, its inverse a ball into them
    squares = np.eye(3) - np.outer(skins.grain, skins.grain)
    values, axes = np.linalg.eigh(squares)
    ways = random.normal(size=(2000, 3))
    ways *= (skins.budget[-1] / np.linalg.norm(ways, axis=1))[:, None]
    ways = ways @ axes @ np.diag(values**-0.5) @ axes.T
    for tilt in (0.0, 0.4, 1.5, 3.0):
        normal = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
        skin = skins.budget[-1] * np.sqrt(1 + skins.stretch * (normal @ skins.direction) ** 2)
        assert skin <= skins.of_bodies(np.zeros(8, dtype=bool))[-1] * (1 + 1e-12)
        assert 0.8 * skin < np.abs(ways @ normal).max() <= skin * (1 + 1e-12)


@pytest.mark.slow
def test_balls_that_fall_between_walls_are_not_near_them():
    model = wt.mechanisms.spheres_in_box(27, width=0.6)
    layout = scene_layout(model)
    scene = SteppedScene(layout, 1e-6, 1e-9, 100)
    high = np.array(model.home.q, dtype=float)
    high.reshape(-1, 7)[:, 2] += 2.0
    told = scene.advance(high, np.zeros(model.nv), COLD, np.zeros(model.nv), np.full(100, 5e-3))
    assert told.account[:, ROWS["contacts"]].max() == 0
    assert scene.rebuilds <= 2
    unbounded = {k for k, radius in enumerate(layout.radii) if not np.isfinite(radius)}
    near_walls = [key for key in told.keys // MOST_SLOTS if int(key) % len(layout.names) in unbounded]
    assert len(near_walls) <= 27, "one with the floor for each"


def test_islands_fall_asleep_and_wake_when_something_comes_near():
    parts = [("box", {"size": (0.1, 0.1, 0.1)}, (x, 0, z, 1, 0, 0, 0), (0, 0, 0), (0, 0, 0))
             for x, z in ((0, 0.05), (0, 0.15), (1, 0.05), (0, 2.5))]  # fmt: skip
    model = bodies_on_floor(parts)
    options = {"duration": 1.2, "step": H, "output_dt": 0.1, "method": "time_stepping", "tolerance": 1e-6}
    awake, run = wt.simulate(model, **options), wt.simulate(model, **options, sleep=1e-3)
    assert awake.attrs["sleep"] == "never"
    assert not awake.asleep.values.any()
    assert run.attrs["sleep"] == 1e-3
    asleep = run.asleep.values.astype(int).tolist()
    assert asleep[0] == 0
    assert asleep[5] == 3, "the tower and the box beside it; not the one that falls"
    assert 1 in asleep[6:], "the falling box has woken the tower, and not the other one"
    assert asleep[-1] == 4
    assert np.allclose(run.q.values[-1], awake.q.values[-1], atol=1e-5)
    # sleepers are carried, and their forces told
    weights = 9.81 * (1.0 + 0.2 * np.arange(4))
    assert np.allclose(run.contact_wrench.values[-1, :, 5], weights, rtol=1e-4)
    with pytest.raises(ValueError, match="sleep is given together with a controller"):
        wt.simulate(model, controller=lambda t, q, v: np.zeros(24), **options, sleep=1e-3)


def test_few_bodies_sleep_too_and_others_say_why_they_cannot():
    ball = wt.Builder("ball").geometry("floor", "world", "half_space").body("ball", 1.0, inertia=(0.01, 0.01, 0.01))
    ball.joint("fly", "free", "world", "ball", start=(0, 0, 0.101, 1, 0, 0, 0))
    # no group, and one pair in closed form
    model = ball.geometry("skin", "ball", "sphere", radius=0.1).contact("rest", "skin", "floor").build()
    options = {"duration": 0.4, "method": "time_stepping", "output_dt": 0.1}
    assert wt.simulate(model, **options, sleep=1e-3).asleep.values[-1] == 1
    assert wt.simulate(model, **options, effort=50).attrs["unconverged_steps"] == 0
    with pytest.raises(wt.UnsupportedError, match=r"option sleep .* model 'ball' .*: there are several start states"):
        wt.simulate(model, np.tile(model.home.q, (2, 1)), **options, sleep=1e-3)
    with pytest.raises(wt.UnsupportedError, match=r"options sleep .*: none of its bodies moves freely. Leave them out"):
        wt.simulate(wt.mechanisms.rocking_block(), **options, sleep=1e-3, effort=9)
    with pytest.raises(wt.NameLookupError, match=r"there is no option 'sleep'.*method='time_stepping' has it"):
        wt.simulate(model, duration=0.1, sleep=1e-3)


def test_steps_of_sleepers_are_the_same_where_a_run_goes_on_elsewhere():
    layout = scene_layout(tower(3))
    nv = layout.model.nv
    options = (layout, 1e-6, 1e-9, 200, 1e-3)
    one, other = SteppedScene(*options), SteppedScene(*options)
    first = one.advance(layout.model.home.q, np.zeros(nv), COLD, np.zeros(nv), np.full(140, H))
    warm = Warm(*[np.array(x) for x in first.warm])
    here, there = (
        scene.advance(first.q, first.v, memory, np.zeros(nv), np.full(30, H))
        for scene, memory in ((one, first.warm), (other, warm))
    )
    assert np.array_equal(here.q, there.q)
    assert np.array_equal(here.warm.impulses, there.warm.impulses)
    assert np.isinf(here.warm.quiet).all()


def test_a_slot_that_is_out_of_use_is_no_contact():
    """Whatever it carried in the step before: the crossing of edges that are nearly parallel may be anywhere."""
    layout = scene_layout(tower(2))
    scene, nv = SteppedScene(layout, 1e-6, 1e-9, 200), layout.model.nv
    edge = len(box_on_box(Box((1, 1, 1)), Box((1, 1, 1)), *[Pose(np.eye(3), np.zeros(3))] * 2)) - 1
    key = (1 * len(layout.names) + 2) * MOST_SLOTS + edge
    carried = COLD._replace(keys=np.array([key]), impulses=np.array([[1e-3, 0.0, 0.0]]))
    told = scene.advance(layout.model.home.q, np.zeros(nv), carried, np.zeros(nv), np.full(1, H))
    assert key in told.keys
    assert told.account[0, ROWS["contacts"]] == 4 + 4
    assert key not in told.warm.keys


# ---- groups ---------------------------------------------------------------------------------------------------------


def test_a_thousand_balls_need_no_list_of_their_pairs():
    model = wt.mechanisms.spheres_in_box(1000)
    assert "pairs" not in model.__dict__
    assert isinstance(scene_layout(model), SceneLayout)
    assert TimeStepping.form_for(model, alone=True) is SceneStepping
    assert TimeStepping.form_for(model, alone=False) is TimeStepping
    assert "pairs" not in model.__dict__


def test_groups_and_their_pairs_are_one_scene():
    grouped, listed = balls(5), balls(5, group=False)
    assert {frozenset((c.first, c.second)) for c in grouped.pairs} == {
        frozenset((c.first, c.second)) for c in listed.pairs
    }
    q = np.asarray(grouped.home.q)
    gaps = [sorted(wt.reference(model).contact_gaps(q)) for model in (grouped, listed)]
    np.testing.assert_allclose(*[np.array(gap, dtype=float) for gap in gaps], atol=1e-15)


def test_faults_of_groups_are_named():
    builder = wt.Builder("heap").geometry("floor", "world", "half_space")
    builder.contact_group("all", ["floor", "flor", "floor"], friction=-1)
    with pytest.raises(ModelError) as caught:
        builder.build()
    assert "contact group 'all': unknown geometry 'flor'" in str(caught.value)
    assert "contact group 'all': names 'floor' more than once" in str(caught.value)
    assert "friction is -1" in str(caught.value)


def test_what_is_no_scene_says_why():
    assert scene_layout(wt.mechanisms.pendulum()) == Unsuited("it has no contacts")
    assert scene_layout(wt.mechanisms.quadruped()) == Unsuited("none of its bodies moves freely")


def test_a_scene_whose_controller_fails_on_the_way_keeps_what_it_had():
    model = balls(13)
    lost = lambda t, q, v: np.full(model.nv, np.nan if t > 0.0095 else 0.0)  # noqa: E731
    run = wt.simulate(model, duration=0.02, step=H, output_dt=2 * H, method="time_stepping", controller=lost)
    assert run.attrs["failure"].startswith("the controller returned nan at t = 0.01 s for joint 'part 0'")
    np.testing.assert_allclose(run.time, [0.0, 0.004, 0.008])
    free = wt.simulate(model, duration=0.008, step=H, output_dt=2 * H, method="time_stepping")
    assert run.q.values[-1].tobytes() == free.q.values[-1].tobytes()
