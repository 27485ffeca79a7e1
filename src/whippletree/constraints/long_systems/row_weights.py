"""Weights ρ with which rows enter the body-level system a second time, K + Bᵀ R B, and which rows need none.

The weights change no answer; they let any motion be eliminated before the rows that carry it, also where it has no
inertia. But they couple the bodies of a row directly, which makes fronts wider. Where every motion has inertia, nothing
needs them:

* The rows of a joint by which a body follows its parent are solved, not weighted.
* If every joint moves components along which its own body has inertia, K is positive definite on all motions that keep
  to the joints: from the base to the tips, a motion without energy moves no joint. Then closures need no weight.
* A body on the world may move along components without inertia of its own, as a thin rod that floats turns about its
  axis: it is eliminated last, with the articulated inertia of what hangs on it, if that is positive
  (:func:`~whippletree.constraints.long_systems.body_system.unknowns_of` looks at a generic configuration).
* A body that only hangs on the mechanism, with all that hangs on it, is felt by no closure: some inertia is enough.
* The rows of other joints hold components of a body that is eliminated as if it were free. Those along which it has
  inertia need no weight either, unless the joint's accelerations are unknowns of their own, or the body hangs on one
  that has no inertia but by it.

To have inertia means here: not much less than the largest of the mechanism, so that digits are lost neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.light_loops import WEIGHTLESS
from whippletree.errors import ScalarError
from whippletree.tree.skeleton import Node, Skeleton

if TYPE_CHECKING:
    from whippletree.constraints.long_systems.body_elements import JointShape

EVEN_SHARE = 1e-2
"""Share of the largest inertia of a mechanism that counts as inertia; also of what is left of it where other components
move freely. Without weights a ladder with rungs and rails of 0.01 kg among those of 1 kg loses one digit, of 1e-4 kg
two, of 1e-8 kg seven; with weights most of them stay."""


class Weight(NamedTuple):
    """ρ of a row as a ratio: exact scalars stay exact."""

    up: Any
    down: Any = 1

    @staticmethod
    def near(size: float) -> Weight:
        """The power of two next to a size; 1 for nothing."""
        if not size > 0:
            return Weight(1)
        p = round(np.log2(size))
        return Weight(2**p) if p >= 0 else Weight(1, 2**-p)

    def times(self, x: Any) -> Any:
        """ρ x."""
        return x * self.up / self.down if self.down != 1 else x * self.up


NO_WEIGHT = Weight(0)


class RowWeights:
    """ρ of the rows of a mechanism."""

    def __init__(
        self,
        tree: Skeleton,
        shapes: Sequence[JointShape],
        carried: Sequence[int] = (),
        hanging: Sequence[bool] | None = None,
    ) -> None:
        """``shapes``: of the joint of each node; ``carried``: nodes that are eliminated last, when what hangs on them
        has given them inertia; ``hanging``: of each node, whether neither it nor anything on it is part of a loop."""
        self.tree, self.shapes, self.carried = tree, shapes, carried
        self.hanging = [False] * len(shapes) if hanging is None else hanging

    @cached_property
    def scales(self) -> Array:
        """Rotational inertia and mass that are typical for each node (n, 2); those of all nodes where it has none."""
        sizes = np.zeros((len(self.tree.nodes), 2))
        known: dict[int, tuple[float, float]] = {}
        for k, node in enumerate(self.tree.nodes):
            if id(node) not in known:
                known[id(node)] = (float(np.trace(node.inertia.rotation.astype(float))) / 3, float(node.inertia.mass))
            sizes[k] = known[id(node)]
        mean = sizes.mean(axis=0) if len(sizes) else np.ones(2)
        mean = np.where(mean > 0, mean, 1.0)
        return np.where(sizes > 0, sizes, mean)

    def between(self, nodes: Sequence[int]) -> tuple[Weight, Weight]:
        """ρ of rows on turns and on shifts between nodes, where they need one: the larger inertia."""
        turns, shifts = self.scales[list(nodes)].max(axis=0).tolist() if nodes else (1.0, 1.0)
        return Weight.near(turns), Weight.near(shifts)

    @cached_property
    def heavy(self) -> list[tuple[int, ...]]:
        """For each node, the components along which its own body has inertia, of those that its joint moves, where it
        can."""
        largest = self.scales.max(axis=0, initial=0.0)
        known: dict[tuple[int, JointShape], tuple[int, ...]] = {}
        found = []
        for node, shape in zip(self.tree.nodes, self.shapes, strict=True):
            key = id(node), shape
            if key not in known:
                known[key] = _heavy_components(node, largest, shape.moved)
            found.append(known[key])
        return found

    @cached_property
    def lacking(self) -> list[int]:
        """Nodes whose joints move components along which their own bodies have no inertia.

        Of what only hangs on a mechanism, little inertia is enough, as in the articulated recursion: no row feels it.
        """
        pairs = enumerate(zip(self.shapes, self.heavy, strict=True))
        found = [k for k, (shape, heavy) in pairs if not {*shape.moved} <= {*heavy}]
        return [k for k in found if not (self.hanging[k] and _has_inertia(self.tree.nodes[k], self.shapes[k].moved))]

    @cached_property
    def moves_inertia(self) -> bool:
        """Whether every joint moves only components along which its own body has inertia, or what it carries."""
        return {*self.lacking} <= {*self.carried}

    def of_joints(self, follows: Sequence[bool]) -> list[tuple[Weight, ...]]:
        """ρ of the rows of each node's joint; ``follows``: whether these are solved."""
        found = []
        for k, parent in enumerate(self.tree.parents):
            turns, shifts = self.between((k, k if parent < 0 else parent))
            # accelerations of a joint that are unknowns of their own have no inertia but by these rows, nor has a body
            # that is eliminated last by one that does not follow it, as a roller by the bar of a lift
            bare = self.shapes[k].explicit or parent in self.carried
            heavy = self.heavy[k] if self.moves_inertia and not bare else ()
            found.append(
                tuple(
                    NO_WEIGHT if follows[k] or i in heavy else turns if i < 3 else shifts
                    for i in self.shapes[k].blocked
                )
            )
        return found

    def of_closure(self, nodes: Sequence[int], shifts: Sequence[bool]) -> tuple[Weight, ...]:
        """ρ of the rows of a closure between nodes; ``shifts``: whether each row is on a shift, not on a turn."""
        if self.moves_inertia:
            return (NO_WEIGHT,) * len(shifts)
        turn, shift = self.between(nodes)
        return tuple(shift if moves else turn for moves in shifts)


