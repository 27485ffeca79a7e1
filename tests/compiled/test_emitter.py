"""Random straight-line code: machine code of every width and effort gives the bits of the interpreter."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whippletree.arithmetic.trace import Straight, Trace, evaluate, finish
from whippletree.compiler.cpu.cpu_function import CompiledFunction, Wording, compile_function
from whippletree.compiler.cpu.cpu_target import numpy_loop
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.ir import INTRINSICS, MachineLanes, Writer, real_text
from whippletree.compiler.llvm.kernel import Kernel, Options, Recipe
from whippletree.compiler.program import Buffer, straight_program
from whippletree.compiler.program.interpret import interpret, round_fraction
from whippletree.files.cache import CodeCache

OFF = CodeCache(None)
EXACT = {
    "neg": 1, "abs": 1, "sqrt": 1, "add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "fms": 3, "fnma": 3,
}  # fmt: skip
BITS = {np.float64: np.uint64, np.float32: np.uint32}


@st.composite
def codes(draw, inputs=5, longest=40):
    """Straight-line code with conditions and selects, every operation but the transcendental ones."""
    nodes = [("input", i) for i in range(inputs)] + [("const", 0.1), ("const", -3.5), ("const", 0.0)]
    numbers, conditions = list(range(len(nodes))), []
    for _ in range(draw(st.integers(1, longest))):
        kinds = [*EXACT, "lt"] + (["and", "or", "not", "select"] if conditions else [])
        kind = draw(st.sampled_from(kinds))
        number, condition = st.sampled_from(numbers), st.sampled_from(conditions or [0])
        if kind == "select":
            node = (kind, draw(condition), draw(number), draw(number))
        elif kind in ("and", "or", "not"):
            node = (kind, *(draw(condition) for _ in range(1 if kind == "not" else 2)))
        else:
            node = (kind, *(draw(number) for _ in range(EXACT.get(kind, 2))))
        (conditions if kind in ("lt", "and", "or", "not") else numbers).append(len(nodes))
        nodes.append(node)
    outputs = [*draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=9)), 2.5]
    return Straight(nodes, outputs)


def program_of(code, inputs=5):
    size = len(code.outputs)
    return straight_program("f", code, [Buffer("x", "input", (inputs,))], [Buffer("y", "output", (size,))])


def compiled(program, dtype=np.float64, **options):
    real = "double" if dtype is np.float64 else "float"
    return CompiledFunction(Kernel(Recipe.of(program), Options(real, **options), OFF), 1, Wording())


def same_bits(a, b, dtype):
    np.testing.assert_array_equal(np.asarray(a).view(BITS[dtype]), np.asarray(b).view(BITS[dtype]))


def special_states(dtype, count=23, seed=0):
    """Ordinary numbers, tiny and huge ones, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 5)) * 10.0 ** rng.integers(-3, 4, size=(count, 5))
    x[3], x[5, 2], x[6, 1], x[7, 0], x[8, 3], x[9, 4] = 0.0, np.nan, np.inf, -np.inf, -0.0, 1e-310
    return x.astype(dtype)


def canonical(values, dtype):
    values = np.asarray(values, dtype=dtype)
    return np.where(np.isnan(values), dtype(np.nan), values)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(code=codes(), width=st.sampled_from([1, 2, 4, 8, 16]), level=st.integers(0, 3))
def test_every_width_gives_the_bits_of_the_interpreter(dtype, code, width, level):
    program, x = program_of(code), special_states(dtype)
    expected = canonical([interpret(program, {"x": row}, dtype)["y"] for row in x], dtype)
    f = compiled(program, dtype, width=width, level=level)
    same_bits(f(x), expected, dtype)
    same_bits(f(x[5]), expected[5], dtype)


@given(code=codes(longest=15))
def test_the_interpreter_agrees_with_evaluate(code):
    x = [0.5, -1.25, 3.0, 0.1, 7.0]
    try:
        expected = evaluate(code, x)
    except (ZeroDivisionError, OverflowError):
        return
    found = interpret(program_of(code), {"x": x})["y"]
    np.testing.assert_array_equal(found, np.array(expected, dtype=float))


def test_a_cpu_without_fma_gives_the_same_bits():
    trace = Trace()
    x = trace.inputs(3)
    program = straight_program(
        "f", finish(trace, [x[0] * x[1] + x[2], x[0].sin() * x[1].cos() - x[2]]),
        [Buffer("x", "input", (3,))], [Buffer("y", "output", (2,))],
    )  # fmt: skip
    states = np.random.default_rng(0).normal(size=(20, 3))
    plain = jit.Machine(jit.host().triple, "", "")
    assert plain.width(8) == 2
    for dtype in (np.float64, np.float32):
        expected = compiled(program, dtype)(states.astype(dtype))
        same_bits(compiled(program, dtype, machine=plain)(states.astype(dtype)), expected, dtype)


