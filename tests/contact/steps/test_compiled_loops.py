"""Compiled steps of models with loops, of long trees, and of pairs that only time steps have a form for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program.check import check
from whippletree.compiler.rollout.contact_lists import contact_list_suitability, contact_list_trees
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import reason_against_lists
from whippletree.contact.time_step import ContactBlocks
from whippletree.files.cache import CodeCache
from whippletree.model import Actuator
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_kernel import StepPlan, kernel_steps
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep

TOLERANCE, STEPS = 1e-10, 60


def linkage(coupler=1.0, height=0.5):
    """A four-bar whose coupler carries a ball just over a floor; the coupler may be without mass."""
    b = wt.Builder("linkage", gravity=(0, -9.81, 0))
    lengths = {"crank": 0.5, "coupler": 1.0, "rocker": 0.8}
    for name, mass in (("crank", 1.0), ("coupler", coupler), ("rocker", 0.7)):
        square = mass * lengths[name] ** 2 / 12
        b.body(name, mass, center=(lengths[name] / 2, 0, 0), inertia=(0, square, square))
    crank = np.array([0.5 * math.cos(1.0), 0.5 * math.sin(1.0)])
    way = np.array([1.0, 0.0]) - crank
    far = np.linalg.norm(way)
    along = (1 - 0.64 + far * far) / (2 * far)
    pin = crank + along * way / far + math.sqrt(1 - along**2) * np.array([-way[1], way[0]]) / far
    turn, back = math.atan2(*(pin - crank)[::-1]), math.atan2(pin[1], pin[0] - 1.0)
    b.joint("crank", "revolute", "world", "crank", start=1.0)
    b.joint("coupler", "revolute", "crank", "coupler", position=(0.5, 0, 0), start=turn - 1.0)
    b.joint("rocker", "revolute", "world", "rocker", position=(1.0, 0, 0), start=back)
    b.frame("end", "coupler", position=(1, 0, 0)).frame("tip", "rocker", position=(0.8, 0, 0))
    b.constraint("pin", "pin", "end", "tip")
    upwards = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    b.geometry("ball", "coupler", "sphere", radius=0.05, position=(0.3, -0.2, 0))
    b.geometry("floor", "world", "half_space", position=(0, height, 0), rotation=upwards)
    return b.contact("touch", "ball", "floor", friction=0.4).build()


LINKAGES = {"with mass": lambda: linkage(height=0.28923), "massless coupler": lambda: linkage(0.0, height=0.28923)}


@pytest.fixture(scope="module", params=LINKAGES)
def closed(request):
    return ImpulseStep(Motion(wt.compile(LINKAGES[request.param]())), TOLERANCE)


def falling(stepper, speed=-1.0):
    """The start state with velocities that its loop allows."""
    q = np.asarray(stepper.model.home.q, dtype=float)
    v = stepper.motion.evaluate("project_velocity", q=q, v=np.array([speed, 0.0, 0.0]), t=0.0)
    return np.concatenate([q, np.asarray(v)])


def both_steps(stepper, speed, h):
    """A step by the kernel, and by Python."""
    y, start = falling(stepper, speed), np.zeros((stepper.blocks.count, 3))
    made = kernel_steps(stepper, y, start, StepPlan(np.full(1, h), np.zeros(3)))
    return made, stepper.step(0.0, y, start, np.zeros(3), h)


@pytest.mark.slow
def test_a_step_with_a_loop_solves_the_contact_problem_of_python(closed):
    assert closed.kernel
    made, step = both_steps(closed, -1.0, 1e-3)
    assert made.impulses[0, 0, 0] > 0.01  # the ball does hit the floor
    np.testing.assert_allclose(made.impulses[0], step.impulses, rtol=0, atol=1e-8)
    # loops are closed in the metric of the start of the step here, of its end there
    np.testing.assert_allclose(made.states[0], step.state, rtol=0, atol=1e-6)
    assert made.contact_work[0] == pytest.approx(step.contact_work, abs=1e-8)


def test_a_free_step_with_a_loop_is_that_of_python_up_to_the_third_order(closed):
    apart = [
        np.abs(made.states[0] - step.state).max() for made, step in (both_steps(closed, 1.0, h) for h in (4e-3, 2e-3))
    ]
    assert apart[0] < 1e-5
    assert apart[1] < apart[0] / 6


def test_loops_stay_closed_and_velocities_keep_to_them(closed):
    y, start = falling(closed), np.zeros((closed.blocks.count, 3))
    made = kernel_steps(closed, y, start, StepPlan(np.full(200, 1e-3), np.zeros(3)))
    assert made.number == 200
    q, v = closed.motion.split(made.states)
    assert np.abs(closed.dyn.constraint_residual(q)).max() < 1e-12
    along = np.einsum("nij,nj->ni", np.asarray(closed.dyn.constraint_jacobian(q)), v)
    assert np.abs(along).max() < 1e-12
    assert np.asarray(closed.dyn.contact_gaps(q)).min() > -1e-9
    assert (made.impulses[:, 0, 0] > 0).any()


@pytest.mark.slow
def test_the_bits_of_a_linkage_do_not_depend_on_the_batch():
    closed = ImpulseStep(Motion(wt.compile(LINKAGES["with mass"]())), TOLERANCE)
    program = contact_lists_program(closed.model)
    states = np.array([falling(closed, speed) for speed in np.linspace(-2, 1, 5)])
    q, v = states[:, :3], states[:, 3:]
    given = [q, v, np.zeros((5, 1, 3)), np.zeros((5, 4, 3)), np.full((5, 4), 1e-3), TOLERANCE, np.inf]
    with np.errstate(all="ignore"):
        expected = compile_function(program, width=1, threads=1, cache=CodeCache(None)).ufunc(*given)
        wide = compile_function(program, width=4, threads=1, cache=CodeCache(None)).ufunc(*given)
    for a, b in zip(wide, expected, strict=True):
        np.testing.assert_array_equal(a, b)


# --- long trees -------------------------------------------------------------------------------------------------------


def chain(links, kinds=("revolute",)):
    """Balls on joints of several kinds, over a floor, with springs and limits."""
    b = wt.Builder("chain").geometry("floor", "world", "half_space", position=(0, 0, -0.1))
    before = "world"
    for k in range(links):
        kind, name = kinds[k % len(kinds)], f"link {k}"
        b.body(name, 0.3, center=(0.1, 0, 0), inertia=(1e-3, 2e-3, 2e-3))
        more = {"damping": 0.01, "stiffness": 0.2, "lower": -1.0, "upper": 1.0} if kind == "revolute" else {}
        more |= {"axis": (0, 1, 0)} if kind in ("revolute", "universal") else {}
        place = (0.2, 0, 0) if k else (0, 0, 0)
        b.joint(name, kind, before, name, position=place, **more)
        b.geometry(name, name, "sphere", radius=0.05, position=(0.1, 0, 0))
        b.contact(name, name, "floor", friction=0.6)
        before = name if k != 3 else "link 1"  # a branch
    return b.build()


@pytest.mark.slow
def test_loops_over_nodes_take_the_steps_that_are_written_out(monkeypatch):
    model = chain(5, ("free", "revolute", "spherical", "revolute", "prismatic"))
    count = ContactBlocks(model, alone=True).count
    rng = np.random.default_rng(3)
    v = rng.normal(size=model.nv)
    given = [np.asarray(model.home.q, dtype=float), v, np.zeros((count, 3)), 0.1 * rng.normal(size=(STEPS, model.nv))]
    given += [np.full(STEPS, 2e-3), TOLERANCE, np.inf]
    found = []
    for most in (1000, 0):
        monkeypatch.setattr(contact_list_trees, "MOST_WRITTEN_VELOCITIES", most)
        program = contact_lists_program(model)
        check(program)
        with np.errstate(all="ignore"):
            found.append(compile_function(program, width=1, threads=1, cache=CodeCache(None)).ufunc(*given))
    written, looped = found
    assert written[2][..., 0].max() > 0
    for a, b in zip(written[:7], looped[:7], strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-7)  # after many steps with impacts


@pytest.mark.slow
def test_limits_and_dry_friction_beside_loops_are_single_rows_of_long_trees_too(monkeypatch):
    """A four-bar with a stop and dry friction, written out and as loops over its nodes; places by either metric."""
    model = LINKAGES["with mass"]()
    joints = {joint.name: joint for joint in model.joints}
    joints["crank"] = replace(joints["crank"], lower=0.9, upper=1.01, friction=0.2)
    model = replace(model, joints=tuple(joints.values()))
    closed = ImpulseStep(Motion(wt.compile(model)), TOLERANCE)
    start = falling(closed, 1.0)
    count, found = closed.blocks.count, []
    given = [start[:3], start[3:], np.zeros((count, 3)), np.zeros((40, 3)), np.full(40, 1e-3), TOLERANCE, np.inf]
    for most in (1000, 0):
        monkeypatch.setattr(contact_list_trees, "MOST_WRITTEN_VELOCITIES", most)
        program = contact_lists_program(model)
        check(program)
        with np.errstate(all="ignore"):
            found.append(compile_function(program, width=1, threads=1, cache=CodeCache(None)).ufunc(*given))
    written, looped = found
    assert written[2][:, 1, 0].max() > 0  # the stop
    for a, b in zip(written[:3], looped[:3], strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-5)


def test_the_code_of_a_longer_chain_grows_by_rows_only():
    from whippletree.compiler.program import every_block

    sizes = [sum(len(x.code.nodes) for x in every_block(contact_lists_program(chain(n)).body)) for n in (41, 82)]
    assert sizes[1] < 2.2 * sizes[0]  # written out, L alone would be four times as long


def test_reasons_are_told():
    assert reason_against_lists(chain(60)) is None
    assert "velocities" in str(reason_against_lists(chain(contact_list_suitability.MOST_LISTED_VELOCITIES + 1)))
    assert reason_against_lists(wt.mechanisms.pendulum()) is None
    alone = "its tree is long, nothing can touch, and no joint has a limit"
    assert reason_against_lists(wt.mechanisms.chain(60)) == alone
    assert "no inertia" in str(reason_against_lists(wt.mechanisms.hopper()))
    b = wt.Builder("two").geometry("a", "world", "cylinder", radius=0.1, length=0.3)
    b.body("b", 1.0, inertia=(1, 1, 1)).joint("b", "free", "world", "b", start=(1, 0, 0, 1, 0, 0, 0))
    b.geometry("b", "b", "cylinder", radius=0.1, length=0.3).contact("rims", "a", "b")
    assert reason_against_lists(b.build()) is None


def test_long_trees_that_cannot_be_loops_are_written_out():
    def driven(links):
        servo = Actuator("both", ("link 0", "link 1"), gear=np.array([1, 0.5]), bias=np.array([0.0, -5, -1]))
        return replace(chain(links), actuators=(servo,))

    most = contact_list_trees.MOST_WRITTEN_WITHOUT_LOOPS
    assert reason_against_lists(driven(contact_list_trees.MOST_WRITTEN_VELOCITIES + 5)) is None
    assert "couples joints" in str(reason_against_lists(driven(most + 1)))


# --- pairs that only time steps have a form for -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_gripper_holds_a_box_in_machine_code():
    """Two fingers press on a box and lift it; nothing is left to Python."""
    b = wt.Builder("gripper").geometry("table", "world", "half_space")
    b.body("hand", 0.5, inertia=(1e-3, 1e-3, 1e-3)).joint("lift", "prismatic", "world", "hand", axis=(0, 0, 1))
    for name, y in (("left", 0.06), ("right", -0.06)):
        b.body(name, 0.1, inertia=(1e-4, 1e-4, 1e-4))
        b.joint(name, "prismatic", "hand", name, axis=(0, -np.sign(y), 0), position=(0, y, 0.06))
        b.geometry(name, name, "box", size=(0.04, 0.02, 0.08))
    b.body("box", 0.2, inertia=(1.2e-4, 1.2e-4, 1.2e-4))
    b.joint("box", "free", "world", "box", start=(0, 0, 0.03, 1, 0, 0, 0)).geometry(
        "box", "box", "box", size=(0.06,) * 3
    )
    b.contact("box on table", "box", "table", friction=0.5)
    for name in ("left", "right"):
        b.contact(f"{name} on box", name, "box", friction=0.8)
    model = b.build()
    assert reason_against_lists(model) is None
    lift = np.array([14.0, 5.0, 5.0, 0, 0, 0, 0, 0, 0])  # 0.9 kg weigh 8.8 N

    def push(t, q, v):
        return lift - np.array([20.0 * v[0], 0, 0, 0, 0, 0, 0, 0, 0])

    found = wt.simulate(model, duration=0.3, method="time_stepping", controller=push, step=1e-3, output_dt=0.1)
    assert found.attrs["unconverged_steps"] == 0
    assert found.attrs["path"] == "compiled"
    height = found.q.values[:, model.q_slices[-1]][:, 2]
    assert height[-1] > 0.04
    assert float(found["penetration"].max()) < 1e-8


HELD_TENDON = """<mujoco><option timestep="0.002"/><worldbody><body><joint name="a" axis="0 1 0"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/>
<body pos="0.3 0 0"><joint name="b" axis="0 1 0.3"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" contype="0" conaffinity="0"/>
<body pos="0.2 0 0"><joint name="c" axis="0 1 0" limited="true" range="3 90"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0.1 0 0" contype="0" conaffinity="0"/></body></body></body></worldbody>
<tendon><fixed name="t" limited="true" range="0 1"><joint joint="a" coef="0.7"/><joint joint="b" coef="-0.37"/></fixed>
</tendon><equality><tendon tendon1="t"/></equality></mujoco>"""


@pytest.mark.slow
def test_a_limit_of_a_tendon_that_a_constraint_holds_there_moves_nothing(tmp_path):
    """What the constraint leaves of the limit's row is rounding; joint c, 3° beyond its stop, has to be moved."""
    path = tmp_path / "held.xml"
    path.write_text(HELD_TENDON)
    model = wt.load(path)
    assert reason_against_lists(model) is None
    with pytest.warns(RuntimeWarning, match="'limit c' overlaps"):
        run = wt.simulate(model, duration=0.1, output_dt=0.002, progress=False)
    assert float(abs(run.q.diff("time")).max()) <= 0.05
    assert float(abs(0.7 * run.q[:, 0] - 0.37 * run.q[:, 1]).max()) <= 1e-12
    assert float(run.q[-1, 2]) >= np.deg2rad(3) - 1e-9


