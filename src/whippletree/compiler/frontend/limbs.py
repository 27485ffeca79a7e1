"""Limbs that are alike: two arms, four legs, the copies of a mechanism in a scene.

Siblings are alike if the trees that they carry have the same joint types in the same places. A *rotation* takes each to
the next one, round in a circle: the k-th of every family to its (k + 1)-th, so that two legs and two arms change sides
together. The numbers of their bodies may differ; code for one of them does for all
(:mod:`whippletree.compiler.program.folding`), provided that the same numbers are left out of it. A number that is
exactly 0 or ±1 in one limb but not in its twin is therefore kept in both: 0 · x is then computed, and is 0 for every
finite x.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whippletree.arithmetic.trace import Trace
from whippletree.compiler.frontend.flatten import flatten, rebuild
from whippletree.compiler.program.folding_plan import LimbTurning
from whippletree.functions import Shape
from whippletree.tree.skeleton import Skeleton

MOST_ROTATIONS = 2
"""So many ways in which limbs can take each other's places are tried where code is folded; the first one that pays is
taken."""

NODES, NUMBERS = "nodes", "numbers"
"""Words in the shape of an input: how many nodes there are; and how many numbers, in rows that are about what the first
word says."""


@dataclass(frozen=True)
class Rotation:
    """Limbs that take each other's places: the image of each node, and the limb that it belongs to (−1 for none)."""

    limbs: int
    image: tuple[int, ...]
    limb: tuple[int, ...]

    @property
    def moved(self) -> int:
        """How many nodes are in limbs."""
        return sum(k >= 0 for k in self.limb)


def rotations(tree: Skeleton) -> list[Rotation]:
    """The ways in which limbs of a tree can take each other's places, most promising first.

    None where bodies have modes: frames of such a body share its coordinates, which are no limb's own.
    """
    if tree.model.is_flexible:
        return []
    families = list(_families(tree))
    sizes = {d for family in families for d in range(2, len(family) + 1) if len(family) % d == 0}
    found = [_rotation(tree, families, limbs) for limbs in sizes]
    return sorted(found, key=lambda r: r.moved / r.limbs - r.moved)


def _families(tree: Skeleton) -> Iterator[list[int]]:
    """Siblings that are alike, as high up as there are any."""
    children = _children(tree)
    shapes = _shapes(tree, children)
    open_ = [-1]
    while open_:
        alike: dict[Any, list[int]] = defaultdict(list)
        for child in children[open_.pop()]:
            alike[shapes[child]].append(child)
        for family in alike.values():
            if len(family) > 1:
                yield family
            else:
                open_ += family


def _children(tree: Skeleton) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {node: [] for node in range(-1, len(tree.nodes))}
    for node, parent in enumerate(tree.parents):
        children[parent].append(node)
    return children


def _shapes(tree: Skeleton, children: Mapping[int, Sequence[int]]) -> list[int]:
    """A number for the form of the tree that each node carries: equal for equal forms."""
    known: dict[Any, int] = {}
    shapes = [0] * len(tree.nodes)
    for node in reversed(range(len(tree.nodes))):
        structure, _ = flatten(tree.nodes[node])
        form = (structure, tuple(sorted(shapes[child] for child in children[node])))
        shapes[node] = known.setdefault(form, len(known))
    return shapes


def _rotation(tree: Skeleton, families: Sequence[Sequence[int]], limbs: int) -> Rotation:
    children = _children(tree)
    shapes = _shapes(tree, children)
    image, limb = list(range(len(tree.nodes))), [-1] * len(tree.nodes)

    def pair(node: int, other: int, number: int) -> None:
        image[node], limb[node] = other, number
        ordered = (sorted(children[k], key=lambda child: (shapes[child], child)) for k in (node, other))
        for child, twin in zip(*ordered, strict=True):
            pair(child, twin, number)

    for family in families:
        if len(family) % limbs == 0:
            for start in range(0, len(family), limbs):
                circle = family[start : start + limbs]
                for number, node in enumerate(circle):
                    pair(node, circle[(number + 1) % limbs], number)
    return Rotation(limbs, tuple(image), tuple(limb))