def _heavy_components(node: Node, largest: Array, moved: Sequence[int]) -> tuple[int, ...]:
    """Components along which a body has inertia, whatever the others of them do; none where only a call can tell.

    A thin rod that lies across the axes of its frame has inertia along each of them, but not along all at once: of such
    components those that the joint has ``moved`` come first, for the others may be given a weight.
    """
    try:
        own = np.array(node.inertia.dense(), dtype=float)
    except (AttributeError, TypeError, ScalarError):
        return ()
    if own.shape != (6, 6):
        return ()
    found = [i for i in range(6) if own[i, i] >= EVEN_SHARE * largest[0 if i < 3 else 1]]
    size = np.sqrt(np.where(np.diag(own) > 0, np.diag(own), 1.0))
    scaled = own / np.outer(size, size)
    if _is_even(scaled, found):
        return tuple(found)
    kept: list[int] = []
    for i in sorted(found, key=lambda i: i not in moved):
        if _is_even(scaled, [*kept, i]):
            kept.append(i)
    return tuple(sorted(kept))


def _has_inertia(node: Node, moved: Sequence[int]) -> bool:
    """Whether a body has some inertia of its own, however little, along all components that its joint moves."""
    try:
        own = np.array(node.inertia.dense(), dtype=float)
    except (AttributeError, TypeError, ScalarError):
        return False
    if own.shape != (6, 6):
        return False
    part = own[np.ix_(moved, moved)]
    size, largest = np.diag(part), (np.diag(own)[:3].max(), np.diag(own)[3:].max())
    if any(x <= WEIGHTLESS * largest[0 if i < 3 else 1] for i, x in zip(moved, size, strict=True)):
        return False
    scaled = part / np.sqrt(np.outer(size, size))
    return bool(np.linalg.eigvalsh(scaled).min(initial=1.0) >= WEIGHTLESS)


def _is_even(scaled: Array, places: Sequence[int]) -> bool:
    return bool(np.linalg.eigvalsh(scaled[np.ix_(places, places)]).min(initial=1.0) >= EVEN_SHARE)
