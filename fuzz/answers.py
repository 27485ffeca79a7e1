"""Every function of the catalogue on mechanisms that lose digits: bounds hold, and no loss is silent.

Against the truth of 120 digits, of the same source: the bound that ``rounding_error`` gives is above what reference and
machine code are wrong by, and where an answer is wrong by more than its inputs explain, ``digits_lost`` says so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import mpmath
import numpy as np

import whippletree as wt
from fuzz.trial import TRIAL_SECONDS, Findings, WrongAnswer
from strategies import MOVING_KINDS, Motion, make_hostile_model, make_model, make_motion, make_parents
from truth import DIGITS
from whippletree import functions
from whippletree.functions.lost_digits import EXPLAINED, LOSSY, SMALLEST_SIZE, recorded_bounds
from whippletree.model.parameters import with_scalars

LIMIT = 12 * TRIAL_SECONDS
"""The truth takes most of it, and compiling."""

COMPILED = 4
"""One in how many is also compiled."""

LARGEST = {0: 40, 1: 40, 2: 12}
"""Velocities up to which functions are tried that return numbers, vectors, and matrices."""

DECISIONS = (
    "condition_number",
    "equilibrated_condition_number",
    "block_condition_numbers",
    "diagonal_ratio",
    "pivot_ratios",
    "forward_dynamics_with_diagonal_ratio",
)
"""Measures of digits, which have few themselves."""


def try_one(seed: int, folder: Path) -> Findings:
    """One function of one mechanism."""
    rng = Random(f"answers {seed}")
    model, motion = FAMILIES[rng.randrange(len(FAMILIES))](seed, rng)
    name = rng.choice(_offered(bool(model.constraints)))
    found = Findings()
    function = functions.find(name, model)
    rank = max(len(shape) for shape in function.outputs.values())
    if model.nv > LARGEST[rank]:
        found.counts["too large"] += 1
        return found
    plain = getattr(wt.reference(model, watch="every"), name)
    inputs = _inputs(plain, model, motion, rng)
    answers = {"reference": _results(plain(**inputs))}
    told = {"reference": plain.digits_lost}
    if seed % COMPILED == 0:
        fast = getattr(wt.compile(model, threads=1, watch="every"), name)
        answers["machine code"] = _results(fast(**inputs))
        told["machine code"] = fast.digits_lost
    truth = _truth(model, name, inputs)
    if name == "qr_projector":  # whose rows may have either sign
        answers = {kind: [_with_signs_of(truth[0], answer[0])] for kind, answer in answers.items()}
    bounds = _results(wt.reference(model, watch="never").rounding_error(name)(**inputs))
    for kind, answer in answers.items():
        for y, exact, bound in zip(answer, truth, bounds, strict=True):
            _judge(found, f"{name} by {kind}", _length(y, exact), float(np.linalg.norm(bound)), y)
        if told[kind] is None:
            found.counts["not watched"] += 1
        elif not told[kind]:
            _require_explanation(f"{name} by {kind}", plain, inputs, answer, truth)
    return found


def _with_signs_of(truth: Any, answer: Any) -> Any:
    """Rows turned to the side of those that are known."""
    sides = np.sign(np.sum(np.asarray(answer) * np.asarray(truth, dtype=float), axis=-1, keepdims=True))
    return np.asarray(answer) * np.where(sides < 0, -1.0, 1.0)


def _judge(found: Findings, what: str, error: float, bound: float, y: Any) -> None:
    if not np.isfinite(bound):
        found.counts["no digit promised"] += 1
        return
    if not error <= bound:
        size = float(np.linalg.norm(y))
        raise WrongAnswer(f"{what}: error {error:.1e}, bound {bound:.1e}, of {size:.1e}")
    found.counts["bounded"] += 1
    if error > 0:
        found.ratios.append(bound / error)


def _require_explanation(what: str, plain: Any, inputs: Any, answer: Any, truth: Any) -> None:
    """Lost digits are told, unless those of the inputs explain them."""
    for number, (y, exact) in enumerate(zip(answer, truth, strict=True)):
        error, size = _length(y, exact), max(float(np.linalg.norm(y)), SMALLEST_SIZE)
        if error > LOSSY * size:
            effect = recorded_bounds(plain, inputs)[number][1]
            if error > EXPLAINED * effect:
                raise WrongAnswer(
                    f"{what} is silent: error {error:.1e} of {size:.1e}, of which inputs explain {effect:.1e}"
                )


def _truth(model: wt.Model, name: str, inputs: dict[str, Any]) -> list[Any]:
    with mpmath.workdps(DIGITS):
        exact = {key: _many_digits(value) for key, value in inputs.items()}
        if "active" in inputs:
            exact["active"] = inputs["active"]
        route = "block" if model.constraints and name in ("forward_dynamics", "constraint_forces") else None
        return _results(getattr(wt.reference(with_scalars(model, mpmath.mpf), route=route), name)(**exact))


def _many_digits(value: Any) -> Any:
    plain = np.asarray(value, dtype=float)
    found = np.empty(plain.shape, dtype=object)
    for index in np.ndindex(*plain.shape):
        found[index] = mpmath.mpf(float(plain[index]))
    return found


def _length(y: Any, exact: Any) -> float:
    """‖y − truth‖."""
    with mpmath.workdps(DIGITS):
        pairs = zip(np.ravel(np.asarray(y, dtype=float)), np.ravel(np.asarray(exact, dtype=object)), strict=True)
        return float(mpmath.sqrt(sum(((mpmath.mpf(float(a)) - b) ** 2 for a, b in pairs), mpmath.mpf(0))))


def _results(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


@cache
def _offered(closed: bool) -> list[str]:
    """Functions that take no names, for trees or for models with constraints."""
    model, found = (wt.mechanisms.four_bar() if closed else wt.mechanisms.chain(2)), []
    for name, function in functions.CATALOGUE.items():
        try:
            functions.find(name, model)
        except wt.WhippletreeError:
            continue
        if not function.names and name not in DECISIONS and "contact" not in name:
            found.append(name)
    return found


def _inputs(plain: Any, model: wt.Model, motion: Motion, rng: Random) -> dict[str, Any]:
    known = {"q": motion.q, "v": motion.v, "a": motion.a, "tau": motion.tau, "h": 10.0 ** -rng.randint(1, 6)}
    known |= {"r": make_motion(model, rng.randrange(10**6)).q, "t": 0.0, "restitution": 0.5}
    numbers = np.random.default_rng(rng.randrange(10**9))
    found = {}
    for name, shape in plain.shapes.items():
        if name == "active":
            found[name] = np.ones(shape)
        elif "weights" in name or "costs" in name:
            found[name] = 10.0 ** numbers.uniform(-3, 3, shape)
        else:
            found[name] = np.asarray(known.get(name, numbers.normal(size=shape)), dtype=float)
    return found


# --- families of mechanisms -------------------------------------------------------------------------------------------


def _hostile(seed: int, _: Random) -> tuple[wt.Model, Motion]:
    return make_hostile_model(seed)


def _long_chain(seed: int, rng: Random) -> tuple[wt.Model, Motion]:
    """Links each lighter or heavier than the one before, in a row or with a few branches."""
    n = rng.choice([8, 20, 40])
    kinds = [rng.choice(["revolute", "revolute", "prismatic", "helical"]) for _ in range(n)]
    model = make_model(make_parents(n, seed, chain=0.9), kinds, seed)
    factor = rng.choice([0.3, 0.7, 1.0, 1.5, 4.0])
    return _moving(_scaled(model, [factor**k for k in range(n)]), seed, rng)


def _free_base(seed: int, rng: Random) -> tuple[wt.Model, Motion]:
    """A tree on a free body, or on a ball joint, far from the world's origin."""
    n = rng.randint(1, 5)
    kinds = [rng.choice(["free", "spherical"]), *(rng.choice(MOVING_KINDS) for _ in range(n))]
    model, motion = _moving(make_model((-1, *make_parents(n, seed)[:-1], 0), kinds, seed), seed, rng)
    if kinds[0] == "free":
        motion.q[:3] *= 10.0 ** rng.randint(0, 9)
    return model, motion


