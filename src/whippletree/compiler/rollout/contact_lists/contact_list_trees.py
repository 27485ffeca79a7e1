"""The tree in a compiled step: its poses, its free motion, and the factor of M, M⁻¹ = Fᵀ F.

What the contact problem asks of a tree is the same whatever its size (:class:`TreeInStep`):

    poses      poses of all nodes, and the screws of all velocities
    dynamics   the factor of M at the start of the step, and the velocity without impulses
    twists     of all nodes, at some velocity
    backward   F Jᵀ of some rows J
    forward    Fᵀ y

Written out (:class:`WrittenTree`), M = Lᵀ D L and F = D^(−1/2) L⁻ᵀ; its code grows with the square of the depth. As
loops over nodes (:class:`LoopedTree`), F is that of the articulated recursion of :mod:`whippletree.tree.forward`, with
D = C Cᵀ at every joint, U = P H* and W = U C⁻ᵀ,

    inwards    b = C⁻¹ (J − H z)          z⁺ = z + W b                         F Jᵀ = b
    outwards   x = y − Wᵀ α⁺              α = α⁺ + H* C⁻ᵀ x                    Fᵀ y = C⁻ᵀ x

in the axes of the world, about the nodes' origins: O(N) for any row, and code that does not grow at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.scalars import sqrt
from whippletree.compiler.frontend.limbs import NODES, NUMBERS
from whippletree.compiler.frontend.loops import Looped, assemble
from whippletree.compiler.frontend.loops.looped_functions import Argument, LoopedMechanism
from whippletree.compiler.frontend.loops.recorder import Result
from whippletree.compiler.frontend.node_wrenches import TWIST, screws_of
from whippletree.compiler.program import Address, Block, Index, Lookup, Loop, Statement, Switch
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import inline_program
from whippletree.compiler.rollout.contact_lists.contact_list_limbs import limbs_beside
from whippletree.compiler.rollout.contact_lists.contact_list_motors import MotorNumbers
from whippletree.compiler.rollout.motion_space import SPATIAL, motion_space, screw_rows
from whippletree.compiler.rollout.step_space import BLOCK, COLUMN_ROOM, STEP, RowPlace, StepSpace
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.geometry.shape_numbers import POSE, pose_of
from whippletree.contact.implicit_springs import forces_of_joints, implicit_dampings, implicit_links
from whippletree.contact.servos import Servos
from whippletree.contact.time_step import bias_in_space, elimination_parents, implicit_factor
from whippletree.functions import Shape
from whippletree.model import Model
from whippletree.spatial import add_cross
from whippletree.spatial.joints import Free
from whippletree.spatial.modal import PortWeight
from whippletree.tree import inverse
from whippletree.tree.element_forces import elastic_energy, element_energy
from whippletree.tree.forward import split_inertia
from whippletree.tree.links import Link, dense, world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.momentum import gravitational_energy, spring_energy
from whippletree.tree.skeleton import LONG_CHAIN, Skeleton, longest_chain, skeleton
from whippletree.tree.sweeps import Field

MOST_WRITTEN_VELOCITIES = 40
"""Velocities of a tree up to which its dynamics are written out; beyond, they are loops over nodes. So are those of
long chains with fewer: of belts of 25 and 38 links that land, written out, 10 and 13 of 134 contact problems are left
to Python, and the others take 5 times as many Newton steps."""

MOST_WRITTEN_WITHOUT_LOOPS = 130
"""Velocities up to which dynamics are written out that loops over nodes cannot have: code of dm_control's rodent, 67
velocities and a servo that couples joints, takes seconds to compile, and its steps in Python take a thousand times as
long as compiled ones."""

NODE, TOUCHED, LIMB = "node", "touched", "limb"
"""The register of a node, of the one that the block in hand touches, and of the limb that it belongs to."""

LIMB_SIZE, LIMB_NODE, PLACE = "limb size", "limb node", "place in limb"
"""Tables of a long tree, and registers: how many nodes a limb has, and which; the register of one of its places."""

MOST_LIMBS = 8
"""Limbs up to which rows of a block that touches one of them are worked out for that one alone, by code of its own:
two arms and two legs, or a palm with five fingers."""


class TreeInStep(Protocol):
    """Statements about the tree of a model, between buffers of the step: now q, now v, pose, screw, twist, free."""

    def poses(self) -> list[Statement]:
        """``pose`` and ``screw`` of the present coordinates."""

    def dynamics(self) -> list[Statement]:
        """The factor of M, ``free``, and the numbers of motors and servos; ``twist`` is at the present velocity."""

    def twists(self, velocity: str) -> list[Statement]:
        """``twist`` at a velocity (nv,)."""

    def backward(self, rows: RowPlace, into: RowPlace, of_block: bool = False) -> list[Statement]:
        """F Jᵀ of rows J; ``of_block``: those of the block in hand."""

    def tell_limbs(self, supports: Sequence[Sequence[int]]) -> None:
        """For every block, the velocities at which its rows F Jᵀ may differ from zero."""

    def reached(self, velocities: Sequence[int]) -> list[int]:
        """Velocities at which F Jᵀ may differ from zero, for rows J that do so at these."""

    def forward(self, y: str, into: str, plus: str | None = None) -> list[Statement]:
        """Fᵀ y (nv,), and what is added to it."""

    def energy(self, placed: bool = False) -> list[Statement]:
        """``energy``: the potential energy at the present coordinates; ``placed``: whether their poses are known."""


def tree_in_step(space: StepSpace) -> TreeInStep:
    """The form that suits a model's tree."""
    return WrittenTree(space) if is_written(space.model, space.actuators) else LoopedTree(space)


