"""Numbers of a model that are left open, and those that take their places, are checked as the builder's are."""

import numpy as np
import pytest

import whippletree as wt

PENDULUM = wt.mechanisms.double_pendulum()
MASS = "bodies.lower.mass"


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({MASS: -1.0}, f"parameter '{MASS}' of model 'double pendulum': body 'lower': mass -1.0 is negative"),
        ({MASS: [1.0, 2.0, -1.0]}, f"parameter '{MASS}' of design 2 of model .*: mass -1.0 is negative"),
        ({MASS: np.nan}, "mass holds nan: every number must be finite"),
        ({MASS: None}, "mass holds nan: every number must be finite"),
        ({"gravity": [0, 0, np.inf]}, "gravity holds inf: every number must be finite"),
        ({"joints.elbow.damping": -3.0}, "joint 'elbow': damping -3.0 is negative"),
        ({"bodies.lower.inertia": [1, 1, 5, 0, 0, 0]}, r"principal inertias \(1, 1, 5\) violate the triangle"),
    ],
)
def test_a_run_refuses_a_design_that_no_model_has(parameters, fault):
    """A negative damper drove the pendulum, an impossible inertia was taken, and NaN blamed the tolerances."""
    with pytest.raises(wt.ModelError, match=fault):
        wt.simulate(PENDULUM, duration=0.1, parameters=parameters)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({MASS: []}, wt.ShapeError, f"parameters of no design: {MASS} has no numbers"),
        ({3: 1.0}, wt.NameLookupError, "there is no parameter 3"),
        ([MASS], TypeError, r"simulate: parameters is .*, expected numbers by path: \{'bodies.rod.mass': 0.3\}"),
    ],
)
def test_parameters_are_numbers_by_path(parameters, error, message):
    with pytest.raises(error, match=message):
        wt.simulate(PENDULUM, duration=0.1, parameters=parameters)


def test_open_parameters_and_their_values_belong_together():
    opened = wt.compile(PENDULUM, parameters=[MASS])
    with pytest.raises(wt.NameLookupError, match=r"no open parameter 'gravity'; known: 'bodies\.lower\.mass'"):
        wt.simulate(PENDULUM, duration=0.1, compiled=opened, parameters={MASS: 1.0, "gravity": [0, 0, 0]})
    both = wt.compile(PENDULUM, parameters=[MASS, "gravity"])
    with pytest.raises(wt.NameLookupError, match="no value of the open parameter 'gravity'"):
        wt.simulate(PENDULUM, duration=0.1, compiled=both, parameters={MASS: 1.0})


@pytest.mark.parametrize("functions", [wt.compile, wt.reference])
def test_a_parameter_is_open_once_and_named_by_text(functions):
    with pytest.raises(ValueError, match=f"'{MASS}' is named more than once"):
        functions(PENDULUM, parameters=[MASS, MASS])
    with pytest.raises(wt.NameLookupError, match="there is no parameter 3"):
        functions(PENDULUM, parameters=[3])


def test_other_arguments_of_a_run_say_what_they_take():
    with pytest.raises(TypeError, match=r"simulate: compiled is 3, expected what wt\.compile\(model\) gives"):
        wt.simulate(PENDULUM, duration=0.1, compiled=3)
    with pytest.raises(wt.FileError, match="/dev/null/run: no folder for a checkpoint can be made here"):
        wt.simulate(PENDULUM, duration=0.1, checkpoint="/dev/null/run")
