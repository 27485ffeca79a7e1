"""Totals over contacts or bodies whose rounds are computed side by side.

Rounds of a loop that work on rows of their own (``share`` of :class:`~whippletree.compiler.program.Loop`) add to the
number of their share, and the shares are put together after the loop: always in the same order, however many of the
rounds a target computes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import SHARES, Address, Index, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.problem.cones import largest

SHARE = "share"
"""The register of the share of a round."""


class Combination(NamedTuple):
    """How two numbers of a total become one, and the number that changes nothing."""

    of_two: Callable[[Any, Any], Any]
    neutral: float


SUM = Combination(lambda a, b: a + b, 0)
LARGEST_FROM_ZERO = Combination(lambda a, b: largest([a, b]), 0)
ANY = Combination(lambda a, b: largest([a, b]), -1)
"""1 where one of them is, of flags that are 1 or −1."""
LEAST_FLAG = Combination(lambda a, b: select(less(a, b), a, b), 1)
"""The least of flags, of which 1 is the largest."""


class SharedTotals:
    """Statements about totals of a work space that are also kept share by share."""

    def __init__(self, space: WorkSpace, **combinations: Combination) -> None:
        """``combinations``: by the name of a buffer of one dimension, blanks as underscores."""
        self.space = space
        self.combinations = {name.replace("_", " "): how for name, how in combinations.items()}
        for name in self.combinations:
            space.work(**{f"{name} by share": (self._size(name), SHARES)})

    def begin(self) -> Sequence[Statement]:
        """Before the loop."""
        space = self.space
        return [space.put(how.neutral, space.at(f"{name} by share")) for name, how in self.combinations.items()]

    def each(self, *names: str) -> list[Piece]:
        """The parts of totals that a round may change."""
        found = []
        for name in names or self.combinations:
            size = self._size(name)
            rows = [Address(f"{name} by share", (Index(None, i), Index(SHARE))) for i in range(size)]
            found.append(Piece((size,), tuple(rows)))
        return found

    def end(self) -> list[Statement]:
        """After the loop: what it has found joins what the totals were before."""
        found: list[Statement] = []
        for name, how in self.combinations.items():

            def join(total: Array, shares: Array, how: Combination = how) -> list[Any]:
                return [[how.of_two(a, _all(row, how)) for a, row in zip(total, shares, strict=True)]]

            total = self.space.at(name)
            found.append(traced_block(join, [total, self.space.at(f"{name} by share")], [total]))
        return found

    def _size(self, name: str) -> int:
        return self.space.buffers[name].size


def _all(row: Array, how: Combination) -> Any:
    """The shares of a number put together, in pairs."""
    left = list(row)
    while len(left) > 1:
        left = [how.of_two(a, b) for a, b in zip(left[::2], left[1::2], strict=True)]
    return left[0]
