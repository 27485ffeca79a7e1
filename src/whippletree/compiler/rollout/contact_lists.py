"""Whole trajectories with contact as one kernel that works on what matters: lists of blocks, sweeps until converged.

The mathematics is that of :mod:`whippletree.contact.time_step`. :mod:`~whippletree.compiler.rollout.contact_rollout`
writes every block of it out and computes all of them in every sweep, which suits batches in which all feet are down.
Here a step

1. finds poses, the factor of M, and the velocity without impulses;
2. finds the gaps of all candidates in loops over pairs of one kind
   (:mod:`~whippletree.compiler.rollout.contact_kinds`), and lists the blocks that may matter: those that carried an
   impulse or would close within the step;
3. works out rows for the blocks of the list alone, as B = D^(−1/2) L⁻ᵀ Jᵀ with M = Lᵀ D L, so that G = Bᵀ B is never
   formed: with y = Σ B λ a block's velocity is g + Bᵀ y, and an impulse changes y by B dλ;
4. solves the problem of the list to the tolerance (:mod:`~whippletree.compiler.rollout.contact_list_solver`);
5. looks at everything that was left out, at the velocity that came out: what would overlap joins the list, and the
   sweeps go on. So nothing is left out that matters, whatever step 2 guessed;
6. moves apart what would overlap at the end, where that is more than the velocities' own tolerance, and moves on.

A scene whose step leaves more than it may stops there: its later rows are NaN, and whoever called knows better methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree import functions
from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Collect,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    Program,
    Statement,
    Switch,
    Until,
)
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_kinds import TOUCH, narrow_phase
from whippletree.compiler.rollout.contact_list_solver import ACTIVE, BLOCK, LOCAL, STEP, ListSolver
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.contact.implicit_springs import forces_of_joints, implicit_links
from whippletree.contact.problem.cones import largest
from whippletree.contact.problem.contact_problem import local
from whippletree.contact.time_step import RELAXATION_SPEED, Blocks, bias_in_space, shifts
from whippletree.model import Model
from whippletree.spatial import add_cross
from whippletree.tree import inertia
from whippletree.tree.links import world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

ROUNDS = 8
"""Times that blocks which were left out may join the list of a step."""

MOST_VELOCITIES = 64
"""Velocities of a model up to which its steps are compiled: the code has rows for each of them."""

COUPLINGS_PER_VELOCITY = 20
"""Couplings between contacts, for each velocity, from which on lists pay in batches. Measured, µs per step and scene in
a batch of 256, lists and 10 sweeps over all blocks: a quadruped on its four feet, 8 couplings, 2.7 and 1.3; hopper, 96,
0.9 and 3.7; half cheetah, 256, 1.2 and 4.7; walker, 196, 2.0 and 8.9. A humanoid on eight points has 16."""

USUAL_STEP, NO_INERTIA = 1e-3, 1e-13
"""Step (s) at which dampers and springs give inertia, and the share of the largest below which there is none."""

CORRECTION_SWEEPS = 50
"""Sweeps that move apart what would overlap, at most."""

ROW, SWEEP, ROUND = "row", "correction sweep", "round"
SCREW = 9
"""Numbers of a velocity's screw in the world: angular and linear velocity, and the point that has the latter."""
TWIST = 6
CONTACT, LIMIT, FRICTION = range(3)
"""Kinds of blocks."""


def suits_lists(model: Model) -> bool:
    """Whether steps of a model can be compiled this way: a small tree with inertia that touches in closed forms."""
    if model.constraints or not 0 < model.nv <= MOST_VELOCITIES:
        return False
    blocks = Blocks(model)
    return blocks.count > 0 and blocks.contacts.closed_form and _has_inertia(model)


def lists_pay(model: Model) -> bool:
    """Whether batches are faster this way than with every block written out, where that many blocks rarely matter."""
    return Blocks(model, limits=False).couplings > COUPLINGS_PER_VELOCITY * model.nv


