"""Work space that stays from one call to the next: it is there, it is nobody else's, and no bit depends on it."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic.trace import Straight
from whippletree.compiler.cpu import kept_memory
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cpu.ufunc import Stoppable
from whippletree.compiler.program import Block, Buffer, Loop, Program
from whippletree.files.cache import CodeCache
from written_programs import at

LARGE = kept_memory.KEPT_BY_LIBRARY // 8 + 1000
ONE = Straight([("input", 0)], [0])

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and the C library of Linux")


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch):
    """Functions of other tests keep a block of their own."""
    gc.collect()
    monkeypatch.setattr(kept_memory, "_blocks", weakref.WeakValueDictionary())


def program_with(numbers):
    """y := x by way of every number of a work space, whose size may come with the call."""
    named = isinstance(numbers, str)
    buffers = (Buffer("x", "input", ()), *([Buffer("steps", "input", (numbers,))] if named else []))
    buffers += (Buffer("y", "output", (numbers,) if named else (2,)),)
    body = [Loop("i", numbers, (Block(ONE, (at("x"),), (at("w", "i"),)),))]
    ends = [("i", "i")] if named else [(0, 0), (1, numbers - 1)]
    out = [Block(ONE, (at("w", place),), (at("y", number),)) for number, place in ends]
    body += [Loop("i", numbers, tuple(out))] if named else out
    return Program("large", (*buffers, Buffer("w", "work", (numbers,))), tuple(body))


def compiled(program):
    return compile_function(program, threads=1, cache=CodeCache(None))


def block_of(function):
    return function._engine._kept


def poison(block, pattern):
    """Fill the kept block, but for the size that it begins with."""
    assert block.block
    size = ctypes.c_int64.from_address(block.block).value
    ctypes.memset(block.block + 8, pattern, size - 8)


def test_the_next_call_works_in_the_same_memory_whatever_is_in_it():
    function = compiled(program_with(LARGE))
    assert np.array_equal(function(3.0), [3, 3])
    block = block_of(function)
    first = block.block
    assert first
    for pattern in (0x00, 0x7F, 0xFF):
        poison(block, pattern)
        assert np.array_equal(function(4.0), [4, 4])
        assert block.block == first
    other = compiled(program_with(LARGE - 500))
    assert np.array_equal(other(5.0), [5, 5])
    assert block_of(other) is block
    assert block.block == first, "for all functions together"
    larger = compiled(program_with(2 * LARGE))
    assert np.array_equal(larger(6.0), [6, 6])
    assert ctypes.c_int64.from_address(block.block).value > 2 * 8 * LARGE
    assert np.array_equal(function([7.0, 8.0]), [[7, 7], [8, 8]])


def test_small_and_huge_work_space_is_not_kept(monkeypatch):
    small = compiled(program_with(5000))
    assert np.array_equal(small(3.0), [3, 3])
    assert block_of(small) is None
    monkeypatch.setattr(kept_memory, "LARGEST_KEPT", 8 * LARGE)
    huge = compiled(program_with(LARGE + 5000))
    before = block_of(huge).block
    assert np.array_equal(huge(3.0), [3, 3])
    assert block_of(huge).block == before


def test_calls_that_decide_how_much_they_need():
    function = compiled(program_with("n"))
    for size in (10, LARGE, 20, LARGE + 999, LARGE):
        assert np.array_equal(function(2.0, np.zeros(size)), np.full(size, 2.0))
    size = ctypes.c_int64.from_address(block_of(function).block).value
    assert 8 * (LARGE + 999) < size < 8 * (LARGE + 999) + 1000
    poison(block_of(function), 0xFF)
    assert np.array_equal(function(2.0, np.zeros(LARGE)), np.full(LARGE, 2.0))


def test_threads_do_not_share_it(monkeypatch):
    """Calls with many states run without Python's lock, and so at once."""
    monkeypatch.setattr(kept_memory, "KEPT_BY_LIBRARY", 0)
    function = compiled(program_with(8000))
    ufunc, wrong = function.ufunc, []

    def work(own):
        for k in range(8):
            x = 1e6 * own + 1e4 * k + np.arange(2000)
            if np.any(ufunc(x) != x[:, None]):
                wrong.append((own, k))

    threads = [threading.Thread(target=work, args=(own,)) for own in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert block_of(function).block


def test_a_call_that_is_ended_gives_it_back():
    function = compiled(program_with("n"))
    function(2.0, np.zeros(LARGE))
    stopped = Stoppable(function._engine)
    stopped.stop()
    block = block_of(function).block
    stopped.ufunc(2.0, np.zeros(LARGE))
    assert block_of(function).block == block
    del stopped
    gc.collect()
    assert np.array_equal(function(2.0, np.zeros(LARGE)), np.full(LARGE, 2.0))


@linux
def test_it_is_freed_with_the_last_function_that_may_need_it():
    def mapped():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")

    function, other = compiled(program_with(4 * LARGE)), compiled(program_with(LARGE))
    before = mapped()
    function(3.0)
    assert mapped() - before > 4 * 8 * LARGE
    del function
    gc.collect()
    assert mapped() - before > 4 * 8 * LARGE
    del other
    gc.collect()
    assert mapped() - before < 8 * LARGE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_own():
    function = compiled(program_with(LARGE))
    function(3.0)
    block = block_of(function)
    poison(block, 0x11)
    child = os.fork()
    if child == 0:
        right = np.array_equal(function(4.0), [4, 4])
        poison(block, 0x22)
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ctypes.c_ubyte.from_address(block.block + 4096).value == 0x11
    assert np.array_equal(function(5.0), [5, 5])


def arguments(model):
    random = np.random.default_rng(0)
    return model.home.q, random.normal(size=model.nv), random.normal(size=model.nv)


CASES = {
    "a ladder": (lambda: wt.mechanisms.n_four_bar(100), lambda dyn, x: dyn.forward_dynamics(*x)),
    "its derivatives": (lambda: wt.mechanisms.n_four_bar(40), lambda dyn, x: dyn.forward_dynamics_derivatives(*x)),
    "a chain": (lambda: wt.mechanisms.chain(60), lambda dyn, x: dyn.forward_dynamics_derivatives(*x)),
    "a step with contacts": (lambda: wt.mechanisms.quadruped(), lambda dyn, x: dyn.step(x[0], 0.1 * x[1], dt=2e-3)),
    "a step of a pile": (
        lambda: wt.mechanisms.spheres_in_box(12, width=0.3),
        lambda dyn, x: dyn.step(x[0], 0.1 * x[1], dt=5e-3),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_no_bit_depends_on_what_earlier_calls_have_left(case, monkeypatch, tmp_path):
    """All work space beyond the stack is kept, and filled with two patterns, of which one is not a number."""
    monkeypatch.setattr(kept_memory, "KEPT_BY_LIBRARY", 0)
    monkeypatch.setenv("WHIPPLETREE_CACHE", str(tmp_path))
    make, call = CASES[case]
    model = make()
    dyn, given = wt.compile(model, threads=1), arguments(model)

    def found():
        result = call(dyn, given)
        return [np.array(part) for part in (result if isinstance(result, tuple) else (result,))]

    expected = found()
    block = kept_memory.kept_block(1)
    assert block.block
    for pattern in (0xFF, 0x3F):
        poison(block, pattern)
        for a, b in zip(found(), expected, strict=True):
            assert a.tobytes() == b.tobytes()


@linux
def test_results_that_come_and_go_together_are_no_new_memory():
    """Three results of 0.7 MB: the C library gave all of them back after each call, and pages had to come anew."""
    code = """
import resource
import numpy as np
from whippletree.arithmetic.trace import Straight
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Address, Block, Buffer, Index, Loop, Program
n, names = 90_000, ("y0", "y1", "y2")
block = Block(Straight([("input", 0)], [0, 0, 0]), (Address("x", ()),), tuple(Address(y, (Index("i"),)) for y in names))
outputs = tuple(Buffer(y, "output", (n,)) for y in names)
f = compile_function(Program("three", (Buffer("x", "input", ()), *outputs), (Loop("i", n, (block,)),)), threads=1)
for _ in range(3):
    f(1.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    f(1.0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    kept = {name: word for name, word in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=True)
    pages = 3 * 90_000 * 8 // os.sysconf("SC_PAGESIZE")
    assert int(done.stdout) < pages, "of twenty calls, less than the pages of one"
