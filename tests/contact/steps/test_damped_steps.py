"""Springs and dampers within a time step: stiff ones, exact recursions, massless ones, and the same in every path."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.implicit_springs import implicit_model
from whippletree.contact.problem.contact_problem import solve_by_sweeps
from whippletree.contact.time_step import ContactBlocks, finish_step, pose_step
from whippletree.errors import SingularSystemError
from whippletree.tree.mechanism import Mechanism


def slider(stiffness: float = 0.0, damping: float = 0.0, mass: float = 1.0, floor: float = -10.0) -> wt.Model:
    """A mass on a rail with a spring and a damper, z up, no gravity; a floor far below."""
    builder = wt.Builder("slider", gravity=(0, 0, 0)).body("mass", mass, inertia=(0.01 * mass,) * 3)
    builder.joint("z", "prismatic", "world", "mass", axis=(0, 0, 1), stiffness=stiffness, damping=damping)
    builder.geometry("ball", "mass", "sphere", radius=0.01)
    return wt.on_ground(builder.build(), geometries=["ball"], height=floor)


def leg(stiffness: float, damping: float, foot: float = 0.5) -> wt.Model:
    """A hip that falls on a foot behind a spring and a damper."""
    builder = wt.Builder("leg").body("hip", 2.0, inertia=(0.1, 0.1, 0.1))
    builder.joint("z", "prismatic", "world", "hip", axis=(0, 0, 1), start=0.6)
    builder.body("foot", foot, inertia=(0.01 * foot,) * 3)
    spring = {"stiffness": stiffness, "rest": -0.3, "damping": damping}
    builder.joint("slide", "prismatic", "hip", "foot", axis=(0, 0, 1), start=-0.3, **spring)
    builder.geometry("ball", "foot", "sphere", radius=0.05)
    return wt.on_ground(builder.build(), geometries=["ball"], friction=0.5)


def run(model: wt.Model, duration: float, step: float, **more):
    return wt.simulate(
        model, duration=duration, method="time_stepping", step=step, output_dt=more.pop("output_dt", step), **more
    )


# --- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("damping", [0.1, 10.0, 1e3, 1e6])
def test_a_damper_is_backward_euler(damping):
    h, v0 = 0.01, 2.0
    found = run(slider(damping=damping), 0.1, h, q0=[0.0], v0=[v0])
    powers = [mpmath.mpf(v0) / (1 + mpmath.mpf(h) * damping) ** k for k in range(11)]
    assert found.v.values[:, 0] == pytest.approx([float(x) for x in powers], rel=1e-9, abs=1e-300)
    assert np.all(np.diff(found.kinetic_energy.values) <= 0)


@pytest.mark.parametrize("stiffness", [1.0, 100.0, 2499.0])
def test_a_spring_that_steps_resolve_keeps_its_energy(stiffness):
    """Semi-implicit Euler: m v⁺ v / 2 + k q² / 2 is kept."""
    found = run(slider(stiffness=stiffness), 3.0, 0.01, q0=[0.1], v0=[0.0])
    q, v = found.q.values[:, 0], found.v.values[:, 0]
    kept = v[:-1] * v[1:] / 2 + stiffness * q[:-1] ** 2 / 2
    assert kept == pytest.approx(np.full(len(kept), stiffness * 0.1**2 / 2), rel=1e-9)


@pytest.mark.parametrize("stiffness", [2501.0, 1e6, 1e12])
def test_a_spring_that_steps_do_not_resolve_settles(stiffness):
    """Backward Euler: (m + h² k) v⁺ = m v − h k q."""
    h, q, v = 0.01, mpmath.mpf("0.1"), mpmath.mpf(0)
    found = run(slider(stiffness=stiffness), 0.5, h, q0=[0.1], v0=[0.0])
    step = mpmath.mpf(h)
    for k in range(1, 51):
        v = (v - step * stiffness * q) / (1 + step * step * stiffness)
        q = q + step * v
        assert found.q.values[k, 0] == pytest.approx(float(q), rel=1e-9, abs=1e-13)
    assert abs(found.q.values[-1, 0]) < 1e-3


@pytest.mark.slow
def test_a_chain_of_stiff_springs_stays_bounded():
    """Springs just softer than what is implicit, in line, every second body the other way: the stiffest motion."""
    n, h = 30, 0.01
    builder = wt.Builder("chain", gravity=(0, 0, 0))
    for k in range(n):
        builder.body(f"b{k}", 1.0, inertia=(0.01, 0.01, 0.01))
        on = f"b{k - 1}" if k else "world"
        builder.joint(f"j{k}", "prismatic", on, f"b{k}", axis=(0, 0, 1), stiffness=2499.0, friction=1e-9)
    start = 0.01 * (-1.0) ** np.arange(n) * 2
    found = run(builder.build(), 5.0, h, q0=start, v0=np.zeros(n), output_dt=0.1)
    energy = (found.kinetic_energy + found.potential_energy).values
    assert energy.max() < 2 * energy[0]


def test_energy_balance_of_a_damped_spring_closes_at_first_order():
    left = []
    for h in (2e-3, 1e-3, 5e-4):
        found = run(slider(stiffness=50.0, damping=1.5), 1.0, h, q0=[0.1], v0=[0.3], output_dt=1.0)
        assert found.joint_work.values[-1] < 0
        left.append(abs(float(found.energy_balance[-1])))
    start = 50 * 0.1**2 / 2 + 0.3**2 / 2
    assert left[0] < 1e-2 * start
    assert left[2] < 0.6 * left[1] < 0.36 * left[0]


# --- contact ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("stiffness", "damping"), [(0.0, 1e6), (1e8, 1e4), (1e9, 0.0), (2e3, 30.0)])
def test_stiff_legs_land_at_large_steps(stiffness, damping):
    model = leg(stiffness, damping)
    found = run(model, 1.0, 0.01)
    assert found.attrs["failure"] == ""
    assert found.attrs["unconverged_steps"] == 0
    assert np.abs(found.v.values).max() < 2.5  # a fall from 0.25 m, and no more than that
    assert float(found.penetration.max()) < 1e-9


@pytest.mark.slow
def test_a_soft_leg_agrees_with_events_at_first_order():
    model, duration = leg(800.0, 8.0), 0.5
    exact = wt.simulate(model, duration=duration, method="events", output_dt=duration)
    assert exact.attrs["failure"] == ""
    errors = []
    for count in (125, 250, 500, 1000):
        found = run(model, duration, duration / count, output_dt=duration)
        errors.append(np.abs(found.q.values[-1] - exact.q.values[-1]).max())
    assert errors[-1] < 2e-3
    assert np.polyfit(np.log([1, 0.5, 0.25, 0.125]), np.log(errors), 1)[0] > 0.8


def test_every_path_takes_the_same_steps():
    """The reference on any scalar, the kernel, the batch of simulate and its single scene."""
    model = leg(5e4, 200.0)
    q, v, h, count = np.array([0.36, -0.301]), np.array([-2.0, 0.1]), 5e-3, 6
    m, blocks = Mechanism.of(model), ContactBlocks(model)
    kernel = wt.compile(model).contact_rollout(q, v, np.zeros((count, 2)), h, sweeps=20)
    single = run(model, count * h, h, q0=q, v0=v, tolerance=1e-13)
    batch = run(model, count * h, h, q0=np.stack([q, q]), v0=np.stack([v, 2 * v]))
    for k in range(count):
        at = pose_step(m, blocks, q.astype(object), v.astype(object), np.zeros(2, dtype=object), h)
        impulse, _ = solve_by_sweeps(at.problem, 20)
        end = finish_step(m, at, q.astype(object), impulse, h)
        q, v = end.q.astype(float), end.v.astype(float)
        for found in (kernel.q[k], single.q.values[k + 1], batch.q.values[k + 1, 0]):
            assert np.abs(found - q).max() < 1e-12
        for found in (kernel.v[k], single.v.values[k + 1], batch.v.values[k + 1, 0]):
            assert np.abs(found - v).max() < 1e-9
    assert batch.joint_work.values[-1, 0] == pytest.approx(float(single.joint_work[-1]), rel=1e-9)


def test_a_closed_loop_with_a_stiff_damper():
    linkage = wt.mechanisms.four_bar()
    slow = replace(linkage, joints=(replace(linkage.joints[0], damping=1e4), *linkage.joints[1:]))
    model = replace(slow, joints=tuple(replace(j, friction=0.01) for j in slow.joints))
    v = wt.compile(model).project_velocity(linkage.home.q, np.array([5.0, *np.zeros(linkage.nv - 1)]))
    found = run(model, 0.2, 0.01, q0=linkage.home.q, v0=v)
    assert found.attrs["failure"] == ""
    assert abs(found.v.values[-1, 0]) < 1e-2
    assert np.abs(found.constraint_residual.values).max() < 1e-12
    kernel = wt.compile(model).contact_rollout(linkage.home.q, v, np.zeros((20, linkage.nv)), 0.01, sweeps=30)
    assert np.abs(kernel.q[-1] - found.q.values[-1]).max() < 1e-3  # loops are closed once a step there


# --- massless ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [0.0, 50.0])
def test_springs_and_dampers_decide_a_massless_foot(damping):
    found = run(leg(2e3, damping, foot=0.0), 2.0, 2e-3, output_dt=0.1)
    assert found.attrs["failure"] == ""
    flying = found.contact_gap.values[:, 0] > 0.01
    assert found.q.values[flying, 1] == pytest.approx(np.full(flying.sum(), -0.3), abs=1e-12)  # unloaded
    if damping:
        assert found.q.values[-1].sum() == pytest.approx(0.05, abs=1e-9)  # the ball rests on the ground
        assert -found.q.values[-1, 1] == pytest.approx(0.3 - 2 * 9.81 / 2e3, abs=1e-6)  # the spring carries the hip


def test_a_massless_foot_without_either_is_refused():
    with pytest.raises(SingularSystemError, match="foot"):
        run(leg(0.0, 0.0, foot=0.0), 0.1, 1e-3)


def test_a_model_without_springs_and_dampers_is_the_same_model():
    model = wt.mechanisms.rocking_block()
    same = implicit_model(model, 1e-2)
    assert all(a is b for a, b in zip(model.joints, same.joints, strict=True))
