"""Torsional and rolling friction: closed forms, one problem by every way, files, and what does not take it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from contact_problems import mixed_problem
from whippletree.contact.problem.cones import natural_map
from whippletree.contact.problem.contact_problem import LoadedDiscs, block_mass
from whippletree.contact.problem.solver import solve
from whippletree.contact.time_step import ContactBlocks
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_kernel import StepPlan, kernel_steps
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep, sweeps

MASS, RADIUS, G = 2.0, 0.1, 9.81
INERTIA = 0.4 * MASS * RADIUS**2
TOLERANCE, H = 1e-10, 1e-3


def ball(slope: float = 0.0, friction: float = 0.8, **moments: float) -> wt.Model:
    builder = wt.Builder("ball", (G * np.sin(slope), 0, -G * np.cos(slope)))
    builder.body("ball", MASS, inertia=(INERTIA,) * 3)
    builder.joint("free", "free", "world", "ball", start=(0, 0, RADIUS, 1, 0, 0, 0))
    builder.geometry("skin", "ball", "sphere", radius=RADIUS).geometry("floor", "world", "half_space")
    return builder.contact("rest", "skin", "floor", friction=friction, **moments).build()


def stepped(model: wt.Model, v0: list[float] | None, duration: float, step: float = H):
    return wt.simulate(model, v0=v0, duration=duration, step=step, method="time_stepping", tolerance=TOLERANCE)


# --- closed forms ---


def test_a_spinning_ball_stops_after_its_spin_over_the_torque() -> None:
    rho, spin = 0.01, 5.0
    stop = spin * INERTIA / (rho * MASS * G)
    run = stepped(ball(torsional=rho, rolling=0.002), [0, 0, spin, 0, 0, 0], 0.3)
    t = run.time.values
    assert run.v.values[:, 2] == pytest.approx(np.maximum(spin * (1 - t / stop), 0.0), abs=rho * MASS * G / INERTIA * H)
    assert run.v.values[t < stop, 2] == pytest.approx(spin * (1 - t[t < stop] / stop), abs=1e-9)
    moment = run.contact_moment.values
    assert moment[1:][t[1:] < stop - H, 0, 0] == pytest.approx(-rho * MASS * G, rel=1e-9)
    assert np.abs(moment[t > stop + H]).max() == 0
    assert run.energy_balance.values[-1] == pytest.approx(0.0, abs=1e-12)


def test_a_rolling_ball_slows_down_by_five_sevenths_of_g_rho_over_r() -> None:
    rho, speed = 0.002, 1.0
    run = stepped(ball(rolling=rho, torsional=0.01), [0, speed / RADIUS, 0, speed, 0, 0], 0.5)
    found = run.v.values[:, 1] * RADIUS
    assert found == pytest.approx(speed - 5 / 7 * G * rho / RADIUS * run.time.values, abs=1e-9)


@pytest.mark.parametrize("share", [0.95, 1.05])
def test_a_ball_rests_on_slopes_below_rho_over_r(share: float) -> None:
    rho = 0.002
    slope = np.arctan(share * rho / RADIUS)
    run = stepped(ball(slope, rolling=rho), None, 0.5)
    speed = np.linalg.norm(run.v.values[-1, 3:])
    if share < 1:
        assert speed < 1e-12
        assert run.contact_moment.values[-1, 0, 1:] == pytest.approx(
            [0.0, -MASS * G * np.sin(slope) * RADIUS], abs=1e-9
        )
    else:
        assert speed == pytest.approx(5 / 7 * G * (np.sin(slope) - rho / RADIUS * np.cos(slope)) * 0.5, rel=1e-6)


def test_sliding_then_rolling_then_rest_is_of_first_order() -> None:
    """Sliding, the moment takes from the spin that friction gives; rolling, it slows the ball down to its rest."""
    mu, rho, speed = 0.3, 0.01, 2.0
    gained = (mu * RADIUS - rho) * MASS * G / INERTIA  # angular acceleration while it slides
    grips = speed / (mu * G + gained * RADIUS)
    rolls, slowing = speed - mu * G * grips, 5 / 7 * G * rho / RADIUS
    exact = speed * grips - mu * G * grips**2 / 2 + rolls**2 / (2 * slowing)
    end = grips + rolls / slowing + 0.1
    errors = []
    for step in end / np.array([100, 200, 400, 800]):
        run = stepped(ball(friction=mu, rolling=rho), [0, 0, 0, speed, 0, 0], end, step)
        errors.append(abs(run.q.values[-1, 0] - exact))
        assert np.abs(run.v.values[-1]).max() < 1e-9
    slope = np.polyfit(np.log([100, 200, 400, 800]), np.log(errors), 1)[0]
    assert slope < -0.8
    assert errors[-1] < 5e-3


@pytest.mark.parametrize("below", ["half_space", "box"])
def test_faces_without_friction_are_slowed_down_by_all_their_corners_together(below: str) -> None:
    """Loads of four corners are not unique, their sum is; upon a box the kernel has an interior-point method, too."""
    rho, inertia = 0.01, 0.02
    b = wt.Builder("plate").body("plate", MASS, inertia=(0.01, 0.01, inertia))
    b.joint("free", "free", "world", "plate", start=(0, 0, 0.05, 1, 0, 0, 0))
    b.geometry("plate", "plate", "box", size=(0.4, 0.3, 0.1))
    size = {} if below == "half_space" else {"size": (1, 1, 1), "position": (0, 0, -0.5)}
    b.geometry("table", "world", below, **size)
    run = stepped(b.contact("lies", "plate", "table", torsional=rho).build(), [0, 0, 3.0, 0, 0, 0], 0.1)
    assert run.attrs["path"] == "compiled"
    assert run.v.values[:, 2] == pytest.approx(3.0 - rho * MASS * G / inertia * run.time.values, abs=1e-7)


def test_reactions_know_the_moments_of_contacts() -> None:
    """A foot that an arm leads round presses on the floor: the slider between them carries what stops them both."""
    rho, foot, arm, mass = 0.02, 0.03, 0.05, 2.0
    b = wt.Builder("drill").body("arm", 1.0, inertia=(0.1, 0.1, arm)).body("foot", mass, inertia=(0.1, 0.1, foot))
    b.joint("turn", "revolute", "world", "arm", axis=(0, 0, 1))
    b.joint("press", "prismatic", "arm", "foot", axis=(0, 0, 1), start=0.1)
    b.geometry("sole", "foot", "sphere", radius=0.1).geometry("floor", "world", "half_space")
    model = b.contact("drill", "sole", "floor", friction=0.5, torsional=rho).build()
    run = wt.simulate(model, v0=[20.0, 0.0], duration=0.1, method="time_stepping", reactions=True)
    slowing = rho * mass * G / (arm + foot)
    assert run.v.values[-1, 0] == pytest.approx(20.0 - slowing * 0.1, abs=1e-9)
    carried = run.joint_reactions.sel(reaction="press").values[5]
    assert carried[:3] == pytest.approx([0, 0, rho * mass * G - foot * slowing], abs=1e-9)


# --- one problem, every way ---


def things() -> wt.Model:
    """A log, a ball and a bar that touch the floor and each other, each pair with moments of its own.

    No body rests on more than two points, whose loads are unique: friction of a body that slides depends on them.
    """
    along_x, along_y = np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]]), np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    b = wt.Builder("things").geometry("floor", "world", "half_space")
    for name, x, z in (("log", 0.0, 0.1), ("ball", 0.35, 0.1), ("bar", -0.4, 0.06)):
        b.body(name, 1.0, inertia=(0.01, 0.012, 0.015))
        b.joint(f"free {name}", "free", "world", name, start=(x, 0, z, 1, 0, 0, 0))
    b.geometry("log", "log", "capsule", radius=0.1, length=0.3, rotation=along_x)
    b.geometry("bar", "bar", "capsule", radius=0.05, length=0.3, rotation=along_y)
    b.geometry("ball", "ball", "sphere", radius=0.1)
    for first, second, torsional, rolling in (
        ("log", "floor", 0.01, 0.0),
        ("ball", "floor", 0.02, 0.003),
        ("bar", "floor", 0.0, 0.004),
        ("ball", "log", 0.01, 0.002),
    ):
        b.contact(f"{first} on {second}", first, second, friction=0.5, torsional=torsional, rolling=rolling)
    return b.build()


@pytest.mark.slow
def test_machine_code_and_python_take_the_same_steps() -> None:
    stepper = ImpulseStep(Motion(wt.compile(things())), TOLERANCE)
    assert stepper.kernel
    model, rng = stepper.model, np.random.default_rng(3)
    y = np.concatenate([model.home.q, rng.normal(size=model.nv)])
    impulses, used = np.zeros((stepper.blocks.count, 3)), set()
    for _ in range(60):
        mine = stepper.step(0.0, y, impulses, np.zeros(model.nv), H)
        found = kernel_steps(stepper, y, impulses, StepPlan(np.array([H]), np.zeros(model.nv)))
        assert found.number == 1
        assert found.states[0] == pytest.approx(mine.state, abs=1e-7)
        y, impulses = mine.state, mine.impulses
        moments = impulses[stepper.blocks.first_moment : stepper.blocks.passive]
        used |= set(np.flatnonzero(np.abs(moments).max(axis=1)))
    assert len(used) >= 4


def test_sweeps_written_out_take_them_too() -> None:
    model = ball(rolling=0.002, torsional=0.01)
    dyn = wt.compile(model)
    v0 = np.array([[0.0, 10.0, 3.0, 1.0, 0.0, 0.0], [4.0, 0.0, -2.0, 0.0, 0.5, 0.0]])
    q0 = np.tile(model.home.q, (2, 1))
    found = dyn.contact_rollout(q0, v0, np.zeros((50, model.nv)), H, sweeps=40)
    for run in range(2):
        one = stepped(model, v0[run].tolist(), 50 * H)
        assert found.v[run, -1] == pytest.approx(one.v.values[-1], abs=1e-8)
    batch = wt.simulate(model, q0=q0, v0=v0, duration=50 * H, step=H, method="time_stepping")
    assert batch.v.values[-1] == pytest.approx(found.v[:, -1], abs=1e-8)


@pytest.mark.parametrize("seed", range(30))
def test_random_problems_with_moments_are_solved(seed: int) -> None:
    problem = mixed_problem(seed, spread=2.0, most=12)
    rng, k = np.random.default_rng(seed), problem.blocks
    contacts = np.flatnonzero((problem.friction > 0) & (np.abs(problem.g[:, 0]) > 0))
    if not len(contacts):
        return
    # discs take over the rows of further blocks, and follow contacts of the same problem
    moments = rng.choice(contacts, min(len(contacts), 4), replace=False)
    G, n = problem.matrix, 3 * k
    T = np.eye(n)
    extra = np.concatenate([rng.normal(size=(2, n)) @ T / np.sqrt(n) for _ in moments])
    rows = np.concatenate(
        [T, np.concatenate([np.insert(extra[2 * i : 2 * i + 2], 0, 0.0, axis=0) for i in range(len(moments))])]
    )
    every = rows @ G @ rows.T
    g = np.concatenate([problem.g, (rows @ problem.g.ravel())[n:].reshape(-1, 3)])
    size = k + len(moments)
    host, share = np.arange(size), np.zeros(size)
    host[k:], share[k:] = moments, rng.uniform(0.01, 0.3, len(moments))
    zeros = np.zeros(len(moments))
    whole = type(problem).of(
        every,
        g,
        np.concatenate([problem.friction, zeros]),
        np.concatenate([problem.cap, zeros]),
        LoadedDiscs(host, share),
    )
    found = solve(whole, np.zeros((size, 3)), sweeps, tolerance=1e-9)
    assert found.converged or found.at_rounding
    u, radius = whole.velocity(found.impulse), whole.cap + share * found.impulse[host, 0]
    for i in range(size):
        mass, _ = block_mass(whole.G[i, :, i])
        residual = natural_map(found.impulse[i], u[i], whole.friction[i], radius[i], mass)
        assert np.linalg.norm(residual.astype(float)) / mass < 1e-8


# --- what is said of it ---


def test_negative_coefficients_are_refused() -> None:
    with pytest.raises(wt.ModelError) as refused:
        ball(torsional=-0.1, rolling=float("nan"))
    assert "contact 'rest': torsional is -0.1, expected a finite number that is not negative" in str(refused.value)
    assert "contact 'rest': rolling is nan, expected a finite number that is not negative" in str(refused.value)


def test_events_refuse_it_by_name_and_auto_steps() -> None:
    model = ball(rolling=0.001)
    with pytest.raises(wt.UnsupportedError) as refused:
        wt.simulate(model, duration=0.1, method="events")
    assert str(refused.value) == (
        "simulate: model 'ball' has torsional or rolling friction at 'rest', whose sticking and slipping are not "
        "located as events: method='time_stepping' takes it, or declare these contacts without it"
    )
    assert wt.simulate(model, duration=0.01).attrs["method"] == "time_stepping"


def test_files_keep_it(tmp_path: Path) -> None:
    model = ball(rolling=0.001, torsional=0.02)
    wt.save(model, tmp_path / "ball.toml")
    (contact,) = wt.load(tmp_path / "ball.toml").contacts
    assert (contact.torsional, contact.rolling) == (0.02, 0.001)
    plain = replace(model, contacts=())
    assert wt.on_ground(plain, geometries=["skin"], torsional=0.3).contacts[0].torsional == 0.3
    assert wt.with_contacts(plain, rolling=0.4).contacts[0].rolling == 0.4


@pytest.mark.parametrize(
    ("condim", "taken"), [(1, (0, 0, 0)), (3, (0.9, 0, 0)), (4, (0.9, 0.02, 0)), (6, (0.9, 0.02, 0.003))]
)
def test_condim_chooses_what_a_file_means(tmp_path: Path, condim: int, taken: tuple[float, ...]) -> None:
    (tmp_path / "ball.xml").write_text(
        f"""<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1" condim="1" friction=".9 .005 .003"/>
        <body pos="0 0 .1"><freejoint/><geom name="skin" size=".1" condim="{condim}" friction=".5 .02 .001"/></body>
        </worldbody></mujoco>"""
    )
    (contact,) = wt.load(tmp_path / "ball.xml").contacts
    assert (contact.friction, contact.torsional, contact.rolling) == taken


# --- many contacts that spin and share a load ---


def box_on_fingers(folder: Path) -> wt.Model:
    """Three fingers on springs with dry friction catch a box; all contacts have torsional friction."""
    places = [(np.cos(a), np.sin(a), np.degrees(a)) for a in 2 * np.pi * np.arange(3) / 3]
    fingers = "".join(
        f'<body pos="{0.05 * x} {0.05 * y} 0" euler="0 0 {turn}"><joint type="hinge" axis="0 1 0" damping="0.02" '
        'stiffness="0.5" frictionloss="0.005" limited="true" range="-60 60"/>'
        '<geom type="capsule" fromto="0 0 0 -0.03 0 0.002" size="0.006" mass="0.02"/></body>'
        for x, y, turn in places
    )
    box = '<freejoint/><geom type="box" size="0.025 0.025 0.025" density="567"/>'
    path = folder / "fingers.xml"
    path.write_text(
        '<mujoco><compiler angle="degree"/><default><geom condim="4" friction="1 0.02 0.001"/></default>'
        f'<worldbody>{fingers}<body pos="0.003 0.002 0.035" euler="5 3 20">{box}</body></worldbody></mujoco>'
    )
    return wt.load(path)


def test_moments_that_slip_follow_what_presses_on_them(tmp_path: Path) -> None:
    # with the radii of moments held in each Newton step, 4 of these 1600 steps were left unsolved
    model = box_on_fingers(tmp_path)
    dyn = wt.compile(model)
    still = np.zeros((ContactBlocks(model, alone=True).count, 3))
    for spin in ((0, 0, 0), (0, 0, 5), (1, 0, -8), (0, 2, 12)):
        v = np.zeros(model.nv)
        v[-6:-3] = spin
        found = dyn.contact_steps(model.home.q, v, still, np.zeros((400, model.nv)), np.full(400, 2e-3), 1e-7, np.inf)
        assert found[3][:, 1].max() <= 1e-7
