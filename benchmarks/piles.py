"""Balls in three phases: they fall, they settle, they are at rest; beside MuJoCo, and how the times grow.

    python -m benchmarks.piles phases 100 1000      processor time of a step, ours and of MuJoCo's CG and Newton
    python -m benchmarks.piles growth 100 1000 10000
    python -m benchmarks.piles rest 100 --piles 40        our time and CG's of piles at rest, with their mean

Both run in one process, in turns. MuJoCo takes elliptic cones and Euler's method at the same step. ``falling`` are
steps of balls that begin three metres higher, at 1e-6 m/s; ``settling`` those from the first contacts until 1.2 s;
``at rest`` those after ``--rest`` seconds, without sleeping and with it. A ratio is that to the faster of MuJoCo's two
solvers; Newton's is timed on a few steps of each phase. Piles of any number of balls are ten layers high, so that the
same residual asks for about as many sweeps.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import scenes
from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.scene_layout import SceneLayout, scene_layout
from whippletree.simulation.time_stepping.scene_run import ROWS, SteppedScene, Warm

HIGHER = 3.0
"""m: how much higher balls begin that are to fall for a while."""

FALLING, RESTING, LANDED, SETTLED = 150, 200, 0.1, 1.2
"""Steps of a fall and of rest that are timed; s: when balls have landed, and when most have settled."""

OVERLAP = 1e-9
"""m: overlap that a step may leave."""

NEWTON_STEPS = 3
"""Steps of MuJoCo's Newton that are timed in a phase: one of a thousand balls takes seconds."""

SLEEP = 1e-2
"""m/s: speed below which islands fall asleep in the runs that let them."""


class Phase(NamedTuple):
    """Some steps of one phase."""

    name: str
    ours: float
    """µs of processor time of a step."""
    contacts: float
    sweeps: float
    residual: float
    """Median and largest of all steps, m/s."""
    worst: float
    overlap: float
    speed: float
    peers: dict[str, float]

    @property
    def ratio(self) -> float:
        """Of our time to the faster peer's."""
        return self.ours / min(self.peers.values())


class Run:
    """One of our runs, some steps at a time."""

    def __init__(self, scene: scenes.Scene, tolerance: float, effort: int, sleep: float | None = None) -> None:
        self.model, self.step = scene.ours(), scene.step
        layout = scene_layout(self.model)
        assert isinstance(layout, SceneLayout)
        self.stepped = SteppedScene(layout, tolerance, OVERLAP, effort, sleep)
        self.q = np.array(self.model.home.q, dtype=float)
        self.v = np.array(self.model.home.v, dtype=float)
        self.warm = Warm.cold()
        self.advance(1, keep=False)  # what is imported and compiled on first use

    def lift(self, height: float) -> None:
        self.q.reshape(-1, 7)[:, 2] += height

    def advance(self, steps: int, name: str = "", *, keep: bool = True) -> Phase:
        """Some steps, in one go."""
        start = time.process_time()
        told = self.stepped.advance(self.q, self.v, self.warm, np.zeros(self.model.nv), np.full(steps, self.step))
        spent = (time.process_time() - start) / steps * 1e6
        if keep:
            self.q, self.v, self.warm = told.q, told.v, told.warm
        column = {name: told.account[:, k] for name, k in ROWS.items()}
        residual, overlap = column["residual_velocity"], max(0.0, -float(told.gaps.min(initial=0.0)))
        work = float(column["contacts"].mean()), float(column["sweeps"].mean())
        speed = float(np.abs(told.v.reshape(-1, 6)[:, 3:]).max())
        return Phase(name, spent, *work, float(np.median(residual)), float(residual.max()), overlap, speed, {})


class Peer:
    """MuJoCo's run with one of its solvers."""

    def __init__(self, scene: scenes.Scene, solver: str, states: tuple[Array, Array] | None = None) -> None:
        import mujoco

        self.move, self.model = mujoco.mj_step, scene.mujoco(solver)
        self.data: Any = mujoco.MjData(self.model)
        if states is not None:
            self.data.qpos[:], self.data.qvel[:] = states
        self.move(self.model, self.data)

    @property
    def states(self) -> tuple[Array, Array]:
        return self.data.qpos.copy(), self.data.qvel.copy()

    def advance(self, steps: int) -> float:
        """µs of processor time of a step."""
        start = time.process_time()
        for _ in range(steps):
            self.move(self.model, self.data)
        return (time.process_time() - start) / steps * 1e6


def _with_peers(phase: Phase, scene: scenes.Scene, cg: Peer, steps: int) -> Phase:
    """A phase beside the same steps of CG, and a few of Newton from where CG is in their middle."""
    half = steps // 2
    first = cg.advance(half)
    newton = Peer(scene, "Newton", cg.states)
    spent = (first * half + cg.advance(steps - half) * (steps - half)) / steps
    return phase._replace(peers={"CG": spent, "Newton": newton.advance(NEWTON_STEPS)})


def phases(count: int, tolerance: float, effort: int, rest: float) -> Iterator[Phase]:
    """The phases of so many balls, beside MuJoCo."""
    scene = scenes.balls(count)
    run, peer = Run(scene, 1e-6, effort), Peer(scene, "CG")
    run.lift(HIGHER)
    peer.data.qpos.reshape(-1, 7)[:, 2] += HIGHER
    yield _with_peers(run.advance(FALLING, "falling"), scene, peer, FALLING)
    run, peer = Run(scene, tolerance, effort), Peer(scene, "CG")
    landed, settled = round(LANDED / scene.step), round((SETTLED - LANDED) / scene.step)
    run.advance(landed)
    peer.advance(landed)
    yield _with_peers(run.advance(settled, "settling"), scene, peer, settled)
    waiting = round((rest - SETTLED) / scene.step)
    if waiting <= 0:
        return
    run.advance(waiting)
    peer.advance(waiting)
    found = _with_peers(run.advance(RESTING, "at rest"), scene, peer, NEWTON_STEPS * 10)
    yield found
    dozing = Run(scene, tolerance, effort, SLEEP)
    dozing.q, dozing.v, dozing.warm = run.q, run.v, run.warm
    dozing.advance(round(1 / scene.step))
    yield dozing.advance(RESTING, "at rest, asleep")._replace(peers=found.peers)


