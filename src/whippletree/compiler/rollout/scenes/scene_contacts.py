"""Contacts of a scene of many free bodies, inside a kernel: their rows, what impulses do, and starts with momentum.

What all impulses do is kept as the velocities of the bodies, V = V_free + M⁻¹ Jᵀ λ, so that a contact's velocity is
J V, of two bodies alone, and a sweep costs what the list is long, whatever the number of bodies. Of bodies that joints
hold V stays V_free, and impulses move their trees (:mod:`~whippletree.compiler.rollout.scenes.scene_trees`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Block, Collect, Each, If, Index, Lookup, Loop, Register, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.scenes.scene_totals import ANY, SHARE, SharedTotals
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT, LANES, SceneTrees
from whippletree.contact.kinematics.scene_layout import UPPER
from whippletree.contact.problem.cones import largest
from whippletree.contact.problem.contact_problem import IMMOBILE, BlockScaling, block_scaling
from whippletree.contact.time_step import shifts
from whippletree.spatial import add_cross, cross

if TYPE_CHECKING:  # which ask for the leaps of contacts
    from whippletree.compiler.rollout.scenes.scene_joints import SceneJoints
    from whippletree.compiler.rollout.scenes.scene_moments import SceneMoments

ACTIVE, TOUCHED = "active", "touched"
"""The list of contacts that may matter in a step, and the list of their bodies."""

MOST_MOMENTUM = 0.92
"""How far ahead a pair of sweeps begins at most, as a share of the way that the last one has come. Without a bound a
thousand balls stayed at 1e-2 m/s: one part of a pile goes uphill while others, which decide, do not."""

FIRST, SECOND, BODY, ISLAND = "first body", "second body", "any body", "island"
SCALING = len(BlockScaling._fields)
LANE = "lane"

TREE_MOTION = {"vel": "y", "vel start": "y start", "vel before": "y before", "aside": "y aside", "moved": "z"}
"""Motions of the bodies, and what is kept of the trees for each."""

SWEPT = {
    "pushes": (0, (2, 2, LANES)),
    "columns": (0, (9, LANES)),
    "rows": (36, (9, LANES)),
    "scaling": (72, (SCALING,)),
    "mean mobility": (79, ()),
    "impulse before": (80, (3,)),
    "shift": (83, ()),
    "impulse start": (84, (3,)),
    "roughness": (87, ()),
}
"""Numbers of a contact for sweeps, side by side in one row of ``swept``, so that a sweep through a long list meets few
pages of memory: where each thing begins, and its shape.

pushes            what the impulse with which a step begins does to both bodies, until there are tables
columns, rows     see :func:`lever_tables`
impulse before    after the pair of sweeps before
impulse start     where the last pair of sweeps began
roughness         its friction
"""

LOOKED = {
    "row": (0, (15,)),
    "looked mobility": (15, ()),
    "approach": (16, (3,)),
    "looked shift": (19, ()),
    "looked gap": (20, ()),
    "looked friction": (21, ()),
}
"""Numbers of a contact for looks at its residual and its gap, side by side in one row of ``look row``: where each
thing begins, and its shape.

row               its axes (3, 3), and its point from both centres of mass
approach          its velocity as the step begins
"""

LOOKED_LENGTH = 24
"""Numbers of such a row: whole lines of the cache."""


def relative_velocity(row: Array, first: Array, second: Array) -> Array:
    """J V (3,): of the material points of two bodies that move with (ω, velocity of the centre of mass)."""
    axes, arm, other = row[:9].reshape(3, 3), row[9:12], row[12:]
    ours, theirs = add_cross(first[3:], first[:3], arm), add_cross(second[3:], second[:3], other)
    return np.asarray(axes @ (ours - theirs))


def pushed(row: Array, impulse: Array, bodies: Sequence[Array], velocities: Sequence[Array]) -> list[Array]:
    """Velocities of two bodies after an impulse (3,) along a contact's axes; ``bodies``: what moves them, (7,)."""
    return [V + change for V, change in zip(velocities, changes(row, impulse, bodies), strict=True)]


