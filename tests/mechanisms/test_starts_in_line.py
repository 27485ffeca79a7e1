"""Mechanisms whose start is a singular configuration: what they can do is learnt on the branches that leave it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.singular.exploration import explore
from whippletree.mechanisms.linkages import rod
from whippletree.model import State

PITCH, ROCKER = 1.0, 0.7


def parallelogram(rockers, home, *, units=1, kind="pin", base=None, stacked=False, size=1.0):
    """Equal rockers on one coupler, ``units`` of them side by side or one on the coupler of the other."""
    builder = wt.Builder("parallelogram", (0, -9.81, 0))
    ground = "world"
    if base:
        ground = "base"
        builder.body("base", 5.0, inertia=(1, 1, 1)).joint("base", base, "world", "base")
    for u in range(units):
        builder.body(f"coupler {u}", **rod(1.0, size * PITCH * (rockers - 1)))
        for k in range(rockers):
            x = size * PITCH * (k if stacked else k + u * rockers)
            builder.body(f"rocker {u}{k}", **rod(0.5, size * ROCKER))
            builder.joint(f"j{u}{k}", "revolute", ground, f"rocker {u}{k}", position=(x, 0, 0), start=home)
            builder.frame(f"end {u}{k}", f"rocker {u}{k}", position=(size * ROCKER, 0, 0))
        builder.joint(f"c{u}", "revolute", f"rocker {u}0", f"coupler {u}", position=(size * ROCKER, 0, 0), start=-home)
        for k in range(1, rockers):
            builder.frame(f"eye {u}{k}", f"coupler {u}", position=(size * PITCH * k, 0, 0))
            builder.constraint(f"pin {u}{k}", kind, f"end {u}{k}", f"eye {u}{k}")
        ground = f"coupler {u}" if stacked else ground
    return builder.build()


def at_angle(model, angle):
    """The coordinates with every rocker at one angle."""
    q = np.array(model.home.q, dtype=float)
    for joint in model.joints:
        if joint.name[0] in "jc":
            q[model.q_slice(joint.name)] = angle if joint.name[0] == "j" else -angle
    return q


@pytest.mark.slow
@pytest.mark.parametrize("home", [0.0, np.pi, -np.pi])
@pytest.mark.parametrize("rockers", [2, 3, 4])
@pytest.mark.parametrize("kind", ["pin", "hinge"])
def test_a_parallelogram_that_starts_in_line_moves(rockers, home, kind):
    model, elsewhere = parallelogram(rockers, home, kind=kind), parallelogram(rockers, 0.5, kind=kind)
    structure, other = (constraint_set(m).structure for m in (model, elsewhere))
    assert (structure.mobility, structure.branches, structure.stuck) == (1, (1,), False)
    assert len(structure.redundant) == len(other.redundant)
    # the pendulum of mass (rockers / 3 and coupler) on one length: θ̈ = −(g/ℓ) cos θ · (½ n m + M) / (⅓ n m + M)
    angle = 0.8
    load, inertia = 0.5 * 0.5 * rockers + 1.0, 0.5 / 3 * rockers + 1.0
    expected = -9.81 / ROCKER * np.cos(angle) * load / inertia
    q = at_angle(model, angle)
    for functions in (wt.reference(model), wt.compile(model)):
        a = functions.forward_dynamics(q, np.zeros(model.nv), np.zeros(model.nv))
        np.testing.assert_allclose(a[model.slice("j00")], expected, rtol=1e-12)
    found = wt.diagnose(model, q)
    assert (found.fine, found.freedoms, found.dependent, found.astray) == (True, 1, (), ())


@pytest.mark.parametrize("rockers", [3, 4])
def test_the_start_itself_is_singular_and_not_stuck(rockers):
    found = wt.diagnose(parallelogram(rockers, 0.0))
    assert (found.freedoms, found.mobility, found.stuck, found.astray) == (1, 2, False, ())
    assert "move away from the singular configuration, or give a velocity along the branch that is meant" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "mobility"),
    [
        ({"units": 2, "stacked": True}, 2),
        ({"units": 3, "stacked": True}, 3),
        ({"units": 3}, 3),
        ({"base": "revolute"}, 2),
        ({"base": "planar"}, 4),
        ({"base": "free"}, 7),
        ({"size": 1e-3}, 1),
        ({"size": 1e3}, 1),
    ],
)
def test_chained_carried_and_scaled(options, mobility):
    """Parts that leave their singular configuration together: none is left in line, where it would look held."""
    model = parallelogram(3, 0.0, **options)
    structure = constraint_set(model).structure
    assert (structure.mobility, structure.branches, structure.stuck) == (mobility, (mobility,), False)
    assert len(structure.redundant) == options.get("units", 1)
    assert len(constraint_set(model).free) == mobility


def unequal_rockers():
    """In line, and held: the third rocker is shorter than the others."""
    builder = wt.Builder("unequal", (0, -9.81, 0)).body("coupler", **rod(1.0, 2.0))
    for k, (x, length) in enumerate(((0, 0.7), (1, 0.7), (2.1, 0.6))):
        builder.body(f"rocker {k}", **rod(1.0, length)).frame(f"end {k}", f"rocker {k}", position=(length, 0, 0))
        builder.joint(f"j{k}", "revolute", "world", f"rocker {k}", position=(x, 0, 0))
    builder.joint("c", "revolute", "rocker 0", "coupler", position=(0.7, 0, 0))
    for k in (1, 2):
        builder.frame(f"eye {k}", "coupler", position=(k, 0, 0)).constraint(f"pin {k}", "pin", f"end {k}", f"eye {k}")
    return builder.build()


def test_what_is_truly_held_is_told_with_the_cure():
    model = unequal_rockers()
    found = wt.diagnose(model)
    assert (found.freedoms, found.mobility, found.stuck, found.redundant) == (0, 2, True, ())
    cure = "take a constraint away, change a length, weld the joints that cannot move, or start from another assembled"
    assert "degrees of freedom: 0: nothing can move" in str(found)
    assert f"cure: if it should move: {cure}" in str(found)
    with pytest.raises(wt.SingularSystemError, match=f"Cure: {cure}"):
        wt.reference(model).forward_dynamics(model.home.q, np.zeros(4), np.zeros(4))


def test_a_held_frame_without_any_singularity_is_told_too():
    """A triangle of rods: regular, and immobile."""
    model = wt.mechanisms.four_bar((1.0, 1.0, 1.0, 1.0), angle=1.0)
    hold = wt.Builder("x").constraint("brace", "distance", "world", "coupler end", length=1.2)
    braced = replace(model, constraints=(*model.constraints, *hold._constraints))
    braced = replace(braced, start=State(wt.assemble(braced), np.zeros(3)))
    found = wt.diagnose(braced)
    assert (found.freedoms, found.stuck) == (0, False)
    assert "nothing can move" in str(found)
    assert "cure: if it should move: take a constraint away" in str(found)


def test_a_held_part_beside_one_that_moves():
    """Two rods in line between two nails, and a pendulum: one degree of freedom, and no row is redundant."""
    builder = wt.Builder("partly held", (0, -9.81, 0))
    for k, (name, parent, x) in enumerate((("a", "world", 0), ("b", "a", 1), ("pendulum", "world", 5))):
        builder.body(name, **rod(1.0, 1.0)).joint(f"j{k}", "revolute", parent, name, position=(x, 0, 0))
    builder.frame("end", "b", position=(1, 0, 0)).frame("nail", "world", position=(2, 0, 0))
    structure = constraint_set(builder.constraint("pin", "pin", "nail", "end").build()).structure
    assert (structure.mobility, structure.redundant, structure.stuck) == (1, (), False)


def test_branches_of_different_mobility():
    """x y = x z = 0 at the origin, where its plane and its line meet: rows that one of them needs are kept."""
    builder = wt.Builder("branches", (0, 0, 0)).body("p", 1.0).body("across").body("along")
    for (name, child), parent, axis in zip(
        (("x", "along"), ("y", "across"), ("z", "p")), ("world", "along", "across"), np.eye(3), strict=True
    ):
        builder.joint(name, "prismatic", parent, child, axis=axis)
    model = builder.constraint("c", "custom", "p", residual=lambda X: [X[0, 3] * X[1, 3], X[0, 3] * X[2, 3]]).build()
    structure = constraint_set(model).structure
    assert (structure.branches, structure.mobility, structure.redundant) == ((1, 2), 1, ())
    plane, line = np.array([0, 1.0, 1.0]), np.array([1.0, 0, 0])
    assert "branches with 1 and 2 degrees of freedom meet at the model's start" in str(wt.diagnose(model))
    assert "choose the branch that is meant" in str(wt.diagnose(model, plane))
    ref, force = wt.reference(model), np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(ref.forward_dynamics(line, np.zeros(3), force), [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(ref.forward_dynamics(plane, np.zeros(3), force), [0, 2, 3], atol=1e-12)


@pytest.mark.parametrize("model", [parallelogram(3, 0.5), wt.mechanisms.peaucellier(), wt.mechanisms.n_four_bar(2)])
def test_a_regular_start_is_not_searched_for_branches(model):
    assert not explore(constraint_set(model), 3).branching


def test_one_freedom_has_no_lightest_and_heaviest():
    one, two = (str(wt.diagnose(m)) for m in (wt.mechanisms.four_bar(), wt.mechanisms.double_pendulum()))
    assert "the only allowed motion: 'crank rod' about joint 'crank'" in one
    assert "heaviest" not in one
    assert "of the heaviest's inertia" in two
    assert "smallest at" not in str(wt.conditioning(wt.mechanisms.pendulum()))
