"""Constraint embedding: trees of loops through the recursion over clusters, against every other route and 50 digits."""

from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from random import Random

import mpmath
import numpy as np
import pinocchio as pin
import pytest

import whippletree as wt
from strategies import digits, exact_numbers, make_closed_model, make_looped_model
from whippletree.accuracy.predicted_error import predicted_errors
from whippletree.arithmetic.trace import Trace, Traced
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON
from whippletree.constraints import dynamics, redundancy
from whippletree.constraints.clusters import cluster_structure, minimal_coordinates
from whippletree.constraints.clusters.cluster_routes import cluster_routes
from whippletree.constraints.clusters.cluster_structure import structure_by_clusters
from whippletree.constraints.clusters.few_motions import FewRows, null_vector
from whippletree.constraints.clusters.loop_clusters import cluster_tree, is_cheaper_by_clusters
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.redundancy import find_structure
from whippletree.constraints.singular.exploration import explore
from whippletree.functions.registry import find
from whippletree.model import Constraint, State
from whippletree.tree.inverse import inverse_dynamics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

EPS = np.finfo(float).eps
SEEDS = range(12)


def allowed_state(model, motion):
    """The motion with a velocity that the constraints allow."""
    v = wt.reference(model, route="nullspace").project_velocity(motion.q, motion.v)
    return motion.q, np.asarray(v, dtype=float), motion.tau


def conditioned(model, q):
    """A bound on what rounding does to accelerations: the condition number of the block matrix, in units of eps."""
    return 200 * EPS * float(wt.reference(model).block_condition_numbers(q)[0])


def far_apart(found, expected, floor=1.0):
    """The largest difference relative to the largest number."""
    return np.abs(found - expected).max(initial=0) / max(np.abs(expected).max(initial=0), floor)


@pytest.mark.slow
@pytest.mark.parametrize("massless", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_trees_of_loops_through_every_route(seed, massless):
    model, motion = make_looped_model(seed, massless=massless)
    state = allowed_state(model, motion)
    tolerance = conditioned(model, motion.q)
    found = wt.reference(model, route="embedding")
    for route in ("augmented", "nullspace", "block", "elimination"):
        other = wt.reference(model, route=route)
        assert far_apart(found.forward_dynamics(*state), other.forward_dynamics(*state)) < tolerance
        if route != "nullspace":  # which shares the force of redundant rows
            assert far_apart(found.constraint_forces(*state), other.constraint_forces(*state)) < tolerance
        assert far_apart(found.project_velocity(motion.q, motion.v), state[1]) < tolerance
        assert far_apart(found.closing_step(motion.q + 0.01), other.closing_step(motion.q + 0.01)) < 10 * tolerance


@pytest.mark.parametrize("seed", SEEDS)
def test_the_equations_of_motion_hold(seed):
    model, motion = make_looped_model(seed)
    q, v, tau = allowed_state(model, motion)
    ref = wt.reference(model, route="embedding")
    a, f = ref.forward_dynamics(q, v, tau), ref.constraint_forces(q, v, tau)
    M, A, C = ref.mass_matrix(q), ref.constraint_jacobian(q), np.array(constraint_set(model).compliance, dtype=float)
    scale = np.abs(M) @ np.abs(a) + np.abs(A).T @ np.abs(f) + np.abs(ref.bias(q, v)) + np.abs(tau)
    assert np.all(np.abs(M @ a + ref.bias(q, v) - tau - A.T @ f) < 1e-10 * scale.max())
    kept = list(constraint_set(model).structure.independent)
    left = (A @ a + ref.constraint_bias(q, v) + C * f)[kept]
    assert np.abs(left).max(initial=0) < 1e-9 * max(1.0, np.abs(a).max())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 5, 7, 8])
def test_dagger_terms_and_derivatives_by_clusters(seed):
    model, motion = make_looped_model(seed)
    state = allowed_state(model, motion)
    tolerance = 10 * conditioned(model, motion.q)
    found, whole = wt.reference(model, route="embedding"), wt.reference(model, route="augmented")
    for own, other in zip(found.dagger(motion.q), whole.dagger(motion.q), strict=True):
        assert far_apart(own, other) < tolerance
    derivatives = zip(
        found.forward_dynamics_derivatives(*state), whole.forward_dynamics_derivatives(*state), strict=True
    )
    for own, other in derivatives:
        assert far_apart(own, other) < 10 * tolerance


@pytest.mark.parametrize("seed", SEEDS)
def test_structure_by_clusters_is_that_of_the_whole(seed):
    system = constraint_set(make_looped_model(seed)[0])
    parts, whole = structure_by_clusters(system), find_structure(system)
    assert len(parts.independent) == len(whole.independent)
    assert (parts.mobility, parts.stuck, set(parts.conditional)) == (
        whole.mobility,
        whole.stuck,
        set(whole.conditional),
    )
    m = Mechanism.of(system.model)
    q = parts.configuration.astype(object)
    rigid = [i for i, k in enumerate(system.position_rows) if not system.compliance[k]]
    assert np.abs(system.rows(m, m.still(q), q, None, 0).residual().astype(float)[rigid]).max() < 1e-10


