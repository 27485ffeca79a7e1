"""Robots in contact: constrained dynamics, contact forces and their derivatives against Pinocchio."""

from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers import tied_feet

import whippletree as wt
from whippletree.model import Constraint, Frame

pin = pytest.importorskip("pinocchio")
ROBOTS = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))

CASES = {
    "G1 on two feet": (
        "g1_description/urdf/g1_29dof_rev_1_0.urdf",
        ("left_ankle_roll_link", "right_ankle_roll_link"),
        "weld",
    ),
    "solo12 on four points": (
        "solo_description/robots/solo12.urdf",
        ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"),
        "point",
    ),
}


def in_contact(path, feet, kind, q):
    tree = wt.load(path, base="free").tree
    ref = wt.reference(tree)
    frames = [Frame(f"ground {foot}", "world", ref.pose(foot)(q)) for foot in feet]
    ties = [Constraint(f"contact {foot}", kind, (f"ground {foot}", foot)) for foot in feet]
    return replace(tree, frames=(*tree.frames, *frames), constraints=tuple(ties))


def configuration(path, seed):
    """Pinocchio's model, and a random standing configuration in both conventions."""
    peer = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    rng = np.random.default_rng(seed)
    q = pin.neutral(peer)
    q[7:] = rng.uniform(-0.5, 0.5, peer.nq - 7)
    q[3:7] = rng.normal(size=4)
    q[3:7] /= np.linalg.norm(q[3:7])
    ours = q.copy()
    ours[3:7] = q[[6, 3, 4, 5]]
    return peer, q, ours


def swapped(v):
    """Angular first and linear first, of the floating base."""
    return np.concatenate([v[3:6], v[:3], v[6:]])


def peers_answer(peer, q, v, tau, feet, kind):
    return peers_solution(peer, q, v, tau, feet, kind)[0]


def peers_solution(peer, q, v, tau, feet, kind):
    """Accelerations, and Pinocchio's data after it has found their derivatives."""
    data = peer.createData()
    contacts, memory = tied_feet(peer, feet, kind)
    pin.initConstraintDynamics(peer, data, contacts, memory)
    a = np.array(pin.constraintDynamics(peer, data, q, v, tau, contacts, memory))
    pin.computeConstraintDynamicsDerivatives(peer, data, contacts, memory)
    return a, data


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_robots_in_contact(case):
    file, feet, kind = CASES[case]
    path = ROBOTS / file
    peer, q_peer, q = configuration(path, 1)
    model = in_contact(path, feet, kind, q)
    ref, dyn = wt.reference(model), wt.compile(model)
    assert [j.name for j in model.joints if j.kind in ("revolute", "prismatic")] == list(peer.names)[2:]
    rng = np.random.default_rng(2)
    # a foot that slides would be judged by other axes: the two agree on velocities that the contacts allow
    v, tau = ref.project_velocity(q, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    expected = swapped(peers_answer(peer, q_peer, swapped(v), swapped(tau), feet, kind))
    found = dyn.forward_dynamics(q, v, tau)
    scale = 1 + np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=1e-8 * scale)
    np.testing.assert_allclose(ref.forward_dynamics(q, v, tau), found, atol=1e-9 * scale)


@pytest.mark.parametrize("case", CASES)
def test_derivatives_in_contact(case):
    """∂a by q, v and τ, and ∂f by v and τ.

    Pinocchio's contact forces are in the axes of the feet, ours in those of the ground: the same numbers here, but they
    change differently when a foot turns.
    """
    file, feet, kind = CASES[case]
    path = ROBOTS / file
    peer, q_peer, q = configuration(path, 1)
    model = in_contact(path, feet, kind, q)
    ref = wt.reference(model)
    rng = np.random.default_rng(2)
    v, tau = ref.project_velocity(q, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    _, data = peers_solution(peer, q_peer, swapped(v), swapped(tau), feet, kind)
    swap = np.array([swapped(e) for e in np.eye(model.nv)])
    found = ref.forward_dynamics_derivatives(q, v, tau)
    for ours, theirs in zip(found, (data.ddq_dq, data.ddq_dv, data.ddq_dtau), strict=True):
        expected = swap.T @ theirs @ swap
        np.testing.assert_allclose(ours, expected, atol=1e-8 * (1 + np.abs(expected).max()))
    found = ref.constraint_forces_derivatives(q, v, tau)
    for ours, theirs in zip(found[1:], (data.dlambda_dv, data.dlambda_dtau), strict=True):
        expected = theirs @ swap
        if kind == "weld":  # moments first, here
            expected = expected.reshape(len(feet), 2, 3, -1)[:, ::-1].reshape(ours.shape)
        np.testing.assert_allclose(ours, expected, atol=1e-8 * (1 + np.abs(expected).max()))
