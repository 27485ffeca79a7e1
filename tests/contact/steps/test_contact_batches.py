"""Batches of scenes in one kernel: the same bits in any company, scenes that are lost, everything that touches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import whippletree as wt
from whippletree.contact.implicit_springs import implicit_model
from whippletree.contact.time_step import ContactBlocks
from whippletree.simulation.time_stepping import impulse_batch

H = 1e-3


def rolled(model, q, v, steps=20, threads=1, **more):
    return wt.compile(model, threads=threads).contact_rollout(q, v, np.zeros((steps, model.nv)), H, **more)


def random_starts(model, count, seed=0, speed=0.3):
    rng = np.random.default_rng(seed)
    return np.tile(model.home.q, (count, 1)), speed * rng.normal(size=(count, model.nv))


# --- the same bits ----------------------------------------------------------------------------------------------------


def test_a_scene_has_the_same_bits_in_any_batch_and_on_any_number_of_threads():
    model = wt.mechanisms.quadruped()
    q, v = random_starts(model, 67)
    whole = rolled(model, q, v)
    for part in (slice(0, 1), slice(3, 8), slice(5, 67)):
        alone = rolled(model, q[part], v[part])
        assert all(np.array_equal(a, b[part]) for a, b in zip(alone, whole, strict=True))
    again = rolled(model, q, v, out=rolled(model, q, 2 * v))
    assert all(np.array_equal(a, b) for a, b in zip(again, whole, strict=True))
    shared = rolled(model, q, v, threads=2)
    assert all(np.array_equal(a, b) for a, b in zip(shared, whole, strict=True))


def test_steps_in_two_calls_are_steps_in_one():
    """The ratios κ of sliding are forgotten between calls: sweeps enough make up for that."""
    model = wt.mechanisms.rocking_block()
    q, v = random_starts(model, 3)
    whole = rolled(model, q, v, 20, sweeps=60)
    first = rolled(model, q, v, 10, sweeps=60)
    second = rolled(model, first.q[:, -1], first.v[:, -1], 10, sweeps=60, impulses=first.impulses[:, -1])
    assert np.abs(second.q - whole.q[:, 10:]).max() < 1e-12


# --- scenes that go wrong ---------------------------------------------------------------------------------------------


def test_a_scene_that_is_lost_is_nan_and_leaves_the_others_alone():
    model = wt.mechanisms.rocking_block()
    q, v = random_starts(model, 4)
    good = rolled(model, q, v)
    assert good.good_steps.tolist() == [20] * 4
    v[2, 0] = np.inf
    with pytest.warns(RuntimeWarning, match=r"1 of 4 scenes .* the first is \(2,\)"):
        found = rolled(model, q, v)
    assert found.good_steps.tolist() == [20, 20, 0, 20]
    assert all(np.isnan(part[2]).all() for part in found)  # the residual too: nothing looks as if it were solved
    others = [0, 1, 3]
    assert all(np.array_equal(a[others], b[others]) for a, b in zip(found, good, strict=True))


def test_simulate_tells_which_run_was_lost():
    model = wt.mechanisms.rocking_block()
    q, v = random_starts(model, 3)
    v[1, 2] = 5e153
    run = wt.simulate(model, q, v, duration=0.01, method="time_stepping", output_dt=0.005)
    assert np.isfinite(run.q.values[:, [0, 2]]).all()
    assert np.isnan(run.q.values[-1, 1]).all()
    assert "no longer finite" in str(run.failure.values[1])
    assert str(run.failure.values[0]) == ""


# --- what touches -----------------------------------------------------------------------------------------------------


def arm_with_stops() -> wt.Model:
    model = wt.mechanisms.double_pendulum()
    first, second = model.joints
    joints = (replace(first, lower=-0.3, upper=0.4, friction=0.2), replace(second, friction=0.1, upper=0.5))
    return replace(model, joints=joints, start=None)


def test_joint_limits_and_joint_friction_in_a_batch():
    model = arm_with_stops()
    rng = np.random.default_rng(1)
    q, v = rng.uniform(-0.2, 0.3, (5, 2)), 3 * rng.normal(size=(5, 2))
    batch = wt.simulate(model, q, v, duration=0.3, method="time_stepping", output_dt=0.1, sweeps=40)
    assert float(batch.residual_velocity.max()) < 1e-9
    assert np.all(np.abs(batch.friction_force.values) <= np.array([0.2, 0.1]) * (1 + 1e-12))
    assert np.any(batch.limit_force.values != 0)
    assert float(batch.limit_overshoot.max()) < 1e-9
    for k in range(5):
        single = wt.simulate(model, q[k], v[k], duration=0.3, method="time_stepping", output_dt=0.1, tolerance=1e-11)
        assert np.abs(batch.q.values[:, k] - single.q.values).max() < 1e-8


def test_limits_that_no_scene_reaches_are_left_out_and_the_answer_is_that_of_all_blocks():
    """The short kernel answers for scenes within their ranges, the whole one for the others."""
    model = arm_with_stops()
    rng = np.random.default_rng(2)
    q, v = rng.uniform(-0.1, 0.1, (40, 2)), np.outer(np.linspace(0, 20, 40), (1.0, -1.0))
    dyn = wt.compile(model, threads=1)
    tau = np.zeros((60, 2))
    found = dyn.contact_rollout(q, v, tau, H, sweeps=20)
    whole = dyn._contact_function(20, False, True)(q, v, np.zeros((4, 3)), tau, H)
    reached = np.asarray(whole[2])[..., :2, 0].any(axis=(1, 2))
    assert 5 < reached.sum() < 35
    for ours, theirs in zip(found, whole, strict=True):
        assert np.array_equal(ours[reached], theirs[reached])
        assert np.abs(ours - theirs).max() < 1e-12
    one = dyn.contact_rollout(q[-1], v[-1], tau, H, sweeps=20)
    again = dyn.contact_rollout(q, v, tau, H, sweeps=20, out=dyn.contact_rollout(q, -v, tau, H, sweeps=20))
    for ours, single, rewritten in zip(found, one, again, strict=True):
        assert np.array_equal(ours[-1], single)
        assert np.array_equal(ours, rewritten)


def test_open_parameters_of_a_roll_out_with_limits():
    model = arm_with_stops()
    q, v = np.array([0.1, 0.2]), np.array([4.0, -3.0])
    mass = f"bodies.{model.bodies[1].name}.mass"
    opened = wt.compile(model, threads=1, parameters=[mass])
    masses = np.array([0.5, 1.0, 2.0])
    found = opened.contact_rollout(q, v, np.zeros((50, 2)), H, masses, sweeps=20)
    for k, value in enumerate(masses):
        bodies = (model.bodies[0], replace(model.bodies[1], mass=value))
        closed = wt.compile(replace(model, bodies=bodies), threads=1)
        assert np.abs(closed.contact_rollout(q, v, np.zeros((50, 2)), H, sweeps=20).q - found.q[k]).max() < 1e-12


def test_what_couples_is_counted():
    assert ContactBlocks(wt.mechanisms.box_stack(2)).couplings == 9 * (
        4 * 8 + 4 * 8
    )  # the lower corners see the upper ones
    assert ContactBlocks(wt.mechanisms.quadruped()).couplings == 12**2
    assert ContactBlocks(arm_with_stops()).couplings == 4**2
    assert ContactBlocks(wt.mechanisms.pendulum()).couplings == 0
    assert ContactBlocks(four_bar_over_ground()).couplings == 3**2


def four_bar_over_ground() -> wt.Model:
    """A linkage whose coupler carries a ball that comes down on a table."""
    linkage = wt.mechanisms.four_bar()
    lowest = float(wt.reference(linkage).pose(linkage.bodies[1].name)(linkage.home.q)[1, 3])
    return wt.on_ground(linkage, frames=[linkage.bodies[1].name], radius=0.01, height=lowest - 0.02, friction=0.4)


def test_a_closed_loop_comes_down_on_the_ground_in_a_batch():
    model = four_bar_over_ground()
    dyn = wt.compile(model)
    speeds = np.array([-2.0, -1.0, 1.0, 2.0])
    v = np.stack([dyn.project_velocity(model.home.q, np.array([s, *np.zeros(model.nv - 1)])) for s in speeds])
    found = rolled(model, np.tile(model.home.q, (4, 1)), v, 150, sweeps=20)
    assert found.measure[..., 1].max() < 1e-9
    assert (found.impulses[..., 0] > 0).any()
    assert np.abs(dyn.constraint_residual(found.q)).max() < 1e-5  # second order in the step
    assert dyn.contact_gaps(found.q).min() > -1e-5
    velocity = np.einsum("...ij,...j->...i", dyn.constraint_jacobian(found.q[:, :-1]), found.v[:, :-1])
    assert np.abs(velocity).max() < 0.1 * np.abs(found.v).max()
    ajar = np.array(model.home.q, dtype=float)
    ajar[-1] += 1e-3
    closed = rolled(model, ajar[None], np.zeros((1, model.nv)), 3, sweeps=20).q[0, -1]
    assert np.abs(dyn.constraint_residual(closed)).max() < 1e-3 * np.abs(dyn.constraint_residual(ajar)).max()


BOX_FOOTED = """
<mujoco model="stamper"><worldbody>
  <geom name="floor" type="plane" size="1 1 1"/>
  <body name="trunk" pos="0 0 0.5"><freejoint/>
    <inertial pos="0 0 0" mass="3" diaginertia="0.05 0.05 0.05"/>
    <body name="left" pos="0 0.1 -0.2"><joint name="left hip" type="hinge" axis="0 1 0" range="-60 60"/>
      <geom name="left foot" type="box" size="0.08 0.03 0.02" pos="0 0 -0.2" mass="0.4"/></body>
    <body name="right" pos="0 -0.1 -0.2"><joint name="right hip" type="hinge" axis="0 1 0" range="-60 60"/>
      <geom name="right foot" type="box" size="0.08 0.03 0.02" pos="0 0 -0.2" mass="0.4"/></body>
  </body>
