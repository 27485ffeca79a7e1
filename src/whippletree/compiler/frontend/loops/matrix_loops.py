"""Dense matrices inside a program: rows picked, products, transposes and inverses, as loops over their entries.

Matrices are buffers of two dimensions. Products and inverses run over the columns of a row side by side, so these are
work space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whippletree.arithmetic import scalars
from whippletree.compiler.program import Address, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace

ROW, COLUMN, INNER, CHOSEN = "matrix row", "matrix column", "matrix inner", "chosen row"


class MatrixLoops(WorkSpace):
    """A work space, and statements on the matrices in it."""

    def extent(self, name: str) -> tuple[int, int]:
        """Rows and columns of a matrix."""
        rows, columns = self.buffers[name].shape
        return int(rows), int(columns)

    def rows_of(self, source: str, chosen: Sequence[int], to: str, start: int = 0) -> Statement:
        """to[start + i] := source[chosen[i]], row by row."""
        name = f"rows {len(self.buffers)}"
        self.index(name, [*chosen])
        look = Lookup(CHOSEN, Address(name, (Index(ROW),)))
        copy = each_number([(source, Index(CHOSEN), Index(COLUMN))], (to, Index(ROW, start), Index(COLUMN)), _same)
        return Loop(ROW, len(chosen), (look, Loop(COLUMN, self.extent(source)[1], (copy,))))

    def columns_as_rows(self, source: str, chosen: Sequence[int], to: str, factor: int = 1) -> Statement:
        """to[i, j] := factor · source[j, chosen[i]]: some columns, as rows."""
        name = f"columns {len(self.buffers)}"
        self.index(name, [*chosen])
        look = Lookup(CHOSEN, Address(name, (Index(ROW),)))
        copy = each_number(
            [(source, Index(COLUMN), Index(CHOSEN))],
            (to, Index(ROW), Index(COLUMN)),
            lambda x: x if factor == 1 else -x,
        )
        return Loop(ROW, len(chosen), (look, Loop(COLUMN, self.extent(source)[0], (copy,))))

    def copy(self, source: str, to: str, change: Callable[[Any], Any] = lambda x: x) -> Statement:
        """to := change of every entry of the source."""
        rows, columns = self.extent(to)
        block = each_number([(source, Index(ROW), Index(COLUMN))], (to, Index(ROW), Index(COLUMN)), change)
        return Loop(ROW, rows, (Loop(COLUMN, columns, (block,)),))

    def scale_rows(self, source: str, divisors: str, to: str) -> Statement:
        """to[i, j] := source[i, j] / divisors[i]."""
        rows, columns = self.extent(to)
        terms = [(source, Index(ROW), Index(COLUMN)), (divisors, Index(ROW))]
        block = each_number(terms, (to, Index(ROW), Index(COLUMN)), lambda x, w: x / w)
        return Loop(ROW, rows, (Loop(COLUMN, columns, (block,)),))

    def pick_numbers(self, source: str, chosen: Sequence[int], to: str) -> Statement:
        """The only column of a matrix := some numbers of a vector."""
        name = f"numbers {len(self.buffers)}"
        self.index(name, [*chosen])
        look = Lookup(CHOSEN, Address(name, (Index(ROW),)))
        return Loop(
            ROW, len(chosen), (look, each_number([(source, Index(CHOSEN))], (to, Index(ROW), Index(None, 0)), _same))
        )

    def unit_rows(self, name: str, chosen: Sequence[int]) -> list[Statement]:
        """Row i of a matrix := the unit vector of number chosen[i]."""
        places = f"units {len(self.buffers)}"
        self.index(places, [*chosen])
        look = Lookup(CHOSEN, Address(places, (Index(ROW),)))
        one = self.put(1, Piece((), (Address(name, (Index(ROW), Index(CHOSEN))),)))
        return [self.fill(name, 0.0), Loop(ROW, len(chosen), (look, one))]

    def product(self, left: str, right: str, to: str) -> Statement:
        """to (m, r) := left (m, n) @ right (n, r), all of them work space."""
        (rows, inner), columns = self.extent(left), self.extent(right)[1]
        at = (to, Index(ROW), Index(COLUMN))
        clear = Loop(COLUMN, columns, (each_number([], at, lambda: 0),), side_by_side=True)
        terms = [at, (left, Index(ROW), Index(INNER)), (right, Index(INNER), Index(COLUMN))]
        add = Loop(COLUMN, columns, (each_number(terms, at, lambda total, a, b: total + a * b),), side_by_side=True)
        return Loop(ROW, rows, (clear, Loop(INNER, inner, (add,))))

    def invert(self, name: str, note: Callable[[Any, Any, Any], Any] | None = None, noted: str = "") -> list[Statement]:
        """A symmetric positive definite matrix := its inverse, by Gauss and Jordan without exchanges.

        ``note``: the status from the one before, a pivot and the diagonal entry that it was, kept in a buffer of one
        number ``noted``.
        """
        n, _ = self.extent(name)
        kept, line, first = (f"{name} {word}" for word in ("column", "line", "diagonal"))
        self.work(**{f"{name}_column".replace(" ", "_"): (n,), f"{name}_line".replace(" ", "_"): (n,)})
        self.work(**{f"{name}_diagonal".replace(" ", "_"): (n,)})
        k, i, j = Index(INNER), Index(ROW), Index(COLUMN)
        pivot = (name, k, k)
        begin = [Loop(ROW, n, (each_number([(name, i, i)], (first, i), lambda x: x),))] if note else []
        judge = (
            [each_number([(noted, Index(None, 0)), pivot, (first, k)], (noted, Index(None, 0)), note)] if note else []
        )
        turn: list[Statement] = [
            *judge,
            Loop(ROW, n, (each_number([(name, i, k)], (kept, i), lambda x: x),)),
            Loop(ROW, n, (each_number([], (name, i, k), lambda: 0),)),
            each_number([], pivot, lambda: 1),
            Loop(COLUMN, n, (each_number([(name, k, j), (kept, k)], (line, j), lambda x, p: x / p),)),
            Loop(COLUMN, n, (each_number([(line, j)], (name, k, j), lambda x: x),)),
            each_number([], (kept, k), lambda: 0),
        ]
        terms = [(name, i, j), (kept, i), (line, j)]
        take = each_number(terms, (name, i, j), lambda total, a, b: total - a * b)
        turn.append(Loop(ROW, n, (Loop(COLUMN, n, (take,), side_by_side=True),)))
        return [*begin, Loop(INNER, n, tuple(turn))]


def failing(number: int, tolerance: Any) -> Callable[[Any, Any, Any], Any]:
    """The status after a pivot: as before, or ``number`` where the pivot is lost among the rounding of its diagonal."""

    def note(status: Any, pivot: Any, diagonal: Any) -> Any:
        # a NaN is neither below 1 nor above 0: it speaks for itself
        margin = pivot - tolerance * diagonal
        fails = scalars.select(scalars.less(0, margin), status, number)
        return scalars.select(scalars.less(margin, 1), fails, status)

    return note


def _same(x: Any) -> Any:
    return x


def each_number(reads: Sequence[tuple[Any, ...]], write: tuple[Any, ...], function: Callable[..., Any]) -> Any:
    """One number of a buffer := a function of single numbers; each is a buffer's name, and indices."""
    pieces = [Piece((), (Address(name, indices),)) for name, *rest in reads for indices in [tuple(rest)]]
    name, *indices = write
    return traced_block(lambda *x: [function(*x)], pieces, [Piece((), (Address(name, tuple(indices)),))])
