"""What one trial may come to, the loop over seeds with its limit of time, and the table of outcomes."""

from __future__ import annotations

import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import whippletree as wt

TRIAL_SECONDS = 5.0
"""Of processor time: a trial that takes longer hangs."""

FAULTS = ("wrong", "raw error", "hang", "crash")
"""Outcomes that must not be."""

Trial = Callable[[int, Path], "str | Findings"]


class WrongAnswer(Exception):
    """An answer that is not right, and did not say so."""


class Hang(BaseException):
    """A trial past its limit: no ``except Exception`` on the way stops it."""


@dataclass
class Findings:
    """What came of trials: how many of each kind, ratios of predicted to true errors, and every fault."""

    counts: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Those of another trial."""
        self.counts += other.counts
        self.ratios += other.ratios
        self.faults += other.faults

    def as_table(self) -> dict[str, Any]:
        """Plain data."""
        return {"counts": dict(self.counts), "ratios": self.ratios, "faults": self.faults}

    @staticmethod
    def of_table(table: dict[str, Any]) -> Findings:
        """The same, from plain data."""
        return Findings(Counter(table["counts"]), table["ratios"], table["faults"])

    @property
    def faulty(self) -> int:
        """How many trials had an outcome that must not be."""
        return sum(self.counts[word] for word in FAULTS)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """:class:`Hang` where the block takes more processor time than that."""

    def stop(*_: Any) -> None:
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attempt(trial: Trial, seed: int, folder: Path, limit: float = TRIAL_SECONDS) -> Findings:
    """One trial, its outcome told."""
    try:
        with limited(limit), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = trial(seed, folder)
    except wt.WhippletreeError:
        found = "refused"
    except WrongAnswer as error:
        return Findings(Counter(wrong=1), faults=[f"seed {seed}: wrong: {error}"])
    except Hang as error:
        return Findings(Counter(hang=1), faults=[f"seed {seed}: hang: {error}"])
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        told = f"seed {seed}: {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return Findings(Counter({"raw error": 1}), faults=[told])
    return Findings(Counter([found])) if isinstance(found, str) else found


def run(
    trial: Trial,
    *,
    first: int = 0,
    seconds: float,
    trials: int | None = None,
    limit: float = TRIAL_SECONDS,
    before_each: Callable[[int, Findings], None] | None = None,
) -> Findings:
    """Seeds from ``first`` on until the time is over, or ``trials`` are counted.

    ``before_each(seed, found)`` tells whoever survives a crash how far it came.
    """
    total, end = Findings(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        for seed in count(first):
            if time.monotonic() >= end or (trials is not None and sum(total.counts.values()) >= trials):
                break
            if before_each is not None:
                before_each(seed, total)
            total.add(attempt(trial, seed, Path(name), limit))
    return total


def table(found: dict[str, Findings], times: dict[str, float]) -> list[str]:
    """Markdown: one line per fuzzer, and the faults below."""
    lines = ["| fuzzer | trials | outcomes | predicted / true error, median | faults | s |", "| --- | " + "--- | " * 5]
    for name, findings in found.items():
        words = ", ".join(f"{count} {word}" for word, count in findings.counts.most_common())
        ratios = sorted(findings.ratios)
        median = f"{ratios[len(ratios) // 2]:.0f} ({len(ratios)})" if ratios else ""
        trials = sum(findings.counts.values())
        lines.append(f"| {name} | {trials} | {words} | {median} | {findings.faulty} | {times[name]:.0f} |")
    return lines + [f"{name}, {fault}" for name, findings in found.items() for fault in findings.faults]
