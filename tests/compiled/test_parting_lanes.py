"""Statements under which lanes part ways (conditions, iterations with exit, lists), and what they rest on.

The interpreter runs one state at a time. Machine code of any width, in a batch of any size, must leave its very bits in
every state: what a neighbour does is nobody's business.
"""

import random

import numpy as np
import pytest

from emulated_cuda import install
from nvidia_assembler import assemble, needs_assembler
from whippletree.arithmetic.scalars import less, select
from whippletree.arithmetic.trace import Straight
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.cuda.ptx_target import kernel_ir, ptx_text
from whippletree.compiler.cuda.tuning import Form
from whippletree.compiler.llvm.kernel import Interface
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Collect,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    PerLane,
    Program,
    Switch,
    Until,
    every_block,
    map_addresses,
    map_blocks,
)
from whippletree.compiler.program.check import ProgramError, check
from whippletree.compiler.program.interpret import interpret
from whippletree.files.cache import CodeCache
from written_programs import at, block

OFF = CodeCache(None)
BATCHES = (1, 3, 8, 17)


def put(number, *stores):
    return Block(Straight([], [float(number)] * len(stores)), (), stores)


def expected_of(program, inputs, dtype):
    names = [b.name for b in program.of_role("input")]
    states = len(next(iter(inputs.values())))
    each = [list(interpret(program, {n: inputs[n][s] for n in names}, dtype).values()) for s in range(states)]
    return [np.stack(column) for column in zip(*each, strict=True)]


def run(function, inputs):
    with np.errstate(all="ignore"):
        found = function(*inputs)
    return found if isinstance(found, tuple) else (found,)


def agree(program, inputs, dtype=np.float64, widths=(1, 2, 8)):
    """Machine code of every width, in batches of every size, gives the bits of the interpreter."""
    check(program)
    expected = expected_of(program, inputs, dtype)
    for width in widths:
        f = compile_function(program, dtype=dtype, width=width, threads=1, cache=OFF)
        for size in BATCHES:
            for first in (0, max(BATCHES) - size):
                some = [inputs[b.name][first : first + size].astype(dtype) for b in program.of_role("input")]
                for a, b in zip(run(f.ufunc, some), expected, strict=True):
                    np.testing.assert_array_equal(a, b[first : first + size], err_msg=f"{width} lanes, {size} states")


def states(program, seed=0):
    rng = np.random.default_rng(seed)
    return {b.name: rng.normal(size=(max(BATCHES), *b.shape)) for b in program.of_role("input")}


# ---- one statement at a time -----------------------------------------------------------------------------------------

X, Y = Buffer("x", "input", (4,)), Buffer("y", "output", (4,))


def conditional():
    """y = x², but −x where x is positive, through work space; and a result that only positive states write twice."""
    body = (
        put(-1, *[at("y", i) for i in range(4)]),
        Loop(
            "i",
            4,
            (
                block(lambda x: (x, x * x), [at("x", "i")], [at("flag", 0), at("w", 0)]),
                If(at("flag", 0), (block(lambda x: -x, [at("x", "i")], [at("w", 0)]),)),
                block(lambda w: w, [at("w", 0)], [at("y", "i")]),
            ),
        ),
        If(at("x", 0), (If(at("x", 1), (put(7, at("y", 0), at("y", 1), at("y", 2)),)),)),
    )
    return Program("conditional", (X, Y, Buffer("flag", "work", (1,)), Buffer("w", "work", (1,))), body)


def square_root():
    """√|x₀| by Newton's iteration until it moves no further, and how many rounds that took, up to 60."""
    start = block(lambda x: (abs(x), abs(x) + 1, -1, 0), [at("x", 0)], [at("w", i) for i in range(4)])
    improve = block(
        lambda a, y, n: ((y + a / y) / 2, 1e-14 * y - abs(y - (y + a / y) / 2), n + 1),
        [at("w", 0), at("w", 1), at("w", 3)],
        [at("w", 1), at("w", 2), at("w", 3)],
    )
    end = block(lambda y, n: (y, n, y, n), [at("w", 1), at("w", 3)], [at("y", i) for i in range(4)])
    body = (start, Until("round", 60, at("w", 2), (improve,)), end)
    return Program("square_root", (X, Y, Buffer("w", "work", (4,))), body)


