"""Heaps of cylinders, ellipsoids, convex meshes, capsules, boxes and of all of them, ours beside ``mj_step``.

    python -m benchmarks.solid_heaps [--counts 1 10 100] [--steps 200] [KIND …]

Bodies fall onto a plane, inside of four planes where they are many, and onto each other. Every scene is one MJCF text
that both read; ours and MuJoCo's steps (Euler's method, elliptic cones, Newton's solver, 2 ms) are taken in turns in
one process, from the same start. Ours are solved to ``--tolerance``.

    first      s of processor time until the first step has been taken, nothing cached
    falling    µs of processor time per step from the start on, ours and ``mj_step``'s
    lying      the same after ``--steps`` steps
    contacts   candidates that could matter in the last step; of MuJoCo its contacts
    residual   largest natural map of a step, m/s; ``beyond``: steps that ended before the tolerance
    overlap    the largest that a step of ours has left, and that of MuJoCo at the end, m
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.peers import steps_of_mujoco
from benchmarks.timing import processor_seconds

STEP = 0.002
SIZE = 0.05
"""s, and m: half the size of a body."""

GOLDEN = (1 + math.sqrt(5)) / 2
FORMS = {
    "cylinder": f'type="cylinder" size="{SIZE} {0.8 * SIZE}"',
    "ellipsoid": f'type="ellipsoid" size="{1.4 * SIZE} {SIZE} {0.7 * SIZE}"',
    "mesh": 'type="mesh" mesh="stone"',
    "capsule": f'type="capsule" size="{0.6 * SIZE} {0.8 * SIZE}"',
    "box": f'type="box" size="{SIZE} {0.8 * SIZE} {0.6 * SIZE}"',
}
KINDS = (*FORMS, "mixture")


def heap(kind: str, count: int) -> str:
    """So many bodies of a kind, or of all kinds in turns, turned at random, above a floor."""
    random = np.random.default_rng(count)
    corners = [(0, a, b * GOLDEN) for a in (-1, 1) for b in (-1, 1)]
    icosahedron = [p[k:] + p[:k] for p in corners for k in range(3)]
    scale = 1.1 * SIZE / math.hypot(1, GOLDEN)
    text = " ".join(f"{scale * x:.9f}" for corner in icosahedron for x in corner)
    across, pitch = max(1, round((count / 4) ** 0.5)), 3.2 * SIZE
    planes = ['<geom name="floor" type="plane" size="0 0 1"/>']
    half = across * pitch / 2 + SIZE
    for k, (x, y) in enumerate(((1, 0), (0, 1), (-1, 0), (0, -1)) if count > 10 else ()):
        place = f"{-half * x} {-half * y} 0"
        planes.append(f'<geom name="wall {k}" type="plane" size="0 0 1" pos="{place}" zaxis="{x} {y} 0"/>')
    bodies = []
    for k in range(count):
        layer, rest = divmod(k, across * across)
        place = [*(np.array(divmod(rest, across)) - (across - 1) / 2), layer + 0.6]
        x, y, z = pitch * np.array(place) + random.uniform(-0.1, 0.1, 3) * SIZE
        turn = random.normal(size=4)
        form = FORMS[kind] if kind != "mixture" else list(FORMS.values())[k % len(FORMS)]
        bodies.append(
            f'<body name="thing {k}" pos="{x} {y} {z}" quat="{" ".join(map(str, turn / np.linalg.norm(turn)))}">'
            f'<freejoint/><geom name="thing {k}" {form} density="1000"/></body>'
        )
    return (
        f'<mujoco model="{kind}"><option timestep="{STEP}" integrator="Euler" cone="elliptic"/><size memory="200M"/>'
        f'<asset><mesh name="stone" vertex="{text}"/></asset>'
        f"<worldbody>{''.join(planes)}{''.join(bodies)}</worldbody></mujoco>"
    )


def row(kind: str, count: int, steps: int, tolerance: float, folder: Path) -> str:
    """The line of a scene."""
    import mujoco

    path = folder / "heap.xml"
    path.write_text(heap(kind, count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = wt.load(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    first = processor_seconds(lambda: _simulated(model, 1, tolerance))
    half, whole, theirs = [], [], []
    for _ in range(3):
        data, runs = mujoco.MjData(peer), []
        half.append(processor_seconds(lambda: _simulated(model, steps, tolerance)))
        whole.append(processor_seconds(lambda runs=runs: runs.append(_simulated(model, 2 * steps, tolerance))))
        theirs.append([processor_seconds(lambda data=data: steps_of_mujoco(peer, data, steps)) for _ in range(2)])
    falling, lying = 1e6 * min(half) / steps, 1e6 * (min(whole) - min(half)) / steps
    fell, lay = 1e6 * np.min(theirs, axis=0) / steps
    run, depth = runs[0], max([0.0, *[-float(c.dist) for c in data.contact]])
    overlap = run.attrs.get("largest_overlap", float(run["penetration"].values.max()))
    contacts = int(run["contacts"].values[-1]) if "contacts" in run else -1
    return (
        f"{kind:10}{count:5}{first:7.1f}{falling:9.0f}{fell:8.0f}{lying:9.0f}{lay:8.0f}"
        f"{falling / fell:7.2f}{lying / lay:6.2f}{contacts:6}{data.ncon:6}"
        f"{run.attrs['largest_residual_velocity']:9.0e}{run.attrs['unconverged_steps']:7}{overlap:9.0e}{depth:9.0e}"
        f"  {run.attrs['path']}"
    )


def _simulated(model: wt.Model, steps: int, tolerance: float) -> Any:
    duration = STEP * steps
    given = {"step": STEP, "output_dt": duration, "tolerance": tolerance, "method": "time_stepping"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wt.simulate(model, duration=duration, **given)


def main() -> None:
    """The whole table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("--counts", type=int, nargs="*", default=[1, 10, 100])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    given = parser.parse_args()
    print(
        f"{'kind':10}{'count':>5}{'first':>7}{'falling':>9}{'MuJoCo':>8}{'lying':>9}{'MuJoCo':>8}{'ratios':>13}{'contacts':>12}"
        f"{'residual':>9}{'beyond':>7}{'overlap':>9}{'MuJoCo':>9}  path"
    )
    with TemporaryDirectory() as folder:
        for kind in given.kinds:
            for count in given.counts:
                print(row(kind, count, given.steps, given.tolerance, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
