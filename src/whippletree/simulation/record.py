"""The growing output of a run: chunk by chunk, until it ends or fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import IntegrationError, warn_caller
from whippletree.simulation.checkpoint import Checkpoint, ClosingFacts
from whippletree.simulation.method import Chunk, Memo, Method
from whippletree.simulation.progress import Shows
from whippletree.simulation.sparse_rows import SparseRows, join_rows

INTERRUPTED = "interrupted by the user"
"""The failure of a run that was stopped from the keyboard."""


class Record:
    """The record of a run so far."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        """Without their memos, which may be large."""
        self.failure = ""
        self.failures: Mapping[int, str] = {}
        """Runs of a batch that have failed, and why."""
        self.account: Mapping[str, Any] = {}
        """Costs and events of the run."""
        self._joined: dict[str, Array] = {}

    def follow(self, method: Method, keep: Checkpoint | None = None, show: Shows | None = None) -> None:
        """Take a method's chunks until they end; a run that fails, or that the user interrupts, keeps what it had.

        ``keep`` is given every chunk, and is asked first for what an earlier process has left there; ``show`` is told
        how far the run has come.
        """
        memo = None if keep is None else self._recall(method, keep)
        if keep is not None and keep.finished is not None:
            self.failures, self.account = keep.finished.failures, keep.finished.account
            return
        try:
            self.take(method, memo, keep, show)
        except KeyboardInterrupt:
            self._keep_unfinished(method)
        finally:
            if keep is not None:
                keep.write()
        if keep is not None and not self.failure:
            keep.finish(ClosingFacts(self.failures, self.account))

    def take(
        self, method: Method, memo: Memo | None = None, keep: Checkpoint | None = None, show: Shows | None = None
    ) -> None:
        """Take a method's chunks as a part of something larger: an interrupt is not answered here."""
        try:
            for chunk in method.chunks(memo):
                # an interrupt may come at any time: what takes long comes before or after both have the chunk
                kept = None if keep is None else keep.label(chunk, method.tally())
                own = replace(chunk, memo={})
                if len(chunk.times) or chunk.events or not self.chunks:  # of many steps without output, nothing stays
                    self.chunks.append(own)
                if keep is not None and kept is not None:
                    keep.waiting.append(kept)
                    keep.write_in_time()
                if show is not None and len(chunk.times):
                    show(float(chunk.times[-1]), float(method.task.times[-1]))
        except IntegrationError as error:
            if not self.chunks:
                raise  # nothing has been simulated: the start itself is at fault
            self.failure = f"{error}{self._words_on_memory(method)}"
        finally:
            self.failures, self.account = method.failures, method.account()

    def _recall(self, method: Method, keep: Checkpoint) -> Memo | None:
        """Take what was kept; the memo to go on from, if there is one."""
        kept, tally = keep.recall()
        self.chunks += [replace(chunk, memo={}) for chunk in kept]
        if tally:
            method.take_over(tally)
        return kept[-1].memo if kept else None

    def _words_on_memory(self, method: Method) -> str:
        """What is said beside a failure, where steps of controlled error followed what is no function of the state."""
        first, motion = self.chunks[0], method.task.motion
        if (
            not method.tolerances
            or first.states.ndim != 2
            or not motion.gives_two_answers(first.times[0], first.states[0])
        ):
            return ""
        return (
            " The controller has a memory, or depends on chance: asked twice at the start it gave two answers. "
            "Steps of controlled error need a function of (t, q, v); method='time_stepping' asks once in each step, in "
            "order"
        )

    def _keep_unfinished(self, method: Method) -> None:
        """Keep what there is; the interrupt goes on if that is nothing."""
        rest = method.unfinished_chunk()
        if rest is not None:
            self.chunks.append(replace(rest, memo={}))
        if not self.chunks:
            raise KeyboardInterrupt
        self.failure = INTERRUPTED
        warn_caller("simulate: interrupted; returning what was computed so far", RuntimeWarning)

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
        if name not in self._joined or len(self._joined[name]) != sum(len(chunk.times) for chunk in self.chunks):
            self._joined[name] = join_rows([chunk.variables[name] for chunk in self.chunks])
        return self._joined[name]

    def written(self, name: str) -> Array | slice:
        """Among which things of such a variable those are whose numbers differ from zero, (k,), or all."""
        parts = [chunk.variables[name] for chunk in self.chunks]
        sparse = [part.numbers for part in parts if isinstance(part, SparseRows)]
        return np.unique(np.concatenate(sparse)) if parts and len(sparse) == len(parts) else slice(None)
