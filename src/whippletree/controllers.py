"""Ready-made controllers: functions tau = f(t, q, v) for ``wt.simulate``, on any scalar, so that they compile.

    controller = together(gravity_compensation(model), pd(model, target=goal, stiffness=50, damping=5))
    wt.simulate(model, duration=2.0, controller=limited(controller, model), method="rk4")

Each returns one force per velocity, (nv,): N m or N. Joints are found by name; forces add up with :func:`together`, and
:func:`limited` keeps them within what the motors can give. :func:`batched` marks a function that answers for many
states in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from whippletree import functions
from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.compiler.compiled import shared_functions
from whippletree.compiler.rollout.activation_steps import checked_activations
from whippletree.errors import NameLookupError, ScalarError, ShapeError, UnsupportedError, list_items, quote
from whippletree.model import WORLD, Actuator, Model
from whippletree.model.input_checks import require_arguments
from whippletree.tree.actuation import KnownActivations
from whippletree.tree.element_forces import joints_of_tendon
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton, skeleton

__all__ = [
    "Controller",
    "actuated",
    "batched",
    "between",
    "damper",
    "gravity_compensation",
    "limited",
    "motor",
    "pd",
    "spring",
    "together",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers find a misspelt name themselves

    def __getattr__(name: str) -> Any:
        raise NameLookupError("controller", name, __all__)


Controller: TypeAlias = Callable[[Any, Any, Any], Any]
"""tau = f(t, q, v), (nv,)."""

STATE = ("t", "q", "v")
"""Arguments of a controller."""


def batched(function: Callable[[Any, Any, Any], Any]) -> Controller:
    """A controller that answers for many states in one call, such as a learned policy.

    ``wt.simulate`` calls it once per step for all runs of a batch (once per stage in ``"rk4"``), instead of once for
    each run.

    Args:
        function: tau (m, nv) of times t (m,), coordinates q (m, nq) and velocities v (m, nv); m changes from call to
            call: runs that have failed are left out.
    """
    return _Batched(function)


class _Batched:
    """Called with one state or with many."""

    def __init__(self, function: Callable[[Any, Any, Any], Any]) -> None:
        self.function = function

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        if np.ndim(q) > 1:
            return self.function(t, q, v)
        found = self.function(np.asarray([t]), np.asanyarray(q)[None], np.asanyarray(v)[None])
        if np.ndim(found) != 2 or len(found) != 1:
            raise ShapeError(
                f"batched: the function returned shape {np.shape(found)} for one state, expected (1, …): one row for "
                f"each state"
            )
        return found[0]


def is_batched(controller: Any) -> bool:
    """Whether a controller, or the function of an actuator's commands, answers for many states in one call."""
    return isinstance(controller, _Batched) or (isinstance(controller, ActuatorForces) and is_batched(controller.ctrl))


def _at_each(controller: Controller, t: Any, q: Any, v: Any) -> Any:
    """Outputs of a controller at each of m states, (m, …): in one call if it can, else one after the other."""
    if is_batched(controller):
        return np.asarray(controller(t, q, v))
    return np.stack([np.asarray(controller(*state)) for state in zip(t, q, v, strict=True)])


def together(*controllers: Controller) -> Controller:
    """The sum of several controllers; batched if one of them is."""
    for number, controller in enumerate(controllers, start=1):
        require_arguments(f"together: controller {number}", controller, *STATE)

    def act(t: Any, q: Any, v: Any) -> Any:
        tau: Any = 0
        for controller in controllers:
            state = t, np.array(q, subok=True), np.array(v, subok=True)  # copies: each finds the same state
            tau = tau + (np.asarray(controller(*state)) if np.ndim(q) == 1 else _at_each(controller, *state))
        return tau

    return batched(act) if any(is_batched(controller) for controller in controllers) else act


