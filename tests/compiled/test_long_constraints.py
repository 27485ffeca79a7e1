"""Constrained dynamics of long systems as loops over bodies: against the reference, other routes, and the equations."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from strategies import make_model, make_motion, make_parents
from whippletree.arithmetic.trace.passes import finish
from whippletree.arithmetic.trace.traced import Trace
from whippletree.compiler.frontend.loops import loop_program, work_size
from whippletree.compiler.program import Block, every_block
from whippletree.constraints import dynamics as constrained
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.node_rows import is_swept
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.functions import find
from whippletree.model import Constraint, Frame, State
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

KINDS = ("revolute", "spherical", "revolute", "universal")


def wide_tree(ties, seed=3, count=130):
    """A random tree of more than LONG_SYSTEM velocities with these constraints, at a configuration that closes them."""
    parents = make_parents(count, seed, chain=0.2, forest=False)
    tree = make_model(parents, ["free", *[KINDS[k % len(KINDS)] for k in range(1, count)]], seed)
    assert tree.nv > LONG_SYSTEM
    q = make_motion(tree, seed).q
    ref = wt.reference(tree)
    frames, constraints = [], []
    for number, (kind, body, other, parameters) in enumerate(ties):
        here = ref.pose(other)(q) if other != "world" else np.eye(4)
        frames.append(Frame(f"socket {number}", other, np.linalg.inv(here) @ ref.pose(body)(q)))
        apart = {"length": float(np.linalg.norm(ref.pose(body)(q)[:3, 3] - here[:3, 3]))} if kind == "distance" else {}
        ends = (other, body) if kind == "distance" else (f"socket {number}", body)
        constraints.append(Constraint(f"tie {number}", kind, ends, parameters | apart))
    model = replace(tree, frames=(*tree.frames, *frames), constraints=tuple(constraints))
    return replace(model, start=State(q, np.zeros(tree.nv))), q


def with_joint_rows(model, q):
    """A gear between two hinges, and a hinge that follows the clock."""
    hinges = [j.name for j in model.joints if j.kind == "revolute"]
    angles = [q[model.q_slice(name).start] for name in hinges]
    gear = Constraint("gear", "gear", tuple(hinges[3:5]), {"ratios": (1.0, -2.0), "offset": angles[3] - 2 * angles[4]})
    clock = Constraint("clock", "prescribed", (hinges[9],), {"motion": lambda t: angles[9] + np.sin(t)})
    return replace(model, constraints=(*model.constraints, gear, clock))


TIES = [
    ("point", "b40", "world", {}),
    ("distance", "b90", "b20", {"switchable": True}),
    ("point_on_plane", "b90", "world", {"compliance": 0.1}),
    ("universal", "b110", "b111", {}),
]


@pytest.mark.slow
def test_every_sort_of_row():
    """Frames and joints, two rows on one body, switches, compliance, time: with the switch on and off."""
    model, q = wide_tree(TIES)
    model = with_joint_rows(model, q)
    ref, dyn = wt.reference(model), wt.compile(model)
    v, tau = np.random.default_rng(4).normal(size=(2, model.nv))
    for active in ([1.0], [0.0]):
        a, f = dyn.forward_dynamics(q, v, tau, 0.0, active), dyn.constraint_forces(q, v, tau, 0.0, active)
        expected = ref.forward_dynamics(q, v, tau, 0.0, active), ref.constraint_forces(q, v, tau, 0.0, active)
        for ours, theirs in zip((a, f), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())
        A, gamma = ref.constraint_jacobian(q, 0.0), ref.constraint_bias(q, v, 0.0)
        balance = ref.inverse_dynamics(q, v, a) - tau - A.T @ f
        np.testing.assert_allclose(balance, 0, atol=1e-9 * np.abs(A.T @ f).max())
        asked = np.array(wt.constraint_set(model).compliance, dtype=float) * f + A @ a + gamma
        on = np.array([k < 0 or active[k] for k in wt.constraint_set(model).switch_of_row], dtype=bool)
        np.testing.assert_allclose(asked[on], 0, atol=1e-9 * (np.abs(A) @ np.abs(a)).max())
        assert not np.any(f[~on])


def test_the_recursion_agrees_with_the_block_matrix():
    """One system by sweeps alone, and by the Schur complement of its mass matrix."""
    model, q = wide_tree(TIES[:1] + TIES[3:])
    tree = skeleton(model)
    v, tau = np.random.default_rng(5).normal(size=(2, model.nv))
    inputs = [np.asarray(x).astype(object) for x in (q, v, tau)]
    for ours, theirs in zip(
        *[constrained.solve(Mechanism(tree, route=route), *inputs, 0, None) for route in ("recursion", "schur")],
        strict=True,
    ):
        expected = theirs.astype(float)
        np.testing.assert_allclose(ours.astype(float), expected, atol=1e-8 * np.abs(expected).max())


def pinned_chain(count, ties):
    """A chain of rods of one metre in all, pinned to the world at some of its bodies where they are."""
    chain = wt.mechanisms.chain(count, length=1 / count)
    q = np.random.default_rng(1).uniform(-0.5, 0.5, count) / np.sqrt(count)
    ref = wt.reference(chain)
    names = [chain.bodies[k].name for k in range(count // ties - 1, count, count // ties)]
    frames = [Frame(f"nail {name}", "world", ref.pose(name)(q)) for name in names]
    pins = [Constraint(f"pin {name}", "pin", (f"nail {name}", name)) for name in names]
    model = replace(chain, frames=(*chain.frames, *frames), constraints=tuple(pins))
    return replace(model, start=State(q, np.zeros(count))), q


@pytest.mark.slow
def test_code_does_not_grow_and_memory_grows_with_bodies():
    sizes = {}
    for count in (300, 600):
        model, _ = pinned_chain(count, 5)
        program = loop_program(find("forward_dynamics", model), skeleton(model))
        sizes[count] = sum(block.code.operations for block in every_block(program.body)), work_size(program)
    assert sizes[300][0] == sizes[600][0]
    assert sizes[600][1] < 2.05 * sizes[300][1]


def test_a_state_alone_and_in_a_batch():
    model, q = pinned_chain(250, 4)
    dyn = wt.compile(model)
    v, tau = np.random.default_rng(2).normal(size=(2, 11, 250))
    batch = dyn.forward_dynamics(q, v, tau)
    assert dyn.forward_dynamics(q, v[7], tau[7]).tobytes() == batch[7].tobytes()


@pytest.mark.slow
def test_dependent_rows_and_nan():
    """Two pins on one body cannot be told apart: a status, not a number. NaN in is NaN out, and no failure."""
    model, q = pinned_chain(250, 2)
    first = model.constraints[0]
    switched = replace(first, parameters={**first.parameters, "switchable": True})
    model = replace(model, constraints=(switched, model.constraints[1], replace(switched, name="again")))
    dyn = wt.compile(model)
    zero = np.zeros(250)
    once = wt.compile(replace(model, constraints=(first, model.constraints[1]))).forward_dynamics(q, zero, zero)
    np.testing.assert_allclose(dyn.forward_dynamics(q, zero, zero, [1.0, 0.0]), once, atol=1e-9 * np.abs(once).max())
    for function in (dyn.forward_dynamics, dyn.constraint_forces):
        with pytest.raises(wt.SingularSystemError, match="depend on each other"):
            function(q, zero, zero, [1.0, 1.0])
    assert np.isnan(dyn.forward_dynamics(q * np.nan, zero, zero, [1.0, 0.0])).all()


def test_constraints_that_hold_nothing():
    """One that the model switches off: the tree moves as if it were not there."""
    chain = wt.mechanisms.chain(250, length=1 / 250)
    model = replace(chain, constraints=(Constraint("off", "pin", ("world", chain.bodies[7].name), {"active": False}),))
    q, v, tau = np.random.default_rng(0).uniform(-0.1, 0.1, (3, 250))
    expected = wt.reference(chain).forward_dynamics(q, v, tau)
    for functions in (wt.reference(model), wt.compile(model)):
        found = functions.forward_dynamics(q, v, tau)
        np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.slow
def test_corrections_and_rows_are_sweeps_too():
    """Projection, closing, impact and the rows themselves, as loops: against the routes that form A and factor M."""
    model, q = wide_tree(TIES[1:3])
    model = with_joint_rows(model, q)
    dyn, tree, system = wt.compile(model), skeleton(model), wt.constraint_set(model)
    rng = np.random.default_rng(6)
    v, near = rng.normal(size=model.nv), wt.reference(model).integrate(q, 1e-3 * rng.normal(size=model.nv))
    t, active = 0.2, np.array([1.0])
    near_, v_ = near.astype(object), v.astype(object)
    m = Mechanism(tree, route="schur")
    rows = system.rows(m, m.moving(near_, v_), near_, v_, t)
    after, impulses = constrained.corrected_velocity(m, near_, v_, 1.5, t, active)
    expected = {
        "constraint_residual": ((near, t), rows.residual()),
        "constraint_velocity": ((near, v, t), rows.velocity()),
        "constraint_bias": ((near, v, t), rows.bias()),
        "project_velocity": ((near, v, t, active), constrained.corrected_velocity(m, near_, v_, 1, t, active)[0]),
        "closing_step": ((near, t, active), constrained.closing_step(m, near_, t, active)),
    }
    for name, (inputs, wanted) in expected.items():
        numbers = wanted.astype(float)
        np.testing.assert_allclose(
            getattr(dyn, name)(*inputs), numbers, atol=1e-8 * np.abs(numbers).max(), err_msg=name
        )
    for ours, theirs in zip(dyn.impact(near, v, 0.5, t, active), (after, impulses), strict=True):
        numbers = theirs.astype(float)
        np.testing.assert_allclose(ours, numbers, atol=1e-8 * np.abs(numbers).max())


@pytest.mark.slow
def test_a_long_chain_is_simulated():
    model, q = pinned_chain(250, 3)
    run = wt.simulate(model, q, np.zeros(250), duration=0.002)
    assert not run.attrs["failure"]
    assert np.abs(run.constraint_residual.values).max() < 1e-12
    assert np.abs(run.constraint_velocity.values).max() < 1e-9


def test_deep_trees_are_swept_and_shallow_ones_factored():
    """Far below LONG_SYSTEM the sweeps of a chain already take fewer operations than a factor of its mass matrix."""
    model, q = pinned_chain(40, 4)
    v, tau = np.random.default_rng(3).normal(size=(2, 40))
    found = {}
    for route in (None, "schur"):
        trace = Trace()
        inputs = [trace.inputs(40) for _ in range(3)]
        a = constrained.solve(Mechanism(skeleton(model), route=route), *inputs, 0, None)[0]
        found[route] = finish(trace, list(a)).operations
    assert found[None] < 0.5 * found["schur"]
    expected = constrained.solve(
        Mechanism(skeleton(model), route="schur"), *[x.astype(object) for x in (q, v, tau)], 0, None
    )[0].astype(float)
    np.testing.assert_allclose(
        wt.compile(model).forward_dynamics(q, v, tau), expected, atol=1e-9 * np.abs(expected).max()
    )
    assert not is_swept(wt.mechanisms.stewart_platform())
    tip = replace(model.bodies[-1], mass=0, inertia=np.zeros((3, 3)))
    light = replace(model, bodies=(*model.bodies[:-1], tip))
    assert is_swept(model)
    assert not is_swept(light)  # sweeps divide by the inertia of every joint


def test_a_row_that_vanishes_is_noticed():
    """A rope from the ground to the tip of a straight chain: no joint changes its length, so it has no force there."""
    chain = wt.mechanisms.chain(30)
    bent, tip = np.full(chain.nq, 0.05), chain.bodies[-1].name
    length = float(np.linalg.norm(wt.reference(chain).pose(tip)(bent)[:3, 3]))
    rope = Constraint("rope", "distance", ("world", tip), {"length": length})
    model = replace(chain, constraints=(rope,), start=State(bent, np.zeros(chain.nv)))
    assert is_swept(model)
    dynamics, still = wt.compile(model).forward_dynamics, np.zeros(chain.nv)
    assert np.all(np.isfinite(dynamics(bent, still, still)))
    with pytest.raises(wt.SingularSystemError, match="let nothing move"):  # a taut rope: no force holds the weight
        dynamics(np.zeros(chain.nq), still, still)


def test_the_factor_of_the_whole_is_computed_once():
    """Not once for the forces, once for what is valid and once for the status: a factor divides once for each row."""
    model, _ = wide_tree(TIES)
    program = loop_program(find("forward_dynamics", model), skeleton(model))
    blocks = [block for block in program.body if isinstance(block, Block)]
    divisions = [sum(node[0] == "div" for node in block.code.nodes) for block in blocks]
    # the residuals of these rows divide as well, but less often than there are rows
    assert sum(divisions) < 2 * len(constraint_set(model).structure.independent)


@pytest.mark.parametrize("kind", ["pins", "cells"])
def test_a_step_at_velocity_level_of_a_long_mechanism(kind):
    """003 without a matrix of the whole: v⁺ meets the rows, a step of no time is a plastic impact, and any other one is
    the accelerations' step with what is left of the rows taken away."""
    if kind == "pins":
        model, q = pinned_chain(250, 3)
    else:
        model = wt.mechanisms.four_bar_chain(80)
        q = model.home.q
    dyn, h = wt.compile(model), 1e-3
    v, tau = 0.1 * np.random.default_rng(5).normal(size=(2, model.nv))
    after, impulses = dyn.velocity_step(q, v, tau, h)
    assert np.abs(dyn.constraint_velocity(q, after)).max() < 1e-10
    still, blow = dyn.velocity_step(q, v, tau, 0.0)
    expected, struck = dyn.impact(q, v, 0.0)
    np.testing.assert_allclose(still, expected, atol=1e-10 * np.abs(v).max() + 1e-11)
    np.testing.assert_allclose(blow, struck, atol=1e-9 * np.abs(struck).max())
    later = v + h * dyn.forward_dynamics(q, v, tau)
    np.testing.assert_allclose(after, dyn.project_velocity(q, later), atol=1e-9)
    forces = h * dyn.constraint_forces(q, v, tau) + dyn.impact(q, later, 0.0)[1]
    np.testing.assert_allclose(impulses, forces, atol=1e-8 * np.abs(forces).max())
