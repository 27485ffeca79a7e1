"""The two ways of stepping through contact converge to each other as the step goes to zero."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt

STEPS = (64, 96, 144, 216, 324, 486)
"""Numbers of steps: an impact falls on another place within its step each time."""


def flail() -> wt.Model:
    """A double pendulum whose ball strikes the ground."""
    builder = wt.Builder("flail").body("upper", 1.0, (0, -0.25, 0), (0.02, 0.001, 0.02))
    builder.joint("shoulder", "revolute", "world", "upper", axis=(0, 0, 1))
    builder.body("lower", 0.5, (0, -0.2, 0), (0.01, 0.001, 0.01))
    builder.joint("elbow", "revolute", "upper", "lower", axis=(0, 0, 1), position=(0, -0.5, 0))
    builder.geometry("tip", "lower", "sphere", radius=0.02, position=(0, -0.4, 0))
    model = replace(builder.build(), gravity=(0, -9.81, 0))
    return wt.on_ground(model, geometries=["tip"], height=-0.85, friction=0.3)


def stopped_pendulum() -> wt.Model:
    """A pendulum with a ball at its end, which swings against a wall."""
    builder = wt.Builder("stopped pendulum").body("rod", 1.0, (0, -0.5, 0), (0.1, 0.001, 0.1))
    builder.joint("pivot", "revolute", "world", "rod", axis=(0, 0, 1))
    builder.geometry("bob", "rod", "sphere", radius=0.05, position=(0, -1.0, 0))
    model = replace(builder.build(), gravity=(0, -9.81, 0))
    return wt.on_ground(model, geometries=["bob"], normal=(1, 0, 0), height=-0.3, friction=0.0)


SCENES = {
    "ball falls and bounces": (lambda: wt.mechanisms.bouncing_ball(height=0.3, restitution=0.7), None, None, 0.45),
    "block slides to rest": (lambda: wt.mechanisms.sliding_block(angle=0.1, friction=0.3), [0, 0], [0.8, 0], 0.6),
    "block lands and slides": (
        lambda: wt.mechanisms.sliding_block(angle=0.4, friction=0.3), [0, 0.0371], [0.5, 0], 0.3,
    ),
    "rocking block": (lambda: wt.mechanisms.rocking_block(tilt=0.1), None, None, 0.3),
    "pendulum meets a wall": (stopped_pendulum, [0.4], [0.0], 0.7),
    "double pendulum strikes the ground": (flail, [0.9, 0.3], [0.0, 0.0], 0.45),
}  # fmt: skip


def differences(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps, s, and the largest difference of the last states from those of the event-driven method."""
    make, q0, v0, duration = SCENES[name]
    model = make()
    start = {} if q0 is None else {"q0": np.array(q0, dtype=float), "v0": np.array(v0, dtype=float)}
    events = wt.simulate(model, duration=duration, method="events", output_dt=duration, **start)
    assert events.attrs["failure"] == ""
    exact = np.concatenate([events.q.values[-1], events.v.values[-1]])
    found = []
    for count in STEPS:
        step = duration / count
        run = wt.simulate(model, duration=duration, method="time_stepping", step=step, output_dt=duration, **start)
        assert run.attrs["unconverged_steps"] == 0
        found.append(np.abs(np.concatenate([run.q.values[-1], run.v.values[-1]]) - exact).max())
    return duration / np.array(STEPS), np.array(found)


def order(steps: np.ndarray, errors: np.ndarray) -> float:
    """The slope of log error over log step, by least squares."""
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_time_stepping_converges_to_the_event_driven_method_at_first_order(name):
    steps, errors = differences(name)
    # of an impact, the error depends on where in its step it falls: the slope scatters, error / step has a bound
    assert order(steps, errors) > 0.8
    assert errors[-1] < 0.3 * errors[0]
    assert np.all(np.isfinite(errors))


def test_a_plastic_landing_is_exact_once_it_is_over():
    model = wt.mechanisms.bouncing_ball(height=0.3, restitution=0)
    for method in ("events", "time_stepping"):
        run = wt.simulate(model, duration=0.5, method=method, output_dt=0.5)
        assert run.q.values[-1, 0] == pytest.approx(0.0, abs=1e-15)
        assert run.v.values[-1, 0] == 0


def test_free_fall_loses_what_a_first_order_scheme_loses():
    """v is exact, the height is g h t / 2 too low: the balance is −m g² h t / 2, known beforehand."""
    model, h, t = wt.mechanisms.bouncing_ball(height=10.0), 1e-3, 0.5
    run = wt.simulate(model, duration=t, method="time_stepping", step=h, output_dt=t)
    mass = float(model.bodies[0].mass)
    assert run.energy_balance.values[-1] == pytest.approx(-mass * 9.81**2 * h * t / 2, rel=1e-9)
    assert math.isclose(run.v.values[-1, 0], -9.81 * t, rel_tol=1e-12)


if __name__ == "__main__":  # the table of docs/contact_steps.md
    for name in SCENES:
        steps, errors = differences(name)
        print(f"| {name} | {errors[0]:.1e} | {errors[-1]:.1e} | {order(steps, errors):.2f} |")
