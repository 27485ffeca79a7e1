"""Ctrl-C, as a signal that a process of its own receives: it ends compiled loops soon, and is never lost."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from whippletree.compiler.cpu import threads
from whippletree.compiler.llvm import jit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as on POSIX")

SOON = 0.2
"""Seconds within which a compiled loop ends."""

HEAD = """
import time
import numpy as np
import whippletree as wt
"""

TAIL = """
print("ready", flush=True)
try:
    call()
    print("finished", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

ROLL = """
dyn = wt.compile(wt.mechanisms.chain(6), threads={threads})
q = np.full(({batch}, 6), 0.1)[{single}]
def roll(steps):
    return dyn.rollout(q, 0 * q, np.zeros((steps, 6)), 1e-6, method="rk4")
short = roll(3)
call = lambda: roll({steps})
"""

BATCH = """
f = wt.compile(wt.mechanisms.chain(40), threads={threads}).kinetic_energy
q = np.full((4000, 40), 0.1)
f(q, q)
wide = np.broadcast_to(q[:, None], (4000, 16000, 40))
call = lambda: f(wide, wide)
"""

CONTACT = """
model = wt.mechanisms.quadruped()
dyn = wt.compile(model, threads={threads})
def roll(steps):
    starts = np.tile(model.home.q, (8, 1))
    return dyn.contact_rollout(starts, np.zeros((8, model.nv)), np.zeros((steps, model.nv)), 1e-3)
roll(2)
call = lambda: roll(100_000)
"""


def started(code, **environment):
    """A process that runs the code and has said that it is ready."""
    path = os.pathsep.join([os.path.join(os.getcwd(), "src"), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD + code + TAIL],
        # large arrays are let go slowly where the suite has memory overwritten
        env={**os.environ, "MALLOC_PERTURB_": "0", "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = process.stdout.readline()
    assert first == "ready\n", process.communicate(timeout=60)[1]
    return process


def pressed(process, after):
    """What the process says when Ctrl-C is pressed after so many seconds, and how long that takes."""
    with process:
        time.sleep(after)
        begin = time.perf_counter()
        process.send_signal(signal.SIGINT)
        answer = process.stdout.readline().strip()
        passed = time.perf_counter() - begin
        # not communicate, which would miss what readline has buffered
        return answer, passed, process.stdout.read(), process.stderr.read()


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "code",
    [
        ROLL.replace("{batch}", "1").replace("{single}", "0").replace("{steps}", "20_000_000"),
        ROLL.replace("{batch}", "40").replace("{single}", ":").replace("{steps}", "500_000"),
        BATCH,
        CONTACT,
    ],
    ids=["one roll-out", "roll-outs", "batch", "contact"],
)
def test_a_compiled_loop_ends_soon(code, count):
    passed = []
    while len(passed) < 5 and min(passed, default=SOON) >= SOON:  # a busy machine may be slow once
        answer, seconds, _, errors = pressed(started(code.replace("{threads}", str(count))), 0.3)
        assert (answer, errors) == ("interrupted", "")
        passed.append(seconds)
    assert min(passed) < SOON


SIMULATE = """
import warnings
warnings.simplefilter("ignore")  # which tells of the interrupt
model = {model}
in_python = lambda t, q, v: 0 * v + 0 * float(t)  # a symbol is no number: this cannot be traced
run = lambda duration: wt.simulate(model, duration=duration, output_dt=duration, variables=(), {options})
run({least})
def call():
    failure = run(1e5).attrs["failure"]
    assert "interrupted" in failure, failure
    raise KeyboardInterrupt
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "least", "options"),
    [
        ("wt.mechanisms.double_pendulum()", 1.0, "method='adaptive', max_steps=10**9"),
        ("wt.mechanisms.hopper()", 2.0, "method='events', massless='hold', most_events=10**9"),
        ("wt.mechanisms.quadruped()", 0.1, "method='time_stepping', step=1e-3"),
        ("wt.mechanisms.double_pendulum()", 1.0, "method='adaptive', max_steps=10**9, controller=in_python"),
        ("wt.mechanisms.quadruped()", 0.1, "method='time_stepping', step=1e-3, controller=in_python"),
    ],
    ids=["adaptive", "events", "time stepping", "adaptive, asking", "time stepping, asking"],
)
def test_a_long_run_ends_soon_and_returns_what_it_had(model, least, options):
    code = SIMULATE.format(model=model, least=least, options=options)
    passed = []
    while len(passed) < 5 and min(passed, default=SOON) >= SOON:  # a busy machine may be slow once
        answer, seconds, _, errors = pressed(started(code), 0.5)
        assert (answer, errors) == ("interrupted", "")
        passed.append(seconds)
    assert min(passed) < SOON


def test_after_an_interrupt_calls_work_as_before():
    code = (
        ROLL.format(threads=2, batch=40, single=":", steps=500_000)
        + """
long = roll(20_000)
def call():
    try:
        roll(500_000)
    finally:
        for wanted in (short, long):
            assert all(np.array_equal(x, y) for x, y in zip(roll(wanted[0].shape[1]), wanted))
        print("good", flush=True)
"""
    )
    answer, _, rest, errors = pressed(started(code), 0.3)
    assert (answer, rest, errors) == ("good", "interrupted\n", "")


def test_a_handler_of_the_user_is_called_in_time_and_the_call_goes_on():
    code = """
import signal
signal.signal(signal.SIGINT, lambda number, frame: print("heard", flush=True))
"""
    process = started(ROLL.format(threads=1, batch=1, single=0, steps=1_500_000) + code)
    answer, passed, rest, errors = pressed(process, 0.3)
    assert (answer, rest, errors) == ("heard", "finished\n", "")
    assert passed < SOON


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("q[0]", "q"), ("q", "q[0]")], ids=["batch second", "single second"])
def test_ctrl_c_while_the_second_variant_compiles(first, second):
    """LLVM itself goes on, on a thread of its own: the interrupt is raised at once, where it used to be lost."""
    code = f"""
f = wt.compile(wt.mechanisms.chain(16), threads=1).forward_dynamics_derivatives
q = np.full((9, 16), 0.1)
wanted = f({first}, {first}, {first})
def call():
    a = f({second}, {second}, {second})
    assert not np.isnan(a[0]).any()
"""
    passed = []
    while len(passed) < 3 and min(passed, default=SOON) >= SOON:  # a busy machine may be slow once
        process = started(code, WHIPPLETREE_CACHE="off")
        answer, seconds, _, errors = pressed(process, 0.3)
        assert (answer, errors) == ("interrupted", "")
        passed.append(seconds)
    assert min(passed) < SOON


def test_what_cannot_be_interrupted_ends_by_itself(monkeypatch):
    ended, begin = threading.Event(), []

    def deaf(text, machine, level):
        begin.append(time.perf_counter())
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        ctypes.CDLL(None).usleep(900_000)
        ended.set()
        return b""

    machine = jit.host()
    monkeypatch.setattr(jit, "_emit_object", deaf)
    with pytest.raises(KeyboardInterrupt):
        jit.object_code("", machine)
    assert time.perf_counter() - begin[0] < 0.1 + SOON
    assert not ended.is_set()
    assert ended.wait(5.0)


# ---- the pool ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("stop", [None, lambda: None], ids=["shares", "waits"])
def test_all_pieces_are_run_once(count, stop):
    done = []
    threads.run_all([lambda i=i: done.append(i) for i in range(100)], count, stop)
    assert sorted(done) == list(range(100))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("waits", [False, True])
def test_an_exception_of_a_piece_is_raised_when_none_runs_any_more(count, waits):
    running, stopped = [], []

    def piece(number):
        running.append(number)
        try:
            if number == 3:
                raise ArithmeticError("piece 3")
            time.sleep(0.002)
        finally:
            running.remove(number)

    with pytest.raises(ArithmeticError, match="piece 3"):
        threads.run_all([partial(piece, i) for i in range(300)], count, partial(stopped.append, 1) if waits else None)
    assert running == []
    assert len(stopped) == waits


def test_where_no_thread_can_be_started_this_one_works(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(threads, "_pools", {})
    for stop in (None, lambda: None):
        done: list[int] = []
        threads.run_all([partial(done.append, 1)] * 7, 3, stop)
        assert len(done) == 7


@pytest.mark.slow
def test_calls_on_other_threads_are_not_stopped():
    """A flag belongs to one call: the same function, called elsewhere at the same time, finishes."""
    code = (
        ROLL.format(threads=1, batch=1, single=0, steps=20_000_000)
        + """
import threading
found = []
other = threading.Thread(target=lambda: found.append(roll(2_000_000)))
inner = call
def call():
    other.start()
    try:
        inner()
    finally:
        other.join()
        print(np.isfinite(found[0][0]).all(), found[0][0].shape, dyn.rollout.status, flush=True)
"""
    )
    answer, _, rest, errors = pressed(started(code), 0.3)
    assert (answer, rest, errors) == ("True (2000000, 6) 0", "interrupted\n", "")
