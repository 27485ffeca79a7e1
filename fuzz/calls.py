"""Calls with anything for arguments: an answer, the same from machine code and reference, or an error with a name."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt
from fuzz.trial import TRIAL_SECONDS, Findings, WrongAnswer
from strange_arguments import argument, target
from whippletree import functions

LIMIT = 10 * TRIAL_SECONDS
"""A trial is many calls, and may compile."""

CALLS = 400
COMPARED = 20
"""Of a trial, and one in how many is compared with the reference."""

SAME = 1e-7
"""Relative difference of compiled and plain answers for arguments of the size of 1 that rounding does not explain."""

MODELS = (wt.mechanisms.chain(2), wt.mechanisms.four_bar(), wt.mechanisms.quadruped())


@cache
def offered() -> list[tuple[int, str]]:
    """(model, function): every one of the catalogue that takes no names, and is offered for the model."""
    found = []
    for number, model in enumerate(MODELS):
        for name, function in functions.CATALOGUE.items():
            try:
                functions.find(name, model)
                if not function.names:
                    found.append((number, name))
            except wt.WhippletreeError:
                continue
    return found


def try_one(seed: int, folder: Path) -> Findings:
    """Many calls of one function."""
    number, name = offered()[seed % len(offered())]
    model = MODELS[number]
    fast, plain = (getattr(kind(model), name) for kind in (_compiled, wt.reference))
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    for call in range(CALLS):
        inputs = [argument(rng, shape) for shape in plain.shapes.values()]
        out = target(rng, [b.shape for b in fast._results], inputs) if rng.random() < 0.3 else None
        counts[_outcome(name, fast, inputs, out)] += 1
        if call % COMPARED == 0:
            _compare(name, fast, plain, [rng.normal(size=shape) for shape in plain.shapes.values()])
    return Findings(counts)


def _compiled(model: wt.Model) -> Any:
    return wt.compile(model, threads=1)


def _outcome(name: str, function: Any, inputs: list[Any], out: Any) -> str:
    try:
        function(*inputs, out=out)
    except wt.WhippletreeError:
        return "refused"
    except (TypeError, ValueError) as error:
        if str(error).startswith(name):
            return "refused"
        raise
    return "answer"


def _compare(name: str, fast: Any, plain: Any, inputs: list[Any]) -> None:
    """Both answer alike, or both refuse."""
    answers = []
    for function in (fast, plain):
        try:
            found = function(*inputs)
            answers.append([np.asarray(x, dtype=float) for x in (found if isinstance(found, tuple) else (found,))])
        except wt.WhippletreeError:
            answers.append(None)
    if None in answers:
        if answers[0] is not answers[1]:
            raise WrongAnswer(f"{name}: {'reference' if answers[0] else 'machine code'} alone refuses {inputs!r}")
        return
    for a, b in zip(*answers, strict=True):
        if not np.allclose(a, b, rtol=SAME, atol=SAME * max(1.0, float(np.abs(b).max(initial=0.0))), equal_nan=True):
            raise WrongAnswer(f"{name}: machine code {a!r}, reference {b!r} for {inputs!r}")