def _heavy_gravity(seed: int, rng: Random) -> tuple[wt.Model, Motion]:
    """Forces that balance all but a small part of a large gravity, on joints with springs and dampers."""
    n = rng.randint(1, 5)
    model = make_model(make_parents(n, seed), [rng.choice(MOVING_KINDS) for _ in range(n)], seed)
    model = replace(model, gravity=model.gravity * 10.0 ** rng.randint(1, 12))
    motion = make_motion(model, seed)
    held = np.asarray(wt.reference(model, watch="never").bias(motion.q, motion.v), dtype=float)
    return model, motion._replace(tau=held * (1 + 10.0 ** -rng.randint(3, 15)))


def _near_dead_point(seed: int, rng: Random) -> tuple[wt.Model, Motion]:
    """Parallelograms and cranks a little before they are flat, with light links."""
    make = rng.choice([wt.mechanisms.four_bar, wt.mechanisms.crank_slider, lambda: wt.mechanisms.n_four_bar(3)])
    model = make()
    model = _scaled(model, [10.0 ** -rng.choice([0, 0, rng.randint(0, 12)]) for _ in model.bodies])
    near = np.zeros(model.nq) if rng.random() < 0.5 else np.asarray(model.home.q, dtype=float)
    q = near + 10.0 ** -rng.randint(0, 9) * np.random.default_rng(seed).uniform(-1, 1, model.nq)
    motion = make_motion(model, seed)
    return model, motion._replace(q=np.asarray(wt.assemble(model, q), dtype=float))


def _platform(seed: int, rng: Random) -> tuple[wt.Model, Motion]:
    """Spatial loops with light legs."""
    model = rng.choice([wt.mechanisms.delta_robot, wt.mechanisms.andrews, wt.mechanisms.peaucellier])()
    model = _scaled(model, [10.0 ** -rng.choice([0, 0, rng.randint(0, 9)]) for _ in model.bodies])
    motion = make_motion(model, seed)
    return model, motion._replace(q=np.asarray(model.home.q, dtype=float))


def _scaled(model: wt.Model, factors: list[float]) -> wt.Model:
    bodies = [
        replace(body, mass=body.mass * factor, inertia=body.inertia * factor)
        for body, factor in zip(model.bodies, factors, strict=True)
    ]
    return replace(model, bodies=tuple(bodies))


def _moving(model: wt.Model, seed: int, rng: Random) -> tuple[wt.Model, Motion]:
    motion = make_motion(model, seed)
    speeds = np.array([10.0 ** rng.choice([0, 0, 0, rng.randint(-3, 6)]) for _ in range(model.nv)])
    return model, motion._replace(v=motion.v * speeds)


FAMILIES = (_hostile, _long_chain, _free_base, _heavy_gravity, _near_dead_point, _platform)
"""Ways to make a mechanism and a motion."""
