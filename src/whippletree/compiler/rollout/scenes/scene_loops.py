"""Constraints of a mechanism among the bodies of a scene, met exactly: four-bars, grippers, bodies that are welded.

With M⁻¹ = Fᵀ F of the trees (:mod:`~whippletree.compiler.rollout.scenes.scene_trees`) and rows A of constraints, F Aᵀ
made orthonormal is Q, as in :mod:`~whippletree.compiler.rollout.contact_lists.contact_list_closures`:

    M† = Fᵀ (1 − Qᵀ Q) F          A x = r   has the solution of least M-norm   x = Fᵀ Qᵀ R⁻ᵀ r

The free motion ends at A v = −h γ, rows B = F Jᵀ of contacts and joints lose their part along Q, and everything after
that is as without constraints. Wherever coordinates were moved, loops are closed by Newton's method and velocities
brought to A v = 0, with the F of the step: a metric, which need not be that of the new place.

Constraints act within a group of trees, so that rows of different groups have places of their own: the first rows of
all groups are one row over all velocities, the second ones another, and Q is that of each group. Ten four-bars cost ten
times what one does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, If, Index, Lookup, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_closures import BEFORE, LOOPS_CLOSED, TIE, least_share
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.step_space import RowPlace
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.routes import PIVOT_TOLERANCE
from whippletree.contact.kinematics.scene_mechanism import SceneMechanism
from whippletree.contact.problem.cones import both, largest
from whippletree.contact.time_step import POSITION_PROGRESS
from whippletree.tree.mechanism import Mechanism

if TYPE_CHECKING:  # which have them
    from whippletree.compiler.rollout.scenes.scene_trees import SceneTrees

CLOSING_ROUNDS = 20
"""Times that coordinates are moved at most to close loops; each squares what they are open by."""

GROUP, VELOCITY, TIES = "group", "velocity", "ties"
"""Registers: a group of trees, a velocity of the mechanism, and how many rows the group has."""


class SceneLoops:
    """Statements about the constraints. Buffers, with t rows of a group at most:

    loop Q         (trees, t, width)
    loop open      residuals g of the present coordinates, (trees, t)
    loop wanted    right-hand sides r, then R⁻ᵀ r, (trees, t)
    loop along     the combination of rows of Q that meets them, (trees, width)
    loop gone      the largest residual
    tied F         columns of F less their part along Q, for rows of one velocity
    """

    def __init__(self, trees: SceneTrees, mechanism: SceneMechanism, group_of: Sequence[int]) -> None:
        """``group_of``: of each velocity."""
        self.trees, self.space, self.model = trees, trees.space, mechanism.model
        self.system = constraint_set(self.model)
        self.kept = list(self.system.structure.independent)
        owners = [mechanism.groups_of_rows[i] for i in self.kept]
        self.places = [(group, owners[:k].count(group)) for k, group in enumerate(owners)]
        """Group of each row that is kept, and its number there."""
        self.most = max((place for _, place in self.places), default=-1) + 1
        self.group_of = group_of
        self.space.index("ties of group", [owners.count(group) for group in range(trees.trees)])
        trees.own.work(A=(self.most, self.model.nv), energy=(1,))
        self.space.work(
            loop_Q=(trees.trees, self.most, trees.width),
            loop_open=(trees.trees, self.most),
            loop_wanted=(trees.trees, self.most),
            loop_along=(trees.trees, trees.width),
            loop_gone=(1,),
            loop_gone_before=(1,),
            loop_squares=(3,),
            loop_looks=(1,),
            loop_opens=(1,),
            loop_closed=(1,),
            tied_F=(trees.trees, trees.width, trees.width),
        )

    def begin(self) -> list[Statement]:
        """Zeros beyond the velocities of each group, at the beginning of a call."""
        return [self.space.fill("loop Q", 0.0)]

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _by_group(self, numbers: Array) -> Array:
        """Numbers of all rows, (trees, t)."""
        found = zeros(self.trees.trees, self.most)
        for (group, place), x in zip(self.places, numbers, strict=True):
            found[group, place] = x
        return found

    def rows(self) -> list[Statement]:
        """A, ``loop open`` and ``loop gone`` of the present coordinates."""

        def find(q: Array) -> list[Any]:
            m = Mechanism(self.trees.tree)
            rows = self.system.rows(m, m.still(q), q, None, 0)
            J, A = rows.jacobian()[self.kept], zeros(self.most, self.model.nv)
            for k, (group, place) in enumerate(self.places):
                own = [i for i, of in enumerate(self.group_of) if of == group]
                A[place, own] = J[k, own]
            gaps = zeros(len(self.system.row_names))
            gaps[list(self.system.position_rows)] = rows.residual()
            return [A, self._by_group(gaps[self.kept])]

        at = self.space.at
        worst = traced_block(
            lambda g, gone: [[largest([gone[0], *[abs(x) for x in g]])]],
            [at("loop open", GROUP), at("loop gone")],
            [at("loop gone")],
        )
        found = traced_block(find, [self.trees.at("now q")], [self.trees.at("A"), at("loop open")])
        return [found, self.space.put(0, at("loop gone")), Loop(GROUP, self.trees.trees, (worst,))]

    def _less_velocity(self, velocity: str) -> Statement:
        """``loop wanted`` less A v."""
        trees = self.trees
        wanted = Piece((), (Address("loop wanted", (Index(GROUP), Index(TIE))),))
        entry = Piece((), (Address("tree A", (Index(TIE), Index(VELOCITY))),))
        speed = Piece((), (Address(f"tree {velocity}", (Index(VELOCITY),)),))
        take = traced_block(lambda r, a, v: [[r - a * v]], [wanted, entry, speed], [wanted])
        return Loop(TIE, self.most, (Loop(VELOCITY, self.model.nv, (*trees.place(), take)),))

    def _each_tie(self, *statements: Statement) -> Statement:
        """Statements for every row of every group."""
        count = Lookup(TIES, Address("ties of group", (Index(GROUP),)))
        return Loop(GROUP, self.trees.trees, (count, Loop(TIE, Index(TIES), statements)))

    def _orthonormal(self) -> list[Statement]:
        """Q, and the right-hand sides R⁻ᵀ r; a row that is nearly a combination of those before it makes them NaN."""
        trees, at = self.trees, self.space.at

        def reduce(Q: Array, other: Array, wanted: Any, known: Any) -> list[Any]:
            share = multiply_in_strands(Q, other)
            return [Q - share * other, [wanted - share * known]]

        def finish(Q: Array, wanted: Any, size: Array) -> list[Any]:
            square = multiply_in_strands(Q, Q)
            scale = select(less(PIVOT_TOLERANCE * size[0], square), 1 / sqrt(square), math.nan)
            return [scale * Q, [scale * wanted]]

        own, other = (self.space.each(("loop Q", "loop wanted"), GROUP, tie) for tie in (TIE, BEFORE))
        size = Piece((1,), at("loop squares").addresses[:1])
        measure = traced_block(lambda Q: [[multiply_in_strands(Q, Q)]], own[:1], [size])
        before = Loop(BEFORE, Index(TIE), (traced_block(reduce, [own[0], other[0], own[1], other[1]], own),))
        entry = Piece((), (Address("loop Q", (Index(GROUP), Index(TIE), Index("place in tree"))),))
        copy = traced_block(lambda x: [x], [trees.flat()], [entry])
        row = (
            *trees.in_scene(trees.in_tree.backward(RowPlace("A", (TIE,)), RowPlace("flat"))),
            Loop(VELOCITY, self.model.nv, (*trees.place(), copy)),
        )
        end = traced_block(finish, [*own, size], own)
        return [Loop(TIE, self.most, row), self._each_tie(measure, *([before] if self.most > 1 else []), end)]

    def _answer(self, into: str, plus: str | None = None) -> list[Statement]:
        """Fᵀ Qᵀ R⁻ᵀ r (nv,), and what is added to it."""
        along = self.space.at("loop along", GROUP)
        add = traced_block(
            lambda y, Q, r: [y + r * Q], [along, *self.space.each(("loop Q", "loop wanted"), GROUP, TIE)], [along]
        )
        return [self.trees.clear("loop along"), self._each_tie(add), *self.trees.response("loop along", into, plus)]

    # ---- the beginning of a step ---------------------------------------------------------------------------------

    def release(self) -> list[Statement]:
        """After the dynamics: the free velocity with A v = −h γ, Q of the present coordinates, and ``tied F``."""

        def target(q: Array, v: Array, h: Any) -> list[Any]:
            m = Mechanism(self.trees.tree)
            bias = self.system.rows(m, m.moving(q, v), q, v, 0).bias()[self.kept]
            return [self._by_group(-h * bias)]

        at = self.space.at
        reads = [self.trees.at("now q"), self.trees.at("now v"), at("now dt")]
        column = at("tied F", GROUP, "place in tree")
        copy = traced_block(lambda F: [F], [at("F", GROUP, "place in tree")], [column])
        tie = (*self.trees.place(), copy, *self.project(column, 1))
        return [
            *self.rows(),
            traced_block(target, reads, [at("loop wanted")]),
            self._less_velocity("free"),
            *self._orthonormal(),
            *self._answer("free", "free"),
            Loop(VELOCITY, self.model.nv, tie),
        ]

    def project(self, rows: Piece, count: int) -> list[Statement]:
        """So many rows of the group in hand less their part along Q; zero where that is all but rounding."""
        at = self.space.at

        def squares(B: Array) -> list[Any]:
            return [multiply_in_strands(row, row) for row in np.reshape(B, (count, -1))]

        def less_part(B: Array, Q: Array) -> list[Any]:
            own = np.reshape(B, (count, -1))
            return [own - np.outer(multiply_in_strands(own, Q), Q)]

        def what_moves(B: Array, before: Array, gone: Array) -> list[Any]:
            least = least_share([gone])
            moves = [select(less(least * x, y), 1, 0) for x, y in zip(before, squares(B), strict=True)]
            return [np.reshape(B, (count, -1)) * np.array(moves, dtype=object)[:, None]]

        before = Piece((count,), at("loop squares").addresses[:count])
        take = traced_block(less_part, [rows, at("loop Q", GROUP, TIE)], [rows])
        return [
            Lookup(TIES, Address("ties of group", (Index(GROUP),))),
            traced_block(lambda B: [squares(B)], [rows], [before]),
            Loop(TIE, Index(TIES), (take,)),
            traced_block(what_moves, [rows, before, at("loop gone")], [rows]),
        ]

    # ---- after a displacement ------------------------------------------------------------------------------------

    def close(self, way: str, lifted: str) -> list[Statement]:
        """Coordinates at which all loops are closed, and velocities with A v = 0 there.

        Args:
            way: displacement (nv,) of the trees, to which it is added.
            lifted: the potential energy that this takes is added there.
        """
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address

        def judge(gone: Array, before: Array, looks: Array) -> list[Any]:
            helps = both(less(LOOPS_CLOSED, gone[0]), less(gone[0], POSITION_PROGRESS * before[0]))
            opens = select(both(helps, less(looks[0], CLOSING_ROUNDS)), 1, -1)
            return [[opens], [-opens], gone, [looks[0] + 1]]

        def move(q: Array, v: Array, d: Array, way: Array) -> list[Any]:
            return [*Mechanism(self.trees.tree).manifold().straight(q, v, d), way + d]

        state = [self.trees.at(name) for name in ("now q", "now v", "flat", way)]
        again = (
            traced_block(lambda g: [-g], [at("loop open")], [at("loop wanted")]),
            *self._orthonormal(),
            *self._answer("flat"),
            traced_block(move, state, [state[0], state[1], state[3]]),
        )
        look = traced_block(
            judge,
            each(("loop gone", "loop gone before", "loop looks")),
            each(("loop opens", "loop closed", "loop gone before", "loop looks")),
        )
        return [
            *self._add_energy(lifted, -1),
            put(-1, at("loop closed")),
            put(0, at("loop looks")),
            put(math.inf, at("loop gone before")),
            Until(
                "closing",
                CLOSING_ROUNDS + 1,
                address("loop closed"),
                (*self.rows(), look, If(address("loop opens"), again)),
            ),
            *self._add_energy(lifted, 1),
            put(0, at("loop wanted")),
            self._less_velocity("now v"),
            *self._orthonormal(),
            *self._answer("now v", "now v"),
        ]

    def _add_energy(self, total: str, sign: int) -> list[Statement]:
        """The potential energy of the trees where they are, with a sign, added to a total (1,)."""
        trees, at = self.trees, self.space.at
        reads = [at(total), trees.at("energy")]
        add = traced_block(lambda total, energy: [total + sign * energy], reads, [at(total)])
        return [*trees.in_scene(trees.in_tree.energy()), add]

    def excess(self) -> list[Statement]:
        """How far loops are open, beside how deep contacts overlap, in ``excess``."""
        both_ = self.space.each(("excess", "loop gone"))
        return [traced_block(lambda excess, gone: [[largest([excess[0], gone[0]])]], both_, both_[:1])]
