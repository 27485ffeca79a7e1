"""Sharing work among threads, in a way that Ctrl-C can end."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from whippletree.errors import WhippletreeError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_WORTHWHILE = 8_000_000
"""Operations in a batch from which on a second thread pays: about a quarter of a millisecond on one core."""


def thread_count(asked: int | None = None) -> int:
    """How many threads to use: what was asked for, else WHIPPLETREE_THREADS, else every core this process may use."""
    if asked is None:
        text = os.environ.get("WHIPPLETREE_THREADS", "")
        if not text:
            return available_cores()
        if not text.strip().isdigit() or int(text) < 1:
            raise WhippletreeError(f"WHIPPLETREE_THREADS is {text!r}: expected a positive whole number")
        return int(text)
    if asked < 1:
        raise WhippletreeError(f"threads={asked}: expected a positive whole number")
    return asked


def available_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def smallest_shared_batch(operations: int) -> int:
    """The smallest number of states that is shared, for a function of so many operations."""
    return max(64, _WORTHWHILE // max(1, operations))


def run_all(pieces: Sequence[Callable[[], object]], count: int, stop: Callable[[], object] | None = None) -> None:
    """Run pieces of work on ``count`` threads, this one included; after an exception none is begun any more.

    Python answers a Ctrl-C between two pieces, and so within the time of one. Pieces that take longer come with
    ``stop``, which makes those under way end soon: then the main thread, the only one that signals reach, does no piece
    itself but waits, and can be interrupted at any time.

    Raises:
        BaseException: the first exception of a piece, or what a signal handler raised here; no piece is running then.
    """
    rest = deque(pieces)

    def work() -> None:
        while rest:
            try:
                piece = rest.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                piece()
            except BaseException:
                rest.clear()
                raise

    waits = stop is not None and threading.current_thread() is threading.main_thread()
    helpers: list[Future[None]] = []
    try:
        _start(helpers, work, min(count, len(rest)) - (not waits), waits)
        if not (waits and helpers):
            work()
        for helper in helpers:
            # one that has not begun finds nothing left to do, unless this thread only waits
            if waits or not helper.cancel():
                _wait(helper)
    except BaseException:
        rest.clear()
        if stop is not None:
            stop()
        for helper in helpers:
            helper.cancel()
        for helper in helpers:
            _wait_quietly(helper)
        raise


def _start(helpers: list[Future[None]], work: Callable[[], None], count: int, fresh: bool) -> None:
    """Let so many other threads work: ``fresh`` ones, or those that wait for it; none where there can be none."""
    if count < 1:
        return
    from concurrent.futures import ThreadPoolExecutor  # slow to import, and small batches never come here

    pool = ThreadPoolExecutor(count, thread_name_prefix="whippletree") if fresh else _pool(count)
    try:
        for _ in range(count):
            helpers.append(pool.submit(work))
    except RuntimeError:
        # no more threads: of the system, or of an interpreter that is about to end
        return
    finally:
        if fresh:
            pool.shutdown(wait=False)


def _wait(helper: Future[None]) -> None:
    """Until a helper is done; its exception is raised here."""
    while not helper.done():
        with contextlib.suppress(TimeoutError):
            helper.exception(_PATIENCE)
    helper.result()


def _wait_quietly(helper: Future[None]) -> None:
    from concurrent.futures import CancelledError

    with contextlib.suppress(Exception, CancelledError):
        _wait(helper)


_PATIENCE = 0.05
"""Seconds after which a waiting thread looks up: on some systems a lock cannot be interrupted."""


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(helpers: int) -> ThreadPoolExecutor:
    """Threads that wait for work; a forked child has none of its parent's threads and makes its own."""
    pool = _pools.get(helpers)
    if pool is None:
        from concurrent.futures import ThreadPoolExecutor

        pool = _pools[helpers] = ThreadPoolExecutor(helpers, thread_name_prefix="whippletree")
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)
