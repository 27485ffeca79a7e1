"""All constraints of a model as one set of named rows, and what can be said of them once, before any state is known.

A row is *redundant* when it depends on rows before it at every assembled configuration: a planar loop that is closed
by a spatial hinge has three such rows. They are found here, at a few generic assembled configurations, by a
rank-revealing factorisation; they are named, and left out of every later factorisation. Nothing is regularised. Rows
that depend on others at single configurations only (dead points) are another matter: the pivots of a factorisation
tell.

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

from whippletree.constraints.assembly import Closure, attainable, close_loops
from whippletree.constraints.rows import Prepared, Rows, prepare
from whippletree.errors import AssemblyError
from whippletree.model import Array, Model
from whippletree.spatial import zeros
from whippletree.sweeps import Field
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

STRUCTURE_TOLERANCE = 1e-7
"""Sine of the angle to the rows before it below which a row counts as dependent, at a generic configuration."""

EMPTY = 1e-12
"""Share of the numbers that it is made of below which a row is what rounding left of zero: a tie of two frames of one
body, or across a plane that nothing leaves."""

FAINT = 1e-4
"""Sine below which an independent row is reported as all but redundant."""

SPREADS = (0.4, 0.3, 0.2, 0.1, 0.03)
"""How far generic configurations are from the model's start, rad or m, largest first; three that close are used."""

SPREAD_OVER = 12
"""Joints up to which each moves by the whole spread."""

LIGHT = 1e-5
"""How much smaller than that of A Aᵀ the least eigenvalue of A M⁻¹ Aᵀ must be, both at unit diagonal, to say that some
loop is all but massless: M⁻¹ is then avoided. (Rows that are nearly dependent make both small, and cost every route the
same digits.)"""

MASSLESS = 1e-9
"""The same for M itself: below, some motion of the tree has no inertia."""

LONG = 200
"""Velocities beyond which no matrix of their number squared is formed."""

RELAXING = ("relax", "rest")
"""Kinds whose rows depend on what all other constraints allow."""

FORCE_UNITS = {"m": "N", "rad": "N m", "m/s": "N", "rad or m": "N m or N", "rad/s or m/s": "N m or N"}


