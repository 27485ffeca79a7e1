"""Single steps: where curved motion would overlap, derivatives, batches, and the price of a call in counts."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_kernel import StepPlan, kernel_steps
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep

H, MU = 2e-3, 0.4


def rod() -> wt.Model:
    """A rod with a ball at each end over a floor, and a lid above it."""
    b = wt.Builder("rod").body("rod", 1.0, inertia=(0.03, 0.03, 0.002))
    b.joint("free", "free", "world", "rod", position=(0, 0, 0.4))
    b.geometry("floor", "world", "half_space")
    for name, z in (("top", 0.3), ("bottom", -0.3)):
        b.geometry(name, "rod", "sphere", radius=0.05, position=(0, 0, z))
        b.contact(name, name, "floor", friction=MU)
    return b.build()


def tumbling(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A state in which an end touches the floor while the rod turns fast."""
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=4) * [1, 0.3, 0.3, 0.3]
    q = np.concatenate([[0, 0, 0], turn / np.linalg.norm(turn)])
    v = np.concatenate([8 * rng.normal(size=3), rng.normal(size=3)])
    gaps = wt.compile(rod()).contact_gaps(q)
    q[2] -= gaps.min()
    return q, v


# --- overlap ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", ["kernel", "Python"])
def test_what_turns_does_not_overlap_at_the_end_of_a_step(way):
    """Gaps are kept along straight lines; a body that turns at 8 rad/s leaves these by 3e-5 m in 2 ms."""
    model = rod()
    stepper, worst, curved = ImpulseStep(Motion(wt.compile(model)), 1e-7), 0.0, 0.0
    for seed in range(12):
        q, v = tumbling(seed)
        y, impulses = np.concatenate([q, v]), np.zeros((2, 3))
        for _ in range(20):
            if way == "kernel":
                made = kernel_steps(stepper, y, impulses, StepPlan(np.full(1, H), np.zeros(6)))
                assert made.number == 1
                y, impulses, added = made.states[0], made.impulses[0], made.correction_work[0]
            else:
                step = stepper.step(0.0, y, impulses, np.zeros(6), H)
                y, impulses, added = step.state, step.impulses, step.correction_work
            worst = max(worst, -float(stepper.gaps(y[:7])[0].min()))
            curved = max(curved, float(abs(added)))
    assert worst < 1e-8
    assert curved > 1e-5  # so the projection had something to do


def test_both_ways_end_at_the_same_coordinates():
    stepper = ImpulseStep(Motion(wt.compile(rod())), 1e-9)
    for seed in range(12):
        y = np.concatenate(tumbling(seed))
        made = kernel_steps(stepper, y, np.zeros((2, 3)), StepPlan(np.full(1, H), np.zeros(6)))
        step = stepper.step(0.0, y, np.zeros((2, 3)), np.zeros(6), H)
        np.testing.assert_allclose(made.states[0], step.state, rtol=0, atol=1e-7)
        np.testing.assert_allclose(made.correction_work[0], step.correction_work, rtol=0, atol=1e-7)


# --- derivatives ------------------------------------------------------------------------------------------------------


def puck(*actuators: str) -> wt.Model:
    """A puck of 2 kg that slides along x on a floor, and falls along z."""
    b = wt.Builder("puck").body("frame", 0.5, inertia=(0.01,) * 3).body("puck", 1.5, inertia=(0.01,) * 3)
    b.joint("x", "prismatic", "world", "frame", axis=(1, 0, 0)).joint("z", "prismatic", "frame", "puck", axis=(0, 0, 1))
    b.geometry("ball", "puck", "sphere", radius=0.1)
    for name in actuators:
        b.actuator(name, "x", gain=(50.0, 0, 0), bias=(0, -50.0, -3.0))
    return wt.on_ground(b.build(), geometries=["ball"], friction=MU, height=-0.1)


