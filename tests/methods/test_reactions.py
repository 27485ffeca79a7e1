"""Reactions against free-body diagrams: every body by itself in equilibrium with the forces on it.

The oracle knows nothing of recursions, trees or rows: it takes poses, twists and accelerations of the bodies, writes
six equations for each of them in world axes, and unknown wrenches for every joint and closure in the directions that
its kind can carry.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whippletree as wt
from long_mechanisms import floating_ladder, grid
from strategies import EXACT_KINDS, make_model, make_motion, motions

CARRIED = {
    # directions (moment, force) in the second frame's axes that a closure about z carries; pins are in world axes
    "hinge": [0, 1, 3, 4, 5],
    "point": [3, 4, 5],
    "weld": [0, 1, 2, 3, 4, 5],
    "slider": [0, 1, 2, 3, 4],
    "cylindrical": [0, 1, 3, 4],
}


def shifted(wrench: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """A wrench in a frame at this pose, about the world's origin in world axes."""
    R, p = pose[:3, :3], pose[:3, 3]
    force = R @ wrench[3:]
    return np.concatenate([R @ wrench[:3] + np.cross(p, force), force])


def rate_of_momentum(model, ref, body, q, v, a):
    """d/dt of a body's momentum less its weight, about the world's origin, in world axes."""
    pose, V = ref.pose(body.name)(q), ref.twist(body.name)(q, v)
    A = ref.jacobian(body.name)(q) @ a + ref.jacobian_bias(body.name)(q, v)
    w, dw = V[:3], A[:3]
    c = np.asarray(body.center, float)
    inertia = np.asarray(body.inertia, float)
    # of the centre of mass, in body axes
    acceleration = A[3:] + np.cross(w, V[3:]) + np.cross(dw, c) + np.cross(w, np.cross(w, c))
    force = body.mass * (acceleration - pose[:3, :3].T @ np.asarray(model.gravity, float))
    moment = inertia @ dw + np.cross(w, inertia @ w) + np.cross(c, force)
    return shifted(np.concatenate([moment, force]), pose)


def unbalanced(model, q, v, tau, reactions):
    """What is left over of every body's equations, and the size of the terms, (bodies, 6) each."""
    ref = wt.reference(model)
    a = ref.forward_dynamics(q, v, tau)
    found = {body.name: -rate_of_momentum(model, ref, body, q, v, a) for body in model.bodies}
    found["world"] = np.zeros(6)
    size = {name: np.abs(value).max() for name, value in found.items()}
    for (first, second, frame), reaction in zip(ends(model), reactions):
        wrench = shifted(reaction, ref.pose(frame)(q))
        found[second] = found[second] + wrench
        found[first] = found[first] - wrench
        for name in (first, second):
            size[name] = max(size[name], np.abs(wrench).max())
    return {name: (value, size[name]) for name, value in found.items() if name != "world"}


def ends(model):
    """Of every reaction: the body that pushes, the body that is pushed, and the frame in which it is given."""
    joints = [(joint.parent, joint.child, joint.child) for joint in model.joints]
    tied = [c for c in model.constraints if c.kind in (*CARRIED, "pin", "distance")]
    return joints + [(model.frame(c.on[0]).body, model.frame(c.on[1]).body, c.on[1]) for c in tied]


def assert_balanced(model, q, v, tau, *, tolerance=1e-9):
    found, _ = wt.reference(model).joint_reactions(q, v, tau)
    for name, (rest, size) in unbalanced(model, q, v, tau, found).items():
        assert np.abs(rest).max() <= tolerance * max(size, 1.0), name
    return found


