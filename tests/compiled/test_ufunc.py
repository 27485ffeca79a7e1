"""Compiled functions as citizens of NumPy: whatever NumPy users throw at them."""

import gc
import os
import subprocess
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic import scalars
from whippletree.arithmetic.trace import Straight, Trace, finish
from whippletree.compiler.cpu import threads
from whippletree.compiler.cpu.cpu_function import Wording, compile_function
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.kernel import Recipe
from whippletree.compiler.program import Address, Block, Buffer, Index, Program, straight_program
from whippletree.compiler.program.check import ProgramError
from whippletree.errors import ScalarError, ShapeError, SingularSystemError, WhippletreeError
from whippletree.files.cache import CodeCache

OFF = CodeCache(None)


def arm_like():
    """(q, v, c) → (a, E): rows of 7, 3 and a scalar in, 7 and a 3 × 3 matrix out."""
    trace = Trace()
    q, v, c = trace.inputs(7), trace.inputs(3), trace.input()
    a = [scalars.sin(x) * c + v[i % 3] / (2 + x * x) for i, x in enumerate(q)]
    m = [scalars.cos(v[i]) * q[j] - c for i in range(3) for j in range(3)]
    inputs = [Buffer("q", "input", (7,)), Buffer("v", "input", (3,)), Buffer("c", "input", ())]
    outputs = [Buffer("a", "output", (7,)), Buffer("m", "output", (3, 3))]
    return straight_program("arm", finish(trace, [*a, *m]), inputs, outputs)


def expected(q, v, c):
    q, v, c = np.asarray(q, float), np.asarray(v, float), np.asarray(c, float)
    a = np.sin(q) * c[..., None] + v[..., np.arange(7) % 3] / (2 + q * q)
    m = np.cos(v)[..., :, None] * q[..., None, :3] - c[..., None, None]
    return a, m


def square_plus(name="f"):
    """x (4) → x² + 1 (4)."""
    trace = Trace()
    x = trace.inputs(4)
    return straight_program(
        name, finish(trace, list(x * x + 1)), [Buffer("x", "input", (4,))], [Buffer("y", "output", (4,))]
    )


@pytest.fixture(scope="module")
def arm():
    return compile_function(arm_like(), threads=1, cache=OFF)


@pytest.fixture(scope="module")
def f():
    return compile_function(square_plus(), threads=1, cache=OFF)


def states(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 7)), rng.normal(size=(count, 3)), rng.normal(size=count)


def close(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-15)


# ---- shapes, strides, dtypes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 16, 17, 100])
def test_any_batch_size(arm, count):
    close(arm(*states(count)), expected(*states(count)))


def test_one_state_has_the_bits_of_a_batch(arm):
    q, v, c = states(20)
    a, m = arm(q, v, c)
    for i in range(20):
        a1, m1 = arm(q[i], v[i], c[i])
        np.testing.assert_array_equal(a1, a[i])
        np.testing.assert_array_equal(m1, m[i])
        assert a1.shape == (7,)
        assert m1.shape == (3, 3)


def test_lists_ints_and_scalars(arm):
    close(arm([1, 2, 3, 4, 5, 6, 7], (0, 1, 2), 3), expected([1, 2, 3, 4, 5, 6, 7], [0, 1, 2], 3))
    q = np.arange(14, dtype=np.int32).reshape(2, 7)
    close(arm(q, np.ones(3, np.float32), np.float32(2)), expected(q, np.ones(3), 2.0 * np.ones(())))


def test_broadcasting(arm):
    q, v, _ = states(6)
    found = arm(q.reshape(3, 2, 1, 7), v[:4], 1.5)
    assert found[0].shape == (3, 2, 4, 7)
    assert found[1].shape == (3, 2, 4, 3, 3)
    close(found, expected(q.reshape(3, 2, 1, 7), v[:4], np.full((3, 2, 4), 1.5)))


