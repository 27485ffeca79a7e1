"""Operations on neighbours that a vector does at once: the bits of operations one by one, and where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whippletree.arithmetic.trace import Straight
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cpu.cpu_target import numpy_loop
from whippletree.compiler.llvm.ir import MachineLanes
from whippletree.compiler.llvm.packs import find_packs
from whippletree.compiler.program import Buffer, PerLane, Program
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import piece, traced_block
from whippletree.compiler.rollout.dense_solve import multiply_in_strands


def program(n: int) -> Program:
    """Rows times a vector, and rows that are added to it in place, with numbers that all of them share."""
    x, y = Buffer("x", "input", (4, n)), Buffer("y", "output", (n + 3,))
    rows, sums, total = Buffer("rows", "work", (3, n)), Buffer("sums", "work", (3,)), Buffer("total", "work", (n,))
    table = Buffer("scale", "table", (n,), np.linspace(0.5, 2, n))

    def work(a: Any, t: Any, scale: Any) -> list[Any]:
        found = multiply_in_strands(a, t)
        return [found, (t - a.T @ found * scale) / (abs(found[0]) + 1)]

    return Program("packs", (x, y, rows, sums, total, table), (
        traced_block(lambda x: [x[:3], x[3]], [piece(x)], [piece(rows), piece(total)]),
        PerLane((traced_block(work, [piece(rows), piece(total), piece(table)], [piece(sums), piece(total)]),)),
        traced_block(lambda s, t: [np.concatenate([s, t])], [piece(sums), piece(total)], [piece(y)]),
    ))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [3, 8, 11, 14])
def test_packs_have_the_bits_of_operations_one_by_one(n: int, dtype: Any) -> None:
    x = np.random.default_rng(n).normal(size=(9, 4, n)).astype(dtype)
    f = compile_function(program(n), dtype=dtype)
    expected = np.stack([interpret(program(n), {"x": one}, dtype)["y"] for one in x])
    assert np.array_equal(np.stack([f(one) for one in x]), expected)
    assert np.array_equal(f(x), expected)


@pytest.mark.parametrize(("n", "some"), [(3, False), (14, True)])
def test_rows_long_enough_are_computed_by_vectors(n: int, some: bool) -> None:
    text = numpy_loop(program(n), MachineLanes(1, "double"), "f")
    assert ("@llvm.fma.v4f64(<4 x double> %" in text) == some


def test_packs_that_cost_more_than_they_save_are_left() -> None:
    # four products of neighbours, each needed by itself
    nodes: list[Any] = [("input", i) for i in range(8)] + [("mul", i, i + 4) for i in range(4)]
    places = {i: (("a" if i < 4 else "b",), i % 4) for i in range(8)}
    apart = Straight([*nodes, *[("sqrt", 8 + i) for i in range(4)], ("add", 12, 13), ("add", 14, 15)], [16, 17])
    alone = Straight([*nodes, ("add", 8, 9), ("add", 10, 11)], [12, 13])
    assert find_packs(alone, places, [None] * 2) is None
    found = find_packs(apart, places, [None] * 2)
    assert found is not None
    assert found.of_node.keys() == set(range(8, 16))
    assert found.single == set(range(12, 16))
