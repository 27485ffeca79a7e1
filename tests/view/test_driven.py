"""A model that moves while one looks: its steps are those of ``dyn.step``, its commands those of the sliders."""

from __future__ import annotations

import time

import numpy as np
import pytest

import whippletree as wt
from whippletree.view.driven import DrivenMotion, slider_range


def cart():
    builder = wt.Builder("cart").body("cart", mass=2.0, inertia=(0.1,) * 3)
    builder.joint("rail", "prismatic", "world", "cart", axis=(1, 0, 0), lower=-1.0, upper=0.5)
    builder.actuator("push", "rail", command_range=(-3.0, 4.0))
    builder.actuator("place", "rail", gain=(20, 0, 0), bias=(0, -20, -3))
    return builder.actuator("free", "rail").build()


def test_steps_are_those_of_the_compiled_model():
    motion = DrivenMotion(cart())
    motion.ctrl[:] = 2.0, 0.1, 0.0
    motion.advance(20)
    dyn = wt.compile(motion.model)
    q, v, impulses = np.zeros(1), np.zeros(1), None
    for _ in range(20):
        q, v, _, impulses, *_ = dyn.step(q, v, [2.0, 0.1, 0.0], 1e-3, impulses=impulses)
    assert np.array_equal(motion.q, q)
    assert motion.time == pytest.approx(0.02)
    motion.restart()
    assert motion.q == motion.v == 0


def test_sliders_end_where_their_actuators_do():
    model = cart()
    ranges = {actuator.name: slider_range(model, actuator) for actuator in model.actuators}
    assert ranges == {"push": (-3.0, 4.0), "place": (-1.0, 0.5), "free": (-10.0, 10.0)}


def test_a_live_page_moves_under_its_commands():
    pytest.importorskip("viser", reason="the package viser is not installed")
    viewer = wt.show(cart(), live=True, port=18090)
    try:
        viewer.command("push", 4.0)
        viewer.play()
        waited = time.monotonic() + 30
        while viewer.motion.time < 0.2 and time.monotonic() < waited:
            time.sleep(0.05)
        viewer.pause()
        assert viewer.motion.time >= 0.2
        assert viewer.motion.q[0] > 0
        viewer.restart()
        assert viewer.motion.q[0] == 0
    finally:
        viewer.stop()
    run = wt.simulate(cart(), duration=0.01)
    with pytest.raises(ValueError, match="a run has its motion already"):
        wt.show(cart(), run, live=True)
