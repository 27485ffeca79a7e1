"""Commands of actuators in every method, what auto chooses for a robot, and single steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import whippletree as wt

SERVO = {"gain": (40.0, 0, 0), "bias": (0, -40.0, -3.0)}


def arm(**joint) -> wt.Builder:
    return (
        wt.Builder("arm")
        .body("upper", mass=2.0, center=(0.3, 0, 0), inertia=(0.01, 0.1, 0.1))
        .body("lower", mass=1.0, center=(0.2, 0, 0), inertia=(0.01, 0.05, 0.05))
        .joint("shoulder", "revolute", "world", "upper", axis=(0, 1, 0), **joint)
        .joint("elbow", "revolute", "upper", "lower", position=(0.6, 0, 0), axis=(0, 1, 0), damping=0.2)
        .actuator("lift", "shoulder", gear=5, command_range=(-1, 1))
        .actuator("bend", "elbow", **SERVO)
    )


def end(run) -> np.ndarray:
    return np.concatenate([run.q.values[-1], run.v.values[-1]])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "rk4", "events"])
def test_commands_are_forces_in_every_method(method: str) -> None:
    model = arm().build()

    def by_hand(t, q, v):
        return np.array([5 * 0.5, 40 * (0.7 - q[1]) - 3 * v[1]])

    options = {"duration": 0.5, "method": method} | ({"step": 1e-3} if method == "rk4" else {})
    expected = end(wt.simulate(model, controller=by_hand, ctrl=[0, 0], **options))
    expected_alone = end(wt.simulate(wt.Model(**_fields(model, actuators=())), controller=by_hand, **options))
    given = {"array": [0.5, 0.7], "names": {"bend": 0.7, "lift": 0.5}, "function": lambda t, q, v: np.array([0.5, 0.7])}
    found = {word: end(wt.simulate(model, ctrl=ctrl, **options)) for word, ctrl in given.items()}
    for word, state in found.items():
        np.testing.assert_allclose(state, expected_alone, atol=1e-7, err_msg=word)
    assert np.abs(expected - expected_alone).max() > 1e-3  # the servo acts at a command of 0, too


def _fields(model: wt.Model, **changed):
    from dataclasses import fields

    return {f.name: getattr(model, f.name) for f in fields(model)} | changed


def test_time_stepping_converges_to_the_same() -> None:
    model, ctrl = arm().build(), {"bend": 0.7, "lift": 5.0}
    exact = end(wt.simulate(model, duration=0.5, ctrl=ctrl))
    errors = []
    for step in (2e-3, 1e-3):
        run = wt.simulate(model, duration=0.5, ctrl=ctrl, method="time_stepping", step=step)
        errors.append(np.abs(end(run) - exact).max())
    assert errors[1] < 0.6 * errors[0] < 0.02


def test_a_command_beyond_its_range_acts_as_the_end_of_it() -> None:
    model = arm().build()
    runs = [end(wt.simulate(model, duration=0.2, ctrl=[c, 0])) for c in (1.0, 7.0)]
    assert np.array_equal(*runs)


def test_rows_of_a_table_hold_for_equal_parts_of_the_run() -> None:
    model, options = arm().build(), {"method": "rk4", "step": 1e-3}
    halves = wt.simulate(model, duration=0.4, ctrl=[[0.5, 0.1], [-0.5, 0.3]], **options)
    first = wt.simulate(model, duration=0.2, ctrl=[0.5, 0.1], **options)
    assert first.attrs["path"] == "compiled"
    second = wt.simulate(model, *np.split(end(first), 2), duration=0.2, ctrl=[-0.5, 0.3], **options)
    np.testing.assert_allclose(end(halves), end(second), atol=2e-3)  # the last stage of the step at the edge sees both


def test_the_commands_of_home_are_the_default() -> None:
    model = arm().key_frame("home", commands=(0.5, 0.7)).build()
    runs = [end(wt.simulate(model, duration=0.2, **options)) for options in ({}, {"ctrl": (0.5, 0.7)})]
    assert np.array_equal(*runs)


def test_runs_of_a_batch_have_their_actuators() -> None:
    model = arm(lower=-1.0, upper=1.0).build()
    starts = np.array([[0.0, 0.0], [0.3, -0.2]])
    many = wt.simulate(model, starts, duration=0.1, ctrl=[0.5, 0.7], method="time_stepping")
    for k, q0 in enumerate(starts):
        one = wt.simulate(model, q0, duration=0.1, ctrl=[0.5, 0.7], method="time_stepping")
        np.testing.assert_allclose(many.q.values[-1, k], one.q.values[-1], atol=1e-9)


def test_what_is_wrong_with_commands_is_said() -> None:
    model = arm().build()
    with pytest.raises(wt.ShapeError, match=r"ctrl has shape \(3,\), expected \(2,\) or \(n, 2\).*'lift', 'bend'"):
        wt.simulate(model, duration=0.1, ctrl=[1, 2, 3])
    with pytest.raises(wt.NameLookupError, match=r"no actuator 'lifd'.*Did you mean 'lift'"):
        wt.simulate(model, duration=0.1, ctrl={"lifd": 1})
    with pytest.raises(wt.UnsupportedError, match="no actuators that commands could drive"):
        wt.simulate(wt.mechanisms.pendulum(), duration=0.1, ctrl=[1])
    with pytest.raises(wt.UnsupportedError, match="actuator_forces: model 'pendulum' has no actuators"):
        wt.compile(wt.mechanisms.pendulum()).actuator_forces([0], [0], [])


def test_faults_of_actuators_are_listed_by_name() -> None:
    builder = arm().actuator("a", "elbow", gear=(1, 2)).actuator("b", "ellbow").actuator("c").actuator("a", "elbow")
    builder.actuator("d", frame="lower", gear=(0, 0, 1, 0, 0, 0), force_range=(1, -1)).actuator(
        "e", frame="tool", gear=1
    )
    with pytest.raises(wt.ModelError) as caught:
        builder.build()
    assert list(caught.value.faults) == [
        "actuator 'a' is declared 2 times: give each its own name",
        "actuator 'a': gear has 2 numbers, expected 1",
        "actuator 'b': unknown joint 'ellbow'. Did you mean 'elbow'?",
        "actuator 'c' drives nothing: name one",
        "actuator 'c': gear has 1 number, expected 0",
        "actuator 'd': force_range [1, -1] is empty",
        "actuator 'e': unknown frame 'tool'",
        "actuator 'e': gear has 1 number, expected 6",
    ]


# --- what auto chooses ---


def robot(folder: Path, inner: str, **options) -> wt.Model:
    (folder / "robot.xml").write_text(f"<mujoco><option timestep='.004'/><worldbody>{inner}</worldbody></mujoco>")
    return wt.load(folder / "robot.xml", **options)


SWING = "<body><joint name='j' axis='0 1 0' {}/><geom type='capsule' fromto='0 0 0 .5 0 0' size='.05'/></body>"


@pytest.mark.parametrize("joint", ["limited='true' range='-20 20'", "frictionloss='.1'"])
def test_a_file_with_stops_or_friction_is_stepped_as_it_asks(tmp_path: Path, joint: str) -> None:
    run = wt.simulate(robot(tmp_path, SWING.format(joint)), duration=1.0)
    assert (run.attrs["method"], run.attrs["step"], run.attrs["steps"]) == ("time_stepping", 0.004, 250)


def test_a_file_without_them_is_integrated(tmp_path: Path) -> None:
    assert wt.simulate(robot(tmp_path, SWING.format("")), duration=0.1).attrs["method"] == "adaptive"


@pytest.mark.slow
def test_a_model_with_stops_but_no_step_meets_them_as_events() -> None:
    model = arm(upper=0.5).build()
    run = wt.simulate(model, duration=1.0, ctrl=[0, 0])
    assert run.attrs["method"] == "events"
    assert run.q.values[:, 0].max() == pytest.approx(0.5, abs=1e-9)


def test_a_start_beyond_a_range_is_stepped_back_into_it() -> None:
    model = arm(upper=0.5).build()
    with pytest.warns(RuntimeWarning, match="'limit shoulder' overlaps by 0.1 m or rad"):
        run = wt.simulate(model, [0.6, 0.0], duration=0.2)
    assert run.attrs["method"] == "time_stepping"
    assert run.q.values[-1, 0] == pytest.approx(0.5, abs=1e-9)


def test_a_run_that_leaves_a_range_unseen_is_told() -> None:
    model = arm(upper=0.5).build()
    with pytest.warns(wt.LeftOutWarning, match=r"method 'adaptive' does not see joint limits.*'shoulder' by"):
        wt.simulate(model, duration=1.0, method="adaptive")
    wt.simulate(model, duration=0.01, method="adaptive")  # within the range there is nothing to tell


@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "in a batch"])
def test_starts_that_overlap_are_relaxed_at_a_bounded_speed(tmp_path: Path, runs: int) -> None:
    inner = "<geom type='plane' size='1 1 1'/><body pos='0 0 -.1'><freejoint/><geom name='ball' size='.1'/></body>"
    swing = SWING.format("limited='true' range='-40 -20'").replace("<body>", "<body pos='3 0 2'>")
    model = robot(tmp_path, inner + swing)
    start = model.home.q if runs == 1 else np.tile(model.home.q, (runs, 1))
    told = "'limit j' overlaps by 0.349 m or rad, 'ball on world/geom' overlaps by 0.2 m.*1 m/s"
    with pytest.warns(RuntimeWarning, match=told):
        run = wt.simulate(model, start, duration=0.5, output_dt=0.02)
    height, angle = run.q.values[..., 2].reshape(26, -1)[:, 0], run.q.values[..., -1].reshape(26, -1)[:, 0]
    np.testing.assert_allclose(height, np.minimum(-0.1 + 0.02 * np.arange(26), 0.1), atol=1e-9)
    np.testing.assert_allclose(angle, -np.minimum(0.02 * np.arange(26), np.radians(20)), atol=1e-9)
    assert run.kinetic_energy.values.reshape(26, -1)[:9].max() < 1e-12  # no motion


# --- single steps ---


def test_single_steps_are_those_of_roll_outs(tmp_path: Path) -> None:
    inner = "<geom type='plane' size='1 1 1'/><body pos='0 0 .12'><freejoint/><geom name='ball' size='.1'/></body>"
    model = robot(tmp_path, inner)
    dyn, q, v = wt.compile(model), model.home.q, np.array([0, 3.0, 0, 0.5, 0, -1.0])
    rolled = dyn.contact_rollout(q, v, np.zeros((20, 6)), 0.004, sweeps=20)
    step = None
    for k in range(20):
        step = dyn.step(q, v, impulses=None if step is None else step.impulses)
        q, v = step[:2]
        np.testing.assert_allclose(q, rolled.q[k], rtol=0, atol=1e-7)
        np.testing.assert_allclose(v, rolled.v[k], rtol=0, atol=1e-7)
    assert step._fields == ("q", "v", "tau", "impulses", "measure", "act")


def test_steps_of_many_states_under_commands() -> None:
    model = arm(lower=-1.0, upper=1.0).build()
    dyn, random = wt.compile(model), np.random.default_rng(0)
    q, v, ctrl = random.uniform(-0.9, 0.9, size=(3, 6, 2))
    many = dyn.step(q, v, ctrl, 1e-3)
    assert many.q.shape == many.v.shape == many.tau.shape == (6, 2)
    # servos act at the end of the step
    np.testing.assert_allclose(many.tau, dyn.actuator_forces(many.q, many.v, ctrl), rtol=1e-9, atol=1e-9)
    for k in range(6):
        one = dyn.step(q[k], v[k], ctrl[k], 1e-3)
        np.testing.assert_array_equal(one.q, many.q[k])
        np.testing.assert_array_equal(one.v, many.v[k])
    free = wt.compile(arm().build())
    found = free.step(q, v, ctrl, 1e-3, tau=np.ones(2))
    np.testing.assert_allclose(found.tau, free.actuator_forces(found.q, found.v, ctrl) + 1, rtol=1e-9)
    np.testing.assert_allclose(found.q, q + 1e-3 * found.v, rtol=1e-12)
    # dampers act with the velocity at the end of the step
    damped = found.tau - [joint.damping for joint in free.model.joints] * found.v
    rate = free.mass_matrix(q) @ ((found.v - v) / 1e-3)[..., None]
    np.testing.assert_allclose(rate[..., 0] + free.bias(q, v), damped, rtol=1e-9, atol=1e-9)


def test_what_a_step_lacks_is_said() -> None:
    pendulum = wt.mechanisms.pendulum()
    dyn = wt.compile(pendulum)
    with pytest.raises(ValueError, match="dt is missing, and model 'pendulum' has no time_step"):
        dyn.step([0.1], [0.0])
    with pytest.raises(wt.UnsupportedError, match="ctrl is given, but model 'pendulum' has no actuators"):
        dyn.step([0.1], [0.0], [1.0], 1e-3)
    with pytest.raises(wt.ShapeError, match=r"tau has shape \(2,\), expected \(..., 1\)"):
        dyn.step([0.1], [0.0], None, 1e-3, tau=[1.0, 2.0])
