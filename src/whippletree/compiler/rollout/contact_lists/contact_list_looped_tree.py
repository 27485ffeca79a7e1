"""A long tree in a compiled step: loops over its nodes, whose code does not grow with the tree.

Of :class:`~whippletree.compiler.rollout.contact_lists.contact_list_trees.TreeInStep`, F is that of the articulated
recursion of :mod:`whippletree.tree.forward`, with D = C Cᵀ at every joint, U = P H* and W = U C⁻ᵀ,

    inwards    b = C⁻¹ (J − H z)          z⁺ = z + W b                         F Jᵀ = b
    outwards   x = y − Wᵀ α⁺              α = α⁺ + H* C⁻ᵀ x                    Fᵀ y = C⁻ᵀ x

in the axes of the world, about the nodes' origins: O(N) for any row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.scalars import sqrt
from whippletree.compiler.frontend.loops import Looped, assemble
from whippletree.compiler.frontend.loops.looped_functions import Argument, LoopedMechanism
from whippletree.compiler.frontend.loops.recorder import Result
from whippletree.compiler.frontend.node_wrenches import TWIST, screws_of
from whippletree.compiler.program import Address, Block, Index, Lookup, Loop, Statement, Switch
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import inline_program
from whippletree.compiler.rollout.contact_lists.contact_list_motors import MotorNumbers
from whippletree.compiler.rollout.motion_space import SPATIAL, motion_space
from whippletree.compiler.rollout.step_space import BLOCK, LIMB, STEP, RowPlace, StepSpace
from whippletree.contact.implicit_springs import forces_of_joints, implicit_dampings
from whippletree.spatial.joints import Free
from whippletree.tree import inverse
from whippletree.tree.element_forces import element_energy
from whippletree.tree.forward import split_inertia
from whippletree.tree.links import Link, dense, world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.momentum import gravitational_energy, spring_energy
from whippletree.tree.skeleton import LONG_CHAIN, longest_chain
from whippletree.tree.sweeps import Field

NODE, TOUCHED = "node", "touched"
"""The register of a node, and of the one that the block in hand touches."""

LIMB_SIZE, LIMB_NODE, PLACE = "limb size", "limb node", "place in limb"
"""Tables, and registers: how many nodes a limb has, and which; the register of one of its places."""


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
