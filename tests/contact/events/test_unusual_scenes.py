"""Unusual scenes, judged by facts of physics: weights, bounds of friction, straight flight, closed loops."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.cpu import threads
from whippletree.contact.kinematics.large_scenes import snapshot
from whippletree.spatial import quaternion_rotation

G = 9.81

ZOO = """<mujoco model="zoo"><option gravity="0 0 -9.81"/>
<asset><mesh name="wedge" vertex="0 0 0 .2 0 0 0 .2 0 .2 .2 0 0 0 .1 0 .2 .1"/></asset>
<default><geom friction="0.7 0.005 0.0001" density="800"/>
  <default class="slippery"><geom friction="0.05"/></default></default>
<worldbody>
  <geom name="floor" type="plane" size="5 5 .1" friction="0.3"/>
  <body name="box" pos="0 0 .12"><freejoint/><geom name="on box" type="box" size=".1 .15 .1"/></body>
  <body name="ball" pos="1 0 .11"><freejoint/><geom name="on ball" type="sphere" size=".1" class="slippery"/></body>
  <body name="capsule" pos="2 0 .06" euler="0 90 0"><freejoint/><geom name="on capsule" type="capsule"
    size=".05 .2"/></body>
  <body name="cylinder" pos="3 0 .06"><freejoint/><geom name="on cylinder" type="cylinder" size=".1 .05"/></body>
  <body name="wedge" pos="-2 0 .1"><freejoint/><geom name="on wedge" type="mesh" mesh="wedge"/></body>
  <body name="ghost" pos="0 2 .3"><freejoint/><geom name="on ghost" type="box" size=".1 .1 .1" contype="0"
    conaffinity="0"/></body>
</worldbody>
<contact><exclude body1="box" body2="ball"/></contact></mujoco>"""


def simulated(model, q0=None, v0=None, **settings):
    defaults = {"method": "time_stepping", "progress": False, "output_dt": settings.get("duration", 0.5) / 10}
    run = wt.simulate(model, q0, v0, **(defaults | settings))
    assert run.attrs["failure"] == ""
    return run


def lone(kind, second="half_space", start=(0, 0, 0.1, 1, 0, 0, 0), friction=0.5, **parameters):
    """One free body of 2 kg over the ground."""
    builder = wt.Builder("lone").body("body", 2.0, inertia=(0.02, 0.02, 0.02))
    builder.joint("free", "free", "world", "body", start=start)
    size = {"size": (4, 4, 0.2), "position": (0, 0, -0.1)} if second == "box" else {}
    builder.geometry("ground", "world", second, **size).geometry("shape", "body", kind, **parameters)
    return builder.contact("touch", "shape", "ground", friction=friction).build()


@pytest.mark.slow
def test_an_mjcf_scene_rests_with_the_weights_of_its_bodies(tmp_path):
    (tmp_path / "zoo.xml").write_text(ZOO)
    zoo = wt.load(tmp_path / "zoo.xml")
    model = wt.with_contacts(zoo)
    pairs = {contact.name: contact.friction for contact in model.contacts}
    assert not any("ball" in name and "box" in name for name in pairs)  # excluded
    assert not any("ghost" in name for name in pairs)  # by contype and conaffinity
    assert (pairs["on ball on floor"], pairs["on box on floor"]) == (0.3, 0.7)  # the larger one of the two
    grounded = wt.with_contacts(zoo, between=("floor", [body.name for body in zoo.bodies]))
    run = simulated(grounded, duration=0.3, step=2e-3)
    names, force = run.contact_force.attrs["names"], run.contact_force.values[-1]
    for body in zoo.bodies:
        own = sum(f[0] for name, f in zip(names, force, strict=True) if name.startswith(f"on {body.name} "))
        assert own == pytest.approx(0 if body.name == "ghost" else G * body.mass, rel=1e-6, abs=1e-9)
    assert np.abs(force[:, 1:].sum(axis=0)).max() < 1e-6
    assert run.attrs["unconverged_steps"] == 0
    assert float(run.penetration.max()) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("spin", [0.0, 50.0])
@pytest.mark.parametrize("runs", [None, 3])
def test_a_body_that_spins_flies_as_one_that_does_not(spin, runs):
    """A velocity in axes that turn with the body would gain the share (ω h)² of its energy in every step."""
    model = lone("sphere", start=(0, 0, 100, 1, 0, 0, 0), radius=0.1)
    v0 = np.array([0, spin, 0.3 * spin, 5.0, 1.0, 2.0])
    q0 = None if runs is None else np.tile(model.home.q, (runs, 1))
    run = simulated(model, q0, v0, duration=1.0, step=1e-3)
    end = run.q.values[-1].reshape(-1, 7)[:, :3]
    fall = 2.0 - G * (1.0 + 1e-3) / 2  # exact for steps of 1 ms
    assert np.allclose(end, [5.0, 1.0, 100 + fall], atol=1e-9)
    assert np.allclose(run.energy_balance.values[-1], -2.0 * G * G * 1e-3 / 2, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("ground", ["half_space", "box"])
@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("sphere", {"radius": 0.1}),
        ("cylinder", {"radius": 0.1, "length": 0.3}),
        ("capsule", {"radius": 0.1, "length": 0.2}),
    ],
)
def test_what_rolls_goes_on_rolling(ground, kind, parameters):
    """Lying across its way, without slip: neither faster nor slower, on a plane and on a box by ``coal``."""
    lying = (0, 0, 0.1, np.sqrt(0.5), np.sqrt(0.5), 0, 0)
    model = lone(kind, ground, lying, **parameters)
    R = quaternion_rotation(*model.home.q[3:]).astype(float)
    run = simulated(model, v0=np.concatenate([R.T @ [0, 10.0, 0], R.T @ [1.0, 0, 0]]), duration=0.3, step=2e-3)
    assert np.allclose(run.q.values[-1, :3], [0.3, 0, 0.1], atol=1e-4)
    assert run.contact_force.values[1:, :, 0].sum(axis=1) == pytest.approx(2.0 * G, rel=1e-3)
    assert abs(float(run.energy_balance[-1])) < 1e-4


def squeezed(friction, **settings):
    """A cube between two fingers that press with its weight each: friction 0.5 is just enough."""
    builder = wt.Builder("gripper").body("cube", 1.0, inertia=(2e-3,) * 3)
    builder.joint("free", "free", "world", "cube", start=(0, 0, 1, 1, 0, 0, 0))
    builder.geometry("cube", "cube", "box", size=(0.1, 0.1, 0.1))
    for name, x in (("left", 1), ("right", -1)):
        builder.body(name, 0.5, inertia=(1e-3,) * 3)
        builder.joint(name, "prismatic", "world", name, position=(-0.06 * x, 0, 1), axis=(x, 0, 0))
        builder.geometry(f"{name} pad", name, "box", size=(0.02, 0.04, 0.04))
        builder.contact(name, f"{name} pad", "cube", friction=friction)
    model = builder.build()
    tau = np.zeros(model.nv)
    tau[[model.slice("left").start, model.slice("right").start]] = G
    run = simulated(model, **({"duration": 0.1} | settings), controller=lambda t, q, v: tau)
    return 1 - run.q.values[-1, model.q_slice("free")][2], run


@pytest.mark.slow
def test_two_fingers_hold_a_cube_as_far_as_friction_reaches():
    """With forces that are not unique a slip would solve Coulomb's problem, too: what can stay at rest does."""
    for settings in ({}, {"method": "events", "duration": 0.01, "saltation": False}):
        held, run = squeezed(0.55, **settings)
        assert abs(held) < 1e-10
        assert run.contact_force.values[-1, :, 0].sum() == pytest.approx(2 * G)
    lost, _ = squeezed(0.4)
    assert lost == pytest.approx((1 - 2 * 0.4) * G * 0.1**2 / 2, rel=0.02)


