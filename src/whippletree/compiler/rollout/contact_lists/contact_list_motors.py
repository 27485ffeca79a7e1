"""Motors and servos in a compiled step: the forces that they give, and the numbers that the contact problem keeps.

A motor's force is given, by its command or by a controller's function. A servo acts at the velocity of the step's end:
where it drives one joint it adds damping there; where it couples several, or has a force range, it has rows
(:mod:`whippletree.contact.servos`). Both forms of the tree take these numbers in the block that finds their dynamics
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_trees`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.frontend.tendon_loops import TendonLoops, looped_actuators
from whippletree.compiler.program import Address, Block, Index, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.step_space import STEP, StepSpace
from whippletree.tree.mechanism import Mechanism


class MotorNumbers:
    """Motors and servos in a step: forces that are given, rows of servos, their compliances and offsets."""

    def __init__(self, space: StepSpace) -> None:
        self.space, self.actuators, self.servos = space, space.actuators, space.blocks.servos
        # functions find commands within the block of the dynamics, too late for loops before it
        given = self.actuators.acting and space.driven.commands is None and "ctrl" in space.buffers
        self.looped = looped_actuators(space.model) if given else []
        """Numbers of the actuators whose forces are found before the dynamics."""
        if self.looped:
            space.work(pulled=(space.model.nv,))
            self.tendons = TendonLoops(space, space.tree, self.looped)

    def pull_tendons(self) -> list[Statement]:
        """``pulled``: joint forces of the actuators of many tendons, at the present poses and twists."""
        if not self.looped:
            return []
        return self.tendons.statements(lambda number: self.space.at("ctrl", STEP, number), "pulled")

    def reads(self) -> list[Piece]:
        """Commands, time and dampers, where there are any: what ``given`` of the other methods is made of."""
        return [self.space.at(name, *([STEP] if name in ("ctrl", "clock") else [])) for name in self._names]

    @property
    def _names(self) -> list[str]:
        return [name for name in ("ctrl", "clock", "held", "saturated", "pulled") if name in self.space.buffers]

    def _release_flags(self, given: dict[str, Any]) -> Array | None:
        """Which bounded servos are released, 1 or 0; None where none may be."""
        if "saturated" not in given:
            return None
        return np.array([select(less(flag, 0), 1, 0) for flag in given["saturated"]], dtype=object)

    def forces(self, m: Mechanism, q: Array, v: Array, tau: Array, h: Any, given: Sequence[Any]) -> tuple[Array, Any]:
        """Joint forces (nv,) that do not depend on the velocity at the end of the step, and the commands."""
        found = dict(zip(self._names, given, strict=True))
        ctrl: Any = found.get("ctrl")
        if self.space.driven.traced:
            tau, ctrl = self.space.driven.at(found["clock"], q, v, tau, ctrl)
        if not self.actuators.acting:
            return tau, ctrl
        return tau + self.actuators.forces(m, q, v, ctrl, self.looped, found.get("pulled")), ctrl

    def time(self, given: Sequence[Any]) -> Any:
        """When the step begins, s; 0 where nothing depends on it."""
        return dict(zip(self._names, given, strict=True)).get("clock", 0)

    def damping(self, h: Any, given: Sequence[Any]) -> Any:
        """Damping that servos and controllers add to that of their joints (nv,); None without either."""
        found = dict(zip(self._names, given, strict=True))
        parts = [self.actuators.damping(h)] if self.actuators.acting else []
        parts += [self.space.held_dampers(found["held"])] if "held" in found else []
        released = self._release_flags(found)
        parts += [] if released is None else [self.actuators.released_damping(h, released)]
        return sum(parts[1:], start=parts[0]) if parts else None

    def released_forces(self, q: Array, ctrl: Any, given: Sequence[Any]) -> Any:
        """Joint forces (nv,) of servos with a range that are tried without it, beside the middle of that range."""
        released = self._release_flags(dict(zip(self._names, given, strict=True)))
        return 0 if released is None else self.actuators.released_forces(q, ctrl, released)

    def numbers(self, m: Mechanism, q: Array, tau: Array, ctrl: Any, h: Any) -> list[Any]:
        """The forces themselves, rows of servos that couple joints, and rows, compliances, offsets of bounded ones."""
        found: list[Any] = [tau] if self.space.tells_forces else []
        if self.actuators.coupling:
            found.append(self.actuators.rows(m, q, self.actuators.coupling))
        if self.servos:
            found += [self.actuators.rows(m, q, self.servos), self.actuators.compliances(h)]
            found.append(self.actuators.offsets(q, ctrl, h))
        return found

    def writes(self) -> list[Piece]:
        """Where :meth:`numbers` go."""
        at = self.space.at
        found = [at("drive")] if self.space.tells_forces else []
        found += [at("coupling")] if self.actuators.coupling else []
        if self.servos:
            numbers = range(self.space.blocks.passive, self.space.blocks.count)
            found.append(at("servo row"))
            for name in ("soft", "offset"):
                found.append(Piece((len(numbers),), tuple(Address(name, (Index(None, i),)) for i in numbers)))
        return found


def forces_of_motors(space: StepSpace) -> Block:
    """Joint forces of motors over the step: servos at the velocity of its end, within their ranges."""
    servos = range(space.blocks.passive, space.blocks.count)
    coupling = space.actuators.coupling

    def add(drive: Array, v: Array, *rest: Any) -> list[Any]:
        held, rest = (rest[0], rest[1:]) if space.driven.held else (None, rest)
        rows, (h, *bounded) = (rest[0], rest[1:]) if coupling else ((), rest)
        tau = drive - space.actuators.damping(h) * v if space.actuators.acting else drive
        tau = tau if held is None else tau - space.held_dampers(held) * v
        for row, servo in zip(rows, coupling, strict=True):
            tau = tau - row * (servo.gain(h) * (row @ v))
        for row, p in zip(*bounded, strict=True) if servos else ():
            tau = tau + row * (p / h)
        return [tau]

    more = [*(["held"] if space.driven.held else []), *(["coupling"] if coupling else [])]
    reads = [*space.each(("drive", "end v", *more)), space.at("dt", STEP)]
    if servos:
        places = [Address("impulse", (Index(None, i), Index(None, 1))) for i in servos]
        reads += [space.at("servo row"), Piece((len(places),), tuple(places))]
    return traced_block(add, reads, [space.at("force", STEP)])
