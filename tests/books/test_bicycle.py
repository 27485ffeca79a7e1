"""The benchmark bicycle of Meijaard, Papadopoulos, Ruina and Schwab (2007), Table 1, and its eigenvalues at 5 m/s,
Table 2.

Two thin discs that roll on the ground (four rows at velocity level, two heights), a frame and a fork. The z axis points
down, as in the paper.
"""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt

SPEED = 5.0
EIGENVALUES = (-14.0783896927982, -0.775341882195845 - 4.46486771378823j, -0.322866429004087)
"""Caster, weave (one of a pair) and capsize, 1/s."""


def bicycle() -> wt.Model:
    """The rear frame's origin is the rear contact; lean is its turn about x."""
    base, trail, tilt = 1.02, 0.08, np.pi / 10
    foot = np.array([base + trail, 0, 0])  # where the steering axis meets the ground
    b = wt.Builder("Whipple bicycle", (0, 0, 9.81))
    b.body("frame", 85.0, (0.3, 0, -0.9), (9.2, 11, 2.8, 0, 2.4, 0))
    b.body("fork", 4.0, np.array([0.9, 0, -0.7]) - foot, (0.05892, 0.06, 0.00708, 0, -0.00756, 0))
    b.body("rear wheel", 2.0, inertia=(0.0603, 0.12, 0.0603)).body("front wheel", 3.0, inertia=(0.1405, 0.28, 0.1405))
    b.joint("base", "free", "world", "frame")
    b.joint("steer", "revolute", "frame", "fork", position=foot, axis=(np.sin(tilt), 0, np.cos(tilt)))
    b.joint("rear", "revolute", "frame", "rear wheel", position=(0, 0, -0.3), axis=(0, 1, 0))
    b.joint("front", "revolute", "fork", "front wheel", position=np.array([base, 0, -0.35]) - foot, axis=(0, 1, 0))
    for wheel, radius in (("rear", 0.3), ("front", 0.35)):
        b.constraint(wheel, "rolling", "world", f"{wheel} wheel", radius=radius, normal=(0, 0, -1), axis=(0, 1, 0))
    return b.build()


def test_the_benchmark_bicycle_has_its_published_eigenvalues():
    model = bicycle()
    assert wt.diagnose(model).freedoms == 3
    dyn = wt.compile(model)
    steer, spin = model.slice("steer").start, model.slice("rear").start
    chosen, others = [0, steer, spin], [i for i in range(model.nv) if i not in (0, steer, spin)]

    def accelerations(lean, angle, lean_rate, rate):
        """Of lean and steer, as the bicycle rolls at 5 m/s."""
        guess = model.neutral.q.copy()
        guess[3:5], guess[model.q_slice("steer")] = (np.cos(lean / 2), np.sin(lean / 2)), angle
        q = wt.assemble(model, guess, hold={"steer": angle})
        A, v = dyn.constraint_jacobian(q), np.zeros(model.nv)
        v[chosen] = lean_rate, rate, -SPEED / 0.3
        v[others] = np.linalg.solve(A[:, others], -A[:, chosen] @ v[chosen])
        return dyn.forward_dynamics(q, v, np.zeros(model.nv))[[0, steer]]

    matrix = np.zeros((4, 4))
    matrix[:2, 2:] = np.eye(2)
    h = 1e-3
    for k, e in enumerate(np.eye(4)):
        near, far = ((accelerations(*s * e) - accelerations(*-s * e)) / (2 * s) for s in (h, 2 * h))
        matrix[2:, k] = (4 * near - far) / 3  # differences of fourth order
    caster, weave, _, capsize = np.sort_complex(np.linalg.eigvals(matrix))
    np.testing.assert_allclose((caster, weave, capsize), EIGENVALUES, rtol=1e-8)


@pytest.mark.slow
def test_the_bicycle_in_minimal_coordinates_has_the_same_eigenvalues():
    """Non-holonomic: seven places and three velocities are the state of the linear system."""
    model = bicycle()
    v = np.zeros(model.nv)
    v[3], v[model.slice("rear")], v[model.slice("front")] = SPEED, -SPEED / 0.3, -SPEED / 0.35
    system = wt.linearize(model, model.neutral.q, v)
    assert system.steady
    assert len(system.states) == 10
    found = np.linalg.eigvals(system.A)
    for expected in EIGENVALUES:
        assert np.abs(found - expected).min() < 1e-9