def _has_inertia(model: Model) -> bool:
    """Whether every motion has inertia at home, or a damper or spring in its stead.

    Elsewhere a pivot that is not positive makes a step NaN, which is no answer.
    """
    m = Mechanism.of(model)
    if not m.tree.doubtful:
        return True
    links = implicit_links(m, m.still(np.asarray(model.home.q).astype(object)), USUAL_STEP)
    sizes = np.linalg.eigvalsh(inertia.mass_matrix(m.tree, m.sweep, links).astype(float))
    return bool(sizes[0] > NO_INERTIA * sizes[-1])


def contact_lists_program(model: Model) -> Program:
    """(q0, v0, impulses0, tau (T, nv), dt (T,), tolerance, patience) → results of T steps.

    The results are q, v, impulses, measure, work and friction_work of
    :class:`~whippletree.compiler.rollout.contact_rollout.ContactRollout`, and of each step its correction_work (J),
    sweeps and newton_steps. A scene stops after a step whose residual exceeds ``patience`` (m/s); sweeps end at
    ``tolerance``.
    """
    return _Builder(model).rollout()


class _Builder(WorkSpace):
    """Writes the statements of a step."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model, self.tree = model, skeleton(model)
        self.blocks = Blocks(model)
        self.contacts = len(self.blocks.contacts.candidates)
        self.parents = self.tree.velocity_parents
        self.related = [(i, j) for i in range(model.nv) for j in _ancestors(self.parents, i)]
        """Entries of L below its diagonal that are not zero."""
        nq, nv, k, nodes = model.nq, model.nv, self.blocks.count, len(self.tree.nodes)
        self.inputs = [
            Buffer("q0", "input", (nq,)),
            Buffer("v0", "input", (nv,)),
            Buffer("impulses0", "input", (k, 3)),
            Buffer("tau", "input", ("T", nv)),
            Buffer("dt", "input", ("T",)),
            Buffer("tolerance", "input", ()),
            Buffer("patience", "input", ()),
        ]
        self.outputs = [
            Buffer("q", "output", ("T", nq)),
            Buffer("v", "output", ("T", nv)),
            Buffer("impulses", "output", ("T", k, 3)),
            Buffer("measure", "output", ("T", 3)),
            Buffer("work", "output", ("T",)),
            Buffer("friction_work", "output", ("T",)),
            Buffer("correction_work", "output", ("T",)),
            Buffer("sweeps", "output", ("T",)),
            Buffer("newton_steps", "output", ("T",)),
        ]
        self.add(*self.inputs, *self.outputs)
        self.work(
            now_q=(nq,),
            now_v=(nv,),
            impulse=(k, 3),
            alive=(1,),
            lost=(1,),
            pose=(nodes + 1, POSE),  # the last row is the world
            twist=(nodes + 1, TWIST),
            screw=(nv, SCREW),
            L=(len(self.related),),
            root=(nv,),  # D^(−1/2)
            free=(nv,),
            end_v=(nv,),
            touch=(self.contacts, TOUCH),
            gap=(k,),
            sign=(len(self.blocks.limited),),
            flag=(k,),
            J=(k, 3, nv),
            B=(k, 3, nv),
            own=(k, 6),  # the block's own part of G, its upper triangle
            local=(k, LOCAL),
            g=(k, 3),
            shift=(k,),
            approach=(k, 3),
            y=(nv,),
            left=(1,),  # the worst of what was left out, m/s
            complete=(1,),
            push=(k,),
            ahead=(k,),
            z=(nv,),
            apart=(1,),
            displaced=(nv,),
            corrected=(1,),
        )
        self.numbers_list(ACTIVE, k)
        self.solver = ListSolver(self, k, nv)
        self._tables()

    def _tables(self) -> None:
        """What is known of every block beforehand."""
        blocks = self.blocks
        axes = [*blocks.limited, *blocks.rubbing]
        self.index("kind", [CONTACT] * self.contacts + [LIMIT] * len(blocks.limited) + [FRICTION] * len(blocks.rubbing))
        self.index("axis", [0] * self.contacts + [axis.v for axis in axes])
        self.index("place", [0] * self.contacts + [axis.q for axis in axes])
        self.index("limit", [max(i - self.contacts, 0) for i in range(self.contacts + len(blocks.limited))])
        self.table("friction", blocks.friction)
        self.table("restitution", blocks.restitution)
        self.table("cap", blocks.cap(1))
        self.table("lower", [axis.lower for axis in blocks.limited])
        self.table("upper", [axis.upper for axis in blocks.limited])
        world = len(self.tree.nodes)
        nodes = [
            [self.tree.bodies[body].node for body in (c.first_body, c.second_body)] for c in blocks.contacts.candidates
        ]
        for side in (0, 1):
            self.index(f"node {side}", [world if pair[side] < 0 else pair[side] for pair in nodes])
        # velocities that move both bodies move neither against the other
        moved = [[self._velocities(node) for node in pair] for pair in nodes]
        paths = [[(i, 1) for i in sorted(a - b)] + [(i, -1) for i in sorted(b - a)] for a, b in moved]
        longest = max(map(len, paths), default=0) or 1
        padded = [path + [(0, 0)] * (longest - len(path)) for path in paths]
        self.index("moving", [len(path) for path in paths])
        self.index("path", [[i for i, _ in path] for path in padded])
        self.table("side", [[s for _, s in path] for path in padded])

    def _velocities(self, node: int) -> set[int]:
        """The velocities that move a node."""
        return {i for k in self.tree.path(node) for i in range(self.tree.v_slices[k].start, self.tree.v_slices[k].stop)}

    # ---- statements ----------------------------------------------------------------------------------------------

    def look_up(self, *names: str) -> list[Lookup]:
        """Registers with the names of tables: what these say of the block in hand."""
        return [Lookup(name, self.address(name, BLOCK)) for name in names]

    def rollout(self) -> Program:
        narrow, tables = narrow_phase(
            self.blocks.contacts.pairs, self.tree, self.buffers["pose"], self.buffers["touch"]
        )
        self.add(*tables)
        step = (
            self._pose(),
            *narrow,
            *self._flags(),
            self.put(-1, self.at("complete")),
            self.put(0, self.at("made"), self.at("newtons")),
            Until(ROUND, ROUNDS, self.address("complete"), tuple(self._round())),
            *self._finish(),
        )
        rows = (If(self.address("lost"), (self._nothing(),)), If(self.address("alive"), step))
        return self.program("contact_lists", (*self._begin(), Loop(STEP, "T", rows)))

    def _begin(self) -> list[Statement]:
        nodes = len(self.tree.nodes)
        world = [
            Piece((n,), tuple(Address(name, (Index(None, nodes), Index(None, i))) for i in range(n)))
            for name, n in (("pose", POSE), ("twist", TWIST))
        ]
        identity = [*np.eye(3, dtype=int).ravel().tolist(), 0, 0, 0]
        names = ["now q", "now v", "impulse", "alive", "lost"]
        return [
            traced_block(
                lambda q, v, p: [q, v, p, [1], [-1], identity, [0] * TWIST],
                [self.at(n) for n in ("q0", "v0", "impulses0")],
                [*[self.at(n) for n in names], *world],
            )
        ]

    def _pose(self) -> Block:
        """Step 1: what does not depend on contacts."""
        nodes = range(len(self.tree.nodes))
        rows = [_rows(self.buffers[name], nodes) for name in ("pose", "twist")]

        def find(q: Array, v: Array, tau: Array, h: Any) -> list[Any]:
            m = Mechanism(self.tree)
            links = implicit_links(m, m.moving(q, v), h)
            push = h * (tau + forces_of_joints(m, q, v, h) - bias_in_space(m, links, v))
            factor = linalg.tree_ltdl(inertia.mass_matrix(m.tree, m.sweep, links), self.parents, lenient=True)
            poses = world_poses(m.sweep, links)
            twists = [
                np.concatenate([X.R @ link.V[:3], X.R @ link.V[3:]]) for X, link in zip(poses, links, strict=True)
            ]
            screws = [
                np.concatenate([X.R @ link.H[:3, i], X.R @ link.H[3:, i], X.p])
                for X, link in zip(poses, links, strict=True)
                for i in range(link.H.shape[1])
            ]
            return [
                [x for X in poses for x in (*X.R.ravel(), *X.p)],
                [x for twist in twists for x in twist],
                [x for screw in screws for x in screw],
                [factor.L[i, j] for i, j in self.related],
                [sqrt(x) for x in factor.reciprocals],
                v + factor.solve(push),
            ]

        reads = [self.at("now q"), self.at("now v"), self.at("tau", STEP), self.at("dt", STEP)]
        return traced_block(find, reads, [*rows, *[self.at(n) for n in ("screw", "L", "root", "free")]])

    def _flags(self) -> list[Statement]:
        """Step 2: blocks that carried an impulse, or would close within the step at their present velocity.

        What gravity alone does within the step is added, so that whatever begins to rest is there at once. It is a
        guess: step 5 decides.
        """
        fall = sqrt(sum(float(x) ** 2 for x in self.model.gravity))

        def near(touch: Array, first: Array, second: Array, X: Array, Y: Array, p: Array, h: Any) -> list[Any]:
            closing = touch[0] + h * (_normal_velocity(touch, first, second, X, Y) - fall * h)
            return [select(less(0, p[0]), 1, select(less(closing, 0), 1, -1)), touch[0]]

        def limited(lower: Any, upper: Any, q: Any, v: Any, p: Array, h: Any) -> list[Any]:
            below, above = q - lower, upper - q
            nearer = less(above, below)
            gap, sign = select(nearer, above, below), select(nearer, -1, 1)
            return [select(less(0, p[0]), 1, select(less(gap + h * sign * v, 0), 1, -1)), gap, sign]

        found: list[Statement] = []
        if self.contacts:
            reads = [self.at("touch", BLOCK), *self._sides(), self.at("impulse", BLOCK), self.at("dt", STEP)]
            block = traced_block(near, reads, [self.at("flag", BLOCK), self.at("gap", BLOCK)])
            found.append(Loop(BLOCK, self.contacts, (*self.look_up("node 0", "node 1"), block)))
        if self.blocks.limited:
            block = traced_block(
                limited,
                [
                    *self._ends(),
                    self.at("now q", "place"),
                    self.at("now v", "axis"),
                    self._own("impulse"),
                    self.at("dt", STEP),
                ],
                [self._own("flag"), self._own("gap"), self.at("sign", BLOCK)],
            )
            found.append(Loop(BLOCK, len(self.blocks.limited), (*self._look_up_limit(), block)))
        first = self.contacts + len(self.blocks.limited)
        rubbing = [
            Address(name, (Index(None, i),)) for name in ("flag", "gap") for i in range(first, self.blocks.count)
        ]
        if rubbing:
            values = [[1] * len(self.blocks.rubbing), [0] * len(self.blocks.rubbing)]
            found.append(traced_block(lambda: values, [], [Piece((len(rubbing),), tuple(rubbing))]))
        return found

    def _sides(self) -> list[Piece]:
        """Twists of both bodies of a contact, and where their origins are."""
        twists = [self.at("twist", f"node {side}") for side in (0, 1)]
        places = [
            Piece((3,), tuple(Address("pose", (Index(f"node {side}"), Index(None, 9 + i))) for i in range(3)))
            for side in (0, 1)
        ]
        return [*twists, *places]

    def _ends(self) -> list[Piece]:
        return [self.at("lower", BLOCK), self.at("upper", BLOCK)]

    def _own(self, name: str) -> Piece:
        """What a buffer of all blocks holds of the limit in hand."""
        shape = tuple(int(n) for n in self.buffers[name].shape[1:])
        rest = list(np.ndindex(*shape))
        places = [Address(name, (Index(BLOCK, self.contacts), *[Index(None, i) for i in index])) for index in rest]
        return Piece(shape, tuple(places))

    def _look_up_limit(self) -> list[Lookup]:
        return [Lookup(name, Address(name, (Index(BLOCK, self.contacts),))) for name in ("place", "axis")]

    def _round(self) -> list[Statement]:
        """Steps 3 to 6; the last one moves nothing apart while the list is not complete."""
        return [
            Collect(ACTIVE, BLOCK, self.blocks.count, self.address("flag", BLOCK)),
            self.put(0, self.at("y")),
            Each(BLOCK, ACTIVE, tuple(self._rows())),
            *self.solver.statements(),
            self._velocity(),
            *self._look_around(),
            *self._correction(),
        ]

    def _rows(self) -> list[Statement]:
        """Step 3 for one block."""
        nv = self.model.nv

        def entry(row: int) -> Piece:
            return Piece((), (Address("J", (Index(BLOCK), Index(None, row), Index("axis"))),))

        cases: list[tuple[Statement, ...]] = [(), (), ()]
        if self.contacts:
            cases[CONTACT] = self._contact_rows()
        if self.blocks.limited:
            copy = traced_block(lambda s: [s], [self.at("sign", "limit")], [entry(0)])
            cases[LIMIT] = (*self.look_up("limit"), copy)
        if self.blocks.rubbing:
            cases[FRICTION] = (traced_block(lambda: [1], [], [entry(1)]),)

        def prepare(J: Array, L: Array, root: Array, free: Array, v: Array, y: Array, *rest: Any) -> list[Any]:
            gap, e, h, impulse = rest
            B = self._factor(L).backward(J.T).T * root
            G = B @ B.T
            approach = J @ v
            shift = shifts(vector(gap), vector(approach[0]), vector(e), h)[0]
            g = J @ free
            g[0] = g[0] + shift
            own = [G[0, 0], G[0, 1], G[0, 2], G[1, 1], G[1, 2], G[2, 2]]
            return [B, own, list(local(G)), g, [shift], approach, [0] * 3, y + B.T @ impulse]

        reads = [self.at("J", BLOCK), *[self.at(n) for n in ("L", "root", "free", "now v", "y")]]
        reads += [self.at("gap", BLOCK), self.at("restitution", BLOCK), self.at("dt", STEP), self.at("impulse", BLOCK)]
        writes = [self.at(n, BLOCK) for n in ("B", "own", "local", "g", "shift", "approach", "delta")]
        nothing = traced_block(lambda: [[0] * (3 * nv)], [], [self.at("J", BLOCK)])
        return [
            nothing,
            *self.look_up("kind", "axis"),
            Switch("kind", tuple(cases)),
            traced_block(prepare, reads, [*writes, self.at("y")]),
        ]

    def _contact_rows(self) -> tuple[Statement, ...]:
        """Three rows of J: a velocity that moves one of the bodies moves the material points at the contact."""

        def along(touch: Array, screw: Array, side: Any) -> list[Any]:
            velocity = add_cross(screw[3:6], screw[:3], touch[1:4] - screw[6:])
            return [side * (touch[4:].reshape(3, 3) @ velocity)]

        column = Piece((3,), tuple(Address("J", (Index(BLOCK), Index(None, i), Index("path"))) for i in range(3)))
        reads = [self.at("touch", BLOCK), self.at("screw", "path"), self.at("side", BLOCK, ROW)]
        body = (Lookup("path", self.address("path", BLOCK, ROW)), traced_block(along, reads, [column]))
        return (*self.look_up("moving"), Loop(ROW, Index("moving"), body))

    def _factor(self, L: Array) -> linalg.TreeLTDL:
        """L from its entries that are not zero."""
        nv = self.model.nv
        full = np.eye(nv, dtype=int).astype(object)
        for (i, j), x in zip(self.related, L, strict=True):
            full[i, j] = x
        return linalg.TreeLTDL(full, zeros(0), zeros(0), self.parents)

    def _velocity(self) -> Block:
        """The velocity at the end of the step, and the twists that it means."""

        def find(free: Array, L: Array, root: Array, y: Array, screws: Array, pose: Array) -> list[Any]:
            v = free + self._factor(L).forward(root * y)
            twists: list[Array] = []
            for node, part in enumerate(self.tree.v_slices):
                parent, p = self.tree.parents[node], pose[node, 9:]
                w, u = zeros(3), zeros(3)
                if parent >= 0:
                    w = twists[parent][:3]
                    u = add_cross(twists[parent][3:], w, p - pose[parent, 9:])
                for i in range(part.start, part.stop):
                    w, u = w + v[i] * screws[i, :3], u + v[i] * screws[i, 3:6]
                twists.append(np.concatenate([w, u]))
            return [v, [x for twist in twists for x in twist]]

        nodes = range(len(self.tree.nodes))
        reads = [*[self.at(n) for n in ("free", "L", "root", "y", "screw")], _rows(self.buffers["pose"], nodes, True)]
        return traced_block(find, reads, [self.at("end v"), _rows(self.buffers["twist"], nodes)])

    def _look_around(self) -> list[Statement]:
        """Step 5: whatever was left out and would overlap is taken in."""

        def outside(flag: Any, speed: Any, tolerance: Any, left: Array, complete: Array) -> list[Any]:
            """``speed``: at which the gap is missed, m/s."""
            missed = select(less(0, flag), 0, largest([speed, 0]))
            joins = less(tolerance, missed)
            return [
                [select(joins, 1, flag)],
                [largest([left[0], missed])],
                [select(joins, -1, complete[0])],
            ]

        def contact(touch: Array, first: Array, second: Array, X: Array, Y: Array, h: Any, *rest: Any) -> list[Any]:
            return outside(rest[0], -(touch[0] / h + _normal_velocity(touch, first, second, X, Y)), *rest[1:])

        def limit(lower: Any, upper: Any, q: Any, v: Any, h: Any, *rest: Any) -> list[Any]:
            ahead = q + h * v
            return outside(rest[0], largest([lower - ahead, ahead - upper]) / h, *rest[1:])

        totals = [self.at("left"), self.at("complete")]
        found: list[Statement] = [self.put(0, self.at("left")), self.put(1, self.at("complete"))]
        if self.contacts:
            reads = [
                self.at("touch", BLOCK),
                *self._sides(),
                self.at("dt", STEP),
                self.at("flag", BLOCK),
                self.at("tolerance"),
            ]
            block = traced_block(contact, [*reads, *totals], [self.at("flag", BLOCK), *totals])
            found.append(Loop(BLOCK, self.contacts, (*self.look_up("node 0", "node 1"), block)))
        if self.blocks.limited:
            reads = [*self._ends(), self.at("now q", "place"), self.at("end v", "axis"), self.at("dt", STEP)]
            reads += [self._own("flag"), self.at("tolerance")]
            block = traced_block(limit, [*reads, *totals], [self._own("flag"), *totals])
            found.append(Loop(BLOCK, len(self.blocks.limited), (*self._look_up_limit(), block)))
        return found

    def _correction(self) -> list[Statement]:
        """Step 6: π with 0 ≤ π ⟂ gap + h u + G π ≥ 0 for the normals of the list, where there is an overlap."""

        def begin(B: Array, y: Array, g: Array, shift: Any, gap: Any, h: Any) -> list[Any]:
            return [[largest([gap + h * (g[0] + B[0] @ y - shift), -h * RELAXATION_SPEED])], [0]]

        def improve(B: Array, z: Array, own: Array, at: Array, ahead: Any, push: Any, change: Array) -> list[Any]:
            others = ahead + B[0] @ z - own[0] * push
            after = largest([-others * at[0], 0])
            d = after - push
            return [[after], z + d * B[0], [largest([change[0], abs(d * own[0])])]]

        def judge(change: Array, tolerance: Any, h: Any) -> list[Any]:
            return [[select(less(h * tolerance, change[0]), -1, 1)]]

        def displace(L: Array, root: Array, z: Array) -> list[Any]:
            return [self._factor(L).forward(root * z)]

        def corrected(q: Array, v: Array, d: Array, h: Any) -> list[Any]:
            m = Mechanism(self.tree)
            energy = functions.find("potential_energy", self.model).implementation
            ends = [m.manifold().straight(q, v, moved)[0] for moved in (h * v, h * v + d)]
            return [[energy(m, ends[1]) - energy(m, ends[0])]]

        where = traced_block(
            lambda overlap, complete, tolerance, h: [
                [select(less(0, complete[0]), overlap[0] - h * tolerance, -1)],
                [0],
                [0] * self.model.nv,
            ],
            [*self.each(("overlap", "complete", "tolerance")), self.at("dt", STEP)],
            self.each(("apart", "corrected", "displaced")),
        )
        first = traced_block(
            begin,
            [self.at("B", BLOCK), self.at("y"), *self.each(("g", "shift", "gap"), BLOCK), self.at("dt", STEP)],
            self.each(("ahead", "push"), BLOCK),
        )
        again = traced_block(
            improve,
            [
                self.at("B", BLOCK),
                self.at("z"),
                *self.each(("own", "local", "ahead", "push"), BLOCK),
                self.at("change"),
            ],
            [self.at("push", BLOCK), self.at("z"), self.at("change")],
        )
        sweep = (
            self.put(0, self.at("change")),
            Each(BLOCK, ACTIVE, (again,)),
            traced_block(judge, [*self.each(("change", "tolerance")), self.at("dt", STEP)], [self.at("done")]),
        )
        ends = [*self.each(("now q", "end v", "displaced")), self.at("dt", STEP)]
        body = (
            self.put(0, self.at("z")),
            self.put(-1, self.at("done")),
            Each(BLOCK, ACTIVE, (first,)),
            Until(SWEEP, CORRECTION_SWEEPS, self.address("done"), sweep),
            traced_block(displace, self.each(("L", "root", "z")), [self.at("displaced")]),
            traced_block(corrected, ends, [self.at("corrected")]),
        )
        return [where, If(self.address("apart"), body)]

    def _finish(self) -> list[Statement]:
        """The end of a step, as results and as the start of the next."""

        def end(
            q: Array, v: Array, d: Array, h: Any, residual: Array, left: Array, patience: Any, *rest: Any
        ) -> list[Any]:
            works, corrected, made, newtons = rest
            q, v = Mechanism(self.tree).manifold().straight(q, v, h * v + d)
            worst = largest([residual[1], left[0]])
            measure = [residual[0], worst, residual[2]]
            # NaN is not within any bound
            sound = [less(abs(x), math.inf) for x in (*q, *v)]
            good: Any = 1
            for here in sound:
                good = select(here, good, -1)
            alive = select(less(patience, worst), -1, good)
            told = [q, v, measure, [works[0]], [works[1]], [corrected[0]], [made[0]], [newtons[0]]]
            return [q, v, [alive], [-alive], *told]

        reads = [*[self.at(n) for n in ("now q", "end v", "displaced")], self.at("dt", STEP)]
        reads += [self.at(n) for n in ("residual", "left", "patience", "works", "corrected", "made", "newtons")]
        writes = [self.at(n) for n in ("now q", "now v", "alive", "lost")]
        names = ("q", "v", "measure", "work", "friction_work", "correction_work", "sweeps", "newton_steps")
        results = [self.at(n, STEP) for n in names]
        copy = traced_block(lambda p: [p], [self.at("impulse", BLOCK)], [self.at("impulses", STEP, BLOCK)])
        return [traced_block(end, reads, [*writes, *results]), Loop(BLOCK, self.blocks.count, (copy,))]

    def _nothing(self) -> Block:
        """A row of a scene that has stopped; the one in which it did has what came out."""
        rows = [self.at(b.name, STEP) for b in self.outputs]
        return traced_block(lambda: [[math.nan] * len(row.addresses) for row in rows], [], rows)


def _normal_velocity(touch: Array, first: Array, second: Array, X: Array, Y: Array) -> Any:
    """Rate of a gap: the material points of two bodies with these twists, whose origins are at X and Y (3,)."""
    point, normal = touch[1:4], touch[4:7]
    ours, theirs = (add_cross(twist[3:], twist[:3], point - origin) for twist, origin in ((first, X), (second, Y)))
    return normal @ (ours - theirs)


def _rows(buffer: Buffer, rows: Sequence[int] | range, matrix: bool = False) -> Piece:
    """The first rows of a matrix, one after the other or as a matrix."""
    columns = int(buffer.shape[1])
    places = tuple(Address(buffer.name, (Index(None, i), Index(None, j))) for i in rows for j in range(columns))
    return Piece((len(rows), columns) if matrix else (len(places),), places)


def _ancestors(parents: Sequence[int], k: int) -> list[int]:
    chain = []
    while parents[k] >= 0:
        k = parents[k]
        chain.append(k)
    return chain
