"""Derivatives of whole runs by their start states, through every kind of event, against differences of whole runs."""

import numpy as np
import pytest

import whippletree as wt
from whole_runs import TIGHT, compared, ends

m = wt.mechanisms
UPWARDS = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])


def disc_on_a_slope():
    fall = 0.3
    turn = np.array([[np.cos(fall), np.sin(fall), 0], [-np.sin(fall), np.cos(fall), 0], [0, 0, 1]])
    return (
        wt.Builder("disc on a slope", (0, -9.81, 0))
        .geometry("slope", "world", "half_space", rotation=turn @ UPWARDS)
        .body("disc", 1.0, inertia=(0.004, 0.004, 0.004))
        .joint("disc", "planar", "world", "disc", start=(0, 1.0, 0))
        .geometry("rim", "disc", "sphere", radius=0.1)
        .contact("bounce", "rim", "slope", friction=0.2, restitution=0.7)
        .build()
    )


@pytest.mark.slow
@pytest.mark.parametrize("law", ["plastic", "newton", "energetic", "sequential"])
def test_bounces_on_a_slope(law):
    bounces = 1 if law == "plastic" else 2
    run = compared(disc_on_a_slope(), 1.1, ["touchdown"] * bounces, v0=[0.3, 0, 4.0], impact_law=law)
    assert run.attrs["saltation_error"] < 1e-9


def test_a_step_of_a_rimless_wheel():
    compared(m.rimless_wheel(), 0.5, ["touchdown", "lift-off"])


def test_a_hop_on_a_massless_leg():
    """Touchdown and lift-off of a foot without mass: its leg begins to move, and stops, without an impact."""
    compared(m.hopper(speed=0.5, attack=0.1), 0.5, ["touchdown", "lift-off"])


def conveyor():
    """A block on a spring, on a belt that runs by itself: it sticks, is carried along, slips back, sticks."""
    return (
        wt.Builder("conveyor", (0, -9.81, 0))
        .body("belt", 5.0)
        .body("cart")
        .body("block", 1.0)
        .joint("belt", "prismatic", "world", "belt", axis=(1, 0, 0))
        .joint("x", "prismatic", "world", "cart", axis=(1, 0, 0), stiffness=60.0)
        .joint("y", "prismatic", "cart", "block", axis=(0, 1, 0))
        .geometry("surface", "belt", "half_space", rotation=UPWARDS)
        .geometry("base", "block", "point")
        .contact("block on belt", "base", "surface", friction=0.3)
        .build()
    )


@pytest.mark.slow
def test_stick_and_slip_on_a_belt():
    compared(conveyor(), 0.9, ["stick", "slip", "stick"], v0=[0.4, 0.1, 0])


@pytest.mark.slow
def test_a_belt_that_a_motor_drives_in_time():
    """The controller depends on time and state: differentiated by differences, and the rest exactly."""
    motor = {"controller": lambda t, q, v: np.array([40.0 * (0.25 + 0.1 * np.sin(9 * t) - v[0]), 0, 0])}
    compared(conveyor(), 0.9, ["stick", "slip"], v0=[0.4, 0.1, 0], **motor)


@pytest.mark.slow
def test_a_biped_that_lands_on_one_foot():
    model = m.planar_biped(height=0.01)
    q = np.array(model.home.q, dtype=float)
    q[2] = 0.02
    compared(model, 0.02, ["touchdown"], q0=q, v0=[0, -1.0, 0, 0, 0, 0, 0])


def test_an_impact_without_collision():
    """Painlevé's rod jams at once; what it does then, as a function of its speed and its angle."""
    duration, angle = 0.05, np.arctan(2)
    model = m.painleve_rod()
    run = wt.simulate(model, duration=duration, output_dt=duration, sensitivity=True, **TIGHT)
    assert run.attrs["contact_event_kinds"] == ["impact without collision"]

    def start(d):
        other = m.painleve_rod(angle=angle + d[0], speed=1.0 + d[1])
        return np.concatenate([np.array(other.home.q, dtype=float), other.home.v])

    dyn = wt.compile(model)

    def end(d):
        y = start(d)
        other = ends(dyn, y[:3], y[3:], duration)
        return np.concatenate([other["q"].values[-1], other["v"].values[-1]])

    for e in np.eye(2) * 1e-6:
        change, measured = (start(e) - start(-e)) / 2e-6, (end(e) - end(-e)) / 2e-6
        assert np.allclose(run["sensitivity"].values[-1] @ change, measured, atol=1e-7 * np.abs(measured).max())


