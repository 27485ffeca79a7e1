"""How far bodies may go before a scene needs new lists of what is near: their *skins*.

A list holds every pair that is less than the sum of two skins apart, and serves until a body has travelled as far as
its own is thick: no pair that is missing can touch before. Ways are measured against the mean motion of all bodies. So
bodies that fall together hardly move; the world does, and its skin is an ellipsoid, long the way that it is expected to
go and thin across: balls that fall between walls are near the floor then, and not near every wall. Where most bodies
lie still and a few move, as a robot among boxes does, ways are measured against the world instead.

A skin is as thick as its own body is fast: bricks of a wall need not be compared with bricks beside them because a ball
flies towards it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.scene_layout import SceneLayout

STEPS_AHEAD, STEPS_OF_FALL = 6, 200
"""Steps that lists shall serve at the speed of the moment: of bodies against each other; and of all against the world,
as long as they fall and nothing is touched."""

FEW_CANDIDATES, TIMES_LONGER, TIMES_THICKER = 2, 2, 1.5
"""Where no pair has more candidates than the first number, pairs that are not needed cost less than new lists: these
serve so many times longer, with skins that may be so many times thicker. A hundred balls that settle took 20 lists
instead of 44, of 590 candidates instead of 400; boxes, of eight or more candidates each, take half as long again."""

THINNEST, THICKEST, WORLD_SKIN = 0.02, 0.4, 400.0
"""The skin of a body, at least and at most, as a share of the median size of the shapes, and that of the world along
its way at most: what lies still should need no new lists, and what flies past should not fill them. Bodies faster than
that need new lists in every step. Pairs with the world are few, so that its skin may be thicker."""

FEW_FAST, SHARE_OF_FAST, STEPS_OF_FAST, THICKEST_OF_FAST = 16, 0.1, 12, 4.0
"""So many of the fastest bodies, or that share of all, have skins for more steps, and thicker ones at most, as a share
of the median size: few have many neighbours more by that, and lists last. An arm that pushes 12 and 30 boxes takes 168
and 461 µs a step, with 8 such bodies 166 and 699, with 64 for half as many steps 203 and 471; one skin for all, as
thick as the fastest needs and 0.4 at most, took 340 and 734, and a wall of 25 bricks towards which a ball swings
247 instead of 129."""

TIMES_THINNEST = 4.0
"""Skins that are so many times thicker than the thinnest are made for bodies that move."""

STEPS_OF_ROLLING, THICKEST_OF_ROLLING = 200, TIMES_THINNEST * THINNEST
"""Steps that lists shall serve at the speeds of the fastest few, and their skins at most for that, as a share of the
median size, where pairs that are not needed cost less than new lists: in a pile at rest some balls roll on. Two hundred
steps of a hundred balls, of which one rolls at 8 mm/s, took 10 lists, a fifth of the time, and now 2."""

SHARE_OF_STEP = 1.5
"""Skins are thicker than the way of a step by so much, at least: a step that outruns its lists is taken in vain."""


class Skins(NamedTuple):
    """How far each body and the world may go against the mean motion."""

    budget: Array
    """m, (bodies + 1,); the world's counts a way d as √(|d|² − (grain · d)²)."""
    grain: Array
    """Along the way of the world, of length √(1 − w²) where its skin is 1 / w times longer than thick, (3,)."""
    together: float = 1.0
    """1 where ways are measured against the mean motion of all bodies, 0 where against the world."""

    @property
    def stretch(self) -> float:
        """1 / w² − 1."""
        square = float(self.grain @ self.grain)
        return square / (1 - square)

    @property
    def direction(self) -> Array:
        """Along the way of the world, a unit vector; 0 where its skin is as long as thick."""
        return self.grain / (math.hypot(*self.grain) or 1.0)

    def of_bodies(self, still: Array) -> Array:
        """The skin of each body, m, and that of the world where it is longest, (bodies + 1,); ``still``: bodies that
        move as the world does."""
        found = self.budget.copy()
        found[:-1][still] = found[-1] = self.budget[-1] * math.sqrt(1 + self.stretch)
        return found


