"""Work and precision of the adaptive integrator: true error against processor time, beside peers on our own rates.

    python -m benchmarks.work_precision [--figure FILE] [--outcomes FILE] [--only WORD|WORD] [--patience TIMES]

Peers: scipy's LSODA, Radau and DOP853, and CVODE (BDF and Adams) where ``scikit-sundae`` is installed. All integrate
the same compiled accelerations; ours are those of the constrained motion, and peers integrate them as an ordinary
differential equation without a projection. Planar linkages without a controller are also integrated by Exudyn, where
that is installed: its own equations in absolute coordinates, generalised alpha with steps of one length. Each
contestant runs with tolerances from 0.1 to 1e-12 (absolute: a hundredth of that), and is not asked for more digits
once it has taken many times as long as our longest run. The error is that of the last state, relative to 1 + its size,
against the exact motion where that is known (N-four-bars, the top: :mod:`benchmarks.exact_motions`), else against a run
of ours at 1e-13; the least that any peer is away from that is printed, as a check. For each accuracy the
table has the least time in which a contestant reached it; the last line is the worst ratio of all. The integrator is
timed, not ``wt.simulate``, which adds the output. With a file of outcomes the picture may be made in pieces.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from benchmarks.exact_motions import n_four_bar_state, top_state
from benchmarks.exudyn_planar import planar_system
from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.rollout_blocks import has_passive_forces
from whippletree.controllers import ActuatorForces
from whippletree.mechanisms.andrews import MOTOR_TORQUE
from whippletree.simulation.adaptive.adaptive_method import Adaptive
from whippletree.simulation.adaptive.motion_pieces import Progress
from whippletree.simulation.method import Task
from whippletree.simulation.motion import Motion

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
TARGETS = TOLERANCES[1:-1]


ENOUGH = 0.05
"""s of repeated runs after which the least of them is taken."""

GIVEN_UP_AFTER = 15.0
"""s by the clock after which a run is ended: some do not end where they pass by a singular configuration."""


@dataclass(frozen=True)
class Problem:
    """A motion to follow."""

    name: str
    model: wt.Model
    duration: float
    q: Array
    v: Array
    controller: Callable[..., Any] | None = None
    exact: Array | None = None
    """The last state, where it is known."""
    commands: Callable[..., Any] | None = None
    """Of actuators with activations, which start at 0 and are part of the state."""

    @property
    def driver(self) -> ActuatorForces | None:
        """The actuators under their commands."""
        return None if self.commands is None else ActuatorForces.of(self.model, self.commands, self.duration, None)

    def motion(self, dyn: Any) -> Motion:
        """The model in motion."""
        return Motion(dyn, self.controller, actuated=self.driver, remembers=self.commands is not None)


class Run(NamedTuple):
    """What a contestant needed for a tolerance."""

    seconds: float
    error: float


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure")
    parser.add_argument("--only", default="")
    parser.add_argument("--patience", type=float, default=10.0, help="longest run of a peer, in longest runs of ours")
    parser.add_argument("--outcomes", type=Path, help="what is measured is added to this file, and drawn with it")
    arguments = parser.parse_args()
    kept, worst = arguments.outcomes, 0.0
    found = outcomes(kept) if kept is not None and kept.exists() else {}
    for problem in problems():
        if any(word in problem.name for word in arguments.only.split("|")):
            found[problem.name] = contest(problem, arguments.patience)
            tell(problem.name, found[problem.name])
            worst = max(worst, *ratios(found[problem.name]).values())
            if kept is not None:  # each time, so that a run that is stopped leaves what it had
                kept.write_text(json.dumps(found))
            if arguments.figure:
                draw(found, arguments.figure)
    print(f"at most {worst:.2f} times the best peer")


def outcomes(file: Path) -> dict[str, dict[str, list[Run]]]:
    """Of earlier runs."""
    found = json.loads(file.read_text())
    return {name: {who: [Run(*run) for run in all_of] for who, all_of in runs.items()} for name, runs in found.items()}


# ---- problems --------------------------------------------------------------------------------------------------------


def problems() -> Iterator[Problem]:
    """All that is measured."""
    for k in (1e2, 1e4, 1e5, 1e7):
        for damping, word in ((0.0, ""), (k / 1e3, ", damped")):
            model = chain(4, k, damping)
            still = np.zeros(model.nv)
            yield Problem(f"chain k={k:.0e}{word}, relaxed", model, 1.0, relaxed(model), still)
            # beyond 1e5, without damping, everybody resolves each of some thousand oscillations a second
            duration = 1.0 if k <= 1e5 or damping else 0.1
            yield Problem(f"chain k={k:.0e}{word}, excited", model, duration, np.zeros(model.nv), still)
    squeezer = wt.mechanisms.andrews()
    torque = np.zeros(squeezer.nv)
    torque[squeezer.slice("beta")] = MOTOR_TORQUE
    yield Problem("Andrews' squeezer", squeezer, 0.03, squeezer.home.q, squeezer.home.v, lambda t, q, v: torque + 0 * v)
    axle, road = car_axle()
    yield Problem("car axle", axle, 3.0, axle.home.q, axle.home.v, road)
    for n, duration, word in ((2, 0.7, "to"), (4, 0.7, "to"), (20, 0.7, "to"), (2, 0.9, "through")):
        linkage = wt.mechanisms.n_four_bar(n)
        name, exact = f"{n}-four-bar, {word} its dead point", n_four_bar_state(n, duration)
        yield Problem(name, linkage, duration, linkage.home.q, linkage.home.v, exact=exact)
    top = spinning_top()
    yield Problem("spinning top", top, 1.0, top.home.q, np.array([0.0, 0.0, 200.0]), exact=top_state(1.0))
    yield from stiff_machines()


def stiff_machines() -> Iterator[Problem]:
    """Stiffness as machines have it: in tyres, in gains of motors, in dampers and in rods."""
    suspension, tyre = quarter_car()
    yield Problem("quarter car, tyre that lifts off", suspension, 1.0, suspension.home.q, suspension.home.v, tyre)
    slider = wt.Builder("slider", (0, 0, 0)).body("mass", 1.0).joint("x", "prismatic", "world", "mass").build()
    for mu, duration in ((10.0, 20.0), (100.0, 200.0)):

        def damper(t: Any, q: Any, v: Any, mu: float = mu) -> Any:
            return mu * (1 - q * q) * v - q

        name = f"van der Pol's damper, mu={mu:.0e}"
        yield Problem(name, slider, duration, np.array([2.0]), np.array([0.0]), damper)
    crank = wt.mechanisms.crank_slider()
    motor = np.zeros(crank.nv)
    motor[0] = 1.0

    def hold_speed(t: Any, q: Any, v: Any) -> Any:
        return 1e4 * (10 * np.tanh(20 * t) - v[0]) * motor

    yield Problem("slider-crank, motor of high gain", crank, 1.0, crank.home.q, crank.home.v, hold_speed)
    for damping, word in ((0.0, ""), (100.0, ", damped")):
        pendulum = elastic_pendulum(1e6, damping)
        hung = np.array([1.0, pendulum_sag(1e6)])
        yield Problem(f"pendulum on a rod of 1e6 N/m{word}", pendulum, 2.0, hung, np.zeros(2))


def quarter_car() -> tuple[wt.Model, Callable[..., Any]]:
    """A wheel under a body: a tyre of 2e5 N/m that only pushes, on a road of bumps of 8 cm."""
    builder = wt.Builder("quarter car", (0, 0, -9.81))
    builder.body("wheel", 40.0).joint("axle", "prismatic", "world", "wheel", axis=(0, 0, 1))
    builder.body("car", 400.0)
    builder.joint("strut", "prismatic", "wheel", "car", axis=(0, 0, 1), stiffness=2e4, damping=1.5e3)

    def tyre(t: Any, q: Any, v: Any) -> Any:
        depth = 0.04 * (1 - np.cos(12 * t)) - q[0]
        return np.array([2e5 * np.maximum(depth, 0.0), 4e3 + 0 * v[0]])

    return builder.build(), tyre


def elastic_pendulum(stiffness: float, damping: float) -> wt.Model:
    """A mass of 1 kg on a rod of 1 m that stretches."""
    builder = wt.Builder("elastic pendulum", (0, -9.81, 0))
    builder.body("sleeve", 0.1, inertia=(1e-3, 1e-3, 1e-3)).joint("hinge", "revolute", "world", "sleeve")
    builder.body("bob", 1.0, inertia=(1e-3, 1e-3, 1e-3))
    spring = {"stiffness": stiffness, "damping": damping}
    builder.joint("rod", "prismatic", "sleeve", "bob", position=(1.0, 0, 0), axis=(1, 0, 0), **spring)
    return builder.build()


def pendulum_sag(stiffness: float) -> float:
    """How far the rod of such a pendulum is pressed together, m, at 1 rad above the horizontal."""
    return float(-9.81 * np.sin(1.0) / stiffness)


def chain(n: int, stiffness: float, damping: float) -> wt.Model:
    """Rods of 1 m and 1 kg, the first on a free hinge, the others on springs."""
    builder, parent = wt.Builder("chain", (0, -9.81, 0)), "world"
    for i in range(n):
        builder.body(f"rod {i}", 1.0, center=(0.5, 0, 0), inertia=(0.01, 1 / 12, 1 / 12))
        spring = {"stiffness": stiffness, "damping": damping} if i else {}
        builder.joint(f"joint {i}", "revolute", parent, f"rod {i}", position=(1.0 if i else 0.0, 0, 0), **spring)
        parent = f"rod {i}"
    return builder.build()


def relaxed(model: wt.Model) -> Array:
    """Springs bent so far that they do not accelerate against each other: nothing oscillates that need not."""
    dyn, q, still = wt.compile(model), np.zeros(model.nv), np.zeros(model.nv)
    for _ in range(20):
        a = dyn.forward_dynamics(q, still, dyn.passive_forces(q, still))[1:]
        moved = q + 1e-7 * np.eye(model.nv)[1:]
        rest = np.broadcast_to(still, moved.shape)
        slopes = (dyn.forward_dynamics(moved, rest, dyn.passive_forces(moved, rest))[:, 1:] - a) / 1e-7
        q[1:] -= np.linalg.solve(slopes.T, a)
    return q


def car_axle() -> tuple[wt.Model, Callable[..., Any]]:
    """A chassis on two wheels, stiff struts between, tyres that follow a road: like the IVP test set's car axle."""
    builder = wt.Builder("car axle", (0, -9.81, 0))
    builder.body("chassis", 10.0, inertia=(0.1, 0.8, 0.8)).joint("body", "planar", "world", "chassis")
    for side, x in (("left", -0.5), ("right", 0.5)):
        builder.body(f"{side} wheel", 0.1, inertia=(1e-4, 1e-4, 1e-4))
        strut = {"stiffness": 1e5, "damping": 1e2}
        builder.joint(side, "prismatic", "chassis", f"{side} wheel", position=(x, 0, 0), axis=(0, 1, 0), **strut)
    model = builder.build()
    left, right, body = (model.slice(name).start for name in ("left", "right", "body"))

    def road(t: Any, q: Any, v: Any) -> Any:
        tau = 0 * v
        wave = 0.1 * np.sin(10 * t)
        # tyres as springs of 1e3 N/m along the struts, a weak one that keeps the chassis in place
        tau[left] = 1e3 * (wave - q[body + 1] - q[left])
        tau[right] = -1e3 * (q[body + 1] + q[right])
        tau[body] = -10 * q[body]
        return tau

    return model, road


