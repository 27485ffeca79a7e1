"""A model in motion, as the integrator sees it: the rate of its state, and the way back to its manifold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.bound import Bound
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.frontend.controller import AffineForces, FunctionOfState
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON, NamedFunction
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.singular.tangent_cone import TieWarning
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.controllers import ActuatorForces, is_batched, together
from whippletree.errors import IntegrationError, ShapeError, SingularSystemError, UnsupportedError
from whippletree.functions.reference import Reference
from whippletree.simulation.contacts_in_python import PlainContacts
from whippletree.tree.skeleton import skeleton

POSITION_CORRECTIONS = 10
"""Newton corrections that a position projection may take; each squares the residual, so few are ever needed."""

CLOSED_POSITION = 1e-15
"""Residual of a position row, m or rad, that counts as closed, of mechanisms of a few metres."""

OPEN_LOOP = 1e-6
"""Residual of a position row, m or rad, that a projected state must not have: then some rows contradict others."""


Ask: TypeAlias = Callable[[Any, Array, Array], Any]
"""A controller: forces of (t, q, v)."""


class Motion:
    """The equations of motion of a compiled model under a controller.

    Where the compiled route meets a dead point, the reference route, which follows a branch, answers instead;
    ``dead_points`` counts how often, and ``ties`` says where branches were equally good.
    """

    def __init__(
        self,
        dyn: Compiled,
        controller: Callable[[float, Array, Array], Any] | None = None,
        actuated: ActuatorForces | None = None,
        remembers: bool = False,
    ) -> None:
        """
        Args:
            dyn: the functions of the model.
            controller: forces of (t, q, v).
            actuated: the model's actuators under their commands; their forces join the controller's.
            remembers: whether activations of the actuators are part of its states, behind q and v; otherwise they are
                known as functions of time.
        """
        self.dyn = dyn
        self.model = dyn.model
        self.dead_points = 0
        self.ties: set[str] = set()
        """Messages about rest at points where branches meet that are equally good."""
        self.own_controller, self.actuated = controller, actuated
        self.driver = controller if actuated is None and isinstance(controller, ActuatorForces) else actuated
        """The actuators under their commands, also where these were given as the controller."""
        self.remembers = remembers and actuated is not None and bool(self.model.activations)
        parts = [part for part in (controller, actuated) if part is not None]
        self.all_that_drives = together(*parts) if len(parts) > 1 else (parts[0] if parts else None)
        self.controller = controller if self.remembers else self.all_that_drives
        """Forces of (t, q, v); those of actuators are not, where their activations are part of the state."""
        self._quaternions = [
            slice(part.stop - 4, part.stop)
            for part, kind in zip(self.model.q_slices, self.model.joint_types, strict=True)
            if kind.nq > kind.nv
        ]
        self._relaxed = any(c.kind == "relax" for c in self.model.constraints)
        self._resting = [j for c in self.model.constraints if c.kind == "rest" for j in c.on]
        self._last_projected: tuple[float, bytes] | None = None
        """Time and state that were brought onto the manifold last, of those asked for one by one."""
        self.compiled_controller: FunctionOfState | AffineForces | None = None
        self._names_failures = False
        self._functions: dict[str, tuple[NamedFunction, tuple[str, ...], bool]] = {}
        self._passive = bool(self.model.elements) or any(joint.has_springs for joint in self.model.joints)

    def of_run(self, number: int) -> Motion:
        """The motion of one run, where each has a design of its own."""
        if not isinstance(self.dyn, Bound) or self.dyn.designs is None:
            return self
        return self._with(self.dyn.of(number))

    def of_runs(self, numbers: Array) -> Motion:
        """The motion of states whose runs are given by number, where each has a design of its own."""
        if not isinstance(self.dyn, Bound) or self.dyn.designs is None:
            return self
        return self._with(self.dyn.at(numbers))

    def _with(self, dyn: Compiled) -> Motion:
        return Motion(dyn, self.own_controller, self.actuated, self.remembers)

    @property
    def has_manifold(self) -> bool:
        """Whether states can leave what constraints and quaternions allow."""
        return bool(self.model.constraints) or bool(self._quaternions)

    def split(self, y: Array) -> tuple[Array, Array]:
        """q and v of one state or many."""
        nq = self.model.nq
        return y[..., :nq], y[..., nq : nq + self.model.nv]

    @property
    def has_activations(self) -> bool:
        """Whether there are activations that commands drive."""
        return self.actuated is not None and bool(self.model.activations)

    def act(self, y: Array) -> Array:
        """Activations of one state or many that hold them, (..., activations); else (..., 0)."""
        return y[..., self.model.nq + self.model.nv :]

    @cached_property
    def position_tolerance(self) -> float:
        """Residual of a position row, m or rad, that counts as closed: as positions are rounded, as far away as the
        joints of the tree are from the world, one after the other."""
        tree = skeleton(self.model)
        reach: list[float] = []
        for node, parent in zip(tree.nodes, tree.parents, strict=True):
            away = math.hypot(*[float(x) for x in node.placement.p])
            reach.append(away + (reach[parent] if parent >= 0 else 0.0))
        return max(CLOSED_POSITION, math.ulp(1.0) * max(reach, default=0.0))

    @cached_property
    def moving_bodies(self) -> int:
        """How many bodies of the model's tree move."""
        return len(skeleton(self.model).nodes)

    @property
    def can_be_unrolled(self) -> bool:
        """Whether :meth:`rates` can be part of a kernel, if the controller can be traced: but for massless motions that
        forces decide, and activations that commands by the state move, beside what steps by calls do not know."""
        return self.has_steps_by_calls and not (self._relaxed or self._resting or self.remembers)

    @property
    def has_steps_by_calls(self) -> bool:
        """Whether a program that calls the model's functions can take steps: but for contacts that are worked out in
        Python, for designs whose numbers are left open, and for pushes on what springs alone hold, which Python
        refuses."""
        if not self.model.nv or self._plain_contacts is not None or (self._resting and self.is_driven):
            return False
        return self.dyn.dtype == np.float64 and not isinstance(self.dyn, Bound)

    @property
    def is_driven(self) -> bool:
        """Whether a controller or actuators add forces to those of the model itself."""
        return self.controller is not None or self.remembers

    @property
    def may_jump(self) -> bool:
        """Whether forces may jump in time: those of a controller that is not known to be smooth, and commands."""
        known = self.compiled_controller is not None and not self.compiled_controller.may_jump
        return self.remembers or (self.controller is not None and self.model.nv > 0 and not known)

    @property
    def is_relaxed_by_forces(self) -> bool:
        """Whether massless motions that dampers decide follow forces of a controller or of actuators."""
        return self._relaxed and self.is_driven

    @property
    def state_parts(self) -> list[slice]:
        """Where q, v and, if they are part of it, activations are in a state."""
        ends = [0, self.model.nq, self.model.nq + self.model.nv]
        ends += [ends[-1] + len(self.model.activations)] if self.remembers else []
        return [slice(*ends[k : k + 2]) for k in range(len(ends) - 1)]

    def use_compiled(self, controller: FunctionOfState | AffineForces | None, *, names_failures: bool = False) -> None:
        """From now on, take the controller's forces from a compiled function of (t, q, v) that says the same; or from
        itself. ``names_failures``: whether forces that are not finite raise, with the joint's name."""
        self.compiled_controller, self._names_failures = controller, names_failures

    def forces(self, t: Array, q: Array, v: Array, act: Array | None = None) -> Array:
        """All joint forces (m, nv) at m states: the controller's, those of springs and dampers, and of actuators.

        ``act``: activations (m, activations) of states that hold them.
        """
        tau = np.zeros(v.shape)
        if self.compiled_controller is not None:
            tau = np.asarray(self.compiled_controller(t, q, v))
            if self._names_failures and not np.isfinite(tau).all() and np.isfinite([*q.flat, *v.flat]).all():
                assert self.controller is not None
                tau = self.asked_at(self.controller, t, q, v)  # which names the joint
        elif self.controller is not None:
            tau = tau + self.asked_at(self.controller, t, q, v)
        return np.asarray(tau + self._further_forces(t, q, v, act))

    def forces_if_told(self, t: Array, q: Array, v: Array, act: Array | None = None) -> Array:
        """Forces, NaN where the controller has no answer, such as the state at which a run has ended for it."""
        try:
            return self.forces(t, q, v, act)
        except IntegrationError:
            assert self.controller is not None
            tau = self.asked_if_told(self.controller, t, q, v)
            return np.asarray(tau + self._further_forces(t, q, v, act))

    def _further_forces(self, t: Array, q: Array, v: Array, act: Array | None) -> Any:
        """Forces of springs and dampers, and of actuators whose activations are given."""
        found: Any = self.dyn.passive_forces(q, v) if self._passive else 0.0
        if self.remembers and act is not None:
            assert self.actuated is not None
            found = found + self.actuated.forces(q, v, self.commands(t, q, v), act)
        return found

    def commands(self, t: Array, q: Array, v: Array) -> Array:
        """Commands of the actuators (m, actuators) at m states."""
        assert self.driver is not None
        commands = self.driver.commands
        if is_batched(self.driver):
            return np.asarray(commands(t, q, v), dtype=float)
        return np.array([commands(*state) for state in zip(t.tolist(), q, v, strict=True)], dtype=float)

    def asked_at(self, controller: Ask, t: Array, q: Array, v: Array) -> Array:
        """A controller's forces (m, nv) at m states, in one call if it is batched, or knows its commands."""
        if isinstance(controller, ActuatorForces) and controller.answers_over_time:
            tau = self._answer(controller.forces_over, t, q, v)
        elif is_batched(controller):
            tau = self._answer(controller, t, q, v)
        else:
            tau = self._answers(controller, t, q, v)
        # a sum of finite numbers is finite, but for the largest
        if not math.isfinite(np.add.reduce(tau, axis=None)):
            worst = int((~np.isfinite(tau).all(axis=1)).argmax())
            self._require_sound(float(t[worst]), tau[worst])
        self._refuse_pushes_at_rest(tau)
        return tau

    def asked_if_told(self, controller: Ask, t: Array, q: Array, v: Array) -> Array:
        """Forces of the controller, NaN where it has no answer."""
        found = np.full(v.shape, np.nan)
        if is_batched(controller):
            tau = self._answer(controller, t, q, v)
            good = np.isfinite(tau).all(axis=1)
            found[good] = tau[good]
            return found
        for k in range(len(v)):
            with suppress(IntegrationError):
                found[k] = self.ask(controller, float(t[k]), q[k], v[k])
        return found

    def ask(self, controller: Ask, t: float, q: Array, v: Array) -> Array:
        """A controller's forces (nv,) at one state."""
        tau = self._answer(controller, t, q, v)
        self._require_sound(t, tau)
        return tau

    def gives_two_answers(self, t: float, y: Array) -> bool:
        """Whether the controller, asked twice at one state, gives two answers."""
        if self.controller is None:
            return False
        try:
            first, second = (self.ask(self.controller, float(t), *self.split(y)) for _ in range(2))
        except Exception:  # whatever it is, it is not this
            return False
        return not np.array_equal(first, second)

    def _answers(self, controller: Ask, t: Array, q: Array, v: Array) -> Array:
        """Answers (m, nv) of a controller that is asked at one state after the other."""
        tau, shape, kind = np.empty(v.shape), v.shape[1:], v.dtype
        # copies: what a function does to its arguments is no motion
        for k, (time, position, velocity) in enumerate(zip(t.tolist(), q.copy(), v.copy(), strict=True)):
            try:
                answer = controller(time, position, velocity)
            except Exception as error:
                _note_time(error, time)
                raise
            # there is one object for a kind of numbers in this machine's order, and comparing takes longer
            if not (type(answer) is np.ndarray and answer.dtype is kind and answer.shape == shape):
                answer = self._checked_answer(answer, shape)
            tau[k] = answer
        return tau

    def _answer(self, controller: Ask, t: Any, q: Array, v: Array) -> Array:
        """Answer of a controller, as real numbers in the shape of v; it may be any Python function."""
        try:
            answer = controller(t, q.copy(), v.copy())
        except Exception as error:
            _note_time(error, float(np.ravel(t)[0]) if np.size(t) else 0.0)
            raise
        return self._checked_answer(answer, v.shape)

    def _checked_answer(self, answer: Any, shape: tuple[int, ...]) -> Array:
        """The answer of a controller as real numbers of this shape."""
        meaning = "one force per velocity" if len(shape) == 1 else "one row for each state, one force per velocity"
        if answer is None:
            raise ShapeError(
                f"simulate: the controller returned None, expected {shape} real numbers for model {self.model.name!r}: "
                f"{meaning}. Does it end with return?"
            )
        try:
            if isinstance(answer, np.ndarray) and answer.dtype == np.float64:
                tau = np.asarray(answer)
            elif np.iscomplexobj(answer):
                raise TypeError
            else:
                tau = np.asarray(answer, dtype=float)
        except (TypeError, ValueError):
            raise ShapeError(
                f"simulate: the controller returned {answer!r}, expected {shape} real numbers for model "
                f"{self.model.name!r}: {meaning}"
            ) from None
        if tau.shape != shape:
            raise ShapeError(
                f"simulate: the controller returned shape {tau.shape}, expected {shape} for model "
                f"{self.model.name!r}: {meaning}"
            )
        return tau

    def _require_sound(self, t: float, tau: Array) -> None:
        """Refuse forces (nv,) that are no numbers, or push what nothing but springs holds."""
        # a sum of finite numbers is finite, but for the largest
        if not math.isfinite(tau.sum()) and not np.all(np.isfinite(tau)):
            i = int(np.flatnonzero(~np.isfinite(tau))[0])
            parts = zip(self.model.joints, self.model.v_slices, strict=True)
            joint = next(joint.name for joint, part in parts if part.start <= i < part.stop)
            raise IntegrationError(
                f"the controller returned {tau[i]} at t = {t:.9g} s for joint {joint!r}: look at what it divides by, "
                f"and at the state that it is given there",
                t,
            )
        self._refuse_pushes_at_rest(tau)

    def _refuse_pushes_at_rest(self, tau: Array) -> None:
        """Refuse forces (..., nv) on joints whose massless motion springs alone hold in equilibrium."""
        for joint in self._resting:
            if np.any(tau[..., self.model.slice(joint)] != 0):
                raise UnsupportedError(
                    f"simulate: the controller pushes joint {joint!r}, part of a massless motion that springs alone "
                    f"hold in equilibrium: its speed would be the rate of that force. Give one of its joints damping."
                )

    def rates(self, t: Array, y: Array) -> Array:
        """(q̇, v̇, ẇ) (m, nq + nv + activations) at m states, each taken to the manifold first; w where they hold it.

        Near a dead point accelerations of a state that is off the manifold by δ are wrong by δ over the distance to it.
        """
        act = self.act(y)
        q, v = self.split(self.project(t, y) if self.model.constraints and not self._is_projected(t, y) else y)
        a = self.evaluate("forward_dynamics", q=q, v=v, tau=self.forces(t, q, v, act), t=t)
        rates = [self.dyn.rate(q, v), a]
        return np.concatenate([*rates, self._activation_rates(t, q, v, act)] if self.remembers else rates, axis=1)

    def _activation_rates(self, t: Array, q: Array, v: Array, act: Array) -> Array:
        """ẇ (m, activations): none that leads out of a range."""
        found = np.asarray(self.dyn.activation_rates(self.commands(t, q, v), act))
        low, high = self.activation_ranges
        return np.where(((act >= high) & (found > 0)) | ((act <= low) & (found < 0)), 0.0, found)

    @cached_property
    def activation_ranges(self) -> Array:
        """Least and greatest activations, (2, activations)."""
        own = [self.model.actuators[k].activation for k in self.model.activations]
        return np.array([activation.range for activation in own if activation is not None]).T

    def project(self, t: Any, y: Array) -> Array:
        """One state or many: quaternions to unit length, positions onto g(q, t) = 0, velocities onto A v + gₜ = 0.

        Massless motions that dampers decide also follow the forces of what drives them.
        """
        q, v = self.split(y)
        q = self.normalise(q)
        if self.model.constraints:
            q, residual = self._close_loops(t, q)
            if y.ndim == 1 and not residual <= OPEN_LOOP:  # of many states, some are mere trials
                self._refuse_open_loops(t, q)
            v = self.evaluate("project_velocity", q=q, v=v, t=t)
        if self.is_relaxed_by_forces:
            states = [np.atleast_2d(x) for x in (q, v, self.act(y))]
            tau = self.forces(np.atleast_1d(t), *states).reshape(v.shape)
            v = self.evaluate("relaxed_velocity", q=q, v=v, tau=tau, t=t)
        act = self.act(y)
        found = np.concatenate([q, v, np.clip(act, *self.activation_ranges) if act.shape[-1] else act], axis=-1)
        if y.ndim == 1:
            self._last_projected = float(t), found.tobytes()
        return found

    def _is_projected(self, t: Array, y: Array) -> bool:
        """Whether the only state (1, …) is the one that was projected last: a step that begins asks for its rates."""
        return len(y) == 1 and self._last_projected == (float(t[0]), y.tobytes())

    def normalise(self, q: Array) -> Array:
        """The coordinates with quaternions at unit length."""
        if self._quaternions:
            q = q.copy()
            if len(self._quaternions) == 1:  # a part of q itself, which is quicker to reach
                (part,) = self._quaternions
                q[..., part] /= np.linalg.norm(q[..., part], axis=-1, keepdims=True)
            else:
                parts = np.array([part.start for part in self._quaternions])[:, None] + np.arange(4)
                turned = q[..., parts]
                q[..., parts] = turned / np.linalg.norm(turned, axis=-1, keepdims=True)
        return q

    def gap(self, t: Any, q: Array) -> float:
        """The largest residual of a position row that is rigid, m or rad."""
        return float(self.gaps(t, q).max(initial=0.0))

    def gaps(self, t: Any, q: Array) -> Array:
        """The largest residuals of each of many configurations (..., nq)."""
        return self._residual(t, q) if self.model.constraints else np.zeros(q.shape[:-1])

    def _close_loops(self, t: Any, q: Array) -> tuple[Array, Array]:
        """Configurations with their loops closed by least-energy corrections, which stop where they no longer help; and
        the largest residual of each."""
        residual = self._residual(t, q)
        least = residual
        for _ in range(POSITION_CORRECTIONS):
            open_loops = residual > self.position_tolerance
            if not np.any(open_loops):
                break
            nearer = self.dyn.integrate(q, self.evaluate("closing_step", q=q, t=t))
            left = self._residual(t, nearer)
            better = open_loops & (left < residual)  # where it is not, rounding has the last word
            q, residual = np.where(better[..., None], nearer, q), np.where(better, left, 0.0)
            least = np.where(better, left, least)
        return q, least

    def _refuse_open_loops(self, t: float, q: Array) -> None:
        """Refuse a state that projection did not close, with the rows that stay open: nothing is ignored."""
        rows = np.atleast_1d(self.evaluate("constraint_residual", q=q, t=t))
        is_open = np.flatnonzero(np.abs(rows[self._rigid_positions]) > OPEN_LOOP)
        if len(is_open):
            system = constraint_set(self.model)
            names = system.named(system.position_rows)
            left = [f"{names[k]} = {rows[k]:.6g}" for k in (self._rigid_positions[i] for i in is_open)]
            raise IntegrationError(
                f"model {self.model.name!r}: at t = {t:.9g} s no motion nearby meets all constraints; open by more "
                f"than {OPEN_LOOP:g} m or rad: {', '.join(left[:8])}. They contradict each other, or ask for more than "
                f"the mechanism can reach, or belong to another branch than the model's start (wt.diagnose(model, q) "
                f"tells); wt.assemble(model, q, t=t) closes a configuration that is merely far off.",
                t,
            )

    def _residual(self, t: Any, q: Array) -> Array:
        rows = np.abs(self.evaluate("constraint_residual", q=q, t=t))
        if len(self._rigid_positions) < rows.shape[-1]:
            rows = rows[..., self._rigid_positions]
        return np.asarray(rows.max(axis=-1, initial=0.0))

    @property
    def rigid_rows(self) -> Array:
        """1 for each row of the residual that is a position and closed, else 0, (rows,)."""
        rows = np.zeros(len(constraint_set(self.model).position_rows))
        rows[self._rigid_positions] = 1.0
        return rows

    @property
    def quaternions(self) -> list[slice]:
        """Places of quaternions among the coordinates."""
        return self._quaternions

    @property
    def has_passive_forces(self) -> bool:
        """Whether springs, dampers or other elements act."""
        return self._passive

    @cached_property
    def _rigid_positions(self) -> list[int]:
        """Position rows that are closed; compliant ones move as their forces tell."""
        system = constraint_set(self.model)
        return [k for k, i in enumerate(system.position_rows) if not system.compliance[i]]

    def evaluate(self, name: str, **state: Any) -> Array:
        """A function at one state or many; inputs that the model does not need are left out, all constraints are on.

        Several outputs, which must have one shape, are stacked along a last axis.
        """
        if self._plain_contacts is not None and self._plain_contacts.answers(name):
            return self._plain_contacts.evaluate(name, **state)
        function, words, switched = self._functions.get(name) or self._find_function(name)
        inputs = [state[word] for word in words if word in state]
        inputs += [self.all_on] if switched else []
        if not function.fails:
            with np.errstate(all="ignore"):
                return _stack_outputs(function(*inputs))
        plain = function.answer_plainly(*inputs)
        if plain is not None:
            return _stack_outputs(plain)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("ignore", RuntimeWarning)  # failed states are answered below
                warnings.simplefilter("always", TieWarning)
                result = _stack_outputs(function(*inputs))
        except SingularSystemError:
            return self._by_reference(name, inputs, 0)
        status = np.asarray(function.status)
        answered = status == ANSWERED_IN_PYTHON
        if answered.any():
            self.dead_points += int(answered.sum())
            self.ties.update(str(warning.message) for warning in caught)
        for k in np.flatnonzero((status != 0) & ~answered) if status.ndim else []:
            own = [x[k] if np.ndim(x) and x is not self.all_on else x for x in inputs]
            try:
                result[k] = self._by_reference(name, own, int(k))
            except SingularSystemError:
                if not self.model.is_flexible:
                    raise
                # an iterate far off any motion: modes so large that their inertia, which is cut after second order, is
                # not positive. No number tells the integrator to take a shorter step.
                self.dead_points -= 1
                result[k] = np.nan
        return result

    def constraint_rows(self, t: float, q: Array) -> Array:
        """A (rows, nv) at one state; of a system too long for a matrix in machine code, the reference's."""
        try:
            return self.evaluate("constraint_jacobian", q=q, t=t)
        except UnsupportedError:
            inputs = [t] if constraint_set(self.model).timed else []
            return np.asarray(self._reference.constraint_jacobian(q, *inputs))

    def _by_reference(self, name: str, inputs: Sequence[Any], number: int) -> Array:
        """A function at one state, the ``number``-th of a call, where the compiled one has met a dead point."""
        self.dead_points += 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TieWarning)
            found = _stack_outputs(getattr(self.of_run(number)._reference, name)(*inputs))
        self.ties.update(str(warning.message) for warning in caught)
        return found

    def _find_function(self, name: str) -> tuple[NamedFunction, tuple[str, ...], bool]:
        """A compiled function, its inputs, and whether constraints can be switched in it; remembered, for evaluating is
        often cheaper than looking up."""
        function = getattr(self.dyn, name)
        self._functions[name] = function, function.inputs, "active" in function.inputs
        return self._functions[name]

    @cached_property
    def _plain_contacts(self) -> PlainContacts | None:
        """Functions of contacts that cannot be compiled."""
        if not self.model.touches or contact_set(self.model).closed_form:
            return None
        return PlainContacts(self.dyn, contact_set(self.model))

    @cached_property
    def all_on(self) -> Array:
        """Every switchable constraint switched on, (switches,)."""
        if not self.model.constraints:
            return np.ones(0)
        return np.ones(len(constraint_set(self.model).switches))

    @cached_property
    def _reference(self) -> Reference:
        return Reference(self.model)


def _note_time(error: Exception, time: float) -> None:
    """Say of what a controller has raised when it did."""
    error.add_note(f"simulate: raised by the controller at t = {time:.9g} s")


def _stack_outputs(outputs: Any) -> Array:
    """One output as it is, several along a last axis."""
    return np.stack(outputs, axis=-1) if isinstance(outputs, tuple) else np.asarray(outputs)
