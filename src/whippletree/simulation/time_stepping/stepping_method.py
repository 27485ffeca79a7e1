"""Time stepping with contact as a method of ``wt.simulate``: fixed steps, impulses by complementarity.

Events are not located: all that happens within a step happens at its end, so that hundreds of contacts cost no more
than their matrix. First order in the step. Every result carries its own judgement: residuals, overlap and the balance
of energy.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.contact_lists.contact_list_results import is_sparse
from whippletree.contact.kinematics.joint_contacts import JointAxis
from whippletree.contact.time_step import RELAXATION_SPEED, ROLLING, SPINNING
from whippletree.errors import IntegrationError, list_items, warn_caller
from whippletree.model import Model
from whippletree.simulation.method import Chunk, Memo, Method, Task, Variable, positive, step_length, whole
from whippletree.simulation.output.dataset import velocities
from whippletree.simulation.sparse_rows import SparseRows
from whippletree.simulation.time_stepping.impulse_batch import WORKS, Advance, advance_batch, step_clock
from whippletree.simulation.time_stepping.impulse_kernel import AskedSteps, StepPlan, Steps, asked_steps, can_ask
from whippletree.simulation.time_stepping.impulse_step import STEPS_OF_CALL, ImpulseStep
from whippletree.simulation.time_stepping.inertial_gain import watched_steps

Gaps: TypeAlias = tuple[Array, ...]
"""Gaps of contacts and of joint limits, and the signs of the latter; one row each."""

ROUNDED_ROW = 1e-9
"""Share of a step by which the time between two rows may exceed whole steps without one more: rounding of the times."""

DEFAULT_STEP = 1e-3
"""s: default step; it is shortened so that a whole number of steps fits between two outputs."""

RESIDUAL_TOLERANCE = 1e-7
"""m/s: default of the largest residual of the natural map."""

OVERLAP_WORTH_TELLING = 1e-3
"""m or rad: overlap at the start, or overshoot of a joint's limits, that a warning reports."""

RESIDUAL_WORTH_TELLING = 1e-3
"""m/s: residual of a step of a single scene from which on a warning tells of it: bodies are seen to do what Coulomb's
law, or a stop, forbids."""

SWEEPS_OF_BATCH = 20
"""Sweeps per step of a batch."""

WORTH_A_KERNEL = 20_000
"""Steps from which on a controller is compiled into the kernel: that takes one to three seconds, and saves about 30 µs
per step."""

UNNOTICED = 0.05
"""s: how long a call may take that asks a controller before it hands out rows."""

LOST = "the state is no longer finite. Shorten the step, or soften a controller that is too stiff for it"
GROUNDLESS = "the gap of contact {!r} is not a number there: a terrain whose height ends"
"""Why a run cannot go on."""


