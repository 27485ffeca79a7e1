"""``whippletree run``: published problems from scenario files, the same bits every time, interrupts, progress."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import whippletree as wt
from whippletree import cli

PENDULUM = """
[model]
mechanism = "pendulum"
parameters = { length = 1.0, mass = 1.0 }
[start]
joints = { hinge = 3.141592653589793 }
[solver]
duration = 10.0
rtol = 1e-12
atol = 1e-13
[outputs]
run = "kept/case.nc"
points = ["tip"]
"""

FOUR_BARS = """
[model]
mechanism = "n_four_bar"
parameters = { n = 2 }
[solver]
duration = 10.0
rtol = 1e-10
atol = 1e-11
output_dt = 2.0
[outputs]
run = "kept/case.nc"
points = ["B0"]
"""

SQUEEZER = """
[model]
mechanism = "andrews"
[[controllers]]
kind = "motor"
parameters = { joint = "beta", effort = 0.033 }
[solver]
duration = 0.03
rtol = 1e-10
atol = 1e-12
output_dt = 0.01
[outputs]
run = "kept/case.nc"
"""


def computed(folder, text):
    """The run that the command line leaves."""
    (folder / "case.toml").write_text(text)
    assert cli.main(["run", str(folder / "case.toml")]) == 0
    return wt.load_run(folder / "kept" / "case.nc")


@pytest.mark.slow
def test_iftomm_a01_from_a_file(tmp_path, capsys):
    """Elliptic functions give the tip at t = 10 s."""
    run = computed(tmp_path, PENDULUM)
    tip = run.points.sel(point="tip").values[-1, :2]
    assert np.abs(tip - [-0.275087462576117, -0.961419205099125]).max() < 1e-13
    out = capsys.readouterr().out
    assert "adaptive" in out
    assert "changed by at most" in out


@pytest.mark.slow
def test_iftomm_a02_from_a_file(tmp_path):
    run = computed(tmp_path, FOUR_BARS)
    assert np.abs(run.points.values[2, 0, :2] - [0.117616102376809, 0.993059138451325]).max() < 1e-9
    assert np.abs(run.points.values[-1, 0, :2] - [0.328458111540815, 0.944518538178601]).max() < 3e-9
    assert run.attrs["max_residual"] < 1e-12


@pytest.mark.slow
def test_the_squeezer_from_a_file_and_the_same_bits_again(tmp_path):
    run = computed(tmp_path, SQUEEZER)
    last = dict(zip(run.q.attrs["names"], run.q.values[-1].tolist(), strict=True))
    assert abs(last["beta"] - 15.81077119629904) < 1e-7
    assert abs(last["theta"] + 15.75637105984298) < 1e-7
    assert abs(last["epsilon"] - 1.048080741042263) < 1e-9
    again = computed(tmp_path, SQUEEZER)
    for name in run.data_vars:
        assert run[name].values.tobytes() == again[name].values.tobytes(), name


def test_outputs_that_cannot_be_written_are_found_before_the_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "whippletree.scenario.scenario_reader.simulate", lambda *_, **__: pytest.fail("it was simulated")
    )
    (tmp_path / "file").write_text("in the way")
    for outputs, message in (
        ('run = "case.xls"', r"kept as \.nc or \.zarr"),
        ('run = "file/case.nc"', "Not a directory|File exists"),
        ('plots = ["energy"]', "Did you mean 'energies'"),
    ):
        (tmp_path / "case.toml").write_text(PENDULUM.split("[outputs]")[0] + f"[outputs]\n{outputs}\n")
        assert cli.main(["run", str(tmp_path / "case.toml")]) == 2
        assert re.search(message, capsys.readouterr().err), outputs


SLOW = """
import time

def slow(t, q, v):
    time.sleep(0.005)
    return [0.0 * float(t), 0.0]  # float: it cannot be traced, and is asked at every point
"""

LONG = """
[model]
mechanism = "double_pendulum"
[start]
q = [1.0, 0.5]
[[controllers]]
kind = "python"
file = "slow.py"
function = "slow"
[solver]
duration = 50.0
output_dt = 0.05
[outputs]
run = "case.nc"
checkpoint = "case.parts"
"""


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_computed_and_a_terminal_shows_progress(tmp_path):
    """On a pseudo-terminal, stopped by SIGINT as by Ctrl-C when the bar has appeared: exit code 130 and a file."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "case.toml").write_text(LONG)
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "whippletree.cli", "run", "case.toml"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=end, env=environment)
    seen = bytearray()

    def read():
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                return
            if not piece:
                return
            seen.extend(piece)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while b"s/s" not in seen and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    os.close(end)
    reader.join(timeout=5)
    text = seen.decode(errors="replace")
    assert process.returncode == 130, text
    assert "of 50 s" in text  # simulated so far, rate and time left
    assert "interrupted" in text
    assert "Traceback" not in text
    assert b"wrote" in out
    run = wt.load_run(tmp_path / "case.nc")
    assert run.attrs["failure"] == "interrupted by the user"
    assert 1 <= len(run.time) < 1001
    assert len(wt.read_checkpoint(tmp_path / "case.parts").time) == len(run.time)
