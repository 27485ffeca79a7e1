"""The short way for single states: the same answers as the ufunc, nothing leaked, everything unusual handed on."""

import gc
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from whippletree.arithmetic import scalars
from whippletree.arithmetic.trace import Straight, Trace, finish
from whippletree.compiler.cpu import fast_call, threads
from whippletree.compiler.cpu.cpu_function import Wording, compile_function
from whippletree.compiler.program import Address, Block, Buffer, Index, Loop, Program, straight_program
from whippletree.errors import ShapeError, SingularSystemError
from whippletree.files.cache import CodeCache

OFF = CodeCache(None)
pytestmark = pytest.mark.skipif(not fast_call.is_supported(), reason="objects are laid out differently here")


def function(dtype=np.float64, scalar_output=True):
    """(q (3), M (2, 2), t ()) → (a (3), E ())."""
    trace = Trace()
    q, m, t = trace.inputs(3), trace.inputs(2, 2), trace.input()
    a = [scalars.sin(q[0]) + t, q[1] * m[0, 1], q[2] - m[1, 0]]
    energy = [q[0] * q[1] + m[1, 1]] if scalar_output else []
    inputs = [Buffer("q", "input", (3,)), Buffer("m", "input", (2, 2)), Buffer("t", "input", ())]
    outputs = [Buffer("a", "output", (3,)), Buffer("energy", "output", ())]
    code = finish(trace, [*a, *energy])
    program = straight_program("f", code, inputs, outputs[: 1 + scalar_output])
    f = compile_function(program, dtype=dtype, threads=1, cache=OFF)
    f(np.zeros(3, dtype), np.zeros((2, 2), dtype), np.zeros((), dtype))  # the first call prepares
    f._single.was_used()
    return f


@pytest.fixture(scope="module")
def f():
    return function()