def test_a_pendulum_at_the_stop_of_its_joint():
    model = (
        wt.Builder("limited", (0, -9.81, 0))
        .body("upper", 1.0, (0, -0.5, 0), (0.1, 0.1, 0.1))
        .body("lower", 1.0, (0, -0.3, 0), (0.05, 0.05, 0.05))
        .joint("shoulder", "revolute", "world", "upper", lower=-0.5, upper=0.5)
        .joint("elbow", "revolute", "upper", "lower", position=(0, -1, 0))
        .build()
    )
    compared(model, 0.4, ["touchdown"], v0=[2.0, 0.3])


def test_a_loop_without_contacts():
    compared(m.crank_slider(), 0.1, [], v0=None)


def test_a_run_that_is_taken_up_again_goes_on_with_its_derivative():
    from whippletree.simulation.events.event_method import Events
    from whippletree.simulation.method import Task
    from whippletree.simulation.motion import Motion

    model = m.hopper(speed=0.5, attack=0.1)
    start = np.concatenate([np.array(model.home.q, dtype=float), model.home.v])
    task = Task(Motion(wt.compile(model)), start, np.linspace(0, 0.5, 6), 1e-8, 1e-10)
    chunks = list(Events(task, sensitivity=True).chunks())
    again = Events(task, sensitivity=True)
    resumed = list(again.chunks(chunks[len(chunks) // 2].memo))
    assert np.array_equal(resumed[-1].variables["sensitivity"], chunks[-1].variables["sensitivity"])
    assert again.log.matrix_reasons == ["", ""]


def test_contacts_without_closed_forms_have_no_derivative():
    table = wt.Builder("table").geometry("table", "world", "box", size=(1, 1, 0.2)).body("die", 1.0, inertia=(1, 1, 1))
    table.joint("fall", "prismatic", "world", "die", axis=(0, 0, 1), start=0.3)
    table.geometry("cube", "die", "box", size=(0.2, 0.2, 0.2)).contact("rest", "cube", "table")
    with pytest.raises(wt.UnsupportedError, match="some of its contacts have no closed form, and so no derivatives"):
        wt.simulate(table.build(), duration=0.01, method="events", sensitivity=True)


@pytest.mark.slow
def test_impacts_that_accumulate_leave_what_their_impulses_add_up_to():
    """A ball that slides while its bounces die out: m vy at the throw is all that the ground's impulse depends on, so
    vx ends at vx₀ − μ (g t − vy₀), whatever the height that it fell from."""
    friction, radius, inertia, end = 0.05, 0.1, 0.004, 1.5
    builder = wt.Builder("ball", (0, -9.81, 0)).geometry("floor", "world", "half_space", rotation=UPWARDS)
    builder.body("ball", 1.0, inertia=(inertia,) * 3).joint("ball", "planar", "world", "ball", start=(0, 1.1, 0))
    builder.geometry("rim", "ball", "sphere", radius=radius)
    model = builder.contact("bounce", "rim", "floor", friction=friction, restitution=0.4).build()
    run = wt.simulate(model, v0=(5, 0, 0), duration=end, sensitivity=True, output_dt=end, **TIGHT)
    assert run.attrs["event_names"][-1] == "zeno bounce"
    assert run["v"].values[-1, 0] == pytest.approx(5 - friction * 9.81 * end, abs=1e-9)
    spin = friction * radius / inertia
    found = run["sensitivity"].values[-1]
    expected = np.zeros((6, 6))
    expected[[0, 2, 3, 5], [0, 2, 3, 5]] = 1
    expected[[0, 2], [3, 5]] = end
    expected[[0, 2], 1], expected[[0, 2], 4] = (friction, spin), (end * friction, end * spin)
    expected[[3, 5], 4] = friction, spin
    assert found == pytest.approx(expected, abs=1e-5)  # what is left of the bounces: the zeno_interval
