"""Scenes of free bodies that are thrown at each other: no step leaves an overlap, or the run tells of it."""

from itertools import combinations

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.time_step import RELAXATION_SPEED
from whippletree.simulation.time_stepping import scene_method
from whippletree.simulation.time_stepping.pair_lists import rotations
from whippletree.simulation.time_stepping.scene_method import SCENE_OVERLAP
from whippletree.simulation.time_stepping.scene_run import SteppedScene

H = 2e-3
HALF = np.array([0.05, 0.03, 0.02])
RADIUS, LENGTH = 0.02, 0.08
SHAPES = {"b": ("box", {"size": tuple(2 * HALF)}), "c": ("capsule", {"radius": RADIUS, "length": LENGTH})}
PARALLEL = (1.0, 0.0, 0.0, 0.0)


def scene(kinds, places=None):
    """Free bodies without gravity, b: box, c: capsule, beside each other if no places are given."""
    builder = wt.Builder("thrown", gravity=(0, 0, 0))
    for k, kind in enumerate(kinds):
        place = (0.16 * k, 0.0, 0.0) if places is None else places[k]
        builder.body(f"part {k}", 1.0, inertia=(1e-3, 1.2e-3, 1.4e-3))
        builder.joint(f"part {k}", "free", "world", f"part {k}", start=(*place, *PARALLEL))
        builder.geometry(f"part {k}", f"part {k}", SHAPES[kind][0], **SHAPES[kind][1])
    return builder.contact_group("all", [f"part {k}" for k in range(len(kinds))], friction=0.4).build()


def thrown(count, seed):
    """Coordinates and velocities of bodies that are turned and turn at random and fly towards each other at 3 m/s."""
    random = np.random.default_rng(seed)
    q, v = np.zeros((count, 7)), np.zeros((count, 6))
    q[:, 0] = 0.16 * np.arange(count)
    q[:, :3] += random.uniform(-0.02, 0.02, (count, 3))
    q[:, 3:] = random.normal(size=(count, 4))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1)[:, None]
    v[:, :3] = random.normal(scale=15.0, size=(count, 3))
    towards = np.array([0.08 * (count - 1), 0, 0]) - q[:, :3]
    towards *= 1.5 / np.linalg.norm(towards, axis=1)[:, None]
    v[:, 3:] = np.einsum("nji,nj->ni", rotations(q[:, 3:]), towards)
    return q.ravel(), v.ravel()


def depth_of_boxes(R, p, S, q):
    """By all fifteen axes that can separate two boxes."""
    normals = [np.cross(a, b) for a in R.T for b in S.T]
    axes = [*R.T, *S.T, *(n / np.linalg.norm(n) for n in normals if np.linalg.norm(n) > 1e-6)]
    return min(np.abs(R.T @ n) @ HALF + np.abs(S.T @ n) @ HALF - abs(n @ (p - q)) for n in axes)


def depth_of_capsules(R, p, S, q):
    """By the nearest points of two segments, in turns: their distance is convex."""
    a, b, x = R[:, 2], S[:, 2], 0.0
    for _ in range(100):
        y = np.clip((p + x * a - q) @ b, -LENGTH / 2, LENGTH / 2)
        x = np.clip((q + y * b - p) @ a, -LENGTH / 2, LENGTH / 2)
    return 2 * RADIUS - np.linalg.norm(p + x * a - q - y * b)


DEPTHS = {"b": depth_of_boxes, "c": depth_of_capsules}


def deepest(coordinates, kind):
    """The deepest overlap of bodies of one kind in each row of coordinates."""
    found = []
    for row in coordinates:
        q = row.reshape(-1, 7)
        bodies = list(zip(rotations(q[:, 3:]), q[:, :3], strict=True))
        found.append(max(DEPTHS[kind](*one, *other) for one, other in combinations(bodies, 2)))
    return np.array(found)


def simulated(model, q, v, duration=0.08):
    return wt.simulate(model, q, v, duration=duration, step=H, output_dt=H, method="time_stepping", tolerance=1e-6)


