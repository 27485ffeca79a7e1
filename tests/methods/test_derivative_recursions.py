"""Derivatives of inverse and forward dynamics by recursion: against complex steps through the dynamics themselves,
differences in sixty digits, and Pinocchio; and what they cost."""

import importlib.metadata
from pathlib import Path
from random import Random

import mpmath
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given

import whippletree as wt
from methods.closeness import close
from peers.conversion import Pinocchio
from strategies import MOVING_KINDS, digits, make_model, make_motion, motions, rationals
from whippletree.arithmetic.arrays import zeros
from whippletree.arithmetic.trace import Trace, finish
from whippletree.model.builder import Builder
from whippletree.tree import forward, inverse
from whippletree.tree.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives
from whippletree.tree.links import add_wrenches
from whippletree.tree.mechanism import Mechanism

STEP = 1e-30
"""Of the imaginary parts: its square is nothing beside 1."""

FILES = {
    Path(str(file)).stem: Path(str(file.locate()))
    for file in importlib.metadata.files("example-robot-data") or ()
    if file.name.endswith(".urdf")
}
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*transmissions that are not simple or differential:whippletree.errors.LeftOutWarning"
)
"""Of Talos."""

ROBOTS = {"ur5_robot": "fixed", "panda": "fixed", "solo12": "free", "talos_reduced": "free", "g1_29dof_rev_1_0": "free"}


def objects(*arrays):
    return [np.asarray(x).astype(object) for x in arrays]


def inverse_dynamics(m, q, v, a, wrenches):
    links = add_wrenches(m.sweep, m.moving(q, v), wrenches)
    return m.join(inverse.inverse_dynamics(m.sweep, links, m.velocities(a), m.base))


def forward_dynamics(m, q, v, tau, wrenches):
    links = add_wrenches(m.sweep, m.moving(q, v), wrenches)
    return m.join(forward.forward_dynamics(m.sweep, links, m.velocities(tau), m.base))


def complex_steps(function, m, q, v, last, wrenches):
    """∂/∂q in the tangent space, ∂/∂v and ∂/∂(a or tau) of a function, each (nv, nv)."""
    eye = np.eye(len(v)).astype(object) * (1j * STEP)
    results = [
        [function(m, m.manifold().integrate(q, e), v, last, wrenches) for e in eye],
        [function(m, q, v + e, last, wrenches) for e in eye],
        [function(m, q, v, last + e, wrenches) for e in eye],
    ]
    size = (len(v), len(v))
    return [np.imag(np.array(columns, dtype=complex).reshape(size)).T / STEP for columns in results]


def random_wrenches(m, seed):
    rng = Random(seed)
    return [rationals(rng, 6).astype(float).astype(object) for _ in m.tree.nodes]


@given(motions(max_size=6))
def test_inverse_dynamics_on_random_trees(case):
    """All joint kinds, massless links, rotors, external wrenches."""
    model, motion = case
    m = Mechanism.of(model)
    q, v, a = objects(motion.q, motion.v, motion.a)
    wrenches = random_wrenches(m, model.nv)
    found = inverse_dynamics_derivatives(m.tree, q, v, a, wrenches)
    expected = complex_steps(inverse_dynamics, m, q, v, a, wrenches)
    for name, ours, theirs in zip(found._fields, found, expected, strict=True):
        close(ours, theirs, np.abs(theirs).max(initial=0) + (name != "da"))


@given(motions(max_size=6))
def test_forward_dynamics_on_random_trees(case):
    model, motion = case
    m = Mechanism.of(model)
    q, v, tau = objects(motion.q, motion.v, motion.tau)
    wrenches = random_wrenches(m, model.nv)
    found = forward_dynamics_derivatives(m.tree, q, v, tau, wrenches)
    expected = complex_steps(forward_dynamics, m, q, v, tau, wrenches)
    M = wt.reference(model).mass_matrix(motion.q)
    condition = np.linalg.cond(M) if len(M) else 1
    for ours, theirs in zip(found[:3], expected, strict=True):
        close(ours, theirs, (np.abs(theirs).max(initial=0) + 1) * condition)
    a = forward_dynamics(m, q, v, tau, wrenches).astype(float)
    close(found.a, a, (np.abs(a).max(initial=0) + 1) * condition)
    assert all(pivot > 0 for pivot in found.pivots)


