"""Blocks of one row: a limit of a joint or tendon presses along its normal, dry friction and servos along a tangent.

A contact has three rows, and code for three serves all. But a hand has some forty blocks of one row and no contact, and
a contact in a plane has two rows, so they have code of their own, traced from the same functions: numbers of the other
rows are zeros that are known, are not read, and vanish with whatever they are multiplied by. They are written, for
methods that know whole blocks only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.compiler.program import Block
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.contact.problem.contact_problem import Local

WHOLE, NORMAL, TANGENT = FORMS = range(3)
"""Forms of blocks: three rows, the first one alone, the second one alone."""

PLANE = len(FORMS)
"""The form of all blocks where contacts are in a plane: the first two rows."""

FORM = "form"
"""The table of all blocks' forms, and the register of that in hand."""

OF_THREE_ROWS = frozenset(("B", "E", "J", "g", "impulse", "delta", "approach", "raw", "part", "way"))
"""Buffers that have something for each row of a block."""

_ROWS = {NORMAL: [0], TANGENT: [1], PLANE: [0, 1]}

_OWN = {NORMAL: [0], TANGENT: [3], PLANE: [0, 1, 3]}
"""Entries of the upper triangle of a block's own matrix (3, 3)."""

_LOCAL = {
    form: [Local._fields.index(name) for name in names]
    for form, names in (
        (NORMAL, ("normal",)),
        (TANGENT, ("stiffness1", "inverse1")),
        (PLANE, ("normal", "coupling1", "stiffness1", "inverse1")),
    )
}
"""Fields of :class:`Local` that are not known beforehand: the tangent is its own principal axis."""


def row_of(form: int) -> int:
    """The row that a block of one row has."""
    return _ROWS[form][0]


def block_of_form(
    form: int, function: Callable[..., Sequence[Any]], reads: Sequence[Piece], writes: Sequence[Piece]
) -> Block:
    """Like :func:`traced_block`, for blocks of a form."""
    if form == WHOLE:
        return traced_block(function, reads, writes)
    kept = [_kept(form, part) for part in reads]

    def narrowed(*numbers: Any) -> Sequence[Any]:
        return function(*[_filled(part, rows, own) for part, rows, own in zip(reads, kept, numbers, strict=True)])

    return traced_block(narrowed, [_part(part, rows) for part, rows in zip(reads, kept, strict=True)], writes)


def _kept(form: int, part: Piece) -> list[int] | None:
    """Which of its rows a piece keeps; None: all."""
    name, first = part.addresses[0].buffer, part.shape[0] if part.shape else 0
    if name in OF_THREE_ROWS and first == 3:
        return _ROWS[form]
    return {"own": _OWN, "local": _LOCAL}[name][form] if name in ("own", "local") else None


def _part(part: Piece, rows: list[int] | None) -> Piece:
    if rows is None:
        return part
    places = np.arange(len(part.addresses)).reshape(part.shape)[rows]
    return Piece(places.shape, tuple(part.addresses[i] for i in places.flat))


def _filled(part: Piece, rows: list[int] | None, own: Any) -> Any:
    """The whole of what a piece is about, with numbers for the rows that it does not read."""
    if rows is None:
        return own
    full = np.zeros(part.shape, dtype=int).astype(object)
    if part.addresses[0].buffer == "local":
        full[Local._fields.index("cosine")] = 1
    full[rows] = own
    return full
