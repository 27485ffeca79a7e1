"""Impacts of mechanisms with loops and with drives that follow a motion in time."""

import numpy as np
import pytest

import whippletree as wt
from whole_runs import compared

UPWARDS = [[1, 0, 0], [0, 0, 1], [0, -1, 0]]


def hammer(friction):
    """A head on an arm that a motor moves as time prescribes."""
    return (
        wt.Builder("hammer", (0, -9.81, 0))
        .geometry("anvil", "world", "half_space", position=(0, -1.2, 0), rotation=UPWARDS)
        .body("arm", 1.0, (0, -0.4, 0), (0.05, 0.05, 0.05))
        .body("head", 2.0, (0, -0.3, 0), (0.03, 0.03, 0.03))
        .joint("motor", "revolute", "world", "arm", start=1.2)
        .joint("hinge", "revolute", "arm", "head", position=(0, -0.8, 0), start=0.2)
        .geometry("face", "head", "sphere", position=(0, -0.5, 0), radius=0.05)
        .contact("blow", "face", "anvil", friction=friction, restitution=0.4)
        .constraint("drive", "prescribed", "motor", motion=lambda t: 1.2 - 2 * t - t * t / 2)
        .build()
    )


@pytest.mark.slow
def test_derivative_through_the_blow_of_a_driven_hammer():
    """Time enters the reset: the velocity that an impact leaves to the arm is that of its drive."""
    compared(hammer(0.0), 0.4, ["touchdown"], v0=[-2.0, 0.5])


def test_a_drive_that_friction_wedges_ends_the_run_with_its_cause():
    """With a rigid drive one freedom is left; friction holds it while the drive still closes the gap."""
    run = wt.simulate(hammer(0.3), v0=[-2.0, 0.5], duration=0.4, method="events")
    assert "at an impact of blow: no impulse stops it" in run.attrs["failure"]
    assert run["contact_gap"].values.min() > -1e-9


@pytest.mark.slow
def test_derivative_through_the_stroke_of_a_closed_loop():
    wall = [[0, 0, -1.0], [0, 1, 0], [1.0, 0, 0]]
    model = (
        wt.Builder("loop at a wall", (0, -9.81, 0))
        .geometry("wall", "world", "half_space", position=(1.45, 0, 0), rotation=wall)
        .body("crank", 1.0, (0.25, 0, 0), (0.02, 0.02, 0.02))
        .body("rod", 1.0, (0.5, 0, 0), (0.08, 0.08, 0.08))
        .body("piston", 2.0)
        .joint("crank", "revolute", "world", "crank", start=1.0)
        .joint("rod", "revolute", "crank", "rod", position=(0.5, 0, 0), start=-1.4)
        .joint("slide", "prismatic", "world", "piston", axis=(1, 0, 0), start=1.2)
        .frame("end", "rod", position=(1.0, 0, 0))
        .frame("pin", "piston")
        .constraint("closure", "pin", "end", "pin")
        .geometry("face", "piston", "sphere", radius=0.05)
        .contact("strike", "face", "wall", friction=0.1, restitution=0.5)
        .build()
    )
    q = np.asarray(model.home.q, dtype=float)
    v = wt.compile(model).project_velocity(q, np.array([-3.0, 0, 0]))
    compared(model, 0.4, ["touchdown"], q0=q, v0=v)
