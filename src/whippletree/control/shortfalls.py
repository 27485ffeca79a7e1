"""What a controller could not do, by name: the rows that are not met, and the limits and cones at fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.contact.kinematics.contact_set import contact_set

if TYPE_CHECKING:
    from whippletree.control.whole_body_program import Answer, WholeBody

NOTICED = 1e-6
"""Residual of a hard row, in its units, above which it counts as not met."""

AT_LIMIT = 1e-4
"""Share of a limit within which it counts as reached."""


@dataclass(frozen=True)
class Shortfall:
    """Something that is missing or at its limit."""

    name: str
    kind: str
    """``row`` for what is not met; ``effort``, ``cone``, ``stop`` for limits that stand in the way."""
    amount: float
    """Of rows: what is missing (m/s² or rad/s², or a share of the weight); of limits: the effort, N m or N, the normal
    force, N, or the acceleration at the stop."""
    text: str

    def __str__(self) -> str:
        return self.text


def shortfalls(control: WholeBody, answer: Answer) -> list[Shortfall]:
    """Rows that are not met, the worst first, then limits and cones that are reached; nothing if every row is met."""
    if np.ndim(answer.tau) != 1:
        raise ValueError("explain: one answer at a time; take an element of each field of a batch")
    missing = _missing(control, np.asarray(answer.residual))
    return [*missing, *_efforts(control, answer), *_cones(control, answer)] if missing else []


def _missing(control: WholeBody, residual: Any) -> list[Shortfall]:
    worst: dict[str, float] = {}
    for name, r in zip(control.layout.hard_names, residual, strict=True):
        worst[name] = max(worst.get(name, 0.0), abs(float(r)))
    found = []
    for name, r in sorted(worst.items(), key=lambda item: -item[1]):
        if r > NOTICED:
            unit = "of the weight" if name.startswith("motion") else "m/s²"
            found.append(Shortfall(name, "row", r, f"{name} cannot be met: {r:.3g} {unit} are missing"))
    return found


def _efforts(control: WholeBody, answer: Answer) -> list[Shortfall]:
    layout, found = control.layout, []
    for i, most in zip(layout.motors, layout.efforts, strict=True):
        tau = float(answer.tau[i])
        if np.isfinite(most) and abs(tau) > (1 - AT_LIMIT) * most:
            joint = layout._velocity_owner(i)
            found.append(
                Shortfall(joint, "effort", tau, f"motor of {joint!r} is at its effort limit of {most:g} ({tau:.4g})")
            )
    return found


def _cones(control: WholeBody, answer: Answer) -> list[Shortfall]:
    if not control.layout.contacts:
        return []
    contacts, found = contact_set(control.model), []
    p = np.asarray(answer.contact_forces).reshape(-1, 3)
    for name, mu, (normal, *side) in zip(contacts.names, contacts.friction, p, strict=True):
        if normal and np.hypot(*side) > (1 - AT_LIMIT) * mu * normal:
            text = f"contact {name!r} is at the edge of its friction cone ({normal:.4g} N, friction {mu:g})"
            found.append(Shortfall(name, "cone", float(normal), text))
    return found
