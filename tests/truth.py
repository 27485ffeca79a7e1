"""The truth about accelerations: the same source on many digits."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from whippletree.functions.reference import reference
from whippletree.model import Model
from whippletree.model.parameters import with_scalars

DIGITS = 120
"""Masses and lengths of hostile mechanisms span eighteen orders of magnitude each."""


def true_error(model: Model, state: tuple[Any, Any, Any], a: Any, smallest: float = 0.0) -> float:
    """‖a − truth‖ / ‖truth‖ of accelerations at (q, v, tau), the truth by the block matrix of a model with loops;
    a truth shorter than ``smallest`` counts as this long."""
    with mpmath.workdps(DIGITS):
        exact = [np.array([mpmath.mpf(float(x)) for x in part], dtype=object) for part in state]
        # its own numbers too: products and sums of constants are rounded like others
        same = with_scalars(model, mpmath.mpf)
        truth = reference(same, route="block" if model.constraints else None).forward_dynamics(*exact)
        error = mpmath.sqrt(sum((mpmath.mpf(float(x)) - y) ** 2 for x, y in zip(a, truth, strict=True)))
        length = mpmath.sqrt(sum(y * y for y in truth))
        return float(error / max(length, smallest or mpmath.mpf(10) ** -300))
