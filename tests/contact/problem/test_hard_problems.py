"""Contact problems with masses over eight orders of magnitude, jammed ones, and what double precision can reach."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.sparse import csr_array

from contact_problems import mixed_problem
from whippletree.contact.problem.cone_newton import newton
from whippletree.contact.problem.contact_problem import ContactProblem, LoadedDiscs, measure_residual
from whippletree.contact.problem.delassus import DelassusProduct, islands
from whippletree.contact.problem.solver import ContactSolution, solve
from whippletree.simulation.time_stepping.impulse_step import sweeps

DIGITS = 50


def solved(problem: ContactProblem, tolerance: float = 1e-9) -> ContactSolution:
    return solve(problem, np.zeros((problem.blocks, 3)), sweeps, tolerance=tolerance)


def in_many_digits(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.vectorize(mpmath.mpf, otypes=[object])(a) for a in arrays]


def exact_solution(problem: ContactProblem, impulse: np.ndarray) -> tuple[np.ndarray, mpmath.mpf]:
    """The solution near given impulses by Newton's method in many digits, written out again, and its natural map."""
    k = problem.blocks
    G, g, mu, cap, x = in_many_digits(*problem[:4], impulse)
    traces = [sum(G[i, a, i, a] for a in range(3)) for i in range(k)]
    mass = np.array([3 / trace if trace else mpmath.mpf(1) for trace in traces])
    for _ in range(8):
        z = x - mass[:, None] * ((G.reshape(3 * k, 3 * k) @ x.ravel()).reshape(k, 3) + g)
        F, P = x.copy(), np.full((k, 3, 3), mpmath.mpf(0))
        for i in range(k):
            height = max(z[i, 0], mpmath.mpf(0))
            radius, side = mu[i] * height + cap[i], mpmath.hypot(z[i, 1], z[i, 2])
            onto = [height, z[i, 1], z[i, 2]]
            P[i, 0, 0] = mpmath.mpf(int(z[i, 0] > 0))
            P[i, 1, 1] = P[i, 2, 2] = mpmath.mpf(1)
            if side > radius:
                e = z[i, 1:] / side
                onto[1:] = radius * e
                P[i, 1:, 1:] = radius / side * (np.eye(2, dtype=int) - np.outer(e, e))
                P[i, 1:, 0] = mu[i] * P[i, 0, 0] * e
            F[i] = x[i] - np.array(onto)
        J = np.einsum("kij,kjl->kil", P * mass[:, None, None], G.reshape(k, 3, 3 * k)).reshape(3 * k, 3 * k)
        for i in range(k):
            own = slice(3 * i, 3 * i + 3)
            # forces are not unique: a damping far below all that counts picks one
            J[own, own] += np.eye(3, dtype=int) - P[i] + mpmath.mpf(10) ** -25 * P[i]
        step = mpmath.lu_solve(mpmath.matrix(J.tolist()), mpmath.matrix([-f for f in F.ravel()]))
        x = x + np.array(list(step)).reshape(k, 3)
    return x, measure_residual(ContactProblem(G, g, mu, cap), x).velocity


# --- random problems --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0, 2, 4, 6, 8])
def test_random_problems_are_solved_or_end_where_rounding_ends_them(spread):
    left = []
    for seed in range(11_000, 11_012):
        solution = solved(mixed_problem(seed, spread))
        assert solution.converged or solution.at_rounding, seed
        left.append(solution.rounding)
    assert spread == 8 or np.median(left) < 1e-10  # rounding is an excuse for few


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12_020, 12_025])
def test_what_rounding_leaves_is_what_an_exact_solution_leaves_once_rounded(seed):
    """A tolerance that no doubles meet: the answer says so, and the exact one, rounded, is no better than stated."""
    problem = mixed_problem(seed, 8, most=20)
    found = solved(problem, tolerance=1e-30)
    assert not found.converged
    assert found.at_rounding
    with mpmath.workdps(DIGITS):
        exact, residual = exact_solution(problem, found.impulse)
        assert residual < mpmath.mpf(10) ** -25
        true = ContactProblem(*in_many_digits(*problem[:4]))
        (rounded,) = in_many_digits(exact.astype(float))
        assert measure_residual(true, rounded).velocity <= found.rounding
        # ours, judged without rounding
        (ours,) = in_many_digits(found.impulse)
        assert measure_residual(true, ours).velocity <= 2 * found.rounding