def test_rows_have_no_columns_for_joints_above_their_loop():
    model = wt.mechanisms.four_bar_chain(10)
    system, m = constraint_set(model), Mechanism.of(model)
    q = Trace().inputs(model.nq)
    A = system.rows(m, m.still(q), q, None, 0).jacobian()
    entries = sum(isinstance(x, Traced) or x != 0 for x in A.flat)
    assert entries == 10 * 2 * 3  # two rows of three joints in each cell


def test_rows_on_a_tilting_body_are_those_of_the_same_linkage_on_the_ground():
    """A pin goes with the body that carries both frames: a four-bar on a turning table keeps its plane."""
    bar = wt.mechanisms.four_bar(lengths=(1.0, 0.6, 0.9, 0.7))
    builder = wt.Builder("table", (0, 0, -9.81))
    builder.body("top", 5.0, inertia=(1.0, 1.0, 1.0)).joint("turn", "spherical", "world", "top")
    for name, length in (("crank rod", 0.6), ("coupler rod", 0.9), ("rocker rod", 0.7)):
        builder.body(name, 1.0, center=(length / 2, 0, 0), inertia=(0, length**2 / 12, length**2 / 12))
    angles = dict(zip(("crank", "coupler", "rocker"), bar.home.q[[0, 1, 2]], strict=True))
    builder.joint("crank", "revolute", "top", "crank rod", start=angles["crank"])
    builder.joint("coupler", "revolute", "crank rod", "coupler rod", position=(0.6, 0, 0), start=angles["coupler"])
    builder.joint("rocker", "revolute", "top", "rocker rod", position=(1.0, 0, 0), start=angles["rocker"])
    builder.frame("coupler end", "coupler rod", position=(0.9, 0, 0)).frame(
        "rocker end", "rocker rod", position=(0.7, 0, 0)
    )
    model = builder.constraint("pin", "pin", "rocker end", "coupler end").build()
    q = model.home.q.copy()
    q[:4] = np.array([0.5, 0.5, -0.5, 0.5])  # the table upright
    ref, flat = wt.reference(model), wt.reference(bar)
    assert np.abs(ref.constraint_residual(q)).max() < 1e-15
    moving = [model.slice(name).start for name in ("crank", "coupler", "rocker")]
    A = ref.constraint_jacobian(q)
    assert np.all(A[:, :3] == 0)
    assert far_apart(A[:, moving], flat.constraint_jacobian(bar.home.q)) < 10 * EPS


@pytest.mark.parametrize("masses", [(1.0, 1.0, 1.0), (1.0, 1.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, 1.0)])
def test_chain_of_cells_with_massless_links(masses):
    model = wt.mechanisms.four_bar_chain(6, masses=masses)
    rng = np.random.default_rng(0)
    q, tau = model.home.q, rng.normal(size=model.nv)
    block = wt.reference(model, route="block")
    v = wt.reference(model, route="nullspace").project_velocity(q, rng.normal(size=model.nv))
    expected = block.forward_dynamics(q, v, tau), block.constraint_forces(q, v, tau)
    for side in (wt.reference(model, route="embedding"), wt.compile(model), wt.compile(model, route="embedding")):
        found = side.forward_dynamics(q, v, tau), side.constraint_forces(q, v, tau)
        assert far_apart(found[0], expected[0]) < conditioned(model, q)
        assert far_apart(found[1], expected[1]) < conditioned(model, q)


@pytest.mark.parametrize("cells", [5, 20, pytest.param(40, marks=pytest.mark.slow)])
def test_chain_against_fifty_digits(cells):
    """Serial chains of cells are ill-conditioned; the error is within what is predicted for a factor of M."""
    model = wt.mechanisms.four_bar_chain(cells)
    rng = np.random.default_rng(1)
    q, tau = model.home.q, rng.normal(size=model.nv)
    dyn = wt.compile(model)
    v = np.asarray(dyn.project_velocity(q, rng.normal(size=model.nv)))
    with mpmath.workdps(50):
        numbers = [np.array([digits(Fraction(float(x))) for x in values], dtype=object) for values in (q, v, tau)]
        m = Mechanism(skeleton(exact_numbers(model)), route="embedding")
        exact, f = dynamics.solve(m, *numbers, 0, None)
        # the exact answer meets the equations of motion of the whole, which know nothing of clusters
        links = m.moving(*numbers[:2])
        rows = constraint_set(m.tree.model).rows(m, links, *numbers[:2], 0)
        A = rows.jacobian()
        forces = inverse_dynamics(m.sweep, links, m.velocities(exact), m.base)
        left = [*(A @ exact + rows.bias()), *(m.join(forces) - numbers[2] - A.T @ f)]
        assert max(abs(x) for x in left) < mpmath.mpf(10) ** -35
    a = exact.astype(float)
    error = np.linalg.norm(dyn.forward_dynamics(q, v, tau) - a) / np.linalg.norm(a)
    assert error < predicted_errors(model, q, v, tau, routes=("embedding",))["embedding"]


def test_embedding_is_chosen_where_loops_are_many_and_local():
    chain, ladder = wt.mechanisms.four_bar_chain(4), wt.mechanisms.n_four_bar(6)
    assert is_cheaper_by_clusters(constraint_set(chain))
    assert not is_cheaper_by_clusters(constraint_set(ladder))
    assert wt.diagnose(chain).route == "embedding"
    assert "embedding" in str(wt.diagnose(chain))
    assert wt.diagnose(ladder).route == "schur"
    assert set(cluster_routes(constraint_set(chain)).values()) == {"motion"}


