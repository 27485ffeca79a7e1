"""The contact problem: Coulomb's law block by block, hard problems, and the same answers as a peer's solver."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from benchmarks.peers import FrictionProblem
from hypothesis import given
from hypothesis import strategies as st

from whippletree.compiler.rollout.contact_sweeps import contact_sweeps
from whippletree.contact.problem import lorentz
from whippletree.contact.problem.cones import natural_map, project_on_cone, project_on_disc
from whippletree.contact.problem.contact_problem import (
    ContactProblem,
    Measure,
    block_scaling,
    local,
    measure_residual,
    respond,
    solve_by_sweeps,
    step_block,
)
from whippletree.contact.problem.interior_point import ConeStart, interior_point
from whippletree.contact.problem.solver import FIRST_LOOK, solve
from whippletree.simulation.time_stepping.impulse_step import sweeps

TALL = 10


def random_problem(seed: int, blocks: int, freedoms: int, mu: float) -> ContactProblem:
    """Contacts of a system with a diagonal mass matrix, approaching at random."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(3 * blocks, freedoms))
    G = (J / rng.uniform(0.1, 10, freedoms)) @ J.T
    g = (J @ rng.normal(size=freedoms)).reshape(blocks, 3)
    return ContactProblem(G.reshape(blocks, 3, blocks, 3), g, np.full(blocks, mu), np.zeros(blocks))


def stack_problem(masses: list[float], mu: float = 0.5, push: float = 0.0, h: float = 1e-3) -> ContactProblem:
    """Unit cubes on each other, four corners per face, after a step of free fall: 12 rows per 6 freedoms."""
    n = len(masses)
    weights = np.concatenate([[m / 6] * 3 + [m] * 3 for m in masses])
    J = []
    for i in range(n):
        for x, y in ((-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5)):
            rows = np.zeros((3, 6 * n))
            for body, sign, z in ((i, 1, -0.5), (i - 1, -1, 0.5)):
                if body >= 0:
                    for row, axis in enumerate(np.eye(3)[[2, 0, 1]]):
                        rows[row, 6 * body : 6 * body + 6] = sign * np.concatenate([np.cross((x, y, z), axis), axis])
            J.append(rows)
    A, v = np.concatenate(J), np.zeros(6 * n)
    v[5::6], v[3::6] = -9.81 * h, push
    blocks = 4 * n
    G = ((A / weights) @ A.T).reshape(blocks, 3, blocks, 3)
    return ContactProblem(G, (A @ v).reshape(blocks, 3), np.full(blocks, mu), np.zeros(blocks))


# --- cones ------------------------------------------------------------------------------------------------------------


@given(
    x=st.tuples(*[st.floats(-10, 10)] * 3),
    y=st.tuples(*[st.floats(-10, 10)] * 3),
    mu=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
)
def test_projection_on_the_cone_is_the_nearest_point(x, y, mu):
    p = project_on_cone(np.array(x), mu).astype(float)
    assert np.hypot(p[1], p[2]) <= mu * p[0] + 1e-12
    inside = project_on_cone(np.array(y), mu).astype(float)  # any other point of the cone
    assert (np.array(x) - p) @ (inside - p) <= 1e-10 * (1 + np.abs([*x, *y]).max() ** 2)


def test_projection_on_a_disc():
    assert project_on_disc(np.array([3.0, 4.0]), 1.0).tolist() == pytest.approx([0.6, 0.8])
    assert project_on_disc(np.array([0.3, 0.4]), 1.0).tolist() == [0.3, 0.4]
    assert project_on_disc(np.array([0.3, 0.4]), 0.0).tolist() == [0.0, 0.0]


