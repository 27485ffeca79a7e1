"""Events that a user asks for: functions of the state whose changes of sign are located on the polynomial of a step.

Steps are long, since their order is high: a second of a pendulum is some ten of them. So a function is looked at on the
way, too: a sign that changes and changes back within one step is found unless both happen between two looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import numpy as np

from whippletree.errors import IntegrationError
from whippletree.simulation.adaptive.collocation import Polynomial
from whippletree.simulation.adaptive.strides import AcceptedStep

LOOKS = 16
"""Looks at an event's function in a step, at equal distances: as many as the guards of contacts have. Steps of a
pendulum at the default tolerances take 97 ms, of which one look at the end sees nothing; sixteen see visits of 7 ms."""


@dataclass(frozen=True)
class Event:
    """Something to find: a function whose sign changes, of (t, q, v) for ``wt.simulate`` and of (t, y) in this module.

    ``direction``: 1 for rising, −1 for falling, 0 for both. A terminal event ends the run. What is zero at the start
    has not changed its sign there, so that a run may begin where another ended; what is no number (NaN) ends the run.
    """

    name: str
    function: Callable[..., float]
    _: KW_ONLY
    direction: int = 0
    terminal: bool = False


def locate_events(
    events: Sequence[Event], start: float, step: AcceptedStep, before: list[float], tolerance: float
) -> list[tuple[str, float]]:
    """Changes of sign of the events' functions in a step: names and times, in order.

    Args:
        events: those that are looked for.
        start: of the step, s.
        step: accepted, with the state at its end.
        before: of each event, the value of its function at the start; that at the end is written there.
        tolerance: to which a time is located, s.

    Raises:
        IntegrationError: a function that is no number, or that is none of (t, q, v).
    """
    if not events:
        return []
    interpolant = step.solution.polynomial
    times = np.linspace(start, step.end, LOOKS + 1)
    states = [*interpolant.states(times[1:-1]), step.state]
    found = []
    for k, event in enumerate(events):
        ends = zip(times[1:].tolist(), states, strict=True)
        looks = [(start, before[k]), *((t, event.function(t, y)) for t, y in ends)]
        before[k] = looks[-1][1]
        for (begin, old), (end, new) in pairwise(looks):
            rising, falling = old < 0 <= new, old > 0 >= new
            if (rising and event.direction >= 0) or (falling and event.direction <= 0):
                found.append((event.name, _time_of_zero(event, interpolant, begin, end, tolerance)))
    return sorted(found, key=lambda item: item[1])


def _time_of_zero(event: Event, interpolant: Polynomial, start: float, end: float, tolerance: float) -> float:
    """When an event's function vanishes between two times, between which its sign changes."""
    from scipy.optimize import brentq  # slow to import, and few runs find events

    def value(t: float) -> float:
        return event.function(t, interpolant(t))

    # the interpolant may miss the projected end by its own small error
    if value(start) * value(end) > 0:
        return end
    try:
        return float(brentq(value, start, end, xtol=tolerance))
    except ValueError as error:
        raise IntegrationError(
            f"the event {event.name!r} returned two values when it was asked twice about the state at "
            f"t = {start:.9g} s or t = {end:.9g} s: it must be a function of (t, q, v), without memory or chance",
            start,
        ) from error
