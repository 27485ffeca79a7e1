"""What a run holds: variables, units, names and statistics; what is left out when asked; disks that refuse."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import xarray

import whippletree as wt
from whippletree.simulation.output import dataset
from whippletree.spatial.joints import KINDS

STATISTICS = {"steps", "rejections", "events", "projections", "max_residual", "energy_drift"}
EVERYTHING = {"q", "v", "a", "tau", "kinetic_energy", "potential_energy", "diagonal_ratio", "scaled_diagonal_ratio"}
OF_CONSTRAINTS = {"constraint_forces", "constraint_residual", "constraint_velocity"}


@pytest.fixture(scope="module")
def bar():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.9))
    return model, wt.compile(model)


@pytest.mark.slow
def test_names_select(bar):
    model, dyn = bar
    run = wt.simulate(model, duration=0.2, output_dt=0.05, compiled=dyn)
    assert run.q.sel(coordinate="rocker").values.tolist() == run.q.values[:, 2].tolist()
    assert run.constraint_forces.sel(row="pin.y").values.tolist() == run.constraint_forces.values[:, 1].tolist()
    many = wt.simulate(
        wt.mechanisms.double_pendulum(), [[0.0, 1.0], [1.0, 0.0]], duration=0.1, output_dt=0.05, method="rk4"
    )
    assert many.v.sel(velocity="elbow").dims == ("time", "run")
    thrown = wt.simulate(wt.mechanisms.bouncing_ball(), duration=0.1, method="events")
    assert thrown.contact_gap.sel(contact="bounce").shape == thrown.time.shape


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "weld"])
def test_every_entry_of_every_joint_has_a_name_of_its_own(kind):
    body = wt.Builder("one").body("body", 1.0, inertia=(1.0, 1.0, 1.0))
    model = body.joint("joint", kind, "world", "body", **({"pitch": 0.1} if kind == "helical" else {})).build()
    run = wt.simulate(model, duration=0.02, output_dt=0.01)
    assert len(set(run.coordinate.values)) == model.nq
    assert len(set(run.velocity.values)) == model.nv
    if kind == "free":  # the free fall of the point that is called z
        np.testing.assert_allclose(run.q.sel(coordinate="joint.z")[-1], -9.81 / 2 * 0.02**2, rtol=1e-9)
        np.testing.assert_allclose(run.v.sel(velocity="joint.vz")[-1], -9.81 * 0.02, rtol=1e-9)


def test_more_output_than_memory_is_refused_before_it_is_computed(bar, monkeypatch):
    from whippletree.simulation.output import dataset

    model, dyn = bar
    monkeypatch.setattr(dataset, "physical_memory", lambda: 1e6)
    with pytest.raises(ValueError, match=r"10001 rows of output with 22 numbers of 1 run are 0\.00176 GB, more than"):
        wt.simulate(model, duration=1.0, output_dt=1e-4, compiled=dyn)
    wt.simulate(model, duration=1.0, output_dt=1e-4, compiled=dyn, variables=())  # 6 numbers do fit


@pytest.mark.parametrize("method", ["adaptive", "rk4"])
def test_everything_has_units_names_and_an_account(bar, method):
    model, dyn = bar
    run = wt.simulate(model, duration=0.2, output_dt=0.05, method=method, points="coupler end", compiled=dyn)
    assert set(run.data_vars) == EVERYTHING | OF_CONSTRAINTS | {"points"}
    for name, variable in run.data_vars.items():
        assert variable.attrs["long_name"], name
        assert variable.attrs["units"], name
        if variable.dims[-1] in ("coordinate", "velocity", "row", "position_row"):
            assert len(variable.attrs["names"]) == variable.shape[-1], name
    assert run.q.attrs["units"] == "rad"
    assert run.a.attrs["units"] == "rad/s²"
    assert run.tau.attrs["units"] == "N m"
    assert set(run.attrs) >= STATISTICS - ({"rejections"} if method == "rk4" else set())
    assert run.attrs["method"] == method
    assert run.attrs["projections"] == run.attrs["steps"] > 0
    assert run.attrs["max_residual"] == float(np.abs(run.constraint_residual).max()) < 1e-14
    energy = run.kinetic_energy + run.potential_energy
    assert run.attrs["energy_drift"] == float(np.abs(energy - energy[0]).max())


def test_auto_says_what_it_took():
    assert wt.simulate(wt.mechanisms.pendulum(), duration=0.1).attrs["method"] == "adaptive"
    assert wt.simulate(wt.mechanisms.bouncing_ball(), duration=0.1).attrs["method"] == "events"


def test_units_of_joints_that_slide_and_turn():
    run = wt.simulate(wt.mechanisms.cart_pole(), duration=0.1)
    assert run.v.attrs["units"] == "m/s or rad/s"
    assert run.tau.attrs["units"] == "N or N m"


@pytest.mark.parametrize("method", ["adaptive", "rk4"])
def test_only_what_is_asked_for(bar, method):
    model, dyn = bar
    options = {"duration": 0.2, "output_dt": 0.05, "method": method, "compiled": dyn}
    whole = wt.simulate(model, **options)
    lean = wt.simulate(model, variables=["a", "constraint_forces"], **options)
    assert set(lean.data_vars) == {"q", "v", "a", "constraint_forces"}
    for name in lean.data_vars:
        np.testing.assert_array_equal(lean[name].values, whole[name].values)
    assert np.isnan(lean.attrs["energy_drift"])
    assert np.isnan(lean.attrs["max_residual"])
    assert set(wt.simulate(model, variables=[], **options).data_vars) == {"q", "v"}
    assert set(wt.simulate(model, variables="tau", **options).data_vars) == {"q", "v", "tau"}


def test_a_variable_that_no_run_has(bar):
    with pytest.raises(wt.NameLookupError, match=r"there is no variable 'energy'.*Did you mean 'kinetic_energy'"):
        wt.simulate(bar[0], duration=0.1, variables=["energy"], compiled=bar[1])


@pytest.mark.parametrize("method", ["adaptive", "rk4", "implicit_midpoint"])
def test_a_model_that_cannot_move(method):
    run = wt.simulate(wt.Builder("nothing").build(), duration=1.0, output_dt=0.5, method=method)
    assert run.q.shape == (3, 0)
    assert run.attrs["energy_drift"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"duration": "1"}, "simulate: duration is '1', expected a positive, finite number, written without quotes"),
        ({"rtol": b"1e-6"}, "simulate: rtol is b'1e-6', expected a positive, finite number, written without quotes"),
        (
            {"checkpoint_every": "9"},
            "simulate: checkpoint_every is '9', expected a positive, finite number, written without quotes",
        ),
        (
            {"rtol": 10**400},
            f"simulate: rtol is {10**400}, expected a positive, finite number",
        ),
        ({"duration": None}, "simulate: duration is None, expected a positive, finite number"),
        ({"output_dt": [1]}, "simulate: output_dt is [1], expected a positive, finite number"),
        ({"rtol": -1.0}, "simulate: rtol is -1.0, expected a positive, finite number"),
        ({"atol": 0.0}, "simulate: atol is 0.0, expected a positive, finite number"),
        ({"atol": np.inf}, "simulate: atol is inf, expected a positive, finite number"),
        ({"controller": 3}, "simulate: the controller 3 is not a function of (t, q, v)"),
        (
            {"q0": {"hinge": 1.0}},
            "simulate: q0 is {'hinge': 1.0}, expected 1 numbers for model 'pendulum': "
            "wt.assemble(model, hold=...) and model.slice(...) place joints by name",
        ),
        (
            {"method": "events", "most_events": "9"},
            "simulate: most_events is '9', expected a whole number of at least 1",
        ),
        ({"max_steps": 0}, "simulate: max_steps is 0, expected at least 1"),
    ],
)
def test_absurd_arguments(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the whole message is compared below)
        wt.simulate(wt.mechanisms.pendulum(), **({"duration": 1.0} | arguments))
    assert str(caught.value) == message


@pytest.mark.parametrize(("method", "questions"), [("adaptive", 400), ("rk4", 2000)])  # in the third run
def test_an_interrupted_batch_keeps_the_runs_that_are_done_and_goes_on(tmp_path, method, questions):
    calls = []

    def interrupting(t, q, v):
        calls.append(t)
        if len(calls) == questions:
            raise KeyboardInterrupt
        return [0.0 if q[0] > -99 else 1.0, 0.0]  # the branch keeps it out of the kernel

    model = wt.mechanisms.double_pendulum()
    starts = np.random.default_rng(0).uniform(-1, 1, (4, 2))
    options = {"duration": 0.2, "output_dt": 0.01, "method": method, "checkpoint": tmp_path, "controller": interrupting}
    with pytest.warns(RuntimeWarning, match="interrupted"):
        first = wt.simulate(model, starts, **options)
    assert first.attrs["failure"] == "interrupted by the user"
    assert 0 < np.isfinite(first.q.values).sum() < 21 * 4 * 2 or len(first.time) < 21
    second = wt.simulate(model, starts, **options)
    assert second.attrs["failure"] == ""
    del options["checkpoint"]
    whole = wt.simulate(model, starts, **options)
    assert second.q.values.tobytes() == whole.q.values.tobytes()
    assert second.attrs["steps"] == whole.attrs["steps"]
    known = np.isfinite(first.q.values)
    assert (first.q.values == whole.q.values[: len(first.time)])[known].all()


FIRST_RUN = """
import sys
import whippletree as wt
from whippletree.compiler.compiled import Compiled
names, of = [], Compiled.program
Compiled.program = lambda self, key, *rest, **words: names.append(key) or of(self, key, *rest, **words)
run = wt.simulate(wt.mechanisms.double_pendulum(), duration=0.1)
assert not run.attrs["failure"] and run.q.dtype == float
print(sorted({"dask", "scipy", "matplotlib"} & set(sys.modules)), [key[:2] for key in names])
"""


def test_a_first_run_brings_in_and_compiles_only_what_it_needs():
    # dask.array and Newton's kernel took as long as everything else of a short run
    result = subprocess.run([sys.executable, "-c", FIRST_RUN], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[] [('collocation_steps', 'Gauss, 8 points')]"


SMALL_DISK = """
import os, resource, sys, warnings
import whippletree as wt
from whippletree.simulation.checkpoint import CheckpointWarning