def changes(row: Array, impulse: Array, bodies: Sequence[Array]) -> list[Array]:
    """How an impulse (3,) along a contact's axes changes the velocities of two bodies, (6,) each."""
    force = row[:9].reshape(3, 3).T @ impulse
    found = []
    for sign, arm, mobility in zip((1, -1), (row[9:12], row[12:]), bodies, strict=True):
        own = sign * force
        found.append(np.concatenate([matrix_of(mobility[1:]) @ cross(arm, own), mobility[0] * own]))
    return found


def lever_tables(row: Array, first: Array, second: Array) -> tuple[list[Any], list[Any]]:
    """Nine columns and nine rows (4,), the last number of each 0: of :func:`velocity_in_lanes` and of
    :func:`bodies_in_lanes`.

    Columns: of the axes E, and of how the turning of either body moves the contact along them; so u is a sum of
    columns. Rows: of E, and of how impulses along the axes turn either body; so are changes of velocities sums of rows.
    """
    E = row[:9].reshape(3, 3)
    levers = [np.array([cross(arm, axis) for axis in E], dtype=object) for arm in (row[9:12], row[12:])]
    turned = [own @ matrix_of(body[1:]) for own, body in zip(levers, (first, second), strict=True)]
    columns = [[*part[:, k], 0] for part in (E, *levers) for k in range(3)]
    rows = [[*part[k], 0] for part in (E, *turned) for k in range(3)]
    return [x for line in columns for x in line], [x for line in rows for x in line]


def velocity_in_lanes(columns: Array, first: Array, second: Array) -> Array:
    """J V (4,) from nine columns and the velocities (2, 4) of two bodies, one row in each lane; the last is not used.

    It is written all the same (``felt``): operations make a vector where all of its lanes are wanted.
    """
    E, A, B = columns.reshape(3, 3, LANES)
    return np.asarray((first[1, :3] - second[1, :3]) @ E + (first[0, :3] @ A - second[0, :3] @ B))


def bodies_in_lanes(rows: Array, p: Array, masses: Sequence[Any], velocities: Sequence[Array]) -> list[Array]:
    """Velocities of two bodies, (2, 4) each, after an impulse p (3,); ``masses``: their reciprocals."""
    E, A, B = (p @ part for part in rows.reshape(3, 3, LANES))
    (m, k), (first, second) = masses, velocities
    return [first[0] + A, first[1] + m * E, second[0] - B, second[1] - k * E]


def matrix_of(six: Array) -> Array:
    """A symmetric matrix (3, 3) from its upper triangle."""
    a, b, c, d, e, f = six
    return np.array([[a, b, c], [b, d, e], [c, e, f]], dtype=object)


def mean_mobility(row: Array, first: Array, second: Array) -> Any:
    """A third of the trace of :func:`own_block`, whatever the axes."""
    found = first[0] + second[0]
    for arm, body in ((row[9:12], first), (row[12:], second)):
        A = matrix_of(body[1:])
        found = found + (arm @ arm * (A[0, 0] + A[1, 1] + A[2, 2]) - arm @ (A @ arm)) / 3
    return found


def own_block(row: Array, first: Array, second: Array) -> Array:
    """A contact's own part of the Delassus matrix, (3, 3), from what moves its bodies."""
    axes = row[:9].reshape(3, 3)
    arms = [(cross(row[9:12], axis), cross(row[12:], axis)) for axis in axes]
    A, B = matrix_of(first[1:]), matrix_of(second[1:])
    G = np.zeros((3, 3), dtype=object)
    for i in range(3):
        for j in range(i, 3):
            turning = arms[i][0] @ (A @ arms[j][0]) + arms[i][1] @ (B @ arms[j][1])
            G[i, j] = G[j, i] = turning + (first[0] + second[0] if i == j else 0)
    return G


