"""Very long kernels without a GPU: code in parts, each a function, with what they leave to each other in memory."""

import re

import numpy as np
import pytest

import whippletree as wt
from emulated_cuda import install, on_device
from nvidia_assembler import assemble, needs_assembler
from whippletree.arithmetic import scalars
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.cuda.ptx_target import how_to_start, kernel_ir, ptx_text
from whippletree.compiler.cuda.split import LEEWAY, LONGEST_PIECE, part_program, parts_of
from whippletree.compiler.cuda.tuning import Form
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.program import Buffer, Loop, straight_program
from whippletree.functions import find


@pytest.fixture
def driver(monkeypatch):
    return install(monkeypatch)


def derivatives():
    model = wt.mechanisms.chain(6)
    return model, unrolled_program(model, find("forward_dynamics_derivatives", model))


def random_states(model, count, dtype):
    rng = np.random.default_rng(5)
    return [rng.uniform(-2, 2, (count, n)).astype(dtype) for n in (model.nq, model.nv, model.nv)]


def test_code_of_usual_length_is_left_alone():
    _, program = derivatives()
    assert part_program(program) is program
    assert not parts_of(program)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_parts_are_of_about_one_length_and_compute_everything_once(count):
    _, program = derivatives()
    (whole,) = program.body
    parts = parts_of(part_program(program, 0, -(-whole.code.operations // count)))
    assert len(parts) == count
    length = whole.code.operations / count
    for part in parts:
        assert (1 - 3 * LEEWAY) * length < part.code.operations < (1 + 3 * LEEWAY) * length
    assert sum(part.code.operations for part in parts) < 1.01 * whole.code.operations


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("most", [300, 1500])
@pytest.mark.parametrize("form", [None, Form(64, keep=20, room=40)])
def test_parts_have_the_bits_of_the_whole(driver, form, most, dtype):
    model, program = derivatives()
    inputs = random_states(model, 70, dtype)
    cut = part_program(program, 0, most)
    expected = compile_function(program, dtype=dtype)(*inputs)
    for function in (compile_function(cut, dtype=dtype), compile_for_cuda(cut, dtype=dtype, form=form)):
        for a, b in zip(function(*inputs), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_truth_value_is_found_again_in_later_parts(driver):
    """Conditions of conditions from the beginning are used to the end; results are inputs, constants and numbers."""
    trace = Trace()
    x = trace.inputs(4)
    small = scalars.less(x[0] * x[1], x[2])
    values = list(x)
    for i in range(60):
        both = scalars.less(values[i], values[-1])
        values.append(scalars.select(small, values[-1] * values[i], scalars.select(both, values[-2], x[3] + i)))
    code = finish(trace, [values[10], x[1], 2.5, *values[-3:]])
    program = straight_program("choices", code, [Buffer("x", "input", (4,))], [Buffer("y", "output", (6,))])
    cut = part_program(program, 0, 40)
    assert len(parts_of(cut)) > 3
    given = np.random.default_rng(0).uniform(-1, 1, (50, 4))
    expected = compile_function(program)(given)
    np.testing.assert_array_equal(compile_function(cut)(given), expected)
    np.testing.assert_array_equal(compile_for_cuda(cut)(given), expected)


def test_a_status_comes_from_whichever_part_computes_it(driver):
    model = wt.mechanisms.four_bar()
    program = part_program(unrolled_program(model, find("forward_dynamics", model)), 0, 150)
    inputs = random_states(model, 40, "float64")
    inputs[0][[3, 35]] = 0.0  # a dead point
    gpu, cpu = compile_for_cuda(program), compile_function(program)
    found = gpu(*[on_device(x) for x in inputs])
    with pytest.warns(RuntimeWarning, match="2 of 40 states failed"):
        np.testing.assert_array_equal(found.numpy(), cpu(*inputs))
    np.testing.assert_array_equal(gpu.status.numpy(), cpu.status)


@pytest.mark.slow
def test_a_very_long_kernel_is_cut_by_itself():
    trace = Trace()
    values = list(trace.inputs(8))
    while len(values) < 1.1 * LONGEST_PIECE:
        values.append(values[-1] * values[-7] - values[-3])
    inputs, outputs = [Buffer("x", "input", (8,))], [Buffer("y", "output", (1,))]
    text = ptx_text(kernel_ir(straight_program("long", finish(trace, values[-1:]), inputs, outputs), "float"), "sm_90")
    assert set(re.findall(r"whippletree_part_\d+", text)) == {f"whippletree_part_{i}" for i in range(3)}
    assert 0 < how_to_start(text.encode()).work < 100


@pytest.mark.parametrize("cut", [False, True])
def test_a_result_that_is_mostly_one_constant(driver, cut):
    """Both zeros, other constants and computed numbers among many zeros."""
    trace = Trace()
    x = trace.inputs(3)
    result = np.full((30, 40), 0.0, dtype=object)
    result[3, 5], result[29, 39], result[0, 0], result[7] = -0.0, 2.5, x[1], x[0] * x[2] + x[1]
    code = finish(trace, [*result.flat, x[0] - x[1]])
    outputs = [Buffer("a", "output", (30, 40)), Buffer("b", "output", (1,))]
    program = straight_program("sparse", code, [Buffer("x", "input", (3,))], outputs)
    assert any(isinstance(statement, Loop) for statement in program.body)
    program = part_program(program, 0, 1) if cut else program
    given = np.random.default_rng(0).uniform(-1, 1, (70, 3))
    for a, b in zip(compile_for_cuda(program)(given), compile_function(program)(given), strict=True):
        assert a.tobytes() == b.tobytes()


@needs_assembler
@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_nvidias_assembler_accepts_it(arch, real, tmp_path):
    program = part_program(derivatives()[1], 0, 1000)
    assemble(ptx_text(kernel_ir(program, real, Form(64, keep=40, room=60), copies=False), arch), arch, tmp_path)