def by_statics(model, q, v, tau, weights=None):
    """Least-norm reactions and the mask from the equations of all bodies at once, by singular values."""
    ref = wt.reference(model)
    a = ref.forward_dynamics(q, v, tau)
    known, bases = [], []
    for joint, part, place in zip(model.joints, model.v_slices, model.q_slices):
        S = np.array(joint.type.subspace(np.array(q[place], dtype=object)), dtype=float).reshape(6, -1)
        effort = tau[part] - float(joint.armature) * a[part]
        known.append(np.linalg.pinv(S.T) @ effort)
        bases.append(np.linalg.svd(S, full_matrices=True)[0][:, S.shape[1] :])
    for c in model.constraints:
        pose = ref.pose(c.on[1])(q)
        pin = np.concatenate([np.zeros((3, 2)), pose[:3, :3].T[:, :2]])
        known.append(np.zeros(6))
        bases.append(pin if c.kind == "pin" else np.eye(6)[:, CARRIED[c.kind]])
    count = len(bases)
    balance = np.zeros((6 * len(model.bodies), 6 * count))
    right = np.concatenate([rate_of_momentum(model, ref, body, q, v, a) for body in model.bodies])
    for k, (first, second, frame) in enumerate(ends(model)):
        shift = np.stack([shifted(e, ref.pose(frame)(q)) for e in np.eye(6)], axis=1)
        for name, sign in ((first, -1), (second, 1)):
            if name != "world":
                i = model.body_index(name)
                balance[6 * i : 6 * i + 6, 6 * k : 6 * k + 6] += sign * shift
    basis = np.zeros((6 * count, sum(b.shape[1] for b in bases)))
    column = 0
    for k, b in enumerate(bases):
        basis[6 * k : 6 * k + 6, column : column + b.shape[1]] = b
        column += b.shape[1]
    r = np.concatenate(known)
    equations = balance @ basis
    x = np.linalg.lstsq(equations, right - balance @ r, rcond=1e-10)[0]
    _, s, Vt = np.linalg.svd(equations)
    free = basis @ Vt[np.sum(s > 1e-10 * s[0]) :].T
    r = r + basis @ x
    root = np.ones(6 * count) if weights is None else np.sqrt(np.reshape(weights, -1))
    if free.shape[1]:
        r = r - free @ np.linalg.lstsq(free * root[:, None], r * root, rcond=1e-10)[0]
    determined = np.abs(free).max(axis=1, initial=0.0) < 1e-7
    return r.reshape(-1, 6), determined.reshape(-1, 6)


# --- mechanisms -------------------------------------------------------------------------------------------------------


def four_bar(closure="hinge", masses=(1.0, 2.0, 0.5)):
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8), masses=masses, angle=0.7)
    (pin,) = model.constraints
    return replace(model, constraints=(replace(pin, kind=closure),))


def wiper():
    """Two four-bars driven by one crank, as a pair of windscreen wipers; blades welded to their rockers."""
    builder = wt.Builder("wiper", (0, 0, -9.81))
    rod = {"mass": 0.3, "center": (0.15, 0.01, 0.002), "inertia": (1e-4, 3e-3, 3e-3)}
    builder.body("motor crank", mass=0.1, center=(0.03, 0, 0), inertia=(1e-5, 1e-4, 1e-4))
    builder.joint("motor", "revolute", "world", "motor crank", rotor_inertia=1e-4, gear_ratio=3)
    for side, x in (("left", -0.4), ("right", 0.4)):
        builder.body(f"{side} rod", **rod).body(f"{side} rocker", mass=0.2, center=(0, 0.05, 0), inertia=(1e-3,) * 3)
        builder.body(f"{side} blade", mass=0.4, center=(0, 0.3, 0.02), inertia=(1e-2, 1e-4, 1e-2))
        builder.joint(f"{side} crank pin", "revolute", "motor crank", f"{side} rod", position=(0.06, 0, 0.01))
        builder.joint(f"{side} shaft", "revolute", "world", f"{side} rocker", position=(x, 0.1, 0))
        builder.joint(f"{side} clamp", "weld", f"{side} rocker", f"{side} blade", position=(0, 0.02, 0.03))
        builder.frame(f"{side} rod end", f"{side} rod", position=(0.42, 0, 0))
        builder.frame(f"{side} rocker end", f"{side} rocker", position=(0, 0.1, 0.01))
        builder.constraint(f"{side} rod pin", "hinge", f"{side} rocker end", f"{side} rod end")
    builder.frame("wiper edge", "left blade", position=(0, 0.5, 0))
    return builder.build()


