"""Controllers: traced into roll-outs or in Python with the same results, ready-made ones, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import whippletree as wt
from whippletree import controllers
from whippletree.simulation.adaptive.integrator import IntegrationError


def last(run, name):
    return np.asarray(run[name].isel(time=-1))


@pytest.fixture
def arm():
    return (
        wt.Builder("arm", gravity=(0, 0, -9.81))
        .body("upper", mass=2.0, center=(0.3, 0, 0), inertia=(0.01, 0.1, 0.1))
        .body("lower", mass=1.0, center=(0.2, 0, 0), inertia=(0.01, 0.05, 0.05))
        .joint("shoulder", "spherical", "world", "upper")
        .joint("elbow", "revolute", "upper", "lower", position=(0.6, 0, 0), axis=(0, 1, 0), effort_limit=3.0)
        .build()
    )


def test_numpy_code_is_traced_and_says_the_same_as_in_python():
    model = wt.mechanisms.double_pendulum()
    K = np.array([[3.0, 1.0], [1.0, 2.0]])

    def smooth(t, q, v):
        pull = -K @ q + 0.5 * np.sin(3 * t) * np.cos(q) - np.sqrt(1 + v**2) * np.arctan2(v, 2.0)
        return pull + np.array([np.abs(v[0]) * q[1], np.tan(q[0] / 9)])

    def with_a_branch(t, q, v):
        return smooth(t, q, v) if t > -1 else None

    for method in ("rk4", "semi_implicit_euler", "implicit_midpoint"):
        runs = [
            wt.simulate(model, [0.3, 0.2], duration=0.3, method=method, step=5e-3, output_dt=0.1, controller=f)
            for f in (smooth, with_a_branch)
        ]
        assert runs[0].attrs["path"] == "compiled"
        assert runs[1].attrs["path"].startswith("python: the controller cannot be traced: ScalarError: a traced scalar")
        assert runs[1].attrs["python_steps"] == 60
        for name in ("q", "v", "a", "tau"):
            assert np.abs(runs[0][name].values - runs[1][name].values).max() < 1e-11, (method, name)


@pytest.mark.parametrize(
    ("controller", "reason"),
    [
        (lambda t, q, v: [math.sin(q[0])], "converts to float"),
        (lambda t, q, v: -q if q[0] > 0.1 else -2 * q, "ScalarError"),
        (lambda t, q, v: np.sinh(q), "TypeError"),
    ],
)
def test_what_cannot_be_traced_takes_the_slow_path(controller, reason):
    run = wt.simulate(wt.mechanisms.pendulum(), [0.3], duration=0.05, method="rk4", step=5e-3, controller=controller)
    assert run.attrs["path"].startswith("python: the controller cannot be traced")
    assert reason in run.attrs["path"]
    assert run.attrs["failure"] == ""


def test_a_controller_with_a_memory_is_not_compiled():
    calls = []

    def moody(t, q, v):
        calls.append(t)
        return [float(len(calls) % 7)]

    run = wt.simulate(wt.mechanisms.pendulum(), [0.3], duration=0.02, method="rk4", step=5e-3, controller=moody)
    assert "it says something else in Python" in run.attrs["path"]


def test_a_controller_of_the_wrong_length_is_refused_by_every_method():
    for method in ("adaptive", "rk4"):
        with pytest.raises(wt.ShapeError, match=r"the controller returned shape \(1,\), expected \(2,\)"):
            wt.simulate(wt.mechanisms.double_pendulum(), duration=0.1, method=method, controller=lambda t, q, v: [1.0])


def test_gravity_compensation_holds_any_pose(arm):
    rng = np.random.default_rng(3)
    q0 = wt.reference(arm).integrate(arm.home.q, rng.uniform(-1, 1, arm.nv))
    hold = controllers.gravity_compensation(arm)
    for method in ("adaptive", "rk4", "implicit_midpoint"):
        run = wt.simulate(arm, q0, duration=0.2, method=method, controller=hold)
        assert np.abs(last(run, "q") - q0).max() < 1e-10, method
    assert run.attrs["path"] == "compiled"


def test_pd_control_does_not_push_what_has_no_motor():
    builder = wt.Builder("robot").body("base", 1, (0, 0, 0), (1, 1, 1))
    builder.joint("root", "free", "world", "base", start=(0, 0, 1, 1, 0, 0, 0))
    for name in ("hip", "tail"):
        builder.body(f"{name} link", 1, (0, 0, 0), (1, 1, 1)).joint(name, "revolute", "base", f"{name} link")
    free = builder.build()
    target = np.array([1.0, 0, 2, 1, 0, 0, 0, 0.5, 0.5])
    told = {"target": target, "stiffness": 10.0, "damping": 1.0}
    v = np.ones(8)
    tau = controllers.pd(free, **told)(0.0, free.home.q, v)
    np.testing.assert_allclose(np.asarray(tau, dtype=float), [0, 0, 0, 0, 0, 0, 4, 4])
    driven = builder.actuator("hip motor", "hip").build()
    tau = controllers.pd(driven, **told)(0.0, driven.home.q, v)
    np.testing.assert_allclose(np.asarray(tau, dtype=float), [0, 0, 0, 0, 0, 0, 4, 0])
    asked = controllers.pd(driven, target=target, stiffness=np.full(8, 10.0), damping=0.0)(0.0, driven.home.q, v)
    assert asked[3] == 10  # one number for each velocity means what it says


def test_pd_control_reaches_its_goal_the_short_way(arm):
    goal = wt.reference(arm).integrate(arm.home.q, np.array([0.4, -0.3, 0.8, 0.7]))
    control = controllers.together(
        controllers.gravity_compensation(arm), controllers.pd(arm, target=goal, stiffness=60.0, damping=12.0)
    )
    run = wt.simulate(arm, duration=6.0, method="rk4", controller=control, output_dt=0.1)
    assert run.attrs["path"] == "compiled"
    assert np.abs(wt.reference(arm).difference(goal, last(run, "q")).astype(float)).max() < 1e-3
    with pytest.raises(wt.ShapeError, match="pd: target has shape"):
        controllers.pd(arm, target=[0.0], stiffness=1.0, damping=1.0)(0.0, arm.home.q, np.zeros(4))


def test_springs_and_dampers_are_those_of_the_model():
    """A spring and damper as a controller, and as data of the joint: the same motion."""

    def pendulum(**data):
        return (
            wt.Builder("spring", gravity=(0, 0, 0))
            .body("bob", mass=1.0, center=(1, 0, 0), inertia=(0.1, 0.1, 0.1))
            .joint("hinge", "revolute", "world", "bob", axis=(0, 0, 1), **data)
            .build()
        )

    bare, sprung = pendulum(), pendulum(stiffness=9.0, rest=0.2, damping=0.3)
    act = controllers.spring(bare, "hinge", stiffness=9.0, rest=0.2, damping=0.3)
    for method in ("adaptive", "rk4", "semi_implicit_euler", "implicit_midpoint"):
        by_hand = wt.simulate(bare, [1.0], duration=0.5, method=method, controller=act)
        by_itself = wt.simulate(sprung, [1.0], duration=0.5, method=method)
        assert np.abs(by_hand.q - by_itself.q).max() < 1e-12, method
    q, _ = wt.compile(sprung).rollout([1.0], [0.0], np.zeros((500, 1)), 1e-3, method="rk4")
    assert abs(q[-1, 0] - by_hand.q.values[-1, 0]) < 1e-6
    free, _ = wt.compile(sprung).rollout([1.0], [0.0], np.zeros((5, 1)), 1e-3, method="rk4", passive=False)
    assert (free == 1.0).all()


def test_motors_stay_within_their_limits(arm):
    strong = controllers.motor(arm, "elbow", lambda t, q, v: 50 * np.sin(9 * t))
    weak = controllers.motor(arm, "elbow", 50.0, limit=2.0, no_load_speed=4.0)
    for method in ("adaptive", "rk4"):
        run = wt.simulate(arm, duration=0.3, method=method, controller=strong)
        assert np.abs(run.tau).max() <= 3.0 + 1e-12
        assert run.tau.values[:, 3].max() > 2.9
    assert run.attrs["path"] == "compiled"
    assert weak(0.0, arm.home.q, np.array([0, 0, 0, 3.0]))[3] == pytest.approx(0.5)
    assert weak(0.0, arm.home.q, np.array([0, 0, 0, -3.0]))[3] == pytest.approx(2.0)
    assert weak(0.0, arm.home.q, np.array([0, 0, 0, 9.0]))[3] == 0
    with pytest.raises(wt.ShapeError, match="joint 'shoulder' of model 'arm' has 3 freedoms, expected 1"):
        controllers.damper(arm, "shoulder", damping=1.0)


def test_effort_limits_of_the_model_apply_when_asked_for(arm):
    push = {"controller": lambda t, q, v: np.array([1.0, 1.0, 1.0, 7.0]) * np.cos(t), "duration": 0.1, "method": "rk4"}
    assert wt.simulate(arm, **push).tau.values[0, 3] == 7.0
    run = wt.simulate(arm, effort_limits=True, **push)
    assert run.tau.values[0].tolist() == [1.0, 1.0, 1.0, 3.0]
    assert run.attrs["path"] == "compiled"
    cut = controllers.limited(push["controller"], arm, {"elbow": 0.5, "shoulder": 0.25})
    assert cut(0.0, None, None).tolist() == [0.25, 0.25, 0.25, 0.5]


@pytest.mark.parametrize("method", ["adaptive", "events"])
def test_a_run_goes_on_up_to_the_state_whose_forces_are_not_numbers(method):
    model = wt.mechanisms.pendulum()
    run = wt.simulate(
        model, duration=0.2, output_dt=0.01, method=method, controller=lambda t, q, v: [np.nan if t > 0.055 else 0.0]
    )
    assert run.attrs["failure"].startswith("the controller returned nan at t = 0.055")
    assert "for joint 'hinge'" in run.attrs["failure"]
    assert run.time.values == pytest.approx(0.01 * np.arange(6))
    with pytest.raises(IntegrationError, match=r"the controller returned inf at t = 0 s for joint 'hinge'"):
        wt.simulate(model, duration=0.2, method=method, controller=lambda t, q, v: [np.inf])


@pytest.mark.parametrize("method", ["adaptive", "events"])
def test_what_a_controller_raises_says_when(method):
    with pytest.raises(ZeroDivisionError) as raised:
        wt.simulate(wt.mechanisms.pendulum(), duration=0.2, method=method, controller=lambda t, q, v: [1 / 0])
    assert raised.value.__notes__ == ["simulate: raised by the controller at t = 0 s"]


@pytest.mark.parametrize("answer", ["much", {"hinge": 1.0}, 1j * np.ones(1), [[1.0], [1.0, 2.0]]])
def test_forces_that_are_no_real_numbers_are_refused(answer):
    with pytest.raises(wt.ShapeError, match=r"the controller returned .*, expected \(1,\) real numbers"):
        wt.simulate(wt.mechanisms.pendulum(), duration=0.2, controller=lambda t, q, v: answer)