def test_operations_grow_with_the_cells():
    counts = []
    for cells in (4, 8, 16):
        model = wt.mechanisms.four_bar_chain(cells)
        code = unrolled_program(model, find("forward_dynamics", model)).body[0].code
        counts.append(sum(node[0] not in ("input", "const") for node in code.nodes))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def test_a_gear_takes_in_the_path_between_its_joints():
    model = wt.mechanisms.chain(6)
    mesh = Constraint("mesh", "gear", (model.joints[1].name, model.joints[4].name), {"ratios": (1, 2)})
    geared = replace(model, constraints=(mesh,))
    clusters = cluster_tree(constraint_set(geared))
    assert sorted(len(c.members) for c in clusters.clusters) == [1, 1, 4]
    rng = np.random.default_rng(0)
    q, tau = geared.home.q, rng.normal(size=6)
    v = wt.reference(geared).project_velocity(q, rng.normal(size=6))
    for name in ("forward_dynamics", "constraint_forces"):
        found = getattr(wt.reference(geared, route="embedding"), name)(q, v, tau)
        assert far_apart(found, getattr(wt.reference(geared, route="schur"), name)(q, v, tau)) < 1e-10


def test_prescribed_motion_and_switches_inside_clusters():
    model = wt.mechanisms.four_bar_chain(3)
    home = model.home.q
    clock = Constraint(
        "clock", "prescribed", ("crank_2",), {"motion": lambda t: home[model.slice("crank_2")][0] + np.sin(t)}
    )
    brake = Constraint("brake", "hold", ("crank_3",), {"switchable": True})
    full = replace(model, constraints=(*model.constraints, clock, brake), start=State(home, np.zeros(model.nv)))
    rng = np.random.default_rng(0)
    v, tau = rng.normal(size=(2, model.nv))
    for active in (0.0, 1.0):
        v = wt.reference(full, route="augmented").project_velocity(home, v, 0.0, [active])
        for name in ("forward_dynamics", "constraint_forces"):
            expected = getattr(wt.reference(full, route="augmented"), name)(home, v, tau, 0.0, [active])
            for side in (wt.reference(full, route="embedding"), wt.compile(full, route="embedding")):
                assert far_apart(getattr(side, name)(home, v, tau, 0.0, [active]), expected) < 1e-9


def test_a_singular_cell_is_answered_by_the_reference_and_by_compiled_calls():
    """A parallelogram in line has lost a row; the other cells of the chain have not."""
    model = wt.mechanisms.four_bar_chain(3, lengths=(1.0, 0.5, 1.0, 0.5))
    q = model.home.q.copy()
    for name in ("crank_2", "coupler_2", "rocker_2"):
        q[model.q_slice(name)] = 0.0
    zero = np.zeros(model.nv)
    assert np.abs(wt.reference(model).constraint_residual(q)).max() < 1e-12
    a = wt.reference(model).forward_dynamics(q, zero, zero)
    assert np.all(np.isfinite(a))
    dynamics = wt.compile(model).forward_dynamics
    assert np.array_equal(dynamics(q, zero, zero), a)
    assert dynamics.status == ANSWERED_IN_PYTHON
    assert np.abs(wt.reference(model).constraint_jacobian(q) @ a).max() < 1e-9


def test_a_dead_point_at_which_the_rows_keep_their_rank_is_no_event():
    """Crank and coupler in line: dead for the rocker as a drive, nothing for the recursion."""
    model = wt.mechanisms.four_bar_chain(2, lengths=(1.0, 0.3, 1.0, 0.8))
    stretched = np.arccos((1.0 + 1.3**2 - 0.8**2) / (2 * 1.3))
    dyn, zero = wt.compile(model), np.zeros(model.nv)
    answers = [
        dyn.forward_dynamics(wt.assemble(model, hold={"crank_1": stretched + off}), zero, zero)
        for off in (-1e-6, 0.0, 1e-6)
    ]
    assert np.abs(np.diff(answers, axis=0)).max() < 1e-3 * np.abs(answers[1]).max()


def test_rows_that_belong_to_no_loop_refuse_the_embedding():
    builder = wt.Builder("relaxed", (0, -9.81, 0))
    builder.body("rod", 1.0, center=(0.5, 0, 0), inertia=(0, 0.1, 0.1)).body("tip")
    builder.joint("swing", "revolute", "world", "rod").joint(
        "slide", "prismatic", "rod", "tip", damping=1.0, axis=(1, 0, 0)
    )
    model = builder.build()
    with pytest.raises(wt.UnsupportedError, match="belong to no loop"):
        wt.reference(model, massless="relax", route="embedding")


def test_an_unknown_route_is_named():
    with pytest.raises(wt.NameLookupError, match="there is no route 'embeding'"):
        wt.compile(wt.mechanisms.four_bar(), route="embeding")
    with pytest.raises(wt.NameLookupError):
        wt.compile(wt.mechanisms.four_bar(), route="nullspace")


