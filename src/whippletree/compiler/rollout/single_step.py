"""One step of one or many states under commands: what a learning loop or a controller calls.

Three programs serve, each for what it suits: the kernel over lists of what touches
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_step`), which solves the contact problem to a tolerance;
for trees that nothing touches a step without one; and for models with constraints or open parameters a single step of
``contact_rollout`` or ``rollout``.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Buffer, Program
from whippletree.compiler.program.traced_blocks import piece, traced_block
from whippletree.compiler.rollout.activation_steps import activation_step_program, checked_activations
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_step_program
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import reason_against_lists, suits_lists
from whippletree.compiler.rollout.contact_rollout import refuse_large, refuse_timed
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.implicit_springs import forces_of_joints, implicit_links
from whippletree.contact.restitution_share import warn_of_unheeded_laws
from whippletree.contact.servos import Servos
from whippletree.contact.time_step import ContactBlocks, bias_in_space, implicit_factor
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

if TYPE_CHECKING:
    from whippletree.compiler.compiled_motion import CompiledMotion

SWEEPS_OF_STEP = 20
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
    """Of contacts, joint limits, joint friction, moments of torsional and rolling friction (N m s) and servos with a
    force range, N s, (..., blocks, 3); the next step may begin with them."""
    measure: Any
    """Residual of the contact problem as impulse (N s), as velocity (m/s), and violation of a cone (N s), (..., 3)."""
    act: Any
    """Activations of actuators, (..., activations)."""


class StepDerivatives(NamedTuple):
    """Derivatives of the end of a step, (q, v, act) with q in velocity space: n = 2 nv + activations numbers."""

    state: Array
    """By the start state, (n, n)."""
    ctrl: Array
    """By the commands, (n, actuators)."""
    tau: Array
    """By joint forces, (n, nv)."""
    kinks: Array
    """How far the derivatives to both sides lie apart, the largest of each column of state, ctrl and tau together,
    (n + actuators + nv,): nothing but curvature, about 1e-6 of the column, where the step is smooth. A body at rest is
    at a kink: it may be lifted, and not be pushed into what it lies on."""


SHARP = 1e-13
"""m/s: residual to which steps are solved that are compared with each other."""

APART = 1e-6
"""How far apart compared steps begin: errors of differences are of its square, those of rounding 1e-16 over it."""


class SingleStep:
    """``dyn.step`` of a model: which program takes its steps is decided once."""

    def __init__(self, dyn: CompiledMotion, tolerance: float) -> None:
        self.dyn, self.model = dyn, dyn.model
        self._tolerance = np.array(tolerance, dyn.dtype)
        self._last_dt, self._dt = np.nan, np.array(np.nan, dyn.dtype)  # which equals no length that was looked at
        self.actuators = len(self.model.actuators)
        self.blocks = ContactBlocks(self.model, alone=True)
        warn_of_unheeded_laws(self.model, "step")
        self._nothing = np.zeros(self.model.nv, dyn.dtype)
        self._idle = np.zeros(self.actuators, dyn.dtype)
        self._still = np.zeros((self.blocks.count, 3), dyn.dtype)
        self._remembered = list(self.model.activations)
        self._asleep = np.zeros(len(self._remembered), dyn.dtype)
        plain = not dyn.parameters
        timed = bool(self.model.constraints) and constraint_set(self.model).timed  # a step knows no time
        self._by_lists = plain and bool(self.blocks.count) and not timed and suits_lists(self.model)
        self._freely = plain and not self.blocks.count and not self.model.constraints

    def __call__(
        self,
        q: Any,
        v: Any,
        ctrl: Any,
        dt: Any,
        opened: tuple[Any, ...],
        act: Any,
        tau: Any,
        impulses: Any,
        tolerance: Array | None = None,
    ) -> StepResult:
        """See ``dyn.step``; ``tolerance`` (m/s) where the program has one."""
        # some 100 ns for each thing that is asked here: the usual answers come first, without a call
        if type(dt) is not float or dt != self._last_dt:
            dt = self._length(dt)
        if ctrl is None:
            ctrl = self._idle
        elif type(ctrl) is not np.ndarray or ctrl.shape != self._idle.shape:
            self._require_commands(ctrl)
        if tau is None:
            tau = self._nothing
        else:
            self._require_forces(tau)
        told, drives = (ctrl, act), ctrl
        if self._remembered:
            memory = checked_activations(self.model, "step", act)
            drives, act = self._activation_kernel(ctrl, memory, self._dt if type(dt) is float else dt)
        elif act is None or np.size(act) == 0:
            act = self._asleep
        else:
            checked_activations(self.model, "step", act)
        if self._by_lists:
            tolerance = self._tolerance if tolerance is None else tolerance
            return self._step_with_lists(q, v, drives, dt, tau, impulses, tolerance, act)
        if self._freely:
            commands = (drives,) if self.actuators else ()
            end_q, end_v, force = self._free_kernel(q, v, tau, *commands, self._dt if type(dt) is float else dt)
            return self._result_without_step(end_q, end_v, force, act)
        return self._step_unrolled(q, v, told, drives, dt, opened, tau, impulses)._replace(
            act=self._activations(act, v)
        )

    @cached_property
    def _activation_kernel(self) -> NamedFunction:
        return self.dyn.program(("activation_step",), lambda: activation_step_program(self.model))

    @cached_property
    def _free_kernel(self) -> NamedFunction:
        return self.dyn.program(("free step",), lambda: free_step_program(self.model))

    def _step_with_lists(
        self, q: Any, v: Any, ctrl: Any, dt: Any, tau: Any, impulses: Any, tolerance: Array, act: Any
    ) -> StepResult:
        start = self._still if impulses is None else impulses
        step = self._dt if type(dt) is float else dt
        given = (q, v, start, tau, ctrl, step, tolerance) if self.actuators else (q, v, start, tau, step, tolerance)
        if type(q) is np.ndarray and q.ndim == 1:
            made = self._kernel(*given)
        else:
            with np.errstate(all="ignore"):  # a state that grows without bound is seen by who called
                made = self._kernel(*given)
        if self.actuators:
            q, v, impulses, measure, force = made
        else:
            q, v, impulses, measure = made
            force = np.broadcast_to(tau, np.shape(v))
        return StepResult(q, v, force, impulses, measure, act if v.ndim == 1 else self._activations(act, v))

    def _activations(self, act: Any, v: Any) -> Any:
        """Activations (..., activations) of all states, also of models that have none."""
        return np.broadcast_to(act, (*np.shape(v)[:-1], len(self._remembered)))

    @cached_property
    def _kernel(self) -> NamedFunction:
        return self.dyn.program(("contact_step",), lambda: contact_step_program(self.model))

    def _step_unrolled(
        self,
        q: Any,
        v: Any,
        told: tuple[Any, Any],
        drives: Any,
        dt: Any,
        opened: tuple[Any, ...],
        tau: Any,
        impulses: Any,
    ) -> StepResult:
        """A step of the roll-outs, for models that neither of the other programs takes; ``told``: ctrl and act."""
        refuse_timed(self.model, "step")
        commands = np.asarray(told[0])[..., None, :] if self.actuators else None
        memory = [np.asarray(drives)[..., self._remembered]] if self._remembered else []
        driven = drives, *memory, *opened
        forces = np.asarray(tau + self.dyn.actuator_forces(q, v, *driven) if self.actuators else tau)
        given = np.asarray(tau)[..., None, :]
        if not self.blocks.count:
            end_q, end_v = self.dyn.rollout(q, v, given, dt, *opened, ctrl=commands, act=told[1])
            return self._result_without_step(end_q[..., 0, :], end_v[..., 0, :], forces, self._asleep)
        self._require_small()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of states that are not finite, which the caller sees
            found = self.dyn.contact_rollout(
                q, v, given, dt, *opened, ctrl=commands, act=told[1], sweeps=SWEEPS_OF_STEP, impulses=impulses
            )
        self._tell_of_no_inertia(q, v, found)
        end = found.q[..., 0, :], found.v[..., 0, :]
        # servos have acted at the end of the step
        forces = np.asarray(tau + self.dyn.actuator_forces(*end, *driven) if self.actuators else tau)
        return StepResult(*end, forces, found.impulses[..., 0, :, :], found.measure[..., 0, :], self._asleep)

    def _require_small(self) -> None:
        """Refuse a model for which no program of a step can be written, with both reasons."""
        count = len(self.model.bodies)
        try:
            refuse_large(self.model, count, count)
        except UnsupportedError as error:
            raise UnsupportedError(
                f"step: no step of model {self.model.name!r} can be compiled: {reason_against_lists(self.model)}, and "
                f"with every contact written out it would be too long ({self.blocks.count} contacts, limits and joint "
                f"frictions). wt.simulate(model, ..., method='time_stepping') steps it in Python; or declare only the "
                f"contacts that can happen"
            ) from error

    def _result_without_step(self, q: Any, v: Any, tau: Any, act: Any) -> StepResult:
        batch = np.shape(v)[:-1]
        none = np.zeros((*batch, self.blocks.count, 3)), np.zeros((*batch, 3))
        return StepResult(q, v, tau, *none, self._activations(act, v))

    def _length(self, dt: Any) -> Any:
        """The length of a step; a plain number is kept as the array that the fast way of a call takes."""
        if dt is None:
            if self.model.time_step is None:
                raise ValueError(f"step: dt is missing, and model {self.model.name!r} has no time_step of its own")
            dt = float(self.model.time_step)
        if not _are_lengths(dt):
            raise ValueError(
                f"step: dt is {dt!r}, expected a positive, finite number of seconds, or one for each state"
            )
        if type(dt) is float and dt != self._last_dt:
            self._last_dt, self._dt = dt, np.array(dt, self.dyn.dtype)
        return dt

    def require_state(self, q: Any, v: Any, impulses: Any) -> None:
        """Refuse a state or impulses of the wrong shape, in the words of ``dyn.step``.

        Raises:
            ShapeError: what was found, what was expected, and of what.
        """
        blocks = self.blocks.count
        expected = {"q": (q, (self.model.nq,)), "v": (v, (self.model.nv,)), "impulses": (impulses, (blocks, 3))}
        for name, (given, shape) in expected.items():
            if given is not None and np.shape(given)[-len(shape) :] != shape:
                raise ShapeError(
                    f"step: {name} has shape {np.shape(given)}, expected (..., {', '.join(map(str, shape))}) for model "
                    f"{self.model.name!r}"
                )

    def _tell_of_no_inertia(self, q: Any, v: Any, found: Any) -> None:
        """A single step that is not finite from a state that is: whatever forward dynamics says of that state.

        Raises:
            SingularSystemError: a motion has no inertia.
        """
        finite = np.isfinite(q).all() and np.isfinite(v).all()
        if np.ndim(v) == 1 and finite and not self.dyn.parameters and not np.isfinite(found.v).all():
            self.dyn.forward_dynamics(q, v, np.zeros(self.model.nv))

    def _require_commands(self, ctrl: Any) -> None:
        if np.shape(ctrl)[-1:] == (self.actuators,):
            return
        if not self.actuators:
            raise UnsupportedError(
                f"step: ctrl is given, but model {self.model.name!r} has no actuators: tau= takes joint forces"
            )
        names = [actuator.name for actuator in self.model.actuators]
        raise ShapeError(
            f"step: ctrl has shape {np.shape(ctrl)}, expected (..., {self.actuators}): model {self.model.name!r} "
            f"has actuators {names}"
        )

    def _require_forces(self, tau: Any) -> None:
        if np.shape(tau)[-1:] != (self.model.nv,):
            raise ShapeError(
                f"step: tau has shape {np.shape(tau)}, expected (..., {self.model.nv}) for model {self.model.name!r}"
            )


def _are_lengths(dt: Any) -> bool:
    """Whether all of something are positive, finite numbers."""
    try:
        lengths = np.asarray(dt, dtype=float)
    except (TypeError, ValueError):
        return False
    return bool(np.all((lengths > 0) & (lengths < np.inf)))


def step_derivatives(
    step: SingleStep, q: Any, v: Any, ctrl: Any, dt: Any, act: Any, tau: Any, impulses: Any
) -> StepDerivatives:
    """``dyn.step_derivatives``; see there."""
    nv, count, dyn, own = step.model.nv, step.actuators, step.dyn, len(step.model.activations)
    if dyn.parameters:
        raise UnsupportedError("step_derivatives: compile the model without open parameters")
    state, size = 2 * nv + own, 3 * nv + own + count
    away = APART * np.concatenate([np.eye(size), -np.eye(size), np.zeros((1, size))])
    moved, faster, roused, pushed, told = np.split(away, [nv, 2 * nv, state, state + nv], axis=1)
    inputs = (tau, nv), (ctrl, count), (act, own)
    given = [np.zeros(n) if x is None else np.asarray(x, dtype=float) for x, n in inputs]
    begin = np.asarray(dyn.integrate(q, np.zeros(nv)))
    states = np.asarray(dyn.integrate(np.broadcast_to(begin, (2 * size + 1, len(begin))), moved))
    commands = given[1] + told if count else None
    speeds, forces = np.asarray(v, dtype=float) + faster, given[0] + pushed
    memory = given[2] + roused if own else None
    found = step(states, speeds, commands, dt, (), memory, forces, impulses, np.array(SHARP))
    reached = np.concatenate(
        [dyn.difference(found.q[-1], found.q), found.v - found.v[-1], np.asarray(found.act) - found.act[-1]], axis=1
    )
    forward, backward = reached[:size].T / APART, -reached[size:-1].T / APART
    D, sides = (forward + backward) / 2, np.abs(forward - backward).max(axis=0)
    by_state, by_ctrl, by_tau = slice(0, state), slice(state + nv, None), slice(state, state + nv)
    kinks = np.concatenate([sides[by_state], sides[by_ctrl], sides[by_tau]])
    return StepDerivatives(D[:, by_state], D[:, by_ctrl], D[:, by_tau], kinks)


def free_step_program(model: Model) -> Program:
    """(q, v, tau, [ctrl], dt) → (q, v, force): a step of a tree that nothing touches, servos implicit."""
    nq, nv, actuators, tree = model.nq, model.nv, Servos(model), skeleton(model)

    def step(q: Array, v: Array, tau: Array, *rest: Any) -> list[Any]:
        *commands, h = rest
        m = Mechanism(tree)
        drive = tau + actuators.forces(m, q, v, commands[0]) if commands else tau
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
