"""Actuators of tendons as loops over tables: code that grows with the kinds of muscles and obstacles, not with them.

The mathematics is that of :mod:`whippletree.tree.element_forces` and :mod:`whippletree.tree.actuation`. From the poses
and twists of all nodes,

1. *spots*: where the points of all routes are, and how they move;
2. *obstacles*, kind by kind: whether a tendon touches one, and the two spots where it meets and leaves it;
3. *pieces*, straight between two spots: their directions, and the lengths and rates of tendons as sums of theirs. A
   piece is there always, or only while an obstacle is touched, or only while it is not;
4. *actuators*, kind by kind: the force of each along its tendon, by its length, its rate and what drives it;
5. pieces again: the wrenches of these forces on nodes (:mod:`~whippletree.compiler.frontend.node_wrenches`).

Written out, the 80 muscles of a pair of legs are 35 000 operations, a third of their whole step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, negated, select
from whippletree.compiler.frontend.node_wrenches import SCREW, TWIST, NodeWrenches, origin_of, pushed_at, screws_of
from whippletree.compiler.frontend.unrolled import input_shapes, output_shapes
from whippletree.compiler.program import Buffer, Index, Lookup, Loop, Program, Register, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.functions import Function
from whippletree.model import Actuator, Model
from whippletree.model.force_elements import Wrap
from whippletree.spatial import Pose, add_cross
from whippletree.tree import actuation, wrapping
from whippletree.tree.element_forces import straight_piece
from whippletree.tree.links import world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place, Skeleton

MOST_WRITTEN_TENDONS = 8
"""Tendons with a route that actuators pull, up to which their code is written out."""

SPOT, OBSTACLE, PIECE, PULLED, PULLER = "spot", "obstacle", "piece", "pulled", "puller"

ALWAYS = 0
"""Number of the condition that always holds; each obstacle has two more, that it is touched and that it is not."""


def looped_actuators(model: Model) -> list[int]:
    """Numbers of the actuators whose tendons are gone through in loops; none where they are few."""
    found = [k for k, a in enumerate(model.actuators) if a.tendon is not None and model.tendon(a.tendon).route]
    many = len({model.actuators[k].tendon for k in found}) > MOST_WRITTEN_TENDONS
    return found if many and not model.is_flexible else []


class RoutePiece(NamedTuple):
    """A straight piece of a tendon."""

    tendon: int
    spots: tuple[int, int]
    nodes: tuple[int, int]
    divisor: float
    condition: int


@dataclass(frozen=True, eq=False)
class Obstacle:
    """An obstacle between two spots of a tendon."""

    wrap: Wrap
    place: Place
    tendon: int
    spots: tuple[int, int]
    divisor: float
    side: Array | int | None
    """Where the tendon passes, (3,) in the obstacle's frame, or the number of a spot on another body, or None."""

    @property
    def passes_inside(self) -> bool | None:
        """Whether the side is inside the obstacle; None where only the state tells, or there is none."""
        return bool(self.side @ self.side < self.wrap.radius**2) if isinstance(self.side, np.ndarray) else None

    @property
    def kind(self) -> tuple[Any, ...]:
        """Common to obstacles of one code."""
        return self.wrap.kind, type(self.side), self.passes_inside

    @property
    def numbers(self) -> list[float]:
        """The pose on its body, radius, divisor, and side."""
        own = [*self.place.pose.R.ravel(), *self.place.pose.p, self.wrap.radius, self.divisor]
        return [float(x) for x in (*own, *(self.side if isinstance(self.side, np.ndarray) else ()))]


