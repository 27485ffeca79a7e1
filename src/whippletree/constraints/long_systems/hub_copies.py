"""Bodies that many loops share, as a row of copies: a crankshaft with a hundred slider-cranks, a trunk on many legs.

Rows of closures wait until the bodies of their loop may move. Of a rod and its piston the bore asks for as much as they
have to give while the crankshaft stands still: where the rod is upright to the bore, its rows would depend on each
other, and so they wait for the shaft (:mod:`~whippletree.constraints.long_systems.following_bodies`). A hundred pistons
then leave their rows to one front, which grows with the square of their number, and its cost with the cube.

So the shaft, a *hub*, gets a copy for each of its *legs*: what hangs together once all hubs are taken away. The copy of
the first leg is tied to the hub, six components of acceleration against six, that of the next leg to the first copy,
and so on. Ties are rows like others, and no body is without inertia by them: rows that are not solved for a component
carry a weight. The star has become a ladder, whose rungs are legs: what waits, waits for the next copy. The answer is
the same, since copies move alike; wherever the rows of the whole are independent, those of a leg and its own copies
are, for no others feel them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FEWEST_LEGS = 12
"""Legs of a hub, those with loops, below which it gets no copies: with 16 they gain nothing yet, and of bars that are
hinged to each other many have seven neighbours."""

LEGS_OF_A_COPY = (1, 2, 4, 8)
"""Legs that share a copy of their hub; whichever takes the fewest operations. Of a crankshaft with 50 slider-cranks a
call takes 53, 38, 80 and 85 µs, of an umbrella with 32 ribs 128, 85, 61 and 52 (46 without copies)."""

SHARE_OF_OPERATIONS = 0.7
"""Share of the operations without copies that those with copies may be. An umbrella of 32 ribs stays above, and would
take 52 µs in place of 46; one of 64 has a quarter of them, and takes 110 µs in place of 116, in batches 50 and 60."""


class HubCopies(NamedTuple):
    """Copies of bodies, numbered from the number of bodies on."""

    hubs: tuple[int, ...]
    """Of each copy, the body that it stands for."""
    above: tuple[int, ...]
    """Of each copy, the body or the copy that it is tied to."""
    legs: dict[int, int]
    """Of bodies in legs with loops, the number of their leg."""
    seats: dict[tuple[int, int], int]
    """Of a leg and a hub, the copy that the leg is joined to."""

    def seat(self, body: int, others: Sequence[int]) -> int:
        """What stands for a body where it is coupled with others: a hub's copy, if they belong to one of its legs."""
        legs = (self.legs[k] for k in others if k in self.legs)
        leg = next(legs, None)
        return body if leg is None else self.seats.get((leg, body), body)


NO_COPIES = HubCopies((), (), {}, {})


def find_hub_copies(
    joints: Sequence[Sequence[int]], closures: Sequence[Sequence[int]], count: int, together: int
) -> HubCopies:
    """The copies that bodies with many legs get, one for each ``together`` of them.

    ``joints`` and ``closures``: the bodies of each, numbers from 0 to ``count`` − 1.
    """
    edges = [*joints, *closures]
    near: list[set[int]] = [set() for _ in range(count)]
    for edge in edges:
        for k in edge:
            near[k].update(edge)
    hubs = {k for k, own in enumerate(near) if len(own) > FEWEST_LEGS}
    if not hubs:
        return NO_COPIES
    legs = _legs(near, hubs)
    looped = {legs[k] for edge in closures for k in edge if k in legs}
    joined: dict[int, list[int]] = {hub: [] for hub in sorted(hubs)}
    for hub, own in joined.items():
        own += sorted({legs[k] for k in near[hub] if k in legs} & looped)
    copies: list[tuple[int, int]] = []
    seats: dict[tuple[int, int], int] = {}
    for hub, own in joined.items():
        above = hub
        for start in range(0, len(own) if len(own) >= FEWEST_LEGS else 0, together):
            seats.update(((leg, hub), count + len(copies)) for leg in own[start : start + together])
            copies.append((hub, above))
            above = count + len(copies) - 1
    if not copies:
        return NO_COPIES
    of, aboves = zip(*copies, strict=True)
    return HubCopies(of, aboves, {k: leg for k, leg in legs.items() if leg in looped}, seats)


def _legs(near: Sequence[set[int]], hubs: set[int]) -> dict[int, int]:
    """The number of the leg that each body is in; hubs are in none."""
    found: dict[int, int] = {}
    number = 0
    for start in range(len(near)):
        if start in hubs or start in found:
            continue
        found[start], left = number, [start]
        while left:
            for k in near[left.pop()] - hubs:
                if k not in found:
                    found[k] = number
                    left.append(k)
        number += 1
    return found
