"""Bounded convex shapes as solids: one search for the nearest points of all pairs, against the reference and coal."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from benchmarks.narrow_phase import compare_with_reference, form_of, random_poses, shapes, touches_program
from scipy.spatial.transform import Rotation

import whippletree as wt
from whippletree.arithmetic.arrays import vector
from whippletree.arithmetic.iteration import iterate
from whippletree.arithmetic.lanes import Lanes
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.contact.geometry import solid_distance
from whippletree.contact.geometry.closed_forms import corners_on_plane
from whippletree.contact.geometry.rounded_polytopes import Sides, solids_of
from whippletree.contact.geometry.shapes import Ball, Box, Cylinder, Ellipsoid, HalfSpace, Hull
from whippletree.contact.geometry.solid_cells import NO_CELL, nearest_from_cell
from whippletree.contact.geometry.solid_distance import (
    Hint,
    StraightMotion,
    nearest_of_solids,
    separation_as_they_move,
    separation_at_least,
)
from whippletree.contact.geometry.solid_pairs import HullOnPlane, SolidForm
from whippletree.contact.kinematics.contact_set import contact_set_of_steps
from whippletree.spatial import Pose

SHAPES = shapes()
SOLIDS = dict(zip(SHAPES, solids_of(list(SHAPES.values())), strict=True))


@pytest.fixture(scope="module")
def kernel():
    """Of nearest points alone."""
    return compile_function(touches_program(form_of(flat=False), SOLIDS["box"]), threads=1)


@pytest.fixture(scope="module")
def all_candidates():
    return compile_function(touches_program(form_of(flat=True), SOLIDS["box"]), threads=1)


def placed(R, p):
    return Pose(np.array(R, dtype=object), np.array(p, dtype=object))


def in_use(form, first, second, X, Y):
    return [touch for touch in form(first, second, X, Y) if touch.gap < 1e8]


# --- iterations -------------------------------------------------------------------------------------------------------


def halve(state, given):
    _, x, rounds = state
    (limit,) = given
    return [select(less(x / 2, limit), 1, -1), x / 2, rounds + 1]


def test_an_iteration_ends_in_each_lane_by_itself():
    alone = [iterate(halve, [-1, x, 0], [1.0], 50) for x in (8.0, 100.0)]
    together = iterate(halve, [-1, Lanes(np.array([8.0, 100.0])), 0], [1.0], 50)
    for k, found in enumerate(alone):
        assert [part.values[k] for part in together[1:]] == found[1:]
    assert alone[0][2] == 4
    assert iterate(halve, [-1, 100.0, 0], [1.0], 2)[2] == 2


def test_a_round_may_not_use_what_it_was_not_given():
    from whippletree.compiler.program import Buffer
    from whippletree.compiler.program.traced_blocks import looped_block, piece

    def leaks(x):
        return [iterate(lambda state, _: [1, x[0]], [-1, x[1]], [x[1]], 3)[1]]

    with pytest.raises(ValueError, match="not given"):
        looped_block(leaks, [piece(Buffer("x", "input", (2,)))], [piece(Buffer("y", "output", ()))], "it")


# --- nearest points ---------------------------------------------------------------------------------------------------


def test_compiled_nearest_points_are_those_of_the_reference(kernel):
    pytest.importorskip("coal")
    rng = np.random.default_rng(5)
    off, turned = [], []
    for a, b in combinations_with_replacement(SHAPES, 2):
        pair = (SOLIDS[a], SOLIDS[b])
        found = compare_with_reference(kernel, pair, random_poses(*pair, 6, rng, kernel))
        # in the reference a face takes the place of an edge up to 1e-8 m from it
        assert np.abs(found.off[found.apart]).max(initial=0) < 1.1e-8, (a, b)
        # an overlap has several ways out, and some are twice as long as others
        inside = ~found.apart
        assert np.all(-found.off[inside] <= 2 * np.abs(found.right[inside]) + 1e-9), (a, b)
        off += found.off[found.apart].tolist()
        turned += found.turned[found.apart].tolist()
    assert len(off) > 100
    assert np.quantile(np.abs(off), 0.98) < 1e-13
    assert np.quantile(turned, 0.98) < 1e-7


def test_compiled_candidates_are_those_of_plain_numbers(kernel, all_candidates):
    rng = np.random.default_rng(6)
    for a, b in (("cylinder", "plate"), ("capsule", "mesh of 300"), ("mesh of 300", "box"), ("disc", "cylinder")):
        pair = (SOLIDS[a], SOLIDS[b])
        form = SolidForm(*pair)
        for X, Y in random_poses(*pair, 4, rng, kernel):
            x, y = (np.array([*pose.R.flat, *pose.p], dtype=float) for pose in (X, Y))
            rows = all_candidates(*[np.array(n, dtype=float) for n in (pair[0].numbers, x, pair[1].numbers, y)])
            plain = np.array([[t.gap, *t.point, *t.axes.flat] for t in form(*pair, X, Y)], dtype=float)
            used = plain[:, 0] < 1e8
            assert (used == (rows[:, 0] < 1e8)).all()
            np.testing.assert_allclose(rows[used], plain[used], rtol=0, atol=2e-7)


def test_large_hulls_on_a_plane_are_those_of_the_closed_form():
    hull, solid = SHAPES["mesh of 300"], SOLIDS["mesh of 300"]
    rng = np.random.default_rng(7)
    for X, _ in random_poses(solid, solid, 5, rng):
        P = placed(np.eye(3), [0.1, 0.2, -0.3])
        found, right = HullOnPlane()(solid, HalfSpace(), X, P), corners_on_plane(hull, HalfSpace(), X, P)
        assert [float(t.gap) for t in found] == [float(t.gap) for t in right]
        np.testing.assert_array_equal([t.point for t in found], [t.point for t in right])


def test_the_point_on_a_cap_is_where_the_other_shape_is():
    cylinder, disc = SOLIDS["cylinder"], SOLIDS["disc"]
    tilt = np.array([[np.cos(0.4), 0, np.sin(0.4)], [0, 1, 0], [-np.sin(0.4), 0, np.cos(0.4)]])
    lowest = tilt @ [0.2, 0, -0.02]
    X, Y = placed(np.eye(3), [0, 0, 0]), placed(tilt, np.array([0.03, 0.02, 0.151]) - lowest)
    form = SolidForm(cylinder, disc)
    every = form(cylinder, disc, X, Y), form(disc, cylinder, Y, X)
    touch, reverse = (min(touches, key=lambda touch: float(touch.gap)) for touches in every)
    assert [float(touch.gap), float(reverse.gap)] == pytest.approx([1e-3, 1e-3], abs=1e-15)
    np.testing.assert_allclose(touch.point.astype(float), [0.03, 0.02, 0.15], atol=1e-12)
    np.testing.assert_allclose(reverse.point.astype(float), [0.03, 0.02, 0.151], atol=1e-12)


# --- what is known from a moment ago ----------------------------------------------------------------------------------


def turned_slightly(n, rng):
    n = n + 0.02 * rng.normal(size=3)
    return n / np.linalg.norm(n)


def test_a_hint_changes_no_answer(kernel):
    rng = np.random.default_rng(9)
    for a, b in combinations_with_replacement(SHAPES, 2):
        pair = (SOLIDS[a], SOLIDS[b])
        for X, Y in random_poses(*pair, 2, rng, kernel):
            plain = nearest_of_solids(*pair, X, Y)
            hint = Hint(vector(*turned_slightly(plain.normal.astype(float), rng)), 1e9)
            hinted = nearest_of_solids(*pair, X, Y, hint)
            if plain.gap - pair[0].margin - pair[1].margin > 1e-7:  # an overlap has several ways out
                assert abs(hinted.gap - plain.gap) < 1e-13, (a, b)
            else:
                # a disc's rim on a mesh is not quite there after the last round, from a hint that is off by 2°
                assert hinted.gap > plain.gap - 3e-9, (a, b)


@pytest.mark.parametrize(
    ("a", "b"), [("cylinder", "disc"), ("cylinder", "cylinder"), ("cylinder", "ellipsoid"), ("ellipsoid", "ellipsoid")]
)
def test_round_solids_that_have_turned_a_little_are_hardly_searched_again(kernel, monkeypatch, a, b):
    """As a rule a few of Newton's steps lead from the normal of a moment ago to that of now, and two points show it."""
    rng, pair = np.random.default_rng(11), (SOLIDS[a], SOLIDS[b])
    poses = random_poses(*pair, 25, rng, kernel)
    plain = [nearest_of_solids(*pair, X, Y) for X, Y in poses]
    searches, search = [], solid_distance._nearest_corners
    monkeypatch.setattr(solid_distance, "_nearest_corners", lambda *given: searches.append(1) or search(*given))
    found = 0
    for (X, Y), right in zip(poses, plain, strict=True):
        searches.clear()
        askew = right.normal.astype(float) + 0.004 * rng.normal(size=3)
        again = nearest_of_solids(*pair, X, Y, Hint(vector(*(askew / np.linalg.norm(askew))), 1e9))
        if not searches and right.gap > -1e-4:
            found += 1
            assert again.gap == pytest.approx(right.gap, abs=1e-13)
            np.testing.assert_allclose(again.normal.astype(float), right.normal.astype(float), atol=1e-6)
    assert found > 10


