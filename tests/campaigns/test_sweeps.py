"""``wt.sweep``: each run is what ``wt.simulate`` gives, whatever the path, the engine and the interruptions."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import whippletree as wt
from whippletree.campaigns import engines
from whippletree.campaigns.campaign import plan_sweep
from whippletree.campaigns.cases import ModelSubject, ScenarioSubject
from whippletree.campaigns.engines import Here, Processes
from whippletree.campaigns.store import Store
from whippletree.cli import main
from whippletree.model.parameters import with_parameters

PENDULUM = wt.mechanisms.double_pendulum()
SHORT = {"duration": 0.1, "output_dt": 0.05, "method": "rk4"}


def test_each_cell_of_a_grid_is_its_own_simulation(tmp_path):
    found = wt.sweep(
        PENDULUM, {"q0.shoulder": [0.2, 0.7, 1.1], "bodies.lower.mass": [0.5, 2.0]}, folder=tmp_path / "s",
        keep=("final", "series"), metrics={"peak": lambda run: float(np.abs(run.v).max())}, **SHORT,
    )  # fmt: skip
    assert dict(found.sizes)["q0.shoulder"] == 3
    assert dict(found.sizes)["bodies.lower.mass"] == 2
    for q0 in (0.2, 1.1):
        for mass in (0.5, 2.0):
            own = found.sel({"q0.shoulder": q0, "bodies.lower.mass": mass})
            alone = wt.simulate(with_parameters(PENDULUM, {"bodies.lower.mass": mass}), [q0, 0.0], **SHORT)
            np.testing.assert_allclose(own.q.values, alone.q.values, atol=1e-13)
            np.testing.assert_allclose(own.kinetic_energy.values, alone.kinetic_energy.values, atol=1e-12)
            assert float(own["q.elbow"]) == own.q.values[-1, 1]
            assert float(own["peak"]) == pytest.approx(float(np.abs(alone.v).max()), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "rk4", "implicit_midpoint"])
def test_numbers_for_each_run_give_what_each_model_gives(method):
    masses, options = np.array([0.5, 1.0, 3.0]), {"duration": 0.2, "method": method}
    many = wt.simulate(
        PENDULUM, [0.4, 0.1], parameters={"bodies.lower.mass": masses, "gravity": [0, -5.0, 0]}, **options
    )
    for k, mass in enumerate(masses):
        model = with_parameters(PENDULUM, {"bodies.lower.mass": mass, "gravity": np.array([0, -5.0, 0])})
        alone = wt.simulate(model, [0.4, 0.1], **options)
        for name in ("q", "v", "a", "kinetic_energy", "potential_energy"):
            np.testing.assert_allclose(many[name].isel(run=k), alone[name], atol=1e-10, err_msg=name)


def test_loops_are_closed_around_what_a_path_sets(tmp_path):
    model = wt.mechanisms.four_bar()
    angles = [0.2, 0.9, 1.6]
    found = wt.sweep(model, {"q0.crank": angles}, folder=tmp_path / "s", keep=("series", "final"), **SHORT)
    assert not any(found.failure.values)
    np.testing.assert_allclose(found.q.values[:, 0, 0], angles, atol=1e-12)
    assert np.abs(found.constraint_residual.values).max() < 1e-12


def test_structures_cases_and_failures_have_their_rows(tmp_path):
    def pendulum(links):
        if links == 2:
            raise RuntimeError("no such pendulum")
        return wt.mechanisms.chain(links)

    found = wt.sweep(
        pendulum, {"model.links": [1, 2, 3], "solver.rtol": [1e-6, 1e-9]}, folder=tmp_path / "s", duration=0.05
    )
    told = found.failure.values
    assert all("no such pendulum" in text for text in told[1])
    assert not any(told[0])
    assert not any(told[2])
    assert np.isnan(found["q.joint_3"].values[0]).all()
    assert np.isfinite(found["q.joint_3"].values[2]).all()


def test_contacts_and_controllers_are_parameters(tmp_path):
    ball = wt.mechanisms.bouncing_ball(height=0.2)
    found = wt.sweep(
        ball, {"contact.restitution": [0.2, 0.8]}, folder=tmp_path / "ball", duration=0.4, method="events",
        keep=("final", "events"),
    )  # fmt: skip
    times = {run: [e["time"] for e in found.attrs["events"] if e["run"] == run] for run in (0, 1)}
    first = np.sqrt(2 * 0.2 / 9.81)
    assert times[0][0] == pytest.approx(first, abs=1e-9)
    assert times[1][0] == pytest.approx(first, abs=1e-9)
    assert len(times[0]) != len(times[1])

    def spring(model, stiffness):
        return wt.controllers.pd(model, target=[0.0, 0.0], stiffness=stiffness, damping=0.5)

    held = wt.sweep(
        PENDULUM, {"controller.stiffness": [1.0, 50.0]}, q0=[0.5, 0.0], controller=spring, folder=tmp_path / "held",
        **SHORT,
    )  # fmt: skip
    alone = wt.simulate(PENDULUM, [0.5, 0.0], controller=spring(PENDULUM, 50.0), **SHORT)
    np.testing.assert_allclose(held["q.shoulder"].values[1], alone.q.values[-1, 0], atol=1e-12)


def _random_plan(folder, **options):
    parameters = {"q0.shoulder": stats.uniform(-1, 2), "bodies.lower.mass": stats.uniform(0.5, 1)}
    kept = {"runs": 12, "seed": 5, "runs_per_task": 3, "keep": ("final", "series")}
    return plan_sweep(PENDULUM, parameters, folder=folder, **kept | SHORT | options)


def _files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def test_a_stopped_sweep_goes_on_to_the_same_files(tmp_path):
    whole, parts = _random_plan(tmp_path / "whole"), _random_plan(tmp_path / "parts")
    whole.run(Here())
    parts.run(Here(), range(2, 3))
    (tmp_path / "parts" / "parts" / ".00000001-x.parquet.ab.part").write_bytes(b"a draft of a killed writer")
    assert wt.open_sweep(tmp_path / "parts").attrs["missing"] == 9
    assert parts.missing() == [0, 1, 3]
    parts.run(Here())
    assert _files(tmp_path / "whole") == _files(tmp_path / "parts")
    assert whole.verify(1.0) == []
    again = {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").rglob("*") if p.is_file()}
    parts.run(Here())
    assert again == {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").rglob("*") if p.is_file()}


def test_a_changed_part_is_found_by_computing_it_again(tmp_path):
    campaign = _random_plan(tmp_path / "s")
    campaign.run(Here())
    part = campaign.store.parts()[1]
    part.rename(part.with_name(f"00000001-{'0' * 16}.parquet"))
    assert campaign.verify(1.0) == [1]


@pytest.mark.slow
def test_workers_that_are_killed_lose_nothing(tmp_path, monkeypatch):
    """Processes of this machine; one is killed as soon as it has begun a task."""
    calm, harried = _random_plan(tmp_path / "calm"), _random_plan(tmp_path / "harried")
    calm.run(Here())
    killed = []
    give = engines._Worker.give

    def give_and_kill(worker, task):
        give(worker, task)
        if task == 1 and not killed:
            killed.append(worker.process.pid)
            threading.Timer(0.01, os.kill, (worker.process.pid, signal.SIGKILL)).start()

    monkeypatch.setattr(engines._Worker, "give", give_and_kill)
    harried.run(Processes(2))
    assert killed
    assert _files(tmp_path / "calm") == _files(tmp_path / "harried")


@pytest.mark.slow
def test_a_task_that_ends_its_workers_is_named(tmp_path):
    def deadly(run):
        os.kill(os.getpid(), signal.SIGKILL)

    campaign = _random_plan(tmp_path / "s", metrics={"deadly": deadly}, runs_per_task=12)
    with pytest.raises(RuntimeError, match=r"workers died over task \d+ \(signal 9\)"):
        campaign.run(Processes(2))


def test_another_sweep_does_not_take_the_folder(tmp_path):
    wt.sweep(PENDULUM, {"q0.shoulder": [0.1]}, folder=tmp_path / "s", **SHORT)
    with pytest.raises(wt.FileError, match="belongs to another sweep"):
        wt.sweep(PENDULUM, {"q0.shoulder": [0.2]}, folder=tmp_path / "s", **SHORT)
    heavier = replace(PENDULUM, gravity=2 * PENDULUM.gravity)
    with pytest.raises(wt.FileError, match="belongs to another sweep"):
        wt.sweep(heavier, {"q0.shoulder": [0.1]}, folder=tmp_path / "s", **SHORT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    with pytest.raises(wt.FileError, match="not empty"):
        wt.sweep(PENDULUM, {"q0.shoulder": [0.1]}, folder=tmp_path / "other", **SHORT)


@pytest.mark.parametrize(
    ("parameters", "options", "said"),
    [
        ({"bodies.lowr.mass": [1]}, {}, "Did you mean 'bodies.lower.mass'?"),
        ({"q0.sholder": [1]}, {}, "Did you mean 'q0.shoulder'?"),
        ({"contact.friction": [1]}, {}, "there is no path 'contact.friction'"),
        ({"nonsense": [1]}, {}, "there is no path 'nonsense'"),
        ({"gravity[7]": [1]}, {}, "there is no 'gravity[7]'"),
        ({"model.links": [1]}, {}, "a function that makes the model"),
        ({"controller.gain": [1]}, {}, "asks for controller="),
        ({"q0.shoulder": [1]}, {"keep": "everything"}, "no thing to keep 'everything'"),
        ({"q0.shoulder": [1]}, {"engine": "slurm"}, "no engine 'slurm'"),
        ({"q0.shoulder": [1]}, {"workers": 0}, "workers is 0"),
        ({"q0.shoulder": [1]}, {"runs_per_task": 0}, "runs_per_task is 0"),
        ({"q0.shoulder": [1]}, {"metrics": {"m": 3}}, "expected a function of a run"),
    ],
)
def test_mistakes_are_named_before_anything_runs(tmp_path, parameters, options, said):
    with pytest.raises((LookupError, ValueError, TypeError)) as error:
        wt.sweep(PENDULUM, parameters, folder=tmp_path / "s", **SHORT | options)
    assert said in str(error.value)
    assert not (tmp_path / "s" / "parts").exists()


def test_metrics_that_fail_are_rows_with_their_reason(tmp_path):
    def shape(run):
        return run.q.values if float(run.q[0, 0]) > 0.5 else 1.0

    def raises(run):
        return 1 / 0

    found = wt.sweep(
        PENDULUM,
        {"q0.shoulder": [0.1, 0.9]},
        folder=tmp_path / "s",
        metrics={"shape": shape, "raises": raises},
        **SHORT,
    )
    assert "ZeroDivisionError" in found.failure.values[0]
    assert "returned an array of shape (3, 2), expected one number" in found.failure.values[1]

    @wt.on_batch
    def wrong(batch):
        return np.zeros(7)

    found = wt.sweep(PENDULUM, {"q0.shoulder": [0.1]}, folder=tmp_path / "w", metrics={"wrong": wrong}, **SHORT)
    assert "returned shape (7,)" in found.failure.values[0]


def test_a_damaged_folder_says_what_to_do(tmp_path):
    campaign = _random_plan(tmp_path / "s")
    campaign.run(Here())
    part = campaign.store.parts()[0]
    part.write_bytes(b"PAR1 nothing")
    with pytest.raises(wt.FileError, match="delete it, and sweep again"):
        wt.open_sweep(tmp_path / "s")
    part.unlink()
    campaign.run(Here())
    assert wt.open_sweep(tmp_path / "s").attrs["missing"] == 0
    with pytest.raises(wt.FileError, match="not the folder of a sweep"):
        wt.open_sweep(tmp_path)


SCENARIO = """
[model]
mechanism = "four_bar"
[start]
joints = { crank = 0.5 }
[[controllers]]
kind = "motor"
parameters = { joint = "crank", effort = 4.0, no_load_speed = 12.0 }
[solver]
duration = 0.1
method = "rk4"
output_dt = 0.05
"""

SWEEP = """
scenario = "pump.toml"
design = "saltelli"
runs = 20
runs_per_task = 5
[parameters]
"q0.crank" = { distribution = "uniform", loc = 0.3, scale = 1.0 }
"controllers.0.effort" = [2.0, 4.0]
[metrics]
peak = { file = "metrics.py" }
"""


@pytest.mark.slow
def test_the_command_runs_parts_gathers_verifies_and_reports(tmp_path, capsys):
    (tmp_path / "pump.toml").write_text(SCENARIO)
    (tmp_path / "study.toml").write_text(SWEEP)
    (tmp_path / "metrics.py").write_text("def peak(run):\n    return float(abs(run.v).max())\n")
    study = str(tmp_path / "study.toml")
    assert main(["sweep", study, "--part", "1/2", "--quiet"]) == 0
    assert main(["sweep", study, "--gather"]) == 1
    assert "10 runs are missing" in capsys.readouterr().out
    assert main(["sweep", study, "--part", "2/2", "--quiet"]) == 0
    assert main(["sweep", study, "--gather"]) == 0
    assert main(["sweep", study, "--verify", "50%"]) == 0
    assert "the same" in capsys.readouterr().out
    assert main(["sweep", study, "--workers", "1", "--report", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Sobol" in page
    assert "page-run-" in page
    assert len(list(tmp_path.glob("page-run-*.html"))) >= 1
    assert main(["sweep", study, "--part", "3/2"]) == 2
    (tmp_path / "typo.toml").write_text(SWEEP.replace("q0.crank", "q0.cranck"))
    assert main(["sweep", str(tmp_path / "typo.toml")]) == 2
    assert "Did you mean 'q0.crank'?" in capsys.readouterr().err
    (tmp_path / "key.toml").write_text(SWEEP.replace("design", "desing"))
    assert main(["sweep", str(tmp_path / "key.toml")]) == 2
    assert "Did you mean 'design'?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_stops_with_its_name(tmp_path):
    campaign = _random_plan(tmp_path / "s")
    campaign.run(Here(), range(1))
    (tmp_path / "s" / "series").rename(tmp_path / "away")
    (tmp_path / "s" / "series").write_text("a file where a folder has to be")
    with pytest.raises(OSError, match="series"):
        campaign.run(Processes(2))
    assert set(Store(tmp_path / "s").parts()) == {0}


@pytest.mark.slow
def test_dask_workers_give_the_same_files(tmp_path):
    distributed = pytest.importorskip("distributed")
    calm, cluster = _random_plan(tmp_path / "calm"), _random_plan(tmp_path / "dask")
    calm.run(Here())
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as local, distributed.Client(local) as client:  # fmt: skip
        cluster.run(engines.Dask(client))
    assert _files(tmp_path / "calm") == _files(tmp_path / "dask")


def _dask_process(role, *options):
    command = [sys.executable, "-m", f"distributed.cli.dask_{role}", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _slow(run):
    time.sleep(0.1)
    return 1.0


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_named_and_the_rest_done_elsewhere(tmp_path):
    pytest.importorskip("distributed")
    slow = {"metrics": {"slow": _slow}}
    calm, left_alone = _random_plan(tmp_path / "calm", **slow), _random_plan(tmp_path / "left_alone", **slow)
    calm.run(Here())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scheduler = _dask_process("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    worker = _dask_process("worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    try:
        first = engines.Dask(f"tcp://127.0.0.1:{port}")
        while True:
            try:
                left_alone.run(first, range(1))
                break
            except (OSError, wt.UnsupportedError):  # not there yet
                time.sleep(0.2)
        threading.Timer(0.5, scheduler.kill).start()
        with pytest.raises(OSError, match=r"the dask scheduler has gone .* does the rest"):
            left_alone.run(first)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert 0 not in left_alone.missing()
    left_alone.run(Here())
    assert _files(tmp_path / "calm") == _files(tmp_path / "left_alone")


@pytest.mark.slow
def test_an_unreachable_scheduler_is_named(tmp_path):
    pytest.importorskip("distributed")
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"no dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        _random_plan(tmp_path / "s").run(engines.Dask("tcp://127.0.0.1:9"))
    assert time.monotonic() - begun < 60


def test_commands_of_a_scenario_drive_its_sweeps(tmp_path):
    """Those of ``[ctrl]`` and of ``ctrl=`` hold beside the ones that vary."""
    builder = wt.Builder("cart").body("mass", 1.0, inertia=(1, 1, 1))
    builder.joint("rail", "prismatic", "world", "mass", axis=(1, 0, 0))
    model = builder.actuator("push", "rail").actuator("pull", "rail", gear=-1).build()
    wt.save(model, tmp_path / "cart.toml")
    text = '[model]\nfile = "cart.toml"\n[ctrl]\nactuators = { push = 2.0 }\n[solver]\nduration = 1.0\nmethod = "rk4"\n'
    (tmp_path / "run.toml").write_text(text)
    swept = wt.sweep(tmp_path / "run.toml", {"ctrl.pull": [0.0, 0.5]}, folder=tmp_path / "a.sweep")
    np.testing.assert_allclose(swept["v.rail"].values.ravel(), [2.0, 1.5], atol=1e-12)
    assert ScenarioSubject(tmp_path / "run.toml").case({}).options["ctrl"] == {"push": 2.0}
    subject = ModelSubject(model, options={"ctrl": [2.0, 0.0]})
    assert subject.case({"ctrl.pull": 0.5}).options["ctrl"] == {"push": 2.0, "pull": 0.5}
    with pytest.raises(ValueError, match=r"sweep: ctrl.pull vary, and ctrl is a function or a table"):
        ModelSubject(model, options={"ctrl": lambda t, q, v: [0, 0]}).case({"ctrl.pull": 0.5})
