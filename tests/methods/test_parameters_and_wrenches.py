"""Open parameters are differentiated like inputs, and wrenches on frames act in both directions of the dynamics."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt

PATHS = ["bodies.lower.mass", "bodies.upper.center", "gravity"]
STATE = [np.array([0.3, -0.7]), np.array([1.0, -2.0]), np.array([0.5, 0.1])]
VALUES = [np.array(1.3), np.array([0.4, 0.1, 0.05]), np.array([0.2, -9.0, 0.3])]
DIRECTIONS = [np.array(0.7), np.array([0.1, -0.3, 0.2]), np.array([1.0, 0.5, -0.2])]


def evaluators():
    model = wt.mechanisms.double_pendulum()
    return {"reference": wt.reference(model, parameters=PATHS), "compiled": wt.compile(model, parameters=PATHS)}


def difference(dyn, h=1e-6):
    up, down = (
        dyn.forward_dynamics(*STATE, *[x + s * h * d for x, d in zip(VALUES, DIRECTIONS, strict=True)]) for s in (1, -1)
    )
    return (up - down) / (2 * h)


@pytest.mark.parametrize("kind", ["reference", "compiled"])
def test_directions_and_gradients_of_parameters(kind):
    dyn = evaluators()[kind]
    still = [np.zeros(2)] * 3
    moved = dyn.jvp("forward_dynamics")(*STATE, *still, *DIRECTIONS, *VALUES)
    assert np.abs(moved - difference(dyn)).max() < 1e-7
    seed = np.array([0.3, -1.1])
    gradients = dyn.vjp("forward_dynamics")(*STATE, seed, *VALUES)
    assert len(gradients) == 6
    along = sum(np.sum(g * d) for g, d in zip(gradients[3:], DIRECTIONS, strict=True))
    assert abs(along - seed @ moved) < 1e-10


def test_a_model_that_is_singular_in_every_state_is_an_error_when_compiled():
    dyn = wt.compile(wt.mechanisms.double_pendulum(masses=(1.0, 0.0)))
    z = np.zeros(2)
    with pytest.raises(wt.SingularSystemError, match="has no inertia"):
        dyn.forward_dynamics(z, z, z)


@pytest.mark.parametrize("make", [wt.reference, wt.compile])
def test_a_wrench_in_inverse_dynamics_undoes_the_same_wrench_in_forward_dynamics(make):
    dyn = make(wt.mechanisms.double_pendulum())
    q, v, tau = STATE
    wrench = np.array([0.1, 0.2, -0.3, 1.0, -2.0, 0.5])
    a = dyn.forward_dynamics_with_wrench("tip")(q, v, tau, wrench)
    assert np.abs(dyn.inverse_dynamics_with_wrench("tip")(q, v, a, wrench) - tau).max() < 1e-13
    assert np.abs(dyn.inverse_dynamics(q, v, a) - tau - dyn.jacobian("tip")(q).T @ wrench).max() < 1e-13
