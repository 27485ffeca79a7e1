"""Linear systems of contacts on a long tree, by articulated recursions: the time of a step grows with its length alone.

Where every contact is between a node and the world, D of a block (see
:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_rows`) acts as an inertia Rᵀ D R of that node, R (3, 6)
being its rows on the node's twist. So

    (M + Σ Jᵀ D J) dv = f        A dv = 0

is one articulated recursion with other inertias, about the nodes' origins in the axes of the world. With T from a
parent's twist to its node's, H the joint's motions and J its rotor, tips first

    P = M + Σ Rᵀ D R + Σ Tᵀ P⁺ T      U = P H      D = Hᵀ U + J      G = D⁻¹ Hᵀ P      P⁺ = P − U G
    f = Σ Rᵀ λ + Σ Tᵀ f⁺              u = D⁻¹ Hᵀ f                   f⁺ = f − U u

and from the base on dv = u − G T α⁺, α = T α⁺ + H dv. D of a block that slips is not symmetric, so P is not, either.
Rows A of loops are a border of the system: their responses Y = (M + Σ Jᵀ D J)⁻¹ Aᵀ are found once after every
elimination, and any solution loses Y (A Y)⁻¹ A dv.

What a node yields to an impulse at itself, Ω = Σ over its path, comes from the factor of M, base first:
Ω = Z T Ω⁺ Tᵀ Zᵀ + turned turnedᵀ with Z = 1 − turned Wᵀ
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_looped_tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, identity
from whippletree.compiler.program import Address, Each, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_chains import ChainSystem, is_unbranched
from whippletree.compiler.rollout.contact_lists.contact_list_closures import Closures
from whippletree.compiler.rollout.contact_lists.contact_list_forms import PLANE, WHOLE, block_of_form
from whippletree.compiler.rollout.contact_lists.contact_list_looped_tree import NODE, TOUCHED, LoopedTree
from whippletree.compiler.rollout.dense_solve import inverse_matrix
from whippletree.compiler.rollout.planar_contacts import touch_in_plane
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK, RowPlace, StepSpace
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.time_step import ContactBlocks
from whippletree.model import Model
from whippletree.spatial import cross
from whippletree.tree.skeleton import Skeleton, skeleton

MOST_TIES = 12
"""Rows of loops up to which they are a border of the recursion: each costs a solution after every elimination."""

VELOCITY = "velocity"
"""The register of a velocity."""

Sides: TypeAlias = Callable[[int], tuple[list[Piece], list[Piece]]]
"""Pieces that a pass over the nodes reads and writes, for a joint of so many freedoms."""


def suits_recursion(model: Model, blocks: ContactBlocks) -> bool:
    """Whether all blocks of a model are contacts of a node with the world, and its loops are few."""
    return not bool(left_out_of_recursion(model, blocks).any()) and _has_few_ties(model)


def suits_world_only(model: Model, blocks: ContactBlocks) -> bool:
    """Whether that is so while its bodies do not touch each other and no joint or tendon reaches a limit."""
    left_out = left_out_of_recursion(model, blocks)
    some = bool(left_out.any() and not left_out.all())
    return some and blocks.count == blocks.closing and _has_few_ties(model)


def left_out_of_recursion(model: Model, blocks: ContactBlocks) -> Array:
    """Blocks that are no contacts of a node with the world, bool (blocks,)."""
    found = np.ones(blocks.count, dtype=bool)
    found[: len(blocks.contacts.candidates)] = [min(pair) >= 0 for pair in _nodes_of_contacts(skeleton(model), blocks)]
    return found


def _nodes_of_contacts(tree: Skeleton, blocks: ContactBlocks) -> list[list[int]]:
    """The nodes of both sides of every candidate; −1 is the world."""
    return [[tree.bodies[body].node for body in (c.first_body, c.second_body)] for c in blocks.contacts.candidates]


def _has_few_ties(model: Model) -> bool:
    ties = len(constraint_set(model).structure.independent) if model.constraints else 0
    return ties <= MOST_TIES and not model.is_flexible


class Recursion:
    """The recursion with one set of inertias. Its buffers have its name; forces are given in others."""

    def __init__(self, space: StepSpace, tree: LoopedTree, closures: Closures, name: str) -> None:
        self.space, self.tree, self.closures, self.name = space, tree, closures, name
        nodes, nv, m = len(space.tree.nodes), space.model.nv, closures.count
        self.nodes, self.nv = nodes, nv
        self.motions, self.width = tree.motions, tree.motions.width
        shapes: dict[str, tuple[int, ...]] = {
            "P": (nodes + 1, self.width, self.width),
            "U": (nv, self.width),
            "G": (nv, self.width),
            "inverse": (nv, tree.sizes[-1]),
            "u": (nv,),
            "v": (nv,),  # dv of the last solution
        }
        if m:
            shapes |= dict.fromkeys(("Y", "Y force"), (m, nodes + 1, self.width))
            shapes |= {"Y of u": (m, nv), "Y of v": (m, nv)}
            shapes |= {"crossed": (m, m), "border": (m, m), "missed": (m,), "share": (m,)}
        space.work(**{f"{name} {key}": shape for key, shape in shapes.items()})

    def at(self, key: str, *registers: Any) -> Piece:
        """Part of one of the recursion's buffers."""
        return self.space.at(f"{self.name} {key}", *registers)

    def one(self, key: str, *registers: str) -> Piece:
        """One number of a buffer."""
        return Piece((), (self.space.address(f"{self.name} {key}", *registers),))

    # ---- elimination ---------------------------------------------------------------------------------------------

    def begin(self) -> list[Statement]:
        """Inertias of the nodes alone."""
        world = self.space.put(0, self.at("P", Index(None, self.nodes)))
        copy = traced_block(lambda M: [M], [self.space.at("weight", NODE)], [self.at("P", NODE)])
        return [Loop(NODE, self.nodes, (copy,)), world]

    def eliminate(self) -> list[Statement]:
        """All joints, tips first; then the responses to rows of loops."""

        def joint(own: int, P: Array, above: Array, X: Array, Y: Array, screws: Array, rotor: Array) -> list[Any]:
            H = self._along(screws)
            U, L = P @ H.T, H @ P
            inverse = inverse_matrix(H @ U + rotor[0] * identity(own))
            G = inverse @ L
            return [U.T, G, inverse, above + self.motions.moved_inertia(P - U @ G, X - Y)]

        def reads(own: int) -> list[Piece]:
            places = [self.tree.origin(NODE), self.tree.origin("parent")]
            return [
                *[self.at("P", register) for register in (NODE, "parent")],
                *places,
                self.tree.own("screw", own),
                self.space.at("rotor", NODE),
            ]

        def writes(own: int) -> list[Piece]:
            return [*[self._own(key, own) for key in ("U", "G", "inverse")], self.at("P", "parent")]

        return [*self.tree.over_nodes(joint, reads, writes, backwards=True), *self._border()]

    def _along(self, screws: Array) -> Array:
        """Motions (own, width) of a node's own velocities."""
        return np.array([self.motions.coordinates(screw) for screw in screws], dtype=object)

    def _own(self, key: str, own: int) -> Piece:
        width = own if key == "inverse" else self.width
        name = f"{self.name} {key}"
        places = [Address(name, (Index("first", i), Index(None, j))) for i in range(own) for j in range(width)]
        return Piece((own, width), tuple(places))

    # ---- solutions -----------------------------------------------------------------------------------------------

    def solve(self, force: str, motion: str, velocities: bool = False) -> list[Statement]:
        """``motion`` of wrenches ``force`` (nodes + 1, width), which are used up; ``velocities``: dv, too."""
        at = self.space.at

        def load(own: int) -> tuple[list[Piece], list[Piece]]:
            u = RowPlace(f"{self.name} u").columns("first", own)
            return [at(force, NODE), at(force, "parent")], [u, at(force, "parent")]

        def answer(own: int) -> tuple[list[Piece], list[Piece]]:
            u, v = (RowPlace(f"{self.name} {key}").columns("first", own) for key in ("u", "v"))
            return [at(motion, "parent"), u], [at(motion, NODE), v]

        world = self.space.put(0, at(motion, Index(None, self.nodes)))
        return [*self._passes(load, answer, world), *self._keep_ties(motion, velocities)]

    def _passes(self, load: Sides, answer: Sides, world: Statement, ties: bool = False) -> list[Statement]:
        """The solution without a border, for one load or several at once: tips first, then from the base on.

        Args:
            load: for a number of freedoms, pieces of f at a node and its parent (…, width); of u (…, own) and f there.
            answer: pieces of the motion of the parent and of u; of the motion of the node and of dv.
            world: sets the motion of the world.
            ties: whether the rows of A act beside the wrenches.
        """
        tree, motions = self.tree, self.motions

        def inwards(own: int, f: Array, above: Array, X: Array, Y: Array, screws: Array, *rest: Array) -> list[Any]:
            U, inverse, *joint = rest
            H, loads = self._along(screws), f.reshape(-1, self.width)
            given = joint[0] if joint else [0] * len(loads)
            u = [inverse @ (H @ one + row) for one, row in zip(loads, given, strict=True)]
            on = [motions.moved_wrench(one - own_u @ U, X - Y) for one, own_u in zip(loads, u, strict=True)]
            return [u, above + np.array(on, dtype=object).reshape(above.shape)]

        def outwards(own: int, above: Array, u: Array, X: Array, Y: Array, screws: Array, G: Array) -> list[Any]:
            H = self._along(screws)
            alpha = [motions.moved_motion(one, X - Y) for one in above.reshape(-1, self.width)]
            dv = [one - G @ rate for one, rate in zip(u.reshape(-1, own), alpha, strict=True)]
            return [[rate + one @ H for rate, one in zip(alpha, dv, strict=True)], dv]

        def load_reads(own: int) -> list[Piece]:
            places = [*load(own)[0], tree.origin(NODE), tree.origin("parent"), tree.own("screw", own)]
            rows = [self._of_ties("A", own)] if ties else []
            return [*places, *[self._own(key, own) for key in ("U", "inverse")], *rows]

        def reads(own: int) -> list[Piece]:
            places = [tree.origin(NODE), tree.origin("parent")]
            return [*answer(own)[0], *places, tree.own("screw", own), self._own("G", own)]

        return [
            *tree.over_nodes(inwards, load_reads, lambda own: load(own)[1], backwards=True),
            world,
            *tree.over_nodes(outwards, reads, lambda own: answer(own)[1]),
        ]

    # ---- loops ---------------------------------------------------------------------------------------------------

    def _of_ties(self, buffer: str, own: int) -> Piece:
        """Numbers (ties, own) of a node's own velocities in a buffer (ties, nv)."""
        m = self.closures.count
        places = [Address(buffer, (Index(None, i), Index("first", j))) for i in range(m) for j in range(own)]
        return Piece((m, own), tuple(places))

    def _border(self) -> list[Statement]:
        """Y, of all rows at once, ``crossed`` A Y, and ``border`` (A Y)⁻¹."""
        if not self.closures.count:
            return []

        def load(own: int) -> tuple[list[Piece], list[Piece]]:
            force = [self.at("Y force", None, register) for register in (NODE, "parent")]
            return force, [self._of_ties(f"{self.name} Y of u", own), force[1]]

        def answer(own: int) -> tuple[list[Piece], list[Piece]]:
            u, v = (self._of_ties(f"{self.name} Y of {key}", own) for key in "uv")
            return [self.at("Y", None, "parent"), u], [self.at("Y", None, NODE), v]

        clear = Loop(NODE, self.nodes + 1, (self.space.put(0, self.at("Y force", None, NODE)),))
        world = self.space.put(0, self.at("Y", None, Index(None, self.nodes)))
        invert = traced_block(lambda S: [inverse_matrix(S)], [self.at("crossed")], [self.at("border")])
        own = self.at("Y of v", None, VELOCITY)
        return [clear, *self._passes(load, answer, world, ties=True), *self._product(own, self.at("crossed")), invert]

    def _product(self, vectors: Piece, into: Piece) -> list[Statement]:
        """A times dv; ``vectors``: entries of one or several dv at the velocity in hand."""
        rows = self.space.at("A", None, VELOCITY)

        def add(total: Array, a: Array, v: Any) -> list[Any]:
            return [total + (np.outer(a, v) if total.ndim > 1 else a * v)]

        return [self.space.put(0, into), Loop(VELOCITY, self.nv, (traced_block(add, [into, rows, vectors], [into]),))]

    def _keep_ties(self, motion: str, velocities: bool) -> list[Statement]:
        """A solution less what opens loops."""
        if not self.closures.count:
            return []
        at = self.space.at
        less_open = traced_block(
            lambda x, share, Y: [x - share @ Y],
            [at(motion, NODE), self.at("share"), self.at("Y", None, NODE)],
            [at(motion, NODE)],
        )
        own = self.one("v", VELOCITY)
        less_v = traced_block(
            lambda x, share, Y: [[x - share @ Y]], [own, self.at("share"), self.at("Y of v", None, VELOCITY)], [own]
        )
        return [
            *self._product(own, self.at("missed")),
            traced_block(lambda S, c: [S @ c], [self.at("border"), self.at("missed")], [self.at("share")]),
            Loop(NODE, self.nodes, (less_open,)),
            *([Loop(VELOCITY, self.nv, (less_v,))] if velocities else []),
        ]