def spinning_top() -> wt.Model:
    """A heavy top on its tip, leaning by 0.3 rad."""
    builder = wt.Builder("top", (0, 0, -9.81))
    builder.body("top", 1.0, center=(0, 0, 0.1), inertia=(0.002, 0.002, 0.001))
    return builder.joint("tip", "spherical", "world", "top", start=(np.cos(0.15), np.sin(0.15), 0, 0)).build()


# ---- contestants -----------------------------------------------------------------------------------------------------


def contest(problem: Problem, patience: float) -> dict[str, list[Run]]:
    """All runs of all contestants, ours first."""
    dyn = wt.compile(problem.model)
    act = np.zeros(len(problem.model.activations))
    start = problem.motion(dyn).project(0.0, np.concatenate([problem.q, problem.v, act]))
    reference = ours(problem, dyn, start, 1e-13) if problem.exact is None else problem.exact
    contestants = {"ours": lambda tolerance: ours(problem, dyn, start, tolerance)}
    f = right_hand_side(problem, dyn)
    f(0.0, start)
    contestants |= {name: method(f, start, problem.duration) for name, method in peers().items()}
    contestants |= exudyns(problem, start)
    runs: dict[str, list[Run]] = {name: [] for name in contestants}
    for name, solve in contestants.items():
        if name == "ours":
            solve(1e-2)  # compiles what it needs, however long that takes
        else:
            measured(solve, 1e-2, reference)
        longest = max((run.seconds for run in runs["ours"]), default=np.inf)
        for tolerance in TOLERANCES:
            found = measured(solve, tolerance, reference)
            if found is not None:
                runs[name].append(found)
            if found is None or (found.seconds > patience * longest and name != "ours"):
                break
    return runs