def state(model, seed=0):
    """An assembled configuration, an allowed velocity and some joint forces."""
    rng = np.random.default_rng(seed)
    q = model.home.q
    v = rng.normal(size=model.nv)
    v = wt.reference(model).project_velocity(q, v) if model.constraints else v
    return q, v, rng.normal(size=model.nv)


LOOPS = {
    "four-bar, planar pin": lambda: four_bar("pin"),
    "four-bar, spatial hinges": four_bar,
    "four-bar, massless coupler": lambda: four_bar("hinge", (1.0, 0.0, 0.5)),
    "four-bar, only the rocker has mass": lambda: four_bar("pin", (0.0, 0.0, 1.0)),
    "four-bar, ball closure": lambda: four_bar("point"),
    "crank-slider, massless rod": wt.mechanisms.crank_slider,
    "wiper": wiper,
    "stewart": wt.mechanisms.stewart_platform,
    "delta": wt.mechanisms.delta_robot,
    "andrews": wt.mechanisms.andrews,
    "peaucellier": wt.mechanisms.peaucellier,
    "four four-bars": lambda: wt.mechanisms.n_four_bar(4),
}


@pytest.mark.parametrize("name", LOOPS)
def test_every_body_of_a_loop_is_in_balance(name):
    model = LOOPS[name]()
    assert_balanced(model, *state(model))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LOOPS if name not in ("delta", "andrews")])
def test_loops_match_the_equations_of_all_bodies(name):
    model = LOOPS[name]()
    q, v, tau = state(model)
    expected, mask = by_statics(model, q, v, tau)
    found, determined = wt.reference(model).joint_reactions(q, v, tau)
    assert np.array_equal(determined == 1, mask)
    assert np.abs(found - expected).max() <= 1e-9 * max(1.0, np.abs(expected).max())


def test_of_a_spatial_four_bar_twelve_of_twenty_components_are_open():
    model = four_bar()
    _, determined = wt.reference(model).joint_reactions(*state(model))
    open_ones = determined == 0
    assert open_ones.sum() == 12
    # out of the plane: two moments and the force along the axis, in each of four pins
    assert np.array_equal(open_ones, [[True, True, False, False, False, True]] * 4)


def test_weights_choose_among_what_statics_leaves_open():
    model = four_bar(masses=(1.0, 1.0, 1.0))
    model = replace(model, gravity=np.array([0.0, -9.81, 3.0]))  # a load out of the plane
    q, v, tau = state(model)
    weights = np.random.default_rng(4).uniform(0.1, 10.0, size=(4, 6))
    ref = wt.reference(model)
    plain, determined = ref.joint_reactions(q, v, tau)
    weighted, same = ref.joint_reactions_with_weights(q, v, tau, weights)
    assert np.array_equal(determined, same)
    assert np.abs(weighted - by_statics(model, q, v, tau, weights)[0]).max() < 1e-9
    fixed = determined == 1
    assert np.allclose(plain[fixed], weighted[fixed], rtol=0, atol=1e-12)
    assert np.abs(plain - weighted)[~fixed].max() > 0.1
    for name, (rest, _) in unbalanced(model, q, v, tau, weighted).items():
        assert np.abs(rest).max() < 1e-9, name


