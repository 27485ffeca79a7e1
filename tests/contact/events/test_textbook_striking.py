"""Problems of textbooks with an answer in closed form, to 1e-9: what leans and falls, rubs, and strikes.

Each problem is a function that yields (what, found, expected).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import whippletree as wt
from contact_scenes import (
    RIGHT,
    UP,
    G,
    after_rest,
    agree,
    dumbbell,
    ground,
    ladder,
    rod,
    row_of_balls,
    run_of,
    shaken,
    slider,
    times,
    wheel,
)

# --- leaning and falling ----------------------------------------------------------------------------------------------


def a_rod_falls_on_a_smooth_floor():
    """Its centre falls straight down; its foot never leaves the floor."""
    run = run_of(rod(1.0), duration=0.6)
    rate = lambda x: 12 * G * (np.sin(1.0) - np.sin(x)) / (1.4 * (1 + 3 * np.cos(x) ** 2))  # noqa: E731
    yield "time", times(run), [after_rest(rate, 1.0, 0.0)]
    yield "centre", np.ptp(run.q.values[:, 0]), 0.0


def a_pencil_slips_backwards_or_forwards():
    """Let go near the vertical, φ₀ = 0.05: below μ ≈ 0.37 its foot slips backwards, above, later and forwards."""
    for friction, sign, duration in ((0.3, -1, 0.75), (0.8, 1, 0.97)):
        run = run_of(rod(np.pi / 2 - 0.05, friction, length=1.0, mass=1.0), duration=duration)

        def spare(x, friction=friction):
            square, turn = 3 * G * (np.cos(0.05) - np.cos(x)), 1.5 * G * np.sin(x)
            normal = G - (turn * np.sin(x) + square * np.cos(x)) / 2
            return friction * normal - abs(turn * np.cos(x) - square * np.sin(x)) / 2

        grid = np.linspace(0.05, 1.5, 2000)
        first = int(np.argmax([spare(x) < 0 for x in grid]))
        _, before, _ = wt.event_states(run)
        yield "slip", np.pi / 2 - before[0, 2], brentq(spare, grid[first - 1], grid[first], xtol=1e-15)
        yield "way", np.sign(run.v.values[-1, 0] + run.v.values[-1, 2] * np.sin(run.q.values[-1, 2]) / 2), sign


def a_pencil_falls_out_of_a_corner():
    """Floor and wall hold one point: their loads are not unique, but add up to the pencil's, and are in their cones."""
    angle, half = np.pi / 2 - 0.05, 0.5
    builder = ground("corner").geometry("wall", "world", "half_space", rotation=RIGHT)
    builder.body("pencil", 1.0, inertia=(0, 1 / 12, 1 / 12)).geometry("tip", "pencil", "point", position=(-half, 0, 0))
    builder.joint("pencil", "planar", "world", "pencil", start=(half * np.cos(angle), half * np.sin(angle), angle))
    builder.contact("on floor", "tip", "ground", friction=0.6).contact("on wall", "tip", "wall", friction=0.6)
    run = run_of(builder.build(), duration=0.8)
    x = np.pi / 2 - run.q.values[:, 2]
    square, turn = 3 * G * (np.cos(0.05) - np.cos(x)), 1.5 * G * np.sin(x)
    (floor, along, _), (wall, _, up) = np.moveaxis(run.contact_force.values, 0, 2)
    yield "upwards", floor + up, G - (turn * np.sin(x) + square * np.cos(x)) / 2
    yield "sideways", along + wall, (turn * np.cos(x) - square * np.sin(x)) / 2
    yield "in the cones", run.cone_violation.values, 0 * x


def a_leaning_ladder_stands_or_slides():
    """With friction at both ends, hyperstatic: it stands where tan θ ≥ (1 − μ₁ μ₂) / 2 μ₁."""
    limit = np.arctan((1 - 0.4 * 0.3) / (2 * 0.4))
    for lean in (1e-3, -1e-3):
        run = run_of(ladder(limit + lean, 0.4, 0.3), duration=0.2)
        yield "stands", np.ptp(run.q.values, axis=0).max() < 1e-12, lean > 0


def three_cylinders_stand_on_each_other():
    """If friction is tan 15° between them and a third of it on the ground; each carries half of the upper one."""
    t = np.tan(np.pi / 12)
    for on_ground, between, stands in ((1.01 * t / 3, 1.01 * t, True), (0.99 * t / 3, 2 * t, False)):
        builder = ground("three cylinders")
        for name, x, y in (("left", -0.1, 0.1), ("right", 0.1, 0.1), ("top", 0, 0.1 + 0.1 * np.sqrt(3))):
            builder.body(name, 1.0, inertia=(0.0025, 0.0025, 0.005)).geometry(name, name, "sphere", radius=0.1)
            builder.joint(name, "planar", "world", name, start=(x, y, 0))
        for name in ("left", "right"):
            builder.contact(f"{name} on ground", name, "ground", friction=on_ground)
            builder.contact(f"top on {name}", "top", name, friction=between)
        run = run_of(builder.build(), duration=0.05)
        yield "stands", np.ptp(run.q.values, axis=0).max() < 1e-12, stands
        if stands:
            yield "loads", run.contact_force.values[-1, ::2, 0], [1.5 * G, 1.5 * G]


