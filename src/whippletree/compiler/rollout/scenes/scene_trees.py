"""Mechanisms among the free bodies of a scene, inside its kernel: robots, doors and pendulums in a heap.

A body that joints hold is a body of the scene as far as shapes, lists and motions go: it has a pose and a velocity, in
the first rows of the tables. Impulses move it by way of its tree alone. With M⁻¹ = Fᵀ F of the tree
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_trees`) and B = F Jᵀ of a contact, the velocities are
v = v_free + Fᵀ y, and

    a contact feels    J V of the free bodies and of the trees as they move without impulses, and Bᵀ y
    and pushes         y by B dλ

So a contact on a tree costs its velocities twice, whatever else is in the scene, and y has the mass 1. F is made once
in a step, column by column: trees do not feel each other, and the first columns of all of them are found at once.

Limits and dry friction of joints are rows of one number each, swept after the contacts
(:mod:`~whippletree.compiler.rollout.scenes.scene_joints`). Actuators are part of M and of what moves the trees without
impulses (:mod:`~whippletree.compiler.rollout.scenes.scene_motors`). Constraints take their part of all rows
(:mod:`~whippletree.compiler.rollout.scenes.scene_loops`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.frontend.node_wrenches import SCREW, TWIST
from whippletree.compiler.program import Address, Buffer, Dimension, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.program import map_addresses
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_lists.contact_list_trees import tree_in_step
from whippletree.compiler.rollout.dense_solve import multiply_in_strands, padded
from whippletree.compiler.rollout.motion_space import screw_rows
from whippletree.compiler.rollout.scenes.scene_loops import SceneLoops
from whippletree.compiler.rollout.scenes.scene_motors import SceneMotors
from whippletree.compiler.rollout.step_space import Driven, RowPlace, StepSpace
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.contact.implicit_springs import dampings
from whippletree.contact.kinematics.scene_mechanism import SceneMechanism
from whippletree.contact.problem.cones import largest
from whippletree.model.force_elements import FluidBox, Tendon
from whippletree.spatial import add_cross, cross
from whippletree.tree.element_forces import element_forces
from whippletree.tree.mechanism import Mechanism

CONTACT = "contact"
LANES = 4
"""Three numbers and one that is not used are computed side by side."""

TREE_NODE, TREE_ROW, VELOCITY, COLUMN = "tree node", "tree row", "velocity", "column"
GROUP, END, ON_PATH = "group", "end", "on path"
"""Registers: of a body of the mechanism, of its row among the bodies of the scene, one of its velocities, the number of
a velocity in its tree, a tree, one of the two trees of a contact, and a velocity that moves a body."""

SHARED: dict[str, tuple[int, ...]] = {"left": (1,), "tolerance": (), "pinned rounds": (1,)}
"""Buffers of the scene that statements about its trees know by the same names, and their shapes."""

SIDES = 7
"""Numbers of a contact with a tree: how many trees it has, which ones, its two bodies (or none) among those of the
mechanism, and at which of its trees each of them is."""


class SceneTrees:
    """Statements about the mechanism. Buffers of its own have names that begin with ``tree``; beside them:

    y, z               what impulses, and displacements at the end of a step, do to each tree, (trees, width)
    lead               Bᵀ of one of these, of the contact in hand; 0 where no tree is touched
    carried            J of the contact in hand on the trees as they move without impulses
    given              the impulse that :meth:`follow` passes on
    tree own           the trees' part of a contact's own block, its upper triangle
    leverage           by how much one of their velocities opens the contact in hand at most

    Those whose names begin with ``turning`` are of moments, that is of angular velocities about a contact's axes.
    """

    def __init__(self, space: WorkSpace, mechanism: SceneMechanism, moments: bool = False) -> None:
        """``moments``: whether contacts resist spinning or rolling."""
        self.space, self.model = space, mechanism.model
        self.own = own = StepSpace(mechanism.model, Driven(held=True), single=True)
        self.tree = own.tree
        self.nodes, nv = len(self.tree.nodes), self.model.nv
        groups = mechanism.groups
        self.trees = max(groups) + 1
        self.first_nodes = [groups.index(g) for g in groups]
        """The first body of the tree of each body."""
        group_of = [groups[k] for k, part in enumerate(self.tree.v_slices) for _ in range(part.start, part.stop)]
        local = [group_of[:i].count(g) for i, g in enumerate(group_of)]
        self.velocities = max(local) + 1
        """Of a group, at most."""
        self.width, self.groups_of_impulses = padded(self.velocities), mechanism.groups_of_impulses
        own.work(
            now_q=(self.model.nq,),
            now_v=(nv,),
            tau=(nv,),
            held=(nv,),  # dampers beside those of the joints
            drive=(nv,),
            pose=(self.nodes + 1, POSE),
            twist=(self.nodes + 1, TWIST),
            screw=(nv, SCREW),
            free=(nv,),
            end_v=(nv,),
            away=(nv,),
            flat=(nv,),
            old_q=(self.model.nq,),
            old_v=(nv,),
            change=(nv,),  # mean acceleration of the last step
        )
        own.work(dt=())  # the length of the step, or of the one before a look that has none
        own.add(*[Buffer(name, "work", shape) for name, shape in SHARED.items()])
        self.motors = SceneMotors(self)
        own.table("unit", np.array([[float(own == j) for own in local] for j in range(self.width)]))
        self.in_tree = tree_in_step(own)
        self.drags = any(isinstance(e, FluidBox) or (isinstance(e, Tendon) and e.damping) for e in self.model.elements)
        self._tables(group_of, local)
        space.work(
            F=(self.trees, self.width, self.width),  # of each tree, column by column
            y=(self.trees, self.width),
            y_start=(self.trees, self.width),
            y_before=(self.trees, self.width),
            y_aside=(self.trees, self.width),
            z=(self.trees, self.width),
            z_before=(self.trees, self.width),
            along_axes=(3,),
            refused=(1,),
        )
        for turning in (False, True)[: 1 + moments]:
            shapes: dict[str, tuple[Dimension, ...]] = {
                "B": ("K", 2, 3, self.width),
                "lead": ("C", LANES),
                "carried": ("C", 3),
                "given": (3,),
                "tree own": ("C", 6),
            }
            if not turning:
                shapes["leverage"] = ("C",)
            space.add(*[Buffer(_of_rows(name, turning), "work", shape) for name, shape in shapes.items()])
        self.loops = SceneLoops(self, mechanism, group_of) if mechanism.is_tied else None

    def arguments(self) -> tuple[list[Buffer], list[Buffer]]:
        """Inputs and outputs of the kernel, after its others."""
        nq, nv = self.model.nq, self.model.nv
        inputs = [
            Buffer("tree q0", "input", (nq,)),
            Buffer("tree v0", "input", (nv,)),
            Buffer("tree forces", "input", (nv,)),
            Buffer("tree dampers", "input", (nv,)),
            Buffer("on tree", "input", ("C",)),
            Buffer("slot", "input", ("C",), integer=True),
            Buffer("sides", "input", ("K", SIDES), integer=True),
            Buffer("row of node", "input", (self.nodes,), integer=True),
            *self.motors.arguments(),
        ]
        outputs = [
            Buffer("tree q at end", "output", (nq,)),
            Buffer("tree v at end", "output", (nv,)),
            Buffer("tree a", "output", (nv,)),
            Buffer("tree poses", "output", (self.nodes, POSE)),
        ]
        return inputs, outputs

    def _tables(self, group_of: Sequence[int], local: Sequence[int]) -> None:
        """Which velocities move a body, and where they are in their tree."""
        rows = screw_rows(self.tree)
        paths = [[i for k in self.tree.path(node) for i, _ in rows[k]] for node in range(self.nodes)] + [[]]
        longest = max(map(len, paths))
        table = self.space.index
        table("tree of velocity", group_of)
        table("place in tree", local)
        table("moving count", [len(path) for path in paths])
        table("moving", [path + [0] * (longest - len(path)) for path in paths])
        inertias = [node.inertia for node in self.tree.nodes]
        self.space.table("tree mass", [float(x.mass) for x in inertias])
        self.space.table("tree moment", [np.array(x.moment, dtype=float) for x in inertias])

    # ---- buffers of the tree -------------------------------------------------------------------------------------

    def _renamed(self, address: Address) -> Address:
        name = address.buffer
        return Address(name if name in SHARED else f"tree {name}", address.indices)

    def in_scene(self, statements: Sequence[Statement]) -> list[Statement]:
        """Statements on buffers of the tree, by their names in the scene."""
        return list(map_addresses(statements, self._renamed))

    def at(self, name: str, *registers: Any) -> Piece:
        """A buffer of the tree, or the part of it at registers."""
        found = self.own.at(name, *registers)
        return Piece(found.shape, tuple(map(self._renamed, found.addresses)))

    def buffers(self) -> list[Buffer]:
        """All buffers of the tree: known when all statements are written."""
        return [replace(b, name=f"tree {b.name}") for b in self.own.buffers.values() if b.name not in SHARED]

    def in_tree_of(self, name: str) -> Piece:
        """The entry of a buffer (trees, width) for the velocity in hand, :meth:`place`."""
        return Piece((), (Address(name, (Index(GROUP), Index("place in tree"))),))

    @staticmethod
    def place(velocity: str = VELOCITY) -> list[Statement]:
        """Registers that tell where a velocity is in its tree."""
        names = ((GROUP, "tree of velocity"), ("place in tree", "place in tree"))
        return [Lookup(register, Address(table, (Index(velocity),))) for register, table in names]

    @property
    def columns(self) -> str:
        """The buffer of the columns of F that rows of one velocity are: without what constraints take."""
        return "tied F" if self.loops else "F"

    def column(self) -> Piece:
        """The column of F for the velocity in hand, (width,)."""
        return self.space.at(self.columns, GROUP, "place in tree")

    def each_tree(self, function: Any, names: Sequence[str], into: Sequence[str], *reads: Piece) -> Statement:
        """Blocks on some buffers (trees, width), tree by tree."""
        at = self.space.each
        return Loop(GROUP, self.trees, (traced_block(function, [*at(names, GROUP), *reads], at(into, GROUP)),))

    def clear(self, *names: str) -> Statement:
        """Zeros in buffers (trees, width)."""
        return Loop(GROUP, self.trees, (self.space.put(0, *self.space.each(names, GROUP)),))

    # ---- bodies --------------------------------------------------------------------------------------------------

    def begin(self) -> list[Statement]:
        """The state at the beginning of a call."""
        names = ("tree q0", "tree v0", "tree forces", "tree dampers")
        world = [self.at(name, Index(None, self.nodes)) for name in ("pose", "twist")]
        start = traced_block(
            lambda q, v, tau, held: [q, v, tau, held, [0] * len(v), [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], [0] * TWIST],
            self.space.each(names),
            [*[self.at(name) for name in ("now q", "now v", "tau", "held", "change")], *world],
        )
        return [
            start,
            self.space.put(1, self.at("dt")),
            *self.motors.begin_call(),
            self.space.fill("F", 0.0),
            *(self.loops.begin() if self.loops else []),
        ]

    def find(self) -> list[Statement]:
        """Poses and velocities of the bodies, at the present and without impulses, and F."""
        here = traced_block(
            lambda X, V: [X, X[9:], V],
            [self.at("pose", TREE_NODE), self.at("twist", TREE_NODE)],
            self.space.each(("pose", "centre", "start"), TREE_ROW),
        )
        return [
            *self.in_scene([*self.in_tree.poses(), *self.in_tree.twists("now v")]),
            self._each_body(here),
            *self._dynamics(),
        ]

    def factor(self) -> list[Statement]:
        """:meth:`find` again, of the same state, where servos have turned out to be others than they were taken for."""
        return [*self.in_scene(self.in_tree.twists("now v")), *self._dynamics()]

    def _dynamics(self) -> list[Statement]:
        """F, and velocities without impulses, at the present poses and twists."""
        copy = traced_block(lambda x: [x], [Piece((), self.flat().addresses)], [self._column_entry()])
        columns = (
            *self.in_scene(self.in_tree.backward(RowPlace("unit", (COLUMN,)), RowPlace("flat"))),
            Loop(VELOCITY, self.model.nv, (*self.place(), copy)),
        )
        return [
            *self.in_scene(self.in_tree.dynamics()),
            Loop(COLUMN, self.width, columns),
            *(self.loops.release() if self.loops else []),
            *self.motions("free", self.space.at("free", TREE_ROW)),
        ]

    def _each_body(self, block: Statement) -> Statement:
        row = Lookup(TREE_ROW, Address("row of node", (Index(TREE_NODE),)), "N")
        return Loop(TREE_NODE, self.nodes, (row, block))

    def flat(self) -> Piece:
        """The entry of ``flat`` (nv,) for the velocity in hand."""
        return Piece((), (Address("tree flat", (Index(VELOCITY),)),))

    def _column_entry(self) -> Piece:
        return Piece((), (Address("F", (Index(GROUP), Index(COLUMN), Index("place in tree"))),))

    def motions(self, velocity: str, into: Piece) -> list[Statement]:
        """Velocities (6,) of the bodies at those of the joints, in rows of the scene."""
        copy = traced_block(lambda V: [V], [self.at("twist", TREE_NODE)], [into])
        return [*self.in_scene(self.in_tree.twists(velocity)), self._each_body(copy)]

    def response(self, name: str, into: str, plus: str | None = None) -> list[Statement]:
        """Fᵀ y of all trees, (nv,), and what is added to it."""
        copy = traced_block(lambda x: [x], [self.in_tree_of(name)], [self.flat()])
        return [
            Loop(VELOCITY, self.model.nv, (*self.place(), copy)),
            *self.in_scene(self.in_tree.forward("flat", into, plus)),
        ]

    def spread(self, velocity: Piece) -> list[Statement]:
        """Velocities of the bodies with all impulses; ``velocity``: of the :data:`TREE_ROW`."""
        return [*self.response("y", "end v", "free"), *self.motions("end v", velocity)]

    def withdraw(self, velocity: Piece) -> Statement:
        """Velocities without impulses, as the contacts see them beside y."""
        copy = traced_block(lambda V: [V], [self.space.at("free", TREE_ROW)], [velocity])
        return self._each_body(copy)

    # ---- contacts ------------------------------------------------------------------------------------------------

    def if_touched(self, *statements: Statement) -> Statement:
        """Statements where the contact in hand is on a tree, with its ``slot``."""
        slot = Lookup("slot", Address("slot", (Index(CONTACT),)), "K")
        return If(self.space.address("on tree", CONTACT), (slot, *statements))

    def _side(self, register: str, number: int, below: int) -> Lookup:
        return Lookup(register, Address("sides", (Index("slot"), Index(None, number))), below)

    def node_of_side(self, side: int) -> list[Statement]:
        """Registers of one body of the contact in hand, ``its node``, and of the :data:`END` that its tree has."""
        return [self._side("its node", 3 + side, self.nodes + 1), self._side(END, 5 + side, 2)]

    def _ends(self, *statements: Statement) -> list[Statement]:
        """Statements for each tree of the contact in hand."""
        group = Lookup(GROUP, Address("sides", (Index("slot"), Index(END, 1))), self.trees)
        return [self._side("ends", 0, 3), Loop(END, Index("ends"), (group, *statements))]

    def _rows(self, turning: bool) -> Piece:
        return self.space.at(_of_rows("B", turning), "slot", END)

    def make_rows(self, turning: bool = False) -> list[Statement]:
        """B of the contact in hand, or of its moments, its part of the own block, and what it is carried by."""
        put, rows = self.space.put, self._rows(turning)
        own = self.space.each([_of_rows(name, turning) for name in ("tree own", "carried", "lead")], CONTACT)

        def square(B: Array, G: Array) -> list[Any]:
            a, b, c = B
            pairs = ((a, a), (a, b), (a, c), (b, b), (b, c), (c, c))
            return [[g + multiply_in_strands(x, y) for g, (x, y) in zip(G, pairs, strict=True)]]

        add_up = traced_block(square, [rows, own[0]], [own[0]])
        return [
            put(0, *own, *([] if turning else [self.space.at("leverage", CONTACT)])),
            self.if_touched(
                *self._ends(put(0, rows)),
                *self._add_side(0, turning),
                *self._add_side(1, turning),
                *self._ends(*(self.loops.project(rows, 3) if self.loops else []), add_up),
            ),
        ]

    def _add_side(self, side: int, turning: bool) -> list[Statement]:
        """Rows of one body of the contact in hand."""
        at, carries = self.space.at, _of_rows("carried", turning)

        def along(touch: Array, screw: Array, v: Any, carried: Array, *most: Any) -> list[Any]:
            motion = screw[:3] if turning else add_cross(screw[3:6], screw[:3], touch[1:4] - screw[6:])
            J = touch[4:].reshape(3, 3) @ motion
            J = J if side == 0 else -J
            return [J, carried + J * v, *[largest([x, abs(J[0])]) for x in most]]

        def add(B: Array, J: Array, F: Any) -> list[Any]:
            return [B + J * F]

        speed = Piece((), (Address("tree free", (Index("moving"),)),))
        most = [] if turning else [at("leverage", CONTACT)]
        reads = [at("touch", CONTACT), self.at("screw", "moving"), speed, at(carries, CONTACT), *most]
        axes = traced_block(along, reads, [at("along axes"), at(carries, CONTACT), *most])
        row = self._column_of_rows(turning)
        entry = Piece((), (Address("F", (Index(GROUP), Index("place in tree"), Index(COLUMN))),))
        columns = Loop(
            COLUMN, self.width, (traced_block(add, [row, at("along axes"), entry], [row]),), side_by_side=True
        )
        return [
            *self.node_of_side(side),
            Lookup("moves", Address("moving count", (Index("its node"),))),
            Loop(
                ON_PATH,
                Index("moves"),
                (
                    Lookup("moving", Address("moving", (Index("its node"), Index(ON_PATH)))),
                    *self.place("moving"),
                    axes,
                    columns,
                ),
            ),
        ]

    def _column_of_rows(self, turning: bool) -> Piece:
        """One column of B, (3,)."""
        name, place = _of_rows("B", turning), (Index("slot"), Index(END))
        return Piece((3,), tuple(Address(name, (*place, Index(None, i), Index(COLUMN))) for i in range(3)))

    def lead(self, name: str, turning: bool = False) -> list[Statement]:
        """``lead`` of the contact in hand: Bᵀ y of a buffer (trees, width)."""
        at = self.space.at

        def feel(B: Array, y: Array, lead: Array) -> list[Any]:
            return [lead + multiply_in_strands(B, y)]

        three = Piece((3,), at(_of_rows("lead", turning), CONTACT).addresses[:3])
        block = traced_block(feel, [self._rows(turning), at(name, GROUP), three], [three])
        return [self.if_touched(self.space.put(0, three), *self._ends(block))]

    def follow(self, name: str, turning: bool = False) -> list[Statement]:
        """B times the impulse ``given`` by the contact in hand, added to a buffer (trees, width)."""
        entry = Piece((), (Address(name, (Index(GROUP), Index(COLUMN))),))
        given = self.space.at(_of_rows("given", turning))
        reads = [entry, self._column_of_rows(turning), given]
        add = traced_block(lambda y, B, p: [[y + p @ B]], reads, [entry])
        return [self.if_touched(*self._ends(Loop(COLUMN, self.width, (add,), side_by_side=True)))]

    # ---- the end of a step ---------------------------------------------------------------------------------------

    def displace(self, moved: Piece, velocity: str, h: Sequence[Piece], lifted: str) -> list[Statement]:
        """Coordinates and velocities after h times a velocity, if there is an h, and the displacement Fᵀ z.

        Args:
            moved: the displacement of the :data:`TREE_ROW`.
            lifted: what the displacement does against gravity is added there.
        """
        space = self.space

        def move(q: Array, v: Array, u: Array, d: Array, *h: Any) -> list[Any]:
            way = d + h[0] * u if h else d
            return [*Mechanism(self.tree).manifold().straight(q, u, way), q, v]

        def lift(d: Array, X: Array, mass: Any, moment: Array, gravity: Array, total: Array) -> list[Any]:
            weighed = mass * d[3:] + cross(d[:3], X[:9].reshape(3, 3) @ moment)
            return [[total[0] - gravity @ weighed]]

        reads = [self.at(name) for name in ("now q", "now v", velocity, "away")]
        writes = [self.at(name) for name in ("now q", "now v", "old q", "old v")]
        masses = space.each(("tree mass", "tree moment"), TREE_NODE)
        weigh = traced_block(
            lift,
            [moved, space.at("pose", TREE_ROW), *masses, space.at("gravity"), space.at(lifted)],
            [space.at(lifted)],
        )
        close = [*self.loops.close("away", lifted), *self.motions("away", moved)] if self.loops else []
        return [
            *self.response("z", "away"),
            *self.motions("away", moved),
            self._each_body(weigh),
            traced_block(move, [*reads, *h], writes),
            *close,
        ]

    def finish(self) -> list[Statement]:
        """After :meth:`displace`: whether the bodies are still within their budgets, by where they are then."""
        at, each = self.space.at, self.space.each
        D = dampings(self.model).as_floats().diagonal

        def travel(
            X: Array, old: Array, far: Any, swing: Any, budget: Any, drift: Array, h: Any, within: Array
        ) -> list[Any]:
            shift, turn = X[9:] - old[9:] - h * drift, X[:9] - old[:9]
            far = far + sqrt(shift @ shift) + swing * sqrt(turn @ turn)
            sound = select(less(far, budget), 1, -1)
            return [[far], [select(less(sound, within[0]), sound, within[0])]]

        def judge(
            q: Array, v: Array, end: Array, old: Array, before: Array, force: Array, h: Any, *totals: Array
        ) -> list[Any]:
            within, work = totals
            finite = less(sum(abs(x) for x in (*q, *v)), math.inf)
            drag = self._drag(old, before) if self.drags else 0
            done = h * ((force + drag - D * end) @ (before + end)) / 2
            return [[select(finite, within[0], -2)], [work[0] + done], (end - before) / h]

        reads = [self.at("pose", TREE_NODE), at("pose", TREE_ROW), *each(("far", "swing", "budget"), TREE_ROW)]
        reads += [*each(("drift", "now dt")), at("within")]
        way = traced_block(travel, reads, [at("next far", TREE_ROW), at("within")])
        state = [self.at(name) for name in ("now q", "now v", "end v", "old q", "old v", "force")]
        totals = each(("within", "joint work"))
        end = traced_block(judge, [*state, at("now dt"), *totals], [*totals, self.at("change")])
        poses = self.in_scene(self.in_tree.poses())
        return [*poses, self._each_body(way), *self.motors.forces(), end, *self._go_back()]

    def _drag(self, q: Array, v: Array) -> Array:
        """Forces of elements because of the velocities, (nv,): dampers of tendons, and drag."""
        m = Mechanism(self.tree)
        return element_forces(m, q, v) - element_forces(m, q, zeros(len(v)))

    def _go_back(self) -> list[Statement]:
        """The old state, where the step is not accepted."""
        back = traced_block(
            lambda *old: list(old), [self.at(n) for n in ("old q", "old v")], [self.at(n) for n in ("now q", "now v")]
        )
        negate = traced_block(lambda x: [-x], [self.space.at("within")], [self.space.at("refused")])
        return [negate, If(self.space.address("refused"), (back,))]

    def results(self) -> list[Statement]:
        """The state at the end of a call."""
        names = ("now q", "now v", "change")
        state = traced_block(
            lambda *x: list(x),
            [self.at(n) for n in names],
            self.space.each(("tree q at end", "tree v at end", "tree a")),
        )
        pose = traced_block(lambda X: [X], [self.space.at("pose", TREE_ROW)], [self.space.at("tree poses", TREE_NODE)])
        return [state, self._each_body(pose)]


def _of_rows(name: str, turning: bool) -> str:
    """The name of a buffer of rows of contacts, or of their moments."""
    return f"turning {name}" if turning else name
