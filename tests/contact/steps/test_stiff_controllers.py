"""Controllers whose gains steps do not resolve, and starts beyond the ends of joints: both are met in most arms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic.trace import Trace, linear_parts
from whippletree.compiler.frontend.controller import own_gains, preserve_memory
from whippletree.simulation.time_stepping import impulse_step, stepping_method

GOAL = np.array([0.4, -0.6, 0.02])
H = 2e-3


def arm(limits: bool = True) -> wt.Model:
    """A slide with a heavy link and a light finger, as a gripper on an arm has; without limits nothing can touch."""
    ends = {"lower": -2.0, "upper": 2.0} if limits else {}
    b = wt.Builder("arm with a finger", gravity=(0.0, 0.0, -9.81))
    b.body("slide", 2.0, inertia=(0.1, 0.1, 0.1)).body("link", 1.0, center=(0.3, 0, 0), inertia=(0.01, 0.05, 0.05))
    b.body("finger", 0.01, center=(0.05, 0, 0), inertia=(1e-6, 1e-5, 1e-5))
    b.joint("rail", "prismatic", "world", "slide", axis=(1, 0, 0), **ends)
    b.joint("elbow", "revolute", "slide", "link", axis=(0, 1, 0), **ends)
    b.joint("pinch", "prismatic", "link", "finger", axis=(0, 0, 1), position=(0.6, 0, 0), **ends)
    return b.build()


def pd(t, q, v):
    return 100 * (GOAL - q) - 20 * v


def stepped(model: wt.Model, *start, controller=pd, duration=0.6, **more):
    more.setdefault("output_dt", 0.02)
    return wt.simulate(model, *start, duration=duration, controller=controller, method="time_stepping", step=H, **more)


@pytest.fixture(scope="module")
def exact():
    """h d / m is 4 for the finger: twice what explicit steps can take."""
    return wt.simulate(arm(limits=False), duration=0.6, controller=pd, method="adaptive", output_dt=0.02)


def near(run, exact) -> None:
    assert run.attrs["failure"] == ""
    assert np.abs(run.q.values - exact.q.values).max() < 5 * H
    assert np.abs(run.q.values[-1] - exact.q.values[-1]).max() < 0.3 * H


@pytest.mark.slow
def test_steps_in_machine_code_in_python_and_in_batches_follow_a_stiff_controller(exact, monkeypatch):
    compiled = stepped(arm())
    with monkeypatch.context() as patch:
        patch.setattr(impulse_step, "suits_lists", lambda model: False)
        python = stepped(arm())
    assert compiled.attrs["path"] == "compiled"
    assert python.attrs["path"].startswith("python")
    for run in (compiled, python):
        near(run, exact)
    # what motors do is accounted for as a whole: the balance is that of steps of first order
    assert np.abs(compiled.energy_balance.values[-1]) < 0.05 * np.abs(compiled.joint_work.values[-1])
    assert np.allclose(compiled.joint_work.values, python.joint_work.values, rtol=1e-6, atol=1e-9)
    batch = stepped(arm(), np.zeros((3, 3)))
    assert np.allclose(batch.q.isel(run=1).values, compiled.q.values)


def test_a_long_run_whose_controller_is_part_of_the_kernel_is_the_same(exact, monkeypatch):
    asked = stepped(arm())
    monkeypatch.setattr(stepping_method, "WORTH_A_KERNEL", 1)
    driven = stepped(arm())
    assert np.abs(driven.q.values - asked.q.values).max() < 1e-12
    near(driven, exact)


def test_steps_converge_to_the_first_order():
    ends = [stepped(arm(), duration=0.2, output_dt=0.2).q.values[-1]]
    for h in (H / 4, H / 16):
        run = wt.simulate(arm(), duration=0.2, controller=pd, method="time_stepping", step=h, output_dt=0.2)
        ends.append(run.q.values[-1])
    true = wt.simulate(arm(False), duration=0.2, controller=pd, output_dt=0.2).q.values[-1]
    errors = [np.abs(end - true).max() for end in ends]
    assert errors[1] < 0.35 * errors[0]
    assert errors[2] < 0.35 * errors[1]


def test_gains_that_steps_resolve_change_nothing():
    """A soft controller acts as at the start of a step, as any force that is given."""

    def soft(t, q, v):
        return [3 * np.sin(t) - 2 * v[0], -0.01 * v[1], 0.0]

    run = stepped(arm(), controller=soft, duration=0.1, output_dt=H)
    dyn, q, v, impulses = wt.compile(arm()), np.zeros(3), np.zeros(3), None
    for t in run.time.values[:-1]:
        q, v, _, impulses, *_ = dyn.step(q, v, None, H, tau=np.array(soft(t, q, v)), impulses=impulses)
    assert np.abs(run.q.values[-1] - q).max() < 1e-12


def test_gains_are_found_where_they_are_constant():
    """About any path in time, beside gravity compensation; not those of a controller that saturates."""
    model = arm()
    hold = wt.controllers.pd(
        model, target=lambda t: GOAL * np.sin(t), stiffness=30.0, damping=np.array([1.0, 2.0, 3.0])
    )
    gains = own_gains(model, wt.controllers.together(hold, wt.controllers.gravity_compensation(model)))
    assert gains is not None
    assert gains.damping.tolist() == [1.0, 2.0, 3.0]
    assert gains.stiffness.tolist() == [30.0, 0.0, 30.0]  # gravity changes with the elbow
    cut = own_gains(model, lambda t, q, v: np.clip(pd(t, q, v), -1, 1))
    assert cut is not None
    assert not cut.damping.any()
    assert not cut.stiffness.any()
    driving = own_gains(model, lambda t, q, v: 5 * v)
    assert driving is not None
    assert not driving.damping.any()
    assert own_gains(model, lambda t, q, v: pd(t, q, v) if v[0] > 0 else 0 * v) is None


def test_linear_parts_of_a_trace():
    trace = Trace()
    x, y, z = trace.inputs(3)
    one, two, three = linear_parts(trace, [3 * (x - 2 * y) / 4 + z * z + 1, x / z, 5])
    assert one.slopes == {0: 0.75, 1: -1.5}
    assert one.others == {2}
    assert one.slope(2) is None
    assert two.slope(0) is None
    assert two.slope(1) == 0
    assert three.inputs == set()


class Integral:
    """Integral action that takes up what it is asked with, by new numbers, in place, and in a log."""

    def __init__(self) -> None:
        self.sum, self.place, self.log = np.zeros(3), np.zeros(3), []

    def __call__(self, t, q, v):
        self.log.append(t)
        self.sum = self.sum + H * (GOAL - q)
        self.place[:] = self.place + 1.0
        return pd(t, q, v) + 50 * self.sum


@pytest.mark.parametrize("method", ["time_stepping", "semi_implicit_euler"])
def test_a_controller_with_a_memory_begins_its_run_as_it_was_handed_over(method):
    """It is asked once for each step, and for the forces at rows of output: nothing of trying it out is left."""
    memory = Integral()
    run = wt.simulate(arm(), duration=10 * H, controller=memory, method=method, step=H if method[0] == "t" else 1e-5)
    assert run.attrs["failure"] == ""
    assert memory.sum.dtype == float
    assert np.isfinite(memory.sum).all()
    assert memory.place[0] == len(memory.log)
    assert all(isinstance(t, float) for t in memory.log)


def test_what_a_closure_remembers_is_put_back():
    seen, total = {"calls": 0}, 0.0

    def count(x):
        nonlocal total
        seen["calls"] += 1
        total = total + x
        return total

    with preserve_memory(count):
        count(3.0)
        assert total == 3.0
    assert total == 0.0
    assert seen == {"calls": 0}


# --- starts beyond the ends of joints --------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [(0.5, 0.0, 0.0), (0.0, -0.4, 0.3), (-0.6, 0.7, -0.25)])
def test_joints_beyond_their_range_come_back_at_a_bounded_speed_and_gain_none(start):
    """Sliding and turning joints, several at once: at rest without gravity they are at rest all the way, and told."""
    ranges = {"rail": (-0.2, 0.1), "elbow": (-0.1, np.inf), "pinch": (-0.02, 0.05)}
    joints = [replace(j, lower=ranges[j.name][0], upper=ranges[j.name][1]) for j in arm().joints]
    model = replace(arm(), joints=tuple(joints), gravity=np.zeros(3))
    low, high = np.array(list(ranges.values())).T
    q0 = np.array(start)
    deepest = np.maximum(np.maximum(low - q0, q0 - high), 0.0)
    with pytest.warns(RuntimeWarning, match="moves what overlaps apart at 1 m/s or rad/s") as told:
        run = wt.simulate(model, q0, duration=0.7, method="time_stepping", step=H, output_dt=H)
    text = str(told[0].message)
    assert all(
        (f"'limit {name}' overlaps by {d:.3g}" in text) == (d > 0) for name, d in zip(ranges, deepest, strict=True)
    )
    beyond = np.maximum(np.maximum(low - run.q.values, run.q.values - high), 0.0)
    left = np.maximum(deepest - H * np.arange(len(beyond))[:, None], 0.0)
    assert (beyond <= left + 1e-9).all()
    assert np.abs(run.v.values).max() < 1e-12
    assert (beyond.max(axis=1) >= left.max(axis=1) - 1e-9).all()  # and not at once
