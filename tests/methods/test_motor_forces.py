"""Inverse dynamics under constraints: forward dynamics of its forces gives back the motion; its sharing is least."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whippletree as wt
from strategies import make_model, make_motion, motions, seeds, with_loops
from whippletree.constraints.projectors import inverse_dynamics_under_constraints
from whippletree.model import Constraint, Frame

TREES = {
    "chain": ((-1, 0, 1, 2, 3), ("revolute", "universal", "revolute", "prismatic", "revolute")),
    "forked": ((-1, 0, 0, 1, 2), ("free", "revolute", "helical", "revolute", "spherical")),
    "two trees": ((-1, 0, -1, 2, 3), ("revolute", "revolute", "spherical", "revolute", "prismatic")),
}
TIES = {
    "point": [("loop", "point", "b4", "b1", {})],
    "two": [("rod", "point_on_plane", "b4", "world", {}), ("other", "point_on_line", "b3", "b0", {})],
    "switched": [("loop", "point", "b4", "b1", {"switchable": True})],
    "redundant": [("loop", "point", "b4", "b1", {}), ("rod", "point_on_plane", "b4", "world", {})],
}


def looped(tree, tie, light=()):
    parents, kinds = TREES[tree]
    model = make_model(parents, kinds, 11, massless=light)
    motion = make_motion(model, 3)
    return with_loops(model, motion.q, TIES[tie]), motion


def allowed_motion(model, motion, more):
    """v and a that the constraints allow, from random joint forces."""
    ref = wt.reference(model)
    v = ref.project_velocity(motion.q, motion.v, *more)
    return v, ref.forward_dynamics(motion.q, v, motion.tau, *more)


def least_cost(model, q, v, a, motors, costs, A):
    """By NumPy: the reachable part of M a + c along allowed motions, and its cheapest motor forces."""
    ref = wt.reference(model.tree)
    h = ref.inverse_dynamics(q, v, a)
    columns = [i for name in motors for i in range(model.nv)[model.slice(name)]]
    _, s, Vt = np.linalg.svd(A)
    Z = Vt[int(np.sum(s > 1e-9 * s[0])) :].T
    root = np.sqrt(costs[columns])
    reach = Z[columns].T / root
    reach[np.abs(reach) < 1e-12] = 0  # motors inside a loop that cannot move
    u = np.linalg.pinv(reach, rcond=1e-9) @ (Z.T @ h) / root
    reached = np.abs(Z.T @ h - Z[columns].T @ u).max(initial=0) < 1e-8 * (1 + np.abs(h).max())
    tau = np.zeros(model.nv)
    tau[columns] = u
    return tau, reached


@pytest.mark.slow
@pytest.mark.parametrize("light", [(), (False, True, False, False, False)], ids=["heavy", "massless inside"])
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("tree", TREES)
def test_forward_dynamics_of_the_forces_gives_back_the_motion(tree, tie, light):
    model, motion = looped(tree, tie, light)
    more = [np.ones(1)] if tie == "switched" else []
    v, a = allowed_motion(model, motion, more)
    q, ref, dyn = motion.q, wt.reference(model), wt.compile(model)
    A, rng = ref.constraint_jacobian(q), np.random.default_rng(5)
    costs = rng.uniform(0.5, 2, model.nv)
    kappa = wt.diagnose(model, q).condition
    every = tuple(j.name for j in model.joints)
    for motors in (every, every[1:], every[2:], every[:2], ()):
        tau, f, residual = dyn.inverse_dynamics_with_motors(motors)(q, v, a, costs, *more)
        plain = ref.inverse_dynamics_with_motors(motors)(q, v, a, costs, *more)
        scale = 1 + np.abs(np.concatenate([tau, f, residual])).max()
        for x, y in zip((tau, f, residual), plain, strict=True):
            assert np.abs(x - y).max(initial=0) < 1e-9 * scale
        # the definition: nothing is lost
        h = ref.inverse_dynamics(q, v, a)
        assert np.abs(h - tau - A.T @ f - residual).max() < 1e-10 * scale
        idle = [i for i in range(model.nv) if not any(i in range(model.nv)[model.slice(n)] for n in motors)]
        assert not np.any(tau[idle])
        assert not np.any(np.delete(residual, idle).round(9))
        expected, reached = least_cost(model, q, v, a, motors, costs, A)
        if reached:
            assert np.abs(residual).max() < 1e-9 * scale
            assert tau == pytest.approx(expected, abs=1e-9 * scale)
            back = ref.forward_dynamics(q, v, tau, *more)
            assert np.abs(back - a).max() < 1e-10 * max(kappa, 1) * (1 + np.abs(a).max()) * scale
        else:
            assert np.abs(residual).max() > 1e-6


@given(motions(max_size=5), seeds)
@settings(max_examples=25)
def test_without_constraints_it_is_inverse_dynamics_with_motors_where_they_are(case, seed):
    model, (q, v, a, _) = case
    ref = wt.reference(model)
    rng = np.random.default_rng(seed)
    motors = tuple(j.name for j in model.joints if rng.random() < 0.5)
    tau, f, residual = ref.inverse_dynamics_with_motors(motors)(q, v, a, np.ones(model.nv))
    assert f.shape == (0,)
    assert tau + residual == pytest.approx(ref.inverse_dynamics(q, v, a), rel=1e-12, abs=1e-12)
    driven = np.zeros(model.nv, dtype=bool)
    for name in motors:
        driven[model.slice(name)] = True
    assert not np.any(tau[~driven])
    assert not np.any(residual[driven])


def test_exact_on_fractions():
    model = make_model((-1, 0, 1), ("prismatic", "prismatic", "prismatic"), 4, number=Fraction)
    q, v, a, _ = make_motion(model, 2, number=Fraction)
    costs = np.array([Fraction(k + 1, 3) for k in range(3)], dtype=object)
    tau, _, residual = wt.reference(model).inverse_dynamics_with_motors(("j0", "j1"))(q, v, a, costs)
    assert all(isinstance(x, (Fraction, int)) for x in [*tau, *residual])
    assert np.all(tau + residual == wt.reference(model).inverse_dynamics(q, v, a))


@pytest.mark.slow
def test_switches_decide_what_is_missing():
    """In flight a quadruped misses its base's wrench; on its feet, held as constraints, nothing."""
    model = wt.mechanisms.quadruped()
    feet = [g for g in model.geometries if g.kind == "sphere"]
    pose = wt.reference(model).pose
    held, frames = [], list(model.frames)
    for foot in feet:
        frames.append(Frame(f"{foot.name} point", foot.body, foot.pose))
        at = (pose(foot.body)(model.home.q) @ foot.pose)[:3, 3]
        place = np.eye(4)
        place[:3, 3] = at
        frames.append(Frame(f"{foot.name} place", "world", place))
        on = (f"{foot.name} place", f"{foot.name} point")
        held.append(Constraint(f"{foot.name} held", "point", on, {"switchable": True}))
    model = replace(model, frames=tuple(frames), constraints=tuple(held), contacts=())
    legs = tuple(j.name for j in model.joints if j.kind != "free")
    function = wt.compile(model).inverse_dynamics_with_motors(legs)
    zero, costs = np.zeros(model.nv), np.ones(model.nv)
    patterns = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 0], [1, 0, 0, 0]], dtype=float)
    tau, f, residual = function(model.home.q, zero, zero, costs, patterns)
    dyn = wt.compile(model)
    h, A = dyn.bias(model.home.q, zero), dyn.constraint_jacobian(model.home.q)
    for k, pattern in enumerate(patterns):
        assert h == pytest.approx(tau[k] + A.T @ f[k] + residual[k], abs=1e-9)
        assert not np.any(f[k].reshape(4, 3)[pattern == 0])
        lone = function(model.home.q, zero, zero, costs, pattern)
        assert all(np.array_equal(x, y[k]) for x, y in zip(lone, (tau, f, residual), strict=True))
    weight = 9.81 * sum(body.mass for body in model.bodies)
    assert residual[0][3:6] == pytest.approx([0, 0, weight])
    for k in (1, 3):  # on three or four feet the robot stands: motors and feet carry it
        assert residual[k] == pytest.approx(zero, abs=1e-9)
        assert f[k].reshape(4, 3)[:, 2].sum() == pytest.approx(weight)
    assert np.abs(residual[[2, 4]]).max() > 1  # on two feet or one it tips over
    assert residual[4][:6] != pytest.approx(np.zeros(6), abs=1e-6)