def test_a_normal_that_ends_beside_both_solids_is_not_taken():
    """A cylinder whose cap looks past the other one: the hint leads to a normal along which no two points lie."""
    cylinder = SOLIDS["cylinder"]
    X, Y = placed(np.eye(3), [0.4, 0, 0.35]), placed(np.eye(3), [0, 0, 0])
    found = nearest_of_solids(cylinder, cylinder, X, Y, Hint(vector(0, 0, 1), 1e9))
    assert found.gap == pytest.approx(np.hypot(0.2, 0.05), abs=1e-15)


def test_a_hint_is_enough_for_solids_that_are_out_of_reach():
    cylinder, box = SOLIDS["cylinder"], SOLIDS["box"]
    X, Y = placed(np.eye(3), [0.5, 0.1, 0]), placed(np.eye(3), [0, 0, 0])
    right = nearest_of_solids(cylinder, box, X, Y)
    askew = np.array([0.8, 0.6, 0])
    bound = nearest_of_solids(cylinder, box, X, Y, Hint(vector(*askew), 0.1))
    assert 0.1 < bound.gap < right.gap
    np.testing.assert_array_equal(bound.normal, askew)
    # the planes across the normal touch both solids: 0.5 * 0.8 + 0.1 * 0.6 - 0.1, and 0.05 * 0.8 + 0.075 * 0.6
    assert bound.gap == pytest.approx(0.36 - 0.1 * 0.8 - 0.15 * 0.6)
    closer = nearest_of_solids(cylinder, box, X, Y, Hint(vector(*askew), 0.3))
    assert closer.gap == pytest.approx(right.gap, abs=1e-15)


