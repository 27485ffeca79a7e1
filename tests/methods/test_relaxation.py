"""``massless="relax"``: massless motions with dampers move by first-order equations, with springs alone they rest.

Oracles: linear systems by their matrix exponential, springs in series, and the limit of small masses, integrated by
an independent stiff method.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import whippletree as wt

X, Z = (1, 0, 0), (0, 0, 1)
DAMPING, STIFFNESS, MASS = 2.0, 30.0, 1.5


def line(*joints, weightless=True):
    """Bodies in a row on prismatic joints along x; all but the last have no mass."""
    builder = wt.Builder("line", (0, 0, 0))
    for k, options in enumerate(joints):
        last = k == len(joints) - 1
        builder.body(f"b{k}", MASS if last else 0)
        builder.joint(f"j{k}", "prismatic", f"b{k - 1}" if k else "world", f"b{k}", axis=X, **options)
    return builder.build()


def maxwell():
    """World, damper, node without mass, spring, mass."""
    return line({"damping": DAMPING}, {"stiffness": STIFFNESS})


def linkage(mass):
    """A slider on three links of this mass: with massless links, one motion of them moves nothing heavy."""
    builder = wt.Builder("linkage", (0, -9.81, 0))
    builder.body("slider", 1.0).joint("slide", "prismatic", "world", "slider", axis=(0, 1, 0), position=(1.6, 0, 0))
    springs = ((0.5, 3.0, 0.8), (0.3, 0.0, -1.0), (0.2, 1.0, -0.6))
    for k, (damping, stiffness, start) in enumerate(springs):
        builder.body(f"l{k}", mass, center=(0.5, 0, 0), inertia=(0, mass / 12, mass / 12))
        builder.joint(
            f"j{k}", "revolute", f"l{k - 1}" if k else "world", f"l{k}", axis=Z, position=(1.0 if k else 0.0, 0, 0),
            damping=damping, stiffness=stiffness, rest=0.2, start=start,
        )  # fmt: skip
    return builder.frame("end", "l2", position=X).constraint("pin", "pin", "slider", "end").build()


def arm(mass):
    """A point mass on three links of this mass, each joint with a damper."""
    builder = wt.Builder("arm", (0, -9.81, 0))
    for k, damping in enumerate((0.5, 0.3, 0.2)):
        builder.body(f"l{k}", mass, center=(0.5, 0, 0), inertia=(0, mass / 12, mass / 12))
        builder.joint(
            f"j{k}", "revolute", f"l{k - 1}" if k else "world", f"l{k}", axis=Z, position=(1.0 if k else 0.0, 0, 0),
            damping=damping, start=(0.3, -1.2, 0.8)[k],
        )  # fmt: skip
    return builder.body("tip", 1.0).joint("weld", "weld", "l2", "tip", position=X).build()


def test_the_rows_are_the_first_order_equation_and_push_nothing():
    ref = wt.reference(maxwell(), massless="relax")
    q, heavy = np.array([0.1, 0.2]), 0.3
    v = ref.project_velocity(q, [0.0, heavy])
    np.testing.assert_allclose(v, [STIFFNESS * q[1] / DAMPING, heavy - STIFFNESS * q[1] / DAMPING], rtol=1e-14)
    tau = ref.passive_forces(q, v)
    assert abs(ref.constraint_forces(q, v, tau)[0]) < 1e-12
    np.testing.assert_allclose(MASS * ref.forward_dynamics(q, v, tau).sum(), -STIFFNESS * q[1], rtol=1e-13)


@pytest.mark.parametrize("make", [maxwell, lambda: linkage(0), lambda: arm(0)])
def test_compiled_is_the_reference(make):
    ref, dyn = wt.reference(make(), massless="relax"), wt.compile(make(), massless="relax")
    q = ref.model.home.q + 0.01
    v = ref.project_velocity(q, np.ones(ref.model.nv))
    np.testing.assert_allclose(dyn.project_velocity(q, np.ones(ref.model.nv)), v, rtol=1e-12, atol=1e-13)
    tau = ref.passive_forces(q, v)
    a = ref.forward_dynamics(q, v, tau)
    np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau), a, rtol=1e-10, atol=1e-10)
    # the bias of the rows is the rate of their velocity along the motion
    h = 1e-5

    def after(s):
        return ref.constraint_velocity(ref.integrate(q, s * v), v + s * a)

    np.testing.assert_allclose((after(h) - after(-h)) / (2 * h), 0, atol=1e-7)


def test_maxwell_is_its_matrix_exponential():
    A = np.array([[0, STIFFNESS / DAMPING, 0], [0, -STIFFNESS / DAMPING, 1], [0, -STIFFNESS / MASS, 0]])
    run = wt.simulate(maxwell(), [0.1, 0.2], [0.0, 0.3], duration=3.0, massless="relax", rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(run.q.values[-1], (expm(3.0 * A) @ [0.1, 0.2, 0.3])[:2], atol=1e-12)


def test_a_controller_pushes_a_massless_node():
    def push(t, q, v):
        return [np.sin(3 * t), 0.2]

    def rates(t, y):
        creep = (STIFFNESS * y[1] + np.sin(3 * t) - 0.2) / DAMPING
        return [creep, y[2] - creep, (0.2 - STIFFNESS * y[1]) / MASS]

    run = wt.simulate(
        maxwell(), [0.1, 0.2], [0.0, 0.3], duration=2.0, massless="relax", controller=push, rtol=1e-11, atol=1e-12
    )
    exact = solve_ivp(rates, (0, 2), [0.1, 0.2, 0.3], method="DOP853", rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(run.q.values[-1], exact.y[:2, -1], atol=1e-11)


def test_springs_alone_are_springs_in_series():
    model = line({"stiffness": 20.0, "rest": 0.1}, {"stiffness": 30.0})
    relaxed = wt.reference(model, massless="relax").model
    q = wt.assemble(relaxed, hold={"j1": 0.2})
    np.testing.assert_allclose(q, [0.4, 0.2], rtol=1e-12)  # 20 (0.4 − 0.1) = 30 · 0.2
    run = wt.simulate(model, q, duration=2.0, massless="relax", rtol=1e-10)
    swing = 0.5 * np.cos(np.sqrt(20 * 30 / 50 / MASS) * run.time.values)
    np.testing.assert_allclose(run.q.values.sum(axis=1), 0.1 + swing, atol=1e-11)
    with pytest.raises(wt.AssemblyError, match=r"rest\.j0"):
        wt.simulate(model, [0.3, 0.3], duration=1.0, massless="relax")
    with pytest.raises(wt.UnsupportedError, match=r"the controller pushes joint 'j0'.*Give one of its joints damping"):
        wt.simulate(model, q, duration=1.0, massless="relax", controller=lambda t, q, v: [1.0, 0.0])


def test_motions_share_one_damper():
    """Two nodes, spring, spring, damper: one combination rests, the other creeps."""
    model = line({"stiffness": 20.0}, {"stiffness": 30.0}, {"damping": DAMPING})
    relaxed = wt.reference(model, massless="relax").model
    assert sorted(c.kind for c in relaxed.constraints) == ["relax", "rest"]
    q = wt.assemble(relaxed, hold={"j0": 0.3, "j2": 0.0})
    run = wt.simulate(model, q, duration=2.0, massless="relax", rtol=1e-11, atol=1e-12)
    k = 20 * 30 / 50
    # stretch x of both springs together, position of the damper, speed of the mass
    A = np.array([[-k / DAMPING, 0, 1], [k / DAMPING, 0, 0], [-k / MASS, 0, 0]])
    stretch, creep, _ = expm(2.0 * A) @ [q[0] + q[1], 0.0, 0.0]
    np.testing.assert_allclose(run.q.values[-1], [stretch * 0.6, stretch * 0.4, creep], atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("make", [arm, linkage])
def test_it_is_the_limit_of_small_masses(make):
    run = wt.simulate(make(0), duration=0.5, massless="relax", rtol=1e-10, atol=1e-12)
    q0, v0, nq = run.q.values[0], run.v.values[0], run.q.shape[1]
    errors = []
    for mass in (1e-3, 1e-4):
        dyn = wt.compile(make(mass))

        def rates(t, y, dyn=dyn):
            q, v = y[:nq], y[nq:]
            return np.concatenate([v, dyn.forward_dynamics(q, v, dyn.passive_forces(q, v))])

        small = solve_ivp(rates, (0, 0.5), np.concatenate([q0, v0]), method="LSODA", rtol=1e-10, atol=1e-12)
        errors.append(np.abs(small.y[:nq, -1] - run.q.values[-1]).max())
    assert errors[1] < 1e-3
    assert 7 < errors[0] / errors[1] < 14  # linear in the mass


def test_what_nothing_decides_is_refused():
    loose = wt.mechanisms.double_pendulum(masses=(1.0, 0.0))
    with pytest.raises(wt.UnsupportedError) as caught:
        wt.compile(loose, massless="relax")
    assert str(caught.value) == (
        "model 'double pendulum': the massless motion of 'lower' about joint 'elbow' (direction elbow +1) has neither "
        "damper nor spring, so nothing decides it: give one of its joints damping or stiffness, hold it "
        '(massless="hold"), or give a body mass'
    )


def test_a_model_without_massless_motions_stays_as_it_is():
    model = wt.mechanisms.four_bar()
    assert wt.reference(model, massless="relax").model is model


def test_compliant_rows_that_no_joint_feels():
    """A linkage closed by a compliant hinge, which has three rows too many in a plane, and by a compliant pin; a damped
    massless flap on it."""

    def linkage(kind):
        b = wt.Builder(kind, (0, -9.81, 0)).body("flap")
        for bar, parent, at, start in (("a", "world", 0, 1.0), ("b", "a", 1, -1.0), ("c", "world", 1, 1.0)):
            b.body(bar, 1.0, (0.5, 0, 0), (0.001, 0.08, 0.08))
            b.joint(bar, "revolute", parent, bar, position=(at, 0, 0), start=start)
        b.joint("flap", "revolute", "b", "flap", position=(1, 0, 0), damping=0.1)
        b.frame("end of b", "b", position=(1, 0, 0)).frame("end of c", "c", position=(1, 0, 0))
        return b.constraint("tie", kind, "end of b", "end of c", compliance=0.05).build()

    q = linkage("pin").home.q
    A = np.asarray(wt.reference(linkage("pin"), massless="relax").constraint_jacobian(q), dtype=float)[:2]
    v = np.array([0.3, -0.2, 0.0, 0.1])
    v -= np.linalg.pinv(A) @ A @ v  # where ends part, rows in axes of a body and in world axes are not the same
    for make in (wt.reference, wt.compile):
        spatial, planar = (make(linkage(kind), massless="relax") for kind in ("hinge", "pin"))
        found, expected = (dyn.forward_dynamics(q, v, np.ones(4)) for dyn in (spatial, planar))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
