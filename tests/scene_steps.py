"""Steps of one model in the kernel of scenes with many free bodies, and by the ways of any mechanism."""

from __future__ import annotations

from unittest import mock

import numpy as np

import whippletree as wt
from whippletree.contact.kinematics.scene_layout import SceneLayout, scene_layout
from whippletree.simulation.time_stepping import scene_method
from whippletree.simulation.time_stepping.scene_run import ROWS, SteppedScene, Warm

STEP_OF_SCENES = 4e-3
"""s"""


def stepped(model, q, v, count, h=STEP_OF_SCENES, tolerance=1e-10):
    """States and accounts of so many steps in the kernel of scenes."""
    layout = scene_layout(model)
    assert isinstance(layout, SceneLayout)
    scene, warm, rows = SteppedScene(layout, tolerance, 1e-11, 100_000), Warm.cold(), []
    for _ in range(count):
        told = scene.advance(q, v, warm, np.zeros(model.nv), np.array([h]))
        q, v, warm = told.q, told.v, told.warm
        rows.append(told)
    return rows


def by_other_ways(model, q, v, count, h=STEP_OF_SCENES, tolerance=1e-10):
    """The same steps of ``wt.simulate``, as those of a mechanism that is no scene."""
    with mock.patch.object(scene_method, "is_scene", return_value=False):
        run = wt.simulate(
            model, q, v, duration=count * h, output_dt=h, method="time_stepping", step=h, tolerance=tolerance
        )
    assert "sleep" not in run.attrs
    return run


def compare(model, count, seed=1, atol=1e-7, works=("contact_work", "friction_work", "joint_work")):
    """Require that both ways give the same motion, and return them; ``works``: those of the balance of energy that are
    unique."""
    q, v = np.array(model.home.q, dtype=float), np.random.default_rng(seed).normal(size=model.nv)
    ours, theirs = stepped(model, q, v, count), by_other_ways(model, q, v, count)
    for row, told in enumerate(ours, start=1):
        assert np.allclose(told.v, theirs.v.values[row], atol=atol, rtol=0), row
        assert np.allclose(told.q, theirs.q.values[row], atol=atol * STEP_OF_SCENES, rtol=0), row
        assert told.account[0, ROWS["residual_velocity"]] <= 1e-10
        assert told.account[0, ROWS["cone_violation"]] <= 1e-12
        assert told.account[0, ROWS["overlap"]] <= 1e-10
    for word in works:
        own = sum(told.account[0, ROWS[word]] for told in ours)
        assert np.isclose(own, theirs[word].values[-1], atol=1e-7), word
    return ours, theirs


def sticks(jointed, free, **numbers):
    """Sticks over a floor, some of two halves with a stop and dry friction between them."""
    b = wt.Builder("sticks").geometry("floor", "world", "half_space")
    touching, lying = ["floor"], np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]])
    for k in range(jointed):
        for i, side in enumerate((-1, 1)):
            b.body(f"half{k}.{i}", 0.5, center=(0.15 * side, 0, 0), inertia=(1e-4, 4e-3, 4e-3))
            shape = {"radius": 0.02, "length": 0.26, "rotation": lying, "position": (0.19 * side, 0, 0)}
            b.geometry(f"rod{k}.{i}", f"half{k}.{i}", "capsule", **shape)
            touching.append(f"rod{k}.{i}")
        b.joint(f"loose{k}", "free", "world", f"half{k}.0", position=(0.9 * k, 0, 0.35))
        stop = {"lower": -0.004, "upper": 0.02, "friction": 0.05}
        b.joint(f"elbow{k}", "revolute", f"half{k}.0", f"half{k}.1", axis=(0, 1, 0), **stop)
    for k in range(free):
        b.body(f"stick{k}", 0.8, inertia=(2e-4, 2.4e-2, 2.4e-2))
        b.joint(f"fly{k}", "free", "world", f"stick{k}", position=(0.9 * k, 1, 0.35))
        b.geometry(f"skin{k}", f"stick{k}", "capsule", radius=0.02, length=0.56, rotation=lying)
        touching.append(f"skin{k}")
    return b.contact_group("all", touching, **numbers).build()


def thrown_sticks(model, seed):
    """A state in which they lean, and fall so that friction turns their slip around: Newton's law would add energy."""
    random = np.random.default_rng(seed)
    q, v = np.array(model.home.q, dtype=float), np.zeros(model.nv)
    for joint in model.joints:
        if joint.kind == "free":
            angle = random.uniform(0.5, 1.1)
            c, s = np.cos(angle), np.sin(angle)
            speed = np.array([-random.uniform(0.1, 1.5), 0, -random.uniform(1, 3)])
            q[model.q_slice(joint.name)][3:] = [np.cos(angle / 2), 0, np.sin(angle / 2), 0]
            turning = 0.3 * random.normal(size=3)
            v[model.slice(joint.name)] = [*turning, *(np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]]) @ speed)]
    return q, v


def steps_without_loss(rows):
    """Steps that press hard and lose nothing: those that took but a share of a bounce."""
    works = [told.account[0, ROWS["contact_work"]] for told in rows]
    return [k for k, told in enumerate(rows) if works[k] > -1e-10 and np.abs(told.warm.impulses).max(initial=0) > 1e-3]