def lists_of_rows():
    """Sums over the positive entries of a matrix, row by row: a list in each round, a loop whose count is looked up."""
    count = np.array([3, 0, 2, 4])
    column = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [3, 3, 0, 0], [0, 1, 2, 3]])
    buffers = (
        Buffer("x", "input", (4, 4)),
        Y,
        Buffer("m", "work", (4, 4)),
        Buffer("sum", "work", (4, 2)),
        Buffer("positive", "work", (4,), integer=True),
        Buffer("count", "index", (4,), count, integer=True),
        Buffer("column", "index", (4, 4), column, integer=True),
        Buffer("c", "table", (4, 2), np.linspace(-1.3, 2, 8).reshape(4, 2)),
    )
    each_entry = block(
        lambda s, m, c: s * c + m, [at("sum", "r", 1), at("m", "r", "k"), at("c", "k", 1)], [at("sum", "r", 1)]
    )
    looked_up = block(lambda s, m: s + m, [at("sum", "r", 0), at("m", "r", "column")], [at("sum", "r", 0)])
    row = (
        put(0, at("sum", "r", 0), at("sum", "r", 1)),
        Loop("k", 4, (block(lambda x: x, [at("x", "r", "k")], [at("m", "r", "k")]),)),
        Collect("positive", "k", 4, at("m", "r", "k")),
        Each("k", "positive", (each_entry,)),
        Lookup("n", at("count", "r")),
        Loop("k", Index("n"), (Lookup("column", at("column", "r", "k")), looked_up), backwards=True),
        block(lambda a, b: a - b, [at("sum", "r", 0), at("sum", "r", 1)], [at("y", "r")]),
    )
    return Program("lists_of_rows", buffers, (Loop("r", 4, row),))


NUMBERS = np.linspace(-1, 2, 11)


def long_lists():
    """Running sums over the positive ones of 23 numbers, and over those among them below 1, which lie in a column."""
    buffers = (Buffer("x", "input", (23,)), Buffer("y", "output", (2, 23)), Buffer("w", "work", (23,)))
    buffers += (Buffer("m", "work", (23, 2)), Buffer("s", "work", (1,)))
    buffers += tuple(Buffer(name, "work", (23,), integer=True) for name in ("positive", "below"))

    def add_up(row):
        return block(lambda x, s: (s + x, s + x), [at("w", "i"), at("s", 0)], [at("s", 0), at("y", row, "i")])

    split = block(lambda x: (x, select(less(x, 1), x, -1)), [at("x", "k")], [at("w", "k"), at("m", "k", 1)])
    body = (
        put(0, at("s", 0)),
        Loop("k", 23, (split, put(0, at("y", 0, "k"), at("y", 1, "k")))),
        Collect("positive", "k", 23, at("w", "k")),
        Each("i", "positive", (add_up(0),)),
        Collect("below", "k", 23, at("m", "k", 1)),
        Each("i", "below", (add_up(1),)),
    )
    return Program("long lists", buffers, body)


def rounds_side_by_side():
    """Rows of a matrix (4, 11) whose columns change alike; 11 is no multiple of what is side by side."""
    buffers = (X, Y, Buffer("m", "work", (4, 11)), Buffer("c", "work", (11,)), Buffer("n", "table", (11,), NUMBERS))
    column = at("m", "r", "k")
    fill = block(lambda c, s: c * s - abs(c), [at("c", "k"), at("s", 0)], [column])
    mix = block(
        lambda a, b, c, s: select(less(a, b), a / (1 + c * c), s * b - a),
        [column, at("m", 0, "k"), at("c", "k"), at("s", 0)],
        [column],
    )
    take = block(lambda x: x, [at("x", "r")], [at("s", 0)])
    sum_up = Loop("k", 11, (block(lambda t, m: t + m, [at("t", 0), column], [at("t", 0)]),))
    row = (
        take,
        Loop("k", 11, (fill,), side_by_side=True),
        Loop("k", 11, (mix, mix), side_by_side=True),
        put(0, at("t", 0)),
        sum_up,
        block(lambda t: t, [at("t", 0)], [at("y", "r")]),
    )
    scratch = (Buffer("s", "work", (1,)), Buffer("t", "work", (1,)))
    known = Loop("k", 11, (block(lambda c: c, [at("n", "k")], [at("c", "k")]),))
    return Program("rounds_side_by_side", (*buffers, *scratch), (known, Loop("r", 4, row)))


