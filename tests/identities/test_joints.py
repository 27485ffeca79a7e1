"""Every joint kind, about any axis: poses, subspaces and biases are derivatives of one another, to 45 of 50 digits."""

from fractions import Fraction
from random import Random

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import axis, convert, digits, rational, rationals, rotation, seeds, unit_quaternion
from whippletree.arithmetic.arrays import zeros
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.arithmetic.trace import Trace, evaluate, finish
from whippletree.errors import NameLookupError
from whippletree.model import WORLD
from whippletree.model.builder import Builder
from whippletree.spatial import Pose, cross, join, joints, quaternion_rotation, skew
from whippletree.tree.skeleton import ALIGNED, skeleton

EPS = np.finfo(float).eps
kinds = st.sampled_from(joints.KINDS)
Z = (0, 0, 1)


class Sample:
    """A joint about random axes with a random q, v and displacement d, as numbers of one type."""

    def __init__(self, kind, seed, number):
        rng = Random(seed)
        self.axis, self.second, self.pitch = axis(rng), rotation(rng)[:, 0], rational(rng)
        self.joint = joints.make(kind, convert(self.axis, number), convert(self.second, number), number(self.pitch))
        quaternion = unit_quaternion(rng) if self.joint.nq > self.joint.nv else ()
        flat = rationals(rng, self.joint.nq - len(quaternion))
        self.q = objects(convert([*flat, *quaternion], number))
        self.v, self.d = (objects(convert(x, number)) for x in rationals(rng, 2, self.joint.nv))


def objects(array):
    return array.astype(object)


def dual(values, slopes):
    array = np.empty(len(values), dtype=object)
    array[:] = [Dual(x, dx) for x, dx in zip(values, slopes)]
    return array


def slopes(array):
    found = np.empty(np.shape(array), dtype=object)
    for index in np.ndindex(*found.shape):
        found[index] = array[index].slope if isinstance(array[index], Dual) else 0
    return found


def values(array):
    return np.array([x.value if isinstance(x, Dual) else x for x in array], dtype=object)


def twist(R, p, R_rate, p_rate):
    """The twist of a moving pose in its own axes, from R̂ω = RᵀṘ and v = Rᵀṗ."""
    spin = R.T @ R_rate
    assert small(spin + spin.T)
    return join(np.array([spin[2, 1], spin[0, 2], spin[1, 0]]), R.T @ p_rate)


def small(array, tolerance=None):
    tolerance = mpmath.mpf(10) ** -44 if tolerance is None else tolerance
    return all(abs(x) <= tolerance for x in np.asarray(array).flat)


def rotated(R):
    return Pose(R, zeros(3))


# --- derivatives ------------------------------------------------------------------------------------------------------


@given(kinds, seeds)
def test_the_subspace_is_the_rate_of_the_pose(kind, seed):
    with mpmath.workdps(50):
        s = Sample(kind, seed, digits)
        X, H = s.joint.pose(s.q), s.joint.subspace(s.q)
        assert H.shape == (6, s.joint.nv)
        moving = s.joint.pose(dual(s.q, s.joint.rate(s.q, s.v)))
        assert small(twist(X.R, X.p, slopes(moving.R), slopes(moving.p)) - H @ s.v)


@given(kinds, seeds)
def test_the_bias_is_the_rate_of_the_subspace(kind, seed):
    with mpmath.workdps(50):
        s = Sample(kind, seed, digits)
        H = s.joint.subspace(dual(s.q, s.joint.rate(s.q, s.v)))
        assert small(slopes(H) @ s.v - s.joint.bias(s.q, s.v))


@given(kinds, seeds, st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(5)]))
def test_integrate_follows_a_constant_velocity(kind, seed, time):
    """d/dt X(q ⊕ t d) = H d at every t: at zero (series), on the way, and beyond a full turn."""
    with mpmath.workdps(50):
        s, t = Sample(kind, seed, digits), Dual(digits(time), 1)
        r = s.joint.integrate(s.q, t * s.d)
        X, moving = s.joint.pose(values(r)), s.joint.pose(r)
        assert small(twist(X.R, X.p, slopes(moving.R), slopes(moving.p)) - s.joint.subspace(values(r)) @ s.d)


