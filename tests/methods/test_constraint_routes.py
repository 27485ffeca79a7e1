"""One constrained system through every route: exact on Fractions, 50 digits, floats, compiled; massless, redundant,
singular."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from strategies import digits, full_rank, make_model, make_motion, positive_definite, rationals, seeds, with_loops
from whippletree import functions
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON
from whippletree.constraints import dynamics, kkt
from whippletree.model import Constraint, State
from whippletree.tree.mechanism import Mechanism

CHAIN = (-1, 0, 1, 2, 3, 4, 5, 6)
"""A tree of velocities in which all are related: a dense mass matrix."""


def rational_case(seed, n, m, lost):
    """M (n, n) of rank n − lost and A (m, n) of full row rank with condition (32); b and γ. All rational."""
    rng = Random(seed)
    G = full_rank(rng, n, n - lost) if n > lost else np.zeros((n, 0), dtype=object)
    M = G @ positive_definite(rng, n - lost) @ G.T if n > lost else np.zeros((n, n), dtype=object) * Fraction(0)
    A = full_rank(rng, n, m).T
    return M, A, rationals(rng, n), rationals(rng, m)


def has_condition_32(M, A):
    stacked = np.concatenate([M, A]).astype(float)
    return np.linalg.matrix_rank(stacked, tol=1e-9) == len(M)


sizes = st.tuples(st.integers(1, 6), st.integers(0, 5), st.integers(0, 3)).filter(lambda s: s[2] <= s[1] <= s[0])


def identities(M, A, dagger):
    """What (9) to (17) of document 000 leave over; all zero."""
    n, m = len(M), len(A)
    Md, Ad, Ld = dagger
    eye = np.eye(max(n, m), dtype=int)
    return [
        M @ Md + A.T @ Ad - eye[:n, :n],
        Md @ M + Ad.T @ A - eye[:n, :n],
        M @ Ad.T + A.T @ Ld,
        Ad @ M + Ld @ A,
        A @ Md,
        Md @ A.T,
        A @ Ad.T - eye[:m, :m],
        Ad @ A.T - eye[:m, :m],
        Md - Md.T,
        Ld - Ld.T,
        Ld + Ad @ M @ Ad.T,
    ]


def largest(array):
    return max((abs(x) for x in np.ravel(array)), default=0)


@given(seeds, sizes)
def test_routes_agree_exactly_on_fractions(seed, shape):
    M, A, b, gamma = rational_case(seed, *shape)
    if not has_condition_32(M, A):
        return
    routes = {"block": kkt.block(M, A), "augmented": kkt.augmented(M, A)}
    if shape[2] == 0:
        routes["schur"] = kkt.schur(M, A, CHAIN[: shape[0]])
    for scale in (Fraction(1, 1000), Fraction(1000)):
        squares = np.array([row @ row for row in A], dtype=object)
        routes[f"augmented {scale}"] = kkt.augmented(M, A, kkt.row_scales(M, squares, scale))
    expected = routes["block"].solve(b, gamma)
    for factor in routes.values():
        found = factor.solve(b, gamma)
        assert (found.a == expected.a).all()
        assert (found.f == expected.f).all()
        dagger = kkt.dagger(factor, len(M), len(A))
        assert all((left == 0).all() for left in identities(M, A, dagger))


@given(seeds, sizes)
def test_null_spaces_have_the_size_that_16_and_17_say(seed, shape):
    n, m, lost = shape
    M, A, *_ = rational_case(seed, *shape)
    if not has_condition_32(M, A):
        return
    Md, _, Ld = (x.astype(float) for x in kkt.dagger(kkt.augmented(M, A), n, m))
    assert np.linalg.matrix_rank(Md, tol=1e-9 * max(1.0, np.abs(Md).max())) == n - m
    assert (np.linalg.eigvalsh(Md) > -1e-9 * max(1.0, np.abs(Md).max())).all()
    if m:
        assert np.linalg.matrix_rank(Ld, tol=1e-9 * max(1.0, np.abs(Ld).max())) == m - lost
        assert (np.linalg.eigvalsh(Ld) < 1e-9 * max(1.0, np.abs(Ld).max())).all()


@given(seeds, sizes)
def test_rank_revealing_route_in_fifty_digits(seed, shape):
    M, A, b, gamma = rational_case(seed, *shape)
    if not has_condition_32(M, A):
        return
    expected = kkt.block(M, A).solve(b, gamma)
    with mpmath.workdps(50):
        numbers = [np.vectorize(lambda x: digits(Fraction(x)), otypes=[object])(x) for x in (M, A, b, gamma)]
        factor = kkt.nullspace(numbers[0].reshape(M.shape), numbers[1].reshape(A.shape), mpmath.mpf(10) ** -20)
        found = factor.solve(numbers[2], numbers[3].reshape(gamma.shape))
        size = 1 + largest(expected.a) + largest(expected.f)
        assert largest([x - digits(Fraction(y)) for x, y in zip(found.a, expected.a)]) < 1e-35 * size
        assert largest([x - digits(Fraction(y)) for x, y in zip(found.f, expected.f)]) < 1e-35 * size


@given(seeds, st.integers(2, 5))
def test_redundant_rows_share_their_force_in_the_least_norm_sense(seed, n):
    """Rows that repeat others change neither the acceleration nor Aᵀ f; the sum of squares becomes least."""
    M, A, b, gamma = rational_case(seed, n, n - 1, 0)
    mix = rationals(Random(seed + 1), 2, n - 1)
    more, bias = np.concatenate([A, mix @ A]), np.concatenate([gamma, mix @ gamma])
    single = kkt.block(M, A).solve(b, gamma)
    found = kkt.nullspace(M.astype(float).astype(object), more.astype(float).astype(object), 1e-10)
    assert found.rank == n - 1
    a, f = found.solve(b.astype(float), bias.astype(float))
    scale = 1 + largest(single.a.astype(float)) + largest(single.f.astype(float))
    assert largest(a - single.a.astype(float)) < 1e-7 * scale
    least = np.linalg.lstsq(more.astype(float).T, (A.T @ single.f).astype(float), rcond=1e-10)[0]
    assert largest(f - least) < 1e-6 * scale


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_answer_does_not_depend_on_the_scale_of_rho(scale):
    rng = np.random.default_rng(5)
    G = rng.normal(size=(6, 4))
    M, A = (G @ G.T).astype(object), rng.normal(size=(3, 6)).astype(object)
    b, gamma = rng.normal(size=6), rng.normal(size=3)
    squares = np.array([row @ row for row in A], dtype=object)
    found = kkt.augmented(M, A, kkt.row_scales(M, squares, scale)).solve(b, gamma)
    expected = kkt.block(M, A).solve(b, gamma)
    assert largest(found.a - expected.a) < 1e-11
    assert largest(found.f - expected.f) < 1e-11


# --- mechanisms -------------------------------------------------------------------------------------------------------


def by_route(model, route, q, v, tau):
    mechanism = Mechanism.of(model)
    mechanism.route = route
    a, f = dynamics.solve(mechanism, *[x.astype(object) for x in (q, v, tau)], 0, None)
    return a.astype(float), f.astype(float)


TREES = {
    "chain": ((-1, 0, 1, 2, 3), ("revolute", "universal", "revolute", "prismatic", "revolute")),
    "forked": ((-1, 0, 0, 1, 2), ("free", "revolute", "helical", "revolute", "spherical")),
    "two trees": ((-1, 0, -1, 2, 3), ("revolute", "revolute", "spherical", "revolute", "prismatic")),
}
MASSLESS = {"all heavy": (), "light inside": (False, True, False, False, False), "light tip": None}
TIES = {
    "point": [("loop", "point", "b4", "b1", {})],
    "rod to the world": [("rod", "point_on_plane", "b4", "world", {}), ("other", "point_on_line", "b3", "b0", {})],
    "doubled": [("loop", "point", "b4", "b1", {}), ("again", "point", "b4", "b1", {})],
}


@pytest.mark.slow
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("light", MASSLESS)
@pytest.mark.parametrize("tree", TREES)
def test_one_mechanism_through_every_route(tree, light, tie):
    parents, kinds = TREES[tree]
    tip = light == "light tip"
    model = make_model(parents, kinds, 11, massless=MASSLESS[light] or ())
    if tip:
        # nothing but the loop gives the last link's motion inertia
        bodies = [replace(b, mass=0.0, inertia=0 * b.inertia) if b.name == "b4" else b for b in model.bodies]
        joints = [replace(j, rotor_inertia=0.0) if j.name == "j4" else j for j in model.joints]
        model = replace(model, bodies=tuple(bodies), joints=tuple(joints))
    motion = make_motion(model, 3)
    ties = TIES["doubled"] if tie == "doubled" else TIES[tie]
    model = with_loops(model, motion.q, ties)
    if tie == "doubled":  # the second tie is a copy of the first, at the same frames
        first = model.constraints[0]
        model = replace(model, constraints=(first, replace(first, name="again")))
    ref, dyn = wt.reference(model), wt.compile(model)
    if tip and wt.diagnose(model, motion.q).massless:
        # a light tip that the loop cannot carry: named, not computed
        with pytest.raises(wt.SingularSystemError, match="'b4' about joint 'j4'"):
            ref.project_velocity(motion.q, motion.v)
        return
    v = ref.project_velocity(motion.q, motion.v)
    heavy = not Mechanism.of(model).tree.doubtful
    expected, forces = by_route(model, "block", motion.q, v, motion.tau)
    scale = 1 + np.abs(expected).max()
    kappa = wt.diagnose(model, motion.q).condition
    for route in ("augmented", "nullspace", "elimination", None, *(["schur"] if heavy else [])):
        a, f = by_route(model, route, motion.q, v, motion.tau)
        np.testing.assert_allclose(a, expected, atol=1e-11 * kappa * scale, rtol=0)
        np.testing.assert_allclose(f, forces, atol=1e-9 * kappa * (1 + np.abs(forces).max()), rtol=0)
    compiled = dyn.forward_dynamics(motion.q, v, motion.tau)
    np.testing.assert_allclose(compiled, expected, atol=1e-11 * kappa * scale, rtol=0)
    f = dyn.constraint_forces(motion.q, v, motion.tau)
    A = ref.constraint_jacobian(motion.q)
    left = ref.mass_matrix(motion.q) @ compiled + ref.bias(motion.q, v) - motion.tau - A.T @ f
    assert np.abs(left).max() < 1e-9 * kappa * scale
    assert np.abs(A @ compiled + ref.constraint_bias(motion.q, v)).max() < 1e-10 * kappa * scale
    redundant = wt.constraint_set(model).structure.redundant
    assert (f[list(redundant)] == 0).all()
    assert bool(redundant) == (tie == "doubled")


def test_least_norm_forces_over_redundant_rows():
    """A coupler on two equal pins: the work is the same, the forces are halved, or shared as the weights say."""
    model = wt.mechanisms.four_bar()
    pin = model.constraints[0]
    model = replace(model, constraints=(pin, replace(pin, name="second pin")))
    q = wt.assemble(model, hold={"crank": 1.0})
    ref = wt.reference(model)
    assert wt.constraint_set(model).named(wt.constraint_set(model).structure.redundant) == (
        "second pin.x",
        "second pin.y",
    )
    single = ref.constraint_forces(q, np.zeros(3), np.zeros(3))
    even = ref.constraint_forces_least_norm(q, np.zeros(3), np.zeros(3), np.ones(4))
    np.testing.assert_allclose(even, np.tile(single[:2] / 2, 2), atol=1e-12)
    uneven = ref.constraint_forces_least_norm(q, np.zeros(3), np.zeros(3), [1, 1, 3, 3])
    np.testing.assert_allclose(uneven, np.concatenate([single[:2] * 3 / 4, single[:2] / 4]), atol=1e-12)


def test_switches_cost_no_new_model():
    """Off, a constraint is as if it had never been; on, as if it had always been."""
    model = wt.mechanisms.four_bar()
    pin = model.constraints[0]
    switchable = replace(model, constraints=(replace(pin, parameters={**pin.parameters, "switchable": True}),))
    q, v, tau = model.home.q, np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, 3.0])
    for make in (wt.reference, wt.compile):
        dyn, tied, loose = make(switchable), make(model), make(model.tree)
        np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau, [1.0]), tied.forward_dynamics(q, v, tau), atol=1e-12)
        np.testing.assert_allclose(
            dyn.forward_dynamics(q, v, tau, [0.0]), loose.forward_dynamics(q, v, tau), atol=1e-12
        )
        assert (dyn.constraint_forces(q, v, tau, active=[0.0]) == 0).all()


def test_compliance_is_the_lower_right_block():
    """[M Aᵀ; A −C]: the same by the Schur complement, by elimination, and by the literal block matrix."""
    model = wt.mechanisms.crank_slider(rod_mass=0.5)
    soft = replace(model, constraints=(replace(model.constraints[0], parameters={"compliance": 0.01}),))
    q, v, tau = model.home.q, np.zeros(3), np.array([1.0, 0.0, -2.0])
    expected, forces = by_route(soft, "block", q, v, tau)
    for route in ("schur", "augmented", "nullspace", "elimination", None):
        a, f = by_route(soft, route, q, v, tau)
        np.testing.assert_allclose(a, expected, atol=1e-11)
        np.testing.assert_allclose(f, forces, atol=1e-11)
    A = wt.reference(soft).constraint_jacobian(q)
    np.testing.assert_allclose(A @ expected, -0.01 * forces, atol=1e-11)


def yielding(model, kind, compliance=0.02):
    """The model with compliant closures of another kind; of a hinge in a plane three rows feel no joint."""
    soft = [replace(c, kind=kind, parameters={"axis": (0, 0, 1), "compliance": compliance}) for c in model.constraints]
    return replace(model, constraints=tuple(soft))


@pytest.mark.parametrize("cells", [1, 3, 25])
def test_compliant_rows_that_no_joint_feels(cells):
    """Planar loops closed by compliant spatial hinges: [M Aᵀ; A −C] by NumPy, and the motion of compliant pins."""
    linkage = wt.mechanisms.four_bar_chain(cells)
    model, planar = yielding(linkage, "hinge"), yielding(linkage, "pin")
    q, v, tau = model.home.q, np.zeros(model.nv), np.linspace(-1.0, 2.0, model.nv)
    ref = wt.reference(model)
    M, A = (np.asarray(x, dtype=float) for x in (ref.mass_matrix(q), ref.constraint_jacobian(q)))
    assert (np.abs(A).max(axis=1) < 1e-14).sum() == 3 * cells
    K = np.block([[M, A.T], [A, -0.02 * np.eye(len(A))]])
    a, f = np.split(np.linalg.solve(K, np.concatenate([tau - ref.bias(q, v), -ref.constraint_bias(q, v)])), [model.nv])
    limit = 1e-13 * np.linalg.cond(K)
    for make, route in ((wt.reference, None), (wt.compile, None), (wt.compile, "embedding")):
        dyn = make(model, route=route)
        np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau), a, rtol=0, atol=limit)
        np.testing.assert_allclose(dyn.constraint_forces(q, v, tau), -f, rtol=0, atol=limit * np.abs(f).max())
        np.testing.assert_allclose(make(planar, route=route).forward_dynamics(q, v, tau), a, rtol=0, atol=limit)
    assert wt.diagnose(model).fine


def test_compliant_rows_keep_their_force_in_the_least_norm():
    """Of rows that repeat each other the rigid ones share their force; a compliant one yields by its own."""
    model = wt.mechanisms.four_bar()
    pin = model.constraints[0]
    rigid = replace(pin, kind="hinge", parameters={"axis": (0, 0, 1)})
    again, softly = replace(pin, name="again"), replace(pin, name="soft", kind="point", parameters={"compliance": 0.05})
    model = replace(model, constraints=(rigid, again, softly))
    q, v, tau = model.home.q, np.zeros(3), np.array([1.0, 2.0, 3.0])
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 5.0, 1.0, 1.0, 1.0])
    for dyn in (wt.reference(model), wt.compile(model)):
        f, A = dyn.constraint_forces(q, v, tau), dyn.constraint_jacobian(q)
        shared = dyn.constraint_forces_least_norm(q, v, tau, weights)
        np.testing.assert_allclose(A.T @ shared, A.T @ f, atol=1e-11)
        np.testing.assert_allclose(shared[7:], f[7:], atol=1e-11)
        root = np.sqrt(weights[:7])
        least = np.linalg.lstsq(A[:7].T / root, A[:7].T @ f[:7], rcond=1e-9)[0] / root
        np.testing.assert_allclose(shared[:7], least, atol=1e-10)


def test_reduced_mass_matrix_and_allowed_motions():
    for model in (wt.mechanisms.stewart_platform(), wt.mechanisms.crank_slider()):
        ref, q = wt.reference(model), model.home.q
        B, M = ref.allowed_motions(q), ref.mass_matrix(q)
        assert np.abs(ref.constraint_jacobian(q) @ B).max() < 1e-12
        np.testing.assert_allclose(ref.reduced_mass_matrix(q), B.T @ M @ B, atol=1e-11)
        np.testing.assert_allclose(B[list(wt.constraint_set(model).free)], np.eye(B.shape[1]), atol=1e-12)


def test_impact_and_velocity_step():
    """000: v⁺ = v − (1 + e) A†ᵀ A v; 003 with its sign put right. Impulses do what they say."""
    model = wt.mechanisms.crank_slider()
    ref, q = wt.reference(model), model.home.q
    v, tau = np.array([1.0, -2.0, 0.5]), np.array([0.3, -0.2, 0.1])
    M, A = ref.mass_matrix(q), ref.constraint_jacobian(q)
    _, Ad, _ = ref.dagger(q)
    after, impulses = ref.impact(q, v, 0.4)
    np.testing.assert_allclose(after, v - 1.4 * Ad.T @ A @ v, atol=1e-13)
    np.testing.assert_allclose(M @ (after - v), A.T @ impulses, atol=1e-13)
    np.testing.assert_allclose(A @ after, -0.4 * A @ v, atol=1e-13)
    after, impulses = ref.velocity_step(q, v, tau, 0.01)
    np.testing.assert_allclose(M @ (after - v), 0.01 * (tau - ref.bias(q, v)) + A.T @ impulses, atol=1e-13)
    np.testing.assert_allclose(A @ after, 0, atol=1e-13)
    heavy = wt.reference(wt.mechanisms.crank_slider(rod_mass=1.0))
    S = heavy.delassus(q)
    np.testing.assert_allclose(heavy.apparent_inertia(q) @ S, np.eye(2), atol=1e-12)


def test_branch_through_a_dead_point():
    """At the singular configuration the rows do not determine the acceleration; the velocity's branch does."""
    for n in (1, 2, 4):
        model = wt.mechanisms.n_four_bar(n)
        ref = wt.reference(model)
        q, v = np.zeros(model.nv), model.home.v.copy()
        expected = -((n + 1) / 2 + n) * 9.81 / ((n + 1) / 3 + n)
        a = ref.forward_dynamics(q, v, np.zeros(model.nv))
        np.testing.assert_allclose(a[model.slice("side_0")], expected, rtol=1e-10)
        assert wt.diagnose(model, q).mobility > 1