def test_every_kind_of_stride(arm):
    q, v, c = states(40)
    wide = np.zeros((40, 21))
    wide[:, ::3] = q
    column = np.asfortranarray(v)
    for args in [
        (wide[:, ::3], column, c),
        (q[::-1], v[::-1], c[::-1]),
        (q[:, ::-1], v, c),
        (q[::2], v[1::2], c[:20]),
        (np.broadcast_to(q[0], (40, 7)), v, np.broadcast_to(c[0], 40)),
        (np.broadcast_to(q[:, :1], (40, 7)), v, c),
    ]:
        plain = [np.ascontiguousarray(x) for x in args]
        for found, wanted in zip(arm(*args), arm(*plain), strict=True):
            np.testing.assert_array_equal(found, wanted)
        for found, wanted in zip(arm(*[x[3] for x in args]), arm(*[x[3] for x in plain]), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_unaligned_arrays(f):
    raw = np.zeros(8 * 40 + 1, np.uint8)
    x = raw[1:].view(np.float64).reshape(10, 4)
    x[:] = np.arange(40).reshape(10, 4)
    np.testing.assert_array_equal(f(x), x**2 + 1)


def test_out(arm, f):
    q, v, c = states(9)
    a, m = np.empty((9, 7)), np.empty((9, 6, 3))[:, ::2]
    found = arm(q, v, c, out=(a, m))
    assert found[0] is a
    assert found[1] is m
    close((a, m), expected(q, v, c))
    x = np.random.default_rng(0).normal(size=(50, 4))
    y = np.full((50, 8), 7.0)
    f(x, out=y[:, ::2])
    np.testing.assert_array_equal(y[:, ::2], f(x))
    np.testing.assert_array_equal(y[:, 1::2], 7.0)


def test_out_may_overlap_an_input(f):
    x = np.random.default_rng(0).normal(size=(33, 4))
    wanted = f(x)
    same = x.copy()
    f(same, out=same)
    np.testing.assert_array_equal(same, wanted)
    shifted = np.concatenate([x, x[:1]])
    f(shifted[:-1], out=shifted[1:])
    np.testing.assert_array_equal(shifted[1:], wanted)
    backwards = x.copy()
    f(backwards, out=backwards[::-1])
    np.testing.assert_array_equal(backwards[::-1], wanted)


def test_read_only_arrays(f):
    x = np.ones((5, 4))
    x.flags.writeable = False
    np.testing.assert_array_equal(f(x), 2 * np.ones((5, 4)))
    with pytest.raises(ValueError, match="read-only"):
        f(np.ones((5, 4)), out=x)


def test_nan_stays_in_its_lane(arm):
    q, v, c = states(13)
    clean = arm(q, v, c)
    q[5, 2] = np.nan
    for found, wanted in zip(arm(q, v, c), clean, strict=True):
        others = np.arange(13) != 5
        np.testing.assert_array_equal(found[others], wanted[others])
        assert np.isnan(found[5]).any()


def test_float32(arm):
    single = compile_function(arm_like(), dtype=np.float32, threads=1, cache=OFF)
    q, v, c = states(21)
    found = single(q, v, c)  # float64 arrays are converted
    assert found[0].dtype == np.float32
    for x, y in zip(found, expected(q, v, c), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    narrow = [x.astype(np.float32) for x in (q, v, c)]
    for x, y in zip(single(*narrow), found, strict=True):
        np.testing.assert_array_equal(x, y)


def test_no_floating_point_warning_is_raised():
    trace = Trace()
    x = trace.inputs(2)
    outputs = [x[0] / x[1], scalars.select(x[0] < x[1], 1, 0), scalars.sqrt(x[0]), scalars.sin(x[0])]
    program = straight_program("f", finish(trace, outputs), [Buffer("x", "input", (2,))], [Buffer("y", "output", (4,))])
    f = compile_function(program, threads=1, cache=OFF)
    bad = np.array([[0.0, 0.0], [np.nan, 1.0], [np.inf, 0.0], [-1.0, np.nan]] * 3)
    with np.errstate(all="raise"):
        f(bad)
        for row in bad:
            f(row)
        with pytest.raises(FloatingPointError):
            np.sqrt(-1.0)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((np.zeros(6), np.zeros(3), 0.0), r"^arm: q has shape \(6,\), expected \(\.\.\., 7\)\.$"),
        (
            (np.zeros(7), np.zeros((5, 4)), 0.0),
            r"^arm: v has shape \(5, 4\), expected \(\.\.\., 3\)\. Three, please\.$",
        ),
        ((1.0, np.zeros(3), 0.0), r"^arm: q has shape \(\), expected \(\.\.\., 7\)\.$"),
        (
            (np.zeros((2, 7)), np.zeros((3, 3)), 0.0),
            r"^arm: the batch shapes of the inputs do not broadcast together: q \(2,\), v \(3,\), c \(\)\. "
            r"Batch dimensions come first and must be equal or 1\.$",
        ),
        (([[1.0], [1.0, 2.0]], np.zeros(3), 0.0), "^arm: q is not an array of numbers"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["first call", "later call"])
def test_wrong_shapes(args, words, first):
    f = compile_function(arm_like(), threads=1, cache=OFF, wording=Wording({"v": "Three, please."}))
    if not first:
        f(np.zeros(7), np.zeros(3), 0.0)
    with pytest.raises(ShapeError, match=words):
        f(*args)


def test_wrong_out(f):
    f(np.zeros((5, 4)))
    with pytest.raises(ShapeError, match=r"^f: out has shape \(5, 3\)"):
        f(np.zeros((5, 4)), out=np.zeros((5, 3)))


@pytest.mark.parametrize("value", [1j * np.ones(4), np.array(["a"] * 4), np.array([None] * 4)])
def test_wrong_dtypes(f, value):
    with pytest.raises(ScalarError, match=r"^f: x holds .* values; compiled functions take real numbers"):
        f(value)


def test_names(arm):
    q, v, c = states(3)
    wanted = arm(q, v, c)
    for found in (arm(q=q, v=v, c=c), arm(q, c=c, v=v)):
        np.testing.assert_array_equal(found[0], wanted[0])
    with pytest.raises(TypeError, match=r"^arm: v, c not given; its inputs are q, v, c$"):
        arm(q)
    with pytest.raises(TypeError, match=r"^arm: there is no input 'w'; its inputs are q, v, c"):
        arm(q, v, w=c)
    with pytest.raises(TypeError, match=r"^arm: q was given twice"):
        arm(q, v, q=q)
    with pytest.raises(TypeError, match="An output array is given by out="):
        arm(q, v, c, wanted[0])
    assert repr(arm) == "<compiled function arm(q, v, c) -> a, m>"
    assert (arm.inputs, arm.outputs, arm.name) == (("q", "v", "c"), ("a", "m"), "arm")


def test_other_precisions_are_refused():
    with pytest.raises(ScalarError, match="float16"):
        compile_function(square_plus(), dtype=np.float16)


# ---- the ufunc itself ------------------------------------------------------------------------------------------------


def test_the_ufunc_is_a_ufunc(arm):
    assert isinstance(arm.ufunc, np.ufunc)
    assert arm.ufunc.signature == "(7),(3),()->(7),(3,3)"
    assert arm.ufunc.types == ["ddd->dd"]
    fresh = compile_function(arm_like(), threads=1, cache=OFF).ufunc  # its callable is gone
    gc.collect()
    close(fresh(*states(5)), expected(*states(5)))
    close(fresh(*[x[0] for x in states(1)]), expected(*[x[0] for x in states(1)]))


def test_nothing_is_compiled_before_it_is_needed():
    built = []

    def build():
        built.append(1)
        return square_plus()

    f = compile_function(Recipe(b"lazy", build), threads=1, cache=OFF)
    assert f._engine.kernel._loaded == {}
    f(np.zeros(4))
    assert set(f._engine.kernel._loaded) == {1}
    f(np.zeros((3, 4)))
    assert set(f._engine.kernel._loaded) == {1, f._engine.kernel.width}
    assert built == [1]


def test_a_program_that_fails_to_build_says_so():
    bad = Program(
        "bad", (Buffer("y", "output", (1,)),), (Block(Straight([], [1.0]), (), (Address("y", (Index(None, 1),)),)),)
    )
    with pytest.raises(ProgramError, match="outside"):
        compile_function(bad, cache=OFF)


@pytest.mark.parametrize("first", [(7,), (3, 7)])
@pytest.mark.parametrize("error", [RuntimeError("no compiler today"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
def test_a_failure_to_compile_the_second_variant_is_raised(first, error, monkeypatch):
    """One state after a batch, or a batch after one state: nothing is computed, and the next call tries again."""
    f = compile_function(arm_like(), threads=1, cache=OFF)
    f(np.zeros(first), np.zeros(3), 0.0)
    second = (3, 7) if first == (7,) else (7,)

    def fail(width):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(f._engine.kernel, "loop", fail)
        for call in (lambda: f(np.zeros(second), np.zeros(3), 0.0), lambda: f.ufunc):
            with pytest.raises(type(error)):
                call()
        f(np.zeros(first), np.zeros(3), 0.0)
    close(f(np.ones(second), np.ones(3), 0.5), expected(np.ones(second), np.ones(3), 0.5 * np.ones(second[:-1])))


def test_everything_is_freed():
    f = compile_function(square_plus(), threads=1, cache=OFF)
    f(np.zeros((3, 4)))
    f(np.zeros(4))
    code = weakref.ref(f._engine.kernel._loaded[1])
    del f
    gc.collect()
    assert code() is None


# ---- status ----------------------------------------------------------------------------------------------------------


def division():
    """x → 1/x with a status: 1 where x is 0."""
    trace = Trace()
    x = trace.inputs(2)
    zero = ~((x[1] < 0) | (x[1] > 0))
    outputs = [Buffer("y", "output", (2,)), Buffer("z", "output", ()), Buffer("status", "output", (), integer=True)]
    results = [x[0] / x[1], x[0], x[1], scalars.select(zero, 3, 0)]
    return straight_program("division", finish(trace, results), [Buffer("x", "input", (2,))], outputs)


def explain(code, inputs):
    return f"code {code}, x = {np.asarray(inputs['x']).tolist()}"


def test_status():
    f = compile_function(division(), threads=1, cache=OFF, wording=Wording(failure=explain))
    y, z = f([1.0, 2.0])
    np.testing.assert_array_equal(y, [0.5, 1.0])
    assert z == 2.0
    assert f.status == 0
    with pytest.raises(SingularSystemError, match=r"^code 3, x = \[1\.0, 0\.0\]$"):
        f([1.0, 0.0])
    x = np.ones((2, 6, 2))
    x[1, 4, 1] = 0.0
    with pytest.warns(RuntimeWarning, match=r"^1 of 12 states failed and are NaN .* the first is \(1, 4\): code 3"):
        y, z = f(x)
    failed = np.zeros((2, 6), bool)
    failed[1, 4] = True
    assert np.isnan(y[failed]).all()
    assert np.isnan(z[failed]).all()
    np.testing.assert_array_equal(y[~failed], 1.0)
    np.testing.assert_array_equal(f.status, 3 * failed)
    out = np.empty((2, 6, 2)), np.empty((2, 6))
    with pytest.warns(RuntimeWarning, match=r"^1 of 12 states failed .* \(2 calls with failures so far\)$"):
        assert f(x, out=out)[0] is out[0]
    assert np.isnan(out[0][failed]).all()
    assert f.outputs == ("y", "z")


def test_every_failed_batch_warns_but_a_loop_does_not_flood():
    """Each failed call is a warning; under Python's own filter a loop shows ten, then one for each power of ten."""
    f = compile_function(division(), threads=1, cache=OFF, wording=Wording(failure=explain))
    bad = np.array([[1.0, 0.0], [1.0, 2.0]])
    with warnings.catch_warnings(record=True) as every:
        warnings.simplefilter("always")
        for _ in range(12):
            f(bad)
    assert len(every) == 12
    assert {w.filename for w in every} == {__file__}
    f = compile_function(division(), threads=1, cache=OFF, wording=Wording(failure=explain))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for number in range(1200):
            bad[0, 0] = number  # every state tells of itself
            f(bad)
    assert [str(w.message).partition(" calls ")[0] for w in shown[10:]] == [
        "division: more than 10", "division: more than 100", "division: more than 1000"
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(RuntimeWarning):
                f(bad)


class Sub(np.ndarray):
    pass


def test_a_subclass_of_arrays_fails_as_a_plain_array_does():
    f = compile_function(division(), threads=1, cache=OFF, wording=Wording(failure=explain))
    for _ in range(2):
        with pytest.raises(SingularSystemError, match=r"^code 3, x = \[1\.0, 0\.0\]$"):
            f(np.array([1.0, 0.0]).view(Sub))
        assert type(f.status) is np.int64
    y, _ = f(np.array([1.0, 2.0]).view(Sub))
    assert type(y) is Sub
    with pytest.warns(RuntimeWarning, match="1 of 2 states failed"):
        y, _ = f(np.array([[1.0, 0.0], [1.0, 2.0]]).view(Sub))
    assert np.isnan(y).tolist() == [[True, True], [False, False]]


# ---- no freedom ------------------------------------------------------------------------------------------------------


def test_arrays_without_numbers():
    trace = Trace()
    c = trace.input()
    program = straight_program(
        "still",
        finish(trace, [c + 1, 2.0, 3.0]),
        [Buffer("q", "input", (0,)), Buffer("c", "input", ()), Buffer("tau", "input", (0,))],
        [
            Buffer("a", "output", (0,)),
            Buffer("E", "output", ()),
            Buffer("M", "output", (0, 0)),
            Buffer("p", "output", (2,)),
        ],
    )
    f = compile_function(program, threads=1, cache=OFF)
    a, energy, M, p = f(np.zeros(0), 4.0, [])
    assert a.shape == (0,)
    assert energy == 5.0
    assert M.shape == (0, 0)
    np.testing.assert_array_equal(p, [2, 3])
    a, energy, M, p = f(np.zeros((5, 0)), [[4.0], [6.0]], np.zeros(0))
    assert a.shape == (2, 5, 0)
    assert M.shape == (2, 5, 0, 0)
    np.testing.assert_array_equal(energy, np.repeat([[5.0], [7.0]], 5, axis=1))
    assert p.shape == (2, 5, 2)
    with pytest.raises(ShapeError, match=r"^still: tau has shape \(3,\), expected \(\.\.\., 0\)"):
        f(np.zeros(0), 1.0, np.zeros(3))


def test_nothing_in_or_nothing_out():
    inputs = [Buffer("q", "input", (0,))]
    only_empty = straight_program("f", Straight([], []), inputs, [Buffer("a", "output", (0,))])
    f = compile_function(only_empty, cache=OFF)
    assert f.ufunc is None
    assert f(np.zeros((4, 0))).shape == (4, 0)
    target = np.zeros((4, 0))
    assert f(np.zeros((4, 0)), out=target) is target
    constant = straight_program("g", Straight([], [1.0, 2.0]), inputs, [Buffer("a", "output", (2,))])
    g = compile_function(constant, cache=OFF)
    np.testing.assert_array_equal(g(np.zeros(0)), [1.0, 2.0])
    np.testing.assert_array_equal(g(np.zeros((3, 0))), [[1.0, 2.0]] * 3)


@pytest.mark.parametrize("batch", [(0, 0), (5,), (2, 3)])
def test_a_batch_of_nothing_beside_one_state(batch):
    """The first call: its code is that of one state, whatever the batch of an input without numbers."""
    f = wt.compile(wt.mechanisms.chain(2)).joint_reactions_of_motion
    q = np.array([0.3, -0.2])
    single = f(q, q, q, np.zeros(0), np.zeros((2, 6)))
    fresh = wt.compile(wt.mechanisms.chain(2)).joint_reactions_of_motion
    for one, many in zip(single, fresh(q, q, q, np.zeros((*batch, 0)), np.zeros((2, 6))), strict=True):
        assert many.shape == (*batch, *one.shape)
        assert (many == one).all()


# ---- threads and processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 7])
def test_threads_change_no_bit(arm, count, monkeypatch):
    monkeypatch.setattr(threads, "smallest_shared_batch", lambda operations: 64)
    shared = compile_function(arm_like(), threads=count, cache=OFF)
    for size in (63, 64, 65, 1000, 1003):
        q, v, c = states(size)
        for args in ((q, v, c), (q[::-1], v, 2.0), (q.reshape(1, size, 7), v, c)):
            for x, y in zip(shared(*args), arm(*args), strict=True):
                np.testing.assert_array_equal(x, y)


def test_the_number_of_threads(monkeypatch):
    monkeypatch.delenv("WHIPPLETREE_THREADS", raising=False)
    assert threads.thread_count() == threads.available_cores()
    monkeypatch.setenv("WHIPPLETREE_THREADS", "3")
    assert threads.thread_count() == 3
    assert threads.thread_count(5) == 5
    for bad in ("0", "two"):
        monkeypatch.setenv("WHIPPLETREE_THREADS", bad)
        with pytest.raises(WhippletreeError, match="positive whole number"):
            threads.thread_count()
    with pytest.raises(WhippletreeError, match="positive whole number"):
        threads.thread_count(0)


def test_two_threads_call_at_once():
    f = compile_function(arm_like(), threads=1, cache=OFF)
    q, v, c = states(999)
    wanted = expected(q, v, c)
    problems = []

    def work():
        try:
            for _ in range(30):
                close(f(q, v, c), wanted)
                close(f(q[0], v[0], c[0]), [w[0] for w in wanted])
        except BaseException as error:
            problems.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert problems == []


def run_python(code, **environment):
    """Run code in a process of its own; returns the finished process."""
    path = os.pathsep.join([os.path.join(os.getcwd(), "src"), *sys.path])
    env = {**os.environ, "PYTHONPATH": path, "WHIPPLETREE_CACHE": "off", **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, check=False
    )


HEAD = """
import sys
import numpy as np
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, straight_program
from whippletree.arithmetic.trace import Trace, finish
def sines(n, m, **options):
    trace = Trace()
    x = trace.inputs(n)
    y = [x[i % n].sin() + i for i in range(m)]
    return compile_function(
        straight_program("f", finish(trace, y), [Buffer("x", "input", (n,))], [Buffer("y", "output", (m,))]), **options
    )
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_use_after_fork():
    code = (
        HEAD
        + """
import os, warnings
warnings.simplefilter("ignore")
x = np.linspace(0, 1, 400000).reshape(-1, 4)
f = sines(4, 4, threads=2)
wanted = f(x)
child = os.fork()
g = sines(4, 5, threads=2)
good = np.array_equal(f(x), wanted) and np.array_equal(g(x)[:, :4], wanted) and np.array_equal(f(x[0]), wanted[0])
if child == 0:
    os._exit(0 if good else 1)
_, status = os.waitpid(child, 0)
sys.exit(0 if good and status == 0 else 1)
"""
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_access_outside_of_the_arrays(dtype):
    """Arrays that end at, or begin after, a page that must not be touched, for many sizes, batches and strides."""
    code = (
        HEAD
        + f"""
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
dtype = np.dtype("{dtype}")
keep = []
def guarded(shape, at_end):
    size = int(np.prod(shape)) * dtype.itemsize
    pages = max(1, -(-size // PAGE))
    space = mmap.mmap(-1, (pages + 2) * PAGE)
    keep.append(space)
    start = ctypes.addressof(ctypes.c_char.from_buffer(space))
    for page in (start, start + (pages + 1) * PAGE):
        assert libc.mprotect(ctypes.c_void_p(page), PAGE, 0) == 0
    place = PAGE + (pages * PAGE - size if at_end else 0)
    return np.frombuffer(space, dtype, int(np.prod(shape)), place).reshape(shape)
for n, m in ((1, 1), (2, 3), (3, 2), (5, 7), (7, 5), (8, 8), (9, 17), (13, 6), (150, 141)):
    f = sines(n, m, dtype=dtype, threads=1)
    for batch in (1, 2, 3, 7, 8, 9, 15, 16, 17, 33):
        wanted = f(np.ones((batch, n), dtype))
        for at_end in (False, True):
            x, y = guarded((batch, n), at_end), guarded((batch, m), at_end)
            x[:] = 1
            for flip in (slice(None), slice(None, None, -1)):
                f(x[flip], out=y[flip])
                assert np.array_equal(y, wanted)
                f(x[:, flip], out=y)
                f(x.T[:, :1].T if n == m == 1 else x, out=y[:, flip])
            # rows far apart, columns far apart
            x, y = guarded((n, batch), at_end), guarded((m, batch), at_end)
            x[:] = 1
            f(x.T, out=y.T)
            assert np.array_equal(y.T, wanted)
"""
    )
    done = run_python(code)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
def test_without_memory_the_outputs_are_nan():
    code = (
        HEAD
        + """
import resource
from whippletree.compiler.program import Address, Block, Index, Loop, Program
from whippletree.arithmetic.trace import Straight
n = 20_000_000  # 160 MB: more than the 64 MB that glibc may hold free in the arena of the thread that compiled
def at(buffer, *indices):
    return Address(buffer, tuple(Index(i) if isinstance(i, str) else Index(None, i) for i in indices))
one, two = Straight([("input", 0)], [0]), Straight([("input", 0), ("input", 1)], [0, 1])
outputs = (Buffer("y", "output", (2,)), Buffer("status", "output", (), integer=True))
program = Program(
    "large",
    (Buffer("x", "input", ()), *outputs, Buffer("w", "work", (n,))),
    (
        Loop("i", n, (Block(one, (at("x"),), (at("w", "i"),)),)),
        Block(two, (at("w", 0), at("w", n - 1)), (at("y", 0), at("y", 1))),
        Block(Straight([], [0.0]), (), (at("status"),)),
    ),
)
f = compile_function(program, threads=1, width=8)
for states in (1, 2):
    f._engine.prepare(states)
before = resource.getrlimit(resource.RLIMIT_AS)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 10_000_000, before[1]))
for x in (3.0, [3.0, 4.0, 5.0]):
    y, status = f.ufunc(x)
    assert np.isnan(y).all() and (status == -1).all()
try:
    f(3.0)
except ArithmeticError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, before)
assert np.array_equal(f(3.0), [3.0, 3.0])
assert np.array_equal(f([3.0, 4.0]), [[3.0, 3.0], [4.0, 4.0]])
"""
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "large: there is not enough memory for the work space of this call\n"


def test_importing_the_package_does_not_import_llvm():
    done = run_python("import sys, whippletree; sys.exit('llvmlite' in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_leaving_the_interpreter_is_quiet():
    done = run_python(HEAD + "f = sines(4, 4, threads=2); f(np.zeros((200000, 4))); f(np.zeros(4)); f.ufunc")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_lock_of_the_compiler_can_be_taken_twice():
    with jit.compiling(), jit.compiling():
        pass


def test_functions_are_freed_with_their_model():
    """They were kept for ever, 0.1 MB for each model compiled: NumPy's ufuncs hide circles from the collector."""
    dyn = wt.compile(wt.mechanisms.chain(2))
    kept = dyn.forward_dynamics.ufunc
    for batch in ((), (3,)):
        dyn.forward_dynamics(*np.zeros((3, *batch, 2)))
    gone = weakref.ref(dyn)
    del dyn
    gc.collect()
    assert gone() is None
    assert np.all(np.isfinite(kept(*np.zeros((3, 5, 2)))))  # the ufunc alone still has its code
