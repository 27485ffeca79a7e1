"""Drift of a closed loop over very many steps: residuals at position and velocity level, and the energy.

    python benchmarks/drift.py [steps]

A crank-rocker falls from rest and swings for steps × 1 ms; after every step the residuals are those of the projected
state. The figures of docs/constraints.md come from here.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import whippletree as wt
from whippletree.simulation.adaptive.integrator import Integrator
from whippletree.simulation.adaptive.motion_pieces import Progress
from whippletree.simulation.motion import Motion

STEP = 1e-3
LENGTHS = (2.0, 0.8, 2.2, 1.7)


def main(steps: int = 100_000) -> None:
    """Run and print the largest of each."""
    model = wt.mechanisms.four_bar(LENGTHS, angle=1.0)
    dyn = wt.compile(model)
    motion = Motion(dyn)
    q, v = model.home.q, np.zeros(model.nv)
    first = float(dyn.potential_energy(q))
    position = velocity = energy = kinetic = 0.0
    began = time.perf_counter()
    integrator = Integrator(motion, 1e-8, 1e-10, largest_step=STEP)
    for piece in integrator.pieces(Progress(0.0, np.concatenate([q, v])), steps * STEP):
        q, v = motion.split(piece.state)
        position = max(position, float(np.abs(dyn.constraint_residual(q)).max()))
        velocity = max(velocity, float(np.abs(dyn.constraint_velocity(q, v)).max()))
        moving = float(dyn.kinetic_energy(q, v))
        kinetic = max(kinetic, moving)
        energy = max(energy, abs(moving + float(dyn.potential_energy(q)) - first))
    count = integrator.statistics.steps
    print(f"{count} steps of at most {STEP:g} s in {time.perf_counter() - began:.0f} s")
    print(f"largest position residual  {position:.1e} m")
    print(f"largest velocity residual  {velocity:.1e} m/s")
    print(f"largest energy error       {energy:.1e} J, {energy / kinetic:.1e} of the largest kinetic energy")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
