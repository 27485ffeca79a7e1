"""Frames and axes that must agree and are half a turn apart: never met, never NaN, on any scalar."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic.arrays import vector
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.constraints.kinds.constraint_kinds import tilt, turn
from whippletree.spatial import quaternion_rotation, rotation_quaternion, skew

KINDS = ["weld", "hinge", "slider", "cylindrical"]
HALF_TURNS = [(0, 1, 0, 0), (0, 0, 1, 0), (0, 0.6, 0.8, 0), (0, 0.8, -0.6, 0)]
"""Quaternions of half turns about axes across z."""


def floating(kind, **parameters):
    builder = wt.Builder("floating").body("b", 1.0, inertia=(1, 2, 3)).joint("j", "free", "world", "b")
    return builder.constraint("c", kind, "world", "b", **parameters).build()


def still(t):
    return np.eye(4)


@pytest.mark.slow
@pytest.mark.parametrize("quaternion", HALF_TURNS)
@pytest.mark.parametrize("kind", [*KINDS, "prescribed_frame"])
def test_half_a_turn_is_open_and_assembly_turns_the_body_back(kind, quaternion):
    model = floating(kind, **({"motion": still} if kind == "prescribed_frame" else {}))
    clock = (0.0,) if kind == "prescribed_frame" else ()
    q = np.array([0, 0, 0.25 if kind in ("slider", "cylindrical") else 0, *quaternion])
    for functions in (wt.reference(model), wt.compile(model)):
        np.testing.assert_allclose(np.linalg.norm(functions.constraint_residual(q, *clock)), 2, rtol=1e-15)
        assert np.all(np.isfinite(functions.constraint_jacobian(q, *clock)))
        assert np.all(np.isfinite(functions.constraint_bias(q, np.arange(6.0), *clock)))
    found = wt.diagnose(model, q)
    assert any(name.startswith(("c.r", "c.tilt")) for name in found.open)
    assert not {"c.x", "c.y", "c.z"} & {*found.redundant}
    closed = wt.assemble(model, q)
    np.testing.assert_allclose(wt.reference(model).constraint_residual(closed, *clock), 0, atol=1e-11)
    np.testing.assert_allclose(closed[:3], q[:3], atol=1e-11)  # nothing asks it to slide
    if kind in ("weld", "slider", "prescribed_frame"):
        np.testing.assert_allclose(quaternion_rotation(*closed[3:]).astype(float), np.eye(3), atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_half_a_turn_off_is_no_body_that_falls(kind):
    """The rows at the home state are those of the constraint: what it holds does not fall."""
    builder = wt.Builder("flipped").body("b", 1.0, inertia=(1, 2, 3)).joint("j", "free", "world", "b")
    builder.frame("f", "world", rotation=quaternion_rotation(0, 0.6, 0, 0.8).astype(float))
    model = builder.constraint("c", kind, "f", "b").build()
    held = {"weld": 6, "hinge": 5, "slider": 5, "cylindrical": 4}[kind]
    found = wt.diagnose(model)
    assert (found.freedoms, found.redundant, found.fine) == (6 - held, (), True)
    a = wt.reference(model).forward_dynamics(model.home.q, np.zeros(6), np.zeros(6))
    A = wt.reference(model).constraint_jacobian(model.home.q)
    np.testing.assert_allclose(A @ a, 0, atol=1e-12)


def test_frames_that_nothing_can_turn():
    builder = wt.Builder("slide").body("b", 1.0, inertia=(1, 1, 1)).joint("j", "prismatic", "world", "b")
    builder.frame("f", "world", rotation=np.diag([1, -1, -1]))
    model = builder.constraint("c", "hinge", "f", "b").build()
    message = r"'c' \('f' to 'b'\) stays open: tilt_u = 2 rad.* They are half a turn apart and nothing can turn them: "
    with pytest.raises(wt.AssemblyError, match=message + "turn one of the two frames, or free a joint"):
        wt.assemble(model)


@pytest.mark.parametrize("seed", range(20))
def test_quaternions_of_rotations(seed):
    """Every branch of the formula, w ≥ 0, and again the same rotation."""
    random = np.random.default_rng(seed)
    for q in (random.normal(size=4), np.append(0, random.normal(size=3)), np.eye(4)[seed % 4]):
        R = quaternion_rotation(*q)
        back = rotation_quaternion(R).astype(float)
        assert back[0] >= 0
        np.testing.assert_allclose(abs(back @ q), np.linalg.norm(q), rtol=1e-14)


@pytest.mark.parametrize("q", [(3, 4, 0, 12), (0, 2, -1, 2), (1, 0, 0, 0), (0, 0, 0, 1), (-2, 4, 5, 6)])
def test_rational_half_angles_stay_rational(q):
    length = Fraction(int(np.sqrt(sum(x * x for x in q))))
    unit = [Fraction(x) / length for x in q]
    found = turn(quaternion_rotation(*unit))
    sign = -1 if unit[0] < 0 else 1
    assert all(type(x) is Fraction for x in found)
    assert all(abs(x) == abs(2 * sign * y) for x, y in zip(found, unit[1:], strict=True))


def unit_towards(angle, azimuth, functions):
    s = functions.sin(angle)
    return vector(s * functions.cos(azimuth), s * functions.sin(azimuth), functions.cos(angle))


@pytest.mark.parametrize("gap", ["0", "1e-30", "1e-16", "1e-12", "1e-6", "0.5", "1.5707963", "2", "3"])
def test_tilt_against_40_digits(gap):
    """2 sin(φ/2) towards the azimuth, at φ = π − gap; and its derivatives are finite."""
    axis, directions = vector(0, 0, 1), (vector(1, 0, 0), vector(0, 1, 0))
    with mpmath.workdps(40):
        angle = mpmath.pi - mpmath.mpf(gap)
        exact = unit_towards(angle, mpmath.mpf("0.7"), mpmath)
        length = 2 * mpmath.sin(angle / 2)
        for along, tolerance in (
            (exact, mpmath.mpf("1e-35")),
            (np.array([float(x) for x in exact], dtype=object), 1e-9),
        ):
            found = tilt(along, axis, directions)
            assert abs(mpmath.sqrt(found[0] ** 2 + found[1] ** 2) - length) < tolerance
            if mpmath.mpf(gap) > 1e-12:
                assert abs(mpmath.atan2(found[1], found[0]) - mpmath.mpf("0.7")) < tolerance
    along = np.array([float(x) for x in exact], dtype=object)
    rate = skew(vector(0.3, -0.2, 0.9)) @ along
    once = duals(along, rate)
    twice = duals(once, duals(rate, skew(vector(0.3, -0.2, 0.9)) @ rate))
    for moved in (slopes(tilt(once, axis, directions)), slopes(slopes(tilt(twice, axis, directions)))):
        assert np.all(np.isfinite(moved.astype(float)))


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.5, 2.0, 3.0, np.pi - 1e-7])
def test_slopes_by_complex_step_and_dual_numbers(angle):
    """Rows are the derivative of the residual on every branch of the formula."""
    axis = np.array([2.0, -1.0, 2.0]) / 3
    w = np.array([0.4, 0.1, -0.7])

    def at(step):
        half = angle / 2
        R = quaternion_rotation(*[np.cos(half), *(np.sin(half) * axis)])
        return R + step * (R @ skew(w.astype(object)))

    dual = slopes(
        turn(
            np.array(
                [[Dual(a, b) for a, b in zip(r, s, strict=True)] for r, s in zip(at(0), at(1) - at(0), strict=True)]
            )
        )
    )
    step = 1e-30
    complex_step = np.array([complex(x).imag for x in turn(at(step * 1j))]) / step
    np.testing.assert_allclose(dual.astype(float), complex_step, rtol=1e-12, atol=1e-13)
    # 2 sin(θ/2) n changes by cos(θ/2) ω + sin(θ/2) n × ω, along the motion with the body's angular velocity ω
    expected = np.cos(angle / 2) * w + np.sin(angle / 2) * np.cross(axis, w)
    np.testing.assert_allclose(dual.astype(float), expected, atol=1e-9)


def test_casadi_at_half_a_turn():
    casadi = pytest.importorskip("casadi")
    model = floating("hinge")
    residual = wt.symbolic(model).constraint_residual
    for quaternion in HALF_TURNS:
        q = np.array([0, 0, 0, *quaternion])
        found = np.asarray(casadi.DM(residual(q))).ravel()
        np.testing.assert_allclose(found, wt.reference(model).constraint_residual(q), atol=1e-15)
