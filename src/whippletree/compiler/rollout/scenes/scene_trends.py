"""Impulses of balls go on as they have changed: where the solution of a step begins when a pile is all but at rest.

Friction does not stop a ball that rolls, or spins on. In a pile at rest it changes the forces about it by the same
amount in every step: begun with the impulses of the last one, a hundred balls of which one rolls at 0.4 mm/s miss their
laws by 4.5e-6 m/s each time, however well the step before was solved. That change is the *trend* of an impulse. From
impulses that are ahead by it, the same steps begin with 1e-7 m/s.

What a step leaves as velocities the next one has to stop, and the one after that must not stop again, so that trends of
two steps double what is left of both. They are means over steps (:data:`WEIGHT`), and are asked only where they pay: a
step without them has told what they have to do better than. Whatever they foresee is brought inside the cones and
judged like any other start.

Pushes that move apart what would overlap begin with those of the last step, too. What does not press has neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Buffer, If, Loop, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.scenes.scene_solver import CLOSE
from whippletree.compiler.rollout.scenes.scene_totals import SHARE
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT
from whippletree.contact.problem.cones import both, brought_inside

WEIGHT = 0.05
"""Weight of the last change in a trend, at least: the first one at rest counts a half, the next a third, and so on.
With 1 what steps leave adds up, and a pile in which a ball rolls misses its laws by 1e-7 to 5e-7 m/s where 0.1 leaves
1e-8; with 0.01 trends lag behind a ball that turns by 1e-3 in a step."""

LEARNED = 0.1
"""Weight of the last change from which on a trend is known well enough to be followed."""

TREND_PAYS, STEPS_WITHOUT = 0.5, 64
"""Share of the first residual without trends below which they pay, and steps without them where they do not. Tried
every 16 steps with the change of one step, they left some piles 6e-7 instead of 1e-7 m/s."""

LITTLE, MUCH = 5.0, 100.0
"""Residuals as multiples of that of a calm scene. Trends are tried beyond the first. Steps that follow them make two
sweeps up to the first, and half of the investment of others up to the second: what they leave, the next one goes on
with. A hundred balls, of which one rolls, then take 4 to 5 sweeps a step instead of 10. Without a trend, fewer sweeps
keep a pile from coming to rest: 4e-8 m/s and 5 sweeps a step for ever, instead of 7e-9."""

FORESIGHT = ("foresees", "first without", "steps without", "trend weight", "pushes again")
"""Buffers of the numbers that tell how far trends are to be trusted: 1 where they are followed and else −1, the first
residual of the last step without them (m/s), steps until they are tried, the weight of the last change; and 1 where the
last step pushed, else −1."""

UNKNOWN_TRENDS = np.array([-1.0, np.inf, 1.0, 1.0, -1.0])
"""Those numbers where there was no step."""


class SceneTrends:
    """Statements that begin with ``impulse`` ahead of the last step, and learn from what the solution makes of it."""

    def __init__(self, space: WorkSpace) -> None:
        self.space = space
        space.work(
            trend=("C", 3),
            impulse_then=("C", 3),  # at the end of the last step
            push_then=("C",),  # of the last step
            pushes_again=(1,),
            foresees=(1,),
            first_without=(1,),
            steps_without=(1,),
            trend_weight=(1,),
        )

    @staticmethod
    def arguments() -> tuple[list[Buffer], list[Buffer]]:
        """Inputs and outputs of the kernel, after its others."""
        known = len(FORESIGHT)
        inputs = [Buffer("trends0", "input", ("C", 4)), Buffer("foresight0", "input", (known,))]
        return inputs, [Buffer("trends", "output", ("C", 4)), Buffer("foresight", "output", (known,))]

    def begin_call(self) -> list[Statement]:
        """Trends of the last step, at the beginning of a call."""
        at, each = self.space.at, self.space.each
        reads, writes = (each(x, CONTACT) for x in (("trends0", "impulses0"), ("trend", "push then", "impulse then")))
        copy = traced_block(lambda known, p: [known[:3], known[3:], p], reads, writes)
        told = traced_block(lambda known: [[x] for x in known], [at("foresight0")], each(FORESIGHT))
        return [Loop(CONTACT, "C", (copy,)), told]

    def foresee(self) -> Statement:
        """Impulses of the next step, before it is solved."""

        def foresee(p: Array, trend: Array, mu: Any) -> list[Any]:
            return [brought_inside(p + trend, mu, 0)]

        reads = self.space.each(("impulse", "trend", "friction"), CONTACT)
        block = traced_block(foresee, reads, [self.space.at("impulse", CONTACT)])
        return If(self.space.address("foresees"), (Loop(CONTACT, "C", (block,), share=SHARE),))

    @staticmethod
    def invested(most: float, times: Any, foresees: Array) -> Any:
        """Sweeps for the sake of the next step, of ``most`` without trends, by the residual that a step begins with."""
        ahead = select(less(times, LITTLE), 0, select(less(times, MUCH), most / 2, most))
        return select(less(0, foresees[0]), ahead, most)

    def learn(self) -> list[Statement]:
        """Trends after a step that was taken, and whether the next one follows them."""
        each = self.space.each

        def weigh(weight: Array, first: Array, tolerance: Any) -> list[Any]:
            after = weight[0] / (1 + weight[0])
            # what does not rest changes otherwise in every step
            rests = less(first[0], CLOSE * tolerance)
            return [[select(rests, select(less(after, WEIGHT), WEIGHT, after), 1)]]

        def change(p: Array, then: Array, trend: Array, push: Any, weight: Array) -> list[Any]:
            after = trend + weight[0] * (p - then - trend)
            presses = less(0, p[0])
            return [[select(presses, x, 0) for x in after], p, [select(presses, push, 0)]]

        reads = [*each(("impulse", "impulse then", "trend", "push then"), CONTACT), *each(("trend weight",))]
        changes = traced_block(change, reads, each(("trend", "impulse then", "push then"), CONTACT))
        told = each(("first residual", "calm", "trend weight", "foresees", "first without", "steps without"))
        return [
            traced_block(weigh, each(("trend weight", "first residual", "tolerance")), each(("trend weight",))),
            Loop(CONTACT, "C", (changes,), share=SHARE),
            traced_block(judge_trends, told, each(("foresees", "first without", "steps without"))),
        ]

    def results(self) -> list[Statement]:
        """Trends at the end of a call. A step that was not taken is begun again, ahead of the same impulses."""
        at, each = self.space.at, self.space.each

        def begin_again(p: Array, then: Array, trend: Array, push: Any, foresees: Array) -> list[Any]:
            ahead = less(0, foresees[0])
            return [[select(ahead, b, a) for a, b in zip(p, then, strict=True)], [*trend, push]]

        reads = [*each(("impulse", "impulse then", "trend", "push then"), CONTACT), at("foresees")]
        copy = traced_block(begin_again, reads, each(("impulses", "trends"), CONTACT))
        told = traced_block(lambda *known: [vector(*[x[0] for x in known])], each(FORESIGHT), [at("foresight")])
        return [Loop(CONTACT, "C", (copy,)), told]


def judge_trends(first: Array, calm: Array, weight: Array, foresees: Array, without: Array, steps: Array) -> list[Any]:
    """Whether the next step follows trends, the first residual without them, and the steps until they are tried."""
    followed = less(0, foresees[0])
    pays = less(first[0], TREND_PAYS * without[0])
    due = both(less(LITTLE * calm[0], first[0]), less(steps[0], 1))
    tried = both(due, less(weight[0], LEARNED))
    return [
        [select(followed, select(pays, 1, -1), select(tried, 1, -1))],
        [select(followed, without[0], first[0])],
        [select(followed, select(pays, 0, STEPS_WITHOUT), steps[0] - 1)],
    ]
