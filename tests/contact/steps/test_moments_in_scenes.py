"""Contacts that resist spinning and rolling in scenes of many free bodies, as the kernel of any mechanism has them."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from scene_steps import by_other_ways, compare, stepped, steps_without_loss, sticks, thrown_sticks
from whippletree.simulation.time_stepping.scene_method import SceneStepping
from whippletree.simulation.time_stepping.scene_run import ROWS
from whippletree.simulation.time_stepping.stepping_method import TimeStepping

RADIUS, MASS, INERTIA, G = 0.05, 0.3, 3e-4, 9.81


def heap(balls, *, logs=0, arms=0, seed=0, **numbers):
    """Balls and capsules that fall on each other, and arms that hang in their way, with moments of all contacts.

    No arm reaches the ground: forces and moments of what only turns about hinges would not be unique.
    """
    random = np.random.default_rng(seed)
    b = wt.Builder("heap").geometry("floor", "world", "half_space")
    touching = ["floor"]
    for k in range(arms):
        b.body(f"link{k}", 0.8, center=(0.02, 0, -0.15), inertia=(0.01, 0.012, 0.004))
        b.joint(f"hinge{k}", "revolute", "world", f"link{k}", position=(0.2 * k, 0, 0.75), axis=(0.2, 1, 0))
        b.body(f"hand{k}", 0.4, center=(0, 0.01, -0.05), inertia=(2e-3, 2e-3, 1e-3))
        b.joint(f"wrist{k}", "revolute", f"link{k}", f"hand{k}", position=(0, 0, -0.3), axis=(1, 0, 0.3))
        b.geometry(f"hand{k}", f"hand{k}", "sphere", radius=0.1, position=(0.02, 0, -0.1))
        touching.append(f"hand{k}")
    for k in range(balls + logs):
        x, y = random.uniform(-0.06, 0.06), random.uniform(-0.06, 0.06)
        inertia = (INERTIA,) * 3 if k < balls else (4e-4, 5e-4, 2e-4)
        b.body(f"piece{k}", MASS, inertia=inertia)
        b.joint(f"fly{k}", "free", "world", f"piece{k}", position=(x, y, (0.2 + 0.5 * (arms > 0)) + 0.13 * k))
        length = {} if k < balls else {"length": 0.08}
        b.geometry(f"skin{k}", f"piece{k}", "sphere" if k < balls else "capsule", radius=RADIUS, **length)
        touching.append(f"skin{k}")
    numbers = {"friction": 0.6, "torsional": 0.01, "rolling": 0.004} | numbers
    b.contact_group("all", touching, **numbers)
    return wt.without_overlaps(b.build())


def largest_moment(steps):
    """What contacts resist spinning and rolling with, at most."""
    return max(np.abs(told.warm.moments).max(initial=0.0) for told in steps)


@pytest.mark.parametrize("pieces", [{"balls": 4}, pytest.param({"balls": 2, "arms": 2}, marks=pytest.mark.slow)])
@pytest.mark.parametrize("numbers", [{}, pytest.param({"torsional": 0.0, "rolling": 0.02}, marks=pytest.mark.slow)])
def test_steps_are_those_of_any_mechanism(pieces, numbers):
    ours, _ = compare(heap(**pieces, **numbers), 120)
    assert largest_moment(ours) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_bounces_with_moments_take_the_share_that_adds_no_energy(seed):
    model = sticks(0, 3, friction=0.9, restitution=0.95, torsional=0.002, rolling=0.004)
    q, v = thrown_sticks(model, seed)
    ours, theirs = stepped(model, q, v, 40), by_other_ways(model, q, v, 40)
    assert steps_without_loss(ours)
    assert max(told.account[0, ROWS["contact_work"]] for told in ours) < 1e-11
    for row, told in enumerate(ours, start=1):
        assert np.allclose(told.v, theirs.v.values[row], atol=1e-7, rtol=0), row


@pytest.mark.slow
def test_steps_of_capsules_are_those_of_any_mechanism():
    """A capsule rolls off neither of its ends by a moment there, or by the loads of both: only the motion is unique."""
    ours, _ = compare(heap(2, logs=1, arms=1), 100, works=("contact_work", "joint_work"))
    assert largest_moment(ours) > 0


def slope_of_balls(count, shares, slope):
    """Balls beside each other on a slope, each with a contact of its own."""
    b = wt.Builder("slope", (G * np.sin(slope), 0, -G * np.cos(slope))).geometry("floor", "world", "half_space")
    for k, rho in enumerate(shares):
        b.body(f"ball{k}", MASS, inertia=(0.4 * MASS * RADIUS**2,) * 3)
        b.joint(f"fly{k}", "free", "world", f"ball{k}", position=(0, 0.2 * k, RADIUS))
        b.geometry(f"skin{k}", f"ball{k}", "sphere", radius=RADIUS)
        b.contact(f"on{k}", f"skin{k}", "floor", friction=0.8, rolling=rho, torsional=0.01)
    return b.build()


def test_balls_slow_down_by_five_sevenths_of_g_rho_over_r_and_rest_on_slopes_below_rho_over_r():
    slope, count, speed, h = 0.03, 20, 0.5, 1e-3
    shares = np.linspace(0.2, 2.0, count) * slope * RADIUS
    model = slope_of_balls(count, shares, slope)
    assert TimeStepping.form_for(model, alone=True) is SceneStepping
    options = {"method": "time_stepping", "step": h, "tolerance": 1e-10, "output_dt": 0.1}
    run = wt.simulate(model, v0=np.tile([0, speed / RADIUS, 0, speed, 0, 0], count), duration=0.4, **options)
    slowing = 5 / 7 * G * (shares / RADIUS * np.cos(slope) - np.sin(slope))
    exact = speed - slowing * run.time.values[:, None]
    assert np.abs(run.v.values.reshape(-1, count, 6)[:, :, 1] * RADIUS - exact).max() < 1e-9
    rest = wt.simulate(model, duration=0.2, **options)
    stays = shares > 1.05 * slope * RADIUS
    assert np.abs(rest.v.values[-1].reshape(count, 6)[stays]).max() < 1e-10
    moments = np.abs(rest.contact_moment.values[-1, stays, 1:]).max(axis=1)
    assert moments == pytest.approx(MASS * G * np.sin(slope) * RADIUS, rel=1e-6)


def test_spinning_balls_stop_after_their_spin_over_the_torque():
    count, spin = 15, 5.0
    model = slope_of_balls(count, [0.002] * count, 0.0)
    inertia = 0.4 * MASS * RADIUS**2
    slowing = 0.01 * MASS * G / inertia
    options = {"method": "time_stepping", "step": 1e-3, "tolerance": 1e-10}
    run = wt.simulate(model, v0=np.tile([0, 0, spin, 0, 0, 0], count), duration=0.1, output_dt=2e-3, **options)
    exact = np.maximum(spin - slowing * run.time.values, 0.0)
    found = run.v.values.reshape(-1, count, 6)[:, :, 2]
    assert np.abs(found - exact[:, None]).max() <= slowing * 1e-3
    assert np.abs(found - exact[:, None])[exact > slowing * 1e-3].max() < 1e-9


def test_groups_and_files_have_moments(tmp_path):
    """A group says what all of its contacts have; a file with many alike geoms of condim 6 becomes one."""
    group = heap(30)
    assert {(c.torsional, c.rolling) for c in group.pairs} == {(0.01, 0.004)}
    balls = "".join(
        f'<body pos="{0.2 * (k % 6)} {0.2 * (k // 6)} 0.1"><freejoint/><geom size="0.05" mass="0.3"/></body>'
        for k in range(30)
    )
    text = f"""<mujoco><default><geom condim="6" friction="0.7 0.01 0.002"/></default>
    <worldbody><geom type="plane" size="5 5 1"/>{balls}</worldbody></mujoco>"""
    (tmp_path / "balls.xml").write_text(text)
    model = wt.load(tmp_path / "balls.xml")
    (own,) = model.contact_groups
    assert (own.friction, own.torsional, own.rolling) == (0.7, 0.01, 0.002)


def test_checkpoints_and_rows_of_output_do_not_change_the_motion():
    model = heap(10)
    options = {"duration": 0.3, "method": "time_stepping", "step": 2e-3, "tolerance": 1e-9}
    rare, often = (wt.simulate(model, output_dt=dt, **options) for dt in (0.1, 0.01))
    assert rare.attrs["path"] == "compiled"
    assert np.allclose(rare.q.values[-1], often.q.values[-1], atol=1e-8)
    wrench = often.contact_wrench.values[-1]
    assert np.isfinite(wrench).all()