# --- one block --------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), mu=st.sampled_from([0.0, 0.2, 0.7, 1.5]))
def test_one_contact_obeys_coulombs_law(seed, mu):
    problem = random_problem(seed, 1, 6, mu)
    impulse, measure = solve_by_sweeps(problem, 40)
    (n, *t), (un, *ut) = impulse.astype(float)[0], problem.velocity(impulse).astype(float)[0]
    size = np.abs(problem.g).max()
    pinched = measure.velocity > 1e-9 * size  # Painlevé: the couplings of a random block may admit no solution
    if pinched:
        w = problem.G[0, 0, 0, 1:] / problem.G[0, 0, 0, 0]
        assert mu * np.linalg.norm(w) > 1
        return
    assert n >= 0
    assert un >= -1e-9 * size
    assert abs(n * un) <= 1e-9 * size
    assert np.hypot(*t) <= mu * n * (1 + 1e-9) + 1e-15
    if np.hypot(*ut) > 1e-6 * size and n > 0:  # slides: friction is full and against the motion
        assert np.hypot(*t) == pytest.approx(mu * n, rel=1e-9)
        assert np.dot(t, ut) == pytest.approx(-np.hypot(*t) * np.hypot(*ut), rel=1e-6)


@given(seed=st.integers(0, 10_000), mu=st.sampled_from([0.0, 0.2, 0.7]))
def test_many_steps_of_a_block_end_where_its_response_is(seed, mu):
    """Also where normal and tangents feel each other, and sliding turns."""
    problem = random_problem(seed, 1, 6, mu)
    G = problem.G[0, :, 0]
    if mu * np.linalg.norm(G[0, 1:]) > 0.5 * G[0, 0]:
        return  # near Painlevé's paradox there need not be one answer
    at, impulse = block_scaling(G), np.zeros(3)
    for _ in range(3000):
        impulse = step_block(at, impulse, problem.g[0] + G @ impulse, mu).astype(float)
    assert measure_residual(problem, impulse[None]).velocity < 1e-9 * np.abs(problem.g).max()
    exact, _ = solve_by_sweeps(problem, 60)
    assert np.allclose(impulse, exact.astype(float)[0], rtol=1e-7, atol=1e-9 * np.abs(impulse).max())


def test_a_block_that_is_open_steps_to_no_impulse():
    """Its disc has no size, and there may be no way to slide: a quotient of zeros."""
    at = block_scaling(np.diag([2.0, 3.0, 3.0]))
    for aside in (0.0, 0.4):
        with np.errstate(invalid="ignore"):  # machine code has no such warnings
            found = step_block(at, np.zeros(3), np.array([1.0, aside, 0.0]), 0.5).astype(float)
        np.testing.assert_array_equal(np.abs(found), 0.0)


def test_a_block_that_slides_carries_as_much_as_friction_allows():
    at = block_scaling(np.diag([2.0, 3.0, 3.0]))
    found = step_block(at, np.zeros(3), np.array([-1.0, 3.0, -4.0]), 0.5).astype(float)
    np.testing.assert_allclose(found, [0.5, -0.25 * 0.6, 0.25 * 0.8], rtol=1e-15)


def test_a_direction_in_which_nothing_moves_carries_no_impulse():
    """The second tangent of a planar mechanism: its row of J is zero."""
    G = np.diag([2.0, 3.0, 0.0])
    impulse, _ = respond(local(G), np.array([-1.0, 0.1, 0.0]), 0.5, 0, 0)
    assert impulse.astype(float) == pytest.approx([0.5, -0.1 / 3, 0])
    nowhere, _ = respond(local(np.zeros((3, 3))), np.array([-1.0, 0.0, 0.0]), 0.5, 0, 0)
    assert nowhere.astype(float).tolist() == [0, 0, 0]


def test_a_motor_driven_belt_slides_for_ever():
    """The sliding velocity cannot be changed, and friction is full nevertheless."""
    problem = ContactProblem(
        np.diag([1.0, 0.0, 0.0]).reshape(1, 3, 1, 3), np.array([[-1.0, 0.3, -0.4]]), np.array([0.5]), np.zeros(1)
    )
    impulse, measure = solve_by_sweeps(problem, 40)
    assert impulse.astype(float)[0] == pytest.approx([1.0, -0.3, 0.4])
    assert measure.velocity < 1e-14


def test_dry_friction_of_a_joint_is_a_disc():
    G = np.zeros((1, 3, 1, 3))
    G[0, 1, 0, 1] = 4.0
    for speed, expected in ((0.1, -0.025), (-10.0, 0.5)):
        problem = ContactProblem(G, np.array([[0.0, speed, 0.0]]), np.zeros(1), np.array([0.5]))
        impulse, measure = solve_by_sweeps(problem, 5)
        assert impulse.astype(float)[0] == pytest.approx([0, expected, 0])
        assert measure.velocity < 1e-15


