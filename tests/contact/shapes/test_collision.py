"""Pairs without a closed form, by coal: fixed slots, own gaps, and identities that last from state to state."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import whippletree as wt
from contact_scenes import SHAPES
from whippletree.contact.geometry.box_pairs import box_on_box
from whippletree.contact.geometry.coal_pairs import Tracker
from whippletree.contact.geometry.polytopes import faces_of
from whippletree.contact.geometry.shapes import Box, Hull
from whippletree.spatial import Pose
from whippletree.tree.mechanism import Mechanism

PAIRS = [
    ("box", "box"), ("box", "mesh"), ("mesh", "mesh"), ("box", "cylinder"), ("cylinder", "cylinder"),
    ("capsule", "box"), ("ellipsoid", "ellipsoid"), ("sphere", "mesh"), ("cylinder", "mesh"), ("capsule", "ellipsoid"),
]  # fmt: skip


def pair(first: str, second: str, **others) -> wt.Model:
    builder = wt.Builder(f"{first} on {second}")
    for name, kind in (("a", first), ("b", second)):
        parameters = others.get(name, SHAPES[kind])
        builder.body(name, 1.0, inertia=(0.1, 0.1, 0.1)).joint(f"{name}_free", "free", "world", name)
        builder.geometry(name, name, kind, **parameters)
    return builder.contact("touch", "a", "b").build()


def evaluated(model: wt.Model, q: np.ndarray):
    m, system = Mechanism.of(model), wt.contact_set(model)
    points = system.points(m, q.astype(object))
    return points.gap.astype(float), points.point.astype(float), points.axes.astype(float)


def distance(model: wt.Model, q: np.ndarray) -> float:
    import coal

    from whippletree.contact.geometry.coal_pairs import _coal_shape

    ref = wt.reference(model)
    shapes = wt.contact_set(model).pairs[0].shapes
    poses = [ref.pose(name)(q) for name in ("a", "b")]
    places = [coal.Transform3s(X[:3, :3], X[:3, 3]) for X in poses]
    result = coal.DistanceResult()
    return coal.distance(
        _coal_shape(shapes[0]), places[0], _coal_shape(shapes[1]), places[1], coal.DistanceRequest(), result
    )


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_smallest_gap_is_the_distance_and_its_row_the_rate(first, second):
    model = pair(first, second)
    ref, m, system = wt.reference(model), Mechanism.of(model), wt.contact_set(model)
    assert not system.closed_form
    rng = np.random.default_rng(3)
    compared = 0
    while compared < 3:
        q = ref.integrate(model.neutral.q, rng.normal(size=12))
        v = rng.normal(size=12)
        if distance(model, q) <= 0.05:
            continue
        compared += 1
        gap, _, axes = evaluated(model, q)
        assert len(gap) == len(system.candidates)
        assert gap.min() == pytest.approx(distance(model, q), rel=1e-4, abs=1e-5)
        h = 1e-4
        ahead, behind = (distance(model, ref.integrate(q, s * h * v)) for s in (1, -1))
        rate = system.jacobian(m, q.astype(object)).astype(float)[3 * int(np.argmin(gap))] @ v
        assert rate == pytest.approx((ahead - behind) / (2 * h), rel=2e-2, abs=2e-2)
        assert axes @ axes.transpose(0, 2, 1) == pytest.approx(np.broadcast_to(np.eye(3), axes.shape), abs=1e-12)


def test_a_box_rests_on_a_box_with_four_corners_that_have_gaps_of_their_own():
    model = pair("box", "box", a={"size": (0.2, 0.2, 0.2)}, b={"size": (1, 1, 0.2)})
    q = model.neutral.q
    tilt = 1e-3
    q[2], q[3:7] = 0.2 + 0.1 * tilt, (np.cos(tilt / 2), np.sin(tilt / 2), 0, 0)
    gap, _, axes = evaluated(model, q)
    used = gap < 0.1  # the others are the corners on its far side
    assert used.sum() == 4
    assert len(gap) == 8 + 8 + 8 + 1
    assert axes[used][:, 0] == pytest.approx(np.tile([0, 0, 1], (4, 1)), abs=1e-12)
    corners = np.array([[x, y, -0.1] for x in (-0.1, 0.1) for y in (-0.1, 0.1)])
    R = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    expected = (corners @ R.T + q[:3])[:, 2] - 0.1
    assert np.sort(gap[used]) == pytest.approx(np.sort(expected), abs=1e-12)


def test_crossed_planks_touch_at_the_corners_of_their_overlap():
    model = pair("box", "box", a={"size": (1, 0.2, 0.1)}, b={"size": (0.2, 1, 0.1)})
    q = model.neutral.q
    q[2] = 0.1
    gap, point, _ = evaluated(model, q)
    used = gap < 0.05
    assert gap[used] == pytest.approx(np.zeros(4), abs=1e-12)
    assert {tuple(np.round(p, 9)) for p in point[used]} == {(x, y, 0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)}


def test_slots_keep_their_points_when_the_overlap_turns():
    """While a plank turns by small steps, the point in a slot never jumps, whatever order the overlap comes in."""
    model = pair("box", "box", a={"size": (1, 0.4, 0.1)}, b={"size": (0.3, 1, 0.1)})
    ref, m = wt.reference(model), Mechanism.of(model)
    tracker = Tracker(wt.contact_set(model))
    q = model.neutral.q
    q[2] = 0.1
    before = None
    for k in range(40):
        turned = ref.integrate(q, np.array([0, 0, 0.015 * k, *[0.0] * 9]))
        points = tracker.points(m, turned.astype(object))
        R = ref.pose("a")(turned)[:3, :3]
        local = (points.point.astype(float) - turned[:3]) @ R
        used = points.gap.astype(float) < 0.05
        if before is not None:
            both = used & before[1]
            assert np.abs(local - before[0])[both].max() < 0.02
        before = (local, used)
        assert used.sum() == 4


def test_a_standing_cylinder_and_a_lying_capsule_are_carried_by_a_box():
    model = pair("cylinder", "box", b={"size": (2, 2, 0.2)})
    q = model.neutral.q
    q[2] = 0.4
    gap, _, _ = evaluated(model, q)
    J = wt.contact_set(model).jacobian(Mechanism.of(model), q.astype(object)).astype(float)
    assert np.linalg.matrix_rank(J[::3][gap < 1e-9]) == 3
    model = pair("capsule", "box", b={"size": (2, 2, 0.2)})
    q[2], q[3:7] = 0.25, (np.sqrt(0.5), np.sqrt(0.5), 0, 0)
    gap, _, _ = evaluated(model, q)
    J = wt.contact_set(model).jacobian(Mechanism.of(model), q.astype(object)).astype(float)
    assert np.linalg.matrix_rank(J[::3][gap < 1e-9]) == 2


def test_faces_of_boxes_and_hulls():
    faces = faces_of(Box((0.5, 1.0, 1.5)))
    assert len(faces) == 6
    assert all(len(face.corners) == 4 for face in faces)
    for face in faces:
        a, b, c = face.corners[:3]
        assert np.cross(b - a, c - b) @ face.normal > 0  # counter-clockwise from outside
    prism = Hull(np.array([(np.cos(k), np.sin(k), z) for k in np.arange(6) * np.pi / 3 for z in (-1, 1)]))
    assert sorted(len(face.corners) for face in faces_of(prism)) == [4] * 6 + [6] * 2


def test_compiled_functions_say_why_they_cannot():
    model = pair("box", "cylinder")
    with pytest.raises(wt.UnsupportedError) as raised:
        wt.reference(model).contact_gaps(model.neutral.q)
    assert str(raised.value) == (
        "contact_gaps: contact 'touch': box against cylinder has no closed form, so it cannot be compiled or evaluated "
        "on symbols; give one of the bodies spheres, capsules or points, or use what takes plain numbers: "
        "simulate, and whippletree.contact.kinematics.large_scenes"
    )


@pytest.mark.parametrize("kind", ["box", "cylinder", "ellipsoid", "mesh"])
def test_shapes_at_one_place_have_an_answer_and_lost_states_have_none(kind):
    """Middles that coincide: some shortest way out; a state that is not a number: gaps that are none."""
    model = pair(kind, kind)
    gap, _, axes = evaluated(model, model.neutral.q)
    assert gap.min() < -0.1
    assert np.all(np.isfinite(axes))
    lost = model.neutral.q
    lost[0] = np.nan
    assert np.all(np.isnan(evaluated(model, lost)[0]))


def test_without_coal_the_error_says_what_to_install(monkeypatch):
    model = pair("box", "cylinder")
    monkeypatch.setitem(sys.modules, "coal", None)
    with pytest.raises(wt.MissingExtraError) as raised:
        wt.contact_set(model).points(Mechanism.of(model), model.neutral.q.astype(object))
    assert str(raised.value) == (
        "contact between these shapes needs the package 'coal': pip install 'whippletree[contact]'"
    )


def test_slots_of_boxes_that_are_not_in_use_are_near_the_boxes() -> None:
    # edges that run beside a face, all but parallel to it, meet its border 1e13 m away
    rng = np.random.default_rng(3)
    box = Box((0.04, 0.04, 0.04))
    for angle in (0.0, 1e-15, 1e-12, 1e-6, 1.0):
        for _ in range(20):
            turn = Rotation.from_rotvec(angle * rng.normal(size=3)).as_matrix()
            place = rng.normal(size=3)
            place *= 0.15 / np.linalg.norm(place)
            touches = box_on_box(box, box, Pose(turn, place), Pose(np.eye(3), np.zeros(3)))
            faces = touches[:-1]
            assert max(float(np.linalg.norm(touch.point.astype(float))) for touch in faces) < 0.5
