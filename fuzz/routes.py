"""Random closed mechanisms through every route: all agree within what is predicted for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import whippletree as wt
from fuzz.trial import TRIAL_SECONDS, Findings, WrongAnswer
from strategies import make_looped_model
from truth import true_error
from whippletree.accuracy.predicted_error import predicted_errors
from whippletree.constraints.dynamics import ROUTES

LIMIT = 4 * TRIAL_SECONDS
"""Six routes, and the truth."""


def try_one(seed: int, folder: Path) -> Findings:
    """One mechanism, the accelerations of one motion."""
    model, motion = make_looped_model(seed, limbs=1 + seed % 3, massless=seed % 4 == 0)
    if not model.constraints:
        return Findings(Counter(["no loop"]))
    state = motion.q, motion.v, motion.tau
    found = Findings(Counter())
    for route in ROUTES:
        try:
            a = wt.reference(model, route=route).forward_dynamics(*state)
        except wt.UnsupportedError:
            found.counts[f"{route}, not offered"] += 1
            continue
        # where its pivots fail, the rank-revealing route has answered
        predicted = max(predicted_errors(model, *state, routes=(route, "nullspace")).values())
        error = true_error(model, state, a)
        if not error <= predicted:
            raise WrongAnswer(f"{route}: error {error:.1e}, predicted {predicted:.1e}")
        found.counts[route] += 1
    return found
