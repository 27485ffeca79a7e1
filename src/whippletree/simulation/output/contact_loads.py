"""Forces that a run met beside joint forces and constraints, as loads: of contacts, stops and dry friction, actuators.

As joint forces they enter the equations of motion, M a + c = tau + Jᵀ λ + Aᵀ f; as wrenches on bodies they pass the
joints, whose reactions they cause. Stops and dry friction act between the two bodies of a joint, along its freedom:
they are joint forces, and part of that joint's own reaction. Actuators of tendons and frames are known as joint forces,
and act on bodies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.contact_lists.contact_list_gaps import (
    limited_tendon_wrenches,
    rows_of_touches,
    tendon_limits,
)
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import suits_lists
from whippletree.contact.kinematics.broad_phase import Neighbourhood
from whippletree.contact.kinematics.contact_set import ContactSet, contact_set, contact_set_named, contact_set_of_steps
from whippletree.contact.kinematics.large_scenes import Snapshot
from whippletree.model import WORLD
from whippletree.model.frozen import found_once
from whippletree.simulation.motion import Motion

OF_JOINTS = ("limit_force", "friction_force")
"""Variables of runs that hold a force for each of some joints of one freedom."""

LOADS = (*OF_JOINTS, "tendon_limit_force", "contact_force", "contact_moment")
"""Variables of runs that hold loads."""


FARTHER_AWAY, FARTHEST_LOOK = 4, 1.0
"""Times the distance within which solids were compared that one may have gone which carries a force, before the next
look; and the distance, m, beyond which all are compared: in a kitchen that takes 20 times as long."""


class ContactLoads(NamedTuple):
    """Loads of contacts, stops and friction at k states."""

    tau: Array
    """All of it as joint forces, (k, nv)."""
    forces: Array
    """Forces of contact candidates along their axes, N, (k, contacts, 3)."""
    moments: Array
    """Moments of their torsional and rolling friction about these axes, N m, (k, contacts, 3)."""
    contacts: ContactSet
    """The candidates, in the form that the run has met."""
    pulls: Array
    """Pulls of the ends of the ranges of tendons, N, positive where they make these longer, (k, tendons)."""


def contact_loads(
    motion: Motion, q: Array, found: dict[str, tuple[tuple[str, ...], Array]], pressing: Array | slice = slice(None)
) -> ContactLoads:
    """The loads at configurations q (k, nq), of variables by name: names of joints or contacts, and values (k, …).

    ``pressing``: numbers of the candidates of contact among which those are that have a force, (m,), or all.
    """
    model = motion.model
    tau, forces, contacts = np.zeros((len(q), model.nv)), np.zeros((len(q), 0, 3)), contact_set(model)
    pulls, moments = np.zeros((len(q), 0)), np.zeros_like(forces)
    for word in OF_JOINTS:
        joints, values = found.get(word, ((), np.zeros((len(q), 0))))
        for number, joint in enumerate(joints):
            tau[:, model.slice(joint)] += values[:, number, None]
    if "tendon_limit_force" in found:
        _, pulls = found["tendon_limit_force"]
        _, signs, rows = tendon_limits(motion.dyn)(q)
        tau += np.einsum("ktv,kt->kv", rows, signs * pulls)
    if "contact_force" in found and found["contact_force"][1].shape[1]:
        names, forces = found["contact_force"]
        contacts = contact_set_named(model, names)
        moments = found["contact_moment"][1] if "contact_moment" in found else np.zeros_like(forces)
        tau += _joint_forces(motion, q, contacts, forces, moments, pressing)
    return ContactLoads(tau, forces, moments, contacts, pulls)


def _joint_forces(
    motion: Motion, q: Array, contacts: ContactSet, forces: Array, moments: Array, pressing: Array | slice
) -> Array:
    """Jᵀ λ (k, nv) of forces and moments of candidates (k, contacts, 3) at configurations q (k, nq)."""
    nearby, model = Neighbourhood(contacts), motion.model
    if nearby.is_compiled and contacts is contact_set(model) and not moments[:, pressing].any():
        J = motion.evaluate("contact_jacobian", q=q)
        return np.asarray(np.einsum("krv,kr->kv", J, forces.reshape(len(q), -1)))
    if _is_listed(contacts) and not model.is_flexible:
        found, parts = [], rows_of_touches(len(contacts.candidates), len(q))
        # of what few of many candidates carry, memory that has not been written to is not read
        force, moment = (np.zeros((len(q[parts[0]]), len(contacts.candidates), 3)) for _ in range(2))
        for part in parts:
            n = len(q[part])
            force[:n, pressing], moment[:n, pressing] = forces[part, pressing], moments[part, pressing]
            touches = candidates_of_loads(motion, q[part], nearby, force[:n])
            found.append(motion.dyn.contact_list_loads(q[part], touches, force[:n], moment[:n]))
        return np.concatenate(found)
    rows = zip(q, forces, moments, strict=True)
    return np.array([nearby.joint_forces(*row[:2]) + nearby.joint_forces(row[0], row[2], turning=True) for row in rows])


def body_wrenches(motion: Motion, q: Array, loads: ContactLoads) -> Array:
    """Loads of contacts and taut tendons as wrenches on all bodies (k, bodies, 6), each in its body's frame."""
    model = motion.model
    wrenches = np.zeros((len(q), len(model.bodies), 6))
    if loads.pulls.shape[1]:
        wrenches += np.asarray(limited_tendon_wrenches(motion.dyn)(q, loads.pulls))
    if not loads.forces.shape[1]:
        return wrenches
    points, axes = _places(motion, q, loads.contacts, loads.forces)
    pushes, turns = (np.einsum("kca,kcai->kci", x, axes) for x in (loads.forces, loads.moments))
    for name, numbers in _touching(loads.contacts).items():
        pose = np.asarray(motion.dyn.pose(name)(q))
        for number, sign in numbers:
            push = sign * pushes[:, number]
            moment = np.cross(points[:, number] - pose[:, :3, 3], push) + sign * turns[:, number]
            both = np.stack([moment, push], axis=1)  # in world axes
            wrenches[:, model.body_index(name)] += (both @ pose[:, :3, :3]).reshape(-1, 6)
    return wrenches


