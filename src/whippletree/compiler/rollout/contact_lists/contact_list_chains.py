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

These passes go from contact to contact: of nodes that touch nothing, Z and V = turned turnedᵀ become those of the whole
span before a contact, once, when blocks are listed. A belt of 400 links that lands touches with a third of them. What
impulses do to velocities is left to the recursion of M: found by spans, α = Z α⁺ + V ρ, a belt of 1000 links kept
1e-6 m/s of a step however often that was halved.

Rows of loops are a border: their impulses η act at all nodes, and A α = 0 says what they are. The answers to them are
found beside the first solution, on the same way there, which is that of the elimination, and back: passes along a
chain are what a step of those methods costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Collect, Each, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_looped_tree import NODE, TOUCHED
from whippletree.compiler.rollout.dense_solve import inverse_matrix
from whippletree.compiler.rollout.step_space import BLOCK
from whippletree.tree.skeleton import Skeleton

if TYPE_CHECKING:
    from whippletree.compiler.rollout.contact_lists.contact_list_recursion import RecursiveRows

CONTACT_OF_NODE = "contact at node"
"""The register that counts the contacts of a node."""

LINK, ALONG = "contact along chain", "contacts along chains"
"""The register of a contact's place in the order along the chains, and the list of those places that count."""

SPAN, OPEN_SPAN = ("span turn", "span spread"), ("open turn", "open spread")
"""Z and V of the span before a contact, and of that which a node is in."""

LEAST_YIELD = 1e-8
"""What a contact yields to a step of its impulse at least, as a share of what it yields with all others at rest. A run
of a belt that sticks has two numbers of impulses for each motion, so that A alone says how they are shared, and A falls
with ν: from 1e-12 on, rounding in Ω says it. Steps of a landing of 400 links went to a residual of 1e-6 or 1e-7 m/s in
16 rounds, and took 60 more to get from there below 1e-7. A step that yields leaves this share of itself, which the next
one makes good: 40 problems of 400 links take 1269 rounds with 1e-8 and 1e-7, 1376 with 1e-9, 1503 without; 118 of 1000
links 5607 with it, 6595 without, and 29 are left unsolved in place of 39."""

FIRST = Index(None, 0)
"""The row of f among those that are solved for."""


def yielding(A: Array) -> Array:
    """A of a block whose own part of G is about 1, with what it yields at least: see :data:`LEAST_YIELD`."""
    return np.asarray(A + LEAST_YIELD * np.eye(len(A), dtype=int))


def is_unbranched(tree: Skeleton) -> bool:
    """Whether every node carries one other at most; any number may stand on the world."""
    carriers = [parent for parent in tree.parents if parent >= 0]
    return len(set(carriers)) == len(carriers)