# --- rubbing ----------------------------------------------------------------------------------------------------------


def a_spring_and_dry_friction():
    """Each half swing is a cosine about ±μ m g / k: the amplitude falls by twice that until it sticks."""
    run = run_of(slider(0.15, start=0.6, stiffness=50.0), duration=4.0)
    lag = 0.15 * 2 * G / 50
    swings = np.arange(1, int(np.ceil((0.6 - lag) / (2 * lag))) + 1)
    _, before, _ = wt.event_states(run)
    yield "times", times(run), np.pi / 5 * swings
    yield "ends", before[:, 0], (-1.0) ** swings * (0.6 - 2 * lag * swings)
    assert [name.split()[0] for name in run.attrs["event_names"]] == ["reversal"] * (len(swings) - 1) + ["stick"]


def a_crate_on_a_table_that_is_pulled_away():
    """The table's acceleration grows as 4 t; the crate, on four corners, slips at μ g."""
    builder = wt.Builder("crate", (0, -G, 0)).body("table", 1.0).body("crate", 2.0, inertia=(1, 1, 1))
    builder.joint("pull", "prismatic", "world", "table", axis=(1, 0, 0)).geometry(
        "top", "table", "half_space", rotation=UP
    )
    builder.joint("crate", "planar", "world", "crate", start=(0, 0.1, 0)).geometry(
        "box", "crate", "box", size=(0.4, 0.2, 0.2)
    )
    builder.contact("crate", "box", "top", friction=0.35)
    run = run_of(
        builder.constraint("drive", "prescribed", "pull", motion=lambda t: 4 * t * t * t / 6).build(), duration=1.2
    )
    slip = 0.35 * G / 4
    yield "slip", times(run)[:1], [slip]
    late = 1.2 - slip
    yield "place", run.q.values[-1, 1], 4 * slip**3 / 6 + 2 * slip**2 * late + 0.35 * G * late**2 / 2


def a_stool_spins_on_three_legs():
    """α = μ g m r / I; all three slips turn, and end together."""
    builder = (
        wt.Builder("stool").geometry("ground", "world", "half_space").body("stool", 3.0, inertia=(0.05, 0.05, 0.0675))
    )
    builder.joint("stool", "free", "world", "stool", start=(0, 0, 0.3, 1, 0, 0, 0))
    for k, angle in enumerate(2 * np.pi / 3 * np.arange(3)):
        builder.geometry(f"leg {k}", "stool", "point", position=(0.2 * np.cos(angle), 0.2 * np.sin(angle), -0.3))
        builder.contact(f"leg {k}", f"leg {k}", "ground", friction=0.3)
    run = run_of(builder.build(), v0=[0, 0, 4.0, 0, 0, 0], duration=0.3)
    stop = 4.0 / (0.3 * G * 3 * 0.2 / 0.0675)
    yield "stop", times(run), [stop] * 3
    yield "turned by", 2 * np.arctan2(run.q.values[-1, 6], run.q.values[-1, 3]), 2 * stop


# --- striking ---------------------------------------------------------------------------------------------------------


def a_ball_with_spin_bounces():
    """Stronge's law: the tangential impulse stops the slip, 2/7 of it, or is μ times the normal one."""
    for friction in (0.8, 0.1):
        run = run_of(wheel(friction, restitution=0.7, height=1.0), v0=[2.0, 0, 1.5], duration=0.5)
        _, _, after = wt.event_states(run)
        down = np.sqrt(2 * G)
        push = -min((2.0 + 1.5 * 0.3) * 2 / 3.5, friction * 2 * 1.7 * down)
        yield "after", after[0, 3:], [2 + push / 2, 0.7 * down, 1.5 + push / (0.8 * 0.3)]


def a_thrown_block_hops_slides_and_stops():
    """From rest to rest the ground's normal impulse is m g T, whatever the hops: it stops after v / μ g."""
    builder = ground("skipping stone").body("carriage").body("stone", 1.0).geometry("stone", "stone", "point")
    builder.joint("x", "prismatic", "world", "carriage", axis=(1, 0, 0))
    builder.joint("y", "prismatic", "carriage", "stone", axis=(0, 1, 0), start=0.2)
    model = builder.contact("hop", "stone", "ground", friction=0.1, restitution=0.5).build()
    run = run_of(model, v0=[4.0, 0], duration=4.2)
    yield "rest", times(run, "zeno"), [np.sqrt(0.4 / G) * 3]
    yield "stop", times(run, "stick"), [4 / (0.1 * G)]


def a_dumbbell_falls_on_one_end():
    run = run_of(dumbbell(0.6), duration=0.6)
    fall = np.sqrt(2 * (1.9 - 0.5 * np.sin(0.6)) / G)
    arm = 0.5 * np.cos(0.6)
    push = 1.9 * G * fall / (1 / 2 + arm**2 / 0.5)
    _, _, after = wt.event_states(run)
    yield "time", times(run), [fall]
    yield "after", after[0, 3:], [0, -G * fall + push / 2, -push * arm / 0.5]


