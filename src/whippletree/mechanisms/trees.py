"""Trees: pendulums, chains, a cart-pole and random trees, with the helpers that the other mechanisms share."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError
from whippletree.model import WORLD, Model
from whippletree.model.builder import Builder
from whippletree.spatial import quaternion_rotation
from whippletree.spatial.joints import KINDS

PLANAR_GRAVITY = (0, -9.81, 0)
"""m/s²: y is up."""


def pendulum(length: Any = 1.0, *, mass: Any = 1.0) -> Model:
    """A point mass at the end of a massless rod; frame ``tip`` at the mass."""
    return (
        Builder("pendulum", PLANAR_GRAVITY)
        .body("rod", mass=mass, center=(length, 0, 0))
        .joint("hinge", "revolute", WORLD, "rod")
        .frame("tip", "rod", position=(length, 0, 0))
        .build()
    )


def double_pendulum(lengths: Sequence[Any] = (1.0, 1.0), *, masses: Sequence[Any] = (1.0, 1.0)) -> Model:
    """Two point masses at the ends of two massless rods, with relative angles; frame ``tip`` at the second mass."""
    (first, second), (upper, lower) = _pair("lengths", lengths), _pair("masses", masses)
    return (
        Builder("double pendulum", PLANAR_GRAVITY)
        .body("upper", mass=upper, center=(first, 0, 0))
        .body("lower", mass=lower, center=(second, 0, 0))
        .joint("shoulder", "revolute", WORLD, "upper")
        .joint("elbow", "revolute", "upper", "lower", position=(first, 0, 0))
        .frame("tip", "lower", position=(second, 0, 0))
        .build()
    )


def chain(n: int, *, mass: Any = 1.0, length: Any = 1.0) -> Model:
    """A planar chain of n equal, uniform, slender rods with relative angles; frame ``tip`` at its end.

    At q = 0 it is straight; the mass matrix there, for 4 rods of 2.207 kg and 1 m, is the one that document 004 prints.
    """
    require_count("chain", n)
    builder = Builder(f"chain of {n} rods", PLANAR_GRAVITY)
    for k in range(1, n + 1):
        parent = f"rod_{k - 1}" if k > 1 else WORLD
        builder.body(f"rod_{k}", mass, (length / 2, 0, 0), rod_inertia(mass, length))
        builder.joint(f"joint_{k}", "revolute", parent, f"rod_{k}", position=(length if k > 1 else 0, 0, 0))
    return builder.frame("tip", f"rod_{n}", position=(length, 0, 0)).build()


def cart_pole(cart_mass: Any = 1.0, *, pole_mass: Any = 0.1, pole_length: Any = 1.0) -> Model:
    """A uniform pole hinged on a cart that slides along x; the pole stands up at angle 0; frame ``tip`` at its end."""
    standing = rod_inertia(pole_mass, pole_length)
    return (
        Builder("cart-pole", PLANAR_GRAVITY)
        .body("cart", mass=cart_mass)
        .body("pole", pole_mass, (0, pole_length / 2, 0), (standing[1], standing[0], standing[2]))
        .joint("slide", "prismatic", WORLD, "cart", axis=(1, 0, 0))
        .joint("hinge", "revolute", "cart", "pole")
        .frame("tip", "pole", position=(0, pole_length, 0))
        .build()
    )


def tree(n: int, *, seed: int = 0, kinds: Sequence[str] = KINDS) -> Model:
    """A random branching tree of n bodies in space, with joints of mixed kinds about any axes.

    The same numbers for the same ``n``, ``seed`` and ``kinds``. Each body hangs from any earlier one or from the world,
    so there may be several trees; gravity is (0, 0, −9.81).
    """
    require_count("tree", n)
    random = np.random.default_rng(seed)
    builder = Builder(f"tree of {n} bodies, seed {seed}")
    for k in range(1, n + 1):
        mass = random.uniform(0.2, 3.0)
        builder.body(f"body_{k}", mass, random.normal(scale=0.2, size=3), _random_inertia(random, mass))
        parent = int(random.integers(0, k))
        builder.joint(
            f"joint_{k}",
            str(random.choice(list(kinds))),
            f"body_{parent}" if parent else WORLD,
            f"body_{k}",
            position=random.normal(scale=0.4, size=3),
            rotation=quaternion_rotation(*_random_unit(random, 4)),
            axis=_random_unit(random, 3),
            second_axis=_random_unit(random, 3),
            pitch=random.uniform(0.05, 0.3),
        )
    return builder.build()


def rod_inertia(mass: Any, length: Any) -> tuple[Any, Any, Any]:
    """Rotational inertia of a uniform slender rod along x about its centre, (xx, yy, zz) in kg m²."""
    across = mass * length * length / 12
    return (0, across, across)


def _random_unit(random: np.random.Generator, size: int) -> Array:
    direction = random.normal(size=size)
    return np.asarray(direction / np.linalg.norm(direction))


def _random_inertia(random: np.random.Generator, mass: float) -> Array:
    """The inertia of a random distribution of mass: tr(S) 1 − S for a positive definite second moment S."""
    spread = random.normal(scale=0.15, size=(3, 3))
    S = mass * (spread @ spread.T + 0.002 * np.eye(3))
    return np.asarray(np.trace(S) * np.eye(3) - S)


def _pair(what: str, values: Sequence[Any]) -> tuple[Any, Any]:
    if len(values) != 2:
        raise ModelError("double_pendulum", [f"{what} has {len(values)} entries, expected 2"])
    return values[0], values[1]


def require_count(mechanism: str, n: int, least: int = 1, word: str = "n") -> None:
    """Refuse a number of parts that is none, or too small."""
    if not isinstance(n, Integral):
        raise ModelError(mechanism, [f"{word} is {n!r}, expected a whole number"])
    if n < least:
        raise ModelError(mechanism, [f"{word} is {n}, expected at least {least}"])
