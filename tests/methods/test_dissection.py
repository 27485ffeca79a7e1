"""Nested dissection through edges: what a cut parts, what it saves, and the answers of mechanisms that are cut."""

from dataclasses import replace
from functools import cached_property

import mpmath
import numpy as np
import pytest

import whippletree as wt
from long_mechanisms import floating_ladder, grid, ring_of_rings, slider_crank_bank, truss
from strategies import make_looped_model
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.body_system import Unknowns, unknowns_of
from whippletree.constraints.long_systems.following_bodies import WORLD, Closing, following_bodies
from whippletree.graph.dissection import NOT_CUT, SMALLEST_PART, dissect
from whippletree.graph.elimination import elimination_cost


def drawn_graph(seed):
    """Edges of one to four nodes; in some graphs nodes that no edge holds, and several pieces."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 60))
    edges = [rng.integers(0, count, size=int(rng.integers(1, 5))).tolist() for _ in range(int(rng.integers(0, 90)))]
    return [list(dict.fromkeys(edge)) for edge in edges], count


@pytest.mark.parametrize("seed", range(30))
def test_what_is_eliminated_between_cuts_meets_nothing_but_rows_that_wait(seed):
    """No edge but one that waits for a later cut joins what is gone, part by part, to what is not."""
    edges, count = drawn_graph(seed)
    order, cuts = dissect(edges, count)
    assert sorted(k for k in order if k < count) == list(range(count))
    assert sorted(order) == list(range(len(order)))
    place = {k: i for i, k in enumerate(order)}
    for edge, cut in zip(edges, cuts, strict=True):
        if cut != NOT_CUT:
            assert place[cut] > max(place[k] for k in edge)
    # nodes without a cut between them are a part, or pieces of the graph: parts are small
    runs = np.split(np.array(order), [i for k, i in place.items() if k >= count])
    for edge, cut in zip(edges, cuts, strict=True):
        holding = [r for r, run in enumerate(runs) if {*edge} & {*run.tolist()}]
        if cut == NOT_CUT and holding:
            assert len(holding) == 1


@pytest.mark.parametrize("seed", range(30))
def test_parts_are_small(seed):
    """Nodes that edges join which no cut parts are no more than a part may have."""
    edges, count = drawn_graph(seed)
    _, cuts = dissect(edges, count)
    first = list(range(count))
    for edge, cut in zip(edges, cuts, strict=True):
        if cut == NOT_CUT and edge:
            names = {first[k] for k in edge}
            first = [min(names) if name in names else name for name in first]
    assert max(np.bincount(first)) <= SMALLEST_PART


def cost_of_grid(n):
    """Cost for each rod of the cheapest order, and of the cheapest without cuts."""
    unknowns = unknowns_of(constraint_set(grid(n, n)))
    *plain, cut = unknowns._ways
    assert unknowns._way is cut
    return cut.cost, min(way.cost for way in plain)


def test_grids_cost_what_theory_says():
    """N^1.5, which small grids are below: their sides have fewer neighbours."""
    few, many = (cost_of_grid(n) for n in (6, 12))
    rods = 300 / 78
    assert many[0] < rods**1.5 * few[0]
    assert many[1] > rods**1.8 * few[1]
    assert many[0] < 0.5 * many[1]


def test_an_edge_that_waits_for_a_cut_costs_more_than_one_that_does_not():
    edges = [(0, 1), (1, 2), (2, 3)]
    at_once = elimination_cost([0, 1, 2, 3], edges, apart=True)
    assert elimination_cost([0, 1, 4, 2, 3], edges, apart=True, cuts=1) == at_once
    assert elimination_cost([0, 1, 2, 3, 4], edges, [4, 4, 4], apart=True, cuts=1) > at_once


def test_cut_joints_hold_nothing():
    """Two arms on the world whose tips are pinned; the elbow of the first is cut, and so is the pin."""
    parents, pin = [WORLD, 0, WORLD, 2], [Closing((1, 3), 2, cut=5)]
    found = following_bodies([0, 1, 4, 3, 2, 5], parents, [5] * 4, pin, 0, {1: 4})
    assert found.ends == [5]
    assert found.follows == [True, False, True, True]
    # a joint that waits for its parent only: the parent is eliminated last
    found = following_bodies([1, 3, 2, 0], parents, [5] * 4, [Closing((1, 3), 2)], 0, {1: NOT_CUT})
    assert found.follows == [True, False, True, True]
    assert found.ends == [3]


@pytest.fixture
def cut_always(monkeypatch):
    """Mechanisms are cut wherever rows alone couple their bodies, whatever that costs."""

    def ways(self):
        return [self._cut_way()] if self._apart else whole.func(self)

    whole = Unknowns.__dict__["_ways"]
    found = cached_property(ways)
    found.__set_name__(Unknowns, "_ways")
    monkeypatch.setattr(Unknowns, "_ways", found)
    monkeypatch.setenv("WHIPPLETREE_CACHE", "off")  # others must not meet programs that only these tests write


CASES = {
    "ladder": lambda: wt.mechanisms.n_four_bar(6),
    "floating ladder": lambda: floating_ladder(5),
    "thin rods afloat": lambda: floating_ladder(4, "free", "hinge"),
    "grid": lambda: grid(4, 3),
    "truss": lambda: truss(5),
    "rings": lambda: ring_of_rings(4),
    "slider-cranks": lambda: slider_crank_bank(9),
    "cells": lambda: wt.mechanisms.four_bar_chain(4),
}


def is_cut(model):
    unknowns = unknowns_of(constraint_set(model))
    return len(unknowns._way.order) > len(unknowns.parents)


def errors_by_elimination(model, q, v, tau):
    """Of the reference and of machine code, in units of what rounding may do, against the block matrix."""
    block, kappa = wt.reference(model, route="block"), wt.diagnose(model, q).condition
    for route in (wt.reference(model, route="elimination"), wt.compile(model, route="elimination")):
        for name in ("forward_dynamics", "constraint_forces"):
            expected, found = (getattr(of, name)(q, v, tau) for of in (block, route))
            yield np.abs(found - expected).max() / max(1.0, np.abs(expected).max()) / max(kappa, 10)
        expected, found = (of.velocity_step(q, v + 0.1, tau, 0.02)[0] for of in (block, route))
        yield np.abs(found - expected).max() / max(1.0, np.abs(expected).max()) / max(kappa, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_mechanisms_that_are_cut_move_as_the_block_matrix_says(name, cut_always):
    model, rng = CASES[name](), np.random.default_rng(5)
    q, tau = np.asarray(model.home.q, dtype=float), rng.normal(size=model.nv)
    v = wt.reference(model, route="augmented").project_velocity(q, 0.3 * rng.normal(size=model.nv))
    assert is_cut(model)
    assert max(errors_by_elimination(model, q, v, tau)) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_mechanisms_that_are_cut(seed, cut_always):
    model, motion = make_looped_model(seed, massless=False)
    rigid = tuple(c for c in model.constraints if not c.parameters.get("compliance"))
    model = replace(model, constraints=rigid)
    v = wt.reference(model, route="nullspace").project_velocity(motion.q, motion.v)
    assert is_cut(model)
    assert max(errors_by_elimination(model, motion.q, v, motion.tau)) < 1e-13


@pytest.mark.slow
def test_a_grid_that_is_cut_has_the_digits_of_fifty():
    model, rng = grid(5, 4), np.random.default_rng(6)
    q, v, tau = np.asarray(model.home.q, dtype=float), np.zeros(model.nv), rng.normal(size=model.nv)
    with mpmath.workdps(50):
        numbers = [np.array([mpmath.mpf(x) for x in part], dtype=object) for part in (q, v, tau)]
        exact = wt.reference(model, route="schur").forward_dynamics(*numbers).astype(float)
    assert is_cut(model)
    for route in (wt.reference(model, route="elimination"), wt.compile(model, route="elimination")):
        found = route.forward_dynamics(q, v, tau)
        assert np.abs(found - exact).max() < 1e-13 * np.abs(exact).max()