def test_forbidden_accelerations_are_corrected_where_motors_notice_least():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    ref, q = wt.reference(model), model.home.q
    wish = np.array([2.0, 0.0, 0.0])  # the crank's alone: the others follow
    tau, f, residual = ref.inverse_dynamics_with_motors(("crank",))(q, np.zeros(3), wish, np.ones(3))
    back = ref.forward_dynamics(q, np.zeros(3), tau)
    assert back[0] == pytest.approx(2.0, abs=1e-11)
    assert np.abs(back[1:]).min() > 0.1
    M, A = ref.mass_matrix(q), ref.constraint_jacobian(q)
    assert M @ wish + ref.bias(q, np.zeros(3)) == pytest.approx(tau + A.T @ f + residual, abs=1e-10)
    # the projector's own function, by singular values, agrees where the motion can be had
    other = inverse_dynamics_under_constraints(model, q, np.zeros(3), back, actuated=["crank"])
    assert other.tau == pytest.approx(tau, abs=1e-10)


@pytest.mark.parametrize("motors", [("crank",), ("crank", "rocker"), ()])
def test_derivatives_are_those_of_differences(motors):
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    dyn, rng = wt.compile(model), np.random.default_rng(1)
    function = dyn.inverse_dynamics_with_motors(motors)
    point = [model.home.q, rng.normal(size=3), rng.normal(size=3), rng.uniform(1, 2, 3)]
    along = [rng.normal(size=3) for _ in point]
    exact = dyn.jvp("inverse_dynamics_with_motors", motors)(*point, *along)
    h = 1e-5
    ahead, behind = (function(*[x + s * h * d for x, d in zip(point, along, strict=True)]) for s in (1, -1))
    for slope, x, y in zip(exact, ahead, behind, strict=True):
        assert slope == pytest.approx((x - y) / (2 * h), abs=1e-6 * (1 + np.abs(slope).max(initial=0)))


