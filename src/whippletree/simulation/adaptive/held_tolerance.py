"""The tolerance that steps are held to: as asked, or as loose as rounding makes it where it is.

A state may allow less than was asked (an ill-conditioned configuration), and so may the length of a step
(:mod:`whippletree.simulation.adaptive.rounding_in_steps`). When that is asked depends on the steps of the run alone, so
that it does not matter where a run was taken up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.collocation.step_control import LEAP
from whippletree.simulation.adaptive.collocation import Polynomial
from whippletree.simulation.adaptive.motion_pieces import Statistics
from whippletree.simulation.adaptive.newton import NO_RATES, Rates, Stiffness
from whippletree.simulation.adaptive.rounding_in_steps import (
    MOST_BY_ROUNDING,
    MOST_ROUNDING,
    SHARE_OF_ROUNDING,
    noise_of_rates,
    rounding_of_steps,
)
from whippletree.simulation.adaptive.strides import AcceptedStep

LOOK_AGAIN = 50
"""Steps after which Picard iteration is looked at whose error is small only in a stiff direction, such as rounding
magnified by a spring: that keeps steps short as well, and does not show in its contraction."""

LOOK_AT_ROUNDING, LOOK_SOON = 2 * LOOK_AGAIN, LOOK_AGAIN // 5
"""Steps after which it is asked which relative tolerance rounding allows, which takes as long as four of a double
pendulum; and after which it is asked again where it was raised."""

IN_TROUBLE = 2
"""Rejections before one step from which it is asked whether rounding is the reason: one alone is common (a fifth of the
steps of pendulums), and to ask takes as long as four of them."""

SHORTER = 5
"""How often a step is divided by ``LEAP`` to look for the tolerance at which rounding lets it be rejected."""


class HeldTolerance:
    """Relative and absolute tolerance of the next step."""

    def __init__(
        self,
        rtol: float,
        atol: float,
        statistics: Statistics,
        rates: Rates,
        stiffness: Callable[[float, Array], Stiffness],
        allowed: Callable[[Array], float] | None,
        may_rise: bool,
    ) -> None:
        """The tolerances that a user asks for hold first.

        Args:
            rates: of the motion.
            stiffness: ∂ẏ/∂y at a time and a state.
            allowed: the relative tolerance that a state allows, or the worst of several; None if it is the same
                everywhere.
            may_rise: whether rounding in steps may raise it.
        """
        self.rtol, self.atol = self._asked = rtol, atol
        self._statistics, self._rates, self._stiffness = statistics, rates, stiffness
        self._allowed, self._may_rise = allowed, may_rise

    def begin(self, rtol: float | None) -> None:
        """Go on with a relative tolerance of a former step; None: with the one that was asked for."""
        self.hold_to(self._asked[0] if rtol is None else rtol)

    def hold_to(self, rtol: float) -> None:
        """Hold the next steps to a relative tolerance; the absolute one goes with it."""
        first, atol = self._asked
        if rtol != self.rtol and first > 0:
            self.atol = atol * (rtol / first)
        self.rtol = rtol
        self._statistics.largest_rtol = max(self._statistics.largest_rtol, rtol)

    def steps_to_look(self) -> int:
        """Steps that may be taken at once: counted over the run, so that it does not matter where it was taken up."""
        between = LOOK_SOON if self._is_loosened else LOOK_AGAIN
        return between - self._statistics.steps % between

    def look(self, t: float, y: Array, length: float, last: Polynomial | None, failed: bool) -> None:
        """Ask, where it is time, what rounding allows a step of this length from a state, after the last one.

        Where it was raised it must allow shorter ones as well: a step that is rejected would lead to them.
        """
        steps, between = self._statistics.steps, LOOK_SOON if self._is_loosened else LOOK_AT_ROUNDING
        if not (failed and self._allowed is not None) and (not steps or steps % between):
            return
        allowed = self._asked[0] if self._allowed is None else self._allowed(y)
        lengths = [length / LEAP**k for k in range(SHORTER if self._is_loosened else 1)]
        self.hold_to(self._asked[0])
        self.hold_to(allowed if last is None else max(allowed, self._loosened(last, t, y, lengths)))

    def up_to_rounding(self, kept: list[AcceptedStep]) -> tuple[list[AcceptedStep], float]:
        """The steps up to the first after which rounding asks for another tolerance, and the tolerance after them.

        Only steps before which several longer ones were rejected are looked at, each by itself, so that it does not
        matter where a run was taken up.
        """
        for k, step in enumerate(kept):
            own = step.solution.polynomial
            if (
                step.rejections >= IN_TROUBLE
                and (rtol := self._loosened(own, step.end, step.state, [own.length])) > self.rtol
            ):
                return kept[: k + 1], rtol
        return kept, self.rtol

    def notice(self, kept: Sequence[AcceptedStep]) -> None:
        """Note the tolerance that rounding allows at the ends of steps that were taken in one call.

        It is reported as an excursion between two looks; no step is held to it, so that it does not matter where a run
        was taken up.
        """
        if self._allowed is not None and len(kept) > 1:
            allowed = self._allowed(np.stack([step.state for step in kept]))
            self._statistics.largest_rtol = max(self._statistics.largest_rtol, allowed)

    @property
    def _is_loosened(self) -> bool:
        return self.rtol > self._asked[0]

    def _loosened(self, step: Polynomial, end: float, state: Array, lengths: Sequence[float]) -> float:
        """The relative tolerance of which rounding takes no more than its share in steps of some lengths after one.

        It must do so at both ends of the last one: what is next to a dead point at one of them is left behind.
        """
        if self.rtol >= MOST_BY_ROUNDING or not self._may_rise:
            return self.rtol
        times, states = np.array([step.start, end]), np.stack([step.origin, state])
        left = []
        with suppress(*NO_RATES):
            noise = noise_of_rates(self._rates, times, states, step.length)
            for k, (t, y) in enumerate(zip(times.tolist(), states, strict=True)):
                scale = self.atol + self.rtol * np.abs(y)
                left.append(rounding_of_steps(noise[:, k], lengths, scale, partial(self._stiffness, t, y)))
                if left[-1] <= MOST_ROUNDING:
                    return self.rtol
        loosened = self.rtol * min(left, default=0.0) / SHARE_OF_ROUNDING
        return loosened if self.rtol < loosened <= MOST_BY_ROUNDING else self.rtol
