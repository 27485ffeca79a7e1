"""Work and precision beyond chains: stiff loops, servos, bushings, stops and links of no weight, beside peers.

    python -m benchmarks.stiff_loops [--only WORD|WORD] [--patience TIMES]

As :mod:`benchmarks.work_precision`, whose contestants these are: loops with springs in their joints, with and without
dampers, *excited* as they are assembled or *relaxed*, as a damped motion leaves them; and machines whose stiffness is
in controllers, tendons or ratios of masses. Nothing here has been used to choose a constant of the integrator.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import whippletree as wt
from benchmarks.work_precision import Problem, contest, ratios, tell
from whippletree.mechanisms.linkages import moving

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from long_mechanisms import floating_ladder

MakeLoop: TypeAlias = Callable[[], tuple[wt.Model, set[str], float]]
"""A mechanism, its joints that get springs, and how long it is followed, s."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--patience", type=float, default=3.0, help="longest run of a peer, in longest runs of ours")
    arguments = parser.parse_args()
    worst = {}
    for name, make in problems():
        if any(word in name for word in arguments.only.split("|")):
            found = contest(make(), arguments.patience)
            tell(name, found)
            worst[name] = max(ratios(found).values())
    for name in sorted(worst, key=worst.__getitem__, reverse=True):
        print(f"{worst[name]:6.2f}  {name}")


def problems() -> Iterator[tuple[str, Callable[[], Problem]]]:
    """All that is measured, by name; made where they are asked for."""
    loops: dict[str, MakeLoop] = {
        "four-bar": lambda: (bent_four_bar(), {"coupler"}, 0.5),
        "slider-crank, elastic rod": lambda: (elastic_slider_crank(), {"stretch"}, 0.5),
        "3 cells": lambda: (wt.mechanisms.four_bar_chain(3), {"crank_2", "crank_3"}, 0.5),
        "6 cells": lambda: (wt.mechanisms.four_bar_chain(6), {f"crank_{k}" for k in range(2, 7)}, 0.3),
        "ladder of 8": lambda: (wt.mechanisms.n_four_bar(8), {f"coupler_{k}" for k in range(1, 9)}, 0.3),
        "floating ladder": lambda: (floating_ladder(8), {f"a{k}" for k in range(1, 8)}, 0.2),
        "ring of 8": lambda: (ring(8), {f"joint {k}" for k in range(1, 8)}, 0.3),
        "ring of 16": lambda: (ring(16), {f"joint {k}" for k in range(1, 16)}, 0.3),
        "Stewart platform": lambda: (wt.mechanisms.stewart_platform(), {f"leg_{k}" for k in range(6)}, 0.3),
        "delta robot": lambda: (wt.mechanisms.delta_robot(), {"arm_1", "arm_2"}, 0.3),
    }
    for name, make in loops.items():
        for k in (1e3, 1e5, 1e7):
            for damping, word in ((0.0, ""), (k / 1e3, ", damped")):
                for start in ("excited", "relaxed"):
                    if k < 1e7 or damping or start == "relaxed":
                        told = f"{name} k={k:.0e}{word}, {start}"
                        yield told, partial(stiff_loop, told, make, k, damping, start)
    yield from machines().items()


def stiff_loop(name: str, make: MakeLoop, k: float, damping: float, start: str) -> Problem:
    """A mechanism with springs in some of its joints, whose coordinates of no force are those of its start."""
    model, springs, duration = make()

    def sprung(damping: float) -> wt.Model:
        def joint(own: Any) -> Any:
            rest = float(model.home.q[model.q_slice(own.name)][0]) if own.name in springs else 0.0
            return replace(own, stiffness=k, damping=damping, rest=rest) if own.name in springs else own

        return replace(model, joints=tuple(joint(own) for own in model.joints))

    own, (q, v) = sprung(damping), (model.home.q, model.home.v)
    if start == "relaxed":
        # as long as the slowest of its stiff motions takes to die
        run = wt.simulate(sprung(k / 1e2), duration=0.05, rtol=1e-9, atol=1e-11, output_dt=0.05)
        q, v = run.q.values[-1], run.v.values[-1]
    return Problem(name, own, duration, np.array(q), np.array(v))


# ---- loops -----------------------------------------------------------------------------------------------------------


def bent_four_bar() -> wt.Model:
    """A four-bar whose crank is a rod of two pieces, so that it bends, and the whole moves."""
    builder, rod = wt.Builder("four-bar", (0, -9.81, 0)), half_rod
    model = wt.mechanisms.four_bar((1.0, 0.6, 1.1, 0.9))
    q = model.home.q
    crank, coupler, rocker = (float(q[model.slice(name)][0]) for name in ("crank", "coupler", "rocker"))
    builder.body("crank rod", **rod(0.6)).body("first half", **rod(0.55)).body("second half", **rod(0.55))
    builder.body("rocker rod", **rod(0.9))
    builder.joint("crank", "revolute", "world", "crank rod", start=crank)
    builder.joint("knee", "revolute", "crank rod", "first half", position=(0.6, 0, 0), start=coupler)
    builder.joint("coupler", "revolute", "first half", "second half", position=(0.55, 0, 0), start=0.0)
    builder.joint("rocker", "revolute", "world", "rocker rod", position=(1.0, 0, 0), start=rocker)
    builder.frame("coupler end", "second half", position=(0.55, 0, 0))
    builder.frame("rocker end", "rocker rod", position=(0.9, 0, 0))
    return builder.constraint("pin", "pin", "rocker end", "coupler end").build()


