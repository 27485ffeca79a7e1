"""Work and precision of forty motions of all kinds, beside peers: nothing here has chosen a constant.

    python -m benchmarks.other_motions [--only WORD|WORD] [--patience TIMES]

As :mod:`benchmarks.work_precision`, whose contestants these are: pendulums and chains, satellites and tops, springs and
dampers of all strengths, tendons, smooth friction, prescribed motion, gears, loops, flexible bodies, robots under
controllers that are traced and under one that cannot be, actuators of first order and links of no weight. The list is
ranked by the worst ratio of our time to that of the best peer.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.work_precision import Problem, contest, ratios, tell
from whippletree.model import Activation, Constraint

Make = Callable[[], Problem]


def main(named: Mapping[str, Make], words: str | None) -> None:
    """Measure those problems that the command line asks for, and rank them; ``words``: its help."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--only", default="")
    parser.add_argument("--patience", type=float, default=3.0, help="longest run of a peer, in longest runs of ours")
    arguments = parser.parse_args()
    worst: dict[str, dict[float, float]] = {}
    for name, make in named.items():
        if any(word in name for word in arguments.only.split("|")):
            found = contest(make(), arguments.patience)
            tell(name, found)
            worst[name] = ratios(found)
    for name in sorted(worst, key=lambda name: max(worst[name].values()), reverse=True):
        print(f"{max(worst[name].values()):6.2f}  {name:52s}", *[f"{ratio:.2f}" for ratio in worst[name].values()])


def problems() -> dict[str, Make]:
    """All that is measured, by name; made where they are asked for."""
    return free_motions() | sprung_motions() | driven_motions() | loops() | robots()


def at_home(model: wt.Model, duration: float, **more: Any) -> Problem:
    """From its home state."""
    return Problem("", model, duration, np.array(model.home.q), np.array(model.home.v), **more)


def moved(model: wt.Model, duration: float, q: Any, v: Any = None, **more: Any) -> Problem:
    """From another state."""
    v = np.zeros(model.nv) if v is None else np.array(v, dtype=float)
    return Problem("", model, duration, np.array(q, dtype=float), v, **more)


# ---- nothing but weight and inertia ----------------------------------------------------------------------------------


def free_motions() -> dict[str, Make]:
    """Pendulums, chains, satellites and tops."""
    return {
        "pendulum, almost upright": lambda: moved(rods(1), 6.0, [math.pi / 2 - 1e-3]),
        "triple pendulum, 3 s": lambda: moved(rods(3), 3.0, [0.5, 0.3, -0.2]),
        "chain of 25 that falls": lambda: moved(rods(25), 0.8, np.zeros(25)),
        "spherical chain of 10": lambda: spherical_chain(10),
        "satellite that tumbles": lambda: satellite(),
        "satellite with a boom and a spring": lambda: satellite(boom=50.0),
        "gyroscope in gimbals": gimbals,
        "skidding top, spin 60 rad/s": lambda: heavy_top(60.0),
    }


def rods(n: int, gravity: float = 9.81, length: float = 0.7, **spring: Any) -> wt.Model:
    """Rods one after the other; springs and dampers in all joints but the first."""
    builder, parent = wt.Builder("rods", (0, -gravity, 0)), "world"
    for i in range(n):
        builder.body(f"rod {i}", 0.8, center=(length / 2, 0, 0), inertia=(1e-3, 0.04, 0.04))
        own = spring if i else {}
        builder.joint(f"joint {i}", "revolute", parent, f"rod {i}", position=(length if i else 0.0, 0, 0), **own)
        parent = f"rod {i}"
    return builder.build()


def spherical_chain(n: int) -> Problem:
    builder, parent = wt.Builder("spherical chain"), "world"
    for i in range(n):
        builder.body(f"rod {i}", 0.2, center=(0.1, 0, 0), inertia=(1e-4, 8e-4, 8e-4))
        builder.joint(f"joint {i}", "spherical", parent, f"rod {i}", position=(0.2 if i else 0.0, 0, 0), damping=1e-3)
        parent = f"rod {i}"
    model = builder.build()
    v = np.zeros(model.nv)
    v[:3] = 1.0, 0.5, 3.0
    return moved(model, 0.8, model.home.q, v)


