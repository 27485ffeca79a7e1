"""Moments of contacts against spinning and rolling, in the kernel of a scene of many free bodies.

A contact that presses with λₙ has moments about its axes, too (:mod:`whippletree.contact.problem.contact_problem`):
about the normal within ± ρ λₙ of torsional friction, about both tangents within a disc of the radius ρ λₙ of rolling
friction. They act against the angular velocity E (ω₁ − ω₂) of its bodies. Each sweep finds them after the impulse of
the contact, whose λₙ they then know, so that every moment that it leaves is inside its bounds.

Where no contact of a scene has any, its kernel knows nothing of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Buffer, If, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.scenes.scene_contacts import (
    FIRST,
    ISLAND,
    SCALING,
    SECOND,
    TREE_MOTION,
    SceneContacts,
    matrix_of,
    scaling_of_trees,
)
from whippletree.compiler.rollout.scenes.scene_leaps import SceneLeaps
from whippletree.compiler.rollout.scenes.scene_stirring import Stirring
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT
from whippletree.contact.problem.cones import largest
from whippletree.contact.problem.contact_problem import BlockScaling, block_measure, block_scaling, step_moments
from whippletree.contact.restitution_share import mixed_impulse


class SceneMoments:
    """Statements about the moments of the contact in hand."""

    def __init__(self, contacts: SceneContacts) -> None:
        self.contacts, self.space, self.trees = contacts, contacts.space, contacts.trees
        self.space.work(
            moment=("C", 3),
            moment_start=("C", 3),  # where the last pair of sweeps began
            moment_before=("C", 3),  # after the pair of sweeps before
            resists=("C",),  # 1 where a contact has moments, else −1
            moment_turns=("C", 2, 3, 3),  # how moments turn both bodies
            moment_scaling=("C", SCALING),
            moment_mobility=("C", 2),
            turn_approach=("C", 3),  # E (ω₁ − ω₂) at the beginning of the step
            newton_moment=("C", 3),  # with restitution, and without
            plastic_moment=("C", 3),
        )

    @staticmethod
    def arguments() -> tuple[list[Buffer], list[Buffer]]:
        """Inputs and outputs of the kernel, after its others."""
        shares, before = Buffer("moment shares", "input", ("C", 2)), Buffer("moments0", "input", ("C", 3))
        return [shares, before], [Buffer("moments", "output", ("C", 3))]

    def begin(self) -> list[Statement]:
        """Moments of the last step, at the beginning of a call."""
        copy = traced_block(
            lambda m, shares: [m, [select(less(0, shares[0] + shares[1]), 1, -1)]],
            self._of_contact("moments0", "moment shares"),
            self._of_contact("moment", "resists"),
        )
        return [copy]

    def results(self) -> list[Statement]:
        """Moments at the end of a call; a contact that does not press has none, whatever it had."""
        copy = traced_block(
            lambda m, p: [[select(less(0, p[0]), x, 0) for x in m]],
            self._of_contact("moment", "impulse"),
            self._of_contact("moments"),
        )
        return [copy]

    # ---- the contact in hand -------------------------------------------------------------------------------------

    def _of_contact(self, *names: str) -> list[Piece]:
        return self.contacts.of_contact(*names)

    def _if_any(self, *statements: Statement) -> list[Statement]:
        return [If(self.space.address("resists", CONTACT), statements)]

    def _turning(self, name: str) -> list[Piece]:
        """Angular velocities of both bodies, (3,) each."""
        return [Piece((3,), self.space.at(name, body).addresses[:3]) for body in (FIRST, SECOND)]

    def _lead(self) -> list[Statement]:
        return self.trees.lead(TREE_MOTION["vel"], turning=True) if self.trees else []

    def _leading(self) -> list[Piece]:
        return self._of_contact("turning lead") if self.trees else []

    def _giving(self) -> list[Piece]:
        return [self.space.at("turning given")] if self.trees else []

    def _follow(self) -> list[Statement]:
        return self.trees.follow(TREE_MOTION["vel"], turning=True) if self.trees else []

    def prepare(self) -> list[Statement]:
        """Rows of a contact that is new in the list, and what the moments of the step before do to its bodies."""

        def rows(touch: Array, p: Array, m: Array, shares: Array, *of_bodies: Array) -> list[Any]:
            (mobilities, start, now), of_trees = (of_bodies[i : i + 2] for i in (0, 2, 4)), of_bodies[6:]
            E = touch[4:].reshape(3, 3)
            turned = [E @ matrix_of(body[1:]) for body in mobilities]
            G = sum(map(matrix_of, of_trees), start=(turned[0] + turned[1]) @ E.T)
            scaling = scaling_of_trees(G) if of_trees else block_scaling(G)
            m = within_bounds(m, shares * largest([p[0], 0]))
            found = [turned, list(scaling), [G[0, 0] / 3, (G[1, 1] + G[2, 2]) / 3], E @ (start[0] - start[1])]
            return [*found, m, m, m, now[0] + m @ turned[0], now[1] - m @ turned[1], *[m for _ in of_trees]]

        bodies = [self.space.at("mobility", body) for body in (FIRST, SECOND)]
        reads = [*self._of_contact("touch", "impulse", "moment", "moment shares"), *bodies]
        reads += [*self._turning("start"), *self._turning("vel")]
        reads += self._of_contact("turning tree own") if self.trees else []
        names = ("moment turns", "moment scaling", "moment mobility", "turn approach")
        moments = self._of_contact("moment", "moment start", "moment before")
        writes = [*self._of_contact(*names), *moments, *self._turning("vel"), *self._giving()]
        of_trees = self.trees.make_rows(turning=True) if self.trees else []
        return self._if_any(*of_trees, traced_block(rows, reads, writes), *self._follow())

    def _feel(self, row: Array, first: Array, second: Array, *led: Array) -> Array:
        """E (ω₁ − ω₂) (3,)."""
        return sum((x[:3] for x in led), start=row[:9].reshape(3, 3) @ (first - second))

    def _felt(self) -> list[Piece]:
        """Numbers that :meth:`_feel` takes, after :meth:`_lead`."""
        return [*self._of_contact("row"), *self._turning("vel"), *self._leading()]

    def _law(self) -> list[Piece]:
        return self._of_contact("moment scaling", "moment shares", "impulse")

    def _exchange(self, answer: Any, reads: list[Piece], writes: list[Piece]) -> list[Statement]:
        """The contact feels how its bodies turn, answers with a change of its moments, and turns them by it."""
        felt = self._felt()

        def whole(turned: Array, *given: Any) -> list[Any]:
            d, found = answer(self._feel(*given[: len(felt)]), *given[len(felt) :])
            first, second = given[1:3]
            return [*found, first + d @ turned[0], second - d @ turned[1], *[d for _ in self._giving()]]

        block = traced_block(
            whole,
            [*self._of_contact("moment turns"), *felt, *reads],
            [*writes, *self._turning("vel"), *self._giving()],
        )
        return self._if_any(*self._lead(), block, *self._follow())

    def sweep_there(self) -> list[Statement]:
        """From where the shares lead."""

        def there(
            w: Array, now: Array, start: Array, before: Array, ahead: Array, *law: Any
        ) -> tuple[Array, list[Any]]:
            m = SceneLeaps.ahead(now, start, before, ahead)
            after = _better(w, m, *law)
            return after - m, [after, m, now]

        own = self._of_contact("moment", "moment start", "moment before")
        return self._exchange(there, [*own, self.space.at("shares"), *self._law()], own)

    def sweep_back(self) -> list[Statement]:
        """The second sweep, and what the next start is found from."""
        carried = self._of_contact("turning carried") if self.trees else []

        def back(w: Array, now: Array, start: Array, before: Array, *rest: Any) -> tuple[Array, list[Any]]:
            change, rise, mobility, *given = rest
            speeds, law = given[: len(carried)], given[len(carried) :]
            after = _better(w, now, *law)
            d = after - now
            squares = mobility[0] * mobility[0] * d[0] * d[0], mobility[1] * mobility[1] * (d[1] * d[1] + d[2] * d[2])
            for speed in speeds:  # as of contacts: trees have y alone among the motions whose energy is asked for
                rise = rise + vector(speed @ (after - start), speed @ (after - before))
            return d, [after, [largest([change[0], *squares])], rise]

        own, totals = self._of_contact("moment", "moment start", "moment before"), self.space.each(("change", "rise"))
        reads = [*own, *totals, *self._of_contact("moment mobility"), *carried, *self._law()]
        return self._exchange(back, reads, [own[0], *totals])

    def measure(self) -> list[Statement]:
        """Add residuals and work of moments to those of the contacts."""
        felt = self._felt()

        def look(m: Array, p: Array, shares: Array, mobility: Array, approach: Array, *rest: Any) -> list[Any]:
            residual, works, stirs, calm, *given = rest
            w = self._feel(*given)
            radii = shares * largest([p[0], 0])
            blocks = [(vector(0, m[0], 0), vector(0, w[0], 0)), (vector(0, *m[1:]), vector(0, *w[1:]))]
            found = [
                block_measure(size * identity(3), own, u, 0, radius)
                for (own, u), size, radius in zip(blocks, mobility, radii, strict=True)
            ]
            work = m @ (w + approach) / 2
            stirred = Stirring.is_stirred(stirs, largest([of_velocity for _, of_velocity, _ in found]), calm[0])
            worst = [largest(list(three)) for three in zip(residual, *found, strict=True)]
            return [worst, works + vector(work, work), [stirred]]

        totals = [*self.space.each(("residual", "works")), *self._of_contact("stirs")]
        reads = [*self._of_contact("moment", "impulse", "moment shares", "moment mobility", "turn approach")]
        block = traced_block(look, [*reads, *totals, self.space.at("calm"), *felt], totals)
        return self._if_any(*self._lead(), block)

    # ---- bounces -------------------------------------------------------------------------------------------------

    def keep_bounces(self, name: str) -> Statement:
        """Moments of a solution, ``newton`` or ``plastic``."""
        return traced_block(lambda m: [m], self._of_contact("moment"), self._of_contact(f"{name} moment"))

    def tally_bounces(self) -> list[Statement]:
        """Add the work of moments to that of the island."""

        def add(tally: Array, m: Array, approach: Array, *given: Any) -> list[Any]:
            return [tally + vector(m @ (self._feel(*given) + approach) / 2, 0, 0)]

        tally = self.space.at("tally", ISLAND)
        reads = [tally, *self._of_contact("moment", "turn approach"), *self._felt()]
        return self._if_any(*self._lead(), traced_block(add, reads, [tally]))

    def mix_bounces(self) -> list[Statement]:
        """The share of the island of moments with restitution, the rest of those without, and their motion."""

        def mix(plastic: Array, newton: Array, share: Any, turned: Array, first: Array, second: Array) -> list[Any]:
            m = vector(*[mixed_impulse(a, b, share) for a, b in zip(plastic, newton, strict=True)])
            return [m, first + m @ turned[0], second - m @ turned[1], *[m for _ in self._giving()]]

        kept = self._of_contact("plastic moment", "newton moment")
        reads = [*kept, self.space.at("bounce share", ISLAND), *self._of_contact("moment turns"), *self._turning("vel")]
        writes = [*self._of_contact("moment"), *self._turning("vel"), *self._giving()]
        return self._if_any(traced_block(mix, reads, writes), *self._follow())


def _better(w: Array, m: Array, scaling: Array, shares: Array, p: Array) -> Array:
    """Better moments than m at the angular velocity w."""
    return step_moments(BlockScaling(*scaling), m, w, shares * largest([p[0], 0]))


def within_bounds(m: Array, radii: Array) -> Array:
    """Moments (3,) no larger than torsional and rolling friction permit."""
    most, reach = radii
    spin = select(less(m[0], -most), -most, select(less(most, m[0]), most, m[0]))
    square = m[1] * m[1] + m[2] * m[2]
    beyond = less(reach * reach, square)
    share = select(beyond, reach / sqrt(select(beyond, square, 1)), 1)
    return np.asarray(vector(spin, share * m[1], share * m[2]))
