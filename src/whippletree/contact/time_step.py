"""One time step of a system that touches its world, on any scalar, so that whole roll-outs compile.

    M (v⁺ − v) = h (τ − c) + Aᵀ p + Jᵀ λ        A v⁺ + gₜ = 0        K ∋ λ ⟂ J v⁺ + shift + s ∈ K*        (003, 000)

M and τ include what springs and dampers of the joints do within the step (:mod:`whippletree.contact.implicit_springs`).
Bilateral constraints are met exactly, not as soft rows: G = J M† Jᵀ. The *shift* of the normal velocity is gap / h
while a contact is apart, so that it closes no further than to touch, and nothing where it touches or overlaps: an
overlap is never turned into velocity. Where a contact with restitution e would overlap at the end of the step, the
shift is e times its approach velocity (Newton's law in Moreau's form): a contact at rest stays at rest.

Positions take h v⁺ and, apart from it, a correction M† Jₙᵀ π with 0 ≤ π ⟂ gap + h J v⁺ + G π ≥ 0, which moves apart
what would overlap and brings loops back together. It leaves velocities alone: it adds no kinetic energy. It undoes no
more than ``RELAXATION_SPEED`` · h of an overlap in a step, so that a deep one, which only a start state has, does not
throw bodies about within a single step.

Limits of joints and tendons are contacts without friction, the dry friction of joints contacts without a normal, and so
are the moments of torsional and rolling friction, which act on angular velocities; all are one problem
(:mod:`whippletree.contact.problem.contact_problem`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import is_zero, less, select, sqrt
from whippletree.constraints import dynamics, kkt
from whippletree.constraints.routes import row_weights
from whippletree.contact.implicit_springs import forces_of_joints, implicit_links
from whippletree.contact.kinematics.contact_set import ContactSet, contact_set, contact_set_of_steps
from whippletree.contact.kinematics.joint_contacts import limited_axes, nearer_ends, nearest_of_ranges, rubbing_axes
from whippletree.contact.problem.cones import both, largest
from whippletree.contact.problem.contact_problem import ContactProblem, LoadedDiscs
from whippletree.contact.servos import Servos
from whippletree.errors import UnsupportedError
from whippletree.model import Model
from whippletree.model.frozen import found_once
from whippletree.tree import inertia, inverse
from whippletree.tree.element_forces import joints_of_tendon, tendon_lengths
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton, skeleton
from whippletree.tree.sweeps import Field

CORRECTION_SWEEPS = 2
"""Sweeps of the position correction in a step; what they leave is left to the next step."""


TURNED_BY_OPENING = 100.0
"""1/m: by how much of itself a row of a loop is off for each metre that the loop is open, with levers of 1 cm. What is
left of a contact that such a row holds is as much, and a displacement divided by it would throw the mechanism about."""

TAKEN_BY_LOOPS = 2.0**-80
"""Share of a row's square (1e-12 of its size) below which what loops leave of it is rounding: nothing can move it."""

RELAXATION_SPEED = 1
"""m/s or rad/s: how fast overlaps, and joints beyond their range, are moved apart at most. What steps leave by
themselves is of the order of their square, and far below."""


SENSIBLE_DISPLACEMENT = 1.0
"""rad or m: a velocity that would have to go farther than that to undo an overlap does nothing about it: normals are
others by then. Of shapes about the axis of their own joint it would be divided by rounding, or by what single precision
leaves of the normals of a mesh: arms that begin folded into themselves were turned by 4e15 and 2e20 rad in a step."""

POSITION_ROUNDS = 6
"""Times that overlaps are moved apart at the end of a step with fresh normals; each squares what is left of them."""


POSITION_PROGRESS = 0.5
"""Share of the deepest overlap that a round must leave at most for another one to follow."""


class ContactMoment(NamedTuple):
    """Torsional or rolling friction of a contact candidate."""

    candidate: int
    """Number of the candidate."""
    share: Any
    """ρ, m."""
    axes: tuple[int, ...]
    """About which of the contact's axes it acts: the normal (0), or both tangents (1, 2)."""

    @property
    def word(self) -> str:
        """Name."""
        return "torsion" if self.axes == SPINNING else "rolling"


SPINNING, ROLLING = (0,), (1, 2)
"""Axes of a contact about which bodies spin and roll."""


