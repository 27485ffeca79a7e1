"""What equilibria, linear systems, modes and inverse kinematics say to inputs that have no answer: names, never NaN."""

import numpy as np
import pytest

import whippletree as wt

FOUR_BAR = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
PENDULUM = wt.mechanisms.pendulum()
ARM = wt.mechanisms.chain(2)


def falling():
    return wt.Builder("stone").body("stone", 2.0, inertia=(1, 1, 1)).joint("fall", "free", "world", "stone").build()


def bolted():
    return wt.Builder("bolted").body("box", 1.0, inertia=(1, 1, 1)).joint("bolt", "weld", "world", "box").build()


def light():
    b = wt.Builder("light", (0, -9.81, 0)).body("arm", 1.0, (1, 0, 0)).joint("arm", "revolute", "world", "arm")
    return b.body("hand").joint("wrist", "revolute", "arm", "hand", position=(1, 0, 0), stiffness=2.0).build()


def open_start():
    q = FOUR_BAR.home.q.copy()
    q[0] += 0.1
    return q


CASES = {
    "a body that falls": (
        lambda: wt.equilibrium(falling()),
        wt.EquilibriumError,
        "equilibrium: model 'stone' has no balance of forces near the guess (300 steps): what is left pushes along "
        "fall.vz (-19.62), N m or N. The potential falls without end that way, or the guess is too far: hold a joint "
        "(hold=), give it a spring or a stop, or move the guess.",
    ),
    "modes away from equilibrium": (
        lambda: wt.eigenmodes(PENDULUM, [0.0]),
        wt.UnsupportedError,
        "eigenmodes: q is no equilibrium of model 'pendulum': 'rate of hinge' accelerates by 9.81. "
        "wt.equilibrium(model, q).q is one nearby; wt.linearize has the matrices of any state.",
    ),
    "modes of a motion that is not steady": (
        lambda: wt.eigenmodes(PENDULUM, [-np.pi / 2], [1.0]),
        wt.UnsupportedError,
        "eigenmodes: the motion of model 'pendulum' is not steady: the matrix A changes along it, so that its "
        "eigenvalues mean neither growth nor decay. wt.linearize has the matrices of any state.",
    ),
    "an open loop": (
        lambda: wt.linearize(FOUR_BAR, open_start()),
        wt.AssemblyError,
        None,
    ),
    "a velocity that the loop forbids": (
        lambda: wt.linearize(FOUR_BAR, FOUR_BAR.home.q, [1.0, 0.0, 0.0]),
        wt.AssemblyError,
        None,
    ),
    "an equilibrium in place of its coordinates": (
        lambda: wt.eigenmodes(FOUR_BAR, wt.equilibrium(FOUR_BAR)),
        wt.ScalarError,
        "linearize: q is no array of numbers but Equilibrium: give its q, as in linearize(model, found.q)",
    ),
    "coordinates in words": (
        lambda: wt.linearize(FOUR_BAR, ["a", "b", "c"]),
        wt.ScalarError,
        "linearize: q is no array of numbers but text (['a', 'b', 'c']): write numbers without quotes",
    ),
    "a dead point": (
        lambda: wt.linearize(wt.mechanisms.four_bar(), [0.0, 0.0, 0.0]),
        wt.SingularSystemError,
        "linearize: model 'four-bar': constraint rows depend on each other at this q (a dead point), so that the "
        "motion near it is not that of one linear system. wt.diagnose(model, q) names the rows; move q off the dead "
        "point.",
    ),
    "a motion without inertia": (
        lambda: wt.eigenmodes(light(), wt.equilibrium(light()).q),
        wt.SingularSystemError,
        None,
    ),
    "an undamped resonance": (
        lambda: wt.frequency_response(wt.linearize(PENDULUM, [-np.pi / 2]), [np.sqrt(9.81) / (2 * np.pi)]),
        wt.SingularSystemError,
        "frequency_response: model 'pendulum' resonates without damping at 0.498487916 Hz: its response has no bound "
        "there. Give it dampers, or leave the frequency out.",
    ),
    "a load on an unknown frame": (
        lambda: wt.equilibrium(ARM, forces={"tipp": (0, 0, 0)}),
        wt.NameLookupError,
        "model 'chain of 2 rods': there is no frame or body 'tipp'; known: 'tip', 'rod_1', 'rod_2'. "
        "Did you mean 'tip'?",
    ),
    "a load of the wrong size": (
        lambda: wt.equilibrium(ARM, forces={"tip": (0, 0)}),
        wt.ShapeError,
        "equilibrium: forces['tip'] has shape (2,), expected (..., 3)",
    ),
    "coordinates that do not describe the motion": (
        lambda: wt.linearize(FOUR_BAR, FOUR_BAR.home.q, coordinates=["crank", "rocker"]),
        wt.ShapeError,
        "linearize: coordinates names 2 velocities, but model 'four-bar' has 1 freedoms here that they must describe",
    ),
    "an unknown goal": (
        lambda: wt.inverse_kinematics(ARM, {"hand": (1, 0, 0)}),
        wt.NameLookupError,
        "model 'chain of 2 rods': there is no frame or body 'hand'; known: 'tip', 'rod_1', 'rod_2'",
    ),
    "no goal": (
        lambda: wt.inverse_kinematics(ARM, {}),
        wt.UnsupportedError,
        'inverse_kinematics: no goal: give frames by name, such as {"tool": pose}',
    ),
    "a goal of the wrong size": (
        lambda: wt.inverse_kinematics(ARM, {"tip": (1, 0)}),
        wt.ShapeError,
        "inverse_kinematics: the goal of 'tip' has shape (2,), expected a pose (..., 4, 4) or a position (..., 3)",
    ),
    "a goal that mirrors": (
        lambda: wt.inverse_kinematics(ARM, {"tip": np.diag([1.0, 1.0, -1.0, 1.0])}),
        ValueError,
        "inverse_kinematics: the goal of 'tip' has no rotation in its upper left corner (RᵀR differs from 1 by 0, or "
        "it mirrors)",
    ),
    "a frame that cannot move": (
        lambda: wt.inverse_kinematics(bolted(), {"box": (1, 0, 0)}),
        wt.UnsupportedError,
        "inverse_kinematics: frame 'box' of model 'bolted' is fixed to the world, so that no joint moves it: name a "
        "frame of a moving body",
    ),
    "weights for nothing": (
        lambda: wt.inverse_kinematics(ARM, {"tip": (1, 0, 0)}, weights={"rod_1": 2.0}),
        wt.ShapeError,
        "inverse_kinematics: weights names 'rod_1', which has no goal (tip)",
    ),
    "an unknown contact": (
        lambda: wt.linearize(
            wt.mechanisms.quadruped(), wt.mechanisms.quadruped().home.q, contacts={"hoof": "sticking"}
        ),
        wt.NameLookupError,
        None,
    ),
}

