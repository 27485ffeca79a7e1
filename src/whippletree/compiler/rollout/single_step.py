"""One step of one or many states under commands: what a learning loop or a controller calls.

Three programs serve, each for what it suits: the kernel over lists of what touches
(:mod:`~whippletree.compiler.rollout.contact_lists`), which solves the contact problem to a tolerance; for trees that
nothing touches a step without one; and for models with constraints or open parameters a single step of
``contact_rollout`` or ``rollout``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Buffer, Program
from whippletree.compiler.program.traced_blocks import piece, traced_block
from whippletree.compiler.rollout.contact_lists import suits_lists
from whippletree.contact.implicit_springs import forces_of_joints, implicit_links
from whippletree.contact.servos import Servos
from whippletree.contact.time_step import Blocks, bias_in_space, implicit_factor
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

if TYPE_CHECKING:
    from whippletree.compiler.compiled import Compiled

SWEEPS = 20
"""Sweeps over the contacts where their number is fixed."""


class StepResult(NamedTuple):
    """Where a step leads."""

    q: Any
    """(..., nq)"""
    v: Any
    """(..., nv)"""
    tau: Any
    """Forces of actuators, and those that were given, over the step, N m or N, (..., nv)."""
    impulses: Any
    """Of contacts, joint limits, joint friction and servos with a force range, N s, (..., blocks, 3); the next step may
    begin with them."""
    measure: Any
    """Residual of the contact problem as impulse (N s), as velocity (m/s), and violation of a cone (N s), (..., 3)."""


class SingleStep:
    """``dyn.step`` of a model: which program takes its steps is decided once."""

    def __init__(self, dyn: Compiled, tolerance: float) -> None:
        self.dyn, self.model, self.tolerance = dyn, dyn.model, tolerance
        self.actuators = len(self.model.actuators)
        self.blocks = Blocks(self.model, servos=True)
        self._nothing = np.zeros(self.model.nv)
        self._idle = np.zeros(self.actuators)
        self._still = np.zeros((self.blocks.count, 3))
        plain = not dyn.parameters
        self._by_lists = plain and suits_lists(self.model)
        self._freely = plain and not self.blocks.count and not self.model.constraints

    def __call__(
        self, q: Any, v: Any, ctrl: Any, dt: Any, opened: tuple[Any, ...], tau: Any, impulses: Any
    ) -> StepResult:
        """See ``dyn.step``."""
        dt = self._length(dt)
        ctrl, tau = self._commands(ctrl), self._forces(tau)
        if self._by_lists:
            return self._listed(q, v, ctrl, dt, tau, impulses)
        if self._freely:
            commands = (ctrl,) if self.actuators else ()
            found = self.dyn.program(("free step",), lambda: free_step_program(self.model))(q, v, tau, *commands, dt)
            return self._untouched(*found)
        return self._unrolled(q, v, ctrl, dt, opened, tau, impulses)

    def _listed(self, q: Any, v: Any, ctrl: Any, dt: Any, tau: Any, impulses: Any) -> StepResult:
        start = self._still if impulses is None else impulses
        commands = (np.asarray(ctrl)[..., None, :],) if self.actuators else ()
        forces, length = np.asarray(tau)[..., None, :], np.asarray(dt)[..., None]
        with np.errstate(all="ignore"):  # a state that grows without bound is seen by who called
            made = self.dyn.contact_steps(q, v, start, forces, *commands, length, self.tolerance, np.inf)
        q, v, impulses, measure, *rest = made
        batch = np.shape(v)[:-2]
        force = rest[-1] if self.actuators else np.broadcast_to(forces, (*batch, 1, self.model.nv))
        return StepResult(q[..., 0, :], v[..., 0, :], force[..., 0, :], impulses[..., 0, :, :], measure[..., 0, :])

    def _unrolled(
        self, q: Any, v: Any, ctrl: Any, dt: Any, opened: tuple[Any, ...], tau: Any, impulses: Any
    ) -> StepResult:
        """A step of the roll-outs, for models that neither of the other programs takes."""
        forces = np.asarray(tau + self.dyn.actuator_forces(q, v, ctrl, *opened) if self.actuators else tau)
        if not Blocks(self.model).count:
            end_q, end_v = self.dyn.rollout(q, v, forces[..., None, :], dt, *opened)
            return self._untouched(end_q[..., 0, :], end_v[..., 0, :], forces)
        given = forces[..., None, :]
        found = self.dyn.contact_rollout(q, v, given, dt, *opened, sweeps=SWEEPS, impulses=impulses)
        last = found.q[..., 0, :], found.v[..., 0, :], forces
        return StepResult(*last, found.impulses[..., 0, :, :], found.measure[..., 0, :])

    def _untouched(self, q: Any, v: Any, tau: Any) -> StepResult:
        batch = np.shape(v)[:-1]
        return StepResult(q, v, tau, np.zeros((*batch, self.blocks.count, 3)), np.zeros((*batch, 3)))

    def _length(self, dt: Any) -> Any:
        if dt is not None:
            return dt
        if self.model.time_step is None:
            raise ValueError(f"step: dt is missing, and model {self.model.name!r} has no time_step of its own")
        return self.model.time_step

    def _commands(self, ctrl: Any) -> Any:
        if ctrl is None:
            return self._idle
        if np.shape(ctrl)[-1:] != (self.actuators,):
            if not self.actuators:
                raise UnsupportedError(
                    f"step: ctrl is given, but model {self.model.name!r} has no actuators: tau= takes joint forces"
                )
            names = [actuator.name for actuator in self.model.actuators]
            raise ShapeError(
                f"step: ctrl has shape {np.shape(ctrl)}, expected (..., {self.actuators}): model {self.model.name!r} "
                f"has actuators {names}"
            )
        return ctrl

    def _forces(self, tau: Any) -> Any:
        if tau is None:
            return self._nothing
        if np.shape(tau)[-1:] != (self.model.nv,):
            raise ShapeError(
                f"step: tau has shape {np.shape(tau)}, expected (..., {self.model.nv}) for model {self.model.name!r}"
            )
        return tau


def free_step_program(model: Model) -> Program:
    """(q, v, tau, [ctrl], dt) → (q, v, force): a step of a tree that nothing touches, servos implicit."""
    nq, nv, actuators, tree = model.nq, model.nv, Servos(model), skeleton(model)

    def step(q: Array, v: Array, tau: Array, *rest: Any) -> list[Any]:
        *commands, h = rest
        m = Mechanism(tree)
        drive = tau + actuators.forces(m, q, v, commands[0], h) if commands else tau
        damping = actuators.damping(h) if commands else None
        links = implicit_links(m, m.moving(q, v), h, damping)
        push = h * (drive + forces_of_joints(m, q, v, h, damping) - bias_in_space(m, links, v))
        factor, push = implicit_factor(m, links, q, v, push, h, actuators)
        after = v + factor.solve(push)
        force = drive - damping * after if damping is not None else drive
        for servo in actuators.coupling:
            row = actuators.row(m, q, servo)
            force = force - row * (servo.gain(h) * (row @ after))
        return [*m.manifold().straight(q, after, h * after), force]

    shapes = {"q": (nq,), "v": (nv,), "tau": (nv,)}
    shapes |= {"ctrl": (len(model.actuators),)} if model.actuators else {}
    inputs = [Buffer(name, "input", shape) for name, shape in (shapes | {"dt": ()}).items()]
    outputs = [Buffer(f"next {n}", "output", (size,)) for n, size in (("q", nq), ("v", nv), ("force", nv))]
    block = traced_block(step, [piece(b) for b in inputs], [piece(b) for b in outputs])
    return Program("free_step", (*inputs, *outputs), (block,))
