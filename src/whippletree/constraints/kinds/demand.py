"""Demands of constraints as data: a residual with named rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any, Literal, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError, did_you_mean
from whippletree.model import Constraint, constraint_syntax


@dataclass(frozen=True)
class Demand:
    """The demand of a constraint.

    ``residual(poses, t)`` for frames, ``residual(coordinates, t)`` for joints, ``residual(poses, twists, t)`` at
    velocity level; each returns an array with one entry per row. Massless motions have equations of their own.
    """

    level: Literal["position", "velocity"]
    on: Literal["frames", "joints", "massless"]
    rows: tuple[str, ...]
    units: tuple[str, ...]
    residual: Callable[..., Array]
    timed: bool = False
    """Whether the residual depends on time."""
    carried: bool = False
    """Whether a residual of frames takes one more pose, first of all: that of the body that carries all frames, in axes
    that are those of the world at zero coordinates."""
    in_world: bool = False
    """Whether a residual of frames sees where they are in the world, and not only where they are to each other."""
    of_point: bool = False
    """Whether a residual of two frames depends on one point only: the second origin, in the axes of the first frame."""
    of_pose: bool = False
    """Whether a residual of two frames depends on one pose only: that of the second frame in the first."""


Demands: TypeAlias = tuple[Demand, ...]


def function_of(c: Constraint, word: str) -> Callable[..., Any]:
    """A parameter that must be a Python function; where it fails, the error names the constraint."""
    function = c.parameters.get(word)
    if not callable(function):
        raise ModelError(f"constraint {c.name!r}", [f"kind {c.kind!r} needs {word}=, a plain NumPy function"])

    def checked_function(*arguments: Any) -> Any:
        try:
            result = function(*arguments)
            if any(x is None or isinstance(x, (str, bytes)) for x in np.asarray(result, dtype=object).flat):
                raise TypeError(f"it returns {result!r}, which is not a number")
        except Exception as error:
            raise ModelError(
                f"constraint {c.name!r}",
                [
                    f"its function {word} failed with {type(error).__name__}: {error}. It is differentiated, so it may "
                    f"use + - * / @, powers and np.sin, cos, sqrt, arctan2, exp, log, tanh, maximum, minimum, clip and "
                    f"where, and must not branch on values"
                ],
            ) from error
        return result

    return checked_function


# --- Constraints with rows left out by name (the parameter ``without``), as :func:`wt.without_rows` makes them --------


def select_rows(c: Constraint, demands: Demands) -> Demands:
    """The demand of a constraint without the rows that its parameter ``without`` names."""
    without = tuple(c.parameters.get("without", ()))
    known = [row for demand in demands for row in demand.rows]
    for row in without:
        if row not in known:
            hint = did_you_mean(row, known)
            raise ModelError(
                f"constraint {c.name!r}", [f"without: there is no row {row!r}; it has {', '.join(known)}{hint}"]
            )
    if not without:
        return demands
    chosen = tuple(d for d in (_restrict(demand, without) for demand in demands) if d.rows)
    if not chosen:
        raise ModelError(f"constraint {c.name!r}", ["without: every row is left out; remove the constraint"])
    return chosen


def _restrict(demand: Demand, without: tuple[str, ...]) -> Demand:
    kept = [i for i, row in enumerate(demand.rows) if row not in without]

    def residual(*state: Any) -> Array:
        return demand.residual(*state)[kept]

    rows, units = (tuple(words[i] for i in kept) for words in (demand.rows, demand.units))
    return replace(demand, rows=rows, units=units, residual=residual)


# --- Whether a constraint is written as it must be: known words, numbers that are numbers, and two different ends -----


VECTORS = ("axis", "second_axis", "direction", "normal")
SCALARS = ("length", "radius", "offset", "compliance")
LISTS = ("ratios", "coefficients")


FORMATS = {"mjcf": "MuJoCo", "sdf": "SDF"}
"""First word of kinds that files keep and nobody here evaluates."""


def kind_fault(c: Constraint) -> str:
    """Why a constraint of a kind that is not among the known ones cannot be evaluated, and what to do."""
    if c.kind == "unresolved_coupling":
        cause = f"its file lacks the joint {c.parameters.get('leader')!r} that {', '.join(map(repr, c.on))} mimics"
        return f"{cause}: correct the file, or use model.tree, which has no constraints"
    known = ", ".join(constraint_syntax.KINDS)
    if name := FORMATS.get(c.kind.partition("_")[0]):
        return f"only {name} knows {c.kind!r}: say the same in a kind that is known ({known}), or use model.tree"
    return f"unknown kind {c.kind!r}; known: {known}{did_you_mean(c.kind, constraint_syntax.KINDS)}"


def spelling_faults(c: Constraint) -> list[str]:
    """Faults in the words and numbers of a constraint, before anything is known of its model."""
    if c.kind not in constraint_syntax.KINDS:
        return []
    words = constraint_syntax.parameters_of(c.kind)
    faults = [
        f"kind {c.kind!r} has no parameter {word!r}; known: {', '.join(words)}{did_you_mean(word, words)}"
        for word in c.parameters
        if word not in (*words, *constraint_syntax.JOINT_DATA)
    ]
    faults += [fault for word, value in c.parameters.items() if (fault := _number_fault(word, value))]
    if not c.on:
        faults.append(f"it names no {constraint_syntax.KINDS[c.kind].on}")
    if c.kind not in constraint_syntax.MANY_FRAMES and len(c.on) == 2 and c.on[0] == c.on[1]:
        faults.append(f"it ties {c.on[0]!r} to itself: name two different {constraint_syntax.KINDS[c.kind].on}")
    return faults


def _number_fault(word: str, value: Any) -> str:
    """The fault of a number or of a list of numbers; empty if there is none."""
    if value is None or word not in (*VECTORS, *SCALARS, *LISTS):
        return ""
    numbers = list(np.asarray(value, dtype=object).flat)
    if not all(isinstance(x, Number) and not isinstance(x, complex) for x in numbers):
        return f"{word} {value!r} must be numbers"
    if word in VECTORS and len(numbers) != 3:
        return f"{word} {value!r} must have three numbers"
    if word in LISTS and np.ndim(np.asarray(value, dtype=object)) > 1:
        return f"{word} {value!r} must be a list of numbers, without lists inside"
    if word in SCALARS and np.ndim(value) != 0:
        return f"{word} {value!r} must be one number"
    if not numbers:
        return f"{word} must not be empty"
    if not all(np.isfinite(float(x)) for x in numbers):
        return f"{word} {value!r} must be finite"
    return ""