class TimeStepping(Method):
    """One scene with a solver that does what the tolerance asks; many scenes in a compiled batch."""

    options: ClassVar[tuple[str, ...]] = ("step", "tolerance", "sweeps")
    batches = True
    touches = True
    tolerances = False
    remembers = "always"
    instants = False
    counters: ClassVar[tuple[str, ...]] = ("steps", "unconverged", "at_rounding", "halved", "worst", "gained")

    def __init__(
        self,
        task: Task,
        step: float = DEFAULT_STEP,
        tolerance: float = RESIDUAL_TOLERANCE,
        sweeps: int = SWEEPS_OF_BATCH,
    ) -> None:
        """Options of ``wt.simulate(..., method="time_stepping")`` beside the usual.

        Args:
            task: what to simulate.
            step: longest step, s.
            tolerance: of the natural map of the contact problem, m/s; a single scene is solved to it, and so are
                batches of models with many candidates.
            sweeps: over the contacts in each step of other batches; the residual that they leave is in the result.
        """
        super().__init__(task)
        self.longest, tolerance = step_length(step, task.times[-1]), positive("tolerance", tolerance)
        self.sweeps = whole("sweeps", sweeps)
        self.stepper = ImpulseStep(task.motion, tolerance)
        self.stepper.motors.hold(self.longest)
        self._driven = self._compile_controller()
        self.steps, self.unconverged, self.at_rounding, self.halved, self.worst = 0, 0, 0, 0, 0.0
        self.gained = 0.0
        """Work of contacts where it was positive, of all runs, J."""
        self._missed = False
        self._together = 1
        """Steps in the next call of a kernel that asks a controller."""
        self._begun: AskedSteps | None = None
        """What such a call has left of the next row."""
        self._start_energy = self._energy(task.start) if task.start.ndim > 1 else self._energy(_twice(task.start))[0]
        if task.start.ndim == 1 and not np.isfinite(self._start_energy):
            raise ValueError("simulate: the energy of the start state is not finite: its velocities are too large")
        self._warn_of_overlap()

    @classmethod
    def form_for(cls, model: Model, alone: bool, asked: Collection[str] = ()) -> type[Method]:
        """Scenes of many free bodies have a form of their own, for single runs; smaller ones take it where an option
        that only that form knows is given.

        Raises:
            UnsupportedError: such an option for what is no single scene of free bodies.
        """
        from whippletree.simulation.time_stepping.scene_method import SceneStepping, is_scene, require_scene

        own = [word for word in asked if word in SceneStepping.options and word not in cls.options]
        if own:
            require_scene(model, alone, own)
            return SceneStepping
        return SceneStepping if alone and is_scene(model) else cls

    @classmethod
    def all_options(cls) -> tuple[str, ...]:
        """See :meth:`Method.all_options`."""
        from whippletree.simulation.time_stepping.scene_method import SceneStepping

        return SceneStepping.options

    @classmethod
    def spacing(cls, duration: float, options: Mapping[str, Any]) -> float:
        """About 200 rows, each a whole number of steps where a step is asked for."""
        about = super().spacing(duration, options)
        step = positive("step", options["step"]) if "step" in options else about
        return step * max(1, round(about / step))

    def _compile_controller(self) -> NamedFunction | None:
        """Compile what a step asks of controller and commands, where it can be traced.

        Of a batch one call serves all runs. Of a long run of one scene, the kernel itself asks them: the function that
        is returned.
        """
        motors, start = self.stepper.motors, self.task.start
        if motors.steady or not start.size or (motors.asks_commands and self.task.motion.remembers):
            return None
        batch = start.ndim == 2
        steps = float(self.task.times[-1]) / self.longest
        if not batch and steps < WORTH_A_KERNEL:
            return None
        if not motors.compile(self.task.samples()) or batch or not self.stepper.kernel:
            return None
        return self.stepper.dyn.driven_contact_steps(motors.driving_functions())

    def _warn_of_overlap(self) -> None:
        """Tell of overlaps at the start, the deepest first: what moves them apart is no motion of the scene."""
        q = self.task.motion.split(self.task.start)[0]
        q = q if q.ndim > 1 else _twice(q)
        gaps, limits, _ = self.stepper.gaps(q)
        every = np.concatenate([gaps, limits], axis=-1)
        deepest = every.min(axis=0, initial=0.0)
        deep = np.flatnonzero(deepest < -OVERLAP_WORTH_TELLING)
        if not len(deep):
            return
        stuck = self.stepper.immovable(q[int(every.min(axis=1).argmin())])
        order = deep[np.argsort(deepest[deep], kind="stable")]
        overlaps = [self._overlap(block, -deepest[block]) for block in order if block not in stuck]
        kept = [self._overlap(block, -deepest[block]) for block in order if block in stuck]
        pairs = bool((deep < gaps.shape[-1]).any())
        warn_caller(overlapping_start(overlaps, kept, pairs), RuntimeWarning)

    def _overlap(self, block: int, depth: float) -> str:
        """How deep a contact, or a joint or tendon beyond its range, is at the start, in words."""
        blocks, name = self.stepper.blocks, repr(self.stepper.blocks.names[block])
        if block >= self.stepper.contacts:
            return f"{name} overlaps by {depth:.3g} m or rad"
        candidate = blocks.contacts.candidates[block]
        margin = {contact.name: float(contact.margin) for contact in blocks.model.pairs}[candidate.contact]
        if depth > margin:
            return f"{name} overlaps by {depth - margin:.3g} m" + (
                f" and its margin of {margin:.3g} m" if margin else ""
            )
        return f"{name} is nearer than its margin of {margin:.3g} m by {depth:.3g} m"

    @cached_property
    def variables(self) -> dict[str, Variable]:
        blocks = self.stepper.blocks
        names, motions = tuple(blocks.contacts.names), tuple(velocities(blocks.model))
        taut = tuple(tendon.name for tendon in blocks.taut)
        found = {
            "a": Variable(("velocity",), "mean accelerations of a step", "rad/s² or m/s²", motions),
            "contact_gap": Variable(("contact",), "gaps", "m", names),
            "contact_force": Variable(("contact", "direction"), "contact forces: normal, tangents 1 and 2", "N", names),
            "limit_force": Variable(("limit",), "forces of joint limits", "N m or N", _joints(blocks.limited)),
            "tendon_limit_force": Variable(("taut",), "forces of tendons' limits, positive to lengthen", "N", taut),
            "friction_force": Variable(("rubbing",), "dry friction of joints", "N m or N", _joints(blocks.rubbing)),
            "contact_moment": Variable(
                ("contact", "direction"), "torsional and rolling friction: about normal, tangents 1 and 2", "N m", names
            ),
            "residual_impulse": Variable((), "largest natural map since the last output", "N s"),
            "residual_velocity": Variable((), "largest natural map since the last output", "m/s"),
            "cone_violation": Variable((), "largest violation of a friction cone since the last output", "N s"),
            "unconverged": Variable((), "steps since the last output whose residual exceeds the tolerance", "1"),
            "sweeps": Variable((), "sweeps since the last output", "1"),
            "newton_steps": Variable((), "Newton steps since the last output", "1"),
            "interior_steps": Variable((), "interior-point steps since the last output", "1"),
            "penetration": Variable((), "largest overlap of contacts", "m"),
            "limit_overshoot": Variable((), "largest way of a joint or a tendon beyond its range", "rad or m"),
            "contact_work": Variable((), "work of contacts, limits and joint friction since the start", "J"),
            "friction_work": Variable((), "the part of it that friction did", "J"),
            "joint_work": Variable((), "work of motors and dampers since the start", "J"),
            "correction_work": Variable((), "energy that moving overlaps apart has added since the start", "J"),
            "energy_balance": Variable((), "energy less work and start energy: the error of the steps", "J"),
        }
        empty = {"limit_force": not blocks.limited, "friction_force": not blocks.rubbing}
        empty |= {"tendon_limit_force": not taut, "limit_overshoot": not (blocks.limited or taut)}
        empty["contact_moment"] = not blocks.moments
        empty["correction_work"] = self.task.start.ndim > 1  # kernels do not ask
        return {name: variable for name, variable in found.items() if not empty.get(name)}

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        times, y = self.task.times, self.task.start
        if memo is None:
            impulses, first = np.zeros((*y.shape[:-1], self.stepper.blocks.count, 3)), 1
            work = {word: np.zeros(y.shape[:-1]) for word in WORKS}
            yield self._start(y, impulses, work)
        else:
            y, impulses, first = memo["state"], memo["impulses"], int(memo["row"]) + 1
            work = {word: memo[word] for word in WORKS}
        row = first
        while row < len(times):
            begun = time.perf_counter()
            made, gaps, h, counts = self._kernel_rows(row, y, impulses) or self._one_row(row, y, impulses)
            self._pace(int(counts.sum()), time.perf_counter() - begun)
            y, impulses = made.state[-1], made.impulses[-1]
            with np.errstate(over="ignore", invalid="ignore"):  # a scene on its way out of bounds
                # one after the other, so that it does not matter how many rows come at once
                sums = {w: np.cumsum(np.stack([done, *getattr(made, w)]), axis=0)[1:] for w, done in work.items()}
            work = {word: done[-1] for word, done in sums.items()}
            self._note(made, int(counts.sum()))
            self._warn_of_misses(row, made)
            yield self._rows(row, made, gaps, h, sums)
            row += len(h)

    def _one_row(self, row: int, y: Array, impulses: Array) -> tuple[Advance, Gaps, Array, Array]:
        """The steps to the next row of output, of one scene or of a batch; their length, and how many there are."""
        h, count = self._division(row - 1)
        with np.errstate(over="ignore", invalid="ignore"):  # a scene on its way out of bounds
            made = self._advance(row - 1, y, impulses, h, count)
        gaps = self.stepper.gaps(self.task.motion.split(made.state)[0])
        try:
            made = self._tell_steps(made, gaps[0], float(self.task.times[row]))
        except IntegrationError:
            self._note(made.as_rows(), count)  # of the row that will not be handed out
            raise
        return made.as_rows(), tuple(part[None] for part in gaps), np.array([h]), np.array([count])

    def _kernel_rows(self, row: int, y: Array, impulses: Array) -> tuple[Advance, Gaps, Array, Array] | None:
        """The rows of one scene that one call of its kernel gives, from ``row`` on; None where that is none."""
        stepper, motors, driven = self.stepper, self.stepper.motors, self._driven
        if y.ndim > 1 or not stepper.kernel or stepper.wary or not np.isfinite(y).all():
            return None
        asks = driven is None and not motors.steady
        if asks and (self._begun is not None or not can_ask(stepper)):
            return None
        divisions = self._divisions(row, self._together if asks else stepper.stride)
        if not divisions:
            return None
        h, counts = (np.array(column) for column in zip(*divisions, strict=True))
        lengths, starts = np.repeat(h, counts), self.task.times[row - 1 :]
        clock = np.concatenate([step_clock(t, own, 0, n) for t, (own, n) in zip(starts, divisions, strict=False)])
        if asks:
            return self._asked_rows(y, asked_steps(stepper, y, impulses, lengths, clock), h, counts)
        ctrl = None if motors.asks_commands else motors.ctrl_over(clock)
        plan = StepPlan(lengths, np.zeros(stepper.model.nv), ctrl, clock)
        steps, _ = watched_steps(stepper, y, impulses, plan, driven)
        return self._whole_rows(y, steps, h, counts)

    def _asked_rows(
        self, y: Array, asked: AskedSteps, h: Array, counts: Array
    ) -> tuple[Advance, Gaps, Array, Array] | None:
        """Rows of steps whose controller was asked; what there is of the row after them is kept for it."""
        made = self._whole_rows(y, asked.steps, h, counts)
        rows = 0 if made is None else len(made[2])
        if rows < len(counts):
            self._begun = asked.from_step(int(counts[:rows].sum()), int(counts[rows]))
        return made

    def _whole_rows(self, y: Array, steps: Steps, h: Array, counts: Array) -> tuple[Advance, Gaps, Array, Array] | None:
        """The rows that are complete, of ``counts`` steps of lengths ``h``; None where that is none."""
        rows = int((np.cumsum(counts) <= steps.number).sum())
        if not rows:
            return None
        made = Advance.of_rows(self.stepper, y, steps, counts[:rows], h[:rows])
        gaps = self.stepper.gaps(self.task.motion.split(made.state)[0])
        if np.isnan(gaps[0]).any():
            return None  # it is met again, one row after the other, and reported
        return made, gaps, h[:rows], counts[:rows]

    def _divisions(self, row: int, most: int) -> list[tuple[float, int]]:
        """Lengths and numbers of steps from ``row`` on, for rows of so many steps at most; perhaps none."""
        found: list[tuple[float, int]] = []
        total = 0
        for number in range(row, len(self.task.times)):
            own = self._division(number - 1)
            total += own[1]
            if total > most:
                break
            found.append(own)
        return found

    def _pace(self, steps: int, seconds: float) -> None:
        """How many steps the next call that asks a controller takes: as many as nobody waits for."""
        if seconds > UNNOTICED:
            self._together = max(1, self._together // 2)
        elif steps >= self._together:
            self._together = min(2 * steps, STEPS_OF_CALL)

    def _start(self, y: Array, impulses: Array, work: Mapping[str, Array]) -> Chunk:
        """The first row; a step that is tried and taken back tells its accelerations and forces, 0 if it fails."""
        h, _ = self._division(0)
        trial = Advance.none(self.stepper, y, impulses, np.zeros((*y.shape[:-1], self.stepper.model.nv)))
        with suppress(IntegrationError):  # it will be met again, and reported, in the first step
            trial = self._advance(0, y, impulses, h, 1)
        gaps = self.stepper.gaps(self.task.motion.split(y)[0][None])
        none = Advance.none(self.stepper, y, trial.impulses, trial.a)._replace(pressing=trial.pressing).as_rows()
        chunk = self._rows(0, none, gaps, np.array([h]), {word: done[None] for word, done in work.items()})
        return replace(chunk, memo=chunk.memo | {"impulses": impulses})

    def _advance(self, row: int, y: Array, impulses: Array, h: float, count: int) -> Advance:
        """Steps from one row of output to the next, of one scene or of a batch."""
        t = float(self.task.times[row])
        if y.ndim == 1:
            begun, self._begun = self._begun, None
            return Advance.of(self.stepper, t, y, impulses, h, count, begun=begun)
        return advance_batch(self.stepper, t, y, impulses, h, count, self.sweeps)

    def _division(self, row: int) -> tuple[float, int]:
        """Length and number of the steps from one row of output to the next."""
        span = float(self.task.times[row + 1] - self.task.times[row])
        count = max(1, int(np.ceil(span / self.longest * (1 - ROUNDED_ROW))))
        return span / count, count

    def _note(self, made: Advance, count: int) -> None:
        """Count the steps of some rows, before these are handed out."""
        self.steps += count
        self.unconverged += int(np.sum(made.unconverged))
        self.at_rounding += int(np.sum(made.at_rounding))
        self.halved += int(np.sum(made.halved))
        with np.errstate(over="ignore"):  # a run on its way out of bounds
            gained = np.maximum(np.nan_to_num(made.contact_work), 0.0).reshape(len(made.state), -1).sum(axis=1)
            # one after the other, so that it does not matter how many rows come at once
            self.gained = float(np.cumsum([self.gained, *gained])[-1])
        self.worst = max(self.worst, float(np.max(made.residual_velocity, initial=0.0)))

    def _warn_of_misses(self, first: int, made: Advance) -> None:
        """Tell, once, of the first steps of a single scene for which no impulses were found that obey the laws.

        ``first``: which row of output is the first of these.
        """
        if self._missed or self.task.start.ndim > 1:
            return
        missed = np.flatnonzero(made.residual_velocity >= max(RESIDUAL_WORTH_TELLING, self.stepper.tolerance))
        # where nothing presses, velocities are beyond bounds: no law of contact is at fault
        missed = missed[np.any(made.impulses[missed], axis=(-1, -2))]
        if not len(missed):
            return
        self._missed, number = True, int(missed[0])
        pressing = np.array(self.stepper.blocks.names, dtype=object)[np.any(made.impulses[number], axis=-1)]
        warn_caller(
            f"simulate: before t = {self.task.times[first + number]:.6g} s a step was left with a residual of "
            f"{made.residual_velocity[number]:.3g} m/s: no impulses were found that obey the laws of friction and "
            f"contact at {list_items(map(repr, pressing))}. "
            f"There may be none: what is led by a given motion, or held, can jam a body between rough surfaces. Later "
            f"steps go on from there (residual_velocity, unconverged): less friction, or a drive that can yield, "
            f"cures it",
            RuntimeWarning,
        )

    def _tell_steps(self, made: Advance, gaps: Array, time: float) -> Advance:
        """Steps, NaN where a run of a batch cannot go on, which is noted.

        Raises:
            IntegrationError: if a single run cannot go on.
        """
        state, missing = np.atleast_2d(made.state), np.isnan(np.atleast_2d(gaps))
        lost = np.flatnonzero(~np.isfinite(state).all(axis=1))
        if len(lost):  # where they were when they were lost
            missing[lost] = np.isnan(self.stepper.gaps(np.atleast_2d(made.last)[lost])[0])
        reasons = {int(run): LOST for run in lost}
        for run in np.flatnonzero(missing.any(axis=1)):
            reasons[int(run)] = GROUNDLESS.format(self.stepper.blocks.names[int(missing[run].argmax())])
        stopped = {run: f"the stepping stopped before t = {time:.9g} s: {why}" for run, why in reasons.items()}
        stopped |= {run: why for run, why in made.refusals.items() if run in stopped}
        if made.state.ndim == 1:
            if stopped:
                raise IntegrationError(stopped[0], time)
            return made
        self.failures = {**stopped, **self.failures}
        return made.without(sorted(stopped))

    def _energy(self, y: Array) -> Array:
        q, v = self.task.motion.split(y)
        dyn = self.task.motion.dyn
        with np.errstate(over="ignore", invalid="ignore"):  # a run on its way out of bounds
            return np.asarray(dyn.kinetic_energy(q, v) + dyn.potential_energy(q))

    def _balance(self, y: Array, work: Mapping[str, Array]) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray(self._energy(y) - self._start_energy - work["contact_work"] - work["joint_work"])

    def _rows(self, first: int, made: Advance, found: Gaps, h: Array, work: Mapping[str, Array]) -> Chunk:
        """Rows of output from the first one on, steps of lengths h (rows,), and what the next step begins with."""
        few = is_sparse(self.stepper.blocks) and self.task.start.ndim == 1
        forces = _BlockForces.of(made, h, few)
        blocks, contacts = self.stepper.blocks, self.stepper.contacts
        middle, end, last = blocks.first_tendon, blocks.closing, blocks.first_moment
        gaps, limits, signs = found
        values = (
            made._asdict()
            | dict(work)
            | {
                "contact_gap": gaps,
                "contact_force": forces.rows_of(contacts),
                "limit_force": forces.part(contacts, middle)[..., 0] * signs[..., : middle - contacts],
                "tendon_limit_force": forces.part(middle, end)[..., 0] * signs[..., middle - contacts :],
                "friction_force": forces.part(end, last)[..., 1],
                "contact_moment": self._moments(forces) if blocks.moments else None,
                "penetration": np.maximum(-gaps.min(axis=-1, initial=0.0), 0.0),
                "limit_overshoot": np.maximum(-limits.min(axis=-1, initial=0.0), 0.0),
                "energy_balance": self._balance(made.state, work),
            }
        )
        rows = {
            name: own if isinstance(own := values[name], SparseRows) else np.asarray(own, dtype=float)
            for name in self.variables
        }
        last_row = first + len(h) - 1
        memo = {"row": np.array(last_row), "state": made.state[-1], "impulses": made.impulses[-1]}
        memo |= {word: np.asarray(done[-1]) for word, done in work.items()}
        return Chunk(self.task.times[first : last_row + 1], made.state, memo, variables=rows)

    def _moments(self, forces: _BlockForces) -> Array | SparseRows:
        """Moments (..., contacts, 3) of torsional and rolling friction."""
        first, (candidates, rolling) = self.stepper.blocks.first_moment, self._hosts_of_moments
        own = forces.among(first, first + len(candidates))
        numbers = own.numbers - first
        hosts, places = np.unique(candidates[numbers], return_inverse=True)
        found = np.zeros((*own.values.shape[:-2], len(hosts), 3))
        for axes, some in ((SPINNING, ~rolling[numbers]), (ROLLING, rolling[numbers])):
            for column, axis in enumerate(axes, start=1):
                found[..., places[some], axis] = own.values[..., some, column]
        return forces.spread(self.stepper.contacts, hosts, found)

    @cached_property
    def _hosts_of_moments(self) -> tuple[Array, Array]:
        """Which candidate each moment belongs to, and whether it acts against rolling, (moments,)."""
        moments = self.stepper.blocks.moments
        return np.array([m.candidate for m in moments]), np.array([m.axes == ROLLING for m in moments])

    def account(self) -> dict[str, Any]:
        return {
            "step": self.longest,
            "steps": self.steps,
            "unconverged_steps": self.unconverged,
            "steps_at_rounding": self.at_rounding,
            "halved_steps": self.halved,
            "largest_residual_velocity": self.worst,
            "contact_tolerance": self.stepper.tolerance,
            "path": self.stepper.path,
            "contact_energy_gained": self.gained,
        }


class _BlockForces(NamedTuple):
    """Forces of blocks in some rows of output, N or N m, of which all others have none."""

    numbers: Array
    """Numbers of these blocks, rising, (m,)."""
    values: Array
    """(..., m, 3)"""
    sparse: bool
    """Whether they are few among all."""

    @staticmethod
    def of(made: Advance, h: Array, sparse: bool) -> _BlockForces:
        """Mean forces of steps of lengths h (rows,)."""
        pressing = made.pressing
        if sparse and isinstance(pressing, slice):  # a step that Python has taken
            pressing = np.flatnonzero(made.impulses.any(axis=(0, 2)))
        numbers, values = np.arange(made.impulses.shape[-2])[pressing], made.impulses[..., pressing, :]
        return _BlockForces(numbers, values / h.reshape(-1, *[1] * (values.ndim - 1)), sparse)

    def among(self, first: int, end: int) -> _BlockForces:
        """Forces of blocks that follow each other."""
        own = slice(*np.searchsorted(self.numbers, [first, end]))
        return self._replace(numbers=self.numbers[own], values=self.values[..., own, :])

    def part(self, first: int, end: int) -> Array:
        """Forces of all blocks from one to before another, (..., end - first, 3)."""
        own = self.among(first, end)
        return np.asarray(own.spread(end - first, own.numbers - first, own.values))

    def rows_of(self, contacts: int) -> Array | SparseRows:
        """Forces of contacts, the first blocks, (..., contacts, 3)."""
        own = self.among(0, contacts)
        return self.spread(contacts, own.numbers, own.values)

    def spread(self, count: int, numbers: Array, values: Array) -> Array | SparseRows:
        """Values (..., m, 3) as those of some numbers among so many, the others 0."""
        if self.sparse:
            return SparseRows(count, numbers, values)
        if len(numbers) == count:
            return values
        found = np.zeros((*values.shape[:-2], count, 3))
        found[..., numbers, :] = values
        return found


def _twice(state: Array) -> Array:
    """A state as a batch of two (2, n): rows of output need code for batches in any case, and with that for single
    states a first run would wait for code that is called once."""
    return np.stack([state, state])


def overlapping_start(movable: list[str], immovable: Sequence[str] = (), pairs: bool = True) -> str:
    """The text of a warning about a start state in which something overlaps.

    Args:
        movable: names and depths of what is moved apart, the deepest first.
        immovable: those of shapes that no velocity of the model moves apart.
        pairs: whether contacts are among them, and not only limits of joints.
    """
    sentences = [f"simulate: at the start {list_items([*movable, *immovable])}."]
    if movable:
        sentences.append(
            f"Time stepping moves what overlaps apart at {RELAXATION_SPEED} m/s or rad/s, and along with it what is "
            f"coupled to it; that is no motion, and changes the potential energy (energy_balance)."
        )
    if immovable:
        own = f"{list_items(immovable)}: no" if movable else "No"
        sentences.append(
            f"{own} motion of the model moves these shapes apart, so they stay as they are, and do not press."
        )
    cure = "Start from a state that does not overlap"
    sentences.append(f"{cure}, or leave pairs whose shapes do out: wt.without_overlaps(model, q0)" if pairs else cure)
    return " ".join(sentences)


def _joints(axes: Sequence[JointAxis]) -> tuple[str, ...]:
    return tuple(axis.name for axis in axes)
