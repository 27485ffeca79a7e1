"""Forces of actuators: from commands to joint forces, on any scalar.

    l = gearᵀ q        l̇ = gearᵀ v        f = (g₀ + g₁ l + g₂ l̇) u + b₀ + b₁ l + b₂ l̇        tau += gear f

u is what drives it, its command or its activation, and f the force, each cut to its range; muscles have their own law
(:class:`~whippletree.model.Muscle`). What all actuators together apply to a joint is cut to the joint's
``effort_limit``. The length of an actuator of a tendon is gear times the tendon's. An actuator of a frame has l = 0 and
l̇ = gearᵀ J v, and applies Jᵀ gear f.

The activations of a model do not depend on its motion but through the commands (:class:`~whippletree.model.Activation`
has the equations). So a step has two parts that know nothing of each other: commands and activations give the *drives*,
one number for each actuator, and next activations; drives and the state give the forces above. A drive is the command
of an actuator without a memory, and the activation of one that has it.

Under constant commands integrators and filters have closed forms, on any scalar; muscles are integrated once, by a
Runge–Kutta method of eighth order to ``MUSCLE_TOLERANCE``. All are monotone while commands do not change: the end of a
range is passed once and for good, so that cutting the free solution is exact.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import clip, exp, less, select
from whippletree.errors import ScalarError
from whippletree.model import Activation, Actuator, Model, Muscle
from whippletree.tree import kinematics
from whippletree.tree.element_forces import Elements, ElementsOnBodies
from whippletree.tree.mechanism import Mechanism


def actuator_forces(
    m: Mechanism,
    q: Array,
    v: Array,
    drives: Array,
    numbers: Collection[int] | None = None,
    others: Array | None = None,
) -> Array:
    """Joint forces (nv,) of all actuators, or of those with some numbers, under what drives them, (actuators,).

    ``others``: forces (nv,) of further actuators, which share the joints' effort limits.
    """
    tau = zeros(m.tree.model.nv) if others is None else others
    chosen = range(len(drives)) if numbers is None else numbers
    pulled = any(m.tree.model.actuators[number].tendon is not None for number in chosen)
    elements = Elements(m, q, v) if pulled else None
    for number, (actuator, drive) in enumerate(zip(m.tree.model.actuators, drives, strict=True)):
        if number not in chosen:
            continue
        if actuator.tendon is not None and elements is not None:
            _pull_tendon(elements, actuator.tendon, actuator, drive)
        elif actuator.frame is None:
            tau = _drive_joints(m, actuator, drive, q, v, tau)
        else:
            J = kinematics.jacobian(m.tree, m.still(q), m.place(actuator.frame))
            row = actuator.gear @ J
            tau = tau + row * force(actuator, drive, 0, row @ v)
    return _within_effort_limits(m, tau if elements is None else tau + elements.forces())


def actuator_wrenches(m: Mechanism, q: Array, v: Array, drives: Array) -> Array:
    """Wrenches (bodies, 6) of the actuators of tendons and frames, in the axes and about the origin of each body.

    Those of joints act between the two bodies of their joint, as its force.
    """
    elements = ElementsOnBodies(m, q, v)
    for actuator, drive in zip(m.tree.model.actuators, drives, strict=True):
        if actuator.tendon is not None:
            _pull_tendon(elements, actuator.tendon, actuator, drive)
        elif actuator.frame is not None:
            rate = actuator.gear @ kinematics.twist(m.tree, elements.links, m.place(actuator.frame))
            elements.push(actuator.frame, actuator.gear * force(actuator, drive, 0, rate))
    return elements.wrenches()


def _pull_tendon(elements: Elements, name: str, actuator: Actuator, drive: Any) -> None:
    tendon, gear = elements.m.tree.model.tendon(name), actuator.gear.tolist()[0]
    length, velocity = elements.stretch(tendon)
    elements.pull(tendon, gear * force(actuator, drive, gear * length, gear * velocity))


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


# --- activations: how they follow commands, and what they drive -------------------------------------------------------


def activation_rates(model: Model, ctrl: Array, act: Array) -> Array:
    """ẇ (activations,) of all activations under the commands (actuators,), 1/s times their units."""
    return vector(*[rate(model.actuators[k], ctrl[k], w) for k, w in zip(model.activations, act, strict=True)])


def next_activations(model: Model, ctrl: Array, act: Array, h: Any) -> Array:
    """Activations (activations,) after a time step h under commands (actuators,) that do not change."""
    return vector(*[_after(model.actuators[k], ctrl[k], w, h) for k, w in zip(model.activations, act, strict=True)])


def drives(model: Model, ctrl: Array, act: Array, h: Any = None) -> Array:
    """Drive of each actuator, (actuators,): its command, or its activation; ``h``: over a time step, at whose end
    ``early`` activations act."""
    found = list(ctrl)
    for k, w in zip(model.activations, act, strict=True):
        early = h is not None and _dynamics(model.actuators[k]).early
        found[k] = _after(model.actuators[k], ctrl[k], w, h) if early else w
    return vector(*found)


def rate(actuator: Actuator, u: Any, w: Any) -> Any:
    """ẇ of an actuator's activation w under a command u."""
    activation, u = _dynamics(actuator), cut(u, actuator.command_range)
    if activation.kind == "integrator":
        return u
    if activation.kind == "muscle":
        return _muscle_rate(activation, u, w)
    return (u - w) / activation.times[0]