@pytest.mark.parametrize("away", [1e-3, 1e-5, 1e-7, 1e-9])
def test_no_digits_are_lost_near_a_dead_point(away):
    model = wt.mechanisms.n_four_bar(2)
    ref = wt.reference(model)
    q = np.array([{"s": away, "c": -away}[j.name[0]] for j in model.joints])
    a = ref.forward_dynamics(q, -model.home.v, np.zeros(model.nv))
    expected = -3.5 * 9.81 * np.cos(away) / 3
    np.testing.assert_allclose(a[model.slice("side_0")], expected, rtol=3e-6)
    if away >= 1e-5:
        np.testing.assert_allclose(a[model.slice("side_0")], expected, rtol=1e-9)


def tied_chain(n, ties):
    """A chain of n rods in a zigzag, pinned to the world at a few rods."""
    model = wt.mechanisms.chain(n)
    q = np.where(np.arange(n) % 2, -0.6, 0.6)
    q[0] = 0.3
    every = [f"rod_{k * n // ties}" for k in range(1, ties + 1)]
    return with_loops(model, q, [(f"tie {k}", "pin", "world", body, {}) for k, body in enumerate(every)]), q


def test_long_systems_need_no_mass_matrix():
    model, q = tied_chain(40, 3)
    v, tau = np.zeros(40), np.linspace(-1, 1, 40)
    expected = by_route(model, "schur", q, v, tau)
    for found, other in zip(by_route(model, "recursion", q, v, tau), expected, strict=True):
        np.testing.assert_allclose(found, other, atol=1e-8 * np.abs(other).max())