JAMMED_SIDE = """
<body name="lower{k}" pos="{x} 0 0.02"><joint name="lower{k}" axis="0 1 0"/>
  <geom type="box" size="0.01 0.012 0.04" pos="0 0 0.03" mass="0.1"/>
  <body name="upper{k}" pos="0 0 0.06"><joint name="upper{k}" axis="0 1 0"/>
    <geom type="box" size="0.01 0.011 0.04" pos="{inwards} 0 -0.02" mass="0.1"/></body></body>"""


def test_a_gripper_that_is_jammed_in_its_palm_keeps_its_couplings_and_rests(tmp_path):
    """Its fingers are drawn 2 cm into the palm, and no motion takes them out: normals push in vain, by far more than
    anything moves. What rounding leaves of that opened the couplings by 1e-12 rad, and kept the fingers trembling."""
    sides = [JAMMED_SIDE.format(k=k, x=x, inwards=-x / 2) for k, x in enumerate((-0.04, 0.04))]
    pairs = [("upper0", "lower0"), ("upper1", "lower1"), ("lower1", "lower0")]
    ties = [f'<joint joint1="{a}" joint2="{b}" polycoef="0 -1 0 0 0"/>' for a, b in pairs]
    palm = '<geom type="box" size="0.06 0.05 0.03"/>'
    path = tmp_path / "gripper.xml"
    path.write_text(
        f"<mujoco><worldbody>{palm}{''.join(sides)}</worldbody><equality>{''.join(ties)}</equality></mujoco>",
        encoding="utf-8",
    )
    model = wt.load(path)
    dyn, steps, blocks = wt.compile(model), 100, ContactBlocks(model, alone=True).count
    given = np.array(model.home.q, dtype=float), np.zeros(4), np.zeros((blocks, 3)), np.zeros((steps, 4))
    q, v, _, measure, *_ = dyn.contact_steps(*given, np.full(steps, 2e-3), TOLERANCE, np.inf)
    q = np.asarray(q)
    assert (measure[:, 1] <= TOLERANCE).all()
    assert np.asarray(dyn.contact_list_touches(q[-1]))[:, 0].min() < -0.02  # still inside
    angles = {joint.name: q[:, i] for i, joint in enumerate(model.joints)}
    opened = [np.abs(angles[a] + angles[b]).max() for a, b in pairs]
    assert max(opened) < 1e-15
    assert np.abs(v[-1]).max() < 1e-12
    np.testing.assert_array_equal(q[-1], q[-2])
