"""The tree in a compiled step: its poses, its free motion, and the factor of M, M⁻¹ = Fᵀ F.

What the contact problem asks of a tree is the same whatever its size (:class:`TreeInStep`):

    poses      poses of all nodes, and the screws of all velocities
    dynamics   the factor of M at the start of the step, and the velocity without impulses
    twists     of all nodes, at some velocity
    backward   F Jᵀ of some rows J
    forward    Fᵀ y

Short trees are written out (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_written_tree`), long ones
are loops over their nodes (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_looped_tree`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from whippletree.compiler.program import Statement
from whippletree.compiler.rollout.contact_lists.contact_list_looped_tree import LoopedTree
from whippletree.compiler.rollout.contact_lists.contact_list_written_tree import WrittenTree
from whippletree.compiler.rollout.step_space import RowPlace, StepSpace
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.servos import Servos
from whippletree.model import Model
from whippletree.tree.skeleton import LONG_CHAIN, longest_chain, skeleton

MOST_WRITTEN_VELOCITIES = 40
"""Velocities of a tree up to which its dynamics are written out; beyond, they are loops over nodes. So are those of
long chains with fewer: of belts of 25 and 38 links that land, written out, 10 and 13 of 134 contact problems are left
to Python, and the others take 5 times as many Newton steps."""

MOST_WRITTEN_WITHOUT_LOOPS = 130
"""Velocities up to which dynamics are written out that loops over nodes cannot have: code of dm_control's rodent, 67
velocities and a servo that couples joints, takes seconds to compile, and its steps in Python take a thousand times as
long as compiled ones."""


class TreeInStep(Protocol):
    """Statements about the tree of a model, between buffers of the step: now q, now v, pose, screw, twist, free."""

    def poses(self) -> list[Statement]:
        """``pose`` and ``screw`` of the present coordinates."""

    def dynamics(self) -> list[Statement]:
        """The factor of M, ``free``, and the numbers of motors and servos; ``twist`` is at the present velocity."""

    def twists(self, velocity: str) -> list[Statement]:
        """``twist`` at a velocity (nv,)."""

    def backward(self, rows: RowPlace, into: RowPlace, of_block: bool = False) -> list[Statement]:
        """F Jᵀ of rows J; ``of_block``: those of the block in hand."""

    def tell_limbs(self, supports: Sequence[Sequence[int]]) -> None:
        """For every block, the velocities at which its rows F Jᵀ may differ from zero."""

    def reached(self, velocities: Sequence[int]) -> list[int]:
        """Velocities at which F Jᵀ may differ from zero, for rows J that do so at these."""

    def forward(self, y: str, into: str, plus: str | None = None) -> list[Statement]:
        """Fᵀ y (nv,), and what is added to it."""

    def energy(self, placed: bool = False) -> list[Statement]:
        """``energy``: the potential energy at the present coordinates; ``placed``: whether their poses are known."""


def tree_in_step(space: StepSpace) -> TreeInStep:
    """The form that suits a model's tree."""
    return WrittenTree(space) if is_written(space.model, space.actuators) else LoopedTree(space)


def is_written(model: Model, actuators: Servos) -> bool:
    """Whether the dynamics of a tree are written out: those of short ones, and of longer ones that cannot be loops."""
    long = model.nv > MOST_WRITTEN_VELOCITIES or longest_chain(skeleton(model).parents) > LONG_CHAIN
    if not long:
        return True
    return model.nv <= MOST_WRITTEN_WITHOUT_LOOPS and reason_against_loops(model, actuators) is not None


def reason_against_loops(model: Model, actuators: Servos) -> str | None:
    """Why a tree cannot be stepped in loops over its nodes; None if it can."""
    if actuators.coupling:
        return f"its tree is long, and servo {actuators.coupling[0].actuator.name!r} couples joints"
    if model.is_flexible:
        return "its tree is long, and has flexible bodies"
    if model.constraints and constraint_set(model).timed:
        return "its tree is long, and a constraint depends on time"
    return None
