"""Loops over bodies: the same numbers as the reference, from programs whose size does not grow with the system."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from long_mechanisms import floating_ladder
from looped_programs import LOOPING, MODELS, Interpreter, assert_equal, inputs_of, looped
from strategies import make_model, make_motion, make_parents, models, seeds, trees
from whippletree import functions, mechanisms
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend.code_forms import COMPOSED, MATRICES
from whippletree.compiler.frontend.loops import Looped, assemble, loop_program, work_size
from whippletree.compiler.frontend.loops.body_types import MOST_TYPES, classify
from whippletree.compiler.frontend.loops.looped_program import inward_slots, outward_slots
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Loop,
    Program,
    Statement,
    Switch,
    store_or_recompute,
)
from whippletree.errors import UnsupportedError
from whippletree.functions.reference import reference
from whippletree.model import Model
from whippletree.model.builder import Builder
from whippletree.tree.skeleton import skeleton
from whippletree.tree.sweeps import Unrolled

NAMED = sorted(n for n, entry in functions.CATALOGUE.items() if entry.loops and entry.names)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("name", LOOPING)
def test_loops_give_the_numbers_of_the_reference(model: Model, name: str) -> None:
    inputs = inputs_of(model, name, seed=1)
    found = Interpreter(looped(model, name), inputs).outputs()
    expected = getattr(reference(model), name)(*inputs.values())
    for own, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=False):
        assert_equal(own, other)


@pytest.mark.slow
@given(models(max_size=9), seeds, st.sampled_from(["forward_dynamics", "inverse_dynamics"]))
def test_random_models_with_massless_links(model: Model, seed: int, name: str) -> None:
    if model.nv == 0:
        return
    inputs = inputs_of(model, name, seed)
    found, *_ = Interpreter(looped(model, name), inputs).outputs()
    expected = getattr(reference(model), name)(*inputs.values())
    # massless links are held up by small pivots: an error of the inputs' rounding grows by what the answer shows
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODELS["star"], MODELS["forest of any joints"]], ids=["star", "forest"])
@pytest.mark.parametrize("name", ["forward_dynamics", "inverse_dynamics", "kinetic_energy"])
def test_compiled_loops_give_the_numbers_of_the_reference(model: Model, name: str) -> None:
    batch = [inputs_of(model, name, seed) for seed in range(11)]
    stacked = [np.stack([inputs[word] for inputs in batch]) for word in batch[0]]
    program = looped(model, name)
    expected = getattr(reference(model), name)(*stacked)
    one, four, eight = (compile_function(program, width=width)(*stacked) for width in (1, 4, 8))
    assert_equal(one, expected)
    np.testing.assert_array_equal(one, four)
    np.testing.assert_array_equal(one, eight)


# --- what a program costs ---------------------------------------------------------------------------------------------


def blocks(*statements: Statement) -> list[Block]:
    found: list[Block] = []
    for s in statements:
        match s:
            case Block():
                found.append(s)
            case Loop(body=body):
                found += blocks(*body)
            case Switch(cases=cases):
                found += [b for case in cases for b in blocks(*case)]
    return found


def crossing(program: Program) -> list[int]:
    """For each loop, how many numbers a body sends through its edge."""
    return [
        max(sum(a.buffer == "passing" for a in block.stores) for block in blocks(loop))
        for loop in program.body
        if isinstance(loop, Loop)
    ]


def test_code_does_not_grow_with_the_system_and_memory_is_linear() -> None:
    programs = {n: looped(mechanisms.chain(n, length=0.7), "forward_dynamics") for n in (10, 40)}
    assert [b.code for b in blocks(*programs[10].body)] == [b.code for b in blocks(*programs[40].body)]
    per_body = (work_size(programs[40]) - work_size(programs[10])) / 30
    assert per_body <= 12
    tables = [sum(b.data.nbytes for b in p.of_role("table", "index")) for p in programs.values()]
    assert tables[1] <= 4 * tables[0] + 64


def test_a_planar_chain_is_planar_by_itself() -> None:
    """Nobody says that the chain is planar; the zeros of what crosses its edges are found."""
    program = looped(mechanisms.chain(10, length=0.7), "forward_dynamics")
    # ω, vx, vy; six entries of the inertia and three of the wrench; α, ax, ay
    assert crossing(program) == [3, 9, 3]


def test_a_spatial_chain_sends_one_triangle_of_the_inertia() -> None:
    program = looped(make_model(range(-1, 5), ["revolute"] * 6, seed=1), "forward_dynamics")
    assert crossing(program) == [6, 21 + 6, 6]


def test_sweeps_of_one_direction_share_a_loop() -> None:
    program = looped(mechanisms.chain(5), "inverse_dynamics")
    assert [s.backwards for s in program.body if isinstance(s, Loop)] == [False, True]


def test_what_nobody_needs_is_not_computed() -> None:
    """The twist crosses no edge where only gravity acts."""
    program = looped(make_model(range(-1, 4), ["revolute"] * 5, seed=2), "gravity")
    # the acceleration of gravity, which only turns, on the way out; a wrench on the way in
    assert crossing(program) == [3, 6]


# --- types of bodies --------------------------------------------------------------------------------------------------


def test_types_are_few_and_bodies_with_equal_numbers_share_rows() -> None:
    rng = Random(0)
    nodes = [(rng.choice([0, 1, -1, 0.5]), rng.choice([0, 1, 2.5]), np.array([rng.random(), 0])) for _ in range(200)]
    nodes += nodes[:50]
    found = classify([nodes], len(nodes))
    assert len(found.types) <= MOST_TYPES
    assert (found.rows[200:] == found.rows[:50]).all()
    for k, (a, b, c) in enumerate(nodes):
        kind = found.types[found.of[k]]
        row = found.table[found.rows[k] : found.rows[k] + kind.width]
        values = [row[x.place] if hasattr(x, "place") else x for x in kind.leaves]
        assert values == [a, b, *c]


def test_a_limit_of_one_type_per_joint_kind_still_gives_the_right_numbers() -> None:
    model = mechanisms.tree(20, seed=8)
    function = functions.find("forward_dynamics", model)
    inputs = inputs_of(model, "forward_dynamics", seed=2)
    few = loop_program(function, skeleton(model), most_types=1)
    found, *_ = Interpreter(few, inputs).outputs()
    assert_equal(found, reference(model).forward_dynamics(*inputs.values()))


# --- storing against computing again ----------------------------------------------------------------------------------


def random_graph(rng: Random, size: int) -> list[tuple[Any, ...]]:
    nodes: list[tuple[Any, ...]] = [("input", 0), ("input", 1), ("input", 2)]
    while len(nodes) < size:
        nodes.append((rng.choice(["add", "mul", "sin", "div"]), rng.randrange(len(nodes)), rng.randrange(len(nodes))))
    return [node[:2] if node[0] == "sin" else node for node in nodes]


def cost(nodes: list[tuple[Any, ...]], computed: set[int], loaded: set[int]) -> int:
    total = len(loaded) * sum(store_or_recompute.NEAR)
    for n in computed:
        total += (
            store_or_recompute.ARGUMENT_COST
            if nodes[n][0] == "input"
            else store_or_recompute.OPERATION_COSTS.get(nodes[n][0], 2)
        )
    return total


@given(seeds)
def test_the_cut_is_the_cheapest_choice(seed: int) -> None:
    """Against all choices of a small graph: what the second loop needs was known in the first one."""
    rng = Random(seed)
    nodes = random_graph(rng, 9)
    known = [-1 if n < 3 else 0 for n in range(len(nodes))]
    required = {len(nodes) - 1, rng.randrange(3, len(nodes))}
    first, second = store_or_recompute.shares(nodes, known, [set(), required], lasting={0, 1, 2})
    assert set(second.loaded) == set(first.stored)
    best = None
    for flags in itertools.product([False, True], repeat=len(nodes) - 3):
        loaded = {n for n, flag in enumerate(flags, start=3) if flag}
        computed: set[int] = set()
        stack = [n for n in required if n not in loaded]
        used = {n for n in required if n in loaded}
        while stack:
            n = stack.pop()
            computed.add(n)
            for operand in nodes[n][1:] if nodes[n][0] != "input" else ():
                (used.add if operand in loaded else stack.append)(operand)
        if best is None or cost(nodes, computed, used) < best:
            best = cost(nodes, computed, used)
    assert cost(nodes, set(second.computed), set(second.loaded)) == best


@given(trees(max_size=30))
def test_slots_hold_what_is_waited_for(parents: tuple[int, ...]) -> None:
    out, into = outward_slots(np.array(parents)), inward_slots(np.array(parents))
    slots: dict[int, Any] = {0: -1}
    for k, parent in enumerate(parents):
        assert slots[int(out.parent[k])] == parent
        slots[int(out.own[k])] = k
    sums: dict[int, list[int]] = {0: []}
    for k in reversed(range(len(parents))):
        children = [j for j in range(len(parents)) if parents[j] == k]
        assert sorted(sums[int(into.received[k])]) == children
        sums[int(into.sent[k])] = [*sums[int(into.before[k])], k]
        assert into.sent[k] != 0


def test_a_chain_of_any_length_needs_one_slot() -> None:
    parents = np.arange(-1, 999)
    assert outward_slots(parents).slots == 1
    assert inward_slots(parents).slots == 2


# --- the recorder beyond rigid bodies ---------------------------------------------------------------------------------


@given(st.integers(1, 12), seeds)
def test_any_scalar_recursion_can_be_looped(n: int, seed: int) -> None:
    """A weighted depth, a weighted size of the subtree, and a sum over all bodies, by hand-made steps."""
    parents = make_parents(n, seed)
    weights = [float(k % 4) for k in range(n)]

    def depth(parent: Any, w: Any) -> tuple[Any, Any]:
        return parent + w, parent * 2

    def size(children: Any, w: Any, d: Any) -> tuple[Any, Any]:
        return children + w + d, children - d

    def run(sweep: Any, field: Any) -> tuple[Any, Any]:
        kept = sweep.gather(size, 1, field, sweep.scatter(depth, 3, field))
        return kept, sweep.total(lambda k, w: k * w, 10, kept, field)

    kept, total = run(Unrolled(parents), weights)
    sweep = Looped(parents, [weights])
    looped_kept, looped_total = run(sweep, *sweep.constant_fields())
    sweep.offsets["k"] = np.arange(n)
    sweep.result("kept", "k", [[x] for x in looped_kept])
    outputs = (Buffer("kept", "output", (n,)), Buffer("total", "output", ()))
    program = assemble("recursion", sweep, outputs, [(Address("total", ()), looped_total)])
    found, found_total = Interpreter(program, {}).outputs()
    assert found.tolist() == kept
    assert found_total == pytest.approx(total)


def test_what_crosses_an_edge_must_have_one_shape() -> None:
    sweep = Looped([-1, 0], [[True, False]])
    (field,) = sweep.constant_fields()
    with pytest.raises(TypeError, match="one shape for all joint types"):
        sweep.scatter(lambda parent, flag: (np.zeros(2 if flag else 3), None), 0, field)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_joint_without_inertia_is_named_by_the_status() -> None:
    model = (
        Builder("whip")
        .body("heavy", 1.0, (0, 0, 0.1), (0.1, 0.1, 0.1))
        .body("light")
        .joint("base", "revolute", "world", "heavy", axis=(1, 0, 0))
        .joint("tip", "revolute", "heavy", "light", position=(0, 0, 1), axis=(0, 1, 0))
        .build()
    )
    a, status = Interpreter(looped(model, "forward_dynamics"), inputs_of(model, "forward_dynamics", 0)).outputs()
    assert status == 2
    assert np.isnan(a).all()


def test_indexing_functions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="mass_matrix indexes single bodies"):
        looped(mechanisms.chain(3), "mass_matrix")


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("name", NAMED)
def test_functions_made_for_joints_or_a_frame(name: str, model: Model) -> None:
    """Bodies that are named share code with each other only; those of every second joint, and one that carries."""
    rng = np.random.default_rng(3)
    motion = make_motion(model, 5)
    known = {"q": motion.q, "v": motion.v, "a": motion.a, "tau": motion.tau, "given": motion.tau}
    known["wrench"] = rng.normal(size=6)
    entry = functions.find(name, model)
    words = {"joints": tuple(j.name for j in model.joints if j.kind != "weld")[::2], "frame": model.bodies[-1].name}
    names = tuple(words[word] for word in entry.names)
    inputs = {word: known[word] for word in entry.inputs}
    run = Interpreter(loop_program(entry, skeleton(model), names=names), inputs)
    expected = getattr(wt.reference(model), name)(*names)(*inputs.values())
    for found, right in zip(run.outputs(), expected if len(entry.outputs) > 1 else [expected], strict=False):
        assert_equal(found, right)


def test_what_cannot_loop_says_why_and_what_can() -> None:
    told = "has 160 moving bodies, and a function that"
    ladder = mechanisms.n_four_bar(80)
    with pytest.raises(UnsupportedError, match=r"moving bodies, and a function that grows faster .* np.linalg.cond"):
        wt.compile(ladder).block_condition_numbers(np.zeros(ladder.nq))
    model = mechanisms.chain(160)
    with pytest.raises(UnsupportedError, match=rf"{told} is a derivative .* Take differences of the function itself"):
        wt.compile(model).jvp("pivot_ratios")
    opened = wt.compile(model, parameters=["gravity"])
    with pytest.raises(UnsupportedError, match=r"leaves parameters open \(gravity\) .* Compile a model for"):
        opened.hybrid_dynamics([model.joints[3].name])(np.zeros(160), np.zeros(160), np.zeros(160), np.zeros(3))
    with pytest.raises(UnsupportedError, match=r"501 moving bodies, and a function that is written out .* up to 500"):
        wt.compile(mechanisms.chain(501)).centroidal_momentum_matrix(np.zeros(501))


@pytest.mark.slow
def test_the_cure_for_hybrid_dynamics_of_a_ladder_gives_its_numbers() -> None:
    """The forces that the message tells of give the named joints the accelerations that are asked for."""
    model = floating_ladder(52)
    dyn, joints = wt.compile(model), ("a3", "r7")
    with pytest.raises(UnsupportedError, match=r"not local, .* np\.linalg\.solve\(D\[np\.ix_\(j, j\)\]"):
        dyn.hybrid_dynamics(joints)
    rng = np.random.default_rng(2)
    q, v, tau = np.asarray(model.home.q, dtype=float), np.zeros(model.nv), rng.normal(size=model.nv)
    j = [model.v_slices[k].start for k, joint in enumerate(model.joints) if joint.name in joints]
    wanted = np.array([0.5, -0.25])
    D = dyn.forward_dynamics_derivatives(q, v, tau).dtau
    tau[j] += np.linalg.solve(D[np.ix_(j, j)], wanted - dyn.forward_dynamics(q, v, tau)[j])
    np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau)[j], wanted, atol=1e-9)


def test_a_rollout_of_a_large_system_is_refused_with_a_way_out() -> None:
    dyn = wt.compile(wt.mechanisms.chain(160))
    z = np.zeros(160)
    with pytest.raises(wt.UnsupportedError) as caught:
        dyn.rollout(z, z, np.zeros((2, 160)), 1e-3, method="implicit_midpoint")
    assert str(caught.value) == (
        "rollout: model 'chain of 160 rods' has 160 moving bodies; roll-outs by implicit_midpoint, and those whose "
        "dynamics is no loop (constraints solved as one matrix, open parameters of ladders), are unrolled, up to 150 "
        "bodies. Use rk4, or wt.simulate."
    )


def test_every_function_that_has_a_limit_is_in_the_table_of_limits() -> None:
    """docs/compiler.md: what is neither a loop nor placed by mechanisms is named there, with a reason."""
    page = (Path(__file__).parents[2] / "docs/compiler.md").read_text(encoding="utf-8")
    limits = page.partition("| refused beyond 150 bodies |")[2].partition("\n\n")[0]
    unlimited = (*MATRICES, *COMPOSED)
    limited = [name for name, entry in functions.CATALOGUE.items() if not entry.loops and name not in unlimited]
    assert not [name for name in limited if f"`{name}`" not in limits]
    first = [line.partition(" | ")[0] for line in limits.splitlines()]
    assert not [name for name in unlimited for cell in first if f"| `{name}`" in cell or f", `{name}`" in cell]
    made = page.partition("| function | made of |")[2].partition("\n\n")[0]
    assert not [name for name in COMPOSED if f"`{name}`" not in made]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"parameters": ["bodies.side rod 0.mass"]}, r"leaves parameters open \(bodies.side rod 0.mass\)"),
        ({"route": "recursion"}, r"one matrix of the whole \(route='recursion'\) .* Leave route= out"),
    ],
)
def test_rows_of_a_long_ladder_are_no_loop_over_bodies(asked: dict[str, Any], why: str) -> None:
    """Sweeps leave a matrix of all its rows, which would be written out; the elimination body by body has no inputs."""
    model = wt.mechanisms.n_four_bar(100)
    dyn, rest = wt.compile(model, **asked), np.zeros(model.nv)
    for name in ("forward_dynamics", "constraint_forces"):
        with pytest.raises(UnsupportedError, match=why):
            getattr(dyn, name)(model.home.q, rest, rest, *[1.0 for _ in asked.get("parameters", ())])
