"""Kinds of constraints on joints: residuals of joint coordinates or rates. The table is in :mod:`.kinds`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.user_functions import called
from whippletree.constraints.kinds.demand import Demand, Demands, function_of
from whippletree.errors import ModelError
from whippletree.model import Constraint


def coupling(c: Constraint) -> Demands:
    """One joint coordinate is a polynomial of another: 1 row, y − Σ cₖ xᵏ for joints (y, x); y − c₀ for one joint."""
    coefficients = [*np.atleast_1d(np.asarray(c.parameters.get("coefficients", (0, 1)), dtype=object))]
    if len(c.on) not in (1, 2):
        raise ModelError(
            f"constraint {c.name!r}", [f"a coupling ties one or two joints (y, x), got {len(c.on)}: {c.on}"]
        )

    def residual(coordinates: Sequence[Any], t: Any) -> Array:
        value: Any = 0
        for k in reversed(coefficients):
            value = value * (coordinates[1] if len(coordinates) > 1 else 0) + k
        return vector(coordinates[0] - value)

    return (Demand("position", "joints", ("coupling",), ("rad or m",), residual),)


def gear(c: Constraint) -> Demands:
    """A weighted sum of joint coordinates is fixed, as by gears or a differential: 1 row, Σ ratioₖ qₖ − offset."""
    given = c.parameters.get("ratios")
    ratios = () if given is None else tuple(np.atleast_1d(np.asarray(given, dtype=object)))
    offset = c.parameters.get("offset", 0)
    if len(ratios) != len(c.on) or not any(r != 0 for r in ratios):
        raise ModelError(
            f"constraint {c.name!r}",
            [f"a gear needs one ratio per joint, not all zero: got ratios {given} for joints {c.on}"],
        )

    def residual(coordinates: Sequence[Any], t: Any) -> Array:
        total: Any = -offset
        for ratio, x in zip(ratios, coordinates, strict=True):
            total = total + ratio * x
        return vector(total)

    return (Demand("position", "joints", ("mesh",), ("rad or m",), residual),)


def prescribed(c: Constraint) -> Demands:
    """A joint coordinate follows ``motion(t)``: 1 row."""
    motion = function_of(c, "motion")

    def residual(coordinates: Sequence[Any], t: Any) -> Array:
        goal = called(motion, t)
        if len(goal) != 1:
            raise ModelError(f"constraint {c.name!r}", [f"motion(t) must be one number, got {len(goal)}"])
        return vector(coordinates[0] - goal[0])

    return (Demand("position", "joints", ("motion",), ("rad or m",), residual, timed=True),)


def hold(c: Constraint) -> Demands:
    """A joint, or one freedom (``component``) of a joint that has several, does not move: 1 velocity row.

    ``massless`` says that the row only holds a massless motion which nothing else carries: a contact may replace it.
    """
    on: Literal["joints", "massless"] = "massless" if "component" in c.parameters else "joints"
    return (Demand("velocity", on, ("rate",), ("rad/s or m/s",), lambda rates, t: vector(rates[0])),)


def relax(c: Constraint) -> Demands:
    """Dampers and springs decide the velocity of massless motions: 1 velocity row for each (relaxation.py)."""
    return _massless(c, "velocity", ("rad/s or m/s",))


def rest(c: Constraint) -> Demands:
    """Springs alone decide where massless motions stand: 1 position row for each (relaxation.py)."""
    return _massless(c, "position", ("rad or m",))


def _massless(c: Constraint, level: Literal["position", "velocity"], units: tuple[str, ...]) -> Demands:
    if "support" not in c.parameters:
        raise ModelError(f"constraint {c.name!r}", [f'kind {c.kind!r} is made by massless="relax", not by hand'])

    def residual(*state: Any) -> Array:
        raise NotImplementedError("rows of massless motions come from whippletree.constraints.massless_rows")

    rows = tuple(c.parameters["rows"])
    return (Demand(level, "massless", rows, units * len(rows), residual),)
