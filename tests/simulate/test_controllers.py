"""Controllers: traced into roll-outs or in Python with the same results, ready-made ones, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import whippletree as wt
from whippletree import controllers
from whippletree.errors import IntegrationError


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


@pytest.mark.slow
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


def test_controllers_that_differ_in_their_numbers_only_share_their_code():
    model = wt.mechanisms.double_pendulum()
    dyn = wt.compile(model)

    def drive(amplitude, rate, offset):
        return lambda t, q, v: np.array([amplitude * np.sin(rate * t) * np.cos(q[0]), offset])

    def in_python(f):
        return lambda t, q, v: f(t, q, v) if t > -1 else None  # a branch, which cannot be traced

    def run(f):
        return wt.simulate(model, [0.3, 0.2], duration=0.8, controller=f, compiled=dyn)

    programs = []
    for numbers in ((3.0, 5.0, 0.2), (2.0, 7.0, -0.4)):
        traced, called = run(drive(*numbers)), run(in_python(drive(*numbers)))
        programs.append([key for key in dyn._made if key[0] == "collocation_steps"])
        for name in ("q", "v", "tau"):
            assert np.abs(traced[name].values - called[name].values).max() < 1e-9
    assert programs[0] == programs[1]
    assert programs[0]


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
    assert "its code and a call in Python give different forces" in run.attrs["path"]


def test_a_controller_of_the_wrong_length_is_refused_by_every_method():
    for method in ("adaptive", "rk4"):
        with pytest.raises(wt.ShapeError, match=r"the controller returned shape \(1,\), expected \(2,\)"):
            wt.simulate(wt.mechanisms.double_pendulum(), duration=0.1, method=method, controller=lambda t, q, v: [1.0])


@pytest.mark.parametrize("method", ["rk4", "implicit_midpoint", "semi_implicit_euler"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_controller_that_gives_no_number_is_to_blame_also_where_it_is_compiled(method, number):
    run = wt.simulate(
        wt.mechanisms.double_pendulum(), duration=0.02, method=method, step=5e-3, controller=lambda t, q, v: [0, number]
    )
    assert run.attrs["failure"].startswith(f"the controller returned {number} at t = 0 s for joint 'elbow'")


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
    builder = wt.Builder("tied").body("base", 1, (0, 0, 0), (1, 1, 1)).joint("root", "free", "world", "base")
    for name, parent in (("hip", "base"), ("knee", "hip"), ("foot", "knee"), ("arm", "base"), ("tail", "base")):
        builder.body(name, 1, (0, 0, 0), (1, 1, 1)).joint(name, "revolute", parent, name, position=(0.1, 0, 0))
    builder.tendon("calf", "hip", "foot").tendon("sum", joints={"arm": 2.0})
    tied = builder.actuator("muscle", tendon="calf").actuator("winch", tendon="sum").build()
    tau = controllers.pd(tied, target=tied.home.q, stiffness=10.0, damping=1.0)(0.0, tied.home.q, np.ones(11))
    np.testing.assert_allclose(np.asarray(tau, dtype=float), [0, 0, 0, 0, 0, 0, 0, -1, -1, -1, 0])
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
    tight = {"rtol": 1e-12, "atol": 1e-14}  # what is left of an iteration differs below the tolerance
    for method in ("adaptive", "rk4", "semi_implicit_euler", "implicit_midpoint"):
        options = {"method": method} | (tight if method == "adaptive" else {})
        by_hand = wt.simulate(bare, [1.0], duration=0.5, controller=act, **options)
        by_itself = wt.simulate(sprung, [1.0], duration=0.5, **options)
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


def counted_policy():
    """A batched policy that cannot be traced, and the numbers of states of its calls."""
    W = np.array([[0.7, -0.2, 0.1, 0.3, -0.5, 0.2], [0.1, 0.4, -0.6, 0.2, 0.1, -0.3], [0.5, 0.1, 0.2, -0.4, 0.3, 0.6]])
    calls = []

    def policy(t, q, v):
        calls.append(len(q))
        seen = np.concatenate([q, v], axis=1).astype(float)
        return np.tanh(seen @ W.T) * np.cos(t)[:, None] - 2 * v

    return policy, calls


@pytest.mark.parametrize(
    ("method", "stops"),
    [("rk4", False), ("semi_implicit_euler", False), ("time_stepping", False), ("time_stepping", True)],
)
def test_a_batched_controller_is_called_once_for_all_runs(method, stops):
    model, stages = wt.mechanisms.chain(3), 4 if method == "rk4" else 1
    if stops:
        builder = wt.Builder("stops", gravity=(0, -9.81, 0))
        for k, parent in enumerate(["world", "a", "b"]):
            builder.body("abc"[k], mass=1.0, center=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
            builder.joint("rst"[k], "revolute", parent, "abc"[k], position=(float(k > 0), 0, 0), lower=-0.4, upper=0.4)
        model = builder.build()
    policy, calls = counted_policy()
    q0 = np.linspace(-0.35, 0.35, 15).reshape(5, 3)
    common = {"duration": 0.1, "method": method, "step": 5e-3, "output_dt": 0.05}
    run = wt.simulate(model, q0, controller=controllers.batched(policy), **common)
    together = list(calls)
    alone = wt.simulate(model, q0, controller=lambda t, q, v: policy(np.array([t]), q[None], v[None])[0], **common)
    assert together.count(5) in (20 * stages, 20 * stages + 1)  # time stepping tries the first step once
    assert max(together) == 15  # the forces of the output
    assert len(together) < 20 * stages + 12  # with the attempt to trace it
    for name in ("q", "v", "tau"):
        assert np.abs(run[name] - alone[name]).max() < 1e-12


def test_batched_controllers_combine_and_drive_actuators():
    single = wt.mechanisms.chain(2)
    push = controllers.batched(lambda t, q, v: 8.0 - v)
    whole = controllers.together(push, controllers.gravity_compensation(single))
    cut = controllers.limited(whole, single, limits={joint.name: 5.0 for joint in single.joints})
    q, v, t = np.array([[0.1, 0.2], [0.3, -0.4]]), np.array([[0.0, 1.0], [2.0, 3.0]]), np.zeros(2)
    assert all(controllers.is_batched(c) for c in (push, whole, cut))
    expected = 8.0 - v + wt.compile(single).gravity(q)
    assert np.allclose(whole(t, q, v), expected)
    assert np.allclose(cut(t, q, v), np.clip(expected, -5, 5))
    assert np.allclose(whole(0.0, q[1], v[1]), expected[1])
    builder = wt.Builder("cart").body("cart", mass=2.0).joint("rail", "prismatic", "world", "cart", axis=(1, 0, 0))
    cart = builder.actuator("motor", "rail").build()
    go = controllers.batched(lambda t, q, v: 2.0 - q.astype(float))
    run = wt.simulate(cart, q0=[[0.0], [1.0]], duration=0.2, method="rk4", ctrl=go)
    assert np.allclose(run.tau[0], [[2.0], [1.0]])
    with pytest.raises(wt.ShapeError, match=r"returned shape \(1,\) for 1 states, expected \(1, 1\)"):
        wt.simulate(cart, q0=[[0.0], [1.0]], duration=0.1, ctrl=controllers.batched(lambda t, q, v: np.ones(len(q))))


@pytest.mark.parametrize("method", ["rk4", "time_stepping"])
def test_one_run_of_a_batched_controller_may_fail(method):
    model = wt.mechanisms.chain(2)

    def policy(t, q, v):
        return np.where(q[:, :1].astype(float) > 0.3, np.nan, 1.0) * np.ones(2)

    run = wt.simulate(
        model, [[0.0, 0.0], [0.5, 0.0]], duration=0.02, method=method, controller=controllers.batched(policy)
    )
    assert "the controller returned nan" in run.failure.values[1]
    assert not run.failure.values[0]
    assert np.isfinite(run.q[:, 0]).all()


def test_a_batched_controller_of_the_wrong_shape_is_refused():
    model = wt.mechanisms.chain(2)
    with pytest.raises(wt.ShapeError, match=r"expected \(3, 2\) for model 'chain of 2 rods': one row for each state"):
        wt.simulate(
            model,
            np.zeros((3, 2)),
            duration=0.1,
            method="rk4",
            controller=controllers.batched(lambda t, q, v: q.astype(float)[0]),
        )