os.chdir(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    run = wt.simulate(wt.mechanisms.pendulum(), duration=50.0, output_dt=0.01, method="rk4", checkpoint="parts")
assert len(run.time) == 5001 and not run.attrs["failure"]
assert [w.category for w in caught] == [CheckpointWarning], caught
try:
    wt.save_run(run, "run.nc")
except OSError as error:
    print(error)
print(sorted(os.listdir(".")), sorted(os.listdir("parts")))
"""


def test_a_disk_that_refuses_costs_the_file_and_not_the_process(tmp_path):
    pytest.importorskip("resource", reason="this system has no limits on the size of files to stand for a full disk")
    command = [sys.executable, "-c", SMALL_DISK, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "[Errno 27] File too large: 'run.nc'",
        "['parts'] ['lock', 'run.json']",
    ]


@pytest.mark.slow
def test_warnings_of_a_run_name_the_line_that_asked_for_it():
    # however many functions of the library are between
    b = wt.Builder("ball in a floor").geometry("floor", "world", "half_space")
    b.body("ball", 1.0, inertia=(0.1, 0.1, 0.1)).joint("lift", "prismatic", "world", "ball", axis=(0, 0, 1))
    b.geometry("ball", "ball", "sphere", radius=0.5).contact("touch", "ball", "floor")
    sunk = b.build()
    b = wt.Builder("rusty").body("rod", 1.0, center=(0.1, 0, 0), inertia=(0.1, 0.1, 0.1))
    rusty = b.joint("pin", "revolute", "world", "rod", axis=(0, 1, 0), friction=0.1).build()
    for model, method, words in ((sunk, "time_stepping", "overlaps"), (rusty, "adaptive", "dry friction")):
        with pytest.warns(RuntimeWarning, match=words) as caught:
            wt.simulate(model, duration=0.01, output_dt=0.01, method=method)
        assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("runs", [1, 3])
def test_a_result_is_what_xarray_itself_would_make_of_its_parts(runs, monkeypatch):
    """Also where a version of it has no shortcut; two results share nothing that a user may change."""
    model = wt.mechanisms.four_bar((1.0, 0.4, 1.2, 0.9))
    q0 = model.home.q if runs == 1 else np.tile(model.home.q, (runs, 1))
    options = {"duration": 0.1, "output_dt": 0.02, "points": ["coupler end"], "reactions": True}
    quick = wt.simulate(model, q0, **options)
    assert hasattr(xarray.Dataset, dataset.XARRAYS_SHORTCUT)
    monkeypatch.setattr(dataset, "XARRAYS_SHORTCUT", "something that it has no more")
    plain = wt.simulate(model, q0, **options)
    xarray.testing.assert_identical(quick, plain)
    assert quick.sizes == plain.sizes
    assert list(quick.indexes) == list(plain.indexes)
    xarray.testing.assert_identical(quick.sel(time=0.04, row="pin.x"), plain.sel(time=0.04, row="pin.x"))
    quick.coordinate.attrs["mine"] = 1
    assert "mine" not in wt.simulate(model, q0, **options).coordinate.attrs