def scaling_of_trees(G: Array) -> BlockScaling:
    """:func:`~whippletree.contact.problem.contact_problem.block_scaling` of a block of which a joint may hold some
    directions, as a pendulum those across its plane: these carry no impulse."""
    a, b, d = G[1, 1], G[1, 2], G[2, 2]
    least = IMMOBILE * (G[0, 0] + a + d) / 3
    moves, slides, both_slide = (
        less(x, y) for x, y in ((least, G[0, 0]), (least, a + d), (least * (a + d), a * d - b * b))
    )
    half = (a + d) / 2
    spread = sqrt(largest([half * half - (a * d - b * b), 0]))
    rate = select(both_slide, 1 / select(both_slide, a * d - b * b, 1), 0)
    # where one tangent slides, G_tt is its square: the inverse on it is G_tt over the square of the trace
    alone = select(slides, 1 / select(slides, (a + d) * (a + d), 1), 0)
    across, between, along = (select(both_slide, x * rate, y * alone) for x, y in ((d, a), (-b, b), (a, d)))
    step = select(slides, 1 / select(slides, half + spread, 1), 0)
    normal = select(moves, 1 / select(moves, G[0, 0], 1), 0)
    return BlockScaling(normal, G[0, 1], G[0, 2], across, between, along, step)