class SkinRule(NamedTuple):
    """The facts about a scene, beside its motion, from which skins are chosen."""

    size: float
    """Median size of the shapes, m."""
    gravity: Array
    swing: Array
    """:attr:`~whippletree.contact.kinematics.scene_layout.SceneLayout.swing`."""
    steps_ahead: int
    """Steps that lists shall serve."""
    thickest: float
    """Skin of a body at most, as a share of the size."""
    serves_long: bool
    """Whether pairs that are not needed cost less than new lists."""

    @staticmethod
    def of_scene(layout: SceneLayout) -> SkinRule:
        """The rule of a scene."""
        sizes = layout.radii[np.isfinite(layout.radii) & (layout.radii > 0)]
        size = float(np.median(sizes)) if len(sizes) else 1.0
        few = max(kind.slots for kind in layout.kinds) <= FEW_CANDIDATES
        ahead, thickest = (TIMES_LONGER * STEPS_AHEAD, TIMES_THICKER * THICKEST) if few else (STEPS_AHEAD, THICKEST)
        return SkinRule(size, np.asarray(layout.model.gravity, dtype=float), layout.swing, ahead, thickest, few)

    def skins(self, velocities: Array, turning: Array, h: float, *, falls: bool, stopped: bool) -> Skins:
        """Skins for the next steps of h seconds.

        Args:
            velocities: of the bodies' origins in the world, m/s, (bodies, 3).
            turning: angular velocities, (bodies, 3).
            falls: nothing was touched in the last step, so that all go on to fall.
            stopped: what falls with all others may be stopped within a step.
        """
        drift = velocities.sum(axis=0) / len(velocities)
        speeds, alone = _lengths(velocities - drift), _lengths(velocities)
        together = falls or bool(speeds.sum() < alone.sum())
        if not together:
            drift, speeds = np.zeros(3), alone
        if self.swing.any():
            speeds += self.swing[:-1] * _lengths(turning)
        fall, going = h * math.hypot(*self.gravity), math.hypot(*drift)
        fastest = float(speeds.max())
        # what lies still may be hit, and is then as fast as what has hit it
        least = SHARE_OF_STEP * h * (max(fastest, going if stopped else 0.0) + fall)
        thick = self._clip_to_bounds(self.steps_ahead * h * fastest, least, self.thickest)
        budget = np.empty(len(velocities) + 1)
        budget[:-1] = np.clip(self.steps_ahead * h * speeds, min(thick, max(least, THINNEST * self.size)), thick)
        first = _numbers_of_largest(speeds, max(FEW_FAST, int(SHARE_OF_FAST * len(speeds))))
        own = np.minimum(STEPS_OF_FAST * h * speeds[first], THICKEST_OF_FAST * self.size)
        if self.serves_long:
            rolling = np.minimum(STEPS_OF_ROLLING * h * speeds[first], THICKEST_OF_ROLLING * self.size)
            own = np.maximum(own, rolling)
        budget[first] = np.maximum(budget[first], own)
        budget[-1], grain = self._of_world(drift, h, thick, STEPS_OF_FALL if falls else 1)
        return Skins(budget, grain, float(together))

    def is_thick(self, skins: Skins) -> bool:
        """Whether the skins of bodies are several times thicker than those of bodies at rest."""
        return bool(skins.budget[:-1].max() > TIMES_THINNEST * THINNEST * self.size)

    def _of_world(self, drift: Array, h: float, thickness: float, fall: int) -> tuple[float, Array]:
        """Thickness of the world's skin, at least as given, and its grain; all fall on for so many steps."""
        steps = 1.1 * max(fall, self.steps_ahead)  # the last of them is within, too
        ahead = drift + fall / 2 * h * self.gravity
        speed = math.hypot(*ahead)
        length = self._clip_to_bounds(steps * h * speed, SHARE_OF_STEP * h * speed, WORLD_SKIN)
        along = ahead / (speed or 1.0)
        # a parabola leaves its chord
        bend = math.hypot(*(self.gravity - (self.gravity @ along) * along)) * (fall * h) ** 2 / 2
        thickness = min(length, max(thickness, bend))
        return thickness, along * math.sqrt(1 - (thickness / length) ** 2)

    def _clip_to_bounds(self, wanted: float, least: float, thickest: float) -> float:
        low = max(THINNEST * self.size, least)
        return min(max(wanted, low), max(thickest * self.size, low))


def _lengths(vectors: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ni,ni->n", vectors, vectors)))


def _numbers_of_largest(values: Array, count: int) -> Array:
    """Where so many of the largest values are, in any order; all of them where there are fewer."""
    below = max(0, len(values) - count)
    return np.argpartition(values, below)[below:] if below else np.arange(len(values))
