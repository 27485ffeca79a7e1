"""Lists of the pairs that are near in a scene of many free bodies, as its kernel takes them.

They serve until a body has travelled as far as its skin is thick
(:mod:`~whippletree.simulation.time_stepping.scene_skins`). Pairs come from
:mod:`~whippletree.simulation.time_stepping.near_lists`; those of boxes that are farther apart than their skins are left
out, and so are those of which both bodies sleep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.scenes.scene_kinds import PAIR_HEAD
from whippletree.contact.kinematics.scene_layout import SceneLayout
from whippletree.simulation.time_stepping.box_bounds import BoxBounds
from whippletree.simulation.time_stepping.mechanism_rows import MechanismRows
from whippletree.simulation.time_stepping.near_lists import ListMaker, NearPairs
from whippletree.simulation.time_stepping.scene_skins import FEW_CANDIDATES, Skins
from whippletree.simulation.time_stepping.sleeping import Islands, island_labels

MOST_SLOTS = 256
"""No pair has so many candidates: a candidate is known by its pair and its number there."""

NEARLY_TOUCHING = 0.1
"""Pairs that are nearer than this share of the median size of the shapes come first in the lists: those that press lie
close together in memory then. Among 43 000 candidates of ten thousand balls are 16 000 contacts; with all of them in
one order of heights a step took half as long again."""

WORTH_BOXES = 16
"""Pairs of more than two candidates from which on boxes are compared: that takes as long as such pairs take in some
steps."""


class PairLists(NamedTuple):
    """Numbers of the pairs in the lists, and of their candidates."""

    pairs: Array
    margins: Array
    node: Array
    friction: Array
    restitution: Array
    shares: Array
    """Shares of torsional and rolling friction, m, (candidates, 2)."""
    keys: Array
    skins: Skins
    worlds: int
    """How often the world is among the bodies of ``node``."""
    of_trees: tuple[Array, ...]
    """Which contacts are on trees of the mechanism, :func:`~whippletree.simulation.time_stepping.mechanism_rows`; ()
    without one."""
    islands: Array
    """Number of the island of each body, where something bounces, (bodies,)."""


def _turns() -> Array:
    """T (16, 9) with R = 1 + (q qᵀ) T for a unit quaternion q, both flattened."""
    found = np.zeros((4, 4, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        for axis in (j, k):
            found[1 + axis, 1 + axis, i, i] = -2
        found[1 + i, 1 + j, i, j] = found[1 + i, 1 + j, j, i] = 2
        found[0, 1 + k, i, j], found[0, 1 + k, j, i] = -2, 2
    return found.reshape(16, 9)


TURNS, UNTURNED = _turns(), np.eye(3)


def rotations(quaternions: Array) -> Array:
    """Rotations (n, 3, 3) of unit quaternions (n, 4)."""
    products = quaternions[:, :, None] * quaternions[:, None, :]
    return np.asarray((products.reshape(-1, 16) @ TURNS).reshape(-1, 3, 3) + UNTURNED)


class PairListing:
    """Makes the lists of a scene."""

    def __init__(self, layout: SceneLayout, mechanism: MechanismRows, size: float) -> None:
        """``size``: median size of the shapes, m."""
        self.layout, self.mechanism = layout, mechanism
        self.count = len(layout.bodies) - 1
        self.made = 0
        """How often lists were made so far."""
        self._slots = np.array([kind.slots for kind in layout.kinds])
        self._maker = ListMaker(layout, NEARLY_TOUCHING * size)
        self._boxes = BoxBounds(layout)
        self._last_turned: tuple[Array, Array] | None = None

    def rotations(self, q: Array) -> Array:
        """Rotations of the bodies in the world, (bodies + 1, 3, 3)."""
        if self._last_turned is None or self._last_turned[0] is not q:
            R = rotations(q[:, 3:])
            if not self.layout.traits.in_world_axes:
                R = self.layout.placements[:, :9].reshape(-1, 3, 3) @ R
            self._last_turned = q, R
        return self._last_turned[1]

    def lists(self, q: Array, skins: Skins) -> PairLists:
        """The pairs that may touch before a body has travelled as far as its skin is thick."""
        return self.tables(self.near(q, skins, np.zeros(self.count, dtype=bool)), skins)

    def near(self, q: Array, skins: Skins, still: Array) -> NearPairs:
        """The pairs within the skins of which a body is not ``still``, bool (bodies,)."""
        self.made += 1
        thickness = skins.of_bodies(still)
        near = self._maker.near(q, thickness, (float(skins.budget[-1]), skins.stretch), skins.direction)
        bounded = self._boxes.bounded[near.table[:, 1:3]].all(axis=1)
        costly = np.flatnonzero(bounded & (self._slots[near.table[:, 0]] > FEW_CANDIDATES))
        if len(costly) < WORTH_BOXES:
            return near
        first, second = near.table[costly, 1], near.table[costly, 2]
        reach = thickness[self.layout.nodes[first]] + thickness[self.layout.nodes[second]] + near.margins[costly]
        meeting = np.ones(len(near.table), dtype=bool)
        meeting[costly] = self._boxes.gaps(self.rotations(q), q, first, second) <= reach
        return self._some_of(near, meeting)

    def tables(self, near: NearPairs, skins: Skins) -> PairLists:
        """Lists of pairs as the kernel takes them, candidate by candidate."""
        found, islands = near.node, np.zeros(self.count, dtype=np.int64)
        if near.restitution.any():
            # islands matter where something bounces
            first, second = found[:, 0], found[:, 1]
            sides = [np.append(side, tied) for side, tied in zip((first, second), self.mechanism.ties, strict=True)]
            islands = island_labels(self.count, *sides).astype(np.int64)
            found[:, 2] = islands[np.minimum(first, second)]
        pairs, keys = near.table, (near.table[:, 1] * len(self.layout.names) + near.table[:, 2]) * MOST_SLOTS
        most = int(self._slots.max())
        if most == 1:
            of_trees = self.mechanism.contacts(found)
            numbers = (near.margins, found, near.friction, near.restitution, near.shares)
            return PairLists(pairs, *numbers, keys, skins, near.worlds, of_trees, islands)
        slots = self._slots[pairs[:, 0]]
        owner = np.repeat(np.arange(len(pairs)), slots)
        places = pairs[:, PAIR_HEAD:] + np.arange(most)
        keys = keys[owner] + np.arange(len(owner)) - pairs[owner, PAIR_HEAD]
        pairs = np.concatenate([pairs[:, :PAIR_HEAD], places], axis=1)
        of_candidates = (found[owner], near.friction[owner], near.restitution[owner], near.shares[owner])
        of_trees = self.mechanism.contacts(of_candidates[0])
        return PairLists(pairs, near.margins, *of_candidates, keys, skins, near.worlds, of_trees, islands)

    def awake(self, near: NearPairs, islands: Islands) -> NearPairs:
        """The pairs of which a body is awake."""
        still = np.append(islands.asleep, np.ones(near.worlds, dtype=bool))
        return self._some_of(near, ~(still[near.node[:, 0]] & still[near.node[:, 1]]))

    def _some_of(self, near: NearPairs, chosen: Array) -> NearPairs:
        """Some of the pairs, bool (n,)."""
        if chosen.all():
            return near
        table, slots = near.table[chosen], self._slots[near.table[chosen, 0]]
        table[:, PAIR_HEAD] = np.cumsum(slots) - slots
        rest = {name: getattr(near, name)[chosen] for name in ("node", "friction", "restitution", "margins", "shares")}
        return near._replace(table=table, **rest)