def measured(solve: Callable[[float], Array | None], tolerance: float, reference: Array) -> Run | None:
    """The least processor time of up to ten runs, and their error; None for a run that fails, or does not end."""
    seconds, spent = np.inf, 0.0
    for _ in range(10):
        began = time.process_time()
        try:
            with time_limit(GIVEN_UP_AFTER):
                y = solve(tolerance)
        except Exception:  # whatever stops a peer, it has no answer
            return None
        took = time.process_time() - began
        seconds, spent = min(seconds, took), spent + took
        if spent > ENOUGH:
            break
    if y is None or not np.all(np.isfinite(y)):
        return None
    return Run(seconds, float(np.max(np.abs(y - reference) / (1 + np.abs(reference)))))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise where what is inside takes longer, and again and again, for a peer may swallow it."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def ours(problem: Problem, dyn: Any, start: Array, tolerance: float) -> Array:
    """The last state of our integrator."""
    motion = problem.motion(dyn)
    task = Task(motion, start, np.array([0.0, problem.duration]), tolerance, tolerance / 100)
    *_, last = Adaptive(task).integrator.pieces(Progress(0.0, start), problem.duration)
    return last.state


def right_hand_side(problem: Problem, dyn: Any) -> Callable[[float, Array], Array]:
    """ẏ of one state, by as few calls as it takes."""
    model, n, m = problem.model, problem.model.nq, problem.model.nq + problem.model.nv
    forward, passive, rate = dyn.forward_dynamics, dyn.passive_forces, dyn.rate
    act, commands = problem.controller, problem.commands
    flat = model.nq == model.nv and all(joint.kind in ("revolute", "prismatic") for joint in model.joints)
    still = np.zeros(model.nv)
    sprung = has_passive_forces(model)
    timed = "t" in forward.inputs

    def f(t: float, y: Array) -> Array:
        q, v = y[:n], y[n:m]
        tau = passive(q, v) if sprung else still
        if act is not None:
            tau = tau + act(t, q, v)
        parts = [v if flat else rate(q, v)]
        if commands is not None:
            asked, memory = commands(t, q, v), y[m:]
            tau = tau + dyn.actuator_forces(q, v, asked, memory)
            return np.concatenate([*parts, forward(q, v, tau), dyn.activation_rates(asked, memory)])
        return np.concatenate([*parts, forward(q, v, tau, t) if timed else forward(q, v, tau)])

    return f


