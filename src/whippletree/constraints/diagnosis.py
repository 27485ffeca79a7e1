"""``wt.diagnose``: what a model can and cannot do at a configuration, in names, numbers and cures. Numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.linalg import null_spaces
from whippletree.constraints.assembly import VELOCITY_TOLERANCE
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.loop_closure import CLOSED_LOOP, Closure, switches_that_clash
from whippletree.constraints.redundancy import FAINT, independent_rows, row_sines
from whippletree.constraints.route_choice import by_sweeps, default_route, loops_over_fronts, route_reason
from whippletree.constraints.routes import RANK_TOLERANCE
from whippletree.constraints.singular.dead_points import IMMOBILE
from whippletree.constraints.singular.exploration import generic_configurations, random_combination, try_to_close
from whippletree.constraints.singular.motions import (
    FreeDirection,
    allowed_motions,
    lightest,
    massless_motions,
    sparsest,
)
from whippletree.errors import AssemblyError
from whippletree.model import Constraint, Model, require_model
from whippletree.model.constraint_syntax import JOINT_DATA
from whippletree.model.input_checks import coordinates, tolerance_of
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

NEARLY_MASSLESS = 1e-6
"""Relative inertia of an allowed motion below which it is reported as nearly massless."""

A_LITTLE_WAY = 0.03
"""rad or m: how far on rows are looked at once more, to tell a configuration at which they vanish from a branch."""

MATRICES = 1000
"""Velocities beyond which no mass matrix is formed, and so no single motions are looked at."""


@dataclass(frozen=True)
class Diagnosis:
    """Findings; ``str()`` of them is the report."""

    model: Model = field(repr=False)
    q: Array
    """Where: (nq,)."""
    freedoms: int
    """Degrees of freedom at almost every configuration."""
    mobility: int
    """Velocities that the rows leave free at this configuration: more than ``freedoms`` at a singular one."""
    branches: tuple[int, ...]
    """Degrees of freedom of the branches that meet at the model's start, each number once; one number elsewhere."""
    stuck: bool
    """Whether nothing can move, though the rows let something move to first order."""
    redundant: tuple[str, ...]
    """Rows that depend on earlier ones everywhere; left out of every factorisation."""
    faint: dict[str, float]
    """Rows that are all but redundant, with the sine of their angle to the rows before them."""
    dependent: tuple[str, ...]
    """Rows that depend on earlier ones at this configuration only."""
    conditional: tuple[str, ...]
    """Rows that depend on others when certain switchable constraints are on together."""
    astray: tuple[str, ...]
    """Redundant rows that are independent here: the configuration is on another branch than the model's start."""
    exchanged: tuple[str, ...]
    """Redundant rows that are independent here and not nearby: rows that are kept vanish here, and these serve."""
    open: dict[str, float]
    """Position rows that this configuration does not meet, with their residual, m or rad."""
    conflict: bool
    """Whether no configuration nearby meets the open rows: the constraints contradict each other."""
    barred: dict[str, float]
    """Rows that follow a motion of time which other rows do not let them follow, and the speed by which no velocity
    meets them, per second."""
    massless: tuple[FreeDirection, ...]
    """Motions without inertia that nothing stops: condition (32) fails, accelerations are not determined."""
    margin: float
    """Inertia of the lightest allowed motion relative to the heaviest, or to the tree's mean inertia (the trace of M by
    nv) where that is larger: how close (32) is to failing. NaN, as is ``condition``, for more than 1000 velocities."""
    lightest: FreeDirection | None
    condition: float
    """Condition number of the reduced mass matrix, its rows and columns scaled to unit diagonal."""
    route: str
    """How compiled code solves the block matrix."""
    reason: str
    """Why that way, in words."""

    @property
    def fine(self) -> bool:
        """Whether accelerations are determined and every row is met."""
        unmet = self.open or self.astray or self.barred
        return not self.massless and not unmet and self.mobility == self.freedoms

    @property
    def _immobile(self) -> bool:
        """Whether constraints that do not move themselves hold every joint."""
        return self.freedoms == 0 and self.model.nv > 0 and not constraint_set(self.model).timed

    def __str__(self) -> str:
        return "\n".join([*self._counts(), *self._rows(), *self._inertia(), *self._cures()])

    __repr__ = __str__  # a terminal and a notebook show the report

    def _counts(self) -> list[str]:
        model = self.model
        system = constraint_set(model)
        lines = [
            f"{model.name}: {len(model.bodies)} bodies, {model.nv} velocities of the tree, "
            f"{len(system.row_names)} constraint rows ({len(system.velocity_rows)} at velocity level), "
            f"route {self.route}{self.reason and ': '}{self.reason}",
            f"  degrees of freedom: {self.freedoms}" + (": nothing can move" if self._immobile else ""),
        ]
        if len(self.branches) > 1:
            lines.append(
                f"  branches with {', '.join(map(str, self.branches[:-1]))} and {self.branches[-1]} degrees of freedom "
                f"meet at the model's start; rows that any of them needs are kept"
            )
        if self.mobility > self.freedoms:
            consequence = (
                "nothing can move, but no finite force withstands a load along what the first-order rows allow"
                if self.stuck
                else "the first-order constraints do not determine the acceleration; the branch that the velocity "
                "points along is followed"
            )
            lines.append(f"  mobility at this configuration: {self.mobility}. It is singular: {consequence}")
        if system.off:
            lines.append(f"  switched off by the model: {_list_names(system.off)}")
        cuts = [f"{c.name} ({c.joint} joint, as {c.kind})" for c in model.constraints if c.joint]
        if cuts:
            lines.append(f"  loops cut at joints: {_list_names(cuts)}")
        idle = [f"{c.name} ({', '.join(words)})" for c in model.constraints if (words := _idle_data(c))]
        if idle:
            lines.append(f"  data of joints that close loops, kept without effect: {_list_names(idle)}")
        if system.switches:
            lines.append(f"  switchable (input active): {_list_names(system.switches)}")
        return lines

    def _rows(self) -> list[str]:
        lines = []
        if self.redundant:
            lines.append(f"  redundant rows, left out everywhere: {_list_names(self.redundant)}")
        if self.faint:
            rows = ", ".join(f"{name} (sine {sine:.2g})" for name, sine in self.faint.items())
            lines.append(f"  rows that are all but redundant, honoured at the price of digits: {rows}")
        if self.astray:
            lines.append(
                f"  left out, but not redundant here: {_list_names(self.astray)}. The mechanism has several branches, "
                f"and this is not that of its start"
            )
        if self.dependent:
            lines.append(f"  rows that depend on others here: {_list_names(self.dependent)}")
        if self.exchanged:
            lines.append(
                f"  left out elsewhere, and needed at this configuration in their place: {_list_names(self.exchanged)}."
                f" The choice of rows fails here, not the mechanism: answers are right and take longer"
            )
        if self.conditional:
            lines.append(f"  rows that depend on others when all switches are on: {_list_names(self.conditional)}")
        if self.open:
            why = (
                "rows in conflict, which no configuration nearby meets"
                if self.conflict
                else "rows that are not met here"
            )
            lines.append(f"  {why}: " + ", ".join(f"{name} (residual {gap:.6g})" for name, gap in self.open.items()))
        if self.barred:
            rows = ", ".join(f"{name} ({speed:.6g} per second)" for name, speed in self.barred.items())
            lines.append(f"  motions of time that other rows do not allow here: {rows}")
        return lines

    def _inertia(self) -> list[str]:
        lines = [f"  massless motion that nothing stops: {motion.words(self.model)}" for motion in self.massless]
        if self.massless:
            return lines
        if self.model.nv > MATRICES:
            own = "every joint carries" if not skeleton(self.model).doubtful else "some joints may lack"
            lines.append(
                f"  {own} inertia; single motions are looked at for up to {MATRICES} velocities "
                f"(forward_dynamics_with_diagonal compares the inertias of joints for any number)"
            )
        if self.lightest is not None:
            lines.append(
                f"  accelerations are determined (condition (32) holds); {self._lightest_share()}: "
                f"{self.lightest.words(self.model)}"
            )
            digits = max(0.0, 15.95 - np.log10(self.condition)) if np.isfinite(self.condition) else 0.0
            lines.append(
                f"  reduced mass matrix: condition number {self.condition:.3g}, about {digits:.0f} digits are kept"
            )
        return lines

    def _lightest_share(self) -> str:
        """How much inertia the lightest allowed motion has, in words; one alone has no heaviest to compare with."""
        near = " (nearly massless)" if self.margin < NEARLY_MASSLESS else ""
        if self.mobility > 1:
            return f"the lightest allowed motion has {self.margin:.3g} of the heaviest's inertia{near}"
        share = f" has {self.margin:.3g} of the tree's mean inertia{near}" if near else ""
        return f"the only allowed motion{share}"

    def _cures(self) -> list[str]:
        cures = []
        if self.massless:
            cures.append(
                "give a body of each massless motion mass, add the constraint that carries it, hold its joint "
                '(massless="hold"), or give it a damper or spring and relax it (massless="relax")'
            )
        if self.open:
            cures.append(
                "remove or correct one of the rows in conflict (lengths, positions)"
                if self.conflict
                else "close the loops with wt.assemble(model, q)"
            )
        if self.barred and self.mobility == self.freedoms:
            cures.append("leave the prescribed motion, or a row that bars it, out: they tie the same joints")
        system = constraint_set(self.model)
        open_switches = [
            c.constraint.name
            for c in system.demands
            if c.constraint.name in system.switches and any(row in self.open for row in c.row_names)
        ]
        if self.conflict and open_switches:
            cures.append(switches_that_clash(open_switches))
        if self.faint:
            cures.append(
                "if rounded data made rows all but redundant, leave them out: wt.without_rows(model, "
                "*wt.diagnose(model).faint)"
            )
        if self._immobile and not self.conflict:
            cures.append(f"if it should move: {IMMOBILE}")
        elif len(self.branches) > 1 and self.mobility in self.branches and not self.open:
            cures.append(
                "choose the branch that is meant: make one of its configurations the start, "
                "dataclasses.replace(model, start=whippletree.model.State(q, v))"
            )
        elif self.mobility > self.freedoms and not self.open:
            cures.append("move away from the singular configuration, or give a velocity along the branch that is meant")
        if self.astray:
            cures.append("make this the start: dataclasses.replace(model, start=whippletree.model.State(q, v))")
        return [f"  cure: {cure}" for cure in cures]


