"""Operators = recursions = dense algebra: exact on Fractions, to 40 of 50 digits on mpmath, stable on floats."""

import tracemalloc
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    EXACT_KINDS,
    block_systems,
    digits,
    make_block_system,
    make_model,
    make_motion,
    models,
    motions,
    rigid_systems,
    seeds,
)
from whippletree.errors import ShapeError, SingularSystemError, UnsupportedError
from whippletree.graph import identity
from whippletree.model.builder import Builder
from whippletree.spatial import Pose, cross
from whippletree.tree.forward import forward_dynamics
from whippletree.tree.inverse import accelerations, inverse_dynamics, loads
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.operators import SpatialOperators, spatial_operators

EPS = np.finfo(float).eps

systems = st.one_of(rigid_systems(), block_systems())
small_systems = st.one_of(rigid_systems(max_size=3), block_systems())  # where dense matrices of all bodies are formed


def operators(system):
    return SpatialOperators.from_links(system.parents, system.links, base=system.base)


def equal(A, B):
    """Every entry the same, exactly; a float anywhere would make the comparison worthless."""
    A, B = (np.asarray(X if isinstance(X, np.ndarray) else X.dense()) for X in (A, B))
    assert A.shape == B.shape
    assert not any(isinstance(x, float) for X in (A, B) for x in X.flat)
    assert (A == B).all()


def joined(field):
    return np.concatenate(field)


def row_reduced(A):
    """det A and A⁻¹ by Gauss–Jordan elimination with pivoting: dense, exact, and none of the library's code."""
    n = len(A)
    W = np.concatenate([np.array(A, dtype=object) * Fraction(1), np.eye(n, dtype=int) * Fraction(1)], axis=1)
    determinant = Fraction(1)
    for k in range(n):
        pivot = next(i for i in range(k, n) if W[i, k] != 0)
        if pivot != k:
            W[[k, pivot]], determinant = W[[pivot, k]], -determinant
        determinant *= W[k, k]
        W[k] = W[k] / W[k, k]
        for i in range(n):
            if i != k:
                W[i] = W[i] - W[i, k] * W[k]
    return determinant, W[:, n:]


# --- exact: operators against the recursions of the tree --------------------------------------------------------------


@given(systems)
def test_equations_of_motion_are_the_recursions(system):
    ops, qdd = operators(system), joined(system.qdd)
    found = loads(system.sweep, system.links, system.qdd, system.base)
    equal(ops.accelerations(qdd), joined(accelerations(system.sweep, system.links, system.qdd, system.base)))
    equal(ops.forces(qdd), joined([load.force for load in found]))
    equal(ops.inverse_dynamics(qdd), joined([load.effort for load in found]))


@given(systems)
def test_forward_dynamics_is_the_recursion_and_inverts_inverse_dynamics(system):
    ops, T = operators(system), joined(system.tau)
    qdd = ops.forward_dynamics(T)
    equal(qdd, joined(forward_dynamics(system.sweep, system.links, system.tau, system.base)))
    equal(ops.inverse_dynamics(qdd), T)


@given(systems)
def test_inter_body_forces_need_no_second_recursion(system):
    ops, T = operators(system), joined(system.tau)
    equal(ops.interbody_forces(T), ops.forces(ops.forward_dynamics(T)))


@given(systems)
def test_velocities_are_the_scatter_of_the_joints_motions(system):
    rates = system.qdd

    def carry(parent, link, rate):
        V = link.X.motion(parent) + link.H @ rate
        return V, V

    still = 0 * system.base
    equal(operators(system).velocities(joined(rates)), joined(system.sweep.scatter(carry, still, system.links, rates)))


# --- exact: operators against dense algebra ---------------------------------------------------------------------------


