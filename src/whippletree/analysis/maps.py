"""``wt.dexterity`` and ``wt.workspace``: how well motors move a frame, and where it can go; loops included.

Let Z span the motions that the rows allow, J be the frame's Jacobian and S select the velocities of the motors. A
mechanism is singular (Gosselin and Angeles 1990) where

    S Z loses rank    some motion moves no motor: locked motors do not hold the frame (output singularity, second type)
    J Z loses rank    some direction of the frame is lost, whatever the motors do (input singularity, first type)

Elsewhere T = J Z (S Z)⁺ takes rates of the motors to the frame's twist. Rotations count with a length, since radians
and metres do not compare by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whippletree.analysis.balance import Balance, held_rows
from whippletree.analysis.inverse_kinematics import inverse_kinematics
from whippletree.analysis.linear import require_on_manifold
from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.singular.exploration import generic_configurations
from whippletree.errors import NameLookupError, ShapeError, UnsupportedError
from whippletree.model import Model
from whippletree.model.input_checks import as_names, floats

POSITION, ROTATION, POSE = "position", "rotation", "pose"
PARTS = (POSITION, ROTATION, POSE)

LOST_DIRECTION = 1e-6
"""Relative singular value below which a direction counts as lost."""


@dataclass(frozen=True)
class Dexterity:
    """How well motors move a frame. With a batch, every field has its dimensions in front."""

    transmission: Array
    """T (..., rows, motors): the frame's twist, in its axes, per rate of the motors; rotations times ``length``."""
    values: Array
    """Singular values of T, largest first: how fast the frame goes in its best and worst directions, (..., r)."""
    manipulability: Array
    """Product of the singular values, (...,): zero where a direction is lost (Yoshikawa 1985)."""
    condition: Array
    """Largest over smallest, (...,): 1 is isotropic, infinity singular."""
    output_margin: Array
    """Smallest singular value of S Z, Z orthonormal, (...,): zero where locked motors do not hold the mechanism."""
    input_margin: Array
    """Smallest singular value of J Z over the largest, (...,): zero where the frame has lost a direction."""
    frame: str
    model: Model = field(repr=False)

    @property
    def singular(self) -> Any:
        """In words, (...,): ``""``, ``"output"``, ``"input"`` or ``"output and input"``."""
        output, lost = self.output_margin < LOST_DIRECTION, self.input_margin < LOST_DIRECTION
        words = np.where(output & lost, "output and input", np.where(output, "output", np.where(lost, "input", "")))
        return str(words) if words.ndim == 0 else words

    def __repr__(self) -> str:
        if self.condition.ndim:
            count = int(np.sum(self.singular != ""))
            return f"<Dexterity of {self.frame!r} at {self.condition.shape} configurations, {count} of them singular>"
        kind = f", {self.singular} singularity" if self.singular else ""
        return f"<Dexterity of {self.frame!r}: condition {float(self.condition):.6g}{kind}>"


def dexterity(
    model: Model,
    frame: str,
    q: Any,
    *,
    motors: Sequence[str] | None = None,
    part: str = POSITION,
    length: float = 1.0,
    t: float = 0.0,
    active: Any = None,
) -> Dexterity:
    """How well motors move a frame, and how close it is to a singularity.

    Args:
        model: serial or parallel; loops must be closed at q.
        frame: a frame or body by name.
        q: (..., nq).
        motors: joints that are driven; default: all (in a mechanism with loops, say which).
        part: of the frame's motion: ``position``, ``rotation`` or ``pose``.
        length: m that a radian counts, for poses; for rotations alone it is a factor.
        t, active: as everywhere.

    Raises:
        NameLookupError: an unknown frame, joint or part.
        AssemblyError: loops that are open at q.
        UnsupportedError: a frame that no joint moves: its Jacobian has nothing but zeros.
    """
    balance = Balance("dexterity", model, t=t, active=active)
    if part not in PARTS:
        raise NameLookupError("part of a motion", part, PARTS)
    if not 0 < length < np.inf:
        raise ValueError(f"dexterity: length is {length}, expected a positive number of metres")
    at = balance.coordinates("q", q)
    require_on_manifold(balance, at, np.zeros((*at.shape[:-1], model.nv)), velocities=False)
    J = _frame_rows(balance, frame, at, part, length)
    if J.size and not np.any(J):
        raise UnsupportedError(
            f"dexterity: no joint of model {model.name!r} changes the {part} of frame {frame!r}: its Jacobian has "
            f"nothing but zeros"
        )
    Z = held_rows(balance.jacobian(at)).motions
    if not Z.shape[-1]:
        raise UnsupportedError(f"dexterity: model {model.name!r} has no freedom: its constraints hold every joint")
    names = [joint.name for joint in model.joints] if motors is None else as_names(motors)
    driven = [i for name in names for i in range(model.nv)[model.slice(name)]]
    reach, felt = J @ Z, Z[..., driven, :]
    return _measure_dexterity(reach, felt, _usual_rank(balance, frame, part, length), frame, model)


