"""Momenta of bodies that a compiled step carries from one pose to the next, in place of inertial forces.

A body of a tree keeps its momentum until something pushes. Joint velocities do not stay as they are for that: the axes
turn, and a step that takes inertial forces as they are at its beginning is wrong by the square of the turn in it. In a
long chain all these errors point the same way. Links that zigzag at ω shorten a straight chain of n links of length l
by n l (ω h)² / 2 in a step: they can turn by about 1/n before the inertia of the chain turns them back. Where a step is
longer than that, forces of its beginning put energy into the chain, until it is torn apart.

Here no step knows inertial forces. Let T be the velocities (ω, v) of all bodies, at their centres of mass, that joints
and loops of a pose permit, and P the projection onto T that is orthogonal in the metric of all masses: the velocity
after the impulses that joints and loops would need. A step ends with u in T of its beginning, and goes on with

    y = P⁺ u        v⁺ = P⁺ (u + (u − P y) / 2)        P at the beginning of the step, P⁺ at its end

P⁺ u alone would be right to first order, and slow down whatever turns: a wheel that turns by ω h in a step loses
(ω h)² / 2 of its speed. The second term takes that back. With c ≤ 1 the cosine of an angle between both spaces, v⁺ has
(3 c − c³) / 2 ≤ 1 of the velocity along it: the first step of Newton's and Schulz's iteration for the rotation that
takes the one space into the other. So kinetic energy never grows, however far a step goes, and what a step resolves
keeps it up to (ω h)⁴. What a step does not resolve is lost, as it is in an impact.

Coordinates follow the same bodies. Joint angles that go on at their rates lead along circles, not along the way that
bodies take by themselves, and a step that moves like this drives the waves of a belt that runs. So q⁺ is where bodies
come nearest to straight lines: the displacement h θ̇ of the joints is completed by the projection P of what is missing
to x + h u, which is of second order in h.

In a plane, a body's velocity has three numbers, and masses are the same in any pose. Rotors, and dampers that act at
the end of a step, are inertias of their joints' own velocities, and are carried beside the bodies.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Address, Index, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_closures import Closures
from whippletree.compiler.rollout.contact_lists.contact_list_looped_tree import NODE, LoopedTree
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import VELOCITY
from whippletree.compiler.rollout.step_space import STEP, RowPlace, StepSpace
from whippletree.tree.links import dense, world_poses
from whippletree.tree.mechanism import Mechanism

PAST = " before"
"""What the names of buffers end with that hold the beginning of a step."""


class CarriedMomentum:
    """Statements that carry the momenta of a planar tree. Buffers: ``carried``, velocities (ω, a, b) of all bodies at
    their centres of mass, and ``carried rate``, those of the joints; ``there`` and ``there rate`` after a projection.
    """

    def __init__(self, space: StepSpace, tree: LoopedTree, closures: Closures) -> None:
        self.space, self.tree, self.closures = space, tree, closures
        self.nodes, self.nv, self.width = len(space.tree.nodes), space.model.nv, tree.motions.width
        kept = ["W", "turned", "inner", "pose", *(["Q"] if closures.count else [])]
        self.kept = {name: space.buffers[name].shape for name in kept}
        space.work(**{name + PAST: shape for name, shape in self.kept.items()})
        self.past_tree, self.past_closures = copy.copy(tree), copy.copy(closures)
        self.past_tree.suffix = self.past_closures.suffix = PAST
        bodies, rates = (self.nodes + 1, self.width), (self.nv,)
        space.work(end_motion=bodies, carried=bodies, there=bodies, straight_on=bodies)
        space.work(carried_rate=rates, there_rate=rates, joint_momentum=rates)
        masses, centres, rotors = self._inertias()
        space.table("body masses", masses)
        space.table("mass centre", centres)
        space.table("rotors", rotors)

    def _inertias(self) -> tuple[Array, Array, Array]:
        """For each node its inertia about its centre and its mass, (nodes, 2), and that centre in its frame (nodes, 3);
        of each velocity the inertia of its rotor (nv,).
        """
        m, normal = Mechanism(self.space.tree), self.tree.motions.basis[:3, 0]
        links = m.still(np.asarray(self.space.model.home.q, dtype=float).astype(object))
        masses, centres, rotors = np.zeros((self.nodes, 2)), np.zeros((self.nodes, 3)), np.zeros(self.nv)
        for k, (X, link) in enumerate(zip(world_poses(m.sweep, links), links, strict=True)):
            M, axis = dense(link.M).astype(float), X.R.astype(float).T @ normal
            mass, across = M[3, 3], M[:3, 3:]  # m c×
            moment = np.array([across[2, 1], across[0, 2], across[1, 0]])
            centres[k] = moment / mass if mass else 0.0
            arm = centres[k] - axis * (axis @ centres[k])
            masses[k] = axis @ M[:3, :3] @ axis - mass * (arm @ arm), mass
            rotors[self.space.tree.v_slices[k]] = float(link.J)
        return masses, centres, rotors

    def begin(self) -> list[Statement]:
        """Before the first step: no dampers are known."""
        return [Loop(VELOCITY, self.nv, (self.space.put(0, self._one("stiff")),))]

    def factor(self) -> list[Statement]:
        """The factor of M at the present pose, and what loops take of it; that with which the next step begins."""
        return [*self.tree.factor(), *self.closures.factor()]

    def dynamics(self) -> list[Statement]:
        """``free``: the velocity without impulses, among those that joints and loops permit."""
        found = self.tree.push(self.factor() if self.tree.damped else [])
        return [*found, *self.closures.project(RowPlace("half")), *self.tree.forward("half", "free", "now v")]

    def remember(self) -> list[Statement]:
        """The end of a step before it moves: its velocities, its factor of M and its poses."""
        copies = [
            Loop(NODE, int(shape[0]), (self._copy(name, name + PAST, NODE),)) for name, shape in self.kept.items()
        ]

        def go_on(R: Array, p: Array, centre: Array, w: Array, h: Any) -> list[Any]:
            return [self._place(R, p, centre) + h * np.array([0, w[1], w[2]], dtype=object)]

        at = self.space.at
        here = [self._turn(self.tree), self.tree.origin(NODE), at("mass centre", NODE)]
        ahead = traced_block(go_on, [*here, at("carried", NODE), at("dt", STEP)], [at("straight on", NODE)])
        return [
            *copies,
            *self.tree.twists("end v", "end motion"),
            self._seen_at_centres("end motion", "carried", self.tree),
            self._copies_of_rates("end v", "carried rate"),
            Loop(NODE, self.nodes, (ahead,)),
        ]

    def advance(self) -> list[Statement]:
        """``now q`` and ``now v`` where straight lines of all bodies lead, as far as joints and loops permit."""
        at, each = self.space.at, self.space.each

        def move(q: Array, v: Array, d: Array) -> list[Any]:
            return list(Mechanism(self.space.tree).manifold().straight(q, v, d))

        def miss(goal: Array, R: Array, p: Array, centre: Array) -> list[Any]:
            return [goal - self._place(R, p, centre)]

        here = [self._turn(self.tree), self.tree.origin(NODE), at("mass centre", NODE)]
        missing = traced_block(miss, [at("straight on", NODE), *here], [at("there", NODE)])
        places = each(("now q", "now v"))
        turns = traced_block(lambda q, v, h: move(q, v, h * v), [*each(("now q", "end v")), at("dt", STEP)], places)
        return [
            turns,
            *self.tree.poses(),
            Loop(NODE, self.nodes, (missing,)),
            Loop(VELOCITY, self.nv, (self.space.put(0, self._one("there rate")),)),
            *self._project("there", self.past_tree, self.past_closures),
            traced_block(move, [*places, at("there rate")], places),
        ]

    def _place(self, R: Array, p: Array, centre: Array) -> Array:
        """Turn (0, as all turns are those of the joints) and place of a centre of mass in the plane, (3,)."""
        x, y = self.tree.motions.basis[3:, 1:].T
        found = p + R.reshape(3, 3) @ centre
        return np.array([0, x @ found, y @ found], dtype=object)

    def arrive(self) -> list[Statement]:
        """``now v`` at the pose that the step has led to."""
        at, each = self.space.at, self.space.each

        def straighten(u: Array, back: Array) -> list[Any]:
            return [u + (u - back) / 2]

        bodies = traced_block(straighten, each(("carried", "there"), NODE), [at("carried", NODE)])
        rates = [self._one(name) for name in ("carried rate", "there rate")]
        own = traced_block(lambda u, back: [straighten(u, back)], rates, rates[:1])
        return [
            *self._project("carried", self.tree, self.closures),
            *self._project("there", self.past_tree, self.past_closures),
            Loop(NODE, self.nodes, (bodies,)),
            Loop(VELOCITY, self.nv, (own,)),
            *self._project("carried", self.tree, self.closures),
            self._copies_of_rates("there rate", "now v"),
        ]

    def _project(self, name: str, tree: LoopedTree, closures: Closures) -> list[Statement]:
        """``there`` := the projection of velocities onto those that the pose of a tree permits."""
        at = self.space.at

        def momenta(w: Array, masses: Array, R: Array, centre: Array) -> list[Any]:
            turn, a, b = w
            wrench = np.array([masses[0] * turn, masses[1] * a, masses[1] * b], dtype=object)
            return [-self.tree.motions.moved_wrench(wrench, R.reshape(3, 3) @ centre)]

        reads = [at(name, NODE), at("body masses", NODE), self._turn(tree), at("mass centre", NODE)]
        thrown = traced_block(momenta, reads, [tree.reaction(NODE)])
        world = self.space.put(0, tree.reaction(Index(None, self.nodes)))
        own = [self._one(f"{name} rate"), self._one("rotors"), self._one("stiff")]
        joints = traced_block(lambda v, J, stiff: [[v * (J + stiff)]], own, [self._one("joint momentum")])
        return [
            Loop(NODE, self.nodes, (thrown,)),
            world,
            Loop(VELOCITY, self.nv, (joints,)),
            *tree.gather_wrenches(RowPlace("joint momentum"), RowPlace("half")),
            *closures.project(RowPlace("half")),
            *tree.forward("half", "there rate"),
            self._seen_at_centres("rate", "there", tree),
        ]

    def _seen_at_centres(self, motions: str, into: str, tree: LoopedTree) -> Statement:
        """Motions of all nodes about their origins, as velocities of their centres of mass."""

        def move(motion: Array, R: Array, centre: Array) -> list[Any]:
            return [self.tree.motions.moved_motion(motion, R.reshape(3, 3) @ centre)]

        at = self.space.at
        reads = [at(motions, NODE), self._turn(tree), at("mass centre", NODE)]
        return Loop(NODE, self.nodes, (traced_block(move, reads, [at(into, NODE)]),))

    def _turn(self, tree: LoopedTree) -> Piece:
        """R of the node in hand, (9,)."""
        name = "pose" + tree.suffix
        return Piece((9,), tuple(Address(name, (Index(NODE), Index(None, i))) for i in range(9)))

    def _one(self, name: str) -> Piece:
        """The number of the velocity in hand."""
        return Piece((), (self.space.address(name, VELOCITY),))

    def _copies_of_rates(self, name: str, into: str) -> Statement:
        copied = traced_block(lambda v: [[v]], [self._one(name)], [self._one(into)])
        return Loop(VELOCITY, self.nv, (copied,))

    def _copy(self, name: str, into: str, register: str) -> Statement:
        return traced_block(lambda x: [x], [self.space.at(name, register)], [self.space.at(into, register)])