class RecursiveRows:
    """Rows on the twists of nodes: see
    :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`.
    """

    def __init__(self, space: StepSpace, tree: LoopedTree, closures: Closures) -> None:
        self.space, self.tree, self.closures = space, tree, closures
        self.motions = tree.motions
        self.width, self.swept, self.eager = self.motions.width, "swept", True
        self.unknowns = self.width
        self.nodes, self.nv = len(space.tree.nodes), space.model.nv
        space.work(
            weight=(self.nodes, self.width, self.width),
            rotor=(self.nodes, 1),
            yielding=(self.nodes + 1, self.width, self.width),  # Ω
        )
        self.reserve("right", "dy", "now", "free", "swept")
        self.bare, self.loaded = (Recursion(space, tree, closures, name) for name in ("bare", "loaded"))
        sides = _nodes_of_contacts(space.tree, space.blocks)
        touched = [self.nodes if max(pair) < 0 else max(pair) for pair in sides]
        space.index(TOUCHED, touched)
        met = [self.nodes if min(pair) >= 0 else node for node, pair in zip(touched, sides, strict=True)]
        own = [[block for block, node in enumerate(met) if node == k] for k in range(self.nodes)]
        most = max(1, *map(len, own))
        space.index("contacts of node", [len(blocks) for blocks in own])
        space.index("contact of node", [blocks + [0] * (most - len(blocks)) for blocks in own])
        space.work(passed=(self.nodes + 1, self.width), tied=(max(closures.count, 1),))
        space.table("side", [1 if second < 0 else -1 for _, second in sides])
        unbranched = is_unbranched(space.tree)
        self.in_plane = unbranched and self.width < 6 and touch_in_plane(space.tree, space.blocks, self.motions)
        """Whether normals lie in the plane of the motions: a contact has one tangent in it, and nothing across it."""
        self.count, self.form = (2, PLANE) if self.in_plane else (3, WHOLE)
        self.chain: ChainSystem | None = ChainSystem(self, len(touched), own) if unbranched else None

    # ---- motions -------------------------------------------------------------------------------------------------

    def reserve(self, *names: str) -> None:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        shape = (self.nodes + 1, self.width)
        for name in names:
            self.space.work(**{f"{name} force": shape, f"{name} motion": shape})

    def enter(self) -> list[Lookup]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        return [Lookup(TOUCHED, self.space.address(TOUCHED, BLOCK))]

    def each_active(self, *statements: Statement) -> Statement:
        """Statements for every block of the list."""
        return Each(BLOCK, ACTIVE, (*self.enter(), *statements))

    def at(self, motion: str) -> Piece:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        return self.space.at(f"{motion} motion", TOUCHED)

    def clear(self, motion: str) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        zero = self.space.put(0, self.space.at(f"{motion} force", NODE))
        return [Loop(NODE, self.nodes + 1, (zero,))]

    def add_to(self, motion: str, factors: str, form: int = WHOLE) -> Statement:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        place = self.space.at(f"{motion} force", TOUCHED)
        reads = [place, *self.space.each(("B", factors), BLOCK)]
        return block_of_form(self.form, lambda f, B, factors: [f + factors @ B], reads, [place])

    def compute_motion(self, motion: str) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        return self.bare.solve(f"{motion} force", f"{motion} motion")

    def copy(self, motion: str, into: str) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        names = [self.space.at(f"{name} motion", NODE) for name in (motion, into)]
        return [Loop(NODE, self.nodes + 1, (traced_block(lambda y: [y], names[:1], names[1:]),))]

    def by_form(self, make: Callable[[int], Sequence[Statement]]) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`: contacts alone."""
        return list(make(self.form))

    def sweep(self, block: Callable[[int], Sequence[Statement]], change: str) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`.

        Node by node from the base on: what impulses at a node and before it have changed is handed on to the nodes
        behind it, so that a sweep along a chain is one of Gauss and Seidel in the time of one recursion. Limbs notice
        each other after it only. Loops notice at once: c = Σ Yᵀ Rᵀ dλ takes Y S⁻¹ c from every node.
        """
        at = self.space.at

        def hand_on(own: int, above: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            rate = self.motions.moved_motion(above, X - Y)
            return [rate - (W @ rate) @ turned]

        def reads(own: int) -> list[Piece]:
            return [*self.tree.between("passed"), self.tree.own("W", own), self.tree.own("turned", own)]

        def push(B: Array, d: Array, passed: Array, yielding: Array, c: Array, *Y: Array) -> list[Any]:
            wrench = d @ B
            return [passed + yielding @ wrench, c + Y[0] @ wrench if Y else c]

        def total(y: Array, passed: Array, c: Array, *ties: Array) -> list[Any]:
            return [y + passed - (ties[1] @ c) @ ties[0] if ties else y + passed]

        ties = [self.bare.at("Y", None, TOUCHED), self.bare.at("border")] if self.closures.count else []
        known = [at("passed", TOUCHED), at("tied")]
        begin = traced_block(total, [self.at("y"), *known, *ties], [self.at("swept")])
        rows = self.space.each(("B", change), BLOCK)
        end = traced_block(push, [*rows, known[0], at("yielding", TOUCHED), known[1], *ties[:1]], known)
        place = "contact at node"
        one: tuple[Statement, ...] = (
            Lookup(BLOCK, self.space.address("contact of node", NODE, place)),
            *self.enter(),
            If(self.space.address("flag", BLOCK), (begin, *block(self.form), end)),
        )
        blocks: tuple[Statement, ...] = (
            Lookup("contacts of node", self.space.address("contacts of node", NODE)),
            Loop(place, Index("contacts of node"), one),
        )
        return [
            self.space.put(0, at("tied")),
            *self.tree.over_nodes(hand_on, reads, lambda _: [at("passed", NODE)], start="passed", then=blocks),
            *self.clear("y"),
            Each(BLOCK, ACTIVE, (*self.enter(), self.add_to("y", "impulse"))),
            *self.compute_motion("y"),
        ]

    # ---- the system ----------------------------------------------------------------------------------------------

    def respond(self, form: int = WHOLE) -> Statement:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        at = self.space.at
        return traced_block(lambda slope, B: [slope @ B], [at("slope of block"), at("B", BLOCK)], [at("E", BLOCK)])

    def identity(self) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        return self.loaded.begin()

    def add(self, scale: str | None = None, form: int = WHOLE) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""

        def add(P: Array, B: Array, E: Array, *factors: Array) -> list[Any]:
            rows = (B.T * factors[0]).T if factors else B
            return [P + rows.T @ E]

        place = self.loaded.at("P", TOUCHED)
        scales = [self.space.at(scale, BLOCK)] if scale else []
        return [traced_block(add, [place, *self.space.each(("B", "E"), BLOCK), *scales], [place])]

    def factor(self) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`."""
        return self.loaded.eliminate()

    def solve(self, velocities: bool = False) -> list[Statement]:
        """See :class:`~whippletree.compiler.rollout.contact_lists.contact_list_rows.BlockRows`; ``velocities``: dv,
        too.
        """
        return self.loaded.solve("right force", "dy motion", velocities)

    # ---- a step --------------------------------------------------------------------------------------------------

    def prepare(self) -> list[Statement]:
        """At the beginning of a step: the recursion of M alone, Ω, and the twists without impulses."""

        motions = self.motions

        def spread(own: int, above: Array, X: Array, Y: Array, W: Array, turned: Array) -> list[Any]:
            T = np.array([motions.moved_motion(axis, X - Y) for axis in identity(motions.width)], dtype=object).T
            Z = T - turned.T @ (W @ T)
            return [Z @ above @ Z.T + turned.T @ turned]

        def reads(own: int) -> list[Piece]:
            places = [self.tree.origin(NODE), self.tree.origin("parent")]
            rows = [self.tree.own(name, own) for name in ("W", "turned")]
            return [self.space.at("yielding", "parent"), *places, *rows]

        def writes(own: int) -> list[Piece]:
            return [self.space.at("yielding", NODE)]

        return [
            *self.bare.begin(),
            *self.bare.eliminate(),
            self.space.put(0, self.space.at("yielding", Index(None, self.nodes))),
            *self.tree.over_nodes(spread, reads, writes),
            *self.tree.twists("now v", "now motion"),
            *self.tree.twists("free", "free motion"),
        ]

    def enter_list(self) -> list[Statement]:
        """Once blocks are listed: what lies between them, where they are on chains."""
        return self.chain.prepare() if self.chain is not None else []

    def own_rows(self) -> list[Statement]:
        """In a loop over blocks, its rows B on the twist of its node."""

        def rows(touch: Array, origin: Array, side: Any) -> list[Any]:
            arm, axes = touch[1:4] - origin, touch[4:].reshape(3, 3)
            turned = side * (np.array([axes[0], self._along(axes)], dtype=object) if self.in_plane else axes)
            found = [self.motions.coordinates(np.concatenate([cross(arm, axis), axis])) for axis in turned]
            return [[*found, *[[0] * self.width] * (3 - len(found))]]

        at = self.space.at
        reads = [at("touch", BLOCK), self.tree.origin(TOUCHED), at("side", BLOCK)]
        return [*self.enter(), traced_block(rows, reads, [at("B", BLOCK)])]

    def _along(self, axes: Array) -> Array:
        """The tangent (3,) in the plane, of the axes (3, 3) of a contact."""
        return cross(self.motions.basis[:3, 0], axes[0])

    def turn_impulse(self, inwards: bool) -> list[Statement]:
        """In a loop over blocks, the block's impulse from the axes of its contact to those of its rows, or back."""

        def turn(touch: Array, p: Array) -> list[Any]:
            axes = touch[4:].reshape(3, 3)
            c, s = axes[1:] @ self._along(axes)
            return [[p[0], c * p[1] + s * p[2], 0] if inwards else [p[0], c * p[1], s * p[1]]]

        impulse = self.space.at("impulse", BLOCK)
        return [traced_block(turn, [self.space.at("touch", BLOCK), impulse], [impulse])] if self.in_plane else []

    def own_yielding(self) -> list[Piece]:
        """In a loop over blocks, what :func:`own_block` needs."""
        ties = [self.bare.at("Y", None, TOUCHED), self.bare.at("border")] if self.closures.count else []
        return [self.space.at("yielding", TOUCHED), *ties]

    def velocities(self, base: str, into: str) -> list[Statement]:
        """``into`` (nv,) := ``base`` + what all impulses do that were added to y."""
        one = [Piece((), (self.space.address(name, VELOCITY),)) for name in (base, "bare v", into)]
        add = traced_block(lambda v, dv: [[v + dv]], one[:2], one[2:])
        return [
            *self.bare.solve("y force", "y motion", velocities=True),
            Loop(VELOCITY, self.nv, (add,)),
        ]


def own_block(B: Array, yielding: Array, *ties: Array) -> Array:
    """A block's own part (3, 3) of G, from its rows (3, 6) and what its node yields."""
    G = B @ yielding @ B.T
    if ties:
        Y, border = ties
        along = B @ Y.T
        G = G - along @ border @ along.T
    return np.array([[G[min(i, j), max(i, j)] for j in range(3)] for i in range(3)], dtype=object)