# --- minimal coordinates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_minimal_coordinates_expand_both_ways(seed):
    model, motion = make_looped_model(seed)
    minimal = wt.embed(model, q=motion.q)
    system = constraint_set(model)
    rigid = [i for i in system.structure.independent if not system.compliance[i]]
    ref, q = wt.reference(model, route="nullspace"), motion.q
    X, s = minimal.velocity_map(q)
    assert X.shape == (model.nv, model.nv - len(rigid))
    assert not s.any()
    A = ref.constraint_jacobian(q)[rigid]
    assert np.abs(A @ X).max() < 1e-9 * np.abs(X).max()
    y = np.random.default_rng(seed).normal(size=len(minimal.independent))
    v = minimal.velocity(q, y)
    assert np.all(minimal.rates(v) == y)
    b = minimal.acceleration_bias(q, v)
    assert np.abs(A @ b + ref.constraint_bias(q, v)[rigid]).max() < 1e-8 * max(1.0, np.abs(b).max())


def test_dynamics_in_minimal_coordinates_is_that_of_the_block_matrix():
    model = wt.mechanisms.four_bar_chain(4)
    minimal = wt.embed(model, independent=[f"crank_{k}" for k in range(1, 5)])
    assert minimal.independent == ("crank_1", "crank_2", "crank_3", "crank_4")
    rng = np.random.default_rng(0)
    q, tau, y = model.home.q, rng.normal(size=model.nv), rng.normal(size=4)
    v = minimal.velocity(q, y)
    rate = np.linalg.solve(minimal.mass_matrix(q), minimal.forces(q, tau) - minimal.bias(q, v))
    a = minimal.acceleration(q, v, rate)
    assert far_apart(a, wt.compile(model).forward_dynamics(q, v, tau)) < 1e-9
    assert far_apart(minimal.rates(a), rate) < 1e-14


def random_choice(model, rng):
    """One independent velocity for every freedom of each loop, whichever they are, and all that no loop ties."""
    blocks = minimal_coordinates._blocks(constraint_set(model))
    tied = {k for block in blocks for k in block.columns}
    chosen = [k for k in range(model.nv) if k not in tied]
    for block in blocks:
        chosen += rng.permutation(block.columns)[: len(block.columns) - len(block.rows)].tolist()
    names = minimal_coordinates.velocity_names(model)
    return [names[k] for k in chosen]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [30, 33, 38, 45])
def test_dynamics_is_the_same_whichever_velocities_are_independent(seed):
    """Random trees of loops, compliant rows among them; choices at which the others are not determined say so."""
    model, motion = make_looped_model(seed, massless=bool(seed % 2))
    rng, q = np.random.default_rng(seed), motion.q
    best = wt.embed(model, q=q)
    v = best.velocity(q, rng.normal(size=len(best.independent)))
    expected = wt.reference(model, route="nullspace").forward_dynamics(q, v, motion.tau)
    choices, fit = [best, *[wt.embed(model, independent=random_choice(model, rng), q=q) for _ in range(12)]], 0
    for minimal in choices:
        sine = minimal.sine(q)
        if sine <= minimal_coordinates.DEAD:
            with pytest.raises(wt.SingularSystemError, match="do not determine the other"):
                minimal.velocity_map(q)
            continue
        fit += 1
        X, M = minimal.velocity_map(q).X, minimal.mass_matrix(q)
        assert np.linalg.norm(X, 2) <= (1 + 1e-9) / sine
        assert far_apart(minimal.velocity(q, minimal.rates(v)), v) < 1e3 * EPS / sine
        rate = np.linalg.solve(M, minimal.forces(q, motion.tau) - minimal.bias(q, v))
        rounding = 1e3 * EPS * max(np.linalg.cond(M), 1 / sine**2)
        assert far_apart(minimal.acceleration(q, v, rate), expected) < rounding
        assert far_apart(minimal.mass_matrix_inverse(q) @ M, np.eye(len(M))) < rounding
    assert fit > 1


def test_a_loop_of_one_row_has_dead_points_too():
    """A point of two rods that slides along the ground: the second rod, upright, cannot make up for the first."""
    builder, parent = wt.Builder("slider", (0, -9.81, 0)), "world"
    for k in (1, 2):
        builder.body(f"rod {k}", 1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12))
        builder.joint(f"hinge_{k}", "revolute", parent, f"rod {k}", position=(k - 1.0, 0, 0), start=(0.5, -1.0)[k - 1])
        parent = f"rod {k}"
    builder.frame("end", "rod 2", position=(1, 0, 0)).frame("ground", "world", position=(0, -0.5, 0))
    model = builder.constraint("roller", "point_on_plane", "ground", "end", normal=(0, 1, 0)).build()
    first = wt.embed(model, independent=["hinge_1"])
    upright = np.array([np.pi / 6, -np.pi / 2 - np.pi / 6])
    assert first.sine(model.home.q) > 0.1
    assert first.sine(upright) < 1e-15
    with pytest.raises(wt.SingularSystemError, match="hinge_1 do not determine the other velocities of their loops"):
        first.velocity_map(upright)
    assert first.suited(upright).independent == ("hinge_2",)
    assert first.suited(upright).sine(upright) == pytest.approx(1.0)


def test_coordinates_expand_to_a_configuration_that_closes_every_loop():
    model = wt.mechanisms.four_bar_chain(3)
    minimal = wt.embed(model, independent=("crank_1", "crank_2", "crank_3"))
    values = {name: value + 0.1 for name, value in minimal.reduce(model.home.q).items()}
    q = minimal.expand(values)
    assert np.abs(wt.reference(model).constraint_residual(q)).max() < 1e-10
    assert all(np.allclose(minimal.reduce(q)[name], value, atol=1e-14) for name, value in values.items())


