"""Exported functions, built by a C compiler and run without Python, give the same bits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt

COMPILER = shutil.which("cc") or shutil.which("gcc")


def run_example(folder: Path, numbers: np.ndarray) -> np.ndarray:
    assert COMPILER is not None
    objects = [str(path) for path in folder.glob("*.o")]
    build = [COMPILER, "-O2", "-Wall", "-Wextra", "-Werror", "example.c", *objects, "-o", "example", "-lm"]
    subprocess.run(build, cwd=folder, check=True)
    words = [repr(float(x)) for x in numbers]
    result = subprocess.run([str(folder / "example"), *words], capture_output=True, text=True, check=True)
    return np.array([float(line) for line in result.stdout.split()])


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on this machine")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_c_program_gets_the_same_bits(tmp_path: Path, dtype: type) -> None:
    model = wt.mechanisms.double_pendulum()
    dyn = wt.compile(model, dtype=dtype)
    written = dyn.export(tmp_path, ["forward_dynamics", "mass_matrix", f"jacobian:{model.bodies[-1].name}"])
    assert {path.suffix for path in written} == {".o", ".h", ".c"}
    q, v, tau = np.array([[0.3, -0.7], [1.0, 2.0], [0.5, 0.1]], dtype=dtype)
    printed = run_example(tmp_path, np.concatenate([q, v, tau]))
    assert np.array_equal(printed.astype(dtype), dyn.forward_dynamics(q, v, tau))


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on this machine")
def test_the_example_says_what_it_expects(tmp_path: Path) -> None:
    wt.compile(wt.mechanisms.pendulum()).export(tmp_path, ["forward_dynamics"])
    run_example(tmp_path, np.zeros(3))
    refused = subprocess.run([str(tmp_path / "example")], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "expected 3 numbers: q (1), v (1), tau (1)" in refused.stderr


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on this machine")
def test_a_loop_over_bodies_has_its_tables_with_it(tmp_path: Path) -> None:
    dyn = wt.compile(wt.mechanisms.chain(60))
    dyn.export(tmp_path, ["forward_dynamics"])
    q, v, tau = np.random.default_rng(0).normal(size=(3, 60))
    printed = run_example(tmp_path, np.concatenate([q, v, tau]))
    assert np.array_equal(printed, dyn.forward_dynamics(q, v, tau))