class ContactBlocks:
    """The blocks of a model's contact problem, in this order: contact candidates, limits of joints, limits of tendons,
    joint friction, moments of torsional and rolling friction, and servos with a force range.

    One limit serves both ends of a range: the nearer one. ``limits=False`` leaves them out. Servos are there
    only where a step knows commands (``servos=True``). Single scenes (``alone=True``) have both, and the pairs that
    have a form for time steps only.
    """

    def __init__(self, model: Model, limits: bool = True, servos: bool = False, alone: bool = False) -> None:
        self.model = model
        self.actuators = Servos(model, servos or alone)
        self.contacts: ContactSet = contact_set_of_steps(model) if alone else contact_set(model)
        self.limited = limited_axes(model) if limits else ()
        self.taut = [tendon for tendon in model.tendons if limits and tendon.is_limited]
        self.rubbing = rubbing_axes(model)
        self.moments = _moments_of(self.contacts)
        self.servos = self.actuators.bounded

    @property
    def count(self) -> int:
        """Number of blocks."""
        return self.passive + len(self.servos)

    @property
    def passive(self) -> int:
        """Number of blocks before the servos: those whose work is that of contacts, limits and friction."""
        return self.first_moment + len(self.moments)

    @property
    def first_tendon(self) -> int:
        """Number of blocks before the limits of tendons."""
        return len(self.contacts.candidates) + len(self.limited)

    @property
    def closing(self) -> int:
        """Number of blocks with a gap, which come first."""
        return self.first_tendon + len(self.taut)

    @property
    def first_moment(self) -> int:
        """Number of blocks before the moments of torsional and rolling friction."""
        return self.closing + len(self.rubbing)

    @cached_property
    def faces(self) -> Array:
        """Which candidates are those of faces that meet, bool, (candidates,): forces are far from unique there."""
        every = zip(self.contacts.pairs, contact_set(self.model).pairs, strict=True)
        return np.array([usual.touching is None for pair, usual in every for _ in range(pair.slots)], dtype=bool)

    @cached_property
    def hosts(self) -> LoadedDiscs | None:
        """Which contact presses on which block, and ρ; None where none does."""
        if not self.moments:
            return None
        host, share = np.arange(self.count), zeros(self.count)
        for i, moment in enumerate(self.moments, start=self.first_moment):
            host[i], share[i] = moment.candidate, moment.share
        return LoadedDiscs(host, share)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of each block."""
        return (
            *self.contacts.names,
            *[f"limit {axis.name}" for axis in self.limited],
            *[f"limit of tendon {tendon.name}" for tendon in self.taut],
            *[f"friction {axis.name}" for axis in self.rubbing],
            *_names_of_moments(self.contacts),
            *[f"servo {servo.actuator.name}" for servo in self.servos],
        )

    @cached_property
    def friction(self) -> Array:
        """Coulomb's coefficient, (blocks,); 0 for joints."""
        joints = self.count - len(self.contacts.candidates)
        return np.array([*[c.friction for c in self.contacts.candidates], *[0] * joints], dtype=object)

    @cached_property
    def restitution(self) -> Array:
        """e, (blocks,); limits are plastic."""
        joints = self.count - len(self.contacts.candidates)
        return np.array([*[c.restitution for c in self.contacts.candidates], *[0] * joints], dtype=object)

    @cached_property
    def couplings(self) -> int:
        """Entries of the Delassus matrix that are not zero in general: the length of an unrolled sweep.

        Two rows couple where the paths from their bodies to the world share a joint, or through constraints.
        """
        carriers = [{c.first_body, c.second_body} for c in self.contacts.candidates]
        children = {joint.name: {joint.child} for joint in self.model.joints}
        paths = [_joints_below(self.model, bodies) for bodies in carriers]
        tree = skeleton(self.model)
        moved_by = [[axis.name] for axis in self.limited]
        moved_by += [sorted(joints_of_tendon(tree, tendon)) for tendon in self.taut]
        moved_by += [[axis.name] for axis in self.rubbing]
        paths += [_joints_below(self.model, set().union(*[children[joint] for joint in own])) for own in moved_by]
        paths += [paths[moment.candidate] for moment in self.moments]
        for servo in self.servos:
            moved = [joint for i in self.actuators.moved_velocities(servo) for joint in _joints_with(self.model, i)]
            paths.append(_joints_below(self.model, set().union(*[children[joint] for joint in moved])))
        joints = [1] * len(moved_by)
        moments = [len(moment.axes) for moment in self.moments]
        sizes = np.array([*[3] * len(carriers), *joints, *moments, *[1] * len(self.servos)])
        if self.model.constraints:
            return int(sizes.sum() ** 2)
        on = np.array([[joint in path for joint in children] for path in paths], dtype=float).reshape(-1, len(children))
        return int(sizes @ (on @ on.T > 0) @ sizes)

    def cap(self, h: Any) -> Array:
        """Largest impulse of dry friction, or of a servo beside the middle of its range, in a step, (blocks,).

        That of moments is nothing but what presses on them, :attr:`hosts`.
        """
        others = self.closing
        bounds = [axis.friction for axis in self.rubbing] + [0] * len(self.moments)
        bounds += [servo.reach for servo in self.servos]
        return np.array([*[0] * others, *[h * bound for bound in bounds]], dtype=object)

    def tendon_limits(self, m: Mechanism, q: Array) -> tuple[Array, Array, Array]:
        """Distance to the nearer end of each tendon's range, its sign, and the distances' derivatives (tendons, nv)."""
        lengths, rows = tendon_lengths(m, q, self.taut)
        distances, signs = nearest_of_ranges(lengths, [tendon.limits for tendon in self.taut])
        return distances, signs, signs[:, None] * rows

    def rows(self, m: Mechanism, q: Array) -> tuple[Array, Array]:
        """Gaps (blocks,) and J (blocks, 3, nv); joint friction has no gap and gets 0."""
        k, nv = len(self.contacts.candidates), self.model.nv
        J = zeros(self.count, 3, nv)
        gaps = zeros(self.count)
        if k:
            J[:k] = self.contacts.jacobian(m, q).reshape(k, 3, nv)
            gaps[:k] = self.contacts.points(m, q).gap
        distances, signs = nearer_ends(self.limited, q)
        for i, axis in enumerate(self.limited, start=k):
            J[i, 0, axis.v], gaps[i] = signs[i - k], distances[i - k]
        if self.taut:
            tendons = slice(self.first_tendon, self.closing)
            gaps[tendons], _, J[tendons, 0] = self.tendon_limits(m, q)
        for i, axis in enumerate(self.rubbing, start=self.closing):
            J[i, 1, axis.v] = 1
        if self.moments:
            turning = self.contacts.turning_jacobian(m, q).reshape(k, 3, nv)
            J[self.first_moment : self.passive] = self.moment_rows([turning[x.candidate] for x in self.moments])
        if self.servos:
            J[self.passive :, 1] = self.actuators.rows(m, q, self.servos)
        return gaps, J

    def moment_rows(self, turning: Sequence[Array], numbers: Sequence[int] | None = None) -> Array:
        """J (n, 3, nv) of moments, all or those of some numbers, from the angular velocities (3, nv) of their hosts."""
        moments = self.moments if numbers is None else [self.moments[i] for i in numbers]
        J = zeros(len(moments), 3, self.model.nv)
        for rows, moment, axes in zip(J, moments, turning, strict=True):
            rows[1 : 1 + len(moment.axes)] = axes[list(moment.axes)]
        return J