def test_prescribed_motion_has_a_velocity_term():
    model = wt.mechanisms.four_bar_chain(2)
    start = float(model.home.q[model.slice("crank_1")][0])
    clock = Constraint("clock", "prescribed", ("crank_1",), {"motion": lambda t: start + 2 * t + t * t})
    driven = replace(model, constraints=(*model.constraints, clock))
    minimal = wt.embed(driven)
    assert len(minimal.independent) == 1
    X, s = minimal.velocity_map(driven.home.q, 0.0)
    assert s[driven.slice("crank_1")] == pytest.approx(2.0)
    assert np.abs(wt.reference(driven).constraint_velocity(driven.home.q, s, 0.0)).max() < 1e-12
    assert np.abs(X[driven.slice("crank_1")]).max() == 0
    q, y, tau = minimal.expand(minimal.reduce(driven.home.q), t=0.2), np.array([0.7]), np.ones(driven.nv)
    v = minimal.velocity(q, y, 0.2)
    assert v[driven.slice("crank_1")] == pytest.approx(2.4)
    rate = np.linalg.solve(minimal.mass_matrix(q, 0.2), minimal.forces(q, tau, 0.2) - minimal.bias(q, v, 0.2))
    a = minimal.acceleration(q, v, rate, 0.2)
    assert far_apart(a, wt.reference(driven, route="nullspace").forward_dynamics(q, v, tau, 0.2)) < 1e-11


def test_independent_velocities_are_checked_by_name():
    model = wt.mechanisms.four_bar_chain(2)
    with pytest.raises(wt.ShapeError, match=r"leave 1 velocities free, and 2 are named \(crank_1, rocker_1\)"):
        wt.embed(model, independent=("crank_1", "rocker_1", "crank_2"))
    with pytest.raises(wt.NameLookupError, match="crank_9"):
        wt.embed(model, independent=("crank_1", "crank_9"))


def test_coordinates_of_a_joint_expand_one_by_one():
    """A universal joint of which one velocity is independent and the other is not; a ball is left to follow."""
    builder = wt.Builder("crank and ball").body("arm", 1.0, (0.2, 0, 0), (0.01, 0.02, 0.02))
    builder.body("rod", 0.5, (0.5, 0, 0), (0.01, 0.05, 0.05)).body("rocker", 1.0, (0, 0.2, 0), (0.02, 0.01, 0.02))
    builder.joint("drive", "universal", "world", "arm", axis=(0, 0, 1), second_axis=(0, 1, 0), start=(0.3, 0.2))
    builder.joint("ball", "spherical", "arm", "rod", position=(0.4, 0, 0))
    builder.joint("swing", "revolute", "world", "rocker", position=(1.2, 0.5, 0.1), axis=(1, 0.2, 0), start=0.2)
    builder.frame("rod end", "rod", position=(1.3, 0, 0)).frame("rocker end", "rocker", position=(0, 0.5, 0))
    model = builder.constraint("closing ball", "point", "rocker end", "rod end").build()
    minimal = wt.embed(model, independent=["drive[0]", "ball[0]", "swing"])
    with pytest.raises(wt.UnsupportedError, match=r"joint 'ball' .* no rates of its coordinates, a quaternion"):
        minimal.reduce(model.home.q)
    held = wt.assemble(model, hold={"drive[0]": 0.4, "swing": 0.25})
    assert (held[model.q_slice("drive")][0], *held[model.q_slice("swing")]) == (0.4, 0.25)
    with pytest.raises(wt.UnsupportedError, match=r"'ball\[1\]': joint 'ball' stores a quaternion"):
        wt.assemble(model, hold={"ball[1]": 0.0})
    with pytest.raises(wt.NameLookupError, match=r"no coordinate 'drive\[2\]'; known: 'drive\[0\]', 'drive\[1\]'"):
        wt.assemble(model, hold={"drive[2]": 0.0})
    fork = replace(model, constraints=(*model.constraints, Constraint("fixed", "hold", ("ball",), {"component": 0})))
    chosen = wt.embed(fork)
    values = chosen.reduce(fork.home.q)
    assert len(chosen.independent) == 2
    assert not any(name.startswith("ball") for name in chosen.independent)
    moved = chosen.expand({name: x + 0.05 for name, x in values.items()}, guess=fork.home.q)
    assert np.abs(wt.reference(fork).constraint_residual(moved)).max() < 1e-10
    for name, value in chosen.reduce(moved).items():
        np.testing.assert_allclose(value, values[name] + 0.05, rtol=1e-14)


