"""Springs and dampers of joints within a time step: implicit as far as stability asks for it, on any scalar.

    (M + h D̃) (v⁺ − v) = h (τ − c − D̃ v − K (q − rest)) + …        D̃ = D + h K_s

Dampers act with the velocity at the end of the step, −D v⁺ (backward Euler): they only ever take energy away, however
stiff they are. A spring that steps resolve acts at their start, −K (q − rest) (semi-implicit Euler): it keeps its
energy. One that they do not resolve, K_s, acts at their end, −K (q + h v⁺ − rest): it settles, and that is all that can
be said of it at this step. Not resolved is what has 4 h² k > J + h d, J the inertia of the joint's own body along it. A
chain of such bodies has ω² ≤ 4 k / J, so that ω h ≤ 1 for what is resolved; 2 would be the limit.

Tendons, fluids and other elements (``element_forces``) act with the state at the start of the step.

For joints D̃ is diagonal, so all that changes is the inertia along each joint's own freedoms, as by a rotor: sparsity,
routes and constraints are treated as ever. A massless motion with a spring or a damper is determined by this equation,
too: it follows its damper, or rests where its spring is in balance, which is the limit of a small mass.

The modes of a flexible body have a block of D̃, which joins their modal mass. K_s are there the body's own vibrations,
free of any support, with ω h > 1: a mechanism whose parts have none faster than that has none faster itself, whatever
holds them together (Irons and Treharne's bound for assembled elements). Geometric stiffening acts at the start.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import is_zero, less, select
from whippletree.model import Joint, Model
from whippletree.model.flexible_body import FlexibleBody
from whippletree.tree.element_forces import element_forces
from whippletree.tree.links import Link
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.momentum import passive_forces
from whippletree.tree.skeleton import Node, skeleton
from whippletree.tree.sweeps import Field


class StepDamping(NamedTuple):
    """D̃ of a model: a number for every velocity, and a matrix for the modes of every flexible body."""

    diagonal: Array
    """(nv,), zeros for modes."""
    blocks: tuple[tuple[slice, Array], ...] = ()
    """Where the modes of a flexible body are among the velocities, and their D̃ (n, n)."""

    def times(self, v: Array) -> Array:
        """D̃ v, (..., nv)."""
        found = np.asarray(self.diagonal * v)
        for part, block in self.blocks:
            found[..., part] = found[..., part] + v[..., part] @ block.T
        return found

    def as_floats(self) -> StepDamping:
        """These numbers as floats."""
        blocks = tuple((part, block.astype(float)) for part, block in self.blocks)
        return StepDamping(self.diagonal.astype(float), blocks)


def own_inertias(model: Model) -> dict[str, float]:
    """The least inertia of its own body along each moving joint, by name, rotors included, kg m² or kg.

    Open parameters count with the numbers of the model that they were opened in: which springs are implicit is a
    property of the model.
    """
    tree = skeleton(model if model.origin is None else model.origin)
    return {
        joint.name: _least_inertia(node)
        for joint, node in zip(tree.joints, tree.nodes, strict=True)
        if joint.flexible is None
    }


def _least_inertia(node: Node) -> float:
    H = np.array(node.joint.subspace(np.array(node.joint.neutral, dtype=object)), dtype=float)
    if not H.shape[1]:
        return 0.0
    own = np.linalg.eigvalsh(H.T @ np.array(node.inertia.dense(), dtype=float) @ H)[0]
    return float(max(own, 0.0)) + float(node.armature)


def implicit_damping(joint: Joint, inertia: float, h: Any) -> Any:
    """d̃ = d + h k_s of a joint whose own body has that inertia, N m s/rad or N s/m."""
    d, k = joint.damping, joint.stiffness
    if is_zero(k) or joint.type.nq != joint.type.nv:  # joints that store a quaternion have no springs
        return d
    resolved = less(4 * h * h * k, inertia + h * d)
    return d + select(resolved, 0, h * k)


def modal_damping(body: FlexibleBody, h: Any) -> Array:
    """D̃ = D + h K_s (n, n) of a flexible body's modes, N s/m."""
    squares, momenta = body.free_vibrations
    found = body.damping.astype(object)
    for square, momentum in zip(squares.tolist(), momenta.T, strict=True):
        # K is the sum of ω² (M φ) (M φ)ᵀ over the vibrations φ
        share = select(less(1, h * h * square), h * square, 0)
        found = found + np.multiply.outer(momentum, momentum) * share
    return np.asarray(found)


