"""Fixed steps: order against closed forms, bounded energy, drift, what a failing run says, resuming."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import whippletree as wt
from whippletree.compiler.rollout.rollout import Plan
from whippletree.simulation.fixed_step import fixed_step_method
from whippletree.simulation.method import Task, find_method
from whippletree.simulation.motion import Motion
from whippletree.simulation.one_by_one import InTurn

GRAVITY = 9.81
ORDERS = {"semi_implicit_euler": 1, "rk4": 4, "implicit_midpoint": 2}


def last(run, name):
    return np.asarray(run[name].isel(time=-1))


def observed_order(error, steps):
    """The power of the step that an error falls with, from two step lengths."""
    errors = [error(step) for step in steps]
    return np.log(errors[0] / errors[1]) / np.log(steps[0] / steps[1])


@pytest.mark.slow
@pytest.mark.parametrize(("method", "order"), ORDERS.items())
def test_order_on_the_pendulum_of_iftomm_a01(method, order):
    """At t = 10 s, against elliptic functions (IFToMM A01)."""
    model = wt.mechanisms.pendulum(length=1.0, mass=1.0)
    dyn = wt.compile(model)

    def error(step):
        run = wt.simulate(
            model, [np.pi], [0.0], duration=10.0, output_dt=1.0, method=method, step=step, points=["tip"], compiled=dyn
        )
        assert run.attrs["path"] == "compiled"
        return np.abs(run.points.sel(point="tip").values[-1, :2] - [-0.275087462576117, -0.961419205099125]).max()

    steps = (2e-4, 1e-4) if order == 1 else (4e-3, 2e-3)
    assert abs(observed_order(error, steps) - order) < 0.1


@pytest.mark.parametrize(("method", "order"), ORDERS.items())
def test_order_with_constraints_on_the_n_four_bar_of_iftomm_a02(method, order):
    """One loop of A02 against its exact reduction to one freedom; the motion stays away from the dead points."""
    model = wt.mechanisms.n_four_bar(1)
    dyn = wt.compile(model)
    stiffness = (1 + 1) / (2 / 3 + 1) * GRAVITY
    exact = solve_ivp(
        lambda t, y: [y[1], -stiffness * np.cos(y[0])],
        (0, 0.5),
        [np.pi / 2, -1.0],
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
    ).y[:, -1]

    def error(step):
        run = wt.simulate(model, duration=0.5, output_dt=0.1, method=method, step=step, compiled=dyn)
        assert run.attrs["failure"] == ""
        assert run.attrs["path"] == "compiled"
        assert float(np.abs(run.constraint_residual).max()) < 1e-14
        assert float(np.abs(run.constraint_velocity).max()) < 1e-13
        return abs(abs(last(run, "v")[0]) - abs(exact[1]))

    assert abs(observed_order(error, (2e-2, 1e-2) if order == 4 else (2e-3, 1e-3)) - order) < 0.2


def test_the_squeezer_by_runge_kutta():
    """Andrews' squeezer (IVP test set) with the motor as a traced controller, every loop closed to rounding."""
    from whippletree.mechanisms.andrews import MOTOR_TORQUE

    model = wt.mechanisms.andrews()
    motor = wt.controllers.motor(model, "beta", MOTOR_TORQUE)
    run = wt.simulate(model, duration=0.03, method="rk4", output_dt=1e-3, step=1e-5, controller=motor)
    assert run.attrs["path"] == "compiled"
    assert abs(last(run, "q")[model.q_slice("beta")][0] - 15.81077119629904) < 1e-5
    assert float(np.abs(run.constraint_residual).max()) < 1e-14


