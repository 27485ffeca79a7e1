"""Actuators with a memory: activations, which follow commands with a delay, and muscles, which they drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whippletree.errors import did_you_mean
from whippletree.model.frozen import Part, count_in_words

if TYPE_CHECKING:
    from whippletree.model.model import Actuator

ACTIVATIONS = {"integrator": 0, "filter": 1, "filterexact": 1, "muscle": 3}
"""Kinds of activation dynamics, and how many time constants each has."""


@dataclass(frozen=True, eq=False, repr=False)
class Activation(Part):
    """The memory of an actuator: an activation w, which follows the command u and takes its place in the force.

        integrator     ẇ = u
        filter         ẇ = (u − w) / T
        filterexact    ẇ = (u − w) / T, and time steps solve it exactly while u does not change
        muscle         ẇ = (u − w) / T(u, w), with u and w between 0 and 1

    T of a muscle is T₁ (½ + 3w/2) while u − w > 0 and T₂ / (½ + 3w/2) while u − w < 0; between −width/2 and width/2 a
    polynomial of fifth degree leads from one to the other. Methods with time steps take one Euler step of this in
    each, as MuJoCo does, but for ``filterexact``; other methods integrate it as they do the motion.
    """

    kind: str
    """A name of :data:`ACTIVATIONS`."""
    times: tuple[float, ...] = ()
    """T of a filter, s; T₁ of activation, T₂ of deactivation, s, and the width (a number) of a muscle."""
    range: tuple[float, float] = (-np.inf, np.inf)
    """Ends between which the activation stays."""
    early: bool = False
    """Whether the force of a time step is that of the activation at its end."""


@dataclass(frozen=True, eq=False, repr=False)
class Muscle(Part):
    """How hard a muscle pulls: by its length, its speed and its activation w.

        force = −peak (F_L(L) F_V(V) w + F_P(L))
        L = r₀ + (length − l₀) / ℓ        V = velocity / (ℓ fastest)        ℓ = (l₁ − l₀) / (r₁ − r₀)

    with [l₀, l₁] the range of its length and [r₀, r₁] the same in units of its optimal length ℓ. F_L is 1 at the
    optimal length and falls to 0 at ``shortest`` and ``longest``; F_V is 0 where it shortens at V = −1, 1 at rest, and
    ``lengthening`` where it is drawn out fast; F_P is the passive force, ``passive`` / 2 halfway to ``longest``. These
    are the curves that MuJoCo documents.
    """

    length_range: tuple[float, float]
    """m, or rad for a joint: the least and the greatest length of the actuator."""
    peak: float
    """N: its active force at rest, at the optimal length."""
    operating_range: tuple[float, float] = (0.75, 1.05)
    """This range in optimal lengths."""
    shortest: float = 0.5
    longest: float = 1.6
    """Optimal lengths at which it no longer pulls actively."""
    fastest: float = 1.5
    """Optimal lengths per second: how fast it shortens without any force."""
    passive: float = 1.3
    """Passive force at ``longest``, in peak forces."""
    lengthening: float = 1.2
    """Active force while it is drawn out fast, in peak forces."""


def activation_faults(actuators: Sequence[Actuator]) -> list[str]:
    """Faults in activations and muscles of actuators."""
    faults: list[str] = []
    for actuator in actuators:
        where = f"actuator {actuator.name!r}"
        if actuator.activation is not None:
            faults += [f"{where}: activation {fault}" for fault in _faults_of_activation(actuator.activation)]
        if actuator.muscle is not None:
            faults += [f"{where}: muscle {fault}" for fault in _faults_of_muscle(actuator.muscle)]
            if actuator.frame is not None:
                faults.append(f"{where}: a frame has no length that a muscle could have: give joints or a tendon")
    return faults


def _faults_of_activation(activation: Activation) -> list[str]:
    if activation.kind not in ACTIVATIONS:
        return [f"kind {activation.kind!r} is not known{did_you_mean(str(activation.kind), ACTIVATIONS)}"]
    count, faults = ACTIVATIONS[activation.kind], []
    if len(activation.times) != count:
        return [f"times has {count_in_words(len(activation.times))}, expected {count} for {activation.kind!r}"]
    if not all(np.isfinite(time) and time > 0 for time in activation.times[:2]):
        faults.append(f"times {activation.times} holds a time constant that is not positive and finite")
    if count == 3 and not 0 <= activation.times[2] < np.inf:
        faults.append(f"times: the width {activation.times[2]} is not a finite number of at least 0")
    low, high = activation.range
    if not low <= high:
        faults.append(f"range [{low}, {high}] is empty")
    return faults


def _faults_of_muscle(muscle: Muscle) -> list[str]:
    faults = []
    for word in ("length_range", "operating_range"):
        low, high = getattr(muscle, word)
        if not (np.isfinite([low, high]).all() and low < high):
            faults.append(f"{word} [{low}, {high}] is empty or not finite")
    if not muscle.shortest < 1 < muscle.longest < np.inf:
        faults.append(
            f"shortest = {muscle.shortest} and longest = {muscle.longest} do not lie on both sides of 1, the optimal "
            f"length"
        )
    for word, least in (("peak", 0.0), ("fastest", 0.0), ("passive", 0.0), ("lengthening", 1.0)):
        value = getattr(muscle, word)
        if not (np.isfinite(value) and (value > least or (value == least and word in ("passive", "lengthening")))):
            faults.append(f"{word} = {value} is too small or not finite")
    return faults
