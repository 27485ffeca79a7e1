"""Kernel programs (loops, switches, lookups) as machine code and in the interpreter; and programs that are refused."""

import numpy as np
import pytest

from whippletree.arithmetic.trace import Straight, Trace, finish
from whippletree.compiler.cpu import cpu_memory
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Block, Buffer, Index, Lookup, Loop, Program, Switch, straight_program
from whippletree.compiler.program.check import ProgramError, check
from whippletree.compiler.program.interpret import interpret
from whippletree.files.cache import CodeCache
from written_programs import at, block

OFF = CodeCache(None)
DTYPES = [np.float64, np.float32]


def agree(program, inputs, dtype, widths=(1, 2, 4, 8, 16), states=11):
    """Machine code of every width gives the bits of the interpreter, in each state of a batch."""
    check(program)
    names = [b.name for b in program.of_role("input")]
    expected = [list(interpret(program, {n: inputs[n][s] for n in names}, dtype).values()) for s in range(states)]
    for width in widths:
        f = compile_function(program, dtype=dtype, width=width, threads=1, cache=OFF)
        arrays = [inputs[n].astype(dtype) for n in names]
        with np.errstate(all="ignore"):
            found = f.ufunc(*arrays)
            single = f.ufunc(*[a[0] for a in arrays])
        found, single = (x if isinstance(x, tuple) else (x,) for x in (found, single))
        for number in range(len(found)):
            stacked = np.stack([e[number] for e in expected])
            np.testing.assert_array_equal(found[number], stacked, err_msg=f"width {width}")
            np.testing.assert_array_equal(single[number], stacked[0], err_msg="one state")


def running_sums(n=7):
    """x → its running sums and differences through work space, forwards and backwards."""
    buffers = (
        Buffer("x", "input", (n,)),
        Buffer("y", "output", (n, 2)),
        Buffer("total", "output", ()),
        Buffer("w", "work", (n + 1,)),
    )
    body = (
        Block(Straight([], [0.0]), (), (at("w", 0),)),
        Loop("i", n, (block(lambda s, x: s + x, [at("w", "i"), at("x", "i")], [at("w", ("i", 1))]),)),
        Loop(
            "i",
            n,
            (
                block(
                    lambda a, b: (b - a, b / a), [at("w", "i"), at("w", ("i", 1))], [at("y", "i", 0), at("y", "i", 1)]
                ),
            ),
            backwards=True,
        ),
        block(lambda s: s, [at("w", n)], [at("total")]),
    )
    return Program("running_sums", buffers, body)


def tree_with_types():
    """A tree in index tables, two joint types with records of different length, one switch per body."""
    parent = np.array([0, 1, 1, 2, 4, 4])  # of bodies 1 … 6, 0: the ground
    kind = np.array([0, 1, 0, 1, 1, 0])
    place = np.concatenate([[0], np.cumsum(np.where(kind == 0, 1, 3))[:-1]])
    buffers = (
        Buffer("x", "input", (6,)),
        Buffer("y", "output", (6,)),
        Buffer("carried", "work", (7,)),
        Buffer("kept", "work", (int(place[-1] + 1),)),
        Buffer("c", "table", (6,), np.linspace(0.3, 2.1, 6)),
        Buffer("parent", "index", (6,), parent, integer=True),
        Buffer("kind", "index", (6,), kind, integer=True),
        Buffer("place", "index", (6,), place, integer=True),
    )
    lookups = tuple(Lookup(name, at(name, "i")) for name in ("parent", "kind", "place"))
    short = block(
        lambda up, x, c: (up * c + x, up - x),
        [at("carried", "parent"), at("x", "i"), at("c", "i")],
        [at("carried", ("i", 1)), at("kept", "place")],
    )
    long = block(
        lambda up, x, c: (up - x * c, up, x, c),
        [at("carried", "parent"), at("x", "i"), at("c", "i")],
        [at("carried", ("i", 1)), *(at("kept", ("place", j)) for j in range(3))],
    )
    short_end = block(lambda k: k + 1, [at("kept", "place")], [at("y", "i")])
    long_end = block(lambda a, b, c: a * b - c, [at("kept", ("place", j)) for j in range(3)], [at("y", "i")])
    body = (
        Block(Straight([], [1.5]), (), (at("carried", 0),)),
        Loop("i", 6, (*lookups, Switch("kind", ((short,), (long,))))),
        Loop("i", 6, (*lookups, Switch("kind", ((short_end,), (long_end,)))), backwards=True),
    )
    return Program("tree", buffers, body)