@dataclass(frozen=True)
class Structure:
    """What holds at all but special configurations, at time 0 where constraints depend on time."""

    independent: tuple[int, ...]
    """Rows that are factored: a maximal independent set, in order, and rows that switches may make independent."""
    redundant: tuple[int, ...]
    """Rows that depend on always-active rows before them."""
    conditional: tuple[int, ...]
    """Factored rows that become dependent when certain switchable constraints are on together."""
    faint: dict[int, float]
    """Rows that are all but redundant, with the sine of their angle to the rows before them. They are honoured, at the
    price of digits; in data that was rounded they are often meant to be redundant."""
    mobility: int
    """Degrees of freedom with every constraint on."""
    configuration: Array
    """A generic assembled configuration (nq,): where what is called typical was evaluated."""
    squares: tuple[float, ...]
    """|Aᵢ|² of the independent rows there: their typical size."""
    light: bool
    """Whether a loop is so nearly massless that the Schur complement of M would lose digits."""


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

    @property
    def velocity_rows(self) -> tuple[int, ...]:
        """Rows at velocity level only: rolling, knife edges, held joints."""
        return tuple(i for i, c in enumerate(self._owners) if c.demand.level == "velocity")

    @property
    def relaxed_rows(self) -> tuple[int, ...]:
        """Rows that give massless motions their velocity."""
        return tuple(i for i, c in enumerate(self._owners) if c.constraint.kind == "relax")

    @cached_property
    def compliance(self) -> tuple[Any, ...]:
        """Of each row: 0 for a rigid one."""
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
    def structure(self) -> Structure:
        """Redundancy, mobility and minimal coordinates; found on first use.

        Raises:
            AssemblyError: if no configuration near the model's start closes the loops.
        """
        return _structure(self)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Velocities that can be chosen freely, ``mobility`` of them: minimal coordinates."""
        m = Mechanism(skeleton(self.model))
        state = generic_configurations(self, 1)[0].astype(object)
        A = self.matrix(m, m.still(state), state)
        rigid = [i for i in self.structure.independent if not self.compliance[i]]
        return tuple(_free_velocities(A[independent_rows(A, rigid)], self.model.nv))

    def rows(self, m: Mechanism, links: Field, q: Array, v: Array | None, t: Any) -> Rows:
        """The rows at one state; v and links in motion are needed for velocity and bias only."""
        return Rows(m, self.demands, links, q, v, t)

    def matrix(self, m: Mechanism, links: Field, q: Array, t: Any = 0) -> Array:
        """A (m, nv) as floats, exact zeros where rounding would leave its own."""
        rows = self.rows(m, links, q, None, t)
        A, sizes = rows.jacobian().astype(float), rows.sizes().astype(float)
        A[np.abs(A).max(axis=1, initial=0.0) <= EMPTY * sizes] = 0
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
    if model.origin is not None:
        model = model.origin
    # kept beside the model's own cached properties: it lives as long as the model and no longer
    found: ConstraintSet | None = model.__dict__.get("_constraint_set")
    if found is None:
        demands = [c for c in prepare(model) if _is_on(c) or _is_switchable(c)]
        others = tuple(c for c in demands if c.constraint.kind not in RELAXING)
        demands = [replace(c, others=others) if c.constraint.kind in RELAXING else c for c in demands]
        switches = dict.fromkeys(c.constraint.name for c in demands if _is_switchable(c))
        off = [c.name for c in model.constraints if c.name not in {d.constraint.name for d in demands}]
        found = ConstraintSet(model, tuple(demands), tuple(off), tuple(switches))
        model.__dict__["_constraint_set"] = found
    return found


def _is_on(c: Prepared) -> bool:
    return bool(c.constraint.parameters.get("active", True))


def _is_switchable(c: Prepared) -> bool:
    return bool(c.constraint.parameters.get("switchable", False))


def generic_configurations(system: ConstraintSet, count: int = 3) -> list[Array]:
    """Assembled configurations near the model's start that have nothing special about them.

    Raises:
        AssemblyError: if the loops cannot close near the start.
    """
    model = system.model
    closure = Closure(Mechanism(skeleton(model)), system.demands)
    tolerance = attainable(model)
    start = close_loops(closure, np.array((model.start or model.neutral).q, dtype=float), {}, tolerance)
    A = closure.jacobian(start)
    random = np.random.default_rng(1)
    found: list[Array] = []
    for spread in SPREADS:
        if len(found) == count:
            break
        # along the constraints, and less per joint where many joints add up
        d = random.uniform(-spread, spread, model.nv) * min(1.0, SPREAD_OVER / max(model.nv, 1))
        if A.size:
            d = d - np.linalg.lstsq(A, A @ d, rcond=STRUCTURE_TOLERANCE)[0]
        try:
            found.append(close_loops(closure, closure.moved(start, d), {}, tolerance, attempts=0))
        except AssemblyError:
            continue
    return found or [start]


def _structure(system: ConstraintSet) -> Structure:
    m = Mechanism(skeleton(system.model))
    fields, matrices = [], []
    configurations = generic_configurations(system, 1 if system.model.nv > LONG else 3)
    for q in configurations:
        state = q.astype(object)
        fields.append(m.still(state))
        matrices.append(system.matrix(m, fields[-1], state))
    rigid = [i for i, c in enumerate(system.compliance) if not c]
    always = [i for i in rigid if system.switch_of_row[i] < 0]
    switched = [i for i in rigid if system.switch_of_row[i] >= 0]
    # the richest configuration decides: a dependency that is missing at one generic configuration is not structural
    richest = max(range(len(matrices)), key=lambda k: len(independent_rows(matrices[k], always + switched)))
    best = matrices[richest]
    sines = row_sines(best, always)
    firm = list(sines)
    redundant = [i for i in always if i not in firm]
    redundant += [i for i in switched if i not in independent_rows(best, [*firm, i])]
    together = independent_rows(best, [*firm, *[i for i in switched if i not in redundant]])
    kept = [i for i in range(len(system.row_names)) if i not in redundant]
    conditional = [i for i in kept if i in switched and i not in together]
    squares = [float(best[i] @ best[i]) for i in kept]
    light = any(_is_light(m, links, A[kept]) for links, A in zip(fields, matrices, strict=True))
    mobility = system.model.nv - len(together)
    faint = {i: sine for i, sine in sines.items() if sine < FAINT}
    return Structure(
        independent=tuple(kept),
        redundant=tuple(redundant),
        conditional=tuple(conditional),
        faint=faint,
        mobility=mobility,
        configuration=configurations[richest],
        squares=tuple(squares),
        light=light,
    )


def independent_rows(A: Array, order: Sequence[int], tolerance: float = STRUCTURE_TOLERANCE) -> list[int]:
    """The first rows, in this order, that no earlier ones explain."""
    chosen = row_sines(A, order, tolerance)
    return [i for i in order if i in chosen]


def row_sines(A: Array, order: Sequence[int], tolerance: float = STRUCTURE_TOLERANCE) -> dict[int, float]:
    """The same with the sine of each row's angle to the rows chosen before it; by orthogonalisation done twice.

    Rows that are all but explained by earlier ones wait until all others have been chosen: of rows that rounded data
    made nearly dependent, the clearest are kept.
    """
    largest = max((float(np.linalg.norm(A[i])) for i in order), default=0.0)
    rest = {i: A[i] / norm for i in order if (norm := float(np.linalg.norm(A[i]))) > tolerance * largest}
    basis = np.zeros((0, A.shape[1]))
    kept: dict[int, float] = {}
    for threshold in (max(FAINT, tolerance), tolerance):
        for i in [i for i in rest if i not in kept]:
            row = rest[i]
            for _ in range(2):
                row = row - basis.T @ (basis @ row)
            sine = float(np.linalg.norm(row))
            if sine > threshold and len(kept) < A.shape[1]:
                kept[i] = sine
                basis = np.vstack([basis, row / sine])
    return kept


def _free_velocities(A: Array, n: int) -> list[int]:
    """Velocities that determine all others, chosen so that the others follow from them as gently as possible."""
    # rows of a basis of the null space: the most independent ones, by pivoting
    _, _, Vt = np.linalg.svd(A, full_matrices=True) if len(A) else (None, None, np.eye(n))
    basis = Vt[len(A) :]
    chosen = []
    for _ in range(len(basis)):
        sizes = np.linalg.norm(basis, axis=0)
        k = int(np.argmax(sizes))
        chosen.append(k)
        direction = basis[:, k] / sizes[k]
        basis = basis - np.outer(direction, direction @ basis)
        basis[:, k] = 0
    return sorted(chosen)


def _is_light(m: Mechanism, links: Field, A: Array) -> bool:
    """Whether A M⁻¹ Aᵀ has a pivot far below its diagonal, so that the route without M⁻¹ keeps more digits."""
    if not len(A) or A.shape[1] > LONG:
        return False
    M = inertia.mass_matrix(m.tree, m.sweep, links).astype(float)
    if not _smallest(M) > MASSLESS:
        return True
    return not _smallest(A @ np.linalg.solve(M, A.T)) > LIGHT * _smallest(A @ A.T)


def _smallest(S: Array) -> float:
    """The smallest eigenvalue of a symmetric matrix brought to unit diagonal; 0 where its diagonal is not positive."""
    diagonal = np.diag(S)
    if not np.all(diagonal > 0):
        return 0.0
    return float(np.linalg.eigvalsh(S / np.sqrt(np.outer(diagonal, diagonal)))[0])