# --- Newton's method --------------------------------------------------------------------------------------------------


def test_newtons_method_stays_quadratic_where_forces_are_not_unique_and_masses_differ():
    """A plate of 10⁷ kg on a column of three blocks of 1 kg, with every contact twice."""
    J, layers, twins = [], 3, 2
    for i in range(layers + 1):
        for _ in range(twins):
            row = np.zeros((3, layers + 1))
            row[0, i] = 1.0
            if i:
                row[0, i - 1] = -1.0
            J.append(row)
    rows = np.concatenate(J)
    k = len(J)
    weights = np.array([1.0] * layers + [1e7])
    G = ((rows / weights) @ rows.T).reshape(k, 3, k, 3)
    problem = ContactProblem(G, np.stack([row @ np.full(layers + 1, -0.01) for row in J]), np.zeros(k), np.zeros(k))
    tolerance = 1e-9
    impulse, made, reached = newton(problem, np.zeros((k, 3)), tolerance)
    assert reached
    assert made < 15
    # velocities are right to the tolerance, so the impulse that stops all blocks is to the tolerance times their mass
    assert impulse[:twins, 0].sum() == pytest.approx(0.01 * weights.sum(), rel=0, abs=tolerance * weights.sum())


# --- islands ----------------------------------------------------------------------------------------------------------


def test_islands_are_solved_by_themselves():
    parts = [mixed_problem(seed, 4, most=12) for seed in (14_001, 14_002, 14_003)]
    starts = np.cumsum([0, *[part.blocks for part in parts]])
    k = int(starts[-1])
    order = np.random.default_rng(0).permutation(k)  # whatever the order of the blocks
    G = np.zeros((k, 3, k, 3))
    for at, part in zip(starts, parts, strict=False):
        own = slice(int(at), int(at) + part.blocks)
        G[own, :, own] = part.G
    joined = [np.concatenate([getattr(part, word) for part in parts]) for word in ("g", "friction", "cap")]
    whole = ContactProblem(G, *joined).part(order)
    found = solved(whole)
    assert found.converged
    assert float(measure_residual(whole, found.impulse).velocity) <= 1e-9
    apart = islands(whole.G.reshape(3 * whole.blocks, -1))
    assert np.array_equal(np.sort(np.concatenate(apart)), np.arange(k))
    assert len(apart) >= 3
    back = np.argsort(order)
    for at, part in zip(starts, parts, strict=False):
        alone = part.velocity(solved(part).impulse)
        together = part.velocity(found.impulse[back][int(at) : int(at) + part.blocks])
        assert np.abs(alone - together).max() < 1e-6


# --- jammed -----------------------------------------------------------------------------------------------------------


def test_a_wedged_body_sticks():
    """A disc pressed between two steep planes: friction beyond the wedge's angle holds it, and no motion is left."""
    angle = 0.3
    rows = []
    for sign in (1, -1):
        normal, tangent = (sign * np.cos(angle), np.sin(angle)), (-np.sin(angle) * sign, np.cos(angle))
        rows.append([[*normal, 0.0], [*tangent, sign], [0.0, 0.0, 0.0]])
    J = np.array(rows)
    G = (J.reshape(6, 3) / np.array([1.0, 1.0, 0.5])) @ J.reshape(6, 3).T
    problem = ContactProblem(G.reshape(2, 3, 2, 3), J @ np.array([0.02, -1.0, 0.3]), np.full(2, 2.0), np.zeros(2))
    found = solved(problem, 1e-12)
    assert found.converged
    assert np.abs(problem.velocity(found.impulse)).max() < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "spread"), [(52, 4), (15, 6)])