def test_answers_depend_on_the_pose_and_not_on_the_cell_that_is_known():
    rng = np.random.default_rng(12)
    stays = 0
    for a, b in combinations_with_replacement(SHAPES, 2):
        pair = (SOLIDS[a], SOLIDS[b])
        cell = NO_CELL
        turn, place = Rotation.random(rng=rng).as_matrix(), np.array([0.1, 0.05, 0])
        for length in (0, 1e-3, 0.1, 1e-3):
            place = place + length * rng.normal(size=3)
            X, Y = placed(turn, place), placed(np.eye(3), [0.3, 0, 0.1])
            afresh, _ = nearest_from_cell(*pair, X, Y, NO_CELL)
            found, after = nearest_from_cell(*pair, X, Y, cell)
            assert found.gap == afresh.gap
            np.testing.assert_array_equal(np.concatenate(found[1:3]), np.concatenate(afresh[1:3]))
            stays += bool(np.all(after.place == cell.place))
            cell = after
            right = nearest_of_solids(*pair, X, Y)
            if right.gap > 1e-7:
                assert abs(found.gap - right.gap) < 1e-13, (a, b)
            else:  # an overlap has several ways out, of which each search finds one
                assert found.gap == pytest.approx(found.normal @ _between_supports(pair, X, Y, found.normal), abs=1e-12)
    assert stays > 40


@pytest.mark.parametrize("thickness", [4e-3, 1e-3, 2e-4])
def test_thin_plates_lie_on_the_side_where_they_are_not_where_the_middle_of_their_cell_has_them(thickness):
    """Cells are 9 mm wide here: in the middle of theirs, the plates lie the other way round, or pass each other."""
    rng, half = np.random.default_rng(14), thickness / 2
    for shapes_of_both in ((Cylinder(0.08, half), Cylinder(0.1, half)), (Box((0.1, 0.08, half)), Cylinder(0.1, half))):
        pair = solids_of(list(shapes_of_both))
        for gap in thickness * rng.uniform(-0.2, 0.3, size=20):
            turn = Rotation.from_rotvec([0, 0, rng.uniform(0, 6)]).as_matrix()
            X, Y = placed(turn, [*rng.uniform(-0.1, 0.1, size=2), thickness + gap]), placed(np.eye(3), [0, 0, 0])
            found, _ = nearest_from_cell(*pair, X, Y, NO_CELL)
            assert found.gap == pytest.approx(gap, abs=1e-12)
            np.testing.assert_allclose(found.normal.astype(float), [0, 0, 1], atol=1e-9)


