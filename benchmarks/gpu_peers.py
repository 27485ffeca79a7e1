"""Forward dynamics of ``frax`` and MuJoCo MJX on the same card, in float32, where they are installed.

Both are JAX libraries: a function of one state, mapped over a batch and compiled. MJX runs the robots' own files,
without contacts, limits and damping; ``frax`` runs the Panda that comes with it (seven joints, no fingers).
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers import mujoco_model
from benchmarks.robots import ROBOTS

BATCHES = (1 << 12, 1 << 14, 1 << 16, 1 << 18)
"""The best of these sizes counts."""

MJX_ROBOTS = ("Panda", "G1")
"""One arm and one humanoid: compiling takes minutes."""


class Peer(NamedTuple):
    """A rate in states per second, or the reason why there is none."""

    library: str
    robot: str
    rate: float
    reason: str = ""


def peers() -> Iterator[Peer]:
    """Everything that can be measured here."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the card
    try:
        import jax
    except ImportError as error:
        yield from (Peer(library, "", 0.0, str(error)) for library in ("frax", "MJX"))
        return
    if jax.default_backend() != "gpu":
        yield from (Peer(library, "", 0.0, f"JAX runs on {jax.default_backend()}") for library in ("frax", "MJX"))
        return
    for library, robot, prepare in (("frax", "Panda", _frax), *[("MJX", r, _mjx(r)) for r in MJX_ROBOTS]):
        try:
            function, nq, nv = prepare()
            yield Peer(library, robot, max(_rate(function, nq, nv)))
        except Exception as error:  # not installed, another version, not enough memory: the others still run
            yield Peer(library, robot, 0.0, f"{type(error).__name__}: {error}".splitlines()[0])


Prepared = tuple[Callable[..., Any], int, int]


def _frax() -> Prepared:
    import frax

    robot = frax.load_panda()
    return lambda q, v, tau: robot.forward_dynamics(q, v, tau, None), robot.nq, robot.nv


def _mjx(name: str) -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        from mujoco import mjx

        model = mujoco_model(next(r for r in ROBOTS if r.name == name), 1e-3)
        fixed = mjx.put_model(model)
        empty = mjx.make_data(fixed)

        def acceleration(q: Any, v: Any, tau: Any) -> Any:
            return mjx.forward(fixed, empty.replace(qpos=q, qvel=v, qfrc_applied=tau)).qacc

        return acceleration, model.nq, model.nv

    return prepare


def _rate(function: Callable[..., Any], nq: int, nv: int) -> Iterator[float]:
    """States per second for every batch size that fits."""
    import jax

    mapped = jax.jit(jax.vmap(function))
    rng = np.random.default_rng(0)
    for batch in BATCHES:
        q = rng.uniform(-1, 1, (batch, nq))
        if nq > nv:  # a free base
            q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
        arrays = [jax.device_put(x.astype("f4")) for x in (q, *rng.uniform(-1, 1, (2, batch, nv)))]
        result = np.asarray(mapped(*arrays))
        if not np.isfinite(result).all():
            raise ValueError("the results are not finite")
        times = []
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(4):
                last = mapped(*arrays)
            last.block_until_ready()
            times.append((time.perf_counter() - started) / 4)
        yield batch / statistics.median(times)
