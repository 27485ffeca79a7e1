"""Messages about calls that cannot be answered, whole: what was found, what was expected, and the cure, with names."""

import numpy as np
import pytest

import whippletree as wt

PENDULUM = wt.mechanisms.pendulum()
UNIT_BEAM = {"length": 1.0, "bending_stiffness": 3.0, "mass_per_length": 0.2}
ACTIVATION = "has an activation: Builder.actuator gives it one with activation=wt.Activation(...)"


def drone():
    return wt.Builder("drone").body("hull", 1.0, inertia=(1, 1, 1)).joint("base", "free", "world", "hull").build()


def driven():
    made = wt.Builder("driven").body("arm", 1.0, (0.1, 0, 0)).joint("hinge", "revolute", "world", "arm")
    return made.actuator("motor", "hinge").build()


def nothing():
    return wt.Builder("still").body("stand", 1.0, inertia=(1, 1, 1)).joint("bolt", "weld", "world", "stand").build()


def two_frames_on_one_node():
    section = wt.flexible.Section(0.2, 1e6, (3.0, 3.0), 500.0, 1e-3)
    nodal = wt.flexible.frame_of_beams([[0, 0, 0], [1, 0, 0]], [(0, 1, section)], elements=2)
    return wt.flexible.craig_bampton(nodal, {"root": 0, "tip": 1, "tool": [1]}, root="root", modes=2)


def spoilt_run():
    run = wt.simulate(PENDULUM, duration=0.1, output_dt=0.05)
    run["q"].values[2:] = np.nan
    return wt.export_html(PENDULUM, run, "never.html")


MESSAGES = [
    (
        wt.UnsupportedError,
        lambda: wt.compile(driven()).activation_rates,
        f"activation_rates: no actuator of model 'driven' {ACTIVATION}",
    ),
    (
        wt.UnsupportedError,
        lambda: wt.compile(PENDULUM).activations([[0.0]], 0.1),
        f"activations: no actuator of model 'pendulum' {ACTIVATION}",
    ),
    (
        ValueError,
        lambda: wt.flexible.beam(**UNIT_BEAM, shapes={"z": [lambda x: x**2, lambda x: np.where(x > 0.5, np.inf, x)]}),
        "beam: shape 2 along 'z' is inf at x = 0.538 m, expected finite numbers from 0 to 1 m",
    ),
    (
        wt.ShapeError,
        lambda: wt.equilibrium(drone(), hold={"base": 0.0}),
        "equilibrium: hold names joint 'base', which has 6 freedoms: only a joint of one can be held at a number",
    ),
    (
        wt.ShapeError,
        lambda: wt.equilibrium(PENDULUM, hold={"hinge": [0.1, 0.2]}),
        "equilibrium: hold gives joint 'hinge' [0.1, 0.2], expected one number (rad or m)",
    ),
    (
        ValueError,
        lambda: wt.equilibrium(PENDULUM, tolerance=-1.0),
        "equilibrium: tolerance is -1.0, expected a number from 0 on",
    ),
    (
        ValueError,
        lambda: wt.equilibrium(PENDULUM, iterations=0),
        "equilibrium: iterations is 0, expected a whole number from 1 on",
    ),
    (
        wt.ModelError,
        two_frames_on_one_node,
        "craig_bampton: frames 'tip' and 'tool' share a node: make one frame of them",
    ),
    (
        wt.UnsupportedError,
        lambda: wt.with_motion(nothing(), "stand", lambda t: [t, t]),
        "with_motion: the motion of body 'stand' has 2 numbers at t = 0, expected a position (3,) or a pose (4, 4)",
    ),
    (
        ValueError,
        spoilt_run,
        "the run of model 'pendulum' holds coordinates that are not finite at t = 0.1 s: show the part before, "
        "run.isel(time=slice(2))",
    ),
    (
        wt.ShapeError,
        lambda: wt.diagnose(drone(), np.zeros(6)),
        "diagnose: q has shape (6,), expected (7,). Model 'drone' has nv = 6 but nq = 7: joint 'base' stores a "
        "quaternion. Coordinates include the quaternion: pass nq numbers.",
    ),
    (
        wt.UnsupportedError,
        lambda: wt.simulate(PENDULUM, duration=0.1, method="time_stepping", sleep=0.01),
        "simulate: the option sleep is for a single scene of free bodies, and model 'pendulum' is not run as one: it "
        "has no contacts. Leave it out",
    ),
]


@pytest.mark.parametrize(("kind", "ask", "message"), MESSAGES, ids=[message[:50] for *_, message in MESSAGES])
def test_message(kind, ask, message):
    with pytest.raises(kind) as raised:
        ask()
    assert str(raised.value) == message
