"""``python -m benchmarks.bins``: scenes of bodies of every sort, and whether a run tells all that happens in it.

    boxes       as many as ``--count`` says that fall into a bin: of 3 to 20 cm, and of one size
    capsules    that fall into a bin
    mixture     balls, boxes and capsules of 3 to 20 cm
    hulls       convex meshes of eight to twelve corners that fall into a bin, all different
    dominoes    200 in a row, the first of which falls
    cards       a house of cards, three storeys high: boxes of 2 mm that lean on each other by friction alone

``python -m benchmarks.bins --long 1000000`` prints the memory of a run of so many steps instead.

Each runs by ``wt.simulate(method="time_stepping")``, as a scene of many free bodies. One row for each: processor time
of a step (ms), contacts, sweeps, the residual (median and worst, m/s) and the steps beyond the tolerance, the overlap
(m) at the end and at its worst, the most that contacts have *added* to the energy within a row of output, and all that
they have taken, J, and the fastest body at the end, m/s.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import whippletree as wt
from whippletree.simulation.time_stepping.scene_method import is_scene

Vector = tuple[float, float, float]


class _Scene:
    """A floor, perhaps with four walls, and bodies that are added to it."""

    def __init__(self, name: str, width: float | None = None) -> None:
        self.builder, self.names = wt.Builder(name), []
        walls: list[tuple[Vector, Vector]] = [((0, 0, 0), (0, 0, 1))]
        if width is not None:
            half = width / 2
            walls += [((half * x, half * y, 0), (-x, -y, 0)) for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1))]
        for k, (place, normal) in enumerate(walls):
            first = np.array([0, 1, 0]) if normal[1] == 0 else np.array([0, 0, 1])
            turn = np.column_stack([first, np.cross(normal, first), normal])
            self._shape(f"wall {k}", "world", "half_space", position=place, rotation=turn)

    def _shape(self, name: str, body: str, kind: str, **numbers: Any) -> None:
        self.builder.geometry(name, body, kind, **numbers)
        self.names.append(name)

    def add(
        self, kind: str, extent: Any, place: Any, turn: Any = (1, 0, 0, 0), density: float = 500, **numbers: Any
    ) -> None:
        """A body as heavy as a block of so many sides (3,), m."""
        name, sides = f"part {len(self.names)}", np.asarray(extent, dtype=float)
        mass = float(density * sides.prod())
        squares = sides**2
        self.builder.body(name, mass, inertia=tuple(mass * (squares.sum() - squares) / 12))
        self.builder.joint(name, "free", "world", name, start=(*map(float, place), *map(float, turn)))
        self._shape(name, name, kind, **numbers)

    def build(self, friction: float) -> wt.Model:
        return self.builder.contact_group("all", self.names, friction=friction).build()


def _grid(k: int, across: int, pitch: float) -> Any:
    layer, rest = divmod(k, across * across)
    return np.array([*(np.array(divmod(rest, across)) - (across - 1) / 2), layer + 0.6]) * pitch


def _bin(name: str, count: int, kinds: str, largest: float = 0.1, smallest: float = 0.1, seed: int = 0) -> wt.Model:
    """Bodies of these kinds in turns (b: box, c: capsule, h: hull, s: ball), turned at random, above a bin."""
    random = np.random.default_rng(seed)
    across, pitch = max(3, round((count / 6) ** 0.5)), 1.8 * largest
    scene = _Scene(name, across * pitch)
    for k in range(count):
        turn = random.normal(size=4)
        turn, place = turn / np.linalg.norm(turn), _grid(k, across, pitch)
        size = float(np.exp(random.uniform(np.log(smallest), np.log(largest))))
        match kinds[k % len(kinds)]:
            case "b":
                sides = size * random.uniform(0.5, 1, 3)
                scene.add("box", sides, place, turn, size=tuple(sides.tolist()))
            case "c":
                scene.add("capsule", (size / 2, size / 2, size), place, turn, radius=size / 4, length=size / 2)
            case "s":
                scene.add("sphere", (size,) * 3, place, turn, radius=size / 2)
            case _:
                corners = random.normal(size=(8 + k % 5, 3))
                corners *= size / 2 / np.linalg.norm(corners, axis=1)[:, None]
                scene.add("mesh", (0.6 * size,) * 3, place, turn, vertices=(corners - corners.mean(axis=0)).tolist())
    return scene.build(0.4)


def dominoes(count: int = 200) -> wt.Model:
    """A row of dominoes that stand 5 cm from each other, the first of which is about to fall."""
    scene, size = _Scene("dominoes"), (0.012, 0.05, 0.1)
    for k in range(count):
        place, turn = (0.05 * k, 0.0, size[2] / 2), (1.0, 0.0, 0.0, 0.0)
        if k == 0:
            angle = 0.35
            turn = (np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0)
            x, z = -size[0] / 2, size[2] / 2
            c, s = np.cos(angle), np.sin(angle)
            place = (size[0] / 2 + c * x + s * z, 0.0, -s * x + c * z + 1e-6)
        scene.add("box", size, place, turn, size=size)
    return scene.build(0.5)


def cards(storeys: int = 3) -> wt.Model:
    """Pairs of cards that lean on each other, with a card flat over every two."""
    length, width, thick, lean = 0.09, 0.06, 0.002, 0.3
    scene = _Scene("cards")
    c, s = np.cos(lean), np.sin(lean)
    # a leaning card stands on its lower edge; its uppermost edge touches its partner's in the middle
    reach, height = length * s + thick * c, length * c + thick * s
    pitch, level = 2 * reach + 0.002, 0.0
    for storey in range(storeys):
        pairs = storeys - storey
        middles = [pitch * (k - (pairs - 1) / 2) for k in range(pairs)]
        for x in middles:
            for side in (-1, 1):
                turn = (np.cos(lean / 2), 0.0, -side * np.sin(lean / 2), 0.0)
                scene.add("box", (thick, width, length), (x + side * reach / 2, 0, level + height / 2), turn,
                          size=(thick, width, length))  # fmt: skip
        level += height
        if storey < storeys - 1:
            for a, b in pairwise(middles):
                sides = (pitch - 0.001, width, thick)
                scene.add("box", sides, ((a + b) / 2, 0, level + thick / 2), size=sides)
            level += thick
    return scene.build(0.7)


SCENES: dict[str, tuple[Callable[[int], wt.Model], float, float]] = {
    "mixed boxes": (lambda n: _bin("mixed boxes", n, "b", 0.2, 0.03), 2e-3, 0.8),
    "boxes": (lambda n: _bin("boxes", n, "b"), 2e-3, 0.8),
    "capsules": (lambda n: _bin("capsules", n, "c"), 2e-3, 0.8),
    "mixture": (lambda n: _bin("mixture", n, "bcs", 0.2, 0.03), 2e-3, 0.8),
    "hulls": (lambda n: _bin("hulls", n, "h"), 2e-3, 0.8),
    "dominoes": (lambda n: dominoes(200), 1e-3, 1.5),
    "cards": (lambda n: cards(3), 1e-3, 0.5),
}
"""Model of so many bodies, step and duration, s."""


def row(name: str, count: int, tolerance: float, effort: int, duration: float | None) -> str:
    """A line of the table."""
    make, step, default = SCENES[name]
    model = make(count)
    options: dict[str, Any] = {"method": "time_stepping", "step": step, "tolerance": tolerance}
    if is_scene(model):
        options["effort"] = effort
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wt.simulate(model, duration=step, output_dt=step, **options)  # what is compiled on first use
        start = time.process_time()
        run = wt.simulate(model, duration=duration or default, output_dt=10 * step, **options)
        spent = time.process_time() - start
    steps, works = run.attrs["steps"], run.contact_work.values
    speeds = np.abs(run.v.values[-1].reshape(-1, 6)[:, 3:]).max()
    gained, taken = max(0.0, float(np.diff(works).max())), float(-works[-1])
    worst = max(float(run.penetration.values.max()), run.attrs.get("largest_overlap", 0.0))  # of rows, and of all steps
    way = "scene" if is_scene(model) else "python"
    sweeps = run.sweeps.values.sum() / steps if "sweeps" in run else np.nan
    pressing = run.contacts.values.max() if "contacts" in run else (run.contact_force.values[..., 0] > 0).sum(-1).max()
    return (
        f"{name:13}{way:7}{len(model.bodies):7d}{spent / steps * 1e3:9.1f}{pressing:9.0f}"
        f"{sweeps:8.0f}{np.median(run.residual_velocity.values[1:]):10.1e}"
        f"{run.attrs['largest_residual_velocity']:10.1e}{run.attrs['unconverged_steps']:7d}/{steps:<5d}"
        f"{run.penetration.values[-1]:9.1e}{worst:10.1e}{gained:10.1e}{taken:10.1e}{speeds:10.1e}"
    )


def print_memory(steps: int) -> None:
    """Resident memory over many steps of twenty bodies of every sort, the last of them at rest and awake."""
    import resource

    model = _bin("twenty", 20, "bcs")
    rows = 10
    start, passed, state = time.process_time(), 0, (model.home.q, model.home.v)
    print(f"{'steps':>9}{'MB':>8}{'s':>8}")
    for _ in range(rows):
        run = wt.simulate(
            model, *state, duration=2e-3 * steps / rows, step=2e-3, output_dt=2e-3 * steps / rows / 10,
            method="time_stepping", tolerance=1e-4,
        )  # fmt: skip
        state, passed = (run.q.values[-1], run.v.values[-1]), passed + run.attrs["steps"]
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{passed:9d}{used:8.1f}{time.process_time() - start:8.1f}", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SCENES), help=", ".join(SCENES))
    parser.add_argument("--count", type=int, default=100, help="bodies in a bin")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--effort", type=int, default=600)
    parser.add_argument("--duration", type=float, help="s")
    parser.add_argument("--long", type=int, help="memory over so many steps instead")
    given = parser.parse_args()
    if given.long:
        print_memory(given.long)
        return
    print(f"{'':20}{'bodies':>7}{'ms/step':>9}{'contacts':>9}{'sweeps':>8}{'residual':>10}{'worst':>10}", end="")
    print(f"{'beyond':>10}   {'overlap':>9}{'worst':>10}{'gained':>10}{'taken':>10}{'speed':>10}")
    for name in given.names:
        print(row(name, given.count, given.tolerance, given.effort, given.duration), flush=True)


if __name__ == "__main__":
    main()
