"""Slip in space that begins, turns and ends: friction whose direction is stiff where slip is slow."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import whippletree as wt
from sliding_scenes import EVENTS, TABLE, TRIPOD, G, assert_lawful, sled
from whippletree.contact.contact_modes import Mode
from whippletree.contact.problem.active_set import SLIDE
from whippletree.simulation.adaptive.collocation import gauss_rule, radau_rule
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.event_method import Events
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.method import Task
from whippletree.simulation.motion import Motion

# --- the rule and the derivative that steps are made of -------------------------------------------------------------


def test_radau_points_end_with_the_step_and_forget_what_decays_fast():
    rule = radau_rule()
    W = rule.weights
    assert rule.nodes[-1] == 1.0
    powers = np.arange(15)
    assert np.abs(W[-1] @ rule.nodes[:, None] ** powers - 1 / (powers + 1)).max() < 1e-14
    # growth over a step of ẏ = z y, z → −∞: 0 for Radau, 1 for Gauss
    for points, far in ((rule, 0.0), (gauss_rule(), 1.0)):
        A = points.weights
        b = points.to_coefficients[0]
        z = -1e8
        growth = 1 + z * b @ np.linalg.solve(np.eye(8) - z * A, np.ones(8))
        assert growth == pytest.approx(far, abs=1e-5)


@pytest.mark.parametrize("feet", [TRIPOD, TABLE], ids=["isostatic", "hyperstatic"])
def test_accelerations_by_angle_of_slip(feet):
    model = sled(feet, height=0.2)
    scene = EventEquations(Motion(wt.compile(model)))
    rng = np.random.default_rng(1)
    state = np.concatenate([model.home.q, [0, 0, 1.3, 0.4, -0.2, 0]])
    k = len(feet)
    loads = rng.uniform(2, 6, k)
    forces = np.stack([loads, 0.1 * loads, -0.2 * loads], axis=1)
    angles = rng.uniform(-3, 3, k)

    def directions(angles):
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    phase = Phase(scene, Mode((SLIDE,) * k, directions(angles), forces), 0.0, state)
    assert phase.hyperstatic == (k == 4)
    t, y, step = np.zeros(1), state[None], 1e-6
    found = phase.turn_slips(t, y, directions(angles)[None])
    for i in range(k):
        change = step * np.eye(k)[i]
        ahead = phase.turn_slips(t, y, directions(angles + change)[None]).rates
        back = phase.turn_slips(t, y, directions(angles - change)[None]).rates
        slope = (ahead - back)[0, -6:] / (2 * step)
        assert np.abs(found.by_angle[0, :, i] - slope).max() < 1e-7 * (1 + np.abs(slope).max())


# --- closed forms and independent references ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_ball_that_slides_and_spins_across_its_path_begins_to_roll():
    """Slip keeps its direction; it ends after 2 |u| / (7 μ g), and 5/7 of friction's impulse is what it takes."""
    radius, mass, mu = 0.1, 1.5, 0.3
    model = (
        wt.Builder("ball")
        .geometry("ground", "world", "half_space")
        .body("ball", mass, inertia=(0.4 * mass * radius**2,) * 3)
        .joint("free", "free", "world", "ball", start=(0, 0, radius, 1, 0, 0, 0))
        .geometry("skin", "ball", "sphere", radius=radius)
        .contact("touch", "skin", "ground", friction=mu)
        .build()
    )
    spin, speed = np.array([7.0, -5.0, 11.0]), np.array([1.2, -0.4, 0.0])
    slip = speed + np.cross(spin, [0, 0, -radius])
    size = np.linalg.norm(slip)
    run = wt.simulate(model, v0=np.concatenate([spin, speed]), duration=1.0, **EVENTS)
    assert run.attrs["event_names"] == ["stick touch"]
    assert run.attrs["event_times"][0] == pytest.approx(2 * size / (7 * mu * G), abs=1e-9)
    rolling = speed - slip * 2 / 7
    rotation = np.array(wt.reference(model).pose("ball")(run["q"].values[-1]), dtype=float)[:3, :3]
    assert rotation @ run["v"].values[-1, 3:] == pytest.approx(rolling, abs=1e-9)
    assert_lawful(run)


