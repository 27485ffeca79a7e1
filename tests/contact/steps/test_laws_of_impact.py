"""Impact laws that contacts name: steps have one law, and say so where a contact asks for another."""

import warnings

import numpy as np
import pytest

import whippletree as wt

FALL = 1.0
"""m/s: speed at which the ball strikes."""


def ball(law, **contact):
    """A ball that falls on the ground without gravity, 1 mm above it."""
    builder = wt.Builder("ball", gravity=(0, 0, 0)).body("ball", 1.0, inertia=(0.1, 0.1, 0.1))
    builder.joint("free", "free", "world", "ball", start=(0, 0, 0.101, 1, 0, 0, 0))
    builder.geometry("skin", "ball", "sphere", radius=0.1).geometry("ground", "world", "half_space")
    return builder.contact("touch", "skin", "ground", law=law, **contact).build()


def struck(model, method):
    """Speed away from the ground after the impact."""
    run = wt.simulate(model, None, [0, 0, 0, 0, 0, -FALL], duration=0.01, method=method)
    return float(run.v.values[-1, 5])


OTHERWISE = {
    "plastic": ({"restitution": 0.5}, 0.0, 0.5),
    "energetic": ({"restitution": 0.5, "friction": 0.3}, 0.5, 0.5),
    "sequential": ({"restitution": 0.5}, 0.5, 0.5),
    "newton": ({"restitution": 0.5, "friction": 0.3}, 0.5, 0.5),
}


@pytest.mark.parametrize("law", OTHERWISE)
def test_a_step_warns_of_a_law_that_it_does_not_know_and_events_obey_it(law):
    contact, asked, taken = OTHERWISE[law]
    model = ball(law, **contact)
    assert np.isclose(struck(model, "events"), asked * FALL, atol=1e-9)
    told = rf"leaves out that of contact 'touch' \({law}\): wt.simulate\(method='events'\) obeys it"
    with pytest.warns(RuntimeWarning, match="simulate: method 'time_stepping' has one law.*" + told):
        assert np.isclose(struck(model, "time_stepping"), taken * FALL, atol=1e-9)
    dyn, still = wt.compile(model), np.zeros(6)
    with pytest.warns(RuntimeWarning, match="step has one law.*" + told):
        dyn.step(model.home.q, still, None, 1e-3)
    with pytest.warns(RuntimeWarning, match="contact_rollout has one law.*" + told):
        dyn.contact_rollout(model.home.q, still, np.zeros((1, 6)), 1e-3)


@pytest.mark.parametrize(
    ("law", "contact", "speed"),
    [("plastic", {"friction": 0.3}, 0.0), ("newton", {"restitution": 0.5}, 0.5), (None, {"restitution": 0.5}, 0.5)],
)
def test_laws_that_steps_have_are_taken_without_a_word(law, contact, speed):
    model = ball(law, **contact)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in ("events", "time_stepping"):
            assert np.isclose(struck(model, method), speed * FALL, atol=1e-9)