def read_back():
    """An output that is read again: y[i + 1] = y[i] + x[i], rows of three, exchanged in place at the end."""
    n = 5
    buffers = (Buffer("x", "input", (n, 3)), Buffer("y", "output", (n + 1, 3)))
    start = Block(Straight([], [1.0, 2.0, 3.0]), (), tuple(at("y", 0, j) for j in range(3)))
    add = block(
        lambda *v: tuple(v[j] + v[3 + j] for j in range(3)),
        [*(at("y", "i", j) for j in range(3)), *(at("x", "i", j) for j in range(3))],
        [at("y", ("i", 1), j) for j in range(3)],
    )
    turn = block(lambda a, b, c: (c, a, b), [at("y", n, j) for j in range(3)], [at("y", n, j) for j in range(3)])
    return Program("read_back", buffers, (start, Loop("i", n, (add,)), turn))


def roll_out():
    """Time steps over a named dimension, with a loop inside: x ← x + h (u − x), the whole trajectory is returned."""
    buffers = (
        Buffer("x0", "input", (3,)),
        Buffer("u", "input", ("T", 3)),
        Buffer("h", "input", ()),
        Buffer("x", "output", ("T", 3)),
        Buffer("state", "work", (3,)),
    )
    copy = block(lambda *x: x, [at("x0", j) for j in range(3)], [at("state", j) for j in range(3)])
    move = block(lambda x, u, h: x + h * (u - x), [at("state", "j"), at("u", "t", "j"), at("h")], [at("state", "j")])
    write = block(lambda *x: x, [at("state", j) for j in range(3)], [at("x", "t", j) for j in range(3)])
    return Program("roll_out", buffers, (copy, Loop("t", "T", (Loop("j", 3, (move,)), write))))


def batch(program, seed=0, states=11, **sizes):
    rng = np.random.default_rng(seed)
    return {
        b.name: rng.normal(size=(states, *(sizes[d] if isinstance(d, str) else d for d in b.shape)))
        for b in program.of_role("input")
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [running_sums, tree_with_types, read_back])
def test_loops_and_switches(make, dtype):
    program = make()
    agree(program, batch(program), dtype)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_named_dimension(steps):
    program = roll_out()
    agree(program, batch(program, T=steps), np.float64, widths=(1, 8))


def test_large_work_space_comes_from_the_heap():
    program = running_sums(3000)
    agree(program, batch(program, states=3), np.float64, widths=(1, 8), states=3)


@pytest.mark.slow(every=True)
def test_a_matrix_with_many_rows():
    """More results than registers, and more tiles than are written out."""
    trace = Trace()
    x = trace.inputs(30)
    results = [x[i] * x[j] + 1 for i in range(30) for j in range(21)]
    program = straight_program(
        "matrix", finish(trace, results), [Buffer("x", "input", (30,))], [Buffer("y", "output", (30, 21))]
    )
    agree(program, batch(program), np.float64, widths=(1, 4, 8))
    f = compile_function(program, threads=1, cache=OFF)
    states = batch(program)["x"]
    target = np.zeros((21, 30, 11)).T
    np.testing.assert_array_equal(f(states, out=target), f(states))