def test_in_contact_contacts_and_motors_share():
    model = wt.mechanisms.quadruped()
    dyn, rng = wt.compile(model), np.random.default_rng(2)
    legs = tuple(j.name for j in model.joints if j.kind != "free")
    q, v, a = model.home.q, 0.1 * rng.normal(size=18), 0.1 * rng.normal(size=18)
    costs, contact_costs = rng.uniform(0.5, 2, 18), rng.uniform(0.5, 2, 12)
    tau, _, p, residual = dyn.inverse_dynamics_in_contact(legs)(q, v, a, costs, contact_costs, np.ones(4))
    J, h = dyn.contact_jacobian(q), dyn.inverse_dynamics(q, v, a)
    assert h == pytest.approx(tau + J.T @ p, abs=1e-9)
    assert residual == pytest.approx(np.zeros(18), abs=1e-9)
    # against a quadratic programme of NumPy's: [B Jᵀ] x = h with the least Σ cost x²
    G = np.concatenate([np.eye(18)[:, 6:], J.T], axis=1)
    root = np.sqrt(np.concatenate([costs[6:], contact_costs]))
    x = np.linalg.pinv(G / root) @ h / root
    assert np.concatenate([tau[6:], p]) == pytest.approx(x, abs=1e-9)
    # two feet cannot stop it from tipping; what is missing is said
    touching = np.array([1.0, 0, 0, 1.0])
    tau, _, p, residual = dyn.inverse_dynamics_in_contact(legs)(q, v, a, costs, contact_costs, touching)
    assert h == pytest.approx(tau + J.T @ p + residual, abs=1e-9)
    assert not np.any(p[3:9])
    assert np.count_nonzero(np.abs(residual) > 1e-9) == 1