class Routes:
    """The spots, obstacles and pieces of the tendons that some actuators pull."""

    def __init__(self, tree: Skeleton, numbers: Sequence[int]) -> None:
        self.tree, model = tree, tree.model
        names = list(dict.fromkeys(model.actuators[k].tendon for k in numbers))
        self.tendons = [model.tendon(str(name)) for name in names]
        self.pulled = [names.index(model.actuators[k].tendon) for k in numbers]
        """The tendon of each actuator."""
        self._spots: dict[str, int] = {}
        self.places: list[Place] = []
        """Places of the spots that are fixed on bodies; after them come two for each obstacle."""
        self.obstacles: list[Obstacle] = []
        legs = [leg for k in range(len(self.tendons)) for leg in self._legs(k)]
        self.pieces = [piece for leg in legs for piece in self._pieces(*leg)]

    def _legs(self, number: int) -> list[tuple[int, int, int, float, Obstacle | None]]:
        """From frame to frame: the tendon, two spots, the divisor, and the obstacle between them."""
        tendon, found = self.tendons[number], []
        wraps = {(wrap.branch, wrap.after): wrap for wrap in tendon.around}
        for k, (branch, divisor) in enumerate(zip(tendon.route, tendon.divisors.tolist(), strict=True)):
            for i, ends in enumerate(pairwise(self._spot(frame) for frame in branch)):
                wrap = wraps.get((k, i))
                obstacle = None if wrap is None else self._obstacle(wrap, number, ends, divisor)
                found.append((number, *ends, divisor, obstacle))
        return found

    def _spot(self, frame: str) -> int:
        if frame not in self._spots:
            self._spots[frame] = len(self.places)
            self.places.append(self.tree.place(frame))
        return self._spots[frame]

    def _obstacle(self, wrap: Wrap, tendon: int, spots: tuple[int, int], divisor: float) -> Obstacle:
        place, side = self.tree.place(wrap.frame), None
        if wrap.side:
            at = self.tree.place(wrap.side)
            fixed = at.node == place.node
            side = place.pose.R.T @ (at.pose.p - place.pose.p) if fixed else self._spot(wrap.side)
        self.obstacles.append(Obstacle(wrap, place, tendon, spots, divisor, side))
        return self.obstacles[-1]

    def _pieces(
        self, tendon: int, first: int, second: int, divisor: float, obstacle: Obstacle | None
    ) -> list[RoutePiece]:
        """A straight piece; round an obstacle, two more to its surface."""
        one, other = (self.places[spot].node for spot in (first, second))
        if obstacle is None:
            return [RoutePiece(tendon, (first, second), (one, other), divisor, ALWAYS)]
        number, middle = self.obstacles.index(obstacle), obstacle.place.node
        touched = ALWAYS + 1 + 2 * number
        on = len(self.places) + 2 * number
        return [
            RoutePiece(tendon, (first, second), (one, other), divisor, touched + 1),
            RoutePiece(tendon, (first, on), (one, middle), divisor, touched),
            RoutePiece(tendon, (on + 1, second), (middle, other), divisor, touched),
        ]