@given(small_systems)
def test_the_equations_of_motion_in_dense_matrices(system):
    ops, qdd = operators(system), joined(system.qdd)
    E, H, M, J = (X.dense() for X in (ops.E_phi, ops.H, ops.M, ops.J))
    _, phi = row_reduced(np.eye(len(E), dtype=int) - E)
    equal(ops.phi, phi)
    equal(ops.mass_matrix, H @ phi @ M @ phi.T @ H.T + J)
    equal(ops.bias, H @ phi @ (M @ phi.T @ ops.a + ops.b))
    equal(ops.inverse_dynamics(qdd), ops.mass_matrix @ qdd + ops.bias)


@given(systems)
def test_every_form_of_the_mass_matrix_is_the_same_matrix(system):
    ops = operators(system)
    M = ops.mass_matrix.dense()
    equal(M, M.T)
    equal(ops.mass_matrix_decomposition, M)
    equal(ops.mass_matrix_innovations, M)
    determinant, inverse = row_reduced(M)
    assert ops.determinant == determinant
    equal(ops.mass_matrix_inverse, inverse)


@given(small_systems)
def test_composite_inertias_solve_the_lyapunov_equation(system):
    ops = operators(system)
    E, R = ops.E_phi.dense(), ops.R.dense()
    equal(R, ops.M.dense() + E @ R @ E.T)
    phi = ops.phi.dense()
    tilde = phi - np.eye(len(phi), dtype=int)
    equal(phi @ ops.M.dense() @ phi.T, R + tilde @ R + R @ tilde.T)


@given(small_systems)
def test_articulated_inertias_solve_the_riccati_equation(system):
    ops = operators(system)
    P, E_phi, E_psi, G, K, J = (X.dense() for X in (ops.P, ops.E_phi, ops.E_psi, ops.G, ops.K, ops.J))
    H, D = ops.H.dense(), ops.D.dense()
    equal(P, P.T)
    equal(P, ops.M.dense() + E_psi @ P @ E_phi.T)
    equal(P, ops.M.dense() + E_psi @ P @ E_psi.T + K @ J @ K.T)
    equal(D, H @ P @ H.T + J)
    equal(G @ D, P @ H.T)
    equal(K, E_phi @ G)


@given(small_systems)
def test_operator_identities(system):
    ops = operators(system)
    one = identity(ops.H.rows)
    equal(ops.psi.inverse(), ops.phi.inverse() + ops.K @ ops.H)
    equal(ops.innovations_factor_inverse @ ops.innovations_factor, one)
    equal(ops.innovations_factor_inverse @ ops.H @ ops.phi, ops.H @ ops.psi)
    equal(ops.phi @ ops.K @ ops.innovations_factor_inverse, ops.psi @ ops.K)
    equal(ops.Omega, ops.phi.T @ ops.H.T @ ops.mass_matrix_inverse @ ops.H @ ops.phi)


@given(systems)
def test_a_jacobian_is_a_row_of_the_velocity_operator(system):
    ops, last = operators(system), len(system.links) - 1
    V = ops.E_phi.rows.split(ops.velocities(joined(system.qdd)))
    equal(ops.jacobian(last) @ joined(system.qdd), V[last])


@given(block_systems(max_size=4), st.randoms(use_true_random=False))
def test_no_order_of_the_bodies_is_special(system, random):
    """Children may come before their parents, as in document 002: the blocks are the same."""
    n = len(system.parents)
    order = random.sample(range(n), n)
    parents = [-1 if system.parents[k] < 0 else order.index(system.parents[k]) for k in order]
    shuffled = SpatialOperators.from_links(parents, [system.links[k] for k in order], bodies=order)
    ops = SpatialOperators.from_links(system.parents, system.links)
    for i in range(n):
        for j in range(n):
            equal(shuffled.mass_matrix_inverse.block(i, j), ops.mass_matrix_inverse.block(i, j))


# --- models: body frames with welds here, aligned and lumped nodes there ----------------------------------------------