NAN = float("nan")
NUMBERS = {
    "a load that is not finite": (
        lambda: wt.equilibrium(ARM, forces={"tip": (NAN, 0, 0)}),
        ValueError,
        "equilibrium: forces['tip'] holds nan: every number must be finite",
    ),
    "an open parameter that is not finite": (
        lambda: wt.equilibrium(FOUR_BAR, parameters={"bodies.rocker rod.mass": [1.0, np.inf]}),
        ValueError,
        "equilibrium: parameter 'bodies.rocker rod.mass' holds inf: every number must be finite",
    ),
    "a velocity that is not finite": (
        lambda: wt.linearize(ARM, [0, 0], [NAN, 0]),
        ValueError,
        "linearize: v holds nan: every number must be finite",
    ),
    "a velocity that overflows": (
        lambda: wt.linearize(ARM, [0, 0], [1e200, 0]),
        ValueError,
        "linearize: numbers overflow at this state of model 'chain of 2 rods' (the largest velocity is 1e+200): there "
        "is no finite linear system",
    ),
    "no state at all": (
        lambda: wt.linearize(ARM, np.zeros((0, 2))),
        wt.ShapeError,
        "linearize: the batch (0,) is empty: there is no state about which to linearise, and none that could choose "
        "coordinates",
    ),
    "no iterations": (
        lambda: wt.inverse_kinematics(ARM, {"tip": (1, 0, 0)}, iterations=0),
        ValueError,
        "inverse_kinematics: iterations is 0, expected a whole number from 1 on",
    ),
    "no tolerance": (
        lambda: wt.inverse_kinematics(ARM, {"tip": (1, 0, 0)}, tolerance=NAN),
        ValueError,
        "inverse_kinematics: tolerance is nan, expected a positive number of rad and m",
    ),
    "batches that do not fit": (
        lambda: wt.inverse_kinematics(ARM, {"tip": np.zeros((4, 3))}, np.zeros((3, 2))),
        wt.ShapeError,
        "inverse_kinematics: these batches do not fit together: guess (3,), the goal of 'tip' (4,)",
    ),
    "a matrix that is no pose": (
        lambda: wt.inverse_kinematics(ARM, {"tip": np.diag([1.0, 1.0, 1.0, 5.0])}),
        ValueError,
        "inverse_kinematics: the goal of 'tip' is no pose: its last row must be 0, 0, 0, 1",
    ),
    "dexterity of an open loop": (
        lambda: wt.dexterity(FOUR_BAR, "coupler rod", open_start()),
        wt.AssemblyError,
        None,
    ),
    "costs that are not positive": (
        lambda: wt.compile(FOUR_BAR).inverse_dynamics_with_motors(("crank", "rocker"))(
            FOUR_BAR.home.q, [0] * 3, [0] * 3, [-1] * 3
        ),
        wt.SingularSystemError,
        "model 'four-bar': costs must be positive, or nothing says how motors share a load: give newtons and newton "
        "metres a price each",
    ),
    "a metric that is not definite": (
        lambda: wt.compile(FOUR_BAR).inverse_dynamics_with_metric(("crank", "rocker"))(
            FOUR_BAR.home.q, [0] * 3, [0] * 3, np.diag([1, 1, -3.0])
        ),
        wt.SingularSystemError,
        "model 'four-bar': metric must be positive definite, or nothing says how motors share a load: give newtons "
        "and newton metres a price each",
    ),
    "no linear system": (
        lambda: wt.frequency_response(ARM, [1.0]),
        TypeError,
        "frequency_response: expected what wt.linearize returns, got Model",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_that_make_no_sense_are_named(case):
    call, kind, message = NUMBERS[case]
    with pytest.raises(kind) as raised:
        call()
    if message is not None:
        assert str(raised.value) == message


def test_empty_batches_have_empty_answers():
    assert wt.equilibrium(FOUR_BAR, np.zeros((0, 3))).q.shape == (0, 3)
    assert wt.inverse_kinematics(ARM, {"tip": np.zeros((0, 3))}, starts=4).q.shape == (0, 2)
    assert wt.dexterity(ARM, "tip", np.zeros((0, 2))).condition.shape == (0,)


@pytest.mark.parametrize("case", CASES)
def test_message(case):
    call, kind, message = CASES[case]
    with pytest.raises(kind) as raised:
        call()
    if message is not None:
        assert str(raised.value) == message
    assert "nan" not in str(raised.value).lower()


def test_open_rows_and_massless_motions_are_named():
    for case, words in (
        ("an open loop", ("linearize", "q does not meet", "pin.x", "wt.assemble")),
        ("a velocity that the loop forbids", ("v does not meet", "pin.x", "project_velocity")),
        ("a motion without inertia", ("'hand' about joint 'wrist'", "no inertia")),
        ("an unknown contact", ("there is no contact 'hoof'", "front_left foot on ground")),
    ):
        with pytest.raises(CASES[case][1]) as raised:
            CASES[case][0]()
        assert all(word in str(raised.value) for word in words), str(raised.value)


def test_a_mechanism_without_freedom_has_answers():
    model = bolted()
    rest = wt.equilibrium(model)
    assert rest.stability == "no freedom"
    assert rest.stable
    assert wt.linearize(model, []).A.shape == (0, 0)
    assert wt.eigenmodes(model, []).frequencies.shape == (0,)
    held = wt.equilibrium(FOUR_BAR, hold={"crank": 1.0})
    assert held.stability == "no freedom"
    assert held.q[0] == pytest.approx(1.0)
    assert "hold crank.coupling" in held.rows


def test_neutral_and_unstable_equilibria_are_said():
    cart = wt.mechanisms.cart_pole()
    assert str(wt.equilibrium(cart)).startswith("equilibrium of model 'cart-pole': neutral along 'slide'")
    upright = wt.equilibrium(PENDULUM, [np.pi / 2], minimise=False)
    assert str(upright) == "equilibrium of model 'pendulum': unstable along 'hinge' (stiffness -9.81)"
    modes = wt.eigenmodes(PENDULUM, upright.q)
    assert modes.frequencies == pytest.approx([0.0])
    assert modes.growth == pytest.approx([np.sqrt(9.81)])


def test_statics_needs_no_mass():
    model = light()
    rest = wt.equilibrium(model)
    assert rest.stable
    assert rest.q == pytest.approx([-np.pi / 2, 0.0], abs=1e-9)


def test_a_failed_element_of_a_batch_does_not_spoil_the_others():
    model = wt.Builder("sliding mass", (0, -9.81, 0)).body("mass", 1.0)
    model = model.joint("y", "prismatic", "world", "mass", axis=(0, 1, 0), stiffness=10.0).build()
    rest = wt.equilibrium(model, parameters={"joints.y.stiffness": np.array([10.0, 0.0, 20.0])})
    assert list(rest.stability) == ["stable", "not found", "stable"]
    assert list(rest.found) == [True, False, True]
    assert rest.q[[0, 2], 0] == pytest.approx([-0.981, -0.4905])
    assert np.all(np.isfinite(rest.q))
