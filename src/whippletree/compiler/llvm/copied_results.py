"""Blocks that compute nothing, and only carry many numbers from work space to results: a list of places and signs."""

from __future__ import annotations

from collections.abc import Callable

from whippletree.arithmetic.trace import Node
from whippletree.compiler.program import Address, Block

FEWEST_LISTED = 200
"""Results from which a block that only copies becomes a list: fewer are as many lines as their calls."""

Entry = int
"""Twice the place of a number in work space, as the target counts; plus one for its negative."""


def entries_of(block: Block, place: Callable[[Address], int | None]) -> list[Entry] | None:
    """The list of all that a block stores, if it only copies, with or without a sign, many numbers from work space.

    ``place`` is where a number lies there; None for one that does not, or whose place only the running program knows.
    """
    if len(block.stores) < FEWEST_LISTED:
        return None
    entries = []
    for output in block.code.outputs:
        node: Node = block.code.nodes[output] if isinstance(output, int) else ("const", output)
        negative = node[0] == "neg"
        node = block.code.nodes[node[1]] if negative else node
        found = place(block.loads[node[1]]) if node[0] == "input" else None
        if found is None:
            return None
        entries.append(2 * found + negative)
    return entries
