"""Forces of actuators: from commands to joint forces, on any scalar.

    l = gearᵀ q        l̇ = gearᵀ v        f = (g₀ + g₁ l + g₂ l̇) u + b₀ + b₁ l + b₂ l̇        tau += gear f

u is what drives it, its command or its activation (:mod:`whippletree.tree.activation`), and f the force, each cut to
its range; muscles have their own law (:mod:`whippletree.tree.muscle`). What all actuators together apply to a joint is
cut to the joint's ``effort_limit``. The length of an actuator of a tendon is gear times the tendon's. An actuator of a
frame has l = 0 and l̇ = gearᵀ J v, and applies Jᵀ gear f.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, select
from whippletree.model import Actuator
from whippletree.tree import kinematics
from whippletree.tree.element_forces import Elements
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.muscle import muscle_force


def actuator_forces(m: Mechanism, q: Array, v: Array, drives: Array, numbers: Collection[int] | None = None) -> Array:
    """Joint forces (nv,) of all actuators, or of those with some numbers, under what drives them, (actuators,)."""
    tau = zeros(m.tree.model.nv)
    pulled = [actuator for actuator in m.tree.model.actuators if actuator.tendon is not None]
    elements = Elements(m, q, v) if pulled else None
    for number, (actuator, drive) in enumerate(zip(m.tree.model.actuators, drives, strict=True)):
        if numbers is not None and number not in numbers:
            continue
        if actuator.tendon is not None and elements is not None:
            tendon, gear = m.tree.model.tendon(actuator.tendon), actuator.gear.tolist()[0]
            length, velocity = elements.stretch(tendon)
            elements.pull(tendon, gear * force(actuator, drive, gear * length, gear * velocity))
        elif actuator.frame is None:
            tau = _drive_joints(m, actuator, drive, q, v, tau)
        else:
            J = kinematics.jacobian(m.tree, m.still(q), m.place(actuator.frame))
            row = actuator.gear @ J
            tau = tau + row * force(actuator, drive, 0, row @ v)
    return _within_effort_limits(m, tau if elements is None else tau + elements.forces())


def _drive_joints(m: Mechanism, actuator: Actuator, drive: Any, q: Array, v: Array, tau: Array) -> Array:
    model = m.tree.model
    places = [(model.q_slice(joint).start, model.slice(joint).start) for joint in actuator.joints]
    length: Any = 0
    velocity: Any = 0
    for (at, along), gear in zip(places, actuator.gear.tolist(), strict=True):
        length, velocity = length + gear * q[at], velocity + gear * v[along]
    push = force(actuator, drive, length, velocity)
    tau = tau.copy()
    for (_, along), gear in zip(places, actuator.gear.tolist(), strict=True):
        tau[along] = tau[along] + gear * push
    return tau


def force(actuator: Actuator, drive: Any, length: Any, velocity: Any) -> Any:
    """The scalar force f of an actuator."""
    u = cut(drive, actuator.drive_range)
    if actuator.muscle is not None:
        return cut(muscle_force(actuator.muscle, u, length, velocity), actuator.force_range)
    gain, bias = ((c[0] + c[1] * length + c[2] * velocity) for c in (actuator.gain.tolist(), actuator.bias.tolist()))
    return cut(gain * u + bias, actuator.force_range)


def cut(x: Any, ends: tuple[float, float]) -> Any:
    """x, or the end of the range that it passes; an infinite end costs nothing."""
    low, high = ends
    x = select(less(x, low), low, x) if low > -np.inf else x
    return select(less(high, x), high, x) if high < np.inf else x


def _within_effort_limits(m: Mechanism, tau: Array) -> Array:
    found = tau.copy()
    for joint, part in zip(m.tree.model.joints, m.tree.model.v_slices, strict=True):
        for k in range(part.start, part.stop):
            found[k] = cut(tau[k], (-joint.effort_limit, joint.effort_limit))
    return found
