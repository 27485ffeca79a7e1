"""Scenes of many cylinders, ellipsoids and meshes: their candidates, their motion, and what they cost to write."""

import numpy as np
import pytest

import whippletree as wt
from scene_poses import poses_of_geometries, with_world
from whippletree.contact.geometry.coal_pairs import nearest_touch
from whippletree.contact.kinematics.contact_set import contact_set_of_steps
from whippletree.contact.kinematics.scene_layout import scene_layout
from whippletree.simulation.time_stepping import scene_method
from whippletree.simulation.time_stepping.pair_lists import MOST_SLOTS
from whippletree.simulation.time_stepping.scene_method import is_scene
from whippletree.simulation.time_stepping.scene_run import SteppedScene
from whippletree.spatial import Pose
from whippletree.tree.mechanism import Mechanism

STONE = np.random.default_rng(3).normal(size=(40, 3))
STONE *= 0.05 / np.linalg.norm(STONE, axis=1, keepdims=True)
OCTAHEDRON = 0.06 * np.concatenate([np.eye(3), -np.eye(3)])
KINDS = {
    "cylinder": {"radius": 0.05, "length": 0.08},
    "ellipsoid": {"radii": (0.07, 0.05, 0.04)},
    "stone": {"vertices": STONE},
    "octahedron": {"vertices": OCTAHEDRON},
    "capsule": {"radius": 0.03, "length": 0.06},
    "box": {"size": (0.1, 0.08, 0.06)},
    "sphere": {"radius": 0.05},
}