def satellite(boom: float | None = None) -> Problem:
    """A body in free fall that turns about its middle axis, with a boom on a spring or without."""
    builder = wt.Builder("satellite", (0, 0, 0)).body("bus", 20.0, inertia=(1.0, 2.0, 3.0))
    builder.joint("free", "free", "world", "bus")
    if boom is not None:
        builder.body("boom", 1.0, center=(1.0, 0, 0), inertia=(1e-3, 0.3, 0.3))
        builder.joint("root", "revolute", "bus", "boom", position=(0.5, 0, 0), stiffness=boom, damping=0.05)
    model = builder.build()
    v = np.zeros(model.nv)
    v[model.slice("free")] = [0.01, 2.0, 0.02, 0, 0, 0] if boom is None else [0.1, 0.3, 1.5, 0, 0, 0]
    return moved(model, 20.0 if boom is None else 5.0, model.home.q, v)


def gimbals() -> Problem:
    builder = wt.Builder("gimbals")
    builder.body("outer", 0.5, inertia=(0.01, 0.01, 0.01)).joint("yaw", "revolute", "world", "outer", damping=1e-3)
    builder.body("inner", 0.3, inertia=(0.004, 0.004, 0.004))
    builder.joint("pitch", "revolute", "outer", "inner", axis=(1, 0, 0), start=0.4)
    builder.body("rotor", 1.0, center=(0, 0, 0.02), inertia=(0.001, 0.001, 0.002))
    builder.joint("spin", "revolute", "inner", "rotor")
    return moved(builder.build(), 2.0, [0, 0.4, 0], [0.1, 0.0, 300.0])


def heavy_top(spin: float) -> Problem:
    """A top that stands on a carriage which slides in a plane with drag."""
    builder = wt.Builder("top on a carriage").body("carriage", 0.2, inertia=(1e-3, 1e-3, 1e-3))
    builder.body("cross", 0.1, inertia=(1e-3, 1e-3, 1e-3))
    builder.joint("x", "prismatic", "world", "carriage", axis=(1, 0, 0), damping=0.3)
    builder.joint("y", "prismatic", "carriage", "cross", axis=(0, 1, 0), damping=0.3)
    builder.body("top", 0.5, center=(0, 0, 0.08), inertia=(1e-3, 1e-3, 6e-4))
    builder.joint("tip", "spherical", "cross", "top", start=(math.cos(0.2), math.sin(0.2), 0, 0))
    model = builder.build()
    return moved(model, 1.5, model.home.q, [0, 0, 0, 0, spin])


# ---- springs, dampers, tendons, friction -----------------------------------------------------------------------------


def sprung_motions() -> dict[str, Make]:
    """Of all strengths."""
    found: dict[str, Make] = {
        "three rods, soft springs": lambda: moved(rods(3, stiffness=5.0), 2.0, [0.3, 0.5, -0.4]),
        "three rods, k 3e4, d 3": lambda: moved(rods(3, stiffness=3e4, damping=3.0), 1.0, [0.3, 0.0, 0.0]),
        "three rods, k 3e6, d 3e4": lambda: moved(rods(3, stiffness=3e6, damping=3e4), 1.0, [0.3, 0.01, -0.01]),
        "five rods, dampers alone of 1e3": lambda: moved(rods(5, damping=1e3), 1.0, [0.3, 0.5, -0.4, 0.2, 0.1]),
        "twelve rods, dampers of 0.5": lambda: moved(rods(12, damping=0.5), 1.0, np.zeros(12)),
        "mass between springs of 1 and 1e8": spread_springs,
        "row of 30 masses, wave": lambda: mass_row(30, 1e4),
        "row of 60 masses, damped wave": lambda: mass_row(60, 1e5, 5.0),
        "smooth friction on a belt": lambda: friction_belt(1, 1e-2),
        "three blocks on a belt, friction": lambda: friction_belt(3, 1e-3),
        "platform on six tendons": lambda: tendons(2e4, 20.0),
        "tensegrity-like pair, tendons of 1e6": lambda: tendons(1e6, 500.0),
        "pulley tendon over two arms": pulley,
        "massless damper between two arms": massless_damper,
        "flexible beam that swings": lambda: flexible(2, 0.0),
        "two flexible beams, damped": lambda: flexible(2, 0.02, links=2),
    }
    return found


def spread_springs() -> Problem:
    builder = wt.Builder("masses", (0, 0, 0)).body("a", 1.0).body("b", 0.01)
    builder.joint("soft", "prismatic", "world", "a", axis=(1, 0, 0), stiffness=1.0, damping=0.1)
    builder.joint("hard", "prismatic", "a", "b", axis=(1, 0, 0), stiffness=1e8, damping=1e3)
    return moved(builder.build(), 5.0, [1.0, 1e-4])


