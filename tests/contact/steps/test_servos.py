"""Servos within a time step: closed forms, stiff gains on a rigid floor, force ranges, tendons; every path alike."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.problem.contact_problem import solve_by_sweeps
from whippletree.contact.time_step import ContactBlocks, elimination_parents, finish_step, pose_step
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_kernel import StepPlan, kernel_steps
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep
from whippletree.tree.mechanism import Mechanism

TOLERANCE, H = 1e-9, 2e-3


def legs(*actuators: dict, effort: float = np.inf) -> wt.Model:
    """A planar trunk on two legs of two links, whose feet touch a floor."""
    b = wt.Builder("legs").body("trunk", 8.0, inertia=(0.2, 0.2, 0.2))
    b.joint("fall", "prismatic", "world", "carrier", axis=(0, 0, 1), start=0.7943)
    b.body("carrier", 0.5, inertia=(0.01, 0.01, 0.01))
    b.joint("pitch", "revolute", "carrier", "trunk", axis=(0, 1, 0))
    for side, x in (("left", -0.2), ("right", 0.2)):
        b.body(f"{side} thigh", 1.0, center=(0, 0, -0.2), inertia=(0.02, 0.02, 0.002))
        b.joint(f"{side} hip", "revolute", "trunk", f"{side} thigh", axis=(0, 1, 0), position=(x, 0, 0),
                lower=-2.0, upper=2.0, damping=0.1, effort_limit=effort, start=0.3)  # fmt: skip
        b.body(f"{side} shank", 0.7, center=(0, 0, -0.2), inertia=(0.015, 0.015, 0.001))
        b.joint(f"{side} knee", "revolute", f"{side} thigh", f"{side} shank", axis=(0, 1, 0), position=(0, 0, -0.4),
                start=-0.6, friction=0.05)  # fmt: skip
        b.geometry(f"{side} foot", f"{side} shank", "sphere", radius=0.03, position=(0, 0, -0.4))
    for given in map(dict, actuators):
        b.actuator(given.pop("name"), *given.pop("joints", ()), **given)
    return wt.on_ground(b.build(), geometries=["left foot", "right foot"], friction=0.8)


def position(name: str, joints, k: float, d: float, gear=1.0, **more) -> dict:
    gears = np.atleast_1d(np.asarray(gear, float))
    joints = (joints,) if isinstance(joints, str) else tuple(joints)
    return {"name": name, "joints": joints, "gear": gears, "gain": (k, 0, 0), "bias": (0, -k, -d), **more}


def four(k: float, d: float, **more) -> list[dict]:
    return [position(f"{s} {j}", f"{s} {j}", k, d, **more) for s in ("left", "right") for j in ("hip", "knee")]


STAND = np.array([0.3, -0.6, 0.3, -0.6])

CASES = {
    "joint servos": (four(300.0, 4.0), STAND),
    "stiff": (four(1e5, 200.0), STAND),
    "bounded": (four(400.0, 5.0, force_range=(-12.0, 9.0)), STAND),
    "stiff and bounded": (four(1e5, 200.0, force_range=(-20.0, 20.0)), STAND),
    "tendon": ([position("differential", ("left hip", "right knee"), 1e4, 50.0, (1.0, -0.7)), *four(50.0, 1.0)[1:3]],
               np.array([0.2, -0.6, 0.3])),
    "bounded tendon": ([position("differential", ("left knee", "right hip"), 1e4, 50.0, (0.5, -2.0),
                                 force_range=(-15.0, 15.0))], np.array([0.2])),
    "frame": ([{"name": "thruster", "frame": "trunk", "gear": (0, 0.3, 0, 0.1, 0, 1.0), "gain": (40.0, 0, 0),
                "bias": (0, 0, -40.0)}, *four(80.0, 2.0)], np.array([0.1, *STAND])),
    "bounded frame": ([{"name": "thruster", "frame": "left shank", "gear": (0, 0.3, 0, 0.1, 0, 1.0),
                        "gain": (400.0, 0, 0), "bias": (5.0, 0, -400.0), "force_range": (-3.0, 7.0)}], np.array([0.1])),
    "motors and servos": ([position("hip", "left hip", 200.0, 2.0), {"name": "m", "joints": ("right hip",),
                           "force_range": (-3.0, 3.0)}], np.array([0.3, 50.0])),
}  # fmt: skip


def stepper_of(model: wt.Model) -> ImpulseStep:
    return ImpulseStep(Motion(wt.compile(model)), TOLERANCE)


def scattered(model: wt.Model, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    q = np.asarray(model.home.q) + 0.05 * rng.normal(size=model.nq)
    q[0] = 0.75 + 0.02 * seed
    return np.concatenate([q, rng.normal(size=model.nv)])


# --- closed forms -----------------------------------------------------------------------------------------------------


def slider(**servo) -> wt.Model:
    b = wt.Builder("slider", gravity=(0, 0, 0)).body("mass", 2.0, inertia=(0.02,) * 3)
    b.joint("z", "prismatic", "world", "mass", axis=(0, 0, 1))
    b.geometry("ball", "mass", "sphere", radius=0.01)
    given = position("servo", "z", **servo)
    b.actuator(given.pop("name"), *given.pop("joints"), **given)
    return wt.on_ground(b.build(), geometries=["ball"], height=-10.0)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "d"), [(10.0, 1.0), (1e5, 200.0), (0.0, 1e6), (1e9, 0.0)])
@pytest.mark.parametrize("bounded", [False, True])
def test_a_servo_is_backward_euler(k, d, bounded):
    """m v⁺ = m v + h f with f = k (u − g l − h g v⁺) − d g v⁺, at a gear g; a range that is never reached is none."""
    gear, u, q, v = 1.5, 0.4, 0.1, -0.3
    more = {"force_range": (-1e12, 1e12)} if bounded else {}
    model = slider(k=k, d=d, gear=gear, **more)
    found = wt.compile(model).step([q], [v], [u], H)
    stiff = (d + H * k) * gear * gear
    expected = (2.0 * v + H * gear * k * (u - gear * q)) / (2.0 + H * stiff)
    # the residual that is tolerated is a velocity of the row, which the range's row has in place of the motion
    assert found.v == pytest.approx([expected], rel=1e-9, abs=1e-7)
    assert found.tau == pytest.approx([2.0 * (expected - v) / H], rel=1e-6, abs=1e-4)


def test_a_range_holds_the_force_at_the_end_of_the_step():
    """Saturated, a servo pushes with the end of its range, and with less once its velocity asks for less."""
    dyn = wt.compile(slider(k=1e4, d=250.0, force_range=(-5.0, 3.0)))
    assert dyn.step([0.0], [0.0], [1.0], H).tau == pytest.approx([3.0], abs=1e-6)
    assert dyn.step([0.0], [0.0], [-1.0], H).tau == pytest.approx([-5.0], abs=1e-6)
    q, v, near = np.zeros(1), np.zeros(1), 1e-3
    for _ in range(400):
        q, v, *_ = dyn.step(q, v, [near], H)
    assert q == pytest.approx([near], abs=1e-9)


# --- every path -------------------------------------------------------------------------------------------------------


SEVERAL_SOLUTIONS = {("stiff", 1)}
"""Coulomb's law allows more than one motion there; that of the kernel has to be one of the others' solutions, too."""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_kernel_python_and_reference_agree(case, seed):
    actuators, ctrl = CASES[case]
    model = legs(*actuators)
    stepper, y = stepper_of(model), scattered(model, seed)
    start, tau = np.zeros((stepper.blocks.count, 3)), 0.1 * np.ones(model.nv)
    made = kernel_steps(stepper, y, start, StepPlan(np.full(1, H), tau, ctrl[None]))
    assert made.number == 1
    if (case, seed) in SEVERAL_SOLUTIONS:
        start = made.impulses[0]
    step = stepper.step(0.0, y, start, tau, H, ctrl)
    assert step.solution.converged
    np.testing.assert_allclose(made.states[0], step.state, rtol=0, atol=1e3 * TOLERANCE)
    works = (step.contact_work, step.friction_work, step.joint_work, step.correction_work)
    mine = (made.contact_work, made.friction_work, made.joint_work, made.correction_work)
    np.testing.assert_allclose([x[0] for x in mine], works, rtol=0, atol=1e4 * TOLERANCE)
    # the same step by the generic code, on plain numbers, with as many sweeps as it takes
    m, blocks, (q, v) = Mechanism.of(model), ContactBlocks(model, servos=True), np.split(y, [model.nq])
    at = pose_step(m, blocks, q.astype(object), v.astype(object), tau.astype(object), H, ctrl=ctrl.astype(object))
    impulse, measure = solve_by_sweeps(at.problem, 400, step.impulses.astype(object))
    assert float(measure.velocity) < 10 * TOLERANCE
    end = finish_step(m, at, q.astype(object), impulse, H, blocks)
    np.testing.assert_allclose(end.v.astype(float), step.state[model.nq :], rtol=0, atol=1e3 * TOLERANCE)


def test_servos_enter_and_leave_their_ranges_in_the_kernel_as_in_python():
    """Commands jump, so that servos saturate on both sides and come back: which of them are rows changes on the way."""
    actuators, stand = CASES["bounded"]
    model = legs(*actuators)
    stepper, y = stepper_of(model), scattered(model, 2)
    commands = np.array([stand + 0.05 * np.sign(np.sin(0.4 * k)) * np.array([1, -1, -1, 1]) for k in range(40)])
    tau, impulses, seen = np.zeros(model.nv), np.zeros((stepper.blocks.count, 3)), set()
    made = kernel_steps(stepper, y, impulses, StepPlan(np.full(len(commands), H), tau, commands))
    assert made.number == len(commands)
    for k, ctrl in enumerate(commands):
        step = stepper.step(0.0, y, impulses, tau, H, ctrl)
        np.testing.assert_allclose(made.states[k][model.nq :], step.state[model.nq :], rtol=0, atol=1e4 * TOLERANCE)
        y, impulses = made.states[k], made.impulses[k]
        np.testing.assert_allclose(impulses, step.impulses, rtol=0, atol=1e4 * TOLERANCE)
        ends = np.isclose(np.abs(impulses[stepper.blocks.passive :, 1]), H * 10.5, rtol=1e-9)
        seen.add(tuple(ends))
    assert len(seen) > 3


def test_a_servo_within_its_range_costs_no_sweeps():
    """It is solved with the inertia: the only sweep is the one that finds nothing to do."""
    wide = stepper_of(slider(k=300.0, d=4.0, force_range=(-1e3, 1e3)))
    start = np.zeros((wide.blocks.count, 3))
    within, beyond = (
        kernel_steps(wide, np.zeros(2), start, StepPlan(np.full(1, H), np.zeros(1), np.array([[u]]))) for u in (1, 9)
    )
    assert within.sweeps[0] <= 1 < beyond.sweeps[0]
    assert within.impulses[0, -1, 1] == pytest.approx(H * wt.compile(wide.model).step([0], [0], [1.0], H).tau[0])
    assert beyond.impulses[0, -1, 1] == pytest.approx(H * 1e3)


@pytest.mark.parametrize("case", ["tendon", "frame"])
def test_what_servos_tie_together_is_eliminated_together(case):
    """M + h Gᵀ K G, dense, against the factor along the elimination tree."""
    actuators, ctrl = CASES[case]
    model = legs(*actuators)
    m, blocks, y = Mechanism.of(model), ContactBlocks(model, servos=True), scattered(model, 1)
    q, v = (part.astype(object) for part in np.split(y, [model.nq]))
    assert (elimination_parents(m.tree, blocks.actuators) != m.tree.velocity_parents) == (case == "tendon")
    at = pose_step(m, blocks, q, v, np.zeros(model.nv), H, ctrl=ctrl.astype(object))
    M = wt.compile(model).mass_matrix(y[: model.nq])
    D = np.diag([j.damping for j in model.joints]) + np.diag(blocks.actuators.damping(H).astype(float))
    rows = blocks.actuators.rows(m, q, blocks.actuators.coupling).astype(float)
    K = np.diag([servo.gain(H) for servo in blocks.actuators.coupling])
    J = blocks.rows(m, q)[1].astype(float).reshape(-1, model.nv)
    G = J @ np.linalg.solve(M + H * D + H * rows.T @ K @ rows, J.T)
    np.testing.assert_allclose(at.problem.matrix.astype(float), G, atol=1e-10 * np.abs(G).max())


# --- behaviour --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("step", [2e-3, 1e-2])
def test_stiff_gains_on_a_rigid_floor_settle(step, bounded):
    more = {"force_range": (-200.0, 200.0)} if bounded else {}
    run = wt.simulate(legs(*four(1e5, 200.0, **more)), duration=2.0, ctrl=STAND, method="time_stepping", step=step)
    assert run.attrs["unconverged_steps"] == 0
    assert float(abs(run.v[-1]).max()) < 1e-6
    assert float(run.penetration.max()) < 1e-8
    weight = (8 + 0.5 + 2 * 1.7) * 9.81
    assert float(run.contact_force[-1, :, 0].sum()) == pytest.approx(weight, rel=1e-6)
    np.testing.assert_allclose(run.q.values[-1, 2:], STAND, atol=2e-3)  # as far as the load bends the servos


def test_effort_limits_of_joints_bound_their_servos():
    model = legs(*four(1e4, 50.0), effort=10.0)
    assert [name for name in stepper_of(model).blocks.names if "servo" in name] == ["servo left hip", "servo right hip"]
    step = wt.compile(model).step(model.home.q, model.home.v, STAND + 1.0, H)
    hips = [model.slice(f"{side} hip").start for side in ("left", "right")]
    np.testing.assert_allclose(step.tau[hips], 10.0, atol=1e-6)


def test_the_energy_of_servos_is_accounted_for():
    """Energy less work falls with the step: what is left is of first order."""
    left = []
    for step in (4e-3, 1e-3):
        run = wt.simulate(legs(*CASES["bounded"][0]), duration=0.3, ctrl=STAND, method="time_stepping", step=step)
        left.append(float(abs(run.energy_balance[-1])))
    assert left[1] < left[0] / 2


def test_the_work_on_a_free_body_that_turns_is_that_of_one_set_of_axes():
    """A thruster on a body that spins: the kernel's work is that of the step in Python, whose axes are the start's."""
    b = wt.Builder("drone").body("drone", 2.0, inertia=(0.02, 0.03, 0.04)).joint("fly", "free", "world", "drone")
    b.geometry("ball", "drone", "sphere", radius=0.1).actuator("thrust", frame="drone", gear=(0.2, 0, 0, 3.0, 1.0, 5.0))
    model = wt.on_ground(b.build(), geometries=["ball"], height=-5.0)
    stepper = stepper_of(model)
    y = np.concatenate([np.asarray(model.home.q, dtype=float), [8.0, -5.0, 3.0, 4.0, -2.0, 1.0]])
    start, tau, ctrl = np.zeros((stepper.blocks.count, 3)), np.zeros(model.nv), np.array([2.0])
    made = kernel_steps(stepper, y, start, StepPlan(np.full(1, H), tau, ctrl[None]))
    step = stepper.step(0.0, y, start, tau, H, ctrl)
    np.testing.assert_allclose(made.states[0], step.state, atol=1e-12)
    assert made.joint_work[0] == pytest.approx(step.joint_work, rel=1e-12)


@pytest.mark.slow
def test_commands_over_time_and_of_the_state():
    """A table, a function, and the same function inside the kernel."""
    model = legs(*four(300.0, 5.0, force_range=(-40.0, 40.0)))
    settings = {"duration": 0.2, "output_dt": 0.02, "method": "time_stepping", "step": 1e-3}

    def sway(t, q, v):
        return STAND + 0.1 * np.sin(20.0 * t) - 0.01 * v[2:6]

    table = wt.simulate(model, ctrl=np.repeat([STAND, 0.9 * STAND], 5, axis=0), **settings)
    again = wt.simulate(model, ctrl=lambda t, q, v: STAND if t < 0.1 - 1e-9 else 0.9 * STAND, **settings)
    np.testing.assert_allclose(table.q.values, again.q.values, atol=1e-9)
    asked = wt.simulate(model, ctrl=sway, **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whippletree.simulation.time_stepping.stepping_method.WORTH_A_KERNEL", 0)
        compiled = wt.simulate(model, ctrl=sway, **settings)
    np.testing.assert_allclose(asked.q.values, compiled.q.values, atol=1e-6)
    np.testing.assert_allclose(asked.joint_work.values, compiled.joint_work.values, atol=1e-5)
    starts = np.tile(model.home.q, (3, 1))
    batch = wt.simulate(model, starts, ctrl=sway, **settings)
    np.testing.assert_allclose(batch.q.values[:, 1], asked.q.values, atol=1e-6)


def test_commands_in_roll_outs():
    """Unrolled batches take commands as single steps do; roll-outs without contact evaluate the servos' law."""
    model = legs(*four(300.0, 5.0, force_range=(-40.0, 40.0)))
    dyn, steps = wt.compile(model), 12
    rng = np.random.default_rng(2)
    ctrl = STAND + 0.05 * rng.normal(size=(3, steps, 4))
    q0, v0 = np.tile(model.home.q, (3, 1)), 0.2 * rng.normal(size=(3, model.nv))
    rolled = dyn.contact_rollout(q0, v0, None, H, ctrl=ctrl, sweeps=60)
    q, v, impulses = q0, v0, None
    for k in range(steps):
        q, v, _, impulses, *_ = dyn.step(q, v, ctrl[:, k], H, impulses=impulses)
    np.testing.assert_allclose(rolled.v[:, -1], v, atol=1e-4)
    np.testing.assert_allclose(rolled.q[:, -1], q, atol=1e-5)
    flying = wt.compile(dataclasses.replace(model, contacts=(), joints=tuple(_unbound(j) for j in model.joints)))
    found = flying.rollout(q0, v0, None, 1e-4, ctrl=ctrl, method="rk4")
    at, speed = q0, v0
    for k in range(steps):
        tau = flying.actuator_forces(at, speed, ctrl[:, k])
        at, speed = (x[:, 0] for x in flying.rollout(at, speed, tau[:, None], 1e-4, method="rk4"))
    np.testing.assert_allclose(found[1][:, -1], speed, atol=2e-2)  # forces held over a step
    with pytest.raises(wt.ShapeError, match=r"rollout: ctrl has shape \(3, 12, 3\), expected \(..., T, 4\)"):
        flying.rollout(q0, v0, None, H, ctrl=ctrl[..., :3])
    with pytest.raises(wt.ShapeError, match=r"contact_rollout: tau is None"):
        dyn.contact_rollout(q0, v0, None, H)
    with pytest.raises(wt.UnsupportedError, match="has no actuators: use tau"):
        wt.compile(wt.mechanisms.pendulum()).rollout([0.1], [0.0], None, H, ctrl=np.zeros((3, 1)))


def _unbound(joint):
    return dataclasses.replace(joint, lower=-np.inf, upper=np.inf, friction=0.0)
