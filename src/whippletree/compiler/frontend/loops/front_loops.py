"""Fronts of an elimination as loops: dense triangles whose sizes and places are looked up.

Fronts of which many are alike are straight code instead (:mod:`~whippletree.compiler.frontend.loops.front_kinds`).

Of a front the lower triangle is stored, row by row, four numbers at a time (:data:`CHUNK`), each row as long as it must
be; its boundary comes first, so that every loop begins at 0. Rows of pivots are kept for the way out. Those of the
boundary are needed from the first child's contribution to the front's own, and share their memory with others of other
times: of a grid of 2346 rods that is what stays in the caches. Numbers of unknowns (``y``, ``x``, ``size``, ``pivot``,
``inverse``) belong to the program around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.loops.element_numbers import ScaledNumbers
from whippletree.compiler.frontend.loops.front_kinds import KindsOfFronts
from whippletree.compiler.frontend.loops.hand_traced import Code, lookups
from whippletree.compiler.frontend.loops.straight_fronts import StraightFronts, free_mobility
from whippletree.compiler.program import Address, Block, Buffer, Index, Lookup, Loop, Statement, Switch
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.constraints.long_systems.front_elimination import EliminationPlan

CHUNK = 4
"""Numbers of a front's row that one round of the innermost loop takes."""

PIVOTS_AT_ONCE = ("first", "second", "third", "fourth")
"""Names of pivots that are eliminated together: rows of large fronts do not fit into the first caches. With four, a
grid of 1176 rods took about 0.85 of the time that it took with two; six were no better."""