def test_the_same_code_runs_on_numbers_of_any_precision():
    problem = random_problem(3, 2, 6, 0.4)
    with mpmath.workdps(60):
        exact = ContactProblem(*[np.vectorize(mpmath.mpf, otypes=[object])(part) for part in problem[:4]])
        impulse, measure = solve_by_sweeps(exact, 200)
        assert measure.velocity < mpmath.mpf(10) ** -50
    double, _ = solve_by_sweeps(problem, 200)
    assert np.abs(double.astype(float) - impulse.astype(float)).max() < 1e-13


def test_the_natural_map_tells_what_is_wrong():
    still, slow = np.zeros(3), np.array([0.0, 1e-3, 0.0])
    assert np.abs(natural_map(np.array([1.0, 0.2, 0.0]), still, 0.5, 0, 2.0).astype(float)).max() == 0  # sticks
    assert (
        np.abs(natural_map(np.array([1.0, 0.2, 0.0]), slow, 0.5, 0, 2.0).astype(float)).max() > 1e-3
    )  # slips, yet weak
    assert np.abs(natural_map(np.array([1.0, 0.6, 0.0]), still, 0.5, 0, 2.0).astype(float)).max() > 0.01  # too strong
    assert np.abs(natural_map(np.array([0.0, 0.0, 0.0]), np.array([-1.0, 0, 0]), 0.5, 0, 2.0).astype(float)).max() > 0.1


# --- many blocks ------------------------------------------------------------------------------------------------------


def test_machine_code_and_reference_sweep_alike():
    problem = random_problem(5, 4, 12, 0.6)
    reference, measure = solve_by_sweeps(problem, 7)
    impulse, _, found, _ = contact_sweeps()(*problem[:4], np.zeros((4, 3)), np.zeros(4), np.zeros(7))
    assert np.abs(impulse - reference.astype(float)).max() <= 1e-14
    assert found == pytest.approx(np.array(measure, dtype=float), rel=1e-6, abs=1e-14)


@pytest.mark.parametrize(
    ("masses", "push"),
    [
        ([1.0] * TALL, 0.0),
        ([1.0] * (TALL - 1) + [1000.0], 0.0),
        ([1.0, 1000.0] * (TALL // 2), 0.0),
        ([2.0**i for i in range(TALL)], 0.0),
        ([1.0] * TALL, 0.01),
        ([1.0] * (TALL - 1) + [1000.0], 0.02),
    ],
)
def test_hyperstatic_and_ill_conditioned_stacks_converge(masses, push):
    problem = stack_problem(masses, push=push)
    solution = solve(problem, np.zeros((problem.blocks, 3)), sweeps, tolerance=1e-9)
    assert solution.converged
    assert solution.measure.velocity <= 1e-9
    assert solution.measure.cone <= 1e-12
    # what was reported is what the reference finds: rounding of G λ, with λ up to 3 N s and G up to 12 / kg, is 1e-14
    assert float(measure_residual(problem, solution.impulse).velocity) <= 1e-9
    if not push:  # the ground carries the weight, but for the momentum that velocities within the residual have
        momentum = TALL * 1e-9 * sum(masses)
        assert solution.impulse[:4, 0].sum() == pytest.approx(sum(masses) * 9.81 * 1e-3, abs=momentum)


def uneven_problem(seed: int, spread: float) -> ContactProblem:
    """Random contacts of all kinds, mostly more rows than freedoms, masses over ``spread`` orders of magnitude."""
    rng = np.random.default_rng(seed)
    blocks, freedoms = int(rng.integers(2, 40)), int(rng.integers(6, 60))
    J = rng.normal(size=(blocks, 3, freedoms))
    friction = rng.choice([0, 0.2, 0.5, 1.0], blocks)
    cap = np.where(rng.uniform(size=blocks) < 0.2, rng.uniform(0.01, 1, blocks), 0.0)
    J[cap > 0, 0] = J[(friction == 0) & (cap == 0), 1:] = 0.0
    friction[cap > 0] = 0.0
    rows = J.reshape(3 * blocks, freedoms)
    G = (rows / 10 ** rng.uniform(-spread / 2, spread / 2, freedoms)) @ rows.T
    return ContactProblem(G.reshape(blocks, 3, blocks, 3), (J @ rng.normal(size=freedoms)), friction, cap)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0, 3, 6])
