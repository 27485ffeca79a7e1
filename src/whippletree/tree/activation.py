"""Activations of actuators: how they follow commands, and what they drive. Any scalar.

The activations of a model do not depend on its motion but through the commands (:class:`~whippletree.model.Activation`
has the equations). So a step has two parts that know nothing of each other: commands and activations give the *drives*,
one number for each actuator, and next activations; drives and the state give the forces
(:mod:`whippletree.tree.actuation`). A drive is the command of an actuator without a memory, and the activation of one
that has it.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import clip, exp, less, select
from whippletree.model import Activation, Actuator, Model
from whippletree.tree.actuation import cut


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
