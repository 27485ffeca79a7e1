"""Structure of a model's rows, found once before any state is known: which are redundant, what freedom they leave.

A row is *redundant* when it depends on rows before it at every assembled configuration: a planar loop that is closed
by a spatial hinge has three such rows. They are found here, at a few generic assembled configurations near the model's
start (:mod:`whippletree.constraints.singular.exploration`), by a rank-revealing factorisation; they are named, and left
out of every later factorisation. Nothing is regularised. Rows that depend on others at single configurations only (dead
points) are another matter: the pivots of a factorisation tell. Where several branches meet at the start, a row is
redundant if it is so on all that were found. A mechanism may also have branches elsewhere, with other redundant rows
than those of its start: ``wt.diagnose(model, q)`` tells where q is on such a one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.long_systems.body_system import Unknowns, with_copies
from whippletree.constraints.long_systems.hub_copies import HubCopies
from whippletree.constraints.long_systems.long_structure import LongClosure, LongRowSystem
from whippletree.constraints.loop_closure import attainable, close_loops
from whippletree.constraints.singular.exploration import (
    LONG_SYSTEM,
    STRUCTURE_TOLERANCE,
    explore,
    long_displacements,
    try_to_close,
)
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

if TYPE_CHECKING:
    from whippletree.constraints.constraint_set import ConstraintSet

FAINT = 1e-4
"""Sine below which an independent row is reported as all but redundant."""

CLEAR_ROW = 0.1
"""Sine below which a row at the start waits until rows with a larger angle to each other have been chosen."""


@dataclass(frozen=True)
class Structure:
    """Facts at all but special configurations, at time 0 where constraints depend on time."""

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
    """Degrees of freedom with every constraint on; the fewest where branches with different ones meet at the start."""
    branches: tuple[int, ...]
    """Degrees of freedom of the branches that meet at the start, in rising order, each number once."""
    configuration: Array
    """A generic assembled configuration (nq,): where what is called typical was evaluated."""
    squares: tuple[float, ...]
    """|Aᵢ|² of the independent rows there: their typical size."""
    stuck: bool
    """Whether nothing can move although the rows let something move to first order: a straight rod of two parts."""
    nv: int
    """Velocities of the tree."""


def find_structure(system: ConstraintSet) -> Structure:
    """The structure of a model's constraints.

    Raises:
        AssemblyError: if no configuration near the model's start closes the loops.
    """
    if is_long(system):
        return find_long_structure(system)
    m = Mechanism(skeleton(system.model))
    rigid = [i for i, c in enumerate(system.compliance) if not c]
    always = [i for i in rigid if system.switch_of_row[i] < 0]
    switched = [i for i in rigid if system.switch_of_row[i] >= 0]
    known: dict[bytes, Array] = {}

    def matrix_at(q: Array) -> Array:
        if q.tobytes() not in known:
            state = q.astype(object)
            known[q.tobytes()] = system.matrix(m, m.still(state), state)
        return known[q.tobytes()]

    def are_independent(q: Array) -> bool:
        """Whether no row depends on others there: then none does so in general, whatever other configurations say."""
        return len(independent_rows(matrix_at(q), always + switched)) == len(rigid)

    explored = explore(system, 1 if system.model.nv > LONG_SYSTEM else 3, are_independent)
    matrices = [matrix_at(q) for q in explored.configurations]
    # the richest configuration decides: a dependency that is missing at one generic configuration is not structural,
    # nor is one that is missing on one of several branches
    ranks = [len(independent_rows(A, always + switched)) for A in matrices]
    richest = int(np.argmax(ranks))
    if explored.branching or ranks[richest] < len(rigid):
        # of rows that explain each other, those are kept that do not vanish at the start, nor nearly so: a tilt about
        # an axis that turns with its body comes and goes, and motions pass the start more often than other places
        firmest = row_sines(matrix_at(explored.start), always, clear=CLEAR_ROW)
        always = [*firmest, *[i for i in always if i not in firmest]]
    best = matrices[richest]
    sines = row_sines(best, always)
    firm = list(sines)
    needed = {i for A in matrices for i in row_sines(A, always)} if explored.branching else set(firm)
    redundant = sorted(i for i in always if i not in needed)
    redundant += [i for i in switched if i not in independent_rows(best, [*firm, i])]
    together = independent_rows(best, [*firm, *[i for i in switched if i not in redundant]])
    kept = [i for i in range(len(system.row_names)) if i not in redundant]
    conditional = [i for i in kept if i in switched and i not in together]
    squares = [float(best[i] @ best[i]) for i in kept]
    mobility = system.model.nv - len(together)
    faint = {i: sine for i, sine in sines.items() if sine < FAINT}
    several = explored.branching and not explored.partly_stuck
    return Structure(
        independent=tuple(kept),
        redundant=tuple(redundant),
        conditional=tuple(conditional),
        faint=faint,
        mobility=mobility,
        branches=tuple(sorted({system.model.nv - rank for rank in ranks})) if several else (mobility,),
        configuration=explored.configurations[richest],
        squares=tuple(squares),
        stuck=explored.stuck,
        nv=system.model.nv,
    )


def is_long(system: ConstraintSet) -> bool:
    """Whether constraints are looked at by elimination at body level, without a matrix of all velocities."""
    fits = all(c.demand.on in ("frames", "joints") or c.constraint.kind == "hold" for c in system.demands)
    return system.model.nv > LONG_SYSTEM and fits and not system.switches and not system.model.is_flexible


def find_long_structure(system: ConstraintSet) -> Structure:
    """The structure without any dense matrix, at one generic configuration; a singular start is not told apart there.

    Of rows that depend on each other those are kept that are eliminated first. Their typical size is that of their
    entries on bodies.
    """
    model, tree = system.model, skeleton(system.model)
    closure = LongClosure(Mechanism(tree), system.demands)
    start = close_loops(closure, np.array((model.start or model.neutral).q, dtype=float), {}, attainable(model))
    rigid = [i for i, c in enumerate(system.compliance) if not c]
    compliance = [0] * len(system.row_names)

    def unknowns(rows: Sequence[int], copies: HubCopies) -> Unknowns:
        return Unknowns(tree, system.demands, rows, compliance, copies=copies)

    copies = with_copies(lambda copies: unknowns(rigid, copies)).copies
    at_start = LongRowSystem(unknowns(rigid, copies), start, 0.0)
    ways = (try_to_close(closure, start, d) for d in long_displacements(at_start))
    q = next((found for found in ways if found is not None), start)
    kept, there = list(rigid), LongRowSystem(unknowns(rigid, copies), q, 0.0)
    # a row of a joint may be the last one of those that depend on each other: then another row is left out instead
    while lost := set(there.explained_joints):
        lost.update(there.dependent)
        kept = [i for number, i in enumerate(kept) if number not in lost]
        there = LongRowSystem(unknowns(kept, copies), q, 0.0)
    squares = dict(zip(kept, there.squares().tolist(), strict=True))
    sines = dict(zip(kept, there.sines.tolist(), strict=True))
    repeated = set(there.dependent)
    kept = [i for number, i in enumerate(kept) if number not in repeated]
    soft = [i for i, c in enumerate(system.compliance) if c]
    mobility = model.nv - len(kept)
    independent = sorted([*kept, *soft])
    return Structure(
        independent=tuple(independent),
        redundant=tuple(i for i in rigid if i not in set(kept)),
        conditional=(),
        faint={i: sines[i] for i in kept if sines[i] < FAINT},
        mobility=mobility,
        branches=(mobility,),
        configuration=q,
        squares=tuple(squares.get(i, 1.0) for i in independent),
        stuck=False,
        nv=model.nv,
    )


def independent_rows(A: Array, order: Sequence[int], tolerance: float = STRUCTURE_TOLERANCE) -> list[int]:
    """The first rows, in this order, that no earlier ones explain."""
    chosen = row_sines(A, order, tolerance)
    return [i for i in order if i in chosen]


def row_sines(
    A: Array, order: Sequence[int], tolerance: float = STRUCTURE_TOLERANCE, *, clear: float = FAINT
) -> dict[int, float]:
    """Independent rows with the sine of each row's angle to the rows chosen before it; by orthogonalisation done twice.

    Rows that are all but explained by earlier ones wait until all others have been chosen: of rows that rounded data
    made nearly dependent, the clearest are kept. So do, before that, those whose sine is below ``clear``.
    """
    largest = max((float(np.linalg.norm(A[i])) for i in order), default=0.0)
    rest = {i: A[i] / norm for i in order if (norm := float(np.linalg.norm(A[i]))) > tolerance * largest}
    basis = np.zeros((0, A.shape[1]))
    kept: dict[int, float] = {}
    for threshold in sorted({max(x, tolerance) for x in (clear, FAINT, 0.0)}, reverse=True):
        for i in [i for i in rest if i not in kept]:
            row = rest[i]
            for _ in range(2):
                row = row - basis.T @ (basis @ row)
            sine = float(np.linalg.norm(row))
            if sine > threshold and len(kept) < A.shape[1]:
                kept[i] = sine
                basis = np.vstack([basis, row / sine])
    return kept


def free_velocities(A: Array, n: int, weights: Sequence[float] | None = None) -> list[int]:
    """Velocities that determine all others, chosen so that the others follow from them as gently as possible.

    ``weights``: of each velocity (n,), smaller for those that are to be taken where the rest would do worse.
    """
    weight = np.ones(n) if weights is None else np.asarray(weights)
    # rows of a basis of the null space: the most independent ones, by pivoting
    _, _, Vt = np.linalg.svd(A, full_matrices=True) if len(A) else (None, None, np.eye(n))
    basis = Vt[len(A) :]
    chosen = []
    for _ in range(len(basis)):
        sizes = np.linalg.norm(basis, axis=0)
        k = int(np.argmax(weight * sizes))
        chosen.append(k)
        direction = basis[:, k] / sizes[k]
        basis = basis - np.outer(direction, direction @ basis)
        basis[:, k] = 0
    return sorted(chosen)
