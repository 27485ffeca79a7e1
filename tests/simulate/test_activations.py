"""Activations in runs: every method against closed forms and against each other, feedback, batches, checkpoints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.model import Activation, Model, Muscle

T = 0.2
"""s"""


def cart(*activations: Activation, upper: float = np.inf) -> Model:
    """A mass of 1 kg on a rail, driven through activations."""
    builder = wt.Builder("cart").body("mass", 1.0, inertia=(1, 1, 1))
    builder.joint("rail", "prismatic", "world", "mass", axis=(1, 0, 0), upper=upper)
    for k, activation in enumerate(activations):
        builder.actuator(f"motor {k}", "rail", activation=activation)
    return builder.build()


FILTER = Activation("filter", (T,))
METHODS = ["adaptive", "events", "rk4", "implicit_midpoint", "semi_implicit_euler", "time_stepping"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_filtered_force_moves_a_mass_as_its_closed_form_does(method: str) -> None:
    """w = 1 − exp(−t/T), v = t − T w; an integrator whose range ends at t = 0.25 adds t²/2, then 0.25 (t − 0.125)."""
    model = cart(FILTER, Activation("integrator", range=(-np.inf, 0.25)))
    run = wt.simulate(model, duration=0.5, ctrl=[1.0, 1.0], method=method, output_dt=0.1)
    t = run.time.values
    w = 1 - np.exp(-t / T)
    expected = t - T * w + np.where(t < 0.25, t**2 / 2, 0.25 * (t - 0.125))
    coarse = method in ("semi_implicit_euler", "time_stepping")
    np.testing.assert_allclose(run.v.values[:, 0], expected, rtol=0, atol=2e-3 if coarse else 1e-6)
    np.testing.assert_allclose(run.act.values[:, 0], w, rtol=0, atol=1e-3 if method == "time_stepping" else 1e-14)
    np.testing.assert_allclose(run.act.values[:, 1], np.minimum(t, 0.25), rtol=0, atol=1e-14)
    assert run.act.attrs["names"] == ["motor 0", "motor 1"]
    assert list(run.activation) == ["motor 0", "motor 1"]
    np.testing.assert_allclose(run.tau.values[:, 0], run.act.values.sum(axis=1), atol=1e-13)


def test_a_known_activation_is_part_of_the_kernel() -> None:
    run = wt.simulate(cart(FILTER), duration=0.2, ctrl=[1.0], method="rk4")
    assert run.attrs["path"] == "compiled"


def test_a_muscle_follows_a_table_of_commands() -> None:
    """Its deactivation has a closed form: (w − u) / (½ + 3w/2) decays; adaptive, rk4 and fine time steps agree."""
    model = cart(Activation("muscle", (0.01, 0.04, 0.0)))
    (motor,) = model.actuators
    model = replace(model, actuators=(replace(motor, muscle=Muscle((-1.0, 1.0), 2.0)),))
    table = [[1.0], [0.2]]
    smooth = wt.simulate(model, duration=0.2, ctrl=table, method="rk4", output_dt=0.02)
    half = smooth.act.values[5, 0]
    t = smooth.time.values[5:] - 0.1
    r = (half - 0.2) / (0.5 + 1.5 * half) * np.exp(-t * 0.8 / 0.04)
    np.testing.assert_allclose(smooth.act.values[5:, 0], (0.2 + 0.5 * r) / (1 - 1.5 * r), rtol=0, atol=1e-10)
    stepped = wt.simulate(model, duration=0.2, ctrl=table, method="time_stepping", step=1e-4, output_dt=0.02)
    np.testing.assert_allclose(stepped.act, smooth.act, atol=3e-3)
    np.testing.assert_allclose(stepped.q, smooth.q, atol=1e-4)
    held = wt.simulate(model, duration=0.01, ctrl=[1.0], method="rk4")
    assert "activations of muscles are looked up by the time, in numbers found before" in held.attrs["path"]


def test_commands_by_the_state_move_activations() -> None:
    """ẍ = w, ẇ = (−k x − w) / T from x = 1: three exponentials; time steps converge to them at first order."""
    model, k = cart(FILTER), 2.0
    feedback = lambda t, q, v: [-k * q[0]]  # noqa: E731
    A = np.array([[0, 1, 0], [0, 0, 1], [-k / T, 0, -1 / T]])
    values, vectors = np.linalg.eig(A)
    start = np.linalg.solve(vectors, np.array([1.0, 0.0, 0.3], dtype=complex))
    expected = (vectors @ (np.exp(values) * start)).real
    options = {"duration": 1.0, "ctrl": feedback, "act0": [0.3], "output_dt": 0.5}
    run = wt.simulate(model, [1.0], **options)
    assert run.attrs["method"] == "adaptive"
    found = [run.q.values[-1, 0], run.v.values[-1, 0], run.act.values[-1, 0]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    errors = []
    for step in (2e-3, 1e-3):
        stepped = wt.simulate(model, [1.0], method="time_stepping", step=step, **options)
        errors.append(abs(stepped.q.values[-1, 0] - expected[0]))
    assert errors[0] < 5e-3
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.1)
    for method in ("rk4", "events"):
        with pytest.raises(wt.UnsupportedError, match="'motor 0' of model 'cart' have activations"):
            wt.simulate(model, [1.0], method=method, **options)


def test_a_loop_of_steps_is_a_run_and_batches_are_runs() -> None:
    model = cart(FILTER, Activation("integrator"), upper=0.03)
    dyn, ctrl, h = wt.compile(model), np.array([1.0, 0.5]), 1e-3
    starts = np.array([[0.0, 0.0], [0.5, -0.2]])
    options = {"duration": 0.5, "method": "time_stepping", "step": h, "output_dt": 0.1}
    batch = wt.simulate(model, np.zeros((2, 1)), act0=starts, ctrl=ctrl, **options)
    asked = wt.simulate(model, np.zeros((2, 1)), act0=starts, ctrl=lambda t, q, v: ctrl, **options)
    for run, act in enumerate(starts):
        q, v, impulses = np.zeros(1), np.zeros(1), None
        for _ in range(500):
            q, v, _, impulses, _, act = dyn.step(q, v, ctrl, h, act=act, impulses=impulses)
        for found in (batch, asked):
            np.testing.assert_allclose(found.act.values[-1, run], act, rtol=0, atol=1e-12)
            np.testing.assert_allclose(found.q.values[-1, run], q, rtol=0, atol=1e-12)
    assert q[0] == pytest.approx(0.03, abs=1e-9)  # at the end of the rail
    with pytest.raises(wt.ShapeError, match="takes the same activations for all runs"):
        wt.simulate(model, np.zeros((2, 1)), act0=starts, ctrl=ctrl, duration=0.1, method="events")
    with pytest.raises(wt.ShapeError, match=r"act has shape \(3,\), expected \(..., 2\): activations of 'motor 0'"):
        wt.simulate(model, act0=[1.0, 2.0, 3.0], duration=0.1)


def test_a_checkpoint_keeps_activations(tmp_path) -> None:
    model = cart(FILTER)
    options = {"duration": 0.3, "ctrl": lambda t, q, v: [1.0 - q[0]], "method": "time_stepping", "output_dt": 0.1}
    whole = wt.simulate(model, **options)
    kept = wt.simulate(model, checkpoint=tmp_path / "kept", **options)
    again = wt.simulate(model, checkpoint=tmp_path / "kept", **options)
    shown = wt.read_checkpoint(tmp_path / "kept")
    for found in (kept, again, shown):
        np.testing.assert_array_equal(found.act, whole.act)
    np.testing.assert_array_equal(shown.v, whole.v)


def test_key_frames_and_scenarios_give_the_first_activations(tmp_path) -> None:
    builder = wt.Builder("cart").body("mass", 1.0, inertia=(1, 1, 1))
    builder.joint("rail", "prismatic", "world", "mass", axis=(1, 0, 0))
    builder.actuator("slow", "rail", activation=FILTER).actuator("quick", "rail")
    model = builder.key_frame("home", act=[0.5]).build()
    assert wt.simulate(model, duration=0.1).act.values[0, 0] == 0.5
    wt.save(model, tmp_path / "cart.toml")
    text = '[model]\nfile = "cart.toml"\n[start]\nactivations = {{ {} = 0.25 }}\n[solver]\nduration = 0.1\n'
    (tmp_path / "run.toml").write_text(text.format("slow"))
    run = wt.load_scenario(tmp_path / "run.toml").run(progress=False)
    np.testing.assert_allclose(run.act[:, 0], 0.25 * np.exp(-run.time / T), rtol=1e-12)
    (tmp_path / "run.toml").write_text(text.format("quick"))
    with pytest.raises(wt.FileError, match="actuator with an activation 'quick'"):
        wt.load_scenario(tmp_path / "run.toml")
