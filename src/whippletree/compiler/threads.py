"""Sharing a batch among threads: each takes some of the states, with the GIL released. No bit depends on the split."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whippletree.errors import WhippletreeError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

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


@dataclass
class Call:
    """One call of an inner loop by NumPy."""

    loop: Any
    args: int
    dimensions: int
    steps: int
    data: int
    arrays: int
    core_dimensions: int

    def share(self, count: int, width: int) -> None:
        """Run the loop on ``count`` threads, this one included, each with a whole number of lane groups."""
        places = (ctypes.c_int64 * self.arrays).from_address(self.args)
        sizes = (ctypes.c_int64 * (1 + self.core_dimensions)).from_address(self.dimensions)
        steps = (ctypes.c_int64 * self.arrays).from_address(self.steps)
        states = sizes[0]
        groups = -(-states // width)
        bounds = [min(states, groups * i // count * width) for i in range(count)] + [states]

        def run(first: int, last: int) -> None:
            own = (ctypes.c_int64 * self.arrays)(*(p + first * s for p, s in zip(places, steps, strict=True)))
            part = (ctypes.c_int64 * len(sizes))(last - first, *sizes[1:])
            self.loop(ctypes.addressof(own), ctypes.addressof(part), self.steps, self.data)

        pieces = [(a, b) for a, b in itertools.pairwise(bounds) if b > a]
        with _uninterrupted():
            waiting = [_pool(count).submit(run, *piece) for piece in pieces[1:]]
            run(*pieces[0])
            for future in waiting:
                future.result()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back: an exception in a function that machine code has called is lost, and with it the part of the
    results that other threads are still at work on. :func:`let_through` is for after the call."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield
        return
    handler = previous
    signal.signal(signal.SIGINT, lambda number, frame: _held.append(lambda: handler(number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


_held: list[Callable[[], Any]] = []
"""What a Ctrl-C during a shared call asks for."""


def let_through() -> None:
    """Answer a Ctrl-C that was held back."""
    if _held and threading.current_thread() is threading.main_thread():
        answer = _held[0]
        _held.clear()
        answer()


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(count: int) -> ThreadPoolExecutor:
    """Threads that wait for work; a forked child has none of its parent's threads and makes its own."""
    pool = _pools.get(count)
    if pool is None:
        from concurrent.futures import ThreadPoolExecutor  # slow to import, and small batches never come here

        pool = _pools[count] = ThreadPoolExecutor(count - 1, thread_name_prefix="whippletree")
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)
