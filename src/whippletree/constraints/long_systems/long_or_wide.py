"""Which mechanisms are eliminated body by body, and which by one matrix of all velocities."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from whippletree.arithmetic.scalars import is_zero
from whippletree.constraints.long_systems.body_system import Unknowns, rows_without_bodies, unknowns_of
from whippletree.constraints.ties import tied_bodies
from whippletree.tree.skeleton import skeleton

if TYPE_CHECKING:
    from whippletree.constraints.constraint_set import ConstraintSet

UNROLLED = 20_000
"""Multiplications up to which the block matrix of the whole is written out as straight-line code rather than eliminated
by loops over fronts. Each takes about a tenth of the time there, but has to be compiled: 20 000 of them in 4 s."""

WRITTEN_OUT = 150
"""Moving bodies up to which anything is written out."""


def is_cheaper_by_bodies(system: ConstraintSet) -> bool:
    """Whether loops are so long that elimination at body level is to be preferred to one matrix of all velocities."""
    found: bool | None = system.__dict__.get("_by_bodies")
    if found is None:
        found = _may_eliminate(system) and not rows_without_bodies(system) and _is_long_or_wide(system)
        system.__dict__["_by_bodies"] = found
    return found


def _may_eliminate(system: ConstraintSet) -> bool:
    """Whether there are loops over fronts: rows that can be switched, compliant ones and flexible bodies have none."""
    return not (system.switches or any(system.compliance) or system.model.is_flexible)


WIDE, WIDE_IN_SPACE = 9.0, 25.0
"""How many times the cost of the order of elimination the multiplications of the whole may be, where no row has a
weight. A planar ladder of 39 bodies (13) takes 2.5 µs by elimination and 3.9 by the matrix of the whole, a truss of 39
3.1 and 9.8, a ring of seven hexagons (7) 3.0 and 2.2; free in space, ladders of hinges gain from 42 bodies on (18).
With copies of hubs the matrix of the whole stays as long as it may be written out: of twenty slider-cranks on one shaft
(10) it takes 5 µs, elimination 42."""


def _is_long_or_wide(system: ConstraintSet) -> bool:
    if _has_few_rows(system):
        return False
    return len(skeleton(system.model).nodes) > WRITTEN_OUT or whole_cost(system) > UNROLLED


def _has_few_rows(system: ConstraintSet) -> bool:
    """Whether rows are none, or so few across a long tree that sweeps carry them to the base."""
    ties = system.ties
    rows = np.zeros(len(ties.members), dtype=int)
    for c, own in zip(system.demands, ties.of_demand, strict=True):
        rows[own] += len(c.demand.rows)
    return not len(rows) or bool(rows.max() ** 2 < len(skeleton(system.model).nodes))


def is_faster_by_fronts(system: ConstraintSet) -> bool:
    """Whether loops over fronts take less time than the matrix of the whole written out, which could be, too."""
    found: bool | None = system.__dict__.get("_by_fronts")
    if found is None:
        fitting = _may_eliminate(system) and not rows_without_bodies(system) and not _has_few_rows(system)
        found = fitting and _is_wide(system)
        system.__dict__["_by_fronts"] = found
    return found


def _is_wide(system: ConstraintSet) -> bool:
    unknowns = unknowns_of(system)
    wide = WIDE if _is_planar(unknowns) else WIDE_IN_SPACE
    return not unknowns.ties and unknowns.weights.moves_inertia and whole_cost(system) > wide * unknowns.cost


def _is_planar(unknowns: Unknowns) -> bool:
    """Whether all joints turn about z and shift along x and y, in frames whose z are parallel: other components are
    exact zeros, and take no part."""
    across = ((0, 2), (1, 2), (2, 0), (2, 1))
    return all(set(shape.moved) <= {2, 3, 4} for shape in unknowns.shapes) and all(
        is_zero(node.placement.R[ij]) for node in unknowns.tree.nodes for ij in across
    )


def whole_cost(system: ConstraintSet) -> float:
    """Multiplications that M = Lᵀ D L, A M⁻¹ Aᵀ and its factor take, zeros of the tree and of the rows passed over.

    Rows feel the joints between the bodies that they hold on to; M has entries for joints of one path.
    """
    tree = skeleton(system.model)
    parents = tree.velocity_parents
    depth = np.zeros(len(parents), dtype=int)
    for i, parent in enumerate(parents):
        depth[i] = depth[parent] + 1 if parent >= 0 else 1
    cost = float(np.sum(depth.astype(float) ** 2)) / 2
    starts = np.cumsum([0, *[len(c.demand.rows) for c in system.demands]]).tolist()
    factored = set(system.structure.independent)
    reach = np.zeros((len(factored), len(parents)), dtype=bool)
    number = 0
    for c, (start, stop) in zip(system.demands, pairwise(starts), strict=True):
        felt: set[int] = set()
        for k in tied_bodies(tree, c):
            felt.update(x for node in tree.path(k) for x in range(*_span(tree.v_slices[node])))
        for i in range(start, stop):
            if i in factored:
                reach[number, list(felt)] = True
                number += 1
    cost += float(np.sum(reach @ depth.astype(float))) + float(np.sum(reach.sum(axis=0).astype(float) ** 2)) / 2
    near = reach.astype(np.float32) @ reach.T.astype(np.float32) > 0
    for j in range(len(near)):
        later = np.flatnonzero(near[j, j + 1 :]) + j + 1
        cost += len(later) ** 2 / 2
        near[np.ix_(later, later)] = True
    return cost


def _span(part: slice) -> tuple[int, int]:
    return part.start, part.stop