def is_written(model: Model, actuators: Servos) -> bool:
    """Whether the dynamics of a tree are written out: those of short ones, and of longer ones that cannot be loops."""
    long = model.nv > MOST_WRITTEN_VELOCITIES or longest_chain(skeleton(model).parents) > LONG_CHAIN
    if not long:
        return True
    return model.nv <= MOST_WRITTEN_WITHOUT_LOOPS and reason_against_loops(model, actuators) is not None


def reason_against_loops(model: Model, actuators: Servos) -> str | None:
    """Why a tree cannot be stepped in loops over its nodes; None if it can."""
    if actuators.coupling:
        return f"its tree is long, and servo {actuators.coupling[0].actuator.name!r} couples joints"
    if model.is_flexible:
        return "its tree is long, and has flexible bodies"
    if model.constraints and constraint_set(model).timed:
        return "its tree is long, and a constraint depends on time"
    return None


class WrittenTree:
    """A tree whose dynamics are written out."""

    def __init__(self, space: StepSpace) -> None:
        self.space, self.tree = space, space.tree
        self.motors = MotorNumbers(space)
        self.massless = bool(space.model.constraints) and (
            bool(self.tree.doubtful) or constraint_set(space.model).light
        )
        """Whether some motion has its inertia from a constraint that stops it: M + Aᵀ R A has the same M† (000)."""
        self.parents = (
            tuple(range(-1, space.model.nv - 1)) if self.massless else elimination_parents(self.tree, space.actuators)
        )
        self.related = [(i, j) for i in range(space.model.nv) for j in linalg.ancestors(self.parents, i)]
        """Entries of L below its diagonal that are not zero."""
        space.work(L=(len(self.related),), root=(space.model.nv,))  # D^(−1/2)
        self.written = 0
        """Blocks that were written so far."""
        self.limbs: list[list[int]] = []
        """Velocities of the limbs that rows of single blocks are told apart by."""

    def poses(self) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def find(tree: Skeleton, q: Array) -> list[Any]:
            m = Mechanism(tree)
            links = m.still(q)
            poses = world_poses(m.sweep, links)
            screws = [row for X, link in zip(poses, links, strict=True) for row in screws_of(X, link.H)]
            ports = [(X, link.X) for X, link in zip(poses, links, strict=True) if isinstance(link.X, PortWeight)]
            screws += [row for X, port in ports for row in screws_of(X, port.S)]
            return [[x for X in poses for x in (*X.R.ravel(), *X.p)], [x for screw in screws for x in screw]]

        writes = [self._nodes("pose", POSE), self.space.at("screw")]
        return self._limbs_beside("poses", find, [(self.space.at("now q"), ("nq",))], writes)

    def _limbs_beside(
        self,
        name: str,
        function: Callable[..., Sequence[Any]],
        reads: Sequence[tuple[Piece, Shape]],
        writes: Sequence[Piece],
    ) -> list[Statement]:
        """See :func:`~whippletree.compiler.rollout.contact_lists.contact_list_limbs.limbs_beside`; the name need not
        differ from others."""
        self.written += 1
        return limbs_beside(self.space, f"{name} {self.written}", self.tree, function, reads, writes)

    def dynamics(self) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def find(tree: Skeleton, q: Array, v: Array, tau: Array, h: Any, *rest: Any) -> list[Any]:
            m = Mechanism(tree)
            tau, ctrl = self.motors.forces(m, q, v, tau, h, rest)
            damping = self.motors.damping(h, rest)
            links = implicit_links(m, m.moving(q, v), h, damping)
            given = tau + self.motors.released_forces(q, ctrl, rest)
            push = h * (given + forces_of_joints(m, q, v, h, damping) - bias_in_space(m, links, v))
            ties = self._ties(m, links, q, self.motors.time(rest))
            factor, push = implicit_factor(m, links, q, v, push, h, self.space.actuators, ties)
            return [
                [factor.L[i, j] for i, j in self.related],
                [sqrt(x) for x in factor.reciprocals],
                v + factor.solve(push),
                *self.motors.numbers(m, q, tau, ctrl, h),
            ]

        each = self.space.each
        given = [*each(("now q", "now v")), *each(("tau", "dt"), STEP), *self.motors.reads()]
        words: list[Shape] = [("nq",), ("nv",), ("nv",), ()]
        words += [tuple(map(str, part.shape)) for part in given[len(words) :]]
        writes = [*each(("L", "root", "free")), *self.motors.writes()]
        reads = list(zip(given, words, strict=True))
        return [*self.motors.pull_tendons(), *self._limbs_beside("dynamics", find, reads, writes)]

    def _ties(self, m: Mechanism, links: Field, q: Array, t: Any) -> tuple[Array, Array] | None:
        """Rows of constraints that give massless motions inertia, and the typical squares of their sizes."""
        if not self.massless:
            return None
        system = constraint_set(self.space.model)
        kept = list(system.structure.independent)
        return system.rows(m, links, q, None, t).jacobian()[kept], np.asarray(system.structure.squares)

    def twists(self, velocity: str) -> list[Statement]:
        """See :class:`TreeInStep`."""
        reads: list[tuple[Piece, Shape]] = [
            (self.space.at(velocity), ("nv",)),
            (self.space.at("screw"), ("nv", NUMBERS)),
            (self._nodes("pose", POSE, True), (NODES, NUMBERS)),
        ]
        find = lambda tree, *given: [self._twists(*given)]  # noqa: E731
        return self._limbs_beside("twists", find, reads, [self._nodes("twist", TWIST)])

    def backward(self, rows: RowPlace, into: RowPlace, of_block: bool = False) -> list[Statement]:
        """See :class:`TreeInStep`."""
        every = range(self.space.model.nv)
        if not of_block or not self.limbs:
            return [self._backward(rows, into, every)]
        cases = [(self._backward(rows, into, limb),) for limb in (every, *self.limbs)]
        return [Lookup(LIMB, self.space.address(LIMB, BLOCK)), Switch(LIMB, tuple(cases))]

    def _backward(self, rows: RowPlace, into: RowPlace, limb: Sequence[int]) -> Block:
        """F Jᵀ of rows that are zero but for a limb, as what comes out is."""
        nv = self.space.model.nv
        beside = rows.upright and rows.rows is not None

        def find(own: Array, L: Array, root: Array) -> list[Any]:
            J = np.zeros((*own.shape[:-1], nv), dtype=int).astype(object)
            J[..., list(limb)] = own
            found = self._factor(L).backward(J.T).T * root
            return [found[: into.rows], found[-1]] if beside else [found]

        rows = rows._replace(rows=COLUMN_ROOM) if beside else rows
        writes = [into.whole(nv), *([self.space.some("unasked", range(nv))] if beside else [])]
        return traced_block(find, [rows.part(limb), *self.space.each(("L", "root"))], writes)

    def tell_limbs(self, supports: Sequence[Sequence[int]]) -> None:
        """See :class:`TreeInStep`: paths from a tip to the base, if there are a few that are much less than all; of
        several mechanisms with more tips, the mechanisms, whose code together is that of all."""
        nv = self.space.model.nv
        tips = sorted({*range(nv)} - {*self.parents})
        paths = [self.reached([tip]) for tip in tips]
        if len(tips) > MOST_LIMBS:
            paths = self._mechanisms()
        self.limbs = [path for path in paths if 4 * len(path) <= 3 * nv]
        if self.limbs:
            holds = [[i for i, limb in enumerate(self.limbs, 1) if {*limb} >= {*own}] for own in supports]
            self.space.index(LIMB, [min(found, key=lambda i: len(self.limbs[i - 1]), default=0) for found in holds])

    def _mechanisms(self) -> list[list[int]]:
        """Velocities that have inertia in common, one mechanism after the other."""
        found: dict[int, list[int]] = {}
        for i in range(self.space.model.nv):
            found.setdefault(min(self.reached([i])), []).append(i)
        return list(found.values())

    def reached(self, velocities: Sequence[int]) -> list[int]:
        """See :class:`TreeInStep`."""
        return sorted({x for i in velocities for x in (i, *linalg.ancestors(self.parents, i))})

    def forward(self, y: str, into: str, plus: str | None = None) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def find(y: Array, L: Array, root: Array, *base: Array) -> list[Any]:
            found = self._factor(L).forward(root * y)
            return [found + base[0] if base else found]

        reads = [RowPlace(y).whole(self.space.model.nv), *self.space.each(("L", "root"))]
        return [traced_block(find, [*reads, *([self.space.at(plus)] if plus else [])], [self.space.at(into)])]

    def energy(self, placed: bool = False) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def find(q: Array, *given: Array) -> list[Any]:
            m = Mechanism(self.tree)
            poses = [pose_of(row) for row in given[0]] if given else None
            return [[gravitational_energy(m.sweep, m.still(q), m.gravity, poses) + elastic_energy(m, q)]]

        reads = [self.space.at("now q"), *([self._nodes("pose", POSE, True)] if placed else [])]
        return [traced_block(find, reads, [self.space.at("energy")])]

    def _factor(self, L: Array) -> linalg.TreeLTDL:
        """L from its entries that are not zero."""
        full = np.eye(self.space.model.nv, dtype=int).astype(object)
        for (i, j), x in zip(self.related, L, strict=True):
            full[i, j] = x
        return linalg.TreeLTDL(full, zeros(0), zeros(0), self.parents)

    def _twists(self, v: Array, screws: Array, pose: Array) -> list[Any]:
        """Of all nodes in the world, (6,) each, their linear parts at the nodes' origins."""
        twists: list[Array] = []
        for node, own in enumerate(screw_rows(self.tree)):
            parent, p = self.tree.parents[node], pose[node, 9:]
            w, u = zeros(3), zeros(3)
            if parent >= 0:
                w = twists[parent][:3]
                u = add_cross(twists[parent][3:], w, p - pose[parent, 9:])
            for i, row in own:
                w, u = w + v[i] * screws[row, :3], u + v[i] * screws[row, 3:6]
            twists.append(np.concatenate([w, u]))
        return [x for twist in twists for x in twist]

    def _nodes(self, name: str, width: int, matrix: bool = False) -> Piece:
        """The rows of all nodes but the world, one after the other or as a matrix."""
        count = len(self.tree.nodes)
        places = tuple(Address(name, (Index(None, i), Index(None, j))) for i in range(count) for j in range(width))
        return Piece((count, width) if matrix else (count * width,), places)


