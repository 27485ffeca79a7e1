"""Loops whose rows depend on each other at a configuration, alone and among random loops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np

import whippletree as wt
from strategies import Motion, convert, make_looped_model, pose
from whippletree.functions.reference import reference
from whippletree.mechanisms.linkages import rod
from whippletree.model import Model, State

PITCH, ROCKER, ANGLE = 1.0, 0.7, 0.6


def parallelograms(units: int, rockers: int = 2, *, chained: bool, base: str | None = None) -> Model:
    """Equal rockers on one coupler each: cells of a chain, or legs side by side; on the ground or on a moving base."""
    builder = wt.Builder("parallelograms", (0, -9.81, 0))
    ground = "world"
    if base:
        ground = "base"
        builder.body("base", 5.0, inertia=(1, 1, 1)).joint("base", base, "world", "base")
    for u in range(units):
        builder.body(f"coupler {u}", **rod(1.0, PITCH * (rockers - 1)))
        for k in range(rockers):
            x = PITCH * (k if chained else k + u * rockers)
            builder.body(f"rocker {u}.{k}", **rod(0.5, ROCKER))
            builder.joint(f"rocker {u}.{k}", "revolute", ground, f"rocker {u}.{k}", position=(x, 0, 0), start=ANGLE)
            builder.frame(f"end {u}.{k}", f"rocker {u}.{k}", position=(ROCKER, 0, 0))
        builder.joint(
            f"coupler {u}", "revolute", f"rocker {u}.0", f"coupler {u}", position=(ROCKER, 0, 0), start=-ANGLE
        )
        for k in range(1, rockers):
            builder.frame(f"eye {u}.{k}", f"coupler {u}", position=(PITCH * k, 0, 0))
            builder.constraint(f"pin {u}.{k}", "pin", f"end {u}.{k}", f"eye {u}.{k}")
        ground = f"coupler {u}" if chained else ground
    return builder.build()


def change_point_linkage(rng: Random) -> tuple[Model, np.ndarray, np.ndarray]:
    """A planar four-bar with a + b = c + d (crank, coupler, rocker, ground), all bars in line at q = 0, and a velocity
    along one of the two branches that meet there.

    In absolute angles the loop asks for a α̇ + b β̇ = c γ̇ and, to second order, for a α̇² + b β̇² = c γ̇²: with x = β̇ / γ̇,
    b (a + b) x² − 2 b c x + c (c − a) = 0, whose discriminant is 4 a b c d.
    """
    a, b = rng.randint(16, 64) / 64, rng.randint(16, 64) / 64
    d = rng.randint(8, int(64 * (a + b)) - 8) / 64
    c = a + b - d
    builder = wt.Builder("change point", (0, -9.81, 0))
    for name, length in (("crank", a), ("coupler", b), ("rocker", c)):
        builder.body(f"line {name}", **rod(rng.uniform(0.3, 1.5), length))
    builder.joint("line crank", "revolute", "world", "line crank", start=0.6)
    builder.joint("line coupler", "revolute", "line crank", "line coupler", position=(a, 0, 0), start=-0.9)
    builder.joint("line rocker", "revolute", "world", "line rocker", position=(d, 0, 0), start=0.6)
    builder.frame("line eye", "line coupler", position=(b, 0, 0)).frame("line end", "line rocker", position=(c, 0, 0))
    model = builder.constraint("line pin", "pin", "line end", "line eye").build()
    rate = rng.choice([-1, 1]) * rng.uniform(0.5, 2.0)
    x = (b * c + rng.choice([-1, 1]) * np.sqrt(a * b * c * d)) / (b * (a + b))
    turns = {"line crank": (c - b * x) / a * rate, "line coupler": x * rate, "line rocker": rate}
    v = np.zeros(3)
    for name, turn in turns.items():
        v[model.slice(name)] = turn - (turns["line crank"] if name == "line coupler" else 0.0)
    return model, np.zeros(3), v


def parallelogram_in_line(rng: Random) -> tuple[Model, np.ndarray, np.ndarray]:
    """Two or three equal rockers on a coupler, in line, turning as parallelograms do; three have redundant rows."""
    model = parallelograms(1, rng.choice([2, 3]), chained=False)
    rate = rng.uniform(-2, 2)
    return model, np.zeros(model.nq), np.array([rate if j.name[0] == "r" else -rate for j in model.joints])


def allowed_velocity(others: Model, motion: Motion) -> np.ndarray:
    """The velocity of random loops, on their rows alone: what a projection of the whole changes could turn a loop in
    line out of its branches."""
    if not others.constraints:
        return np.asarray(motion.v, dtype=float)
    return np.asarray(reference(others, route="nullspace").project_velocity(motion.q, motion.v), dtype=float)


@dataclass(frozen=True)
class SingularCase:
    """A model with one loop whose rows depend on each other at a motion."""

    model: Model
    motion: Motion
    regular: tuple[np.ndarray, np.ndarray, np.ndarray]
    """Another state, at which no rows do."""
    words: str
    """What it is made of."""


def make_singular_model(seed: int) -> SingularCase:
    """A random tree of loops that stands on a loop in line, or carries it, moving or at rest."""
    rng = Random(f"singular {seed}")
    massless = rng.random() < 0.3
    others, motion = make_looped_model(rng.randrange(10**6), limbs=rng.randint(1, 2), massless=massless)
    make = rng.choice([parallelogram_in_line, change_point_linkage])
    motion = motion._replace(v=allowed_velocity(others, motion))
    loop, q, v = make(rng)
    at_rest = rng.random() < 0.3
    if at_rest:
        v = 0 * v
    carried = rng.random() < 0.5
    body = rng.choice([*[b.name for b in others.bodies], "world"])
    at, place = pose(rng), np.eye(4)
    place[:3, :3], place[:3, 3] = convert(at.R, float), convert(at.p, float)
    if carried:
        whole = joined(others, loop, body, place)
        first, second = (motion.q, motion.v, motion.tau), (q, v, np.zeros(loop.nv))
    else:
        body = rng.choice([b.name for b in loop.bodies])
        whole = joined(loop, others, body, place)
        first, second = (q, v, np.zeros(loop.nv)), (motion.q, motion.v, motion.tau)
    q, v, tau = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    other = np.array(whole.home.q, dtype=float)
    words = f"{make.__name__}, {'carried' if carried else 'below'}{', at rest' * at_rest}{', massless' * massless}"
    return SingularCase(whole, motion._replace(q=q, v=v, tau=tau), (other, 0 * v, tau), words)


def joined(first: Model, second: Model, body: str, pose: np.ndarray | None = None) -> Model:
    """The second model standing on a body of the first, at a pose (4, 4)."""
    place = np.eye(4) if pose is None else pose
    joints = [replace(j, parent=body, pose=place @ j.pose) if j.parent == "world" else j for j in second.joints]
    start = State(np.concatenate([first.home.q, second.home.q]), np.zeros(first.nv + second.nv))
    return replace(
        first,
        bodies=(*first.bodies, *second.bodies),
        joints=(*first.joints, *joints),
        frames=(*first.frames, *second.frames),
        constraints=(*first.constraints, *second.constraints),
        start=start,
    )
