"""What drives a scene in its steps: a controller's forces, and commands of the actuators, which are implicit in a step.

Other methods see the forces of actuators as those of a controller; a time step needs their commands
(:mod:`whippletree.contact.servos`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.controller import NotTraceable, traced_controller, traced_function
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.step_space import Driven
from whippletree.controllers import is_batched
from whippletree.simulation.adaptive.integrator import IntegrationError
from whippletree.simulation.motion import Motion


class Motors:
    """The forces and commands of a motion, asked at the start of each step."""

    def __init__(self, motion: Motion) -> None:
        self.motion, self.model = motion, motion.model
        self.count = len(self.model.actuators)
        self.controller, self.actuated = motion.own_controller, motion.actuated
        asks = self.actuated is not None and callable(self.actuated.ctrl)
        self._commands = self.actuated.commands if asks and self.actuated is not None else None
        self._compiled: dict[str, NamedFunction] = {}

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

    def driven(self) -> Driven:
        """The functions that a step asks, for a kernel."""
        return Driven(self.controller, self._commands)

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
        """The controller's forces (m, nv) at m states."""
        if self.controller is None:
            return np.zeros(v.shape)
        if "tau" in self._compiled:
            return np.asarray(self._compiled["tau"](t, q, v))
        return self.motion.asked_at(self.controller, t, q, v)

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

    def tau_if_told(self, t: Array, q: Array, v: Array) -> Array:
        """The controller's forces (m, nv), NaN where it has no answer, such as a state at which a run has ended."""
        try:
            return self.tau(t, q, v)
        except IntegrationError:
            assert self.controller is not None
            return self.motion.asked_if_told(self.controller, t, q, v)
