"""``python -m benchmarks.loops``: closed loops, by size, depth and number, beside Pinocchio and against 50 digits.

    parallel chains   the family of GRBDA's benchmark: two chains of n hinges, a rod between the ends of their k-th
                      links; the loop has 2 k + 1 links, and the rest hangs on it
    published         the published accelerations of one of them, by every route
    cells             four-bar cells in series: time per call beside that of the tree
    accuracy          of the same: errors against 50 digits beside those that are predicted of each route
    robots            Cassie on a free base, Stewart platform, delta robot, Robotiq gripper: operations of rows, of the
                      tree and of the whole, and times
    scenes            separate four-bars, and free bodies, in one model: compile time and time per call by their number

Times are microseconds of processor time, the least of several rounds. Pinocchio's functions get the same closures as
contacts of three rows (its kind with two does not exist) and take one state at a time. Errors are relative to the
largest acceleration.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import mpmath
import numpy as np

import whippletree as wt
from whippletree.accuracy.predicted_error import predicted_errors
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.constraints.route_choice import ROUTES
from whippletree.functions import find
from whippletree.model import WORLD, Model
from whippletree.model.builder import Builder
from whippletree.spatial import Pose

DIGITS = 50
MOST_RECORDED_CELLS = 20
"""Cells up to which the elimination of the whole block matrix is recorded operation by operation."""
CHAINS = ((5, 1), (5, 2), (5, 5), (10, 2), (10, 5), (20, 2), (20, 5), (40, 2), (40, 10))
"""Hinges of each chain, and the link whose end carries the rod."""
PUBLISHED = {
    "left": (-8.65391124653, 19.0809654783, -16.506437634, -11.629252309),
    "right": (-7.85400676428, 17.4811565138, -3.29533145037, 23.212457009),
    "rod": (-10.2673398368,),
}
"""Accelerations of chains of five with a rod at links 2: joints 1, 2, 3 and 5 of both, and the rod's."""
PROXIMAL = 1e-12
"""Pinocchio's regularisation where it must have one (lcaba); its documentation calls 1e-6 typical."""


def parallel_chains(n: int, k: int) -> tuple[Model, np.ndarray, np.ndarray]:
    """Two chains of n links with a rod between the ends of links k, and the published state."""
    builder = Builder(f"parallel chains {n}/{k}", (0, -9.81, 0))
    link: dict[str, Any] = {"mass": 0.25, "inertia": (0.005, 0.005, 0.01)}
    for side, x in (("left", 0.0), ("right", 1.0)):
        for i in range(1, n + 1):
            parent = WORLD if i == 1 else f"{side} {i - 1}"
            place = (x, 0, 0) if i == 1 else (0, 1, 0)
            builder.body(f"{side} {i}", center=(0, 0.5, 0), **link)
            builder.joint(f"{side} joint {i}", "revolute", parent, f"{side} {i}", position=place)
    builder.body("rod", center=(0, 0.5, 0), **link)
    builder.joint("rod joint", "revolute", f"left {k}", "rod", position=(0, 1, 0))
    builder.frame("rod end", "rod", position=(1, 0, 0)).frame("right end", f"right {k}", position=(0, 1, 0))
    model = builder.constraint("pin", "pin", "rod end", "right end").build()
    q, v = np.zeros(model.nv), np.zeros(model.nv)
    for i in range(1, n + 1):
        angle, rate = (-1) ** i * i / 10, 1 / (i + 1)
        for side, sign in (("left", 1), ("right", -1 if i > k else 1)):
            own = model.slice(f"{side} joint {i}").start
            q[own], v[own] = sign * angle, sign * rate
    own = model.slice("rod joint").start
    left = [model.slice(f"left joint {i}").start for i in range(1, k + 1)]
    q[own], v[own] = -q[left].sum(), -v[left].sum()
    return model, q, v


def published_errors(functions: Any) -> np.ndarray:
    """Relative differences from the published accelerations."""
    model, q, v = parallel_chains(5, 2)
    a = functions(model).forward_dynamics(q, v, np.zeros(model.nv))
    names = {side: [f"{side} joint {i}" for i in (1, 2, 3, 5)] for side in ("left", "right")} | {"rod": ["rod joint"]}
    found = [a[model.slice(name)][0] for side in PUBLISHED for name in names[side]]
    numbers = np.concatenate(list(PUBLISHED.values()))
    return np.abs(np.array(found) - numbers) / np.abs(numbers)


