"""Closing the loops of long mechanisms, and finding their redundant rows, at body level: numbers only.

What :mod:`whippletree.constraints.loop_closure` and :mod:`whippletree.constraints.redundancy` do with dense matrices,
for mechanisms with more than :data:`~whippletree.constraints.singular.exploration.LONG_SYSTEM` velocities in one
cluster. The smallest motion that changes the rows by −g solves the block matrix [1 Aᵀ; A 0]: a mechanism whose bodies
have no mass and whose joints have rotors of 1 kg m². So it is found by the same elimination as accelerations
(:mod:`whippletree.constraints.long_systems.front_elimination`), and a row is redundant where its pivot vanishes: it
depends on rows that were eliminated before it. Joints and constraints of one kind are evaluated together
(:mod:`whippletree.arithmetic.lanes`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.dual_numbers import Dual, slopes
from whippletree.arithmetic.lanes import Lanes, plain
from whippletree.constraints.long_systems.body_elements import (
    Element,
    Held,
    TiedJoint,
    closure_element,
    frame_rows,
    joint_element,
    motion_matrix,
    tie_element,
    tied_rows,
)
from whippletree.constraints.long_systems.body_system import Binding, Unknowns, with_copies
from whippletree.constraints.long_systems.front_elimination import EliminationPlan, Entries, Fronts, factor_fronts
from whippletree.constraints.long_systems.hub_copies import NO_COPIES, HubCopies
from whippletree.constraints.long_systems.row_weights import Weight
from whippletree.constraints.loop_closure import CLOSING_ITERATIONS, Closure
from whippletree.constraints.moving_residuals import lifted_pose
from whippletree.constraints.rows import Prepared
from whippletree.constraints.ties import demand_content, joint_numbers
from whippletree.spatial import Pose, RigidInertia
from whippletree.tree.links import Link
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton

DEPENDENT_FRONT = 2.0**-36
"""Share of its free mobility (about 1e-11) up to which the pivot of a row says that it depends on others: the square of
the sine of its angle to them, whose rounding grows with the number of bodies."""

STALLED_STEPS, STALLED_SHARE = 12, 1e-2
"""Steps, refused ones too, in which what is open must shrink by this share, or the search ends. Rows that are nearly
dependent (gears whose ratios are off by 1e-6) count as dependent; damped steps then close the rest by 1e-4 of it at a
time. Twelve steps raise the damping from nothing to more than the rows, so a refused step is not taken for a stall."""

UNINVOLVED = 1e-9
"""Share of the largest factor in a dependency of rows below which a row takes no part in it. Other choices leave out
other rows of those that depend on each other."""

COMBINATIONS_AT_ONCE = 64
"""Dependencies that are found together: as many numbers for every unknown of the system are held in memory."""


class _ElementGroup(NamedTuple):
    """Elements of one kind, evaluated together: entries, and rows on motions."""

    unknowns: Array
    """(count, z)."""
    rows: Array
    """Multipliers, (count, r)."""
    K: Array
    """(count, z, z)."""
    B: Array
    """(count, r, z)."""


class LongClosure(Closure):
    """The rigid position rows of a long mechanism as a sparse system of equations in floats."""

    def __init__(self, mechanism: Mechanism, demands: Sequence[Prepared], t: float = 0.0) -> None:
        super().__init__(mechanism, demands, t)
        self._plans: dict[bytes, EliminationPlan] = {}

    def residual(self, q: Array) -> Array:
        """g (p,)."""
        with np.errstate(invalid="ignore"):
            found = _Bodies(self._free, q, self.t).residuals()
        return np.concatenate([np.zeros(0), *found])

    def _unknowns(self, held: Sequence[int], copies: HubCopies = NO_COPIES) -> Unknowns:
        count = sum(len(c.demand.rows) for c in self.demands)
        return Unknowns(self.mechanism.tree, self.demands, range(count), [0] * count, held, copies=copies)

    @cached_property
    def _free(self) -> Unknowns:
        """The unknowns where nothing is held."""
        return self._unknowns(())

    @cached_property
    def _copies(self) -> HubCopies:
        return with_copies(lambda copies: self._unknowns((), copies)).copies

    def solve(self, q: Array, held: Array, tolerance: float) -> tuple[Array, Array]:
        """The coordinates reached from q and their residual; the velocities in ``held`` do not move."""
        tree = self.mechanism.tree
        locked = [k for k, part in enumerate(tree.v_slices) if np.any(held[part])]
        unknowns = self._unknowns(locked, self._copies)
        g, damping = self.residual(q), 0.0
        sizes = [float(np.linalg.norm(g))]
        for _ in range(CLOSING_ITERATIONS):
            if not tolerance < float(np.abs(g).max(initial=0.0)) < np.inf or damping > 1.0:
                break
            if len(sizes) > STALLED_STEPS and sizes[-1] > (1 - STALLED_SHARE) * sizes[-1 - STALLED_STEPS]:
                break
            d = least_motion(LongRowSystem(unknowns, q, self.t, self._plans, damping), g)
            trial = self.move(q, d / max(1.0, float(np.abs(d).max(initial=0.0))))
            after = self.residual(trial)
            if np.linalg.norm(after) < np.linalg.norm(g):
                q, g = trial, after
                damping = damping / 100 if damping > 1e-8 else 0.0
            else:
                damping = max(10 * damping, 1e-8)
            sizes.append(float(np.linalg.norm(g)))
        return q, g


class LongRowSystem:
    """The rows of a long mechanism at a configuration, with the smallest motions that change them, factored."""

    def __init__(
        self,
        unknowns: Unknowns,
        q: Array,
        t: float,
        plans: dict[bytes, EliminationPlan] | None = None,
        damping: float = 0.0,
    ) -> None:
        """``plans``: of systems with the same zeros, shared by those who hold it. ``damping``: as in Levenberg and
        Marquardt's method, relative to the largest row."""
        self.unknowns = unknowns
        self.bodies = _Bodies(unknowns, q, t)
        joints, closures = list(self.bodies.joints()), list(self.bodies.closures())
        self.closures = closures
        groups = [*joints, *self.bodies.ties(), *closures]
        rows, columns, values = (np.concatenate(parts) for parts in zip(*_entries(groups), strict=True))
        if damping:
            largest = max((float(np.sum(own.B**2, axis=2).max(initial=0.0)) for own in closures), default=1.0)
            corner = np.arange(unknowns.closures, unknowns.count)
            rows, columns = np.concatenate([rows, corner]), np.concatenate([columns, corner])
            values = np.concatenate([values, np.full(len(corner), -damping * largest)])
        key = rows.tobytes() + columns.tobytes()
        plans = {} if plans is None else plans
        if key not in plans:
            plans.clear()
            plans[key] = EliminationPlan(unknowns, rows, columns, np.arange(unknowns.closures, unknowns.count))
        self.fronts: Fronts = factor_fronts(plans[key], Entries(rows, columns, values), DEPENDENT_FRONT)

    @property
    def dependent(self) -> list[int]:
        """Factored rows, by number, that depend on rows eliminated before them."""
        own = np.arange(self.unknowns.closures, self.unknowns.count)
        return np.flatnonzero(self.fronts.reciprocals[own] == 0).tolist()

    @property
    def explained_joints(self) -> list[int]:
        """For every row of a joint that depends on rows eliminated before it, a factored row, by number, that takes a
        large part in that: joints stay, and these rows are the redundant ones.

        Without them and :attr:`dependent` all rows are independent: what the rows of joints depend on, solved for one
        factored row each by elimination with pivots.
        """
        joints = np.arange(self.unknowns.motions, self.unknowns.closures)
        lost = joints[self.fronts.plan.used[joints] & (self.fronts.reciprocals[joints] == 0)].tolist()
        solved = _SolvedRows(self.unknowns.count - self.unknowns.closures)
        for k in range(0, len(lost), COMBINATIONS_AT_ONCE):
            found = self.fronts.combinations(lost[k : k + COMBINATIONS_AT_ONCE])
            for combination in found[self.unknowns.closures :].T:
                solved.add(combination)
        return solved.numbers

    @property
    def sines(self) -> Array:
        """For each factored row, the sine of its angle to those that were eliminated before it."""
        own = slice(self.unknowns.closures, self.unknowns.count)
        pivots, sizes = -self.fronts.pivots[own], self.fronts.sizes[own]
        return np.sqrt(np.maximum(pivots, 0.0) / np.where(sizes > 0, sizes, 1.0))

    def squares(self) -> Array:
        """The sum of squares of each factored row's entries on bodies."""
        found = np.zeros(self.unknowns.count)
        for own in self.closures:
            found[own.rows] = np.sum(own.B**2, axis=2)
        return found[self.unknowns.closures :]

    def rates(self, d: Array) -> Array:
        """A d of the factored rows, for velocities d (nv,)."""
        return self.bodies.rates(self.closures, d)


