"""Anything that a caller may hand over for an array: lists, text, other types, other shapes, numbers without end."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


class Sub(np.ndarray):
    """A subclass that changes nothing."""


class Sequence:
    """Long enough, and then not there."""

    def __len__(self):
        return 3

    def __getitem__(self, number):
        raise KeyError(number)


def strange(rng, shape):
    """Something for an input of that shape, of which most is wrong."""
    x = rng.normal(size=shape)
    batch = tuple(int(n) for n in rng.integers(0, 4, size=rng.integers(1, 3)))
    more = rng.normal(size=batch + shape)
    choices = [
        lambda: x.tolist(), lambda: more, lambda: more[..., ::-1] if shape else more, lambda: x.view(Sub),
        lambda: x[..., :-1] if shape else np.zeros(2), lambda: np.zeros((*shape, 2)), lambda: [[1.0], [1.0, 2.0]],
        lambda: None, lambda: "q", lambda: b"q", lambda: {"a": 1}, lambda: {1.0, 2.0}, lambda: iter([1.0]), object,
        lambda: type, Sequence, lambda: 10**400, lambda: np.full(shape, 10**400, dtype=object),
        lambda: [10**400] * x.size, lambda: np.full(shape, None), lambda: x + 1j, lambda: x > 0,
        lambda: (3 * x).astype(int), lambda: x * np.nan, lambda: x * np.inf, lambda: x.astype(np.float16),
        lambda: x.astype(np.float32), lambda: x.astype(np.longdouble), lambda: x.astype(">f8"),
        lambda: np.ma.masked_array(x, mask=rng.random(shape) < 0.3), lambda: np.ma.masked_array(x),
        lambda: np.matrix(x) if x.ndim in (1, 2) else x, lambda: np.zeros(shape, "S3"),
        lambda: np.zeros(shape, "datetime64[s]"), lambda: np.zeros(shape, dtype=[("a", float)]),
        lambda: np.vectorize(Fraction, otypes=[object])(np.round(x, 2)) if x.size else x,
    ]  # fmt: skip
    return choices[rng.integers(len(choices))]()


def argument(rng, shape):
    """Something for an input of that shape, of which much is wrong."""
    return strange(rng, shape) if rng.random() < 0.6 else rng.normal(size=shape)


def target(rng, shapes, inputs):
    """Something for ``out``."""
    good = tuple(np.empty(s) for s in shapes)
    choices = [
        lambda: None, lambda: good, lambda: good[0], lambda: np.empty(3), lambda: [1.0], lambda: "out", tuple,
        lambda: tuple(np.empty(s, int) for s in shapes), lambda: tuple(np.empty((2, *s)) for s in shapes),
        lambda: inputs[0], lambda: (good[0],) * (len(good) + 1), lambda: (None,) * len(good),
        lambda: tuple(np.ma.masked_array(y) for y in good), lambda: tuple(y.tolist() for y in good),
    ]  # fmt: skip
    return choices[rng.integers(len(choices))]()
