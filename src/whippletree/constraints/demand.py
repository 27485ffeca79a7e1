"""What a constraint asks for, as data: a residual with named rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from whippletree.errors import ModelError
from whippletree.model import Constraint
from whippletree.spatial import Array


@dataclass(frozen=True)
class Demand:
    """What a constraint asks for.

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


Demands: TypeAlias = tuple[Demand, ...]


def function_of(c: Constraint, word: str) -> Callable[..., Any]:
    """A parameter that must be a Python function; where it fails, the error names the constraint."""
    function = c.parameters.get(word)
    if not callable(function):
        raise ModelError(f"constraint {c.name!r}", [f"kind {c.kind!r} needs {word}=, a plain NumPy function"])

    def guarded(*arguments: Any) -> Any:
        try:
            result = function(*arguments)
            if any(x is None or isinstance(x, (str, bytes)) for x in np.asarray(result, dtype=object).flat):
                raise TypeError(f"it returns {result!r}, which is not a number")
        except Exception as error:
            raise ModelError(
                f"constraint {c.name!r}",
                [
                    f"its function {word} failed with {type(error).__name__}: {error}. It is differentiated, so it may "
                    f"use + - * / @, integer powers and np.sin, cos, sqrt and arctan2, and must not branch on values"
                ],
            ) from error
        return result

    return guarded
