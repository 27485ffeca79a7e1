"""Contacts in the plane of a mechanism's motions: which they are, and the two half lines that their cone is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from benchmarks.belts import FALL, STEP, belt

import whippletree as wt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.rollout.contact_lists import contact_list_recursion
from whippletree.compiler.rollout.contact_lists.contact_list_cones import PlaneCone, SpaceCone
from whippletree.compiler.rollout.contact_lists.contact_list_newton import NewtonMethod
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program
from whippletree.compiler.rollout.motion_space import motion_space
from whippletree.compiler.rollout.planar_contacts import touch_in_plane
from whippletree.contact.time_step import ContactBlocks
from whippletree.files.cache import CodeCache
from whippletree.tree.skeleton import skeleton

TILTED = np.array([[1.0, 0, 0], [0, 0.8, -0.6], [0, 0.6, 0.8]])


def in_plane(model):
    tree = skeleton(model)
    return touch_in_plane(tree, ContactBlocks(model, alone=True), motion_space(model, tree))


def pendulum(kind, at=(0.0, 0.0, 0.0), **more):
    """A ball that swings in the plane of x and z, beside something that stands still."""
    b = wt.Builder("pendulum").body("ball", 1.0, (0.1, 0, 0), inertia=(1e-3, 1e-3, 1e-3))
    b.joint("pin", "revolute", "world", "ball", axis=(0, 1, 0))
    b.geometry("round", "ball", "sphere", radius=0.05, position=(0.1, 0, 0))
    b.geometry("still", "world", kind, position=at, **more)
    return b.contact("touch", "round", "still", friction=0.5).build()


def test_contacts_in_a_plane_are_told_from_others():
    assert in_plane(belt(12))
    assert in_plane(pendulum("half_space", (0, 0, -0.2)))
    assert not in_plane(pendulum("half_space", (0, 0, -0.2), rotation=TILTED))
    assert in_plane(pendulum("sphere", (0.3, 0, 0), radius=0.05))
    assert not in_plane(pendulum("sphere", (0.3, 0.01, 0), radius=0.05))
    assert in_plane(pendulum("capsule", (0.3, 0, 0), radius=0.05, length=0.1))
    assert not in_plane(pendulum("capsule", (0.3, 0, 0), radius=0.05, length=0.1, rotation=TILTED))
    assert not in_plane(pendulum("box", (0.3, 0, 0), size=(0.1, 0.1, 0.1)))  # a thin one is left sideways


@pytest.mark.parametrize("seed", range(3))
def test_half_lines_are_lorentz_cones_without_a_third_axis(seed):
    """Products, points of the central path, aims and rates of exit of (a, b, 0) are those of (a + b, a − b)."""
    rng = np.random.default_rng(seed)
    space, plane = SpaceCone(), PlaneCone()

    def both(inside=True):
        t = rng.normal()
        axes = np.array([abs(t) + rng.uniform(0.1, 1) if inside else rng.normal(), t, 0.0])
        return axes, plane.of_axes(axes[:2]).astype(float)

    def assert_same(in_space, in_plane):
        wanted = plane.of_axes(np.asarray(in_space)[:2]).astype(float)
        np.testing.assert_allclose(np.asarray(in_plane).astype(float), wanted, rtol=1e-9)

    (x, x2), (w, w2), (dx, dx2), (dw, dw2) = both(), both(), both(False), both(False)
    assert np.isclose(space.inner(x, w), plane.inner(x2, w2))
    np.testing.assert_allclose(plane.to_axes(x2).astype(float), x)
    assert_same(space.one(), plane.one())
    assert np.isclose(space.size(dx), plane.size(dx2))
    # rows of the axes: x pushes along ``thrown``, ``of_axes`` of the motion is its velocity
    rows = rng.normal(size=(2, 3))
    np.testing.assert_allclose((x2 @ plane.thrown(rows)).astype(float), x[:2] @ rows)
    assert_same(space.add_slip(dx, w, 1), plane.add_slip(dx2, w2, 1))
    assert_same(space.slip_slope(w, 1) @ dx, plane.slip_slope(w2, 1) @ dx2)
    (kept, square, aimed), (kept2, square2, aimed2) = space.linearise(x, w), plane.linearise(x2, w2)
    assert_same(square @ dx, square2 @ dx2)
    assert_same(aimed, aimed2)
    assert_same(space.follow(kept, dx), plane.follow(kept2, dx2))
    assert_same(space.aim(kept, x, w, dx, dw, 0.3, 0.7), plane.aim(kept2, x2, w2, dx2, dw2, 0.3, 0.7))
    rates = np.array(plane.rates(kept2, x2, w2, dx2, dw2)).reshape(2, 2).max(axis=1)
    np.testing.assert_allclose(np.array(space.rates(kept, x, w, dx, dw), dtype=float), rates, rtol=1e-9)
    pair, pair2 = space.pair.of(dx, 0.2), plane.pair.of(dx2, 0.2)
    for name in ("yielded", "relative", "bending"):
        assert_same(getattr(pair, name)(dw), getattr(pair2, name)(dw2))
    assert_same(pair.x, pair2.x)
    assert_same(pair.w, pair2.w)


@pytest.mark.slow
@pytest.mark.parametrize("friction", [0.0, 0.3])
def test_a_landing_is_that_of_contacts_in_space(friction, monkeypatch):
    """The interior-point method alone, from round to round, with and without friction."""
    monkeypatch.setattr(NewtonMethod, "statements", lambda _: [])
    model = belt(25)
    model = dataclasses.replace(
        model, contacts=tuple(dataclasses.replace(c, friction=friction) for c in model.contacts)
    )
    steps, blocks = FALL + 12, ContactBlocks(model, alone=True).count
    given = [np.asarray(model.home.q, dtype=float), np.zeros(model.nv), np.zeros((blocks, 3))]
    given += [np.zeros((steps, model.nv)), np.full(steps, STEP), 1e-9, 1e-9]
    found = []
    for suits in (touch_in_plane, lambda *_: False):
        monkeypatch.setattr(contact_list_recursion, "touch_in_plane", suits)
        program = contact_lists_program(model)
        found.append(compile_function(program, width=1, threads=1, cache=CodeCache(None)).ufunc(*given))
    plane, space = found
    assert plane[3][:, 1].max() <= 1e-9
    assert plane[8].max() >= 8
    assert (np.abs(plane[2][..., 1:]).max() > 1e-4) == (friction > 0)
    assert plane[8].sum() <= 1.1 * space[8].sum()
    for a, b in zip(plane[:2], space[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-7)
    # along the axes of the contacts at the beginning of a step, what pushes in space; nothing pushes across the plane
    axes = wt.compile(model).contact_axes(plane[0][:-1])
    pushed, wanted = (np.einsum("tki,tkij->tkj", own[2][1:], axes) for own in (plane, space))
    assert np.abs(pushed).max() > 1e-3
    np.testing.assert_allclose(pushed[..., [0, 2]], wanted[..., [0, 2]], rtol=0, atol=1e-7)
    assert np.abs(pushed[..., 1]).max() <= 1e-15
