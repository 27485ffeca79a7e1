"""Saltation matrices against finite differences of whole runs through an event."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.impact.impact_derivatives import derivative, saltation_matrix
from whippletree.simulation.events.event_log import saltation_matrices

TIGHT = {"method": "events", "rtol": 1e-12, "atol": 1e-13}


@pytest.mark.slow
def test_bouncing_ball_in_closed_form():
    """Under δ = (δy, δv): S = [[−e, 0], [−g (1 + e) / v⁻, −e]] with v⁻ < 0 the speed of arrival."""
    e, g = 0.5, 9.81
    run = wt.simulate(wt.mechanisms.bouncing_ball(height=1.0, restitution=e), duration=0.6, **TIGHT)
    times, S = saltation_matrices(run)
    arrival = -np.sqrt(2 * g)
    assert times[0] == pytest.approx(np.sqrt(2 / g), abs=1e-12)
    assert np.allclose(S[0], [[-e, 0], [-g * (1 + e) / arrival, -e]], atol=1e-8)


def stop_pendulum():
    """A double pendulum whose tip hits a wall, with friction: nothing about it is special."""
    wall = np.array([[0, 0, -1.0], [0, 1, 0], [1.0, 0, 0]])
    return (
        wt.Builder("pendulum at a wall", (0, -9.81, 0))
        .geometry("wall", "world", "half_space", position=(0.6, 0, 0), rotation=wall)
        .body("upper", 1.0, (0, -0.5, 0), (0.1, 0.1, 0.1))
        .body("lower", 0.7, (0, -0.3, 0), (0.05, 0.05, 0.05))
        .joint("shoulder", "revolute", "world", "upper", start=-0.5)
        .joint("elbow", "revolute", "upper", "lower", position=(0, -1.0, 0), start=0.3)
        .geometry("tip", "lower", "sphere", position=(0, -0.6, 0), radius=0.05)
        .contact("strike", "tip", "wall", friction=0.2, restitution=0.6)
        .build()
    )


@pytest.mark.slow
def test_a_pendulum_that_hits_a_wall():
    model = stop_pendulum()
    compiled = wt.compile(model)
    flying = replace(model, contacts=())
    y0 = np.concatenate([model.home.q, [2.0, 1.0]])

    def end(y, duration, **settings):
        run = wt.simulate(
            model, y[:2], y[2:], duration=duration, compiled=compiled, output_dt=duration, **TIGHT, **settings
        )
        return np.concatenate([run["q"].values[-1], run["v"].values[-1]]), run

    _, run = end(y0, 0.8)
    times, S = saltation_matrices(run)
    assert run.attrs["event_names"][0] == "touchdown strike"
    event, margin = times[0], 0.02
    start, _ = end(y0, event - margin)

    def smooth(y, duration):
        run = wt.simulate(flying, y[:2], y[2:], duration=duration, method="adaptive", rtol=1e-12, atol=1e-13,
                          output_dt=duration)  # fmt: skip
        return np.concatenate([run["q"].values[-1], run["v"].values[-1]])

    through = derivative(lambda d: end(start + d, 2 * margin, saltation=False)[0], 4)
    from whippletree.simulation.events.event_log import event_states

    _, before, after = event_states(run)
    arriving = derivative(lambda d: smooth(start + d, margin), 4)
    leaving = derivative(lambda d: smooth(after[0] + d, margin), 4)
    assert np.allclose(smooth(start, margin), before[0], atol=1e-9)
    assert np.allclose(leaving @ S[0] @ arriving, through, atol=1e-6, rtol=1e-6)


def test_nothing_jumps_nothing_changes():
    assert np.array_equal(saltation_matrix(np.eye(4), np.zeros(4), np.ones(4), 2.0), np.eye(4))


def stick_slip():
    """A block on the ground that slides with friction, and a mass on a spring on it."""
    ground = ((1, 0, 0), (0, 0, 1), (0, -1, 0))
    return (
        wt.Builder("stick and slip", (0, -9.81, 0))
        .geometry("ground", "world", "half_space", rotation=ground)
        .body("carriage", 0.5)
        .body("block", 1.0)
        .body("mass", 0.7)
        .joint("x", "prismatic", "world", "carriage", axis=(1, 0, 0))
        .joint("y", "prismatic", "carriage", "block", axis=(0, 1, 0))
        .joint("spring", "prismatic", "block", "mass", axis=(1, 0, 0), stiffness=120.0, start=0.05)
        .geometry("base", "block", "point")
        .contact("base on ground", "base", "ground", friction=0.3)
        .build()
    )


@pytest.mark.slow
@pytest.mark.parametrize(("event", "columns"), [("stick", [0, 2, 3, 5]), ("slip", [0, 2, 5])])
def test_slip_and_stick(event, columns):
    """S of the end and of the onset of slip against differences of runs from a little before to a little after."""
    model = stick_slip()
    compiled = wt.compile(model)

    def end(y, duration):
        run = wt.simulate(
            model, y[:3], y[3:], duration=duration, compiled=compiled, output_dt=duration, saltation=False, **TIGHT
        )
        return np.concatenate([run["q"].values[-1], run["v"].values[-1]])

    start = np.array([0, 0, 0.15, 0.5, 0, 0])
    run = wt.simulate(model, start[:3], start[3:], duration=1.0, compiled=compiled, **TIGHT)
    times, S = saltation_matrices(run)
    names = run.attrs["contact_event_kinds"]
    at = run.attrs["contact_event_times"][names.index(event)]
    matrix = S[int(np.argmin(np.abs(times - at)))]

    def through(margin):
        before = end(start, at - margin)
        step = np.eye(6)[columns] * 1e-5
        return np.array([(end(before + d, 2 * margin) - end(before - d, 2 * margin)) / 2e-5 for d in step]).T

    # what the smooth motion adds falls with the margin: extrapolated to none
    measured = (through(4e-4) - 6 * through(2e-4) + 8 * through(1e-4)) / 3
    assert np.allclose(measured, matrix[:, columns], atol=1e-5)


@pytest.mark.slow
def test_landing_on_two_feet_at_once_has_no_matrix():
    """Which foot lands first decides how the biped goes on: no matrix says both, and the run tells why."""
    run = wt.simulate(wt.mechanisms.planar_biped(height=0.05), duration=0.15, **TIGHT)
    times, S = saltation_matrices(run)
    assert len(times) == 1
    assert np.all(np.isnan(S))
    (reason,) = run.attrs["saltation_missing"]
    assert reason == (
        "touchdown left foot on ground and touchdown right foot on ground at one instant: what follows depends on "
        "which comes first"
    )


def corner_ball(friction):
    """A disc that meets floor and wall at one instant."""
    floor, wall = [[1, 0, 0], [0, 0, 1], [0, -1, 0]], [[0, 0, -1.0], [0, 1, 0], [1.0, 0, 0]]
    return (
        wt.Builder("disc in a corner", (0, 0, 0))
        .geometry("floor", "world", "half_space", rotation=floor)
        .geometry("wall", "world", "half_space", position=(1.0, 0, 0), rotation=wall)
        .body("disc", 1.0, inertia=(0.01, 0.01, 0.01))
        .joint("disc", "planar", "world", "disc", start=(0.4, 0.6, 0))
        .geometry("rim", "disc", "sphere", radius=0.1)
        .contact("on floor", "rim", "floor", friction=friction, restitution=0.5)
        .contact("on wall", "rim", "wall", friction=friction, restitution=0.5)
        .build()
    )


def test_floor_and_wall_at_once_commute_without_friction():
    """At a right angle and without friction the order does not matter: S = (e reversal of both) exists."""
    run = wt.simulate(corner_ball(0.0), v0=[1.0, -1.0, 0.3], duration=0.8, **TIGHT)
    assert run.attrs["contact_event_kinds"] == ["touchdown", "touchdown"]
    assert run.attrs["saltation_missing"] == [""]
    _, S = saltation_matrices(run)
    turn = np.diag([-0.5, -0.5, 1.0])
    assert np.allclose(S[0], np.block([[turn, np.zeros((3, 3))], [np.zeros((3, 3)), turn]]), atol=1e-9)


def test_floor_and_wall_at_once_do_not_commute_with_friction():
    run = wt.simulate(corner_ball(0.3), v0=[1.0, -1.0, 3.0], duration=0.52, impact_law="energetic", **TIGHT)
    assert "depends on which comes first" in run.attrs["saltation_missing"][0]
