"""How the MJCF and URDF files of installed packages fare: a table by package, and the reason of every refusal.

    python -m benchmarks.robot_files gymnasium gymnasium_robotics dm_control
    python -m benchmarks.robot_files --urdf FOLDER
    python -m benchmarks.robot_files --outcomes FILE FOLDER …

With ``--outcomes`` every verdict is a line of a file, and a later call goes on with the files that are not in it: the
table takes an hour, and may be interrupted. Every file is tried in a process of its own, which ends after ``--limit``
seconds of processor time whatever it does then. A package is named as it is imported, or is a folder. Of each file that
MuJoCo loads (Pinocchio, with ``--urdf``) and that has something that moves:

    loaded       ``wt.load`` reads it
    agrees       M, bias, passive and actuator forces and unconstrained accelerations are MuJoCo's, at random states and
                 commands, to AGREEMENT of the largest number; Pinocchio is asked for M, bias and accelerations
    left out     ... or they differ because of something that loading has named as left out
    overlaps     it starts with shapes that overlap by more than OVERLAP: their pairs are left out of the run below, by
                 ``wt.without_overlaps``
    simulated    one second by ``wt.simulate`` with its contacts, limits and actuators, from home
    apart        ... to an end state with overlap below OVERLAP
    clean        ... of those that do not start overlapping, as a share of them
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import random
import resource
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pinocchio
import xarray

import whippletree as wt
from whippletree.contact.kinematics.contact_set import contact_set_named

AGREEMENT = 1e-9
"""Largest difference of a quantity, relative to its largest number (or to 1)."""

OVERLAP = 1e-8
"""m"""

STATES = 3


@dataclass
class Verdict:
    """What became of one file."""

    path: str
    """Below the folder of the package."""
    loads: bool = True
    """Whether the peer loads it, and something in it moves."""
    loaded: bool = False
    agrees: bool = False
    left_out: bool = False
    overlaps: bool = False
    simulated: bool = False
    clean: bool = False
    apart: bool = False
    seconds: float = 0.0
    remarks: list[str] = field(default_factory=list)


class Outcomes:
    """Verdicts that a file keeps, one JSON object a line; without a file, none is kept."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        lines = self.path.read_text().splitlines() if self.path is not None and self.path.exists() else []
        found = (json.loads(line) for line in lines)
        self.known = {(record["package"], record["verdict"]["path"]): Verdict(**record["verdict"]) for record in found}

    def add(self, package: str, verdict: Verdict) -> None:
        """Keep a verdict; a later one on the same file replaces it."""
        self.known[package, verdict.path] = verdict
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"package": package, "verdict": asdict(verdict)}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--urdf", action="store_true", help="URDF files, beside Pinocchio")
    parser.add_argument("--only", default="", help="only files with this text in their path")
    parser.add_argument("--no-runs", action="store_true", help="load and compare only")
    parser.add_argument("--duration", type=float, default=1.0, help="of each run, s")
    parser.add_argument("--every", type=int, default=1, help="only every n-th file, for a sample")
    parser.add_argument("--sample", type=int, help="only so many files, chosen at random by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=120, help="s of processor time for a file")
    parser.add_argument("--outcomes", help="file of verdicts, to which new ones are added")
    options = parser.parse_args()
    mujoco.set_mju_user_warning(lambda text: None)
    outcomes = Outcomes(options.outcomes)
    rows = []
    for package in options.packages:
        folder = folder_of(package)
        paths = [
            path for path in sorted(folder.rglob("*.urdf" if options.urdf else "*.xml")) if options.only in str(path)
        ][:: options.every]
        if options.sample is not None:
            paths = random.Random(options.seed).sample(paths, len(paths))
        verdicts: list[Verdict] = []
        for path in paths:
            if len(verdicts) == options.sample:
                break
            name = str(path.relative_to(folder))
            verdict = outcomes.known.get((folder.name, name))
            if verdict is None:
                verdict = tried(path, name, options)
                outcomes.add(folder.name, verdict)
            if verdict.loads:
                verdicts.append(verdict)
                told = "; ".join(verdict.remarks) or "agrees" + ", simulated" * verdict.simulated
                print(f"  {name}: {told} ({verdict.seconds:.1f} s)", flush=True)
        rows.append((folder.name, verdicts))
    show(rows, "Pinocchio" if options.urdf else "MuJoCo")


def show(rows: list[tuple[str, list[Verdict]]], peer: str) -> None:
    """The table by package, with a row for all."""
    words = ("loaded", "agrees", "left_out", "overlaps", "simulated", "apart", "clean")
    heads = (peer, *[word.replace("_", " ") for word in words])
    print("\n" + "package".ljust(24) + "".join(head.rjust(11) for head in heads))
    if len(rows) > 1:
        rows = [*rows, ("all", [verdict for _, verdicts in rows for verdict in verdicts])]
    for package, verdicts in rows:
        counts = Counter(word for verdict in verdicts for word in words if getattr(verdict, word))
        told = "".join(f"{counts[word]:11}" for word in words)
        print(f"{package:24}{len(verdicts):11}{told} of {counts['loaded'] - counts['overlaps']}")


def folder_of(package: str) -> Path:
    """Where a package is, by name or folder."""
    folder = Path(package)
    if not folder.is_dir():
        found = importlib.util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise SystemExit(f"{package!r} is no folder and no installed package")
        folder = Path(found.submodule_search_locations[0])
    return folder


def tried(path: Path, name: str, options: argparse.Namespace) -> Verdict:
    """The last verdict on a file that its own process has told, before it ended or was ended.

    A signal could not end a run within this process: it arrives where LLVM is at work, and Python looks at it after.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_try, args=(there, path, name, options))
    process.start()
    there.close()
    verdict = Verdict(name)
    with suppress(EOFError):
        while True:
            verdict = here.recv()
    process.join()
    if process.exitcode == -signal.SIGXCPU:
        verdict.remarks.append(f"no end within {options.limit} s of processor time")
    elif process.exitcode:
        verdict.remarks.append(f"its process ended with {process.exitcode}")
    return verdict


def _try(told: Connection, path: Path, name: str, options: argparse.Namespace) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (options.limit, resource.RLIM_INFINITY))
    told.send(judge(path, name, options, told.send))


def judge(path: Path, name: str, options: argparse.Namespace, tell: Callable[[Verdict], None]) -> Verdict:
    """The verdict on a file with this name in its package; ``tell`` hears what it is before the run."""
    try:
        peer = pinocchio.buildModelFromUrdf(str(path)) if options.urdf else mujoco.MjModel.from_xml_path(str(path))
    except ValueError:
        return Verdict(name, loads=False)
    if not peer.nv:
        return Verdict(name, loads=False)
    verdict, start = Verdict(name), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = wt.load(path)
        except Exception as error:  # whatever it is, it is what a user would meet
            verdict.remarks.append(f"not loaded: {_short(error)}")
            return verdict
        verdict.loaded = True
        left = [line.removeprefix("- left out: ") for line in model.source.splitlines() if "- left out: " in line]
        acting = [text for text in left if not text.startswith(("sensors", "softness", "torsional", "key frames"))]
        _compare(verdict, model, peer, acting)
        if not options.no_runs:
            tell(verdict)
            _run(verdict, model, options.duration)
    verdict.seconds = time.process_time() - start
    return verdict


def _compare(verdict: Verdict, model: wt.Model, peer: Any, left_out: list[str]) -> None:
    try:
        errors = differences(model, peer) if isinstance(peer, mujoco.MjModel) else differences_of_urdf(model, peer)
    except Exception as error:
        verdict.remarks.append(f"not compared: {_short(error)}")
        return
    wrong = {name: error for name, error in errors.items() if not error <= AGREEMENT}
    verdict.agrees = not wrong
    verdict.left_out = bool(wrong and left_out)
    if wrong:
        told = ", ".join(f"{name} {error:.1e}" for name, error in wrong.items())
        verdict.remarks.append(f"{'left out: ' + '; '.join(left_out) if left_out else 'disagrees'}: {told}"[:300])


def differences(model: wt.Model, compiled: mujoco.MjModel) -> dict[str, float]:
    """The largest difference of each quantity from MuJoCo's, relative to its largest number."""
    ref, data, rng = wt.reference(model.tree), mujoco.MjData(compiled), np.random.default_rng(0)
    if (model.nq, model.nv) != (compiled.nq, compiled.nv):
        return {f"nq, nv = {model.nq}, {model.nv} instead of {compiled.nq}, {compiled.nv}": np.inf}
    numbers = [compiled.actuator(a.name).id if a.name else 0 for a in model.actuators if _named(compiled, a.name)]
    numbers = numbers if len(numbers) == len(model.actuators) else list(range(compiled.nu))
    memories = [int(compiled.actuator_actadr[numbers[k]]) for k in model.activations]
    compiled.actuator_actearly[:] = False  # forces of the activations that are given
    worst: dict[str, float] = {}
    for _ in range(STATES):
        mujoco.mj_resetData(compiled, data)
        mujoco.mj_integratePos(compiled, data.qpos, rng.normal(size=compiled.nv), 0.3)
        data.qvel[:] = rng.normal(size=compiled.nv)
        data.ctrl[:] = rng.normal(size=compiled.nu)
        data.act[:] = rng.uniform(size=compiled.na)
        mujoco.mj_forward(compiled, data)
        T, turning = velocity_map(compiled, data)
        M = np.zeros((compiled.nv, compiled.nv))
        mujoco.mj_fullM(compiled, data, M)
        q, v = data.qpos.copy(), np.linalg.solve(T, data.qvel)
        act = [data.act[memories]] if memories else []
        actuated = ref.actuator_forces(q, v, data.ctrl[numbers], *act) if model.actuators else np.zeros(model.nv)
        passive = ref.passive_forces(q, v)
        smooth = np.linalg.solve(T, data.qacc_smooth - turning)
        pairs = {
            "mass matrix": (ref.mass_matrix(q), T.T @ M @ T),
            "bias": (ref.bias(q, v), T.T @ (data.qfrc_bias + M @ turning)),
            "passive": (passive, T.T @ data.qfrc_passive),
            "actuators": (actuated, T.T @ data.qfrc_actuator),
            "accelerations": (ref.forward_dynamics(q, v, passive + actuated), smooth),
        }
        if memories:
            pairs["activations"] = ref.activation_rates(data.ctrl[numbers], *act), data.act_dot[memories]
        for name, (ours, theirs) in pairs.items():
            error = np.abs(np.asarray(ours, dtype=float) - theirs).max() / max(1.0, np.abs(theirs).max())
            worst[name] = max(worst.get(name, 0.0), float(error))
    return worst


def differences_of_urdf(model: wt.Model, peer: Any) -> dict[str, float]:
    """The largest difference of each quantity from Pinocchio's, relative to its largest number; joints by name."""
    model = model.tree
    ref, data, rng = wt.reference(model), peer.createData(), np.random.default_rng(0)
    joints = [joint for joint in model.joints if joint.type.nv]
    if model.nv != peer.nv or any(joint.type.nv > 1 for joint in joints):
        return {f"nv = {model.nv} instead of {peer.nv}, or joints of several freedoms": np.inf}
    numbers = [peer.getJointId(joint.name) for joint in joints]
    order = [int(peer.idx_vs[k]) for k in numbers]  # of Pinocchio's velocities, as ours go
    worst: dict[str, float] = {}
    for _ in range(STATES):
        q, v, theirs = rng.normal(size=model.nq), rng.normal(size=model.nv), np.zeros(peer.nq)
        speeds = np.zeros(peer.nv)
        for joint, k, i in zip(joints, numbers, order, strict=True):
            angle, first = q[model.q_slice(joint.name).start], int(peer.idx_qs[k])
            own = [np.cos(angle), np.sin(angle)] if peer.nqs[k] == 2 else [angle]
            theirs[first : first + len(own)], speeds[i] = own, v[model.slice(joint.name).start]
        place = [model.slice(joint.name).start for joint in joints]
        M = pinocchio.crba(peer, data, theirs)
        M = np.triu(M) + np.triu(M, 1).T
        pairs = {
            "mass matrix": (ref.mass_matrix(q)[np.ix_(place, place)], M[np.ix_(order, order)]),
            "bias": (ref.bias(q, v)[place], pinocchio.nonLinearEffects(peer, data, theirs, speeds)[order]),
        }
        if np.linalg.cond(M) < 1 / AGREEMENT:
            tau = ref.forward_dynamics(q, v, np.zeros(model.nv))[place]
            pairs["accelerations"] = tau, pinocchio.aba(peer, data, theirs, speeds, np.zeros(peer.nv))[order]
        for name, (ours, other) in pairs.items():
            error = np.abs(np.asarray(ours, dtype=float) - other).max() / max(1.0, np.abs(other).max())
            worst[name] = max(worst.get(name, 0.0), float(error))
    return worst


def _named(compiled: mujoco.MjModel, name: str) -> bool:
    return mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_ACTUATOR, name) >= 0


