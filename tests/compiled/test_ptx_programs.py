"""What runs on a GPU, on an emulated driver: a status per state, loops over bodies, roll-outs, contact."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from emulated_cuda import install, on_device
from whippletree.compiler.cuda.ptx_target import how_to_start
from whippletree.compiler.rollout.rollout import METHODS
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.model import Constraint


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    return install(monkeypatch)


def both(model, **options):
    return [wt.compile(model, target=target, **options) for target in ("cuda", "cpu")]


def same(found, expected):
    """The same numbers, NaN where NaN is; from the device or from the host."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.numpy() if hasattr(a, "numpy") else a, b)


# ---- a status per state ----------------------------------------------------------------------------------------------


def dead_points(count, where):
    """Random states of a four-bar; some of them stretched to a line, where its rows depend on each other."""
    model = wt.mechanisms.four_bar()
    q, v, tau = np.random.default_rng(0).uniform(-2, 2, (3, count, model.nv))
    q[where] = 0.0
    return model, (q, v, tau)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_singular_states_of_host_arrays_are_answered_as_on_the_cpu(dtype):
    model, inputs = dead_points(37, [5, 36])
    inputs = [x.astype(dtype) for x in inputs]
    gpu, cpu = both(model, dtype=dtype)
    results = []
    for dyn in (gpu, cpu):
        with pytest.warns(RuntimeWarning, match=r"no answer for 2 of 37 states.*the first is \(5,\)"):
            results.append(dyn.forward_dynamics(*inputs))
    same(results[:1], results[1:])
    status = gpu.forward_dynamics.status
    np.testing.assert_array_equal(status, cpu.forward_dynamics.status)
    assert np.flatnonzero(status).tolist() == [5, 36]
    np.testing.assert_array_equal(gpu.forward_dynamics(*[x[5] for x in inputs]), results[0][5])


def test_a_status_stays_on_the_device():
    """Nobody waits for it, and nothing is said: NaN speaks for itself."""
    model, inputs = dead_points(37, [5, 36])
    dyn = wt.compile(model, target="cuda")
    result = dyn.forward_dynamics(*map(on_device, inputs))
    assert np.flatnonzero(dyn.forward_dynamics.status.numpy()).tolist() == [5, 36]
    assert np.flatnonzero(np.isnan(result.numpy()).all(axis=1)).tolist() == [5, 36]
    dyn.forward_dynamics(*[on_device(x[6:36]) for x in inputs])
    assert not dyn.forward_dynamics.status.numpy().any()


# ---- loops over bodies -----------------------------------------------------------------------------------------------


def test_loops_share_work_space_among_more_states_than_threads():
    model = wt.mechanisms.chain(200)
    gpu, cpu = both(model)
    inputs = np.random.default_rng(0).uniform(-2, 2, (3, 700, model.nv))
    same([gpu.forward_dynamics(*inputs)], [cpu.forward_dynamics(*inputs)])


