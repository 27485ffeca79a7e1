"""Spatial algebra: the group of poses, duality of twists and wrenches, inertias. All exact, on Fractions."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from strategies import body_inertia, rational, rationals, seeds
from whippletree import spatial
from whippletree.arithmetic import arrays, scalars
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.arithmetic.trace import Trace, finish
from whippletree.spatial import Pose, RigidInertia, cross, cross_force, cross_motion, skew

randoms = seeds.map(Random)


def eye(n):
    return np.eye(n, dtype=int)


def same_pose(X, Y):
    return (X.R == Y.R).all() and (X.p == Y.p).all()


def matrix_of(function, n=6):
    """The matrix of a linear function, column by column."""
    return np.stack([function(e) for e in eye(n).astype(object)], axis=1)


# --- vectors ----------------------------------------------------------------------------------------------------------


@given(randoms)
def test_cross_products(rng):
    a, b, c = rationals(rng, 3, 3)
    assert (cross(a, b) == -cross(b, a)).all()
    assert (cross(a, b) == skew(a) @ b).all()
    assert (-skew(a) == skew(a).T).all()
    assert (cross(a, cross(b, c)) == b * (a @ c) - c * (a @ b)).all()
    assert (cross(*eye(3)[:2]) == eye(3)[2]).all()


@given(randoms)
def test_spatial_cross_products_are_dual(rng):
    """(V × U) · f = −U · (V ×* f): the power of a wrench does not depend on who looks."""
    V, U, f = rationals(rng, 3, 6)
    assert cross_motion(V, U) @ f == -(U @ cross_force(V, f))


@given(randoms)
def test_the_motion_cross_product_is_a_lie_bracket(rng):
    U, V, W = rationals(rng, 3, 6)
    assert (cross_motion(U, V) == -cross_motion(V, U)).all()
    jacobi = cross_motion(U, cross_motion(V, W)) + cross_motion(V, cross_motion(W, U))
    assert (jacobi == -cross_motion(W, cross_motion(U, V))).all()


# --- poses ------------------------------------------------------------------------------------------------------------


@given(randoms)
def test_poses_form_a_group(rng):
    X, Y, Z = (strategies.pose(rng) for _ in range(3))
    assert same_pose((X @ Y) @ Z, X @ (Y @ Z))
    assert same_pose(X @ Pose.identity(), X)
    assert same_pose(Pose.identity() @ X, X)
    assert same_pose(X @ X.inverse(), Pose.identity())
    assert same_pose(X.inverse() @ X, Pose.identity())


@given(randoms)
def test_matrices_represent_poses(rng):
    X, Y, p = strategies.pose(rng), strategies.pose(rng), rationals(rng, 3)
    assert same_pose(Pose.from_matrix(X.matrix()), X)
    assert ((X @ Y).matrix() == X.matrix() @ Y.matrix()).all()
    assert (X.point(p) == (X.matrix() @ [*p, 1])[:3]).all()
    assert ((X @ Y).point(p) == X.point(Y.point(p))).all()
    assert (X.inverse().point(X.point(p)) == p).all()


def test_a_pose_without_noise_has_exact_zeros_and_ones():
    turned = [[1 - 1e-16, 0.0, 1e-19], [0.0, -1.0, 3e-16], [-1e-19, 5e-16, -1 + 2e-16]]
    cleaned = Pose(np.array(turned, dtype=object), arrays.vector(0.3, 1e-17, -2e-16)).without_noise()
    assert cleaned.R.tolist() == [[1, 0, 0], [0, -1, 0], [0, 5e-16, -1]]  # what is more than noise stays
    assert cleaned.p.tolist() == [0.3, 0, -2e-16]
    exact = Pose(arrays.identity(3) + Fraction(1, 10**20), arrays.vector(1, Fraction(1, 10**20), 0))
    assert same_pose(exact.without_noise(), exact)  # no other scalar is rounded


def test_a_pose_of_floats_holds_python_floats():
    X = Pose.from_matrix(np.eye(4))
    assert {type(x) for x in (*X.R.flat, *X.p)} == {float}


@given(randoms)
def test_weights_are_dense_matrices(rng):
    X, P = strategies.pose(rng), strategies.positive_definite(rng, 6)
    phi = X.weight()
    assert (matrix_of(X.force) == phi).all()
    assert (matrix_of(X.motion) == phi.T).all()
    assert (phi.T @ matrix_of(X.motion_back) == eye(6)).all()
    assert (X.inertia(P) == phi @ P @ phi.T).all()


@given(randoms)
def test_weights_without_a_shift_take_the_short_way_to_the_same_place(rng):
    X, P = Pose(strategies.rotation(rng), arrays.zeros(3)), strategies.positive_definite(rng, 6)
    assert (X.inertia(P) == X.weight() @ P @ X.weight().T).all()


@given(randoms)
def test_motion_and_force_are_adjoint(rng):
    """(φ* V) · f = V · (φ f): power is the same on both sides of an edge."""
    X, V, f = strategies.pose(rng), *rationals(rng, 2, 6)
    assert X.motion(V) @ f == V @ X.force(f)


@given(randoms)
def test_weights_follow_the_group(rng):
    X, Y, V, f = strategies.pose(rng), strategies.pose(rng), *rationals(rng, 2, 6)
    assert ((X @ Y).force(f) == X.force(Y.force(f))).all()
    assert ((X @ Y).motion(V) == Y.motion(X.motion(V))).all()
    assert (X.motion_back(X.motion(V)) == V).all()
    assert (X.inverse().motion(V) == X.motion_back(V)).all()


@given(randoms)
def test_cross_products_move_with_the_frame(rng):
    X, V, U, f = strategies.pose(rng), *rationals(rng, 3, 6)
    assert (X.motion(cross_motion(V, U)) == cross_motion(X.motion(V), X.motion(U))).all()
    assert (X.force(cross_force(X.motion(V), f)) == cross_force(V, X.force(f))).all()


@given(randoms)
def test_the_cross_product_is_the_rate_of_a_moving_frame(rng):
    """A wrench fixed in B, seen from A, while B moves with twist V (in B): d/dt φ f = φ (V ×* f)."""
    X, V, f = strategies.pose(rng), *rationals(rng, 2, 6)
    R_rate, p_rate = X.R @ skew(V[:3]), X.R @ V[3:]
    moving = Pose(dual(X.R, R_rate), dual(X.p, p_rate))
    assert [x.slope for x in moving.force(f)] == list(X.force(cross_force(V, f)))
    # a twist of A, handed to B, turns the other way: d/dt φ* U = −V × φ* U
    U = rationals(rng, 6)
    assert [x.slope for x in moving.motion(U)] == list(-cross_motion(V, X.motion(U)))


def dual(values, slopes):
    array = np.empty(np.shape(values), dtype=object)
    for index in np.ndindex(*array.shape):
        array[index] = Dual(values[index], slopes[index])
    return array


# --- rotations --------------------------------------------------------------------------------------------------------


def is_rotation(R):
    return (eye(3) == R @ R.T).all() and R[0] @ cross(R[1], R[2]) == 1


@given(randoms)
def test_quaternions_of_any_length_are_rotations(rng):
    q = np.array([Fraction(1), *rationals(rng, 3)])
    scale = rational(rng) or Fraction(1)
    R = spatial.quaternion_rotation(*q)
    assert is_rotation(R)
    assert (spatial.quaternion_rotation(*(q * scale)) == R).all()
    assert (R @ q[1:] == q[1:]).all()


@given(randoms)
def test_quaternion_products_are_products_of_rotations(rng):
    a, b, c = (strategies.unit_quaternion(rng) for _ in range(3))
    product = spatial.quaternion_product
    rotations = [spatial.quaternion_rotation(*x) for x in (a, b, product(a, b))]
    assert (rotations[0] @ rotations[1] == rotations[2]).all()
    assert (product(product(a, b), c) == product(a, product(b, c))).all()
    assert product(a, b) @ product(a, b) == 1


@given(randoms)
def test_rotations_about_axes(rng):
    axis, sine_cosine = strategies.axis(rng), scalars.half_angle(rational(rng))
    R = spatial.rotation_about(axis, *sine_cosine)
    assert is_rotation(R)
    assert (R @ axis == axis).all()
    sine, cosine = sine_cosine
    assert np.trace(R) == 1 + 2 * cosine
    x = cross(axis, rationals(rng, 3))
    assert cross(x, R @ x) @ axis == sine * (x @ x)


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("sign", [1, -1])
def test_the_short_form_about_coordinate_axes_is_the_general_one(row, sign):
    axis = sign * eye(3)[row]
    sine, cosine = scalars.half_angle(Fraction(2, 5))
    general = spatial.rotation_about(axis * Fraction(1), sine, cosine)
    assert (spatial.rotation_about(axis.astype(object), sine, cosine) == general).all()
    floats = spatial.rotation_about(axis.astype(float).astype(object), float(sine), float(cosine))
    assert (floats == general.astype(float)).all()


def test_the_short_form_folds_in_a_trace():
    trace = Trace()
    s, c = trace.inputs(2)
    R = spatial.rotation_about(np.array([0.0, 0.0, 1.0]).astype(object), s, c)
    assert R[0, 0] is R[1, 1] is c
    assert (R[2, 2], R[0, 2], R[2, 1]) == (1, 0, 0)
    assert finish(trace, list(R.flat)).operations == 1  # the one sign


# --- inertias ---------------------------------------------------------------------------------------------------------


def body(rng):
    return RigidInertia.about_center(*body_inertia(rng))


def same_inertia(A, B):
    return A.mass == B.mass and (A.moment == B.moment).all() and (A.rotation == B.rotation).all()


@given(randoms)
def test_the_parallel_axis_theorem(rng):
    mass, center, rotational = body_inertia(rng)
    dense = RigidInertia.about_center(mass, center, rotational).dense()
    shift = Pose(eye(3), center)
    at_center = spatial.inertia_blocks(rotational, arrays.zeros(3, 3), mass * eye(3))
    assert (dense == shift.inertia(at_center)).all()
    assert (dense == dense.T).all()


@given(randoms)
def test_ten_numbers_do_what_the_matrix_does(rng):
    M, X, V = body(rng), strategies.pose(rng), rationals(rng, 6)
    assert (M.dense() @ V == M @ V).all()
    assert (M.transform(X).dense() == X.weight() @ M.dense() @ X.weight().T).all()
    turned = Pose(X.R, arrays.zeros(3))
    assert (M.transform(turned).dense() == turned.inertia(M.dense())).all()


@given(randoms)
def test_inertias_add_and_travel(rng):
    A, B, X, Y = body(rng), body(rng), strategies.pose(rng), strategies.pose(rng)
    assert ((A + B).dense() == A.dense() + B.dense()).all()
    assert same_inertia(A + RigidInertia.nothing(), A)
    assert same_inertia((A + B).transform(X), A.transform(X) + B.transform(X))
    assert same_inertia(A.transform(X @ Y), A.transform(Y).transform(X))


@given(randoms)
def test_kinetic_energy_does_not_depend_on_the_frame(rng):
    M, X, V = body(rng), strategies.pose(rng), rationals(rng, 6)
    own = X.motion(V)
    assert own @ (M @ own) == V @ (M.transform(X) @ V)
    assert own @ (M @ own) >= 0


@given(randoms)
def test_symmetric_helpers(rng):
    R, A = rationals(rng, 4, 3), strategies.positive_definite(rng, 3)
    assert (spatial.congruence(R, A) == R @ A @ R.T).all()
    upper = rationals(rng, 3, 3)
    full = spatial.symmetric(upper)
    assert (full == full.T).all()
    assert (np.triu(full) == np.triu(upper)).all()


@given(st.integers(0, 4))
def test_exact_zeros_and_ones(n):
    assert all(type(x) is int for x in (*arrays.zeros(n, 2).flat, *arrays.identity(n).flat))
