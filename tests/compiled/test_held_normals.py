"""Normals that push while overlaps are undone, found together: the conditions of the least displacement hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, Collect, Loop, PerLane, Program
from whippletree.compiler.program.check import check
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import Piece, piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_lists.contact_list_held import MOST_SEATS, HeldNormals
from whippletree.compiler.rollout.step_space import BLOCK

WIDTH, FINE = 24, 1e-12


def program(blocks: int) -> Program:
    """(rows (blocks, WIDTH), gaps (blocks,), guesses (blocks,), start (WIDTH,)) → z, whether it has been found."""
    space = WorkSpace()
    shapes = {"rows": (blocks, WIDTH), "gaps": (blocks,), "guesses": (blocks,), "start": (WIDTH,)}
    given = [Buffer(name, "input", shape) for name, shape in shapes.items()]
    results = [Buffer("moved", "output", (WIDTH,)), Buffer("found", "output", (1,))]
    space.add(*given, *results)
    space.work(normal=(blocks, WIDTH), gap=(blocks,), target=(blocks,), push=(blocks,), flag=(blocks,))
    space.work(z=(WIDTH,), even=(1,), fine=(1,))
    space.numbers_list("near", blocks)
    held = HeldNormals(space, WIDTH)
    enter = traced_block(
        lambda row, gap, guess: [row, [gap], [0], [guess], [1]],
        [piece(given[0], BLOCK, None), *[piece(b, BLOCK) for b in given[1:3]]],
        [space.at("normal", BLOCK), *space.each(("gap", "target", "push", "flag"), BLOCK)],
    )
    begin = traced_block(
        lambda z: [z, [-1], [FINE]], [piece(given[3])], [space.at("z"), space.at("even"), space.at("fine")]
    )
    alone = (
        Collect("near", BLOCK, blocks, space.address("flag", BLOCK)),
        *held.begin(),
        *held.statements("near", [Piece((), space.at("fine").addresses)], "even"),
    )
    end = traced_block(lambda z, even: [z, even], [space.at("z"), space.at("even")], [piece(b) for b in results])
    return space.program("held normals", (Loop(BLOCK, blocks, (enter,)), begin, PerLane(alone), end))


def arguments(blocks: int, seed: int) -> tuple[Any, ...]:
    """Rows of bodies that share what they rest on, some of which overlap, and a guess which of them push."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(blocks, WIDTH)) + rng.normal(size=WIDTH)
    gaps = 1e-6 * (rng.normal(size=blocks) - 0.5)
    return rows, gaps, (gaps < 0).astype(float), 1e-7 * rng.normal(size=WIDTH)


@pytest.mark.parametrize("blocks", [2, 5, 12, MOST_SEATS])
def test_what_overlaps_is_moved_apart_by_pushes_alone(blocks: int) -> None:
    function, solved = compile_function(program(blocks)), 0
    for seed in range(10):
        rows, gaps, _, start = given = arguments(blocks, seed)
        z, found = function(*given)
        if found[0] < 0:
            assert np.array_equal(z, start)
            continue
        solved += 1
        slack = gaps + rows @ z
        assert slack.min() >= -FINE
        pushing = slack <= FINE
        pushes, *_ = np.linalg.lstsq(rows[pushing].T, z - start, rcond=None)
        assert pushes.min(initial=0.0) >= -1e-12 * np.abs(pushes).max(initial=1.0)
        assert np.abs(rows[pushing].T @ pushes - (z - start)).max() <= 1e-12 * np.abs(z - start).max()
    assert solved >= 9


def test_normals_that_contradict_each_other_change_nothing() -> None:
    rows, gaps, guesses, start = arguments(2, 0)
    rows[1], gaps[:], guesses[:] = -rows[0], -1e-6, 1
    z, found = compile_function(program(2))(rows, gaps, guesses, start)
    assert found[0] < 0
    assert np.array_equal(z, start)


def test_more_normals_than_there_is_room_for_are_left_to_sweeps() -> None:
    given = arguments(MOST_SEATS + 3, 1)
    z, found = compile_function(program(MOST_SEATS + 3))(*given)
    assert found[0] < 0
    assert np.array_equal(z, given[3])


@pytest.mark.parametrize("blocks", [3, 12])
def test_states_of_a_batch_and_the_interpreter_have_the_same_bits(blocks: int) -> None:
    own = program(blocks)
    check(own)
    function = compile_function(own)
    cases = [arguments(blocks, seed) for seed in range(9)]
    alone = [function(*case) for case in cases]
    together = function(*[np.stack(parts) for parts in zip(*cases, strict=True)])
    for part, (z, found) in enumerate(alone):
        assert np.array_equal(together[0][part], z)
        assert np.array_equal(together[1][part], found)
    names = ("rows", "gaps", "guesses", "start")
    told = interpret(own, dict(zip(names, cases[0], strict=True)), np.float64)
    assert np.array_equal(told["moved"], alone[0][0])
