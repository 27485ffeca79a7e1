"""Whole trajectories as one kernel: a loop over time steps around the same dynamics that single evaluations use.

The state lives in work memory, so nothing is handed back to Python between steps:

    state, status and number of steps at their start
    for each output row:
        for each step of the row:        (only where rows are further apart than steps)
            the step of the method       (:mod:`whippletree.compiler.rollout.rollout_steps`)
            back to the constraints      (``STEP_CORRECTIONS`` corrections of q, one of v)
            is the state still good?     (in the last block of a step)
        write the row
    write status and number of good steps

A state that has failed is NaN from that step on, in its row and in all later ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.compiler.call_shapes import convert
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Buffer, Loop, Program, Statement
from whippletree.compiler.rollout.activation_steps import refuse_held_activations, refuse_idle_activations
from whippletree.compiler.rollout.rollout_blocks import (
    NOT_CLOSED,
    NOT_CONVERGED,
    NOT_FINITE,
    ROW,
    STEP,
    RolloutBlocks,
    has_passive_forces,
)
from whippletree.compiler.rollout.rollout_steps import CLOSED_STEP, STEP_CORRECTIONS, STEPS, settle_on_constraints
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.failures import failure
from whippletree.errors import NameLookupError, ShapeError, UnsupportedError
from whippletree.model import Model
from whippletree.model.parameters import find_parameter, opens_joints
from whippletree.tree.skeleton import Skeleton, skeleton

if TYPE_CHECKING:
    from whippletree.compiler.rollout.long_rollouts import LongPlan

METHODS = tuple(STEPS)

LOOPS_BEYOND = 48
"""Moving bodies up to which roll-outs are unrolled even where they could loop."""

Controller = Callable[[Any, Any, Any], Any]
"""tau = f(t, q, v) (nv,), on any scalar."""


@dataclass(frozen=True)
class Plan:
    """Plan of a roll-out; two equal plans of one model are one program."""

    method: str
    given: bool = True
    """Whether joint forces over each row are an input, ``tau`` (T, nv); else they are the controller's, or none."""
    controller: Controller | None = None
    commands: bool = False
    """Whether commands of the actuators over each row are an input, ``ctrl`` (T, actuators)."""
    passive: bool = True
    """Whether springs and dampers of the joints act."""
    spaced: bool = False
    """Whether a row takes several steps, as many as the input ``offsets`` has entries."""
    iterations: int = 12
    """Rounds that an implicit method iterates in each step."""


def rollout_program(model: Model, method: str | Plan, parameters: Sequence[str] = ()) -> Program:
    """(q0, v0, …, dt, …) → (q (T, nq), v (T, nv), status, steps): the states after each of T rows of steps.

    Inputs, in this order; those in brackets only where the plan or the model needs them:

        q0, v0              the start, (nq,) and (nv,)
        [tau]               joint forces over each row, (T, nv)
        [ctrl]              commands of the actuators over each row, (T, actuators)
        dt                  length of a step, s
        [clock]             when each row starts, s, (T,)
        [offsets]           when each step of a row starts, counted from the row, s, (K,)
        [active]            which switchable constraints are on, (switches,)
        parameters …        open ones, in their order

    ``status`` is 0, or what stopped this state (:func:`explain`); ``steps`` counts the good ones before.

    Raises:
        NameLookupError: if there is no such method.
        UnsupportedError: if the method cannot honour the model's constraints.
    """
    plan = method if isinstance(method, Plan) else Plan(method)
    if plan.method not in STEPS:
        raise NameLookupError("integrator", plan.method, METHODS)
    _refuse(model, plan)
    arguments = _arguments(model, plan, parameters)
    if loops(model, plan, parameters):
        from whippletree.compiler.rollout.long_rollouts import looped_rollout

        return looped_rollout(skeleton(model), _long_plan(model, plan, parameters), arguments)
    return _program(model, plan, RolloutBlocks(model, plan.passive, plan.controller, arguments))


def loops(model: Model, plan: Plan, parameters: Sequence[str] = ()) -> bool:
    """Whether a roll-out runs as loops: a large model, by an explicit method, whose dynamics is a loop."""
    if plan.method == "implicit_midpoint" or len(skeleton(model).nodes) <= LOOPS_BEYOND:
        return False
    from whippletree.compiler.rollout.long_rollouts import runs_as_loops

    return runs_as_loops(model, _long_plan(model, plan, parameters))


def _long_plan(model: Model, plan: Plan, parameters: Sequence[str]) -> LongPlan:
    from whippletree.compiler.rollout.long_rollouts import LongPlan

    passive = plan.passive and (has_passive_forces(model) or opens_joints(parameters))
    return LongPlan(plan.method, passive, plan.spaced, plan.controller, tuple(parameters))


