"""Which blocks may matter in a step that is taken in Python, with their gaps and rows J.

The contacts that are far away are left out, so that the matrix of the step has the size of what touches.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.contact_kinds import TOUCH
from whippletree.compiler.rollout.contact_lists.contact_list_gaps import tendon_limits
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.kinematics.broad_phase import LOOK_AHEAD, Near, Neighbourhood
from whippletree.contact.kinematics.contact_set import Points, contact_set
from whippletree.contact.kinematics.joint_contacts import nearer_ends, nearer_ends_of_many
from whippletree.contact.problem.independent_parts import append_rows, stack_rows
from whippletree.contact.time_step import ContactBlocks
from whippletree.simulation.motion import Motion
from whippletree.tree.mechanism import Mechanism

HELD_ROW, TINY = 1e-12, 1e-300
"""Share of a row below which what constraints leave of it is rounding; and a length that is none."""


class NearRows(NamedTuple):
    """Some of the blocks of a model, k of them."""

    numbers: Array
    """Among all blocks, (k,)."""
    gaps: Array
    """m or rad, (k,)."""
    J: Any
    """Rows of the blocks on velocities, (3k, nv), sparse if they are many."""

    def and_also(self, numbers: Array, gaps: Array, rows: Array) -> NearRows:
        """These, and blocks with rows (n, 3, nv)."""
        J = append_rows(self.J, rows.reshape(-1, rows.shape[-1]))
        return NearRows(np.concatenate([self.numbers, numbers]), np.concatenate([self.gaps, gaps]), J)


class NearBlocks:
    """The blocks of a model that are near: contacts, limits, dry joints, servos with a force range."""

    def __init__(self, motion: Motion, blocks: ContactBlocks, *, written: bool, kernel: bool) -> None:
        """``written``: whether compiled functions know all contacts; ``kernel``: whether the kernel of single scenes
        does, whose narrow phase knows every pair."""
        self.motion, self.model, self.dyn = motion, motion.model, motion.dyn
        self.blocks, self.contacts = blocks, len(blocks.contacts.candidates)
        self._written, self._kernel = written, kernel
        self._mechanism = Mechanism.of(self.model)
        every = list(zip(blocks.contacts.pairs, contact_set(self.model).pairs, strict=True))
        # a hull without corners in some octant has a slot for each octant here, and fewer candidates there
        alike = all(pair.slots == usual.slots for pair, usual in every)
        self._compiled = Neighbourhood(self.blocks.contacts).is_compiled and written and alike
        compares = kernel and not self._compiled
        self.neighbourhood = Neighbourhood(self.blocks.contacts, self._compare if compares else None)

    def gaps(self, q: Array) -> tuple[Array, Array, Array]:
        """Gaps of all contacts (..., contacts) and limits of joints and tendons (..., limits), m or rad, and their
        signs."""
        limits, signs = nearer_ends_of_many(self.blocks.limited, q)
        if self.blocks.taut:
            own, ways, _ = tendon_limits(self.dyn)(q)
            limits, signs = np.concatenate([limits, own], axis=-1), np.concatenate([signs, ways], axis=-1)
        return self._gaps(q), limits, signs

    def _gaps(self, q: Array) -> Array:
        if not self.contacts:
            return np.zeros((*q.shape[:-1], 0))
        if self._compiled:
            return np.asarray(self.dyn.contact_gaps(q)).reshape(*q.shape[:-1], self.contacts)
        if self._kernel:
            return np.asarray(self.dyn.contact_list_gaps(q, reach=self.neighbourhood.told_within))
        if q.ndim > 1:
            return np.array([self._gaps(one) for one in q])
        return self.neighbourhood.gaps(q)

    def immovable(self, q: Array) -> set[int]:
        """Numbers of the contacts that overlap at q (nq,) and whose gaps no velocity of the model changes."""
        # asked once, of a start that overlaps: rows of J in Python, rather than compile every one of them for it
        near = self.neighbourhood.overlapping(q) if self.contacts else self._nothing_near
        normals = self.without_held(0.0, q, near.jacobian[::3])
        return {int(number) for number, row in zip(near.numbers, normals, strict=True) if not row.any()}

    def rows(self, t: float, q: Array, v: Array, free: Array, h: float) -> NearRows:
        """Blocks that may matter in a step from q and v, whose velocity without impulses is ``free``; without what
        constraints hold."""
        found = self._rows(q, v, free, h)
        return self._without_immovable(found._replace(J=self.without_held(t, q, found.J)))

    def closing_rows(self, q: Array, reach: float) -> NearRows:
        """Contacts and limits that are no farther apart than ``reach``, m."""
        return self._join_rows(q, self._within(q, reach), reach, np.arange(0))

    def _rows(self, q: Array, v: Array, free: Array, h: float) -> NearRows:
        """:meth:`rows`, with what constraints hold."""
        span = LOOK_AHEAD * h * max(np.abs(v).max(initial=0.0), np.abs(free).max(initial=0.0))
        near = self._near(q, v, free, h)
        found = self._join_rows(q, near, span, np.arange(len(self.blocks.rubbing)))
        if self.blocks.moments:
            found = self._with_moments(q, near, found)
        count = len(self.blocks.servos)
        if not count:
            return found
        own = np.zeros((count, 3, self.model.nv))
        own[:, 1] = self.servo_rows(q)
        return found.and_also(np.arange(self.blocks.passive, self.blocks.count), np.zeros(count), own)

    def servo_rows(self, q: Array) -> Array:
        """Rows (bounded, nv) of servos with a force range."""
        return self.blocks.actuators.rows(self._mechanism, q, self.blocks.servos).astype(float)

    def _without_immovable(self, found: NearRows) -> NearRows:
        """These blocks, less the contacts whose gaps no velocity changes: whatever would press there, presses for no
        reason, and friction would hold what turns freely."""
        numbers, gaps, rows = found
        normals = abs(rows[::3]).sum(axis=1)
        still = (numbers < self.contacts) & (np.asarray(normals).ravel() == 0)
        if not still.any():
            return found
        candidates = {int(number) for number in numbers[still]}
        moments = enumerate(self.blocks.moments, start=self.blocks.first_moment)
        hosted = [number for number, moment in moments if moment.candidate in candidates]
        kept = np.flatnonzero(~(still | np.isin(numbers, hosted)))
        return NearRows(numbers[kept], gaps[kept], rows[(3 * kept[:, None] + np.arange(3)).ravel()])

    def _with_moments(self, q: Array, near: Near, found: NearRows) -> NearRows:
        """These blocks, and the torsional and rolling friction of those contacts that are near."""
        blocks, place = self.blocks, {int(number): i for i, number in enumerate(near.numbers)}
        some = [i for i, moment in enumerate(blocks.moments) if moment.candidate in place]
        if not some:
            return found
        turning = self.neighbourhood.turning_jacobian(q, near).toarray().reshape(-1, 3, self.model.nv)
        own = blocks.moment_rows([turning[place[blocks.moments[i].candidate]] for i in some], some).astype(float)
        return found.and_also(blocks.first_moment + np.array(some), np.zeros(len(some)), own)

    def _join_rows(self, q: Array, near: Near, span: float, rubbing: Array) -> NearRows:
        """Some contacts, the limits within ``span``, and some dry joints."""
        distances, signs = (x.astype(float) for x in nearer_ends(self.blocks.limited, q))
        close = np.flatnonzero(distances <= span)
        numbers = np.concatenate([near.numbers, self.contacts + close, self.blocks.closing + rubbing]).astype(int)
        gaps = np.concatenate([near.gaps, distances[close], np.zeros(len(rubbing))])
        joints = [self.blocks.limited[i].v for i in close] + [self.blocks.rubbing[i].v for i in rubbing]
        directions = [0] * len(close) + [1] * len(rubbing)  # along the normal, and along the first tangent
        rows = stack_rows(near.jacobian, joints, directions, [*signs[close], *np.ones(len(rubbing))])
        found = NearRows(numbers, gaps, rows)
        return self._with_tendons(q, span, found) if self.blocks.taut else found

    def _with_tendons(self, q: Array, span: float, found: NearRows) -> NearRows:
        """These blocks, and the limits of tendons within what a motion of ``span`` of every velocity changes."""
        distances, _, derivatives = tendon_limits(self.dyn)(q)
        close = np.flatnonzero(distances <= span * np.abs(derivatives).sum(axis=1))
        own = np.zeros((len(close), 3, self.model.nv))
        own[:, 0] = derivatives[close]
        return found.and_also(self.blocks.first_tendon + close, distances[close], own)

    def _near(self, q: Array, v: Array, free: Array, h: float) -> Near:
        if self._compiled:
            J = np.asarray(self.dyn.contact_jacobian(q)).reshape(self.contacts, 3, self.model.nv)
            fastest = max(float(np.abs(J @ speed).max()) for speed in (v, free))
            return self._choose_near(self._gaps(q), J, LOOK_AHEAD * h * fastest)
        return self.neighbourhood.near(q, (v, free), h) if self.contacts else self._nothing_near

    def _within(self, q: Array, reach: float) -> Near:
        """Contacts whose gaps are at most ``reach``, m."""
        if self._compiled:
            J = np.asarray(self.dyn.contact_jacobian(q)).reshape(self.contacts, 3, self.model.nv)
            return self._choose_near(self._gaps(q), J, reach)
        return self.neighbourhood.within(q, reach) if self.contacts else self._nothing_near

    def _compare(self, q: Array, reach: float) -> Points:
        """Where the candidates are, by the narrow phase of the kernel."""
        found = np.asarray(self.dyn.contact_list_touches(q, reach=reach)).reshape(self.contacts, TOUCH)
        return Points(found[:, 0], found[:, 1:4], found[:, 4:].reshape(-1, 3, 3))

    def _choose_near(self, gaps: Array, J: Array, reach: float) -> Near:
        close = np.flatnonzero(gaps <= reach)
        return Near(close, gaps[close], J[close].reshape(-1, self.model.nv))

    @property
    def _nothing_near(self) -> Near:
        return Near(np.arange(0), np.zeros(0), np.zeros((0, self.model.nv)))

    def without_held(self, t: float, q: Array, rows: Any) -> Any:
        """Rows J (m, nv), zero where constraints take all of one: what is left of it is rounding, which no impulse may
        be divided by."""
        if not self.model.constraints or not rows.shape[0]:
            return rows
        A = self.motion.constraint_rows(t, q)[self._rigid_rows]
        sizes, across = np.linalg.svd(A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), TINY))[1:]
        Q = across[: int((sizes > HELD_ROW * sizes.max(initial=0.0)).sum())]
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        left = np.linalg.norm(dense - (dense @ Q.T) @ Q, axis=1)
        moves = left > HELD_ROW * np.linalg.norm(dense, axis=1)
        return (
            rows if moves.all() else moves[:, None] * rows if rows is dense else rows.multiply(moves[:, None]).tocsr()
        )

    @cached_property
    def _rigid_rows(self) -> list[int]:
        """Rows of the constraints that do not yield."""
        system = constraint_set(self.model)
        return [i for i, c in enumerate(system.compliance) if not c and i not in system.relaxed_rows]
