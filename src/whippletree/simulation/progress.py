"""How far a run has come, shown while it is computed: a bar with rate and time left, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

SHOWN_AFTER = 1.0
"""Seconds of computing before a bar appears: short runs show nothing."""


class Shows(Protocol):
    """Something that is told how far a run has come."""

    def __call__(self, simulated: float, duration: float) -> None:
        """Both in seconds of the model."""


class Bar:
    """A bar of rich on stderr, from when a run has taken a while."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._progress: Any = None
        self._task: Any = None

    def __call__(self, simulated: float, duration: float) -> None:
        if self._progress is None:
            if time.monotonic() - self._begun < SHOWN_AFTER:
                return
            self._start(duration)
        rate = simulated / max(time.monotonic() - self._begun, 1e-9)
        self._progress.update(self._task, completed=simulated, rate=f"{rate:.3g} s/s")

    def _start(self, duration: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = [
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.4g} of {task.total:.4g} s"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        ]
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task(self._what, total=duration, rate="")

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def bar(asked: bool | None, what: str) -> Iterator[Bar | None]:
    """A bar if it is asked for; if nothing is said, where somebody is watching."""
    shown = Bar(what) if (sys.stderr.isatty() if asked is None else asked) else None
    try:
        yield shown
    finally:
        if shown is not None:
            shown.close()
