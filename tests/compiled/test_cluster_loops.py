"""Constrained functions as loops over clusters: against the reference, in code that does not grow with the cells."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from strategies import make_looped_model
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend.loops import cluster_loop_program
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON
from whippletree.compiler.program import every_block
from whippletree.functions import CATALOGUE, find
from whippletree.model import State
from whippletree.tree.skeleton import skeleton

FUNCTIONS = ("forward_dynamics", "constraint_forces", "project_velocity", "closing_step", "constraint_residual",
             "constraint_velocity", "constraint_bias")  # fmt: skip


def looped(model, name):
    """A function as loops over clusters, however small the model is."""
    return compile_function(cluster_loop_program(find(name, model), skeleton(model)), threads=1)


def arguments(model, name, q, v, tau):
    values = {"q": q, "v": v, "tau": tau}
    return [values[word] for word in find(name, model).inputs]


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", [1, 3, 5, 8])
def test_trees_of_random_loops(seed, name):
    model, motion = make_looped_model(seed, limbs=6)
    ref = wt.reference(model, route="embedding")
    v = ref.project_velocity(motion.q, motion.v)
    given = arguments(model, name, motion.q, v, motion.tau)
    found, expected = looped(model, name)(*given), getattr(ref, name)(*given)
    assert np.abs(found - expected).max(initial=0) < 1e-8 * max(1.0, np.abs(expected).max(initial=0))


@pytest.mark.slow
def test_accelerations_come_with_the_diagonal_of_the_mass_matrix():
    """The one result of a constrained function that belongs to the tree, not to the clusters."""
    for seed in (1, 5):
        model, motion = make_looped_model(seed, limbs=3)
        given = motion.q, wt.reference(model).project_velocity(motion.q, motion.v), motion.tau
        expected = wt.reference(model, route="embedding").forward_dynamics_with_diagonal(*given)
        M = wt.reference(model).mass_matrix(motion.q)
        for found, own in zip(looped(model, "forward_dynamics_with_diagonal")(*given), expected, strict=True):
            np.testing.assert_allclose(found, own, rtol=1e-8, atol=1e-8 * np.abs(own).max(initial=0))
        np.testing.assert_allclose(expected[1], np.diagonal(M), rtol=1e-12)


def test_every_function_that_loops_over_clusters_is_tested():
    entries = {name for name, entry in CATALOGUE.items() if entry.loops and entry.constraints in ("honours", "needs")}
    elsewhere = {"hybrid_dynamics"}  # tests/methods/test_prescribed_joints.py
    others = {"forward_dynamics_with_diagonal", "forward_dynamics_with_wrench", "impact", "velocity_step"}
    assert entries == {*FUNCTIONS, *others, *elsewhere}


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_wrench_on_a_frame_inside_a_loop(seed):
    model, motion = make_looped_model(seed, limbs=4)
    ref = wt.reference(model, route="nullspace", watch="never")
    v, wrench = ref.project_velocity(motion.q, motion.v), np.arange(1.0, 7.0)
    for frame in (model.bodies[0].name, model.bodies[len(model.bodies) // 2].name, model.bodies[-1].name, "world"):
        program = cluster_loop_program(find("forward_dynamics_with_wrench", model), skeleton(model), names=(frame,))
        found = compile_function(program, threads=1)(motion.q, v, motion.tau, wrench)
        pulled = motion.tau + ref.jacobian(frame)(motion.q).T @ wrench
        expected = ref.forward_dynamics(motion.q, v, pulled)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * max(1.0, np.abs(expected).max()))
        again = wt.reference(model, route="embedding").forward_dynamics_with_wrench(frame)(
            motion.q, v, motion.tau, wrench
        )
        np.testing.assert_allclose(again, expected, rtol=0, atol=1e-8 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", ["impact", "velocity_step"])
def test_velocities_after_an_impact_or_a_step_come_with_impulses(name):
    model, motion = make_looped_model(1, limbs=3)
    given = (motion.q, motion.v, *([np.array(0.5)] if name == "impact" else [motion.tau, np.array(1e-3)]))
    found, expected = looped(model, name)(*given), getattr(wt.reference(model, route="embedding"), name)(*given)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * np.abs(b).max(initial=0))


def test_code_does_not_grow_with_the_cells():
    sizes = []
    for cells in (10, 40):
        model = wt.mechanisms.four_bar_chain(cells)
        program = cluster_loop_program(find("forward_dynamics", model), skeleton(model))
        sizes.append(sum(len(block.code.nodes) for block in every_block(program.body)))
    assert sizes[0] == sizes[1]


@pytest.mark.slow
@pytest.mark.parametrize("cells", [20, 60])
def test_long_chains_are_compiled_as_loops_and_agree(cells):
    model = wt.mechanisms.four_bar_chain(cells)
    dyn, ref = wt.compile(model), wt.reference(model)
    rng = np.random.default_rng(0)
    q, tau = model.home.q, rng.normal(size=model.nv)
    v = dyn.project_velocity(q, rng.normal(size=model.nv))
    assert np.abs(dyn.constraint_velocity(q, v)).max() < 1e-10
    for name in ("forward_dynamics", "constraint_forces"):
        found, expected = getattr(dyn, name)(q, v, tau), getattr(ref, name)(q, v, tau)
        assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()
    batch = dyn.forward_dynamics(np.stack([q, q, q]), np.stack([v, 0 * v, v]), tau)
    assert np.all(batch[0] == dyn.forward_dynamics(q, v, tau))
    assert np.all(batch[0] == batch[2])


def test_a_singular_cell_of_a_long_chain_is_told():
    model = wt.mechanisms.four_bar_chain(20, lengths=(1.0, 0.5, 1.0, 0.5))
    q = model.home.q.copy()
    for name in ("crank_7", "coupler_7", "rocker_7"):
        q[model.q_slice(name)] = 0.0
    zero = np.zeros(model.nv)
    dyn = wt.compile(model)
    alone = dyn.forward_dynamics(q, zero, zero)
    assert dyn.forward_dynamics.status == ANSWERED_IN_PYTHON
    regular = dyn.forward_dynamics(model.home.q, zero, zero)
    assert dyn.forward_dynamics.status == 0
    with pytest.warns(RuntimeWarning, match="1 of 2 states, whose constraint rows depend on each other"):
        batch = dyn.forward_dynamics(np.stack([model.home.q, q]), zero, zero)
    assert dyn.forward_dynamics.status.tolist() == [0, ANSWERED_IN_PYTHON]
    np.testing.assert_array_equal(batch, [regular, alone])


def test_a_scene_of_equal_linkages_is_compiled_once():
    counts = []
    for count in (20, 60):
        model = scene(count)
        program = cluster_loop_program(find("forward_dynamics", model), skeleton(model))
        counts.append(sum(len(block.code.nodes) for block in every_block(program.body)))
    assert counts[0] == counts[1]
    dyn, zero = wt.compile(model), np.zeros(model.nv)
    one = scene(1)
    alone = wt.reference(one).forward_dynamics(one.home.q, np.zeros(3), np.zeros(3))
    a = dyn.forward_dynamics(model.home.q, zero, zero)
    assert np.abs(a.reshape(-1, 3) - alone).max() < 1e-12


def scene(count):
    """Separate four-bars side by side."""
    bar = wt.mechanisms.four_bar(lengths=(1.0, 0.6, 0.9, 0.7))
    builder = wt.Builder("scene", (0, -9.81, 0))
    for k in range(count):
        for body in bar.bodies:
            builder.body(f"{body.name} {k}", body.mass, center=body.center, inertia=body.inertia)
        for joint, angle in zip(bar.joints, bar.home.q, strict=True):
            x = joint.pose[0, 3] + (3 * k if joint.parent == "world" else 0)
            parent = joint.parent if joint.parent == "world" else f"{joint.parent} {k}"
            ends = (parent, f"{joint.child} {k}")
            builder.joint(f"{joint.name} {k}", "revolute", *ends, position=(x, 0, 0), start=angle)
        for frame in bar.frames:
            builder.frame(f"{frame.name} {k}", f"{frame.body} {k}", position=frame.pose[:3, 3])
        builder.constraint(f"pin {k}", "pin", f"rocker end {k}", f"coupler end {k}")
    return builder.build()


def test_massless_links_in_loops():
    model = wt.mechanisms.four_bar_chain(20, masses=(1.0, 1.0, 0.0))
    dyn, ref = wt.compile(model), wt.reference(model, route="embedding")
    zero = np.zeros(model.nv)
    expected = ref.forward_dynamics(model.home.q, zero, zero)
    assert np.abs(dyn.forward_dynamics(model.home.q, zero, zero) - expected).max() < 1e-8 * np.abs(expected).max()
    light = replace(model, start=State(model.home.q, zero))
    assert wt.diagnose(light).fine
