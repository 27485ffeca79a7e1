"""A humanoid on two feet: constrained dynamics of the G1 with two 6-D contacts, for :mod:`benchmarks.gpu`."""

from __future__ import annotations

from collections.abc import Iterator

import whippletree as wt
from benchmarks.contacts import STANCES, standing
from benchmarks.gpu_measure import GIGA, arrays_of, batch_for, equality, rate
from benchmarks.robots import ROBOTS, States, states
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.functions import find
from whippletree.tree.skeleton import skeleton

FLOOR = 0.4
"""What must be reached, in thousand million states per second, in float32 on an H200."""

CHECKED = 4099
"""States whose bits are compared: no multiple of anything."""


def contacts() -> Iterator[str]:
    """Bits against the CPU, then rates in both layouts."""
    robot = next(r for r in ROBOTS if r.name == "G1")
    model = standing(robot)
    program = unrolled_program(model, find("forward_dynamics", model))
    batch = batch_for(model)
    for dtype in ("float32", "float64"):
        name = f"{robot.name} on two 6-D contacts, forward dynamics {dtype}"
        yield f"{name}: {equality(program, standing_states(model, STANCES[robot.name][1], CHECKED), dtype)}"
        function = compile_for_cuda(program, dtype=dtype)
        for columns in (True, False):
            found = rate(function, arrays_of(program, model, batch, dtype, columns), batch) / GIGA
            asked = f" (asked: {FLOOR})" if dtype == "float32" else ""
            yield f"{name}, {'columns' if columns else 'rows'}: {found:.2f} G/s{asked}"


def standing_states(model: wt.Model, feet: tuple[str, ...], count: int) -> States:
    """Random states whose feet are where they are tied: joints that move a foot have one position in all of them.

    In a wholly random state a foot may be turned by half a turn against the ground. There the angles of a weld have no
    derivative, and within a third of a degree float32 takes its rows for dependent: one state of a thousand fails.
    """
    found, stance, tree = states(model, count, seed=1), states(model, 1).q[0], skeleton(model)
    for node in {i for foot in feet for i in tree.path(tree.place(foot).node)}:
        found.q[:, tree.q_slices[node]] = stance[tree.q_slices[node]]
    return found
