"""Programs whose lists, and whose work space, come with the call: scenes of many bodies."""

import numpy as np
import pytest

from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda.ptx_target import kernel_ir
from whippletree.compiler.program import Address, Buffer, Collect, Each, Index, Lookup, Loop, Program
from whippletree.compiler.program.check import ProgramError, check
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import piece, traced_block
from whippletree.errors import UnsupportedError

WHO = Buffer("who", "input", ("K", 2), integer=True)
SIZE = Buffer("size", "input", ("N", 3))
FLAG = Buffer("flag", "input", ("K",))
SUM = Buffer("sum", "output", ("N", 3))
SOME = Buffer("some", "work", ("K",), integer=True)


def program(below="N", count="K", rows="N", **hints):
    """For every pair whose flag is positive, the first one's numbers are added to those of the second."""
    total = Buffer("total", "work", (rows, 3))
    at = [piece(b, "i", None) for b in (SIZE, total, SUM)]
    copy = traced_block(lambda x: [x], [at[0]], [at[1]])
    add = traced_block(
        lambda a, b: [a + b],
        [piece(total, "first", None), piece(total, "second", None)],
        [piece(total, "second", None)],
    )
    lookups = [
        Lookup(w, Address("who", (Index("k"), Index(None, i))), below) for i, w in enumerate(("first", "second"))
    ]
    body = (
        Loop("i", "N", (copy,)),
        Collect("some", "k", count, Address("flag", (Index("k"),))),
        Each("k", "some", (*lookups, add), **hints),
        Loop("i", "N", (traced_block(lambda x: [x], [at[1]], [at[2]]),)),
    )
    return Program("chained", (WHO, SIZE, FLAG, SUM, total, SOME), body)


def test_work_space_and_lists_have_the_size_of_the_call():
    function = compile_function(program())
    random = np.random.default_rng(1)
    for bodies, pairs in ((1, 1), (7, 30), (200, 5000)):
        who, size = random.integers(0, bodies, (pairs, 2)), random.normal(size=(bodies, 3))
        flag = random.normal(size=pairs)
        expected = size.copy()
        for (first, second), here in zip(who, flag, strict=True):
            if here > 0:
                expected[second] += expected[first]
        np.testing.assert_array_equal(function(who, size, flag), expected)
        if bodies < 100:
            told = interpret(program(), {"who": who, "size": size, "flag": flag})
            np.testing.assert_array_equal(told["sum"], expected)


@pytest.mark.parametrize("backwards", [False, True])
def test_rows_that_are_fetched_ahead_change_no_number(backwards):
    plain, ahead = (compile_function(program(backwards=backwards, ahead=name)) for name in (None, "total"))
    random = np.random.default_rng(3)
    for bodies, pairs in ((1, 0), (3, 1), (7, 30)):
        given = random.integers(0, bodies, (pairs, 2)), random.normal(size=(bodies, 3)), random.normal(size=pairs)
        np.testing.assert_array_equal(ahead(*given), plain(*given))
    with pytest.raises(ProgramError, match="no buffer 'elsewhere' to fetch ahead"):
        check(program(ahead="elsewhere"))


def test_numbers_of_a_caller_never_lead_outside():
    who = np.array([[-5, 10**12], [2**62, -(2**62)]])
    size = np.arange(9.0).reshape(3, 3)
    expected = size.copy()
    expected[2] += expected[0]
    expected[0] += expected[2]
    inputs = {"who": who, "size": size, "flag": np.ones(2)}
    np.testing.assert_array_equal(compile_function(program())(*inputs.values()), expected)
    np.testing.assert_array_equal(interpret(program(), inputs)["sum"], expected)


def test_a_batch_of_scenes_is_what_they_are_alone():
    function, random = compile_function(program()), np.random.default_rng(2)
    who, size, flag = random.integers(0, 5, (4, 20, 2)), random.normal(size=(4, 5, 3)), random.normal(size=(4, 20))
    together = function(who, size, flag)
    for i in range(4):
        np.testing.assert_array_equal(together[i], function(who[i], size[i], flag[i]))


@pytest.mark.parametrize(
    ("fault", "message"),
    [({"below": None}, "no constant integers"), ({"below": "M"}, "bound 'M'"), ({"count": "N"}, "no room")],
)
def test_unsound_lists_are_refused(fault, message):
    with pytest.raises(ProgramError, match=message):
        check(program(**fault))


def test_rows_of_another_size_are_refused():
    with pytest.raises(ProgramError, match="may be outside"):
        check(program(rows="K"))


def test_a_gpu_does_not_take_them():
    with pytest.raises(UnsupportedError, match="one scene at a time"):
        kernel_ir(program(), "double")


def chosen():
    """Rows of what is given, by numbers that a block has worked out: twice those of the call."""
    given, wanted = Buffer("given", "input", ("K",)), Buffer("wanted", "work", ("K",))
    rows = Buffer("rows", "output", ("K", 3))
    own = traced_block(lambda x: [[2 * x]], [piece(given, "k")], [piece(wanted, "k")])
    copy = traced_block(lambda x: [x], [piece(SIZE, "row", None)], [piece(rows, "k", None)])
    look = Lookup("row", Address("wanted", (Index("k"),)), "N")
    return Program("chosen", (given, SIZE, rows, wanted), (Loop("k", "K", (own, look, copy)),))


def test_numbers_that_a_program_has_worked_out_lead_to_rows_and_never_outside():
    size = np.arange(12.0).reshape(4, 3)
    given = np.array([0, 0.5, 0.99, 1.5, 2, -1, -0.0, 1e300, -1e300, np.inf, -np.inf, np.nan])
    expected = size[[0, 1, 1, 3, 3, 0, 0, 3, 0, 3, 0, 0]]
    np.testing.assert_array_equal(compile_function(chosen())(given, size), expected)
    np.testing.assert_array_equal(interpret(chosen(), {"given": given, "size": size})["rows"], expected)
    rows = compile_function(chosen())(given, np.zeros((0, 3)))  # there is no row: the call ends
    assert rows.shape == (12, 3)


def test_only_a_program_of_one_state_looks_up_its_own_numbers():
    given, wanted = Buffer("given", "input", (4,)), Buffer("wanted", "work", (4,))
    own = traced_block(lambda x: [[2 * x]], [piece(given, "k")], [piece(wanted, "k")])
    look = Lookup("row", Address("wanted", (Index("k"),)), 4)
    out = Buffer("out", "output", (4,))
    copy = traced_block(lambda x: [[x]], [piece(given, "row")], [piece(out, "k")])
    with pytest.raises(ProgramError, match="a lookup in 'wanted', which holds no integers of a call"):
        check(Program("lanes", (given, out, wanted), (Loop("k", 4, (own, look, copy)),)))
