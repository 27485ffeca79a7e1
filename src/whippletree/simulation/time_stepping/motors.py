"""Drives of a scene in its steps: a controller's forces, and commands of the actuators, which are implicit in a step.

Other methods see the forces of actuators as those of a controller; a time step needs their commands
(:mod:`whippletree.contact.servos`).

A controller with constant gains about the motion of a joint itself, as a regulator has, is a spring and a damper of it.
Where steps do not resolve these, they act at the end of a step, as the joint's own would
(:mod:`whippletree.contact.implicit_springs`):

    τ(q, v) + d v − (d + h k) v⁺        instead of        τ(q, v) = … − k q − d v

Steps do not resolve a damper with 4 h d > J, nor a spring with 4 h² k > J + h d, J the inertia of the joint's own body
along it. Gains that change with the state, such as those of a controller that saturates, and gains between joints act
as at the start of a step, like all forces that a controller gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.controller import (
    FunctionOfState,
    NotTraceable,
    own_gains,
    traced_controller,
    traced_function,
)
from whippletree.compiler.rollout.step_space import Driven
from whippletree.contact.implicit_springs import own_inertias
from whippletree.controllers import is_batched
from whippletree.errors import IntegrationError
from whippletree.simulation.motion import Motion


class Motors:
    """The forces and commands of a motion, asked at the start of each step."""

    def __init__(self, motion: Motion) -> None:
        self.motion, self.model = motion, motion.model
        self.count = len(self.model.actuators)
        self.controller, self.actuated = motion.own_controller, motion.actuated
        asks = self.actuated is not None and callable(self.actuated.ctrl)
        self._commands = self.actuated.commands if asks and self.actuated is not None else None
        self._compiled: dict[str, FunctionOfState] = {}
        self._stiffness, self.damping = np.zeros(self.model.nv), np.zeros(self.model.nv)
        """k and d (nv,) of the controller where steps do not resolve them; 0 elsewhere."""

    def hold(self, h: float) -> None:
        """Let the gains of the controller that steps of length h do not resolve act at the end of a step."""
        gains = None if self.controller is None else own_gains(self.model, self.controller)
        if gains is None:
            return
        for name, J in own_inertias(self.model).items():
            own = self.model.slice(name)
            k, d = gains.stiffness[own], gains.damping[own]
            self.damping[own] = np.where(4 * h * d > J, d, 0.0)
            self._stiffness[own] = np.where(4 * h * h * k > J + h * d, k, 0.0)

    @property
    def holds(self) -> bool:
        """Whether some gains of the controller act at the end of a step."""
        return bool(self.damping.any() or self._stiffness.any())

    def held_dampers(self, h: float) -> Array:
        """d + h k (nv,): the dampers that act at the end of a step."""
        return np.asarray(self.damping + h * self._stiffness)

    @property
    def steady(self) -> bool:
        """Whether forces and commands are known before a step is taken."""
        return self.controller is None and self._commands is None

    @property
    def asks_commands(self) -> bool:
        """Whether commands depend on the state."""
        return self._commands is not None

    def ctrl_over(self, t: Array) -> Array:
        """Commands (m, actuators) at m times, where they do not depend on the state."""
        if self.actuated is None:
            return np.zeros((len(t), self.count))
        return np.asarray(self.actuated.commands_over(t), dtype=float)

    def driving_functions(self) -> Driven:
        """The functions that a step asks, for a kernel, and whether it takes dampers."""
        controller, damping = self.controller, self.damping
        if controller is None or not self.holds:
            return Driven(controller, self._commands)

        def release(t: Any, q: Any, v: Any) -> Any:
            return np.asarray(controller(t, q, v)) + damping * v

        return Driven(release, self._commands, held=True)

    def compile(self, samples: Sequence[tuple[float, Array, Array]]) -> bool:
        """Ask compiled functions from now on, where that is possible; whether it is, for all that is asked."""
        with suppress(NotTraceable):
            if self.controller is not None:
                self._compiled["tau"] = traced_controller(self.model, self.controller, samples)
            if self._commands is not None:
                self._compiled["ctrl"] = traced_function(self.model, self._commands, self.count, samples)
            return True
        return False

    @property
    def answers_for_all(self) -> bool:
        """Whether one call of what is asked serves many states."""
        return is_batched(self.controller) or is_batched(self.actuated)

    def tau(self, t: Array, q: Array, v: Array) -> Array:
        """The controller's forces (m, nv) at m states, but for dampers that act at the end of a step."""
        if self.controller is None:
            return np.zeros(v.shape)
        if "tau" in self._compiled:
            return np.asarray(self._compiled["tau"](t, q, v) + self.damping * v)
        return np.asarray(self.motion.asked_at(self.controller, t, q, v) + self.damping * v)

    def ctrl(self, t: Array, q: Array, v: Array) -> Array:
        """Commands (m, actuators) at m states."""
        if self.actuated is None:
            return np.zeros((len(t), self.count))
        if "ctrl" in self._compiled:
            return np.asarray(self._compiled["ctrl"](t, q, v))
        return self.motion.commands(t, q, v)

    def at(self, t: float, q: Array, v: Array) -> tuple[Array, Array]:
        """Forces (nv,) and commands (actuators,) at one state."""
        state = np.array([t]), q[None], v[None]
        return self.tau(*state)[0], self.ctrl(*state)[0]

    def asked_one_by_one(self) -> Callable[[float, Array, Array], tuple[Array | float, Array | float]]:
        """A function that is as :meth:`at`, and quicker for functions that answer for one state; 0 stands for zeros."""
        controller, motion, damping = self.controller, self.motion, self.damping
        if self._compiled or self.answers_for_all or self.asks_commands:
            return self.at
        held = self.holds

        def ask(t: float, q: Array, v: Array) -> tuple[Array | float, Array | float]:
            tau = 0.0 if controller is None else motion.ask(controller, t, q, v)
            return tau + damping * v if held else tau, commands(t)

        def commands(t: float) -> Array | float:
            return 0.0 if self.actuated is None else self.ctrl_over(np.array([t]))[0]

        return ask

    def tau_if_told(self, t: Array, q: Array, v: Array) -> Array:
        """The controller's forces (m, nv), NaN where it has no answer, such as a state at which a run has ended."""
        try:
            return self.tau(t, q, v)
        except IntegrationError:
            assert self.controller is not None
            return np.asarray(self.motion.asked_if_told(self.controller, t, q, v) + self.damping * v)