class TendonLoops:
    """Statements that find the joint forces of some actuators of tendons, in a program with ``pose``, ``twist`` and
    ``screw`` (:mod:`~whippletree.compiler.frontend.node_wrenches`)."""

    def __init__(self, space: WorkSpace, tree: Skeleton, numbers: Sequence[int]) -> None:
        self.space, self.tree, self.numbers = space, tree, numbers
        self.routes, self.wrenches = Routes(tree, numbers), NodeWrenches(space, tree)
        self.world = len(tree.nodes)
        routes = self.routes
        fixed, obstacles = len(routes.places), len(routes.obstacles)
        space.work(
            spot=(fixed + 2 * obstacles, 6),  # position and velocity
            holds=(1 + 2 * obstacles,),
            stretch=(len(routes.tendons), 2),  # length and its rate
            tendon_pull=(len(routes.tendons),),
            pull_direction=(len(routes.pieces), 3),  # force on the second end of a unit of pull
        )
        space.index("spot node", [self._row(place.node) for place in routes.places])
        space.table("spot place", [[float(x) for x in place.pose.p] for place in routes.places])
        space.index("piece tendon", [piece.tendon for piece in routes.pieces])
        space.index("piece condition", [piece.condition for piece in routes.pieces])
        space.table("piece divisor", [float(piece.divisor) for piece in routes.pieces])
        for side in (0, 1):
            space.index(f"piece spot {side}", [piece.spots[side] for piece in routes.pieces])
            # forces on both ends of one rigid part leave nothing: let the world have them
            nodes = [-1 if piece.nodes[0] == piece.nodes[1] else piece.nodes[side] for piece in routes.pieces]
            space.index(f"piece node {side}", [self._row(node) for node in nodes])

    def _row(self, node: int) -> int:
        return self.world if node < 0 else node

    def statements(self, drive: Callable[[Register], Piece], into: str) -> list[Statement]:
        """``drive``: what drives the actuator with the number in a register; ``into``: where joint forces go, (nv,)."""
        space = self.space
        slack = [space.put(0, space.at("stretch", PULLED)), space.put(0, space.at("tendon pull", PULLED))]
        return [
            Loop(PULLED, len(self.routes.tendons), tuple(slack)),
            *self._find_spots(),
            *self._go_round(),
            *self._measure(),
            *self._pull(drive),
            *self._push_nodes(),
            *self.wrenches.gather(into),
        ]

    def _look_up(self, counter: Register, *names: str) -> list[Statement]:
        return [Lookup(name, self.space.address(name, counter)) for name in names]

    def _find_spots(self) -> list[Statement]:
        def find(pose: Array, twist: Array, place: Array) -> list[Any]:
            return [_spot_at(pose[:9].reshape(3, 3) @ place, pose, twist)]

        at = self.space.at
        reads = [at("pose", "spot node"), at("twist", "spot node"), at("spot place", SPOT)]
        body = (*self._look_up(SPOT, "spot node"), traced_block(find, reads, [at("spot", SPOT)]))
        always = self.space.put(1, at("holds", Index(None, ALWAYS)))
        return [Loop(SPOT, len(self.routes.places), body), always]

    def _go_round(self) -> list[Statement]:
        kinds: dict[Any, list[int]] = {}
        for number, obstacle in enumerate(self.routes.obstacles):
            kinds.setdefault(obstacle.kind, []).append(number)
        return [self._kind_of_obstacle(f"obstacle kind {k}", own) for k, own in enumerate(kinds.values())]

    def _kind_of_obstacle(self, name: str, numbers: Sequence[int]) -> Statement:
        members, at = [self.routes.obstacles[k] for k in numbers], self.space.at
        first = members[0]
        sided, moving = isinstance(first.side, np.ndarray), isinstance(first.side, int)
        tables: dict[str, list[Any]] = {
            "node": [self._row(m.place.node) for m in members],
            "tendon": [m.tendon for m in members],
            "from": [m.spots[0] for m in members],
            "to": [m.spots[1] for m in members],
            "on": [len(self.routes.places) + 2 * k for k in numbers],
            "touched": [ALWAYS + 1 + 2 * k for k in numbers],
            **({"side": [m.side for m in members]} if moving else {}),
        }
        for word, entries in tables.items():
            self.space.index(f"{name} {word}", entries)
        self.space.table(f"{name} numbers", [m.numbers for m in members])

        def wrap(body: Array, twist: Array, numbers: Array, stretch: Array, a: Array, b: Array, *rest: Array) -> Any:
            R, p = body[:9].reshape(3, 3), body[9:]
            at = Pose(R, p) @ Pose(numbers[:9].reshape(3, 3), numbers[9:12])
            radius, divisor = numbers[12], numbers[13]
            points = [at.R.T @ (x[:3] - at.p) for x in (a, b, *rest)]
            side = points[2] if moving else numbers[14:] if sided else None
            path = wrapping.around_obstacle(first.wrap.kind, points[0], points[1], radius, side, first.passes_inside)
            spots = [_spot_at(at.R @ x + at.p - p, body, twist) for x in (path.first, path.second)]
            touches = select(path.touches, 1, -1), select(negated(path.touches), 1, -1)
            return [*spots, touches, stretch[0] + select(path.touches, path.length / divisor, 0)]

        own = {word: f"{name} {word}" for word in tables}
        length = Piece((1,), at("stretch", own["tendon"]).addresses[:1])
        reads = [at("pose", own["node"]), at("twist", own["node"]), at(f"{name} numbers", OBSTACLE), length]
        reads += [at("spot", own[w]) for w in ("from", "to", *(["side"] if moving else []))]
        writes = [at("spot", Index(own["on"], k)) for k in (0, 1)]
        flags = [at("holds", Index(own["touched"], k)).addresses[0] for k in (0, 1)]
        writes += [Piece((2,), tuple(flags)), length]
        body = (*self._look_up(OBSTACLE, *own.values()), traced_block(wrap, reads, writes))
        return Loop(OBSTACLE, len(members), body)

    def _measure(self) -> list[Statement]:
        def measure(a: Array, b: Array, holds: Any, divisor: Any, stretch: Array) -> list[Any]:
            there = less(0, holds)
            length, direction = straight_piece(a[:3], b[:3])
            along = np.array([select(there, x / divisor, 0) for x in direction], dtype=object)
            length = select(there, length / divisor, 0)
            return [along, [stretch[0] + length, stretch[1] + along @ (b[3:] - a[3:])]]

        at = self.space.at
        names = ("piece spot 0", "piece spot 1", "piece tendon", "piece condition")
        stretch = at("stretch", names[2])
        reads = [at("spot", names[0]), at("spot", names[1]), at("holds", names[3]), at("piece divisor", PIECE), stretch]
        body = (*self._look_up(PIECE, *names), traced_block(measure, reads, [at("pull direction", PIECE), stretch]))
        return [Loop(PIECE, len(self.routes.pieces), body)]

    def _pull(self, drive: Callable[[Register], Piece]) -> list[Statement]:
        kinds: dict[Any, list[int]] = {}
        for k, number in enumerate(self.numbers):
            kinds.setdefault(_kind_of_law(self.tree.model.actuators[number]), []).append(k)
        return [self._kind_of_puller(f"puller kind {i}", own, drive) for i, own in enumerate(kinds.values())]

    def _kind_of_puller(self, name: str, members: Sequence[int], drive: Callable[[Register], Piece]) -> Statement:
        numbers = [self.numbers[k] for k in members]
        first = self.tree.model.actuators[numbers[0]]
        self.space.index(f"{name} tendon", [self.routes.pulled[k] for k in members])
        self.space.index(f"{name} number", numbers)
        self.space.table(f"{name} law", [_numbers_of_law(self.tree.model.actuators[k]) for k in numbers])

        def pull(stretch: Array, law: Array, drive: Any, before: Any) -> list[Any]:
            own = _with_law(first, law)
            (gear,) = own.gear
            return [before + gear * actuation.force(own, drive, gear * stretch[0], gear * stretch[1])]

        at = self.space.at
        total = at("tendon pull", f"{name} tendon")
        reads = [at("stretch", f"{name} tendon"), at(f"{name} law", PULLER), drive(f"{name} number"), total]
        body = (*self._look_up(PULLER, f"{name} tendon", f"{name} number"), traced_block(pull, reads, [total]))
        return Loop(PULLER, len(members), body)

    def _push_nodes(self) -> list[Statement]:
        def push(along: Array, pull: Any, a: Array, b: Array, X: Array, Y: Array, *loads: Array) -> list[Any]:
            force = along * pull
            return [loads[0] - pushed_at(force, a[:3], X), loads[1] + pushed_at(force, b[:3], Y)]

        at = self.space.at
        spots, nodes = [f"piece spot {side}" for side in (0, 1)], [f"piece node {side}" for side in (0, 1)]
        both = [at("load", node) for node in nodes]
        reads = [at("pull direction", PIECE), at("tendon pull", "piece tendon"), *(at("spot", spot) for spot in spots)]
        block = traced_block(push, [*reads, *map(origin_of, nodes), *both], both)
        body = (*self._look_up(PIECE, "piece tendon", *spots, *nodes), block)
        return [self.wrenches.clear(), Loop(PIECE, len(self.routes.pieces), body)]