def diagnose(model: Model, q: Any = None, *, t: float = 0.0, tolerance: float = CLOSED_LOOP) -> Diagnosis:
    """Explain a model at a configuration: freedoms, redundant and conflicting rows, massless motions, conditioning,
    cures.

    Args:
        model: with or without constraints; ``model.tree`` shows what the constraints do.
        q: (nq,); default: the model's home, or the closest to it that was found if its loops cannot close.
        t: time, for constraints that depend on it.
        tolerance: residual up to which a row counts as met, m or rad.
    """
    require_model(model, "diagnose")
    tolerance = tolerance_of("diagnose", tolerance)
    conflict = False
    gaps: dict[str, float] = {}
    if q is None:
        try:
            q = model.home.q
        except AssemblyError as error:
            q, gaps, conflict = error.q, error.residuals, True
    at = coordinates("diagnose", "q", q, model)
    system = constraint_set(model)
    m = Mechanism(skeleton(model))
    if not conflict:
        closure = Closure(m, system.demands, t)
        gaps = {n: float(g) for n, g in zip(closure.names, closure.residual(at), strict=True) if abs(g) > tolerance}
    return _diagnosis(system, m, at, t, gaps, conflict)


class _RowReport(NamedTuple):
    """Rows by number, and the freedoms that they leave."""

    here: list[int]
    """Rigid rows that are independent at this configuration."""
    redundant: list[int]
    conditional: list[int]
    astray: list[int]
    exchanged: list[int]
    faint: dict[int, float]
    freedoms: int
    branches: tuple[int, ...]
    stuck: bool
    route: str


