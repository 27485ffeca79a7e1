"""Numbers that cross an edge of the tree: which of them really vary, and which are the same number twice.

A symmetric inertia has 36 entries and 21 numbers; a planar chain's twists have three zeros. Both are found by assuming
the best (every entry that starts as a constant stays that constant, equal entries stay equal), tracing a step, and
giving up what did not hold, until nothing changes. What then holds for every type of body holds by induction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from whippletree.arithmetic.trace import Traced


class Entry(NamedTuple):
    """A number that crosses: the first of the equal scalars that it stands for, by position in the flattened value."""

    leaf: int


Pattern: TypeAlias = tuple[Any, ...]
"""For each scalar of a value: a constant, or the :class:`Entry` that carries it."""


def entries(pattern: Pattern) -> list[int]:
    """The positions of the numbers that cross."""
    return [i for i, x in enumerate(pattern) if x == Entry(i)]


def refine_pattern(pattern: Pattern, start: Sequence[Any], sent: Sequence[Sequence[Any]], *, summed: bool) -> Pattern:
    """The pattern with everything given up that is contradicted by what the types of bodies send.

    Args:
        pattern: what was assumed of everything that arrives.
        start: the scalars that arrive where there is nothing before: from the world, or from no children at all.
        sent: for each type of body, the scalars that it hands on under that assumption.
        summed: whether what arrives is ``start`` plus a sum of what was sent, or just what was sent.
    """
    groups: dict[tuple[Any, ...], int] = {}
    result: list[Any] = []
    for leaf, (assumed, first, *now) in enumerate(zip(pattern, start, *sent, strict=True)):
        unchanged = 0 if summed else assumed
        if not isinstance(assumed, Entry) and all(not isinstance(x, Traced) and x == unchanged for x in now):
            result.append(assumed)
            continue
        key = (assumed, _mark(first), *map(_mark, now))
        result.append(Entry(groups.setdefault(key, leaf)))
    return tuple(result)


def _mark(x: Any) -> Any:
    """Equal for equal scalars of one trace, different for a number and a node; NaN are equal until more is known."""
    if isinstance(x, Traced):
        return x.index
    return ("number", float(x) if x == x else None)
