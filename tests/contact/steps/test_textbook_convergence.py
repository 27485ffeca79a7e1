"""Time stepping converges to the event-driven method, at first order, on problems of textbooks."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from contact_scenes import PLANAR, ball_on, dumbbell, kneed_leg, ladder, rod, run_of, slider, sling, wheel

STEPS = np.array([64, 128, 256, 512])

LEAST_ORDER = 0.8
"""Where an impact falls within its step is a matter of chance: the slopes of single scenes scatter about 1."""


def cue_ball() -> wt.Model:
    return ball_on(wt.Builder("cloth").geometry("table", "world", "half_space"), 0.2, (0, 0, 0.05), 0.05)


def over_the_edge() -> wt.Model:
    builder = wt.Builder("edge", PLANAR).geometry("table", "world", "box", size=(2, 1, 1), position=(-1, -0.5, 0))
    return ball_on(builder, 1.2, (-0.05, 0.1))


def on_a_sphere(friction: float) -> wt.Model:
    builder = wt.Builder("on a sphere", PLANAR).geometry("table", "world", "sphere", radius=0.9)
    return ball_on(builder, friction, (np.sin(0.3), np.cos(0.3)))


SCENES = {
    "slides, then rolls": (lambda: wheel(0.25), [3.0, 0, 0], 0.6),
    "comes back": (lambda: wheel(0.2, share=1.0), [2.0, 0, 20.0], 3.0),
    "bounces with spin": (lambda: wheel(0.8, restitution=0.7, height=1.0), [2.0, 0, 1.5], 0.9),
    "cue ball": (cue_ball, [30.0, 20, 15, 2.0, 0.3, 0], 0.9),
    "rolls over an edge": (over_the_edge, [0.3, 0, -3.0], 0.4),
    "slides off a sphere": (lambda: on_a_sphere(0.0), None, 0.9),
    "rolls off a sphere": (lambda: on_a_sphere(0.5), None, 1.05),
    "ladder leaves its wall": (lambda: ladder(1.2), None, 0.7),
    "ladder slides with friction": (lambda: ladder(1.0, 0.2, 0.1), None, 0.6),
    "rod falls with friction": (lambda: rod(1.0, 0.3), None, 0.55),
    "spring and dry friction": (lambda: slider(0.15, start=0.6, stiffness=50.0), None, 1.1),
    "dumbbell": (lambda: dumbbell(0.6), None, 0.75),
    "string goes slack": (lambda: sling(), [5.5, 0], 0.7),
    "knee strike": (kneed_leg, [1.0, 2.0], 0.35),
}


def last_state(run) -> np.ndarray:
    return np.concatenate([run.q.values[-1], run.v.values[-1]])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_first_order(name):
    make, v0, duration = SCENES[name]
    model = make()
    exact, errors = last_state(run_of(model, v0=v0, duration=duration, output_dt=duration)), []
    for step in duration / STEPS:
        run = wt.simulate(model, v0=v0, duration=duration, method="time_stepping", step=step, output_dt=duration)
        assert run.attrs["unconverged_steps"] == 0
        assert float(run.penetration[-1]) < 1e-9
        errors.append(np.abs(last_state(run) - exact).max())
    order = -np.polyfit(np.log(STEPS), np.log(errors), 1)[0]
    assert order > LEAST_ORDER
    assert errors[-1] < errors[0] / 4
