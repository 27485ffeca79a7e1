"""Measured against predicted: the error of every route to the accelerations, beside what was predicted for it.

The truth is the same source on mpmath numbers with fifty digits. Every route gets the same doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from studies.models import State, at_rest, graded_chain, random_state, robots
from whippletree import mechanisms
from whippletree.accuracy.measures import Measures, measures
from whippletree.accuracy.predicted_error import CLOSED_ROUTES, TREE_ROUTES, accelerations, predicted_errors
from whippletree.constraints.assembly import assemble
from whippletree.functions.reference import reference
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

Array = np.ndarray[Any, Any]

DIGITS = 50


class Case(NamedTuple):
    """One model at one state."""

    name: str
    model: Model
    state: State


class Outcome(NamedTuple):
    """Relative errors of one case, by route."""

    case: Case
    mass: Measures
    measured: Mapping[str, float]
    predicted: Mapping[str, float]

    @property
    def bounded(self) -> bool:
        """Whether every route's error is below what was predicted."""
        return all(self.measured[route] <= self.predicted[route] for route in self.measured)


def tree_cases(largest: int = 64, seed: int = 0) -> Iterator[Case]:
    """Chains straight, nearly straight and bent, with equal rods, light tips and heavy tips; five robots."""
    rng = np.random.default_rng(seed)
    for n in (2, 4, 8, 16, 32, 64):
        if n <= largest:
            chain = mechanisms.chain(n)
            yield Case(f"chain {n}, straight", chain, at_rest(chain))
            yield Case(f"chain {n}, nearly straight", chain, random_state(chain, rng, 0.1))
            yield Case(f"chain {n}, bent", chain, random_state(chain, rng))
    for n in (16, 32):
        for ratio, word in ((0.5, "light tip"), (2.0, "heavy tip")):
            if n <= largest:
                chain = graded_chain(n, ratio)
                yield Case(f"{word} {n}, straight", chain, at_rest(chain))
                yield Case(f"{word} {n}, bent", chain, random_state(chain, rng))
    for name, model in robots().items():
        for number in (1, 2):
            yield Case(f"{name}, state {number}", model, random_state(model, rng))


def closed_cases(seed: int = 0) -> Iterator[Case]:
    """Closed loops, with massless rods too, at assembled states off their home."""
    rng = np.random.default_rng(seed)
    for model in (
        mechanisms.four_bar(),
        mechanisms.four_bar(masses=(1.0, 1.0, 0.0)),
        mechanisms.crank_slider(rod_mass=0.0),
        mechanisms.crank_slider(rod_mass=1e-6),
        mechanisms.n_four_bar(3),
        mechanisms.delta_robot(),
    ):
        moved = reference(model).integrate(model.home.q, rng.uniform(-0.2, 0.2, model.nv))
        q = np.asarray(assemble(model, moved), dtype=float)
        state = State(q, rng.uniform(-1, 1, model.nv), rng.uniform(-1, 1, model.nv))
        yield Case(_closed_name(model), model, state)


def _closed_name(model: Model) -> str:
    masses = [float(body.mass) for body in model.bodies]
    least = min(masses)
    return model.name + (", a massless rod" if least == 0 else ", a rod of 1e-6 kg" if least < 1e-3 else "")


def measured_and_predicted(case: Case) -> Outcome:
    """Every route of one case against the truth."""
    import mpmath

    model, state = case.model, case.state
    found = _answers(model, state)
    with mpmath.workdps(DIGITS):
        exact = _truth(model, State(*[np.array([mpmath.mpf(float(x)) for x in y], dtype=object) for y in state]))
        errors = {route: _distance(a, exact) for route, a in found.items()}
    M = reference(model.tree).mass_matrix(state.q)
    return Outcome(case, measures(M), errors, predicted_errors(model, *state))


def _distance(a: Array, exact: Array) -> float:
    """‖a − exact‖ / ‖exact‖, in the digits of ``exact``."""
    import mpmath

    error = mpmath.sqrt(sum((mpmath.mpf(float(x)) - y) ** 2 for x, y in zip(a, exact, strict=True)))
    return float(error / mpmath.sqrt(sum(y * y for y in exact)))


def _answers(model: Model, state: State) -> dict[str, Array]:
    tree, found = skeleton(model), {}
    for route in CLOSED_ROUTES if model.constraints else TREE_ROUTES:
        if route == "schur" and tree.doubtful:
            continue  # it needs inertia in every link
        found[route] = accelerations(_mechanism(model, route), route, *[x.astype(object) for x in state]).astype(float)
    return found


def _truth(model: Model, state: State) -> Array:
    route = "block" if model.constraints else "recursive"
    return accelerations(_mechanism(model, route), route, *state)


def _mechanism(model: Model, route: str) -> Mechanism:
    return Mechanism(skeleton(model), route=route if model.constraints else None)


def table(outcomes: list[Outcome], routes: tuple[str, ...]) -> list[str]:
    """Markdown: measured → predicted relative error of every case and route, and the overestimation at the end."""
    lines = [
        "| case | κ₂ | κ₂ equilibrated | " + " | ".join(routes) + " |",
        "| --- | --- | --- | " + " | ".join("---" for _ in routes) + " |",
    ]
    for o in outcomes:
        cells = [f"{o.measured[r]:.0e} → {o.predicted[r]:.0e}" if r in o.measured else "needs M ≻ 0" for r in routes]
        kappas = [_number(float(x)) for x in (o.mass.kappa, o.mass.kappa_equilibrated)]
        lines.append(f"| {o.case.name} | {' | '.join(kappas)} | {' | '.join(cells)} |")
    over = overestimation(outcomes, routes)
    cells = [f"**{least:.0f}, {middle:.0f}, {most:.0f}**" for least, middle, most in over.values()]
    lines.append(f"| **predicted / measured: least, median, largest** | | | {' | '.join(cells)} |")
    return [line.replace("inf", "∞") for line in lines]


def _number(x: float) -> str:
    return "∞" if np.isinf(x) else f"{x:.1e}"


def overestimation(outcomes: list[Outcome], routes: tuple[str, ...]) -> dict[str, tuple[float, float, float]]:
    """Least, median and largest ratio of the predicted to the measured error, by route.

    A measured error below one unit of rounding counts as one unit: it is luck.
    """
    result = {}
    for route in routes:
        unit = np.finfo(float).eps / 2
        ratios = [o.predicted[route] / max(o.measured[route], unit) for o in outcomes if route in o.measured]
        result[route] = float(np.min(ratios)), float(np.median(ratios)), float(np.max(ratios))
    return result
