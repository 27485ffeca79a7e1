"""The integrator core: adaptive, eighth order, brought back to the manifold after every step.

The state y = (q, v) is integrated in coordinates, q̇ = rate(q, v), by SciPy's Dormand–Prince 8(5,3) stepper, which offers
error control and a seventh-order interpolant. After each accepted step the state is *projected*: quaternions to unit
length, positions onto g(q, t) = 0 by least-energy corrections A†ᵀ g, velocities onto A v + gₜ = 0 the same way. The
correction is of the size of the local error, so the order is kept and no error accumulates across the manifold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from whippletree.errors import WhippletreeError

Array = np.ndarray[Any, Any]


class Problem(Protocol):
    """What is integrated: an ordinary differential equation on a manifold."""

    def rate(self, t: float, y: Array) -> Array:
        """ẏ at a state on (or near) the manifold."""

    def project(self, t: float, y: Array) -> Array:
        """The nearest state on the manifold."""


class IntegrationError(WhippletreeError, ArithmeticError):
    """The integration cannot go on; ``time`` is where it stopped."""

    def __init__(self, message: str, time: float) -> None:
        self.time = time
        super().__init__(message)


@dataclass(frozen=True)
class Event:
    """Something to find: a function of (t, y) whose sign changes; ``direction`` 1 for rising, −1 for falling, 0 for both."""

    name: str
    function: Callable[[float, Array], float]
    direction: int = 0
    terminal: bool = False


@dataclass
class Statistics:
    """What a run has cost."""

    steps: int = 0
    evaluations: int = 0
    rejections: int = 0
    largest_correction: float = 0.0


@dataclass(frozen=True)
class Piece:
    """One accepted step: the interpolant holds from ``start`` to ``end``."""

    start: float
    end: float
    state: Array
    """The projected state at the end."""
    interpolant: Callable[[float], Array]
    found: tuple[tuple[str, float], ...] = ()
    """Events inside the step, (name, time), in order."""


@dataclass
class Integrator:
    """Steps through time; iterate over :meth:`pieces`."""

    problem: Problem
    rtol: float
    atol: float
    events: tuple[Event, ...] = ()
    event_tolerance: float = 1e-12
    """How exactly an event's time is located, s."""
    largest_step: float = np.inf
    statistics: Statistics = field(default_factory=Statistics)

    def pieces(self, t0: float, y0: Array, t1: float) -> Iterator[Piece]:
        """Accepted steps from t0 to t1, or to a terminal event.

        Raises:
            IntegrationError: if a step cannot meet the tolerances or the state stops being finite.
        """
        from scipy.integrate import DOP853

        y = self.problem.project(t0, np.asarray(y0, dtype=float))
        solver = DOP853(self._rate, t0, y, t1, rtol=self.rtol, atol=self.atol, max_step=self.largest_step)
        before = {event.name: event.function(t0, y) for event in self.events}
        while solver.status == "running":
            start, tried = solver.t, solver.nfev
            message = solver.step()
            if solver.status == "failed" or not np.all(np.isfinite(solver.y)):
                raise IntegrationError(self._failure(start, message), start)
            self.statistics.steps += 1
            self.statistics.rejections += (solver.nfev - tried) // 12 - 1
            interpolant = solver.dense_output()
            projected = self.problem.project(solver.t, solver.y)
            self._correct(solver, projected)
            found = self._located(start, solver.t, interpolant, projected, before)
            stop = next((time for name, time in found if self._event(name).terminal), None)
            if stop is None:
                yield Piece(start, solver.t, projected, interpolant, tuple(found))
                continue
            state = self.problem.project(stop, interpolant(stop))
            yield Piece(start, stop, state, interpolant, tuple(f for f in found if f[1] <= stop))
            return

    def _rate(self, t: float, y: Array) -> Array:
        self.statistics.evaluations += 1
        return self.problem.rate(t, y)

    def _correct(self, solver: Any, projected: Array) -> None:
        """Go on from the projected state; the first stage of the next step is evaluated there."""
        correction = float(np.abs(projected - solver.y).max(initial=0.0))
        if correction > 0.0:
            self.statistics.largest_correction = max(self.statistics.largest_correction, correction)
            solver.y = projected
            solver.f = self._rate(solver.t, projected)

    def _located(
        self, start: float, end: float, interpolant: Callable[[float], Array], state: Array, before: dict[str, float]
    ) -> list[tuple[str, float]]:
        """Events whose function changes sign in a step, with their times, in order."""
        from scipy.optimize import brentq

        found = []
        for event in self.events:
            old, new = before[event.name], event.function(end, state)
            before[event.name] = new
            rising = old < 0 <= new
            falling = old > 0 >= new
            if (rising and event.direction >= 0) or (falling and event.direction <= 0):

                def value(t: float, event: Event = event) -> float:
                    return event.function(t, interpolant(t))

                # the interpolant may miss the end state by its own small error
                same_side = value(start) * value(end) > 0
                time = end if same_side else float(brentq(value, start, end, xtol=self.event_tolerance))
                found.append((event.name, time))
        return sorted(found, key=lambda item: item[1])

    def _event(self, name: str) -> Event:
        return next(event for event in self.events if event.name == name)

    def _failure(self, t: float, message: str | None) -> str:
        reason = "the state is no longer finite" if message is None else message.rstrip(".").lower()
        return (
            f"the integration stopped at t = {t:.9g} s: {reason} (rtol = {self.rtol:g}, atol = {self.atol:g}). "
            f"The motion may run into a singular configuration, or the forces may grow without bound."
        )
