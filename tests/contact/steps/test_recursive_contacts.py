"""Contacts of trees with the world by articulated recursions: the steps that dense rows take, at linear cost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.belts import FALL, STEP, belt

import whippletree as wt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import every_block
from whippletree.compiler.program.check import check
from whippletree.compiler.rollout.contact_lists import (
    contact_list_chains,
    contact_list_step,
    contact_list_suitability,
    contact_list_trees,
)
from whippletree.compiler.rollout.contact_lists.contact_list_chains import is_unbranched
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import suits_recursion, suits_world_only
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import reason_against_lists
from whippletree.contact.time_step import ContactBlocks
from whippletree.files.cache import CodeCache
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping import impulse_kernel
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep
from whippletree.tree.skeleton import skeleton

TOLERANCE, STEPS = 1e-9, 40
BRIDGE_FLOOR = -0.1098


def tree(kinds, branch=2):
    """Balls on joints of several kinds above a floor, in two limbs; in one, without a branch."""
    b = wt.Builder("tree").geometry("floor", "world", "half_space", position=(0, 0, -0.06))
    before = "world"
    for k, kind in enumerate(kinds):
        more = {"damping": 0.01, "axis": (0, 1, 0)} if kind == "revolute" else {}
        _add_ball(b, k, kind, before, **more)
        before = f"link {k}" if k != branch else "link 1"
    return b.build()


def bridge(links=5, bend=0.1, floor=BRIDGE_FLOOR):
    """A chain that sags between two points, with its balls just above a floor: a loop."""
    b = wt.Builder("bridge").geometry("floor", "world", "half_space", position=(0, 0, floor))
    directions = bend * (np.arange(links)[::-1] - (links - 1) / 2)
    before = "world"
    for k, turn in enumerate(np.diff(directions, prepend=0.0)):
        _add_ball(b, k, "revolute", before, axis=(0, 1, 0), start=turn)
        before = f"link {k}"
    b.frame("end", "world", position=(0.2 * np.cos(directions).sum(), 0, 0)).frame("tip", before, position=(0.2, 0, 0))
    return b.constraint("tie", "point", "end", "tip").build()


def _add_ball(b, k, kind, before, **more):
    name = f"link {k}"
    b.body(name, 0.3, center=(0.1, 0, 0), inertia=(1e-3, 2e-3, 2e-3))
    b.joint(name, kind, before, name, position=(0.2, 0, 0) if k else (0, 0, 0), **more)
    b.geometry(name, name, "sphere", radius=0.05, position=(0.1, 0, 0))
    b.contact(name, name, "floor", friction=0.6)


def given(model, speed):
    rng = np.random.default_rng(3)
    q, v = np.asarray(model.home.q, dtype=float), speed * rng.normal(size=model.nv)
    if model.constraints:
        v = wt.compile(model).project_velocity(q, v)
    blocks = ContactBlocks(model, alone=True).count
    return [q, v, np.zeros((blocks, 3)), np.zeros((STEPS, model.nv)), np.full(STEPS, 2e-3), TOLERANCE, np.inf]


def both_ways(model, speed, monkeypatch):
    monkeypatch.setattr(contact_list_trees, "MOST_WRITTEN_VELOCITIES", 0)
    assert contact_list_step.suits_recursion(model, ContactBlocks(model, alone=True))
    found = []
    for suits in (contact_list_step.suits_recursion, lambda *_: False):
        monkeypatch.setattr(contact_list_step, "suits_recursion", suits)
        program = contact_lists_program(model)
        check(program)
        with np.errstate(all="ignore"):
            found.append(
                compile_function(program, width=1, threads=1, cache=CodeCache(None)).ufunc(*given(model, speed))
            )
    return found


KINDS = ("spherical", "revolute", "revolute", "prismatic", "revolute")


@pytest.mark.slow
@pytest.mark.parametrize("branch", [None, 2])
def test_recursions_take_the_steps_of_dense_rows(branch, monkeypatch):
    """Contacts are eliminated along a chain, or act as inertias of a tree."""
    model = tree(KINDS, branch)
    assert is_unbranched(skeleton(model)) == (branch is None)
    recursive, dense = both_ways(model, 0.1, monkeypatch)
    assert dense[2][..., 0].max() > 1e-3  # something presses
    assert recursive[3][:, 1].max() <= TOLERANCE
    for a, b in zip(recursive[:2], dense[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)  # after many steps with impacts


def two_chains():
    """Two chains in a plane, of dumb-bells above a floor: bodies in turn, contacts from the tips to the bases."""
    b = wt.Builder("two chains").geometry("floor", "world", "half_space", position=(0, 0, -0.053))
    for k in range(3):
        for y in (0, 1):
            name, before = f"link {k} of {y}", f"link {k - 1} of {y}" if k else "world"
            kind, axis, place = ("revolute", (0, 1, 0), (0.2, 0, 0)) if k else ("prismatic", (0, 0, 1), (0, y, 0))
            b.body(name, 0.3, center=(0.1, 0, 0), inertia=(1e-3, 2e-3, 2e-3))
            b.joint(name, kind, before, name, axis=axis, position=place)
            for x in (0.06, 0.14):
                b.geometry(f"{name} at {x}", name, "sphere", radius=0.05, position=(x, 0, 0))
    for k in (2, 1, 0):
        for y in (0, 1):
            for x in (0.06, 0.14):
                ball = f"link {k} of {y} at {x}"
                b.contact(ball, ball, "floor", friction=0.6)
    return b.build()


@pytest.mark.slow
def test_contacts_of_several_chains_are_in_their_order(monkeypatch):
    """Whatever the order of bodies and contacts, and where a body has two of them."""
    model = two_chains()
    assert is_unbranched(skeleton(model))
    recursive, dense = both_ways(model, 0.1, monkeypatch)
    pressed = dense[2][..., 0].reshape(STEPS, 3, 2, 2) > 1e-4
    assert pressed.all(axis=-1).any(axis=(0, 1)).all()  # both balls of a link of each chain
    assert recursive[3][:, 1].max() <= TOLERANCE
    for a, b in zip(recursive[:2], dense[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_random_trees_take_the_steps_of_dense_rows(seed, monkeypatch):
    """Any order of joints, a branch or none: the problem of the first contacts, which both begin with alike."""
    rng = np.random.default_rng(seed)
    kinds = tuple(str(kind) for kind in rng.choice(["revolute", "prismatic", "spherical"], size=6, p=[0.6, 0.2, 0.2]))
    recursive, dense = both_ways(tree(kinds, None if seed else int(rng.integers(2, 4))), 0.1, monkeypatch)
    touched = int(np.argmax(dense[2][..., 0].max(axis=1) > 0))
    assert dense[2][touched, :, 0].max() > 1e-4
    assert recursive[3][: touched + 3, 1].max() <= TOLERANCE
    for a, b in zip(recursive[:2], dense[:2], strict=True):
        np.testing.assert_allclose(a[: touched + 3], b[: touched + 3], rtol=0, atol=1e-7)


@pytest.mark.slow
def test_recursions_keep_loops_closed(monkeypatch):
    recursive, dense = both_ways(bridge(), 1.0, monkeypatch)
    touched = int(np.argmax(dense[2][..., 0].max(axis=1) > 0))
    assert dense[2][touched, :, 0].max() > 1e-3
    # both have solved the same problem up to there; coordinates are moved apart in other ways afterwards
    np.testing.assert_allclose(recursive[2][: touched + 1], dense[2][: touched + 1], rtol=0, atol=1e-9)
    directions = np.cumsum(recursive[0], axis=1)
    heights = -0.2 * np.cumsum(np.sin(directions), axis=1)
    np.testing.assert_allclose(heights[:, -1], 0.0, atol=1e-12)
    balls = heights + 0.1 * np.sin(directions) - 0.05
    assert balls.min() > BRIDGE_FLOOR - 1e-9


@pytest.mark.slow
def test_central_paths_are_followed_through_their_folds():
    """The kernel solves every step of a belt that lands on its pulleys as a whole; without the path, all but one."""
    model, steps = belt(50), FALL + 30
    given = np.zeros((steps, model.nv)), np.full(steps, STEP), 1e-7, 1e-7
    blocks = ContactBlocks(model, alone=True).count
    state = np.asarray(model.home.q, dtype=float), np.zeros(model.nv), np.zeros((blocks, 3))
    found = wt.compile(model).contact_steps(*state, *given)
    assert np.isfinite(found[0]).all()
    assert found[3][:, 1].max() <= 1e-7
    assert found[8].max() > 2 * np.median(found[8])  # one with a fold is among them


@pytest.mark.slow
def test_runs_that_stick_are_solved_down_to_the_tolerance(monkeypatch):
    """The same steps of a long belt, its impulses unknown: without what contacts yield at least, rounding takes some of
    them about a path at a residual near the tolerance."""
    model, first, last = belt(400), 27, 35
    told = {"duration": last * STEP, "step": STEP, "output_dt": STEP, "method": "time_stepping"}
    run = wt.simulate(model, **told)
    impulses = np.zeros((ContactBlocks(model, alone=True).count, 3))
    given = impulses, np.zeros((1, model.nv)), np.full(1, STEP), 1e-7, np.inf
    rounds = []
    for least in (contact_list_chains.LEAST_YIELD, 0):
        monkeypatch.setattr(contact_list_chains, "LEAST_YIELD", least)
        kernel = compile_function(contact_lists_program(model), width=1, threads=1, cache=CodeCache(None)).ufunc
        found = [kernel(q, v, *given) for q, v in zip(run.q.values[first:last], run.v.values[first:last], strict=True)]
        if least:
            assert max(step[3][0, 1] for step in found) <= 1e-7
        rounds.append(sum(step[8][0] for step in found))
    assert rounds[0] < 0.8 * rounds[1]


@pytest.mark.slow
def test_a_loop_too_long_for_a_compiled_matrix_is_stepped_in_python_too():
    """Where the kernel gives up. From rest both solve the same problem: no inertial forces, no momenta."""
    links, bend, h = 160, 5e-3, 2e-3
    directions = bend * (np.arange(links)[::-1] - (links - 1) / 2)
    lowest = (0.1 * np.sin(directions) - 0.2 * np.cumsum(np.sin(directions))).min()
    model = bridge(links, bend, lowest - 0.05)
    q, v, impulses, tau, _, _, _ = given(model, 0.0)
    stepper = ImpulseStep(Motion(wt.compile(model, watch="never")), TOLERANCE)
    step = stepper.step(0.0, np.concatenate([q, v]), impulses, tau[0], h)
    kernel = wt.compile(model).contact_steps(q, v, impulses, tau[:1], np.array([h]), TOLERANCE, np.inf)
    assert step.solution.measure.velocity <= TOLERANCE
    assert kernel[3][0, 1] <= TOLERANCE
    assert step.impulses[:, 0].max() > 1e-4  # something presses
    speeds = np.abs(kernel[1][0]).max()
    np.testing.assert_allclose(step.state[model.nq :], kernel[1][0], rtol=0, atol=1e-4 * speeds)


def test_steps_that_leave_an_overlap_are_taken_in_halves():
    """Links that turn far in a long step leave the normals and the loop of its beginning."""
    step = 0.016
    run = wt.simulate(belt(60), duration=30 * step, step=step, output_dt=step, method="time_stepping")
    assert not run.attrs["failure"]
    assert run.attrs["halved_steps"] > 5
    assert float(run.penetration.max()) <= 1e-8
    assert float(abs(run.constraint_residual).max()) <= 1e-8


@pytest.fixture(scope="module")
def snake():
    """Links in a row just above a floor, two contacts each, whose joints are led from side to side by servos."""
    b = wt.Builder("snake").geometry("floor", "world", "half_space")
    before = "world"
    for k in range(40):
        name = f"link {k}"
        b.body(name, 0.1, center=(0.04, 0, 0), inertia=(2e-5, 6e-5, 6e-5))
        if k:
            axis = (0, 1, 0) if k % 4 == 0 else (0, 0, 1)
            b.joint(name, "revolute", before, name, axis=axis, position=(0.08, 0, 0), damping=0.05, rotor_inertia=1e-3)
            b.actuator(name, name, gain=(2, 0, 0), bias=(0, -2, -0.02))
        else:
            b.joint(name, "free", before, name, position=(0, 0, 0.021))
        for end, x in enumerate((0.02, 0.06)):
            b.geometry(f"{name} {end}", name, "sphere", radius=0.02, position=(x, 0, 0))
            b.contact(f"{name} {end}", f"{name} {end}", "floor", friction=1.0)
        before = name
    return b.build()


def test_an_open_chain_that_lies_is_solved_in_few_newton_steps(snake, monkeypatch):
    """Eighty contacts that share the weight of forty links and slide in all directions; no step is left to Python."""
    monkeypatch.setattr(ImpulseStep, "step", None)
    k, steps = np.arange(1, 40), 60
    ctrl = np.where(k % 4, 0.4 * np.sin(0.5 * k), 0.0)
    times = {"duration": steps * 2e-3, "step": 2e-3, "output_dt": 2e-3}
    run = wt.simulate(snake, ctrl=ctrl, method="time_stepping", **times)
    assert float(run.residual_velocity.max()) <= 1e-7
    assert float(run.penetration.max()) <= 1e-8
    assert float(run.newton_steps.mean()) < 20


@pytest.mark.slow
def test_what_a_kernel_has_not_written_is_not_read(snake):
    """Steps that need a second turn of all methods, in memory that was filled with two patterns before."""
    program = """
