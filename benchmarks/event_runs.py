"""Runs from event to event: what an event, a step and a whole run take, once their code is compiled.

    python -m benchmarks.event_runs [--rounds 7] [--scenes hopper …] [--many 100]

Processor time of one process, the least of some runs with all that ``wt.simulate`` returns. With ``--many`` as many
hoppers from starts that differ are run one after the other.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from whippletree.mechanisms.contact_textbook import flat_ground
from whippletree.mechanisms.linkages import moving
from whippletree.model import Model

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "contact" / "events"))
from test_toys import woodpecker


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


def _ball_in_a_box() -> Model:
    """A ball that flies about between four walls in a plane, with friction."""
    builder = wt.Builder("ball in a box", (0, -9.81, 0))
    for k in range(4):
        angle = k * math.pi / 2
        normal, across = (-math.cos(angle), -math.sin(angle), 0.0), (-math.sin(angle), math.cos(angle), 0.0)
        turned = np.column_stack([across, np.cross(normal, across), normal])
        builder.geometry(f"wall {k}", "world", "half_space", position=tuple(-0.5 * x for x in normal), rotation=turned)
    builder.body("ball", 1.0, inertia=(4e-3, 4e-3, 4e-3)).joint("move", "planar", "world", "ball")
    builder.geometry("rim", "ball", "sphere", radius=0.1)
    for k in range(4):
        builder.contact(f"bounce {k}", "rim", f"wall {k}", restitution=0.9, friction=0.2)
    return moving(builder.build(), {"move": (2.0, 1.0, 3.0)})


def _sliders() -> Model:
    """Three blocks in a row on dry guides, springs between them, pulled along by a driven one: stick and slip."""
    builder, parent = wt.Builder("stick and slip", (0, 0, 0)), "world"
    builder.body("drive", 1.0).joint("pull", "prismatic", "world", "drive", axis=(1, 0, 0))
    builder.constraint("motor", "prescribed", "pull", motion=lambda t: 0.1 * t)
    for k in range(3):
        builder.body(f"block {k}", 1.0)
        own = {"axis": (1, 0, 0), "friction": 2.0 + 0.5 * k}
        builder.joint(f"guide {k}", "prismatic", "world", f"block {k}", position=(-0.2 * (k + 1), 0, 0), **own)
        ends = f"front {k}", f"back {k}"
        builder.frame(ends[0], parent if k else "drive").frame(ends[1], f"block {k}")
        builder.tendon(f"spring {k}", *ends, stiffness=150.0, rest=0.2)
        parent = f"block {k}"
    return builder.build()


def _gripper() -> Model:
    """Two fingers on springs that close on a block which slides between them, all between stops."""
    builder = wt.Builder("gripper", (0, 0, 0)).body("block", 0.5)
    builder.joint("block", "prismatic", "world", "block", axis=(1, 0, 0), lower=-0.3, upper=0.3)
    builder.geometry("core", "block", "sphere", radius=0.05)
    for side, sign in (("left", -1.0), ("right", 1.0)):
        builder.body(side, 0.2)
        stops = {"lower": -0.2, "upper": 0.2, "stiffness": 20.0, "rest": -0.15 * sign, "damping": 0.1}
        builder.joint(side, "prismatic", "world", side, axis=(1, 0, 0), position=(0.2 * sign, 0, 0), **stops)
        builder.geometry(f"{side} pad", side, "sphere", radius=0.05)
        builder.contact(f"{side} grip", "core", f"{side} pad", restitution=0.5)
    return moving(builder.build(), {"block": 1.0})


class Scene(NamedTuple):
    """A mechanism, how long it is followed, s, and options of its run."""

    make: Callable[[], Model]
    duration: float
    options: Mapping[str, Any] = {}


def _is_in_front(contact: str, t: float, q: np.ndarray, v: np.ndarray) -> bool:
    """A foot counts when it is before the other one: the swinging leg passes through the ground."""
    own, other = (2, 3) if contact.startswith("stance") else (3, 2)
    return bool(q[own] > q[other])


SCENES = {
    "hopper": Scene(wt.mechanisms.hopper, 3.0),
    "bouncing balls": Scene(_bouncing_balls, 2.0),
    "rocking block": Scene(wt.mechanisms.rocking_block, 2.0),
    "four-bar between stops": Scene(_four_bar_between_stops, 5.0),
    "double pendulum, stops far away": Scene(_double_pendulum_far_from_stops, 60.0),
    "rimless wheel": Scene(wt.mechanisms.rimless_wheel, 3.0),
    "woodpecker": Scene(lambda: woodpecker()[0], 0.3, {"q0": woodpecker()[1]}),
    "ball in a box": Scene(_ball_in_a_box, 2.0),
    "stick and slip": Scene(_sliders, 4.0),
    "gripper": Scene(_gripper, 2.0),
    "Newton's cradle": Scene(lambda: wt.mechanisms.newtons_cradle(5), 3.0),
    "walker": Scene(wt.mechanisms.simplest_walker, 15.0, {"admits": _is_in_front}),
}


def measure(name: str, rounds: int) -> str:
    """A row of the table."""
    make, duration, options = SCENES[name]
    model = make()
    times = []
    for _ in range(1 + rounds):
        begin = time.process_time()
        run = wt.simulate(model, duration=duration, method="events", **options)
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
