"""How far a sweep has come: runs, their rate, failures and the time left, on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whippletree.campaigns.store import Receipt


@contextmanager
def progress_of(asked: bool | None, runs: int, done: int) -> Iterator[Callable[[Receipt], None]]:
    """A function that is told of receipts, and shows them if asked or, if nothing is said, where somebody watches."""
    if not (sys.stderr.isatty() if asked is None else asked):
        yield lambda receipt: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [
        TextColumn("sweep"), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f} runs"),
        TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[failed]}"), TimeRemainingColumn(),
    ]  # fmt: skip
    begun, computed, failed = time.monotonic(), 0, 0
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task("sweep", total=runs, completed=min(done, runs), rate="", failed="")

        def tell(receipt: Receipt) -> None:
            nonlocal computed, failed
            computed, failed = computed + receipt.runs, failed + receipt.failures
            rate = computed / max(time.monotonic() - begun, 1e-9)
            told = f"{failed:,} failed" if failed else ""
            shown.update(task, advance=receipt.runs, rate=f"{rate:,.3g} runs/s", failed=told)

        yield tell
