"""Hybrid dynamics and operational-space inertia of mechanisms with loops, against the dense equations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from strategies import make_looped_model
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend.loops import cluster_loop_program
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON
from whippletree.compiler.program import every_block
from whippletree.errors import NameLookupError, SingularSystemError, UnsupportedError
from whippletree.functions import find
from whippletree.model.parameters import with_scalars
from whippletree.tree.skeleton import skeleton

EPS = np.finfo(float).eps


def dense_hybrid(model: wt.Model, fixed: np.ndarray, q, v, given):
    """[M −S_p −Aᵀ; S_p; A] with the forces of prescribed joints as unknowns beside f, by least squares."""
    ref = wt.reference(model)
    M, c = ref.mass_matrix(q), ref.bias(q, v)
    A, gamma = ref.constraint_jacobian(q), ref.constraint_bias(q, v)
    C = np.diag([float(c) for c in wt.constraint_set(model).compliance])
    S = np.eye(model.nv)[fixed]
    n, p, k = model.nv, len(S), len(A)
    W = np.block([
        [M, -S.T, -A.T],
        [S, np.zeros((p, p + k))],
        [A, np.zeros((k, p)), C],
    ])  # fmt: skip
    tau = np.where(fixed, 0, given)
    x = np.linalg.lstsq(W, np.concatenate([tau - c, given[fixed], -gamma]), rcond=1e-12)[0]
    a, efforts = x[:n], tau.copy()
    efforts[fixed] = x[n : n + p]
    return a, efforts


@pytest.mark.slow
@given(st.integers(0, 2**16), st.booleans())
def test_hybrid_dynamics_with_loops(seed, massless):
    """Every other joint that the loops leave free is prescribed."""
    model, motion = make_looped_model(seed, massless=massless)
    q, v = np.asarray(motion.q, float), np.asarray(motion.v, float)
    chosen = list(wt.embed(model).independent)[::2]
    joints = [name for name in chosen if "[" not in name]
    fixed = np.zeros(model.nv, dtype=bool)
    for name in joints:
        fixed[model.slice(name)] = True
    numbers = np.random.default_rng(seed).normal(size=model.nv)
    a, tau = wt.reference(model).hybrid_dynamics(joints)(q, v, numbers)
    expected, efforts = dense_hybrid(model, fixed, q, v, numbers)
    size = max(1.0, np.abs(expected).max(), np.abs(efforts).max())
    np.testing.assert_allclose(a, expected, rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(tau, efforts, rtol=0, atol=1e-8 * size)
    np.testing.assert_array_equal(a[fixed], numbers[fixed])
    np.testing.assert_array_equal(tau[~fixed], numbers[~fixed])
    # and back: these forces cause these accelerations
    np.testing.assert_allclose(wt.reference(model).forward_dynamics(q, v, tau), a, rtol=0, atol=1e-7 * size)


def free_joints(model: wt.Model, rng: np.random.Generator) -> list[str]:
    """Some of the joints that the loops leave free, whose accelerations can be given together."""
    names = [name.partition("[")[0] for name in wt.embed(model).independent]
    whole = [name for name in dict.fromkeys(names) if names.count(name) == np.size(model.neutral.v[model.slice(name)])]
    return [name for name in whole if rng.random() < 0.5]


def mask(model: wt.Model, joints: Sequence[str]) -> np.ndarray:
    """The velocities of some joints."""
    found = np.zeros(model.nv, dtype=bool)
    for name in joints:
        found[model.slice(name)] = True
    return found


def in_digits(model: wt.Model, joints: Sequence[str], *state: np.ndarray) -> list[np.ndarray]:
    """Accelerations and forces to fifty digits, by the block matrix of the whole."""
    with mpmath.workdps(50):
        exact = [np.array([mpmath.mpf(float(x)) for x in part], dtype=object) for part in state]
        found = wt.reference(with_scalars(model, mpmath.mpf), route="block").hybrid_dynamics(joints)(*exact)
        return [np.array([float(x) for x in part]) for part in found]


@pytest.mark.parametrize("massless", [False, True])
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 14))
def test_recursion_over_clusters_against_fifty_digits(seed, massless):
    """Trees of random loops, massless links and redundant rows: the rule is that of the whole, cluster by cluster."""
    model, motion = make_looped_model(seed, massless=massless)
    if not model.constraints:
        return
    rng = np.random.default_rng(seed)
    joints, given = free_joints(model, rng), rng.normal(size=model.nv)
    state = motion.q, wt.reference(model, route="nullspace").project_velocity(motion.q, motion.v), given
    truth = in_digits(model, joints, *state)
    tolerance = 200 * EPS * float(wt.reference(model).block_condition_numbers(motion.q)[0])
    looped = compile_function(cluster_loop_program(find("hybrid_dynamics", model), skeleton(model), names=(joints,)))
    for function in (
        wt.reference(model, route="embedding").hybrid_dynamics(joints),
        wt.compile(model, route="embedding").hybrid_dynamics(joints),
        looped,
    ):
        for found, right in zip(function(*state), truth, strict=True):
            np.testing.assert_allclose(found, right, rtol=0, atol=tolerance * max(1.0, np.abs(right).max()))


def test_a_cluster_that_is_led_needs_no_inertia():
    """Cells without any mass, their cranks prescribed: they go where they must, and only the last one carries."""
    model = wt.mechanisms.four_bar_chain(4, masses=(0.0, 0.0, 0.0))
    bodies = [replace(b, mass=1.0, inertia=np.eye(3)) if b.name.endswith("rod 4") else b for b in model.bodies]
    model = replace(model, bodies=tuple(bodies))
    rng = np.random.default_rng(0)
    q, given = model.home.q, rng.normal(size=model.nv)
    joints = ["crank_1", "rocker_2", "coupler_3"]
    A = wt.reference(model).constraint_jacobian(q)
    v = (np.eye(model.nv) - np.linalg.pinv(A) @ A) @ rng.normal(size=model.nv)
    expected = dense_hybrid(model, mask(model, joints), q, v, given)
    for functions in (wt.reference(model, route="embedding"), wt.compile(model, route="embedding")):
        for found, right in zip(functions.hybrid_dynamics(joints)(q, v, given), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-9 * np.abs(right).max())


def test_code_of_long_chains_does_not_grow():
    """Every second crank prescribed: two kinds of cells, and the first and last ones, however many there are."""
    sizes = []
    for cells in (20, 60):
        model = wt.mechanisms.four_bar_chain(cells)
        joints = [f"crank_{k}" for k in range(1, cells, 2)]
        program = cluster_loop_program(find("hybrid_dynamics", model), skeleton(model), names=(joints,))
        sizes.append(sum(len(block.code.nodes) for block in every_block(program.body)))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    "model",
    [wt.mechanisms.chain(400), pytest.param(wt.mechanisms.four_bar_chain(120), marks=pytest.mark.slow)],
    ids=["tree", "cells"],
)
def test_long_mechanisms_are_compiled_as_loops(model):
    rng = np.random.default_rng(1)
    dyn, q, given = wt.compile(model), model.home.q, rng.normal(size=model.nv)
    v = dyn.project_velocity(q, rng.normal(size=model.nv)) if model.constraints else rng.normal(size=model.nv)
    joints = [joint.name for joint in model.joints if joint.name.startswith(("crank", "joint"))][::3]
    assert joints
    found, expected = (own.hybrid_dynamics(joints)(q, v, given) for own in (dyn, wt.reference(model, watch="never")))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.abs(b).max())
    np.testing.assert_array_equal(found.a[mask(model, joints)], given[mask(model, joints)])


@pytest.mark.slow
def test_only_the_cluster_that_is_told_too_much_asks_for_ranks():
    """Crank and rocker of one cell of many: refused unless they agree, and then answered without the whole."""
    model = wt.mechanisms.four_bar_chain(30)
    dyn, q, zero = wt.compile(model), model.home.q, np.zeros(model.nv)
    both, numbers = ("crank_7", "rocker_7"), np.zeros(model.nv)
    numbers[model.slice("crank_7")] = 1.0
    with pytest.raises(SingularSystemError, match="the accelerations that were given contradict the constraints"):
        dyn.hybrid_dynamics(both)(q, zero, numbers)
    a, _ = dyn.hybrid_dynamics("crank_7")(q, zero, numbers)
    numbers[model.slice("rocker_7")] = a[model.slice("rocker_7")]
    again, tau = dyn.hybrid_dynamics(both)(q, zero, numbers)
    assert dyn.hybrid_dynamics(both).status == ANSWERED_IN_PYTHON
    np.testing.assert_allclose(again, a, atol=1e-9)
    np.testing.assert_allclose(dyn.forward_dynamics(q, zero, tau), a, atol=1e-7)
    every = ("crank_7", "rocker_7", "coupler_7")
    numbers[model.slice("coupler_7")] = a[model.slice("coupler_7")]
    np.testing.assert_allclose(wt.reference(model).hybrid_dynamics(every)(q, zero, numbers)[0], a, atol=1e-9)
    numbers[model.slice("coupler_7")] += 1e-6
    with pytest.raises(SingularSystemError, match="the accelerations that were given contradict the constraints"):
        wt.reference(model).hybrid_dynamics(every)(q, zero, numbers)


def test_machine_code_and_the_ends():
    model = wt.mechanisms.four_bar_chain(2)
    q = model.home.q
    v = wt.reference(model).project_velocity(q, np.linspace(1, -1, 6))
    numbers = np.linspace(-2, 3, 6)
    ref, dyn = wt.reference(model), wt.compile(model)
    for joints in ((), ("crank_1",), ("crank_1", "rocker_2")):
        for found, expected in zip(
            dyn.hybrid_dynamics(joints)(q, v, numbers), ref.hybrid_dynamics(joints)(q, v, numbers)
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        ref.hybrid_dynamics(())(q, v, numbers)[0], ref.forward_dynamics(q, v, numbers), rtol=1e-11
    )
    assert dyn.jvp("hybrid_dynamics", ("crank_1",)) is not None


def test_a_massless_joint_may_be_prescribed():
    """Condition (32) is asked of the other joints only."""
    model = wt.mechanisms.crank_slider(rod_mass=0.0)
    q = wt.assemble(model, hold={"crank": 0.7})
    v = wt.reference(model).project_velocity(q, [1.0, 0.0, 0.0])
    a, tau = wt.reference(model).hybrid_dynamics("rod")(q, v, np.array([0.0, 2.0, 0.0]))
    assert a[model.slice("rod")] == 2.0
    np.testing.assert_allclose(wt.reference(model).forward_dynamics(q, v, tau), a, rtol=1e-9, atol=1e-9)


def test_too_many_accelerations_are_refused_unless_they_agree():
    model = wt.mechanisms.four_bar()
    q = wt.assemble(model, hold={"crank": 1.0})
    v, ref = np.zeros(3), wt.reference(model)
    both = ("crank", "rocker")
    with pytest.raises(SingularSystemError, match="the accelerations that were given contradict the constraints"):
        ref.hybrid_dynamics(both)(q, v, np.array([1.0, 0.0, 7.0]))
    with pytest.raises(SingularSystemError, match="the accelerations that were given contradict the constraints"):
        wt.compile(model).hybrid_dynamics(both)(q, v, np.array([1.0, 0.0, 7.0]))
    a, _ = ref.hybrid_dynamics("crank")(q, v, np.array([1.0, 0.0, 0.0]))
    again, tau = ref.hybrid_dynamics(both)(q, v, np.array([a[0], 0.0, a[2]]))
    np.testing.assert_allclose(again, a, atol=1e-9)
    np.testing.assert_allclose(ref.forward_dynamics(q, v, tau), a, atol=1e-8)


def test_operational_inertia_of_several_frames_and_chosen_rows():
    """J M† Jᵀ of rows by name, its inverse where enough freedoms move them, on a tree and with loops."""
    model = wt.mechanisms.four_bar_chain(3)
    q = model.home.q
    ref, dyn = wt.reference(model), wt.compile(model)
    J = np.vstack([ref.jacobian("tip")(q)[3:5], ref.jacobian("coupler rod 1")(q)[3:4]])
    task = ("tip.x", "tip.y", "coupler rod 1.x")
    expected = J @ ref.dagger(q)[0] @ J.T
    for functions in (ref, dyn, wt.reference(model, route="embedding")):
        np.testing.assert_allclose(functions.operational_inertia_inverse(task)(q), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(functions.operational_inertia(task)(q) @ expected, np.eye(3), atol=1e-7)
    whole = ref.operational_inertia_inverse(["tip", "coupler rod 1.position"])(q)
    assert whole.shape == (9, 9)
    assert dyn.vjp("operational_inertia", task) is not None
    tree = wt.reference(model.tree)
    J = np.vstack([tree.jacobian("tip")(q)[[2, 3, 4]], tree.jacobian("rocker rod 2")(q)[[2]]])
    found = tree.operational_inertia_inverse(("tip.rz", "tip.x", "tip.y", "rocker rod 2.rz"))(q)
    np.testing.assert_allclose(found, J @ np.linalg.solve(tree.mass_matrix(q), J.T), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("turn", [0.0, 0.7])
@pytest.mark.parametrize("make", [wt.compile, wt.reference])
def test_rows_across_the_plane_of_a_mechanism_have_no_inertia(make, turn):
    """An arm in a plane: its tip has two ways to move, also where the plane is oblique and rounding hides zeros."""
    builder, parent = wt.Builder("arm"), "world"
    axis = (math.sin(turn) * 0.6, math.sin(turn) * 0.8, math.cos(turn))
    for k in range(4):
        builder.body(f"rod {k}", 1.0, (0.5, 0.0, 0.0), (0.1, 0.1, 0.1))
        builder.joint(f"hinge {k}", "revolute", parent, f"rod {k}", position=(1.0 * (k > 0), 0, 0), axis=axis)
        parent = f"rod {k}"
    arm = builder.build()
    q = np.array([0.1, 0.2, 0.3, 0.4])
    with pytest.raises(UnsupportedError, match="only 2 of 3 freedoms move this frame of model 'arm'"):
        make(arm).operational_inertia("rod 3.position")(q)
    assert make(arm).operational_inertia_inverse("rod 3.position")(q).shape == (3, 3)


def test_a_stretched_arm_has_no_inertia_along_itself():
    arm = wt.mechanisms.chain(4)
    with pytest.raises(SingularSystemError, match="no motion leads along some combination of the task's rows"):
        wt.reference(arm).operational_inertia(("tip.x", "tip.y"))(np.zeros(4))
    felt = wt.compile(arm).operational_inertia(("tip.x", "tip.y"))
    with pytest.warns(RuntimeWarning, match="1 of 2 states failed"):
        found = felt(np.array([[0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4]]))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
    assert felt.status[0] > 0 == felt.status[1]


def test_a_task_that_cannot_be_moved_is_refused():
    model = wt.mechanisms.four_bar()
    with pytest.raises(UnsupportedError, match="only 1 of 6 freedoms move this frame of model 'four-bar'"):
        wt.reference(model).operational_inertia("coupler rod")(model.home.q)
    with pytest.raises(NameLookupError, match="tool"):
        wt.reference(model).operational_inertia_inverse("tool.x")
    with pytest.raises(TypeError, match="takes the name of a frame"):
        wt.reference(model).operational_inertia_inverse(3)