def test_random_problems_converge_whatever_the_masses(spread):
    for seed in range(40):
        problem = uneven_problem(seed, spread)
        solution = solve(problem, np.zeros((problem.blocks, 3)), sweeps, tolerance=1e-8)
        assert solution.converged, seed
        assert solution.measure.cone <= 1e-15 * np.abs(solution.impulse).max()


@pytest.mark.parametrize("gap", [1.0, 1e-4, 1e-12])
def test_pairs_on_the_central_path(gap):
    """x − w = z and x ∘ w = ν 1 inside the cones, also for a z without a direction; and how they follow z."""
    rng = np.random.default_rng(5)
    for z in (*rng.normal(size=(10, 3)), np.array([0.3, 0.0, 0.0]), np.array([-0.7, 0.0, 0.0])):
        pair = lorentz.CentralPair.of(z, gap)
        x, w = pair.x.astype(float), pair.w.astype(float)
        rounding = 1e-15 * (1 + np.abs(x).max()) * (1 + np.abs(w).max())
        assert np.allclose(x - w, z, atol=1e-14)
        assert np.allclose(lorentz.product(x, w).astype(float), [gap, 0, 0], atol=rounding)
        assert min(pair.high + pair.low) > 0
        # at the same ν: x ∘ dw + w ∘ dx = 0 for dw = −yielded(dx), and (x + w) ∘ relative(dz) = dz
        d = rng.normal(size=3)
        dw, share = pair.yielded(d).astype(float), pair.relative(d).astype(float)
        rounding = 1e-14 * (1 + np.abs(x + w).max()) * (1 + np.abs(dw).max() + np.abs(share).max())
        assert np.allclose(lorentz.product(x, dw).astype(float), lorentz.product(w, d).astype(float), atol=rounding)
        assert np.allclose(lorentz.product(x + w, share).astype(float), d, atol=rounding)


@pytest.mark.parametrize("gap", [1e-8, 1e-2, 1.0])
def test_outward_changes_of_a_central_pair_bend_it_less(gap):
    """Along the axis of the cone x = (z + √(z² + 4 ν)) / 2: inwards a change counts as a share of x + w, outwards times
    2 √ν / (x + w); across the frame it counts as a share."""
    for z in (-3.0, -0.2, 0.1, 2.0):
        pair, size = lorentz.CentralPair.of(np.array([z, 0.0, 0.0]), gap), np.sqrt(z * z + 4 * gap)
        inwards, outwards = (pair.bending(np.array([way * z, 0.0, 0.0])).astype(float) for way in (-1, 1))
        assert np.allclose(inwards, [-z / size, 0, 0], atol=1e-12)
        assert np.allclose(outwards, [2 * np.sqrt(gap) * z / size**2, 0, 0], rtol=1e-9, atol=1e-12)
    # in a frame with a direction, each of its parts counts by itself
    pair, e = lorentz.CentralPair.of(np.array([0.0, 0.6, 0.8]), gap), np.array([0.6, 0.8])
    d = np.concatenate([[1.0], e])  # z is 1 along (1, e) and −1 along (1, −e)
    size = np.sqrt(1 + 4 * gap)
    assert np.allclose(pair.bending(d).astype(float), 2 * np.sqrt(gap) / size**2 * d, rtol=1e-7)
    assert np.allclose(pair.bending(-d).astype(float), -d / size, rtol=1e-7)
    aside = np.array([0.0, -0.8, 0.6])
    assert np.allclose(pair.bending(aside).astype(float), pair.relative(aside).astype(float))


