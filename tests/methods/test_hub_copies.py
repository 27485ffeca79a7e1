"""Bodies that many loops share, as rows of copies: the same answers, at a cost that grows with the legs."""

import numpy as np
import pytest

import whippletree as wt
from long_mechanisms import legs_on_a_crank, slider_crank_bank
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.body_system import unknowns_of
from whippletree.constraints.long_systems.hub_copies import NO_COPIES, find_hub_copies


def state(model, seed=0):
    rng = np.random.default_rng(seed)
    q = np.asarray(model.home.q, dtype=float)
    v = wt.reference(model, route="nullspace").project_velocity(q, rng.normal(size=model.nv))
    return q, np.asarray(v), rng.normal(size=model.nv)


def test_a_star_of_loops_becomes_a_ladder():
    """Body 0 with thirteen legs of two bodies, each closed to the world, and a body that only hangs on it."""
    joints = [edge for k in range(13) for edge in ((1 + 2 * k, 0), (2 + 2 * k, 1 + 2 * k))] + [(27, 0)]
    copies = find_hub_copies(joints, [(2 + 2 * k,) for k in range(13)], 28, 4)
    assert copies.hubs == (0, 0, 0, 0)
    assert copies.above == (0, 28, 29, 30)
    assert [copies.seat(0, [1 + 2 * k]) for k in range(13)] == [28] * 4 + [29] * 4 + [30] * 4 + [31]
    assert copies.seat(0, [27]) == 0
    assert find_hub_copies(joints, [(2,), (4,), (6,)], 28, 4) is NO_COPIES


@pytest.mark.parametrize("make", [slider_crank_bank, legs_on_a_crank])
def test_operations_grow_with_the_legs(make):
    """Without copies twice the legs take six to eight times the operations."""
    found = [unknowns_of(constraint_set(make(legs))) for legs in (35, 70)]
    assert all(unknowns.copies.hubs for unknowns in found)
    assert found[1].operations < 2.2 * found[0].operations


@pytest.mark.parametrize("upright", [None, 2])
def test_a_bank_of_slider_cranks_is_its_block_matrix(upright):
    """Also where a leg has reached its limit and holds the shaft: its own rows depend on each other for a still one."""
    model = slider_crank_bank(25, upright)
    q, v, tau = state(model)
    assert unknowns_of(constraint_set(model)).copies.hubs
    expected = wt.reference(model, route="nullspace").forward_dynamics(q, v, tau)
    for make in (wt.reference, wt.compile):
        dynamics = make(model, route="elimination", watch="never")
        found = dynamics.forward_dynamics(q, v, tau)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
        M, c = (np.asarray(x, float) for x in (dynamics.mass_matrix(q), dynamics.bias(q, v)))
        carried = np.asarray(dynamics.constraint_jacobian(q), float).T @ dynamics.constraint_forces(q, v, tau)
        np.testing.assert_allclose(M @ found + c, tau + carried, rtol=0, atol=1e-9 * np.abs(carried).max())


@pytest.mark.slow
def test_two_hubs_share_their_legs():
    model = legs_on_a_crank(34)
    q, v, tau = state(model, 1)
    unknowns = unknowns_of(constraint_set(model))
    assert {unknowns.hub_of(tie.copy) for tie in unknowns.ties} == {0, 1}
    expected = wt.reference(model, route="nullspace").forward_dynamics(q, v, tau)
    for make in (wt.reference, wt.compile):
        dynamics = make(model, route="elimination", watch="never")
        found = dynamics.forward_dynamics(q, v, tau)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
        np.testing.assert_allclose(dynamics.project_velocity(q, v), v, rtol=0, atol=1e-10 * np.abs(v).max())


@pytest.mark.slow
def test_the_structure_of_a_long_bank_is_found_with_copies():
    """A slider across a plane has three rows too many; the shaft's turn is the only freedom."""
    structure = constraint_set(slider_crank_bank(105)).structure
    assert len(structure.redundant) == 3 * 105
    assert structure.mobility == 1
