"""The narrow phase of a scene of many bodies: a loop over the pairs that are near, whose list comes with the call.

Geometries are of one *class* where they have the same type, and where the numbers that tell them apart (where they are
on their bodies, how large they are) are exactly 0, 1 or −1 in the same places: those stay in the code and fold away,
the others come with the call. A kind of pairs is two classes. So the code depends on the classes that a scene has and
not on how many of each there are: a thousand balls run the code of ten. Geometries that are compared as solids
(:mod:`whippletree.contact.geometry.solid_pairs`) are of one class all together: only their tables are part of the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Buffer, Index, Lookup, Loop, Register, Statement, Switch
from whippletree.compiler.program.traced_blocks import Piece, looped_block, piece
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_kinds import PAIR, TOUCH
from whippletree.compiler.rollout.scenes.scene_slots import SlotImpulses
from whippletree.contact.geometry.rounded_polytopes import Solid
from whippletree.contact.geometry.shape_numbers import POSE, pose_of, with_numbers
from whippletree.contact.geometry.shapes import Shape
from whippletree.contact.geometry.solid_distance import Hint, reach_of_solid
from whippletree.contact.geometry.solid_pairs import SolidForm
from whippletree.contact.kinematics.scene_layout import GeometryClass, PairKind, row_length
from whippletree.contact.problem.cones import largest
from whippletree.spatial import Pose

TIMES_FASTER, SOLID_LEEWAY = 2, 0.05
"""Solids that are farther apart than they get in a step at so many times their speed, and by this share of the smaller
one, are not compared: the planes between which they were nearest in the step before hold them apart, which is what any
candidate does in a step."""

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
    slots = max(kind.slots for kind in kinds)
    space = _PairLists(
        Buffer("geometries", "input", ("G", row_length(classes, kinds))),
        Buffer("carriers", "input", ("G",), integer=True),
        Buffer("pairs", "input", ("P", PAIR_HEAD + slots), integer=True),
        Buffer("margins", "input", ("P",)),
        work=work,
        impulses=SlotImpulses(work, slots),
    )
    cases = tuple(space.case(f"kind {number}", kind) for number, kind in enumerate(kinds))
    lookup = Lookup("kind", Address("pairs", (Index(PAIR), Index(None, 0))), len(kinds))
    lists = [space.geometries, space.carriers, space.pairs, space.margins, *space.rounds]
    return [Loop(PAIR, "P", (lookup, Switch("kind", cases)))], lists


class _PairLists:
    """The buffers of the loop over the pairs."""

    def __init__(self, *lists: Buffer, work: WorkSpace, impulses: SlotImpulses) -> None:
        self.geometries, self.carriers, self.pairs, self.margins = lists
        self.work, self.impulses = work, impulses
        self.poses, self.touches = work.buffers["pose"], work.buffers["touch"]
        self.rounds: list[Buffer] = []
        """Work space of forms that iterate."""

    def case(self, name: str, kind: PairKind) -> tuple[Statement, ...]:
        """Work on a pair of one kind."""
        pair = (kind.first, kind.second)
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
            hint = [left.pop() for _ in hints]
            margin = left.pop()
            (first, X), (second, Y) = (_placed(own, left) for own in pair)
            known = [_hint(hint[::-1], (first, second), (X.p, Y.p), margin)] if hint else []
            touches = kind.touching(first, second, X, Y, *known)
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
        hints = self._hints(places[-1]) if isinstance(kind.touching, SolidForm) else []
        reads += [piece(self.margins, PAIR), *hints, *kept]
        writes = [*touches, *(self.impulses.left_by_narrow_phase(kind.slots) if kept else ())]
        after = (self.impulses.hand_on(PAIR, PAIR_HEAD, kind.slots),) if kept else ()
        compare, rounds = looped_block(find, reads, writes, name)
        self.rounds += rounds
        return (*body, *compare, *after)

    def _hints(self, place: Register) -> list[Piece]:
        """What tells of the nearest points of two solids in the step before, and of how fast their bodies are."""
        at = self.work.at
        bodies = [at(name, f"body {side}") for side in (0, 1) for name in ("start", "free", "centre")]
        return [at("touch", place), at("known"), at("now dt"), *bodies]

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
            row = [
                Address("geometries", (Index(f"geometry {side}"), Index(None, i)))
                for i in range(own.column, own.column + len(own.open))
            ]
            found.append(Piece((len(row),), tuple(row)))
        return found


def _hint(given: Sequence[Any], solids: Sequence[Any], origins: Sequence[Array], margin: Any) -> Hint:
    """A hint for two solids: their normal of the step before, and how far apart they cannot meet within this one.

    Args:
        given: numbers of the nearest points of the step before, whether they are known, the step's length and, of each
            body, its velocities as the step begins and without impulses, and its centre of mass.
        origins: of the solids.
    """
    touch, known, h, *bodies = given
    sizes = [reach_of_solid(solid) for solid in solids]
    speeds: Any = 0
    for size, origin, start, free, centre in zip(sizes, origins, bodies[::3], bodies[1::3], bodies[2::3], strict=True):
        arm = origin - centre
        lever = sqrt(arm @ arm) + size
        speeds = speeds + largest([sqrt(V[3:] @ V[3:]) + lever * sqrt(V[:3] @ V[:3]) for V in (start, free)])
    smaller = -largest([-size for size in sizes])
    reach = TIMES_FASTER * h * speeds + SOLID_LEEWAY * smaller + margin
    return Hint(vector(*[select(less(0, known[0]), x, 0) for x in touch[4:7]]), reach)


def _placed(own: GeometryClass, given: list[Array]) -> tuple[Shape | Solid, Pose]:
    """A geometry's shape and where it is in the world, from what was read; takes its part of it away."""
    body = pose_of(given.pop(0)) if own.moving else None
    numbers: list[Any] = list(own.numbers)
    if own.open:
        for place, x in zip(own.open, given.pop(0), strict=True):
            numbers[place] = x
    pose = pose_of(np.array(numbers[:POSE], dtype=object))
    return with_numbers(own.shape, numbers[POSE:]), pose if body is None else body @ pose
