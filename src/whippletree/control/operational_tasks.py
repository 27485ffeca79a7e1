"""Tasks: what a controller asks of a motion, as rows J a + b of accelerations, on any scalar.

    frame         ``tool``, ``tool.position``, ``tool.rotation``, ``tool.x`` …: rows of a frame, along the world's axes
    mass centre   ``center_of_mass``, ``center_of_mass.x`` …
    momentum      ``momentum``, ``momentum.rotation``, ``momentum.position``: about the centre of mass, world axes
    posture       ``posture``: joints, by their own velocities

A task asks for the acceleration w = target acceleration + damping (target rate − rate) + stiffness (target ⊖ value), in
the frame of the rows. Momentum has no value: its stiffness acts on nothing, and its damping pulls the momentum towards
the target rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from whippletree.analysis.reaching import rotation_vector
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints.prescribed_joints import PARTS, ROWS, task_rows
from whippletree.errors import NameLookupError, ShapeError
from whippletree.model import Model
from whippletree.model.input_checks import as_names
from whippletree.spatial import cross
from whippletree.tree import inverse, kinematics, momentum
from whippletree.tree.links import Link, joint_zeros, world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field

CENTER, MOMENTUM, POSTURE = "center_of_mass", "momentum", "posture"


@dataclass(frozen=True)
class OperationalTask:
    """A demand, apart from the numbers of a moment. Made by :func:`task`."""

    what: str
    weight: float
    stiffness: float
    damping: float
    level: int
    joints: tuple[str, ...] | None
    """Joints of a posture; None for all that have a motor."""
    name: str

    @property
    def kind(self) -> str:
        """``center_of_mass``, ``momentum``, ``posture`` or ``frame``."""
        head = self.what.partition(".")[0]
        return head if head in (CENTER, MOMENTUM, POSTURE) else "frame"


def task(
    what: str,
    *,
    weight: float = 1.0,
    stiffness: float = 0.0,
    damping: float | None = None,
    level: int = 0,
    joints: Sequence[str] | None = None,
    name: str | None = None,
) -> OperationalTask:
    """Something to be done by a controller: rows of a frame, the centre of mass, momentum, or a posture.

    Args:
        what: a frame or body (six rows, rotations first), some of its rows (``tool.position``, ``tool.rotation``,
            ``tool.x``, ``tool.rz``), ``center_of_mass`` (``.x``, ``.y``, ``.z``), ``momentum`` (``.rotation``,
            ``.position``) or ``posture``; rows are along the world's axes, those of a posture are velocities of joints.
        weight: of the squares of what is missing, against other tasks of the same level.
        stiffness: 1/s², of what is missing to the target.
        damping: 1/s, of what is missing to the target rate; default: 2 √stiffness, which does not overshoot.
        level: tasks of higher levels are done only as far as those of lower levels are not touched.
        joints: of a posture; default: all joints with a motor.
        name: in targets and messages; default ``what``.

    Raises:
        ValueError: a weight that is not positive, or gains that are negative or not finite.
    """
    least = 2 * math.sqrt(stiffness) if damping is None and stiffness >= 0 else damping
    numbers = {"weight": weight, "stiffness": stiffness, "damping": least}
    for word, number in numbers.items():
        if not (isinstance(number, (int, float)) and math.isfinite(number) and number >= 0):
            raise ValueError(f"task {what!r}: {word} is {number!r}, expected a number that is finite and not negative")
    if not weight:
        raise ValueError(f"task {what!r}: weight is 0, and nothing would be done for it: leave it out")
    assert least is not None
    own = as_names(joints) if joints is not None else None
    return OperationalTask(what, float(weight), float(stiffness), float(least), int(level), own, name or what)


class TaskRows(NamedTuple):
    """A task at one state."""

    J: Array
    """(r, nv)."""
    bias: Array
    """J̇ v, (r,)."""
    missing: Array
    """target ⊖ value, (r,)."""
    rate: Array
    """J v, (r,)."""


class TaskMotion:
    """A state, and what several tasks need of it, each computed once."""

    def __init__(self, m: Mechanism, q: Array, v: Array) -> None:
        self.m, self.q, self.v, self.links = m, q, v, m.moving(q, v)
        self._sums: tuple[momentum.Centroidal, Array] | None = None

    @property
    def sums(self) -> tuple[momentum.Centroidal, Array]:
        """Centre of mass, A_G, and Ȧ_G v (6,)."""
        if self._sums is None:
            whole = momentum.centroidal(self.m.tree, self.m.sweep, self.links)
            self._sums = whole, _momentum_bias(self.m, self.links, whole.center)
        return self._sums


def _momentum_bias(m: Mechanism, links: Field, center: Array) -> Array:
    """Rate (6,) of the momentum about the centre of mass at zero joint accelerations, without gravity."""
    alpha = inverse.accelerations(m.sweep, links, joint_zeros(m.sweep, links), zeros(6))

    def momentum_rate(link: Link, alpha: Array, pose: Any) -> Any:
        return pose.force(link.M @ alpha + link.b - link.r)

    rate = m.sweep.total(momentum_rate, zeros(6), links, alpha, world_poses(m.sweep, links))
    # ḣ_G = ḣ_O − c × l̇, since the centre moves along l
    return np.concatenate([rate[:3] - cross(center, rate[3:]), rate[3:]])


def rows_of(task: OperationalTask, at: TaskMotion, joints: Sequence[str], target: Array) -> TaskRows:
    """The rows of a task; ``joints`` are those of a posture that names none."""
    chosen = selected_rows(task, at.m, joints)
    if task.kind == POSTURE:
        J = np.eye(at.m.tree.model.nv, dtype=int).astype(object)
        found = TaskRows(J, zeros(len(J)), at.m.manifold().difference(at.q, target), at.v)
    elif task.kind == "frame":
        found = _frame_rows(task, at, target)
    else:
        whole, bias = at.sums
        if task.kind == MOMENTUM:
            found = TaskRows(whole.matrix, bias, zeros(6), whole.matrix @ at.v)
        else:
            J = whole.matrix[3:] / whole.mass
            found = TaskRows(J, bias[3:] / whole.mass, target - whole.center, J @ at.v)
    return TaskRows(*[part[chosen] for part in found])


def _frame_rows(task: OperationalTask, at: TaskMotion, target: Array) -> TaskRows:
    """All six rows of a frame, along the world's axes; the position's are those of the frame's origin."""
    tree, links = at.m.tree, at.links
    ((frame, _),) = task_rows(at.m, (task.what,))
    place = at.m.place(frame)
    X = kinematics.pose(tree, links, place)
    J, V = kinematics.jacobian(tree, links, place), kinematics.twist(tree, links, place)
    bias = kinematics.jacobian_bias(tree, links, place)
    R = X.R
    slide = bias[3:] + cross(V[:3], V[3:])  # spatial to classical acceleration of the origin
    turn = R @ rotation_vector(R.T @ target[:3, :3])
    return TaskRows(
        np.concatenate([R @ J[:3], R @ J[3:]]),
        np.concatenate([R @ bias[:3], R @ slide]),
        np.concatenate([turn, target[:3, 3] - X.p]),
        np.concatenate([R @ V[:3], R @ V[3:]]),
    )


