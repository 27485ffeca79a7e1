"""Laws of mechanics along the flow: derivatives are exact (dual numbers), so the laws hold to rounding.

``jvp`` along (v, a) is d/dt for a motion with velocities v and accelerations a.
"""

from dataclasses import replace

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

import whippletree as wt
from methods.closeness import close, residual_scale
from strategies import Random, make_model, make_motion, motions
from whippletree.spatial import Pose


def rotor_case(parents, kinds):
    """A motion of a random mechanism whose free joints have rotors."""
    model = make_model(parents, kinds, 0)
    lacking = [j.kind == "free" and not j.armature for j in model.joints]
    joints = (replace(j, rotor_inertia=1.5) if lacks else j for j, lacks in zip(model.joints, lacking))
    model = replace(model, joints=tuple(joints))
    return model, make_motion(model, 0)


TURNING_ROTORS = [
    rotor_case(parents, kinds)
    for parents, kinds in (
        ((-1, -1), ("revolute", "free")),
        ((-1, 0), ("revolute", "free")),
        ((-1, 0, 1), ("free", "weld", "free")),
    )
]
"""Rotors on free joints: of the world, of a body that turns, and of one that is itself free."""


def with_springs(model, seed):
    """The model with a spring and a damper on every joint; where a joint stores a quaternion, springs do nothing."""
    rng = Random(seed)
    joints = (
        replace(joint, stiffness=rng.uniform(0, 9), rest=rng.uniform(-1, 1), damping=rng.uniform(0, 3))
        for joint in model.joints
    )
    return replace(model, joints=tuple(joints))


def turning_rotors(test):
    """A test that sees the cases above beside those that it draws."""
    for case in TURNING_ROTORS:
        test = example(case)(test)
    return test


@given(motions(), st.integers(0, 99))
def test_power_balance(case, seed):
    """d/dt (kinetic + potential energy) = tau · v − what the dampers take, for actuator forces tau."""
    model, (q, v, a, _) = case
    model = with_springs(model, seed)
    ref = wt.reference(model)
    total, passive = ref.inverse_dynamics(q, v, a), ref.passive_forces(q, v)
    dampers = np.zeros(model.nv)
    for joint, part in zip(model.joints, model.v_slices):
        dampers[part] = joint.damping
    kinetic = ref.jvp("kinetic_energy")(q, v, v, a)
    potential = ref.jvp("potential_energy")(q, v)
    scale = np.abs(total) @ np.abs(v) + np.abs(passive) @ np.abs(v) + np.abs(potential)
    scale += np.abs(v) @ residual_scale(ref.mass_matrix(q), a, ref.bias(q, v))
    close(kinetic + potential, (total - passive) @ v - dampers @ v**2, scale)


@given(motions())
@turning_rotors
def test_lagranges_equations(case):
    """c = Ṁ v − ½ ∂(vᵀ M v)/∂q + turning + ∂V/∂q: the bias from the mass matrix and the potential alone."""
    model, (q, v, *_) = case
    assume(model.nv)
    ref = wt.reference(model)
    M_rate = ref.jvp("mass_matrix")(q, v)
    slope, _ = ref.vjp("kinetic_energy")(q, v, 1.0)
    gravity = ref.vjp("potential_energy")(q, 1.0)
    turning = turning_momenta(model, ref.mass_matrix(q) @ v, v)
    c = ref.bias(q, v)
    scale = np.abs(M_rate) @ np.abs(v) + np.abs(slope) + np.abs(gravity) + np.abs(turning).max() + np.abs(c)
    close(M_rate @ v - slope + turning + gravity, c, scale)


def turning_momenta(model, p, v):
    """What Lagrange's equations add where v is not the rate of coordinates but seen from axes that turn (Hamel 1904).

    Of the momenta p = ∂T/∂v of a ball joint ω × p; of a free joint ω × p and v × p of both its parts.
    """
    found = np.zeros(model.nv)
    for joint, part in zip(model.joints, model.v_slices):
        if joint.kind == "spherical":
            found[part] = np.cross(v[part], p[part])
        elif joint.kind == "free":
            (w, u), (angular, linear) = np.split(v[part], 2), np.split(p[part], 2)
            found[part] = np.concatenate([np.cross(w, angular) + np.cross(u, linear), np.cross(w, linear)])
    return found


@given(motions())
def test_gravity_is_the_gradient_of_the_potential(case):
    model, (q, *_) = case
    ref = wt.reference(model)
    close(ref.gravity(q), ref.vjp("potential_energy")(q, 1.0), np.abs(ref.gravity(q)).max(initial=0) + 1)


