"""Problems of textbooks with an answer in closed form, to 1e-9: what rolls, and what leaves its support.

Each problem is a function that yields (what, found, expected).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ellipk

import whippletree as wt
from contact_scenes import G, after_rest, agree, ball_on, ladder, run_of, shaken, times, wheel

# --- rolling ----------------------------------------------------------------------------------------------------------


def a_sliding_ball_begins_to_roll():
    """Slip v₀ falls by 7/2 μ g; it rolls on at 5/7 v₀."""
    run = run_of(wheel(0.25), v0=[3.0, 0, 0], duration=0.6)
    yield "stick", times(run, "stick"), [2 * 3 / (7 * 0.25 * G)]
    yield "speeds", run.v.values[-1], [15 / 7, 0, -15 / 7 / 0.3]


def a_hoop_with_backspin_comes_back():
    run = run_of(wheel(0.2, share=1.0), v0=[2.0, 0, 20.0], duration=3.0)
    yield "stick", times(run, "stick"), [8 / (2 * 0.2 * G)]
    yield "speed", run.v.values[-1, 0], 2 - 8 / 2


def a_disc_rolls_where_the_slope_is_below_three_times_its_friction():
    for friction in (np.tan(0.5) / 3 + 1e-6, np.tan(0.5) / 3 - 1e-6):
        run = run_of(wheel(friction, share=0.5, slope=0.5), duration=0.5)
        rolls = np.tan(0.5) < 3 * friction
        a = 2 / 3 * G * np.sin(0.5) if rolls else G * (np.sin(0.5) - friction * np.cos(0.5))
        yield "speed", run.v.values[-1, :2] @ [np.cos(0.5), -np.sin(0.5)], a * 0.5
        yield "turn", run.v.values[-1, 2], -0.5 * (a / 0.3 if rolls else friction * G * np.cos(0.5) / (0.5 * 0.3))


def a_cue_ball_with_spin_runs_along_a_parabola():
    """Coriolis (1835): the slip keeps its direction; 2/7 of it are lost to rolling."""
    R, friction = 0.05, 0.2
    v0, omega = np.array([2.0, 0.3, 0]), np.array([30.0, 20.0, 15.0])
    run = run_of(
        ball_on(wt.Builder("cloth").geometry("table", "world", "half_space"), friction, (0, 0, R), R, 0.17),
        v0=[*omega, *v0],
    )
    slip = v0 + np.cross(omega, [0, 0, -R])
    stop, way = 2 * np.linalg.norm(slip) / (7 * friction * G), slip / np.linalg.norm(slip)
    yield "stick", times(run, "stick"), [stop]
    parabola = v0 * stop - friction * G * way * stop**2 / 2
    yield "place", run.q.values[-1, :2], (parabola + (v0 - 2 / 7 * slip) * (1 - stop))[:2]


def a_ball_on_a_turntable_runs_in_a_circle():
    """At 2/7 of the table's rate, wherever it is: its centre obeys z'' = 2/7 i Ω z'."""
    builder = wt.Builder("turntable").body("disc", 1.0, inertia=(1, 1, 1))
    builder.joint("turn", "revolute", "world", "disc", axis=(0, 0, 1)).geometry("table", "disc", "half_space")
    model = ball_on(builder.constraint("drive", "prescribed", "turn", motion=lambda t: 3 * t), 0.9, (1, 0, 0.1))
    v0 = np.zeros(model.nv)
    v0[model.slice("turn")], v0[model.slice("ball")] = 3.0, [25.0, 2.0, 0.7, 0.2, 0.5, 0]
    run = run_of(model, v0=v0, duration=3.0)
    rate = 2 / 7 * 3.0
    circle = 1 + (0.2 + 0.5j) / (1j * rate) * (np.exp(1j * rate * run.time.values) - 1)
    place = run.q.values[:, model.q_slice("ball")]
    yield "circle", place[:, :2], np.stack([circle.real, circle.imag], axis=1)


def a_ball_rolls_to_and_fro_in_a_valley():
    """A pendulum of length R − r with 7/5 of its inertia; the terrain is a half cylinder."""
    builder = wt.Builder("valley").geometry("table", "world", "terrain", height=lambda x, y: 1 - np.sqrt(1 - x * x))
    inertia, a = 0.4 * 0.04, 0.7
    builder.body("ball", 1.0, inertia=(inertia,) * 3).geometry("sphere", "ball", "sphere", radius=0.2)
    start = (1 - 0.8 * np.cos(a), 0.8 * np.sin(a), 0)
    builder.joint("ball", "planar", "world", "ball", axis=(0, 1, 0), start=start)
    model = builder.contact("ball", "sphere", "table", friction=0.9).build()
    run = run_of(model, duration=4 * np.sqrt(7 * 0.8 / (5 * G)) * ellipk(np.sin(a / 2) ** 2))
    yield "place", run.q.values[-1, :2], model.home.q[:2]


def a_coin_rolls_about_its_centre():
    """Steady precession with the centre at rest, Ω² sin α = 4 g / R; all points of the rim pass the ground."""
    R, tilt = 0.1, 0.5
    builder = wt.Builder("coin").geometry("ground", "world", "half_space")
    builder.body("coin", 0.4, inertia=(0.4 * R * R / 4, 0.4 * R * R / 4, 0.4 * R * R / 2))
    start = (0, 0, R * np.sin(tilt), np.cos(tilt / 2), np.sin(tilt / 2), 0, 0)
    builder.joint("coin", "free", "world", "coin", start=start)
    builder.geometry("face", "coin", "cylinder", radius=R, length=4e-3, position=(0, 0, 2e-3))
    model = builder.contact("rim", "face", "ground", friction=0.5).build()
    run = run_of(model, v0=[0, np.sqrt(4 * G / (R * np.sin(tilt))) * np.sin(tilt), 0, 0, 0, 0], duration=0.4)
    yield "events", times(run), []
    yield "centre", run.q.values[:, :3], np.tile(start[:3], (len(run.time), 1))


# --- leaving ----------------------------------------------------------------------------------------------------------


def a_bead_leaves_a_smooth_sphere():
    """At two thirds of its height, r cos θ = 2/3 r cos θ₀."""
    builder = wt.Builder("bead", (0, -G, 0)).geometry("table", "world", "sphere", radius=0.9)
    run = run_of(ball_on(builder, 0.0, (np.sin(0.1), np.cos(0.1))), duration=1.5)
    _, before, _ = wt.event_states(run)
    c = 2 / 3 * np.cos(0.1)
    yield "height", before[0, 1], c
    yield "time", times(run), [after_rest(lambda x: 2 * G * (np.cos(0.1) - np.cos(x)), 0.1, np.arccos(c))]


def a_ball_rolls_off_a_sphere():
    """It slips where 2 sin θ = μ (17 cos θ − 10 cos θ₀), before it would leave at cos θ = 10/17 cos θ₀."""
    builder = wt.Builder("ball on ball", (0, -G, 0)).geometry("table", "world", "sphere", radius=0.9)
    run = run_of(ball_on(builder, 0.5, (np.sin(0.1), np.cos(0.1))), duration=1.5)
    _, before, _ = wt.event_states(run)
    slips = brentq(lambda x: 0.5 * (17 * np.cos(x) - 10 * np.cos(0.1)) - 2 * np.sin(x), 0.1, 0.9, xtol=1e-15)
    yield "slip", np.arctan2(*before[0, :2]), slips
    assert run.attrs["event_names"] == ["slip ball", "lift-off ball"]


def a_ball_rolls_over_an_edge():
    """A kink: on the face it rolls, over the edge it turns about it, until friction ends it; fast, it flies at once."""
    R = 0.1

    def over(speed):
        builder = wt.Builder("edge", (0, -G, 0))
        builder.geometry("table", "world", "box", size=(2, 1, 1), position=(-1, -0.5, 0))
        return run_of(ball_on(builder, 1.2, (-0.05, R)), v0=[speed, 0, -speed / R], duration=0.45)

    run, speed = over(0.3), 0.3
    _, before, _ = wt.event_states(run)

    def rate(x):
        return np.sqrt((speed / R) ** 2 + 10 / 7 * G / R * (1 - np.cos(x)))

    slips = brentq(lambda x: 2 / 7 * G * np.sin(x) - 1.2 * (G * np.cos(x) - R * rate(x) ** 2), 1e-6, 1.5, xtol=1e-15)
    yield "slip", np.arctan2(*before[0, :2]), slips
    yield "time", times(run, "slip"), [0.05 / speed + quad(lambda x: 1 / rate(x), 0, slips, epsabs=1e-13)[0]]
    yield "flight", times(over(1.2)), [0.05 / 1.2]


def a_ladder_leaves_its_wall():
    """On smooth floor and wall: at two thirds of the height at which it was let go."""
    run = run_of(ladder(1.2), duration=0.7)
    _, before, _ = wt.event_states(run)
    yield "height", before[0, 1], 2 / 3 * np.sin(1.2)
    yield "turn", before[0, -1], np.sqrt(3 * G / 2 * np.sin(1.2) / 3)


def a_block_is_thrown_up_by_its_table():
    """It leaves where A ω² sin ωt = g and lands where the parabola meets the table again."""
    A, w = 0.05, 6 * np.pi
    run = run_of(shaken(lambda t: A * np.sin(w * t)), v0=[A * w, A * w], duration=0.3)
    up = np.arcsin(G / (A * w * w)) / w

    def above(t):
        return A * np.sin(w * up) + A * w * np.cos(w * up) * (t - up) - G / 2 * (t - up) ** 2 - A * np.sin(w * t)

    yield "lift-off, touchdown", times(run), [up, brentq(above, up + 0.05, up + 1, xtol=1e-15)]


PROBLEMS = (
    a_sliding_ball_begins_to_roll,
    a_hoop_with_backspin_comes_back,
    a_disc_rolls_where_the_slope_is_below_three_times_its_friction,
    a_cue_ball_with_spin_runs_along_a_parabola,
    a_ball_on_a_turntable_runs_in_a_circle,
    a_ball_rolls_to_and_fro_in_a_valley,
    a_coin_rolls_about_its_centre,
    a_bead_leaves_a_smooth_sphere,
    a_ball_rolls_off_a_sphere,
    a_ball_rolls_over_an_edge,
    a_ladder_leaves_its_wall,
    a_block_is_thrown_up_by_its_table,
)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.__name__)
def test_closed_form(problem):
    agree(problem)