def test_the_energy_of_the_midpoint_rule_stays_bounded_over_a_million_steps():
    """A chaotic double pendulum: the error oscillates and has no trend, ten blocks of 10⁵ steps compared."""
    model = wt.mechanisms.double_pendulum()
    run = wt.simulate(
        model, [1.0, -0.5], [0.3, 2.0], duration=2000.0, output_dt=0.02, method="implicit_midpoint", step=2e-3
    )
    assert run.attrs["steps"] == 1_000_000
    energy = np.asarray(run.kinetic_energy + run.potential_energy)
    error = (energy - energy[0])[:100_000].reshape(10, -1) / np.abs(energy[0])
    assert np.abs(error).max() < 1e-3
    means = error.mean(axis=1)
    assert np.abs(means).max() < 2e-5  # a drift of the error's own size would be 50 times as large
    assert abs(np.polyfit(np.arange(10), means, 1)[0]) < 1e-6


def test_the_midpoint_rule_keeps_the_energy_of_a_tumbling_body_and_closes_massless_loops():
    stone = (
        wt.Builder("stone", gravity=(0, 0, 0))
        .body("stone", mass=2.0, inertia=(0.3, 0.2, 0.1))
        .joint("turn", "spherical", "world", "stone")
        .build()
    )
    run = wt.simulate(stone, v0=[0.1, 3.0, 0.2], duration=20.0, method="implicit_midpoint", step=1e-2, output_dt=0.1)
    assert run.attrs["energy_drift"] < 1e-10
    bar = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.9), masses=(1.0, 1.0, 0.0))
    run = wt.simulate(bar, duration=10.0, method="implicit_midpoint", step=1e-3, output_dt=0.01)
    assert run.attrs["failure"] == ""
    assert float(np.abs(run.constraint_residual).max()) < 1e-14
    energy = np.asarray(run.kinetic_energy + run.potential_energy)
    halves = np.abs(energy - energy[0]).reshape(-1)[:1000].reshape(2, -1).max(axis=1)
    assert halves[1] < 1.5 * halves[0]


def test_what_the_midpoint_rule_does_not_keep():
    """The direction of the angular momentum of a tumbling body: off by the square of the step, its size is kept."""
    inertia = np.array([0.3, 0.2, 0.1])
    builder = wt.Builder("stone", gravity=(0, 0, 0)).body("stone", mass=2.0, inertia=tuple(inertia))
    stone = builder.joint("turn", "spherical", "world", "stone").build()
    pose, off = wt.compile(stone).pose("stone"), []
    for step in (2e-2, 1e-2):
        run = wt.simulate(stone, v0=[0.1, 3.0, 0.2], duration=20.0, method="implicit_midpoint", step=step, output_dt=1)
        turned = np.asarray(pose(run["q"].values))[:, :3, :3]
        momentum = np.einsum("nij,nj->ni", turned, inertia * run["v"].values)
        assert np.ptp(np.linalg.norm(momentum, axis=1)) < 1e-12
        off.append(np.abs(momentum - momentum[0]).max())
    assert off[0] / off[1] == pytest.approx(4, rel=0.3)


def test_the_midpoint_rule_stops_at_a_dead_point_and_says_so():
    folding = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.6))  # 1.0 + 0.6 = 0.4 + 1.2: it folds flat
    v = wt.reference(folding).project_velocity(folding.home.q, [6.0, 0, 0])
    arguments = {"v0": v, "duration": 1.0, "output_dt": 0.05, "step": 1e-3}
    run = wt.simulate(folding, method="implicit_midpoint", **arguments)
    assert "or at a dead point of its loops, which this method does not pass" in run.attrs["failure"]
    assert float(run.time[-1]) == pytest.approx(0.5)  # the row before
    assert not wt.simulate(folding, method="rk4", **arguments).attrs["failure"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ORDERS)
