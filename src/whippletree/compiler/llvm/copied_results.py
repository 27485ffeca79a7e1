"""What computes nothing, and only carries numbers from work space to results: lists of places and signs, whole rows."""

from __future__ import annotations

from collections.abc import Callable

from whippletree.arithmetic.trace import Node
from whippletree.compiler.program import Address, Block, Index, Loop

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


def rows_copied(loop: Loop) -> tuple[Address, Address, int] | None:
    """Where the first rows are that a loop copies, from and to, and how long they are; None if it does anything else.

    Its rounds are rows, from their first number on.
    """
    block = loop.body[0]
    if len(loop.body) > 1 or not isinstance(block, Block) or loop.backwards or not isinstance(loop.count, int):
        return None
    width = len(block.stores)
    inputs = [("input", i) for i in range(width)]
    copies = [block.code.nodes[x] if isinstance(x, int) else None for x in block.code.outputs] == inputs
    places = [(Index(loop.counter), Index(None, i)) for i in range(width)]
    ends = [[address.indices[-2:] for address in group] for group in (block.loads, block.stores)]
    if not width or not copies or ends != [places, places] or len({a.buffer for a in block.stores}) > 1:
        return None
    if len({a.buffer for a in block.loads}) > 1 or len({a.indices[:-2] for a in (*block.loads, *block.stores)}) > 2:
        return None
    return block.loads[0], block.stores[0], width
