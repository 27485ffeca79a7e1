"""Reactions in runs under tendons, their motors and limits, jets, and contacts: every body by itself in balance."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from methods.test_reactions_under_elements import actuator_pushes, assert_balanced, element_pushes, rig
from whippletree.model import Activation

COMMANDS = np.array([3.0, -2.0])


def assert_run_balanced(model, run):
    ref = wt.reference(model)
    for k in (0, len(run.time) // 2, len(run.time) - 1):
        q, v, a = (run[name].values[k] for name in ("q", "v", "a"))
        pushes = [*element_pushes(model, ref, q, v), *actuator_pushes(model, ref, q, v, COMMANDS)]
        assert_balanced(model, ref, q, v, a, run.joint_reactions.values[k], pushes)


@pytest.mark.parametrize("given", ["ctrl", "controller"])
def test_motors_of_tendons_and_jets_in_a_run(given):
    """Commands given to the run, or as its controller."""
    model = rig()
    driver = {"ctrl": COMMANDS} if given == "ctrl" else {"controller": wt.controllers.actuated(model, COMMANDS)}
    assert_run_balanced(model, wt.simulate(model, duration=0.05, reactions=True, **driver))


def test_activations_of_motors_of_tendons():
    """A filtered motor pulls by its activation, whether commands are known in advance or by the state."""
    builder = wt.Builder("winch", (0, 0, 0)).body("block", 2.0, inertia=(1, 1, 1))
    builder.joint("slide", "prismatic", "world", "block", axis=(1, 0, 0)).frame("hook", "world", position=(0, 1.0, 0))
    builder.frame("eye", "block").tendon("rope", "hook", "eye")
    activation = Activation("filter", (0.05,))
    model = builder.actuator("winch", tendon="rope", gear=-1.0, activation=activation).build()
    for ctrl in ([4.0], lambda t, q, v: [4.0]):
        run = wt.simulate(model, duration=0.1, ctrl=ctrl, reactions=True, method="adaptive")
        eye = np.stack([run.q.values[:, 0], np.full(len(run.time), -1.0)], axis=1)
        across = -eye[:, 1] / np.linalg.norm(eye, axis=1) * run.act.values[:, 0]
        found = run.joint_reactions.sel(reaction="slide", component="force_y").values
        assert np.allclose(found, -across, atol=1e-10)
        assert abs(found[-1]) > 3


def test_the_limit_of_a_tendon_pulls_at_its_bodies():
    """A block that slides down a pole hangs on a rope: the pole holds against the rope's pull across."""
    builder = wt.Builder("hanging", (0, 0, -9.81)).body("block", 2.0, inertia=(0.1, 0.1, 0.1))
    builder.joint("pole", "prismatic", "world", "block", axis=(0, 0, 1), damping=20.0)
    builder.frame("hook", "world", position=(0.6, 0, 1.0)).frame("eye", "block")
    model = builder.tendon("rope", "hook", "eye", limits=(0, 1.5)).build()
    run = wt.simulate(model, duration=3.0, method="time_stepping", step=1e-2, reactions=True)
    down = 1.0 - run.q.values[-1, 0]
    pull = 2.0 * 9.81 / down * np.array([0.6, down])  # whose vertical part carries the weight
    found = run.joint_reactions.sel(reaction="pole").values[-1]
    assert np.isclose(np.hypot(0.6, down), 1.5, atol=1e-3)
    assert abs(run.a.values[-1, 0]) < 0.1
    assert np.isclose(found[3], -pull[0], rtol=1e-3)
    assert abs(found[5]) < 0.02 * pull[1]


def test_springs_and_contacts_together():
    """A crutch on the ground, drawn aside by a spring: the guide carries the spring and the stand's moment."""
    builder = wt.Builder("crutch", gravity=(0, 0, -9.81)).body("rod", mass=2.0, inertia=(0.1, 0.1, 0.01))
    builder.joint("guide", "prismatic", "world", "rod", axis=(0, 0, 1), start=0.45)
    builder.frame("hook", "world", position=(1.0, 0, 0.45)).frame("eye", "rod")
    builder.tendon("spring", "hook", "eye", stiffness=50.0, rest=0.4)
    builder.geometry("ball", "rod", "sphere", radius=0.05, position=(0.1, 0, -0.4))
    model = builder.geometry("floor", "world", "half_space").contact("stand", "ball", "floor", friction=0.0).build()
    run = wt.simulate(model, duration=0.3, method="time_stepping", reactions=True)
    found = run.joint_reactions.sel(reaction="guide").values[-1]
    assert np.allclose(found, [0, 2.0 * 9.81 * 0.1, 0, -30.0, 0, 0], atol=1e-6)