@pytest.mark.parametrize(
    ("features", "width"),
    [
        ("+avx512f,+avx512dq,+avx512vl,+avx2", 8),
        ("+avx512f,-avx512dq,+avx512vl,+avx2", 4),
        ("+avx2,+fma", 4),
        ("+sse2", 2),
        ("+neon", 2),
        ("", 2),
    ],
)
def test_lanes_follow_the_features_of_the_cpu(features, width):
    machine = jit.Machine("x86_64", "", features)
    assert (machine.width(8), machine.width(4)) == (width, 2 * width)


@pytest.mark.parametrize(("numbers", "lanes"), [(100_000, 8), (200_000, 4), (1_500_000, 2), (3_000_000, 1)])
def test_large_work_space_gets_fewer_lanes(numbers, lanes):
    """64-byte vectors are halved where the work space of all lanes leaves the caches, all where it is too large."""
    trace = Trace()
    plain = straight_program(
        "f", finish(trace, [trace.input()]), [Buffer("x", "input", (1,))], [Buffer("y", "output", (1,))]
    )
    program = replace(plain, buffers=(*plain.buffers, Buffer("record", "work", (numbers,))))
    machine = jit.Machine("x86_64", "", "+avx512f,+avx512dq,+avx512vl,+avx2")
    assert Kernel(Recipe.of(program), Options(machine=machine), OFF).width == lanes
    narrow = Kernel(Recipe.of(program), Options(machine=jit.Machine("x86_64", "", "+avx2")), OFF)
    assert narrow.width == min(lanes, 4)  # shorter vectors are not halved before that


def test_only_whitelisted_intrinsics_can_be_emitted():
    writer = Writer(MachineLanes(4, "double"))
    with pytest.raises(KeyError):
        writer.intrinsic("sin", "%x")
    with pytest.raises(ValueError, match="operands"):
        writer.intrinsic("fma", "%x")
    assert set(INTRINSICS) == {"fma", "sqrt", "fabs"}


@given(code=codes())
def test_the_text_has_no_fast_math_and_no_foreign_call(code):
    text = numpy_loop(program_of(code), MachineLanes(8, "double"), "loop")
    assert not re.search(r"\b(fast|contract|reassoc|nnan|ninf|nsz|arcp|afn)\b", text)
    assert set(re.findall(r"@llvm\.(\w+)", text)) <= set(INTRINSICS)
    leaving = {f"leave8x{columns}" for columns in (2, 4, 8)}
    assert set(re.findall(r"call \w[^@]*@(\w+)", text)) <= {"llvm", "lane_offsets", "gather8", *leaving}


@pytest.mark.parametrize("real", ["double", "float"])
def test_constants_keep_their_bits(real):
    values = [0.1, -0.0, float("inf"), 1e-320, 3.5e38, float("nan"), 2.0**-149]
    dtype = np.float64 if real == "double" else np.float32
    program = program_of(Straight([], values))
    with np.errstate(over="ignore"):
        same_bits(compiled(program, dtype)(np.zeros(5, dtype)), np.array(values).astype(dtype), dtype)
    assert real_text(1.0, real) == "0x3FF0000000000000"


@given(
    st.integers(-(2**80), 2**80),
    st.integers(1, 2**40),
    st.sampled_from([np.float32, np.float64]),
)
def test_fractions_are_rounded_once(numerator, denominator, real):
    x = Fraction(numerator, denominator)
    y = round_fraction(x, real)
    for neighbour in (np.nextafter(y, real(np.inf)), np.nextafter(y, real(-np.inf))):
        assert abs(Fraction(float(y)) - x) <= abs(Fraction(float(neighbour)) - x)


def test_sines_deep_in_each_other_and_shared():
    trace = Trace()
    x = trace.input()
    y = x
    for _ in range(4):
        y = (y * 3).sin() + y.cos() * x.sin()
    f = compile_function(
        straight_program("f", finish(trace, [y]), [Buffer("x", "input", ())], [Buffer("y", "output", ())]),
        cache=OFF,
    )
    values = np.linspace(-3, 3, 21)
    expected = values
    for _ in range(4):
        expected = np.sin(expected * 3) + np.cos(expected) * np.sin(values)
    np.testing.assert_allclose(f(values), expected, rtol=1e-12, atol=1e-13)
