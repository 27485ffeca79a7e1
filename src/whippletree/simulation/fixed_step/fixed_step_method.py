"""Methods of fixed step as compiled roll-outs: semi-implicit Euler, the classical Runge–Kutta, the implicit midpoint.

One call of a kernel steps through many rows of output; all runs of a batch go together, side by side in the lanes. What
cannot be compiled takes the slow path in Python: a controller that branches on values, a model too large to unroll, and
single rows in which the kernel met a dead point.

There it is one state at a time; all runs of a batch at once where the controller is batched and the method explicit.
The steps are those of the kernel, with the same results to rounding. Each evaluation is a call of a compiled function,
and where that meets a dead point, the reference follows the branch of the motion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.controller import NotTraceable, traced_controller
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.rollout import Plan, refuse_compliant_rows
from whippletree.compiler.rollout.rollout_steps import CLOSED_STEP, CONVERGED_STEP
from whippletree.constraints import midpoint_step
from whippletree.controllers import is_batched
from whippletree.errors import IntegrationError, SingularSystemError, UnsupportedError
from whippletree.simulation.fixed_step.free_bodies import FreeBodies
from whippletree.simulation.method import Chunk, Memo, Method, Task, positive, step_length
from whippletree.simulation.motion import Motion
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton
from whippletree.tree.steps import runge_kutta_4, semi_implicit_euler

LONGEST_DEFAULT = 1e-3
"""s: without a ``step``, the longest one up to this that divides the output's spacing."""

SAME_LENGTH = 1e-9
"""Relative difference up to which two lengths of time are the same."""

WORK_PER_CHUNK = 16_000_000
"""Evaluations, of all runs, times the number of velocities, after which a chunk of output is handed on, to be shown and
stored: some tenths of a second of computing."""

FIXED_STEPS_PER_CALL = 100_000
"""Steps of a row that one call takes: their times are a list, which must not grow with the length of a row."""


@dataclass(frozen=True)
class OutputRows:
    """Consecutive rows of output with equally many steps."""

    first: int
    """Row at which they start; its state is known."""
    count: int
    steps: int
    """Per row."""
    h: float
    """Length of a step, s."""