class _SolvedRows:
    """Dependencies of rows, each solved for one row that no other of them contains: elimination with pivots."""

    def __init__(self, count: int) -> None:
        self.numbers: list[int] = []
        """The rows that were solved for."""
        self._others: list[tuple[Array, Array]] = []
        """Of each of them, the rows that its dependency contains, and its factors there, 1 for itself."""
        self._turn = np.full(count, -1)

    def add(self, factors: Array) -> None:
        """Solve a dependency (count,) for its largest factor, unless those before it say the same."""
        largest = np.abs(factors).max(initial=0.0)
        left = np.where(np.abs(factors) > UNINVOLVED * largest, factors, 0.0)
        waiting, turn = self._turns_of(np.flatnonzero(left), -1), -1
        heapq.heapify(waiting)
        while waiting:
            before, turn = turn, heapq.heappop(waiting)
            if turn == before or not left[self.numbers[turn]]:
                continue
            rows, values = self._others[turn]
            left[rows] -= left[self.numbers[turn]] * values
            for later in self._turns_of(rows, turn):
                heapq.heappush(waiting, later)
        left[np.abs(left) <= UNINVOLVED * largest] = 0.0
        if not left.any():
            return
        chosen = int(np.argmax(np.abs(left)))
        rows = np.flatnonzero(left)
        self._turn[chosen] = len(self.numbers)
        self.numbers.append(chosen)
        self._others.append((rows, left[rows] / left[chosen]))

    def _turns_of(self, rows: Array, after: int) -> list[int]:
        """The turns of those of these rows that have been solved for, after one of them."""
        turns = self._turn[rows]
        found: list[int] = turns[turns > after].tolist()
        return found