@found_once
def _moments_of(contacts: ContactSet) -> tuple[ContactMoment, ...]:
    """Moments of all candidates, of which a large model has tens of thousands."""
    return tuple(
        ContactMoment(i, share, axes)
        for i, c in enumerate(contacts.candidates)
        for share, axes in ((c.torsional, SPINNING), (c.rolling, ROLLING))
        if share != 0
    )


@found_once
def _names_of_moments(contacts: ContactSet) -> tuple[str, ...]:
    """Names of the moments of all candidates."""
    return tuple(f"{moment.word} {contacts.names[moment.candidate]}" for moment in _moments_of(contacts))


def _joints_below(model: Model, bodies: set[str]) -> set[str]:
    """Names of the moving joints between some bodies and the world."""
    carrier = {joint.child: joint for joint in model.joints}
    found = set()
    for body in bodies:
        while body in carrier:
            joint = carrier[body]
            found |= {joint.name} if joint.type.nv else set()
            body = joint.parent
    return found


def _joints_with(model: Model, velocity: int) -> list[str]:
    """The joint that a velocity belongs to."""
    parts = zip(model.joints, model.v_slices, strict=True)
    return [joint.name for joint, part in parts if part.start <= velocity < part.stop]


Response: TypeAlias = tuple[Array, ...]
"""M† Jᵀ: the matrix (nv, rows) itself; or, for a tree, J (rows, nv), and L (nv, nv) and D⁻¹ (nv,) of M = Lᵀ D L."""


