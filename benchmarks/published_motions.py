"""Work and precision of twenty-two motions after published benchmarks, beside peers: no constant was chosen by them.

    python -m benchmarks.published_motions [--only WORD|WORD] [--patience TIMES]

As :mod:`benchmarks.other_motions`. Vehicles, gyroscopes, pendulums, orbits, loops in space and robots under model-based
controllers, with the forces that such problems have: Stribeck's friction, stops of stiff springs, gravity of a centre,
tyres, thrusters that switch smoothly, and torques that are computed by the functions of the model itself.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.other_motions import Make, arm_of_seven, at_home, heavy_top, main, moved, rods
from benchmarks.work_precision import Problem


def problems() -> dict[str, Make]:
    """All that is measured, by name; made where they are asked for."""
    return {
        "Kepler's ellipse, eccentricity 0.6": lambda: orbit(0.6),
        "Kepler's ellipse, eccentricity 0.95": lambda: orbit(0.95),
        "two bodies that fall about a centre": lambda: orbit(0.3, bodies=2),
        "pendulum on a spring, 2 : 1 resonance": lambda: sprung_bob(4.0),
        "pendulum on a spring of 1e4, in space": lambda: sprung_bob(1e4 / 9.81),
        "chaotic pendulum of four": lambda: moved(rods(4), 3.0, [1.5, 0.1, -0.3, 0.2]),
        "chaotic pendulum of eight, damped by 1e-3": lambda: moved(rods(8, damping=1e-3), 2.0, 0.4 * np.ones(8)),
        "Furuta's pendulum, driven": furuta,
        "sleeping top, almost": lambda: heavy_top(220.0),
        "Iltis-like suspension on a bump": suspension,
        "mass on a belt, Stribeck's friction over 1e-2 m/s": partial(stribeck, 0.01),
        "mass on a belt, Stribeck's friction over 1e-3 m/s": partial(stribeck, 1e-3),
        "ball on a bed of stiff springs": partial(bed, 1e5),
        "ring gyroscope of twelve masses": ring,
        "Bricard's linkage": bricard,
        "five-bar under gravity": five_bar,
        "satellite with thrusters": thrusters,
        "rotor that runs through its critical speed": rotor,
        "crane with a load that swings": crane,
        "arm of seven, computed torque": partial(computed_torque, False),
        "arm of seven, computed torque in Python": partial(computed_torque, True),
        "cart and pole, switched in Python": switched_cart,
    }


def orbit(eccentricity: float, bodies: int = 1) -> Problem:
    """Point masses in the field of a centre, from the far end of their ellipses, for a period."""
    builder = wt.Builder("orbit", (0, 0, 0))
    for k in range(bodies):
        builder.body(f"mass {k}", 1.0, inertia=(1e-3, 1e-3, 1e-3))
        builder.body(f"sled {k}", 0.0)
        builder.joint(f"x {k}", "prismatic", "world", f"sled {k}", axis=(1, 0, 0))
        builder.joint(f"y {k}", "prismatic", f"sled {k}", f"mass {k}", axis=(0, 1, 0))
    model = builder.build()

    def pull(t: Any, q: Any, v: Any) -> Any:
        tau = 0 * v
        for k in range(bodies):
            x, y = q[2 * k], q[2 * k + 1]
            cube = (x * x + y * y) * np.sqrt(x * x + y * y)
            tau[2 * k], tau[2 * k + 1] = -x / cube, -y / cube
        return tau

    far = 1 + eccentricity
    q = np.array([[far * (-1) ** k, 0.0] for k in range(bodies)]).reshape(-1)
    v = np.array([[0.0, math.sqrt((1 - eccentricity) / far) * (-1) ** k] for k in range(bodies)]).reshape(-1)
    return moved(model, 2 * math.pi, q, v, controller=pull)


def sprung_bob(ratio: float) -> Problem:
    """A bob on a spring whose vertical frequency is √ratio times that of the pendulum, swinging in space."""
    builder = wt.Builder("sprung bob", (0, 0, -9.81))
    builder.body("cross", 0.01, inertia=(1e-4, 1e-4, 1e-4)).joint("first", "revolute", "world", "cross", axis=(1, 0, 0))
    builder.body("sleeve", 0.01, inertia=(1e-4, 1e-4, 1e-4))
    builder.joint("second", "revolute", "cross", "sleeve", axis=(0, 1, 0))
    builder.body("bob", 1.0, inertia=(1e-4, 1e-4, 1e-4))
    own = {"stiffness": 9.81 * ratio, "position": (0, 0, -1.0), "axis": (0, 0, -1)}
    builder.joint("spring", "prismatic", "sleeve", "bob", **own)
    return moved(builder.build(), 4.0, [0.1, 0.2, 0.01], [0.3, 0.0, 0.0])


def furuta() -> Problem:
    builder = wt.Builder("Furuta", (0, 0, -9.81)).body("arm", 0.2, center=(0.1, 0, 0), inertia=(1e-4, 1e-3, 1e-3))
    builder.joint("turn", "revolute", "world", "arm")
    builder.body("pole", 0.1, center=(0, 0, 0.15), inertia=(8e-4, 8e-4, 1e-5))
    builder.joint("swing", "revolute", "arm", "pole", position=(0.2, 0, 0), axis=(1, 0, 0))

    def turn(t: Any, q: Any, v: Any) -> Any:
        return np.array([0.05 * np.sin(8 * t) - 0.02 * q[0] - 0.003 * v[0], 0 * v[1]])

    return moved(builder.build(), 1.5, [0.0, 0.1], controller=turn)


def suspension() -> Problem:
    """A wheel on two arms with a stiff bushing, a leaf spring and a damper that is softer in one direction."""
    builder = wt.Builder("suspension", (0, 0, -9.81))
    builder.body("body", 400.0).joint("heave", "prismatic", "world", "body", axis=(0, 0, 1))
    builder.body("arm", 8.0, center=(0.2, 0, 0), inertia=(0.05, 0.3, 0.3))
    builder.joint("arm", "revolute", "body", "arm", axis=(0, -1, 0), damping=2.0)
    builder.body("hub", 35.0, inertia=(0.6, 0.8, 0.6))
    own = {"position": (0.45, 0, 0), "axis": (0, -1, 0), "stiffness": 4e4, "damping": 120.0}
    builder.joint("bushing", "revolute", "arm", "hub", **own)

    def road(t: Any, q: Any, v: Any) -> Any:
        bump = 0.05 * np.exp(-(((t - 0.3) / 0.04) ** 2))
        height = q[0] + 0.45 * np.sin(q[1])
        leaf = -9e3 * q[1] - 400 * v[1] * (1 + 0.5 * np.tanh(20 * v[1]))
        tyre = 4346.0 + 1.8e5 * (bump - height)
        return np.array([tyre, leaf + 0.45 * tyre * np.cos(q[1]), 0 * v[2]])

    return moved(builder.build(), 1.0, [0.0, 0.0, 0.0], controller=road)


def stribeck(width: float) -> Problem:
    """A mass on a spring that a belt drags along by friction which falls with the speed of slip."""
    builder = wt.Builder("belt", (0, 0, 0)).body("mass", 1.0)
    builder.joint("slide", "prismatic", "world", "mass", axis=(1, 0, 0), stiffness=60.0, damping=0.1)

    def rub(t: Any, q: Any, v: Any) -> Any:
        slip = 0.2 - v
        return (4.0 + 3.0 * np.exp(-((slip / 0.1) ** 2))) * np.tanh(slip / width)

    return moved(builder.build(), 3.0, [0.0], controller=rub)


def bed(stiffness: float) -> Problem:
    """A ball that bounces on springs which only push, with a damper in them."""
    builder = (
        wt.Builder("bed", (0, 0, -9.81)).body("ball", 0.5).joint("z", "prismatic", "world", "ball", axis=(0, 0, 1))
    )

    def push(t: Any, q: Any, v: Any) -> Any:
        depth = np.maximum(-q, 0.0)
        return stiffness * depth * np.sqrt(depth) * np.maximum(1 - 0.1 * v, 0.0)

    return moved(builder.build(), 1.0, [0.2], controller=push)


def ring() -> Problem:
    """Masses around a turning hub, on springs along the radius and along the ring."""
    builder = wt.Builder("ring gyroscope", (0, 0, 0)).body("hub", 0.2, inertia=(0.01, 0.01, 0.02))
    builder.joint("turn", "revolute", "world", "hub")
    count = 12
    for k in range(count):
        angle = 2 * math.pi * k / count
        builder.body(f"mass {k}", 0.02, inertia=(1e-6, 1e-6, 1e-6))
        radial, place = (math.cos(angle), math.sin(angle), 0.0), (0.3 * math.cos(angle), 0.3 * math.sin(angle), 0.0)
        builder.joint(f"beat {k}", "prismatic", "hub", f"mass {k}", axis=radial, position=place, stiffness=800.0)
    model = builder.build()

    def along(t: Any, q: Any, v: Any) -> Any:
        tau = 0 * v
        for k in range(count):
            tau[1 + k] = 300 * (q[1 + (k + 1) % count] - 2 * q[1 + k] + q[1 + (k - 1) % count])
        return tau

    start = np.concatenate([[0.0], 0.01 * np.cos(4 * math.pi * np.arange(count) / count)])
    return moved(model, 0.5, start, np.concatenate([[20.0], np.zeros(count)]), controller=along)


def bricard() -> Problem:
    """Six rods of one length, each hinge at a right angle to the next: mobile although counting says that it is not."""
    builder, parent = wt.Builder("Bricard", (0, 0, -9.81)), "world"
    corners = np.array([(1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1), (0, 0, 0)], dtype=float)
    axes = np.array([(1, 0, 0), (0, 1, 0), (0, 0, 1)] * 2, dtype=float)
    at = np.zeros(3)
    for k in range(5):
        rod = corners[k] - at
        across = np.diag(np.eye(3) - np.outer(rod, rod)) / 12 + 1e-4
        builder.body(f"rod {k}", 1.0, center=tuple(rod / 2), inertia=tuple(across))
        axis = tuple(np.roll(axes[k], 1))
        place = tuple(at - (corners[k - 2] if k > 1 else 0.0)) if k else (0, 0, 0)
        builder.joint(f"hinge {k}", "revolute", parent, f"rod {k}", position=place, axis=axis)
        parent, at = f"rod {k}", corners[k]
    end = tuple(corners[4] - corners[3])
    builder.frame("end", parent, position=end).frame("ground", "world", position=tuple(corners[4]))
    builder.constraint("closure", "hinge", "end", "ground", axis=(1, 0, 0))
    return at_home(builder.build(), 0.5)


def five_bar() -> Problem:
    builder = wt.Builder("five-bar", (0, -9.81, 0))
    for side, x, lean in (("left", 0.0, 2.0), ("right", 0.5, 1.1)):
        builder.body(f"{side} crank", 1.0, center=(0.2, 0, 0), inertia=(1e-3, 0.02, 0.02))
        builder.joint(f"{side} root", "revolute", "world", f"{side} crank", position=(x, 0, 0), start=lean, damping=0.1)
        builder.body(f"{side} rod", 0.5, center=(0.3, 0, 0), inertia=(1e-3, 0.02, 0.02))
        bend = -1.2 if side == "left" else 1.2
        own = {"position": (0.4, 0, 0), "start": bend}
        builder.joint(f"{side} elbow", "revolute", f"{side} crank", f"{side} rod", **own)
        builder.frame(f"{side} tip", f"{side} rod", position=(0.6, 0, 0))
    builder.constraint("meet", "pin", "left tip", "right tip")
    return at_home(builder.build(), 0.5)


def thrusters() -> Problem:
    builder = wt.Builder("satellite", (0, 0, 0)).body("bus", 20.0, inertia=(1.0, 2.0, 3.0))
    builder.joint("free", "free", "world", "bus")
    for k, x in enumerate((1.0, -1.0)):
        builder.body(f"panel {k}", 1.0, center=(x / 2, 0, 0), inertia=(0.02, 0.1, 0.1))
        own = {"position": (x / 2, 0, 0), "axis": (0, 1, 0), "stiffness": 30.0, "damping": 0.02}
        builder.joint(f"hinge {k}", "revolute", "bus", f"panel {k}", **own)
    model = builder.build()
    turn = model.slice("free").start

    def fire(t: Any, q: Any, v: Any) -> Any:
        tau = 0 * v
        for i in range(3):
            tau[turn + i] = -0.4 * np.tanh(40 * v[turn + i])
        return tau

    v = np.zeros(model.nv)
    v[turn : turn + 3] = 0.2, -0.1, 0.4
    return moved(model, 8.0, model.home.q, v, controller=fire)


def rotor() -> Problem:
    """Laval's rotor with unbalance on a soft shaft, driven through its critical speed of 30 rad/s."""
    builder = wt.Builder("rotor", (0, 0, 0)).body("x", 0.1).body("y", 0.1)
    own = {"stiffness": 900.0, "damping": 3.0}
    builder.joint("x", "prismatic", "world", "x", axis=(1, 0, 0), **own)
    builder.joint("y", "prismatic", "x", "y", axis=(0, 1, 0), **own)
    builder.body("disc", 1.0, center=(0.002, 0, 0), inertia=(0.005, 0.005, 0.01))
    builder.joint("spin", "revolute", "y", "disc")
    return moved(
        builder.build(), 4.0, [0, 0, 0], controller=lambda t, q, v: np.array([0 * t, 0 * t, 0.15 - 1e-3 * v[2]])
    )