def lane_by_lane():
    """Sums over lists, and an iteration with exit on rows side by side, of one state after the other; what comes before
    and after is done by all lanes at once. One matrix is known to single lanes alone, a vector to all."""
    column = at("m", "r", "k")
    fill = block(lambda c, s: c * s - abs(c), [at("c", "k"), at("s", "r")], [column])
    halve = block(lambda v, m: v / 2 + m / 9, [at("v", "k"), column], [at("v", "k")])
    judge = block(lambda v: abs(v) - 1 / 8, [at("v", 3)], [at("rest", 0)])
    row = (
        Loop("k", 11, (fill,), side_by_side=True),
        put(-1, at("done", 0)),
        Until(
            "round", 5, at("done", 0), (Loop("k", 11, (halve,), side_by_side=True), judge, *done_where_little_is_left())
        ),
        block(lambda v, s: v - s, [at("v", 10), at("s", "r")], [at("y", "r")]),
    )
    some = (Collect("positive", "r", 4, at("s", "r")), Each("r", "positive", row, backwards=True))
    read = [block(lambda x: (x, 0), [at("x", i)], [at("s", i), at("y", i)]) for i in range(4)]
    known = Loop("k", 11, (block(lambda n: (n, 1 - n), [at("n", "k")], [at("c", "k"), at("v", "k")]),))
    last = block(lambda v: v, [at("v", 5)], [at("y", 3)])
    buffers = (
        *(X, Y, Buffer("n", "table", (11,), NUMBERS), Buffer("m", "work", (4, 11))),
        *(Buffer("c", "work", (11,)), Buffer("v", "work", (11,)), Buffer("s", "work", (4,))),
        *(Buffer("done", "work", (1,)), Buffer("rest", "work", (1,)), Buffer("positive", "work", (4,), integer=True)),
    )
    return Program("lane_by_lane", buffers, (*read, known, PerLane(some), If(at("s", 1), (PerLane((last,)),))))


def done_where_little_is_left():
    return (block(lambda r: -r, [at("rest", 0)], [at("done", 0)]),)


def running_along():
    """√|x₀| by Newton's iteration, each state for itself, and its square after each round: whoever has finished, or
    has nothing to do, squares the same number again with the others. A list of it is made by all of them, too."""
    start = block(lambda x: (abs(x), abs(x) + 1, -1, 0), [at("x", 0)], [at("w", i) for i in range(4)])
    improve = block(
        lambda a, y, n: ((y + a / y) / 2, 1e-14 * y - abs(y - (y + a / y) / 2), n + 1),
        [at("w", 0), at("w", 1), at("w", 3)],
        [at("w", 1), at("w", 2), at("w", 3)],
    )
    square = (
        block(lambda y: (y * y, 0), [at("w", 1)], [at("v", 0), at("v", 3)]),
        block(lambda y, x: (y - 1, x), [at("w", 1), at("x", 1)], [at("v", 1), at("v", 2)]),
        Collect("positive", "i", 3, at("v", "i")),
        Each("i", "positive", (block(lambda t, v: t + v, [at("v", 3), at("v", "i")], [at("v", 3)]),)),
    )
    end = block(lambda v, n, t: (v, n, t, 0), [at("v", 0), at("w", 3), at("v", 3)], [at("y", i) for i in range(4)])
    iterate = Until("round", 60, at("w", 2), (PerLane((improve,)), *square), "run along")
    never = block(lambda w: w + 1, [at("w", 0)], [at("w", 0)])
    some = If(at("x", 2), (iterate, put(5, at("y", 3))), "run along")
    buffers = (X, Y, Buffer("w", "work", (4,)), Buffer("v", "work", (4,)))
    body = (start, put(0, *[at("v", i) for i in range(4)]), end, If(at("v", 0), (never,), "are none"), some)
    close = If(at("x", 2), (end,))
    return Program("running_along", (*buffers, Buffer("positive", "work", (3,), integer=True)), (*body, close))


