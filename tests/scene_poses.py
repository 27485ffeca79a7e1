"""Where the geometries of a scene of many free bodies are, in plain NumPy."""

import numpy as np

from whippletree.simulation.time_stepping.pair_lists import rotations


def with_world(q):
    """Coordinates (bodies + 1, 7) of all bodies and of the world, from q (nq,)."""
    return np.concatenate([np.asarray(q, dtype=float).reshape(-1, 7), [[0, 0, 0, 1, 0, 0, 0]]])


def poses_of_geometries(layout, q):
    """Rotations and positions in the world, (geometries, 3, 4), at q (bodies + 1, 7)."""
    placed = layout.placements[:, :9].reshape(-1, 3, 3)
    turned, moved = placed @ rotations(q[:, 3:]), np.einsum("nij,nj->ni", placed, q[:, :3]) + layout.placements[:, 9:]
    found = turned[layout.nodes] @ layout.local
    found[:, :, 3] += moved[layout.nodes]
    return found
