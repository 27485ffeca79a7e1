"""Runs from event to event: what an event, a step and a whole run take, once their code is compiled.

    python -m benchmarks.event_runs [--rounds 7] [--scenes hopper …] [--many 100]

Processor time of one process, the least of some runs with all that ``wt.simulate`` returns. With ``--many`` as many
hoppers from starts that differ are run one after the other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import whippletree as wt
from whippletree.mechanisms.contact_textbook import flat_ground
from whippletree.model import Model


def _bouncing_balls(count: int = 4) -> Model:
    """Balls on columns of their own, from heights that differ, over one floor."""
    builder = flat_ground(wt.Builder("balls", (0, -9.81, 0)))
    for k in range(count):
        name = f"ball {k}"
        builder.body(name, 1.0, inertia=(0.1, 0.1, 0.1))
        place = (3.0 * k, 0, 0)
        builder.joint(f"fall {k}", "prismatic", "world", name, axis=(0, 1, 0), position=place, start=1 + 0.1 * k)
        builder.geometry(f"{name} shape", name, "sphere", radius=0.1)
        builder.contact(f"ground-{k}", f"{name} shape", "ground", restitution=0.8)
    return builder.build()


def _four_bar_between_stops() -> Model:
    """A four-bar whose crank swings between two stops."""
    model = wt.mechanisms.four_bar((2.0, 0.8, 2.2, 1.7), angle=1.0)
    crank = replace(model.joints[0], lower=0.2, upper=1.6)
    return replace(model, joints=(crank, *model.joints[1:]))


def _double_pendulum_far_from_stops() -> Model:
    """Hundreds of steps, and hardly an event: what the guards cost by themselves."""
    model = wt.mechanisms.double_pendulum()
    return replace(model, joints=tuple(replace(joint, lower=-1e3, upper=1e3) for joint in model.joints))


SCENES: dict[str, tuple[Callable[[], Model], float]] = {
    "hopper": (wt.mechanisms.hopper, 3.0),
    "bouncing balls": (_bouncing_balls, 2.0),
    "rocking block": (wt.mechanisms.rocking_block, 2.0),
    "four-bar between stops": (_four_bar_between_stops, 5.0),
    "double pendulum, stops far away": (_double_pendulum_far_from_stops, 60.0),
}


def measure(name: str, rounds: int) -> str:
    """A row of the table."""
    make, duration = SCENES[name]
    model = make()
    times = []
    for _ in range(1 + rounds):
        begin = time.process_time()
        run = wt.simulate(model, duration=duration, method="events")
        times.append(time.process_time() - begin)
    events, steps, best = run.attrs["events"], run.attrs["steps"], min(times[1:])
    each = f"{1e3 * best / events:6.2f}" if events else "     –"
    return f"{name:>34} {events:7d} {steps:6d} {1e3 * best:9.1f} {each} {1e6 * best / steps:8.0f} {times[0]:8.2f}"


def many(count: int) -> str:
    """Hoppers from starts that differ, one after the other."""
    model = wt.mechanisms.hopper()
    rng = np.random.default_rng(0)
    begin, events = time.process_time(), 0
    for _ in range(count):
        v = np.array(model.home.v) + 0.1 * rng.normal(size=model.nv) * (np.arange(model.nv) < 2)
        events += wt.simulate(model, model.home.q, v, duration=1.0, method="events").attrs["events"]
    taken = time.process_time() - begin
    return f"{count} hoppers, 1 s each: {events} events, {taken:.1f} s, {1e3 * taken / count:.1f} ms a run"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="runs of which the least counts")
    parser.add_argument("--scenes", nargs="*", default=list(SCENES), help="names of scenes")
    parser.add_argument("--many", type=int, default=0, help="how many hoppers beside")
    arguments = parser.parse_args()
    print(f"{'':>34}  events  steps    run, ms  /event  µs/step  first, s")
    for name in arguments.scenes:
        print(measure(name, arguments.rounds), flush=True)
    if arguments.many:
        print(many(arguments.many))


if __name__ == "__main__":
    main()
