"""Textbook mechanisms whose equations of motion fit on a line, each evaluated to fifty digits beside the formula."""

from random import Random

import mpmath
import numpy as np
import pytest
from mpmath import cos, mpf, sin

import whippletree as wt
from strategies import rotation

DIGITS = 50


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(DIGITS):
        yield


def numbers(*texts):
    """Decimal numbers with all their digits."""
    return np.array([mpf(text) for text in texts], dtype=object)


def equal(ours, formula):
    """The same to all but a few of the digits."""
    ours, formula = np.ravel(np.asarray(ours, dtype=object)), np.ravel(np.asarray(formula, dtype=object))
    assert ours.shape == formula.shape
    assert all(isinstance(x, (mpf, int)) for x in ours)
    scale = max(abs(x) for x in formula)
    assert max(abs(x - y) for x, y in zip(ours, formula)) <= scale * mpf(10) ** (5 - DIGITS)


def cross(a, b):
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def gravity_of(model):
    """The model's own (binary) number for g, as the formulas need it."""
    return -mpf(float(model.gravity[1]))


def test_simple_pendulum():
    """m l² q̈ + m g l cos q = τ, with q from the horizontal."""
    m, l = numbers("1.3", "0.7")
    model = wt.mechanisms.pendulum(length=l, mass=m)
    g, q, v, tau = gravity_of(model), *(numbers(x) for x in ("0.4", "-1.1", "2.5"))
    ref = wt.reference(model)
    equal(ref.mass_matrix(q), m * l**2)
    equal(ref.bias(q, v), m * g * l * cos(q[0]))
    equal(ref.forward_dynamics(q, v, tau), (tau[0] - m * g * l * cos(q[0])) / (m * l**2))
    equal(ref.kinetic_energy(q, v), m * l**2 * v[0] ** 2 / 2)
    equal(ref.potential_energy(q), m * g * l * sin(q[0]))


def test_physical_pendulum():
    """(I + m d²) θ̈ = −m g d sin θ about a slanted axis through the pivot: only the part of gravity across it acts.

    Goldstein, *Classical Mechanics*, chapter 5. The axis is (0, 3/5, 4/5); the centre of mass hangs at (d, 0, 0).
    """
    m, d, Ixx, Iyy, Izz, Iyz = numbers("2", "0.3", "0.02", "0.03", "0.025", "0.004")
    n = np.array([mpf(0), mpf(3) / 5, mpf(4) / 5])
    g = numbers("1", "-9", "2")
    model = (
        wt.Builder("physical pendulum", gravity=g)
        .body("body", m, (d, 0, 0), (Ixx, Iyy, Izz, 0, 0, Iyz))
        .joint("pivot", "revolute", "world", "body", axis=n)
        .build()
    )
    theta, rate = mpf("0.8"), mpf("1.7")
    arm = d * np.array([cos(theta), n[2] * sin(theta), -n[1] * sin(theta)])  # x turned about n
    inertia = n[1] ** 2 * Iyy + n[2] ** 2 * Izz + 2 * n[1] * n[2] * Iyz + m * d**2
    a = wt.reference(model).forward_dynamics(np.array([theta]), np.array([rate]), np.array([mpf(0)]))
    equal(a, m * (n @ cross(arm, g)) / inertia)


def test_double_pendulum():
    """Point masses, relative angles (Spong, Hutchinson, Vidyasagar, *Robot Modeling and Control*, section 6.4)."""
    l1, l2, m1, m2 = numbers("0.9", "0.6", "1.7", "0.8")
    model = wt.mechanisms.double_pendulum(lengths=(l1, l2), masses=(m1, m2))
    g = gravity_of(model)
    (q1, q2), (v1, v2) = q, v = numbers("0.3", "-1.2"), numbers("0.9", "1.4")
    M = [
        [m1 * l1**2 + m2 * (l1**2 + 2 * l1 * l2 * cos(q2) + l2**2), m2 * (l1 * l2 * cos(q2) + l2**2)],
        [m2 * (l1 * l2 * cos(q2) + l2**2), m2 * l2**2],
    ]
    h = m2 * l1 * l2 * sin(q2)
    c = [
        -h * (2 * v1 * v2 + v2**2) + (m1 + m2) * g * l1 * cos(q1) + m2 * g * l2 * cos(q1 + q2),
        h * v1**2 + m2 * g * l2 * cos(q1 + q2),
    ]
    ref = wt.reference(model)
    equal(ref.mass_matrix(q), M)
    equal(ref.bias(q, v), c)
    a = ref.forward_dynamics(q, v, numbers("0.5", "-0.2"))
    equal(np.array(M) @ a + np.array(c), numbers("0.5", "-0.2"))


