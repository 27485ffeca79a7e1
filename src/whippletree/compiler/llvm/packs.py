"""Operations of straight-line code that one vector does: a row times a row, a row plus a row.

Where one state is computed alone, the lanes of a vector are free. Sums of products over rows of work space
(:func:`whippletree.compiler.rollout.dense_solve.multiply_in_strands`) and rows that change alike are the same operation
on neighbours, so several of them can be done at once. Nothing about the numbers changes: every lane does what its node
says, to the same bits.

A *pack* is a group of nodes, one for each lane. Neighbours in memory that are read are packs; from there on, nodes with
the same operation on the same packs, or on one scalar that all lanes share, make a pack. A pack needs nothing that a
member of it does not need, so the whole of it can be computed where the first member is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from whippletree.arithmetic.trace import Straight

WIDTH = 4
"""Nodes of a pack: what a vector of AVX2 holds; LLVM cuts it up for other CPUs."""

MOST_ROUNDS_BESIDE = 8
"""Rounds of a loop side by side: what a vector of AVX-512 holds; LLVM cuts it up for other CPUs."""

FEWEST_ROUNDS_BESIDE = 2
"""Those that are worth a vector: two legs, or two arms."""

SIDE_BY_SIDE = frozenset(("add", "sub", "mul", "div", "fma", "fms", "fnma", "neg", "abs", "sqrt"))
"""Operations that vectors have."""

_COMMUTATIVE = frozenset(("add", "mul", "fma", "fms", "fnma"))
"""Those whose first two operands can be exchanged."""

Place = tuple[Hashable, int]
"""Where a number is: a row of memory, and how far along it."""


Stored = dict[int, list[tuple[int, ...]]]
"""By pack, the numbers of outputs that are its members, lane by lane: one group for each row that they go to."""


class Operand(NamedTuple):
    """An operand of a pack: another pack, lane by lane, or one node that all lanes share."""

    number: int
    is_pack: bool


class Pack(NamedTuple):
    """Nodes that are computed together, and from what; a pack that is read has no operands."""

    members: tuple[int, ...]
    operands: tuple[Operand, ...] = ()


class Packs(NamedTuple):
    """The packs of a block, in an order in which they can be computed."""

    packs: list[Pack]
    of_node: dict[int, int]
    """The pack that computes a node, for those that are not read."""
    single: set[int]
    """Members that are also needed one by one."""
    stored: Stored
    """Packs whose members are written to neighbours in memory."""


def find_packs(code: Straight, read: Mapping[int, Place], written: Sequence[Place | None]) -> Packs | None:
    """Packs of a code that are worth it; None if there are none.

    Args:
        read: places of those inputs that have neighbours, by number.
        written: places of the outputs; None for those without neighbours.
    """
    inputs = {node[1]: number for number, node in enumerate(code.nodes) if node[0] == "input"}
    seeds = _rows({place: inputs[number] for number, place in read.items() if number in inputs})
    if not seeds:
        return None
    search = _PackSearch(code, seeds)
    search.pack_users()
    return _worthwhile(code, search.packs, _rows_written(code, written, search.packed))


def _rows(nodes: Mapping[Place, int]) -> list[tuple[int, ...]]:
    """Groups of neighbours, from the beginning of each row on."""
    found = []
    for row, first in nodes:
        places = [(row, first + lane) for lane in range(WIDTH)]
        if first % WIDTH == 0 and all(place in nodes for place in places):
            found.append(tuple(nodes[place] for place in places))
    return found


class _PackSearch:
    """Packs that follow from others."""

    def __init__(self, code: Straight, seeds: Iterable[tuple[int, ...]]) -> None:
        self.nodes = code.nodes
        self.users: dict[int, list[int]] = defaultdict(list)
        for number, node in enumerate(code.nodes):
            if node[0] in SIDE_BY_SIDE:
                for operand in dict.fromkeys(node[1:]):
                    self.users[operand].append(number)
        self.packs: list[Pack] = []
        self.packed: dict[int, tuple[int, int]] = {}
        """Pack and lane of a node."""
        self.begun: dict[Hashable, dict[int, int]] = defaultdict(dict)
        """Nodes with the same operation on the same operands, by lane."""
        self.fresh: deque[int] = deque()
        for members in seeds:
            self._admit(Pack(members))

    def _admit(self, pack: Pack) -> None:
        for lane, node in enumerate(pack.members):
            self.packed[node] = len(self.packs), lane
        self.packs.append(pack)
        self.fresh.extend(pack.members)

    def pack_users(self) -> None:
        while self.fresh:
            for user in self.users[self.fresh.popleft()]:
                if user not in self.packed:
                    self._offer(user)

    def _offer(self, node: int) -> None:
        """Let a node take its lane in every group that it fits in, until one of them is complete."""
        operation = self.nodes[node][0]
        for lane, operands in self._readings(node):
            if operation in _COMMUTATIVE:
                operands = (*sorted(operands[:2]), *operands[2:])
            group = self.begun[operation, operands]
            if group.get(lane, -1) in self.packed or lane not in group:
                group[lane] = node
            if len(group) == WIDTH and not any(member in self.packed for member in group.values()):
                self._admit(Pack(tuple(group[i] for i in range(WIDTH)), operands))
                return

    def _readings(self, node: int) -> Iterable[tuple[int, tuple[Operand, ...]]]:
        """Lanes that a node could have, and its operands seen from there."""
        operands = self.nodes[node][1:]
        choices = [[None, self.packed[i]] if i in self.packed else [None] for i in operands]
        for chosen in product(*choices):
            lanes = {place[1] for place in chosen if place is not None}
            if len(lanes) == 1:
                yield (
                    lanes.pop(),
                    tuple(
                        Operand(i, False) if place is None else Operand(place[0], True)
                        for i, place in zip(operands, chosen, strict=True)
                    ),
                )


def _rows_written(code: Straight, written: Sequence[Place | None], packed: Mapping[int, tuple[int, int]]) -> Stored:
    """Packs whose members go to neighbours, in their order."""
    at = {place: number for number, place in enumerate(written) if place is not None}
    found: Stored = defaultdict(list)
    for numbers in _rows(at):
        nodes = [code.outputs[number] for number in numbers]
        places = [packed.get(node) if isinstance(node, int) else None for node in nodes]
        if places[0] is not None and places == [(places[0][0], lane) for lane in range(WIDTH)]:
            found[places[0][0]].append(numbers)
    return found


def _worthwhile(code: Straight, packs: list[Pack], stored: Stored) -> Packs | None:
    """Packs of which a group that belongs together saves more operations than it costs."""
    group = _join_packs(packs)
    computed = {node: number for number, pack in enumerate(packs) if pack.operands for node in pack.members}
    single = _single(code, packs, computed, stored)
    saved: dict[int, int] = defaultdict(int)
    for number, pack in enumerate(packs):
        if pack.operands:
            shared = sum(not operand.is_pack for operand in pack.operands)
            saved[group[number]] += WIDTH - 1 - shared - sum(node in single for node in pack.members)
    kept = {number for number, pack in enumerate(packs) if pack.operands and saved[group[number]] > 0}
    if not kept:
        return None
    of_node = {node: number for node, number in computed.items() if number in kept}
    left = [pack if number in kept or not pack.operands else Pack(()) for number, pack in enumerate(packs)]
    stored = {number: outputs for number, outputs in stored.items() if number in kept}
    return Packs(left, of_node, _single(code, left, of_node, stored), stored)


def _join_packs(packs: list[Pack]) -> list[int]:
    """A number for each pack that those have in common which are computed from each other."""
    root = list(range(len(packs)))

    def find(number: int) -> int:
        while root[number] != number:
            root[number] = number = root[root[number]]
        return number

    for number, pack in enumerate(packs):
        for operand in pack.operands:
            if operand.is_pack and packs[operand.number].operands:
                root[find(number)] = find(operand.number)
    return [find(number) for number in range(len(packs))]


def _single(code: Straight, packs: list[Pack], computed: Mapping[int, int], stored: Stored) -> set[int]:
    """Members that are needed one by one: by nodes outside packs, by all lanes of a pack, and as outputs."""
    others = (own for node, own in enumerate(code.nodes) if node not in computed and own[0] not in ("input", "const"))
    wanted = {operand for own in others for operand in own[1:]}
    wanted |= {operand.number for pack in packs for operand in pack.operands if not operand.is_pack}
    rows = {number for groups in stored.values() for group in groups for number in group}
    wanted |= {node for number, node in enumerate(code.outputs) if isinstance(node, int) and number not in rows}
    return {node for node in computed if node in wanted}
