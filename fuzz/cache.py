"""Damaged entries of the cache of compiled code: rebuilt, never trusted."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.trial import TRIAL_SECONDS, WrongAnswer
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer, Program, straight_program
from whippletree.files.cache import CodeCache

LIMIT = TRIAL_SECONDS


def program() -> Program:
    """y = x² + 1."""
    trace = Trace()
    x = trace.inputs(3)
    return straight_program(
        "f", finish(trace, list(x * x + 1.0)), [Buffer("x", "input", (3,))], [Buffer("y", "output", (3,))]
    )


@cache
def _sound(folder: Path) -> dict[str, bytes]:
    """The entries that one compilation leaves."""
    _use(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _use(folder: Path) -> Any:
    return compile_function(program(), cache=CodeCache(folder), threads=1)(np.array([1.0, 2.0, 3.0]))


def try_one(seed: int, folder: Path) -> str:
    """One cache with some of its bytes changed, cut, repeated, or one entry in the place of another."""
    place = folder / "cache"
    entries = _sound(place)
    dice = random.Random(f"cache {seed}")
    for name, data in entries.items():
        (place / name).write_bytes(_damaged(data, list(entries.values()), dice))
    if not np.array_equal(_use(place), [2.0, 5.0, 10.0]):
        raise WrongAnswer("a damaged entry was used")
    return "rebuilt"


def _damaged(data: bytes, others: list[bytes], dice: random.Random) -> bytes:
    a, b = sorted(dice.sample(range(len(data) + 1), 2))
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 8))):
        changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    pieces = bytes(changed), data[:a], data[a:], data[:a] + data[b:], data + data[a:b], b"", data
    return dice.choice([*pieces, dice.choice(others)])
