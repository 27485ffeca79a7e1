"""The adaptive integrator on the constraint manifold as a method: output at the times asked for, events on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from whippletree.simulation.collocation import Polynomial
from whippletree.simulation.integrator import Integrator, Piece, Progress
from whippletree.simulation.method import Chunk, Memo, Method, Task

Array = np.ndarray[Any, Any]


class Adaptive(Method):
    """Gauss collocation of order 16 with steps as long as the tolerances allow."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.integrator = Integrator(task.motion, task.rtol, task.atol, task.events)

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        times = self.task.times
        if memo is None:
            progress = Progress(float(times[0]), self.task.start)
            yield Chunk(times[:1], self.task.start[None], _memo(progress))
        else:
            progress = _progress(memo)
        for piece in self.integrator.pieces(progress, float(times[-1])):
            yield Chunk(*self._output(piece), _memo(piece.progress), piece.found)

    def _output(self, piece: Piece) -> tuple[Array, Array]:
        """States at the output times inside a step, and at its end where a terminal event has stopped there."""
        wanted = self.task.times
        inside = wanted[(wanted > piece.start) & (wanted <= piece.end)].tolist()
        states = [piece.state if t == piece.end else self._between(piece, t) for t in inside]
        stopped = bool(piece.found) and piece.found[-1][1] == piece.end
        if stopped and piece.end not in inside:
            inside, states = [*inside, piece.end], [*states, piece.state]
        return np.array(inside), np.array(states).reshape(len(inside), len(piece.state))

    def _between(self, piece: Piece, time: float) -> Array:
        return self.task.motion.project(time, piece.interpolant(time))

    def account(self) -> dict[str, Any]:
        return asdict(self.integrator.statistics)


def _memo(progress: Progress) -> Memo:
    memo = {"time": np.array(progress.time), "state": progress.state}
    if progress.guess is None:
        return memo
    return memo | {
        "next_length": np.array(progress.length),
        "guess_start": np.array(progress.guess.start),
        "guess_length": np.array(progress.guess.length),
        "guess_origin": progress.guess.origin,
        "guess_coefficients": progress.guess.coefficients,
    }


def _progress(memo: Memo) -> Progress:
    time, state = float(memo["time"]), memo["state"]
    if "next_length" not in memo:
        return Progress(time, state)
    last = Polynomial(
        float(memo["guess_start"]), float(memo["guess_length"]), memo["guess_origin"], memo["guess_coefficients"]
    )
    return Progress(time, state, float(memo["next_length"]), last)
