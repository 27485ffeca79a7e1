"""Straight-line code of a tree in a step, with limbs that are alike side by side in the lanes of a vector.

One state that is computed alone leaves lanes free. The left leg does what the right one does, so that both are done at
once (:mod:`whippletree.compiler.program.folding`). What decides the time of such code is how many bytes of it there
are: it is run once a step, and fetched from far away each time. Of the operations of a humanoid's dynamics 0.73 are
left, of those of a quadruped 0.5, of poses 0.6 and 0.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.frontend.limbs import MOST_ROTATIONS, rotations, turning, with_twin_constants
from whippletree.compiler.program import Address, Buffer, Program, Statement
from whippletree.compiler.program.folding import fold_beside
from whippletree.compiler.program.program import map_addresses
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.functions import Shape
from whippletree.tree.skeleton import Skeleton

GIVEN, FOUND = "given", "found"


def limbs_beside(
    space: WorkSpace,
    name: str,
    tree: Skeleton,
    function: Callable[..., Sequence[Any]],
    reads: Sequence[tuple[Piece, Shape]],
    writes: Sequence[Piece],
) -> list[Statement]:
    """A function of a tree and of arrays as statements between memory and memory.

    Args:
        name: for its work space.
        reads: what the arrays are, and their shapes in words: "nq", "nv" or "nodes", and "numbers" after it for rows.
    """
    pieces = [part for part, _ in reads]
    sources, stores = ([address for part in parts for address in part.addresses] for parts in (pieces, writes))
    given, found = (
        [Buffer(word, role, (len(own),))]  # type: ignore[arg-type]
        for word, role, own in ((GIVEN, "input", sources), (FOUND, "output", stores))
    )
    shapes = [(words, part.shape) for part, words in reads]
    for rotation in rotations(tree)[:MOST_ROTATIONS]:
        trace = Trace()
        turned = with_twin_constants(tree, rotation, trace)
        parts = function(turned, *[trace.inputs(*part.shape)[()] for part in pieces])
        results = [x for part in parts for x in np.ravel(np.asarray(part, dtype=object))]
        code = finish(trace, results)
        trace.close()
        folding = fold_beside(code, given, found, turning(tree, rotation, shapes))
        if folding is not None:
            return _placed(space, name, folding.program(name), sources, stores)
    return [traced_block(lambda *arrays: function(tree, *arrays), pieces, writes)]


def _placed(
    space: WorkSpace, name: str, program: Program, sources: Sequence[Address], stores: Sequence[Address]
) -> list[Statement]:
    """A program's statements, with arguments where they are, and its buffers among those of a work space."""
    places = {GIVEN: sources, FOUND: stores}

    def move(address: Address) -> Address:
        if address.buffer in places:
            return places[address.buffer][address.indices[0].offset]
        return address._replace(buffer=f"{name} {address.buffer}")

    own = [b for b in program.buffers if b.name not in places]
    space.add(*[replace(b, name=f"{name} {b.name}") for b in own])
    return list(map_addresses(program.body, move))