class FixedStep(Method):
    """Common parts of the methods of fixed step; each names its roll-out."""

    options = ("step",)
    batches = opens = True
    tolerances = False
    counters = ("steps_done", "python_steps")
    rollout: ClassVar[str]
    evaluations: ClassVar[int]
    """Evaluations of the accelerations in each step."""

    def __init__(self, task: Task, step: float | None = None) -> None:
        super().__init__(task)
        self.rows = _rows(task.times, step)
        self.failures: dict[int, str] = {}
        self.python_steps = 0
        self.steps_done = 0
        self._kernel, self._reason = self._compile_rollout()

    @classmethod
    def spacing(cls, duration: float, options: Mapping[str, Any]) -> float:
        """About 200 rows, each a whole number of steps."""
        about, step = super().spacing(duration, options), options.get("step")
        return about if step is None else positive("step", step) * max(1, round(about / positive("step", step)))

    def _compile_rollout(self) -> tuple[NamedFunction | None, str]:
        """The roll-out as a kernel; or none, and why."""
        motion = self.task.motion
        refuse_compliant_rows(motion.model, self.rollout)
        try:
            if motion.controller is not None:
                motion.use_compiled(traced_controller(motion.model, motion.controller, self.task.samples()))
            return motion.dyn.rollout_function(self._plan), ""
        except NotTraceable as error:
            return None, f"the controller cannot be traced: {error}"
        except UnsupportedError as error:
            return None, str(error)

    @property
    def _plan(self) -> Plan:
        return Plan(self.rollout, given=False, controller=self.task.motion.controller, spaced=True)

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        single = self.task.start.ndim == 1
        row, y = 0, np.atleast_2d(self.task.start)
        if memo is None:
            yield self._chunk(0, y[None], single)
        else:
            row, y = int(memo["row"]), np.atleast_2d(memo["state"])
        for rows in self._parts(row, len(y)):
            states, error = self._advance(y, rows)
            self.steps_done += len(states) * rows.steps
            if len(states):
                y = states[-1]
                yield self._chunk(rows.first + 1, states, single)
            if error is not None:
                raise error

    def tally(self) -> dict[str, Any]:
        return super().tally() | {"dead_points": self.task.motion.dead_points}

    def take_over(self, tally: Mapping[str, Any]) -> None:
        super().take_over(tally)
        self.task.motion.dead_points = tally["dead_points"]

    def account(self) -> dict[str, Any]:
        path = "compiled" if self._kernel is not None else f"python: {self._reason}"
        return {
            "path": path,
            "step": self.rows[0].h,
            "steps": self.steps_done,
            "projections": self.steps_done if self.task.motion.has_manifold else 0,
            "python_steps": self.python_steps,
            "dead_points": self.task.motion.dead_points,
        }

    def _chunk(self, first: int, states: Array, single: bool) -> Chunk:
        own = states[:, 0] if single else states
        memo = {"row": np.array(first + len(states) - 1), "state": own[-1].copy()}
        return Chunk(self.task.times[first : first + len(states)], own, memo)

    def _parts(self, done: int, runs: int) -> Iterator[OutputRows]:
        """The rest after some rows, in parts of a chunk each."""
        for rows in self.rows:
            work = rows.steps * self.evaluations * max(runs, 1) * max(self.task.motion.model.nv, 1)
            most = max(1, WORK_PER_CHUNK // work)
            first, end = max(rows.first, done), rows.first + rows.count
            for start in range(first, end, most):
                yield replace(rows, first=start, count=min(most, end - start))

    def _advance(self, y: Array, rows: OutputRows) -> tuple[Array, IntegrationError | None]:
        """States (count, runs, n) of all runs; of a single run that fails, those before, and why."""
        states, good = self._roll(self.task.motion, self._kernel, y, rows)
        for run in np.flatnonzero(good < rows.count):
            if not np.all(np.isfinite(y[run])):
                continue  # it has failed before
            alone, error = self._alone(int(run), states[: good[run], run], y[run], rows)
            if error is not None and len(y) == 1 and self.task.start.ndim == 1:
                return alone[:, None], error
            states[:, run] = np.nan
            states[: len(alone), run] = alone
            if error is not None:
                self.failures[int(run)] = str(error)
        return states, None

    def _roll(self, motion: Motion, kernel: Any, y: Array, rows: OutputRows) -> tuple[Array, Array]:
        """States (count, runs, n) by the kernel, and how many rows of each run are good, (runs,)."""
        runs = len(y)
        if kernel is None:
            return self._together(y, rows)
        if not y.shape[1]:  # nothing moves
            return np.empty((rows.count, runs, 0)), np.full(runs, rows.count)
        clock = self.task.times[rows.first : rows.first + rows.count]
        if rows.steps <= FIXED_STEPS_PER_CALL:
            states, steps = self._call_kernel(motion, kernel, y, rows.h, clock, np.arange(rows.steps))
            return states, steps // rows.steps
        states, good = np.empty((rows.count, *y.shape)), np.zeros(runs, dtype=int)
        for number in range(rows.count):
            alive = good == number
            for first in range(0, rows.steps, FIXED_STEPS_PER_CALL):
                counts = np.arange(first, min(first + FIXED_STEPS_PER_CALL, rows.steps))
                ends, steps = self._call_kernel(motion, kernel, y, rows.h, clock[number : number + 1], counts)
                y, alive = ends[0], alive & (steps == len(counts))
            states[number] = y
            good += alive
        return states, good

    def _call_kernel(
        self, motion: Motion, kernel: Any, y: Array, h: float, clock: Array, counts: Array
    ) -> tuple[Array, Array]:
        """States (rows, runs, n) after the steps ``counts`` (steps,) from each time of the clock (rows,) on, and how
        many steps of each run are good, (runs,)."""
        q, v = motion.split(y)
        inputs = {"q0": q, "v0": v, "dt": h, "clock": clock, "offsets": h * counts, "active": motion.all_on}
        states = np.empty((len(clock), *y.shape))
        places = motion.split(np.swapaxes(states, 0, 1))  # the kernel writes run by run
        with np.errstate(all="ignore"):  # a run that grows without bound shows in its status
            _, _, status, steps = kernel(*[inputs[name] for name in kernel.inputs], out=(*places, None, None))
        good = np.where(np.asarray(status) == 0, len(clock) * len(counts), np.asarray(steps))
        return states, good.astype(int)

    def _together(self, y: Array, rows: OutputRows) -> tuple[Array, Array]:
        """A batch stepped in Python side by side where the controller answers for all runs at once; else none."""
        states, motion = np.full((rows.count, *y.shape), np.nan), self.task.motion
        python = PythonSteps(motion, self.rollout)
        one_design = motion.of_run(0) is motion
        if self.task.start.ndim == 1 or not python.steps_many or not one_design:
            return states, np.zeros(len(y), dtype=int)
        for number in range(rows.count):
            begin = float(self.task.times[rows.first + number])
            for k in range(rows.steps):
                y = python.step_together(begin + k * rows.h, rows.h, y)
                self.python_steps += 1
            states[number] = y
        return states, np.isfinite(states).all(axis=2).sum(axis=0)

    def _alone(self, run: int, good: Array, start: Array, rows: OutputRows) -> tuple[Array, IntegrationError | None]:
        """One run: rows in which the kernel fails are stepped in Python, then the kernel goes on."""
        motion = self.task.motion.of_run(run)
        kernel = self._kernel if motion is self.task.motion else motion.dyn.rollout_function(self._plan)
        python = PythonSteps(motion, self.rollout)
        found = list(good)
        while len(found) < rows.count:
            y = found[-1] if found else start
            try:
                found.append(self._python_row(python, y, rows, len(found)))
            except IntegrationError as error:
                return np.array(found).reshape(len(found), len(start)), error
            left = replace(rows, first=rows.first + len(found), count=rows.count - len(found))
            if left.count and kernel is not None:
                states, more = self._roll(motion, kernel, found[-1][None], left)
                found += list(states[: more[0], 0])
        return np.array(found), None

    def _python_row(self, python: PythonSteps, y: Array, rows: OutputRows, number: int) -> Array:
        begin = float(self.task.times[rows.first + number])
        for k in range(rows.steps):
            y = python.step(begin + k * rows.h, rows.h, y)
            self.python_steps += 1
        return y


class SemiImplicitEuler(FixedStep):
    """v⁺ = v + h a(q, v), q⁺ = q ⊕ h v⁺: first order; symplectic only where M does not depend on q."""

    rollout, evaluations = "semi_implicit_euler", 1


class RungeKutta4(FixedStep):
    """The classical method of fourth order, brought back to the constraints after each step."""

    rollout, evaluations = "rk4", 4


class ImplicitMidpoint(FixedStep):
    """The variational integrator of :mod:`whippletree.constraints.midpoint_step`: second order, and its energy error
    stays bounded.
    """

    rollout, evaluations = "implicit_midpoint", 12


def _rows(times: Array, step: float | None) -> list[OutputRows]:
    """Rows of equal spacing, and a shorter one at the end if the duration is no multiple of it."""
    spacing, last = float(times[1] - times[0]), float(times[-1] - times[-2])
    step, count = None if step is None else step_length(step, float(times[-1])), len(times) - 1
    if abs(last - spacing) <= SAME_LENGTH * spacing:
        return [OutputRows(0, count, *_steps(spacing, step, "output_dt"))]
    rows = [OutputRows(0, count - 1, *_steps(spacing, step, "output_dt"))]
    return [
        *rows,
        OutputRows(count - 1, 1, *_steps(last, step, "what is left of the duration after the last output_dt")),
    ]


def _steps(length: float, step: float | None, what: str) -> tuple[int, float]:
    """How many steps a row has, and how long they are."""
    if step is None:
        count = int(np.ceil(length / LONGEST_DEFAULT * (1 - SAME_LENGTH)))
        return count, length / count
    count = round(length / step)
    if count < 1 or abs(count * step - length) > SAME_LENGTH * length:
        better = length / max(1, np.ceil(length / step))
        raise ValueError(
            f"simulate: {what} is {length:.9g} s, no multiple of the step of {step:.9g} s: a step of {better:.9g} s is"
        )
    return count, length / count


# --- in Python: the slow path, for what cannot be compiled into a roll-out --------------------------------------------


RESOLVED = 0.1
"""Difference of a step from two of half its length, as a share of what they move, from which it is to blame for what
cannot be closed after it."""

MIDPOINT_ITERATIONS = 50
"""Rounds that the implicit midpoint rule may iterate here."""


class PythonSteps:
    """Steps of one method for one motion."""

    def __init__(self, motion: Motion, method: str) -> None:
        self.motion = motion
        self._free = FreeBodies(motion.model)
        self._step = {
            "semi_implicit_euler": self._euler,
            "rk4": self._rk4,
            "implicit_midpoint": self._midpoint,
        }[method]

    def step(self, t: float, h: float, y: Array) -> Array:
        """The state (nq + nv,) at t + h.

        Raises:
            IntegrationError: if the step has no answer.
        """
        try:
            return self._finite_step(t, h, y)
        except IntegrationError:
            with np.errstate(all="ignore"):
                # one that is at fault is refused by name, unless the state has grown out of all bounds before it
                if self.motion.controller is not None and np.isfinite(y @ y):
                    self.motion.ask(self.motion.controller, t, *self.motion.split(y))
            raise

    def _finite_step(self, t: float, h: float, y: Array) -> Array:
        motion = self.motion
        try:
            with np.errstate(all="ignore"):
                moved = np.concatenate(self._step(t, h, *motion.split(y)))
                state = self._project(t, h, y, moved)
        except SingularSystemError as error:
            raise IntegrationError(f"the integration stopped at t = {t:.9g} s: {error}", t) from error
        if not np.all(np.isfinite(state)):
            raise IntegrationError(
                f"the integration stopped at t = {t:.9g} s: the state is no longer finite; the forces grow without "
                f"bound, or the step of {h:g} s is too long",
                t,
            )
        gap = motion.gap(t + h, motion.split(state)[0])
        if gap > CLOSED_STEP:
            raise IntegrationError(
                f"the integration stopped at t = {t:.9g} s: constraints stay open by {gap:.3g} m or rad: the step of "
                f"{h:g} s is too long, or the mechanism cannot move on",
                t,
            )
        return state

    def _project(self, t: float, h: float, y: Array, moved: Array) -> Array:
        """The state after a step, on the constraints; where it cannot be brought there, the step may be to blame."""
        try:
            return self.motion.project(t + h, moved)
        except IntegrationError:
            if not self._is_resolved(t, h, y, moved):
                raise IntegrationError(
                    f"the integration stopped at t = {t:.9g} s: the step of {h:g} s is too long: two of half its "
                    f"length end elsewhere. Gains, springs and dampers on light parts ask for shorter steps; "
                    f"method='adaptive' chooses its own",
                    t,
                ) from None
            raise

    def _is_resolved(self, t: float, h: float, y: Array, moved: Array) -> bool:
        """Whether a step and two of half its length differ by little of what they move."""
        middle = np.concatenate(self._step(t, h / 2, *self.motion.split(y)))
        end = np.concatenate(self._step(t + h / 2, h / 2, *self.motion.split(middle)))
        return bool(np.linalg.norm(moved - end) < RESOLVED * np.linalg.norm(end - y))

    @property
    def steps_many(self) -> bool:
        """Whether :meth:`step_together` can step a batch, with one call of the controller for all of its runs."""
        return is_batched(self.motion.controller) and self._step != self._midpoint

    def step_together(self, t: float, h: float, y: Array) -> Array:
        """The states (runs, nq + nv) at t + h, NaN of runs whose step has no answer; :meth:`step` tells why."""
        motion, found = self.motion, np.full(y.shape, np.nan)
        there = np.flatnonzero(np.isfinite(y).all(axis=1))
        try:
            with np.errstate(all="ignore"):
                state = np.concatenate(self._step(t, h, *motion.split(y[there])), axis=-1)
                finite = np.isfinite(state).all(axis=1)
                there, state = there[finite], motion.project(t + h, state[finite])
        except SingularSystemError:  # of one run: which one shows when each is stepped alone
            return found
        closed = np.isfinite(state).all(axis=1) & (motion.gaps(t + h, motion.split(state)[0]) <= CLOSED_STEP)
        found[there[closed]] = state[closed]
        return found

    # what a step asks of the coordinates

    def integrate(self, q: Array, d: Array) -> Array:
        """q ⊕ d (nq,)."""
        return np.asarray(self.motion.dyn.integrate(q, d))

    def rate(self, q: Array, v: Array) -> Array:
        """q̇ (nq,)."""
        return np.asarray(self.motion.dyn.rate(q, v))

    def normalise(self, q: Array) -> Array:
        """The coordinates with quaternions at unit length."""
        return self.motion.normalise(q)

    def turning(self, v: Array) -> Array:
        """Difference between the change of velocity in space and v̇ (nv,)."""
        return self._free.turning(v)

    def straight(self, q: Array, v: Array, d: Array) -> tuple[Array, Array]:
        """q ⊕ d (nq,) and v (nv,) there, free bodies along straight lines."""
        return self.motion.split(self._free.move(self.integrate(q, d), q, v, d))

    def _acceleration(self, t: float, q: Array, v: Array) -> Array:
        """Accelerations at one state, (nv,), or at those of a batch, (runs, nv), NaN where forces have no answer."""
        tau = self._forces(t, q, v)
        good: Any = np.isfinite(tau).all(axis=-1) if q.ndim == 2 else ...
        a = np.full(v.shape, np.nan)
        a[good] = self.motion.evaluate("forward_dynamics", q=q[good], v=v[good], tau=tau[good], t=t)
        return a

    def _forces(self, t: float, q: Array, v: Array) -> Array:
        """Joint forces at one state, (nv,), or at those of a batch, (runs, nv), where some may have no answer."""
        if q.ndim == 2:
            return self.motion.forces_if_told(np.full(len(q), t), q, v)
        return np.asarray(self.motion.forces(np.array([t]), q[None], v[None])[0])

    def _euler(self, t: float, h: float, q: Array, v: Array) -> tuple[Array, Array]:
        return semi_implicit_euler(self, partial(self._acceleration, t), q, v, h)

    def _rk4(self, t: float, h: float, q: Array, v: Array) -> tuple[Array, Array]:
        return runge_kutta_4(self, self._acceleration, q, v, t, h)

    def _midpoint(self, t: float, h: float, q: Array, v: Array) -> tuple[Array, Array]:
        m = Mechanism(skeleton(self.motion.model))
        active = self.motion.all_on if self.motion.all_on.size else None

        def forces(time: Any, at: Array, speed: Array) -> Array:
            return self._forces(float(time), at.astype(float), speed.astype(float))

        start = midpoint_step.begin(m, q.astype(object), v.astype(object), t, active)
        now = midpoint_step.Middle(v.astype(object), np.zeros(len(start.A), dtype=object))
        limit = CONVERGED_STEP * np.sqrt(1 + q @ q)
        for _ in range(MIDPOINT_ITERATIONS):
            before, now = now, midpoint_step.improve_middle(m, forces, start, now, t, h, active)
            if np.linalg.norm(h * (now.v - before.v).astype(float)) <= limit:
                break
        else:
            dead = ", or at a dead point of its loops, which this method does not pass ('adaptive' and 'rk4' do)"
            dead = dead if self.motion.model.constraints else ""
            raise IntegrationError(
                f"the integration stopped at t = {t:.9g} s: the iteration of implicit_midpoint did not converge in "
                f"{MIDPOINT_ITERATIONS} rounds: the step of {h:g} s is too long{dead}",
                t,
            )
        q_end, v_end = midpoint_step.end(m, forces, start, now, t, h, active)
        return q_end.astype(float), v_end.astype(float)