def test_derivatives_of_a_sliding_and_a_sticking_step():
    dyn = wt.compile(puck("servo"))
    stiff = 2.0 + H * (3.0 + H * 50.0)
    sliding = dyn.step_derivatives([0.0, 1e-5], [3.0, 0.0], [0.1], H)
    # v⁺ = (2 v + 50 h (u − x) + h f − μ λ) / stiff with λ = 1.5 (h g − z / h − w) − h f_z, and the fall ends at z = 0
    speed = np.array([-H * 50.0, MU * 1.5 / H, 2.0, MU * 1.5]) / stiff
    np.testing.assert_allclose(sliding.state[2], speed, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(sliding.state[0], [1, 0, 0, 0] + H * speed, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(sliding.state[[1, 3]], [[0, 0, 0, 0], [0, -1 / H, 0, 0]], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(sliding.ctrl[:, 0], [H * H * 50.0 / stiff, 0, H * 50.0 / stiff, 0], atol=1e-7)
    np.testing.assert_allclose(sliding.tau[2], [H / stiff, MU * H / stiff], atol=1e-7)
    sticking = dyn.step_derivatives([0.0, 0.0], [0.0, 0.0], [0.01], H)
    np.testing.assert_allclose(sticking.state[2:, 2:], 0, atol=1e-7)
    np.testing.assert_allclose(sticking.ctrl, 0, atol=1e-7)
    # columns x, z, v, w, u, f, f_z: at z = 0 it may be lifted, and what overlaps is not thrown out
    assert sliding.kinks.max() < 1e-5
    np.testing.assert_allclose(sticking.kinks[1], 1 / H, rtol=1e-3)
    assert np.delete(sticking.kinks, 1).max() < 1e-5


@pytest.mark.slow
def test_derivatives_of_free_flight_are_those_of_the_dynamics():
    """Of a rod in the air: a step is a linear map of the velocities but for the gyroscopic terms."""
    dyn, rng = wt.compile(rod()), np.random.default_rng(0)
    q, v = np.array([0, 0, 5.0, 0.8, 0.2, -0.4, 0.4]), rng.normal(size=6)
    q[3:] /= np.linalg.norm(q[3:])
    found = dyn.step_derivatives(q, v, dt=H)
    d = 1e-4 * rng.normal(size=12)
    ends = [dyn.step(dyn.integrate(q, s * d[:6]), v + s * d[6:], dt=H) for s in (1, -1)]
    expected = np.concatenate([dyn.difference(ends[1].q, ends[0].q), ends[0].v - ends[1].v]) / 2
    np.testing.assert_allclose(found.state @ d, expected, atol=1e-9)
    np.testing.assert_allclose(found.tau[6:9, :3], H * dyn.mass_matrix_inverse(q)[:3, :3], atol=1e-7)


# --- calls ------------------------------------------------------------------------------------------------------------


def test_steps_of_many_states_have_the_bits_of_single_ones():
    dyn = wt.compile(puck("servo"))
    rng = np.random.default_rng(3)
    q, v, ctrl = 0.01 * abs(rng.normal(size=(7, 2))), rng.normal(size=(7, 2)), rng.normal(size=(7, 1))
    many = dyn.step(q, v, ctrl, H)
    for k in range(7):
        for one, all_of_them in zip(dyn.step(q[k], v[k], ctrl[k], H), many, strict=True):
            np.testing.assert_array_equal(one, all_of_them[k])


def test_single_precision():
    model = puck("servo")
    double, single = wt.compile(model), wt.compile(model, dtype=np.float32)
    q, v, ctrl = np.array([0.0, 1e-3]), np.array([1.0, -1.0]), np.array([0.2])
    expected = double.step(q, v, ctrl, H)
    found = single.step(*(x.astype(np.float32) for x in (q, v, ctrl)), H)
    assert found.q.dtype == found.v.dtype == np.float32
    np.testing.assert_allclose(found.v, expected.v, atol=1e-4)


def test_activations_are_refused_while_no_actuator_has_any():
    dyn = wt.compile(puck("servo"))
    dyn.step([0.0, 0.0], [0.0, 0.0], [0.0], H, act=np.zeros(0))
    with pytest.raises(wt.UnsupportedError, match="no actuator of model 'puck' has an activation"):
        dyn.step([0.0, 0.0], [0.0, 0.0], [0.0], H, act=[1.0])


def test_a_model_whose_step_cannot_be_compiled_is_refused_with_the_reason():
    """Point masses have no inertia to turn against, and so many candidates cannot be written out."""
    b = wt.Builder("drums")
    for k in range(6):
        b.body(f"b{k}", 1.0).joint(f"j{k}", "free", "world", f"b{k}", start=[0, 0, k, 1, 0, 0, 0])
        b.geometry(f"g{k}", f"b{k}", "cylinder" if k % 2 else "capsule", radius=0.1, length=0.3)
    model = wt.with_contacts(b.build(), friction=0.5)
    with pytest.raises(
        wt.UnsupportedError, match=r"^step: no step of model 'drums' can be compiled: a motion has no inertia"
    ):
        wt.compile(model).step(model.home.q, model.home.v, None, 1e-3)


def test_wrong_arguments_are_named_in_the_words_of_step():
    """Whichever program takes the step: that of lists, and that of roll-outs."""
    for model in (wt.mechanisms.hopper(), wt.mechanisms.bouncing_ball()):
        dyn, q, v = wt.compile(model), model.home.q, model.home.v
        with pytest.raises(
            wt.ShapeError, match=rf"^step: q has shape \({model.nq + 1},\), expected \(\.\.\., {model.nq}\)"
        ):
            dyn.step(np.zeros(model.nq + 1), v, None, 1e-3)
        with pytest.raises(
            wt.ShapeError, match=r"^step: impulses has shape \(1, 2\), expected \(\.\.\., 1, 3\) for model"
        ):
            dyn.step(q, v, None, 1e-3, impulses=np.zeros((1, 2)))
        for dt in (-1e-3, 0.0, np.inf, "a"):
            with pytest.raises(ValueError, match=r"^step: dt is .*, expected a positive, finite number of seconds"):
                dyn.step(q, v, None, dt)


def test_a_motion_without_inertia_is_named():
    model = wt.mechanisms.hopper()
    with pytest.raises(wt.SingularSystemError, match=r"about joint '(leg|swing)' has no inertia"):
        wt.compile(model).step(model.home.q, model.home.v, None, 1e-3)
