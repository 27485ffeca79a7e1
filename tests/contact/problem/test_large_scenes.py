"""Contact problems too large for dense matrices: the same answers from sparse ones, and scenes of many bodies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import whippletree as wt
from whippletree.contact.kinematics.broad_phase import Neighbourhood
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.contact.kinematics.large_scenes import Snapshot, snapshot
from whippletree.contact.problem import delassus
from whippletree.contact.problem.cone_newton import newton
from whippletree.contact.problem.contact_problem import ContactProblem, measure_residual
from whippletree.contact.problem.delassus import islands
from whippletree.contact.problem.independent_parts import parts_of, responses
from whippletree.contact.problem.solver import FIRST_LOOK, residuals, solve
from whippletree.simulation.time_stepping.impulse_step import sweeps

G = 9.81


def pile_problem(seed: int, bodies: int, blocks: int, spread: float = 1.0) -> ContactProblem:
    """Contacts of all kinds between random pairs of bodies with 6 freedoms, or a body and the world; sparse."""
    rng = np.random.default_rng(seed)
    J = np.zeros((blocks, 3, 6 * bodies))
    friction, cap = rng.choice([0.0, 0.3, 1.0], blocks), np.zeros(blocks)
    for i in range(blocks):
        first, second = rng.integers(bodies), rng.integers(bodies + 1)
        if rng.uniform() < 0.1:  # dry friction of a joint
            J[i, 1, 6 * first], friction[i], cap[i] = 1.0, 0.0, rng.uniform(0.01, 1)
            continue
        J[i, :, 6 * first : 6 * first + 6] = rng.normal(size=(3, 6))
        if second < bodies and second != first:
            J[i, :, 6 * second : 6 * second + 6] = rng.normal(size=(3, 6))
    masses = 10 ** rng.uniform(-spread / 2, spread / 2, 6 * bodies)
    rows = J.reshape(3 * blocks, -1)
    part = np.repeat(np.arange(bodies), 6)
    response = responses(csr_array(rows), part, lambda b: b / masses)
    matrix = delassus.DelassusProduct(csr_array(rows), response, part)
    return ContactProblem(matrix, J @ rng.normal(size=6 * bodies), friction, cap)


def dense(problem: ContactProblem) -> ContactProblem:
    return ContactProblem.of(problem.matrix.array(), *problem[1:])


def wall(columns: int, rows: int, friction: float = 0.5) -> wt.Model:
    """Bricks of 1 kg in a running bond, each corner on the brick below it; a top counts as a plane."""
    x, y, z = 0.5, 0.25, 0.25
    inertia = ((y * y + z * z) / 12, (x * x + z * z) / 12, (x * x + y * y) / 12)
    builder = wt.Builder("wall").geometry("ground", "world", "half_space")
    for row in range(rows):
        for column in range(columns):
            brick = f"{row} {column}"
            place = (x * (column + (row % 2) / 2), 0.0, z * (row + 0.5))
            builder.body(brick, 1.0, inertia=inertia).joint(brick, "free", "world", brick, start=(*place, 1, 0, 0, 0))
            builder.geometry(f"{brick} top", brick, "half_space", position=(0, 0, z / 2))
            for k, (side, depth) in enumerate(((-1, -1), (-1, 1), (1, -1), (1, 1))):
                corner = f"{brick} corner {k}"
                builder.geometry(corner, brick, "point", position=(0.48 * side * x, depth * y / 2, -z / 2))
                under = column + (row % 2) - (side < 0)
                below = f"{row - 1} {min(max(under, 0), columns - 1)} top" if row else "ground"
                builder.contact(corner, corner, below, friction=friction)
    return builder.build()


# --- the matrix -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_product_is_its_matrix(seed):
    problem = pile_problem(seed, 40, 120)
    sparse, full = problem.matrix, problem.matrix.array()
    rng = np.random.default_rng(seed)
    x, scale = rng.normal(size=360), rng.uniform(0.5, 2, (120, 3))
    assert sparse @ x == pytest.approx(full @ x, abs=1e-12)
    assert delassus.own_blocks(sparse) == pytest.approx(delassus.own_blocks(full), abs=1e-13)
    assert delassus.scale_delassus(sparse, scale).array() == pytest.approx(
        delassus.scale_delassus(full, scale), abs=1e-12
    )
    some = rng.permutation(120)[:110]
    piece = delassus.part(sparse, some)
    assert delassus.is_sparse(piece)
    assert piece.array() == pytest.approx(delassus.part(full, some), abs=1e-12)
    assert delassus.part(sparse, some[:30]) == pytest.approx(delassus.part(full, some[:30]), abs=1e-12)
    assert np.all(delassus.reach(sparse, x) >= delassus.reach(full, x) * (1 - 1e-12))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_systems_and_solutions_of_least_norm_are_those_of_the_dense_matrix(seed):
    problem = pile_problem(seed, 30, 120)  # more rows than freedoms: singular
    sparse, full = problem.matrix, problem.matrix.array()
    rng = np.random.default_rng(seed)
    left, diagonal = rng.normal(size=(120, 3, 3)), rng.normal(size=(120, 3, 3)) + 5 * np.eye(3)
    for rows in (None, np.sort(rng.permutation(360)[:200])):
        b = rng.normal(size=360 if rows is None else 200)
        found, wanted = (delassus.DelassusSystem(G, left, diagonal, rows).solve(b) for G in (sparse, full))
        assert found == pytest.approx(wanted, abs=1e-8 * np.abs(wanted).max())
    rows = np.sort(rng.permutation(360)[:300])
    right = np.zeros(360)
    right[rows] = full[np.ix_(rows, rows)] @ rng.normal(size=300)
    found, wanted = (delassus.least_norm(G, right, rows) for G in (sparse, full))
    assert found == pytest.approx(wanted, abs=1e-6 * np.abs(wanted).max())


def test_islands_of_a_product_are_those_of_its_matrix():
    problem = pile_problem(7, 90, 110)
    found, wanted = islands(problem.matrix), islands(problem.matrix.array())
    assert len(found) > 3
    assert sorted(map(tuple, found)) == sorted(map(tuple, wanted))


# --- the solver -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "spread"), [(11, 1.0), (12, 1.0), (13, 4.0), (14, 6.0)])
def test_large_problems_are_solved_to_the_same_tolerance(seed, spread):
    problem = pile_problem(seed, 100, 220, spread)
    found = solve(problem, np.zeros((220, 3)), sweeps, tolerance=1e-9)
    assert found.converged
    # judged by the code that works on any scalar, and by the compiled sweeps of the dense matrix
    full = dense(problem)
    assert float(measure_residual(full, found.impulse).velocity) <= 1.1e-9
    assert sweeps(full, found.impulse, np.zeros(220), 0)[2].velocity == pytest.approx(found.measure.velocity, abs=1e-11)
    assert residuals(full, found.impulse).velocity.max() == pytest.approx(found.measure.velocity, abs=1e-11)


@pytest.mark.slow
def test_coloured_sweeps_keep_a_solution_and_approach_it_from_elsewhere():
    problem = pile_problem(21, 100, 200)
    found = solve(problem, np.zeros((200, 3)), sweeps, tolerance=1e-11)
    again = solve(problem, found.impulse, sweeps, tolerance=1e-10)
    assert (again.sweeps, again.newton_steps) == (FIRST_LOOK, 0)
    assert problem.velocity(again.impulse) == pytest.approx(problem.velocity(found.impulse), abs=1e-9)
    measures = [sweeps(problem, np.zeros((200, 3)), np.zeros(200), count)[2].velocity for count in (0, 10, 1000)]
    assert measures[0] > 10 * measures[1] > 100 * measures[2]


@pytest.mark.slow
def test_a_block_that_nothing_moves_is_no_obstacle():
    problem = pile_problem(22, 60, 150)
    rows, response = (problem.matrix.rows.tolil(), problem.matrix.response.tolil())
    rows[30:33], response[30:33] = 0.0, 0.0
    matrix = delassus.DelassusProduct(csr_array(rows.tocsr()), csr_array(response.tocsr()), problem.matrix.part)
    g = problem.g.copy()
    g[10] = 0.0
    found = solve(ContactProblem(matrix, *[g, *problem[2:]]), np.zeros((150, 3)), sweeps, tolerance=1e-9)
    assert found.converged
    assert np.all(np.isfinite(found.impulse))


def test_a_newton_step_without_a_solution_is_not_taken():
    """One block flies off at a speed whose square overflows, which leaves nothing of the damping: 0 x = g < 0."""
    bodies, blocks = 100, 300
    eye = np.kron(np.repeat(np.eye(bodies), blocks // bodies, axis=0), np.eye(3))
    eye[:3] = 0.0  # nothing moves the first block
    matrix = delassus.delassus(csr_array(eye), csr_array(eye), np.repeat(np.arange(bodies), 3))
    assert delassus.is_sparse(matrix)
    g = np.tile([-1.0, 0.0, 0.0], (blocks, 1))
    g[-1, 0] = 1e200
    with np.errstate(over="ignore"):
        impulse, made, reached = newton(
            ContactProblem(matrix, g, np.full(blocks, 0.5), np.zeros(blocks)), np.zeros((blocks, 3)), 1e-9
        )
    assert (made, reached) == (0, False)
    assert not impulse.any()


# --- parts of a model -------------------------------------------------------------------------------------------------


def test_responses_part_by_part_are_those_of_the_whole():
    model = wall(6, 4)
    q = wt.reference(model).integrate(model.home.q, np.random.default_rng(0).normal(scale=0.1, size=model.nv))
    dyn, J = wt.compile(model), snapshot(model, q).jacobian(np.arange(96))
    part = parts_of(model)
    assert len(set(part)) == 24
    sides = []

    def solve_noting(b: np.ndarray) -> np.ndarray:
        sides.append(len(b))
        return dyn.mass_matrix_solve(q, b)

    found = responses(J, part, solve_noting).toarray()
    assert found == pytest.approx(dyn.mass_matrix_solve(q, J.toarray()), abs=1e-12)
    assert sides[0] <= 3 * 12  # of the 288 rows, no more than one brick has


def test_constraints_tie_parts_together():
    builder = wt.Builder("three")
    for k in range(3):
        builder.body(f"b{k}", 1.0, inertia=(1, 1, 1)).joint(f"j{k}", "free", "world", f"b{k}")
    apart = parts_of(builder.build())
    assert np.unique(apart).size == 3
    tied = parts_of(builder.constraint("rod", "distance", "b0", "b2", length=1.0).build())
    assert tied[0] == tied[12] != tied[6]


# --- scenes -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_wall_of_many_bricks_stands():
    columns, rows = 30, 10
    run = wt.simulate(wall(columns, rows), duration=0.02, method="time_stepping", output_dt=0.01)
    assert run.attrs["unconverged_steps"] == 0
    assert np.abs(run.v.values).max() < 1e-6
    lowest = run.contact_force.values[-1, : 4 * columns]
    assert lowest[:, 0].sum() == pytest.approx(columns * rows * G, rel=1e-5)
    assert abs(float(run.energy_balance[-1])) < 1e-6


@pytest.mark.slow
def test_a_plate_on_thousands_of_points_comes_to_rest():
    """All contacts on one body: the matrix is full, its factors are not."""
    builder = wt.Builder("many").geometry("ground", "world", "half_space").body("plate", 1.0, inertia=(1, 1, 1))
    builder.joint("free", "free", "world", "plate")
    for k in range(2100):
        builder.geometry(f"{k}", "plate", "point", position=(0.01 * (k % 50), 0.01 * (k // 50), 0))
        builder.contact(f"touch {k}", f"{k}", "ground", friction=0.5)
    run = wt.simulate(builder.build(), duration=2e-3, method="time_stepping", output_dt=1e-3)
    assert run.attrs["unconverged_steps"] == 0
    assert run.contact_force.values[-1, :, 0].sum() == pytest.approx(G, rel=1e-3)
    assert np.abs(run.v.values[-1]).max() < 1e-4


@pytest.mark.slow
def test_many_robots_in_one_scene_are_as_one_alone():
    """Thirty legs with limits and friction in their joints: more blocks than a dense matrix takes."""

    def legs(count: int) -> wt.Model:
        builder = wt.Builder("legs").geometry("ground", "world", "half_space")
        for k in range(count):
            builder.body(f"hip {k}", 2.0, inertia=(0.1, 0.1, 0.1), center=(0, 0, 0))
            builder.joint(f"slide {k}", "prismatic", "world", f"hip {k}", axis=(0, 0, 1), start=0.62, lower=0.2)
            builder.body(f"thigh {k}", 0.5, inertia=(0.01, 0.01, 0.01), center=(0, 0, -0.15))
            builder.joint(
                f"hip_{k}", "revolute", f"hip {k}", f"thigh {k}", axis=(0, 1, 0), friction=0.2, lower=-1.0, upper=1.0,
                start=0.3,
            )  # fmt: skip
            builder.body(f"shank {k}", 0.3, inertia=(0.01, 0.01, 0.01), center=(0, 0, -0.15))
            builder.joint(
                f"knee_{k}", "revolute", f"thigh {k}", f"shank {k}", position=(0, 0, -0.3), axis=(0, 1, 0),
                friction=0.1, lower=-2.0, upper=-0.1, start=-0.6,
            )  # fmt: skip
            builder.geometry(f"foot {k}", f"shank {k}", "sphere", radius=0.02, position=(0, 0, -0.3))
            builder.contact(f"foot {k}", f"foot {k}", "ground", friction=0.7)
        return builder.build()

    one, many = (
        wt.simulate(legs(count), duration=0.1, method="time_stepping", output_dt=0.05, tolerance=1e-10)
        for count in (1, 30)
    )
    assert many.attrs["unconverged_steps"] == 0
    for k in range(30):
        assert many.q.values[:, 3 * k : 3 * k + 3] == pytest.approx(one.q.values, abs=1e-7)


def _meadow() -> wt.Model:
    """Shapes of many kinds above a plane and a curved ground, all pairs of them."""
    builder = wt.Builder("meadow").geometry("plane", "world", "half_space")
    x, y = np.meshgrid(np.arange(9.0), np.arange(7.0), indexing="ij")
    builder.geometry("hills", "world", "height_field", heights=0.2 * np.sin(x) * np.cos(y), cell=(1.0, 1.0))
    shapes = {
        "sphere": {"radius": 0.2}, "capsule": {"radius": 0.1, "length": 0.4}, "box": {"size": (0.2, 0.3, 0.4)},
        "cylinder": {"radius": 0.2, "length": 0.3}, "ellipsoid": {"radii": (0.1, 0.2, 0.3)},
    }  # fmt: skip
    for k, kind in enumerate([*shapes, "sphere"]):
        builder.body(f"b{k}", 1.0, (0, 0, 0), (0.1, 0.1, 0.1)).joint(f"j{k}", "free", "world", f"b{k}")
        builder.geometry(f"g{k}", f"b{k}", kind, **shapes[kind])
    return wt.with_contacts(builder.build(), friction=0.5)


def test_what_is_left_out_as_far_is_far() -> None:
    model, random = _meadow(), np.random.default_rng(0)
    contacts, left_out = contact_set(model), 0
    for _ in range(2):
        q = model.home.q.copy()
        for joint in model.joints:
            place = np.concatenate([random.uniform(-4, 4, 2), random.uniform(-0.3, 1.0, 1), random.normal(size=4)])
            q[model.q_slice(joint.name)] = place
            q[model.q_slice(joint.name)][3:] /= np.linalg.norm(place[3:])
        at = Snapshot(contacts, q)
        for reach in (0.0, 0.3):
            some, every = at.within(reach).gap, at.points.gap
            near = every <= reach
            np.testing.assert_array_equal(some[near], every[near])
            assert np.all(some[~near] > reach)
            left_out += int((np.isinf(some) & np.isfinite(every)).sum())
        forces = np.where((every < 0.05)[:, None], random.uniform(size=(len(every), 3)), 0.0)
        expected = at.jacobian(np.arange(len(every))).T @ np.where(np.isfinite(every)[:, None], forces, 0).ravel()
        np.testing.assert_allclose(Neighbourhood(contacts).joint_forces(q, forces), expected, atol=1e-12)
    assert left_out > 20
