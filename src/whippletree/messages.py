"""Texts of errors that more than one layer raises."""

from __future__ import annotations

from collections.abc import Mapping

from whippletree.model import Model

VELOCITY_SPACE = ("v", "a", "tau", "given", "b", "d", "dq", "dv", "da", "dtau")
"""Inputs that have nv numbers."""


def shape_message(function: str, name: str, found: tuple[int, ...], expected: tuple[int, ...], model: Model) -> str:
    """The text of a ShapeError: where, what was found and expected, and the usual reason."""
    wanted = ", ".join(["...", *map(str, expected)])
    hint = shape_hints(model).get(name, "")
    return f"{function}: {name} has shape {found}, expected ({wanted}).{' ' if hint else ''}{hint}"


def shape_hints(model: Model) -> Mapping[str, str]:
    """For each input, why its length may surprise: a quaternion makes q longer than v."""
    longer = [j.name for j, t in zip(model.joints, model.joint_types, strict=True) if t.nq != t.nv]
    if not longer:
        return {}
    reason = f"Model {model.name!r} has nv = {model.nv} but nq = {model.nq}: joint {longer[0]!r} stores a quaternion."
    hints = dict.fromkeys(VELOCITY_SPACE, f"{reason} Velocities and forces live in velocity space: pass nv numbers.")
    return {"q": f"{reason} Coordinates include the quaternion: pass nq numbers.", **hints}
