"""One random mechanism through every route that leads to the same answer."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import whippletree as wt
from methods.closeness import close, residual_scale
from strategies import Random, motions
from whippletree.arithmetic import linalg
from whippletree.tree import forward, inertia, inverse
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.operators import spatial_operators


def evaluated(model, motion):
    """The tree's own functions work on fields: the mechanism, its links in motion, and a and tau joint by joint."""
    m = Mechanism.of(model)
    q, v, a, tau = (x.astype(object) for x in motion)
    return m, m.moving(q, v), m.velocities(a), m.velocities(tau)


@given(motions())
def test_inverse_dynamics(case):
    """Newton–Euler = composite bodies = M a + c = the operators of document 002."""
    model, motion = case
    q, v, a, _ = motion
    ref, ops = wt.reference(model), spatial_operators(model, q, v)
    m, links, qdd, _ = evaluated(model, motion)
    tau, M, c = ref.inverse_dynamics(q, v, a), ref.mass_matrix(q), ref.bias(q, v)
    scale = residual_scale(M, a, c)
    close(m.join(inverse.inverse_dynamics_by_composites(m.sweep, links, qdd, m.base)), tau, scale)
    close(M @ a + c, tau, scale)
    close(ops.inverse_dynamics(a), tau, scale)
    close(ops.bias, c, scale)


@given(motions())
def test_mass_matrix(case):
    """Composite inertias = columns of inverse dynamics = H φ M φ* H* + J = its decomposition and its factors."""
    model, (q, *_) = case
    m = Mechanism.of(model)
    M, ops = wt.reference(model).mass_matrix(q), spatial_operators(model, q)
    close(M, M.T, ulps=0)
    close(inertia.mass_matrix_columns(m.tree, m.sweep, m.still(q.astype(object))), M)
    for route in (ops.mass_matrix, ops.mass_matrix_decomposition, ops.mass_matrix_innovations):
        close(route.dense(), M)


@given(motions())
def test_forward_dynamics(case):
    """O(N) = O(N²) = M⁻¹ (tau − c) by three factorisations = the operators, each by its backward error."""
    model, motion = case
    q, v, _, tau = motion
    ref = wt.reference(model)
    m, links, _, forces = evaluated(model, motion)
    M, c = ref.mass_matrix(q), ref.bias(q, v)
    routes = {
        "O(N)": ref.forward_dynamics(q, v, tau),
        "O(N²)": forward.forward_dynamics_squared(m.sweep, links, forces, m.base),
        "tree-sparse LᵀDL": linalg.tree_ltdl(M, m.tree.velocity_parents).solve(tau - c),
        "LDLᵀ": linalg.ldlt(M).solve(tau - c),
        "Cholesky": cholesky_solve(M, tau - c),
        "M⁻¹ b without M": ref.mass_matrix_solve(q, tau - c),
        "M⁻¹": ref.mass_matrix_inverse(q) @ (tau - c),
        "operators": spatial_operators(model, q, v).forward_dynamics(tau),
    }
    condition = np.linalg.cond(M) if len(M) else 1
    for name, a in routes.items():
        a = a.astype(float)
        scale = residual_scale(M, a, c, tau)
        # the explicit inverse is the only route that is not backward stable
        close(M @ a + c, tau, scale * (condition if name == "M⁻¹" else 1))


def cholesky_solve(M, b):
    L = linalg.cholesky(M.astype(object)).astype(float)
    return np.linalg.solve(L.T, np.linalg.solve(L, b)) if len(M) else b


@given(motions(), st.integers(0, 2**16))
def test_hybrid_dynamics(case, seed):
    """Any set of joints may be prescribed; the outcome satisfies M a + c = tau and keeps what was given."""
    model, (q, v, a, tau) = case
    rng = Random(seed)
    chosen = tuple(joint.name for joint in model.joints if rng.random() < 0.5)
    fixed = np.zeros(model.nv, dtype=bool)
    for name in chosen:
        fixed[model.slice(name)] = True
    ref = wt.reference(model)
    found_a, found_tau = ref.hybrid_dynamics(chosen)(q, v, np.where(fixed, a, tau))
    close(found_a[fixed], a[fixed], ulps=0)
    close(found_tau[~fixed], tau[~fixed], ulps=0)
    scale = residual_scale(ref.mass_matrix(q), found_a, ref.bias(q, v), found_tau)
    close(ref.inverse_dynamics(q, v, found_a), found_tau, scale)


@given(motions())
def test_hybrid_dynamics_at_its_ends(case):
    """No joint prescribed is forward dynamics, every joint prescribed is inverse dynamics."""
    model, (q, v, a, tau) = case
    ref = wt.reference(model)
    everything = tuple(joint.name for joint in model.joints)
    free_a, _ = ref.hybrid_dynamics(())(q, v, tau)
    _, forced = ref.hybrid_dynamics(everything)(q, v, a)
    close(free_a, ref.forward_dynamics(q, v, tau))
    close(forced, ref.inverse_dynamics(q, v, a), residual_scale(ref.mass_matrix(q), a, ref.bias(q, v)))


@given(motions())
def test_inverse_of_the_mass_matrix(case):
    """M⁻¹ from its tree-sparse factors = [1 − HψK]* D⁻¹ [1 − HψK], and it is an inverse."""
    model, (q, *_) = case
    ref = wt.reference(model)
    M, inverted = ref.mass_matrix(q), ref.mass_matrix_inverse(q)
    condition = np.linalg.cond(M) if len(M) else 1
    scale = np.abs(inverted).max(initial=0) * condition
    close(spatial_operators(model, q).mass_matrix_inverse.dense(), inverted, scale)
    close(M @ inverted, np.eye(model.nv), condition)


