"""Shapes thrown onto the ground and against each other: no energy out of nothing, nothing through the floor."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

import whippletree as wt
from contact_scenes import SHAPES
from fuzz.trial import TRIAL_SECONDS, WrongAnswer

LIMIT = 4 * TRIAL_SECONDS
"""Of one scene: 0.3 s of motion, compiled where it is new."""

GAIN = 1e-6
"""Share of the energy of the start that integration may add."""

OVERLAP = 1e-3
"""m: what a fast corner may be inside before the contact is met, at steps of 2 ms."""


def try_one(seed: int, folder: Path) -> str:
    """One body of some shape, with any friction and restitution, by time stepping."""
    dice = Random(f"scenes {seed}")
    kind = sorted(SHAPES)[seed % len(SHAPES)]
    model = thrown(kind, dice.choice((0.0, 0.3, 1.0, 1000.0)), dice.choice((0.0, 0.5, 1.0)))
    turn = np.array([dice.gauss(0, 1) for _ in range(4)])
    q = np.array([0, 0, dice.uniform(0.7, 1.2), *(turn / np.linalg.norm(turn))])
    v = np.array([dice.gauss(0, 4) for _ in range(6)])
    run = wt.simulate(model, q, v, duration=0.3, output_dt=0.01, method="time_stepping", step=2e-3)
    energy = (run["kinetic_energy"] + run["potential_energy"]).values
    if run.attrs["failure"]:
        return "stopped, told"
    if not np.all(np.isfinite(energy)):
        raise WrongAnswer(f"{kind}: not finite")
    if np.max(energy) > energy[0] + GAIN * abs(energy[0]):
        raise WrongAnswer(f"{kind}: energy {energy[0]:.6g} J became {np.max(energy):.6g} J")
    if float(run["contact_gap"].min()) < -OVERLAP:
        raise WrongAnswer(f"{kind}: {-float(run['contact_gap'].min()):.1e} m inside the ground")
    return kind


def thrown(kind: str, friction: float, restitution: float) -> wt.Model:
    """One free body of a shape above a floor."""
    builder = wt.Builder(f"thrown {kind}").body("body", 1.0, inertia=(0.04, 0.05, 0.03))
    builder.joint("body", "free", "world", "body").geometry("floor", "world", "half_space")
    builder.geometry("shape", "body", kind, **SHAPES[kind])
    return builder.contact("touch", "shape", "floor", friction=friction, restitution=restitution).build()
