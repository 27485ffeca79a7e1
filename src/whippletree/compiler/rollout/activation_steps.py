"""Activations of actuators from step to step: their own small kernels, for they do not depend on the motion.

Roll-outs and steps take what comes out, the *drives* of the actuators (:mod:`whippletree.tree.actuation`), in the
place of commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Buffer, Loop, Program
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.rollout_blocks import ROW
from whippletree.errors import ShapeError, UnsupportedError, list_items
from whippletree.model import Model
from whippletree.tree.actuation import drives, next_activations

if TYPE_CHECKING:
    from whippletree.compiler.compiled_motion import CompiledMotion

NUMBERS = ("ctrl", "act0", "dt")
"""Inputs of the kernels."""


def activation_step_program(model: Model) -> Program:
    """(ctrl (actuators,), act0 (activations,), dt) → (drives (actuators,), act (activations,)): one step."""
    space = _space(model)
    step = traced_block(_step(model), space.each(NUMBERS), space.each(["drives", "act"]))
    return space.program("activation_step", [step])


def activation_rows_program(model: Model) -> Program:
    """(ctrl (T, actuators), act0 (activations,), dt (T,)) → (drives (T, actuators), act (T, activations)): T steps."""
    space, step = _space(model, "T"), _step(model)
    space.work(now=(len(model.activations),))
    begin = traced_block(lambda act: [act], [space.at("act0")], [space.at("now")])

    def follow(ctrl: Array, act: Array, h: Any) -> list[Array]:
        driven, after = step(ctrl, act, h)
        return [driven, after, after]

    reads = [space.at("ctrl", ROW), space.at("now"), space.at("dt", ROW)]
    row = traced_block(follow, reads, [space.at("drives", ROW), space.at("act", ROW), space.at("now")])
    return space.program("activation_rows", [begin, Loop(ROW, "T", (row,))])


def _space(model: Model, *rows: str) -> WorkSpace:
    count, own = len(model.actuators), len(model.activations)
    space = WorkSpace()
    space.add(Buffer("ctrl", "input", (*rows, count)), Buffer("act0", "input", (own,)), Buffer("dt", "input", rows))
    space.add(Buffer("drives", "output", (*rows, count)), Buffer("act", "output", (*rows, own)))
    return space


def _step(model: Model) -> Callable[[Array, Array, Any], list[Array]]:
    return lambda ctrl, act, h: [drives(model, ctrl, act, h), next_activations(model, ctrl, act, h)]


def roll_activations(dyn: CompiledMotion, what: str, ctrl: Any, act: Any, dt: Any) -> tuple[Any, Any]:
    """Drives (..., T, actuators) of T steps and activations (..., T, activations) after each.

    Args:
        dyn: the functions of a model whose actuators have activations.
        what: the function that is asked for, for errors.
        ctrl: commands over each step, (..., T, actuators).
        act: at the start, (..., activations); default 0.
        dt: length of a step, s, (...).
    """
    count, shape = len(dyn.model.actuators), np.shape(ctrl)
    if len(shape) < 2 or shape[-1] != count:
        raise ShapeError(f"{what}: ctrl has shape {shape}, expected (..., T, {count}) for model {dyn.model.name!r}")
    lengths = np.repeat(np.asarray(dt)[..., None], shape[-2], axis=-1)
    found: tuple[Any, Any] = dyn.activation_steps(ctrl, checked_activations(dyn.model, what, act), lengths)
    return found


def checked_activations(model: Model, what: str, act: Any) -> Any:
    """Activations as given, or 0.

    Raises:
        UnsupportedError: some for a model that has none.
        ShapeError: another number of them than the model has.
    """
    count = len(model.activations)
    if act is None:
        return np.zeros(count)
    if np.shape(act)[-1:] == (count,):
        return act
    if not count:
        raise UnsupportedError(f"{what}: act is given, but no actuator of model {model.name!r} has an activation")
    raise ShapeError(
        f"{what}: act has shape {np.shape(act)}, expected (..., {count}): activations of {_names(model)} in model "
        f"{model.name!r}"
    )


def refuse_held_activations(model: Model, method: str) -> None:
    """Refuse roll-outs by a method whose order is lost where activations stand still over a step."""
    if model.activations and method != "semi_implicit_euler":
        raise UnsupportedError(
            f"rollout: actuators {_names(model)} of model {model.name!r} have activations, which would stand still in "
            f"the steps of {method!r}: use method='semi_implicit_euler', contact_rollout or step; wt.simulate "
            f"integrates them by every method"
        )


def refuse_idle_activations(model: Model, what: str, act: Any) -> None:
    """Refuse activations that nothing would move: of a model that has none, or without commands."""
    checked_activations(model, what, act)
    if model.activations:
        raise UnsupportedError(f"{what}: act is given without ctrl, and actuators do nothing without commands")


def _names(model: Model) -> str:
    return list_items([repr(model.actuators[k].name) for k in model.activations])