import sys
import numpy as np
sys.path += sys.argv[1:]
import whippletree as wt
from test_recursive_contacts import snake
model = snake.__wrapped__() if hasattr(snake, "__wrapped__") else snake._fixture_function()
k = np.arange(1, 40)
ctrl = np.where(k % 4, 0.4 * np.sin(4 * 2e-3 * np.arange(12)[:, None] - 0.5 * k), 0.0)
blocks = wt.compile(model).contact_steps(
    model.home.q, np.zeros(model.nv), np.zeros((80, 3)), np.zeros((12, model.nv)), ctrl, np.full(12, 2e-3), 1e-7, np.inf
)
print(repr(blocks[1][-1].tolist()), int(blocks[7].sum()))
"""
    here = Path(__file__).parent
    told = [
        subprocess.run(
            [sys.executable, "-c", program, str(here), str(here.parents[2])],
            env=os.environ | {"MALLOC_PERTURB_": pattern},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for pattern in ("165", "33")
    ]
    assert told[0] == told[1]
    assert int(told[0].split()[-1]) > 0


def test_a_long_chain_that_begins_to_lie_on_faces_is_no_step_for_python(monkeypatch):
    """Capsules on a box have no closed form; the first step under load is the kernel's, as a whole."""
    b = wt.Builder("rope").geometry("box", "world", "box", size=(1.0, 1.0, 0.2), position=(1.0, 0, -0.14))
    before = "world"
    for k in range(24):
        name = f"link {k}"
        b.body(name, 0.05, center=(0.03, 0, 0), inertia=(1e-5, 3e-5, 3e-5))
        b.joint(
            name, "revolute", before, name, axis=(0, 1, 0), position=(0.06 if k else 0, 0, 0), start=-0.05 * (k == 0)
        )
        rod = {"position": (0.03, 0, 0), "rotation": np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])}
        b.geometry(name, name, "capsule", radius=0.01, length=0.04, **rod).contact(name, name, "box", friction=0.5)
        before = name
    monkeypatch.setattr(ImpulseStep, "step", None)
    run = wt.simulate(b.build(), duration=0.2, step=2e-3, output_dt=2e-3, method="time_stepping")
    assert float(run.contact_force.max()) > 0.1
    assert float(run.residual_velocity.max()) <= 1e-7
    assert run.attrs["halved_steps"] == 0


