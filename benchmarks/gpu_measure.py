"""Clocks, arrays, bits and the two ceilings of a GPU, for :mod:`benchmarks.gpu`."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.robots import States, states
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda import driver
from whippletree.compiler.cuda.cuda_arrays import DeviceArray, column_strides
from whippletree.compiler.cuda.cuda_function import CudaFunction, _Call, compile_for_cuda
from whippletree.compiler.program import Buffer, Program, straight_program

GIGA = 1e9


def seconds(work: Callable[[], Any], rounds: int = 7, together: int = 10) -> float:
    """Median seconds of one call by the device's own clock; several are queued, so that none waits for Python."""
    first, last = ctypes.c_void_p(), ctypes.c_void_p()
    work()
    times = []
    with driver.device(0).current():
        for event in (first, last):
            driver.call("cuEventCreate", ctypes.byref(event), 0)
        for _ in range(rounds):
            driver.call("cuEventRecord", first, ctypes.c_void_p(1))
            for _ in range(together):
                work()
            driver.call("cuEventRecord", last, ctypes.c_void_p(1))
            driver.call("cuEventSynchronize", last)
            elapsed = ctypes.c_float()
            driver.call("cuEventElapsedTime", ctypes.byref(elapsed), first, last)
            times.append(elapsed.value * 1e-3 / together)
    return statistics.median(times)


def device_array(values: np.ndarray, columns: bool) -> DeviceArray:
    """Numbers (batch, n) on the device, by rows or by columns."""
    strides = column_strides(values.shape, values.ndim - 1, values.itemsize) if columns else None
    made = DeviceArray(0, values.shape, values.dtype, strides)
    made.fill(values)
    return made


def arrays_of(program: Program, model: wt.Model, batch: int, dtype: str, columns: bool) -> list[DeviceArray]:
    """Inputs for a function of q, v and one more vector: 2¹⁶ random states, repeated."""
    few = min(batch, 1 << 16)
    s = states(model, few)
    found = [s.q, s.v, s.tau][: len(program.of_role("input"))]
    return [device_array(np.tile(x.astype(dtype), (-(-batch // few), 1))[:batch], columns) for x in found]


def rate(function: CudaFunction, inputs: list[DeviceArray], batch: int) -> float:
    """States per second of the kernel itself: every result has its memory before the clock starts, a status too."""
    shape, sizes = function._batch(inputs)
    call = _Call(function, function.inputs[0], inputs[0], None)
    views = [call.input(b, x) for b, x in zip(function._inputs, inputs, strict=True)]
    results, targets = call.outputs(None, shape, sizes, views)
    found = batch / seconds(lambda: function._launch(call, views, targets, shape, sizes))
    del results  # which own the memory that was written
    return found


def batch_for(model: wt.Model) -> int:
    """So many that the arrays are several times the cache and a launch takes a millisecond."""
    return 1 << (22 if model.nv < 12 else 20)


# ---- bits ------------------------------------------------------------------------------------------------------------


def equality(program: Program, given: States, dtype: str) -> str:
    """Compare every bit with the CPU's, NaN's too; states that failed are NaN on both and say nothing."""
    gpu, cpu = compile_for_cuda(program, dtype=dtype), compile_function(program, dtype=dtype, threads=1)
    inputs = [x.astype(dtype) for x in given]
    started = time.perf_counter()
    found = gpu(*inputs)
    elapsed = time.perf_counter() - started
    wrong = different_bits(found, cpu(*inputs))
    if cpu.status is not None:
        wrong += different_bits(gpu.status, cpu.status)
    failed = 0 if cpu.status is None else int(np.count_nonzero(cpu.status))
    module = gpu._kernel.load(driver.device(0), rows=True).module
    used = f"{module.attribute('registers')} registers, {module.attribute('local_bytes')} local bytes"
    bits = f"{wrong} of {found.size} numbers DIFFER" if wrong else "same bits"
    told = f" ({failed} of {len(inputs[0])} states failed)" if failed else ""
    return f"{bits}{told}; first call {elapsed:.2f} s, {used}"


def different_bits(a: np.ndarray, b: np.ndarray) -> int:
    """How many numbers of two arrays have other bits."""
    bits = np.dtype(f"u{a.itemsize}")
    return int((a.view(bits) != b.view(bits)).sum())


# ---- ceilings --------------------------------------------------------------------------------------------------------


def copy_bandwidth(size: int = 1 << 31) -> float:
    """Bytes per second, read and written, of a copy on the device."""
    a, b = (driver.DeviceMemory(driver.device(0), size, "a copy") for _ in range(2))

    def work() -> None:
        with driver.device(0).current():
            arguments = (
                ctypes.c_uint64(b.pointer),
                ctypes.c_uint64(a.pointer),
                ctypes.c_size_t(size),
                ctypes.c_void_p(1),
            )
            driver.call("cuMemcpyDtoDAsync_v2", *arguments)

    return 2 * size / seconds(work)


def arithmetic(dtype: str, chains: int = 8, length: int = 256, batch: int = 1 << 23) -> float:
    """Fused multiply-adds per second, independent enough to be issued back to back."""
    trace = Trace()
    x = trace.inputs(chains)
    values = list(x)
    for _ in range(length):
        values = [
            v * x[0] + x[1] for v in values
        ]  # operands that all share: fetching three registers takes twice as long
    code = finish(trace, values)
    program = straight_program("peak", code, [Buffer("x", "input", (chains,))], [Buffer("y", "output", (chains,))])
    data = device_array(np.random.default_rng(0).uniform(0.1, 0.2, (batch, chains)).astype(dtype), True)
    return code.operations * rate(compile_for_cuda(program, dtype=dtype), [data], batch)