def test_prescribed_motions_and_rolling(method):
    """Time-dependent rows, and rows at velocity level, against the adaptive integrator."""
    crank = (
        wt.Builder("driven", gravity=(0, -9.81, 0))
        .body("arm", mass=1.0, center=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
        .body("rod", mass=0.5, center=(0.3, 0, 0), inertia=(0.01, 0.05, 0.05))
        .joint("shoulder", "revolute", "world", "arm", axis=(0, 0, 1))
        .joint("elbow", "revolute", "arm", "rod", position=(1, 0, 0), axis=(0, 0, 1))
        .constraint("drive", "prescribed", "shoulder", motion=lambda t: t + t * t)
        .build()
    )
    for model, v0 in ((crank, [1.0, 0.0]), (wt.mechanisms.knife_edge_sleigh(), None)):
        exact = wt.simulate(model, v0=v0, duration=0.4, rtol=1e-11, atol=1e-12)
        run = wt.simulate(model, v0=v0, duration=0.4, method=method, step=1e-4)
        assert run.attrs["path"] == "compiled"
        scale = 1 if ORDERS[method] == 1 else 1e-3
        assert np.abs(last(run, "q") - last(exact, "q")).max() < 2e-3 * scale
        assert float(np.abs(run.constraint_velocity).max()) < 1e-12


def test_the_midpoint_rule_is_of_second_order_with_rolling_too():
    model = wt.mechanisms.rolling_disc()
    dyn = wt.compile(model)
    v0 = dyn.project_velocity(model.home.q, 0.3 + 0.1 * np.arange(model.nv))
    exact = wt.simulate(model, v0=v0, duration=0.4, rtol=1e-11, atol=1e-12, compiled=dyn)

    def error(step):
        run = wt.simulate(model, v0=v0, duration=0.4, method="implicit_midpoint", step=step, compiled=dyn)
        return np.abs(last(run, "v") - last(exact, "v")).max()

    assert abs(observed_order(error, (4e-3, 2e-3)) - 2) < 0.05


def test_dead_points_are_passed_in_python():
    """All rods in line at the start: the kernel's factor fails there, and single rows take the reference's branch."""
    model = wt.mechanisms.n_four_bar(2)
    start = wt.assemble(model, np.zeros(model.nq))
    v0 = -3.0 * np.sign(model.home.v)
    run = wt.simulate(model, start, v0, duration=0.3, method="rk4", step=1e-3, output_dt=0.01)
    exact = wt.simulate(model, start, v0, duration=0.3, rtol=1e-10, atol=1e-11)
    assert run.attrs["failure"] == ""
    assert 0 < run.attrs["python_steps"] < run.attrs["steps"]
    assert np.abs(last(run, "q") - last(exact, "q")).max() < 1e-6


def test_a_step_that_is_too_long_says_so_and_keeps_what_was_computed():
    model = wt.mechanisms.pendulum()
    stiff = wt.controllers.spring(model, model.joints[0].name, stiffness=1e9)
    run = wt.simulate(model, [0.3], duration=1.0, method="rk4", step=1e-2, output_dt=1e-2, controller=stiff)
    assert run.attrs["failure"].startswith("the integration stopped at t = 0.")
    assert "no longer finite" in run.attrs["failure"]
    assert 1 <= len(run.time) < 100
    assert np.isfinite(run.q).all()
    run = wt.simulate(
        model, [0.3], duration=1.0, method="implicit_midpoint", step=1e-2, output_dt=1e-2, controller=stiff
    )
    assert "did not converge in 50 rounds" in run.attrs["failure"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": -1.0}, "simulate: step is -1.0, expected a positive, finite number"),
        ({"step": "short"}, "simulate: step is 'short', expected a positive, finite number, written without quotes"),
        ({"step": 0.03}, "simulate: output_dt is 0.1 s, no multiple of the step of 0.03 s: a step of 0.025 s is"),
        (
            {"step": 0.1, "duration": 1.05},
            "simulate: what is left of the duration after the last output_dt is 0.05 s, no multiple of the step of 0.1 "
            "s: a step of 0.05 s is",
        ),
        ({"step": 1e-300}, "simulate: a step of 1e-300 s takes 1e+300 steps, more than 1e+10: choose a longer step"),
        (
            {"output_dt": 1e-12},
            "simulate: duration 1.0 and output_dt 1e-12 ask for 1e+12 rows of output, more than 1e+08: choose a longer "
            "output_dt",
        ),
    ],
)
def test_bad_steps(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the whole message is compared below)
        wt.simulate(wt.mechanisms.pendulum(), **({"duration": 1.0, "output_dt": 0.1, "method": "rk4"} | arguments))
    assert str(caught.value) == message