@pytest.mark.slow(every=True)
def test_very_long_code(monkeypatch):
    """Longer than a basic block may become."""
    monkeypatch.setattr(cpu_memory, "LONGEST_BLOCK", 500)
    trace = Trace()
    x = trace.inputs(8)
    values = list(x)
    for i in range(1500):
        values.append(values[i] * 0.3 + values[-1] * values[i // 2] / 4 if i % 3 else values[-1] / 2 + values[i % 8])
    program = straight_program(
        "long", finish(trace, values[-5:]), [Buffer("x", "input", (8,))], [Buffer("y", "output", (5,))]
    )
    small = {"x": batch(program)["x"] / 10}
    agree(program, small, np.float64, widths=(1, 8))


def test_integer_output_holds_whole_numbers_and_minus_one_for_what_is_none():
    trace = Trace()
    x = trace.input()
    program = straight_program(
        "status",
        finish(trace, [x]),
        [Buffer("x", "input", ())],
        [Buffer("status", "output", (), integer=True)],
    )
    f = compile_function(program, threads=1, cache=OFF)
    values = np.array([0.0, 3.0, -7.0, np.nan, np.inf, 1e300, 2.0**53])
    np.testing.assert_array_equal(f.ufunc(values), [0, 3, -7, -1, -1, -1, 2**53])


# ---- refused ---------------------------------------------------------------------------------------------------------

X, Y = Buffer("x", "input", (4,)), Buffer("y", "output", (4,))
IDENTITY = Straight([("input", 0)], [0])


def program_of(*body, buffers=(X, Y)):
    return Program("bad", buffers, body)


def copy(load, store):
    return Block(IDENTITY, (load,), (store,))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (program_of(copy(at("x", 4), at("y", 0))), "outside"),
        (program_of(copy(at("x", -1), at("y", 0))), "outside"),
        (program_of(copy(at("x", 0, 0), at("y", 0))), "indices"),
        (program_of(copy(at("z", 0), at("y", 0))), "no buffer"),
        (program_of(copy(at("x", "i"), at("y", 0))), "no value"),
        (program_of(copy(at("x", 0), at("x", 0))), "not its to write"),
        (program_of(Loop("i", 4, (copy(at("x", ("i", 1)), at("y", "i")),))), "outside"),
        (program_of(Loop("i", 4, (copy(at("x", ("i", -1)), at("y", "i")),))), "outside"),
        (program_of(Loop("t", "T", (copy(at("x", "t"), at("y", 0)),))), "no input decides"),
        (program_of(Block(IDENTITY, (), (at("y", 0),))), "sound"),
        (program_of(Block(Straight([], [1.0, 2.0]), (), (at("y", 0),))), "results"),
        (program_of(Block(Straight([], [1.0, 2.0]), (), (at("y", 0), at("y", 0)))), "twice"),
        (program_of(Block(Straight([("exp", 0)], [0]), (), (at("y", 0),))), "sound"),
        (program_of(Block(Straight([("input", 0), ("add", 0, 1)], [1]), (at("x", 0),), (at("y", 0),))), "sound"),
        (program_of(Block(Straight([("input", 0), ("lt", 0, 0)], [1]), (at("x", 0),), (at("y", 0),))), "not a number"),
        (program_of(Block(Straight([("input", 0), ("not", 0)], [0]), (at("x", 0),), (at("y", 0),))), "sound"),
        (program_of(buffers=(X, X)), "same name"),
        (program_of(buffers=(Y, X)), "an input follows an output"),
    ],
)
def test_refused(program, words):
    with pytest.raises(ProgramError, match=words):
        check(program)


