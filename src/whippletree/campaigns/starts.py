"""Start states of many runs that close their loops, with the coordinates that a sweep sets left where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.campaigns.targets import Target
from whippletree.compiler.bound import Bound
from whippletree.compiler.compiled import Compiled
from whippletree.constraints.assembly import assemble
from whippletree.constraints.constraint_set import constraint_set
from whippletree.simulation.motion import Motion

WAYPOINTS = 8
"""Steps in which coordinates that a sweep sets go from where the model closes to their values, so that the other joints
follow the branch on which it does."""

CLOSING_STEPS = 6
"""At each of them, and at the end as often again before a run is assembled by itself, with more patience."""

LARGEST_CORRECTION = 0.5
"""rad or m by which one step may move a joint: farther away the tangent says little."""

CLOSED_START = 1e-11
"""Residual, m or rad, at which a start counts as closed: that of ``wt.assemble``."""


def close_starts(dyn: Compiled, opened: Mapping[str, Array], q: Array, home: Array, held: Sequence[Target]) -> Array:
    """Coordinates (runs, nq) that close every loop, with those that ``held`` names as they are in ``q``.

    All runs go together from the start that they share, ``home`` (nq,), by Newton's method. Runs that do not close this
    way are assembled one by one.

    Raises:
        AssemblyError: a run whose loops cannot close.
    """
    closing = _Closing(Motion(Bound(dyn, opened) if opened else dyn), held)
    now = np.tile(home, (len(q), 1))
    goal = np.asarray(closing.motion.dyn.difference(now, q))
    for _ in range(WAYPOINTS if held else 0):
        now, _ = closing.closed(np.asarray(closing.motion.dyn.integrate(now, goal / WAYPOINTS)))
    now[:, closing.places] = q[:, closing.places]
    now, left = closing.closed(now)
    if len(left):
        now, left = closing.closed(now)
    for k in left.tolist():
        alone = closing.motion.of_run(k).model
        hold = {target.name: q[k, alone.q_slice(target.name)] for target in held}
        now[k] = assemble(alone, home, hold=hold)
    return now


class _Closing:
    """Newton's method on the position rows of many runs, with some joints held."""

    def __init__(self, motion: Motion, held: Sequence[Target]) -> None:
        self.motion = motion
        model, system = motion.model, constraint_set(motion.model)
        self.moving = np.ones(model.nv, dtype=bool)
        self.places: list[int] = []
        for target in held:
            self.moving[model.slice(target.name)] = False
            part = model.q_slice(target.name)
            self.places += range(part.start, part.stop)
        rigid = [(k, i) for k, i in enumerate(system.position_rows) if not system.compliance[i]]
        self.residuals, self.rows = [k for k, _ in rigid], [i for _, i in rigid]

    def closed(self, q: Array) -> tuple[Array, Array]:
        """Coordinates after a few steps, and which runs are open still."""
        q, left = np.array(self.motion.normalised(q)), np.arange(len(q))
        for _ in range(CLOSING_STEPS):
            own = self.motion.of_runs(left)
            g = own.evaluate("constraint_residual", q=q[left], t=np.zeros(len(left)))[:, self.residuals]
            still = ~(np.abs(g).max(axis=1, initial=0.0) <= CLOSED_START)
            left, g = left[still], g[still]
            if not len(left):
                break
            own = self.motion.of_runs(left)
            A = own.evaluate("constraint_jacobian", q=q[left], t=np.zeros(len(left)))[:, self.rows]
            step = np.zeros((len(left), len(self.moving)))
            step[:, self.moving] = -np.einsum("rnm,rm->rn", np.linalg.pinv(A[:, :, self.moving]), g)
            far = np.abs(step).max(axis=1, keepdims=True, initial=0.0)
            step *= np.minimum(1.0, LARGEST_CORRECTION / np.maximum(far, LARGEST_CORRECTION))
            q[left] = np.asarray(own.dyn.integrate(q[left], step))
        return q, left
