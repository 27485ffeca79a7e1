"""Programs that call compiled functions: the same numbers as the interpreter, and nothing outside of their buffers."""

import gc

import numpy as np
import pytest

from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, Call, Loop, Program
from whippletree.compiler.program.check import ProgramError, check
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import piece, traced_block

STATES = 5


def root(size):
    """y = scale sqrt(x), and a status of 3 where the first number is negative."""
    x, scale = Buffer("x", "input", (size,)), Buffer("scale", "input", (2,))
    y, status = Buffer("y", "output", (size,)), Buffer("status", "output", (), integer=True)

    def take(x, scale):
        return [[scale[1] * sqrt(abs(a)) for a in x], select(less(x[0], 0), 3, 0)]

    block = traced_block(take, [piece(x), piece(scale)], [piece(y), piece(status)])
    return Program("root", (x, scale, y, status), (block,))


def of_one_state(x, scale):
    return scale[1] * np.sqrt(np.abs(x)), 3 if x[0] < 0 else 0


def caller(**changes):
    """Copies the columns of x to work space, calls, and hands out the first states of what it found."""
    buffers = {
        "x": Buffer("x", "input", (STATES, "n")),
        "scale": Buffer("scale", "input", (2,)),
        "y": Buffer("y", "output", (STATES, "n")),
        "failed": Buffer("failed", "output", (STATES,)),
        "given": Buffer("given", "work", ("n", STATES)),
        "found": Buffer("found", "work", ("n", STATES)),
        "told": Buffer("told", "work", (STATES,)),
    } | changes.pop("buffers", {})
    facts = {"states": STATES, "inputs": ("given", "scale"), "outputs": ("found",), "status": "told"} | changes

    def rows(name):
        return piece(buffers[name], "i", None) if buffers[name].role == "work" else piece(buffers[name], None, "i")

    def copy(source, target):
        return Loop("i", "n", (traced_block(lambda x: [x], [rows(source)], [rows(target)]),))

    tell = traced_block(lambda x: [x], [piece(Buffer("told", "work", (STATES,)))], [piece(buffers["failed"])])
    body = (copy("x", "given"), Call("root", **facts), tell, copy("found", "y"))
    return Program("caller", tuple(buffers.values()), body)


@pytest.mark.parametrize("size", [1, 3, 40])
def test_a_called_function_sees_the_states_of_the_work_space(size):
    program = caller()
    check(program)
    x = np.random.default_rng(size).normal(size=(STATES, size))
    scale = np.array([7.0, 2.0])
    function = compile_function(program)
    function.hand_over("root", compile_function(root(size)))
    y, failed = function(x, scale)
    expected = interpret(program, {"x": x, "scale": scale}, functions={"root": of_one_state})
    np.testing.assert_allclose(y, expected["y"], rtol=1e-15)
    np.testing.assert_array_equal(failed, expected["failed"])
    np.testing.assert_array_equal(failed, 3 * (x[:, 0] < 0))
    assert 0 < (failed > 0).sum() < STATES or size > 3


def test_fewer_states_than_there_is_room_for():
    function = compile_function(caller(states=2))
    function.hand_over("root", compile_function(root(2)))
    x, scale = np.arange(10.0).reshape(STATES, 2), np.ones(2)
    y, _ = function(x, scale)
    np.testing.assert_allclose(y[:2], np.sqrt(x[:2]))


def test_one_program_serves_functions_of_different_sizes():
    for size in (2, 9):
        function = compile_function(caller())
        function.hand_over("root", compile_function(root(size)))
        x = np.abs(np.random.default_rng(0).normal(size=(STATES, size)))
        np.testing.assert_allclose(function(x, np.ones(2))[0], np.sqrt(x))


def test_a_function_that_was_handed_over_lives_as_long_as_its_caller():
    function = compile_function(caller())
    function.hand_over("root", compile_function(root(4)))
    gc.collect()
    x = np.ones((STATES, 4))
    np.testing.assert_array_equal(function(x, np.ones(2))[0], x)


def test_only_functions_of_fixed_sizes_and_the_same_numbers_are_handed_over():
    function = compile_function(caller())
    with pytest.raises(ValueError, match="another dtype"):
        function.hand_over("root", compile_function(root(4), dtype=np.float32))
    with pytest.raises(ValueError, match="no fixed size: \\['x', 'y'"):
        function.hand_over("root", compile_function(caller()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"states": STATES + 1}, "no room for 6 states"),
        ({"states": 0}, "no room for 0 states"),
        ({"inputs": ("nothing", "scale")}, "'nothing' cannot be an argument"),
        ({"outputs": ("y",)}, "'y' cannot be an argument"),
        ({"outputs": ("given",)}, "writes what it reads"),
        ({"status": "found"}, "writes what it reads, or twice"),
        ({"outputs": ("told",), "status": "found"}, "one number for each state"),
    ],
)
def test_refused(changes, words):
    with pytest.raises(ProgramError, match=words):
        check(caller(**changes))


def test_a_program_that_calls_works_on_one_state_after_the_other():
    """Also where nothing else about it depends on the state: the lanes of a vector cannot call."""
    x, y = Buffer("x", "input", (3,)), Buffer("y", "output", (3,))
    given, found = (Buffer(name, "work", (3, 1)) for name in ("given", "found"))
    scale, told = Buffer("scale", "input", (2,)), Buffer("told", "work", (1,))
    program = Program(
        "caller of one",
        (x, scale, y, given, found, told),
        (
            traced_block(lambda x: [x], [piece(x)], [piece(given)]),
            Call("root", 1, ("given", "scale"), ("found",), "told"),
            traced_block(lambda x: [x.ravel()], [piece(found)], [piece(y)]),
        ),
    )
    check(program)
    assert program.is_scalar
    function = compile_function(program)
    function.hand_over("root", compile_function(root(3)))
    states = np.random.default_rng(0).random((37, 3))
    assert function(states, np.ones(2)).tobytes() == np.sqrt(states).tobytes()
    other = function.another()
    other.hand_over("root", compile_function(root(3)))
    assert other(states, np.ones(2)).tobytes() == np.sqrt(states).tobytes()