@pytest.mark.slow
def test_long_systems_take_that_route_by_themselves():
    model, q = tied_chain(260, 5)
    assert wt.diagnose(model, q).route == "recursion"
    ref = wt.reference(model)
    a = ref.forward_dynamics(q, np.zeros(260), np.zeros(260))
    f = ref.constraint_forces(q, np.zeros(260), np.zeros(260))
    left = ref.inverse_dynamics(q, np.zeros(260), a) - ref.constraint_jacobian(q).T @ f
    assert np.abs(left).max() < 1e-8 * np.abs(ref.bias(q, np.zeros(260))).max()


@pytest.mark.slow
@given(seeds)
def test_a_whole_mechanism_is_exact_on_fractions(seed):
    """Rational joints, a rational state: accelerations and forces meet their equations with nothing left over."""
    model = make_model((-1, 0, 1, 1), ("spherical", "prismatic", "spherical", "prismatic"), seed, number=Fraction)
    ties = tuple(Constraint(f"plane {b}", "point_on_plane", ("world", b)) for b in ("b2", "b3"))
    model = replace(model, constraints=ties)
    q, v, _, tau = make_motion(model, seed, number=Fraction)
    ref = wt.reference(model)
    a, f = ref.forward_dynamics(q, v, tau), ref.constraint_forces(q, v, tau)
    A = ref.constraint_jacobian(q)
    assert all(isinstance(x, Fraction) for x in a)
    assert (ref.inverse_dynamics(q, v, a) - tau - A.T @ f == 0).all()
    assert (A @ a + ref.constraint_bias(q, v) == 0).all()


