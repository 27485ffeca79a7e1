"""The narrow phase of a scene of many bodies: a loop over the pairs that are near, whose list comes with the call.

Geometries are of one *class* where they have the same type, and where the numbers that tell them apart (where they are
on their bodies, how large they are) are exactly 0, 1 or −1 in the same places: those stay in the code and fold away,
the others come with the call. A kind of pairs is two classes. So the code depends on the classes that a scene has and
not on how many of each there are: a thousand balls run the code of ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Address, Buffer, Index, Lookup, Loop, Statement, Switch
from whippletree.compiler.program.traced_blocks import Piece, piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_kinds import PAIR, TOUCH
from whippletree.compiler.rollout.scene_slots import SlotImpulses
from whippletree.contact.geometry.rounded_polytopes import Solid
from whippletree.contact.geometry.shape_numbers import POSE, pose_of, with_numbers
from whippletree.contact.geometry.shapes import Shape
from whippletree.contact.kinematics.scene_layout import GeometryClass, PairKind
from whippletree.spatial import Pose

PAIR_HEAD = 3
"""Numbers of a pair before the places of its candidates: its kind and its two geometries."""


def scene_narrow_phase(
    classes: Sequence[GeometryClass], kinds: Sequence[PairKind], work: WorkSpace
) -> tuple[list[Statement], list[Buffer]]:
    """Statements that find the candidates of all pairs, and the inputs that tell of them.

    geometries (G, n)    the numbers that differ, :attr:`~whippletree.contact.kinematics.scene_layout.SceneLayout.open`
    carriers (G,)        the body of each geometry
    pairs (P, 3 + m)     kind, two geometries, and the places of their candidates, as many as the kind has
    margins (P,)         how far apart they touch, m

    Args:
        work: with the poses of the bodies in the world, ``pose`` (N, 12), the place for the candidates, ``touch``
            (C, 13): gap, point and axes; and their impulses, ``impulse`` (C, 3), which follow their points.
    """
    most = max(len(c.open) for c in classes)
    slots = max(kind.slots for kind in kinds)
    space = _PairLists(
        Buffer("geometries", "input", ("G", max(most, 1))),
        Buffer("carriers", "input", ("G",), integer=True),
        Buffer("pairs", "input", ("P", PAIR_HEAD + slots), integer=True),
        Buffer("margins", "input", ("P",)),
        work=work,
        impulses=SlotImpulses(work, slots),
    )
    cases = tuple(space.case(kind, [classes[kind.first], classes[kind.second]]) for kind in kinds)
    lookup = Lookup("kind", Address("pairs", (Index(PAIR), Index(None, 0))), len(kinds))
    lists = [space.geometries, space.carriers, space.pairs, space.margins]
    return [Loop(PAIR, "P", (lookup, Switch("kind", cases)))], lists


class _PairLists:
    """The buffers of the loop over the pairs."""

    def __init__(self, *lists: Buffer, work: WorkSpace, impulses: SlotImpulses) -> None:
        self.geometries, self.carriers, self.pairs, self.margins = lists
        self.work, self.impulses = work, impulses
        self.poses, self.touches = work.buffers["pose"], work.buffers["touch"]

    def case(self, kind: PairKind, pair: Sequence[GeometryClass]) -> tuple[Statement, ...]:
        """Work on a pair of one kind."""
        body: list[Statement] = []
        reads: list[Piece] = []
        for side, own in enumerate(pair):
            body += self._look_up(side, own)
            reads += self._reads(side, own)
        for slot in range(kind.slots):
            where = Address("pairs", (Index(PAIR), Index(None, PAIR_HEAD + slot)))
            body.append(Lookup(f"place {slot}", where, self.touches.shape[0]))

        def find(*given: Any) -> list[Any]:
            left = list(given)
            before = [left.pop() for _ in kept]
            margin = left.pop()
            (first, X), (second, Y) = (_placed(own, left) for own in pair)
            touches = kind.touching(first, second, X, Y)
            found = [np.concatenate([[touch.gap - margin], touch.point, touch.axes.ravel()]) for touch in touches]
            if not kept:
                return found
            known, impulses, last = before[0], before[1 : kind.slots + 1], before[kind.slots + 1 :]
            return [*found, *self.impulses.leave(last[::-1], impulses[::-1], found, known, X.p, Y.p)]

        places = [f"place {slot}" for slot in range(kind.slots)]
        touches = [self.work.at("touch", place) for place in places]
        assert self.touches.shape[1] == TOUCH
        # a single candidate has no other slot to go to
        kept = [*touches, *(self.work.at("impulse", place) for place in places), self.work.at("known")]
        if kind.slots == 1:
            kept = []
        reads += [piece(self.margins, PAIR), *kept]
        writes = [*touches, *(self.impulses.left_by_narrow_phase(kind.slots) if kept else ())]
        after = (self.impulses.hand_on(PAIR, PAIR_HEAD, kind.slots),) if kept else ()
        return (*body, traced_block(find, reads, writes), *after)

    def _look_up(self, side: int, own: GeometryClass) -> list[Statement]:
        """Registers of the geometry on one side of a pair, and of its body, as far as they are needed."""
        found: list[Statement] = []
        if own.open or own.moving:
            found.append(Lookup(f"geometry {side}", Address("pairs", (Index(PAIR), Index(None, 1 + side))), "G"))
        if own.moving:
            at = Address("carriers", (Index(f"geometry {side}"),))
            found.append(Lookup(f"body {side}", at, self.poses.shape[0]))
        return found

    def _reads(self, side: int, own: GeometryClass) -> list[Piece]:
        """The pose of the body and the numbers of the geometry on one side, as far as there are any."""
        found = [piece(self.poses, f"body {side}", None)] if own.moving else []
        if own.open:
            row = [Address("geometries", (Index(f"geometry {side}"), Index(None, i))) for i in range(len(own.open))]
            found.append(Piece((len(row),), tuple(row)))
        return found


def _placed(own: GeometryClass, given: list[Array]) -> tuple[Shape | Solid, Pose]:
    """A geometry's shape and where it is in the world, from what was read; takes its part of it away."""
    body = pose_of(given.pop(0)) if own.moving else None
    numbers: list[Any] = list(own.numbers)
    if own.open:
        for place, x in zip(own.open, given.pop(0), strict=True):
            numbers[place] = x
    pose = pose_of(np.array(numbers[:POSE], dtype=object))
    return with_numbers(own.shape, numbers[POSE:]), pose if body is None else body @ pose