MAKERS = [conditional, square_root, lists_of_rows, long_lists, rounds_side_by_side, lane_by_lane, running_along]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", MAKERS)
def test_a_statement_does_the_same_alone_and_in_a_batch(make, dtype):
    program = make()
    agree(program, states(program), dtype)


def test_lanes_leave_an_iteration_each_in_its_own_time():
    program = square_root()
    rounds = expected_of(program, states(program), np.float64)[0][:, 1]
    assert len(set(rounds)) > 2
    np.testing.assert_allclose(
        expected_of(program, states(program), np.float64)[0][:, 0] ** 2, abs(states(program)["x"][:, 0]), rtol=1e-12
    )


def test_nan_is_not_positive():
    program = conditional()
    inputs = states(program)
    inputs["x"][::3, 0] = np.nan
    inputs["x"][1::3, 1] = np.nan
    agree(program, inputs)
    program = long_lists()
    inputs = states(program)
    inputs["x"][:, ::3] = np.nan
    inputs["x"][::2, 4:20] = -1  # whole groups of flags that are not positive
    agree(program, inputs)


def test_who_runs_along_with_others_finds_the_same():
    """The interpreter can do what a lane does that has finished before its neighbours."""
    program = running_along()
    inputs = states(program)["x"]
    for x in inputs:
        np.testing.assert_array_equal(interpret(program, {"x": x})["y"], interpret(program, {"x": x}, along=True)["y"])


def test_a_promise_that_is_not_kept_is_seen():
    adds = block(lambda w: w + 1, [at("w", 0)], [at("w", 0)])
    start, end = block(lambda x: (x, -x), [at("x", 0)], [at("w", 0), at("w", 1)]), copied(at("w", 0), at("y", 0))
    done = put(1, at("w", 1))
    buffers = (X, Buffer("y", "output", (1,)), Buffer("w", "work", (2,)))
    broken = Program("broken", buffers, (start, Until("i", 3, at("w", 1), (adds, done), "run along"), end))
    assert interpret(broken, {"x": np.ones(4)})["y"] == 2
    assert interpret(broken, {"x": np.ones(4)}, along=True)["y"] == 3


# ---- random programs -------------------------------------------------------------------------------------------------