def least_motion(system: LongRowSystem, g: Array) -> Array:
    """The smallest d (nv,) with A d = −g, for numbers g of all factored rows; in the least-squares sense at dead
    points."""
    un = system.unknowns
    right = np.zeros(un.count)
    right[un.closures :] = -g
    for own in system.closures:
        # the weights of the rows are 1: see joint_element
        np.add.at(right, own.unknowns, np.einsum("krz,kr->kz", own.B, -g[own.rows - un.closures]))
    return system.bodies.joint_motions(system.fronts.solve(right))


class LongValues(NamedTuple):
    """Rows at a state."""

    residual: Array
    """g of the rows that have a position, (p,)."""
    velocity: Array
    """A v + gₜ of all rows, (m,)."""


def long_values(tree: Skeleton, demands: Sequence[Prepared], q: Array, v: Array, t: float) -> LongValues:
    """The rows of a long mechanism at a state."""
    count = sum(len(c.demand.rows) for c in demands)
    bodies = _Bodies(Unknowns(tree, demands, range(count), [0] * count), q, t)
    list(bodies.joints())  # so that h is known
    residual = np.concatenate([np.zeros(0), *bodies.residuals()])
    return LongValues(residual, bodies.rates(list(bodies.closures()), v) + np.concatenate(bodies.drifts()))


