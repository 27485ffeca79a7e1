"""Integrations that hardly get on: hundreds of steps for a tiny share of what is left."""

from __future__ import annotations

from whippletree.simulation.integrator import IntegrationError

CRAWLING_STEPS, CRAWLING = 500, 1e-6
"""How many steps may lead through how small a share of the time that is left."""


class Crawl:
    """Watches an integration from a start to an end."""

    def __init__(self, start: float, end: float) -> None:
        self._mark = start
        self._least = CRAWLING * (end - start)
        self._steps = 0

    def watch(self, time: float) -> None:
        """Called after every step.

        Raises:
            IntegrationError: if the last steps have led nowhere.
        """
        self._steps += 1
        if self._steps % CRAWLING_STEPS:
            return
        gained, self._mark = time - self._mark, time
        if gained < self._least:
            raise IntegrationError(
                f"the integration crawls at t = {time:.9g} s: {CRAWLING_STEPS} steps have advanced by {gained:.1e} s. "
                f"Stiff springs and dampers on light parts shorten them, and so do forces that grow without bound: "
                f"use method='time_stepping'",
                time,
            )