@pytest.mark.parametrize("method", ["adaptive", "rk4"])
def test_whole_spacings_end_where_the_run_does(method):
    """3 · 0.3 is 0.8999999999999999: what is left of 0.9 is rounding, and no row."""
    run = wt.simulate(wt.mechanisms.pendulum(), duration=0.9, output_dt=0.3, method=method)
    assert run.time.values.tolist() == [0.0, 0.3, 0.6, 0.9]


def test_default_rows_of_any_step_end_where_the_run_does():
    """200 · 5e-5 is 0.009999999999999998: a run of 0.01 s was refused for the 2e-18 s that are left."""
    fine = wt.simulate(wt.mechanisms.pendulum(), duration=0.01, step=1e-7, method="rk4", variables=[])
    assert (len(fine.time), fine.attrs["steps"]) == (201, 100_000)


def test_no_force_of_a_step_of_rounding():
    """Contact forces are impulses over the step, which was 1e-16 s long in a last row of its own."""
    run = wt.simulate(wt.mechanisms.box_stack(2), duration=0.9, output_dt=0.3, method="time_stepping")
    np.testing.assert_allclose(run.contact_force[-1, :, 0].sum(), 3 * 9.81, rtol=1e-6)


def test_events_need_the_adaptive_method():
    hit = wt.Event("bottom", lambda t, q, v: q[0])
    with pytest.raises(wt.UnsupportedError, match="'rk4' takes fixed steps and does not look for events \\('bottom'"):
        wt.simulate(wt.mechanisms.pendulum(), duration=1.0, method="rk4", events=(hit,))


def test_the_adaptive_method_gives_up_after_max_steps():
    run = wt.simulate(wt.mechanisms.double_pendulum(), [1.0, 1.0], duration=100.0, max_steps=20)
    assert "after 20 steps (max_steps = 20)" in run.attrs["failure"]
    assert 0 < float(run.time[-1]) < 100.0


@pytest.mark.parametrize("method", ["adaptive", *ORDERS])
def test_a_run_goes_on_from_any_chunk_to_the_same_bits(method, monkeypatch):
    monkeypatch.setattr("whippletree.simulation.fixed_step.fixed_step_method.WORK_PER_CHUNK", 60)
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.9))
    task = Task(
        Motion(wt.compile(model)), np.concatenate([model.home.q, model.home.v]), np.linspace(0, 0.5, 51), 1e-8, 1e-10
    )

    def made():
        stepper = find_method(method, model)(task)
        if method == "adaptive":  # a chunk is the steps of one call of machine code
            stepper.integrator.ahead = 2
        return stepper

    whole = list(made().chunks())
    assert len(whole) > 3
    for k in (1, len(whole) // 2, len(whole) - 1):
        memo = {name: np.array(value) for name, value in whole[k].memo.items()}
        rest = list(made().chunks(memo))
        again = np.concatenate([chunk.states for chunk in (*whole[: k + 1], *rest)])
        np.testing.assert_array_equal(again, np.concatenate([chunk.states for chunk in whole]))


@pytest.mark.parametrize("method", ["adaptive", "rk4"])
def test_a_batch_goes_on_from_any_chunk_too(method, monkeypatch):
    monkeypatch.setattr("whippletree.simulation.fixed_step.fixed_step_method.WORK_PER_CHUNK", 60)
    model = wt.mechanisms.double_pendulum()
    starts = np.random.default_rng(1).uniform(-1, 1, (3, 4))
    task = Task(Motion(wt.compile(model)), starts, np.linspace(0, 0.2, 21), 1e-8, 1e-10)

    def made():
        way = find_method(method, model)
        return way(task) if way.batches else InTurn(task, way, {})

    whole = list(made().chunks())
    for k in (0, 1, len(whole) - 1):
        rest = list(made().chunks(whole[k].memo))
        again = np.concatenate([chunk.states for chunk in (*whole[: k + 1], *rest)])
        np.testing.assert_array_equal(again, np.concatenate([chunk.states for chunk in whole]))
    assert again.shape == (21, 3, 4)


def test_ten_seconds_of_a_four_bar_at_a_kilohertz_take_less_than_fifty_milliseconds():
    """Processor time, output included; measured 13 ms. The best of five, since others use the machine too."""
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.9))
    dyn = wt.compile(model)
    times = []
    for _ in range(6):
        start = time.process_time()
        run = wt.simulate(model, duration=10.0, output_dt=1e-3, step=1e-3, method="rk4", compiled=dyn)
        times.append(time.process_time() - start)
    assert run.attrs["steps"] == 10_000
    assert len(run.time) == 10_001
    assert min(times[1:]) < 0.05