@pytest.mark.parametrize("motors", [("crank", "rocker"), ("crank", "coupler", "rocker")])
def test_a_full_metric_settles_how_motors_share(motors):
    """The least tauᵀ W tau of all that cause the motion, by NumPy; a diagonal metric is that of costs."""
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    rng, q, v = np.random.default_rng(3), model.home.q, np.zeros(3)
    G = rng.normal(size=(3, 3))
    metric = G @ G.T + 0.1 * np.eye(3)
    ref, dyn = wt.reference(model), wt.compile(model)
    a = ref.forward_dynamics(q, v, [1.0, 2.0, 3.0])
    tau, f, residual = dyn.inverse_dynamics_with_metric(motors)(q, v, a, metric)
    A, h = ref.constraint_jacobian(q), ref.inverse_dynamics(q, v, a)
    assert h == pytest.approx(tau + A.T @ f, abs=1e-11)
    assert residual == pytest.approx(np.zeros(3), abs=1e-11)
    assert ref.forward_dynamics(q, v, tau) == pytest.approx(a, abs=1e-10)
    # every other way to cause it: along what the rows carry in motors alone; the least has no slope there
    columns = [i for name in motors for i in range(3)[model.slice(name)]]
    passive = [i for i in range(3) if i not in columns]
    spare = A.T @ np.linalg.svd(A.T[passive])[2][len(passive) :].T if passive else A.T
    assert spare.T @ metric[:, columns] @ tau[columns] == pytest.approx(np.zeros(spare.shape[1]), abs=1e-10)
    block = metric[np.ix_(columns, columns)]
    other = inverse_dynamics_under_constraints(model, q, v, a, actuated=motors, weights=block)
    assert other.tau == pytest.approx(tau, abs=1e-10)
    costs = rng.uniform(1, 2, 3)
    plain, diagonal = (
        dyn.inverse_dynamics_with_motors(motors)(q, v, a, costs),
        dyn.inverse_dynamics_with_metric(motors)(q, v, a, np.diag(costs)),
    )
    assert all(x == pytest.approx(y, abs=1e-12) for x, y in zip(plain, diagonal, strict=True))


def test_straight_legs_lose_rows_of_motors_and_nothing_else():
    """At a straight leg no motor holds the foot along it; the trunk does, and forces stay what they are nearby."""
    model = wt.mechanisms.quadruped()
    legs = tuple(j.name for j in model.joints if j.kind != "free")
    q = model.home.q.copy()
    for joint in legs:
        if "knee" in joint:
            q[model.q_slice(joint)] = 0
    dyn, zero = wt.compile(model), np.zeros(18)
    tau, _, p, residual = dyn.inverse_dynamics_in_contact(legs)(q, zero, zero, np.ones(18), np.ones(12), np.ones(4))
    h, J = dyn.bias(q, zero), dyn.contact_jacobian(q)
    assert h == pytest.approx(tau + J.T @ p, abs=1e-9)
    assert residual == pytest.approx(zero, abs=1e-9)


def test_an_unknown_joint_is_named():
    model = wt.mechanisms.four_bar()
    with pytest.raises(wt.NameLookupError, match="there is no joint 'crnk'"):
        wt.compile(model).inverse_dynamics_with_motors(("crnk",))(model.home.q, [0] * 3, [0] * 3, [1] * 3)


@given(st.integers(0, 5))
def test_a_batch_is_its_elements(seed):
    model = wt.mechanisms.crank_slider(rod_mass=0.0)
    rng = np.random.default_rng(seed)
    q = np.stack([wt.assemble(model, hold={"crank": x}) for x in rng.uniform(0.2, 1.2, 4)])
    a, costs = rng.normal(size=(4, 3)), np.ones(3)
    function = wt.compile(model).inverse_dynamics_with_motors(("crank", "slider"))
    many = function(q, np.zeros(3), a, costs)
    for k in range(4):
        for x, y in zip(function(q[k], np.zeros(3), a[k], costs), many, strict=True):
            assert np.array_equal(x, y[k])