Peer = Callable[[Callable[[float, Array], Array], Array, float], Callable[[float], "Array | None"]]


def peers() -> dict[str, Peer]:
    """Those that are installed."""
    found: dict[str, Peer] = {name: scipys(name) for name in ("LSODA", "Radau", "DOP853")}
    try:
        import sksundae  # noqa: F401
    except ImportError:
        return found
    return found | {f"CVODE {method}": cvode(method) for method in ("BDF", "Adams")}


def scipys(name: str) -> Peer:
    """One of scipy's methods."""
    from scipy.integrate import solve_ivp

    def peer(f: Any, start: Array, duration: float) -> Callable[[float], Array | None]:
        def solve(tolerance: float) -> Array | None:
            run = solve_ivp(f, (0, duration), start, method=name, rtol=tolerance, atol=tolerance / 100)
            return run.y[:, -1] if run.success else None

        return solve

    return peer


def cvode(method: str) -> Peer:
    """CVODE with its own dense differences."""
    from sksundae.cvode import CVODE

    def peer(f: Any, start: Array, duration: float) -> Callable[[float], Array | None]:
        def filled(t: float, y: Array, rates: Array) -> None:
            rates[:] = f(t, y)

        def solve(tolerance: float) -> Array | None:
            solver = CVODE(filled, method=method, rtol=tolerance, atol=tolerance / 100, max_num_steps=10_000_000)
            run = solver.solve(np.array([0.0, duration]), start)
            return run.y[-1] if run.success else None

        return solve

    return peer


