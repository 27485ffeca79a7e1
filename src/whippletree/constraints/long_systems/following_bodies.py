"""Bodies that leave the body-level system by their joint: which of them may, in a given order of elimination.

A joint says α_k = φ* α_p + H θ̈_k + a for a body k and its parent p, and its rows have unit entries at just those
components of α_k that the joint does not move. Where k is eliminated before p, the rows can be solved for these
components at once: k *follows* its parent, and of its six unknowns and the joint's rows only θ̈_k is left to eliminate,
as in the articulated recursion. No pivot is needed for that, and no mass.

Rows of closures must wait for that at times. Say that the bodies S are eliminated. Those that hang together by joints
within S are a *piece*; if its first body follows a parent that is not in S, the piece is *held* there, as if that
parent did not move. Closures that have been eliminated tie pieces together. Their rows have full rank on the motions of
S wherever the rows of the whole mechanism have it, if at most one of all pieces that are tied together is held: what
the bodies outside S do can only be that the pieces move against each other, which they are free to do. The world is
always in S, and the piece that hangs on it is held. So a closure whose rows would tie two held pieces waits until one
of the parents is eliminated, too, or else a body does not follow, and the rows of its joint wait for its parent.

An order may hold cuts (:mod:`whippletree.graph.dissection`): rows of closures that are cut wait for them, and so do
those of cut joints, by which no body follows. When a cut's turn comes, all bodies of its part are gone, and none of
them is held but at the world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from whippletree.graph.dissection import NOT_CUT

WORLD = -1
"""The parent of bodies that hang on the world, and among the bodies of a closure the world."""


class Closing(NamedTuple):
    """A closure: the bodies that it holds, the world among them where it does, and how many rows it has."""

    bodies: tuple[int, ...]
    rows: int
    cut: int = NOT_CUT
    """The cut that it waits for."""


class Following(NamedTuple):
    """How bodies leave the system in some order."""

    follows: list[bool]
    """Of each body, whether it follows its parent."""
    ends: list[int]
    """Of each closure, the body or cut with which its rows are eliminated; −1 where it holds none."""


def following_bodies(
    order: Sequence[int],
    parents: Sequence[int],
    joint_rows: Sequence[int],
    closures: Sequence[Closing],
    patience: int,
    cut_joints: Mapping[int, int] | None = None,
) -> Following:
    """Which bodies follow their parents, and when the rows of closures are eliminated.

    Args:
        order: all bodies in the order of their elimination, and cuts, whose numbers are beyond theirs.
        parents: of each body, or :data:`WORLD`.
        joint_rows: of each body, the rows of its joint.
        closures: all of them.
        patience: for how many bodies that follow a closure waits.
        cut_joints: bodies that may not follow, with the cut that the rows of their joint wait for;
            :data:`~whippletree.graph.dissection.NOT_CUT` where these wait for the parent only.
    """
    found = _Elimination(order, parents, joint_rows, closures, patience, cut_joints or {})
    for k in order:
        if k < len(parents):
            found.eliminate(k)
        else:
            found.tie_waiting(k)
    return Following(found.follows, found.ends)


class _Elimination:
    """Bodies that are gone, in pieces that joints and eliminated closures tie together."""

    def __init__(
        self,
        order: Sequence[int],
        parents: Sequence[int],
        joint_rows: Sequence[int],
        closures: Sequence[Closing],
        patience: int,
        cut_joints: Mapping[int, int],
    ) -> None:
        self.parents, self.joint_rows, self.closures, self.patience = parents, joint_rows, closures, patience
        count = len(parents)
        self.place = {k: i for i, k in enumerate(order)}
        self.gone = [False] * count
        self.follows = [False] * count
        self.ends = [-1] * len(closures)
        self.delays = [0] * len(closures)
        self.children: list[list[int]] = [[] for _ in parents]
        for k, parent in enumerate(parents):
            if parent != WORLD and k not in cut_joints:
                self.children[parent].append(k)
        self.cut_joints = cut_joints
        self.cut: dict[int, list[tuple[int, ...]]] = {}
        """Of each cut, and of each body, the bodies of the joints and closures that have waited for it."""
        for k, cut in cut_joints.items():
            until = max(k, parents[k], key=self.place.__getitem__) if cut == NOT_CUT else cut
            self.cut.setdefault(until, []).append((k, parents[k]))
        self.complete: list[list[int]] = [[] for _ in parents]
        """Of each body, the closures of which it is the last one to go."""
        for i, closing in enumerate(closures):
            if closing.cut != NOT_CUT:
                self.ends[i] = closing.cut
                self.cut.setdefault(closing.cut, []).append(closing.bodies)
                continue
            last = max((k for k in closing.bodies if k != WORLD), key=self.place.__getitem__, default=None)
            if last is not None:
                self.complete[last].append(i)
        # the last place is the world's, which index -1 finds
        self.above = list(range(count + 1))
        self.held: list[set[int]] = [set() for _ in range(count + 1)]
        self.held[WORLD].add(WORLD)
        self.waiting: list[set[int]] = [set() for _ in range(count + 1)]

    def eliminate(self, k: int) -> None:
        """The next body of the order."""
        self.gone[k] = True
        parent = self.parents[k]
        for child in self.children[k]:
            if self.gone[child]:
                self.held[self._first(child)].discard(child)
                self._tie(k, child)
        if k not in self.cut_joints and (parent == WORLD or self.gone[parent]):
            self._tie(k, parent)
        self.tie_waiting(k)
        self._keep_one(k)
        for i in self.complete[k]:
            for body in self.closures[i].bodies:
                self.waiting[self._first(body)].add(i)
        if parent == WORLD:
            self.follows[k] = True
        elif k not in self.cut_joints and not self.gone[parent] and not self.held[self._first(k)]:
            self._choose(k)
        self._end_closures(k)

    def tie_waiting(self, last: int) -> None:
        """What joints and closures tie that have waited for a cut, or for a body."""
        for bodies in self.cut.get(last, ()):
            for body in bodies:
                self._tie(bodies[0], body)

    def _first(self, k: int) -> int:
        """The body that stands for all those that are tied to this one."""
        k = self.above[k]
        while self.above[k] != k:
            self.above[k] = self.above[self.above[k]]
            k = self.above[k]
        return k

    def _tie(self, k: int, other: int) -> None:
        one, two = self._first(k), self._first(other)
        if one != two:
            if len(self.waiting[one]) < len(self.waiting[two]):
                one, two = two, one
            self.above[two] = one
            self.held[one] |= self.held[two]
            self.waiting[one] |= self.waiting[two]

    def _keep_one(self, k: int) -> None:
        """Where joints have tied several held pieces: only the world, or the one that came first, holds on."""
        held = self.held[self._first(k)]
        if len(held) > 1:
            kept = WORLD if WORLD in held else min(held, key=self.place.__getitem__)
            for other in held - {kept}:
                self.follows[other] = False
            held.intersection_update({kept})

    def _may_end(self, i: int) -> bool:
        """Whether the rows of a closure may be eliminated: what it ties together is held once at most."""
        return len(set().union(*[self.held[self._first(body)] for body in self.closures[i].bodies])) <= 1

    def _choose(self, k: int) -> None:
        """Whether a body follows: unless closures have waited long enough, or have more rows than its joint."""
        first = self._first(k)
        free = [i for i in self.waiting[first] if self._may_end(i)]
        self.held[first].add(k)
        stopped = [i for i in free if not self._may_end(i)]
        rows = sum(self.closures[i].rows for i in stopped)
        if rows <= self.joint_rows[k] and all(self.delays[i] < self.patience for i in stopped):
            self.follows[k] = True
            for i in stopped:
                self.delays[i] += 1
        else:
            self.held[first].discard(k)

    def _end_closures(self, k: int) -> None:
        """The rows of all closures that may be eliminated with this body."""
        left = True
        while left:
            left = False
            for i in sorted(self.waiting[self._first(k)]):
                if self._may_end(i):
                    left = True
                    self.ends[i] = k
                    for body in self.closures[i].bodies:
                        self.waiting[self._first(body)].discard(i)
                    for body in self.closures[i].bodies:
                        self._tie(k, body)
