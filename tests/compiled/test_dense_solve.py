"""Linear systems inside a kernel, made of rows of blocks: against NumPy, whatever is zero in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, Loop, Program
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.dense_solve import DenseSolve, padded
from whippletree.compiler.rollout.step_space import BLOCK

BLOCKS = 5


def solve_program(n: int, supports: list[list[int]], ways: list[list[int]] | None = None) -> Program:
    """(rows B (blocks, 3, n), E likewise, right (n,)) → dy of (1 + Σ Bᵀ E) dy = right; ``ways``: of a tree."""
    space, width = WorkSpace(), padded(n)
    rows = [Buffer(name, "input", (BLOCKS, 3, n)) for name in ("rows", "factors")]
    given, found = Buffer("given", "input", (n,)), Buffer("found", "output", (n,))
    space.add(*rows, given, found)
    space.work(B=(BLOCKS, 3, width), E=(BLOCKS, 3, width))
    system = DenseSolve(space, n, supports, ways)

    def fill(x: Any) -> list[Any]:
        return [np.concatenate([x, np.zeros((*x.shape[:-1], width - n), dtype=int)], axis=-1)]

    copies = [
        traced_block(fill, [piece(source, BLOCK, None, None)], [space.at(name, BLOCK)])
        for source, name in zip(rows, ("B", "E"), strict=True)
    ]
    body = (
        Loop(BLOCK, BLOCKS, tuple(copies)),
        traced_block(fill, [piece(given)], [space.at("right")]),
        *system.identity(),
        Loop(BLOCK, BLOCKS, tuple(system.add())),
        *system.factor(),
        *system.solve(),
        traced_block(lambda dy: [dy[:n]], [space.at("dy")], [piece(found)]),
    )
    return space.program("dense solve", body)


def random_system(n: int, seed: int) -> tuple[list[list[int]], tuple[Any, Any, Any]]:
    """Rows that are zero but on some limbs, factors D B of matrices that are positive and not symmetric."""
    rng = np.random.default_rng(seed)
    supports = [sorted(rng.choice(n, size=rng.integers(1, n + 1), replace=False).tolist()) for _ in range(BLOCKS)]
    return supports, system_of(n, supports, rng)


def system_of(n: int, supports: list[list[int]], rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Rows with these supports, factors, and a right-hand side."""
    B, E = np.zeros((BLOCKS, 3, n)), np.zeros((BLOCKS, 3, n))
    for own, rows, factors in zip(supports, B, E, strict=True):
        rows[:, own] = rng.normal(size=(3, len(own)))
        rows[rng.integers(0, 3)] *= rng.integers(0, 2)  # a limit has one row, not three
        D = rng.normal(size=(3, 3))
        D = D @ D.T + 3 * (D - D.T)
        D[rng.integers(0, 3)] *= rng.integers(0, 2)  # a contact that slides gives in to its normal alone
        factors[:] = D @ rows
    return B, E, rng.normal(size=n)


@pytest.mark.parametrize("n", [1, 3, 4, 7, 23, 45])
def test_a_system_of_rows_is_solved(n: int) -> None:
    for seed in range(3):
        supports, (B, E, right) = random_system(n, seed)
        K = np.eye(n) + np.einsum("kir,kic->rc", B, E)
        solve = compile_function(solve_program(n, supports))
        found = solve(B, E, right)
        expected = np.linalg.solve(K, right)
        assert np.abs(found - expected).max() <= 1e-13 * np.linalg.cond(K) ** 2 * np.abs(expected).max()
        assert np.array_equal(solve(*[np.stack([x] * 9) for x in (B, E, right)]), np.stack([found] * 9))


@pytest.mark.parametrize("seed", range(3))
def test_machine_code_and_interpreter_have_the_same_bits(seed: int) -> None:
    supports, (B, E, right) = random_system(6 + 20 * seed, seed)
    program = solve_program(6 + 20 * seed, supports)
    told = interpret(program, {"rows": B, "factors": E, "given": right}, np.float64)["found"]
    assert np.array_equal(compile_function(program)(B, E, right), told)


WAYS = [[], [0], [0, 1], [0, 1, 2], [0, 1], [0, 1, 4], [0, 1, 4, 5], [0], [0, 7], [0, 7, 8], []]
"""Of three limbs on a trunk, and of a body by itself: the places before each place."""


@pytest.mark.parametrize("crossing", [0, 1, 3])
def test_systems_of_a_tree_are_solved_along_its_limbs(crossing: int) -> None:
    n = len(WAYS)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        tips = [rng.choice(n, size=1 + (block < crossing), replace=False).tolist() for block in range(BLOCKS)]
        supports = [sorted({i for tip in own for i in (tip, *WAYS[tip])}) for own in tips]
        B, E, right = system_of(n, supports, rng)
        pushes = rng.integers(0, 2, size=BLOCKS)  # whole limbs stay as they are
        E[pushes == 0] = 0
        K = np.eye(n) + np.einsum("kir,kic->rc", B, E)
        solve = compile_function(solve_program(n, supports, WAYS))
        expected = np.linalg.solve(K, right)
        found = solve(B, E, right)
        assert np.abs(found - expected).max() <= 1e-13 * np.linalg.cond(K) ** 2 * np.abs(expected).max()
        assert np.array_equal(solve(*[np.stack([x] * 9) for x in (B, E, right)]), np.stack([found] * 9))
