"""Linear systems of contacts on chains, eliminated contact by contact from the base to the tip.

Steps of the methods for a contact problem ask for impulses dλ of all blocks with

    A dλ + Q R α = f        α = M⁻¹ Σ Rᵀ dλ        A, Q (3, 3) of every block, R its rows on the twist of its node

On a tree, D = A⁻¹ Q may act as an inertia of the node
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_recursion`). That loses digits where a contact is stiff:
A is nearly 0, D nearly ∞, and what a joint leaves of D is a difference of numbers that are as large. Here contacts are
eliminated one after the other instead, with what their nodes yield, Ω, which stiff contacts only diminish. Twists along
a chain are those of a process without memory, for M⁻¹ = Fᵀ F:

    α = Z α⁺ + turned y        Z = (1 − turned Wᵀ) T        Ω = Z Ω⁺ Zᵀ + turned turnedᵀ

so that, base first, with a the motion that the contacts before have caused as if none followed,

    S = A + Q R Ω Rᵀ     z = S⁻¹ (f − Q R a)     a ← a + Ω Rᵀ z     Ω ← Ω − Ω Rᵀ S⁻¹ Q R Ω

and, from the tip on, with ρ the wrench of the contacts behind, dλ = z − S⁻¹ Q R Ω ρ, ρ ← ρ + Rᵀ dλ, at the parent Zᵀ ρ.
This is Kalman's filter, with contacts for measurements and A for their noise. It is as exact as the elimination of
A + Q R M⁻¹ Rᵀ, a matrix of the size of all contacts, in a time that grows with their number alone. Where chains branch,
contacts of two limbs would have to know of each other.

Rows of loops are a border: their impulses η act at all nodes, and A α = 0 says what they are. The answers to them are
found beside the first solution, on the same way there, which is that of the elimination, and back: passes along a
chain are what a step of those methods costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_looped_tree import NODE, TOUCHED
from whippletree.compiler.rollout.dense_solve import inverse_matrix
from whippletree.compiler.rollout.step_space import BLOCK
from whippletree.tree.skeleton import Skeleton

if TYPE_CHECKING:
    from whippletree.compiler.rollout.contact_lists.contact_list_recursion import RecursiveRows

CONTACT_OF_NODE = "contact at node"
"""The register that counts the contacts of a node."""

FIRST = Index(None, 0)
"""The row of f among those that are solved for."""


def is_unbranched(tree: Skeleton) -> bool:
    """Whether every node carries one other at most; any number may stand on the world."""
    carriers = [parent for parent in tree.parents if parent >= 0]
    return len(set(carriers)) == len(carriers)


class ChainSystem:
    """Statements that solve such a system. Buffers of a block that it reads: ``own matrix`` A, ``pull`` Q R, ``thrown``
    R, with the scale that the impulses have.
    """

    def __init__(self, rows: RecursiveRows, blocks: int) -> None:
        self.rows, self.space, self.tree, self.motions = rows, rows.space, rows.tree, rows.motions
        self.ties, self.blocks, width, nodes = rows.closures.count, blocks, rows.width, rows.nodes
        sides = 1 + self.ties  # right-hand sides: f, and the rows of loops
        self.space.work(
            own_matrix=(blocks, 3, 3),
            pull=(blocks, 3, width),
            thrown=(blocks, 3, width),
            chain_inverse=(blocks, 3, 3),  # S⁻¹
            chain_gain=(blocks, 3, width),  # S⁻¹ Q R Ω
            chain_reach=(blocks, 3, width),  # (Ω Rᵀ)ᵀ
            chain_z=(blocks, sides, 3),
            chain_answer=(blocks, sides, 3),  # dλ without loops
            spread=(nodes + 1, width, width),  # Ω of what the contacts up to a node leave
            caused=(nodes + 1, sides, width),  # a
            behind=(nodes + 1, sides, width),  # ρ
            goal=(blocks, 3),  # f
            tie_missed=(self.ties, sides),
            tie_share=(self.ties,),
            tie_matrix=(self.ties, self.ties),
        )

    # ---- solutions -----------------------------------------------------------------------------------------------

    def factor_and_solve(self, goal: str, into: str) -> list[Statement]:
        """S⁻¹ of every block, the answers to the rows of loops, and dλ (blocks, 3) of f (blocks, 3), by the names of
        their buffers.
        """
        found = [*self._eliminate_outwards(goal), *self._return(None), *self._missed(None)]
        return [*found, *self._invert_border(), *self._keep_ties(into)]

    def solve(self, goal: str, into: str) -> list[Statement]:
        """dλ (blocks, 3) of another f (blocks, 3), once S⁻¹ is known."""
        return [*self._solve_outwards(goal), *self._return(FIRST), *self._missed(FIRST), *self._keep_ties(into)]

    # ---- passes along the chain ----------------------------------------------------------------------------------

    def _contacts(self, *statements: Statement, backwards: bool = False) -> tuple[Statement, ...]:
        """Statements for every listed contact of the node in hand."""
        one: tuple[Statement, ...] = (
            Lookup(BLOCK, self.space.address("contact of node", NODE, CONTACT_OF_NODE)),
            *self.rows.enter(),
            If(self.space.address("flag", BLOCK), statements),
        )
        return (
            Lookup("contacts of node", self.space.address("contacts of node", NODE)),
            Loop(CONTACT_OF_NODE, Index("contacts of node"), one, backwards=backwards),
        )

    def _joint(self, own: int) -> list[Piece]:
        """Where a node and its parent have their origins, and what the joint between them does."""
        places = [self.tree.origin(NODE), self.tree.origin("parent")]
        return [*places, self.tree.own("W", own), self.tree.own("turned", own)]

    def _eliminate_outwards(self, goal: str) -> list[Statement]:
        """From the base on: Ω and a, of f and of the rows of loops, with S⁻¹ and z of every contact."""
        at, each, motions = self.space.at, self.space.each, self.motions

        def hand_on(own: int, spread: Array, a: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            T = np.array([motions.moved_motion(axis, X - Y) for axis in np.eye(motions.width, dtype=int)], dtype=object)
            Z = T.T - turned.T @ (W @ T.T)
            return [Z @ spread @ Z.T + turned.T @ turned, self._carried(a, X - Y, W, turned)]

        def eliminate(A: Array, pull: Array, thrown: Array, f: Array, spread: Array, a: Array, *Y: Array) -> list[Any]:
            reach, ahead = thrown @ spread.T, pull @ spread
            inverse = inverse_matrix(A + pull @ reach.T)
            gain = inverse @ ahead
            goals = np.array([f, *[pull @ row for row in (Y[0] if Y else ())]], dtype=object)
            z = (goals - a @ pull.T) @ inverse.T
            return [inverse, gain, reach, z, spread - reach.T @ gain, a + z @ reach]

        here = [at("spread", TOUCHED), at("caused", TOUCHED)]
        ties = [self.rows.bare.at("Y", None, TOUCHED)] if self.ties else []
        block = traced_block(
            eliminate,
            [*each(("own matrix", "pull", "thrown", goal), BLOCK), *here, *ties],
            [*each(("chain inverse", "chain gain", "chain reach", "chain z"), BLOCK), *here],
        )

        def reads(own: int) -> list[Piece]:
            return [*each(("spread", "caused"), "parent"), *self._joint(own)]

        return [
            self.space.put(0, *each(("spread", "caused"), Index(None, self.rows.nodes))),
            *self.tree.over_nodes(
                hand_on, reads, lambda _: each(("spread", "caused"), NODE), then=self._contacts(block)
            ),
        ]

    def _solve_outwards(self, goal: str) -> list[Statement]:
        """From the base on: a of f alone, and z of every contact."""
        at, each = self.space.at, self.space.each

        def hand_on(own: int, a: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            return [self._carried(a, X - Y, W, turned)]

        def ahead(f: Array, pull: Array, inverse: Array, reach: Array, a: Array) -> list[Any]:
            z = inverse @ (f - pull @ a)
            return [z, a + z @ reach]

        here = at("caused", TOUCHED, FIRST)
        reads = [*each((goal, "pull", "chain inverse", "chain reach"), BLOCK), here]
        block = traced_block(ahead, reads, [at("chain z", BLOCK, FIRST), here])
        return self.tree.over_nodes(
            hand_on,
            lambda own: [at("caused", "parent", FIRST), *self._joint(own)],
            lambda _: [at("caused", NODE, FIRST)],
            then=self._contacts(block),
        )

    def _carried(self, a: Array, arm: Array, W: Array, turned: Array) -> Array:
        """Motions (…, width) of a parent as its node has them if nothing acts there."""
        rate = _by_row(lambda one: self.motions.moved_motion(one, arm), a)
        return np.asarray(rate - (rate @ W.T) @ turned)

    def _return(self, row: Index | None) -> list[Statement]:
        """From the tip on: ρ, and dλ without loops; of all rows, or of f alone."""
        at, each = self.space.at, self.space.each

        def back(z: Array, gain: Array, thrown: Array, rho: Array) -> list[Any]:
            change = z - rho @ gain.T
            return [change, rho + change @ thrown]

        def hand_back(own: int, rho: Array, above: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            kept = rho - (rho @ turned.T) @ W
            return [above + _by_row(lambda one: self.motions.moved_wrench(one, X - Y), kept)]

        behind = at("behind", TOUCHED, row)
        reads = [at("chain z", BLOCK, row), *each(("chain gain", "thrown"), BLOCK), behind]
        block = traced_block(back, reads, [at("chain answer", BLOCK, row), behind])
        return [
            Loop(NODE, self.rows.nodes + 1, (self.space.put(0, at("behind", NODE, row)),)),
            *self.tree.over_nodes(
                hand_back,
                lambda own: [at("behind", NODE, row), at("behind", "parent", row), *self._joint(own)],
                lambda _: [at("behind", "parent", row)],
                backwards=True,
                first=self._contacts(block, backwards=True),
            ),
        ]

    # ---- loops ---------------------------------------------------------------------------------------------------

    def _missed(self, row: Index | None) -> list[Statement]:
        """``tie missed``: −A α of the impulses of all rows, or of those of f alone."""
        if not self.ties:
            return []
        at = self.space.at

        def add(missed: Array, thrown: Array, x: Array, Y: Array) -> list[Any]:
            return [missed + Y @ (x @ thrown).T]

        missed = at("tie missed", None, row)
        reads = [missed, at("thrown", BLOCK), at("chain answer", BLOCK, row), self.rows.bare.at("Y", None, TOUCHED)]
        return [self.space.put(0, missed), self.rows.each_active(traced_block(add, reads, [missed]))]

    def _invert_border(self) -> list[Statement]:
        """The inverse of what the answers to the rows of loops leave of A M⁻¹ Aᵀ."""
        if not self.ties:
            return []
        at = self.space.at
        reads = [self.rows.bare.at("crossed"), at("tie missed")]
        return [traced_block(lambda own, missed: [-inverse_matrix(own - missed[:, 1:])], reads, [at("tie matrix")])]

    def _keep_ties(self, into: str) -> list[Statement]:
        """dλ: what was found for f, less what opens loops."""
        at = self.space.at
        found, place = at("chain answer", BLOCK), at(into, BLOCK)
        if not self.ties:
            return [self.rows.each_active(traced_block(lambda x: [x[0]], [found], [place]))]
        reads = [at("tie matrix"), at("tie missed", None, FIRST)]
        share = traced_block(lambda S, missed: [S @ missed], reads, [at("tie share")])
        less_open = traced_block(lambda x, share: [x[0] - share @ x[1:]], [found, at("tie share")], [place])
        return [share, self.rows.each_active(less_open)]


def _by_row(function: Callable[[Array], Any], rows: Array) -> Array:
    """A function of vectors (width,), of one or of some of them (n, width)."""
    return np.array([function(row) for row in rows], dtype=object) if rows.ndim > 1 else np.asarray(function(rows))