def _rows_in_conflict(system: ConstraintSet, A: Array, rigid: list[int]) -> _RowReport:
    """Nothing is assembled to learn the structure from: this configuration has to do."""
    here = independent_rows(A, rigid, RANK_TOLERANCE)
    left = system.model.nv - len(here)
    redundant = [i for i in rigid if i not in here]
    return _RowReport(here, redundant, [], [], [], {}, left, (left,), False, "none")


def _compiled_route(m: Mechanism, system: ConstraintSet) -> str:
    if by_sweeps(m):
        return "recursion"
    return "elimination" if loops_over_fronts(system.model, None) else default_route(m, system)


def _rows_by_structure(
    system: ConstraintSet, m: Mechanism, A: Array, rigid: list[int], at: tuple[Array, float], met: bool
) -> _RowReport:
    """Rows as the structure of the model has them, ``at`` a configuration and time; ``met``: whether all are, there."""
    found = system.structure
    redundant = list(found.redundant)
    # against all rows that are kept, faint ones too: their share may be what explains a redundant row
    kept = [i for i in rigid if i not in set(redundant)]
    order = [*kept, *redundant]
    sines = row_sines(A, order)
    needed = [i for i in redundant if sines.get(i, 0.0) > FAINT] if met else []
    only_here = bool(needed) and len(sines) == len(kept) and _serve_nearby(system, m, A[rigid], kept, at)
    return _RowReport(
        here=independent_rows(A, order, RANK_TOLERANCE),
        redundant=redundant,
        conditional=list(found.conditional),
        astray=[] if only_here else needed,
        exchanged=needed if only_here else [],
        faint=found.faint,
        freedoms=0 if found.stuck else found.mobility,
        branches=found.branches,
        stuck=found.stuck,
        route=_compiled_route(m, system),
    )


