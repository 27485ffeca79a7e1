"""Actuators within a time step: servos are implicit, their force ranges are bounds of the contact problem. Any scalar.

An affine servo pushes with f = g u + b₀ − k_p l − k_v l̇ along its row G: l̇ = G v, tau += Gᵀ f. Evaluated at the end of
the step, where l⁺ = l + h G v⁺,

    f = a − K G v⁺        a = g u + b₀ − k_p l        K = k_v + h k_p

it joins the inertia: M + h Gᵀ K G = M + h Gᵀ k_v G + h² Gᵀ k_p G stands wherever M does, in the free motion and in the
Delassus matrix, so that a servo of any stiffness is stable at any step. Four kinds of actuators:

* *driven joints*: servos of one joint without a range: h K gear² is a rotor inertia of that joint, as of a damper;
* *coupling*: servos of several joints (a tendon, a differential) or of a frame without a range: rows of h Gᵀ K G;
* *bounded*: servos with a force range [c − r, c + r]: a row of the contact problem, without a normal, whose impulse
  p = h (f − c) is bounded by h r, with the velocity G v⁺ + p / (h K) − (a − c) / K: zero within the range, and against
  the force at its ends. It is the dry friction of a joint with a compliance and an offset. Most of the time a servo is
  within its range: one of a single joint may be *released*, which is to be a driven joint in a step that is tried
  first, and becomes a row where its force turns out to be beyond its range;
* *explicit*: motors, whose force does not depend on the state; and whatever is not affine, or shares a joint's
  ``effort_limit`` with others, or has a range with one end: its force is that of the start of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.model import Actuator, Model
from whippletree.tree import actuation, kinematics
from whippletree.tree.mechanism import Mechanism

AT_AN_END = 1e-6
"""Share of its reach by which a servo's impulse may miss the end of its range to be taken for one at that end."""


class Servo(NamedTuple):
    """An affine servo."""

    number: int
    """Among the actuators of the model."""
    actuator: Actuator
    lower: float
    upper: float
    """Ends of its force's range, N or N m."""

    @property
    def middle(self) -> float:
        """c, the middle of its range; 0 without one."""
        return (self.lower + self.upper) / 2 if self.upper < np.inf else 0.0

    @property
    def reach(self) -> float:
        """r, half its range."""
        return (self.upper - self.lower) / 2

    def gain(self, h: Any) -> Any:
        """K = k_v + h k_p of a step."""
        _, position, velocity = self.actuator.bias.tolist()
        return -velocity if self.actuator.frame is not None else -velocity - h * position

    def push(self, length: Any, command: Any) -> Any:
        """a: its force at rest."""
        offset, position, _ = self.actuator.bias.tolist()
        u = actuation.cut(command, self.actuator.drive_range)
        return self.actuator.gain.tolist()[0] * u + offset + position * length


