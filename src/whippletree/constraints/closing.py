"""``wt.assemble`` and consistent start states: what a user asks of :mod:`whippletree.constraints.assembly`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from whippletree.constraints.assembly import TOLERANCE, Closure, close_loops
from whippletree.constraints.system import constraint_set
from whippletree.errors import ShapeError
from whippletree.model import Array, Model, State
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton


def assemble(
    model: Model,
    guess: Any = None,
    *,
    hold: Mapping[str, Any] | None = None,
    tolerance: float = TOLERANCE,
    t: float = 0.0,
) -> Array:
    """Coordinates q (nq,) near a guess that close every loop: all rigid position rows within ``tolerance``.

    Args:
        model: with or without constraints.
        guess: where to start, (nq,); default: the model's own start.
        hold: joints by name whose coordinates are set to these values and do not move: ``{"crank": 0.3}``.
        tolerance: largest residual of a row, m or rad.
        t: time, for constraints that depend on it.

    Returns:
        q (nq,). Joints that no row asks to move stay where the guess put them. Switchable constraints are closed too.

    Raises:
        AssemblyError: if some loop cannot close; names the constraints, and by how much they stay open.
    """
    start = (model.start or model.neutral).q if guess is None else guess
    q = np.array(start, dtype=float)
    if q.shape != (model.nq,):
        raise ShapeError(f"assemble: guess has shape {q.shape}, expected ({model.nq},)")
    return close_loops(Closure(_mechanism(model), constraint_set(model).demands, t), q, hold or {}, tolerance)


def home_state(model: Model, start: State) -> State:
    """The start state with its loops closed; a start that is closed already keeps its exact numbers."""
    q = np.array(start.q, dtype=float)
    closure = Closure(_mechanism(model), constraint_set(model).demands)
    g = closure.residual(q)
    if not g.size or np.abs(g).max() <= TOLERANCE:
        return start
    closed = close_loops(closure, q, {}, TOLERANCE)
    closed.setflags(write=False)
    return State(closed, start.v)


def _mechanism(model: Model) -> Mechanism:
    return Mechanism(skeleton(model))