class PinocchioLoops:
    """A model of this library as one of Pinocchio, its closures as contacts; for one state at a time."""

    def __init__(self, model: Model) -> None:
        import pinocchio as pin

        self.pin, self.model = pin, pin.Model()
        self.model.gravity.linear = np.asarray(model.gravity, dtype=float)
        placed: dict[str, tuple[int, Any]] = {WORLD: (0, pin.SE3.Identity())}
        for body, joint in zip(model.bodies, model.joints, strict=True):
            number, outer = placed[joint.parent]
            at = outer * pin.SE3(np.asarray(joint.pose, dtype=float))
            if joint.kind != "weld":
                number = self.model.addJoint(number, self._joint(joint), at, joint.name)
                at = pin.SE3.Identity()
            inertia = pin.Inertia(float(body.mass), body.center.astype(float), body.inertia.astype(float))
            self.model.appendBodyToJoint(number, inertia, at)
            placed[body.name] = (number, at)
        self.data = self.model.createData()
        self.contacts, self.memory = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for c in model.constraints:
            if c.kind in ("coupling", "gear"):
                continue  # it has none of these: fewer rows than ours
            whole = c.kind in ("weld", "slider")
            ends = [model.frame(name) for name in c.on]
            (i, first), (j, second) = (placed[end.body] for end in ends)
            first, second = (
                at * pin.SE3(np.asarray(end.pose, dtype=float)) for at, end in zip((first, second), ends, strict=True)
            )
            kind = pin.ContactType.CONTACT_6D if whole else pin.ContactType.CONTACT_3D
            contact = pin.RigidConstraintModel(kind, self.model, i, first, j, second, pin.ReferenceFrame.LOCAL)
            self.contacts.append(contact)
            self.memory.append(contact.createData())
        pin.initConstraintDynamics(self.model, self.data, self.contacts, self.memory)
        self.settings = pin.ProximalSettings(1e-12, PROXIMAL, 20)

    def _joint(self, joint: Any) -> Any:
        pin, axis = self.pin, np.asarray(joint.axis, dtype=float)
        match joint.kind:
            case "revolute":
                return pin.JointModelRevoluteUnaligned(axis)
            case "prismatic":
                return pin.JointModelPrismaticUnaligned(axis)
            case "spherical":
                return pin.JointModelSpherical()
            case "universal":
                return pin.JointModelUniversal(axis, np.asarray(joint.second_axis, dtype=float))
            case _:
                return pin.JointModelFreeFlyer()

    def dense(self, q: Any, v: Any, tau: Any) -> Callable[[], Any]:
        """``constraintDynamics``."""
        pin = self.pin
        return lambda: pin.constraintDynamics(
            self.model, self.data, q, v, tau, self.contacts, self.memory, self.settings
        )

    def recursive(self, q: Any, v: Any, tau: Any) -> Callable[[], Any]:
        """``lcaba``."""
        pin = self.pin
        data = self.model.createData()
        pin.computeJointMinimalOrdering(self.model, data, self.contacts)
        return lambda: pin.lcaba(self.model, data, q, v, tau, self.contacts, self.memory, self.settings)


def microseconds(call: Callable[[], Any], states: int = 1, rounds: int = 9) -> float:
    """The least processor time of a call, per state."""
    call()
    start = time.process_time()
    call()
    repeats = max(1, int(0.02 / max(time.process_time() - start, 1e-6)))
    best = np.inf
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(repeats):
            call()
        best = min(best, (time.process_time() - start) / repeats)
    return best / states * 1e6


