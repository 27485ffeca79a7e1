"""Reactions: the six forces and moments in every joint and every closure, also where loops share a load.

With the accelerations a and the forces f of all rows known, the closures are wrenches on bodies, Gᵀ f, and the tree of
joints is statically determinate: Newton and Euler, tips to base (:mod:`whippletree.constraints.reactions`). Rows that
are redundant may carry any force: with Aᵀ y = 0 the forces f + y cause the same motion, and load the joints by N y,
where N is the response of all reactions to the combinations y. Of the reactions r₀ + N y, those with the least Σ wᵢ rᵢ²
are taken:

    r = r₀ − N (Nᵀ W N)⁻¹ Nᵀ W r₀

so that the joint at which a loop was cut is treated as any other. Whether statics determines component i is asked of
its *leverage*, the share of it that y can give,

    hᵢ = wᵢ Nᵢ (Nᵀ W N)⁻¹ Nᵢᵀ        0 ≤ hᵢ ≤ 1,   Σ hᵢ = number of redundant rows

which depends neither on the basis y nor, for hᵢ = 0, on the weights.

The recursions of the tree see nodes, into which bodies that are welded together are lumped
(:mod:`whippletree.tree.skeleton`). A weld carries a load like any other joint, also one to the world, so for
:func:`body_loads` each body balances by itself:

    f(k) = M α + V × M V − w + Σ f(child)        w: what acts on body k beside its joints and gravity

w holds the tendons, fluids and held-up weight of the model (:mod:`whippletree.tree.element_forces`), whose forces pass
the bearings, and what the caller knows: contacts, actuators of tendons and frames, a payload.

Bodies are indexed there, and the functions are always unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg, scalars
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.constraints import dynamics, kkt
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.moving_residuals import frame_coefficients
from whippletree.constraints.route_choice import loops_over_fronts
from whippletree.constraints.routes import RANK_TOLERANCE
from whippletree.constraints.rows import TreeFrameRows, frame_places
from whippletree.model import WORLD, Constraint, Frame, Model
from whippletree.model.constraint_syntax import MANY_FRAMES
from whippletree.spatial import Pose, RigidInertia, cross_force
from whippletree.spatial.modal import DeformedInertia
from whippletree.tree import inertia, inverse
from whippletree.tree.element_forces import element_wrenches
from whippletree.tree.links import world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field

LEVERAGE_TOLERANCE = 1e-10
"""Leverage up to which statics is said to determine a component: redundant rows give it at most 1e-5 of their force, as
axes do that a file has rounded to five digits."""

INVISIBLE = 2.0**-40
"""Share of its diagonal entry (about 1e-12) below which a pivot of Nᵀ W N is rounding: a combination of rows that loads
no joint, such as one coupling written twice."""

MOMENTS = ("moment_x", "moment_y", "moment_z")
FORCES = ("force_x", "force_y", "force_z")
COMPONENTS = MOMENTS + FORCES
"""Of a reaction; N m and N."""


class Reactions(NamedTuple):
    """Reactions of all joints, then of all closures, in the order of :func:`reaction_names`."""

    wrenches: Array
    """(reactions, 6): moment and force."""
    determined: Array
    """(reactions, 6): 1 where statics determines the component, 0 where redundant rows could share it otherwise."""


class _Hold(NamedTuple):
    """The load of one constraint on one of its frames."""

    constraint: Constraint
    number: int
    """Of the frame among those of the constraint; −1 for the body that carries them both."""
    frame: Frame
    rows: slice
    G: Array
    """(rows, 6): Gᵀ f is the wrench on the frame, in its axes and about its origin."""


def reaction_names(model: Model) -> tuple[str, ...]:
    """A name for each reaction: of every joint of the model, welds too, then of every closure.

    A closure that shares its name with a joint is called ``name (closure)``. A ``custom`` constraint, which need not
    push back on one frame what it pushes on another, has an entry for each of its frames, ``name.frame``.
    """
    joints = [joint.name for joint in model.joints]
    names = list(joints)
    for constraint, number in closure_frames(constraint_set(model)):
        own = f"{constraint.name}.{constraint.on[number]}" if constraint.kind in MANY_FRAMES else constraint.name
        names.append(f"{own} (closure)" if own in joints else own)
    return tuple(names)


def closure_frames(system: ConstraintSet) -> list[tuple[Constraint, int]]:
    """The constraints that tie frames, each with the number of the frame whose load is reported: the second."""
    found: dict[tuple[str, int], tuple[Constraint, int]] = {}
    for c in system.demands:
        if c.demand.on == "frames":
            numbers = range(len(c.constraint.on)) if c.constraint.kind in MANY_FRAMES else (1,)
            found |= {(c.constraint.name, i): (c.constraint, i) for i in numbers}
    return list(found.values())


def joint_reactions(
    m: Mechanism,
    q: Array,
    v: Array,
    a: Array,
    f: Array,
    weights: Array | None,
    t: Any,
    active: Array | None,
    external: Array | None = None,
) -> Reactions:
    """The reactions of a motion with accelerations a (nv,) under the forces f (rows,) of all constraint rows.

    ``weights`` (reactions, 6), positive: which of the reactions that statics leaves open are the least ones; None: 1
    for each, so that 1 N m counts as much as 1 N. ``external`` (bodies, 6): what acts on each body from outside beside
    gravity and the model's elements, in its frame.
    """
    links = m.moving(q, v)
    alpha = inverse.accelerations(m.sweep, links, m.velocities(a), m.base)
    needed = inertial_wrenches(m, links, alpha)
    if m.tree.model.elements:
        needed = [own - wrench for own, wrench in zip(needed, element_wrenches(m, q, v), strict=True)]
    if external is not None:
        needed = [own - wrench for own, wrench in zip(needed, external, strict=True)]
    system = constraint_set(m.tree.model)
    holds = list(_holds(m, system, links, q, v, t))
    r = _response(m, links, holds, f, needed)
    nothing = [zeros(6) for _ in needed]
    idle = _idle_combinations(m, links, q, t, active)
    N = (
        np.array([_response(m, links, holds, y, nothing) for y in idle.T], dtype=object)
        .reshape(idle.shape[1], len(r))
        .T
    )
    w = np.ones(len(r), dtype=int).astype(object) if weights is None else weights.reshape(-1)
    wrenches, leverages = _least_norm(r, N, w)
    determined = [scalars.select(scalars.less(LEVERAGE_TOLERANCE, h), 0, 1) for h in leverages]
    return Reactions(wrenches.reshape(-1, 6), np.array(determined, dtype=object).reshape(-1, 6))


def _holds(m: Mechanism, system: ConstraintSet, links: Field, q: Array, v: Array, t: Any) -> Iterator[_Hold]:
    """The loads of every constraint on its frames."""
    model, start = system.model, 0
    for c, (places, coefficients) in zip(system.demands, _frame_loads(m, system, links, q, v, t), strict=True):
        own = slice(start, start + len(c.demand.rows))
        start = own.stop
        # a pin keeps the plane of the body that carries both of its frames, and so may turn that body
        carriers = len(places) - len(c.constraint.on)
        for i, place in enumerate(places):
            number = i - carriers
            frame = _carrier_frame(m.tree, place) if number < 0 else model.frame(c.constraint.on[number])
            yield _Hold(c.constraint, number, frame, own, coefficients(i))


def _frame_loads(
    m: Mechanism, system: ConstraintSet, links: Field, q: Array, v: Array, t: Any
) -> Iterator[tuple[Sequence[Place], Callable[[int], Array]]]:
    """For each demand the places of its frames, none if it ties joints, and what gives G (rows, 6) of each frame."""
    if not loops_over_fronts(system.model, m.route):
        for part in system.rows(m, links, q, v, t).parts:
            yield (part.places, part.coefficients) if isinstance(part, TreeFrameRows) else ((), identity)
        return
    # between the frames of a closure may lie the whole mechanism: all of them are seen from the world
    poses = world_poses(m.sweep, links)
    for c in system.demands:
        places = frame_places(m.tree, c)
        seen = [place.pose if place.node < 0 else poses[place.node] @ place.pose for place in places]
        yield places, partial(frame_coefficients, c.demand, seen, t=t)


def _carrier_frame(tree: Skeleton, place: Place) -> Frame:
    """A place on a node as a frame of one of the node's bodies."""
    if place.node < 0:
        return Frame("carrier", WORLD, place.pose.matrix())
    homes = ((body.name, tree.place(body.name)) for body in tree.model.bodies)
    name, home = next((name, home) for name, home in homes if home.node == place.node)
    return Frame("carrier", name, (home.pose.inverse() @ place.pose).matrix())


