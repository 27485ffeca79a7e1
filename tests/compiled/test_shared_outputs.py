"""Outputs that hold one number in very many places: filled by loops, with the same bits, in little code."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, Loop, check, every_block, interpret, straight_program
from whippletree.compiler.program.shared_outputs import EQUAL_PLACES


def sparse_program(size=40):
    """A square matrix of zeros, negative zeros and one computed number, with other numbers on its diagonal."""
    trace = Trace()
    x = trace.inputs(3)
    rows = np.zeros((size, size), dtype=object)
    rows[:, size // 2 :] = x[0] * x[1]
    rows[-1, :] = -0.0
    for k in range(size):
        rows[k, k] = x[2] + k
    outputs = [Buffer("y", "output", (size, size)), Buffer("z", "output", ())]
    code = finish(trace, [*rows.reshape(-1), x[0] + 1])
    return straight_program("sparse", code, [Buffer("x", "input", (3,))], outputs), rows


def expected(rows, x):
    found = np.zeros(rows.shape)
    size = len(rows)
    found[:, size // 2 :] = x[0] * x[1]
    found[-1, :] = -0.0
    found[np.arange(size), np.arange(size)] = x[2] + np.arange(size)
    return found


def test_many_places_are_filled_by_loops():
    program, rows = sparse_program()
    loops = [statement for statement in program.body if isinstance(statement, Loop)]
    assert len(loops) == 2  # zeros and the product; the forty negative zeros are stored one by one
    assert sum(len(block.stores) for block in every_block(program.body)) < 120
    check.check(program)
    x = np.array([2.0, -3.0, 0.5])
    y, z = interpret.interpret(program, {"x": x}).values()
    assert np.array_equal(y, expected(rows, x))
    assert np.array_equal(np.signbit(y), np.signbit(expected(rows, x)))
    assert z == 3.0


@pytest.mark.parametrize("count", [1, 8, 21])
def test_compiled_they_have_the_same_bits(count):
    program, rows = sparse_program()
    x = np.random.default_rng(1).normal(size=(count, 3))
    y, z = compile_function(program)(x)
    for k in range(count):
        right = expected(rows, x[k])
        assert np.array_equal(y[k], right)
        assert np.array_equal(np.signbit(y[k]), np.signbit(right))
    assert np.array_equal(z, x[:, 0] + 1)


def test_small_outputs_are_one_block():
    trace = Trace()
    (x,) = trace.inputs(1)
    code = finish(trace, [x, *[0.0] * (EQUAL_PLACES - 1)])
    program = straight_program("few", code, [Buffer("x", "input", (1,))], [Buffer("y", "output", (EQUAL_PLACES,))])
    assert len(program.body) == 1


def test_numbers_are_left_as_they_are_where_nothing_failed():
    """Bit for bit, signs of zeros included, also of negated and fused ones."""
    from whippletree.arithmetic import scalars
    from whippletree.compiler.frontend.unrolled import _nan_where_failed

    trace = Trace()
    x = trace.inputs(3)
    plain = [x[0], -x[0], x[0] * x[1], -(x[0] * x[1]), x[0] - x[1], -(x[0] - x[1]), 0, x[0] * x[1] + x[0], abs(x[0])]
    code = finish(trace, [*_nan_where_failed(plain, scalars.less(0, x[2])), *plain])
    outputs = [Buffer("y", "output", (len(plain),)), Buffer("z", "output", (len(plain),))]
    function = compile_function(straight_program("guarded", code, [Buffer("x", "input", (3,))], outputs))
    numbers = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf]
    for a in numbers:
        for b in numbers:
            with np.errstate(all="ignore"):
                y, z = function(np.array([a, b, -1.0]))
                lost, _ = function(np.array([a, b, 1.0]))
            assert y.tobytes() == z.tobytes()
            assert np.isnan(lost).all()


def free_bodies(count):
    builder = wt.Builder("bodies")
    for k in range(count):
        builder.body(f"b{k}", mass=1.0 + k, center=(0.1, 0.2, 0.3), inertia=(0.2, 0.3, 0.4))
        builder.joint(f"j{k}", "free", "world", f"b{k}")
    return builder.build()


def test_the_mass_matrix_of_many_free_bodies_is_little_code():
    from whippletree import functions
    from whippletree.compiler.frontend.unrolled import unrolled_program

    model = free_bodies(20)
    program = unrolled_program(model, functions.find("mass_matrix"))
    assert sum(len(block.stores) for block in every_block(program.body)) < 20 * 36 + 10
    q = np.random.default_rng(0).normal(size=(3, model.nq))
    M = wt.compile(model).mass_matrix(q)
    for k in range(3):
        assert np.allclose(M[k], wt.reference(model).mass_matrix(q[k]).astype(float), rtol=1e-12, atol=1e-12)


def test_long_compilations_are_told(monkeypatch, tmp_path):
    import time

    from whippletree.compiler.llvm import compile_progress
    from whippletree.compiler.llvm.compile_progress import on_compilation

    monkeypatch.setenv("WHIPPLETREE_CACHE", str(tmp_path))
    monkeypatch.setattr(compile_progress, "TOLD_AFTER", 0.001)
    told = []
    on_compilation(lambda what, seconds: told.append((what, seconds)))
    try:
        # long enough for its expressions that another thread gets its turn meanwhile
        builder = wt.Builder("arm to wait for")
        for k in range(8):
            builder.body(f"b{k}", mass=1.234 + k, center=(0.1, 0.2, 0.3), inertia=(1, 1.1, 1.2))
            builder.joint(f"j{k}", "spherical", f"b{k - 1}" if k else "world", f"b{k}", position=(0.1, 0.2, k))
        model = builder.build()
        wt.compile(model).forward_dynamics(model.home.q, np.ones(24), np.ones(24))
    finally:
        on_compilation(None)
    words = [what for what, _ in told]
    assert "forward_dynamics of 'arm to wait for': its expressions" in words
    assert "forward_dynamics of 'arm to wait for': machine code for one state at a time" in words
    assert told[-1][1] == -1
    before = len(told)
    time.sleep(0.05)
    assert len(told) == before


def test_nobody_is_told_where_nobody_watches(monkeypatch):
    import io

    from whippletree.compiler.llvm import compile_progress

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("WHIPPLETREE_PROGRESS", raising=False)
    assert compile_progress._on_terminal(io.StringIO()) is None
    screen = Terminal()
    write = compile_progress._on_terminal(screen)
    write("f of 'm'", 2.0)
    write("f of 'm'", -1.0)
    assert screen.getvalue() == "\r\x1b[Kcompiling f of 'm', 2 s …\r\x1b[K"
    monkeypatch.setenv("WHIPPLETREE_PROGRESS", "0")
    assert compile_progress._on_terminal(Terminal()) is None
    monkeypatch.setenv("WHIPPLETREE_PROGRESS", "1")
    file = io.StringIO()
    write = compile_progress._on_terminal(file)
    for seconds in (2.0, 3.0, -1.0):
        write("f of 'm'", seconds)
    assert file.getvalue() == "compiling f of 'm' …\n"
