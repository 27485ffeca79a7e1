"""How things are timed: alternating between the contestants, so that a noisy machine is noisy for all; medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

Contestants = dict[str, Callable[[], object]]


def alternating(contestants: Contestants, *, rounds: int = 15, seconds: float = 0.02) -> dict[str, float]:
    """Median seconds per call of each contestant; every round runs each of them for about ``seconds``."""
    repeats = {name: _repeats(call, seconds) for name, call in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            count = repeats[name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - start) / count)
    return {name: statistics.median(values) for name, values in times.items()}


def processor_seconds(function: Callable[[], object]) -> float:
    """Processor time of one call: what other processes do does not count."""
    begun = time.process_time()
    function()
    return time.process_time() - begun


def _repeats(call: Callable[[], object], seconds: float) -> int:
    """How many calls fill the time; the first call, which may compile, is not counted."""
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-7)
    return max(1, int(seconds / once))