def test_what_minimal_coordinates_are_asked_with_is_checked():
    model = wt.mechanisms.four_bar()
    minimal, q = wt.embed(model, independent=["crank"]), model.home.q
    with pytest.raises(wt.ShapeError, match=r"rates: v has shape \(2,\), expected \(3,\)"):
        minimal.rates([1.0, 2.0])
    with pytest.raises(wt.ShapeError, match=r"forces: tau has shape \(1,\), expected \(3,\)"):
        minimal.forces(q, [1.0])
    for ask in (minimal.bias, minimal.acceleration_bias):
        with pytest.raises(wt.ShapeError, match=r"v has shape \(4,\), expected \(3,\)"):
            ask(q, np.zeros(4))
    with pytest.raises(wt.ShapeError, match="expand: no value is given for crank"):
        minimal.expand({})
    with pytest.raises(wt.NameLookupError, match="there is no independent coordinate 'rocker'; known: 'crank'"):
        minimal.expand({"crank": 0.1, "rocker": 0.2})
    with pytest.raises(TypeError, match="expand: expected values by name, as reduce"):
        minimal.expand(0.3)
    with pytest.raises(wt.ShapeError, match="embed: crank named more than once"):
        wt.embed(model, independent=["crank", "crank"])


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_motion_that_rows_leave_is_made_of_their_minors(k):
    """A x = 0 and x² = det A Aᵀ, exactly; zero where a row repeats another."""
    rng = Random(k)
    A = np.array([[Fraction(rng.randint(-9, 9), 7) for _ in range(k + 1)] for _ in range(k)], dtype=object)
    x = null_vector(A)
    assert (A @ x == 0).all()
    assert np.isclose(float(x @ x), np.linalg.det((A @ A.T).astype(float)))
    if k > 1:
        A[1] = 3 * A[0]
        assert (null_vector(A) == 0).all()


@pytest.mark.parametrize("k", [1, 2])
def test_few_rows_are_solved_with_by_their_pseudo_inverse(k):
    """A y = b with y across the motion, and Aᵀ f = b where there is such an f: exactly."""
    rng = Random(k)
    A, b, f = (
        np.array([Fraction(rng.randint(-9, 9), 7) for _ in range(size)], dtype=object) for size in (k * (k + 1), k, k)
    )
    A = A.reshape(k, k + 1)
    x = null_vector(A)
    rows = FewRows(A, x, 1 / (x @ x))
    y = rows.solve(b)
    assert (A @ y == b).all()
    assert x @ y == 0
    assert (rows.multipliers(A.T @ f) == f).all()


def skew_ring(moving: bool) -> wt.Model:
    """Five skew hinges in a ring that a ball joint closes, and a hinge on it: three rows leave two motions."""
    builder = wt.Builder("skew ring")
    builder.body("base", 3.0, (0.1, 0, 0), (1, 2, 2.5))
    builder.joint("base", "free" if moving else "weld", "world", "base")
    corners = np.array([[np.cos(x), np.sin(x), 0] for x in np.linspace(0, 2 * np.pi, 6)])
    for k in range(5):
        axis = np.array([np.sin(3.0 * k), np.cos(5.0 * k), 0.7])
        builder.body(f"link {k}", 1.0 + k, (0.1, 0.2, 0.1), (0.1, 0.1, 0.15)).joint(
            f"joint {k}", "revolute", f"link {k - 1}" if k else "base", f"link {k}",
            position=corners[k] - corners[k - 1] if k else (0, 0, 0), axis=axis / np.linalg.norm(axis),
        )  # fmt: skip
    builder.body("tip", 0.5, (0, 0.3, 0), (0.1, 0.1, 0.1)).joint("tip", "revolute", "link 2", "tip", axis=(1, 0, 0))
    builder.frame("end", "link 4", position=corners[5] - corners[4])
    return builder.constraint("ball", "point", "base", "end").build()


@pytest.mark.parametrize("moving", [False, True])
def test_two_motions_of_a_loop_answer_one_by_one(moving):
    model = skew_ring(moving)
    assert "motion" in cluster_routes(constraint_set(model)).values()
    rng = np.random.default_rng(3)
    block, embedded = wt.reference(model, route="block"), wt.reference(model, route="embedding")
    q = wt.assemble(model, block.integrate(model.home.q, 0.2 * rng.normal(size=model.nv)))
    v, tau = block.project_velocity(q, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    expected, forces = block.forward_dynamics(q, v, tau), block.constraint_forces(q, v, tau)
    assert far_apart(embedded.forward_dynamics(q, v, tau), expected) < 1e-12
    assert far_apart(embedded.constraint_forces(q, v, tau), forces) < 1e-12
    dyn = wt.compile(model, route="embedding")
    assert far_apart(dyn.forward_dynamics(q, v, tau), expected) < 1e-12
    assert far_apart(dyn.constraint_forces(q, v, tau), forces) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "base"),
    [("cassie.sdf", "free"), ("cassie_reduced.sdf", "fixed")],  # the second one says itself how its pelvis moves
    ids=["cassie", "reduced"],
)
def test_loops_with_one_motion_or_none_inside_a_robot(file, base):
    """Gears, rods and five-bar loops of Cassie on a free base, with rotors: accelerations and forces of every row."""
    robots = Path(pin.__file__).parents[4] / "share/example-robot-data/robots/cassie_description/robots"
    model = wt.load(robots / file, base=base)
    joints = [replace(j, rotor_inertia=0.01) if j.type.nv == 1 else j for j in model.joints]
    model = replace(model, joints=tuple(joints))
    system = constraint_set(model)
    assert "motion" in cluster_routes(system).values()
    rng = np.random.default_rng(7)
    block, embedded = wt.reference(model, route="block"), wt.reference(model, route="embedding")
    q = wt.assemble(model, block.integrate(model.home.q, 0.1 * rng.normal(size=model.nv)))
    v = block.project_velocity(q, rng.normal(size=model.nv))
    tau = rng.normal(size=model.nv)
    expected, forces = block.forward_dynamics(q, v, tau), block.constraint_forces(q, v, tau)
    assert far_apart(embedded.forward_dynamics(q, v, tau), expected) < 1e-10
    assert far_apart(embedded.constraint_forces(q, v, tau), forces) < 1e-8


