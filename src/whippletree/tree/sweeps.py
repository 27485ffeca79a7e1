"""Scatter and gather: the only two recursions of the theory (document 002), for any block weights.

A **scatter** runs from the base to the tips: each body receives a value from its parent and hands one to its children.
A **gather** runs from the tips to the base: each body receives the sum of its children's messages and sends one to its
parent. The physics is in the small step that a caller supplies; the recursion is here, once.

An algorithm never indexes a tree by itself: it maps, scatters and gathers *fields* (one value per body), so that the
same source runs unrolled over concrete bodies (this module: on any scalar, also traced) and as the body of a loop in a
compiled kernel (:mod:`whippletree.compiler.frontend.loops`). Values are arrays, scalars, or (named) tuples of them.
What crosses an edge of the tree must have one shape for all joint types; what a body keeps may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array

Field: TypeAlias = Sequence[Any]
"""One value per body, in tree order (parents first)."""


class BlockWeight(Protocol):
    """The weight φ(parent, child) of an edge: how twists go down the tree and wrenches go up."""

    def motion(self, V: Array) -> Array:
        """φ* V: parent's twist as seen at the child."""

    def force(self, f: Array) -> Array:
        """φ f: child's wrench as seen at the parent."""

    def inertia(self, P: Array) -> Array:
        """φ P φ*: child's inertia as seen at the parent."""


class DenseWeight(NamedTuple):
    """A block weight that is any matrix w (m_parent, m_child): rectangular ones and ones that move nothing rigidly."""

    w: Array

    def motion(self, V: Array) -> Array:
        return np.asarray(self.w.T @ V)

    def force(self, f: Array) -> Array:
        return np.asarray(self.w @ f)

    def inertia(self, P: Array) -> Array:
        return np.asarray(self.w @ P @ self.w.T)


class Sweeper(Protocol):
    """Runner of the recursions; algorithms are written against this."""

    def map(self, function: Callable[..., Any], *fields: Field) -> Field:
        """function(fields of k) for every body, independently."""

    def scatter(self, step: Callable[..., tuple[Any, Any]], root: Any, *fields: Field) -> Field:
        """(value, kept) = step(parent's value, fields of k), base to tips; returns what was kept."""

    def gather(self, step: Callable[..., tuple[Any, Any]], zero: Any, *fields: Field) -> Field:
        """(message, kept) = step(zero + Σ children's messages, fields of k), tips to base; returns what was kept."""

    def total(self, function: Callable[..., Any], zero: Any, *fields: Field) -> Any:
        """zero + Σ function(fields of k) over all bodies: one value, not a field."""


class Unrolled:
    """The recursions over concrete bodies, one Python step per body; no recursion limit, linear in their number."""

    def __init__(self, parents: Sequence[int]) -> None:
        """``parents``: index of each body's parent, −1 for the world; parents come before their children."""
        self.parents = tuple(parents)

    def map(self, function: Callable[..., Any], *fields: Field) -> Field:
        return [function(*values) for values in zip(*fields, strict=True)]

    def scatter(self, step: Callable[..., tuple[Any, Any]], root: Any, *fields: Field) -> Field:
        values: list[Any] = []
        kept: list[Any] = []
        for parent, *own in zip(self.parents, *fields, strict=True):
            value, keep = step(root if parent < 0 else values[parent], *own)
            values.append(value)
            kept.append(keep)
        return kept

    def gather(self, step: Callable[..., tuple[Any, Any]], zero: Any, *fields: Field) -> Field:
        received: list[Any] = [zero] * len(self.parents)
        kept: list[Any] = [None] * len(self.parents)
        for k in reversed(range(len(self.parents))):
            message, kept[k] = step(received[k], *[field[k] for field in fields])
            parent = self.parents[k]
            if parent >= 0:
                received[parent] = add(received[parent], message)
        return kept

    def total(self, function: Callable[..., Any], zero: Any, *fields: Field) -> Any:
        result = zero
        for values in zip(*fields, strict=True):
            result = add(result, function(*values))
        return result


def add(a: Any, b: Any) -> Any:
    """The sum of two values: of arrays and scalars, or entry by entry of tuples."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        total = tuple(x + y for x, y in zip(a, b, strict=True))
        return type(b)(*total) if hasattr(b, "_fields") else total
    # an inertia with modes knows how to add one without
    return b + a if isinstance(a, tuple) else a + b
