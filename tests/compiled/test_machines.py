"""Machine code for other CPUs than this one: older x86 generations run here with the same bits, AArch64 assembles."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree import functions
from whippletree.compiler.cpu.cpu_function import CompiledFunction, Wording
from whippletree.compiler.cpu.cpu_target import numpy_loop
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.ir import MachineLanes
from whippletree.compiler.llvm.kernel import Kernel, Options, Recipe
from whippletree.files.cache import CodeCache

GENERATIONS = {
    "SSE2": ("x86-64", "", 16),
    "AVX2": ("haswell", "+avx,+avx2,+fma", 32),
    "AVX-512": ("skylake-avx512", "+avx,+avx2,+fma,+avx512f,+avx512dq,+avx512vl", 64),
}
FUNCTIONS = ("forward_dynamics", "mass_matrix", "constraint_forces")
REALS = {np.float64: "double", np.float32: "float"}


def missing(features):
    have = jit.host().features.split(",")
    return [f for f in features.split(",") if f and f not in have]


def results(program, dtype, arrays, machine):
    kernel = Kernel(Recipe.of(program), Options(REALS[dtype], machine=machine), CodeCache(None))
    return CompiledFunction(kernel, 1, Wording())(*arrays)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", list(REALS))
@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_every_generation_gives_the_bits_of_this_machine(generation, dtype):
    cpu, features, wide = GENERATIONS[generation]
    host = jit.host()
    if not host.triple.startswith("x86_64"):
        pytest.skip(f"this machine is {host.triple}: x86 code does not run here")
    if missing(features):
        pytest.skip(f"this CPU has no {', '.join(missing(features))}: {generation} code does not run here")
    machine = jit.Machine(host.triple, cpu, features)
    assert machine.vector_bytes == wide
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8), masses=(1.0, 1.0, 0.0))
    rng = np.random.default_rng(0)
    for name in FUNCTIONS:
        entry = functions.find(name, model)
        arrays = [(model.home.q + 0.1 * rng.normal(size=(37, 3))).astype(dtype) for _ in entry.inputs]
        program = unrolled_program(model, entry)
        here, there = results(program, dtype, arrays, host), results(program, dtype, arrays, machine)
        assert here.tobytes() == there.tobytes(), name


@pytest.mark.parametrize("real", list(REALS.values()))
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_aarch64_can_select_every_instruction_that_is_emitted(real, lanes):
    binding = jit.llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    arm = jit.Machine("aarch64-unknown-linux-gnu", "generic", "+neon")
    assert arm.vector_bytes == 16
    model = wt.mechanisms.four_bar()
    for name in FUNCTIONS:
        text = numpy_loop(unrolled_program(model, functions.find(name, model)), MachineLanes(lanes, real), "f")
        assert jit.object_code(text, arm)[:4] == b"\x7fELF"