def actuator_forces_program(tree: Skeleton, function: Function) -> Program:
    """``actuator_forces`` of a model with many tendons: (q, v, ctrl, [act]) → tau."""
    model, space, nodes = tree.model, WorkSpace(), len(tree.nodes)
    inputs, outputs = input_shapes(model, function, ()), output_shapes(model, function)
    space.add(*[Buffer(name, "input", shape) for name, shape in inputs.items()])
    space.add(*[Buffer(name, "output", shape) for name, shape in outputs.items()])
    space.work(pose=(nodes + 1, POSE), twist=(nodes + 1, TWIST), screw=(model.nv, SCREW))
    space.work(drive=(len(model.actuators),), pulled=(model.nv,))
    numbers = looped_actuators(model)
    loops = TendonLoops(space, tree, numbers)
    others = [k for k in range(len(model.actuators)) if k not in numbers]

    def place(q: Array, v: Array, ctrl: Array, *act: Array) -> list[Any]:
        m = Mechanism(tree)
        links = m.moving(q, v)
        poses = world_poses(m.sweep, links)
        twists = [x for X, link in zip(poses, links, strict=True) for x in (*(X.R @ link.V[:3]), *(X.R @ link.V[3:]))]
        screws = [x for X, link in zip(poses, links, strict=True) for row in screws_of(X, link.H) for x in row]
        world = [*np.eye(3, dtype=int).ravel().tolist(), 0, 0, 0]
        drives = actuation.drives(model, ctrl, act[0]) if act else ctrl
        return [[*(x for X in poses for x in (*X.R.ravel(), *X.p)), *world], [*twists, *[0] * TWIST], screws, drives]

    def add(q: Array, v: Array, drives: Array, pulled: Array) -> list[Any]:
        return [actuation.actuator_forces(Mechanism(tree), q, v, drives, others, pulled)]

    begin = traced_block(place, space.each(list(inputs)), space.each(("pose", "twist", "screw", "drive")))
    end = traced_block(add, space.each(("q", "v", "drive", "pulled")), space.each(list(outputs)))
    return space.program(
        function.name, [begin, *loops.statements(lambda number: space.at("drive", number), "pulled"), end]
    )


