"""Guards of a motion, watched inside the kernel of its steps: a call ends with the first step in which one may vanish.

A guard is positive as long as a phase of the motion lasts. After each step that is kept its guards are worked out at
some states of the step's polynomial; the call goes on only if all of them are clear of zero, and no gap dips between
three neighbours so far that it may touch zero there (:func:`may_dip`). The kernel judges with care, not with finality:
what it stops at is looked at again, and located, in :mod:`whippletree.simulation.events.guards`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import If, Loop, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace

WATCHED = np.array([0.0, 1e-6, 1e-3, 0.02, *np.linspace(0.08, 1.0, 12)])
"""Shares of a step at which guards are looked at."""

GRAZING = 0.25
"""Share of the rise of a parabola through three samples up to which its minimum is looked at more closely: gaps are not
quite parabolas."""

BEYOND_SAMPLES = 0.5
"""Share of the distance to the next sample by which that minimum may lie beyond the three, for the same reason."""


class GuardBlocks(Protocol):
    """The guards of a kind of motion."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Key that, with the model and its equations, says all about them."""

    @property
    def count(self) -> int:
        """How many there are."""

    @property
    def gaps(self) -> int:
        """How many of them, the first ones, are gaps, which may dip."""

    @property
    def basis(self) -> Array:
        """Additions of the coefficients of a step's polynomial to its states at :data:`WATCHED`, (m, s)."""

    @property
    def needs_rates(self) -> bool:
        """Whether they need what the rates leave at a point, such as forces."""

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Arguments of the call for them."""

    def statements(self, space: WorkSpace) -> list[Statement]:
        """From the state X at a point to the ``guards`` (count,) at hand."""


class StepWatch:
    """The part of a kernel of steps that watches guards.

    Beside what the guards ask for, a call takes ``offset`` (guards,), which is taken from each of them, ``least``
    (guards,), above which it is clear of zero, and ``grazing`` (gaps,), positive for those that may dip.
    """

    def __init__(self, space: WorkSpace, guards: GuardBlocks, point: str) -> None:
        self.space, self.guards, self.point = space, guards, point
        space.table("shares", WATCHED)
        space.table("watched basis", guards.basis)
        spaces = np.diff(WATCHED, prepend=[-2.0, -1.0])
        space.table("spacing", np.stack([spaces[:-1], spaces[1:]], axis=1))
        space.work(guards=(guards.count,), earlier_gaps=(guards.gaps,), last_gaps=(guards.gaps,))
        space.work(crossing=(1,), watching=(1,), ended=(1,))

    @staticmethod
    def inputs(guards: GuardBlocks) -> dict[str, tuple[int, ...]]:
        """Arguments of a call for a watch over these guards."""
        own = {"offset": (guards.count,), "least": (guards.count,), "grazing": (guards.gaps,)}
        return own | guards.inputs

    def opening(self) -> list[Statement]:
        """Nothing is watched yet."""
        return [self.space.put(-1, *self.space.each(["crossing", "watching", "ended"]))]

    def sampling(self, places: int) -> list[Statement]:
        """Ask for the guards at states of the step that was kept, before y and now become those of the next one."""
        at, put = self.space.at, self.space.put

        def place(y: Array, now: Array, c: Array, basis: Array, share: Any) -> list[Any]:
            return [y + now[1] * (basis @ c), now[0] + now[1] * share]

        reads = [*self.space.each(["y", "now", "c"]), at("watched basis", self.point), at("shares", self.point)]
        there = [at("X", self.point), at("T", self.point)]
        wanted = put(1 if self.guards.needs_rates else -1, at("wanted", self.point))
        return [
            Loop(self.point, places, (put(-1, at("wanted", self.point)),)),
            Loop(self.point, len(WATCHED), (traced_block(place, reads, there), wanted)),
        ]

    def wait(self) -> Statement:
        """The next step, or the end of the call, waits for what the guards say."""
        return traced_block(
            lambda over: [[over[0]], [-1], [-1], [1], [-1], [0]],
            self.space.each(["over"]),
            self.space.each(["ended", "over", "beginning", "watching", "crossing", "doubt"]),
        )

    def judging(self) -> Statement:
        """Look at all guards; then the next step begins, or the call ends."""
        each, at, put = self.space.each, self.space.at, self.space.put
        state = ["guards", "offset", "least", "grazing", "earlier gaps", "last gaps", "crossing"]
        reads = [*each(state), at("spacing", self.point)]
        look = traced_block(self._look, reads, each(["earlier gaps", "last gaps", "crossing"]))

        def go_on(crossing: Array, ended: Array, doubt: Array) -> list[Any]:
            crossed = select(less(0, doubt[0]), 1, crossing[0])
            over = select(less(0, crossed), 1, ended[0])
            return [[crossed], [over], [-over], [-1]]

        flags = each(["crossing", "over", "beginning", "watching"])
        return If(
            self.space.address("watching"),
            (
                put(-1, *each(["earlier gaps", "last gaps"])),
                Loop(self.point, len(WATCHED), (*self.guards.statements(self.space), look)),
                traced_block(go_on, each(["crossing", "ended", "doubt"]), flags),
            ),
        )

    def _look(self, guards: Array, offset: Array, least: Array, grazing: Array, *rest: Array) -> list[Any]:
        """Whether a guard may have vanished at a sample, or a gap between the one before it and its neighbours."""
        earlier, last, crossing, (back, ahead) = rest
        found = crossing[0]
        for value, first, enough in zip(guards, offset, least, strict=True):
            found = select(less(enough, value - first), found, 1)  # so that what is no number counts as crossing
        gaps = guards[: self.guards.gaps]
        for one, two, three, watched in zip(earlier, last, gaps, grazing, strict=True):
            found = select(may_dip(one, two, three, back, ahead) & less(0, watched), 1, found)
        return [last, gaps, [found]]


def may_dip(before: Any, here: Any, after: Any, back: Any, ahead: Any) -> Any:
    """Whether a gap that is positive at three times, ``back`` and ``ahead`` apart, may be zero between them.

    The parabola through the three has its minimum there, or nearly, and that is below zero, or nearly.
    """
    falling, rising = (here - before) / back, (after - here) / ahead
    bend = (rising - falling) / (back + ahead)
    bent = less(0, bend)
    curved = select(bent, bend, 1)
    slope = (falling * ahead + rising * back) / (back + ahead)
    place, lowest = -slope / (2 * curved), here - slope * slope / (4 * curved)
    within = less(-(1 + BEYOND_SAMPLES) * back, place) & less(place, (1 + BEYOND_SAMPLES) * ahead)
    low = less(lowest, GRAZING * curved * (back + ahead) * (back + ahead) / 4)
    return bent & within & low & less(0, before) & less(0, here) & less(0, after)
