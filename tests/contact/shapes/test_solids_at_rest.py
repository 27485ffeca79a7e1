"""Solids that hardly move are compared where their pose is rounded to, and what is found there is carried along."""

from itertools import combinations_with_replacement

import mpmath
import numpy as np
import pytest
from benchmarks.narrow_phase import shapes
from scipy.spatial.transform import Rotation

from whippletree.contact.geometry.rounded_polytopes import solids_of
from whippletree.contact.geometry.shapes import Box, Cylinder, HalfSpace
from whippletree.contact.geometry.solid_cells import NO_CELL
from whippletree.contact.geometry.solid_distance import nearest_of_solids
from whippletree.contact.geometry.solid_pairs import SolidForm, form_of_solids
from whippletree.contact.geometry.solid_rest import (
    CELLS_OF_ONE_AT_REST,
    carried_along,
    has_moved,
    pose_at_rest,
    rest_of,
)
from whippletree.spatial import Pose

SHAPES = shapes()
SOLIDS = dict(zip(SHAPES, solids_of(list(SHAPES.values())), strict=True))
ORIGIN = Pose(np.eye(3), np.zeros(3))


def pose(rng, place):
    return Pose(Rotation.random(rng=rng).as_matrix(), np.array(place, dtype=float))


def touches_by_rest(pair, X, Y):
    """As kernels find them."""
    rest = rest_of(X, Y)
    found, _ = SolidForm(*pair).from_cell(*pair, pose_at_rest(rest), ORIGIN, NO_CELL)
    return carried_along(found, rest, X, Y)


def test_gaps_that_are_carried_along_are_those_of_the_place():
    """A search at the place itself is the oracle: but for features at which the two places differ, to rounding."""
    rng, exact, count = np.random.default_rng(5), 0, 0
    for a, b in combinations_with_replacement(SHAPES, 2):
        pair = (SOLIDS[a], SOLIDS[b])
        for _ in range(6):
            X, Y = pose(rng, [0.5, 0.2, 0.1] + 0.1 * rng.normal(size=3)), pose(rng, [0.1, 0, -0.2])
            right = nearest_of_solids(*pair, X, Y).gap - pair[0].margin - pair[1].margin
            if right < 1e-3:
                continue
            error = abs(min(touch.gap for touch in touches_by_rest(pair, X, Y)) - right)
            count += 1
            exact += error < 1e-12
            assert error < 4 / CELLS_OF_ONE_AT_REST
    assert count > 100
    assert exact > 0.9 * count


@pytest.mark.parametrize("tilt", [0.0, 1e-10, 1e-9, 2e-9, 1e-8])
def test_a_cylinder_that_stands_has_the_gaps_of_its_rim(tilt):
    """The lowest point of its rim is r sin + l cos below its middle, wherever the plate is."""
    rng = np.random.default_rng(6)
    cylinder, plate = solids_of([Cylinder(0.1, 0.2), Box((1.0, 1.0, 0.05))])
    for _ in range(10):
        Y = pose(rng, rng.normal(size=3))
        X = Y @ Pose(Rotation.from_rotvec([0, tilt, 0]).as_matrix(), np.array([0.03, -0.02, 0.3001]))
        least = min(touch.gap for touch in touches_by_rest((cylinder, plate), X, Y))
        assert least == pytest.approx(0.3001 - 0.05 - 0.1 * np.sin(tilt) - 0.2 * np.cos(tilt), abs=1e-9)


@pytest.mark.parametrize("below", [True, False])
def test_a_hull_on_a_plane_has_the_gap_of_its_lowest_corner(below):
    """n · (corner − p) of the lowest one; seen from the plane as well."""
    rng, hull = np.random.default_rng(9), SOLIDS["mesh of 300"]
    corners = hull.shape.vertices
    for _ in range(20):
        X, P = pose(rng, rng.normal(size=3)), pose(rng, rng.normal(size=3))
        pair, places = ((hull, HalfSpace()), (X, P)) if below else ((HalfSpace(), hull), (P, X))
        rest = rest_of(*places)
        found = form_of_solids(*pair)(*pair, pose_at_rest(rest), ORIGIN)
        carried = carried_along(found, rest, *places)
        lowest = ((corners @ X.R.T + X.p - P.p) @ P.R[:, 2]).min()
        assert min(float(touch.gap) for touch in carried) == pytest.approx(lowest, abs=1e-12)


def test_candidates_turn_and_move_with_their_solids():
    """Seen from the second solid they are the same wherever it is: slots, gaps, points and axes."""
    rng = np.random.default_rng(7)
    for a, b in (("mesh of 4", "box"), ("mesh of 300", "cylinder"), ("cylinder", "mesh of 4")):
        pair = (SOLIDS[a], SOLIDS[b])
        for _ in range(5):
            X, moved = pose(rng, 0.15 * rng.normal(size=3)), pose(rng, rng.normal(size=3))
            here, there = SolidForm(*pair)(*pair, X, ORIGIN), SolidForm(*pair)(*pair, moved @ X, moved)
            for one, other in zip(here, there, strict=True):
                assert float(one.gap) == pytest.approx(float(other.gap), abs=1e-9)
                if one.gap < 1e8:
                    point, axes = moved.point(one.point), one.axes @ moved.R.T
                    np.testing.assert_allclose(other.point.astype(float), point.astype(float), atol=1e-6)
                    np.testing.assert_allclose(other.axes.astype(float), axes.astype(float), atol=1e-6)


def test_a_rest_is_that_of_all_poses_around_it_and_of_no_other():
    rng = np.random.default_rng(8)
    X, Y = pose(rng, [0.3, 0.1, 0.2]), pose(rng, [1.0, -2.0, 0.5])
    rest = rest_of(X, Y)
    middle = Pose(Y.R @ rest[:9].astype(float).reshape(3, 3), Y.p + Y.R @ rest[9:].astype(float))
    cell = 1 / CELLS_OF_ONE_AT_REST
    for length, moves in ((0.1 * cell, -1), (2 * cell, 1)):
        near = Pose(middle.R, middle.p + length * Y.R[:, 1])
        assert has_moved(rest_of(near, Y), rest) == moves
    assert np.abs(rest[9:] - Y.R.T @ (X.p - Y.p)).max() <= cell / 2 + 1e-15
    nowhere = Pose(X.R, X.p * np.nan)
    assert has_moved(rest_of(nowhere, Y), rest_of(nowhere, Y)) == 1


def test_scalars_of_more_digits_rest_where_they_are():
    with mpmath.workdps(40):
        third = mpmath.mpf(1) / 3
        R = np.array([[3 * third, 0, 0], [0, third, -mpmath.sqrt(8) / 3], [0, mpmath.sqrt(8) / 3, third]], dtype=object)
        exact = Pose(R, np.array([third, -third, third], dtype=object))
        rest = rest_of(exact, Pose(np.eye(3, dtype=int).astype(object), np.zeros(3, dtype=int).astype(object)))
        assert max(abs(x - y) for x, y in zip(rest, (*R.ravel(), *exact.p), strict=True)) < 1e-30