@pytest.mark.slow
def test_ten_thousand_double_pendulums_run_at_the_rate_of_the_kernel():
    """Processor time of 10³ steps with eleven rows of output, against the bare roll-out; measured 1.11."""
    model = wt.mechanisms.double_pendulum()
    dyn = wt.compile(model)
    rng = np.random.default_rng(0)
    q0, v0 = rng.uniform(-1, 1, (10_000, 2)), rng.normal(size=(10_000, 2))
    kernel = dyn.rollout_function(Plan("rk4", given=False, controller=None, spaced=True))
    inputs = {"q0": q0, "v0": v0, "dt": 1e-3, "clock": 0.1 * np.arange(10), "offsets": 1e-3 * np.arange(100)}

    def bare():
        kernel(*[inputs[name] for name in kernel.inputs])

    def whole():
        wt.simulate(model, q0, v0, duration=1.0, output_dt=0.1, step=1e-3, method="rk4", compiled=dyn)

    times = {bare: [], whole: []}
    for _ in range(6):  # in turn, since others use the machine too; the first compiles
        for work, found in times.items():
            start = time.process_time()
            work()
            found.append(time.process_time() - start)
    assert min(times[whole][1:]) < 1.2 * min(times[bare][1:])


@pytest.mark.parametrize("method", ["rk4", "implicit_midpoint"])
def test_rows_of_many_steps_are_taken_in_parts_to_the_same_bits(method, monkeypatch):
    model = wt.mechanisms.double_pendulum()

    def run(q0):
        def drive(t, q, v):
            return np.array([0.3 * np.sin(3 * t), 0.0]) - 0.1 * v

        return wt.simulate(model, q0, duration=0.2, method=method, step=2e-3, output_dt=0.1, controller=drive)

    starts = [0.3, 0.2], np.array([[0.3, 0.2], [1.0, -0.4]])
    whole = [run(q0) for q0 in starts]
    monkeypatch.setattr(fixed_step_method, "FIXED_STEPS_PER_CALL", 7)
    for q0, expected in zip(starts, whole, strict=True):
        found = run(q0)
        assert np.array_equal(found.q.values, expected.q.values)
        assert np.array_equal(found.v.values, expected.v.values)


def test_a_run_that_fails_in_a_row_of_many_steps_keeps_the_rows_before(monkeypatch):
    def run():
        def push(t, q, v):
            return np.where(t < 0.15, 0.0, np.inf) + 0 * v

        return wt.simulate(
            wt.mechanisms.pendulum(), [0.3], duration=0.3, method="rk4", step=1e-3, output_dt=0.1, controller=push
        )

    whole = run()
    monkeypatch.setattr(fixed_step_method, "FIXED_STEPS_PER_CALL", 7)
    found = run()
    assert whole.attrs["failure"]
    assert found.attrs["failure"] == whole.attrs["failure"]
    assert np.array_equal(found.q.values, whole.q.values, equal_nan=True)
