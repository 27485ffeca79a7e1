"""Bodies with modes among rigid and massless ones: exact identities on Fractions, every road to the same answer."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import whippletree as wt
from strategies import EXACT_KINDS, make_flexible_model, make_motion, with_loops
from whippletree.arithmetic.dual_numbers import duals, slopes
from whippletree.model import Constraint, Frame, State
from whippletree.tree.forward import forward_dynamics_squared
from whippletree.tree.inertia import mass_matrix_columns
from whippletree.tree.mechanism import Mechanism

# parents, kinds, modes, massless: chains, branches on one flexible body, flexible on flexible, welds at both ends
TREES = [
    ((-1,), ("weld",), (2,), ()),
    ((-1,), ("free",), (3,), ()),
    ((-1, 0, 0), ("spherical", "weld", "prismatic"), (2, 0, 0), ()),
    ((-1, 0, 1), ("prismatic", "spherical", "weld"), (0, 2, 1), ()),
    ((-1, 0, 1, 1), ("free", "prismatic", "weld", "prismatic"), (1, 0, 2, 0), (False, True)),
]


def cases(**options):
    for seed, (parents, kinds, modes, massless) in enumerate(TREES):
        assert set(kinds) <= set(EXACT_KINDS)
        model, clouds = make_flexible_model(parents, kinds, modes, seed, massless=massless, number=Fraction, **options)
        yield pytest.param(model, clouds, seed, id=f"{seed}-{'-'.join(kinds)}")


EXACT = list(cases())
SHORTENED = list(cases(shortening=True))[1:4]


def cross(a, b):
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], dtype=object)


@pytest.mark.parametrize(("model", "clouds", "seed"), EXACT)
def test_kinetic_energy_is_that_of_the_points(model, clouds, seed):
    q, v, *_ = make_motion(model, seed, number=Fraction)
    ref = wt.reference(model)
    total = Fraction(0)
    for body in model.bodies:
        if body.name.endswith("/modes"):
            continue
        V = ref.twist(body.name)(q, v)
        center = V[3:] + cross(V[:3], body.center)
        total += (body.mass * center @ center + V[:3] @ (body.inertia @ V[:3])) / 2
    for name, cloud in clouds.items():
        V = ref.twist(name)(q, v)
        eta, rates = q[model.q_slice(f"{name}/modes")], v[model.slice(f"{name}/modes")]
        for k, (s, m) in enumerate(zip(cloud.positions, cloud.masses)):
            r = s + eta @ cloud.shapes[:, k]
            speed = V[3:] + cross(V[:3], r) + rates @ cloud.shapes[:, k]
            spin = V[:3] + rates @ cloud.slopes[:, k]
            total += (m * (speed @ speed) + spin @ (cloud.inertias[k] @ spin)) / 2
    assert ref.kinetic_energy(q, v) == total
    assert v @ (ref.mass_matrix(q) @ v) / 2 == total


@pytest.mark.slow
@pytest.mark.parametrize(("model", "clouds", "seed"), [EXACT[0], EXACT[2], EXACT[4], SHORTENED[2]])
def test_all_roads_agree_exactly(model, clouds, seed):
    q, v, a, tau = make_motion(model, seed, number=Fraction)
    q = slight(model, q)
    ref, m = wt.reference(model), Mechanism.of(model)
    M = ref.mass_matrix(q)
    assert (mass_matrix_columns(m.tree, m.sweep, m.still(q)) == M).all()
    forces = ref.inverse_dynamics(q, v, a)
    assert (forces == M @ a + ref.bias(q, v)).all()
    assert (ref.forward_dynamics(q, v, forces) == a).all()
    found = ref.forward_dynamics(q, v, tau)
    squared = forward_dynamics_squared(m.sweep, m.moving(q, v), m.velocities(tau), m.base)
    assert (squared == found).all()
    assert (ref.mass_matrix_inverse(q) @ M == np.eye(model.nv, dtype=int)).all()
    assert (ref.mass_matrix_solve(q, tau) == ref.mass_matrix_inverse(q) @ tau).all()
    operators = wt.spatial_operators(model, q, v)
    assert (np.asarray(operators.forward_dynamics(tau)) == found).all()
    for road in (operators.mass_matrix, operators.mass_matrix_decomposition, operators.mass_matrix_innovations):
        assert all((road @ e == row).all() for e, row in zip(np.eye(model.nv, dtype=int).astype(object), M))
    names = tuple(joint.name for joint in model.joints[:2])
    mixed, efforts = ref.hybrid_dynamics(names)(q, v, tau)
    assert (M @ mixed + ref.bias(q, v) == efforts).all()


def slight(model, q):
    """The coordinates with small modes: a truncated kinetic energy is positive only there."""
    q = q.copy()
    for joint, part in zip(model.joints, model.q_slices):
        if joint.kind == "modal":
            q[part] = q[part] / 16
    return q


@pytest.mark.parametrize(("model", "clouds", "seed"), EXACT + SHORTENED)
def test_power_is_the_rate_of_energy_exactly(model, clouds, seed):
    """dE/dt = v · (tau − damping), with every elastic, gravitational and kinetic term, to the last digit."""
    q, v, _, tau = make_motion(model, seed, number=Fraction)
    q = slight(model, q)
    ref = wt.reference(model)
    passive = ref.passive_forces(q, v)
    damped = passive - ref.passive_forces(q, 0 * v)
    a = ref.forward_dynamics(q, v, tau + passive)
    moving, changing = duals(q, ref.rate(q, v)), duals(v, a)
    energy = ref.kinetic_energy(moving, changing) + ref.potential_energy(moving)
    assert energy.slope == v @ (tau + damped)


@pytest.mark.parametrize("shortening", [False, True])
def test_momentum_of_a_free_flexible_tree_is_conserved_exactly(shortening):
    model, _ = make_flexible_model(
        (-1, 0, 0),
        ("free", "prismatic", "spherical"),
        (2, 0, 1),
        5,
        number=Fraction,
        shortening=shortening,
        gravity=False,
    )
    q, v, _, tau = make_motion(model, 5, number=Fraction)
    q = slight(model, q)
    tau[model.slice("j0")] = 0
    ref = wt.reference(model)
    a = ref.forward_dynamics(q, v, tau + ref.passive_forces(q, v) * (np.arange(model.nv) >= 6))
    assert (slopes(ref.momentum(duals(q, ref.rate(q, v)), duals(v, a))) == 0).all()


@pytest.mark.parametrize(("model", "clouds", "seed"), [EXACT[3], SHORTENED[1]])
def test_frames_move_as_their_jacobians_say(model, clouds, seed):
    q, v, *_ = make_motion(model, seed, number=Fraction)
    ref = wt.reference(model)
    frames = ["tool", *(f"{name}/f2" for name in clouds)]
    for frame in frames:
        J, V = ref.jacobian(frame)(q), ref.twist(frame)(q, v)
        assert (J @ v == V).all()
        moved = slopes(ref.pose(frame)(duals(q, ref.rate(q, v))))
        X = ref.pose(frame)(q)
        spin = X[:3, :3].T @ moved[:3, :3]
        assert (np.array([spin[2, 1], spin[0, 2], spin[1, 0]]) == V[:3]).all()
        assert (X[:3, :3].T @ moved[:3, 3] == V[3:]).all()
        bias = slopes(ref.twist(frame)(duals(q, ref.rate(q, v)), duals(v, 0 * v)))
        assert (ref.jacobian_bias(frame)(q, v) == bias).all()


@pytest.mark.parametrize(("model", "clouds", "seed"), [EXACT[3], SHORTENED[1]])
def test_sums_over_bodies(model, clouds, seed):
    q, v, *_ = make_motion(model, seed, number=Fraction)
    ref = wt.reference(model)
    matrix, center = ref.centroidal_momentum_matrix(q), ref.center_of_mass(q)
    whole = ref.momentum(q, v)
    about = np.concatenate([whole[:3] - cross(center, whole[3:]), whole[3:]])
    assert (matrix @ v == about).all()
    # gravity is the gradient of the potential energy, without that of the elastic one
    slope = [ref.potential_energy(duals(q, ref.rate(q, e))).slope for e in np.eye(model.nv, dtype=int).astype(object)]
    assert (ref.gravity(q) - ref.passive_forces(q, 0 * v) == np.array(slope, dtype=object)).all()


KINDS = ("revolute", "universal", "planar", "free", "helical", "cylindrical")


def float_model(seed, shortening=False):
    kinds = tuple(KINDS[(seed + k) % len(KINDS)] for k in range(3))
    model, _ = make_flexible_model((-1, 0, 1), kinds, (2, 0, 2), seed, massless=(False, True), shortening=shortening)
    q, v, a, tau = make_motion(model, seed)
    return model, slight(model, q), v, a, tau


def test_derivatives_by_complex_steps():
    model, q, v, a, tau = float_model(0, shortening=True)
    ref = wt.reference(model)
    found = ref.forward_dynamics_derivatives(q, v, tau)
    backward = ref.inverse_dynamics_derivatives(q, v, a)
    h = 1e-30
    scale = 1 + np.abs(found.dq).max()
    for i, e in enumerate(np.eye(model.nv)):
        moved = q + 1j * h * ref.rate(q, e)
        np.testing.assert_allclose(found.dq[:, i], ref.forward_dynamics(moved, v, tau).imag / h, atol=1e-9 * scale)
        np.testing.assert_allclose(
            found.dv[:, i], ref.forward_dynamics(q, v + 1j * h * e, tau).imag / h, atol=1e-9 * scale
        )
        np.testing.assert_allclose(
            found.dtau[:, i], ref.forward_dynamics(q, v, tau + 1j * h * e).imag / h, atol=1e-9 * scale
        )
        np.testing.assert_allclose(backward.dq[:, i], ref.inverse_dynamics(moved, v, a).imag / h, atol=1e-10 * scale)
    np.testing.assert_allclose(backward.da, ref.mass_matrix(q), atol=1e-12)


ROUTES = ("schur", "augmented", "recursion", "nullspace", "embedding", "elimination")


def looped_cases():
    """Constraints at bent frames: to the world, between bodies, on one flexible body, and two loops that share it."""
    for seed in (1, 4):
        model, q, v, _, tau = float_model(seed)
        # a point on another body or on the world, and a rod between two frames of one flexible body
        closed = with_loops(model, q, [("pin", "point", "b2/f2", "world" if seed == 1 else "b0/f1", {})])
        if seed == 1:
            closed = replace(closed, constraints=(rod(model, q, "b0/f1", "b0/f2"), *closed.constraints))
        yield pytest.param(closed, q, v, tau, id=f"chain-{seed}")
    parents, kinds = (-1, 0, 1, 0, 3, 4), ("free", "revolute", "universal", "spherical", "revolute", "revolute")
    modes, massless = (0, 2, 1, 0, 2, 0), (False, False, False, True)
    model, _ = make_flexible_model(parents, kinds, modes, 7, massless=massless, shortening=True)
    q, v, _, tau = make_motion(model, 7)
    q = slight(model, q)
    closed = with_loops(model, q, [("pin", "point", "b2/f2", "b4/f2", {})])
    closed = replace(closed, constraints=(*closed.constraints, rod(model, q, "b5", "b3")))
    yield pytest.param(closed, q, v, tau, id="two loops")


def rod(model, q, first, second):
    """A rod between two frames."""
    a, b = (wt.reference(model).pose(name)(q)[:3, 3] for name in (first, second))
    return Constraint(f"rod {second}", "distance", (first, second), {"length": float(np.linalg.norm(a - b))})


@pytest.mark.slow
@pytest.mark.parametrize(("closed", "q", "v", "tau"), list(looped_cases()))
def test_routes_and_derivatives_under_constraints_at_bent_frames(closed, q, v, tau):
    ref = wt.reference(closed, route="block")
    A = ref.constraint_jacobian(q)
    assert np.abs(A[:, closed.slice("b2/modes")]).max() > 1e-3  # modes are part of the loops
    free, v = v, ref.project_velocity(q, v)
    moved = slopes(ref.constraint_residual(duals(q, ref.rate(q, v))))
    np.testing.assert_allclose(moved.astype(float), 0, atol=1e-10)
    expected, f = ref.forward_dynamics(q, v, tau), ref.constraint_forces(q, v, tau)
    scale, load = 1 + np.abs(expected).max(), 1 + np.abs(f).max()
    np.testing.assert_allclose(ref.mass_matrix(q) @ expected + ref.bias(q, v), tau + A.T @ f, atol=1e-11 * scale)
    np.testing.assert_allclose(A @ expected + ref.constraint_bias(q, v), 0, atol=1e-11 * scale)
    for route in ROUTES:
        other = wt.reference(closed, route=route)
        np.testing.assert_allclose(other.forward_dynamics(q, v, tau), expected, atol=1e-11 * scale, err_msg=route)
        np.testing.assert_allclose(other.constraint_forces(q, v, tau), f, atol=1e-10 * load, err_msg=route)
        np.testing.assert_allclose(
            other.project_velocity(q, free), v, atol=1e-11 * (1 + np.abs(v).max()), err_msg=route
        )
    found = wt.reference(closed).forward_dynamics_derivatives(q, v, tau)
    for i in range(0, closed.nv, 3):
        step = ref.forward_dynamics(q + 1e-30j * ref.rate(q, np.eye(closed.nv)[i]), v, tau).imag / 1e-30
        np.testing.assert_allclose(found.dq[:, i], step, atol=1e-9 * (1 + np.abs(found.dq).max()))


def test_embedding_and_elimination_are_exact_on_fractions():
    model, _ = make_flexible_model((-1, 0), ("prismatic", "spherical"), (1, 2), 2, number=Fraction)
    q, v, _, tau = make_motion(model, 2, number=Fraction)
    q = slight(model, q)
    hook = np.eye(4, dtype=int).astype(object)
    hook[:3, 3] = wt.reference(model).pose("b1/f2")(q)[:3, 3]
    pin = Constraint("pin", "point", ("b1/f2", "hook"), {})
    closed = replace(
        model, frames=(*model.frames, Frame("hook", "world", hook)), constraints=(pin,), start=State(q, 0 * v)
    )
    answers = [wt.reference(closed, route=route).forward_dynamics(q, v, tau) for route in ("embedding", "elimination")]
    assert all(isinstance(x, Fraction) for x in answers[0])
    assert (answers[0] == answers[1]).all()
    ref = wt.reference(closed)
    assert (ref.constraint_jacobian(q) @ answers[0] + ref.constraint_bias(q, v) == 0).all()


def test_a_body_that_bends_has_no_pose():
    model = EXACT[1].values[0]
    with pytest.raises(wt.UnsupportedError, match="bends and has no pose"):
        wt.reference(model).pose("b0/modes")(model.home.q)