class ChainSystem:
    """Statements that solve such a system. Buffers of a block that it reads: ``own matrix`` A, ``pull`` Q R, ``thrown``
    R, with the scale that the impulses have; of each the rows that a contact has, two in a plane.
    """

    def __init__(self, rows: RecursiveRows, blocks: int, contacts: Sequence[Sequence[int]]) -> None:
        """``contacts``: the blocks of every node."""
        # nodes are depth first: one chain after the other
        order = [block for own in contacts for block in own]
        self.places = len(order)
        self.rows, self.space, self.tree, self.motions = rows, rows.space, rows.tree, rows.motions
        self.ties, self.blocks, width, nodes = rows.closures.count, blocks, rows.width, rows.nodes
        self.count = count = rows.count
        sides = 1 + self.ties  # right-hand sides: f, and the rows of loops
        self.space.work(
            own_matrix=(blocks, count, count),
            pull=(blocks, count, width),
            thrown=(blocks, count, width),
            chain_inverse=(blocks, count, count),  # S⁻¹
            chain_gain=(blocks, count, width),  # S⁻¹ Q R Ω
            chain_reach=(blocks, count, width),  # (Ω Rᵀ)ᵀ
            chain_z=(blocks, sides, count),
            chain_answer=(blocks, sides, count),  # dλ without loops
            open_turn=(nodes + 1, width, width),  # Z and V of a node since the contact before it
            open_spread=(nodes + 1, width, width),
            span_turn=(blocks, width, width),  # Z and V of the span before a contact
            span_spread=(blocks, width, width),
            spread=(width, width),  # Ω of what the contacts so far leave
            caused=(sides, width),  # a
            behind=(sides, width),  # ρ
            goal=(blocks, count),  # f
            tie_missed=(self.ties, sides),
            tie_share=(self.ties,),
            tie_matrix=(self.ties, self.ties),
            listed=(self.places,),
        )
        self.space.index("block along chain", order)
        self.space.numbers_list(ALONG, self.places)

    # ---- solutions -----------------------------------------------------------------------------------------------

    def factor_and_solve(self, goal: str, into: str) -> list[Statement]:
        """S⁻¹ of every block, the answers to the rows of loops, and dλ (blocks, 3) of f (blocks, 3), by the names of
        their buffers.
        """
        found = [*self._eliminate_outwards(goal), *self._return(None)]
        return [*found, *self._invert_border(), *self._keep_ties(into)]

    def solve(self, goal: str, into: str) -> list[Statement]:
        """dλ (blocks, 3) of another f (blocks, 3), once S⁻¹ is known."""
        return [*self._solve_outwards(goal), *self._return(FIRST), *self._keep_ties(into)]

    # ---- spans ---------------------------------------------------------------------------------------------------

    def prepare(self) -> list[Statement]:
        """Once blocks are listed: their order along the chains, and the span before each."""
        at, each, motions = self.space.at, self.space.each, self.motions
        flag = self.space.address("flag", BLOCK)
        note = traced_block(lambda flag: [flag], [Piece((), (flag,))], [at("listed", LINK)])

        def hand_on(own: int, Z: Array, V: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            T = np.array([motions.moved_motion(axis, X - Y) for axis in np.eye(motions.width, dtype=int)], dtype=object)
            step = T.T - turned.T @ (W @ T.T)
            return [step @ Z, step @ V @ step.T + turned.T @ turned]

        def reads(own: int) -> list[Piece]:
            places = [self.tree.origin(NODE), self.tree.origin("parent")]
            return [*each(OPEN_SPAN, "parent"), *places, self.tree.own("W", own), self.tree.own("turned", own)]

        def close(Z: Array, V: Array) -> list[Any]:
            return [Z, V, np.eye(motions.width, dtype=int), [0] * motions.width**2]

        here = each(OPEN_SPAN, TOUCHED)
        block = traced_block(close, here, [*each(SPAN, BLOCK), *here])
        one: tuple[Statement, ...] = (
            Lookup(BLOCK, self.space.address("contact of node", NODE, CONTACT_OF_NODE)),
            *self.rows.enter(),
            If(flag, (block,)),
        )
        close_spans: tuple[Statement, ...] = (
            Lookup("contacts of node", self.space.address("contacts of node", NODE)),
            Loop(CONTACT_OF_NODE, Index("contacts of node"), one),
        )
        return [
            Loop(LINK, self.places, (self._block_of_link(), note)),
            Collect(ALONG, LINK, self.places, self.space.address("listed", LINK)),
            # what stands on the world knows nothing of other chains
            self.space.put(0, *each(OPEN_SPAN, Index(None, self.rows.nodes))),
            *self.tree.over_nodes(hand_on, reads, lambda _: each(OPEN_SPAN, NODE), then=close_spans),
        ]

    def _block_of_link(self) -> Lookup:
        return Lookup(BLOCK, self.space.address("block along chain", LINK))

    def _along(self, function: Any, reads: Any, writes: Any, backwards: bool = False) -> Statement:
        """A block for every listed contact in turn, from the bases on or, backwards, from the tips."""
        block = traced_block(function, reads, writes)
        return Each(LINK, ALONG, (self._block_of_link(), *self.rows.enter(), block), backwards=backwards)

    # ---- passes along the chains ---------------------------------------------------------------------------------

    def _eliminate_outwards(self, goal: str) -> list[Statement]:
        """From the base on: Ω and a, of f and of the rows of loops, with S⁻¹ and z of every contact."""
        each = self.space.each

        def eliminate(Z: Array, V: Array, A: Array, pull: Array, thrown: Array, f: Array, *rest: Array) -> list[Any]:
            spread, a, *Y = rest
            spread, a = Z @ spread @ Z.T + V, a @ Z.T
            reach, ahead = thrown @ spread.T, pull @ spread
            inverse = inverse_matrix(A + pull @ reach.T)
            gain = inverse @ ahead
            goals = np.array([f, *[pull @ row for row in (Y[0] if Y else ())]], dtype=object)
            z = (goals - a @ pull.T) @ inverse.T
            return [inverse, gain, reach, z, spread - reach.T @ gain, a + z @ reach]

        here = each(("spread", "caused"))
        reads = [*each((*SPAN, "own matrix", "pull", "thrown", goal), BLOCK), *here, *self._ties_here()]
        writes = [*each(("chain inverse", "chain gain", "chain reach", "chain z"), BLOCK), *here]
        return [self.space.put(0, *here), self._along(eliminate, reads, writes)]

    def _solve_outwards(self, goal: str) -> list[Statement]:
        """From the base on: a of f alone, and z of every contact."""
        at, each = self.space.at, self.space.each

        def ahead(Z: Array, f: Array, pull: Array, inverse: Array, reach: Array, a: Array) -> list[Any]:
            a = Z @ a
            z = inverse @ (f - pull @ a)
            return [z, a + z @ reach]

        here = at("caused", FIRST)
        reads = [*each(("span turn", goal, "pull", "chain inverse", "chain reach"), BLOCK), here]
        return [self.space.put(0, here), self._along(ahead, reads, [at("chain z", BLOCK, FIRST), here])]

    def _return(self, row: Index | None) -> list[Statement]:
        """From the tip on: ρ, and dλ without loops, with −A α of it, ``tie missed``; of all rows, or of f alone."""
        at, each = self.space.at, self.space.each

        def back(Z: Array, z: Array, gain: Array, thrown: Array, rho: Array, *ties: Array) -> list[Any]:
            change = z - rho @ gain.T
            pushed = change @ thrown
            missed = [ties[0] + ties[1] @ pushed.T] if ties else []
            return [change, (rho + pushed) @ Z, *missed]

        behind = at("behind", row) if row else at("behind")
        missed = [at("tie missed", None, row)] if self.ties else []
        z = at("chain z", BLOCK, row)
        reads = [at("span turn", BLOCK), z, *each(("chain gain", "thrown"), BLOCK), behind, *missed, *self._ties_here()]
        writes = [at("chain answer", BLOCK, row), behind, *missed]
        return [self.space.put(0, behind, *missed), self._along(back, reads, writes, backwards=True)]

    def _ties_here(self) -> list[Piece]:
        """The responses to rows of loops at the node of the contact in hand."""
        return [self.rows.bare.at("Y", None, TOUCHED)] if self.ties else []

    # ---- loops ---------------------------------------------------------------------------------------------------

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