def test_a_small_solid_far_from_the_origin_of_a_large_one_is_found_where_it_is():
    """Cells end 32 sizes of the smaller solid from the larger one's origin: theirs lies inside the mesh, or beyond."""
    rng, middle = np.random.default_rng(15), np.array([0.1, 0, 0])
    pair = solids_of([Ball(1e-3), Hull(SOLIDS["mesh of 300"].shape.vertices + middle)])
    apart = 0
    for _ in range(20):
        X, Y = placed(np.eye(3), middle + 0.15 * rng.normal(size=3)), placed(np.eye(3), [0, 0, 0])
        right, found = nearest_of_solids(*pair, X, Y), nearest_from_cell(*pair, X, Y, NO_CELL)[0]
        if right.gap > 0:
            apart += 1
            assert found.gap == pytest.approx(right.gap, abs=1e-13)
    assert apart > 5


def _between_supports(pair, X, Y, n):
    """From the point of the second solid that is farthest along n to that of the first one that is least far."""
    sides = Sides(pair, (X.R, Y.R), X.p - Y.p)
    (a, b), (p, q) = sides.corners(n), sides.roundings(n)
    return a + p - b - q


def test_how_far_solids_are_apart_after_they_have_moved():
    rng = np.random.default_rng(13)
    pair = SOLIDS["mesh of 300"], SOLIDS["capsule"]
    for _ in range(20):
        X, Y = (placed(Rotation.random(rng=rng).as_matrix(), rng.normal(size=3)) for _ in range(2))
        n = turned_slightly(np.array([1.0, 0, 0]), rng)
        motions = [StraightMotion(rng.normal(size=3), rng.normal(size=6), 0.1) for _ in range(2)]
        found = separation_as_they_move(*pair, X, Y, n, motions)
        reaches = []
        for solid, pose, motion, side in zip(pair, (X, Y), motions, (-1, 1)):
            first = int(solid.first)
            corners = solid.tables.corners.array.reshape(-1, 3)[first : first + int(solid.count)]
            ways = [side * n + 0.1 * np.cross(side * n, motion.twist[:3])]
            points = (pose.R @ corners.T).T + pose.p + float(solid.margin) * ways[0] / np.linalg.norm(ways[0])
            moved = points + 0.1 * (motion.twist[3:] + np.cross(motion.twist[:3], points - motion.origin))
            reaches.append((moved @ n).astype(float))
        assert found == pytest.approx(reaches[0].min() - reaches[1].max(), abs=1e-12)
    assert separation_as_they_move(*pair, X, Y, np.zeros(3), motions) < -1e8


def test_no_cheap_bound_is_longer_than_the_distance(kernel):
    rng = np.random.default_rng(10)
    tight = []
    for a, b in combinations_with_replacement(SHAPES, 2):
        pair = (SOLIDS[a], SOLIDS[b])
        for X, Y in random_poses(*pair, 1, rng, kernel):
            near = nearest_of_solids(*pair, X, Y)
            gap = near.gap - pair[0].margin - pair[1].margin
            if gap < 1e-7:  # of an overlap, one of several ways out is known
                continue
            known = [vector(0, 0, 0), near.normal, vector(*turned_slightly(near.normal.astype(float), rng))]
            stale = rng.normal(size=3)
            bounds = [float(separation_at_least(*pair, X, Y, n)) for n in (*known, stale / np.linalg.norm(stale))]
            assert max(bounds) <= gap + 1e-12, (a, b)
            assert bounds[1] >= gap - 1e-12, (a, b)
            tight.append(bounds[0] > gap / 2)
    # boxes around them tell a good part of the distance, more often than not
    assert np.mean(tight) > 0.2


# --- flats that meet --------------------------------------------------------------------------------------------------


def test_a_cylinder_stands_on_a_ring_and_lies_on_its_ends():
    cylinder, plate = SOLIDS["cylinder"], SOLIDS["plate"]
    form, Y = SolidForm(cylinder, plate), placed(np.eye(3), [0, 0, 0])
    stands = in_use(form, cylinder, plate, placed(np.eye(3), [0.1, 0, 0.17]), Y)
    assert len(stands) == 8
    np.testing.assert_allclose([t.gap for t in stands], 0, atol=1e-15)
    np.testing.assert_allclose([np.hypot(t.point[0] - 0.1, t.point[1]) for t in stands], 0.1, rtol=1e-12)
    lies = in_use(form, cylinder, plate, placed([[1, 0, 0], [0, 0, -1], [0, 1, 0]], [0.1, 0, 0.12]), Y)
    assert sorted(float(t.point[1]) for t in lies) == pytest.approx([-0.15, 0.15])
    over_the_edge = in_use(form, cylinder, plate, placed(np.eye(3), [0.45, 0, 0.17]), Y)
    assert max(float(t.point[0]) for t in over_the_edge) == pytest.approx(0.5, abs=1e-8)


