"""Events that repeat at one instant: with every few of them larger velocities and accelerations are taken as none.

Slips that stop together, and hops below rounding, are not told apart by smaller numbers. The largest tolerances that a
run has used are part of its result.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.simulation.events.transitions import Transitions

EVENTS_AT_ONCE = 50
"""Events that may follow each other at one instant."""

AT_ONCE_WITHIN = 1e-9
"""s"""

EVENT_PATIENCE = 8
"""Events at one instant after each of which contact velocities ten times as large are taken as none."""

LEAN = 1e-10
"""Share of the largest contact acceleration that counts as none where events repeat at one instant, to begin with."""


class Patience:
    """How often events have repeated at the last instant, and the rules that this asks for."""

    def __init__(self, rules: Transitions) -> None:
        self.plain = rules
        self._last, self._repeats, self._most = 0.0, 0, 0

    def count(self, t: float) -> None:
        """Take note of an event."""
        self._repeats = self._repeats + 1 if t - self._last <= AT_ONCE_WITHIN else 0
        self._last = t
        self._most = max(self._most, self._repeats // EVENT_PATIENCE)

    @property
    def exhausted(self) -> bool:
        """Whether events at this instant do not end."""
        return self._repeats > EVENTS_AT_ONCE

    @property
    def rules(self) -> Transitions:
        """The rules at this instant."""
        return self._after(self._repeats // EVENT_PATIENCE)

    @property
    def largest(self) -> Transitions:
        """The rules with the largest tolerances so far."""
        return self._after(self._most)

    def _after(self, rounds: int) -> Transitions:
        tolerance = self.plain.speed_tolerance * 10.0**rounds
        return replace(self.plain, speed_tolerance=tolerance, lean=LEAN * 100.0**rounds if rounds else 0.0)

    def memo(self) -> Array:
        """As numbers."""
        return np.array([self._last, self._repeats, self._most])

    def recall(self, memo: Array) -> None:
        """Go on from numbers."""
        self._last, self._repeats, self._most = float(memo[0]), int(memo[1]), int(memo[2])
