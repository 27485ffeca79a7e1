"""``make bench-gpu``: rates on one GPU, beside its two ceilings (measured copy bandwidth and arithmetic).

python -m benchmarks.gpu smoke       correct to the bit? and first rates; a minute
python -m benchmarks.gpu variants    block sizes, register limits and layouts of the heavy kernels
python -m benchmarks.gpu contacts    constrained dynamics of a humanoid
python -m benchmarks.gpu derivatives of forward dynamics of humanoids: kernels in parts; minutes, for their assembly
python -m benchmarks.gpu folding     limbs that are alike as loops or on threads, beside unrolled code
python -m benchmarks.gpu rollout     whole trajectories
python -m benchmarks.gpu peers       frax and MuJoCo MJX, where they are installed
python -m benchmarks.gpu             the whole table
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.gpu_contacts import contacts
from benchmarks.gpu_folding import folding
from benchmarks.gpu_measure import (
    GIGA,
    arithmetic,
    arrays_of,
    batch_for,
    copy_bandwidth,
    device_array,
    equality,
    rate,
    seconds,
)
from benchmarks.gpu_peers import peers
from benchmarks.robots import ROBOTS, Robot, model_of, states
from whippletree.compiler.cuda import driver
from whippletree.compiler.cuda.cuda_arrays import DeviceArray
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.cuda.tuning import Form
from whippletree.compiler.frontend.code_forms import Request, catalogue_program
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.program import Program
from whippletree.compiler.rollout.rollout import rollout_program
from whippletree.files.cache import default_cache
from whippletree.functions import find

NAMES = ("UR5", "Panda", "G1", "Talos")
FLOORS = {
    ("forward_dynamics", "UR5"): 13.0, ("forward_dynamics", "Panda"): 8.0, ("forward_dynamics", "G1"): 1.5,
    ("forward_dynamics", "Talos"): 1.0, ("inverse_dynamics", "Panda"): 12.0, ("inverse_dynamics", "G1"): 2.5,
}  # fmt: skip
"""What must be reached, in thousand million states per second, in float32 on an H200."""


def robots() -> list[Robot]:
    """The robots of the table."""
    return [r for r in ROBOTS if r.name in NAMES]


# ---- what is measured ------------------------------------------------------------------------------------------------


def smoke() -> Iterator[str]:
    """Bits against the CPU on odd batches, then a rate in both layouts."""
    for robot in robots():
        model = model_of(robot)
        odd = states(model, 4099, seed=1)
        odd.q[::97] *= 1e6  # far arguments of sine and cosine too
        for name in ("forward_dynamics", "inverse_dynamics"):
            program = unrolled_program(model, find(name, model))
            for dtype in ("float32", "float64"):
                yield f"{robot.name} {name} {dtype}: {equality(program, odd, dtype)}"
        program = unrolled_program(model, find("forward_dynamics", model))
        function, batch = compile_for_cuda(program, dtype="float32"), batch_for(model)
        for columns in (True, False):
            found = rate(function, arrays_of(program, model, batch, "float32", columns), batch) / GIGA
            yield f"{robot.name} forward dynamics float32, {'columns' if columns else 'rows'}: {found:.2f} G/s"


def table(peaks: dict[str, float], bandwidth: float) -> Iterator[dict[str, Any]]:
    """Rates of single evaluations."""
    for robot in robots():
        model = model_of(robot)
        for name in ("forward_dynamics", "inverse_dynamics"):
            wanted = find(name, model)
            operations = unrolled_program(model, wanted).body[0].code.operations  # type: ignore[union-attr]
            for dtype in ("float32", "float64"):
                program = catalogue_program(Request(model, wanted, on_cpu=False, dtype=dtype))
                function, batch = compile_for_cuda(program, dtype=dtype), batch_for(model)
                for columns in (True, False):
                    inputs = arrays_of(program, model, batch, dtype, columns)
                    found = rate(function, inputs, batch)
                    moved = (3 * model.nv + model.nq) * np.dtype(dtype).itemsize
                    yield {
                        "robot": robot.name, "function": name, "dtype": dtype,
                        "layout": "columns" if columns else "rows", "rate": found,
                        "arithmetic": found * operations / peaks[dtype], "bandwidth": found * moved / bandwidth,
                        "floor": FLOORS.get((name, robot.name)) if dtype == "float32" else None,
                    }  # fmt: skip


def derivatives(batch: int = 1 << 17) -> Iterator[str]:
    """Rates of the longest kernels."""
    for robot in robots():
        if robot.kind != "humanoid":
            continue
        model = model_of(robot)
        program = unrolled_program(model, find("forward_dynamics_derivatives", model))
        for dtype in ("float32", "float64"):
            function = compile_for_cuda(program, dtype=dtype)
            found = rate(function, arrays_of(program, model, batch, dtype, True), batch) / GIGA
            yield f"{robot.name} derivatives of forward dynamics {dtype}, columns: {found:.3f} G/s"


def beside(ours: dict[str, float]) -> Iterator[str]:
    """The peers' forward dynamics in float32, and how many times faster ours is."""
    for peer in peers():
        if peer.reason:
            yield f"{peer.library} {peer.robot}: not measured, {peer.reason}"
            continue
        times = f", ours {ours[peer.robot] / peer.rate:.0f}×" if peer.robot in ours else ""
        yield f"{peer.library} {peer.robot}: {peer.rate / GIGA:.4f} G/s{times}"