class _JointsAtRest(NamedTuple):
    """What the joints of a rigid tree do at a configuration."""

    R: Array
    """Rotation of each body in its parent, (nodes, 3, 3)."""
    p: Array
    """Origin of each body in its parent, (nodes, 3)."""
    H: list[Array]
    """Motions of each joint, (6, n), in the axes of the body."""


def _joints_at(tree: Skeleton, q: Array) -> _JointsAtRest:
    """The joints at q (nq,), those of one kind together."""
    count = len(tree.nodes)
    found = _JointsAtRest(np.zeros((count, 3, 3)), np.zeros((count, 3)), [np.zeros((6, 0))] * count)
    kinds: dict[Any, list[int]] = {}
    for k, node in enumerate(tree.nodes):
        kinds.setdefault((type(node.joint), *joint_numbers(node.joint)), []).append(k)
    for own in kinds.values():
        joint, placements = tree.nodes[own[0]].joint, [tree.nodes[k].placement for k in own]
        R, p = (_lanes_of_numbers(np.array([x[i] for x in placements], dtype=float)) for i in range(2))
        coordinates = _lanes_of_numbers(np.array([q[tree.inputs[k]] for k in own], dtype=float))
        X = Pose(R, p) @ joint.pose(coordinates)
        found.R[own], found.p[own] = _numbers(X.R, len(own)), _numbers(X.p, len(own))
        for k, H in zip(own, _numbers(joint.subspace(coordinates), len(own)), strict=True):
            found.H[k] = H
    return found


