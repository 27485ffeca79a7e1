"""A checkpoint answers for its own run only: whatever decides a run belongs to its identity, and damage is named."""

from __future__ import annotations

import json
import shutil
import threading
import types
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pytest

import whippletree as wt
from whippletree import controllers
from whippletree.simulation.checkpoint import CheckpointWarning, part_files

MODEL = wt.mechanisms.double_pendulum()
FIRST = MODEL.joints[0].name
COMPILED = wt.compile(MODEL)
GAIN = 1.0
MODULE = types.ModuleType("gains")


def run(folder, model=MODEL, **arguments):
    return wt.simulate(model, checkpoint=folder, **({"duration": 0.05, "output_dt": 0.01} | arguments))


def closure(gain):
    return lambda t, q, v: [-gain * q[0], 0.0]


def nested(gain):
    def law(x):
        return -gain * x

    return lambda t, q, v: [law(q[0]), 0.0]


def by_default(gain):
    def act(t, q, v, stiffness=gain):
        return [-stiffness * q[0], 0.0]

    return act


def weighted(gain, t, q, v):
    return [-gain * q[0], 0.0]


def weighted_by(tables, t, q, v):
    return [-tables[0][7] * q[0], 0.0]


def of_global(gain):
    global GAIN
    GAIN = gain
    return lambda t, q, v: [-GAIN * q[0], 0.0]


def of_module(gain):
    MODULE.GAIN = gain
    return lambda t, q, v: [-MODULE.GAIN * q[0], 0.0]


def of_constant(gain):
    known = {}
    exec(f"def act(t, q, v):\n    return [(lambda x: -{gain} * x)(q[0]), 0.0]", known)
    return known["act"]


def of_table(gain):
    table = np.full((50, 2), gain)
    return lambda t, q, v: -table[0] * q


@dataclass
class Law:
    gain: float

    def __call__(self, t, q, v):
        return [-self.gain * q[0] * self.one, 0.0]

    def method(self, t, q, v):
        return self(t, q, v)

    @cached_property
    def one(self):
        return 1.0


def together(gain):
    return controllers.together(
        controllers.gravity_compensation(MODEL), controllers.spring(MODEL, FIRST, stiffness=gain, damping=0.1)
    )