def test_cylinders_side_by_side_touch_along_what_they_share():
    cylinder = SOLIDS["cylinder"]
    form = SolidForm(cylinder, cylinder)
    X, Y = placed(np.eye(3), [0.2, 0, 0.05]), placed(np.eye(3), [0, 0, 0])
    assert sorted(float(t.point[2]) for t in in_use(form, cylinder, cylinder, X, Y)) == pytest.approx([-0.1, 0.15])
    turn = np.array([[1, 0, 0], [0, np.cos(0.3), -np.sin(0.3)], [0, np.sin(0.3), np.cos(0.3)]])
    (crossed,) = in_use(form, cylinder, cylinder, placed(turn, [0.2, 0, 0]), Y)
    # the place along an edge is that of the rounds, which end for round solids at a share of 1e-10 of the distance
    np.testing.assert_allclose(crossed.point.astype(float), [0.1, 0, 0], atol=1e-7)


def test_no_candidate_is_deeper_than_the_nearest_points(kernel):
    rng = np.random.default_rng(8)
    nearest = form_of(flat=False)
    for a, b in (("plate", "mesh of 4"), ("disc", "box"), ("mesh of 300", "mesh of 300")):
        pair = (SOLIDS[a], SOLIDS[b])
        for X, Y in random_poses(*pair, 3, rng, kernel):
            gap = float(nearest(*pair, X, Y)[0].gap)
            deepest = min(float(t.gap) for t in SolidForm(*pair)(*pair, X, Y))
            assert gap <= deepest <= gap + 1.1e-9


# --- steps ------------------------------------------------------------------------------------------------------------


def on_a_table(kind, **parameters):
    b = wt.Builder("on a table").geometry("table", "world", "box", size=(1, 1, 0.1), position=(0, 0, -0.05))
    b.body("thing", 1.0, inertia=(0.01, 0.01, 0.01))
    b.joint("free", "free", "world", "thing", start=(0, 0, 0.12, 1, 0.1, 0.05, 0))
    return b.geometry("shape", "thing", kind, **parameters).contact("c", "shape", "table", friction=0.5).build()


@pytest.mark.slow
def test_a_cylinder_falls_on_a_table_and_comes_to_rest_in_a_compiled_step():
    model = on_a_table("cylinder", radius=0.1, length=0.2)
    run = wt.simulate(model, duration=1.0, output_dt=0.5, method="time_stepping", step=2e-3)
    assert run.attrs["path"] == "compiled"
    assert contact_set_of_steps(model).pairs[0].slots == 9
    assert abs(run["q"].values[-1, 2] - 0.1) < 1e-7
    assert np.abs(run["v"].values[-1]).max() < 1e-5
    force = run["contact_force"].values[-1, :, 0].sum()
    assert force == pytest.approx(9.81, rel=1e-3)


def test_all_shapes_have_a_form_for_steps():
    b = (
        wt.Builder("all")
        .body("a", 1.0, inertia=(1, 1, 1))
        .joint("a", "free", "world", "a", start=(2, 0, 0, 1, 0, 0, 0))
    )
    kinds = {
        "sphere": {"radius": 0.1},
        "capsule": {"radius": 0.1, "length": 0.2},
        "cylinder": {"radius": 0.1, "length": 0.2},
        "box": {"size": (0.1, 0.2, 0.3)},
        "ellipsoid": {"radii": (0.1, 0.2, 0.3)},
        "mesh": {"vertices": np.asarray(SHAPES["mesh of 4"].vertices)},
    }
    for kind, parameters in kinds.items():
        b.geometry(f"my {kind}", "a", kind, **parameters).geometry(f"{kind} there", "world", kind, **parameters)
    for one in kinds:
        for other in kinds:
            b.contact(f"{one} on {other}", f"my {one}", f"{other} there")
    assert contact_set_of_steps(b.build()).closed_form


def test_solids_of_round_shapes():
    round_, flat = solids_of([Ellipsoid((1, 2, 3)), Cylinder(0.5, 2)])
    assert (round_.count, round_.flat, flat.count, flat.flat) == (1, 0, 2, 1)
    np.testing.assert_array_equal(flat.half, [0.5, 0.5, 2])