def test_where_everything_is_jammed_held_slips_lead_there(seed, spread):
    """Problems that no start of the interior-point method solves by itself, to the tolerance or to rounding."""
    problem = mixed_problem(seed, spread)
    found = solved(problem)
    assert found.converged or found.at_rounding
    assert np.abs(problem.velocity(found.impulse)).max() < 1e-7


def rolling_problem(rng: np.random.Generator, *, points: int, bodies: int = 1) -> tuple[ContactProblem, np.ndarray]:
    """Points of free bodies that strike a plane, each with a moment against spinning and rolling about as long as the
    body; and the rows (3k, 6 bodies) of its matrix J M⁻¹ Jᵀ, divided by √M."""
    place, scale = 0.3 * rng.normal(size=(bodies, points, 3)), np.repeat([5.0, 1.0], 3)
    rows, turn = np.zeros((2, bodies, points, 3, 6 * bodies)), np.array([2, 0, 1])
    for i, (own, body) in enumerate(zip(place, scale * rng.uniform(0.7, 1.4, (bodies, 6)), strict=True)):
        for k, r in enumerate(own):
            across = np.array([[0, r[2], -r[1]], [-r[2], 0, r[0]], [r[1], -r[0], 0]])
            rows[0, i, k, :, 6 * i : 6 * i + 6] = np.concatenate([across, np.eye(3)], axis=1)[turn] * body
            rows[1, i, k, 1:, 6 * i : 6 * i + 3] = np.eye(3)[:2] * body[:3]
    k = bodies * points
    J = rows.reshape(6 * k, -1)
    g = J @ (rng.normal(size=J.shape[1]) * rng.uniform(0.1, 10.0, J.shape[1]))
    pressing = np.arange(2 * k) % k
    moments = LoadedDiscs(pressing, np.repeat([0.0, 1.0], k) * rng.uniform(0.1, 1.0, 2 * k))
    friction = np.repeat([1.0, 0.0], k) * rng.choice([0.0, 0.3, 1.0, 10.0])
    return ContactProblem.of(J @ J.T, g.reshape(-1, 3), friction, np.zeros(2 * k), moments), J


def test_moments_as_large_as_what_they_act_on_are_found():
    """The radius of a moment follows a normal impulse that the moment itself changes: Newton's method without that
    derivative swung for seconds and found nothing. One contact of a free body always has a solution: the tangents and
    moments that are left at a normal impulse λₙ are those of a convex problem, and with λₙ → ∞ they let it part."""
    rng = np.random.default_rng(8)
    for _ in range(100):
        problem, _ = rolling_problem(rng, points=1)
        found = solved(problem, 1e-8)
        assert found.converged


def test_several_points_with_moments_are_found():
    rng = np.random.default_rng(9)
    found = [solved(rolling_problem(rng, points=4)[0], 1e-7) for _ in range(20)]
    assert all(solution.converged for solution in found)


def test_a_sparse_problem_with_moments_takes_the_steps_of_a_dense_one():
    rng = np.random.default_rng(10)
    problem, J = rolling_problem(rng, points=1, bodies=5)
    sparse = csr_array(J)
    product = problem._replace(G=DelassusProduct(sparse, sparse, np.arange(30) // 6))
    first, second = (newton(own, np.ones((10, 3)), 1e-10) for own in (problem, product))
    assert first[1:] == second[1:]
    assert first[2]
    np.testing.assert_allclose(second[0], first[0], atol=1e-9)


def test_overflow_is_no_crash():
    problem = mixed_problem(3, 0, most=5)
    huge = problem._replace(G=problem.G * 1e300, g=problem.g * 1e200)
    with np.errstate(all="ignore"):
        found = solved(huge)
    assert not found.converged or np.isfinite(found.impulse).all()
