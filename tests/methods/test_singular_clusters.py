"""A loop whose rows depend on each other at a state, among loops whose rows do not: it alone takes the rank-revealing
route, and the answer is that of the whole block matrix."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import whippletree as wt
from singular_loops import ANGLE, ROCKER, allowed_velocity, joined, make_singular_model, parallelograms
from strategies import digits, exact_numbers, make_looped_model
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON
from whippletree.constraints.clusters import embedding
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.route_choice import ROUTES
from whippletree.model import State
from whippletree.model.parameters import with_scalars


def state_of(model, in_line, moving, seed=0):
    """Rockers at one angle but for those of one unit, which lie in line; units in ``moving`` turn as they can."""
    rng = np.random.default_rng(seed)
    q, v = np.array(model.home.q, dtype=float), np.zeros(model.nv)
    rates = rng.normal(size=100)
    for joint in model.joints:
        word, _, unit = joint.name.partition(" ")
        if word == "base":
            v[model.slice("base")] = rng.normal(size=6) if moving else 0.0
            continue
        sign, u = -1.0 if word == "coupler" else 1.0, int(unit.split(".")[0])
        q[model.q_slice(joint.name)] = 0.0 if u == in_line else sign * ANGLE
        v[model.slice(joint.name)] = sign * rates[u] if u in moving else 0.0
    return q, v, rng.normal(size=model.nv)


@pytest.fixture
def revealed(monkeypatch):
    """The kinds of clusters that took the rank-revealing route, each time that one did."""
    found, reveal = [], embedding._reveal

    def noted(kind, *rest):
        found.append(kind)
        return reveal(kind, *rest)

    monkeypatch.setattr(embedding, "_reveal", noted)
    return found


CASES = {
    "chain of cells": {"units": 3, "chained": True},
    "chain of redundant cells": {"units": 2, "rockers": 3, "chained": True},
    "legs on a free base": {"units": 2, "chained": False, "base": "free"},
}


@pytest.mark.parametrize("moving", [(0, 1, 2), (0, 2), ()], ids=["in motion", "at rest beside others", "at rest"])
@pytest.mark.parametrize("case", CASES)
def test_one_loop_in_line(case, moving, revealed):
    model = parallelograms(**CASES[case])
    state = state_of(model, 1, moving)
    by_clusters = wt.reference(model, route="embedding", watch="never")  # which would evaluate again
    whole = wt.reference(model, route="nullspace")
    a, expected = by_clusters.forward_dynamics(*state), whole.forward_dynamics(*state)
    np.testing.assert_allclose(a, expected, rtol=1e-10, atol=1e-11 * np.abs(expected).max())
    assert revealed  # of one cluster, once for what is free and once for what was chosen
    assert len(revealed) <= 2
    # of redundant rows, those that were left out of the factor carry no force by clusters: compare what joints feel
    q, v, tau = state
    A, felt = whole.constraint_jacobian(q), whole.mass_matrix(q) @ expected + whole.bias(q, v) - tau
    forces = [A.T @ of.constraint_forces(*state) for of in (by_clusters, whole)]
    np.testing.assert_allclose(*forces, atol=1e-10 * np.abs(felt).max())
    others = [model.slice(j.name).start for j in model.joints if j.name.partition(" ")[2][:1] != "1"]
    np.testing.assert_allclose(forces[0][others], felt[others], atol=1e-10 * np.abs(felt).max())
    found, expected = (of.project_velocity(q, v + 0.1) for of in (by_clusters, whole))
    np.testing.assert_allclose(found, expected, atol=1e-10 * max(1, np.abs(expected).max()))


def test_every_route_answers_a_singular_state():
    """Elimination with pivoting once returned accelerations of 1e15 there, without a word."""
    model = parallelograms(**CASES["chain of cells"])
    state = state_of(model, 1, (0, 1, 2))
    expected = wt.reference(model, route="nullspace").forward_dynamics(*state)
    for route in ROUTES:
        found = wt.reference(model, route=route, watch="never").forward_dynamics(*state)
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max(), err_msg=route)


def exact_state(state):
    return [np.array([digits(Fraction(float(x))) for x in values], dtype=object) for values in state]


@pytest.mark.parametrize("case", ["chain of cells", "legs on a free base"])
def test_one_loop_in_line_against_fifty_digits(case):
    """Numbers of fifty digits through both routes, and doubles through the recursion over clusters."""
    model = parallelograms(**CASES[case])
    state = state_of(model, 1, (0, 1, 2))
    with mpmath.workdps(50):
        references = [wt.reference(exact_numbers(model), route=route) for route in ("nullspace", "embedding")]
        exact = [ref.forward_dynamics(*exact_state(state)) for ref in references]
        assert max(abs(x - y) for x, y in zip(*exact, strict=True)) < mpmath.mpf(10) ** -38
    expected = exact[0].astype(float)
    found = wt.reference(model, route="embedding").forward_dynamics(*state)
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def test_a_loop_at_rest_takes_the_branch_that_it_takes_alone():
    """Whatever else the model holds: the whole block matrix once left it where it was, a worse branch, since motions of
    other loops were searched together with its own."""
    one, many = parallelograms(1, 3, chained=False), parallelograms(3, 3, chained=False)
    q, v, tau = state_of(many, 1, ())
    own = [many.slice(joint.name.replace(" 0", " 1")).start for joint in one.joints]
    alone = wt.reference(one).forward_dynamics(np.zeros(one.nq), np.zeros(one.nv), tau[own])
    assert np.abs(alone).max() > 1
    for route in ("embedding", "nullspace"):
        found = wt.reference(many, route=route).forward_dynamics(q, v, tau)
        np.testing.assert_allclose(found[own], alone, rtol=1e-10)


def test_one_loop_of_very_many(revealed):
    """210 velocities: the block matrix of the whole would take minutes."""
    model = parallelograms(70, chained=False)
    q, v, _ = state_of(model, 33, range(70))
    a = wt.reference(model).forward_dynamics(q, v, np.zeros(model.nv))
    assert len(revealed) == 1
    # a pendulum: two rockers of 0.5 kg and a coupler of 1 kg at their ends
    load, inertia = 0.5 * 0.5 * 2 + 1.0, 0.5 / 3 * 2 + 1.0
    for u in (0, 33, 69):
        expected = -9.81 / ROCKER * np.cos(0.0 if u == 33 else ANGLE) * load / inertia
        np.testing.assert_allclose(a[model.slice(f"rocker {u}.0")], expected, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "massless"), [(0, False), (1, True), (2, False), (3, True)])
def test_random_trees_of_loops_that_carry_a_loop_in_line(seed, massless):
    """Reference by clusters and by the whole, and machine code, which leaves that state to the former; its derivative
    names the loop."""
    model, motion = make_looped_model(seed, limbs=1 + seed // 2, massless=massless)
    leg = parallelograms(1, 2 + seed % 2, chained=False)
    both = joined(model, leg, model.bodies[seed % len(model.bodies)].name)
    v = np.concatenate([allowed_velocity(model, motion), np.where([j.name[0] == "r" for j in leg.joints], 0.8, -0.8)])
    q, tau = np.concatenate([motion.q, np.zeros(leg.nq)]), np.concatenate([motion.tau, np.ones(leg.nv)])
    assert not constraint_set(both).structure.stuck
    found, whole = (wt.reference(both, route=route) for route in ("embedding", "nullspace"))
    a, expected = found.forward_dynamics(q, v, tau), whole.forward_dynamics(q, v, tau)
    np.testing.assert_allclose(a, expected, atol=1e-9 * np.abs(expected).max())
    if seed == 0:
        dynamics = wt.compile(both, route="embedding").forward_dynamics
        np.testing.assert_array_equal(dynamics(q, v, tau), a)
        assert dynamics.status == ANSWERED_IN_PYTHON
        with pytest.raises(wt.SingularSystemError, match=r"together\), in the loops of 'pin 0\.1': a "):
            wt.compile(both, route="embedding").jvp("forward_dynamics")(q, v, tau, 0 * q, 0 * v, 0 * tau)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(4), 42423125006])  # of the last, the whole missed the branch
def test_random_loops_that_are_singular_among_random_loops(seed):
    """Reference, machine code alone and in a batch: one answer, and equal bits of the latter two."""
    case = make_singular_model(seed)
    state = case.motion.q, case.motion.v, case.motion.tau
    expected = wt.reference(case.model, route="nullspace").forward_dynamics(*state)
    found = wt.reference(case.model, route="embedding").forward_dynamics(*state)
    np.testing.assert_allclose(found, expected, atol=1e-9 * max(1, np.abs(expected).max()))
    dynamics = wt.compile(case.model, route="embedding").forward_dynamics
    np.testing.assert_array_equal(dynamics(*state), found)
    assert dynamics.status == ANSWERED_IN_PYTHON
    with pytest.warns(RuntimeWarning, match="machine code has no answer for 1 of 2 states"):
        batch = dynamics(*(np.stack([own, x]) for own, x in zip(case.regular, state, strict=True)))
    np.testing.assert_array_equal(batch, [dynamics(*case.regular), found])


@pytest.mark.parametrize("make", [wt.reference, wt.compile])
@pytest.mark.parametrize("route", [None, "schur", "embedding", "elimination"])
def test_changes_of_velocity_obey_every_row_of_a_redundant_loop_in_line(make, route):
    """Two of its four rows vanish there, and one that is redundant elsewhere is not: it was left out."""
    model = parallelograms(2, 3, chained=True)
    q, _, tau = state_of(model, 1, ())
    v = np.random.default_rng(5).normal(size=model.nv)
    A = wt.reference(model).constraint_jacobian(q)
    functions = make(model, route=route, watch="never")
    found = {
        "project_velocity": functions.project_velocity(q, v),
        "velocity_step": functions.velocity_step(q, v, tau, 0.01)[0],
        "null_projector": functions.null_projector(q) @ v,
    }
    for name, after in found.items():
        np.testing.assert_allclose(A @ after, 0, atol=1e-12, err_msg=name)
    after, impulses = functions.impact(q, v, 0.5)
    np.testing.assert_allclose(A @ after, -0.5 * A @ v, atol=1e-12)
    M = wt.reference(model).mass_matrix(q)
    np.testing.assert_allclose(M @ (after - v), A.T @ impulses, atol=1e-12)


@pytest.mark.parametrize("route", ["nullspace", "embedding"])
@pytest.mark.parametrize("rockers", [2, 3])
def test_a_loop_at_rest_in_line_falls_beside_one_that_moves(route, rockers):
    """Of three rockers two rows vanish, whose quadrics have one line in common; no quadric feels the others."""
    model = parallelograms(2, rockers, chained=False)
    q, v, _ = state_of(model, 1, (0,))
    a = wt.reference(model, route=route, watch="never").forward_dynamics(q, v, np.zeros(model.nv))
    load, inertia = 0.5 * 0.5 * rockers + 1.0, 0.5 / 3 * rockers + 1.0
    for u, angle in ((0, ANGLE), (1, 0.0)):
        expected = -9.81 / ROCKER * np.cos(angle) * load / inertia
        np.testing.assert_allclose(a[model.slice(f"rocker {u}.0")], expected, rtol=1e-9)


@pytest.mark.parametrize("route", ["nullspace", "embedding"])
@pytest.mark.parametrize("joints", [["rocker 0.0"], ["rocker 1.0"]])
def test_hybrid_dynamics_obeys_every_row_of_a_redundant_loop_in_line(route, joints):
    model = parallelograms(2, 3, chained=True)
    q, v, given = state_of(model, 1, (0, 1))
    functions = wt.reference(model, route=route, watch="never")
    a, _ = functions.hybrid_dynamics(joints)(q, v, given)
    left = functions.constraint_jacobian(q) @ a + functions.constraint_bias(q, v)
    np.testing.assert_allclose(left, 0, atol=1e-12)
    own = model.slice(joints[0])
    np.testing.assert_array_equal(a[own], given[own])


def test_a_run_tells_of_a_velocity_along_no_branch():
    """Both bars may turn to first order, at any rates; but parallelogram and antiparallelogram are all that goes on.
    Such a run loses energy in its first step."""
    model = parallelograms(1, 2, chained=False)
    functions, q = wt.reference(model), np.zeros(3)
    v = functions.project_velocity(q, np.array([1.0, 0.3, -2.0]))
    np.testing.assert_allclose(functions.constraint_jacobian(q) @ v, 0, atol=1e-12)
    with pytest.warns(RuntimeWarning, match="its velocity points along none of the motions that meet there"):
        run = wt.simulate(model, q, v, duration=0.1)
    energy = (run.kinetic_energy + run.potential_energy).values
    assert energy[-1] < energy[0] - 1e-3
    run = wt.simulate(model, q, [1.0, -1.0, 1.0], duration=0.1)  # warnings are errors here
    np.testing.assert_allclose(np.ptp((run.kinetic_energy + run.potential_energy).values), 0, atol=1e-9)


@pytest.mark.parametrize("route", ["schur", "embedding"])
@pytest.mark.parametrize("bars", [2, 3])
def test_accelerations_tell_of_a_velocity_along_no_branch(route, bars):
    """They were returned without a word; by clusters, where no motion is left, it was an error of NumPy's."""
    model = parallelograms(1, bars, chained=False)
    compiled, functions, q = wt.compile(model, route=route), wt.reference(model, route=route), np.zeros(model.nv)
    v = functions.project_velocity(q, np.random.default_rng(0).normal(size=model.nv))
    for dynamics in (compiled.forward_dynamics, functions.forward_dynamics):
        with pytest.warns(RuntimeWarning, match="its velocity points along none of the motions that meet there"):
            dynamics(q, v, 0 * v)