def lenient(layout, tolerance, overlap, *rest):
    """A scene whose steps may leave overlaps up to a metre, as if the rounds that move them apart had ended early."""
    return SteppedScene(layout, tolerance, 1.0, *rest)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["bb", "cc", "bbb"])
def test_bodies_that_are_thrown_at_each_other_do_not_overlap(kinds):
    """Corners, edges and faces meet that no candidate told of at the beginning of a step: they overlapped by 5 mm."""
    model = scene(kinds)
    met = 0
    for seed in range(8):
        run = simulated(model, *thrown(len(kinds), seed))
        met += run.contact_work.values[-1] < 0
        assert deepest(run.q.values, kinds[0]).max() <= SCENE_OVERLAP * 1.01
        assert run.penetration.values.max() <= SCENE_OVERLAP
        assert run.attrs["largest_overlap"] == run.penetration.values.max()
        assert run.attrs["overlapping_steps"] == 0
    assert met > 4


@pytest.mark.slow
def test_parallel_capsules_that_turn_into_each_other_do_not_overlap():
    """One nearest point: it jumps from end to end within a step."""
    model = scene("cc", [(0, 0, 0), (2 * RADIUS + 1e-4, 0, 0)])
    run = simulated(model, model.home.q, np.array([0, 20.0, 0, 0.5, 0, 0, 0, -20.0, 0, -0.5, 0, 0]))
    assert run.contact_work.values[-1] < 0
    assert deepest(run.q.values, "c").max() <= SCENE_OVERLAP * 1.01


@pytest.mark.slow
def test_an_overlap_of_the_start_is_eased_apart_and_allows_no_other():
    """Two boxes overlap by a centimetre at the start; two others are thrown at each other."""
    model = scene("bbbb", [(0, 0, 0), (0.09, 0, 0), (1, 0, 0), (1.16, 0, 0)])
    q, v = (np.asarray(x, dtype=float).reshape(4, -1).copy() for x in (model.home.q, np.zeros(24)))
    pair = thrown(2, 1)
    q[2:], v[2:] = pair[0].reshape(2, 7), pair[1].reshape(2, 6)
    q[2:, 0] += 1
    with pytest.warns(RuntimeWarning, match="overlap"):
        run = simulated(model, q.ravel(), v.ravel())
    expected = np.maximum(0.01 - RELAXATION_SPEED * run.time.values, 0)
    np.testing.assert_allclose(run.penetration.values, expected, atol=1.01 * SCENE_OVERLAP)
    others = deepest(run.q.values[:, 14:], "b")
    assert others.max() <= SCENE_OVERLAP * 1.01
    assert run.contact_work.values[-1] < 0
    assert run.attrs["largest_overlap"] <= SCENE_OVERLAP


@pytest.mark.slow
def test_an_overlap_that_a_step_leaves_is_told(monkeypatch):
    monkeypatch.setattr(scene_method, "SteppedScene", lenient)
    run = simulated(scene("bb"), *thrown(2, 0))
    worst = run.penetration.values.max()
    assert worst > 1e-4
    assert run.attrs["largest_overlap"] == pytest.approx(worst, rel=1e-12)
    assert 0 < run.attrs["overlapping_steps"] <= (run.penetration.values > SCENE_OVERLAP).sum()


@pytest.mark.slow
def test_a_checkpoint_keeps_what_was_told_of_overlaps(monkeypatch, tmp_path):
    monkeypatch.setattr(scene_method, "SteppedScene", lenient)
    path = tmp_path / "run.zarr"
    options = {"duration": 0.08, "step": H, "output_dt": H, "method": "time_stepping", "tolerance": 1e-6}
    model, (q, v) = scene("bb"), thrown(2, 0)
    first = wt.simulate(model, q, v, checkpoint=path, **options)
    again = wt.simulate(model, q, v, checkpoint=path, **options)
    assert first.attrs["largest_overlap"] > 0
    for name in ("largest_overlap", "overlapping_steps"):
        assert again.attrs[name] == first.attrs[name]
