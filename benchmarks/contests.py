"""What is measured against what: each contest yields rows of (subject, measure, us, peer, ratio)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import whippletree as wt
from benchmarks.peers import MuJoCo, Pinocchio
from benchmarks.robots import ROBOTS, Robot, model_of, states
from benchmarks.row import BATCH, Row
from benchmarks.timing import alternating
from whippletree.compiler.cpu.threads import available_cores


def robot_rows(robot: Robot) -> Iterator[Row]:
    """Batches and single calls of one robot against Pinocchio."""
    model = model_of(robot)
    dyn = wt.compile(model, threads=1)
    s = states(model, BATCH)
    one = [x[0] for x in s]
    pin = Pinocchio(robot, BATCH)
    out, square = np.empty_like(s.v), np.empty((BATCH, model.nv, model.nv))
    batches = {
        "forward dynamics": (lambda: dyn.forward_dynamics(s.q, s.v, s.tau, out=out), pin.forward_batch),
        "inverse dynamics": (lambda: dyn.inverse_dynamics(s.q, s.v, s.tau, out=out), pin.inverse_batch),
    }
    for measure, (ours, theirs) in batches.items():
        t = alternating({"ours": ours, "peer": theirs})
        yield Row(robot.name, f"{measure}, batch", t["ours"] / BATCH * 1e6, t["peer"] / BATCH * 1e6, "Pinocchio")
    # Pinocchio has no batch loop for these: its single call from Python is compared with our batch
    squares = tuple(np.empty((BATCH, model.nv, model.nv)) for _ in range(3))
    for measure, ours, theirs in (
        ("mass matrix, batch", lambda: dyn.mass_matrix(s.q, out=square), pin.mass_matrix_one),
        (
            "forward dynamics derivatives, batch",
            lambda: dyn.forward_dynamics_derivatives(s.q, s.v, s.tau, out=squares),
            pin.derivatives_one,
        ),
    ):
        t = alternating({"ours": ours, "peer": theirs}, rounds=7)
        yield Row(robot.name, measure, t["ours"] / BATCH * 1e6, t["peer"] * 1e6, "Pinocchio", "peer: single calls")
    for measure, ours, theirs in (
        ("forward dynamics, single call", lambda: dyn.forward_dynamics(*one), pin.forward_one),
        ("inverse dynamics, single call", lambda: dyn.inverse_dynamics(*one), pin.inverse_one),
    ):
        t = alternating({"ours": ours, "peer": theirs})
        yield Row(robot.name, measure, t["ours"] * 1e6, t["peer"] * 1e6, "Pinocchio")


def thread_rows(robot: Robot = ROBOTS[-1], batch: int = 65536) -> Iterator[Row]:
    """A large batch on every core against one thread: how much of the machine is used."""
    model = model_of(robot)
    s, cores = states(model, batch), available_cores()
    out = np.empty_like(s.v)
    one, all_ = (partial(wt.compile(model, threads=n).forward_dynamics, s.q, s.v, s.tau, out=out) for n in (1, cores))
    t = alternating({"ours": all_, "peer": one}, rounds=7)
    each = {name: seconds / batch * 1e6 for name, seconds in t.items()}
    yield Row(robot.name, f"forward dynamics, {cores} threads", each["ours"], each["peer"], "one thread")


def chain_rows(lengths: tuple[int, ...] = (300,), alone: tuple[int, ...] = (1000, 10_000, 100_000)) -> Iterator[Row]:
    """Forward dynamics of planar chains; Pinocchio's memory grows too fast for the long ones."""
    for n in lengths:
        yield from _chain_contest(n, batch=256)
    for n in alone:
        model = wt.mechanisms.chain(n)
        one = [x[0] for x in states(model, 1)]
        t = alternating({"ours": partial(wt.compile(model, threads=1).forward_dynamics, *one)}, rounds=5)["ours"]
        yield Row(f"chain of {n}", "forward dynamics, single call", t * 1e6, None, "", f"{t / n * 1e9:.0f} ns a body")


def _chain_contest(n: int, batch: int) -> Iterator[Row]:
    model = wt.mechanisms.chain(n)
    forward, pin = wt.compile(model, threads=1).forward_dynamics, Pinocchio.chain(n, batch)
    many = states(model, batch)
    t = alternating({"ours": partial(forward, *many), "peer": pin.forward_batch}, rounds=5)
    each = {name: seconds / batch * 1e6 for name, seconds in t.items()}
    yield Row(f"chain of {n}", "forward dynamics, batch", each["ours"], each["peer"], "Pinocchio")
    t = alternating({"ours": partial(forward, *[x[0] for x in many]), "peer": pin.forward_one})
    yield Row(f"chain of {n}", "forward dynamics, single call", t["ours"] * 1e6, t["peer"] * 1e6, "Pinocchio")


def rollout_rows(robot: Robot = ROBOTS[0], batch: int = 1024, steps: int = 1000, dt: float = 1e-3) -> Iterator[Row]:
    """A roll-out of an unforced arm against MuJoCo's, same integrator and step; the final states are compared."""
    model = model_of(robot)
    dyn, s, mujoco = wt.compile(model, threads=1), states(model, batch), MuJoCo(robot, dt)
    still = np.zeros((1, 1, model.nv))
    tau = np.broadcast_to(still, (batch, steps, model.nv))
    q, v = dyn.rollout(s.q, s.v, tau, dt)
    theirs = mujoco.rollout(s.q[:8], s.v[:8], steps)[:, -1]
    difference = np.abs(np.concatenate([q[:8, -1], v[:8, -1]], axis=1) - theirs).max()
    t = alternating({"ours": lambda: dyn.rollout(s.q, s.v, tau, dt)}, rounds=3)
    few = batch // 16  # MuJoCo is timed on a part of the batch: its time is proportional to it
    p = alternating({"peer": lambda: mujoco.rollout(s.q[:few], s.v[:few], steps)}, rounds=3)
    yield Row(
        robot.name,
        f"roll-out, {steps} steps, batch {batch}",
        t["ours"] / (batch * steps) * 1e6,
        p["peer"] / (few * steps) * 1e6,
        "MuJoCo",
        f"largest difference of final states {difference:.1e}",
    )
