"""Results of many lanes leave as tiles: in any order of arithmetic, to arrays of any strides, and to nowhere else."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulated_cuda import install, on_device
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cpu.cpu_target import numpy_loop
from whippletree.compiler.cuda import listed_matrices
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.cuda.ptx_memory import LISTED
from whippletree.compiler.cuda.ptx_target import kernel_ir
from whippletree.compiler.llvm import copied_results
from whippletree.compiler.llvm.ir import MachineLanes
from whippletree.compiler.program import Buffer, Loop, Program, straight_program
from whippletree.compiler.program.traced_blocks import piece, traced_block
from whippletree.files.cache import CodeCache

SENTINEL = 77.0


def products(rows, columns, order, constants):
    """The program y = a bᵀ, its entries traced in that order, some of them constants, equal ones side by side."""
    trace = Trace()
    a, b = trace.inputs(rows), trace.inputs(columns)
    y = np.empty((rows, columns), dtype=object)
    for place in order:
        i, j = divmod(place, columns)
        y[i, j] = float(place // 5) if place in constants else a[i] * b[j]
    inputs = [Buffer("a", "input", (rows,)), Buffer("b", "input", (columns,))]
    return straight_program("products", finish(trace, list(y.ravel())), inputs, [Buffer("y", "output", y.shape)])


def unfriendly(shape, layout, dtype):
    """An array of that shape within a larger one, which is returned too."""
    batch, rows, columns = shape
    match layout:
        case "plain":
            whole = np.full((batch, rows + 2, columns + 3), SENTINEL, dtype)
            return whole, whole[:, 1:-1, 2:-1]
        case "spread":
            whole = np.full((batch, rows, 3 * columns), SENTINEL, dtype)
            return whole, whole[:, :, ::3]
        case "backwards":
            whole = np.full((batch, rows, columns + 1), SENTINEL, dtype)
            return whole, whole[::-1, ::-1, :0:-1]
        case _:
            whole = np.full((columns, rows, batch + 1), SENTINEL, dtype)
            return whole, whole[:, :, :batch].T


CASES = {
    "rows": st.integers(1, 7),
    "columns": st.integers(2, 19),
    "batch": st.integers(1, 19),
    "width": st.sampled_from([1, 2, 4, 8, 16]),
    "dtype": st.sampled_from([np.float64, np.float32]),
    "layout": st.sampled_from(["plain", "spread", "backwards", "transposed"]),
}
"""Sizes of results and of batches, lanes, and where arrays lie."""


@settings(max_examples=25)
@given(**CASES, data=st.data())
def test_every_result_arrives_and_nothing_else_is_touched(rows, columns, batch, width, dtype, layout, data):
    order = data.draw(st.permutations(range(rows * columns)))
    constants = data.draw(st.sets(st.sampled_from(range(rows * columns))))
    bad = data.draw(st.none() | st.integers(0, batch - 1))
    rng = np.random.default_rng(rows * columns)
    a, b = rng.normal(size=(batch, rows)).astype(dtype), rng.normal(size=(batch, columns)).astype(dtype)
    if bad is not None:
        a[bad, 0] = -np.nan
    expected = a[:, :, None] * b[:, None, :]
    expected.reshape(batch, -1)[:, sorted(constants)] = [place // 5 for place in sorted(constants)]
    whole, out = unfriendly(expected.shape, layout, dtype)
    compile_function(
        products(rows, columns, order, constants), dtype=dtype, width=width, threads=1, cache=CodeCache(None)
    )(a, b, out=out)
    np.testing.assert_array_equal(out, expected)
    # one pattern for every NaN, whatever its sign was
    assert not np.signbit(out[np.isnan(out)]).any()
    out[...] = SENTINEL
    assert (whole == SENTINEL).all()


@pytest.mark.parametrize("rows", [2, 3, 5, 10, 11, 21, 22, 32, 33, 43, 64, 75])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_copied_whole_and_nothing_behind_them(rows, dtype):
    """Work space to a result in a loop: numbers in groups, vectors and a last vector that moves back."""
    x, y, kept = Buffer("x", "input", (rows, 3)), Buffer("y", "output", (rows, 3)), Buffer("w", "work", (rows, 3))
    enter, leave = (
        Loop("i", rows, (traced_block(lambda own: [own], [piece(a, "i", None)], [piece(b, "i", None)]),))
        for a, b in ((x, kept), (kept, y))
    )
    f = compile_function(Program("rows", (x, y, kept), (enter, leave)), dtype=dtype, threads=1, cache=CodeCache(None))
    given = np.arange(3.0 * rows, dtype=dtype).reshape(rows, 3)
    for bad in range(3 * rows):
        wanted = given.copy()
        wanted.flat[bad] = -np.nan
        whole = np.full((rows + 2, 3), SENTINEL, dtype)
        f(wanted, out=whole[1:-1])
        np.testing.assert_array_equal(whole[1:-1], wanted)
        assert not np.signbit(whole[1:-1].flat[bad])
        assert (whole[[0, -1]] == SENTINEL).all()


def copied_products(rows, columns, sources, negative):
    """The products a bᵀ in work space, and a block that copies one of them, or its negative, to each place of y."""
    a, b, y = Buffer("a", "input", (rows,)), Buffer("b", "input", (columns,)), Buffer("y", "output", (rows, columns))
    work = Buffer("w", "work", (rows * columns,))
    whole = [piece(a, None), piece(b, None)]
    compute = traced_block(lambda a, b: [np.multiply.outer(a, b).ravel()], whole, [piece(work, None)])
    signs = np.where(negative, -1, 1)
    copy = traced_block(
        lambda w: [(w[sources] * signs).reshape(rows, columns)], [piece(work, None)], [piece(y, None, None)]
    )
    return Program("copied products", (a, b, y, work), (compute, copy))


@settings(max_examples=25)
@given(**CASES, data=st.data())
def test_listed_results_arrive_with_their_signs(rows, columns, batch, width, dtype, layout, data):
    size = rows * columns
    sources = data.draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size))
    negative = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    rng = np.random.default_rng(size)
    a, b = rng.normal(size=(batch, rows)).astype(dtype), rng.normal(size=(batch, columns)).astype(dtype)
    a[0, 0], b[-1, 0] = 0, -np.nan
    expected = (a[:, :, None] * b[:, None, :]).reshape(batch, -1)[:, sources] * np.where(negative, -1, 1).astype(dtype)
    expected = np.where(np.isnan(expected), np.array(np.nan, dtype), expected).reshape(batch, rows, columns)
    program = copied_products(rows, columns, sources, negative)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copied_results, "FEWEST_LISTED", 0)
        f = compile_function(program, dtype=dtype, width=width, threads=1, cache=CodeCache(None))
        assert "constant [" in numpy_loop(program, MachineLanes(width, "double"), "loop")
        assert f(a, b).tobytes() == expected.tobytes()
        alone = np.stack([f(*one) for one in zip(a, b, strict=True)])
        assert alone.tobytes() == expected.tobytes()
        whole, out = unfriendly(expected.shape, layout, dtype)
        f(a, b, out=out)
    assert np.ascontiguousarray(out).tobytes() == expected.tobytes()
    out[...] = SENTINEL
    assert (whole == SENTINEL).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_tiles_leave_in_the_order_of_their_addresses(reverse):
    rows, columns = 6, 16
    order = range(rows * columns)
    text = numpy_loop(products(rows, columns, order[::-1] if reverse else order, ()), MachineLanes(8, "double"), "loop")
    body = text[: text.index("define internal void @leave8x8")]
    calls = [m.start() for m in re.finditer(r"call void @leave8x8\(", body)]
    last = body.rindex(" = fmul <8 x double>")
    assert len(calls) == 2 * rows
    # rows that are complete in order leave on the way; if the first one is complete last, all wait for it
    assert sum(call < last for call in calls) == (0 if reverse else 2 * rows - 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_rows_that_are_copied_go_where_they_belong(rows, dtype):
    """A loop that only copies rows to a result: one row where that has no gaps, row by row elsewhere."""
    x, y, w = (Buffer(name, role, (rows, 3)) for name, role in (("x", "input"), ("y", "output"), ("w", "work")))
    double = traced_block(lambda x: [x + x], [piece(x, "i", None)], [piece(w, "i", None)])
    copy = traced_block(lambda w: [w], [piece(w, "i", None)], [piece(y, "i", None)])
    program = Program("copies", (x, y, w), (Loop("i", rows, (double,)), Loop("i", rows, (copy,))))
    f = compile_function(program, dtype=dtype, threads=1, cache=CodeCache(None))
    given = np.random.default_rng(0).normal(size=(3, rows, 3)).astype(dtype)
    given[1, 0, 1], given[2, -1, 2] = np.nan, np.copysign(np.nan, -1.0)
    expected = np.where(np.isnan(given), np.array(np.nan, dtype), given + given)
    for one, wanted in zip(given, expected, strict=True):
        assert f(one).tobytes() == wanted.tobytes()
        whole = np.full((rows, 7), SENTINEL, dtype)
        for part in (whole[:, 1:4], whole[:, :6:2], np.full((3, rows), SENTINEL, dtype).T):
            whole[:] = SENTINEL
            f(one, out=part)
            assert np.ascontiguousarray(part).tobytes() == wanted.tobytes()
            part[:] = SENTINEL
            assert (whole == SENTINEL).all()
    assert f(given).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [False, True])
def test_listed_results_arrive_on_a_gpu_with_their_signs(monkeypatch, columns, dtype):
    """Rows longer and shorter than what one pass carries, NaN of either sign, entries of two bytes and of four."""
    install(monkeypatch)
    monkeypatch.setattr(copied_results, "FEWEST_LISTED", 0)
    rng = np.random.default_rng(3)
    for rows, width, short in ((5, 19, 1 << 15), (1, 3, 1 << 15), (3, 16, 0)):
        monkeypatch.setattr(listed_matrices, "SHORT_ENTRIES", short)
        size, batch = rows * width, 37
        sources, negative = list(rng.integers(0, size, size)), list(rng.random(size) < 0.5)
        a, b = rng.normal(size=(batch, rows)).astype(dtype), rng.normal(size=(batch, width)).astype(dtype)
        a[0, 0], a[1, 0], b[-1, 0] = 0, np.nan, -np.nan
        products = (a[:, :, None] * b[:, None, :]).reshape(batch, -1)[:, sources]
        expected = products * np.where(negative, -1, 1).astype(dtype)
        expected = np.where(np.isnan(expected), np.array(np.nan, dtype), expected).reshape(batch, rows, width)
        program = copied_products(rows, width, sources, negative)
        assert f"@{LISTED}0 = " in kernel_ir(program, "double")
        f = compile_for_cuda(program, dtype=dtype, cache=CodeCache(None))
        out = on_device(np.full(expected.shape, SENTINEL, dtype), core=2, columns=columns)
        f(on_device(a, columns=columns), on_device(b, columns=columns), out=out)
        assert out.numpy().tobytes() == expected.tobytes()