@given(seed=st.integers(0, 10_000))
def test_lorentz_cones(seed):
    rng = np.random.default_rng(seed)
    for x, y, z in rng.normal(size=(5, 3, 3)):
        for inside in (x, y):
            inside[0] = np.hypot(inside[1], inside[2]) + rng.uniform(0.01, 1)
        assert np.allclose(lorentz.product(x, lorentz.quotient(z, x)).astype(float), z, atol=1e-9)
        assert np.allclose(lorentz.product(x, np.array([1.0, 0.0, 0.0])).astype(float), x)
        W = lorentz.Scaling(*[part.astype(float) for part in lorentz.Scaling.of(x, y)])
        assert np.allclose(W.matrix @ x, W.inverse @ y, atol=1e-9)
        assert np.allclose(W.square @ x, y, atol=1e-9)
        assert np.allclose(W.matrix @ W.inverse, np.eye(3), atol=1e-9)
        rate = lorentz.exit_rate(x, z)
        if rate > 0:
            edge = x + z / rate
            assert abs(lorentz.determinant(edge)) < 1e-9 * (1 + np.abs(edge).max()) ** 2
            assert lorentz.determinant(x + 0.999 * z / rate) > 0
        else:
            assert lorentz.determinant(x + 1e6 * z) > 0


def test_the_interior_point_method_alone_solves_a_stack():
    problem = stack_problem([1.0] * (TALL - 1) + [1000.0], push=0.02)
    residuals = []

    def judge(impulse):
        residuals.append(float(sweeps(problem, impulse, np.zeros(problem.blocks), 0)[2].velocity))
        return residuals[-1] < 1e-7

    _, made = interior_point(problem, ConeStart(1.0, 1.0), judge)
    assert residuals[-1] < 1e-7
    assert made < 40


def test_sweeps_alone_creep_on_a_stack_and_say_so():
    problem = stack_problem([1.0] * (TALL - 1) + [1000.0])
    *_, measure = sweeps(problem, np.zeros((problem.blocks, 3)), np.zeros(problem.blocks), 500)
    assert measure.velocity > 1e-4
    hopeless = solve(problem, np.zeros((problem.blocks, 3)), _nothing, tolerance=1e-9, starts=())
    assert not hopeless.converged
    assert hopeless.measure.velocity > 1e-9


def _nothing(problem: ContactProblem, impulse: np.ndarray, kappa: np.ndarray, count: int):
    """Sweeps that do not sweep."""
    return np.zeros_like(impulse), kappa, Measure(*map(float, measure_residual(problem, np.zeros_like(impulse))))


@pytest.mark.parametrize("push", [0.0, 0.1])  # at rest, and sliding
def test_a_warm_start_at_the_solution_stays_there(push):
    problem = stack_problem([1.0] * TALL, push=push)
    cold = solve(problem, np.zeros((problem.blocks, 3)), sweeps, tolerance=1e-10)
    warm = solve(problem, cold.impulse, sweeps, tolerance=1e-10)
    assert (warm.sweeps, warm.newton_steps, warm.interior_steps) == (FIRST_LOOK, 0, 0)
    assert np.abs(problem.velocity(warm.impulse) - problem.velocity(cold.impulse)).max() < 1e-9


def test_no_blocks_is_no_problem():
    problem = ContactProblem(np.zeros((0, 3, 0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0))
    solution = solve(problem, np.zeros((0, 3)), sweeps, tolerance=1e-9)
    assert solution.converged
    assert solution.impulse.shape == (0, 3)


def test_pinocchios_admm_solver_finds_the_same_velocities():
    pin = pytest.importorskip("pinocchio")
    problem = stack_problem([1.0, 5.0, 2.0], push=0.01)
    k, peer = problem.blocks, FrictionProblem(problem)
    settings, result = pin.ADMMSolverSettings(), pin.ADMMSolverResult()
    settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = 1e-12
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = 0.0
    settings.max_iterations = 10_000
    delassus, solver = pin.DelassusOperatorDense(peer.G), pin.ADMMConstraintSolver(3 * k)
    assert solver.solve(delassus, peer.g, peer.constraints, peer.memory, settings, result)
    ours = solve(problem, np.zeros((k, 3)), sweeps, tolerance=1e-11)
    assert ours.converged
    # impulses of a hyperstatic scene are not unique, velocities are
    assert np.abs(problem.velocity(ours.impulse) - problem.velocity(peer.impulses(result))).max() < 1e-9
