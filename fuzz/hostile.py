"""Mechanisms that lose digits, against the truth of 120 of them: what is predicted bounds what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt
from fuzz.trial import TRIAL_SECONDS, Findings, WrongAnswer
from strategies import make_hostile_model
from truth import true_error
from whippletree.accuracy.predicted_error import default_route, predicted_errors
from whippletree.functions.lost_digits import EXPLAINED, LOSSY, recorded_bounds

LIMIT = 4 * TRIAL_SECONDS
"""The truth takes most of it."""

COMPILED, SIMULATED = 8, 16
"""One in how many is also compiled, and simulated."""


def try_one(seed: int, folder: Path) -> Findings:
    """Accelerations of one mechanism, by the reference, and of some in machine code and in a run."""
    model, motion = make_hostile_model(seed)
    state = motion.q, motion.v, motion.tau
    found = Findings()
    route = default_route(model)
    predicted = predicted_errors(model, *state, routes=(route,))[route]
    function = wt.reference(model).forward_dynamics
    a = function(*state)
    error = true_error(model, state, a)
    _judge(found, "reference", error, predicted)
    if error > LOSSY and not function.digits_lost:
        _require_explanation(function, state, error * float(np.linalg.norm(a)))
    if seed % COMPILED == COMPILED - 1:
        compiled = wt.compile(model, threads=1).forward_dynamics(*state)
        _judge(found, "machine code", true_error(model, state, compiled), predicted)
    if seed % SIMULATED == SIMULATED - 1:
        _simulate(found, model, motion)
    return found


def _require_explanation(function: Any, state: Any, error: float) -> None:
    """A direct call may be silent about digits that the last ones of its inputs explain, and of results below 1."""
    (_, effect), *_ = recorded_bounds(function, dict(zip(function.shapes, state, strict=True)))
    if error > LOSSY and error > EXPLAINED * effect:
        raise WrongAnswer(f"silent: error {error:.1e}, of which the inputs explain {effect:.1e}")


def _simulate(found: Findings, model: wt.Model, motion: Any) -> None:
    """The accelerations with which a run starts, against what the run says of them."""
    q = np.asarray(wt.assemble(model, motion.q), dtype=float)
    v = wt.compile(model, threads=1).project_velocity(q, motion.v) if model.constraints else motion.v
    run = wt.simulate(model, q, v, duration=1e-9, output_dt=1e-9, rtol=1e-12)
    start = run["q"].values[0], run["v"].values[0], np.zeros(model.nv)
    predicted = run.attrs["predicted_error"]
    if not np.isnan(predicted):
        _judge(found, "run", true_error(model, start, run["a"].values[0], 1.0), predicted)


def _judge(found: Findings, what: str, error: float, predicted: float) -> None:
    if np.isinf(predicted):
        found.counts[f"{what}, no digit promised"] += 1
        return
    if not error <= predicted:
        raise WrongAnswer(f"{what}: error {error:.1e}, predicted {predicted:.1e}")
    found.counts[f"{what}, {'few digits, foretold' if error > LOSSY else 'right'}"] += 1
    found.ratios.append(predicted / max(error, float(np.finfo(float).eps) / 2))