@given(kinds, seeds)
def test_rational_joints_are_exact(kind, seed):
    s = Sample(kind, seed, Fraction)
    if kind in ("prismatic", "spherical", "free", "weld"):
        X, moving = s.joint.pose(s.q), s.joint.pose(dual(s.q, s.joint.rate(s.q, s.v)))
        assert (np.eye(3, dtype=int) == X.R @ X.R.T).all()
        assert (X.R.T @ slopes(moving.p) == (s.joint.subspace(s.q) @ s.v)[3:]).all()
        assert (X.R.T @ slopes(moving.R) == skew((s.joint.subspace(s.q) @ s.v)[:3])).all()


# --- integrate and difference -----------------------------------------------------------------------------------------


@given(kinds, seeds)
def test_difference_undoes_integrate(kind, seed):
    with mpmath.workdps(50):
        s = Sample(kind, seed, digits)
        d = s.d * (2 / mpmath.sqrt(1 + s.d @ s.d))  # less than half a turn
        assert small(s.joint.difference(s.q, s.joint.integrate(s.q, d)) - d)


@given(kinds, seeds)
def test_integrate_undoes_difference(kind, seed):
    with mpmath.workdps(50):
        s, other = Sample(kind, seed, digits), Sample(kind, seed + 1, digits)
        reached = s.joint.integrate(s.q, s.joint.difference(s.q, other.q))
        X, Y = s.joint.pose(reached), s.joint.pose(other.q)
        assert small(X.R - Y.R)
        assert small(X.p - Y.p)


@given(kinds, seeds)
def test_nothing_moves_without_displacement(kind, seed):
    s = Sample(kind, seed, float)
    stays = s.joint.integrate(s.q, 0 * s.v)
    assert small(stays - s.q, 2 * EPS)
    assert small(s.joint.difference(s.q, s.q), 2 * EPS)
    X = s.joint.pose(np.array(s.joint.neutral, dtype=object))
    assert (X.matrix() == np.eye(4)).all()


@given(st.sampled_from(["spherical", "free"]), seeds, st.sampled_from([1e-200, 1e-9, 2.0**-11, 2.0**-9, 1.0, 1e3, 1e8]))
def test_quaternions_stay_unit(kind, seed, size):
    s = Sample(kind, seed, float)
    q = s.q
    for _ in range(20):
        q = s.joint.integrate(q, size * s.d)
    assert abs(q[-4:] @ q[-4:] - 1) <= 4 * EPS


@given(st.integers(-300, 0), seeds)
def test_small_turns_keep_all_their_digits(exponent, seed):
    """From the neutral pose nothing cancels, so |d| may be as small as a float can be."""
    joint, d = joints.Free(), convert(rationals(Random(seed), 6), float) * 10.0**exponent
    back = joint.difference(np.array(joint.neutral), joint.integrate(np.array(joint.neutral), d))
    assert all(abs(x - y) <= 16 * EPS * abs(d).max() for x, y in zip(back, d))


@pytest.mark.parametrize("side", [-1, 1])
def test_series_and_closed_forms_meet(side):
    """At the switch the neglected terms are largest: 1e-41 of a pose, 1e-34 of the angle."""
    with mpmath.workdps(50):
        joint, neutral = joints.Free(), np.array(joints.Free.neutral, dtype=object)
        size = joints.SMALL_ANGLE * (1 + side * mpmath.mpf(10) ** -20)
        d = np.array([size / 3, -2 * size / 3, 2 * size / 3, 1, 2, 3], dtype=object)
        assert (mpmath.sqrt(d[:3] @ d[:3]) < joints.SMALL_ANGLE) == (side < 0)
        q = joint.integrate(neutral, d)
        X, Y = joint.pose(q), exponential(d)
        assert small(X.R - Y.R, mpmath.mpf(10) ** -41)
        assert small(X.p - Y.p, mpmath.mpf(10) ** -41)
        back = joint.difference(neutral, q)
        assert small(back[:3] - d[:3], mpmath.mpf(10) ** -34 * size)
        assert small(back[3:] - d[3:], mpmath.mpf(10) ** -34)


