"""Large calls in pieces: some of the states each, for several threads, and so that Ctrl-C is answered between them.

No bit depends on the split: a state has the same bits in any batch. A call whose single states take long, a roll-out,
cannot be cut finely enough; its loops over time look at a flag (:class:`~whippletree.compiler.cpu.ufunc.Stoppable`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from whippletree.compiler.cpu import threads
from whippletree.compiler.cpu.ufunc import Stoppable, UfuncEngine
from whippletree.compiler.llvm.kernel import UNKNOWN_ROUNDS

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
        shared = threads.smallest_shared_batch(each) if thread_count > 1 else math.inf
        # states and rounds may come from different inputs: their product is below a power of the largest size
        self.fewest = max(1, int(min(shared, LONG_CALL / each) ** (1 / (1 + len(self._named)))))
        """Numbers in the largest input below which no call is large."""

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
        shared = self._threads > 1 and states >= threads.smallest_shared_batch(max(1, int(operations)))
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
        told = tuple(x if x.ndim or y is not None else x[()] for x, y in zip(results, given, strict=True))
        return told[0] if len(told) == 1 else told

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
        threads.run_all(tasks, self._threads, None if own is None else own.stop)
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
