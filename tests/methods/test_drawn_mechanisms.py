"""Machines drawn by hand through every route, in the reference and in machine code, against fifty digits."""

import mpmath
import numpy as np
import pytest

import whippletree as wt
from drawn_mechanisms import MACHINES
from long_mechanisms import grid
from whippletree.compiler.frontend.loops.elimination_program import elimination_program
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.constraints.route_choice import COMPILED_ROUTES, ROUTES
from whippletree.functions import find
from whippletree.functions.reference import reference
from whippletree.model.parameters import with_scalars
from whippletree.tree.skeleton import skeleton

DIGITS = 50

REGULAR = 1e-12
"""Relative error of accelerations at a regular configuration: seven digits of condition would not be seen."""

NEARLY_SINGULAR = 1e-9
"""Number for a lift that is half a degree above flat, where rows are within 3e-3 of depending on each other."""

NAMES = [name if name == "pantograph" else pytest.param(name, marks=pytest.mark.slow) for name in MACHINES]


def state_at(model, q, seed):
    """A motion at a configuration, and joint forces."""
    rng = np.random.default_rng(seed)
    v = np.asarray(wt.reference(model).project_velocity(q, rng.normal(size=model.nv)))
    return q, v, rng.normal(size=model.nv)


def truth(model, state, route):
    """Accelerations to fifty digits."""
    with mpmath.workdps(DIGITS):
        exact = [np.array([mpmath.mpf(float(x)) for x in part], dtype=object) for part in state]
        found = reference(with_scalars(model, mpmath.mpf), route=route).forward_dynamics(*exact)
        return np.array([float(x) for x in found])


# where a mechanism is drawn on a dead point, rows allow velocities that no motion has: all routes say so, and agree
@pytest.mark.filterwarnings("ignore:model .* is on a dead point, and its velocity points along none:RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_every_route_against_fifty_digits(name):
    machine = MACHINES[name]()
    for q, limit in ((machine.regular, REGULAR), (machine.special, NEARLY_SINGULAR)):
        state = state_at(machine.model, q, 3)
        rank = np.linalg.matrix_rank(np.asarray(wt.reference(machine.model).constraint_jacobian(q), float), tol=1e-9)
        rows = len(wt.reference(machine.model).constraint_bias(*state[:2]))
        right = truth(machine.model, state, "block" if rank == rows else "nullspace")
        for make, routes in ((wt.reference, ROUTES), (wt.compile, COMPILED_ROUTES)):
            for route in routes:
                a = make(machine.model, route=route, watch="never").forward_dynamics(*state)
                error = np.linalg.norm(a - right) / np.linalg.norm(right)
                assert error < limit, (make.__name__, route, error)


@pytest.mark.parametrize("name", NAMES)
def test_accelerations_of_motors_are_met(name):
    """The forces that hybrid dynamics finds cause the accelerations that it was given, by forward dynamics."""
    machine = MACHINES[name]()
    model = machine.model
    q, v, given = state_at(model, machine.regular, 5)
    for functions in (wt.reference(model), wt.compile(model)):
        a, tau = functions.hybrid_dynamics(machine.motors)(q, v, given)
        own = np.concatenate([np.arange(model.nv)[model.slice(joint)] for joint in machine.motors])
        np.testing.assert_allclose(a[own], given[own], rtol=1e-12)
        others = np.setdiff1d(np.arange(model.nv), own)
        np.testing.assert_allclose(tau[others], given[others], rtol=1e-12)
        np.testing.assert_allclose(functions.forward_dynamics(q, v, tau), a, rtol=1e-9, atol=1e-9 * np.abs(a).max())


@pytest.mark.parametrize("name", NAMES)
def test_inertia_felt_at_chosen_rows(name):
    """J M† Jᵀ of rows of several frames, and its inverse."""
    machine = MACHINES[name]()
    q, ref = machine.regular, wt.reference(machine.model)
    J = np.concatenate([_row(ref, row, q) for row in machine.task])
    expected = J @ np.asarray(ref.dagger(q)[0], float) @ J.T
    for functions in (ref, wt.compile(machine.model)):
        found = functions.operational_inertia_inverse(machine.task)(q)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
        felt = functions.operational_inertia(machine.task)(q)
        np.testing.assert_allclose(felt @ expected, np.eye(len(J)), rtol=1e-8, atol=1e-8)


def _row(ref, task, q):
    frame, _, row = task.partition(".")
    number = ("rx", "ry", "rz", "x", "y", "z").index(row)
    return np.asarray(ref.jacobian(frame)(q), float)[number : number + 1]


def test_rows_of_a_point_cost_little():
    """Closures at a point follow the point: 1096 operations for a platform when rotations were differentiated."""
    model = wt.mechanisms.stewart_platform()
    (block,) = unrolled_program(model, find("constraint_bias", model)).body
    assert block.code.operations < 700


def test_boundaries_of_fronts_share_memory():
    """Of a grid little more is stored than the rows of pivots."""
    model = grid(9, 9)
    program = elimination_program(find("forward_dynamics", model), skeleton(model))
    plan_rows = program.buffer("front rows").data
    assert program.buffer("front").shape[0] < 11_000  # 21 500 chunks where every front had its own
    assert plan_rows.max() < program.buffer("front").shape[0]