def test_another_choice_is_taken_at_a_dead_point():
    """With crank and coupler in line the rocker stands still to first order: it determines nothing."""
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.3, 1.0, 0.8))
    stretched = np.arccos((1.0 + 1.3**2 - 0.8**2) / (2 * 1.3))
    q = wt.assemble(model, hold={"crank": stretched}, tolerance=1e-9)
    q[model.q_slice("coupler")] = 0.0
    rocker = wt.embed(model, independent=("rocker",))
    rest = wt.reference(model).constraint_residual(q)
    assert np.abs(rest).max() < 1e-6
    with pytest.raises(wt.SingularSystemError, match="rechosen"):
        rocker.velocity_map(q)
    assert rocker.rechosen(q).independent != ("rocker",)
    assert np.isfinite(rocker.rechosen(q).velocity_map(q).X).all()


@pytest.mark.slow
def test_the_choice_is_changed_along_a_motion_only_where_it_must_be():
    """A crank-rocker through one turn of its crank, driven from the rocker: a dead point of the rocker twice."""
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.3, 0.9, 0.7))
    minimal = wt.embed(model, independent=["rocker"])
    q, changes = model.home.q, 0
    for angle in np.linspace(0, 2 * np.pi, 200) + q[0]:
        q = wt.assemble(model, q, hold={"crank": angle})
        other = minimal.suited(q, least=0.05)
        changes += other.independent != minimal.independent
        minimal = other
        assert minimal.sine(q) > 0.05
        X = minimal.velocity_map(q).X
        M = minimal.mass_matrix(q)
        np.testing.assert_allclose(minimal.mass_matrix_inverse(q) @ M, np.eye(1), rtol=1e-9)
        np.testing.assert_allclose(wt.reference(model).dagger(q)[0], X @ np.linalg.inv(M) @ X.T, rtol=1e-7, atol=1e-10)
    assert 1 <= changes <= 4


def test_a_tree_is_its_own_minimal_system():
    minimal = wt.embed(wt.mechanisms.chain(3))
    X, s = minimal.velocity_map(np.zeros(3))
    assert np.all(np.eye(3) == X)
    assert not s.any()


def test_loops_that_share_no_joint_are_closed_each_at_its_own_pace():
    """One cell is far open, the others are closed: they stay as they are, to the last bit."""
    model = wt.mechanisms.four_bar_chain(6)
    guess = model.home.q.copy()
    guess[model.q_slice("rocker_3")] += 0.7
    q = wt.assemble(model, guess)
    assert np.abs(wt.reference(model).constraint_residual(q)).max() < 1e-11
    others = [name for name in (j.name for j in model.joints) if not name.endswith("_3")]
    assert all(np.all(q[model.q_slice(name)] == guess[model.q_slice(name)]) for name in others)


def test_equal_clusters_are_looked_at_once(monkeypatch):
    """Four-bars side by side are one mechanism at other places; one of another size is another mechanism."""
    looked_at = []

    def count(system):
        looked_at.append(system)
        return find_structure(system)

    monkeypatch.setattr(cluster_structure, "find_structure", count)
    builder = wt.Builder("row", (0, -9.81, 0))
    for k, length in enumerate((0.8, 0.8, 0.8, 0.9)):
        for name in ("crank", "coupler", "rocker"):
            builder.body(f"{name} rod {k}", 1.0 + k, center=(0.4, 0, 0), inertia=(0, 0.1, 0.1))
        builder.joint(f"crank {k}", "revolute", "world", f"crank rod {k}", position=(0.7 * k, 0.1, 0), start=1.0)
        ends = (f"crank rod {k}", f"coupler rod {k}")
        builder.joint(f"coupler {k}", "revolute", *ends, position=(length, 0, 0), start=-1.0)
        builder.joint(f"rocker {k}", "revolute", "world", f"rocker rod {k}", position=(0.7 * k + 1, 0.1, 0), start=1.0)
        builder.frame(f"a {k}", f"coupler rod {k}", position=(1, 0, 0))
        builder.frame(f"b {k}", f"rocker rod {k}", position=(length, 0, 0))
        builder.constraint(f"pin {k}", "pin", f"a {k}", f"b {k}")
    system = constraint_set(builder.build())
    assert system.structure.mobility == 4
    assert len(looked_at) == 2


