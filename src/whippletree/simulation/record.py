"""The growing output of a run: chunk by chunk, until it ends or fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from whippletree.simulation.integrator import IntegrationError
from whippletree.simulation.method import Chunk

Array = np.ndarray[Any, Any]


class Record:
    """What a run has produced so far."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.failure = ""

    def follow(self, chunks: Iterable[Chunk]) -> None:
        """Take chunks until they end; a run that fails keeps what it had."""
        try:
            for chunk in chunks:
                self.chunks.append(chunk)
        except IntegrationError as error:
            self.failure = str(error)

    @property
    def times(self) -> Array:
        """(m,)"""
        return np.concatenate([chunk.times for chunk in self.chunks])

    @property
    def states(self) -> Array:
        """(m, nq + nv), or (m, runs, nq + nv)."""
        return np.concatenate([chunk.states for chunk in self.chunks])

    @property
    def events(self) -> list[tuple[str, float]]:
        """(name, time) of all that was found."""
        return [event for chunk in self.chunks for event in chunk.events]

    def variable(self, name: str) -> Array:
        """A further output of the method, (m, …)."""
        return np.concatenate([chunk.variables[name] for chunk in self.chunks])