class SceneContacts:
    """Statements on contacts and bodies whose numbers are in buffers of these names:

    touch, node, friction, restitution   of a contact, see :mod:`~whippletree.compiler.rollout.scenes.scene_step`
    centre, mobility, start, free        of a body
    impulse                              of a contact
    now dt                               the step

    ``vel`` are the velocities that impulses lead to.
    """

    def __init__(
        self,
        space: WorkSpace,
        trees: SceneTrees | None = None,
        joints: SceneJoints | None = None,
        round_bodies: bool = False,
    ) -> None:
        """``trees``, ``joints``: of the mechanism, where some bodies are those of one; ``round_bodies``: whether the
        inertia of each is the same about every axis."""
        self.round_bodies = round_bodies
        self.space, self.active, self.touched = space, ACTIVE, TOUCHED
        self.trees, self.joints = trees, joints
        self.moments: SceneMoments | None = None
        """What resists spinning and rolling, where something does."""
        space.work(
            look_row=("C", LOOKED_LENGTH),
            own=("C", 6),  # the contact's own part of G, its upper triangle
            swept=("C", 22, LANES),
            restores=(1,),  # 1, or 0 where the step is solved without restitution
            loaded=("N",),  # whether a body has contacts
            vel=("N", 2, LANES),  # turning and centre of mass, each followed by a number that is not used
            vel_start=("N", 2, LANES),  # where the last pair of sweeps began
            vel_before=("N", 2, LANES),  # where the one before ended
            felt=(LANES,),  # velocity of the contact in hand, and a number that is not used
            change=(1,),
            uphill=(1,),
            theta=(1,),
            beta=(1,),
            going_on=(1,),
            unknown=("C",),  # whether the rows of a contact are still to be made
            untabled=("C",),  # and its tables
            stirs=("C",),  # whether a contact is far from its law
            swept_flag=("C",),  # whether sweeps go over it
            joins=("C",),  # and whether it has come into the list
            any_untabled=(1,),  # whether a contact in the list has none
            afresh=(1,),  # whether the problem is a new one, for which no sweep was made
            resumes=(1,),  # whether it is not
            rebounds=(1,),  # whether a contact of it bounces
        )
        space.numbers_list(self._joining, "C")
        self.rebounding = SharedTotals(space, rebounds=ANY)
        self.untabled = SharedTotals(space, any_untabled=ANY)

    def on_lists(self, active: str, touched: str, with_moments: bool = True) -> SceneContacts:
        """Statements with the same buffers on another list of contacts and bodies; displacements know no moments."""
        found = copy(self)
        found.active, found.touched = active, touched
        found.moments = self.moments if with_moments else None
        self.space.numbers_list(active, "C")
        self.space.numbers_list(touched, "N")
        self.space.numbers_list(found._joining, "C")
        return found

    @property
    def _joining(self) -> str:
        """The list of contacts that have come into the list."""
        return f"joining {self.active}"

    @property
    def work_on_rows(self) -> bool:
        """Whether what is done about a contact is in blocks on rows of its own and its bodies: there are no trees."""
        return self.trees is None and self.moments is None

    # ---- what both bodies of a contact are ------------------------------------------------------------------------

    def bodies(self) -> list[Statement]:
        """The registers of the bodies of the contact in hand."""
        return [
            Lookup(name, Address("node", (Index(CONTACT), Index(None, side))), "N")
            for side, name in enumerate((FIRST, SECOND))
        ]

    def of_contact(self, *names: str) -> list[Piece]:
        """Numbers of the contact in hand, in buffers of these names or in its row of ``swept`` or of ``look row``."""
        found = []
        for name in names:
            if name in LOOKED:
                start, shape = LOOKED[name]
                size = int(np.prod(shape, dtype=int))
                at = [Address("look row", (Index(CONTACT), Index(None, start + k))) for k in range(size)]
                found.append(Piece(shape, tuple(at)))
                continue
            if name not in SWEPT:
                found.append(self.space.at(name, CONTACT))
                continue
            start, shape = SWEPT[name]
            places = [divmod(start + k, LANES) for k in range(int(np.prod(shape, dtype=int)))]
            at = [Address("swept", (Index(CONTACT), Index(None, line), Index(None, k))) for line, k in places]
            found.append(Piece(shape, tuple(at)))
        return found

    def of_body(self, name: str, body: Register) -> Piece:
        """Part of a buffer for a body, or for a contact; six numbers of its velocity."""
        if body == CONTACT:
            return self.of_contact(name)[0]
        whole = self.space.at(name, body)
        if whole.shape != (2, LANES):
            return whole
        return Piece((6,), (*whole.addresses[:3], *whole.addresses[LANES : LANES + 3]))

    def mobilities(self) -> list[Piece]:
        """What moves both bodies, in the form of :meth:`mobility`."""
        if not self.round_bodies:
            return self.both("mobility")
        return [Piece((2,), self.space.at("mobility", body).addresses[:2]) for body in (FIRST, SECOND)]

    def mobility(self, numbers: Array) -> Array:
        """What moves a body, (7,), from what a block has read; zeros of round ones fold away in its code."""
        if not self.round_bodies:
            return numbers
        m, spin = numbers
        return np.array([m, spin, 0, 0, spin, 0, spin], dtype=object)

    def both(self, name: str) -> list[Piece]:
        """Parts of a buffer for both bodies."""
        return [self.of_body(name, FIRST), self.of_body(name, SECOND)]

    def masses(self) -> list[Piece]:
        """Reciprocals of the masses of both bodies."""
        return [Piece((), (Address("mobility", (Index(body), Index(None, 0))),)) for body in (FIRST, SECOND)]

    def _rows_of_bodies(self, velocity: str) -> list[Piece]:
        """Velocities of both bodies with the numbers that are not used, (2, 4) each: rows that a vector holds."""
        return [self.space.at(velocity, body) for body in (FIRST, SECOND)]

    # ---- trees, where there are any ------------------------------------------------------------------------------

    def lead(self, velocity: str) -> list[Statement]:
        """What the trees of the contact in hand add to a velocity of the bodies."""
        return self.trees.lead(TREE_MOTION[velocity]) if self.trees else []

    def leading(self) -> list[Piece]:
        """Where :meth:`lead` leaves it, (4,)."""
        return [self.space.at("lead", CONTACT)] if self.trees else []

    def giving(self) -> list[Piece]:
        """Where a block leaves the impulse that :meth:`follow` passes on to the trees, (3,)."""
        return [self.space.at("given")] if self.trees else []

    def follow(self, velocity: str) -> list[Statement]:
        """The trees of the contact in hand, moved by the impulse that it has given."""
        return self.trees.follow(TREE_MOTION[velocity]) if self.trees else []

    def on_trees(
        self, change: Callable[..., Any], names: Sequence[str], into: Sequence[str], *reads: Piece
    ) -> list[Statement]:
        """A change of motions of trees, as of those of the bodies."""
        return [self.trees.each_tree(change, names, into, *reads)] if self.trees else []

    def still_trees(self, *velocities: str) -> list[Statement]:
        """No motion of the trees."""
        return [self.trees.clear(*[TREE_MOTION[name] for name in velocities])] if self.trees else []

    def of_joints(self, *names: str) -> list[Statement]:
        """Statements of the rows of joints by these names."""
        return [x for name in names for x in getattr(self.joints, name)()] if self.joints else []

    def of_moments(self, *names: str) -> list[Statement]:
        """Statements of the moments against spinning and rolling by these names."""
        return [x for name in names for x in getattr(self.moments, name)()] if self.moments else []

    def of_loops(self, *names: str) -> list[Statement]:
        """Statements of the constraints by these names."""
        loops = self.trees.loops if self.trees else None
        return [x for name in names for x in getattr(loops, name)()] if loops else []

    # ---- exchanges -----------------------------------------------------------------------------------------------

    def feel(
        self, answer: Callable[..., list[Any]], reads: Sequence[Piece], writes: Sequence[Piece], velocity: str
    ) -> list[Statement]:
        """``answer`` to the velocity (3,) that the contact in hand feels, and to what it ``reads``."""
        led = self.leading()

        def look(columns: Array, first: Array, second: Array, *given: Any) -> list[Any]:
            u = sum(given[: len(led)], start=velocity_in_lanes(columns, first, second))
            return [u, *answer(u[:3], *given[len(led) :])]

        own = [*self.of_contact("columns"), *self._rows_of_bodies(velocity), *led]
        return [*self.lead(velocity), traced_block(look, [*own, *reads], [self.space.at("felt"), *writes])]

    def push(
        self, give: Callable[..., list[Any]], reads: Sequence[Piece], writes: Sequence[Piece], velocity: str
    ) -> list[Statement]:
        """Effect of an impulse along the axes of the contact in hand on a velocity of its bodies.

        ``give`` returns that impulse (3,), from what it ``reads``, which is written, too.
        """

        def change(rows: Array, m: Any, k: Any, first: Array, second: Array, *given: Any) -> list[Any]:
            (p,) = give(*given)
            return [p, *bodies_in_lanes(rows, p, (m, k), (first, second)), *[p for _ in self.giving()]]

        bodies = self._rows_of_bodies(velocity)
        own = [*self.of_contact("rows"), *self.masses(), *bodies]
        block = traced_block(change, [*own, *reads], [*writes, *bodies, *self.giving()])
        return [block, *self.follow(velocity)]

    def exchange(
        self, answer: Callable[..., tuple[Array, list[Any]]], reads: Sequence[Piece], writes: Sequence[Piece]
    ) -> list[Statement]:
        """The contact in hand feels the velocity of its bodies, answers with an impulse, and pushes them with it.

        In one block, so that nothing on the way from one velocity to the next has to go through memory.
        """

        def whole(columns: Array, rows: Array, m: Any, k: Any, first: Array, second: Array, *given: Any) -> list[Any]:
            u = sum(given[: len(led)], start=velocity_in_lanes(columns, first, second))
            p, found = answer(u[:3], *given[len(led) :])
            pushed = bodies_in_lanes(rows, p, (m, k), (first, second))
            return [u, *found, *pushed, *[p for _ in led]]

        bodies, led = self._rows_of_bodies("vel"), self.leading()
        own = [*self.of_contact("columns", "rows"), *self.masses(), *bodies, *led]
        writes = [self.space.at("felt"), *writes, *bodies, *self.giving()]
        return [*self.lead("vel"), traced_block(whole, [*own, *reads], writes), *self.follow("vel")]

    def each(self, *blocks: Statement, backwards: bool = False, ahead: str | None = None) -> Each:
        """Some statements for every contact of the list; ``ahead``: a buffer that is fetched before it is needed."""
        return Each(CONTACT, self.active, (*self.bodies(), *blocks), backwards, ahead)

    def each_on_rows(self, *blocks: Statement, of: str | None = None) -> Each:
        """Some statements for every contact of the list, or of another one, several at a time."""
        return Each(CONTACT, of or self.active, (*self.bodies(), *blocks), share=SHARE)

    # ---- the problem ---------------------------------------------------------------------------------------------

    def begin(self) -> list[Statement]:
        """A new problem: no rows are known, no impulse has acted, and there is no momentum."""
        at, put = self.space.at, self.space.put
        velocities = [self.of_body(name, BODY) for name in ("vel", "vel start", "vel before")]
        body = traced_block(
            lambda free: [free, free, free, [-1]], [at("free", BODY)], [*velocities, at("loaded", BODY)]
        )
        return [
            Loop(BODY, "N", (body,)),
            *self.still_trees("vel", "vel start", "vel before"),
            *self.of_joints("prepare"),
            Loop(CONTACT, "C", (put(1, at("unknown", CONTACT)), put(-1, *self.of_contact("stirs", "swept flag")))),
            put(1, at("afresh")),
            put(-1, at("resumes"), at("rebounds")),
        ]

    def prepare(self) -> list[Statement]:
        """Rows of the contacts that are new in the list, and what the impulses of the step before do to their bodies.

        Those that were in it before keep theirs: a problem that others join goes on from where it is. A thousand balls
        that settle are joined by others some five times in a step, ten thousand ten times.
        """
        space, at = self.space, self.space.at
        join = traced_block(
            lambda flag, unknown: [[select(less(0, flag), unknown, -1)]],
            space.each(("flag", "unknown"), CONTACT),
            [at("joins", CONTACT)],
        )
        begin: list[Statement] = [
            Loop(CONTACT, "C", (join,), share=SHARE),
            Collect(self._joining, CONTACT, "C", space.address("joins", CONTACT)),
        ]
        end = Collect(self.touched, BODY, "N", space.address("loaded", BODY))
        act = (self._act(), *self.follow("vel"), *self.of_moments("prepare"))
        if not self.work_on_rows:
            own = (*(self.trees.make_rows() if self.trees else ()), self._rows(at("rebounds")))
            return [*begin, Each(CONTACT, self._joining, (*self.bodies(), *own, *act)), end]
        rows = self.each_on_rows(self._rows(*self.rebounding.each()), of=self._joining)
        act = (*self.bodies(), *act)
        return [
            *begin,
            *self.rebounding.begin(),
            rows,
            *self.rebounding.end(),
            Each(CONTACT, self._joining, act),
            end,
        ]

    def _rows(self, rebounds: Piece) -> Block:
        """The rows of the contact in hand, and what its impulse does to both bodies."""
        each = self.space.each

        def rows(
            touch: Array, p: Array, e: Any, mu: Any, restores: Array, h: Any, rebounds: Array, *of_bodies: Array
        ) -> list[Any]:
            of_trees, of_bodies = of_bodies[6:], of_bodies[:6]
            centres, mobilities, start = (of_bodies[i : i + 2] for i in (0, 2, 4))
            mobilities = tuple(map(self.mobility, mobilities))
            row = np.concatenate([touch[4:], touch[1:4] - centres[0], touch[1:4] - centres[1]])
            approach = relative_velocity(row, *start)
            shift = shifts(vector(touch[0]), approach[:1], vector(e * restores[0]), h)[0]
            mean = mean_mobility(row, *mobilities) + sum((own[0] + own[3] + own[5]) / 3 for own in of_trees)
            bounce = select(less(shift, 0), 1, rebounds[0])
            pushes = [[*V[:3], 0, *V[3:], 0] for V in changes(row, p, mobilities)]
            looked = [*row, mean, *approach, shift, touch[0], mu]
            looked += [0] * (LOOKED_LENGTH - len(looked))
            return [looked, [mean], [shift], p, p, pushes, [bounce], [-1], [1], *[p for _ in of_trees]]

        reads = [
            *each(("touch", "impulse", "restitution", "friction"), CONTACT),
            *each(("restores", "now dt")),
            rebounds,
        ]
        reads += [*self.both("centre"), *self.mobilities(), *self.both("start")]
        reads += self.of_contact("tree own") if self.trees else []
        writes = [self.space.at("look row", CONTACT)]
        writes += self.of_contact("mean mobility", "shift", "impulse before", "impulse start")
        writes += [*self.of_contact("pushes"), rebounds]
        return traced_block(rows, reads, [*writes, *each(("unknown", "untabled"), CONTACT), *self.giving()])

    def _act(self) -> Block:
        """Both bodies of the contact in hand, moved by its impulse."""

        def act(pushes: Array, first: Array, second: Array) -> list[Any]:
            return [first + pushes[0], second + pushes[1], [1], [1]]

        bodies = self._rows_of_bodies("vel")
        reads = [*self.of_contact("pushes"), *bodies]
        return traced_block(act, reads, [*bodies, *self.both("loaded")])

    def tables(self) -> list[Statement]:
        """Numbers of the contacts that sweeps need, unless they are there already."""

        def tables(row: Array, mu: Any, first: Array, second: Array, *of_trees: Array) -> list[Any]:
            first, second = self.mobility(first), self.mobility(second)
            G = sum(map(matrix_of, of_trees), start=own_block(row, first, second))
            scaling = scaling_of_trees(G) if of_trees else block_scaling(G)
            return [*lever_tables(row, first, second), G[UPPER], list(scaling), [mu], [-1]]

        reads = [*self.of_contact("row", "friction"), *self.mobilities()]
        reads += self.of_contact("tree own") if self.trees else []
        writes = self.of_contact("columns", "rows", "own", "scaling", "roughness", "untabled")
        make = traced_block(tables, reads, writes)
        untabled = self.space.at("untabled", CONTACT)
        if not self.work_on_rows:
            own = If(self.space.address("untabled", CONTACT), (*self.bodies(), make))
            return [Each(CONTACT, self.active, (own,))]
        # what has its tables gets them again, bit by bit, where others lack theirs
        (found,) = self.untabled.each()
        look = traced_block(lambda own, any_: [[largest([own, any_[0]])]], [untabled, found], [found])
        return [
            self.space.put(-1, self.space.at("any untabled")),
            *self.untabled.begin(),
            Each(CONTACT, self.active, (look,), share=SHARE),
            *self.untabled.end(),
            If(self.space.address("any untabled"), (self.each_on_rows(make),)),
        ]

    # ---- momentum ------------------------------------------------------------------------------------------------

    def remember(self, impulse: str, velocity: str) -> list[Statement]:
        """Where sweeps of a new problem begin, of the contacts and of the bodies, and without momentum."""
        at = self.space.at
        loops = []
        for name, register in ((impulse, CONTACT), (velocity, BODY)):
            now, before = self.of_body(name, register), self.of_body(f"{name} before", register)
            loops.append(traced_block(lambda x: [np.atleast_1d(x)], [now], [before]))
        return [
            self.space.put(1, at("theta")),
            Each(CONTACT, self.active, (loops[0],)),
            Each(BODY, self.touched, (loops[1],)),
            *self.on_trees(lambda x: [x], [TREE_MOTION[velocity]], [f"{TREE_MOTION[velocity]} before"]),
        ]

    def go_ahead(self, impulse: str, velocity: str) -> list[Statement]:
        """The next start, y = λ + β (λ − λ before): of the contacts and, with the same β, of the bodies."""
        at = self.space.at

        def momentum(uphill: Array, theta: Array) -> list[Any]:
            before = select(less(0, uphill[0]), 1, theta[0])
            after = (1 + sqrt(1 + 4 * before * before)) / 2
            beta = (before - 1) / after
            return [[select(less(MOST_MOMENTUM, beta), MOST_MOMENTUM, beta)], [after]]

        def ahead(now: Any, before: Any, beta: Array) -> list[Any]:
            x = now + beta[0] * (now - before)
            return [np.atleast_1d(x), np.atleast_1d(now)]

        loops, trees = [], [TREE_MOTION[velocity], f"{TREE_MOTION[velocity]} before"]
        for name, register in ((impulse, CONTACT), (velocity, BODY)):
            both = [self.of_body(name, register), self.of_body(f"{name} before", register)]
            loops.append(traced_block(ahead, [*both, at("beta")], both))
        return [
            traced_block(momentum, [at("uphill"), at("theta")], [at("beta"), at("theta")]),
            Each(CONTACT, self.active, (loops[0],)),
            Each(BODY, self.touched, (loops[1],)),
            *self.on_trees(ahead, trees, trees, at("beta")),
            *self.of_joints("go_ahead"),
        ]