def test_pins_of_a_massless_four_bar_by_hand():
    """A coupler without mass is a two-force member: its pins pull along it, and the crank's moment balance gives how
    much."""
    model = four_bar("pin", (0.0, 0.0, 1.0))
    q, tau = model.home.q, np.array([2.0, 0.0, 0.0])
    found, _ = wt.reference(model).joint_reactions(q, np.zeros(3), tau)
    names = wt.reaction_names(model)
    assert names == ("crank", "coupler", "rocker", "pin")
    at_coupler = found[names.index("coupler")]
    assert np.abs(at_coupler[[0, 1, 2, 4, 5]]).max() < 1e-12  # along x of the coupler, nothing else
    # the crank has no mass either: torque = coupler force times its arm about the crank's axis
    pull = -at_coupler[3]
    coupler_angle, crank = q[0] + q[1], 0.4
    arm = crank * math.sin(coupler_angle - q[0])
    assert pull * arm == pytest.approx(-2.0, abs=1e-12)


@pytest.mark.slow
@settings(max_examples=40)
@given(motions())
def test_every_body_of_a_tree_is_in_balance(case):
    model, motion = case
    with suppress(wt.SingularSystemError):  # a mass that happens to sit on an axis
        assert_balanced(model, motion.q, motion.v, motion.tau, tolerance=1e-8)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 2**16), st.sampled_from(["hinge", "point", "weld", "cylindrical", "slider"]), st.booleans())
def test_random_loops(seed, closure, second):
    """Random trees whose tips are tied to the world where they are: reactions and masks of the closed chains."""
    kinds = ("revolute", "universal", "spherical", "cylindrical", "revolute", "weld")
    tree = make_model((-1, 0, 1, 2, 1, 3), kinds, seed)
    q, v, _, tau = make_motion(tree, seed)
    ties = [("tie", "tool")] + ([("other tie", "b4")] if second else [])
    ref = wt.reference(tree)
    frames, constraints = list(tree.frames), []
    for name, on in ties:
        frames.append(wt.model.Frame(f"{name} base", "world", ref.pose(on)(q)))
        constraints.append(wt.model.Constraint(name, closure, (f"{name} base", on)))
    model = replace(tree, frames=tuple(frames), constraints=tuple(constraints), start=wt.model.State(q, v))
    try:
        v = wt.reference(model).project_velocity(q, v)
        found, determined = wt.reference(model).joint_reactions(q, v, tau)
    except (wt.SingularSystemError, wt.AssemblyError):
        return
    expected, mask = by_statics(model, q, v, tau)
    assert np.array_equal(determined == 1, mask)
    size = max(1.0, np.abs(expected).max())
    assert np.abs(found - expected)[mask].max() <= 1e-8 * size


def test_along_its_freedom_a_joint_carries_the_joint_force_less_the_rotors():
    model = wiper()
    q, v, tau = state(model)
    ref = wt.reference(model)
    found, _ = ref.joint_reactions(q, v, tau)
    a = ref.forward_dynamics(q, v, tau)
    for k, (joint, part) in enumerate(zip(model.joints, model.v_slices)):
        if joint.kind == "revolute":
            assert found[k, 2] == pytest.approx(tau[part][0] - joint.armature * a[part][0], abs=1e-10)


def test_a_foundation_carries_what_stands_on_it():
    """A weld to the world is a joint as well, and carries the weight of all that stands on it."""
    builder = wt.Builder("tower").body("base", mass=3.0, center=(0, 0, 0.2))
    builder.body("arm", mass=2.0, center=(0.5, 0, 0), inertia=(0, 1 / 6, 1 / 6))
    builder.joint("bolts", "weld", "world", "base", position=(1.0, 0, 0))
    builder.joint("axis", "revolute", "base", "arm", position=(0, 0, 0.5), axis=(0, 1, 0))
    model = builder.build()
    ref = wt.reference(model)
    held = ref.gravity([0.0])
    found, determined = ref.joint_reactions([0.0], [0.0], held)
    weight = (3.0 + 2.0) * 9.81
    assert np.allclose(found[0], [0, -2.0 * 9.81 * 0.5, 0, 0, 0, weight], atol=1e-12)
    assert np.all(determined == 1)