def tree_answers(model, motion):
    """Bias, mass matrix and forward dynamics by the recursions of the tree."""
    mechanism = Mechanism.of(model)
    still = [link.at_rest() for link in mechanism.moving(motion.q, motion.v)]
    moving, sweep, base = mechanism.moving(motion.q, motion.v), mechanism.sweep, mechanism.base
    zero = 0 * motion.v

    def forces(links, a, base):
        return mechanism.join(inverse_dynamics(sweep, links, mechanism.velocities(a), base))

    M = np.array([forces(still, e, 0 * base) for e in np.eye(model.nv, dtype=int).astype(object)])
    qdd = mechanism.join(forward_dynamics(sweep, moving, mechanism.velocities(motion.tau), base))
    return forces(moving, zero, base), M.reshape(model.nv, model.nv), qdd


def close(found, expected, tolerance):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    scale = max([1, *(abs(x) for x in expected.flat)])
    assert all(abs(x) <= tolerance * scale for x in (found - expected).flat), abs(found - expected).max()


@given(motions(kinds=EXACT_KINDS, number=Fraction))
def test_models_with_rational_poses_are_exact(case):
    model, motion = case
    ops = spatial_operators(model, motion.q, motion.v)
    bias, M, qdd = tree_answers(model, motion)
    equal(ops.bias, bias)
    equal(ops.mass_matrix, M)
    equal(ops.forward_dynamics(motion.tau), qdd)


@given(models(number=digits, max_size=5), seeds)
def test_models_of_all_joints_agree_to_forty_digits(model, seed):
    with mpmath.workdps(50):
        motion = make_motion(model, seed, number=digits)
        ops = spatial_operators(model, motion.q, motion.v)
        bias, M, qdd = tree_answers(model, motion)
        close(ops.bias, bias, mpmath.mpf(10) ** -40)
        close(ops.mass_matrix.dense(), M, mpmath.mpf(10) ** -40)
        close(ops.forward_dynamics(motion.tau), qdd, mpmath.mpf(10) ** -40)


@given(motions(spread=2))
def test_floats_are_backward_stable(case):
    """|M a + c − τ| is rounding noise of the forces inside, however badly masses and lengths are mixed."""
    model, motion = case
    ops = spatial_operators(model, motion.q, motion.v)
    qdd = ops.forward_dynamics(motion.tau)
    size = abs(ops.mass_matrix.dense()) @ abs(qdd) + abs(ops.bias) + abs(motion.tau)
    residual = abs(ops.inverse_dynamics(qdd) - motion.tau)
    assert (residual <= 1e4 * EPS * max([0, *size])).all()


@given(motions())
def test_velocities_are_those_of_the_poses(case):
    """V = φ* H* θ̇ against the rate of each body's pose, by a central difference of the poses."""
    model, motion = case
    mechanism, h = Mechanism.of(model), 1e-6
    twists = spatial_operators(model, motion.q).velocities(motion.v).reshape(-1, 6)
    before, here, after = (
        spatial_poses(model, mechanism.manifold().integrate(motion.q, t * motion.v)) for t in (-h, 0, h)
    )
    for V, A, X, B in zip(twists, before, here, after):
        spin = X.R.T @ ((B.R - A.R) / (2 * h))
        scale = 1 + max(abs(x) for x in (*V, *X.p))
        assert abs(np.array([spin[2, 1], spin[0, 2], spin[1, 0]]) - V[:3]).max() < 1e-7 * scale**2
        assert abs(X.R.T @ ((B.p - A.p) / (2 * h)) - V[3:]).max() < 1e-7 * scale**2


def spatial_poses(model, q):
    """World poses by hand, from the joints alone."""
    poses = []
    for parent, joint, kind, part in zip(model.parents, model.joints, model.joint_types, model.q_slices):
        X = Pose.from_matrix(joint.pose) @ kind.pose(q[part])
        poses.append(X if parent < 0 else poses[parent] @ X)
    return poses