@pytest.mark.slow
def test_a_spinning_sled_ceases_to_slide_and_to_turn_at_one_instant():
    """Against the plane motion in a time that runs with the speed: dt = |v| dτ, so that the stop is at τ = ∞."""
    model, mu, m, inertia = sled(), 0.4, 2.0, 0.08
    start = np.array([0.5, 0.2, 3.0])
    run = wt.simulate(model, v0=np.array([0, 0, start[2], *start[:2], 0]), duration=0.3, **EVENTS)
    loads = np.linalg.solve(np.vstack([np.ones(3), TRIPOD.T]), [m * G, 0, 0])

    def scaled(_, z):
        (c, s), v, w = (np.cos(z[2]), np.sin(z[2])), z[3:5], z[5]
        arms = TRIPOD @ np.array([[c, s], [-s, c]])
        u = v + w * np.stack([-arms[:, 1], arms[:, 0]], axis=1)
        pull = -mu * loads[:, None] * u / np.linalg.norm(u, axis=1, keepdims=True)
        torque = np.sum(arms[:, 0] * pull[:, 1] - arms[:, 1] * pull[:, 0])
        size = np.hypot(np.hypot(*v), 0.2 * w)
        return size * np.array([*v, w, *pull.sum(axis=0) / m, torque / inertia, 1.0])

    def stopped(_, z):
        return np.hypot(np.hypot(z[3], z[4]), 0.2 * z[5]) - 1e-13

    stopped.terminal = True
    path = solve_ivp(scaled, (0, 200), [0, 0, 0, *start, 0], "DOP853", rtol=1e-13, atol=1e-18, events=stopped)
    x, y, turn, *_, time = path.y[:, -1]
    assert run.attrs["event_names"] == [f"stick foot {n} on ground" for n in range(3)]
    assert run.attrs["event_times"] == pytest.approx([time] * 3, abs=1e-9)
    assert run["q"].values[-1] == pytest.approx([x, y, 0, np.cos(turn / 2), 0, 0, np.sin(turn / 2)], abs=1e-9)
    assert run.attrs["steps"] < 120
    assert_lawful(run)


@pytest.mark.slow
def test_slip_begins_under_a_pull_that_turns():
    """From rest, where the direction of slip is at its stiffest: slip starts along the pull, at w τ² / 2."""
    builder = wt.Builder("puck").geometry("ground", "world", "half_space").body("puck", 1.0)
    builder.body("across").body("along")
    builder.joint("x", "prismatic", "world", "along", axis=(1, 0, 0))
    builder.joint("y", "prismatic", "along", "across", axis=(0, 1, 0))
    builder.joint("z", "prismatic", "across", "puck", axis=(0, 0, 1))
    model = builder.geometry("tip", "puck", "point").contact("touch", "tip", "ground", friction=0.5).build()
    grip, least, growth, rate, end = 0.5 * G, 4.0, 3.0, 9.0, 1.5

    def pull(t):
        return (least + growth * t) * np.array([np.cos(rate * t), np.sin(rate * t)])

    run = wt.simulate(model, duration=end, controller=lambda t, q, v: np.append(pull(t), 0.0), **EVENTS)
    assert run.attrs["event_names"][0] == "slip touch"
    onset = run.attrs["event_times"][0]
    assert onset == pytest.approx((grip - least) / growth, abs=1e-9)

    def motion(t, z):
        return np.concatenate([z[2:], pull(t) - grip * z[2:] / np.linalg.norm(z[2:])])

    moment = 1e-5
    begun = np.append(np.zeros(2), growth * moment**2 / 2 * pull(onset) / grip)
    path = solve_ivp(motion, (onset + moment, end), begun, "Radau", rtol=1e-11, atol=1e-15)
    assert run["q"].values[-1, :2] == pytest.approx(path.y[:2, -1], abs=1e-7)
    assert run["v"].values[-1, :2] == pytest.approx(path.y[2:, -1], abs=1e-7)
    assert run.attrs["failure"] == ""
    assert run.attrs["steps"] < 200


@pytest.mark.slow
def test_time_stepping_converges_to_it_at_first_order():
    model = sled(height=0.15, friction=0.3)
    v = np.array([0, 0, 4.0, 0.8, -0.3, 0])
    exact = wt.simulate(model, v0=v, duration=0.4, **EVENTS)
    assert_lawful(exact)
    assert exact.attrs["mode_names"][-1].count("sticks") == 3
    errors = []
    for step in (4e-3, 2e-3, 1e-3):
        run = wt.simulate(model, v0=v, duration=0.4, method="time_stepping", step=step, output_dt=0.4)
        errors.append(np.abs(run["q"].values[-1] - exact["q"].values[-1]).max())
    assert errors[0] < 4e-3
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all((orders > 0.8) & (orders < 1.25))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_run_taken_up_in_the_middle_of_a_slip_has_the_same_bits(share):
    model = sled(height=0.1)
    start = np.concatenate([model.home.q, [0, 0, 3.0, 0.5, 0.2, 0]])
    task = Task(Motion(wt.compile(model)), start, np.linspace(0.0, 0.3, 13), 1e-8, 1e-10)
    whole = list(Events(task, saltation=False).chunks())
    k = int(share * len(whole))
    rest = list(Events(task, saltation=False).chunks(whole[k].memo))
    assert len(rest) == len(whole) - k - 1
    for one, other in zip(whole[k + 1 :], rest, strict=True):
        assert np.array_equal(one.states, other.states)
        assert np.array_equal(one.variables["contact_force"], other.variables["contact_force"])
        assert one.events == other.events