def _after(actuator: Actuator, u: Any, w: Any, h: Any) -> Any:
    """The activation after a time step h: an Euler step, or the solution for a command that does not change."""
    activation = _dynamics(actuator)
    if activation.kind == "filterexact":
        (T,) = activation.times
        u = cut(u, actuator.command_range)
        return cut(w + (u - w) * (1 - exp(-h / T)), activation.range)
    return cut(w + h * rate(actuator, u, w), activation.range)


def _dynamics(actuator: Actuator) -> Activation:
    assert actuator.activation is not None
    return actuator.activation


def _muscle_rate(activation: Activation, u: Any, w: Any) -> Any:
    rising, falling, width = activation.times
    missing = clip(u, 0, 1) - w
    pace = clip(w, 0, 1) * 3 / 2 + 0.5
    up, down = rising * pace, falling / pace
    if width:
        x = clip(missing / width + 0.5, 0, 1)
        share = x * x * x * (x * (6 * x - 15) + 10)
        return missing / (down + (up - down) * share)
    return missing / select(less(0, missing), up, down)


# --- the force of a muscle by its length, its speed and its activation ------------------------------------------------


def muscle_force(muscle: Muscle, w: Any, length: Any, velocity: Any) -> Any:
    """The force of a muscle with an activation w: negative, for it pulls."""
    (l_0, l_1), (r_0, r_1) = muscle.length_range, muscle.operating_range
    optimal = (l_1 - l_0) / (r_1 - r_0)
    L, V = r_0 + (length - l_0) / optimal, velocity / (optimal * muscle.fastest)
    active = active_by_length(muscle, L) * active_by_velocity(muscle, V)
    return -muscle.peak * (active * w + passive_by_length(muscle, L))


def active_by_length(muscle: Muscle, L: Any) -> Any:
    """F_L: 1 at the optimal length, 0 beyond shortest and longest; four parabolas."""
    below, above = (1 - muscle.shortest) / 2, (muscle.longest - 1) / 2
    # how far from the optimal length, in halves of the way to the end: 2 is the end
    x = select(less(L, 1), (1 - L) / below, (L - 1) / above)
    outer = select(less(x, 2), (2 - x) * (2 - x) / 2, 0)
    return select(less(1, x), outer, 1 - x * x / 2)


def active_by_velocity(muscle: Muscle, V: Any) -> Any:
    """F_V: 0 where the muscle shortens at its fastest, 1 at rest, ``lengthening`` where it is drawn out fast."""
    most = muscle.lengthening
    gained = most - 1
    shortening = select(less(V, -1), 0, (V + 1) * (V + 1))
    if not gained:
        return select(less(0, V), most, shortening)
    drawn = select(less(gained, V), most, most - (gained - V) * (gained - V) / gained)
    return select(less(0, V), drawn, shortening)


