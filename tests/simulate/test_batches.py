"""Many start states in one call: the same as single runs, and a run that fails leaves the others alone."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt

METHODS = ("adaptive", "rk4", "semi_implicit_euler", "implicit_midpoint")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_batch_is_its_single_runs(method):
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.9), masses=(1.0, 0.0, 1.0))
    dyn = wt.compile(model)
    q0 = np.stack([wt.assemble(model, hold={"crank": angle}) for angle in (0.3, 0.8, 1.4)])
    v0 = dyn.project_velocity(q0, np.ones((3, model.nv)))
    options = {"duration": 0.3, "output_dt": 0.05, "method": method, "points": ["coupler end"], "compiled": dyn}
    many = wt.simulate(model, q0, v0, **options)
    assert many.q.dims == ("time", "run", "coordinate")
    assert many.points.dims == ("time", "run", "point", "axis")
    assert many.constraint_forces.shape == (7, 3, 2)
    assert many.failure.values.tolist() == ["", "", ""]
    for k in range(3):
        one = wt.simulate(model, q0[k], v0[k], **options)
        for name in one.data_vars:
            if name != "scaled_diagonal_ratio":  # its scale is that of the first start
                np.testing.assert_array_equal(many[name].values[:, k], one[name].values, err_msg=str(name))


@pytest.mark.parametrize("method", ["adaptive", "rk4"])
def test_one_run_that_fails_leaves_the_others_alone(method):
    model = wt.mechanisms.pendulum()

    def explosive(t, q, v):
        return [-20 * q[0] + q[0] ** 5]

    run = wt.simulate(model, [[0.01], [9.0], [0.02]], duration=0.5, method=method, controller=explosive)
    assert run.attrs["failure"].startswith("1 of 3 runs failed; run 1: the integration stopped at t = ")
    assert [bool(text) for text in run.failure.values] == [False, True, False]
    assert np.isfinite(run.q.values[:, [0, 2]]).all()
    assert np.isfinite(run.q.values[0, 1]).all()
    assert np.isnan(run.q.values[-1, 1]).all()
    assert np.isfinite(run.attrs["energy_drift"])


def test_one_start_for_all_and_bad_shapes():
    model = wt.mechanisms.double_pendulum()
    run = wt.simulate(model, [0.1, 0.2], np.zeros((4, 2)), duration=0.1, method="rk4")
    assert run.q.shape == (201, 4, 2)
    assert (run.q.values[:, 0] == run.q.values[:, 3]).all()
    with pytest.raises(wt.ShapeError, match="q0 has 3 runs and v0 has 2"):
        wt.simulate(model, np.zeros((3, 2)), np.zeros((2, 2)), duration=0.1)
    with pytest.raises(wt.ShapeError, match=r"q0 has shape \(2, 2, 2\), expected \(2,\) or \(runs, 2\)"):
        wt.simulate(model, np.zeros((2, 2, 2)), duration=0.1)
    assert wt.simulate(model, np.zeros((0, 2)), duration=0.1, method="rk4").q.shape == (201, 0, 2)
    assert wt.simulate(model, np.zeros((0, 2)), duration=0.1).q.shape == (201, 0, 2)


def test_start_states_off_the_constraints_are_refused_in_a_batch_too():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.9))
    q0 = np.stack([model.home.q, model.home.q + 0.1])
    with pytest.raises(wt.AssemblyError, match="q does not meet its constraints"):
        wt.simulate(model, q0, duration=0.1, method="rk4")


def test_open_parameters_are_for_rollouts():
    model = wt.mechanisms.pendulum()
    dyn = wt.compile(model, parameters=[f"bodies.{model.bodies[0].name}.mass"])
    with pytest.raises(wt.UnsupportedError, match=r"leave bodies\..*\.mass open"):
        wt.simulate(model, duration=0.1, compiled=dyn)