def test_flush_boxes_meet_along_the_normal_of_their_faces():
    """Where shapes touch, a search for the nearest points ends in a direction of rounding."""
    table = wt.Builder("table").body("cube", 1.0, inertia=(1e-3,) * 3).joint("free", "free", "world", "cube")
    table.geometry("plate", "world", "box", size=(1, 1, 0.2)).geometry("cube", "cube", "box", size=(0.2, 0.2, 0.2))
    model = table.contact("rest", "cube", "plate").build()
    rng = np.random.default_rng(0)
    for scale in (0.0, 1e-16, 1e-13, 1e-10, 1e-7):
        for _ in range(20):
            q = np.array([0.1, 0.2, 0.2, 1, 0, 0, 0]) + scale * rng.uniform(-1, 1, 7)
            points = snapshot(model, q).points
            touching = np.abs(points.gap) <= 2 * scale + 1e-15
            assert touching.sum() == 4
            assert np.allclose(points.axes[touching, 0], [0, 0, 1], atol=10 * scale + 1e-15)
            assert not np.any(points.gap < -2 * scale - 1e-15)


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("method", ["events", "time_stepping"])
def test_a_five_bar_leg_lands(method):
    """A closed loop with springs at the hips drops on its foot and stands with its weight."""
    builder = wt.Builder("five-bar").body("base", 3.0, inertia=(0.05,) * 3)
    builder.joint("rail", "prismatic", "world", "base", axis=(0, 0, 1), start=0.49)
    for side, x in (("left", -1), ("right", 1)):
        builder.body(f"{side} thigh", 0.2, center=(0, 0, -0.1), inertia=(1e-3, 1e-3, 1e-4))
        builder.body(f"{side} shin", 0.1, center=(0, 0, -0.15), inertia=(1e-3, 1e-3, 1e-4))
        builder.joint(f"{side} hip", "revolute", "base", f"{side} thigh", position=(0.05 * x, 0, 0), axis=(0, 1, 0),
                      start=-0.5 * x, rest=-0.5 * x, stiffness=200.0, damping=8.0)  # fmt: skip
        builder.joint(f"{side} knee", "revolute", f"{side} thigh", f"{side} shin", position=(0, 0, -0.2),
                      axis=(0, 1, 0), start=0.7 * x)  # fmt: skip
        builder.frame(f"{side} tip", f"{side} shin", position=(0, 0, -0.3))
    builder.constraint("ankle", "pin", "left tip", "right tip", axis=(0, 1, 0))
    model = wt.on_ground(builder.build(), frames=["left tip"], radius=0.01, friction=0.7)
    run = simulated(model, duration=1.5, method=method)
    weight = G * sum(float(body.mass) for body in model.bodies)
    assert run.contact_force.values[-1, 0, 0] == pytest.approx(weight, rel=2e-3)
    assert np.abs(run.constraint_residual).max() < 1e-9


