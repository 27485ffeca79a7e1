"""The growing output of a run: chunk by chunk, until it ends or fails."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from whippletree.simulation.checkpoint import Checkpoint
from whippletree.simulation.integrator import IntegrationError
from whippletree.simulation.method import Chunk, Method
from whippletree.simulation.progress import Shows

Array = np.ndarray[Any, Any]


class Record:
    """What a run has produced so far."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.failure = ""

    def follow(self, method: Method, keep: Checkpoint | None = None, show: Shows | None = None) -> None:
        """Take a method's chunks until they end; a run that fails, or that the user interrupts, keeps what it had.

        ``keep`` is given every chunk, and is asked first for what an earlier process has left there; ``show`` is told
        how far the run has come.
        """
        self.chunks += keep.chunks() if keep is not None else []
        try:
            for chunk in method.chunks(self.chunks[-1].memo if self.chunks else None):
                self.chunks.append(chunk)
                if keep is not None:
                    keep.add(chunk)
                if show is not None and len(chunk.times):
                    show(float(chunk.times[-1]), float(method.task.times[-1]))
        except IntegrationError as error:
            self.failure = str(error)
        except KeyboardInterrupt:
            if not self.chunks:
                raise
            self.failure = "interrupted by the user"
            warnings.warn("simulate: interrupted; returning what was computed so far", RuntimeWarning, stacklevel=3)
        finally:
            if keep is not None:
                keep.write()

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
