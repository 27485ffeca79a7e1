"""An order of straight-line code that keeps few numbers alive, for machines where registers are what is scarce.

Generic code is traced pass by pass: all bodies outwards, then all inwards. Numbers of the first pass then wait for
long. Here a part of the code keeps its order, and whatever comes before that part is moved to where it is first
needed, in its own order: the kinematics of a limb to right before the limb's own pass inwards. Where the part begins
is found by trying; the order with the least crowding is taken. The operations are the same, so the bits are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whippletree.arithmetic.trace.passes import Straight
from whippletree.arithmetic.trace.traced import LEAVES, Node

_TRIALS = 24

MANY_WAITING = 250
"""Numbers alive at once from which a CPU is given another order: as vectors of 64 bytes they fill half of its first
cache of 32 kB, which inputs and results share. Fewer were seen to gain 0 to 5 % of the time of a batch, more 4 to 22 %.
"""

LONGEST_ORDERED = 5000
"""Operations up to which that is tried: it takes 15 µs for each."""

_CPU_REGISTERS, _CPU_TRIALS = 32, 7


def order_for_registers(code: Straight, registers: int, trials: int = _TRIALS) -> Straight:
    """This code in the order that needs the fewest numbers beyond that many registers."""
    size = len(code.nodes)
    found = [_with_late_leaves(code.nodes, range(size))]
    if crowding(code.nodes, found[0], registers):
        starts = range(0, size + 1, max(1, size // trials))
        found += [_with_late_leaves(code.nodes, _order_by_demand(code, start)) for start in starts]
    return _renumber(code, min(found, key=lambda order: crowding(code.nodes, order, registers)))


def order_for_cache(code: Straight) -> Straight:
    """This code for a CPU: in another order where so many numbers wait that its first cache would not hold them."""
    if code.operations > LONGEST_ORDERED or most_alive(code.nodes) <= MANY_WAITING:
        return code
    return order_for_registers(code, _CPU_REGISTERS, _CPU_TRIALS)


def most_alive(nodes: Sequence[Node]) -> int:
    """The most numbers that wait for a use at any place of the code; constants do not count."""
    last: dict[int, int] = {operand: place for place, node in enumerate(nodes) for operand in _operands(node)}
    ends = [0] * len(nodes)
    for operand, place in last.items():
        ends[place] += nodes[operand][0] != "const"
    alive = most = 0
    for place, node in enumerate(nodes):
        alive += place in last and node[0] != "const"
        most = max(most, alive)
        alive -= ends[place]
    return most


def crowding(nodes: Sequence[Node], order: Sequence[int], registers: int) -> int:
    """How many numbers beyond the registers there are, summed over the code; constants do not count."""
    last = {operand: place for place, i in enumerate(order) for operand in _operands(nodes[i])}
    alive = total = 0
    for place, i in enumerate(order):
        for operand in set(_operands(nodes[i])):
            alive -= last[operand] == place and nodes[operand][0] != "const"
        alive += i in last and nodes[i][0] != "const"
        total += max(0, alive - registers)
    return total


def _operands(node: Node) -> Sequence[int]:
    return () if node[0] in LEAVES else node[1:]


def _order_by_demand(code: Straight, start: int) -> list[int]:
    """From ``start`` on everything in its order, what comes before when it is first needed."""
    nodes = code.nodes
    done = bytearray(len(nodes))
    order: list[int] = []
    for wanted in (*range(start, len(nodes)), *[w for w in code.outputs if isinstance(w, int)]):
        missing = sorted(_missing(nodes, wanted, done))
        for i in missing:
            done[i] = 1
        order += missing
    return order


def _missing(nodes: Sequence[Node], wanted: int, done: bytearray) -> set[int]:
    """Nodes that a node needs and that are not there yet, itself included."""
    found: set[int] = set()
    stack = [wanted]
    while stack:
        i = stack.pop()
        if not done[i] and i not in found:
            found.add(i)
            stack.extend(_operands(nodes[i]))
    return found


def _with_late_leaves(nodes: Sequence[Node], order: Sequence[int]) -> list[int]:
    """Inputs and constants right before their first use."""

    def sequence() -> Iterator[int]:
        seen: set[int] = set()
        for i in order:
            if nodes[i][0] not in LEAVES:
                for operand in nodes[i][1:]:
                    if nodes[operand][0] in LEAVES and operand not in seen:
                        seen.add(operand)
                        yield operand
                yield i
        # an output may be an input itself
        yield from (i for i in order if nodes[i][0] in LEAVES and i not in seen)

    return list(sequence())


def _renumber(code: Straight, order: Sequence[int]) -> Straight:
    number = {i: place for place, i in enumerate(order)}
    nodes = [
        node if node[0] in LEAVES else (node[0], *[number[i] for i in node[1:]])
        for node in (code.nodes[i] for i in order)
    ]
    return Straight(nodes, [number[w] if isinstance(w, int) else w for w in code.outputs])