def test_a_car_stands_on_its_springs_and_drives():
    """Four wheels on sprung, damped, limited and rubbing hubs, driven by motors against the friction of their axles."""
    builder = wt.Builder("car").body("chassis", 20.0, inertia=(1, 2, 2))
    builder.joint("free", "free", "world", "chassis", start=(0, 0, 0.3, 1, 0, 0, 0))
    for k, (x, y) in enumerate([(0.4, 0.3), (0.4, -0.3), (-0.4, 0.3), (-0.4, -0.3)]):
        builder.body(f"hub {k}", 0.5, inertia=(1e-3,) * 3).body(f"wheel {k}", 1.0, inertia=(5e-3, 1e-2, 5e-3))
        builder.joint(f"strut {k}", "prismatic", "chassis", f"hub {k}", position=(x, y, -0.15), axis=(0, 0, 1),
                      stiffness=4000.0, damping=300.0, lower=-0.05, upper=0.08, friction=0.5)  # fmt: skip
        builder.joint(f"axle {k}", "revolute", f"hub {k}", f"wheel {k}", axis=(0, 1, 0), friction=0.02)
        builder.geometry(f"tyre {k}", f"wheel {k}", "sphere", radius=0.15)
    model = wt.on_ground(builder.build(), friction=0.9)
    tau = np.zeros(model.nv)
    tau[[model.slice(f"axle {k}").start for k in range(4)]] = 0.5
    run = simulated(model, duration=1.0, step=2e-3, controller=lambda t, q, v: tau)
    assert run.contact_force.values[-1, :, 0].sum() == pytest.approx(26 * G, rel=1e-4)
    assert set(run.friction_force.attrs["names"]) == {f"{part} {k}" for part in ("strut", "axle") for k in range(4)}
    speed = float(run.v.values[-1, 3])
    # 26 kg and four wheels with 0.01 kg m² at 0.15 m, driven by 0.48 N m each
    assert speed == pytest.approx(4 * 0.48 / 0.15 / (26 + 4 * 0.01 / 0.15**2), rel=1e-2)


def test_a_batch_that_is_interrupted_keeps_whole_rows(monkeypatch):
    """Ctrl-C while threads share a batch ends their call and the run, which keeps the rows of the calls before."""
    model = wt.mechanisms.quadruped()
    dyn = wt.compile(model, threads=2)
    starts = np.tile(model.home.q, (600, 1))
    settings = {"method": "time_stepping", "output_dt": 0.01, "progress": False, "variables": (), "compiled": dyn}
    whole = wt.simulate(model, starts, duration=0.05, **settings)
    start, shared = threads._start, []

    def pressed_while_others_work(*arguments):
        start(*arguments)
        shared.append(arguments)
        if len(shared) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(threads, "_start", pressed_while_others_work)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        run = wt.simulate(model, starts, duration=50.0, **settings)
    assert run.attrs["failure"] == "interrupted by the user"
    rows = min(len(run.time), 6)
    assert rows >= 2
    assert np.array_equal(run.q.values[:rows], whole.q.values[:rows])


@pytest.mark.slow
def test_every_corner_of_a_large_hull_counts_but_only_once():
    """A hull of 600 corners rests like a ball of its size, and its lanes find the corners that single states find."""
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(600, 3))
    vertices = 0.1 * directions / np.linalg.norm(directions, axis=1)[:, None]
    model = lone("mesh", start=(0, 0, 0.12, 1, 0, 0, 0), vertices=vertices)
    assert (len(wt.contact_set(model).candidates), wt.contact_set(model).corners) == (8, 600)
    q = np.array([0, 0, 0.12, *(lambda x: x / np.linalg.norm(x))(rng.normal(size=4))])
    one, all_at_once = wt.reference(model).contact_gaps(q), snapshot(model, q).points.gap
    assert np.array_equal(np.asarray(one, dtype=float), all_at_once)
    lowest = (vertices @ quaternion_rotation(*q[3:]).astype(float).T)[:, 2].min() + 0.12
    assert all_at_once.min() == pytest.approx(lowest, abs=1e-15)
    assert simulated(model, duration=0.2, step=2e-3).contact_force.values[-1, :, 0].sum() == pytest.approx(
        2 * G, rel=0.2
    )


def test_without_its_contacts_a_model_flies():
    model = lone("sphere", radius=0.1)
    run = simulated(replace(model, contacts=()), duration=0.5, method="adaptive")
    assert run.q.values[-1, 2] == pytest.approx(0.1 - G * 0.25 / 2)
