"""Parts of a contact problem that nothing joins: robots of one scene that do not touch each other, solved one by one.

Trees that a block of the list moves both are in one part, and so are those that they touch. A part has the list
:data:`~whippletree.compiler.rollout.step_space.ACTIVE` for itself, so that sweeps and Newton's method end where its own
residual is small enough, whatever the others need, and matrices are eliminated over its own velocities alone
(:class:`PartSolve`). Eight ants that tumble took as many Newton steps as the one that needed most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Collect, Each, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.dense_solve import COLUMN, PIVOT, PLACE, ROW, DenseSolve
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK
from whippletree.contact.problem.cones import both, largest
from whippletree.tree.skeleton import Skeleton

MOST_PARTS = 32
"""Trees up to which parts are told apart: each is looked for in the whole list."""

PART, LISTED, PART_ROWS = "part", "listed", "rows of part"
TREE_OF_BLOCK, TREE_OF_VELOCITY = ("first tree", "second tree"), "tree of velocity"
WAY, WAY_SIZE = "way to base", "size of way"


def trees_of_velocities(tree: Skeleton) -> list[int]:
    """For every velocity, the number of its tree among those that stand on the world by themselves."""
    roots = [tree.path(node)[-1] for node in range(len(tree.nodes))]
    own = {x: roots[node] for node, part in enumerate(tree.v_slices) for x in range(part.start, part.stop)}
    numbers = {root: k for k, root in enumerate(dict.fromkeys(own[x] for x in sorted(own)))}
    return [numbers[own[x]] for x in sorted(own)]


def has_parts(trees: Sequence[int], supports: Sequence[Sequence[int]]) -> bool:
    """Whether blocks leave several trees apart: each moves one or two of them; ``supports``: the velocities that it
    moves."""
    several = 1 < len({*trees}) <= MOST_PARTS
    return several and all(0 < len({trees[x] for x in own}) <= 2 for own in supports)


class SeparateParts:
    """Statements around those that solve the problem of a list. Buffers, beside those of the step:

    label            of a tree: the number of the tree after which its part is named
    velocity label   that of each velocity's tree
    in part          whether a block of the list belongs to the part in hand, 1 or −1
    of part          whether a velocity does
    … of all         what the parts have come to, together
    """

    def __init__(self, space: WorkSpace, trees: Sequence[int], supports: Sequence[Sequence[int]]) -> None:
        self.space, self.blocks, self.velocities = space, len(supports), len(trees)
        self.trees = max(trees) + 1
        moved = [sorted({trees[x] for x in own}) for own in supports]
        for name, end in zip(TREE_OF_BLOCK, (0, -1), strict=True):
            space.index(name, [own[end] for own in moved])
        space.index(TREE_OF_VELOCITY, trees)
        space.table("number of part", list(range(self.trees)))
        space.work(
            label=(self.trees,),
            velocity_label=(self.velocities,),
            in_part=(self.blocks,),
            of_part=(self.velocities,),
            part_size=(1,),
            residual_of_all=(3,),
            works_of_all=(2,),
            made_of_all=(1,),
        )
        space.numbers_list(LISTED, self.blocks)
        space.numbers_list(PART_ROWS, self.velocities)

    def around(self, solve: Sequence[Statement]) -> list[Statement]:
        """Statements that solve the problem of the list :data:`ACTIVE`, for one part after the other."""
        at, each, put = self.space.at, self.space.each, self.space.put
        listed = Collect(LISTED, BLOCK, self.blocks, self.space.address("flag", BLOCK))
        nobody = Loop(BLOCK, self.blocks, (put(-1, at("in part", BLOCK)),), side_by_side=True)
        note = traced_block(lambda made: [made], [at("made")], [at("made of all")])
        tell = traced_block(
            lambda *found: list(found),
            each(("residual of all", "works of all", "made of all")),
            each(("residual", "works", "made")),
        )
        part = (*self._choose(), If(self.space.address("part size"), tuple(self._one(solve))))
        return [
            listed,
            nobody,
            *self._join(),
            put(0, *each(("response", "residual of all", "works of all"))),
            note,
            Loop(PART, self.trees, part),
            tell,
        ]

    def _join(self) -> list[Statement]:
        """Labels of trees: one for those that a block of the list joins."""
        at = self.space.at

        def join(labels: Array, one: Any, other: Any) -> list[Any]:
            return [[select(_same(x, other), one, x) for x in labels]]

        numbers = traced_block(lambda: [list(range(self.trees))], [], [at("label")])
        sides = [at("label", name) for name in TREE_OF_BLOCK]
        block = traced_block(join, [at("label"), *sides], [at("label")])
        pass_on = traced_block(lambda label: [label], [at("label", TREE_OF_VELOCITY)], [at("velocity label", COLUMN)])
        own = Lookup(TREE_OF_VELOCITY, self.space.address(TREE_OF_VELOCITY, COLUMN))
        return [
            numbers,
            Each(BLOCK, LISTED, (*self._look_up(), block)),
            Loop(COLUMN, self.velocities, (own, pass_on)),
        ]

    def _choose(self) -> list[Statement]:
        """Which blocks of the list belong to the part in hand, and how many they are."""
        at = self.space.at

        def choose(label: Any, number: Any, size: Array) -> list[Any]:
            own = _same(label, number)
            return [[select(own, 1, -1)], size + select(own, 1, 0)]

        reads = [at("label", TREE_OF_BLOCK[0]), at("number of part", PART), at("part size")]
        block = traced_block(choose, reads, [at("in part", BLOCK), at("part size")])
        return [self.space.put(0, at("part size")), Each(BLOCK, LISTED, (*self._look_up(), block))]

    def _one(self, solve: Sequence[Statement]) -> list[Statement]:
        """One part alone, and what it comes to."""
        at, each, address = self.space.at, self.space.each, self.space.address

        def belong(label: Any, number: Any) -> list[Any]:
            return [[select(_same(label, number), 1, -1)]]

        own = traced_block(belong, [at("velocity label", COLUMN), at("number of part", PART)], [at("of part", COLUMN)])

        def add(residual: Array, works: Array, made: Array, *so_far: Array) -> list[Any]:
            worst = [largest([x, y]) for x, y in zip(residual, so_far[0], strict=True)]
            return [worst, works + so_far[1], made + so_far[2]]

        names = ("residual", "works", "made")
        totals = each([f"{name} of all" for name in names])
        return [
            Loop(COLUMN, self.velocities, (own,)),
            Collect(PART_ROWS, COLUMN, self.velocities, address("of part", COLUMN)),
            Collect(ACTIVE, BLOCK, self.blocks, address("in part", BLOCK)),
            self.space.put(0, at("made")),  # sweeps of a part begin as those of a step
            *solve,
            traced_block(add, [*each(names), *totals], totals),
        ]

    def _look_up(self) -> list[Lookup]:
        return [Lookup(name, self.space.address(name, BLOCK)) for name in TREE_OF_BLOCK]


def _same(label: Any, number: Any) -> Any:
    """Whether two whole numbers are one."""
    return both(less(label, number + 1 / 2), less(number - 1 / 2, label))


class PartSolve(DenseSolve):
    """The equations of the part in hand alone: rows and pivots are those of the list :data:`PART_ROWS`."""

    def __init__(
        self, space: WorkSpace, n: int, supports: Sequence[Sequence[int]], ways: Sequence[Sequence[int]]
    ) -> None:
        super().__init__(space, n, supports, ways)
        longest = max(map(len, ways))
        space.index(WAY, [[*reversed(way), *[0] * (max(longest, 1) - len(way))] for way in ways])
        space.index(WAY_SIZE, [len(way) for way in ways])
        space.table("number of row", list(range(n)))

    def identity(self) -> list[Statement]:
        """See :class:`DenseSolve`."""
        put, one = self.space.put, self._one
        clear = [self._along_row(put(0, one(name, ROW, COLUMN))) for name in ("K", "down", "up")]
        begin = [] if self.ways is None else [put(0, *self.space.each(("met", "crossed")))]
        rows = Each(ROW, PART_ROWS, (*clear, put(1, one("K", ROW, ROW))))
        return [put(1, self.space.at("pivot ease")), *begin, rows]

    def factor(self) -> list[Statement]:
        """See :class:`DenseSolve`."""
        whole = self._factor_by(self._before_pivot)
        if self.ways is None:
            return whole
        straight = self._factor_by(self._on_way)
        if not any(self.crossing):
            return straight
        address, at = self.space.address, self.space.at
        uncrossed = traced_block(lambda x: [[1 - x[0]]], [at("crossed")], [at("uncrossed")])
        return [uncrossed, If(address("crossed"), tuple(whole)), If(address("uncrossed"), tuple(straight))]

    def _factor_by(self, rows: Callable[[Sequence[Statement]], Statement]) -> list[Statement]:
        """Elimination, from the last pivot of the part to its first, of the rows that a statement goes through."""

        def share(ahead: Any, back: Any, ease: Any) -> list[Any]:
            return [[ahead * ease], [back * ease], [ahead * ease]]

        def eliminate(entry: Any, pivot: Any, share: Array) -> list[Any]:
            return [[entry - share[0] * pivot]]

        at, one = self.space.at, self._one
        ease = one("pivot ease", PIVOT)
        invert = traced_block(lambda pivot: [[1 / pivot]], [one("K", PIVOT, PIVOT)], [ease])
        places = [one("down", PIVOT, ROW), one("up", ROW, PIVOT), at("pivot share")]
        shares = traced_block(share, [one("K", ROW, PIVOT), one("K", PIVOT, ROW), ease], places)
        entry = one("K", ROW, COLUMN)
        take = self._along_row(traced_block(eliminate, [entry, one("K", PIVOT, COLUMN), at("pivot share")], [entry]))
        return [Each(PIVOT, PART_ROWS, (invert, rows((shares, take))), backwards=True)]

    def _on_way(self, take: Sequence[Statement]) -> Statement:
        """Rows on the pivot's way to the base, where a block moves it."""
        address = self.space.address
        row = Lookup(ROW, address(WAY, PIVOT, PLACE))
        loop = Loop(PLACE, Index(WAY_SIZE), (row, *take))
        met = Address("met", (Index(PIVOT),))
        return If(met, (Lookup(WAY_SIZE, address(WAY_SIZE, PIVOT)), loop))

    def _before_pivot(self, take: Sequence[Statement]) -> Statement:
        """Rows of the part before the pivot, as far as they are coupled with it."""

        def look(ahead: Any, back: Any, row: Any, pivot: Any) -> list[Any]:
            return [[select(less(row, pivot), abs(ahead) + abs(back), -1)]]

        one = self._one
        reads = [one("K", ROW, PIVOT), one("K", PIVOT, ROW), one("number of row", ROW), one("number of row", PIVOT)]
        coupled = traced_block(look, reads, [self.space.at("coupled")])
        return Each(ROW, PART_ROWS, (coupled, If(self.space.address("coupled"), tuple(take))))

    def solve(self) -> list[Statement]:
        """See :class:`DenseSolve`."""
        share = self.space.at("pivot share")

        def pass_on(shares: str, total: str) -> tuple[Statement, ...]:
            take = traced_block(lambda x: [[x]], [self._one(total, PIVOT)], [share])
            entry = self._one(total, COLUMN)
            reads = [entry, self._one(shares, PIVOT, COLUMN), share]
            return take, self._along_row(traced_block(lambda x, own, share: [[x - own * share[0]]], reads, [entry]))

        reads = [self._one("right", COLUMN), self._one("pivot ease", COLUMN)]
        scale = traced_block(lambda x, ease: [[x * ease]], reads, [self._one("dy", COLUMN)])
        return [
            Each(PIVOT, PART_ROWS, pass_on("down", "right"), backwards=True),
            self._along_row(scale),
            Each(PIVOT, PART_ROWS, pass_on("up", "dy")),
        ]
