"""Whole-body control: forces that cause what they say, tasks by level, limits, cones, and names of what is at fault."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.control import task, whole_body
from whippletree.control.operational_tasks import TaskMotion, rows_of
from whippletree.tree.mechanism import Mechanism

COMPILER = shutil.which("cc") or shutil.which("gcc")
EFFORT = 80.0


def biped(effort: float = EFFORT) -> wt.Model:
    model = wt.mechanisms.planar_biped()
    joints = []
    for joint in model.joints:
        words = {"stiffness": 0.0, "damping": 0.0}
        words |= {"effort_limit": effort, "lower": -2.5, "upper": 2.5} if joint.kind == "revolute" else {}
        joints.append(replace(joint, **words))
    return replace(model, joints=tuple(joints))


MODEL = biped()
MOTORS = tuple(joint.name for joint in MODEL.joints if joint.kind == "revolute")
TASKS = (task("center_of_mass", weight=10.0, stiffness=40.0), task("posture", joints=MOTORS, stiffness=40.0))


@pytest.fixture(scope="module")
def control():
    return whole_body(MODEL, TASKS, motors=MOTORS)


def state(seed: int = 0, size: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return MODEL.home.q + 0.02 * rng.normal(size=MODEL.nq), size * rng.normal(size=MODEL.nv)


def test_its_forces_cause_its_accelerations(control):
    dyn = wt.compile(MODEL)
    for seed in range(5):
        q, v = state(seed)
        found = control(q, v)
        tau = found.tau + dyn.contact_jacobian(q).T @ found.contact_forces
        assert np.abs(dyn.forward_dynamics(q, v, tau) - found.a).max() < 1e-4
        assert np.all(found.tau[: MODEL.nv - len(MOTORS)] == 0)
        assert np.abs(found.tau).max() <= EFFORT * (1 + 1e-7)
        held = dyn.contact_jacobian(q) @ (found.a + 20.0 * v) + dyn.contact_bias(q, v)
        p, r = found.contact_forces.reshape(-1, 3), held.reshape(-1, 3)
        mu = wt.contact_set(MODEL).friction
        assert np.all(np.hypot(p[:, 1], p[:, 2]) < mu * p[:, 0])
        assert np.abs(r[:, :2]).max() < 1e-6  # across the plane nothing can move
        assert found.report[1] < 1e-7
        assert not control.explain(found)


def test_it_stands_with_the_weight_on_its_feet(control):
    found = control(MODEL.home.q, np.zeros(MODEL.nv))
    weight = 9.81 * sum(body.mass for body in MODEL.bodies)
    assert found.contact_forces[::3].sum() == pytest.approx(weight, rel=0.2)


def test_a_batch_has_the_bits_of_each_state_alone(control):
    states = [state(seed, 0.3) for seed in range(9)]
    q, v = (np.stack(part) for part in zip(*states, strict=True))
    together = control(q, v)
    for k in range(9):
        alone = control(q[k], v[k])
        assert all(np.array_equal(a, b[k]) for a, b in zip(alone, together, strict=True))


def test_a_contact_that_cannot_be_held_is_named_and_nothing_is_nan(control):
    q, v = MODEL.home.q, np.zeros(MODEL.nv)
    v[1] = 2.0  # both feet fly off: holding them would take a pull
    found = control(q, v)
    assert all(np.all(np.isfinite(part)) for part in found)
    texts = [str(what) for what in control.explain(found)]
    assert any("contact 'left foot on ground' cannot be met" in text for text in texts)
    assert any("no contact carries" in text or "could only pull" in text for text in texts)
    v[:2] = 3.0, 0.0  # and here they slide faster than friction can stop at once
    found = control(q, v)
    assert any(what.kind == "cone" and "edge of its friction cone" in str(what) for what in control.explain(found))


def test_nothing_carries_in_the_air(control):
    found = control(MODEL.home.q, np.zeros(MODEL.nv), touching=np.zeros(2))
    dyn = wt.compile(MODEL)
    J = dyn.centroidal_momentum_matrix(MODEL.home.q)[3:] / sum(body.mass for body in MODEL.bodies)
    assert np.allclose(J @ found.a, (0, -9.81, 0), atol=1e-5)
    assert not found.contact_forces.any()
    assert {"task", "contact"} == {what.kind for what in control.explain(found)}


def test_motors_too_weak_for_the_weight_are_named():
    model = biped(effort=2.0)
    weak = whole_body(model, TASKS, motors=MOTORS)
    q = wt.mechanisms.planar_biped().home.q.copy()
    q[model.q_slice("left_knee")], q[model.q_slice("right_knee")] = -0.8, -0.8
    q[model.q_slice("left_hip")], q[model.q_slice("right_hip")] = 0.4, 0.4
    q[1] -= wt.compile(model).contact_gaps(q).min()
    found = weak(q, np.zeros(model.nv), targets={"center_of_mass": wt.compile(model).center_of_mass(q), "posture": q})
    assert np.all(np.isfinite(found.tau))
    assert np.abs(found.tau).max() <= 2.0 * (1 + 1e-6)
    said = weak.explain(found)
    assert any(what.kind == "effort" and "_knee" in what.name for what in said)
    assert any(what.kind == "task" and "center_of_mass" in what.name for what in said)
    fast = np.zeros(model.nv)
    fast[model.slice("left_knee")] = -60.0  # towards its stop, faster than the motor can brake
    fast[model.slice("right_hip")] = 60.0
    found = weak(q, fast, touching=np.zeros(2))
    assert all(np.all(np.isfinite(part)) for part in found)
    said = weak.explain(found)
    assert {what.name for what in said if what.kind == "stop"} >= {"left_knee", "right_hip"}
    assert any(what.kind == "effort" and what.name == "left_knee" for what in said)


def test_levels_and_stops_on_an_arm():
    arm = wt.mechanisms.chain(3)
    arm = replace(arm, joints=tuple(replace(joint, lower=-2.0, upper=0.1) for joint in arm.joints))
    tip = arm.frames[-1].name
    first = task(f"{tip}.position", stiffness=100.0)
    later = task("posture", level=1, stiffness=50.0)
    strict = whole_body(arm, [first, later], effort_cost=1e-8)
    q, v = np.array([-0.3, -0.7, -0.9]), np.array([0.2, -0.1, 0.3])
    goal = wt.compile(arm).pose(tip)([-0.4, -0.6, -0.8])
    found = strict(q, v, targets={tip + ".position": goal, "posture": [1.0, 1.0, 1.0]})
    m = Mechanism.of(arm)
    rows = rows_of(first, TaskMotion(m, q.astype(object), v.astype(object)), [], goal.astype(object))
    wanted = 100.0 * rows.missing - 20.0 * rows.rate
    assert np.abs((rows.J @ found.a + rows.bias - wanted).astype(float)[:2]).max() < 1e-4
    # the posture has what is left: along the motion that keeps the tip
    keep = np.linalg.svd(rows.J.astype(float)[:2])[2][-1]
    slack = 50.0 * (1.0 - q) - 2 * np.sqrt(50.0) * v - found.a
    assert abs(keep @ slack) < 0.05 * np.abs(slack).max()
    near = np.array([-0.3, 0.099, -0.5])
    stopped = strict(near, np.array([0.0, 1.0, 0.0]), targets={tip + ".position": goal, "posture": [1.0, 1.0, 1.0]})
    assert 1.0 + 0.05 * stopped.a[1] <= (0.1 - 0.099) / 0.05 + 1e-6  # within the horizon it does not pass its stop


def test_bad_input_is_named():
    with pytest.raises(wt.NameLookupError, match=r"trunck.*'trunk'"):
        whole_body(MODEL, [task("trunck.position")])
    with pytest.raises(wt.NameLookupError, match="left_kne"):
        whole_body(MODEL, [task("posture", joints=("left_kne",))])
    with pytest.raises(wt.NameLookupError, match="left_kne"):
        whole_body(MODEL, [task("posture")], motors=("left_kne",))
    with pytest.raises(wt.NameLookupError, match="center_of_mass"):
        whole_body(MODEL, [task("center_of_mass.w")])
    with pytest.raises(ValueError, match="two tasks have the name 'trunk'"):
        whole_body(MODEL, [task("trunk"), task("trunk")])
    for words in ({"weight": 0.0}, {"weight": np.nan}, {"stiffness": -1.0}, {"damping": np.inf}):
        with pytest.raises(ValueError, match="task 'trunk'"):
            task("trunk", **words)
    made = whole_body(MODEL, TASKS, motors=MOTORS)
    with pytest.raises(wt.NameLookupError, match="postur"):
        made.inputs(*state(), targets={"postur": MODEL.home.q})
    with pytest.raises(wt.ShapeError, match=r"posture.*shape"):
        made.inputs(*state(), targets={"posture": np.zeros(3)})
    with pytest.raises(wt.UnsupportedError, match=r"is on the body of frame 'trunk'; bodies with contacts: '"):
        whole_body(MODEL, TASKS, support={"trunk": (0.1, 0.05)})
    with pytest.raises(wt.NameLookupError, match="whole_bod"):
        _ = wt.control.whole_bod


def test_the_centre_of_pressure_stays_in_its_rectangle():
    builder = wt.Builder("block").geometry("ground", "world", "half_space")
    builder.body("foot", 2.0, inertia=(0.01, 0.01, 0.01)).body("mast", 3.0, (0, 0, 0.4), (0.2, 0.2, 0.02))
    builder.joint("base", "free", "world", "foot", start=(0, 0, 0, 1, 0, 0, 0))
    builder.joint("ankle", "revolute", "foot", "mast", axis=(0, 1, 0))
    for k, (x, y) in enumerate(((0.1, 0.05), (0.1, -0.05), (-0.1, 0.05), (-0.1, -0.05))):
        builder.geometry(f"corner {k}", "foot", "point", position=(x, y, 0))
        builder.contact(f"corner {k} on ground", f"corner {k}", "ground", friction=0.9)
    model = builder.build()
    sway = task("posture", stiffness=100.0)
    narrow = whole_body(model, [sway], support={"foot": (0.03, 0.05)})
    points = wt.compile(model).contact_points(model.home.q)
    target = model.home.q.copy()
    for angle in (0.5, -0.5):
        target[-1] = angle
        found = narrow(model.home.q, np.zeros(7), targets={"posture": target})
        normal = found.contact_forces[::3]
        center = normal @ points[:, 0] / normal.sum()
        assert abs(abs(center) - 0.03) < 1e-5  # it leans on the edge that it was given


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on this machine")
def test_a_c_loop_gets_the_same_bits(control, tmp_path: Path):
    control.export(tmp_path)
    steps = 20
    states = [state(seed, 0.3) for seed in range(steps)]
    given = control.inputs(*states[0])
    rest = np.concatenate([np.ravel(x) for x in given[2:]])
    names = control.function.inputs
    sizes = [int(np.size(x)) for x in given]
    outputs = [
        ("tau", MODEL.nv),
        ("a", MODEL.nv),
        ("contact_forces", 6),
        ("beyond", MODEL.nv),
        ("residual_out", control.layout.sizes.rows),
    ]
    declared = "".join(f"double {name}[{size}];" for name, size in zip(names[2:], sizes[2:], strict=True))
    declared += "".join(f"double {name}[{size}];" for name, size in [*outputs, ("report_out", 5)])
    reads = "".join(f"got += fread({name}, 8, {size}, in);" for name, size in zip(names[2:], sizes[2:], strict=True))
    call = ", ".join([*names, *[name for name, _ in outputs], "report_out"])
    prefix = next(path.stem for path in tmp_path.glob("*.h"))
    (tmp_path / "loop.c").write_text(
        f'#include "{prefix}.h"\n#include <stdio.h>\nint main(int n, char **w) {{ (void)n; double q[{MODEL.nq}], '
        f'v[{MODEL.nv}]; {declared} size_t got = 0; FILE *in = fopen(w[1], "rb"), *out = fopen(w[2], "wb"); {reads} '
        f"while (fread(q, 8, {MODEL.nq}, in) == {MODEL.nq} && fread(v, 8, {MODEL.nv}, in) == {MODEL.nv}) {{ "
        f"{prefix}_whole_body({call}); fwrite(tau, 8, {MODEL.nv}, out); }} fclose(out); return got == 0; }}\n"
    )
    build = [COMPILER, "-O2", "-Wall", "loop.c", *[p.name for p in tmp_path.glob("*.o")], "-o", "loop", "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True)
    flat = np.concatenate([rest, *[np.concatenate(one) for one in states]])
    (tmp_path / "in").write_bytes(flat.tobytes())
    subprocess.run(["./loop", "in", "out"], cwd=tmp_path, check=True)
    torques = np.frombuffer((tmp_path / "out").read_bytes()).reshape(steps, MODEL.nv)
    assert np.array_equal(torques, np.stack([control(*one).tau for one in states]))


def test_it_agrees_with_projected_inverse_dynamics_where_both_apply(control):
    q, v = state(3, 0.0)  # feet that move would be damped by the one and not by the other
    found = control(q, v)
    closed = wt.control.projected(MODEL, motors=MOTORS).inverse_dynamics(q, v, found.a, force=found.contact_forces)
    assert np.abs(closed.tau - found.tau).max() < 1e-5
    # with more motors than freedoms, both choose the least torques
    bars = wt.mechanisms.four_bar(lengths=(2.0, 0.7, 1.9, 1.5))
    motors = ("crank", "rocker")
    both = whole_body(bars, [task("posture", joints=("crank",), stiffness=10.0)], motors=motors)
    found = both(bars.home.q, np.zeros(3), targets={"posture": bars.home.q + 0.2})
    closed = wt.control.projected(bars, motors=motors).inverse_dynamics(bars.home.q, np.zeros(3), found.a)
    assert np.abs(closed.tau - found.tau).max() < 1e-6
    assert np.abs(wt.compile(bars).forward_dynamics(bars.home.q, np.zeros(3), found.tau) - found.a).max() < 1e-9


def test_massless_and_very_light_links():
    machine = wt.mechanisms.crank_slider(rod_mass=0.0)
    crank = machine.joints[0].name
    drive = whole_body(machine, [task("posture", joints=(crank,), stiffness=10.0)], motors=(crank,))
    target = machine.home.q.copy()
    target[0] += 0.3
    found = drive(machine.home.q, np.zeros(machine.nv), targets={"posture": target})
    assert not drive.explain(found)
    caused = wt.compile(machine).forward_dynamics(machine.home.q, np.zeros(machine.nv), found.tau)
    assert found.a[0] == pytest.approx(3.0, rel=1e-3)
    assert np.abs(caused - found.a).max() < 1e-6
    # a joint without a motor that moves next to nothing
    builder = wt.Builder("hand").body("arm", 5.0, (0.3, 0, 0), (0.1, 0.1, 0.1))
    builder.body("finger", 1e-5, (0.01, 0, 0), (1e-9, 1e-9, 1e-9))
    builder.joint("shoulder", "revolute", "world", "arm", axis=(0, 1, 0))
    builder.joint("knuckle", "revolute", "arm", "finger", axis=(0, 1, 0), position=(0.6, 0, 0))
    hand = builder.build()
    hold = whole_body(hand, [task("posture", stiffness=50.0)], motors=("shoulder",))
    found = hold([0.2, 0.1], [0.0, 0.0])
    assert np.abs(wt.compile(hand).forward_dynamics([0.2, 0.1], [0.0, 0.0], found.tau) - found.a).max() < 1e-6


def test_numbers_from_which_no_torque_follows_are_refused(control):
    q, v = state()
    bad = {"q": (q * np.nan, v, {}), "v": (q, v + np.inf, {})}
    bad["target of task 'posture'"] = (q, v, {"targets": {"posture": q * np.nan}})
    bad["rate of task 'posture'"] = (q, v, {"rates": {"posture": np.full(len(MOTORS), np.nan)}})
    bad["touching"] = (q, v, {"touching": (np.nan, 1.0)})
    for name, (q, v, words) in bad.items():
        with pytest.raises(ValueError, match=f"{name} has a number that is NaN or infinite"):
            control(q, v, **words)
    for word, number in (("force_cost", -1.0), ("effort_cost", np.nan), ("horizon", 0.0), ("contact_damping", -2.0)):
        with pytest.raises(ValueError, match=f"whole_body: {word} is {number!r}"):
            whole_body(MODEL, TASKS, motors=MOTORS, **{word: number})
    with pytest.raises(ValueError, match="names joint 'left_knee' twice"):
        whole_body(MODEL, TASKS, motors=("left_knee", "left_knee"))


def test_what_nobody_can_settle_is_named_and_what_nobody_asks_for_is_nothing():
    heavy = task("center_of_mass", weight=1e12, stiffness=40.0)
    torn = whole_body(MODEL, [heavy, TASKS[1]], motors=MOTORS)
    found = torn(MODEL.home.q, np.zeros(MODEL.nv))
    assert all(np.all(np.isfinite(part)) for part in found)
    assert [what.kind for what in torn.explain(found)] == ["program"]
    nothing = whole_body(MODEL, [], motors=MOTORS)
    found = nothing(MODEL.home.q, np.zeros(MODEL.nv))
    assert all(np.all(np.isfinite(part)) for part in found)
    assert not nothing.explain(found)


def test_multipliers_that_are_lost_leave_numbers(control):
    rng = np.random.default_rng(0)
    fast = rng.normal(size=(40, MODEL.nv)) * np.geomspace(1.0, 1e4, 40)[:, None]
    found = control(np.tile(MODEL.home.q, (40, 1)), fast)
    assert all(np.all(np.isfinite(part)) for part in found)
    p = found.contact_forces.reshape(40, -1, 3)
    assert np.all(np.hypot(p[..., 1], p[..., 2]) <= wt.contact_set(MODEL).friction * p[..., 0])
