"""Designs: any stretch of a sweep's values follows from its numbers alone."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from whippletree.campaigns.design import BLOCK, design_of
from whippletree.campaigns.sweep_report import pareto_front, sobol_indices

NORMAL = {"a": stats.norm(2.0, 0.5), "b": stats.uniform(-1, 3), "c": [1, 2, 5]}


def test_a_grid_is_every_combination_the_last_fastest():
    design = design_of({"a": [1, 2], "b": [10, 20, 30]}, None, None, 0)
    values = design.values(0, design.runs)
    assert design.shape == (2, 3)
    assert list(zip(values["a"], values["b"])) == [(1, 10), (1, 20), (1, 30), (2, 10), (2, 20), (2, 30)]


@given(
    kind=st.sampled_from(["random", "sobol", "latin_hypercube", "saltelli"]),
    cuts=st.lists(st.integers(1, 2 * BLOCK - 1), min_size=1, max_size=4),
)
def test_stretches_do_not_depend_on_how_a_design_is_cut(kind, cuts):
    design = design_of(NORMAL, kind, 2 * BLOCK, 7)
    whole = design.values(0, design.runs)
    ends = [0, *sorted(set(cuts)), design.runs]
    for first, last in itertools.pairwise(ends):
        part = design.values(first, last)
        assert all(part[path] == whole[path][first:last] for path in whole)


@pytest.mark.parametrize("kind", ["random", "sobol", "latin_hypercube"])
def test_draws_have_the_moments_of_their_distributions(kind):
    values = design_of(NORMAL, kind, 20_000, 3).values(0, 20_000)
    assert np.mean(values["a"]) == pytest.approx(2.0, abs=0.02)
    assert np.std(values["a"]) == pytest.approx(0.5, abs=0.02)
    assert np.mean(values["b"]) == pytest.approx(0.5, abs=0.03)
    assert {x: values["c"].count(x) for x in (1, 2, 5)} == pytest.approx(dict.fromkeys((1, 2, 5), 20_000 / 3), rel=0.05)


def test_a_latin_hypercube_meets_every_share_once():
    runs = 500
    values = np.array(design_of({"u": stats.uniform()}, "latin_hypercube", runs, 0).values(0, runs)["u"])
    assert sorted((values * runs).astype(int).tolist()) == list(range(runs))


def test_sobol_indices_of_a_function_with_known_ones():
    """y = x₁ + 2 x₂ + x₁ x₃ of independent standard normals: variances 1, 4 and 1 for the product."""
    names = ("a", "b", "c")
    design = design_of({name: stats.norm() for name in names}, "saltelli", 5 * 2**13, 0)
    x = design.values(0, design.runs)
    a, b, c = (np.array(x[name]) for name in names)
    first, total = sobol_indices(a + 2 * b + a * c, 3)
    np.testing.assert_allclose(first, [1 / 6, 4 / 6, 0], atol=0.02)
    np.testing.assert_allclose(total, [2 / 6, 4 / 6, 1 / 6], atol=0.02)


def test_the_front_holds_what_no_other_point_beats():
    random = np.random.default_rng(0)
    x, y = random.random(200), random.random(200)
    better = (x[None] <= x[:, None]) & (y[None] <= y[:, None]) & ((x[None] < x[:, None]) | (y[None] < y[:, None]))
    assert set(pareto_front(x, y).tolist()) == set(np.flatnonzero(~better.any(axis=1)).tolist())


@pytest.mark.parametrize(
    ("parameters", "options", "said"),
    [
        ({}, {}, "expected values by path"),
        ({"a": []}, {}, "empty list"),
        ({"a": [1, 2], "b": [1]}, {"kind": "zip"}, "lists of one length, got a: 2, b: 1"),
        ({"a": stats.norm()}, {}, "needs runs="),
        ({"a": stats.norm()}, {"kind": "grid"}, "drawn from a distribution"),
        ({"a": [1]}, {"runs": 5}, "for designs that are drawn"),
        ({"a": [1]}, {"kind": "gird"}, "Did you mean 'grid'?"),
    ],
)
def test_a_design_that_makes_no_sense_is_refused(parameters, options, said):
    with pytest.raises((ValueError, LookupError), match=said.replace("?", r"\?")):
        design_of(parameters, options.get("kind"), options.get("runs"), 0)
