"""Which values the parameters take in which run: grids, lists side by side, random and quasi-random draws.

A design of 10⁸ runs is never written down: any stretch of it follows from its numbers alone, wherever and in whichever
order the stretches are asked for. Random draws come in blocks of :data:`BLOCK` runs with a generator each.

    grid              every combination; the last parameter changes fastest
    zip               the k-th value of every parameter
    random            independent draws
    sobol             a scrambled Sobol' sequence
    latin_hypercube   every value once in each of ``runs`` equal shares
    saltelli          draws in pairs from which first-order and total Sobol' indices follow
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import NameLookupError, did_you_mean

DRAWN = ("random", "sobol", "latin_hypercube", "saltelli")
KINDS = ("grid", "zip", *DRAWN)

BLOCK = 4096
"""Runs that share a generator of random numbers: few enough to be drawn at once, many enough to draw fast."""

LARGEST_HYPERCUBE = 10_000_000
"""Runs of a latin hypercube, each of whose parameters is a permutation of them all."""


@dataclass(frozen=True, eq=False)
class DesignAxis:
    """One parameter: a list of its values, or a distribution from which they are drawn."""

    path: str
    values: tuple[Any, ...] = ()
    distribution: Any = None
    """With ``ppf``, as those of ``scipy.stats`` have; None for a list."""

    def at(self, shares: Array) -> list[Any]:
        """Values at these shares of probability, (n,); those of a list are equally likely."""
        if self.distribution is not None:
            return list(np.asarray(self.distribution.ppf(shares), dtype=float))
        numbers = np.minimum((shares * len(self.values)).astype(int), len(self.values) - 1)
        return [self.values[k] for k in numbers]


@dataclass(frozen=True, eq=False)
class Design:
    """The values of every parameter in every run."""

    kind: str
    axes: tuple[DesignAxis, ...]
    runs: int
    seed: int = 0

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(axis.path for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the grid; one number, how many runs there are, for every other kind."""
        return tuple(len(axis.values) for axis in self.axes) if self.kind == "grid" else (self.runs,)

    def values(self, first: int, last: int) -> dict[str, list[Any]]:
        """Values in the runs from ``first`` up to ``last``, by parameter."""
        if self.kind == "grid":
            places = np.unravel_index(np.arange(first, last), self.shape)
            return {axis.path: [axis.values[k] for k in place] for axis, place in zip(self.axes, places)}
        if self.kind == "zip":
            return {axis.path: list(axis.values[first:last]) for axis in self.axes}
        shares = self._shares(first, last)
        return {axis.path: axis.at(shares[:, j]) for j, axis in enumerate(self.axes)}

    def _shares(self, first: int, last: int) -> Array:
        """Shares of probability (runs, parameters) in (0, 1)."""
        if self.kind == "sobol":
            return self._sobol(first, last, len(self.axes))
        if self.kind == "latin_hypercube":
            return self._hypercube[first:last]
        if self.kind == "saltelli":
            return self._saltelli(first, last)
        blocks = range(first // BLOCK, -(-last // BLOCK))
        drawn = [self._generator(k).random((BLOCK, len(self.axes))) for k in blocks]
        start = first - (first // BLOCK) * BLOCK
        return np.concatenate(drawn)[start : start + last - first]

    def _sobol(self, first: int, last: int, width: int) -> Array:
        from scipy.stats import qmc

        sequence = qmc.Sobol(width, scramble=True, rng=np.random.default_rng([self.seed, 0]))
        if first:
            sequence.fast_forward(first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a part of the sequence need not be balanced
            return np.asarray(sequence.random(last - first))

    def _saltelli(self, first: int, last: int) -> Array:
        """Runs in groups of d + 2: A, B, and A with one column of B for each parameter."""
        d = len(self.axes)
        groups = range(first // (d + 2), -(-last // (d + 2)))
        both = self._sobol(groups.start, groups.stop, 2 * d)
        rows = np.repeat(both[:, None, :d], d + 2, axis=1)
        rows[:, 1] = both[:, d:]
        for j in range(d):
            rows[:, 2 + j, j] = both[:, d + j]
        start = first - groups.start * (d + 2)
        return rows.reshape(-1, d)[start : start + last - first]

    @cached_property
    def _hypercube(self) -> Array:
        random = self._generator(0)
        rows = np.stack([random.permutation(self.runs) for _ in self.axes], axis=1)
        return np.asarray((rows + random.random(rows.shape)) / self.runs)

    def _generator(self, block: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, 1, block])


def design_of(parameters: Any, kind: str | None, runs: int | None, seed: int) -> Design:
    """The design that a user describes.

    Args:
        parameters: values by path: a list, a distribution of ``scipy.stats`` (anything with ``ppf``), or one value; or
            a data frame, whose columns stand side by side.
        kind: a name of :data:`KINDS`; default ``zip`` for a data frame, ``random`` where something is drawn, else
            ``grid``.
        runs: how many draws; of ``saltelli`` rounded up to whole groups.
        seed: of the draws.
    """
    frame = hasattr(parameters, "columns")
    columns = {str(name): list(parameters[name]) for name in parameters.columns} if frame else parameters
    if not isinstance(columns, Mapping) or not columns:
        raise ValueError(
            f"sweep: parameters are {parameters!r}, expected values by path, such as {{'q0.crank': [0, 1]}}"
        )
    axes = tuple(_axis(str(path), given) for path, given in columns.items())
    drawn = [axis.path for axis in axes if axis.distribution is not None]
    kind = kind or ("zip" if frame else "random" if drawn else "grid")
    if kind not in KINDS:
        raise NameLookupError("design", kind, KINDS, where="sweep")
    if kind not in DRAWN and drawn:
        raise ValueError(
            f"sweep: {', '.join(drawn)} is drawn from a distribution, which design={kind!r} has no use for"
        )
    if kind in DRAWN:
        return Design(kind, axes, _whole_groups(kind, runs, len(axes)), seed)
    if runs is not None:
        raise ValueError(f"sweep: runs={runs} is for designs that are drawn ({', '.join(DRAWN)}), not for {kind!r}")
    return Design(kind, axes, _listed_runs(kind, axes), seed)


def _axis(path: str, given: Any) -> DesignAxis:
    if hasattr(given, "ppf"):
        return DesignAxis(path, distribution=given)
    values = (
        tuple(given) if isinstance(given, (Sequence, np.ndarray, range)) and not isinstance(given, str) else (given,)
    )
    if not values:
        raise ValueError(f"sweep: parameter {path!r} has an empty list of values: give at least one")
    return DesignAxis(path, tuple(value.item() if isinstance(value, np.generic) else value for value in values))


def _listed_runs(kind: str, axes: Sequence[DesignAxis]) -> int:
    counts = {axis.path: len(axis.values) for axis in axes}
    if kind == "grid":
        return math.prod(counts.values())
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"sweep: design='zip' takes lists of one length, got {', '.join(f'{p}: {n}' for p, n in counts.items())}"
        )
    return next(iter(counts.values()))


def _whole_groups(kind: str, runs: int | None, width: int) -> int:
    if not isinstance(runs, (int, np.integer)) or isinstance(runs, bool) or runs < 1:
        raise ValueError(f"sweep: design={kind!r} needs runs=, a whole number from 1, got {runs!r}")
    if kind == "latin_hypercube" and runs > LARGEST_HYPERCUBE:
        raise ValueError(f"sweep: a latin hypercube of {runs} runs is too large to permute: use design='sobol'")
    return -(-int(runs) // (width + 2)) * (width + 2) if kind == "saltelli" else int(runs)


def distribution_named(table: Mapping[str, Any], where: str) -> Any:
    """A distribution of ``scipy.stats`` from a file: ``{distribution = "norm", loc = 1.0, scale = 0.1}``."""
    from scipy import stats

    words = dict(table)
    name = words.pop("distribution", None)
    known = [word for word in dir(stats) if isinstance(getattr(stats, word), stats.rv_continuous)]
    if name not in known:
        raise ValueError(f"{where}: there is no distribution {name!r} in scipy.stats{did_you_mean(str(name), known)}")
    try:
        return getattr(stats, name)(**words)
    except TypeError as error:
        raise ValueError(f"{where}: distribution {name!r}: {error}") from None
