"""One name where several may stand is that name, not its letters; and other arguments of a usual kind that are none."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints.projectors import inverse_dynamics_under_constraints

ARM, BARS, CART = wt.mechanisms.double_pendulum(), wt.mechanisms.four_bar(), wt.mechanisms.cart_pole()
STILL, UP = np.zeros(3), np.zeros(2)
MASS = "bodies.upper.mass"


def balls():
    return wt.Builder("m").body("a", 1.0).joint("j", "free", "world", "a").geometry("ball", "a", "sphere", radius=1)


WAYS = {
    "open parameter": lambda names: wt.compile(ARM, parameters=names(MASS)).parameters,
    "open parameter of the reference": lambda names: wt.reference(ARM, parameters=names(MASS)).parameters,
    "actuated joint": lambda names: inverse_dynamics_under_constraints(
        BARS, BARS.home.q, STILL, STILL, actuated=names("crank")
    ).tau.tolist(),
    "motor": lambda names: wt.control.projected(BARS, motors=names("crank")).motors,
    "independent velocity": lambda names: wt.embed(BARS, independent=names("crank")).independent,
    "input": lambda names: wt.linearize(CART, UP, inputs=names("slide")).inputs,
    "output": lambda names: wt.linearize(CART, UP, outputs=names("slide")).outputs,
    "coordinate": lambda names: wt.linearize(BARS, BARS.home.q, coordinates=names("crank")).states,
    "motor of a map": lambda names: (
        wt.dexterity(CART, "tip", UP, motors=names("hinge"), part="position").manipulability
    ),
    "joint of a posture": lambda names: wt.control.task("posture", joints=names("hinge")).joints,
    "group of shapes": lambda names: balls().contact_group("g", names("ball")).build().contact_groups[0].geometries,
}


@pytest.mark.parametrize("way", WAYS)
def test_one_name_is_as_good_as_a_list_of_one(way):
    alone, inside = (WAYS[way](make) for make in (str, lambda name: [name]))
    assert np.all(np.asarray(alone, dtype=object) == np.asarray(inside, dtype=object))


REFUSALS = [
    (
        lambda: wt.assemble(BARS, hold="crank"),
        TypeError,
        "assemble: hold is 'crank', expected joints by name with their coordinates: {'crank': 0.3}",
    ),
    (lambda: wt.mechanisms.chain(2.5), wt.ModelError, "chain: n is 2.5, expected a whole number"),
    (lambda: wt.mechanisms.four_bar_chain(0), wt.ModelError, "four_bar_chain: cells is 0, expected at least 1"),
    (
        lambda: wt.simulate(ARM, duration=0.1, events=[wt.Event("a", 3)]),
        TypeError,
        "simulate: event 'a': 3 is not a function of (t, q, v)",
    ),
    (
        lambda: wt.simulate(ARM, duration=0.1, events=[wt.Event("a", lambda t, q, v: t, direction=5)]),
        ValueError,
        "simulate: event 'a': direction is 5, expected 1 (rising), -1 (falling) or 0",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS, ids=[message[:40] for *_, message in REFUSALS])
def test_an_argument_that_is_none(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


CONTROLLERS = [
    ({"target": [0.0]}, wt.ShapeError, "pd: target has shape (1,), expected (2,) for model 'double pendulum'"),
    ({"target": "home"}, wt.ShapeError, "pd: target is 'home', expected (2,) for model 'double pendulum'"),
    ({"target": [0.0, np.nan]}, ValueError, "pd: target holds nan: its numbers must be finite"),
    (
        {"stiffness": [1.0, 2.0, 3.0]},
        wt.ShapeError,
        "pd: stiffness has shape (3,), expected one number or (2,) for model 'double pendulum'",
    ),
    ({"damping": np.inf}, ValueError, "pd: damping holds inf: its numbers must be finite"),
]


@pytest.mark.parametrize(("change", "error", "message"), CONTROLLERS, ids=[message[:40] for *_, message in CONTROLLERS])
def test_a_regulator_is_refused_when_it_is_made(change, error, message):
    usual = {"target": [0.0, 0.0], "stiffness": 1.0, "damping": 1.0}
    with pytest.raises(error) as raised:
        wt.controllers.pd(ARM, **(usual | change))
    assert str(raised.value) == message


def test_a_motor_without_strength_or_speed_is_refused():
    with pytest.raises(ValueError, match="motor: limit is -1, expected a number that is not negative"):
        wt.controllers.motor(ARM, "elbow", 3.0, limit=-1)
    with pytest.raises(ValueError, match="motor: no_load_speed is 0, expected a positive number"):
        wt.controllers.motor(ARM, "elbow", 3.0, limit=1, no_load_speed=0)


REFERENCES = {
    "the parent of a joint": lambda b, x: b.joint("k", "revolute", x, "arm"),
    "the kind of a joint": lambda b, x: b.joint("k", x, "world", "arm"),
    "the body of a frame": lambda b, x: b.frame("tip", x),
    "the body of a geometry": lambda b, x: b.geometry("skin", x, "sphere", radius=0.1),
    "the kind of a geometry": lambda b, x: b.geometry("skin", "arm", x),
    "a geometry of a contact": lambda b, x: b.contact("touch", x, "skin"),
    "the law of a contact": lambda b, x: b.contact("touch", "skin", "floor", law=x),
    "the end of a constraint": lambda b, x: b.constraint("tie", "point", x, "arm"),
    "the kind of a constraint": lambda b, x: b.constraint("tie", x, "world", "arm"),
    "the joint of an actuator": lambda b, x: b.actuator("motor", x),
    "the frame of a tendon": lambda b, x: b.tendon("string", x, "arm"),
    "the kind of a sensor": lambda b, x: b.sensor("eye", x, "hinge"),
}


@pytest.mark.parametrize("what", REFERENCES)
@pytest.mark.parametrize("name", [["arm"], {"arm": 1}, None, 3])
def test_what_a_part_refers_to_is_named_by_one_text(what, name):
    """Lists could not be hashed, and numbers have no length: errors of Python's, which named nothing."""
    if what == "the law of a contact" and name is None:
        pytest.skip("None leaves the law to the model")
    builder = wt.Builder("m").body("arm", 1.0, inertia=(1, 1, 1)).joint("hinge", "revolute", "world", "arm")
    with pytest.raises(wt.ModelError, match=r".* is no name: write one text"):
        REFERENCES[what](builder, name).build()


def test_a_model_is_asked_for_one_name():
    model = wt.mechanisms.double_pendulum()
    for ask in (model.slice, model.q_slice, model.frame, model.body_index):
        with pytest.raises(wt.NameLookupError, match=r"there is no .* \['elbow'\]"):
            ask(["elbow"])


def test_limits_of_speed_and_effort_are_not_negative():
    """An effort limit of -1 cut every force to -1."""
    for word in ("velocity_limit", "effort_limit"):
        builder = wt.Builder("m").body("arm", 1.0).joint("hinge", "revolute", "world", "arm", **{word: -1})
        with pytest.raises(wt.ModelError, match=f"joint 'hinge': {word} -1 is negative"):
            builder.build()