def _serve_nearby(system: ConstraintSet, m: Mechanism, A: Array, kept: list[int], at: tuple[Array, float]) -> bool:
    """Whether the kept rows are independent a little way on along a motion that all rows A (m, nv) allow."""
    q, t = at
    motions, _ = null_spaces(A, RANK_TOLERANCE)
    if not motions.size:
        return False
    closure = Closure(m, system.demands, t)
    near = try_to_close(closure, q, A_LITTLE_WAY * random_combination(motions))
    return near is not None and len(independent_rows(_rows(system, m, near, t), kept)) == len(kept)


def _diagnosis(
    system: ConstraintSet, m: Mechanism, q: Array, t: float, gaps: dict[str, float], conflict: bool
) -> Diagnosis:
    A, nv = _rows(system, m, q, t), system.model.nv
    rigid = [i for i, c in enumerate(system.compliance) if not c]
    rows = (
        _rows_in_conflict(system, A, rigid) if conflict else _rows_by_structure(system, m, A, rigid, (q, t), not gaps)
    )
    explained = {*rows.here, *rows.redundant, *rows.conditional}
    barred = _barred_motions(system, m, A, rigid, (q, t)) if system.timed and not gaps else {}
    motions: list[FreeDirection] = []
    massless: list[FreeDirection] = []
    condition = np.nan
    if nv <= MATRICES:
        M = _stiffen_mass(system, _mass_matrix(m, q), A)
        motions, condition = lightest(M, A[rigid], RANK_TOLERANCE), _condition(M, A[rigid])
        massless = massless_motions(M, A[rigid], RANK_TOLERANCE)
    return Diagnosis(
        model=system.model,
        q=q,
        freedoms=rows.freedoms,
        mobility=nv - len(rows.here),
        branches=rows.branches,
        stuck=rows.stuck,
        redundant=system.named(rows.redundant),
        faint={system.row_names[i]: sine for i, sine in rows.faint.items()},
        dependent=system.named([i for i in rigid if i not in explained]),
        conditional=system.named(rows.conditional),
        astray=system.named(rows.astray),
        exchanged=system.named(rows.exchanged),
        open=gaps,
        conflict=conflict,
        barred=barred,
        massless=tuple(sparsest(massless, system.model)),
        margin=motions[0].inertia if motions else np.nan if nv > MATRICES else 1.0,
        lightest=motions[0] if motions else None,
        condition=condition,
        route=rows.route,
        reason=route_reason(m, system, rows.route) if rows.route != "none" else "",
    )


