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

LIMIT = 4 * TRIAL_SECONDS
"""The truth takes most of it."""

COMPILED, SIMULATED = 8, 16
"""One in how many is also compiled, and simulated."""

LOSSY = 1e-9


def try_one(seed: int, folder: Path) -> Findings:
    """Accelerations of one mechanism, by the reference, and of some in machine code and in a run."""
    model, motion = make_hostile_model(seed)
    state = motion.q, motion.v, motion.tau
    found = Findings()
    route = default_route(model)
    predicted = predicted_errors(model, *state, routes=(route,))[route]
    _judge(found, "reference", true_error(model, state, wt.reference(model).forward_dynamics(*state)), predicted)
    if seed % COMPILED == COMPILED - 1:
        compiled = wt.compile(model, threads=1).forward_dynamics(*state)
        _judge(found, "machine code", true_error(model, state, compiled), predicted)
    if seed % SIMULATED == SIMULATED - 1:
        _simulate(found, model, motion)
    return found


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
    if not error <= predicted:
        raise WrongAnswer(f"{what}: error {error:.1e}, predicted {predicted:.1e}")
    found.counts[f"{what}, {'few digits, foretold' if error > LOSSY else 'right'}"] += 1
    if np.isfinite(predicted):
        found.ratios.append(predicted / max(error, float(np.finfo(float).eps) / 2))