def heap(count, pitch=0.09, group=True, kinds=tuple(KINDS)):
    """Bodies of all kinds in turns, turned at random, above a floor."""
    rng = np.random.default_rng(count)
    builder = wt.Builder("heap").geometry("floor", "world", "half_space")
    names = ["floor"]
    for k in range(count):
        kind, name = kinds[k % len(kinds)], f"{kinds[k % len(kinds)]} {k}"
        turn = rng.normal(size=4)
        place = pitch * np.array([k % 2, k // 2 % 2, k // 4 + 0.9])
        builder.body(name, 1.0, inertia=(1e-3, 1e-3, 1e-3))
        builder.joint(name, "free", "world", name, start=(*place, *(turn / np.linalg.norm(turn))))
        builder.geometry(name, name, "mesh" if "vertices" in KINDS[kind] else kind, **KINDS[kind])
        names.append(name)
    if group:
        return builder.contact_group("all", names, friction=0.5).build()
    for i, first in enumerate(names[1:], start=1):
        for second in [*names[i + 1 :], "floor"]:
            builder.contact(f"{first} on {second}", first, second, friction=0.5)
    return builder.build()


@pytest.fixture(scope="module")
def crowd():
    """Fourteen bodies that overlap, and their scene."""
    model = heap(14)
    return model, SteppedScene(scene_layout(model), 1e-6, 1e-9, 100)


def poses_of(scene, q):
    placed = poses_of_geometries(scene.layout, with_world(q))
    return [Pose(X[:, :3].astype(object), X[:, 3].astype(object)) for X in placed]


def test_candidates_of_a_scene_are_those_of_single_pairs(crowd):
    model, scene = crowd
    contacts, names = contact_set_of_steps(model), scene.layout.names
    keys, gaps = scene.gaps(model.home.q)
    points = contacts.points(Mechanism.of(model), model.home.q.astype(object))
    single, nearest = {}, {}
    slots = [(pair.contact, slot) for pair in contacts.pairs for slot in range(pair.slots)]
    for gap, (contact, slot) in zip(points.gap.tolist(), slots, strict=True):
        pair = contact.first, contact.second
        single[pair, slot] = gap
        nearest[pair] = min(gap, nearest.get(pair, np.inf))
    compared = 0
    for key, gap in zip(keys.tolist(), gaps, strict=True):
        pair, slot = tuple(names[k] for k in divmod(key // MOST_SLOTS, len(names))), key % MOST_SLOTS
        # faces of solids that are farther apart are not compared; seen from the other side, slots are others
        if nearest.get(pair, 1) < 1e-3 and min(gap, single[pair, slot]) < 1e8:
            compared += 1
            assert gap == pytest.approx(single[pair, slot], abs=1e-9), pair
    assert compared > 20


def test_nearest_candidates_of_a_scene_are_those_of_coal(crowd):
    pytest.importorskip("coal")
    model, scene = crowd
    layout, X = scene.layout, poses_of(scene, model.home.q)
    keys, gaps = scene.gaps(model.home.q)
    nearest = {}
    for key, gap in zip((keys // MOST_SLOTS).tolist(), gaps, strict=True):
        nearest[key] = min(gap, nearest.get(key, np.inf))
    apart = 0
    for key, gap in nearest.items():
        first, second = divmod(key, len(layout.names))
        kind = layout.kinds[layout.kind_numbers[layout.class_of[first], layout.class_of[second]]]
        if not kind.of_solids or layout.classes[layout.class_of[second]].unbounded:
            continue
        right = float(nearest_touch(layout.shapes[first], layout.shapes[second], X[first], X[second]).gap)
        if right > 1e-7:  # an overlap has several ways out
            apart += 1
            assert gap == pytest.approx(right, abs=1.1e-8)
    assert apart > 10


def test_solids_are_one_code_however_many_shapes_there_are(crowd):
    layout = scene_layout(crowd[0])
    solids = [kind for kind in layout.kinds if kind.of_solids]
    # with flats, without, and the large mesh on the floor; the small one is written out
    assert sorted(kind.slots for kind in solids) == [1, 8, 9]
    more = heap(28)
    assert len(scene_layout(more).kinds) == len(layout.kinds)
    assert solids[0].first.shape.tables == next(k for k in scene_layout(more).kinds if k.of_solids).first.shape.tables


def test_a_heap_of_all_kinds_is_compiled_and_leaves_no_overlap():
    model = heap(14, pitch=0.13)
    run = wt.simulate(model, duration=0.3, step=2e-3, output_dt=0.1, method="time_stepping", tolerance=1e-6)
    assert run.attrs["path"] == "compiled"
    assert run.attrs["largest_overlap"] < 1e-8
    assert run.contacts.values[-1] > 14
    assert len(run.contact_gap.attrs["names"]) == len(contact_set_of_steps(model).names)
    height = run["q"].values[-1].reshape(-1, 7)[:, 2]
    assert height.min() > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cylinder", "ellipsoid", "octahedron"])
def test_a_scene_moves_as_the_steps_of_any_mechanism_do(kind, monkeypatch):
    model = heap(3, pitch=0.15, group=False, kinds=(kind,))
    given = {"duration": 0.2, "step": 1e-3, "output_dt": 0.05, "method": "time_stepping", "tolerance": 1e-10}
    assert not is_scene(model)
    lists = wt.simulate(model, **given)
    monkeypatch.setattr(scene_method, "FEW_BODIES", 1)
    assert is_scene(model)
    scene = wt.simulate(model, **given)
    assert lists.attrs["path"] == scene.attrs["path"] == "compiled"
    assert "contact_wrench" in scene
    assert np.abs(lists["contact_force"].values).max() > 0
    np.testing.assert_allclose(scene["q"].values, lists["q"].values, atol=2e-6)


@pytest.mark.slow
def test_a_cup_of_convex_pieces_holds_a_ball():
    """A body that is not convex has a geometry for each of its pieces: bottom and four walls, each as a mesh."""
    corners = np.array(list(np.ndindex(2, 2, 2))) * 2 - 1
    pieces = [((0, 0, -0.04), (0.1, 0.1, 0.01))]
    pieces += [((side * 0.09, 0, 0.02), (0.01, 0.1, 0.05)) for side in (-1, 1)]
    pieces += [((0, side * 0.09, 0.02), (0.08, 0.01, 0.05)) for side in (-1, 1)]
    builder = wt.Builder("cup").geometry("floor", "world", "half_space")
    for name, inertia, height in (("cup", 1e-2, 0.05), ("ball", 4e-5, 0.2)):
        builder.body(name, 1.0, inertia=(inertia,) * 3)
        builder.joint(name, "free", "world", name, start=(0, 0, height, 1, 0, 0, 0))
    for k, (middle, half) in enumerate(pieces):
        builder.geometry(f"piece {k}", "cup", "mesh", vertices=np.array(middle) + corners * np.array(half))
    builder.geometry("ball", "ball", "sphere", radius=0.03)
    names = ["floor", "ball", *[f"piece {k}" for k in range(len(pieces))]]
    run = wt.simulate(
        builder.contact_group("all", names, friction=0.5).build(),
        duration=0.5,
        step=2e-3,
        output_dt=0.5,
        method="time_stepping",
    )
    assert run.attrs["unconverged_steps"] == 0
    heights = run["q"].values[-1].reshape(-1, 7)[:, 2]
    np.testing.assert_allclose(heights, [0.05, 0.05], atol=1e-8)  # the ball's: bottom 0.02, radius 0.03