class UnsolvedStep(NamedTuple):
    """A step whose impulses are still to be found."""

    problem: ContactProblem
    free: Array
    """Velocity at the end without impulses, (nv,)."""
    gaps: Array
    """m, (blocks,)."""
    shift: Array
    """Shift of the normal velocities, m/s, (blocks,)."""
    closing: Array
    """Displacement that closes loops, −A†ᵀ g (nv,); zeros without constraints."""
    approach: Array
    """J v, m/s, (blocks, 3)."""
    response: Response
    """Effect of impulses on the velocities."""


def pose_step(
    m: Mechanism, blocks: ContactBlocks, q: Array, v: Array, tau: Array, h: Any, t: Any = 0, ctrl: Array | None = None
) -> UnsolvedStep:
    """The contact problem of a step of length h from (q, v) under joint forces tau, beside springs and dampers.

    Commands ``ctrl`` (actuators,) are those of the actuators that the blocks have.
    """
    gaps, J = blocks.rows(m, q)
    rows = J.reshape(3 * blocks.count, blocks.model.nv)
    actuators = blocks.actuators
    if ctrl is not None:
        tau = tau + actuators.forces(m, q, v, ctrl)
    step = _step_without_impulses(m, q, v, tau, rows, h, t, actuators)
    approach = (step.rows @ v).reshape(blocks.count, 3)
    shift = shifts(gaps, approach[:, 0], blocks.restitution, h)
    g = (step.rows @ step.velocity).reshape(blocks.count, 3)
    g[:, 0] = g[:, 0] + shift
    G = step.delassus.reshape(blocks.count, 3, blocks.count, 3)
    if ctrl is not None:
        first = blocks.passive
        g[first:, 1] = g[first:, 1] - actuators.offsets(q, ctrl, h)
        for i, compliance in enumerate(actuators.compliances(h), start=first):
            G[i, 1, i, 1] = G[i, 1, i, 1] + compliance
    problem = ContactProblem(G, g, blocks.friction, blocks.cap(h), blocks.hosts)
    return UnsolvedStep(problem, step.velocity, gaps, shift, step.closing, approach, step.response)


def shifts(gaps: Array, speeds: Array, restitution: Array, h: Any) -> Array:
    """Shift of the normal velocities (blocks,): gap / h apart, e u⁻ where a bounce is due, 0 in overlap."""
    found, rate = [], 1 / h
    for gap, speed, e in zip(gaps, speeds, restitution, strict=True):
        apart = largest([gap, 0]) * rate
        bounces = both(less(0, e), both(less(gap + h * speed, 0), less(speed, 0)))
        found.append(select(bounces, e * speed, apart))
    return np.array(found, dtype=object)


class FreeStep(NamedTuple):
    """A step as it would be without impulses, and what impulses along some rows would add to it."""

    rows: Array
    """J (rows, nv) without what loops hold."""
    velocity: Array
    """At the end of the step, (nv,)."""
    delassus: Array
    """J M† Jᵀ, (rows, rows)."""
    response: Response
    """M† Jᵀ."""
    closing: Array
    """Displacement that closes loops, −A†ᵀ g (nv,)."""


def _step_without_impulses(
    m: Mechanism, q: Array, v: Array, tau: Array, J: Array, h: Any, t: Any, actuators: Servos
) -> FreeStep:
    """The step under joint forces tau, springs, dampers, and servos, if there are, along rows J (rows, nv)."""
    damping = actuators.damping(h) if actuators.acting else None
    links = implicit_links(m, m.moving(q, v), h, damping)
    push = h * (tau + forces_of_joints(m, q, v, h, damping) - bias_in_space(m, links, v))
    if m.tree.model.constraints:
        if actuators.coupling:
            raise UnsupportedError(
                f"model {m.tree.model.name!r} has constraints, and servos without a force range that drive several "
                f"joints or a frame: steps of such models are not compiled; wt.simulate(..., method='time_stepping') "
                f"takes them"
            )
        return _constrained_step(m, links, q, v, push, J, h, t)
    m.require_invertible(links)
    factor, push = implicit_factor(m, links, q, v, push, h, actuators)
    half = factor.backward(J.T)
    G = linalg.symmetric_product(half.T, half.T * factor.reciprocals)
    return FreeStep(J, v + factor.solve(push), G, (J, factor.L, factor.reciprocals), zeros(m.tree.model.nv))


