"""Time stepping with contact as a method of ``wt.simulate``: fixed steps, impulses by complementarity.

Events are not located: all that happens within a step happens at its end, so that hundreds of contacts cost no more
than their matrix. First order in the step. Every result carries its own judgement: residuals, overlap and the balance
of energy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.contact.step import Axis
from whippletree.simulation.impulse_batch import Advance, advance_batch
from whippletree.simulation.impulse_step import ImpulseStep
from whippletree.simulation.integrator import IntegrationError
from whippletree.simulation.method import Chunk, Memo, Method, Task, Variable
from whippletree.simulation.trajectory import velocities

Array = np.ndarray[Any, Any]

LONGEST = 1e-3
"""s: default step; it is shortened so that a whole number of steps fits between two outputs."""

TOLERANCE = 1e-7
"""m/s: default of the largest residual of the natural map."""

SWEEPS = 20
"""Sweeps per step of a batch."""


class TimeStepping(Method):
    """One scene with a solver that does what the tolerance asks; many scenes in a compiled batch."""

    options = ("step", "tolerance", "sweeps")
    batches = True
    tolerances = False
    counters = ("steps", "unconverged", "worst")

    def __init__(self, task: Task, step: float = LONGEST, tolerance: float = TOLERANCE, sweeps: int = SWEEPS) -> None:
        """What ``wt.simulate(..., method="time_stepping")`` takes beside the usual.

        Args:
            task: what to simulate.
            step: longest step, s.
            tolerance: of the natural map of the contact problem, m/s; a single scene is solved to it.
            sweeps: over the contacts in each step of a batch; the residual that they leave is in the result.
        """
        super().__init__(task)
        for name, value in (("step", step), ("tolerance", tolerance)):
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"simulate: {name} is {value!r}, expected a positive, finite number")
        if sweeps < 1:
            raise ValueError(f"simulate: sweeps is {sweeps!r}, expected at least 1")
        self.longest, self.sweeps = step, sweeps
        self.stepper = ImpulseStep(task.motion, tolerance)
        self.steps, self.unconverged, self.worst = 0, 0, 0.0
        self._start_energy = self._energy(task.start)

    @property
    def variables(self) -> dict[str, Variable]:
        blocks = self.stepper.blocks
        names, motions = tuple(blocks.contacts.names), tuple(velocities(blocks.model))
        found = {
            "a": Variable(("velocity",), "mean accelerations of a step", "rad/s² or m/s²", motions),
            "contact_gap": Variable(("contact",), "gaps", "m", names),
            "contact_force": Variable(("contact", "direction"), "contact forces: normal, tangents 1 and 2", "N", names),
            "limit_force": Variable(("limit",), "forces of joint limits", "N m or N", _joints(blocks.limited)),
            "friction_force": Variable(("rubbing",), "dry friction of joints", "N m or N", _joints(blocks.rubbing)),
            "residual_impulse": Variable((), "largest natural map since the last output", "N s"),
            "residual_velocity": Variable((), "largest natural map since the last output", "m/s"),
            "cone_violation": Variable((), "largest violation of a friction cone since the last output", "N s"),
            "sweeps": Variable((), "sweeps since the last output", "1"),
            "newton_steps": Variable((), "Newton steps since the last output", "1"),
            "interior_steps": Variable((), "interior-point steps since the last output", "1"),
            "penetration": Variable((), "largest overlap of contacts or overshoot of limits", "m or rad"),
            "contact_work": Variable((), "work of contacts, limits and joint friction since the start", "J"),
            "joint_work": Variable((), "work of motors and dampers since the start", "J"),
            "energy_balance": Variable((), "energy less work and start energy: the error of the steps", "J"),
        }
        empty = {"limit_force": not blocks.limited, "friction_force": not blocks.rubbing}
        return {name: variable for name, variable in found.items() if not empty.get(name)}

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        times, y = self.task.times, self.task.start
        if memo is None:
            still = np.zeros(y.shape[:-1])
            impulses, work, first = np.zeros((*y.shape[:-1], self.stepper.blocks.count, 3)), (still, still), 1
            yield self._start(y, impulses, work)
        else:
            y, impulses, first = memo["state"], memo["impulses"], int(memo["row"]) + 1
            work = (memo["contact_work"], memo["joint_work"])
        for row in range(first, len(times)):
            h, count = self._division(row - 1)
            made = self._advance(row - 1, y, impulses, h, count)
            y, impulses = made.state, made.impulses
            work = (work[0] + made.contact_work, work[1] + made.joint_work)
            self._note(made, row, count)
            yield self._row(row, made, h, work)

    def _start(self, y: Array, impulses: Array, work: tuple[Array, Array]) -> Chunk:
        """The first row; a step that is tried and taken back tells its accelerations and forces, 0 if it fails."""
        h, _ = self._division(0)
        trial = Advance.none(y, impulses, np.zeros((*y.shape[:-1], self.stepper.model.nv)))
        with suppress(IntegrationError):  # it will be met again, and told, in the first step
            trial = self._advance(0, y, impulses, h, 1)
        chunk = self._row(0, Advance.none(y, trial.impulses, trial.a), h, work)
        return replace(chunk, memo=chunk.memo | {"impulses": impulses})

    def _advance(self, row: int, y: Array, impulses: Array, h: float, count: int) -> Advance:
        """Steps from one row of output to the next, of one scene or of a batch."""
        t = float(self.task.times[row])
        if y.ndim == 1:
            return Advance.of(self.stepper, t, y, impulses, h, count)
        return advance_batch(self.stepper, t, y, impulses, h, count, self.sweeps)

    def _division(self, row: int) -> tuple[float, int]:
        """Length and number of the steps from one row of output to the next."""
        span = float(self.task.times[row + 1] - self.task.times[row])
        count = max(1, int(np.ceil(span / self.longest * (1 - 1e-9))))
        return span / count, count

    def _note(self, made: Advance, row: int, count: int) -> None:
        self.steps += count
        self.unconverged += int(np.sum(made.unconverged))
        self.worst = max(self.worst, float(np.max(made.residual_velocity, initial=0.0)))
        time = float(self.task.times[row])
        reason = f"the stepping stopped before t = {time:.9g} s: the state is no longer finite"
        lost = ~np.isfinite(made.state).all(axis=-1)
        if made.state.ndim == 1 and lost:
            raise IntegrationError(reason, time)
        if made.state.ndim > 1:
            new = [int(run) for run in np.flatnonzero(lost) if run not in self.failures]
            self.failures = {**self.failures, **dict.fromkeys(new, reason)}

    def _energy(self, y: Array) -> Array:
        q, v = self.task.motion.split(y)
        dyn = self.task.motion.dyn
        with np.errstate(over="ignore", invalid="ignore"):  # a run on its way out of bounds
            return np.asarray(dyn.kinetic_energy(q, v) + dyn.potential_energy(q))

    def _balance(self, y: Array, work: tuple[Array, Array]) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray(self._energy(y) - self._start_energy - work[0] - work[1])

    def _row(self, row: int, made: Advance, h: float, work: tuple[Array, Array]) -> Chunk:
        """One row of output, and what the next step begins with."""
        memo = {"row": np.array(row), "state": made.state, "impulses": made.impulses}
        memo |= {"contact_work": np.asarray(work[0]), "joint_work": np.asarray(work[1])}
        contacts, forces = self.stepper.contacts, made.impulses / h
        end = contacts + len(self.stepper.blocks.limited)
        gaps, limits, signs = self.stepper.gaps(self.task.motion.split(made.state)[0])
        values = made._asdict() | {
            "contact_gap": gaps,
            "contact_force": forces[..., :contacts, :],
            "limit_force": forces[..., contacts:end, 0] * signs,
            "friction_force": forces[..., end:, 1],
            "penetration": np.maximum(-np.concatenate([gaps, limits], axis=-1).min(axis=-1, initial=0.0), 0.0),
            "contact_work": work[0],
            "joint_work": work[1],
            "energy_balance": self._balance(made.state, work),
        }
        rows = {name: np.asarray(values[name], dtype=float)[None] for name in self.variables}
        return Chunk(self.task.times[row : row + 1], made.state[None], memo, variables=rows)

    def tally(self) -> dict[str, Any]:
        return super().tally() | {"failures": {str(run): why for run, why in self.failures.items()}}

    def take_over(self, tally: Mapping[str, Any]) -> None:
        super().take_over(tally)
        self.failures = {int(run): why for run, why in tally["failures"].items()}

    def account(self) -> dict[str, Any]:
        return {
            "step": self.longest,
            "steps": self.steps,
            "unconverged_steps": self.unconverged,
            "largest_residual_velocity": self.worst,
            "contact_tolerance": self.stepper.tolerance,
        }


def _joints(axes: list[Axis]) -> tuple[str, ...]:
    return tuple(axis.joint for axis in axes)