def test_gravity_alone_is_what_holds_a_weight():
    """A slide carries m g, a ball joint the moment of the weight about it; no number here needs rounding."""
    builder = Builder("scales", gravity=(0.25, 0, -10)).body("load", 3.0).body("bob", 2.0, (0, 1, 5))
    builder.joint("lift", "prismatic", "world", "load").joint("pivot", "spherical", "world", "bob")
    model = builder.build()
    moment = -2 * cross(model.bodies[1].center, model.gravity)
    assert spatial_operators(model, [7.0, 1.0, 0.0, 0.0, 0.0]).bias.tolist() == [30, *moment]


# --- size, names and errors -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_chain_needs_no_dense_resolvent():
    """Rods of 1 m in a plane, nearly straight: 𝓜 has no negative entry, so 𝓜 |θ̈| is the scale of the backward error."""
    n = 2000
    builder = Builder("chain")
    for k in range(n):
        builder.body(f"rod{k}", 1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12))
        builder.joint(f"pin{k}", "revolute", f"rod{k - 1}" if k else "world", f"rod{k}", position=(float(k > 0), 0, 0))
    ops = spatial_operators(builder.build(), np.sin(np.arange(n)) / 9)
    tau = np.cos(np.arange(n))
    tracemalloc.start()
    qdd = ops.forward_dynamics(tau)
    T = ops.inverse_dynamics(qdd)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert abs(T - tau).max() < EPS * (ops.mass_matrix @ abs(qdd)).max()
    assert peak < 40e6  # bytes; a dense φ has (6 n)² · 8 = 1.2e9


def test_blocks_have_the_names_of_bodies_and_joints():
    model = make_model((-1, 0), ("revolute", "planar"), 3)
    ops = spatial_operators(model, make_motion(model, 0).q)
    assert ops.E_phi.block("b0", "b1").shape == (6, 6)
    assert ops.mass_matrix.block("j0", "j1").shape == (1, 3)
    assert ops.jacobian("b1").dense().shape == (6, 4)


def test_an_empty_tree_and_a_tree_without_freedoms():
    welded = make_model((-1, 0), ("weld", "weld"), 0)
    ops = spatial_operators(welded, np.zeros(0), np.zeros(0))
    assert ops.mass_matrix_inverse.dense().shape == (0, 0)
    assert ops.determinant == 1
    assert ops.forward_dynamics(np.zeros(0)).shape == (0,)
    assert SpatialOperators.from_links((), ()).mass_matrix.dense().shape == (0, 0)


def test_integers_are_not_turned_into_floats():
    system = make_block_system((-1, 0, 0), 5, number=lambda x: x.numerator)
    ops = SpatialOperators.from_links(system.parents, system.links)
    assert all(type(x) is int for x in ops.mass_matrix.dense().flat)


def test_a_motion_without_inertia_is_named():
    builder = Builder("flail").body("arm", 1.0, (1.0, 0, 0)).body("tip", 0.0)
    builder.joint("shoulder", "revolute", "world", "arm").joint("wrist", "revolute", "arm", "tip", position=(1, 0, 0))
    with pytest.raises(SingularSystemError, match="'wrist' has no inertia"):
        spatial_operators(builder.build(), [0.1, 0.2]).forward_dynamics(np.zeros(2))


def test_constraints_and_wrong_shapes_are_refused():
    builder = (
        Builder("loop").body("rod", 1.0).joint("pin", "revolute", "world", "rod").constraint("close", "weld", "rod")
    )
    with pytest.raises(UnsupportedError, match=r"'close'.*pass model\.tree"):
        spatial_operators(builder.build(), [0.0])
    with pytest.raises(ShapeError, match=r"q has shape \(2,\), expected \(1,\)"):
        spatial_operators(builder.build().tree, [0.0, 0.0])
    with pytest.raises(ShapeError, match=r"v has shape \(\), expected \(1,\)"):
        spatial_operators(builder.build().tree, [0.0], 0.0)