def mass_row(n: int, stiffness: float, damping: float = 0.0) -> Problem:
    builder, parent = wt.Builder("row", (0, 0, 0)), "world"
    for i in range(n):
        builder.body(f"mass {i}", 1.0)
        spring = {"stiffness": stiffness, "damping": damping}
        builder.joint(f"gap {i}", "prismatic", parent, f"mass {i}", axis=(1, 0, 0), **spring)
        parent = f"mass {i}"
    model = builder.build()
    v = np.zeros(n)
    v[-1] = 1.0
    return moved(model, 0.2, np.zeros(n), v)


def friction_belt(n: int, smooth: float) -> Problem:
    """Blocks on springs that a belt of 0.3 m/s drags along by friction, smooth over that many m/s."""
    builder, parent = wt.Builder("blocks", (0, 0, 0)), "world"
    for i in range(n):
        builder.body(f"block {i}", 1.0)
        builder.joint(f"slide {i}", "prismatic", parent, f"block {i}", axis=(1, 0, 0), stiffness=80.0 + 15 * i)
        parent = f"block {i}"
    model = builder.build()
    sums = np.tril(np.ones((n, n)))

    def rub(t: Any, q: Any, v: Any) -> Any:
        return sums.T @ (5.0 * np.tanh((0.3 - sums @ v) / smooth))

    return moved(model, 2.0, np.zeros(n), np.zeros(n), controller=rub)