def spring(model: Model, joint: str, *, stiffness: float, rest: float = 0.0, damping: float = 0.0) -> Controller:
    """−stiffness (q − rest) − damping v on a joint of one freedom, N m/rad and N m s/rad, or N/m and N s/m."""
    place, coordinate = _simple(model, joint)

    def act(t: Any, q: Any, v: Any) -> Array:
        return _only(model, place, stiffness * (rest - q[coordinate]) - damping * v[place])

    return act


def damper(model: Model, joint: str, *, damping: float) -> Controller:
    """−damping v on a joint of one freedom, N m s/rad or N s/m."""
    return spring(model, joint, stiffness=0.0, damping=damping)


def motor(
    model: Model,
    joint: str,
    effort: float | Callable[[Any, Any, Any], Any],
    *,
    limit: float | None = None,
    no_load_speed: float = np.inf,
) -> Controller:
    """A motor on a joint of one freedom.

    Args:
        model: what it drives.
        joint: by name.
        effort: what is asked of it, N m or N: a number or a function of (t, q, v).
        limit: the most it gives at rest; default the joint's own ``effort_limit``.
        no_load_speed: rad/s or m/s at which nothing is left of the limit when it drives in the direction of motion
            (a straight line between); default: the limit does not depend on speed.
    """
    place, _ = _simple(model, joint)
    most = model.joints[model.joint_index(joint)].effort_limit if limit is None else limit
    if not most >= 0:
        raise ValueError(f"motor: limit is {most!r}, expected a number that is not negative")
    if not no_load_speed > 0:
        raise ValueError(f"motor: no_load_speed is {no_load_speed!r}, expected a positive number")
    if callable(effort):
        require_arguments("motor: effort", effort, *STATE)

    def act(t: Any, q: Any, v: Any) -> Array:
        wanted = effort(t, q, v) if callable(effort) else effort
        if not np.isfinite(most):
            return _only(model, place, wanted)
        share = v[place] / no_load_speed if np.isfinite(no_load_speed) else 0
        highest, lowest = (between(most * (1 - sign * share), 0, most) for sign in (1, -1))
        return _only(model, place, between(wanted, -lowest, highest))

    return act


def pd(model: Model, *, target: Any, stiffness: Any, damping: Any, target_velocity: Any = 0.0) -> Controller:
    """stiffness · (target ⊖ q) + damping · (target velocity − v): towards a configuration, quaternions the short way.

    Only what has a motor is pushed: joints that the model's actuators drive, by themselves or through a tendon; in a
    model without such actuators all joints but free ones on the world, a floating base. ``stiffness`` and ``damping``
    of one number for each velocity mean what they say, and push whatever they are not 0 for.

    Args:
        model: what it holds.
        target: (nq,), or a function of time that returns one.
        stiffness, damping: one number, or one for each velocity, (nv,).
        target_velocity: (nv,), one number, or a function of time.
    """
    for word, given in (("target", target), ("target_velocity", target_velocity)):
        if callable(given):
            require_arguments(f"pd: {word}", given, "t")
    tree = skeleton(model)
    fixed = None if callable(target) else _numbers(model, "target", target, (model.nq,))
    stiffness = _for_motors(model, _numbers(model, "stiffness", stiffness, (), (model.nv,)))
    damping = _for_motors(model, _numbers(model, "damping", damping, (), (model.nv,)))

    def act(t: Any, q: Any, v: Any) -> Any:
        goal = _numbers(model, "target", target(t), (model.nq,)) if fixed is None else fixed
        speed = target_velocity(t) if callable(target_velocity) else target_velocity
        away = Mechanism(tree).manifold().difference(np.asarray(q), goal)
        return np.asarray(stiffness) * away + np.asarray(damping) * (np.asarray(speed) - v)

    return act


