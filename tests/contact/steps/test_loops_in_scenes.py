"""Constraints among the bodies of a scene with many free ones are met exactly by its kernel, as the kernel of any
mechanism meets them: four-bars, gears, bodies that are welded, joints that are held."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import whippletree as wt
from scene_steps import STEP_OF_SCENES as H
from scene_steps import by_other_ways, stepped
from whippletree.contact.kinematics.scene_layout import Unsuited, scene_layout
from whippletree.simulation.time_stepping import scene_method
from whippletree.simulation.time_stepping.scene_method import SceneStepping
from whippletree.simulation.time_stepping.scene_run import ROWS
from whippletree.simulation.time_stepping.stepping_method import TimeStepping

UPWARDS = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
"""Axes of a linkage in the plane of x and z: its own second axis is up."""


def four_bar(b, name, at, **crank):
    """A crank, a coupler and a rocker in a vertical plane; the coupler carries a capsule."""
    lengths = {"crank": 0.25, "coupler": 0.5, "rocker": 0.4}
    for word, mass in (("crank", 0.5), ("coupler", 0.7), ("rocker", 0.4)):
        square = mass * lengths[word] ** 2 / 12
        b.body(f"{word} {name}", mass, center=(lengths[word] / 2, 0, 0), inertia=(square / 10, square, square))
    first = 0.25 * np.array([math.cos(1.0), math.sin(1.0)])
    way = np.array([0.5, 0.0]) - first
    far = np.linalg.norm(way)
    along = (0.25 - 0.16 + far * far) / (2 * far)
    pin = first + along * way / far + math.sqrt(0.25 - along**2) * np.array([-way[1], way[0]]) / far
    turn, back = math.atan2(*(pin - first)[::-1]), math.atan2(pin[1], pin[0] - 0.5)
    b.joint(f"A {name}", "revolute", "world", f"crank {name}", position=at, rotation=UPWARDS, start=1.0, **crank)
    b.joint(f"B {name}", "revolute", f"crank {name}", f"coupler {name}", position=(0.25, 0, 0), start=turn - 1.0)
    place = np.add(at, (0.5, 0, 0))
    b.joint(f"D {name}", "revolute", "world", f"rocker {name}", position=place, rotation=UPWARDS, start=back)
    b.frame(f"end {name}", f"coupler {name}", position=(0.5, 0, 0))
    b.frame(f"tip {name}", f"rocker {name}", position=(0.4, 0, 0))
    b.constraint(f"C {name}", "pin", f"end {name}", f"tip {name}")
    lying = np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]])
    b.geometry(
        f"plate {name}",
        f"coupler {name}",
        "capsule",
        radius=0.05,
        length=0.3,
        position=(0.25, 0.1, 0),
        rotation=lying,
    )
    return [f"plate {name}"]


def arm(b, name, at):
    """A link on a hinge that carries a ball."""
    b.body(f"link {name}", 0.8, center=(0.02, 0, -0.15), inertia=(0.01, 0.012, 0.004))
    b.joint(f"hinge {name}", "revolute", "world", f"link {name}", position=at, axis=(0, 1, 0))
    b.geometry(f"hand {name}", f"link {name}", "sphere", radius=0.1, position=(0.25, 0, -0.1))
    return [f"hand {name}"]


def pebble(b, name, at, radius=0.05):
    """A body that would move freely if nothing tied it."""
    b.body(f"stone {name}", 0.4, center=(0.01, 0, 0.005), inertia=(6e-4, 7e-4, 8e-4))
    b.joint(f"loose {name}", "free", "world", f"stone {name}", position=at)
    b.geometry(f"face {name}", f"stone {name}", "sphere", radius=radius)
    return [f"face {name}"]


def linkages(b):
    """Two four-bars, one with a stop and one with dry friction."""
    return four_bar(b, "0", (0, 0, 0.45), lower=0.7, upper=1.4) + four_bar(b, "1", (0.7, 0, 0.5), friction=0.05)


def gears(b):
    """Two arms that gears couple, and a third one that follows by a joint equality, all of them one group."""
    touching = [x for k in range(3) for x in arm(b, str(k), (0.5 * k, 0, 0.7))]
    b.constraint("gears", "gear", "hinge 0", "hinge 1", ratios=(2, 1), offset=0.0)
    b.constraint("follow", "coupling", "hinge 1", "hinge 2", coefficients=(0.0, 0.5))
    return touching


def stones(b):
    """Two stones that are welded, two that a ball joint holds, and one that hangs by a rod from an arm."""
    touching = []
    places = [(0, 0, 0.3), (0.15, 0, 0.35), (0.4, 0.02, 0.3), (0.55, 0.02, 0.35)]
    for k, at in enumerate(places):
        touching += pebble(b, str(k), at)
        shift = (0.075, 0, 0.025) if k % 2 == 0 else (-0.075, 0, -0.025)
        b.frame(f"seam {k}", f"stone {k}", position=shift)
    b.constraint("glue", "weld", "seam 0", "seam 1")
    b.constraint("ball joint", "point", "seam 2", "seam 3")
    return touching


def rod(b):
    """A stone that hangs by a rod from an arm."""
    touching = arm(b, "0", (0.2, 0, 0.9)) + pebble(b, "0", (0.45, 0.02, 0.4))
    b.frame("hook", "link 0", position=(0.25, 0, -0.1))
    b.constraint("rod", "distance", "hook", "stone 0", length=math.sqrt(0.4**2 + 0.02**2))
    return touching


def held(b):
    """An arm that cannot move, as what touches it finds, and one that can."""
    touching = arm(b, "0", (0.0, 0, 0.7)) + arm(b, "1", (0.4, 0, 0.7))
    b.constraint("lock", "coupling", "hinge 0", coefficients=(0.0,))
    return touching


def deck(b):
    """A platform on two equal cranks: a loop with rows that say the same twice in three dimensions."""
    touching = []
    for k in range(2):
        b.body(f"crank {k}", 0.3, center=(0, 0, -0.1), inertia=(1e-3, 1e-3, 2e-4))
        b.joint(f"pivot {k}", "revolute", "world", f"crank {k}", position=(0.4 * k, 0, 0.8), axis=(0, 1, 0), start=0.4)
    b.body("deck", 0.6, center=(0.2, 0, 0), inertia=(2e-3, 8e-3, 8e-3))
    b.joint("eye", "revolute", "crank 0", "deck", position=(0, 0, -0.2), axis=(0, 1, 0), start=-0.4)
    b.geometry("deck", "deck", "box", size=(0.4, 0.2, 0.04), position=(0.2, 0, 0))
    touching.append("deck")
    b.frame("left", "deck", position=(0.4, 0, 0)).frame("right", "crank 1", position=(0, 0, -0.2))
    b.constraint("second eye", "hinge", "left", "right", axis=(0, 1, 0))
    return touching


SCENES = {
    "linkages": (linkages, (0.25, 0.9)),
    "gears": (gears, (0.25, 1.3)),
    "stones": (stones, (0.05, 0.5)),
    "rod": (rod, (0.45, 0.7)),
    "held": (held, (0.2, 0.6)),
    "deck": (deck, (0.1, 0.3)),
}
"""What is tied, and where balls fall on it."""


def scene(name, balls=None, *, friction=0.5, restitution=0.0, seed=0):
    """One of these scenes, with so many balls above it; without a number, with the two that hit it."""
    random = np.random.default_rng(seed)
    make, places = SCENES[name]
    b = wt.Builder("scene").geometry("floor", "world", "half_space")
    touching = ["floor", *make(b)]
    for k in range(len(places) if balls is None else balls):
        x, y = places[k % len(places)] + random.uniform(-0.03, 0.03), random.uniform(-0.04, 0.04)
        b.body(f"ball{k}", mass=0.3, inertia=(3e-4,) * 3)
        b.joint(f"fly{k}", "free", "world", f"ball{k}", position=(x, y, 1.05 + 0.11 * (k // len(places))))
        b.geometry(f"skin{k}", f"ball{k}", "sphere", radius=0.05)
        touching.append(f"skin{k}")
    b.contact_group("all", touching, friction=friction, restitution=restitution)
    return wt.without_overlaps(b.build())


def start(model, seed=1):
    """Coordinates of the home, and random velocities that the constraints allow."""
    q, dyn = np.array(model.home.q, dtype=float), wt.compile(model)
    v = np.random.default_rng(seed).normal(size=model.nv)
    A = np.asarray(dyn.constraint_jacobian(q))
    return q, v - np.linalg.pinv(A) @ (A @ v)


def compare(model, count, seed=1, h=H):
    """Steps of the kernel of scenes, each from a state of a run by the kernel of any mechanism; both meet the demands.

    Overlaps are moved apart and loops closed one after the other here, and at once there: places differ by the cube of
    a step, a share of the square of it by which either step is in error.
    """
    q, v = start(model, seed)
    theirs, dyn = by_other_ways(model, q, v, count, h), wt.compile(model)
    found, touched = [], 0
    for row in range(count):
        q, v = theirs.q.values[row], theirs.v.values[row]
        (told,) = stepped(model, q, v, 1, h)
        found.append(told)
        account = dict(zip(ROWS, told.account[0], strict=True))
        moved = h * np.abs(told.v).max()
        touched += account["contacts"] > 0
        apart = moved**3 if account["contacts"] or account["contact_work"] else 1e-12
        assert np.allclose(told.q, theirs.q.values[row + 1], atol=apart, rtol=0), row
        assert np.allclose(told.v, theirs.v.values[row + 1], atol=10 * apart / h, rtol=0), row
        assert account["residual_velocity"] <= 1e-10
        assert account["overlap"] <= 1e-10
        assert np.abs(dyn.constraint_residual(told.q)).max() <= 1e-12
        assert np.abs(dyn.constraint_jacobian(told.q) @ told.v).max() <= 1e-11
        for word in ("contact_work", "friction_work", "joint_work"):
            there = theirs[word].values[row + 1] - theirs[word].values[row]
            assert np.isclose(account[word], there, atol=1e-8, rtol=1e-6), (word, row)
    assert touched >= 2
    return found, theirs


@pytest.mark.parametrize(
    "name", ["stones", *[pytest.param(x, marks=pytest.mark.slow) for x in SCENES if x != "stones"]]
)
def test_steps_are_those_of_any_mechanism(name):
    found, _ = compare(scene(name), 110)
    assert sum(told.account[0, ROWS["contact_work"]] for told in found) < -1e-3


def test_what_is_held_stays_and_limits_of_loops_hold():
    """A lock keeps its arm in place under a ball, and a stop its crank; nobody else moves them."""
    model = scene("held", 6)
    rows = stepped(model, *start(model), 120, tolerance=1e-8)
    assert max(np.abs(told.q[model.q_slice("hinge 0")]).max() for told in rows) <= 1e-13
    model = scene("linkages", 8)
    rows = stepped(model, *start(model), 120, tolerance=1e-8)
    crank = np.array([told.q[model.q_slice("A 0")][0] for told in rows])
    assert crank.min() >= 0.7 - 1e-9
    assert crank.max() <= 1.4 + 1e-9
    assert max(told.account[0, ROWS["overlap"]] for told in rows) <= 1e-9


def dumbbell(b, welded):
    """Two balls on one body, or on two that are welded."""
    half, inertia = 0.4, (6e-4,) * 3
    if welded:
        for k, x in enumerate((-0.1, 0.1)):
            b.body(f"end {k}", half, inertia=inertia)
            b.joint(f"loose {k}", "free", "world", f"end {k}", position=(x, 0, 0.4))
            b.frame(f"middle {k}", f"end {k}", position=(-x, 0, 0))
            b.geometry(f"face {k}", f"end {k}", "sphere", radius=0.05)
        b.constraint("glue", "weld", "middle 0", "middle 1")
    else:
        across = 2 * inertia[0] + 2 * half * 0.01
        b.body("both", 2 * half, inertia=(2 * inertia[0], across, across))
        b.joint("loose", "free", "world", "both", position=(0, 0, 0.4))
        for k, x in enumerate((-0.1, 0.1)):
            b.geometry(f"face {k}", "both", "sphere", radius=0.05, position=(x, 0, 0))
    return ["face 0", "face 1"]


SPIN, SPEED = np.array([1.0, 6.0, -2.0]), np.array([0.5, 0.2, 0.0])
"""Of the dumbbell, rad/s and m/s."""


def thrown_dumbbell(welded, h):
    """Where its first ball is 0.4 s after it was thrown among balls at rest."""
    b = wt.Builder("dumbbell").geometry("floor", "world", "half_space")
    touching = ["floor", *dumbbell(b, welded)]
    for k in range(9):
        b.body(f"ball{k}", mass=0.3, inertia=(3e-4,) * 3)
        b.joint(f"fly{k}", "free", "world", f"ball{k}", position=(0.3 * k + 1, 1, 0.05))
        b.geometry(f"skin{k}", f"ball{k}", "sphere", radius=0.05)
        touching.append(f"skin{k}")
    model = b.contact_group("all", touching, friction=0.4).build()
    v = np.zeros(model.nv)
    if welded:
        for k, x in enumerate((-0.1, 0.1)):
            v[model.slice(f"loose {k}")] = [*SPIN, *(SPEED + np.cross(SPIN, (x, 0, 0)))]
    else:
        v[model.slice("loose")] = [*SPIN, *SPEED]
    run = wt.simulate(model, v0=v, duration=0.4, output_dt=0.4, method="time_stepping", step=h)
    assert run.attrs["path"] == "compiled"
    assert "contact_lists_made" in run.attrs
    q = run.q.values[-1]
    if welded:
        return np.add(q[model.q_slice("loose 0")][:3], (-0.1, 0, 0))
    *place, w, x, y, z = q[model.q_slice("loose")]
    axis = np.array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)])
    return place - 0.1 * axis


def test_bodies_that_are_welded_move_as_one():
    """The motion of two welded balls tends to that of one body with both as the steps become shorter."""
    errors = [np.abs(thrown_dumbbell(True, h) - thrown_dumbbell(False, h)).max() for h in (4e-3, 1e-3)]
    assert errors[0] < 2e-2
    assert errors[1] < errors[0] / 3


def test_scenes_with_loops_are_compiled_and_the_others_say_why():
    model = scene("stones", 12)
    assert TimeStepping.form_for(model, alone=True) is SceneStepping
    run = wt.simulate(model, duration=0.4, output_dt=0.02, method="time_stepping", step=2e-3)
    assert run.attrs["path"] == "compiled"
    assert run.attrs["unconverged_steps"] == 0
    assert run.attrs["largest_overlap"] <= 1e-8
    residual = wt.compile(model).constraint_residual(run.q.values)
    assert np.abs(residual).max() <= 1e-12
    (*others, glue) = sorted(model.constraints, key=lambda c: c.name == "glue")
    soft = replace(glue, parameters={**glue.parameters, "compliance": 1e-6})
    assert scene_layout(replace(model, constraints=(*others, soft))) == Unsuited("a constraint is compliant")


# ---- driven by motors ---

DRIVES = {
    "motor": {"gear": 2.0},
    "servo": {"gain": (400.0, 0, 0), "bias": (0, -400.0, -20.0)},
    "stiff servo": {"gain": (1e5, 0, 0), "bias": (0, -1e5, -200.0)},
    "servo at an end of its range": {"gain": (1e5, 0, 0), "bias": (0, -1e5, -200.0), "force_range": (-1.0, 1.0)},
    "servo on two cranks": {"gain": (400.0, 0, 0), "bias": (0, -400.0, -20.0), "gear": (1.0, -0.5)},
}


def driven(drive, *, friction=0.5):
    """Two four-bars, of which one or both are driven, and balls that fall on them."""
    b = wt.Builder("driven").geometry("floor", "world", "half_space")
    touching = ["floor", *four_bar(b, "0", (0, 0, 0.45)), *four_bar(b, "1", (0.7, 0, 0.5), lower=0.7, upper=1.4)]
    b.actuator("drive", *(["A 0", "A 1"] if np.size(drive.get("gear", 1)) > 1 else ["A 0"]), **drive)
    for k, x in enumerate((0.25, 0.9)):
        b.body(f"ball{k}", 0.5, inertia=(1e-3,) * 3)
        b.joint(f"fly{k}", "free", "world", f"ball{k}", position=(x, 0.01, 1.05))
        b.geometry(f"skin{k}", f"ball{k}", "sphere", radius=0.06)
        touching.append(f"skin{k}")
    return b.contact_group("all", touching, friction=friction).build()


def steps_of(model, as_scene, q, v, count):
    with mock.patch.object(scene_method, "is_scene", return_value=as_scene):
        return wt.simulate(
            model, q, v, duration=count * H, output_dt=H, ctrl=np.array([1.3]), method="time_stepping", step=H,
            tolerance=1e-10, progress=False,
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DRIVES)
def test_driven_loops_move_as_those_of_any_mechanism(name):
    """Step by step from the same states; what moves apart overlaps does so in another metric, to the third order."""
    model = driven(DRIVES[name])
    start_v = np.zeros(model.nv)
    for k in (0, 1):
        start_v[model.slice(f"fly{k}")] = [0, 0, 0, 0, 0, -3.0]
    other = steps_of(model, False, None, start_v, 60)
    assert "sleep" not in other.attrs
    dyn, touched = wt.compile(model), 0
    for q, v, q_next, v_next in zip(
        other.q.values, other.v.values, other.q.values[1:], other.v.values[1:], strict=False
    ):
        one = steps_of(model, True, q, v, 1)
        assert "sleep" in one.attrs
        touched += int(one.contacts[-1] > 0)
        apart = (H * np.abs(v_next).max()) ** 3 if one.contacts[-1] > 0 or one.limit_force.values[-1].any() else 1e-12
        np.testing.assert_allclose(one.q.values[-1], q_next, rtol=0, atol=apart)
        np.testing.assert_allclose(one.v.values[-1], v_next, rtol=0, atol=10 * apart / H)
        assert np.abs(dyn.constraint_residual(one.q.values[-1])).max() < 1e-12
        assert np.abs(dyn.constraint_jacobian(one.q.values[-1]) @ one.v.values[-1]).max() < 1e-11
    assert touched >= 2
