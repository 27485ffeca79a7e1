"""Interior-point steps for islands of a scene that Newton's method does not solve, inside its kernel.

The method is that of :mod:`whippletree.contact.problem.interior_point`: in variables in which every cone is the Lorentz
cone, x = (μ λₙ, λ_t) / √m and w = √m (uₙ / μ + |u_t|, u_t), x ∘ w = ν 1 is followed as ν falls, with De Saxcé's
correction and its derivative S, in Nesterov and Todd's scaling W. A step

    W² dx + (1 + S) J̃ dV = aim − (1 + S) r        M dV = J̃ᵀ dx        dw = aim − W² dx

is, contact by contact, of the form that Newton's method has (:mod:`~whippletree.compiler.rollout.scenes.scene_newton`),
with K = W⁻² (1 + S) in these variables: the same system of the bodies, the same elimination. There is one system to a
step, and no corrector: what a step aims at, σ ν, follows from how far the one before it got, σ = 1 − its share. It
begins at x − w as it is, parted into a pair with x ∘ w = ν 1 for a ν far above the residual. Of 26 islands that six
steps of Newton's method had left, it solves 23 in 17 steps on average; with Mehrotra's corrector, from the middle of
the cones, 23 in 13, each of two systems.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, If, Index, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.scenes.scene_contacts import BODY, SceneContacts, relative_velocity
from whippletree.compiler.rollout.scenes.scene_elimination import SIZE_OF_BODY
from whippletree.compiler.rollout.scenes.scene_islands import ONE_END, OTHER_END, OWN_ISLAND, SceneIslands
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT
from whippletree.contact.problem.cones import both, brought_inside, largest, length
from whippletree.contact.problem.contact_problem import block_measure
from whippletree.contact.problem.interior_point import INWARDS, STALLED_STEP
from whippletree.contact.problem.lorentz import CentralPair, Scaling, exit_rate, product, quotient

PATH_LENGTH = 35
"""Steps from one beginning at most."""

HIGH_START, LOWER_START, LOWEST_START = 1e4, 30.0, 10.0
"""ν of the first beginning, as a multiple of the square of the residual; by how much lower the next ones are, and how
low: then they begin as high as the first again. From 1e3 seven of 26 islands were not solved, from 1e4 three."""

SHORT_SHARE, SHORT_STEPS = 0.3, 6
"""A path ends after so many steps in a row of less than that share: it turns back, or numbers have no more digits."""

LOWEST_AIM = 0.05
"""Share of ν that a step aims at, at least."""


def lorentz_scale(mobility: Any, mu: Any) -> Array:
    """S (3,) with w = S u + s and λ = S x, for the mean mobility 1 / m of a contact and its friction."""
    root = 1 / sqrt(mobility)
    return vector(root / mu, root, root)


class InteriorSteps:
    """Statements for islands ``on path``. Buffers of Newton's method: stiffness, aim, bears, lever, aside of body."""

    def __init__(self, contacts: SceneContacts, islands: SceneIslands) -> None:
        self.space, self.contacts, self.islands = contacts.space, contacts, islands
        self.space.work(
            on_path=("N",),  # 1 for islands that take interior-point steps
            path_w=("C", 3),
            path_aim=("C", 3),
            path_step=("C", 3),  # dλ
            path_turn=("C", 3),  # dw
            path_nu=("N",),
            path_many=("N",),
            path_share=("N",),  # of the last step
            path_rate=("N",),  # at which a step leaves a cone, the largest
            path_left=("N",),  # steps
            path_height=("N",),  # ν of the next beginning
            path_slow=("N",),  # short steps, one after the other
            path_contact=("C",),
            any_path=(1,),
            no_path=(1,),
        )

    def _own(self, name: str, register: str = OWN_ISLAND) -> Piece:
        return Piece((), (Address(name, (Index(register),)),))

    def _each_island(self, *blocks: Statement) -> Statement:
        return Loop(BODY, "N", blocks)

    def _each(self, *statements: Statement) -> Statement:
        """Statements for the contacts of islands on a path."""
        flag = traced_block(lambda x: [[x]], [self._own("on path")], [self._own("path contact", CONTACT)])
        island = self.islands.island_register()
        return self.islands.unsettled.each(island, flag, If(self.space.address("path contact", CONTACT), statements))

    def velocity(self) -> list[Piece]:
        """What :func:`contact_velocity` reads."""
        contacts = self.contacts
        return [*contacts.of_contact("row", "shift"), *contacts.both("vel"), *contacts.leading()]

    # ---- the beginning -------------------------------------------------------------------------------------------

    def begin(self) -> list[Statement]:
        """Islands on a path begin near the impulses as they are.

        Those with contacts without friction do not, nor those with trees that have more velocities than a body: they
        take a step of Newton's method instead.
        """
        at, contacts = self.space.at, self.contacts
        wide = [self._own("on tree", CONTACT)] if contacts.trees and contacts.trees.velocities > SIZE_OF_BODY else []

        def size(p: Array, mu: Any, mobility: Any, height: Any, nu: Any, path: Any, *given: Any) -> list[Any]:
            u = contact_velocity(*given[len(wide) :])
            found = block_measure(mobility * identity(3), p, u, mu, 0)
            path = select(less(0, mu), path, -1)
            for on_tree in given[: len(wide)]:
                path = select(less(0, on_tree), -1, path)
            return [[largest([nu, height * found.impulse * mobility])], [path]]

        def part(p: Array, mu: Any, mobility: Any, nu: Any, *given: Any) -> list[Any]:
            S, u = lorentz_scale(mobility, mu), contact_velocity(*given)
            w = S * u
            w = vector(w[0] + length(w[1], w[2]), w[1], w[2])
            pair = CentralPair.of(p / S - w, nu)
            return [S * pair.x, pair.w]

        clear = traced_block(
            lambda: [[0], [1], [PATH_LENGTH], [0]],
            [],
            [self._own(name, BODY) for name in ("path nu", "path share", "path left", "path slow")],
        )
        law = contacts.of_contact("impulse", "friction", "mean mobility")
        nu, path = self._own("path nu"), self._own("on path")
        measure = traced_block(size, [*law, self._own("path height"), nu, path, *wide, *self.velocity()], [nu, path])
        begin = traced_block(part, [*law, nu, *self.velocity()], [at("impulse", CONTACT), at("path w", CONTACT)])
        lead = contacts.lead("vel")

        def settle(height: Any, steps: Any, began: Any, path: Any) -> list[Any]:
            after = select(less(height, LOWEST_START), HIGH_START, height / LOWER_START)
            refused = both(less(0, began), less(path, 0))
            return [[select(less(0, path), after, height)], [select(refused, 1, steps)], [path]]

        names = ("path height", "steps now", "path began", "on path")
        state = [self._own(name, BODY) for name in names]
        lower = traced_block(settle, state, state[:3])
        return [
            self._each_island(clear),
            self._each(*lead, measure),
            self._each(*lead, begin),
            self._each_island(lower),
        ]

    # ---- a step --------------------------------------------------------------------------------------------------

    def find_gaps(self) -> list[Statement]:
        """The mean of x · w of each island on a path, and whether there is any."""
        at, put, contacts = self.space.at, self.space.put, self.contacts

        def add(p: Array, w: Array, mu: Any, mobility: Any, nu: Any, many: Any) -> list[Any]:
            return [[nu + (p / lorentz_scale(mobility, mu)) @ w], [many + 1]]

        totals = [self._own("path nu"), self._own("path many")]
        reads = [at("impulse", CONTACT), at("path w", CONTACT), *contacts.of_contact("friction", "mean mobility")]
        gap, many = self._own("path nu", BODY), self._own("path many", BODY)
        mean = traced_block(lambda nu, many: [[nu / select(less(0, many), many, 1)]], [gap, many], [gap])
        return [
            self._each_island(put(0, gap, many, self._own("path rate", BODY))),
            self._each(traced_block(add, [*reads, *totals], totals)),
            self._each_island(mean),
        ]

    def law(self) -> Statement:
        """K and f of the contact in hand, where its island is on a path."""
        at, contacts = self.space.at, self.contacts

        def law(p: Array, w: Array, mu: Any, mobility: Any, nu: Any, share: Any, *given: Any) -> list[Any]:
            S, u = lorentz_scale(mobility, mu), contact_velocity(*given[1:])
            x = p / S
            W = Scaling.of(x, w)
            scaled = W.matrix @ x
            sigma = largest([1 - share, LOWEST_AIM])
            target = vector(sigma * nu, 0, 0) - product(scaled, scaled)
            aim = W.matrix @ quotient(target, scaled)
            side = length(w[1], w[2])
            some = less(0, side)
            e1, e2 = (select(some, t / select(some, side, 1), 0) for t in w[1:])
            left = np.array([[1, e1, e2], [0, 1, 0], [0, 0, 1]], dtype=object)
            r = S * u - w
            r = vector(r[0] + side, r[1], r[2])
            ease = W.inverse @ W.inverse
            K = S[:, None] * (ease @ left) * S
            f = -(S * (ease @ (aim - left @ r)))
            return [K, f, [1], [given[0]], aim]

        reads = [at("impulse", CONTACT), at("path w", CONTACT), *contacts.of_contact("friction", "mean mobility")]
        reads += [self._own("path nu"), self._own("path share"), self._own("couples", CONTACT), *self.velocity()]
        flags = [self._own("bears", CONTACT), self._own("couples", CONTACT)]
        writes = [at("stiffness", CONTACT), at("aim", CONTACT), *flags, at("path aim", CONTACT)]
        return traced_block(law, reads, writes)

    def move(self) -> list[Statement]:
        """Go as far along the step as every island can go."""
        at, contacts = self.space.at, self.contacts

        def direct(p: Array, w: Array, mu: Any, mobility: Any, rate: Any, *given: Any) -> list[Any]:
            aim, f, K, J, L, one, other = given
            S = lorentz_scale(mobility, mu)
            d = -f - K @ (J @ one + L @ other)
            dx = d / S
            x = p / S
            turn = aim - Scaling.of(x, w).square @ dx
            out = largest([exit_rate(x, dx), exit_rate(w, turn)])
            # a number that is none leads nowhere
            out = select(less(out, math.inf), out, math.inf)
            return [d, turn, [largest([rate, out])]]

        def share(rate: Any, left: Any, slow: Any, path: Any) -> list[Any]:
            far = select(less(INWARDS, rate), INWARDS / select(less(INWARDS, rate), rate, 1), 1)
            slower = select(less(far, SHORT_SHARE), slow + 1, 0)
            goes = both(both(less(STALLED_STEP, far), less(1, left)), less(slower, SHORT_STEPS))
            return [[far], [left - 1], [slower], [select(goes, path, -1)]]

        def go(p: Array, w: Array, d: Array, turn: Array, share: Any) -> list[Any]:
            moves = less(STALLED_STEP, share)
            return [
                [select(moves, a + share * b, a) for a, b in zip(x, dx, strict=True)] for x, dx in ((p, d), (w, turn))
            ]

        own = [at("impulse", CONTACT), at("path w", CONTACT)]
        rate = self._own("path rate")
        reads = [*own, *contacts.of_contact("friction", "mean mobility"), rate, at("path aim", CONTACT)]
        reads += [at("aim", CONTACT), at("stiffness", CONTACT)]
        reads += [at("lever", CONTACT, Index(None, side)) for side in range(2)]
        reads += [at("aside of body", end) for end in (ONE_END, OTHER_END)]
        steps = [at("path step", CONTACT), at("path turn", CONTACT)]
        names = ("path rate", "path left", "path slow", "on path")
        of_island = [self._own(name, BODY) for name in names]
        choose = traced_block(share, of_island, [self._own("path share", BODY), *of_island[1:]])
        along = traced_block(go, [*own, *steps, self._own("path share")], own)
        ends = self.islands.end_registers()
        return [
            self._each(*ends, traced_block(direct, reads, [*steps, rate])),
            self._each_island(choose),
            # also of islands whose last step this was
            self.islands.unsettled.each(
                self.islands.island_register(), If(self.space.address("path contact", CONTACT), (along,))
            ),
        ]

    def judge(self) -> list[Statement]:
        """Residuals of the islands on a path; those within the ``goal`` have arrived."""
        at, put, contacts = self.space.at, self.space.put, self.contacts

        def look(p: Array, mu: Any, mobility: Any, worst: Any, *given: Any) -> list[Any]:
            inside = brought_inside(p, mu, 0)
            found = block_measure(mobility * identity(3), inside, contact_velocity(*given), mu, 0)
            return [[largest([worst, found.velocity])]]

        def end(residual: Any, path: Any, goal: Array, any_path: Array) -> list[Any]:
            after = select(less(goal[0] * goal[0], residual), path, -1)
            return [[after], [largest([any_path[0], after])]]

        path, worst = self._own("on path", BODY), self._own("island residual")
        reads = [*contacts.of_contact("impulse", "friction", "mean mobility"), worst, *self.velocity()]
        clear = traced_block(
            lambda path, residual: [[select(less(0, path), 0, residual)]],
            [path, self._own("island residual", BODY)],
            [self._own("island residual", BODY)],
        )
        last = traced_block(
            end, [self._own("island residual", BODY), path, at("goal"), at("any path")], [path, at("any path")]
        )
        return [
            self._each_island(clear),
            self._each(*contacts.lead("vel"), traced_block(look, reads, [worst])),
            put(-1, at("any path")),
            self._each_island(last),
            traced_block(lambda x: [-x], [at("any path")], [at("no path")]),
        ]


def contact_velocity(row: Array, shift: Any, first: Array, second: Array, *led: Array) -> Array:
    """u (3,) of a contact, with what it has to close added to its normal part."""
    bare = sum((x[:3] for x in led), start=relative_velocity(row, first, second))
    return vector(bare[0] + shift, bare[1], bare[2])