def selected_rows(task: OperationalTask, m: Mechanism, joints: Sequence[str]) -> list[int]:
    """Numbers of the rows of a task among all that its kind has.

    Raises:
        NameLookupError: an unknown frame, joint or row, with the nearest names.
    """
    model = m.tree.model
    if task.kind == POSTURE:
        if task.what != POSTURE:
            raise NameLookupError("task", task.what, [POSTURE], where="posture takes its joints by joints=")
        names = joints if task.joints is None else task.joints
        return [i for name in names for i in range(model.nv)[model.slice(name)]]
    if task.kind == "frame":
        ((_, own),) = task_rows(m, (task.what,))
        return own
    head, _, tail = task.what.partition(".")
    rows = ROWS[3:] if head == CENTER else ROWS
    parts = {row: [row] for row in rows} | ({} if head == CENTER else {k: list(v) for k, v in PARTS.items()})
    if tail and tail not in parts:
        raise NameLookupError("row", tail, list(parts), where=f"task {head!r}")
    return [rows.index(row) for row in (parts[tail] if tail else rows)]


def target_shape(task: OperationalTask, model: Model) -> tuple[int, ...]:
    """Shape of a task's target: a pose, a point, a momentum that is not used, or coordinates."""
    return {"frame": (4, 4), CENTER: (3,), MOMENTUM: (0,), POSTURE: (model.nq,)}[task.kind]


def require_shape(name: str, found: Any, expected: tuple[int, ...]) -> None:
    """Refuse a target of another shape, batch dimensions in front apart."""
    shape = np.shape(found)
    if shape[len(shape) - len(expected) :] != expected:
        raise ShapeError(f"whole_body: target of task {name!r} has shape {shape}, expected (..., {expected})")