def test_a_loop_at_rest_on_its_dead_point_has_an_answer_in_many_digits():
    """Rounding leaves 1e-60 there of what a quadric does not feel; its slope was divided by."""
    case = make_singular_model(42424375010)
    state = case.motion.q, case.motion.v, case.motion.tau
    expected = wt.reference(case.model, route="nullspace", watch="never").forward_dynamics(*state)
    with mpmath.workdps(120):
        exact = [np.array([mpmath.mpf(float(x)) for x in part], dtype=object) for part in state]
        found = wt.reference(with_scalars(case.model, mpmath.mpf), route="nullspace").forward_dynamics(*exact)
    np.testing.assert_allclose(found.astype(float), expected, atol=1e-9 * np.abs(expected).max())


def test_least_norm_forces_have_no_answer_where_rows_depend_on_each_other():
    """Forces that keep to a branch are not those of the rows: a division by zero told nothing."""
    linkage = wt.mechanisms.four_bar()
    given = (np.zeros(3), np.array([0.2, 0.0, 1.9]), np.ones(3), np.ones(2))
    for of in (wt.reference, wt.compile):
        with pytest.raises(wt.SingularSystemError, match="constraint rows depend on each other"):
            of(linkage).constraint_forces_least_norm(*given)


def bars_beside(count, mass, gap, start):
    """A parallelogram of three rods of 0.1 kg, and others of another mass beside it, along z, each at its angle."""
    builder = wt.Builder("bars", gravity=(0, -9.81, 0))
    for i in range(count):
        m, angle = (0.1, start[0]) if i == 0 else (mass, start[1])
        for name, length in (("crank", 1.0), ("coupler", 2.0), ("rocker", 1.0)):
            I = m * length**2 / 12
            builder.body(f"{name} {i}", m, (length / 2, 0, 0), (0, I, I))
            builder.frame(f"{name} {i} end", f"{name} {i}", position=(length, 0, 0))
        builder.joint(f"a {i}", "revolute", "world", f"crank {i}", position=(0, 0, gap * i), start=angle)
        builder.joint(f"b {i}", "revolute", f"crank {i}", f"coupler {i}", position=(1, 0, 0), start=-angle)
        builder.joint(f"c {i}", "revolute", "world", f"rocker {i}", position=(2, 0, gap * i), start=angle)
        builder.constraint(f"pin {i}", "pin", f"rocker {i} end", f"coupler {i} end")
    return builder.build()


