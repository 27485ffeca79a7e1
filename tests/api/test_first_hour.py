"""What a newcomer tries: help, misspelt names, a file where a model belongs, a run's own arrays."""

import inspect

import numpy as np
import pytest

import whippletree as wt


@pytest.mark.parametrize("make", [wt.compile, wt.reference])
def test_functions_explain_themselves(make):
    dyn = make(wt.mechanisms.four_bar())
    for function in (dyn.forward_dynamics, dyn.jacobian, dyn.jacobian("coupler rod")):
        assert "q (nq,): rad or m" in function.__doc__
        assert "Returns " in function.__doc__
    assert len(dir(dyn)) == len(set(dir(dyn)))


def test_compiled_functions_have_a_signature():
    dyn = wt.compile(wt.mechanisms.four_bar())
    assert str(inspect.signature(dyn.forward_dynamics)) == "(q, v, tau, *, out=None)"
    assert "threads" in inspect.signature(type(dyn.forward_dynamics)).parameters
    assert type(dyn.forward_dynamics).__doc__.startswith("A function of arrays")


def test_parts_are_shown_by_what_is_special_about_them():
    model = wt.mechanisms.double_pendulum()
    assert repr(model.joints[0]) == "Joint(name='shoulder', kind='revolute', parent='world', child='upper')"
    assert repr(wt.compile(model)) == "<compiled functions of model 'double pendulum': cpu, float64>"


@pytest.mark.parametrize(
    ("given", "cure"),
    [("a.urdf", "wt.load reads a file"), (wt.Builder("x"), r"call its build\(\)"), (3, "make one")],
)
@pytest.mark.parametrize("function", [wt.compile, wt.reference, wt.diagnose, wt.conditioning, wt.assemble])
def test_what_is_no_model_is_told_how_to_become_one(function, given, cure):
    with pytest.raises(TypeError, match=rf"expected a Model, got .*{cure}"):
        function(given)
    with pytest.raises(TypeError, match=r"simulate: expected a Model, got <compiled .*: pass its \.model"):
        wt.simulate(wt.compile(wt.mechanisms.pendulum()), duration=1.0)


def test_a_misspelt_public_name_is_suggested():
    with pytest.raises(AttributeError, match="Did you mean 'simulate'"):
        _ = wt.simulat
    with pytest.raises(wt.NameLookupError, match=r"there is no mechanism 'fourbar'.*Did you mean 'four_bar'"):
        _ = wt.mechanisms.fourbar
    with pytest.raises(wt.NameLookupError, match=r"there is no controller 'pid'.*Did you mean 'pd'"):
        _ = wt.controllers.pid
    assert "np" not in dir(wt.mechanisms) + dir(wt.controllers)


@pytest.mark.slow
def test_arrays_of_other_libraries_are_taken_for_their_numbers():
    """A run's own variables above all; pandas would hand a square frame to a ufunc transposed."""
    model = wt.mechanisms.double_pendulum()
    dyn, ref = wt.compile(model, threads=1), wt.reference(model)
    run = wt.simulate(model, [1.0, 0.3], duration=0.1, output_dt=0.05)
    plain = [run[name].values for name in ("q", "v", "tau")]
    for make in (dyn, ref):
        assert make.forward_dynamics(run.q, run.v, run.tau).tobytes() == make.forward_dynamics(*plain).tobytes()
        assert type(make.forward_dynamics(run.q[0], run.v[0], run.tau[0])) is np.ndarray
    frame = run.q[:2].to_pandas()
    assert dyn.mass_matrix(frame).tobytes() == dyn.mass_matrix(frame.values).tobytes()
    assert dyn.rollout(run.q[0], run.v[0], np.zeros((5, 2)), 1e-3)[0].shape == (5, 2)
    loop = wt.compile(wt.mechanisms.four_bar(), threads=1)  # whose functions have a status
    closed = wt.simulate(loop.model, duration=0.1, output_dt=0.05)
    assert loop.forward_dynamics(closed.q, closed.v, closed.tau).shape == (3, 3)


def test_mistakes_of_the_first_hour_are_answered_in_words():
    model = wt.mechanisms.four_bar()
    run = wt.simulate(model, duration=0.1)
    for dyn in (wt.compile(model), wt.reference(model)):
        with pytest.raises(TypeError, match=r"jacobian takes the name of a frame first.*: jacobian\('frame'\)\(q\)"):
            dyn.jacobian(model.home.q)
    with pytest.raises(ValueError, match="compiled= is for model 'pendulum', not for this 'four-bar'"):
        wt.simulate(model, duration=0.1, compiled=wt.compile(wt.mechanisms.pendulum()))
    wt.simulate(model, duration=0.1, compiled=wt.compile(wt.mechanisms.four_bar()))  # the same, made again
    with pytest.raises(wt.ShapeError, match=r"v0 is \{'crank': 2.0\}, expected 3 numbers.*place joints by name"):
        wt.simulate(model, v0={"crank": 2.0}, duration=0.1)
    with pytest.raises(TypeError, match=r"is no event: give wt\.Event"):
        wt.simulate(model, duration=0.1, events=[max])
    with pytest.raises(TypeError, match="export_html: the run comes where the model belongs"):
        wt.export_html(run, model, "never.html")
    with pytest.raises(TypeError, match="save: expected a Model"):
        wt.save(run, "never.toml")
    with pytest.raises(TypeError, match=r"save_run: expected a run, .* wt\.save keeps models"):
        wt.save_run(model, "never.nc")
    with pytest.raises(TypeError, match="plot: the model comes where the run belongs"):
        wt.plot(model)
