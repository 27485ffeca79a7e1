"""Which row and which unknown of a whole-body program is where, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.prescribed_joints import task_rows
from whippletree.contact.kinematics.contact_set import contact_set, no_closed_form
from whippletree.control.cone_program import ConeSizes
from whippletree.control.operational_tasks import POSTURE, OperationalTask, selected_rows
from whippletree.control.tiled_algebra import TILE, groups
from whippletree.errors import UnsupportedError
from whippletree.model import WORLD, Model
from whippletree.tree.mechanism import Mechanism


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
        for name in motors:
            model.joint_index(name)
        return tuple(motors)
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
                raise UnsupportedError(f"whole_body: support: no contact of model {self.model.name!r} is on {frame!r}")
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
    def row_names(self) -> list[str]:
        """Every row of the program by name: hard ones, then those of tasks."""
        names = [f"motion of {self.joint_of(i)!r}, which has no motor" for i in self.passive]
        if self.closed:
            rows = constraint_set(self.model).row_names
            names += [f"constraint row {rows[i]!r}" for i in self.closed]
        if self.contacts:
            names += [f"contact {name!r}" for name in contact_set(self.model).names for _ in range(3)]
        pairs = zip(self.tasks, self.task_rows, strict=True)
        return names + [f"task {t.name!r}" for t, rows in pairs if not self.on_diagonal(t) for _ in rows]

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
