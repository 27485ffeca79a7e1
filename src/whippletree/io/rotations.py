"""Rotations as files write them, turned into matrices, and freed of rounding noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.spatial.vectors import ROTATION_NOISE


def from_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Rotation (3, 3) of fixed-axis angles: first roll about x, then pitch about y, then yaw about z."""
    cr, sr, cp, sp, cy, sy = (f(angle) for angle in (roll, pitch, yaw) for f in (math.cos, math.sin))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def from_quaternion(wxyz: Sequence[float] | Array) -> Array:
    """Rotation (3, 3) of a quaternion (w, x, y, z) of any length but zero."""
    numbers = [float(c) for c in wxyz]
    largest = max(abs(c) for c in numbers)
    # squares of very long or short ones would overflow or vanish; a power of two changes no digit of the others
    w, x, y, z = numbers if 1e-100 < largest < 1e100 else (math.ldexp(c, -math.frexp(largest)[1]) for c in numbers)
    s = 2 / (w * w + x * x + y * y + z * z)
    return np.array(
        [
            [1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
            [s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)],
            [s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)],
        ]
    )


def about(axis: Sequence[float] | Array, angle: float) -> Array:
    """Rotation (3, 3) by an angle about a unit axis."""
    x, y, z = (float(c) for c in axis)
    half = math.sin(angle / 2)
    return from_quaternion((math.cos(angle / 2), half * x, half * y, half * z))


def z_towards(direction: Sequence[float] | Array) -> Array:
    """Rotation (3, 3) by the least angle that turns z into a direction, which need not have unit length."""
    x, y, z = np.array(direction, dtype=float) / np.linalg.norm(np.array(direction, dtype=float))
    across = math.hypot(x, y)
    if not across:
        return np.diag([1.0, math.copysign(1.0, z), math.copysign(1.0, z)])
    return about((-y / across, x / across, 0.0), math.atan2(across, z))


def snap(numbers: Array) -> Array:
    """The numbers, those that are noise beside 0 or ±1 set to exactly that."""
    nearest = np.round(numbers)
    noisy = np.abs(numbers - nearest) <= ROTATION_NOISE
    return np.asarray(np.where(noisy, nearest, numbers) + 0.0)  # + 0.0 turns −0.0 into 0.0


def clean(rotation: Array) -> tuple[Array, bool]:
    """The rotation without noise, and whether any entry moved."""
    cleaned = snap(rotation)
    return cleaned, bool(np.any(cleaned != rotation))


def product(a: Array, b: Array) -> Array:
    """a b of a matrix and a matrix or vector of floats, each entry rounded once.

    ``@`` leaves it to the processor's own linear algebra how it rounds: which entries come out as exactly 0 or 1, and
    so the code that is made of them, would differ from machine to machine.
    """
    if np.array_equal(a, np.eye(len(a))):
        return np.array(b, dtype=float)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return np.asarray(a @ b)
    exactly = np.vectorize(Fraction, otypes=[object])
    try:
        return np.asarray(exactly(a) @ exactly(b), dtype=float)
    except OverflowError:  # what is infinite is refused with its body
        return np.asarray(a @ b)


def rotate_inertia(rotation: Array, inertia: Any) -> Array:
    """R I Rᵀ, exactly symmetric; I itself where R is the identity."""
    inertia = np.array(inertia, dtype=float)
    if np.array_equal(rotation, np.eye(3)):
        return np.array(inertia)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused with the body
        turned = product(product(rotation, inertia), rotation.T)
        symmetric: Array = (turned + turned.T) / 2
    return symmetric