def crane() -> Problem:
    builder = wt.Builder("crane", (0, 0, -9.81)).body("trolley", 5.0)
    builder.joint("run", "prismatic", "world", "trolley", axis=(1, 0, 0), damping=2.0)
    builder.body("hook", 0.5, center=(0, 0, -2.0), inertia=(2.0, 2.0, 0.01))
    builder.joint("swing", "spherical", "trolley", "hook", start=(math.cos(0.1), math.sin(0.1), 0, 0))
    builder.body("load", 20.0, center=(0, 0, -0.5), inertia=(1.0, 1.5, 0.8))
    builder.joint("sling", "spherical", "hook", "load", position=(0, 0, -2.2))
    model = builder.build()
    run = model.slice("run").start

    def drive(t: Any, q: Any, v: Any) -> Any:
        tau = 0 * v
        tau[run] = 200 * (np.tanh(2 * (t - 1)) - q[0]) - 150 * v[run]
        return tau

    return moved(model, 4.0, model.home.q, controller=drive)


def computed_torque(in_python: bool) -> Problem:
    """An arm that follows a path by its own inverse dynamics; traced, or asked as a compiled function in Python."""
    model = arm_of_seven()
    phases = 0.4 * np.arange(7)
    dyn, plain = wt.compile(model), wt.reference(model)

    def follow(t: Any, q: Any, v: Any) -> Any:
        wave = 2 * t + phases
        wanted = -1.6 * np.sin(wave) + 400 * (0.4 * np.sin(wave) - q) + 40 * (0.8 * np.cos(wave) - v)
        return dyn.inverse_dynamics(q, v, wanted) if in_python else plain.inverse_dynamics(q, v, wanted)

    return moved(model, 1.0, 0.4 * np.sin(phases) + 0.05, controller=follow)


def switched_cart() -> Problem:
    """A pole that is pumped by energy and held by feedback near the top, as one writes it with ``if``."""
    model = wt.mechanisms.cart_pole()

    def act(t: Any, q: Any, v: Any) -> Any:
        push = -3 * q[0] - 2 * v[0]
        if abs(v[1]) > 1e-3:
            push = push + 2.0 * math.cos(q[1]) * float(v[1])
        return [push, 0.0]

    return moved(model, 2.0, np.array(model.home.q) + 0.3, controller=act)


if __name__ == "__main__":
    main(problems(), __doc__)