def _mass_matrix(m: Mechanism, q: Array) -> Array:
    return inertia.mass_matrix(m.tree, m.sweep, m.still(q.astype(object))).astype(float)


def _rows(system: ConstraintSet, m: Mechanism, q: Array, t: float) -> Array:
    """A (m, nv) as floats."""
    state = q.astype(object)
    return system.matrix(m, m.still(state), state, t)


def _barred_motions(
    system: ConstraintSet, m: Mechanism, A: Array, rigid: list[int], at: tuple[Array, float]
) -> dict[str, float]:
    """What is left of A v + gₜ whatever v is, in rows that follow a motion of time."""
    q, t = at
    state, still = q.astype(object), np.zeros(system.model.nv, dtype=object)
    asked = system.rows(m, m.moving(state, still), state, still, t).velocity().astype(float)[rigid]
    _, dependent = null_spaces(A[rigid], RANK_TOLERANCE)
    left = dependent @ (dependent.T @ asked)
    found = zip(system.named(rigid), asked, left, strict=True)
    return {name: float(x) for name, speed, x in found if speed and abs(x) > VELOCITY_TOLERANCE}


def _stiffen_mass(system: ConstraintSet, M: Array, A: Array) -> Array:
    """M with the inertia 1/C that compliant rows add: what the accelerations feel."""
    soft = [i for i, c in enumerate(system.compliance) if c and system.switch_of_row[i] < 0]
    stiffness = np.array([1 / float(system.compliance[i]) for i in soft])
    return np.asarray(M + (A[soft].T * stiffness) @ A[soft])


def _condition(M: Array, A: Array) -> float:
    """κ of the reduced mass matrix at unit diagonal."""
    basis = allowed_motions(A, RANK_TOLERANCE)
    if not basis.shape[1]:
        return 1.0
    reduced = basis.T @ M @ basis
    scale = np.sqrt(np.maximum(np.diag(reduced), np.finfo(float).tiny))
    values = np.linalg.eigvalsh(reduced / np.outer(scale, scale))
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf


def massless_everywhere(model: Model) -> list[FreeDirection]:
    """Motions without inertia that nothing stops at generic configurations, each moving as few joints as possible."""
    system = constraint_set(model)
    m = Mechanism(skeleton(model))
    if not m.tree.doubtful:
        return []  # every joint carries inertia
    rigid = [i for i, c in enumerate(system.compliance) if not c and system.switch_of_row[i] < 0]
    smallest: list[FreeDirection] | None = None
    for q in generic_configurations(system):
        A = _rows(system, m, q, 0.0)
        found = massless_motions(_stiffen_mass(system, _mass_matrix(m, q), A), A[rigid], RANK_TOLERANCE)
        if smallest is None or len(found) < len(smallest):
            smallest = found
    return sparsest(smallest or [], model)


def _idle_data(c: Constraint) -> list[str]:
    """Springs, dampers and the like that a file gave a joint which closes a loop."""
    given = ((word, c.parameters.get(word, 0)) for word in JOINT_DATA if word not in ("rest", "gear_ratio"))
    return [word for word, value in given if value and np.isfinite(float(value))]


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
