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

import whippletree as wt
from whippletree.simulation.checkpoint import CheckpointWarning, part_files

SETTINGS = {"duration": 2.0, "output_dt": 0.01, "rtol": 1e-10}

VICTIM = """
import sys, time
import whippletree as wt

def slowly(t, q, v):
    time.sleep(0.002)
    return [0.0, 0.0]

wt.simulate(wt.mechanisms.double_pendulum(), duration=2.0, output_dt=0.01, rtol=1e-10, controller=slowly,
            checkpoint=sys.argv[1], checkpoint_every=0.05)
"""


def slowly(t, q, v):
    return [0.0, 0.0]


def same_bits(a, b):
    assert a.time.values.tobytes() == b.time.values.tobytes()
    for name in ("q", "v", "a", "tau", "kinetic_energy"):
        assert a[name].values.tobytes() == b[name].values.tobytes(), name


def test_a_killed_run_is_readable_and_goes_on_to_the_same_bits(tmp_path):
    folder = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", VICTIM, str(folder)])
    deadline = time.monotonic() + 60
    while len(part_files(folder)) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    so_far = wt.read_checkpoint(folder)
    assert 1 < len(so_far.time) < 201
    model = wt.mechanisms.double_pendulum()
    whole = wt.simulate(model, controller=slowly, **SETTINGS)
    resumed = wt.simulate(model, controller=slowly, checkpoint=folder, **SETTINGS)
    same_bits(whole, resumed)
    assert so_far.q.values.tobytes() == whole.q.values[: len(so_far.time)].tobytes()


def test_a_finished_run_is_read_not_computed(tmp_path):
    calls = []

    def counted(t, q, v):
        calls.append(t)
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
    def interrupting(t, q, v):
        if t > 1.0:
            raise KeyboardInterrupt
        return np.zeros(2)

    model = wt.mechanisms.double_pendulum()
    with pytest.warns(RuntimeWarning, match="interrupted"):
        run = wt.simulate(model, controller=interrupting, checkpoint=tmp_path / "run", **SETTINGS)
    assert "interrupted" in run.attrs["failure"]
    assert 0.5 < run.time.values[-1] <= 1.0
    same_bits(wt.simulate(model, controller=slowly, **SETTINGS).sel(time=run.time), run)


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

    monkeypatch.setattr(progress, "AFTER", 0.0)
    wt.simulate(wt.mechanisms.double_pendulum(), duration=0.5, progress=True)
    assert capfd.readouterr().err
    wt.simulate(wt.mechanisms.double_pendulum(), duration=0.5, progress=False)
    assert capfd.readouterr().err == ""