def test_less_work_space_than_the_device_could_use(driver):
    """There is memory for the work space of one block, not for that of the two which could run at once."""
    model = wt.mechanisms.chain(200)
    gpu, cpu = both(model)
    inputs = np.random.default_rng(0).uniform(-2, 2, (3, 300, model.nv))
    given = [on_device(x) for x in inputs]
    work = how_to_start(gpu.forward_dynamics._kernel.image("sm_90")).work
    driver.capacity = 2 * 128 * work - 1
    same([gpu.forward_dynamics(*given)], [cpu.forward_dynamics(*inputs)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constrained_loops(dtype):
    """A chain of more velocities than any matrix is formed of, with a rod from its end to the ground."""
    chain = wt.mechanisms.chain(LONG_SYSTEM + 10)
    rod = Constraint("rod", "distance", ("world", chain.bodies[-1].name), {"length": 5.0})
    model = replace(chain, constraints=(rod,))
    gpu, cpu = both(model, dtype=dtype)
    inputs = np.random.default_rng(2).uniform(-1, 1, (3, 9, model.nv)).astype(dtype)
    expected = cpu.forward_dynamics(*inputs)
    assert np.isfinite(expected).all()
    same([gpu.forward_dynamics(*inputs)], [expected])
    same([gpu.constraint_forces(*inputs)], [cpu.constraint_forces(*inputs)])


# ---- roll-outs -------------------------------------------------------------------------------------------------------


def swinging(count):
    """A four-bar at home with several speeds that its loop allows."""
    model = wt.mechanisms.four_bar()
    v = np.linspace(0.5, 2, count)[:, None] * np.ones(model.nv)
    return model, np.tile(model.home.q, (count, 1)), wt.compile(model).project_velocity(model.home.q, v)


@pytest.mark.parametrize("method", METHODS)
def test_rollouts_with_status_and_steps(method):
    """A force beyond all bounds in the fourth step of one state: it is NaN from there on, the others go on."""
    model, q, v = swinging(5)
    tau = np.random.default_rng(1).uniform(-1, 1, (5, 6, model.nv))
    tau[2, 3] = 1e300
    dt = np.array([1e-3, 1e-3, 1e-3, 2e-3, 1e-3])
    gpu, cpu = both(model)
    results = []
    for dyn in (gpu, cpu):
        with pytest.warns(RuntimeWarning, match=r"1 of 5 roll-outs failed .* the first is \(2,\), after"):
            results.append([*dyn.rollout(q, v, tau, dt, method=method), dyn.rollout.status, dyn.rollout.steps])
    same(*results)
    assert np.flatnonzero(gpu.rollout.status).tolist() == [2]
    assert gpu.rollout.steps.tolist() == [6, 6, 3, 6, 6]
    assert np.isnan(results[0][0]).all(axis=-1).sum(axis=1).tolist() == [0, 0, 3, 0, 0]
    # on the device nobody looks, and status and steps stay there
    found = gpu.rollout(*map(on_device, (q, v, tau, dt)), method=method)
    same([*found, gpu.rollout.status, gpu.rollout.steps], results[1])


def test_rollouts_as_loops_over_bodies():
    model = wt.mechanisms.chain(60)
    q, v = np.random.default_rng(0).uniform(-1, 1, (2, 3, model.nv))
    tau = np.zeros((3, 4, model.nv))
    gpu, cpu = both(model)
    same(gpu.rollout(q, v, tau, 1e-4, method="rk4"), cpu.rollout(q, v, tau, 1e-4, method="rk4"))
    same([gpu.rollout.status, gpu.rollout.steps], [cpu.rollout.status, cpu.rollout.steps])
    assert gpu.rollout.steps.tolist() == [4] * 3


def test_rollouts_follow_the_clock():
    model = wt.mechanisms.chain(2)
    driven = Constraint("motor", "prescribed", (model.joints[0].name,), {"motion": lambda t: np.sin(3 * t)})
    model = replace(model, constraints=(driven,))
    v = np.array([3.0, 0.0])
    tau = np.zeros((2, 5, 2))
    gpu, cpu = both(model)
    expected = cpu.rollout(np.zeros(2), v, tau, 1e-3)
    same(gpu.rollout(np.zeros(2), v, tau, 1e-3), expected)
    same(gpu.rollout(on_device(np.zeros(2)), on_device(v), on_device(tau), 1e-3), expected)
    assert np.abs(expected[0][0, -1, 0] - np.sin(3 * 5e-3)) < 1e-9
    with pytest.raises(wt.DeviceError, match="does not become a NumPy array by itself"):
        gpu.rollout(on_device(np.zeros(2)), on_device(v), on_device(tau), on_device(np.full(2, 1e-3)))


# ---- contact ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_contact_rollouts(dtype):
    model = wt.mechanisms.rocking_block()
    v = 0.2 * np.random.default_rng(0).normal(size=(35, model.nv)).astype(dtype)
    q, tau = model.home.q.astype(dtype), np.zeros((4, model.nv), dtype)
    gpu, cpu = both(model, dtype=dtype)
    expected = cpu.contact_rollout(q, v, tau, 1e-3, sweeps=5)
    same(gpu.contact_rollout(q, v, tau, 1e-3, sweeps=5), expected)
    found = gpu.contact_rollout(on_device(q), on_device(v), on_device(tau), 1e-3, sweeps=5)
    same(found, expected)
    assert np.abs(expected.impulses).max() > 0


def test_contact_rollouts_go_on_from_impulses_on_the_device():
    model = wt.mechanisms.rocking_block()
    q, v, tau = model.home.q, np.zeros((3, model.nv)), np.zeros((4, model.nv))
    gpu, cpu = both(model)
    first = cpu.contact_rollout(q, v, tau, 1e-3)
    last = first.q[:, -1], first.v[:, -1], first.impulses[:, -1]
    expected = cpu.contact_rollout(*last[:2], tau, 1e-3, impulses=last[2])
    q, v, impulses = map(on_device, last)
    same(gpu.contact_rollout(q, v, on_device(tau), 1e-3, impulses=impulses), expected)


def test_contact_that_cannot_be_unrolled_is_refused_before_anything_is_compiled():
    model = wt.mechanisms.pendulum()
    with pytest.raises(wt.UnsupportedError, match="has no contacts, joint limits or joint friction: use rollout"):
        wt.compile(model, target="cuda").contact_rollout([0.0], [0.0], np.zeros((1, 1)), 1e-3)


def test_loops_over_clusters_have_the_bits_of_the_cpu():
    model = wt.mechanisms.four_bar_chain(17)
    q, v, tau = np.random.default_rng(0).uniform(-0.1, 0.1, (3, 9, model.nv))
    results = [dyn.forward_dynamics(model.home.q + q, v, tau) for dyn in both(model)]
    assert np.isfinite(results[1]).all()
    same(results[:1], results[1:])