def _constrained_step(
    m: Mechanism, links: Field, q: Array, v: Array, push: Array, J: Array, h: Any, t: Any
) -> FreeStep:
    """The step of a system with constraints under impulses ``push`` (nv,) of its forces, along rows J (rows, nv)."""
    nv = m.tree.model.nv
    at = dynamics.closed(m, links, q, v, t, None)
    system = at.system
    soft = np.array([c != 0 for c in system.compliance], dtype=bool)
    # rigid rows end the step at A v⁺ + gₜ = 0; soft ones follow their acceleration
    target = at.rows.velocity()
    if soft.any():
        followed = at.rows.bias() - at.rows.jacobian() @ m.manifold().turning(v)
        target = np.where(soft, h * followed, target)
    change = at.factor.solve(push, at.right(target)).a
    residual = zeros(len(system.row_names))
    residual[list(system.position_rows)] = at.rows.residual()
    residual = np.where(soft, 0, residual)
    J = without_held_rows(J, at.rows.jacobian()[[i for i in at.kept if not soft[i]]], residual)
    response = at.factor.solve(J.T, zeros(len(at.kept), J.shape[0])).a
    G = linalg.symmetric_product(J, response.T)
    return FreeStep(J, v + change, G, (response,), at.factor.solve(zeros(nv), at.right(residual)).a)


def counted(rate: Any, left: Any) -> Any:
    """By how much a velocity opens a gap that is too small by −left; 0 where no sensible displacement undoes that."""
    return select(less(SENSIBLE_DISPLACEMENT * abs(rate), -left), 0, rate)


def without_held_rows(J: Array, A: Array, residual: Array) -> Array:
    """Rows J (m, nv), zero where those of loops A take all of one: what is left of it is rounding, or as much as the
    loops, of these residuals, are still open."""
    Q: list[Array] = []
    for row in A:
        for x in Q:
            row = row - (row @ x) * x
        square = row @ row
        some = less(0, square)
        Q.append(row * select(some, 1 / sqrt(select(some, square, 1)), 0))
    turned = TURNED_BY_OPENING * largest([0, *[abs(g) for g in residual]])
    found = []
    for row in J:
        left = row
        for x in Q:
            left = left - (left @ x) * x
        found.append(row * select(less((TAKEN_BY_LOOPS + turned * turned) * (row @ row), left @ left), 1, 0))
    return np.array(found, dtype=object).reshape(J.shape)


def implicit_factor(
    m: Mechanism,
    links: Field,
    q: Array,
    v: Array,
    push: Array,
    h: Any,
    actuators: Servos,
    ties: tuple[Array, Array] | None = None,
    by_rows: bool = False,
) -> tuple[linalg.TreeLTDL, Array]:
    """The factor of M + h Σ Gᵀ K G of a tree, and the impulses (nv,) less what servos take at the present velocity.

    ``ties``: rows A of constraints and the typical squares of their sizes, where these stand in for inertia: the factor
    is then that of M + Aᵀ R A, whose dagger terms are those of M (000). ``by_rows``: see
    :func:`~whippletree.arithmetic.linalg.tree_ltdl`.
    """
    M = inertia.mass_matrix(m.tree, m.sweep, links)
    for servo in actuators.coupling:
        row, gain = actuators.row(m, q, servo), servo.gain(h)
        scaled = [h * gain * x for x in row]
        M = M + np.array([[0 if is_zero(a) or is_zero(b) else a * b for b in row] for a in scaled], dtype=object)
        push = push - np.array(scaled, dtype=object) * (row @ v)
    parents = elimination_parents(m.tree, actuators)
    if ties is not None:
        A, squares = ties
        M, parents = kkt.stiffen(M, A, row_weights(M, squares)), tuple(range(-1, len(M) - 1))
    return linalg.tree_ltdl(M, parents, lenient=True, by_rows=by_rows), push


