"""Where numbers live: slots for what crosses edges, used again as soon as nobody waits for them, and places in records.

A value that crosses an edge is needed until the last receiver has read it. Along a chain one slot is enough, in a tree
about as many as it is wide; so this memory stays in the nearest cache however many bodies there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from whippletree.compiler.frontend.loops.body_types import Integers
from whippletree.compiler.frontend.loops.store_or_recompute import Share


class Outward(NamedTuple):
    """Slots of a scatter, (N,) each. Slot 0 holds the world's value when the loop starts."""

    slots: int
    parent: Integers
    own: Integers


class GatherSlots(NamedTuple):
    """Slots of a gather, (N,) each. Slot 0 holds the sum over no children, and is never written in the loop."""

    slots: int
    received: Integers
    """The sum over the body's children."""
    before: Integers
    """The sum over the siblings whose turn was earlier."""
    sent: Integers
    """Where that sum with the body's own message goes."""


class _Pool:
    def __init__(self, first: int) -> None:
        self.count = first
        self.free: list[int] = []

    def take(self) -> int:
        if self.free:
            return self.free.pop()
        self.count += 1
        return self.count - 1


def outward_slots(parents: Integers) -> Outward:
    """Slots for values on their way out. A body may take its parent's slot: a block reads before it writes."""
    pool = _Pool(1)
    waiting = np.bincount(parents + 1, minlength=len(parents) + 1).tolist()
    slot = [0] * (len(parents) + 1)
    source, own = [0] * len(parents), [0] * len(parents)
    for k, parent in enumerate(parents.tolist(), start=1):
        carrier = parent + 1
        source[k - 1] = slot[carrier]
        waiting[carrier] -= 1
        if not waiting[carrier]:
            pool.free.append(slot[carrier])
        slot[k] = own[k - 1] = pool.take()
        if not waiting[k]:
            pool.free.append(slot[k])
    return Outward(pool.count, np.array(source, dtype=np.int64), np.array(own, dtype=np.int64))


def inward_slots(parents: Integers) -> GatherSlots:
    """Slots for sums on their way in."""
    pool = _Pool(1)
    total = [0] * (len(parents) + 1)
    received, before, sent = ([0] * len(parents) for _ in range(3))
    for k, parent in zip(range(len(parents) - 1, -1, -1), reversed(parents.tolist()), strict=True):
        received[k] = total[k + 1]
        if total[k + 1]:
            pool.free.append(total[k + 1])
        before[k] = total[parent + 1]
        if not total[parent + 1]:
            total[parent + 1] = pool.take()
        sent[k] = total[parent + 1]
    return GatherSlots(pool.count, *(np.array(x, dtype=np.int64) for x in (received, before, sent)))


def record_places(shares: Sequence[Share]) -> tuple[dict[int, int], int]:
    """Places for the numbers that one type of body stores from loop to loop, and the length of its record.

    A place is free again in the loop that loads its number for the last time.
    """
    last = {n: loop for loop, share in enumerate(shares) for n in share.loaded}
    pool = _Pool(0)
    places: dict[int, int] = {}
    for loop, share in enumerate(shares):
        pool.free += sorted((places[n] for n in share.loaded if last[n] == loop), reverse=True)
        for n in share.stored:
            if n not in places:
                places[n] = pool.take()
    return places, pool.count