def _refuse(model: Model, plan: Plan) -> None:
    kinds = {c.kind: c.name for c in model.constraints}
    relaxed = kinds.get("relax", kinds.get("rest"))
    if relaxed is not None and (plan.given or plan.controller is not None or plan.method == "implicit_midpoint"):
        raise UnsupportedError(
            f"rollout: {relaxed!r} lets forces decide the velocity of a massless motion, which fixed steps of "
            f"{plan.method} do not follow: use wt.simulate with its adaptive method"
        )
    refuse_compliant_rows(model, plan.method)


def refuse_compliant_rows(model: Model, method: str) -> None:
    """Raise where a method, compiled or not, would leave out the give of the model's constraints."""
    if method == "implicit_midpoint" and any(constraint_set(model).compliance):
        raise UnsupportedError(
            f"rollout: model {model.name!r} has compliant constraints, which implicit_midpoint does not honour: use rk4"
        )


def _arguments(model: Model, plan: Plan, parameters: Sequence[str]) -> list[Buffer]:
    nq, nv = model.nq, model.nv
    timed, switches = False, 0
    if model.constraints:
        timed, switches = constraint_set(model).timed, len(constraint_set(model).switches)
    inputs: dict[str, tuple[int | str, ...]] = {"q0": (nq,), "v0": (nv,)}
    if plan.given:
        inputs["tau"] = ("T", nv)
    if plan.commands:
        inputs["ctrl"] = ("T", len(model.actuators))
    inputs["dt"] = ()
    if not plan.given or timed:
        inputs["clock"] = ("T",)
    if plan.spaced:
        inputs["offsets"] = ("K",)
    if switches:
        inputs["active"] = (switches,)
    inputs |= {path: find_parameter(model, path).shape for path in parameters}
    outputs: dict[str, tuple[int | str, ...]] = {"q": ("T", nq), "v": ("T", nv)}
    return [
        *[Buffer(name, "input", shape) for name, shape in inputs.items()],
        *[Buffer(name, "output", shape) for name, shape in outputs.items()],
        Buffer("status", "output", (), integer=True),
        Buffer("steps", "output", ()),
    ]


def _program(model: Model, plan: Plan, blocks: RolloutBlocks) -> Program:
    nq, nv = model.nq, model.nv
    blocks.work("state", nq + nv)
    blocks.work("progress", 2)
    begin = blocks.plain(["q0", "v0"], lambda q0, v0: [q0, v0, 0, 0], ["state", "progress"])
    step: list[Statement] = [*STEPS[plan.method](blocks, plan.iterations)]
    if model.constraints:
        step += settle_on_constraints(blocks, closing=plan.method != "implicit_midpoint")
    row = [Loop(STEP, "K", tuple(step))] if plan.spaced else step
    record = blocks.plain(["state"], lambda state: [state], ["q", "v"])
    end = blocks.plain(["progress"], lambda progress: [progress], ["status", "steps"])
    body = (begin, Loop(ROW, "T", (*row, record)), end)
    buffers = [b for b in blocks.buffers.values() if b.role != "work" or b.size]
    return Program(f"rollout_{plan.method}", tuple(buffers), body)


def explain(tree: Skeleton, method: str, status: int) -> str:
    """Meaning of a status that is not zero."""
    words = {
        NOT_FINITE: "the state is no longer finite: the forces grow without bound, or the steps",
        NOT_CLOSED: f"constraints stay open by more than {CLOSED_STEP:g} after {STEP_CORRECTIONS} corrections: "
        "the steps",
        NOT_CONVERGED: "the iteration did not converge: for its springs and speeds, the steps",
    }
    kind = status - len(tree.nodes)
    if kind in words:
        return f"model {tree.model.name!r}: {words[kind]} of {method} are too long"
    return str(failure(tree, status - 1, {}))


def _require_plan(method: Any, iterations: Any) -> None:
    """Refuse a method that does not exist, and rounds that cannot be counted."""
    if method not in METHODS:
        raise NameLookupError("integrator", method, METHODS, where="rollout")
    if isinstance(iterations, bool) or not isinstance(iterations, int | np.integer) or iterations < 1:
        raise ValueError(f"rollout: iterations is {iterations!r}, expected a whole number of at least 1")


def commands_and_forces(model: Model, name: str, ctrl: Any, tau: Any) -> tuple[Any, Any]:
    """Commands and joint forces of a roll-out; forces of 0 where only commands are given.

    Raises:
        UnsupportedError: commands for a model without actuators; a model in which nothing can move.
        ShapeError: commands whose last dimensions are not (T, actuators), or neither of both.
    """
    if not model.nv:
        raise UnsupportedError(f"{name}: nothing can move in model {model.name!r}: use wt.simulate, or give it a joint")
    if ctrl is None:
        if tau is None:
            raise ShapeError(f"{name}: tau is None, expected (..., T, {model.nv}), or commands as ctrl=")
        return None, tau
    count, shape = len(model.actuators), np.shape(ctrl)
    if not count:
        raise UnsupportedError(f"{name}: ctrl is given, but model {model.name!r} has no actuators: use tau")
    if len(shape) < 2 or shape[-1] != count:
        raise ShapeError(f"{name}: ctrl has shape {shape}, expected (..., T, {count}) for model {model.name!r}")
    return ctrl, np.zeros((shape[-2], model.nv)) if tau is None else tau


