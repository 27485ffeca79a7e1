"""Limits of tendons as rows of a step: strings and couplings in closed form, beside MuJoCo, and by every path alike."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.problem.contact_problem import solve_by_sweeps
from whippletree.contact.time_step import ContactBlocks, finish_step, pose_step
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_kernel import StepPlan, kernel_steps
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep
from whippletree.tree.mechanism import Mechanism

TOLERANCE, H, G = 1e-9, 2e-3, 9.81


def string(length: float = 0.5) -> wt.Model:
    """A mass that moves in a vertical plane, on a string from the origin."""
    b = wt.Builder("string").body("carrier").body("mass", 2.0)
    b.joint("x", "prismatic", "world", "carrier", axis=(1, 0, 0))
    b.joint("z", "prismatic", "carrier", "mass", axis=(0, 0, 1))
    return b.tendon("string", "world", "mass", limits=(-np.inf, length)).build()


def two_sliders(lower: float, upper: float, floor: bool = False) -> wt.Model:
    """Masses of 1 and 3 kg that fall side by side, 2 q₁ − q₂ within a range."""
    b = wt.Builder("coupled")
    for name, mass, x in (("a", 1.0, 0.0), ("b", 3.0, 1.0)):
        b.body(name, mass, inertia=(0.1,) * 3)
        b.joint(name, "prismatic", "world", name, axis=(0, 0, 1), position=(x, 0, 0), start=0.05)
        b.geometry(f"ball {name}", name, "sphere", radius=0.05)
    b.tendon("coupling", joints={"a": 2.0, "b": -1.0}, limits=(lower, upper))
    return wt.on_ground(b.build(), geometries=["ball a", "ball b"], friction=0.5) if floor else b.build()


WRAPPED = """<mujoco><option timestep="0.002"/><worldbody><site name="nail" pos="0 0 1.2"/>
    <geom name="drum" type="cylinder" size=".1 .3" pos=".05 0 .9" euler="90 0 0" contype="0" conaffinity="0"/>
    <site name="edge" pos=".2 0 .95"/>
    <body name="arm" pos="0 .3 .6"><joint name="swing" axis="0 1 0" damping=".2"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1" contype="0" conaffinity="0"/>
      <body name="hand" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".2" limited="true" range="-60 60"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5" contype="0" conaffinity="0"/>
        <site name="tip" pos=".2 0 0"/></body></body>
  </worldbody><tendon>
    <spatial name="rope" limited="true" range="0 .86" margin=".01"><site site="nail"/>
      <geom geom="drum" sidesite="edge"/><site site="tip"/></spatial>
    <fixed name="pair" limited="true" range="-.3 .2"><joint joint="swing" coef=".3"/><joint joint="elbow" coef="1"/>
    </fixed>
  </tendon></mujoco>"""


def wrapped(tmp_path) -> wt.Model:
    (tmp_path / "wrapped.xml").write_text(WRAPPED)
    return wt.load(tmp_path / "wrapped.xml")


# --- closed forms -----------------------------------------------------------------------------------------------------


def test_a_mass_hangs_on_its_string():
    """It falls freely, is stopped at the length of the string, and hangs there by its weight."""
    model = string()
    run = wt.simulate(model, [0.0, -0.2], [0.0, 0.0], duration=1.0, step=1e-3, progress=False)
    assert run.attrs["method"] == "time_stepping"
    fall = np.sqrt(2 * 0.3 / G)
    before = run.time.values < fall - 1e-3
    np.testing.assert_allclose(
        run.q.values[before, 1], -0.2 - G * run.time.values[before] ** 2 / 2, atol=G * 1e-3 * fall
    )
    assert run.q.values[-1] == pytest.approx([0.0, -0.5], abs=1e-12)
    assert run.tendon_limit_force.values[-1] == pytest.approx([-2.0 * G], rel=1e-9)
    assert float(run.limit_overshoot.max()) < 1e-9


def test_a_pendulum_on_a_string_has_the_tension_of_its_rod():
    """From 1 rad, with the string taut throughout: T = m g (3 cos φ − 2 cos 1), first order in the step."""
    errors = []
    for h in (2e-3, 1e-3, 5e-4):
        start = 0.5 * np.array([np.sin(1.0), -np.cos(1.0)])
        run = wt.simulate(string(), start, np.zeros(2), duration=0.8, step=h, progress=False)
        across, down = run.q.values.T
        np.testing.assert_allclose(np.hypot(across, down), 0.5, rtol=0, atol=1e-9)
        tension = 2.0 * G * (3 * -down / 0.5 - 2 * np.cos(1.0))
        errors.append(float(np.abs(-run.tendon_limit_force.values[5:, 0] - tension[5:]).max()))
    assert errors[0] < 0.4
    assert errors[2] < 0.6 * errors[1] < 0.4 * errors[0]


def test_a_coupling_shares_the_weight():
    """Sliders that hang in 2 q₁ − q₂ ≤ c while the first is pulled: the multiplier of one row, by hand.

    With forces (p − g, −3 g) on masses (1, 3) and the row J = (2, −1): λ = max(0, J M⁻¹ f / (J M⁻¹ Jᵀ)).
    """
    model, push = two_sliders(-np.inf, 0.05), 40.0
    h, f, J, W = 1e-3, np.array([push - G, -3 * G]), np.array([2.0, -1.0]), np.diag([1.0, 1 / 3])
    force = -(J @ W @ f) / (J @ W @ J)
    made = wt.compile(model).step(np.array([0.05, 0.05]), np.zeros(2), None, h, tau=np.array([push, 0.0]))
    np.testing.assert_allclose(made.v, h * (W @ (f + force * J)), rtol=0, atol=1e-8)
    assert made.impulses[0, 0] == pytest.approx(-force * h, rel=1e-6)


# --- every path -------------------------------------------------------------------------------------------------------


def _models(tmp_path) -> dict[str, wt.Model]:
    return {
        "wrapped": wrapped(tmp_path),
        "coupled": two_sliders(-0.02, 0.06, floor=True),
        "string": string(0.05),
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", ["coupled", "string", "wrapped"])
def test_kernel_python_and_reference_agree(case, tmp_path):
    model = _models(tmp_path)[case]
    stepper, rng = ImpulseStep(Motion(wt.compile(model)), TOLERANCE), np.random.default_rng(3)
    assert stepper.kernel
    taut = 0
    for seed in range(6):
        q = np.asarray(model.home.q) + 0.08 * rng.normal(size=model.nq)
        y, start = np.concatenate([q, 3 * rng.normal(size=model.nv)]), np.zeros((stepper.blocks.count, 3))
        tau = np.ones(model.nv)
        made, step = kernel_steps(stepper, y, start, StepPlan(np.full(1, H), tau)), stepper.step(0.0, y, start, tau, H)
        assert made.number == 1, seed
        np.testing.assert_allclose(made.states[0], step.state, rtol=0, atol=1e3 * TOLERANCE)
        m, blocks = Mechanism.of(model), ContactBlocks(model)
        at = pose_step(m, blocks, y[: model.nq], y[model.nq :], tau, H)
        impulse, _ = solve_by_sweeps(at.problem, 400)
        end = finish_step(m, at, y[: model.nq], impulse, H)
        np.testing.assert_allclose(made.states[0, model.nq :], end.v.astype(float), rtol=0, atol=1e-6)
        taut += int((step.impulses[blocks.first_tendon : blocks.closing, 0] > 0).sum())
    assert taut >= 2


@pytest.mark.slow
def test_batches_go_the_way_of_single_scenes(tmp_path):
    """Roll-outs take the short kernel where no tendon is at its end, and the whole one elsewhere."""
    model = wrapped(tmp_path)
    dyn, T = wt.compile(model), 150
    q0 = np.array([[0.0, 0.0], [0.02, -0.05], [-0.2, 0.2]])
    made = dyn.contact_rollout(q0, np.zeros((3, 2)), np.zeros((T, 2)), H, sweeps=40)
    for k in range(3):
        run = wt.simulate(model, q0[k], np.zeros(2), duration=T * H, step=H, progress=False)
        np.testing.assert_allclose(made.q[k, -1], run.q.values[-1], rtol=0, atol=1e-6)
    blocks = ContactBlocks(model)
    assert (made.impulses[:, :, blocks.first_tendon : blocks.closing, 0] > 0).any(axis=(1, 2)).all()


# --- beside MuJoCo ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_mujoco_comes_to_our_rest_as_its_limits_stiffen(tmp_path):
    """A wrapped rope, held at its margin, and a fixed tendon carry an arm; MuJoCo begins at our rest and leaves it."""
    model = wrapped(tmp_path)
    run = wt.simulate(model, duration=6.0, progress=False)
    rest = run.q.values[-1]
    assert np.abs(run.v.values[-1]).max() < 1e-6
    assert np.all(np.abs(run.tendon_limit_force.values[-1]) > 0.5)
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "wrapped.xml"))
    data, ways = mujoco.MjData(peer), []
    peer.opt.timestep = 1e-4
    for time in (8e-3, 4e-3, 2e-3):
        peer.tendon_solref_lim[:] = time, 1.0
        mujoco.mj_resetData(peer, data)
        data.qpos[:] = rest
        for _ in range(5000):
            mujoco.mj_step(peer, data)
        ways.append(float(np.abs(data.qpos - rest).max()))
    assert ways[2] < 0.6 * ways[1] < 0.4 * ways[0] < 0.01
    # the rope pulls, the other one pushes
    assert run.tendon_limit_force.values[-1] == pytest.approx([-1, 1] * data.efc_force, rel=0.02)


# --- told, kept, left out ---------------------------------------------------------------------------------------------


def test_other_methods_say_that_they_do_not_keep_limits_of_tendons():
    model = string()
    with pytest.raises(wt.UnsupportedError, match="limits of tendon 'string', which are not located as events"):
        wt.simulate(model, duration=0.1, method="events")
    with pytest.warns(RuntimeWarning, match="'adaptive' leaves out the limits of tendon 'string'"):
        wt.simulate(model, [0.0, -0.1], [0.0, 0.0], duration=0.1, method="adaptive", progress=False)


def test_a_start_beyond_the_range_is_told_and_brought_back():
    with pytest.warns(RuntimeWarning, match="'limit of tendon string' overlaps by 0.1 m or rad"):
        run = wt.simulate(string(), [0.0, -0.6], [0.0, 0.0], duration=0.5, step=1e-3, progress=False)
    assert run.q.values[-1, 1] == pytest.approx(-0.5, abs=1e-9)


def test_files_keep_limits_of_tendons(tmp_path):
    model = wrapped(tmp_path)
    assert model.tendon("rope").limits == pytest.approx((0.01, 0.85))
    assert model.tendon("pair").limits == (-0.3, 0.2)
    wt.save(model, tmp_path / "saved.toml")
    again = wt.load(tmp_path / "saved.toml")
    assert again.tendon("rope").limits == model.tendon("rope").limits
    assert not wt.load(tmp_path / "wrapped.xml", limits=False).tendon("rope").is_limited
    with pytest.raises(wt.ModelError, match="tendon 'string': limits \\[2, 1\\] are empty"):
        wt.Builder("x").body("a").tendon("string", "world", "a", limits=(2, 1)).build()