def a_wheel_climbs_a_kerb_or_falls_back():
    """About the kerb's edge the angular momentum is kept: ω⁺ = ω (1 + k − h / R) / (1 + k)."""
    R, h, k = 0.3, 0.08, 0.5
    for speed in (1.0, 2.0):
        builder = ground("kerb").geometry("kerb", "world", "box", size=(2, 2 * h, 1), position=(1.4, 0, 0))
        builder.body("wheel", 2.0, inertia=(0.045, 0.045, 0.09)).geometry("rim", "wheel", "sphere", radius=R)
        builder.joint("wheel", "planar", "world", "wheel", start=(0, R, 0))
        builder.contact("on ground", "rim", "ground", friction=5.0).contact("on kerb", "rim", "kerb", friction=5.0)
        run = run_of(builder.build(), v0=[speed, 0, -speed / R], duration=0.9)
        _, _, after = wt.event_states(run)
        rate = speed / R * (1 + k - h / R) / (1 + k)
        yield "time", times(run)[0], (0.4 - np.sqrt(R * R - (R - h) ** 2)) / speed
        yield "after", after[0, -1], -rate
        yield "climbs", run.q.values[-1, 1] > R + h - 1e-9, (1 + k) * (R * rate) ** 2 / 2 > G * h


def as_many_balls_leave_a_row_as_arrive():
    for count in (2, 3):
        model = row_of_balls([1.0] * 5)
        q0, v0 = np.array(model.home.q), np.zeros(5)
        q0[:count] -= 0.1
        v0[:count] = 1.0
        run = run_of(model, v0=v0, q0=q0, duration=0.3, impact_law="sequential")
        yield "speeds", run.v.values[-1], v0[::-1]


def balls_dropped_on_each_other():
    """A light ball on a heavy one leaves at three times its speed; a third of the mass takes all of the energy."""
    for light, expected in ((1e-10, [1, 3]), (1 / 3, [0, 2])):
        builder = ground("tower")
        for k, (mass, y) in enumerate(((1.0, 1.1), (light, 1.3))):
            builder.body(f"ball {k}", mass).geometry(f"ball {k}", f"ball {k}", "sphere", radius=0.1)
            builder.joint(f"y{k}", "prismatic", "world", f"ball {k}", axis=(0, 1, 0), start=y)
            builder.contact(f"ball {k}", f"ball {k}", "ground" if k == 0 else "ball 0", restitution=1.0)
        run = run_of(builder.build(), duration=0.46, impact_law="sequential")
        _, _, after = wt.event_states(run)
        yield "speeds", after[-1, 2:] / np.sqrt(2 * G), expected


def a_ball_bounces_in_step_with_its_table():
    """Period one: it leaves at g T / 2 where A ω² cos φ = π g (1 − e) / (1 + e)."""
    e, w = 0.8, 10 * np.pi
    A = 1.2 * np.pi * G * (1 - e) / (1 + e) / w**2
    phase, period = np.arccos(1 / 1.2), 2 * np.pi / w
    model = shaken(lambda t: A * np.sin(w * t + phase), restitution=e)
    run = run_of(model, v0=[A * w / 1.2, G * period / 2], q0=[A * np.sin(phase)] * 2, duration=5.5 * period)
    yield "bounces", times(run), period * np.arange(1, 6)


def a_mass_on_a_spring_strikes_a_wall():
    """At its place of rest: half a period from blow to blow, e of the speed left."""
    builder = wt.Builder("striker", (0, 0, 0)).geometry("wall", "world", "half_space", rotation=RIGHT).body("mass", 1.5)
    builder.joint("x", "prismatic", "world", "mass", axis=(1, 0, 0), start=0.4, stiffness=30.0)
    model = builder.geometry("tip", "mass", "point").contact("blow", "tip", "wall", restitution=0.6).build()
    run = run_of(model, duration=3.0)
    _, _, after = wt.event_states(run)
    w, count = np.sqrt(20.0), np.arange(len(after))
    yield "times", times(run), np.pi / w * (count + 0.5)
    yield "speeds", after[:, 1], 0.4 * w * 0.6 ** (count + 1)


PROBLEMS = (
    a_rod_falls_on_a_smooth_floor,
    a_pencil_slips_backwards_or_forwards,
    a_pencil_falls_out_of_a_corner,
    a_leaning_ladder_stands_or_slides,
    three_cylinders_stand_on_each_other,
    a_spring_and_dry_friction,
    a_crate_on_a_table_that_is_pulled_away,
    a_stool_spins_on_three_legs,
    a_ball_with_spin_bounces,
    a_thrown_block_hops_slides_and_stops,
    a_dumbbell_falls_on_one_end,
    a_wheel_climbs_a_kerb_or_falls_back,
    as_many_balls_leave_a_row_as_arrive,
    balls_dropped_on_each_other,
    a_ball_bounces_in_step_with_its_table,
    a_mass_on_a_spring_strikes_a_wall,
)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.__name__)
def test_closed_form(problem):
    agree(problem)