@given(motions())
def test_operational_inertia(case):
    """J M⁻¹ Jᵀ without M = by matrices."""
    model, (q, *_) = case
    ref = wt.reference(model)
    J, M = ref.jacobian("tool")(q), ref.mass_matrix(q)
    felt = ref.operational_inertia_inverse("tool")(q)
    condition = np.linalg.cond(M) if len(M) else 1
    close(felt, J @ ref.mass_matrix_inverse(q) @ J.T, np.abs(felt).max() * condition)


@given(motions(kinds=("free", "spherical", "universal")))
def test_operational_inertia_is_an_inverse_where_six_freedoms_move_the_frame(case):
    model, (q, *_) = case
    ref = wt.reference(model)
    assume(np.linalg.matrix_rank(ref.jacobian("tool")(q)) == 6)
    felt = ref.operational_inertia_inverse("tool")(q)
    close(ref.operational_inertia("tool")(q) @ felt, np.eye(6), np.linalg.cond(felt))


@given(motions())
def test_jacobian(case):
    """J v = the twist of the scatter, and = the operators' B* φ* H* θ̇."""
    model, (q, v, *_) = case
    ref, ops = wt.reference(model), spatial_operators(model, q, v)
    for body in model.bodies:
        J, V = ref.jacobian(body.name)(q), ref.twist(body.name)(q, v)
        scale = np.abs(J) @ np.abs(v)
        close(J @ v, V, scale.max())
        close(ops.jacobian(body.name).dense(), J)


@given(motions())
def test_external_wrench_acts_through_the_jacobian(case):
    model, (q, v, _, tau) = case
    wrench = np.array([0.3, -0.7, 1.1, 2.0, -1.0, 0.4])
    ref = wt.reference(model)
    J, M = ref.jacobian("tool")(q), ref.mass_matrix(q)
    pushed = ref.forward_dynamics_with_wrench("tool")(q, v, tau, wrench)
    scale = residual_scale(M, pushed, ref.bias(q, v), tau, np.abs(J.T) @ np.abs(wrench))
    close(ref.inverse_dynamics(q, v, pushed), tau + J.T @ wrench, scale)


@given(motions())
def test_interbody_forces(case):
    """Their component along a joint's freedoms is the joint's force; the operators find the same wrenches."""
    model, (q, v, a, _) = case
    ref = wt.reference(model)
    forces, tau = ref.interbody_forces(q, v, a), ref.inverse_dynamics(q, v, a)
    scale = np.abs(forces).max(initial=0) + np.abs(tau).max(initial=0)
    for body, joint, kind, f in zip(model.bodies, model.joints, model.joint_types, forces):
        if joint.kind != "weld":
            at, part = model.q_slice(joint.name), model.slice(joint.name)
            H = np.array(kind.subspace(q[at].astype(object)), dtype=float)
            close(H.T @ f + joint.armature * a[part], tau[part], scale)
            theirs = spatial_operators(model, q, v).forces(a).reshape(-1, 6)[model.body_index(body.name)]
            close(f, theirs.astype(float), scale)


def inertial_parameters(body):
    """mass, mass · centre, and the six inertias about the body's frame."""
    c, I = np.array(body.center), np.array(body.inertia)
    about_frame = I + body.mass * (np.eye(3) * (c @ c) - np.multiply.outer(c, c))
    xx, xy, xz, yy, yz, zz = about_frame[np.triu_indices(3)]
    return [body.mass, *(body.mass * c), xx, xy, yy, xz, yz, zz]


@given(motions())
def test_regressor(case):
    """tau = Y π plus the rotors' share, for the parameters of the bodies as the model has them.

    The rotor of a free joint resists along its parent's axes: J (v̇ + ω × v) of the linear velocity.
    """
    model, (q, v, a, _) = case
    ref = wt.reference(model)
    Y = ref.regressor(q, v, a)
    pi = np.array([x for body in model.bodies for x in inertial_parameters(body)])
    rotors, rate = np.zeros(model.nv), np.array(a)
    for joint, part in zip(model.joints, model.v_slices):
        rotors[part] = joint.armature
        if joint.kind == "free":
            rate[part][3:] += np.cross(v[part][:3], v[part][3:])
    close(Y @ pi + rotors * rate, ref.inverse_dynamics(q, v, a), np.abs(Y) @ np.abs(pi) + np.abs(rotors * rate))


@given(motions())
def test_centroidal_momentum_is_the_momentum_seen_from_the_centre_of_mass(case):
    model, (q, v, *_) = case
    assume(model.nv)
    ref = wt.reference(model)
    at_origin, center = ref.momentum(q, v), ref.center_of_mass(q)
    A = ref.centroidal_momentum_matrix(q)
    linear = at_origin[3:]
    expected = np.concatenate([at_origin[:3] - np.cross(center, linear), linear])
    close(A @ v, expected, (np.abs(A) @ np.abs(v)).max() + np.abs(at_origin).max() * (1 + np.abs(center).max()))


@given(motions())
def test_kinetic_energy_is_half_of_v_M_v(case):
    model, (q, v, *_) = case
    ref = wt.reference(model)
    close(ref.kinetic_energy(q, v), v @ ref.mass_matrix(q) @ v / 2)


@given(motions())
def test_batches_are_states_one_by_one(case):
    model, (q, v, a, tau) = case
    ref = wt.reference(model)
    batch = ref.forward_dynamics(np.stack([q, q])[:, None], v, np.stack([tau, a, 2 * tau]))
    assert batch.shape == (2, 3, model.nv)
    close(batch[1, 2], ref.forward_dynamics(q, v, 2 * tau), ulps=0)
