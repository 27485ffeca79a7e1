"""What the diagonal ratio costs beside forward dynamics: the same function with and without it."""

from __future__ import annotations

from collections.abc import Iterator

import whippletree as wt
from benchmarks.contests import BATCH, Row
from benchmarks.robots import ROBOTS, model_of, states
from benchmarks.timing import alternating


def conditioning_rows(names: tuple[str, ...] = ("UR5", "Panda", "G1")) -> Iterator[Row]:
    """Forward dynamics with δ against forward dynamics; the ratio is below 1 by what δ costs."""
    models = {robot.name: model_of(robot) for robot in ROBOTS if robot.name in names}
    models["chain of 20"] = wt.mechanisms.chain(20)
    for name, model in models.items():
        dyn, s = wt.compile(model, threads=1), states(model, BATCH)
        t = alternating(
            {
                "with": lambda dyn=dyn, s=s: dyn.forward_dynamics_with_diagonal_ratio(s.q, s.v, s.tau),
                "without": lambda dyn=dyn, s=s: dyn.forward_dynamics(s.q, s.v, s.tau),
            },
            rounds=41,  # two numbers so close need many rounds on a busy machine
            seconds=0.005,
        )
        ours, plain = t["with"] / BATCH * 1e6, t["without"] / BATCH * 1e6
        yield Row(name, "forward dynamics with δ, batch", ours, plain, "without δ", f"{ours / plain - 1:+.0%}")