class FrontLoops:
    """The fronts of a plan in the memory of a program."""

    def __init__(
        self, space: WorkSpace, plan: EliminationPlan, entries: ScaledNumbers, loads: ScaledNumbers, starts: Array
    ) -> None:
        """``entries`` of the system, and of its right-hand side, whose columns are its rows; ``starts``: where the
        numbers of each element begin in ``values``."""
        self.space, self.plan, self.entries, self.starts = space, plan, entries, starts
        parents = [front.parent for front in plan.fronts]
        self.order = _depth_first(parents, [len(front.boundary) for front in plan.fronts])
        self.kinds = KindsOfFronts(plan, self.order, entries, loads)
        self._reserve()
        self.straight = StraightFronts(space, plan, self.kinds, self.row_starts, starts)

    def _reserve(self) -> None:
        """Memory of the fronts, and the lists of what is in them."""
        plan, index = self.plan, self.space.index
        self.width = max([len(own) for own in plan.unknowns] or [1])
        self.chunks = -(-self.width // CHUNK)
        counts = [len(own) for own in plan.unknowns] or [0]
        inner = [len(front.boundary) for front in plan.fronts]
        parents = [front.parent for front in plan.fronts]
        self.row_starts, _, self.front_chunks = _placed_rows(counts, inner, parents, self.order)
        self.space.add(Buffer("front", "work", (max(self.front_chunks, 1), self.chunks, CHUNK), pitch=CHUNK))
        index("front rows", self._padded([rows.tolist() for rows in self.row_starts], self.width))
        index("front unknowns", self._padded([own.tolist() for own in plan.unknowns], self.width))
        index("spread", self._padded([s.tolist() for s in plan.spread], max(inner, default=0)))
        singles = [n - 2 * pairs for n, pairs in zip(counts, plan.pairs, strict=False)]
        self._index_singles(singles, inner)
        self._index_pairs(counts, singles)
        self._index_fronts(counts, inner, parents)
        every = np.arange(self.width)
        index("chunk of", every // CHUNK)
        index("unit of", every % CHUNK)
        index("chunks up to", every // CHUNK + 1)
        self.space.table("is motion", (~plan.rows).astype(float))

    def _padded(self, lists: Sequence[Sequence[int]], columns: int) -> Array:
        """Lists of numbers, one for each front, as rows of a table, filled up with zeros."""
        found = np.zeros((max(len(self.plan.fronts), 1), max(columns, 1)), dtype=np.int64)
        for f, own in enumerate(lists):
            found[f, : len(own)] = own
        return found

    def _index_singles(self, singles: Sequence[int], inner: Sequence[int]) -> None:
        """Pivots that stand alone, from the last one down: so many at once, and what is left of them."""
        index, several = self.space.index, len(PIVOTS_AT_ONCE)
        down = [list(range(n - 1, b - 1, -1)) for n, b in zip(singles, inner, strict=False)]
        index("pivot places", self._padded(down, max(map(len, down), default=0)))
        index("front singles", [len(places) for places in down])
        whole = [len(places) // several for places in down]
        together = [places[: several * count] for places, count in zip(down, whole, strict=True)]
        most = max(whole, default=0) or 1
        index("tiles down", self._padded(together, several * most).reshape(-1, most, several))
        index("front tiles", whole)
        left = [places[several * count :] for places, count in zip(down, whole, strict=True)]
        index("pivots left", self._padded(left, several - 1))
        index("front left", [len(places) for places in left])

    def _index_pairs(self, counts: Sequence[int], singles: Sequence[int]) -> None:
        """Pivots that are taken in pairs, from the last one down: each unknown with the row that is solved for it, two
        pairs at once, and the last pair where their number is odd."""
        index = self.space.index
        solved = [list(range(n - 1, single, -2)) for n, single in zip(counts, singles, strict=False)]
        solving = [[place - 1 for place in places] for places in solved]
        most = max(map(len, solved), default=0)
        for word, lists in (("solved", solved), ("solving", solving)):
            index(f"{word} places", self._padded(lists, most))
            even = [places[: len(places) // 2 * 2] for places in lists]
            twos = self._padded(even, max(most // 2 * 2, 2))
            index(f"{word} twos", twos.reshape(len(twos), -1, 2))
            index(f"{word} last", [places[-1] if len(places) % 2 else 0 for places in lists])
        index("front pairs", self.plan.pairs or [0])
        index("front twos", [len(places) // 2 for places in solved])
        index("front odd", [len(places) % 2 for places in solved])

    def _index_fronts(self, counts: Sequence[int], inner: Sequence[int], parents: Sequence[int]) -> None:
        """Sizes, parents, order and kinds of fronts, and which of their rows begin with zeros."""
        index, order = self.space.index, self.order
        index("front inner", inner)
        index("front chunks", [-(-n // CHUNK) for n in counts])
        index("front parent", [max(parent, 0) for parent in parents])
        index("front order", order or [0])
        index("front kind", self.kinds.of or [0])
        first = _first_children(parents, order)
        cleared = self.kinds.cleared
        leaves = [n if f not in first and cleared[f] else 0 for f, n in enumerate(inner)]
        begun = [inner[parent] if first.get(parent) == f and cleared[parent] else 0 for f, parent in enumerate(parents)]
        index("fresh rows", leaves or [0])
        index("fresh rows of parent", begun or [0])

    def begin(self) -> list[Statement]:
        """In the rows of pivots what is known beforehand; those of boundaries are cleared when their time begins."""
        chunks = [
            chunk
            for f, front in enumerate(self.plan.fronts)
            if self.kinds.cleared[f]
            for i in range(len(front.boundary), len(self.plan.unknowns[f]))
            for chunk in range(self.row_starts[f][i], self.row_starts[f][i] + i // CHUNK + 1)
        ]
        if not chunks:
            return []
        self.space.index("begun chunks", chunks)
        place = np.zeros(max(chunks) + 1, dtype=int)
        place[chunks] = np.arange(len(chunks))
        numbers = np.zeros((len(chunks), CHUNK))
        own, rows, columns = self._of_loops(self.entries.known)
        np.add.at(numbers, (place[rows + columns // CHUNK], columns % CHUNK), own.factors)
        self.space.table("begun numbers", numbers)
        code = Code()
        for u in range(CHUNK):
            x = code.load("begun numbers", Index("entry"), Index(None, u))
            code.store(x, "front", Index("chunk"), Index(None, 0), Index(None, u))
        look = Lookup("chunk", Address("begun chunks", (Index("entry"),)))
        return [Loop("entry", len(chunks), (look, code.block()))]

    def _of_loops(self, which: Array) -> tuple[ScaledNumbers, Array, Array]:
        """Some of the entries that are in fronts without a kind; for each the first chunk of its row there, and its
        column."""
        fronts, i, j = self.plan.places(self.entries.rows, self.entries.columns)
        which = which & (np.array(self.kinds.of, dtype=int)[fronts] == 0)
        rows = [self.row_starts[f][k] for f, k in zip(fronts[which].tolist(), i[which].tolist(), strict=True)]
        return self.entries.chosen(which), np.array(rows, dtype=int), j[which]

    def _clear_boundary(self, front: str, count: str) -> Statement:
        """Zeros in the first rows of a front."""
        rows = (
            Lookup("row of i", Address("front rows", (Index(front), Index("i")))),
            Lookup("chunks of i", Address("chunks up to", (Index("i"),))),
            Loop("chunk", Index("chunks of i"), (_zeros(Index("row of i"), Index("chunk")),)),
        )
        return Loop("i", Index(count), rows)

    def scatter(self) -> list[Statement]:
        """values added to their places in the fronts that are loops: first those as they are, then their negatives."""
        found: list[Statement] = []
        for sign, word in ((1, "added"), (-1, "subtracted")):
            own, rows, columns = self._of_loops(self.entries.factors == sign)
            stored = ~own.known
            if not np.any(stored):
                continue
            self.space.index(f"{word} values", (self.starts[own.elements] + own.places)[stored])
            self.space.index(f"{word} chunks", (rows + columns // CHUNK)[stored])
            self.space.index(f"{word} units", (columns % CHUNK)[stored])
            code = Code()
            at = (Index("to chunk"), Index(None, 0), Index("to unit"))
            code.store(code.load("front", *at) + sign * code.load("values", Index("value")), "front", *at)
            looks = [("value", f"{word} values"), ("to chunk", f"{word} chunks"), ("to unit", f"{word} units")]
            found.append(Loop("entry", int(stored.sum()), (*lookups("entry", looks), code.block())))
        return found

    def mobilities(self) -> list[Statement]:
        """Added to the sizes of rows in fronts that are loops: how far each body alone would let them move."""
        is_row = self.plan.rows
        couples = is_row[self.entries.rows] != is_row[self.entries.columns]
        own, rows, columns = self._of_loops(couples)
        swapped = is_row[own.columns]
        row, motion = np.where(swapped, own.columns, own.rows), np.where(swapped, own.rows, own.columns)
        solved = np.isin(row, list(self.plan.solved_for.values()))
        found = np.stack([row, motion, rows + columns // CHUNK, columns % CHUNK], axis=1)[~solved]
        if not len(found):
            return []
        row, motion, chunks, units = np.unique(found, axis=0).T
        self.space.index("rows that are felt", row)
        self.space.index("motions that feel", motion)
        self.space.index("felt chunks", chunks)
        self.space.index("felt units", units)
        code = Code()
        x = code.load("front", Index("chunk"), Index(None, 0), Index("unit"))
        self.space.table("least inertia", self.plan.least_inertia)
        free = free_mobility(code.load("size", Index("motion")), code.load("least inertia", Index("motion")))
        size = x * free * x
        code.store(code.load("size", Index("row")) + size, "size", Index("row"))
        looks = [("row", "rows that are felt"), ("motion", "motions that feel")]
        looks += [("chunk", "felt chunks"), ("unit", "felt units")]
        return [Loop("felt", len(row), (*lookups("felt", looks), code.block()))]

    def inwards(self) -> Statement:
        """Elimination, fronts before their parents; several pivots at a time, so that memory is passed over once
        for all of them."""
        several = len(PIVOTS_AT_ONCE)
        self.space.work(factor=(several,), scaled=(several,), reciprocal=(several,))
        f = Index("f")
        tile = self._tile(several, lambda k: Address("tiles down", (f, Index("tile"), Index(None, k))))
        left = [self._tile(n, lambda k: Address("pivots left", (f, Index(None, k)))) for n in range(1, several)]
        singles = (Loop("tile", Index("tiles"), tuple(tile)), Switch("left", ((), *map(tuple, left))))
        twos = self._pairs(2, lambda word, k: Address(f"{word} twos", (f, Index("two"), Index(None, k))))
        odd = self._pairs(1, lambda word, k: Address(f"{word} last", (f,)))
        most = max(self.plan.pairs, default=0)
        solved = [Loop("two", Index("twos"), tuple(twos))] if most > 1 else []
        solved += [Loop("last", Index("odd"), tuple(odd))] if most else []
        begin = [self._clear_boundary("f", "fresh"), self._clear_boundary("parent", "fresh of parent")]
        dense = (*solved, *singles, self._hand_up())
        fresh = begin if any(self.kinds.cleared) else []
        body = (*self._at_front(), *fresh, self._by_kind(dense, self.straight.inwards))
        return Loop("turn", len(self.plan.fronts), body)

    def _by_kind(self, dense: tuple[Statement, ...], straight: Callable[[int], list[Statement]]) -> Statement:
        """What a front does: loops, where some have no kind, or the code of its kind."""
        loops = () if all(self.kinds.of) else dense
        return Switch("kind", (loops, *[tuple(straight(k)) for k in range(len(self.kinds.kinds))]))

    def _pairs(self, count: int, place: Callable[[str, int], Address]) -> list[Statement]:
        """Some components of bodies that follow their parents, each with the row that is solved for it."""
        body: list[Statement] = []
        for k in range(count):
            for word in ("solved", "solving"):
                body += self._at_place(f"{word} {k}", place(word, k))
        for k in range(count):
            for word in ("solved", "solving") if k else ():
                body.append(Loop(f"{word} pivot", 1, (Lookup("i", place(word, k)), *self._row_under_pairs(k))))
            code = Code()
            at = [Index(f"solved {k} {word}") for word in ("row", "chunk", "unit")]
            m, y = code.load("front", *at), code.load("y", Index(f"solving {k} unknown"))
            code.store(m, "reciprocal", Index(None, k))
            code.store(y, "scaled", Index(None, 2 * k))
            code.store(code.load("y", Index(f"solved {k} unknown")) - m * y, "scaled", Index(None, 2 * k + 1))
            body.append(code.block())
        last = Index(f"solving {count - 1} place")
        return [*body, Loop("i", last, tuple(self._row_under_pairs(count)))]

    def _row_under_pairs(self, count: int) -> list[Statement]:
        """Row i of a front after some components and the rows that are solved for them."""
        row, update = Code(), Code()
        y, size = row.load("y", Index("other")), row.load("size", Index("other"))
        at = (Index("row of i"), Index("chunk"), Index("unit"))
        left = update.load("front", *at)
        for k in range(count):
            of_a, of_row = (
                row.load("front", Index(f"{word} {k} row"), Index("chunk of i"), Index("unit of i"))
                for word in ("solved", "solving")
            )
            m = row.load("reciprocal", Index(None, k))
            row.store(of_row, "factor", Index(None, 2 * k))
            row.store(of_a - m * of_row, "factor", Index(None, 2 * k + 1))
            y = y - of_a * row.load("scaled", Index(None, 2 * k)) - of_row * row.load("scaled", Index(None, 2 * k + 1))
            size = size + row.load("is motion", Index("other")) * (of_row * m * of_row)
            for n, word in enumerate(("solved", "solving")):
                numbers = update.load("front", Index(f"{word} {k} row"), Index("chunk"), Index("unit"))
                left = left - update.load("factor", Index(None, 2 * k + n)) * numbers
        row.store(y, "y", Index("other"))
        row.store(size, "size", Index("other"))
        update.store(left, "front", *at)
        chunk = Loop("unit", CHUNK, (update.block(),), side_by_side=True)
        return [*self._at_i(), row.block(), Loop("chunk", Index("chunks of i"), (chunk,))]

    def _at_place(self, word: str, place: Address) -> list[Statement]:
        """Where a pivot is: its place in its front, its row, its unknown."""
        here = Index(f"{word} place")
        return [
            Lookup(f"{word} place", place),
            Lookup(f"{word} row", Address("front rows", (Index("f"), here))),
            Lookup(f"{word} unknown", Address("front unknowns", (Index("f"), here))),
            Lookup(f"{word} chunk", Address("chunk of", (here,))),
            Lookup(f"{word} unit", Address("unit of", (here,))),
        ]

    def _at_solving(self) -> list[Statement]:
        """The row (first) that is solved for a component (second)."""
        found: list[Statement] = []
        for word, place, table in (("first", "p", "solving places"), ("second", "component", "solved places")):
            found += [
                Lookup(place, Address(table, (Index("f"), Index("pair")))),
                Lookup(f"{word} row", Address("front rows", (Index("f"), Index(place)))),
                Lookup(f"{word} unknown", Address("front unknowns", (Index("f"), Index(place)))),
                Lookup(f"{word} chunk", Address("chunk of", (Index(place),))),
                Lookup(f"{word} unit", Address("unit of", (Index(place),))),
            ]
        return found

    def _tile(self, count: int, place: Callable[[int], Address]) -> list[Statement]:
        """Several pivots of a front, each of which is a row under those before it, and then all rows under them."""
        body: list[Statement] = []
        for k, word in enumerate(PIVOTS_AT_ONCE[:count]):
            body += self._at_place(word, place(k))
        for k in range(count):
            under = (Lookup("i", place(k)), *self._at_i(), *self._row_under(k)) if k else ()
            body.append(Loop(f"pivot {k}", 1, (*under, self._pivot(k))))
        last = Index(f"{PIVOTS_AT_ONCE[count - 1]} place")
        return [*body, Loop("i", last, (*self._at_i(), *self._row_under(count)))]

    def _pivot(self, number: int) -> Block:
        """One pivot of those that are eliminated together, its reciprocal, and what its equation takes from others."""
        row, chunk, unit, unknown = (f"{PIVOTS_AT_ONCE[number]} {word}" for word in ("row", "chunk", "unit", "unknown"))
        code = Code()
        d = code.load("front", Index(row), Index(chunk), Index(unit))
        code.store(d, "pivot", Index(unknown))
        code.store(1 / d, "inverse", Index(unknown))
        code.store(1 / d, "reciprocal", Index(None, number))
        code.store(code.load("y", Index(unknown)) / d, "scaled", Index(None, number))
        return code.block()

    def _row_under(self, pivots: int) -> list[Statement]:
        """Row i of a front after some pivots: its right-hand side, and its numbers up to the diagonal."""
        row, update = Code(), Code()
        y = row.load("y", Index("other"))
        at = (Index("row of i"), Index("chunk"), Index("unit"))
        left = update.load("front", *at)
        for k, word in enumerate(PIVOTS_AT_ONCE[:pivots]):
            above = f"{word} row"
            x = row.load("front", Index(above), Index("chunk of i"), Index("unit of i"))
            factor = x * row.load("reciprocal", Index(None, k))
            row.store(factor, "factor", Index(None, k))
            y = y - x * row.load("scaled", Index(None, k))
            numbers = update.load("front", Index(above), Index("chunk"), Index("unit"))
            left = left - update.load("factor", Index(None, k)) * numbers
        row.store(y, "y", Index("other"))
        update.store(left, "front", *at)
        chunk = Loop("unit", CHUNK, (update.block(),), side_by_side=True)
        return [row.block(), Loop("chunk", Index("chunks of i"), (chunk,))]

    def _at_front(self) -> list[Statement]:
        looks = [
            ("singles", "front singles"),
            ("solved", "front pairs"),
            ("twos", "front twos"),
            ("odd", "front odd"),
            ("tiles", "front tiles"),
            ("left", "front left"),
            ("inner", "front inner"),
            ("parent", "front parent"),
            ("fresh", "fresh rows"),
            ("fresh of parent", "fresh rows of parent"),
            ("kind", "front kind"),
        ]
        return [Lookup("f", Address("front order", (Index("turn"),))), *lookups("f", looks)]

    def _at_pivot(self) -> list[Statement]:
        return [
            Lookup("p", Address("pivot places", (Index("f"), Index("step")))),
            Lookup("first row", Address("front rows", (Index("f"), Index("p")))),
            Lookup("first unknown", Address("front unknowns", (Index("f"), Index("p")))),
            Lookup("first chunk", Address("chunk of", (Index("p"),))),
            Lookup("first unit", Address("unit of", (Index("p"),))),
        ]

    def _at_i(self) -> list[Statement]:
        return [
            Lookup("row of i", Address("front rows", (Index("f"), Index("i")))),
            Lookup("other", Address("front unknowns", (Index("f"), Index("i")))),
            Lookup("chunk of i", Address("chunk of", (Index("i"),))),
            Lookup("unit of i", Address("unit of", (Index("i"),))),
            Lookup("chunks of i", Address("chunks up to", (Index("i"),))),
        ]

    def _hand_up(self) -> Statement:
        """The rest on the boundary, added to the parent front."""
        code = Code()
        at = (Index("to row"), Index("to chunk"), Index("to unit"))
        left = code.load("front", Index("row of i"), Index("chunk of j"), Index("unit of j"))
        code.store(code.load("front", *at) + left, "front", *at)
        columns: list[Statement] = [
            Lookup("to place", Address("spread", (Index("f"), Index("j")))),
            Lookup("to chunk", Address("chunk of", (Index("to place"),))),
            Lookup("to unit", Address("unit of", (Index("to place"),))),
            Lookup("chunk of j", Address("chunk of", (Index("j"),))),
            Lookup("unit of j", Address("unit of", (Index("j"),))),
            code.block(),
        ]
        rows: list[Statement] = [
            Lookup("row of i", Address("front rows", (Index("f"), Index("i")))),
            Lookup("from place", Address("spread", (Index("f"), Index("i")))),
            Lookup("to row", Address("front rows", (Index("parent"), Index("from place")))),
            Loop("j", Index("i", 1), tuple(columns)),
        ]
        return Loop("i", Index("inner"), tuple(rows))

    def _rest(self, code: Code) -> Any:
        """What is left of a right-hand side without the terms of all unknowns that are known."""
        total = code.load("y", Index("first unknown"))
        for u in range(CHUNK):
            total = total - code.load("sums", Index(None, u))
        return total

    def outwards(self) -> Statement:
        """Substitution, parents before their fronts; as many sums side by side as a chunk has numbers, for one
        alone would wait for itself at every term.
        """
        self.space.work(sums=(CHUNK,), known=(self.chunks, CHUNK))
        here = (Index("chunk"), Index("unit"))
        clear, none, term, fill, end, found = (Code() for _ in range(6))
        clear.store(0.0, "known", *here)
        none.store(0.0, "sums", Index("unit"))
        # of unknowns that come later, the pivot's own one among them, nothing is known: they are 0 here
        product = term.load("front", Index("first row"), *here) * term.load("known", *here)
        term.store(term.load("sums", Index("unit")) + product, "sums", Index("unit"))
        fill.store(fill.load("x", Index("other")), "known", Index("chunk of i"), Index("unit of i"))
        x = self._rest(end) * end.load("inverse", Index("first unknown"))
        end.store(x, "x", Index("first unknown"))
        end.store(x, "known", Index("first chunk"), Index("first unit"))

        def each(code: Code) -> Statement:
            return Loop("unit", CHUNK, (code.block(),), side_by_side=True)

        chunks = Lookup("chunks of p", Address("chunks up to", (Index("p"),)))
        terms = Loop("chunk", Index("chunks of p"), (each(term),))
        step = (*self._at_pivot(), chunks, each(none), terms, end.block())
        # a row that is solved for its component; its own force is not asked for, and stays 0
        found.store(self._rest(found), "x", Index("second unknown"))
        found.store(self._rest(found), "known", Index("second chunk"), Index("second unit"))
        solve = (*self._at_solving(), chunks, each(none), terms, found.block())
        solved: list[Statement] = [Loop("pair", Index("solved"), solve, backwards=True)] if any(self.plan.pairs) else []
        dense: tuple[Statement, ...] = (
            Lookup("chunks in front", Address("front chunks", (Index("f"),))),
            Loop("chunk", Index("chunks in front"), (each(clear),)),
            Loop("i", Index("inner"), (*self._at_i()[1:4], fill.block())),
            Loop("step", Index("singles"), step, backwards=True),
            *solved,
        )
        body = (*self._at_front(), self._by_kind(dense, self.straight.outwards))
        return Loop("turn", len(self.plan.fronts), body, backwards=True)


def _chunks_of_rows(size: int) -> Array:
    """How many chunks each row of the lower triangle of a front takes."""
    return np.arange(size) // CHUNK + 1


def _depth_first(parents: Sequence[int], inner: Sequence[int]) -> list[int]:
    """The fronts in an order in which few boundaries wait: each right after its children, the widest of them first."""
    children: dict[int, list[int]] = {}
    for f, parent in enumerate(parents):
        children.setdefault(parent, []).append(f)
    order: list[int] = []
    open_ = children.get(-1, [])[:]
    while open_:
        # parents before children, the last of these first: turned round below
        order.append(open_.pop())
        open_ += sorted(children.get(order[-1], ()), key=lambda f: -inner[f])
    return order[::-1]


def _first_children(parents: Sequence[int], order: Sequence[int]) -> dict[int, int]:
    """The child of each front that is eliminated first; leaves have none."""
    found: dict[int, int] = {}
    for f in order:
        if parents[f] >= 0:
            found.setdefault(parents[f], f)
    return found


def _placed_rows(
    sizes: Sequence[int], inner: Sequence[int], parents: Sequence[int], order: Sequence[int]
) -> tuple[list[Array], int, int]:
    """For each front, the first chunk of each of its rows; how many chunks the rows of pivots take, and all of them.

    Rows of pivots come first, one after the other. Those of a boundary get room when their front's first child hands
    up, or where a leaf begins, and give it back when their own front has handed up.
    """
    rows = [_chunks_of_rows(n) for n in sizes]
    pivots = [int(own[b:].sum()) for own, b in zip(rows, inner, strict=False)]
    kept, room = sum(pivots), _Room()
    first, places = _first_children(parents, order), dict[int, int]()
    needed = [int(own[:b].sum()) for own, b in zip(rows, inner, strict=False)]
    starts: list[Array] = [np.zeros(0, dtype=int)] * len(rows)
    begin = 0
    for f in order:
        if f not in first:
            places[f] = room.take(needed[f])
        if first.get(parents[f]) == f:
            places[parents[f]] = room.take(needed[parents[f]])
        room.give_back(places[f], needed[f])
        own, b = rows[f], inner[f]
        outer = kept + places[f] + np.cumsum(own[:b]) - own[:b]
        starts[f] = np.concatenate([outer, begin + np.cumsum(own[b:]) - own[b:]])
        begin += pivots[f]
    return starts, kept, kept + room.most


class _Room:
    """Chunks that are taken and given back: always the first gap that is large enough."""

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []
        """Begin and end of each, in order; behind the last one everything is free."""
        self.end = self.most = 0

    def take(self, count: int) -> int:
        """The begin of so many chunks."""
        for k, (begin, end) in enumerate(self.gaps):
            if end - begin >= count:
                self.gaps[k] = begin + count, end
                return begin
        begin, self.end = self.end, self.end + count
        self.most = max(self.most, self.end)
        return begin

    def give_back(self, begin: int, count: int) -> None:
        """Free again what was taken."""
        joined: list[tuple[int, int]] = []
        for low, high in sorted([gap for gap in (*self.gaps, (begin, begin + count)) if gap[1] > gap[0]]):
            if joined and joined[-1][1] == low:
                joined[-1] = joined[-1][0], high
            else:
                joined.append((low, high))
        if joined and joined[-1][1] == self.end:
            self.end = joined.pop()[0]
        self.gaps = joined


def _zeros(row: Index, chunk: Index) -> Block:
    """Zeros in one chunk of a row."""
    code = Code()
    for u in range(CHUNK):
        code.store(0.0, "front", row, chunk, Index(None, u))
    return code.block()
