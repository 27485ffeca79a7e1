"""Time stepping: closed forms, hyperstatic scenes with their judgement, limits and friction of joints, batches."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.frontend.fingerprint import fingerprint
from whippletree.contact.kinematics.large_scenes import snapshot
from whippletree.contact.problem.contact_problem import solve_by_sweeps
from whippletree.contact.time_step import ContactBlocks, finish_step, pose_step, shifts
from whippletree.errors import NameLookupError, SingularSystemError, UnsupportedError
from whippletree.simulation.method import Task, find_method
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.stepping_method import TimeStepping
from whippletree.tree.mechanism import Mechanism

G = 9.81


def run(model, duration, step=1e-3, **more):
    more.setdefault("output_dt", duration / 10)
    return wt.simulate(model, duration=duration, method="time_stepping", step=step, **more)


def clean(result, residual=1e-7, overlap=1e-9, cone=1e-12):
    """What every result must hold: no failure, and its own judgement within tolerances."""
    assert result.attrs["failure"] == ""
    assert result.attrs["unconverged_steps"] == 0
    assert float(result.residual_velocity.max()) <= residual
    assert float(result.cone_violation.max()) <= cone
    assert float(result.penetration.max()) <= overlap


# --- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("angle", [0.1, math.atan(0.3) - 1e-9])
def test_a_block_below_the_friction_angle_sticks_exactly(angle):
    result = run(wt.mechanisms.sliding_block(angle=angle, friction=0.3), 0.2)
    clean(result)
    assert np.abs(result.v.values).max() == pytest.approx(0, abs=1e-15)
    assert np.abs(result.q.values).max() == pytest.approx(0, abs=1e-15)
    assert abs(float(result.energy_balance[-1])) < 1e-14


def test_a_block_above_the_friction_angle_slides_as_coulomb_says():
    angle, mu = 0.5, 0.3
    result = run(wt.mechanisms.sliding_block(angle=angle, friction=mu), 0.3)
    clean(result)
    a = G * (math.sin(angle) - mu * math.cos(angle))
    assert result.v.values[-1, 0] == pytest.approx(0.3 * a, rel=1e-12)
    normal, *tangents = result.contact_force.values[-1, 0]
    assert normal == pytest.approx(G * math.cos(angle), rel=1e-12)
    assert np.hypot(*tangents) == pytest.approx(mu * normal, rel=1e-12)


def test_a_ball_bounces_by_newtons_law_and_comes_to_rest():
    e, height = 0.5, 0.05
    zeno = math.sqrt(2 * height / G) * (1 + e) / (1 - e)
    late = []
    for step in (1e-3, 5e-4):
        model = wt.mechanisms.bouncing_ball(height=height, restitution=e)
        result = run(model, 0.5, step, output_dt=step)
        assert result.attrs["unconverged_steps"] == 0
        v, energy = result.v.values[:, 0], (result.kinetic_energy + result.potential_energy).values
        impact = int(np.argmax(v > 0))
        assert v[impact] == pytest.approx(-e * v[impact - 1], rel=1e-12)
        # a bounce moves the ball up by h v⁺ within its own step: of the smallest ones, that may be m g² h² too much
        assert np.diff(energy).max() <= float(model.bodies[0].mass) * (G * step) ** 2
        assert np.all(v[-10:] == 0)  # at rest, not nearly so
        late.append(np.flatnonzero(np.abs(v) > 0)[-1] * step - zeno)
    assert 0 < late[1] < 0.75 * late[0] < 0.1


# --- hyperstatic scenes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_boxes_stand():
    result = run(wt.mechanisms.box_stack(10), 0.05, tolerance=1e-11)
    clean(result, residual=1e-11, overlap=1e-12)
    assert np.abs(result.v.values).max() < 1e-9
    assert abs(float(result.energy_balance[-1])) < 1e-9
    ground = [k for k, name in enumerate(result.contact_force.attrs["names"]) if "ground" in name]
    weight = G * sum(float(body.mass) for body in wt.mechanisms.box_stack(10).bodies)
    assert result.contact_force.values[-1, ground, 0].sum() == pytest.approx(weight, rel=1e-9)


@pytest.mark.slow
def test_a_quadruped_stands():
    model = wt.mechanisms.quadruped()
    result = run(model, 0.1, tolerance=1e-12)
    clean(result, residual=1e-12, overlap=1e-8)
    scale = float(result.potential_energy[0])
    assert abs(float(result.energy_balance[-1])) < 1e-3 * scale
    finer = run(model, 0.1, step=2.5e-4)
    assert abs(float(finer.energy_balance[-1])) < abs(float(result.energy_balance[-1])) / 2


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("count", [12, 100])
def test_spheres_fall_into_a_box(count):
    model = wt.mechanisms.spheres_in_box(count)
    steps = 40
    result = run(model, steps * 5e-3, 5e-3, tolerance=1e-6)
    clean(result, residual=1e-6, overlap=1e-3)
    assert result.attrs["steps"] == steps
    energy = (result.kinetic_energy + result.potential_energy).values
    assert energy[-1] < energy[0]
    fallen = G * G * 5e-3 * steps * 5e-3 / 2 * sum(float(body.mass) for body in model.bodies)
    assert np.abs(result.energy_balance.values).max() < 2 * fallen  # what semi-implicit steps lose in free fall


def test_an_overlap_at_the_start_is_undone_without_kinetic_energy():
    model = wt.mechanisms.bouncing_ball(restitution=0)
    with pytest.warns(RuntimeWarning, match="at the start 'bounce' overlaps by 0.01 m"):
        result = run(model, 0.02, q0=np.array([-0.01]), v0=np.zeros(1), output_dt=1e-3)
    assert result.penetration.values[0] == pytest.approx(0.01)
    assert result.penetration.values[-1] <= 1e-12
    assert result.kinetic_energy.values.max() <= 1e-20
    lifted = float(model.bodies[0].mass) * G * 0.01
    assert float(result.correction_work[-1]) == pytest.approx(lifted, rel=1e-9)
    assert float(result.energy_balance[-1]) == pytest.approx(lifted, rel=1e-9)


def test_the_balance_closes_up_to_what_first_order_steps_leave():
    """A block dropped on an incline, sliding to its stop, with every loss told apart; the rest falls with the step."""
    angle, mu, left = 0.2, 0.4, []
    model = wt.mechanisms.sliding_block(angle=angle, friction=mu)
    for step in (2e-3, 1e-3, 5e-4):
        result = run(model, 1.0, step, q0=np.array([0.0, 0.05]), v0=np.array([1.0, 0.0]), output_dt=0.1)
        clean(result)
        energy = (result.kinetic_energy + result.potential_energy).values
        impact = result.contact_work.values - result.friction_work.values
        assert np.all(np.diff(result.friction_work.values) <= 1e-12)
        assert np.all(np.diff(impact) <= 1e-12)
        assert impact[-1] < -0.3 * float(model.bodies[0].mass)  # what the drop by 0.05 m brings
        assert np.abs(result.correction_work.values).max() < 1e-9
        closed = energy - energy[0] - result.contact_work.values
        assert closed == pytest.approx(result.energy_balance.values, abs=1e-12)
        left.append(np.abs(result.energy_balance.values).max())
        assert result.v.values[-1, 0] == 0  # it stops, and stays
    assert left[2] < 0.7 * left[1] < 0.49 * left[0]
    assert left[2] < 1e-2 * energy[0]


@pytest.mark.slow
def test_a_quadruped_with_the_shapes_of_its_file_falls_on_its_feet():
    folder = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))
    robot = wt.load(folder / "anymal_b_simple_description/robots/anymal.urdf", base="free").tree
    model = wt.on_ground(robot, friction=0.7)
    assert len(wt.contact_set(model).candidates) > 100
    q = np.array(model.neutral.q)
    q[2] = 0.55 - snapshot(model, [*q[:2], 0.55, *q[3:]]).points.gap.min() + 1e-3
    result = run(model, 0.06, 2e-3, q0=q, v0=np.zeros(model.nv), output_dt=0.02)
    clean(result)
    assert np.any(result.contact_force.values[-1, :, 0] > 0)


def test_a_massless_foot_in_the_air_is_refused_by_name_or_held():
    with pytest.raises(SingularSystemError, match="'leg' about joint 'swing'"):  # its spring decides where the foot is
        run(wt.mechanisms.hopper(), 0.1)
    held = run(wt.mechanisms.hopper(), 0.4, massless="hold")
    clean(held)
    assert held.contact_gap.values[-1] == pytest.approx(0.0, abs=1e-9)  # a stiff leg


# --- limits, joint friction, constraints ------------------------------------------------------------------------------


def hinged(friction=0.0, lower=-np.inf, upper=np.inf):
    model = wt.mechanisms.pendulum()
    joints = tuple(replace(joint, friction=friction, lower=lower, upper=upper) for joint in model.joints)
    return replace(model, joints=joints, start=None)


def test_a_pendulum_rests_against_its_limit():
    free = run(hinged(), 0.3, q0=[0.5], v0=[0.0])
    assert free.q.values[-1, 0] != pytest.approx(0.5)
    side = 0.4 if free.q.values[-1, 0] < 0.5 else 0.6
    stopped = run(hinged(**{"lower" if side < 0.5 else "upper": side}), 0.6, q0=[0.5], v0=[0.0])
    clean(stopped)
    assert stopped.q.values[-1, 0] == pytest.approx(side, abs=1e-12)
    held = float(wt.reference(hinged()).gravity(stopped.q.values[-1])[0])
    assert stopped.limit_force.values[-1, 0] == pytest.approx(held, rel=1e-9)


def test_dry_friction_holds_a_pendulum_up_to_its_largest_moment():
    weight = abs(float(wt.reference(hinged()).gravity(np.array([0.5]))[0]))
    held = run(hinged(friction=1.01 * weight), 0.1, q0=[0.5], v0=[0.0])
    assert held.q.values[-1, 0] == pytest.approx(0.5, abs=1e-14)
    assert abs(held.friction_force.values[-1, 0]) == pytest.approx(weight, rel=1e-12)
    slips = run(hinged(friction=0.5 * weight), 0.1, q0=[0.5], v0=[0.0])
    assert abs(slips.friction_force.values[-1, 0]) == pytest.approx(0.5 * weight, rel=1e-12)
    assert slips.contact_work.values[-1] < 0


@pytest.mark.slow
@pytest.mark.parametrize("rod_mass", [0.0, 0.5])
def test_a_closed_loop_meets_its_limit_with_a_massless_rod_too(rod_mass):
    linkage = wt.mechanisms.crank_slider(rod_mass=rod_mass)
    crank = linkage.joints[0]
    start = float(linkage.home.q[0])
    bounded = replace(linkage, joints=(replace(crank, upper=start + 0.1), *linkage.joints[1:]))
    v = wt.compile(bounded).project_velocity(linkage.home.q, np.array([2.0, *np.zeros(linkage.nv - 1)]))
    result = run(bounded, 0.2, q0=linkage.home.q, v0=v)
    clean(result)
    assert result.q.values[:, 0].max() <= start + 0.1 + 1e-9
    assert np.abs(result.constraint_residual.values).max() < 1e-12
    assert np.abs(result.constraint_velocity.values).max() < 1e-10
    rolled = wt.compile(bounded).contact_rollout(linkage.home.q, v, np.zeros((200, linkage.nv)), 1e-3)
    assert np.abs(rolled.q[-1] - result.q.values[-1]).max() < 5e-3  # the same to first order


# --- batches ----------------------------------------------------------------------------------------------------------


def test_the_kernel_does_what_the_reference_does():
    model = wt.mechanisms.rocking_block(tilt=0.03)
    q, v = model.home.q, np.array([0.1, -0.2, 0.3])
    tau = np.array([0.5, 0.1, -0.2])
    m, blocks, h = Mechanism.of(model), ContactBlocks(model), 2e-3
    rolled = wt.compile(model).contact_rollout(q, v, np.tile(tau, (3, 1)), h, sweeps=12)
    impulse = np.zeros((blocks.count, 3))
    for step in range(3):
        at = pose_step(m, blocks, q.astype(object), v.astype(object), tau.astype(object), h)
        impulse, measure = solve_by_sweeps(at.problem, 60, impulse)
        end = finish_step(m, at, q.astype(object), impulse, h)
        q, v = end.q.astype(float), end.v.astype(float)
        assert float(measure.velocity) < 1e-14
        assert np.abs(rolled.q[step] - q).max() < 1e-12
        assert np.abs(rolled.v[step] - v).max() < 1e-10
        assert np.abs(rolled.impulses[step] - impulse.astype(float)).max() < 1e-10
    assert rolled.measure[:, 1].max() < 1e-9


def test_a_batch_and_single_scenes_agree():
    model = wt.mechanisms.rocking_block()
    starts = np.stack([wt.mechanisms.rocking_block(tilt=tilt).home.q for tilt in (0.05, -0.02, 0.08)])
    batch = run(model, 0.1, q0=starts)
    assert batch.q.dims[:2] == ("time", "run")
    assert float(batch.residual_velocity.max()) < 1e-9
    for k, q0 in enumerate(starts):
        single = run(model, 0.1, q0=q0)
        clean(single)
        assert np.abs(batch.q.values[:, k] - single.q.values).max() < 1e-9
        assert np.abs(batch.energy_balance.values[:, k] - single.energy_balance.values).max() < 1e-9
    pushed = run(model, 0.1, q0=starts, controller=lambda t, q, v: np.zeros(3))
    assert np.abs(pushed.q.values - batch.q.values).max() < 1e-9


def test_thousands_of_scenes_in_one_call():
    model = wt.mechanisms.quadruped()
    rng = np.random.default_rng(0)
    v = 0.2 * rng.normal(size=(1000, model.nv))
    rolled = wt.compile(model, threads=1).contact_rollout(model.home.q, v, np.zeros((5, model.nv)), 1e-3, sweeps=20)
    assert rolled.q.shape == (1000, 5, model.nq)
    assert rolled.impulses.shape == (1000, 5, 4, 3)
    assert np.quantile(rolled.measure[..., 1], 0.999) < 1e-8
    assert np.all(np.isfinite(rolled.q))


def test_a_run_that_is_taken_up_again_gives_the_same_bits():
    model = wt.mechanisms.rocking_block()
    motion = Motion(wt.compile(model))
    start = np.concatenate([model.home.q, model.home.v])
    task = Task(motion, start, np.linspace(0, 0.05, 6), 1e-8, 1e-10)
    by_two_rows, at_once = TimeStepping(task), TimeStepping(task)
    by_two_rows.stepper.stride = 20
    whole = list(by_two_rows.chunks())
    assert [len(chunk.times) for chunk in whole] == [1, 2, 2, 1]
    (rest,) = at_once.chunks(whole[1].memo)  # the other rows come in one piece
    assert np.array_equal(np.concatenate([chunk.states for chunk in whole[2:]]), rest.states)
    for name, column in rest.variables.items():
        assert np.array_equal(np.concatenate([chunk.variables[name] for chunk in whole[2:]]), column)
    at_once.take_over(by_two_rows.tally() | {"gained": 0.0})
    (*_, last) = at_once.chunks()
    assert np.array_equal(last.states[-1], rest.states[-1])
    assert at_once.gained == by_two_rows.gained


def test_what_is_asked_of_normal_velocities():
    """gap / h apart, however fast; e u⁻ where this step would close the gap; nothing in overlap, or what parts."""
    gaps = np.array([1.0, 0.05, 0.05, 0.05, -0.01, -0.01])
    speeds = np.array([-2.0, -2.0, 2.0, -2.0, 2.0, -2.0])
    restitution = np.array([0.5, 0.5, 0.5, 0.0, 0.5, 0.5])
    assert shifts(gaps, speeds, restitution, 0.1).tolist() == [10.0, -1.0, 0.5, 0.5, 0.0, -1.0]


def test_a_prescribed_motion_is_met_at_the_end_of_every_step():
    builder = wt.Builder("driven").geometry("ground", "world", "half_space")
    builder.body("arm", 1.0, inertia=(0.1, 0.1, 0.1)).joint(
        "turn", "revolute", "world", "arm", axis=(0, 1, 0), position=(0, 0, 1)
    )
    builder.body("ball", 1.0, inertia=(0.1, 0.1, 0.1)).joint("slide", "prismatic", "arm", "ball", axis=(0, 0, 1))
    builder.geometry("ball", "ball", "sphere", radius=0.1).contact("touch", "ball", "ground", friction=0.5)
    builder.constraint("drive", "prescribed", "turn", motion=lambda t: 0.3 * np.sin(5 * t))
    found = run(builder.build(), 0.2, step=1e-2, output_dt=1e-2)
    np.testing.assert_allclose(found.q.values[:, 0], 0.3 * np.sin(5 * found.time.values), atol=1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_bad_options_are_refused():
    model = wt.mechanisms.bouncing_ball()
    for word, value in (("step", 0.0), ("step", math.nan), ("tolerance", -1.0), ("sweeps", 0)):
        with pytest.raises(ValueError, match=word):
            wt.simulate(model, duration=0.1, method="time_stepping", **{word: value})
    with pytest.raises(NameLookupError, match="stepp"):
        wt.simulate(model, duration=0.1, method="time_stepping", stepp=1e-3)


def test_a_rollout_that_cannot_be_says_what_to_do():
    with pytest.raises(UnsupportedError, match="use rollout"):
        wt.compile(wt.mechanisms.pendulum()).contact_rollout([0.0], [0.0], np.zeros((1, 1)), 1e-3)
    many = wt.mechanisms.spheres_in_box(20)
    with pytest.raises(UnsupportedError, match="time_stepping"):
        wt.compile(many).contact_rollout(many.home.q, many.home.v, np.zeros((1, many.nv)), 1e-3)


def test_models_that_differ_in_a_contact_only_are_compiled_apart():
    rough, smooth = (wt.mechanisms.sliding_block(friction=mu) for mu in (0.3, 0.2))
    assert fingerprint(rough) != fingerprint(smooth)
    assert fingerprint(rough) == fingerprint(wt.mechanisms.sliding_block(friction=0.3))


def test_many_contacts_are_stepped_and_few_are_located():
    assert find_method("auto", wt.mechanisms.spheres_in_box(20)) is TimeStepping
    assert find_method("auto", wt.mechanisms.bouncing_ball()) is not TimeStepping


# --- starts in which shapes overlap -----------------------------------------------------------------------------------


def puck(margin: float, depth: float, lifts: bool) -> wt.Model:
    """A box on sliders over a table, so deep in it; a third slider ``lifts`` it."""
    b = wt.Builder("puck").body("carrier", 0.1).body("puck", 1.0, inertia=(0.01, 0.01, 0.01))
    b.joint("x", "prismatic", "world", "carrier", axis=(1, 0, 0))
    b.joint("z" if lifts else "y", "prismatic", "carrier", "puck", axis=(0, 0, 1) if lifts else (0, 1, 0))
    b.geometry("table", "world", "half_space")
    b.geometry("box", "puck", "sphere", radius=0.1, position=(0, 0, 0.1 - depth))
    return b.contact("slide", "box", "table", friction=0.5, margin=margin).build()


OVERLAPPING_STARTS = [
    (
        0.0,
        0.004,
        True,
        "'slide' overlaps by 0.004 m. Time stepping moves what overlaps apart at 1 m/s or rad/s, and along with it "
        "what is coupled to it; that is no motion, and changes the potential energy (energy_balance). Start from a "
        "state that does not overlap, or leave pairs whose shapes do out: wt.without_overlaps(model, q0)",
    ),
    (
        0.0,
        0.004,
        False,
        "'slide' overlaps by 0.004 m. No motion of the model moves these shapes apart, so they stay as they are, and "
        "do not press. Start from a state that does not overlap, or leave pairs whose shapes do out: "
        "wt.without_overlaps(model, q0)",
    ),
    (
        0.004,
        0.0,
        False,
        "'slide' is nearer than its margin of 0.004 m by 0.004 m. No motion of the model moves these shapes apart, so "
        "they stay as they are, and do not press. Start from a state that does not overlap, or leave pairs whose "
        "shapes do out: wt.without_overlaps(model, q0)",
    ),
]


@pytest.mark.parametrize(("margin", "depth", "lifts", "text"), OVERLAPPING_STARTS)
def test_overlapping_starts_are_told_with_pairs_depth_speed_and_cure(margin, depth, lifts, text):
    model = puck(margin, depth, lifts)
    with pytest.warns(RuntimeWarning) as told:
        run = wt.simulate(model, duration=0.01, method="time_stepping", step=1e-3)
    assert str(told[0].message) == f"simulate: at the start {text}"
    assert run.penetration.values[-1] == pytest.approx(0.0 if lifts else 0.004, abs=1e-9)
    assert len(wt.without_overlaps(model).contacts) == (0 if depth else 1)


def test_a_controller_in_python_is_asked_once_before_every_step():
    """Its steps are those of the same law in machine code."""
    model, asked = wt.mechanisms.planar_biped(), []

    def law(t, q, v):
        return -5.0 * (q - model.home.q) - 0.5 * v

    def in_python(t, q, v):
        asked.append(float(t))  # a symbol is no number: this cannot be traced
        return law(t, q, v)

    runs = [
        wt.simulate(model, duration=0.1, step=1e-3, output_dt=0.05, method="time_stepping", controller=controller)
        for controller in (law, in_python)
    ]
    np.testing.assert_allclose(runs[1].q.values, runs[0].q.values, atol=1e-12)
    np.testing.assert_allclose(runs[1].energy_balance.values, runs[0].energy_balance.values, atol=1e-12)
    begun = [round(t / 1e-3) for t in asked]
    inside = [k for k in begun if k % 50]  # at the rows of output it is asked for what they tell, too
    assert inside == [k for k in range(100) if k % 50]
