"""Boxes that hold shapes leave no pair out of the lists of a scene that could touch."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.kinematics.scene_layout import scene_layout
from whippletree.simulation.time_stepping.box_bounds import BoxBounds
from whippletree.simulation.time_stepping.pair_lists import rotations

FORMS = [
    ("sphere", {"radius": 0.07}),
    ("box", {"size": (0.3, 0.1, 0.06)}),
    ("capsule", {"radius": 0.03, "length": 0.3}),
    ("cylinder", {"radius": 0.05, "length": 0.2}),
    ("ellipsoid", {"radii": (0.12, 0.06, 0.04)}),
]


def things(count=15, seed=0, tilted=False):
    """Shapes of every form on bodies that move freely, one geometry of each turned and shifted on its body."""
    rng = np.random.default_rng(seed)
    b = wt.Builder("things")
    for k in range(count):
        kind, numbers = FORMS[k % len(FORMS)]
        b.body(f"thing{k}", mass=1.0, inertia=(0.01,) * 3)
        axis = rng.normal(size=3)
        place = {"position": 0.3 * rng.normal(size=3)}
        b.joint(f"fly{k}", "free", "world", f"thing{k}", **(place if tilted else {}))
        b.geometry(f"form{k}", f"thing{k}", kind, position=0.1 * rng.normal(size=3), rpy=axis, **numbers)
    return b.contact_group("all", [f"form{k}" for k in range(count)]).build()


def scattered(model, seed):
    rng = np.random.default_rng(seed)
    q = np.array(model.home.q, dtype=float).reshape(-1, 7)
    q[:, :3], turns = 0.4 * rng.normal(size=(len(q), 3)), rng.normal(size=(len(q), 4))
    q[:, 3:] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
    return q.ravel()


def points_of(kind, numbers, rng, count=60):
    """Points on the surface of a shape, in its frame."""
    n = rng.normal(size=(count, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    match kind:
        case "sphere":
            return numbers["radius"] * n
        case "box":
            return np.sign(n) * np.array(numbers["size"]) / 2
        case "ellipsoid":
            return n * np.array(numbers["radii"])
        case "capsule":
            return numbers["radius"] * n + np.sign(n[:, 2:]) * [0, 0, numbers["length"] / 2]
    flat = n[:, :2] / np.linalg.norm(n[:, :2], axis=1, keepdims=True)
    return np.column_stack([numbers["radius"] * flat, np.sign(n[:, 2]) * numbers["length"] / 2])


@pytest.mark.parametrize("tilted", [False, True])
def test_boxes_are_never_farther_apart_than_points_of_their_shapes(tilted):
    model = things(tilted=tilted)
    layout, rng = scene_layout(model), np.random.default_rng(1)
    bounds, dyn = BoxBounds(layout), wt.reference(model)
    first, second = np.triu_indices(len(layout.names), 1)
    forms = [FORMS[int(name.removeprefix("form")) % len(FORMS)] for name in layout.names]
    local = [points_of(*form, rng) @ X[:, :3].T + X[:, 3] for form, X in zip(forms, layout.local, strict=True)]
    apart = 0
    for seed in range(4):
        q = scattered(model, seed)
        poses = np.array([dyn.pose(name.replace("form", "thing"))(q) for name in layout.names])
        world = [x @ X[:3, :3].T + X[:3, 3] for x, X in zip(local, poses, strict=True)]
        Q = np.zeros((len(layout.bodies), 7))
        Q[:-1], Q[-1, 3] = q.reshape(-1, 7), 1
        R = rotations(Q[:, 3:])
        R = R if layout.traits.in_world_axes else layout.placements[:, :9].reshape(-1, 3, 3) @ R
        found = bounds.gaps(R, Q, first, second)
        for i, j, least in zip(first, second, found, strict=True):
            nearest = np.linalg.norm(world[i][:, None] - world[j][None], axis=2).min()
            assert least <= nearest + 1e-12
        apart += int((found > 0).sum())
    assert apart > 150


@pytest.mark.slow
def test_steps_are_the_same_with_and_without_boxes():
    b = wt.Builder("rows").geometry("floor", "world", "half_space")
    touching = ["floor"]
    for k in range(25):
        b.body(f"box{k}", mass=0.5, inertia=(1e-3,) * 3)
        b.joint(
            f"fly{k}", "free", "world", f"box{k}", position=(0.13 * (k % 5), 0.13 * (k // 5), 0.06 + 0.02 * (k % 3))
        )
        b.geometry(f"skin{k}", f"box{k}", "box", size=(0.1, 0.1, 0.1))
        touching.append(f"skin{k}")
    model = b.contact_group("all", touching, friction=0.5).build()
    v = np.random.default_rng(0).normal(size=model.nv)
    options = {"duration": 0.1, "output_dt": 0.02, "method": "time_stepping", "step": 2e-3, "tolerance": 1e-9}
    with_boxes = wt.simulate(model, None, v, **options)
    with mock.patch.object(BoxBounds, "gaps", lambda self, R, q, first, second: np.full(len(first), -1.0)):
        without = wt.simulate(model, None, v, **options)
    assert with_boxes.attrs["largest_overlap"] <= 1e-8
    np.testing.assert_allclose(with_boxes.q.values[:3], without.q.values[:3], atol=1e-6)
    np.testing.assert_allclose(with_boxes.energy_balance.values, without.energy_balance.values, atol=0.05)
