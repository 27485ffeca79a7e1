"""The saltation matrix of an event of a run: its reset and its guard, differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.contact.saltation import derivative, saltation_matrix
from whippletree.simulation.guards import STICK, TOUCHDOWN, Guard, Guards
from whippletree.simulation.phase import Phase
from whippletree.simulation.transitions import Change, Transitions

Array = np.ndarray[Any, Any]


def through(
    rules: Transitions, before: Phase, after: Phase, t: float, y: Array, change: Change, fired: list[Guard]
) -> Array | None:
    """S (2nv, 2nv) of the event at the state y before it; None where it is grazed, or where several contacts jump at
    once and their order would matter.

    The reset is the impact, if there was one, and then the way to the velocities that the next mode allows.
    """
    scene, n = rules.scene, rules.scene.model.nv
    q, v = scene.motion.split(y)

    def reset(d: Array) -> Array:
        there, rate = scene.moved(q, d[:n]), v + d[n:]
        if change.struck and change.law is not None:
            rate = rules.struck(t, there, rate, change.struck, change.law).v
        return np.concatenate([d[:n], after.velocity_projected(t, there, rate)])

    jumps = [g for g in fired if g.kind in (TOUCHDOWN, STICK)]
    if len(jumps) > 1:
        return None
    D = derivative(reset, 2 * n)
    if not jumps:  # accelerations do not jump: when it happens makes no difference
        return D
    guard = jumps[0]
    watch = Guards(before)
    number = watch.guards.index(guard)

    def value(d: Array) -> Array:
        moved = np.concatenate([scene.moved(q, d[:n]), v + d[n:]])
        return watch.values(np.array([t]), moved[None])[0, number : number + 1]

    gradient = derivative(value, 2 * n)[0]
    start = np.concatenate([v, before.loads(np.array([t]), y[None]).a[0]])
    end = np.concatenate([after.state[-n:], after.loads(np.array([t]), after.state[None]).a[0]])
    rate = float(gradient @ start)
    return saltation_matrix(D, start, end, gradient, rate) if abs(rate) > rules.speed_tolerance else None