class _Bodies:
    """All bodies at a configuration, in floats."""

    def __init__(self, unknowns: Unknowns, q: Array, t: float) -> None:
        self.un, self.t, self.q = unknowns, t, q
        self.R, self.p, self.H = _joints_at(unknowns.tree, q)
        self.world = np.zeros((len(self.H) + 1, 4, 4))
        """Poses in the world, that of the world itself last."""
        self.world[-1] = np.eye(4)
        X = np.zeros((len(self.H), 4, 4))
        X[:, :3, :3], X[:, :3, 3], X[:, 3, 3] = self.R, self.p, 1.0
        for k, parent in enumerate(unknowns.tree.parents):
            self.world[k] = self.world[parent] @ X[k]
        self.h: dict[int, Array] = {}
        """h (z, n) of each node, once its element is known."""

    def _groups(self) -> dict[Any, list[int]]:
        groups: dict[Any, list[int]] = {}
        for k, (shape, parent) in enumerate(zip(self.un.shapes, self.un.tree.parents, strict=True)):
            groups.setdefault((shape, parent < 0), []).append(k)
        return groups

    def joints(self) -> Iterator[_ElementGroup]:
        """Elements of joints, by kind."""
        for (shape, grounded), nodes in self._groups().items():
            H = np.array([self.H[k][:, : shape.n] for k in nodes])
            link = Link(
                Pose(_lanes_of_numbers(self.R[nodes]), _lanes_of_numbers(self.p[nodes])),
                _lanes_of_numbers(H),
                RigidInertia.nothing(),
                1,
            )
            element = joint_element(link, shape, grounded, (Weight(1),) * len(shape.blocked))
            h = _numbers(element.h, len(nodes))
            self.h.update(zip(nodes, h, strict=True))
            yield _group([self.un.of_node[k] for k in nodes], [self.un.rows_of_node[k] for k in nodes], element)

    def ties(self) -> Iterator[_ElementGroup]:
        """The rows by which copies of bodies move as these do."""
        if self.un.ties:
            element = tie_element((Weight(1),) * 6)
            yield _group([tie.unknowns for tie in self.un.ties], [tie.rows for tie in self.un.ties], element)

    def closures(self) -> Iterator[_ElementGroup]:
        """Elements of constraints, by kind; joints must have been asked for before."""
        for bindings in _alike(self.un.demands):
            first = bindings[0]
            G = self._rows(bindings)[[i for i, _ in first.rigid]]
            element = closure_element(G, (Weight(1),) * len(G), zeros(0, G.shape[1]), zeros(0)).element
            yield _group([b.unknowns for b in bindings], [[x for _, x in b.rigid] for b in bindings], element)

    def _rows(self, bindings: Sequence[Binding]) -> Array:
        first = bindings[0]
        if first.prepared.demand.on == "frames":
            return frame_rows(first, self._poses(bindings), self._held_bodies(bindings), self.t)
        joints = []
        for i in range(len(first.joints)):
            own = [b.joints[i] for b in bindings]
            h = np.stack([self.h[k][:, freedom] for k, freedom in own])
            joints.append(TiedJoint(self._coordinates(bindings, i), 0, _lanes_of_numbers(h), 0))
        return tied_rows(first.prepared, joints, self.t)

    def _coordinates(self, bindings: Sequence[Binding], i: int) -> Lanes:
        return Lanes(np.array([self.q[self.un.tree.q_slices[b.joints[i][0]].start] for b in bindings]))

    def _poses(self, bindings: Sequence[Binding]) -> list[Pose]:
        """Poses on bodies, as lanes."""
        found = []
        for i in range(len(bindings[0].places)):
            poses = [b.places[i][1] for b in bindings]
            R, p = np.array([X.R for X in poses], dtype=float), np.array([X.p for X in poses], dtype=float)
            found.append(Pose(_lanes_of_numbers(R), _lanes_of_numbers(p)))
        return found

    def _held_bodies(self, bindings: Sequence[Binding]) -> list[Held]:
        found = []
        for i in range(len(bindings[0].places)):
            X = self.world[[b.places[i][0] for b in bindings]]
            found.append(Held(Pose(_lanes_of_numbers(X[:, :3, :3]), _lanes_of_numbers(X[:, :3, 3])), zeros(6)))
        return found

    def residuals(self) -> list[Array]:
        """g of each demand at position level, in their order."""

        def residual(bindings: Sequence[Binding]) -> Array | None:
            demand = bindings[0].prepared.demand
            if demand.level != "position":
                return None
            return demand.residual(self._residual_arguments(bindings), self.t)

        return self._each(residual)

    def drifts(self) -> list[Array]:
        """gₜ of each demand, or its velocity where nothing moves, in their order."""

        def drift(bindings: Sequence[Binding]) -> Array:
            demand = bindings[0].prepared.demand
            if demand.on == "massless":
                return zeros(len(demand.rows))
            seen = self._residual_arguments(bindings)
            if demand.level == "velocity" and demand.on == "frames":
                return demand.residual(seen, [zeros(6) for _ in seen], self.t)
            if demand.level == "velocity":
                return demand.residual([0] * len(seen), self.t)
            still = [lifted_pose(x) if isinstance(x, Pose) else Dual(x, 0) for x in seen]
            return slopes(demand.residual(still, Dual(self.t, 1)))

        return self._each(drift)

    def _residual_arguments(self, bindings: Sequence[Binding]) -> list[Any]:
        """Arguments of a demand's residual: poses in the world, or coordinates."""
        if bindings[0].prepared.demand.on == "frames":
            return [
                body.X @ pose for body, pose in zip(self._held_bodies(bindings), self._poses(bindings), strict=True)
            ]
        return [self._coordinates(bindings, i) for i in range(len(bindings[0].joints))]

    def _each(self, evaluate: Callable[[Sequence[Binding]], Array | None]) -> list[Array]:
        """Results for demands that are alike, demand by demand; nothing for those without an answer."""
        found: dict[int, Array] = {}
        for bindings in _alike(self.un.demands):
            values = evaluate(bindings)
            if values is not None:
                numbers = _numbers(np.asarray(values, dtype=object), len(bindings))
                found.update((b.rows[0], own) for b, own in zip(bindings, numbers, strict=True))
        return [found[start] for start in sorted(found)]

    def rates(self, closures: Sequence[_ElementGroup], d: Array) -> Array:
        """A d of the factored rows, for velocities d (nv,)."""
        motions = self.motions(d)
        found = np.zeros(self.un.count)
        for own in closures:
            found[own.rows] = np.einsum("krz,kz->kr", own.B, motions[own.unknowns])
        return found[self.un.closures :]

    def motions(self, d: Array) -> Array:
        """All unknowns that are motions (count,), for velocities d (nv,) of the joints; zeros for the others."""
        found = np.zeros(self.un.count)
        for k, (H, parent, part) in enumerate(zip(self.H, self.un.tree.parents, self.un.tree.v_slices, strict=True)):
            V = H @ d[part]
            if parent >= 0:
                V = V + self._carry(k) @ found[6 * parent : 6 * parent + 6]
            found[6 * k : 6 * k + 6] = V
            if self.un.shapes[k].explicit:
                found[list(self.un.of_node[k][-len(d[part]) :])] = d[part]
        for tie in self.un.ties:
            found[list(tie.unknowns[:6])] = found[6 * tie.hub : 6 * tie.hub + 6]
        return found

    def _carry(self, k: int) -> Array:
        return motion_matrix(Pose(self.R[k].astype(object), self.p[k].astype(object))).astype(float)

    def joint_motions(self, x: Array) -> Array:
        """Velocities of the joints (nv,) from motions of bodies."""
        d = np.zeros(self.un.tree.model.nv)
        for k, part in enumerate(self.un.tree.v_slices):
            h = self.h[k]
            if h.shape[1]:
                d[part] = h.T @ x[list(self.un.of_node[k])]
        return d