def actuator_wrenches(motion: Motion, t: Array, q: Array, v: Array, act: Array | None) -> Array | None:
    """Wrenches on all bodies (k, bodies, 6) of actuators of tendons and frames at k states; None if nothing drives any.

    ``act``: activations (k, activations) of states that hold them.
    """
    driver = motion.driver
    if driver is None or all(a.tendon is None and a.frame is None for a in motion.model.actuators):
        return None
    state = {"q": q, "v": v, "ctrl": motion.commands(t, q, v)}
    if motion.model.activations:
        state["act"] = np.array([driver.known(float(moment)) for moment in t]) if act is None else act
    return motion.evaluate("actuator_wrenches", **state)


def _places(motion: Motion, q: Array, contacts: ContactSet, forces: Array) -> tuple[Array, Array]:
    """Points (k, contacts, 3) and axes (k, contacts, 3, 3) of candidates at configurations q (k, nq), in the world.

    What is far apart and carries no force, of ``forces`` (k, contacts, 3), may be anywhere.
    """
    if contacts.closed_form and contacts is contact_set(motion.model):
        points, axes = (np.asarray(motion.evaluate(name, q=q)) for name in ("contact_points", "contact_axes"))
        return points, axes
    if _is_listed(contacts):
        touches = candidates_of_loads(motion, q, Neighbourhood(contacts), forces)
        return touches[..., 1:4], touches[..., 4:].reshape(*touches.shape[:-1], 3, 3)
    found = [Snapshot(contacts, row).points for row in q]
    return np.array([at.point for at in found]), np.array([at.axes for at in found])


def candidates_of_loads(motion: Motion, q: Array, nearby: Neighbourhood, forces: Array) -> Array:
    """The candidates of a model's compiled steps (k, contacts, 13) at configurations q (k, nq), as far as they belong
    to pairs that carry a force, of ``forces`` (k, contacts, 3); others are infinitely far."""
    reach, loaded, rows = nearby.told_within, np.any(forces, axis=-1), np.arange(len(q))
    first = first_candidates(nearby.contacts)
    wanted = np.zeros(len(first))
    wanted[first[loaded.any(axis=0)]] = 1
    touches = np.asarray(motion.dyn.contact_list_touches(q, reach=reach, wanted=wanted))
    while True:
        # what bounced away within a step is far again at its end
        rows = rows[np.any(np.isinf(touches[rows, :, 0]) & loaded[rows], axis=-1)]
        if not len(rows) or np.isinf(reach):
            return touches
        reach = FARTHER_AWAY * reach if reach < FARTHEST_LOOK else np.inf
        touches[rows] = motion.dyn.contact_list_touches(q[rows], reach=reach, wanted=wanted)


@found_once
def first_candidates(contacts: ContactSet) -> Array:
    """Number of the first candidate of each one's pair, (candidates,)."""
    slots = [pair.slots for pair in contacts.pairs]
    return np.repeat(np.cumsum([0, *slots])[:-1], slots)


def _is_listed(contacts: ContactSet) -> bool:
    """Whether these are the candidates of a model's compiled steps, whose narrow phase finds them in many states."""
    return contacts is contact_set_of_steps(contacts.model) and suits_lists(contacts.model)


def _touching(contacts: ContactSet) -> dict[str, list[tuple[int, int]]]:
    """By body: the candidates that push it, by number, and 1 where it is the first of the two, −1 where the second."""
    found: dict[str, list[tuple[int, int]]] = {}
    for number, candidate in enumerate(contacts.candidates):
        for sign, body in ((1, candidate.first_body), (-1, candidate.second_body)):
            if body != WORLD:
                found.setdefault(body, []).append((number, sign))
    return found
