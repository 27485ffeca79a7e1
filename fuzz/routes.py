"""Random closed mechanisms through every route, in the reference and in machine code: regular states within what is
predicted for each route, and states at which one loop is singular, alone and in a batch.

At regular states also functions beside the accelerations, by embedding and by the block matrix of the whole: given
accelerations, the inertia at several frames, derivatives. Every other of these mechanisms is closed by joints of every
kind, to the world too, by gears over several joints and by prescribed motion (``make_closed_model``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

import whippletree as wt
from fuzz.trial import TRIAL_SECONDS, Findings, WrongAnswer
from singular_loops import SingularCase, make_singular_model
from strategies import make_closed_model, make_looped_model
from truth import DIGITS, true_error
from whippletree.accuracy.predicted_error import predicted_errors
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON
from whippletree.constraints.clusters.loop_clusters import cluster_tree
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.route_choice import COMPILED_ROUTES, ROUTES
from whippletree.functions.reference import reference
from whippletree.model.parameters import with_scalars

LIMIT = 12 * TRIAL_SECONDS
"""Six routes in Python, five in machine code, and the truth."""

WORST_CONDITION = 1e10
"""Condition number of the block matrix beyond which two right routes have few digits in common."""

ROUNDING = 1e-12
"""Difference of two routes to accelerations, forces and derivatives, times the condition number."""

AT_SINGULAR_STATES = 1e-8
"""Relative error that a state with vanished rows may have: its branch comes from the rates of these rows."""


def try_one(seed: int, folder: Path) -> Findings:
    """One mechanism, the accelerations of one motion; every third has a loop whose rows depend on each other."""
    if seed % 3 == 2:
        return _singular(make_singular_model(seed))
    if seed % 2:
        model, motion = make_closed_model(seed)
    else:
        model, motion = make_looped_model(seed, limbs=1 + seed % 3, massless=seed % 4 == 0)
    if not model.constraints:
        return Findings(Counter(["no loop"]))
    state = motion.q, motion.v, motion.tau
    beside = _beside_accelerations(model, state)
    if constraint_set(model).timed:
        return beside  # predictions are for time-independent rows
    predicted: dict[str, float] = {}

    def judge(route: str, a: Any, words: str) -> None:
        if route not in predicted:
            # where its pivots fail, the rank-revealing route has answered
            predicted[route] = max(predicted_errors(model, *state, routes=(route, "nullspace")).values())
        error = true_error(model, state, a)
        if not error <= predicted[route]:
            raise WrongAnswer(f"{words}: error {error:.1e}, predicted {predicted[route]:.1e}")

    beside.add(_through_routes(model, state, judge))
    return beside


def _beside_accelerations(model: Any, state: tuple[Any, ...]) -> Findings:
    """Given accelerations, inertia at frames and derivatives, by clusters against the whole, in Python and compiled."""
    found, system = Findings(Counter()), constraint_set(model)
    if cluster_tree(system) is None:
        return Findings(Counter(["no clusters"]))
    whole = wt.reference(model, route="nullspace", watch="never")
    times = (0.3,) * system.timed
    q, v, tau = state
    v = np.asarray(whole.project_velocity(q, v, *times))
    condition = float(np.asarray(wt.reference(model, watch="never").block_condition_numbers(q, *times)[0]))
    if not condition < WORST_CONDITION:
        return Findings(Counter(["badly conditioned"]))
    joints = [name for name in wt.embed(model).independent if "[" not in name][::2]
    tips = (f"{model.bodies[-1].name}.position", f"{model.bodies[0].name}.rotation")
    calls = {
        "forward_dynamics": ((), (q, v, tau)),
        "hybrid_dynamics": ((joints,), (q, v, tau)),
        "operational_inertia_inverse": ((tips,), (q,)),
        "forward_dynamics_with_wrench": ((model.bodies[-1].name,), (q, v, tau, np.arange(1.0, 7.0))),
        "forward_dynamics_derivatives": ((), (q, v, tau)),
    }
    for name, (names, inputs) in calls.items():
        right = _arrays(_named(whole, name, names)(*inputs, *times))
        for words, make in (("", wt.reference), (", compiled", wt.compile)):
            answers = _arrays(_named(make(model, route="embedding", watch="never"), name, names)(*inputs, *times))
            for a, b in zip(answers, right, strict=True):
                error = np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1.0)
                if not error <= ROUNDING * condition:
                    raise WrongAnswer(f"{name} by embedding{words}: {error:.1e}, condition {condition:.1e}")
            found.counts[f"{name} by embedding{words}"] += 1
    return found


def _named(functions: Any, name: str, names: tuple[Any, ...]) -> Any:
    function = getattr(functions, name)
    return function(*names) if names else function


def _arrays(result: Any) -> list[Any]:
    return [np.asarray(x) for x in result] if isinstance(result, tuple) else [np.asarray(result)]


def _through_routes(model: Any, state: tuple[Any, ...], judge: Callable[[str, Any, str], None]) -> Findings:
    """The accelerations by each route that is offered, in Python and in machine code, each of them judged."""
    found = Findings(Counter())
    for words, make, routes in (("", wt.reference, ROUTES), (", compiled", wt.compile, COMPILED_ROUTES)):
        for route in routes:
            try:
                a = make(model, route=route, watch="never").forward_dynamics(*state)
            except wt.UnsupportedError:
                found.counts[f"{route}{words}, not offered"] += 1
                continue
            judge(route, a, f"{route}{words}")
            found.counts[f"{route}{words}"] += 1
    return found


def _singular(case: SingularCase) -> Findings:
    """Every route against many digits by the block matrix of the whole; equal bits in a batch."""
    state = case.motion.q, case.motion.v, case.motion.tau
    if constraint_set(case.model).structure.stuck:
        return Findings(Counter(["stuck"]))
    with mpmath.workdps(DIGITS):
        exact = [np.array([mpmath.mpf(float(x)) for x in part], dtype=object) for part in state]
        truth = reference(with_scalars(case.model, mpmath.mpf), route="nullspace").forward_dynamics(*exact)
    right = np.array([float(x) for x in truth])

    def judge(route: str, a: Any, words: str) -> None:
        error = float(np.linalg.norm(a - right) / max(np.linalg.norm(right), 1.0))
        if not error <= AT_SINGULAR_STATES:
            raise WrongAnswer(f"{case.words}, {words}: error {error:.1e}")

    found = _through_routes(case.model, state, judge)
    counts = Counter({f"singular: {word}": count for word, count in found.counts.items()})
    dynamics = wt.compile(case.model).forward_dynamics
    alone = [dynamics(*own) for own in (case.regular, state)]
    if dynamics.status != ANSWERED_IN_PYTHON:
        raise WrongAnswer(f"{case.words}: machine code answered a singular state by itself")
    both = dynamics(*(np.stack(pair) for pair in zip(case.regular, state, strict=True)))
    if not np.array_equal(both, alone):
        raise WrongAnswer(f"{case.words}: other bits in a batch")
    counts["singular: equal bits in a batch"] += 1
    A, anything = reference(case.model).constraint_jacobian(state[0]), state[1] + 1.0
    rigid = [i for i, c in enumerate(constraint_set(case.model).compliance) if not c]
    left = (A @ wt.compile(case.model).project_velocity(state[0], anything))[rigid]
    if not np.abs(left).max(initial=0.0) <= AT_SINGULAR_STATES * np.linalg.norm(A, ord=2):
        raise WrongAnswer(f"{case.words}: a projected velocity leaves {np.abs(left).max():.1e} of the rows")
    counts["singular: projected velocity"] += 1
    return Findings(counts)
