"""Sharing work among threads, in a way that Ctrl-C can end, and large calls cut into pieces for it.

A piece is some of the states. No bit depends on the split: a state has the same bits in any batch. A call whose single
states take long, a roll-out, cannot be cut finely enough; its loops over time look at a flag
(:class:`~whippletree.compiler.cpu.ufunc.Stoppable`).
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.compiler.cpu.ufunc import Stoppable, UfuncEngine
from whippletree.compiler.llvm.kernel import UNKNOWN_ROUNDS
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


# --- large calls in pieces: some of the states each -------------------------------------------------------------------


LONG_CALL = 50_000_000
"""Operations that machine code does in one go at most: 2 ms with the lanes of AVX-512, some 25 ms of one state that
waits for square roots and divisions. Ctrl-C waits that long; beginning a piece costs 5 µs, a thread for it 100 µs."""

Region = tuple[slice, ...]
"""A part of a batch: one slice for each of its dimensions."""


class LargeCalls:
    """Runs the large calls of one function."""

    def __init__(self, engine: UfuncEngine, ufunc: np.ufunc, thread_count: int) -> None:
        self._engine = engine
        self._ufunc = ufunc
        self._threads = thread_count
        self._operations = max(1, engine.kernel.interface.operations)
        self._named = {d for b in engine.inputs for d in b.shape if isinstance(d, str)}
        self._free: list[Stoppable] = []
        each = max(1, self._operations // UNKNOWN_ROUNDS ** len(self._named))
        shared = smallest_shared_batch(each) if thread_count > 1 else math.inf
        # states and rounds may come from different inputs: their product is below a power of the largest size
        self.fewest = max(1, int(min(shared, LONG_CALL / each) ** (1 / (1 + len(self._named)))))
        """States, or numbers of an input whose size comes with the call, below which no call is large."""
        self.longest = LONG_CALL * UNKNOWN_ROUNDS // self._operations if len(self._named) == 1 else 0
        """Size of the one dimension that comes with the call up to which a call with one state is not long; 0 if there
        is not one."""

    def run(
        self, inputs: Sequence[Any], out: Sequence[Any] | None, batch: tuple[int, ...], sizes: Mapping[str, int]
    ) -> Any:
        """The results of the ufunc for these arrays.

        Args:
            inputs: arrays that broadcast to the batch.
            out: for each output an array that overlaps no input, or None where one is to be made; None: make all.
            batch: dimensions of the batch.
            sizes: of named dimensions.
        """
        states = math.prod(batch)
        operations = self._operations * math.prod(sizes[d] / UNKNOWN_ROUNDS for d in self._named)
        shared = self._threads > 1 and states >= smallest_shared_batch(max(1, int(operations)))
        long = states * operations > LONG_CALL
        if not (shared or long):
            return self._ufunc(*inputs) if out is None else self._ufunc(*inputs, out=tuple(out))
        shapes = [(*batch, *(sizes[d] if isinstance(d, str) else d for d in b.shape)) for b in self._engine.outputs]
        given = [None] * len(shapes) if out is None else list(out)
        usual = all(_is_plain(x) for x in inputs) and all(
            y is None or (_is_plain(y) and y.shape == shape) for y, shape in zip(given, shapes, strict=True)
        )
        if not usual:  # NumPy knows best what to do, or what to refuse
            return self._ufunc(*inputs) if out is None else self._ufunc(*inputs, out=tuple(given))
        results = [
            np.empty(shape, np.int64 if b.integer else self._engine.kernel.options.dtype) if y is None else y
            for y, b, shape in zip(given, self._engine.outputs, shapes, strict=True)
        ]
        parts = self._threads * math.ceil(states * operations / LONG_CALL / self._threads)
        width = self._engine.kernel.width
        regions = list(split(tuple(slice(0, n) for n in batch), max(width, states // parts), width))
        self._run_regions(regions, inputs, results, stoppable=long and bool(self._named))
        # as a ufunc does: a number where an array would have no dimension, unless it was given
        outcome = tuple(x if x.ndim or y is not None else x[()] for x, y in zip(results, given, strict=True))
        return outcome[0] if len(outcome) == 1 else outcome

    def _run_regions(
        self, regions: Sequence[Region], inputs: Sequence[Any], results: Sequence[Any], stoppable: bool
    ) -> None:
        own = self._take() if stoppable else None
        ufunc = self._ufunc if own is None else own.ufunc
        tasks = [
            partial(
                ufunc,
                *[_part(x, len(b.shape), region) for x, b in zip(inputs, self._engine.inputs, strict=True)],
                out=tuple(y[(*region, ...)] for y in results),
            )
            for region in regions
        ]
        run_all(tasks, self._threads, None if own is None else own.stop)
        if own is not None:
            self._free.append(own)  # one that was stopped is not used again

    def _take(self) -> Stoppable:
        try:
            return self._free.pop().renew()
        except IndexError:
            return Stoppable(self._engine)


def split(region: Region, most: int, multiple: int) -> Iterator[Region]:
    """Cut a region into parts of about ``most`` states, at multiples of a number where that fits."""
    sizes = [s.stop - s.start for s in region]
    parts = min(max(sizes, default=1), round(math.prod(sizes) / most))
    if parts <= 1:
        yield region
        return
    axis = sizes.index(max(sizes))
    start, size = region[axis].start, sizes[axis]
    unit = multiple if size >= parts * multiple else 1
    groups = -(-size // unit)
    cuts = [start + min(size, groups * i // parts * unit) for i in range(parts + 1)]
    for first, last in pairwise(cuts):
        yield from split((*region[:axis], slice(first, last), *region[axis + 1 :]), most, multiple)


def _part(array: Any, core: int, region: Region) -> Any:
    """The part of an input that belongs to a region; along dimensions in which it is broadcast, all of it."""
    own = array.ndim - core
    places = zip(array.shape[:own], region[len(region) - own :], strict=True)
    return array[(*(slice(None) if size == 1 else place for size, place in places), ...)]


def _is_plain(array: Any) -> bool:
    return type(array) is np.ndarray
