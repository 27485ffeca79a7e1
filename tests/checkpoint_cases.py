"""Runs that are killed: one of every method, single and in a batch, each in a process that takes its time."""

from __future__ import annotations

import time

import numpy as np

import whippletree as wt
from whippletree.simulation.checkpoint import Checkpoint
from whippletree.simulation.fixed_step import fixed_step_method

FOUR_BAR = {"lengths": (1.0, 0.4, 1.2, 0.9), "masses": (1.0, 0.0, 1.0)}
LOW = wt.Event("low", lambda t, q, v: np.sin(q[0]) + 0.8)


def push(t, q, v):
    """A controller that is traced."""
    return [0.1 * np.sin(t), -0.1 * v[1]]


def branching(t, q, v):
    """A controller that is not."""
    return [0.1 if q[0] > 0 else -0.1, 0.0]


def regulated(t, q, v):
    """Nor this one, whose tangent is found anew now and then."""
    return -3 * v * np.abs(v) - 200 * (q - np.sin(float(t)))


def explosive(t, q, v):
    return [-20 * q[0] + q[0] ** 5]


def _pendulums():
    return np.random.default_rng(3).uniform(-1, 1, (5, 2))


def case(name):
    """The model and the arguments of ``wt.simulate``."""
    pendulum, bar = wt.mechanisms.double_pendulum, wt.mechanisms.four_bar
    fixed_steps = {"duration": 0.5, "output_dt": 0.01, "step": 0.001}
    return {
        "adaptive": lambda: (pendulum(), {"duration": 4.0, "events": (LOW,)}),
        "adaptive in python": lambda: (
            wt.mechanisms.chain(4),
            {"duration": 6.0, "controller": regulated, "events": (LOW,)},
        ),
        "adaptive batch": lambda: (pendulum(), {"q0": _pendulums(), "duration": 1.0, "events": (LOW,)}),
        "rk4": lambda: (bar(**FOUR_BAR), {"method": "rk4", **fixed_steps}),
        "rk4 with controller": lambda: (pendulum(), {"method": "rk4", "controller": push, **fixed_steps}),
        "rk4 in python": lambda: (pendulum(), {"method": "rk4", "controller": branching, **fixed_steps}),
        "rk4 batch with a failure": lambda: (
            wt.mechanisms.pendulum(),
            {"q0": [[0.01], [9.0], [0.02]], "method": "rk4", "controller": explosive, **fixed_steps},
        ),
        "semi_implicit_euler": lambda: (bar(**FOUR_BAR), {"method": "semi_implicit_euler", **fixed_steps}),
        "implicit_midpoint": lambda: (bar(**FOUR_BAR), {"method": "implicit_midpoint", **fixed_steps}),
        "events": lambda: (wt.mechanisms.hopper(), {"method": "events", "massless": "hold", "duration": 2.0}),
        "time_stepping": lambda: (
            wt.mechanisms.box_stack(2),
            # ten calls of the kernel: rows of one call come as one piece
            {"method": "time_stepping", "step": 2e-3, "duration": 10.0, "output_dt": 0.1},
        ),
        "time_stepping batch": lambda: (
            wt.mechanisms.bouncing_ball(),
            {"q0": [[0.2], [0.5], [0.15]], "method": "time_stepping", "step": 2e-3, "duration": 0.3, "output_dt": 0.01},
        ),
    }[name]()


NAMES = (
    "adaptive", "adaptive in python", "adaptive batch", "rk4", "rk4 with controller", "rk4 in python",
    "rk4 batch with a failure", "semi_implicit_euler", "implicit_midpoint", "events", "time_stepping",
    "time_stepping batch",
)  # fmt: skip


def run_slowly(name, folder):
    """Simulate with a pause after every chunk, so that there is time to be killed in the middle."""
    write = Checkpoint.write_in_time

    def slowly(self):
        write(self)
        time.sleep(0.02)

    Checkpoint.write_in_time = slowly
    fixed_step_method.WORK_PER_CHUNK = 60
    model, arguments = case(name)
    wt.simulate(model, checkpoint=folder, checkpoint_every=0.0, **arguments)