MAKERS = {
    "pd": lambda gain: controllers.pd(MODEL, target=[0.0, 0.0], stiffness=gain, damping=1.0),
    "pd with a target in time": lambda gain: controllers.pd(
        MODEL, target=lambda t: np.array([gain * t, 0.0]), stiffness=1.0, damping=1.0
    ),
    "together": together,
    "motor": lambda gain: controllers.motor(MODEL, FIRST, gain),
    "motor's limit": lambda gain: controllers.motor(MODEL, FIRST, 5.0, limit=gain),
    "limited": lambda gain: controllers.limited(closure(1.0), MODEL, {FIRST: gain}),
    "closure": closure,
    "function in a closure": nested,
    "default": by_default,
    "partial": lambda gain: partial(weighted, gain),
    "global": of_global,
    "module": of_module,
    "constant": of_constant,
    "array": of_table,
    "arrays in a list": lambda gain: partial(weighted_by, [np.linspace(0.0, 1.0, 3001) ** gain]),
    "object": Law,
    "bound method": lambda gain: Law(gain).method,
    "compiled function": lambda gain: lambda t, q, v: gain * COMPILED.gravity(q),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_another_controller_is_refused_and_the_same_one_is_not(tmp_path, kind):
    first = run(tmp_path, controller=MAKERS[kind](1.0))
    again = run(tmp_path, controller=MAKERS[kind](1.0))
    assert first.q.values.tobytes() == again.q.values.tobytes()
    with pytest.raises(wt.FileError, match="another run: controller differs"):
        run(tmp_path, controller=MAKERS[kind](2.0))


def test_a_refusal_names_the_number_that_differs(tmp_path):
    run(tmp_path, controller=together(5.0))
    with pytest.raises(wt.FileError, match=r"controllers\[1\]: stiffness was 5\.0, is 50\.0"):
        run(tmp_path, controller=together(50.0))


@pytest.mark.parametrize("changed", [{"function": lambda t, q, v: q[0] - 0.2}, {"direction": 1}, {"terminal": True}])
def test_another_event_is_refused(tmp_path, changed):
    def event(**changed):
        return wt.Event("low", **({"function": lambda t, q, v: q[0] - 0.1} | changed))

    run(tmp_path, events=(event(),))
    run(tmp_path, events=(event(),))
    with pytest.raises(wt.FileError, match="another run: events differ"):
        run(tmp_path, events=(event(**changed),))


def test_another_function_of_a_constraint_is_refused(tmp_path):
    def held(height):
        builder = wt.Builder("held", (0, 0, -9.81))
        builder.body("bob", 1.0, inertia=(0.1, 0.1, 0.1)).joint("base", "free", "world", "bob")
        builder.constraint("level", "custom", "bob", residual=lambda X: [X[2, 3] - height * X[0, 3]], rows=("z",))
        return builder.build()

    run(tmp_path, held(0.1))
    run(tmp_path, held(0.1))
    with pytest.raises(wt.FileError, match=r"constraint 'level': residual: height was 0\.1, is 0\.2"):
        run(tmp_path, held(0.2))


@pytest.mark.parametrize("gain", ["2.0", "2"])
def test_another_scenario_is_refused(tmp_path, gain):
    text = """
        [model]
        mechanism = "double_pendulum"
        [[controllers]]
        kind = "damper"
        parameters = {joint = "JOINT", damping = 1.0}
        [solver]
        duration = 0.05
        [outputs]
        checkpoint = "parts"
    """.replace("JOINT", FIRST)
    path = tmp_path / "case.toml"
    path.write_text(text)
    wt.load_scenario(path).run()
    wt.load_scenario(path).run()
    path.write_text(text.replace("damping = 1.0", f"damping = {gain}"))
    with pytest.raises(wt.FileError, match=r"controller: damping was 1\.0, is 2"):
        wt.load_scenario(path).run()


def test_a_python_file_called_like_a_library_is_read_all_the_same(tmp_path):
    """``random.py`` beside a scenario is the user's, and its globals count."""
    scenario = '[model]\nmechanism = "double_pendulum"\n[[controllers]]\nkind = "python"\nfile = "random.py"\n'
    scenario += 'function = "act"\n[solver]\nduration = 0.05\n[outputs]\ncheckpoint = "parts"\n'
    (tmp_path / "case.toml").write_text(scenario)
    code = "GAIN = 1.0\n\ndef act(t, q, v):\n    return [-GAIN * q[0], 0.0]\n"
    (tmp_path / "random.py").write_text(code)
    wt.load_scenario(tmp_path / "case.toml").run()
    (tmp_path / "random.py").write_text(code.replace("1.0", "3.0"))
    with pytest.raises(wt.FileError, match=r"controller: GAIN was 1\.0, is 3\.0"):
        wt.load_scenario(tmp_path / "case.toml").run()


def test_what_cannot_be_compared_is_named(tmp_path):
    lock = threading.Lock()

    def guarded(t, q, v):
        with lock:
            return [0.0, 0.0]

    with pytest.warns(CheckpointWarning, match=r"controller: lock cannot be compared: a _thread\.lock"):
        first = run(tmp_path, controller=guarded)
    assert len(wt.read_checkpoint(tmp_path).time) == len(first.time)
    with pytest.raises(wt.FileError, match="cannot be told: controller: lock cannot be compared"):
        run(tmp_path, controller=guarded)


def test_what_the_run_writes_itself_is_not_compared(tmp_path):
    calls = []

    def noted(t, q, v, gain=1.0):
        calls.append(t)
        return [-gain * q[0], 0.0]

    first = run(tmp_path, controller=noted)
    second = run(tmp_path, controller=noted)
    assert first.q.values.tobytes() == second.q.values.tobytes()
    noted.__defaults__ = (2.0,)
    with pytest.raises(wt.FileError, match=r"default\['gain'\] was 1\.0, is 2\.0"):
        run(tmp_path, controller=noted)


def test_a_part_of_another_run_is_refused(tmp_path):
    for gain in (1.0, 2.0):
        run(tmp_path / str(gain), controller=closure(gain), checkpoint_every=0.0)
    shutil.copy(part_files(tmp_path / "2.0")[1], part_files(tmp_path / "1.0")[1])
    with pytest.raises(wt.FileError, match=r"part 000001\.npz is that of another run"):
        run(tmp_path / "1.0", controller=closure(1.0))
    with pytest.raises(wt.FileError, match=r"part 000001\.npz is that of another run"):
        wt.read_checkpoint(tmp_path / "1.0")


def test_the_end_of_another_run_is_refused(tmp_path):
    for gain in (1.0, 2.0):
        run(tmp_path / str(gain), controller=closure(gain))
    shutil.copy(tmp_path / "2.0" / "finished.json", tmp_path / "1.0")
    with pytest.raises(wt.FileError, match=r"finished\.json is that of another run"):
        run(tmp_path / "1.0", controller=closure(1.0))


DAMAGES = {
    "nested": lambda data: b"[" * 100_000,
    "a list": lambda data: b"[]",
    "a number": lambda data: b"3",
    "no keys": lambda data: b"{}",
    "wrong types": lambda data: json.dumps(dict.fromkeys(json.loads(data), 7)).encode(),
    "a word less": lambda data: json.dumps({k: v for k, v in json.loads(data).items() if k != "identity"}).encode(),
    "no text": lambda data: b"\xff\xfe\x00",
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_header_is_named(tmp_path, damage):
    run(tmp_path)
    header = tmp_path / "run.json"
    header.write_bytes(DAMAGES[damage](header.read_bytes()))
    for call in (run, wt.read_checkpoint):
        with pytest.raises(wt.FileError, match=r"run\.json is (damaged|not that of a checkpoint)"):
            call(tmp_path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_end_is_computed_again(tmp_path, damage):
    whole = run(tmp_path)
    end = tmp_path / "finished.json"
    end.write_bytes(DAMAGES[damage](end.read_bytes()))
    again = run(tmp_path)
    assert whole.q.values.tobytes() == again.q.values.tobytes()
    assert whole.attrs["steps"] == again.attrs["steps"]


def _without(name):
    def changed(path):
        with np.load(path) as stored:
            arrays = {key: stored[key] for key in stored.files if key != name}
        np.savez(path, **arrays)

    return changed


def _with(name, value):
    def changed(path):
        with np.load(path) as stored:
            arrays = {key: stored[key] for key in stored.files} | {name: np.array(value)}
        np.savez(path, **arrays)

    return changed


@pytest.mark.parametrize(
    "damage",
    [
        *map(_without, ("times", "states", "events", "memo tally", "memo time", "memo state")),
        _with("events", "[" * 100_000),
        _with("events", "[1, 2]"),
        _with("memo tally", "3"),
        _with("states", 1.0),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_part_is_computed_again(tmp_path, damage, which):
    whole = run(tmp_path, checkpoint_every=0.0)
    damage(part_files(tmp_path)[which])
    again = run(tmp_path)
    assert whole.q.values.tobytes() == again.q.values.tobytes()
