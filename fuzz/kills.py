"""Runs that are killed at any moment and taken up again: the same bits as the whole run."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt
from checkpoint_cases import NAMES, case
from fuzz.trial import TRIAL_SECONDS, WrongAnswer

LIMIT = 4 * TRIAL_SECONDS
"""Of this process, which simulates each case once more as a whole."""

LONGEST = 20.0
"""Seconds until the kill, at most."""


@cache
def whole(name: str) -> Any:
    """The run that nobody disturbs."""
    model, arguments = case(name)
    return wt.simulate(model, **arguments)


def try_one(seed: int, folder: Path) -> str:
    """One run in another process, killed some time after its first checkpoint was there."""
    dice = random.Random(f"kills {seed}")
    name = NAMES[seed % len(NAMES)]
    place = folder / f"run {seed}"
    code = f"import checkpoint_cases; checkpoint_cases.run_slowly({name!r}, {str(place)!r})"
    path = [str(Path(__file__).resolve().parents[1] / "tests"), *sys.path]
    process = subprocess.Popen([sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"])
    try:
        _wait(process, place, dice.uniform(0.0, 0.5))
    finally:
        process.kill()
        process.wait()
    model, arguments = case(name)
    again = wt.simulate(model, checkpoint=place, **arguments)
    for key in ("q", "v"):
        if not np.array_equal(again[key].values, whole(name)[key].values, equal_nan=True):
            raise WrongAnswer(f"{name}: {key} of the resumed run differs")
    shutil.rmtree(place, ignore_errors=True)
    return "the same bits"


def _wait(process: Any, place: Path, longer: float) -> None:
    end = time.monotonic() + LONGEST
    while process.poll() is None and time.monotonic() < end and not place.exists():
        time.sleep(0.01)
    time.sleep(longer)
