"""Robots with actuators and tendons among free bodies: the kernel of scenes steps them as the kernel of any mechanism and
the solver in Python do."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.kinematics.scene_layout import SceneLayout, Unsuited, scene_layout
from whippletree.model import Activation
from whippletree.simulation.time_stepping import scene_method
from whippletree.simulation.time_stepping.scene_method import SceneStepping
from whippletree.simulation.time_stepping.stepping_method import TimeStepping

H = 1e-3


def robot(seed, *, trees=2, free=4, boxes=False, **joint):
    """A builder of random arms that stand on the ground, of three links each, under balls that fall on them."""
    rng = np.random.default_rng(seed)
    b = wt.Builder("robot").geometry("floor", "world", "half_space")
    touching = ["floor"]
    for t in range(trees):
        parent, place = "world", np.array([0.5 * t, 0, 0.6])
        for i in range(3):
            link, kind = f"link{t}{i}", "prismatic" if rng.random() < 0.2 else "revolute"
            b.body(link, mass=rng.uniform(0.5, 2), center=0.1 * rng.normal(size=3), inertia=rng.uniform(5, 9, 3) / 400)
            axis = rng.normal(size=3)
            b.joint(f"joint{t}{i}", kind, parent, link, position=place, axis=axis / np.linalg.norm(axis), **joint)
            b.geometry(f"skin{t}{i}", link, "sphere", radius=0.09, position=(0.05, 0, 0.05))
            touching.append(f"skin{t}{i}")
            parent, place = link, np.array([0.12, 0.08, 0.14])
    for k in range(free):
        b.body(f"thing{k}", mass=0.4, inertia=(6e-4,) * 3)
        x, y = 0.5 * rng.integers(trees) + rng.uniform(-0.1, 0.3), rng.uniform(-0.1, 0.2)
        b.joint(f"fly{k}", "free", "world", f"thing{k}", position=(x, y, 1.12 + 0.13 * k))
        own = {"size": (0.08, 0.1, 0.06)} if boxes and k % 2 else {"radius": 0.05}
        b.geometry(f"shell{k}", f"thing{k}", "box" if "size" in own else "sphere", **own)
        touching.append(f"shell{k}")
    return b, touching


def built(b, touching, friction=0.5):
    return wt.without_overlaps(b.contact_group("all", touching, friction=friction).build())


def servo(b, name, *joints, k=80.0, d=4.0, **more):
    return b.actuator(name, *joints, gain=(k, 0, 0), bias=(0, -k, -d), **more)


DRIVES = {
    "motor": lambda b: b.actuator("motor", "joint00", gear=3.0, force_range=(-2.0, 1.0)),
    "position": lambda b: servo(b, "position", "joint01", gear=1.5),
    "stiff": lambda b: servo(b, "stiff", "joint02", k=1e5, d=200.0),
    "velocity": lambda b: b.actuator("velocity", "joint11", gain=(6, 0, 0), bias=(0, 0, -6)),
    "affine": lambda b: b.actuator("affine", "joint10", gain=(3, 0.2, -0.1), bias=(1.0, -20, -1)),
    "bounded": lambda b: servo(servo(b, "weak", "joint00", force_range=(-3, 1)), "hard", "joint12", k=1e5, d=200.0,
                               force_range=(-2, 2)),
    "coupling": lambda b: servo(b, "coupling", "joint00", "joint12", gear=(1.0, -0.7), k=500.0),
    "bounded coupling": lambda b: servo(b, "both", "joint01", "joint10", gear=(0.5, -2.0), k=500.0, force_range=(-2, 3)),
    "thruster": lambda b: b.actuator("thruster", frame="link02", gear=(0, 0.3, 0, 0.1, 0, 1.0)),
    "drag": lambda b: b.actuator("drag", frame="thing0", gear=(0, 0.1, 0, 0.2, 0, 1.0), gain=(40, 0, 0),
                                 bias=(1, 0, -40)),
    "bounded drag": lambda b: b.actuator("fan", frame="link12", gear=(0, 0.3, 0, 0.1, 0, 1.0), gain=(400, 0, 0),
                                         bias=(5, 0, -400), force_range=(-3, 7)),
    "spring": lambda b: b.tendon("spring", "link02", "link12", stiffness=60.0, rest=0.3, damping=2.0),
    "string": lambda b: b.tendon("string", "link02", "thing1", limits=(0.48, np.inf), stiffness=3.0, rest=0.1),
    "differential": lambda b: b.tendon("sum", joints={"joint01": 1.0, "joint12": -0.5}, limits=(-0.1, 0.1)),
    "pulled": lambda b: b.tendon("rope", "link02", "world").actuator("winch", tendon="rope", gear=0.5, gain=(-9, 0, 0)),
    "filter": lambda b: servo(b, "slow", "joint01", activation=Activation("filter", (0.05,))),
    "lift": lambda b: b.lift("light", "link01", share=0.8).lift("balloon", "thing0", share=1.1),
}  # fmt: skip


def both_ways(model, tolerance=1e-10, steps=100, seed=3, **drive):
    """A run in the kernel of scenes, and one in that of any mechanism."""
    q, v = np.array(model.home.q, dtype=float), 0.5 * np.random.default_rng(seed).normal(size=model.nv)
    for k in range(len(scene_layout(model).free)):
        v[scene_layout(model).free_v[k, 5]] -= 3
    options = {"duration": steps * H, "output_dt": H, "method": "time_stepping", "step": H, "tolerance": tolerance}
    found = []
    for scene in (True, False):
        # an overlap that is left changes the next velocity by as much in a step
        overlap = mock.patch.object(scene_method, "SCENE_OVERLAP", 1e-12)
        with mock.patch.object(scene_method, "is_scene", return_value=scene), overlap:
            found.append(wt.simulate(model, q, v, **options, **drive))
    assert "contact_lists_made" in found[0].attrs
    assert "contact_lists_made" not in found[1].attrs
    return found


def require_alike(ours, theirs, atol=1e-7):
    assert theirs.attrs["unconverged_steps"] == ours.attrs["unconverged_steps"] == 0
    assert theirs.attrs["halved_steps"] == 0
    assert ours.attrs["largest_overlap"] <= 1e-8
    for word in ("q", "v", "joint_work", "contact_work", "friction_work", "energy_balance"):
        np.testing.assert_allclose(ours[word].values, theirs[word].values, rtol=0, atol=atol, err_msg=word)


def commands_of(model, seed=0):
    """A table of commands that jump, so that servos reach the ends of their ranges and come back."""
    return np.random.default_rng(seed).uniform(-0.6, 0.6, size=(8, len(model.actuators)))


@pytest.mark.parametrize(
    "words",
    [
        ("bounded", "coupling"),
        pytest.param(("string", "spring", "thruster"), marks=pytest.mark.slow),
        pytest.param(("motor", "position", "velocity"), marks=pytest.mark.slow),
        pytest.param(("stiff", "affine", "lift"), marks=pytest.mark.slow),
        pytest.param(("bounded coupling", "drag"), marks=pytest.mark.slow),
        pytest.param(("bounded drag", "filter"), marks=pytest.mark.slow),
        pytest.param(("differential", "pulled"), marks=pytest.mark.slow),
    ],
)
def test_steps_are_those_of_any_mechanism(words):
    b, touching = robot(len(words[0]), lower=-1.5, upper=1.5, damping=0.2)
    for word in words:
        DRIVES[word](b)
    model = built(b, touching)
    ours, theirs = both_ways(model, ctrl=commands_of(model) if model.actuators else None)
    require_alike(ours, theirs)
    assert ours.contacts.max() >= 1
