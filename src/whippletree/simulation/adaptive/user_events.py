"""Events that a user asks for: functions of the state whose changes of sign are located on the polynomial of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from whippletree.simulation.adaptive.strides import AcceptedStep


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
    events: Sequence[Event], start: float, step: AcceptedStep, before: dict[str, float], tolerance: float
) -> list[tuple[str, float]]:
    """Events whose function changes sign in a step, with their times, in order.

    Args:
        events: those that are looked for.
        start: of the step, s.
        step: accepted, with the state at its end.
        before: of each event, the value of its function at the start; that at the end is written there.
        tolerance: to which a time is located, s.
    """
    if not events:
        return []
    from scipy.optimize import brentq  # slow to import, and few runs look for events

    end, interpolant, found = step.end, step.solution.polynomial, []
    for event in events:
        old, new = before[event.name], event.function(end, step.state)
        before[event.name] = new
        rising, falling = old < 0 <= new, old > 0 >= new
        if (rising and event.direction >= 0) or (falling and event.direction <= 0):

            def value(t: float, event: Event = event) -> float:
                return event.function(t, interpolant(t))

            # the interpolant may miss the projected end by its own small error
            same_side = value(start) * value(end) > 0
            found.append((event.name, end if same_side else float(brentq(value, start, end, xtol=tolerance))))
    return sorted(found, key=lambda item: item[1])