def _response(m: Mechanism, links: Field, holds: list[_Hold], f: Array, needed: list[Array]) -> Array:
    """All reactions in one vector (6 · reactions,), when the rows carry f and the bodies need these wrenches."""
    model = m.tree.model
    needed = list(needed)
    closures = {(c.name, i): zeros(6) for c, i in closure_frames(constraint_set(model))}
    for hold in holds:
        wrench = hold.G.T @ f[hold.rows]
        key = hold.constraint.name, hold.number
        if key in closures:
            closures[key] = closures[key] + wrench
        if hold.frame.body != WORLD:
            k = model.body_index(hold.frame.body)
            needed[k] = needed[k] - Pose.from_matrix(hold.frame.pose).force(wrench)
    return np.concatenate([zeros(0), *body_loads(m, links, needed), *closures.values()])


def _idle_combinations(m: Mechanism, links: Field, q: Array, t: Any, active: Array | None) -> Array:
    """y (rows, k) with Aᵀ y = 0: forces of rows that move nothing."""
    system = constraint_set(m.tree.model)
    if m.route == "nullspace":
        return _idle_at_this_state(m, system, links, q, t, active)
    redundant = list(system.structure.redundant) if system.demands else []
    y = zeros(len(system.row_names), len(redundant))
    if not redundant:
        return y
    at = dynamics.closed(m, links, q, None, t, active)
    # A_redundant = K A_kept, and K = A_redundant A#, with A# the right inverse of the kept rows
    right_inverse = at.factor.solve(zeros(m.tree.model.nv, len(at.kept)), -identity(len(at.kept))).a
    y[at.kept] = -(at.rows.jacobian()[redundant] @ right_inverse).T
    y[redundant] = identity(len(redundant))
    mask = system.mask(active)
    return y if mask is None else y * mask[redundant]