def _numbers(model: Model, word: str, given: Any, *shapes: tuple[int, ...]) -> Array:
    """An argument of :func:`pd`, of one of these shapes, finite where that can be told.

    Raises:
        ShapeError: another shape, or no numbers.
        ValueError: infinity or NaN.
    """
    found = np.asarray(given)
    expected = " or ".join(f"{shape}" if shape else "one number" for shape in shapes)
    if found.dtype.kind not in "biufO":
        raise ShapeError(f"pd: {word} is {given!r}, expected {expected} for model {model.name!r}")
    if found.shape not in shapes:
        raise ShapeError(f"pd: {word} has shape {found.shape}, expected {expected} for model {model.name!r}")
    if found.dtype != object and not np.all(np.isfinite(found)):
        raise ValueError(f"pd: {word} holds {found[~np.isfinite(found)].flat[0]}: its numbers must be finite")
    return found


def _for_motors(model: Model, found: Array) -> Array:
    """Gains (nv,): one number goes to the velocities that have a motor, and 0 to the others."""
    if found.ndim:
        return found
    driven = {joint for actuator in model.actuators for joint in _driven_joints(model, actuator)}
    spread = np.zeros(model.nv, dtype=found.dtype if found.dtype != int else float)
    for joint in model.joints:
        floats = joint.kind == "free" and joint.parent == WORLD
        if joint.name in driven if driven else not floats:
            spread[model.slice(joint.name)] = found
    return spread


def _driven_joints(model: Model, actuator: Actuator) -> set[str]:
    """The joints that an actuator drives: its own, those that its tendon sums up, and those that its tendon spans."""
    if actuator.tendon is None:
        return set(actuator.joints)
    return joints_of_tendon(skeleton(model), model.tendon(actuator.tendon))


def gravity_compensation(model: Model) -> Controller:
    """The joint forces that hold the tree still against gravity, wherever it is."""
    return _GravityCompensation(model)


class _GravityCompensation:
    """Generic on symbols and traced scalars, compiled on plain numbers."""

    def __init__(self, model: Model) -> None:
        self.model = model.tree

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        at = np.asarray(q)
        if at.dtype != object:
            return self._compiled(at)
        return functions.find("gravity").implementation(Mechanism(self._tree), at)

    @cached_property
    def _tree(self) -> Skeleton:
        return skeleton(self.model)

    @cached_property
    def _compiled(self) -> Any:
        return shared_functions(self.model).gravity


def actuated(model: Model, ctrl: Any = None, *, duration: float | None = None, act: Any = None) -> ActuatorForces:
    """The joint forces of the model's actuators under their commands.

    A controller has no memory: activations of actuators are known at every time where commands do not depend on the
    state, and only there (``wt.simulate(ctrl=…)`` integrates them).

    Args:
        model: with actuators.
        ctrl: one command for each actuator, (actuators,); by name of actuator, 0 for those that are not named; a
            function of (t, q, v) that returns one of these, or a :func:`batched` one that returns (m, actuators); or a
            table (n, actuators), each row of which holds for an equal part of ``duration``. Default: 0.
        duration: of a table, s.
        act: activations at the start, (activations,); default 0.

    Raises:
        UnsupportedError: a model without actuators; commands by a function, where actuators have activations.
        ShapeError: another number of commands than the model has actuators, or of activations.
        NameLookupError: a name that no actuator has.
    """
    found = ActuatorForces.of(model, ctrl, duration, act)
    if model.activations:
        found.require_known()
    return found