def test_a_rotor_ties_a_floating_base_to_the_world():
    """Then its columns are not those of a free motion any more."""
    model = make_model((-1, 0), ("free", "revolute"), 8255)
    assert model.joints[0].armature > 0
    m, motion = Mechanism.of(model), make_motion(model, 1)
    q, v, tau = objects(motion.q, motion.v, motion.tau)
    wrenches = random_wrenches(m, 2)
    expected = complex_steps(forward_dynamics, m, q, v, tau, wrenches)
    for ours, theirs in zip(forward_dynamics_derivatives(m.tree, q, v, tau, wrenches)[:3], expected, strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("kind", MOVING_KINDS)
def test_every_joint_kind_to_forty_digits(kind):
    """Central differences with a step of 1e-20, the joint at the root and again behind another joint."""
    with mpmath.workdps(60):
        model = make_model((-1, 0, 1), (kind, "revolute", kind), 3, number=digits)
        m, h = Mechanism.of(model), mpmath.mpf(10) ** -20
        q, v, a, _ = make_motion(model, 4, number=digits)
        nothing = [zeros(6) for _ in m.tree.nodes]
        found = inverse_dynamics_derivatives(m.tree, q, v, a)
        for j, e in enumerate(np.eye(model.nv, dtype=int)):
            ahead, back = (inverse_dynamics(m, m.manifold().integrate(q, s * h * e), v, a, nothing) for s in (1, -1))
            assert max(abs((ahead - back) / (2 * h) - found.dq[:, j])) < 1e-35
            ahead, back = (inverse_dynamics(m, q, v + s * h * e, a, nothing) for s in (1, -1))
            assert max(abs((ahead - back) / (2 * h) - found.dv[:, j])) < 1e-35


@pytest.mark.parametrize("robot", ROBOTS)
def test_robots_against_pinocchio(robot):
    model = wt.load(FILES[robot], base=ROBOTS[robot]).tree
    peer = Pinocchio.from_urdf(model, FILES[robot], ROBOTS[robot])
    rng = np.random.default_rng(7)
    q, v, a, tau = (rng.normal(size=n) for n in (model.nq, model.nv, model.nv, model.nv))
    if ROBOTS[robot] == "free":
        q[3:7] /= np.linalg.norm(q[3:7])
    m, x, T = Mechanism.of(model), peer.coordinates(q), peer.velocity_map(q)
    back = T.T  # a permutation for these robots
    pin.computeRNEADerivatives(peer.built, peer.data, x, T @ v, T @ a)
    expected = back @ peer.data.dtau_dq @ T, back @ peer.data.dtau_dv @ T, peer.mass_matrix(q)
    for ours, theirs in zip(inverse_dynamics_derivatives(m.tree, *objects(q, v, a)), expected, strict=True):
        close(ours, theirs)
    pin.computeABADerivatives(peer.built, peer.data, x, T @ v, T @ tau)
    expected = back @ peer.data.ddq_dq @ T, back @ peer.data.ddq_dv @ T, peer.mass_matrix_inverse(q)
    condition = np.linalg.cond(peer.mass_matrix(q))
    for ours, theirs in zip(forward_dynamics_derivatives(m.tree, *objects(q, v, tau))[:3], expected, strict=True):
        close(ours, theirs, np.abs(theirs).max() * condition, ulps=10)


@pytest.mark.parametrize(
    ("robot", "inverse", "forward"),
    [
        ("ur5_robot", 800, 1500),
        ("panda", 3100, 5300),
        ("solo12", 4600, 10600),
        ("talos_reduced", 17200, 54000),
        ("g1_29dof_rev_1_0", 15800, 48500),
    ],
)
def test_operations(robot, inverse, forward):
    """What one evaluation costs; brute-force differentiation of a humanoid's graph needs a quarter of a million."""
    model = wt.load(FILES[robot], base=ROBOTS[robot]).tree
    for function, limit, count in (
        (inverse_dynamics_derivatives, inverse, 2),
        (forward_dynamics_derivatives, forward, 3),
    ):
        trace = Trace()
        states = [trace.inputs(n) for n in (model.nq, model.nv, model.nv)]
        results = function(Mechanism.of(model).tree, *states)[:count]
        assert finish(trace, [x for matrix in results for x in matrix.flat]).operations <= limit


def test_a_floating_base_feels_no_place_speed_or_direction():
    """Exact zeros: the joints of a free system do not know where it is, how it is turned or how fast it drifts."""
    model = wt.load(FILES["solo12"], base="free").tree
    trace = Trace()
    states = [trace.inputs(n) for n in (model.nq, model.nv, model.nv)]
    found = forward_dynamics_derivatives(Mechanism.of(model).tree, *states)
    assert not np.any(found.dq[6:, :6] != 0)
    assert not np.any(found.dq[:, 3:6] != 0)
    assert not np.any(found.dv[6:, 3:6] != 0)


def test_a_slender_body_keeps_its_small_inertia():
    """The moment about the long axis is 1e-9 of the others, and right to the last digits."""
    model = (
        Builder("needle")
        .body("needle", 1.0, (0.0, 0.0, 0.0), (1.0, 1.0 - 3e-10, 1e-9))
        .joint("spin", "revolute", "world", "needle")
        .build()
    )
    found = inverse_dynamics_derivatives(Mechanism.of(model).tree, *objects([0.3], [1.0], [2.0]))
    assert found.da[0, 0] == pytest.approx(1e-9, rel=1e-15)


def test_a_motion_without_inertia_shows_in_the_pivots():
    model = (
        Builder("limp")
        .body("arm", 1.0, (0.5, 0.0, 0.0), (0.1, 0.1, 0.1))
        .body("tip")
        .joint("shoulder", "revolute", "world", "arm")
        .joint("wrist", "revolute", "arm", "tip", position=(1, 0, 0), axis=(0, 1, 0))
        .build()
    )
    found = forward_dynamics_derivatives(Mechanism.of(model).tree, *objects([0.1, 0.2], [0.3, 0.4], [0.5, 0.6]))
    assert found.pivots[1] == 0
    assert np.all(np.isnan(found.dtau[1].astype(float)))


def test_no_freedom():
    model = Builder("block").body("block", 1.0, inertia=(1, 1, 1)).joint("fixed", "weld", "world", "block").build()
    tree, nothing = Mechanism.of(model).tree, np.zeros(0, dtype=object)
    for result in (*inverse_dynamics_derivatives(tree, nothing, nothing, nothing),):
        assert result.shape == (0, 0)
    for result in forward_dynamics_derivatives(tree, nothing, nothing, nothing)[:3]:
        assert result.shape == (0, 0)
