"""The adaptive integrator on the constraint manifold as a method: output at the times asked for, events on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import IntegrationError, NameLookupError
from whippletree.simulation.adaptive.collocation import MORE_POINTS, Polynomial, gauss_rule, states_along
from whippletree.simulation.adaptive.compiled_steps import CompiledSteps
from whippletree.simulation.adaptive.integrator import Integrator
from whippletree.simulation.adaptive.motion_pieces import MotionPiece, Progress, Statistics
from whippletree.simulation.method import Chunk, Memo, Method, Task

MOST_ADAPTIVE_STEPS = 1_000_000
"""Steps, rejected ones too, after which a run gives up unless told otherwise."""


SOLVERS = ("auto", "picard", "newton")
"""How the equations of a step are solved."""

SILENT_STEPS = 100
"""Steps without any output after which a run can still be stored and taken up again."""

TRIALS, CRAWLING = 150, 1e-6
"""Steps, rejected ones too, that may lead through how small a share of the whole run."""


class Adaptive(Method):
    """Gauss collocation of order 16 (24 in long runs), or Radau's of order 15 where that is stiff, with steps as long
    as the tolerances allow."""

    options = ("max_steps", "solver")
    remembers = "state"
    looks_for_events = True
    counters = ("statistics",)

    def __init__(self, task: Task, max_steps: int = MOST_ADAPTIVE_STEPS, solver: str = "auto") -> None:
        """``max_steps``: accepted and rejected steps together after which the run gives up; ``solver``: ``"picard"`` or
        ``"newton"`` to solve all steps that way, whatever the motion asks for."""
        super().__init__(task)
        if max_steps < 1:
            raise ValueError(f"simulate: max_steps is {max_steps!r}, expected at least 1")
        if solver not in SOLVERS:
            raise NameLookupError("solver", solver, SOLVERS, where="simulate")
        self.max_steps = max_steps
        self.statistics = Statistics()
        self._mark = 0, float(task.times[0])
        """How many steps had been tried when, s."""
        loops = bool(task.motion.model.constraints)
        self.integrator = Integrator(
            task.motion,
            task.rtol,
            task.atol,
            task.events,
            dead_points=loops,
            statistics=self.statistics,
            finer_rule=gauss_rule(MORE_POINTS),
            give_up=self._give_up_in_time,
            solver=solver,
            compiled=CompiledSteps(task),
            tolerance=task.follow_tolerance,
            may_jump=lambda: task.motion.may_jump,
        )

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        times = self.task.times
        if memo is None:
            progress = Progress(float(times[0]), self.task.start)
            yield Chunk(times[:1], self.task.start[None], memo_of(progress))
        else:
            progress = progress_of(memo)
            self._give_up_after(progress)
        waiting: list[MotionPiece] = []
        silent = 0
        try:
            for piece in self.integrator.pieces(progress, float(times[-1])):
                waiting.append(piece)
                # steps that machine code has taken in one call become rows together
                last = piece.interpolant is self.integrator.stride.kept[-1].solution.polynomial
                if last or piece.found:
                    rows, silent, waiting = self._output(waiting), silent + len(waiting), []
                    if len(rows[0]) or piece.found or silent >= SILENT_STEPS:
                        silent = 0
                        yield Chunk(*rows, memo_of(piece.progress), piece.found)
                self._give_up_after(piece.progress)
        except (IntegrationError, KeyboardInterrupt):
            if waiting:  # what was reached before
                yield Chunk(*self._output(waiting), memo_of(waiting[-1].progress))
            raise

    def _give_up_after(self, reached: Progress) -> None:
        self._give_up_in_time(reached.time, 0.0 if reached.guess is None else reached.guess.length)

    def _give_up_in_time(self, time: float, last: float) -> None:
        """After an accepted step or a rejected one, the last: end the run if it has taken too many."""
        taken = self.statistics.steps + self.statistics.rejections
        if taken >= self.max_steps and time < self.task.times[-1]:
            raise IntegrationError(
                f"the integration stopped at t = {time:.9g} s after {taken} steps (max_steps = "
                f"{self.max_steps}), the last of {last:.3g} s. Loosen rtol and atol, raise max_steps, or look for what "
                f"makes the motion so fast",
                time,
            )
        self._refuse_to_crawl(taken, time)

    def _refuse_to_crawl(self, taken: int, time: float) -> None:
        """Where steps shrink and shrink, the state says more than another hour would."""
        tried, gained = taken - self._mark[0], time - self._mark[1]
        if tried < TRIALS:
            return
        self._mark = taken, time
        if gained < CRAWLING * float(self.task.times[-1] - self.task.times[0]):
            raise IntegrationError(
                f"the integration stopped at t = {time:.9g} s: {tried} steps have advanced by {gained:.1e} s. The "
                f"motion runs into a singular configuration, or grows without bound: look at the last state, and at "
                f"wt.diagnose(model, q) there",
                time,
            )

    def _output(self, pieces: Sequence[MotionPiece]) -> tuple[Array, Array]:
        """Output times inside steps that follow each other, and the end where a terminal event has stopped the last of
        them; with the states there."""
        times, last = self.task.times, pieces[-1]
        cuts = np.searchsorted(times, [pieces[0].start, *[piece.end for piece in pieces]], "right").tolist()
        inside = times[cuts[0] : cuts[-1]]
        states = last.state[None][:0]
        if len(inside):
            asked = [(p.interpolant, times[a:b]) for p, a, b in zip(pieces, cuts, cuts[1:], strict=False) if b > a]
            states = self.task.motion.project(inside, states_along(asked))
        for piece, cut in zip(pieces, cuts[1:], strict=True):
            if cut > cuts[0] and times[cut - 1] == piece.end:
                states[cut - cuts[0] - 1] = piece.state
        stopped = bool(last.found) and last.found[-1][1] == last.end
        if stopped and not (len(inside) and inside[-1] == last.end):
            inside, states = np.append(inside, last.end), np.concatenate([states, last.state[None]])
        return inside, states

    def account(self) -> dict[str, Any]:
        return dict(vars(self.statistics))


def memo_of(progress: Progress) -> Memo:
    """How far an integration has come, as named arrays."""
    memo = {"time": np.array(progress.time), "state": progress.state}
    if progress.guess is None:
        return memo
    memo |= {} if progress.tangent is None else {"tangent": progress.tangent}
    return memo | {
        "next_length": np.array(progress.length),
        "guess_start": np.array(progress.guess.start),
        "guess_length": np.array(progress.guess.length),
        "guess_origin": progress.guess.origin,
        "guess_coefficients": progress.guess.coefficients,
        "stiff": np.array(int(progress.stiff)),
        "last_error": np.array(progress.error),
        "failed": np.array(int(progress.failed)),
        "rtol": np.array(progress.rtol),
    }


def progress_of(memo: Memo) -> Progress:
    """Progress, taken from named arrays."""
    time, state = float(memo["time"]), memo["state"]
    if "next_length" not in memo:
        return Progress(time, state)
    last = Polynomial(
        float(memo["guess_start"]), float(memo["guess_length"]), memo["guess_origin"], memo["guess_coefficients"]
    )
    length, error = float(memo["next_length"]), float(memo["last_error"])
    stiff, failed, rtol, tangent = bool(memo["stiff"]), bool(memo["failed"]), float(memo["rtol"]), memo.get("tangent")
    return Progress(time, state, length, last, stiff, error, failed, rtol, tangent)