class ActuatorForces:
    """A model's actuators under their commands: generic on symbols and traced scalars, compiled on plain numbers."""

    def __init__(self, model: Model, ctrl: Any, duration: float | None, act: Any = None) -> None:
        """``act``: activations at the start, (activations,)."""
        self.model, self.ctrl, self.duration = model.tree, ctrl, duration
        self.act0 = np.asarray(checked_activations(model, "actuators", act), dtype=float)

    @classmethod
    def of(cls, model: Model, ctrl: Any, duration: float | None = None, act: Any = None) -> ActuatorForces:
        """Like :func:`actuated`, also where activations are known by integration alone."""
        if not model.actuators:
            raise UnsupportedError(f"ctrl: model {model.name!r} has no actuators that commands could drive")
        if callable(ctrl):
            require_arguments("ctrl", ctrl, *STATE)
        given = ctrl if callable(ctrl) else _commands(model, np.zeros(len(model.actuators)) if ctrl is None else ctrl)
        if not callable(given) and given.ndim == 2 and not duration:
            raise ShapeError(f"ctrl: a table of {len(given)} rows of commands needs a duration")
        return cls(model, given, duration, act)

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        ctrl = self.commands(t, q, v)
        memory = [self.known(t)] if self.model.activations else []
        if all(np.asarray(x).dtype != object for x in (q, v, ctrl, *memory)):
            return self.forces(q, v, ctrl, *memory)
        entry = functions.find("actuator_forces").implementation
        return entry(Mechanism(self._tree), np.asarray(q), np.asarray(v), ctrl, *memory)

    def require_known(self) -> None:
        """Refuse commands that depend on the state, where activations follow them.

        Raises:
            UnsupportedError: naming the actuators.
        """
        if callable(self.ctrl):
            names = list_items([repr(self.model.actuators[k].name) for k in self.model.activations])
            raise UnsupportedError(
                f"ctrl: commands are given by a function, and actuators {names} of model {self.model.name!r} have "
                f"activations, which depend on all commands before: wt.simulate(method='time_stepping') or 'adaptive' "
                f"integrates them"
            )

    @cached_property
    def known(self) -> KnownActivations:
        """Activations as a function of time; commands must not depend on the state."""
        return KnownActivations(self.model, np.atleast_2d(self.ctrl), self.duration, self.act0)

    def commands(self, t: Any, q: Any, v: Any) -> Array:
        """The commands (actuators,) at one time and state, or (m, actuators) at m of them."""
        if callable(self.ctrl):
            # copies: what a function does to its arguments is no motion
            answer = self.ctrl(t, np.array(q, subok=True), np.array(v, subok=True))
            if is_batched(self.ctrl) and np.ndim(q) > 1:
                return _many_commands(self.model, answer, len(q))
            return _commands(self.model, answer, table=False)
        if self.ctrl.ndim == 1:
            return np.asarray(self.ctrl)
        # a traced time has no row: such runs are not compiled
        return np.asarray(self.commands_over(np.array([float(t)]))[0])

    def commands_over(self, t: Array) -> Array:
        """Commands (m, actuators) at m times, where no function finds them."""
        if self.ctrl.ndim == 1:
            return np.broadcast_to(self.ctrl, (len(t), len(self.ctrl)))
        rows = (t / self.duration * len(self.ctrl)).astype(int)
        return np.asarray(self.ctrl[np.clip(rows, 0, len(self.ctrl) - 1)])

    @property
    def answers_over_time(self) -> bool:
        """Whether forces at many states are found in one call: commands are known, and nothing depends on the past."""
        return not callable(self.ctrl) and self.ctrl.dtype != object and not self.model.activations

    def forces_over(self, t: Array, q: Array, v: Array) -> Array:
        """Joint forces (m, nv) at m times and states, where they :attr:`answer over time <answers_over_time>`."""
        return np.asarray(self.forces(q, v, self.commands_over(t)))

    @cached_property
    def _tree(self) -> Skeleton:
        return skeleton(self.model)

    @cached_property
    def forces(self) -> Any:
        """Joint forces (..., nv) of (q, v, ctrl), and of activations where there are some."""
        return shared_functions(self.model).actuator_forces