# ---- what a rotation does to a function ------------------------------------------------------------------------------


def turning(tree: Skeleton, rotation: Rotation, inputs: Sequence[tuple[Shape, tuple[int, ...]]]) -> LimbTurning:
    """The rotation of a function's inputs: shapes in words and in numbers, in order."""
    images = {
        "nq": _permutation_of(tree.q_slices, rotation, tree.model.nq),
        "nv": _permutation_of(tree.v_slices, rotation, tree.model.nv),
        NODES: np.array(rotation.image),
    }
    limb = {
        "nq": _owners(tree.q_slices, rotation, tree.model.nq),
        "nv": _owners(tree.v_slices, rotation, tree.model.nv),
        NODES: np.array(rotation.limb),
    }
    owners = np.concatenate([_owner(words, sizes, limb) for words, sizes in inputs])
    return LimbTurning(rotation.limbs, _all_moved(inputs, images), tuple(owners.tolist()))


def _permutation_of(slices: Sequence[slice], rotation: Rotation, size: int) -> Any:
    moved = np.arange(size)
    for node, other in enumerate(rotation.image):
        moved[slices[node]] = np.arange(size)[slices[other]]
    return moved


def _owners(slices: Sequence[slice], rotation: Rotation, size: int) -> Any:
    owners = np.full(size, -1)
    for node, limb in enumerate(rotation.limb):
        owners[slices[node]] = limb
    return owners


def _all_moved(arrays: Sequence[tuple[Shape, tuple[int, ...]]], images: Mapping[str, Any]) -> tuple[int, ...]:
    """The image of every number of arrays that follow each other."""
    found: list[int] = []
    for words, sizes in arrays:
        places = np.arange(int(np.prod(sizes, dtype=int))).reshape(sizes) + len(found)
        for axis, word in enumerate(words):
            if (moved := images.get(str(word))) is not None:
                places = np.take(places, moved, axis=axis)
        found += places.ravel().tolist()
    return tuple(found)


def _owner(words: Shape, sizes: tuple[int, ...], limb: Mapping[str, Any]) -> Any:
    """The limb of every number of an input; those of matrices count as nobody's, but for rows of numbers."""
    size = int(np.prod(sizes, dtype=int))
    owners = limb.get(str(words[0])) if len(words) == 1 or NUMBERS in words[1:] else None
    return np.full(size, -1) if owners is None else np.repeat(owners, size // len(owners))


# ---- numbers that all twins keep -------------------------------------------------------------------------------------


def with_twin_constants(tree: Skeleton, rotation: Rotation, trace: Trace) -> Skeleton:
    """The tree with the numbers of limbs as constants of a trace that know their twins in other limbs.

    Numbers that are 0, or ±1, in all twins stay what they are: the code has nothing to do for them.
    """
    nodes = list(tree.nodes)
    for node, limb in enumerate(rotation.limb):
        if limb != 0:
            continue
        circle = [node]
        while rotation.image[circle[-1]] != node:
            circle.append(rotation.image[circle[-1]])
        apart = [flatten(tree.nodes[k]) for k in circle]
        leaves = list(zip(*[own for _, own in apart], strict=True))
        numbers = [None if _is_pattern(twins) else trace.twin_number() for twins in leaves]
        for part, k in enumerate(circle):
            kept = [
                twins[part] if number is None else trace.twin_constant(twins[part], number, part)
                for twins, number in zip(leaves, numbers, strict=True)
            ]
            nodes[k] = rebuild(apart[part][0], kept)
    matched = replace(tree, nodes=tuple(nodes))
    # what is known of the numbers stays known
    matched.__dict__.update(doubtful=tree.doubtful, neutral_rotations=tree.neutral_rotations)
    return matched


def _is_pattern(twins: Sequence[Any]) -> bool:
    """Whether all twins are 0, or all ±1."""
    return all(x == 0 for x in twins) or all(x in (1, -1) for x in twins)
