"""Work and precision of motions under controllers in plain Python, linear laws and others, beside peers.

    python -m benchmarks.python_laws [--only WORD|WORD] [--patience TIMES]

As :mod:`benchmarks.other_motions`. None of the laws can be traced; by them it was seen when a tangent saves questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.other_motions import Make, arm_of_seven, arm_problem, at_home, main, moved, rods
from benchmarks.work_precision import Problem

PHASES = 0.4 * np.arange(7)
"""Of the joints of an arm, rad."""


def problems() -> dict[str, Make]:
    """All that is measured, by name; made where they are asked for."""
    return linear_laws() | other_laws()


def in_python(law: Callable[..., Any]) -> Callable[..., Any]:
    """A law as one that cannot be traced."""
    return lambda t, q, v: law(float(t), q, v)


# ---- linear laws -----------------------------------------------------------------------------------------------------


def linear_laws() -> dict[str, Make]:
    """In q and v, whatever they are in time."""
    return {
        "arm, PD of 50 and 5": lambda: arm_problem(50.0, 5.0, False),
        "arm, PD of 5e3 and 100": lambda: arm_problem(5e3, 100.0, False),
        "elastic arm of 400 N m/rad": lambda: elastic_arm(400.0),
        "elastic arm of 1e5 N m/rad": lambda: elastic_arm(1e5),
        "satellite with a mast": satellite,
        "drone": drone,
        "delta robot": delta,
        "cart and pole": cart_and_pole,
        "slider-crank": slider_crank,
    }


def elastic_arm(stiffness: float) -> Problem:
    """Four motors, each with a link behind a spring."""
    builder, parent, last = wt.Builder("elastic arm"), "world", 0.0
    for i in range(4):
        axis = ((0, 0, 1), (0, 1, 0))[i % 2]
        builder.body(f"motor {i}", 0.3, inertia=(0.02, 0.02, 0.02))
        builder.joint(f"motor {i}", "revolute", parent, f"motor {i}", position=(0, 0, last), axis=axis)
        builder.body(f"link {i}", 2.0, center=(0.02, 0, 0.15), inertia=(0.02, 0.02, 0.005))
        spring = {"stiffness": stiffness, "damping": 1.0}
        builder.joint(f"spring {i}", "revolute", f"motor {i}", f"link {i}", axis=axis, **spring)
        parent, last = f"link {i}", 0.3
    model = builder.build()
    own = np.array([model.slice(f"motor {i}").start for i in range(4)])
    drives = np.eye(model.nv)[own]
    law = in_python(lambda t, q, v: (120 * (0.5 * np.sin(2 * t) - q[own]) - 12 * v[own]) @ drives)
    return at_home(model, 1.0, controller=law)


def satellite() -> Problem:
    """Its attitude is held; a mast on a spring swings."""
    builder = wt.Builder("satellite", (0, 0, 0)).body("bus", 20.0, inertia=(1.0, 2.0, 3.0))
    builder.joint("free", "free", "world", "bus").body("mast", 2.0, center=(1.0, 0, 0), inertia=(0.01, 0.6, 0.6))
    builder.joint("root", "revolute", "bus", "mast", position=(0.5, 0, 0), stiffness=200.0, damping=0.5)
    model = builder.build()

    def hold(t: float, q: Any, v: Any) -> Any:
        return np.concatenate([-40 * math.copysign(1.0, q[3]) * q[4:7] - 12 * v[:3], np.zeros(4)])

    return moved(model, 5.0, model.home.q, [0.4, 0.3, -0.5, 0, 0, 0, 0], controller=in_python(hold))


def drone() -> Problem:
    builder = wt.Builder("drone").body("body", 1.0, inertia=(0.01, 0.01, 0.02))
    model = builder.joint("free", "free", "world", "body").build()

    def level(t: float, q: Any, v: Any) -> Any:
        return np.concatenate([-3 * q[4:7] - 0.25 * v[:3], [0, 0, 9.81 + 6 * (1 - q[2]) - 4 * v[5]]])

    return moved(model, 2.0, model.home.q, [1.0, -2.0, 0.5, 0, 0, 0], controller=in_python(level))


def delta() -> Problem:
    model = wt.mechanisms.delta_robot()
    arms = np.array([model.slice(f"arm_{k}").start for k in range(3)])
    places = np.array([model.q_slice(f"arm_{k}").start for k in range(3)])
    rest, drives = np.array(model.home.q)[places], np.eye(model.nv)[arms]
    law = in_python(lambda t, q, v: (400 * (rest + 0.2 * np.sin(5 * t) - q[places]) - 15 * v[arms]) @ drives)
    return at_home(model, 0.5, controller=law)


def cart_and_pole() -> Problem:
    builder = wt.Builder("cart and pole", (0, -9.81, 0)).body("cart", 1.0, inertia=(1e-2, 1e-2, 1e-2))
    builder.joint("x", "prismatic", "world", "cart", axis=(1, 0, 0), damping=0.1)
    builder.body("pole", 0.3, center=(0, 0.4, 0), inertia=(0.016, 1e-4, 0.016))
    model = builder.joint("hinge", "revolute", "cart", "pole").build()

    def balance(t: float, q: Any, v: Any) -> Any:
        if abs(q[1]) > 0.6:
            return np.zeros(2)
        return np.array([8 * q[0] + 9 * v[0] - 60 * q[1] - 14 * v[1], 0.0])

    return moved(model, 3.0, [0.2, 0.25], controller=in_python(balance))


def slider_crank() -> Problem:
    model = wt.mechanisms.crank_slider()

    def drive(t: float, q: Any, v: Any) -> Any:
        tau = 0 * v
        tau[0], tau[-1] = 4 * math.sin(3 * t) + 2, -8 * v[-1]
        return tau

    return at_home(model, 2.0, controller=in_python(drive))


# ---- laws with curves and kinks --------------------------------------------------------------------------------------


def other_laws() -> dict[str, Make]:
    """Limits, tanh, a network, and the equations of motion themselves."""
    return {
        "arm within limits": arm_within_limits,
        "swing-up within limits": swing_up,
        "four-bar, motor with tanh": four_bar,
        "friction with tanh": friction,
        "network of 16": network,
        "computed torque": computed_torque,
    }


def arm_within_limits() -> Problem:
    law = in_python(lambda t, q, v: np.clip(300 * (0.4 * np.sin(2 * t + PHASES) - q) - 25 * v, -30, 30))
    return moved(arm_of_seven(), 1.0, 0.4 * np.sin(PHASES) + 0.3, controller=law)


def swing_up() -> Problem:
    """A pendulum that is given energy, with weak motors."""

    def pump(t: float, q: Any, v: Any) -> Any:
        energy = 0.5 * (0.04 + 0.8 * 0.35**2) * v[0] ** 2 + 0.8 * 9.81 * 0.35 * (np.sin(q[0]) - 1)
        return np.array([np.clip(-2 * energy * v[0], -1.5, 1.5)])

    return moved(rods(1), 4.0, [0.05 - math.pi / 2], controller=in_python(pump))


def four_bar() -> Problem:
    model = wt.mechanisms.four_bar((1.0, 0.4, 1.0, 0.8))
    crank = np.eye(model.nv)[model.slice("crank").start]
    return at_home(model, 1.5, controller=in_python(lambda t, q, v: 20 * np.tanh(3 * (6 - crank @ v)) * crank))


def friction() -> Problem:
    """Of 2 N m in three joints, smooth over 0.01 rad/s."""
    push = np.array([6.0, 0.0, 0.0])
    law = in_python(lambda t, q, v: push * math.sin(3 * t) - 2 * np.tanh(v / 1e-2))
    return moved(rods(3), 1.5, [-1.2, 0.2, 0.1], controller=law)


def network() -> Problem:
    rng = np.random.default_rng(1)
    inner, outer = rng.normal(size=(16, 4)), 0.7 * rng.normal(size=(2, 16))
    law = in_python(lambda t, q, v: outer @ np.tanh(inner @ np.concatenate([np.sin(q), 0.3 * v])))
    return moved(rods(2), 2.0, [-0.5, 0.4], controller=law)


def computed_torque() -> Problem:
    model = arm_of_seven()
    dyn = wt.compile(model)

    def follow(t: float, q: Any, v: Any) -> Any:
        goal, speed = 0.4 * np.sin(2 * t + PHASES), 0.8 * np.cos(2 * t + PHASES)
        return dyn.inverse_dynamics(q, v, -4 * goal + 100 * (goal - q) + 20 * (speed - v))

    return moved(model, 1.0, 0.4 * np.sin(PHASES) + 0.1, controller=in_python(follow))


if __name__ == "__main__":
    main(problems(), __doc__)
