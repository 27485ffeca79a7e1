"""Every kind of constraint: A, A v + gₜ and γ are the derivatives of its residual, checked in 50 digits."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.constraints.kinds import KINDS
from whippletree.constraints.moving_residuals import frame_coefficients
from whippletree.functions import find
from whippletree.model import Constraint
from whippletree.model.builder import Builder
from whippletree.spatial import Pose

STEP = mpmath.mpf(10) ** -12
"""Of the central differences: their error is about its square."""


def circle(p):
    return np.array([p[0] ** 2 + p[1] ** 2 - 1, np.sqrt(p[2] * p[2] + 1) - np.cos(p[0])])


def written(X, Y, t):
    d = Y[:3, 3] - X[:3, 3]
    return [np.sqrt(d @ d) - 1 - np.sin(t), np.arctan2(X[1, 0], Y[0, 0]), X[2, 1] * Y[0, 1]]


def turning(t):
    c, s = np.cos(t), np.sin(t)
    return np.array([[c, -s, 0, t * t], [s, c, 0, s], [0, 0, 1, 1], [0, 0, 0, 1]])


CASES = {
    "point": ("frames", {}),
    "pin": ("frames", {"axis": (0, 0, 1)}),
    "weld": ("frames", {}),
    "hinge": ("frames", {"axis": (1, 2, 2)}),
    "universal": ("frames", {"axis": (0, 1, 0), "second_axis": (1, 0, 0)}),
    "slider": ("frames", {"axis": (0, 3, 4)}),
    "cylindrical": ("frames", {"axis": (1, 0, 0)}),
    "plane": ("frames", {"normal": (0.6, 0, 0.8)}),
    "point_on_line": ("frames", {"direction": (1, 1, 1)}),
    "point_on_plane": ("frames", {"normal": (2, -1, 2)}),
    "point_on_curve": ("frames", {"curve": circle}),
    "distance": ("frames", {"length": 1.5}),
    "cable": ("many", {"length": 1.5, "branches": (3, 2), "factors": (1.0, -0.5)}),
    "prescribed_frame": ("frames", {"motion": turning}),
    "custom": ("frames", {"residual": written, "time": True}),
    "rolling": ("frames", {"radius": 0.3, "normal": (0, 0, 1), "axis": (0, 1, 0)}),
    "knife_edge": ("frames", {"direction": (0, 1, 0)}),
    "coupling": ("joints", {"coefficients": (0.1, 2.0, -0.5, 0.25)}),
    "gear": ("joints", {"ratios": (2.0, -3.0), "offset": 0.5}),
    "prescribed": ("joint", {"motion": lambda t: np.sin(2 * t) + t * t}),
    "hold": ("joint", {}),
}


def model_of(kind):
    many = "hand", "ball", "tip", "upper", "hand"
    on = {"frames": ("hand", "tip"), "many": many, "joints": ("wrist", "arm"), "joint": ("arm",)}[CASES[kind][0]]
    return (
        Builder(f"rows of {kind}")
        .body("upper", 1.0, (0.1, 0, 0), (1, 1, 1))
        .body("hand body", 1.0, inertia=(1, 1, 1))
        .body("ball", 1.0, inertia=(1, 1, 1))
        .body("last", 1.0, inertia=(1, 1, 1))
        .joint(
            "arm", "revolute", "world", "upper", position=(0.1, 0.2, 0.3), axis=(1, 0, 0)
        )  # a rounded axis would not be of unit length in 50 digits
        .joint("ball joint", "spherical", "upper", "hand body", position=(0.5, 0, 0.1))
        .joint("floating", "free", "world", "ball")
        .joint("wrist", "helical", "ball", "last", position=(0, 0.2, 0), axis=(0, 1, 0), pitch=0.1)
        .frame("hand", "hand body", position=(0.2, -0.1, 0.4))
        .frame("tip", "last", position=(0.3, 0.1, -0.2))
        .constraint("c", kind, *on, **CASES[kind][1])
        .build()
    )


def state(model, seed):
    random = np.random.default_rng(seed)
    q = np.array([mpmath.mpf(x) for x in random.normal(size=model.nq)], dtype=object)
    for part, joint in zip(model.q_slices, model.joint_types, strict=True):
        if joint.nq > joint.nv:
            quaternion = q[part][-4:]
            q[part.stop - 4 : part.stop] = quaternion / mpmath.sqrt(quaternion @ quaternion)
    return q, np.array([mpmath.mpf(x) for x in random.normal(size=model.nv)], dtype=object)


def largest(array):
    return max((abs(x) for x in np.ravel(array)), default=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_rows_are_the_derivatives_of_the_residual(kind):
    with mpmath.workdps(50):
        model = model_of(kind)
        ref = wt.reference(model)
        system = wt.constraint_set(model)
        q, v = state(model, 7)
        t = mpmath.mpf("0.3")
        clock = (lambda x: (x,)) if system.timed else (lambda x: ())
        A = ref.constraint_jacobian(q, *clock(t))
        positions, rates = list(system.position_rows), list(system.velocity_rows)
        velocity = ref.constraint_velocity(q, v, *clock(t))
        bias = ref.constraint_bias(q, v, *clock(t))
        h = STEP

        def moved(d, s):
            return ref.integrate(q, s * d)

        if positions:

            def g(s, d=v, run=1):
                return ref.constraint_residual(moved(d, s), *clock(t + run * s))

            for j, e in enumerate(np.eye(model.nv, dtype=int).astype(object)):
                slope = (g(h, e, 0) - g(-h, e, 0)) / (2 * h)
                assert largest(slope - A[positions, j]) < 1e-20
            assert largest((g(h) - g(-h)) / (2 * h) - velocity[positions]) < 1e-20
            assert largest((g(h) - 2 * g(0) + g(-h)) / h**2 - bias[positions]) < 1e-18
        if rates:

            def rate(s, u=v):
                return ref.constraint_velocity(moved(v, s), u, *clock(t + s))[rates]

            for j, e in enumerate(np.eye(model.nv, dtype=int).astype(object)):
                assert largest(rate(0, e * mpmath.mpf(1)) - rate(0, v * 0) - A[rates, j]) < 1e-40
            assert largest((rate(h) - rate(-h)) / (2 * h) - bias[rates]) < 1e-20


def test_every_kind_is_checked():
    assert set(CASES) == set(KINDS) - {"relax", "rest"}  # made by massless="relax": tests/methods/test_relaxation.py


def test_row_names_and_units():
    system = wt.constraint_set(model_of("rolling"))
    assert system.row_names == ("c.slip_u", "c.slip_v", "c.height")
    assert system.row_units == ("m/s", "m/s", "m")
    assert system.force_units == ("N", "N", "N")
    assert system.position_rows == (2,)
    assert system.velocity_rows == (0, 1)


def test_rows_of_long_loops_take_operations_in_proportion_to_their_joints():
    """Each link more of a chain whose ends are held brings as many operations as the one before."""

    def operations(count):
        chain = wt.mechanisms.chain(count)
        closed = replace(chain, constraints=(Constraint("end", "point", ("world", chain.bodies[-1].name)),))
        return unrolled_program(closed, find("constraint_jacobian", closed)).body[0].code.operations

    few, some, many = (operations(count) for count in (10, 20, 40))
    assert many - some == 2 * (some - few) > 0


@pytest.mark.parametrize("kind", ["weld", "hinge", "slider", "cylindrical"])
def test_half_a_turn_is_not_mistaken_for_closed(kind):
    """Sines would vanish there; these residuals have their largest length."""
    model = (
        Builder("flip")
        .body("b", 1.0, inertia=(1, 1, 1))
        .joint("j", "revolute", "world", "b", axis=(1, 0, 0))
        .constraint("c", kind, "world", "b")
        .build()
    )
    for angle in (np.pi - 1e-3, np.pi, np.pi + 1e-3):
        expected = 2 * np.sin(angle / 2)
        np.testing.assert_allclose(np.linalg.norm(wt.reference(model).constraint_residual([angle])), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k, (on, _) in CASES.items() if k not in ("point_on_curve",)])
def test_compiled_rows_equal_the_reference(kind):
    model = model_of(kind)
    ref, dyn = wt.reference(model), wt.compile(model)
    q, v = (x.astype(float) for x in state(model, 3))
    clock = (0.3,) if wt.constraint_set(model).timed else ()
    for name, arguments in (
        ("constraint_jacobian", (q,)),
        ("constraint_velocity", (q, v)),
        ("constraint_bias", (q, v)),
    ):
        expected = getattr(ref, name)(*arguments, *clock)
        found = getattr(dyn, name)(*arguments, *clock)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("kind", ["weld", "hinge", "universal", "slider", "cylindrical", "plane", "prescribed_frame"])
def test_floats_ask_a_residual_of_one_pose_once_for_all_directions(kind):
    """Slopes along six motions at once are those along one after the other, which other scalars take."""
    model = model_of(kind)
    (prepared, *_) = wt.constraint_set(model).demands
    random = np.random.default_rng(3)
    turns = [np.linalg.qr(random.normal(size=(3, 3)))[0] for _ in range(2)]
    floats = [Pose((R * np.linalg.det(R)).astype(object), random.normal(size=3).astype(object)) for R in turns]
    exact = [Pose(*[np.vectorize(mpmath.mpf, otypes=[object])(part) for part in X]) for X in floats]
    assert prepared.demand.of_pose
    for i in (0, 1):
        found = frame_coefficients(prepared.demand, floats, i, 0.3)
        expected = frame_coefficients(prepared.demand, exact, i, 0.3).astype(float)
        np.testing.assert_allclose(found.astype(float), expected, rtol=0, atol=1e-14)
