"""What "the same" means for floats in these tests: differences by the scale of what was added up."""

import numpy as np

EPS = np.finfo(float).eps


def close(x, y, scale=None, ulps=2000):
    """|x − y| ≤ ulps · eps · scale, entry by entry; the scale is the largest entry of y unless it is given."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    assert x.shape == y.shape
    scale = np.abs(y).max(initial=0) if scale is None else scale
    assert np.all(np.abs(x - y) <= ulps * EPS * scale), np.abs(x - y).max() / (EPS * np.max(scale))


def residual_scale(M, a, *forces):
    """The magnitudes that meet in M a + c − tau, row by row."""
    return np.abs(M) @ np.abs(a) + sum(np.abs(f) for f in forces)
