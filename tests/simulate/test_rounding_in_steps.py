"""Steps of stiff springs in closed loops: a tolerance below what rounding leaves is raised, and not followed down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.errors import ConditioningWarning
from whippletree.simulation.adaptive.adaptive_method import Adaptive, memo_of, progress_of
from whippletree.simulation.adaptive.motion_pieces import Progress
from whippletree.simulation.adaptive.newton import Stiffness
from whippletree.simulation.adaptive.rounding_in_steps import noise_of_rates, rounding_of_steps
from whippletree.simulation.method import Task
from whippletree.simulation.motion import Motion


class Stretched:
    """A damped spring of which one end follows a thousandth of sin 3t, and whose stretch is a difference of lengths
    near 1: q̈ = −k (((q + 1) − 1) − u) − d q̇."""

    k, d, amplitude, rate = 5e8, 5e4, 1e-3, 3.0

    def rates(self, t, y):
        q, v = y.T
        stretch = ((q + 1.0) - 1.0) - self.amplitude * np.sin(self.rate * t)
        return np.stack([v, -self.k * stretch - self.d * v], axis=1)

    def project(self, t, y):
        return y

    def motion(self, t):
        """The motion without what decays, in closed form: q and v."""
        answer = self.k * self.amplitude / (self.k - self.rate**2 + 1j * self.rate * self.d)
        turning = answer * np.exp(1j * self.rate * t)
        return np.array([turning.imag, (1j * self.rate * turning).imag])


def test_noise_of_rates_is_the_rounding_of_the_stretch():
    """Rounded to last digits u of numbers near 1, each as likely up as down: u / √12, on average."""
    problem, h = Stretched(), 1e-3
    times = np.linspace(0.1, 1.0, 50)
    states = np.array([problem.motion(t) for t in times])
    noise = noise_of_rates(problem.rates, times, states, h)[..., 1]
    assert np.sqrt(np.mean(noise**2)) == pytest.approx(problem.k * np.spacing(1.0) / np.sqrt(12), rel=0.3)


@pytest.mark.parametrize("h", [1e-6, 1e-4, 1e-2, 1.0])
def test_what_rounding_leaves_of_a_step(h):
    """Of an uncertain acceleration δ, (1 − h J)⁻¹ h δ is (h, 1) h δ / (1 + h d + h² k)."""
    problem, y = Stretched(), np.array([0.25, 0.1])
    stiffness = Stiffness(problem.rates, 0.7, y, np.ones(2))
    left = rounding_of_steps(np.array([[0.0, 1e-3], [0.0, -2e-3]]), [h], np.array([3e-12, 1e-12]), lambda: stiffness)
    velocity = h * 2e-3 / (1 + h * problem.d + h * h * problem.k)
    expected = np.sqrt(((h * velocity / 3e-12) ** 2 + (velocity / 1e-12) ** 2) / 2)
    assert left == pytest.approx(expected, rel=1e-5)


def sprung_four_bar():
    """All hinges on springs of 1e5 N m/rad, which differ from their rest in the crank, and settle within a tenth of a
    second."""
    model = wt.mechanisms.four_bar((1.0, 0.4, 1.0, 0.8))
    rests = [float(model.home.q[model.q_slice(joint.name)][0]) for joint in model.joints]
    rests[0] += 0.1
    joints = [
        replace(joint, stiffness=1e5, damping=100.0, rest=rest) for joint, rest in zip(model.joints, rests, strict=True)
    ]
    return replace(model, joints=tuple(joints))


@pytest.mark.parametrize("rtol", [1e-12, 1e-13])
def test_a_loop_on_stiff_springs_is_not_held_to_digits_that_it_does_not_have(rtol):
    model = sprung_four_bar()
    plain = wt.simulate(model, duration=1.0, rtol=1e-7, atol=1e-9)
    with pytest.warns(ConditioningWarning, match="asks for digits that the accelerations lose on the way"):
        fine = wt.simulate(model, duration=1.0, rtol=rtol, atol=rtol / 100)
    assert fine.attrs["steps"] < 10 * plain.attrs["steps"]
    assert rtol < fine.attrs["largest_rtol"] < 1e-8
    # it comes to rest where its springs balance its weight
    dyn, q = wt.compile(model), fine.q.values[-1]
    still = np.zeros(model.nv)
    load = dyn.passive_forces(q, still) - dyn.gravity(q)
    directions = dyn.project_velocity(np.tile(q, (model.nv, 1)), np.eye(model.nv))
    # the springs are as uncertain as their angles, by k times a last digit
    assert abs(directions @ load).max() < 50 * 1e5 * np.spacing(1.0)


def test_a_run_whose_tolerance_was_raised_goes_on_with_the_same_bits():
    model = sprung_four_bar()

    def integrator():
        motion = Motion(wt.compile(model))
        start = np.concatenate([model.home.q, model.home.v])
        return Adaptive(Task(motion, start, np.array([0.0, 0.3]), 1e-12, 1e-14)).integrator, start

    whole, start = integrator()
    pieces = list(whole.pieces(Progress(0.0, start), 0.3))
    raised = [number for number, piece in enumerate(pieces) if piece.progress.rtol > 1e-12]
    assert raised
    for number in (raised[0], raised[len(raised) // 2]):
        taken_up = progress_of(memo_of(pieces[number].progress))
        again, _ = integrator()
        again.statistics.steps = number + 1
        *_, last = again.pieces(taken_up, 0.3)
        assert last.state.tobytes() == pieces[-1].state.tobytes()