def velocity_map(compiled: mujoco.MjModel, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
    """T (nv, nv) with MuJoCo's velocities T v, and Ṫ v (nv,): a free joint's linear velocity is in world axes."""
    T, turning = np.eye(compiled.nv), np.zeros(compiled.nv)
    for joint in np.flatnonzero(compiled.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
        k = compiled.jnt_dofadr[joint]
        R = data.xmat[compiled.jnt_bodyid[joint]].reshape(3, 3)
        T[k : k + 6, k : k + 6] = 0
        T[k : k + 3, k + 3 : k + 6] = R
        T[k + 3 : k + 6, k : k + 3] = np.eye(3)
        turning[k : k + 3] = np.cross(R @ data.qvel[k + 3 : k + 6], data.qvel[k : k + 3])
    return T, turning


def _run(verdict: Verdict, model: wt.Model, duration: float) -> None:
    try:
        apart = wt.without_overlaps(model, tolerance=OVERLAP)
        verdict.overlaps = apart is not model
        run = wt.simulate(apart, duration=duration, progress=False)
    except Exception as error:
        verdict.remarks.append(f"{'overlapping, ' * verdict.overlaps}not simulated: {_short(error)}")
        return
    failure = run.attrs.get("failure")
    if failure or not np.all(np.isfinite(run.q.values)):
        verdict.remarks.append(f"{'overlapping, ' * verdict.overlaps}not simulated: {failure}")
        return
    verdict.simulated = True
    overlap = _overlap(apart, run, -1)
    verdict.apart = overlap < OVERLAP
    verdict.clean = verdict.apart and not verdict.overlaps
    if verdict.overlaps:
        verdict.remarks.append(f"simulated without {len(model.contacts) - len(apart.contacts)} overlapping pairs")
    if not verdict.apart:
        verdict.remarks.append(f"overlap of {overlap:.2e} m after {duration:g} s")


def _overlap(model: wt.Model, run: xarray.Dataset, row: int) -> float:
    """How deep the surfaces of two shapes overlap in a row of a run, m; gaps are counted from margins."""
    if "contact_gap" not in run:
        return float(run.penetration.values[row]) if "penetration" in run else 0.0
    margins = {contact.name: float(contact.margin) for contact in model.pairs}
    candidates = contact_set_named(model, run.contact.values.tolist()).candidates
    own = [margins[candidate.contact] for candidate in candidates]
    return float(np.max(-(run.contact_gap.values[row] + own), initial=0.0))


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


if __name__ == "__main__":
    main()