def _commands(model: Model, given: Any, *, table: bool = True) -> Array:
    """Commands (actuators,) as numbers, or a table (n, actuators) where that is allowed."""
    names = [actuator.name for actuator in model.actuators]
    if isinstance(given, Mapping):
        for name in given:
            if name not in names:
                raise NameLookupError("actuator", name, names, where=f"model {model.name!r}")
        given = [given.get(name, 0.0) for name in names]
    try:
        ctrl = np.asarray(given)
    except ValueError:
        raise ShapeError(f"ctrl holds rows of different lengths: model {model.name!r} has actuators {names}") from None
    if given is None:
        raise ShapeError(
            f"ctrl: the function returned None: model {model.name!r} has actuators {names}. Does it end with return?"
        )
    if ctrl.dtype.kind not in "fiubO" or any(isinstance(x, str | complex) or callable(x) for x in _odd(ctrl)):
        raise ScalarError(
            f"ctrl is {quote(given)}, expected real numbers: model {model.name!r} has actuators {names}; commands over "
            f"time are one function of (t, q, v) that returns all of them"
        )
    ctrl = ctrl.astype(float) if ctrl.dtype != object else ctrl
    if ctrl.ndim not in ((1, 2) if table else (1,)) or ctrl.shape[-1] != len(names) or not len(ctrl):
        shape = f"({len(names)},)" + (f" or (n, {len(names)})" if table else "")
        raise ShapeError(f"ctrl has shape {ctrl.shape}, expected {shape}: model {model.name!r} has actuators {names}")
    return ctrl


def _odd(ctrl: Array) -> list[Any]:
    """The entries that may be anything: those of an array of objects."""
    return list(ctrl.flat) if ctrl.dtype == object else []


def _many_commands(model: Model, given: Any, states: int) -> Array:
    """Commands (m, actuators), one row for each state."""
    ctrl, count = np.asarray(given), len(model.actuators)
    if ctrl.shape != (states, count):
        names = [actuator.name for actuator in model.actuators]
        raise ShapeError(
            f"ctrl: the batched function returned shape {ctrl.shape} for {states} states, expected "
            f"{(states, count)}: model {model.name!r} has actuators {names}"
        )
    return ctrl.astype(float) if ctrl.dtype != object else ctrl


def limited(controller: Controller, model: Model, limits: Mapping[str, float] | None = None) -> Controller:
    """A controller whose forces stay within what the motors can give.

    Args:
        controller: whose forces are cut.
        model: its joints' ``effort_limit`` applies, to each freedom of a joint.
        limits: by name of joint, N m or N; replaces the joint's own.
    """
    require_arguments("limited: the controller", controller, *STATE)
    most = np.full(model.nv, np.inf)
    for joint in model.joints:
        most[model.slice(joint.name)] = joint.effort_limit
    for name, limit in (limits or {}).items():
        most[model.slice(name)] = limit

    def act(t: Any, q: Any, v: Any) -> Any:
        tau = np.asarray(controller(t, q, v))
        if tau.dtype != object:
            return np.clip(tau, -most, most)
        cut = np.empty(tau.shape, dtype=object)
        for place in np.ndindex(tau.shape):
            limit = most[place[-1]]
            cut[place] = between(tau[place], -limit, limit) if np.isfinite(limit) else tau[place]
        return cut

    return batched(act) if is_batched(controller) else act


def between(x: Any, lowest: Any, highest: Any) -> Any:
    """x, or the limit that it passes; ``np.clip`` for one number of any scalar type."""
    return scalars.clip(x, lowest, highest)


def _simple(model: Model, joint: str) -> tuple[int, int]:
    """Where the velocity and the coordinate of a joint of one freedom are."""
    place, coordinate = model.slice(joint), model.q_slice(joint)
    if place.stop - place.start != 1:
        raise ShapeError(f"joint {joint!r} of model {model.name!r} has {place.stop - place.start} freedoms, expected 1")
    return place.start, coordinate.start


def _only(model: Model, place: int, force: Any) -> Array:
    """A force on one velocity and nothing on all others, (nv,)."""
    tau = zeros(model.nv)
    tau[place] = force
    return tau
