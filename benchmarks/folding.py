"""``python -m benchmarks.folding``: limbs that are alike compiled once, beside the same operations unrolled.

For every robot and function: operations written, seconds of processor time from the model to machine code of both
variants (one state, and a vector of states, at a time), bytes of object code, time per call of a batch and of one
state, and whether the bits are equal. Both have the same arithmetic (:mod:`whippletree.compiler.program.folding`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.contacts import standing
from benchmarks.robots import ROBOTS, model_of, states
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cpu.cpu_target import numpy_loop
from whippletree.compiler.frontend.unrolled import Folds, unrolled_program
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.ir import MachineLanes
from whippletree.compiler.llvm.kernel import LOOP_SYMBOL
from whippletree.compiler.program import Program, every_block
from whippletree.functions import find
from whippletree.model import Model

CASES = ("solo12", "G1", "Talos", "G1 on two feet")
FUNCTIONS = ("forward_dynamics", "inverse_dynamics", "inverse_dynamics_derivatives", "forward_dynamics_derivatives")
BATCH = 1024


def model_named(name: str) -> Model:
    """A robot on a free base, or the G1 with two 6-D contacts."""
    robot = next(r for r in ROBOTS if r.name == name.split()[0])
    return standing(robot) if "feet" in name else model_of(robot)


def compiled(case: str, function: str, fold: Folds | None) -> tuple[Program, float, int]:
    """The program, seconds of processor time until both variants are machine code, and their bytes."""
    model = model_named(case)  # anew: what one compilation has found out is not known to the next
    start = time.process_time()
    program = unrolled_program(model, find(function, model), fold=fold)
    machine, size = jit.host(), 0
    for width in (1, machine.width(8)):
        text = numpy_loop(program, MachineLanes(width, "double"), LOOP_SYMBOL)
        size += len(jit.object_code(text, machine, statements=len(program.body)))
    return program, time.process_time() - start, size


def times(functions: list[Any], inputs: list[np.ndarray], rounds: int, **out: Any) -> np.ndarray:
    """Microseconds of a state, the least of several rounds in turns.

    Batches go into arrays that are there (``out``): fresh memory for matrices can cost as much as their numbers.
    """
    found = np.full((rounds, len(functions)), np.inf)
    for turn in range(rounds):
        for k, function in enumerate(functions):
            start = time.process_time()
            function(*inputs, **out)
            found[turn, k] = time.process_time() - start
    return 1e6 * found.min(axis=0) / max(1, len(inputs[0]) if inputs[0].ndim > 1 else 1)


def as_tuple(results: Any) -> tuple[np.ndarray, ...]:
    """The results of a function, one or several."""
    return results if isinstance(results, tuple) else (results,)


def rows(cases: tuple[str, ...], functions: tuple[str, ...], rounds: int, compilations: int) -> Iterator[str]:
    yield "robot, function: operations, seconds to compile, kB, µs of a state in a batch and alone; bits"
    for case in cases:
        model = model_named(case)
        for name in functions:
            turns = [[compiled(case, name, fold) for fold in (None, "loops")] for _ in range(compilations)]
            made = [min(turn, key=lambda found: found[1]) for turn in zip(*turns, strict=True)]
            programs = [made[0][0], unrolled_program(model, find(name, model), fold="copies"), made[1][0]]
            if len(programs[-1].body) == 1:
                yield f"{case}, {name}: not folded"
                continue
            sample = states(model, BATCH)
            numbers = {"q": sample.q, "v": sample.v, "tau": sample.tau, "a": sample.tau}
            inputs = [numbers.get(b.name, np.ones((BATCH, *b.shape))) for b in programs[0].of_role("input")]
            calls = [compile_function(program, threads=1) for program in programs]
            arrays = [call(*inputs) for call in calls[1:]]
            results = [b"".join(x.tobytes() for x in as_tuple(found)) for found in arrays]
            batch = times([calls[0], calls[2]], inputs, rounds, out=arrays[0])
            single = times([calls[0], calls[2]], [x[0] for x in inputs], 20 * rounds)
            counts = [sum(b.code.operations for b in every_block(p.body)) for p in (programs[0], programs[2])]
            pairs = [counts, [m[1] for m in made], [m[2] / 1000 for m in made], batch, single]
            text = [f"{a:.4g} {b:.4g} ({b / a:.2f})" for a, b in pairs]
            yield f"{case}, {name}: " + "; ".join(text) + f"; {'equal' if results[0] == results[1] else 'different'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--functions", nargs="*", default=list(FUNCTIONS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--compilations", type=int, default=3, help="of each, in turns; the shortest counts")
    given = parser.parse_args()
    for line in rows(tuple(given.cases), tuple(given.functions), given.rounds, given.compilations):
        print(line, flush=True)


if __name__ == "__main__":
    main()
