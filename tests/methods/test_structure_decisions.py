"""How the structure of constraints is found: what is looked at how often, which velocities are free, exact pivots."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints import redundancy
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.front_elimination import Fronts, _alike
from whippletree.constraints.long_systems.node_rows import LongRows, sight_nodes
from whippletree.constraints.redundancy import free_velocities, is_long
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.tree.mechanism import Mechanism


def constraints(*, nv=LONG_SYSTEM + 1, on="frames", kind="weld", switches=(), flexible=False):
    demand = SimpleNamespace(demand=SimpleNamespace(on=on), constraint=SimpleNamespace(kind=kind))
    return SimpleNamespace(
        model=SimpleNamespace(nv=nv, is_flexible=flexible), demands=[demand, demand], switches=switches
    )


@pytest.mark.parametrize(
    ("case", "long"),
    [
        ({}, True),
        ({"on": "joints", "kind": "gear"}, True),
        ({"on": "coordinates", "kind": "hold"}, True),
        ({"on": "coordinates", "kind": "custom"}, False),
        ({"nv": LONG_SYSTEM}, False),
        ({"switches": ("grip",)}, False),
        ({"flexible": True}, False),
    ],
)
def test_no_dense_matrix_is_formed_of_what_elimination_can_do(case, long):
    assert is_long(constraints(**case)) is long


def test_short_systems_are_looked_at_in_three_configurations_unless_one_is_enough(monkeypatch):
    """Where no row depends on others at the first; a spatial hinge that closes a planar loop has three that do."""
    counts = []

    def explore(system, count, is_enough):
        explored = found(system, count, is_enough)
        counts.append(len(explored.configurations))
        return explored

    found = redundancy.explore
    monkeypatch.setattr(redundancy, "explore", explore)
    model = wt.mechanisms.four_bar()
    redundancy.find_structure(constraint_set(model))
    hinge = tuple(replace(c, kind="hinge", parameters={}) for c in model.constraints)
    redundancy.find_structure(constraint_set(replace(model, constraints=hinge)))
    assert counts == [1, 3]


def test_free_velocities_determine_all_others_gently():
    """Of velocities that go together one is chosen; the rest of the freedom is elsewhere."""
    together = np.array([[0.7, 0.7, 0.1, 0, 0], [0, 0, 0.57, 0.57, 0.57]])
    A = np.linalg.svd(together)[2][2:]
    chosen = free_velocities(A, 5)
    assert sum(k < 2 for k in chosen) == 1
    rng = np.random.default_rng(0)
    for _ in range(20):
        A = rng.normal(size=(int(rng.integers(1, 6)), 6))
        chosen = free_velocities(A, 6)
        rest = [k for k in range(6) if k not in chosen]
        assert len(chosen) == 6 - len(A)
        assert np.abs(np.linalg.solve(A[:, rest], A[:, chosen])).max() < 10


def test_integers_among_fractions_become_fractions():
    """The reciprocal of a plain integer would be a float."""
    found = _alike(np.array([2, Fraction(1, 3), 0.5], dtype=object))
    assert found.tolist() == [2, Fraction(1, 3), Fraction(1, 2)]
    assert all(isinstance(x, Fraction) for x in found)
    plain = np.array([2, 0.5], dtype=object)
    assert _alike(plain) is plain


def test_margins_fall_by_the_share_of_each_pivots_size():
    plan = SimpleNamespace(judged=np.array([0, 2]), rows=np.array([False, False, True]))
    factor = SimpleNamespace(plan=plan, pivots=np.array([3.0, 0.0, -2.0]), sizes=np.array([4.0, 0.0, 5.0]))
    assert Fronts.margins(factor, 0.25) == [("mass", 3.0 - 1.0), ("rows", 2.0 - 1.25)]


@pytest.mark.parametrize("make", [wt.mechanisms.four_bar, wt.mechanisms.rolling_disc, wt.mechanisms.gear_train])
def test_rows_seen_from_their_nodes_have_the_residuals_of_the_whole(make):
    """Position rows have one, rows of velocities have none."""
    model = make()
    q = np.asarray(model.home.q, dtype=float) + 0.01
    m, system = Mechanism.of(model), constraint_set(model)
    found = LongRows(m, system, sight_nodes(m, m.still(q)), q, None, 0.0).residual()
    np.testing.assert_allclose(found.astype(float), wt.reference(model).constraint_residual(q), atol=1e-14)


@pytest.mark.parametrize("route", ["augmented", "elimination"])
def test_a_soft_row_that_is_off_is_as_if_it_had_never_been(route):
    model = wt.mechanisms.four_bar()
    pin = model.constraints[0]
    soft = {**pin.parameters, "compliance": 0.2}
    state = model.home.q, np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, 3.0])
    switchable = wt.reference(
        replace(model, constraints=(replace(pin, parameters=soft | {"switchable": True}),)), route=route
    )
    tied = wt.reference(replace(model, constraints=(replace(pin, parameters=soft),)), route=route)
    np.testing.assert_allclose(
        switchable.forward_dynamics(*state, [0.0]), wt.reference(model.tree).forward_dynamics(*state), atol=1e-12
    )
    np.testing.assert_allclose(switchable.forward_dynamics(*state, [1.0]), tied.forward_dynamics(*state), atol=1e-12)
