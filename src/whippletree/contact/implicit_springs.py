"""Springs and dampers of joints within a time step: implicit as far as stability asks for it, on any scalar.

    (M + h D̃) (v⁺ − v) = h (τ − c − D̃ v − K (q − rest)) + …        D̃ = D + h K_s

Dampers act with the velocity at the end of the step, −D v⁺ (backward Euler): they only ever take energy away, however
stiff they are. A spring that steps resolve acts at their start, −K (q − rest) (semi-implicit Euler): it keeps its
energy. One that they do not resolve, K_s, acts at their end, −K (q + h v⁺ − rest): it settles, and that is all that can
be said of it at this step. Not resolved is what has 4 h² k > J + h d, J the inertia of the joint's own body along it. A
chain of such bodies has ω² ≤ 4 k / J, so that ω h ≤ 1 for what is resolved; 2 would be the limit.

Tendons, fluids and other elements (``element_forces``) act with the state at the start of the step.

D̃ is diagonal, so all that changes is the inertia along each joint's own freedoms, as by a rotor: sparsity, routes and
constraints are treated as ever. A massless motion with a spring or a damper is determined by this equation, too: it
follows its damper, or rests where its spring is in balance, which is the limit of a small mass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.errors import UnsupportedError
from whippletree.model import Joint, Model
from whippletree.tree.element_forces import element_forces
from whippletree.tree.links import Link
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.momentum import passive_forces
from whippletree.tree.skeleton import Node, skeleton
from whippletree.tree.sweeps import Field


def is_passive(joint: Joint) -> bool:
    """Whether a joint has a spring or a damper; open parameters may give it one."""
    refuse_modes((joint,))
    return any(not _is_zero(x) for x in (joint.stiffness, joint.damping))


def refuse_modes(joints: Iterable[Joint]) -> None:
    """Refuse flexible bodies, whose stiffness couples several freedoms.

    Raises:
        UnsupportedError: naming the body, and what to do.
    """
    for joint in joints:
        if joint.kind == "modal":
            raise UnsupportedError(
                f"flexible body {joint.parent!r}: time steps with contacts and dyn.step take springs joint by joint "
                f"and know no modes. Use wt.simulate with method='adaptive', 'rk4' or 'events', or "
                f"wt.flexible.lumped_chain in its place"
            )


def own_inertias(model: Model) -> dict[str, float]:
    """The least inertia of its own body along each moving joint, by name, rotors included, kg m² or kg.

    Open parameters count with the numbers of the model that they were opened in: which springs are implicit is a
    property of the model.
    """
    refuse_modes(model.joints)
    tree = skeleton(model if model.origin is None else model.origin)
    return {joint.name: _least_inertia(node) for joint, node in zip(tree.joints, tree.nodes, strict=True)}


def _least_inertia(node: Node) -> float:
    H = np.array(node.joint.subspace(np.array(node.joint.neutral, dtype=object)), dtype=float)
    if not H.shape[1]:
        return 0.0
    own = np.linalg.eigvalsh(H.T @ np.array(node.inertia.dense(), dtype=float) @ H)[0]
    return float(max(own, 0.0)) + float(node.armature)


def implicit_damping(joint: Joint, inertia: float, h: Any) -> Any:
    """d̃ = d + h k_s of a joint whose own body has that inertia, N m s/rad or N s/m."""
    d, k = joint.damping, joint.stiffness
    if _is_zero(k) or joint.type.nq != joint.type.nv:  # joints that store a quaternion have no springs
        return d
    resolved = less(4 * h * h * k, inertia + h * d)
    return d + select(resolved, 0, h * k)


def implicit_dampings(model: Model, h: Any, servos: Array | None = None) -> Array:
    """The diagonal of D̃ (nv,), and what servos add to it (nv,), :mod:`whippletree.contact.servos`."""
    inertias = own_inertias(model)
    found = np.zeros(model.nv, dtype=object) if servos is None else np.array(servos, dtype=object)
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        if is_passive(joint) and joint.name in inertias:
            found[part] = found[part] + implicit_damping(joint, inertias[joint.name], h)
    return found


def implicit_links(m: Mechanism, links: Field, h: Any, servos: Array | None = None) -> Field:
    """The same links with the inertia h D̃ that dampers, springs and servos (nv,) add."""
    if servos is None and not any(map(is_passive, m.tree.joints)):
        return links
    stiff = m.velocities(implicit_dampings(m.tree.model, h, servos))

    def stiffer(link: Link, own: Array) -> Link:
        # all freedoms of a joint have one damper, and servos drive joints of one freedom
        return link if not len(own) or _is_zero(own[0]) else link._replace(J=link.J + h * own[0])

    return m.sweep.map(stiffer, links, stiff)


def implicit_model(model: Model, h: float, servos: Array | None = None) -> Model:
    """The same model with that inertia in its rotors, for functions that know nothing of steps."""
    stiff = implicit_dampings(model, h, servos)

    def stiffer(joint: Joint, part: slice) -> Joint:
        own = stiff[part]
        if not len(own) or _is_zero(own[0]):
            return joint
        return replace(joint, rotor_inertia=joint.armature + h * own[0], gear_ratio=1)

    return replace(model, joints=tuple(map(stiffer, model.joints, model.v_slices)))


def forces_of_joints(m: Mechanism, q: Array, v: Array, h: Any, servos: Array | None = None) -> Array:
    """−K (q − rest) − D̃ v (nv,), and what elements other than joints apply; integer zeros where there is neither."""
    nv = m.tree.model.nv
    springs = element_forces(m, q, v) if m.tree.model.elements else np.zeros(nv, dtype=int).astype(object)
    if any(map(is_passive, m.tree.joints)):
        still = m.velocities(np.zeros(nv, dtype=int).astype(object))
        springs = springs + m.join(passive_forces(m.sweep, m.joints, m.coordinates(q), still))
    elif servos is None:
        return springs
    return np.asarray(springs - implicit_dampings(m.tree.model, h, servos) * v)


def dampings(model: Model) -> Array:
    """The diagonal of D (nv,), N m s/rad or N s/m."""
    refuse_modes(model.joints)
    found = np.zeros(model.nv, dtype=object)
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        found[part] = joint.damping
    return found


def _is_zero(x: Any) -> bool:
    return isinstance(x, (int, float)) and x == 0
