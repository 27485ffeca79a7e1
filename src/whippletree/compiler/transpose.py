"""Rows to lanes and back: W states with C neighbouring numbers each become C lane vectors, by shuffles in registers.

C is W, or a smaller power of two for short rows. Both directions are the same butterfly: stage by stage, blocks of 1,
2, 4 … numbers are exchanged between pairs of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from whippletree.compiler.ir import Operand, Writer


def rows_to_lanes(w: Writer, rows: Sequence[Operand], columns: int) -> list[Operand]:
    """``rows``: W vectors of C numbers. Returns C lane vectors."""
    vectors = list(rows)
    width = columns
    while width < w.lanes.width:
        # put short rows side by side: in the end vector j holds the rows j, j + C, j + 2C …
        side_by_side = list(range(2 * width))
        vectors = [
            _shuffle(w, vectors[block + j], vectors[block + columns + j], side_by_side, width)
            for block in range(0, len(vectors), 2 * columns)
            for j in range(columns)
        ]
        width *= 2
    return _transpose_blocks(w, vectors, columns)


def lanes_to_rows(w: Writer, lanes: Sequence[Operand]) -> list[Operand]:
    """``lanes``: C lane vectors. Returns W vectors of C numbers."""
    columns, width = len(lanes), w.lanes.width
    vectors = _transpose_blocks(w, list(lanes), columns)
    while width > columns:
        halves = list(range(width // 2)), list(range(width // 2, width))
        vectors = [
            _shuffle(w, vectors[block + j], "poison", half, width)
            for block in range(0, len(vectors), columns)
            for half in halves
            for j in range(columns)
        ]
        width //= 2
    return vectors


def _transpose_blocks(w: Writer, vectors: list[Operand], columns: int) -> list[Operand]:
    """Transpose every C × C block of C vectors (W / C blocks side by side)."""
    width = w.lanes.width
    distance = 1
    while distance < columns:
        low = [i if not i & distance else i - distance + width for i in range(width)]
        high = [i + distance if not i & distance else i + width for i in range(width)]
        for i in range(columns):
            if not i & distance:
                a, b = vectors[i], vectors[i + distance]
                vectors[i] = _shuffle(w, a, b, low, width)
                vectors[i + distance] = _shuffle(w, a, b, high, width)
        distance *= 2
    return vectors


def _shuffle(w: Writer, a: Operand, b: Operand, order: Sequence[int], width: int) -> Operand:
    kind = f"<{width} x {w.lanes.real}>" if width > 1 else w.lanes.real
    mask = ", ".join(f"i32 {i}" for i in order)
    return w.value(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{mask}>")
