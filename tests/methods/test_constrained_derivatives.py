"""Derivatives of constrained dynamics: in one direction by dual numbers, and whole Jacobians by the block matrix.

The Jacobians meet differences in 50 digits for every kind of constraint, dual numbers through the dynamics themselves
(another road altogether), Pinocchio (``tests/peers/test_contacts.py``), and their own machine code.
"""

from dataclasses import replace
from random import Random

import mpmath
import numpy as np
import pytest

import whippletree as wt
from identities.test_constraint_rows import CASES, largest, model_of, state
from strategies import make_model, make_motion
from whippletree.constraints import constrained_derivatives, dynamics
from whippletree.model import Constraint, Frame, State
from whippletree.tree.mechanism import Mechanism

STEP = mpmath.mpf(10) ** -14
"""Of the central differences in 50 digits."""


@pytest.mark.parametrize(
    "make",
    [wt.mechanisms.crank_slider, lambda: wt.mechanisms.four_bar(masses=(1.0, 2.0, 0.5)), wt.mechanisms.rolling_disc],
)
@pytest.mark.parametrize("name", ["forward_dynamics", "constraint_forces"])
def test_jvp_of_constrained_dynamics(make, name):
    model = make()
    ref, dyn = wt.reference(model), wt.compile(model)
    rng = np.random.default_rng(8)
    q = model.home.q
    v, tau = rng.normal(size=(2, model.nv))
    dq, dv, dtau = rng.normal(size=(3, model.nv))
    h = 1e-6
    function = getattr(ref, name)

    def at(s):
        return function(ref.integrate(q, s * dq), v + s * dv, tau + s * dtau)

    expected = (at(h) - at(-h)) / (2 * h)
    found = ref.jvp(name)(q, v, tau, dq, dv, dtau)
    np.testing.assert_allclose(found, expected, atol=1e-6 * (1 + np.abs(expected).max()))
    np.testing.assert_allclose(dyn.jvp(name)(q, v, tau, dq, dv, dtau), found, atol=1e-10 * (1 + np.abs(found).max()))


def test_vjp_is_the_transpose_of_jvp():
    model = wt.mechanisms.crank_slider()
    dyn = wt.compile(model)
    rng = np.random.default_rng(9)
    q = model.home.q
    v, tau, dq, dv, dtau, seed = rng.normal(size=(6, 3))
    moved = dyn.jvp("forward_dynamics")(q, v, tau, dq, dv, dtau)
    bars = dyn.vjp("forward_dynamics")(q, v, tau, seed)
    np.testing.assert_allclose(seed @ moved, sum(b @ d for b, d in zip(bars, (dq, dv, dtau), strict=True)), rtol=1e-10)


def test_open_parameters_of_a_constrained_model():
    """A rod's mass as an input, through zero: nothing is compiled again, and the derivative at zero exists."""
    model = wt.mechanisms.crank_slider(rod_mass=0.2)
    path = "bodies.connecting rod.mass"
    dyn, ref = wt.compile(model, parameters=[path]), wt.reference(model, parameters=[path])
    q, v, tau = model.home.q, np.zeros(3), np.zeros(3)
    # the inertia about the centre is data of its own and stays that of 0.2 kg
    for mass in (0.0, 0.2, 1.0):
        np.testing.assert_allclose(
            dyn.forward_dynamics(q, v, tau, mass), ref.forward_dynamics(q, v, tau, mass), atol=1e-11
        )
    same = wt.reference(model).forward_dynamics(q, v, tau)
    np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau, 0.2), same, atol=1e-11)


# --- whole Jacobians --------------------------------------------------------------------------------------------------

FUNCTIONS = {"forward_dynamics": "forward_dynamics_derivatives", "constraint_forces": "constraint_forces_derivatives"}


def extras(model, t=0.3, active=1.0):
    """The inputs that only some models have."""
    system = wt.constraint_set(model)
    return (*((t,) if system.timed else ()), *((np.full(len(system.switches), active),) if system.switches else ()))