def _alike(demands: Sequence[Binding]) -> list[list[Binding]]:
    """Demands that can be evaluated together: the same function, with the world in the same places."""
    groups: dict[Any, list[Binding]] = {}
    for b in demands:
        held = tuple(k < 0 for k, _ in b.places), tuple(len(b.unknowns) for _ in b.joints)
        groups.setdefault((demand_content(b.prepared), held, tuple(i for i, _ in b.rigid)), []).append(b)
    return list(groups.values())


def _lanes_of_numbers(numbers: Array) -> Array:
    """Arrays (count, …) as one array of lanes (…)."""
    found = np.empty(numbers.shape[1:], dtype=object)
    for index in np.ndindex(*found.shape):
        own = numbers[(slice(None), *index)]
        # what is zero or one for all of them stays so: rows keep their zeros
        found[index] = int(own[0]) if len(own) and np.all(own == own[0]) and own[0] in (0, 1) else Lanes(own.copy())
    return found


def _numbers(laned: Array, count: int) -> Array:
    """An array of lanes (…) as an array (count, …)."""
    found = np.zeros((count, *laned.shape))
    for index in np.ndindex(*laned.shape):
        found[(slice(None), *index)] = plain(laned[index])
    return found


def _group(unknowns: Sequence[Sequence[int]], rows: Sequence[Sequence[int]], element: Element) -> _ElementGroup:
    count = len(unknowns)
    own = np.array(unknowns, dtype=int).reshape(count, -1)
    numbers = np.array(rows, dtype=int).reshape(count, -1)
    return _ElementGroup(own, numbers, _numbers(element.K, count), _numbers(element.B, count))


def _entries(groups: Sequence[_ElementGroup]) -> Iterator[tuple[Array, Array, Array]]:
    """(rows, columns, values) of all entries that are not zero in some element of their kind.

    An entry that is zero by chance stays: so that the next configuration has the same places, and the same plan.
    """
    for own in groups:
        z = own.K.shape[1]
        for i in range(z):
            for j in range(i + 1):
                if not own.K[:, i, j].any():
                    continue
                a, b, values = own.unknowns[:, i], own.unknowns[:, j], own.K[:, i, j]
                # an unknown that appears twice stands for both triangles
                yield a, b, np.where((a == b) & (i != j), 2 * values, values)
            for r in range(own.rows.shape[1]):
                if own.B[:, r, i].any():
                    yield own.rows[:, r], own.unknowns[:, i], own.B[:, r, i]