def exponential(d):
    """exp of the (4, 4) matrix of a twist, by mpmath's own series: the pose that a constant twist reaches."""
    A = mpmath.matrix(4, 4)
    A[:3, :3] = mpmath.matrix(skew(d[:3]).tolist())
    A[:3, 3] = mpmath.matrix(list(d[3:]))
    E = np.array(mpmath.expm(A, method="taylor").tolist(), dtype=object)
    return Pose(E[:3, :3], E[:3, 3])


@given(seeds, st.sampled_from([Fraction(1, 10**6), Fraction(1), Fraction(25)]))
def test_a_constant_twist_is_a_screw(seed, size):
    """X(q ⊕ d) = X(q) exp(d), also after several turns."""
    with mpmath.workdps(50):
        s = Sample("free", seed, digits)
        d = s.d * digits(size)
        X, Y = s.joint.pose(s.joint.integrate(s.q, d)), s.joint.pose(s.q) @ exponential(d)
        # a displacement below the switch is a series, whose own error is 1e-33 of a turn
        assert small(X.R - Y.R, mpmath.mpf(10) ** -33)
        assert small(X.p - Y.p, mpmath.mpf(10) ** -33 * (1 + 100 * digits(size)))


@given(seeds)
def test_the_shorter_way_round(seed):
    joint, rng = joints.Spherical(), Random(seed)
    q, r = (objects(convert(unit_quaternion(rng), float)) for _ in range(2))
    d = joint.difference(q, r)
    assert d @ d <= np.pi**2 * (1 + 4 * EPS)
    assert small(joint.difference(q, -r) - d, 8 * EPS)
    assert small(joint.difference(q, -q), 8 * EPS)


def test_half_a_turn():
    d = joints.Spherical().difference(np.array([1, 0, 0, 0]), np.array([0.0, 0.0, 1.0, 0.0]))
    assert d.tolist() == [0, np.pi, 0]


def test_angles_are_not_wrapped():
    joint = joints.make("revolute", Z, Z, 0)
    assert joint.integrate(np.array([6.0]), np.array([7.0])).tolist() == [13.0]
    assert joint.difference(np.array([6.0]), np.array([-7.0])).tolist() == [-13.0]


# --- what each joint holds fixed --------------------------------------------------------------------------------------


@given(seeds)
def test_axes_stay_where_they_are(seed):
    with mpmath.workdps(50):
        for kind in ("revolute", "helical", "cylindrical", "planar"):
            s = Sample(kind, seed, digits)
            own = convert(s.axis, digits)
            assert small(s.joint.pose(s.q).R @ own - own)
        s = Sample("universal", seed, digits)
        first, second = convert(s.axis, digits), convert(s.second, digits)
        H, R = s.joint.subspace(s.q), s.joint.pose(s.q).R
        assert small(R @ H[:3, 0] - first)  # fixed in the parent
        assert small(H[:3, 1] - second)  # fixed in the child


@given(seeds)
def test_translations_go_where_they_may(seed):
    with mpmath.workdps(50):
        own = convert(Sample("prismatic", seed, digits).axis, digits)
        for kind in ("prismatic", "helical", "cylindrical"):
            assert small(cross(own, (s := Sample(kind, seed, digits)).joint.pose(s.q).p))
        s = Sample("helical", seed, digits)
        assert small(s.joint.pose(s.q).p - digits(s.pitch) * s.q[0] * own)
        s = Sample("planar", seed, digits)
        x, y = joints.plane_directions(own)
        assert small(s.joint.pose(s.q).p @ own)
        assert small(s.joint.pose(s.q).p - s.q[0] * x - s.q[1] * y)


