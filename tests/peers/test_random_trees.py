"""Random trees of every joint kind, rebuilt in Pinocchio: also what no URDF has, and functions that MuJoCo lacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given

import whippletree as wt
from peers.agreement import TOLERANCE, Motion, answers, errors
from peers.conversion import Pinocchio
from strategies import KINDS, motions


def without_rotors(model, kinds=("planar", "free")):
    """Without rotors on joints of these kinds; on planar joints, ours have no counterpart in Pinocchio, and on free
    ones its rotors resist along the body's axes, ours (and MuJoCo's) along those of the world."""
    joints = (replace(joint, rotor_inertia=0.0) if joint.kind in kinds else joint for joint in model.joints)
    return replace(model, joints=tuple(joints))


def close(ours, theirs, scale=None):
    scale = np.abs(theirs).max(initial=0) if scale is None else scale
    assert np.abs(np.asarray(ours) - theirs).max(initial=0) <= TOLERANCE * scale


@given(motions(massless=False))
def test_everything_that_is_compared_on_robots(case):
    model, motion = without_rotors(case[0]), Motion(*case[1])
    ours = answers(wt.reference(model), motion, [body.name for body in model.bodies])
    found = errors(ours, Pinocchio.from_model(model), motion)
    assert {key: error for key, error in found.items() if not error <= TOLERANCE} == {}


@given(motions(massless=False))
def test_sums_over_bodies(case):
    model, (q, v, _, _) = without_rotors(case[0], KINDS), case[1]
    assume(model.nv > 0)
    ref, peer = wt.reference(model), Pinocchio.from_model(model)
    # Pinocchio leaves bodies that are welded to the world out of its centre of mass and energies
    assume(all(joint.kind != "weld" for joint in model.joints if joint.parent == "world"))
    size = 1 + max(np.abs(pose[:3, 3]).max() for pose in peer.poses(q).values())
    close(ref.center_of_mass(q), peer.center_of_mass(q), size)
    close(ref.centroidal_momentum_matrix(q), peer.centroidal_momentum_matrix(q))
    close(ref.kinetic_energy(q, v), peer.kinetic_energy(q, v))
    weight = sum(body.mass for body in model.bodies) * np.abs(model.gravity).max() * size
    close(ref.potential_energy(q), peer.potential_energy(q), weight)


@given(motions(massless=False))
def test_inverse_of_the_mass_matrix(case):
    model, (q, _, _, _) = without_rotors(case[0]), case[1]
    assume(model.nv > 0)
    inverse, M = wt.reference(model).mass_matrix_inverse(q), Pinocchio.from_model(model).mass_matrix(q)
    close(inverse, Pinocchio.from_model(model).mass_matrix_inverse(q), np.abs(inverse).max() * np.linalg.cond(M))


@given(motions())
def test_bias_of_a_jacobian(case):
    model, (q, v, _, _) = case
    assume(model.nv > 0)
    ref, peer = wt.reference(model), Pinocchio.from_model(model)
    for body in model.bodies:
        theirs = peer.jacobian_bias(body.name, q, v)
        close(ref.jacobian_bias(body.name)(q, v), theirs, 1 + np.abs(theirs).max())


@given(motions(kinds=[kind for kind in KINDS if kind != "planar"]))
def test_integration_on_the_manifold(case):
    model, (q, v, _, _) = case
    assume(model.nv > 0)
    peer = Pinocchio.from_model(model)
    theirs = peer.integrate(q, v)
    there = peer._kinematics(theirs)
    ours = peer.poses(wt.reference(model).integrate(q, v))
    for body in model.bodies:
        close(ours[body.name], there[body.name][0], 1 + np.abs(there[body.name][0]).max())
