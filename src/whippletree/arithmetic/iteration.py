"""Iterations that end when they are done, in generic code: the one place where generic code may go on or stop by a
value.

On numbers this is a Python loop. On lanes, those that are done keep what they have. On traced scalars the rounds become
a loop of the program that is being written (:mod:`whippletree.compiler.program.traced_blocks`), so that a search
compiles to the code of one round. For that, a round must know nothing but what it is handed: whatever it needs beside
its state is passed as ``given``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.scalars import functions_of

Parts: TypeAlias = Sequence[Any]
"""Scalars, and arrays of scalars."""

Round: TypeAlias = Callable[[list[Any], list[Any]], Parts]
"""(state, given) → state."""


def iterate(step: Round, state: Parts, given: Parts, most: int) -> list[Any]:
    """The state after as many rounds as it takes, at most ``most``, until its first part, a number, is positive.

    Args:
        step: one round; a module-level function, or one that closes over nothing that has to do with values.
        state: where it begins; every round returns parts of the same shapes.
        given: what every round is handed beside it.
    """
    shapes, fixed = [np.shape(part) for part in state], [np.shape(part) for part in given]

    def flat_step(numbers: list[Any], others: list[Any]) -> list[Any]:
        return flatten_parts(step(restore_parts(numbers, shapes), restore_parts(others, fixed)))

    begin, others = flatten_parts(state), flatten_parts(given)
    found = functions_of(*begin, *others).iterate(flat_step, begin, others, most)
    return restore_parts(found, shapes)


def flatten_parts(parts: Parts) -> list[Any]:
    """All scalars of some parts, one after the other."""
    return [x for part in parts for x in np.ravel(np.asarray(part, dtype=object))]


def restore_parts(numbers: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The parts of these shapes, from their scalars."""
    left, found = iter(numbers), []
    for shape in shapes:
        part = np.empty(shape, dtype=object)
        for index in np.ndindex(*shape):
            part[index] = next(left)
        found.append(part[()])
    return found