def test_the_load_on_a_welded_bracket_passes_its_weld():
    """A closure on a body that is welded to the world loads that weld."""
    model = four_bar("pin")
    bracket = wt.model.Body("bracket")
    joint = wt.model.Joint("bolts", "weld", "world", "bracket")
    base = wt.reference(model).pose("coupler end")(model.home.q)
    moved = wt.model.Frame("hook", "bracket", base)
    free = replace(
        model,
        bodies=(*model.bodies, bracket),
        joints=(*model.joints, joint),
        frames=(*model.frames, moved),
        constraints=(*model.constraints, wt.model.Constraint("stop", "pin", ("hook", "coupler end"))),
    )
    q, z = model.home.q, np.zeros(3)
    found, _ = wt.reference(free).joint_reactions(q, z, z)
    names = wt.reaction_names(free)
    bolts, stop = found[names.index("bolts")], found[names.index("stop")]
    frame = wt.reference(free).pose("coupler end")(q)
    assert np.allclose(shifted(bolts, np.eye(4)), shifted(stop, frame), atol=1e-9)
    assert np.abs(bolts).max() > 1.0


# --- scalars, compiled code, corners ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four-bar, spatial hinges", "wiper", "stewart", "crank-slider, massless rod"])
def test_compiled_reactions_of_many_states(name):
    model = LOOPS[name]()
    q, v, tau = state(model)
    many = np.linspace(-1.0, 1.0, 6)[:, None]
    found, mask = wt.compile(model).joint_reactions(q, many * v, tau)
    assert found.shape == mask.shape == (6, len(wt.reaction_names(model)), 6)
    for k in range(6):
        expected, determined = wt.reference(model).joint_reactions(q, many[k] * v, tau)
        assert np.array_equal(mask[k], determined)
        assert np.abs(found[k] - expected).max() <= 1e-9 * max(1.0, np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: floating_ladder(30), lambda: grid(7, 7)], ids=["ladder", "grid"])
def test_every_body_of_a_long_mechanism_is_in_equilibrium(make):
    model, rng = make(), np.random.default_rng(8)
    q, tau = np.asarray(model.home.q, dtype=float), rng.normal(size=model.nv)
    v = wt.reference(model, route="augmented").project_velocity(q, 0.3 * rng.normal(size=model.nv))
    found, _ = wt.compile(model).joint_reactions(q, v, tau)
    for name, (rest, size) in unbalanced(model, q, v, tau, found).items():
        assert np.abs(rest).max() <= 1e-9 * max(size, 1.0), name


def test_reactions_are_exact_on_fractions():
    model = make_model((-1, 0, 1, 0), ("spherical", "prismatic", "weld", "prismatic"), 7, number=Fraction)
    assert set(EXACT_KINDS) >= {"spherical", "prismatic", "weld"}
    q, v, _, tau = make_motion(model, 3, number=Fraction)
    found, _ = wt.reference(model).joint_reactions(q, v, tau)
    assert all(isinstance(x, (Fraction, int)) for x in found.flat)
    plain = make_model((-1, 0, 1, 0), ("spherical", "prismatic", "weld", "prismatic"), 7)
    expected, _ = wt.reference(plain).joint_reactions(*(np.array(x, float) for x in (q, v, tau)))
    assert np.allclose(found.astype(float), expected, rtol=1e-12)


def test_more_is_open_where_rows_become_dependent():
    """All rods of a parallelogram in line: its planar pin loses a row, and what acts along the line is open."""
    model = wt.mechanisms.n_four_bar(1)
    q = np.zeros(model.nq)
    assert np.abs(wt.reference(model).constraint_residual(q)).max() < 1e-12
    ref, z = wt.reference(model), np.zeros(model.nv)
    found, determined = ref.joint_reactions(q, z, z)
    assert np.array_equal(determined[:, 3] == 0, [True] * 4)  # x of every pin, which is along the rods
    assert np.all(determined[:, [0, 1, 2, 4, 5]] == 1)
    for name, (rest, _) in unbalanced(model, q, z, z, found).items():
        assert np.abs(rest).max() < 1e-9, name