@pytest.mark.parametrize(("content", "words"), [([0, 3], "outside"), ([0, 7], "outside"), ([-2, 2], "outside")])
def test_refused_by_the_content_of_a_table(content, words):
    index = Buffer("p", "index", (2,), np.array(content), integer=True)
    body = Loop("i", 2, (Lookup("p", at("p", "i")), copy(at("x", ("p", 1)), at("y", "i"))))
    with pytest.raises(ProgramError, match=words):
        check(program_of(body, buffers=(X, Y, index)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_different_lengths_lie_one_after_the_other(dtype):
    """A triangle, row by row: row i begins after 1 + … + i numbers. Copied there and back."""
    starts = Buffer("start", "index", (4,), np.array([0, 1, 3, 6]), integer=True)
    triangle = Buffer("triangle", "work", (10, 4), pitch=1)
    square = Buffer("square", "input", (4, 4))
    back = Buffer("back", "output", (4, 4))
    assert triangle.size == 13
    place = at("triangle", "start", "j")
    lookup = Lookup("start", at("start", "i"))
    there = Loop("i", 4, (lookup, Loop("j", Index("i", 1), (copy(at("square", "i", "j"), place),))))
    zero = Loop("i", 4, (Loop("j", 4, (Block(Straight([], [0.0]), (), (at("back", "i", "j"),)),)),))
    again = Loop("i", 4, (lookup, Loop("j", Index("i", 1), (copy(place, at("back", "i", "j")),))))
    program = program_of(there, zero, again, buffers=(square, back, triangle, starts))
    check(program)
    given = np.random.default_rng(0).normal(size=(11, 4, 4)).astype(dtype)
    agree(program, {"square": given}, dtype)
    found = compile_function(program, dtype=dtype, cache=OFF)(given)
    np.testing.assert_array_equal(found, np.tril(given))
    with pytest.raises(ProgramError, match="pitch"):
        check(program_of(buffers=(Buffer("x", "input", (4, 4), pitch=1),)))


def test_a_switch_must_know_its_cases_and_narrows_what_they_may_reach():
    kinds = Buffer("k", "index", (3,), np.array([0, 1, 0]), integer=True)
    places = Buffer("p", "index", (3,), np.array([0, 0, 3]), integer=True)
    lookups = (Lookup("k", at("k", "i")), Lookup("p", at("p", "i")))
    near, far = copy(at("x", "p"), at("y", "i")), copy(at("x", ("p", 3)), at("y", "i"))
    good = program_of(Loop("i", 3, (*lookups, Switch("k", ((near,), (far,))))), buffers=(X, Y, kinds, places))
    check(good)
    bad = program_of(Loop("i", 3, (*lookups, Switch("k", ((far,), (near,))))), buffers=(X, Y, kinds, places))
    with pytest.raises(ProgramError, match="outside"):
        check(bad)
    short = program_of(Loop("i", 3, (*lookups, Switch("k", ((near,),)))), buffers=(X, Y, kinds, places))
    with pytest.raises(ProgramError, match="case"):
        check(short)


def test_a_named_dimension_is_reached_by_its_own_counter_only():
    u, v = Buffer("u", "input", ("T",)), Buffer("v", "input", ("S",))
    y = Buffer("y", "output", ("T",))
    check(program_of(Loop("t", "T", (copy(at("u", "t"), at("y", "t")),)), buffers=(u, y)))
    check(program_of(Loop("t", "T", (copy(at("u", 0), at("y", "t")),)), buffers=(u, y)))
    for load in (at("u", ("t", 1)), at("v", "t"), at("v", 0)):
        with pytest.raises(ProgramError, match="outside"):
            check(program_of(Loop("t", "T", (copy(load, at("y", "t")),)), buffers=(u, v, y)))
    with pytest.raises(ProgramError, match="outside"):
        check(program_of(copy(at("u", 0), at("y", 0)), buffers=(u, y)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_stored_in_one_place_keep_their_values_in_the_block(dtype):
    """The index of a store is known at run time only: the first of two may lie under the second when it is used."""
    places = Buffer("p", "index", (3,), np.array([1, 0, 1]), integer=True)
    x, w, y = Buffer("x", "input", (3, 2)), Buffer("w", "work", (2,)), Buffer("y", "output", (3,))

    def long_way(a, b):
        first, second = a * b, a - b
        walked = second
        for k in range(40):
            walked = walked * a + (k + 1) * b
        return first, second, walked + first

    body = block(long_way, [at("x", "i", 0), at("x", "i", 1)], [at("w", 1), at("w", "p"), at("y", "i")])
    program = program_of(Loop("i", 3, (Lookup("p", at("p", "i")), body)), buffers=(x, y, w, places))
    agree(program, {"x": np.random.default_rng(0).normal(size=(11, 3, 2))}, dtype)