@given(motions())
def test_half_the_rate_of_M_does_the_work_of_the_bias(case):
    """vᵀ (Ṁ − 2 C) v = 0 with C v = c − gravity, on every kind of joint."""
    model, (q, v, *_) = case
    ref = wt.reference(model)
    M_rate = ref.jvp("mass_matrix")(q, v)
    velocity_terms = ref.bias(q, v) - ref.gravity(q)
    scale = np.abs(v) @ np.abs(M_rate) @ np.abs(v) + np.abs(v) @ (np.abs(ref.bias(q, v)) + np.abs(ref.gravity(q)))
    close(v @ M_rate @ v / 2, v @ velocity_terms, scale)


@given(motions())
@turning_rotors
def test_momentum_changes_by_the_forces_of_the_world(case):
    """Ḣ = Σ wrenches of the world on the bodies that hang from it + weight at the centre of mass.

    Rotors resist the motion of their joints and have no momentum in the world; nor has what turns them a part in the
    wrenches between bodies.
    """
    model, (q, v, a, _) = case
    assume(model.nv)
    ref = wt.reference(model)
    forces = ref.interbody_forces(q, v, a)
    welded = welded_to_world(model)
    wrench = np.zeros(6)
    for k, (body, joint) in enumerate(zip(model.bodies, model.joints)):
        if joint.parent in welded and body.name not in welded:
            X = Pose.from_matrix(ref.pose(body.name)(q))
            wrench += np.array(X.force(forces[k].astype(object)), dtype=float)
    mass = sum(body.mass for body in model.bodies if body.name not in welded)
    weight = mass * np.array(model.gravity, dtype=float)
    wrench += np.concatenate([np.cross(ref.center_of_mass(q), weight), weight])
    size = 1 + max(np.abs(ref.pose(body.name)(q)).max() for body in model.bodies)
    scale = size * (np.abs(forces).max() + np.abs(weight).max() + np.abs(wrench).max())
    close(ref.jvp("momentum")(q, v, v, a), wrench, scale)


def welded_to_world(model):
    """The world and what is welded to it: nothing there moves."""
    names = {"world"}
    for body, joint in zip(model.bodies, model.joints):
        if joint.kind == "weld" and joint.parent in names:
            names.add(body.name)
    return names


@given(motions())
def test_bias_of_a_jacobian_is_the_rate_of_the_jacobian(case):
    """J̇ v = d/dt (J) v, and d/dt (J v) = J a + J̇ v."""
    model, (q, v, a, _) = case
    ref = wt.reference(model)
    bias, J = ref.jacobian_bias("tool")(q, v), ref.jacobian("tool")(q)
    J_rate = ref.jvp("jacobian", "tool")(q, v)
    scale = (np.abs(J_rate) @ np.abs(v)).max() + (np.abs(J) @ np.abs(a)).max() + np.abs(bias).max()
    close(J_rate @ v, bias, scale)
    close(ref.jvp("twist", "tool")(q, v, v, a), J @ a + bias, scale)


@given(motions())
def test_pose_moves_with_its_twist(case):
    """Ẋ = X V̂, with the twist V in the frame's axes."""
    model, (q, v, *_) = case
    ref = wt.reference(model)
    X, (wx, wy, wz, *u) = ref.pose("tool")(q), ref.twist("tool")(q, v)
    hat = np.array([[0, -wz, wy, u[0]], [wz, 0, -wx, u[1]], [-wy, wx, 0, u[2]], [0, 0, 0, 0]])
    close(ref.jvp("pose", "tool")(q, v), X @ hat, np.abs(X).max() * (1 + np.abs(hat).max()))


@given(motions())
def test_linear_momentum_is_mass_times_the_velocity_of_the_centre(case):
    model, (q, v, *_) = case
    assume(model.nv)
    ref = wt.reference(model)
    mass = sum(body.mass for body in model.bodies if body.name not in welded_to_world(model))
    linear = ref.momentum(q, v)[3:]
    close(mass * ref.jvp("center_of_mass")(q, v), linear, np.abs(linear).max() + mass * np.abs(v).max())


@given(motions())
def test_rate_is_where_integration_starts_to_go(case):
    model, (q, v, *_) = case
    ref = wt.reference(model)
    start = ref.jvp("integrate")(q, 0 * v, 0 * v, v)
    close(start, ref.rate(q, v), 1 + np.abs(v).max(initial=0))


@given(motions(massless=False))
def test_what_hangs_from_nothing_falls_as_a_stone(case):
    """Without joint forces the linear momentum of a floating system changes by its weight."""
    model = replace(case[0], joints=tuple(floated(joint) for joint in case[0].joints))
    ref, q, v = wt.reference(model), model.neutral.q, np.linspace(-1, 1, model.nv)
    a = ref.forward_dynamics(q, v, np.zeros(model.nv))
    weight = sum(body.mass for body in model.bodies) * np.array(model.gravity)
    forces = ref.interbody_forces(q, v, a)
    close(ref.jvp("momentum")(q, v, v, a)[3:], weight, np.abs(forces).max() + np.abs(weight).max())


def floated(joint):
    return replace(joint, kind="free", rotor_inertia=0.0) if joint.parent == "world" else joint
