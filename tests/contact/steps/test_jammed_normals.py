"""Normals that push against each other in vain, beside overlaps that are undone."""

import numpy as np
import pytest

import whippletree as wt

H, TOLERANCE, RADIUS, COUNT = 2e-3, 1e-7, 0.05, 4


def stack_beside(walls):
    """Balls on rails, one above the other on a floor, and a slider between walls that are too near to each other."""
    builder = wt.Builder("stack", gravity=(0, 0, 0)).geometry("floor", "world", "half_space")
    below = "floor"
    for k in range(COUNT):
        name = f"ball {k}"
        builder.body(name, 1.0, inertia=(1e-4, 1e-4, 1e-4)).geometry(name, name, "sphere", radius=RADIUS)
        builder.joint(name, "prismatic", "world", name, axis=(0, 0, 1))
        builder.contact(f"{name} on {below}", name, below)
        below = name
    if walls:
        builder.body("slider", 1.0, inertia=(1e-4, 1e-4, 1e-4)).geometry("slider", "slider", "sphere", radius=RADIUS)
        builder.joint("slider", "prismatic", "world", "slider", axis=(1, 0, 0))
        for side in (-1, 1):
            wall = f"wall {side}"
            builder.geometry(wall, "world", "half_space", position=(side * 0.04, 1, 0), rpy=(0, -side * np.pi / 2, 0))
            builder.contact(wall, "slider", wall)
    return wt.compile(builder.build(), threads=1)


@pytest.mark.parametrize("depth", [1e-4, 1e-6])
def test_a_jam_elsewhere_changes_nothing_where_overlaps_are_undone(depth):
    """Balls that overlap are moved apart by the least motion: the floor holds, so each goes up by what is below it.
    That takes some thirty sweeps, during which the slider is pushed from wall to wall."""
    heights = RADIUS + 2 * RADIUS * np.arange(COUNT) - depth * np.arange(1, COUNT + 1)
    found = []
    for walls in (False, True):
        dyn = stack_beside(walls)
        q = np.concatenate([heights, [0.0] * walls])
        pairs = len(dyn.contact_list_touches(q))
        one = np.zeros(len(q)), np.zeros((pairs, 3)), np.zeros((1, len(q))), np.full(1, H), TOLERANCE, np.inf
        with np.errstate(all="ignore"):
            found.append(dyn.contact_steps(q, *one)[0][0][:COUNT])
    alone, beside = found
    np.testing.assert_allclose(beside, alone, rtol=0, atol=H * TOLERANCE)
    np.testing.assert_allclose(alone, RADIUS + 2 * RADIUS * np.arange(COUNT), rtol=0, atol=COUNT * H * TOLERANCE)