def exudyns(problem: Problem, start: Array) -> dict[str, Callable[[float], Array | None]]:
    """Generalised alpha, of second order, with as many steps as a tolerance asks for; nothing where it is not
    installed, or the problem has more than hinges, springs and pins in a plane."""
    model = problem.model
    plain = all(joint.kind == "revolute" for joint in model.joints) and all(c.kind == "pin" for c in model.constraints)
    if problem.controller is not None or problem.commands is not None or model.elements or not plain:
        return {}
    try:
        system = planar_system(model, *np.split(start, [model.nq]))
    except ImportError:
        return {}
    return {"Exudyn": lambda tolerance: system.solve(problem.duration, int(problem.duration * 10 / tolerance**0.5))}


# ---- what was found --------------------------------------------------------------------------------------------------


def least(runs: list[Run], target: float) -> float:
    """Seconds in which an accuracy was reached; infinite if it was not."""
    return min((run.seconds for run in runs if run.error <= target), default=np.inf)


def ratios(runs: dict[str, list[Run]]) -> dict[float, float]:
    """Our time over that of the best peer, for each accuracy that somebody reached."""
    found = {}
    for target in TARGETS:
        best = min(least(all_of, target) for who, all_of in runs.items() if who != "ours")
        ours = least(runs["ours"], target)
        if np.isfinite(ours) or np.isfinite(best):
            found[target] = ours / best
    return found


def tell(name: str, runs: dict[str, list[Run]]) -> None:
    """One line per accuracy: ours, the best peer, the ratio."""
    nearest = min((run.error for who, all_of in runs.items() if who != "ours" for run in all_of), default=np.nan)
    told = ratios(runs)
    print(f"{name} (a peer comes as near as {nearest:.0e}; at most {max(told.values()):.2f} times the best)")
    for target in TARGETS:
        times = {who: least(all_of, target) for who, all_of in runs.items()}
        best = min((who for who in times if who != "ours"), key=times.__getitem__)
        words = "  ".join(f"{who} {1e3 * seconds:.2f}" for who, seconds in times.items())
        if target in told:
            print(f"  {target:.0e}: ratio {told[target]:5.2f} to {best:10s} ms: {words}", flush=True)


def draw(found: dict[str, dict[str, list[Run]]], file: str) -> None:
    """One small diagram per problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = 4
    rows = -(-len(found) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(3.4 * columns, 2.6 * rows), squeeze=False)
    for place in axes.flat[len(found) :]:
        place.axis("off")
    for place, (name, runs) in zip(axes.flat, found.items(), strict=False):
        for who, all_of in runs.items():
            points = [(max(run.error, 1e-15), 1e3 * run.seconds) for run in all_of]
            style = {"color": "black", "linewidth": 2} if who == "ours" else {"linewidth": 1}
            place.loglog(*np.array(points).reshape(-1, 2).T, marker=".", markersize=3, label=who, **style)
        place.set_title(name, fontsize=8)
        place.set_xlim(1e-1, 1e-14)
        place.tick_params(labelsize=6, which="both")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", fontsize=9)
    figure.supxlabel("error of the last state", fontsize=9)
    figure.supylabel("processor time, ms", fontsize=9)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
