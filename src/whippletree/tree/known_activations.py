"""Activations of actuators as functions of time, under commands that do not depend on the state.

Under constant commands integrators and filters have closed forms, on any scalar; muscles are integrated once, by a
Runge–Kutta method of eighth order to ``MUSCLE_TOLERANCE``. All are monotone while commands do not change: the end of a
range is passed once and for good, so that cutting the free solution is exact.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import exp
from whippletree.model import Model
from whippletree.tree.activation import activation_rates
from whippletree.tree.actuation import cut

MUSCLE_TOLERANCE = 1e-12
"""Relative and absolute error of the activations of muscles, in each step of their integration."""


class KnownActivations:
    """``known(t)``: activations (activations,) at a time t, s."""

    def __init__(self, model: Model, ctrl: Array, duration: float | None, act: Array) -> None:
        """``ctrl``: rows (n, actuators), each of which holds for an equal part of the duration; ``act``: at t = 0."""
        self.model, self.ctrl, self.act = model, ctrl, act
        self.share = np.inf if len(ctrl) == 1 or duration is None else duration / len(ctrl)
        self.duration = 1.0 if duration is None else duration
        self._muscles = [
            i for i, k in enumerate(model.activations) if (a := model.actuators[k].activation) and a.kind == "muscle"
        ]

    def __call__(self, t: Any) -> Array:
        if self.share == np.inf:
            return self._within(0, t)
        row = min(max(int(t / self.share), 0), len(self.ctrl) - 1)  # a traced time has no row: such runs go by Python
        return self._within(row, t - row * self.share)

    @cached_property
    def _starts(self) -> list[Array]:
        """Activations at the beginning of each row."""
        found = [self.act]
        for row in range(len(self.ctrl) - 1):
            self._solutions.append(self._muscle_solution(row, found[-1]))
            found.append(self._follow(row, found[-1], self.share))
        self._solutions.append(self._muscle_solution(len(self.ctrl) - 1, found[-1]))
        return found

    @cached_property
    def _solutions(self) -> list[Any]:
        """Of the muscles within each row."""
        return []

    def _within(self, row: int, t: Any) -> Array:
        return self._follow(row, self._starts[row], t)

    def _follow(self, row: int, start: Array, t: Any) -> Array:
        """Activations at a time t after the start of a row."""
        pulled = dict(zip(self._muscles, self._solutions[row](float(t)), strict=True)) if self._muscles else {}
        found = []
        for i, k in enumerate(self.model.activations):
            actuator, w = self.model.actuators[k], start.tolist()[i]
            activation, u = actuator.activation, cut(self.ctrl[row].tolist()[k], actuator.command_range)
            assert activation is not None
            if activation.kind == "integrator":
                value = w + u * t
            elif activation.kind == "muscle":
                value = pulled[i]
            else:
                value = u + (w - u) * exp(-t / activation.times[0])
            found.append(cut(value, activation.range))
        values = vector(*found)
        return values if any(_is_symbolic(x) for x in found) else values.astype(float)

    def _muscle_solution(self, row: int, start: Array) -> Any:
        """A function of the time since the start of a row; the last one goes on for as long again."""
        from scipy.integrate import solve_ivp

        if not self._muscles:
            return None
        every, ctrl = np.array(start, dtype=float), self.ctrl[row].astype(float)

        def rates(_: float, w: Array) -> Array:
            every[self._muscles] = w
            return activation_rates(self.model, ctrl, every)[self._muscles].astype(float)

        end = 2 * self.duration if row == len(self.ctrl) - 1 else self.share
        begin = np.array(start, dtype=float)[self._muscles]
        found = solve_ivp(
            rates, (0.0, end), begin, "DOP853", dense_output=True, rtol=MUSCLE_TOLERANCE, atol=MUSCLE_TOLERANCE
        )
        return found.sol


def _is_symbolic(x: Any) -> bool:
    return not isinstance(x, (int, float, np.floating, np.integer))