def passive_by_length(muscle: Muscle, L: Any) -> Any:
    """F_P: 0 up to the optimal length, then a parabola, and a straight line from halfway to ``longest``."""
    x = (L - 1) * 2 / (muscle.longest - 1)
    drawn = muscle.passive * select(less(1, x), x - 0.5, x * x / 2)
    return select(less(0, x), drawn, 0)


# --- activations as functions of time, under commands that do not depend on the state ---------------------------------


MUSCLE_TOLERANCE = 1e-12
"""Relative and absolute error of the activations of muscles, in each step of their integration."""


class KnownActivations:
    """``known(t)``: activations (activations,) at a time t, s."""

    def __init__(self, model: Model, ctrl: Array, duration: float | None, act: Array) -> None:
        """``ctrl``: rows (n, actuators), each of which holds for an equal part of the duration; ``act``: at t = 0."""
        self.model, self.ctrl, self.act = model, ctrl, act
        self.share = np.inf if len(ctrl) == 1 or duration is None else duration / len(ctrl)
        self.duration = 1.0 if duration is None else duration
        self._muscles = [
            i for i, k in enumerate(model.activations) if (a := model.actuators[k].activation) and a.kind == "muscle"
        ]

    def __call__(self, t: Any) -> Array:
        if self.share == np.inf:
            return self._within(0, t)
        row = min(max(int(t / self.share), 0), len(self.ctrl) - 1)  # a traced time has no row: such runs go by Python
        return self._within(row, t - row * self.share)

    @cached_property
    def _starts(self) -> list[Array]:
        """Activations at the beginning of each row."""
        found = [self.act]
        for row in range(len(self.ctrl) - 1):
            self._solutions.append(self._muscle_solution(row, found[-1]))
            found.append(self._follow(row, found[-1], self.share))
        self._solutions.append(self._muscle_solution(len(self.ctrl) - 1, found[-1]))
        return found

    @cached_property
    def _solutions(self) -> list[Any]:
        """Solutions of the muscles within each row."""
        return []

    def _within(self, row: int, t: Any) -> Array:
        return self._follow(row, self._starts[row], t)

    def _follow(self, row: int, start: Array, t: Any) -> Array:
        """Activations at a time t after the start of a row."""
        pulled = dict(zip(self._muscles, self._pulls(row, t), strict=True)) if self._muscles else {}
        found = []
        for i, k in enumerate(self.model.activations):
            actuator, w = self.model.actuators[k], start.tolist()[i]
            activation, u = actuator.activation, cut(self.ctrl[row].tolist()[k], actuator.command_range)
            assert activation is not None
            if activation.kind == "integrator":
                value = w + u * t
            elif activation.kind == "muscle":
                value = pulled[i]
            else:
                value = u + (w - u) * exp(-t / activation.times[0])
            found.append(cut(value, activation.range))
        values = vector(*found)
        return values if any(_is_symbolic(x) for x in found) else values.astype(float)

    def _pulls(self, row: int, t: Any) -> Array:
        """Activations of the muscles at a time t after the start of a row."""
        try:
            return np.asarray(self._solutions[row](float(t)))
        except ScalarError:
            raise ScalarError("activations of muscles are looked up by the time, in numbers found before") from None

    def _muscle_solution(self, row: int, start: Array) -> Any:
        """A function of the time since the start of a row; the last one goes on for as long again."""
        from scipy.integrate import solve_ivp

        if not self._muscles:
            return None
        every, ctrl = np.array(start, dtype=float), self.ctrl[row].astype(float)

        def rates(_: float, w: Array) -> Array:
            every[self._muscles] = w
            return activation_rates(self.model, ctrl, every)[self._muscles].astype(float)

        end = 2 * self.duration if row == len(self.ctrl) - 1 else self.share
        begin = np.array(start, dtype=float)[self._muscles]
        found = solve_ivp(
            rates, (0.0, end), begin, "DOP853", dense_output=True, rtol=MUSCLE_TOLERANCE, atol=MUSCLE_TOLERANCE
        )
        return found.sol


def _is_symbolic(x: Any) -> bool:
    return not isinstance(x, (int, float, np.floating, np.integer))