def test_a_planar_loop_closed_by_a_spatial_hinge_has_three_redundant_rows():
    planar = wt.mechanisms.four_bar()
    model = replace(planar, constraints=(Constraint("pin", "hinge", ("rocker end", "coupler end")),))
    system = wt.constraint_set(model)
    assert system.named(system.structure.redundant) == ("pin.tilt_u", "pin.tilt_v", "pin.z")
    assert system.structure.mobility == 1
    q, v, tau = model.home.q, np.zeros(3), np.array([1.0, 0.0, 0.0])
    for make in (wt.reference, wt.compile):
        np.testing.assert_allclose(
            make(model).forward_dynamics(q, v, tau), make(planar).forward_dynamics(q, v, tau), atol=1e-12
        )


def test_switchable_rows_that_repeat_each_other():
    """Each alone is a good row, so both are kept; together the compiled route reports them, the reference goes on."""
    planar = wt.mechanisms.four_bar()
    pin = planar.constraints[0]
    twins = tuple(replace(pin, name=name, parameters={"switchable": True}) for name in ("one", "two"))
    model = replace(planar, constraints=twins)
    system = wt.constraint_set(model)
    assert system.named(system.structure.conditional) == ("two.x", "two.y")
    q, v, tau = planar.home.q, np.zeros(3), np.array([1.0, 0.0, 0.0])
    expected = wt.reference(planar).forward_dynamics(q, v, tau)
    ref, dyn = wt.reference(model), wt.compile(model)
    for active in ([1.0, 0.0], [0.0, 1.0]):
        np.testing.assert_allclose(ref.forward_dynamics(q, v, tau, active), expected, atol=1e-12)
        np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau, active), expected, atol=1e-12)
    np.testing.assert_allclose(ref.forward_dynamics(q, v, tau, [1.0, 1.0]), expected, atol=1e-12)
    np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau, [1.0, 1.0]), expected, atol=1e-12)
    assert dyn.forward_dynamics.status == ANSWERED_IN_PYTHON


def test_the_order_of_bodies_hardly_costs():
    """Massless legs are eliminated one after the other, whether the platform is declared before or after them."""
    first = wt.mechanisms.stewart_platform(leg_mass=0.0)
    moved = [*range(1, len(first.bodies)), 0]
    last = replace(
        first,
        bodies=tuple(first.bodies[k] for k in moved),
        joints=tuple(first.joints[k] for k in moved),
        start=State(np.roll(first.start.q, -7), np.zeros(first.nv)),
    )
    counts = [unrolled_program(m, functions.find("forward_dynamics")).body[0].code.operations for m in (first, last)]
    assert max(counts) < 9500  # 21 000 if every leg were coupled to every other
    push = np.arange(24.0)
    expected = wt.reference(first).forward_dynamics(first.home.q, np.zeros(24), push)
    found = wt.reference(last).forward_dynamics(last.home.q, np.zeros(24), np.roll(push, -6))
    np.testing.assert_allclose(np.roll(found, 6), expected, atol=1e-11)