def rollout(steps: int = 1000, batch: int = 1 << 20) -> Iterator[str]:
    """Whole trajectories of the Panda against the rate of single evaluations."""
    model = model_of(next(r for r in ROBOTS if r.name == "Panda"))
    program = rollout_program(model, "semi_implicit_euler")
    single = unrolled_program(model, find("forward_dynamics", model))
    many = batch_for(model)
    alone = rate(compile_for_cuda(single, dtype="float32"), arrays_of(single, model, many, "float32", True), many)
    function = compile_for_cuda(program, dtype="float32")
    while True:
        try:
            few = states(model, 1 << 16)
            q, v = (device_array(np.tile(x.astype("f4"), (batch >> 16, 1)), True) for x in (few.q, few.v))
            # the same forces for all states: an array with one state is broadcast
            tau = device_array(np.zeros((1, steps, model.nv), "f4"), False)
            dt = device_array(np.full(batch, 1e-4, "f4"), False)
            out = function(q, v, tau, dt)
            break
        except wt.DeviceMemoryError as error:
            yield f"rollout: {error}; half the batch"
            batch //= 2
    found = batch * steps / seconds(lambda: function(q, v, tau, dt, out=out), 3, 1)
    share = f"{found / alone:.0%} of {alone / GIGA:.2f}"
    yield f"Panda rollout, {steps} steps of {batch}: {found / GIGA:.2f} G steps/s, {share}"


Job = tuple[str, str, str, Form]


def variants(names: list[str]) -> Iterator[str]:
    """Every form of the kernels, to choose from. Their texts are written by all cores at once, through the cache."""
    jobs: list[Job] = [
        (robot.name, name, dtype, form)
        for robot in robots()
        if not names or robot.name in names
        for name in ("forward_dynamics", "inverse_dynamics")
        for dtype in ("float32", "float64")
        for form in forms(robot, dtype)
    ]
    if default_cache().folder is not None:
        # spawned, not forked: CUDA does not survive a fork
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(_write, jobs))
    inputs: dict[Any, Any] = {}
    for job in jobs:
        robot, name, dtype, _ = job
        model, program = _program(robot, name)
        if (robot, dtype) not in inputs:
            inputs = {(robot, dtype): [arrays_of(program, model, batch_for(model), dtype, c) for c in (True, False)]}
        yield variant(job, inputs[robot, dtype], batch_for(model))


def forms(robot: Robot, dtype: str) -> list[Form]:
    """Candidates."""
    if robot.kind != "humanoid":
        return [Form(threads, registers) for threads in (64, 128, 256) for registers in (0, 96)]
    wide = dtype == "float64"
    sizes = [(64, 0, 220, 216), (128, 0, 220, 216), (128, 168, 135, 148), (64, 0, 220, 0)]
    return [Form(), *[Form(threads, most, keep >> wide, room >> wide) for threads, most, keep, room in sizes]]


@cache
def _program(robot: str, name: str) -> tuple[wt.Model, Program]:
    model = model_of(next(r for r in ROBOTS if r.name == robot))
    return model, unrolled_program(model, find(name, model))


def _write(job: Job) -> None:
    robot, name, dtype, form = job
    compile_for_cuda(_program(robot, name)[1], dtype=dtype, form=form)._kernel.image("sm_90")


def variant(job: Job, inputs: list[list[DeviceArray]], batch: int) -> str:
    """One line of the comparison."""
    robot, name, dtype, form = job
    function = compile_for_cuda(_program(robot, name)[1], dtype=dtype, form=form)
    started = time.perf_counter()
    module = function._kernel.load(driver.device(0)).module
    loading = time.perf_counter() - started
    found = [rate(function, few, batch) / GIGA for few in inputs]
    used = f"{module.attribute('registers'):3} registers {module.attribute('local_bytes'):5} local bytes"
    rates = f"columns {found[0]:6.2f} rows {found[1]:6.2f} G/s"
    return f"{robot:6}{name:18}{dtype:8} {form}: {rates}, {used}, loaded in {loading:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what",
        nargs="*",
        default=["table"],
        help="smoke, variants [robot ...], contacts, derivatives, folding [robot, function, dtype, copies, loops or "
        "pairs ...], rollout, peers or table",
    )
    what, *names = parser.parse_args().what
    try:
        device = driver.device(0)
    except wt.DeviceError as error:
        print(f"bench-gpu: nothing measured. {error}")
        return 0
    print(f"{device.name}, compute capability {device.capability}, {device.multiprocessors} multiprocessors")
    parts: dict[str, Callable[[], Iterator[str]]] = {
        "smoke": smoke, "variants": lambda: variants(names), "rollout": rollout, "contacts": contacts,
        "derivatives": derivatives, "folding": lambda: folding(names), "peers": lambda: beside({}),
    }  # fmt: skip
    if what in parts:
        for line in parts[what]():
            print(line, flush=True)
        return 0
    bandwidth, peaks = copy_bandwidth(), {d: arithmetic(d) for d in ("float32", "float64")}
    found = ", ".join(f"{d} {p / 1e12:.1f} T/s" for d, p in peaks.items())
    print(f"copy {bandwidth / 1e12:.2f} TB/s; fused multiply-adds {found}")
    rows = []
    for row in table(peaks, bandwidth):
        rows.append(row)
        floor = f" (asked: {row['floor']})" if row["floor"] else ""
        print(
            f"{row['robot']:6}{row['function']:18}{row['dtype']:9}{row['layout']:8}{row['rate'] / GIGA:7.2f} G/s, "
            f"arithmetic {row['arithmetic']:4.0%}, bandwidth {row['bandwidth']:4.0%}{floor}",
            flush=True,
        )
    ours = {r["robot"]: r["rate"] for r in rows if (r["function"], r["dtype"]) == ("forward_dynamics", "float32")}
    for line in (*contacts(), *rollout(), *beside(ours)):
        print(line, flush=True)
    if place := os.environ.get("OUT"):
        Path(place, "gpu.json").write_text(
            json.dumps({"device": device.name, "bandwidth": bandwidth, "peaks": peaks, "rows": rows}, indent=1)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