class RandomProgram:
    """Statements of every kind, nested at random, over a work matrix, a table, an index matrix and lists."""

    ROWS, COLUMNS = 4, 3

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lists = []
        self.names = iter(range(10**6))
        self.alone = False

    def program(self):
        index = np.array([[self.random.randrange(self.COLUMNS) for _ in range(self.COLUMNS)] for _ in range(self.ROWS)])
        start = [
            block(lambda x, i=i, j=j: x * (1 + j) - i, [at("x", (i + j) % 5)], [at("w", i, j)])
            for i in range(self.ROWS)
            for j in range(self.COLUMNS)
        ]
        zero = put(0, *[at("y", i) for i in range(5)])
        body = self.statements(3, {}, [])
        end = [
            block(lambda a, b: a - b / 2, [at("w", i % self.ROWS, 0), at("w", (i + 1) % self.ROWS, 2)], [at("y", i)])
            for i in range(2)
        ]
        buffers = (
            Buffer("x", "input", (5,)),
            Buffer("y", "output", (5,)),
            Buffer("w", "work", (self.ROWS, self.COLUMNS)),
            Buffer("c", "table", (self.ROWS,), np.array([0.3, -0.7, 1.1, 0.01])),
            Buffer("index", "index", index.shape, index, integer=True),
            *[Buffer(name, "work", (self.ROWS,), integer=True) for name in self.lists],
        )
        return Program("random", buffers, (*start, zero, *body, *end))

    def statements(self, depth, registers, lists):
        """``registers``: name → how many values it can have; ``lists``: those known here."""
        registers, lists = dict(registers), list(lists)
        found = []
        for _ in range(self.random.randint(1, 3)):
            made = self.statement(depth, registers, lists)
            found.append(made)
            if isinstance(made, Collect):
                lists.append(made.list)
            if isinstance(made, Lookup):
                registers[made.register] = self.COLUMNS
        return tuple(found)

    def statement(self, depth, registers, lists):
        kinds = ["block", "block", "collect", "lookup"]
        if depth:
            kinds += ["loop", "if", "if", "until", "switch", *["each"] * 3 * bool(lists), "counted"]
            kinds += ["alone"] * (not self.alone)
        kind, new = self.random.choice(kinds), f"n{next(self.names)}"
        match kind:
            case "block":
                return self.block(registers)
            case "collect":
                self.lists.append(f"list{next(self.names)}")
                flag = at("w", new, self.index(registers, self.COLUMNS))
                return Collect(self.lists[-1], new, self.ROWS, flag)
            case "lookup":
                return Lookup(new, at("index", self.index(registers, self.ROWS), self.index(registers, self.COLUMNS)))
            case "loop":
                count = self.random.randint(0, 3)
                body = self.statements(depth - 1, registers | {new: count}, lists)
                return Loop(new, count, body, self.random.random() < 0.5)
            case "counted":
                of = self.index(registers, self.COLUMNS)
                count = Index(of) if isinstance(of, str) else Index(None, of)
                return Loop(new, count, self.statements(depth - 1, registers | {new: self.COLUMNS}, lists))
            case "alone":
                self.alone = True
                body = self.statements(depth - 1, registers, [])
                self.alone = False
                return PerLane(body)
            case "if":
                return If(self.place(registers), self.statements(depth - 1, registers, lists))
            case "until":
                body = self.statements(depth - 1, registers | {new: 3}, lists)
                return Until(new, self.random.randint(0, 3), self.place(registers), body)
            case "switch":
                known = [r for r, size in registers.items() if size <= 3]
                if not known:
                    return self.block(registers)
                cases = tuple(self.statements(depth - 1, registers, lists) for _ in range(3))
                return Switch(self.random.choice(known), cases)
            case "each":
                body = self.statements(depth - 1, registers | {new: self.ROWS}, lists)
                return Each(new, self.random.choice(lists), body)

    def index(self, registers, size):
        known = [r for r, values in registers.items() if values <= size]
        return self.random.choice(known) if known and self.random.random() < 0.8 else self.random.randrange(size)

    def place(self, registers):
        return at("w", self.index(registers, self.ROWS), self.index(registers, self.COLUMNS))

    def block(self, registers):
        """Numbers stay near 1, of either sign, so that conditions stay interesting."""
        sign, shift = self.random.choice([-1, 1]), self.random.uniform(-1, 1)
        target = self.place(registers) if self.random.random() < 0.8 else at("y", self.random.randrange(2, 5))
        loads = [self.place(registers), self.place(registers), at("c", self.index(registers, self.ROWS))]
        return block(lambda a, b, c: sign * (a + b * c + shift) / (1 + a * a), loads, [target])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    program = RandomProgram(seed).program()
    agree(program, states(program, seed), np.float32 if seed % 4 == 3 else np.float64, widths=(1, 4, 8))


def test_random_programs_are_not_idle():
    """Every statement occurs in them, and their states take different ways."""
    programs = [RandomProgram(seed).program() for seed in range(40)]
    text = "".join(repr(p.body) for p in programs)
    assert all(f"{kind.__name__}(" in text for kind in (Loop, Lookup, Switch, If, Until, Collect, Each, PerLane))
    assert np.mean([Interface.of(p).operations for p in programs]) > 50


# ---- on a GPU --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [*MAKERS, *[lambda seed=seed: RandomProgram(seed).program() for seed in range(12)]])
def test_threads_of_a_gpu_part_ways_too(monkeypatch, make):
    install(monkeypatch)
    program = make()
    inputs = states(program)
    f = compile_for_cuda(program, cache=OFF)
    for a, b in zip(run(f, [inputs[b.name] for b in program.of_role("input")]), expected_of(program, inputs, float)):
        np.testing.assert_array_equal(a, b)


@needs_assembler
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("real", ["float", "double"])
def test_the_assembler_takes_them(make, real, tmp_path):
    assemble(ptx_text(kernel_ir(make(), real, Form()), "sm_90"), "sm_90", tmp_path)


# ---- refused ---------------------------------------------------------------------------------------------------------

LIST = Buffer("list", "work", (3,), integer=True)
W = Buffer("w", "work", (3, 2))
IDENTITY = Straight([("input", 0)], [0])
SINE = Straight([("input", 0), ("sin", 0)], [1])


def copied(load, store):
    return Block(IDENTITY, (load,), (store,))


