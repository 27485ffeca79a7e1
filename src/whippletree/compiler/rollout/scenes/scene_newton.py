"""Newton's method on the contacts of a scene of many free bodies, island by island, inside its kernel.

Sweeps carry an impulse from contact to contact, and creep where bodies lean on each other. A step of Newton's method on
Alart and Curnier's form of Coulomb's law (:mod:`whippletree.contact.problem.cone_newton`) sees an island at once. With
F = λ − P(λ − m u) and ε of its own diagonal by which a contact is damped,

    A dλ + m P′ J dV = −F,   A = 1 − (1 − ε) P′        M dV = Jᵀ dλ

all impulses can be eliminated, contact by contact, so that the matrix is that of the bodies:

    (M + Σ Jᵀ K J) dV = −Σ Jᵀ f        K = m A⁻¹ P′,   f = A⁻¹ F        dλ = −f − K J dV

and is factored along the graph of those that touch (:mod:`~whippletree.compiler.rollout.scenes.scene_elimination`). It
is not symmetric where something slides.

There is no line search: the step is taken whole, impulses are brought back to their cones, and a few sweeps follow,
which put right what changed its mind between sticking, sliding and opening. If an island is better for both, the next
step is damped less; if not, more, and where it is much worse it goes back to where it was and sweeps from there. Of 36
problems of boxes, capsules and cylinders, 24 of which took more than 400 sweeps, a line search on |F| that gives up
where a step of 1/256 does not pay solved one in two, damped up to ten times a contact's own diagonal two in three, and
steps with sweeps all but three.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.scalars import clip, less, negated, select
from whippletree.compiler.program import Address, Collect, Each, If, Index, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_law import alart_curnier, inverse_slope
from whippletree.compiler.rollout.scenes.scene_contacts import BODY, SceneContacts, relative_velocity
from whippletree.compiler.rollout.scenes.scene_elimination import BACK, EDGE, SIZE_OF_BODY, BodyElimination
from whippletree.compiler.rollout.scenes.scene_interior import HIGH_START, PATH_LENGTH, InteriorSteps
from whippletree.compiler.rollout.scenes.scene_islands import ONE_END, OTHER_END, OWN_ISLAND, SceneIslands
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT, END
from whippletree.contact.problem.cones import both, brought_inside, largest
from whippletree.spatial import cross

LINKED = "linked"
"""The list of bodies that a step moves."""

FIRST_SHARE, LEAST_SHARE, LARGEST_SHARE = 3e-3, 3e-8, 30.0
"""Damping of the first step of an island, at least and at most: the share of its own diagonal by which a contact would
be damped that has the largest mass of the island. Those of lighter bodies are damped by less in proportion: a contact
is as stiff as what it may have to carry. With shares of their own diagonals alone, 195 of 500 steps of a body of 10 t
on three of 1 kg were not solved, and with shares of 1e-6 boxes took half as many sweeps again."""

LEAST_DAMPING = 1e-12
"""Share of its own diagonal by which a contact is damped at least: numbers have few digits more."""

DAMPED_BY = 10.0
"""Factor by which that share falls after a step that helped, and grows after one that did not."""

STEPS_BEFORE_PATH = 6
"""Steps of an island before interior-point steps are tried; and after these, twice as many before they are again."""

STEP_IN_SWEEPS = 12
"""Sweeps as which a step counts, of either kind."""

WORTH_KEEPING = 1.5
"""How much larger a residual may be after a step and its sweeps for the next step to go on from there."""


class SceneNewton:
    """Statements of a step, for islands that are not settled. Buffers of the solver: impulse, vel, free, inertia."""

    def __init__(self, contacts: SceneContacts, islands: SceneIslands) -> None:
        self.space, self.contacts, self.islands = contacts.space, contacts, islands
        self.graph = BodyElimination(self.space)
        self.interior = InteriorSteps(contacts, islands)
        self.space.numbers_list(LINKED, "N")
        self.space.work(
            lever=("C", 2, 3, SIZE_OF_BODY),  # J at both ends of a contact, zeros where nothing moves
            stiffness=("C", 3, 3),  # K
            aim=("C", 3),  # f
            bears=("C",),  # 1 where K differs from zero
            couples=("C",),  # 1 where it does, and two ends move
            edge_of=("C",),
            impulse_kept=("C", 3),  # before the last step
            damping_share=("N",),  # of an island
            residual_kept=("N",),  # squared, of an island before its last step
            island_mass=("N",),  # the largest, of a body, a tree or a contact
            stepped=("N",),  # whether there was one that is not judged yet
            steps_now=("N",),  # 1: the island takes a step; −1: it goes back to where it was; 0: neither
            steps_taken=("N",),  # since the last path of interior-point steps, or since the beginning
            newton_contact=("C",),
            takes_part=("C",),
            goes_back=("C",),
            steps_over=(1,),
            path_began=("N",),  # whether interior-point steps were tried
            path_taken=(1,),  # whether any island has
        )

    def begin(self) -> list[Statement]:
        """No island has taken a step yet; and the largest mass that is in each."""
        contacts, one = self.contacts, self._of_island
        trees = contacts.of_contact("tree own") if contacts.trees else []

        def heaviest(mass: Any, mobility: Any, m: Any, k: Any, *of_trees: Array) -> list[Any]:
            own = [mobility, m, k, *[(G[0] + G[3] + G[5]) / 3 for G in of_trees]]
            return [[largest([mass, *[select(less(0, x), 1 / select(less(0, x), x, 1), 0) for x in own]])]]

        begin = {"damping share": FIRST_SHARE, "stepped": -1, "path height": HIGH_START}
        begin |= dict.fromkeys(("residual kept", "steps taken", "island mass"), 0)
        clear = traced_block(lambda: [[x] for x in begin.values()], [], [one(name, BODY) for name in begin])
        reads = [one("island mass"), *contacts.of_contact("mean mobility"), *contacts.masses(), *trees]
        weigh = traced_block(heaviest, reads, [one("island mass")])
        return [Loop(BODY, "N", (clear,)), contacts.each(self.islands.island_register(), weigh)]

    def step(self) -> list[Statement]:
        """What every island does that is not settled: a step, or its way back, or a whole path of interior-point steps.

        ``solvable`` −1: the graph of the bodies has no order, and nothing was done.
        """
        at, put, address, each = self.space.at, self.space.put, self.space.address, self.islands.unsettled.each
        keep = traced_block(lambda p: [p], [at("impulse", CONTACT)], [at("impulse kept", CONTACT)])
        begin = (
            each(*self._flags(), If(address("takes part", CONTACT), (keep,))),
            *self.interior.begin(),
            *self.rebuild(),
        )
        return [
            put(-1, *self.space.each(("any path", "path taken"))),
            self._decide(),
            If(address("any path"), begin),
            put(-1, at("steps over")),
            If(address("any path"), (put(1, at("path taken")),)),
            Until("interior step", PATH_LENGTH + 1, address("steps over"), tuple(self._round())),
            If(address("path taken"), tuple(self._leave_path())),
        ]

    def _leave_path(self) -> list[Statement]:
        """Islands that a path has made worse go back to where it began, if there is no time for anything else.

        Otherwise sweeps go on from where it has led to, which is judged after them: a new place is worth a little.
        """

        def worse(residual: Any, kept: Any, began: Any, left: Array) -> list[Any]:
            last = less(left[0], 2 * STEP_IN_SWEEPS)
            return [[select(both(both(less(0, began), last), less(kept, residual)), -1, 0)]]

        address, each = self.space.address, self.islands.unsettled.each
        reads = [self._of_island(name, BODY) for name in ("island residual", "residual kept", "path began")]
        reads.append(self.space.at("left sweeps"))
        back = traced_block(worse, reads, [self._of_island("steps now", BODY)])
        return [
            Loop(BODY, "N", (back,)),
            each(*self._flags(), If(address("goes back", CONTACT), (self._go_back(),))),
            *self.rebuild(),
        ]

    def _round(self) -> list[Statement]:
        """A step of all that take part, and in the first round the way back of others."""
        at, put, address, each = self.space.at, self.space.put, self.space.address, self.islands.unsettled.each
        ends = self.islands.end_registers()
        island = self.islands.island_register()
        join = (*ends, *self.graph.join(ONE_END, OTHER_END), self._keep_edge(), self.graph.count_contact())
        prepare = (
            *ends,
            *self.contacts.lead("vel"),
            *self._levers(),
            If(address("newton contact", CONTACT), (self._law(),)),
            If(address("path contact", CONTACT), (self.interior.law(),)),
        )
        part = address("takes part", CONTACT)
        solve = (
            each(
                If(part, (*ends, If(address("bears", CONTACT), (self._add_own(),)), self._add_right())),
                If(address("couples", CONTACT), tuple(self._add_coupling())),
            ),
            *self.graph.factor(),
            *self.graph.solve(),
            each(*ends, If(address("newton contact", CONTACT), (self._move(),))),
            If(address("any path"), tuple(self.interior.move())),
        )
        stop = traced_block(
            lambda solvable, path, some: [
                [select(less(0, solvable[0]), path, -1)],
                [select(less(0, solvable[0]), some[0], -1)],
            ],
            [at("solvable"), self._of_island("on path", BODY), at("any path")],
            [self._of_island("on path", BODY), at("any path")],
        )
        still = put(0, self._of_island("steps now", BODY))
        counts = self.space.each(("made", "left sweeps"))
        return [
            self._begin_bodies(),
            If(address("any path"), tuple(self.interior.find_gaps())),
            each(island, *self._flags(), If(part, prepare)),
            Collect(LINKED, BODY, "N", address("in graph", BODY)),
            Each(BODY, LINKED, (self._weigh(),)),
            *self.graph.clear(LINKED),
            each(If(address("couples", CONTACT), join)),
            *self.graph.find_order(LINKED),
            If(address("solvable"), solve),
            each(If(address("goes back", CONTACT), (self._go_back(),))),
            *self.rebuild(),
            Loop(BODY, "N", (stop, still)),
            If(address("any path"), tuple(self.interior.judge())),
            traced_block(
                lambda some, made, left: [-some, made + STEP_IN_SWEEPS, left - STEP_IN_SWEEPS],
                [at("any path"), *counts],
                [at("steps over"), *counts],
            ),
        ]

    def _flags(self) -> list[Statement]:
        """What the contact in hand does, as its island."""

        def tell(steps: Any, path: Any) -> list[Any]:
            part = select(less(0, steps), 1, path)
            return [[select(less(0, steps), 1, -1)], [select(less(steps, 0), 1, -1)], [path], [part], [-1], [-1]]

        names = ("newton contact", "goes back", "path contact", "takes part", "bears", "couples")
        reads = [self._of_island("steps now"), self._of_island("on path")]
        return [self.islands.island_register(), traced_block(tell, reads, [self._one(name) for name in names])]

    def rebuild(self) -> list[Statement]:
        """Velocities of all bodies of the list from the impulses."""
        contacts, at = self.contacts, self.space.at
        free = traced_block(lambda free: [free], [at("free", BODY)], [contacts.of_body("vel", BODY)])
        impulse = contacts.of_contact("impulse")
        return [
            Each(BODY, contacts.touched, (free,)),
            *(contacts.joints.release("y") if contacts.joints else []),
            contacts.each(*contacts.push(lambda p: [p], impulse, impulse, "vel")),
        ]

    # ---- islands -------------------------------------------------------------------------------------------------

    def _of_island(self, name: str, register: str = OWN_ISLAND) -> Piece:
        return Piece((), (Address(name, (Index(register),)),))

    def _decide(self) -> Statement:
        """What each island does, and how much it is damped."""

        def decide(residual: Any, kept: Any, *rest: Any) -> list[Any]:
            stepped, share, taken, any_path, goal = rest
            judged, left = less(0, stepped), less(goal[0] * goal[0], residual)
            better = less(residual, kept)
            worse = both(judged, negated(less(residual, WORTH_KEEPING * WORTH_KEEPING * kept)))
            eased = clip(select(better, share / DAMPED_BY, share * DAMPED_BY), LEAST_SHARE, LARGEST_SHARE)
            path = both(both(left, negated(worse)), less(STEPS_BEFORE_PATH - 1, taken))
            on_path = select(path, 1, -1)
            return [
                [select(worse, kept, residual)],
                [select(worse, -1, 1)],
                [select(judged, eased, share)],
                [select(path, -STEPS_BEFORE_PATH, taken + 1)],
                [select(worse, -1, select(path, 0, 1))],
                [on_path],
                [on_path],
                [largest([any_path[0], on_path])],
            ]

        names = ("residual kept", "stepped", "damping share", "steps taken")
        state = [self._of_island(name, BODY) for name in names]
        reads = [self._of_island("island residual", BODY), *state, *self.space.each(("any path", "goal"))]
        writes = [
            *state,
            self._of_island("steps now", BODY),
            *[self._of_island(name, BODY) for name in ("on path", "path began")],
        ]
        writes.append(self.space.at("any path"))
        return Loop(BODY, "N", (traced_block(decide, reads, writes),))

    # ---- the system ----------------------------------------------------------------------------------------------

    def _begin_bodies(self) -> Statement:
        at, put = self.space.at, self.space.put
        return Loop(BODY, "N", (put(0, at("aside of body", BODY)), put(-1, self._of_island("in graph", BODY))))

    def _weigh(self) -> Statement:
        """The mass of a body; of a tree, whose y has the mass 1."""
        at = self.space.at

        def weigh(inertia: Array, m: Any) -> list[Any]:
            own = np.array(zeros(SIZE_OF_BODY, SIZE_OF_BODY), dtype=object)
            own[:3, :3] = inertia[:3, :3].T
            own[3:, 3:] = inertia[3, 0] * identity(3)
            moves = less(0, m)
            one = identity(SIZE_OF_BODY)
            return [[select(moves, a, b) for a, b in zip(own.flat, one.flat, strict=True)]]

        mass = Piece((), (Address("mobility", (Index(BODY), Index(None, 0))),))
        return traced_block(weigh, [at("inertia", BODY), mass], [at("own part", BODY)])

    def _levers(self) -> list[Statement]:
        """J at both ends of the contact in hand, and which of them are in the graph."""
        at, trees = self.space.at, self.contacts.trees

        def levers(row: Array, moves: Array, ends: Array) -> list[Any]:
            E = row[:9].reshape(3, 3)
            found = []
            for sign, arm, m in zip((1, -1), (row[9:12], row[12:]), moves, strict=True):
                J = [[sign * x for x in (*cross(arm, axis), *axis)] for axis in E]
                found.append([[select(less(0, m), x, 0) for x in line] for line in J])
            apart = both(less(0, moves[0]), less(0, moves[1]))
            differ = both(apart, less(0, abs(ends[0] - ends[1])))
            return [found, [select(differ, 1, -1)]]

        block = traced_block(
            levers,
            [*self.contacts.of_contact("row"), at("end moves", CONTACT), at("end body", CONTACT)],
            [at("lever", CONTACT), self._one("couples")],
        )
        enter = If(self._one("end moves", 0).addresses[0], (self._enter(ONE_END),))
        enter_other = If(self._one("end moves", 1).addresses[0], (self._enter(OTHER_END),))
        found: list[Statement] = [block, enter, enter_other]
        if trees is not None:
            for side in range(2):
                found.append(trees.if_touched(*trees.node_of_side(side), self._lever_of_tree(side)))
        return found

    def _enter(self, end: str) -> Statement:
        return self.space.put(1, self._of_island("in graph", end))

    def _lever_of_tree(self, side: int) -> Statement:
        """The rows of a tree in place of those of its body; of two bodies of one tree, the first has all."""
        at, trees = self.space.at, self.contacts.trees
        assert trees is not None
        width = min(trees.width, SIZE_OF_BODY)
        B = tuple(
            Address("B", (Index("slot"), Index(END), Index(None, i), Index(None, j)))
            for i in range(3)
            for j in range(width)
        )

        def rows(there: Any, B: Array, lever: Array, ends: Array) -> list[Any]:
            both_here = less(0, abs(ends[0] - ends[1])) if side else less(0, 1)
            found = []
            for i in range(3):
                own = [*B[i], *[0] * (SIZE_OF_BODY - width)]
                own = [select(both_here, x, 0) for x in own] if side else own
                found.append([select(less(0, there), a, b) for a, b in zip(own, lever[i], strict=True)])
            return [found]

        lever = at("lever", CONTACT, Index(None, side))
        there = Piece((), (Address("on some tree", (Index("its node"),)),))
        return traced_block(rows, [there, Piece((3, width), B), lever, at("end body", CONTACT)], [lever])

    def _one(self, name: str, *offsets: int) -> Piece:
        return Piece((), (Address(name, (Index(CONTACT), *[Index(None, k) for k in offsets])),))

    def _law(self) -> Statement:
        """K and f of the contact in hand, and whether it presses."""
        at, contacts = self.space.at, self.contacts
        trees, led = contacts.trees, contacts.leading()
        wide = trees is not None and trees.velocities > SIZE_OF_BODY

        def law(row: Array, p: Array, mu: Any, shift: Any, mobility: Any, first: Array, *rest: Any) -> list[Any]:
            second, share, heaviest, couples, *more = rest
            bare = sum((x[:3] for x in more[: len(led)]), start=relative_velocity(row, first, second))
            u = np.array([bare[0] + shift, bare[1], bare[2]], dtype=object)
            F, P = alart_curnier(p, u / mobility, mu, 0)
            inverse = inverse_slope(P, largest([share / (mobility * heaviest), LEAST_DAMPING]))
            K, f = inverse @ P / mobility, inverse @ F
            closed = less(0, P[0, 0])
            if wide:  # contacts with trees of more velocities than a body hold their impulses
                free = less(more[-1], 0)
                closed = both(closed, free)
                f = np.array([select(free, x, 0) for x in f], dtype=object)
                K = np.array([select(free, x, 0) for x in K.flat], dtype=object)
            return [K, f, [select(closed, 1, -1)], [select(closed, couples, -1)]]

        reads = [*contacts.of_contact("row", "impulse", "friction", "shift", "mean mobility"), *contacts.both("vel")]
        reads += [self._of_island("damping share"), self._of_island("island mass"), self._one("couples"), *led]
        reads += [self._one("on tree")] if wide else []
        writes = [at("stiffness", CONTACT), at("aim", CONTACT), self._one("bears"), self._one("couples")]
        return traced_block(law, reads, writes)

    def _keep_edge(self) -> Statement:
        return traced_block(lambda edge: [[edge[0]]], [self.space.at("sought")], [self._one("edge of")])

    def _lever(self, side: int) -> Piece:
        return self.space.at("lever", CONTACT, Index(None, side))

    def _add_own(self) -> Statement:
        """Jᵀ K J of either end of the contact in hand."""
        at = self.space.at

        def add(one: Array, other: Array, J: Array, L: Array, K: Array) -> list[Any]:
            return [one + J.T @ (K @ J), other + L.T @ (K @ L)]

        parts = [at("own part", ONE_END), at("own part", OTHER_END)]
        return traced_block(add, [*parts, self._lever(0), self._lever(1), at("stiffness", CONTACT)], parts)

    def _add_right(self) -> Statement:
        """−Jᵀ f of both ends."""
        at = self.space.at
        parts = [at("aside of body", ONE_END), at("aside of body", OTHER_END)]
        return traced_block(
            lambda one, other, J, L, f: [one - J.T @ f, other - L.T @ f],
            [*parts, self._lever(0), self._lever(1), at("aim", CONTACT)],
            parts,
        )

    def _add_coupling(self) -> list[Statement]:
        """Jᵀ K J between both ends."""
        at = self.space.at
        edge = [
            *self.graph.edge_between(self.space.address("edge of", CONTACT)),
        ]
        parts = [at("coupling", EDGE), at("coupling", BACK)]
        add = traced_block(
            lambda there, back, J, L, K: [there + J.T @ (K @ L), back + L.T @ (K @ J)],
            [*parts, self._lever(0), self._lever(1), at("stiffness", CONTACT)],
            parts,
        )
        return [*edge, add]

    # ---- the step ------------------------------------------------------------------------------------------------

    def _move(self) -> Statement:
        """The impulse of the contact in hand after the step, inside its cone; where it came from is kept."""
        at = self.space.at

        def move(p: Array, mu: Any, f: Array, K: Array, J: Array, L: Array, one: Array, other: Array) -> list[Any]:
            d = f + K @ (J @ one + L @ other)
            after = brought_inside(p - d, mu, 0)
            # a number that is none, or infinite, makes the sum so
            sound = less(sum(abs(x) for x in d), math.inf)
            return [[select(sound, a, b) for a, b in zip(after, p, strict=True)], p]

        reads = [at("impulse", CONTACT), *self.contacts.of_contact("friction"), at("aim", CONTACT)]
        reads += [at("stiffness", CONTACT), self._lever(0), self._lever(1)]
        reads += [at("aside of body", ONE_END), at("aside of body", OTHER_END)]
        return traced_block(move, reads, [at("impulse", CONTACT), at("impulse kept", CONTACT)])

    def _go_back(self) -> Statement:
        at = self.space.at
        return traced_block(lambda p: [p], [at("impulse kept", CONTACT)], [at("impulse", CONTACT)])