def _idle_at_this_state(
    m: Mechanism, system: ConstraintSet, links: Field, q: Array, t: Any, active: Array | None
) -> Array:
    """Idle rows of all rigid ones by their rank here, which may be less than usual: at a dead point."""
    rigid = [i for i, c in enumerate(system.compliance) if not c]
    A, mask = system.rows(m, links, q, None, t).jacobian(), system.mask(active)
    on = A if mask is None else (A.T * mask).T
    M = inertia.mass_matrix(m.tree, m.sweep, links)
    found = kkt.nullspace(M, on[rigid], RANK_TOLERANCE).idle_rows()
    y = zeros(len(A), found.shape[1])
    y[rigid] = found
    return y if mask is None else (y.T * mask).T


def _least_norm(r: Array, N: Array, w: Array) -> tuple[Array, Array]:
    """r + N y with the least Σ wᵢ rᵢ², and the leverages of its entries, (n,) each."""
    if not N.shape[1]:
        return r, zeros(len(r))
    scaled = (N.T * w).T
    factor = linalg.ldlt(N.T @ scaled, negligible=INVISIBLE)
    shares = factor.forward(N.T)
    leverages = w * ((shares * shares).T @ factor.reciprocals)
    return r - N @ factor.solve(scaled.T @ r), leverages


# --- the wrenches of Newton and Euler, body by body -------------------------------------------------------------------


def inertial_wrenches(m: Mechanism, links: Field, alpha: Field) -> list[Array]:
    """M α + V × M V of every body, in its frame and about its origin, (6,) each.

    ``links`` are in motion; ``alpha`` are the accelerations of the nodes, the world's −g among them, so that a body's
    weight is part of the wrench.
    """
    found = []
    for body in m.tree.model.bodies:
        node, at = m.tree.bodies[body.name]
        if node >= 0 and isinstance(links[node].M, DeformedInertia):
            found.append((links[node].M @ alpha[node] + links[node].b)[:6])
            continue
        M = RigidInertia.about_center(body.mass, body.center, body.inertia)
        V = at.motion(links[node].V) if node >= 0 else zeros(6)
        found.append(M @ at.motion(alpha[node] if node >= 0 else m.base) + cross_force(V, M @ V))
    return found


def body_loads(m: Mechanism, links: Field, needed: Sequence[Array]) -> list[Array]:
    """f (6,) of every joint: from its parent on each body, about the origin and in the axes of the body's frame.

    ``needed`` (6,) of every body, in the same axes: the wrench that its joints and those of its children must give it.
    """
    tree, model = m.tree, m.tree.model
    places = [tree.bodies[body.name] for body in model.bodies]
    # in the frames of the nodes, where a weld changes nothing
    carried = [place.pose.force(wrench) for place, wrench in zip(places, needed, strict=True)]
    for k in reversed(range(len(model.bodies))):
        parent = model.parents[k]
        if parent >= 0:
            node = places[k].node
            welded = node == places[parent].node
            carried[parent] = carried[parent] + (carried[k] if welded else links[node].X.force(carried[k])[:6])
    return [place.pose.inverse().force(f) for place, f in zip(places, carried, strict=True)]
