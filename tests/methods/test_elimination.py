"""Elimination at body level: ladders, trusses and grids against the block matrix, 50 digits and their own growth."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import whippletree as wt
from long_mechanisms import floating_ladder, grid, ring_of_rings, truss
from strategies import MOVING_KINDS, make_looped_model, make_model, make_motion, with_loops
from truth import true_error
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems import long_structure
from whippletree.constraints.long_systems.body_system import unknowns_of
from whippletree.constraints.long_systems.front_elimination import EliminationPlan, eliminate
from whippletree.constraints.long_systems.long_structure import LongRowSystem, least_motion
from whippletree.constraints.redundancy import find_long_structure, find_structure
from whippletree.constraints.routes import PIVOT_TOLERANCE
from whippletree.graph.elimination import (
    elimination_cost,
    elimination_order,
    find_fronts,
    least_degree_order,
    merged_fronts,
)
from whippletree.model import Constraint
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

CASES = {
    "ladder": lambda: wt.mechanisms.n_four_bar(6),
    "floating ladder": lambda: floating_ladder(4),
    "free ladder of hinges": lambda: floating_ladder(3, "free", "hinge"),
    "massless rungs": lambda: floating_ladder(4, massless=(1, 2)),
    "grid": lambda: grid(3, 3),
    "platform": wt.mechanisms.stewart_platform,
    "gears": wt.mechanisms.gear_train,
    "massless rod": wt.mechanisms.crank_slider,
    "cells": lambda: wt.mechanisms.four_bar_chain(3),
    "rolling": wt.mechanisms.rolling_disc,
    "truss": lambda: truss(4),
    "ring of rings": lambda: ring_of_rings(4),
}


def state(model, seed=0):
    rng = np.random.default_rng(seed)
    q = np.asarray(model.home.q, dtype=float)
    v = wt.reference(model, route="augmented").project_velocity(q, 0.3 * rng.normal(size=model.nv))
    return q, np.asarray(v), rng.normal(size=model.nv)


def far_apart(found, expected):
    return np.abs(found - expected).max(initial=0.0) / max(1.0, np.abs(expected).max(initial=0.0))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_loops_over_fronts_are_the_block_matrix(name):
    model = CASES[name]()
    q, v, tau = state(model)
    block, dyn = wt.reference(model, route="block"), wt.compile(model, route="elimination")
    kappa = wt.diagnose(model, q).condition
    for function in ("forward_dynamics", "constraint_forces"):
        expected = getattr(block, function)(q, v, tau)
        assert far_apart(getattr(dyn, function)(q, v, tau), expected) < 1e-14 * max(kappa, 10)
    pushed = v + 0.1
    assert far_apart(dyn.project_velocity(q, pushed), block.project_velocity(q, pushed)) < 1e-14 * max(kappa, 10)
    found, expected = dyn.impact(q, pushed, 0.4), block.impact(q, pushed, 0.4)
    assert far_apart(found[0], expected[0]) < 1e-14 * max(kappa, 10)
    assert far_apart(found[1], expected[1]) < 1e-14 * max(kappa, 10)
    np.testing.assert_allclose(dyn.constraint_velocity(q, pushed), block.constraint_velocity(q, pushed), atol=1e-13)
    found, expected = dyn.velocity_step(q, pushed, tau, 0.01), block.velocity_step(q, pushed, tau, 0.01)
    assert far_apart(found[0], expected[0]) < 1e-13 * max(kappa, 10)
    assert far_apart(found[1], expected[1]) < 1e-13 * max(kappa, 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_mechanisms_as_loops_over_fronts(seed):
    model, motion = make_looped_model(seed, massless=seed % 2 == 1)
    rigid = [c for c in model.constraints if not c.parameters.get("compliance")]
    model = replace(model, constraints=tuple(rigid))
    q = motion.q
    v = wt.reference(model, route="nullspace").project_velocity(q, motion.v)
    dyn, ref = wt.compile(model, route="elimination"), wt.reference(model, route="augmented")
    kappa = wt.diagnose(model, q).condition
    for function in ("forward_dynamics", "constraint_forces"):
        expected = getattr(ref, function)(q, v, motion.tau)
        assert far_apart(getattr(dyn, function)(q, v, motion.tau), expected) < 1e-13 * kappa
    steps = (of.velocity_step(q, v + 0.1, motion.tau, 0.02) for of in (dyn, ref))
    for found, expected in zip(*steps, strict=True):
        assert far_apart(found, expected) < 1e-13 * kappa


def test_batches_have_the_bits_of_single_states():
    model = floating_ladder(5)
    dyn = wt.compile(model, route="elimination")
    rng = np.random.default_rng(3)
    q = np.asarray(model.home.q) + 1e-3 * rng.normal(size=(11, model.nq))
    v, tau = rng.normal(size=(2, 11, model.nv))
    together = dyn.forward_dynamics(q, v, tau)
    for k in range(11):
        np.testing.assert_array_equal(dyn.forward_dynamics(q[k], v[k], tau[k]), together[k])


@pytest.mark.parametrize(
    "make", [lambda: wt.mechanisms.n_four_bar(12), lambda: ring_of_rings(5)], ids=["ladder", "ring of rings"]
)
def test_fifty_digits(make):
    model = make()
    q, v, tau = state(model)
    with mpmath.workdps(50):
        numbers = [np.array([mpmath.mpf(x) for x in part], dtype=object) for part in (q, v, tau)]
        exact = wt.reference(model, route="elimination").forward_dynamics(*numbers)
        whole = wt.reference(model, route="schur").forward_dynamics(*numbers)
        # sums of the model's own numbers, which are floats, are rounded
        assert max(abs(a - b) for a, b in zip(exact, whole, strict=True)) < 1e-13 * max(map(abs, whole))
    found = wt.compile(model, route="elimination").forward_dynamics(q, v, tau)
    assert far_apart(found, exact.astype(float)) < 1e-13


def test_a_dead_point_is_noticed():
    model = wt.mechanisms.n_four_bar(3)
    state = np.zeros(model.nq), np.ones(model.nv), np.zeros(model.nv)  # all rods in line
    dynamics = wt.compile(model, route="elimination").forward_dynamics
    np.testing.assert_array_equal(dynamics(*state), wt.reference(model, route="elimination").forward_dynamics(*state))
    assert dynamics.status == ANSWERED_IN_PYTHON


def operations(model):
    """Multiplications of the elimination, counted from its fronts."""
    unknowns = unknowns_of(wt.constraint_set(model))
    rows = [(own[i], own[j]) for own in unknowns.of_node for i in range(len(own)) for j in range(i)]
    rows += [
        (x, y) for own, more in zip(unknowns.of_node, unknowns.rows_of_node, strict=True) for x in more for y in own
    ]
    rows += [(x, y) for d in unknowns.demands for _, x in d.rigid for y in d.unknowns]
    table = np.array(rows)
    plan = EliminationPlan(unknowns, table[:, 0], table[:, 1], np.arange(unknowns.closures, unknowns.count))
    sizes = [(len(front.own), len(front.boundary)) for front in plan.fronts]
    return sum(p * p / 2 for own, inner in sizes for p in range(inner, inner + own))


@pytest.mark.slow
@pytest.mark.parametrize("make", [wt.mechanisms.n_four_bar, floating_ladder], ids=["ladder", "floating ladder"])
def test_ladders_cost_what_their_rungs_cost(make):
    few, many = (operations(make(n)) for n in (100, 400))
    assert many / few < 4.1


def test_grids_are_eliminated_in_an_order_that_fits_them():
    for n in (4, 8):
        edges = [(k, k + 1) for k in range(n * n) if (k + 1) % n] + [(k, k + n) for k in range(n * n - n)]
        order = elimination_order(edges, n * n)
        assert sorted(order) == list(range(n * n))
        assert elimination_cost(order, edges) <= elimination_cost(range(n * n), edges)


def test_large_grids_are_cut_in_halves():
    """Rods of cells, each pinned to the next: of an order by least degree alone, large fronts were a third larger."""
    n = 16
    place = {
        (w, i, j): k for k, (w, i, j) in enumerate((w, i, j) for j in range(n) for i in range(n + 1) for w in "VH")
    }
    met = [((i, j), other) for j in range(n) for i in range(n + 1) for other in ((i, j + 1), (i, j), (i - 1, j))]
    edges = [
        (place["V", *at], place[kind, *other])
        for (at, other), kind in zip(met, "VHH" * (len(met) // 3), strict=True)
        if (kind, *other) in place
    ]
    near = [set() for _ in place]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    found, plain = elimination_order(edges, len(place)), least_degree_order(near)
    assert sorted(found) == list(range(len(place)))
    assert elimination_cost(found, edges) < 0.85 * elimination_cost(plain, edges)


def test_a_path_has_fronts_of_one_neighbour():
    near = [{k - 1, k + 1} & set(range(30)) for k in range(30)]
    fronts = find_fronts([[k] for k in elimination_order([(k, k + 1) for k in range(29)], 30)], near)
    assert [len(front.boundary) for front in fronts] == [1] * 29 + [0]
    assert [front.parent for front in fronts] == [*range(1, 30), -1]


@pytest.mark.parametrize("n", [3, 7])
def test_fronts_joined_with_their_parents_do_the_same_with_less_memory(n):
    edges = [(k, k + 1) for k in range(n * n) if (k + 1) % n] + [(k, k + n) for k in range(n * n - n)]
    near = [{j for e in edges for j in e if k in e} - {k} for k in range(n * n)]
    fronts = find_fronts([[k] for k in elimination_order(edges, n * n)], near)
    joined = merged_fronts(fronts)
    assert sorted(x for front in joined for x in front.own) == list(range(n * n))
    pivots = [
        {x: len(f.own) + len(f.boundary) - 1 - i for f in found for i, x in enumerate(f.own)}
        for found in (fronts, joined)
    ]
    assert pivots[0] == pivots[1]  # every pivot meets as many unknowns as before
    for f, front in enumerate(joined):
        assert front.parent == -1 or (
            f < front.parent and set(front.boundary) <= {*joined[front.parent].own, *joined[front.parent].boundary}
        )
    sizes = [sum(len(front.unknowns) ** 2 for front in found) for found in (fronts, joined)]
    assert len(joined) < len(fronts)
    assert sizes[1] < sizes[0]


@pytest.mark.slow
def test_redundant_rows_of_long_mechanisms_are_found_without_matrices():
    model = floating_ladder(70, "free", "hinge")
    structure = wt.constraint_set(model).structure
    assert model.nv > 200
    # planar loops closed by spatial hinges: two rows of each are needed
    assert len(structure.independent) == 2 * 69
    assert len(structure.redundant) == 3 * 69
    assert structure.mobility == model.nv - 2 * 69


def test_long_and_dense_structure_agree():
    model = floating_ladder(6, "free", "hinge")
    system = wt.constraint_set(model)
    dense = find_structure(system)
    found = find_long_structure(system)
    assert len(found.independent) == len(dense.independent)
    assert found.mobility == dense.mobility


@pytest.mark.slow
def test_a_truss_of_hinges_needs_one_look_at_its_redundant_rows(monkeypatch):
    looks = []
    look = LongRowSystem.explained_joints.fget
    monkeypatch.setattr(LongRowSystem, "explained_joints", property(lambda own: looks.append(look(own)) or looks[-1]))
    model = truss(51)
    structure = wt.constraint_set(model).structure
    loops = len(model.constraints)
    assert model.nv > 200
    assert structure.mobility == 3
    # joints of the tree stand last among dependent rows: one look finds a row of a closure for each, the next none
    assert [bool(found) for found in looks] == [True, False]
    assert len(structure.redundant) == 3 * loops
    dyn, n = wt.compile(model), model.nv
    rows = dyn.constraint_velocity(np.tile(structure.configuration, (n, 1)), np.eye(n)).T
    kept = rows[list(structure.independent)]
    sizes = np.linalg.norm(kept, axis=1, keepdims=True)
    assert np.linalg.svd(kept / sizes, compute_uv=False)[-1] > 1e-4
    assert np.linalg.matrix_rank(rows, tol=1e-9) == len(kept) == 2 * loops


def test_dependencies_of_rows_are_solved_for_one_row_each():
    rng = np.random.default_rng(3)
    few = rng.integers(-3, 4, size=(5, 9)).astype(float)
    solved = long_structure._SolvedRows(9)
    for dependency in [*few, few[0] + 2 * few[3], np.zeros(9)]:
        solved.add(dependency)
    assert len(set(solved.numbers)) == np.linalg.matrix_rank(few) == 5
    assert np.linalg.matrix_rank(few[:, solved.numbers]) == 5


def test_least_motions_are_those_of_the_pseudo_inverse():
    model = floating_ladder(4, "free")
    q = np.asarray(model.home.q, dtype=float)
    system = LongRowSystem(unknowns_of(wt.constraint_set(model)), q, 0.0)
    A = wt.reference(model).constraint_jacobian(q)
    g = np.random.default_rng(0).normal(size=len(A))
    np.testing.assert_allclose(least_motion(system, g), -np.linalg.pinv(A) @ g, atol=1e-12)
    d = np.random.default_rng(1).normal(size=model.nv)
    np.testing.assert_allclose(system.rates(d), A @ d, atol=1e-12)


def test_residuals_and_least_motions_of_two_joints_of_every_kind():
    """Joints of one kind are evaluated together: against poses of the reference, and the pseudo-inverse of its rows."""
    kinds = [kind for kind in MOVING_KINDS for _ in range(2)]
    tree = make_model([-1, *range(len(kinds) - 1)], kinds, 7)
    motion = make_motion(tree, 7)
    ties = [("near", "point", "b1", "b6", {}), ("far", "hinge", "world", "b13", {}), ("mid", "slider", "b4", "b11", {})]
    model = with_loops(tree, motion.q, ties)
    ref, q = wt.reference(model), np.asarray(wt.reference(tree).integrate(motion.q, 0.1 * motion.v), dtype=float)
    closure = long_structure.LongClosure(Mechanism.of(model), constraint_set(model).demands)
    found, expected = closure.residual(q), np.asarray(ref.constraint_residual(q), dtype=float)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max() * len(kinds))
    A = np.asarray(ref.constraint_jacobian(q), dtype=float)
    motions = least_motion(LongRowSystem(unknowns_of(constraint_set(model)), q, 0.0), expected)
    np.testing.assert_allclose(motions, -np.linalg.pinv(A) @ expected, atol=1e-10 * np.linalg.cond(A))


def test_linkages_of_different_sizes_are_closed_together_and_looked_at_one_by_one():
    """Seventy open four-bars: their pins meet by trigonometry, and rows have the sizes of those of each linkage."""
    rng, builder = np.random.default_rng(4), wt.Builder("linkages", (0, -9.81, 0))
    lengths = [(0.4, 1.2, 0.9) * rng.uniform(0.95, 1.05, 3) for _ in range(70)]
    for k, own in enumerate(lengths):
        turning = [
            ("crank", "world", 3 * k, 1.2),
            ("rod", f"crank {k}", own[0], -0.6),
            ("rocker", "world", 3 * k + 1, 1.2),
        ]
        for (bar, parent, x, start), length in zip(turning, own, strict=True):
            name = f"{bar} {k}"
            builder.body(name, 1.0, (length / 2, 0, 0), (0.0, length**2 / 12, length**2 / 12))
            builder.joint(name, "revolute", parent, name, position=(x, 0, 0), start=start)
            builder.frame(f"end of {name}", name, position=(length, 0, 0))
        builder.constraint(f"pin {k}", "pin", f"end of rod {k}", f"end of rocker {k}")
    model = builder.build()
    structure = constraint_set(model).structure
    assert (structure.redundant, structure.faint, structure.mobility) == ((), {}, 70)
    for q in (np.asarray(model.home.q, dtype=float), structure.configuration):
        for k, (a, b, c) in enumerate(lengths):
            crank, rod, rocker = (q[model.q_slice(f"{bar} {k}")][0] for bar in ("crank", "rod", "rocker"))
            turns = np.exp(1j * np.array([crank, crank + rod, rocker]))
            assert abs(np.dot([a, b, -c], turns) - 1) < 1e-10
    q = structure.configuration
    for k, (a, b, c) in enumerate(lengths):
        crank, rod, rocker = (q[model.q_slice(f"{bar} {k}")][0] for bar in ("crank", "rod", "rocker"))
        arms = 1j * np.array([a, b, c]) * np.exp(1j * np.array([crank, crank + rod, rocker]))
        columns = np.array([arms[0] + arms[1], arms[1], -arms[2]])
        sizes = np.sum(columns.real**2), np.sum(columns.imag**2)
        np.testing.assert_allclose(structure.squares[2 * k : 2 * k + 2], sizes, rtol=1e-9)


def test_a_long_ladder_is_assembled_with_a_joint_held():
    model = wt.mechanisms.n_four_bar(120)
    guess = np.asarray(model.home.q) + 0.01 * np.sin(np.arange(model.nq))
    q = wt.assemble(model, guess, hold={"side_0": 1.4})
    assert q[model.q_slice("side_0")][0] == 1.4
    assert np.abs(wt.compile(model).constraint_residual(q)).max() < 1e-11


@pytest.mark.slow
def test_a_long_ladder_takes_this_route_by_itself_and_runs():
    model = wt.mechanisms.n_four_bar(100)
    found = wt.diagnose(model)
    assert found.route == "elimination"
    assert "eliminated one by one" in str(found)
    run = wt.simulate(model, duration=0.02)
    assert run.attrs["energy_drift"] < 1e-9
    assert wt.diagnose(wt.mechanisms.n_four_bar(10)).route == "schur"


def test_gears_that_nearly_repeat_each_other_do_not_hold_up_the_search(monkeypatch):
    """Ratios off by 1e-6: beyond what is told apart, the rest shrank by 1e-4 of itself a step, for a hundred steps."""
    builder = wt.Builder("geared chain", (0, -9.81, 0))
    for k in range(6):
        builder.body(f"b{k}", mass=1.0, center=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
        builder.joint(f"j{k}", "revolute", f"b{k - 1}" if k else "world", f"b{k}", position=(1, 0, 0))
    for a, b, ratio in (("j0", "j3", 2.0), ("j3", "j5", 3.0), ("j0", "j5", 6.0 * (1 + 1e-6))):
        builder.constraint(f"{a} {b}", "gear", a, b, ratios=(1.0, -ratio))
    model = builder.build()
    tried, make = [], long_structure.LongRowSystem.__init__

    def counted(self, *of):
        tried.append(1)
        make(self, *of)

    monkeypatch.setattr(long_structure.LongRowSystem, "__init__", counted)
    closure = long_structure.LongClosure(Mechanism.of(model), constraint_set(model).demands)
    _, left = closure.solve(np.linspace(0.1, 0.6, 6), np.zeros(6, dtype=bool), 1e-11)
    assert 1e-9 < np.abs(left).max() < 1e-5
    assert len(tried) < 20


@pytest.mark.slow
def test_a_step_at_velocity_level_of_a_ladder_of_three_hundred_bodies():
    """003: A v⁺ = 0 and M (v⁺ − v) = h (τ − c) + Aᵀ p, without a matrix of the whole."""
    model = floating_ladder(100)
    assert len(model.bodies) == 300
    nothing, rng = np.zeros(model.nv), np.random.default_rng(2)
    q, v, tau = model.home.q, 0.01 * rng.normal(size=model.nv), rng.normal(size=model.nv)
    dyn, h = wt.compile(model), 1e-3
    after, impulses = dyn.velocity_step(q, v, tau, h)
    assert np.abs(dyn.constraint_velocity(q, after)).max() < 1e-11
    weight = dyn.inverse_dynamics(q, nothing, nothing)
    momentum = dyn.inverse_dynamics(q, nothing, after - v) - weight
    pull = wt.reference(model).constraint_jacobian(q).T @ impulses
    left = momentum - h * (tau - dyn.inverse_dynamics(q, v, nothing)) - pull
    assert np.abs(left).max() < 1e-9 * np.abs(pull).max()


def test_a_step_at_velocity_level_of_a_driven_ladder():
    model = floating_ladder(4)
    start = model.home.q[model.slice("r2")][0]
    clock = Constraint("clock", "prescribed", ("r2",), {"motion": lambda t: start + 0.3 * t + t * t})
    driven = replace(model, constraints=(*model.constraints, clock))
    q, v, tau = driven.home.q, 0.1 * np.arange(driven.nv), np.ones(driven.nv)
    found = wt.compile(driven, route="elimination").velocity_step(q, v, tau, 0.01, t=0.0)
    expected = wt.reference(driven, route="block").velocity_step(q, v, tau, 0.01, t=0.0)
    assert far_apart(found[0], expected[0]) < 1e-11
    assert far_apart(found[1], expected[1]) < 1e-10
    assert found[0][driven.slice("r2")] == pytest.approx([0.3])


@pytest.mark.parametrize("closure", ["pin", "hinge", "point"])
def test_a_thin_rod_that_floats_is_given_inertia_by_what_hangs_on_it(closure):
    """It turns about its own axis without inertia of its own: eliminated last, it needs no weights on all rows."""
    model = floating_ladder(4, "free", closure)
    unknowns = unknowns_of(constraint_set(model))
    assert unknowns.weights.lacking == [0]
    assert unknowns.order[-1] == 0
    assert unknowns.weights.moves_inertia
    rng = np.random.default_rng(4)
    ref = wt.reference(model, route="block")
    q, tau = model.home.q, rng.normal(size=model.nv)
    v = ref.project_velocity(q, rng.normal(size=model.nv))
    expected = ref.forward_dynamics(q, v, tau)
    bound = 1e-10 * np.abs(expected).max()
    for found in (wt.reference(model, route="elimination"), wt.compile(model, route="elimination")):
        np.testing.assert_allclose(found.forward_dynamics(q, v, tau), expected, rtol=0, atol=bound)


def lift_on_a_roller(stages, angle):
    """Pairs of bars of 1 m and 1 kg that cross in their middles; the lowest falling one stands on a massless slider."""
    builder = wt.Builder("lift", (0, -9.81, 0)).body("roller")
    builder.joint("track", "prismatic", "world", "roller", axis=(1, 0, 0), start=math.cos(angle))
    up, down = angle, math.pi - angle
    carriers = (("world", 0.0, 0.0), ("roller", 0.0, 0.0))
    for k in range(stages):
        for side, (carrier, at, turned), lean in zip(("rise", "fall"), carriers, (up, down), strict=True):
            name = f"{side} {k}"
            builder.body(name, 1.0, (0.5, 0, 0), (1e-4, 1 / 12, 1 / 12)).frame(
                f"middle of {name}", name, position=(0.5, 0, 0)
            )
            builder.joint(name, "revolute", carrier, name, position=(at, 0, 0), start=lean - turned)
        builder.constraint(f"pin {k}", "point", f"middle of rise {k}", f"middle of fall {k}")
        carriers = ((f"fall {k}", 1.0, down), (f"rise {k}", 1.0, up))
    return builder.build()


@pytest.mark.parametrize("stages", [3, 6, 9])
def test_a_roller_has_inertia_by_a_bar_that_does_not_follow_it(stages):
    """The bar above it leaves the system first, tied to the other side: the rows of its joint give the roller a pivot.

    With the angle θ of the bars as the only freedom, middles are at (cos θ / 2, (k + ½) sin θ).
    """
    angle = 0.5
    model = lift_on_a_roller(stages, angle)
    heights = np.arange(stages) + 0.5
    inertia = 2 * np.sum((math.sin(angle) / 2) ** 2 + (heights * math.cos(angle)) ** 2 + 1 / 12)
    expected = -9.81 * 2 * heights.sum() * math.cos(angle) / inertia
    zero = np.zeros(model.nv)
    for functions in (wt.reference(model, route="elimination"), wt.compile(model, route="elimination")):
        a = functions.forward_dynamics(model.home.q, zero, zero)
        np.testing.assert_allclose(a[model.slice("rise 0")], expected, rtol=1e-11)
        np.testing.assert_allclose(a[model.slice("track")], -math.sin(angle) * expected, rtol=1e-11)


def test_thin_bars_across_the_axes_of_their_hinges_need_no_weights():
    """Along x and y at once such a bar has no inertia, but along the axis of its hinge it has: an order costs what it
    costs where frames lie along the bars."""
    along, across = truss(5, axial=1e-5), truss(5, turned=0.7, axial=1e-5)
    costs = [unknowns_of(constraint_set(model)).cost for model in (along, across)]
    assert costs[1] == costs[0]
    assert unknowns_of(constraint_set(across)).weights.moves_inertia
    q, v, tau = state(across)
    expected = wt.reference(across, route="block").forward_dynamics(q, v, tau)
    assert far_apart(wt.reference(across, route="elimination").forward_dynamics(q, v, tau), expected) < 1e-11
    assert far_apart(wt.compile(across, route="elimination").forward_dynamics(q, v, tau), expected) < 1e-11


def with_aerials(model, axial):
    """Thin rods on ball joints, two in a row, on every second bar of a truss."""
    builder = wt.Builder("aerials", (0, -9.81, 0))
    for body in model.bodies:
        builder.body(body.name, body.mass, body.center, body.inertia)
    builder.joint("base", "planar", "world", "bar 0")
    for joint in model.joints[1:]:
        at = {"position": joint.pose[:3, 3], "rotation": joint.pose[:3, :3], "axis": joint.axis}
        builder.joint(
            joint.name, joint.kind, joint.parent, joint.child, **at, start=model.home.q[model.q_slice(joint.name)]
        )
    for frame in model.frames:
        builder.frame(frame.name, frame.body, position=frame.pose[:3, 3], rotation=frame.pose[:3, :3])
    for c in model.constraints:
        builder.constraint(c.name, c.kind, *c.on, **c.parameters)
    for k in range(0, 12, 2):
        parent = f"bar {k}"
        for i, turn in enumerate((0.6, -0.4)):
            start = (math.cos(turn / 2), 0, 0, math.sin(turn / 2))
            builder.body(f"rod {k} {i}", 0.1, (0.2, 0, 0), (axial, 0.001, 0.001))
            builder.joint(f"ball {k} {i}", "spherical", parent, f"rod {k} {i}", position=(0.4, 0, 0), start=start)
            parent = f"rod {k} {i}"
    return builder.build()


def test_thin_rods_that_only_hang_on_a_truss_need_no_weights():
    """No row feels how little inertia they have; where they have none, rows keep their weights."""
    model = with_aerials(truss(4), 1e-7)
    unknowns = unknowns_of(constraint_set(model))
    assert unknowns.weights.moves_inertia
    q, v, tau = state(model)
    tau = 1e-3 * tau
    for make in (wt.reference, wt.compile):
        a = make(model, route="elimination", watch="never").forward_dynamics(q, v, tau)
        assert true_error(model, (q, v, tau), a) < 1e-10
    assert not unknowns_of(constraint_set(with_aerials(truss(4), 0.0))).weights.moves_inertia


def test_rods_in_one_line_give_no_inertia():
    """All that hangs on the rod is in line with it: rows keep their weights."""
    builder = wt.Builder("line", (0, -9.81, 0))
    for k in range(3):
        builder.body(f"rod {k}", 1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12))
    builder.joint("base", "free", "world", "rod 0").joint("next", "prismatic", "rod 0", "rod 1", axis=(1, 0, 0))
    builder.joint("last", "prismatic", "rod 1", "rod 2", axis=(1, 0, 0))
    builder.constraint("gear", "gear", "next", "last", ratios=(1.0, 2.0))
    unknowns = unknowns_of(constraint_set(builder.build()))
    assert unknowns.weights.lacking == [0]
    assert not unknowns.weights.moves_inertia


def thin_rods_on_a_free_one() -> wt.Model:
    """Two thin rods hang on a third one, which floats, by hinges in gear; they are in one line at −0.7."""
    c, s = np.cos(0.7), np.sin(0.7)
    turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    builder = wt.Builder("rods", (0, -9.81, 0))
    for k in range(3):
        builder.body(f"rod {k}", 1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12))
    builder.joint("base", "free", "world", "rod 0")
    for k in range(2):
        builder.joint(f"hinge {k}", "revolute", f"rod {k}", f"rod {k + 1}", position=(1, 0, 0), rotation=turned)
    return builder.constraint("gear", "gear", "hinge 0", "hinge 1", ratios=(1.0, 2.0)).build()


@pytest.mark.parametrize("make", [wt.reference, wt.compile])
def test_a_floating_rod_that_a_state_leaves_without_inertia_is_told(make):
    """Bent, the other rods give its turn inertia; in one line nothing does, and rounding must not pass for inertia."""
    model = thin_rods_on_a_free_one()
    unknowns = unknowns_of(constraint_set(model))
    assert unknowns.weights.lacking == [0]
    assert unknowns.weights.moves_inertia
    dynamics = make(model, route="elimination").forward_dynamics
    q, v, tau = model.home.q.copy(), np.zeros(model.nv), np.ones(model.nv)
    q[-2:] = 0.8, -0.4
    expected = wt.reference(model, route="block").forward_dynamics(q, v, tau)
    np.testing.assert_allclose(dynamics(q, v, tau), expected, rtol=1e-11)
    rng = np.random.default_rng(8)
    for _ in range(5):
        quaternion = rng.normal(size=4)
        line = np.concatenate([rng.normal(size=3), quaternion / np.linalg.norm(quaternion), [-0.7, -0.7]])
        with pytest.raises(wt.SingularSystemError):
            dynamics(line, v, tau)


def test_mobilities_of_light_bodies_are_bounded():
    """The size of a row's pivot is what its bodies allow: of a body that is light along it, not without bounds, or
    rounding in its inertia would make the row count as dependent."""
    model = floating_ladder(4, "free", "pin")
    system = constraint_set(model)
    m, q = Mechanism(skeleton(model)), model.home.q.astype(object)
    fronts = eliminate(m, system, m.still(q), q, 0, None).fronts
    judged = [x for x in fronts.plan.judged.tolist() if fronts.plan.rows[x]]
    assert max(float(fronts.sizes[x]) for x in judged) < 1e4
    assert all(margin > 0 for _, margin in fronts.margins(PIVOT_TOLERANCE))