def _spot_at(arm: Array, pose: Array, twist: Array) -> Array:
    """Position and velocity (6,) of a point of a body, ``arm`` (3,) from its origin in the axes of the world."""
    return np.concatenate([pose[9:] + arm, add_cross(twist[3:], twist[:3], arm)])


# --- the laws of actuators as rows of numbers ---


def _kind_of_law(actuator: Actuator) -> tuple[Any, ...]:
    """Common to actuators of one code: ranges, which stay in it, and what decides between branches of muscles."""
    own = None if actuator.muscle is None else actuator.muscle.lengthening
    return own, actuator.drive_range, actuator.force_range


def _numbers_of_law(actuator: Actuator) -> list[float]:
    """Gear, and the law without its ranges."""
    muscle = actuator.muscle
    if muscle is None:
        return [float(x) for x in (*actuator.gear, *actuator.gain, *actuator.bias)]
    own = [muscle.peak, muscle.shortest, muscle.longest, muscle.fastest, muscle.passive]
    return [float(x) for x in (*actuator.gear, *own, *muscle.length_range, *muscle.operating_range)]


def _with_law(actuator: Actuator, numbers: Array) -> Actuator:
    """This actuator with other numbers, of any scalar."""
    gear, own = numbers[:1], numbers[1:]
    if actuator.muscle is None:
        return replace(actuator, gear=gear, gain=own[:3], bias=own[3:])
    peak, shortest, longest, fastest, passive, *ranges = own
    muscle = replace(
        actuator.muscle,
        peak=peak,
        shortest=shortest,
        longest=longest,
        fastest=fastest,
        passive=passive,
        length_range=tuple(ranges[:2]),
        operating_range=tuple(ranges[2:]),
    )
    return replace(actuator, gear=gear, muscle=muscle)