def _frame_rows(balance: Balance, frame: str, q: Array, part: str, length: float) -> Array:
    """The rows of the frame's Jacobian that are asked for, rotations times the length."""
    J = np.array(balance.evaluate("jacobian", balance.model.frame(frame).name, q=q))
    J[..., :3, :] *= length
    return J[..., {POSITION: slice(3, 6), ROTATION: slice(0, 3), POSE: slice(0, 6)}[part], :]


def _usual_rank(balance: Balance, frame: str, part: str, length: float) -> int:
    """In how many directions the frame moves at almost every configuration: a planar arm's has two, not three."""
    q = np.stack(generic_configurations(constraint_set(balance.model), 2))
    reach = _frame_rows(balance, frame, q, part, length) @ held_rows(balance.jacobian(q)).motions
    values = np.linalg.svd(reach, compute_uv=False)
    return max(1, int(np.max(np.sum(values > LOST_DIRECTION * values.max(initial=0.0), axis=-1), initial=0)))


def _measure_dexterity(reach: Array, felt: Array, used: int, frame: str, model: Model) -> Dexterity:
    freedoms = reach.shape[-1]
    output = _singular_values(felt, freedoms)[..., -1]
    T = reach @ np.linalg.pinv(felt, rcond=LOST_DIRECTION)
    values, own = (_singular_values(matrix, used)[..., :used] for matrix in (T, reach))
    worst, best = own[..., -1], own[..., 0]
    lost = np.where(best > 0, worst / np.where(best > 0, best, 1.0), 0.0)
    smallest = values[..., -1]
    sound = smallest > LOST_DIRECTION * values[..., 0]
    condition = np.where(sound, values[..., 0] / np.where(sound, smallest, 1.0), np.inf)
    return Dexterity(T, values, np.prod(values, axis=-1), condition, output, lost, frame, model)


def _singular_values(matrix: Array, count: int) -> Array:
    """At least ``count`` of them, zeros where the matrix has fewer."""
    values = np.linalg.svd(matrix, compute_uv=False)
    missing = count - values.shape[-1]
    return np.concatenate([values, np.zeros((*values.shape[:-1], missing))], axis=-1) if missing > 0 else values


@dataclass(frozen=True)
class Workspace:
    """Where a frame can go: a map over goals."""

    goals: Array
    """(..., 3) or (..., 4, 4)."""
    reached: Array
    """(...,)."""
    q: Array
    """(..., nq): how; where a goal is out of reach, the closest."""
    distance: Array
    """Remaining distance, m, (...,)."""
    dexterity: Dexterity
    """There, also where a goal is out of reach: of the closest configuration."""

    def __repr__(self) -> str:
        return (
            f"<Workspace: {int(np.sum(self.reached))} of {self.reached.size} goals reached by {self.dexterity.frame!r}>"
        )


def workspace(
    model: Model,
    frame: str,
    goals: Any,
    *,
    guess: Any = None,
    motors: Sequence[str] | None = None,
    limits: bool = True,
    starts: int = 8,
    seed: int = 0,
    length: float = 1.0,
    t: float = 0.0,
    active: Any = None,
) -> Workspace:
    """Which of many goals a frame can reach, how, and how well it moves there.

    Args:
        model: serial or parallel.
        frame: a frame or body by name.
        goals: positions (..., 3), m, or poses (..., 4, 4), in the world.
        guess, limits, starts, seed: as in :func:`whippletree.inverse_kinematics`.
        motors, length: as in :func:`whippletree.dexterity`.
        t, active: as everywhere.
    """
    array = floats("workspace", "goals", goals)
    if array.ndim < 2:
        raise ShapeError(f"workspace: goals has shape {array.shape}, expected positions (..., 3) or poses (..., 4, 4)")
    found = inverse_kinematics(
        model, {frame: array}, guess, limits=limits, starts=starts, seed=seed, t=t, active=active
    )
    part = POSE if array.shape[-2:] == (4, 4) else POSITION
    moved = dexterity(model, frame, found.q, motors=motors, part=part, length=length, t=t, active=active)
    return Workspace(array, np.asarray(found.reached), found.q, found.distance[..., 0], moved)