def test_dampers_do_not_keep_a_long_chain_from_being_watched(snake):
    """Their work is known; a step that is not solved is taken in halves, not in Python."""
    assert ImpulseStep(Motion(wt.compile(snake)), 1e-7).watched


def test_the_code_of_recursions_grows_by_copies_only():
    kinds = ("revolute",)
    sizes = [sum(len(x.code.nodes) for x in every_block(contact_lists_program(tree(n * kinds)).body)) for n in (41, 82)]
    assert sizes[1] < 1.3 * sizes[0]  # with rows for each velocity, it would be twice as long


def curling(limited=False):
    """Balls on a bar that springs curl up as it falls on a floor, until its ends meet, or its joints are at an end."""
    b = wt.Builder("curling").geometry("floor", "world", "half_space", position=(0, 0, -0.08))
    before = "world"
    for k in range(6):
        bent = {"axis": (0, 1, 0), "stiffness": 8.0, "rest": -1.3, "damping": 0.05}
        more = bent | ({"lower": -0.9} if limited else {}) if k else {}
        _add_ball(b, k, "revolute" if k else "free", before, **more)
        before = f"link {k}"
    for k in range(2, 6):
        b.contact(f"0 on {k}", "link 0", f"link {k}", friction=0.6)
    return b.build()


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True])
def test_steps_in_which_only_the_world_is_touched_are_those_of_the_whole_kernel(limited, monkeypatch):
    """Until something else takes part: that step has what it would miss by for a residual, and is not taken."""
    monkeypatch.setattr(contact_list_trees, "MOST_WRITTEN_VELOCITIES", 0)
    model = curling(limited)
    stepper = ImpulseStep(Motion(wt.compile(model)), TOLERANCE)
    assert not suits_recursion(model, stepper.blocks)
    assert stepper.apart is not None
    q, v, impulses, _, _, _, _ = given(model, 0.0)
    steps = 120
    arguments = [q, v, impulses, np.zeros((steps, model.nv)), np.full(steps, 2e-3), TOLERANCE]
    with np.errstate(all="ignore"):
        found = [
            compile_function(
                contact_lists_program(model, world_only=only), width=1, threads=1, cache=CodeCache(None)
            ).ufunc(*arguments, patience)
            for only, patience in ((True, TOLERANCE), (False, np.inf))
        ]
    alone, whole = found
    pushed = whole[2][:, stepper.apart, 0].max(axis=1) > 0
    first = int(np.argmax(pushed))
    assert pushed.any()
    assert whole[2][: first + 1, ~stepper.apart, 0].max() > 1e-3  # the floor presses
    assert (alone[3][:first, 1] <= TOLERANCE).all()
    assert alone[3][first, 1] > 1e-3
    assert np.isnan(alone[0][first + 1 :]).all()
    for a, b in zip(alone[:2], whole[:2], strict=True):
        np.testing.assert_allclose(a[:first], b[:first], rtol=0, atol=1e-5)  # after many steps with impacts


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True])
def test_chains_whose_links_meet_go_from_one_kernel_to_the_other(limited, monkeypatch):
    monkeypatch.setattr(contact_list_trees, "MOST_WRITTEN_VELOCITIES", 0)
    monkeypatch.setattr(ImpulseStep, "step", None)
    model, runs, asked, numbers, kernel_of = curling(limited), [], [], [], impulse_kernel._kernel

    def kernel(stepper, world_only=False):
        asked.append(world_only)
        return kernel_of(stepper, world_only)

    monkeypatch.setattr(impulse_kernel, "_kernel", kernel)
    for apart in (ImpulseStep.apart, None):
        monkeypatch.setattr(ImpulseStep, "apart", apart)
        times = {"duration": 0.24, "step": 2e-3, "output_dt": 2e-3}
        runs.append(wt.simulate(model, method="time_stepping", tolerance=TOLERANCE, **times))
        numbers.append(len(asked))
    both, whole = runs
    assert {*asked[: numbers[0]]} == {True, False}
    assert float(both.residual_velocity.max()) <= TOLERANCE
    assert float(both.penetration.max()) <= 1e-8
    assert float(both.limit_overshoot.max() if limited else 0.0) <= 1e-8
    np.testing.assert_allclose(both.q.values[:60], whole.q.values[:60], rtol=0, atol=1e-6)


def test_links_that_touch_each_other_keep_dense_rows():
    b = wt.Builder("pair").geometry("floor", "world", "half_space")
    _add_ball(b, 0, "revolute", "world")
    _add_ball(b, 1, "revolute", "link 0")
    assert contact_list_step.suits_recursion(*_with_blocks(b))
    b.contact("both", "link 0", "link 1")
    assert not contact_list_step.suits_recursion(*_with_blocks(b))
    assert suits_world_only(*_with_blocks(b))
    b.joint("link 2", "revolute", "link 1", "link 2", axis=(0, 1, 0), friction=0.1).body("link 2", 0.3)
    assert not suits_world_only(*_with_blocks(b))  # what rubs always takes part


def _with_blocks(b):
    model = b.build()
    return model, ContactBlocks(model, alone=True)


def test_only_long_trees_with_contacts_elsewhere_are_refused(monkeypatch):
    monkeypatch.setattr(contact_list_suitability, "MOST_LISTED_VELOCITIES", 3)
    model = tree(("revolute",) * 5)
    assert reason_against_lists(model) is None
    monkeypatch.setattr(contact_list_suitability, "suits_recursion", lambda *_: False)
    assert reason_against_lists(model) == "it has 5 velocities, and the code has rows for at most 3"
