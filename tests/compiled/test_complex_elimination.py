"""Complex systems of a size that the call decides: numpy's answers, also where rows have to be exchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, Loop, Program
from whippletree.compiler.program.check import check
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.collocation.complex_elimination import ComplexElimination

COUNT = 4


def program() -> Program:
    """(matrices, right-hand sides) -> (solutions, doubt)."""
    space = WorkSpace()
    shapes: dict[str, Any] = {"A": ("n", "n", 2, COUNT), "b": ("n", 2, COUNT)}
    space.add(*[Buffer(name, "input", shape) for name, shape in shapes.items()])
    space.add(Buffer("x", "output", ("n", 2, COUNT)), Buffer("doubt", "output", (1,)))
    at = space.at
    systems = ComplexElimination(space, "n", COUNT)

    def copy(source: Any, target: Any) -> Any:
        return traced_block(lambda x: [x], [source], [target])

    body = [
        space.put(0, at("doubt")),
        Loop("i", "n", (Loop("j", "n", (copy(at("A", "i", "j"), at("W", "i", "j")),)),)),
        *systems.factor(),
        Loop("i", "n", (copy(at("b", "i"), at("right", "i")),)),
        *systems.solve(),
        Loop("i", "n", (copy(at("right", "i"), at("x", "i")),)),
    ]
    return space.program("systems", body)


def parts(x: Any) -> Any:
    """(count, n, ...) complex as (n, ..., 2, count)."""
    return np.moveaxis(np.stack([x.real, x.imag], axis=-1), 0, -1).copy()


def matrices(kind: str, n: int) -> Any:
    rng = np.random.default_rng(n)
    A = rng.normal(size=(COUNT, n, n)) + 1j * rng.normal(size=(COUNT, n, n))
    if kind == "no diagonal":
        A[:, range(n), range(n)] = 0
        A += 3 * np.eye(n)[rng.permutation(n)]
    if kind == "one without a diagonal":
        A[1, range(n), range(n)] = 0
    return A


@pytest.mark.parametrize("n", [1, 2, 7, 20])
@pytest.mark.parametrize("kind", ["any", "no diagonal", "one without a diagonal"])
def test_solutions_are_those_of_numpy(kind: str, n: int) -> None:
    A = matrices("any" if n == 1 else kind, n)
    b = np.random.default_rng(1).normal(size=(COUNT, n)) + 1j
    x, doubt = compile_function(program())(parts(A), parts(b))
    expected = parts(np.linalg.solve(A, b[..., None])[..., 0])
    condition = max(np.linalg.cond(a) for a in A)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-13 * condition * np.abs(expected).max())
    assert doubt[0] == 0


def test_machine_code_has_the_bits_of_the_interpreter() -> None:
    check(program())
    A, b = parts(matrices("no diagonal", 5)), parts(np.ones((COUNT, 5)) * (1 - 2j))
    found = interpret(program(), {"A": A, "b": b})
    x, _ = compile_function(program())(A, b)
    assert np.array_equal(x, found["x"])


def test_a_system_without_pivots_is_in_doubt() -> None:
    A = matrices("any", 6)
    A[2, :, 3] = 0
    assert compile_function(program())(parts(A), parts(np.ones((COUNT, 6)) + 0j))[1][0] == 1
