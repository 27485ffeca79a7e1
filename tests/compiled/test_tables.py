"""Tables of numbers in traced code: looked up by machine code of every width as by Python, and never outside."""

from __future__ import annotations

import numpy as np
import pytest

from emulated_cuda import install
from whippletree.arithmetic.scalars import entry
from whippletree.arithmetic.trace import Table, Trace, evaluate, finish, gradient, tangent
from whippletree.compiler.cpu.cpu_function import CompiledFunction, Wording, compile_function
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.cuda.ptx_target import kernel_ir, ptx_text
from whippletree.compiler.cuda.tuning import Form
from whippletree.compiler.llvm.kernel import Kernel, Options, Recipe
from whippletree.compiler.program import Buffer, straight_program, tables_of
from whippletree.compiler.program.check import check
from whippletree.compiler.program.interpret import interpret
from whippletree.errors import ScalarError
from whippletree.files.cache import CodeCache

VALUES = np.random.default_rng(0).normal(size=7)
PLACES = np.array([0, 0.5, 0.999, 1, 3.7, 5.999, 6, 6.5, 7, 1e300, np.inf, -0.0, -0.3, -1, -1e300, -np.inf, np.nan])


def looked_up(table: Table):
    """t(x) + 2 t(2 x), as a program."""
    trace = Trace()
    x = trace.input()
    code = finish(trace, [entry(table, x) + 2 * entry(table, x + x)])
    return code, straight_program("f", code, [Buffer("x", "input", (1,))], [Buffer("y", "output", (1,))])


def expected(x: float) -> float:
    def at(y: float) -> float:
        return VALUES[0] if not y > 0 else VALUES[min(int(min(y, 6.0)), 6)]

    with np.errstate(all="ignore"):
        return at(x) + 2 * at(x + x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{"width": 1}, {"width": 4}, {"width": 8}])
def test_machine_code_looks_up_what_python_does(dtype, options):
    code, program = looked_up(Table(VALUES))
    check(program)
    real = "double" if dtype is np.float64 else "float"
    function = CompiledFunction(Kernel(Recipe.of(program), Options(real, **options), CodeCache(None)), 1, Wording())
    with np.errstate(all="ignore"):
        found = function(PLACES.astype(dtype)[:, None])[:, 0]
        oracle = [
            interpret(program, {"x": np.array([x], dtype=dtype)}, dtype=dtype)["y"][0] for x in PLACES.astype(dtype)
        ]
    assert np.array_equal(found, np.array(oracle, dtype=dtype))
    assert found == pytest.approx([expected(x) for x in PLACES], rel=1e-15 if dtype is np.float64 else 1e-6)
    assert [evaluate(code, [float(x)])[0] for x in PLACES] == pytest.approx([expected(x) for x in PLACES], rel=1e-15)


def test_equal_tables_are_one_and_have_no_slope():
    trace = Trace()
    x = trace.input()
    one, other = entry(Table(VALUES), x), entry(Table(VALUES.copy()), x)
    assert one is other
    assert entry(Table(VALUES[:-1]), x) is not one
    (slope,) = tangent([one * x], [x], [1])
    assert evaluate(finish(trace, [slope]), [3.5])[0] == VALUES[3]
    assert evaluate(finish(trace, gradient([one * x], [1], [x])), [3.5])[0] == VALUES[3]
    with pytest.raises(ScalarError, match="at least one entry"):
        Table([])


@pytest.mark.parametrize("real", ["float", "double"])
def test_gpu_code_keeps_its_tables_in_global_memory(real):
    _, program = looked_up(Table(VALUES))
    (name,) = tables_of(program)
    text = ptx_text(kernel_ir(program, real, Form()), "sm_90")
    assert name in text
    assert "ld.global" in text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gpu_code_looks_up_the_same_bits(monkeypatch, dtype):
    install(monkeypatch)
    _, program = looked_up(Table(VALUES))
    with np.errstate(all="ignore"):
        given = PLACES.astype(dtype)[:, None]
        expected = compile_function(program, dtype=dtype)(given)
    np.testing.assert_array_equal(compile_for_cuda(program, dtype=dtype)(given), expected)