def elimination_parents(tree: Skeleton, actuators: Servos) -> tuple[int, ...]:
    """The tree along which M + h Σ Gᵀ K G is eliminated: that of the velocities, with what servos tie together."""
    parents = tree.velocity_parents
    near = [{p} - {-1} for p in parents]
    for servo in actuators.coupling:
        some = actuators.moved_velocities(servo)
        for i in some:
            near[i] |= {j for j in some if j < i}
    found = [-1] * len(parents)
    # eliminating an index ties those that it is tied to, and only the next one needs to remember them
    for i in reversed(range(len(parents))):
        if near[i]:
            found[i] = max(near[i])
            near[found[i]] |= near[i] - {found[i]}
    return tuple(found)


def bias_in_space(m: Mechanism, links: Field, v: Array) -> Array:
    """The joint forces (nv,) of a motion that keeps its velocities in space: c without what turning axes add to it."""
    still = m.velocities(-m.manifold().turning(v))
    return m.join(inverse.inverse_dynamics(m.sweep, links, still, m.base))


def velocity_change(m: Mechanism, response: Response, impulse: Array, parents: tuple[int, ...] = ()) -> Array:
    """M† Jᵀ λ (nv,), for impulses λ (rows,); ``parents``: of the factor, where it is not the tree's own."""
    if len(response) == 1:
        return np.asarray(response[0] @ impulse)
    J, L, reciprocals = response
    return linalg.TreeLTDL(L, zeros(0), reciprocals, parents or m.tree.velocity_parents).solve(J.T @ impulse)


class Stepped(NamedTuple):
    """The end of a step."""

    q: Array
    v: Array
    work: Any
    """Work of the impulses, Σ λ · J (v + v⁺) / 2, J."""
    friction_work: Any
    """The tangential part of it."""


def finish_step(
    m: Mechanism, at: UnsolvedStep, q: Array, impulse: Array, h: Any, blocks: ContactBlocks | None = None
) -> Stepped:
    """Velocities and coordinates after impulses (blocks, 3); with servos, their ``blocks`` must be known."""
    passive, parents = (None, ()) if blocks is None else (blocks.passive, elimination_parents(m.tree, blocks.actuators))
    n = 3 * at.problem.blocks
    v = at.free + velocity_change(m, at.response, impulse.reshape(n), parents)
    u, works = velocity_after(at, impulse), work_of(at, impulse, passive)
    normal = at.problem.G[:, 0, :, 0]
    push = zeros(at.problem.blocks, 3)
    left = [largest([gap, -h * RELAXATION_SPEED]) for gap in at.gaps + h * u[:, 0]]
    push[:, 0] = separation(normal, np.array(left, dtype=object), CORRECTION_SWEEPS)
    moved = h * v + at.closing + velocity_change(m, at.response, push.reshape(n), parents)
    return Stepped(*m.manifold().straight(q, v, moved), works.sum(), works[:, 1:].sum())


def velocity_after(at: UnsolvedStep, impulse: Array) -> Array:
    """J v⁺ of all impulses (blocks, 3)."""
    u = at.problem.velocity(impulse)
    u[:, 0] = u[:, 0] - at.shift
    return u


def work_of(at: UnsolvedStep, impulse: Array, passive: int | None) -> Array:
    """Work of the first ``passive`` of impulses (blocks, 3) along their axes, (passive, 3)."""
    return np.asarray(((velocity_after(at, impulse) + at.approach) * impulse / 2)[:passive])


def separation(G: Array, gaps: Array, sweeps: int) -> Array:
    """π (blocks,) with 0 ≤ π ⟂ gaps + G π ≥ 0 after a number of sweeps; blocks that nothing moves carry nothing."""
    count = len(gaps)
    push = zeros(count)
    some = [less(0, G[i, i]) for i in range(count)]
    inverse = [select(some[i], 1 / select(some[i], G[i, i], 1), 0) for i in range(count)]
    for _ in range(sweeps):
        for i in range(count):
            others: Any = gaps[i]
            for j in range(count):
                if j != i:
                    others = others + G[i, j] * push[j]
            push[i] = largest([-others * inverse[i], 0])
    return push