def print_phases(counts: Sequence[int], tolerance: float | None, effort: int, rest: float) -> None:
    print(f"{'':24}{'ours µs':>10}{'CG µs':>10}{'Newton':>10}{'ratio':>8}{'contacts':>9}{'sweeps':>8}", end="")
    print(f"{'residual':>10}{'worst':>10}{'overlap':>10}{'speed':>10}")
    for count in counts:
        for p in phases(count, tolerance or _settling_tolerance(count), effort, rest):
            name = f"{count} balls, {p.name}"
            line = f"{name:24}{p.ours:10.0f}{p.peers['CG']:10.0f}{p.peers['Newton']:10.0f}{p.ratio:8.3f}"
            line += f"{p.contacts:9.0f}{p.sweeps:8.1f}{p.residual:10.1e}{p.worst:10.1e}{p.overlap:10.1e}{p.speed:10.1e}"
            print(line, flush=True)


def print_rest(counts: Sequence[int], piles: int, tolerance: float | None, effort: int, rest: float) -> None:
    """Times of piles at rest, which differ by what still rolls in them: fewest, most and mean."""
    print(f"{'balls':>6}{'ours µs':>10}{'least':>8}{'most':>8}{'CG µs':>8}{'ratio':>8}{'sweeps':>8}", end="")
    print(f"{'residual':>10}{'worst':>10}{'overlap':>10}")
    for count in counts:
        found: list[Phase] = []
        for seed in range(piles):
            scene = scenes.balls(count, seed)
            run, peer = Run(scene, tolerance or _settling_tolerance(count), effort), Peer(scene, "CG")
            waiting = round(rest / scene.step)
            run.advance(waiting)
            peer.advance(waiting)
            found.append(run.advance(RESTING, "at rest")._replace(peers={"CG": peer.advance(NEWTON_STEPS * 10)}))
        ours, theirs = np.array([p.ours for p in found]), np.array([p.peers["CG"] for p in found])
        line = f"{count:6d}{ours.mean():10.1f}{ours.min():8.1f}{ours.max():8.1f}{theirs.mean():8.0f}"
        line += f"{ours.mean() / theirs.mean():8.3f}{np.mean([p.sweeps for p in found]):8.1f}"
        line += f"{np.median([p.residual for p in found]):10.1e}{max(p.worst for p in found):10.1e}"
        print(f"{line}{max(p.overlap for p in found):10.1e}", flush=True)


def _settling_tolerance(count: int) -> float:
    """m/s, of so many balls that settle."""
    return 1e-4 if count <= 100 else 5e-4


def growing(count: int, tolerance: float, effort: int, landed: float, settling: int, calm: int) -> Iterator[Phase]:
    """Our phases of so many balls, with as many steps for every number; ``calm`` steps until they are at rest."""
    scene = scenes.balls(count)
    run = Run(scene, 1e-6, effort)
    run.lift(HIGHER)
    yield run.advance(FALLING, "falling")
    run = Run(scene, tolerance, effort)
    run.advance(round(landed / scene.step))
    yield run.advance(settling, "settling")
    if calm:
        run.advance(calm)
        yield run.advance(20, "at rest")


def print_growth(counts: Sequence[int], *options: Any) -> None:
    """Times by phase, and log-log slopes from one number to the next."""
    before: dict[str, tuple[int, Phase]] = {}
    print(
        f"{'phase':>10}{'balls':>8}{'µs':>11}{'contacts':>10}{'sweeps':>8}{'residual':>10}{'worst':>10}{'exponent':>10}"
    )
    for count in counts:
        for p in growing(count, *options):
            slope = ""
            if p.name in before:
                fewer, q = before[p.name]
                slope = f"{np.log(p.ours / q.ours) / np.log(count / fewer):10.2f}"
            before[p.name] = count, p
            line = f"{p.name:>10}{count:8d}{p.ours:11.0f}{p.contacts:10.0f}{p.sweeps:8.0f}{p.residual:10.1e}"
            print(f"{line}{p.worst:10.1e}{slope}", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("phases", "growth", "rest"))
    parser.add_argument("counts", type=int, nargs="+")
    parser.add_argument("--tolerance", type=float, help="of settling, m/s; 1e-4, beyond 100 balls and growing 5e-4")
    parser.add_argument("--effort", type=int, default=2000)
    parser.add_argument("--rest", type=float, default=4.0, help="s; 0 for no phase at rest")
    parser.add_argument("--landed", type=float, default=0.3, help="s, after which the growth of settling is measured")
    parser.add_argument("--settling", type=int, default=10, help="steps of settling whose growth is measured")
    parser.add_argument("--calm", type=int, default=0, help="steps from there to the phase at rest of growth")
    parser.add_argument("--piles", type=int, default=40, help="piles at rest")
    given = parser.parse_args()
    if given.table == "phases":
        print_phases(given.counts, given.tolerance, given.effort, given.rest)
    elif given.table == "rest":
        print_rest(given.counts, given.piles, given.tolerance, given.effort, given.rest)
    else:
        wanted = given.tolerance or 5e-4
        print_growth(given.counts, wanted, given.effort, given.landed, given.settling, given.calm)


if __name__ == "__main__":
    main()
