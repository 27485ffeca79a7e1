"""The study of document 004, regenerated and extended: ``python -m studies.conditioning [FOLDER]``;
``python -m studies.conditioning --routes`` measures the errors of the routes alone, and renews their tables in
docs/conditioning.md.

Draws Figures 2 to 5 (chains of 4, 10 and 20 rods let go level), does the same for the start that the document's
forces belong to, 30° from the vertical, prints the correlation of every estimate
with κ₂, and goes on to what the document did not ask: chains of 50 to 1000 rods, light and heavy tips, robots, closed
loops; and prints the errors of all routes, measured against fifty digits, beside the predicted ones.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from studies import figures, routes
from studies import series as motions
from studies.models import graded_chain, planar_mass_matrix, random_state, robots
from studies.series import Array, Series
from whippletree import mechanisms
from whippletree.accuracy.coordinates import compare_coordinates
from whippletree.accuracy.measures import Measures, measures
from whippletree.accuracy.predicted_error import CLOSED_ROUTES, TREE_ROUTES
from whippletree.accuracy.report import conditioning, correlation
from whippletree.simulation.conditioning_watch import ConditioningWarning
from whippletree.simulation.run import simulate
from whippletree.view.conditioning_figure import swinging

Result = TypeVar("Result")

PAPER = (4, 10, 20)
HUNG = -np.pi / 3
"""rad: the first joint of a chain that hangs 30° from the vertical, as the forces printed in 004 eq. 7 have it."""
LONG = (50, 100, 200, 500, 1000)
DURATION = 5.0
ROBOT_DURATION = 2.0
LONG_DURATION = 1.0
"""s; a chain of hundreds of rods takes longer to fall."""
STATES = 60
CLOSED_STATES = 40


def paper_figures(folder: Path) -> list[Series]:
    """Figures 2 to 5 of chains that are let go level; and the same chains let go 30° from the vertical."""
    found = [swinging(f"chain of {n}", mechanisms.chain(n), DURATION) for n in PAPER]
    figures.eigenvalues_and_diagonal(found[0], folder / "figure-2.png")
    figures.condition_and_diagonal_ratio(found[1:], folder / "figure-3.png")
    figures.pivot_ratios(found[1:], folder / "figure-4.png")
    figures.scaled_diagonal_ratio(found, folder / "figure-5.png")
    hung = [
        swinging(f"chain of {n}, 30° from the vertical", mechanisms.chain(n), DURATION, np.eye(1, n)[0] * HUNG)
        for n in PAPER
    ]
    return [*found, *hung]


def other_mechanisms() -> list[Series]:
    """Long chains, chains with light and heavy tips, and robots, swinging and falling; robots also at random states."""
    found = [motions.swinging_chain(n, LONG_DURATION, points=40 if n <= 200 else 10) for n in LONG]
    for ratio, word in ((0.5, "light tip"), (2.0, "heavy tip")):
        found.append(swinging(f"{word}, 10 rods, masses × {ratio:g}", graded_chain(10, ratio), DURATION, points=100))
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    for name, model in robots().items():
        start = random_state(model, rng)
        found.append(swinging(f"{name}, let go", model, ROBOT_DURATION, start.q, start.v))
        states = np.array([random_state(model, other).q for _ in range(STATES)])
        found.append(motions.at_states(f"{name}, random states", model, states))
    return found


def closed_loops() -> list[str]:
    """Closed loops in motion: κ₂ of M, of the block matrix and of the Schur complement, and whether δ knows of them."""
    lines = [
        "| mechanism | κ₂ of M | κ₂ of the block matrix | κ₂ of the Schur complement | corr. δ, M | corr. δ, block |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for model in (
        mechanisms.four_bar(lengths=(1.0, 0.4, 1.1, 0.8)),
        mechanisms.crank_slider(rod_mass=0.0),
        mechanisms.n_four_bar(4),
        mechanisms.delta_robot(),
    ):
        run = simulate(model, duration=DURATION, output_dt=DURATION / CLOSED_STATES)
        found = conditioning(model, run["q"].values)
        assert found.block is not None  # the model has constraints
        assert found.schur is not None
        ranges = [_range(x) for x in (found.kappa, found.block.kappa, found.schur.kappa)]
        known = [correlation(found.diagonal_ratio, x) for x in (found.kappa, found.block.kappa)]
        cells = [*ranges, *(f"{c:+.2f}" if np.isfinite(c) else "none" for c in known)]
        lines.append(f"| {model.name} | {' | '.join(cells)} |")
    return lines


def _range(x: Array) -> str:
    return "∞" if np.all(np.isinf(x)) else f"{np.min(x):.2g} … {np.max(x):.2g}"


def long_chains(folder: Path) -> tuple[list[Series], list[str]]:
    """Chains of 50 to 1000 rods: straight, then random shapes that bend more and more, and a table of growth."""
    rng = np.random.default_rng(0)
    bends = np.concatenate([[0.0], np.geomspace(0.01, 1.0, 8)])
    found = []
    for n in LONG:
        chosen = bends if n <= 200 else bends[::4]  # large ones take seconds
        matrices = [planar_mass_matrix(bend * rng.uniform(-1, 1, n)) for bend in chosen]
        found.append(motions.series(f"{n} rods, bent at random", chosen, np.array(matrices)))
    numbers = np.array([4, 10, 20, *LONG])
    straight = [measures(planar_mass_matrix(np.zeros(n))) for n in numbers]
    absolute = [compare_coordinates(mechanisms.chain(int(n))).absolute for n in numbers[numbers <= 100]]
    names = {
        "κ₂": "kappa",
        "κ₂ equilibrated": "kappa_equilibrated",
        "δ": "diagonal_ratio",
        "pivots, base first": "pivot_ratio_base_first",
    }
    curves = {title: _column(straight, name) for title, name in names.items()}
    figures.growth(numbers, curves, folder / "figure-6-growth.png")
    lines = ["| rods | " + " | ".join(curves) + " | κ₂ in absolute angles |", "| --- " * (len(curves) + 2) + "|"]
    for i, n in enumerate(numbers):
        cells = [f"{values[i]:.4g}" for values in curves.values()]
        cells.append(f"{float(absolute[i].kappa):.4g}" if i < len(absolute) else "–")
        lines.append(f"| {n} | {' | '.join(cells)} |")
    return found, lines


def _column(each: list[Measures], name: str) -> Array:
    return np.array([float(getattr(m, name)) for m in each])


def route_tables() -> list[str]:
    """Measured and predicted errors: trees, then closed loops."""
    trees = [routes.measured_and_predicted(case) for case in routes.tree_cases()]
    closed = [routes.measured_and_predicted(case) for case in routes.closed_cases()]
    bounded = sum(o.bounded for o in trees + closed)
    return [
        *routes.table(trees, TREE_ROUTES),
        "",
        *routes.table(closed, CLOSED_ROUTES),
        "",
        f"{bounded} of {len(trees) + len(closed)} cases are bounded by the prediction on every route.",
    ]


def renew_route_tables(page: Path) -> None:
    """Put the tables of today into the page: from the head of the first to the sentence below the last."""
    text = page.read_text(encoding="utf-8")
    start = text.index("| case | κ₂ | κ₂ equilibrated | recursive |")
    end = text.index("cases are bounded by the prediction on every route.")
    lines = _timed("routes", route_tables)
    behind = text[text.index("\n", end) :]
    page.write_text(text[:start] + "\n".join(lines) + behind, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the whole study; pictures go to FOLDER (default docs/conditioning), tables to standard output."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--routes"]:
        renew_route_tables(Path("docs/conditioning.md"))
        return 0
    folder = Path(given[0]) if given else Path("docs/conditioning")
    warnings.simplefilter("ignore", ConditioningWarning)  # the study is about nothing else
    paper = _timed("Figures 2 to 5", lambda: paper_figures(folder))
    others = _timed("other mechanisms", other_mechanisms)
    bent, growth = _timed("long chains", lambda: long_chains(folder))
    closed = _timed("closed loops", closed_loops)
    errors = _timed("routes", route_tables)
    for title, lines in (
        ("Estimates against κ₂", motions.table([*paper, *others, *bent])),
        ("Closed loops", closed),
        ("Growth of straight chains", growth),
        ("Rounding errors, measured → predicted", errors),
    ):
        print(f"\n## {title}\n")
        print("\n".join(lines))
    return 0


def _timed(what: str, work: Callable[[], Result]) -> Result:
    start = time.perf_counter()
    result = work()
    print(f"{what}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return result


if __name__ == "__main__":
    sys.exit(main())
