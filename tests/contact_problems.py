"""Random contact problems of every kind: planar and spatial, redundant, with limits, joint friction and loops."""

from __future__ import annotations

import numpy as np

from whippletree.contact.problem.contact_problem import ContactProblem

Array = np.ndarray


def mixed_problem(seed: int, spread: float, most: int = 60) -> ContactProblem:
    """A system of 3 to 60 freedoms with masses over ``spread`` orders of magnitude and 1 to ``most`` blocks.

    Blocks are contacts with friction from 0 to 2, joint limits and joint frictions; some are copies of others, as the
    second of two corners at one place. Some systems have bilateral constraints, which act through M† as in a model.
    """
    rng = np.random.default_rng(seed)
    blocks, freedoms = int(rng.integers(1, most + 1)), int(rng.integers(3, 61))
    J, friction, cap = rows_of(rng, blocks, freedoms, planar=bool(rng.uniform() < 0.3))
    inverse = dagger(rng, 10 ** rng.uniform(-spread / 2, spread / 2, freedoms))
    flat = J.reshape(3 * blocks, freedoms)
    g = J @ (inverse @ (inverse_scale(inverse) * rng.normal(size=freedoms)))
    return ContactProblem(_symmetric(flat @ inverse @ flat.T).reshape(blocks, 3, blocks, 3), g, friction, cap)


def rows_of(rng: np.random.Generator, blocks: int, freedoms: int, planar: bool) -> tuple[Array, Array, Array]:
    """J (blocks, 3, freedoms), friction and cap (blocks,)."""
    J = rng.normal(size=(blocks, 3, freedoms)) * (rng.uniform(size=(blocks, 1, freedoms)) < rng.uniform(0.2, 1))
    if planar:
        J[:, 2] = 0.0
    friction, cap = rng.choice([0.0, 0.1, 0.5, 1.0, 2.0], blocks), np.zeros(blocks)
    for i, kind in enumerate(rng.uniform(size=blocks)):
        axis = int(rng.integers(freedoms))
        if kind < 0.15:  # a joint limit
            J[i], friction[i] = 0.0, 0.0
            J[i, 0, axis] = rng.choice([-1.0, 1.0])
        elif kind < 0.3:  # dry friction of a joint
            J[i], friction[i], cap[i] = 0.0, 0.0, rng.uniform(0.01, 1)
            J[i, 1, axis] = 1.0
        elif i and kind < 0.4:  # a second contact at the same place
            J[i], friction[i], cap[i] = J[i - 1], friction[i - 1], cap[i - 1]
    return J, friction, cap


def dagger(rng: np.random.Generator, masses: Array) -> Array:
    """M†: M⁻¹, or that of a system with a few bilateral constraints."""
    inverse = np.diag(1 / masses)
    count = int(rng.integers(0, 1 + len(masses) // 3)) if rng.uniform() < 0.5 else 0
    if count:
        A = rng.normal(size=(count, len(masses)))
        weighted = np.linalg.qr((A / np.sqrt(masses)).T)[0]
        inverse = (np.eye(len(masses)) - weighted @ weighted.T) / np.sqrt(np.outer(masses, masses))
    return inverse


def inverse_scale(inverse: Array) -> Array:
    """Momenta that lead to velocities of the order of one."""
    diagonal = np.diag(inverse)
    return np.asarray(1 / np.where(diagonal > 0, diagonal, 1.0))


def _symmetric(G: Array) -> Array:
    return np.asarray((G + G.T) / 2)