def test_freedoms_of_a_joint_that_are_held_one_by_one():
    builder = wt.Builder("held", (0, 0, -9.81))
    builder.body("arm", 1.0, center=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    builder.body("side", 1.0, center=(0.2, 0, 0), inertia=(0.01, 0.1, 0.1))
    builder.body("wrist")  # no mass on its ball joint, nor beyond
    builder.joint("swing", "revolute", "world", "arm", axis=(0, 1, 0))
    builder.joint("ball", "spherical", "arm", "wrist", position=(1, 0, 0))
    builder.joint("hinge", "revolute", "arm", "side", axis=(0, 0, 1))
    model = builder.build()
    rng = np.random.default_rng(0)
    q, v, tau = model.home.q, np.zeros(model.nv), rng.normal(size=model.nv)
    v[model.slice("swing")], v[model.slice("hinge")] = 0.3, -0.7
    tau[model.slice("ball")] = 0.0
    expected = wt.reference(model, massless="hold", route="augmented").forward_dynamics(q, v, tau)
    found = wt.reference(model, massless="hold", route="embedding").forward_dynamics(q, v, tau)
    assert far_apart(found, expected) < 1e-12
    compiled = wt.compile(model, massless="hold", route="embedding").forward_dynamics(q, v, tau)
    assert far_apart(compiled, expected) < 1e-12


def test_a_function_of_the_world_takes_in_all_joints_down_to_the_ground():
    model = wt.mechanisms.four_bar_chain(3)
    tip = wt.reference(model).pose("coupler end 2")(model.home.q)
    height = Constraint("height", "custom", ("coupler end 2",), {"residual": lambda X: X[1, 3] - float(tip[1, 3])})
    held = replace(model, constraints=(*model.constraints, height))
    clusters = cluster_tree(constraint_set(held))
    assert sorted(len(c.members) for c in clusters.clusters) == [3, 6]
    rng = np.random.default_rng(0)
    q, tau = model.home.q, rng.normal(size=model.nv)
    v = wt.reference(held, route="augmented").project_velocity(q, rng.normal(size=model.nv))
    for name in ("forward_dynamics", "constraint_forces"):
        found = getattr(wt.reference(held, route="embedding"), name)(q, v, tau)
        assert far_apart(found, getattr(wt.reference(held, route="augmented"), name)(q, v, tau)) < 1e-10


def test_a_led_joint_needs_nothing_of_what_hangs_on_it():
    """Seen through a ball joint, a point mass has no inertia about the slewing axis, but for rounding."""
    builder = wt.Builder("crane").body("jib").joint("slew", "revolute", "world", "jib", axis=(0, 0, 1))
    builder.body("cross").joint("roll", "revolute", "jib", "cross", axis=(1, 0, 0))
    builder.body("load", 1.0, center=(0, 0, -10)).joint("pitch", "revolute", "cross", "load", axis=(0, 1, 0))
    model = builder.constraint("drive", "prescribed", "slew", motion=lambda t: t / 10).build()
    rng = np.random.default_rng(0)
    q, v = rng.normal(scale=0.01, size=(200, 3)), rng.normal(size=(200, 3))
    dyn, ref = wt.compile(model, route="embedding"), wt.reference(model, route="block")
    found = dyn.forward_dynamics(q, v, np.zeros(3), 0.0)
    assert not dyn.forward_dynamics.status.any()  # machine code has answered every one of them
    assert far_apart(found, ref.forward_dynamics(q, v, np.zeros(3), 0.0)) < 1e-12
    led = dyn.project_velocity(q, v, 0.0)[:, 0]
    assert np.abs(led - 0.1).max() < 1e-15
    assert not dyn.project_velocity.status.any()


@pytest.mark.parametrize("seed", range(6))
def test_one_configuration_tells_as_much_as_three_where_no_row_depends_on_others(seed, monkeypatch):
    """The structure of constraints, number by number, with and without the configurations that are not looked for."""
    models = [make_closed_model(seed)[0], make_looped_model(seed)[0]]
    short = [find_structure(constraint_set(model)) for model in models]
    monkeypatch.setattr(redundancy, "explore", lambda system, count, is_enough: explore(system, count))
    for found, model in zip(short, models, strict=True):
        whole = find_structure(constraint_set(model))
        np.testing.assert_equal(asdict(found), asdict(whole))


def test_equal_linkages_of_very_different_sizes_are_answered_by_machine_code():
    """They shared one typical size of their rows: those of the linkage of 1 mm counted as dependent in every state."""
    builder = wt.Builder("sizes", gravity=(0, -9.81, 0))
    for i, size in enumerate((1.0, 1e-3)):
        for name, length in (("crank", 0.4 * size), ("coupler", 1.2 * size), ("rocker", 0.9 * size)):
            I = length**2 / 12
            builder.body(f"{name} {i}", 1.0, (length / 2, 0, 0), (0, I, I))
            builder.frame(f"{name} {i} end", f"{name} {i}", position=(length, 0, 0))
        builder.joint(f"a {i}", "revolute", "world", f"crank {i}", start=1.2)
        builder.joint(f"b {i}", "revolute", f"crank {i}", f"coupler {i}", position=(0.4 * size, 0, 0), start=-0.6)
        builder.joint(f"c {i}", "revolute", "world", f"rocker {i}", position=(size, 0, 0), start=1.4)
        builder.constraint(f"pin {i}", "hinge", f"rocker {i} end", f"coupler {i} end")
    model = builder.build()
    dyn, q = wt.compile(model, watch="never"), model.home.q
    a = dyn.forward_dynamics(q, 0 * q, 0 * q)
    np.testing.assert_allclose(a[3:], 1e3 * a[:3], rtol=1e-9)
    dyn.project_velocity(q, np.ones(6))
    assert dyn.forward_dynamics.status == dyn.project_velocity.status == 0