def in_digits(model):
    """The same model with its numbers as mpmath has them: sums of floats would be rounded to floats."""
    wide = np.vectorize(mpmath.mpf, otypes=[object])
    bodies = [replace(b, mass=mpmath.mpf(b.mass), center=wide(b.center), inertia=wide(b.inertia)) for b in model.bodies]
    joints = [replace(j, pose=wide(j.pose), axis=wide(j.axis), pitch=mpmath.mpf(j.pitch)) for j in model.joints]
    return replace(model, bodies=tuple(bodies), joints=tuple(joints))


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_every_kind_in_fifty_digits(kind):
    """Along one random direction of q, v and τ together, at a state that need not be on the constraints."""
    with mpmath.workdps(50):
        model = in_digits(model_of(kind))
        m, t = Mechanism.of(model), mpmath.mpf("0.3")
        q, v = state(model, 5)
        tau, d, u, w = (state(model, seed)[1] for seed in (6, 7, 8, 9))

        def at(s):
            moved = m.manifold().integrate(q, s * STEP * d), v + s * STEP * u, tau + s * STEP * w
            return dynamics.solve(m, *moved, t, None)

        found = constrained_derivatives.derivatives(m, q, v, tau, t, None)
        for ahead, back, dq, dv, dtau in zip(at(1), at(-1), *found, strict=True):
            slope = (ahead - back) / (2 * STEP)
            assert largest(slope - (dq @ d + dv @ u + dtau @ w)) < 1e-22 * (1 + largest(slope))


def compare(model, q=None, seed=0, active=1.0, compiled=True):
    """Jacobians of a model by the block matrix, along two random directions by dual numbers, and compiled."""
    ref = wt.reference(model)
    rng = np.random.default_rng(seed)
    more = extras(model, active=active)
    still = [np.zeros(np.shape(x)) for x in more]
    inputs = (model.home.q if q is None else q, *rng.normal(size=(2, model.nv)))
    for name, jacobians in FUNCTIONS.items():
        found = getattr(ref, jacobians)(*inputs, *more)
        for directions in rng.normal(size=(2, 3, model.nv)):
            pushed = ref.jvp(name)(*inputs, *more, *directions, *still)
            parts = [J @ d for J, d in zip(found, directions, strict=True)]
            scale = 1 + max(np.abs(J).max() for J in found) * np.abs(directions).max()
            np.testing.assert_allclose(sum(parts), pushed, atol=1e-11 * scale)
        if compiled:
            for ours, theirs in zip(getattr(wt.compile(model), jacobians)(*inputs, *more), found, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-10 * (1 + np.abs(theirs).max()))


MECHANISMS = {
    "crank_slider": wt.mechanisms.crank_slider,
    "four_bar": wt.mechanisms.four_bar,
    "four_bar, massless rocker": lambda: wt.mechanisms.four_bar(masses=(1.0, 2.0, 0.0)),
    "rolling_disc": wt.mechanisms.rolling_disc,
    "knife-edge sleigh": wt.mechanisms.knife_edge_sleigh,
    "gear_train": wt.mechanisms.gear_train,
}


@pytest.mark.slow
@pytest.mark.parametrize("make", MECHANISMS.values(), ids=list(MECHANISMS))
def test_mechanisms(make):
    compare(make())


def two_arms(**options):
    """A floating body with two arms that hold a rod between them and touch the ground: more rows than needed."""
    builder = wt.Builder("two arms").body("trunk", 3.0, (0.1, 0, 0), (1, 2, 3)).joint("float", "free", "world", "trunk")
    for side, y in (("left", 0.5), ("right", -0.5)):
        builder.body(f"{side} upper", 1.0, (0, 0, -0.3), (0.2, 0.2, 0.1))
        builder.body(f"{side} hand", 0.5, (0, 0, -0.2), (0.1, 0.1, 0.1))
        builder.joint(f"{side} shoulder", "spherical", "trunk", f"{side} upper", position=(0, y, 0))
        builder.joint(f"{side} elbow", "universal", f"{side} upper", f"{side} hand", position=(0, 0, -0.6))
    builder.constraint("rod", "distance", "left hand", "right hand", length=0.8)
    builder.constraint("grip", "point", "world", "left hand", **options)
    return builder.build()


