"""Fronts of an elimination that are alike: the answers of loops and of the reference, whichever are straight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whippletree as wt
from long_mechanisms import floating_ladder, grid, ring_of_rings, truss
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend.loops import front_kinds
from whippletree.compiler.frontend.loops.element_numbers import NOT_IN_MEMORY
from whippletree.compiler.frontend.loops.elimination_program import EliminationProgram, elimination_program
from whippletree.constraints.long_systems.body_system import REPETITION
from whippletree.functions import find
from whippletree.graph.elimination import WITHOUT_CUTS
from whippletree.tree.skeleton import skeleton

BUDGETS = {"loops": 0, "some": 100, "most": 3000, "all": 10**9}


def programs(name: str, model: wt.Model, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, Any]]:
    """The kinds of fronts, and the function, with more and more code for them."""
    monkeypatch.setattr(front_kinds, "WORTHWHILE_SHARE", 0.0)
    found = {}
    for word, most in BUDGETS.items():
        monkeypatch.setattr(front_kinds, "MOST_OPERATIONS", most)
        writer = EliminationProgram(find(name, model), skeleton(model))
        found[word] = compile_function(writer.write()), writer.fronts.kinds
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forward_dynamics", "project_velocity", "closing_step", "constraint_forces"])
@pytest.mark.parametrize(
    "model",
    [wt.mechanisms.n_four_bar(6), floating_ladder(4), truss(4), ring_of_rings(3), grid(3, 3)],
    ids=["ladder", "afloat", "truss", "rings", "grid"],
)
def test_straight_fronts_have_the_answers_of_loops(name, model, monkeypatch):
    rng = np.random.default_rng(2)
    q = model.home.q + (1e-3 * rng.normal(size=model.nq) if name == "closing_step" else 0.0)
    v, tau = rng.normal(size=(2, model.nv))
    given = {"forward_dynamics": (q, v, tau), "constraint_forces": (q, v, tau), "project_velocity": (q, v)}
    arguments = given.get(name, (q,))
    found = programs(name, model, monkeypatch)
    # rows of an open loop may be written in more ways than one
    expected = found["loops"][0](q) if name == "closing_step" else getattr(wt.reference(model), name)(*arguments)
    for word, (function, kinds) in found.items():
        counts = {"loops": not any(kinds.of), "some": 0 < sum(map(bool, kinds.of)) < len(kinds.of)}
        assert counts.get(word, True)
        bound = 1e-9 * np.abs(expected).max()
        np.testing.assert_allclose(function(*arguments), expected, rtol=1e-8, atol=bound, err_msg=word)
    assert all(kinds.of)


def test_a_grid_is_left_to_loops():
    model = grid(8, 8)
    writer = EliminationProgram(find("forward_dynamics", model), skeleton(model))
    writer.write()
    assert not any(writer.fronts.kinds.of)
    assert all(writer.fronts.kinds.cleared)


def test_a_ladder_has_few_kinds_whatever_its_length():
    kinds = []
    for cells in (30, 60):
        model = wt.mechanisms.n_four_bar(cells)
        writer = EliminationProgram(find("forward_dynamics", model), skeleton(model))
        program = writer.write()
        assert all(writer.fronts.kinds.of)
        assert not any(writer.fronts.kinds.cleared)
        kinds.append((set(writer.fronts.kinds.kinds), program))
    assert len(kinds[1][0]) <= 12
    assert kinds[0][0] == kinds[1][0]


def test_an_order_that_repeats_itself_makes_a_grid_straight():
    model = grid(6, 6)
    function, tree = find("forward_dynamics", model), skeleton(model)
    cheapest = EliminationProgram(function, tree)
    cheapest.write()
    assert not cheapest.fronts.kinds.complete
    repeating = cheapest.un.in_repeating_order()
    without_cuts = min(way.cost for way in cheapest.un._ways[:WITHOUT_CUTS])
    assert cheapest.un.cost < without_cuts <= repeating.cost <= REPETITION * without_cuts
    writer = EliminationProgram(function, tree, repeating)
    assert writer.write().body == elimination_program(function, tree).body
    assert writer.fronts.kinds.complete
    assert len(writer.fronts.kinds.kinds) < len(model.bodies) / 2
    q, v, tau = model.home.q, np.linspace(-1.0, 1.0, model.nv), np.linspace(2.0, -3.0, model.nv)
    expected = wt.reference(model, route="elimination").forward_dynamics(q, v, tau)
    np.testing.assert_allclose(
        wt.compile(model).forward_dynamics(q, v, tau), expected, rtol=0, atol=1e-9 * np.abs(expected).max()
    )


def test_elements_keep_each_number_once():
    """Of a planar hinge a state decides a sine, a cosine, loads and biases: entries are these, known numbers, and
    negatives."""
    model = wt.mechanisms.n_four_bar(30)
    writer = EliminationProgram(find("forward_dynamics", model), skeleton(model))
    writer.write()
    for numbers in (*writer.node_values, *writer.closure_values):
        shares = [share for entry in (numbers.K, numbers.B, numbers.load, numbers.bias) for *_, share in entry]
        assert {share.place for share in shares if share.place != NOT_IN_MEMORY} == set(range(numbers.size))
        assert all(share.factor in (1.0, -1.0) for share in shares if share.place != NOT_IN_MEMORY)
        assert numbers.size <= 10