Q, M, T = np.array([0.1, 2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array(0.5)


def same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        assert type(x) is type(y)
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "args",
    [
        (Q, M, T),
        (Q, M, 0.5),
        (Q, M, np.float64(0.5)),
        (Q[::-1], M.T, 0.5),
        (np.arange(6.0)[::2], np.asfortranarray(M), T),
        (np.broadcast_to(1.0, 3), np.broadcast_to(M[0], (2, 2)), T),
    ],
    ids=["arrays", "float", "float64", "reversed", "strided", "broadcast"],
)
def test_plain_states_take_the_short_way(f, args):
    found = f(*args)
    assert f._single.was_used()
    same(found, f.ufunc(*args))
    assert isinstance(found[1], np.float64)
    assert found[0].flags.c_contiguous
    assert found[0].flags.owndata


class Sub(np.ndarray):
    pass


@pytest.mark.parametrize(
    "args",
    [
        ([0.1, 2.0, 3.0], M, T),
        (Q, M, 1),
        (Q[None], M, T),
        (np.stack([Q] * 5), M, T),
        (Q.astype(np.float32), M, T),
        (Q.astype(">f8"), M, T),
        (Q.view(Sub), M, T),
        (np.frombuffer(b"0" + Q.tobytes(), dtype=np.uint8)[1:].view(np.float64), M, T),
        (Q, M, np.zeros(4)),
    ],
    ids=["list", "int", "batch of one", "batch", "float32", "byte order", "subclass", "unaligned", "broadcast"],
)
def test_everything_else_goes_to_numpy(f, args):
    found = f(*args)
    assert not f._single.was_used()
    for x, y in zip(found, f.ufunc(*args), strict=True):
        assert type(x) is type(y)
        np.testing.assert_array_equal(x, y)


def test_wrong_shapes_are_still_found(f):
    for args, name in [((Q[:2], M, T), "q"), ((Q, M[0], T), "m"), ((Q, M[:, :1], T), "m"), ((Q, T, T), "m")]:
        with pytest.raises(ShapeError, match=f"^f: {name} has shape"):
            f(*args)
    with pytest.raises(TypeError, match="t not given"):
        f(Q, M)


def test_one_output_is_no_tuple():
    f = function(scalar_output=False)
    found = f(Q, M, T)
    assert f._single.was_used()
    np.testing.assert_array_equal(found, f.ufunc(Q, M, T))


def test_float32():
    f = function(np.float32)
    args = Q.astype(np.float32), M.astype(np.float32), T.astype(np.float32)
    found = f(*args)
    assert f._single.was_used()
    same(found, f.ufunc(*args))
    f(args[0], args[1], 0.5)  # a float is a double: not for the short way
    assert not f._single.was_used()


def test_out_goes_to_numpy(f):
    target = np.zeros(3), np.zeros(())
    assert f(Q, M, T, out=target)[0] is target[0]
    np.testing.assert_array_equal(target[0], f(Q, M, T)[0])


def test_functions_that_do_not_suit():
    def buffers(role, *shapes):
        return [Buffer(f"{role}{i}", role, shape) for i, shape in enumerate(shapes)]

    good = buffers("input", (3,)), buffers("output", (2, 2))
    assert fast_call.suits(*good)
    assert not fast_call.suits([], good[1])
    assert fast_call.suits(buffers("input", ("T", 3), ("T",)), buffers("output", ("T", 2)))
    assert not fast_call.suits(buffers("input", ("T", 3), ("S",)), good[1])
    assert not fast_call.suits(buffers("input", ("T", 3)), buffers("output", ("S", 2)))
    assert not fast_call.suits(buffers("input", (0,)), good[1])
    assert not fast_call.suits(buffers("input", (1, 1, 1, 1, 1)), good[1])
    assert not fast_call.suits(buffers("input", *[(1,)] * 40), good[1])
    assert not fast_call.suits(good[0], [Buffer("status", "output", (), integer=True)])


STEPS = 7


@pytest.fixture(scope="module")
def sums():
    """(u (T, 3), w (T), x ()) → (x (T, 3) after each step of x += w u, x (3) at the end)."""
    begin, step = Trace(), Trace()
    first = begin.input()
    x, u, w = step.inputs(3), step.inputs(3), step.input()
    moved = [a + w * b for a, b in zip(x, u, strict=True)]
    at = [Address("now", (Index(None, i),)) for i in range(3)]
    rows = {name: [Address(name, (Index("t"), Index(None, i))) for i in range(3)] for name in ("u", "path")}
    weight, last = Address("w", (Index("t"),)), [Address("end", (Index(None, i),)) for i in range(3)]
    body = Block(finish(step, [*moved] * 3), (*at, *rows["u"], weight), (*at, *rows["path"], *last))
    start = Block(finish(begin, [first] * 3), (Address("x", ()),), tuple(at))
    shapes = {"u": ("T", 3), "w": ("T",), "x": ()}
    buffers = [Buffer(name, "input", shape) for name, shape in shapes.items()]
    buffers += [Buffer("path", "output", ("T", 3)), Buffer("end", "output", (3,)), Buffer("now", "work", (3,))]
    f = compile_function(Program("sums", tuple(buffers), (start, Loop("t", "T", (body,)))), threads=1, cache=OFF)
    f(np.zeros((2, 3)), np.zeros(2), 0.0)
    f._single.was_used()
    return f


U, W = np.arange(3.0 * STEPS).reshape(STEPS, 3), np.linspace(-1, 1, STEPS)


@pytest.mark.parametrize("count", [1, STEPS])
def test_a_size_may_come_with_the_call(sums, count):
    for u, w in ((U[:count], W[:count]), (U[count - 1 :: -1], W[:count]), (np.asfortranarray(U[:count]), W[:count])):
        path, end = sums(u, w, 0.5)
        assert sums._single.was_used()
        np.testing.assert_allclose(path, 0.5 + np.cumsum(w[:, None] * u, axis=0), rtol=1e-14)
        np.testing.assert_array_equal(end, path[-1])
        same((path, end), sums.ufunc(u, w, 0.5))
        assert path.flags.c_contiguous
        assert path.flags.owndata


def test_sizes_that_differ_are_found(sums):
    for args in ((U, W[:-1], 0.5), (U[:-1], W, 0.5), (U[:, :2], W, 0.5), (U, W[:, None], 0.5)):
        with pytest.raises(ShapeError, match=r"^sums: [uw] has shape"):
            sums(*args)
    batch = sums(np.stack([U, -U]), W, 0.5)[1]
    assert not sums._single.was_used()
    np.testing.assert_array_equal(batch, [sums(U, W, 0.5)[1], sums(-U, W, 0.5)[1]])
    assert sums(U[:0], W[:0], 0.5)[0].shape == (0, 3)


def test_long_calls_go_where_they_can_be_stopped(sums, monkeypatch):
    assert sums._large.longest > 1_000_000
    monkeypatch.setattr(threads, "LONG_CALL", 1000)
    monkeypatch.setattr(sums, "_large", threads.LargeCalls(sums._engine, sums.ufunc, 1))
    monkeypatch.setattr(sums, "_few", sums._large.fewest)
    longest = sums._large.longest
    assert STEPS < longest < 1_000_000
    monkeypatch.setattr(sums, "_run", sums._engine.single_call(sums._general, longest).function)
    for more in (0, 1):
        ways = []
        monkeypatch.setattr(sums._large, "_run_regions", lambda *given, ways=ways, **named: ways.append("stoppable"))
        sums(np.zeros((longest + more, 3)), np.zeros(longest + more), 2.0)
        assert ways == ["stoppable"] * more


def test_other_threads_run_during_rounds(sums):
    """A thread that waits for Python gets it during a call, or it would wait for the whole interval of switches."""
    go, ran = threading.Event(), []
    other = threading.Thread(target=lambda: (go.wait(), ran.append(True)))
    other.start()
    u, w, interval = np.zeros((100_000, 3)), np.zeros(100_000), sys.getswitchinterval()
    sys.setswitchinterval(100)
    try:
        go.set()
        calls = 0
        while not ran and calls < 1000:
            sums(u, w, 2.0)
            calls += 1
        found = list(ran)
    finally:
        sys.setswitchinterval(interval)
        other.join()
    assert sums._single.was_used()
    assert calls
    assert found


def test_more_than_a_handful_of_arrays():
    trace = Trace()
    x = [trace.inputs(2) for _ in range(20)]
    outputs = [sum(v[i % 2] for v in x) + i for i in range(20)]
    program = straight_program(
        "wide",
        finish(trace, outputs),
        [Buffer(f"x{i}", "input", (2,)) for i in range(20)],
        [Buffer(f"y{i}", "output", (2,)) for i in range(10)],
    )
    f = compile_function(program, threads=1, cache=OFF)
    args = list(np.random.default_rng(0).normal(size=(20, 2)))
    for _ in range(2):
        same(f(*args), f.ufunc(*args))
    assert f._single.was_used()


def test_status():
    trace = Trace()
    x = trace.inputs(2)
    failed = ~((x[1] < 0) | (x[1] > 0))
    program = straight_program(
        "f",
        finish(trace, [x[0] / x[1], scalars.select(failed, 2, 0)]),
        [Buffer("x", "input", (2,))],
        [Buffer("y", "output", ()), Buffer("status", "output", (), integer=True)],
    )
    f = compile_function(program, threads=1, cache=OFF, wording=Wording(failure=lambda code, inputs: f"code {code}"))
    good, bad = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    for _ in range(2):
        assert f(good) == 0.5
        assert f.status == 0
        with pytest.raises(SingularSystemError, match=r"^code 2$"):
            f(bad)
        assert f.status == 2
    with pytest.warns(RuntimeWarning, match="1 of 2 states failed"):
        f(np.stack([good, bad]))
    np.testing.assert_array_equal(f.status, [0, 2])
    assert f(good) == 0.5
    assert f.status == 0


def test_nothing_is_leaked(f, sums):
    def count():
        gc.collect()
        return sys.getrefcount(Q), sys.getrefcount(np.dtype(np.float64)), sys.getrefcount(np.ndarray)

    for args in ((Q, M, T), (Q[None], M, T)):
        f(*args)
        before, blocks = count(), sys.getallocatedblocks()
        for _ in range(1000):
            f(*args)
        assert max(abs(a - b) for a, b in zip(count(), before, strict=True)) < 50
        assert sys.getallocatedblocks() - blocks < 200
    a, energy = f(Q, M, T)
    assert sys.getrefcount(a) == 2
    assert sys.getrefcount(energy) == 2
    with pytest.raises(ShapeError):
        f(Q[:2], M, T)
    before, blocks = sys.getrefcount(U), sys.getallocatedblocks()
    for _ in range(1000):
        sums(U, W, 0.5)
    assert sys.getrefcount(U) == before
    assert sys.getallocatedblocks() - blocks < 200


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_of_which_only_some_numbers_are_written_begin_with_zeros(dtype):
    """In memory that held ones before, by the short way; larger ones go another way, to the same numbers."""
    for rows in (2000, fast_call.MOST_CLEARED // 3 + 1):
        block = Block(Straight([("input", 0)], [0]), (Address("x", ()),), (Address("y", (Index("k"), Index(None, 1))),))
        outputs = Buffer("y", "output", (rows, 3), zeroed=True), Buffer("z", "output", (rows, 3))
        whole = Loop("j", 3, (replace(block, stores=(Address("z", (Index("k"), Index("j"))),)),))
        body = Loop("k", 5, (block,)), Loop("k", rows, (whole,))
        f = compile_function(
            Program("few", (Buffer("x", "input", ()), *outputs), body), dtype=dtype, threads=1, cache=OFF
        )
        f(dtype(2))
        expected = np.zeros((rows, 3))
        expected[:5, 1] = 2
        short = rows == 2000
        assert (f._single is not None) is short
        for _ in range(3):
            ones = [np.ones((rows, 3), dtype) for _ in range(4)]
            del ones
            y, z = f(np.asarray(2, dtype))
            assert not short or f._single.was_used()
            np.testing.assert_array_equal(y, expected)
            assert (z == 2).all()
            del y, z
