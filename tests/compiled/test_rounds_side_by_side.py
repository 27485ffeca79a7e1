"""Loops whose rounds are computed side by side: the bits of rounds one by one, and programs that may not be written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, Index, Loop, Program, Statement
from whippletree.compiler.program.check import ProgramError, check
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import piece, traced_block

X, Y = Buffer("x", "input", (3, 11)), Buffer("y", "output", (11,))
W, V = Buffer("w", "work", (3, 11)), Buffer("v", "work", (11,))
TABLE = Buffer("table", "table", (11,), np.linspace(-1, 2, 11))


def block(function: Any, reads: Any, writes: Any) -> Statement:
    return traced_block(function, reads, writes)


def program(*, side_by_side: bool) -> Program:
    """Eleven rounds, eight, two and one by itself, with numbers of the round, of a table, and numbers all share."""

    def work(w: Any, shared: Any) -> list[Any]:
        root = sqrt(w[0] * w[0] + w[1] * w[1] + 1)
        return [select(less(w[2], 0), w[1] / root, w[2] * root) + shared]

    def scale(v: Any, own: Any) -> list[Any]:
        return [v * v - own * v]

    shared = piece(W, Index(None, 1), Index(None, 4))
    rounds = block(work, [piece(W, None, "k"), shared], [piece(V, "k")])
    again = block(scale, [piece(V, "k"), piece(TABLE, "k")], [piece(V, "k")])
    return Program("rounds", (X, Y, W, V, TABLE), (
        block(lambda x: [x], [piece(X)], [piece(W)]),
        Loop("k", 11, (rounds, again), side_by_side=side_by_side),
        block(lambda v: [v], [piece(V)], [piece(Y)]),
    ))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounds_side_by_side_have_the_bits_of_rounds_one_by_one(dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=(7, 3, 11)).astype(dtype)
    together = compile_function(program(side_by_side=True), dtype=dtype)
    alone = compile_function(program(side_by_side=False), dtype=dtype)
    for one in x:
        assert np.array_equal(together(one), alone(one))
        assert np.array_equal(together(one), interpret(program(side_by_side=True), {"x": one}, dtype)["y"])
    assert np.array_equal(together(x), np.stack([alone(one) for one in x]))


@pytest.mark.parametrize("count", range(1, 24))
def test_any_number_of_rounds_is_taken_in_vectors_of_some_size(count: int) -> None:
    given, found = Buffer("given", "input", (count,)), Buffer("found", "output", (count,))
    own = Buffer("own", "work", (count,))
    root = block(lambda x: [sqrt(x * x + 1) / 3], [piece(own, "k")], [piece(own, "k")])
    copies = [block(lambda x: [x], [piece(a)], [piece(b)]) for a, b in ((given, own), (own, found))]
    body = (copies[0], Loop("k", count, (root,), side_by_side=True), copies[1])
    x = np.random.default_rng(count).normal(size=count)
    rounds = Program("some rounds", (given, found, own), body)
    np.testing.assert_array_equal(compile_function(rounds)(x), interpret(rounds, {"given": x})["found"])


def triangle(*, side_by_side: bool) -> Program:
    """y[i] = sum of (i + 1) x[i, j] x[j, j] over j <= i, by rounds whose number the call decides, up to a counter."""
    x, y = Buffer("x", "input", ("n", "n")), Buffer("y", "output", ("n",))
    own, sums = Buffer("own", "work", ("n", "n")), Buffer("sums", "work", ("n", "n"))

    def rounds(count: Any, counter: str, *body: Statement) -> Loop:
        return Loop(counter, count, body, side_by_side=side_by_side)

    copy = block(lambda x: [x], [piece(x, "i", "j")], [piece(own, "i", "j")])
    add = block(lambda s, a, b: [s + a * b], [piece(sums, "i", "j"), piece(own, "i", "j"), piece(own, "k", "k")],
                [piece(sums, "i", "j")])  # fmt: skip
    pick = block(lambda y, s: [y + s], [piece(y, "i"), piece(sums, "i", "i")], [piece(y, "i")])
    return Program("triangle", (x, y, own, sums), (
        Loop("i", "n", (Loop("j", "n", (copy,)),)),
        Loop("i", "n", (
            rounds("n", "j", block(lambda: [0], [], [piece(sums, "i", "j")])),
            block(lambda: [0], [], [piece(y, "i")]),
            Loop("k", Index("i", 1), (rounds(Index("i", 1), "j", add),)),
            pick,
        )),
    ))  # fmt: skip


@pytest.mark.parametrize("n", [0, 1, 3, 4, 11])
def test_the_call_may_decide_how_many_rounds_there_are(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, n))
    check(triangle(side_by_side=True))
    together, alone = (compile_function(triangle(side_by_side=way)) for way in (True, False))
    assert np.array_equal(together(x), alone(x))
    if n:
        assert np.array_equal(together(x), interpret(triangle(side_by_side=True), {"x": x})["y"])
        expected = [x[i, i] * sum(x[k, k] for k in range(i + 1)) for i in range(n)]
        np.testing.assert_allclose(together(x), expected, rtol=1e-12, atol=1e-12)


def test_rounds_may_read_columns_and_diagonals_of_what_none_of_them_writes() -> None:
    x, found = Buffer("x", "input", (11, 11)), Buffer("found", "output", (2, 11))
    own, results = Buffer("own", "work", (11, 11)), Buffer("results", "work", (2, 11))
    pick = block(
        lambda column, own, shared: [column * shared, own - shared],
        [piece(own, "k", Index(None, 2)), piece(own, "k", "k"), piece(own, Index(None, 1), Index(None, 4))],
        [piece(results, Index(None, i), "k") for i in (0, 1)],
    )
    copies = [block(lambda x: [x], [piece(a)], [piece(b)]) for a, b in ((x, own), (results, found))]
    body = (copies[0], Loop("k", 11, (pick,), side_by_side=True), copies[1])
    given = np.random.default_rng(3).normal(size=(9, 11, 11))
    kernel = compile_function(Program("columns", (x, found, own, results), body))
    expected = [[one[:, 2] * one[1, 4], np.diag(one) - one[1, 4]] for one in given]
    np.testing.assert_array_equal(kernel(given[0]), expected[0])
    np.testing.assert_array_equal(kernel(given), expected)


def test_what_is_no_such_loop_is_refused() -> None:
    one = block(lambda v: [v + 1], [piece(V, "k")], [piece(V, "k")])
    to_one_place = block(lambda v: [v], [piece(V, "k")], [piece(V, Index(None, 0))])
    outside = block(lambda v: [v], [piece(V, "k")], [piece(Y, "k")])
    before = block(lambda v: [v], [piece(V, "k")], [piece(W, "k", Index(None, 0))])
    read_before = block(lambda w: [w], [piece(W, "k", "k")], [piece(W, Index(None, 0), "k")])
    cases = {
        "forwards": Loop("k", 3, (one,), backwards=True, side_by_side=True),
        "blocks alone": Loop("k", 3, (Loop("l", 2, (one,)),), side_by_side=True),
        "write to one": Loop("k", 3, (to_one_place,), side_by_side=True),
        "work space and tables alone": Loop("k", 3, (outside,), side_by_side=True),
        "one place": Loop("k", 3, (before,), side_by_side=True),
        "before its last index": Loop("k", 3, (read_before,), side_by_side=True),
    }
    for message, loop in cases.items():
        with pytest.raises(ProgramError, match=message):
            check(Program("bad", (X, Y, W, V), (loop,)))