@pytest.mark.parametrize("active", [0.0, 1.0])
def test_switches(active):
    compare(two_arms(switchable=True), active=active, compiled=False)


def softened(model, **parameters):
    """The model with more parameters on its first constraint."""
    first, *rest = model.constraints
    return replace(model, constraints=(replace(first, parameters={**first.parameters, **parameters}), *rest))


def test_compliance():
    """The rows yield, so they carry other forces than rigid ones; on both routes."""
    model = two_arms(compliance=0.3)
    compare(model, compiled=False)
    inputs = (model.home.q, np.zeros(16), np.zeros(16))
    found, rigid = (wt.reference(m).forward_dynamics_derivatives(*inputs)[2] for m in (model, two_arms()))
    assert np.abs(found - rigid).max() > 1e-3
    compare(softened(wt.mechanisms.crank_slider(), compliance=0.2))
    compare(softened(wt.mechanisms.four_bar(), compliance=0.2, switchable=True))


def test_redundant_rows_have_no_derivatives_of_their_own():
    """A planar loop closed by a spatial hinge: three rows too many, which carry no force."""
    planar = wt.mechanisms.four_bar()
    closure = replace(planar.constraints[0], kind="hinge", parameters={"axis": (0, 0, 1)})
    model = replace(planar, constraints=(closure,))
    structure = wt.constraint_set(model).structure
    assert len(structure.redundant) == 3
    compare(model)
    inputs = (model.home.q, np.ones(3), np.ones(3))
    for matrix in wt.reference(model).constraint_forces_derivatives(*inputs):
        assert not np.any(matrix[list(structure.redundant)])
    found, expected = (wt.reference(m).forward_dynamics_derivatives(*inputs)[2] for m in (model, planar))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["point", "weld", "hinge", "point_on_plane", "slider"])
@pytest.mark.parametrize("seed", range(3))
def test_random_trees_with_a_loop(seed, kind):
    """Two frames of a random tree tied where they are, one of them moving or fixed; all joint kinds."""
    rng = Random(seed)
    kinds = [rng.choice(["free", "revolute", "spherical", "universal", "planar", "helical"]) for _ in range(4)]
    tree = make_model((-1, 0, 1, rng.choice((0, -1))), ["free", *kinds[1:]], seed)
    q = make_motion(tree, seed).q
    ref = wt.reference(tree)
    other = rng.choice(["world", "b1", "b2"])
    offset = np.linalg.inv(ref.pose(other)(q) if other != "world" else np.eye(4)) @ ref.pose("tool")(q)
    model = replace(
        tree,
        frames=(*tree.frames, Frame("socket", other, offset)),
        constraints=(Constraint("tie", kind, ("socket", "tool")),),
        start=State(q, np.zeros(tree.nv)),
    )
    compare(model, q, seed, compiled=False)


def test_a_dead_point_has_no_derivatives():
    """Where rows become dependent nothing is returned that only looks like a derivative."""
    model = wt.mechanisms.four_bar()
    dead = np.zeros(3)
    for function in (wt.reference(model), wt.compile(model)):
        with pytest.raises(wt.SingularSystemError, match="depend on each other"):
            function.forward_dynamics_derivatives(dead, np.ones(3), np.zeros(3))


def test_nan_in_nan_out():
    model = wt.mechanisms.four_bar()
    for matrix in wt.compile(model).forward_dynamics_derivatives(np.full(3, np.nan), np.zeros(3), np.zeros(3)):
        assert np.isnan(matrix).any()