def side_by_side(count, *body):
    return Loop("i", count, body, side_by_side=True)


COLLECT = Collect("list", "i", 3, at("w", "i", 1))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([If(at("w", 3, 0), ())], "outside"),
        ([If(at("w", 0), ())], "1 indices"),
        ([If(at("list", 0), ())], "holds integers"),
        ([Until("i", 4, at("w", "i", 0), ())], "no value"),
        ([Until("i", 4, at("w", 0, 0), (copied(at("w", "i", 0), at("y", 0)),))], "outside"),
        ([Until("i", -1, at("w", 0, 0), ())], "rounds"),
        ([Collect("list", "i", 4, at("w", 0, 0))], "of size 3"),
        ([Collect("list", "i", 3, at("w", "i", 2))], "outside"),
        ([Collect("w", "i", 3, at("w", "i", 1))], "no list"),
        ([Each("k", "list", ())], "no value"),
        ([COLLECT, COLLECT], "two places"),
        ([If(at("x", 0), (COLLECT,)), Each("k", "list", ())], "no value"),
        ([COLLECT, Each("k", "list", (copied(at("w", ("k", 1), 0), at("y", 0)),))], "outside"),
        ([COLLECT, copied(at("list", 0), at("y", 0))], "holds integers"),
        ([COLLECT, copied(at("x", 0), at("list", 0))], "not its to write"),
        ([Lookup("n", at("list", 0))], "no constant integers"),
        ([Lookup("n", at("n", 1)), Loop("i", Index("n"), (copied(at("w", "i", 0), at("y", 0)),))], "outside"),
        ([Lookup("n", at("n", 0)), Loop("i", Index("n", 1), (copied(at("w", "i", 0), at("y", 0)),))], "outside"),
        ([Loop("t", "T", (Loop("i", Index("t", 2), ()),))], "beyond the end of 'T'"),
        ([side_by_side(2, copied(at("w", 0, 1), at("w", 1, "i")))], "may meet in 'w'"),
        ([side_by_side(1, copied(at("w", 0, ("i", 1)), at("w", 1, "i")))], "may meet in 'w'"),
        ([side_by_side(3, copied(at("w", 0, "i"), at("w", 1, "i")))], "outside"),
        ([PerLane((PerLane(()),))], "parted again"),
        ([PerLane((COLLECT,)), PerLane((Each("k", "list", ()),))], "no value"),
        ([COLLECT, PerLane((Each("k", "list", ()),))], "for single lanes and for all at once"),
        ([PerLane((Block(SINE, (at("x", 0),), (at("y", 0),)),))], "more than plain arithmetic"),
        ([side_by_side(2, Block(SINE, (at("w", 0, "i"),), (at("w", 1, "i"),)))], "more than plain arithmetic"),
    ],
)
def test_refused(body, words):
    number = Buffer("n", "index", (2,), np.array([3, 4]), integer=True)
    program = Program("bad", (X, Buffer("u", "input", ("T",)), Y, W, LIST, number), tuple(body))
    with pytest.raises(ProgramError, match=words):
        check(program)


def test_what_two_counters_reach_is_bounded_by_the_content():
    content = np.array([[0, 1, 9], [2, 0, 9]])
    index = Buffer("p", "index", (2, 3), content, integer=True)

    def reads(count):
        inner = Loop("j", count, (Lookup("p", at("p", "i", "j")), copied(at("x", ("p", 1)), at("y", 0))))
        return Program("reads", (X, Y, index), (Loop("i", 2, (inner,)),))

    check(reads(2))
    with pytest.raises(ProgramError, match="outside"):
        check(reads(3))


# ---- walks over statements -------------------------------------------------------------------------------------------


def test_walks_reach_every_depth():
    for seed in range(10):
        program = RandomProgram(seed).program()
        assert map_blocks(program.body, lambda b: b) == program.body
        moved = map_addresses(program.body, lambda a: Address("v" if a.buffer == "w" else a.buffer, a.indices))
        assert "buffer='w'" not in repr(moved)
        assert "buffer='v'" in repr(moved)
        emptied = map_blocks(program.body, lambda b: Block(Straight([], []), (), ()))
        assert len(list(every_block(emptied))) == len(list(every_block(program.body)))
        assert all(not b.stores for b in every_block(emptied))