class Halved(NamedTuple):
    """Quantities that a joint keeps of the articulated recursion, for F; D = C Cᵀ."""

    W: Array
    """U C⁻ᵀ (6, n)."""
    turned: Array
    """H* C⁻ᵀ (6, n)."""
    inner: Array
    """C⁻¹ (n, n)."""


class LoopedTree:
    """A tree whose dynamics are loops over its nodes."""

    def __init__(self, space: StepSpace) -> None:
        self.space, self.tree = space, space.tree
        self.suffix = ""
        """Of the names of the buffers that a pose and its factor of M are in."""
        self.motors = MotorNumbers(space)
        self.motions = motion_space(space.model, self.tree)
        self.carries = self.motions.width < 6 and longest_chain(self.tree.parents) > LONG_CHAIN
        """Whether momenta are carried from step to step
        (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_momentum`), so that no step knows inertial
        forces.
        """
        nodes, nv, width = len(self.tree.nodes), space.model.nv, self.motions.width
        self.sizes = sorted({node.joint.nv for node in self.tree.nodes})
        """Freedoms that joints of this tree have."""
        widest = self.sizes[-1]
        self.limbed = False
        """Whether rows of single blocks are worked out along the nodes that move them."""
        space.work(
            W=(nv, width),
            turned=(nv, width),
            inner=(nv, widest),
            reaction=(nodes + 1, 3, width),  # z of up to three rows
            rate=(nodes + 1, width),  # α
            stiff=(nv,),
            bias=(nv,),
            thrust=(nv,),
            half=(nv,),
        )
        space.index("parent", [nodes if parent < 0 else parent for parent in self.tree.parents])
        space.index("first", [part.start for part in self.tree.v_slices])
        space.index("freedoms", [self.sizes.index(node.joint.nv) for node in self.tree.nodes])

    def poses(self) -> list[Statement]:
        """See :class:`TreeInStep`."""
        m = self._mechanism()
        links = m.still(Argument("now q"))  # type: ignore[arg-type]
        poses = world_poses(m.sweep, links)
        self._store(m.sweep, "pose", NODE, [[[*X.R.ravel(), *X.p]] for X in poses])
        self._store(m.sweep, "screw", "v", [screws_of(X, link.H) for X, link in zip(poses, links, strict=True)])
        return self._inline_sweep("poses", m.sweep)

    def dynamics(self) -> list[Statement]:
        """See :class:`TreeInStep`."""
        return [*self.push(self.factor()), *self.forward("half", "free", "now v")]

    def push(self, factor: Sequence[Statement]) -> list[Statement]:
        """``half``: F h (τ − c), of all but impulses; ``factor``: what has to be found of M for that."""
        at, each = self.space.at, self.space.each

        def drive(q: Array, v: Array, tau: Array, h: Any, *rest: Any) -> list[Any]:
            m = Mechanism(self.tree)
            tau, ctrl = self.motors.forces(m, q, v, tau, h, rest)
            damping = self.motors.damping(h, rest)
            stiff = h * implicit_dampings(self.space.model, h, damping).diagonal
            given = h * (tau + self.motors.released_forces(q, ctrl, rest) + forces_of_joints(m, q, v, h, damping))
            return [stiff, given, *self.motors.numbers(m, q, tau, ctrl, h)]

        reads = [*each(("now q", "now v")), *each(("tau", "dt"), STEP), *self.motors.reads()]
        less_bias = traced_block(
            lambda given, bias, h: [given - h * bias], [*each(("thrust", "bias")), at("dt", STEP)], [at("thrust")]
        )
        return [
            *self.motors.pull_tendons(),
            traced_block(drive, reads, [*each(("stiff", "thrust")), *self.motors.writes()]),
            *factor,
            less_bias,
            *self.backward(RowPlace("thrust"), RowPlace("half")),
        ]

    @property
    def damped(self) -> bool:
        """Whether something acts at the velocity of the end of a step, as an inertia that depends on its length."""
        space = self.space
        return space.actuators.acting or space.driven.held or any(joint.has_springs for joint in space.model.joints)

    def factor(self) -> list[Statement]:
        """W, H* C⁻ᵀ and C⁻¹ of every joint, and the bias of the motion that keeps its velocities in space; of rest,
        where momenta are carried."""
        m = self._mechanism()
        q, v, stiff = (Argument(name) for name in ("now q", "now v", "stiff"))
        links = m.still(q) if self.carries else m.moving(q, v)  # type: ignore[arg-type]
        links = m.sweep.map(_stiffer, links, m.velocities(stiff))
        still = m.sweep.map(_kept_in_space, m.nodes, m.velocities(v))
        m.sweep.result("bias", "v", inverse.inverse_dynamics(m.sweep, links, still, m.base))

        def eliminate(children: Any, link: Link) -> tuple[Any, Halved]:
            P = dense(link.M) + children
            K, D, rest = split_inertia(P, link.H, link.J)
            roots = np.array([sqrt(d) for d in D.pivots], dtype=object)
            inner = (linalg.solve_lower(D.L, identity(len(D.L))).T * _reciprocals(roots)).T
            return link.X.inertia(rest), Halved(K @ (D.L * roots), link.H @ inner.T, inner)

        halves = m.sweep.gather(eliminate, 0, links)
        for name in ("W", "turned"):
            world = m.sweep.map(
                lambda X, half, name=name: self._in_world(X.R, getattr(half, name)), poses_of(m, links), halves
            )
            self._store(m.sweep, name, "v", world)
        self._store(m.sweep, "inner", "v", [half.inner for half in halves])
        if "weight" in self.space.buffers:
            self._store(m.sweep, "rotor", NODE, [[[link.J]] for link in links])
            weights = m.sweep.map(
                lambda X, link: self.motions.inertia(_matrix_in_world(X.R, dense(link.M))), poses_of(m, links), links
            )
            self._store_matrices(m.sweep, "weight", weights)
        return self._inline_sweep("recursion", m.sweep)

    def _in_world(self, R: Array, columns: Array) -> list[Array]:
        """Columns (6, n) of motions or wrenches, in the axes of the world, one after the other."""
        turned = [np.concatenate([R @ column[:3], R @ column[3:]]) for column in columns.T]
        return [self.motions.coordinates(column) for column in turned]

    def twists(self, velocity: str, into: str = "twist") -> list[Statement]:
        """See :class:`TreeInStep`; ``into``: in place of ``twist``, in the numbers of :class:`MotionSpace`."""
        motions = SPATIAL if into == "twist" else self.motions

        def carry(own: int, above: Array, X: Array, Y: Array, v: Array, screws: Array) -> list[Any]:
            twist = motions.moved_motion(above, X - Y)
            for i in range(own):
                twist = twist + v[0, i] * motions.coordinates(screws[i])
            return [twist]

        def reads(own: int) -> list[Piece]:
            return [*self.between(into), RowPlace(velocity).columns("first", own), self.own("screw", own)]

        return self.over_nodes(carry, reads, lambda _: [self.space.at(into, NODE)], start=into)

    def tell_limbs(self, supports: Sequence[Sequence[int]]) -> None:
        """See :class:`TreeInStep`: limbs are the nodes of a support, from the base on."""
        limbs = [tuple(self._moved_nodes(own)) for own in supports]
        kinds = list(dict.fromkeys(limbs))
        longest = max(map(len, kinds), default=0)
        self.limbed = 0 < longest < len(self.tree.nodes)
        if self.limbed:
            self.space.index(LIMB, [kinds.index(limb) for limb in limbs])
            self.space.index(LIMB_SIZE, [len(limb) for limb in kinds])
            self.space.index(LIMB_NODE, [[*limb, *[0] * (longest - len(limb))] for limb in kinds])

    def _moved_nodes(self, velocities: Sequence[int]) -> list[int]:
        """Nodes that have one of these velocities."""
        wanted = {*velocities}
        return [node for node, own in enumerate(self.tree.v_slices) if wanted & {*range(own.start, own.stop)}]

    def backward(self, rows: RowPlace, into: RowPlace, of_block: bool = False) -> list[Statement]:
        """See :class:`TreeInStep`."""
        count = rows.rows or 1
        if not of_block or not self.limbed:
            clear = Loop(NODE, len(self.tree.nodes) + 1, (self.space.put(0, self.reaction(NODE, count)),))
            return [clear, *self.gather_wrenches(rows, into)]
        world = self.reaction(Index(None, len(self.tree.nodes)), count)
        return [
            Lookup(LIMB, self.space.address(LIMB, BLOCK)),
            Lookup(LIMB_SIZE, self.space.address(LIMB_SIZE, LIMB)),
            self.space.put(0, into.whole(self.space.model.nv), world),
            Loop(PLACE, Index(LIMB_SIZE), (self._limb_node, self.space.put(0, self.reaction(NODE, count)))),
            *self.gather_wrenches(rows, into, of_limb=True),
        ]

    @property
    def _limb_node(self) -> Lookup:
        """The node at the place in hand."""
        return Lookup(NODE, self.space.address(LIMB_NODE, LIMB, PLACE))

    def reaction(self, node: str | Index, count: int = 1) -> Piece:
        """z of so many rows at a node, (count, width)."""
        place = Index(node) if isinstance(node, str) else node
        places = [
            Address("reaction", (place, Index(None, row), Index(None, i)))
            for row in range(count)
            for i in range(self.motions.width)
        ]
        return Piece((count, self.motions.width), tuple(places))

    def gather_wrenches(self, rows: RowPlace, into: RowPlace, of_limb: bool = False) -> list[Statement]:
        """:meth:`backward` of rows J and of wrenches −z, which are in ``reaction`` and are used up; ``of_limb``: both
        vanish but for the nodes of the limb in hand."""
        count = rows.rows or 1

        def gather(own: int, z: Array, above: Array, X: Array, Y: Array, J: Array, *rest: Array) -> list[Any]:
            W, turned, inner = rest
            b = [_lower(inner, row) - turned @ wrench for row, wrench in zip(J, z, strict=True)]
            on = [wrench + W.T @ part for wrench, part in zip(z, b, strict=True)]
            return [b, [a + self.motions.moved_wrench(f, X - Y) for a, f in zip(above, on, strict=True)]]

        def reads(own: int) -> list[Piece]:
            ends = [self.reaction(NODE, count), self.reaction("parent", count)]
            places = [*ends, self.origin(NODE), self.origin("parent")]
            return [*places, rows.columns("first", own), *[self.own(n, own) for n in ("W", "turned", "inner")]]

        def writes(own: int) -> list[Piece]:
            return [into.columns("first", own), self.reaction("parent", count)]

        return self.over_nodes(gather, reads, writes, backwards=True, of_limb=of_limb)

    def reached(self, velocities: Sequence[int]) -> list[int]:
        """See :class:`TreeInStep`."""
        own = self.tree.v_slices
        below = {k for node in self._moved_nodes(velocities) for k in self.tree.path(node)}
        return sorted(x for node in below for x in range(own[node].start, own[node].stop))

    def forward(self, y: str, into: str, plus: str | None = None) -> list[Statement]:
        """See :class:`TreeInStep`."""

        def release(own: int, above: Array, X: Array, Y: Array, y: Array, *rest: Array) -> list[Any]:
            W, turned, inner, *base = rest
            rate = self.motions.moved_motion(above, X - Y)
            x = y[0] - W @ rate
            found = _lower(inner.T, x, upper=True)
            return [rate + turned.T @ x, found + base[0][0] if base else found]

        def reads(own: int) -> list[Piece]:
            rows = [RowPlace(y).columns("first", own), *[self.own(n, own) for n in ("W", "turned", "inner")]]
            return [*self.between("rate"), *rows, *([RowPlace(plus).columns("first", own)] if plus else [])]

        def writes(own: int) -> list[Piece]:
            return [self.space.at("rate", NODE), RowPlace(into).columns("first", own)]

        return self.over_nodes(release, reads, writes, start="rate")

    def energy(self, placed: bool = False) -> list[Statement]:
        """See :class:`TreeInStep`; that of elements, which index the tree, is written out."""
        m = self._mechanism()
        q = Argument("now q")
        links, at = m.still(q), self.space.at  # type: ignore[arg-type]
        found = gravitational_energy(m.sweep, links, m.gravity) + spring_energy(m.sweep, m.joints, m.coordinates(q))
        of_bodies = self._inline_sweep("energy", m.sweep, [(Address("energy", (Index(None, 0),)), found)])
        if not self.tree.model.elements:
            return of_bodies
        add = traced_block(
            lambda q, energy: [energy + element_energy(Mechanism(self.tree), q)],
            [at("now q"), at("energy")],
            [at("energy")],
        )
        return [*of_bodies, add]

    # ---- loops over nodes ----------------------------------------------------------------------------------------

    def _mechanism(self) -> LoopedMechanism:
        m = LoopedMechanism(self.tree)
        m.sweep.offsets[NODE] = np.arange(len(self.tree.nodes), dtype=np.int64)
        return m

    def _store(self, sweep: Looped, name: str, register: str, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows of a matrix, from the one of a register on; ``rows``: of each type of node."""
        stores = [
            [
                (Address(name, (Index(register, i), Index(None, j))), x)
                for i, row in enumerate(own)
                for j, x in enumerate(row)
            ]
            for own in rows
        ]
        sweep.results.append(Result(stores, sweep.latest([[x for _, x in pairs] for pairs in stores])))

    def _store_matrices(self, sweep: Looped, name: str, matrices: Sequence[Array]) -> None:
        """Write a matrix of every node; ``matrices``: of each type of node."""
        stores = [
            [(Address(name, (Index(NODE), Index(None, i), Index(None, j))), A[i, j]) for i, j in np.ndindex(A.shape)]
            for A in matrices
        ]
        sweep.results.append(Result(stores, sweep.latest([[x for _, x in pairs] for pairs in stores])))

    def _inline_sweep(self, prefix: str, sweep: Looped, whole: Sequence[tuple[Address, Any]] = ()) -> list[Statement]:
        statements, buffers = inline_program(assemble(prefix, sweep, (), whole), prefix)
        known = [b for b in buffers if b.name not in self.space.buffers]
        self.space.add(*known)
        return statements

    def over_nodes(
        self,
        function: Any,
        reads: Any,
        writes: Any,
        *,
        backwards: bool = False,
        start: str | None = None,
        first: tuple[Statement, ...] = (),
        then: tuple[Statement, ...] = (),
        of_limb: bool = False,
    ) -> list[Statement]:
        """A loop over nodes, with a case for each number of freedoms; ``start``: what is zero in the world;
        ``first`` and ``then``: what comes before it and follows it at every node; ``of_limb``: over those of the limb
        in hand.
        """
        cases: list[tuple[Statement, ...]] = [
            (traced_block(lambda *given, own=own: function(own, *given), reads(own), writes(own)),)
            for own in self.sizes
        ]
        lookups = [Lookup(name, self.space.address(name, NODE)) for name in ("parent", "first")]
        work: tuple[Statement, ...] = cases[0]
        if len(cases) > 1:
            work = (Lookup("freedoms", self.space.address("freedoms", NODE)), Switch("freedoms", tuple(cases)))
        body = (*lookups, *first, *work, *then)
        if of_limb:
            loop = Loop(PLACE, Index(LIMB_SIZE), (self._limb_node, *body), backwards=backwards)
        else:
            loop = Loop(NODE, len(self.tree.nodes), body, backwards=backwards)
        return [*([self._clear_world(start)] if start else []), loop]

    def _clear_world(self, name: str) -> Block:
        world = len(self.tree.nodes)
        return self.space.put(0, self.space.at(name, Index(None, world)))

    def between(self, name: str) -> list[Piece]:
        """Some motion of the parent, and the origins of a node and of its parent."""
        return [self.space.at(name, "parent"), self.origin(NODE), self.origin("parent")]

    def origin(self, register: str) -> Piece:
        """Where the node of a register has its origin, (3,)."""
        name = "pose" + self.suffix
        return Piece((3,), tuple(Address(name, (Index(register), Index(None, 9 + i))) for i in range(3)))

    def own(self, name: str, own: int) -> Piece:
        """The rows of a node's own velocities in W, H* C⁻ᵀ, C⁻¹ (own, own) or the motion of its screws."""
        width = {"inner": own, "screw": TWIST}.get(name, self.motions.width)
        name += self.suffix
        places = [Address(name, (Index("first", i), Index(None, j))) for i in range(own) for j in range(width)]
        return Piece((own, width), tuple(places))


def poses_of(m: Mechanism, links: Field) -> Field:
    """Poses of all nodes in the world."""
    return world_poses(m.sweep, links)


def _matrix_in_world(R: Array, A: Array) -> Array:
    """A matrix (6, 6) on motions, in the axes of the world."""
    return np.block([[R @ A[i : i + 3, j : j + 3] @ R.T for j in (0, 3)] for i in (0, 3)])


def _stiffer(link: Link, own: Array) -> Link:
    return link._replace(J=link.J + own[0]) if len(own) else link


def _kept_in_space(node: Any, v: Array) -> Array:
    """Accelerations (n,) of a joint whose velocities stay as they are in space."""
    return -node.joint.turning(v) if isinstance(node.joint, Free) else zeros(node.joint.nv)


def _lower(inner: Array, x: Array, upper: bool = False) -> Array:
    """A triangular matrix times a vector (n,), without its zeros."""
    n = len(x)
    parts = [range(i, n) if upper else range(i + 1) for i in range(n)]
    return np.array([sum((inner[i, j] * x[j] for j in part), start=0) for i, part in enumerate(parts)], dtype=object)


def _reciprocals(numbers: Array) -> Array:
    return np.array([1 / x for x in numbers], dtype=object)