def half_rod(length: float) -> dict[str, Any]:
    """A rod of 1 kg for each metre."""
    across = length**3 / 12
    return {"mass": length, "center": (length / 2, 0, 0), "inertia": (across / 100, across, across)}


def elastic_slider_crank() -> wt.Model:
    """A slider-crank that turns, whose rod stretches."""
    angle, crank, rod = math.pi / 3, 0.3, 0.8
    down = -math.asin(crank * math.sin(angle) / rod)
    builder = wt.Builder("slider-crank", (0, -9.81, 0))
    builder.body("crank rod", **half_rod(crank)).body("near half", **half_rod(rod / 2))
    builder.body("far half", mass=rod / 2, center=(-rod / 4, 0, 0), inertia=half_rod(rod / 2)["inertia"])
    builder.body("piston", 2.0)
    builder.joint("crank", "revolute", "world", "crank rod", start=angle)
    builder.joint("rod", "revolute", "crank rod", "near half", position=(crank, 0, 0), start=down - angle)
    builder.joint("stretch", "prismatic", "near half", "far half", position=(rod, 0, 0), axis=(1, 0, 0))
    reach = crank * math.cos(angle) + rod * math.cos(down)
    builder.joint("slider", "prismatic", "world", "piston", axis=(1, 0, 0), start=reach)
    model = builder.constraint("pin", "pin", "piston", "far half").build()
    return turning(model, {"crank": 20.0})


def turning(model: wt.Model, rates: Mapping[str, float]) -> wt.Model:
    """The same mechanism, some of whose joints move at the start, the others as they must."""
    v = np.zeros(model.nv)
    for name, rate in rates.items():
        v[model.slice(name)] = rate
    v = wt.compile(model).project_velocity(model.home.q, v)
    return moving(model, {joint.name: v[model.slice(joint.name)] for joint in model.joints})


def ring(n: int) -> wt.Model:
    """Rods closed to a regular polygon, its first corner held."""
    builder, parent, side, turn = wt.Builder("ring", (0, -9.81, 0)), "world", 2.0 / n, 2 * math.pi / n
    for i in range(n):
        builder.body(f"rod {i}", **half_rod(side))
        at = (side if i else 0.0, 0, 0)
        builder.joint(f"joint {i}", "revolute", parent, f"rod {i}", position=at, start=turn if i else -math.pi / 2)
        parent = f"rod {i}"
    builder.frame("last", parent, position=(side, 0, 0)).frame("first", "world")
    return builder.constraint("pin", "pin", "first", "last").build()


# ---- machines --------------------------------------------------------------------------------------------------------


def machines() -> dict[str, Callable[[], Problem]]:
    """Stiffness of other kinds."""
    found: dict[str, Callable[[], Problem]] = {
        "robot, gains 1e5 and 2e3": lambda: servo_robot(1e5, 2e3),
        "robot, gains 1e4 and 1e2": lambda: servo_robot(1e4, 1e2),
        "platform, gains 1e5 and 2e3": lambda: servo_platform(1e5, 2e3),
        "double pendulum, masses 1 and 1e-6": lambda: at_home(wt.mechanisms.double_pendulum(masses=(1.0, 1e-6)), 1.0),
        "double pendulum, masses 1e-6 and 1": lambda: at_home(wt.mechanisms.double_pendulum(masses=(1e-6, 1.0)), 1.0),
        "Wilberforce's pendulum": lambda: wilberforce(3.0),
        "flexible slider-crank": lambda: at_home(wt.mechanisms.flexible_slider_crank(), 0.05),
        "squeezer without its motor": lambda: at_home(wt.mechanisms.andrews(), 0.03),
    }
    for k, damping in ((1e4, 10.0), (1e6, 0.0), (1e6, 1e3)):
        found[f"body on tendons of {k:.0e} and {damping:.0e}"] = partial(on_tendons, k, damping)
        found[f"arm against a stop of {k:.0e} and {damping:.0e}"] = partial(against_a_stop, k, damping)
        k, damping = k / 1e2, damping / 1e2
        found[f"rope of universal joints of {k:.0e} and {damping:.0e}"] = partial(rope, 8, k, damping)
    return found


def at_home(model: wt.Model, duration: float) -> Problem:
    """From its home state."""
    return Problem("", model, duration, np.array(model.home.q), np.array(model.home.v))


