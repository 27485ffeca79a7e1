"""Linear systems of contacts on chains, eliminated contact by contact from the base to the tip.

Steps of the methods for a contact problem ask for impulses dλ of all blocks with

    A dλ + Q R α = f        α = M⁻¹ Σ Rᵀ dλ        A, Q (3, 3) of every block, R its rows on the twist of its node

On a tree, D = A⁻¹ Q may act as an inertia of the node (:mod:`~whippletree.compiler.rollout.contact_list_recursion`).
That loses digits where a contact is stiff: A is nearly 0, D nearly ∞, and what a joint leaves of D is a difference of
numbers that are as large. Here contacts are eliminated one after the other instead, with what their nodes yield, Ω,
which stiff contacts only diminish. Twists along a chain are those of a process without memory, for M⁻¹ = Fᵀ F:

    α = Z α⁺ + turned y        Z = (1 − turned Wᵀ) T        Ω = Z Ω⁺ Zᵀ + turned turnedᵀ

so that, base first, with a the motion that the contacts before have caused as if none followed,

    S = A + Q R Ω Rᵀ     z = S⁻¹ (f − Q R a)     a ← a + Ω Rᵀ z     Ω ← Ω − Ω Rᵀ S⁻¹ Q R Ω

and, from the tip on, with ρ the wrench of the contacts behind, dλ = z − S⁻¹ Q R Ω ρ, ρ ← ρ + Rᵀ dλ, at the parent Zᵀ ρ.
This is Kalman's filter, with contacts for measurements and A for their noise. It is as exact as the elimination of
A + Q R M⁻¹ Rᵀ, a matrix of the size of all contacts, in a time that grows with their number alone. Where chains branch,
contacts of two limbs would have to know of each other.

Rows of loops are a border: their impulses η act at all nodes, and A α = 0 says what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_list_closures import TIE
from whippletree.compiler.rollout.contact_list_trees import NODE, TOUCHED
from whippletree.compiler.rollout.dense_solve import inverse_matrix
from whippletree.compiler.rollout.step_space import BLOCK
from whippletree.tree.skeleton import Skeleton

if TYPE_CHECKING:
    from whippletree.compiler.rollout.contact_list_recursion import RecursiveRows

CONTACT_OF_NODE = "contact at node"
"""The register that counts the contacts of a node."""


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
        self.space.work(
            own_matrix=(blocks, 3, 3),
            pull=(blocks, 3, width),
            thrown=(blocks, 3, width),
            chain_inverse=(blocks, 3, 3),  # S⁻¹
            chain_gain=(blocks, 3, width),  # S⁻¹ Q R Ω
            chain_reach=(blocks, 3, width),  # (Ω Rᵀ)ᵀ
            chain_z=(blocks, 3),
            spread=(nodes + 1, width, width),  # Ω of what the contacts up to a node leave
            caused=(nodes + 1, width),  # a
            behind=(nodes + 1, width),  # ρ
            goal=(blocks, 3),  # f
        )
        if self.ties:
            self.space.work(
                tie_goal=(blocks, 3),
                tied_impulse=(blocks, 3),
                tie_answer=(blocks, self.ties, 3),
                tie_missed=(self.ties,),
                tie_share=(self.ties,),
                tie_matrix=(self.ties, self.ties),
            )

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

    def _outwards(self, carry: Any, name: str, block: Statement) -> list[Statement]:
        """From the base on: ``carry`` a buffer of the nodes from the parent, then ``block`` for its contacts."""

        def reads(own: int) -> list[Piece]:
            return [*self.tree.between(name), self.tree.own("W", own), self.tree.own("turned", own)]

        then = self._contacts(block)
        at = self.space.at
        return self.tree.over_nodes(carry, reads, lambda _: [at(name, NODE)], start=name, then=then)

    def factor(self) -> list[Statement]:
        """S⁻¹ of every block; and the answers to the rows of loops."""
        at, each, motions = self.space.at, self.space.each, self.motions

        def hand_on(own: int, above: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            T = np.array([motions.moved_motion(axis, X - Y) for axis in np.eye(motions.width, dtype=int)], dtype=object)
            Z = T.T - turned.T @ (W @ T.T)
            return [Z @ above @ Z.T + turned.T @ turned]

        def eliminate(A: Array, pull: Array, thrown: Array, spread: Array) -> list[Any]:
            reach, ahead = thrown @ spread.T, pull @ spread
            inverse = inverse_matrix(A + pull @ reach.T)
            gain = inverse @ ahead
            return [inverse, gain, reach, spread - reach.T @ gain]

        names = ("own matrix", "pull", "thrown")
        block = traced_block(
            eliminate,
            [*each(names, BLOCK), at("spread", TOUCHED)],
            [*each(("chain inverse", "chain gain", "chain reach"), BLOCK), at("spread", TOUCHED)],
        )
        return [*self._outwards(hand_on, "spread", block), *self._border()]

    def _solve_alone(self, goal: str, into: str) -> list[Statement]:
        """dλ without loops."""
        at, each, motions = self.space.at, self.space.each, self.motions

        def hand_on(own: int, above: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            rate = motions.moved_motion(above, X - Y)
            return [rate - (W @ rate) @ turned]

        def ahead(f: Array, pull: Array, inverse: Array, reach: Array, caused: Array) -> list[Any]:
            z = inverse @ (f - pull @ caused)
            return [z, caused + z @ reach]

        def back(z: Array, gain: Array, thrown: Array, behind: Array) -> list[Any]:
            change = z - gain @ behind
            return [change, behind + change @ thrown]

        def hand_back(own: int, behind: Array, above: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            return [above + motions.moved_wrench(behind - (turned @ behind) @ W, X - Y)]

        def reads(own: int) -> list[Piece]:
            places = [at("behind", NODE), at("behind", "parent"), self.tree.origin(NODE), self.tree.origin("parent")]
            return [*places, self.tree.own("W", own), self.tree.own("turned", own)]

        there = traced_block(
            ahead,
            [*each((goal, "pull", "chain inverse", "chain reach"), BLOCK), at("caused", TOUCHED)],
            [at("chain z", BLOCK), at("caused", TOUCHED)],
        )
        again = traced_block(
            back,
            [*each(("chain z", "chain gain", "thrown"), BLOCK), at("behind", TOUCHED)],
            [at(into, BLOCK), at("behind", TOUCHED)],
        )
        clear = Loop(NODE, self.rows.nodes + 1, (self.space.put(0, at("behind", NODE)),))
        return [
            *self._outwards(hand_on, "caused", there),
            clear,
            *self.tree.over_nodes(
                hand_back,
                reads,
                lambda _: [at("behind", "parent")],
                backwards=True,
                first=self._contacts(again, backwards=True),
            ),
        ]

    def solve(self, goal: str, into: str) -> list[Statement]:
        """dλ (blocks, 3) of f (blocks, 3), by the names of their buffers."""
        found = self._solve_alone(goal, into)
        if not self.ties:
            return found
        at = self.space.at
        share = traced_block(lambda S, missed: [S @ missed], [at("tie matrix"), at("tie missed")], [at("tie share")])
        less_open = traced_block(
            lambda x, share, answers: [x - share @ answers],
            [at(into, BLOCK), at("tie share"), at("tie answer", BLOCK)],
            [at(into, BLOCK)],
        )
        return [*found, *self._missed(into), share, self.rows.each_active(less_open)]

    # ---- loops ---------------------------------------------------------------------------------------------------

    def _missed(self, impulses: str) -> list[Statement]:
        """``tie missed``: −A α of some impulses alone."""
        at, each = self.space.at, self.space.each

        def add(missed: Array, thrown: Array, x: Array, Y: Array) -> list[Any]:
            return [missed + Y @ (x @ thrown)]

        reads = [at("tie missed"), *each(("thrown", impulses), BLOCK), self.rows.bare.at("Y", None, TOUCHED)]
        return [
            self.space.put(0, at("tie missed")),
            self.rows.each_active(traced_block(add, reads, [at("tie missed")])),
        ]

    def _border(self) -> list[Statement]:
        """The impulses that answer to each row of the loops, and the inverse of what these leave of A M⁻¹ Aᵀ."""
        if not self.ties:
            return []
        at = self.space.at
        aim = traced_block(
            lambda pull, Y: [pull @ Y],
            [at("pull", BLOCK), self.rows.bare.at("Y", TIE, TOUCHED)],
            [at("tie goal", BLOCK)],
        )
        keep = traced_block(lambda x: [x], [at("tied impulse", BLOCK)], [at("tie answer", BLOCK, TIE)])
        less_found = traced_block(
            lambda own, missed: [own - missed],
            [self.rows.bare.at("crossed", None, TIE), at("tie missed")],
            [at("tie matrix", None, TIE)],
        )
        one: tuple[Statement, ...] = (
            self.rows.each_active(aim),
            *self._solve_alone("tie goal", "tied impulse"),
            self.rows.each_active(keep),
            *self._missed("tied impulse"),
            less_found,
        )
        invert = traced_block(lambda S: [-inverse_matrix(S)], [at("tie matrix")], [at("tie matrix")])
        return [Loop(TIE, self.ties, one), invert]
