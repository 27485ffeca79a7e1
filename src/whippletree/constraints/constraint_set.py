"""All constraints of a model as one set of named rows: what each is, and where it is in a function's input or output.

Switched rows stay in the factorisation: a row that is off has zeros in A and a 1 in the lower-right corner, so a
switch costs what the full system costs, and nothing is compiled again. A row that depends on switchable rows is
therefore kept; with all of them on, pivots report it (``conditional``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.linalg import sparse_order
from whippletree.constraints.clusters.cluster_structure import structure_by_clusters
from whippletree.constraints.light_loops import WEIGHTLESS, is_light, weightless_motions
from whippletree.constraints.redundancy import Structure, free_velocities, independent_rows
from whippletree.constraints.rows import Prepared, Rows, prepare
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.constraints.ties import Ties, find_ties
from whippletree.model import Constraint, Model
from whippletree.model.frozen import found_once
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton
from whippletree.tree.sweeps import Field

EMPTY_ROW = 1e-12
"""Share of the numbers that it is made of below which a row is what rounding left of zero: a tie of two frames of one
body, or across a plane that nothing leaves."""

RELAXING = ("relax", "rest")
"""Kinds whose rows depend on what all other constraints allow."""

FORCE_UNITS = {"m": "N", "rad": "N m", "m/s": "N", "rad or m": "N m or N", "rad/s or m/s": "N m or N"}


@dataclass(frozen=True, eq=False)
class ConstraintSet:
    """The rows of a model's constraints. Made by :func:`constraint_set`, once per model."""

    model: Model
    demands: tuple[Prepared, ...]
    """Of constraints that are on or can be switched on."""
    off: tuple[str, ...]
    """Constraints that the model itself switches off."""
    switches: tuple[str, ...]
    """Switchable constraints: the entries of the input ``active``."""

    def __repr__(self) -> str:
        return (
            f"<ConstraintSet of model {self.model.name!r}: {len(self.row_names)} rows, of {len(self.demands)} demands>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return constraint_set, (self.model,)  # rows are functions, made again where they are needed

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """Every row, as ``constraint.row``."""
        return tuple(name for c in self.demands for name in c.row_names)

    @cached_property
    def row_units(self) -> tuple[str, ...]:
        """Unit of each row's residual (of its velocity for rows that have no position)."""
        return tuple(unit for c in self.demands for unit in c.demand.units)

    @property
    def force_units(self) -> tuple[str, ...]:
        """Unit of each row's force."""
        return tuple(FORCE_UNITS.get(unit, "J per user's unit") for unit in self.row_units)

    @cached_property
    def position_rows(self) -> tuple[int, ...]:
        """Rows with a position residual; the entries of ``constraint_residual``."""
        return tuple(i for i, c in enumerate(self._owners) if c.demand.level == "position")

    @cached_property
    def velocity_rows(self) -> tuple[int, ...]:
        """Rows at velocity level only: rolling, knife edges, held joints."""
        return tuple(i for i, c in enumerate(self._owners) if c.demand.level == "velocity")

    @cached_property
    def relaxed_rows(self) -> tuple[int, ...]:
        """Rows that give massless motions their velocity."""
        return tuple(i for i, c in enumerate(self._owners) if c.constraint.kind == "relax")

    @cached_property
    def massless_rows(self) -> tuple[int, ...]:
        """Rows that are there only because nothing else carries a massless motion: a contact may take their place."""
        return tuple(i for i, c in enumerate(self._owners) if _carries_massless_motion(c.constraint))

    @cached_property
    def compliance(self) -> tuple[Any, ...]:
        """Compliance of each row: 0 for a rigid one."""
        return tuple(c.constraint.parameters.get("compliance", 0) for c in self._owners)

    @cached_property
    def switch_of_row(self) -> tuple[int, ...]:
        """Which entry of ``active`` decides on each row; −1 for those that are always on."""
        number = {name: k for k, name in enumerate(self.switches)}
        return tuple(number.get(c.constraint.name, -1) for c in self._owners)

    @cached_property
    def timed(self) -> bool:
        """Whether any row depends on time."""
        return any(c.demand.timed for c in self.demands)

    @cached_property
    def ties(self) -> Ties:
        """Which joints the demands tie together."""
        return find_ties(skeleton(self.model), self.demands)

    @cached_property
    def structure(self) -> Structure:
        """Redundancy, mobility and minimal coordinates; found on first use.

        Raises:
            AssemblyError: if no configuration near the model's start closes the loops.
        """
        return structure_by_clusters(self)

    @cached_property
    def light(self) -> bool:
        """Whether a loop is so nearly massless that the Schur complement of the whole M would lose digits."""
        kept = list(self.structure.independent)
        if not kept or self.model.nv > LONG_SYSTEM:
            return False
        m = Mechanism(skeleton(self.model))
        state = self.structure.configuration.astype(object)
        links = m.still(state)
        M = inertia.mass_matrix(m.tree, m.sweep, links).astype(float)
        return is_light(M, self.matrix(m, links, state)[kept])

    @cached_property
    def feels_weightless(self) -> bool:
        """Whether some row may feel a motion that costs no energy, along which no moving body has inertia.

        Where none does, M v = 0 is A v = 0: M is singular only where the block matrix is, and M + Aᵀ R A is then too.
        Rows on joint coordinates may feel any motion of these.
        """
        if self.model.is_flexible or any(c.demand.on != "frames" for c in self.demands):
            return True
        m = Mechanism(skeleton(self.model))
        state = self.structure.configuration.astype(object)
        for part in self.rows(m, m.still(state), state, None, 0).parts:
            for i, (node, pose) in enumerate(part.places):
                G = part.coefficients(i).astype(float)
                for motion in weightless_motions(m.tree.nodes[node].inertia) if node >= 0 else ():
                    V = pose.motion(motion).astype(float)
                    if np.any(np.abs(G @ V) > WEIGHTLESS * np.linalg.norm(G, axis=1) * np.linalg.norm(V)):
                        return True
        return False

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Velocities that can be chosen freely, ``mobility`` of them: minimal coordinates."""
        m = Mechanism(skeleton(self.model))
        state = self.structure.configuration.astype(object)
        A = self.matrix(m, m.still(state), state)
        rigid = [i for i in self.structure.independent if not self.compliance[i]]
        return tuple(free_velocities(A[independent_rows(A, rigid)], self.model.nv))

    @cached_property
    def elimination(self) -> list[int]:
        """Velocities in an order in which M + Aᵀ R A, eliminated from the end, keeps most of its zeros.

        Bodies that only a loop connects stay unconnected until that loop: six legs of a platform one after the other.
        """
        m = Mechanism(skeleton(self.model))
        state = self.structure.configuration.astype(object)
        A = np.abs(self.matrix(m, m.still(state), state)[list(self.structure.independent)])
        pattern = A.T @ A > 0
        for k, parent in enumerate(m.tree.velocity_parents):
            while parent >= 0:
                pattern[k, parent] = pattern[parent, k] = True
                parent = m.tree.velocity_parents[parent]
        return sparse_order(pattern)

    def rows(self, m: Mechanism, links: Field, q: Array, v: Array | None, t: Any) -> Rows:
        """The rows at one state; v and links in motion are needed for velocity and bias only."""
        return Rows(m, self.demands, links, q, v, t)

    def matrix(self, m: Mechanism, links: Field, q: Array, t: Any = 0) -> Array:
        """A (m, nv) as floats, exact zeros where rounding would leave its own."""
        rows = self.rows(m, links, q, None, t)
        A, sizes = rows.jacobian().astype(float), rows.sizes().astype(float)
        A[np.abs(A).max(axis=1, initial=0.0) <= EMPTY_ROW * sizes] = 0
        return A

    def mask(self, active: Array | None) -> Array | None:
        """1 for rows that are on and 0 for others, (m,); None if nothing can be switched."""
        if not self.switches:
            return None
        if active is None:
            return np.ones(len(self.row_names), dtype=int).astype(object)
        entries = zeros(len(self.row_names))
        for i, k in enumerate(self.switch_of_row):
            entries[i] = active[k] if k >= 0 else 1
        return entries

    def named(self, rows: Sequence[int]) -> tuple[str, ...]:
        """Names of rows."""
        return tuple(self.row_names[i] for i in rows)

    @cached_property
    def _owners(self) -> tuple[Prepared, ...]:
        return tuple(c for c in self.demands for _ in c.demand.rows)


def constraint_set(model: Model) -> ConstraintSet:
    """The constraints of a model; the same object for the same model.

    A model with open parameters has the structure of the model that it came from.
    """
    return _constraint_set(model if model.origin is None else model.origin)


@found_once
def _constraint_set(model: Model) -> ConstraintSet:
    demands = [c for c in prepare(model) if _is_on(c) or _is_switchable(c)]
    others = tuple(c for c in demands if c.constraint.kind not in RELAXING)
    demands = [replace(c, others=others) if c.constraint.kind in RELAXING else c for c in demands]
    switches = dict.fromkeys(c.constraint.name for c in demands if _is_switchable(c))
    on = {c.constraint.name for c in demands}
    off = [c.name for c in model.constraints if c.name not in on]
    return ConstraintSet(model, tuple(demands), tuple(off), tuple(switches))


def reason_against_ties(model: Model) -> str | None:
    """Why constraints of a model cannot be part of a compiled step; None if they can."""
    if not model.constraints:
        return None
    system = constraint_set(model)
    if system.switches:
        return "a constraint can be switched"
    if any(c != 0 for c in system.compliance):
        return "a constraint is compliant"
    if any(c.kind in RELAXING for c in model.constraints):
        return "a massless motion follows its damper or spring"
    return None


def _carries_massless_motion(c: Constraint) -> bool:
    return c.kind in RELAXING or bool(c.parameters.get("massless"))


def _is_on(c: Prepared) -> bool:
    return bool(c.constraint.parameters.get("active", True))


def _is_switchable(c: Prepared) -> bool:
    return bool(c.constraint.parameters.get("switchable", False))