def servo_robot(stiffness: float, damping: float) -> Problem:
    """An arm of six joints, whose servos follow sines."""
    builder, parent = wt.Builder("robot"), "world"
    upright, level, last = (0, 0, 1), (0, 1, 0), 0.0
    links = [(0.3, upright), (0.5, level), (0.4, level), (0.1, upright), (0.1, level), (0.05, upright)]
    for i, (length, axis) in enumerate(links):
        mass = 20 * length
        across = mass * length**2 / 12 + 0.01
        builder.body(f"link {i}", mass, center=(0, 0, length / 2), inertia=(across, across, 0.01 * mass))
        builder.joint(f"joint {i}", "revolute", parent, f"link {i}", position=(0, 0, last), axis=axis)
        parent, last = f"link {i}", length
    model = builder.build()
    speeds, phases = 1.0 + 0.5 * np.arange(6), 0.3 * np.arange(6)

    def servo(t: Any, q: Any, v: Any) -> Any:
        goal, rate = 0.5 * np.sin(speeds * t + phases), 0.5 * speeds * np.cos(speeds * t + phases)
        return stiffness * (goal - q) + damping * (rate - v)

    return Problem("", model, 1.0, 0.5 * np.sin(phases) + 0.01, 0.5 * speeds * np.cos(phases), servo)


def servo_platform(stiffness: float, damping: float) -> Problem:
    """A Stewart platform whose legs are servos that let it heave."""
    model = wt.mechanisms.stewart_platform()
    legs = np.array([model.slice(f"leg_{k}").start for k in range(6)])
    places = np.array([model.q_slice(f"leg_{k}").start for k in range(6)])
    rest = np.array(model.home.q)[places]
    drives = np.zeros((6, model.nv))
    drives[np.arange(6), legs] = 1.0

    def servo(t: Any, q: Any, v: Any) -> Any:
        goal = rest + 0.05 * np.sin(6 * t)
        return (stiffness * (goal - q[places]) - damping * v[legs]) @ drives

    return Problem("", model, 0.5, np.array(model.home.q), np.array(model.home.v), servo)


def wilberforce(duration: float) -> Problem:
    """A bob that heaves and turns on a helical spring, whose two motions a weak spring couples."""
    builder = wt.Builder("Wilberforce", (0, 0, -9.81))
    builder.body("carriage", 0.01).joint("heave", "prismatic", "world", "carriage", stiffness=20.0)
    builder.body("bob", 0.5, inertia=(1e-4, 1e-4, 1e-4))
    builder.joint("turn", "revolute", "carriage", "bob", stiffness=4e-3).tendon(
        "coupling", joints={"heave": 1.0, "turn": 0.01}, stiffness=1.0
    )
    return Problem("", builder.build(), duration, np.array([-0.1, 0.0]), np.zeros(2))


def on_tendons(stiffness: float, damping: float) -> Problem:
    """A body held by eight springs between its corners and those of a box around it."""
    builder = wt.Builder("on tendons").body("block", 10.0, inertia=(0.1, 0.12, 0.15))
    builder.joint("block", "free", "world", "block")
    for k in range(8):
        corner = np.array([1.0 if k & bit else -1.0 for bit in (1, 2, 4)])
        builder.frame(f"inner {k}", "block", position=0.1 * corner).frame(f"outer {k}", "world", position=0.3 * corner)
        ends = f"inner {k}", f"outer {k}"
        builder.tendon(f"spring {k}", *ends, stiffness=stiffness, rest=0.2 * math.sqrt(3), damping=damping)
    model = builder.build()
    v = np.array([0.1, 0.0, 0.2, 0.5, 0.3, 0.0])
    return Problem("", model, 0.3 if damping else 0.1, np.array(model.home.q), v)


def against_a_stop(stiffness: float, damping: float) -> Problem:
    """A double pendulum whose elbow meets a stiff stop."""
    model = wt.mechanisms.double_pendulum()

    def stop(t: Any, q: Any, v: Any) -> Any:
        depth = np.maximum(q[1] - 0.2, 0.0)
        return np.array([0 * q[0], -stiffness * depth - damping * np.minimum(depth / 1e-3, 1.0) * v[1]])

    return Problem("", model, 0.5, np.array([0.0, 0.1]), np.array([0.0, 1.0]), stop)


def rope(n: int, stiffness: float, damping: float) -> Problem:
    """Rods on universal joints with springs, which swings."""
    builder, parent = wt.Builder("rope"), "world"
    for i in range(n):
        builder.body(f"rod {i}", 0.1, center=(0.05, 0, 0), inertia=(1e-5, 1e-4, 1e-4))
        spring = {"stiffness": stiffness, "damping": damping} if i else {}
        at = (0.1 if i else 0.0, 0, 0)
        axes = {"axis": (0, 0, 1), "second_axis": (0, 1, 0)}
        builder.joint(f"joint {i}", "universal", parent, f"rod {i}", position=at, **axes, **spring)
        parent = f"rod {i}"
    model = builder.build()
    v = np.zeros(model.nv)
    v[0] = 2.0
    return Problem("", model, 0.3, np.array(model.home.q), v)


if __name__ == "__main__":
    main()
