"""Derivatives of runs in space by their start states, against differences of whole runs."""

import numpy as np
import pytest

import whippletree as wt
from whole_runs import compared


def tumbling_bar():
    return (
        wt.Builder("tumbling bar")
        .geometry("ground", "world", "half_space")
        .body("bar", 2.0, inertia=(0.02, 0.05, 0.06))
        .joint("free", "free", "world", "bar")
        .geometry("corner", "bar", "point", position=(0.2, 0.15, -0.1))
        .geometry("other", "bar", "point", position=(-0.2, 0.1, -0.1))
        .contact("corner", "corner", "ground", friction=0.3, restitution=0.5)
        .contact("other", "other", "ground", friction=0.3, restitution=0.5)
        .build()
    )


@pytest.mark.slow
@pytest.mark.parametrize(("law", "landings"), [("energetic", 3), ("plastic", 1)])
def test_a_body_that_tumbles_in_space(law, landings):
    """Impacts in space: the slip turns while the impulse grows, and the body's axes turn with it."""
    turn = np.array([0.9, 0.3, 0.2, 0.1])
    q = [0, 0, 0.6, *turn / np.linalg.norm(turn)]
    duration = 0.45 if law == "energetic" else 0.36
    compared(tumbling_bar(), duration, ["touchdown"] * landings, q0=q, v0=[0.5, 1, 0.3, 0.4, 0.2, 0], impact_law=law)


@pytest.mark.slow
def test_a_puck_that_comes_to_rest_in_space():
    """Its slip turns on springs, and stops in both directions at once."""
    model = (
        wt.Builder("puck")
        .geometry("ground", "world", "half_space")
        .body("along")
        .body("across")
        .body("puck", 1.0)
        .joint("x", "prismatic", "world", "along", axis=(1, 0, 0), stiffness=20.0)
        .joint("y", "prismatic", "along", "across", axis=(0, 1, 0), stiffness=5.0)
        .joint("z", "prismatic", "across", "puck", axis=(0, 0, 1))
        .geometry("base", "puck", "point")
        .contact("rub", "base", "ground", friction=0.3)
        .build()
    )
    compared(model, 0.5, ["stick"], v0=[1.0, 0.5, 0])