def tendons(stiffness: float, damping: float) -> Problem:
    """A platform that hangs on six ropes which also push."""
    builder = wt.Builder("hanging platform").body("plate", 6.0, inertia=(0.2, 0.3, 0.4))
    builder.joint("plate", "free", "world", "plate")
    for k in range(6):
        high, low = 1.1 * (k // 2) * 2 + 0.2 * (k % 2), 1.0 * ((k + 1) // 2) * 2
        builder.frame(f"hook {k}", "world", position=(math.cos(high), math.sin(high), 1.2))
        builder.frame(f"eye {k}", "plate", position=(0.5 * math.cos(low), 0.5 * math.sin(low), 0.0))
        builder.tendon(f"rope {k}", f"hook {k}", f"eye {k}", stiffness=stiffness, rest=1.3, damping=damping)
    model = builder.build()
    return moved(model, 0.5, model.home.q, [0.1, 0, 0.3, 0.2, 0, 0])


def pulley() -> Problem:
    model = rods(2)
    builder = wt.Builder("pulley", (0, -9.81, 0))
    for body in model.bodies[1:] if model.bodies[0].name == "world" else model.bodies:
        builder.body(body.name, body.mass, center=tuple(body.center), inertia=body.inertia)
    builder.joint("joint 0", "revolute", "world", "rod 0")
    builder.joint("joint 1", "revolute", "rod 0", "rod 1", position=(0.7, 0, 0))
    builder.tendon("belt", joints={"joint 0": 0.1, "joint 1": -0.2}, stiffness=4e5, damping=10.0)
    return moved(builder.build(), 1.0, [0.4, 0.2])


def massless_damper() -> Problem:
    """Two arms with a piston and a cylinder of no weight between them."""
    builder = wt.Builder("damped arms", (0, -9.81, 0))
    for k, x in enumerate((0.0, 1.0)):
        builder.body(f"arm {k}", 1.0, center=(0.0, 0.4, 0), inertia=(0.05, 0.01, 0.05))
        builder.joint(f"hinge {k}", "revolute", "world", f"arm {k}", position=(x, 0, 0))
        builder.frame(f"end {k}", f"arm {k}", position=(0, 0.8, 0))
    builder.tendon("damper", "end 0", "end 1", stiffness=200.0, rest=1.0, damping=2e4)
    return moved(builder.build(), 1.0, [0.3, -0.1])


def flexible(modes: int, damping: float, links: int = 1) -> Problem:
    beam = wt.flexible.beam(
        length=1.0, bending_stiffness=80.0, mass_per_length=0.4, modes=modes, damping_ratio=damping, rotary_inertia=1e-4
    )
    builder, before = wt.Builder("beams", (0, -9.81, 0)), "world"
    for k in range(links):
        builder.flexible_body(f"b{k}", beam).joint(f"j{k}", "revolute", before, f"b{k}")
        before = f"b{k}/tip"
    model = builder.build()
    return moved(model, 0.5, model.home.q)


# ---- driven ----------------------------------------------------------------------------------------------------------


def driven_motions() -> dict[str, Make]:
    """Prescribed motion, gears, commands and filters."""
    return {
        "pendulum on a shaken pivot": shaken,
        "crank at a prescribed speed": crank_at_speed,
        "gear train on a spring": geared,
        "arm on filters of 20 ms": lambda: filtered(0.02),
        "arm on filters of 0.2 ms": lambda: filtered(2e-4),
        "swing that is pumped": pumped,
    }


def shaken() -> Problem:
    """Kapitza's pendulum: upright on a pivot that shakes quickly."""
    builder = wt.Builder("shaken", (0, -9.81, 0)).body("pivot", 0.1)
    builder.joint("shake", "prismatic", "world", "pivot", axis=(0, 1, 0))
    builder.body("rod", 1.0, center=(0.0, 0.3, 0), inertia=(0.03, 1e-3, 0.03))
    builder.joint("hinge", "revolute", "pivot", "rod")
    builder.constraint("drive", "prescribed", "shake", motion=lambda t: 0.05 * np.sin(120 * t))
    return moved(builder.build(), 1.0, [0.0, 0.1], [6.0, 0.0])


def crank_at_speed() -> Problem:
    model = wt.mechanisms.four_bar((1.0, 0.3, 0.9, 0.8))
    angle = float(model.home.q[model.q_slice("crank")][0])
    motor = Constraint("motor", "prescribed", ("crank",), {"motion": lambda t: angle + 8 * t})
    driven = replace(model, constraints=(*model.constraints, motor))
    v = wt.compile(driven).project_velocity(driven.home.q, np.zeros(driven.nv), 0.0)
    return moved(driven, 1.0, driven.home.q, v)


def geared() -> Problem:
    model = wt.mechanisms.gear_train((0.1, 0.3, 0.06, 0.2), masses=(1.0, 4.0, 0.5, 2.0))

    def spring(t: Any, q: Any, v: Any) -> Any:
        return np.array([2.0 * np.sin(9 * t), 0 * v[1], 0 * v[2], -300 * q[3] - 0.2 * v[3]])

    return at_home(model, 3.0, controller=spring)


def filtered(lag: float) -> Problem:
    """Two rods whose motors follow commands with a lag."""
    builder = wt.Builder("filtered arm", (0, -9.81, 0))
    for k in range(2):
        builder.body(f"rod {k}", 0.8, center=(0.35, 0, 0), inertia=(1e-3, 0.04, 0.04))
        place = (0.7 if k else 0.0, 0, 0)
        builder.joint(f"joint {k}", "revolute", f"rod {k - 1}" if k else "world", f"rod {k}", position=place)
        builder.actuator(f"motor {k}", f"joint {k}", activation=Activation("filter", (lag,)))
    model = builder.build()
    return moved(model, 1.0, [-1.0, 0.3], commands=lambda t, q, v: 60 * (np.sin(2 * t) - q) - 8 * v)


def pumped() -> Problem:
    def pump(t: Any, q: Any, v: Any) -> Any:
        return np.array([0 * v[0], 8 * np.sin(2 * q[0]) * v[0] - 30 * q[1] - 2 * v[1]])

    return moved(rods(2), 4.0, [-1.2, 0.0], controller=pump)


# ---- loops -----------------------------------------------------------------------------------------------------------


def loops() -> dict[str, Make]:
    """With stiff springs and without."""
    return {
        "four-bar that turns": lambda: at_home(wt.mechanisms.four_bar((1.0, 0.4, 1.0, 0.8)), 2.0),
        "slider-crank on a stiff gas": gas_spring,
        "Peaucellier on a spring of 1e5": lambda: peaucellier(1e5),
        "five four-bars, springs of 1e6, damped": lambda: cells(5, 1e6, 1e3),
        "delta robot, drive by PD": delta_pd,
    }


def gas_spring() -> Problem:
    model = wt.mechanisms.crank_slider()
    place = model.nv - 1

    def gas(t: Any, q: Any, v: Any) -> Any:
        tau = 0 * v
        tau[place] = 2e3 * (1.6 - q[place]) ** 3 - 5 * v[place]
        tau[0] = 10.0
        return tau

    return at_home(model, 1.0, controller=gas)


def peaucellier(stiffness: float) -> Problem:
    model = wt.mechanisms.peaucellier()
    first, rest = model.joints[0], float(model.home.q[0])

    def spring(t: Any, q: Any, v: Any) -> Any:
        tau = 0 * v
        tau[0] = stiffness * (rest + 0.1 - q[0]) - stiffness / 50 * v[0]
        return tau

    assert first.kind == "revolute"
    return at_home(model, 0.5, controller=spring)


def cells(n: int, stiffness: float, damping: float) -> Problem:
    model = wt.mechanisms.four_bar_chain(n)
    rests = {name: float(model.home.q[model.q_slice(name)][0]) for name in [f"crank_{k}" for k in range(2, n + 1)]}
    joints = [
        replace(own, stiffness=stiffness, damping=damping, rest=rests[own.name]) if own.name in rests else own
        for own in model.joints
    ]
    return at_home(replace(model, joints=tuple(joints)), 0.5)


def delta_pd() -> Problem:
    model = wt.mechanisms.delta_robot()
    arms = np.array([model.slice(f"arm_{k}").start for k in range(3)])
    places = np.array([model.q_slice(f"arm_{k}").start for k in range(3)])
    rest, drives = np.array(model.home.q)[places], np.eye(model.nv)[arms]

    def hold(t: Any, q: Any, v: Any) -> Any:
        return (400 * (rest + 0.2 * np.sin(5 * t) - q[places]) - 15 * v[arms]) @ drives

    return at_home(model, 0.5, controller=hold)


# ---- robots ----------------------------------------------------------------------------------------------------------


def robots() -> dict[str, Make]:
    """An arm of seven joints under controllers, traced and in Python that cannot be."""
    found: dict[str, Make] = {}
    for traced, word in ((True, "traced"), (False, "Python")):
        for stiffness, damping in ((50.0, 5.0), (5e3, 100.0)):
            name = f"arm of seven, PD of {stiffness:g} and {damping:g}, {word}"
            found[name] = partial(arm_problem, stiffness, damping, traced)
    found["humanoid-like tree, joint damping"] = damped_tree
    return found


def arm_of_seven() -> wt.Model:
    builder, parent, last = wt.Builder("arm of seven"), "world", 0.0
    axes = ((0, 0, 1), (0, 1, 0)) * 4
    for i, length in enumerate((0.3, 0.05, 0.35, 0.05, 0.3, 0.05, 0.1)):
        mass = 1 + 8 * length
        across = mass * length**2 / 12 + 0.01
        builder.body(f"link {i}", mass, center=(0.01, 0, length / 2), inertia=(across, across, 0.01))
        builder.joint(f"joint {i}", "revolute", parent, f"link {i}", position=(0, 0, last), axis=axes[i])
        parent, last = f"link {i}", length
    return builder.build()


def arm_problem(stiffness: float, damping: float, traced: bool) -> Problem:
    phases = 0.4 * np.arange(7)

    def follow(t: Any, q: Any, v: Any) -> Any:
        if not traced:
            t = float(t)  # which no traced number becomes
        return stiffness * (0.4 * np.sin(2 * t + phases) - q) - damping * v

    return moved(arm_of_seven(), 1.0, 0.4 * np.sin(phases) + 0.05, controller=follow)


def damped_tree() -> Problem:
    """A trunk with four limbs of three links each, that falls and spins."""
    builder = wt.Builder("tree").body("trunk", 10.0, inertia=(0.5, 0.4, 0.3)).joint("free", "free", "world", "trunk")
    for limb, (x, z) in enumerate(((0.2, 0.3), (-0.2, 0.3), (0.1, -0.3), (-0.1, -0.3))):
        parent, at = "trunk", (x, 0.0, z)
        for k in range(3):
            name = f"limb {limb}.{k}"
            builder.body(name, 1.0, center=(0, 0, -0.15), inertia=(0.01, 0.01, 0.002))
            axis = ((1, 0, 0), (0, 1, 0), (1, 0, 0))[k]
            builder.joint(name, "revolute", parent, name, position=at, axis=axis, damping=0.5, stiffness=3.0)
            parent, at = name, (0.0, 0.0, -0.3)
    model = builder.build()
    v = np.zeros(model.nv)
    v[:3] = 1.0, 2.0, 0.5
    return moved(model, 1.0, model.home.q, v)


if __name__ == "__main__":
    main(problems(), __doc__)