class Servos:
    """The actuators of a model, by what a step does with them."""

    def __init__(self, model: Model, acting: bool = True) -> None:
        """``acting``: whether there are commands; without them no actuator does anything."""
        self.model, self.acting = model, acting and bool(model.actuators)
        self.explicit: list[int] = []
        """Numbers of actuators whose forces are those of the start of a step."""
        self.joints: list[Servo] = []
        self.coupling: list[Servo] = []
        self.bounded: list[Servo] = []
        shared = _sharing(model)
        for number, actuator in enumerate(model.actuators if acting else ()):
            servo = None if actuator.name in shared else _servo(model, number, actuator)
            if servo is None:
                self.explicit.append(number)
            elif servo.upper < np.inf:
                self.bounded.append(servo)
            elif len(actuator.joints) == 1:
                self.joints.append(servo)
            else:
                self.coupling.append(servo)

    def damping(self, h: Any) -> Array:
        """K gear² of driven joints, (nv,): a damper that acts at the end of the step."""
        found = zeros(self.model.nv)
        for servo in self.joints:
            place, gear = self.driven_joint(servo)
            found[place] = found[place] + servo.gain(h) * gear * gear
        return found

    @property
    def releasable(self) -> list[int]:
        """Which of the bounded servos may be released: those of one joint."""
        return [i for i, servo in enumerate(self.bounded) if len(servo.actuator.joints) == 1]

    def released_damping(self, h: Any, released: Array) -> Array:
        """K gear² (nv,) of bounded servos, where they are released, 1 or 0 (bounded,)."""
        found = zeros(self.model.nv)
        for i in self.releasable:
            place, gear = self.driven_joint(self.bounded[i])
            found[place] = found[place] + released[i] * (self.bounded[i].gain(h) * gear * gear)
        return found

    def released_forces(self, q: Array, ctrl: Array, released: Array) -> Array:
        """Gᵀ (a − c) (nv,) of bounded servos, where they are released, 1 or 0 (bounded,)."""
        found = zeros(self.model.nv)
        for i in self.releasable:
            servo = self.bounded[i]
            place, gear = self.driven_joint(servo)
            push = servo.push(self.length(q, servo), ctrl[servo.number]) - servo.middle
            found[place] = found[place] + released[i] * (gear * push)
        return found

    def driven_joint(self, servo: Servo) -> tuple[int, float]:
        """The velocity that a servo of a single joint drives, and its gear."""
        (gear,) = servo.actuator.gear.tolist()
        return self.model.slice(servo.actuator.joints[0]).start, gear

    def row(self, m: Mechanism, q: Array, servo: Servo) -> Array:
        """G (nv,) of a servo."""
        actuator = servo.actuator
        if actuator.frame is not None:
            return np.asarray(actuator.gear @ kinematics.jacobian(m.tree, m.still(q), m.place(actuator.frame)))
        found = zeros(self.model.nv)
        for joint, gear in zip(actuator.joints, actuator.gear.tolist(), strict=True):
            found[self.model.slice(joint).start] = gear
        return found

    def rows(self, m: Mechanism, q: Array, servos: list[Servo]) -> Array:
        """G (servos, nv) of some servos."""
        return np.array([self.row(m, q, servo) for servo in servos], dtype=object).reshape(len(servos), self.model.nv)

    def moved_velocities(self, servo: Servo) -> set[int]:
        """The velocities whose entries of a servo's row may differ from 0."""
        actuator = servo.actuator
        if actuator.frame is None:
            return {self.model.slice(joint).start for joint in actuator.joints}
        m = Mechanism.of(self.model)
        return {i for k in m.tree.path(m.place(actuator.frame).node) for i in _range(m.tree.v_slices[k])}

    def length(self, q: Array, servo: Servo) -> Any:
        """l: Σ gear q of its joints; 0 of a frame."""
        gears = zip(servo.actuator.joints, servo.actuator.gear.tolist(), strict=False)
        found: Any = 0
        for joint, gear in gears:
            found = found + gear * q[self.model.q_slice(joint).start]
        return found

    def forces(
        self, m: Mechanism, q: Array, v: Array, ctrl: Array, known: Collection[int] = (), others: Array | None = None
    ) -> Array:
        """Joint forces (nv,) at the start of a step: all but −K G v⁺ of servos, and the middle of bounded ranges.

        ``others``: the forces (nv,) of the explicit actuators with the numbers ``known``, which are found elsewhere.
        """
        tau = zeros(self.model.nv)
        if self.explicit:
            rest = [number for number in self.explicit if number not in known]
            tau = actuation.actuator_forces(m, q, v, ctrl, rest, others)
        for servo in self.joints:
            place, gear = self.driven_joint(servo)
            tau[place] = tau[place] + gear * servo.push(self.length(q, servo), ctrl[servo.number])
        for servo in self.coupling:
            tau = tau + self.row(m, q, servo) * servo.push(self.length(q, servo), ctrl[servo.number])
        for servo in self.bounded:
            if servo.middle:
                tau = tau + self.row(m, q, servo) * servo.middle
        return tau

    def offsets(self, q: Array, ctrl: Array, h: Any) -> Array:
        """(a − c) / K of bounded servos, (bounded,), rad/s or m/s."""
        wanted = [
            (servo.push(self.length(q, servo), ctrl[servo.number]) - servo.middle) / servo.gain(h)
            for servo in self.bounded
        ]
        return np.array(wanted, dtype=object)

    def compliances(self, h: Any) -> Array:
        """1 / (h K) of bounded servos, (bounded,)."""
        return np.array([1 / (h * servo.gain(h)) for servo in self.bounded], dtype=object)


def _range(part: slice) -> range:
    return range(part.start, part.stop)


def _sharing(model: Model) -> set[str]:
    """Names of actuators that share a joint's ``effort_limit`` with others, or with what else they drive."""
    limited = {joint.name for joint in model.joints if joint.effort_limit < np.inf}
    drivers = Counter(joint for actuator in model.actuators for joint in actuator.joints)
    through_frames = limited if any(a.frame is not None or a.tendon is not None for a in model.actuators) else set()
    return {
        actuator.name
        for actuator in model.actuators
        if (actuator.frame is not None and limited)
        or any(
            joint in limited and (drivers[joint] > 1 or len(actuator.joints) > 1 or joint in through_frames)
            for joint in actuator.joints
        )
    }


def _servo(model: Model, number: int, actuator: Actuator) -> Servo | None:
    """The servo that an actuator is; None where its force does not depend on the state, or not in an affine way."""
    (_, *varying), (_, position, velocity) = actuator.gain.tolist(), actuator.bias.tolist()
    position = 0.0 if actuator.frame is not None else position
    if actuator.tendon is not None or actuator.muscle is not None:
        return None  # a tendon's row turns with its route, a muscle is not affine: they act as at the start of the step
    if any(varying) or position > 0 or velocity > 0 or not (position or velocity):
        return None
    lower, upper = actuator.force_range
    if len(actuator.joints) == 1:
        (gear,) = actuator.gear.tolist()
        most = model.joints[model.joint_index(actuator.joints[0])].effort_limit / abs(gear) if gear else np.inf
        lower, upper = max(lower, -most), min(upper, most)
    if (lower > -np.inf) != (upper < np.inf):
        return None
    return Servo(number, actuator, lower, upper)
