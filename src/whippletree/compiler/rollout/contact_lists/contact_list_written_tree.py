"""A short tree in a compiled step: its dynamics written out, M = Lᵀ D L and F = D^(−1/2) L⁻ᵀ.

The code grows with the square of the depth; see
:class:`~whippletree.compiler.rollout.contact_lists.contact_list_trees.TreeInStep` for what it offers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import sqrt
from whippletree.compiler.frontend.limbs import NODES, NUMBERS
from whippletree.compiler.frontend.node_wrenches import TWIST, screws_of
from whippletree.compiler.program import Address, Block, Index, Lookup, Statement, Switch
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_limbs import limbs_beside
from whippletree.compiler.rollout.contact_lists.contact_list_motors import MotorNumbers
from whippletree.compiler.rollout.motion_space import screw_rows
from whippletree.compiler.rollout.step_space import BLOCK, COLUMN_ROOM, LIMB, STEP, RowPlace, StepSpace
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.geometry.shape_numbers import POSE, pose_of
from whippletree.contact.implicit_springs import forces_of_joints, implicit_links
from whippletree.contact.time_step import bias_in_space, elimination_parents, implicit_factor
from whippletree.functions import Shape
from whippletree.spatial import add_cross
from whippletree.spatial.modal import PortWeight
from whippletree.tree.element_forces import elastic_energy
from whippletree.tree.links import world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.momentum import gravitational_energy
from whippletree.tree.skeleton import Skeleton
from whippletree.tree.sweeps import Field

MOST_BY_COLUMNS = 15
"""Velocities up to which M is eliminated pivot by pivot; with more, entry by entry, since those that a pivot changes no
longer find room in registers. A quadruped of 18 and a humanoid of 23 take 0.95 of the time; with fewer there is no
difference."""

MOST_LIMBS = 8
"""Limbs up to which rows of a block that touches one of them are worked out for that one alone, by code of its own:
two arms and two legs, or a palm with five fingers."""


class WrittenTree:
    """A tree whose dynamics are written out."""

    def __init__(self, space: StepSpace) -> None:
        self.space, self.tree = space, space.tree
        self.motors = MotorNumbers(space)
        self.massless = bool(space.model.constraints) and (
            bool(self.tree.doubtful) or constraint_set(space.model).light
        )
        """Whether some motion has its inertia from a constraint that stops it: M + Aᵀ R A has the same M† (000)."""
        self.parents = (
            tuple(range(-1, space.model.nv - 1)) if self.massless else elimination_parents(self.tree, space.actuators)
        )
        self.related = [(i, j) for i in range(space.model.nv) for j in linalg.ancestors(self.parents, i)]
        """Entries of L below its diagonal that are not zero."""
        space.work(L=(len(self.related),), root=(space.model.nv,))  # D^(−1/2)
        self.written = 0
        """Blocks that were written so far."""
        self.limbs: list[list[int]] = []
        """Velocities of the limbs that rows of single blocks are told apart by."""

    def poses(self) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def find(tree: Skeleton, q: Array) -> list[Any]:
            m = Mechanism(tree)
            links = m.still(q)
            poses = world_poses(m.sweep, links)
            screws = [row for X, link in zip(poses, links, strict=True) for row in screws_of(X, link.H)]
            ports = [(X, link.X) for X, link in zip(poses, links, strict=True) if isinstance(link.X, PortWeight)]
            screws += [row for X, port in ports for row in screws_of(X, port.S)]
            return [[x for X in poses for x in (*X.R.ravel(), *X.p)], [x for screw in screws for x in screw]]

        writes = [self._nodes("pose", POSE), self.space.at("screw")]
        return self._limbs_beside("poses", find, [(self.space.at("now q"), ("nq",))], writes)

    def _limbs_beside(
        self,
        name: str,
        function: Callable[..., Sequence[Any]],
        reads: Sequence[tuple[Piece, Shape]],
        writes: Sequence[Piece],
    ) -> list[Statement]:
        """See :func:`~whippletree.compiler.rollout.contact_lists.contact_list_limbs.limbs_beside`; the name need not
        differ from others."""
        self.written += 1
        return limbs_beside(self.space, f"{name} {self.written}", self.tree, function, reads, writes)

    def dynamics(self) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def find(tree: Skeleton, q: Array, v: Array, tau: Array, h: Any, *rest: Any) -> list[Any]:
            m = Mechanism(tree)
            tau, ctrl = self.motors.forces(m, q, v, tau, h, rest)
            damping = self.motors.damping(h, rest)
            links = implicit_links(m, m.moving(q, v), h, damping)
            given = tau + self.motors.released_forces(q, ctrl, rest)
            push = h * (given + forces_of_joints(m, q, v, h, damping) - bias_in_space(m, links, v))
            ties = self._ties(m, links, q, self.motors.time(rest))
            by_rows = self.space.model.nv > MOST_BY_COLUMNS
            factor, push = implicit_factor(m, links, q, v, push, h, self.space.actuators, ties, by_rows)
            return [
                [factor.L[i, j] for i, j in self.related],
                [sqrt(x) for x in factor.reciprocals],
                v + factor.solve(push),
                *self.motors.numbers(m, q, tau, ctrl, h),
            ]

        each = self.space.each
        given = [*each(("now q", "now v")), *each(("tau", "dt"), STEP), *self.motors.reads()]
        words: list[Shape] = [("nq",), ("nv",), ("nv",), ()]
        words += [tuple(map(str, part.shape)) for part in given[len(words) :]]
        writes = [*each(("L", "root", "free")), *self.motors.writes()]
        reads = list(zip(given, words, strict=True))
        return [*self.motors.pull_tendons(), *self._limbs_beside("dynamics", find, reads, writes)]

    def _ties(self, m: Mechanism, links: Field, q: Array, t: Any) -> tuple[Array, Array] | None:
        """Rows of constraints that give massless motions inertia, and the typical squares of their sizes."""
        if not self.massless:
            return None
        system = constraint_set(self.space.model)
        kept = list(system.structure.independent)
        return system.rows(m, links, q, None, t).jacobian()[kept], np.asarray(system.structure.squares)

    def twists(self, velocity: str) -> list[Statement]:
        """See :class:`TreeInStep`."""
        reads: list[tuple[Piece, Shape]] = [
            (self.space.at(velocity), ("nv",)),
            (self.space.at("screw"), ("nv", NUMBERS)),
            (self._nodes("pose", POSE, True), (NODES, NUMBERS)),
        ]
        find = lambda tree, *given: [self._twists(*given)]  # noqa: E731
        return self._limbs_beside("twists", find, reads, [self._nodes("twist", TWIST)])

    def backward(self, rows: RowPlace, into: RowPlace, of_block: bool = False) -> list[Statement]:
        """See :class:`TreeInStep`."""
        every = range(self.space.model.nv)
        if not of_block or not self.limbs:
            return [self._backward(rows, into, every)]
        cases = [(self._backward(rows, into, limb),) for limb in (every, *self.limbs)]
        return [Lookup(LIMB, self.space.address(LIMB, BLOCK)), Switch(LIMB, tuple(cases))]

    def _backward(self, rows: RowPlace, into: RowPlace, limb: Sequence[int]) -> Block:
        """F Jᵀ of rows that are zero but for a limb, as what comes out is."""
        nv = self.space.model.nv
        beside = rows.upright and rows.rows is not None

        def find(own: Array, L: Array, root: Array) -> list[Any]:
            J = np.zeros((*own.shape[:-1], nv), dtype=int).astype(object)
            J[..., list(limb)] = own
            found = self._factor(L).backward(J.T).T * root
            return [found[: into.rows], found[-1]] if beside else [found]

        rows = rows._replace(rows=COLUMN_ROOM) if beside else rows
        writes = [into.whole(nv), *([self.space.some("unasked", range(nv))] if beside else [])]
        return traced_block(find, [rows.part(limb), *self.space.each(("L", "root"))], writes)

    def tell_limbs(self, supports: Sequence[Sequence[int]]) -> None:
        """See :class:`TreeInStep`: paths from a tip to the base, if there are a few that are much less than all; of
        several mechanisms with more tips, the mechanisms, whose code together is that of all."""
        nv = self.space.model.nv
        tips = sorted({*range(nv)} - {*self.parents})
        paths = [self.reached([tip]) for tip in tips]
        if len(tips) > MOST_LIMBS:
            paths = self._mechanisms()
        self.limbs = [path for path in paths if 4 * len(path) <= 3 * nv]
        if self.limbs:
            holds = [[i for i, limb in enumerate(self.limbs, 1) if {*limb} >= {*own}] for own in supports]
            self.space.index(LIMB, [min(found, key=lambda i: len(self.limbs[i - 1]), default=0) for found in holds])

    def _mechanisms(self) -> list[list[int]]:
        """Velocities that have inertia in common, one mechanism after the other."""
        found: dict[int, list[int]] = {}
        for i in range(self.space.model.nv):
            found.setdefault(min(self.reached([i])), []).append(i)
        return list(found.values())

    def reached(self, velocities: Sequence[int]) -> list[int]:
        """See :class:`TreeInStep`."""
        return sorted({x for i in velocities for x in (i, *linalg.ancestors(self.parents, i))})

    def forward(self, y: str, into: str, plus: str | None = None) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def find(y: Array, L: Array, root: Array, *base: Array) -> list[Any]:
            found = self._factor(L).forward(root * y)
            return [found + base[0] if base else found]

        reads = [RowPlace(y).whole(self.space.model.nv), *self.space.each(("L", "root"))]
        return [traced_block(find, [*reads, *([self.space.at(plus)] if plus else [])], [self.space.at(into)])]

    def energy(self, placed: bool = False) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def find(q: Array, *given: Array) -> list[Any]:
            m = Mechanism(self.tree)
            poses = [pose_of(row) for row in given[0]] if given else None
            return [[gravitational_energy(m.sweep, m.still(q), m.gravity, poses) + elastic_energy(m, q)]]

        reads = [self.space.at("now q"), *([self._nodes("pose", POSE, True)] if placed else [])]
        return [traced_block(find, reads, [self.space.at("energy")])]

    def _factor(self, L: Array) -> linalg.TreeLTDL:
        """L from its entries that are not zero."""
        full = np.eye(self.space.model.nv, dtype=int).astype(object)
        for (i, j), x in zip(self.related, L, strict=True):
            full[i, j] = x
        return linalg.TreeLTDL(full, zeros(0), zeros(0), self.parents)

    def _twists(self, v: Array, screws: Array, pose: Array) -> list[Any]:
        """Twists of all nodes in the world, (6,) each, their linear parts at the nodes' origins."""
        twists: list[Array] = []
        for node, own in enumerate(screw_rows(self.tree)):
            parent, p = self.tree.parents[node], pose[node, 9:]
            w, u = zeros(3), zeros(3)
            if parent >= 0:
                w = twists[parent][:3]
                u = add_cross(twists[parent][3:], w, p - pose[parent, 9:])
            for i, row in own:
                w, u = w + v[i] * screws[row, :3], u + v[i] * screws[row, 3:6]
            twists.append(np.concatenate([w, u]))
        return [x for twist in twists for x in twist]

    def _nodes(self, name: str, width: int, matrix: bool = False) -> Piece:
        """The rows of all nodes but the world, one after the other or as a matrix."""
        count = len(self.tree.nodes)
        places = tuple(Address(name, (Index(None, i), Index(None, j))) for i in range(count) for j in range(width))
        return Piece((count, width) if matrix else (count * width,), places)
