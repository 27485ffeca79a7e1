"""Loops that are not local, by elimination at body level: ladders, trusses, grids (``route="elimination"``).

The system of :mod:`whippletree.constraints.long_systems.body_system` is factored front by front
(:mod:`whippletree.graph.elimination`): with the boundary of a front first and its own unknowns last, a pivot
d = F(p, p) leaves

    F(i, j) ← F(i, j) − F(p, i) F(p, j) / d        j ≤ i < p

and what stands on the boundary at the end is added to the parent front. Right-hand sides go the same way, y(i) ← y(i) −
F(p, i) y(p) / d, and back from the last front to the first, x(p) = (y(p) − Σ F(p, j) x(j)) / d. A tree costs what the
articulated recursion costs, up to a constant; a ladder is linear in its rungs; a planar grid of N bodies costs N^1.5.

A body that follows its parent (:mod:`whippletree.constraints.long_systems.following_bodies`) has a row λ of its joint
for each component a that the joint does not move, with F(a, λ) = 1 and F(λ, λ) = 0. The two are eliminated together,
without a division, as the inverse of [m 1; 1 0] is [0 1; 1 −m]:

    F(i, j) ← F(i, j) − F(λ, i) F(a, j) − (F(a, i) − m F(λ, i)) F(λ, j)        x(a) = y(λ) − Σ F(λ, j) x(j)

Pivots are returned. One of a motion must keep a share of its diagonal entry, or some motion has neither mass nor rows
(condition (32)); one of a row must keep a share of how far each body alone would let it move, Σ F(λ, i)² / F(i, i) over
the motions that it feels, before anything is eliminated, or rows have become dependent. (Where a body is light along a
motion, a share of the largest inertia stands for its own.) Components that no force reaches (across the plane of a
planar mechanism) are left out where their entries are exact zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg, scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import is_zero
from whippletree.constraints import kkt
from whippletree.constraints.long_systems.body_elements import (
    WORLD,
    ClosureElement,
    Element,
    Held,
    TiedJoint,
    closure_element,
    frame_rows,
    joint_element,
    tie_element,
    tied_rows,
)
from whippletree.constraints.long_systems.body_system import (
    Binding,
    Unknowns,
    coupled_unknowns,
    row_weights,
    unknowns_of,
)
from whippletree.graph.elimination import Front, find_fronts, merged_fronts
from whippletree.tree.links import world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field

if TYPE_CHECKING:
    from whippletree.constraints.constraint_set import ConstraintSet


class Entries(NamedTuple):
    """Entries of a symmetric matrix: values at pairs of unknowns, either order, several for one place add up."""

    rows: Array
    columns: Array
    values: Array


class EliminationPlan:
    """How a symmetric system is eliminated: its fronts, and where entries lie in their memory."""

    def __init__(self, unknowns: Unknowns, rows: Array, columns: Array, seeds: Array) -> None:
        """For entries at these places; ``seeds``: unknowns that right-hand sides may reach directly."""
        self.rows = np.arange(unknowns.count) >= unknowns.motions
        """Which unknowns are multipliers."""
        self._of = unknowns
        near = coupled_unknowns(zip(rows.tolist(), columns.tolist(), strict=True), unknowns.count)
        self.used = _mark_reached(near, seeds.tolist())
        self.solved_for = {a: row for a, row in unknowns.solved_for.items() if self.used[a]}
        """Of components that are solved for, the row with which each is eliminated."""
        self.fronts: list[Front] = [
            front._replace(own=self._solved_first(front.own))
            for front in merged_fronts(find_fronts(unknowns.groups(self.used), near))
        ]
        self.pairs = [sum(x in self.solved_for for x in front.own) for front in self.fronts]
        """Of each front, how many of its own unknowns are eliminated in pairs, before all others."""
        self.unknowns = [np.array(front.unknowns, dtype=int) for front in self.fronts]
        """Of each front, in the order of its matrix."""
        self.starts = np.cumsum([0, *[len(own) ** 2 for own in self.unknowns]]).tolist()
        """Where the matrix of each front begins in memory; then its size."""
        self._owner = np.full(unknowns.count, -1)
        self._place = np.zeros(unknowns.count, dtype=int)
        for g, front in enumerate(self.fronts):
            size = len(front.own) + len(front.boundary)
            for i, unknown in enumerate(front.own):
                self._owner[unknown], self._place[unknown] = g, size - 1 - i
        self.local = [{int(x): i for i, x in enumerate(own)} for own in self.unknowns]
        """Of each front, where its unknowns are in its matrix."""
        self.spread = [
            np.array([self.local[front.parent][x] for x in front.boundary[::-1]], dtype=int)
            if front.parent >= 0
            else np.zeros(0, dtype=int)
            for front in self.fronts
        ]
        """Of each front, where its boundary is in the matrix of its parent."""

    def _solved_first(self, own: Sequence[int]) -> tuple[int, ...]:
        rows = set(self.solved_for.values())
        pairs = [x for a in own if a in self.solved_for for x in (a, self.solved_for[a])]
        return (*pairs, *(x for x in own if x not in self.solved_for and x not in rows))

    @property
    def least_inertia(self) -> Array:
        """For each motion, what counts as inertia of a body along it where that is less."""
        return self._of.least_inertia

    @property
    def carried_inertia(self) -> Array:
        """For motions that only other bodies give inertia, what is added to the measure of their pivots; else 0."""
        return self._of.carried_inertia

    @cached_property
    def judged(self) -> Array:
        """Unknowns with a pivot that can fail."""
        judged = self.used.copy()
        for a, row in self.solved_for.items():
            judged[[a, row]] = False
        return np.flatnonzero(judged)

    def places(self, rows: Array, columns: Array) -> tuple[Array, Array, Array]:
        """Front, row and column (the latter not beyond the diagonal) of entries; all of them must be used."""
        fronts = np.empty(len(rows), dtype=int)
        where = np.empty((len(rows), 2), dtype=int)
        key = self._owner * (1 << 32) - self._place  # earlier fronts first; within one, larger places go first
        first_is_row = key[rows] <= key[columns]
        earlier = np.where(first_is_row, rows, columns)
        later = np.where(first_is_row, columns, rows)
        fronts[:] = self._owner[earlier]
        where[:, 0] = self._place[earlier]
        where[:, 1] = [self.local[f][x] for f, x in zip(fronts.tolist(), later.tolist(), strict=True)]
        return fronts, where[:, 0], where[:, 1]


def _mark_reached(near: Sequence[set[int]], seeds: Sequence[int]) -> Array:
    """Marks of all unknowns that right-hand sides reach, through couplings of any length."""
    used = np.zeros(len(near), dtype=bool)
    left = list(dict.fromkeys(seeds))
    used[left] = True
    while left:
        for other in near[left.pop()]:
            if not used[other]:
                used[other] = True
                left.append(other)
    return used


class Fronts(NamedTuple):
    """A factored system."""

    plan: EliminationPlan
    memory: Array
    """Matrices of all fronts one after the other; of every own unknown its row F(p, j), j < p."""
    pivots: Array
    reciprocals: Array
    sizes: Array
    """Measure of a pivot: the diagonal entry of a motion, and of one that others must give inertia what counts as some;
    of a row how far each body alone would let it move, or, where
    negligible rows are left out, all motions that are eliminated before it."""

    def solve(self, right: Array) -> Array:
        """Solutions for right-hand sides (count,) or (count, c); zeros for unknowns that are not used."""
        y = np.array(right)
        for f in range(len(self.plan.fronts)):
            F, numbers, inner = self._front(f)
            solved = len(numbers) - 2 * self.plan.pairs[f]
            for p in range(len(numbers) - 1, solved, -2):
                a, row = y[numbers[p]], y[numbers[p - 1]]
                others = numbers[: p - 1]
                y[others] = y[others] - np.multiply.outer(F[p, : p - 1], row)
                y[others] = y[others] - np.multiply.outer(F[p - 1, : p - 1], a - F[p, p] * row)
            for p in reversed(range(inner, solved)):
                scaled = self.reciprocals[numbers[p]] * y[numbers[p]]
                y[numbers[:p]] = y[numbers[:p]] - np.multiply.outer(F[p, :p], scaled)
        x = np.zeros(right.shape, dtype=right.dtype)
        for f in reversed(range(len(self.plan.fronts))):
            F, numbers, inner = self._front(f)
            solved = len(numbers) - 2 * self.plan.pairs[f]
            for p in range(inner, solved):
                x[numbers[p]] = self.reciprocals[numbers[p]] * (y[numbers[p]] - F[p, :p] @ x[numbers[:p]])
            for p in range(solved + 1, len(numbers), 2):
                a, row, others = numbers[p], numbers[p - 1], numbers[: p - 1]
                x[a] = y[row] - F[p - 1, : p - 1] @ x[others]
                x[row] = y[a] - F[p, p] * x[a] - F[p, : p - 1] @ x[others]
        return x

    def combinations(self, unknowns: Sequence[int]) -> Array:
        """Factors (count, c) of the equations eliminated before that of each of these unknowns whose sum with it is its
        pivot alone: where that vanishes, the equations depend on each other. Of systems in which no body follows."""
        asked = {unknown: k for k, unknown in enumerate(unknowns)}
        x = np.zeros((len(self.plan.used), len(asked)), dtype=self.memory.dtype)
        for f in reversed(range(len(self.plan.fronts))):
            F, numbers, inner = self._front(f)
            for p in range(inner, len(numbers)):
                own = int(numbers[p])
                x[own] = -self.reciprocals[own] * (F[p, :p] @ x[numbers[:p]])
                if own in asked:
                    # equations eliminated later take no part in it
                    x[own, asked[own]] = 1
        return x

    def _front(self, f: int) -> tuple[Array, Array, int]:
        """The matrix of a front, its unknowns, and the size of its boundary."""
        plan = self.plan
        size = len(plan.unknowns[f])
        matrix = self.memory[plan.starts[f] : plan.starts[f + 1]].reshape(size, size)
        return matrix, plan.unknowns[f], len(plan.fronts[f].boundary)

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        """How far each pivot is above a share of its size."""
        found = []
        for x in self.plan.judged.tolist():
            row = bool(self.plan.rows[x])
            pivot = -self.pivots[x] if row else self.pivots[x]
            found.append((kkt.ROWS if row else kkt.MASS, pivot - tolerance * self.sizes[x]))
        return found


def factor_fronts(plan: EliminationPlan, entries: Entries, negligible: float | None = None) -> Fronts:
    """Factor a symmetric system; entries of unknowns that are not used are passed over. Floats or any scalar.

    ``negligible``: of floats, the share of its size up to which the pivot of a row counts as zero: the row is left out,
    and its reciprocal is 0.
    """
    kept = plan.used[entries.rows] & plan.used[entries.columns]
    values = _alike(entries.values[kept])
    dtype = values.dtype
    memory = np.zeros(plan.starts[-1], dtype=dtype)
    fronts, i, j = plan.places(entries.rows[kept], entries.columns[kept])
    width = np.array([len(own) for own in plan.unknowns] or [0])
    np.add.at(memory, np.array(plan.starts)[fronts] + i * width[fronts] + j, values)
    count = len(plan.used)
    pivots, reciprocals, sizes = (np.zeros(count, dtype=dtype) for _ in range(3))
    found = Fronts(plan, memory, pivots, reciprocals, sizes)
    diagonal = entries.rows[kept] == entries.columns[kept]
    np.add.at(sizes, entries.rows[kept][diagonal], values[diagonal])
    for x in np.flatnonzero(plan.carried_inertia).tolist():
        sizes[x] = sizes[x] + plan.carried_inertia[x]
    if negligible is None:
        _add_mobilities(sizes, plan, entries.rows[kept], entries.columns[kept], values)
    for f, front in enumerate(plan.fronts):
        F, numbers, inner = found._front(f)
        solved = len(numbers) - 2 * plan.pairs[f]
        for p in range(len(numbers) - 1, solved, -2):
            row = plan.rows[numbers[: p - 1]]
            sizes[numbers[: p - 1][~row]] += F[p, p] * F[p - 1, : p - 1][~row] ** 2
            _subtract(F, p - 1, F[p - 1, : p - 1], F[p])
            _subtract(F, p - 1, F[p, : p - 1] - F[p, p] * F[p - 1, : p - 1], F[p - 1])
        for p in reversed(range(inner, solved)):
            own = numbers[p]
            pivots[own] = F[p, p]
            if negligible is not None and plan.rows[own] and not -F[p, p] > negligible * sizes[own]:
                continue
            reciprocals[own] = linalg.reciprocal(F[p, p], lenient=True)
            scaled = F[p, :p] * reciprocals[own]
            if negligible is not None and not plan.rows[own]:
                mobile = plan.rows[numbers[:p]]
                sizes[numbers[:p][mobile]] += scaled[mobile] * F[p, :p][mobile]
            _subtract(F, p, scaled, F[p])
        if front.parent >= 0:
            parent = found._front(front.parent)[0]
            where = plan.spread[f]
            parent[np.ix_(where, where)] += F[:inner, :inner]
    return found


def _add_mobilities(sizes: Array, plan: EliminationPlan, rows: Array, columns: Array, values: Array) -> None:
    """Add to the size of each row how far each body alone would let it move."""
    found: dict[tuple[int, int], Any] = {}
    couples = plan.rows[rows] != plan.rows[columns]
    for i, j, x in zip(rows[couples].tolist(), columns[couples].tolist(), values[couples], strict=True):
        pair = (i, j) if plan.rows[i] else (j, i)
        found[pair] = found[pair] + x if pair in found else x
    free: dict[int, Any] = {}
    for motion in {j for _, j in found}:
        own, least = sizes[motion], plan.least_inertia[motion]
        free[motion] = 1 / scalars.select(scalars.less(least, own), own, least)
    for (row, motion), x in found.items():
        sizes[row] = sizes[row] + x * free[motion] * x


def _alike(values: Array) -> Array:
    """The values, as Fractions where some are: the reciprocal of a pivot that is a plain integer would be a float."""
    if values.dtype != object or not any(isinstance(x, Fraction) for x in values):
        return values
    return np.array([Fraction(x) if isinstance(x, (int, float)) else x for x in values], dtype=object)


def _subtract(F: Array, count: int, factors: Array, row: Array) -> None:
    """F(i, j) −= factors(i) row(j), j ≤ i < count."""
    if F.dtype != object:
        F[:count, :count] -= np.multiply.outer(factors, row[:count])
        return
    places = [j for j in range(count) if not is_zero(row[j])]
    for i in range(count):
        if not is_zero(factors[i]):
            for j in places:
                if j <= i:
                    F[i, j] = F[i, j] - factors[i] * row[j]


class Eliminated(NamedTuple):
    """The block matrix of a mechanism, factored at body level: a :class:`whippletree.constraints.kkt.Factored`."""

    unknowns: Unknowns
    fronts: Fronts
    elements: list[Element]
    """Of nodes."""
    closures: list[ClosureElement]
    """Of demands."""

    def solve(self, b: Array, gamma: Array) -> kkt.Solution:
        un = self.unknowns
        right = zeros(un.count, *b.shape[1:])
        for own, element, part in zip(un.of_node, self.elements, un.tree.v_slices, strict=True):
            _add_to(right, own, element.h @ b[part])
        for binding, closing in zip(un.demands, self.closures, strict=True):
            rigid = gamma[list(binding.factored_rigid)]
            _add_to(right, binding.unknowns, closing.load(rigid, gamma[list(binding.factored_soft)]))
            right[[x for _, x in binding.rigid]] = -rigid
        x = self.fronts.solve(right)
        parts = [element.h.T @ x[list(own)] for element, own in zip(self.elements, un.of_node, strict=True)]
        f = zeros(*gamma.shape)
        for binding, closing in zip(un.demands, self.closures, strict=True):
            f[list(binding.factored_rigid)] = -x[[number for _, number in binding.rigid]]
            soft = list(binding.factored_soft)
            f[soft] = closing.soft_forces(x[list(binding.unknowns)], gamma[soft])
        return kkt.Solution(np.concatenate([zeros(0, *b.shape[1:]), *parts]), f)

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        return self.fronts.margins(tolerance)


def _add_to(right: Array, where: Sequence[int], values: Array) -> None:
    """Add values to places that may appear twice."""
    for x, value in zip(where, values, strict=True):
        right[x] = right[x] + value


def eliminate(m: Mechanism, system: ConstraintSet, links: Field, q: Array, t: Any, mask: Array | None) -> Eliminated:
    """Factor the block matrix of a mechanism; ``mask`` (k,): 1 for factored rows that are on, 0 for those that are off.

    Velocity terms of the links play no part: right-hand sides hold them.
    """
    un = unknowns_of(system)
    shapes = zip(links, un.shapes, m.tree.parents, un.joint_weights, strict=True)
    elements = [joint_element(link, shape, parent < 0, weights) for link, shape, parent, weights in shapes]
    held = [Held(X, zeros(6)) for X in world_poses(m.sweep, links)]
    closures, corner = [], zeros(un.count)
    for binding in un.demands:
        found = _closure(un, binding, elements, held, q, t)
        if mask is not None:
            on = mask[list(binding.factored_rigid)]
            found = mask_closure(un, binding, found, on, mask[list(binding.factored_soft)])
            corner[[x for _, x in binding.rigid]] = on - 1
        closures.append(found)
    entries = _entries(un, elements, closures, corner)
    seeds = [
        x for own, e in zip(un.of_node, elements, strict=True) for x, h in zip(own, e.h, strict=True) if np.any(h != 0)
    ]
    seeds += [x for binding in un.demands for x in (*[number for _, number in binding.rigid], *binding.unknowns)]
    plan = EliminationPlan(un, entries.rows, entries.columns, np.array(seeds, dtype=int))
    return Eliminated(un, factor_fronts(plan, entries), elements, closures)


def _closure(
    un: Unknowns, binding: Binding, elements: Sequence[Element], held: Sequence[Held], q: Array, t: Any
) -> ClosureElement:
    """The rows of a demand on the unknowns that they feel."""
    c = binding.prepared
    if c.demand.on == "frames":
        bodies = [WORLD if k < 0 else held[k] for k, _ in binding.places]
        G = frame_rows(binding, [pose for _, pose in binding.places], bodies, t)
    else:
        joints = [TiedJoint(q[un.tree.q_slices[k].start], 0, elements[k].h[:, i], 0) for k, i in binding.joints]
        G = tied_rows(c, joints, t)
    stiffness = np.array([1 / un.compliance[binding.rows[i]] for i in binding.soft], dtype=object)
    return closure_element(G[[i for i, _ in binding.rigid]], row_weights(un, binding), G[list(binding.soft)], stiffness)


def mask_closure(un: Unknowns, binding: Binding, found: ClosureElement, rigid: Array, soft: Array) -> ClosureElement:
    """A closure with zeros for the rows that are off."""
    B, S = (found.element.B.T * rigid).T, (found.S.T * soft).T
    return closure_element(B, found.element.weights, S, found.stiffness)


def _entries(un: Unknowns, elements: Sequence[Element], closures: Sequence[ClosureElement], corner: Array) -> Entries:
    """All entries of the system that are not exactly zero."""
    rows: list[int] = []
    columns: list[int] = []
    values: list[Any] = []
    parts = [(own, numbers, e) for own, numbers, e in zip(un.of_node, un.rows_of_node, elements, strict=True)]
    for binding, own in zip(un.demands, closures, strict=True):
        parts.append((binding.unknowns, tuple(x for _, x in binding.rigid), own.element))
    parts += [(tie.unknowns, tie.rows, tie_element(un.tie_weights(tie))) for tie in un.ties]
    for unknowns, numbers, element in parts:
        for i, j, value in element_entries(unknowns, numbers, element):
            rows.append(i)
            columns.append(j)
            values.append(value)
    for x in np.flatnonzero([not is_zero(c) for c in corner]).tolist():
        rows.append(x)
        columns.append(x)
        values.append(corner[x])
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return Entries(np.array(rows, dtype=int), np.array(columns, dtype=int), found)


def element_entries(unknowns: Sequence[int], rows: Sequence[int], element: Element) -> list[tuple[int, int, Any]]:
    """Entries of one element; those of K that belong to an unknown that appears twice stand for both triangles."""
    found = []
    for i, row in enumerate(element.K):
        for j in range(i + 1):
            if not is_zero(row[j]):
                found.append((unknowns[i], unknowns[j], row[j]))
                if i != j and unknowns[i] == unknowns[j]:
                    found.append((unknowns[i], unknowns[j], row[j]))
    for number, row in zip(rows, element.B, strict=True):
        found += [(number, x, value) for x, value in zip(unknowns, row, strict=True) if not is_zero(value)]
    return found