def _clock(t: Any, dt: Any, tau: Any) -> Any:
    """When each step starts, s, (..., T); what is wrong with the shape of tau is found where all shapes are."""
    scalar = Buffer("t", "input", ()), Buffer("dt", "input", ())
    start, step = convert("rollout", scalar, (t, dt), np.dtype(np.float64))
    shape = np.shape(tau)
    return start[..., None] + step[..., None] * np.arange(shape[-2] if len(shape) > 1 else 0)


class Rollout:
    """``dyn.rollout``: whole trajectories in one call. ``status`` and ``steps`` tell of the last one."""

    def __init__(
        self,
        tree: Skeleton,
        function: Callable[[Plan], NamedFunction],
        activate: Callable[[str, Any, Any, Any], tuple[Any, Any]],
    ) -> None:
        """``activate``: drives and activations of (what, ctrl, act, dt), for models that have some."""
        self.status: Any = None
        """Of each state of the last call: 0, or what stopped it."""
        self.steps: Any = None
        """Good steps of each state of the last call."""
        self._tree = tree
        self._function, self._activate = function, activate

    def __call__(
        self,
        q0: Any,
        v0: Any,
        tau: Any,
        dt: Any,
        *opened: Any,
        ctrl: Any = None,
        act: Any = None,
        method: str = "semi_implicit_euler",
        t: Any = 0.0,
        active: Any = None,
        passive: bool = True,
        iterations: int = Plan.iterations,
    ) -> tuple[Any, Any]:
        """Step through time.

        Args:
            q0, v0: start states that meet the constraints, (..., nq) and (..., nv).
            tau: joint forces over each step, (..., T, nv), or None with ``ctrl``; springs and dampers act beside them.
            dt: length of a step, s, (...). A negative one goes back in time; with 0 the states stay where they are, but
                for what brings them onto the constraints.
            opened: open parameters, in their order.
            ctrl: commands of the actuators over each step, (..., T, actuators); default: they do nothing. Their forces
                are those of the states at which the method asks for them.
            act: activations of the actuators at the start, (..., activations); default 0. ``dyn.activations`` tells
                what becomes of them. They act in ``semi_implicit_euler`` only.
            method: ``semi_implicit_euler`` (first order), ``rk4`` (fourth order) or ``implicit_midpoint`` (second
                order, bounded energy error); each step ends on the constraints.
            t: when the roll-outs start, s, (...), for constraints that depend on time.
            active: which switchable constraints are on, (..., switches); default all.
            passive: whether springs and dampers of the joints act.
            iterations: rounds that ``implicit_midpoint`` iterates in each step.

        Returns:
            (q, v): the states after each step, (..., T, nq) and (..., T, nv). A state that fails is NaN from that step
            on, with a RuntimeWarning; ``status`` and ``steps`` tell what and when.
        """
        _require_plan(method, iterations)
        ctrl, tau = commands_and_forces(self._tree.model, "rollout", ctrl, tau)
        if ctrl is not None and self._tree.model.activations:
            refuse_held_activations(self._tree.model, method)
            ctrl, _ = self._activate("rollout", ctrl, act, dt)
        elif act is not None:
            refuse_idle_activations(self._tree.model, "rollout", act)
        plan = Plan(method, commands=ctrl is not None, passive=bool(passive), iterations=int(iterations))
        function = self._function(plan)
        named = {"q0": q0, "v0": v0, "tau": tau} | ({} if ctrl is None else {"ctrl": ctrl}) | {"dt": dt}
        if "clock" in function.inputs:
            named["clock"] = _clock(t, dt, tau)
        if "active" in function.inputs:
            named["active"] = np.ones(len(constraint_set(self._tree.model).switches)) if active is None else active
        left = function.inputs[len(named) :]
        if len(opened) != len(left):
            expected = f"{len(left)} ({', '.join(left)})" if left else "none"
            raise TypeError(f"rollout: {len(opened)} open parameters were given after dt, expected {expected}")
        parameters = dict(zip(left, opened, strict=True))
        with np.errstate(all="ignore"):  # a state that grows without bound is told by its status
            q, v, self.status, self.steps = function(**named, **parameters)
        if isinstance(self.status, (np.ndarray, np.integer)) and np.any(self.status):
            self._warn(method)
        return q, v

    def _warn(self, method: str) -> None:
        failed = np.argwhere(self.status)
        place = tuple(int(i) for i in failed[0])
        when = int(np.asarray(self.steps)[place])
        warnings.warn(
            f"{len(failed)} of {np.size(self.status)} roll-outs failed and are NaN from there on (rollout.status, "
            f"rollout.steps); the first is {place}, after {when} steps: "
            f"{explain(self._tree, method, int(np.asarray(self.status)[place]))}",
            RuntimeWarning,
            stacklevel=3,
        )