def test_couplings_act_along_the_joints_they_tie():
    model = wt.mechanisms.gear_train()
    q, v, tau = state(model)
    found, _ = wt.reference(model).joint_reactions(q, v, tau)
    ref = wt.reference(model)
    expected = ref.inverse_dynamics(q, v, ref.forward_dynamics(q, v, tau))
    for k, (joint, part) in enumerate(zip(model.joints, model.v_slices)):
        a = ref.forward_dynamics(q, v, tau)[part]
        if joint.kind == "revolute":
            assert found[k, :3] @ joint.axis == pytest.approx(expected[part][0] - joint.armature * a[0], abs=1e-10)


def test_a_row_written_twice_loads_nothing():
    """Two equal couplings share their force in any way; no joint feels how."""
    model = wt.mechanisms.gear_train()
    first = model.constraints[0]
    twice = replace(model, constraints=(*model.constraints, replace(first, name="again")))
    q, v, tau = state(model)
    found, determined = wt.reference(twice).joint_reactions(q, v, tau)
    assert np.allclose(found, wt.reference(model).joint_reactions(q, v, tau)[0], atol=1e-10)
    assert np.all(determined == 1)


def test_a_closure_that_is_switched_off_carries_nothing():
    model = four_bar()
    (hinge,) = model.constraints
    model = replace(model, constraints=(replace(hinge, parameters={"switchable": True}),))
    q, still, tau = model.home.q, np.zeros(3), np.array([1.0, 0.0, 0.0])
    for functions in (wt.reference(model), wt.compile(model)):
        on, on_mask = functions.joint_reactions(q, still, tau, [1.0])
        off, off_mask = functions.joint_reactions(q, still, tau, [0.0])
        assert np.sum(on_mask == 0) == 12
        assert np.all(off_mask == 1)
        assert np.abs(off[-1]).max() == 0
        assert np.allclose(off[:3], wt.reference(model.tree).joint_reactions(q, still, tau)[0], atol=1e-12)
        assert np.allclose(on, wt.reference(four_bar()).joint_reactions(q, still, tau)[0], atol=1e-12)


def test_the_moment_of_a_prescribed_motion_is_in_its_joint():
    builder = wt.Builder("driven").body("a", 1.0, center=(0.3, 0, 0), inertia=(1, 1, 1))
    builder.joint("j", "revolute", "world", "a")
    model = builder.constraint("drive", "prescribed", "j", motion=lambda t: 0.3 * np.sin(2 * t)).build()
    q, v = 0.3 * math.sin(2.0), 0.6 * math.cos(2.0)
    found, _ = wt.reference(model).joint_reactions([q], [v], [0.0], 1.0)
    assert found[0, 2] == pytest.approx(-1.2 * math.sin(2.0) * (1 + 0.09), abs=1e-12)
    # the way of the centre: 0.3 m around the axis, gravity along it
    assert np.allclose(found[0, 3:], [-0.3 * v * v, -1.2 * math.sin(2.0) * 0.3, 9.81], atol=1e-12)


def test_names_of_reactions():
    model = four_bar()
    clash = replace(model, constraints=(replace(model.constraints[0], name="rocker"),))
    assert wt.reaction_names(clash) == ("crank", "coupler", "rocker", "rocker (closure)")
    custom = wt.model.Constraint(
        "bond", "custom", ("rocker end", "coupler end"), {"residual": lambda A, B: A[:2, 3] - B[:2, 3]}
    )
    named = replace(model, constraints=(custom,))
    assert wt.reaction_names(named)[3:] == ("bond.rocker end", "bond.coupler end")
    q, v, tau = state(model)
    found, _ = wt.reference(named).joint_reactions(q, v, tau)
    ref = wt.reference(named)
    ends_of = [shifted(found[k], ref.pose(name)(q)) for k, name in ((3, "rocker end"), (4, "coupler end"))]
    assert np.allclose(ends_of[0], -ends_of[1], atol=1e-9)
