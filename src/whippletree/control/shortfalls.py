"""Shortfalls of a controller, by name: the rows that are not met, and the limits and cones at fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.control.cone_program import ROUNDS

if TYPE_CHECKING:
    from whippletree.control.whole_body_program import Answer, WholeBody

NOTICED = 1e-6
"""Residual of a hard row, in its units, above which it counts as not met."""

STOP_NOTICED = 1e-4
"""rad/s² or m/s² beyond what a stop allows above which it counts as not kept."""

TASK_NOTICED = 0.1
"""m/s² or rad/s²: what a task must miss to be named."""

AT_LIMIT = 1e-4
"""Share of a limit within which it counts as reached."""


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
    if not rows and answer.report[4] >= ROUNDS:
        rows = [_unsettled(np.asarray(answer.report))]
    if not rows and not (tasks and at_fault):
        return []
    return [*rows, *tasks, *at_fault]


def _unsettled(report: Any) -> Shortfall:
    """The program took all its rounds and met its rows."""
    text = (
        f"the program is not settled after {ROUNDS} rounds: a gradient of {report[3]:.3g} is left. All rows and limits "
        "are met; weights or costs that differ by more than rounding can tell leave tasks undecided"
    )
    return Shortfall("program", "program", float(report[3]), text)


def _missing(control: WholeBody, residual: Any) -> tuple[list[Shortfall], list[Shortfall]]:
    worst: dict[str, float] = {}
    for name, r in zip(control.layout.row_names, residual, strict=True):
        worst[name] = max(worst.get(name, 0.0), abs(float(r)))
    rows, tasks = [], []
    for name, r in sorted(worst.items(), key=lambda item: -item[1]):
        if name.startswith("task"):
            if r > TASK_NOTICED:
                tasks.append(Shortfall(name, "task", r, f"{name} misses {r:.3g} m/s² or rad/s²"))
        elif r > NOTICED:
            unit = "of the weight" if name.startswith("motion") else "m/s²"
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
