"""Whole trajectories in one kernel: against the same steps in plain NumPy, and against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from strategies import make_model
from whippletree.compiler.cpu.cpu_function import compile_function as compiled_from
from whippletree.compiler.rollout.rollout import rollout_program
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton
from whippletree.tree.steps import runge_kutta_4, semi_implicit_euler

METHODS = ("semi_implicit_euler", "rk4", "implicit_midpoint")


def euler(manifold, a, q, v, h):
    return semi_implicit_euler(manifold, lambda q, v: a(0, q, v), q, v, h)


def rk4(manifold, a, q, v, h):
    return runge_kutta_4(manifold, a, q, v, 0, h)


STEPS = {"semi_implicit_euler": euler, "rk4": rk4}


def random_start(model, batch, seed=0):
    rng = np.random.default_rng(seed)
    ref = wt.reference(model)
    q = ref.integrate(model.home.q, rng.uniform(-1, 1, (*batch, model.nv)))
    return q, rng.uniform(-1, 1, (*batch, model.nv)), rng


def stepped(model, method, q, v, tau, dt):
    """The trajectory step by step, each step in plain NumPy on Python floats."""
    ref, manifold = wt.reference(model), Mechanism(skeleton(model)).manifold()
    states = []
    for force in tau:
        q, v = STEPS[method](manifold, lambda t, q, v, f=force: ref.forward_dynamics(q, v, f), q, v, dt)
        states.append((q, v))
    return [np.array([s[i] for s in states], dtype=float) for i in (0, 1)]


@pytest.mark.parametrize("method", STEPS)
def test_a_rollout_is_its_steps(method):
    model = make_model((-1, 0, 1, 1), ("free", "revolute", "spherical", "universal"), seed=3)
    q, v, rng = random_start(model, ())
    tau = rng.uniform(-1, 1, (6, model.nv))
    found = wt.compile(model).rollout(q, v, tau, 0.01, method=method)
    for a, b in zip(found, stepped(model, method, q, v, tau, 0.01), strict=True):
        assert np.abs(a - b).max() <= 1e-12 * np.abs(b).max()


@pytest.mark.parametrize("method", METHODS)
def test_batches_and_single_trajectories_have_the_same_bits(method):
    model = wt.mechanisms.double_pendulum()
    q, v, rng = random_start(model, (11,))
    tau, dt = rng.uniform(-1, 1, (11, 20, 2)), rng.uniform(1e-3, 1e-2, 11)
    dyn = wt.compile(model)
    many = dyn.rollout(q, v, tau, dt, method=method)
    assert many[0].shape == many[1].shape == (11, 20, 2)
    for k in range(11):
        one = dyn.rollout(q[k], v[k], tau[k], dt[k], method=method)
        assert all((a[k] == b).all() for a, b in zip(many, one, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("method", "order"), [("semi_implicit_euler", 1), ("rk4", 4), ("implicit_midpoint", 2)])
def test_the_order_of_convergence(method, order):
    """Against the exact simulation of a tumbling body, quaternions included."""
    model = make_model((-1, 0), ("free", "revolute"), seed=5)
    q, v, _ = random_start(model, (), seed=1)
    exact = wt.simulate(model, q, v, duration=0.4, rtol=1e-12, atol=1e-13)
    end = np.concatenate([np.asarray(exact[name].isel(time=-1)) for name in ("q", "v")])
    errors = []
    for count in (40, 80):
        found = wt.compile(model).rollout(q, v, np.zeros((count, model.nv)), 0.4 / count, method=method)
        errors.append(np.abs(np.concatenate([x[-1] for x in found]) - end).max())
        assert abs(np.linalg.norm(found[0][-1, 3:7]) - 1) < 1e-14
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.25


@pytest.mark.parametrize("method", METHODS)
def test_constraints_stay_closed_to_rounding(method):
    """A massless rod, a redundant planar loop, and a constraint that is switched per lane."""
    model = wt.mechanisms.crank_slider(rod_mass=0.0)
    dyn = wt.compile(model)
    start = [wt.assemble(model, hold={"crank": angle}) for angle in (0.4, 1.1)]
    q0 = np.stack(start)
    v0 = dyn.project_velocity(q0, np.ones((2, model.nv)))
    q, v = dyn.rollout(q0, v0, np.zeros((2, 400, model.nv)), 1e-3, method=method)
    assert (dyn.rollout.status == 0).all()
    assert (dyn.rollout.steps == 400).all()
    assert np.abs(dyn.constraint_residual(q)).max() < 1e-14
    assert np.abs(dyn.constraint_velocity(q, v)).max() < 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_switches_are_constant_inputs(method):
    """Off: the double pendulum without the weld. On: both links move as one."""
    model = (
        wt.Builder("latch", gravity=(0, -9.81, 0))
        .body("a", mass=1.0, center=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
        .body("b", mass=1.0, center=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
        .joint("one", "revolute", "world", "a")
        .joint("two", "revolute", "a", "b", position=(1, 0, 0))
        .constraint("latch", "hold", "two", switchable=True)
        .build()
    )
    dyn, tau = wt.compile(model), np.zeros((200, 2))
    active = np.array([[0.0], [1.0]])
    q, _ = dyn.rollout([0.0, 0.3], [0.0, 0.0], tau, 1e-3, method=method, active=active)
    free, _ = wt.compile(model.tree).rollout([0.0, 0.3], [0.0, 0.0], tau, 1e-3, method=method)
    assert np.abs(q[0] - free).max() < 1e-12
    assert np.abs(q[1, :, 1] - 0.3).max() < 1e-14
    assert q[1, -1, 0] < -0.1
    every, _ = dyn.rollout([0.0, 0.3], [0.0, 0.0], tau, 1e-3, method=method)
    np.testing.assert_array_equal(every, q[1])


def test_a_state_that_fails_says_when_and_leaves_the_others_alone():
    dyn = wt.compile(wt.mechanisms.pendulum())
    tau = np.zeros((3, 10, 1))
    tau[1, 4] = np.inf
    with pytest.warns(
        RuntimeWarning, match=r"1 of 3 roll-outs failed .* the first is \(1,\), after 4 steps: .* finite"
    ):
        q, v = dyn.rollout([0.3], [0.0], tau, 1e-3, method="rk4")
    assert (dyn.rollout.status != 0).tolist() == [False, True, False]
    assert dyn.rollout.steps.tolist() == [10, 4, 10]
    assert np.isfinite(q[[0, 2]]).all()
    assert np.isfinite(q[1, :4]).all()
    assert np.isnan(q[1, 4:]).all()
    assert np.isnan(v[1, 4:]).all()
    np.testing.assert_array_equal(q[0, :4], q[1, :4])


def test_a_dead_point_and_a_step_that_cannot_close_are_told():
    model = wt.mechanisms.n_four_bar(1)
    dyn = wt.compile(model)
    line = wt.assemble(model, np.zeros(model.nq))
    with pytest.warns(RuntimeWarning, match="after 0 steps: model .* constraint rows depend on each other"):
        dyn.rollout(line, -3.0 * np.sign(model.home.v), np.zeros((3, model.nv)), 1e-3)
    bar = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.9))
    dyn = wt.compile(bar)
    v = dyn.project_velocity(bar.home.q, 10 * np.ones(bar.nv))
    with pytest.warns(
        RuntimeWarning, match="stay open by more than 1e-09 after 3 corrections: the steps of rk4 are too"
    ):
        dyn.rollout(bar.home.q, v, np.zeros((3, bar.nv)), 0.5, method="rk4")


def test_open_parameters_reach_springs_and_masses():
    model = (
        wt.Builder("bob", gravity=(0, 0, 0))
        .body("bob", mass=1.0)
        .joint("slide", "prismatic", "world", "bob", axis=(1, 0, 0))
        .build()
    )
    dyn = wt.compile(model, parameters=["bodies.bob.mass", "joints.slide.stiffness"])
    t, mass = 1.0, np.array([1.0, 2.0])
    q, _ = dyn.rollout([1.0], [0.0], np.zeros((1000, 1)), t / 1000, mass, 4.0, method="rk4")
    assert np.abs(q[:, -1, 0] - np.cos(np.sqrt(4.0 / mass) * t)).max() < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("method", STEPS)
def test_large_trees_run_as_loops_with_the_same_results(method, monkeypatch):
    """Every kind of joint, springs and dampers; the same model unrolled beside it."""
    model = wt.mechanisms.tree(12, seed=2)
    joints = [replace(j, stiffness=2.0, damping=0.1) if j.kind == "revolute" else j for j in model.joints]
    model = replace(model, joints=tuple(joints))
    q, v, rng = random_start(model, (3,))
    tau = rng.uniform(-1, 1, (3, 5, model.nv))
    unrolled = wt.compile(model).rollout(q, v, tau, 1e-3, method=method)
    monkeypatch.setattr("whippletree.compiler.rollout.rollout.LOOPS_BEYOND", 3)
    dyn = compiled_from(rollout_program(model, method))
    found = dyn(q, v, tau, 1e-3)
    assert (found[2] == 0).all()
    assert (found[3] == 5).all()
    for a, b in zip(found[:2], unrolled, strict=True):
        assert np.abs(a - b).max() <= 1e-13 * np.abs(b).max()
    tau[1, 2, 0] = np.nan
    q_end, _, status, steps = dyn(q, v, tau, 1e-3)
    assert status.astype(bool).tolist() == [False, True, False]
    assert steps.tolist() == [5, 2, 5]
    assert np.isnan(q_end[1, 2:]).all()


@pytest.mark.parametrize("loops", [False, True])
def test_a_ball_that_spins_flies_straight_in_steps_of_first_order(loops, monkeypatch):
    """Its velocity is in axes that turn; stepped there, 50 rad/s would bring it to 9.6 m in steps of 1 ms, not 5."""
    build = wt.Builder("balls", gravity=(0, 0, 0))
    for name in ("one", "two"):
        build = build.body(name, 1.0, inertia=(0.004,) * 3).joint(name, "free", "world", name)
    model = build.build()
    v = np.array([0, 0, 50.0, 5, 0, 0, 30.0, 0, 0, 0, 2, 1])
    monkeypatch.setattr("whippletree.compiler.rollout.rollout.LOOPS_BEYOND", 0 if loops else 48)
    q, end, status, _ = compiled_from(rollout_program(model, "semi_implicit_euler"))(
        model.home.q, v, np.zeros((1000, 12)), 1e-3
    )
    assert status == 0
    np.testing.assert_allclose(q[-1, [0, 1, 2, 7, 8, 9]], [5, 0, 0, 0, 2, 1], atol=1e-12)
    np.testing.assert_allclose(
        wt.reference(model).kinetic_energy(q[-1], end[-1]), 0.5 * (25 + 5 + 10 + 3.6), rtol=1e-12
    )


def test_a_chain_of_a_thousand_rods():
    model = wt.mechanisms.chain(1000)
    dyn = wt.compile(model)
    q0, still = np.full(1000, 1e-3), np.zeros(1000)
    q, v = dyn.rollout(q0, still, np.zeros((20, 1000)), 1e-4, method="rk4")
    before, after = (dyn.kinetic_energy(*s) + dyn.potential_energy(s[0]) for s in ((q0, still), (q[-1], v[-1])))
    assert abs(after - before) < 1e-9 * abs(before)
    run = wt.simulate(model, q0, duration=2e-3, step=1e-4, output_dt=1e-3, method="rk4", compiled=dyn)
    assert run.attrs["path"] == "compiled"
    np.testing.assert_array_equal(run.q.values[-1], q[-1])


@pytest.mark.parametrize(("method", "error"), [("rk4", 1e-13), ("implicit_midpoint", 1e-13)])
def test_steps_back_in_time_and_steps_of_no_length(method, error):
    dyn = wt.compile(wt.mechanisms.double_pendulum())
    start, none = (np.array([0.3, 0.4]), np.array([1.0, 2.0])), np.zeros((10, 2))
    q, v = dyn.rollout(*start, none, 1e-3, method=method)
    back = dyn.rollout(q[-1], v[-1], none, -1e-3, method=method)
    assert all(np.abs(x[-1] - given).max() < error for x, given in zip(back, start, strict=True))
    still = dyn.rollout(*start, none, 0.0, method=method)
    assert all(np.abs(x - given).max() < 1e-15 for x, given in zip(still, start, strict=True))


@pytest.mark.parametrize("dt", [0.0, -1e-3, np.nan, np.inf])
def test_a_step_that_has_no_length_is_refused_the_first_time_too(dt):
    with pytest.raises(ValueError, match="step: dt is"):
        wt.compile(wt.mechanisms.bouncing_ball()).step([0.1], [0.0], dt=dt)


def test_no_steps_and_an_unknown_method():
    dyn = wt.compile(wt.mechanisms.pendulum())
    q, v = dyn.rollout([0.1], [0.0], np.zeros((0, 1)), 0.01)
    assert q.shape == v.shape == (0, 1)
    with pytest.raises(wt.NameLookupError, match="there is no integrator 'euler'"):
        dyn.rollout([0.1], [0.0], np.zeros((1, 1)), 0.01, method="euler")
