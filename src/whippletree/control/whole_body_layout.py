"""Which row and which unknown of a whole-body program is where, what it is called, and what it falls short of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.prescribed_joints import task_rows
from whippletree.contact.kinematics.contact_set import contact_set, no_closed_form
from whippletree.control.cone_program import CONE_ROUNDS, ConeSizes
from whippletree.control.operational_tasks import POSTURE, OperationalTask, selected_rows
from whippletree.control.tiled_algebra import TILE, groups
from whippletree.errors import UnsupportedError
from whippletree.model import WORLD, Model
from whippletree.model.input_checks import as_names
from whippletree.tree.mechanism import Mechanism

if TYPE_CHECKING:
    from whippletree.control.whole_body_program import Answer, WholeBody


@dataclass(frozen=True)
class Settings:
    """The parts of a controller, apart from its model and tasks."""

    motors: tuple[str, ...]
    limits: bool
    force_cost: float
    effort_cost: float
    horizon: float
    contact_damping: float
    support: tuple[tuple[str, float, float], ...]
    """Frames of feet, with half of the length and of the width in which the centre of pressure has to stay, m."""

    def __post_init__(self) -> None:
        for name in self.motors:
            if self.motors.count(name) > 1:
                raise ValueError(f"whole_body: motors names joint {name!r} twice: name it once")
        for word in ("force_cost", "effort_cost", "contact_damping"):
            _require(word, getattr(self, word), positive=False)
        _require("horizon", self.horizon, positive=True)
        for frame, *half in self.support:
            for number in half:
                _require(f"support of {frame!r}", number, positive=True)


def _require(word: str, number: float, *, positive: bool) -> None:
    """Refuse a number that is not finite, negative, or, where it has to be positive, 0."""
    if not np.isfinite(number) or number < 0 or (positive and number == 0):
        expected = "positive" if positive else "not negative"
        raise ValueError(f"whole_body: {word} is {number!r}, expected a number that is finite and {expected}")


def chosen_motors(model: Model, motors: Sequence[str] | None) -> tuple[str, ...]:
    """Joints with a motor: those that are named, else those of the actuators, else all but floating bases."""
    if motors is not None:
        for name in as_names(motors):
            model.joint_index(name)
        return as_names(motors)
    driven = {joint for actuator in model.actuators for joint in actuator.joints}
    floating = {j.name for j in model.joints if j.kind == "free" and j.parent == WORLD}
    return tuple(j.name for j in model.joints if (j.name in driven if driven else j.name not in floating))


@dataclass(frozen=True)
class Layout:
    """Which row and which unknown is where."""

    model: Model
    tasks: tuple[OperationalTask, ...]
    settings: Settings
    m: Mechanism = field(init=False)
    task_rows: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", Mechanism.of(self.model))
        _require_distinct([task.name for task in self.tasks])
        rows = [selected_rows(task, self.m, self.settings.motors) for task in self.tasks]
        object.__setattr__(self, "task_rows", rows)
        for frame, _, _ in self.settings.support:
            self.model.frame(frame)
            if not self.feet[frame]:
                raise UnsupportedError(self._message_without_feet(frame))
        if self.contacts:
            unwritten = [pair for pair in contact_set(self.model).pairs if pair.touching is None]
            if unwritten:
                raise UnsupportedError(f"whole_body: {no_closed_form(unwritten[0])}")

    @cached_property
    def names(self) -> list[str]:
        return [task.name for task in self.tasks]

    def frame_of(self, task: OperationalTask) -> str:
        """The frame whose rows a task asks for."""
        return task_rows(self.m, (task.what,))[0][0]

    @cached_property
    def contacts(self) -> int:
        return len(contact_set(self.model).candidates) if self.model.touches else 0

    def _message_without_feet(self, frame: str) -> str:
        """Message about a frame of ``support`` whose body touches nothing."""
        candidates = contact_set(self.model).candidates if self.contacts else ()
        bodies = dict.fromkeys(body for c in candidates for body in (c.first_body, c.second_body))
        known = ", ".join(repr(body) for body in bodies if body != WORLD) or "none"
        return (
            f"whole_body: support: no contact of model {self.model.name!r} is on the body of frame {frame!r}; bodies "
            f"with contacts: {known}"
        )

    @cached_property
    def feet(self) -> dict[str, list[int]]:
        """Candidates on the body of each frame of ``support``."""
        found = {}
        for frame, _, _ in self.settings.support:
            body = self.model.frame(frame).body
            candidates = contact_set(self.model).candidates if self.contacts else ()
            found[frame] = [k for k, c in enumerate(candidates) if body in (c.first_body, c.second_body)]
        return found

    @cached_property
    def timed(self) -> bool:
        return bool(self.model.constraints) and constraint_set(self.model).timed

    @cached_property
    def switches(self) -> int:
        return len(constraint_set(self.model).switches) if self.model.constraints else 0

    @cached_property
    def motors(self) -> list[int]:
        """Velocities with a motor."""
        return [i for name in self.settings.motors for i in range(self.model.nv)[self.model.slice(name)]]

    @cached_property
    def passive(self) -> list[int]:
        return [i for i in range(self.model.nv) if i not in set(self.motors)]

    @cached_property
    def closed(self) -> list[int]:
        """Independent rigid rows of the constraints."""
        if not self.model.constraints:
            return []
        system = constraint_set(self.model)
        return [i for i in system.structure.independent if not system.compliance[i]]

    @cached_property
    def hard(self) -> int:
        return len(self.passive) + len(self.closed) + 3 * self.contacts

    @cached_property
    def rows(self) -> list[ProgramRow]:
        """Every row of the program: hard ones, then those of tasks."""
        found = [ProgramRow("motion", f"motion of {self.joint_of(i)!r}, which has no motor") for i in self.passive]
        if self.closed:
            names = constraint_set(self.model).row_names
            found += [ProgramRow("constraint", f"constraint row {names[i]!r}") for i in self.closed]
        if self.contacts:
            found += [
                ProgramRow("contact", f"contact {name!r}") for name in contact_set(self.model).names for _ in range(3)
            ]
        pairs = zip(self.tasks, self.task_rows, strict=True)
        return found + [
            ProgramRow("task", f"task {t.name!r}") for t, rows in pairs if not self.on_diagonal(t) for _ in rows
        ]

    @property
    def row_names(self) -> list[str]:
        """Every row of the program by name."""
        return [row.name for row in self.rows]

    def joint_of(self, i: int) -> str:
        """The joint that a velocity belongs to."""
        return next(
            j.name for j, s in zip(self.model.joints, self.model.v_slices, strict=True) if s.start <= i < s.stop
        )

    @cached_property
    def levels(self) -> list[int]:
        return sorted({task.level for task in self.tasks}) or [0]

    def on_diagonal(self, task: OperationalTask) -> bool:
        """A posture of the last level is a cost of single unknowns."""
        return task.kind == POSTURE and task.level == self.levels[-1]

    @cached_property
    def soft_levels(self) -> list[int]:
        """Level of every row of a task that is a row of the program."""
        pairs = zip(self.tasks, self.task_rows, strict=True)
        return [task.level for task, rows in pairs if not self.on_diagonal(task) for _ in rows]

    @cached_property
    def force_unit(self) -> float:
        """The weight of the model, N; 1 without gravity or mass."""
        mass = float(sum(float(body.mass) for body in self.model.bodies))
        found = mass * float(np.linalg.norm(np.asarray(self.model.gravity, dtype=float)))
        return found if found > 0 else 1.0

    @cached_property
    def heaviest(self) -> float:
        return max((task.weight for task in self.tasks), default=1.0)

    @cached_property
    def first_acceleration(self) -> int:
        """Where accelerations begin among the unknowns: forces of contacts come first, in whole groups of cones."""
        return 3 * TILE * groups(self.contacts)

    def force_places(self, contact: int) -> list[int]:
        """Where normal and tangents of a contact are among the unknowns."""
        return [part * (self.first_acceleration // 3) + contact for part in range(3)]

    @cached_property
    def sizes(self) -> ConeSizes:
        unknowns = self.first_acceleration + self.model.nv + len(self.closed)
        limits = len(self.motors) + 4 * len(self.settings.support)
        cones = self.first_acceleration // 3
        return ConeSizes(TILE * groups(unknowns), self.hard + len(self.soft_levels), limits, cones)

    @cached_property
    def answer_sizes(self) -> dict[str, int]:
        """How many numbers each part of an answer has, in order; parts without any are no outputs of the program."""
        nv = self.model.nv
        rows = len(constraint_set(self.model).row_names) if self.model.constraints else 0
        found = {"tau": nv, "a": nv, "contact_forces": 3 * self.contacts, "f": rows}
        return found | {"beyond": nv, "residual_out": self.sizes.rows, "report_out": 5}

    @cached_property
    def efforts(self) -> list[float]:
        """Effort limit of every velocity with a motor; infinite without."""
        most = np.full(self.model.nv, np.inf)
        for joint, part in zip(self.model.joints, self.model.v_slices, strict=True):
            most[part] = joint.effort_limit if self.settings.limits and joint.effort_limit > 0 else np.inf
        return [float(most[i]) for i in self.motors]


def _require_distinct(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"whole_body: two tasks have the name {name!r}: give one of them another, by name=")


# --- shortfalls, by name: rows that are not met, and the limits and cones at fault ------------------------------------


NOTICED = 1e-6
"""Residual of a hard row, in its units, above which it counts as not met."""

STOP_NOTICED = 1e-4
"""rad/s² or m/s² beyond what a stop allows above which it counts as not kept."""

TASK_NOTICED = 0.1
"""m/s² or rad/s²: what a task must miss to be named."""

AT_LIMIT = 1e-4
"""Share of a limit within which it counts as reached."""


class ProgramRow(NamedTuple):
    """A row of the program; a contact and a task have several of the same name."""

    kind: str
    """``motion`` of a joint without motor, ``constraint``, ``contact`` or ``task``."""
    name: str


@dataclass(frozen=True)
class Shortfall:
    """Something that is missing, or a limit that stands in the way."""

    name: str
    kind: str
    """``row``, ``stop`` or ``task`` for what is not met; ``effort``, ``cone`` or ``contact`` for what is at fault;
    ``program`` for an answer that meets all rows and limits, but is not known to be the best."""
    amount: float
    """Of rows and tasks: what is missing, m/s² or rad/s², or a share of the weight; of limits: the effort, N m or N,
    or the normal force, N."""
    text: str

    def __str__(self) -> str:
        return self.text


def shortfalls(control: WholeBody, answer: Answer) -> list[Shortfall]:
    """Shortfalls, the worst first, then the limits and cones that are reached; nothing if all is met.

    A task that misses something while no limit is reached has only made room for other tasks, and is not named.
    """
    if np.ndim(answer.tau) != 1:
        raise ValueError("explain: one answer at a time; take an element of each field of a batch")
    rows, tasks = _missing(control, np.asarray(answer.residual))
    rows += _stops(control, np.asarray(answer.beyond))
    at_fault = [*_efforts(control, answer), *_cones(control, answer)]
    if not rows and answer.report[4] >= CONE_ROUNDS:
        rows = [_unsettled_shortfall(np.asarray(answer.report))]
    if not rows and not (tasks and at_fault):
        return []
    return [*rows, *tasks, *at_fault]


def _unsettled_shortfall(report: Any) -> Shortfall:
    """The program took all its rounds and met its rows."""
    text = (
        f"the program is not settled after {CONE_ROUNDS} rounds: a gradient of {report[3]:.3g} is left. All rows and "
        "limits are met; weights or costs that differ by more than rounding can tell leave tasks undecided"
    )
    return Shortfall("program", "program", float(report[3]), text)


def _missing(control: WholeBody, residual: Any) -> tuple[list[Shortfall], list[Shortfall]]:
    """Rows and tasks that are not met, the worst first, each by the worst of its numbers."""
    worst: dict[ProgramRow, float] = {}
    for row, r in zip(control.layout.rows, residual, strict=True):
        worst[row] = max(worst.get(row, 0.0), abs(float(r)))
    rows, tasks = [], []
    for (kind, name), r in sorted(worst.items(), key=lambda item: -item[1]):
        if kind == "task":
            if r > TASK_NOTICED:
                tasks.append(Shortfall(name, "task", r, f"{name} misses {r:.3g} m/s² or rad/s²"))
        elif r > NOTICED:
            unit = "of the weight" if kind == "motion" else "m/s²"
            rows.append(Shortfall(name, "row", r, f"{name} cannot be met: {r:.3g} {unit} are missing"))
    return rows, tasks


def _stops(control: WholeBody, beyond: Any) -> list[Shortfall]:
    """Stops and velocity limits of joints that cannot be kept."""
    found = []
    for i, missing in enumerate(beyond):
        if missing > STOP_NOTICED:
            joint = control.layout.joint_of(i)
            text = (
                f"joint {joint!r} cannot be kept within its stop or velocity limit: {missing:.3g} too much acceleration"
            )
            found.append(Shortfall(joint, "stop", float(missing), text))
    return found


def _efforts(control: WholeBody, answer: Answer) -> list[Shortfall]:
    layout, found = control.layout, []
    for i, most in zip(layout.motors, layout.efforts, strict=True):
        tau = float(answer.tau[i])
        if np.isfinite(most) and abs(tau) > (1 - AT_LIMIT) * most:
            joint = layout.joint_of(i)
            text = f"motor of {joint!r} is at its effort limit of {most:g} ({tau:.4g})"
            found.append(Shortfall(joint, "effort", tau, text))
    return found


def _cones(control: WholeBody, answer: Answer) -> list[Shortfall]:
    if not control.layout.contacts:
        return []
    contacts, found = contact_set(control.model), []
    p = np.asarray(answer.contact_forces).reshape(-1, 3)
    tip = AT_LIMIT * control.layout.force_unit
    if np.all(p[:, 0] < tip):
        return [Shortfall("contacts", "contact", 0.0, "no contact carries: each is off, or would have to pull")]
    for name, mu, (normal, *side) in zip(contacts.names, contacts.friction, p, strict=True):
        if 0 < normal < tip:
            text = f"contact {name!r} is at the tip of its friction cone: it could only pull"
            found.append(Shortfall(name, "cone", float(normal), text))
        elif normal and np.hypot(*side) > (1 - AT_LIMIT) * mu * normal:
            text = f"contact {name!r} is at the edge of its friction cone ({normal:.4g} N, friction {mu:g})"
            found.append(Shortfall(name, "cone", float(normal), text))
    return found
