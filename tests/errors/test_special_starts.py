"""Configurations that are special: where nothing can move, on another branch, half a turn away, already in motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.model import State


def rods_in_line(angle=0.0, gravity=(0, -9.81, 0)):
    """Two rods of 1 kg and 1 m between two pins 2 m apart: they cannot move, and to first order they can."""
    builder = wt.Builder("rods", gravity)
    for k, (name, parent) in enumerate((("first", "world"), ("second", "first"))):
        builder.body(name, 1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12))
        builder.joint(f"j{k}", "revolute", parent, name, position=(k, 0, 0), start=0 if k else angle)
    builder.frame("end", "second", position=(1, 0, 0))
    builder.frame("nail", "world", position=(2 * np.cos(angle), 2 * np.sin(angle), 0))
    return builder.constraint("pin", "pin", "nail", "end").build()


@pytest.mark.slow
def test_a_load_that_no_finite_force_withstands_is_refused():
    model = rods_in_line()
    found = wt.diagnose(model)
    assert (found.freedoms, found.mobility, found.stuck, found.fine) == (0, 1, True, False)
    assert "nothing can move, but no finite force withstands a load along what the first-order rows allow" in str(found)
    message = "its constraints let nothing move, though their first-order rows do .* weld the joints that cannot move"
    with pytest.raises(wt.SingularSystemError, match=message):
        wt.reference(model).forward_dynamics(model.home.q, np.zeros(2), np.zeros(2))
    with pytest.raises(wt.SingularSystemError, match=message):
        wt.simulate(model, duration=1.0)


@pytest.mark.slow
def test_a_load_along_the_rods_is_borne():
    """They stand on the lower pin and hang from the upper one; the least force that does it is carried by the nail."""
    model = rods_in_line(np.pi / 2)
    ref = wt.reference(model)
    np.testing.assert_allclose(ref.forward_dynamics(model.home.q, np.zeros(2), np.zeros(2)), 0, atol=1e-14)
    run = wt.simulate(model, duration=0.01)
    np.testing.assert_allclose(run.q.values[-1], model.home.q, atol=1e-12)


def test_a_loop_that_moves_is_not_stuck_at_its_dead_point():
    found = wt.diagnose(replace(wt.mechanisms.n_four_bar(2), start=State(np.zeros(5), np.zeros(5))))
    assert (found.freedoms, found.mobility, found.stuck) == (1, 3, False)


def two_branches(start):
    """x y = x z = 0: a plane, in which the second row is redundant, and a line, on which it is not."""
    builder = wt.Builder("branches", (0, 0, 0)).body("p", 1.0).body("across").body("along")
    for name, parent, child, axis, value in zip(
        "xyz", ("world", "along", "across"), ("along", "across", "p"), np.eye(3), start, strict=True
    ):
        builder.joint(name, "prismatic", parent, child, axis=axis, start=value)
    return builder.constraint("c", "custom", "p", residual=lambda X: [X[0, 3] * X[1, 3], X[0, 3] * X[2, 3]]).build()


def test_rows_that_another_branch_needs_are_named():
    plane, line = np.array([0, 1.0, 1.0]), np.array([1.0, 0, 0])
    model = two_branches(plane)
    assert wt.diagnose(model).fine
    found = wt.diagnose(model, line)
    assert (found.astray, found.fine) == (("c.row_1",), False)
    assert "left out, but not redundant here: c.row_1. The mechanism has several branches" in str(found)
    run = wt.simulate(model, line, np.zeros(3), duration=0.1, controller=lambda t, q, v: np.array([0, 0, 1.0]))
    assert "another branch than the model's start" in run.attrs["failure"]
    there = replace(model, start=State(line, np.zeros(3)))
    assert (wt.diagnose(there).fine, wt.diagnose(there).freedoms, wt.diagnose(model).freedoms) == (True, 1, 2)
    np.testing.assert_allclose(wt.reference(there).forward_dynamics(line, np.zeros(3), np.ones(3)), [1, 0, 0])


@pytest.mark.parametrize("kind", ["weld", "hinge", "slider", "cylindrical"])
def test_frames_that_must_coincide_and_are_half_a_turn_apart(kind):
    builder = wt.Builder("flipped").body("b", 1.0, inertia=(1, 1, 1)).joint("j", "free", "world", "b")
    builder.frame("f", "world", rotation=np.diag([1, -1, -1]))
    model = builder.constraint("c", kind, "f", "b").build()
    np.testing.assert_allclose(np.linalg.norm(wt.reference(model).constraint_residual(model.neutral.q)), 2)
    np.testing.assert_allclose(wt.reference(model).constraint_residual(model.home.q), 0, atol=1e-11)
    assert wt.diagnose(model).fine


def test_a_disc_that_lies_flat_is_set_upright():
    builder = wt.Builder("coin").body("b", 1.0, inertia=(1, 1, 2)).joint("j", "free", "world", "b")
    model = builder.constraint("ground", "rolling", "world", "b", radius=0.3, axis=(0, 0, 1)).build()
    assert abs(wt.reference(model).constraint_residual(model.home.q)[0]) < 1e-11


def test_a_quaternion_of_zeros():
    builder = wt.Builder("ball").body("b", 1.0, inertia=(1, 1, 1))
    with pytest.raises(wt.ModelError, match=r"joint 'j': start has a quaternion of zeros: no turn is 1, 0, 0, 0"):
        builder.joint("j", "spherical", "world", "b", start=(0, 0, 0, 0)).build()
    builder = wt.Builder("ball").body("b", 1.0, inertia=(1, 1, 1))
    model = builder.joint("j", "spherical", "world", "b", start=(3, 0, 4, 0)).build()
    np.testing.assert_allclose(model.home.q, (0.6, 0, 0.8, 0))
    for ask in (wt.assemble, wt.diagnose):
        with pytest.raises(ValueError, match=r"has a quaternion of zeros at joint 'j': no turn is 1, 0, 0, 0"):
            ask(model, np.zeros(4))
    assert np.all(np.isnan(wt.reference(model).pose("b")(np.zeros(4))[:3, :3]))


def test_a_motor_that_turns_from_the_first_moment_on():
    """The home state has its velocity, and the loop's: a crank of 0.5 m on a rod of 1 m, at a right angle."""
    model = wt.mechanisms.crank_slider(0.5, rod_length=1.0, angle=np.pi / 2)
    drive = wt.Builder("x").constraint("motor", "prescribed", "crank", motion=lambda t: np.pi / 2 + 3 * t)
    model = replace(model, constraints=(*model.constraints, *drive._constraints))
    np.testing.assert_allclose(model.home.v[model.slice("crank")], 3.0, rtol=1e-12)
    np.testing.assert_allclose(wt.reference(model).constraint_velocity(model.home.q, model.home.v, 0.0), 0, atol=1e-12)
    run = wt.simulate(model, duration=0.5)
    slide = 0.5 * np.cos(np.pi / 2 + 1.5) + np.sqrt(1 - (0.5 * np.sin(np.pi / 2 + 1.5)) ** 2)
    np.testing.assert_allclose(run.q.values[-1][model.q_slice("slider")], slide, rtol=1e-9)


@pytest.mark.slow
def test_many_bodies_are_diagnosed_without_a_mass_matrix():
    found = wt.diagnose(wt.mechanisms.chain(1200))
    assert (found.freedoms, found.massless, found.fine) == (1200, (), True)
    assert np.isnan(found.condition)
    assert "every joint carries inertia; single motions are looked at for up to 1000 velocities" in str(found)
    with pytest.raises(wt.UnsupportedError, match=r"conditioning: model .* has 4001 velocities"):
        wt.conditioning(wt.mechanisms.chain(4001))