def test_cart_pole():
    """R. V. Florian, "Correct equations for the dynamics of the cart-pole system" (2007), eq. 23 and 24, no friction.

    Its angle leans towards +x, ours turns about +z, so they have opposite signs; l is half the pole's length.
    """
    M, m, l = numbers("1.1", "0.2", "0.5")
    model = wt.mechanisms.cart_pole(cart_mass=M, pole_mass=m, pole_length=2 * l)
    g, F = gravity_of(model), mpf("3.2")
    (_, angle), (_, rate) = q, v = numbers("0.4", "-0.7"), numbers("-0.3", "1.9")
    theta, theta_dot = -angle, -rate
    total = M + m
    theta_ddot = (g * sin(theta) + cos(theta) * (-F - m * l * theta_dot**2 * sin(theta)) / total) / (
        l * (mpf(4) / 3 - m * cos(theta) ** 2 / total)
    )
    x_ddot = (F + m * l * (theta_dot**2 * sin(theta) - theta_ddot * cos(theta))) / total
    equal(wt.reference(model).forward_dynamics(q, v, np.array([F, mpf(0)])), [x_ddot, -theta_ddot])


def test_free_rigid_body_obeys_eulers_equations():
    """I ω̇ + ω × I ω = n and m (v̇ + ω × v) = f + m Rᵀ g, for a frame at the centre of mass."""
    m, I = mpf("1.9"), numbers("0.4", "0.7", "0.9")
    g = numbers("1", "-2", "-9.81")
    model = (
        wt.Builder("body", gravity=g)
        .body("body", m, (0, 0, 0), tuple(I))
        .joint("free", "free", "world", "body")
        .build()
    )
    w, u, moment, force = (numbers(*t.split()) for t in ("0.3 -1.2 0.7", "1 2 -0.5", "0.1 0.2 0.3", "-1 0.4 2"))
    q = np.concatenate([numbers("3", "1", "-2"), numbers("0.5", "0.5", "-0.5", "0.5")])
    R = np.array([[0, -1, 0], [0, 0, -1], [1, 0, 0]])  # of that quaternion
    w_dot = [
        (moment[0] - (I[2] - I[1]) * w[1] * w[2]) / I[0],
        (moment[1] - (I[0] - I[2]) * w[2] * w[0]) / I[1],
        (moment[2] - (I[1] - I[0]) * w[0] * w[1]) / I[2],
    ]
    u_dot = (force + m * (R.T @ g)) / m - cross(w, u)
    ref = wt.reference(model)
    equal(ref.pose("body")(q)[:3, :3], R)
    a = ref.forward_dynamics(q, np.concatenate([w, u]), np.concatenate([moment, force]))
    equal(a, [*w_dot, *u_dot])


def test_steady_precession_of_a_heavy_top():
    """A spinning top on its tip precesses steadily where C n Ω − A Ω² cos θ = m g h (Goldstein, section 5.7).

    C and A are the inertias along and across the axis at the tip, n the spin about the axis, Ω the precession.
    """
    m, h, C, across = numbers("0.5", "0.04", "0.0006", "0.0004")
    g, tilt, precession = mpf("9.81"), mpf("0.5"), mpf("6")
    A = across + m * h**2
    spin = (m * g * h + A * precession**2 * cos(tilt)) / (C * precession)
    model = (
        wt.Builder("top", gravity=(0, 0, -g))
        .body("top", m, (0, 0, h), (across, across, C))
        .joint("tip", "spherical", "world", "top")
        .build()
    )
    q = np.array([cos(tilt / 2), sin(tilt / 2), mpf(0), mpf(0)])  # tilted about x
    w = np.array(
        [mpf(0), precession * sin(tilt), spin]
    )  # precession about the vertical, seen in the top, plus the rest
    relative_spin = spin - precession * cos(tilt)
    # steady: ω turns with the precessing axes, backwards at the relative spin when seen in the top
    expected = -relative_spin * cross(numbers("0", "0", "1"), w)
    equal(wt.reference(model).forward_dynamics(q, w, numbers("0", "0", "0")), expected)


def test_velocity_recurrence_of_document_002():
    """V(k) = φ*(℘(k), k) V(℘(k)) + H*(k) θ̇(k), with φ* written out: ω and v + ω × p, turned into the body's axes."""
    rng = Random(3)
    builder, poses = wt.Builder("chain"), []
    for k in range(4):
        R, p = rotation(rng), [mpf(rng.randint(-9, 9)) / 7 for _ in range(3)]
        R = np.array([[mpf(x.numerator) / x.denominator for x in row] for row in R], dtype=object)
        poses.append((R, np.array(p, dtype=object)))
        builder.body(f"b{k}", mpf(1), (0, 0, 0), (mpf(1), mpf(1), mpf(1)))
        builder.joint(f"j{k}", "revolute", f"b{k - 1}" if k else "world", f"b{k}", position=p, rotation=R)
    ref = wt.reference(builder.build())
    q, v = numbers("0.3", "-0.8", "1.7", "0.2"), numbers("1.1", "0.4", "-0.6", "2.1")
    w, u = numbers("0", "0", "0"), numbers("0", "0", "0")
    for k, (R, p) in enumerate(poses):
        turn = np.array([[cos(q[k]), -sin(q[k]), 0], [sin(q[k]), cos(q[k]), 0], [0, 0, 1]], dtype=object)
        at = (R @ turn).T
        w, u = at @ w + np.array([0, 0, v[k]]), at @ (u + cross(w, p))
        equal(ref.twist(f"b{k}")(q, v), [*w, *u])
