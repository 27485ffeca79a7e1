"""Single bodies and the whole: how a loop over bodies hands numbers to what is computed once, and gets numbers back.

What a marked body *posts* in one loop lies in a work buffer, a slot for each such body. Between two loops the whole
(:attr:`~whippletree.compiler.frontend.loops.recorder.Looped.whole`) computes from it, and posts numbers in turn: to
single bodies, or to all. Numbers that are the same constant for everybody are not posted, so zeros of a mechanism stay
zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.trace import Traced
from whippletree.compiler.frontend.flatten import flatten, rebuild
from whippletree.compiler.frontend.loops.body_types import Integers
from whippletree.compiler.frontend.loops.recorder import Graph, Interlude, Looped, Posted, Result
from whippletree.compiler.program import Address, Index
from whippletree.tree.sweeps import Field


def pick(looped: Looped, values: Field, marked: Sequence[bool], slots: Integers) -> list[Any]:
    """Values at single bodies, for the whole: those of the marked types, body k in slot ``slots[k]``."""
    structure, leaves = looped.alike([value for value, mark in zip(values, marked, strict=True) if mark])
    shared, moving = _shared(leaves)
    name = _new_buffer(looped, len(moving), slots)
    stores: list[list[tuple[Address, Any]]] = []
    for value, mark in zip(values, marked, strict=True):
        own = flatten(value)[1]
        stores.append([(Address(name, (Index(name, i),)), own[j]) for i, j in enumerate(moving)] if mark else [])
    result = Result(stores, max(looped.latest([[x for _, x in pairs] for pairs in stores]), 0))
    looped.results.append(result)
    width = len(moving)
    return [
        rebuild(structure, _posted(looped.whole, shared, moving, name, None, result.stage + 1, slot * width))
        for slot in range(int(slots.max()) + 1)
    ]


def spread(looped: Looped, values: Sequence[Any], marked: Sequence[bool], slots: Integers) -> Field:
    """Values of the whole at single bodies: a field with None for types that are not marked."""
    structure, leaves = looped.alike(values)
    shared, moving = _shared(leaves)
    name, width = _new_buffer(looped, len(moving), slots), len(moving)
    stores: list[tuple[Address, Any]] = []
    for k, own in enumerate(leaves):
        stores += [(Address(name, (Index(None, k * width + i),)), own[j]) for i, j in enumerate(moving)]
    stage = _interlude(looped, stores)
    return [
        rebuild(structure, _posted(graph, shared, moving, name, name, stage)) if mark else None
        for graph, mark in zip(looped.graphs, marked, strict=True)
    ]


def everywhere(looped: Looped, value: Any) -> Field:
    """A value of the whole as a field."""
    structure, leaves = flatten(value)
    shared, moving = _shared([leaves])
    name = _new_buffer(looped, len(moving), np.zeros(len(looped.parent), dtype=np.int64))
    stage = _interlude(looped, [(Address(name, (Index(None, i),)), leaves[j]) for i, j in enumerate(moving)])
    return [rebuild(structure, _posted(graph, shared, moving, name, None, stage)) for graph in looped.graphs]


def _new_buffer(looped: Looped, width: int, slots: Integers) -> str:
    """A work buffer with so many numbers per slot, and the register of each body's slot, under one name."""
    name = f"post{len(looped.work)}"
    looped.work[name] = width * (int(slots.max(initial=0)) + 1)
    looped.offsets[name] = width * slots
    return name


def _interlude(looped: Looped, stores: list[tuple[Address, Any]]) -> int:
    """Have numbers of the whole stored as soon as they are known; the first stage that may read them."""
    known = looped.whole.known_after(looped.stage_of)
    stage = max([0, *[known[x.index] for _, x in stores if isinstance(x, Traced)]])
    looped.interludes.append(Interlude(stage, stores))
    return stage


def _posted(
    graph: Graph, shared: list[Any], moving: list[int], name: str, register: str | None, stage: int, start: int = 0
) -> list[Any]:
    """The scalars of a value: constants, and inputs of a graph where they were posted."""
    numbers = list(shared)
    for i, j in enumerate(moving):
        numbers[j] = graph.input(Posted(Address(name, (Index(register, start + i),)), stage))
    return numbers


def _shared(leaves: Sequence[Sequence[Any]]) -> tuple[list[Any], list[int]]:
    """Constants that all these lists of scalars share, and the places where they differ."""
    first = list(leaves[0])
    moving = [j for j, x in enumerate(first) if any(isinstance(own[j], Traced) or own[j] != x for own in leaves)]
    return first, moving
