"""Dry friction of joints by events: stick and slip against closed forms, loops, massless sliders, derivatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import whippletree as wt
from contact_scenes import PLANAR, UP, G, run_of
from whole_runs import compared

STILL = (0, 0, 0)


def slider(**joint):
    builder = wt.Builder("slider", STILL).body("mass", 1.0)
    return builder.joint("rail", "prismatic", "world", "mass", axis=(1, 0, 0), **joint).build()


def rubbing(model, friction):
    """The same with dry friction at every joint of one freedom."""
    joints = [replace(joint, friction=friction) if joint.type.nv == 1 else joint for joint in model.joints]
    return replace(model, joints=tuple(joints))


@pytest.mark.slow
def test_an_oscillator_loses_twice_the_dead_band_every_half_period():
    run = run_of(slider(stiffness=100.0, friction=2.0, start=0.47), duration=5.0)
    kinds, at = run.attrs["contact_event_kinds"], np.array(run.attrs["event_times"])
    assert kinds == ["reversal"] * 11 + ["stick"]
    assert at == pytest.approx(np.pi / 10 * np.arange(1, 13), abs=1e-9)
    turns = wt.event_states(run)[2][:, 0]
    n = np.arange(1, 13)
    assert turns == pytest.approx((-1.0) ** n * (0.47 - 0.04 * n), abs=1e-9)
    assert run.q.values[-1] == pytest.approx(turns[-1:], abs=1e-14)
    assert run.friction_force.values[-1] == pytest.approx(100.0 * turns[-1:], abs=1e-9)
    assert run.attrs["mode_names"] == ["friction of rail slides", "friction of rail sticks"]


def test_a_flywheel_runs_down_and_stays():
    builder = wt.Builder("wheel", STILL).body("wheel", 1.0, inertia=(0.2, 0.2, 0.3))
    model = builder.joint("axle", "revolute", "world", "wheel", axis=(0, 0, 1), friction=0.06).build()
    run = wt.simulate(model, v0=[2.0], duration=12.0)
    assert run.attrs["method"] == "events"
    assert run.attrs["event_times"] == pytest.approx([10.0], abs=1e-12)
    assert run.q.values[-1] == pytest.approx([10.0], abs=1e-10)
    assert run.friction_force.values[-1] == 0
    assert run.friction_force.values[5] == pytest.approx([-0.06])


def test_a_pendulum_with_a_dry_hinge_turns_where_friction_has_taken_its_energy():
    mass, length, friction = 1.3, 0.7, 0.9
    builder = wt.Builder("pendulum", PLANAR).body("bob", mass, (0, -length, 0))
    model = builder.joint("hinge", "revolute", "world", "bob", start=2.0, friction=friction).build()
    run = run_of(model, duration=9.0)
    weight, start, angles, spans = mass * G * length, 2.0, [], []
    while abs(weight * np.sin(start)) > friction:
        way = -np.sign(start)

        def energy(angle, start=start, way=way):
            return weight * (np.cos(angle) - np.cos(start)) - friction * way * (angle - start)

        end = brentq(energy, np.arcsin(-way * friction / weight), -start, xtol=1e-15)
        # with angle = middle + half cos s the speed's zeros at both ends cancel
        middle, half = (start + end) / 2, (start - end) / 2

        def pace(s, middle=middle, half=half, energy=energy):
            return abs(half * np.sin(s)) / np.sqrt(2 * energy(middle + half * np.cos(s)) / (mass * length**2))

        spans.append(quad(pace, 0, np.pi, epsabs=1e-12)[0])
        angles.append(end)
        start = end
    assert run.attrs["contact_event_kinds"] == ["reversal"] * (len(angles) - 1) + ["stick"]
    assert wt.event_states(run)[2][:, 0] == pytest.approx(angles, abs=1e-9)
    assert run.attrs["event_times"] == pytest.approx(np.cumsum(spans), abs=1e-8)
    assert run.q.values[-1] == pytest.approx([angles[-1]], abs=1e-9)


def test_a_block_rides_on_another_until_friction_cannot_carry_it():
    """2 kg on 3 kg that are pushed by 4 t: friction of 5 N carries the upper one until 4 t · 2/5 = 5."""
    builder = wt.Builder("blocks", STILL).body("lower", 3.0).body("upper", 2.0)
    builder.joint("ground", "prismatic", "world", "lower", axis=(1, 0, 0))
    builder.joint("between", "prismatic", "lower", "upper", axis=(1, 0, 0), friction=5.0)
    run = run_of(builder.build(), duration=4.0, controller=lambda t, q, v: np.array([4 * t, 0]))
    slip = 5.0 * 5 / 2 / 4
    assert list(zip(run.attrs["event_names"], run.attrs["event_times"], strict=True)) == [
        ("slip friction of between", pytest.approx(slip, abs=1e-10))
    ]
    lower = (2 * 4.0**2 - 5 * 4.0 - (2 * slip**2 - 5 * slip)) / 3 + 2 * slip**2 / 5
    upper = 5 * (4.0 - slip) / 2 + 2 * slip**2 / 5
    assert run.v.values[-1] == pytest.approx([lower, upper - lower], abs=1e-9)


def test_joints_of_a_loop_break_away_together():
    """A parallelogram turns all its joints alike: friction of 1 N m at three of them holds a torque of up to 3 N m."""
    model = replace(rubbing(wt.mechanisms.four_bar(), 1.0), gravity=np.zeros(3))
    run = run_of(model, duration=3.5, controller=lambda t, q, v: np.array([t, 0, 0]))
    assert run.attrs["contact_event_kinds"] == ["slip"] * 3
    assert run.attrs["event_times"] == pytest.approx([3.0] * 3, abs=1e-9)
    assert np.abs(run.friction_force).max() == pytest.approx(1.0, abs=1e-9)
    assert run.cone_violation.max() < 1e-9
    forces = zip(run.q.values, run.v.values, run.a.values, run.tau.values, run.friction_force.values, strict=True)
    dyn = wt.compile(model)
    for (q, v, a, tau, friction), f in zip(forces, run.constraint_forces.values, strict=True):
        missing = dyn.mass_matrix(q) @ a + dyn.bias(q, v) - tau - friction - dyn.constraint_jacobian(q).T @ f
        assert np.abs(missing).max() < 1e-9


def test_a_door_rests_on_its_stop_and_leaves_it_against_friction():
    """A torque that grows as 4 t − 6 lifts a door of no weight off its stop once it beats friction of 2."""
    builder = wt.Builder("door", STILL).body("door", 1.0, inertia=(1, 1, 1))
    builder.joint("hinge", "revolute", "world", "door", start=0.5, lower=0.0, friction=2.0)
    run = run_of(builder.build(), duration=2.5, controller=lambda t, q, v: np.array([4 * t - 6]))
    at = dict(zip(run.attrs["event_names"], run.attrs["event_times"], strict=True))
    # it slips at once: a = 4 t − 4 while it closes
    closing = brentq(lambda t: 0.5 + 2 * t**3 / 3 - 2 * t**2, 0, 1)
    assert at["touchdown lower limit of hinge"] == pytest.approx(closing, abs=1e-9)
    assert at["slip friction of hinge"] == pytest.approx(2.0, abs=1e-8)
    assert run.q.values[-1] == pytest.approx([2 * 0.5**3 / 3], abs=1e-8)


def test_a_massless_slider_behind_a_spring_is_an_elastoplastic_link():
    """1 kg at 2 m/s against a spring (100 N/m) whose other end slips at 3 N: it sticks, drags, sticks."""
    builder = wt.Builder("link", STILL).body("slider").body("mass", 1.0)
    builder.joint("slide", "prismatic", "world", "slider", axis=(1, 0, 0), friction=3.0)
    model = builder.joint("spring", "prismatic", "slider", "mass", axis=(1, 0, 0), stiffness=100.0).build()
    run = run_of(model, v0=[0, 2.0], duration=1.0)
    slips = np.arcsin(0.03 / 0.2) / 10
    speed = 2.0 * np.cos(10 * slips)
    assert run.attrs["event_times"] == pytest.approx([slips, slips + speed / 3], abs=1e-9)
    assert wt.event_states(run)[2][-1, 0] == pytest.approx(speed**2 / 6, abs=1e-9)
    left = 10 * (1.0 - slips - speed / 3)
    assert run.v.values[-1] == pytest.approx([0, -0.3 * np.sin(left)], abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_friction_of_random_arms_is_dry(seed):
    """Against every motion, at its bound while it slips and within it while it sticks; it takes what energy is lost."""
    rng = np.random.default_rng(seed)
    builder, last = wt.Builder("arm"), "world"
    for k in range(4):
        builder.body(f"link {k}", rng.uniform(0.5, 2), rng.normal(size=3) / 3, (0.05, 0.06, 0.07))
        kind, axis = rng.choice(["revolute", "prismatic"], p=[0.8, 0.2]), rng.normal(size=3)
        passive = {
            "friction": rng.uniform(0.2, 3),
            "damping": 0.1 * (k == 1),
            "stiffness": 20.0 * (kind == "prismatic"),
        }
        place = rng.normal(size=3) / 2
        builder.joint(f"joint {k}", kind, last, f"link {k}", position=place, axis=axis, **passive)
        last = f"link {k}"
    model = builder.build()
    bound = np.array([joint.friction for joint in model.joints])
    run = run_of(model, v0=rng.normal(size=4), duration=0.8, output_dt=1e-3)
    assert run.attrs["event_times"]
    v, f = run.v.values, run.friction_force.values
    assert np.all(np.abs(f) <= bound * (1 + 1e-9))
    moving = np.abs(v) > 1e-6
    assert f[moving] == pytest.approx(-(np.sign(v) * bound)[moving])
    energy = (run.kinetic_energy + run.potential_energy).values
    assert np.diff(energy).max() < 1e-9
    power = np.sum(f * v, axis=1) - 0.1 * v[:, 1] ** 2
    # by the trapezium rule, which an event within an interval leaves at second order
    assert energy[-1] - energy[0] == pytest.approx(np.trapezoid(power, run.time.values), rel=1e-4, abs=1e-4)


@pytest.fixture(scope="module")
def striker():
    """A double pendulum with dry joints whose tip strikes the floor."""
    builder = wt.Builder("striker", PLANAR).geometry("floor", "world", "half_space", position=(0, -1.2, 0), rotation=UP)
    for name in ("upper", "fore"):
        builder.body(name, 1.0, (0.5, 0, 0), (0, 0.08, 0.08))
    builder.joint("shoulder", "revolute", "world", "upper", start=0.2, friction=0.5)
    builder.joint("elbow", "revolute", "upper", "fore", position=(1, 0, 0), start=0.1, friction=0.4)
    builder.geometry("tip", "fore", "point", position=(1, 0, 0))
    return builder.contact("hit", "tip", "floor", friction=0.3, restitution=0.5).build()


@pytest.mark.slow
def test_derivatives_go_through_slips_of_joints_and_impacts(striker):
    events = ["reversal"] * 3 + ["touchdown", "reversal", "reversal", "touchdown", "reversal", "reversal"]
    run = compared(striker, 1.03, events, v0=[0.3, -0.2])
    assert "reversal friction of elbow" in run.attrs["event_names"]


def test_derivatives_go_on_where_a_joint_has_stuck():
    """It first moves outwards about −c/k, by √(0.49² + 0.03²) − 0.02; every turn after that takes the same."""
    model = slider(stiffness=100.0, friction=2.0, start=0.47)
    run = wt.simulate(model, v0=[0.3], duration=4.5, sensitivity=True)
    assert run.attrs["contact_event_kinds"] == ["reversal"] * 12 + ["stick"]
    farthest = np.hypot(0.49, 0.03)
    derivative = np.array([[0.49 / farthest, 0.03 / farthest / 10], [0, 0]])
    assert run["sensitivity"].values[-1] == pytest.approx(derivative, abs=1e-8)


def test_methods_that_leave_dry_friction_out_say_so():
    model = slider(stiffness=100.0, friction=2.0, start=0.47)
    with pytest.warns(RuntimeWarning, match="method 'rk4' leaves out the dry friction of joint 'rail'"):
        wt.simulate(model, duration=0.01, method="rk4")