def implicit_dampings(model: Model, h: Any, servos: Array | None = None) -> StepDamping:
    """D̃ of a step h, and what servos add to it (nv,), :mod:`whippletree.contact.servos`."""
    inertias = own_inertias(model)
    found = np.zeros(model.nv, dtype=object) if servos is None else np.array(servos, dtype=object)
    blocks = []
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        if joint.kind == "modal" and joint.flexible is not None:
            blocks.append((part, modal_damping(joint.flexible, h)))
        elif joint.has_springs and joint.name in inertias:
            found[part] = found[part] + implicit_damping(joint, inertias[joint.name], h)
    return StepDamping(found, tuple(blocks))


def implicit_links(m: Mechanism, links: Field, h: Any, servos: Array | None = None) -> Field:
    """These links with the inertia h D̃ that dampers, springs and servos (nv,) add."""
    if servos is None and not any(joint.has_springs for joint in m.tree.joints):
        return links
    damping = implicit_dampings(m.tree.model, h, servos)
    stiff = m.velocities(damping.diagonal)

    def stiffer(link: Link, own: Array) -> Link:
        # all freedoms of a joint have one damper, and servos drive joints of one freedom
        return link if not len(own) or is_zero(own[0]) else link._replace(J=link.J + h * own[0])

    found = m.sweep.map(stiffer, links, stiff)
    return with_modal_inertia(m, found, h, damping) if damping.blocks else found


def with_modal_inertia(m: Mechanism, links: Field, h: Any, damping: StepDamping) -> Field:
    """These links, whose flexible bodies have h D̃ in their modal mass; nodes must be concrete."""
    blocks = {part.start: block for part, block in damping.blocks}
    found = []
    for link, joint, part in zip(links, m.tree.joints, m.tree.v_slices, strict=True):
        if joint.kind == "modal":
            link = link._replace(M=replace(link.M, modal=link.M.modal + h * blocks[part.start]))
        found.append(link)
    return found


def implicit_model(model: Model, h: float, servos: Array | None = None) -> Model:
    """This model with that inertia in its rotors and modal masses, for functions that know nothing of steps."""
    damping = implicit_dampings(model, h, servos)
    blocks = {part.start: block for part, block in damping.blocks}

    def stiffer(joint: Joint, part: slice) -> Joint:
        if joint.kind == "modal" and joint.flexible is not None:
            body = joint.flexible
            rotary = np.asarray(body.integrals.rotary_products + h * blocks[part.start].astype(float))
            return replace(joint, flexible=replace(body, integrals=body.integrals._replace(rotary_products=rotary)))
        own = damping.diagonal[part]
        if not len(own) or is_zero(own[0]):
            return joint
        return replace(joint, rotor_inertia=joint.armature + h * own[0], gear_ratio=1)

    return replace(model, joints=tuple(map(stiffer, model.joints, model.v_slices)))


def forces_of_joints(m: Mechanism, q: Array, v: Array, h: Any, servos: Array | None = None) -> Array:
    """−K (q − rest) − D̃ v (nv,), and what elements other than joints apply; integer zeros where there is neither."""
    nv = m.tree.model.nv
    springs = element_forces(m, q, v) if m.tree.model.elements else np.zeros(nv, dtype=int).astype(object)
    if any(joint.has_springs for joint in m.tree.joints):
        still = m.velocities(np.zeros(nv, dtype=int).astype(object))
        springs = springs + m.join(passive_forces(m.sweep, m.joints, m.coordinates(q), still))
    elif servos is None:
        return springs
    return np.asarray(springs - implicit_dampings(m.tree.model, h, servos).times(v))


def dampings(model: Model) -> StepDamping:
    """D of a model's dampers, N m s/rad or N s/m."""
    found = np.zeros(model.nv, dtype=object)
    blocks = []
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        if joint.kind == "modal" and joint.flexible is not None:
            blocks.append((part, joint.flexible.damping))
        else:
            found[part] = joint.damping
    return StepDamping(found, tuple(blocks))
