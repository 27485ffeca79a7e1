"""Wrenches on the nodes of a tree as joint forces, in loops over tables.

    tau = Σ Hᵀ φ f        f the wrench on a node

Wrenches are in the axes of the world, about their nodes' origins, and so are the screws of all velocities
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_looped_tree`): one pass inwards adds to every node what
it carries, and then a velocity's force is the power of its screw. The code does not grow with the tree.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Address, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.spatial import Pose, cross, join
from whippletree.tree.skeleton import Skeleton

SCREW = 9
"""Numbers of a velocity's screw in the world: angular and linear velocity, and the point that has the latter."""

TWIST = 6
"""Numbers of a twist, and of a wrench."""

LOADED, DRIVEN = "loaded", "driven"


class NodeWrenches:
    """The buffer ``load`` (nodes + 1, 6) of a program that has ``pose`` and ``screw``; its last row is the world's."""

    def __init__(self, space: WorkSpace, tree: Skeleton) -> None:
        self.space, self.count, self.nv = space, len(tree.nodes), tree.model.nv
        space.work(load=(self.count + 1, TWIST))
        inwards = list(reversed(range(self.count)))
        space.index("loaded node", inwards)
        space.index("carrying node", [self.count if tree.parents[k] < 0 else tree.parents[k] for k in inwards])
        space.index("driven node", [k for k, own in enumerate(tree.v_slices) for _ in range(own.start, own.stop)])

    def clear(self) -> Statement:
        """No wrench on any node."""
        return Loop(LOADED, self.count + 1, (self.space.put(0, self.space.at("load", LOADED)),))

    def gather(self, into: str) -> list[Statement]:
        """The joint forces (nv,) of all wrenches; what a node carries is added to it."""

        def carry(own: Array, below: Array, p: Array, origin: Array) -> list[Any]:
            return [below + pushed_at(own[3:], p, origin, own[:3])]

        def power(load: Array, screw: Array, p: Array) -> list[Any]:
            return [screw[:3] @ (load[:3] + cross(p - screw[6:], load[3:])) + screw[3:6] @ load[3:]]

        at = self.space.at
        names = ("loaded node", "carrying node")
        found = [Lookup(name, self.space.address(name, LOADED)) for name in names]
        reads = [*(at("load", name) for name in names), *(origin_of(name) for name in names)]
        inwards = Loop(LOADED, self.count, (*found, traced_block(carry, reads, [at("load", names[1])])))
        own = Lookup("driven node", self.space.address("driven node", DRIVEN))
        reads = [at("load", own.register), at("screw", DRIVEN), origin_of(own.register)]
        drive = traced_block(power, reads, [at(into, DRIVEN)])
        return [inwards, Loop(DRIVEN, self.nv, (own, drive))]


def screws_of(X: Pose, motions: Array) -> list[tuple[Any, ...]]:
    """Screws of the motions (6, n) of a node that is at X, in the world."""
    return [(*(X.R @ h[:3]), *(X.R @ h[3:6]), *X.p) for h in motions.T]


def pushed_at(force: Array, point: Array, origin: Array, moment: Any = 0) -> Array:
    """The wrench (6,) about an origin of a force at a point, and of a moment, all (3,)."""
    return join(moment + cross(point - origin, force), force)


def origin_of(register: str) -> Piece:
    """The origin (3,) of the node in a register; the world has one, too."""
    return Piece((3,), tuple(Address("pose", (Index(register), Index(None, 9 + i))) for i in range(3)))