</worldbody></mujoco>
"""


@pytest.mark.slow
def test_a_robot_from_a_file_stands_on_boxes(tmp_path):
    (tmp_path / "stamper.xml").write_text(BOX_FOOTED)
    bare = wt.load(tmp_path / "stamper.xml", contacts=False)
    model = wt.with_contacts(bare, between=(["left", "right"], "world"), friction=0.9)
    assert len(wt.contact_set(model).candidates) == 16
    q, v = random_starts(model, 3, speed=0.05)
    q[:, 2] -= wt.compile(model).contact_gaps(q[0]).min()
    batch = wt.simulate(model, q, v, duration=0.05, method="time_stepping", output_dt=0.01, sweeps=200)
    assert float(batch.residual_velocity.max()) < 1e-4  # eight corners per foot: sweeps creep
    for k in range(3):
        single = wt.simulate(model, q[k], v[k], duration=0.05, method="time_stepping", output_dt=0.01)
        assert single.attrs["unconverged_steps"] == 0
        assert float(single.penetration.max()) < 1e-9
        assert np.abs(batch.q.values[:, k] - single.q.values).max() < 5e-5


# --- energy -----------------------------------------------------------------------------------------------------------


def judged_steps(model, speed, sweeps):
    """Each step of random motions that is solved: velocity before, without and with impulses, impulses, J, gaps.

    The energy is that of M + h D, the inertia that impulses meet in a step. All velocities are in the axes
    that the trunk, a free body, has at the start of the step.
    """
    dyn = wt.compile(implicit_model(model, H))
    q, v = random_starts(model, 200, speed=speed)
    found = rolled(model, q, v, 30, sweeps=sweeps)
    good = found.measure[..., 1] < 1e-10
    assert good.mean() > 0.99
    q, v = (np.concatenate([a[:, None], b[:, :-1]], axis=1)[good] for a, b in ((q, found.q), (v, found.v)))
    end, after = found.q[good], found.v[good]
    old, new = (Rotation.from_quat(x[:, 3:7], scalar_first=True) for x in (q, end))
    after[:, 3:6] = (old.inv() * new).apply(after[:, 3:6])
    free = v + H * dyn.forward_dynamics(q, v, dyn.passive_forces(q, v))
    free[:, 3:6] += H * np.cross(v[:, :3], v[:, 3:6])
    J = dyn.contact_jacobian(q).reshape(len(q), -1, 3, model.nv)
    gained = dyn.kinetic_energy(q, after) - dyn.kinetic_energy(q, free)
    return v, free, found.impulses[good], J, dyn.contact_gaps(q), gained


@pytest.mark.slow
def test_plastic_contacts_with_friction_never_add_energy():
    *_, impulses, _, _, gained = judged_steps(wt.mechanisms.quadruped(), 2.0, 60)
    assert (impulses[..., 0] > 0).mean() > 0.1
    assert gained.max() <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("e", [0.3, 0.8, 1.0])
def test_newtons_law_in_moreaus_form_adds_no_more_energy_than_stated(e):
    """Of one e and without friction: at most e / (1 + e) Y.

    Y = λ · (J v_free − J v) over the contacts that bounce, and λ · J v_free over the others; it is of the order of the
    forces' work in the step.
    """
    model = wt.mechanisms.quadruped()
    bouncy = tuple(replace(contact, friction=0.0, restitution=e) for contact in model.contacts)
    v, free, impulses, J, gaps, gained = judged_steps(replace(model, contacts=bouncy), 1.0, 60)
    before, after = (np.einsum("kci,ki->kc", J[:, :, 0], x) for x in (v, free))
    bounces = (gaps + H * before < 0) & (before < 0)
    Y = (impulses[..., 0] * np.where(bounces, after - before, after)).sum(axis=1)
    assert bounces.any()
    assert np.max(gained - e / (1 + e) * np.maximum(Y, 0)) <= 1e-9


def test_friction_lies_in_its_cone_exactly():
    model = wt.mechanisms.quadruped()
    q, v = random_starts(model, 200, speed=2.0)
    found = rolled(model, q, v, 20, sweeps=3)  # after any number of sweeps
    normal, *tangents = np.moveaxis(found.impulses, -1, 0)
    mu = wt.contact_set(model).friction.astype(float)
    assert normal.min() >= 0
    assert np.all(np.hypot(*tangents) <= mu * normal * (1 + 1e-15) + 1e-18)


# --- scenes that cannot go on -----------------------------------------------------------------------------------------


def test_a_scene_beyond_the_end_of_its_terrain_is_told_and_leaves_the_others_alone():
    builder = wt.Builder("dome").geometry(
        "dome", "world", "terrain", height=lambda x, y: np.sqrt(4 - x * x - y * y) - 2
    )
    builder.body("ball", 1.0, inertia=(0.1, 0.1, 0.1))
    builder.joint("free", "free", "world", "ball", start=(0, 0, 0.5, 1, 0, 0, 0))
    model = builder.geometry("ball", "ball", "sphere", radius=0.1).contact("foot", "ball", "dome", friction=0.5).build()
    q, v = np.tile(model.home.q, (3, 1)), np.zeros((3, 6))
    v[1, 3] = 30.0
    q[2, 0] = 10.0
    numerics = {"duration": 0.4, "method": "time_stepping", "output_dt": 0.1}
    together = wt.simulate(model, q, v, **numerics)
    alone = [wt.simulate(model, *state, **numerics) for state in zip(q, v, strict=True)]
    assert list(together.failure.values) == [run.attrs["failure"] for run in alone]
    assert "the gap of contact 'foot' is not a number there: a terrain whose height ends" in together.failure.values[1]
    assert together.q.values[:, 0] == pytest.approx(alone[0].q.values, abs=1e-12)
    assert np.isnan(together.q.values[1:, 1:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{"kind": "sphere", "radius": 0.1}, {"kind": "box", "size": (0.2, 0.2, 0.2)}])
def test_a_controller_that_fails_in_one_scene_leaves_the_others_alone(shape):
    """Balls in one kernel; boxes on each other one after the other."""
    kind, numbers = shape["kind"], {k: x for k, x in shape.items() if k != "kind"}
    builder = wt.Builder("two").geometry("ground", "world", "half_space")
    for k in range(2):
        builder.body(f"b{k}", 1.0, inertia=(0.1, 0.1, 0.1))
        builder.joint(f"j{k}", "free", "world", f"b{k}", start=(0, 0, 0.3 + 0.5 * k, 1, 0, 0, 0))
        builder.geometry(f"s{k}", f"b{k}", kind, **numbers).contact(f"c{k}", f"s{k}", "ground", friction=0.5)
    model = builder.contact("both", "s0", "s1", friction=0.3).build()
    q, v = np.tile(model.home.q, (3, 1)), np.zeros((3, 12))
    v[1, 3] = 3.0
    found = wt.simulate(
        model, q, v, duration=0.1, method="time_stepping", output_dt=0.05,
        controller=lambda t, q, v: np.full(12, np.nan) if q[0] > 0.1 else np.zeros(12),
    )  # fmt: skip
    assert found.failure.values[0] == found.failure.values[2] == ""
    assert "the controller returned nan at t = 0.0" in found.failure.values[1]
    assert np.isfinite(found.q.values[:, [0, 2]]).all()
    assert np.isnan(found.q.values[-1, 1]).all()


def test_rows_of_many_steps_are_taken_in_parts_to_the_same_states(monkeypatch):
    model = wt.mechanisms.planar_biped()
    starts = np.tile(model.home.q, (3, 1))
    starts[:, 1] += [0.0, 0.01, 0.02]

    def run():
        return wt.simulate(model, starts, duration=0.1, method="time_stepping", step=1e-3, output_dt=0.05)

    whole = run()
    monkeypatch.setattr(impulse_batch, "SCENE_STEPS_PER_CALL", 12)
    monkeypatch.setattr(impulse_batch, "PARTS_HELD", 3)
    found = run()
    assert np.array_equal(found.q.values, whole.q.values)
    assert np.array_equal(found.v.values, whole.v.values)
    for name in whole.data_vars:
        if whole[name].dtype.kind == "f":
            assert np.allclose(found[name].values, whole[name].values, rtol=1e-12, atol=1e-12, equal_nan=True), name