@pytest.mark.parametrize("route", ["nullspace", "embedding"])
def test_a_branch_does_not_depend_on_what_stands_beside_it(route):
    """What pushes was told from what does not by all weights and all distances of the scene: beside two mechanisms of
    100 t, 10 km away, 2 N m did not count, and the answer left the cone."""
    found = []
    for count in (1, 3):
        model = bars_beside(count, 1e5, 1e4, (0.0, 1.0))
        tau = np.zeros(model.nv)
        tau[model.slice("c 0")] = 2.0
        functions = wt.reference(model, route=route, watch="never")
        found.append(functions.forward_dynamics(model.home.q, np.zeros(model.nv), tau)[:3])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)
    np.testing.assert_allclose(found[0][1:], -3 * found[0][0], rtol=1e-9)  # as an antiparallelogram


def test_loops_of_a_wide_scene_are_closed_at_home():
    """They counted as closed within 1e-13 of all distances in the scene, 5e-8 m, and a run refused its own start."""
    model = bars_beside(50, 1.0, 200.0, (1.0, 1.0))
    model = replace(model, start=State(model.start.q + 2e-8 * (np.arange(model.nv) % 3 == 1), model.start.v))
    residual = wt.reference(model).constraint_residual(model.home.q)
    np.testing.assert_allclose(residual, 0, atol=1e-9)
    assert not wt.simulate(model, duration=1e-3).attrs["failure"]
