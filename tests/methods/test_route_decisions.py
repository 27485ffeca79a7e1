"""Where the dynamics of constraints decides: each threshold is held from both sides, by what it is there for."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import whippletree as wt
from long_mechanisms import floating_ladder
from whippletree.compiler.frontend.code_forms import Request
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON
from whippletree.constraints import kkt
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.light_loops import is_light
from whippletree.constraints.long_systems.node_rows import factor_cost, is_long, is_swept
from whippletree.constraints.redundancy import FAINT
from whippletree.constraints.routes import row_weights
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.functions import find
from whippletree.mechanisms import chain, n_four_bar


def block_solution(model, q, v, tau):
    """Accelerations by the whole block matrix, dense."""
    ref = wt.reference(model)
    M, A = ref.mass_matrix(q), ref.constraint_jacobian(q)
    C = np.diag(np.array(constraint_set(model).compliance, dtype=float))
    K = np.block([[M, A.T], [A, -C]])
    return np.linalg.lstsq(K, np.concatenate([tau - ref.bias(q, v), -ref.constraint_bias(q, v)]), rcond=1e-12)[0][
        : model.nv
    ]


@pytest.mark.parametrize(("away", "trusted"), [(2e-5, True), (1e-5, False)])
def test_a_factor_is_trusted_up_to_the_tolerance_of_its_pivots(away, trusted):
    """N-four-bar, away from its dead point by an angle whose square is the share that pivots keep of their diagonal."""
    model = n_four_bar(2)
    q = np.array([{"s": away, "c": -away}[joint.name[0]] for joint in model.joints])
    state = q, -model.home.v, np.zeros(model.nv)
    dynamics = wt.compile(model).forward_dynamics
    a = dynamics(*state)
    assert dynamics.status == (0 if trusted else ANSWERED_IN_PYTHON)
    assert a[model.slice("side_0")][0] == pytest.approx(-3.5 * 9.81 * np.cos(away) / 3, rel=1e-11)


@pytest.mark.parametrize(("scale", "trusted"), [(1e-4, True), (1e-6, False)])
def test_a_row_that_all_but_vanishes_is_not_trusted(scale, trusted):
    """Its pivot is as large as its own diagonal, for it is alone: only its usual size tells."""
    builder = wt.Builder("slot", (0, 0, 0))
    builder.body("a", 1.0).joint("x", "prismatic", "world", "a", axis=(1, 0, 0), start=0.3)
    builder.body("b", 1.0).joint("y", "prismatic", "a", "b", axis=(0, 1, 0), start=0.4)
    builder.constraint("rod", "custom", "b", residual=lambda X: [X[0, 3] ** 2 + X[1, 3] ** 2 - 0.25], rows=("length",))
    model = builder.build()
    state = scale * np.array([0.3, 0.4]), np.zeros(2), np.ones(2)
    dynamics = wt.compile(model).forward_dynamics
    found = dynamics(*state)
    assert dynamics.status == (0 if trusted else ANSWERED_IN_PYTHON)
    along = np.array([0.8, -0.6])  # what the rod leaves free
    a = along * (along @ state[2]) / (along**2 @ [2.0, 1.0])
    np.testing.assert_allclose(found, a, rtol=1e-12)


@pytest.mark.parametrize(("share", "light"), [(0.1, False), (1e-2, True), (1e-6, True), (0.0, True)])
def test_a_loop_is_light_where_its_inertia_is_out_of_proportion(share, light):
    """With M = diag(1, μ) and rows [1 ±1], 1 / μ cancels in A M⁻¹ Aᵀ: ``schur`` loses the digits of μ."""
    assert is_light(np.diag([1.0, share]), np.array([[1.0, 1.0], [1.0, -1.0]])) is light


def test_weights_of_rows_are_exact_on_fractions():
    weights = row_weights(np.diag([Fraction(3), Fraction(5)]), np.array([Fraction(1, 4), Fraction(1), Fraction(8)]))
    assert all(isinstance(weight, Fraction) for weight in weights)
    assert (weights[0], weights[2]) == (4 * weights[1], weights[1] / 8)


def test_the_cost_of_a_factor_counts_ancestors():
    """Σ depth² / 2 over velocities; those of one joint follow each other."""
    assert factor_cost(chain(7)) == sum(d * d for d in range(1, 8)) / 2
    free = wt.Builder("free").body("a", 1.0, inertia=(1, 1, 1)).joint("base", "free", "world", "a")
    free.body("b", 1.0, inertia=(1, 1, 1)).joint("b", "revolute", "a", "b", axis=(0, 0, 1))
    assert factor_cost(free.build()) == sum(d * d for d in range(1, 8)) / 2


def geared_chain(joints, massless=()):
    """Rods in a row; a gear between two joints, and a row on two bodies."""
    builder = wt.Builder("geared chain", (0, -9.81, 0))
    for k in range(joints):
        solid = {} if k in massless else {"mass": 1.0, "center": (0.5, 0, 0), "inertia": (0.1, 0.1, 0.1)}
        builder.body(f"b{k}", **solid)
        parent = f"b{k - 1}" if k else "world"
        builder.joint(f"j{k}", "revolute", parent, f"b{k}", position=(1, 0, 0) if k else (0, 0, 0))
    builder.constraint("gear", "gear", "j3", f"j{joints // 3}", ratios=(1.0, -2.0))
    builder.frame("middle", f"b{joints // 2}", position=(1, 0, 0)).frame("end", f"b{joints - 1}", position=(1, 0, 0))
    apart = joints - joints // 2 - 1.0  # at the start
    across = {"residual": lambda X, Y: [Y[0, 3] - X[0, 3] + 2 * Y[1, 3] - apart], "rows": ("across",)}
    return builder.constraint("across", "custom", "middle", "end", **across).build()


def test_which_trees_are_swept_and_which_as_loops():
    """As the comments on these limits say: a chain of 48 joints by sweeps, one of 54 in loops; without inertia, by a
    matrix up to the length from which on no matrix is formed."""
    found = [(is_swept(model), is_long(model)) for model in map(geared_chain, (6, 48, 54))]
    assert found == [(False, False), (True, False), (True, True)]
    light = geared_chain(54, massless=range(20, 53))
    assert not is_swept(light)
    assert not is_long(light)
    assert is_long(geared_chain(LONG_SYSTEM + 1, massless=[50]))


def test_rows_on_joints_and_bodies_of_a_long_chain():
    """Gears and closures in motion, by sweeps from the nodes that they hold on to, against the whole matrix."""
    model, rng = geared_chain(60), np.random.default_rng(3)
    q, v, tau = (rng.standard_normal(model.nv) for _ in range(3))
    expected = block_solution(model, q, v, tau)
    found = wt.reference(model).forward_dynamics(q, v, tau)
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("route", ["elimination", "augmented"])
def test_compliant_closures_of_a_ladder(route):
    ladder, rng = floating_ladder(4), np.random.default_rng(4)
    soft = [replace(c, parameters=dict(c.parameters) | {"compliance": 1e-2}) for c in ladder.constraints]
    model = replace(ladder, constraints=tuple(soft))
    q, v, tau = model.home.q, rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    a = wt.reference(model, route=route).forward_dynamics(q, v, tau)
    np.testing.assert_allclose(a, block_solution(model, q, v, tau), rtol=1e-9, atol=1e-9)


def test_a_closure_of_a_ladder_that_is_switched_off():
    """By elimination, against the ladder that does not have it."""
    ladder, rng = floating_ladder(4), np.random.default_rng(5)
    first, *others = ladder.constraints
    switchable = replace(first, parameters=dict(first.parameters) | {"switchable": True})
    q, v, tau = ladder.home.q, rng.standard_normal(ladder.nv), rng.standard_normal(ladder.nv)
    switched = wt.reference(replace(ladder, constraints=(switchable, *others)), route="elimination")
    without = wt.reference(replace(ladder, constraints=tuple(others)), route="elimination")
    found, expected = switched.forward_dynamics(q, v, tau, [0.0]), without.forward_dynamics(q, v, tau)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("share", "massless"), [(3e-11, False), (1e-13, True)])
def test_a_motion_is_massless_by_its_share_of_the_inertia(share, massless):
    """In the route that reveals the rank, which has to tell a light motion from one without inertia."""
    builder = wt.Builder("light", (0, 0, 0)).body("light", share).joint("outer", "prismatic", "world", "light")
    builder.body("heavy", 1.0).joint("inner", "prismatic", "light", "heavy")
    for name in "ab":
        builder.body(name, 1.0).joint(name, "prismatic", "world", name)
    model = builder.constraint("tie", "gear", "a", "b", ratios=(1.0, -1.0)).build()
    ref, tau = wt.reference(model, route="nullspace"), np.ones(4)
    if massless:
        with pytest.raises(wt.SingularSystemError, match=r"outer|light"):
            ref.forward_dynamics(np.zeros(4), np.zeros(4), tau)
    else:  # both forces on the light one cancel
        np.testing.assert_allclose(ref.forward_dynamics(np.zeros(4), np.zeros(4), tau), [0, 1, 1, 1], atol=1e-4)


@pytest.mark.parametrize("tilt", [3e-5, 1e-2])
def test_a_row_of_a_long_system_that_is_all_but_redundant_is_named(tilt):
    """A second gear whose ratios differ by little from those of the first."""
    chain = geared_chain(LONG_SYSTEM + 1)
    gear = chain.constraints[0]
    second = replace(gear, name="second", parameters=dict(gear.parameters) | {"ratios": (1.0, -2.0 * (1 + tilt))})
    structure = constraint_set(replace(chain, constraints=(*chain.constraints, second))).structure
    assert structure.redundant == ()
    assert [sine < FAINT for sine in structure.faint.values()] == ([True] if tilt < FAINT else [])


@pytest.mark.parametrize(("share", "trusted"), [(5e-24, True), (1e-25, False)])
def test_an_inertia_that_rounding_may_have_left_of_zero_is_not_trusted(share, trusted):
    """Its pivot is as large as its own diagonal; only the mean inertia tells how little that is."""
    M = np.diag([1.0] * 7 + [share])
    margins = kkt.schur(M, np.zeros((0, 8)), range(-1, 7), doubtful=True).margins(2.0**-33)
    assert [kind for kind, _ in margins] == [kkt.MASS] * 8
    assert [margin > 0 for _, margin in margins] == [True] * 7 + [trusted]


def test_rows_that_yield_need_not_be_independent_in_the_block_matrix():
    """Of two rows that are all but parallel, one with a compliance: only the rigid one has a margin."""
    A = np.array([[1.0, 2.0], [3.0, 6.0 + 1e-6]])
    margins = kkt.block(np.eye(2), A, np.array([0.0, 0.1])).margins(2.0**-33)
    assert [(kind, float(margin)) for kind, margin in margins] == [(kkt.ROWS, pytest.approx(5.0))]
    assert min(float(margin) for _, margin in kkt.block(np.eye(2), A).margins(2.0**-33)) < 0


def rod_on_a_universal_joint(kind: str) -> wt.Model:
    """A thin rod hangs on a universal joint and holds a free body by its end. Along the joint's first axis its turn
    about itself has no inertia."""
    builder = wt.Builder("rod", (0, 0, 0))
    builder.body("rod", 1.0, (0, 0, -0.5), (1 / 12, 1 / 12, 0))
    builder.joint("joint", "universal", "world", "rod", axis=(1, 0, 0), second_axis=(0, 1, 0), start=(0.3, 0.4))
    builder.body("block", 1.0, (0, 0, 0), (0.1, 0.2, 0.3)).joint("free", "free", "world", "block")
    builder.frame("end", "rod", position=(0, 0, -1))
    return builder.constraint("hold", kind, "end", "block").build()


@pytest.mark.parametrize(("kind", "route"), [("point", "schur"), ("weld", "augmented")])
def test_rows_that_feel_no_weightless_motion_need_no_weights(kind, route):
    """A ball at the rod's end does not feel that turn, so that nothing but M can give it inertia; a weld does."""
    model = rod_on_a_universal_joint(kind)
    assert constraint_set(model).feels_weightless == (kind == "weld")
    assert wt.diagnose(model).route == route
    q = wt.assemble(model, hold={"joint": (0.0, np.pi / 2)})  # the rod lies along the joint's first axis
    dynamics = wt.compile(model).forward_dynamics
    if kind == "point":
        with pytest.raises(wt.SingularSystemError):
            dynamics(q, np.zeros(model.nv), np.ones(model.nv))
    else:
        expected = block_solution(model, q, np.zeros(model.nv), np.ones(model.nv))
        np.testing.assert_allclose(dynamics(q, np.zeros(model.nv), np.ones(model.nv)), expected, atol=1e-13)


def test_bodies_without_mass_have_weightless_motions_in_every_direction():
    for leg_mass, felt in ((0.5, False), (0.0, True)):
        assert constraint_set(wt.mechanisms.stewart_platform(leg_mass=leg_mass)).feels_weightless == felt


def test_a_matrix_of_the_whole_is_refused_by_name_where_it_would_be_too_long():
    model = n_four_bar(80)
    with pytest.raises(wt.UnsupportedError, match=r"161 moving bodies.*route='schur'.*up to 150.*Leave route= out"):
        wt.compile(model, route="schur").forward_dynamics(model.home.q, model.home.v, np.zeros(model.nv))


def test_a_diagnosis_names_the_route_of_compiled_code():
    """Loops over fronts are faster than one matrix from some 40 bodies of a floating ladder on, where both could be."""
    for rungs, route in ((4, "schur"), (30, "elimination")):
        ladder = floating_ladder(rungs)
        report = wt.diagnose(ladder)
        looped = Request(ladder, find("forward_dynamics", ladder)).loops_over_fronts
        assert (report.route, looped) == (route, route == "elimination")