@given(st.sampled_from(ALIGNED), seeds)
def test_a_joint_turned_onto_z_is_the_same_joint(kind, seed):
    """What the skeleton does with every axis: R X_z(q) Rᵀ = X(q) for the R that brings z onto the axis."""
    with mpmath.workdps(50):
        s = Sample(kind, seed, digits)
        R = joints.rotation_to(objects(convert(s.axis, digits)))
        second = R.T @ convert(s.second, digits)
        turned = joints.make(kind, np.array(Z), second, digits(s.pitch))
        X, Y = rotated(R) @ turned.pose(s.q) @ rotated(R.T), s.joint.pose(s.q)
        assert small(X.R - Y.R)
        assert small(X.p - Y.p)
        H = np.stack([rotated(R.T).motion(c) for c in turned.subspace(s.q).T], axis=1)
        assert small(H - s.joint.subspace(s.q))


# --- rotations onto an axis -------------------------------------------------------------------------------------------


@given(seeds)
def test_rotation_to_an_axis_is_exact(seed):
    a = axis(Random(seed))
    R = joints.rotation_to(a)
    assert (R[:, 2] == a).all()
    assert (np.eye(3, dtype=int) == R @ R.T).all()
    assert (cross(R[:, 0], R[:, 1]) == a).all()
    x, y = joints.plane_directions(a)
    assert (cross(x, y) == a).all()


@pytest.mark.parametrize("tilt", [0.0, 1e-300, 1e-12, 1e-8, 1e-4])
def test_rotation_to_an_axis_near_minus_z_is_stable(tilt):
    a = np.array([tilt, 0.0, -np.sqrt(1 - tilt * tilt)], dtype=object)
    R = joints.rotation_to(a).astype(float)
    assert abs(R @ R.T - np.eye(3)).max() <= 4 * EPS
    assert (R[:, 2] == a).all()


def test_joints_about_one_oblique_axis_are_placed_as_those_about_z():
    """Placements compose rotations onto the axis and back: rounding must leave the exact zeros and ones of that."""
    axis = np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
    builder = Builder("parallel axes")
    for k in range(3):
        builder.body(f"link {k}", 1.0).joint(
            f"joint {k}", "revolute", f"link {k - 1}" if k else WORLD, f"link {k}", axis=axis, position=k * axis
        )
    for node in skeleton(builder.build()).nodes[1:]:
        assert node.placement.R.tolist() == np.eye(3).tolist()
        assert node.placement.p[:2].tolist() == [0, 0]


def test_planar_directions_of_coordinate_axes():
    e = np.eye(3, dtype=int)
    for k in range(3):
        x, y = joints.plane_directions(e[k])
        assert (x == e[(k + 1) % 3]).all()
        assert (y == e[(k + 2) % 3]).all()


# --- other scalars ----------------------------------------------------------------------------------------------------


@given(kinds, seeds)
def test_joints_can_be_traced(kind, seed):
    s, other = Sample(kind, seed, float), Sample(kind, seed + 1, float)
    trace = Trace()
    q, v, r = trace.inputs(s.joint.nq), trace.inputs(s.joint.nv), trace.inputs(s.joint.nq)

    def everything(q, v, r):
        X = s.joint.pose(q)
        return [
            *X.R.flat, *X.p, *s.joint.subspace(q).flat, *s.joint.bias(q, v),
            *s.joint.rate(q, v), *s.joint.integrate(q, v), *s.joint.difference(q, r),
        ]  # fmt: skip

    found = evaluate(finish(trace, everything(q, v, r)), [*s.q, *s.v, *other.q])
    assert np.allclose(found, np.array(everything(s.q, s.v, other.q), dtype=float), rtol=1e-13, atol=1e-13)


def test_an_unknown_kind_is_named():
    with pytest.raises(NameLookupError, match=r"no joint kind 'revolut'.*Did you mean 'revolute'"):
        joints.make("revolut", Z, Z, 0)


def test_the_free_joint_has_position_first_and_angular_velocity_first():
    q = np.array([1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0])
    moved = joints.Free().integrate(q, np.array([0, 0, np.pi / 2, 0, 0, 0]))
    assert moved[:3].tolist() == [1, 2, 3]
    assert np.allclose(quaternion_rotation(*moved[3:]).astype(float), [[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    assert np.allclose(joints.Free().integrate(moved, np.array([0, 0, 0, 1.0, 0, 0]))[:3].astype(float), [1, 3, 3])
