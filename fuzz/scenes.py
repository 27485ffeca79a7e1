"""Shapes thrown onto the ground: no energy out of nothing, nothing through the floor."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import whippletree as wt
from contact_scenes import SHAPES
from fuzz.trial import TRIAL_SECONDS, WrongAnswer

LIMIT = 4 * TRIAL_SECONDS
"""Of one scene: 0.3 s of motion, compiled where it is new."""

STEP = 2e-3
"""s"""

GAIN = 1e-6
"""Share of the energy of the start that rounding and the solver may add."""

FINER = 8
"""How much shorter the steps are by which gains of elastic impacts, which are of the first order, have to fall to less
than half."""

OVERLAP = 1e-3
"""m: what a fast corner may be inside before the contact is met, at steps of 2 ms."""


def try_one(seed: int, folder: Path) -> str:
    """One body of some shape, with any friction and restitution, against spinning and rolling too, by time stepping."""
    dice = Random(f"scenes {seed}")
    kind = sorted(SHAPES)[seed % len(SHAPES)]
    law = {"friction": dice.choice((0.0, 0.3, 1.0, 1000.0)), "restitution": dice.choice((0.0, 0.5, 1.0))}
    law |= {word: dice.choice((0.0, 0.0, 0.01, 0.3)) for word in ("torsional", "rolling")}
    model = thrown(kind, **law)
    turn = np.array([dice.gauss(0, 1) for _ in range(4)])
    q = np.array([0, 0, dice.uniform(0.7, 1.2), *(turn / np.linalg.norm(turn))])
    v = np.array([dice.gauss(0, 4) for _ in range(6)])
    run = _run(model, q, v, STEP)
    if run.attrs["failure"]:
        return "stopped, told"
    gain = _gain(run)
    if not np.isfinite(gain):
        raise WrongAnswer(f"{kind}: energy is not finite")
    if float(run["contact_gap"].min()) < -OVERLAP:
        raise WrongAnswer(f"{kind}: {-float(run['contact_gap'].min()):.1e} m inside the ground")
    if gain <= GAIN:
        return kind
    finer = _gain(_run(model, q, v, STEP / FINER))
    if finer > gain / 2:
        raise WrongAnswer(f"{kind}: the energy grows by {gain:.1e} of itself, by {finer:.1e} with shorter steps")
    return "gain of first order"


def _run(model: wt.Model, q: np.ndarray, v: np.ndarray, step: float) -> Any:
    return wt.simulate(model, q, v, duration=0.3, output_dt=0.01, method="time_stepping", step=step)


def _gain(run: Any) -> float:
    """How much energy came up, as a share of that of the start."""
    energy = (run["kinetic_energy"] + run["potential_energy"]).values
    return float((np.max(energy) - energy[0]) / abs(energy[0]))


def thrown(kind: str, **law: float) -> wt.Model:
    """One free body of a shape above a floor, and the coefficients of its contact."""
    builder = wt.Builder(f"thrown {kind}").body("body", 1.0, inertia=(0.04, 0.05, 0.03))
    builder.joint("body", "free", "world", "body").geometry("floor", "world", "half_space")
    builder.geometry("shape", "body", kind, **SHAPES[kind])
    return builder.contact("touch", "shape", "floor", **law).build()
