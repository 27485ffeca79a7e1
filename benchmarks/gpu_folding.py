"""Limbs that are alike as loops on a GPU, beside the same operations unrolled, for :mod:`benchmarks.gpu`.

To decide which functions :mod:`whippletree.compiler.frontend.code_forms` folds for GPUs: loops have about 0.6 of the
bytes, and must have the same bits and be as fast.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import get_args

from benchmarks.contacts import STANCES
from benchmarks.folding import model_named
from benchmarks.gpu_contacts import CHECKED, standing_states
from benchmarks.gpu_measure import GIGA, arrays_of, batch_for, different_bits, rate
from benchmarks.robots import States, states
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda import driver, ptx_target
from whippletree.compiler.cuda.cuda_function import CudaFunction, compile_for_cuda
from whippletree.compiler.cuda.thread_pairs import pair_program
from whippletree.compiler.frontend.unrolled import Folds, unrolled_program
from whippletree.compiler.named_function import as_tuple
from whippletree.compiler.program import Program
from whippletree.files.cache import CodeCache
from whippletree.functions import find
from whippletree.model import Model

CASES = ("solo12", "G1", "Talos", "G1 on two feet")
FUNCTIONS = ("forward_dynamics", "inverse_dynamics", "inverse_dynamics_derivatives")
FEW = 1 << 17
"""States of a batch whose results are matrices: those of a humanoid in float64 are 4 GB."""


def folding(words: list[str]) -> Iterator[str]:
    """For every robot, function and dtype: one line for unrolled code, one for loops, and some for pairs of threads.

    ``words``: robots, functions, dtypes and ways to write limbs (``copies``, ``loops``, ``pairs``); of a sort that is
    not named, all.
    """

    def among(known: Sequence[str]) -> Sequence[str]:
        return [word for word in known if word in words] or known

    functions, dtypes = among(FUNCTIONS), among(("float32", "float64"))
    folds: Sequence[Folds] = [fold for fold in get_args(Folds) if fold in words] or get_args(Folds)
    others = {*FUNCTIONS, "float32", "float64", *get_args(Folds)}
    for case in [word for word in words if word not in others] or CASES:
        model = model_named(case)
        given = states(model, CHECKED, seed=1)
        if "feet" in case:
            given = standing_states(model, STANCES[case.split()[0]][1], CHECKED)
        for name in functions if not model.constraints else FUNCTIONS[:1]:
            for dtype in dtypes:
                for fold in folds:
                    # thousands of results are a line each for pairs
                    if fold != "pairs" or name != FUNCTIONS[-1]:
                        yield f"{case}, {name} {dtype}, {fold}: {_measured(model, name, fold, dtype, given)}"


def _measured(model: Model, name: str, fold: Folds, dtype: str, given: States) -> str:
    start = time.process_time()
    program = unrolled_program(model, find(name, model), fold=fold)
    if fold == "pairs" and pair_program(program) is None:
        return "no two limbs"
    # a cache of its own: what is written is read again when it is loaded, and known to no other run
    with tempfile.TemporaryDirectory() as folder:
        function = compile_for_cuda(program, dtype=dtype, cache=CodeCache(folder))
        size = len(function._kernel.image(ptx_target.architecture(driver.device(0).capability)))
        written = time.process_time() - start
        start = time.perf_counter()
        module = function._kernel.load(driver.device(0)).module
        loaded = time.perf_counter() - start
        matrices = any(len(buffer.shape) > 1 for buffer in program.of_role("output"))
        batch = FEW if matrices else batch_for(model)
        rates = [rate(function, arrays_of(program, model, batch, dtype, by), batch) / GIGA for by in (True, False)]
        bits = _bits(program, function, given, dtype)
    return (
        f"{bits}; PTX {size / 1000:.0f} kB, written in {written:.2f} s, assembled in {loaded:.2f} s; "
        f"columns {rates[0]:.3f} rows {rates[1]:.3f} G/s; "
        f"{module.attribute('registers')} registers, {module.attribute('local_bytes')} local bytes"
    )


def _bits(program: Program, function: CudaFunction, given: States, dtype: str) -> str:
    """Whether every bit is that of the same program on the CPU."""
    inputs = [x.astype(dtype) for x in list(given)[: len(program.of_role("input"))]]
    cpu = compile_function(program, dtype=dtype, threads=1)
    pairs = zip(as_tuple(function(*inputs)), as_tuple(cpu(*inputs)), strict=True)
    wrong = sum(different_bits(a, b) for a, b in pairs)
    return f"{wrong} numbers DIFFER" if wrong else "bits of the CPU"
