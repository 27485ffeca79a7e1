"""Constraints with rows left out by name (the parameter ``without``), as :func:`wt.without_rows` makes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whippletree.constraints.demand import Demand, Demands
from whippletree.errors import ModelError, did_you_mean
from whippletree.model import Constraint
from whippletree.spatial import Array


def selected(c: Constraint, demands: Demands) -> Demands:
    """What a constraint demands without the rows that its parameter ``without`` names."""
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
    chosen = tuple(d for d in (_restricted(demand, without) for demand in demands) if d.rows)
    if not chosen:
        raise ModelError(f"constraint {c.name!r}", ["without: every row is left out; remove the constraint"])
    return chosen


def _restricted(demand: Demand, without: tuple[str, ...]) -> Demand:
    kept = [i for i, row in enumerate(demand.rows) if row not in without]

    def residual(*state: Any) -> Array:
        return demand.residual(*state)[kept]

    rows, units = (tuple(words[i] for i in kept) for words in (demand.rows, demand.units))
    return replace(demand, rows=rows, units=units, residual=residual)