def exact(model: Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Accelerations to 50 digits, by the literal block matrix."""
    with mpmath.workdps(DIGITS):
        numbers = [np.array([mpmath.mpf(float(x)) for x in values], dtype=object) for values in (q, v, tau)]
        found = wt.reference(model, route="block").forward_dynamics(*numbers)
        return np.array([float(x) for x in found])


def batch_of(
    model: Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray, route: str | None = None, rounds: int = 9
) -> tuple[float, float]:
    """Time per state in a batch, and of a single call.

    On one thread: of two models that are compared, a batch of the one may be long enough for a second thread and a
    batch of the other not, and processor time of two threads on neighbouring cores is more than that of one.
    """
    dyn = wt.compile(model, route=route, threads=1)
    count = 4096 if model.nv <= 60 else 512
    many = [np.repeat(x[None], count, axis=0) for x in (q, v, tau)]
    batch = microseconds(lambda: dyn.forward_dynamics(*many), count, rounds)
    return batch, microseconds(lambda: dyn.forward_dynamics(q, v, tau), rounds=rounds)


def chain_lines() -> Iterator[str]:
    """Parallel chains by depth and loop size."""
    yield "parallel chains: µs per state (batch | one call), and errors against 50 digits"
    heads = f"{'ours':>14} {'embedding':>14} {'block':>14} {'tree':>7} {'pin':>7} {'lcaba':>7}"
    yield f"{'n':>3} {'k':>3} {heads}  errors: ours, embedding, block, pin, lcaba"
    for n, k in CHAINS:
        model, q, v = parallel_chains(n, k)
        tau = np.zeros(model.nv)
        ours = batch_of(model, q, v, tau)
        embedded = batch_of(model, q, v, tau, "embedding")
        block = batch_of(model, q, v, tau, "schur") if model.nv <= 60 else (np.nan, np.nan)
        tree = batch_of(model.tree, q, v, tau)
        peer = PinocchioLoops(model)
        calls = [peer.dense(q, v, tau), peer.recursive(q, v, tau)]
        right = exact(model, q, v, tau)
        answers = [wt.compile(model, route=route).forward_dynamics(q, v, tau) for route in (None, "embedding")]
        answers.append(wt.reference(model, route="block").forward_dynamics(q, v, tau))
        answers += [np.array(call()) for call in calls]
        errors = [np.abs(answer - right).max() / np.abs(right).max() for answer in answers]
        times = [microseconds(call) for call in calls]
        pairs = " ".join(f"{a:6.3f} |{b:6.2f}" for a, b in (ours, embedded, block))
        yield (
            f"{n:3} {k:3} {pairs} {tree[0]:7.3f} {times[0]:7.2f} {times[1]:7.2f}  "
            + ", ".join(f"{error:.1e}" for error in errors)
        )


def published_lines() -> Iterator[str]:
    """The published state of chains of five, by every route."""
    yield "published accelerations of chains of five with a rod at links 2: largest relative difference"
    for route in ROUTES:
        yield f"  {route:12} {published_errors(partial(wt.reference, route=route)).max():.1e}"
    yield f"  {'compiled':12} {published_errors(wt.compile).max():.1e}"


def cell_lines() -> Iterator[str]:
    """Four-bar cells in series."""
    yield "four-bar cells: first answer, µs per state in a batch and of one call, beside the tree"
    for cells in (5, 10, 20, 40, 100, 1000):
        start = time.process_time()
        model = wt.mechanisms.four_bar_chain(cells)
        q, v, tau = model.home.q, np.full(model.nv, 0.1), np.ones(model.nv)
        wt.compile(model).forward_dynamics(q, v, tau)
        first = time.process_time() - start
        (batch, one), (tree, alone) = batch_of(model, q, v, tau), batch_of(model.tree, q, v, tau)
        yield (
            f"{cells:5} first {first:6.2f} s   batch {batch:8.3f} ({batch / tree:4.2f} of the tree)   "
            f"one call {one:7.2f} ({one / alone:4.2f})"
        )


def accuracy_lines() -> Iterator[str]:
    """Four-bar cells in series: what rounding does to accelerations, and what is predicted of each route by itself."""
    yield "four-bar cells: relative errors against 50 digits (predicted), and how far the routes are apart"
    for cells in (5, 10, 20, 40):
        model = wt.mechanisms.four_bar_chain(cells)
        rng = np.random.default_rng(1)
        dyn, q, tau = wt.compile(model), model.home.q, rng.normal(size=model.nv)
        v = np.asarray(dyn.project_velocity(q, rng.normal(size=model.nv)))
        right, answers, told = exact(model, q, v, tau), {}, []
        for route in ("embedding", "block"):
            answers[route] = wt.reference(model, route=route).forward_dynamics(q, v, tau)
            if route == "block" and cells > MOST_RECORDED_CELLS:
                told.append(f"{route} {relative(answers[route] - right, right):.1e}")
                continue
            predicted = predicted_errors(model, q, v, tau, routes=(route,))[route]
            told.append(f"{route} {relative(answers[route] - right, right):.1e} ({predicted:.1e})")
        told.append(f"compiled {relative(dyn.forward_dynamics(q, v, tau) - right, right):.1e}")
        yield f"{cells:5} {', '.join(told)}; apart {relative(answers['embedding'] - answers['block'], right):.1e}"


def relative(difference: np.ndarray, of: np.ndarray) -> float:
    """Length of a difference, of that of a vector."""
    return float(np.linalg.norm(difference) / np.linalg.norm(of))


def robots() -> Iterator[tuple[str, Model]]:
    """Cassie in several descriptions on a free base, platforms, and the Robotiq gripper where its package is installed
    (``dm_robotics_moma``, which needs no others for its files)."""
    import pinocchio as pin

    folder = Path(pin.__file__).parents[4] / "share/example-robot-data/robots/cassie_description/robots"
    for name in ("cassie.sdf", "cassie_reduced.sdf", "cassie_simple.sdf", "cassie_v2.sdf"):
        yield name, _freed(folder / name)
    yield "Stewart platform", wt.mechanisms.stewart_platform()
    yield "delta robot", wt.mechanisms.delta_robot()
    try:
        wheel = distribution("dm_robotics_moma")
    except PackageNotFoundError:
        return
    gripper = "dm_robotics/moma/models/vendor/robotiq_beta_robots/mujoco/robotiq_2f85.xml"
    yield "Robotiq 2F-85", wt.load(Path(str(wheel.locate_file(gripper))))


def _freed(path: Path) -> Model:
    """A robot of an SDF file on a free base: without the slide on which some of Cassie's files hang its pelvis."""
    text = re.sub(r'<joint name="static".*?</joint>', "", path.read_text(), flags=re.DOTALL)
    with TemporaryDirectory() as empty:
        copy = Path(empty) / path.name
        copy.write_text(text)
        return wt.load(copy, base="free")


def robot_lines() -> Iterator[str]:
    """Robots with loops: operations, times, and Pinocchio's."""
    yield "robots: operations (rows, whole, tree), µs per state in a batch (of the tree) and alone, Pinocchio's"
    for name, model in robots():
        rows, whole, tree = (
            operations(m, function)
            for m, function in (
                (model, "constraint_bias"),
                (model, "forward_dynamics"),
                (model.tree, "forward_dynamics"),
            )
        )
        q, v, tau = model.home.q, np.zeros(model.nv), np.zeros(model.nv)
        peers = peer_calls(model)
        rounds = []
        for _ in range(5):  # in turns, so that a busy machine is busy for all of them
            (batch, one), (alone, _) = (batch_of(m, q, v, tau, rounds=2) for m in (model, model.tree))
            rounds.append([batch, one, alone, *[microseconds(call, rounds=2) for call in peers.values()]])
        batch, one, alone, *theirs = np.min(rounds, axis=0)
        share = f"{batch / alone:4.2f}" if np.all(np.isfinite(tree_answer(model))) else "   –"
        told = [f"{word} {time_of:6.1f} ({time_of / batch:3.0f}×)" for word, time_of in zip(peers, theirs, strict=True)]
        yield f"{name:20} {rows:6} {whole:6} {tree:6}   {batch:6.3f} ({share}) {one:6.2f}   {', '.join(told)}"


def tree_answer(model: Model) -> Any:
    """Accelerations of the tree at home; NaN where it has massless motions, which only its loops carry."""
    dyn = wt.compile(model.tree)
    try:
        return dyn.forward_dynamics(model.home.q, np.zeros(model.nv), np.zeros(model.nv))
    except wt.SingularSystemError:
        return np.nan


def peer_calls(model: Model) -> dict[str, Callable[[], Any]]:
    """Pinocchio's functions on the same closures, by name; none where its answers are not finite (massless links)."""
    peer = PinocchioLoops(model)
    neutral = peer.pin.neutral(peer.model), np.zeros(peer.model.nv), np.zeros(peer.model.nv)
    calls = {"constraintDynamics": peer.dense(*neutral), "lcaba": peer.recursive(*neutral)}
    return {word: call for word, call in calls.items() if np.all(np.isfinite(call()))}


def operations(model: Model, function: str) -> int:
    """Arithmetic operations of a function, unrolled."""
    (block,) = unrolled_program(model, find(function, model), (), ()).body
    return int(block.code.operations)  # type: ignore[union-attr]


def scene(count: int) -> Model:
    """Separate four-bars beside each other."""
    one = wt.mechanisms.four_bar()
    builder = Builder(f"{count} four-bars", (0, -9.81, 0))
    for k in range(count):
        for body in one.bodies:
            builder.body(f"{body.name} {k}", body.mass, body.center, body.inertia)
        for joint, part in zip(one.joints, one.q_slices, strict=True):
            at = Pose.from_matrix(joint.pose)
            parent = WORLD if joint.parent == WORLD else f"{joint.parent} {k}"
            place = at.p + (np.array([0, 0, k]) if parent == WORLD else 0)
            start = float(one.home.q[part][0])
            builder.joint(f"{joint.name} {k}", joint.kind, parent, f"{joint.child} {k}", position=place, start=start)
        for frame in one.frames:
            builder.frame(f"{frame.name} {k}", f"{frame.body} {k}", position=frame.pose[:3, 3])
        for c in one.constraints:
            builder.constraint(f"{c.name} {k}", c.kind, *(f"{name} {k}" for name in c.on), **c.parameters)
    return builder.build()


def scene_lines() -> Iterator[str]:
    """Separate mechanisms in one scene."""
    yield "scenes of separate four-bars: building, compiling (processor time), µs per call and per four-bar"
    for count in (25, 100, 400):
        start = time.process_time()
        model = scene(count)
        q, v, tau = model.home.q, np.zeros(model.nv), np.zeros(model.nv)
        built = time.process_time() - start
        dyn = wt.compile(model)
        start = time.process_time()
        dyn.forward_dynamics(q, v, tau)
        first = time.process_time() - start
        call = microseconds(partial(dyn.forward_dynamics, q, v, tau))
        yield f"{count:5} {built:7.2f} s {first:7.2f} s {call:9.2f} {call / count:7.3f}"
    yield "their derivatives, and mass matrices of free bodies: first call, nothing cached (s), µs per call"
    for count in (25, 100):
        yield _first_and_later(f"{count} four-bars", scene(count), "forward_dynamics_derivatives")
    for count in (20, 50, 100):
        builder = Builder(f"{count} free bodies")
        for k in range(count):
            builder.body(f"body {k}", 1.0, (0.1, 0, 0), (0.1, 0.2, 0.3)).joint(f"joint {k}", "free", WORLD, f"body {k}")
        yield _first_and_later(f"{count} free bodies", builder.build(), "mass_matrix")


def _first_and_later(what: str, model: Model, name: str) -> str:
    """The first and a later call of a function at home, at rest."""
    given = [model.home.q, *[np.zeros(model.nv)] * (len(find(name, model).inputs) - 1)]
    with TemporaryDirectory() as folder, patch.dict(os.environ, WHIPPLETREE_CACHE=folder):
        start = time.process_time()
        function = getattr(wt.compile(model), name)
        function(*given)
        first = time.process_time() - start
    return f"{what:16} {name:30} {first:7.2f} s {microseconds(partial(function, *given)):9.2f}"


PARTS = {
    "published": published_lines,
    "chains": chain_lines,
    "cells": cell_lines,
    "accuracy": accuracy_lines,
    "robots": robot_lines,
    "scenes": scene_lines,
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="which tables; default: all")
    for part in parser.parse_args().parts or PARTS:
        for line in PARTS[part]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
