"""The guards of a mode by machine code, inside the kernel that takes its steps.

Of every candidate the gap; and where rows hold, its normal force, what is left of its friction cone, and its speed
along the direction in which it slides. Which of them a phase watches comes with the call, so a model's code is compiled
once, whatever modes its run goes through. Massless feet that trail and slips that may jam are watched in Python.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from whippletree import functions
from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import sqrt
from whippletree.compiler.program import Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.step_watch import WATCHED
from whippletree.simulation.adaptive.collocation import basis_integrals
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.guards import JAM, LIFT_OFF, SLIP, STICK, TOUCHDOWN, Guards
from whippletree.tree.mechanism import Mechanism

MOST_WATCHED = 32
"""Candidates up to which guards are part of the kernel: their code is unrolled."""

NOT_WATCHED = -1e300
"""Less than any guard."""


class CompiledGuards:
    """Guards of a scene's modes: of those in which nothing touches, or of those whose rows hold."""

    def __init__(self, scene: EventEquations, held: bool) -> None:
        self.scene, self.needs_rates = scene, held
        self.kinds = (TOUCHDOWN, LIFT_OFF, SLIP, STICK) if held else (TOUCHDOWN,)
        self.gaps, self.count = scene.count, len(self.kinds) * scene.count

    @staticmethod
    def possible(scene: EventEquations) -> bool:
        """Whether there are any, and few enough."""
        return 0 < scene.count <= MOST_WATCHED

    @property
    def key(self) -> tuple[Any, ...]:
        """Which tells the guards of a scene apart."""
        return ("guards", self.needs_rates, self.scene.count, self.scene.touching)

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """The directions of slips."""
        return {"heading": (self.scene.count, 2)} if self.needs_rates else {}

    @cached_property
    def basis(self) -> Array:
        """Additions of the coefficients of a step's polynomial to its states at the times of the watch."""
        return basis_integrals(WATCHED)

    def watched(self, guards: Guards) -> tuple[Array, ...] | None:
        """Arguments of a call about a phase's guards; None where Python has to look at some of them."""
        phase, k = guards.phase, self.scene.count
        if any(kind == JAM or i in phase.trailing for kind, i in guards.guards):
            return None
        offset, least, grazing = np.zeros(self.count), np.full(self.count, NOT_WATCHED), np.zeros(k)
        for g, (kind, i) in enumerate(guards.guards):
            place = self.kinds.index(kind) * k + i
            zero = bool(guards.zero[g])
            # one that is zero at the start must leave that by more than rounding
            offset[place] = guards.first[g] if zero else 0.0
            least[place] = -guards.noise[g] / 2 if zero else guards.noise[g]
            grazing[i] = 1.0 if kind == TOUCHDOWN and not zero else grazing[i]
        return offset, least, grazing, *((phase.heading,) if self.needs_rates else ())

    def statements(self, space: WorkSpace) -> list[Statement]:
        """From the state X at a point, and the forces there, to the guards."""
        scene, at = self.scene, space.at
        nq = scene.model.nq

        def evaluate(X: Array, *rest: Array) -> list[Any]:
            q, v = X[:nq], X[nq:]
            gaps = self._gaps(q)
            if not rest:
                return [gaps]
            force, heading = rest
            own = force[len(force) - 3 * scene.count :].reshape(-1, 3)
            normal = [f[0] + pressed for f, pressed in zip(own, scene.pressed, strict=True)]
            friction = np.where(np.isfinite(scene.contacts.friction), scene.contacts.friction, 0.0)
            held = [sqrt(f[1] * f[1] + f[2] * f[2]) for f in own]
            left = [mu * n - t for mu, n, t in zip(friction, normal, held, strict=True)]
            u = self._contact_velocity(q, v)
            along = [u[i, 1] * heading[i, 0] + u[i, 2] * heading[i, 1] for i in range(scene.count)]
            return [[*gaps, *normal, *left, *along]]

        reads = [at("X", "point"), *([at("force", "point"), at("heading")] if self.needs_rates else [])]
        return [traced_block(evaluate, reads, [at("guards")])]

    def _gaps(self, q: Array) -> list[Any]:
        scene = self.scene
        own = list(self._call("contact_gaps", q=q)) if scene.touching else []
        return [*own, *scene.stops.gaps(q), *[0] * len(scene.dry_joints.joints)]

    def _contact_velocity(self, q: Array, v: Array) -> Array:
        scene = self.scene
        own = list(self._call("contact_velocity", q=q, v=v)) if scene.touching else []
        rows = scene.joint_rows.astype(object)
        return np.array([*own, *(rows @ v if len(rows) else [])], dtype=object).reshape(-1, 3)

    def _call(self, name: str, **state: Any) -> Any:
        function = functions.find(name, self.scene.model)
        return function.implementation(Mechanism.of(self.scene.model), *[state[word] for word in function.inputs])
