"""Rates of the equations of motion at one point of a collocation step, as statements of its kernel.

A point has a state X and a time T. Its state is brought onto the constraints, Y, a controller may act there, and the
rates F of that state follow; ``doubt`` is raised where only the reference can judge a pivot.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from whippletree import functions
from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import less, maximum, select, sqrt
from whippletree.compiler.frontend.unrolled import traced_status
from whippletree.compiler.program import If, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.rollout_blocks import has_passive_forces
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.problem.cones import largest
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism

POINT, CLOSING = "point", "closing"
"""Counters of the loops over states and over corrections of positions."""

HUGE = 1e300
"""More than any residual, or change of an iteration."""


class RateBlocks(Protocol):
    """Rates of other equations of motion than those of the model alone."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Key that, with the model, says all about them."""

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Further arguments of the call, after the gains of an affine controller."""

    def statements(self, space: WorkSpace, controlled: bool, watched: bool) -> tuple[list[Statement], list[Statement]]:
        """Statements before a controller and after it: from the state X at a point and its time T to its rates F, and
        where ``ending`` is positive to the state Y on the constraints; ``doubt`` is raised where the reference has to
        decide. A controller reads q and v and writes tau; ``watched``: whether guards need more of each point."""


class ModelRates(RateBlocks):
    """The model's own equations of motion, under its constraints."""

    def __init__(self, model: Model, route: str | None, corrections: int) -> None:
        """``corrections``: of positions at a point, at most."""
        self.model, self.route = model, route
        self.corrections = corrections
        self.passive = has_passive_forces(model)

    @property
    def key(self) -> tuple[Any, ...]:
        """Nothing beside the model."""
        return ()

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """None but those of every call."""
        return {}

    def call(self, m: Mechanism, name: str, **state: Any) -> Any:
        """A function of the catalogue with the inputs that the model needs."""
        function = functions.find(name, self.model)
        return function.implementation(m, *[state[word] for word in function.inputs])

    def mechanism(self) -> Mechanism:
        return Mechanism(Mechanism.of(self.model).tree, route=self.route)

    def normalise(self, q: Array) -> Array:
        """Quaternions at unit length."""
        found = np.array(q, dtype=object)
        for part, kind in zip(self.model.q_slices, self.model.joint_types, strict=True):
            if kind.nq > kind.nv:
                own = slice(part.stop - 4, part.stop)
                found[own] = found[own] / sqrt(found[own] @ found[own])
        return found

    def gap(self, m: Mechanism, q: Array, t: Any, active: Any) -> Any:
        """The largest residual of a rigid position row."""
        rows = self.call(m, "constraint_residual", q=q, t=t, active=active)
        return largest([0, *[abs(rows[k]) for k in self.rigid_positions]])

    @property
    def rigid_positions(self) -> list[int]:
        """Position rows that are closed; a model that only rolls has none."""
        if not self.model.constraints:
            return []
        system = constraint_set(self.model)
        return [k for k, i in enumerate(system.position_rows) if not system.compliance[i]]

    def velocity(self, m: Mechanism, t: Any, q: Array, v: Array, active: Any) -> Array:
        """The nearest velocity that meets the constraints."""
        if not self.model.constraints:
            return v
        return np.asarray(self.call(m, "project_velocity", q=q, v=v, t=t, active=active))

    def rates(self, m: Mechanism, t: Any, q: Array, v: Array, tau: Array, active: Any) -> list[Array]:
        """q̇ and v̇, of a velocity that meets the constraints."""
        if self.passive:
            tau = tau + self.call(m, "passive_forces", q=q, v=v)
        a = self.call(m, "forward_dynamics", q=q, v=v, tau=tau, t=t, active=active)
        return [self.call(m, "rate", q=q, v=v), a]

    def _in_one_block(self, space: WorkSpace) -> Statement:
        """Without constraints and controller: everything in one block."""
        at = space.at

        def rates(X: Array, t: Any, doubt: Array) -> list[Any]:
            m = self.mechanism()
            q, v = np.split(X, [self.model.nq])
            found = self.rates(m, t, q, v, zeros(self.model.nv), None)
            return [*found, self.normalise(q), v, _doubts(m, doubt)]

        reads = [at("X", POINT), at("T", POINT), at("doubt")]
        return traced_block(rates, reads, [at("F", POINT), at("Y", POINT), at("doubt")])

    def statements(self, space: WorkSpace, controlled: bool, watched: bool) -> tuple[list[Statement], list[Statement]]:
        """Quaternions to unit length, positions onto the constraints by least-energy corrections, velocities too; then
        the rates."""
        if not (self.model.constraints or controlled):
            return [self._in_one_block(space)], []
        at = space.at
        around = [at("T", POINT), at("doubt"), *([at("active")] if "active" in space.buffers else [])]

        def place(X: Array) -> list[Array]:
            q, v = np.split(X, [self.model.nq])
            return [self.normalise(q) if self.model.constraints else q, v]

        def project(q: Array, v: Array, t: Any, doubt: Array, *on: Array) -> list[Any]:
            m = self.mechanism()
            return [self.velocity(m, t, q, v, (*on, None)[0]), _doubts(m, doubt)]

        def rates(q: Array, v: Array, tau: Array, t: Any, doubt: Array, *on: Array) -> list[Any]:
            m, active = self.mechanism(), (*on, None)[0]
            if not controlled:
                v, tau = self.velocity(m, t, q, v, active), zeros(self.model.nv)
            return [*self.rates(m, t, q, v, tau, active), self.normalise(q), v, _doubts(m, doubt)]

        before: list[Statement] = [traced_block(place, [at("X", POINT)], [at("q"), at("v")])]
        if self.rigid_positions:
            before += self._positions_closed(space, around)
        if self.model.constraints and controlled:
            before.append(traced_block(project, [at("q"), at("v"), *around], [at("v"), at("doubt")]))
        reads = [at("q"), at("v"), at("tau"), *around]
        return before, [traced_block(rates, reads, [at("F", POINT), at("Y", POINT), at("doubt")])]

    def _positions_closed(self, space: WorkSpace, around: list[Piece]) -> list[Statement]:
        """Positions onto the constraints, by corrections as long as they help."""
        at, put = space.at, space.put

        def look(q: Array, earlier: Array, gap: Array, bounds: Array, *rest: Any) -> list[Any]:
            t, _, *on = rest
            left = self.gap(self.mechanism(), q, t, (*on, None)[0])
            better = less(left, gap[0])
            # where a correction does not help, rounding has the last word
            kept = vector(*[select(better, a, b) for a, b in zip(q, earlier, strict=True)])
            shut = select(better & less(bounds[8], left), -1, 1)
            return [kept, kept, [select(better, left, gap[0])], [shut], [-shut]]

        def close(q: Array, t: Any, doubt: Array, *on: Array) -> list[Any]:
            m = self.mechanism()
            step = self.call(m, "closing_step", q=q, t=t, active=(*on, None)[0])
            return [m.manifold().integrate(q, step), _doubts(m, doubt)]

        places = ["q", "earlier", "gap", "shut", "open"]
        closing = (
            traced_block(look, [*space.each(["q", "earlier", "gap", "bounds"]), *around], space.each(places)),
            If(space.address("open"), (traced_block(close, [at("q"), *around], [at("q"), at("doubt")]),)),
        )
        return [
            traced_block(lambda q: [q], [at("q")], [at("earlier")]),
            put(HUGE, at("gap")),
            put(-1, at("shut")),
            Until(CLOSING, self.corrections, space.address("shut"), closing),
        ]


def _doubts(m: Mechanism, doubt: Array) -> list[Any]:
    """Positive where a pivot was, or is now, not."""
    if not m.margins:
        return [doubt[0]]
    return [maximum(doubt[0], traced_status(m.margins))]
