"""An axis cut into named blocks: what says which entries of a plain vector belong to which node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import GraphError, ShapeError
from whippletree.graph.digraph import Node, check_permutation, quoted


@dataclass(frozen=True, init=False)
class Partition:
    """An axis of length N cut into named blocks that follow each other; sizes may be 0.

    Args:
        sizes: block name -> number of entries, in order.
    """

    names: tuple[Node, ...]
    sizes: tuple[int, ...]

    def __init__(self, sizes: Mapping[Any, int]) -> None:
        vars(self).update(names=tuple(sizes), sizes=tuple(map(index, sizes.values())))
        if negative := [name for name, m in zip(self.names, self.sizes) if m < 0]:
            raise ShapeError(f"Partition: blocks of negative size: {quoted(negative)}. A size counts entries.")

    @cached_property
    def slices(self) -> Mapping[Node, slice]:
        """Block name -> its place on the axis."""
        ends = np.cumsum(self.sizes, dtype=int).tolist()
        return {name: slice(end - m, end) for name, m, end in zip(self.names, self.sizes, ends)}

    @cached_property
    def _size(self) -> dict[Node, int]:
        return dict(zip(self.names, self.sizes))

    @cached_property
    def total(self) -> int:
        """N, the length of the axis."""
        return sum(self.sizes)

    def size(self, name: Node) -> int:
        """m_k, the number of entries of one block."""
        try:
            return self._size[name]
        except KeyError:
            known = quoted(self.names) or "none"
            raise GraphError(f"Partition: there is no block {name!r}; known: {known}.") from None

    def split(self, x: Array) -> dict[Node, Array]:
        """The blocks of a vector (N,) or (N, k), as views into it."""
        x = self.checked(x, "split")
        return {name: x[place] for name, place in self.slices.items()}

    def join(self, parts: Mapping[Any, Array]) -> Array:
        """The vector (N,) or (N, k) made of one block per name."""
        found = {name: np.asarray(part) for name, part in parts.items()}
        if wrong := [n for n in dict.fromkeys((*self.names, *found)) if n not in found or n not in self.slices]:
            raise GraphError(f"Partition.join: each block must be given once; missing or unknown: {quoted(wrong)}.")
        for name, part in found.items():
            if part.shape[:1] != (self.size(name),):
                raise ShapeError(
                    f"Partition.join: block {name!r} has shape {part.shape}, expected ({self.size(name)},) or "
                    f"({self.size(name)}, k)."
                )
        return np.concatenate([found[name] for name in self.names]) if self.names else np.zeros(0, dtype=int)

    def checked(self, x: Any, where: str) -> Array:
        """The argument as an array (N,) or (N, k); anything else is a ShapeError."""
        vector: Array = np.asarray(x)
        if vector.ndim not in (1, 2) or vector.shape[0] != self.total:
            raise ShapeError(
                f"{where}: the vector has shape {vector.shape}, expected ({self.total},) or ({self.total}, k): "
                f"{len(self.names)} blocks of sizes {quoted(self.sizes) or 'none'}."
            )
        return vector

    def permuted(self, order: Iterable[Node]) -> Partition:
        """These blocks in another order."""
        return Partition({name: self.size(name) for name in check_permutation(self.names, order)})
