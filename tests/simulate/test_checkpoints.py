"""Runs that are killed, interrupted or damaged: nothing is lost that was kept, and the rest gives the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import checkpoint_cases
import whippletree as wt
from whippletree.simulation.checkpoint import Checkpoint, CheckpointWarning, part_files
from whippletree.simulation.method import find_method

SETTINGS = {"duration": 2.0, "output_dt": 0.01, "rtol": 1e-10}

VICTIM = "import sys, checkpoint_cases; checkpoint_cases.run_slowly(sys.argv[1], sys.argv[2])"


def same_bits(a, b):
    """Times and every variable, to the last bit."""
    assert set(a.variables) == set(b.variables)
    for name in a.variables:
        if a[name].dtype == object:
            assert a[name].values.tolist() == b[name].values.tolist(), name
        else:
            assert a[name].values.tobytes() == b[name].values.tobytes(), name


def same_account(a, b):
    assert set(a.attrs) == set(b.attrs)
    for name in a.attrs:
        assert np.array_equal(a.attrs[name], b.attrs[name], equal_nan=isinstance(a.attrs[name], float)), name


def killed_in_the_middle(name, folder):
    """Start a run in another process and kill it when a few parts are written."""
    places = [str(Path(checkpoint_cases.__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    process = subprocess.Popen([sys.executable, "-c", VICTIM, name, str(folder)], env=environment)
    deadline = time.monotonic() + 60
    while len(part_files(folder)) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("name", checkpoint_cases.NAMES)
def test_a_killed_run_is_readable_and_goes_on_to_the_same_bits(tmp_path, name):
    folder = tmp_path / "run"
    killed_in_the_middle(name, folder)
    so_far = wt.read_checkpoint(folder)
    model, arguments = checkpoint_cases.case(name)
    whole = wt.simulate(model, **arguments)
    resumed = wt.simulate(model, checkpoint=folder, **arguments)
    same_bits(whole, resumed)
    if find_method(arguments.get("method", "auto"), model).counters:
        same_account(whole, resumed)
    known = np.isfinite(so_far.q.values)
    assert 0 < known.sum() < np.isfinite(whole.q.values).sum()
    assert so_far.q.values[known].tobytes() == whole.q.values[: len(so_far.time)][known].tobytes()
    again = wt.simulate(model, checkpoint=folder, **arguments)  # now it is finished, and read only
    same_bits(whole, again)
    same_account(resumed, again)


def test_a_run_that_an_event_has_ended_does_not_go_on(tmp_path):
    model = wt.mechanisms.double_pendulum()
    stop = wt.Event("low", lambda t, q, v: np.sin(q[0]) + 0.8, terminal=True)
    arguments = SETTINGS | {"events": (stop,), "checkpoint": tmp_path / "run"}
    first, second = wt.simulate(model, **arguments), wt.simulate(model, **arguments)
    assert 0 < first.time[-1] < 2.0
    same_bits(first, second)
    same_account(first, second)


def test_giving_up_is_not_forgotten(tmp_path):
    arguments = SETTINGS | {"max_steps": 8, "checkpoint": tmp_path / "run"}
    first, second = (wt.simulate(wt.mechanisms.double_pendulum(), **arguments) for _ in range(2))
    assert "max_steps = 8" in first.attrs["failure"]
    same_bits(first, second)
    same_account(first, second)


def test_two_processes_do_not_share_a_folder(tmp_path):
    def opened():
        return Checkpoint(tmp_path, 10.0, {"model": "arm"})

    message = "another process is computing this run: wait for it"
    with opened(), pytest.raises(wt.FileError, match=message):
        opened()
    with opened():
        pass


def test_a_finished_run_is_read_not_computed(tmp_path):
    calls = []

    def counted(t, q, v):
        calls.append(float(t))  # no traced number is one: the motion asks it in Python
        return np.zeros(2)

    model = wt.mechanisms.double_pendulum()
    arguments = SETTINGS | {"controller": counted, "checkpoint": tmp_path / "run", "checkpoint_every": 0.0}
    first = wt.simulate(model, **arguments)
    before = len(calls)
    second = wt.simulate(model, **arguments)
    same_bits(first, second)
    assert len(calls) - before <= before / 2  # the forces of the output are asked for again, the motion is not


@pytest.mark.parametrize("options", [{}, {"method": "rk4", "step": 0.002}])
def test_a_damaged_part_costs_only_what_follows_it(tmp_path, options):
    model = wt.mechanisms.double_pendulum()
    settings = SETTINGS | options
    whole = wt.simulate(model, checkpoint=tmp_path / "run", checkpoint_every=0.0, **settings)
    parts = part_files(tmp_path / "run")
    middle = parts[len(parts) // 2]
    middle.write_bytes(middle.read_bytes()[:100])
    assert len(wt.read_checkpoint(tmp_path / "run").time) < len(whole.time)
    same_bits(whole, wt.simulate(model, checkpoint=tmp_path / "run", **settings))


@pytest.mark.parametrize(
    ("changed", "word"),
    [({"rtol": 1e-9}, "settings"), ({"duration": 3.0}, "output times"), ({"q0": [0.1, 0.2]}, "start")],
)
def test_another_run_is_refused(tmp_path, changed, word):
    model = wt.mechanisms.double_pendulum()
    wt.simulate(model, checkpoint=tmp_path / "run", **SETTINGS)
    with pytest.raises(wt.FileError, match=f"another run: {word} differ"):
        wt.simulate(model, checkpoint=tmp_path / "run", **(SETTINGS | changed))


def test_an_interrupted_run_returns_what_it_had(tmp_path):
    def interrupting(after):  # which cannot be traced
        def controller(t, q, v):
            if t > after:
                raise KeyboardInterrupt
            return np.zeros(2)

        return controller

    model = wt.mechanisms.double_pendulum()
    with pytest.warns(RuntimeWarning, match="interrupted"):
        run = wt.simulate(model, controller=interrupting(1.0), checkpoint=tmp_path / "run", **SETTINGS)
    assert "interrupted" in run.attrs["failure"]
    assert 0.5 < run.time.values[-1] <= 1.0
    same_bits(wt.simulate(model, controller=interrupting(np.inf), **SETTINGS).sel(time=run.time), run)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to stand for a full disk")
def test_a_full_disk_costs_a_warning_not_the_run(tmp_path, monkeypatch):
    from whippletree.simulation import checkpoint

    def full(path, chunks):
        with open("/dev/full", "wb", buffering=0) as file:
            file.write(b"x")

    monkeypatch.setattr(checkpoint, "_write_part", full)
    with pytest.warns(CheckpointWarning, match="No space left"):
        run = wt.simulate(wt.mechanisms.double_pendulum(), checkpoint=tmp_path / "run", **SETTINGS)
    assert len(run.time) == 201


@pytest.mark.parametrize("content", [None, "{", "[]", '{"whippletree_checkpoint": 99}'])
def test_a_folder_that_is_no_checkpoint(tmp_path, content):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(wt.FileError, match=r"run\.json"):
        wt.read_checkpoint(tmp_path)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_runs_go_to_files_and_back(tmp_path, suffix):
    if suffix == ".zarr":
        pytest.importorskip("zarr", reason="zarr is not installed: pip install 'whippletree[zarr]'")
    run = wt.simulate(wt.mechanisms.four_bar(), duration=0.2, output_dt=0.01, points=["coupler rod"])
    path = wt.save_run(run, tmp_path / f"run{suffix}")
    back = wt.load_run(path)
    assert set(back.variables) == set(run.variables)
    for name in run.variables:
        assert back[name].values.tolist() == run[name].values.tolist()
        assert back[name].attrs == run[name].attrs
    assert back.attrs == run.attrs
    wt.save_run(run, path)  # a second time, over the first


def test_a_run_without_a_known_suffix_is_refused(tmp_path):
    run = wt.simulate(wt.mechanisms.double_pendulum(), duration=0.1)
    with pytest.raises(wt.UnsupportedError, match=r"kept as \.nc or \.zarr.*Did you mean '\.nc'"):
        wt.save_run(run, tmp_path / "run.ncc")
    (tmp_path / "run.nc").write_bytes(b"no HDF5")
    with pytest.raises(wt.FileError, match="not a run in NetCDF"):
        wt.load_run(tmp_path / "run.nc")
    with pytest.raises(FileNotFoundError):
        wt.load_run(tmp_path / "other.nc")


def test_an_unwritable_place_is_an_error_and_leaves_nothing(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="Permission"):
        wt.save_run(wt.simulate(wt.mechanisms.double_pendulum(), duration=0.1), tmp_path / "run.nc")


def test_progress_is_shown_when_asked_for(capfd, monkeypatch):
    from whippletree.simulation import progress

    monkeypatch.setattr(progress, "SHOWN_AFTER", 0.0)
    wt.simulate(wt.mechanisms.double_pendulum(), duration=0.5, progress=True)
    assert capfd.readouterr().err
    wt.simulate(wt.mechanisms.double_pendulum(), duration=0.5, progress=False)
    assert capfd.readouterr().err == ""
